"""The speech service as its command runs it, with an engine that speaks tones instead of Bark, and so without torch.

`tones_service.py serve --config FILE`: FILE and the environment are those of `voxyard serve`. A chunk takes
TONES_SECONDS, in which the engine waits; TONES_DEVICE (cpu, cuda) has its workers. TONES_MIGRATION has, as JSON,
statements that a release after this one adds to the schema; TONES_CLOCK is a file with the seconds that its clock is
ahead of the machine's.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from frontends import TonesFrontend
from prometheus_client import CollectorRegistry

from voxyard.cli.serve import ServeConfig
from voxyard.service.app import create_app
from voxyard.service.documents import schema
from voxyard.service.http.observability import configure_json_logging
from voxyard.service.server import listen, serve
from voxyard.service.state import AppState
from voxyard.settings import load
from voxyard.speech.open_pool import open_pool

CHUNK_SECONDS = 0.3
"""Time that a chunk takes: documents are in progress when a service is told to stop."""


def main(config: Path) -> int:
    """Serve until a signal comes."""
    settings = load(ServeConfig, flags={}, file=config).config
    if migration := json.loads(os.environ.get("TONES_MIGRATION", "[]")):
        schema.MIGRATIONS = (*schema.MIGRATIONS, tuple(migration))
    if clock := os.environ.get("TONES_CLOCK"):
        machine, ahead = time.time, Path(clock)
        time.time = lambda: machine() + float(ahead.read_text())
    section, registry = settings.service, CollectorRegistry()
    seconds, device = float(os.environ.get("TONES_SECONDS", CHUNK_SECONDS)), os.environ.get("TONES_DEVICE", "cpu")
    frontend = TonesFrontend({"rows": 1, "samples": 240, "seconds": seconds})
    configure_json_logging()
    with (
        listen(section) as listener,
        open_pool(
            frontend.engine, settings.speech, device, workload="bark", registry=registry, warm="all", parks=True
        ) as pool,
        AppState(section, settings.speech.pauses(), frontend, pool, registry) as state,
    ):
        app, shutdown = create_app(state), state.graceful_shutdown
        return serve(app, section, listener=listener, graceful_shutdown=shutdown)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[sys.argv.index("--config") + 1])))
