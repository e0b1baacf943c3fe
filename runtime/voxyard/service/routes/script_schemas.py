"""HTTP schemas of scripts: the words that are spoken of a text."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from voxyard.service.routes.schemas import CastOption, InputFormat, LexiconOption, Name, ReadOption, RequestBody


class ScriptBody(RequestBody):
    """Text whose words are asked for, with the options of a document."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"text": "It cost $5 in 1999.", "voice": "alloy", "read": "currency"}]}
    )

    text: Annotated[str, StringConstraints(min_length=1)]
    input_format: InputFormat = "text"
    voice: Name | None = Field(None, description="A voice from `GET /v1/audio/voices`; defaults to the engine's.")
    language: Annotated[str, StringConstraints(max_length=35)] | None = Field(
        None, description="Language code such as `en`; defaults to the voice's."
    )
    cast: CastOption = None
    read: ReadOption = None
    lexicon: LexiconOption = None


class ScriptChunkOut(BaseModel):
    """Chunk of a script."""

    index: int
    text: str = Field(description="As the text has it.")
    words: str = Field(description="As the engine gets it.")
    estimated_seconds: float
    pause_seconds: float | None = Field(description="Silence after it by a pause tag; null: by what ends with it.")
    speaker: str | None = Field(default=None, description="Name in the text of who speaks it.")


class ScriptChapterOut(BaseModel):
    """Chapter of a script."""

    title: str
    level: int = Field(description="1 to 6, as headings have it.")
    first_chunk: int


class ScriptOut(BaseModel):
    """Words that are spoken, in text order."""

    voice: str | None
    language: str | None
    estimated_seconds: float = Field(description="Estimated length of the speech, without its pauses.")
    chapters: list[ScriptChapterOut]
    chunks: list[ScriptChunkOut]
