"""Run one suite of the tests and say how long it takes; `again` runs the files that failed once more, each alone.

`suite.py "unit tests" tests/unit -- -q -n 2` runs pytest on these paths with these options. Where VOXYARD_GATE names a
run of .ci/run, what fails (and what never ran, because pytest itself broke) is written down in build/gate/, and the
suite is not red yet: `suite.py again` runs these files one after the other, each in a process of its own, and decides.
What passes then is flaky: it is named with its first failure and counted in build/flaky.json. More than three of a
gate, or one of the gate before, are red. A test that is left out for want of a program, and that `make prove` would not
repeat with it, is red as well. `suite.py times` lists what the suites of this gate took.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

MOST_FLAKY = 3
GATES_KEPT = 20
BUILD = Path("build")


class Outcomes:
    """Plugin of pytest: what ran, what failed and what was left out, with their reasons, and what broke pytest."""

    def __init__(self) -> None:
        self.tests = 0
        self.collected: set[str] = set()
        self.ran: set[str] = set()
        self.broke: str | None = None
        self.failed: dict[str, str] = {}
        self.left_out: dict[str, str] = {}  # but for what `make prove` repeats, and what needs a GPU

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Take the tests that are to run in this process."""
        self.collected.update(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Take those that are to run in worker processes."""
        self.collected.update(ids)

    def pytest_internalerror(self, excrepr: object) -> None:
        """Take what ended pytest itself."""
        self.broke = str(excrepr).splitlines()[-1]

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Take a test that is over."""
        self.ran.add(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take a report, which may come from a worker process."""
        self.tests += report.when == "call" or report.outcome != "passed"
        if report.failed:
            self.failed.setdefault(report.nodeid, _reason(report))
        if report.skipped and not hasattr(report, "wasxfail") and not {"needs", "gpu"} & {*report.keywords}:
            self.left_out[report.nodeid] = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else "")


def _reason(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else report.longreprtext
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")


@dataclass(frozen=True)
class Failed:
    """The tests of a suite that failed, and how it was run."""

    suite: str
    python: str
    options: list[str]
    tests: dict[str, str]  # test → first line of its failure
    broke: str | None = None  # what ended pytest before all had run
    left: list[str] = field(default_factory=list)  # the files whose tests had not run by then


def main(arguments: list[str] | None = None) -> int:
    """Exit code of pytest; 0 where `again` is to decide."""
    given = sys.argv[1:] if arguments is None else arguments
    if given == ["again"]:
        return again(os.environ["VOXYARD_GATE"])
    if given == ["times"]:
        for key, ran in _read(BUILD / "suites.json").items():
            if ran.get("gate") == os.environ["VOXYARD_GATE"]:
                print(f"{key}: {_counted(ran)}")
        return 0
    own, options = (given[: given.index("--")], given[given.index("--") + 1 :]) if "--" in given else (given, [])
    suite, *paths = own
    gate = os.environ.get("VOXYARD_GATE")
    times = BUILD / "suites.json"
    key = " ".join([suite, *paths, *options])
    last = _read(times).get(key)
    print(f"→ {suite}" + (f": {_counted(last)} the last time" if last else ""), flush=True)

    outcomes, begun, used = Outcomes(), time.monotonic(), _cpu_seconds()
    sys.path[0] = str(Path.cwd())  # as `python -m pytest` has it
    code = int(pytest.main([*paths, *options], plugins=[outcomes]))
    took: dict[str, Any] = {
        "tests": outcomes.tests,
        "seconds": time.monotonic() - begun,
        "cpu_seconds": _cpu_seconds() - used,
    }
    if outcomes.tests:
        print(f"→ {suite}: {_counted(took)}", flush=True)
        _write(times, _read(times) | {key: took | {"gate": gate}})
    if gate and outcomes.left_out:
        for test, why in outcomes.left_out.items():
            print(f"LEFT OUT {test}: {why}: make prove repeats it only where it is marked needs (tests/conftest.py)")
        return code or 1
    left = outcomes.collected - outcomes.ran if code == pytest.ExitCode.INTERNAL_ERROR and outcomes.broke else set()
    if gate and (left or (code == pytest.ExitCode.TESTS_FAILED and outcomes.failed)):
        note = BUILD / "gate" / f"{re.sub('[^a-z0-9]+', '-', key.lower())[:120]}.json"
        files = sorted({test.partition("::")[0] for test in left})
        python = os.path.relpath(sys.executable)
        _write(note, asdict(Failed(suite, python, options, outcomes.failed, outcomes.broke, files)))
        never = f" and {len(left)} never ran ({outcomes.broke})" if left else ""
        which = f"{len(outcomes.failed)} failed{never}"
        print(f"→ {suite}: {which}; their files run again, alone, after this tier", flush=True)
        return 0
    return code


def again(gate: str) -> int:
    """Run the files whose tests failed, one at a time. Exit code: 0 where each passes now and few are flaky."""
    flaky: dict[str, str] = {}
    red: list[str] = []
    for note in sorted((BUILD / "gate").glob("*.json")):
        failed = Failed(**json.loads(note.read_text(encoding="utf-8")))
        for file in sorted({test.partition("::")[0] for test in failed.tests} | {*failed.left}):
            print(f"→ {failed.suite}: {file} again, alone", flush=True)
            command = [failed.python, "-m", "pytest", file, *failed.options, "-n", "0"]
            if subprocess.run(command, check=False).returncode == 0:
                flaky |= {test: why for test, why in failed.tests.items() if test.partition("::")[0] == file}
                if failed.broke:
                    flaky[f"pytest of {failed.suite}"] = failed.broke
            else:
                red.append(file)
        note.unlink()

    gates: dict[str, dict[str, str]] = _read(BUILD / "flaky.json")
    before = next((tests for name, tests in reversed(gates.items()) if name != gate), {})
    gates[gate] = gates.pop(gate, {}) | flaky
    _write(BUILD / "flaky.json", dict(list(gates.items())[-GATES_KEPT:]))
    for test, why in flaky.items():
        seen = sum(test in tests for tests in gates.values())
        print(f"FLAKY {test}: passes alone, failed before that: {why} (in {seen} of the last {len(gates)} gates)")
    for file in red:
        print(f"FAILED {file}: alone too")
    twice = sorted(gates[gate].keys() & before.keys())
    for test in twice:
        print(f"FAILED {test}: flaky in two gates running")
    if too_many := len(gates[gate]) > MOST_FLAKY:
        print(f"FAILED {len(gates[gate])} flaky tests in this gate: at most {MOST_FLAKY} are let pass")
    return int(bool(red or twice or too_many))


def _counted(took: dict[str, Any]) -> str:
    minutes, seconds = divmod(round(took["seconds"]), 60)
    tests = f"{took['tests']:,} test{'' if took['tests'] == 1 else 's'}"
    return f"{tests} in {minutes}:{seconds:02d} minutes ({took['cpu_seconds'] / 60:.1f} of CPU time)"


def _cpu_seconds() -> float:
    """Of this process and of those of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
