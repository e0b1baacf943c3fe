"""Playback: a stream that its listener outruns is measured, one that the listener pauses is not."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import httpx
import numpy as np
import pytest
from eventually import eventually
from live_service import live
from prometheus_client import CollectorRegistry
from service_app import running

from voxyard.service.app import create_app
from voxyard.service.http.metrics import ServiceMetrics
from voxyard.service.state import AppState
from voxyard.service.streaming.audio_response import Playback, StreamEncoder
from voxyard.speech.audio.encoder import Encoder
from voxyard.speech.audio.joining import Piece
from voxyard.speech.requests import SAMPLE_RATE

TWO_CHUNKS = "This is the first sentence of the text. And this is the second one of them."
SLOW = {"samples": 6, "seconds": 0.5, "rows": 1}
"""A chunk of a hundredth of a second of sound takes half a second; the pause between the two is a quarter."""


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def played(*moves: tuple[str, float]) -> Playback:
    """What a listener met: (`sends`, seconds of sound), (`taken`, seconds later), (`passes`, seconds)."""
    clock = Clock()
    playback = Playback(clock)
    for what, seconds in moves:
        if what == "sends":
            playback.sends(seconds)
        else:
            clock.now += seconds
            if what == "taken":
                playback.taken()
    return playback


@pytest.mark.parametrize(
    ("moves", "waited"),
    [
        ([], 0.0),
        ([("taken", 0), ("passes", 30), ("sends", 5)], 0.0),  # before the first sound nothing is outrun
        ([("sends", 5), ("taken", 0), ("passes", 5), ("sends", 5)], 0.0),
        ([("sends", 5), ("taken", 0), ("passes", 7), ("sends", 5)], 2.0),
        ([("sends", 5), ("taken", 0), ("passes", 7), ("sends", 5), ("taken", 0), ("passes", 6), ("sends", 1)], 3.0),
        ([("sends", 5), ("sends", 5), ("taken", 0), ("passes", 9), ("sends", 1)], 0.0),  # what is ahead counts
        ([("sends", 5), ("taken", 60), ("passes", 1), ("sends", 5)], 1.0),  # the listener had paused
        ([("sends", 5), ("taken", 0), ("passes", 8)], 3.0),  # the listener leaves while it waits
        ([("sends", 5), ("passes", 60)], 0.0),  # and while it has paused
    ],
)
def test_a_listener_waits_where_all_that_was_sent_is_heard(moves: list[tuple[str, float]], waited: float) -> None:
    assert played(*moves).waited == pytest.approx(waited)


async def spoken(count: int, closed: list[int]) -> AsyncGenerator[int, None]:
    try:
        for number in range(count):
            yield number
    finally:
        closed.append(count)


def tone(number: int) -> Piece:
    return Piece(
        number, np.full(SAMPLE_RATE, 0.25, np.float32), number * SAMPLE_RATE, (number + 1) * SAMPLE_RATE, SAMPLE_RATE
    )


def test_a_stream_without_a_sound_is_not_reported() -> None:
    found, closed = list[float](), list[int]()

    async def read(count: int) -> list[bytes]:
        encoder = StreamEncoder(tone, "wav", heard=found.append)
        return [block async for block in encoder.encoded(spoken(count, closed), count)]

    assert anyio.run(read, 0) == []
    assert found == []
    first, last = anyio.run(read, 2)
    assert len(first) + len(last) == 44 + 2 * 2 * SAMPLE_RATE
    assert found == [0.0]
    assert closed == [0, 2]


def test_the_end_comes_with_the_last_part() -> None:
    """A listener of one sentence gets all of it at once, from one turn of a thread."""
    encoder = StreamEncoder(tone, "mp3")

    async def read() -> list[bytes]:
        return [block async for block in encoder.encoded(spoken(1, []), 1)]

    (whole,) = anyio.run(read)
    with Encoder("mp3") as alone:
        assert whole == alone.encode(tone(0).audio) + alone.finish()
    assert encoder.position == SAMPLE_RATE


def test_a_stream_that_is_left_closes_what_is_spoken_for_it() -> None:
    found, closed = list[float](), list[int]()

    async def leave() -> None:
        blocks = StreamEncoder(tone, "wav", heard=found.append).encoded(spoken(9, closed), 9)
        await anext(blocks)
        await blocks.aclose()
        assert closed == [9]  # at once, not when the loop ends

    anyio.run(leave)
    assert found == [0.0]


def value(state: AppState, part: str) -> float:
    found = state.registry.get_sample_value(f"voxyard_service_stream_underrun_seconds_{part}")
    assert found is not None
    return found


@pytest.mark.slow
def test_a_slow_voice_is_outrun_and_a_fast_one_is_not(tmp_path: Path) -> None:
    for name, engine in (("slow", SLOW), ("fast", {"samples": 24_000})):
        with running(tmp_path / name, engine=engine) as state, live(create_app(state), state.section) as address:
            body = {"model": "tts-1", "voice": "alloy", "input": TWO_CHUNKS, "response_format": "pcm"}
            assert httpx.post(f"{address}/v1/audio/speech", json=body).status_code == 200
            assert value(state, "count") == 1
            assert (value(state, "sum") > 0.1) is (name == "slow")


def test_a_document_that_is_played_while_it_is_spoken_counts_and_one_that_is_read_later_does_not(
    tmp_path: Path,
) -> None:
    with running(tmp_path, engine=SLOW | {"held": 1}) as state, live(create_app(state), state.section) as address:
        id = httpx.post(f"{address}/v1/documents", json={"text": TWO_CHUNKS}).json()["id"]
        audio = f"{address}/v1/documents/{id}/audio?format=wav&speed=1.5"
        with httpx.stream("GET", audio, timeout=60) as answer:
            for _ in answer.iter_raw():
                (tmp_path / "on").touch()  # the first part is heard, the other one begins
        eventually(lambda: value(state, "count") == 1, "the stream is counted")
        assert value(state, "sum") > 0.1
        eventually(lambda: state.store.document(id).state == "completed", "it is spoken")
        assert httpx.get(audio).status_code == 200
        assert value(state, "count") == 1


def test_documents_are_counted_by_how_they_end(tmp_path: Path) -> None:
    with running(tmp_path, engine={"samples": 6}) as state, live(create_app(state), state.section) as address:

        def ended(outcome: str) -> float | None:
            name = "voxyard_service_documents_ended_total"
            return state.registry.get_sample_value(name, {"outcome": outcome})

        assert [ended(each) for each in ("completed", "failed", "refused")] == [0, 0, 0]
        httpx.post(f"{address}/v1/documents", json={"text": TWO_CHUNKS})
        file = {"file": ("a.pdf", b"%PDF-1.7\nno pages", "application/pdf")}
        assert httpx.post(f"{address}/v1/documents", files=file).status_code == 202
        eventually(lambda: (ended("completed"), ended("refused")) == (1, 1), "one is spoken, one cannot be read")
        assert ended("failed") == 0


def test_ends_are_told_without_the_database() -> None:
    registry = CollectorRegistry()
    ServiceMetrics(registry, ended=lambda: {"failed": 2})
    name = "voxyard_service_documents_ended_total"
    assert registry.get_sample_value(name, {"outcome": "failed"}) == 2
