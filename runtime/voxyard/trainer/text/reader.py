"""Texts to speak: read as tokens of a model, and refused where it cannot read them, with what would help."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from voxyard.corpus import CorpusError
from voxyard.corpus.coverage import ONE_TEXT, coverage_of, listed
from voxyard.corpus.espeak import reads, voice_for
from voxyard.corpus.text import Encoded, Tokenizer, spelled
from voxyard.speech.errors import SpeechError
from voxyard.speech.text.sentences import language_code, sentence_ends
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.text.front_end import normaliser_of, tokenizer_of

_SHOWN = 60  # characters of a text in a message
_LANGUAGES = {"ARABIC": "ar", "CJK": "cmn", "CYRILLIC": "ru", "HEBREW": "he", "HIRAGANA": "ja", "KATAKANA": "ja"}
"""First word of Unicode's names of letters that other voices do not read → a language that is written with them."""


class TextReader:
    """Reads the texts that a model of this configuration is to speak."""

    def __init__(self, config: TrainConfig) -> None:
        self._model, self._tokenizer = config.model, tokenizer_of(config.model)
        self._limit = min(1.0, ONE_TEXT * config.data.max_dropped_text)

    def read(self, text: str, language: str | None = None) -> Encoded:
        """The text as tokens of the model; all languages share one table of phonemes.

        Raises TrainerError where too little of one of its sentences is left to be spoken, and for a language that
        characters do not have; CorpusError for one that espeak-ng does not know.
        """
        tokenizer = self._tokenizer_for(language)
        encoded = tokenizer.read(text)
        if encoded.dropped:
            sentences = _sentences(text, tokenizer.language)
            # A sign alone has nothing that would be missed beside sentences.
            for sentence in [each for each in sentences if any(map(str.isalnum, each))] or [text]:
                self._check(sentence, tokenizer)
        if not encoded.lettered:
            raise TrainerError(f"nothing to say: no letter or digit in the text {_shortened(text)!r}")
        return encoded

    def refusal(self, text: str, language: str | None = None) -> str | None:
        """Reason for which `read` would refuse a text, in the language named for it; None where nothing is found.

        It costs little where all characters are known. A sound of espeak-ng that the model does not know is not
        looked for: only `read` finds that.
        """
        try:
            spoken = self.spoken_language(language)
            if not self._has_unread(text, spoken or self._tokenizer.language):
                return None
            self.read(self.without_signs(text), spoken)
        except (TrainerError, CorpusError) as error:
            return str(error)
        return None

    def spoken_language(self, asked: str | None) -> str | None:
        """Voice of espeak-ng for the language that was named for a text; None where the model reads it as its own.

        A model of characters reads all texts by the letters that it has learned. Raises CorpusError where espeak-ng
        has no such voice.
        """
        own = self._tokenizer.language
        if asked is None or own is None or self._tokenizer.units == "characters":
            return None
        if asked.lower() in (own.lower(), _primary(own)):
            return None
        return voice_for(asked)

    def without_signs(self, text: str) -> str:
        """The text without signs that a model of characters has no symbol for (`* * *`): they are silent in a document.

        Letters and digits stay, so that losing these is counted and refused; espeak-ng reads signs by itself.
        """
        if self._tokenizer.units == "phonemes":
            return text
        normaliser, language = normaliser_of(self._model), self._model.language
        if normaliser is not None and language is not None:
            text = normaliser.words(text, language)  # before the signs of amounts and units are gone
        return "".join(one if _is_counted(one) or spelled(one) else " " for one in text)

    def _check(self, sentence: str, tokenizer: Tokenizer) -> None:
        coverage = coverage_of(tokenizer.read(sentence))
        if coverage.share > self._limit:
            raise TrainerError(
                f"the model cannot read {coverage.lost} of {coverage.characters} characters of "
                f"{_shortened(sentence)!r} ({listed(coverage.dropped)}): expected at most {self._limit:.0%} of a "
                f"sentence; {self._advice(tokenizer, coverage.dropped)}"
            )

    def _has_unread(self, text: str, language: str | None) -> bool:
        """True where a character of the text may be dropped."""
        foreign = {one for one in text if not one.isascii()}
        if self._tokenizer.units == "characters" or language is None:
            return any(_is_counted(one) and not spelled(one) for one in foreign)
        return any(not reads(part, language) for one in foreign for part in unicodedata.normalize("NFKC", one))

    def _tokenizer_for(self, language: str | None) -> Tokenizer:
        own = self._tokenizer
        if language is None:
            return own
        if own.units == "characters":
            if own.language is not None and _primary(language) == _primary(own.language):
                return own
            raise TrainerError(
                f"--language {language}: this model has learned to read the letters of its corpus, in one language "
                f"({own.language or 'unknown'} by its settings); leave --language out, or train on phonemes "
                "(--text-units phonemes), which all languages share"
            )
        return replace(own, language=language)

    def _advice(self, tokenizer: Tokenizer, dropped: Mapping[str, int]) -> str:
        write = "write it with letters and signs that this model knows"
        if tokenizer.units == "characters":
            return f"{write}, or speak it with a model of phonemes (voxyard train --text-units phonemes)"
        language = _language_of(dropped)
        if language is None or language == tokenizer.language:
            return f"{write}, or speak it with another model"
        return f"say which language it is (--language {language}, in the API the field `language`), or {write}"


def _language_of(dropped: Mapping[str, int]) -> str | None:
    """A language whose voice reads most of the letters that were dropped."""
    found = Counter[str]()
    for character, count in dropped.items():
        language = _LANGUAGES.get(unicodedata.name(character, "").partition(" ")[0].partition("-")[0])
        if language is not None and reads(character, language):
            found[language] += count
    if not found:
        return None
    language, count = found.most_common(1)[0]
    return language if 2 * count > sum(dropped.values()) else None


def _sentences(text: str, voice: str | None) -> list[str]:
    try:
        language = language_code(voice)
    except SpeechError:
        language = None  # by the script, for a voice that is not named by a language
    ends = sentence_ends(text, language).sure
    return [text[start:end] for start, end in pairwise([0, *ends])]


def _is_counted(character: str) -> bool:
    return character.isalnum() or unicodedata.combining(character) > 0


def _primary(language: str) -> str:
    return language.lower().partition("-")[0]  # en of en-us


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
