"""WebSocket that takes a text while it is written: its messages, limits and ends, on the service's own server."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from ssl import create_default_context
from typing import Any

import httpx
import numpy as np
import pytest
import trustme
from engines import sound
from eventually import PATIENCE, eventually
from frontends import TonesFrontend
from joined import join
from live_service import live
from service_app import Watch, running
from websockets.asyncio.client import connect as asyncio_connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

import voxyard.service
from voxyard.service.app import create_app
from voxyard.service.auth.api_keys import add_key, limit_key, revoke_key
from voxyard.service.fairness import KeyLimits
from voxyard.service.http import admission, protocol
from voxyard.service.routes import speech_stream
from voxyard.service.state import AppState
from voxyard.service.streaming.speech_request import SpeechRequest
from voxyard.service.streaming.text_stream import paused
from voxyard.speech.audio.joining import Pauses
from voxyard.speech.audio.wav import pcm16
from voxyard.speech.cast import OPENAI_VOICES
from voxyard.speech.requests import Result
from voxyard.speech.script import Script, prepare_script

TEXT = "The harbour lay still, and nobody was awake at all. It was late. A bell rang far out, twice."
VOICE = "v2/en_speaker_6"  # alloy
GUIDE = Path(voxyard.service.__file__).with_name("README.md")
LONG = " ".join(f"This is sentence number {number} of a text." for number in range(40))


@dataclass
class Stream:
    """A client, and what it was told."""

    socket: ClientConnection

    def send(self, kind: str, **fields: Any) -> None:
        self.socket.send(json.dumps({"type": kind, **fields}))

    def receive(self) -> dict[str, Any] | bytes:
        found = self.socket.recv(timeout=PATIENCE)
        return found if isinstance(found, bytes) else dict(json.loads(found))

    def until(self, kind: str) -> tuple[list[dict[str, Any]], bytes]:
        """Messages up to one of a kind, and the audio between them."""
        told, audio = list[dict[str, Any]](), b""
        while not told or told[-1]["type"] != kind:
            found = self.receive()
            if isinstance(found, bytes):
                audio += found
            else:
                told.append(found)
        return told, audio

    def error(self) -> dict[str, Any]:
        return self.until("error")[0][-1]

    def closed(self) -> int:
        """Code with which the service has closed it."""
        try:
            while True:
                self.receive()
        except ConnectionClosed as ended:
            assert ended.rcvd is not None
            return int(ended.rcvd.code)

    def speak(self, text: str, pieces: int = 7) -> tuple[list[dict[str, Any]], bytes]:
        """Sends a text in pieces of some letters; all up to the end of the utterance."""
        for at in range(0, len(text), pieces):
            self.send("input.text", text=text[at : at + pieces])
        self.send("input.done")
        return self.until("session.done")


@dataclass
class Service:
    """A service on its own server."""

    address: str
    state: AppState
    watch: Watch

    @property
    def url(self) -> str:
        return self.address.replace("http", "ws") + speech_stream.PATH

    @contextmanager
    def stream(
        self,
        *,
        key: str | None = None,
        config: bool = True,
        headers: Mapping[str, str] = {},
    ) -> Iterator[Stream]:
        headers = headers if key is None else {**headers, "Authorization": f"Bearer {key}"}
        with connect(
            self.url, additional_headers=headers, proxy=None, open_timeout=PATIENCE, ping_interval=None, close_timeout=5
        ) as socket:
            stream = Stream(socket)
            if config:
                stream.send("session.config", voice="alloy")
            yield stream


@contextmanager
def serving(folder: Path, **options: Any) -> Iterator[Service]:
    watch = Watch()
    with running(folder, watch=watch, **options) as state, live(create_app(state), state.section) as address:
        yield Service(address, state, watch)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("stream"), engine={"samples": 240}) as service:
        yield service


def joined(sentences: list[str]) -> bytes:
    """Audio of sentences by the engine, each a chunk, with the pauses between sentences."""
    requests = [prepare_script(each, TonesFrontend(), voice=VOICE, seed=0).requests[0] for each in sentences]
    pieces = join(((Result(0, sound(each, 240)), "sentence") for each in requests), Pauses())
    return pcm16(np.concatenate([piece.audio for piece in pieces])).tobytes()


# -- messages ------------------------------------------------------------------------------------------------


def test_a_text_in_pieces_is_spoken_sentence_by_sentence(service: Service) -> None:
    with service.stream() as stream:
        for number in range(2):
            told, audio = stream.speak(TEXT)
            starts = [each for each in told if each["type"] == "audio.start"]
            assert [each["sentence_text"] for each in starts] == [
                "The harbour lay still, and nobody was awake at all.", "It was late.", "A bell rang far out, twice.",
            ]  # fmt: skip
            assert [each["sentence_index"] for each in starts] == [0, 1, 2]
            assert {(each["format"], each["sample_rate"], each["channels"]) for each in starts} == {("pcm", 24_000, 1)}
            assert told[-1] == {"type": "session.done", "utterance_index": number, "total_sentences": 3}
            assert audio == joined([each["sentence_text"] for each in starts])


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("Let me look that up for you. ", ["Let me look that up for you."]),
        ("Sure! One moment.", ["Sure!", "One moment."]),
        ("今、調べます。", ["今、調べます。"]),
        ("Let me ask Dr. ", []),
        ("It costs 5.", []),
        ("Das ist am 3. ", []),
        ("I think", []),
        ("It opens the door. And", ["It opens the door."]),
        ("One moment. It costs 5.", ["One moment."]),
        ("She asks Dr. Wat", []),
    ],
)
def test_a_writer_who_pauses_has_ended_a_sentence_or_is_within_one(text: str, spoken: list[str]) -> None:
    found, rest = paused(text, None)
    assert [each.text for each in found] == spoken
    assert rest.strip() == text.removeprefix(" ".join(spoken)).strip()


def test_a_sentence_is_spoken_while_the_writer_pauses(service: Service) -> None:
    """An agent that calls a tool has no next word; the answer comes though nothing ends the utterance."""
    with service.stream() as stream:
        stream.send("input.text", text="Let me look that up for you. ")
        (start,), _ = stream.until("audio.start")
        assert start["sentence_text"] == "Let me look that up for you."


def test_a_pause_alone_between_paragraphs_keeps_nothing_from_being_spoken(service: Service) -> None:
    with service.stream() as stream:
        told, audio = stream.speak("Hi.\n\n[pause 1s]\n\nYou.")
        assert told[-1]["total_sentences"] == 2
        assert audio == stream.speak("Hi.\n\nYou.")[1]


def test_it_is_served_over_tls(tmp_path: Path) -> None:
    """With asyncio's client: the other one uses a TLS socket in two threads, and stands still one time in 200."""
    authority, context = trustme.CA(), create_default_context()
    authority.configure_trust(context)
    issued, certificate, key = authority.issue_cert("127.0.0.1"), tmp_path / "certificate.pem", tmp_path / "key.pem"
    issued.cert_chain_pems[0].write_to_path(str(certificate))
    issued.private_key_pem.write_to_path(str(key))

    async def speak(url: str) -> list[Any]:
        async with asyncio_connect(url, proxy=None, open_timeout=PATIENCE, ssl=context) as stream:
            for message in (
                {"type": "session.config", "voice": "alloy"},
                {"type": "input.text", "text": TEXT},
                {"type": "input.done"},
            ):
                await stream.send(json.dumps(message))
            told = list[Any]()
            while not told or told[-1]["type"] != "session.done":
                if isinstance(found := await stream.recv(), str):
                    told.append(json.loads(found))
            return told

    with serving(tmp_path / "data", engine={"samples": 240}, tls_certificate=certificate, tls_key=key) as service:
        assert asyncio.run(speak(service.url))[-1]["total_sentences"] == 3


def test_a_sentence_is_spoken_while_the_next_is_written(service: Service) -> None:
    with service.stream() as stream:
        stream.send("input.text", text="It was late. A bell ")
        assert stream.until("audio.done")[0][0]["sentence_text"] == "It was late."
        stream.send("input.text", text="rang")
        stream.send("input.done")
        assert stream.until("session.done")[0][-1]["total_sentences"] == 2


@pytest.mark.parametrize("format", ["mp3", "wav", "opus"])
def test_each_sentence_is_a_file_of_its_format(service: Service, format: str) -> None:
    begins = {"mp3": (b"\xff", b"ID3"), "wav": (b"RIFF",), "opus": (b"OggS",)}[format]
    with service.stream(config=False) as stream:
        stream.send("session.config", voice="alloy", response_format=format, model="tts-1", extra="ignored")
        stream.send("input.text", text="One bell. Two bells.")
        stream.send("input.done")
        for _ in range(2):
            told, audio = stream.until("audio.done")
            assert told[0]["format"] == format
            assert audio.startswith(begins)


def test_what_says_nothing_is_no_sentence(service: Service) -> None:
    with service.stream() as stream:
        for text in ("", "…", " \n\n ", "!? "):
            told, audio = stream.speak(text)
            assert (len(told), told[-1]["total_sentences"], audio) == (1, 0, b"")


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("{", "invalid JSON"), ("[]", "expected an object"), ("7", "expected an object"), ("[" * 5000, "nested"),
        ('{"type": null}', "unknown message type"), ('{"type": ["input.text"]}', "unknown message type"),
        ('{"type": "input.text"}', "expected a string"), ('{"type": "input.text", "text": 7}', "expected a string"),
        (b"\0\1", "binary"), ("9" * 6000, "invalid JSON"),
        ('{"type": "session.config", "voice": "nobody"}', "no voice"),
        ('{"type": "session.config", "voice": "alloy", "speed": 9}', "speed"),
        ('{"type": "session.config", "voice": "alloy", "speed": NaN}', "speed"),
        ('{"type": "session.config", "voice": "alloy", "model": "gpt-9"}', "gpt-9"),
        ('{"type": "session.config"}', "voice"),
        ('{"type": "session.config", "voice": "alloy", "input_format": "markdown"}', "what its marks mean"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_told_and_the_session_goes_on(service: Service, message: str | bytes, says: str) -> None:
    with service.stream() as stream:
        stream.socket.send(message)
        told = stream.error()
        assert says in told["message"]
        assert told["code"]
        if "input.text" in str(message) and "null" not in str(message) and "[" not in str(message):
            stream.send("input.cancel")
            stream.until("session.done")
        assert stream.speak("A bell rang.")[0][-1]["total_sentences"] == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<speak>Hello you. It is late.</speak>", ["Hello you. It is late."]),
        ("<speak>\n\nHello you. ", None),
        ("<speak>", None),
        ("<speak>A bell.</speak> Hello you.", None),
        ("[pause 99s] Hello you.", None),
        ("A bell rang. [pause 99s] Hello you.", None),
        ("[/voice] Hello you.", None),
        ("[voice:nobody] Hello you.", None),
        ("<speak><break time='soon'/> Hello you. </speak>", None),
        ("<speak><sub alias='…'>Hello</sub></speak>", None),
        ("<speak><break/></speak>", []),
    ],
)
@pytest.mark.parametrize("pauses", [False, True], ids=["at once", "with a pause"])
def test_whatever_its_tags_an_utterance_ends_and_the_session_goes_on(
    service: Service, monkeypatch: pytest.MonkeyPatch, text: str, said: list[str] | None, pauses: bool
) -> None:
    """SSML is spoken once it has ended; a wrong tag is told."""
    reached = threading.Event()
    real = speech_stream._Session._writer_pauses

    def pausing(session: Any) -> Any:
        if session._utterances:
            reached.set()
        return real(session)

    monkeypatch.setattr(speech_stream, "PAUSE_SECONDS", 0.05 if pauses else 60.0)
    monkeypatch.setattr(speech_stream._Session, "_writer_pauses", pausing)
    with service.stream() as stream:
        stream.send("input.text", text=text)
        if pauses:
            assert reached.wait(PATIENCE)
        stream.send("input.done")
        told, audio = stream.until("session.done")
        assert [each["type"] for each in told].count("error") == (said is None)
        if said is not None:
            assert audio == (joined(said) if said else b"")
        assert stream.speak("A bell rang.")[0][-1]["total_sentences"] == 1


@pytest.mark.parametrize(
    ("messages", "voices"),
    [
        (["[voice:onyx]Hello you. It is late. ", "A bell rang.[/voice] The end."], "onyx alloy"),
        (["[voice:onyx]Hello you. ", "It is late. ", "[/voice]", "A bell rang."], "onyx alloy"),
        (
            ["Hello you. [voice:onyx]It is late.\n\n", "A bell rang.", "\n\n[/voice]\n\nThe end."],
            "alloy onyx alloy",
        ),
        (["[voice:onyx]Hello you. [voice:nova]It is late. ", "[/voice]A bell rang. "], "onyx nova onyx"),
        (["[voice:ony", "x]Hello you. It is late. [/vo", "ice]A bell rang. "], "onyx alloy"),
        (["[voice:onyx]", "Hello you. It is late. "], "onyx"),
    ],
)
@pytest.mark.parametrize("pauses", [False, True], ids=["at once", "with a pause"])
def test_a_voice_holds_until_its_tag_ends(
    service: Service, monkeypatch: pytest.MonkeyPatch, messages: list[str], voices: str, pauses: bool
) -> None:
    """Over sentences and messages, to the end of its utterance at most."""
    asked = list[str | None]()

    def request(pool: Any, limiter: Any, script: Script, *rest: Any, **options: Any) -> Any:
        asked.extend(each.voice for each in script.requests)
        return SpeechRequest(pool, limiter, script, *rest, **options)

    monkeypatch.setattr("voxyard.service.routes.speech_stream.SpeechRequest", request)
    monkeypatch.setattr(speech_stream, "PAUSE_SECONDS", 0.01 if pauses else 60.0)
    with service.stream() as stream:
        for text in messages:
            stream.send("input.text", text=text)
            time.sleep(0.05 if pauses else 0)
        stream.send("input.done")
        told, _ = stream.until("session.done")
        assert "error" not in [each["type"] for each in told]
        assert [each for each, _ in groupby(asked)] == [OPENAI_VOICES[name] for name in voices.split()]
        starts = [each for each in told if each["type"] == "audio.start"]
        assert not [each for each in starts if set(each["sentence_text"]) & set("[]/")]
        speakers = [each.get("speaker") for each in starts]
        assert {*speakers, "alloy"} >= set(voices.split()) - {"nova"}
        assert (speakers[0] or "alloy") == voices.split(maxsplit=1)[0]
        assert stream.speak("A bell rang.")[0][-1]["total_sentences"] == 1
        assert asked[-1] == OPENAI_VOICES["alloy"]


def test_half_a_character_is_refused_and_its_utterance_ends(service: Service) -> None:
    with service.stream() as stream:
        stream.socket.send('{"type": "input.text", "text": "A bell \\ud800 rang."}')
        stream.send("input.done")
        told, _ = stream.until("session.done")
        assert [each["type"] for each in told] == ["error", "session.done"]
        assert stream.speak("A bell rang.")[0][-1]["total_sentences"] == 1


def test_the_first_message_is_the_configuration_and_comes_soon(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    with service.stream(config=False) as stream:
        stream.send("input.text", text="A bell rang.")
        assert "session.config" in stream.error()["message"]
        assert stream.closed() == 1008
    monkeypatch.setattr(speech_stream, "CONFIG_SECONDS", 0.05)
    with service.stream(config=False) as stream:
        assert "session.config" in stream.error()["message"]
        assert stream.closed() == 1008


def test_a_client_that_says_nothing_for_long_is_let_go(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speech_stream, "IDLE_SECONDS", 0.05)
    with service.stream() as stream:
        assert stream.closed() == 1008
    with service.stream() as stream:
        with suppress(ConnectionClosed):  # it has been let go already
            stream.send("session.close")
        assert stream.closed() in (1000, 1008)


# -- interruptions and limits --------------------------------------------------------------------------------


def test_an_interruption_ends_what_is_not_spoken(tmp_path: Path) -> None:
    with serving(tmp_path, engine={"samples": 240, "held": 1}) as service, service.stream() as stream:
        stream.send("input.text", text=LONG)
        stream.send("input.done")
        stream.until("audio.start")
        stream.send("input.cancel")
        told, _ = stream.until("session.done")
        assert told[-1]["cancelled"] is True
        assert told[-1]["total_sentences"] < 40
        (tmp_path / "on").touch()
        assert stream.speak("A bell rang.")[0][-1] == {
            "type": "session.done", "utterance_index": 1, "total_sentences": 1,
        }  # fmt: skip
        stream.send("input.cancel")  # nothing to interrupt
        assert stream.until("session.done")[0][-1]["cancelled"] is True
        eventually(lambda: service.watch.queue == 0, "nothing is left in the pool")
        assert service.watch.sent < 30


@pytest.mark.slow
def test_more_unspoken_text_than_may_be_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path, engine={"samples": 240, "seconds": 0.05}, max_input=200) as service:
        with service.stream() as stream:
            stream.send("input.text", text="x" * 201)
            assert "200 characters" in stream.error()["message"]
            stream.send("input.text", text="It was late. " * 4)  # of the utterance that is dropped
            stream.send("input.done")
            assert stream.until("session.done")[0][-1]["total_sentences"] == 0
            assert stream.speak("A bell rang.")[0][-1]["total_sentences"] == 1
        with service.stream() as stream:  # far more in all, as it is spoken
            for _ in range(30):
                stream.send("input.text", text="It was late, and a bell rang. Then ")
                stream.until("audio.done")
            stream.send("input.done")
            assert stream.until("session.done")[0][-1]["total_sentences"] == 31


def test_text_that_is_no_utf8_ends_the_connection_with_one_line(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "voxyard.service")
    with service.stream() as stream:
        stream.socket.send(b"\xff\xfe", text=True)
        assert stream.closed() == 1007
    (record,) = [each for each in caplog.records if "UTF-8" in each.message]
    assert (record.exc_info, "\n" in record.message) == (None, False)


def test_utterances_without_end_are_refused(tmp_path: Path) -> None:
    with serving(tmp_path, engine={"samples": 240, "held": 0}) as service, service.stream() as stream:
        stream.send("input.text", text="It was late.")
        for _ in range(30):
            stream.send("input.done")
        assert "utterances are not spoken" in stream.error()["message"]


def test_a_client_that_sends_nothing_but_errors_is_let_go(service: Service) -> None:
    with service.stream() as stream:
        for _ in range(speech_stream.MOST_REFUSALS + 1):
            stream.socket.send("{")
        assert stream.closed() == 1008


def test_a_huge_message_ends_the_connection(service: Service) -> None:
    with service.stream() as stream:
        stream.send("input.text", text="x" * 500_000)
        assert stream.closed() == 1009


@pytest.mark.parametrize(
    "frame", [b"\x89\x80\0\0\0\0", b"\x8a\x80\0\0\0\0", b"\x00\x80\0\0\0\0"], ids=["ping", "pong", "cont"]
)
def test_frames_that_are_no_message_end_the_connection_where_they_are_many(service: Service, frame: bytes) -> None:
    with service.stream() as stream, suppress(OSError):
        raw = stream.socket.socket
        if frame[0] == 0:
            raw.sendall(b"\x01\x80\0\0\0\0")  # a text begins
        for _ in range(10):  # as many as may be, ten times
            raw.sendall(frame * protocol.MOST_UNTAKEN)
    eventually(lambda: not service.state.open_streams, "the connection is closed")


def test_streams_of_a_key_are_limited(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speech_stream, "MOST_STREAMS", 2)
    with service.stream() as one:
        with service.stream(), service.stream(config=False) as third:
            told = third.error()
            assert (told["code"], told["retry_after"]) == ("rate_limit_exceeded", 1)
            assert third.closed() == 1013
        eventually(lambda: service.state.open_streams.total() == 1, "they are closed")
        with service.stream() as another:
            assert another.speak("A bell rang.")[0][-1]["total_sentences"] == 1
        assert one.speak("A bell rang.")[0][-1]["total_sentences"] == 1


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://[", "https://127.0.0.1"])
def test_a_page_of_another_origin_is_refused(service: Service, origin: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(InvalidStatus) as refused, service.stream(headers={"Origin": origin}):
        pass
    assert refused.value.response.status_code == 403
    assert not [record for record in caplog.records if record.name.startswith("uvicorn")]
    assert json.loads(refused.value.response.body or b"")["error"]["code"] == "forbidden"


def test_a_page_of_the_service_itself_is_served(service: Service) -> None:
    with service.stream(headers={"Origin": service.address}) as stream:
        assert stream.speak("A bell rang.")[0][-1]["total_sentences"] == 1


def test_a_host_that_is_not_this_machine_is_refused_without_keys(service: Service) -> None:
    with (
        pytest.raises(InvalidStatus) as refused,
        connect(
            f"ws://evil.example{speech_stream.PATH}",
            sock=socket.create_connection(("127.0.0.1", int(service.address.rpartition(":")[2]))),
        ),
    ):
        pass
    assert refused.value.response.status_code == 403


@pytest.fixture
def keyed(tmp_path: Path) -> Iterator[tuple[Service, Path, str]]:
    file = tmp_path / "keys.yaml"
    key = add_key(file, "anna")
    with serving(tmp_path / "data", engine={"samples": 240}, keys=file, allowed_origins="https://friend.example") as on:
        yield on, file, key


def test_a_key_is_needed_and_a_session_only_of_the_same_origin(keyed: tuple[Service, Path, str]) -> None:
    service, _, key = keyed
    session = httpx.post(f"{service.address}/session", json={"key": key}).headers["Set-Cookie"].partition(";")[0]
    for status, headers in (
        (401, {}), (401, {"Authorization": "Bearer vox_wrong"}),
        (403, {"Cookie": session, "Origin": "https://friend.example"}),
        (403, {"Cookie": session, "Origin": "https://evil.example"}),
    ):  # fmt: skip
        with pytest.raises(InvalidStatus) as refused, service.stream(headers=headers):
            pass
        assert refused.value.response.status_code == status
    with service.stream(headers={"Cookie": session, "Origin": service.address}) as stream:
        assert stream.speak("A bell rang.")[0][-1]["total_sentences"] == 1


def test_limits_of_a_key_count(keyed: tuple[Service, Path, str]) -> None:
    service, file, key = keyed
    limit_key(file, "anna", KeyLimits(characters=20))
    with service.stream(key=key) as stream:
        assert "20 characters" in stream.speak("It was late, and a bell rang.", 100)[0][0]["message"]
    limit_key(file, "anna", KeyLimits(requests_per_minute=2))
    with service.stream(key=key) as stream:
        told = [stream.speak("A bell rang.")[0] for _ in range(3)]
        assert told[-1][0]["code"] == "rate_limit_exceeded"
        assert told[-1][0]["retry_after"] > 0
        assert told[-1][-1]["total_sentences"] == 0
        for kind in ("input.done", "input.cancel"):
            stream.send(kind)
            assert [each["type"] for each in stream.until("session.done")[0]] == ["error", "session.done"]


def test_a_revoked_key_ends_the_stream_also_in_silence(
    keyed: tuple[Service, Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "REVOKED_SECONDS", 0.05)
    service, file, key = keyed
    with service.stream(key=key) as stream:
        assert stream.speak("A bell rang.")[0][-1]["total_sentences"] == 1
        revoke_key(file, "anna")
        assert stream.closed() == 1008


@pytest.mark.slow
def test_closed_sockets_no_longer_count_as_connections(service: Service) -> None:
    for _ in range(300):  # more than one address may have at a time without a key
        with service.stream(config=False):
            pass
    assert httpx.get(f"{service.address}/v1/models").status_code == 200


def test_a_stream_is_counted_as_a_request_of_its_route(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        with service.stream():
            pass

        def counts() -> bool:
            metrics = httpx.get(f"{service.address}/metrics").text
            counted = f'requests_total{{method="GET",route="{speech_stream.PATH}",status="101"}} 1.0' in metrics
            return counted and "voxyard_service_in_flight 1.0" in metrics  # the scrape itself

        eventually(counts, "the stream is counted, and no longer in flight")


def guides_client(service: Service, voice: str = "alloy") -> list[str]:
    """Command that runs the client of the guide."""
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (client,) = [each for each in blocks if speech_stream.PATH in each]
    assert len(client.splitlines()) <= 30
    client = client.replace("ws://127.0.0.1:8080", service.address.replace("http", "ws")).replace("alloy", voice)
    return [sys.executable, "-W", "default", "-c", client]


def test_the_client_of_the_guide_speaks_what_is_written(service: Service) -> None:
    done = subprocess.run(
        guides_client(service), input=TEXT.encode(), capture_output=True, timeout=PATIENCE, check=True
    )
    assert done.stderr == b"spoken\n"
    with service.stream() as stream:
        assert done.stdout == stream.speak(TEXT)[1]


def test_the_client_of_the_guide_ends_with_an_error_though_its_input_goes_on(service: Service) -> None:
    with subprocess.Popen(
        guides_client(service, "nobody"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as client:
        assert client.stderr is not None
        said = client.stderr.read().decode()
        assert client.wait(PATIENCE) == 1
    assert "no voice 'nobody'" in said
    assert "Traceback" not in said
    assert "Warning" not in said


def test_a_client_that_goes_away_ends_its_work(tmp_path: Path) -> None:
    with serving(tmp_path, engine={"samples": 240, "held": 1}) as service:
        with service.stream() as stream:
            stream.send("input.text", text=LONG)
            stream.until("audio.start")
            stream.socket.socket.close()
        eventually(lambda: service.state.limiter.open == 0, "its request has ended")
        eventually(lambda: service.watch.queue == 0, "nothing is left in the pool")
        assert service.watch.sent < 30


@pytest.mark.slow
def test_a_client_that_reads_nothing_stops_the_work(tmp_path: Path) -> None:
    with serving(tmp_path, engine={"samples": 24_000}, max_input=50_000) as service, service.stream() as stream:
        for _ in range(30):
            stream.send("input.text", text=LONG[:1000])
        eventually(lambda: service.watch.sent > 3, "some of it is spoken")
        counts = [service.watch.sent]

        def still() -> bool:
            counts.append(service.watch.sent)
            return len(counts) > 100 and len(set(counts[-100:])) == 1

        eventually(still, "the pool is not asked for more")
        assert service.watch.sent < 300


@pytest.mark.slow
def test_a_stopping_service_speaks_the_sentence_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speech_stream, "LOOK_SECONDS", 0.05)
    slow = {"samples": 240, "seconds": 0.3}
    with serving(tmp_path, engine=slow) as service, service.stream() as idle, service.stream() as stream:
        stream.send("input.text", text="It was late. A bell rang. Nobody came. ")
        eventually(lambda: service.watch.sent > 0, "it is being spoken")
        service.state.graceful_shutdown.drain()
        assert idle.error()["code"] == "unavailable"
        assert idle.closed() == 1012
        assert stream.until("error")[0][0]["type"] == "audio.start"
        assert stream.closed() == 1012
