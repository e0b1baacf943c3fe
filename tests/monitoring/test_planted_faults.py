"""Faults that are drawn, with a fixed seed: the alert tells their cause. `make bench-alerts` plays all kinds."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from alert_rules import alerts
from fault_kinds import KINDS
from healthy_weeks import WEEKS, live
from planted_faults import MINUTE, new_host, observe, train

from voxyard.telemetry.causes import BY_NAME

SEED = 7
LOOK_BACK = ("diverging loss", "flat loss", "long checkpoints", "mostly validating")
"""Their alerts look back for hours: no scenario in real time plants them."""
PARTLY = (
    "object storage",
    "somewhat crowded cores",
    "disk slow once",
    "disk stops now and then",
    "share that hangs",
    "share that hangs for minutes",
    "waiting for nothing that is measured",
    "disk slow and the card idles",
    "run that fails again and again",
    "heat in bursts",
    "stranger comes and goes",
    "speech on a crowded host",
    "flapping gpu",
    "restarting exporter",
    "restarting speech",
    "rebooting host",
    "slow after a new release",
    "slow share in a validation",
    "waiting in collectives",
    "speech that is silence or noise",
    "late first sound",
    "outrun streams",
    "failing documents",
)
"""They hold for a part of the time, or stand beside a cause that does not explain them."""
TOGETHER = ("gone host", "critical xid", "dead workers")
QUIET = (
    "small models that wait a little",
    "short looks",
    "queue of short runs",
    "runs that learn at once",
    "fine tuning",
    "requests in bursts",
    "other batches",
)


def test_there_are_forty_kinds_of_faults_and_ten_of_healthy_weeks() -> None:
    assert len({kind.name for kind in KINDS}) >= 40
    assert len({week.name for week in WEEKS}) >= 10


def test_what_tells_a_fault_is_a_cause_of_the_table_or_an_alert() -> None:
    assert {name for kind in KINDS for name in kind.told_by} <= {*BY_NAME, "unknown", *alerts()}


def test_features_cost_what_they_cost_whatever_their_step_waits_for(tmp_path: Path) -> None:
    def seconds() -> float:
        scraped = host.scrape()["trainer"] or {}
        seconds, batches = (
            scraped[f'voxyard_train_data_stage_{name}_total{{part="features",run="steady"}}']
            for name in ("seconds", "batches")
        )
        return seconds / batches

    host = new_host(tmp_path)
    train(host, "steady")
    host.advance(15)
    before = seconds()
    (kind,) = (each for each in KINDS if each.name == "disk slow and the card idles")
    kind.plant(host, random.Random(SEED)).during(host, 0.0)
    host.advance(15)
    assert seconds() == pytest.approx(before)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*LOOK_BACK, *PARTLY])
def test_a_fault_is_told_by_its_cause(promtool: str, tmp_path: Path, name: str) -> None:
    (kind,) = (each for each in KINDS if each.name == name)
    (found,) = observe([(kind, SEED)], tmp_path)
    assert found.told is not None, f"{found.drawn}: {found.fired}"
    assert found.before == ()


@pytest.mark.slow
def test_faults_that_are_replayed_together_are_told_as_each_alone(promtool: str, tmp_path: Path) -> None:
    kinds = [replace(kind, before=25 * MINUTE, after=8 * MINUTE) for kind in KINDS if kind.name in TOGETHER]
    alone = [observe([(kind, SEED)], tmp_path)[0] for kind in kinds]
    together = observe([(kind, SEED) for kind in kinds], tmp_path)
    assert [{name for name, _, _ in each.fired} for each in together] == [
        {name for name, _, _ in each.fired} for each in alone
    ]
    assert all(each.told for each in together)
    assert [each.drawn for each in together] == [each.drawn for each in alone]


@pytest.mark.slow
@pytest.mark.timeout(1200)  # minutes where the machine does much else
@pytest.mark.parametrize("name", [*QUIET[:1], *(pytest.param(name, marks=pytest.mark.long) for name in QUIET[1:])])
def test_a_healthy_day_pages_nobody(promtool: str, tmp_path: Path, name: str) -> None:
    (week,) = (each for each in WEEKS if each.name == name)
    (fired,) = live([week], tmp_path, days=1, seed=SEED)
    assert [each for each in fired if each.severity in ("critical", "warning")] == []
