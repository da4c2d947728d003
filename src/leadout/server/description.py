"""The OpenAPI description: what FastAPI tells of the routes, and what is answered before and around them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from leadout.server.guard import OPEN_PATHS
from leadout.server.refusal import OLLAMA_PATHS

_TEXT = {"type": "string"}
_OPTIONAL = {"anyOf": [_TEXT, {"type": "null"}]}
_SCHEMAS = {
    "Error": {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["message", "type", "param", "code"],
                "properties": {"message": _TEXT, "type": _TEXT, "param": _OPTIONAL, "code": _OPTIONAL},
            }
        },
    },
    "OllamaError": {
        "type": "object",
        "required": ["error", "param", "code"],
        "properties": {"error": _TEXT, "param": _OPTIONAL, "code": _OPTIONAL},
    },
}
_OF_EVERY_ROUTE = {403: "The server is not called by this name."}
_WITH_KEYS = {401: "An API key is missing or wrong."}
_WITH_BODY = {
    400: "A field is wrong, unknown or not honoured; the message names it.",
    408: "The body came too slowly.",
    413: "The body is too large.",
    415: "The body is not sent as application/json, or encoded.",
}


def describe(app: FastAPI) -> None:
    """Let the application describe itself, with the answers that its routes do not know of."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            told = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
            told["components"]["schemas"] |= _SCHEMAS
            for path, operations in told["paths"].items():
                for operation in operations.values():
                    operation["responses"] = _responses(path, operation)
            app.openapi_schema = told
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _responses(path: str, operation: Mapping[str, Any]) -> dict[str, Any]:
    """An operation's responses: its own, those to requests that do not reach it, and the form of errors."""
    own = {status: each for status, each in operation["responses"].items() if status != "422"}  # 400 is told
    before = _OF_EVERY_ROUTE | ({} if path in OPEN_PATHS else _WITH_KEYS)
    before |= _WITH_BODY if "requestBody" in operation else {}
    name = "OllamaError" if path.startswith(OLLAMA_PATHS) else "Error"
    error = {"content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}}
    told = {str(status): {"description": text} for status, text in before.items()} | own
    return {
        status: each if status < "400" or "content" in each else {**each, **error}
        for status, each in sorted(told.items())
    }
