"""Speech route on a real socket, called with OpenAI's unmodified client."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import av
import httpx
import numpy as np
import openai
import pytest
from engines import sound
from eventually import eventually
from frontends import TonesFrontend
from joined import join
from service_app import Served, serving

from voxyard.service.auth.api_keys import add_key
from voxyard.service.routes.operations import readiness
from voxyard.service.shutdown import GracefulShutdown
from voxyard.speech.audio.encoder import FORMATS
from voxyard.speech.audio.joining import Pauses
from voxyard.speech.audio.wav import pcm16
from voxyard.speech.placement import Refusal
from voxyard.speech.requests import SAMPLE_RATE, Result
from voxyard.speech.script import prepare_script

TEXT = "The harbour lay still, and nobody was awake at all. It was late. A bell rang far out on the water, twice."
HALF = rb'{"model": "tts-1", "voice": "alloy", "input": "\ud800"}'  # half a character
VOICE = "v2/en_speaker_6"  # alloy
LONG = " ".join(f"This is sentence number {number} of a text that takes long." for number in range(60))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("speech"), engine={"samples": 2400}) as served:
        yield served


def client(served: Served, key: str = "none is asked for") -> openai.OpenAI:
    return openai.OpenAI(api_key=key, base_url=f"{served.url}/v1", max_retries=0, timeout=60)


def speak(served: Served, **options: Any) -> Any:
    asked: dict[str, Any] = {"model": "tts-1", "voice": "alloy", "input": TEXT, **options}
    return client(served).audio.speech.create(**asked)


def joined(text: str = TEXT, *, voice: str = VOICE, seed: int = 0) -> np.ndarray[Any, Any]:
    """Audio of a text by the engine, joined by hand."""
    script = prepare_script(text, TonesFrontend(), voice=voice, seed=seed)
    spoken = zip((Result(each.chunk, sound(each, 2400)) for each in script.requests), script.chunks, strict=True)
    return np.concatenate([piece.audio for piece in join(((one, chunk.ending) for one, chunk in spoken), Pauses())])


def decoded(content: bytes, kind: str) -> float:
    """The length of a sound in seconds."""
    with av.open(io.BytesIO(content), "r", format={"opus": "ogg"}.get(kind, kind)) as container:
        frames = list(container.decode(audio=0))
    return float(sum(frame.samples / frame.sample_rate for frame in frames))


@pytest.mark.parametrize(
    ("markdown", "spoken"),
    [
        ("# The *harbour*\n\nIt lay [still](https://example.org/a?b=c).", "The harbour\n\nIt lay still."),
        ("- one\n- two\n\n```py\nx = 1\n```\n", "one.\n\ntwo."),
        ("| Tide | Hour |\n|---|---|\n| low | six |\n", "Tide: low, Hour: six."),
    ],
)
def test_the_marks_of_markdown_are_not_spoken(served: Served, markdown: str, spoken: str) -> None:
    answer = speak(served, input=markdown, response_format="pcm", extra_body={"input_format": "markdown"})
    assert answer.content == speak(served, input=spoken, response_format="pcm").content


def test_markdown_without_words_and_other_formats_are_refused(served: Served) -> None:
    for kind, text in (("markdown", "```\ncode\n```"), ("markdown", "> " * 2000), ("html", TEXT)):
        with pytest.raises(openai.BadRequestError) as refused:
            speak(served, input=text, extra_body={"input_format": kind})
        assert refused.value.param == ("input" if kind == "markdown" else "input_format")


@pytest.mark.parametrize("kind", [each for each in FORMATS if each not in ("wav", "pcm")])
def test_the_client_of_openai_gets_every_coded_format(served: Served, kind: str) -> None:
    answer = speak(served, response_format=kind)
    assert decoded(answer.content, kind) == pytest.approx(len(joined()) / SAMPLE_RATE, abs=0.2)


def test_pcm_and_wav_are_the_joined_sound_to_the_last_sample(served: Served) -> None:
    expected = pcm16(joined()).tobytes()
    pcm, wav = speak(served, response_format="pcm"), speak(served, response_format="wav")
    assert pcm.content == expected
    assert wav.content[:4] == b"RIFF"
    assert wav.content[44:] == expected
    assert pcm.response.headers["content-type"] == "audio/pcm"
    assert wav.response.headers["content-type"] == "audio/wav"


def test_speed_changes_the_length(served: Served) -> None:
    slow, fast = speak(served, response_format="pcm", speed=0.5), speak(served, response_format="pcm", speed=4.0)
    assert len(slow.content) == pytest.approx(8 * len(fast.content), rel=0.02)


def test_the_same_seed_gives_the_same_sound(served: Served) -> None:
    first, same, other = (speak(served, response_format="pcm", extra_body={"seed": seed}).content for seed in (7, 7, 8))
    assert first == same
    assert first != other


def test_instructions_and_a_voice_as_an_object_are_taken(served: Served) -> None:
    plain = speak(served, response_format="pcm")
    other = speak(served, response_format="pcm", voice={"id": "v2/en_speaker_6"}, instructions="in a whisper")
    assert other.content == plain.content


def test_sound_streams_to_the_client(served: Served) -> None:
    options: Any = {"model": "tts", "voice": "alloy", "input": TEXT, "response_format": "pcm"}
    options["model"] = "gpt-4o-mini-tts"
    with client(served).audio.speech.with_streaming_response.create(**options) as answer:
        pieces = list(answer.iter_bytes())
    assert b"".join(pieces) == pcm16(joined()).tobytes()


def test_events_carry_the_sound_in_base64_and_the_usage(served: Served) -> None:
    options: Any = {"model": "tts-1", "voice": "alloy", "input": TEXT, "response_format": "pcm", "stream_format": "sse"}
    with client(served).audio.speech.with_streaming_response.create(**options) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = [json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if line]
    *deltas, done = events
    assert {each["type"] for each in deltas} == {"speech.audio.delta"}
    assert b"".join(base64.b64decode(each["audio"]) for each in deltas) == pcm16(joined()).tobytes()
    words, seconds = len(TEXT.split()), len(joined()) / SAMPLE_RATE
    assert done["type"] == "speech.audio.done"
    assert done["usage"]["input_tokens"] == words
    assert done["usage"]["output_tokens"] == pytest.approx(50 * seconds, abs=1)
    assert done["usage"]["total_tokens"] == words + done["usage"]["output_tokens"]


@pytest.mark.parametrize(
    ("wrong", "parameter", "code"),
    [
        ({"input": "   "}, "input", "invalid_request"),
        ({"input": "\U0001f600 ?!"}, "input", "invalid_request"),
        ({"input": "a" * 4097}, "input", "invalid_request"),
        ({"input": ""}, "input", "invalid_request"),
        *(({"voice": voice}, "voice", "invalid_request") for voice in ("", {"id": ""}, 3, {"name": "x"}, "a" * 201)),
        ({"speed": 4.5}, "speed", "invalid_request"),
        ({"speed": "fast"}, "speed", "invalid_request"),
        ({"speed": "9"}, "speed", "invalid_request"),
        ({"speed": "nan"}, "speed", "invalid_request"),
        ({"response_format": "wma"}, "response_format", "invalid_request"),
        ({"stream_format": "websocket"}, "stream_format", "invalid_request"),
        ({"extra_body": {"seed": -1}}, "seed", "invalid_request"),
    ],
)
def test_a_wrong_request_is_a_bad_request_error(served: Served, wrong: Any, parameter: str, code: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        speak(served, **wrong)
    assert (caught.value.param, caught.value.code) == (parameter, code)
    assert "VoiceId" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "note"), [("東京は日本の首都です。", "ja"), ("Добрый день.", "ru"), ("Good day.", None)]
)
def test_a_text_in_another_script_than_the_voices_is_noted(served: Served, text: str, note: str | None) -> None:
    asked = {"model": "tts-1", "voice": "alloy", "input": text}
    for form in ("audio", "sse"):
        found = httpx.post(f"{served.url}/v1/audio/speech", json={**asked, "stream_format": form})
        assert found.status_code == 200, found.text
        said = None if note is None else f"the text is in the language {note}, and the voice alloy speaks en"
        assert (found.headers.get("x-voxyard-note") or "").startswith(said or "")
        assert ("x-voxyard-note" in found.headers) == (note is not None)


def test_an_engine_with_rates_of_its_own_gets_the_speed_and_the_tempo_makes_the_rest(tmp_path: Path) -> None:
    with serving(tmp_path, engine={"samples": 2400}, speeds=(0.5, 2.5)) as served:
        usual, fast, fastest = (speak(served, response_format="pcm", speed=speed) for speed in (1.0, 2.0, 4.0))
    chunks = prepare_script(TEXT, TonesFrontend(), voice=VOICE, seed=0).requests
    spoken = 2 * sum(len(sound(each, 2400)) for each in chunks)
    silent = len(usual.content) - spoken
    assert len(fast.content) == pytest.approx(spoken + silent / 2, abs=8)  # tones have one length at any speed
    assert len(fastest.content) == pytest.approx((spoken + silent / 2.5) / 1.6, rel=0.01)


@pytest.mark.parametrize(
    ("wrong", "code", "hint"),
    [
        ({"model": "whisper-1"}, "model_not_found", "tts-1"),
        ({"voice": "aloy"}, "voice_not_found", "alloy"),
        ({"voice": "/etc/passwd.npz"}, "voice_not_found", "voices"),
    ],
)
def test_an_unknown_name_is_a_not_found_error(served: Served, wrong: Any, code: str, hint: str) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        speak(served, **wrong)
    assert caught.value.code == code
    assert hint in str(caught.value)


def test_a_key_is_asked_for_where_there_are_keys(tmp_path: Path) -> None:
    key = add_key(tmp_path / "keys.yaml", "tester")
    with serving(tmp_path / "data", keys=tmp_path / "keys.yaml") as served:
        asked: Any = {"model": "tts-1", "voice": "alloy", "input": "Hello there."}
        with pytest.raises(openai.AuthenticationError) as caught:
            client(served, "vox_wrong").audio.speech.create(**asked)
        assert caught.value.code == "invalid_api_key"
        assert client(served, key).audio.speech.create(**asked).content


def test_too_many_at_a_time_is_a_rate_limit_error(tmp_path: Path) -> None:
    with serving(tmp_path / "data", engine={"held": 0}, max_requests=1) as served:
        first = socket.create_connection(address(served), timeout=60)
        first.sendall(post({"model": "tts-1", "voice": "alloy", "input": TEXT}))
        eventually(lambda: served.watch.queue, "the first request is in the queue")
        with pytest.raises(openai.RateLimitError) as caught:
            speak(served)
        assert int(caught.value.response.headers["retry-after"]) >= 1
        first.close()
        eventually(lambda: not served.state.limiter.active, "the place of a client that left is free")


def test_the_first_chunk_is_streamed_while_the_second_is_being_synthesized(tmp_path: Path) -> None:
    with serving(tmp_path / "data", engine={"held": 1}) as served:
        asked = {"model": "tts-1", "voice": "alloy", "input": LONG[:1000], "response_format": "wav"}
        with httpx.stream("POST", f"{served.url}/v1/audio/speech", json=asked, timeout=60) as answer:
            head = next(answer.iter_raw())
        assert head[:4] == b"RIFF"
        eventually(lambda: not served.state.limiter.active, "the place of a client that left is free")


def test_a_client_that_leaves_cancels_its_job_and_no_other(tmp_path: Path) -> None:
    with serving(tmp_path / "data", engine={"rows": 1, "held": 1}) as served:
        connection = socket.create_connection(address(served), timeout=60)
        connection.sendall(post({"model": "tts-1", "voice": "alloy", "input": LONG, "response_format": "pcm"}))
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        connection.close()
        eventually(lambda: not served.watch.queue, "the queue is empty")
        assert served.watch.chunks < len(prepare_script(LONG, TonesFrontend(), voice=VOICE, seed=0).chunks)
        eventually(lambda: not served.state.limiter.active, "its place is free")
        (tmp_path / "data/on").touch()
        assert speak(served, response_format="pcm").content


@pytest.mark.slow
def test_a_reader_that_reads_nothing_holds_no_worker(tmp_path: Path) -> None:
    with serving(tmp_path / "data", engine={"samples": 2400}, max_requests=1) as served:
        connection = slow_reader(served)
        chunks = len(prepare_script(LONG, TonesFrontend(), voice=VOICE, seed=0).chunks)
        eventually(lambda: served.watch.chunks == chunks, "all of the slow reader's chunks are spoken")
        eventually(lambda: served.watch.queue == 0, "nothing waits any more")
        assert speak(served, response_format="pcm").content
        limiter = served.state.limiter
        eventually(lambda: (limiter.active, limiter.open) == (0, 1), "what is not read is there")
        connection.close()
        eventually(lambda: not served.state.limiter.open, "what it has not read is given up")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "seconds"),
    [({}, 0.0), ({"response_format": "wav", "stream": False}, 0.25)],  # whole, nothing waits to be encoded
    ids=["stream", "whole"],
)
def test_a_reader_with_more_unread_than_may_be_is_cut_and_no_other(
    tmp_path: Path, options: dict[str, Any], seconds: float
) -> None:
    with serving(tmp_path / "data", engine={"samples": 24000, "seconds": seconds}) as served:
        connection = slow_reader(served, **options)
        eventually(lambda: served.watch.chunks, "it is being spoken")
        eventually(lambda: not served.state.limiter.open, "345 MiB, or their half as WAV, are not read: it is cut")
        with connection, contextlib.suppress(ConnectionResetError):
            while connection.recv(1 << 20):
                pass
        assert speak(served, input=TEXT, response_format="pcm").content


def slow_reader(served: Any, **options: Any) -> socket.socket:
    """A client that sends a long text and reads nothing."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(address(served))
    connection.sendall(post({"model": "tts-1", "voice": "alloy", "input": LONG, "response_format": "pcm", **options}))
    return connection


@pytest.mark.slow
def test_a_reader_that_stalls_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voxyard.service.streaming.audio_response.STALL", 0.5)
    with serving(tmp_path / "data", engine={"samples": 2400}) as served:
        connection = slow_reader(served)
        eventually(lambda: served.watch.chunks, "it is being spoken")
        eventually(lambda: not served.state.limiter.open, "the stream is cut")
        connection.close()


def test_a_chunk_that_fails_before_the_first_byte_is_a_server_error(tmp_path: Path) -> None:
    with serving(tmp_path / "data", engine={"poison": [0]}) as served:
        with pytest.raises(openai.InternalServerError) as caught:
            speak(served)
        assert caught.value.code == "speech_failed"
        assert "chunk 0" in str(caught.value)
        assert "Traceback" not in str(caught.value)


def test_a_chunk_that_fails_later_cuts_the_connection(tmp_path: Path) -> None:
    with serving(tmp_path / "data", engine={"poison": [9], "rows": 1}) as served:
        asked = {"model": "tts-1", "voice": "alloy", "input": LONG, "response_format": "pcm"}
        url = f"{served.url}/v1/audio/speech"
        with httpx.stream("POST", url, json=asked, timeout=60) as answer:
            received = whole_or_cut(answer)
        assert answer.status_code == 200
        assert received
        with httpx.stream("POST", url, json={**asked, "stream_format": "sse"}, timeout=60) as answer:
            *deltas, last = [json.loads(event[6:]) for event in whole_or_cut(answer).decode().split("\n\n") if event]
        assert {each["type"] for each in deltas} == {"speech.audio.delta"}
        assert last["error"]["code"] == "speech_failed"


def test_many_clients_at_a_time_each_get_their_own_sound(served: Served) -> None:
    texts = [f"{TEXT} Number {number} speaks now." for number in range(8)]
    heard: dict[str, bytes] = {}

    def ask(text: str) -> None:
        heard[text] = speak(served, input=text, response_format="pcm").content

    threads = [threading.Thread(target=ask, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert heard == {text: pcm16(joined(text)).tobytes() for text in texts}


@pytest.mark.parametrize(
    ("method", "path", "options", "status"),
    [
        ("GET", "/v1/nothing", {}, 404),
        ("GET", "/v1/audio/speech", {}, 405),
        ("POST", "/v1/audio/speech", {"content": b"{", "headers": {"Content-Type": "application/json"}}, 400),
        ("POST", "/v1/audio/speech", {"content": b"[" * 200_000, "headers": {"Content-Type": "application/json"}}, 413),
        ("POST", "/v1/audio/speech", {"content": b"[" * 9000, "headers": {"Content-Type": "application/json"}}, 400),
        ("POST", "/v1/audio/speech", {"json": [1, 2]}, 400),
        ("POST", "/v1/audio/speech", {"content": HALF, "headers": {"Content-Type": "application/json"}}, 400),
        ("POST", "/v1/documents", {"content": b"text", "headers": {"Content-Type": "text/plain"}}, 415),
        ("POST", "/v1/documents", {"json": {"text": 7}}, 400),
        ("POST", "/v1/documents", {"data": {"seed": "x"}, "files": {"file": ("a.txt", b"Hello.")}}, 400),
        ("POST", "/v1/documents", {"files": {"other": ("a.txt", b"Hello.")}}, 400),
        ("GET", "/v1/documents/..%2f..%2fetc", {}, 404),
        ("GET", "/v1/documents?limit=0", {}, 400),
        ("GET", "/v1/documents/" + "0" * 32, {}, 404),
        ("GET", "/v1/documents/" + "0" * 32 + "/audio?format=aiff", {}, 400),
        ("GET", "/v1/documents/" + "0" * 32 + "/audio?speed=nan", {}, 400),
        ("GET", "/v1/documents/" + "0" * 32 + "/events", {}, 404),
        ("POST", "/v1/documents/" + "0" * 32 + "/retry", {}, 404),
        ("DELETE", "/v1/documents/" + "0" * 32, {}, 404),
        ("GET", "/v1/models/nothing", {}, 404),
    ],
)
def test_every_error_comes_in_openais_envelope(
    served: Served, method: str, path: str, options: Any, status: int
) -> None:
    answer = httpx.request(method, served.url + path, timeout=60, **options)
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    assert "Traceback" not in answer.text


def whole_or_cut(answer: httpx.Response) -> bytes:
    """Bytes before the connection was cut; that it was is part of what is asked for."""
    received: list[bytes] = []
    with pytest.raises(httpx.RemoteProtocolError):
        received.extend(answer.iter_raw())
    return b"".join(received)


def address(served: Served) -> tuple[str, int]:
    url = httpx.URL(served.url)
    return url.host, url.port or 0


def post(body: dict[str, Any]) -> bytes:
    """A request as it goes over the wire."""
    content = json.dumps(body).encode()
    head = f"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(content)}\r\n"
    return f"{head}Content-Type: application/json\r\n\r\n".encode() + content


def test_a_request_whose_worker_has_gone_for_good_gets_503(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voxyard.service.streaming.speech_request.WORKERLESS_SECONDS", 0.2)
    gone: list[Refusal | None] = [None]
    with (
        serving(tmp_path, engine={"seconds": 60.0}, admit=lambda _: gone[0]) as served,
        ThreadPoolExecutor() as threads,
    ):
        asked = threads.submit(speak, served)
        eventually(lambda: served.watch.sent > 0, "a worker has got it")
        gone[0] = Refusal("missing", "http://gpu-1:8880/v1 does not answer")
        (worker,) = served.state.pool.workers()
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        with pytest.raises(openai.InternalServerError, match="gpu-1:8880/v1 does not answer") as caught:
            asked.result()
        assert caught.value.status_code == 503
        assert caught.value.response.headers["Retry-After"] == "10"


@pytest.mark.slow
def test_while_no_gpu_is_free_requests_get_503_and_documents_wait(tmp_path: Path) -> None:
    full = Refusal(
        "memory", "GPU 0: 100 MiB are free, a worker needs 6144 MiB; held by python3 (process 41) 130000 MiB"
    )
    refusals: list[Refusal | None] = [full]
    with serving(tmp_path / "data", admit=lambda _: refusals[0]) as served:
        pool, queue = served.state.pool, served.state.queue
        document = httpx.post(f"{served.url}/v1/documents", json={"text": TEXT}, timeout=60).json()
        eventually(lambda: pool.workers()[0].processes > 5, "more than five starts were refused")

        with pytest.raises(openai.InternalServerError) as caught:
            speak(served)
        assert caught.value.status_code == 503
        assert full.message in str(caught.value)
        (worker,) = httpx.get(f"{served.url}/v1/workers", timeout=60).json()["workers"]
        assert (worker["state"], worker["reason"]) == ("waiting", full.message)
        graceful_shutdown = GracefulShutdown(queue, served.state.limiter, pool, served.state.notifier)
        assert readiness(pool, queue, graceful_shutdown) == (False, f"no worker has its model loaded ({full.message})")
        state = httpx.get(f"{served.url}/v1/documents/{document['id']}", timeout=60).json()["state"]
        assert state in ("pending", "processing")

        refusals[0] = None
        eventually(lambda: served.state.store.document(document["id"]).state == "completed", "the document is spoken")
