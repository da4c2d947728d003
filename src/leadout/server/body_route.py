"""Routes that read large bodies on a thread of their own, so that other clients' tokens need not wait."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError

_LARGE = 16 * 1024


class BodyRoute(APIRoute):
    """A route whose JSON body, where it is large, becomes its form on another thread."""

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
            return await handler(asked)

        return handle


class _Request(Request):
    """A request whose body may have been read before."""

    parsed: BaseModel | None = None

    async def json(self) -> Any:
        """The form, which is not checked again, or else the body's JSON."""
        return await super().json() if self.parsed is None else self.parsed


def _read(form: type[BaseModel], body: bytes) -> BaseModel | None:
    """The body as a form; None where it is no JSON, which is told by whoever reads it next."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    try:
        return form.model_validate(value)
    except ValidationError as error:
        told = [{**each, "loc": ("body", *each["loc"])} for each in error.errors(include_url=False)]
        raise RequestValidationError(told[:1]) from error
