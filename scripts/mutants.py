"""Mutation testing: plants small faults in a package, one at a time, and names those that its tests let pass.

A fault is one changed comparison, operator, number or condition, or one call or `raise` that is left out. The tests run
on a copy of the repository; a fault that makes them fail is killed, one that does not survives.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("runtime", "scripts", "grafana", "deploy", "images", "tests", "Makefile", "pyproject.toml", "README.md")
PLACES = ("runtime/voxyard", "scripts", "grafana")
_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
}  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """One changed place of a file: lines as `ast` counts them, columns in bytes of UTF-8."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    old: str
    new: str

    def planted(self, source: str) -> str:
        """The file's text with the fault in it."""
        lines = source.encode().splitlines(keepends=True)
        before = b"".join(lines[: self.line - 1]) + lines[self.line - 1][: self.column]
        after = lines[self.end_line - 1][self.end_column :] + b"".join(lines[self.end_line :])
        return (before + self.new.encode() + after).decode()

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {_short(self.old)}  →  {_short(self.new)}"


def faults(file: str, source: str) -> Iterator[Fault]:
    """Every fault that can be planted in a file."""
    for node in ast.walk(ast.parse(source)):
        changed = _changed(node)
        if changed is not None and isinstance(node, ast.expr | ast.stmt):
            old = ast.get_source_segment(source, node) or ""
            place = (node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)
            yield Fault(file, *place, old, changed if isinstance(changed, str) else f"({ast.unparse(changed)})")


def _changed(node: ast.AST) -> ast.expr | str | None:
    """Replacement of a node; None for a node that is left alone."""
    match node:
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
        case ast.Constant(value=int(number)):
            return ast.Constant(number + 1)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="log" | "logging")))):
            return None
        case ast.Expr(value=ast.Call()) | ast.Raise():
            return "pass"
    return None


def _text(*operands: ast.expr) -> bool:
    """True where + joins texts, or % fills one in."""
    return any(
        isinstance(each, ast.JoinedStr) or (isinstance(each, ast.Constant) and isinstance(each.value, str))
        for each in operands
    )


def files_of(rooms: Sequence[str], root: Path = ROOT) -> list[Path]:
    """The modules of packages such as `speech` or `fleet/rollout`, or single files. Raises SystemExit for none."""
    found: list[Path] = []
    for room in rooms:
        places = [root / room, *(root / place / room for place in PLACES)]
        here = [
            path for place in places if place.exists() for path in ([place] if place.is_file() else place.rglob("*.py"))
        ]
        if not here:
            raise SystemExit(f"mutants: {room}: no such package or file; expected speech, fleet/rollout or a path")
        found += here
    return sorted(set(found))


def suite_of(room: str, root: Path = ROOT) -> list[str]:
    """The unit tests of a package: tests/unit/ROOM, or that of the package above it."""
    parts = room.removeprefix("runtime/voxyard/").removeprefix("scripts/").split("/")
    for length in range(len(parts), 0, -1):
        if (folder := root / "tests/unit" / "/".join(parts[:length])).is_dir():
            return [str(folder.relative_to(root))]
    raise SystemExit(f"mutants: {room} has no folder in tests/unit: name its tests with --tests")


def survives(copy: Path, fault: Fault, tests: Sequence[str], seconds: float) -> bool:
    """True where the tests pass with the fault in the copy; one that hangs counts as noticed."""
    path = copy / fault.file
    source = path.read_text(encoding="utf-8")
    path.write_text(fault.planted(source), encoding="utf-8")
    try:
        return passes(copy, tests, seconds)
    finally:
        path.write_text(source, encoding="utf-8")


def passes(copy: Path, tests: Sequence[str], seconds: float) -> bool:
    """True where the tests pass on the copy within so many seconds."""
    environment = os.environ | {"PYTHONPATH": str(copy / "runtime"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not slow", *tests]
    process = subprocess.Popen(
        command, cwd=copy, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        return process.wait(seconds) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        if process.poll() is None:
            os.killpg(process.pid, 9)
            process.wait()


def main(arguments: Sequence[str] | None = None, *, root: Path = ROOT) -> int:
    """Exit code 0: nine of ten faults or more are killed; 1: fewer; 2: wrong use, or the tests fail without a fault."""
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("rooms", nargs="+", metavar="PACKAGE|FILE", help="speech, fleet/rollout, runtime/…/limits.py")
    parser.add_argument("--tests", nargs="*", help="tests to run instead of the package's own")
    parser.add_argument("--count", type=int, default=20, help="faults to plant (default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="which of all faults (default: 0)")
    asked = parser.parse_args(arguments)
    every = [fault for path in files_of(asked.rooms, root) for fault in _of_file(path, root)]
    chosen = random.Random(asked.seed).sample(every, min(asked.count, len(every)))
    tests = asked.tests or sorted({test for room in asked.rooms for test in suite_of(room, root)})
    survivors = []
    with tempfile.TemporaryDirectory(prefix="voxyard-mutants-") as folder:
        copy = Path(folder)
        for name in COPIED:
            if (root / name).is_dir():
                shutil.copytree(root / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "build"))
            elif (root / name).exists():
                shutil.copy(root / name, copy / name)
        begin = time.monotonic()
        print(f"→ the tests without a fault: {' '.join(tests)}", flush=True)
        if not passes(copy, tests, 1800):
            print("mutants: the tests fail without any fault: mend that first", file=sys.stderr)
            return 2
        limit = 30 + 3 * (time.monotonic() - begin)
        for number, fault in enumerate(chosen, 1):
            survived = survives(copy, fault, tests, limit)
            survivors += [fault] if survived else []
            print(f"{number:3}/{len(chosen)} {'SURVIVED' if survived else 'killed  '} {fault}", flush=True)
    rate = 1 - len(survivors) / len(chosen) if chosen else 1.0
    print(f"→ {len(chosen) - len(survivors)} of {len(chosen)} killed ({rate:.0%}), of {len(every)} that can be planted")
    out = root / "build/mutants.json"
    out.parent.mkdir(exist_ok=True)
    found = {"packages": asked.rooms, "planted": len(chosen), "survivors": [asdict(each) for each in survivors]}
    out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0 if rate >= 0.9 else 1


def _of_file(path: Path, root: Path) -> Iterator[Fault]:
    yield from faults(str(path.relative_to(root)), path.read_text(encoding="utf-8"))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:59]}…"


if __name__ == "__main__":
    sys.exit(main())
