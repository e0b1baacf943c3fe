"""Operations routes: liveness, readiness and metrics."""

from __future__ import annotations

from functools import partial
from typing import Any

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import Request, Response
from prometheus_client.exposition import choose_encoder
from pydantic import BaseModel

from voxyard.service.documents.queue import DocumentQueue
from voxyard.service.errors import UnavailableError
from voxyard.service.healthcheck import CANNOT_WORK
from voxyard.service.routes.openapi import Router, errors
from voxyard.service.shutdown import GracefulShutdown
from voxyard.service.state import AppState
from voxyard.speech.pool.pool import Pool
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
        found = partial(readiness, state.pool, state.queue, state.graceful_shutdown)
        well, sentence = await run_sync(found, limiter=health_threads)
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


def readiness(pool: Pool, queue: DocumentQueue, graceful_shutdown: GracefulShutdown) -> tuple[bool, str]:
    """True where a worker has its model loaded and documents are dispatched, and the reason as a sentence.

    Workers that have ended for want of work are as good as loaded, also while one of them loads its model again.
    """
    if graceful_shutdown.announced and not graceful_shutdown.draining:
        return False, "the service is about to shut down and still accepts requests: send new ones elsewhere"
    if graceful_shutdown.draining:
        return (
            False,
            f"the service is shutting down and waits for {graceful_shutdown.describe_pending() or 'open requests'}",
        )
    if pool.ended is not None:
        return False, f"{CANNOT_WORK}: the worker pool has stopped: {pool.ended}"
    if queue.problem is not None:
        return False, f"no documents are dispatched: {queue.problem}"
    workers = pool.workers()
    loaded = sum(worker.state in ("ready", "busy") for worker in workers)
    waiting = "; ".join(worker.reason for worker in workers if worker.state == "waiting")
    if loaded:
        summary = f"{loaded} of {len(workers)} workers have their model loaded"
        return True, f"{summary}; waiting: {waiting}" if waiting else summary
    if any(worker.state in ("released", "stopping") or worker.woken for worker in workers):
        return True, "no worker has its model loaded, as there was nothing to speak: the next request starts one"
    reasons = "; ".join(
        worker.reason if worker.state == "waiting" else f"{worker.device}: {worker.reason or worker.state}"
        for worker in workers
    )
    if not any(worker.state == "waiting" for worker in workers):
        reasons = pool.waiting or reasons
    if workers and all(worker.state == "off" for worker in workers):
        return False, f"{CANNOT_WORK}: no worker could be started ({reasons})"
    return False, f"no worker has its model loaded ({reasons})"
