"""PromQL expressions: selectors, variables, interpolation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)
      | (?P<comment>\#[^\n]*)
      | (?P<variable>\$\{?\w+\}?)
      | (?P<number>0x[0-9a-fA-F]+|\d+(?:\.\d+)?(?:[a-z]+\d*)*|\.\d+)
      | (?P<name>[a-zA-Z_:][\w:]*)
      | (?P<mark>=~|!~|!=|==|<=|>=|[-+*/%^(){}\[\],=<>@:])
      | (?P<space>\s+)""",
    re.VERBOSE,
)
_GROUPING = {"by", "without", "on", "ignoring", "group_left", "group_right"}
_WORDS = {*_GROUPING, "and", "or", "unless", "atan2", "bool", "offset", "start", "end", "inf", "nan"}
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::\w+)?\}|(\w+))")


@dataclass(frozen=True)
class Selector:
    """Selector: metric, matchers (label, operator, value), range, enclosing calls, innermost first."""

    metric: str
    matchers: tuple[tuple[str, str, str], ...] = ()
    range: str | None = None
    calls: tuple[str, ...] = ()


def selectors(expression: str) -> tuple[Selector, ...]:
    """All selectors of an expression, in order. Raises ValueError for a syntax error."""
    return tuple(_Reader(expression).read())


def variables(text: str) -> set[str]:
    """Names of Grafana variables in a text."""
    return {braced or bare for braced, bare in _VARIABLE.findall(text)}


def expanded(expression: str, values: Mapping[str, str]) -> str:
    """Expression with Grafana variables replaced. Raises ValueError for a missing value."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if name not in values:
            raise ValueError(f"${name} has no value in: {expression}")
        return values[name]

    return _VARIABLE.sub(value, expression)


class _Reader:
    def __init__(self, expression: str) -> None:
        self._tokens = list(_tokens(expression))
        self._at = 0

    def read(self) -> Iterator[Selector]:
        calls: list[str] = []  # of the parentheses that are open
        while self._at < len(self._tokens):
            kind, text = self._next()
            if kind == "name" and text.lower() in _GROUPING and self._peek() == "(":
                self._until(")")
            elif kind == "name" and self._peek() == "(" and text.lower() not in _WORDS:
                self._next()
                calls.append(text)
            elif kind == "name" and self._grouped_aggregate():
                self._next()
                self._until(")")
                if self._peek() == "(":
                    self._next()
                    calls.append(text)
            elif text == "(":
                calls.append("")
            elif text == ")":
                if not calls:
                    raise ValueError("unexpected )")
                calls.pop()
            elif text == "{" or (kind == "name" and text.lower() not in _WORDS):
                yield self._selector(text, kind == "name", tuple(call for call in reversed(calls) if call))
        if calls:
            raise ValueError(") is missing")

    def _grouped_aggregate(self) -> bool:
        # sum by (le) (…): what comes before `by` is a function
        return self._peek().lower() in ("by", "without")

    def _selector(self, name: str, named: bool, calls: tuple[str, ...]) -> Selector:
        inside: list[tuple[str, str]] = []
        if not named:
            inside = self._until("}")
        elif self._peek() == "{":
            self._next()
            inside = self._until("}")
        words = [text for _, text in inside if text != ","]
        if len(words) % 3:
            raise ValueError(f"expected label, operator and value, found {' '.join(words)}")
        matchers = tuple(zip(words[::3], words[1::3], (text[1:-1] for text in words[2::3]), strict=True))
        range_ = None
        if self._peek() == "[":
            self._next()
            range_ = "".join(text for _, text in self._until("]"))
        return Selector(name if named else "", matchers, range_, calls)

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _next(self) -> tuple[str, str]:
        self._at += 1
        return self._tokens[self._at - 1]

    def _until(self, closing: str) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        while self._at < len(self._tokens):
            token = self._next()
            if token[1] == closing:
                return found
            found.append(token)
        raise ValueError(f"{closing} is missing")


def _tokens(expression: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(expression):
        found = _TOKEN.match(expression, at)
        if found is None:
            raise ValueError(f"syntax error at: {expression[at:]}")
        at = found.end()
        kind = str(found.lastgroup)
        if kind not in ("space", "comment"):
            yield kind, found[0]
