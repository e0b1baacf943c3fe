"""Crash safety: a service killed while it encodes a document has the whole file after its next start, and no other."""

from __future__ import annotations

import io
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import av
import httpx
import pytest
from eventually import eventually
from free_ports import free_port
from tones_process import TonesProcess

CHARACTERS = 24_000  # 240 s of sound, 10 ms a character: encoding takes a second or more


@pytest.fixture
def service(tmp_path: Path) -> Iterator[TonesProcess]:
    service = TonesProcess(tmp_path / "service", "one", free_port(), {"rate_limit": 0}, seconds=0.0)
    service.start()
    try:
        yield service
    finally:
        service.end()


def kill_while_encoding(service: TonesProcess, url: str, format: str) -> None:
    """Asks for a format, kills the service once some of it is written, and starts it again."""
    assert service.process is not None
    answers = list[int]()

    def ask() -> None:
        with suppress(httpx.TransportError), httpx.stream("GET", url + f"/audio?format={format}", timeout=60) as answer:
            answer.read()
            answers.append(answer.status_code)

    asking, opened = threading.Thread(target=ask), Path(f"/proc/{service.process.pid}/fd")
    assert not any(map(written_without_a_name, opened.iterdir()))
    asking.start()
    eventually(lambda: any(map(written_without_a_name, opened.iterdir())), "some of it is written")
    service.end()
    asking.join()
    assert answers == []
    service.start()
    eventually(lambda: service.ready, "the service is ready again")


def written_without_a_name(descriptor: Path) -> bool:
    try:
        found = descriptor.stat()
    except FileNotFoundError:  # closed meanwhile
        return False
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 0 and found.st_size > 0


def seconds(content: bytes) -> float:
    """Length of what can be decoded."""
    with av.open(io.BytesIO(content), mode="r") as file:
        return sum(float(frame.samples / frame.sample_rate) for frame in file.decode(audio=0))


def test_a_kill_during_the_encoding_of_an_mp3_and_an_audiobook_leaves_whole_files_and_nothing_else(
    service: TonesProcess,
) -> None:
    eventually(lambda: service.ready, "the service is ready")
    sentence = "The harbour lay still, and nobody was awake in the old town. "
    text = sentence * (CHARACTERS // len(sentence))
    id = httpx.post(f"{service.url}/v1/documents", json={"text": text}, timeout=60).json()["id"]
    url = f"{service.url}/v1/documents/{id}"
    eventually(lambda: httpx.get(url).json()["state"] == "completed", "it is spoken")
    folder = service.folder / "data" / "audio" / id
    length = seconds(httpx.get(f"{url}/audio", timeout=60).content)

    for format, name in (("mp3", "audio.mp3"), ("m4b", "book.0.m4b")):
        kill_while_encoding(service, url, format)
        assert not (folder / name).exists(), "it was encoded before it was killed: make it longer"
        again = httpx.get(f"{url}/audio", params={"format": format}, timeout=60)
        assert seconds(again.content) == pytest.approx(length, abs=0.2)
        eventually((folder / name).exists, "the file is kept")

    assert {path.name for path in folder.iterdir()} == {"audio.wav", "audio.mp3", "book.0.m4b"}
    left = [path.name for path in service.folder.rglob("*") if path.name.startswith("tmp") or path.suffix == ".part"]
    assert left == []
