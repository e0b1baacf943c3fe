"""Words of documents that an aligner has found in their sound: in the API, after a redo, a kill, and in other cases."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from eventually import PATIENCE, eventually
from service_app import Served, serving

from voxyard.service.audiobook import word_aligner
from voxyard.service.audiobook.aligned_words import NAME
from voxyard.service.errors import ServiceError
from voxyard.service.routes import chapters

FACTORY = "voxyard.speech.alignment.pocketsphinx:aligner"
TEXT = (
    "The harbour lay still, and nobody was awake.\n\nOnly the watchman waited for 25 ships, on 3 May.\n\n"
    "In the morning they came, one after the other."
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("aligner"), engine={"espeak": True}, aligner=FACTORY) as served:
        yield served


def spoken(served: Served, text: str = TEXT, **options: Any) -> str:
    """URL of a completed document."""
    answer = httpx.post(f"{served.url}/v1/documents", json={"text": text, **options}, timeout=60)
    url = f"{served.url}/v1/documents/{answer.json()['id']}"
    eventually(lambda: httpx.get(url).json()["state"] == "completed", "it is spoken")
    return url


def timings(url: str) -> dict[str, Any]:
    """Times once nothing waits."""
    eventually(lambda: not httpx.get(f"{url}/timings").json()["waiting"], "its words are aligned")
    found: dict[str, Any] = httpx.get(f"{url}/timings").json()
    return found


def words(found: dict[str, Any]) -> list[str]:
    return [word["text"] for chunk in found["chunks"] for word in chunk["words"]]


def test_words_are_recognised_and_in_order_and_kept(served: Served, tmp_path: Path) -> None:
    url = spoken(served)

    found = timings(url)

    assert (found["source"], found["complete"]) == ("recognised", True)
    assert {(chunk["source"], chunk["reason"]) for chunk in found["chunks"]} == {("recognised", None)}
    assert words(found) == TEXT.split()
    for chunk in found["chunks"]:
        times = [(word["start_seconds"], word["end_seconds"]) for word in chunk["words"]]
        assert times == sorted(times)
        assert chunk["start_seconds"] <= times[0][0] + 0.001  # they are rounded to milliseconds
        assert times[-1][1] <= chunk["end_seconds"] + 0.001
    (file,) = served.state.section.data_dir.glob(f"audio/{url[-32:]}/{NAME}")
    written = file.stat().st_mtime_ns
    assert httpx.get(f"{url}/timings").json() == found
    assert file.stat().st_mtime_ns == written

    with serving(tmp_path, engine={"espeak": True}) as off:
        plain = timings(other := spoken(off))
        srt = httpx.get(f"{other}/subtitles")
    assert (plain["source"], plain["waiting"]) == ("estimated", False)
    assert {(chunk["source"], chunk["reason"]) for chunk in plain["chunks"]} == {("estimated", None)}
    assert words(plain) == words(found)
    assert plain["chunks"][0]["words"] != found["chunks"][0]["words"]
    assert srt.headers["x-voxyard-estimated-words"] == str(len(TEXT.split()))


def test_subtitles_begin_with_recognised_words(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chapters, "WAIT_SECONDS", 60.0)  # a busy machine recognises slowly
    url = spoken(served, "It was still. Then a ship came into the harbour of the old town.")

    srt = httpx.get(f"{url}/subtitles", timeout=90)

    assert srt.status_code == 200, srt.text
    assert srt.headers["x-voxyard-estimated-words"] == "0"
    first = timings(url)["chunks"][0]["words"][0]["start_seconds"]
    assert f"1\n00:00:00,{round(first * 1000):03} --> " in srt.text


def test_a_chunk_spoken_again_is_aligned_again_and_only_that(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    url = spoken(served)
    before = timings(url)
    asked = list[list[str]]()
    assert served.state.word_aligner is not None
    process = served.state.word_aligner._process
    align = process.align

    def align_and_tell(*given: Any) -> Any:
        asked.append(given[2])
        return align(*given)

    monkeypatch.setattr(process, "align", align_and_tell)

    httpx.post(f"{url}/chunks/1/redo", json={"seed": 3})
    eventually(lambda: httpx.get(url).json()["revision"] == 1, "it is spoken again")
    found = timings(url)

    assert len(asked) == 1
    assert "watchman" in asked[0]
    old, new = ([chunk["words"] for chunk in each["chunks"]] for each in (before, found))
    assert new[0] == old[0]
    assert [w["end_seconds"] - w["start_seconds"] for w in new[1]] != [
        w["end_seconds"] - w["start_seconds"] for w in old[1]
    ]
    shift = found["chunks"][2]["start_seconds"] - before["chunks"][2]["start_seconds"]
    assert shift != 0
    assert new[2][0]["start_seconds"] - old[2][0]["start_seconds"] == pytest.approx(shift, abs=0.002)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"language": "de"}, "the aligner knows en; the document's language is de"),
        ({"voice": "announcer"}, "the language of the document is not known"),
    ],
)
def test_other_languages_are_estimated_and_say_so(served: Served, options: dict[str, Any], reason: str) -> None:
    url = spoken(served, **options)

    found = httpx.get(f"{url}/timings").json()

    assert (found["source"], found["waiting"]) == ("estimated", False)
    assert all(chunk["reason"].startswith(reason) for chunk in found["chunks"])
    assert httpx.get(f"{url}/subtitles").headers["x-voxyard-estimated-words"] == str(len(TEXT.split()))


def test_a_chunk_that_cannot_be_aligned_is_estimated_and_says_so(served: Served) -> None:
    url = spoken(served, "Good morning to all of you, wherever you are.\n\nПривет, мир.", language="en")

    found = timings(url)

    assert found["source"] == "mixed"
    assert [chunk["source"] for chunk in found["chunks"]] == ["recognised", "estimated"]
    assert "is not written in letters of English" in found["chunks"][1]["reason"]
    assert httpx.get(f"{url}/subtitles").headers["x-voxyard-estimated-words"] == "2"


def test_what_a_kill_has_left_is_aligned_at_the_next_request(served: Served) -> None:
    url = spoken(served)
    found = timings(url)
    (file,) = served.state.section.data_dir.glob(f"audio/{url[-32:]}/{NAME}")
    kept = json.loads(file.read_text())
    del kept["chunks"]["1"]  # as after some of it, or
    file.write_text(json.dumps(kept))
    assert timings(url) == found
    file.unlink()  # after nothing of it
    assert timings(url) == found


def test_a_process_that_is_killed_is_replaced(served: Served) -> None:
    assert served.state.word_aligner is not None
    pid = served.state.word_aligner._process.pid
    if pid is not None:
        os.kill(pid, signal.SIGKILL)

    assert timings(spoken(served, "The ships came in the morning."))["chunks"][-1]["source"] in (
        "recognised", "estimated",
    )  # fmt: skip
    assert timings(spoken(served))["source"] == "recognised"
    assert served.state.word_aligner._process.pid not in (pid, None)


def test_documents_are_aligned_by_turns(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_aligner, "SLICE_SECONDS", 0.0)  # one chunk a turn
    assert served.state.word_aligner is not None
    process, order = served.state.word_aligner._process, list[str]()
    gate, align = threading.Event(), process.align

    def align_behind_the_gate(*given: Any) -> Any:
        gate.wait(PATIENCE)
        order.append(given[2][0])
        return align(*given)

    monkeypatch.setattr(process, "align", align_behind_the_gate)
    urls = [spoken(served, "\n\n".join(f"{name} says that the ships are in the harbour." for _ in range(3)))
            for name in ("Anna", "Bernard")]  # fmt: skip
    partial = httpx.get(f"{urls[0]}/timings").json()
    assert (partial["waiting"], partial["chunks"][0]["reason"]) == (True, word_aligner.WAITING)
    refused = httpx.get(f"{urls[1]}/subtitles", timeout=60)
    assert (refused.status_code, "estimated=true" in refused.text) == (409, True)
    assert refused.headers["retry-after"] == "5"
    assert int(httpx.get(f"{urls[1]}/subtitles?estimated=true").headers["x-voxyard-estimated-words"]) == 27
    gate.set()
    assert [timings(url)["source"] for url in urls] == ["recognised", "recognised"]
    assert order == ["Anna", "Bernard"] * 3


def test_without_room_the_reason_is_told_and_it_is_tried_again(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(served.state.audio_store), "room_bytes", lambda _: 0)
    url = spoken(served)
    found = timings(url)
    assert (found["source"], found["chunks"][0]["reason"]) == (
        "estimated", "there is no room to keep the times of its words",
    )  # fmt: skip
    monkeypatch.undo()
    assert served.state.word_aligner is not None
    served.state.word_aligner._failed[url[-32:]] = 0.0, "a minute later"
    assert timings(url)["source"] == "recognised"


def test_a_deleted_document_leaves_no_file(served: Served) -> None:
    url = spoken(served)
    httpx.delete(url)
    timings(spoken(served))  # its turn is after that of the deleted one
    assert not list(served.state.section.data_dir.glob(f"audio/{url[-32:]}/*"))
    assert httpx.get(f"{url}/timings").status_code == 404


def test_a_service_does_not_start_with_an_aligner_that_is_none(tmp_path: Path) -> None:
    with (
        pytest.raises(ServiceError, match=r"--aligner nowhere:found: aligner nowhere:found: No module"),
        serving(tmp_path, aligner="nowhere:found"),
    ):
        pass
