"""Schemas of responses."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
)

from voxyard.service.documents.records import ChunkState, State
from voxyard.service.errors import without_paths
from voxyard.speech.requests import Boundary

Reason = Annotated[str, AfterValidator(without_paths)]
"""A sentence for clients, who are not shown the server's paths."""


class ErrorDetail(BaseModel):
    """Error details."""

    message: str = Field(description="Message for people: what was found, what was expected, what to do.")
    type: str
    param: str | None = Field(description="Field of the request at fault.")
    code: str | None = Field(description="Machine-readable error code.")


class ErrorBody(BaseModel):
    """Error in OpenAI's envelope."""

    error: ErrorDetail


class ProgressOut(BaseModel):
    """Progress of a document."""

    chunks: int
    done: int = Field(description="Chunks spoken, silenced or failed.")
    failed: int
    ratio: float = Field(ge=0, le=1)
    audio_seconds: float = Field(description="Audio synthesized so far, without pauses.")
    estimated_seconds: float = Field(description="Estimated audio length of the whole document.")
    eta_seconds: float | None = Field(description="Estimated time to completion; null while unknown.")


class AudioOut(BaseModel):
    """Audio of a document."""

    url: str
    ready_seconds: float | None = Field(description="Contiguous audio from the beginning, with pauses; null in lists.")
    complete: bool


class ChunkOut(BaseModel):
    """Chunk of a document. Times refer to the joined audio; null until all earlier chunks are synthesized."""

    index: int
    text: str
    ending: Boundary = Field(description="What ends with it.")
    state: ChunkState
    start_seconds: float | None
    end_seconds: float | None
    reason: Reason | None
    speaker: str | None = Field(default=None, description="Name in the text of who speaks it.")
    voice: str | None = Field(default=None, description="Of its own, by a tag or once it was spoken again.")
    seed: int | None = Field(default=None, description="Of its own, once it was spoken again.")


class ChapterOut(BaseModel):
    """Chapter of a document. Times refer to the joined audio; null until its chunks and all before are synthesized."""

    index: int
    title: str
    level: int = Field(description="1 to 6, as headings have it.")
    first_chunk: int
    last_chunk: int
    start_seconds: float | None
    end_seconds: float | None


class ChaptersOut(BaseModel):
    """Chapters of a document, in text order."""

    chapters: list[ChapterOut]


WordSource = Literal["recognised", "estimated"]


class WordOut(BaseModel):
    """Word with its times in the joined audio."""

    text: str
    start_seconds: float
    end_seconds: float


class ChunkTimesOut(BaseModel):
    """Chunk with its times in the joined audio, and its words."""

    index: int
    text: str
    start_seconds: float
    end_seconds: float
    speaker: str | None = Field(default=None, description="Name in the text of who speaks it.")
    source: WordSource
    reason: str | None = Field(
        default=None, description="Why the words are not recognised, where the service recognises words."
    )
    words: list[WordOut]


class TimingsOut(BaseModel):
    """Times of a document's chunks and words, from the beginning as far as they are known."""

    source: WordSource | Literal["mixed"] = Field(
        description="Of the words' times: recognised in the sound, or estimated from their lengths within the sound of "
        "their chunk; mixed where chunks differ."
    )
    waiting: bool = Field(description="True while words are being recognised: ask again for better times.")
    complete: bool
    chunks: list[ChunkTimesOut]


class FailedRedoOut(BaseModel):
    """Chunk that could not be spoken again; its audio is what it was."""

    index: int
    reason: Reason


class RedoOut(BaseModel):
    """Chunks of a completed document that are to be spoken again."""

    waiting: list[int]
    failed: list[FailedRedoOut]


class DocumentOut(BaseModel):
    """Document with its current state. Times are Unix seconds."""

    id: str
    title: str
    author: str | None
    note: str | None = Field(description="Warning for a listener, such as that the voice speaks another language.")
    state: State
    created: float
    started: float | None
    finished: float | None
    progress: ProgressOut
    voice: str | None
    seed: int
    language: str | None
    on_failure: Literal["fail", "silence"]
    reason: Reason | None = Field(description="Reason of the failure.")
    code: str | None = Field(None, description="Code of the error, such as `unreadable_document`, where it has one.")
    retriable: bool = Field(description="It failed for a reason that may be gone, so a retry may help.")
    phase: Literal["extracting"] | None = Field(
        None, description="`extracting` until the text of an uploaded file is read; there are no chunks before."
    )
    parked: Reason | None = Field(description="Reason why synthesis is paused, such as a full disk.")
    reduced: bool = Field(
        description="Synthesized in smaller batches for lack of memory or after a crash; samples may differ slightly."
    )
    revision: int = Field(description="Counts the changes of its audio since it was completed.")
    redo: RedoOut | None = Field(default=None, description="Chunks to speak again; null in lists.")
    audio: AudioOut
    chapters: list[ChapterOut] | None = Field(
        default=None, description="Of a document with headings; null in lists, events and answers to submissions."
    )
    chunks: list[ChunkOut] | None = Field(None, description="Only with `chunks=true`.")


class DocumentsOut(BaseModel):
    """Documents, newest first."""

    documents: list[DocumentOut]
    next: str | None = Field(None, description="Pass as `before` for the next page; null on the last page.")


class ModelOut(BaseModel):
    """Model in OpenAI's format."""

    id: str
    name: str = Field(description="The same as `id`; some clients read it.")
    object: Literal["model"] = "model"
    created: int
    owned_by: str
    notes: list[Reason] = Field(description="Warnings about the model's audio.")
    reading: int = Field(description="Version of what turns figures into words: another may speak other words.")


class ModelsOut(BaseModel):
    """Models: one, under its name and its aliases."""

    object: Literal["list"] = "list"
    data: list[ModelOut]


class AudioModelsOut(BaseModel):
    """Models that speak, under the names of `ModelsOut`."""

    models: list[ModelOut]


class VoiceOut(BaseModel):
    """Voice that requests may use."""

    id: str = Field(description="Name for requests.")
    name: str = Field(description="Name for people, such as `English speaker 6 (male)`.")
    language: str | None = Field(description="Language code such as `en`; null where it has none.")
    gender: Literal["female", "male"] | None = Field(description="Null where it is not known.")
    alias_of: str | None = None
    uploaded: bool = Field(default=False, description="Uploaded or mixed by this key.")
    description: str | None = None
    mixed: dict[str, str] | None = Field(default=None, description="The voices that it was mixed of, by their part.")


class VoicesOut(BaseModel):
    """All voices."""

    voices: list[VoiceOut]
    uploads: bool = Field(description="Whether the service takes voices of users; where not, sending one is `501`.")


class GpuOut(BaseModel):
    """GPU of the host; what its driver does not report is null."""

    index: int
    name: str
    uuid: str
    memory_total_mib: int | None
    memory_free_mib: int | None
    problem: str | None


class WorkerOut(BaseModel):
    """Worker of the pool; `facts` are reported by its engine after loading the model."""

    device: str
    state: str = Field(
        description="down, waiting (for its GPU), starting, ready, busy, resting, stopping, released (no work) or off."
    )
    pid: int | None
    processes: int = Field(description="Worker processes started so far.")
    reason: Reason | None = Field(
        description="Reason why it is not running: what it waits for, or the error of its last start."
    )
    facts: dict[str, Any]


class WorkersOut(BaseModel):
    """The GPUs of this host and the workers on them."""

    gpus: list[GpuOut]
    workers: list[WorkerOut]
