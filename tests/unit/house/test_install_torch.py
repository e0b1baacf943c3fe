"""torch comes as a CPU build where there is one, and never brings CUDA unasked."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def script() -> ModuleType:
    """scripts/install_torch.py as a module."""
    spec = importlib.util.spec_from_file_location("install_torch", ROOT / "scripts/install_torch.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class FakePip:
    """Answers a dry run with a report of these packages, and remembers what it was asked."""

    def __init__(self, packages: list[str], returncode: int = 0) -> None:
        self.packages = packages
        self.returncode = returncode
        self.calls: list[list[str]] = []

    def __call__(self, *arguments: str) -> FakePip:
        self.calls.append(list(arguments))
        if "--report" in arguments and self.returncode == 0:
            named = [{"metadata": {"name": name, "version": "1.0"}} for name in self.packages]
            Path(arguments[arguments.index("--report") + 1]).write_text(json.dumps({"install": named}))
        return self

    @property
    def installed(self) -> bool:
        return any("--dry-run" not in call for call in self.calls)


CPU = ["torch", "sympy", "jinja2"]
CUDA = [*CPU, "nvidia-cublas", "nvidia-cudnn-cu13", "cuda-bindings", "triton"]
ARGUMENTS = ["--constraints", "constraints.txt"]


@pytest.mark.parametrize(
    ("packages", "build", "installs"),
    [(CPU, "cpu", True), (CUDA, "cpu", False), (CUDA, "cuda", True), (CPU, "cuda", True)],
)
def test_cuda_packages_come_only_when_asked_for(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, packages: list[str], build: str, installs: bool
) -> None:
    pip = FakePip(packages)
    monkeypatch.setattr(script, "_pip", pip)
    monkeypatch.setattr(script, "installed_torch", lambda: None)
    assert script.main([*ARGUMENTS, "--build", build]) == 0
    assert pip.installed == installs


def test_what_was_left_out_is_named_with_the_alternatives(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(script, "_pip", FakePip(CUDA))
    monkeypatch.setattr(script, "installed_torch", lambda: None)
    script.main(ARGUMENTS)
    said = capsys.readouterr().err
    assert "torch was not installed" in said
    assert "4 more packages" in said
    assert "nvidia-cublas 1.0" in said
    for alternative in ("make setup TORCH=cuda", "PIP_FIND_LINKS=", "PIP_EXTRA_INDEX_URL="):
        assert alternative in said


def test_a_torch_that_is_there_is_left_alone(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    pip = FakePip(CPU)
    monkeypatch.setattr(script, "_pip", pip)
    monkeypatch.setattr(script, "installed_torch", lambda: "2.13.0+cpu")
    assert script.main(ARGUMENTS) == 0
    assert pip.calls == []


def test_a_pip_that_finds_nothing_is_a_failure(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "_pip", FakePip(CPU, returncode=1))
    monkeypatch.setattr(script, "installed_torch", lambda: None)
    assert script.main(ARGUMENTS) == 1


def test_the_pin_is_the_one_of_the_package(script: ModuleType) -> None:
    pinned = script.pinned_torch({"project": {"optional-dependencies": {"bark": ["numpy", "torch==9.9"]}}})
    assert pinned == "torch==9.9"
