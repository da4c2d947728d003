"""Tiny models in a folder whose name has spaces and letters that are not ASCII."""

import pytest
from commands import CHATML

from leadout.testing.tiny_gguf import write_tiny_gguf
from real_models import real_model


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("cli") / "Загрузки мод ель é"
    made.mkdir()
    return made


@pytest.fixture(scope="session")
def tiny(folder):
    """A tiny target with a chat template."""
    return write_tiny_gguf(folder / "tiny.gguf", chat_template=CHATML, n_ctx_train=2048)


@pytest.fixture(scope="session")
def tiny_draft(folder):
    """A tiny draft model that agrees with `tiny` now and then."""
    return write_tiny_gguf(folder / "draft.gguf", perturb=0.1, n_ctx_train=2048)


@pytest.fixture(scope="session")
def smollm2():
    """The real small model."""
    return real_model("smollm2-135m")
