"""Starts an engine, waits until it answers, and ends it with everything it started."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from leadout.errors import BackendError, InputError, ProviderError
from leadout.launch.setup import Command, Setup
from leadout.launch.show import quoted

READY_S = 900.0
"""Longest that an engine may take to load its models and answer."""

GRACE_S = 20.0
"""Longest that it may take to end when asked to."""

_POLL_S = 0.2


def execute(
    setup: Setup,
    environment: Mapping[str, str],
    *,
    say: Callable[[str], None],
    ready: Callable[[str], bool] | None = None,
    ready_s: float = READY_S,
) -> int:
    """Start the engine, stream its log to this terminal, and stay until it ends.

    Parameters
    ----------
    setup : Setup
    environment : mapping
        What the engine inherits.
    say : callable
        Told what happens, a line each.
    ready : callable
        Called with the URL once the engine answers; False ends the engine. None stays.
    ready_s : float
        Longest to wait for that, in seconds.

    Returns
    -------
    code : int
        The engine's exit code; 0 when `ready` ended it.

    Raises
    ------
    InputError
        If something listens on its port already.
    ProviderError
        If it cannot be started, or a command beside it fails.
    BackendError
        If it ends, or does not answer, before it is ready.
    KeyboardInterrupt
        On Ctrl-C, when the engine has ended.
    """
    require_free_port(setup.url)
    variables = {**dict(setup.defaults), **environment, **dict(setup.environment)}
    with tempfile.TemporaryDirectory(prefix="leadout-") as name:
        folder = Path(name)
        for file in setup.files:
            (folder / file.name).write_text(file.text, encoding="utf-8")
        try:
            for command in setup.before:
                _run(command, folder, variables, say)
            say(f"starting {quoted(setup.argv)}")
            with _process(setup, folder, variables) as process:
                started = time.monotonic()
                _wait_until_ready(setup, process, started + ready_s)
                for command in setup.after:
                    _run(command, folder, variables, say)
                say(f"ready at {setup.url} after {time.monotonic() - started:.1f} s; Ctrl-C ends it")
                return process.wait() if ready is None or ready(setup.url) else 0
        finally:
            for command in setup.closing:
                with suppress(ProviderError):
                    _run(command, folder, variables, say)


def require_free_port(url: str) -> None:
    """Refuse a port on which something listens.

    Raises
    ------
    InputError
    """
    parts = urlsplit(url)
    with suppress(OSError), socket.create_connection((parts.hostname or "", parts.port or 80), timeout=1):
        raise InputError(
            f"port {parts.port} of {parts.hostname} is in use already; stop what listens there, or "
            "give another "
            "with --port"
        )


@contextmanager
def _process(setup: Setup, folder: Path, variables: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """The engine in a process group of its own, which is ended with all it started."""
    try:
        process = subprocess.Popen(
            setup.argv, cwd=folder, env=dict(variables), stdin=subprocess.DEVNULL, start_new_session=True
        )
    except OSError as error:
        raise ProviderError(f"{setup.argv[0]} cannot be run: {error.strerror or error}") from error
    with _terminated_like_an_interrupt():
        try:
            yield process
        finally:
            _end(process)


def _wait_until_ready(setup: Setup, process: subprocess.Popen[bytes], until: float) -> None:
    while not answers(setup.url + setup.health):
        code = process.poll()
        if code is not None:
            raise BackendError(f"{setup.engine} ended with code {code} before it was ready; its log is above")
        if time.monotonic() > until:
            raise BackendError(
                f"{setup.engine} did not answer at {setup.url}{setup.health} in time; its log is above, and "
                "--ready-timeout makes the time longer"
            )
        time.sleep(_POLL_S)


def answers(url: str) -> bool:
    """Whether a GET there is answered with 200; never through a proxy."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=5) as response:
            return bool(response.status == 200)
    except urllib.error.HTTPError as error:
        error.close()
        return False
    except (OSError, http.client.HTTPException):
        return False


def _run(command: Command, folder: Path, variables: Mapping[str, str], say: Callable[[str], None]) -> None:
    say(f"{command.purpose}: {quoted(command.argv)}")
    try:
        code = subprocess.run(
            command.argv, cwd=folder, env=dict(variables), stdin=subprocess.DEVNULL, check=False
        ).returncode
    except OSError as error:
        raise ProviderError(f"{command.argv[0]} cannot be run: {error.strerror or error}") from error
    if code != 0:
        raise ProviderError(f"{quoted(command.argv)} ended with code {code}; its words are above")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask the whole group to end, then make it; workers that outlive their parent end too."""
    _signal(process, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=GRACE_S)
    _signal(process, signal.SIGKILL if os.name == "posix" else signal.SIGTERM)
    process.wait()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(process.pid, number)
        else:
            process.terminate()


@contextmanager
def _terminated_like_an_interrupt() -> Iterator[None]:
    """Let SIGTERM end the engine too, as Ctrl-C does."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
