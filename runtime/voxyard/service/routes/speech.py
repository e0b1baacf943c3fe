"""`POST /v1/audio/speech`, as OpenAI's clients send it."""

from __future__ import annotations

from functools import partial
from typing import Any

from anyio.to_thread import run_sync
from fastapi import APIRouter
from starlette.responses import Response

from voxyard.service.documents import submission
from voxyard.service.errors import ServiceError
from voxyard.service.routes.dependencies import TheServices, TheTurnstile, TheVoices
from voxyard.service.routes.openapi import errors
from voxyard.service.routes.schemas import SpeechBody
from voxyard.service.streaming.audio_response import LiveResponse
from voxyard.service.streaming.speech_request import Speech
from voxyard.service.voice_names import check_model
from voxyard.speech.audio.encoder import MEDIA_TYPES

router = APIRouter(tags=["speech"])

_SOUND: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
_EVENTS: dict[str, Any] = {
    "schema": {
        "type": "object",
        "description": "One event: `speech.audio.delta` with sound in base64, `speech.audio.done` with the usage.",
        "required": ["data"],
        "properties": {"data": {"type": "string", "contentMediaType": "application/json"}},
    },
    "example": {"data": '{"type":"speech.audio.delta","audio":"//uQ"}'},
}


@router.post(
    "/v1/audio/speech",
    operation_id="create_speech",
    summary="Speak a text at once",
    response_class=Response,
    responses={
        200: {
            "description": "The sound, sent while it is made; with `stream_format=sse` in events.",
            "content": {**dict.fromkeys(sorted(set(MEDIA_TYPES.values())), _SOUND), "text/event-stream": _EVENTS},
        },
        **errors(400, 404, 408, 413),
    },
)
async def create_speech(
    body: SpeechBody, services: TheServices, voices: TheVoices, turnstile: TheTurnstile
) -> Response:
    """Sound leaves as soon as the first chunk is spoken. An error that comes later cuts the connection.

    A client that goes away ends its request. `usage` counts the engine's tokens of the text, and 50 for each second
    of sound.
    """
    section = services.section
    check_model(body.model, services.frontend)
    if len(body.input) > section.max_input:
        raise ServiceError(
            f"input has {len(body.input):,} characters, expected {section.max_input:,} at most: send it in parts, or "
            "as a document",
            parameter="input",
        )
    voice = voices.resolve(body.voice_name)
    script = await run_sync(
        partial(submission.script, body.input, services.frontend, voice, body.seed, parameter="input")
    )
    speech = Speech(services.pool, turnstile, script, services.pauses, body.response_format, body.speed)
    if body.stream_format == "sse":
        return LiveResponse(speech.events(), media_type="text/event-stream")
    return LiveResponse(speech.sound(), media_type=MEDIA_TYPES[body.response_format])
