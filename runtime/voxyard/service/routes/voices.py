"""Voice routes: upload or mix a voice, delete one."""

from __future__ import annotations

import time
from functools import partial
from typing import Annotated, Any

from fastapi import Path, status
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from starlette.requests import Request

from voxyard.service.errors import ServiceError, UnsupportedDocumentError
from voxyard.service.names import uploaded_voice
from voxyard.service.routes import serializers
from voxyard.service.routes.inputs import AppStateDep, ClientDep, Name, RequestBody
from voxyard.service.routes.openapi import Router, errors, form, inlined
from voxyard.service.routes.schemas import VoiceOut
from voxyard.service.routes.uploads import chosen, read_form, valid
from voxyard.service.voices.submission import NAME, VoiceSubmission, VoiceSubmissions
from voxyard.service.voices.table import StoredVoice

VoiceNameField = Annotated[
    str,
    StringConstraints(min_length=1, max_length=64),
    Field(
        description="Name for requests: letters, digits, dots, hyphens, underscores. None of the service's own.",
        json_schema_extra={"pattern": NAME},
    ),
]
Description = Annotated[
    Annotated[str, StringConstraints(max_length=500)] | None, Field(description="A note for people.")
]
LanguageOption = Annotated[
    Annotated[str, StringConstraints(max_length=35)] | None,
    Field(description="Language code such as `en`, for texts that name none."),
]


class VoiceMix(RequestBody):
    """Voices that a mixed voice is made of."""

    manner: Name = Field(description="Voice whose manner of speaking it has: melody, pace, accent (semantic tokens).")
    timbre: Name = Field(description="Voice whose timbre and room it has (coarse and fine codes).")


class VoiceMixBody(RequestBody):
    """Voice to mix of two others; these may be deleted afterwards."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"name": "calm-captain", "mix": {"manner": "v2/en_speaker_6", "timbre": "captain"}}],
        },
    )

    name: VoiceNameField
    mix: VoiceMix
    description: Description = None
    language: LanguageOption = None


class VoiceUploadBody(BaseModel):
    """Form fields of a voice to upload. An unknown field is an error."""

    model_config = ConfigDict(extra="forbid")

    name: VoiceNameField
    file: bytes | None = Field(
        None, description="Voice of Bark (.npz), at most 1 MiB.", json_schema_extra={"format": "binary"}
    )
    description: Description = None
    language: LanguageOption = None


router = Router(tags=["catalogue"])

_FIELDS = 8  # of a form
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {"schema": form(VoiceUploadBody.model_json_schema(), ("file",))},
            "application/json": {"schema": inlined(VoiceMixBody.model_json_schema())},
        },
    }
}


@router.post(
    "/v1/audio/voices",
    operation_id="create_voice",
    summary="Upload or mix a voice",
    status_code=status.HTTP_201_CREATED,
    openapi_extra=_BODY,
    responses=errors(400, 404, 408, 409, 413, 415, 501, 507),
)
async def create_voice(request: Request, state: AppStateDep, client: ClientDep) -> VoiceOut:
    """A form with a voice file, or JSON with two voices to mix. The key that sent it sees and uses it, no other.

    A mixed voice has the manner of speaking of one voice and the timbre of another. The codes of voices are names of
    sounds, not amounts: there is no voice in the middle between two.
    """
    submissions = VoiceSubmissions(state.frontend, state.voices, state.store.voices, state.section.max_voices)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        content = await request.body()
        body: VoiceMixBody = valid(lambda: VoiceMixBody.model_validate_json(content))
        asked = VoiceSubmission(body.name, body.description, body.language or None)
        mix = partial(submissions.mix, client.name, asked, body.mix.manner, body.mix.timbre, time.time())
        return _voice_out(await state.changing.run(client.name, mix))
    if kind != "multipart/form-data":
        raise UnsupportedDocumentError(
            f"unsupported Content-Type {kind or '(none)'}: expected multipart/form-data with a voice file, or "
            "application/json with voices to mix"
        )
    async with read_form(request, max_fields=_FIELDS) as fields:
        given = {name: value for name, value in fields.items() if isinstance(value, str) and value and name != "file"}
        options: VoiceUploadBody = valid(lambda: VoiceUploadBody.model_validate(given))
        if (file := chosen(fields)) is None:
            raise ServiceError("no file is given: expected the .npz file of a voice", parameter="file")
        content = await file.read()
    asked = VoiceSubmission(options.name, options.description, options.language)
    upload = partial(submissions.upload, client.name, asked, content, time.time())
    return _voice_out(await state.changing.run(client.name, upload))


@router.delete(
    "/v1/audio/voices/{name}",
    operation_id="delete_voice",
    summary="Delete an uploaded voice",
    status_code=status.HTTP_204_NO_CONTENT,
    responses=errors(404),
)
async def delete_voice(
    name: Annotated[str, Path(description="Name of a voice that this key has uploaded.")],
    state: AppStateDep,
    client: ClientDep,
) -> None:
    """Documents that are spoken with it keep it until they are deleted; it counts among the key's voices until then."""
    await state.changing.run(client.name, partial(state.store.voices.delete, client.name, name))


def _voice_out(stored: StoredVoice) -> VoiceOut:
    return serializers.voice(uploaded_voice(stored))
