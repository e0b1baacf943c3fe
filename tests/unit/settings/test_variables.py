"""Environment variables: one meaning each, a prefix for every group of settings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from voxyard.cli.serve import ServeConfig
from voxyard.cli.speak import SpeakConfig
from voxyard.settings import Section, load
from voxyard.settings.fields import GROUPS, PREFIX, Setting, settings_of
from voxyard.telemetry.config import ExporterConfig
from voxyard.trainer.config import TrainConfig

ROOT = Path(__file__).resolve().parents[3]
MODELS: tuple[type[Section], ...] = (TrainConfig, SpeakConfig, ServeConfig, ExporterConfig)
OWN_NAMES = {"ENABLE_PARALLEL_TTS", "MAX_PARALLEL_TTS_WORKERS"}


def every_setting() -> list[Setting]:
    return [setting for model in MODELS for setting in settings_of(model)]


def test_no_variable_has_two_definitions() -> None:
    meanings: dict[str, set[tuple[str, str]]] = {}
    for setting in every_setting():
        meanings.setdefault(setting.variable, set()).add((setting.key, setting.description))
    assert {name: found for name, found in meanings.items() if len(found) > 1} == {}


def test_every_variable_begins_with_its_group() -> None:
    groups = tuple(f"{PREFIX}{group}_" for group in GROUPS)
    others = {setting.variable for setting in every_setting() if not setting.variable.startswith(groups)}
    assert others == OWN_NAMES


def test_compose_files_interpolate_no_setting() -> None:
    """`${NAME}` is filled in from a release's own environment file: a name there means something else."""
    interpolated = {
        name
        for path in (ROOT / "deploy/compose").glob("*.yaml")
        for name in re.findall(r"\$\{([A-Z_]+)", path.read_text(encoding="utf-8"))
    }
    assert interpolated
    assert interpolated & {setting.variable for setting in every_setting()} == set()


def test_compose_files_and_images_set_only_variables_that_somebody_reads() -> None:
    known = {setting.variable for setting in every_setting()}
    known |= {f"{PREFIX}{name}" for name in ("CONFIG", "HOST_PLAN", "OUT_OF_WORK", "RELEASE", "CONFIG_HASH")}
    files = [*(ROOT / "deploy/compose").glob("*.yaml"), *(ROOT / "images").glob("*/Dockerfile")]
    given = {
        name
        for path in files
        for name in re.findall(r"^\s*(?:ENV )?(VOXYARD_[A-Z_]+)[:=]", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert len(given) > 8
    assert given - known == set()


@pytest.mark.parametrize(
    ("model", "name", "meant"),
    [
        (TrainConfig, "VOXYARD_DEVICE", "VOXYARD_TRAIN_DEVICE"),
        (SpeakConfig, "VOXYARD_DEVICE", "VOXYARD_BARK_DEVICE"),
        (SpeakConfig, "VOXYARD_METRICS_PORT", "VOXYARD_SPEAK_METRICS_PORT"),
        (ServeConfig, "VOXYARD_PORT", "VOXYARD_SERVICE_PORT"),
        (ExporterConfig, "VOXYARD_PORT", "VOXYARD_EXPORTER_PORT"),
        (TrainConfig, "VOXYARD_TRAIN_BATCHSIZE", "VOXYARD_TRAIN_BATCH_SIZE"),
        (TrainConfig, "VOXYARD_TRAIN_TRAIN_DATA", "VOXYARD_TRAIN_DATA"),
        (SpeakConfig, "VOXYARD_SPEECH_PARALLEL", "ENABLE_PARALLEL_TTS"),
    ],
)
def test_a_name_without_its_group_is_answered_with_the_right_one(model: type[Section], name: str, meant: str) -> None:
    assert load(model, environ={name: "1"}).notes == (f"{name} is no setting and has no effect: did you mean {meant}?",)


@pytest.mark.parametrize(
    ("model", "name"), [(TrainConfig, "VOXYARD_TRAIN_COLOUR"), (ServeConfig, "VOXYARD_SPEECH_FREQUENCY_BANDS")]
)
def test_a_name_of_the_group_that_is_like_no_setting_has_no_effect_either(model: type[Section], name: str) -> None:
    told = f"{name} is no setting and has no effect: --help lists the settings"
    assert load(model, environ={name: "1"}).notes == (told,)


@pytest.mark.parametrize("name", ["VOXYARD_RELEASE", "VOXYARD_CONFIG_HASH", "VOXYARD_CONFIG"])
@pytest.mark.parametrize("model", MODELS)
def test_what_a_container_is_given_beside_settings_is_nobodys_mistake(model: type[Section], name: str) -> None:
    assert load(model, environ={name: "1"}).notes == ()


@pytest.mark.parametrize("name", ["VOXYARD_BARK_DEVICE", "VOXYARD_SERVICE_PORT", "VOXYARD_EXPORTER_HOST"])
def test_another_groups_variable_is_nobodys_mistake(name: str) -> None:
    assert load(TrainConfig, environ={name: "nonsense"}).notes == ()


def test_the_trainers_variables_do_not_disturb_speak(tmp_path: Path) -> None:
    """VOXYARD_DEVICE=gpu once meant the trainer's devices and was an error of `voxyard speak`."""
    environ = os.environ | {"VOXYARD_TRAIN_DEVICE": "gpu", "VOXYARD_TRAIN_SEED": "x"}
    command = [
        sys.executable,
        "-m",
        "voxyard",
        "speak",
        str(tmp_path / "missing.txt"),
        "--out",
        str(tmp_path / "a.wav"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=120)
    assert "VOXYARD_TRAIN" not in done.stderr
    assert "missing.txt: expected" in done.stderr  # the next thing that is missing here
