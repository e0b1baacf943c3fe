"""Silences in a real Alertmanager: planned work silences the alerts of its host only, for its duration only."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from alert_rules import ROOT
from free_ports import free_port
from local_session import LocalSession
from monitoring_programs import Alertmanager, alertmanager

from fleet.inventory.hosts import Host
from fleet.monitoring import silence
from fleet.monitoring.silence import AlertmanagerSilencer

WATCHER = Host("watch-01", "192.0.2.20", "voxyard", roles=("monitoring",), gpus=0)
WORKER = Host("gpu-01", "192.0.2.11", "voxyard", roles=("trainer",))


@pytest.fixture(scope="module")
def running(alertmanager_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alertmanager]:
    """An Alertmanager with the project's configuration."""
    directory = tmp_path_factory.mktemp("alertmanager")
    with alertmanager(alertmanager_program, ROOT / "deploy/alertmanager/alertmanager.yml", directory) as started:
        yield started


@pytest.fixture
def silencer(running: Alertmanager, monkeypatch: pytest.MonkeyPatch) -> AlertmanagerSilencer:
    """A silencer of a fleet whose monitoring host is this machine."""
    monkeypatch.setattr(silence, "ALERTMANAGER_PORT", running.port)
    return AlertmanagerSilencer([WORKER, WATCHER], LocalSession().connect)


def silenced(running: Alertmanager, instance: str) -> bool:
    (alert,) = [each for each in running.alerts() if each["labels"]["instance"] == instance]
    return bool(alert["status"]["silencedBy"])


def test_alerts_of_the_host_are_silenced_for_the_time_of_the_work(
    running: Alertmanager, silencer: AlertmanagerSilencer
) -> None:
    running.post([{"alertname": "ExporterDown", "instance": name} for name in ("gpu-01", "gpu-02")])

    with silencer.silenced(["gpu-01"], 'release "abc", it\'s 100% ready\\n') as made:
        during = silenced(running, "gpu-01"), silenced(running, "gpu-02")

    assert during == (True, False)
    assert not silenced(running, "gpu-01")
    (kept,) = [each for each in running.silences() if each["id"] == made[0].id]
    assert (kept["comment"], kept["status"]["state"]) == ('release "abc", it\'s 100% ready\\n', "expired")


def test_a_silence_has_an_end_of_its_own(running: Alertmanager, silencer: AlertmanagerSilencer) -> None:
    made = silencer.begin(["gpu-07", "gpu-08"], "a deploy that dies")

    kept = {each["id"]: each for each in running.silences()}
    assert [each.host for each in made] == ["gpu-07", "gpu-08"]
    for each in made:
        begin, end = (datetime.fromisoformat(kept[each.id][name]) for name in ("startsAt", "endsAt"))
        assert timedelta(minutes=1) < end - begin <= timedelta(seconds=silence.LONGEST_SECONDS)
    silencer.end(made)
    assert all(
        each["status"]["state"] == "expired" for each in running.silences() if each["id"] in {one.id for one in made}
    )


def test_the_silence_ends_though_the_work_fails(running: Alertmanager, silencer: AlertmanagerSilencer) -> None:
    with pytest.raises(KeyboardInterrupt), silencer.silenced(["gpu-03"], "cut") as made:
        raise KeyboardInterrupt

    states = {each["id"]: each["status"]["state"] for each in running.silences()}
    assert states[made[0].id] == "expired"


def test_one_that_somebody_ended_already_is_no_trouble(
    running: Alertmanager, silencer: AlertmanagerSilencer, caplog: pytest.LogCaptureFixture
) -> None:
    with silencer.silenced(["gpu-04"], "ended by hand") as made:
        silencer.end(made)
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


def test_work_continues_where_no_alertmanager_answers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(silence, "ALERTMANAGER_PORT", free_port())
    with AlertmanagerSilencer([WATCHER], LocalSession().connect).silenced(["gpu-01"], "a deploy") as made:
        assert made == ()
    (warning,) = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert "alerts of gpu-01 are not silenced on watch-01" in warning
    assert "nothing listens on 127.0.0.1" in warning


def test_a_fleet_without_monitoring_is_told_so_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "fleet")
    silencer = AlertmanagerSilencer([WORKER], LocalSession().connect)
    for _ in range(2):
        with silencer.silenced(["gpu-01"], "a deploy") as made:
            assert made == ()
    assert [each.getMessage() for each in caplog.records] == [
        "alerts are not silenced: no host of the inventory has the role monitoring"
    ]


def test_a_silence_that_cannot_be_ended_is_named_with_the_way_to_end_it(
    running: Alertmanager,
    silencer: AlertmanagerSilencer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = silencer.begin(["gpu-05"], "a deploy")
    monkeypatch.setattr(silence, "ALERTMANAGER_PORT", free_port())
    silencer.end(made)
    (warning,) = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert f"silence expire {made[0].id}" in warning
