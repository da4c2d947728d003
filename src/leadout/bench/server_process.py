"""`leadout serve` in a process of its own, at a free port of this machine."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from types import TracebackType

import httpx

from leadout.errors import ProviderError

_END_S = 60.0
_KEPT = 40


class ServerProcess:
    """Serves a model until it is closed.

    Parameters
    ----------
    target : str
    flags : sequence of str
        Of `leadout serve`; the port is added.

    Raises
    ------
    ProviderError
        If it does not start.
    """

    def __init__(self, target: str, flags: Sequence[str] = ()) -> None:
        command = [sys.executable, "-m", "leadout", "serve", target, "--port", "0", *flags]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        self._said: list[str] = []
        for line in self._process.stderr:
            self._said.append(line)
            found = re.search(r"at (http://[\d.:]+)/v1; Ctrl-C ends it", line)
            if found:
                self.url = found[1]
                break
        else:
            self._process.wait()
            self._process.stderr.close()
            raise ProviderError(f"leadout serve ended: {''.join(self._said)[-2000:]}")
        self._reader = threading.Thread(target=self._read_on, daemon=True)
        self._reader.start()
        [model] = httpx.get(f"{self.url}/v1/models", trust_env=False, timeout=_END_S).json()["data"]
        self.model: str = model["id"]

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def close(self) -> None:
        """End it; raises ProviderError where it does not end well."""
        self._process.terminate()
        try:
            status = self._process.wait(_END_S)
        except subprocess.TimeoutExpired as error:
            self._process.kill()
            self._process.wait()
            raise ProviderError(f"leadout serve did not end within {_END_S:g} s") from error
        self._reader.join()
        if self._process.stderr is not None:
            self._process.stderr.close()
        if status:
            raise ProviderError(f"leadout serve ended with {status}: {''.join(self._said)[-2000:]}")

    def __enter__(self) -> ServerProcess:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def _read_on(self) -> None:
        """Keep the last lines of its log, so that it never waits to be read."""
        for line in self._process.stderr or ():
            self._said = [*self._said[1 - _KEPT :], line]
