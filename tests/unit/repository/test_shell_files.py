"""Shell files: all of the repository are checked by `make lint`, and a verb of the host script exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tracked_files import ROOT, tracked

from fleet.ssh.command_batch import HOST_SCRIPT


def is_shell(path: Path) -> bool:
    with path.open("rb") as file:
        return path.suffix == ".sh" or bool(re.match(rb"#!.*\b(ba|da)?sh\b", file.readline()))


def test_make_lint_checks_every_shell_file() -> None:
    there = {path for path in tracked() if is_shell(path)}
    recipe = re.findall(r"/shellcheck (.*)", (ROOT / "Makefile").read_text(encoding="utf-8"))
    words = [word for line in recipe for word in line.split() if "/" in word]
    assert there == {path for word in words for path in ROOT.glob(word)}


def test_every_verb_that_is_named_is_one_of_the_host_script_and_is_named() -> None:
    functions = set(re.findall(r"^(\w+)\(\) \{", HOST_SCRIPT.read_text(encoding="utf-8"), re.MULTILINE))
    named = set()
    for path in (ROOT / "scripts/fleet").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("verb", "host_verb"):
                first = node.args[0]
                assert isinstance(first, ast.Constant), f"{path}:{node.lineno}: a verb is a constant"
                named.add(first.value)
    assert named <= functions
    text = HOST_SCRIPT.read_text(encoding="utf-8")
    assert not [name for name in functions - named if len(re.findall(rf"\b{name}\b", text)) < 2], "unused"
