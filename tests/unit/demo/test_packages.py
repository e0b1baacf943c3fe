"""Packages of the demo: what its programs import is in the extras that `make demo` installs."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = sorted(
    [*(ROOT / "scripts/demo").rglob("*.py"), ROOT / "grafana/preview.py", *(ROOT / "grafana/boards").rglob("*.py")]
)
OURS = {"boards", "demo", "fake_driver", "scenario", "voxyard"}
APART = {"torch"}  # installed by scripts/install_torch.py


def modules(path: Path) -> Iterator[str]:
    """Top-level names of the modules that a file imports, also inside its functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            yield node.module.partition(".")[0]


def plain(name: str) -> str:
    """A distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements(name: str, extras: frozenset[str]) -> list[Requirement]:
    """Requirements of a distribution with these extras; for voxyard those of pyproject.toml."""
    if name == "voxyard":
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        optional = [line for extra in extras for line in project["optional-dependencies"][extra]]
        return [Requirement(line) for line in (*project["dependencies"], *optional)]
    try:
        found = [Requirement(line) for line in metadata.requires(name) or []]
    except metadata.PackageNotFoundError:
        return []
    asked = [{"extra": extra} for extra in (*extras, "")]
    return [each for each in found if each.marker is None or any(map(each.marker.evaluate, asked))]


def closure(name: str, extras: frozenset[str]) -> set[str]:
    """Names of the distributions that a distribution with these extras brings, itself among them."""
    found: set[tuple[str, frozenset[str]]] = set()
    left = [(name, extras)]
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left += [(plain(each.name), frozenset(each.extras)) for each in requirements(*one)]
    return {each for each, _ in found}


def test_make_demo_installs_all_that_its_programs_import() -> None:
    owners = metadata.packages_distributions()
    installed = closure("voxyard", frozenset({"trainer", "cpu", "demo"})) | APART
    missing = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in PROGRAMS
        for name in modules(path)
        if name not in OURS | set(sys.stdlib_module_names)
        and not {plain(each) for each in owners.get(name, [])} & installed
    }
    assert missing == set()


def test_the_programs_of_the_demo_are_found() -> None:
    assert {"flow.py", "openai_client.py", "preview.py", "pictures.py"} <= {path.name for path in PROGRAMS}
    assert {"numpy", "openai", "yaml"} <= {name for path in PROGRAMS for name in modules(path)}
