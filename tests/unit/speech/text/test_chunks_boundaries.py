"""Cuts of sentences into chunks: ¦ stands where a sentence is cut, ‖ between sentences, ¶ between paragraphs."""

from __future__ import annotations

import re

import pytest

from voxyard.speech.text.boundaries import clauses
from voxyard.speech.text.chunks import SHORT, milliseconds, split

ENDINGS = {"¦": "clause", "‖": "sentence", "¶": "paragraph", "": "paragraph"}


def words(text: str) -> int:
    return len(text.split())


def read(row: str) -> tuple[str, list[tuple[str, str]]]:
    """The document of a row, and its chunks with what ends with each."""
    parts = re.split("([¦‖¶]|$)", row)
    text = "".join({"¶": "\n\n"}.get(part, "" if part in ENDINGS else part) for part in parts)
    chunks = zip(parts[::2], parts[1::2], strict=False)
    return text, [(part.strip(), ENDINGS[mark]) for part, mark in chunks if part.strip()]


@pytest.mark.parametrize(
    ("most_words", "row"),
    [
        (20, "He said yes. ‖She said no. They went home in the cold rain."),
        (7, "He said yes. ‖She said no. ‖They went home in the rain."),
        (9, "When the rain had stopped, ¦the children ran out of the house, ¦and they played until evening came."),
        (8, "One two three four five. ‖Six seven. Eight nine ten eleven twelve thirteen; ¦then fourteen and fifteen."),
        (8, "It is (as far as we know today) ¦the only one of its own kind."),
        (6, "He wrote: “We shall come, ¦all of us, before the winter” ¦– and they never came."),
        (6, "“I will not go,” she said, ¦“until you tell me why.” ‖He told her."),
        (7, "The tall thin man with the long ¦grey coat walked slowly along the wide ¦empty road without a word."),
        (6, "The first line is broken here\n¦but the sentence goes on then."),
        (4, "Things to buy:\n‖- milk and butter\n‖- bread and cheese\n‖- eggs"),
        (5, "Things to buy:\n‖1. milk and butter\n‖2. bread and cheese\n‖3. eggs from the farm"),
        (99, "The first paragraph is here. ‖It is short.¶The second paragraph is here.¶And the third one is the last."),
        (99, "The first page has a line.\f¶The second page has one."),
        (99, "A Heading Without a Stop¶The text begins here and goes on."),
        (99, "THE LONG TITLE OF THIS BOOK¶By An Unknown Author of Books¶It was a dark and stormy night."),
    ],
)  # fmt: skip
def test_sentences_are_packed_and_long_ones_cut_at_clauses_then_words(most_words: int, row: str) -> None:
    text, expected = read(row)

    chunks = split(text, words, max_tokens=most_words, max_seconds=60, language="en")

    assert [(chunk.text, chunk.ending) for chunk in chunks] == expected


@pytest.mark.parametrize(
    "row",
    [
        "The harbour lay still at last. ‖Nobody was there to see it. A bell rang. It was late.",
        "Oh. No. ‖Never. He said that nobody had seen it there. But who knows it now?",
        "Chapter one.¶The harbour lay still at last. Nobody was there to see it. A bell rang far out.",
        "The harbour lay still at last. Yes.",
        "The harbour lay still at last. ‖Nobody was there. Yes.",
        "The harbour lay still at last and nobody was there to see it.",
    ],
)
def test_the_first_sentence_is_a_chunk_of_its_own_unless_it_is_very_short(row: str) -> None:
    text, expected = read(row)

    chunks = split(text, words, max_tokens=99, max_seconds=60, language="en")

    assert [(chunk.text, chunk.ending) for chunk in chunks] == expected


@pytest.mark.parametrize("before", ["One.", "Yes.\n\nNo."])
def test_very_short_paragraphs_are_joined_until_they_are_long_enough_to_be_heard_first(before: str) -> None:
    text = f"{before}\n\nThe harbour lay still at last. Nobody was there to see it."

    first, second = split(text, words, max_tokens=99, max_seconds=60, language="en")

    assert first.text.endswith("The harbour lay still at last." if before == "One." else "No.")
    assert second.text.endswith("Nobody was there to see it.")


@pytest.mark.parametrize(
    ("language", "most_letters", "row"),
    [
        ("zh", 16, "今天天气很好，我们去公园散步，¦孩子们在草地上跑来跑去，¦大家都很高兴。明天会下雨。"),
        ("zh", 16, "我们明天早上八点在学校门口见面。‖请不要迟到。"),
        ("ja", 20, "今日はとても寒いので、¦家に帰って、温かいお茶を飲みながら、¦本を読みます。明日は晴れます。"),
        ("ko", 14, "오늘은 날씨가 춥습니다. ‖집에서 책을 읽겠습니다."),
        ("hi", 22, "वह सुबह बहुत जल्दी उठा, ¦और फिर वह बाज़ार गया। ‖दुकान आज बंद थी भाई।"),
        ("de", 30, "Als der Regen aufgehört hatte, ¦liefen die Kinder aus dem Haus. ‖Es war schön."),
        ("ru", 30, "Когда дождь закончился, ¦дети выбежали из старого дома. ‖Было тепло."),
        ("de", 20, "Donaudampfschifffahr¦tsgesellschaftskapit¦än"),
        ("en", 12, "read-only-¦file-system-¦call"),
    ],
)
def test_letters_count_where_words_are_not_apart(language: str, most_letters: int, row: str) -> None:
    """A counter of letters without blanks; the limit on seconds is out of the way."""
    text, expected = read(row)

    chunks = split(
        text, lambda part: len("".join(part.split())), max_tokens=most_letters, max_seconds=60, language=language
    )

    assert [(chunk.text, chunk.ending) for chunk in chunks] == expected


@pytest.mark.parametrize(
    "text",
    [
        "Yes. The old man walked slowly along the road.",
        "The old man walked slowly along the road. No.",
        "Yes.\n\nThe old man walked slowly along the road.\n\nNo.",
        "“Oh!”\n\n“Ah.”\n\n“Mm.”",
        "1.\n\nThe old man walked slowly.",
    ],
)
def test_what_is_too_short_to_be_spoken_alone_joins_its_neighbour(text: str) -> None:
    (chunk,) = split(text, words, language="en")

    assert (chunk.text, chunk.ending) == (text, "paragraph")


def test_where_both_do_not_fit_the_neighbour_gives_a_sentence() -> None:
    long, other = "The old man walked slowly along the road.", "Then he sat down."
    text = f"No.\n\n{long} {other}"

    chunks = split(text, words, max_tokens=12, language="en")

    assert [chunk.text for chunk in chunks] == [f"No.\n\n{long}", other]
    assert all(chunk.estimated_seconds * 1000 >= SHORT for chunk in chunks)


@pytest.mark.parametrize(
    ("text", "chunks"),
    [
        # a short sentence stays alone where the one before it has no clause to give
        (
            "Every one of the old men walked slowly on. They sat.",
            ["Every one of the old men walked slowly on.", "They sat."],
        ),
        # a very short one takes words
        ("Every one of the old men walked slowly on. No.", ["Every one of the old men walked slowly", "on. No."]),
    ],
)
def test_only_for_what_is_very_short_a_neighbour_is_cut_between_words(text: str, chunks: list[str]) -> None:
    assert [chunk.text for chunk in split(text, words, max_tokens=9, language="en")] == chunks


def test_the_limit_on_seconds_cuts_too() -> None:
    text = "Well then, my friend, go. Come back soon, my dear old friend."

    chunks = split(text, words, max_seconds=3.5, language="en")

    assert [chunk.text for chunk in chunks] == ["Well then, my friend, go.", "Come back soon, my dear old friend."]


@pytest.mark.parametrize("before", ["", "He said: ", "“", "half-", "a,b,"])
@pytest.mark.parametrize(("letters", "cut"), [(100, []), (101, [1]), (250, [100, 50])])
def test_a_word_is_cut_after_a_hundred_letters_whatever_stands_before_it(
    before: str, letters: int, cut: list[int]
) -> None:
    chunks = split(f"{before}{'x' * letters}.", len, max_tokens=1000, max_seconds=1000, language="en")

    assert [chunk.text.count("x") for chunk in chunks] == [min(letters, 100), *cut]


def test_an_address_stays_whole_where_it_fits_and_is_cut_at_its_joints_where_not() -> None:
    text = "https://example.com/a/very/long/path?with=many&parts=inside"

    whole = split(text, len, max_tokens=60, language="en")
    parts = split(text, len, max_tokens=30, max_seconds=60, language="en")

    assert [chunk.text for chunk in whole] == [text]
    assert [chunk.text for chunk in parts] == ["https://example.com/a/very/", "long/path?with=many&parts=", "inside"]


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("", "en", 0),
        (" \n\t", "en", 0),
        ("a", "en", 80),
        ("A", "en", 80),
        ("12", "en", 700),
        ("€", "en", 350),
        ("a.", "en", 80 + 350),
        ("a?!...", "en", 80 + 350),
        ("a, b", "en", 160 + 150),
        ("(“a”)", "en", 80),
        ("中文", "zh", 440),
        ("中文", "ja", 600),
        ("かな", "ja", 300),
        ("한국", "ko", 360),
        ("中。", "zh", 220 + 350),
        ("e\u0301", "en", 80),
        ("é", "en", 80),
    ],
)
def test_the_estimate_adds_letters_figures_and_pauses(text: str, language: str, expected: int) -> None:
    assert milliseconds(text, language)[-1] == expected


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "The quick brown fox jumps over the lazy dog near the old river bank."),
        ("de", "Der schnelle braune Fuchs springt über den faulen Hund am alten Fluss."),
        ("ru", "Быстрая коричневая лиса прыгает через ленивую собаку у старой реки."),
        ("hi", "तेज़ भूरी लोमड़ी पुरानी नदी के पास आलसी कुत्ते के ऊपर कूदती है।"),
        ("zh", "敏捷的棕色狐狸在古老的河边跳过了那只懒狗。"),
        ("ja", "素早い茶色の狐が古い川のそばで怠け者の犬を飛び越える。"),
        ("ko", "빠른 갈색 여우가 오래된 강가에서 게으른 개를 뛰어넘는다."),
    ],
)
def test_one_sentence_is_estimated_alike_in_every_language(language: str, text: str) -> None:
    """A reader takes about five seconds for each of these translations."""
    assert 3_000 < milliseconds(text, language)[-1] < 8_000


@pytest.mark.timeout(60)  # seconds; a search that starts again at each character takes an hour
@pytest.mark.parametrize("run", [" ", ")", "»", ',"', "\n"])
def test_one_character_over_and_over_takes_no_longer_than_a_text(run: str) -> None:
    text = f"a{run * 100_000}b"
    assert clauses(text, 0, len(text))[-1] == len(text)
