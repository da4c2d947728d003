"""Other processes: what they inherit, and what they print, kept for the case that they fail."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import IO

_N_BYTES = 4000
_OWN = str(Path(__file__).parents[2])


def child_environment() -> dict[str, str]:
    """This process's, and the way to this leadout, whatever Python the child is."""
    given = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([_OWN, given] if given else [_OWN])}


class LastWords:
    """A file without a name for a process to print to; it vanishes when it is closed."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115

    @property
    def file(self) -> IO[bytes]:
        """To hand over as standard output or standard error."""
        return self._file

    def read(self) -> str:
        """The last line that is not empty."""
        if self._file.closed:
            return "it was closed"
        fileno = self._file.fileno()
        size = os.fstat(fileno).st_size
        # at an offset of its own: the process goes on to print at the file's
        said = os.pread(fileno, _N_BYTES, max(0, size - _N_BYTES)).decode("utf-8", "replace")
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        return lines[-1] if lines else "it said nothing"

    def close(self) -> None:
        """Forget everything."""
        self._file.close()
