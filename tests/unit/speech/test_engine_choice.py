"""Rows of the engine that the settings choose, where one chunk is spoken at a time."""

from __future__ import annotations

import pytest

from voxyard.bark.config import BarkConfig
from voxyard.cli.engines import choose_engine
from voxyard.speech.config import SpeechSection
from voxyard.speech.errors import SpeechError


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
