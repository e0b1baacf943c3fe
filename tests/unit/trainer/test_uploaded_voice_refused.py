"""A trained voice and a request in an uploaded one: refused, not spoken by somebody else."""

from __future__ import annotations

from typing import Any, cast

from voxyard.speech.requests import Request, Unspeakable
from voxyard.trainer.voice.engine import VoiceEngine


def test_a_chunk_in_an_uploaded_voice_is_refused() -> None:
    engine = VoiceEngine({"model": "nowhere"})
    engine._loaded = engine._voice = cast("Any", (None, None))

    answer = engine._answer(Request(0, "Good morning.", "captain#1", voice_file=b"file"))

    assert isinstance(answer, Unspeakable)
    assert "uploaded file" in answer.reason
