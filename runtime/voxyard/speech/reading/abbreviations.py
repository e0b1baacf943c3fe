"""Abbreviations in words: Mr. and Mrs. Bell, z. B., 5th Ave."""

from __future__ import annotations

import re
from collections.abc import Callable

from voxyard.speech.reading import german, short_forms
from voxyard.speech.reading.tables import WordTable, table

Reading = tuple[re.Pattern[str], Callable[[re.Match[str]], str | None]]


def patterns(code: str) -> list[tuple[re.Pattern[str], Callable[[re.Match[str]], str | None], str]]:
    """Patterns of the abbreviations in the language's table, with their words."""
    own = table(code)
    titles = "|".join(map(re.escape, [*own.titles, *(key[:-1] for key in own.abbreviations if key[-1] == "^")]))
    another = re.compile(rf"(?:{own.between_titles}|&)\s+(?:{titles})(?!\w)|{own.before_office}", re.IGNORECASE)
    longest_first = sorted(own.abbreviations.items(), key=lambda each: -len(each[0]))  # av. J.-C. before av.
    shorts = [(*_abbreviation(*each, another, own), _needed(each[0])) for each in longest_first]
    return [*((*each, "") for each in short_forms.PATTERNS.get(code, ())), *shorts]


def _needed(key: str) -> str:
    """What a text with the abbreviation has in any case: the letters after its first one, up to a full stop."""
    return re.split(r"(?<=\.)|\s", key.rstrip("#^$&")[1:])[0]


_ADDRESS = re.compile(r"(?:[^\W\d_a-z][^\W\d_]+|\d(?:st|nd|rd|th))\s$")  # what a street's name ends with


_ADVERBIAL = re.compile(  # with which a sentence begins, and cannot end
    r"(?:^|[.!?…]\s+|\n)[\"«“„(¿¡]*(?:Nel(?:l['’]|la|lo)?|Negli|Nei|Dal|Verso(?: il)?|Intorno al|Fino al|In|"
    r"En(?: el| la| los)?|Hacia(?: el)?|"
    r"Desde(?: el)?|Hasta(?: el)?|Em|N[oa]s?|Por volta de|En l['’]|Vers|Dès|Dans les|Aux)\s?"
    r"(?:(?:anno|año|ano|an|secolo|sec\.|siglo|s\.|século|séc\.|siècle)\s)?"
    r"(?:[\dIVXLC]+(?:er|e|ème|[º°])?(?:\s?[–-]\s?\d+)?\s(?:(?:secolo|sec\.|siglo|século|séc\.|siècle|s\.)\s)?)?$"
)


def _abbreviation(key: str, words: str, another: re.Pattern[str], own: WordTable) -> Reading:
    """The words of an abbreviation; before a capital letter those with `^`, or before `another` title with "and"."""
    short = key.rstrip("#^$&")
    how = key[len(short) :]
    first = (
        f"[{short[0].lower()}{short[0].upper()}]" if how in ("", "$") and short[0].isalpha() else re.escape(short[0])
    )
    inside = re.escape(short[1:]).replace(r"\.", r"\.\s?").replace(r"\ ", r"\s?")
    inside = inside.removesuffix(r"\s?")
    glued = r"|(?<=\.)(?=[A-ZÀ-Þ][a-zà-ÿ]{2})" if len(short) > 2 and short[0].isupper() else ""  # Mr.Smith
    last = {"#": r"(?=\s?\d)", "^": rf"(?:(?=\s+(?:[^\W\d_]|&)){glued})"}.get(how, r"(?!\w)")
    if short[-1] == "-":  # St-Malo
        last = r"(?=[^\W\d_a-z])"
    if short[-1] == "/":  # C/ Mayor
        last = r"(?=\s?[^\W\d_a-z])"

    def spoken(found: re.Match[str]) -> str | None:
        after = found.string[found.end() : found.end() + 40].lstrip()
        word = re.match(r"[^\W\d_]+", after)
        if how == "^" and word is not None and word[0] in own.starters:
            return None  # J'ai vu M. Il est parti.
        if how == "^" and not after[:1].isupper() and another.match(after) is None:
            return None
        if how == "&" and _ADDRESS.search(found.string[max(0, found.start() - 40) : found.start()]) is None:
            return own.before_name.get(short) if re.match(r"[A-Z][a-z]", after) else None
        if (
            how == "&"
            and re.match(r"\s[A-Z]", found.string[found.end() : found.end() + 2])
            and found.string[found.end() - 1] == "."
        ):
            return None  # another name: St. Paul
        said = words[0].upper() + words[1:] if found[0][0].isupper() else words
        if how in ("#", "^") and not found.string[found.end()].isspace():
            return said + " "
        ends = how in ("$", "&") and found[0].endswith(".") and (not after or after[0].isupper())
        if ends and after and _ADVERBIAL.search(found.string[max(0, found.start() - 60) : found.start()]):
            ends = False  # Nel 44 a. C. Cesare morì
        if short == "u.a." and word is not None and not german.begins_sentence(word[0]):
            ends = False  # u. a. Obst
        return said + "." if ends else said

    if short[0] in "(㈜㈱㈲":  # محمد(ص), ㈜한국, ㈱日本
        blank = "" if short[0] in "㈱㈲" else " "
        return (re.compile(rf"[^\S\n]?{re.escape(short)}"), lambda _: f"{blank}{words}")
    return (re.compile(rf"(?<![\w.]){first}{inside}{last}"), spoken)
