"""The table of causes is one: rules, alerts and runbook have its names, titles and ranks."""

from __future__ import annotations

import re

from alert_rules import RUNBOOK, alerts, rules

from voxyard.telemetry.causes import BY_NAME, CAUSES, rank


def evidence() -> dict[str, tuple[str, int]]:
    """Title and rank of each cause that the rules have evidence for."""
    found = {}
    for rule in rules():
        if (
            rule.get("record")
            in ("voxyard:cause:rank", "voxyard:run_cause:rank", "voxyard:slower_cause:rank", "voxyard:phase_cause:rank")
            and "labels" in rule
        ):
            name = rule["labels"]["cause"]
            assert name not in found, f"{name} has two rules"
            number = re.match(r"(\d+) \+ ", rule["expr"].strip())
            assert number, rule["expr"]
            found[name] = rule["labels"]["title"], int(number[1])
    return found


def test_the_rules_have_every_cause_of_the_table_under_its_title_and_rank() -> None:
    assert evidence() == {cause.name: (cause.title, rank(cause)) for cause in CAUSES}


def test_every_cause_is_told_by_an_alert_that_exists() -> None:
    assert {cause.alert for cause in CAUSES} <= set(alerts())
    assert len(BY_NAME) == len(CAUSES)


def test_the_runbook_says_what_to_do_about_each_cause_of_a_late_input() -> None:
    text = RUNBOOK.read_text(encoding="utf-8")
    for cause in CAUSES:
        if cause.alert == "TrainingInputBound":
            assert f"| `{cause.name}` | {cause.title} | {cause.remedy} |" in text
