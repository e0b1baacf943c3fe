"""The words that a machine without weights speaks: through the service, and from a file."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import httpx
import numpy as np
import pytest
from epubs import epub, png
from eventually import PATIENCE
from numpy.typing import NDArray
from openai import OpenAI
from served_bark import Served, finished

from voxyard.speech.verification.pocketsphinx import recogniser

ROOT = Path(__file__).resolve().parents[3]
SENTENCE = "Hello, how are you today?"  # of which a small recogniser hears every word
HEARD = "hello how are you today"

pytestmark = pytest.mark.slow


def samples_of(sound: bytes) -> NDArray[np.float32]:
    with av.open(io.BytesIO(sound), "r") as opened:
        resampler = av.AudioResampler(format="flt", layout="mono", rate=24_000)
        parts = [part.to_ndarray()[0] for frame in opened.decode(audio=0) for part in resampler.resample(frame)]
    return np.concatenate(parts)


def heard(sound: bytes) -> str:
    return recogniser().words(samples_of(sound), 24_000, "en")


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """The service as it starts where there is no directory of weights."""
    monkeypatch.chdir(tmp_path)
    started = Served(tmp_path / "data")
    yield started
    if started.process.poll() is None:
        started.end(signal.SIGTERM)


def test_the_service_speaks_words_without_weights(service: Served) -> None:
    client = OpenAI(base_url=f"{service.address}/v1", api_key="none is asked for", max_retries=0)
    assert heard(client.audio.speech.create(model="tts-1", voice="alloy", input=SENTENCE).content) == HEARD
    made = service.client.post("/v1/documents", json={"text": SENTENCE, "voice": "en-us"})
    assert heard(finished(service.client, made.json()["id"])) == HEARD
    refused = httpx.post(f"{service.address}/v1/audio/speech", json={"model": "tts-1", "voice": "mia", "input": "A."})
    assert refused.status_code == 404, refused.text
    assert service.end(signal.SIGTERM) == 0
    assert sum("espeak-ng speaks (a formant synthesizer" in line for line in service.noted) == 1


@pytest.mark.needs("curl")
def test_the_command_of_the_readme_gets_speech_with_its_sentence(tmp_path: Path) -> None:
    """As `make serve` starts it in a fresh clone, and as the first page says to ask it."""
    (command,) = re.findall(r"^curl (?:[^\n]*\\\n)*[^\n]*", (ROOT / "README.md").read_text(), re.MULTILINE)
    (started,) = re.findall(r"^\t@\$\(BIN\)/voxyard serve (.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert "$(if $(MODEL),--model" in started
    assert ",--engine espeak)" in started
    arguments = shlex.split(command.replace("\\\n", " "))
    sentence = next(json.loads(each)["input"] for each in arguments if each.startswith("{"))
    service = Served(tmp_path / "data", "--engine", "espeak")
    try:
        asked = [each.replace("http://127.0.0.1:8080", service.address) for each in arguments]
        assert asked != arguments
        said = subprocess.run(asked, cwd=tmp_path, check=True, capture_output=True, text=True, timeout=PATIENCE).stdout
        assert re.fullmatch(r"200 \d+ bytes\n", said)
        (sound,) = (each for each in tmp_path.iterdir() if each.is_file())
        assert heard(sound.read_bytes()).split() == re.findall(r"\w+", sentence.lower())
        assert service.end(signal.SIGTERM) == 0
    finally:
        if service.process.poll() is None:
            service.process.kill()
            service.process.wait()


def test_two_voices_speak_their_own_words(service: Served) -> None:
    """Each in the voice that the text names: the same sentence sounds otherwise, and is heard the same."""
    text = f"[voice:mia]{SENTENCE}[/voice]\n\n[voice:ben]{SENTENCE}[/voice]"
    body = {"text": text, "cast": {"mia": "en-us+f4", "ben": "en-us"}}
    id = service.client.post("/v1/documents", json=body).json()["id"]
    sound = finished(service.client, id)
    chunks = service.client.get(f"/v1/documents/{id}?chunks=true").json()["chunks"]
    with wave.open(io.BytesIO(sound)) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    parts = [samples[round(each["start_seconds"] * 24_000) : round(each["end_seconds"] * 24_000)] for each in chunks]
    mia, ben = (heard(_wav(part)) for part in parts)
    assert (mia, ben) == (HEARD, HEARD)
    length = min(map(len, parts))
    assert not np.array_equal(parts[0][:length], parts[1][:length])
    assert [each["speaker"] for each in chunks] == ["mia", "ben"]
    vtt = service.client.get(f"/v1/documents/{id}/subtitles?format=vtt").text
    assert [f"<v {name}>{SENTENCE}" in vtt for name in ("mia", "ben")] == [True, True]


def test_another_service_speaks_by_it_over_openais_api(service: Served, tmp_path: Path) -> None:
    """The far end is our own service: its voices are offered, a cast of them speaks, and its words are heard."""
    near = Served(tmp_path / "near", "--engine", "openai", "--base-url", f"{service.address}/v1")
    try:
        voices = {each["id"] for each in near.client.get("/v1/audio/voices").json()["voices"]}
        assert {"en-us", "de+f4", "alloy"} <= voices
        models = {each["id"] for each in near.client.get("/v1/models").json()["data"]}
        assert "espeak-ng" in models
        for voice in ("en-us", "en-us+f4"):
            body = {"text": f"[voice:mia]{SENTENCE}[/voice]", "cast": {"mia": voice}}
            id = near.client.post("/v1/documents", json=body).json()["id"]
            assert heard(finished(near.client, id)) == HEARD
        assert near.end(signal.SIGTERM) == 0
    finally:
        if near.process.poll() is None:
            near.process.kill()
            near.process.wait()


def _wav(samples: np.ndarray[Any, Any]) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(24_000)
        file.writeframes(samples.tobytes())
    return out.getvalue()


def test_a_cast_of_the_command_speaks_a_file(tmp_path: Path) -> None:
    (tmp_path / "story.txt").write_text(f"{SENTENCE}[voice:mia]\n\n{SENTENCE}[/voice]")
    command = [sys.executable, "-P", "-m", "voxyard", "speak", "story.txt", "--cast", "mia=en-us+m1,narrator=alloy"]
    done = subprocess.run([*command, "--out", "story.mp3"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert heard((tmp_path / "story.mp3").read_bytes()) == f"{HEARD} {HEARD}"
    shown = subprocess.run([*command, "--show-words"], cwd=tmp_path, capture_output=True, text=True)
    assert f"mia: {SENTENCE}" in shown.stdout
    assert f"narrator: {SENTENCE}" in shown.stdout
    refused = subprocess.run([*command[:-1], "ben=de", "--out", "b.mp3"], cwd=tmp_path, capture_output=True, text=True)
    assert refused.returncode == 2
    assert "the text names the voice 'mia', and the cast has ben" in refused.stderr


def test_a_book_of_two_voices_is_an_audiobook_whose_captions_name_the_speakers(tmp_path: Path) -> None:
    texts = {"One": f"[voice:mia]{SENTENCE}[/voice]", "[voice:ben]Two[/voice]": f"[voice:ben]{SENTENCE}[/voice]"}
    (tmp_path / "book.epub").write_bytes(epub(texts, title="The harbour", author="Bo Ek", cover=png()))
    command = [sys.executable, "-P", "-m", "voxyard", "speak", "book.epub", "--cast"]
    cast = "narrator=en-us,mia=en-us+m1,ben=en-us"
    done = subprocess.run([*command, cast, "--out", "book.m4b"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert sorted(each.name for each in tmp_path.iterdir()) == ["book.epub", "book.m4b", "book.vtt"]
    with av.open(tmp_path / "book.m4b") as book:
        assert (book.metadata["title"], book.metadata["artist"], len(book.streams.video)) == ("The harbour", "Bo Ek", 1)
        assert book.streams.audio[0].metadata["language"] == "eng"
        starts = [(each["metadata"]["title"], each["start"] * (each["time_base"] or 0)) for each in book.chapters()]
        length = (book.duration or 0) / av.time_base
    captions = (tmp_path / "book.vtt").read_text()
    told = re.findall(r"(\S+) --> (\S+)\n<v (\w+)>(.+)", captions)
    said = [(who, words) for _, _, who, words in told]
    assert said == [("narrator", "One"), ("mia", SENTENCE), ("ben", "Two"), ("ben", SENTENCE)], captions
    begins, ends = ([_seconds(times[place]) for times in told] for place in (0, 1))
    assert starts == [("One", 0.0), ("Two", pytest.approx(begins[2], abs=0.01))]
    assert ends[-1] == pytest.approx(length, abs=0.1)
    sound = samples_of((tmp_path / "book.m4b").read_bytes())
    parts = [sound[round(begin * 24_000) : round(end * 24_000)] for begin, end in zip(begins, ends, strict=True)]
    assert recogniser().words(parts[1], 24_000, "en") == HEARD
    assert recogniser().words(parts[3], 24_000, "en").endswith("how are you today")
    if shutil.which("ffprobe"):
        shown = ["ffprobe", "-v", "error", "-show_entries", "chapter_tags=title", "-of", "csv=p=0", "book.m4b"]
        found = subprocess.run(shown, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
        assert found.split() == ["One", "Two"]


def _seconds(time: str) -> float:
    minutes, seconds = time.split(":")[-2:]
    return 60 * int(minutes) + float(seconds)


def test_a_file_is_spoken_in_its_language(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(f'<!doctype html><html lang="en"><body><p>{SENTENCE}</p></body></html>')
    command = [sys.executable, "-P", "-m", "voxyard", "speak", "page.html", "--out", "page.mp3"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert heard((tmp_path / "page.mp3").read_bytes()) == HEARD
    assert done.stderr.count("espeak-ng speaks") == 1
