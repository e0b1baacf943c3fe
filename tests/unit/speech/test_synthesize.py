"""A script from its first chunk to its last: order, failures, progress, interrupts."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engines import sound

from voxyard.speech.audio.joining import Pauses
from voxyard.speech.audio.wav import rounded
from voxyard.speech.engine import EngineSpec
from voxyard.speech.pool.job import Progress
from voxyard.speech.pool.limits import PoolLimits
from voxyard.speech.pool.pool import Pool
from voxyard.speech.pool.worker_process import Device
from voxyard.speech.requests import Request
from voxyard.speech.script import Script
from voxyard.speech.synthesize import SynthesisResult, synthesize
from voxyard.speech.text.chunks import TextChunk

PAUSES = Pauses(sentence=0.1, fade=0)


@contextlib.contextmanager
def pool(tmp_path: Path, **settings: Any) -> Iterator[Pool]:
    engine = EngineSpec("engines:tones", {"marks": str(tmp_path), "rows": 2, **settings})
    with Pool(engine, [Device("cpu0"), Device("cpu1")], limits=PoolLimits(backoff=0.01), heartbeat_seconds=0.2) as made:
        yield made


def script(count: int = 9) -> Script:
    texts = [f"sentence {number} " * (1 + number % 3) for number in range(count)]
    chunks = tuple(TextChunk(n, text, 0, len(text), "sentence", 1.0, 2) for n, text in enumerate(texts))
    return Script(chunks, tuple(Request(n, text, seed=7) for n, text in enumerate(texts)))


def test_the_pieces_are_the_chunks_in_text_order_with_their_pauses(tmp_path: Path) -> None:
    spoken, result = script(), SynthesisResult(9)
    written: list[np.ndarray[Any, np.dtype[np.float32]]] = []
    with pool(tmp_path) as speaking:
        synthesize(spoken, speaking, written.append, PAUSES, result)

    pause = np.zeros(2400, np.float32)
    sounds = [sound(request) for request in spoken.requests]
    expected = [sounds[0], *(np.concatenate([pause, each]) for each in sounds[1:])]
    assert [len(each) for each in written] == [len(each) for each in expected]
    np.testing.assert_array_equal(np.concatenate(written), rounded(np.concatenate(expected)))
    assert result.chunks == 9
    assert result.audio_seconds == pytest.approx(sum(map(len, expected)) / 24_000)
    assert result.batch_sizes == {2: 9}
    assert result.failures == []


def test_the_seconds_of_the_work_are_those_that_passed(tmp_path: Path) -> None:
    result = SynthesisResult(9)
    with pool(tmp_path) as speaking:
        began = time.monotonic()
        synthesize(script(), speaking, lambda _: None, PAUSES, result)
        passed = time.monotonic() - began

    assert 0 < result.seconds <= passed
    assert result.real_time_factor == result.seconds / result.audio_seconds


def test_a_chunk_that_fails_is_named_and_the_others_are_spoken(tmp_path: Path) -> None:
    result = SynthesisResult(9)
    written: list[np.ndarray[Any, np.dtype[np.float32]]] = []
    with pool(tmp_path, poison=[4]) as speaking:
        synthesize(script(), speaking, written.append, PAUSES, result)

    assert [(each.index, each.text) for each in result.failures] == [(4, script().requests[4].text)]
    assert result.chunks == 9
    assert not written[4].any()
    assert len(written[4]) == 2400 + 24_000  # the pause, and the second that was estimated


def test_what_the_writer_raises_ends_the_job(tmp_path: Path) -> None:
    def full(_: object) -> None:
        raise OSError("no space")

    result = SynthesisResult(9)
    with pool(tmp_path) as speaking, pytest.raises(OSError, match="no space"):
        synthesize(script(), speaking, full, PAUSES, result)

    assert result.chunks == 0


def test_what_is_spoken_before_it_can_be_written_is_counted(tmp_path: Path) -> None:
    result = SynthesisResult(9)

    def write(_: object) -> None:
        raise KeyboardInterrupt

    with pool(tmp_path) as speaking, pytest.raises(KeyboardInterrupt):
        synthesize(script(), speaking, write, PAUSES, result)

    assert result.chunks == 0
    assert 1 <= result.spoken <= 9


def test_the_progress_ends_with_everything_done(tmp_path: Path) -> None:
    seen: list[Progress] = []
    with pool(tmp_path) as speaking:
        synthesize(script(), speaking, lambda _: None, PAUSES, SynthesisResult(9), seen.append)

    assert seen[-1].done == seen[-1].total == 9
    assert seen[-1].share == 1.0
    assert all(0 <= each.share <= 1 for each in seen)
