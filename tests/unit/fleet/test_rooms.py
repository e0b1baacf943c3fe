"""Who does what in scripts/fleet: one file opens connections, one changes a host, the rest only thinks."""

from __future__ import annotations

import ast
from pathlib import Path

FLEET = Path(__file__).resolve().parents[3] / "scripts/fleet"
CHANGES = {"load_image", "write_release", "start", "set_current"}


def trees() -> dict[str, ast.Module]:
    return {path.name: ast.parse(path.read_text(encoding="utf-8")) for path in FLEET.glob("*.py")}


def imports(tree: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def test_only_remote_opens_connections() -> None:
    network = {"fabric", "paramiko", "invoke", "socket"}
    assert {name for name, tree in trees().items() if network & imports(tree)} == {"remote.py", "host_keys.py"}


def test_only_rollout_changes_a_host() -> None:
    used = {
        name
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and (isinstance(node.value, ast.Name) and node.value.id == "commands" and node.attr in CHANGES)
    }
    sending = {
        name
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "send"
    }
    assert used == sending == {"rollout.py"}


def test_only_the_image_starts_programs_here() -> None:
    assert {name for name, tree in trees().items() if "subprocess" in imports(tree)} == {"image.py"}
