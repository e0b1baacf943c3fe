"""Process under benchmark: `service`, shipped settings and an engine of tones, or `floor`, a bare FastAPI application.

`released` is the service whose workers end after a second without anything to speak.

`service_under_test.py KIND FOLDER CHUNK_SECONDS` serves until standard input ends; the address is the first line of
standard output. Both have the same server with the same settings. The floor answers the same speech request with as
many bytes at once, or through a pool of the same engine and nothing else, and a short GET.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import paths

paths.add()

from fastapi import FastAPI, Response
from frontends import TonesFrontend
from prometheus_client import CollectorRegistry
from pydantic import BaseModel
from starlette.types import ASGIApp

from voxyard.service.app import create_app
from voxyard.service.config import ServiceSection
from voxyard.service.http.observability import configure_json_logging
from voxyard.service.server import listen, serve
from voxyard.service.state import AppState
from voxyard.speech.audio.encoder import Encoder
from voxyard.speech.config import SpeechSection
from voxyard.speech.open_pool import open_pool
from voxyard.speech.pool.job import Outcome
from voxyard.speech.pool.pool import Pool
from voxyard.speech.requests import Request

ROWS = 8
SAMPLES = 240  # a character


class Body(BaseModel):
    """Body of a speech request."""

    model: str
    input: str
    voice: str
    response_format: str = "wav"


def main(kind: str, folder: Path, chunk_seconds: float) -> int:
    """Serve until standard input ends."""
    keys = folder / "keys.yaml"
    section = ServiceSection(data_dir=folder / "data", port=0, keys=keys if keys.exists() else None, rate_limit=0)
    frontend = TonesFrontend({"rows": ROWS, "samples": SAMPLES, "seconds": ROWS * chunk_seconds})
    registry, stop = CollectorRegistry(), threading.Event()

    def until_input_ends() -> None:
        sys.stdin.read()
        stop.set()

    threading.Thread(target=until_input_ends, daemon=True).start()
    configure_json_logging()
    with ExitStack() as stack:
        listener = stack.enter_context(listen(section))
        speech = SpeechSection()
        pool = stack.enter_context(
            open_pool(
                *(frontend.engine, speech, "cpu"),
                workload="bark",
                registry=registry,
                warm="all",
                idle_release=1.0 if kind == "released" else None,
            )
        )
        app: ASGIApp = (
            floor(pool)
            if kind == "floor"
            else create_app(stack.enter_context(AppState(section, speech.pauses(), frontend, pool, registry)))
        )
        return serve(
            app,
            section,
            listener=listener,
            announce=lambda address: print(address, flush=True),
            stop=stop,
        )


def floor(pool: Pool) -> FastAPI:
    """A bare application: its endpoints check nothing but the body's fields."""
    app = FastAPI(openapi_url=None)

    @app.get("/readyz")
    async def ready(response: Response) -> dict[str, bool]:
        there = any(worker.state in ("ready", "busy") for worker in pool.workers())
        response.status_code = 200 if there else 503
        return {"ready": there}

    @app.get("/short")
    async def short() -> dict[str, Any]:
        return {"id": "0123456789abcdef" * 2, "state": "completed", "progress": {"chunks": 8, "done": 8}}

    @app.post("/bare")
    async def bare(body: Body) -> Response:
        return Response(bytes(44 + 2 * SAMPLES * len(body.input)), media_type="audio/wav")

    @app.post("/pool")
    async def through_the_pool(body: Body) -> Response:
        loop = asyncio.get_running_loop()
        spoken: asyncio.Future[Outcome] = loop.create_future()

        def deliver(outcome: Outcome) -> None:
            loop.call_soon_threadsafe(spoken.set_result, outcome)

        pool.submit([Request(0, body.input, voice=body.voice)], listening=True, deliver=deliver)
        result = (await spoken).result
        assert result is not None
        encoder = Encoder("wav")
        return Response(encoder.encode(result.audio) + encoder.finish(), media_type="audio/wav")

    return app


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])))
