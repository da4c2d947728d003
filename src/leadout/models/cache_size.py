"""Whether a cache fits into memory, estimated from the file's header before a library is asked for it.

A library that finds no memory ends the process, or is ended by the system later, in the middle of an answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leadout.errors import InputError
from leadout.models.header import Header
from leadout.models.options import ALL_LAYERS, GgufOptions, KvType

_BYTES_OF_32: dict[KvType, int] = {
    "f32": 128,
    "f16": 64,
    "bf16": 64,
    "q8_0": 34,
    "q5_1": 24,
    "q5_0": 22,
    "q4_1": 20,
    "q4_0": 18,
    "iq4_nl": 18,
}
_OF_ATTENTION = "attn_k.weight"
_BLOCK = 256  # a suggestion is a multiple of it


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSize:
    """Bytes of main memory that a cache and its work space take, at least.

    Parameters
    ----------
    per_position : float
        For every position of every slot.
    fixed : int
        Whatever the number of positions.
    """

    per_position: float
    fixed: int

    def total(self, n_positions: int) -> int:
        """Bytes for this many positions over all slots."""
        return self.fixed + int(self.per_position * n_positions)


def cache_size(
    header: Header, options: GgufOptions, *, work_width: int, n_rows: int, is_flash: bool
) -> CacheSize:
    """Estimate a cache from the header; layers on a GPU are left out, their share is the GPU's.

    Counted are keys and values of all layers with attention, running states of state-space layers, rows of
    logits and the attention's work space. Where the header leaves room the lower figure is taken.

    Parameters
    ----------
    work_width : int
        Tokens the provider works on at once.
    n_rows : int
        Rows of logits it has room for.
    is_flash : bool
        True when flash attention is used, which never holds the scores of a whole pass.
    """
    share = _share_on_cpu(header, options)
    n_attending, _ = _attention(header)
    state = 4 * _state_values(header) * (header.n_layers - n_attending) * options.n_slots
    scores = (1 if is_flash else header.n_head) if n_attending else 0
    return CacheSize(
        per_position=share * (bytes_of_keys_and_values(header, options) + 4 * scores * work_width),
        fixed=int(share * state) + 4 * n_rows * header.n_vocab,
    )


def bytes_of_keys_and_values(header: Header, options: GgufOptions) -> float:
    """What the keys and values of one position take, wherever their layers are kept."""
    _, n_heads = _attention(header)
    keys = n_heads * _head_size(header, "key_length") * _BYTES_OF_32[options.kv_type_k] / 32
    values = n_heads * _head_size(header, "value_length") * _BYTES_OF_32[options.kv_type_v] / 32
    if f"{header.architecture}.attention.kv_lora_rank" in header.metadata:
        return keys  # such a model's values are part of its keys
    return keys + values


def require_memory(
    header: Header, options: GgufOptions, size: CacheSize, free: int, *, n_weight_bytes: int = 0
) -> None:
    """Refuse a cache that is larger than the memory that is free.

    Mapped weights are not counted: what of them is in memory can be dropped and read again.

    Parameters
    ----------
    size : CacheSize
        What the cache takes.
    free : int
        Bytes that may be taken.
    n_weight_bytes : int
        Weights that are still to be read into memory.

    Raises
    ------
    InputError
        Names both, and the context that would fit.
    """
    n_ctx = options.context_length(header.n_ctx_train)
    needed = n_weight_bytes + size.total(n_ctx * options.n_slots)
    if needed <= free:
        return
    room = free - size.fixed - n_weight_bytes
    fitting = int(room / size.per_position / options.n_slots) if size.per_position else 0
    fitting -= fitting % (_BLOCK if fitting >= _BLOCK else 8)
    advice = (
        f"use --ctx {fitting} (n_ctx) or less"
        if fitting >= 8
        else "free some memory, or use fewer slots or a smaller model"
    )
    what = "the weights and a cache" if n_weight_bytes else "a cache"
    raise InputError(
        f"{what} of {options.n_slots} x {n_ctx:,} positions for {header.path.name} would take about "
        f"{_shown(needed)}, and {_shown(free)} of memory are free; {advice}"
    )


def _share_on_cpu(header: Header, options: GgufOptions) -> float:
    if options.n_gpu_layers == ALL_LAYERS:
        return 0.0
    return max(0.0, 1 - options.n_gpu_layers / max(1, header.n_layers))


def _attention(header: Header) -> tuple[int, int]:
    """Layers with attention, and their key-value heads in all."""
    if header.is_recurrent and not header.is_hybrid:
        return 0, 0
    heads = header.metadata.get(f"{header.architecture}.attention.head_count_kv")
    if isinstance(heads, np.ndarray):
        own = heads[: header.n_layers]
        return int(np.count_nonzero(own)), int(own.sum())
    n_layers = header.n_layers - _number(header, "attention.shared_kv_layers")
    if header.is_hybrid:
        layers = range(min(n_layers, header.n_tensors))
        n_layers = sum(f"blk.{layer}.{_OF_ATTENTION}" in header.tensor_names for layer in layers)
    return max(0, n_layers), max(0, n_layers) * header.n_head_kv


def _head_size(header: Header, name: str) -> int:
    """Values of a head; the smaller one where layers with a window have another."""
    usual = _number(header, f"attention.{name}") or header.n_embd // max(1, header.n_head)
    return min(usual, _number(header, f"attention.{name}_swa") or usual)


def _state_values(header: Header) -> int:
    """Values of one state-space layer's running state."""
    inner, width = _number(header, "ssm.inner_size"), _number(header, "ssm.state_size")
    columns = inner + 2 * _number(header, "ssm.group_count") * width
    return max(0, _number(header, "ssm.conv_kernel") - 1) * columns + inner * width


def _number(header: Header, key: str) -> int:
    value = header.metadata.get(f"{header.architecture}.{key}")
    return value if isinstance(value, int) and value > 0 else 0


def _shown(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:,.1f} GB" if n_bytes >= 1e8 else f"{n_bytes / 1e6:,.1f} MB"
