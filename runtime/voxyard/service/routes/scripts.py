"""Script routes: the words that are, or would be, spoken of a text."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from anyio.to_thread import run_sync
from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from voxyard.extraction.plaintext import clean
from voxyard.service import texts
from voxyard.service.errors import TooLargeError
from voxyard.service.routes import document_stream
from voxyard.service.routes.answers import Answer, with_items
from voxyard.service.routes.inputs import (
    AppStateDep,
    CastOption,
    ClientDep,
    DocumentId,
    InputFormat,
    Language,
    LexiconOption,
    Name,
    ReadOption,
    RequestBody,
)
from voxyard.service.routes.openapi import Router, errors
from voxyard.service.state import AppState
from voxyard.service.voices.table import shown_name


class ScriptBody(RequestBody):
    """Text whose words are asked for, with the options of a document."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"text": "It cost $5 in 1999.", "voice": "alloy", "read": "currency"}]}
    )

    text: Annotated[str, StringConstraints(min_length=1)]
    input_format: InputFormat = "text"
    voice: Name | None = Field(None, description="A voice from `GET /v1/audio/voices`; defaults to the engine's.")
    language: Language | None = Field(None, description="Language code such as `en`; defaults to the voice's.")
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
    voice: str | None = Field(default=None, description="Its own, by a tag or by its language; null: the script's.")
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


router = Router()


@router.post(
    "/v1/audio/script",
    operation_id="create_script",
    summary="Show what would be spoken of a text",
    tags=["speech"],
    responses=errors(400, 404, 408, 413),
)
async def create_script(body: ScriptBody, state: AppStateDep, client: ClientDep) -> ScriptOut:
    """Words that the engine would get: figures as words, with the lexicons of request, key and host. Speaks nothing.

    The text may be as long as that of a speech request.
    """
    most = state.limits(client.name).characters_of(state.section.max_input)
    if len(body.text) > most:
        raise TooLargeError(
            f"the text has {len(body.text):,} characters, expected at most {most:,}: send its beginning, or submit it "
            "as a document, whose script is at /v1/documents/{id}/script",
            parameter="text",
        )
    return await state.preparing_speech.run(client.name, partial(_of_text, state, client.name, body))


@router.get(
    "/v1/documents/{id}/script",
    operation_id="retrieve_script",
    summary="Show what is spoken of a document",
    tags=["documents"],
    response_model=ScriptOut,
    responses=errors(404, 409),
)
async def retrieve_script(id: DocumentId, state: AppStateDep, client: ClientDep) -> Response:
    """Words that the engine gets, chunk by chunk, as they were made of the text when it was submitted."""
    document = await run_sync(state.store.document, id, client.name)
    return (await state.answers.get(document, "script", partial(_of_document, state, id))).response()


def _of_document(state: AppState, id: str) -> Answer:
    document, chunks = state.store.snapshot(id)
    document_stream.check_has_text(document, "script")
    text, spoken = state.store.text(id), state.store.spoken(id)
    body = ScriptOut(
        voice=shown_name(document.voice),
        language=document.language,
        estimated_seconds=round(document.estimated_seconds, 3),
        chapters=[
            ScriptChapterOut(title=chapter.title, level=chapter.level, first_chunk=chapter.first)
            for chapter in state.store.chapters(id)
        ],
        chunks=[],
    )
    items = (
        ScriptChunkOut(
            index=chunk.index,
            text=text[chunk.start : chunk.end],
            words=spoken.get(chunk.index, text[chunk.start : chunk.end]),
            estimated_seconds=round(chunk.estimated_seconds, 3),
            pause_seconds=chunk.pause,
            voice=shown_name(chunk.voice),
            speaker=chunk.speaker,
        )
        for chunk in chunks
    )
    return Answer(with_items(body, "chunks", items))


def _of_text(state: AppState, owner: str, body: ScriptBody) -> ScriptOut:
    voice = None if body.voice is None else state.voices.resolve(body.voice, owner)
    cast = state.voices.cast(body.cast, owner)
    reading = texts.changed(state.reading.changed(lexicon=state.lexicon(owner)), body.read, body.lexicon)
    text = texts.plain(clean(body.text), body.input_format, state.code_blocks, "text")
    script = texts.script(
        text, state.frontend, voice, 0, body.language or None,
        reading=reading, on_failure=None, cast=cast,
    )  # fmt: skip
    voice = script.voice
    return ScriptOut(
        voice=shown_name(voice),
        language=script.language,
        estimated_seconds=round(script.estimated_seconds, 3),
        chapters=[],
        chunks=[
            ScriptChunkOut(
                index=chunk.index,
                text=chunk.text,
                words=asked.text,
                estimated_seconds=round(chunk.estimated_seconds, 3),
                pause_seconds=chunk.pause,
                voice=None if asked.voice == voice else shown_name(asked.voice),
                speaker=chunk.speaker,
            )
            for chunk, asked in zip(script.chunks, script.requests, strict=True)
        ],
    )
