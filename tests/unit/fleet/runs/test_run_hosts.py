"""Runs over several hosts: refusals, and the files of each host."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import yaml
from fleet_doubles import host
from run_requests import PLAN, RELEASE, REQUEST

from fleet.errors import FleetError
from fleet.inventory.hosts import Host
from fleet.release.compose import parse
from fleet.runs import hosts
from fleet.runs.config import RunSettings, flags_of, validate
from fleet.runs.files import RunFiles, render, request_from_files

FIRST, SECOND = (host(name=f"gpu-0{number}", address=f"10.0.0.{number}") for number in (1, 2))
SETTINGS = "training: {batch_size: 8}\n"


def rendered(index: int = 0, settings: str = SETTINGS) -> RunFiles:
    place = hosts.places([FIRST, SECOND])[index]
    wanted = replace(REQUEST, host=place.names[index], settings=RunSettings(settings.encode()), hosts=place)
    return render(wanted, RELEASE)


def service(files: RunFiles) -> Any:
    return parse(dict(files.files)["run.yaml"], "run.yaml")["services"]["train"]


def test_each_host_gets_all_addresses_and_its_own_place() -> None:
    for index in (0, 1):
        assert service(rendered(index))["command"] == [
            "train", f"--host-index={index}", "--hosts=10.0.0.1:2222,10.0.0.2:2222",
        ]  # fmt: skip


def test_the_order_is_the_one_that_was_named() -> None:
    assert [place.addresses for place in hosts.places([SECOND, FIRST])] == [("10.0.0.2:2222", "10.0.0.1:2222")] * 2


def test_the_trainer_uses_the_hosts_network_and_its_metrics_stay_where_they_were() -> None:
    files = rendered(1)
    found = service(files)
    assert found["network_mode"] == "host"
    assert "    ports: !reset []\n" in dict(files.files)["run.yaml"].decode()
    assert found["environment"] == {
        "VOXYARD_TRAIN_METRICS_HOST": RELEASE.address,
        "VOXYARD_TRAIN_METRICS_PORT": "9411",
        "VOXYARD_TRAIN_RESTARTS": "3",  # an hour, where another host is lost
    }
    assert files.metrics == render(REQUEST, RELEASE).metrics


def test_a_run_on_one_host_keeps_its_own_network_and_manifest() -> None:
    files = render(REQUEST, RELEASE)
    found = yaml.safe_load(dict(files.files)["run.yaml"])["services"]["train"]
    assert {"network_mode", "ports", "environment"}.isdisjoint(found)
    assert "hosts" not in json.loads(dict(files.files)["run.json"])


def test_a_run_over_hosts_is_made_again_from_its_files() -> None:
    files = rendered(1)
    again = request_from_files(dict(files.files))
    assert again.hosts == files.wanted.hosts
    assert again.settings == files.wanted.settings  # the hosts are none of the operator's settings


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ([FIRST], "gpu-01 names one host: name at least two"),
        ([FIRST, replace(SECOND, roles=("bark",))], "gpu-02 is no trainer: add the role"),
        ([FIRST, replace(SECOND, address="8.8.8.8")], "gpu-02: 8.8.8.8 is 8.8.8.8, a public address"),
        ([FIRST, replace(SECOND, address="127.0.0.1")], "gpu-02: the other hosts of a run cannot reach 127.0.0.1"),
        ([FIRST, replace(SECOND, address="fd00::2")], "gpu-02: fd00::2 has no IPv4 address"),
        ([FIRST, replace(SECOND, address="10.0.0.1", port=2200)], "gpu-02 and gpu-01 have the same address 10.0.0.1"),
    ],
)
def test_hosts_that_cannot_train_together_are_refused(changed: list[Host], said: str) -> None:
    with pytest.raises(FleetError, match=said):
        hosts.places(changed)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("{}", "training.batch_size is missing: over 2 hosts"),
        ("training: {batch_size: 7}", "training.batch_size is 7: over 2 hosts .* divide by 2"),
        ("training: {batch_size: 8, strategy: mirrored}", "--strategy mirrored cannot be used with --hosts"),
    ],
)
def test_settings_that_do_not_fit_so_many_hosts_are_refused(settings: str, said: str) -> None:
    with pytest.raises(FleetError, match=said):
        rendered(settings=settings)


def test_settings_that_fit_are_taken_with_the_pair_of_the_plan() -> None:
    assert rendered(settings="training: {batch_size: 8, strategy: multiworker, allow_mixed: true}").gpus
    assert yaml.safe_load(PLAN)["data"]["data_gpu"] in rendered().gpus


@pytest.mark.parametrize("key", ["training.hosts=10.0.0.1:2222", "training.host_index=1"])
def test_hosts_cannot_be_set_one_by_one(key: str) -> None:
    with pytest.raises(FleetError, match="set by the deployment: --hosts of fab train"):
        flags_of([key], {})


def test_a_run_on_one_host_is_told_how_to_name_several() -> None:
    loaded = validate(RunSettings(b"training: {strategy: multiworker}"))
    with pytest.raises(FleetError, match="multiworker is for several hosts: name them with --hosts"):
        hosts.refuse_misfit(loaded.config, 1)
