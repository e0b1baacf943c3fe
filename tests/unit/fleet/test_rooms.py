"""Structure of scripts/fleet: package dependencies, side effects in few modules."""

from __future__ import annotations

import ast
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"
FLEET = SCRIPTS / "fleet"


def trees() -> dict[str, ast.Module]:
    """Syntax tree of every file, by its path below scripts/fleet."""
    found = {str(path.relative_to(FLEET)): path for path in FLEET.rglob("*.py")}
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in found.items()}


def imports(tree: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def modules(tree: ast.Module) -> set[str]:
    """Fleet modules and names that a file imports: `from fleet.rollout import commands` is fleet.rollout.commands."""
    return {
        f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "fleet"
        for alias in node.names
        if alias.asname is None
    }


# Package → packages that it may import; all may import the top-level modules (lock, audit log) and `ssh`.
ROOMS: dict[str, set[str]] = {
    "inventory": set(),
    "ssh": {"inventory", "facts"},
    "facts": set(),
    "images": set(),
    "release": {"inventory", "facts", "images"},
    "checks": {"inventory", "facts", "images", "release"},
    "gateway": {"inventory", "images", "release"},
    "rollout": {"inventory", "facts", "images", "release", "checks", "gateway"},
    "runs": {"inventory", "facts", "release", "rollout"},
    "monitoring": {"inventory", "facts", "images", "release", "rollout"},
    "render": {"inventory", "images", "release", "runs", "monitoring"},
}
TOP = {"inventory", "facts", "ssh"}


def test_packages_import_only_what_the_table_allows() -> None:
    for name, tree in trees().items():
        room = name.partition("/")[0] if "/" in name else None
        used = {
            parts[1]
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module and (parts := node.module.split("."))[0] == "fleet"
            if len(parts) > 1 and parts[1] in ROOMS
        }
        assert used - {room} <= (TOP if room is None else ROOMS[room] | {"ssh"}), name


def test_openssh_is_the_only_transport() -> None:
    network = {"fabric", "paramiko", "invoke", "socket"}
    # The probe connects to ports that must be closed to this machine, and says nothing there.
    assert {name for name, tree in trees().items() if network & imports(tree)} == {"checks/ray_probe.py"}
    importers = {name for name, tree in trees().items() if "fleet.ssh.route.route_to" in modules(tree)}
    assert importers == {"ssh/connection.py", "ssh/rsync.py"}


def test_transfer_start_publish_and_prune_have_one_module_each() -> None:
    used: dict[str, set[str]] = {}
    for name, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                used.setdefault(node.value, set()).add(name)
    for verb in ("image_pull", "release_write", "secrets_write", "artefact_write"):
        assert used[verb] == {"rollout/transfer.py"}
    assert used["service_start"] == {"rollout/restart.py"}
    assert used["release_publish"] == {"rollout/apply.py"}
    assert used["prune_remove"] == {"rollout/prune.py"}


def test_few_modules_start_local_programs() -> None:
    found = {name for name, tree in trees().items() if "subprocess" in imports(tree)}
    assert found <= {
        "images/build.py",
        "images/image.py",
        "images/push.py",
        "images/revision.py",
        "rollout/hooks.py",
        "ssh/rsync.py",
        "ssh/connection.py",
        "ssh/exchange.py",
        "ssh/route.py",
        "inventory/secrets.py",
        "inventory/source.py",
        "inventory/ssh_config.py",
    }
