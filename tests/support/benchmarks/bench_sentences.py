"""Sentences of a corpus by which a voice is judged: what is trained on, and what is held out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from voxyard.corpus.layouts.lines import MetadataLine
from voxyard.corpus.layouts.ljspeech import EVAL_METADATA
from voxyard.speech.verification.normalize import spelled

SHORTEST = 3  # words of a held-out sentence: one word alone would be no new sentence
HELD_OUT_SHARE, HELD_OUT_MOST = 0.15, 50  # of the sentences

_WORD = re.compile(r"[a-z]+(?:'[a-z]+)*")


@dataclass(frozen=True)
class Sentence:
    """A clip's text; `words` are in lower case, numbers spelled out; `unseen`: no clip of it is trained on."""

    clip: str
    text: str
    words: tuple[str, ...]
    unseen: bool = False


def sentence(clip: str, text: str) -> Sentence:
    """Sentence of a clip with this text."""
    return Sentence(clip, text, tuple(_WORD.findall(spelled(text).lower().replace("’", "'"))))


def one_clip_each(sentences: Iterable[Sentence], known: Collection[str]) -> list[Sentence]:
    """The sentences all of whose words are `known`, one clip of each, in the order of the corpus."""
    first: dict[tuple[str, ...], Sentence] = {}
    for each in sentences:
        if each.words and set(each.words) <= set(known):
            first.setdefault(each.words, each)
    return list(first.values())


def held_out(sentences: Sequence[Sentence]) -> set[tuple[str, ...]]:
    """Words of the sentences to hold out: each of their words is still spoken in a sentence that is trained on.

    At most HELD_OUT_SHARE of the sentences and HELD_OUT_MOST, whatever the order of the corpus.
    """
    texts = {each.words for each in sentences}
    spoken = Counter(word for words in texts for word in set(words))
    most, chosen = min(HELD_OUT_MOST, int(HELD_OUT_SHARE * len(texts))), set[tuple[str, ...]]()
    for words in sorted(texts, key=lambda words: words[::-1]):
        if len(chosen) < most and len(words) >= SHORTEST and all(spoken[word] > 1 for word in set(words)):
            chosen.add(words)
            spoken.subtract(set(words))
    return chosen


def split(sentences: Iterable[Sentence], unseen: Collection[tuple[str, ...]]) -> list[Sentence]:
    """The sentences with `unseen` set."""
    return [replace(each, unseen=each.words in unseen) for each in sentences]


def spread(sentences: Sequence[Sentence], count: int) -> list[Sentence]:
    """At most `count` of them, evenly over the corpus."""
    if len(sentences) <= count:
        return list(sentences)
    return [sentences[i * len(sentences) // count] for i in range(count)]


def write_corpus(source: Path, lines: Iterable[MetadataLine], unseen: Collection[tuple[str, ...]], into: Path) -> None:
    """A corpus in LJSpeech layout whose evaluation split is every clip of the unseen sentences."""
    into.mkdir(parents=True)
    (into / "wavs").symlink_to((source / "wavs").resolve())
    rows: dict[bool, list[str]] = {False: [], True: []}
    for line in lines:
        text = f"{line.clip}|{line.text}|{line.text}|{line.speaker}".removesuffix("|")
        rows[sentence(line.clip, line.text).words in unseen].append(text + "\n")
    for name, chosen in (("metadata_train.csv", rows[False]), (EVAL_METADATA, rows[True])):
        if chosen:
            (into / name).write_text("".join(chosen), encoding="utf-8")
