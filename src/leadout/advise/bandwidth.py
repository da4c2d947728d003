"""How fast this machine reads memory: measured once, in a fraction of a second, and remembered."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

import numpy as np

from leadout.checks import is_finite
from leadout.core.slowdown import DISTURBED, slowdown
from leadout.models.cpu import read_cpu, usable_cores
from leadout.models.free_memory import free_bytes
from leadout.models.remember import Findings

_LARGEST = 256_000_000  # bytes; several times any cache that one core can use
_N_TIMES = 4


def bandwidth(findings: Findings | None = None, clock: Callable[[], float] = perf_counter) -> float:
    """Bytes per second that all cores read together, as remembered for this machine or measured now.

    Where something else kept the machine busy it is measured anew the next time.
    """
    n_threads = usable_cores()
    key = hashlib.sha256(f"bandwidth {n_threads} {read_cpu().model}".encode()).hexdigest()
    known = findings.read(key) if findings is not None else None
    if is_finite(known) and known > 0:
        return float(known)
    measured, times = measure(n_threads, clock)
    if findings is not None and times < DISTURBED:
        findings.write(key, measured)
    return measured


def measure(n_threads: int, clock: Callable[[], float] = perf_counter) -> tuple[float, float]:
    """Bytes per second of the fastest of a few sums over an array that fits into no cache; and how many times
    as long the usual one took.
    """
    n_bytes = min(_LARGEST, free_bytes() // 4)
    data = np.ones(max(1024, n_bytes // 8), dtype=np.int64)
    pieces = np.array_split(data, n_threads)
    with ThreadPoolExecutor(n_threads) as pool:
        seconds = []
        for _ in range(_N_TIMES):
            started = clock()
            list(pool.map(np.sum, pieces))
            seconds.append(clock() - started)
    return data.nbytes / max(min(seconds), 1e-9), slowdown(seconds)
