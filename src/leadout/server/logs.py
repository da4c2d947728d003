"""Log lines: one a request, as text or as JSON."""

from __future__ import annotations

import json
import logging
import time

from leadout.server.options import LogFormat


class LineFormatter(logging.Formatter):
    """Writes a record's message and its ``fields``.

    Parameters
    ----------
    log_format : "text" or "json"
    """

    def __init__(self, log_format: LogFormat) -> None:
        super().__init__()
        self._is_json = log_format == "json"

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the traceback of an error."""
        fields = getattr(record, "fields", {})
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        when = f"{when}.{int(record.msecs):03d}Z"
        error = self.formatException(record.exc_info) if record.exc_info else ""
        if self._is_json:
            told = {"time": when, "level": record.levelname.lower(), "event": record.getMessage(), **fields}
            return json.dumps(told | {"error": error} if error else told, default=str)
        said = " ".join(f"{name}={_short(value)}" for name, value in fields.items())
        line = f"{when} {record.levelname.lower()} {record.getMessage()} {said}".rstrip()
        return f"{line}\n{error}" if error else line


def configure_logs(log_format: LogFormat) -> None:
    """Send the server's log lines to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter(log_format))
    for name, level in (("leadout.server", logging.INFO), ("uvicorn.error", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False


def _short(value: object) -> str:
    return value if isinstance(value, str) and value and " " not in value else json.dumps(value, default=str)
