"""What another process prints, kept for the case that it fails."""

from __future__ import annotations

import os
import tempfile
from typing import IO

_N_BYTES = 4000


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
