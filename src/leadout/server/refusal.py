"""What a client is told when a request cannot be served, in the form of the OpenAI interface."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from leadout.checks import shown
from leadout.errors import BusyError, ClosingError, InputError, LeadoutError, PromptTooLongError
from leadout.server.json_response import JsonResponse

OLLAMA_PATHS = "/api/"


class RefusedError(LeadoutError):
    """A request that is answered with an error.

    Parameters
    ----------
    status : int
        HTTP status, 4xx or 5xx.
    message : str
        What was wrong, the value, what is allowed.
    param : str or None
        The field it is about, such as ``messages[0].content``.
    code : str or None
        For programs, such as "model_not_found".
    retry_after_s : float or None
        When to try again.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code
        self.retry_after_s = retry_after_s

    def to_json(self) -> dict[str, object]:
        """The error as OpenAI's interface writes it."""
        kind = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}.get(
            self.status, "invalid_request_error" if self.status < 500 else "server_error"
        )
        error = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return {"error": error}

    def to_ollama(self) -> dict[str, object]:
        """The error as Ollama's interface writes it, and beside it what programs may want to know."""
        return {"error": self.message, "param": self.param, "code": self.code}

    def response(self, path: str = "") -> JsonResponse:
        """The error as a response; of Ollama's interface where the request's path is one of its."""
        headers = {}
        if self.retry_after_s is not None:
            headers["Retry-After"] = str(max(1, math.ceil(self.retry_after_s)))
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        told = self.to_ollama() if path.startswith(OLLAMA_PATHS) else self.to_json()
        return JsonResponse(told, status_code=self.status, headers=headers)


def refusal_of(error: LeadoutError, fields: Collection[str] = ()) -> RefusedError:
    """What to answer for an error of the library.

    Parameters
    ----------
    error : LeadoutError
    fields : collection of str
        Names of the request's fields: messages of the library begin with the one they are about.
    """
    match error:
        case RefusedError():
            return error
        case ClosingError():
            return RefusedError(503, str(error), code="closing", retry_after_s=error.retry_after_s)
        case BusyError():
            return RefusedError(429, str(error), code="busy", retry_after_s=error.retry_after_s)
        case PromptTooLongError():
            return RefusedError(400, str(error), code="context_length_exceeded")
        case InputError():
            first = str(error).split(" ", 1)[0].split("[", 1)[0]
            return RefusedError(400, str(error), param=first if first in fields else None)
    return RefusedError(500, str(error), code=type(error).__name__)


def reason_for_client(error: LeadoutError, path: Path | None) -> str:
    """What a client is told of an error with a model's file: not where it lies, nor what lies beside it."""
    if path is None:
        return str(error)
    return str(error).replace(str(path), path.name) if path.exists() else f"{path.name} is gone"


def refusal_of_form(errors: Sequence[Any]) -> RefusedError:
    """What to answer where a request's body has not the right form.

    Parameters
    ----------
    errors : sequence of pydantic's ErrorDetails
        The first of them is told; its path begins with where the value stood ("body", "query", "path"), and
        parts that begin with "~" are no fields.
    """
    error = errors[0]
    where = [part for part in error["loc"][1:] if not str(part).startswith("~")]
    kind, reason = error["type"], error["msg"]
    if kind == "json_invalid":
        detail = error.get("ctx", {}).get("error", reason)
        return RefusedError(400, f"the body is not JSON: {detail}", code="invalid_json")
    if not where:
        return RefusedError(400, f"the body must be a JSON object, sent as application/json: {reason}")
    param = field_path(where)
    if kind == "extra_forbidden":
        return RefusedError(
            400,
            f"{param} is not a field that is honoured here; leave it out",
            param=param,
            code="unknown_field",
        )
    if kind == "missing":
        return RefusedError(400, f"{param} is missing", param=param, code="missing_field")
    if kind == "refused":
        return RefusedError(400, f"{param} {reason}", param=param, code="not_supported")
    return RefusedError(
        400, f"{param} is {shown(error['input'])}: {reason[:1].lower()}{reason[1:]}", param=param
    )


def field_path(parts: Sequence[str | int]) -> str:
    """Such as ``messages[0].content``."""
    path = ""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path
