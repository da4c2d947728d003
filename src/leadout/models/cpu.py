"""What this computer's CPU can do, and how many cores this process may use.

The readings are pure functions of the system's text; elsewhere than on Linux the features are unknown, and
said to be.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_CPU_MAX = Path("/sys/fs/cgroup/cpu.max")

FLAG_OF_FEATURE = {
    "SSE3": "pni",
    "SSSE3": "ssse3",
    "AVX": "avx",
    "AVX_VNNI": "avx_vnni",
    "AVX2": "avx2",
    "F16C": "f16c",
    "FMA": "fma",
    "BMI2": "bmi2",
    "AVX512": "avx512f",
    "AVX512_VBMI": "avx512_vbmi",
    "AVX512_VNNI": "avx512_vnni",
    "AVX512_BF16": "avx512_bf16",
    "AMX_INT8": "amx_int8",
}
"""What ggml calls an x86 feature, and what Linux calls it."""

_ALIASES = {"avx512vbmi": "avx512_vbmi", "sse3": "pni"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cpu:
    """A CPU as far as it is known.

    Parameters
    ----------
    model : str
        Its name, or "unknown".
    flags : frozenset of str, or None
        Feature names as Linux spells them; None when they cannot be read on this system.
    """

    model: str
    flags: frozenset[str] | None

    def lacks(self, needed: Iterable[str]) -> list[str]:
        """Flags of `needed` that this CPU is known not to have; none when its flags are unknown."""
        return [] if self.flags is None else sorted(set(needed) - self.flags)


def read_cpu() -> Cpu:
    """The CPU this process runs on."""
    return parse_cpuinfo(_read(_CPUINFO))


def parse_cpuinfo(text: str) -> Cpu:
    """The CPU that the text of /proc/cpuinfo describes; unknown when it is empty or of another kind."""
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    flags = re.search(r"^flags\s*:\s*(.+)$", text, re.MULTILINE)
    return Cpu(
        model=model[1].strip() if model else "unknown",
        flags=frozenset(_ALIASES.get(flag, flag) for flag in flags[1].split()) if flags else None,
    )


def parse_system_info(text: str) -> frozenset[str]:
    """Flags that a ggml library was compiled to use, from its `llama_print_system_info` line."""
    switched_on = set(re.findall(r"(\w+) = 1\b", text))
    return frozenset(flag for feature, flag in FLAG_OF_FEATURE.items() if feature in switched_on)


def usable_cores() -> int:
    """Physical cores this process may use: its affinity, and its control group's quota, respected."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    cores = count_cores(_read(_CPUINFO), allowed)
    return max(1, min(cores, parse_cpu_max(_read(_CPU_MAX)) or cores))


def count_cores(cpuinfo: str, allowed: set[int]) -> int:
    """Distinct physical cores among the logical processors `allowed`, from the text of /proc/cpuinfo."""
    cores = set()
    for block in cpuinfo.split("\n\n"):
        fields = dict(re.findall(r"^([\w ]+?)\s*:\s*(.*)$", block, re.MULTILINE))
        if "processor" in fields and int(fields["processor"]) in allowed:
            cores.add((fields.get("physical id", "0"), fields.get("core id", f"#{fields['processor']}")))
    return len(cores) or len(allowed)


def parse_cpu_max(text: str) -> int | None:
    """Whole cores that a control group's `cpu.max` ("quota period", microseconds) grants; None: no limit."""
    match = re.match(r"(\d+) (\d+)", text)
    return max(1, int(match[1]) // int(match[2])) if match and int(match[2]) > 0 else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
