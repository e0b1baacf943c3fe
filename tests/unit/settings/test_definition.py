"""One definition of a setting: flag, help, documentation and range come from it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import click
import pytest
from click.testing import CliRunner
from pydantic import Field, ValidationError

from voxyard.settings import Section, SettingsCommand, SettingsError, load, markdown, options, setting, settings_of
from voxyard.settings.fields import flags_of
from voxyard.settings.values import found_words
from voxyard.trainer.config import DataConfig, TrainConfig, TrainingConfig


class OvenConfig(Section):
    """How it is baked."""

    heat: int = setting(180, "Heat of the oven.", unit="°C", ge=0, lt=300)
    fan: bool = setting(False, "Blow | stir the air.", flag="--enable-fan")
    mode: Literal["top", "bottom"] | None = setting(None, "Where from.", default_text="both")
    dish: Path | None = setting(None, "What it stands in.")


class CakeConfig(Section):
    """A model of one section."""

    oven: OvenConfig = Field(default_factory=OvenConfig)


def _bake(arguments: list[str]) -> str:
    @click.command(cls=SettingsCommand)
    @click.option("--quiet", is_flag=True)
    @options(CakeConfig)
    def bake(flags: dict[str, object], quiet: bool) -> None:
        loaded = load(CakeConfig, flags=flags, environ={})
        click.echo(f"{flags} {quiet} {loaded.config.oven.heat} {loaded.config.oven.fan}")

    result = CliRunner().invoke(bake, arguments, catch_exceptions=False)
    return str(result.output).strip()


class TrayConfig(Section):
    """A number with a word beside it."""

    class Oven(Section):
        trays: Literal["auto"] | Annotated[int, Field(ge=1, le=6)] = setting("auto", "How many trays.")

    oven: Oven = Field(default_factory=Oven)


@pytest.mark.parametrize(("text", "value"), [("auto", "auto"), ("6", 6), ("1", 1)])
def test_a_number_may_have_a_word_beside_it(tmp_path: Path, text: str, value: object) -> None:
    (tmp_path / "f.yaml").write_text(f"oven: {{trays: {text}}}")
    flagged = load(TrayConfig, flags={"oven.trays": text}, environ={}).config
    filed = load(TrayConfig, file=tmp_path / "f.yaml", environ={}).config

    assert flagged.oven.trays == filed.oven.trays == value
    assert flags_of(flagged) == (() if value == "auto" else ("--trays", text))


@pytest.mark.parametrize("text", ["0", "7", "2.5", "all", "'4'"])
def test_a_number_with_a_word_beside_it_keeps_its_range(tmp_path: Path, text: str) -> None:
    (tmp_path / "f.yaml").write_text(f"oven: {{trays: {text}}}")
    for source in ({"flags": {"oven.trays": text}}, {"file": tmp_path / "f.yaml"}):
        with pytest.raises(SettingsError, match="expected auto or a whole number from 1 to 6"):
            load(TrayConfig, **source, environ={})


def test_only_the_flags_that_the_user_gave_reach_the_settings() -> None:
    assert _bake([]) == "{} False 180 False"
    assert _bake(["--heat", "200", "--quiet"]) == "{'oven.heat': '200'} True 200 False"
    assert _bake(["--enable-fan"]) == "{'oven.fan': True} False 180 True"
    assert _bake(["--no-enable-fan"]) == "{'oven.fan': False} False 180 False"


def test_help_shows_sections_sentences_units_choices_and_defaults() -> None:
    text = " ".join(_bake(["--help"]).split())
    assert "Section `oven`:" in text
    assert "--heat N Heat of the oven. [°C; default: 180]" in text
    assert "--enable-fan / --no-enable-fan Blow | stir the air. [default: off]" in text
    assert "--mode top|bottom Where from. [default: both]" in text
    assert "--dish PATH" in text


def test_help_has_an_argument_once_no_hidden_option_and_says_where_there_is_no_default() -> None:
    @click.command(cls=SettingsCommand)
    @click.argument("cake", help="The cake that is baked.")
    @click.option("--secret", hidden=True)
    @options(CakeConfig)
    def bake(**_: object) -> None:
        pass

    said = CliRunner().invoke(bake, ["--help"], catch_exceptions=False).output
    assert "--secret" not in said
    assert said.count("The cake that is baked.") == 1
    assert "default: none" in said.partition("--dish")[2]


def test_the_documentation_has_a_row_for_each_setting() -> None:
    lines = markdown(CakeConfig).splitlines()
    assert lines[0] == "**`oven`**: How it is baked."
    assert (
        "| `oven.heat` | `--heat` | `VOXYARD_HEAT` | a whole number from 0 and below 300 (°C) | 180 "
        "| Heat of the oven. |"
    ) in lines
    assert (
        "| `oven.fan` | `--enable-fan`<br>`--no-enable-fan` | `VOXYARD_ENABLE_FAN` | true or false | off "
        "| Blow \\| stir the air. |"
    ) in lines
    assert len(markdown(TrainConfig).splitlines()) > len(settings_of(TrainConfig))


def test_settings_are_frozen_and_refuse_unknown_names() -> None:
    """Programmatic use."""
    config = DataConfig(data_gpu=0, model_gpu=1, pipeline_buffer_size=75, model_start_delay=2.5)
    assert config.pipeline_buffer_size == 75
    with pytest.raises(ValidationError):
        config.pipeline_buffer_size = 3
    with pytest.raises(ValidationError):
        DataConfig(model_start_delay=float("nan"))
    with pytest.raises(ValidationError):
        TrainingConfig(learning_rate=float("inf"))
    with pytest.raises(ValidationError):
        DataConfig(pipeline_bufer_size=75)  # type: ignore[call-arg]


def test_what_differs_from_its_default_can_be_written_as_flags() -> None:
    config = CakeConfig(oven=OvenConfig(heat=200, fan=True, mode="top"))
    assert flags_of(config) == ("--heat", "200", "--enable-fan", "--mode", "top")
    assert flags_of(config, leave_out={"oven.mode", "oven.heat"}) == ("--enable-fan",)


def test_a_value_in_a_message_is_short_and_printable() -> None:
    assert found_words("hot") == "the text 'hot'"
    assert found_words("hot\u202e") == r"the text 'hot\u202e'"
    assert found_words("é" * 58) == f"the text {'é' * 58!r}"
    assert found_words("é" * 59) == f"the text '{'é' * 56}…"


def test_two_settings_with_one_flag_are_a_mistake_of_ours() -> None:
    class Twice(Section):
        oven: OvenConfig = Field(default_factory=OvenConfig)
        stove: OvenConfig = Field(default_factory=OvenConfig)

    with pytest.raises(TypeError, match="more than one setting has the flag --dish"):
        settings_of(Twice)


def test_a_model_without_sections_is_a_mistake_of_ours() -> None:
    with pytest.raises(TypeError, match=r"OvenConfig\.heat is no section"):
        load(OvenConfig, environ={})


def test_each_flag_of_the_trainer_that_users_are_told_of_is_there() -> None:
    """The names in the acceptance list."""
    told = """--train-data --val-data --model-size --batch-size --epochs --max-steps --num-workers
    --grad-accum --resume
    --checkpoint-dir --seed --data-gpu --model-gpu --buffer-size --model-start-delay --prefetch-buffer-size
    --enable-memory-isolation --data-gpu-memory --model-gpu-memory --enable-static-shapes
    --cache-dataset --cache-file
    --auto --xla --precision --recompute --strategy --init-from --model-module --metrics-port --device"""
    assert set(told.split()) <= {each.flag for each in settings_of(TrainConfig)}


def test_a_command_may_take_some_flags_only() -> None:
    @click.command()
    @options(TrainConfig, only=("model", "data.buckets"))
    def prepare(flags: dict[str, object]) -> None:
        click.echo(str(flags))

    assert CliRunner().invoke(prepare, ["--sample-rate", "16000"]).output == "{'model.sample_rate': '16000'}\n"
    assert CliRunner().invoke(prepare, ["--buckets", "2"]).output == "{'data.buckets': '2'}\n"
    assert CliRunner().invoke(prepare, ["--seed", "1"]).exit_code == 2


class ParallelSection(Section):
    """Number of ovens."""

    ovens: int = setting(4, "Ovens in use.", variable="MAX_OVENS", ge=1)


class Bakery(Section):
    """A model whose setting has a variable that others named."""

    parallel: ParallelSection = Field(default_factory=ParallelSection)


def test_a_variable_that_was_named_is_read_under_that_name_alone() -> None:
    assert load(Bakery, environ={"MAX_OVENS": "2"}).config.parallel.ovens == 2
    assert load(Bakery, environ={"VOXYARD_OVENS": "2"}).config.parallel.ovens == 4
    with pytest.raises(SettingsError, match="MAX_OVENS"):
        load(Bakery, environ={"MAX_OVENS": "none"})
    assert "`MAX_OVENS`" in markdown(Bakery)
