"""espeak-ng: phonemes of several languages, and errors that say what to do."""

from __future__ import annotations

import signal
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from voxyard.corpus import CorpusError, espeak
from voxyard.corpus.text import Tokenizer, decode


@pytest.mark.parametrize(
    ("language", "text", "ipa"),
    [
        ("en-us", "hello world", "həlˈoʊ wˈɜːld"),
        ("en-us", "thirty-two, 32", "θˈɜːɾi tˈuː"),
        ("de", "schöne Bücher", "ʃˈøːnə bˈyːçɜ"),
        ("fr-fr", "bonjour", "bɔ̃ʒˈuʁ"),
        ("es", "mañana", "maɲˈana"),
        ("da", "hest", "hˈɛst"),
        ("ru", "дверь", "dvʲˈerɪ"),
        ("is", "nú bæði víl og ádrepa", "ʋˈiːl ɔːx"),
    ],
)
def test_a_text_becomes_its_sounds_with_stress(language: str, text: str, ipa: str) -> None:
    """The model knows all of their symbols."""
    assert ipa in espeak.phonemes(text, language)
    tokenizer = Tokenizer("phonemes", language)
    read = tokenizer.read(text)
    assert ipa in decode(read.tokens)
    assert not read.dropped


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("Hello, world.", ",."),
        ("Who is it? It is me! Well.", "?!."),
        ("One, two, three", ",,"),
        ("It costs 3.14 or 1,000", ""),
        ("“Stop!” he said. ‘Now.’", "!.."),
        ("Really?!", "?"),
        ("He waits... then goes", "."),
        ("at 10:30 p.m. today", ""),
    ],
)
def test_clauses_keep_the_marks_that_carry_their_melody(text: str, marks: str) -> None:
    """A question does not sound like an answer."""
    spoken = decode(Tokenizer("phonemes").encode(text))
    assert "".join(c for c in spoken if c in ",.?!;:") == marks


def test_names_of_other_languages_inside_a_text_are_no_sounds() -> None:
    """Espeak-ng writes (en) before an English word in a German text."""
    spoken = espeak.phonemes("Das ist ein Software Update", "de")
    assert "(" not in spoken
    assert "en" not in spoken.split()
    assert "das ɪst" in spoken


@pytest.mark.parametrize(("wrong", "near"), [("en-uk", "en-gb|en-us"), ("", "en-us"), ("klingonese", "en-us|de|fr")])
def test_an_unknown_language_is_a_sentence_with_names_that_are_near(wrong: str, near: str) -> None:
    with pytest.raises(CorpusError, match=f"no voice for the language '{wrong}'.*({near})"):
        Tokenizer("phonemes", wrong).encode("hello")


def test_threads_that_speak_at_once_do_not_mix() -> None:
    """The library has one global voice."""
    wanted = {("en-us", "water"): "", ("de", "Wasser"): "", ("fr-fr", "eau"): ""}
    for language, text in wanted:
        wanted[language, text] = espeak.phonemes(text, language)
    calls = list(wanted) * 60
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda call: espeak.phonemes(call[1], call[0]), calls))
    assert found == [wanted[call] for call in calls]


def test_speech_is_as_long_as_its_text_and_not_silent() -> None:
    short, rate = espeak.speak("One.")
    long, _ = espeak.speak("One, two, three, four, five, six, seven.")
    assert rate == 22050
    assert (str(short.dtype), short.ndim) == ("int16", 1)
    assert 0.2 * rate < len(short) < len(long) / 2
    assert np.abs(long.astype(int)).max() > 3000


def test_without_the_package_the_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    espeak.restart()
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "espeakng_loader", None)
        with pytest.raises(CorpusError, match="pip install espeakng-loader"):
            espeak.phonemes("hello", "en-us")
        with pytest.raises(CorpusError, match="pip install espeakng-loader"):
            espeak.speak("hello")
    assert espeak.phonemes("hello", "en-us") == "həlˈoʊ"


def test_a_code_as_corpora_write_it_finds_its_voice_and_one_without_is_refused() -> None:
    assert [espeak.voice_for(code) for code in ("zh-CN", "sv-SE", "de")] == ["cmn", "sv", "de"]
    with pytest.raises(CorpusError, match="xx-YY"):
        espeak.voice_for("xx-YY")


def test_an_interrupt_while_it_speaks_is_not_lost() -> None:
    """In a callback of a C library Python prints an exception and goes on."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            espeak.speak("The old sailor opens the heavy door. " * 300)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert espeak.speak("Good morning.")[1] > 0
