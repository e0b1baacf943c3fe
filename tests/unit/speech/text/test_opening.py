"""Opening clause of a long first sentence: ¦ stands where the sentence is cut, ‖ where the first sentence ends."""

from __future__ import annotations

import re

import numpy as np
import pytest
from frontends import TonesFrontend
from hypothesis import given, settings
from hypothesis import strategies as st
from joined import join

from voxyard.speech.audio.joining import Pauses
from voxyard.speech.reading.lexicon import of_mapping
from voxyard.speech.reading.options import READING
from voxyard.speech.requests import SAMPLE_RATE, Result
from voxyard.speech.script import prepare_script
from voxyard.speech.text.boundaries import OPENING_SECONDS, SHORTEST_PART, opening_cut
from voxyard.speech.text.chunks import MAX_SECONDS, TextChunk, milliseconds, split

CUT = [
    ("en", "When the rain had stopped at last, ¦the children ran out and played until evening. ‖It was late."),
    ("en", "The old ship was lost; ¦nobody in the harbour had seen it since the first storm. ‖So it was then."),
    ("en", "This is what they found there: ¦a lamp, a letter and the key of a house by the sea."),
    ("en", "The old man stood on the last step — ¦and the sea was quiet for the first time in weeks."),
    ("en", "The ship (which was already very old) ¦sailed from the harbour without its captain."),
    ("en", "The lamp on the wall (old, blue) ¦was lit every evening until the winter came to an end."),
    ("en", "Oh. When the rain had stopped, ¦the children ran out of the house and played. ‖It was late."),
    ("en", "“I will certainly not go there today,” ¦she said, “until you tell me why.” ‖He told her."),
    ("en", "The first line is broken here\nand goes on, ¦so that nothing but the comma is the end of a clause."),
    ("en", "In that house lived Anna, Ben and Carl, ¦whom nobody there had seen again, and the lamp was lit."),
    ("en", "They opened the house on Monday, March third, ¦when the rain had stopped, and so they went there."),
    ("en", "On one of these days it was very cold, ¦one of the men said to the others in the house."),
    ("de", "Als der eine von ihnen endlich gegangen war, ¦einer der letzten Männer, kam das Schiff zurück."),
    ("ja", "去年の冬まで太郎、次郎、三郎がその家に住んでいて、¦みんなが毎晩そこで本を読みました。"),
    ("de", "»Ich werde heute ganz sicher nicht dorthin gehen«, ¦sagte die alte Frau am Fenster."),
    ("de", "„Ich werde heute ganz sicher nicht dorthin gehen“, ¦sagte die alte Frau am Fenster."),
    ("de", "›Ich werde heute ganz sicher nicht dorthin gehen‹, ¦sagte die alte Frau am Fenster."),
    ("de", "‚Ich werde heute ganz sicher nicht dorthin gehen‘, ¦sagte die alte Frau am Fenster."),
    ("fr", "« Je n’irai certainement pas là-bas », ¦dit la vieille dame qui était assise à la fenêtre."),
    ("en", "The old man always said 'well, well', ¦which made all of us laugh at him in the end."),
    ("de", "Er rief in das Zimmer: ›Nein, danke‹, ¦und dann ging er wieder hinaus zu den anderen."),
    ("en", "The men don't know what they can't find, ¦and the dogs' house wasn't opened until the evening."),
    ("en", "He said in the end 'no, thanks' to all of them, ¦and nobody asked him for the lamp again."),
    ("en", "The ship (which, as we know, was very old, and had been so for many years) ¦sailed away at last."),
    ("en", "The lamp on the wall of a) the old house by the sea, ¦and b) the harbour was lit every evening."),
    ("de", "Als der Regen endlich aufgehört hatte, ¦liefen die Kinder aus dem Haus und spielten. ‖Es war schon spät."),
    ("es", "Cuando por fin dejó de llover, ¦los niños salieron de la casa y jugaron hasta la noche."),
    ("fr", "Voici ce qu’ils trouvèrent ce jour-là : ¦une lampe, une lettre et la clef d’une maison."),
    ("it", "Quando finalmente smise di piovere, ¦i bambini corsero fuori e giocarono fino a sera."),
    ("pl", "Kiedy deszcz wreszcie przestał padać, ¦dzieci wybiegły z domu i bawiły się do wieczora."),
    ("pt", "Quando a chuva finalmente parou, ¦as crianças saíram de casa e brincaram até à noite."),
    ("ru", "— Я никуда сегодня не пойду, — ¦сказал он и посмотрел на старые часы над дверью."),
    ("tr", "Yağmur sonunda durduğu zaman, ¦çocuklar evden dışarı koştular ve akşama kadar oynadılar."),
    ("ko", "비가 마침내 그치자마자, ¦아이들은 집 밖으로 뛰어나가 저녁이 될 때까지 놀았습니다."),
    ("ja", "今日はとても寒いので、¦家に帰って、温かいお茶を飲みながら、本を読みます。‖明日は晴れます。"),
    ("zh", "今天早上的天气特别好，¦孩子们在草地上跑来跑去，大家都很高兴。‖明天会下雨。"),
    ("hi", "वह सुबह बहुत जल्दी उठ गया था, ¦और फिर वह बाज़ार की ओर चला गया। ‖दुकान आज बंद थी भाई।"),
    ("ar", "عندما توقف المطر أخيرا في المساء، ¦خرج الأطفال من البيت ولعبوا حتى جاء الليل."),
    (None, "عندما توقف المطر أخيرا في المساء، ¦خرج الأطفال من البيت ولعبوا حتى جاء الليل."),
]
WHOLE = [
    ("no boundary", "en", "The lighthouse keeper counted the steps every evening and every morning of the year."),
    ("a line break", "en", "The first line of the page is broken here\nand the sentence goes on to the next one."),
    ("first part short", "en", "Well, the children ran out of the house and played in the garden until evening came."),
    ("rest short", "en", "The children ran out of the house and played in the garden until evening came, too."),
    ("short sentence", "en", "When the rain had stopped, the children came."),
    ("numbers", "en", "There were between ten and at most 12, 14 or sixteen ships in the harbour that winter."),
    ("a range", "en", "The house was built in the years from 1910 – 1914 by the people of the village below."),
    ("amounts", "en", "The bill for that evening came to at least $ 10, $ 12 or so for each and every guest."),
    ("digits without blanks", "zh", "今年来到这个港口的船一共有3，000多艘而且没有人认真地数过它们。"),
    ("numerals", "zh", "今年来到这个港口的大船一共有三、四十艘而且没有人认真地数过它们。"),
    ("an abbreviation", "en", "The museum keeps the tools of that time e.g., the hammers of the first settlers."),
    ("a quoted phrase", "en", "The oldest of all the men said “well, well” when the ship came back to the harbour."),
    ("a quoted mark", "en", "The sign that they use most of the time is “,” which stands between the parts of a list."),
    ("a straight quoted mark", "en", 'The sign that they use most of the time is ",;" which parts a list.'),
    ("quoted in German", "de", "Der älteste aller Männer sagte „nun, nun“ als das Schiff in den Hafen zurückkehrte."),
    ("quoted in French", "fr", "Le plus vieux des hommes a dit « ah, bon » quand le bateau est revenu dans le port."),
    ("quoted in Japanese", "ja", "港で一番年を取った人は「さあ、さあ」と大きな声でみんなに言いました。"),
    ("quoted with apostrophes", "en", "The oldest of the men in the harbour said 'no, don't, please' to each of them."),
    ("curved apostrophes", "en", "The oldest of the men in the harbour said ‘no, don’t, no’ to each of them."),
    ("in ‚‘", "de", "Der älteste aller Männer sagte ‚nun, nun‘ als das Schiff in den Hafen zurückkehrte."),
    ("in ‚’", "de", "Der älteste aller Männer sagte ‚nun, nun’ als das Schiff in den Hafen zurückkehrte."),
    ("in ›‹", "de", "Der älteste aller Männer sagte ›nun, nun‹ als das Schiff in den Hafen zurückkehrte."),
    ("in ‹›", "fr", "Le plus vieux des hommes a dit ‹ ah, bon › quand le bateau est revenu dans le port."),
    ("a mark quoted in German", "de", "Das Zeichen, das man dafür »,« nennt und das alle kennen steht in jeder Liste."),
    ("a long bracket", "en", "The ship had sailed (as everybody knew, for years, in every harbour of that coast)."),
    ("a square bracket", "en", "The ship had sailed [as everybody knew, for years, in every harbour of that coast]."),
    ("a curly bracket", "en", "The ship had sailed {as everybody knew, for years, in every harbour of that coast}."),
    ("wide", "ja", "古い船は（みんなが知っていたとおり、何年も前から、あの海岸のどの港でも）なくなりました。"),
    ("a wide square bracket", "zh", "那条旧船［大家都知道的那样，很多年以前，在那片海岸的每个港口］消失了。"),
    ("a bracket in a bracket", "en", "The ship had sailed (as we knew (the men, that is), and in every harbour, too)."),
    ("number words", "en", "One million, two hundred thousand, three hundred and twelve people lived there."),
    ("German number words", "de", "In dem Haus am Hafen wohnten zwölftausend, dreizehntausendfünfhundert oder mehr."),
    ("number words in Korean", "ko", "오래된 항구의 그 집에는 사람들이 아마도 이십, 삼십 명이 함께 살고 있었습니다."),
    ("number words in Hindi", "hi", "पुराने बंदरगाह के उस बड़े से घर में शायद बीस, तीस लोग साथ में रहते थे।"),
    ("a company", "en", "In the old house by the harbour Smith & Sons, Ltd., of London had kept its books."),
    ("a company's form", "en", "In the old house by the harbour Acme Corporation, Inc. had kept its books for years."),
    ("a senior", "en", "In the old house by the harbour Joseph Kennedy, Sr. had kept all of his old books."),
    ("degrees", "en", "In the old house by the harbour Hans Andersen, M.D., Ph.D., had kept all of his books."),
    ("a district", "en", "In the old house by the harbour of Washington, D.C., they kept all of the old books."),
    ("initials", "en", "In the old house by the harbour they kept the books of Tolkien, J. R. R. and others."),
    ("a date", "en", "They had opened the old house by the harbour on Monday, March third for the last time."),
    ("an article", "en", "They had opened the old house by the harbour on Monday, the third of March."),
    ("a German date", "de", "Das alte Haus am Hafen wurde noch einmal am Montag, dem dritten März geöffnet."),
    ("a year, spoken", "en", "They had opened the old house by the harbour on March third, twenty twenty-four."),
    ("a date in Japanese", "ja", "古い港の家が最後に開かれたのは５月３日、月曜日のとても寒い朝のことでした。"),
    ("a date in Chinese", "zh", "那座港口边上的老房子最后一次打开是在五月三日，星期一的早上八点钟左右。"),
    ("a date in Korean", "ko", "오래된 항구의 그 집이 마지막으로 열린 날은 5월 3일, 월요일 아침이었습니다."),
    ("a date in Arabic", "ar", "فتحوا البيت القديم في الميناء آخر مرة في ٣ مايو، ٢٠٢٤ أمام كل الناس."),
    ("days", "en", "The old house by the harbour of the town is open Monday – Friday for everybody."),
    ("a route", "de", "Die alte Strecke an der Küste entlang von Hamburg – Berlin wird heute nicht befahren."),
    ("kings", "en", "In the old house by the harbour they kept Louis XIV, XV and XVI, kings of France."),
    ("names", "en", "In the old house by the harbour lived Anna, Ben, Carl, and Dora, whom nobody knew."),
    ("numbers of a list", "en", "In the old house by the harbour lived twenty, thirty or even forty of these men."),
    ("names in Japanese", "ja", "古い港の家に去年の冬まで一緒に住んでいたのは太郎、次郎、三郎でした。"),
    ("things in Chinese", "zh", "在港口边上的老房子里一直到去年冬天还放着苹果、香蕉、葡萄和很多旧书。"),
    ("names in Arabic", "ar", "في البيت القديم في الميناء عاش حتى الشتاء الماضي أحمد، محمد وعلي مع الناس."),
    ("a bracketed word", "en", "The names of the old file(s) in the far corner of the room were read by nobody."),
    ("a year", "en", "The second book of the same author (1999) was read by nobody until the end of the winter."),
    ("in a short bracket", "en", "The lamp on the wall of the house (old, blue) was lit in winter."),
    ("a tag", "en", "He came slowly up the stairs [sighs, laughs] and said that nobody would go there again."),
    ("a tag's end", "en", "He came slowly up the stairs [clears throat] and said that nobody would go there again."),
]  # fmt: skip


def words(text: str) -> int:
    return len(text.split())


def pieces(chunks: tuple[TextChunk, ...]) -> list[tuple[str, str]]:
    return [(chunk.text, chunk.ending) for chunk in chunks]


@pytest.mark.parametrize(("language", "row"), CUT)
def test_a_long_first_sentence_is_cut_after_its_opening_clause(language: str | None, row: str) -> None:
    first, rest, *others = (part.strip() for part in re.split("[¦‖]", row))

    chunks = split(row.replace("¦", "").replace("‖", ""), words, language=language)

    assert pieces(chunks[:2]) == [(first, "clause"), (rest, "sentence" if others else "paragraph")]
    assert [chunk.text for chunk in chunks[2:]] == others
    assert min(chunk.estimated_seconds for chunk in chunks[:2]) * 1000 >= SHORTEST_PART


@pytest.mark.parametrize(("language", "text"), [row[1:] for row in WHOLE], ids=[row[0] for row in WHOLE])
def test_a_first_sentence_without_a_place_to_cut_stays_whole(language: str, text: str) -> None:
    (chunk,) = split(text, words, language=language)

    assert chunk.text == text


def test_only_the_first_sentence_is_cut() -> None:
    sentence = "When the rain had stopped at last, the children ran out of the house and played."

    chunks = split(f"{sentence} {sentence}\n\n{sentence}", words, language="en")
    (uncut,) = split(sentence, words, language="en", opening=False)

    assert [chunk.ending for chunk in chunks] == ["clause", "sentence", "paragraph", "paragraph"]
    assert [chunk.text for chunk in chunks[2:]] == [sentence, sentence] == [uncut.text, uncut.text]


@pytest.mark.parametrize("before", ["", "Oh. "])
def test_a_first_sentence_longer_than_a_chunk_is_cut_after_its_opening_clause_too(before: str) -> None:
    clause = "and then the children ran out of the house by the sea"
    text = f"{before}When the rain had stopped at last, {', '.join([clause] * 6)}. It was late."

    first, *others = split(text, words, language="en")

    assert (first.text, first.ending) == (f"{before}When the rain had stopped at last,", "clause")
    assert " ".join([first.text, *(each.text for each in others)]) == text
    assert others[0].estimated_seconds > MAX_SECONDS / 2
    assert [each.ending for each in others] == ["clause", "paragraph"]


def test_an_opening_clause_that_is_no_chunk_is_no_reason_to_cut() -> None:
    text = "The children who had waited for the end of the rain ran out, and then they played until evening came."

    chunks = split(text, words, language="en", max_tokens=8)

    assert chunks[0].text == "The children who had waited for the end"


@pytest.mark.parametrize("language", ["ca", "kn", "ro", "vi", "ur", "xx"])
def test_a_language_whose_numbers_are_not_all_known_is_cut_all_the_same(language: str) -> None:
    text = "When the rain had stopped at last, the children ran out of the house and played."

    chunks = split(text, words, language=language)

    assert [chunk.ending for chunk in chunks] == ["clause", "paragraph"]


MARKS = [*"“”\"'‘’‚‹›«»()[]{}（）…$，、。；，،।—–", ", ", "; ", ": ", " – ", ". ", " (as we all know) ", "\n", "\n\n"]
WORDS = [
    "J.",
    "May",
    "two",
    "五月",
    "太郎",
    "rain",
    "the children",
    "and",
    "12",
    "000",
    "e.g.",
    "雨",
    "こども",
    "पानी",
    "مطر",
]
texts = st.lists(st.sampled_from([*MARKS, *WORDS, *WORDS]), max_size=80).map(" ".join)
languages = st.sampled_from([None, "en", "de", "ja", "zh", "hi", "ar", "ru"])


@settings(max_examples=300, deadline=None)
@given(texts, languages, st.integers(6, 200))
def test_no_word_is_lost_or_moved(text: str, language: str | None, max_tokens: int) -> None:
    chunks = split(text, words, language=language, max_tokens=max_tokens)

    assert "".join(re.sub(r"\s", "", chunk.text) for chunk in chunks) == re.sub(r"\s", "", text)
    assert [chunk.start for chunk in chunks] == sorted(chunk.start for chunk in chunks)
    assert all(chunk.tokens <= max_tokens and chunk.estimated_seconds <= MAX_SECONDS for chunk in chunks)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(texts, languages, st.lists(st.integers(0, 300), max_size=12, unique=True))
def test_both_parts_are_long_enough_and_no_unit_is_parted(text: str, language: str | None, ends: list[int]) -> None:
    sums = milliseconds(text, language)
    bounds = sorted(at for at in ends if at < len(text))
    units = list(zip(bounds[::2], bounds[1::2], strict=False))

    def length(start: int, end: int) -> int:
        return sums[end] - sums[start]

    cut = opening_cut(text, (0, len(text)), length, lambda *_: True, units)

    if cut is not None:
        assert length(0, len(text)) > OPENING_SECONDS * 1000
        assert min(length(0, cut), length(cut, len(text))) >= SHORTEST_PART
        assert not any(text[start:cut].strip() and text[cut:end].strip() for start, end in units if start < cut < end)


LONG = "which everybody here had waited for"


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["the rain", "a 12", LONG]), st.sampled_from([", ", "; ", " – ", " "])),
        min_size=2,
        max_size=8,
    )
)
def test_a_sentence_is_cut_in_two_at_a_mark_or_not_at_all(parts: list[tuple[str, str]]) -> None:
    text = f"It was {''.join(word + mark for word, mark in parts)}in the end."

    chunks = split(text, words, language="en")

    if (seconds := sum(chunk.estimated_seconds for chunk in chunks)) <= OPENING_SECONDS:
        assert len(chunks) == 1
    elif len(chunks) > 1 and seconds <= MAX_SECONDS:  # a longer one is cut for the engine too
        first, second = chunks
        assert first.text[-1] in ",;–"
        assert min(first.estimated_seconds, second.estimated_seconds) * 1000 >= SHORTEST_PART


@pytest.mark.parametrize("numbers", ["12, 14", "12 – 14", "$1,200, $1,400", "5 km, 7 km"])
def test_words_of_numbers_stay_together(numbers: str) -> None:
    text = f"From the end of that winter on {numbers} of these were seen by everybody in the harbour."

    script = prepare_script(text, TonesFrontend(max_tokens=64), voice=None, seed=0, language="en")

    assert [each.text for each in script.chunks] == [text]
    assert not any(letter.isdigit() for letter in script.requests[0].text)


@pytest.mark.parametrize(
    "text",
    [
        "In the long winter XYZ came in and left the harbour again.",
        '<speak>In the long winter <sub alias="a ship, a boat, a raft and a canoe">XYZ</sub> came in and left.</speak>',
    ],
)
def test_words_that_the_author_has_chosen_stay_together(text: str) -> None:
    reading = READING.changed(lexicon=of_mapping({"XYZ": "a ship, a boat, a raft and a canoe"}))

    (request,) = prepare_script(
        text, TonesFrontend(max_tokens=64), voice=None, seed=0, language="en", reading=reading
    ).requests

    assert "a ship, a boat, a raft and a canoe came in" in request.text


def test_beside_words_that_stay_together_the_sentence_is_cut() -> None:
    text = "In that one winter 1234567 ships came in, and all of them left the harbour again. [pause 1s] So it was."

    script = prepare_script(text, TonesFrontend(max_tokens=64), voice=None, seed=0, language="en")

    assert [each.text for each in script.chunks] == [
        "In that one winter 1234567 ships came in,",
        "and all of them left the harbour again.",
        "So it was.",
    ]
    assert [each.joint for each in script.chunks] == ["clause", 1.0, "paragraph"]
    assert all(text[each.start : each.end] == each.text for each in script.chunks)


def test_between_the_parts_is_the_pause_of_a_clause() -> None:
    text = "When the rain had stopped at last, the children ran out of the house and played."
    chunks = split(text, words, language="en")
    pauses = Pauses()

    tone = np.full(SAMPLE_RATE, 0.5, np.float32)
    one, two = join([(Result(chunk.index, tone), chunk.joint) for chunk in chunks], pauses)

    assert (two.start - one.end) / SAMPLE_RATE == pytest.approx(pauses.clause)
    assert pauses.clause < pauses.sentence


@pytest.mark.slow
@pytest.mark.timeout(60)  # seconds; a search that starts again at each mark takes an hour
@pytest.mark.parametrize("unit", ["(a, ", "“a, ", "[a, ", "a, ", ",", "1, ", "， ", '"a, '])
def test_marks_over_and_over_take_no_longer_than_a_text(unit: str) -> None:
    text = unit * 50_000
    chunks = split(text, lambda part: len(part) // 4, language="en")
    assert "".join("".join(chunk.text.split()) for chunk in chunks) == "".join(text.split())
