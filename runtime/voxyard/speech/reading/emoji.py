"""Emoji: silent, or by their short names where these are asked for and the language has them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping

from voxyard.speech.reading.languages import Language
from voxyard.speech.reading.number_words import cardinal
from voxyard.speech.reading.tables import table

Words = Callable[[re.Match[str]], str | None]

_EMOJI = (
    r"[\U0001F1E6-\U0001F1FF\U0001F300-\U0001FAFF\u2600-\u2669\u2670-\u26FF\u2700-\u27BF\u2B50\u2B55\u231A\u231B\u23E9-\u23FA]"
    r"[\uFE0F\u200D\u20E3\U0001F3FB-\U0001F3FF\U000E0020-\U000E007F\U0001F1E6-\U0001F1FF\U0001F300-\U0001FAFF\u2600-\u27BF]*"
)
_KEYCAP = r"(?<![\w#*])(?P<key>[0-9])\ufe0f?\u20e3"
_FLAG = re.compile("[\U0001f1e6-\U0001f1ff]{2}")
_FIRST_LETTER = 0x1F1E6
_PARTS_OF_ONE = re.compile("[\ufe0f\u200d\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]")

_WEEK = "月火水木金土日"
_DATED = ((0x32C0, 0x32CB, "月"), (0x33E0, 0x33FE, "日"), (0x322A, 0x3230, _WEEK), (0x328A, 0x3290, _WEEK))  # ㋉㏠㈪


def patterns(code: str) -> list[tuple[re.Pattern[str], Words]]:
    """A pattern of emoji, and their names; none where the language has no names."""
    own = table(code).emoji
    if not own:
        return []

    def named(found: re.Match[str]) -> str:
        before = found.string[max(0, found.start() - 1) : found.start()]
        after = found.string[found.end() : found.end() + 1]
        flags, rest = _FLAG.findall(found[0]), _FLAG.sub("", _PARTS_OF_ONE.sub("", found[0]))
        names = ", ".join(
            dict.fromkeys([*map(_flag, flags), *(_name(each, own) for each in rest if not each.isspace())])
        )
        return (" " if before.isalnum() else "") + names + (" " if after.isalnum() else "")

    return [(re.compile(rf"{_EMOJI}(?:[^\S\n]?{_EMOJI})*"), named)]


def _flag(letters: str) -> str:
    """The country's name: flag of Germany."""
    from babel import Locale

    code = "".join(chr(ord(each) - _FIRST_LETTER + ord("A")) for each in letters)
    return f"flag of {Locale('en').territories.get(code, code)}"


def keycaps(language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """A key or a number in a circle: its figure, which is text; # and * are silent as other emoji are."""

    def words(found: re.Match[str]) -> str:
        return cardinal(found["key"], language)

    def circled(found: re.Match[str]) -> str:
        said = cardinal(str(int(unicodedata.numeric(found[0]))), language)
        return said + (language.comma.rstrip() if language.spaced else "、") * (found["item"] is not None)

    item = r"\s" if language.spaced else r"[^\W\dのとをはがに]"
    number = rf"(?:(?P<item>(?<![^\s.。!?！？])[①-⑳❶-❿⓫-⓴](?={item}))|[①-⑳❶-❿⓫-⓴])"
    sign = r"[^\S\n]?(?<![\w#*])[#*]\ufe0f?\u20e3"

    def dated(found: re.Match[str]) -> str:
        sign = ord(found[0])
        for first, last, word in _DATED:
            if first <= sign <= last:
                number = cardinal(str(sign - first + 1), language)
                return f"{number}{word}" if len(word) == 1 else f"{word[sign - first]}曜日"
        return found[0]

    days = [(re.compile("[㋀-㋋㏠-㏾㈪-㈰㊊-㊐]"), dated)] if language.locale == "ja" else []
    return [*days, (re.compile(_KEYCAP), words), (re.compile(number), circled), (re.compile(sign), lambda _: "")]


def _name(sign: str, own: Mapping[str, str]) -> str:
    return own.get(sign) or unicodedata.name(sign, "emoji").lower().removesuffix(" sign")


def silent() -> list[tuple[re.Pattern[str], Words]]:
    """A pattern of emoji, which are left out with the blank before them."""
    return [(re.compile(rf"[^\S\n]?{_EMOJI}(?:[^\S\n]?{_EMOJI})*"), lambda _: "")]
