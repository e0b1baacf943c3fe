"""Process with a pool over a cluster, driven by lines of JSON: {"count": N, "seed": S} on standard input.

It prints JSON too: of each chunk its job, place, device and the SHA-256 of its audio; twice a second its workers.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import sys
import threading
import time
from pathlib import Path
from typing import Any

from voxyard.speech.config import SpeechSection
from voxyard.speech.engine import EngineSpec
from voxyard.speech.open_pool import open_pool
from voxyard.speech.pool.job import Outcome
from voxyard.speech.requests import Request

_printing = threading.Lock()


def requests(count: int, seed: int, characters: int = 60) -> list[Request]:
    """Chunks of a job; their audio follows from seed and place."""
    return [Request(place, f"{place} ".ljust(characters, "x"), seed=seed) for place in range(count)]


def say(**what: Any) -> None:
    with _printing:
        print(json.dumps({"time": time.monotonic(), **what}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("settings", type=json.loads, help="of the section speech")
    parser.add_argument("engine", type=json.loads, help="settings of the engine")
    chosen = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    began = time.monotonic()
    with open_pool(
        EngineSpec("engines:tones", chosen.engine), SpeechSection(**chosen.settings), "cpu", workload="bark", warm="all"
    ) as pool:
        say(opened=time.monotonic() - began)
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(0.5):
                say(workers={worker.device: worker.state for worker in pool.workers()}, waiting=pool.waiting)

        threading.Thread(target=watch, daemon=True).start()
        for line in sys.stdin:
            order = json.loads(line)
            _submit(pool, **order)
        ended.set()


def _submit(
    pool: Any, *, count: int, seed: int, characters: int = 60, listening: bool = False, digest: bool = True
) -> None:
    began = time.monotonic()

    def deliver(outcome: Outcome) -> None:
        audio = None
        if digest and outcome.result is not None:
            audio = hashlib.sha256(outcome.result.audio.tobytes()).hexdigest()
        failure = None if outcome.failure is None else str(outcome.failure)
        say(seed=seed, chunk=outcome.index, device=outcome.worker, audio=audio, failure=failure,
            seconds=time.monotonic() - began)  # fmt: skip

    pool.submit(requests(count, seed, characters), listening=listening, deliver=deliver)


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parent)]
    main()
