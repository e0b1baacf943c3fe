"""Structure of scripts/: package dependencies, side effects in few modules, unique class names, no import circles."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

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
    "rollout": {"inventory", "facts", "images", "release", "checks"},
    "runs": {"inventory", "facts", "rollout"},
    "monitoring": {"inventory", "facts", "images", "release", "rollout"},
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
    assert {name for name, tree in trees().items() if network & imports(tree)} == set()
    importers = {name for name, tree in trees().items() if "fleet.ssh.route.route_to" in modules(tree)}
    assert importers == {"ssh/connection.py", "ssh/rsync.py"}


def test_transfer_start_publish_and_prune_have_one_module_each() -> None:
    used = {
        (name, node.attr)
        for name, tree in trees().items()
        if "fleet.rollout.commands" in modules(tree)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "commands"
    }
    transfers = {"load_image", "pull_image", "write_release", "write_secrets", "receive_artefact"}
    assert {name for name, command in used if command in transfers} == {"rollout/transfer.py"}
    assert {name for name, command in used if command == "start"} == {"rollout/restart.py"}
    assert {name for name, command in used if command == "set_current"} == {"rollout/apply.py"}
    assert {name for name, command in used if command == "remove"} == {"rollout/prune.py"}


def test_few_modules_start_local_programs() -> None:
    found = {name for name, tree in trees().items() if "subprocess" in imports(tree)}
    assert found <= {
        "images/image.py",
        "images/pins.py",
        "images/push.py",
        "monitoring/check.py",
        "ssh/rsync.py",
        "ssh/connection.py",
        "ssh/exchange.py",
        "ssh/login_failure.py",
        "inventory/secrets.py",
    }


def public_classes(root: Path) -> dict[str, list[str]]:
    """Files below `root` that define a public top-level class, by the name of the class."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(root.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(root)))
    return dict(found)


def import_graph(root: Path) -> dict[str, set[str]]:
    """Modules below `root` and the modules below it that they import.

    Imports inside functions and under TYPE_CHECKING count. A package stands for its __init__.py.
    """
    files = {}
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    graph = {}
    for name, path in files.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        imported = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
                source = ".".join([*base, *([node.module] if node.module else [])])
                for alias in node.names:
                    submodule = f"{source}.{alias.name}"
                    imported.add(submodule if submodule in files else source)
        graph[name] = (imported & files.keys()) - {name}
    return graph


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other, directly or through others."""

    def reached(start: str) -> set[str]:
        found, pending = set[str](), [start]
        while pending:
            for name in graph[pending.pop()] - found:
                found.add(name)
                pending.append(name)
        return found

    reachable = {name: reached(name) for name in graph}
    groups = {
        tuple(sorted(other for other in reachable[name] if name in reachable[other]))
        for name in graph
        if name in reachable[name]
    }
    return [list(group) for group in sorted(groups)]


def test_public_class_names_are_unique() -> None:
    classes = public_classes(SCRIPTS)
    assert len(classes) > 50
    assert {name: files for name, files in classes.items() if len(files) > 1} == {}


def test_no_module_imports_itself_through_others() -> None:
    graph = import_graph(SCRIPTS)
    assert "fleet.ssh.connection" in graph["fleet.ssh.connection_pool"]
    assert circles(graph) == []


@pytest.mark.parametrize(
    "body",
    [
        "from rooms import one",
        "from rooms.one import NAME",
        "import rooms.one",
        "from . import one",
        "from .one import NAME",
        "def f():\n    from rooms.one import NAME",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from rooms.one import NAME",
    ],
)
def test_a_circle_is_found_however_it_is_written(tmp_path: Path, body: str) -> None:
    folder = tmp_path / "rooms"
    folder.mkdir()
    files = {"__init__": "", "one": "from rooms.two import NAME", "two": "import rooms.three", "three": body}
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    assert circles(import_graph(tmp_path)) == [["rooms.one", "rooms.three", "rooms.two"]]


def test_a_class_name_that_is_used_twice_is_found(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("class Release:\n    pass\n\n\nclass _Row:\n    pass\n", encoding="utf-8")
    (tmp_path / "two.py").write_text("class Release:\n    pass\n\n\nclass _Row:\n    pass\n", encoding="utf-8")
    assert public_classes(tmp_path) == {"Release": ["one.py", "two.py"]}
