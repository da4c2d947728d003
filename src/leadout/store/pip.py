"""The ordinary package client as a subprocess. Where packages come from is pip's own configuration."""

from __future__ import annotations

import os
import re
import subprocess
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from leadout.errors import StoreError

_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")
_OFFLINE_SIGNS = (
    "Retrying (",
    "Could not fetch URL",
    "connection broken",
    "Temporary failure in name resolution",
)
_STEP = "check the network and pip's configuration (`pip config list`), then try again"


def download_wheel(
    requirement: str,
    folder: Path,
    *,
    python: str,
    environment: Mapping[str, str],
    report: Callable[[int, int], None],
) -> Path:
    """Download one wheel, without its dependencies, into the empty `folder`; nothing of it is run.

    Parameters
    ----------
    report : callable
        Called with (bytes so far, bytes in all) while the wheel arrives, where pip can tell.

    Raises
    ------
    StoreError
        If pip is missing, fails (with its last line) or leaves no wheel.
    """
    # -P: nothing is imported from the working directory. No pip cache: it would keep a second copy for good.
    command = [python, "-P", "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
    command += ["--progress-bar", progress_style(_pip_version()), "-d", str(folder), "--", requirement]
    try:
        process = subprocess.Popen(
            command,
            env=_environment(environment, folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:
        raise StoreError(f"cannot start pip with {python!r}: {error.strerror}; install pip there") from error
    with process:
        try:
            lines = _follow(process.stdout or (), report)
        except BaseException:
            process.kill()
            raise
    wheels = sorted(folder.glob("*.whl"))
    if process.returncode != 0 or len(wheels) != 1:
        raise StoreError(explain_failure(requirement, lines))
    return wheels[0]


def progress_style(version: str) -> str:
    """Value of pip's --progress-bar: "raw" lines are made for programs, and written by pip 24.1 and later."""
    match = re.match(r"(\d+)\.(\d+)", version)
    return "raw" if match and (int(match[1]), int(match[2])) >= (24, 1) else "off"


def explain_failure(requirement: str, lines: Iterable[str]) -> str:
    """One line of what pip said: its last error, without credentials."""
    said = [line.strip() for line in lines if line.strip()]
    errors = [line for line in said if line.startswith("ERROR:")] or said or ["no output"]
    last = redact(errors[-1])
    if any("No space left on device" in line for line in said):
        return f"no space left while pip fetched {requirement}: {last}; free some space, then try again"
    if any("No module named pip" in line for line in said):
        return f"pip is needed to fetch {requirement}, but this Python has none; run `python -m ensurepip`"
    if any(sign in line for line in said for sign in _OFFLINE_SIGNS):
        return f"no network: pip cannot reach its package index for {requirement}: {last}; {_STEP}"
    return f"pip could not download {requirement}: {last}; {_STEP}"


def redact(text: str) -> str:
    """Remove user names and passwords of addresses, and hub tokens, from a line; cut it to 300 characters."""
    text = re.sub(r"(://)[^/@\s]+@", r"\1", text)
    return re.sub(r"\bhf_[A-Za-z0-9]{8,}", "hf_***", text)[:300]


def _follow(output: Iterable[str], report: Callable[[int, int], None]) -> list[str]:
    kept: deque[str] = deque(maxlen=200)
    for line in output:
        if match := _PROGRESS.match(line):
            report(int(match[1]), int(match[2]))
        else:
            kept.append(line)
    return list(kept)


def _environment(extra: Mapping[str, str], folder: Path) -> dict[str, str]:
    environment = dict(os.environ)
    environment.setdefault("PIP_RETRIES", "2")
    environment |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PYTHONUTF8": "1"}
    environment |= {"PYTHONUNBUFFERED": "1", "NO_COLOR": "1"}
    # pip builds the file in its temporary folder: keep that on the disk whose space was checked
    environment |= dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder))
    return environment | dict(extra)


def _pip_version() -> str:
    with suppress(metadata.PackageNotFoundError):
        return metadata.version("pip")
    return "0.0"
