"""The llama provider: llama.cpp through the low-level interface of `llama-cpp-python`.

Runs every architecture that llama.cpp knows, and GPUs where the package was built for them.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import threading
from ctypes import c_bool, c_char_p, c_int32, c_size_t, c_uint32, c_void_p
from dataclasses import dataclass
from functools import cache
from typing import Any

from leadout.errors import ModelFileError, ProviderError
from leadout.models.binding import Facts, Memory
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
from leadout.models.cpu import Cpu, parse_system_info, read_cpu, usable_cores
from leadout.models.gguf_format import KNOWN_KINDS
from leadout.models.header import Header
from leadout.models.options import GgufOptions

_KV_TYPES = {
    "f32": 0,
    "f16": 1,
    "q4_0": 2,
    "q4_1": 3,
    "q5_0": 6,
    "q5_1": 7,
    "q8_0": 8,
    "iq4_nl": 20,
    "bf16": 30,
}
_ROPE_SCALING = {"none": 0, "linear": 1, "yarn": 2}
_FLASH_ATTENTION = {"auto": -1, "off": 0, "on": 1}
_LOAD_MODE = {(False, False): 0, (True, False): 1, (False, True): 2, (True, True): 3}  # (mmap, mlock)
_MAX_UBATCH = 512
_ROWS_PER_SLOT, _MIN_ROWS = 32, 64


@dataclass(frozen=True, slots=True, kw_only=True)
class _Library:
    api: Any
    functions: Functions
    log: LogTail
    lock: threading.Lock
    version: str
    system_info: str


def check_cpu(cpu: Cpu, system_info: str) -> None:
    """Refuse a library that was compiled for a better CPU than this one.

    Raises
    ------
    ProviderError
        Names the missing features.
    """
    missing = cpu.lacks(parse_system_info(system_info))
    if missing:
        raise ProviderError(
            f"llama-cpp-python was compiled for a CPU with {', '.join(missing)}, "
            f"which this one ({cpu.model}) lacks; build it here with: "
            "pip install --force-reinstall --no-binary llama-cpp-python llama-cpp-python"
        )


def check(header: Header) -> None:
    """Refuse a file that the library is known not to read, without loading it.

    Raises
    ------
    ProviderError
        Names the number formats that it does not know.
    """
    unknown = sorted(header.tensor_kinds - KNOWN_KINDS)
    if unknown:
        raise ProviderError(
            f"the llama provider does not know tensor type {', '.join(map(str, unknown))} of {header.path}; "
            "if the file was made for ik_llama.cpp, use --provider ik, else fetch it again"
        )


def size_of_cache(header: Header, options: GgufOptions) -> CacheSize:
    """What the caches of all slots will take."""
    return cache_size(
        header,
        options,
        work_width=min(options.n_batch, _MAX_UBATCH),
        n_rows=_max_rows(options, options.n_slots),
        is_flash=options.flash_attn != "off",
    )


def load(header: Header, options: GgufOptions) -> NativeBinding:
    """Load a GGUF file.

    Raises
    ------
    ProviderError
        If the package is missing, was compiled for another CPU, does not know a tensor's format, or an option
        cannot be honoured.
    ModelFileError
        If the library cannot load the file; its last errors are quoted.
    """
    check(header)
    library = _library()
    api = library.api
    if options.n_gpu_layers != 0 and not api.llama_supports_gpu_offload():
        raise ProviderError(
            f"n_gpu_layers is {options.n_gpu_layers}, but this build of llama-cpp-python has no GPU support; "
            "use n_gpu_layers=0 or install a build for your GPU"
        )
    parameters = api.llama_model_default_params()
    parameters.n_gpu_layers = options.n_gpu_layers
    parameters.load_mode = _LOAD_MODE[options.use_mmap, options.use_mlock]
    parameters.use_extra_bufts = not options.exact
    with library.lock:
        library.log.clear()
        model = api.llama_model_load_from_file(os.fsencode(header.path), parameters)
        if not model:
            why = library.log.text() or "no reason given"
            raise ModelFileError(f"the llama provider cannot load {header.path}: {why}")
    vocab = api.llama_model_get_vocab(model)
    return NativeBinding(
        library.functions,
        model=model,
        vocab=vocab,
        facts=_facts(library, model, vocab, header.architecture, options),
        log=library.log,
        batch_type=api.llama_batch,
        make_context=lambda n_ctx, n_slots: _make_context(library, model, options, n_ctx, n_slots),
    )


@cache  # one library per process: its log callback and backend are process-wide too
def _library() -> _Library:
    try:
        from llama_cpp import llama_cpp as api
    except ImportError as error:
        raise ProviderError(
            "the llama provider needs llama-cpp-python; install it with: pip install 'leadout[llama]'"
        ) from error
    except (OSError, RuntimeError) as error:
        raise ProviderError(f"the library of llama-cpp-python does not load here: {error}") from error
    native: ctypes.CDLL = api._lib
    system_info: str = api.llama_print_system_info().decode()
    check_cpu(read_cpu(), system_info)
    log = LogTail()
    declare(native, "llama_log_set", None, LogCallback, c_void_p)(log.callback, None)
    api.llama_backend_init()
    return _Library(
        api=api,
        functions=_functions(api, native),
        log=log,
        lock=threading.Lock(),
        version=importlib.metadata.version("llama-cpp-python"),
        system_info=system_info,
    )


def _functions(api: Any, native: ctypes.CDLL) -> Functions:
    state = (c_void_p, c_void_p, c_size_t, c_int32, c_uint32)
    seq, size = c_int32, c_size_t
    return Functions(
        decode=declare(native, "llama_decode", c_int32, c_void_p, api.llama_batch),
        logits=declare(native, "llama_get_logits_ith", c_void_p, c_void_p, c_int32),
        remove=declare(native, "llama_memory_seq_rm", c_bool, c_void_p, seq, c_int32, c_int32),
        copy=declare(native, "llama_memory_seq_cp", None, c_void_p, seq, seq, c_int32, c_int32),
        last_position=declare(native, "llama_memory_seq_pos_max", c_int32, c_void_p, seq),
        state_size=declare(native, "llama_state_seq_get_size_ext", c_size_t, c_void_p, seq, c_uint32),
        state_get=declare(native, "llama_state_seq_get_data_ext", c_size_t, *state),
        state_set=declare(native, "llama_state_seq_set_data_ext", c_size_t, *state),
        free_context=declare(native, "llama_free", None, c_void_p),
        free_model=declare(native, "llama_model_free", None, c_void_p),
        metadata=declare(native, "llama_model_meta_val_str", c_int32, c_void_p, c_char_p, c_char_p, size),
        token_text=declare(native, "llama_vocab_get_text", c_char_p, c_void_p, c_int32),
        token_piece=declare(native, "llama_token_to_piece", c_int32, *PIECE_ARGUMENTS),
        token_is_end=declare(native, "llama_vocab_is_eog", c_bool, c_void_p, c_int32),
        tokenize=declare(native, "llama_tokenize", c_int32, *TOKENIZE_ARGUMENTS),
    )


def _facts(library: _Library, model: int, vocab: int, architecture: str, options: GgufOptions) -> Facts:
    api = library.api
    is_recurrent, is_hybrid = api.llama_model_is_recurrent(model), api.llama_model_is_hybrid(model)
    memory: Memory = "hybrid" if is_hybrid else "recurrent" if is_recurrent else "attention"
    bos, eos = api.llama_vocab_bos(vocab), api.llama_vocab_eos(vocab)
    return Facts(
        provider="llama",
        version=library.version,
        settings=library.system_info,
        architecture=architecture,
        n_layers=api.llama_model_n_layer(model),
        n_params=api.llama_model_n_params(model),
        n_bytes=api.llama_model_size(model),
        n_ctx_train=api.llama_model_n_ctx_train(model),
        n_vocab=api.llama_vocab_n_tokens(vocab),
        n_threads=options.n_threads or usable_cores(),
        memory=memory,
        can_share=True,
        reuses_entries=True,  # in a cache of full size, too
        bos=bos if bos >= 0 else None,
        eos=eos if eos >= 0 else None,
        adds_bos=api.llama_vocab_get_add_bos(vocab),
    )


def _max_rows(options: GgufOptions, n_slots: int) -> int:
    return max(n_slots, min(options.n_batch, max(_MIN_ROWS, _ROWS_PER_SLOT * n_slots)))


def _make_context(
    library: _Library, model: int, options: GgufOptions, n_ctx: int, n_slots: int
) -> ContextHandle:
    api = library.api
    parameters = api.llama_context_default_params()
    n_batch = max(options.n_batch, n_slots)  # the library insists on room for a token of every slot
    max_rows = _max_rows(options, n_slots)
    n_threads = options.n_threads or usable_cores()
    parameters.n_ctx = -(-n_ctx * n_slots // 256) * 256  # flash attention works on blocks of 256 positions
    parameters.n_batch = n_batch
    parameters.n_ubatch = min(n_batch, _MAX_UBATCH)
    parameters.n_seq_max = n_slots
    parameters.n_outputs_max = max_rows
    parameters.n_outputs_max_per_seq = max_rows
    parameters.n_threads = n_threads
    parameters.n_threads_batch = n_threads
    parameters.flash_attn_type = _FLASH_ATTENTION[options.flash_attn]
    parameters.type_k = _KV_TYPES[options.kv_type_k]
    parameters.type_v = _KV_TYPES[options.kv_type_v]
    parameters.offload_kqv = options.n_gpu_layers != 0
    parameters.op_offload = options.n_gpu_layers != 0
    parameters.swa_full = True  # a cache of the window alone could not be cut back
    parameters.kv_unified = True  # slots share entries, so that copying a prefix costs nothing
    if options.rope_freq_base is not None:
        parameters.rope_freq_base = options.rope_freq_base
    if options.rope_freq_scale is not None:
        parameters.rope_freq_scale = options.rope_freq_scale
    if options.rope_scaling is not None:
        parameters.rope_scaling_type = _ROPE_SCALING[options.rope_scaling]
    if options.yarn_ext_factor is not None:
        parameters.yarn_ext_factor = options.yarn_ext_factor
    if options.yarn_orig_ctx is not None:
        parameters.yarn_orig_ctx = options.yarn_orig_ctx
    with library.lock:
        library.log.clear()
        context = api.llama_init_from_model(model, parameters)
        if not context:
            raise ProviderError(
                f"the llama provider cannot make a cache of {n_slots} x {n_ctx} positions: "
                f"{library.log.text() or 'no reason given'}"
            )
    memory = api.llama_get_memory(context)
    return ContextHandle(context=context, memory=memory, n_batch=n_batch, max_rows=max_rows)
