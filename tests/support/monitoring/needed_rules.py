"""Rules that a replay needs: promtool evaluates every rule at every step, and most say nothing about a test."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from boards.promql import Selector, selectors

Rule = dict[str, Any]
Labels = Mapping[str, str]

_OF_NOTHING = re.compile(r"\b(absent|absent_over_time|scalar|vector)\s*\(")
"""Functions that have a result where there is no series."""
_read = cache(selectors)


@cache
def groups_of(file: Path) -> Sequence[dict[str, Any]]:
    """The groups of a file of rules."""
    groups: list[dict[str, Any]] = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)["groups"]
    return groups


def needed(groups: Iterable[dict[str, Any]], asked: Iterable[str], series: Iterable[str]) -> list[dict[str, Any]]:
    """Groups with those rules that expressions can see and that these series, as PromQL writes them, can feed.

    The others have no result, or one that nothing reads: no rule can see what it does not name.
    """
    groups = list(groups)
    seen = _seen([rule for group in groups for rule in group["rules"]], asked)
    kept = {id(rule) for rule in _fed(seen, series)}
    picked = [group | {"rules": [rule for rule in group["rules"] if id(rule) in kept]} for group in groups]
    return [group for group in picked if group["rules"]]


def _seen(rules: Sequence[Rule], asked: Iterable[str]) -> list[Rule]:
    """Rules whose results these expressions read, directly or through other rules."""
    seen, unread, left = list[Rule](), list(asked), list(rules)
    while unread:
        for selector in _read(unread.pop()):
            found = [rule for rule in left if _gives(rule, selector)]
            left = [rule for rule in left if not _gives(rule, selector)]
            seen += found
            unread += [rule["expr"] for rule in found]
    return seen


def _fed(rules: Sequence[Rule], series: Iterable[str]) -> list[Rule]:
    """Rules that read one of the series, or a rule that does, or that need none."""
    samples: dict[str, list[Labels]] = {}
    for text in series:
        (selector,) = _read(text)
        samples.setdefault(selector.metric, []).append({label: value for label, _, value in selector.matchers})
    fed, left, found = list[Rule](), list(rules), True
    while found:
        found = False
        for rule in left[:]:
            read = _read(rule["expr"])
            if not read or _OF_NOTHING.search(rule["expr"]) or any(_feeds(each, samples, fed) for each in read):
                fed.append(rule)
                left.remove(rule)
                found = True
    return fed


def _feeds(selector: Selector, samples: Mapping[str, Sequence[Labels]], rules: Iterable[Rule]) -> bool:
    if not selector.metric or any(_meets(selector, labels, whole=True) for labels in samples.get(selector.metric, ())):
        return True
    return any(_gives(rule, selector) for rule in rules)


def _gives(rule: Rule, selector: Selector) -> bool:
    """Whether a selector can see the result of a rule: of its labels only those that the rule sets are known."""
    labels = {label: value for label, value in rule.get("labels", {}).items() if "{{" not in value}
    if "alert" in rule:
        labels["alertname"] = rule["alert"]
    name = rule.get("record", "ALERTS")
    return selector.metric in ("", name) and _meets(selector, labels, whole=False)


def _meets(selector: Selector, labels: Labels, *, whole: bool) -> bool:
    """Whether labels meet the matchers; a label that is not among them is empty where they are the whole."""
    for label, operator, wanted in selector.matchers:
        if label in labels or whole:
            value = labels.get(label, "")
            alike = re.fullmatch(wanted, value) is not None if "~" in operator else wanted == value
            if alike == operator.startswith("!"):
                return False
    return True
