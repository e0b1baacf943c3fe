"""Rules of deploy/prometheus and their tests, as data."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

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
    return subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
