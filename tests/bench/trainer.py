"""make bench-trainer: overlap, Keras' fit, one device, telemetry and memory, interleaved in one run."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from voxyard.speech.reading.reader import READING_VERSION

HERE = Path(__file__).parent
BUILD = HERE.parent.parent / "build" / "bench"
Turns = list[dict[str, float]]
OF_PARTS = "parts_of_one_card_"  # how a ratio begins that is of --gpu-parts, and none of as many cards


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


@dataclass(frozen=True)
class Workload:
    """Model and batches that all contestants of a comparison share."""

    name: str
    shape: str  # "balanced" is that of workload.py, others are rows of the table of model sizes
    rows: int  # clips in a batch on one device
    fft_size: int = 1024
    networks: str = "acoustic"
    first_phase: bool = False  # of a vocoder's training: without discriminators, several updates a step
    buffer: int = 10  # batches of host-side prefetch
    ring: int = 3


@dataclass(frozen=True)
class Plan:
    """Devices and sizes of a run."""

    device: str = "cpu"
    gpus: int = 0
    parts: int = 1  # of each GPU
    rounds: int = 5
    steps: int = 30
    memory_steps: int = 2000
    widths: bool = True  # try one thread and one a core, which CPU devices can have
    clips: int | None = None  # of the corpus that is made; None: all
    balanced: tuple[Workload, ...] = (Workload("balanced", "balanced", 24, 2048),)  # the evenest of them is measured
    demo: Workload | None = Workload("demo", "tiny", 8)
    networks: Workload | None = Workload("two networks", "tiny", 8, networks="acoustic,vocoder")
    memory: Workload = Workload("memory", "balanced", 4, 2048)
    scaling: Workload | None = None
    modes: Workload | None = Workload("modes", "balanced", 24, 2048)

    @property
    def splits(self) -> bool:
        """True where there are two devices, or two parts of one."""
        return self.device == "cpu" or self.gpus * self.parts >= 2

    def labelled(self, ratios: Mapping[str, float]) -> dict[str, float]:
        """Ratios of two devices under names that say so where they are two parts of one card."""
        return {f"{OF_PARTS}{name}" if self.parts > 1 else name: value for name, value in ratios.items()}


ON_GPUS = Plan(
    device="gpu", widths=False,
    balanced=tuple(
        Workload("balanced", shape, rows, fft_size)
        for shape, rows, fft_size in (
            ("balanced", 24, 2048), ("balanced", 24, 4096), ("balanced", 96, 4096), ("tiny", 24, 4096),
            ("tiny", 96, 4096),
        )
    ),
    scaling=Workload("scaling", "normal", 16),
)  # fmt: skip
SMOKE = Plan(
    rounds=1,
    steps=2,
    memory_steps=20,
    widths=False,
    clips=24,
    balanced=(Workload("balanced", "balanced", 2),),
    demo=None,
    networks=None,
    memory=Workload("memory", "balanced", 2),
    scaling=Workload("scaling", "balanced", 2),
    modes=Workload("modes", "balanced", 2),
)
"""The contestants of a GPU host on the CPU, with sizes that measure nothing; the demo workload is left out."""


@contextmanager
def contestant(kind: str, workload: Workload, plan: Plan, corpus: Path, threads: int) -> Iterator[Contestant]:
    """Starts a contestant and ends it afterwards."""
    with_threads = f" with {threads} threads an operation" if plan.device == "cpu" else ""
    print(f"  starting {kind}{with_threads}", file=sys.stderr, flush=True)
    command = [
        sys.executable, str(HERE / "contestant.py"), kind, "--shape", workload.shape, "--rows", str(workload.rows),
        "--fft-size", str(workload.fft_size), "--device", plan.device, "--corpus", str(corpus),
        "--threads", str(threads), "--networks", workload.networks, "--gpu-parts", str(plan.parts),
        "--buffer", str(workload.buffer), "--ring", str(workload.ring),
        *(["--first-phase"] if workload.first_phase else []),
    ]  # fmt: skip
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Contestant(process)
        finally:
            process.kill()


def evenest(candidates: Sequence[Workload], data_vs_model: Callable[[Workload], float]) -> Workload:
    """The workload whose data and model stage take the most nearly equal times; a single one is taken as it is."""
    if len(candidates) == 1:
        return candidates[0]
    return min(candidates, key=lambda each: abs(math.log(data_vs_model(each))))


def probed(workload: Workload, plan: Plan, corpus: Path) -> float:
    """Data stage ÷ model stage of a workload, each alone."""
    with contestant("split" if plan.splits else "single", workload, plan, corpus, 1) as one:
        found = one.turn("features", plan.steps)["seconds"] / one.turn("update", plan.steps)["seconds"]
    print(f"  {workload.shape}, {workload.rows} clips, FFT {workload.fft_size}: D ÷ M {found:.2f}", file=sys.stderr)
    return found


def measure(workload: Workload, plan: Plan, corpus: Path, *, rounds: int, steps: int) -> dict[str, Any]:
    """Medians over rounds in which every contestant has its turn."""
    cores = len(os.sched_getaffinity(0))
    turns: dict[str, Turns] = {}

    def note(name: str, answer: dict[str, float]) -> None:
        turns.setdefault(name, []).append(answer)

    with ExitStack() as stack:

        def start(kind: str, threads: int) -> Contestant:
            return stack.enter_context(contestant(kind, workload, plan, corpus, threads))

        ours = start("split" if plan.splits else "single", 1)
        if not plan.widths:
            wide = {"single": start("single", cores)} if plan.splits else {}
            fits = {"keras fit": start("keras", cores)}
        else:
            wide = {
                f"split, {cores} threads": start("split", cores),
                "single, 1 threads": start("single", 1),
                f"single, {cores} threads": start("single", cores),
            }
            fits = {f"keras fit, {threads} threads": start("keras", threads) for threads in sorted({1, cores})}
        for number in range(rounds):
            print(f"  round {number + 1} of {rounds}", file=sys.stderr, flush=True)
            for do in ("features", "update", "overlapped", "observed", "serial"):
                note(do, ours.turn(do, steps))
            for name, one in wide.items():
                note(name, one.turn("overlapped", steps))
            for name, one in fits.items():
                note(name, one.turn("fit", steps))
            note("overlapped", ours.turn("overlapped", steps))  # a second time: before and after the others
    return summary(turns, fits=list(fits), ours=["overlapped", *wide], plan=plan)


def summary(turns: Mapping[str, Turns], *, fits: list[str], ours: list[str], plan: Plan) -> dict[str, Any]:
    """Ratios from medians; seconds per step beside them. On one device there is no overlap of two to measure."""
    seconds = {name: statistics.median(turn["seconds"] for turn in made) for name, made in turns.items()}
    d, m = seconds["features"], seconds["update"]
    overlaps = [
        max(f["seconds"], u["seconds"]) / o["seconds"]
        for f, u, o in zip(turns["features"], turns["update"], turns["overlapped"][::2], strict=False)
    ]
    best_ours, best_fit = min(ours, key=seconds.__getitem__), min(fits, key=seconds.__getitem__)
    of_a_split = {
        "overlap": max(d, m) / seconds["overlapped"],
        "split_vs_single": seconds["serial"] / seconds["overlapped"],
        "split_bound": (d + m) / max(d, m),
    }
    return {
        "ratios": {
            **(plan.labelled(of_a_split) if plan.splits else {}),
            "vs_keras_fit": seconds[best_fit] / seconds[best_ours],
            "telemetry": seconds["overlapped"] / seconds["observed"],
            "data_wait": statistics.median(turn["wait"] for turn in turns["overlapped"]),
            "data_vs_model": d / m,
        },
        "figures": {
            "seconds_per_step": seconds,
            "best_of_ours": best_ours,
            "best_of_keras": best_fit,
            **({"overlap_rounds": overlaps} if plan.splits else {}),
        },
    }


def scaling(workload: Workload, plan: Plan, corpus: Path) -> dict[str, Any]:
    """Clips a second of two devices that train on a batch each (mirrored), beside those of one."""
    clips: dict[str, list[float]] = {"single": [], "mirrored": []}
    with ExitStack() as stack:
        both = {name: stack.enter_context(contestant(name, workload, plan, corpus, 1)) for name in clips}
        for number in range(plan.rounds):
            print(f"  round {number + 1} of {plan.rounds}", file=sys.stderr, flush=True)
            for name, one in both.items():
                clips[name].append(one.turn("overlapped", plan.steps)["clips"])
    found = {name: statistics.median(made) for name, made in clips.items()}
    return {
        "ratios": {"mirrored_vs_single": found["mirrored"] / found["single"]},
        "figures": {"clips_per_second": found, "model": workload.shape, "rows": workload.rows},
    }


MODES = {"legacy": ("single", 1, 1), "buffer 50": ("single", 50, 3), "buffer 100": ("single", 100, 3)}
"""Modes of one device: its kind, batches of host-side prefetch, ring slots. Legacy: no batch is made ahead."""


def modes(workload: Workload, plan: Plan, corpus: Path) -> dict[str, Any]:
    """Clips a second and waits of the modes of training: nothing made ahead, two sizes of buffer, a split."""
    kinds = MODES | ({"split": ("split", 50, 3)} if plan.splits else {})
    turns: dict[str, Turns] = {name: [] for name in kinds}
    with ExitStack() as stack:
        started = {
            name: stack.enter_context(contestant(kind, replace(workload, buffer=buffer, ring=ring), plan, corpus, 1))
            for name, (kind, buffer, ring) in kinds.items()
        }
        for number in range(plan.rounds):
            print(f"  round {number + 1} of {plan.rounds}", file=sys.stderr, flush=True)
            for name, one in started.items():
                turns[name].append(one.turn("overlapped", plan.steps))
    clips, waits = (
        {name: statistics.median(turn[of] for turn in made) for name, made in turns.items()} for of in ("clips", "wait")
    )
    return {
        "ratios": {f"{name} ÷ legacy": rate / clips["legacy"] for name, rate in clips.items() if name != "legacy"},
        "figures": {"clips_per_second": clips, "waits": waits, "model": workload.shape, "rows": workload.rows},
    }


def two_networks(workload: Workload, plan: Plan, corpus: Path) -> dict[str, Any]:
    """Acoustic model and vocoder on two devices: each stage alone, all overlapped, in turn on one core.

    `single` is one device, which on a CPU has all cores: what two logical devices keep one core each for.
    """
    seconds: dict[str, list[float]] = {}
    with ExitStack() as stack:
        kinds = {kind: stack.enter_context(contestant(kind, workload, plan, corpus, 1)) for kind in ("split", "single")}
        for number in range(max(3, plan.rounds // 2)):
            print(f"  round {number + 1} of {max(3, plan.rounds // 2)}", file=sys.stderr, flush=True)
            for do in ("features", "main_update", "beside_update", "overlapped", "in_turn"):
                seconds.setdefault(do, []).append(kinds["split"].turn(do, 20)["seconds"])
            seconds.setdefault("single", []).append(kinds["single"].turn("overlapped", 20)["seconds"])
    found = {name: statistics.median(made) for name, made in seconds.items()}
    on_data, on_model = found["features"] + found["beside_update"], found["main_update"]
    return {
        "ratios": plan.labelled(
            {
                "two_networks_bound": (on_data + on_model) / max(on_data, on_model),
                "two_networks_vs_bound": max(on_data, on_model) / found["overlapped"],
                "two_networks_vs_in_turn": found["in_turn"] / found["overlapped"],
                "two_networks_vs_single": found["single"] / found["overlapped"],
            }
        ),
        "figures": {"seconds_per_step": found, "model": workload.shape, "rows": workload.rows},
    }


def resident_memory(plan: Plan, corpus: Path) -> float:
    """Growth of resident memory from a tenth of the steps to the end."""
    with contestant("split" if plan.splits else "single", plan.memory, plan, corpus, 1) as ours:
        return ours.turn("memory", plan.memory_steps)["growth"]


def gpus() -> int:
    """GPUs of this host, as nvidia-smi lists them."""
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return 0
    return sum(line.startswith("GPU ") for line in done.stdout.splitlines())


def shards(corpus: Path | None, clips: int | None) -> Path:
    """The demo corpus as shards, or somebody's own; `clips` of it, or all."""
    voxyard = [sys.executable, "-m", "voxyard"]
    source = corpus or BUILD / ("corpus" if clips is None else f"corpus-{clips}")
    if corpus is None and not source.exists():
        most = [] if clips is None else ["--clips", str(clips)]
        subprocess.run([*voxyard, "corpus", "demo", str(source), *most], check=True, stdout=sys.stderr)
    made = BUILD / f"shards-{source.name}-{READING_VERSION}"  # a trainer takes no others
    if not made.exists():
        subprocess.run([*voxyard, "corpus", "prepare", str(source), str(made)], check=True, stdout=sys.stderr)
    return made


def render(workload: str, measured: Mapping[str, Any]) -> str:
    """A table for people."""
    targets = {"overlap": "≥ 0.95", "vs_keras_fit": "≥ 1.0", "telemetry": "≥ 0.99", "mirrored_vs_single": "≥ 1.8"}
    targets |= {"two_networks_bound": "≥ 1.6", "two_networks_vs_bound": "≥ 0.95"}
    if workload == "demo":
        targets["data_wait"] = "< 0.05"
    lines = [f"{workload} workload"]
    for name, value in measured["ratios"].items():
        lines.append(f"  {name:<22} {value:6.3f}  {targets.get(name, '')}".rstrip())
    if "best_of_ours" in measured["figures"]:
        lines.append(
            f"  best of ours: {measured['figures']['best_of_ours']}; of Keras: {measured['figures']['best_of_keras']}"
        )
    return "\n".join(lines)


def measured(plan: Plan, corpus: Path) -> dict[str, Any]:
    """The result of a run, as its JSON file holds it."""
    found: dict[str, dict[str, Any]] = {}
    ratios: dict[str, float] = {}
    balanced = evenest(plan.balanced, lambda each: probed(each, plan, corpus))
    found["balanced"] = measure(balanced, plan, corpus, rounds=plan.rounds, steps=plan.steps)
    ratios |= found["balanced"]["ratios"]
    if plan.demo is not None:
        found["demo"] = measure(plan.demo, plan, corpus, rounds=max(3, plan.rounds // 2), steps=6)
        ratios |= {f"demo_{name}": value for name, value in found["demo"]["ratios"].items()}
    if plan.scaling is not None and plan.splits and plan.parts == 1:  # parts of a card compute no more than the card
        found["scaling"] = scaling(plan.scaling, plan, corpus)
        ratios |= found["scaling"]["ratios"]
    if plan.networks is not None and plan.splits:
        found["two networks"] = two_networks(plan.networks, plan, corpus)
        ratios |= found["two networks"]["ratios"]
        first = replace(plan.networks, name="two networks, first phase", first_phase=True)
        found[first.name] = two_networks(first, plan, corpus)
        ratios |= {f"first_phase_{name}": value for name, value in found[first.name]["ratios"].items()}
    if plan.modes is not None:
        found["modes"] = modes(plan.modes, plan, corpus)
    for name, each in found.items():
        print(render(name, each), flush=True)
    growth, steps = resident_memory(plan, corpus), plan.memory_steps
    print(f"resident memory, step {steps // 10} to {steps}: {growth:+.2%}  (target within 2%)")
    figures = {name: each["figures"] for name, each in found.items()}
    figures["balanced"] |= {"model": balanced.shape, "rows": balanced.rows, "fft_size": balanced.fft_size}
    return {
        "name": "trainer",
        "stand_in": plan.clips is not None,
        "machine": {
            "cores": len(os.sched_getaffinity(0)),
            "processor": platform.processor() or platform.machine(),
            "device": plan.device,
            "gpus": plan.gpus,
            "gpu_parts": plan.parts,
        },
        "ratios": ratios | {"memory_growth": growth},
        "figures": figures,
    }


def main() -> None:
    """Measures, prints, and writes build/bench/trainer.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--rounds", type=int, help="turns of each contestant")
    parser.add_argument("--memory-steps", type=int)
    parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--out", type=Path, default=BUILD / "trainer.json", metavar="FILE", help="JSON file")
    parser.add_argument(
        "--smoke", action="store_true", help="tiny sizes on the CPU: a stand-in, which measures nothing"
    )
    args = parser.parse_args()
    if args.smoke and args.device == "gpu":
        parser.error("--smoke is of the CPU: leave --device gpu out")
    plan = SMOKE if args.smoke else Plan()
    if args.device == "gpu":
        plan = replace(ON_GPUS, gpus=gpus())
        plan = replace(plan, parts=2 if plan.gpus == 1 else 1)
        if not plan.gpus:
            parser.error("--device gpu: nvidia-smi lists no GPU on this host")
    given = {name: getattr(args, name) for name in ("rounds", "memory_steps") if getattr(args, name) is not None}
    BUILD.mkdir(parents=True, exist_ok=True)
    result = measured(replace(plan, **given), shards(args.corpus, plan.clips))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
