"""How much memory a pair will take, and how fast it will probably be, before anything is loaded."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Literal

from leadout.advise.speed import LONGEST
from leadout.models.cache_size import bytes_of_keys_and_values
from leadout.models.header import Header
from leadout.models.open import Provider, likely_library, size_of_cache
from leadout.models.options import ALL_LAYERS, GgufOptions

Fit = Literal["fits", "paged", "too large"]
"""*paged*: the caches fit, but not with all weights, which would be read from the disk again and again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMemory:
    """What one model takes.

    Parameters
    ----------
    name : str
    n_ctx, n_slots : int
        Positions of each slot.
    weight_bytes : int
        All its files.
    kv_bytes : int
        Keys and values of all slots.
    work_bytes : int
        Running states, rows of logits and the work space of attention.
    cpu_share : float in 0..1
        The share of its layers that lies in main memory.
    library : str
        The library that will probably run it.
    """

    name: str
    n_ctx: int
    n_slots: int
    weight_bytes: int
    kv_bytes: int
    work_bytes: int
    cpu_share: float
    library: str

    @property
    def cache_bytes(self) -> int:
        """Main memory for everything but the weights."""
        return int(self.cpu_share * self.kv_bytes) + self.work_bytes

    @property
    def main_bytes(self) -> int:
        """Main memory in all."""
        return int(self.cpu_share * self.weight_bytes) + self.cache_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """A target's memory, a draft model's if there is one, and what is free.

    Parameters
    ----------
    verify_bytes : int
        Rows of logits of the widest verify pass, over all slots.
    free_bytes : int
        Main memory that may be taken now.
    """

    target: ModelMemory
    draft: ModelMemory | None
    verify_bytes: int
    free_bytes: int

    @property
    def total_bytes(self) -> int:
        """Main memory in all."""
        return self.target.main_bytes + (self.draft.main_bytes if self.draft else 0) + self.verify_bytes

    @property
    def fit(self) -> Fit:
        """Whether that is free."""
        caches = self.target.cache_bytes + (self.draft.cache_bytes if self.draft else 0) + self.verify_bytes
        if self.total_bytes <= self.free_bytes:
            return "fits"
        return "paged" if caches <= self.free_bytes else "too large"

    def explain(self) -> str:
        """The verdict in one sentence."""
        sizes = f"{shown(self.total_bytes)} needed, {shown(self.free_bytes)} free"
        gpu = "" if self.target.cpu_share == 1 else "; what is on the GPU is not looked at"
        match self.fit:
            case "fits":
                return f"fits into memory: {sizes}{gpu}"
            case "paged":
                return f"does not fit with all weights, which would be read from the disk anew: {sizes}{gpu}"
            case "too large":
                advice = "use a smaller --ctx, fewer slots or --kv-type-k q8_0"
                return f"does not fit into memory: {sizes}; {advice}{gpu}"

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return {**asdict(self), "total_bytes": self.total_bytes, "fit": self.fit}


def plan_memory(
    target: Header,
    draft: Header | None,
    options: GgufOptions,
    draft_options: GgufOptions | None = None,
    *,
    free_bytes: int,
    provider: Provider = "auto",
) -> MemoryPlan:
    """What target and draft will take together.

    Parameters
    ----------
    options, draft_options : GgufOptions
        How they are to be loaded; None gives the draft the target's slots and context, with no more positions
        than it was trained for.
    free_bytes : int
        Main memory that may be taken.
    """
    n_ctx = options.context_length(target.n_ctx_train)
    own = replace(options, n_ctx=n_ctx)
    if draft is not None and draft_options is None:
        draft_options = replace(options, n_ctx=min(n_ctx, draft.n_ctx_train or n_ctx))
    return MemoryPlan(
        target=_memory(target, own, provider),
        draft=None if draft is None else _memory(draft, draft_options or own, provider),
        verify_bytes=4 * target.n_vocab * (LONGEST + 1) * options.n_slots,
        free_bytes=free_bytes,
    )


def _memory(header: Header, options: GgufOptions, provider: Provider) -> ModelMemory:
    library = likely_library(header, options, provider)
    n_positions = options.context_length(header.n_ctx_train) * options.n_slots
    kv_bytes = bytes_of_keys_and_values(header, options) * n_positions
    share = 1 - min(1.0, options.n_gpu_layers / max(1, header.n_layers))
    share = 0.0 if options.n_gpu_layers == ALL_LAYERS else share
    return ModelMemory(
        name=header.path.name if header.path.suffix == ".gguf" else header.name,
        n_ctx=options.context_length(header.n_ctx_train),
        n_slots=options.n_slots,
        weight_bytes=header.n_bytes,
        kv_bytes=int(kv_bytes),
        work_bytes=max(0, size_of_cache(library, header, options).total(n_positions) - int(share * kv_bytes)),
        cpu_share=share,
        library=library,
    )


def shown(n_bytes: int) -> str:
    """Bytes as people read them."""
    return f"{n_bytes / 1e9:,.2f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:,.1f} MB"
