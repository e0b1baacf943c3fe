"""Speech stream: `/v1/audio/speech/stream`, a WebSocket that takes a text while it is written and gives its audio.

Messages have the shapes of vLLM-Omni's speech stream. An utterance is what comes before an `input.done`; its sentences
are spoken one after the other, each once the client has taken the audio of the one before.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import anyio
from fastapi import APIRouter
from pydantic import ValidationError
from starlette.websockets import WebSocket, WebSocketDisconnect

from voxyard.service.auth.api_keys import Client
from voxyard.service.errors import BusyError, ServiceError, TooLargeError, UnavailableError
from voxyard.service.http.body_limit import check_json
from voxyard.service.http.errors import invalid
from voxyard.service.routes.inputs import SpeechBody
from voxyard.service.routes.speech import PreparedSpeech, prepare_speech
from voxyard.service.state import AppState
from voxyard.service.streaming.audio_response import BLOCK, STALL, Cut
from voxyard.service.streaming.speech_request import SpeechRequest, error_fields
from voxyard.service.streaming.text_stream import Sentence, complete, last, paused, voiced
from voxyard.speech.audio.joining import Joiner
from voxyard.speech.errors import SpeechError
from voxyard.speech.reading.markup import is_ssml, untagged
from voxyard.speech.requests import SAMPLE_RATE
from voxyard.speech.text.chunks import check_text

router = APIRouter()

PATH = "/v1/audio/speech/stream"
CONFIG_SECONDS = 10.0
"""Time limit for the first message."""
IDLE_SECONDS = 300.0
"""Time limit for the next message where nothing is being spoken."""
PAUSE_SECONDS = 0.3  # without a message, after which a sentence at the end of the text is spoken
LOOK_SECONDS = 2.0  # between two looks whether the service stops
MOST_STREAMS = 1000
"""Most streams of one key at a time: each has an open file."""
MOST_UTTERANCES = 16  # that are not spoken
MOST_REFUSALS = 100  # of messages of a session
_NORMAL, _REFUSED, _RESTART, _TRY_LATER = 1000, 1008, 1012, 1013  # closing codes (RFC 6455, IANA)
_Cutting = Callable[[str, str | None], tuple[list[Sentence], str]]  # of a text in a language
_DEFAULTS = {"model": "tts-1", "response_format": "pcm"}
_TYPES = "session.config, input.text, input.done, input.cancel or session.close"


@router.websocket(PATH)
async def stream_speech(socket: WebSocket) -> None:
    """One client, from its `session.config` to the end of its connection."""
    await socket.accept()
    state, client = socket.app.state.app_state, socket.scope["state"]["client"]
    streams = state.open_streams
    streams[client.name] += 1
    try:
        await _Session(socket, state, client, full=streams[client.name] > MOST_STREAMS).run()
    finally:
        streams[client.name] -= 1
        if not streams[client.name]:
            del streams[client.name]


@dataclass(eq=False)
class _Utterance:
    """Text between two `input.done`."""

    index: int
    config: SpeechBody
    joiner: Joiner | None = None  # of its sentences
    rest: str = ""  # that may go on
    voices: tuple[str, ...] = ()  # open after the last complete sentence
    waiting: deque[Sentence] = field(default_factory=deque)
    spoken: int = 0  # sentences
    ended: bool = False
    refused: bool = False  # the rest of it is dropped
    cancelled: bool = False

    def drop(self) -> None:
        """Drops what is not spoken."""
        self.rest = ""
        self.waiting.clear()


class _Session:
    """Connection of one client: reads its messages while another task speaks."""

    def __init__(self, socket: WebSocket, state: AppState, client: Client, *, full: bool) -> None:
        self._socket, self._state, self._client = socket, state, client
        self._config: SpeechBody | None = None
        self._utterances: deque[_Utterance] = deque()  # that are not spoken
        self._refusals = 0
        self._next = 0  # index of the next one
        self._saying: tuple[Sentence, anyio.CancelScope] | None = None
        self._changed = anyio.Event()
        self._ending: tuple[int, ServiceError | None] | None = None
        self._all = anyio.CancelScope()
        if full:
            self._end(
                _TRY_LATER, BusyError(f"{MOST_STREAMS} streams of the key are open: close one of them", retry_after=1)
            )

    async def run(self) -> None:
        """Serves the client until it closes the connection or is refused."""
        try:
            with self._all:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._speak)
                    group.start_soon(self._watch)
                    await self._read()
                    group.cancel_scope.cancel()
            if self._ending is not None:
                code, error = self._ending
                with anyio.move_on_after(STALL):
                    if error is not None:
                        await self._tell_error(error)
                    await self._socket.close(code, "" if error is None else error.code)
        except* (WebSocketDisconnect, TimeoutError):  # gone, or it reads nothing: nobody to tell
            pass

    def _end(self, code: int, error: ServiceError | None = None) -> None:
        self._ending = self._ending or (code, error)
        self._all.cancel()

    # -- messages ----------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        while True:
            seconds = CONFIG_SECONDS if self._config is None else IDLE_SECONDS
            message = None
            with anyio.move_on_after(PAUSE_SECONDS):
                message = await self._socket.receive()
            if message is None:
                await self._refusing(self._writer_pauses)
                with anyio.move_on_after(seconds):
                    message = await self._socket.receive()
            if message is None:
                if self._utterances and self._saying is not None:
                    continue
                wanted = "session.config" if self._config is None else "a message"
                return self._end(_REFUSED, ServiceError(f"expected {wanted} within {seconds:g} s: connect again"))
            if message["type"] == "websocket.disconnect":
                return None
            await self._refusing(partial(self._handle, message.get("text")))
            await anyio.sleep(0)  # a client that sends without end holds up no other

    async def _refusing(self, do: Callable[[], Awaitable[None]]) -> None:
        """Does what a client's message or text asks for; tells what is refused of it, and ends after too much of it."""
        try:
            await do()
        except (ServiceError, SpeechError) as error:
            refusal = error if isinstance(error, ServiceError) else ServiceError(str(error), parameter="text")
            self._refusals += 1
            if self._config is None or self._refusals > MOST_REFUSALS:
                self._end(_REFUSED, refusal)
                return
            await self._tell_error(refusal)
        self._changed.set()  # after the refusal, which comes before `session.done`

    async def _handle(self, text: str | None) -> None:
        """Handles one message. Raises ServiceError or SpeechError where it is refused."""
        message = _message(text)
        kind = message.pop("type", None)
        if kind == "session.config":
            await self._configure(message)
        elif kind == "session.close":
            self._end(_NORMAL)
        elif kind not in ("input.text", "input.done", "input.cancel"):
            raise ServiceError(f"unknown message type {str(kind)[:100]!r}: expected {_TYPES}", parameter="type")
        elif (config := self._config) is None:
            raise ServiceError(f"{kind} came first: expected session.config with a voice", parameter="type")
        elif kind == "input.text":
            self._add(self._open(config), message.get("text"))
        elif kind == "input.done":
            self._finish(config)
        else:
            self._cancel(config)

    async def _writer_pauses(self) -> None:
        """Speaks what is complete where no more text comes, as while an agent calls a tool. Raises SpeechError."""
        utterance = self._utterances[-1] if self._utterances else None
        if utterance is not None and not (utterance.ended or utterance.refused) and utterance.rest:
            self._cut(utterance, paused)

    async def _configure(self, options: dict[str, Any]) -> None:
        if self._utterances:
            raise ServiceError(
                "session.config came within an utterance: send input.done and wait for session.done, or input.cancel",
                parameter="type",
            )
        given = {name: value for name, value in options.items() if value is not None}
        if given.pop("input_format", "text") != "text":
            raise ServiceError(
                "a sentence alone does not tell what its marks mean: expected text without them",
                parameter="input_format",
            )
        try:
            config = SpeechBody.model_validate({**_DEFAULTS, **given, "input": "a"})
        except ValidationError as error:
            raise invalid(error.errors(include_url=False), inside=0) from error
        self._state.models.check(config.model)
        await self._prepared(config)  # its voices and words
        self._config = config

    def _add(self, utterance: _Utterance, text: object) -> None:
        """Adds to an utterance; where that is refused, the rest of it is, too. Raises ServiceError or SpeechError."""
        if not isinstance(text, str):
            raise ServiceError("text: expected a string", parameter="text")
        most = self._state.limits(self._client.name).characters_of(self._state.section.max_input)
        if utterance.refused:
            return
        if self._unspoken + len(text) > most:
            utterance.refused = True
            raise TooLargeError(
                f"more than {most:,} characters are not spoken: the rest of the utterance is dropped; send text as "
                "it is spoken",
                parameter="text",
            )
        if text:
            self._cut(utterance, complete, text)

    def _cut(self, utterance: _Utterance, how: _Cutting, more: str = "") -> None:
        """Moves what is complete of an utterance to what is spoken; drops what cannot be read. Raises SpeechError."""
        text, utterance.rest, utterance.refused = utterance.rest + more, "", True
        check_text(more)
        found, utterance.rest = how(text, _language(utterance.config))
        for sentence, voices in voiced(found, utterance.voices):
            utterance.waiting.append(sentence)
            utterance.voices = voices
        utterance.refused = False

    def _finish(self, config: SpeechBody) -> None:
        """Ends an utterance, whatever is refused of it. Raises BusyError or SpeechError."""
        try:
            utterance = self._open(config)
            if not utterance.refused:
                self._cut(utterance, last)
        finally:
            self._utterances[-1].rest, self._utterances[-1].ended = "", True

    def _open(self, config: SpeechBody) -> _Utterance:
        """The utterance in progress, a new one where there is none. Raises BusyError above the key's rate."""
        if self._utterances and not self._utterances[-1].ended:
            return self._utterances[-1]
        if len(self._utterances) >= MOST_UTTERANCES:
            raise BusyError(f"{MOST_UTTERANCES} utterances are not spoken: wait for session.done", retry_after=1)
        utterance = _Utterance(self._next, config)
        try:
            self._state.take_request(self._client.name)
        except BusyError:
            utterance.refused = True
            raise
        finally:
            self._next += 1
            self._utterances.append(utterance)
        return utterance

    def _cancel(self, config: SpeechBody) -> None:
        """Ends all that is not spoken; the client has interrupted. Raises BusyError."""
        try:
            if not self._utterances:
                self._open(config)
        finally:
            for each in self._utterances:
                each.drop()
                each.ended = each.cancelled = True
        if self._saying is not None:
            self._saying[1].cancel()

    @property
    def _unspoken(self) -> int:
        """Characters that are not spoken."""
        waiting = sum(len(sentence.text) for each in self._utterances for sentence in each.waiting)
        saying = 0 if self._saying is None else len(self._saying[0].text)
        return saying + waiting + sum(len(each.rest) for each in self._utterances)

    # -- speech ------------------------------------------------------------------------------------------------

    async def _speak(self) -> None:
        """Speaks the sentences in their order."""
        while True:
            self._changed = anyio.Event()
            utterance = self._utterances[0] if self._utterances else None
            if utterance is not None and utterance.waiting:
                await self._say_within(utterance, utterance.waiting.popleft())
            elif utterance is not None and utterance.ended:
                self._utterances.popleft()
                done = {"type": "session.done", "utterance_index": utterance.index, "total_sentences": utterance.spoken}
                await self._tell({**done, "cancelled": True} if utterance.cancelled else done)
            else:
                await self._changed.wait()

    async def _say_within(self, utterance: _Utterance, sentence: Sentence) -> None:
        """Speaks a sentence, which `_cancel` may end. What cannot be spoken is told, and ends its utterance."""
        with anyio.CancelScope() as scope:
            self._saying = sentence, scope
            try:
                await self._say(utterance, sentence)
                utterance.spoken += 1
            except (ServiceError, SpeechError) as error:
                utterance.refused = True
                utterance.drop()
                await self._tell_error(error, utterance)
            finally:
                self._saying = None

    async def _say(self, utterance: _Utterance, sentence: Sentence) -> None:
        config = utterance.config.model_copy(update={"input": sentence.marked})
        made = await self._prepared(config)
        chunks = (*made.script.chunks[:-1], replace(made.script.chunks[-1], ending=sentence.ending))
        utterance.joiner = utterance.joiner or Joiner(made.pauses)
        speech = SpeechRequest(
            self._state.pool,
            self._state.limiter,
            replace(made.script, chunks=chunks),
            made.pauses,
            config.codec,
            made.tempo,
            owner=self._client.name,
            share=self._state.limits(self._client.name).share,
            joiner=utterance.joiner,
            on_heard=self._state.metrics.stream_heard,
        )
        speakers = {each.speaker for each in chunks}
        place = {"utterance_index": utterance.index, "sentence_index": utterance.spoken}
        start = {
            "type": "audio.start",
            **place,
            "sentence_text": _bare(sentence.text),
            **({"speaker": chunks[0].speaker} if len(speakers) == 1 and speakers != {None} else {}),
            "format": config.codec,
            "sample_rate": SAMPLE_RATE,
            "channels": 1,
            **({} if made.note is None else {"note": made.note}),
        }
        failure: ServiceError | SpeechError | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(self._end_when_cut, speech.cut)
            try:
                await self._send_audio(speech, start)
                await self._tell({"type": "audio.done", **place})
            except (ServiceError, SpeechError) as error:
                failure = error
            group.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _send_audio(self, speech: SpeechRequest, start: Mapping[str, object]) -> None:
        """Sends the audio of a sentence, after `start`."""
        started = False
        async with aclosing(speech.audio()) as pieces:
            async for piece in pieces:
                if not started:
                    started = True
                    await self._tell(start)
                for at in range(0, len(piece), BLOCK):
                    with anyio.fail_after(STALL):
                        await self._socket.send_bytes(piece[at : at + BLOCK])

    async def _prepared(self, config: SpeechBody) -> PreparedSpeech:
        return await self._state.preparing_speech.run(
            self._client.name, partial(prepare_speech, self._state, self._client.name, config)
        )

    async def _end_when_cut(self, cut: Cut) -> None:
        self._end(_TRY_LATER, UnavailableError(await cut.wait(), retry_after=1))

    async def _watch(self) -> None:
        """Ends a session in which nothing is being spoken once the service stops."""
        while not self._state.graceful_shutdown.draining or self._saying is not None:
            await anyio.sleep(LOOK_SECONDS)
        self._end(_RESTART, UnavailableError("the service is shutting down: connect again in 10 s", retry_after=10))

    async def _tell(self, message: Mapping[str, object]) -> None:
        with anyio.fail_after(STALL):
            await self._socket.send_text(json.dumps(message, separators=(",", ":")))

    async def _tell_error(self, error: ServiceError | SpeechError, utterance: _Utterance | None = None) -> None:
        place = {} if utterance is None else {"utterance_index": utterance.index}
        wait = getattr(error, "retry_after", None)
        later = {} if wait is None else {"retry_after": wait}
        await self._tell({**error_fields(error), "type": "error", **place, **later})


def _language(config: SpeechBody) -> str | None:
    """Language of the sentences; None goes by the letters."""
    return None if config.language is None else config.language.partition("-")[0].lower()


def _message(text: str | None) -> dict[str, Any]:
    """JSON object of a message. Raises ServiceError."""
    if text is None:
        raise ServiceError("found a binary message, expected JSON as text")
    check_json(text)
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ServiceError(f"invalid JSON: {error}") from error
    if not isinstance(found, dict):
        raise ServiceError(f"found JSON of the type {type(found).__name__}, expected an object with a type: {_TYPES}")
    return found


def _bare(text: str) -> str:
    """A sentence without the tags that direct the voice."""
    found = untagged(text, ssml=is_ssml(text))
    return text if found == text else " ".join(found.split())
