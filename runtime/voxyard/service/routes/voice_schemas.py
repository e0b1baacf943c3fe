"""HTTP schemas of uploaded and mixed voices."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from voxyard.service.routes.schemas import Name, RequestBody
from voxyard.service.voices.submission import NAME

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
