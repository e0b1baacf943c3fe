"""Service under benchmark: real but for its engine, which returns tones at once."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

sys.path[:0] = map(str, (Path(__file__).resolve().parents[1] / "support").glob("*/"))

from frontends import TonesFrontend

from voxyard.service.config import ServiceSection
from voxyard.service.lifespan import running_app
from voxyard.service.server import listen, serve
from voxyard.speech.audio.joining import Pauses
from voxyard.speech.config import SpeechSection
from voxyard.speech.open_pool import open_pool
from voxyard.telemetry.workloads import Registry


def main(folder: Path) -> int:
    """Serve until standard input ends; the address is the first line of standard output."""
    section = ServiceSection(data_dir=folder, port=0, rate_limit=0, max_documents=2000, max_requests=1000)
    frontend = TonesFrontend({"rows": 8, "samples": 240})
    registry, stop = Registry(), threading.Event()

    def until_input_ends() -> None:
        sys.stdin.read()
        stop.set()

    threading.Thread(target=until_input_ends, daemon=True).start()
    speech = SpeechSection(max_parallel_tts_workers=2)
    with (
        listen(section) as listener,
        open_pool(frontend.engine, speech, "cpu", workload="bark", registry=registry, warm=2) as pool,
        running_app(section, Pauses(), frontend, pool, registry, tuple) as app,
    ):
        return serve(
            app,
            section,
            lambda: None,
            listener=listener,
            announce=lambda address: print(address, flush=True),
            stop=stop,
        )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
