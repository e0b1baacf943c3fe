"""Uploaded and mixed voices with the real engine: workers that started before the upload speak with them."""

from __future__ import annotations

import io
import signal
from collections.abc import Callable

import httpx
import numpy as np
from served_bark import ServedBark, finished

from voxyard.bark import pipeline, voices
from voxyard.bark.model import coarse
from voxyard.bark.weights.checkpoint import BarkCheckpoint
from voxyard.speech.requests import Request

TEXT = "The harbour lay still. Nobody was awake."
HERE, THERE = "v2/en_speaker_6", "v2/de_speaker_3"


def spoken(client: httpx.Client, voice: str) -> bytes:
    body = {"model": "tts-1", "input": "Good morning.", "voice": voice, "response_format": "pcm", "seed": 3}
    answer = client.post("/v1/audio/speech", json=body)
    assert answer.status_code == 200, answer.text
    return answer.content


def test_uploaded_voices_sound_as_the_same_voices_of_the_engine(start: Callable[[], ServedBark]) -> None:
    service = start()
    client = service.client
    voice, file = voices.load(HERE), io.BytesIO()
    np.savez(file, **{key: getattr(voice, key) for key in ("semantic_prompt", "coarse_prompt", "fine_prompt")})
    sent = {"data": {"name": "mine", "language": "en"}, "files": {"file": ("mine.npz", file.getvalue())}}
    answer = client.post("/v1/audio/voices", **sent)  # type: ignore[arg-type]
    assert answer.status_code == 201, answer.text
    for name, mix in (
        ("same", {"manner": HERE, "timbre": "mine"}),
        ("manner", {"manner": "mine", "timbre": THERE}),
        ("timbre", {"manner": THERE, "timbre": "mine"}),
    ):
        assert client.post("/v1/audio/voices", json={"name": name, "mix": mix}).status_code == 201

    mine, there = spoken(client, HERE), spoken(client, THERE)
    assert spoken(client, "mine") == spoken(client, "same") == mine
    assert spoken(client, "manner") != mine != there  # random weights hear the timbre more than the manner
    assert spoken(client, "timbre") != there

    def document(voice: str) -> str:
        answer = client.post("/v1/documents", json={"text": TEXT, "voice": voice, "seed": 3})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    of_preset, of_upload = document(HERE), document("mine")
    client.delete("/v1/audio/voices/mine")
    assert finished(client, of_upload) == finished(client, of_preset)
    broken = client.post("/v1/audio/voices", data={"name": "x"}, files={"file": ("x.npz", file.getvalue()[:-99])})
    assert (broken.status_code, broken.json()["error"]["code"]) == (400, "invalid_voice")
    assert service.end(signal.SIGTERM) == 0


def test_each_stage_continues_its_part_of_a_mixed_voice(checkpoint: BarkCheckpoint) -> None:
    manner, timbre = voices.load(HERE), voices.load(THERE)
    mixed = voices.mix("both", manner, timbre)
    work = pipeline.ChunkWork(0, Request(0, TEXT, "both"), mixed, [5, 6, 7])

    semantic = pipeline._semantic_work(work)

    assert semantic.history is not None
    assert np.array_equal(semantic.history, manner.semantic_prompt)
    layout = checkpoint.layout.coarse
    assert coarse.history(mixed, layout) == coarse.history(timbre, layout) != coarse.history(manner, layout)
    assert np.array_equal(mixed.fine_prompt, timbre.fine_prompt)
