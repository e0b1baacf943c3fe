"""Faults that `voxyard profile` can see, drawn, each with the cause that it has to name.

The trainer's real pipeline on logical CPU devices, with stages that are made slow (slow_stages.py).
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forked import ALONE, run_forked, server_of
from runs import environment, write_tones

MEMORY, DISK = Path("/dev/shm"), Path("/var/tmp")
CLIPS, STEPS, ROWS = 60, 8, 4
SPLIT = ("--data-gpu", "0", "--model-gpu", "1")


@dataclass(frozen=True)
class Drawn:
    """A fault as it was drawn: what is slow, and how the run is set."""

    variables: Mapping[str, float]
    flags: tuple[str, ...] = ()
    cores: int | None = None  # that the run may use
    others: int = 0  # programs beside it
    corpora: Path = DISK


@dataclass(frozen=True)
class ProfiledKind:
    """A kind of fault, and the name of the cause that the profiler has to tell; None: nothing is wrong."""

    name: str
    cause: str | None
    draw: Callable[[random.Random], Drawn]


@dataclass(frozen=True)
class Profiled:
    """A fault as it was profiled."""

    kind: ProfiledKind
    drawn: Drawn
    cause: str | None
    sentence: str

    @property
    def named(self) -> bool:
        """True where the profiler named the cause, and nothing else."""
        return self.cause == self.kind.cause


def slow_disk(dice: random.Random) -> Drawn:
    """Each read waits."""
    return Drawn({"SLOW_READ": dice.uniform(0.05, 0.4), "SLOW_TRAIN": dice.uniform(0.01, 0.1)}, _threads(dice, 1, 6))


def slow_disk_of_one_device(dice: random.Random) -> Drawn:
    """The same where one device does all."""
    return Drawn({"SLOW_READ": dice.uniform(0.1, 0.4)}, ("--num-workers", "2"))


def slow_decoder(dice: random.Random) -> Drawn:
    """All cores decode, and it is not enough."""
    return Drawn({"DECODE_READ": dice.uniform(0.05, 0.2)}, (*SPLIT, "--num-workers", str(2 * _cores())), corpora=MEMORY)


def readers_by_turns(dice: random.Random) -> Drawn:
    """Threads that hold the interpreter's lock: one core, however many there are."""
    return Drawn({"PYTHON_READ": dice.uniform(0.05, 0.2)}, _threads(dice, 3, 6), corpora=MEMORY)


def container_of_one_core(dice: random.Random) -> Drawn:
    """The run may use one core alone."""
    return Drawn({"DECODE_READ": dice.uniform(0.05, 0.2)}, _threads(dice, 3, 6), cores=1)


def too_few_readers(dice: random.Random) -> Drawn:
    """One thread decodes, and the other cores are free."""
    return Drawn({"DECODE_READ": dice.uniform(0.05, 0.2)}, (*SPLIT, "--num-workers", "1"))


def slow_features(dice: random.Random) -> Drawn:
    """The data device is the slow one."""
    return Drawn({"SLOW_FEATURES": dice.uniform(0.2, 0.8), "SLOW_TRAIN": dice.uniform(0.01, 0.1)}, SPLIT)


def slow_copy(dice: random.Random) -> Drawn:
    """The link between the two devices is."""
    return Drawn({"SLOW_TRANSFER": dice.uniform(0.3, 0.8), "SLOW_TRAIN": dice.uniform(0.01, 0.1)}, SPLIT)


def long_checkpoints(dice: random.Random) -> Drawn:
    """A disk so slow that the next checkpoint is due before one is written."""
    every, step = dice.randint(2, 20), 0.2
    return Drawn(
        {"SLOW_TRAIN": step, "SLOW_SAVE": dice.uniform(1.6, 4) * every * step},
        (*SPLIT, "--checkpoint-every", str(every)),
    )


def mostly_validating(dice: random.Random) -> Drawn:
    """A validation after every step or two, of a third of the clips."""
    flags = (*SPLIT, "--validate-every", str(dice.randint(1, 2)), "--validation-share", "0.34")
    return Drawn({"SLOW_FEATURES": dice.uniform(0.15, 0.25), "SLOW_TRAIN": 0.3}, flags)


def others_on_the_cores(dice: random.Random) -> Drawn:
    """More programs than cores, beside a run whose devices compute about as long as one another."""
    matrices = dice.randint(200, 600)
    variables = {"HEAVY_FEATURES": matrices, "HEAVY_TRAIN": round(matrices * dice.uniform(0.7, 1.4))}
    return Drawn(variables, SPLIT, others=dice.randint(_cores() + 1, 3 * _cores()))


def bound_by_training(dice: random.Random) -> Drawn:
    """Nothing is wrong: the model takes its time."""
    return Drawn({"SLOW_TRAIN": dice.uniform(0.2, 0.6)}, _threads(dice, 2, 4))


def _threads(dice: random.Random, least: int, most: int) -> tuple[str, ...]:
    return (*SPLIT, "--num-workers", str(dice.randint(least, most)))


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _kind(draw: Callable[[random.Random], Drawn], cause: str | None) -> ProfiledKind:
    return ProfiledKind(draw.__name__.replace("_", " "), cause, draw)


PROFILED: tuple[ProfiledKind, ...] = (
    _kind(slow_disk, "input_storage"),
    _kind(slow_disk_of_one_device, "input_storage"),
    _kind(slow_decoder, "input_decode"),
    _kind(readers_by_turns, "input_one_core"),
    _kind(container_of_one_core, "input_one_core"),
    _kind(too_few_readers, "input_workers"),
    _kind(slow_features, "features"),
    _kind(slow_copy, "transfer"),
    _kind(long_checkpoints, "checkpoint"),
    _kind(mostly_validating, "validation"),
    _kind(others_on_the_cores, "cpu_pressure"),
    _kind(bound_by_training, None),
)


def profiled(kind: ProfiledKind, seed: int) -> Profiled:
    """A fault of this kind, profiled by `voxyard profile` in a process of its own."""
    drawn = kind.draw(random.Random(f"{kind.name} {seed}"))
    with tempfile.TemporaryDirectory(dir=drawn.corpora) as folder:
        corpus = write_tones(Path(folder) / "tones", CLIPS, seed=seed)
        run = ["--train-data", corpus, "--batch-size", ROWS, "--buckets", 1, "--checkpoint-dir", Path(folder) / "run"]
        arguments = ["profile", "--json", "--num-steps", STEPS, "--device", "cpu", *run, *drawn.flags]
        variables = {name: str(value) for name, value in drawn.variables.items()}
        with _others(drawn.others), _only(drawn.cores):
            done = run_forked(
                *arguments,
                "--model-module",
                "slow_stages:make",
                environment=environment(**variables),
                source=None if drawn.others else ALONE,
            )
    if done.returncode:
        raise RuntimeError(f"{kind.name}, {drawn}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    verdict: dict[str, Any] = json.loads(done.stdout)["verdict"]
    return Profiled(kind, drawn, verdict["cause"] and verdict["cause"]["name"], verdict["sentence"])


@contextmanager
def _others(count: int) -> Iterator[None]:
    """So many programs that never rest."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for each in loops:
            each.kill()
            each.wait()


@contextmanager
def _only(cores: int | None) -> Iterator[None]:
    """The server that forks the runs is on so many cores, and so is what it forks."""
    before = os.sched_getaffinity(0)
    if cores is None:
        yield
        return
    process = server_of().process.pid
    os.sched_setaffinity(process, set(sorted(before)[:cores]))
    try:
        yield
    finally:
        os.sched_setaffinity(process, before)


def profiled_table(found: Sequence[Profiled]) -> str:
    """A line for each kind."""
    lines = ["| planted in a run | cause | named | else it said |", "|---|---|---|---|"]
    for kind in PROFILED:
        if those := [each for each in found if each.kind == kind]:
            others = sorted({each.cause or each.sentence for each in those if not each.named})
            named = sum(each.named for each in those)
            lines.append(f"| {kind.name} | {kind.cause or 'none'} | {named} of {len(those)} | {', '.join(others)} |")
    return "\n".join(lines)
