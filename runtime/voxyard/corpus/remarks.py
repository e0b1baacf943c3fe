"""What `corpus check` remarks on: clips that can be learned from, but not well."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

from voxyard.corpus.layouts.lines import MetadataLine

_FULL = 32760  # of 32768: a sample from here on is at full scale
_EDGE = 0.01  # of the loudest sample: what is below it before the first and after the last louder one is silence
_MARKS = re.compile(
    r"&#?\w+;|</?[a-zA-Z][^>]*>|\[[^]]*\]|\{[^}]*\}|\\[nrtux]|â€|Ã[\u0080-\u00bf]|[\u4e00-\u9fff](?:#\d| ?[a-zü]+[1-5])"
)  # not read as they are meant
_FEW = 10  # clips, of which the pace of most is not known

_KINDS: Mapping[str, tuple[float, str, str]] = {  # measure → from where it is remarked on, of what, how much of it
    "clipped": (0.005, "have their peaks cut off", "{:.1%} of its samples are at full scale: record at a lower level"),
    "offset": (0.02, "lie beside zero", "by {:.1%} of full scale: a high-pass, as of 20 Hz, mends it"),
    "silence": (2.0, "begin or end with silence", "{:.1f} s of it: trim them"),
    "faint": (40.0, "are faint", "its loudest sample is {:.0f} dB below full scale: amplify them"),
    "pace": (8.0, "are far longer or shorter than their texts", "{:.0f} times off the pace of most: compare them"),
}


@dataclass(frozen=True, slots=True)
class Heard:
    """What a clip is like."""

    seconds: float
    clipped: float  # share of samples at full scale
    offset: float  # of full scale, that the mean is off zero
    silence: float  # seconds, before or after the sound
    faint: float  # dB that the loudest sample is below full scale
    digest: bytes  # of its samples


def hear(pcm: NDArray[np.int16], rate: int) -> Heard:
    """Measures a clip (samples,) that is not silent."""
    sound = pcm.astype(np.float32)
    offset = float(sound.mean())
    height = np.abs(sound - offset)
    loud = np.flatnonzero(height >= _EDGE * height.max())
    return Heard(
        len(pcm) / rate,
        float(np.mean(np.abs(sound) >= _FULL)),
        abs(offset) / 32768,
        max(int(loud[0]), len(pcm) - 1 - int(loud[-1])) / rate,
        -20 * float(np.log10(height.max() / 32768)),
        hashlib.sha256(pcm.tobytes()).digest()[:16],
    )


def remarks(lines: Sequence[MetadataLine], tokens: Sequence[int], heard: Sequence[Heard]) -> tuple[str, ...]:
    """A sentence for each kind of remark: on how many clips, and on which of them most."""
    return (*_measured(lines, tokens, heard), *_doubled(lines, heard), *_marked(lines))


def _measured(lines: Sequence[MetadataLine], tokens: Sequence[int], heard: Sequence[Heard]) -> Iterator[str]:
    paces = [count / one.seconds for count, one in zip(tokens, heard, strict=True)]
    usual = median(paces) if len(paces) >= _FEW else 0.0
    for kind, (limit, what, much) in _KINDS.items():
        if kind == "pace":
            measures = [max(pace / usual, usual / pace) if usual else 0.0 for pace in paces]
        else:
            measures = [getattr(one, kind) for one in heard]
        over = [(measure, line.clip) for measure, line in zip(measures, lines, strict=True) if measure > limit]
        if over:
            most, clip = max(over)
            yield f"{len(over)} {what}, most of all {clip}, {much.format(most)}"


def _doubled(lines: Sequence[MetadataLine], heard: Sequence[Heard]) -> Iterator[str]:
    first: dict[bytes, MetadataLine] = {}
    doubles = [
        (line, one)
        for line, sound in zip(lines, heard, strict=True)
        if (one := first.setdefault(sound.digest, line)) != line
    ]
    if doubles:
        other = [pair for pair in doubles if pair[0].text != pair[1].text]
        (line, one), texts = (other or doubles)[0], f", {len(other)} with another text" if other else ""
        yield f"{len(doubles)} sound as another clip{texts}, such as {line.clip} as {one.clip}: keep one of them"


def _marked(lines: Sequence[MetadataLine]) -> Iterator[str]:
    marked = [(found[0], line) for line in lines if (found := _MARKS.search(line.text))]
    if marked:
        mark, line = marked[0]
        yield (
            f"{len(marked)} have marks in their texts that are not spoken, such as {mark[:40]!r} in {line.clip} "
            f"({line.where}): write what is said"
        )
