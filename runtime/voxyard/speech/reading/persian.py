"""Persian figures: its digits, dates of both calendars, decimals with a slash, ordinals."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date

from voxyard.speech.reading.languages import Language
from voxyard.speech.reading.number_words import cardinal, decimal, ordinal

Reading = tuple[re.Pattern[str], Callable[[re.Match[str]], str | None]]

LETTERS = str.maketrans("٫٬٪يك", ".,%یک")
"""Signs of figures, and Arabic letters that are typed for Persian ones, each as one character."""

_ZWNJ = "\N{ZERO WIDTH NON-JOINER}"
_SOLAR = ["فروردین", "اردیبهشت", "خرداد", "تیر", "مرداد", "شهریور", "مهر", "آبان", "آذر", "دی", "بهمن", "اسفند"]
_GREGORIAN = [
    "ژانویه", "فوریه", "مارس", "آوریل", "مه", "ژوئن", "ژوئیه", "اوت", "سپتامبر", "اکتبر", "نوامبر", "دسامبر",
]  # fmt: skip
_OTHER_MONTHS = [
    "جولای",
    "جون",
    "آگوست",
    "امرداد",
    "محرم",
    "رجب",
    "شعبان",
    "رمضان",
    "شوال",
]  # also of the lunar calendar
_ERAS = {"ش": "شمسی", "م": "میلادی", "ق": "قمری"}
_SIGNS = {"-": "منفی", "+": "مثبت"}
_SOLAR_YEARS = range(1200, 1500)
_DAY, _MONTH, _YEAR = r"(?P<day>\d{1,2})", r"(?P<month>\d{1,2})", r"(?P<year>\d{4})"
_USUAL = {(1, 2), (1, 3), (2, 3), (1, 4), (3, 4)}  # which are parts of a whole, unless something measured follows
_MEASURED = re.compile(r"\s?(?:ریشتر|درصد|هزار|می?لی|متر|کیلو|برابر|نفر|درجه|دلار|تومان|ریال|یورو|تن\b|گرم|لیتر|از\b)")


def dates(language: Language) -> list[Reading]:
    """۱۴۰۳/۰۵/۱۲ of the solar calendar, 2024-03-05 of the Gregorian one, ۵ مرداد."""

    def whole(found: re.Match[str]) -> str | None:
        year, month, day = (int(found[name]) for name in ("year", "month", "day"))
        if not _is_day(year, month, day):
            return None
        name = (_SOLAR if year in _SOLAR_YEARS else _GREGORIAN)[month - 1]
        return f"{ordinal(day, language)} {name} {cardinal(str(year), language)}"

    def of_month(found: re.Match[str]) -> str | None:
        return ordinal(int(found["day"]), language) if 1 <= int(found["day"]) <= 31 else None

    before, after = r"(?<![\w.,:/-])", r"(?![\w/-]|[.,:]\d)"
    sign = r"(?P<sign>[/.-])"
    after_low = r"(?=\s(?:درجه|سانتی‌?گراد|و\s\d|تا\s[+-]?\d))"
    low = rf"(?<![\d-])(?P<n>\d{{1,2}})(?P<sign>[-+]){after_low}"  # the sign stands after the figure
    months = "|".join([*_SOLAR, *_GREGORIAN, *_OTHER_MONTHS, r"می(?=\s\d{4})"])
    return [
        (re.compile(rf"{before}{_YEAR}{sign}{_MONTH}(?P=sign){_DAY}{after}"), whole),
        (re.compile(rf"{before}{_DAY}{sign}{_MONTH}(?P=sign){_YEAR}{after}"), whole),
        rulers(language),
        (
            re.compile(r"(?<=\d\d\d\d)\s?(?P<era>[شمق])(?![\w‌]|\.?\s?م)(?P<stop>\.(?!\s*$))?"),
            lambda found: f" {_ERAS[found['era']]}",
        ),
        (re.compile(low), lambda found: f"{_SIGNS[found['sign']]} {cardinal(found['n'], language)}"),
        (re.compile(rf"(?<=از ){_DAY}(?= تا \d{{1,2}}\s(?:{months})(?![\w{_ZWNJ}]))"), of_month),
        (re.compile(rf"{before}{_DAY}(?=\s(?:{months})(?![\w{_ZWNJ}]))"), of_month),
    ]


def _is_day(year: int, month: int, day: int) -> bool:
    if year in _SOLAR_YEARS:
        return 1 <= month <= 12 and 1 <= day <= (31 if month <= 6 else 30)
    try:
        date(year, month, day)
    except ValueError:
        return False
    return True


def decimals(language: Language) -> list[Reading]:
    """۳/۵, which is three and a half; a usual part of a whole is none: ۱/۲."""

    def words(found: re.Match[str]) -> str | None:
        if _ON_A_DAY.search(found.string[max(0, found.start() - 12) : found.start()]):
            return f"{cardinal(found['whole'], language)} {cardinal(str(int(found['part'])), language)}"  # روز ۷/۱۲
        before, after = found.string[max(0, found.start() - 40) : found.start()], found.string[found.end() :][:60]
        usual = (int(found["whole"]), int(found["part"])) in _USUAL
        cooked = _COOKED.search(before + after) is not None and re.match(r"\s?(?:کیلو|لیتر)\b", after) is not None
        told = _SHARED.search(before) or _OF_ALL.match(after)
        if (told and int(found["whole"]) < int(found["part"])) or (
            usual and (cooked or _MEASURED.match(found.string, found.end()) is None)
        ):
            return fraction(int(found["whole"]), int(found["part"]), language)
        return decimal(found["whole"], found["part"], language)

    return [(re.compile(r"(?<![\w.,:/-])(?P<whole>\d{1,3})/(?P<part>\d{1,3})(?![\w/-]|[.,:]\d)"), words)]


_COOKED = re.compile("قاشق|پیمانه|لیوان|فنجان|استکان")
_SHARED = re.compile(r"(?:سهم|کسر|ارث)[^.،؛\d]{0,24}$")
_OF_ALL = re.compile(r"\s?(?:از\s)?(?:جمعیت|مردم|کشور|خانوار|کل)\b")
_ON_A_DAY = re.compile(r"(?:روز|تاریخ|مورخ|مورخه|پلاک|شماره)\s?:?\s?$")
_RULERS = [
    "لویی", "هنری", "ادوارد", "جرج", "جورج", "چارلز", "ویلیام", "الیزابت", "فیلیپ", "ناپلئون",
    "نیکلای", "الکساندر", "کاترین", "پل", "بندیکت", "پیوس", "داریوش", "اردشیر", "شاپور", "یزدگرد",
    "خسرو", "سلیمان", "مراد", "عباس", "طهماسب", "اسماعیل",
]  # fmt: skip


def rulers(language: Language) -> Reading:
    """لویی ۱۴, the fourteenth of the name."""
    names = "|".join(rf"(?<=(?<!\w){each} )" for each in _RULERS)
    counted = "سال|نفر|بار|ساعت|روز|ماه|تا|و|در صد|گل|فرزند"
    pattern = rf"(?:{names})(?P<n>[1-9]|1\d|2[0-3])(?=\s(?!{counted})|[،.؛!؟]|$)(?!\.\d)"
    return re.compile(pattern), lambda found: ordinal(int(found["n"]), language) if found["n"] != "1" else "اول"


def fraction(above: int, below: int, language: Language) -> str:
    """یک سوم, سه چهارم, نیم."""
    if (above, below) == (1, 2):
        return "نیم"
    return f"{cardinal(str(above), language)} {ordinal(below, language)}"


def ordinals(language: Language) -> list[tuple[str, Callable[[re.Match[str]], str | None]]]:
    """۵م, ۲۱ام, ۱۰مین."""
    ending = rf"(?P<n>\d{{1,6}})[{_ZWNJ}-]?(?:اُ?)?م(?P<more>ین)?(?![\w{_ZWNJ}])"

    def words(found: re.Match[str]) -> str:
        return ordinal(int(found["n"]), language) + (found["more"] or "")

    return [(ending, words)]


def percent_before(language: Language) -> list[Reading]:
    """٪۵۰, with the sign where it stands in a line from right to left."""
    pattern = re.compile(r"(?<![\w%])%\s?(?P<whole>\d+)(?:\.(?P<part>\d+))?(?![\w%]|[.,]\d)")
    return [(pattern, lambda found: f"{decimal(found['whole'], found['part'] or '', language)} درصد")]
