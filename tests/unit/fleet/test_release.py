"""A release: what is in its files, and that its name says so."""

from __future__ import annotations

import io
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from fleet_doubles import IMAGE, facts, gpu, host, uuid

from fleet.assignment import Assignment, assign
from fleet.errors import FleetError
from fleet.inventory import Host
from fleet.release import Release, compose_sources, plan_document, render
from voxyard.settings import load
from voxyard.telemetry.expected import expected_workloads
from voxyard.trainer.config import TrainConfig

COMPOSE = Path(__file__).resolve().parents[3] / "deploy/compose"


def release(on: Host | None = None, *, assignment: Assignment | None = None, **other: Any) -> Release:
    on = on or host()
    wanted: dict[str, Any] = {"image": IMAGE, "sources": compose_sources(COMPOSE, on, gpus=True)}
    wanted |= {"address": "192.0.2.11"} | other
    return render(on, assign(facts(), on) if assignment is None else assignment, **wanted)


def test_a_release_has_compose_file_environment_and_plan() -> None:
    made = release()
    files = dict(made.files)
    assert list(files) == ["exporter.yaml", "voxyard.env", "plan.yaml"]
    assert files["exporter.yaml"] == (COMPOSE / "exporter.yaml").read_bytes()
    assert files["voxyard.env"].decode() == (
        f"VOXYARD_RELEASE={made.id}\nVOXYARD_EXPORTER_IMAGE=voxyard-exporter:abababababab\n"
        "VOXYARD_EXPORTER_ADDRESS=192.0.2.11\nVOXYARD_EXPORTER_PORT=9410\n"
    )
    assert yaml.safe_load(files["plan.yaml"]) == {
        "release": made.id,
        "workloads": [
            {"workload": "trainer", "role": "data", "gpu": uuid(0)},
            {"workload": "trainer", "role": "model", "gpu": uuid(1)},
        ],
        "data": {
            "prefetch_buffer_size": 3,
            "pipeline_buffer_size": 50,
            "data_gpu": uuid(0),
            "model_gpu": uuid(1),
        },
        "training": {
            "batch_size": 16,
            "enable_memory_isolation": True,
            "data_gpu_memory": 8192,
            "model_gpu_memory": 16384,
        },
    }


def test_the_plan_is_read_by_exporter_and_trainer(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_bytes(dict(release().files)["plan.yaml"])
    assert expected_workloads(plan) == (("trainer", "data"), ("trainer", "model"))
    loaded = load(TrainConfig, environ={}, host_plan=plan)
    assert loaded.config.data.model_gpu == uuid(1)
    assert loaded.config.training.model_gpu_memory == 16384
    assert loaded.config.training.batch_size == 16


def test_one_gpu_gets_no_pair_and_no_limits_in_its_plan() -> None:
    plan = plan_document(assign(facts(gpus=(gpu(0),)), host()))
    assert plan["training"] == {"batch_size": 16}
    assert plan["data"] == {"prefetch_buffer_size": 3, "pipeline_buffer_size": 50}


def test_a_host_without_roles_has_an_empty_plan() -> None:
    assert plan_document(Assignment()) == {"workloads": []}


def test_the_same_content_has_the_same_id() -> None:
    assert release().id == release().id
    assert len(release().id) == 12


def test_the_id_changes_with_everything_that_a_host_gets(tmp_path: Path) -> None:
    override = tmp_path / "site.yaml"
    override.write_text("services: {}\n")
    on = host()
    others = [
        release(image=replace(IMAGE, id="sha256:" + "cd" * 32)),
        release(address="192.0.2.12"),
        release(host(exporter_port=9411)),
        release(host(memory_policy="full")),
        release(host(roles=("trainer", "bark")), assignment=Assignment()),
        release(sources={**compose_sources(COMPOSE, on, gpus=True), "site-1-site.yaml": override}),
        release(sources=compose_sources(COMPOSE, on, gpus=False)),
    ]
    assert len({each.id for each in [release(), *others]}) == len(others) + 1


def test_the_id_does_not_change_with_what_only_the_operator_sees() -> None:
    assert release(host(acknowledged=frozenset({"clock"}), port=2222)).id == release().id


def test_the_archive_is_for_its_owner_alone_and_the_plan_for_the_containers_user() -> None:
    made = release()
    with tarfile.open(fileobj=io.BytesIO(made.archive())) as archive:
        modes = {member.name: oct(member.mode) for member in archive}
        contents = {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]
    assert modes == {"exporter.yaml": "0o600", "voxyard.env": "0o600", "plan.yaml": "0o644"}
    assert contents == dict(made.files)


def test_a_host_without_gpus_takes_back_the_reservation() -> None:
    assert list(compose_sources(COMPOSE, host(), gpus=False)) == ["exporter.yaml", "cpu.yaml"]


def test_a_sites_own_compose_file_comes_last_and_must_be_there(tmp_path: Path) -> None:
    override = tmp_path / "exporter.yaml"
    on = host(compose_overrides=(override,))
    with pytest.raises(FleetError, match=r"no such compose file, needed for gpu-01"):
        compose_sources(COMPOSE, on, gpus=True)
    override.write_text("services: {}\n")
    made = release(on, sources=compose_sources(COMPOSE, on, gpus=True))
    assert made.compose_files == ("exporter.yaml", "site-1-exporter.yaml")
