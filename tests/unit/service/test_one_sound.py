"""One seed, one sound: `voxyard speak`, the speech endpoint and documents give the same samples."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import httpx
import numpy as np
import pytest
from eventually import eventually
from service_app import Served, serving

from voxyard.speech.audio.encoder import Encoder, Format
from voxyard.speech.audio.joining import Pauses
from voxyard.speech.audio.sound_file import open_sound
from voxyard.speech.audio.wav import data_start
from voxyard.speech.script import prepare_script
from voxyard.speech.synthesize import SynthesisResult, synthesize

TEXT = """The harbour lay still that night, and nobody was awake at all. It was late. A bell rang far out on the water.

Nobody came to the door. "Who is there?" he asked, and the lamp went out."""
VOICE, SEED = "v2/en_speaker_3", 11
LOSSLESS: tuple[Format, ...] = ("wav", "pcm", "flac")
Samples = list[int]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("sound"), engine={"samples": 2400, "seconds": 0.4, "rows": 2}) as served:
        yield served


def samples(content: bytes, kind: str) -> Samples:
    """Samples of a file, 16 bit."""
    if kind == "flac":
        with av.open(io.BytesIO(content), "r", format="flac") as container:
            frames = [frame.to_ndarray()[0] for frame in container.decode(audio=0)]
        return [int(each) for each in np.concatenate(frames)]
    start = data_start(content[:4]) if kind == "wav" else 0
    return [int(each) for each in np.frombuffer(content[start:], "<i2")]


def spoken(served: Served, path: Path) -> Samples:
    """Samples of the file that `speak` writes."""
    script = prepare_script(TEXT, served.state.frontend, voice=VOICE, seed=SEED)
    with open_sound(path) as file:
        synthesize(script, served.state.pool, file.write, Pauses(), SynthesisResult(len(script.chunks)))
    return samples(path.read_bytes(), path.suffix[1:])


def asked(served: Served, kind: str, **options: Any) -> bytes:
    """The answer of the speech endpoint."""
    body = {"model": "tts-1", "input": TEXT, "voice": VOICE, "seed": SEED, "response_format": kind, **options}
    answer = httpx.post(f"{served.url}/v1/audio/speech", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.content


def document(served: Served) -> str:
    """Address of a new document's audio."""
    answer = httpx.post(f"{served.url}/v1/documents", json={"text": TEXT, "voice": VOICE, "seed": SEED}, timeout=60)
    return str(served.url + answer.json()["audio"]["url"])


def got(address: str, kind: str, **options: Any) -> bytes:
    return httpx.get(address, params={"format": kind, **options}, timeout=60).content


def wait_until_complete(address: str) -> None:
    about = address.removesuffix("/audio")
    eventually(lambda: httpx.get(about).json()["state"] == "completed", "the document is complete")


@pytest.mark.parametrize("kind", LOSSLESS)
def test_speak_and_every_way_of_the_service_give_the_same_samples(served: Served, kind: str, tmp_path: Path) -> None:
    expected = spoken(served, tmp_path / f"speak.{kind}")
    events = asked(served, kind, stream_format="sse").decode().split("\n\n")
    deltas = [json.loads(event.removeprefix("data: ")) for event in events if "speech.audio.delta" in event]
    growing = document(served)
    script = prepare_script(TEXT, served.state.frontend, voice=VOICE, seed=SEED)
    assert (script.chunks[0].text, script.chunks[0].ending) == ("The harbour lay still that night,", "clause")

    ways = {
        "speech endpoint": asked(served, kind),
        "speech events": b"".join(base64.b64decode(each["audio"]) for each in deltas),
        "document while it grows": got(growing, kind),
    }
    wait_until_complete(growing)
    ways["complete document"] = got(growing, kind)

    assert len(expected) > 24_000
    assert {way: samples(content, kind) == expected for way, content in ways.items()} == dict.fromkeys(ways, True)


def test_a_document_at_another_speed_is_the_same_before_and_after_it_is_complete(served: Served) -> None:
    growing = document(served)
    before = got(growing, "pcm", speed=1.25)
    wait_until_complete(growing)

    assert got(growing, "pcm", speed=1.25) == before == asked(served, "pcm", speed=1.25)


@pytest.mark.slow
def test_a_lossy_format_gets_the_same_input_everywhere(served: Served, tmp_path: Path) -> None:
    whole = np.array(spoken(served, tmp_path / "speak.wav"), np.float32) / np.float32(32_767)
    with Encoder("mp3") as encoder:
        expected = encoder.encode(whole) + encoder.finish()

    address = document(served)
    wait_until_complete(address)

    assert asked(served, "mp3") == expected
    assert got(address, "mp3").startswith(b"ID3")
    assert got(address, "mp3").endswith(expected)
