"""The pronunciation lexicon: what it finds in a text, and what is said of a wrong file."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxyard.speech.errors import SpeechError
from voxyard.speech.reading.lexicon import Lexicon, LexiconEntry, of_mapping, read_lexicon
from voxyard.speech.reading.markup import EditedText

FILE = """\
# names of the house
nginx: engine x
SQL: {say: sequel, case: true}
Nice: [{say: neece, language: en}, {say: Nizza, language: de}]
data base: "database"
C++: see plus plus
東京: とうきょう
42: the answer
"""


def spoken(text: str, lexicon: Lexicon, language: str | None = None) -> str:
    return EditedText(text, lexicon.edits(text, language)).text


@pytest.fixture
def lexicon(tmp_path: Path) -> Lexicon:
    (tmp_path / "words.yaml").write_text(FILE, encoding="utf-8")
    return read_lexicon(tmp_path / "words.yaml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("NGINX, nginx's and nginxes", "engine x, engine x's and nginxes"),
        ("SQL, sql and MySQL", "sequel, sql and MySQL"),
        ("a data\n base, a database", "a database, a database"),
        ("C++ and C+", "see plus plus and C+"),
        ("今は東京都です", "今はとうきょう都です"),
        ("42, 421 and 4.42", "the answer, 421 and 4.42"),
        ("_nginx_", "_engine x_"),
    ],
)
def test_words_and_phrases_are_found_whole(lexicon: Lexicon, text: str, said: str) -> None:
    assert spoken(text, lexicon) == said


def test_an_entry_of_a_language_counts_in_that_language(lexicon: Lexicon) -> None:
    assert spoken("In Nice", lexicon, "en-GB") == "In neece"
    assert spoken("In Nice", lexicon, "de") == "In Nizza"
    assert spoken("In Nice", lexicon, "fr") == spoken("In Nice", lexicon) == "In Nice"


def test_the_longest_phrase_wins_and_of_one_word_the_first() -> None:
    entries = [("new york", "a"), ("new", "b"), ("New York City", "c"), ("new", "d")]
    lexicon = Lexicon(tuple(LexiconEntry(*each) for each in entries))
    assert spoken("New York City, New York, new", lexicon) == "c, a, b"


def test_nothing_of_what_is_taken_is_changed() -> None:
    found = of_mapping({"a": "x"}).edits("a a a", None, [(1, 3)])
    assert [edit.start for edit in found] == [0, 4]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- nginx", ":1: expected lines such as `nginx: engine x`, found a list"),
        ("a: b\nnginx:\n", ":2: nginx: found nothing, expected the spoken words"),
        ("nginx: {spoken: x}", ":1: nginx: unknown field 'spoken', expected say, language and case"),
        ("nginx: {case: true}", ":1: nginx: found no `say`"),
        ("a: b\n\nnginx: {say: x, case: maybe}", ":3: nginx: case is 'maybe', expected true or false"),
        ("nginx: {say: x, language: english}", "the language is 'english', expected a code of two or three letters"),
        ("nginx: {say: [x]}", "found a list, expected the spoken words"),
        ("nginx: ' '", "the spoken form ' ' has 1 characters, expected 1 to 200"),
        (f"nginx: {'x' * 201}", "has 201 characters"),
        (f"{'x' * 101}: y", "the word"),
        ("nginx: a\nnginx: b", ":2: nginx stands here a second time, first on line 1"),
        ("Hello: b\nhello: c", ":2: hello: is the same word as Hello on line 1: keep one"),
        ("'a  b': b\nc: d\n'A b': {say: c}", ":3: A b: is the same word as a b on line 1"),
        ("a: [{say: b, language: en}, {say: c}, {say: d, language: EN}]", ":1: a: is the same word as a on line 1"),
        ("a: [", ":1: not YAML"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "words.yaml"
    path.write_text(text)
    with pytest.raises(SpeechError) as caught:
        read_lexicon(path)
    assert said in str(caught.value)
    assert str(caught.value).startswith(str(path))


def test_words_that_differ_in_case_or_language_may_stand_side_by_side(tmp_path: Path) -> None:
    path = tmp_path / "words.yaml"
    path.write_text("Polish: {say: a, case: true}\npolish: {say: b, case: true}\nPOLISH: c\n")
    assert spoken("Polish, polish, PoLiSh", read_lexicon(path)) == "a, b, c"
    path.write_text("Nice: {say: a, language: en}\nnice: {say: b, language: de}\nNICE: c\n")
    assert [spoken("Nice", read_lexicon(path), language) for language in ("en", "de", "fr")] == ["a", "b", "c"]


def test_a_missing_file_is_refused_and_an_empty_one_is_a_lexicon(tmp_path: Path) -> None:
    with pytest.raises(SpeechError, match="no such file"):
        read_lexicon(tmp_path / "none.yaml")
    (tmp_path / "empty.yaml").write_text("# nothing yet\n")
    assert read_lexicon(tmp_path / "empty.yaml") == Lexicon()


def test_a_request_brings_a_bounded_number_of_words() -> None:
    with pytest.raises(SpeechError, match="201 entries, expected at most 200"):
        of_mapping({f"w{number}": "x" for number in range(201)})


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(
        st.text("abcAß東.+ '", min_size=1, max_size=6), st.text("xyz ", min_size=1, max_size=6), max_size=6
    ),
    st.text("abcAßSs東.+ '\n", max_size=60),
)
def test_edits_are_in_order_and_apart(words: dict[str, str], text: str) -> None:
    words = {word: said for word, said in words.items() if word.strip() and said.strip()}
    at = 0
    for edit in of_mapping(words).edits(text, "en"):
        assert at <= edit.start < edit.end <= len(text)
        assert edit.text in words.values()
        at = edit.end


def test_of_entries_that_begin_alike_only_those_that_are_there_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """200 of a request that a key sends with a book: none costs anything but where it stands."""
    tried = list[str]()

    @dataclass(frozen=True)
    class Counted:
        pattern: re.Pattern[str]

        def match(self, text: str, start: int) -> re.Match[str] | None:
            tried.append(self.pattern.pattern)
            return self.pattern.match(text, start)

    words = {f"aa aa aa aa {number}": f"said {number}" for number in range(199)} | {"aa aa": "two"}
    lexicon = of_mapping(words)
    spellings = {key: [(Counted(found), entry) for found, entry in each] for key, each in lexicon._spellings.items()}
    monkeypatch.setitem(lexicon.__dict__, "_spellings", spellings)
    assert spoken("aa aa aa  aa 77, aa, AA AA", lexicon) == "said 77, aa, two"
    assert len(tried) == 4  # "aa aa" stands in three places


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("Yeni İstanbul", "yeni istanbul"),
        ("yeni istanbul", "Yeni İstanbul"),
        ("weißes haus", "Weißes  Haus"),
        ("ΣΟΦΟΣ", "σοφος"),
    ],
)
def test_case_and_blanks_count_as_regular_expressions_have_them(word: str, text: str) -> None:
    assert spoken(f"({text})", of_mapping({word: "x"})) == "(x)"


@pytest.mark.slow
def test_a_large_lexicon_costs_no_more_than_its_words() -> None:
    text = "The harbour lay still and word77 was awake. " * 2000
    small = of_mapping({"word77": "x"})
    large = Lexicon(tuple(LexiconEntry(f"word{number}", "x") for number in range(5000)))
    for lexicon in (small, large):
        lexicon.edits("word77", "en")  # compiled

    def seconds(lexicon: Lexicon) -> float:
        began = time.process_time()
        assert len(lexicon.edits(text, "en")) == 2000
        return time.process_time() - began

    assert any(seconds(large) < 20 * seconds(small) for _ in range(5))
