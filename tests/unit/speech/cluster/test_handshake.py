"""Handshake of a worker on another host: release and weights must be the service's; a message that is lost ends it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tiny_model import write_model

from voxyard.bark.errors import BarkError
from voxyard.bark.weights.identity import identity
from voxyard.speech.cluster.ray_transport import Relay, Release, other_release, other_weights
from voxyard.speech.config import SpeechSection
from voxyard.speech.engine import EngineSpec, Ready
from voxyard.speech.pool.ipc import BeginDecoding, EngineReady
from voxyard.speech.pool.worker_process import Device, ProcessEnded


def test_the_same_release_is_taken() -> None:
    assert other_release(Release.here()) is None


@pytest.mark.parametrize("part", ["voxyard", "python", "ray"])
def test_another_release_is_refused_and_both_are_named(part: str) -> None:
    other = replace(Release.here(), **{part: "9.9"})

    message = other_release(other)

    assert message is not None
    assert str(other) in message
    assert str(Release.here()) in message


def test_other_weights_are_refused_and_both_digests_are_named() -> None:
    engine = EngineSpec("engines:tones", weights="aaaa")

    assert other_weights(EngineReady(Ready(4, facts={"weights": "aaaa"})), engine) is None
    message = other_weights(EngineReady(Ready(4, facts={"weights": "bbbb"})), engine)
    assert message is not None
    assert "bbbb" in message
    assert "aaaa" in message


def test_an_engine_without_weights_has_none_to_compare() -> None:
    assert other_weights(EngineReady(Ready(4)), EngineSpec("engines:tones")) is None


def test_the_identity_of_a_model_follows_from_its_files(tmp_path: Path) -> None:
    one, two = write_model(tmp_path / "one"), write_model(tmp_path / "two")
    assert identity(one) == identity(two)
    weights = two / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\1")

    assert identity(one) != identity(two)


def test_a_model_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BarkError, match="cannot be read"):
        identity(tmp_path / "none")


def test_a_message_that_was_lost_ends_the_worker() -> None:
    relay = Relay(Device("cpu0"), EngineSpec("engines:tones", {"opening": 60}), 0.2, SpeechSection())
    messages = relay.messages()
    try:
        relay.send(0, BeginDecoding(1))
        relay.send(2, BeginDecoding(1))
        ended = next(each for each in messages if isinstance(each, ProcessEnded))
    finally:
        assert relay._process is not None
        relay._process.kill()

    assert ended.cause == "left"
    assert "message 1 of the pool was lost" in ended.reason
