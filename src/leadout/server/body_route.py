"""Routes that read their JSON body themselves.

What is ambiguous in it is refused, and a large one becomes its form on a thread of its own, so that other
clients' tokens need not wait.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError

from leadout.checks import shown
from leadout.server.refusal import RefusedError

_LARGE = 16 * 1024


class BodyRoute(APIRoute):
    """A route whose JSON body becomes its form before the handler is called."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, with the reading before it."""
        handler = super().get_route_handler()
        form = None if self.body_field is None else self.body_field.field_info.annotation
        if not (isinstance(form, type) and issubclass(form, BaseModel)):
            return handler

        async def handle(request: Request) -> Response:
            asked = _Request(request.scope, request.receive)
            body = await asked.body()
            if len(body) >= _LARGE:
                asked.parsed = await asyncio.to_thread(_read, form, body)
            elif body:
                asked.parsed = _read(form, body)
            return await handler(asked)

        return handle


class _Request(Request):
    """A request whose body may have been read before."""

    parsed: BaseModel | None = None

    async def json(self) -> Any:
        """The form, which is not checked again, or else the body's JSON."""
        return await super().json() if self.parsed is None else self.parsed


def _read(form: type[BaseModel], body: bytes) -> BaseModel:
    """The body as a form.

    Raises
    ------
    RefusedError
        If it is no JSON, or an object in it has a name twice.
    RequestValidationError
        If it is no such form.
    """
    try:
        value = json.loads(body, object_pairs_hook=_object)
    except RecursionError as error:
        raise RefusedError(400, "the body is nested too deeply", code="invalid_json") from error
    except ValueError as error:
        raise RefusedError(400, f"the body is not JSON: {error}", code="invalid_json") from error
    try:
        return form.model_validate(value)
    except ValidationError as error:
        told = [{**each, "loc": ("body", *each["loc"])} for each in error.errors(include_url=False)]
        raise RequestValidationError(told[:1]) from error


def _object(members: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """An object; of two members of one name readers take now the first and now the last."""
    value = dict(members)
    if len(value) < len(members):
        names = [name for name, _ in members]
        twice = next(name for name in names if names.count(name) > 1)
        raise RefusedError(
            400, f"the body has {shown(twice)} twice in one object; send it once", code="invalid_json"
        )
    return value
