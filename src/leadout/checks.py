"""Checks of what a user gives, where a value is built: what was wrong, the value, what is allowed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeGuard

from leadout.errors import InputError


def is_whole(value: object) -> TypeGuard[int]:
    """Whether it is a whole number; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_finite(value: object) -> TypeGuard[float]:
    """Whether it is a finite number that a float can hold; True and False are none."""
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def whole(text: str) -> int | None:
    """The whole number that these digits are; None where they are none, or more than nine."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None


def check_whole(
    name: str, value: object, low: int, high: int | None = None, *, optional: bool = False
) -> None:
    """Refuse what is not a whole number in low..high, None being no bound; with `optional`, None is allowed.

    Raises
    ------
    InputError
    """
    if optional and value is None:
        return
    if not is_whole(value) or value < low or (high is not None and value > high):
        allowed = f">= {low}" if high is None else f"in {low}..{high}"
        raise InputError(f"{name} is {shown(value)}; it must be a whole number {allowed}")


def check_number(name: str, value: object, low: float, high: float, allowed: str) -> None:
    """Refuse what is not a finite number in low..high; `allowed` says that in words.

    Raises
    ------
    InputError
    """
    if not is_finite(value) or not low <= value <= high:
        raise InputError(f"{name} is {shown(value)}; it must be {allowed}")


def check_truth(name: str, value: object) -> None:
    """Refuse what is neither True nor False.

    Raises
    ------
    InputError
    """
    if not isinstance(value, bool):
        raise InputError(f"{name} is {shown(value)}; it must be True or False")


def check_one_of(name: str, value: object, allowed: Sequence[str]) -> None:
    """Refuse what is none of these words.

    Raises
    ------
    InputError
    """
    if value not in allowed:
        raise InputError(f"{name} is {shown(value)}; it must be one of {', '.join(allowed)}")


def check_kind(
    name: str, value: object, kind: type | tuple[type, ...], expected: str, *, optional: bool = False
) -> None:
    """Refuse what is no `kind`; `expected` says that in words. With `optional`, None is allowed.

    Raises
    ------
    InputError
    """
    if not isinstance(value, kind) and not (optional and value is None):
        raise InputError(f"{name} is {shown(value)}; it must be {expected}{' or None' if optional else ''}")


def shown(value: object) -> str:
    """The value as code, cut to a readable length."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
