"""Values from what was written down as JSON: believed only where every entry is of the kind that is declared.

Files of a cache may be damaged, written by another version or by hand; whoever reads one gets a sound value
or None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from leadout.checks import is_finite, is_whole

T = TypeVar("T")


def recalled(kind: type[T], values: object) -> T | None:
    """The value of a dataclass that `asdict` wrote; None where these are not such.

    Parameters
    ----------
    kind : type
        A dataclass whose fields are numbers, texts, truths, literals, tuples, None or such dataclasses.
    values : object
        Data of JSON.
    """
    try:
        return cast("T", _read(kind, values))
    except (TypeError, ValueError):
        return None


def _read(kind: object, value: object) -> object:
    """The value as `kind` has it.

    Raises
    ------
    ValueError
        If it is of another kind.
    """
    options = get_args(kind)
    if is_dataclass(kind) and isinstance(value, Mapping):
        hints = _hints(cast("type", kind))
        if set(value) == set(hints):
            return cast("type", kind)(**{name: _read(hint, value[name]) for name, hint in hints.items()})
    elif isinstance(kind, UnionType):
        other = next(each for each in options if each is not NoneType)
        return None if value is None and NoneType in options else _read(other, value)
    elif get_origin(kind) is tuple and isinstance(value, list | tuple):
        return tuple(_read(options[0], each) for each in value)
    elif get_origin(kind) is Literal:
        if isinstance(value, str) and value in options:
            return value
    elif kind in (int, float):
        if is_finite(value) and (kind is float or is_whole(value)):
            return value
    elif isinstance(kind, type) and isinstance(value, kind):
        return value
    raise ValueError(f"{value!r} is not of the kind {kind}")


@cache
def _hints(kind: type) -> Mapping[str, object]:
    """Fields and their kinds; found out once, as thousands of files may be read."""
    return get_type_hints(kind)
