"""Examples, and the protocol of everything that examples can be read from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from voxyard.host.errors import UserError
from voxyard.host.page_cache import Extent


class CorpusError(UserError):
    """What was found in a corpus, what was expected, what to do."""


SMALLEST_TO_SKIP = 20
"""From so many clips on one broken clip is always skipped, unless the share is 0."""


def allowed_bad(clips: int, share: float) -> int:
    """Number of clips that may be broken: the share, and at least one of 20 or more (1% of 50 clips is none)."""
    return max(int(share * clips + 1e-9), int(share > 0 and clips >= SMALLEST_TO_SKIP))


@dataclass(frozen=True, slots=True)
class Example:
    """One clip: its sound, its text, its speaker, and its features where they were computed beforehand."""

    pcm: NDArray[np.int16]  # (samples,) mono, at the source's sample rate
    tokens: NDArray[np.int32]  # (tokens,)
    speaker: int
    features: Mapping[str, NDArray[np.float32]] | None = None  # mel (frames, mels), pitch and energy (frames,)


def sentences_of(source: ExampleSource) -> Sequence[str]:
    """The text of each clip as it was written; () where the source does not keep texts."""
    found: Sequence[str] = getattr(source, "sentences", ())
    return found


class ExampleSource(Protocol):
    """Examples that can be read in any order, from several threads; their lengths are known beforehand."""

    @property
    def sample_rate(self) -> int:
        """Samples a second of every clip."""

    @property
    def speakers(self) -> tuple[str, ...]:
        """Names; a speaker's id is its position."""

    @property
    def ids(self) -> Sequence[str]:
        """Names of the clips."""

    @property
    def samples(self) -> NDArray[np.int64]:
        """Length of each clip (n,)."""

    @property
    def token_lengths(self) -> NDArray[np.int64]:
        """Length of each text (n,)."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features in `Example.features`; () where it is None."""

    @property
    def fingerprint(self) -> str:
        """A hash of clips, lengths, texts and settings: the same corpus has the same one."""

    def __len__(self) -> int:
        """Number of clips."""

    def read(self, i: int) -> Example:
        """The i-th clip. Raises CorpusError where it is broken."""

    def extents(self, i: int) -> tuple[Extent, ...]:
        """Parts of files that the sound of the i-th clip is read from; () where it lies in memory."""


class SameClips:
    """The clips of another source, read in a way of its own."""

    def __init__(self, source: ExampleSource) -> None:
        self._source = source
        self.sample_rate, self.speakers = source.sample_rate, source.speakers
        self.ids, self.samples, self.token_lengths = source.ids, source.samples, source.token_lengths
        self.feature_names, self.fingerprint = source.feature_names, source.fingerprint
        self.sentences = sentences_of(source)

    def __len__(self) -> int:
        return len(self.samples)

    def read(self, i: int) -> Example:
        """The i-th clip."""
        return self._source.read(i)

    def extents(self, i: int) -> tuple[Extent, ...]:
        """Those of the source."""
        return self._source.extents(i)


class Subset(SameClips):
    """Some clips of a source, by their numbers in it."""

    def __init__(self, source: ExampleSource, clips: NDArray[np.int64]) -> None:
        super().__init__(source)
        self.clips = clips
        self.ids = [source.ids[i] for i in clips]
        self.samples, self.token_lengths = source.samples[clips], source.token_lengths[clips]
        self.sentences = [self.sentences[i] for i in clips] if self.sentences else []
        self.fingerprint = f"{source.fingerprint}/{len(clips)}"

    def read(self, i: int) -> Example:
        """The i-th clip of the subset."""
        return super().read(int(self.clips[i]))

    def extents(self, i: int) -> tuple[Extent, ...]:
        """Extents of the i-th clip of the subset."""
        return super().extents(int(self.clips[i]))
