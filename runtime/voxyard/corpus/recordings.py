"""Recordings with their texts as a source of examples, whichever layout they are in."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from voxyard.corpus.audio import Header, read_header, read_pcm, resampled_length
from voxyard.corpus.coverage import ONE_TEXT, Coverage, coverage_of, log_coverage, refuse_dropped, total
from voxyard.corpus.examples import CorpusError, Example, allowed_bad
from voxyard.corpus.layouts.lines import BadClip, MetadataLine, Split, as_on_disk
from voxyard.corpus.layouts.ljspeech import is_ljspeech, read_ljspeech
from voxyard.corpus.layouts.recognize import CorpusLayout, find_layout
from voxyard.corpus.settings import CorpusSettings
from voxyard.corpus.text import Encoded
from voxyard.host.page_cache import Extent

log = logging.getLogger("voxyard.corpus")

WORKERS = 8  # threads that read headers, and decode clips where a corpus is checked


@dataclass(frozen=True)
class Contents:
    """Contents of a directory, clip by clip: the good ones with their headers and tokens, and the bad ones."""

    directory: Path
    layout: CorpusLayout
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


def read_contents(
    directory: Path, split: Split, settings: CorpusSettings, *, speakers: tuple[str, ...] | None = None
) -> Contents:
    """Reads the metadata and the headers of all recordings; decodes nothing. Raises CorpusError.

    `speakers` are those of the training corpus; without them whoever speaks is taken.
    """
    found, tokenizer = find_layout(directory, settings.layout), settings.tokenizer
    lines, bad = found.read(directory, split)
    lines = as_on_disk(lines)
    speakers = speakers or _speakers(directory, split, lines)
    good: list[tuple[MetadataLine, Header, NDArray[np.int32]]] = []
    read: list[Coverage] = []
    lost: list[Coverage] = []
    with ThreadPoolExecutor(WORKERS) as pool:
        headers = pool.map(_header, lines)
        for line, header in zip(lines, headers, strict=True):
            text = tokenizer.read(line.text)
            coverage = coverage_of(text, line.clip, line.where, line.text)
            if lack := _unreadable(text, coverage, settings):
                bad.append(BadClip(line.clip, f"{lack} in its text {line.text[:40]!r} ({line.where})"))
                lost.append(coverage)
                continue
            reason = header if isinstance(header, str) else _unusable(line, header, text.tokens, settings, speakers)
            if isinstance(header, str) or reason:
                bad.append(BadClip(line.clip, str(reason)))
            else:
                good.append((line, header, text.tokens))
                read.append(coverage)
    return Contents(
        directory,
        found,
        tuple(line for line, _, _ in good),
        tuple(header for _, header, _ in good),
        tuple(tokens for _, _, tokens in good),
        tuple(bad),
        speakers,
        total(read),
        total(lost),
    )


class Recordings:
    """A corpus of recordings as a source of examples; clips are decoded when they are asked for."""

    def __init__(
        self,
        directory: Path,
        split: Split,
        settings: CorpusSettings,
        *,
        speakers: tuple[str, ...] | None = None,
        log_bad: bool = True,
    ) -> None:
        """Raises CorpusError for an empty corpus, or where more is bad, or dropped of the texts, than is allowed."""
        contents = read_contents(directory, split, settings, speakers=speakers)
        clips, advice = len(contents.lines) + len(contents.bad), settings.advice
        more = [*contents.lost.sentences()[:1], advice] if contents.lost.dropped else []
        refuse_bad(contents.bad, clips, settings.max_bad_share, directory, more=more)
        refuse_dropped(contents.coverage, settings.max_dropped_text, str(directory), advice)
        if contents.bad and not contents.lines:
            listing = "\n".join([*listed(contents.bad), *more])
            raise CorpusError(f"none of the {clips} clips of {directory} can be used:\n{listing}")
        if not contents.lines:
            raise CorpusError(f"{directory} holds no clip: expected {contents.layout.looks}")
        if contents.bad and log_bad:
            listing = "\n".join(listed(contents.bad))
            log.warning("%d of %d clips of %s are left out:\n%s", len(contents.bad), clips, directory, listing)
        if log_bad:
            log.info("%s: %d clips in the layout %s", directory, len(contents.lines), contents.layout.name)
        log_coverage(contents.coverage, directory, settings.text_units)
        self.coverage = contents.coverage
        self.directory, self._lines, self._tokens = directory, contents.lines, contents.tokens
        self.bad, self.layout = contents.bad, contents.layout.name
        self.sample_rate = sample_rate = settings.sample_rate
        self.speakers = contents.speakers
        self._speaker_ids = {name: number for number, name in enumerate(self.speakers)}
        self.ids: Sequence[str] = [line.clip for line in contents.lines]
        self.samples = np.array(
            [resampled_length(header.frames, header.sample_rate, sample_rate) for header in contents.headers], np.int64
        )
        self.token_lengths = np.array([len(tokens) for tokens in contents.tokens], np.int64)
        self.sentences: Sequence[str] = [line.text for line in contents.lines]  # as they are written
        self.feature_names: tuple[str, ...] = ()
        spoken = [line.speaker for line in contents.lines]
        self.fingerprint = fingerprint(self.ids, self.samples, self._tokens, spoken, sample_rate)

    def __len__(self) -> int:
        return len(self._lines)

    def read(self, i: int) -> Example:
        """Decodes the i-th clip."""
        line = self._lines[i]
        pcm = read_pcm(line.path, self.sample_rate)
        if len(pcm) != self.samples[i]:
            raise CorpusError(
                f"{line.clip} has changed since the corpus was opened: {len(pcm)} samples instead of {self.samples[i]}"
            )
        return Example(pcm, self._tokens[i], self._speaker_ids.get(line.speaker, 0))

    def extents(self, i: int) -> tuple[Extent, ...]:
        """The whole recording."""
        return (Extent(self._lines[i].path),)


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


def _speakers(directory: Path, split: Split, lines: Sequence[MetadataLine]) -> tuple[str, ...]:
    """Those of the training split, for the evaluation split too: a speaker's number must mean the same in both."""
    if split == "eval" and is_ljspeech(directory):
        lines, _ = read_ljspeech(directory, "train")
    return tuple(sorted({line.speaker for line in lines}))


def _header(line: MetadataLine) -> Header | str:
    try:
        return read_header(line.path)
    except CorpusError as error:
        return str(error)


def _unreadable(text: Encoded, coverage: Coverage, settings: CorpusSettings) -> str | None:
    """Reason why too little of a text is left to learn from."""
    if coverage.dropped and len(text.tokens) == 0:
        return "no known symbol"
    if coverage.share > min(1.0, ONE_TEXT * settings.max_dropped_text):
        return f"{coverage.lost} of {coverage.characters} characters are dropped"
    return None if text.lettered else "no letter or digit"


def _unusable(
    line: MetadataLine, header: Header, tokens: NDArray[np.int32], settings: CorpusSettings, speakers: Sequence[str]
) -> str | None:
    frames = resampled_length(header.frames, header.sample_rate, settings.sample_rate) // settings.hop_length
    if frames < len(tokens):
        return (
            f"{len(tokens)} tokens in {header.frames / header.sample_rate:.2f} s of sound ({frames} frames): "
            "its text cannot belong to it"
        )
    if len(speakers) > 1 and line.speaker not in speakers:
        names = ", ".join(speakers[:5]) + (" …" if len(speakers) > 5 else "")
        return f"its speaker {line.speaker!r} is not among those of the training corpus: {names}"
    return None
