"""make bench-pool: eight simulated GPUs against the lower bound and round-robin; what the pool costs a chunk."""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from engines import TonesEngine
from simulated_pool import SimulatedPool

from voxyard.corpus import demo
from voxyard.speech.engine import EngineName
from voxyard.speech.limits import Limits
from voxyard.speech.pool import Pool
from voxyard.speech.process import Device
from voxyard.speech.requests import SAMPLE_RATE, Request

OUTPUT = Path(__file__).resolve().parents[2] / "build" / "bench" / "pool.json"
GPUS, CHUNKS, ROUNDS = 8, 200, 5
PACE = 15.0  # characters a second
LONGEST = 13.0  # seconds that a chunk may have
ERROR = 0.15  # standard deviation of an estimate's logarithm: nobody knows a chunk's length before it is spoken


def texts(transcripts: Path | None, dice: random.Random) -> list[str]:
    """200 chunks: one to four sentences each, of the demo corpus or of `id|text` lines, as many as fit."""
    if transcripts is None:
        sentences = list(demo.sentences())
    else:
        sentences = [line.split("|")[1] for line in transcripts.read_text(encoding="utf-8").splitlines()]
    sentences = [text for text in sentences if 0 < len(text) <= LONGEST * PACE]
    made: list[str] = []
    while len(made) < CHUNKS:
        chunk = ""
        for _ in range(dice.randint(1, 4)):
            longer = f"{chunk} {dice.choice(sentences)}".strip()
            if chunk and len(longer) > LONGEST * PACE:
                break
            chunk = longer
        made.append(chunk)
    return made


def simulate(chunks: Sequence[str], dice: random.Random) -> dict[str, float]:
    """Makespans over the lower bound for one set of chunks: the scheduler's, and round-robin's on the same chunks."""
    estimates = [len(text) / PACE for text in chunks]
    actual = [estimate * dice.lognormvariate(0, ERROR) for estimate in estimates]
    pool = SimulatedPool(GPUS, duration=lambda batch: sum(actual[chunk.index] for chunk in batch))
    pool.scheduler.submit(0, estimates, 0.0)
    pool.run()
    assert len(pool.spoken) == len(chunks)
    bound = max(sum(actual) / GPUS, *actual)
    dealt = max(sum(actual[first::GPUS]) for first in range(GPUS))
    return {"makespan_vs_bound": pool.makespan / bound, "round_robin_vs_bound": dealt / bound}


def overhead(seconds: float, count: int) -> dict[str, float]:
    """Milliseconds a chunk of so much sound takes through one worker's pool, and from the engine itself."""
    text = "x" * 10
    samples = round(seconds * SAMPLE_RATE / len(text))
    settings: dict[str, Any] = {"samples": samples, "rows": 1}
    requests = [Request(number, text) for number in range(count)]
    engine = TonesEngine(settings)
    pooled, direct = [], []
    with Pool(EngineName("engines:tones", settings), [Device("cpu0")], limits=Limits(batch=1)) as pool:
        list(pool.submit(requests[:2]).results())  # the worker has started
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            assert sum(1 for _ in pool.submit(requests).results()) == count
            pooled.append((time.perf_counter() - begin) / count)
            begin = time.perf_counter()
            for request in requests:
                list(engine.speak([request]))
            direct.append((time.perf_counter() - begin) / count)
    return {"pool": statistics.median(pooled) * 1000, "engine": statistics.median(direct) * 1000}


def main() -> None:
    """Measure, print and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transcripts", type=Path, help="LJSpeech metadata.csv to take the sentences from")
    arguments = parser.parse_args()

    runs = [
        simulate(texts(arguments.transcripts, random.Random(seed)), random.Random(seed + 1000))
        for seed in range(20)
    ]  # fmt: skip
    ratios = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    worst = {f"{name}_worst": max(run[name] for run in runs) for name in runs[0]}
    costs = {
        f"overhead_ms_per_chunk_{seconds:g}s": (cost := overhead(seconds, 60))["pool"] - cost["engine"]
        for seconds in (0.01, 6.0)
    }
    result = {
        "name": "pool",
        "machine": {
            "cores": os.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
        },
        "ratios": ratios,
        "figures": {
            "gpus": GPUS,
            "chunks": CHUNKS,
            "sentences": "demo corpus" if arguments.transcripts is None else "transcripts",
            "runs": len(runs),
            **worst,
            **costs,
        },
    }
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    for name, value in {**ratios, **worst}.items():
        print(f"{name:28} {value:7.3f}")
    for name, value in costs.items():
        print(f"{name:28} {value:7.2f} ms")


if __name__ == "__main__":
    main()
