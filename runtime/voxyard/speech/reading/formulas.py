r"""Formulas as they are typed: $x^2$, \[ a \leq b \], \(\frac{7}{10}\), y=x+1, 2a+3=5, 1≠2."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from voxyard.speech.reading.fractions import parts_of
from voxyard.speech.reading.languages import Language
from voxyard.speech.reading.number_words import decimal
from voxyard.speech.reading.patterns import ELSEWHERE
from voxyard.speech.reading.tables import Signs, table

Reading = tuple[re.Pattern[str], Callable[[re.Match[str]], str | None]]

_COMMANDS = {
    "times": "×", "cdot": "×", "ast": "×", "div": "÷", "pm": "±", "leq": "≤", "le": "≤", "geq": "≥", "ge": "≥",
    "lt": "<", "gt": ">", "neq": "≠", "ne": "≠", "approx": "≈", "sim": "≈", "to": "→", "rightarrow": "→", "sum": "∑",
    "int": "∫", "infty": "∞",
}  # fmt: skip
_SILENT = ("left", "right", "mathbf", "quad", "displaystyle", "limits")
_NAMED = ("sin", "cos", "tan", "log", "ln", "exp", "max", "min", "lim")
_GREEK = re.compile(
    r"(?i:alpha|beta|gamma|delta|epsilon|zeta|eta|theta|iota|kappa|lambda|mu|nu|xi|pi|rho|sigma|tau|phi|chi|psi|omega)"
)
_USUAL = 20  # largest denominator that is said as a part: seven tenths
_BRACES = r"\{(?:[^{}$]|\{[^{}$]{1,60}\}){1,120}\}"
_TYPESET = re.compile(
    r"(?<![\\$A-Za-z0-9])\$(?P<inline>[^\s$](?:[^$\n]{0,200}[^\s$\\])?)\$(?![$A-Za-z0-9])|\\\((?P<round>[^\n]{1,200}?)\\\)|"
    r"(?<![\\$])\$\$(?P<shown>[^$]{1,400})\$\$(?!\$)|\\\[(?P<square>[^$\[\]]{1,400}?)\\\]|"
    rf"(?<![\\$\w])(?P<bare>\\(?:frac{_BRACES}{_BRACES}|sqrt{_BRACES}))"
)
_TELLING = re.compile(r"[\\^_=]|^[A-Za-z]$")
_TERM = r"(?:\d{1,4}(?:[.,]\d{1,4})?[a-z]?|[A-Za-z])[²³]?"
_SUM = rf"{_TERM}(?:(?:==|[+=≠≤≥≈×÷−]){_TERM})+"
_GLUED = re.compile(rf"(?<![\w.,:/=<>+@#?&%$\\^*|~-]){_SUM}(?![\w/=<>+@#&%$\\^*|~:-]|[.,]\d)")
_GLUED_CLOSE = re.compile(  # 公式是x²+1
    rf"(?<![A-Za-z0-9_.,:/=<>+@#?&%$\\^*|~-]){_SUM}(?![A-Za-z0-9_/=<>+@#&%$\\^*|~:²³-]|[.,]\d)"
)
_INSIDE = r"(?:[^{}]|\{[^{}]{1,60}\}){1,120}"
_TOKEN = re.compile(
    rf"\\[dt]?frac\s*\{{(?P<above>{_INSIDE})\}}\s*\{{(?P<below>{_INSIDE})\}}|\\sqrt\s*\{{(?P<root>{_INSIDE})\}}|"
    rf"\^\s*(?:\{{(?P<powers>{_INSIDE})\}}|(?P<power>\w))|_\s*(?:\{{(?P<indices>{_INSIDE})\}}|(?P<index>\w))|"
    r"\\(?:text|mathrm|operatorname)\s*\{(?P<plain>[^{}]{1,60})\}|\\(?P<command>[A-Za-z]+)|"
    r"(?P<raised>[²³])|(?P<whole>\d+)(?:(?:[.,]|\{,\})(?P<part>\d+))?|(?P<letter>[^\W\d_])(?![^\W\d_]{2})|(?P<sign>==|[+=≠≤≥≈×÷−*<>-])|"
    r"(?P<silent>[{}(),;.\s]|\\[,;! {}])"
)


def typeset(code: str, language: Language) -> list[Reading]:
    """Pattern of formulas between their marks, which are neither dollars nor a path."""
    signs = table(code).signs

    def words(found: re.Match[str]) -> str | None:
        inside = next(filter(None, found.groups()))
        if found["inline"] and not _TELLING.search(inside):
            return ELSEWHERE
        said, last = _said(inside, code, language, signs), inside.rstrip()[-1]
        return said + last if said and last in ".,;" else said  # of the sentence

    return [(_TYPESET, words)] if signs.operators else []


def glued(code: str, language: Language) -> list[Reading]:
    """Pattern of formulas without blanks."""
    signs = table(code).signs

    def words(found: re.Match[str]) -> str | None:
        text = found[0]
        compared, summed = _COMPARED.search(text), _SUMMED.match(text)
        if not (compared or summed) or not _OF_LETTERS.search(text):
            return ELSEWHERE
        return _said(text, code, language, signs) or ELSEWHERE

    return [(_GLUED if language.spaced else _GLUED_CLOSE, words)] if signs.operators else []


_COMPARED = re.compile(r"[=≠≤≥≈]")
_SUMMED = re.compile(r"(?:\d+[a-df-z]|[a-z][²³])\+")
_OF_LETTERS = re.compile(r"[A-Za-z≠≤≥]")


def _said(text: str, code: str, language: Language, signs: Signs) -> str | None:
    """The formula in words; None where one of its parts has none."""
    words: list[str] = []
    for token in _tokens(text):
        word = None if token is None else _word(token, words, code, language, signs)
        if word is None:
            return None
        if word:
            words.append(word)
    return (" " if language.spaced else "").join(words) or None


def _tokens(text: str) -> Iterator[re.Match[str] | None]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        yield found
        if found is None:
            return
        at = found.end()


def _word(token: re.Match[str], before: list[str], code: str, language: Language, signs: Signs) -> str | None:
    if token["whole"]:
        return decimal(token["whole"], token["part"] or "", language)
    if token["letter"] or token["silent"]:
        return token["letter"] or ""
    if token["raised"]:
        return (signs.squared if token["raised"] == "²" else signs.cubed) or None
    if token["plain"]:
        return token["plain"].strip()
    if token["above"]:
        return _fraction(token["above"], token["below"], code, language, signs)
    if token["root"]:
        inside = _said(token["root"], code, language, signs)
        return f"{signs.root} {inside}" if signs.root and inside and language.spaced else None
    if power := token["powers"] or token["power"]:
        return _power(power, code, language, signs)
    if index := token["indices"] or token["index"]:
        return _said(index, code, language, signs)
    if command := token["command"]:
        if command in _NAMED or _GREEK.fullmatch(command):
            return command
        return "" if command in _SILENT else signs.operators.get(_COMMANDS.get(command, ""))
    sign = {"-": "−", "==": "="}.get(token["sign"], token["sign"])
    if sign == "−" and not before:
        return language.minus
    return signs.operators.get(sign)


def _power(power: str, code: str, language: Language, signs: Signs) -> str | None:
    if power in ("2", "3"):
        return (signs.squared if power == "2" else signs.cubed) or None
    said = _said(power, code, language, signs)
    return f"{signs.power} {said}" if signs.power and said and language.spaced else None


def _fraction(above: str, below: str, code: str, language: Language, signs: Signs) -> str | None:
    figures = re.fullmatch(r"\d{1,2}", above) and re.fullmatch(r"\d{1,2}", below)
    if code in _PARTS and figures and 0 < int(above) < int(below) <= _USUAL:
        return parts_of(code, language, int(above), int(below))
    said = _said(above, code, language, signs), _said(below, code, language, signs)
    if not signs.over or not all(said) or not language.spaced:
        return None
    return f"{said[0]} {signs.operators.get('÷') if code == 'de' else signs.over} {said[1]}"


_PARTS = ("en", "de", "fr", "es", "it", "pt", "nl")
