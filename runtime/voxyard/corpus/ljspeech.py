"""Corpora in LJSpeech layout: metadata.csv with id|text|normalized text[|speaker], and wavs/."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from voxyard.corpus.audio import Header, read_header, read_pcm, resampled_length
from voxyard.corpus.examples import CorpusError, Example
from voxyard.corpus.text import Tokenizer, Units

log = logging.getLogger("voxyard.corpus")

Split = Literal["all", "train", "eval"]
METADATA: dict[Split, tuple[str, ...]] = {
    "all": ("metadata.csv", "metadata_train.csv"),
    "train": ("metadata_train.csv", "metadata.csv"),
    "eval": ("metadata_eval.csv",),
}
HOP_LENGTH = 256  # frames of the model's default; a clip needs a frame for each token


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the metadata."""

    clip: str
    text: str
    speaker: str


@dataclass(frozen=True, slots=True)
class BadClip:
    """A clip that cannot be used, and why."""

    clip: str
    reason: str

    def __str__(self) -> str:
        return f"{self.clip}: {self.reason}"


@dataclass(frozen=True)
class Contents:
    """What a directory holds, clip by clip: the good ones with their headers and tokens, and the bad ones."""

    directory: Path
    lines: tuple[Line, ...]
    headers: tuple[Header, ...]
    tokens: tuple[NDArray[np.int32], ...]
    bad: tuple[BadClip, ...]
    unknown: dict[str, int]


def find_metadata(directory: Path, split: Split) -> Path:
    """The metadata file of a split. Raises CorpusError with what was looked for."""
    if not directory.exists():
        raise CorpusError(
            f"{directory} does not exist: expected a corpus in LJSpeech layout (metadata.csv, wavs/) or shards"
        )
    if not directory.is_dir():
        raise CorpusError(f"{directory} is a file: expected a directory with metadata.csv and wavs/, or with shards")
    for name in METADATA[split]:
        if (directory / name).is_file():
            return directory / name
    raise CorpusError(
        f"{directory} holds no {' or '.join(METADATA[split])}: expected id|text|normalized text on each line"
    )


def read_contents(directory: Path, split: Split, tokenizer: Tokenizer, *, workers: int = 8) -> Contents:
    """Reads the metadata and the headers of all recordings; decodes nothing."""
    lines, bad = _read_lines(find_metadata(directory, split))
    good: list[tuple[Line, Header, NDArray[np.int32]]] = []
    with ThreadPoolExecutor(workers) as pool:
        headers = pool.map(lambda line: _header(directory, line), lines)
        for line, header in zip(lines, headers, strict=True):
            tokens = tokenizer.encode(line.text)
            reason = header if isinstance(header, str) else _unusable(line, header, tokens)
            if isinstance(header, str) or reason:
                bad.append(BadClip(line.clip, str(reason)))
            else:
                good.append((line, header, tokens))
    return Contents(
        directory,
        tuple(line for line, _, _ in good),
        tuple(header for _, header, _ in good),
        tuple(tokens for _, _, tokens in good),
        tuple(bad),
        dict(tokenizer.unknown),
    )


class Recordings:
    """An LJSpeech directory as a source of examples; clips are decoded when they are asked for."""

    def __init__(
        self, directory: Path, split: Split, *, sample_rate: int, units: Units, language: str, max_bad_share: float
    ) -> None:
        """Raises CorpusError for an empty corpus, or where more clips are bad than `max_bad_share` allows."""
        tokenizer = Tokenizer(units, language)
        contents = read_contents(directory, split, tokenizer)
        refuse_bad(contents.bad, len(contents.lines) + len(contents.bad), max_bad_share, directory)
        if not contents.lines:
            raise CorpusError(
                f"{directory} holds no clip: expected id|text|normalized text on each line of its metadata"
            )
        if contents.unknown:
            left_out = ", ".join(f"{symbol!r} ×{count}" for symbol, count in list(contents.unknown.items())[:10])
            log.warning("Symbols that the model does not know are left out of the texts: %s", left_out)
        self._directory, self._lines, self._tokens = directory, contents.lines, contents.tokens
        self.sample_rate = sample_rate
        self.speakers = tuple(sorted({line.speaker for line in contents.lines}))
        self._speaker_ids = {name: number for number, name in enumerate(self.speakers)}
        self.ids: Sequence[str] = [line.clip for line in contents.lines]
        self.samples = np.array(
            [resampled_length(header.frames, header.sample_rate, sample_rate) for header in contents.headers], np.int64
        )
        self.token_lengths = np.array([len(tokens) for tokens in contents.tokens], np.int64)
        self.feature_names: tuple[str, ...] = ()
        self.fingerprint = fingerprint(self.ids, self.samples, self._tokens, sample_rate)

    def __len__(self) -> int:
        return len(self._lines)

    def read(self, i: int) -> Example:
        """Decodes the i-th clip."""
        line = self._lines[i]
        pcm = read_pcm(wav_path(self._directory, line.clip), self.sample_rate)
        return Example(pcm, self._tokens[i], self._speaker_ids[line.speaker])


def fingerprint(ids: Sequence[str], samples: NDArray[np.int64], tokens: Sequence[NDArray[np.int32]], rate: int) -> str:
    """The same for the same clips, lengths and tokens at the same rate."""
    digest = hashlib.sha256(str(rate).encode())
    for clip, length, text in zip(ids, samples, tokens, strict=True):
        digest.update(f"{clip}\0{length}\0".encode() + text.astype("<i4").tobytes())
    return digest.hexdigest()[:32]


def refuse_bad(bad: Sequence[BadClip], clips: int, share: float, directory: Path) -> None:
    """Names bad clips in the log; raises CorpusError where there are more than the share."""
    if not bad:
        return
    listed = [f"  {one}" for one in bad[:20]] + ([f"  … and {len(bad) - 20} more"] if len(bad) > 20 else [])
    what = f"{len(bad)} of {clips} clips of {directory} cannot be used"
    if len(bad) > share * clips:
        raise CorpusError(
            "\n".join(
                [f"{what}, more than the {share:.1%} that --max-bad-share allows; mend them or allow more:", *listed]
            )
        )
    log.warning("%s and are left out:\n%s", what, "\n".join(listed))


def wav_path(directory: Path, clip: str) -> Path:
    """Where a clip's recording lies."""
    return directory / "wavs" / f"{clip}.wav"


def _read_lines(metadata: Path) -> tuple[list[Line], list[BadClip]]:
    try:
        text = metadata.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise CorpusError(f"{metadata} is not UTF-8 (byte {error.start}): save it as UTF-8") from error
    except OSError as error:
        raise CorpusError(f"{metadata} cannot be read: {error.strerror}") from error
    lines, bad, seen = [], [], set[str]()
    for number, raw in enumerate(text.splitlines(), 1):
        if not raw.strip():
            continue
        parts = raw.split("|")
        clip = parts[0].strip()
        reason = _bad_line(parts, clip, seen)
        if reason:
            bad.append(BadClip(clip or f"line {number}", f"line {number} of {metadata.name}: {reason}"))
            continue
        seen.add(clip)
        spoken = parts[2] if len(parts) > 2 and parts[2].strip() else parts[1]
        lines.append(Line(clip, spoken, parts[3].strip() if len(parts) > 3 else ""))
    return lines, bad


def _bad_line(parts: list[str], clip: str, seen: set[str]) -> str | None:
    if not 2 <= len(parts) <= 4:
        return f"{len(parts)} columns; expected id|text|normalized text[|speaker]"
    if not clip:
        return "no id"
    if "/" in clip or "\\" in clip or "\0" in clip or clip.startswith("."):
        return "the id is no plain file name"
    if clip in seen:
        return "the id is there twice"
    if not any(part.strip() for part in parts[1:3]):
        return "no transcript"
    return None


def _header(directory: Path, line: Line) -> Header | str:
    try:
        return read_header(wav_path(directory, line.clip))
    except CorpusError as error:
        return str(error)


def _unusable(line: Line, header: Header, tokens: NDArray[np.int32]) -> str | None:
    if len(tokens) == 0:
        return f"no known symbol in its text {line.text[:40]!r}"
    frames = resampled_length(header.frames, header.sample_rate, 22050) // HOP_LENGTH
    if frames < len(tokens):
        return (
            f"{len(tokens)} tokens in {header.frames / header.sample_rate:.2f} s of sound: its text cannot belong to it"
        )
    return None
