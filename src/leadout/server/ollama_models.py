"""Ollama's routes about models: which there are, what they are, which are in memory; and those refused."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from fastapi import APIRouter, Response
from pydantic import Field

from leadout.server.body_route import BodyRoute
from leadout.server.form import Form
from leadout.server.json_response import JsonResponse
from leadout.server.model_facts import FactsShelf, ModelFacts, size_text
from leadout.server.ollama_reply import NDJSON, time_text
from leadout.server.refusal import RefusedError
from leadout.server.registry import Registry, Resident
from leadout.server.reply_parser import THINK
from leadout.server.tool_syntax import tool_syntax

API_VERSION = "0.13.0"
"""The version of Ollama whose interface this is; clients look at it before they use newer fields."""

_NEVER = datetime(2300, 1, 1, tzinfo=UTC)  # clients want a time for models that stay


class ShowForm(Form):
    """Which model is to be shown."""

    model: str = ""
    name: str = Field("", description="The older name of `model`.")
    verbose: bool = Field(False, description="Accepted; nothing is left out that could be told.")

    @property
    def asked(self) -> str:
        """The name; raises RefusedError where there is none."""
        if not (self.model or self.name):
            raise RefusedError(400, "model is missing", param="model", code="missing_field")
        return self.model or self.name


class PullForm(ShowForm):
    """Which model is to be fetched."""

    stream: bool = True
    insecure: bool = Field(False, description="Accepted, and not used.")


def ollama_model_routes(registry: Registry) -> APIRouter:
    """The routes, telling what `registry` has."""
    router, shelf = APIRouter(tags=["Ollama"], route_class=BodyRoute), FactsShelf(registry)

    @router.head("/", include_in_schema=False)  # how Ollama's command line looks whether somebody is there
    async def heartbeat() -> Response:
        return Response()

    @router.head("/api/version", include_in_schema=False)
    @router.get("/api/version", summary="The version of this interface.", response_class=JsonResponse)
    async def version() -> Response:
        return JsonResponse({"version": API_VERSION})

    @router.head("/api/tags", include_in_schema=False)
    @router.get("/api/tags", summary="All models.", response_class=JsonResponse)
    async def tags() -> Response:
        facts = await asyncio.to_thread(shelf.readable)
        return JsonResponse({"models": [_listed(name, each) for name, each in facts]})

    @router.get("/api/ps", summary="Models in memory.", response_class=JsonResponse)
    async def ps() -> Response:
        facts = await asyncio.to_thread(shelf.resident)
        return JsonResponse({"models": [_running(*each) for each in facts]})

    @router.post(
        "/api/show",
        summary="What a model is.",
        response_class=JsonResponse,
        responses={404: {"description": "There is no such model."}},
    )
    async def show(form: ShowForm) -> Response:
        name = registry.find(form.asked)
        return JsonResponse(_shown(await asyncio.to_thread(shelf.of, name)))

    @router.post(
        "/api/pull",
        summary="Nothing to do where the model is there; others are not fetched.",
        response_class=JsonResponse,
        responses={
            200: {"description": "It is there.", "content": {NDJSON: {}}},
            400: {"description": "Models are fetched before the server starts."},
        },
    )
    async def pull(form: PullForm) -> Response:
        asked = form.asked
        try:
            registry.find(asked)
        except RefusedError as error:
            raise RefusedError(
                400,
                f"{error.message}, and models are not fetched by requests; "
                "use `leadout pull`, and name the model when the server starts",
                param="model",
                code="not_supported",
            ) from error
        success = {"status": "success"}
        return JsonResponse(success, media_type=NDJSON if form.stream else JsonResponse.media_type)

    return router


def _refused_routes() -> dict[tuple[str, str], str]:
    """Routes of both interfaces that are not honoured, and why."""
    files = "models are files here, which requests do not change; use `leadout pull` and the file system"
    embeddings = "there are no embeddings here; leadout serves models that write text"
    return {
        ("POST", "/api/create"): files,
        ("POST", "/api/copy"): files,
        ("POST", "/api/push"): files,
        ("DELETE", "/api/delete"): files,
        ("POST", "/v1/embeddings"): embeddings,
        ("POST", "/api/embed"): embeddings,
        ("POST", "/api/embeddings"): embeddings,
    }


def refused_routes() -> APIRouter:
    """The routes that tell why they are not honoured."""
    router = APIRouter(tags=["Refused"])
    for (method, path), why in _refused_routes().items():

        async def refuse(why: str = why, path: str = path) -> Response:
            raise RefusedError(501, f"{path} is not supported: {why}", code="not_supported")

        router.add_api_route(
            path, refuse, methods=[method], summary="Not supported.", include_in_schema=False
        )
    return router


def _details(facts: ModelFacts) -> dict[str, object]:
    return {
        "parent_model": "",
        "format": "gguf",
        "family": facts.architecture,
        "families": [facts.architecture],
        "parameter_size": size_text(facts.n_params),
        "quantization_level": facts.quantisation,
    }


def _listed(name: str, facts: ModelFacts) -> dict[str, object]:
    return {
        "name": name,
        "model": name,
        "modified_at": time_text(facts.modified),
        "size": facts.n_bytes,
        "digest": facts.identity,
        "details": _details(facts),
    }


def _running(resident: Resident, facts: ModelFacts) -> dict[str, object]:
    served = resident.served
    info, draft, speculation = served.engine.target.info, served.engine.draft, served.engine.speculation
    return {
        "name": served.name,
        "model": served.name,
        "size": resident.n_bytes,
        "digest": facts.identity,
        "details": _details(facts),
        "expires_at": time_text(resident.ends or _NEVER),
        "size_vram": 0,
        "context_length": info.n_ctx,
        "leadout": {
            "provider": info.provider,
            "draft": None if draft is None else {"name": draft.name, "size": draft.n_bytes},
            "drafter": speculation.drafter,
            "speculation": speculation.reason,
        },
    }


def _shown(facts: ModelFacts) -> dict[str, object]:
    template = facts.chat_template
    abilities = {
        "completion": True,
        "tools": tool_syntax(template or None) is not None,
        "thinking": any(word in template for word in (THINK, "enable_thinking", "reasoning_effort")),
    }
    return {
        "modelfile": f"# {facts.name}, served by leadout\n",
        "parameters": "",
        "template": template,
        "license": facts.licence,
        "details": _details(facts),
        "model_info": {"general.architecture": facts.architecture, **facts.metadata},
        "capabilities": [name for name, is_there in abilities.items() if is_there],
        "modified_at": time_text(facts.modified),
    }
