"""Uploading and mixing of voices: checked by the engine's front end, limited by key, stored."""

from __future__ import annotations

import re
from dataclasses import dataclass

from voxyard.service.errors import ConflictError, NotSupportedError, ServiceError, TooLargeError
from voxyard.service.names import VoiceNames
from voxyard.service.voices.table import NewVoice, StoredVoice, UploadedVoices, is_uploaded
from voxyard.speech.errors import SpeechError
from voxyard.speech.frontend import Frontend, VoiceFiles
from voxyard.speech.text.sentences import language_code

LARGEST_FILE = 2**20
"""Bytes of an uploaded file; one of Bark's presets has under 100 KiB."""
LARGEST_VOICE = 256 * 1024
"""Bytes of a stored voice, which travels with each of its chunks: about three minutes of a recording."""
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"


class InvalidVoiceError(ServiceError):
    """A file that is no voice of the engine, or voices that cannot be mixed."""

    code = "invalid_voice"


@dataclass(frozen=True)
class VoiceSubmission:
    """Voice as a client describes it."""

    name: str
    description: str | None = None
    language: str | None = None


@dataclass(frozen=True)
class VoiceSubmissions:
    """Takes the voices of all keys, at most `most` of each. Its methods block: not for the event loop."""

    frontend: Frontend
    names: VoiceNames
    uploaded: UploadedVoices
    most: int

    def upload(self, owner: str, asked: VoiceSubmission, content: bytes, now: float) -> StoredVoice:
        """Stores the voice of a file.

        Raises:
            ServiceError: the engine takes no voices, the file is no voice or too large, the name is taken, or the key
                has too many.
        """
        files = self._accepting(asked)
        if len(content) > LARGEST_FILE:
            raise TooLargeError(
                f"the file has {len(content):,} bytes, expected at most {LARGEST_FILE:,}", parameter="file"
            )
        try:
            voice = files.read(asked.name, content)
        except SpeechError as error:
            raise InvalidVoiceError(str(error), parameter="file") from error
        return self._store(owner, NewVoice(asked.name, voice, asked.description, asked.language), now)

    def mix(self, owner: str, asked: VoiceSubmission, manner: str, timbre: str, now: float) -> StoredVoice:
        """Stores a voice with the manner of speaking of one voice and the timbre of another, by their names.

        Raises:
            ServiceError: as `upload`; or there is no such voice.
        """
        files = self._accepting(asked)
        parts = [self._part(owner, name, f"mix.{part}") for part, name in (("manner", manner), ("timbre", timbre))]
        try:
            voice = files.mix(asked.name, *parts)
        except SpeechError as error:
            raise InvalidVoiceError(str(error), parameter="mix") from error
        mixed = {"manner": manner, "timbre": timbre}
        return self._store(owner, NewVoice(asked.name, voice, asked.description, asked.language, mixed), now)

    def _accepting(self, asked: VoiceSubmission) -> VoiceFiles:
        """The engine's reader of voices, once all that costs nothing is checked."""
        files = self.frontend.voice_files
        if files is None:
            raise NotSupportedError(
                "the engine of this service takes no voices of users: GET /v1/audio/voices lists those that it has"
            )
        if not self.most:
            raise NotSupportedError("this service takes no voices of users (--max-voices 0)")
        if not re.fullmatch(NAME, asked.name):
            raise ServiceError(
                "invalid name: expected up to 64 letters, digits, dots, hyphens and underscores, beginning with a "
                "letter or a digit",
                parameter="name",
            )
        if asked.name in self.names:
            raise ConflictError(f"the service has a voice {asked.name!r} itself: choose another name", parameter="name")
        if asked.language is not None:
            try:
                language_code(asked.language)
            except SpeechError as error:
                raise ServiceError(str(error), parameter="language") from error
        return files

    def _part(self, owner: str, name: str, parameter: str) -> str | bytes:
        voice = self.names.resolve(name, owner, parameter=parameter)
        return self.uploaded.content(voice) if is_uploaded(voice) else voice

    def _store(self, owner: str, new: NewVoice, now: float) -> StoredVoice:
        if len(new.content) > LARGEST_VOICE:
            raise TooLargeError(
                f"the voice has {len(new.content):,} bytes, expected at most {LARGEST_VOICE:,}: cut its recording to "
                "some seconds, no engine continues more",
                parameter="file" if new.mixed is None else "mix",
            )
        return self.uploaded.add(owner, new, now, self.most)
