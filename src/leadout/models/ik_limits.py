"""What the wheel of ik_llama.cpp 0.1.5 cannot do, so that nothing wrong is asked of it.

A failure there is a wrong number or the end of the process, not an error: everything known is refused
before the library is loaded. Imports no library.
"""

from __future__ import annotations

import threading

from leadout.errors import ProviderError
from leadout.models.cpu import Cpu
from leadout.models.header import Header
from leadout.models.options import QUANTISED_KV, GgufOptions

REQUIRED_FLAGS = ("avx2", "f16c", "fma")
"""What the x86-64 wheel's code uses without asking. It holds no VNNI or AVX-512 instruction."""

# fmt: off
ARCHITECTURES = frozenset({
    "llama", "falcon", "gpt2", "gptneox", "mpt", "baichuan", "starcoder", "refact", "bloom", "stablelm",
    "qwen", "qwen2", "qwen2moe", "qwen2vl", "qwen3", "qwen3moe", "qwen3vl", "qwen3vlmoe", "phi2",
    "phi3", "plamo", "codeshell", "orion", "internlm2", "minicpm", "gemma", "gemma2", "gemma3",
    "starcoder2", "xverse", "command-r", "olmo", "chatglm", "glm4", "jais", "granite", "granitemoe",
    "cohere2", "dots1", "ernie4_5", "ernie4_5-moe", "hunyuan-moe", "smollm3", "mistral3", "seed_oss",
})
# fmt: on
"""Decoders of usual attention that the library of 0.1.5 names and can build a graph for. llama, qwen2 and
gemma3 are checked against llama.cpp by the tests. Left out because a failure ends the process: mamba (it
aborts), recurrent hybrids, gemma4, mimo2 and step35 (reported to abort), and those of unusual attention or
caches that nobody has checked (deepseek2, gpt-oss, llama4, ...)."""

# Formats whose logits were checked against f16's. bf16 and the q5 formats abort in flash attention, and q4_1
# keys give wrong logits without it.
KV_TYPES = {"f16": 1, "q8_0": 8, "q4_0": 2, "iq4_nl": 20}
_ROPE_TABLES = ("rope_freqs.", "rope_factors_")  # as Llama 3.1 and later have; mended after this wheel
_MIN_LAYERS_GEMMA3 = 6

# The library keeps its tensors' descriptions in 64 places for the whole process and crashes when they are
# used up: each file takes one, each cache two, and one or two more are wanted while it works.
_N_PLACES, PLACES_OF_MODEL, PLACES_OF_CACHE = 62, 1, 2
MAX_SLOTS = (_N_PLACES - PLACES_OF_MODEL) // PLACES_OF_CACHE - 1
"""Most slots of a model, each a cache of its own; one more is left for measuring exact widths."""


class Places:
    """Counts the places that files and caches of one process take; safe to call from any thread."""

    def __init__(self) -> None:
        self._n_free = _N_PLACES
        self._lock = threading.Lock()

    def take(self, n: int) -> None:
        """Take `n` places.

        Raises
        ------
        ProviderError
            If there are fewer left.
        """
        with self._lock:
            if n > self._n_free:
                raise ProviderError(
                    f"the ik provider has room for {MAX_SLOTS} slots of all models of a process together, "
                    "and they are in use; use fewer slots, close a model or use --provider llama"
                )
            self._n_free -= n

    def give_back(self, n: int) -> None:
        """Free `n` places that were taken."""
        with self._lock:
            self._n_free += n


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


def check_model(header: Header) -> None:
    """Refuse a model that the library would crash on or compute wrongly.

    Raises
    ------
    ProviderError
        Names what it is about the model.
    """
    if header.architecture not in ARCHITECTURES:
        raise ProviderError(
            f"the ik provider does not run {header.architecture!r} models; use --provider llama"
        )
    factors = sorted(name for name in header.tensor_names if name.startswith(_ROPE_TABLES))
    if factors:
        raise ProviderError(
            f"the ik provider ignores the model's table of rotary frequencies ({factors[0]}) "
            "and would give wrong logits; use --provider llama"
        )
    if header.architecture == "gemma3" and header.n_layers < _MIN_LAYERS_GEMMA3:
        raise ProviderError(
            f"the ik provider crashes on a gemma3 with fewer than {_MIN_LAYERS_GEMMA3} layers; "
            f"this one has {header.n_layers}; use --provider llama"
        )


def check_options(header: Header, options: GgufOptions) -> None:
    """Refuse options that the library cannot honour for this model.

    Raises
    ------
    ProviderError
        Names the option, its value and what there is instead.
    """
    if options.n_gpu_layers != 0:
        raise ProviderError(
            f"n_gpu_layers is {options.n_gpu_layers}, but the ik provider's wheel runs on the CPU only; "
            "use n_gpu_layers=0 or --provider llama"
        )
    if options.n_slots > MAX_SLOTS:
        raise ProviderError(
            f"n_slots is {options.n_slots}, but the ik provider has room for {MAX_SLOTS}; use fewer or "
            "--provider llama"
        )
    unheard = {
        "rope_freq_scale": options.rope_freq_scale,
        "rope_scaling": options.rope_scaling,
        "yarn_ext_factor": options.yarn_ext_factor,
        "yarn_orig_ctx": options.yarn_orig_ctx,
    }
    for name, wish in unheard.items():
        if wish is not None:
            raise ProviderError(
                f"{name} is {wish!r}, but ik_llama.cpp scales rotary positions only as the file says; "
                "use --provider llama"
            )
    for name, value in (("kv_type_k", options.kv_type_k), ("kv_type_v", options.kv_type_v)):
        if value not in KV_TYPES:
            raise ProviderError(
                f"{name} is {value!r}; the ik provider has {', '.join(KV_TYPES)}; --provider llama has more"
            )
        if value in QUANTISED_KV and _head_size(header) % 64 != 0:
            raise ProviderError(
                f"{name} is {value!r}, but for that the ik provider needs heads of a multiple of 64 values, "
                f"and this model's have {_head_size(header)}; use f16 or --provider llama"
            )


def uses_flash_attention(options: GgufOptions) -> bool:
    """Off when left to us, except for quantised values, which need it."""
    return options.flash_attn == "on" or options.kv_type_v in QUANTISED_KV


def _head_size(header: Header) -> int:
    size = header.metadata.get(f"{header.architecture}.attention.key_length")
    return size if isinstance(size, int) else header.n_embd // max(1, header.n_head)
