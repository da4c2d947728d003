"""Tiny models of every kind, and the providers to load them with."""

import pytest
from passes import need

from leadout.models.open import open_model
from leadout.models.options import GgufOptions
from leadout.testing.tiny_gguf import write_tiny_gguf

@pytest.fixture(params=["ik", "llama"])
def provider(request):
    need(request.param)
    return request.param


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """Paths of tiny models by architecture."""
    folder = tmp_path_factory.mktemp("tiny")
    names = ("llama", "qwen2", "gemma3", "mamba")
    return {name: write_tiny_gguf(folder / f"{name}.gguf", architecture=name) for name in names}


@pytest.fixture
def load(tiny, provider):
    """Opens a tiny model with the provider under test; closes it when the test ends."""
    opened = []

    def open_tiny(architecture="llama", **options):
        options = {"n_ctx": 128, "n_threads": 1, **options}
        if architecture == "mamba":
            need("llama")
        chosen = "llama" if architecture == "mamba" else provider
        opened.append(open_model(tiny[architecture], provider=chosen, options=GgufOptions(**options)))
        return opened[-1]

    yield open_tiny
    for model in opened:
        model.close()
