"""Operations routes: liveness, readiness and metrics."""

from __future__ import annotations

from typing import Any

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import Request, Response
from prometheus_client.exposition import choose_encoder
from pydantic import BaseModel

from voxyard.service.errors import UnavailableError
from voxyard.service.routes.openapi import Router, errors
from voxyard.service.state import AppState
from voxyard.telemetry.exposition import readable_accept

_THREADS = 2  # of each, that no other request uses: a probe waits for no work


class Health(BaseModel):
    """Health of the service."""

    status: str


def operations_router(state: AppState) -> Router:
    """`/healthz`, `/readyz` and `/metrics`, which are public paths."""
    router = Router(tags=["operation"])
    health_threads, metrics_threads = CapacityLimiter(_THREADS), CapacityLimiter(_THREADS)

    @router.get("/healthz", summary="Liveness", responses=errors(403))
    async def healthz() -> Health:
        """200 while the service handles requests."""
        return Health(status="ok")

    @router.get("/readyz", summary="Readiness", responses=errors(403, 503))
    async def readyz() -> Health:
        """200 where a worker has its model loaded; else 503 with the reason."""
        well, sentence = await run_sync(state.ready, limiter=health_threads)
        if not well:
            raise UnavailableError(sentence, retry_after=5)
        return Health(status=sentence)

    metrics_text: dict[int | str, dict[str, Any]] = {
        200: {"content": {"text/plain": {}}, "description": "Prometheus text format."}
    }

    @router.get(
        "/metrics", summary="Prometheus metrics", response_class=Response, responses={**metrics_text, **errors(403)}
    )
    async def metrics(request: Request) -> Response:
        """Prometheus text format or OpenMetrics, by the Accept header."""
        encode, media_type = choose_encoder(readable_accept(request.headers.get("accept")))
        content = await run_sync(encode, state.registry, limiter=metrics_threads)
        return Response(content, headers={"Content-Type": media_type})

    return router
