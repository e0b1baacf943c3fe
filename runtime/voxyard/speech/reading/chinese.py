"""Chinese numbers: 10001 as 一万零一, 250 as 二百五十."""

from __future__ import annotations

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
