"""Coverage: how much of its texts a model gets to see, character by character, and when that is too little."""

from __future__ import annotations

import logging
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from voxyard.corpus.examples import CorpusError
from voxyard.corpus.text import Encoded, Units, spelled

log = logging.getLogger("voxyard.corpus")

MAX_DROPPED_TEXT = 0.01
"""Share of a corpus' characters that may be dropped: the default of --max-dropped-text (DataConfig)."""
ONE_TEXT = 10
"""A single text may lose so many times the share of a whole corpus: one sign is much of a short sentence."""
WORST = 5  # clips that are kept by name
NAMED = 8  # characters that a message names


@dataclass(frozen=True, slots=True)
class LostText:
    """A clip whose text lost characters, and where that text stands."""

    clip: str
    where: str  # such as: line 3 of metadata.csv
    text: str
    dropped: int
    characters: int

    def __str__(self) -> str:
        return f"{self.clip} ({self.where}): {self.dropped} of {self.characters} of {_shortened(self.text)!r}"


@dataclass(frozen=True)
class Coverage:
    """The characters of some texts as they were written: all, those dropped, those folded; see Encoded."""

    characters: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)  # the model has nothing for them
    folded: Mapping[str, int] = field(default_factory=dict)  # became others: ä became a, ² became 2
    worst: tuple[LostText, ...] = ()  # the clips that lost the largest shares

    @property
    def lost(self) -> int:
        """Number of characters that were dropped."""
        return sum(self.dropped.values())

    @property
    def share(self) -> float:
        """The share of the characters that were dropped, 0 to 1."""
        return min(1.0, self.lost / self.characters) if self.characters else 0.0

    def to_json(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {**asdict(self), "dropped_share": self.share}

    def sentences(self) -> list[str]:
        """A sentence on what was dropped and one on what was folded, where there is any."""
        said = []
        if self.dropped:
            said.append(
                f"{self.lost} of {self.characters} characters ({self.share:.2%}) are dropped, the model cannot "
                f"read them: {listed(self.dropped)}"
            )
        if self.folded:
            said.append(f"{sum(self.folded.values())} characters are folded: {listed(self.folded, _folding)}")
        return said


def coverage_of(encoded: Encoded, clip: str = "", where: str = "", text: str = "") -> Coverage:
    """The coverage of one text; the other arguments say which, so that the worst can be named."""
    made = Coverage(encoded.characters, encoded.dropped, encoded.folded)
    if not (clip and made.dropped):
        return made
    return replace(made, worst=(LostText(clip, where, text, made.lost, made.characters),))


def from_json(data: Any) -> Coverage:
    """The coverage that `Coverage.to_json` gave. Raises ValueError."""
    return TypeAdapter(Coverage).validate_python(data)


def total(parts: Iterable[Coverage]) -> Coverage:
    """The coverage of many texts together."""
    characters, dropped, folded = 0, Counter[str](), Counter[str]()
    clips: list[LostText] = []
    for part in parts:
        characters += part.characters
        dropped.update(part.dropped)
        folded.update(part.folded)
        clips += part.worst
    clips.sort(key=lambda one: (-one.dropped / max(1, one.characters), -one.dropped))
    return Coverage(characters, dict(dropped.most_common()), dict(folded.most_common()), tuple(clips[:WORST]))


def refusal(coverage: Coverage, limit: float, advice: str) -> list[str]:
    """Lines that say where most was dropped and what to do; none where it is no more than the share `limit`."""
    if coverage.share <= limit:
        return []
    worst = ["Most of it in:", *(f"  {one}" for one in coverage.worst)] if coverage.worst else []
    return [*worst, f"More than {limit:.2%} is refused: {advice}"]


def refuse_dropped(coverage: Coverage, limit: float, what: str, advice: str) -> None:
    """Raises CorpusError where more than the share `limit` of the characters of `what` were dropped."""
    if lines := refusal(coverage, limit, advice):
        raise CorpusError("\n".join([f"text of {what} is lost: {coverage.sentences()[0]}", *lines]))


def log_coverage(coverage: Coverage, path: Path, units: Units) -> None:
    """Logs which characters of a corpus are dropped or folded."""
    for sentence in coverage.sentences():
        log.warning("%s: %s", path, sentence)
    if units == "characters" and any(map(_is_letter_apart, coverage.folded)):
        log.warning("Phonemes keep such letters apart: --text-units phonemes --language CODE")


def corpus_advice(units: Units, language: str | None) -> str:
    """Advice to a user whose corpus loses its texts."""
    mend = "write the texts (third column of the metadata) with letters and signs that the model knows"
    more = "--max-dropped-text allows more"
    if units == "phonemes":
        return f"--language {language} reads other texts than these: give their own; or {mend}; {more}"
    return f"train on phonemes (--text-units phonemes --language CODE, such as de, pl, ru or cmn); or {mend}; {more}"


def named(character: str) -> str:
    """A character with its code point and name, as Unicode has them."""
    nameless = "control character" if unicodedata.category(character) == "Cc" else "without a name"
    code = f"U+{ord(character):04X} {unicodedata.name(character, nameless)}"
    return f"{character!r} {code}" if character.isprintable() and not unicodedata.combining(character) else code


def listed(counts: Mapping[str, int], name: Callable[[str], str] = named) -> str:
    """Characters with their numbers, the most frequent ones by name."""
    most = sorted(counts.items(), key=lambda item: -item[1])
    said = [f"{name(character)} ×{count}" for character, count in most[:NAMED]]
    return ", ".join(said + ([f"and {len(most) - NAMED} more"] if len(most) > NAMED else []))


def _folding(character: str) -> str:
    """A character and what is learned in its place; a voice may read what a character model has no symbol for."""
    plain = spelled(character) or ("" if _is_letter_apart(character) else unicodedata.normalize("NFKC", character))
    return f"{named(character)} as {plain!r}" if plain else f"{named(character)} left out"


def _is_letter_apart(character: str) -> bool:
    """True for a letter or mark of its own, such as ä; false for another way to write others, such as ² or ﬁ."""
    return unicodedata.is_normalized("NFKC", character)


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:59]}…"
