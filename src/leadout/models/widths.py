"""At which widths a pass gives the same bits as single-token passes: measured once, then remembered on disk.

Libraries choose their kernels by the number of tokens in a pass and by how much of the cache is in use, so
the answer differs from file to file and from CPU to CPU, and only a measurement knows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from leadout.models.base import Chunk
from leadout.models.binding import Facts
from leadout.models.options import GgufOptions
from leadout.models.remember import Findings, key_of

MAX_WIDTH = 16
_LENGTHS = (24, 248, 504, 1016)
"""Lengths to measure at: short, and just before multiples of 256, where libraries change how they go through
the cache."""

MAX_LENGTH = max(_LENGTHS) + MAX_WIDTH
"""The longest context a measurement needs."""

_VERSION = 1  # of the measurement; older results are measured anew


class Passes(Protocol):
    """The part of a model that a measurement uses; slot 0 is empty and free."""

    def forward(self, chunks: Sequence[Chunk]) -> list[NDArray[np.float32]]:
        """As `Model.forward`."""

    def truncate(self, slot: int, length: int) -> None:
        """As `Model.truncate`."""


def measure(passes: Passes, *, n_ctx: int, n_vocab: int) -> frozenset[int]:
    """Widths 1..16 whose logits have the bits of single-token passes, at every length tried that fits n_ctx.

    Parameters
    ----------
    passes : Passes
        Slot 0 must be empty.
    n_ctx, n_vocab : int
        Positions of the slot, and ids to make a text of.
    """
    lengths = sorted({length for length in (*_LENGTHS, n_ctx - MAX_WIDTH) if 0 < length <= n_ctx - MAX_WIDTH})
    lengths = [length for length in lengths if length <= max(_LENGTHS)] or [0]
    width_limit = min(MAX_WIDTH, n_ctx)
    text = np.random.default_rng(0).integers(0, n_vocab, lengths[-1] + width_limit).tolist()
    exact = set(range(2, width_limit + 1))
    done = 0
    for length in lengths:
        if not exact:
            break
        if length > done:
            passes.forward([Chunk(slot=0, tokens=text[done:length], n_logits=0)])
        exact = _still_exact(passes, exact, length, text[length : length + width_limit])
        done = length
    return frozenset({1, *exact})


def _still_exact(passes: Passes, candidates: Iterable[int], length: int, window: list[int]) -> set[int]:
    singles = [
        passes.forward([Chunk(slot=0, tokens=[token], n_logits=1)])[0].copy()
        for token in window[: max(candidates, default=0)]
    ]
    exact = set()
    for width in candidates:
        passes.truncate(0, length)
        rows = passes.forward([Chunk(slot=0, tokens=window[:width], n_logits=width)])[0]
        if rows.tobytes() == b"".join(row.tobytes() for row in singles[:width]):
            exact.add(width)
    passes.truncate(0, length)
    return exact


def cache_key(parts: Sequence[Path], facts: Facts, options: GgufOptions) -> str:
    """A name for everything the answer may depend on: files, library, CPU and options."""
    return key_of(
        parts,
        {
            "version": _VERSION,
            "library": [facts.provider, facts.version, facts.settings],
            "threads": facts.n_threads,
            "options": asdict(options),
        },
    )


def recall(key: str, measure_now: Callable[[], frozenset[int]], folder: Path | None = None) -> frozenset[int]:
    """The widths remembered under `key`; measured and written down when there are none that can be read.

    Parameters
    ----------
    folder : Path or None
        Where to remember; None is leadout's cache folder.
    """
    findings = Findings("widths", folder)
    known = _widths_in(findings.read(key))
    if known is None:
        known = measure_now()
        findings.write(key, {"widths": sorted(known)})
    return known


def _widths_in(finding: object) -> frozenset[int] | None:
    found = finding.get("widths") if isinstance(finding, dict) else None
    is_sound = isinstance(found, list) and all(
        type(width) is int and 1 <= width <= MAX_WIDTH for width in found
    )
    return frozenset(found) if isinstance(found, list) and is_sound and 1 in found else None
