"""Rules of deploy/prometheus and their tests, as data."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from rule_replay import PATIENT

from boards.promql import Selector, selectors

ROOT = Path(__file__).resolve().parents[3]
PROMETHEUS = ROOT / "deploy/prometheus"
RULES = tuple(sorted((PROMETHEUS / "rules").glob("*.yaml")))
DCGM = PROMETHEUS / "dcgm.yaml"
RULE_TESTS = tuple(sorted((PROMETHEUS / "tests").glob("*.yaml")))
RUNBOOK = PROMETHEUS / "runbook.md"


@dataclass(frozen=True)
class AlertExpectation:
    """Expectation of a rule test about an alert at a moment."""

    file: str
    test: str
    alert: str
    expected: tuple[dict[str, str], ...]  # the labels of those that fire


def rules(*files: Path) -> Iterator[dict[str, Any]]:
    """All rules of the files, those under rules/ unless told."""
    for file in files or RULES:
        for group in yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]:
            yield from group["rules"]


@cache
def alerts() -> dict[str, dict[str, Any]]:
    """The alerting rules by name."""
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


def groups(*files: Path) -> list[str]:
    """The names of the groups."""
    return [group["name"] for file in files for group in yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]]


def apart(file: Path, folder: Path) -> list[Path]:
    """The tests of a file, each a file of its own with those rules that its expectations stand on, in their order.

    promtool evaluates every rule at every step, and most say nothing about a test: their result is not asked for, and
    no rule can see what it does not name.
    """
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    all_groups = [
        group
        for name in document["rule_files"]
        for group in yaml.safe_load((file.parent / name).read_text(encoding="utf-8"))["groups"]
    ]
    every = [rule for group in all_groups for rule in group["rules"]]
    written = []
    for number, test in enumerate(document["tests"]):
        asked = [each["expr"] for each in test.get("promql_expr_test", ())]
        named = [f'ALERTS{{alertname="{each["alertname"]}"}}' for each in test.get("alert_rule_test", ())]
        needed = _stand_on([*asked, *named], every)
        kept = [group | {"rules": [rule for rule in group["rules"] if id(rule) in needed]} for group in all_groups]
        kept = [group for group in kept if group["rules"]]
        present = {group["name"] for group in kept}
        rules_file, test_file = folder / f"{file.stem}-{number}-rules.yaml", folder / f"{file.stem}-{number}.yaml"
        rules_file.write_text(yaml.safe_dump({"groups": kept}), encoding="utf-8")
        test_file.write_text(
            yaml.safe_dump(
                document
                | {
                    "rule_files": [rules_file.name],
                    "group_eval_order": [name for name in document["group_eval_order"] if name in present],
                    "tests": [test],
                }
            ),
            encoding="utf-8",
        )
        written.append(test_file)
    return written


def _stand_on(expressions: Iterable[str], every: list[dict[str, Any]]) -> set[int]:
    """The identities of the rules whose results these expressions can see, directly or through other rules."""
    needed: set[int] = set()
    unread = list(expressions)
    while unread:
        for selector in selectors(unread.pop()):
            for rule in every:
                if id(rule) not in needed and _gives(rule, selector):
                    needed.add(id(rule))
                    unread.append(rule["expr"])
    return needed


def _gives(rule: dict[str, Any], selector: Selector) -> bool:
    if "record" in rule:
        return bool(rule["record"] == selector.metric)
    asked = {value for label, operator, value in selector.matchers if (label, operator) == ("alertname", "=")}
    return selector.metric == "ALERTS" and asked <= {rule["alert"]}


@cache
def alert_expectations() -> tuple[AlertExpectation, ...]:
    """Expectations of the rule tests about alerts."""
    return tuple(_alert_expectations())


def _alert_expectations() -> Iterator[AlertExpectation]:
    for file in RULE_TESTS:
        for test in yaml.safe_load(file.read_text(encoding="utf-8"))["tests"]:
            for each in test.get("alert_rule_test", ()):
                expected = tuple(
                    {"alertname": each["alertname"], **alert["exp_labels"]} for alert in each["exp_alerts"]
                )
                yield AlertExpectation(file.name, test["name"], each["alertname"], expected)


@cache
def labels_of(alert: str) -> dict[str, str]:
    """The labels that an alert really has, from the rule tests."""
    return next(each.expected[0] for each in alert_expectations() if each.alert == alert and each.expected)


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Output of a tool, both of its streams in one."""
    return subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | PATIENT,
    )
