"""What a GGUF model will take in memory, told before it is loaded."""

from __future__ import annotations

from pathlib import Path

from leadout.models.header import read_header
from leadout.models.open import Provider, likely_library, size_of_cache
from leadout.models.options import GgufOptions
from leadout.server.pool import Footprint


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
