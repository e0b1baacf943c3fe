"""A service as a process that is told to end: all of it is real but the engine, which speaks tones and leaves marks.

`stopped_service.py DATA MARKS SECONDS DRAIN STOP NOTICE`: a chunk takes SECONDS, and none ends before MARKS holds "on";
at the end it is not ready but accepts all for NOTICE seconds; then chunks in work have DRAIN seconds, open requests
STOP. The address is the first line of standard output.
"""

from __future__ import annotations

import sys
from pathlib import Path

from frontends import TonesFrontend
from prometheus_client import CollectorRegistry

from voxyard.service.app import create_app
from voxyard.service.config import ServiceSection
from voxyard.service.http.observability import configure_json_logging
from voxyard.service.server import listen, serve
from voxyard.service.state import AppState
from voxyard.speech.audio.joining import Pauses
from voxyard.speech.config import SpeechSection
from voxyard.speech.engine import EngineSpec
from voxyard.speech.open_pool import open_pool


class MarkingFrontend(TonesFrontend):
    """The front of `documents:marking`."""

    @property
    def engine(self) -> EngineSpec:
        return EngineSpec("documents:marking", self.settings)


def main(data: Path, marks: Path, seconds: float, drain_seconds: float, stop_seconds: float, notice: float) -> int:
    """Serve until a signal comes."""
    section = ServiceSection(
        data_dir=data, port=0, drain_seconds=drain_seconds, stop_seconds=stop_seconds, lame_duck_seconds=notice
    )
    frontend = MarkingFrontend({"marks": str(marks), "rows": 1, "samples": 24, "seconds": seconds, "held": 0})
    speech, registry = SpeechSection(max_parallel_tts_workers=1), CollectorRegistry()
    configure_json_logging()
    with (
        listen(section) as listener,
        open_pool(frontend.engine, speech, "cpu", workload="bark", registry=registry, warm=1) as pool,
        AppState(section, Pauses(), frontend, pool, registry) as state,
    ):
        return serve(
            create_app(state),
            section,
            listener=listener,
            announce=lambda address: print(address, flush=True),
            graceful_shutdown=state.graceful_shutdown,
        )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), *map(float, sys.argv[3:7])))
