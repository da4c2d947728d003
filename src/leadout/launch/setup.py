"""What an engine needs to be started: commands, variables, files, and what the user should know."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

SECRET = "***"
_SECRET_FLAG = re.compile(r"--?[\w-]*(?:api[-_]?key|token|secret|password)[\w-]*", re.IGNORECASE)
_NO_SECRET = re.compile(r"--?[\w-]*(?:tokens|tokenizer|token-ids|token_ids)[\w-]*", re.IGNORECASE)
_SECRET_NAME = re.compile(r".*(?:KEY|TOKEN|SECRET|PASSWORD)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command line and what it is for."""

    argv: tuple[str, ...]
    purpose: str


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file that the commands name by its relative path `name`."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """An engine, ready to be started in a folder that holds `files`.

    Parameters
    ----------
    engine : str
        Its name here.
    argv : tuple of str
        The command that serves; it runs until it is stopped.
    environment, defaults : tuple of (str, str)
        Variables it needs beside those it inherits; `defaults` only where the user has set none.
    files : tuple of File
        Configuration.
    before, after, closing : tuple of Command
        Run before it starts, once it answers, and when it has ended.
    elsewhere : tuple of Command
        What to run on the other machines, by hand.
    url, health : str
        Where it answers, and the path that answers 200 once it is ready.
    notes, warnings : tuple of str
        What was decided and why; what may go wrong or is not as it seems.
    """

    engine: str
    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    defaults: tuple[tuple[str, str], ...] = ()
    files: tuple[File, ...] = ()
    before: tuple[Command, ...] = ()
    after: tuple[Command, ...] = ()
    closing: tuple[Command, ...] = ()
    elsewhere: tuple[Command, ...] = ()
    url: str
    health: str
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def without_secrets(argv: Sequence[str]) -> list[str]:
    """The arguments with the values of keys, tokens and passwords replaced by ``***``."""
    shown, is_next = list[str](), False
    for argument in argv:
        name, equals, _ = argument.partition("=")
        is_secret = (
            _SECRET_FLAG.fullmatch(name) is not None and _NO_SECRET.fullmatch(name) is None
        ) or _is_secret_assignment(argument)
        if is_next and not argument.startswith("-"):
            shown.append(SECRET)
        elif is_secret and equals:
            shown.append(f"{name}={SECRET}")
        else:
            shown.append(argument)
        is_next = is_secret and not equals
    return shown


def has_secret(argv: Sequence[str]) -> bool:
    """Whether any argument carries a key, a token or a password."""
    return without_secrets(argv) != list(argv)


def _is_secret_assignment(argument: str) -> bool:
    name, equals, _ = argument.partition("=")
    return bool(equals) and name.isidentifier() and _SECRET_NAME.fullmatch(name) is not None
