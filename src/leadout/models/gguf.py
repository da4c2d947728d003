"""A GGUF file behind the `Model` seam, the same for every library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from leadout.errors import BackendError
from leadout.models import widths
from leadout.models.base import Chunk, Copying, ModelInfo, Rollback
from leadout.models.binding import Binding, Context, Facts
from leadout.models.header import Header
from leadout.models.options import GgufOptions
from leadout.models.separate import SeparateContexts
from leadout.models.slots import SlotCache
from leadout.models.vocabulary import GgufVocabulary


class GgufModel:
    """A loaded GGUF file; implements `Model`. Not safe to call from two threads at once.

    Parameters
    ----------
    binding : Binding
        The loaded file; closed with the model.
    header : Header
        What the file says of itself.
    options : GgufOptions
        What it was loaded with.
    name, provider_reason : str
        For `info`.
    """

    def __init__(
        self, binding: Binding, header: Header, options: GgufOptions, *, name: str, provider_reason: str = ""
    ) -> None:
        self._binding = binding
        self._header = header
        self._options = options
        self._info = _info(binding.facts, header, options, name=name, provider_reason=provider_reason)
        self._vocab = GgufVocabulary(binding)
        self._cache: SlotCache | None = _open_cache(binding, header, options, self._info)
        self._exact_widths: frozenset[int] | None = None

    @property
    def info(self) -> ModelInfo:
        return self._info

    @property
    def vocab(self) -> GgufVocabulary:
        return self._vocab

    @property
    def key(self) -> str:
        """A name for everything that a measurement of this model depends on."""
        return widths.cache_key(self._header.parts, self._binding.facts, self._options)

    def length(self, slot: int) -> int:
        return self._open().length(slot)

    def forward(self, chunks: Sequence[Chunk]) -> list[NDArray[np.float32]]:
        return self._open().forward(chunks)

    def truncate(self, slot: int, length: int) -> None:
        self._open().truncate(slot, length)

    def copy(self, source: int, target: int, length: int) -> None:
        self._open().copy(source, target, length)

    def exact_widths(self) -> frozenset[int]:
        """Widths w for which one pass of w tokens gives the same bits as w passes of one token.

        Measured in a small cache of its own, at up to five lengths between 24 and 1,016 tokens and at the
        end of the context; the slots in use are not touched. The first time for a file, library, CPU and
        options that costs about as much as reading a prompt of 1,500 tokens; later calls and processes read
        it from the user's cache directory. With several slots in one shared cache (`exact` off) the bits of
        a row also depend on where other slots' entries lie, whatever its width: then only width 1 is exact.
        """
        self._open()
        if self._exact_widths is None:
            is_shared = self._options.n_slots > 1 and not _is_separate(self._binding.facts, self._options)
            self._exact_widths = (
                frozenset({1}) if is_shared else widths.recall(self.key, self._measure_widths)
            )
        return self._exact_widths

    def close(self) -> None:
        if self._cache is not None:
            self._vocab.close()
            self._cache.close()
            self._binding.close()
            self._cache = None

    def _open(self) -> SlotCache:
        if self._cache is None:
            raise BackendError(f"the model {self._info.name!r} is closed; load it again to use it")
        return self._cache

    def _measure_widths(self) -> frozenset[int]:
        n_ctx = min(self._info.n_ctx, widths.MAX_LENGTH)
        options = replace(self._options, n_ctx=n_ctx, n_slots=1)
        cache = _open_cache(self._binding, self._header, options, replace(self._info, n_ctx=n_ctx, n_slots=1))
        try:
            return widths.measure(cache, n_ctx=n_ctx, n_vocab=self._info.n_vocab)
        finally:
            cache.close()


def _open_cache(binding: Binding, header: Header, options: GgufOptions, info: ModelInfo) -> SlotCache:
    return SlotCache(
        _open_separate(binding, info, is_windowed=header.sliding_window > 0)
        if info.n_slots > 1 and _is_separate(binding.facts, options)
        else binding.open_context(n_ctx=info.n_ctx, n_slots=info.n_slots),
        n_ctx=info.n_ctx,
        n_slots=info.n_slots,
        n_vocab=info.n_vocab,
        can_cut=info.rollback == "cut",
        last_errors=binding.last_errors,
        window=header.sliding_window if binding.facts.reuses_entries else 0,
    )


def _is_separate(facts: Facts, options: GgufOptions) -> bool:
    """True when every slot gets a cache of its own."""
    return options.exact or not facts.can_share


def _open_separate(binding: Binding, info: ModelInfo, *, is_windowed: bool) -> SeparateContexts:
    contexts: list[Context] = []
    try:
        contexts.extend(binding.open_context(n_ctx=info.n_ctx, n_slots=1) for _ in range(info.n_slots))
    except Exception:
        for context in contexts:
            context.close()
        raise
    return SeparateContexts(contexts, is_windowed=is_windowed)


def _info(
    facts: Facts, header: Header, options: GgufOptions, *, name: str, provider_reason: str
) -> ModelInfo:
    rollback: Rollback = "cut" if facts.memory == "attention" else "replay"
    is_separate = _is_separate(facts, options)
    reason = f"a {facts.memory} model's running state cannot be cut; it is restored and tokens decoded again"
    return ModelInfo(
        name=name,
        path=header.path,
        provider=facts.provider,
        architecture=facts.architecture,
        n_layers=facts.n_layers,
        n_params=facts.n_params,
        n_bytes=facts.n_bytes,
        n_ctx=options.context_length(facts.n_ctx_train),
        n_ctx_train=facts.n_ctx_train,
        n_slots=options.n_slots,
        n_vocab=facts.n_vocab,
        rollback=rollback,
        rollback_reason="" if rollback == "cut" else reason,
        provider_reason=provider_reason,
        copying=_copying(rollback, is_windowed=is_separate and header.sliding_window > 0),
        shares_passes=not is_separate,
        provider_version=facts.version,
        options=options,
    )


def _copying(rollback: Rollback, *, is_windowed: bool) -> Copying:
    if is_windowed:
        return "none"
    return "any" if rollback == "cut" else "whole"
