"""Text that a model cannot read: counted by character, told, and refused where it is more than a little."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tones import Corpus, as_shards, open_corpus, tone, write_wav

from voxyard.corpus import CorpusError, CorpusSettings, check
from voxyard.corpus.coverage import MAX_DROPPED_TEXT, Coverage
from voxyard.corpus.text import Tokenizer
from voxyard.trainer.config import DataConfig

RUSSIAN = ("Привет, мир.", "Старый моряк открывает дверь.")
CHINESE = ("你好，世界。", "老水手打开沉重的门。")
GERMAN = ("Schöne Grüße – „ja“!", "Die Straße war 12 Meter lang.")
POLISH = ("Łódź i żółw.", "Zażółć gęślą jaźń.")
ENGLISH = ("“Well-known” – it's 5 o'clock; isn't it?", "In 1999 (so he says) she said: ‘No!’")


@pytest.fixture
def spoken(corpus: Corpus) -> Callable[..., Corpus]:
    """A corpus of these texts, all of one recording of 1.5 s."""

    def make(*texts: str) -> Corpus:
        for i, text in enumerate(texts):
            write_wav(corpus.wav(f"c{i}"), tone(1.5))
            corpus.lines.append(f"c{i}|{text}")
        return corpus.write()

    return make


def _prepare(corpus: Corpus, **settings: Any) -> Path:
    return as_shards(corpus.directory, corpus.directory.with_name("shards"), max_bad_share=0.01, **settings).path


@pytest.mark.parametrize(
    ("texts", "named", "dropped"),
    [(RUSSIAN, "'р' U+0440 CYRILLIC SMALL LETTER ER ×6", "34 of 37"),
     (CHINESE, "'世' U+4E16 CJK UNIFIED IDEOGRAPH-4E16 ×1", "15 of 16")],
    ids=["Russian", "Chinese"],
)  # fmt: skip
def test_a_corpus_of_another_script_is_refused_by_everything_that_reads_it(
    spoken: Callable[..., Corpus], texts: tuple[str, ...], named: str, dropped: str
) -> None:
    """The commas that remain are nothing to learn from."""
    corpus = spoken(*texts)
    survey = check(corpus.directory)
    assert not survey.passes
    said = [survey.render()]
    for act in (lambda: open_corpus(corpus.directory, max_bad_share=0.01), lambda: _prepare(corpus)):
        with pytest.raises(CorpusError) as found:
            act()
        said.append(str(found.value))
    for text in said:
        assert named in text
        assert f"{dropped} characters" in text
        assert "(line 1 of metadata.csv)" in text
        assert "--text-units phonemes --language" in text
    assert not corpus.directory.with_name("shards").exists()


@pytest.mark.parametrize(
    ("texts", "language"), [(RUSSIAN, "ru"), (CHINESE, "cmn"), (GERMAN, "de"), (POLISH, "pl"), (ENGLISH, "en-us")]
)
def test_phonemes_of_the_texts_own_language_lose_nothing(
    spoken: Callable[..., Corpus], texts: tuple[str, ...], language: str
) -> None:
    """What the refusal advises works."""
    survey = check(spoken(*texts).directory, CorpusSettings(text_units="phonemes", language=language))
    assert survey.texts is not None
    assert (survey.passes, survey.texts.dropped, survey.texts.folded) == (True, {}, {})


@pytest.mark.parametrize("texts", [RUSSIAN, CHINESE])
def test_a_voice_that_only_names_the_letters_of_a_script_does_not_read_it(texts: tuple[str, ...]) -> None:
    """Espeak-ng's English voice says "Chinese letter" for each."""
    for text in texts:
        read = Tokenizer("phonemes", "en-us").read(text)
        assert sum(read.dropped.values()) == sum(character.isalpha() for character in text)


@pytest.mark.parametrize(
    ("texts", "folded"),
    [(GERMAN, {"ß": 2, "ö": 1, "ü": 1}),
     (POLISH, {"ó": 3, "ż": 2, "Ł": 1, "ł": 2, "ź": 2, "ć": 1, "ę": 1, "ś": 1, "ą": 1, "ń": 1})],
    ids=["German", "Polish"],
)  # fmt: skip
def test_folded_letters_are_reported_with_their_number_and_not_refused(
    spoken: Callable[..., Corpus], caplog: pytest.LogCaptureFixture, texts: tuple[str, ...], folded: dict[str, int]
) -> None:
    """ä is learned as a, and the user hears of it; from shards too."""
    corpus = spoken(*texts)
    survey = check(corpus.directory)
    assert survey.texts is not None
    assert (survey.passes, survey.texts.dropped, survey.texts.folded) == (True, {}, folded)
    shards = _prepare(corpus)
    for where in (corpus.directory, shards):
        caplog.clear()
        open_corpus(where)
        letter, count = next(iter(folded.items()))
        assert f"{sum(folded.values())} characters are folded" in caplog.text
        assert f"as '{'ss' if letter == 'ß' else 'o'}' ×{count}" in caplog.text
    assert json.loads((shards / "index.json").read_text())["texts"]["folded"] == folded


@pytest.mark.slow
@pytest.mark.parametrize("units", ["characters", "phonemes"])
@pytest.mark.parametrize("text", [", . ; , . ;", "!?", "...", "“ ” – …"])
def test_a_clip_of_punctuation_alone_is_a_bad_clip(spoken: Callable[..., Corpus], text: str, units: str) -> None:
    """There is nothing in it to learn to speak."""
    corpus = spoken(text, *["hello there"] * 40)
    survey = check(corpus.directory, CorpusSettings(text_units=units))  # type: ignore[arg-type]
    assert [str(one) for one in survey.bad] == [f"c0: no letter or digit in its text {text!r} (line 1 of metadata.csv)"]
    with pytest.raises(CorpusError, match="no letter or digit in its text"):
        corpus.open(text_units=units)
    assert len(corpus.open(text_units=units, max_bad_share=0.05)) == 40


def test_a_corpus_of_punctuation_alone_is_refused(spoken: Callable[..., Corpus]) -> None:
    """Whatever share may be broken and dropped."""
    corpus = spoken(", . ; , . ;", "!?", "...")
    with pytest.raises(CorpusError, match=r"(?s)none of the 3 clips .* can be used.*no letter or digit"):
        corpus.open(max_bad_share=1.0)
    with pytest.raises(CorpusError, match="no letter or digit"):
        _prepare(corpus)


@pytest.mark.parametrize("units", ["characters", "phonemes"])
def test_letters_written_in_another_way_are_reported_as_they_stand(
    spoken: Callable[..., Corpus], caplog: pytest.LogCaptureFixture, units: str
) -> None:
    """X² is learned as x2; phonemes are of the same letters, so nobody is sent there."""
    corpus = spoken("x² and № 5 by Ｂob’s ﬁrm™, ch. Ⅳ, see ①")
    survey = check(corpus.directory, CorpusSettings(text_units=units))  # type: ignore[arg-type]
    assert survey.texts is not None
    assert (survey.texts.dropped, survey.texts.folded) == ({}, dict.fromkeys("²№Ｂﬁ™Ⅳ①", 1))
    said = survey.render()
    for wanted in ("'²' U+00B2 SUPERSCRIPT TWO as '2'", "'№' U+2116 NUMERO SIGN as 'no'", "as 'fi'", "as 'iv'"):
        assert wanted in said
    caplog.clear()
    corpus.open(text_units=units)
    assert "7 characters are folded" in caplog.text
    assert "Phonemes keep" not in caplog.text


def test_numerals_quotes_and_dashes_are_no_lost_text(
    spoken: Callable[..., Corpus], caplog: pytest.LogCaptureFixture
) -> None:
    corpus = spoken(*ENGLISH, "soft\u00adhyphen, no\u00a0break, zero\u200bwidth \ufeff")
    survey = check(corpus.directory)
    assert survey.texts is not None
    assert (survey.passes, survey.texts.dropped, survey.texts.folded) == (True, {}, {})
    corpus.open()
    assert [each for each in caplog.records if each.levelno > logging.INFO] == []


def test_a_few_emoji_are_reported_and_not_refused(
    spoken: Callable[..., Corpus], caplog: pytest.LogCaptureFixture
) -> None:
    corpus = spoken(*ENGLISH * 10, "See you soon, sailor 😀")
    shards = _prepare(corpus)
    caplog.clear()
    assert len(open_corpus(shards)) == 21
    assert "1 of 648 characters (0.15%) are dropped" in caplog.text
    assert "'😀' U+1F600 GRINNING FACE ×1" in caplog.text


def test_more_than_the_share_is_refused_with_the_worst_clips_and_the_knob_moves_it(
    spoken: Callable[..., Corpus],
) -> None:
    """No clip loses much, all of them lose a little."""
    corpus = spoken("salt & pepper and a sailor", "salt & pepper & a little old sailor, & all", *["hello there"] * 6)
    said = r"(?s)4 of 114 characters .*'&' U\+0026 AMPERSAND ×4.*c1 \(line 2 of .*c0 \(line 1 of .*--max-dropped-text"
    with pytest.raises(CorpusError, match=said):
        corpus.open()
    assert not check(corpus.directory).passes
    assert "More than 1.00%" in check(corpus.directory).render()
    assert check(corpus.directory, CorpusSettings(max_dropped_text=0.04)).passes
    shards = _prepare(corpus, max_dropped_text=0.04)
    assert len(open_corpus(shards, max_dropped_text=0.04)) == 8
    with pytest.raises(CorpusError, match=said):
        open_corpus(shards)
    assert not check(shards).passes


def test_a_clip_that_loses_a_tenth_of_its_text_is_a_bad_clip(spoken: Callable[..., Corpus]) -> None:
    """Its sound says what its text does not."""
    corpus = spoken(*ENGLISH * 20, "老水手。OK,")
    with pytest.raises(CorpusError, match=r"(?s)c40: 4 of 7 characters are dropped .* \(line 41 of metadata\.csv\)"):
        corpus.open()
    source = corpus.open(max_bad_share=0.05)
    assert source.coverage is not None
    assert (len(source), source.coverage.dropped) == (40, {})
    assert len(corpus.open(max_dropped_text=0.06)) == 41


def test_nothing_may_be_dropped_where_the_share_is_0(spoken: Callable[..., Corpus]) -> None:
    corpus = spoken(*ENGLISH * 50, "See you soon, dear sailor, by the door 😀")
    assert len(corpus.open()) == 101
    with pytest.raises(CorpusError, match="😀"):
        corpus.open(max_dropped_text=0.0)


def test_shards_of_an_older_version_without_counts_are_read(spoken: Callable[..., Corpus]) -> None:
    shards = _prepare(spoken(*ENGLISH))
    index = json.loads((shards / "index.json").read_text())
    del index["texts"]
    (shards / "index.json").write_text(json.dumps(index))
    assert open_corpus(shards).coverage is None
    assert check(shards).to_json()["texts"] is None
    index["texts"] = {"characters": "many"}
    (shards / "index.json").write_text(json.dumps(index))
    with pytest.raises(CorpusError, match=r"index\.json is not complete"):
        open_corpus(shards)


def test_the_setting_and_the_corpus_have_one_default() -> None:
    assert DataConfig().max_dropped_text == MAX_DROPPED_TEXT
    assert Coverage().share == 0
