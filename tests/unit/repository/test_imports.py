"""Imports: which package may import which, no circles, light modules."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BASE = {"host", "settings"}
WATCHED = BASE | {"telemetry"}
ROOMS: dict[str, set[str]] = {  # room → the rooms that it may import
    "": set(),
    "settings": set(),
    "host": set(),
    "telemetry": BASE,
    "corpus": WATCHED,
    "extraction": set(),
    "speech": WATCHED,
    "trainer": WATCHED | {"corpus", "speech"},
    "bark": WATCHED | {"corpus", "speech"},
    "espeak": {"corpus", "speech"},
    "service": WATCHED | {"extraction", "speech"},
    "diagnose": WATCHED | {"corpus", "speech", "trainer"},
    "cli": WATCHED | {"corpus", "extraction", "speech", "trainer", "bark", "espeak", "service", "diagnose"},
    "__main__": {"cli"},
}
SCRIPTS: dict[str, set[str]] = {  # folder or file of scripts/ → the rooms that it may import
    "fleet": {"host", "settings", "service", "speech", "bark", "trainer"},
    "demo": {"corpus", "host", "trainer"},
    "tasks": set(),
    "gpu_report": set(),
    "gpu_trial": {"trainer"},
    "install_torch.py": set(),
    "leftovers.py": set(),
    "lock.py": set(),
    "mutants.py": set(),
    "objectives.py": {"settings"},
    "readme.py": {"cli", "settings", "telemetry", "trainer"},
    "release.py": set(),
    "suite.py": set(),
    "walk.py": {"cli"},
}
LIGHT = [
    "voxyard",
    "voxyard.extraction",
    "voxyard.service",
    "voxyard.speech",
    "voxyard.cli",
    "voxyard.host",
    "voxyard.settings",
    "voxyard.telemetry",
    "voxyard.corpus",
    "voxyard.trainer",
    "voxyard.trainer.config",
]
HEAVY = ("tensorflow", "torch", "keras")
SLOW = (*HEAVY, "numpy", "pydantic", "rich", "yaml", "soundfile", "prometheus_client", "voxyard.settings")


@functools.cache
def statements(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """The import statements of a file, wherever in it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def imported(path: Path, package: list[str]) -> Iterator[tuple[int, str]]:
    """Every module that a file imports, with its line; relative names resolved."""
    for node in statements(path):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        else:
            start = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*start, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def wrong_arrows(root: Path) -> list[str]:
    """The imports under `root` (runtime/ and scripts/) that no arrow allows, as `file:line: …`."""
    found = []
    for path in sorted([*(root / "runtime").rglob("*.py"), *(root / "scripts").rglob("*.py")]):
        parts = path.relative_to(root).with_suffix("").parts
        if parts[0] == "runtime":
            room = "" if parts[2] == "__init__" else parts[2]
            allowed = ROOMS.get(room)
        else:
            room = path.relative_to(root / "scripts").parts[0]
            allowed = SCRIPTS.get(room)
        if allowed is None:
            found.append(f"{'/'.join(parts)}: the room {room!r} is not in the table of this test")
            continue
        package = list(parts[1:-1])
        for line, module in imported(path, package):
            if (reason := _objection(module, parts[0], room, allowed)) is not None:
                found.append(f"{path.relative_to(root)}:{line}: {reason}")
    return found


def _objection(module: str, tree: str, room: str, allowed: set[str]) -> str | None:
    first, _, rest = module.partition(".")
    if first in ("scripts", "fleet") and tree == "runtime":
        return "runtime imports scripts"
    if first != "voxyard":
        return None
    other = rest.partition(".")[0]
    if other in ("", "__version__", room) or other in allowed:
        return None
    return f"{room or 'voxyard'} must not import {other}"


def test_every_import_follows_the_arrows() -> None:
    assert wrong_arrows(ROOT) == []


def module_graph(base: Path) -> dict[str, set[str]]:
    """Every module below `base` with those that it imports, wherever in it: in functions, under TYPE_CHECKING too."""
    paths = {}
    for path in base.rglob("*.py"):
        parts = path.relative_to(base).with_suffix("").parts
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    graph = {}
    for name, path in paths.items():
        package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
        found = {module for _, module in imported(path, package)}
        # `from a.b import c` is the module a.b.c, or something that the module a.b holds
        graph[name] = {each if each in paths else each.rpartition(".")[0] for each in found} & set(paths) - {name}
    return graph


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Modules that import each other in a circle, the first one again at the end; empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


@pytest.mark.parametrize("base", ["runtime", "scripts", "grafana"])
def test_no_modules_import_each_other(base: str) -> None:
    graph = module_graph(ROOT / base)
    assert len(graph) > 10
    assert circle(graph) == []


@pytest.mark.parametrize(
    "body",
    [
        "from yard import a",
        "from yard.a import f",
        "import yard.a",
        "from . import a",
        "from .a import f",
        "def g():\n    from yard.a import f",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from yard.a import f",
    ],
)
def test_a_circle_is_found_wherever_its_imports_stand(tmp_path: Path, body: str) -> None:
    package = tmp_path / "yard"
    package.mkdir()
    files = {
        "__init__": "",
        "a": "from yard import b\n",
        "b": "import yard.c\n",
        "c": body,
        "d": "from yard.a import f",
    }
    for name, text in files.items():
        (package / f"{name}.py").write_text(text)
    assert set(circle(module_graph(tmp_path))) == {"yard.a", "yard.b", "yard.c"}


@pytest.mark.parametrize(
    ("file", "line", "complaint"),
    [
        (
            "runtime/voxyard/host/limits.py",
            "from voxyard.trainer import config",
            "host must not import trainer",
        ),
        ("runtime/voxyard/settings/load.py", "import voxyard.host", "settings must not import host"),
        (
            "runtime/voxyard/trainer/loop.py",
            "def f():\n    from voxyard import bark",
            "trainer must not import bark",
        ),
        ("runtime/voxyard/corpus/text.py", "from ..trainer.model import x", "corpus must not import trainer"),
        ("runtime/voxyard/corpus/text.py", "from .. import cli", "corpus must not import cli"),
        ("runtime/voxyard/trainer/x.py", "import fleet.plan", "runtime imports scripts"),
        ("runtime/voxyard/cellar/x.py", "import os", "the room 'cellar' is not in the table"),
        ("scripts/fleet/plan.py", "from voxyard.cli import main", "fleet must not import cli"),
        ("scripts/fleet/plan.py", "from voxyard.host.limits import recommended", None),
        ("runtime/voxyard/trainer/loop.py", "from voxyard.corpus import Example\nfrom . import step", None),
    ],
)
def test_a_planted_import_is_judged_rightly(tmp_path: Path, file: str, line: str, complaint: str | None) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(line + "\n")
    found = wrong_arrows(tmp_path)
    assert len(found) == (0 if complaint is None else 1)
    assert complaint is None or complaint in found[0]


def _modules_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nsys.stderr.write('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.split("\n"))


@pytest.mark.parametrize("module", LIGHT)
def test_a_light_module_loads_neither_tensorflow_nor_torch(module: str) -> None:
    loaded = _modules_after(f"import {module}")
    assert module in loaded
    assert loaded.isdisjoint(HEAVY)


def test_help_loads_nothing_slow() -> None:
    arguments = "sys.argv = ['voxyard', '--help']"
    loaded = _modules_after(f"{arguments}\nfrom voxyard.cli import main\ntry: main()\nexcept SystemExit: pass")
    assert "voxyard.cli" in loaded
    assert loaded.isdisjoint(SLOW)


def test_the_trainers_configuration_is_shown_without_tensorflow() -> None:
    arguments = "sys.argv = ['voxyard', 'train', '--help']"
    loaded = _modules_after(f"{arguments}\nfrom voxyard.cli import main\ntry: main()\nexcept SystemExit: pass")
    assert "voxyard.trainer.config" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_only_the_routes_and_the_wiring_of_the_service_import_fastapi() -> None:
    """Outside `routes/`: the application itself, and the handlers of the errors that FastAPI raises."""
    allowed = ("service/routes/", "service/app.py", "service/http/errors.py")
    package = ROOT / "runtime" / "voxyard"
    found = {
        name
        for path in package.rglob("*.py")
        if not (name := path.relative_to(package).as_posix()).startswith(allowed)
        and any(module.split(".")[0] == "fastapi" for _, module in imported(path, []))
    }
    assert found == set()
