"""What endpoints take: bodies of requests, in the spellings of other services' clients too; the state; the client."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, cast, get_args

from fastapi import Depends, Path, Request
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    Json,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError

from voxyard.extraction.errors import FORMATS
from voxyard.service.auth.api_keys import Client
from voxyard.service.documents.submission import LARGEST_SEED, LONGEST_AUTHOR, LONGEST_TITLE
from voxyard.service.errors import UnauthorizedError
from voxyard.service.http.body_limit import check_json
from voxyard.service.http.protocol import prefix_of
from voxyard.service.state import AppState
from voxyard.speech.audio.encoder import Format
from voxyard.speech.cast import MOST_MEMBERS
from voxyard.speech.reading.lexicon import LONGEST_SPOKEN, LONGEST_WORD, MOST_OF_REQUEST
from voxyard.speech.reading.options import Kind

NUMBER = re.compile(r"^[0-9]{1,3}(\.[0-9]{0,17})?$", re.ASCII)
_LANGUAGES = {
    "arabic": "ar", "chinese": "zh", "dutch": "nl", "english": "en", "french": "fr", "german": "de", "hindi": "hi",
    "italian": "it", "japanese": "ja", "korean": "ko", "persian": "fa", "polish": "pl", "portuguese": "pt",
    "russian": "ru", "spanish": "es", "turkish": "tr", "auto": "",
}  # fmt: skip
"""Codes of the names that clients of vLLM-Omni and Qwen3-TTS send; none where the language is to be found."""
_NO_NAME = re.compile("[\x00\ud800-\udfff]")  # a zero byte, half a character
_ABOUT = ("title", "description", "default", "examples")
_SPEED: dict[str, Any] = {
    "anyOf": [{"type": "number", "minimum": 0.25, "maximum": 4}, {"type": "string", "pattern": NUMBER.pattern}]
}


def number(value: object) -> object:
    """Number of a numeric string, as some clients send one; all else as it is."""
    return float(value) if isinstance(value, str) and NUMBER.fullmatch(value) else value


def lower(value: object) -> object:
    """A name in lower case, as some clients write formats in capitals; all else as it is."""
    return value.strip().lower() if isinstance(value, str) else value


def truth(value: object) -> bool:
    """False for what says no, in any spelling; all else is true."""
    return str(value).strip().lower() not in ("false", "no", "off", "0")


def _language(value: object) -> object:
    return _LANGUAGES.get(value.lower(), value) if isinstance(value, str) else value


Language = Annotated[str, StringConstraints(max_length=35), BeforeValidator(_language)]
"""Language code, also by the language's English name; empty as none."""


_FormatName = Literal[Format, "ogg"]


AudioFormat = Annotated[_FormatName, BeforeValidator(lower)]
"""Formats that requests may name; `ogg` is what other services call `opus`."""
DocumentFormat = Annotated[Literal[_FormatName, "m4b"], BeforeValidator(lower)]


def codec_of(format: AudioFormat) -> Format:
    """Format of the audio, by what requests may call it."""
    return "opus" if format == "ogg" else format


LONGEST_NAME = 200
Name = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_NAME, pattern=r"^[^\x00]*$")]
Seed = Annotated[int, Field(ge=0, le=LARGEST_SEED, description="Random seed; equal seeds give equal audio.")]
_KINDS = ", ".join(get_args(Kind))
_KIND = "|".join(["all", *get_args(Kind)])
_READ = re.compile(rf"^(none|({_KIND})(,({_KIND}))*)$")


def _kinds(value: str) -> str:
    """Kinds without blanks around their commas."""
    found = ",".join(part.strip() for part in value.split(","))
    if not _READ.match(found):
        raise PydanticCustomError("read", f"expected all, none, or some of {_KINDS} with commas between")
    return found


ReadOption = Annotated[
    Annotated[
        str,
        StringConstraints(max_length=100),
        AfterValidator(_kinds),
        WithJsonSchema({"type": "string", "maxLength": 100, "pattern": _READ.pattern}),
    ]
    | None,
    Field(description=f"What becomes words: `all` (but emoji), `none`, or some of {_KINDS}; defaults to the host's."),
]
Words = Annotated[
    dict[
        Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_WORD)],
        Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_SPOKEN)],
    ],
    Field(max_length=MOST_OF_REQUEST),
]


def _limited(value: object) -> object:
    """A JSON text within the limits of JSON bodies."""
    if isinstance(value, str):
        check_json(value)
    return value


LexiconOption = Annotated[
    Words | None, Field(description="A word or phrase, and what is spoken for it; before the host's lexicon.")
]
CastMembers = Annotated[
    dict[Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\[\]\r\n]+$")], Name],
    Field(max_length=MOST_MEMBERS),
]
CastOption = Annotated[
    CastMembers | None,
    Field(
        description="Names that tags of the text have (`[voice:mia] … [/voice]`, SSML's `<voice name>`), and their "
        "voices; `narrator` speaks what has no tag."
    ),
]
TextLanguage = Annotated[
    Language | None,
    Field(description="Language code such as `en` or `pt-BR`; defaults to the voice's."),
]
OnFailureOption = Annotated[
    Literal["fail", "silence"],
    Field(description="Handling of a chunk that cannot be synthesized: fail the document, or insert silence."),
]


InputFormat = Annotated[
    Literal["text", "markdown"],
    Field(description="`markdown`: the marks of the text are not spoken, nor its blocks of code."),
]


class RequestBody(BaseModel):
    """Request body. An unknown field is an error, for it may be a misspelt one; a null counts as missing."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if value is not None}

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Schema whose optional fields may be null."""
        found = handler.resolve_ref_schema(handler(schema))
        for name, field in found["properties"].items():
            if name not in found.get("required", ()) and {"type": "null"} not in field.get("anyOf", ()):
                about = {key: field.pop(key) for key in _ABOUT if key in field}
                found["properties"][name] = {"anyOf": [*field.pop("anyOf", [field]), {"type": "null"}], **about}
        return found


class VoiceId(RequestBody):
    """Voice as an object, the way OpenAI's clients send custom voices."""

    id: Name


def _voice(value: object) -> object:
    """A voice as it is, where it is a name or an object with one."""
    name = value.get("id") if isinstance(value, dict) and set(value) == {"id"} else value
    is_name = isinstance(name, str) and 0 < len(name) <= LONGEST_NAME and not _NO_NAME.search(name)
    if not isinstance(value, VoiceId) and not is_name:
        raise PydanticCustomError(
            "voice", "expected the name of a voice as GET /v1/audio/voices lists it, or an object with it as its id"
        )
    return value


class SpeechBody(RequestBody):
    """Speech request. Unknown fields are ignored: OpenAI's clients may send new ones."""

    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra={
            "examples": [{"model": "tts-1", "input": "The harbour lay still.", "voice": "alloy"}],
        },
    )

    model: Name = Field(description="The engine's name, or one that begins with `tts-1` or `gpt-4o-mini-tts`.")
    input: str = Field(min_length=1, description="Text to synthesize.")
    input_format: InputFormat = "text"
    voice: Annotated[Name | VoiceId, BeforeValidator(_voice)] = Field(
        description="A voice from `GET /v1/audio/voices`."
    )
    response_format: AudioFormat = Field(
        "mp3", description="`pcm` is 16 bit, little endian, 24 kHz, mono; `ogg` is another name of `opus`."
    )
    speed: Annotated[float, BeforeValidator(number), WithJsonSchema(_SPEED)] = Field(
        1.0, ge=0.25, le=4.0, description="Tempo; the pitch is kept."
    )
    stream_format: Annotated[Literal["audio", "sse"], BeforeValidator(lower)] = Field(
        "audio", description="Raw audio, or server-sent events with base64 audio."
    )
    stream: Annotated[bool, BeforeValidator(truth), WithJsonSchema({"type": "boolean"})] = Field(
        True, description="Of `wav` and `flac`: `false` gives a whole file, with its length, once all is spoken."
    )
    instructions: str | None = Field(
        None, max_length=4096, description="Accepted for compatibility with OpenAI's clients; ignored."
    )
    cast: CastOption = None
    seed: Seed = 0
    language: TextLanguage = None
    read: ReadOption = None
    lexicon: LexiconOption = None

    @property
    def voice_name(self) -> str:
        """Name of the voice, from either form."""
        return self.voice.id if isinstance(self.voice, VoiceId) else self.voice

    @property
    def codec(self) -> Format:
        """Format of the audio."""
        return codec_of(self.response_format)


class ChapterBody(RequestBody):
    """Chapter of a document: its title is spoken before its text."""

    title: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_TITLE)]
    text: str


class DocumentBody(RequestBody):
    """Document with its text."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"text": "Chapter one.\n\nThe harbour lay still.", "title": "The harbour", "voice": "alloy"}],
        },
    )

    text: str | None = Field(None, min_length=1, description="Text to synthesize; an empty line ends a paragraph.")
    input_format: InputFormat = "text"
    chapters: list[ChapterBody] | None = Field(
        None, min_length=1, max_length=10_000, description="In place of a text: its chapters."
    )
    title: str | None = Field(
        None, max_length=LONGEST_TITLE, description="Title; defaults to the first words of the text."
    )
    author: str | None = Field(
        None, max_length=LONGEST_AUTHOR, description="Author, the artist in the tags of audio files."
    )
    voice: Name | None = Field(None, description="A voice from `GET /v1/audio/voices`; defaults to the engine's.")
    cast: CastOption = None
    seed: Seed | None = None
    language: TextLanguage = None
    read: ReadOption = None
    lexicon: LexiconOption = None
    on_failure: OnFailureOption = "fail"
    webhook: Annotated[str, StringConstraints(max_length=2000)] | None = Field(
        None,
        description="URL for a signed notification of completion or failure; its host must be in `--webhook-hosts`.",
    )


class UploadBody(BaseModel):
    """Form fields of an upload; `file` or `text` is required. An unknown field is an error."""

    model_config = ConfigDict(extra="forbid")

    file: bytes | None = Field(None, description=f"{FORMATS}.", json_schema_extra={"format": "binary"})
    text: str | None = Field(None, min_length=1)
    input_format: InputFormat = "text"
    title: str | None = Field(None, max_length=LONGEST_TITLE)
    author: str | None = Field(None, max_length=LONGEST_AUTHOR, description="Defaults to the one that the file names.")
    voice: Name | None = None
    cast: Json[CastMembers] | None = Field(None, description="JSON object: a name that tags have, and its voice.")
    seed: Seed | None = None
    language: Language | None = None
    read: ReadOption = None
    lexicon: Annotated[Json[Words], BeforeValidator(_limited)] | None = Field(
        None, description="JSON object: a word or phrase, and what is spoken for it."
    )
    on_failure: OnFailureOption = "fail"
    webhook: Annotated[str, StringConstraints(max_length=2000)] | None = None


class RedoBody(RequestBody):
    """Chunk to speak again."""

    seed: Seed | None = Field(default=None, description="Random seed; the next one where none is given.")
    voice: Name | None = Field(default=None, description="A voice; the one that the chunk has where none is given.")


DocumentId = Annotated[
    str,
    Path(
        description="32 hexadecimal digits.",
        examples=["0123456789abcdef0123456789abcdef"],
        json_schema_extra={"pattern": "^[0-9a-f]{32}$"},
    ),
]


# Dependencies are coroutines: FastAPI calls any other function in a thread, which costs more than these do.
async def authenticated(request: Request) -> Client:
    """Client that the admission middleware authenticated.

    Raises:
        UnauthorizedError: the request has no client, as on a public path.
    """
    client = request.scope.get("state", {}).get("client")
    if not isinstance(client, Client):
        raise UnauthorizedError("an API key is required: send the header `Authorization: Bearer KEY`")
    return client


async def _app_state(request: Request) -> AppState:
    return cast("AppState", request.app.state.app_state)


async def _prefix(request: Request) -> str:
    return prefix_of(request.scope)


AppStateDep = Annotated[AppState, Depends(_app_state)]
ClientDep = Annotated[Client, Depends(authenticated)]
PrefixDep = Annotated[str, Depends(_prefix)]
"""Path below which the client sees the service; "" for none."""
