"""Keys of older configurations: what becomes of each, and what its user is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from voxyard.settings import Loaded, SettingsError, load
from voxyard.trainer.config import ALIASES, TrainConfig


def _load(folder: Path, text: str) -> Loaded[TrainConfig]:
    path = folder / "old.yaml"
    path.write_text(text)
    return load(TrainConfig, file=path, environ={}, aliases=ALIASES)


@pytest.mark.parametrize(
    ("section", "line", "key", "value"),
    [
        ("training", "mixed_precision: true", "precision", "auto"),
        ("data", "mixed_precision: false", "precision", "float32"),
        ("model", "enable_xla: true", "xla", True),
        ("training", "enable_xla: false", "xla", False),
        ("data", "batch_size: 12", "batch_size", 12),
    ],
)
def test_an_old_key_sets_its_canonical_one_with_one_line(
    tmp_path: Path, section: str, line: str, key: str, value: object
) -> None:
    loaded = _load(tmp_path, f"{section}:\n  {line}\n")
    assert getattr(loaded.config.training, key) == value
    old = line.partition(":")[0]
    shown = str(value).lower()
    path = tmp_path / "old.yaml"
    assert loaded.notes == (f"{path}:2: {section}.{old} is now training.{key}, taken as {shown}",)
    assert loaded.origins[f"training.{key}"] == f"{path}:2"


@pytest.mark.parametrize("line", ["pin_memory: true", "use_tf_native_loading: false", "pin_memory: whatever"])
def test_an_old_key_without_effect_says_so_in_one_line(tmp_path: Path, line: str) -> None:
    loaded = _load(tmp_path, f"data:\n  {line}\n")
    assert set(loaded.origins.values()) == {"default"}
    (note,) = loaded.notes
    assert f"old.yaml:2: data.{line.partition(':')[0]} has no effect any more: " in note


def test_each_old_key_of_a_file_has_its_own_line(tmp_path: Path) -> None:
    text = "data:\n  pin_memory: true\n  batch_size: 4\ntraining:\n  enable_xla: true\n  mixed_precision: true\n"
    assert [note.split(":")[1] for note in _load(tmp_path, text).notes] == ["2", "3", "5", "6"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "data:\n  batch_size: 16\ntraining:\n  batch_size: 8\n",
            "2: data.batch_size asks for training.batch_size 16, but training.batch_size on line 4 says 8: "
            "keep training.batch_size alone",
        ),
        (
            "training:\n  precision: float16\n  mixed_precision: false\n",
            "3: training.mixed_precision asks for training.precision float32, but training.precision on "
            "line 2 says float16: keep training.precision alone",
        ),
        (
            "data:\n  enable_xla: true\nmodel:\n  enable_xla: false\n",
            "4: model.enable_xla asks for training.xla false, but data.enable_xla on line 2 says true: "
            "keep training.xla alone",
        ),
    ],
)
def test_an_old_key_that_disagrees_is_an_error_naming_both_lines(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(SettingsError) as caught:
        _load(tmp_path, text)
    assert caught.value.problems == (f"{tmp_path / 'old.yaml'}:{problem}",)


def test_an_old_key_that_agrees_is_accepted_with_its_line(tmp_path: Path) -> None:
    loaded = _load(tmp_path, "data:\n  batch_size: 8\ntraining:\n  batch_size: 8\n")
    assert loaded.config.training.batch_size == 8
    assert len(loaded.notes) == 1


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("batch_size: many", "data.batch_size: found the text 'many', expected a whole number of at least 1"),
        ("mixed_precision: float16", "data.mixed_precision: found float16, expected true or false"),
        ("mixed_precision: [1]", "data.mixed_precision: found [1], expected true or false"),
        ("enable_xla: 1", "data.enable_xla: found 1, expected true or false"),
    ],
)
def test_a_wrong_type_under_an_old_key_names_the_key_that_stands_there(tmp_path: Path, line: str, problem: str) -> None:
    with pytest.raises(SettingsError) as caught:
        _load(tmp_path, f"data:\n  {line}\n")
    assert caught.value.problems == (f"{tmp_path / 'old.yaml'}:2: {problem}",)


def test_an_old_key_stays_below_flag_and_environment(tmp_path: Path) -> None:
    """It has the rank of its file."""
    path = tmp_path / "old.yaml"
    path.write_text("data:\n  batch_size: 16\n")
    loaded = load(TrainConfig, file=path, environ={"VOXYARD_TRAIN_BATCH_SIZE": "4"}, aliases=ALIASES)
    assert loaded.config.training.batch_size == 4
