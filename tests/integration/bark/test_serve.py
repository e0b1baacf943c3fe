"""`voxyard serve` with the real engine on a tiny model: OpenAI's own client."""

from __future__ import annotations

import io
import signal
from collections.abc import Callable

import av
from openai import OpenAI
from served_bark import STORY, ServedBark


def test_the_openai_client_streams_an_mp3(start: Callable[[], ServedBark]) -> None:
    service = start()
    client = OpenAI(base_url=f"{service.address}/v1", api_key="none is asked for", max_retries=0)
    got = io.BytesIO()
    with client.audio.speech.with_streaming_response.create(
        model="tts-1", voice="alloy", input=STORY[:400], response_format="mp3"
    ) as answer:
        for piece in answer.iter_bytes():
            got.write(piece)

    with av.open(io.BytesIO(got.getvalue()), "r") as sound:
        seconds = sum(frame.samples for frame in sound.decode(audio=0)) / 24_000
    assert seconds > 2
    assert service.end(signal.SIGTERM) == 0
    assert any("the weights in" in line and "are random" in line for line in service.noted)
