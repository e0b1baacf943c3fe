"""Operations routes: liveness, readiness and metrics."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from prometheus_client.exposition import choose_encoder
from pydantic import BaseModel

from voxyard.service.errors import UnavailableError
from voxyard.service.http.components import Frame
from voxyard.service.routes.openapi import errors


class Health(BaseModel):
    """Health of the service."""

    status: str


def operations_router(frame: Frame) -> APIRouter:
    """`/healthz`, `/readyz` and `/metrics`, open to everybody."""
    router = APIRouter(tags=["operation"])

    @router.get("/healthz", summary="Whether the service is alive", responses=errors(403))
    async def healthz() -> Health:
        """Answers as long as requests are answered at all."""
        return Health(status="ok")

    @router.get("/readyz", summary="Whether a worker has its model loaded", responses=errors(403, 503))
    def readyz() -> Health:
        """503 says what is missing."""
        well, sentence = frame.ready()
        if not well:
            raise UnavailableError(sentence, retry_after=5)
        return Health(status=sentence)

    metrics_text: dict[int | str, dict[str, Any]] = {
        200: {"content": {"text/plain": {}}, "description": "Prometheus's text format."}
    }

    @router.get(
        "/metrics", summary="Metrics for Prometheus", response_class=Response, responses={**metrics_text, **errors(403)}
    )
    def metrics(request: Request) -> Response:
        """In the format that the Accept header asks for: Prometheus's text format, or OpenMetrics."""
        encode, media_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(frame.registry), headers={"Content-Type": media_type})

    return router
