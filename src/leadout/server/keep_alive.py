"""How long a model stays in memory after its last request, as Ollama's clients write it."""

from __future__ import annotations

import math
import re

from leadout.errors import InputError

STAYS = math.inf

_UNIT_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = r"(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)"
_DURATION = re.compile(rf"([+-]?)((?:{_PART})+)", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)", re.ASCII)
_LONGEST_S = 1e9  # 30 years; whatever is longer stays


def keep_alive_s(value: float | str) -> float:
    """Seconds; `STAYS` for negative ones and for more than a server lives.

    Parameters
    ----------
    value : number or str
        Seconds, or a duration as Go writes it, such as ``"5m"`` or ``"1h30m"``.

    Raises
    ------
    InputError
        If it is neither.
    """
    seconds = value if isinstance(value, int | float) else _seconds(value.strip())
    if seconds is None or math.isnan(seconds):
        raise InputError(
            f"keep_alive is {str(value)[:40]!r}; it must be seconds, or a duration such as 30s, 5m or 1h30m; "
            "a negative one stays, 0 leaves at once"
        )
    return STAYS if seconds < 0 or seconds > _LONGEST_S else float(seconds)


def _seconds(text: str) -> float | None:
    if _NUMBER.fullmatch(text):
        return float(text)
    duration = _DURATION.fullmatch(text)
    if duration is None:
        return None
    seconds = sum(float(number) * _UNIT_S[unit] for number, unit in re.findall(_PART, duration[2]))
    return -seconds if duration[1] == "-" else seconds
