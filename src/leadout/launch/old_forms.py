"""Recognises ways to turn speculation on that an engine no longer has, or never had.

The table is data (`old_forms_table`); here it is matched against arguments, environment variables and the
keys of JSON and ``key=value`` arguments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from leadout.launch.capabilities import Capabilities
from leadout.launch.versions import version_of

Where = Literal["flag", "key", "variable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OldForm:
    """One form, and what it is today.

    Parameters
    ----------
    engine : str
    where : Where
        A flag, a key (of a JSON object or of ``key=value``), or an environment variable.
    name, value : str
        Patterns of the whole name and of the whole value; "" takes any value.
    today : str
        What to write instead.
    why : str
        What the form does today.
    since, before : str
        Versions in which that is so: from `since` on, and older than `before`; "" is no bound.
    needs, lacks : str
        A word that the engine's help has, or has not, where that is so; "" asks for none.
    is_fatal : bool
        Refuse it; False goes on with a warning.
    """

    engine: str
    where: Where
    name: str
    value: str = ""
    today: str
    why: str
    since: str = ""
    before: str = ""
    needs: str = ""
    lacks: str = ""
    is_fatal: bool = True

    def holds_for(self, capabilities: Capabilities) -> bool:
        """Whether it is an old form in this version."""
        return (
            (not self.since or capabilities.version >= version_of(self.since))
            and (not self.before or capabilities.version < version_of(self.before))
            and (not self.needs or capabilities.knows(self.needs))
            and (not self.lacks or not capabilities.knows(self.lacks))
        )

    def matches(self, seen: Seen) -> bool:
        """Whether `seen` is written this way."""
        return (
            self.where == seen.where
            and re.fullmatch(self.name, seen.name) is not None
            and (not self.value or re.fullmatch(self.value, seen.value, re.IGNORECASE) is not None)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A flag, key or variable that was given; the value is "" where it has none."""

    where: Where
    name: str
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An old form that was given."""

    form: OldForm
    seen: Seen

    @property
    def message(self) -> str:
        """What was written, what it does, and what to write."""
        written = self.seen.name
        if self.form.value:
            written += f"{' ' if self.seen.where == 'flag' else '='}{self.seen.value}"
        return f"{written}: {self.form.why}; today: {self.form.today}"


def find_old_forms(
    table: Sequence[OldForm], capabilities: Capabilities, extra: Sequence[str], environment: Mapping[str, str]
) -> list[Found]:
    """Old forms among an engine's arguments and variables, in the order they were given.

    Parameters
    ----------
    table : sequence of OldForm
        Of this engine.
    capabilities : Capabilities
        Of the installed version.
    extra : sequence of str
        Arguments as the user wrote them: flags, ``key=value`` as in Python, JSON objects.
    environment : mapping
        Variables that the engine would inherit.
    """
    forms = [form for form in table if form.holds_for(capabilities)]
    given = [*seen_in(extra), *(Seen(where="variable", name=n, value=v) for n, v in environment.items())]
    return [Found(form=form, seen=seen) for seen in given for form in forms if form.matches(seen)]


def seen_in(extra: Sequence[str]) -> Iterator[Seen]:
    """The flags, and the keys of JSON objects and of ``key=value``, in order."""
    for at, argument in enumerate(extra):
        following = extra[at + 1] if at + 1 < len(extra) else ""
        if argument.startswith("-"):
            yield from _flag(argument, following)
        else:
            yield from _keys(argument)


def _flag(argument: str, following: str) -> Iterator[Seen]:
    name, equals, value = argument.partition("=")
    if not equals and following and not following.startswith("-"):
        value = following
    yield Seen(where="flag", name=name, value=value)
    _, dot, key = name.partition(".")  # --speculative-config.key VALUE
    if dot:
        yield Seen(where="key", name=key.replace("-", "_"), value=value)
    elif equals:
        yield from _keys(value)


def _keys(text: str) -> Iterator[Seen]:
    if text.lstrip().startswith("{"):
        try:
            read = json.loads(text)
        except ValueError:
            return
        yield from _keys_of(read)
        return
    name, equals, value = text.partition("=")
    if equals and re.fullmatch(r"[A-Za-z_][\w.]*", name.strip()):
        yield Seen(where="key", name=name.strip(), value=value.strip().strip("\"',"))
        yield from _keys(value.strip().replace("'", '"'))


def _keys_of(read: object) -> Iterator[Seen]:
    if isinstance(read, dict):
        for name, value in read.items():
            shown = value if isinstance(value, str) else json.dumps(value)
            yield Seen(where="key", name=str(name).replace("-", "_"), value=shown)
            yield from _keys_of(value)
