"""Remarks of `voxyard corpus check`: on clips that can be learned from, but not well."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numpy.typing import NDArray
from tones import RATE, Corpus, strict, tone, write_wav

from voxyard.corpus import check

STILL = np.zeros(RATE * 5 // 2)

# (source, sound of one clip, what is remarked)
SOUNDS = [
    ("jamiepine/voicebox#502", np.clip(6 * tone(), -1, 1), r"1 have their peaks cut off, most of all odd, \d+.\d% of"),
    ("deepsound-project/samplernn-pytorch#21", 0.3 + tone(level=0.4), "1 lie beside zero, most of all odd, by 30.0%"),
    ("NVIDIA/tacotron2#63", np.append(STILL, tone(0.4)), "1 begin or end with silence, most of all odd, 2.5 s of it"),
    ("NVIDIA/tacotron2#63", np.append(tone(0.4), STILL), "1 begin or end with silence, most of all odd, 2.5 s of it"),
    ("NVIDIA/mellotron#14", tone(level=0.005), "1 are faint, most of all odd, its loudest sample is 46 dB below"),
    (
        "MontrealCorpusTools/Montreal-Forced-Aligner#966",
        tone(9.0),
        "longer or shorter than their texts.* odd, 22 times",
    ),
    ("js0nwu/webui#1", tone(0.4, hertz=200), "1 sound as another clip, such as odd as c0: keep one"),
]

# (source, text of one clip, mark)
TEXTS = [
    ("common-voice/common-voice#1901", "salt &amp; pepper", "&amp;"),
    ("common-voice/common-voice#1901", "it&#39;s late", "&#39;"),
    ("revdotcom/reverb#19", "well <laugh> yes", "<laugh>"),
    ("flashlight/wav2letter#457", "well [noise] yes", "[noise]"),
    ("fishaudio/fish-speech#81", "{HH AH0} there", "{HH AH0}"),
    ("rhasspy/piper#564", "it\u00e2\u20ac\u2122s late", "\u00e2\u20ac"),
    ("rhasspy/piper#564", "M\u00c3\u00bcller", "\u00c3\u00bc"),
    ("DigitalPhonetics/IMS-Toucan#155", "so \u5e7f guang3 it is", "\u5e7f guang3"),
    ("coqui-ai/TTS#623", "so \u5e7f#2 it is", "\u5e7f#2"),
    ("NVIDIA-NeMo/Speech#4156", r"one\ntwo", r"\n"),
]


def _remarks(corpus: Corpus, sound: NDArray[np.float64] | None = None, text: str = "hello there") -> tuple[str, ...]:
    """Of a corpus of clips that are as they should be, and an odd one."""
    for i in range(12):
        corpus.add(f"c{i}")
    corpus.add("odd", text)
    if sound is not None:
        write_wav(corpus.wav("odd"), sound)
    found = check(corpus.directory, strict(max_dropped_text=1.0))
    assert (found.clips, found.passes) == (13, True)
    assert all(f"remarks       {one}\n" in found.render() for one in found.remarks)
    return found.remarks


@pytest.mark.parametrize(("source", "sound", "said"), SOUNDS)
def test_a_sound_that_is_not_learned_well_is_remarked_on(
    source: str, sound: NDArray[np.float64], said: str, corpus: Corpus
) -> None:
    (remark,) = _remarks(corpus, sound)
    assert re.search(said, remark), source


def test_the_same_sound_with_another_text_is_remarked_on(corpus: Corpus) -> None:
    (remark,) = _remarks(corpus, tone(0.4, hertz=200), "hello you")
    assert remark == "1 sound as another clip, 1 with another text, such as odd as c0: keep one of them"


@pytest.mark.parametrize(("source", "text", "mark"), TEXTS)
def test_marks_that_are_not_spoken_are_remarked_on(source: str, text: str, mark: str, corpus: Corpus) -> None:
    (remark,) = _remarks(corpus, text=text)
    assert remark.startswith(f"1 have marks in their texts that are not spoken, such as {mark!r} in odd (line 13"), (
        source
    )


@pytest.mark.parametrize("text", ["AT&T, R & D", "a < b and c > d", "it’s “late” (now)", "Ãgua â la carte", r"a\b"])
def test_signs_of_a_sentence_are_no_marks(text: str, corpus: Corpus) -> None:
    for i in range(12):
        corpus.add(f"c{i}")
    assert check(corpus.add("plain", text).directory, strict(max_dropped_text=1.0)).remarks == ()
