"""Russian short forms in full, in the case that their sentence asks for, before a library reads the rest.

Parts of a book or a law (см. стр. 12, гл. 3; согласно п. 2 ч. 1 ст. 5), spoons, sizes, scores, fractions, weekdays.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from voxyard.speech.reading.languages import LANGUAGES
from voxyard.speech.reading.number_words import cardinal, in_case, ordinal

_CASES = ("nominative", "accusative", "genitive", "dative", "instrumental", "locative")
_CODES_OF_CASES = "nagdip"  # of num2words
_FIRST, _THIRD, _MASCULINE = "а у ы е ой е", "ь ь и и ью и", "  а у ом е"
_PARTS = {  # short form: stem, endings in the order of the cases
    "стр": ("страниц", _FIRST),
    "гл": ("глав", _FIRST),
    "табл": ("таблиц", _FIRST),
    "ст": ("стать", "я ю и е ёй е"),
    "ч": ("част", _THIRD),
    "п": ("пункт", _MASCULINE),
    "пп": ("подпункт", _MASCULINE),
    "подп": ("подпункт", _MASCULINE),
    "разд": ("раздел", _MASCULINE),
    "т": ("том", _MASCULINE),
    "абз": ("абзац", "  а у ем е"),
    "рис": ("рисун", "ок ок ка ку ком ке"),
    "ауд": ("аудитори", "я ю и и ей и"),
    "каб": ("кабинет", _MASCULINE),
    "прил": ("приложени", "е е я ю ем и"),
}
_BEFORE = (  # words before a part, and the case that they want
    (r"(?:см\.|смотри(?:те)?|читай(?:те)?|откро(?:й|йте|ем)|через|про)", "accusative"),
    (r"(?:в силу|на основании|из|от|до|для|без|у|около|после|кроме|согласно нормам)", "genitive"),
    (r"(?:с|со|перед|над|под)", "instrumental"),
    (r"(?:по|к|ко|согласно|благодаря|вопреки)", "dative"),
    (r"(?:в|во|на|о|об|при)", "locative"),
)
_PART = rf"(?:{'|'.join(sorted(_PARTS, key=len, reverse=True))})"
_CODE = r"(?:\s[А-Я][а-я]+\sкодекса\sРоссийской\sФедерации)?"
_POINT = r"(?:\d+(?:\.\d{1,2}){0,2}|[IVXLC]+)(?![\w.,-]\d|\w)"
_ROW = re.compile(
    rf"(?P<before>(?<!\w)(?i:{'|'.join(words for words, _ in _BEFORE)})\s)?(?<!\d\s)(?<![\w.])"
    rf"(?P<row>(?i:{_PART})\.\s?{_POINT}(?:{_CODE},?\s(?:и\s)?{_PART}\.\s?{_POINT})*)"
)
_ONE_PART = re.compile(rf"(?P<joint>{_CODE},?\s(?:и\s)?)?(?P<short>(?i:{_PART}))\.\s?(?P<n>[\d.]*\d|[IVXLC]+)")

SPOONS = {"ст": ("столовая", "столовую", "столовые", "столовых"), "ч": ("чайная", "чайную", "чайные", "чайных")}
_PUT = re.compile(  # добавьте, всыпать; нужно добавить asks for it too
    r"\b(?:добав|вле|полож|всып|возьм|смеша|нал[ие]|насып|\w+(?:[йь]те|ите)\b|\w{2,}(?:[иаяыо]|ес)ть\b)\w*",
    re.IGNORECASE,
)
_SPOON = re.compile(
    r"(?<![\w.,/-])"
    r"(?P<n>\d{1,2}|½|1/2)\s?(?P<which>ст|ч)\.\s?л(?:ож\w*)?\b(?P<dot>\.?)"
)
GENITIVE = r"(?i:около|до|от|из|с|со|более|менее|без|после|для|больше|меньше|у)"
_FRACTIONS = {"1/2": "половины", "1/3": "одной трети", "2/3": "двух третей", "1/4": "четверти", "3/4": "трёх четвертей"}
_HALVES = {"л": "пол-литра", "кг": "полкилограмма", "стакана": "полстакана", "часа": "полчаса", "литра": "пол-литра"}
_DAYS = {
    "пн": ("понедельник", "понедельника", "понедельник"),
    "вт": ("вторник", "вторника", "вторник"),
    "ср": ("среда", "среды", "среду"),
    "чт": ("четверг", "четверга", "четверг"),
    "пт": ("пятница", "пятницы", "пятницу"),
    "сб": ("суббота", "субботы", "субботу"),
    "вс": ("воскресенье", "воскресенья", "воскресенье"),
}
_DAY = rf"(?:{'|'.join(_DAYS)})"
_TITLES = {
    "проф": "профессор", "доц": "доцент", "ген": "генерал", "инж": "инженер", "полк": "полковник", "лейт": "лейтенант",
}  # fmt: skip
_TITLE = rf"(?<!\w)(?P<short>(?i:{'|'.join(_TITLES)}))\.(?=\s(?:[А-ЯЁ]\.\s?)*[А-ЯЁ][а-яё]+"
_NAMES_BY_CASE = (
    (r"(?:[оеё]в|[иы]н|[сц]кий|ых|ко)", ""),
    ("(?:[оеё]ву|[иы]ну|скому)", "у"),
    ("(?:[оеёиы][вн]|ск)[иы]м", "ом"),
)


def in_full(sentence: str) -> str:
    """The sentence with its short forms in words; figures whose case the library knows stay."""
    for pattern, words in _RULES:
        sentence = pattern.sub(words, sentence)
    return sentence


def _number(text: str) -> str:
    return cardinal(text, LANGUAGES["ru"])


def _row(found: re.Match[str]) -> str:
    """См. страницу двенадцать, главу три; пункт два части один статьи пять."""
    before = found["before"] or ""
    case = next((case for words, case in _BEFORE if re.fullmatch(words, before.strip(), re.IGNORECASE)), "nominative")
    said = []
    for part in _ONE_PART.finditer(found["row"]):
        joint = part["joint"] or ""
        here = case if not joint or "," in joint or " и " in joint else "genitive"
        stem, endings = _PARTS[part["short"].lower()]
        noun = stem + endings.split(" ")[_CASES.index(here)]
        noun = noun.capitalize() if part["short"][0].isupper() else noun
        number = part["n"]
        if number.isdigit():
            feminine = {"case": _CODES_OF_CASES[_CASES.index(here)], "gender": "f"}
            number = ordinal(int(number), LANGUAGES["ru"], **feminine) if stem == "част" else _number(number)
        elif "." in number:
            number = " точка ".join(map(_number, number.split(".")))
        said.append(f"{joint}{noun} {number}")
    return before + "".join(said)


def _spoon(found: re.Match[str]) -> str:
    """Три столовые ложки; добавьте одну чайную ложку."""
    one, object_of, few, many = SPOONS[found["which"]]
    verb = _PUT.search(re.split(r"[!?]|(?<=\w{3})\.", found.string[: found.start()])[-1]) is not None
    dot = "." if found["dot"] and not found.string[found.end() :].strip() else ""
    if not found["n"].isdigit():
        half = "половину" if verb else "половина"
        return f"{half} {one.removesuffix('ая')}ой ложки{dot}"
    count = int(found["n"])
    if re.search(r"\bсо?\s$", found.string[: found.start()], re.IGNORECASE):  # с двумя столовыми ложками
        stem, said = one.removesuffix("ая"), in_case(count, LANGUAGES["ru"], "i")
        return (f"одной {stem}ой ложкой" if count == 1 else f"{said} {stem}ыми ложками") + dot
    if count % 10 == 1 and count != 11:
        return (f"одну {object_of} ложку" if verb else f"одна {one} ложка") + dot
    if count % 10 in (2, 3, 4) and count not in (12, 13, 14):
        return f"{cardinal(found['n'], LANGUAGES['ru'], 'минута')} {few} ложки{dot}"
    return f"{_number(found['n'])} {many} ложек{dot}"


def _price(found: re.Match[str]) -> str:
    """До сорока одного доллара двадцати центов."""
    whole, cents = int(found["whole"]), int(found["cents"])
    names = {"$": ("доллара", "долларов"), "€": ("евро", "евро")}[found["sign"]]
    language = LANGUAGES["ru"]
    said = f"{found['before']} {in_case(whole, language, 'g')} {names[not is_one(whole)]}"
    return f"{said} {in_case(cents, language, 'g')} {'цента' if is_one(cents) else 'центов'}" if cents else said


def is_one(number: int) -> bool:
    """True for 1, 21, 101, after which a noun is in the singular."""
    return number % 10 == 1 and number % 100 != 11


def _days(found: re.Match[str]) -> str:
    """С понедельника по пятницу."""
    start = _DAYS[found["first"].lower()][1]
    return f"{'со' if start.startswith('вт') else 'с'} {start} по {_DAYS[found['last'].lower()][2]}"


def weekdays() -> list[tuple[re.Pattern[str], Callable[[re.Match[str]], str | None]]]:
    """Patterns of short days with their words: пн–пт, пн, ср и пт, в чт."""
    span = re.compile(rf"(?<![\w.])(?P<first>{_DAY})\.?\s?[–—-]\s?(?P<last>{_DAY})(?!\w)\.?", re.IGNORECASE)
    stop = r"(?:\.(?=,|\s[а-яё]))?"
    row = re.compile(rf"(?<![\w.])(?:(?:в|кроме)\s)?{_DAY}{stop}(?:(?:,\s|\sи\s){_DAY}{stop})+(?!\w)", re.IGNORECASE)
    one = re.compile(rf"(?<![\w.])(?P<at>[Вв]\s)?(?P<day>{_DAY})\.?(?=,?\s(?:с|в|до)?\s?\d)")

    def days(found: re.Match[str]) -> str:
        case = 2 if found[0].lower().startswith("в ") else 1 if found[0].lower().startswith("кроме ") else 0
        return re.sub(
            rf"(?<!\w){_DAY}\.?(?!\w)",
            lambda day: _DAYS[day[0].lower().rstrip(".")][case],
            found[0],
            flags=re.IGNORECASE,
        )

    on = re.compile(rf"(?<!\w)(?P<with>[Сс])о?\s(?P<first>{_DAY})\.?\sпо\s(?P<last>{_DAY})(?!\w)\.?")
    begun = re.compile(rf"(?:^|(?<=[.!?]\s)|(?<=\n))(?P<day>{_DAY.title()})\.?(?=\s[—–]\s)")  # Сб — по записи
    alone = re.compile(rf"(?<![\w.])(?P<day>{_DAY})\.?(?=\s[—–:-]\s)")
    return [
        (on, lambda found: found["with"] + _days(found)[1:]),
        (alone, lambda found: _DAYS[found["day"]][0]),
        (begun, lambda found: _DAYS[found["day"].lower()][0].capitalize()),
        (span, _days),
        (row, days),
        (one, lambda found: f"{found['at'] or ''}{_DAYS[found['day']][2 if found['at'] else 0]}"),
    ]


def _score(found: re.Match[str]) -> str:
    return f"{_number(found['a'])} — {_number(found['b'])}"


_CODES = {
    "УК": "Уголовного кодекса",
    "ГК": "Гражданского кодекса",
    "ТК": "Трудового кодекса",
    "НК": "Налогового кодекса",
    "СК": "Семейного кодекса",
    "ЖК": "Жилищного кодекса",
}


def _with_feminine(found: re.Match[str]) -> str:
    """Вторая мировая, во второй мировой."""
    ending = {"ая": "я", "яя": "я", "ой": "й", "ей": "й", "ую": "ю"}[found["ending"]]
    return f"{arabic(found['roman'])}-{ending} "


def arabic(numeral: str) -> int:
    """The value of a Roman numeral."""
    values = [{"I": 1, "V": 5, "X": 10}[letter] for letter in numeral]
    following = [*values[1:], 0]
    return sum(-each if each < after else each for each, after in zip(values, following, strict=True))


def _pages_of(found: re.Match[str]) -> str:
    """В книге триста пятьдесят две страницы, which is no book 352."""
    count = int(found["n"])
    if not found["of"] and not found["dot"]:
        return found[0]
    tens = count % 100 in range(11, 15)
    noun = "страница" if is_one(count) else "страницы" if count % 10 in (2, 3, 4) and not tens else "страниц"
    number = cardinal(found["n"], LANGUAGES["ru"], "минута") if found["of"] else found["n"]
    after = (found["after"] or "").strip()
    stop = "." if found["dot"] and (not after or after[0].isupper()) else ""
    return f"{found['of'] or ''}{number} {noun}{stop}"


_SIZES = "(?:дли|шири|глуби|толщи)ной|высотой|ростом|весом|массой|объёмом|диаметром"


def _size(found: re.Match[str]) -> str:
    """Длиной тридцать-сорок метров."""
    count = int(found["b"])
    few = count % 10 in (2, 3, 4) and count % 100 not in range(12, 15)
    noun = UNITS_AFTER_FIVE[found["unit"]]
    if few:
        noun = noun.removesuffix("ов") + "а"
    return f"{found['of']}{_number(found['a'])}-{_number(found['b'])} {noun}"


_PAGES = re.compile(
    r"(?<=[Сс]м\. )(?:с\.\s?(?P<one>\d+)(?!\d|[–-]\d)|(?:с|стр)\.\s?(?P<a>\d+)[–-](?P<b>\d+))(?P<row>\sи\sгл\.\s?\d+)?"
)
MONTHS = "января|февраля|марта|апреля|мая|июня|июля|августа|сентября|октября|ноября|декабря"
_DAY_ALONE = re.compile(
    rf"(?:^|(?<=[.!?]\s)|(?<=[Сс]егодня\s)|(?<=[Зз]автра\s)|(?<=[Вв]чера\s))(?P<n>\d{{1,2}})(?=\s(?:{MONTHS})(?:\s[—–-]\s|[.!?]|$))"
)


def _pages(found: re.Match[str]) -> str:
    """См. страницы сорок пять — пятьдесят два и главу три."""
    if found["b"]:
        said = f"страницы {_number(found['a'])} — {_number(found['b'])}"
    else:
        said = f"страницу {_number(found['one'])}"
    return (
        said
        if not found["row"]
        else said + re.sub(r"гл\.\s?(\d+)", lambda part: f"главу {_number(part[1])}", found["row"])
    )


_UNITS_OF_RANGES = {
    "мин": ("минута", "минуты", "минут"),
    "сек": ("секунда", "секунды", "секунд"),
    "ч": ("час", "часа", "часов"),
    "г": ("грамм", "грамма", "граммов"),
    "мл": ("миллилитр", "миллилитра", "миллилитров"),
}
_LASTING = re.compile(
    r"(?P<verb>(?<!\w)[А-ЯЁа-яё]{2,}(?:ть|ти|чь|йте|ите)\s)(?P<a>\d{1,3})[–-](?P<b>\d{1,3})\s"
    rf"(?P<unit>{'|'.join(_UNITS_OF_RANGES)})(?!\w)(?:\.(?=\s[а-яё]))?"
)


def _lasting(found: re.Match[str]) -> str:
    """Выпекать тридцать пять-сорок минут."""
    nouns, last = _UNITS_OF_RANGES[found["unit"]], int(found["b"])
    few = last % 10 in (2, 3, 4) and last % 100 not in (12, 13, 14)
    said = "-".join(cardinal(found[each], LANGUAGES["ru"], nouns[0]) for each in ("a", "b"))
    return f"{found['verb']}{said} {nouns[0 if is_one(last) else 1 if few else 2]}"


def _day_alone(found: re.Match[str]) -> str:
    return ordinal(int(found["n"]), LANGUAGES["ru"], case="n", gender="n")


_POURED = (
    "молока|воды|кипятка|муки|сахара|сахарного песка|риса|масла|крупы|гречки|манки|кефира|сметаны|сливок|сока|бульона|"
    "вина|йогурта|хлопьев|орехов|изюма|ягод|мёда"
)


def _glasses(number: str) -> str:
    """Полстакана, два стакана."""
    if not number.isdigit():
        return "полстакана"
    few = int(number) % 10 in (2, 3, 4) and int(number) not in (12, 13, 14)
    return f"{number} стакан{'' if is_one(int(number)) else 'а' if few else 'ов'}"


def _for_people(found: re.Match[str]) -> str:
    """На четырёх человек."""
    number = int(found["n"])
    few = number % 10 in (1, 2, 3, 4) and number % 100 not in (11, 12, 13, 14)
    said = in_case(number, LANGUAGES["ru"], "g") if few else _number(found["n"])
    return f"{found['on']} {said} {'человека' if is_one(number) else 'человек'}"


_SHORT_MONTHS = {
    "янв": "января", "февр": "февраля", "фев": "февраля", "апр": "апреля", "авг": "августа", "сент": "сентября",
    "сен": "сентября", "окт": "октября", "нояб": "ноября", "ноя": "ноября", "дек": "декабря",
}  # fmt: skip


def _stop(found: re.Match[str]) -> str:
    """The full stop of a short form where its sentence ends."""
    after = found["after"].strip()
    return "." * (not after or after[0].isupper())


def _month(found: re.Match[str]) -> str:
    """5 фев. 2024."""
    return _SHORT_MONTHS[found["month"]] + _stop(found)


def _of_century(found: re.Match[str]) -> str:
    """В конце девятнадцатого века."""
    century = ordinal(arabic(found["roman"]), LANGUAGES["ru"], case="g", gender="m")
    return f"{found['of']}{century} века{_stop(found)}"


def _from_to(found: re.Match[str]) -> str:
    """С первого июля по тридцать первое августа; decimals stay."""
    told = found["from"] or found.string[: found.start()].endswith("(")
    if not told and max(int(found["day"]), int(found["day2"])) <= 12:
        return found[0]
    first, last = (
        f"{ordinal(int(found[f'day{n}']), LANGUAGES['ru'], case=case, gender='n')} "
        f"{MONTHS.split('|')[int(found[f'month{n}']) - 1]}"
        for n, case in (("", "g"), ("2", "n"))
    )
    return f"{found['from'] or 'с '}{first} по {last}"


def _days_from_to(found: re.Match[str]) -> str:
    """С третьего по пятнадцатое сентября."""
    first, last = (
        ordinal(int(found[each]), LANGUAGES["ru"], case=case, gender="n")
        for each, case in (("day", "g"), ("day2", "n"))
    )
    return f"{found['from']}{first} по {last} {MONTHS.split('|')[int(found['month2']) - 1]}"


_ROOMS = ("", "одно", "двух", "трёх", "четырёх", "пяти", "шести")


def _flat(found: re.Match[str]) -> str:
    """Двухкомнатная квартира; куплю двухкомнатную квартиру."""
    whom = found["whom"] or ""
    return f"{whom}{_ROOMS[int(found['n'])]}комнатн{'ую' if whom else 'ая'} квартир{'у' if whom else 'а'}"


def _floor(found: re.Match[str]) -> str:
    """Третий этаж из девяти."""
    floor = ordinal(int(found["n"]), LANGUAGES["ru"], case="n", gender="m")
    return f"{floor} этаж из {in_case(int(found['of']), LANGUAGES['ru'], 'g')}"


def _tablets(found: re.Match[str]) -> str:
    """По две таблетки, по одной таблетке."""
    number, by = int(found["n"]), found.string[: found.start()].lower().endswith("по ")
    of_tablets = found["what"] != "капс"
    stem, many = ("таблет", "ок") if of_tablets else ("капсул", "")
    count, soft = cardinal(found["n"], LANGUAGES["ru"], "минута"), "к" * of_tablets
    if is_one(number):
        return f"{count[:-1]}{f'ой {stem}{soft}е' if by else f'у {stem}{soft}у'}"
    few = number % 10 in (2, 3, 4) and number not in (12, 13, 14)
    return f"{count} {stem}{f'{soft}и' if few and of_tablets else 'ы' if few else many}"


def _at_kilometre(number: int) -> str:
    return f"{ordinal(number, LANGUAGES['ru'], case='p', gender='m')} километре"


def _postcode(found: re.Match[str]) -> str:
    return " ".join(map(_number, found[0]))


def _by(found: re.Match[str]) -> str:
    return f"{found['unit'] or ''} на "


def _titled(ending: str, found: re.Match[str]) -> str:
    """Профессор Иванов, с доцентом Козловым."""
    said = _TITLES[found["short"].lower()] + ending
    return said.capitalize() if found["short"][0].isupper() else said


def _place(found: re.Match[str]) -> str:
    return ordinal(int(found["n"]), LANGUAGES["ru"], case="i", gender="m")


UNITS_AFTER_FIVE = {
    "км": "километров",
    "м": "метров",
    "кг": "килограммов",
    "г": "граммов",
    "см": "сантиметров",
    "мм": "миллиметров",
    "л": "литров",
}
GENITIVE_PRICE = re.compile(rf"(?<!\w){GENITIVE}\s\d{{1,6}},\d\d\s?[$€]$")
"""A price with cents after a preposition, which is read here."""

_RULES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (
        re.compile(r"(?<=\b[Вв]\s)(?P<n>[2-9]0)-е(?=[,;)]|\.?$|\.\s[А-ЯЁ])"),
        lambda found: ordinal(int(found["n"]), LANGUAGES["ru"]).removesuffix("ый").removesuffix("ой") + "ые",
    ),
    (re.compile(r"(?<!\w)(?P<at>[Вв])\sт\.\s?ч\.(?=\s?[\w(:])"), lambda found: f"{found['at']} том числе"),
    (
        re.compile(rf"(?<=\d)\s(?P<code>{'|'.join(_CODES)})\sРФ(?!\w)"),
        lambda found: f" {_CODES[found['code']]} Российской Федерации",
    ),
    (re.compile(r"(?<![\w.,/-])\d{6}(?=,?\s(?:г\.|Москва|Санкт|Россия|ул\.|обл|респ|край))"), _postcode),
    (re.compile(r"(?<=\d-й\s)мин(?:\.(?=\s[а-яё])|(?=[.,;)]))"), lambda _: "минуте"),
    (
        re.compile(rf"(?<![\w.,/])(?P<n>\d{{1,2}}|1/2|½)\sст\.(?=\s(?:{_POURED})(?!\w))"),
        lambda found: _glasses(found["n"]),
    ),
    (re.compile(r"(?<=[Нн]а )(?P<n>\d{1,4})-м\sкм(?!\w)"), lambda found: _at_kilometre(int(found["n"]))),
    (
        re.compile(r"(?P<whom>\b(?i:купл|сним|сда[мю]|прода[мю])\w*\s)?(?<![\w.,-])(?P<n>[1-6])-комн\.\s?кв\."),
        _flat,
    ),
    (re.compile(r"(?<![\w.,/])(?P<n>\d{1,2})/(?P<of>\d{1,2})\s?эт(?:\.|аж\w*)"), _floor),
    (  # (1.07–31.08)
        re.compile(
            r"(?P<from>\b[Сс]о? )?(?<![\w.,:/-])(?P<day>[12]?\d|3[01])\.(?P<month>0[1-9]|1[0-2])\s?[–-]\s?"
            r"(?P<day2>[12]?\d|3[01])\.(?P<month2>0[1-9]|1[0-2])(?=[),;:]|\.?$|\.\s|\s[а-яё]{4})"
        ),
        _from_to,
    ),
    (
        re.compile(r"(?<=\b[Рр]азмер )(?P<a>\d\d)/(?P<b>\d\d)(?![\w/])"),
        lambda found: f"{_number(found['a'])}, {_number(found['b'])}",
    ),
    (  # с 3 по 15.09
        re.compile(
            r"(?P<from>\b[Сс]о? )(?P<day>[12]?\d|3[01]) по (?P<day2>[12]?\d|3[01])\.(?P<month2>0[1-9]|1[0-2])"
            r"(?![\w:]|[.,]\d)"
        ),
        _days_from_to,
    ),
    (  # +3…+5 °C
        re.compile(r"(?<![\w.,+−-])(?<!от )(?P<a>[+−-]?\d{1,2})\s?(?:…|\.{3})\s?(?P<b>[+−-]?\d{1,2})(?=\s?°)"),
        lambda found: f"от {found['a']} до {found['b']}",
    ),
    (_PAGES, _pages),
    (_ROW, _row),
    (_LASTING, _lasting),
    (_DAY_ALONE, _day_alone),
    (
        re.compile(r"(?P<of>\b(?i:книге|томе|тетради|журнале|рукописи|диссертации)\s)?(?<![\d.,–-])(?P<n>\d{1,4})\s"
                   r"стр(?:аниц[аы]?|(?P<dot>\.))(?!\w)(?!\s?\d)(?=(?P<after>.{0,3}))", re.DOTALL),
        _pages_of,
    ),
    (
        re.compile(rf"(?P<of>\b(?:{_SIZES})\s(?:до\s|около\s)?)(?P<a>\d{{1,4}})[–-](?P<b>\d{{1,4}})\s(?P<unit>мм|см|км|кг|м|г|л)(?!\w)\.?"),
        _size,
    ),
    (re.compile(r"(?<!\w)(?P<on>[Нн]а)\s(?P<n>\d{1,4})\sчел\.?(?!\w)"), _for_people),
    (
        re.compile(r"(?<![\w:.,/-])(?<!соотношение\s)(?<!соотношении\s)(?<!масштаб\s)(?<!масштабе\s)(?<!отношение\s)"
                   r"(?P<a>\d{1,3}):(?P<b>\d|[6-9]\d|1\d\d)(?![\d:%]|[.,]\d)(?!\s(?:утра|вечера|ночи|дня))"),
        _score,
    ),
    (_SPOON, _spoon),
    (
        re.compile(rf"(?<!\w)(?P<before>{GENITIVE})\s(?P<part>[123]/[234])(?![\w/.,]\d|[\w/])"),
        lambda found: f"{found['before']} {_FRACTIONS.get(found['part'], found['part'])}",
    ),
    (
        re.compile(rf"(?<![\w.,/])(?<!\d )(?:1/2|½)\s?(?P<what>{'|'.join(_HALVES)})\b"),
        lambda found: _HALVES[found["what"]],
    ),
    (
        re.compile(rf"(?<!\w)(?P<before>{GENITIVE})\s(?P<whole>\d{{1,6}}),(?P<cents>\d\d)\s?(?P<sign>[$€])"),
        _price,
    ),
    (re.compile(r"(?<![\w.,])4\s?[xхХ×]\s?(?P<n>[1248]00)(?=\s?м(?!\w))"), lambda found: f"4 по {found['n']}"),
    (
        re.compile(r"(?<![\w.,])(?P<a>\d{3,4})\s?[xхХ×]\s?(?P<b>\d{3,4})(?![\w.,]\d|\s?[xхХ×])"),  # of a screen
        lambda found: f"{_number(found['a'])} на {_number(found['b'])}",
    ),
    (
        re.compile(r"(?<![\w.,])(?P<n>\d{1,2})\s?(?P<what>табл?|капс)\.(?!\s?\d(?!\d*\s?(?:мк?г|г|мл|ЕД|раза?)(?!\w)|\s?р\.))"),
        _tablets,
    ),
    (re.compile(rf"(?<=\d\s)(?P<month>{'|'.join(_SHORT_MONTHS)})\.(?=(?P<after>.{{0,3}}))", re.DOTALL), _month),
    (
        re.compile(
            r"(?<!\w)(?P<of>(?:год(?:ах|ов|ы|ам)|гг?\.|(?:перв|втор)(?:ая|ой|ую)\sполовин[аеуы]|(?:начал|кон[е]?ц|середин|трет|четверт|половин)[а-я]{0,2})\s)"
            r"(?P<roman>[IVX]+)\s(?:в\.|века?(?!\w))(?=(?P<after>.{0,4}))",
            re.DOTALL,
        ),
        _of_century,
    ),
    (re.compile(r"(?<=\d)(?P<unit>\s?(?:[мкс]?м|мм))?\s?[xх×]\s?(?=\d)", re.IGNORECASE), _by),
    (re.compile(r"(?<![\w.,])(?P<roman>[IVX]+)\s(?=[а-яё]+(?P<ending>ая|яя|ой|ей|ую)(?!\w))"), _with_feminine),
    (
        re.compile(
            r"(?<![вВкноОипд]\s)(?<![Вв]о\s)(?<![Нн]а\s)(?<![Пп]ри\s)(?<!-м и )(?<![\w.,-])"
            r"(?P<n>\d{1,3})-м(?=[.,;!?)]|$|\s(?:и|в|на|после|за|из|среди|по)\s)"
        ),
        _place,
    ),
    (
        re.compile(r"(?<![\w.,-])(?P<n>\d{1,4})-(?:ти|и|х|ёх|ех)\s(?P<unit>км|кг|см|м|г|л)(?!\w)\.?"),
        lambda found: f"{in_case(int(found['n']), LANGUAGES['ru'], 'g')} {UNITS_AFTER_FIVE[found['unit']]}",
    ),
    *(
        (re.compile(rf"{_TITLE}{names}(?!\w))"), partial(_titled, ending)) for names, ending in _NAMES_BY_CASE
    ),
)  # fmt: skip
