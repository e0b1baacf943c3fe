"""The reading of text: kinds that can be left out, languages without rules, and no text that it breaks on."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from num2words import num2words

from voxyard.speech.reading import reader
from voxyard.speech.reading.languages import CURRENCIES, LANGUAGES, UNITS
from voxyard.speech.reading.markup import Edit, EditedText
from voxyard.speech.reading.options import KINDS, Kind, read_kinds
from voxyard.speech.reading.reader import read_words, readings
from voxyard.speech.reading.rules import Rule, rules

TEXT = "On 2024-03-05 at 9:05 Mr. Bell paid $5.50 for the 2nd 5 km #walk of 12."
KIND_WORDS: dict[Kind, tuple[str, str]] = {
    "dates": ("2024-03-05", "March fifth, twenty twenty-four"),
    "times": ("9:05", "nine oh five"),
    "abbreviations": ("Mr.", "Mister"),
    "currency": ("$5.50", "five dollars fifty"),
    "ordinals": ("2nd", "second"),
    "units": ("5 km", "five kilometers"),
    "numbers": ("12.", "twelve."),
    "symbols": ("#walk", "hashtag walk"),
}
PIECES = [
    *"0123456789 .,:;-–/%$€£°#@+()[]<>'\n\t",
    *[
        "1.234,56",
        "1,234.56",
        "12:30",
        "14h30",
        "2024-03-05",
        "05.03.2024",
        "3/5/2024",
        "-5 °C",
        "5 km/h",
        "40%",
        "%40",
    ],
    *[
        "$5 million",
        "5 Mio. €",
        "1er",
        "2nd",
        "3.º",
        "5-й",
        "am 3. ",
        "March 5, ",
        "5 марта 2024 г.",
        "5시",
        "2024年3月5日",
    ],
    *["z. B. ", "etc. ", "Mr. ", "т. е. ", "https://a.b/5", "a@b.c", "5 zł", "2 тыс. ", "5 mln ", "\N{NO-BREAK SPACE}"],
    *["word ", "слово ", "言葉", "말 ", "शब्द ", "٣", "²", "½", "Ⅷ", "é\u0301", "😀", "00", "999999999999999999"],
    *[
        '27" ',
        '8.5" x 11"',
        "42:17 min ",
        "23:59:59",
        "Mo–Fr ",
        "Do., ",
        "Tel. 912 345 678",
        "cell. 333 1234567",
        "12/25 ",
    ],
    *[
        "$2,400/mo. ",
        "5 м/с ",
        "7,5 l/100 km ",
        "1️⃣ ",
        "🇩🇪",
        "#️⃣",
        "52%–48%",
        "元/m²",
        "〒100-0001",
        "по тел. 8 800 555-35-35",
    ],
    *["2.10^3 kg ", "1,000²", "1.000^2 ", "^", "I ", "Chapter ", "Vol. ", "XIV. ", "5 lb. "],
]
texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=200),
    st.lists(st.sampled_from(PIECES), max_size=80).map("".join),
)
codes = st.sampled_from([*LANGUAGES, "en-US", "en_GB", "pt-BR", "xx", None])


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_read_alone_and_left_out_alone(kind: Kind) -> None:
    written, spoken = KIND_WORDS[kind]
    assert read_words(TEXT, "en", [kind]) == TEXT.replace(written, spoken)
    others = read_words(TEXT, "en", [each for each in KINDS if each != kind])
    assert written in others
    assert others.replace(written, spoken) == read_words(TEXT, "en")


def test_nothing_is_read_without_kinds_or_in_a_language_without_rules() -> None:
    assert read_words(TEXT, "en", []) == TEXT
    assert read_words(TEXT, None) == TEXT
    assert read_words(TEXT, "sw") == TEXT


def test_a_paragraph_in_other_letters_is_left_as_it_is() -> None:
    text = "It has 5 km.\n\nВ 1999 году было 5 км.\n\n5 km"
    assert read_words(text, "en") == "It has five kilometers.\n\nВ 1999 году было 5 км.\n\nfive kilometers"


def test_region_decides_a_date_that_is_ambiguous() -> None:
    assert read_words("3/5/2024", "en") == "3/5/2024"
    assert read_words("3/5/2024", "en-US") == "March fifth, twenty twenty-four"
    assert read_words("3/5/2024", "en_GB") == "May third, twenty twenty-four"
    assert read_words("30/2/2024", "en-GB") == "30/2/2024"  # no day


def test_emoji_are_silent_unless_their_names_are_asked_for() -> None:
    text = "I love it ❤️😂👍🏽! Well done🎉Bob 🐶."
    assert read_words(text, "en") == "I love it! Well doneBob."
    named = "I love it red heart, tears of joy, thumbs up! Well done party popper Bob dog face."
    assert read_words(text, "en", read_kinds("all,emoji")) == named
    assert read_words(text, "fr", read_kinds("all,emoji")) == read_words(text, "fr")  # which has no names of them
    assert "emoji" not in read_kinds("all")
    assert set(read_kinds("emoji, all")) == {*KINDS, "emoji"}


def test_an_error_of_a_rule_leaves_its_match_to_the_others(
    monkeypatch: pytest.MonkeyPatch, broken_rules: list[str]
) -> None:
    wrong = Rule("units", re.compile(r"[\d,]+ km"), lambda found: str(int(found[0].partition(" ")[0])))
    monkeypatch.setattr(reader, "rules", lambda *language: (wrong, *rules(*language)))
    assert read_words("It is 1,000 km long.", "en") == "It is one thousand kilometers long."
    assert broken_rules == ["units: '1,000 xx' is left to other rules: ValueError; please report it"]
    broken_rules.clear()


def test_what_is_taken_is_not_read() -> None:
    assert [edit.text for edit in readings("5 km and 6 km", "en", taken=[(0, 4)])] == ["six kilometers"]


@settings(max_examples=400, deadline=None)
@given(texts, codes, st.sets(st.sampled_from(KINDS)))
@example("5 km", "hi", set(KINDS))
@example("0º", "es", set(KINDS))
def test_every_text_is_read_and_nothing_else_of_it_changes(text: str, code: str | None, kinds: set[Kind]) -> None:
    found = readings(text, code, kinds)
    assert read_words(text, code, kinds) == read_words(text, code, kinds)
    at, kept = 0, ""
    for edit in found:
        assert at <= edit.start < edit.end <= len(text)
        assert edit.text.strip() or not any(each.isalnum() for each in text[edit.start : edit.end])
        kept += text[at : edit.start] + text[edit.start : edit.end]
        at = edit.end
    assert kept + text[at:] == text
    letters = [each for each in text if each.isalpha()]
    read = "".join(text[edit.start : edit.end] for edit in found)
    assert all(each in read or each in read_words(text, code, kinds) for each in letters)


SENTENCES = {
    "en": (
        "Then we left.",
        "5 May|7 Sept.|$5|3 km|2 oz.|10 p.m.|World War II|Louis XIV|1/2|3:1|1939-45|v2.0.1|$3M|50%|x²",
    ),
    "de": (
        "Dann ging er.",
        "am 5. Mai|3 km|10 Std.|5 Mio. €|Ludwig XIV.|3/4|3:1|im Jahr 1999|Platz 2|am 3.|5,50 €|usw.",
    ),
    "fr": ("Puis il partit.", "le 5 mai|12h|10 M€|Louis XIV|3/4|3,14|27,50 €|le XXe|21 kg|etc."),
    "es": ("Luego salió.", "el 5 de mayo|12:00|10 M€|Luis XIV|3/4|27,50 €|siglo XX|21 días|etc."),
    "it": ("Poi partì.", "il 5 maggio|alle 12:00|10 mln €|Luigi XIV|3/4|27,50 €|il 3°|ecc."),
    "pt": ("Depois saiu.", "5 de maio|às 12h|10 M€|século XX|3/4|R$ 27,50|o 3.º|etc."),
    "ru": ("Потом ушёл.", "100 руб.|5 км|в 2020 г.|5 мая|3 млн|50 %|и т. д."),
    "fa": ("بعد رفت.", "۵ مرداد|۳ km|۵۰٪|سال ۱۴۰۳|۱۴:۳۰|$5|۳/۵|۲۱ام|۲۱ تیر ۱۴۰۳"),
    "pl": ("Potem wyszedł.", "5 maja|100 zł|3 km|5 mln"),
}


@pytest.mark.parametrize(
    ("code", "ending"), [(code, end) for code, (_, ends) in SENTENCES.items() for end in ends.split("|")]
)
def test_a_sentence_end_stays_one(code: str, ending: str) -> None:
    after = SENTENCES[code][0]
    for mark in (".", "!", "?"):
        text = f"{ending.removesuffix('.') if mark == '.' else ending}{mark} {after}"
        assert read_words(text, code).endswith(f"{mark} {after}"), read_words(text, code)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**15 - 1))
def test_english_numbers_are_those_of_num2words(number: int) -> None:
    if 1100 <= number <= 2099:
        return  # years
    assert read_words(f"{number:,}", "en") == num2words(number).replace(",", "")


@settings(max_examples=300, deadline=None)
@given(texts, st.data())
def test_spans_of_an_edited_text_lead_back_in_order(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    edits = [Edit(*pair, data.draw(st.text(max_size=5))) for pair in zip(cuts[::2], cuts[1::2], strict=False)]
    edits = [edit for n, edit in enumerate(edits) if n == 0 or edits[n - 1].end <= edit.start]
    edited = EditedText(text, edits)
    marks = sorted(data.draw(st.lists(st.integers(0, len(edited.text)), max_size=6)))
    before = 0
    for start, end in pairwise(marks):
        first, last = edited.span(start, end)
        assert before <= first <= last <= len(text)
        before = last
    assert edited.span(0, len(edited.text))[1] <= len(text)


def test_positions_lead_back_to_the_text_that_was_edited() -> None:
    edited = EditedText("It cost $5 in all <b> now", [Edit(8, 10, "five dollars"), Edit(18, 21, "")])
    assert edited.text == "It cost five dollars in all  now"
    assert edited.span(0, 20) == (0, 10)  # to the end of "dollars"
    assert edited.span(8, 12) == (8, 10)  # "five": all of what it was read from
    assert edited.span(13, 27) == (10, 17)  # "dollars in all"
    assert edited.span(29, 32) == (22, 25)


def test_overlapping_edits_are_refused() -> None:
    with pytest.raises(ValueError, match="overlap"):
        EditedText("abcdef", [Edit(0, 3, "x"), Edit(2, 4, "y")])


@pytest.mark.parametrize("code", LANGUAGES)
def test_every_unit_and_currency_of_a_language_has_a_name_or_stays(code: str) -> None:
    for symbol in [*UNITS, *LANGUAGES[code].units, *CURRENCIES]:
        written = f"2 {symbol}"
        read = read_words(written, code)
        assert "-" not in read or "-" in symbol or not any(name in read for name in UNITS.values()), read
        assert "{" not in read


LONG = [  # what is repeated, the code of its language, what is heard of each
    ("Mr. Bell paid $5.50 for 12 km on March 5, 2024, e.g. at 9:05. ", "en", "twelve kilometers"),
    ("9" * 50, "en", " ".join(["nine"] * 50)),
    ("1." * 25, "de", "1." * 25),
    ("[" * 50, "en", "[" * 50),
    ("5 " * 20, "ru", " ".join(["пять"] * 20)),  # of a table, which ru-normalizr does not get
    ("100 " * 10, "en", "100 " * 10),  # of a table: in more groups than a number has
    ("1 000 000 " * 10, "en", "1 000 000 " * 10),
]


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "code", "heard"), LONG, ids=[f"{code}-{unit[:9].strip()}" for unit, code, _ in LONG])
def test_a_long_text_is_read_in_linear_time(unit: str, code: str, heard: str) -> None:
    """Eight times the text takes about eight times as long, not 64 times; of a busy machine the best of five tells."""

    def seconds(times: int) -> float:
        began = time.process_time()
        assert read_words(unit * times, code).count(heard) == times
        return time.process_time() - began

    seconds(1)  # what is read once is read
    assert any(seconds(400) < 16 * seconds(50) for _ in range(5))


def test_the_reader_imports_neither_torch_nor_tensorflow_nor_its_libraries() -> None:
    script = (
        "import sys, voxyard.speech.reading.reader as reader; reader.read_words('no figures', 'en')\n"
        "print(sorted({'torch', 'tensorflow', 'keras', 'numpy', 'babel', 'num2words', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
