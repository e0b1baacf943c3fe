"""Abbreviations in words: Mr. and Mrs. Bell, z. B., 5th Ave."""

from __future__ import annotations

import re
from collections.abc import Callable

from voxyard.speech.reading.tables import WordTable, table

Reading = tuple[re.Pattern[str], Callable[[re.Match[str]], str | None]]


def patterns(code: str) -> list[Reading]:
    """Patterns of the abbreviations in the language's table, with their words."""
    own = table(code)
    titles = "|".join(map(re.escape, [*own.titles, *(key[:-1] for key in own.abbreviations if key[-1] == "^")]))
    another = re.compile(rf"(?:{own.between_titles}|&)\s+(?:{titles})(?!\w)|{own.before_office}", re.IGNORECASE)
    longest_first = sorted(own.abbreviations.items(), key=lambda each: -len(each[0]))  # av. J.-C. before av.
    found = [_abbreviation(key, words, another, own) for key, words in longest_first]
    if code == "de":
        found.insert(0, (re.compile(r"(?<=[a-zäöüß])str\.(?=\s?\d|,)"), lambda _: "straße"))
    if code == "de":  # im 2. OG, im EG, which is no community
        found.insert(
            0,
            (
                re.compile(r"(?=[OUED]G)(?:(?<=\d\. )|(?<=\d\.)|(?<=\b[Ii]m )|(?<=\bvom )|(?<=\bzum ))[OUED]G(?!\w)"),
                lambda at: _FLOORS[at[0]],
            ),
        )
    if code == "de":  # Abs. 1 S. 2, § 5 S. 2
        found.insert(
            0, (re.compile(r"(?:(?<=Abs\. \d )|(?<=Abs\. \d\d )|(?<=§ \d\d )|(?<=§ \d\d\d ))S\.(?=\s\d)"), _sentence)
        )
    if code == "pt":  # D. Maria, but D. Pedro
        found.insert(0, (_DONA, lambda _: "Dona"))
    if code == "fr":  # à la 89e min.
        found.insert(0, (re.compile(r"(?<=\de )min(?:\.(?=,|\s[a-zà-ÿ]))?(?!\w)"), lambda _: "minute"))
    if code == "en":  # vol. 12, no. 3
        found.insert(0, (re.compile(r"(?<=\d, )no\.(?=\s?\d)"), lambda _: "number"))
        found.insert(0, (_STATE, _state))
    if code == "en":  # Bus no. 24
        found.insert(0, (re.compile(rf"(?=no\.)(?:{_NUMBERED})no\.(?=\s?\d)"), lambda _: "number"))
        found.insert(0, (re.compile(r"(?<=\b[Oo]n )(?:Tues|Thurs|Mon|Wed|Fri)\.(?!\w)"), _day))
    if code == "en":  # w/ the terms
        found.insert(0, (re.compile(r"(?<![\w/])[wW]/\s?(?=[^\W\d_]{2}|\d|an?\b)(?!o(?:ut)?\b)"), lambda _: "with "))
    return found


_DONA = re.compile(r"(?<![\w.])D\.(?=\s(?:[A-ZÁÂÉÍÓÚ][a-zà-ÿ]+a(?<!Garcia)(?<!Gama)|Inês|Leonor|Beatriz|Isabel)(?!\w))")
_FLOORS = {"OG": "Obergeschoss", "UG": "Untergeschoss", "EG": "Erdgeschoss", "DG": "Dachgeschoss"}


_NUMBERED = "|".join(
    rf"(?<=\b{first}{rest} )"
    for first, rest in (
        *(("[Bb]", "us"), ("[Tt]", "rain"), ("[Ll]", "ine"), ("[Ff]", "light"), ("[Pp]", "age"), ("[Rr]", "oom")),
        *(
            ("[Oo]", "rder"),
            ("[Ii]", "nvoice"),
            ("[Hh]", "ouse"),
            ("[Aa]", "ccount"),
            ("[Tt]", "icket"),
            ("[Cc]", "ase"),
        ),
        *(("[Rr]", "oute"), ("[Pp]", "hone"), ("[Ss]", "erial"), ("[Mm]", "odel"), ("[Pp]", "art"), ("[Ii]", "tem")),
    )
)


_STATES = {
    "Ala": "Alabama", "Ariz": "Arizona", "Ark": "Arkansas", "Calif": "California", "Colo": "Colorado",
    "Conn": "Connecticut", "Del": "Delaware", "Fla": "Florida", "Ga": "Georgia", "Ill": "Illinois", "Ind": "Indiana",
    "Kan": "Kansas", "Ky": "Kentucky", "La": "Louisiana", "Mass": "Massachusetts", "Md": "Maryland",
    "Mich": "Michigan", "Minn": "Minnesota", "Miss": "Mississippi", "Mo": "Missouri", "Mont": "Montana",
    "Neb": "Nebraska", "Nev": "Nevada", "Okla": "Oklahoma", "Ore": "Oregon", "Pa": "Pennsylvania",
    "Tenn": "Tennessee", "Tex": "Texas", "Va": "Virginia", "Vt": "Vermont", "Wash": "Washington", "Wis": "Wisconsin",
    "Wyo": "Wyoming",
}  # fmt: skip
_STATE = re.compile(rf"(?<=[a-z], )(?:{'|'.join(_STATES)})\.(?=[,;)]|\s|$)")  # Ames, Iowa; St. Louis, Mo.


def _state(found: re.Match[str]) -> str:
    """The state, with the full stop where the sentence ends."""
    after = found.string[found.end() : found.end() + 40].lstrip()
    return _STATES[found[0][:-1]] + "." * (not after or after[0].isupper())


def _day(found: re.Match[str]) -> str:
    """On Tues., with the full stop where the sentence ends."""
    after = found.string[found.end() : found.end() + 40].lstrip()
    return table("en").days[found[0][:-1]] + "." * (not after or after[0].isupper())


def _sentence(_: re.Match[str]) -> str:
    return "Satz"


_ADDRESS = re.compile(r"(?:[^\W\d_a-z][^\W\d_]+|\d(?:st|nd|rd|th))\s$")  # what a street's name ends with


def _abbreviation(key: str, words: str, another: re.Pattern[str], own: WordTable) -> Reading:
    """The words of an abbreviation; before a capital letter those with `^`, or before `another` title with "and"."""
    short = key.rstrip("#^$&")
    how = key[len(short) :]
    first = (
        f"[{short[0].lower()}{short[0].upper()}]" if how in ("", "$") and short[0].isalpha() else re.escape(short[0])
    )
    inside = re.escape(short[1:]).replace(r"\.", r"\.\s?").replace(r"\ ", r"\s?")
    inside = inside.removesuffix(r"\s?")
    last = {"#": r"(?=\s?\d)", "^": r"(?=\s+(?:[^\W\d_]|&))"}.get(how, r"(?!\w)")
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
        if how == "#" and not found.string[found.end()].isspace():
            return said + " "
        ends = how in ("$", "&") and found[0].endswith(".") and (not after or after[0].isupper())
        return said + "." if ends else said

    if short[0] == "(":  # محمد(ص)
        return (re.compile(rf"[^\S\n]?{re.escape(short)}"), lambda _: f" {words}")
    return (re.compile(rf"(?<![\w.]){first}{inside}{last}"), spoken)
