"""Captured hosts: what programs of broken machines print, and all that the preflight must say of it."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from damage import damaged
from fleet_doubles import RecordingSession, host

from fleet.checks.preflight import preflight
from fleet.checks.requirements import HostRequirements
from fleet.facts.fact import Unknown
from fleet.facts.host import collect
from fleet.release.gpu_assignment import assign
from fleet.ssh.command_batch import Answer

CAPTURES = Path(__file__).resolve().parents[3] / "captures/hosts"
HEALTHY = yaml.safe_load((CAPTURES / "healthy.yaml").read_text(encoding="utf-8"))
CASES = [
    case
    for name in ("gpus", "machines")
    for case in yaml.safe_load((CAPTURES / f"{name}.yaml").read_text(encoding="utf-8"))
]


def answer(said: str | dict[str, Any]) -> Answer:
    return Answer(said) if isinstance(said, str) else Answer(said.get("out", ""), said.get("err", ""), said["code"])


def test_the_healthy_host_has_no_finding() -> None:
    assert_findings({"findings": []})


@pytest.mark.parametrize("case", CASES, ids=[case["says"] for case in CASES])
def test_a_captured_host_has_its_findings_and_no_others(case: dict[str, Any]) -> None:
    assert_findings(case)


def assert_findings(case: dict[str, Any]) -> None:
    answers = {name: answer(said) for name, said in (HEALTHY | case.get("answers", {})).items()}
    on = host(
        **{
            "gpus": 2,
            "acknowledged": frozenset({"tls"}),
            **{key: _tuple(value) for key, value in case.get("inventory", {}).items()},
        }
    )
    facts = collect(RecordingSession(answers), now=lambda: 1000.0)
    assignment = assign(facts, on)

    findings = [
        each
        for each in preflight(facts, on, HostRequirements(), assignment)
        if each.level != "INFO" and not each.acknowledged
    ]

    said = [f"{each.level} {each.check}: {each.found}" for each in findings]
    assert len(said) == len(case["findings"]), said
    missing = [wanted for wanted in case["findings"] if not any(each.startswith(wanted) for each in said)]
    assert not missing, said
    assert not any(
        "invalid literal" in each or len(finding.remedy) < 10 for each, finding in zip(said, findings, strict=True)
    )
    for wanted in case.get("remedies", ()):
        assert any(wanted in each.remedy for each in findings), [each.remedy for each in findings]
    if "used" in case:
        assert not isinstance(facts.gpus, Unknown)
        used = {each.gpu for each in assignment.workloads}
        assert used == {gpu.uuid for gpu in facts.gpus if gpu.index in case["used"]}


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


PYTHON_S = re.compile("invalid literal|could not convert|to unpack|object has no|NoneType|list index|Traceback")


@pytest.mark.parametrize("number", [20, pytest.param(500, marks=pytest.mark.slow)])
def test_whatever_a_program_prints_is_a_finding_in_words(number: int) -> None:
    """Output of these hosts, cut and exchanged by chance."""
    chance = random.Random(number)
    printed = [
        (name, answer(said))
        for case in ({"answers": HEALTHY}, *CASES)
        for name, said in case.get("answers", {}).items()
    ]
    on = host(gpus=2, acknowledged=frozenset({"tls"}))
    for _ in range(number):
        answers = {name: answer(said) for name, said in HEALTHY.items()}
        for name, said in chance.sample(printed, chance.choice((1, 1, 3))):
            answers[name] = Answer(damaged(said.out.encode(), chance).decode(errors="replace"), said.err, said.code)
        facts = collect(RecordingSession(answers), now=lambda: 1000.0)
        for each in preflight(facts, on, HostRequirements(), assign(facts, on)):
            assert PYTHON_S.search(f"{each.found} {each.remedy}") is None, each
