"""``/v1/models``, also for names with slashes."""

from __future__ import annotations

from fastapi import APIRouter, Response

from leadout.server.json_response import JsonResponse
from leadout.server.registry import Registry, Served


def model_routes(registry: Registry, created: int) -> APIRouter:
    """The routes that tell which models there are; `created` is when the server began, in Unix seconds."""
    router = APIRouter(tags=["OpenAI"])

    def told(name: str) -> dict[str, object]:
        known = {served.name: served for served in registry.loaded()}
        entry: dict[str, object] = {
            "id": name,
            "object": "model",
            "created": created,
            "owned_by": "leadout",
        }
        return {**entry, "leadout": _facts(known[name]) if name in known else None}

    @router.head("/v1/models", include_in_schema=False)
    @router.get("/v1/models", summary="All models.", response_class=JsonResponse)
    async def models() -> Response:
        return JsonResponse({"object": "list", "data": [told(name) for name in registry.names()]})

    @router.head("/v1/models/{name:path}", include_in_schema=False)
    @router.get(
        "/v1/models/{name:path}",
        summary="One model.",
        response_class=JsonResponse,
        responses={404: {"description": "There is no such model."}},
    )
    async def model(name: str) -> Response:
        return JsonResponse(told(registry.find(name)))

    return router


def _facts(served: Served) -> dict[str, object]:
    """What else is known of a loaded model."""
    info, speculation = served.engine.target.info, served.engine.speculation
    return {
        "provider": info.provider,
        "architecture": info.architecture,
        "n_ctx": info.n_ctx,
        "n_slots": info.n_slots,
        "bytes": info.n_bytes,
        "has_chat": served.style.template is not None,
        "tools": None if served.style.syntax is None else served.style.syntax.name,
        "speculation": {
            "enabled": speculation.enabled,
            "reason": speculation.reason,
            "drafter": speculation.drafter,
        },
    }
