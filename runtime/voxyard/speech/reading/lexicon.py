"""Pronunciation lexicon: words and phrases, and what is spoken for them. From a YAML file, or with a request.

A file has one entry a line; one with options is a mapping, and several of one word are a list:

    nginx: engine x
    SQL: {say: sequel, case: true}
    Nice: [{say: neece, language: en}, {say: Nizza, language: de}]
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

from voxyard.settings import SettingsError
from voxyard.settings.yaml_reader import YamlValue
from voxyard.settings.yaml_reader import read as read_yaml
from voxyard.speech.errors import SpeechError
from voxyard.speech.reading.markup import Edit, Span

MOST_ENTRIES = 10_000  # of a file
MOST_OF_REQUEST = 200
LONGEST_WORD = 100  # characters of a word or phrase
LONGEST_SPOKEN = 200
_WORD = re.compile(r"[^\W_]+")
_WINDOW = re.compile(rf"(?:\S|\s+){{1,{LONGEST_WORD}}}")  # what an entry may be that begins there
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}")
_FIELDS = "say, language and case"


@dataclass(frozen=True)
class LexiconEntry:
    """A word or phrase and what is spoken for it; `language` is a code such as `en`, None for any language."""

    word: str
    spoken: str
    language: str | None = None
    case_sensitive: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "word", " ".join(self.word.split()))
        for name, text, longest in (("word", self.word, LONGEST_WORD), ("spoken form", self.spoken, LONGEST_SPOKEN)):
            if not text.strip() or len(text) > longest or not text.isprintable():
                raise SpeechError(
                    f"the {name} {text[:40]!r} has {len(text)} characters, expected 1 to {longest} on one line that "
                    "are not all blank"
                )
        if self.language is not None and not _LANGUAGE.fullmatch(self.language):
            raise SpeechError(f"the language is {self.language!r}, expected a code of two or three letters such as en")


@dataclass(frozen=True)
class Lexicon:
    """Entries of one source; of two for one word, the first that fits is spoken."""

    entries: tuple[LexiconEntry, ...] = ()

    def edits(self, text: str, language: str | None, taken: Iterable[Span] = ()) -> list[Edit]:
        """Edits that put the spoken forms into a text, in text order; longer phrases first, nothing of `taken`."""
        if not self.entries:
            return []
        code = (language or "").replace("_", "-").lower().partition("-")[0]
        used = sorted(taken)
        found, end = list[Edit](), 0
        for edit in sorted(self._matches(text, code), key=lambda edit: (edit.start, -edit.end)):
            at = bisect_left(used, (edit.start, edit.start))
            near = used[max(0, at - 1) : at + 1]
            if edit.start >= end and not any(start < edit.end and edit.start < last for start, last in near):
                found.append(edit)
                end = edit.end
        return found

    def _matches(self, text: str, code: str) -> Iterator[Edit]:
        for beginning, lengths in self._beginnings:
            for place in beginning.finditer(text):
                if (longest_first := lengths.get(place[0].casefold())) is not None:
                    yield from islice(self._at(text, place.start(), longest_first, code), 1)

    def _at(self, text: str, start: int, lengths: Iterable[int], code: str) -> Iterator[Edit]:
        """Entries that are there, longest first; however many begin alike, each length is looked up once."""
        window = _WINDOW.match(text, start)
        there = "" if window is None else _folded(window[0])
        for length in lengths:
            for pattern, entry in self._spellings.get(there[:length], ()):
                found = pattern.match(text, start)
                if found is not None and entry.language in (None, code):
                    yield Edit(*found.span(), entry.spoken)

    @cached_property
    def _spellings(self) -> dict[str, list[tuple[re.Pattern[str], LexiconEntry]]]:
        """Entries by what they are without regard to case; the first of a word stays first."""
        found: dict[str, list[tuple[re.Pattern[str], LexiconEntry]]] = {}
        for entry in self.entries:
            compiled = re.compile(_alone(entry.word), 0 if entry.case_sensitive else re.IGNORECASE)
            found.setdefault(_folded(entry.word), []).append((compiled, entry))
        return found

    @cached_property
    def _beginnings(self) -> list[tuple[re.Pattern[str], dict[str, list[int]]]]:
        """Lengths of entries by their first word; of those that do not begin with a word by their first character."""
        words: dict[str, list[int]] = {}
        characters: dict[str, list[int]] = {}
        for entry in sorted(self.entries, key=lambda entry: -len(_folded(entry.word))):
            word = _WORD.match(entry.word) if _parts_words(entry.word[0]) else None
            group, key = (words, word[0]) if word else (characters, entry.word[0])
            lengths, length = group.setdefault(key.casefold(), []), len(_folded(entry.word))
            if length not in lengths[-1:]:
                lengths.append(length)
        firsts = "".join(re.escape(each) for each in {*characters, *(each.upper() for each in characters)})
        return [(_WORD, words), *([(re.compile(f"[{firsts}]"), characters)] if characters else [])]


def _folded(text: str) -> str:
    """A text without regard to case and to how much blank is between its words."""
    return " ".join(text.split()).casefold().replace("\u0307", "")  # as İ and i are one letter to regular expressions


def _alone(word: str) -> str:
    """Pattern of a word or phrase that is not a part of another; letters that are written without blanks may be."""
    inside = r"\s+".join(re.escape(part) for part in word.split())
    before = r"(?<![^\W_])" if _parts_words(word[0]) else ""
    after = r"(?![^\W_])" if _parts_words(word[-1]) else ""
    before += r"(?<!\d[.,])" if word[0].isdigit() else ""
    after += r"(?![.,]\d)" if word[-1].isdigit() else ""
    return f"{before}{inside}{after}"


def _parts_words(letter: str) -> bool:
    return letter.isalnum() and not 0x3040 <= ord(letter) <= 0x9FFF


def of_mapping(words: Mapping[str, str]) -> Lexicon:
    """The lexicon of a request or of a key's entry.

    Raises:
        SpeechError: it has too many entries, or one that cannot be.
    """
    if len(words) > MOST_OF_REQUEST:
        raise SpeechError(
            f"the lexicon has {len(words)} entries, expected at most {MOST_OF_REQUEST}: send those of the text, or "
            "put them into a lexicon file of the host's, or of a key's"
        )
    return Lexicon(tuple(LexiconEntry(word, spoken) for word, spoken in words.items()))


def read_lexicon(path: Path) -> Lexicon:
    """The lexicon of a YAML file.

    Raises:
        SpeechError: the file cannot be read or is no lexicon; the message has the line and what was expected.
    """
    try:
        document = read_yaml(path)
    except SettingsError as error:
        raise SpeechError(str(error)) from error
    root = document.root
    for problem in document.problems:
        raise SpeechError(f"{path}:{problem.line}: {problem.text}")
    if root.value is None:
        return Lexicon()
    if not isinstance(root.value, dict):
        raise SpeechError(f"{path}:{root.line}: expected lines such as `nginx: engine x`, found {root.kind()}")
    if len(root.value) > MOST_ENTRIES:
        raise SpeechError(f"{path}: {len(root.value)} words, expected at most {MOST_ENTRIES}")
    found: dict[tuple[str, str | None, bool], tuple[LexiconEntry, int]] = {}
    for word, value in root.value.items():
        for each in value.value if isinstance(value.value, list) else [value]:
            try:
                entry = _entry(word, each)
            except SpeechError as error:
                raise SpeechError(f"{path}:{each.line}: {word}: {error}") from None
            spelling = entry.word if entry.case_sensitive else entry.word.casefold()
            first, line = found.setdefault((spelling, entry.language, entry.case_sensitive), (entry, each.line))
            if first is not entry:
                raise SpeechError(
                    f"{path}:{each.line}: {word}: is the same word as {first.word} on line {line}: keep one, or add a "
                    "language, or `case: true` to both"
                )
    return Lexicon(tuple(entry for entry, _ in found.values()))


def _entry(word: str, value: YamlValue) -> LexiconEntry:
    if isinstance(value.value, dict):
        unknown = [name for name in value.value if name not in ("say", "language", "case")]
        if unknown:
            raise SpeechError(f"unknown field {unknown[0]!r}, expected {_FIELDS}")
        if (say := value.value.get("say")) is None:
            raise SpeechError(f"found no `say`, expected {_FIELDS}")
        case = value.value.get("case")
        if case is not None and not isinstance(case.value, bool):
            raise SpeechError(f"case is {case.text!r}, expected true or false")
        language = value.value.get("language")
        return LexiconEntry(
            word,
            _text(say),
            None if language is None else _text(language).lower(),
            case is not None and bool(case.value),
        )
    return LexiconEntry(word, _text(value))


def _text(value: YamlValue) -> str:
    if isinstance(value.value, (dict, list)) or value.value is None:
        raise SpeechError(f"found {'nothing' if value.value is None else value.kind()}, expected the spoken words")
    return value.text
