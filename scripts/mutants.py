"""Mutation testing: plants small faults in packages, one at a time, and names those that their tests let pass.

A fault is one changed comparison, operator, number or condition, or one call or `raise` that is left out. The package's
tests, those of `make prove` too, run once without a fault, under coverage, on a copy of the repository. With a fault
planted those tests run that execute its line; all tests of the package where none does, as for lines that only other
processes execute, and with --thorough. A fault is killed where a test fails twice or hangs; one that the tests let
pass survives.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import coverage
import pytest

ROOT = Path(__file__).resolve().parent.parent
NOT_COPIED = (".git", ".venv*", "build", "__pycache__", ".*_cache", ".hypothesis", "*.egg-info")
PLUGINS = [f"-p{name}" for name in ("pytest_timeout", "pytest_cov.plugin", "_hypothesis_pytestplugin")]
PLACES = ("runtime/voxyard", "scripts", "grafana")
# Bytes of a test process's data: a fault in a size must not take all of the machine's memory.
MOST_DATA = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
# Tests of a package, below tests/: each line is a process, as TensorFlow and torch do not share one. Other packages
# have theirs in unit/ and integration/, in folders of the package's name.
TESTS: dict[str, tuple[str, ...]] = {
    "cli": (
        "unit/cli unit/bark/test_voices_command.py "
        "unit/diagnose/test_profile_command.py unit/service/test_api_keys_command.py "
        "unit/speech/test_speak_command.py unit/telemetry/test_exporter.py unit/telemetry/test_monitor.py",
        "integration/bark/test_weights_commands.py integration/bark/test_speak.py integration/bark/test_serve.py",
    ),
    "host": ("unit/host unit/cli/test_host_commands.py",),
    "speech": ("unit/speech", "integration/bark/test_workers.py integration/bark/test_speak.py"),
    "telemetry": ("unit/telemetry unit/nvml", "integration/telemetry"),
    "trainer": ("unit/trainer", "integration/trainer integration/model integration/devices"),
    "fleet/facts": ("unit/fleet/checks unit/fleet/release",),
    "fleet/lock.py": ("unit/fleet/rollout/test_lock.py",),
    "fleet/monitoring": ("unit/fleet/monitoring monitoring/test_alertmanager.py monitoring/test_compose.py",),
    "tasks": (
        "unit/fleet/test_tasks.py unit/fleet/test_host_option.py unit/fleet/images/test_image_task.py "
        "unit/fleet/ssh/test_interrupt.py unit/fleet/ssh/test_connections.py "
        "unit/fleet/monitoring/test_monitoring_files.py unit/fleet/render unit/fleet/test_sick_gpus.py "
        "unit/fleet/test_provision.py unit/fleet/test_certificates.py",
    ),
    "gpu_report": ("unit/repository/test_gpu_report.py",),
    "gpu_trial": ("unit/repository/test_gpu_trial.py",),
    "install_torch.py": ("unit/repository/test_install_torch.py",),
    "leftovers.py": ("unit/repository/test_leftovers.py",),
    "mutants.py": ("unit/repository/test_mutants.py",),
    "release.py": ("unit/repository/test_release.py",),
    "grafana": (
        "monitoring/test_dashboards.py monitoring/test_dashboard_rules.py monitoring/test_dashboards_preview.py",
    ),
    "images": ("unit/fleet/images",),
}
_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
}  # fmt: skip
# One more second, pixel, digit, shade or random byte cannot be told from a slow machine, another layout or chance.
_DEGREES = re.compile(r"timeout|seconds|interval|patience|delay|width|height|indent|digits|colou?r")
_OF_DEGREE = {"sleep", "wait", "join", "settimeout", "round", "token_bytes", "token_hex", "token_urlsafe"}
_CLOCKS = re.compile(r"\b(monotonic|perf_counter|time\.time)(_ns)?\(\)")
_TEXTS = {"help", "description", "metavar", "epilog", "doc"}


@dataclass(frozen=True)
class Fault:
    """One changed place of a file: lines as `ast` counts them, columns in bytes of UTF-8."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    statement: int
    """First line of the statement that contains it."""
    old: str
    new: str
    number: int
    """Number of the place among those with this text in the file, from 1."""

    def planted(self, source: str) -> str:
        """The file's text with the fault in it."""
        lines = source.encode().splitlines(keepends=True)
        before = b"".join(lines[: self.line - 1]) + lines[self.line - 1][: self.column]
        after = lines[self.end_line - 1][self.end_column :] + b"".join(lines[self.end_line :])
        return (before + self.new.encode() + after).decode()

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {_short(self.old)}  →  {_short(self.new)}"


def faults(file: str, source: str) -> Iterator[Fault]:
    """Every fault that can be planted in a file, in the order of its text."""
    seen: Counter[str] = Counter()
    for node, new, statement in _changes(ast.parse(source), 1, numbers=True):
        old = ast.get_source_segment(source, node) or ""
        seen[old] += 1
        place = (node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)
        yield Fault(file, *place, statement, old, new, seen[old])


def _changes(node: ast.AST, statement: int, *, numbers: bool) -> Iterator[tuple[ast.expr | ast.stmt, str, int]]:
    """Nodes at and below this one with their replacement and their statement's line; `numbers`: numbers too."""
    if _left_alone(node):
        return
    if isinstance(node, ast.stmt):
        statement = node.lineno
    numbers = numbers and not _of_degree(node)
    if isinstance(node, ast.expr | ast.stmt) and (changed := _changed(node, numbers=numbers)) is not None:
        yield node, changed if isinstance(changed, str) else f"({ast.unparse(changed)})", statement
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns") and not isinstance(node, ast.AnnAssign):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _changes(child, statement, numbers=numbers)


def _left_alone(node: ast.AST) -> bool:
    """True for code without an effect that a test could see: log lines, texts for people, checks of types."""
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="log" | "_log" | "logging" | "logger")))):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]) | ast.Assert():
            return True
        case ast.Raise(exc=ast.Name(id="NotImplementedError") | ast.Call(func=ast.Name(id="NotImplementedError"))):
            return True
        case ast.keyword(arg=str(name)):
            return name in _TEXTS
    return False


def _of_degree(node: ast.AST) -> bool:
    """True where a number below is a duration, a size in pixels, a colour, a number of digits or of random bytes."""
    match node:
        case ast.keyword(arg=str(name)) | ast.Assign(targets=[ast.Name(id=name)]):
            return bool(_DEGREES.search(name.lower()))
        case ast.AnnAssign(target=ast.Name(id=name)):
            return bool(_DEGREES.search(name.lower()))
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name in _OF_DEGREE
        case ast.arguments():
            names = [each.arg for each in (*node.posonlyargs, *node.args, *node.kwonlyargs)]
            return any(_DEGREES.search(name) for name in names)
    return False


def _changed(node: ast.expr | ast.stmt, *, numbers: bool) -> ast.expr | str | None:
    """Replacement of a node; None for a node that stays as it is."""
    match node:
        case ast.Compare(ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE()]) if _CLOCKS.search(ast.unparse(node)):
            return None  # a deadline is met to the nanosecond by nobody
        case ast.Compare(left=left, ops=[operator], comparators=comparators) if type(operator) in _COMPARISONS:
            return ast.Compare(left, [_COMPARISONS[type(operator)]()], comparators)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS and not _text(left, right):
            return ast.BinOp(left, _OPERATORS[type(operator)](), right)
        case ast.BoolOp(op=ast.And(), values=values):
            return ast.BoolOp(ast.Or(), values)
        case ast.BoolOp(op=ast.Or(), values=values):
            return ast.BoolOp(ast.And(), values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return operand
        case ast.Constant(value=bool()):
            return None  # most are defaults of settings and arguments
        case ast.Constant(value=int(number)) if numbers and not _large(number):
            return ast.Constant(number + 1)
        case ast.Expr(value=ast.Call()) | ast.Raise():
            return "pass"
    return None


def _large(number: int) -> bool:
    """True for limits and sizes such as 1000 and 8192, of which one more is no fault that anybody meets."""
    return number >= 64 and (number % 10 == 0 or number & (number - 1) == 0)


def _text(*operands: ast.expr) -> bool:
    """True where + joins texts, or % fills one in."""
    return any(
        isinstance(each, ast.JoinedStr) or (isinstance(each, ast.Constant) and isinstance(each.value, str))
        for each in operands
    )


def files_of(room: str, root: Path = ROOT) -> list[Path]:
    """The modules of a package such as `speech` or `fleet/rollout`, or a single file. Raises SystemExit for none."""
    places = [root / room, *(root / place / room for place in PLACES)]
    found = [
        path for place in places if place.exists() for path in ([place] if place.is_file() else place.rglob("*.py"))
    ]
    if not found:
        raise SystemExit(_wrong(f"{room}: no such package or file; expected speech, fleet/rollout, a path or all"))
    return sorted(set(found))


def _wrong(said: str) -> int:
    """Exit code of wrong use, which is said."""
    print(f"mutants: {said}", file=sys.stderr)
    return 2


def every_room(root: Path = ROOT) -> list[str]:
    """All packages; those of the fleet and the single scripts with tests one by one."""
    packages = [path.parent for place in PLACES[:2] for path in (root / place).glob("*/__init__.py")]
    fleet = [path.parent for path in (root / "scripts/fleet").glob("*/__init__.py")]
    names = [str(path.relative_to(root / "scripts")) for path in fleet]
    names += [path.name for path in packages if path.name != "fleet"]
    return sorted([*names, "fleet/lock.py", "grafana", "images", "install_torch.py", "leftovers.py"])


def chosen(room: str, count: int, seed: int, root: Path = ROOT) -> tuple[list[Fault], int]:
    """So many faults of a room, and the number of all. A seed chooses the same ones after a change elsewhere."""
    every = [
        fault for path in files_of(room, root) for fault in faults(str(path.relative_to(root)), path.read_text("utf-8"))
    ]

    def rank(fault: Fault) -> str:
        key = f"{seed} {fault.file} {fault.old} {fault.new} {fault.number}"
        return hashlib.sha256(key.encode()).hexdigest()

    return sorted(every, key=rank)[:count], len(every)


def suites_of(room: str, root: Path = ROOT) -> list[list[str]]:
    """The tests of a room, a list for each process: its own, or those of the package above it."""
    parts = room.removeprefix("runtime/voxyard/").removeprefix("scripts/").split("/")
    for length in range(len(parts), 0, -1):
        name = "/".join(parts[:length])
        if name in TESTS:
            return [[f"tests/{path}" for path in suite.split()] for suite in TESTS[name]]
        if found := [[path] for path in (f"tests/unit/{name}", f"tests/integration/{name}") if (root / path).is_dir()]:
            return found
    raise SystemExit(_wrong(f"{room} has no folder in tests/unit or tests/integration: name its tests with --tests"))


@dataclass(frozen=True)
class Suite:
    """Tests of one process, as they ran without a fault."""

    paths: Sequence[str]
    seconds: Mapping[str, float]
    """By the test's id."""
    lines: Mapping[str, Mapping[int, set[str]]]
    """By file and line: ids of the tests that execute it."""
    overhead: float
    """Seconds of the process that are no test's: start, imports, collection."""

    def covering(self, fault: Fault) -> list[str]:
        """Tests that execute the fault's line, quickest file first."""
        lines = self.lines.get(fault.file, {})
        return self._quickest(set().union(*(lines.get(at, ()) for at in range(fault.statement, fault.end_line + 1))))

    def others(self, fault: Fault) -> list[str]:
        """All other tests, those first that execute the fault's file."""
        rest = set(self.seconds) - set(self.covering(fault))
        near = rest & set().union(*self.lines.get(fault.file, {}).values())
        return self._quickest(near) + self._quickest(rest - near)

    def limit(self, tests: Sequence[str]) -> float:
        """Seconds after which these tests hang."""
        return 30 + 5 * (self.overhead + sum(self.seconds[test] for test in tests))

    def _quickest(self, tests: set[str]) -> list[str]:
        files: defaultdict[str, float] = defaultdict(float)
        for test in tests:
            files[_file(test)] += self.seconds[test]
        return sorted(tests, key=lambda test: (files[_file(test)], test))


class Copy:
    """A copy of the repository, in which faults are planted and tests run."""

    def __init__(self, folder: Path, root: Path) -> None:
        self._folder = folder
        self._clock = time.time()
        shutil.copytree(root, folder, ignore=shutil.ignore_patterns(*NOT_COPIED), symlinks=True, dirs_exist_ok=True)

    def measured(self, paths: Sequence[str], source: Path) -> Suite:
        """Run tests without a fault, noting the lines of `source` that each executes. Raises SystemExit."""
        begin = time.monotonic()
        data = self._folder / ".coverage"
        data.unlink(missing_ok=True)
        cover = [f"--cov={self._folder / source}", "--cov-context=test", "--cov-report="]
        code, output = self._pytest(["--durations=0", "--durations-min=0", *cover, *paths], 3600)
        failed = _failed(output)
        if code != 0 and not (failed and self._pytest(failed, 3600)[0] == pytest.ExitCode.OK):
            print(re.sub(r"(?m)^\d+\.\d+s (setup|call|teardown) .*\n", "", output)[-4000:], file=sys.stderr)
            print(f"mutants: {' '.join(paths)} fail without any fault: mend that first", file=sys.stderr)
            raise SystemExit(2)
        seconds: defaultdict[str, float] = defaultdict(float)
        for took, test in re.findall(r"^(\d+\.\d+)s (?:setup|call|teardown) +(\S.*)$", output, re.MULTILINE):
            seconds[test] += float(took)
        return Suite(paths, seconds, self._lines(data), max(time.monotonic() - begin - sum(seconds.values()), 0))

    def _lines(self, data: Path) -> dict[str, dict[int, set[str]]]:
        found = coverage.CoverageData(str(data))
        found.read()
        return {
            str(Path(file).relative_to(self._folder)): {
                line: {context.rpartition("|")[0] for context in contexts if context}
                for line, contexts in found.contexts_by_lineno(file).items()
            }
            for file in found.measured_files()
        }

    def killed_by(self, fault: Fault, suites: Sequence[Suite], *, thorough: bool = False) -> str | None:
        """The test that fails with the fault planted, "a hang" for tests that do not end; None where all pass."""
        path = self._folder / fault.file
        source = path.read_text(encoding="utf-8")
        turns = [(suite, tests) for suite in suites if (tests := suite.covering(fault))]
        if thorough or not turns:
            turns += [(suite, tests) for suite in suites if (tests := suite.others(fault))]
        self._write(path, fault.planted(source))
        try:
            return next((killer for suite, tests in turns if (killer := self._failing(suite, tests))), None)
        finally:
            self._write(path, source)

    def _failing(self, suite: Suite, tests: Sequence[str]) -> str | None:
        limit, asked, flaky = suite.limit(tests), tests, list[str]()
        fails = ["-x", f"--timeout={suite.limit([max(tests, key=lambda test: suite.seconds[test])]):.0f}"]
        while True:
            code, output = self._pytest([*fails, *(f"--deselect={test}" for test in flaky), *asked], limit)
            if (
                code == pytest.ExitCode.USAGE_ERROR and asked is tests
            ):  # ids that a fault in a table of cases has changed
                limit, asked = suite.limit(list(suite.seconds)), suite.paths
                continue
            if code is None:
                return f"a hang of {limit:.0f} s"
            if code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
                return None
            failed = _failed(output)
            if not failed or failed[0] in flaky or self._pytest([*fails, failed[0]], limit)[0] != pytest.ExitCode.OK:
                return failed[0] if failed else f"exit code {code}"
            flaky.append(failed[0])  # it passes alone: the others are asked without it

    def _write(self, path: Path, text: str) -> None:
        """Write a file whose time is its own, so that no other state's bytecode is taken for it."""
        path.write_text(text, encoding="utf-8")
        self._clock += 2
        os.utime(path, (self._clock, self._clock))

    def _pytest(self, arguments: Sequence[str], seconds: float) -> tuple[int | None, str]:
        """Exit code and output of tests; None for the code where they take longer than `seconds`."""
        own = {
            name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
        }  # a copy is quick
        environment = own | {
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": str(self._folder / "runtime"),
            "COVERAGE_FILE": str(self._folder / ".coverage"),
        }
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            *PLUGINS,
            "-m",
            "not long",
            *arguments,
        ]
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                command, cwd=self._folder, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            code = None
            try:
                resource.prlimit(process.pid, resource.RLIMIT_DATA, (MOST_DATA, MOST_DATA))
                code = process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGINT)  # fixtures end what they have started
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(20)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            output.seek(0)
            return code, output.read()


def _failed(output: str) -> list[str]:
    """The tests that pytest's summary names."""
    return re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE)


@dataclass(frozen=True)
class Tally:
    """Faults of one room, those that survived among them."""

    room: str
    planted: int
    survivors: Sequence[Fault]

    @property
    def killed(self) -> int:
        """Faults that did not survive."""
        return self.planted - len(self.survivors)


def tally(room: str, asked: argparse.Namespace, root: Path) -> Tally:
    """Plant the faults of a room one by one, and print and store what became of them."""
    out = root / "build/mutants" / f"{room.replace('/', '-')}.json"
    picked, possible = chosen(room, asked.count, asked.seed, root)
    if asked.again:
        last = json.loads(out.read_text(encoding="utf-8"))["survivors"] if out.is_file() else []
        places = {(each["file"], each["old"], each["new"], each["number"]) for each in last}
        picked = [fault for fault in picked if (fault.file, fault.old, fault.new, fault.number) in places]
    suites = [asked.tests] if asked.tests else suites_of(room, root)
    survivors = []
    if picked:
        with tempfile.TemporaryDirectory(prefix="voxyard-mutants-") as folder:
            copy = Copy(Path(folder), root)
            source = Path(os.path.commonpath([Path(fault.file).parent for fault in picked]))
            print(
                f"→ {room}: the tests without a fault: {' '.join(path for suite in suites for path in suite)}",
                flush=True,
            )
            measured = [copy.measured(paths, source) for paths in suites]
            for number, fault in enumerate(picked, 1):
                killer = copy.killed_by(fault, measured, thorough=asked.thorough)
                survivors += [] if killer else [fault]
                said = f"{'killed  ' if killer else 'SURVIVED'} {fault}{f'  ({killer})' if killer else ''}"
                print(f"{number:3}/{len(picked)} {said}", flush=True)
    found = Tally(room, len(picked), survivors)
    print(f"→ {room}: {found.killed} of {found.planted} killed, of {possible} that can be planted", flush=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"seed": asked.seed, **asdict(found)}, indent=1, ensure_ascii=False)
    out.write_text(text + "\n", encoding="utf-8")
    return found


def main(arguments: Sequence[str] | None = None, *, root: Path = ROOT) -> int:
    """Exit code 0: nine of ten faults or more are killed; 1: fewer; 2: wrong use, or the tests fail without a fault."""
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("rooms", nargs="+", metavar="PACKAGE|FILE", help="speech, fleet/rollout, a path, or all")
    parser.add_argument("--tests", nargs="*", help="tests to run instead of the package's own")
    parser.add_argument("--count", type=int, default=20, help="faults to plant in each package (default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="which of all faults (default: 0)")
    parser.add_argument("--again", action="store_true", help="only those of the faults that survived the last time")
    parser.add_argument("--thorough", action="store_true", help="all tests of the package where those of the line pass")
    asked = parser.parse_args(arguments)
    rooms = every_room(root) if asked.rooms == ["all"] else asked.rooms
    try:
        done = [tally(room, asked, root) for room in rooms]
    except KeyboardInterrupt:
        print("mutants: interrupted", file=sys.stderr)
        return 130
    planted = sum(each.planted for each in done)
    killed = sum(each.killed for each in done)
    print("\n| package | planted | killed |\n|---|---|---|")
    for each in [*done, *([Tally("all", planted, [])] if len(done) > 1 else [])]:
        print(f"| {each.room} | {each.planted} | {killed if each.room == 'all' else each.killed} |")
    rate = killed / planted if planted else 1.0
    print(f"→ {killed} of {planted} killed ({rate:.0%})")
    return 0 if rate >= 0.9 else 1


def _file(test: str) -> str:
    return test.partition("::")[0]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:59]}…"


if __name__ == "__main__":
    sys.exit(main())
