"""The ik provider: ik_llama.cpp through the wheel `ik-llama-cpp-python`.

The wheel's Python file declares decoding and batches; the cache, state and vocabulary functions used here are
exported by its library and declared in `_functions`. Written for 0.1.5.

Flash attention stays off unless it is asked for. Off, it is as fast or faster at 1 to 16 tokens a pass (it
pays when a long prompt is read), and gives the same bits at every width; on, it does not where the pass
crosses a multiple of 256 positions. And this version's kernel skips blocks of the cache by the last row's
mask alone: with entries of more than one slot it drops others' keys or aborts the process (mended in
ik_llama.cpp in May 2026, after this wheel), so there it is refused.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import platform
import threading
from ctypes import (
    POINTER,
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
    ContextHandle,
    Functions,
    LogCallback,
    LogTail,
    NativeBinding,
    declare,
)
from leadout.models.cpu import Cpu, read_cpu, usable_cores
from leadout.models.header import Header
from leadout.models.options import QUANTISED_KV, GgufOptions

REQUIRED_FLAGS = ("avx2", "f16c", "fma")
"""What the x86-64 wheel's code uses without asking. It holds no VNNI or AVX-512 instruction."""

# fmt: off
ARCHITECTURES = frozenset({
    "llama", "llama4", "deci", "falcon", "grok", "gpt2", "gptneox", "mpt", "baichuan", "starcoder",
    "refact", "bloom", "stablelm", "qwen", "qwen2", "qwen2moe", "qwen2vl", "qwen3", "qwen3moe",
    "qwen3vl", "qwen3vlmoe", "phi2", "phi3", "plamo", "codeshell", "orion", "internlm2", "minicpm",
    "gemma", "gemma2", "gemma3", "starcoder2", "xverse", "command-r", "dbrx", "olmo", "openelm",
    "arctic", "deepseek2", "chatglm", "glm4", "glm4moe", "bitnet", "bitnet-25", "bitnet-b1.58", "jais",
    "granite", "granitemoe", "cohere2", "dots1", "ernie4_5", "ernie4_5-moe", "hunyuan-moe", "gpt-oss",
    "bailingmoe2", "minimax-m2", "smollm3", "mistral3", "seed_oss",
})
# fmt: on
"""Decoders that the library of 0.1.5 names and can build a graph for. Left out on purpose, because a
failure there ends the process: mamba (it aborts), the recurrent hybrids qwen3next, qwen35 and qwen35moe,
and gemma4, mimo2 and step35, whose layers of several kinds have been reported to abort."""

# Formats whose logits were checked against f16's. bf16 and the q5 formats abort in flash attention, and q4_1
# keys give wrong logits without it.
_KV_TYPES = {"f16": 1, "q8_0": 8, "q4_0": 2, "iq4_nl": 20}
# From 32 tokens on this version takes kernels that give wrong logits for some formats (q4_1: by 24); below,
# every width has the bits of single tokens. Reading a prompt costs up to 1.7 times as long.
_MAX_UBATCH = 31
_ROPE_TABLES = ("rope_freqs.", "rope_factors_")  # as Llama 3.1 and later have; mended after this wheel
_MIN_LAYERS_GEMMA3 = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class _Library:
    api: Any
    functions: Functions
    native: ctypes.CDLL
    log: LogTail
    lock: threading.Lock
    version: str
    system_info: str


def check_cpu(cpu: Cpu, machine: str) -> None:
    """Refuse a CPU that the x86-64 wheel would crash on.

    Raises
    ------
    ProviderError
        Names the missing features.
    """
    missing = cpu.lacks(REQUIRED_FLAGS) if machine.lower() in ("x86_64", "amd64") else []
    if missing:
        raise ProviderError(
            f"the ik provider needs a CPU with {', '.join(REQUIRED_FLAGS)}, but this one ({cpu.model}) lacks "
            f"{', '.join(missing)}; use --provider llama, built for this machine"
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
    _check_model(header)
    _check_options(options)
    library = _library()
    parameters = library.api.llama_model_default_params()
    parameters.n_gpu_layers = 0
    parameters.use_mmap = options.use_mmap
    parameters.use_mlock = options.use_mlock
    with library.lock:
        library.log.clear()
        model = library.api.llama_model_load_from_file(os.fsencode(header.path), parameters)
        if not model:
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


def _check_model(header: Header) -> None:
    if header.architecture not in ARCHITECTURES:
        raise ProviderError(
            f"the ik provider does not run {header.architecture!r} models; use --provider llama"
        )
    factors = sorted(name for name in header.tensor_names if name.startswith(_ROPE_TABLES))
    if factors:
        raise ProviderError(
            f"the ik provider ignores the model's table of rotary frequencies ({factors[0]}) and would give wrong "
            "logits; use --provider llama"
        )
    if header.architecture == "gemma3" and header.n_layers < _MIN_LAYERS_GEMMA3:
        raise ProviderError(
            f"the ik provider crashes on a gemma3 with fewer than {_MIN_LAYERS_GEMMA3} layers; "
            f"this one has {header.n_layers}; use --provider llama"
        )


def _check_options(options: GgufOptions) -> None:
    if options.n_gpu_layers != 0:
        raise ProviderError(
            f"n_gpu_layers is {options.n_gpu_layers}, but the ik provider's wheel runs on the CPU only; "
            "use n_gpu_layers=0 or --provider llama"
        )
    unheard = {
        "rope_freq_scale": options.rope_freq_scale,
        "rope_scaling": options.rope_scaling,
        "yarn_ext_factor": options.yarn_ext_factor,
        "yarn_orig_ctx": options.yarn_orig_ctx,
    }
    for name, value in unheard.items():
        if value is not None:
            raise ProviderError(
                f"{name} is {value!r}, but ik_llama.cpp scales rotary positions only as the file says; "
                "use --provider llama"
            )
    for name, value in (("kv_type_k", options.kv_type_k), ("kv_type_v", options.kv_type_v)):
        if value not in _KV_TYPES:
            raise ProviderError(
                f"{name} is {value!r}; the ik provider has {', '.join(_KV_TYPES)}; --provider llama has more"
            )
    if options.n_slots > 1 and not options.exact and _uses_flash_attention(options):
        cause = "flash_attn is 'on'" if options.flash_attn == "on" else f"kv_type_v is {options.kv_type_v!r}"
        raise ProviderError(
            f"{cause}, which needs flash attention, and n_slots is {options.n_slots}; the ik provider's "
            "flash attention is wrong for slots that share a cache: use n_slots=1, exact=True (a cache per slot), "
            "flash_attn='off' with kv_type_v='f16', or --provider llama"
        )


def _uses_flash_attention(options: GgufOptions) -> bool:
    """Off when left to us, but for quantised values, which need it."""
    return options.flash_attn == "on" or options.kv_type_v in QUANTISED_KV


@cache  # one library per process: its log callback and backend are process-wide too
def _library() -> _Library:
    check_cpu(read_cpu(), platform.machine())
    try:
        from ik_llama_cpp import _ctypes_api as api
    except ImportError as error:
        raise ProviderError(
            'the ik provider needs ik-llama-cpp-python; install it with: pip install "leadout[ik]"'
        ) from error
    except OSError as error:
        raise ProviderError(f"the library of ik-llama-cpp-python does not load here: {error}") from error
    native: ctypes.CDLL = api._lib
    log = LogTail()
    declare(native, "llama_log_set", None, LogCallback, c_void_p)(log.callback, None)
    api.llama_backend_init()
    return _Library(
        api=api,
        functions=_functions(api, native),
        native=native,
        log=log,
        lock=threading.Lock(),
        version=importlib.metadata.version("ik-llama-cpp-python"),
        system_info=declare(native, "llama_print_system_info", c_char_p)().decode(),
    )


def _functions(api: Any, native: ctypes.CDLL) -> Functions:
    cache_defragment = declare(native, "llama_kv_cache_defrag", None, c_void_p)
    cache_update = declare(native, "llama_kv_cache_update", c_int32, c_void_p)

    def defragment(context: int) -> bool:
        cache_defragment(context)
        cache_update(context)
        return True

    first_position = declare(native, "llama_kv_cache_seq_pos_min", c_int32, c_void_p, c_int32)
    highest_position = declare(native, "llama_kv_cache_seq_pos_max", c_int32, c_void_p, c_int32)

    def last_position(context: int, slot: int) -> int:
        highest: int = highest_position(context, slot)
        # The highest position of an empty slot is 0, as that of one token is; the lowest tells them apart.
        return -1 if highest == 0 and first_position(context, slot) < 0 else highest

    state = (c_void_p, c_void_p, c_size_t, c_int32, c_uint32)
    seq, size = c_int32, c_size_t
    return Functions(
        decode=declare(native, "llama_decode", c_int32, c_void_p, api.llama_batch),
        logits=declare(native, "llama_get_logits_ith", c_void_p, c_void_p, c_int32),
        remove=declare(native, "llama_kv_cache_seq_rm", c_bool, c_void_p, seq, c_int32, c_int32),
        copy=declare(native, "llama_kv_cache_seq_cp", None, c_void_p, seq, seq, c_int32, c_int32),
        last_position=last_position,
        defragment=defragment,
        state_size=declare(native, "llama_state_seq_get_size", c_size_t, c_void_p, seq, c_uint32),
        state_get=declare(native, "llama_state_seq_get_data", c_size_t, *state),
        state_set=declare(native, "llama_state_seq_set_data", c_size_t, *state),
        free_context=declare(native, "llama_free", None, c_void_p),
        free_model=declare(native, "llama_free_model", None, c_void_p),
        metadata=declare(native, "llama_model_meta_val_str", c_int32, c_void_p, c_char_p, c_char_p, size),
        token_text=declare(native, "llama_token_get_text", c_char_p, c_void_p, c_int32),
        token_piece=declare(
            native, "llama_token_to_piece", c_int32, c_void_p, c_int32, c_char_p, c_int32, c_int32, c_bool
        ),
        token_is_end=declare(native, "llama_token_is_eog", c_bool, c_void_p, c_int32),
        tokenize=declare(
            native,
            "llama_tokenize",
            c_int32,
            c_void_p,
            c_char_p,
            c_int32,
            POINTER(c_int32),
            c_int32,
            c_bool,
            c_bool,
        ),
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
    parameters.flash_attn = _uses_flash_attention(options)
    parameters.type_k = _KV_TYPES[options.kv_type_k]
    parameters.type_v = _KV_TYPES[options.kv_type_v]
    if options.rope_freq_base is not None:
        parameters.rope_freq_base = options.rope_freq_base
    with library.lock:
        library.log.clear()
        context = library.api.llama_init_from_model(model, parameters)
        if not context:
            raise ProviderError(
                f"the ik provider cannot make a cache of {n_slots} x {n_ctx} positions: "
                f"{library.log.text() or 'no reason given'}"
            )
    return ContextHandle(context=context, memory=context, n_batch=options.n_batch, max_rows=options.n_batch)
