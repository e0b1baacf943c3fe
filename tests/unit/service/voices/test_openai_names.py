"""OpenAI's voice names: Bark's presets by the table, and the voices of any other engine in turn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from frontends import TonesFrontend

from voxyard.service.errors import ServiceError
from voxyard.service.names import open_voices
from voxyard.speech.cast import OPENAI_VOICES


class Speakers(TonesFrontend):
    """An engine with speakers of its own; the first is the default."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        object.__setattr__(self, "names", names)

    names: tuple[str, ...]

    def voices(self) -> Sequence[str]:
        return sorted(self.names)

    def default_voice(self, language: str | None) -> str | None:
        return self.names[0]


def aliases(*names: str, path: Path | None = None) -> dict[str, str | None]:
    return {each.name: each.alias_of for each in open_voices(Speakers(*names), path).all()}


def test_with_one_speaker_all_of_them_are_that_one() -> None:
    found = aliases("mia")
    assert found == {"mia": None, **dict.fromkeys(OPENAI_VOICES, "mia")}
    assert open_voices(Speakers("mia"), None).resolve("alloy") == "mia"


def test_several_speakers_have_them_in_turn_beginning_with_the_default() -> None:
    found = aliases("mia", "zoe", "ben")
    assert [found[name] for name in ("alloy", "ash", "ballad", "cedar", "coral")] == ["mia", "ben", "zoe", "mia", "ben"]
    assert set(found) == {"mia", "zoe", "ben", *OPENAI_VOICES}


def test_a_speaker_of_such_a_name_keeps_it_and_the_operators_file_goes_first(tmp_path: Path) -> None:
    names = tmp_path / "voices.yaml"
    names.write_text("echo: zoe\nnarrator: ben\n")
    found = aliases("alloy", "zoe", "ben", path=names)
    assert (found["alloy"], found["echo"], found["narrator"]) == (None, "zoe", "ben")
    names.write_text("narrator: v2/en_speaker_6\n")
    with pytest.raises(ServiceError, match="no voice 'v2/en_speaker_6'; it has alloy, ben, zoe"):
        aliases("alloy", "zoe", "ben", path=names)


def test_barks_presets_have_the_table() -> None:
    found = {each.name: each.alias_of for each in open_voices(TonesFrontend(), None).all()}
    assert {name: found[name] for name in OPENAI_VOICES} == OPENAI_VOICES
