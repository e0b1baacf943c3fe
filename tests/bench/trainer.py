"""make bench-trainer: overlap, Keras' fit, one device, telemetry and memory, interleaved in one run."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BUILD = HERE.parent.parent / "build" / "bench"
Turns = list[dict[str, float]]


class Contestant:
    """A process that runs steps when it is told to."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._read()

    def turn(self, do: str, steps: int) -> dict[str, float]:
        """So many steps of something; seconds per step."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, "steps": steps}) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, float]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a contestant ended: {self._process.args!r}; see its messages above")
        answer: dict[str, float] = json.loads(line)
        return answer


@contextmanager
def contestant(kind: str, workload: str, corpus: Path, threads: int) -> Iterator[Contestant]:
    """Starts a contestant and ends it afterwards."""
    print(f"  starting {kind} with {threads} threads an operation", file=sys.stderr, flush=True)
    command = [
        sys.executable, str(HERE / "contestant.py"), kind,
        "--workload", workload, "--corpus", str(corpus), "--threads", str(threads),
    ]  # fmt: skip
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Contestant(process)
        finally:
            process.kill()


def measure(workload: str, corpus: Path, *, rounds: int, steps: int) -> dict[str, Any]:
    """Medians over rounds in which every contestant has its turn."""
    cores = len(os.sched_getaffinity(0))
    turns: dict[str, Turns] = {}

    def note(name: str, answer: dict[str, float]) -> None:
        turns.setdefault(name, []).append(answer)

    with ExitStack() as stack:
        ours = stack.enter_context(contestant("split", workload, corpus, 1))
        wide = {
            f"split, {cores} threads": stack.enter_context(contestant("split", workload, corpus, cores)),
            "single, 1 threads": stack.enter_context(contestant("single", workload, corpus, 1)),
            f"single, {cores} threads": stack.enter_context(contestant("single", workload, corpus, cores)),
        }
        fits = {
            f"keras fit, {threads} threads": stack.enter_context(contestant("keras", workload, corpus, threads))
            for threads in sorted({1, cores})
        }
        for number in range(rounds):
            print(f"  round {number + 1} of {rounds}", file=sys.stderr, flush=True)
            for do in ("features", "update", "overlapped", "observed", "serial"):
                note(do, ours.turn(do, steps))
            for name, one in wide.items():
                note(name, one.turn("overlapped", steps))
            for name, one in fits.items():
                note(name, one.turn("fit", steps))
            note("overlapped", ours.turn("overlapped", steps))  # a second time: before and after the others
    return summary(turns, rounds, fits=list(fits), ours=["overlapped", *wide])


def summary(turns: Mapping[str, Turns], rounds: int, *, fits: list[str], ours: list[str]) -> dict[str, Any]:
    """Ratios from medians; seconds per step beside them."""
    seconds = {name: statistics.median(turn["seconds"] for turn in made) for name, made in turns.items()}
    d, m = seconds["features"], seconds["update"]
    overlaps = [
        max(f["seconds"], u["seconds"]) / o["seconds"]
        for f, u, o in zip(turns["features"], turns["update"], turns["overlapped"][::2], strict=False)
    ]
    best_ours, best_fit = min(ours, key=seconds.__getitem__), min(fits, key=seconds.__getitem__)
    return {
        "ratios": {
            "overlap": max(d, m) / seconds["overlapped"],
            "vs_keras_fit": seconds[best_fit] / seconds[best_ours],
            "split_vs_single": seconds["serial"] / seconds["overlapped"],
            "split_bound": (d + m) / max(d, m),
            "telemetry": seconds["overlapped"] / seconds["observed"],
            "data_wait": statistics.median(turn["wait"] for turn in turns["overlapped"]),
            "data_vs_model": d / m,
        },
        "figures": {
            "seconds_per_step": seconds,
            "best_of_ours": best_ours,
            "best_of_keras": best_fit,
            "overlap_rounds": overlaps,
        },
    }


def resident_memory(corpus: Path, steps: int) -> float:
    """Growth of resident memory from a tenth of the steps to the end."""
    with contestant("split", "memory", corpus, 1) as ours:
        return ours.turn("memory", steps)["growth"]


def shards(corpus: Path | None) -> Path:
    """The demo corpus as shards, or somebody's own."""
    voxyard = [sys.executable, "-m", "voxyard"]
    source = corpus or BUILD / "corpus"
    if corpus is None and not source.exists():
        subprocess.run([*voxyard, "corpus", "demo", str(source)], check=True, stdout=sys.stderr)
    made = BUILD / f"shards-{source.name}"
    if not made.exists():
        subprocess.run([*voxyard, "corpus", "prepare", str(source), str(made)], check=True, stdout=sys.stderr)
    return made


def render(workload: str, measured: Mapping[str, Any]) -> str:
    """A table for people."""
    targets = {"overlap": "≥ 0.95", "vs_keras_fit": "≥ 1.0", "telemetry": "≥ 0.99"}
    if workload == "demo":
        targets["data_wait"] = "< 0.05"
    lines = [f"{workload} workload"]
    for name, value in measured["ratios"].items():
        lines.append(f"  {name:<18} {value:6.3f}  {targets.get(name, '')}".rstrip())
    lines.append(
        f"  best of ours: {measured['figures']['best_of_ours']}; of Keras: {measured['figures']['best_of_keras']}"
    )
    return "\n".join(lines)


def main() -> None:
    """Measures, prints, and writes build/bench/trainer.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory-steps", type=int, default=2000)
    args = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    corpus = shards(args.corpus)
    balanced = measure("balanced", corpus, rounds=args.rounds, steps=30)
    print(render("balanced", balanced), flush=True)
    demo = measure("demo", corpus, rounds=max(3, args.rounds // 2), steps=6)
    print(render("demo", demo), flush=True)
    growth = resident_memory(corpus, args.memory_steps)
    print(f"resident memory, step {args.memory_steps // 10} to {args.memory_steps}: {growth:+.2%}  (target within 2%)")
    result = {
        "name": "trainer",
        "machine": {
            "cores": len(os.sched_getaffinity(0)),
            "processor": platform.processor() or platform.machine(),
        },
        "ratios": balanced["ratios"]
        | {f"demo_{name}": value for name, value in demo["ratios"].items()}
        | {"memory_growth": growth},
        "figures": {"balanced": balanced["figures"], "demo": demo["figures"]},
    }
    (BUILD / "trainer.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
