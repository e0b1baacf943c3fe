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
from voxyard.corpus.coverage import (
    MAX_DROPPED_TEXT,
    ONE_TEXT,
    Coverage,
    corpus_advice,
    coverage_of,
    log_coverage,
    refuse_dropped,
    total,
)
from voxyard.corpus.examples import CorpusError, Example, allowed_bad
from voxyard.corpus.text import Encoded, Tokenizer, Units
from voxyard.host.page_cache import Extent

log = logging.getLogger("voxyard.corpus")

Split = Literal["all", "train", "eval"]
EVAL_METADATA = "metadata_eval.csv"
METADATA: dict[Split, tuple[str, ...]] = {  # the first that is there
    "all": ("metadata.csv", "metadata_train.csv"),
    "train": ("metadata_train.csv", "metadata.csv"),
    "eval": (EVAL_METADATA,),
}
HOP_LENGTH = 256  # the model's default


@dataclass(frozen=True, slots=True)
class MetadataLine:
    """A line of the metadata."""

    clip: str
    text: str
    speaker: str
    where: str  # such as: line 3 of metadata.csv


@dataclass(frozen=True, slots=True)
class BadClip:
    """A clip that cannot be used, and why."""

    clip: str
    reason: str

    def __str__(self) -> str:
        return f"{self.clip}: {self.reason}"


@dataclass(frozen=True)
class Contents:
    """Contents of a directory, clip by clip: the good ones with their headers and tokens, and the bad ones."""

    directory: Path
    lines: tuple[MetadataLine, ...]
    headers: tuple[Header, ...]
    tokens: tuple[NDArray[np.int32], ...]
    bad: tuple[BadClip, ...]
    speakers: tuple[str, ...]
    coverage: Coverage  # of the good clips' texts
    lost: Coverage  # of the texts of clips that are bad because too little of their text is left

    @property
    def texts(self) -> Coverage:
        """Of both."""
        return total((self.coverage, self.lost))


@dataclass(frozen=True, slots=True)
class CorpusRequirements:
    """Requirements of a model on its clips."""

    sample_rate: int
    hop_length: int = HOP_LENGTH
    speakers: tuple[str, ...] | None = None  # those of the training corpus; None takes whoever speaks
    max_dropped_text: float = MAX_DROPPED_TEXT  # share of the texts' characters; of one text ONE_TEXT times as much


def find_metadata(directory: Path, split: Split) -> Path:
    """The metadata file of a split. Raises CorpusError with what was looked for and what was found."""
    expected = "expected a directory in LJSpeech layout (metadata.csv, wavs/), or with shards"
    try:
        if not directory.exists():
            raise CorpusError(f"{directory} does not exist: {expected}")
        if not directory.is_dir():
            raise CorpusError(f"{directory} is a file: {expected}")
        for name in METADATA[split]:
            if (directory / name).is_file():
                return directory / name
        found = _listing(directory)
    except OSError as error:
        raise CorpusError(f"{directory} cannot be read ({error.strerror}): {expected}") from error
    raise CorpusError(
        f"{directory} holds no {' or '.join(METADATA[split])} (id|text|normalized text on each line) and no shards; "
        f"it holds {found}"
    )


def read_contents(
    directory: Path, split: Split, tokenizer: Tokenizer, needs: CorpusRequirements, *, workers: int = 8
) -> Contents:
    """Reads the metadata and the headers of all recordings; decodes nothing."""
    lines, bad = _lines(directory, split)
    speakers = needs.speakers or _speakers(directory, split, lines)
    good: list[tuple[MetadataLine, Header, NDArray[np.int32]]] = []
    read: list[Coverage] = []
    lost: list[Coverage] = []
    with ThreadPoolExecutor(workers) as pool:
        headers = pool.map(lambda line: _header(directory, line), lines)
        for line, header in zip(lines, headers, strict=True):
            text = tokenizer.read(line.text)
            coverage = coverage_of(text, line.clip, line.where, line.text)
            if lack := _unreadable(text, coverage, needs):
                bad.append(BadClip(line.clip, f"{lack} in its text {line.text[:40]!r} ({line.where})"))
                lost.append(coverage)
                continue
            reason = header if isinstance(header, str) else _unusable(line, header, text.tokens, needs, speakers)
            if isinstance(header, str) or reason:
                bad.append(BadClip(line.clip, str(reason)))
            else:
                good.append((line, header, text.tokens))
                read.append(coverage)
    return Contents(
        directory,
        tuple(line for line, _, _ in good),
        tuple(header for _, header, _ in good),
        tuple(tokens for _, _, tokens in good),
        tuple(bad),
        speakers,
        total(read),
        total(lost),
    )


class Recordings:
    """An LJSpeech directory as a source of examples; clips are decoded when they are asked for."""

    def __init__(
        self,
        directory: Path,
        split: Split,
        needs: CorpusRequirements,
        *,
        units: Units,
        language: str,
        max_bad_share: float,
        log_bad: bool = True,
    ) -> None:
        """Raises CorpusError for an empty corpus, or where more is bad, or dropped of the texts, than is allowed."""
        contents = read_contents(directory, split, Tokenizer(units, language), needs)
        clips, advice = len(contents.lines) + len(contents.bad), corpus_advice(units, language)
        more = [*contents.lost.sentences()[:1], advice] if contents.lost.dropped else []
        refuse_bad(contents.bad, clips, max_bad_share, directory, more=more)
        refuse_dropped(contents.coverage, needs.max_dropped_text, str(directory), advice)
        if contents.bad and not contents.lines:
            listing = "\n".join([*listed(contents.bad), *more])
            raise CorpusError(f"none of the {clips} clips of {directory} can be used:\n{listing}")
        if not contents.lines:
            raise CorpusError(
                f"{directory} holds no clip: expected id|text|normalized text on each line of its metadata"
            )
        if contents.bad and log_bad:
            listing = "\n".join(listed(contents.bad))
            log.warning("%d of %d clips of %s are left out:\n%s", len(contents.bad), clips, directory, listing)
        log_coverage(contents.coverage, directory, units)
        self.coverage = contents.coverage
        self.directory, self._lines, self._tokens = directory, contents.lines, contents.tokens
        self.bad = contents.bad
        self.sample_rate = sample_rate = needs.sample_rate
        self.speakers = contents.speakers
        self._speaker_ids = {name: number for number, name in enumerate(self.speakers)}
        self.ids: Sequence[str] = [line.clip for line in contents.lines]
        self.samples = np.array(
            [resampled_length(header.frames, header.sample_rate, sample_rate) for header in contents.headers], np.int64
        )
        self.token_lengths = np.array([len(tokens) for tokens in contents.tokens], np.int64)
        self.feature_names: tuple[str, ...] = ()
        speakers = [line.speaker for line in contents.lines]
        self.fingerprint = fingerprint(self.ids, self.samples, self._tokens, speakers, sample_rate)

    def __len__(self) -> int:
        return len(self._lines)

    def read(self, i: int) -> Example:
        """Decodes the i-th clip."""
        line = self._lines[i]
        pcm = read_pcm(wav_path(self.directory, line.clip), self.sample_rate)
        if len(pcm) != self.samples[i]:
            raise CorpusError(
                f"{line.clip} has changed since the corpus was opened: {len(pcm)} samples instead of {self.samples[i]}"
            )
        return Example(pcm, self._tokens[i], self._speaker_ids.get(line.speaker, 0))

    def extents(self, i: int) -> tuple[Extent, ...]:
        """The whole recording."""
        return (Extent(wav_path(self.directory, self._lines[i].clip)),)


def has_eval_metadata(directory: Path) -> bool:
    """True where a directory has validation metadata."""
    return (directory / EVAL_METADATA).is_file()


def fingerprint(
    ids: Sequence[str],
    samples: NDArray[np.int64],
    tokens: Sequence[NDArray[np.int32]],
    speakers: Sequence[str],
    sample_rate: int,
) -> str:
    """The same for the same clips, lengths, tokens and speakers (one a clip) at the same rate."""
    digest = hashlib.sha256(str(sample_rate).encode())
    for clip, length, text, speaker in zip(ids, samples, tokens, speakers, strict=True):
        digest.update(f"{clip}\0{length}\0{speaker}\0".encode() + text.astype("<i4").tobytes())
    return digest.hexdigest()[:32]


def refuse_bad(bad: Sequence[BadClip], clips: int, share: float, directory: Path, *, more: Sequence[str] = ()) -> None:
    """Raises CorpusError, which names them and ends with `more`, where more clips are bad than the share allows."""
    allowed = allowed_bad(clips, share)
    if len(bad) > allowed:
        what = (
            f"{len(bad)} of {clips} clips of {directory} cannot be used, and "
            f"--max-bad-share {share:g} allows {allowed or 'none'}: repair these clips, or raise --max-bad-share:"
        )
        raise CorpusError("\n".join([what, *listed(bad), *more]))


def listed(bad: Sequence[BadClip]) -> list[str]:
    """A line for each, at most 20."""
    return [f"  {one}" for one in bad[:20]] + ([f"  … and {len(bad) - 20} more"] if len(bad) > 20 else [])


def wav_path(directory: Path, clip: str) -> Path:
    """Path of a clip's recording."""
    return directory / "wavs" / f"{clip}.wav"


def _listing(directory: Path) -> str:
    names = sorted(path.name + ("/" if path.is_dir() else "") for path in directory.iterdir())
    return ", ".join(names[:8] + (["…"] if len(names) > 8 else [])) or "nothing"


def _speakers(directory: Path, split: Split, lines: Sequence[MetadataLine]) -> tuple[str, ...]:
    """Those of the training split, for the evaluation split too: a speaker's number must mean the same in both."""
    if split == "eval" and any((directory / name).is_file() for name in METADATA["train"]):
        lines, _ = _lines(directory, "train")
    return tuple(sorted({line.speaker for line in lines}))


def _lines(directory: Path, split: Split) -> tuple[list[MetadataLine], list[BadClip]]:
    """The clips of a split. What is evaluated on is not trained on, also where metadata.csv lists all clips."""
    lines, bad = _read_metadata(find_metadata(directory, split))
    if split == "eval" or not has_eval_metadata(directory):
        return lines, bad
    held, held_bad = _read_metadata(directory / EVAL_METADATA)
    names = {line.clip for line in held}
    others = [line for line in lines if line.clip not in names]
    return (others + held, bad + held_bad) if split == "all" else (others, bad)


def _read_metadata(metadata: Path) -> tuple[list[MetadataLine], list[BadClip]]:
    lines, bad, seen = [], [], set[str]()
    for number, raw in enumerate(_text(metadata).split("\n"), 1):
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
        where = f"line {number} of {metadata.name}"
        lines.append(MetadataLine(clip, spoken, parts[3].strip() if len(parts) > 3 else "", where))
    return lines, bad


def _text(metadata: Path) -> str:
    try:
        return metadata.read_text(encoding="utf-8-sig")  # "\r\n" becomes "\n"
    except UnicodeDecodeError as error:
        raise CorpusError(f"{metadata} is not UTF-8 (byte {error.start}): save it as UTF-8") from error
    except OSError as error:
        raise CorpusError(f"{metadata} cannot be read: {error.strerror}") from error


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


def _header(directory: Path, line: MetadataLine) -> Header | str:
    try:
        return read_header(wav_path(directory, line.clip))
    except CorpusError as error:
        return str(error)


def _unreadable(text: Encoded, coverage: Coverage, needs: CorpusRequirements) -> str | None:
    """Reason why too little of a text is left to learn from."""
    if coverage.dropped and len(text.tokens) == 0:
        return "no known symbol"
    if coverage.share > min(1.0, ONE_TEXT * needs.max_dropped_text):
        return f"{coverage.lost} of {coverage.characters} characters are dropped"
    return None if text.lettered else "no letter or digit"


def _unusable(
    line: MetadataLine, header: Header, tokens: NDArray[np.int32], needs: CorpusRequirements, speakers: Sequence[str]
) -> str | None:
    frames = resampled_length(header.frames, header.sample_rate, needs.sample_rate) // needs.hop_length
    if frames < len(tokens):
        return (
            f"{len(tokens)} tokens in {header.frames / header.sample_rate:.2f} s of sound ({frames} frames): "
            "its text cannot belong to it"
        )
    if len(speakers) > 1 and line.speaker not in speakers:
        names = ", ".join(speakers[:5]) + (" …" if len(speakers) > 5 else "")
        return f"its speaker {line.speaker!r} is not among those of the training corpus: {names}"
    return None
