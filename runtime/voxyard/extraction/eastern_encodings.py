"""Encodings of short texts of East Asia, which the frequency of their letters does not tell: by the rows in use."""

from __future__ import annotations

_MOST_PAIRS = 400  # in a longer text the letters are counted
_FEWEST_PAIRS = 2
_FEWEST_HANGUL = 4  # of fewer, Chinese is as likely, and far more common
_COMMON = 0.85  # of the signs of a text are in the rows of common ones
_MOSTLY = 0.75
_KANA = 0.3  # of the signs of Japanese are kana, at least
_EUC = 0xA1  # the first byte of both halves in the encodings derived from ISO 2022
_PUNCTUATION = range(0xA1, 0xA4)
_CAPITALS = range(0xC0, 0xE0)  # of Cyrillic and Greek: two of them look like a pair
_EUC_KANA = range(0xA4, 0xA6)
_HANGUL = range(0xB0, 0xC9)
_GB_COMMON = range(0xB0, 0xD8)
_BIG5_COMMON = range(0xA4, 0xC7)
_SJIS_COMMON = (*range(0x81, 0x85), *range(0x88, 0x98))


def eastern_encoding(data: bytes) -> str | None:
    """Encoding of a short text of East Asia by the rows that its signs are in; None where these do not tell it."""
    pairs = _pairs(data)
    if not _FEWEST_PAIRS <= len(pairs) <= _MOST_PAIRS:
        return None
    leads, ends = [lead for lead, _ in pairs], [end for _, end in pairs]
    signs = [lead for lead in leads if lead not in _PUNCTUATION]
    if sum(lead in _CAPITALS and end in _CAPITALS for lead, end in pairs) > _MOSTLY * len(pairs):
        return None
    if min(leads) < _EUC:
        return "cp932" if _share(leads, _SJIS_COMMON) >= _COMMON else None
    if min(ends) < _EUC:
        return "big5" if _share(signs, _BIG5_COMMON) >= _COMMON else None
    if _share(leads, _EUC_KANA) >= _KANA:
        return "euc_jp"
    if len(signs) >= _FEWEST_HANGUL and _share(signs, _HANGUL) == 1:
        return "cp949"
    return "gb18030" if _share(signs, _GB_COMMON) >= _COMMON else None


def _pairs(data: bytes) -> list[tuple[int, int]]:
    """The first bytes of a text in pairs, but for ASCII; none of what is not in pairs."""
    found: list[tuple[int, int]] = []
    at = 0
    while at < len(data) and len(found) <= _MOST_PAIRS:
        if data[at] < 0x80:
            at += 1
            continue
        if at + 1 == len(data) or data[at + 1] < 0x40:
            return []
        found.append((data[at], data[at + 1]))
        at += 2
    return found


def _share(leads: list[int], rows: range | tuple[int, ...]) -> float:
    return sum(lead in rows for lead in leads) / len(leads) if leads else 0.0
