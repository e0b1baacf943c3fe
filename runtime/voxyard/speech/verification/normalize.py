"""A text as the words that are heard of it: one spelling for what sounds the same, without case and punctuation."""

from __future__ import annotations

import re
import unicodedata

from voxyard.speech.verification.numerals import spelled

_CUE = re.compile(r"\[[^\[\]]{0,40}\]|<[a-z/]{1,10}>|♪")  # [laughs] tells the voice how, [NOISE] is what was no word
_APOSTROPHE = re.compile(r"(?<=[^\W\d_])['’ʼ`](?=[^\W\d_])")  # don't, l’eau
_TURKISH = str.maketrans({"I": "ı", "İ": "i"})
_ENGLISH = {"mr": "mister", "mrs": "missus", "dr": "doctor", "vs": "versus", "&": "and", "ok": "okay"}
_CHINESE_JAPANESE_KOREAN = (  # ranges of characters that count one by one
    (0x3005, 0x3007),  # 々〆〇
    (0x3040, 0x30FF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A3),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)


def spoken_words(text: str, language: str | None = None) -> list[str]:
    """Words in lower case; Chinese, Japanese and Korean by characters, whose blanks nobody hears.

    Numbers are spelled out in English; in other languages they stay figures. Cues in brackets are left out.

    Args:
        text: what is written, by an author or by a recogniser.
        language: a code such as `en` or `pt-BR`; None is taken for English.
    """
    code = re.split(r"[-_]", language.lower())[0] if language else "en"
    plain = unicodedata.normalize("NFKC", text)
    plain = _APOSTROPHE.sub("", _CUE.sub(" ", plain))
    if code == "en":
        plain = spelled(plain)
    if code == "tr":
        plain = plain.translate(_TURKISH)
    words = "".join(_letter(each) for each in plain.casefold()).split()
    return [_ENGLISH.get(word, word) for word in words] if code == "en" else [word for word in words if word != "&"]


def _letter(character: str) -> str:
    """Role of a character in a word: itself, a word of its own, a gap, or nothing."""
    category = unicodedata.category(character)
    if category == "Cf":
        return ""  # joiners and soft hyphens
    if character == "&":
        return " & "
    if category[0] not in "LMN":
        return " "
    alone = any(low <= ord(character) <= high for low, high in _CHINESE_JAPANESE_KOREAN)
    return f" {character} " if alone else character
