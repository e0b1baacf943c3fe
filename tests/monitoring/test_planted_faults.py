"""Faults that are drawn, with a fixed seed: the alert tells their cause. `make bench-alerts` plays all kinds."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from alert_rules import alerts
from fault_kinds import KINDS
from healthy_weeks import WEEKS, live
from planted_faults import HOUR, MINUTE, Kind, new_host, observe, train

from voxyard.telemetry.causes import BY_NAME

SEED = 7


@dataclass(frozen=True)
class Play:
    """Faults on a host each, replayed together: most of what a rule costs does not depend on the number of hosts."""

    before: float
    after: float
    interval: float
    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"{len(self.names)} in {(self.before + self.after) / MINUTE:.0f} minutes"

    def faults(self) -> list[tuple[Kind, int]]:
        """Its faults, each with the seed, over its course."""
        kinds = [kind for kind in KINDS if kind.name in self.names]
        return [(replace(kind, before=self.before, after=self.after, interval=self.interval), SEED) for kind in kinds]


PARTLY = Play(
    25 * MINUTE,
    45 * MINUTE,
    30.0,
    (
        "somewhat crowded cores",
        "disk stops now and then",
        "slow cores and a slow disk",
        "share that hangs and takes node exporter with it",
        "idling while scrapes are lost",
        "power cap under an exporter that restarts",
        "share that hangs",
        "waiting for nothing that is measured",
        "heat in bursts",
        "stranger comes and goes",
        "flapping gpu",
        "restarting speech",
        "speech that is silence or noise",
        "late first sound",
        "outrun streams",
        "failing documents",
    ),
)
"""They hold for a part of the time, or stand beside a cause that does not explain them."""
SLOWLY = Play(
    90 * MINUTE,
    75 * MINUTE,
    60.0,
    (
        "long checkpoints",
        "run that fails again and again",
        "rebooting host",
        "stranger of some minutes",
        "worker that dies now and then",
        "slow after a new release",
        "waiting in collectives",
    ),
)
LOOK_BACK = Play(
    HOUR,
    7 * HOUR,
    60.0,
    ("diverging loss", "flat loss", "mostly validating", "slow share in a validation"),
)
"""Their alerts look back for hours: no scenario in real time plants them."""
AGAIN = replace(
    PARTLY,
    names=(
        "object storage",
        "disk slow once",
        "share that hangs for minutes",
        "disk slow and the card idles",
        "speech on a crowded host",
        "restarting exporter",
    ),
)
"""They are told by a cause that another fault plants."""
TOGETHER = Play(25 * MINUTE, 8 * MINUTE, 30.0, ("gone host", "critical xid", "dead workers"))
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
@pytest.mark.timeout(1200)  # minutes where the machine does much else
@pytest.mark.parametrize(
    "play", [PARTLY, SLOWLY, *(pytest.param(each, marks=pytest.mark.long) for each in (LOOK_BACK, AGAIN))], ids=str
)
def test_faults_are_told_by_their_causes(promtool: str, tmp_path: Path, play: Play) -> None:
    found = observe(play.faults(), tmp_path)
    assert {each.kind.name for each in found} == set(play.names)
    assert [each for each in found if each.told is None or each.before] == []


@pytest.mark.slow
def test_faults_that_are_replayed_together_are_told_as_each_alone(promtool: str, tmp_path: Path) -> None:
    faults = TOGETHER.faults()
    alone = [observe([fault], tmp_path)[0] for fault in faults]
    together = observe(faults, tmp_path)
    assert [{name for name, _, _ in each.fired} for each in together] == [
        {name for name, _, _ in each.fired} for each in alone
    ]
    assert all(each.told for each in together)
    assert [each.drawn for each in together] == [each.drawn for each in alone]


@pytest.mark.slow
@pytest.mark.timeout(1200)  # minutes where the machine does much else
@pytest.mark.parametrize(
    ("name", "days"),
    [
        (QUIET[0], 1 / 3),  # more than the six hours for which rules look back
        *(pytest.param(name, 1, marks=pytest.mark.long) for name in QUIET),
    ],
)
def test_healthy_days_page_nobody(promtool: str, tmp_path: Path, name: str, days: float) -> None:
    (week,) = (each for each in WEEKS if each.name == name)
    (fired,) = live([week], tmp_path, days=days, seed=SEED)
    assert [each for each in fired if each.severity in ("critical", "warning")] == []
