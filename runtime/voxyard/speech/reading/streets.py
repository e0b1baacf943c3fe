"""English streets and saints by their short forms: 1428 Elm St. It was, Sunset Blvd, St Cross Road."""

from __future__ import annotations

import re
from collections.abc import Callable

from voxyard.speech.reading.patterns import ELSEWHERE

Reading = tuple[re.Pattern[str], Callable[[re.Match[str]], str | None]]

_WAYS = {"N": "North", "S": "South", "E": "East", "W": "West"}
_WAYS |= {a + b: _WAYS[a] + _WAYS[b].lower() for a in "NS" for b in "EW"}
_PLAIN = {  # of nothing else
    "Blvd": "Boulevard", "Ave": "Avenue", "Hwy": "Highway", "Pkwy": "Parkway", "Rd": "Road", "Expy": "Expressway",
    "Fwy": "Freeway", "Tpke": "Turnpike", "Stn": "Station", "Ln": "Lane",
}  # fmt: skip
_DOUBTFUL = {"St": "Street", "Dr": "Drive", "Ct": "Court", "Pl": "Place", "Sq": "Square", "Ter": "Terrace"}
_NAME = r"(?:[A-Z][\w'’]+|[NSEW]{1,2}\.?|\d{1,3}(?:st|nd|rd|th))"
_NUMBERED = re.compile(rf"(?<![\w.,$€£])\d{{1,5}}[A-Z]?\s(?:{_NAME}\s){{1,3}}$")
_NAMED = re.compile(rf"(?:{_NAME}|\b(?:[Tt]he|[Oo]n|[Oo]nto))\s$")
_ON = re.compile(rf"\b(?:on|at|near|onto|to|from|down|along|off|of|and|between|cross)\s(?:{_NAME}\s){{1,2}}$")
_NEXT = re.compile(r"\s(?:It|He|She|They|We|You|I|The|This|That|There|Then|But|And|So|In|At|On|His|Her|A|An|When|If)\b")
_SAINTS = (
    "Albans|Andrew|Andrews|Ann|Anne|Anthony|Augustine|Austell|Bernard|Catherine|Clair|Cross|Cuthbert|David|Davids|"
    "Francis|Gallen|George|Giles|Helen|Helens|Helena|Ives|James|Jerome|Joe|John|Johns|Joseph|Kilda|Kitts|Lawrence|Louis|"
    "Lucia|Luke|Malo|Margaret|Mark|Martin|Mary|Matthew|Michael|Moritz|Neots|Nicholas|Pancras|Patrick|Paul|Pauls|Peter|"
    "Petersburg|Pierre|Stephen|Thomas|Tropez|Vincent"
)
_STARTS = re.compile(
    r"(?:^|[.!?…:\n]\s*|[\"“‘(])(?:(?:In|At|To|From|The|Near|Of|On|By|For|And|But|Visit|See|Saw|Like|Since|After|Before|With)\s)?$"
    r"|(?<!\w)[^A-Z\s\d]\w*,?\s(?<!\dth\s)(?<!\d[snr][tdd]\s)$"
)


def patterns() -> list[Reading]:
    """Patterns of the short forms that the names around them tell."""
    plain, doubtful = "|".join(_PLAIN), "|".join(_DOUBTFUL)
    return [
        (re.compile(rf"(?<=\w\s)(?P<short>{plain}|{doubtful})\.?(?![\w'’-])"), _street),
        (re.compile(rf"(?<![\w.])St(?=\s(?:{_SAINTS})(?:['’]s)?\b)"), lambda _: "Saint"),
        (re.compile(r"(?<![\w.])St(?=\s[A-Z][a-z]+(?:['’]s)?(?!\w))"), _saint),
        (re.compile(r"(?:(?<=[a-z] )|(?<=[a-z], )|(?<=& ))Sr\.(?!\s[A-Z])(?!\w)"), lambda _: "Senior"),
    ]


def _street(found: re.Match[str]) -> str | None:
    text, short = found.string, found["short"]
    before = text[max(0, found.start() - 50) : found.start()]
    numbered = _NUMBERED.search(before) is not None
    if not found[0].endswith("."):
        name_follows = re.match(r"\s[A-Z][a-z]", text[found.end() : found.end() + 3]) is not None
        if short in _PLAIN:
            known = _NAMED.search(before) is not None
        else:
            known = numbered or (_ON.search(before) is not None and not name_follows and short == "St")
        return {**_PLAIN, **_DOUBTFUL}[short] if known else ELSEWHERE
    known = numbered or (short in _PLAIN and _NAMED.search(before) is not None)
    if not known or not re.match(r"\s[A-Z]", text[found.end() : found.end() + 2]):
        return ELSEWHERE
    return {**_PLAIN, **_DOUBTFUL}[short] + "." * (_NEXT.match(text, found.end()) is not None)


def _saint(found: re.Match[str]) -> str | None:
    """St Agnes, but Main St Bridge."""
    return "Saint" if _STARTS.search(found.string[max(0, found.start() - 40) : found.start()]) else ELSEWHERE


_KINDS = "|".join([*_PLAIN, *_DOUBTFUL, *_PLAIN.values(), *_DOUBTFUL.values(), "Way", "Broadway"])
_WAY = re.compile(
    rf"(?:(?<=\d )|(?<=\b(?:on|at) )|(?<![\w.])(?=[NSEW]{{1,2}}\.?\s\d+[a-z]))(?P<way>[NS][EW]|[NSEW])\.?"
    rf"(?=\s(?:[A-Z][\w'’]+\s|\d{{1,3}}(?:st|nd|rd|th)\s){{1,3}}"
    rf"(?:{_KINDS})\b)"
)


_WINDS = {"NNE": "north northeast", "ENE": "east northeast", "ESE": "east southeast", "SSE": "south southeast"}
_WINDS |= {"SSW": "south southwest", "WSW": "west southwest", "WNW": "west northwest", "NNW": "north northwest"}
_WINDS |= {each: way.lower() for each, way in _WAYS.items()}
_WIND = re.compile(
    rf"(?:(?<=\b[Ww]ind )|(?<=\b[Ww]inds )|(?<=\b[Hh]eading )|(?<=\bfrom the ))"
    rf"(?P<way>{'|'.join(sorted(_WINDS, key=len, reverse=True))})(?=\s(?:at|to)?\s?\d|[.,;])"
)


def ways() -> list[Reading]:
    """A pattern of the way of a street, which is no unit: 200 W Oak Blvd, 708 N 1st St."""
    return [(_WAY, lambda found: _WAYS[found["way"]]), (_WIND, lambda found: _WINDS[found["way"]])]
