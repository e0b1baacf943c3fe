"""Russian ordinals, days and quantities in the case of their sentence, before a library reads the rest.

В первых — четвёртых классах, с первого по тридцать первое августа, полтора раза, Александр третий, в ста миллилитрах.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from voxyard.speech.reading.languages import LANGUAGES
from voxyard.speech.reading.number_words import cardinal, in_case, ordinal
from voxyard.speech.reading.russian_forms import GENITIVE, MONTHS, SPOONS, UNITS_AFTER_FIVE, arabic, is_one


def in_words(sentence: str) -> str:
    """The sentence with these in words."""
    for pattern, words in _RULES:
        sentence = pattern.sub(words, sentence)
    return sentence


def _number(text: str) -> str:
    return cardinal(text, LANGUAGES["ru"])


def _half_of(found: re.Match[str]) -> str:
    """Во второй половине, первая половина, с первой половины."""
    stem = ("перв", "втор")[int(found["n"]) - 1]
    ending, noun = {
        "й": ("ой", "половине" if found["at"] else "половины"),
        "я": ("ая", "половина"),
        "ю": ("ую", "половину"),
    }[found["end"]]
    return f"{found['at'] or ''}{stem}{ending} {noun}"


def _one_and_a_half(found: re.Match[str]) -> str:
    """Полтора раза, полторы минуты, около полутора часов."""
    of = found["of"] or ""
    noun = found["noun"]
    if len(noun) < 3 or (noun[-1] not in "аяыи" and not of) or noun.startswith(("тыс", "мил", "процент")):
        return found[0]
    return of + ("полутора" if of else "полторы" if noun[-1] in "ыи" else "полтора")


_UNITS = {  # stem, and endings of one, of few and of many
    "гПа": ("гектопаскал", "ь я ей ю ям"), "кПа": ("килопаскал", "ь я ей ю ям"), "МПа": ("мегапаскал", "ь я ей ю ям"),
    "ГПа": ("гигапаскал", "ь я ей ю ям"), "КиБ": ("кибибайт", " а  у ам"), "МиБ": ("мебибайт", " а  у ам"),
    "ГГц": ("гигагерц", " а  у ам"), "ГиБ": ("гибибайт", " а  у ам"), "ТиБ": ("тебибайт", " а  у ам"),
}  # fmt: skip
_POWERS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")


def _unit(found: re.Match[str]) -> str:
    """Тысяча тринадцать гектопаскалей, три гибибайта."""
    count, (stem, endings) = int(found["n"]), _UNITS[found["unit"]]
    form = 1 if found["part"] or _few(count) else 0 if is_one(count) else 2
    if not found["part"] and re.search(r"\bрав(?:ен|н[аоы]|няется)\s$", found.string[: found.start()]):
        form = 3 if is_one(count) else 4  # равен 210 ГПа
    return f"{found['n']}{found['part'] or ''} {stem}{endings.split(' ')[form]}"


def _power(found: re.Match[str]) -> str:
    """Десять в шестой степени квадратных метров, умножить на десять в минус третьей степени."""
    power = int(found["power"].translate(_POWERS))
    said = {2: "квадрате", 3: "кубе"}.get(power) if not found["minus"] and found["base"] != "10" else None
    said = said or f"{'минус ' * bool(found['minus'])}{ordinal(power, LANGUAGES['ru'], case='p', gender='f')} степени"
    unit = f" {_OF_AREAS.get(found['area'], '')}{_UNITS_OF_POWERS[found['unit']]}" if found["unit"] else ""
    at = "во" if said.startswith("втор") else "в"
    return f"{' умножить на ' * bool(found['by'])}{_number(found['base'])} {at} {said}{unit}"


_UNITS_OF_POWERS = UNITS_AFTER_FIVE | {
    "Вт": "ватт", "Дж": "джоулей", "Гц": "герц", "Па": "паскалей", "Н": "ньютонов", "К": "кельвинов", "т": "тонн",
    "В": "вольт", "с": "секунд", "лет": "лет", "€": "евро", "₽": "рублей", "$": "долларов", "руб.": "рублей",
}  # fmt: skip
_OF_HALVES = {unit: (f"{name[:-2]}а", name) for unit, name in UNITS_AFTER_FIVE.items() if unit != "г"}
_OF_HALVES |= {
    "т": ("тонны", "тонн"),
    "мин": ("минуты", "минут"),
    "ч": ("часа", "часов"),
    "га": ("гектара", "гектаров"),
}
_OF_AREAS = {"²": "квадратных ", "2": "квадратных ", "³": "кубических ", "3": "кубических "}


def _equipped(found: re.Match[str]) -> str:
    """Of a thing and its parts: с шестнадцатью гигабайтами."""
    count, noun = int(found["n"]), _PARTS[found["unit"]]
    said = f"{in_case(count, LANGUAGES['ru'], 'i')} {noun}{'ом' if is_one(count) else 'ами'}"
    return f"{found['with']}{'о' * (found['with'].lower() == 'с' and said.startswith('ста '))} {said}"


_PARTS = {
    "ГБ": "гигабайт", "Гб": "гигабайт", "МБ": "мегабайт", "Мб": "мегабайт", "ТБ": "терабайт", "Тб": "терабайт",
    "ГГц": "гигагерц", "МГц": "мегагерц", "Гц": "герц", "Мп": "мегапиксел", "Мпикс": "мегапиксел",
}  # fmt: skip


def _of_many(number: int, end: str) -> str:
    """В первых — четвёртых классах."""
    word = ordinal(number, LANGUAGES["ru"], case="d", gender="m")  # первому, третьему
    soft = word.endswith("ему")
    return word[:-3] + ("и" if soft else "ы") + {"ы": "е", "ам": "м", "ами": "ми"}.get(end, "х")


_RULERS = (
    "Александр|Николай|Пётр|Петр|Иван|Павел|Людовик|Генрих|Карл|Фридрих|Вильгельм|Эдуард|Георг|Филипп|Василий|Михаил|"
    "Рамсес|Наполеон|Фердинанд|Леопольд|Пий|Бенедикт|Ричард|Густав|Франциск|Сигизмунд|Юлий|Климент|Григорий"
)
_STEMS_OF_RULERS = "|".join(
    {"Павел": "Павл", "Пётр": "Петр"}.get(each, each.removesuffix("й")) for each in _RULERS.split("|")
)
_NUMBERED = "квартал|тур|этап|раунд|съезд|век|том|период|сезон|фестивал|конгресс|чемпионат"
_CASES_OF_ENDINGS = {"а": "g", "я": "g", "у": "d", "ю": "d", "ом": "i", "ем": "i", "е": "p"}


def _before_roman(found: re.Match[str]) -> str:
    """Пятнадцатый, двадцать вторые, двадцать вторых: the ending of an adjective after it tells the plural."""
    number, many = arabic(found["roman"]), found["many"]
    if many is None:
        return ordinal(number, LANGUAGES["ru"], case="n", gender="m")
    return _of_many(number, "ы" if many[-1] == "е" else "ов")


_MERCURY = (" миллиметров ртутного столба", " миллиметра ртутного столба")


def _few(count: int) -> bool:
    return count % 10 in (2, 3, 4) and count % 100 not in (12, 13, 14)


_TURN = re.compile(  # поверните на ул. Садовую
    r"(?P<way>(?<!\w)(?i:поверни(?:те)?|сверни(?:те)?|повернул[аи]?|свернул[аи]?|поворачива\w+|выезжай(?:те)?|выехал[аи]?|"
    r"выйди(?:те)?|вышел|вышл[аи]|въезжай(?:те)?|переехал[аи]?|сворачива\w+|поворот|выезд|съезд)"
    r"(?:\s(?:направо|налево|вправо|влево))?\sна\s)(?P<short>ул|пл|просп)\.(?=\s?[\dА-ЯЁ])"
)
_IN_ORDER = {  # nouns in the genitive that a number before them puts in order, by the gender of its ordinal
    "m": (
        "рейса|класса|курса|этажа|подъезда|вагона|автобуса|трамвая|троллейбуса|маршрута|поезда|размера|ряда|столба|полка|"
        "отделения|созыва|сезона|съезда|разряда|уровня|места|тура|раунда|издания|выпуска|участка|квартала|лицея|корпуса"
    ),
    "f": "квартиры|палаты|камеры|серии|школы|группы|гимназии|больницы|поликлиники|дивизии|армии|бригады|главы|страницы",
}
_NOT_COUNTED = {  # 15 рейса, житель 3 подъезда, из 4 палаты: a singular after five or more, or after such a word
    gender: re.compile(
        r"(?<![\w.,:/–-])(?:(?P<n>\d{0,2}(?:[05-9]|1[1-4]))|"
        r"(?P<before>(?<!\w)(?i:из|с|до|у|для|от|после|студент\w*|учени[кц]\w*|жител\w+|жилец|пациент\w*)\s)"
        rf"(?P<m>(?<!\d)[1-4]|[2-9][2-4]))(?=\s(?:{nouns})(?!\w))"
    )
    for gender, nouns in _IN_ORDER.items()
}


def _in_order(gender: str, found: re.Match[str]) -> str:
    """Пятнадцатого рейса, жители третьего подъезда."""
    number = int(found["n"] or found["m"])
    return (found["before"] or "") + ordinal(number, LANGUAGES["ru"], case="g", gender=gender)


_RULES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    *((pattern, partial(_in_order, gender)) for gender, pattern in _NOT_COUNTED.items()),
    (  # не хватает 2 рублей и 3 минут, whose plural after two to four is a genitive
        re.compile(
            r"(?<![\w.,:/–-])(?P<n>[2-4]|[2-9][2-4])(?=\s(?:[а-яё]{2,}[оеё]в|[а-яё]{3,}ей|минут|секунд|недель|страниц|"
            r"книг|машин|квартир|комнат|школ|стран|женщин|штук)(?!\w))"
        ),
        lambda found: in_case(int(found["n"]), LANGUAGES["ru"], "g"),
    ),
    (  # двигатель 1.6
        re.compile(r"(?P<of>\b[Дд]вигател[ьяюе]м?\s)(?P<a>\d)\.(?P<b>\d)(?!\w|[.,]\d)"),
        lambda found: f"{found['of']}{_number(found['a'])} и {_number(found['b'])}",
    ),
    (  # СКФ 58 мл/мин/1,73 м²
        re.compile(r"(?<![\w.,])(?P<n>\d{1,3})\sмл/мин/1,73\sм²"),
        lambda found: (
            f"{_number(found['n'])} миллилитр"
            f"{'' if is_one(int(found['n'])) else 'а' if _few(int(found['n'])) else 'ов'} в минуту "
            "на одну целую семьдесят три сотых квадратного метра"
        ),
    ),
    (  # 48 В и 20 А·ч
        re.compile(r"(?<![\w.,])(?P<n>\d{1,3})\sВ(?=\s(?:и|или|до|при|с)\s\d|[,;)])"),
        lambda found: f"{found['n']} вольт{'а' * _few(int(found['n']))}",
    ),
    (  # скорость обучения 1e-4
        re.compile(r"(?<![\w.,/-])(?P<n>\d)[eE][-−](?P<power>\d{1,2})(?!\w|[.,]\d)"),
        lambda found: (
            f"{'' if found['n'] == '1' else _number(found['n']) + ' умножить на '}десять в минус "
            f"{ordinal(int(found['power']), LANGUAGES['ru'], case='p', gender='f')} степени"
        ),
    ),
    (  # со 150/95 до 132/84 мм рт. ст.
        re.compile(
            r"(?P<with>(?<!\w)[Сс]о?\s)?(?<![\w.,/-])(?P<a>\d{2,3})/(?P<b>\d{2,3})"
            r"(?:(?=\s[а-я]{1,2}\s\d{2,3}/\d{2,3}\sмм\sрт)|(?P<unit>\sмм\sрт\.\s?ст\.?))"
        ),
        lambda found: (
            f"{found['with'] or ''}{_number(found['a'])} на {_number(found['b'])}"
            f"{_MERCURY[_few(int(found['b']))] if found['unit'] else ''}"
        ),
    ),
    (
        re.compile(r"(?<=\b[Нн]а )с\.\s?(?P<a>\d{1,4})[–-](?P<b>\d{1,4})(?![\w.,-]\d)"),
        lambda found: f"страницах {_number(found['a'])} — {_number(found['b'])}",
    ),
    (
        re.compile(r"(?<![\w.,/–-])(?P<a>\d{1,2})[–-](?P<b>\d{1,2})(?=\s(?:класс|курс)(?P<end>ах|ов|ы|ами|ам)\b)"),
        lambda found: " — ".join(_of_many(int(found[each]), found["end"]) for each in "ab"),
    ),
    (  # в ночь с 24 на 25 декабря
        re.compile(rf"(?<=\bс )(?P<n>[12]?\d|3[01])(?= на (?:[12]?\d|3[01]) (?:{MONTHS})\b)"),
        lambda found: ordinal(int(found["n"]), LANGUAGES["ru"], case="g", gender="m"),
    ),
    (  # её 10-й титул
        re.compile(
            r"(?<![\w.,-])(?P<n>\d{1,4})-й"
            r"(?=\s(?!(?:пол|мин|сек|час)\b|(?:без|над|под|через|перед|как)\b)[а-яё]{2,}[бвгджзйклмнпрстфхцчшщ](?!\w))"
        ),
        lambda found: ordinal(int(found["n"]), LANGUAGES["ru"], case="n", gender="m"),
    ),
    (  # при Николае II
        re.compile(rf"(?<!\w)(?P<name>(?:{_STEMS_OF_RULERS})(?P<end>а|я|у|ю|ом|ем|е))\s(?P<roman>[IVX]+)(?![\w-])"),
        lambda found: (
            f"{found['name']} "
            + ordinal(arabic(found["roman"]), LANGUAGES["ru"], case=_CASES_OF_ENDINGS[found["end"]], gender="m")
        ),
    ),
    (  # со II кварталом, в III туре
        re.compile(rf"(?<![\w.,-])(?P<roman>[IVX]+)\s(?=(?:{_NUMBERED})(?P<end>а|у|ом|ем|е)(?!\w))"),
        lambda found: (
            ordinal(arabic(found["roman"]), LANGUAGES["ru"], case=_CASES_OF_ENDINGS[found["end"]], gender="m") + " "
        ),
    ),
    (  # XV фестиваль, XXII Олимпийские игры
        re.compile(
            r"(?<![\w.,-])(?P<roman>[IVX]{2,})\s(?=[А-Яа-яё]{2,}(?:(?P<many>[иы][ех])|[бвгджзйклмнпрстфхцчшщ]|стиваль)(?<!ов)(?<!ев)(?<!ей)(?<!\sв)(?!\w|\.))"
        ),
        lambda found: _before_roman(found) + " ",
    ),
    (  # пользуюсь 2 года
        re.compile(r"(?<=[юуе]сь )(?P<n>\d{1,2})(?=\s(?P<noun>год|лет|месяц|недел|дн|час|минут))"),
        lambda found: cardinal(found["n"], LANGUAGES["ru"], "минута" if found["noun"] in ("недел", "минут") else "час"),
    ),
    (  # оценка 5/5
        re.compile(r"(?<![\w.,/-])(?P<n>5|10)/(?P=n)(?![\w/]|[.,]\d)"),
        lambda found: f"{_number(found['n'])} из {in_case(int(found['n']), LANGUAGES['ru'], 'g')}",
    ),
    (  # поезд № 016
        re.compile(r"(?<=№ )0(?P<n>[1-9]\d{0,2})(?![\w.,-]\d|\w)"),
        lambda found: f"ноль {_number(found['n'])}",
    ),
    (  # по сравнению с 2022 г.
        re.compile(r"(?<=авнению с )(?P<n>(?:1\d|20)\d\d)\s(?:г\.|годом)(?=(?P<after>.{0,3}))"),
        lambda found: f"{ordinal(int(found['n']), LANGUAGES['ru'], case='i', gender='m')} годом",
    ),
    (  # от 0,5 до 5
        re.compile(rf"(?P<of>(?<!\w){GENITIVE}\s)0,(?P<d>\d)(?=\sдо\s\d)"),
        lambda found: (
            f"{found['of']}нуля целых "
            + ("одной десятой" if found["d"] == "1" else f"{in_case(int(found['d']), LANGUAGES['ru'], 'g')} десятых")
        ),
    ),
    (re.compile(r"(?<=,\s)д\.\s?(?=\d{1,4}[а-я]?(?:[,.;]|$))"), lambda _: "дом "),
    (  # в возрасте от 25 до 41 года
        re.compile(r"(?<=\b[Оо]т )(?P<a>\d{1,2}) до (?P<b>\d{1,2})(?=\s(?:года|лет)(?!\w))"),
        lambda found: " до ".join(in_case(int(found[each]), LANGUAGES["ru"], "g") for each in "ab"),
    ),
    (  # Иванов, 54 лет, whose noun tells the genitive, but 22 года, 5 лет
        re.compile(r"(?P<before>[^\s,]+,\s)(?P<n>\d{1,3})(?=\sлет[,.)])"),
        lambda found: (
            found["before"]
            + (
                _number(found["n"])
                if re.match(r"(?:лет|год|месяц|недел|дн|день)", found["before"])
                else in_case(int(found["n"]), LANGUAGES["ru"], "g")
            )
        ),
    ),
    (  # с 1 другом
        re.compile(
            r"(?:(?<=\b[Сс] )|(?<=перед )|(?<=\bпод )|(?<=\bнад ))"
            r"(?P<n>(?:\d{0,2}[02-9])?1)(?=\s(?:[а-яё]+[ыи]м\s)?[а-яё]+[оеё]м(?!\w))"
        ),
        lambda found: in_case(int(found["n"]), LANGUAGES["ru"], "i"),
    ),
    (  # забил 21 гол, экзамен сдали 21
        re.compile(
            r"(?<![\w.,:/–-])(?P<n>(?:\d{0,2}[02-9])?1)(?=\s(?!(?:руб|коп|тыс|млн|млрд|табл|капс|чел|мин|сек|шт|экз|стр|мес|нед|сут|янв|февр?|апр|авг|сент?|окт|нояб?|дек)\b)[а-яё]{2,}[бвгджзклмнпрстфхцчшщ](?!\w))|"
            r"(?<=[а-яё]л[иао] )(?P<alone>(?:\d{0,2}[02-9])?1)(?=[.;!?]?$|[.;!?]\s[А-ЯЁ])"
        ),
        lambda found: _number(found["n"] or found["alone"]),
    ),
    (_TURN, lambda found: found["way"] + {"ул": "улицу", "пл": "площадь", "просп": "проспект"}[found["short"]]),
    (re.compile(r"(?<=\b[Нн]а )ул\.(?=\s?\d)"), lambda _: "улице"),
    (  # дом 70-х годов, of which the library makes a house's number
        re.compile(r"(?<![\w.,-])(?P<n>[2-9]0)-х(?=\s(?:годов|годах))"),
        lambda found: ordinal(int(found["n"]), LANGUAGES["ru"], case="g", gender="m").removesuffix("ого") + "ых",
    ),
    (
        re.compile(r"(?<![\w.,/-])(?P<a>(?:19|20)\d\d)/(?P<b>\d\d)(?![\w/]|[.,]\d)"),
        lambda found: f"{_number(found['a'])} — {_number(found['b'])}",
    ),
    (
        re.compile(
            rf"(?P<of>{GENITIVE}\s)?(?<![\w.,])1,5\s?(?P<unit>{'|'.join(_OF_HALVES)})(?![\w/²³]|\.\s?л)(?:(?<=мин)\.(?=[,;)]|\s[а-яё]))?"
        ),
        lambda found: (
            f"{found['of']}полутора {_OF_HALVES[found['unit']][1]}"
            if found["of"]
            else f"полтор{'ы' if found['unit'] in ('т', 'мин') else 'а'} {_OF_HALVES[found['unit']][0]}"
        ),
    ),
    (re.compile(rf"(?P<of>{GENITIVE}\s)?(?<![\w.,])1,5(?=\s(?P<noun>[а-яё]+)(?!\w))"), _one_and_a_half),
    (
        re.compile(r"(?<=[Бб]ез четверти )(?P<n>1?\d)(?![\w:,]|\.\d)"),
        lambda found: _number(found["n"]),
    ),
    (re.compile(r"(?P<at>\b[Вв]о\s)?(?<![\w.,])(?P<n>[12])-(?P<end>[йяю])\sпол\.(?=\s)"), _half_of),
    (re.compile(r"(?P<of>\b[Вв]о?\s[IVX]{1,3}\s)кв\."), lambda found: f"{found['of']}квартале"),
    (
        re.compile(
            rf"(?P<of>(?:\b[Сс]о? \d{{1,2}} (?:{MONTHS}) |(?<!\d )\b)[Пп]о )(?P<n>[12]?\d|3[01])(?= (?:{MONTHS})\b)"
        ),
        lambda found: found["of"] + ordinal(int(found["n"]), LANGUAGES["ru"], case="n", gender="n"),
    ),
    (
        re.compile(rf"(?<=\b[Мм]ежду )(?P<a>[12]?\d|3[01]) и (?P<b>[12]?\d|3[01])(?= (?:{MONTHS})\b)"),
        lambda found: " и ".join(ordinal(int(found[each]), LANGUAGES["ru"], case="i", gender="n") for each in "ab"),
    ),
    (
        re.compile(r"(?<![\w.,/-])(?P<letters>[МР])(?P<n>\d{1,3})(?![\w.,]\d|\w)"),  # of a road
        lambda found: f"{found['letters']}-{_number(found['n'])}",
    ),
    (
        re.compile(r"(?<=№ )(?P<court>[А-Я]{0,2})(?P<a>\d{1,4})-(?P<b>\d{1,6})/(?P<c>\d{2,4})(?![\w/-])"),
        lambda found: (
            f"{found['court']}{'-' * bool(found['court'])}{_number(found['a'])}, "
            f"{_number(found['b'])} дробь {_number(found['c'])}"
        ),
    ),
    (  # 6 × 10²⁴ кг, 10⁶ м²
        re.compile(
            r"(?:(?P<by>(?<=\d)\s?[×xх·*]\s?)|(?<![\w.,]))(?P<base>\d{1,6})(?P<minus>⁻?)(?P<power>[⁰¹²³⁴-⁹]+)"
            rf"(?:\s(?P<unit>{'|'.join(map(re.escape, _UNITS_OF_POWERS))})(?P<area>[²³23]?)(?!\w))?(?!\w)"
        ),
        _power,
    ),
    (  # ноутбук с 16 ГБ, but с 8 ГБ до 16 ГБ
        re.compile(
            rf"(?<=[\w\"”)] )(?P<with>со?)\s(?P<n>\d{{1,4}})\s?(?P<unit>{'|'.join(_PARTS)})(?!\w)(?!\s(?:до|на)\s\d)"
        ),
        _equipped,
    ),
    (
        re.compile(rf"(?<![\w.,])(?P<n>\d{{1,5}})(?P<part>,\d{{1,3}})?\s?(?P<unit>{'|'.join(_UNITS)})(?!\w)"),
        _unit,
    ),
    (
        re.compile(r"(?<=\b[Вв]\s)(?P<n>\d{1,3})(?=\sиз\s\d)"),
        lambda found: in_case(int(found["n"]), LANGUAGES["ru"], "p"),
    ),
    (  # 1,5 ст. л.
        re.compile(r"(?<![\w.,])1,5\s(?P<which>ст|ч)\.\s?л\.?(?![\w])"),
        lambda found: f"полторы {SPOONS[found['which']][2]} ложки",
    ),
    (
        re.compile(rf"(?<!\w)(?P<name>{_RULERS})\s(?P<roman>[IVX]+)(?![\w-])"),
        lambda found: f"{found['name']} {ordinal(arabic(found['roman']), LANGUAGES['ru'], case='n', gender='m')}",
    ),
    (  # растворить в 100 мл
        re.compile(
            r"(?P<verb>(?i:раств|разве|замоч|вари|отвари|кипят)\w+\s[^.!?\d]*(?:\d[^.!?\d]*){0,3}\sв\s)"
            r"(?P<n>\d{1,4})\s(?P<unit>мл|л)(?!\w)"
        ),
        lambda found: (
            f"{found['verb']}{in_case(int(found['n']), LANGUAGES['ru'], 'p')} {'милли' * (found['unit'] == 'мл')}литрах"
        ),
    ),
)
