"""Audiobooks that are asked for: nobody waits for another key's, and the end of a service for none."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from eventually import PATIENCE, eventually
from live_service import live
from service_app import running

from voxyard.service.app import create_app
from voxyard.service.auth.api_keys import add_key
from voxyard.speech.audio import audiobook


class Writing:
    """Writing of audiobooks, of which those of the title `Long` wait until they may end."""

    def __init__(self) -> None:
        self.begun, self.going, self.ended = 0, threading.Event(), threading.Event()
        self._write = audiobook.write

    def __call__(self, file: Any, audio: Any, **options: Any) -> None:
        if options["tags"].title != "Long":
            self._write(file, audio, **options)
            return
        self.begun += 1
        assert self.going.wait(PATIENCE)
        try:
            self._write(file, audio, **options)
        finally:
            self.ended.set()


@pytest.fixture
def writing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Writing]:
    found = Writing()
    monkeypatch.setattr(audiobook, "write", found)
    yield found
    found.going.set()


def spoken(client: httpx.Client, title: str) -> str:
    """Path of the audiobook of a document that is spoken."""
    id = client.post("/v1/documents", json={"text": "A night.", "title": title}).json()["id"]
    eventually(lambda: client.get(f"/v1/documents/{id}").json()["state"] == "completed", "it is spoken")
    return f"/v1/documents/{id}/audio?format=m4b"


@pytest.mark.slow
def test_another_keys_audiobook_does_not_wait_and_the_end_of_the_service_neither(
    tmp_path: Path, writing: Writing
) -> None:
    keys = tmp_path / "keys.yaml"
    ann, bob = (add_key(keys, name) for name in ("ann", "bob"))
    with (
        running(tmp_path / "data", keys=keys, stop_seconds=0.1, drain_seconds=0.1) as state,
        ThreadPoolExecutor(3) as clients,
    ):
        with live(create_app(state), state.section) as url:
            hers, his = (
                httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=PATIENCE)
                for key in (ann, bob)
            )
            long = spoken(hers, "Long")
            asked = [clients.submit(hers.get, long) for _ in range(3)]
            eventually(lambda: writing.begun, "hers is being written")
            assert his.get(spoken(his, "Short")).status_code == 200
        assert [each.result().status_code for each in asked] == [503] * 3
        assert writing.begun == 1
        writing.going.set()
        assert writing.ended.wait(PATIENCE)
        assert state.audio_store.names(long.split("/")[3]) == ("audio.wav",), "it was given up"
        hers.close()
        his.close()
