"""End to end with a preset voice: chunks in, audio out, by voxyard, transformers and Suno's own code, in turns."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from bench_contestants import Contestant, Suno, Transformers, Voxyard
from bench_floor import ChunkTokens
from bench_stages import StageTimes, Timer

from voxyard.bark.config import BarkConfig
from voxyard.bark.errors import BarkError
from voxyard.bark.weights.checkpoint import BarkCheckpoint, load
from voxyard.corpus import demo

VOICE = "v2/en_speaker_6"
CODEBOOKS = 2  # of the coarse stage
Makers = Mapping[str, Callable[[], Contestant]]  # by `program precision`


@dataclass
class Run:
    """Turns of one contestant."""

    times: StageTimes
    seconds: list[float] = field(default_factory=list)  # of each turn
    audio_seconds: float = 0.0  # of one turn
    chunks: tuple[ChunkTokens, ...] = ()  # voxyard's, of one turn
    rows: int | None = None  # of voxyard's batch, which may be smaller than what was asked for
    failure: str | None = None  # of memory; the contestant takes no further turn

    @property
    def real_time_factor(self) -> float:
        """Seconds of work for a second of audio, the median turn's."""
        return statistics.median(self.seconds) / self.audio_seconds


def texts(chunks: int) -> list[str]:
    """Chunks of one sentence each."""
    sentences = demo.sentences()
    return [sentences[index % len(sentences)] for index in range(chunks)]


def makers(directory: Path, device: str, rows: int, precisions: Mapping[str, Sequence[str]]) -> Makers:
    """Contestants by name; the modules of transformers are shared with Suno's code."""
    loaded: dict[str, BarkCheckpoint] = {}

    def modules(precision: str) -> BarkCheckpoint:
        if precision not in loaded:
            loaded[precision] = load(directory, device, precision)  # type: ignore[arg-type]
        return loaded[precision]

    def voxyard(
        precision: str, finish: Literal["auto", "after"] = "auto", kv_cache: Literal["auto", "int8"] = "auto"
    ) -> Voxyard:
        quantized = precision == "int8"
        config = BarkConfig(
            model=directory,
            device=device,  # type: ignore[arg-type]
            precision="auto" if quantized else precision,  # type: ignore[arg-type]
            int8=quantized,
            batch_size=rows,
            finish=finish,
            kv_cache=kv_cache,
            threads=torch.get_num_threads(),
        )
        return Voxyard(config, VOICE)

    program: dict[str, Callable[[str], Contestant]] = {
        "voxyard": voxyard,
        "serial": lambda precision: voxyard(precision, "after"),
        "int8-cache": lambda precision: voxyard(precision, kv_cache="int8"),
        "transformers": lambda precision: Transformers(modules(precision), VOICE, rows),
        "suno": lambda precision: Suno(modules(precision), VOICE),
    }
    return {
        f"{name} {precision}": (lambda name=name, precision=precision: program[name](precision))  # type: ignore[misc]
        for name, each in precisions.items()
        for precision in each
    }


def in_turns(
    made: Makers, spoken: Sequence[str], timer: Timer, rounds: int, *, once: Sequence[str] = (), warm_up: bool = False
) -> dict[str, Run]:
    """The runs of every contestant; from the second round on only of each program's best precision.

    Programs in `once` take part in the first round only. With `warm_up` each has a turn before that does not count:
    kernels are loaded, steps captured.
    """
    runs = {name: Run(StageTimes(timer)) for name in made}
    contestants: dict[str, Contestant] = {}
    for number in range(rounds):
        names = list(made) if number == 0 else [name for program, name in best(runs).items() if program not in once]
        for name in names[:: -1 if number % 2 else 1]:
            run = runs[name]
            try:
                if name not in contestants:
                    contestants[name] = made[name]()
                    if warm_up:
                        contestants[name].speak(spoken)
                _take_turn(name, contestants[name], spoken, run)
            except (BarkError, MemoryError, torch.cuda.OutOfMemoryError) as error:
                run.failure = str(error).partition("\n")[0]
                print(f"  {name:24} {run.failure}", file=sys.stderr, flush=True)
                contestants.pop(name, None)
        contestants = {name: contestants[name] for name in best(runs).values()}
    return runs


def _take_turn(name: str, contestant: Contestant, spoken: Sequence[str], run: Run) -> None:
    timer = run.times.timer
    with contestant.watched(run.times):
        began = timer.now()
        run.audio_seconds = contestant.speak(spoken)
        run.seconds.append(timer.now() - began)
    if isinstance(contestant, Voxyard):
        run.chunks, run.rows = contestant.chunks, contestant.ready.batch_limit
    print(f"  {name:24} {run.seconds[-1]:7.1f} s for {run.audio_seconds:.2f} s", file=sys.stderr, flush=True)


def best(runs: Mapping[str, Run]) -> dict[str, str]:
    """Name of each program's precision that is fastest among those with the most turns."""
    spoken = {name: run for name, run in runs.items() if run.seconds and run.failure is None}
    programs = dict.fromkeys(name.partition(" ")[0] for name in spoken)
    return {
        program: min(
            (name for name in spoken if name.startswith(f"{program} ")),
            key=lambda name: (-len(spoken[name].seconds), spoken[name].real_time_factor),
        )
        for program in programs
    }


def ratios(prefix: str, runs: Mapping[str, Run]) -> dict[str, float]:
    """Speed-up of voxyard over each other program, the best precision of each: the median over the rounds."""
    fastest = best(runs)
    ours = fastest.pop("voxyard", None)
    return {f"{prefix}_vs_{program}": _ratio(runs[name], runs[ours]) for program, name in fastest.items() if ours}


def _ratio(slow: Run, fast: Run) -> float:
    pairs = zip(slow.seconds, fast.seconds, strict=False)  # a precision may have had the first turn alone
    return statistics.median(a / b for a, b in pairs) * fast.audio_seconds / slow.audio_seconds


def figures(prefix: str, runs: Mapping[str, Run]) -> dict[str, Any]:
    """Real-time factor, share of each stage, and tokens of every contestant."""
    found: dict[str, Any] = {}
    for name, run in runs.items():
        key = f"{prefix}_{name.replace(' ', '_')}"
        if run.failure is not None:
            found[f"{key}_failure"] = run.failure
            continue
        found[f"{key}_real_time_factor"] = run.real_time_factor
        found |= {f"{key}_share_{stage.replace(' ', '_')}": share for stage, share in run.times.shares.items()}
        found[f"{key}_tokens_prefilled"] = run.times.prefilled // len(run.seconds)
        found[f"{key}_turns"] = len(run.seconds)
        if run.chunks:
            found[f"{prefix}_tokens_made"] = sum(each.semantic + each.frames * CODEBOOKS for each in run.chunks)
            found[f"{prefix}_audio_seconds"] = run.audio_seconds
            found[f"{prefix}_rows"] = run.rows
    return found
