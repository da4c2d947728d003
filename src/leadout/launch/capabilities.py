"""What the installed engine is and knows: its version or its help, asked in a process of its own.

Never guessed from a name. Where an engine is not installed, a stated version stands in for it, to show
commands only.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from leadout.errors import ProviderError
from leadout.launch.versions import Version, version_of

LIMIT_S = 120.0
"""Longest that a program may take to say its version or its help."""

_FLAG = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")
_WORD = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)+")
_ASK_DISTRIBUTION = (
    "import importlib.metadata as m, sys\n"
    "for name in sys.argv[1:]:\n"
    "    try: print(name, m.version(name)); break\n"
    "    except m.PackageNotFoundError: pass\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """How an engine is found on a machine.

    Parameters
    ----------
    program : str
        Its program's name.
    how : str
        What to do to install it.
    assumed : str
        The newest version whose forms were read; stands in where nothing is installed.
    distributions : tuple of str
        Python packages that carry it, first found first; empty for an engine that is no Python package.
    version_arguments, version_pattern : tuple of str, str
        Make the program say its version, and where in that it stands.
    asks_help : bool
        Flags are chosen from what its help knows.
    assumed_words : frozenset of str
        Flags and values that the assumed version's help has.
    """

    program: str
    how: str
    assumed: str
    distributions: tuple[str, ...] = ()
    version_arguments: tuple[str, ...] = ("--version",)
    version_pattern: str = r"version (?:is )?v?(\d[\w.+-]*)"
    asks_help: bool = False
    assumed_words: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What was found out.

    Parameters
    ----------
    program : str
        Path of the program, or its name where nothing is installed.
    python : str
        The Python it runs in; "" for other programs.
    release : str
        Version as the engine says it.
    distribution : str
        The Python package it came in; "" for other programs.
    words : frozenset of str
        Flags and values that its help knows; empty where the help was not asked.
    is_assumed : bool
        True when nothing is installed and `release` is only the newest version read.
    """

    program: str
    release: str
    python: str = ""
    distribution: str = ""
    words: frozenset[str] = frozenset()
    is_assumed: bool = False

    @property
    def version(self) -> Version:
        """`release` as numbers."""
        return version_of(self.release)

    def is_at_least(self, release: str) -> bool:
        """Whether it is this version or a newer one."""
        return self.version >= version_of(release)

    def knows(self, *words: str) -> bool:
        """Whether its help has all of these flags and values."""
        return all(word in self.words for word in words)


def assumed(installation: Installation) -> Capabilities:
    """What the newest version read can do, without looking at this machine."""
    return Capabilities(
        program=installation.program,
        python="python3" if installation.distributions else "",
        release=installation.assumed,
        distribution=installation.distributions[0] if installation.distributions else "",
        words=installation.assumed_words,
        is_assumed=True,
    )


def probe(installation: Installation, program: str = "", *, limit_s: float = LIMIT_S) -> Capabilities:
    """Ask the installed engine.

    Parameters
    ----------
    installation : Installation
    program : str
        Path of the program, or of the Python whose package it is; "" looks on PATH and beside this Python.
    limit_s : float
        Longest that one question may take, in seconds.

    Raises
    ------
    ProviderError
        If it is not installed, cannot be run, or does not say what it is.
    """
    found = _find(installation, program)
    if installation.distributions:
        python = _python_beside(found)
        said = _say([python, "-c", _ASK_DISTRIBUTION, *installation.distributions], limit_s)
        name, _, release = said.strip().partition(" ")
        if not release:
            raise ProviderError(
                f"{python} has none of the packages {', '.join(installation.distributions)}; "
                f"{installation.how}"
            )
        return Capabilities(program=found, python=python, release=release, distribution=name)
    said = _say([found, *installation.version_arguments], limit_s)
    words = _words(_say([found, "--help"], limit_s)) if installation.asks_help else frozenset[str]()
    stated = re.findall(installation.version_pattern, said)
    release = str(stated[-1]) if stated else ""
    if not release and not words:
        raise ProviderError(f"{found} does not say its version: {said.strip()[:200]!r}; {installation.how}")
    return Capabilities(program=found, release=release, words=words)


def _find(installation: Installation, program: str) -> str:
    wanted = program or installation.program
    found = shutil.which(wanted)
    if found is None and not program:
        found = shutil.which(wanted, path=str(Path(sys.executable).parent))
    if found is None:
        raise ProviderError(
            f"{wanted} is not installed here or not on PATH: {installation.how}; name it with "
            "--program FILE, "
            "or see the commands with --dry-run"
        )
    return str(Path(found).absolute())


def _python_beside(program: str) -> str:
    """The Python of the environment that a script lies in; `program` itself where it is one."""
    if Path(program).name.startswith("python"):
        return program
    for name in ("python3", "python", "python.exe"):
        beside = Path(program).with_name(name)
        if beside.is_file():
            return str(beside)
    return sys.executable


def _say(argv: Sequence[str], limit_s: float) -> str:
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, errors="replace", timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ProviderError(f"{argv[0]} said nothing for {limit_s:.0f} s; see whether it works") from error
    except OSError as error:
        raise ProviderError(f"{argv[0]} cannot be run: {error.strerror or error}") from error
    return done.stdout + done.stderr


def _words(text: str) -> frozenset[str]:
    return frozenset(_FLAG.findall(text)) | frozenset(_WORD.findall(text))
