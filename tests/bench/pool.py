"""make bench-pool: eight simulated GPUs against the lower bound and fixed leases; what the pool costs a chunk.

The scheduler, the workers' asking for chunks and the order in which the causal stages step are the shipped code, with
the rows that are shipped for a CPU. A step costs the same with one row or all, as where weights are read; fine stage
and codec cost nothing here.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import platform
import random
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import paths

paths.add()

from engines import TonesEngine
from simulated_pool import SimulatedEngine, SimulatedPool, Spell
from spoken import ListSource

from voxyard.bark.config import BarkConfig
from voxyard.bark.pipeline import step_refilled
from voxyard.corpus import demo
from voxyard.speech.engine import EngineSpec
from voxyard.speech.pool.limits import PoolLimits
from voxyard.speech.pool.pool import Pool
from voxyard.speech.pool.worker import PoolChunkSource
from voxyard.speech.pool.worker_process import Device
from voxyard.speech.requests import SAMPLE_RATE, Request

OUTPUT = Path(__file__).resolve().parents[2] / "build" / "bench" / "pool.json"
GPUS, CHUNKS, ROUNDS = 8, 200, 5
PACE = 15.0  # characters a second
LONGEST = 13.0  # seconds that a chunk may have
SEMANTIC, COARSE = 49.9, 150.0  # tokens for a second of audio
STEPS = SEMANTIC + COARSE  # a second
WINDOW = 60  # steps between two looks at the coarse rows
DOCUMENT, WORKERS = 20, (1, 2, 4, 8)  # chunks; numbers of workers that share them
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


class SimulatedRows:
    """A causal stage's rows: a step takes its time, whatever is in them."""

    def __init__(self, rows: int, tokens: Callable[[Request], float], look: int, clock: list[float]) -> None:
        self.free, self._tokens, self._look, self._clock = rows, tokens, look, clock
        self._left: dict[Request, float] = {}

    def __len__(self) -> int:
        return len(self._left)

    def enter(self, work: Request) -> None:
        self.free -= 1
        self._left[work] = self._tokens(work)

    def remove(self, unwanted: Callable[[Request], bool]) -> list[Request]:
        removed = [work for work in self._left if unwanted(work)]
        for work in removed:
            del self._left[work]
        self.free += len(removed)
        return removed

    def step(self) -> list[Request]:
        if not self._left:
            return []
        self._clock[0] += self._look / STEPS
        self._left = {work: left - self._look for work, left in self._left.items()}
        done = [work for work, left in self._left.items() if left <= 0]
        for work in done:
            del self._left[work]
        self.free += len(done)
        return done


def bark(actual: Sequence[float]) -> SimulatedEngine:
    """Bark's causal stages with chunks of these seconds; alone, a chunk takes its own seconds."""

    def speak(source: PoolChunkSource, rows: int) -> Iterator[Spell | None]:
        clock = [0.0]
        first = SimulatedRows(rows, lambda work: actual[work.chunk] * SEMANTIC, BarkConfig().check_every, clock)
        second = SimulatedRows(rows, lambda work: actual[work.chunk] * COARSE, WINDOW, clock)
        for done in step_refilled(first, second, lambda room, _: source.take(room, wait=False), lambda work: work):
            spell, clock[0] = clock[0], 0.0
            yield (spell, done) if spell else None

    return speak


def leased(order: Sequence[int], actual: Sequence[float], rows: int) -> float:
    """The makespan where a worker gets up to as many chunks as it has rows, and the next when the last is done."""
    waiting, free = deque(order), [0.0] * GPUS
    while waiting:
        now = heapq.heappop(free)
        share = min(rows, -(-len(waiting) // GPUS))
        heapq.heappush(free, now + max(actual[waiting.popleft()] for _ in range(share)))
    return max(free)


def simulate(chunks: Sequence[str], dice: random.Random) -> dict[str, float]:
    """Makespans over the lower bound for one set of chunks: longest first, and in text order for a listener."""
    rows = BarkConfig().rows
    estimates = [len(text) / PACE for text in chunks]
    actual = [estimate * dice.lognormvariate(0, ERROR) for estimate in estimates]
    bound = max(sum(actual) / (GPUS * rows), *actual)
    longest_first = sorted(range(len(chunks)), key=lambda index: -estimates[index])
    found = {}
    for name, listening, order in (
        ("makespan", False, longest_first),
        ("makespan_text_order", True, range(len(chunks))),
    ):
        pool = SimulatedPool(GPUS, rows=rows, engine=bark(actual))
        pool.scheduler.submit(0, estimates, 0.0, listening=listening)
        pool.run()
        assert len(pool.spoken) == len(chunks)
        found[f"{name}_vs_bound"] = pool.makespan / bound
        found[f"{name}_in_leases_vs_bound"] = leased(order, actual, rows) / bound
    return found


def document(dice: random.Random, transcripts: Path | None) -> dict[int, float]:
    """Makespan of a document of 20 chunks by the number of workers, each of which speaks one chunk at a time.

    In seconds of a worker that speaks in real time.
    """
    estimates = [len(text) / PACE for text in texts(transcripts, dice)[:DOCUMENT]]
    actual = [estimate * dice.lognormvariate(0, ERROR) for estimate in estimates]
    makespans = {}
    for workers in WORKERS:
        pool = SimulatedPool(workers, rows=1, engine=bark(actual))
        pool.scheduler.submit(0, estimates, 0.0, listening=False)
        pool.run()
        assert len(pool.spoken) == DOCUMENT
        makespans[workers] = pool.makespan
    return makespans


def seconds_of_a_second() -> tuple[float, str]:
    """Seconds that one chunk alone took for a second of audio on a GPU, as it was measured last, and which GPU."""
    measured = json.loads((Path(__file__).parent / "results/gpu-bark.json").read_text(encoding="utf-8"))
    return measured["figures"]["large_b1_voxyard_bfloat16_real_time_factor"], measured["machine"]["gpu"]


def overhead(seconds: float, count: int) -> dict[str, float]:
    """Milliseconds a chunk of so much sound takes through one worker's pool, and from the engine itself."""
    text = "x" * 10
    samples = round(seconds * SAMPLE_RATE / len(text))
    settings: dict[str, Any] = {"samples": samples, "rows": 1}
    requests = [Request(number, text) for number in range(count)]
    engine = TonesEngine(settings)
    pooled, direct = [], []
    with Pool(EngineSpec("engines:tones", settings), [Device("cpu0")], limits=PoolLimits(max_chunks=1)) as pool:
        list(pool.submit(requests[:2]).results())  # the worker has started
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            assert sum(1 for _ in pool.submit(requests).results()) == count
            pooled.append((time.perf_counter() - begin) / count)
            begin = time.perf_counter()
            assert sum(1 for _ in engine.speak(ListSource(requests))) == count
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
    medians = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    worst = {f"{name}_worst": max(run[name] for run in runs) for name in runs[0]}
    documents = [document(random.Random(seed), arguments.transcripts) for seed in range(20)]
    factor, card = seconds_of_a_second()
    of_workers = {
        workers: {
            "minutes": statistics.median(each[workers] for each in documents) * factor / 60,
            "speed_up": statistics.median(each[1] / each[workers] for each in documents),
        }
        for workers in WORKERS
    }
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
        "ratios": {name: medians[name] for name in ("makespan_vs_bound", "makespan_text_order_vs_bound")},
        "figures": {
            "gpus": GPUS,
            "chunks": CHUNKS,
            "rows": BarkConfig().rows,
            "sentences": "demo corpus" if arguments.transcripts is None else "transcripts",
            "runs": len(runs),
            **{name: value for name, value in medians.items() if "leases" in name},
            **worst,
            **costs,
            "document_of_20_chunks": {"rate_of": card, "seconds_for_a_second": factor, "by_workers": of_workers},
        },
    }
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    for name, value in {**medians, **worst}.items():
        print(f"{name:48} {value:7.3f}")
    print(f"{DOCUMENT} chunks, one at a time on each simulated worker, {factor:.3f} s for a second of audio ({card}):")
    for workers, found in of_workers.items():
        print(f"  {workers} workers: {found['minutes']:.2f} minutes, {found['speed_up']:.2f} times one")
    for name, value in costs.items():
        print(f"{name:48} {value:7.2f} ms")


if __name__ == "__main__":
    main()
