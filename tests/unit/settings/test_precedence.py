"""Precedence of a setting's sources, and the origin that is reported for its value."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from voxyard.settings import Loaded, Section, Setting, SettingsError, load, setting, settings_of
from voxyard.trainer.config import TrainConfig

SETTINGS = {each.key: each for each in settings_of(TrainConfig)}
SOURCES = ("host plan", "file", "environment", "flag")  # lowest first
VALUES: dict[str, tuple[object, ...]] = {  # four values, one for each source
    "training.batch_size": (2, 4, 8, 16),
    "training.learning_rate": (1e-4, 2e-4, 3.5e-3, 0.25),
    "training.resume": (False, True, False, True),
    "training.xla": (True, False, True, False),
    "model.size": ("tiny", "small", "normal", "big"),
    "data.train_data": ("/a", "/b b", "/ç", "relative/d"),
    "data.pipeline_buffer_size": (11, 12, 13, 14),
    "telemetry.run": ("no", "1e-4", "2026-01-01", "null and more"),
}


def _write(path: Path, values: dict[str, object]) -> Path:
    sections: dict[str, dict[str, object]] = {}
    for key, value in values.items():
        section, _, name = key.partition(".")
        sections.setdefault(section, {})[name] = value
    path.write_text(json.dumps(sections, indent=1, ensure_ascii=False), encoding="utf-8")
    return path


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _loaded(folder: Path, given_by: dict[str, dict[str, object]]) -> Loaded[TrainConfig]:
    environ = {SETTINGS[key].variable: _as_text(value) for key, value in given_by["environment"].items()}
    flags = {key: value if isinstance(value, bool) else str(value) for key, value in given_by["flag"].items()}
    return load(
        TrainConfig,
        flags=flags,
        environ=environ,
        file=_write(folder / "train.yaml", given_by["file"]),
        host_plan=_write(folder / "plan.yaml", given_by["host plan"]),
    )


def _value(config: TrainConfig, setting: Setting) -> object:
    return getattr(getattr(config, setting.section), setting.name)


def _came_from(origin: str) -> str:
    for start, source in (("host plan ", "host plan"), ("VOXYARD_", "environment"), ("--", "flag")):
        if origin.startswith(start):
            return source
    return "default" if origin == "default" else "file"


@given(giving=st.dictionaries(st.sampled_from(sorted(VALUES)), st.sets(st.sampled_from(SOURCES))))
@example(giving={key: set(SOURCES) for key in VALUES})
@hypothesis_settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_highest_source_that_gives_a_key_wins(tmp_path: Path, giving: dict[str, set[str]]) -> None:
    """Flag > environment > file > host plan > default, for every subset of sources and several keys."""
    given_by: dict[str, dict[str, object]] = {
        source: {key: VALUES[key][rank] for key, sources in giving.items() if source in sources}
        for rank, source in enumerate(SOURCES)
    }
    loaded = _loaded(tmp_path, given_by)
    for key, each in SETTINGS.items():
        ranks = [rank for rank, source in enumerate(SOURCES) if source in giving.get(key, ())]
        expected = VALUES[key][max(ranks)] if ranks else each.default()
        expected = Path(str(expected)) if key == "data.train_data" and ranks else expected
        found = _value(loaded.config, each)
        assert (type(found), found) == (type(expected), expected)
        assert _came_from(loaded.origins[key]) == (SOURCES[max(ranks)] if ranks else "default")


def test_every_setting_can_be_given_by_flag_variable_and_file(tmp_path: Path) -> None:
    """Every flag has a key, and every key a variable."""
    for key, each in SETTINGS.items():
        value = _some_value(each)
        by_flag = load(TrainConfig, flags={key: value if isinstance(value, bool) else str(value)}, environ={})
        by_variable = load(TrainConfig, environ={each.variable: _as_text(value)})
        by_file = load(TrainConfig, environ={}, file=_write(tmp_path / "one.yaml", {key: value}))
        found = [_value(one.config, each) for one in (by_flag, by_variable, by_file)]
        assert found[0] == found[1] == found[2]
        assert found[0] != each.default()
        assert by_variable.origins[key] == each.variable


def _some_value(setting: Setting) -> object:
    default = setting.default()
    if setting.key == "model.mel_high_hz":
        return 7000.0
    if setting.key in ("model.sample_rate", "model.fft_size"):
        return {"model.sample_rate": 24000, "model.fft_size": 512}[setting.key]
    if setting.is_switch:
        return not default
    if setting.choices:
        return next(word for word in setting.choices if word != default)
    if int in setting.kinds and str not in setting.kinds:
        return (default or 5) + 1 if setting.key != "model.hop_length" else 128
    if float in setting.kinds:
        return float(1 if default is None else default) / 2 + 0.01
    return 3 if int in setting.kinds else "somewhere"


def test_origins_name_flag_variable_file_line_and_host_plan(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("# limits of this host\ntraining:\n  model_gpu_memory: 16384\n")
    file = tmp_path / "train.yaml"
    file.write_text("training:\n  seed: 3\n\n  epochs: 2\n")
    loaded = load(
        TrainConfig,
        flags={"training.batch_size": "8", "training.resume": False},
        environ={"VOXYARD_TRAIN_BUFFER_SIZE": "25", "VOXYARD_HOST_PLAN": str(plan)},
        file=file,
    )
    origins = loaded.origins
    assert origins["training.batch_size"] == "--batch-size"
    assert origins["training.resume"] == "--no-resume"
    assert origins["data.pipeline_buffer_size"] == "VOXYARD_TRAIN_BUFFER_SIZE"
    assert origins["training.epochs"] == f"{file}:4"
    assert origins["training.model_gpu_memory"] == f"host plan {plan}:3"
    assert origins["model.size"] == "default"
    assert loaded.config.training.model_gpu_memory == 16384


def test_a_value_that_is_overridden_is_checked_all_the_same(tmp_path: Path) -> None:
    file = tmp_path / "train.yaml"
    file.write_text("training:\n  batch_size: many\n")
    with pytest.raises(SettingsError, match="batch_size: found the text 'many', expected a whole number"):
        load(TrainConfig, flags={"training.batch_size": "8"}, environ={"VOXYARD_TRAIN_BATCH_SIZE": "4"}, file=file)


def test_problems_of_all_sources_come_together(tmp_path: Path) -> None:
    file = tmp_path / "train.yaml"
    file.write_text("training:\n  seed: -1\n")
    with pytest.raises(SettingsError) as caught:
        load(TrainConfig, flags={"data.buckets": "0"}, environ={"VOXYARD_TRAIN_PRECISION": "int8"}, file=file)
    assert caught.value.problems == (
        f"{file}:2: training.seed: found -1, expected a whole number from 0 to 2147483647",
        "VOXYARD_TRAIN_PRECISION: found the text 'int8', expected one of auto, float32, bfloat16, float16",
        "--buckets: found the text '0', expected a whole number from 1 to 32",
    )


def test_an_empty_variable_counts_as_not_set() -> None:
    loaded = load(TrainConfig, environ={"VOXYARD_TRAIN_BATCH_SIZE": "", "VOXYARD_HOST_PLAN": ""})
    assert loaded.config.training.batch_size is None
    assert loaded.origins["training.batch_size"] == "default"


def test_a_variable_that_is_nearly_right_is_pointed_out() -> None:
    loaded = load(TrainConfig, environ={"VOXYARD_TRAIN_BATCHSIZE": "4", "VOXYARD_ENGINE": "bark", "HOME": "/root"})
    assert loaded.notes == (
        "VOXYARD_TRAIN_BATCHSIZE is no setting and has no effect: did you mean VOXYARD_TRAIN_BATCH_SIZE?",
    )


def test_gpu_ids_are_numbers_or_uuids_from_every_source() -> None:
    """An index given as a text is the same index."""
    loaded = load(TrainConfig, flags={"data.data_gpu": "2"}, environ={"VOXYARD_TRAIN_MODEL_GPU": "GPU-8f6a"})
    assert (loaded.config.data.data_gpu, loaded.config.data.model_gpu) == (2, "GPU-8f6a")


def test_what_a_section_itself_refuses_is_a_sentence_with_its_origins(tmp_path: Path) -> None:
    """A validator's ValueError reaches the user without pydantic's frame."""
    file = tmp_path / "train.yaml"
    file.write_text("model:\n  sample_rate: 8000\n")
    with pytest.raises(SettingsError) as caught:
        load(TrainConfig, environ={}, file=file)
    assert str(caught.value) == (
        "model: mel bands from 0 to 8000 Hz do not fit below half the sample rate (4000 Hz): "
        f"lower model.mel_high_hz (model.sample_rate from {file}:2)"
    )


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("training.learning_rate", "nan"),
        ("training.learning_rate", "inf"),
        ("training.batch_size", "8.5"),
        ("training.resume", "perhaps"),
        ("data.cache_file", "a\0b"),
        ("training.checkpoint_dir", ""),
        ("data.cache_file", "~nobody-has-this-name/x"),
    ],
)
def test_a_text_that_is_no_value_is_refused(key: str, text: str) -> None:
    with pytest.raises(SettingsError, match=r"^--[a-z-]+: found "):
        load(TrainConfig, flags={key: text}, environ={})


def test_a_tilde_is_the_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A YAML file has no shell to expand it."""
    monkeypatch.setenv("HOME", "/home/someone")
    loaded = load(TrainConfig, environ={"VOXYARD_TRAIN_CHECKPOINT_DIR": "~/runs"})
    assert loaded.config.training.checkpoint_dir == Path("/home/someone/runs")
    named = load(TrainConfig, flags={"training.checkpoint_dir": "./~/runs"}, environ={})
    assert named.config.training.checkpoint_dir == Path("~/runs")  # a folder of that name


@pytest.mark.parametrize(
    ("section", "key", "expected"),
    [
        ("training", "max_minutes", None),  # None is one of its values
        ("training", "strategy_steps", 30),  # None is not: the default
    ],
)
def test_a_key_with_nothing_behind_it_takes_back_what_the_host_plan_says(
    tmp_path: Path, section: str, key: str, expected: object
) -> None:
    plan, file = tmp_path / "plan.yaml", tmp_path / "train.yaml"
    plan.write_text(f"{section}:\n  {key}: 55\n")
    file.write_text(f"{section}:\n  {key}:\n")
    loaded = load(TrainConfig, file=file, host_plan=plan, environ={})
    assert getattr(getattr(loaded.config, section), key) == expected
    assert getattr(getattr(load(TrainConfig, host_plan=plan, environ={}).config, section), key) == 55


class Oven(Section):
    """A setting that may be off, and is on by default."""

    heat: int | None = setting(180, "Heat.")


class Kitchen(Section):
    """One section."""

    oven: Oven = Oven()


def test_a_key_with_nothing_behind_it_is_none_where_none_is_meant(tmp_path: Path) -> None:
    file = tmp_path / "kitchen.yaml"
    file.write_text("oven:\n  heat:\n")
    assert load(Kitchen, file=file, environ={}).config.oven.heat is None
