"""Models that can be loaded, and what they will take in memory, told before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from leadout.engine.engine import Engine
from leadout.models.header import read_header
from leadout.models.open import Provider, likely_library, size_of_cache
from leadout.models.options import GgufOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """Bytes of memory that a model takes: its weights, and its caches."""

    weights: int = 0
    caches: int = 0

    @property
    def total(self) -> int:
        """Both."""
        return self.weights + self.caches


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A model that can be loaded.

    Parameters
    ----------
    name : str
        What requests call it.
    load : callable
        Gives its engine; runs in a thread, as it takes seconds.
    footprint : callable
        What it will take, told from its file alone. An engine has its draft model beside that.
    path : Path or None
        Its file.
    """

    name: str
    load: Callable[[], Engine]
    footprint: Callable[[], Footprint] = Footprint
    path: Path | None = None


def footprint_of(path: Path, options: GgufOptions, provider: Provider) -> Footprint:
    """The weights and the caches of all slots, from the file's header.

    Raises
    ------
    ModelFileError
        If the file is missing or damaged.
    """
    header = read_header(path)
    caches = size_of_cache(likely_library(header, options, provider), header, options)
    n_positions = options.context_length(header.n_ctx_train) * options.n_slots
    return Footprint(weights=header.n_bytes, caches=caches.total(n_positions))
