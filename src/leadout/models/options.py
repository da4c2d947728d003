"""How a GGUF file is loaded and run: one frozen value, checked where it is built.

Knows nothing of the libraries; whether a provider can honour an option is the binding's to say.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from leadout.checks import check_number, check_one_of, check_truth, check_whole
from leadout.errors import InputError

KvType = Literal["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"]
"""Number formats of the key-value cache."""

FlashAttention = Literal["auto", "on", "off"]
RopeScaling = Literal["none", "linear", "yarn"]

DEFAULT_CONTEXT = 4096
"""Positions per slot when none are asked for and the model was trained for more."""

ALL_LAYERS = -1
"""`n_gpu_layers` that puts every layer on the GPU."""

_MAX_POSITIONS = 2**31 - 256  # the libraries count positions in 32 bits, in blocks of 256

QUANTISED_KV: frozenset[KvType] = frozenset({"q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"})


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufOptions:
    """How to load and run a GGUF file. What a provider cannot honour it refuses by name; nothing is ignored.

    Parameters
    ----------
    n_ctx : int >= 8, or None
        Positions per slot. None: what the model was trained for, at most 4096.
    n_slots : int, 1..64
        Independent sequences; the cache holds n_ctx * n_slots positions in all.
    n_batch : int, 1..8192
        Most tokens the library is given at once; longer chunks are split. It works in blocks of at most 512.
    n_threads : int >= 1, or None
        None: the physical cores this process may use.
    n_gpu_layers : int >= -1
        Layers kept on a GPU; 0 is CPU only, -1 is all.
    use_mmap, use_mlock : bool
        Map the file instead of reading it; keep its pages in memory.
    flash_attn : "auto", "on" or "off"
        "auto" leaves the choice to the provider.
    kv_type_k, kv_type_v : KvType
        Format of cached keys and values. Quantised values need flash attention.
    rope_freq_base, rope_freq_scale : float > 0, or None
        Override the model's rotary frequencies; None keeps them.
    rope_scaling : RopeScaling, or None
        Override the model's rotary scaling; None keeps it.
    yarn_ext_factor : float >= 0, or None
        YaRN's mix of extrapolation; None keeps the model's.
    yarn_orig_ctx : int >= 1, or None
        Positions the model had before YaRN; None keeps the model's.
    exact : bool
        Choose kernels whose results depend on the pass width as little as the provider allows (llama:
        weights are not repacked). Which widths are then exact, `Model.exact_widths` says.

    Raises
    ------
    InputError
        If a value is outside its range; the message names field, value and range.
    """

    n_ctx: int | None = None
    n_slots: int = 1
    n_batch: int = 512
    n_threads: int | None = None
    n_gpu_layers: int = 0
    use_mmap: bool = True
    use_mlock: bool = False
    flash_attn: FlashAttention = "auto"
    kv_type_k: KvType = "f16"
    kv_type_v: KvType = "f16"
    rope_freq_base: float | None = None
    rope_freq_scale: float | None = None
    rope_scaling: RopeScaling | None = None
    yarn_ext_factor: float | None = None
    yarn_orig_ctx: int | None = None
    exact: bool = False

    def __post_init__(self) -> None:
        check_whole("n_ctx", self.n_ctx, 8, optional=True)
        check_whole("n_slots", self.n_slots, 1, 64)
        check_whole("n_batch", self.n_batch, 1, 8192)
        check_whole("n_threads", self.n_threads, 1, 1024, optional=True)
        check_whole("n_gpu_layers", self.n_gpu_layers, ALL_LAYERS)
        check_whole("yarn_orig_ctx", self.yarn_orig_ctx, 1, optional=True)
        n_positions = (self.n_ctx or DEFAULT_CONTEXT) * self.n_slots
        if n_positions > _MAX_POSITIONS:
            raise InputError(
                f"n_ctx is {self.n_ctx} and n_slots {self.n_slots}: {n_positions} positions in all; "
                f"a cache holds at most {_MAX_POSITIONS}"
            )
        for name, value, low in (
            ("rope_freq_base", self.rope_freq_base, math.nextafter(0.0, 1.0)),
            ("rope_freq_scale", self.rope_freq_scale, math.nextafter(0.0, 1.0)),
            ("yarn_ext_factor", self.yarn_ext_factor, 0.0),
        ):
            if value is not None:
                allowed = f"a number {'> 0' if low else '>= 0'}, or None to keep the model's"
                check_number(name, value, low, math.inf, allowed)
        check_truth("use_mmap", self.use_mmap)
        check_truth("use_mlock", self.use_mlock)
        check_truth("exact", self.exact)
        check_one_of("flash_attn", self.flash_attn, get_args(FlashAttention))
        check_one_of("kv_type_k", self.kv_type_k, get_args(KvType))
        check_one_of("kv_type_v", self.kv_type_v, get_args(KvType))
        if self.rope_scaling is not None:
            check_one_of("rope_scaling", self.rope_scaling, get_args(RopeScaling))
        if self.kv_type_v in QUANTISED_KV and self.flash_attn == "off":
            raise InputError(
                f"kv_type_v is {self.kv_type_v!r}, which needs flash attention, but flash_attn is 'off'; "
                "use flash_attn='on' or kv_type_v='f16'"
            )

    def context_length(self, n_ctx_train: int) -> int:
        """Positions per slot for a model trained for `n_ctx_train` of them."""
        return self.n_ctx if self.n_ctx is not None else min(n_ctx_train, DEFAULT_CONTEXT)
