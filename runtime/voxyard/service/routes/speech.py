"""Speech route: `POST /v1/audio/speech`, compatible with OpenAI's clients."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from voxyard.service import texts
from voxyard.service.errors import ServiceError
from voxyard.service.routes.inputs import AppStateDep, ClientDep, SpeechBody
from voxyard.service.routes.openapi import errors
from voxyard.service.state import AppState
from voxyard.service.streaming.audio_response import LiveResponse
from voxyard.service.streaming.speech_request import WITH_LENGTH, SpeechRequest
from voxyard.speech.audio.encoder import MEDIA_TYPES
from voxyard.speech.audio.joining import Pauses
from voxyard.speech.script import Script, script_note

router = APIRouter(tags=["speech"])

NOTE_HEADER = "X-Voxyard-Note"

_AUDIO: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
_EVENTS: dict[str, Any] = {
    "schema": {
        "type": "object",
        "description": "One event: `speech.audio.delta` with base64 audio, or `speech.audio.done` with the usage.",
        "required": ["data"],
        "properties": {"data": {"type": "string", "contentMediaType": "application/json"}},
    },
    "example": {"data": '{"type":"speech.audio.delta","audio":"//uQ"}'},
}


@router.post(
    "/v1/audio/speech",
    operation_id="create_speech",
    summary="Create speech",
    response_class=Response,
    responses={
        200: {
            "description": "Audio, streamed during synthesis; with `stream_format=sse` as events.",
            "headers": {
                NOTE_HEADER: {
                    "description": "Warning for a listener, such as that the voice speaks another language.",
                    "schema": {"type": "string"},
                }
            },
            "content": {**dict.fromkeys(sorted(set(MEDIA_TYPES.values())), _AUDIO), "text/event-stream": _EVENTS},
        },
        **errors(400, 404, 408, 413),
    },
)
async def create_speech(
    body: SpeechBody,
    state: AppStateDep,
    client: ClientDep,
) -> Response:
    """Audio is streamed from the first chunk on. A later error cuts the connection.

    A disconnect cancels the request. `usage` counts the engine's tokens of the text, and 50 per second of audio.
    """
    limits = state.limits(client.name)
    most = limits.characters_of(state.section.max_input)
    state.models.check(body.model)
    if len(body.input) > most:
        raise ServiceError(
            f"input has {len(body.input):,} characters, expected at most {most:,}: split it, or submit a document",
            parameter="input",
        )
    state.limiter.check(client.name)
    whole = not body.stream and body.stream_format == "audio" and body.codec in WITH_LENGTH
    prepared = await state.preparing_speech.run(client.name, partial(prepare_speech, state, client.name, body))
    speech = SpeechRequest(
        state.pool,
        state.limiter,
        prepared.script,
        prepared.pauses,
        body.codec,
        prepared.tempo,
        owner=client.name,
        share=limits.share,
        whole=whole,
        on_heard=None if whole else state.metrics.stream_heard,
    )
    headers = {} if prepared.note is None else {NOTE_HEADER: prepared.note}
    if body.stream_format == "sse":
        return LiveResponse(speech.events(), media_type="text/event-stream", headers=headers, cut=speech.cut)
    return LiveResponse(speech.audio(), media_type=MEDIA_TYPES[body.codec], headers=headers, cut=speech.cut)


@dataclass(frozen=True)
class PreparedSpeech:
    """A request's chunks, the pauses between them, the speed that is still to be made of them, and a warning."""

    script: Script
    pauses: Pauses
    tempo: float
    note: str | None


def prepare_speech(state: AppState, owner: str, body: SpeechBody) -> PreparedSpeech:
    """Chunks of the text in the voice, with the lexicons of request, key and host. Raises ServiceError."""
    voice, cast = state.voices.resolve(body.voice_name, owner), state.voices.cast(body.cast, owner)
    text = texts.plain(body.input, body.input_format, state.code_blocks)
    reading = texts.changed(state.reading.changed(lexicon=state.lexicon(owner)), body.read, body.lexicon)
    language = body.language or None
    script = texts.script(
        text, state.frontend, voice, body.seed, language, parameter="input", reading=reading, cast=cast
    )
    note = script_note(script, language, state.frontend, lambda name: body.voice_name if name == voice else name)
    slowest, fastest = state.frontend.speeds
    own = min(max(body.speed, slowest), fastest)
    script = script.at_speed(own)
    return PreparedSpeech(
        replace(script, requests=tuple(state.store.voices.attach(script.requests))),
        state.pauses.at_speed(own),
        body.speed / own,
        note,
    )
