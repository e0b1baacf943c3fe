"""Faults that are drawn, with a fixed seed: the alert tells their cause. `make bench-alerts` plays all kinds."""

from __future__ import annotations

from pathlib import Path

import pytest
from alert_rules import alerts
from fault_kinds import KINDS
from healthy_weeks import WEEKS
from planted_faults import observe

from voxyard.telemetry.causes import BY_NAME

SEED = 7
LOOK_BACK = ("diverging loss", "flat loss", "long checkpoints", "mostly validating")
"""Their alerts look back for hours: no scenario in real time plants them."""


def test_there_are_forty_kinds_of_faults_and_ten_of_healthy_weeks() -> None:
    assert len({kind.name for kind in KINDS}) >= 40
    assert len({week.name for week in WEEKS}) >= 10


def test_what_tells_a_fault_is_a_cause_of_the_table_or_an_alert() -> None:
    assert {name for kind in KINDS for name in kind.told_by} <= {*BY_NAME, "unknown", *alerts()}


@pytest.mark.slow
@pytest.mark.parametrize("name", LOOK_BACK)
def test_a_fault_is_told_by_its_cause(promtool: str, tmp_path: Path, name: str) -> None:
    (kind,) = (each for each in KINDS if each.name == name)
    found = observe(kind, tmp_path, SEED)
    assert found.told is not None, f"{found.drawn}: {found.fired}"
    assert found.before == ()
