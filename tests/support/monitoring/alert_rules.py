"""Rules of deploy/prometheus and their tests, as data."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from needed_rules import groups_of, needed
from rule_replay import PATIENT

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
        for group in groups_of(file):
            yield from group["rules"]


@cache
def alerts() -> dict[str, dict[str, Any]]:
    """The alerting rules by name."""
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


def groups(*files: Path) -> list[str]:
    """The names of the groups."""
    return [group["name"] for file in files for group in groups_of(file)]


def apart(file: Path, folder: Path) -> list[Path]:
    """The tests of a file, each a file of its own with those rules that it needs, in their order."""
    document = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
    every = [group for name in document["rule_files"] for group in groups_of((file.parent / name).resolve())]
    written = []
    for number, test in enumerate(document["tests"]):
        asked = [each["expr"] for each in test.get("promql_expr_test", ())]
        named = [f'ALERTS{{alertname="{each["alertname"]}"}}' for each in test.get("alert_rule_test", ())]
        kept = needed(every, [*asked, *named], [each["series"] for each in test["input_series"]])
        present = {group["name"] for group in kept}
        rules_file, test_file = folder / f"{file.stem}-{number}-rules.yaml", folder / f"{file.stem}-{number}.yaml"
        rules_file.write_text(yaml.dump({"groups": kept}, Dumper=yaml.CSafeDumper), encoding="utf-8")
        alone = document | {
            "rule_files": [rules_file.name],
            "group_eval_order": [name for name in document["group_eval_order"] if name in present],
            "tests": [test],
        }
        test_file.write_text(yaml.dump(alone, Dumper=yaml.CSafeDumper), encoding="utf-8")
        written.append(test_file)
    return written


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
