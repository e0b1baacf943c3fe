"""Chinese numbers: 10001 as 一万零一, 250 as 二百五十; years, rooms, plates and names digit by digit."""

from __future__ import annotations

import re
from collections.abc import Callable

from voxyard.speech.reading.languages import Language
from voxyard.speech.reading.patterns import guard

_DIGITS = "零一二三四五六七八九"
_PLACES = ("千", "百", "十", "")
_GROUPS = ("", "万", "亿", "万亿")
TWO_OF = (
    "个位名只条本件张把杯瓶碗块间座栋辆台部种类次回遍趟天周年岁分小公千百米倍家所双对句首篇幅套头匹棵朵封排批层万亿斤里克口根架艘枚滴盒包袋片颗支球场粒晚夜"
    "桶代国人者方边元美欧"
)
"""Words before which 2 is 两."""


def cardinal(number: int) -> str:
    """A whole number in Chinese words."""
    if number == 0:
        return _DIGITS[0]
    groups = [number // 10_000**power % 10_000 for power in range(4)]
    said = ""
    for power in range(3, -1, -1):
        if not groups[power]:
            continue
        if said and groups[power] < 1000:
            said += _DIGITS[0]
        said += _group(groups[power], first=not said) + _GROUPS[power]
    return said


def _group(number: int, *, first: bool) -> str:
    said, zero = "", False
    for place, digit in zip(_PLACES, f"{number:04}", strict=True):
        if digit == "0":
            zero = bool(said)
            continue
        said += (_DIGITS[0] if zero else "") + _DIGITS[int(digit)] + place
        zero = False
    return said.removeprefix("一") if first and said.startswith("一十") else said


def one_by_one(digits: str) -> str:
    """Digits as a year or a room is read: 二零二四."""
    return "".join(_DIGITS[int(digit)] for digit in digits)


_CRAFT = "歼轰运直苏图格风旗击舟娥音客征"  # last letters of names of aircraft and rockets: 歼-20
_FEASTS = "劳动节|国庆|购物节|晚会|黄金周|假期|小长假|大促|地震|促销"


def patterns(language: Language) -> list[tuple[re.Pattern[str], Callable[[re.Match[str]], str | None]]]:
    """Figures that are read digit by digit or stand in an order, with their words, and the 2 of what is counted."""
    start, to = guard(language), language.to
    years = rf"{start}([12]\d{{3}})(?:(?:-|–|~|～|至|到)([12]\d{{3}}))?(?=年(?!间隔|级))"
    room = rf"{start}(?P<n>\d{{3,4}})(?=室|号房|房间|号楼|路|次列车|航班)"
    standard = r"(?:(?<=\bGB )|(?<=\bGB/T )|(?<=\bGB)|(?<=\bGB/T)|(?<=\bISO )|(?<=\bIEC ))(\d{3,5})[-—](\d{4})(?!\d)"
    plate = r"(?<=[京津沪渝冀豫云辽黑湘皖鲁新苏浙赣鄂桂甘晋蒙陕吉闽贵粤青藏川宁琼][A-Z]·)(?P<n>\d{5})(?!\d)"
    born = rf"{start}(?P<n>[06789][05])(?=后(?![来面天]))|{start}(?P<m>985|211)(?=[\"”]?(?:高校|大学|院校|工程))"
    feast = rf"{start}(\d{{1,2}})\.(\d{{1,2}})(?={_FEASTS})"

    def digits(found: re.Match[str]) -> str:
        return one_by_one(found["n"] or found["m"]) if "m" in found.re.groupindex else one_by_one(found["n"])

    def day(found: re.Match[str]) -> str:
        if found[1] == found[2]:
            return f"双{cardinal(int(found[1]))}"  # 11.11
        return cardinal(int(found[1])) + (one_by_one(found[2]) if len(found[2]) == 2 else cardinal(int(found[2])))

    return [
        (
            re.compile(rf"{start}(1[0-9]\d\d)[-–~～](1[0-9]\d\d|20\d\d)(?=[，。；、）)》]|$)"),
            lambda found: to.join(map(one_by_one, found.groups())),
        ),
        (re.compile(years), lambda found: to.join(one_by_one(each) for each in found.groups() if each)),
        (re.compile(r"(?:(?<=公元)|(?<=公元前))(?P<n>\d{1,2}00)(?=年)"), lambda found: cardinal(int(found["n"]))),
        (re.compile(r"(?:(?<=公元)|(?<=公元前))(?P<n>\d{1,4})(?=年)"), digits),
        (
            re.compile(rf"{start}([1-9])米([1-9]\d)(?![\d.厘]|厘米)"),
            lambda found: f"{cardinal(int(found[1]))}米{one_by_one(found[2])}",
        ),
        (re.compile(rf"{start}(?P<n>1[3-9]\d{{9}})(?!\d)"), digits),  # a mobile phone
        (re.compile(room), digits),
        (re.compile(plate), digits),
        (re.compile(r"(?<=[元美])/(?=[吨亩斤人天月年台件个次位瓶])"), lambda _: "每"),
        (re.compile(born), digits),
        (  # -8~-6℃
            re.compile(rf"{start}[-−](?P<n>\d{{1,2}})(?=[~～到至][-−]\d{{1,2}}(?:℃|°C|度|摄氏度))"),
            lambda found: f"零下{cardinal(int(found['n']))}",
        ),
        (  # 波音737-800
            re.compile(r"(?:(?<=波音)|(?<=空客)|(?<=麦道))(\d{2,3})(?:-(\d{1,4}))?(?![\d.])"),
            lambda found: "杠".join(map(one_by_one, filter(None, found.groups()))),
        ),
        (  # 2019.09—2021.06
            re.compile(
                rf"{start}((?:19|20)\d\d)\.(0?[1-9]|1[0-2])\s?[-–—~～至到]\s?((?:19|20)\d\d)\.(0?[1-9]|1[0-2])(?![\d.])"
            ),
            lambda found: to.join(f"{one_by_one(found[n])}年{cardinal(int(found[n + 1]))}月" for n in (1, 3)),
        ),
        (re.compile(feast), day),
        (re.compile(standard), lambda found: f"{one_by_one(found[1])}杠{one_by_one(found[2])}"),
        (re.compile(rf"(?<=[{_CRAFT}])-(?P<n>\d{{1,3}})(?![\d.])(?={_NO_COUNT})"), _craft),
        (re.compile(r"(?<![A-Za-z0-9])(?:No|NO)\.\s?(\d{1,3})(?![\d.])"), lambda found: f"第{cardinal(int(found[1]))}"),
        (
            re.compile(
                rf"(?<!第)(?<![-–~～〜]){start}2(?!(?<=在2)层|(?<=[层楼]和2)层|(?<=[A-Z区场厦心园苑城]2)座)(?=[{TWO_OF}]|点(?!\d(?!刻)))"
            ),
            lambda _: "两",
        ),
    ]


_NO_COUNT = r"[^℃°%个\d]|$"


def _craft(found: re.Match[str]) -> str:
    """歼-20, whose hyphen is no minus."""
    return one_by_one(found["n"]) if len(found["n"]) == 3 else cardinal(int(found["n"]))
