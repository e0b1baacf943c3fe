"""Encoded copies and renewed audio when their process is killed, or its disk is full, while they are written."""

from __future__ import annotations

import signal
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from voxyard.service.audio.files import AudioFolder
from voxyard.service.audio.store import AudioStore
from voxyard.service.documents.records import StoredChunk
from voxyard.speech.audio.joining import Pauses

ID = "0123456789abcdef" * 2
CHUNKS = [StoredChunk(0, 0, 1, "sentence", 1.0, "spoken", 60_000, None)]
BEGIN = """
import io, resource, sys, threading, time
from pathlib import Path

from voxyard.service.audio.files import AudioFolder
from voxyard.service.audio.store import AudioStore
from voxyard.service.documents.records import StoredChunk
from voxyard.speech.audio.joining import Pauses

ID = sys.argv[2]
CHUNKS = [StoredChunk(0, 0, 1, "sentence", 1.0, "spoken", 60_000, None)]
audio_store = AudioStore(AudioFolder(Path(sys.argv[1])), quota=10**9)


class Slow(io.BytesIO):
    def read(self, size=-1):
        if self.tell():
            print("half", flush=True)
            time.sleep(600)
        return super().read(70_000)


def rebuild():
    audio_store.rebuild(ID, CHUNKS, {}, Pauses(), 0, 2, threading.Event())


"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Place with the audio of a complete document."""
    audio_store = AudioStore(AudioFolder(tmp_path), quota=10**9)
    audio_store.put(ID, 0, np.full(60_000, 0.25, np.float32))
    audio_store.assemble(ID, CHUNKS, Pauses())
    audio_store.remove_chunks(ID)
    return tmp_path


def process(code: str, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", BEGIN + code, str(folder), ID]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def names(folder: Path) -> set[str]:
    return {path.name for path in (folder / ID).iterdir()}


def test_a_kill_while_a_copy_is_stored_leaves_no_half_copy(folder: Path) -> None:
    before = AudioStore(AudioFolder(folder), quota=10**9).used_bytes()
    with process("audio_store.keep_copy(ID, 0, 'mp3', Slow(bytes(140_000)))", folder) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "half\n"
        assert names(folder) == {"audio.wav", "audio.mp3.part"}, "it is killed in the middle"
        writer.kill()
    assert writer.returncode == -signal.SIGKILL
    after = AudioStore(AudioFolder(folder), quota=10**9)
    assert (names(folder), after.used_bytes(), after.size(ID, "audio.mp3")) == ({"audio.wav"}, before, None)
    assert after.keep_copy(ID, 0, "mp3", BytesIO(b"whole"))
    assert (folder / ID / "audio.mp3").read_bytes() == b"whole"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("print('kept', audio_store.keep_copy(ID, 0, 'mp3', io.BytesIO(bytes(140_000))))", "kept False"),
        ("rebuild()", "StoreError"),
    ],
)
def test_a_file_that_finds_no_room_leaves_the_audio_as_it_was(folder: Path, code: str, said: str) -> None:
    old = (folder / ID / "audio.wav").read_bytes()
    limited = f"resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, 65_536))\n{code}"
    with process(limited, folder) as writer:
        output, _ = writer.communicate(timeout=250)
    assert said in output
    assert names(folder) == {"audio.wav"}
    assert (folder / ID / "audio.wav").read_bytes() == old
