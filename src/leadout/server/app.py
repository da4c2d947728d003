"""The ASGI application: routes, what is around them, and errors as answers."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from opentelemetry.trace import TracerProvider
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from leadout import __version__
from leadout.errors import LeadoutError
from leadout.server.chat import chat_routes
from leadout.server.completions import completion_routes
from leadout.server.description import describe
from leadout.server.desk import Desk
from leadout.server.guard import OPEN_PATHS, Guard
from leadout.server.metrics import Metrics
from leadout.server.models import model_routes
from leadout.server.ollama_chat import ollama_chat_routes
from leadout.server.ollama_generate import ollama_generate_routes
from leadout.server.ollama_models import ollama_model_routes, refused_routes
from leadout.server.options import ServerOptions
from leadout.server.page_routes import PAGE_FILES, page_routes
from leadout.server.refusal import RefusedError, refusal_of, refusal_of_form
from leadout.server.registry import Registry
from leadout.server.responses import response_routes
from leadout.server.sse import ClientGoneError
from leadout.server.state import state_routes
from leadout.server.watch import Watch


def make_app(
    registry: Registry, options: ServerOptions | None = None, *, tracer_provider: TracerProvider | None = None
) -> FastAPI:
    """The application that serves the models of `registry`; closes them when it ends.

    Parameters
    ----------
    registry : Registry
    options : ServerOptions or None
        None is the defaults.
    tracer_provider : TracerProvider or None
        Of OpenTelemetry; None is the process's own, where it has one.
    """
    options = options or ServerOptions()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:  # noqa: ARG001
        yield
        await registry.close(options.grace_s)

    app = FastAPI(
        title="leadout",
        version=__version__,
        summary="Local models with lossless speculative decoding.",
        lifespan=lifespan,
        docs_url=None,  # they load scripts from elsewhere
        redoc_url=None,
        separate_input_output_schemas=False,
        telemetry={
            "auto_configure": options.otel,
            "tracer_provider": tracer_provider,
            "metrics": False,
            "logs": False,
        },
    )
    desk, metrics = Desk(registry=registry, options=options), Metrics(registry.loaded)
    for routes in (
        state_routes(registry, metrics),
        model_routes(registry, int(time.time())),
        chat_routes(desk),
        completion_routes(desk),
        response_routes(desk),
        ollama_chat_routes(desk),
        ollama_generate_routes(desk),
        ollama_model_routes(registry),
        refused_routes(),
        page_routes(),
    ):
        app.include_router(routes)
    _answer_errors(app)
    describe(app)
    app.add_middleware(Guard, options=options)
    if options.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(options.cors_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", "X-API-Key"],
            expose_headers=["X-Request-Id"],
        )
    app.add_middleware(
        Watch, metrics=metrics, quiet={*OPEN_PATHS, *PAGE_FILES, "/metrics"}, shows_text=options.log_prompts
    )
    return app


def _answer_errors(app: FastAPI) -> None:
    """Turn everything that a request can raise into an answer."""

    async def on_error(request: Request, error: Exception) -> Response:
        path = request.url.path
        match error:
            case ClientGoneError():
                raise error  # nobody to answer
            case LeadoutError():
                return refusal_of(error, {"logit_bias"}).response(path)
            case RequestValidationError():
                return refusal_of_form(error.errors()).response(path)
            case HTTPException():
                answer = _refusal_of_http(error).response(path)
                answer.headers.update(error.headers or {})
                return answer
        raise error

    for kind in (LeadoutError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, on_error)


def _refusal_of_http(error: HTTPException) -> RefusedError:
    match error.status_code:
        case 404:
            return RefusedError(404, "there is no such route; /openapi.json lists them", code="unknown_route")
        case 405:
            return RefusedError(405, "this route takes another method; /openapi.json lists them")
    return RefusedError(error.status_code, str(error.detail))
