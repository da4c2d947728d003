"""What it takes to remember earlier answers: bytes per token, as the interpreter's own accounts show them."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass

import numpy as np

from leadout.drafters.suffix_memory import TOKENS_PER_CLIENT, SuffixMemory

N_VOCAB = 150_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembering:
    """Memory of a client whose earlier answers fill all the room there is, twice over.

    Parameters
    ----------
    n_tokens : int
        Tokens that are kept at most.
    n_bytes : int
        Memory that was allocated for them and is still held.
    n_bytes_after_twice : int
        The same after as many tokens again: what is bounded does not grow.
    """

    n_tokens: int
    n_bytes: int
    n_bytes_after_twice: int

    @property
    def bytes_per_token(self) -> float:
        """Of the larger figure."""
        return max(self.n_bytes, self.n_bytes_after_twice) / self.n_tokens

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return {
            "n_tokens": self.n_tokens,
            "n_bytes": self.n_bytes,
            "n_bytes_after_twice": self.n_bytes_after_twice,
            "bytes_per_token": self.bytes_per_token,
        }


def measure_memory(n_tokens: int = TOKENS_PER_CLIENT, *, answer: int = 1024, seed: int = 0) -> Remembering:
    """Fill the memory of one client with answers of `answer` tokens, and fill it once more."""
    random = np.random.default_rng(seed)
    was_tracing = tracemalloc.is_tracing()
    if not was_tracing:
        tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        memory = SuffixMemory(tokens_per_client=n_tokens, n_clients=1)
        held = []
        for _ in range(2):
            for _ in range(-(-n_tokens // answer)):
                memory.remember("somebody", random.integers(0, N_VOCAB, answer).tolist())
            held.append(tracemalloc.get_traced_memory()[0] - before)
    finally:
        if not was_tracing:
            tracemalloc.stop()
    return Remembering(n_tokens=n_tokens, n_bytes=held[0], n_bytes_after_twice=held[1])
