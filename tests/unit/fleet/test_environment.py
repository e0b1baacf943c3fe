"""The extra `fleet` suffices for every task of `fab`: its packages alone can be imported, no TensorFlow, no torch."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from tiny_model import write_model

ROOT = Path(__file__).resolve().parents[3]
ALONE = """
import importlib.abc, json, re, sys
from importlib import metadata
allowed = set(json.loads(sys.argv.pop(1)))
owners = {name: {re.sub(r"[-_.]+", "-", each).lower() for each in dists} for name, dists in
          metadata.packages_distributions().items()}

class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in owners and not owners[top] & allowed:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None

sys.meta_path.insert(0, Blocked())
"""
IMPORTS = """
import importlib, pkgutil
import fabfile, fleet, tasks
for package in (fleet, tasks):
    for each in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(each.name)
import cyclonedx.contrib.license.factories, cyclonedx.output.json, docker.errors, packageurl, requests.exceptions
"""
TASKS = "from fabric.main import program; program.run(['fab', *sys.argv[1:]], exit=True)"
WEIGHTS = """
from pathlib import Path
from fleet.release.artefact import ChecksumCache, weights
print(weights(Path(sys.argv[1]), ChecksumCache()).kind)
"""


def packages_of(extra: str) -> list[str]:
    """Distributions that `pip install voxyard[EXTRA]` brings."""
    waiting, seen = [("voxyard", extra)], set()
    while waiting:
        name, wanted = waiting.pop()
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        for each in map(Requirement, requirements(name, wanted)):
            if each.marker is None or each.marker.evaluate({"extra": wanted}):
                waiting += [(each.name, more) for more in ("", *each.extras)]
    return sorted({re.sub(r"[-_.]+", "-", name).lower() for name, _ in seen})


def requirements(name: str, extra: str) -> list[str]:
    """What a distribution requires: voxyard's by its pyproject.toml, which is newer than an editable installation."""
    if name == "voxyard":
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        return [*project["dependencies"], *project["optional-dependencies"].get(extra, ())]
    try:
        return metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return []  # for another system or another Python


def alone(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A process in which the packages of the extra can be imported, and no others."""
    code = f"{ALONE}\nsys.path[:0] = ['.', 'scripts']\n{code}"
    command = [sys.executable, "-c", code, json.dumps(packages_of("fleet")), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_extra_has_neither_tensorflow_nor_torch() -> None:
    assert not {"torch", "tensorflow", "tensorflow-cpu", "keras", "transformers"} & set(packages_of("fleet"))


def test_a_package_that_is_not_of_the_extra_cannot_be_imported_here() -> None:
    for name in ("pytest", "uvicorn"):
        done = alone(f"import {name}")
        assert done.returncode == 1
        assert f"No module named '{name}'" in done.stderr


def test_every_module_of_the_tasks_can_be_imported() -> None:
    done = alone(IMPORTS)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--list"], 0, "Available tasks"),
        (["check", "--inventory", "{folder}/hosts.yaml", "--host", "nobody"], 2, "no host nobody in"),
        (["plan", "--inventory", "{folder}/hosts.yaml", "--image", "x"], 2, "expected ROLE=REFERENCE"),
        (
            ["train", "--inventory", "{folder}/hosts.yaml", "--host", "a", "--config", "{folder}/train.yaml"],
            2,
            "no cor",
        ),
        (["monitoring", "--inventory", "{folder}/hosts.yaml", "--out", "{folder}/out"], 0, ""),
        (
            ["render", "--to", "slurm", "--config", "{folder}/run.yaml", "--out", "{folder}/out", "--voxyard", "/v"],
            0,
            "sbatch --chdir=DIR",
        ),
        (
            ["render", "--to", "kubernetes", "--inventory", "{folder}/hosts.yaml", "--out", "{folder}/k"],
            2,
            "no clusters",
        ),
        (["status", "--inventory", "~nosuchuser/hosts.yaml"], 2, "this machine has no user nosuchuser"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_a_task_runs_with_the_extra_alone(tmp_path: Path, arguments: list[str], code: int, said: str) -> None:
    (tmp_path / "hosts.yaml").write_text("hosts: {a: {address: 192.0.2.1, user: u, roles: [trainer, monitoring]}}\n")
    (tmp_path / "train.yaml").write_text("training: {max_steps: 5}\n")
    (tmp_path / "run.yaml").write_text("data: {train_data: /corpora/LJ}\n")
    done = alone(TASKS, *(each.format(folder=tmp_path) for each in arguments))
    assert done.returncode == code, done.stderr
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_weights_are_checked_with_the_extra_alone(tmp_path: Path) -> None:
    done = alone(WEIGHTS, str(write_model(tmp_path / "weights")))
    assert (done.returncode, done.stdout) == (0, "weights\n"), done.stderr
