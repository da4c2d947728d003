"""From a path to a loaded model: the header checked, a provider chosen, the reason kept."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Literal, get_args

from leadout.errors import InputError, ModelFileError, ProviderError
from leadout.models import binding_ik, binding_llama
from leadout.models.binding import Binding
from leadout.models.cache_size import CacheSize, require_memory
from leadout.models.free_memory import free_bytes
from leadout.models.gguf import GgufModel
from leadout.models.header import Header, read_header
from leadout.models.interrupts import interrupts_wait
from leadout.models.options import GgufOptions
from leadout.models.trial import require_sound

Provider = Literal["auto", "ik", "llama"]
Library = Literal["ik", "llama"]


def open_model(
    path: str | Path,
    *,
    name: str | None = None,
    provider: Provider = "auto",
    options: GgufOptions | None = None,
    reason: str = "asked for",
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
    reason : str
        Why a library that is named was taken.

    Raises
    ------
    ModelFileError
        If the file is missing, damaged, incomplete or cannot be loaded.
    InputError
        If the cache would not fit into memory.
    ProviderError
        If the library is not installed, does not fit this CPU, does not know the model or cannot honour an
        option.
    """
    if provider not in get_args(Provider):
        raise InputError(f"provider is {provider!r}; it must be one of {', '.join(get_args(Provider))}")
    options = options or GgufOptions()
    header = read_header(path)
    name = name or header.name
    if provider == "auto":
        return _open_best(header, options, name)
    return _open(provider, header, options, name, reason)


def load_binding(library: Library, header: Header, options: GgufOptions) -> Binding:
    """Load a file into a library in this process, tried or not.

    Raises
    ------
    ModelFileError, ProviderError
        As `open_model`.
    """
    if library == "ik":
        return binding_ik.load(header, options)
    return binding_llama.load(header, options)


def check_memory(library: Library, header: Header, options: GgufOptions, *, is_loaded: bool = False) -> None:
    """Refuse what would not fit into the memory that is free now; `is_loaded`: the weights are there already.

    Raises
    ------
    InputError
        Names what it would take, what is free, and the context that would fit.
    """
    is_copied = not is_loaded and not options.use_mmap and options.n_gpu_layers == 0
    require_memory(
        header,
        options,
        size_of_cache(library, header, options),
        free_bytes(),
        n_weight_bytes=header.n_bytes if is_copied else 0,
    )


def size_of_cache(library: Library, header: Header, options: GgufOptions) -> CacheSize:
    """Main memory that the caches of all slots and the work space will take in this library."""
    if library == "ik":
        return binding_ik.size_of_cache(header, options)
    return binding_llama.size_of_cache(header, options)


def likely_library(header: Header, options: GgufOptions, provider: Provider = "auto") -> Library:
    """The library that `open_model` will try first, by what can be known without loading one."""
    if provider != "auto":
        return provider
    if options.n_gpu_layers != 0 or find_spec("ik_llama_cpp") is None:
        return "llama"
    try:
        binding_ik.check(header, options)
    except ProviderError:
        return "llama"
    return "ik"


def _open_best(header: Header, options: GgufOptions, name: str) -> GgufModel:
    has_ik, has_llama = find_spec("ik_llama_cpp") is not None, find_spec("llama_cpp") is not None
    if not has_ik and not has_llama:
        raise ProviderError(
            "no library for GGUF files is installed; install one with: pip install 'leadout[ik]' "
            "(CPU, nothing to compile) or pip install 'leadout[llama]' (GPUs, every architecture)"
        )
    if options.n_gpu_layers != 0:
        return _open("llama", header, options, name, f"n_gpu_layers is {options.n_gpu_layers}")
    if not has_ik:
        return _open("llama", header, options, name, "ik-llama-cpp-python is not installed")
    try:
        return _open("ik", header, options, name, "CPU only: ik verifies several tokens at less cost")
    except (ProviderError, ModelFileError) as error:
        if not has_llama:
            raise
        return _open("llama", header, options, name, f"not ik: {error}")


def _open(library: Library, header: Header, options: GgufOptions, name: str, reason: str) -> GgufModel:
    """Ask everything that may fail in order of cost, so that nothing reaches the library that ends it."""
    if library == "ik":
        binding_ik.check(header, options)
    else:
        binding_llama.check(header)
    require_sound(header, options, library)
    check_memory(library, header, options)
    model = None
    try:
        with interrupts_wait():
            model = _load(library, header, options, name, reason)
    except BaseException:  # an interrupt that waited
        if model is not None:
            model.close()
        raise
    return model


def _load(library: Library, header: Header, options: GgufOptions, name: str, reason: str) -> GgufModel:
    binding = load_binding(library, header, options)
    try:
        check_memory(library, header, options, is_loaded=True)  # with the weights that were copied
        return GgufModel(binding, header, options, name=name, provider_reason=reason)
    except BaseException:
        binding.close()
        raise
