"""Russian figures and abbreviations by ru-normalizr, which knows the cases of their sentence: в пяти городах.

The library gets one sentence at a time, and what it says of figures, Roman numerals, signs and abbreviations is laid
back on the characters of the text; whatever else it changes stays as it is written.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import lru_cache
from typing import TYPE_CHECKING

from voxyard.speech.reading import chess
from voxyard.speech.reading.languages import LANGUAGES
from voxyard.speech.reading.markup import Edit
from voxyard.speech.reading.number_words import in_case, ordinal
from voxyard.speech.reading.patterns import BLANKS
from voxyard.speech.reading.russian_counts import in_words
from voxyard.speech.reading.russian_forms import GENITIVE_PRICE, in_full, is_one
from voxyard.speech.reading.tables import table

if TYPE_CHECKING:
    from ru_normalizr import Normalizer

LONGEST = 600  # characters that the library gets at a time
MOST_NUMBERS = 12  # of a sentence; of rows of a table, which have no cases, our own rules read more
_TOKEN = re.compile(r"\d+|[^\W\d_]+|\s+|.", re.DOTALL)
_END = re.compile(r"[!?…][\"»”)]*\s+|(?<![^\W_])(?P<word>[^\W_]+)[\"»”)]*\.[\"»”)]*\s+(?=[\"«„(—–-]*\s?[А-ЯЁ])|\n\s*")
_NO_END = re.compile(  # short words before whose full stop a sentence goes on, or may do so
    "(?:акад|вв?|гг?|ген|гл|доц|др?|зам|им|инж|кв?|коп|корп|лейт|м|мин|млн|млрд|н|напр|обл|ок|п|пер|пл|полк|пр|просп|проф|"
    "р|разд|рис|руб|с|св|см|ст|стр|т|табл|тел|тыс|ул|ч|чел|э)"
)
# с 9.00 до 18.30, but с 1.09, which is a day
_TIME = r"(?:(?<=[вВ]\s)(?:[01]?\d|2[0-4])\.[0-5]\d|(?:[01]?\d|2[0-4])\.(?:00|1[3-9]|[2-5]\d))(?![\w%]|[.,]\d)"
TIME_AFTER = rf"(?<![^\W_])(?i:с|со|к|ко|в|до|от|около|после)\s(?=\d){_TIME}"
_ADDRESS = re.compile(r"\S*(?:://|@|\bwww\.|\\)\S*")
PHONE = r"(?<![\w.,:/+-])(?:\+7|8)[ -]?\(?\d{3,5}\)?[ -]?\d{1,3}(?:[ -]?\d\d){2}(?![\w-])"
"""8 (495) 123-45-67, 8-800-555-35-35"""
# Times, cents, phone numbers and numbers from a million on are read by our own rules.
_OWN = re.compile(
    rf"\d:\d\d|{TIME_AFTER}|\d,\d\d\s?(?:евро|€|\$|долл)|(?<!\d)(?:\d[{BLANKS}]?){{7,}}|"
    rf"(?<![\d.,])\d{{1,3}}(?:[{BLANKS}]\d{{1,3}}){{3,}}|{PHONE}|"
    rf"[$€£¥₽][{BLANKS}]?[-−]\d[\d.,]*|[$€£¥₽][{BLANKS}]?\d[\d.,]*[{BLANKS}]?(?:тыс\.|млн|млрд|трлн)|"  # $1,2 млрд
    r"(?<!\w)(?i:код|пин|пин-код|пароль|индекс)\s?:?\s?\d{3,8}(?![\w.,]\d)|"
    r"[A-Za-z]{2,}\s\d{1,3}\.\d{1,2}(?![.,]?\d|\w)|\d/(?:tcp|udp)\b|"  # Python 3.10, 443/tcp
    r"(?<!\d)\d{1,2}['′’][0-5]\d[\"″”]|\d ?\*\* ?[-−]?\d"
)
_PHONE = re.compile(rf"(?:(?<!\w)(?:[Пп]о\s)?[Тт]ел\.?:?\s)?(?:{PHONE})")
_BLANK = re.compile(r"\s+")
_FIGURES = re.compile(r"[\d%‰№°$€£¥₽§½-¾]|\b[IVXLC]+\b")
_NUMBER = re.compile(r"\d+")
_SHORT = re.compile(r"(?<![^\W\d_])[^\W\d_]{1,6}\.")
_MAY_END = re.compile(r"\d|[IVXLC]|(?:д|п|др|пр|обл)\.$")  # ул. goes on with a name
_MORE = re.compile(r"\.\s?[,;:)]")
_TOWN = re.compile(r"[,;(]\s*г\.$")  # г. Москва
_JOINTS = frozenset(("", "-", ",", ".", "—", "–"))


def edits(text: str, start: int, end: int) -> list[Edit]:
    """Edits of a paragraph's characters [start, end) that put figures and abbreviations into words, in text order."""
    found = []
    for first, last in _sentences(text, start, end):
        sentence = text[first:last]
        if len(_NUMBER.findall(sentence)) > MOST_NUMBERS:
            continue
        if _FIGURES.search(sentence) or _SHORT.search(sentence):
            found += [Edit(first + edit.start, first + edit.end, edit.text) for edit in _aligned(sentence)]
    return found


def _sentences(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Spans that the library gets: sentences whose end is sure, cut at a blank where they are too long."""
    found_ends = _END.finditer(text, start, end)
    phones = [at for each in _PHONE.finditer(text, start, end) for at in each.span()]  # which we read, not the library
    ends = sorted(
        {*(each.end() for each in found_ends if not _NO_END.fullmatch((each["word"] or "").lower())), *phones, end}
    )
    found, at = [], start
    for last in ends:
        while last - at > LONGEST:
            blanks = [each.end() for each in _BLANK.finditer(text, at, at + LONGEST)]
            cut = blanks[-1] if blanks else at + LONGEST
            found.append((at, cut))
            at = cut
        if last > at:
            found.append((at, last))
        at = last
    return found


_PARTS = {"1/2": "половина", "1/3": "одна треть", "2/3": "две трети", "1/4": "одна четверть", "3/4": "три четверти"}
_QUEENS = "Екатерина|Елизавета|Мария|Анна|Виктория|Маргарита|Маргрете|Изабелла|Кристина"
_OF_QUEENS = {"I": "первая", "II": "вторая", "III": "третья", "IV": "четвёртая"}
_OF_PARTS = {"I": "первый", "II": "второй", "III": "третий", "IV": "четвёртый", "V": "пятый"}
_FULL = (
    (r"(?<!\w)за\sкв\.\s?м\.?(?!\w)", "за квадратный метр"),
    # the ending of the genitive tells the gender
    (r"(?<![\d.,/-])1(?: 1/2| ?½)(?=\s[а-яё]+[иы](?!\w))", "полторы"),
    (r"(?<![\d.,/-])(\d{1,2}) 1/2(?=\s[а-яё])", r"\1½"),
    *((rf"(?<!\w)({_QUEENS})\s{roman}(?![\w-])", rf"\1 {words}") for roman, words in _OF_QUEENS.items()),
    *((rf"(?<![\w.,/]){part}(?=\sлюдей\b)", words) for part, words in _PARTS.items()),
    (r"(?<![\w.,/])(?<!\d )(?<!\b[КкСс] )3/4(?=\s[а-яё])", "три четверти"),
    (r"\b24/7\b", "24 на 7"),
    (r"(?<![\w.,])([3-9]\d{2}[05-9])\s?г(?![\w.])", r"\1 граммов"),
    (r"(?<=\d )г\.\s?в\.(?!\w)", "года выпуска"),
    (
        r"(?<![\w.,\"„“«/–-])(\d{1,2})\s?[\"″”](?=\s(?:экран|монитор|ноутбук|дисплей|телевизор|планшет|смартфон|диск)(?!\w))",
        r"\1-дюймовый",
    ),
    (r"(?<![\w.,\"„“«/–-])(\d{1,3})\s?[\"″”](?!\w)", r"\1 дюймов"),
    (r"(?<![\w.,\"„“«/–-])(\d{1,3},\d{1,2})\s?[\"″”](?!\w)", r"\1 дюйма"),
    (r"(?<=\d) : (?=\d+(?:,\d+)? ?=)", " разделить на "),
    (r"(?<=\bна )пр\.\s(?=[А-ЯЁ][а-яё])", "проспекте "),
    (r"(?<![\w.])([Пп])р\.\s(?=[А-ЯЁ][а-яё])", r"\1роспект "),
    *((rf"(?<!\w)(Акт|Раздел|Параграф|Пункт)\s{roman}(?![\w-])", rf"\1 {words}") for roman, words in _OF_PARTS.items()),
    *(
        (rf"(?<={digits}\s)л\.\s?с\.(?=\s?[(,;])", words)
        for digits, words in (("[05-9]", "лошадиных сил"), (r"1\d", "лошадиных сил"), ("[2-4]", "лошадиные силы"))
    ),
    (r"(?<!\w)([Мм])акс\.(?=\s\d)", r"\1аксимум"),
    (r"(?<!\w)([Вв]) теч\.", r"\1 течение"),
    (r"(?<![\w.,])([2-4])\s?р\.\s?(?:/|в\s)(?=(?:день|сутки|сут\.|неделю|нед\.)(?!\w))", r"\1 раза в "),
    (r"(?<![\w.,])([15-9])\s?р\.\s?(?:/|в\s)(?=(?:день|сутки|сут\.|неделю|нед\.)(?!\w))", r"\1 раз в "),
    (r"(?<=\d раза в )сут\.|(?<=\d раз в )сут\.", "сутки"),
    (r"(?<=\d раза в )нед\.|(?<=\d раз в )нед\.", "неделю"),
    (r"(?<!\d\s)(?<!\d)\b([Чч])\.\s?(?=\d)", r"\1асть "),
    (r"\b([Тт])\.\s?(?=\d)", r"\1ом "),
    # the second floor, for two floors stand in the genitive
    (r"(?<![\d.,-])(\d{0,2}(?:[02-9]|11))(?=\s(?:этаж|подъезд|класс|курс|сезон|раунд|тур)(?!\w))", r"\1-й"),
    (r"(?<=\d)\s?с(?=[.,;)]|$)|(?<=\d,\d)\sс(?=\sи\s)|(?<=\d,\d\d)\sс(?=\sи\s)", " сек"),
    (r"(?<=\b[Нн]а )1\s?(?:кв\.\s?м|м²)(?!\w)", "один квадратный метр"),
    (r"(?<=[оыие]й )обл\.(?!\w)", "области"),
    (r"(?<=ую )обл\.(?!\w)", "область"),
    (r"\b([Пп])о тел\.(?=\s?[:\d+(])", r"\1о телефону"),
    (r"\b([Тт])ел\.(?=\s?[:\d+(])", r"\1елефон"),
)
_PRICES = r"₽|руб\.?|р\.|коп\.?|€|\$|долл\.?|евро"
_MONTHS = (
    "января", "февраля", "марта", "апреля", "мая", "июня", "июля", "августа", "сентября", "октября", "ноября", "декабря"
)  # fmt: skip
_DAYS_OF_WEEK = "пн|вт|ср|чт|пт|сб|вс"
_DAY_OF_MONTH = re.compile(  # 24.12 в 18 ч, пт, 24.12, 24.12 (пт)
    rf"(?<![\w.,:/-])(?P<day>0?[1-9]|[12]\d|3[01])\.(?P<month>0[1-9]|1[0-2])(?=\s(?:в|к|с)\s\d{{1,2}}(?:[:.]\d\d|\s?ч)|"
    rf"\s?\((?:{_DAYS_OF_WEEK})\))|(?<=(?<!\w)(?:{_DAYS_OF_WEEK}),\s)(?P<d>\d{{1,2}})\.(?P<m>0[1-9]|1[0-2])(?![\w.,]\d)|"
    r"(?:(?<=\bдо\s)|(?<=\bот\s)|(?<=\bк\s))(?P<until>[12]?\d|3[01])\.(?P<of>0[1-9]|1[0-2])(?![\w.,]\d|\s?[%₽]|\s(?:руб|тыс|мл|проц|балл|кг|км|м\b))"
)
_BOOKED = re.compile(rf"\b[Нн]а (?:{_DAYS_OF_WEEK}),\s$")  # запись на чт, 12.03
_JUBILEE = re.compile(r"(?<![\w.,-])(\d{1,4})-(лети[еяюий]м?)(?!\w)")


def _normalized(sentence: str) -> str:
    """What the library says of a sentence in which short forms that it takes for others are written in full."""
    sentence = in_full(in_words(sentence))
    for pattern, full in _FULL:
        sentence = re.sub(pattern, full, sentence)
    sentence = _DAY_OF_MONTH.sub(_day_of_month, sentence)
    sentence = _GRAMS.sub(_grams, _per().sub(_per_words, sentence))
    sentence = _JUBILEE.sub(
        lambda found: _normalizer().normalize(f"{found[1]}-летний").removesuffix("летний") + found[2], sentence
    )
    # after these the genitive stands without a preposition, by which the library tells a case
    mark = next((each for each in _MARKS if each not in sentence.lower()), None)
    marked = sentence if mark is None else _genitive().sub(rf"\g<0>{mark} ", sentence)
    if priced := _NOMINATIVE not in sentence:
        marked = _FOR_PEOPLE.sub(rf"\g<0>{_NOMINATIVE} ", _PRICE.sub(rf"\g<0>{_NOMINATIVE} ", marked))
    if equal := _DATIVE not in sentence.lower():
        marked = _EQUAL.sub(rf"\g<0>{_DATIVE} ", marked)
    said = _normalizer().normalize(marked)
    said = re.sub(r"\bнол(?=(?:я|ю|ём|е)\b)", "нул", said)
    said = re.sub(r"(?<!\w)([СсКк])(?= (?:ста\b|сто(?:тысяч|лет|процент|метр)))", r"\1о", said)
    said = re.sub(r"(?<!\w)([Оо])(?= одн(?:ой|ом|их)\b)", r"\1б", said)
    if marked == sentence:
        return said
    said = re.sub(rf"(?<={_NOMINATIVE} )((?:[а-яё]+ ){{0,3}})одну тысячу", r"\1одна тысяча", said)
    return re.sub(rf"\b(?:{mark}{f'|{_NOMINATIVE}' * priced}{f'|{_DATIVE}' * equal}) ", "", said)


_MARKS = ("около", "возле", "вокруг")  # prepositions of the genitive
_NOMINATIVE = "составляет"
_DATIVE = "вопреки"
_EQUAL = re.compile(r"(?<!\w)(?i:рав(?:ен|н[аоы]|няется))\s(?=\d+(?![\d.,:/–-]))")  # высота равна 1000 метров
_PRICE = re.compile(  # цена 99 коп., which the library takes for a genitive
    rf"(?<!\w)(?i:цена|стоимость|тариф|оклад|зарплата|плата|сумма|выручка)\s(?=\d[\d{BLANKS}]*(?:,\d+)?(?:[–-]\d+)?\s?(?:{_PRICES}|тыс|мл))|"
    # скорость ветра 5–7 м/с, whose second noun is a genitive and the figures are none
    r"(?<!\w)(?i:скорость|температура|глубина|высота|длина|ширина|масса|вес|площадь|объём|мощность|расход|давление|"
    r"влажность|толщина|численность|население|возраст|рост|срок|стоимость|цена)\s[а-яё]+[аяиыйв]\s(?=\d+[–-]\d)"
)


_FOR_PEOPLE = re.compile(r"(?<!\w)[Нн]а\s\w+(?:\s\w+)?\sчеловека?\s(?=\d+\s(?:к?г|м?л)\b)")  # на четырёх человек 500 г


_GRAMS = re.compile(  # не более 3 г соли, which is no year
    r"(?<!\w)(?P<of>(?i:около|до|от|из|более|менее|без|после|больше|меньше|свыше|с(?=[^.!?]* до )|"
    r"(?P<i>со?)|(?P<d>к)|(?P<p>в)|(?P<n_>на))\s)(?P<n>\d{1,3}|[3-9]\d{3})\s?г(?![\w.])"
)
_LEAST_YEAR = 50
_PLURALS = {"i": ("ом", "ами"), "d": ("у", "ам"), "p": ("е", "ах"), "g": ("а", "ов"), "n_": ("", "ов")}


def _grams(found: re.Match[str]) -> str:
    number = int(found["n"])
    if number > _LEAST_YEAR and number % 5:
        return found[0]  # в 988 г
    case = next((each for each in ("i", "d", "p", "n_") if found[each]), "g")
    if case == "n_":  # на 100 г, as the nominative
        few = number % 10 in (2, 3, 4) and number % 100 not in (12, 13, 14)
        return f"{found['of']}{number} грамм{'а' if few else _PLURALS[case][not is_one(number)]}"
    said = in_case(number, LANGUAGES["ru"], case)
    of = f"{found['i']}о " if found["i"] in ("с", "С") and said.startswith("ста ") else found["of"]
    return f"{of}{said} грамм{_PLURALS[case][not is_one(number)]}"


def _day_of_month(found: re.Match[str]) -> str:
    day, month = found["day"] or found["d"] or found["until"], found["month"] or found["m"] or found["of"]
    name = _MONTHS[int(month) - 1]
    if _BOOKED.search(found.string[max(0, found.start() - 8) : found.start()]):
        return f"{ordinal(int(day), LANGUAGES['ru'], case='n', gender='n')} {name}"
    return f"{int(day)} {name}"


@lru_cache(maxsize=1)
def _per() -> re.Pattern[str]:
    """A unit or a price, and that of which it is so much: 5 м/с, 900 ₽/мес., 7 л/100 км."""
    names = "|".join(re.escape(each) for each in sorted(table("ru").per, key=len, reverse=True))
    units = r"к?м|[мс]?м[²³]|л|мл|г|кг|мг|т|шт\.?|[КМГ]?бит|[КМГ]Б|к?Вт\s?ч|к?Вт|к?кал|ккал|ед\.?|чел\.?"
    return re.compile(
        rf"(?<=[\d\s])(?:(?P<price>{_PRICES})|(?P<unit>{units}))/(?P<per>{names})(?![^\W_]|/)", re.IGNORECASE
    )


def _per_words(found: re.Match[str]) -> str:
    """In the library's words, which knows км/ч alone."""
    words = table("ru").per[found["per"].lower()]
    before = "" if words.startswith(("в ", "с ")) else "за " if found["price"] else "на "
    full_stop = "." if found["per"].endswith(".") and not found.string[found.end() :].strip() else ""
    price = {"р.": "руб."}.get(found["price"], found["price"]) if found["price"] else found["unit"]
    return f"{price} {before}{words}{full_stop}"


@lru_cache(maxsize=1)
def _genitive() -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(table('ru').genitive)})\s(?=\d)", re.IGNORECASE)


def _aligned(sentence: str) -> list[Edit]:
    """What the library has changed of a sentence, word by word; changes that only a blank or a sign parts are one."""
    said = _normalized(sentence)
    old, new = _TOKEN.findall(sentence), _TOKEN.findall(said)
    before, after = ([_QUOTES.get(each, each.casefold()) for each in row] for row in (old, new))
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    positions = [0]
    for token in old:
        positions.append(positions[-1] + len(token))
    own = [each.span() for each in _ADDRESS.finditer(sentence)]
    own += [each.span() for pattern, _ in chess.patterns(LANGUAGES["ru"]) for each in pattern.finditer(sentence)]
    own += [each.span() for each in _OWN.finditer(sentence) if not GENITIVE_PRICE.search(sentence, 0, each.end())]
    changes: list[list[int]] = []  # [first, last) of the old tokens, and of the new ones
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            continue
        if changes and "".join(old[changes[-1][1] : i1]).strip() in _JOINTS and i1 - changes[-1][1] <= 2:
            changes[-1][1], changes[-1][3] = i2, j2
        else:
            changes.append([i1, i2, j1, j2])
    found = []
    for i1, i2, j1, j2 in changes:
        first, last, words = positions[i1], positions[i2], "".join(new[j1:j2])
        written = sentence[first:last]
        short = _SHORT.search(sentence[first : last + 1]) is not None
        if not (_FIGURES.search(written) or short) or not re.search(r"[^\W\d_]", words) or re.search(r"\d", words):
            continue
        if (
            not short
            and re.search(r"[A-Za-z]", re.sub(r"(?<=\d)(?: ?x ?(?=\d)|[eE](?=[-−]\d))", "", written))
            and re.search(r"[IVXLC]+", written) is None
        ):
            continue
        if any(begin < last and first < end for begin, end in own):
            continue
        if _is_glued(sentence[:first][-1:], words.strip()[:1]) or _is_glued(words[-1:], sentence[last:][:1]):
            continue  # SU1234
        if (noun := _NOUN.search(written)) and not short:
            words = re.sub(rf"(?<![^\W_]){noun[1]}[а-яё]{{0,3}}$", noun[0], words)
        begins = re.search(r"г\.?$", written) is not None and _ADVERBIAL.search(sentence[:first]) is not None
        if (short and _MORE.match(sentence, last)) or (begins and re.match(r"\.\s\S", sentence[last:])):
            last += 1  # the full stop of руб., before a comma, and that of В 1812 г. Наполеон
        found.append(
            Edit(first, last, _as_written(written, words, sentence[last:].lower() if begins else sentence[last:]))
        )
    return found


_NOUN = re.compile(r"(?<=\d[\s\xa0])([а-яё]{4,}?)[а-яё]{0,2}$")  # 2 страниц
_QUOTES = dict.fromkeys("«»„“”", '"')  # which the library makes one


def _is_glued(before: str, after: str) -> bool:
    return before.isalnum() and after.isalnum()


_ADVERBIAL = re.compile(  # with which a sentence begins, and cannot end: В 1812 г. Наполеон
    r"(?:^|[.!?…]\s)[\"«„—–\s]*(?:(?:Уже|Ещё|Лишь|Только)\sв|В|К|С|До|После|Около|Летом|Осенью|Зимой|Весной)"
    r"\s(?:[а-яё]+\s){0,2}$"
)


def _as_written(written: str, words: str, after: str) -> str:
    """The words with the blanks and the full stop of what stood there."""
    lead, tail = written[: len(written) - len(written.lstrip())], written[len(written.rstrip()) :]
    if words[-1:].isspace() and after[:1].isalnum():
        tail = " "  # 300 руб./час
    words = words.strip()
    if words.endswith("-"):
        tail = ""  # ½ литра: пол-литра
    if re.search(r"\d[-–—]\d", written):
        words = words.replace(" — ", "-")
    ends = not after.strip(" \"»”'’)\n") or (
        re.match(r"\s+[\"«„—–-]*\s?[А-ЯЁ]", after) is not None
        and _MAY_END.search(written) is not None
        and _TOWN.search(written.rstrip()) is None
        and not words.lower().startswith("проспект")
    )
    if written.rstrip().endswith(".") and ends and words[-1] not in ".!?…":
        words += "."
    return lead + words + tail


@lru_cache(maxsize=1)
def _normalizer() -> Normalizer:
    from ru_normalizr import NormalizeOptions, Normalizer

    return Normalizer(NormalizeOptions(enable_math_normalization=True))
