"""From a path to a loaded model: the header checked, a provider chosen, the reason kept."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, get_args

from leadout.errors import InputError, ModelFileError, ProviderError
from leadout.models.binding import Binding
from leadout.models.gguf import GgufModel
from leadout.models.header import Header, read_header
from leadout.models.options import GgufOptions

Provider = Literal["auto", "ik", "llama"]

_Load = Callable[[Header, GgufOptions], Binding]


def open_model(
    path: str | Path,
    *,
    name: str | None = None,
    provider: Provider = "auto",
    options: GgufOptions | None = None,
) -> GgufModel:
    """Load a GGUF file.

    Parameters
    ----------
    path : str or Path
        The file, or any part of a split model; ``~`` and relative paths are resolved.
    name : str or None
        What to call the model in reports; None takes the header's name.
    provider : Provider
        "ik" and "llama" name a library; "auto" takes ik for a model on the CPU that it can run, else llama.
        `info.provider` and `info.provider_reason` tell what was taken and why.
    options : GgufOptions or None
        None is the defaults.

    Raises
    ------
    ModelFileError
        If the file is missing, damaged, incomplete or cannot be loaded.
    ProviderError
        If the library is not installed, does not fit this CPU, does not know the model or cannot honour an
        option.
    """
    if provider not in get_args(Provider):
        raise InputError(f"provider is {provider!r}; it must be one of {', '.join(get_args(Provider))}")
    options = options or GgufOptions()
    header = read_header(path)
    name = name or header.name
    if provider == "ik":
        return _open(_load_ik, header, options, name, "asked for")
    if provider == "llama":
        return _open(_load_llama, header, options, name, "asked for")
    return _open_best(header, options, name)


def _open_best(header: Header, options: GgufOptions, name: str) -> GgufModel:
    has_ik, has_llama = find_spec("ik_llama_cpp") is not None, find_spec("llama_cpp") is not None
    if not has_ik and not has_llama:
        raise ProviderError(
            'no library for GGUF files is installed; install one with: pip install "leadout[ik]" '
            '(CPU, nothing to compile) or pip install "leadout[llama]" (GPUs, every architecture)'
        )
    if options.n_gpu_layers != 0:
        return _open(_load_llama, header, options, name, f"n_gpu_layers is {options.n_gpu_layers}")
    if not has_ik:
        return _open(_load_llama, header, options, name, "ik-llama-cpp-python is not installed")
    try:
        return _open(_load_ik, header, options, name, "CPU only: ik verifies several tokens at less cost")
    except (ProviderError, ModelFileError) as error:
        if not has_llama:
            raise
        return _open(_load_llama, header, options, name, f"not ik: {error}")


def _open(load: _Load, header: Header, options: GgufOptions, name: str, reason: str) -> GgufModel:
    binding = load(header, options)
    try:
        return GgufModel(binding, header, options, name=name, provider_reason=reason)
    except BaseException:
        binding.close()
        raise


def _load_ik(header: Header, options: GgufOptions) -> Binding:
    from leadout.models import binding_ik

    return binding_ik.load(header, options)


def _load_llama(header: Header, options: GgufOptions) -> Binding:
    from leadout.models import binding_llama

    return binding_llama.load(header, options)
