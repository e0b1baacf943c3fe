"""Units of the international system by their symbols: bases with the prefixes that are written before them."""

from __future__ import annotations

import re
from functools import lru_cache

from voxyard.speech.reading.tables import Forms, table

_PREFIXES = {
    "V": "n µ m k M",
    "A": "f p n µ k",
    "W": "n µ m T",
    "J": "n µ m M G T",
    "N": "n µ m k",
    "Pa": "m M G",
    "Hz": "m T",
    "F": "f p n µ m",
    "H": "n µ m",
    "Ω": "m k M G",
    "S": "n µ m",
    "C": "n µ m",
    "T": "n µ m",
    "mol": "p n µ m k",
    "Bq": "k M G",
    "Gy": "m µ",
    "Sv": "n µ m",
    "eV": "m k M G T",
    "K": "µ m",
    "B": "Ki Mi Gi Ti",
    "M": "n µ m",
    "L": "n µ",
    "l": "n µ",
    "g": "p n",
    "bit": "k",
    "s": "f p",
    "Nm": "m k M",
    "Wh": "m M G T",
    "Ah": "m",
    "VA": "k M",
}  # not TV, PS or the pm of an hour, nor what CLDR has in each language


@lru_cache(maxsize=32)
def si(code: str) -> dict[str, Forms]:
    """Symbols and their names, of one and of more, where the language has them; a letter alone is no unit there."""
    names = table(code).si
    found = {
        symbol: name
        for symbol, name in names.items()
        if len(symbol) > 1 and symbol[-1] != "-" and symbol not in ("VA", "bit")
    }
    for symbol in _PREFIXES if names else ():
        for prefix in _PREFIXES[symbol].split():
            found[prefix + symbol] = _joined(names[f"{prefix}-"], names[symbol], code)
    found |= {symbol.replace("µ", "μ"): name for symbol, name in found.items()}
    return {symbol: (name, plural(name, code)) for symbol, name in found.items()}


def _joined(first: str, last: str, code: str) -> str:
    """Kilonewton, in Dutch kilo-ohm, mégohm in French."""
    if last == "ohm" and code in ("fr", "it", "pt"):
        first = first.rstrip("ao")
    return first + "-" * (code == "nl" and first[-1] == last[0]) + last.lower()


_ITALIAN = {"metro": "metri", "litro": "litri", "grammo": "grammi", "secondo": "secondi", "sfera": "sfere",
            "mole": "moli", "molare": "molari"}  # fmt: skip
_INVARIABLE = ("z", "x", "s", "molar")


def plural(name: str, code: str) -> str:
    """Of the names of units: English has one for most, German and Italian for those that end with a vowel."""
    if code == "de":
        return f"{name}n" if name.endswith(("unde", "phäre")) else name
    if code == "it":
        return next((name.removesuffix(end) + many for end, many in _ITALIAN.items() if name.endswith(end)), name)
    if code in ("fr", "es", "pt"):  # newtons-mètres, newtons metro, watts-hora
        sign = next((sign for sign in name if sign in " -"), "")
        first, _, last = name.partition(sign or " ")
        ends = {"al": "ales", "el": "eles", "ol": "oles"} if code == "es" else {"al": "ais"} if code == "pt" else {}
        many = first if first.endswith(_INVARIABLE) else first[:-2] + ends.get(first[-2:], f"{first[-2:]}s")
        return many + sign + (plural(last, code) if code == "fr" and last else last)
    if code != "en" or name.endswith(_INVARIABLE):
        return name
    return re.sub("y$", "ie", name) + "s" if not name.endswith("gray") else "grays"
