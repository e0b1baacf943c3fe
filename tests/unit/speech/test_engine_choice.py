"""The engine that the settings choose: an own one, and rows where one chunk is spoken at a time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import wave
from pathlib import Path

import pytest
from pydantic import ValidationError

from voxyard.bark.config import BarkConfig
from voxyard.cli.engines import choose_engine
from voxyard.speech.config import SpeechSection
from voxyard.speech.errors import SpeechError
from voxyard.speech.frontend import open_frontend


def rows(*, parallel: bool, **bark: object) -> object:
    speech = SpeechSection(engine="bark", enable_parallel_tts=parallel)
    return choose_engine(speech, BarkConfig.model_validate(bark), {}).settings["batch_size"]


def test_one_chunk_at_a_time_has_the_cache_of_one_row() -> None:
    """ENABLE_PARALLEL_TTS=false saves the memory of the rows, and not their use alone."""
    assert rows(parallel=False) == 1
    assert rows(parallel=True) == "auto"


def test_a_number_of_rows_that_is_given_stays() -> None:
    """It keeps the sound of a seed."""
    assert rows(parallel=False, batch_size=8) == 8


def test_a_budget_for_one_row_is_refused() -> None:
    with pytest.raises(SpeechError, match="--memory-budget has no effect with --no-parallel"):
        rows(parallel=False, memory_budget=6)


def test_an_engine_of_ones_own_gets_what_was_set() -> None:
    speech = SpeechSection(engine="frontends:frontend")
    chosen = choose_engine(speech, BarkConfig(model=Path("voice"), threads=3), {"bark.model": "--model"})
    assert (chosen.frontend, chosen.settings, chosen.device) == ("frontends:frontend", {"model": "voice"}, "auto")


@pytest.mark.parametrize(
    ("engine", "origins", "said"),
    [
        ("no_such_module:frontend", {}, "engine no_such_module:frontend: No module named 'no_such_module'"),
        ("frontends:none", {}, "has no attribute 'none'; expected package.module:factory"),
        ("frontends:frontend", {"bark.int8": "--int8"}, "--int8 has no effect with --engine frontends:frontend"),
    ],
)
def test_an_engine_of_ones_own_is_looked_for_before_a_worker_starts(
    engine: str, origins: dict[str, str], said: str
) -> None:
    with pytest.raises(SpeechError) as refused:
        choose_engine(SpeechSection(engine=engine), BarkConfig(), origins)
    assert said in str(refused.value)


def test_a_name_that_is_no_engine_is_told_what_there_is() -> None:
    with pytest.raises(ValidationError, match="found 'brak', expected auto, bark, voxyard, espeak, openai, or package"):
        SpeechSection(engine="brak")


@pytest.mark.slow
def test_the_engine_of_the_guide_speaks(tmp_path: Path) -> None:
    guide = Path(__file__).resolve().parents[3] / "runtime/voxyard/speech/README.md"
    (code,) = re.findall(r"```python\n(.*?)```", guide.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "hum.py").write_text(code)
    (tmp_path / "text.txt").write_text("Hello there.")
    command = [sys.executable, "-m", "voxyard", "speak", "text.txt", "--engine", "hum:frontend", "--out", "hum.wav"]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": "."}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with wave.open(str(tmp_path / "hum.wav")) as sound:
        assert sound.getnframes() >= 1500 * len("Hello there.")


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        ("os:getcwd", r"engine os:getcwd raised TypeError: .*; expected a function that takes the settings"),
        ("builtins:len", r"engine builtins:len: found int without check_voice, count_tokens, .*; expected a front end"),
        ("math:fsum", r"engine math:fsum raised TypeError"),
    ],
)
def test_a_factory_that_makes_no_front_end_is_named(factory: str, said: str) -> None:
    with pytest.raises(SpeechError, match=said):
        open_frontend(factory, {"model": "voice"})
