"""``/health``, ``/ready`` and ``/metrics``."""

from __future__ import annotations

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST

from leadout.server.json_response import JsonResponse
from leadout.server.metrics import Metrics
from leadout.server.registry import Registry


def state_routes(registry: Registry, metrics: Metrics) -> APIRouter:
    """The routes for those who watch the server."""
    router = APIRouter(tags=["State"])

    @router.head("/health", include_in_schema=False)
    @router.get("/health", summary="Whether the server lives.", response_class=JsonResponse)
    async def health() -> Response:
        return JsonResponse({"status": "ok"})

    @router.head("/ready", include_in_schema=False)
    @router.get(
        "/ready",
        summary="Whether requests can be taken.",
        response_class=JsonResponse,
        responses={503: {"description": "The server is closing.", "content": {"application/json": {}}}},
    )
    async def ready() -> Response:
        is_ready = registry.is_ready
        return JsonResponse(
            {"status": "ready" if is_ready else "closing"}, status_code=200 if is_ready else 503
        )

    @router.head("/metrics", include_in_schema=False)
    @router.get(
        "/metrics",
        summary="Counters for Prometheus.",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def metrics_text() -> Response:
        return Response(metrics.exposition(), media_type=CONTENT_TYPE_LATEST)

    return router
