"""make gpu-trial: the most telling things about a card and the trainer, in a few minutes → build/gpu-trial/.

Every step is a command of its own with a limit, a log and a result file beside the report, which is written after each:
what is cut off loses itself alone. First the libraries that TensorFlow needs; then losses beside those of a CPU, while
runs of several sizes and precisions are compiled, each of which is then timed alone; then a training of two networks on
two parts of one card for the minutes that are left, the export of its voice, a second start, and a run that cannot have
the memory it needs. Figures of parts of a card are not those of as many cards, and are named so.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gpu_report import run as gpu_report
from gpu_report.run import KEPT, NO_GPU, STAND_IN, Result, Step
from gpu_trial.configurations import Case, Place
from gpu_trial.table import table

ROOT = Path(__file__).resolve().parents[2]
OUTPUT = ROOT / "build/gpu-trial"
HERE = Path(__file__).parent
LIBRARIES, REFERENCE, ONE, TWO = "libraries", "losses of a CPU", "losses on one device", "losses on two parts"
TRAINING, EXPORT, RESUME, MEMORY = "training", "export", "resume", "out of memory"
COMPILING = 0.38  # share of the minutes after which the first run is timed, whoever still compiles
TIMED = 25.0  # most seconds of a run that is timed alone
AFTER = {RESUME: 60.0, EXPORT: 30.0, MEMORY: 30.0}  # most seconds
AFTER_ALL = 55.0  # seconds that they take together, by estimate
NO_MEMORY = 71  # the trainer's exit code where a device has not the memory that a run needs
MINUTES, STAND_IN_MINUTES = 5.0, 20.0  # a CPU has as long as it needs
CLIPS, STAND_IN_CLIPS = 200, 12  # of the corpus that espeak-ng speaks


@dataclass
class Trial:
    """A trial under way: its folder, its deadline, and what was found so far."""

    folder: Path
    stand_in: bool
    minutes: float
    found: Sequence[Mapping[str, str]]
    began: float = field(default_factory=time.monotonic)
    done: dict[str, Result] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def left(self) -> float:
        """Seconds until the trial has to end."""
        return self.began + 60 * self.minutes - time.monotonic()

    def take(self, step: Step, most: float) -> Result | None:
        """Run a step within its limit (none on a CPU) and the trial's; None where no time is left for it."""
        limit = self.left if self.stand_in else min(most, self.left)
        if limit < 5:
            self.left_out.append(f"{step.name}: the {self.minutes:g} minutes were over")
            return None
        result = gpu_report.run(step, self.folder, stand_in=self.stand_in, limit=limit)
        with self._lock:
            self.done[step.name] = result
            self.tell()
        return result

    def tell(self) -> Result:
        """Write the report of what is done so far."""
        steps = list(self.done.values())
        whole = gpu_report.report(steps, self.found, stand_in=self.stand_in, left_out=self.left_out)
        gpu_report.write(whole, self.folder)
        return whole


def file_of(name: str) -> str:
    """Name of a step's files."""
    return name.replace(", ", "-").replace(" ", "-")


def script(name: str, program: str, *arguments: Path | str, read: Callable[[Path], Result]) -> Step:
    """A step that one of the programs beside this file does."""
    return Step(name, (sys.executable, str(HERE / program), *map(str, arguments)), f"{file_of(name)}.json", read)


def pieces(file: Path) -> Result:
    """Which pieces of TensorFlow's CUDA work."""
    found = json.loads(file.read_text(encoding="utf-8"))["pieces"]
    failed = [name for name, said in found.items() if said != "works"]
    return {"ratios": {"libraries_that_work": 1 - len(failed) / len(found)}, "failed": failed}


def raw(file: Path) -> Result:
    """A result file as it is."""
    content = json.loads(file.read_text(encoding="utf-8"))
    return content if isinstance(content, dict) else {"cases": content, "ratios": {}}


def measured(file: Path) -> Result:
    """Figures of a run that was timed alone; those that targets are for as ratios."""
    found: Result = json.loads(file.read_text(encoding="utf-8"))
    ratios = {name: found[name] for name in ("data_wait_share", "variation") if name in found}
    return {**found, "ratios": ratios | busy_shares(found)}


def busy_shares(found: Mapping[str, Any]) -> dict[str, float]:
    """Share of the time in which each part of a card was busy while both trained, by its own stream of kernels.

    NVML cannot tell parts apart. The data part's stream is the one that features alone keep busy.
    """
    trace = found.get("trace", {})
    if len(found.get("devices", ())) < 2 or not trace.get("together", {}).get("busy_seconds"):
        return {}

    def compute(name: str) -> dict[str, float]:
        return {line: busy for line, busy in trace[name]["busy_seconds"].items() if "Compute" in line}

    numbers = {line: line.partition("(")[0] for name in trace for line in compute(name)}
    together: dict[str, float] = {}
    for line, busy in compute("together").items():
        together[numbers[line]] = together.get(numbers[line], 0.0) + busy
    data = {numbers[line] for line in compute("features")}
    model = set(together) - data
    seconds = trace["together"]["seconds"]
    return {
        "data_part_busy": sum(together.get(line, 0.0) for line in data) / seconds,
        "model_part_busy": sum(together[line] for line in model) / seconds,
    }


def training_report(file: Path) -> Result:
    """Figures of a training's own report."""
    found: Result = json.loads(file.read_text(encoding="utf-8"))
    ratios = {
        name: found[name]
        for name in ("data_wait_share", "step_time_variation", "reached")
        if isinstance(found.get(name), int | float)
    }
    return {**found, "ratios": ratios}


def differences(reference: Mapping[str, float], cases: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Relative difference of each case's sum of losses from the reference's; infinite where the case failed."""
    return {
        case["name"]: abs(case["losses"]["total"] - reference["total"]) / abs(reference["total"])
        if "losses" in case
        else float("inf")
        for case in cases
    }


def libraries_and_corpus(trial: Trial, shards: Path, corpus: Path | None) -> bool:
    """Whether TensorFlow computes here; beside that the corpus becomes shards, unless it is that."""
    made = corpus or trial.folder / "corpus"
    speak: tuple[str, ...] = ("corpus", "demo", str(made), "--clips", str(STAND_IN_CLIPS if trial.stand_in else CLIPS))
    prepare: tuple[str, ...] = ("corpus", "prepare", str(made), str(shards))
    todo = [] if shards.exists() else [(prepare, "shards/index.json")]
    todo = [(speak, "corpus/metadata.csv"), *todo] if corpus is None and todo else todo
    steps = [
        Step("corpus", (sys.executable, "-m", "voxyard", *words), file, lambda _: {"ratios": {}})
        for words, file in todo
    ]
    with ThreadPoolExecutor(1) as beside:
        prepared = beside.submit(lambda: [gpu_report.run(each, trial.folder, limit=trial.left) for each in steps])
        found = trial.take(script(LIBRARIES, "libraries.py", trial.folder / f"{LIBRARIES}.json", read=pieces), 60)
        failed = next((each for each in prepared.result() if each["exit_code"] != 0), None)
    if failed is not None:
        trial.left_out.append(f"all runs: the corpus could not be made: {failed['tail'][-500:]}")
    return failed is None and found is not None and "matmul" not in found["result"].get("failed", ("matmul",))


def compare_and_time(trial: Trial, place: Place) -> None:
    """Losses beside those of a CPU, while the runs to be timed are compiled; then each of these alone."""
    one, two = place.on_one_device(), place.on_two_devices()
    groups = [(REFERENCE, [place.reference()]), (ONE, one), (TWO, two)]
    if trial.stand_in:  # one device is the reference's own there
        groups = [(REFERENCE, [place.reference()]), (TWO, two[1:2])]
    timed = place.timed(longer=trial.minutes >= 8)
    until = trial.began + 60 * trial.minutes * COMPILING
    turns = trial.folder / "turns"
    turns.mkdir()
    with ThreadPoolExecutor(len(groups) + len(timed)) as threads:
        compared = [
            threads.submit(trial.take, _losses(trial.folder, *each), until - time.monotonic()) for each in groups
        ]
        running: dict[str, Future[Result | None]] = {}
        for name, config in timed.items():
            file = trial.folder / f"{file_of(name)}-configuration.json"
            file.write_text(json.dumps(config), encoding="utf-8")
            step = script(
                name, "contestant.py", name, file, trial.folder / f"{file_of(name)}.json", turns, read=measured
            )
            running[name] = threads.submit(trial.take, step, trial.left - _kept_back(trial))
        waiting = [*compared, *running.values()]
        wait(compared, timeout=max(0.0, until - time.monotonic()))
        _give_turns(trial, turns, running, until)
        for each in waiting:
            each.result()
    _compare(trial, groups)


def _losses(folder: Path, name: str, cases: Sequence[Case]) -> Step:
    file = folder / f"{file_of(name)}-cases.json"
    file.write_text(json.dumps([asdict(case) for case in cases]), encoding="utf-8")
    return script(name, "losses.py", file, folder / f"{file_of(name)}.json", read=raw)


def _give_turns(trial: Trial, turns: Path, running: Mapping[str, Future[Result | None]], until: float) -> None:
    """Lets the runs measure themselves, one after the other, each TIMED seconds at most.

    Nobody begins while another still compiles, until the time for that is over; then those that are ready.
    """
    waiting = dict(running)
    while waiting and trial.left > _kept_back(trial):
        waiting = {name: result for name, result in waiting.items() if not result.done()}
        ready = [name for name in waiting if (turns / f"{file_of(name)}.ready").exists()]
        if not ready or (len(ready) < len(waiting) and time.monotonic() < until):
            time.sleep(0.1)
            continue
        result, end = waiting.pop(ready[0]), time.monotonic() + TIMED
        (turns / f"{file_of(ready[0])}.go").touch()
        while not result.done() and time.monotonic() < end and trial.left > _kept_back(trial):
            time.sleep(0.05)


def _compare(trial: Trial, groups: Sequence[tuple[str, Sequence[Case]]]) -> None:
    """Adds to the results how far the losses of each case are from the CPU's; a case that is too far has failed."""
    cases = {name: trial.done.get(name, {}).get("result", {}).get("cases", []) for name, _ in groups}
    reference = next((case["losses"] for case in cases[REFERENCE] if "losses" in case), None)
    if reference is None:
        return
    for name, asked in groups[1:]:
        if name not in trial.done:
            continue
        far = differences(reference, cases[name])
        result, allowed = trial.done[name], {case.name: case.tolerance for case in asked}
        result["result"]["ratios"] = {f"{case}: difference": value for case, value in far.items()}
        result["ok"] = result["ok"] and all(value <= allowed[case] for case, value in far.items())
    trial.tell()


def _kept_back(trial: Trial) -> float:
    """Seconds that the training and what follows it need of the trial's end."""
    return 0.41 * 60 * trial.minutes


def train_and_after(trial: Trial, shards: Path, place: Place) -> None:
    """A training of two networks on two parts of a card, its voice, a second start, and too little memory."""
    folder = trial.folder / "run"
    base: tuple[str, ...] = (
        sys.executable, "-m", "voxyard", "train", "--train-data", str(shards), "--networks", "acoustic,vocoder",
        "--buckets", "1", "--no-tensorboard", "--sample-text", "", "--data-gpu", "0", "--model-gpu", "1",
        "--checkpoint-dir", str(folder), "--json",
    )  # fmt: skip
    if place.free_mib is None:
        base += ("--device", "cpu", "--batch-size", "2", "--num-workers", "1", "--model-start-delay", "0")
    else:
        base += ("--gpu-parts", "2", "--batch-size", "32", "--cache-dataset", "--seed", "1")
    seconds = max(trial.left - AFTER_ALL, 30)
    length = ("--max-steps", "2") if trial.stand_in else ("--max-minutes", f"{max(seconds - 20, 20) / 60:.2f}")
    trained = trial.take(Step(TRAINING, (*base, *length), "run/report.json", training_report), seconds + 30)
    last = (trained or {}).get("result", {}).get("last_step")
    if last is None:
        trial.left_out.append(f"{EXPORT}, {RESUME}: the training left no report")
    else:
        voice = ("export", "--checkpoint", str(folder), "--out", str(trial.folder / "voice"), "--licence", "CC0-1.0")
        trial.take(Step(EXPORT, (sys.executable, "-m", "voxyard", *voice), "voice/voice.json", raw), AFTER[EXPORT])
        again = (*base, "--max-steps", str(last + 1))
        trial.take(Step(RESUME, again, "run/report.json", training_report), AFTER[RESUME])
    if place.free_mib is not None:
        _without_memory(trial, shards)


def _without_memory(trial: Trial, shards: Path) -> None:
    """A run with 300 MiB for a large batch has to end in words."""
    command = (
        sys.executable, "-m", "voxyard", "train", "--train-data", str(shards), "--strategy", "single", "--buckets", "1",
        "--batch-size", "64", "--enable-memory-isolation", "--model-gpu-memory", "300", "--max-steps", "2",
        "--no-tensorboard", "--sample-text", "", "--checkpoint-dir", str(trial.folder / "small"),
    )  # fmt: skip
    result = trial.take(Step(MEMORY, command, "none", raw), AFTER[MEMORY])
    if result is not None:
        said = (trial.folder / result["log"]).read_text(encoding="utf-8", errors="replace")
        result["ok"] = result["exit_code"] == NO_MEMORY and "Traceback" not in said
        result["result"] = {"exit_code": result["exit_code"], "ratios": {}}
        trial.tell()


def main(arguments: Sequence[str] | None = None) -> int:
    """Take every step that the minutes allow; 3 where there is no GPU, 1 where a step failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, help="of the whole trial, 5 unless given; from 8 on it has more sizes")
    parser.add_argument("--stand-in", action="store_true", help="take the same steps on CPU devices")
    parser.add_argument("--corpus", type=Path, metavar="DIR", help="recordings or shards; else espeak-ng speaks some")
    parser.add_argument("--out", type=Path, default=OUTPUT, metavar="DIR", help="folder of the report")
    parser.add_argument("--keep", action="store_true", help="keep the report in the repository: README's status line")
    chosen = parser.parse_args(arguments)
    minutes = chosen.minutes or (STAND_IN_MINUTES if chosen.stand_in else MINUTES)
    if not 2 <= minutes <= 120:
        parser.error(f"--minutes {minutes:g}: expected 2 to 120")
    if chosen.keep and chosen.stand_in:
        parser.error("--keep is for runs on GPUs: leave --keep out, or --stand-in")
    if chosen.corpus is not None and not chosen.corpus.is_dir():
        parser.error(f"--corpus {chosen.corpus}: there is no such folder")
    try:
        found = [] if chosen.stand_in else gpu_report.cards()
    except gpu_report.NoGpuError as error:
        print(
            f"no NVIDIA GPU that can be used: {error}; try the same on the CPU: make gpu-trial STAND_IN=1",
            file=sys.stderr,
        )
        return NO_GPU
    folder = chosen.out.absolute()
    if folder.exists() and any(folder.iterdir()):
        print(f"{folder} holds another trial: remove it, or name another folder with --out", file=sys.stderr)
        return 2
    folder.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _interrupt)
    trial = Trial(folder, chosen.stand_in, minutes, found)
    if chosen.stand_in:
        print(STAND_IN)
    try:
        _take_all(trial, chosen.corpus)
    except KeyboardInterrupt:
        trial.left_out.append("what follows: the trial was interrupted")
        trial.tell()
        return gpu_report.INTERRUPTED
    whole = trial.tell()
    print(table(trial.done))
    if chosen.keep:
        print(f"kept: {gpu_report.keep(whole, KEPT)}; make docs writes the status line of README.md")
    print(f"{gpu_report.verdict(whole)}; {time.monotonic() - trial.began:.0f} s\n→ {folder / 'index.html'}")
    return 0 if whole["ok"] else 1


def _take_all(trial: Trial, corpus: Path | None) -> None:
    prepared = corpus is not None and (corpus / "index.json").exists()
    shards = corpus.absolute() if corpus is not None and prepared else trial.folder / "shards"
    place = Place(shards, None if trial.stand_in else free_mib(trial.found[0]))
    if not libraries_and_corpus(trial, shards, None if prepared else corpus):
        trial.left_out.append("all runs: TensorFlow does not compute here")
        return
    compare_and_time(trial, place)
    train_and_after(trial, shards, place)


def free_mib(card: Mapping[str, str]) -> int:
    """MiB of a card that runs may share: all of it but what contexts and libraries need."""
    return int(0.9 * float(card["memory.total"].split()[0]))


def _interrupt(*_: object) -> None:
    """Ends what is under way, so that the threads that wait for it come to an end, too."""
    for pid in gpu_report.descendants(os.getpid()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    raise KeyboardInterrupt
