"""make bench-service: the service beside a bare FastAPI application; floods, slow readers, slow bodies; first sound.

Every client is a process of its own, wrk where there are many requests, so that no client measures itself. The service
has its shipped settings and keys; contestants take turns, and a ratio is the median of the turns' ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import paths

paths.add()

import bench_service_parts as parts
from bench_service_parts import Running, running
from bench_wrk import WrkError, check_wrk

OUTPUT = Path(__file__).resolve().parents[2] / "build" / "bench" / "service.json"
GOALS = {
    "requests_vs_floor": ("≥", 0.6),
    "requests_vs_pool_floor": ("≥", 0.6),
    "document_requests_per_second": ("≥", 1000),
    "seconds_of_p99_under_flood_above_idle": ("<", 0.3),
    **{f"p99_under_{each}": ("<", 0.3) for each in ("submissions", "reads", "redos")},
    "first_sound_vs_bound": ("≤", 1.15),
    "threads_500_readers": ("<", 60),
    "resident_mib_500_readers": ("<", 400),
    "slow_body_refused": ("≤", 0),
    "lost": ("≤", 0),
}
"""Goals of ratios and figures; the others are for reading."""


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, write the JSON; 1 where a document was lost or wrk is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="turns of each contestant")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a load")
    parser.add_argument("--readers", type=int, default=500, help="slow readers of one MP3")
    parser.add_argument("--bodies", type=int, default=1100, help="slow senders of bodies")
    chosen = parser.parse_args(arguments)
    try:
        check_wrk()
        with tempfile.TemporaryDirectory() as folder:
            found = measured(Path(folder), chosen)
    except WrkError as error:
        print(f"bench-service: {error}", file=sys.stderr)
        return 1
    ratios = {name.removeprefix("ratio "): value for name, value in found.items() if name.startswith("ratio ")}
    figures = {name: value for name, value in found.items() if not name.startswith("ratio ")}
    goals = met(ratios | figures)
    result = {"name": "service", "machine": machine(), "ratios": ratios, "goals": goals, "figures": figures}
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    for name, value in (ratios | figures).items():
        print(f"{name:56}{value:12.3f}  {goals.get(name, '')}")
    return 1 if ratios["lost"] else 0


def machine() -> dict[str, Any]:
    """The machine, and its load while it measured."""
    return {
        "cores": os.cpu_count(),
        "load_average": [round(each, 1) for each in os.getloadavg()],
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def met(found: dict[str, float]) -> dict[str, str]:
    """Each goal with the word whether it is met."""
    compare = {"≥": float.__ge__, "≤": float.__le__, "<": float.__lt__}
    return {
        name: f"goal {sign} {goal:g}: {'met' if compare[sign](float(found[name]), float(goal)) else 'missed'}"
        for name, (sign, goal) in GOALS.items()
    }


def measured(folder: Path, chosen: argparse.Namespace) -> dict[str, float]:
    """All figures; those whose names begin with `ratio ` are ratios, or have a goal."""
    rounds, seconds = chosen.rounds, chosen.seconds
    with running("service", folder) as service, running("floor", folder) as floor:
        story = parts.finished_document(service, "asks", parts.STORY)
        book = parts.finished_document(service, "floods", parts.BOOK)
        _progress("requests beside the floor")
        found = beside_the_floor(service, floor, story, rounds, seconds)
        _progress("waves of documents")
        found |= parts.documents(service, seconds)
        _progress("flood and readers")
        found |= flooded(service, book, rounds, seconds, chosen.readers)
        _progress("another key's large documents, reads and redos")
        found |= beside_another_key(service, rounds, seconds)
        _progress("slow bodies")
        found |= parts.slow_bodies(service, chosen.bodies, seconds)
    _progress("first sound")
    with running("service", folder, parts.CHUNK_SECONDS) as service:
        found |= parts.first_sound(service, rounds * 10)
        found |= parts.spoken_while_written(service, rounds * 10)
    _progress("first sound after a release")
    with running("released", folder, parts.CHUNK_SECONDS) as service:
        found |= parts.released_first_sound(service, rounds)
    return found


def _progress(part: str) -> None:
    print(f"bench-service: {part}", file=sys.stderr, flush=True)


def beside_the_floor(service: Running, floor: Running, story: str, rounds: int, seconds: float) -> dict[str, float]:
    """Requests a second, and processor time for each: a spoken sentence, and a short GET."""
    contestants = {
        "speech": (service, "/v1/audio/speech", parts.SPEECH),
        "bare_endpoint": (floor, "/bare", parts.SPEECH),
        "pool_endpoint": (floor, "/pool", parts.SPEECH),
        "document": (service, f"/v1/documents/{story}", None),
        "short_endpoint": (floor, "/short", None),
    }
    loads: dict[str, list[parts.Timed]] = {name: [] for name in contestants}
    for turn in range(rounds + 1):  # the first one warms
        for name, (where, path, body) in contestants.items():
            load = where.load(path, body, connections=8, seconds=seconds)
            if turn:
                loads[name].append(load)

    def ratio(one: str, other: str) -> float:
        pairs = zip(loads[one], loads[other], strict=True)
        return statistics.median(a.load.per_second / b.load.per_second for a, b in pairs)

    found = {
        "ratio requests_vs_floor": ratio("speech", "bare_endpoint"),
        "ratio requests_vs_pool_floor": ratio("speech", "pool_endpoint"),
        "ratio short_requests_vs_floor": ratio("document", "short_endpoint"),
    }
    for name, each in loads.items():
        found[f"{name}_requests_per_second"] = statistics.median(one.load.per_second for one in each)
        found[f"{name}_cpu_ms_per_request"] = statistics.median(one.cpu_ms for one in each)
        found[f"{name}_client_cpu_ms_per_request"] = statistics.median(one.client_cpu_ms for one in each)
    return found


def flooded(service: Running, book: str, rounds: int, seconds: float, readers: int) -> dict[str, float]:
    """A short request of one key, alone and while another key floods, by turns."""
    idle, under, peaks = [], [], parts.Peaks(service)
    for _ in range(rounds):
        idle.append(service.load("/v1/audio/speech", parts.SPEECH, connections=1, seconds=seconds).load)
        with parts.flood(service, book, readers, seconds):
            under.append(service.load("/v1/audio/speech", parts.SPEECH, connections=1, seconds=seconds).load)
            peaks.look()
    with parts.reading(service, book, readers, seconds + 3):
        beside = service.load("/v1/audio/speech", parts.SPEECH, connections=1, seconds=seconds).load
        peaks.look()
    return {
        "ratio p99_under_flood_vs_idle": statistics.median(
            flood.p99 / alone.p99 for flood, alone in zip(under, idle, strict=True)
        ),
        "ratio seconds_of_p99_under_flood_above_idle": statistics.median(
            flood.p99 - alone.p99 for flood, alone in zip(under, idle, strict=True)
        ),
        "ratio threads_500_readers": peaks.threads,
        "ratio resident_mib_500_readers": peaks.resident_mib,
        "idle_p50_ms": statistics.median(each.p50 for each in idle) * 1000,
        "idle_p99_ms": statistics.median(each.p99 for each in idle) * 1000,
        "flood_p50_ms": statistics.median(each.p50 for each in under) * 1000,
        "flood_p99_ms": statistics.median(each.p99 for each in under) * 1000,
        "flood_refused": float(sum(each.refused + each.broken for each in under)),
        "beside_readers_at_full_speed_p50_ms": beside.p50 * 1000,
        "beside_readers_at_full_speed_p99_ms": beside.p99 * 1000,
    }


def beside_another_key(service: Running, rounds: int, seconds: float) -> dict[str, float]:
    """p99 of one key's sentence while another key does what costs most, in seconds above its p99 alone, by turns."""
    long = parts.finished_document(service, "costly", parts.LONG, mp3=False)
    book = parts.finished_document(service, "costly", parts.BOOK, mp3=False)
    views = ("", "/chapters", "/script", "/timings", "/subtitles?format=vtt&estimated=true")
    costly: dict[str, tuple[parts.Asked, int]] = {
        "submissions": ([("/v1/documents", {"text": parts.LONG})], 45),
        "reads": ([(f"/v1/documents/{long}{view}", None) for view in views], 8),
        "redos": ([(f"/v1/documents/{book}/chunks/{index}/redo", {"seed": 1}) for index in range(5)], 24),
    }
    found = {}
    for name, (requests, connections) in costly.items():
        above = []
        for _ in range(rounds):
            alone = service.load("/v1/audio/speech", parts.SPEECH, connections=1, seconds=seconds).load
            with parts.asked(service, requests, connections, seconds):
                beside = service.load("/v1/audio/speech", parts.SPEECH, connections=1, seconds=seconds).load
            above.append(beside.p99 - alone.p99)
        found[f"ratio p99_under_{name}"] = statistics.median(above)
    return found


if __name__ == "__main__":
    sys.exit(main())
