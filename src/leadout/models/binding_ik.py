"""The ik provider: ik_llama.cpp through the wheel `ik-llama-cpp-python`.

The wheel's Python file declares decoding and batches; the cache, state and vocabulary functions used here are
exported by its library and declared in `_functions`. Written for 0.1.5.

Two traits of this version shape what is here. Where slots share a cache it computes wrong logits once
entries are out of order (its flash attention even ends the process), so every slot gets a cache of its own.
And flash attention stays off unless it is asked for: off, 1 to 16 tokens a pass cost the same or less and
have the same bits at every width; on, they do not where a pass crosses a multiple of 256 positions. It pays
when long prompts are read.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import platform
import threading
from collections.abc import Callable
from ctypes import (
    c_bool,
    c_char_p,
    c_int32,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from dataclasses import dataclass
from functools import cache
from typing import Any

from leadout.errors import ModelFileError, ProviderError
from leadout.models.binding import Facts
from leadout.models.binding_native import (
    PIECE_ARGUMENTS,
    TOKENIZE_ARGUMENTS,
    ContextHandle,
    Functions,
    LogCallback,
    LogTail,
    NativeBinding,
    declare,
)
from leadout.models.cache_size import CacheSize, cache_size
from leadout.models.cpu import read_cpu, usable_cores
from leadout.models.header import Header
from leadout.models.ik_limits import (
    KV_TYPES,
    PLACES_OF_CACHE,
    PLACES_OF_MODEL,
    Places,
    check_cpu,
    check_model,
    check_options,
    uses_flash_attention,
)
from leadout.models.options import GgufOptions

# From 32 tokens on this version takes kernels that give wrong logits for some formats (q4_1: by 24); below,
# every width has the bits of single tokens. Reading a prompt costs up to 1.7 times as long.
_MAX_UBATCH = 31


@dataclass(frozen=True, slots=True, kw_only=True)
class _Library:
    api: Any
    functions: Functions
    native: ctypes.CDLL
    log: LogTail
    lock: threading.Lock
    places: Places
    version: str
    system_info: str


def check(header: Header, options: GgufOptions) -> None:
    """Refuse what the library is known not to do, without loading it.

    Raises
    ------
    ProviderError
        If the CPU or the architecture does not fit, or an option cannot be honoured.
    """
    check_cpu(read_cpu(), platform.machine())
    check_model(header)
    check_options(header, options)


def size_of_cache(header: Header, options: GgufOptions) -> CacheSize:
    """What the caches of all slots will take."""
    return cache_size(
        header,
        options,
        work_width=min(options.n_batch, _MAX_UBATCH),
        n_rows=options.n_slots,
        is_flash=uses_flash_attention(options),
    )


def load(header: Header, options: GgufOptions) -> NativeBinding:
    """Load a GGUF file.

    Raises
    ------
    ProviderError
        If the package is missing, the CPU or the architecture does not fit, or an option cannot be honoured.
    ModelFileError
        If the library cannot load the file; its last errors are quoted.
    """
    check(header, options)
    library = _library()
    parameters = library.api.llama_model_default_params()
    parameters.n_gpu_layers = 0
    parameters.use_mmap = options.use_mmap
    parameters.use_mlock = options.use_mlock
    library.places.take(PLACES_OF_MODEL)
    with library.lock:
        library.log.clear()
        model = library.api.llama_model_load_from_file(os.fsencode(header.path), parameters)
        if not model:
            library.places.give_back(PLACES_OF_MODEL)
            why = library.log.text() or "no reason given"
            raise ModelFileError(f"the ik provider cannot load {header.path}: {why}")
    facts = _facts(library, model, header.architecture, options)
    return NativeBinding(
        library.functions,
        model=model,
        vocab=model,
        facts=facts,
        log=library.log,
        batch_type=library.api.llama_batch,
        make_context=lambda n_ctx, n_slots: _make_context(library, model, options, n_ctx, n_slots),
    )


@cache  # one library per process: its log callback and backend are process-wide too
def _library() -> _Library:
    try:
        from ik_llama_cpp import _ctypes_api as api
    except ImportError as error:
        raise ProviderError(
            "the ik provider needs ik-llama-cpp-python; install it with: pip install 'leadout[ik]'"
        ) from error
    except OSError as error:
        raise ProviderError(f"the library of ik-llama-cpp-python does not load here: {error}") from error
    native: ctypes.CDLL = api._lib
    log = LogTail()
    declare(native, "llama_log_set", None, LogCallback, c_void_p)(log.callback, None)
    api.llama_backend_init()
    places = Places()
    return _Library(
        api=api,
        functions=_functions(api, native, places),
        native=native,
        log=log,
        lock=threading.Lock(),
        places=places,
        version=importlib.metadata.version("ik-llama-cpp-python"),
        system_info=declare(native, "llama_print_system_info", c_char_p)().decode(),
    )


def _functions(api: Any, native: ctypes.CDLL, places: Places) -> Functions:
    first_position = declare(native, "llama_kv_cache_seq_pos_min", c_int32, c_void_p, c_int32)
    highest_position = declare(native, "llama_kv_cache_seq_pos_max", c_int32, c_void_p, c_int32)

    def last_position(context: int, slot: int) -> int:
        highest: int = highest_position(context, slot)
        # The highest position of an empty slot is 0, as that of one token is; the lowest tells them apart.
        return -1 if highest == 0 and first_position(context, slot) < 0 else highest

    def freeing(name: str, n_places: int) -> Callable[[int], None]:
        free = declare(native, name, None, c_void_p)

        def free_and_give_back(handle: int) -> None:
            free(handle)
            places.give_back(n_places)

        return free_and_give_back

    state = (c_void_p, c_void_p, c_size_t, c_int32, c_uint32)
    seq, size = c_int32, c_size_t
    return Functions(
        decode=declare(native, "llama_decode", c_int32, c_void_p, api.llama_batch),
        logits=declare(native, "llama_get_logits_ith", c_void_p, c_void_p, c_int32),
        remove=declare(native, "llama_kv_cache_seq_rm", c_bool, c_void_p, seq, c_int32, c_int32),
        copy=declare(native, "llama_kv_cache_seq_cp", None, c_void_p, seq, seq, c_int32, c_int32),
        last_position=last_position,
        state_size=declare(native, "llama_state_seq_get_size", c_size_t, c_void_p, seq, c_uint32),
        state_get=declare(native, "llama_state_seq_get_data", c_size_t, *state),
        state_set=declare(native, "llama_state_seq_set_data", c_size_t, *state),
        free_context=freeing("llama_free", PLACES_OF_CACHE),
        free_model=freeing("llama_free_model", PLACES_OF_MODEL),
        metadata=declare(native, "llama_model_meta_val_str", c_int32, c_void_p, c_char_p, c_char_p, size),
        token_text=declare(native, "llama_token_get_text", c_char_p, c_void_p, c_int32),
        token_piece=declare(native, "llama_token_to_piece", c_int32, *PIECE_ARGUMENTS),
        token_is_end=declare(native, "llama_token_is_eog", c_bool, c_void_p, c_int32),
        tokenize=declare(native, "llama_tokenize", c_int32, *TOKENIZE_ARGUMENTS),
    )


def _facts(library: _Library, model: int, architecture: str, options: GgufOptions) -> Facts:
    def ask(name: str, result: Any) -> Any:
        return declare(library.native, name, result, c_void_p)(model)

    vocab = library.api.llama_model_get_vocab(model)
    bos, eos = ask("llama_token_bos", c_int32), ask("llama_token_eos", c_int32)
    adds_bos = declare(library.native, "llama_vocab_get_add_bos", c_bool, c_void_p)(vocab)
    return Facts(
        provider="ik",
        version=library.version,
        settings=library.system_info,
        architecture=architecture,
        n_layers=ask("llama_n_layer", c_int32),
        n_params=ask("llama_model_n_params", c_uint64),
        n_bytes=ask("llama_model_size", c_uint64),
        n_ctx_train=ask("llama_n_ctx_train", c_int32),
        n_vocab=library.api.llama_vocab_n_tokens(vocab),
        n_threads=options.n_threads or usable_cores(),
        memory="attention",
        can_share=False,
        reuses_entries=False,
        bos=bos if bos >= 0 else None,
        eos=eos if eos >= 0 else None,
        adds_bos=adds_bos,
    )


def _make_context(
    library: _Library, model: int, options: GgufOptions, n_ctx: int, n_slots: int
) -> ContextHandle:
    parameters = library.api.llama_context_default_params()
    n_cells = -(-n_ctx * n_slots // 256) * 256  # flash attention works on blocks of 256 positions
    n_threads = options.n_threads or usable_cores()
    parameters.n_ctx = n_cells
    parameters.n_batch = options.n_batch
    parameters.n_ubatch = min(options.n_batch, _MAX_UBATCH)
    parameters.n_seq_max = n_slots
    parameters.n_threads = n_threads
    parameters.n_threads_batch = n_threads
    parameters.flash_attn = uses_flash_attention(options)
    parameters.type_k = KV_TYPES[options.kv_type_k]
    parameters.type_v = KV_TYPES[options.kv_type_v]
    if options.rope_freq_base is not None:
        parameters.rope_freq_base = options.rope_freq_base
    library.places.take(PLACES_OF_CACHE)
    with library.lock:
        library.log.clear()
        context = library.api.llama_init_from_model(model, parameters)
        if not context:
            library.places.give_back(PLACES_OF_CACHE)
            raise ProviderError(
                f"the ik provider cannot make a cache of {n_slots} x {n_ctx} positions: "
                f"{library.log.text() or 'no reason given'}"
            )
    # The library leaves the cache as the memory was: a NaN in an entry not yet written would reach every row.
    library.api.llama_kv_cache_clear(context)
    return ContextHandle(context=context, memory=context, n_batch=options.n_batch, max_rows=options.n_batch)
