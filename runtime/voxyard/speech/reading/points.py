"""Decimals with a point where the language writes a comma: 3.5 °C, 2.4 GHz, 1.5 Millionen, p = 0.05."""

from __future__ import annotations

import re

_LANGUAGES = ("de", "fr", "es", "it", "pt", "nl", "pl", "ru", "tr", "sv")
_UNITS = (
    r"°[CF]|[%‰]|[kcmµ]?m[²³]?|[kmµ]?g|[mcd]?l|[kKMGT]i?B|[kMG]?Hz|[kMGT]?Wh?|[km]?V|m?A|[kmM]?J|kcal|km/h|m/s|"
    r"[kMG]?bit/s|[KMG]bps|hPa|bar|ha|kN|dB|px|kΩ|Ω"
)
_WORDS = (
    r"Grad|Prozent|Million(?:en)?|Milliarden?|Kilometer|Meter|Liter|degrés?|millions?|milliards?|grados|millones|gradi|"
    r"milion[ei]|miliard[oi]|graus|milh(?:ões|ão)|bilh(?:ões|ão)|graden|procent|miljoen|miljard|por ciento|per cento|"
    r"por cento|pour cent|stopni|procenta?|milion(?:y|ów)|miliard(?:y|ów)"
)
_SHORT_WORDS = r"млн|млрд|трлн|тыс\.|M(?:io|rd)\.?|ml[nd]|mil|bi|milyon|milyar"
_DECIMAL = re.compile(
    r"(?<![\w.,:/$€£])(?<![^\s(=][-−])(?<!v\.\s)(?P<whole>\d{1,4})\.(?=\d{1,2}(?:"
    rf"\s?(?:{_UNITS})(?![\w/²³'’])|\s(?:{_WORDS})(?!\w)))"
    r"|(?<=[=<>≤≥≈]\s)(?P<zero>0)\.(?=\d{1,6}(?!\d|\.\d))|(?<=[=<>≤≥≈])(?P<close>0)\.(?=\d{1,6}(?!\d|\.\d))"
    rf"|(?<=[$€£])(?P<priced>\d{{1,3}})\.(?=\d{{1,2}}\s(?:{_WORDS}|{_SHORT_WORDS})(?!\w))"  # $1.2 млрд
)


def with_comma(text: str, code: str) -> str:
    """The text with such points as commas, in the same places; one of three figures may part thousands, and stays."""
    if code not in _LANGUAGES or "." not in text:
        return text
    return _DECIMAL.sub(lambda found: f"{found['whole'] or found['zero'] or found['close'] or found['priced']},", text)
