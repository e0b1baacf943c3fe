"""Crash safety: a service killed again and again loses no document, no audio and no stored progress."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import queue_process
from documents import marks, new_document
from eventually import PATIENCE, eventually

from voxyard.service.documents.store import Store

CHUNKS = 40  # of a document


class Service:
    """One run of the service's process, which ends by itself where it is not held."""

    def __init__(self, data: Path, marked: Path, documents: int, *, unheld: bool = False) -> None:
        for folder in (data, marked):
            folder.mkdir(exist_ok=True)
        if unheld:
            (marked / "on").touch()
        support = map(str, Path(queue_process.__file__).parents[1].glob("*/"))
        paths = [*support, *filter(None, [os.environ.get("PYTHONPATH")])]
        self.accepted: list[int] = []
        self._process = subprocess.Popen(
            [sys.executable, queue_process.__file__, str(data), str(marked), str(documents), str(CHUNKS)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                if line.startswith("accepted "):
                    self.accepted.append(int(line.split()[1]))

    @property
    def status(self) -> int | None:
        return self._process.poll()

    def kill(self) -> None:
        """SIGKILL to the whole group; workers are groups of their own, and end because their pool is gone."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._end()

    def _end(self) -> None:
        self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)

    def finish(self) -> int:
        self._end()
        return self._process.returncode


@pytest.mark.parametrize(("kills", "documents"), [(6, 6), pytest.param(20, 16, marks=pytest.mark.long)])
def test_kills_lose_nothing_and_speak_nothing_twice(kills: int, documents: int, tmp_path: Path) -> None:
    calm, data, marked = tmp_path / "calm", tmp_path / "data", tmp_path / "marks"
    assert Service(calm, tmp_path / "calm marks", documents, unheld=True).finish() == 0
    dice = random.Random(20)
    known: set[int] = set()  # documents of which the service has confirmed
    written: dict[tuple[int, int], int] = {}  # chunks whose row says `spoken` → times spoken until then
    unwritten: dict[tuple[int, int], int] = {}  # chunks → kills at which they were spoken, and not written down

    for _ in range(kills):
        service = Service(data, marked, documents)
        _wait_for_a_point(service, marked, documents, dice)
        assert service.status is None, "the service ended by itself before it was killed"
        service.kill()
        known |= set(service.accepted)
        rows = _rows(data, documents)
        assert known <= {number for number, _ in rows}, "an accepted document is not in the store"
        counts = marks(marked)
        for chunk, state in rows.items():
            if state == "spoken":
                assert counts[chunk] >= 1
                assert written.setdefault(chunk, counts[chunk]) == counts[chunk], f"{chunk} was spoken again"
            else:
                assert chunk not in written, f"{chunk} was written down, and is {state}"
                if chunk in counts:
                    unwritten[chunk] = unwritten.get(chunk, 0) + 1
    assert Service(data, marked, documents, unheld=True).finish() == 0

    counts = marks(marked)
    assert set(counts) == {(number, index) for number in range(documents) for index in range(CHUNKS)}
    for chunk, times in written.items():
        assert counts[chunk] == times, f"{chunk} was spoken again"
    late = sum(max(0, times - 1 - unwritten.get(chunk, 0)) for chunk, times in counts.items())
    assert late <= kills * queue_process.WORKERS, "a worker without its pool speaks on"
    again = sum(times - 1 for times in counts.values())
    assert again <= kills * queue_process.WORKERS * queue_process.ROWS * 2, "more was lost than was on its way"
    for number in range(documents):
        (name,) = (new_document(number).id,)
        got, expected = (folder / "audio" / name for folder in (data, calm))
        assert (got / "audio.wav").read_bytes() == (expected / "audio.wav").read_bytes()
        assert [path.name for path in got.iterdir()] == ["audio.wav"]


def _wait_for_a_point(service: Service, marked: Path, documents: int, dice: random.Random) -> None:
    """A number of accepted documents or of spoken chunks, and a moment more."""
    before = len(os.listdir(marked))  # noqa: PTH208
    accepts, chunks = dice.choice([(dice.randint(0, documents), 0), (0, dice.randint(1, 16)), (0, dice.randint(1, 16))])
    eventually(
        lambda: len(service.accepted) >= accepts and len(os.listdir(marked)) - before >= chunks,  # noqa: PTH208
        f"{accepts} documents are accepted and {chunks} chunks spoken",
        every=0.001,
    )
    time.sleep(dice.uniform(0.0, 0.03))


def _rows(data: Path, most: int) -> dict[tuple[int, int], str]:
    """(document, chunk) → state."""
    if not (data / "store.sqlite").exists():
        return {}
    store = Store(data / "store.sqlite")
    documents = store.documents(limit=most)
    found = {(document.seed, chunk.index): chunk.state for document in documents for chunk in store.chunks(document.id)}
    store.close()
    return found  # type: ignore[return-value]
