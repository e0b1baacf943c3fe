"""HTTP schemas: requests that are checked, answers that are documented."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from voxyard.service.documents.records import ChunkState, State
from voxyard.service.documents.submission import LARGEST_SEED, LONGEST_TITLE
from voxyard.speech.audio.encoder import Format

Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Seed = Annotated[int, Field(ge=0, le=LARGEST_SEED, description="The same seed gives the same sound.")]
OnFailureOption = Annotated[
    Literal["fail", "silence"],
    Field(description="What becomes of the document when a chunk cannot be spoken: it fails, or has silence there."),
]


class Body(BaseModel):
    """A request's body. Fields that it does not know are passed over, as OpenAI's clients may send new ones."""

    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)


class VoiceId(Body):
    """A voice by its name, as OpenAI's clients write custom voices."""

    id: Name


class SpeechBody(Body):
    """A text that is to be spoken at once."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"model": "tts-1", "input": "The harbour lay still.", "voice": "alloy"}],
        },
    )

    model: Name = Field(description="The engine's own name, `tts-1`, `tts-1-hd` or `gpt-4o-mini-tts`.")
    input: str = Field(min_length=1, description="The text; the service's settings say how long it may be.")
    voice: Name | VoiceId = Field(description="A name that `GET /v1/audio/voices` lists.")
    response_format: Format = Field("mp3", description="`pcm` is 16 bit, little endian, 24 kHz, mono.")
    speed: float = Field(1.0, ge=0.25, le=4.0, description="How fast; the pitch stays.")
    stream_format: Literal["audio", "sse"] = Field(
        "audio", description="The sound itself, or server-sent events with the sound in base64."
    )
    instructions: str | None = Field(
        None, max_length=4096, description="Taken for the sake of OpenAI's clients; it has no effect on this engine."
    )
    seed: Seed = 0

    @property
    def voice_name(self) -> str:
        """The voice, however it was written."""
        return self.voice.id if isinstance(self.voice, VoiceId) else self.voice


class DocumentBody(Body):
    """A text that is to be spoken however long it takes."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"text": "Chapter one.\n\nThe harbour lay still.", "title": "The harbour", "voice": "alloy"}],
        },
    )

    text: str = Field(min_length=1, description="An empty line ends a paragraph.")
    title: str | None = Field(None, max_length=LONGEST_TITLE, description="Else the text's first words.")
    voice: Name | None = Field(None, description="A name that `GET /v1/audio/voices` lists; else the engine's own.")
    seed: Seed | None = None
    language: Annotated[str, StringConstraints(max_length=35)] | None = Field(
        None, description="A code such as `en` or `pt-BR`; else the voice's."
    )
    on_failure: OnFailureOption = "fail"
    webhook: Annotated[str, StringConstraints(max_length=2000)] | None = Field(
        None, description="URL that is told, signed, of the end; the service's settings name the hosts it may have."
    )


class UploadBody(BaseModel):
    """The fields of an upload; `file` or `text` must be there."""

    file: bytes | None = Field(None, description="TXT, PDF or DOCX.", json_schema_extra={"format": "binary"})
    text: str | None = Field(None, min_length=1)
    title: str | None = Field(None, max_length=LONGEST_TITLE)
    voice: Name | None = None
    seed: Seed | None = None
    language: Annotated[str, StringConstraints(max_length=35)] | None = None
    on_failure: OnFailureOption = "fail"
    webhook: Annotated[str, StringConstraints(max_length=2000)] | None = None


class ErrorDetail(BaseModel):
    """Error details."""

    message: str = Field(description="For a person: what was found, what was expected, what to do.")
    type: str
    param: str | None = Field(description="The field of the request that is meant.")
    code: str | None = Field(description="For a program.")


class ErrorBody(BaseModel):
    """Every error of this service, in OpenAI's envelope."""

    error: ErrorDetail


class ProgressOut(BaseModel):
    """Progress of a document."""

    chunks: int
    done: int = Field(description="Spoken, silenced or failed.")
    failed: int
    ratio: float = Field(ge=0, le=1)
    audio_seconds: float = Field(description="Sound made so far, without pauses.")
    estimated_seconds: float = Field(description="Length of the whole, as the text lets expect.")
    eta_seconds: float | None = Field(description="Until it is completed, at the pace so far; null while unknown.")


class AudioOut(BaseModel):
    """Audio of a document: its address, and how much can be heard without a gap."""

    url: str
    ready_seconds: float | None = Field(description="From the beginning on, with pauses; null in lists.")
    complete: bool


class ChunkOut(BaseModel):
    """A piece of the document. Times are of the joined sound, null until all before it are spoken."""

    index: int
    text: str
    state: ChunkState
    start_seconds: float | None
    end_seconds: float | None
    reason: str | None


class DocumentOut(BaseModel):
    """A document as it stands. Times are Unix seconds."""

    id: str
    title: str
    state: State
    created: float
    started: float | None
    finished: float | None
    progress: ProgressOut
    voice: str | None
    seed: int
    language: str | None
    on_failure: Literal["fail", "silence"]
    reason: str | None = Field(description="Why it failed.")
    parked: str | None = Field(description="Why it does not go on for now: a full disk.")
    reduced: bool = Field(description="Memory ran short, and so the last digits of the sound may differ.")
    audio: AudioOut
    chunks: list[ChunkOut] | None = Field(None, description="Only where `chunks=true` asks for them.")


class DocumentsOut(BaseModel):
    """Documents, the newest first."""

    documents: list[DocumentOut]
    next: str | None = Field(None, description="Give it as `before` for the next page; null on the last one.")


class ModelOut(BaseModel):
    """A model, as OpenAI's clients read it."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str
    notes: list[str] = Field(description="What a listener must know before hearing anything.")


class ModelsOut(BaseModel):
    """All models: there is one, with its other names."""

    object: Literal["list"] = "list"
    data: list[ModelOut]


class VoiceOut(BaseModel):
    """A name that a request may give as its voice."""

    id: str
    name: str
    language: str | None
    alias_of: str | None = None


class VoicesOut(BaseModel):
    """All voices."""

    voices: list[VoiceOut]


class GpuOut(BaseModel):
    """A GPU of the host; what its driver does not report is null."""

    index: int
    name: str
    uuid: str
    memory_total_mib: int | None
    memory_free_mib: int | None
    problem: str | None


class WorkerOut(BaseModel):
    """A worker of the pool; `facts` are what its engine found when it loaded the model."""

    device: str
    state: str = Field(description="down, waiting (for its GPU), starting, ready, busy, resting or off.")
    pid: int | None
    processes: int = Field(description="Started so far.")
    reason: str | None = Field(description="Why it does not run: what it waits for, or how its last start failed.")
    facts: dict[str, Any]


class WorkersOut(BaseModel):
    """The GPUs of this host and the workers on them."""

    gpus: list[GpuOut]
    workers: list[WorkerOut]
