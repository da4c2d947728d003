"""A file's first load, in a process of its own.

The libraries trust what a file says of itself: a damaged or unheard-of one ends the process, and so does an
instruction that the CPU lacks. Hence a child process tries every file before this one loads it, once for a
file, library, CPU and the options that matter. Where no child can be started there is no trial.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from leadout.errors import ModelFileError, ProviderError
from leadout.models.header import Header
from leadout.models.options import GgufOptions
from leadout.models.remember import Findings, key_of

STARTED = "trial started"
"""First line of a child that got as far as reading what to try."""

_VERSION = 1  # of the trial; files are tried again after a change
_FINE = {"is_fine": True}
_PACKAGES = {"ik": "ik-llama-cpp-python", "llama": "llama-cpp-python"}
_OTHER = {"ik": "llama", "llama": "ik"}
_N_CTX = 64
_MIN_TIME_S, _SLOWEST_BYTES_PER_S = 300, 2_000_000  # a network folder may be slow
_MAX_WORDS = 300
_REASON = re.compile(r"GGML_ASSERT|what\(\):|fatal error|GGML_ABORT|Error: ")
_FOLDERS = re.compile(r"\S*/(?=[\w.-]+:\d+:)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a child ended.

    Parameters
    ----------
    code : int
        Its exit code; the negative number of the signal that ended it.
    said : str
        Its report: the line `STARTED` and one of JSON.
    words : str
        What the library wrote.
    """

    code: int
    said: str
    words: str


def require_sound(header: Header, options: GgufOptions, provider: str, folder: Path | None = None) -> None:
    """Try a file in a child process, unless it was found to be fine before.

    Parameters
    ----------
    provider : str
        "ik" or "llama".
    folder : Path or None
        Where to remember; None is leadout's cache folder.

    Raises
    ------
    ModelFileError
        If the library ends the process on it, or cannot run it; with its last words and the next step.
    ProviderError
        If that is the library's fault: an instruction this CPU lacks, no end, or no memory.
    """
    tried = replace(
        options, n_ctx=_N_CTX, n_slots=1, n_batch=min(options.n_batch, _N_CTX), n_threads=1, use_mlock=False
    )
    try:
        key = _key(header, tried, provider)
    except (OSError, importlib.metadata.PackageNotFoundError):
        return  # loading will say what is missing
    findings = Findings("trials", folder)
    if findings.read(key) == _FINE:
        return
    ending = _run(header, tried, provider)
    if ending is not None and judge(ending, header, provider):
        findings.write(key, _FINE)


def judge(ending: Ending, header: Header, provider: str) -> bool:
    """True when the trial went well, False when it says nothing about the file.

    Raises
    ------
    ModelFileError, ProviderError
        As `require_sound`.
    """
    started, _, report = ending.said.partition("\n")
    if started != STARTED:
        return False
    if ending.code == 0:
        _raise_reported(json.loads(report))
        return True
    if ending.code > 0:
        raise _died(f"failed with exit code {ending.code}", ending, header, provider)
    name = _signal_name(-ending.code)
    if name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGPIPE"):  # sent by someone, not the library's doing
        return False
    if name == "SIGKILL":
        raise ProviderError(
            f"the {provider} provider was killed (SIGKILL) when it first tried {header.path}, most likely "
            "for want of memory; free some or use a smaller model"
        )
    if name == "SIGILL":
        raise ProviderError(
            f"the {provider} provider was built for another CPU: it ran an instruction that this one lacks "
            f"(SIGILL); build {_PACKAGES[provider]} on this machine or use --provider {_OTHER[provider]}"
        )
    raise _died(f"was ended by {name}", ending, header, provider)


def _key(header: Header, tried: GgufOptions, provider: str) -> str:
    package = importlib.metadata.distribution(_PACKAGES[provider])
    build = hashlib.sha256((package.read_text("RECORD") or "").encode()).hexdigest()
    facts = {"trial": _VERSION, "library": [provider, package.version, build], "options": asdict(tried)}
    return key_of(header.parts, facts)


def _run(header: Header, tried: GgufOptions, provider: str) -> Ending | None:
    """Run the child to its end; None when it cannot be started."""
    if not sys.executable or hasattr(sys, "frozen"):  # an application with Python inside, not a Python
        return None
    request = {"path": str(header.path), "provider": provider, "options": asdict(tried)}
    time_limit_s = _MIN_TIME_S + header.n_bytes / _SLOWEST_BYTES_PER_S
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "leadout.models.trial_child"],
            input=json.dumps(request).encode(),
            capture_output=True,
            timeout=time_limit_s,
            env=_environment(),
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ProviderError(
            f"the {provider} provider did not get through two tokens of {header.path} in "
            f"{time_limit_s:,.0f} s; use --provider {_OTHER[provider]}, or a faster disk"
        ) from error
    except OSError:
        return None
    return Ending(
        code=done.returncode,
        said=done.stdout.decode(errors="replace"),
        words=done.stderr.decode(errors="replace"),
    )


def _environment() -> dict[str, str]:
    """This process's, and what it imports from; the library must not call a debugger when it aborts."""
    folders = [folder for folder in sys.path if folder]
    own = str(Path(__file__).parents[2])
    if own not in folders:  # imported from the working folder
        folders.append(own)
    ours = {"PYTHONPATH": os.pathsep.join(folders), "GGML_NO_BACKTRACE": "1"}
    if os.name == "posix":
        ours["PATH"] = os.devnull  # older libraries look for gdb there
    return {**os.environ, **ours}


def _raise_reported(report: dict[str, str]) -> None:
    if report["error"] == ProviderError.__name__:
        raise ProviderError(report["text"])
    if report["error"]:
        raise ModelFileError(report["text"])


def _died(how: str, ending: Ending, header: Header, provider: str) -> ModelFileError:
    words = _last_words(ending.words)
    return ModelFileError(
        f"the {provider} provider {how} on {header.path} in a trial ({words}): the file is damaged or of a "
        f"kind it does not know; fetch it again or use --provider {_OTHER[provider]}"
    )


def _last_words(words: str) -> str:
    """What a library said when it ended the process, without what it prints about its own inside."""
    lines = [_FOLDERS.sub("", " ".join(line.split())) for line in words.splitlines() if line.strip()]
    reasons = [line for line in lines if _REASON.search(line)]
    return "; ".join((reasons or lines)[-2:])[:_MAX_WORDS] or "it gave no reason"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
