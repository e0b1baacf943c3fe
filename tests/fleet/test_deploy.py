"""`fab deploy` with the real images: the exporter on a host with GPUs, a speech service on one without."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from typing import Any

import pytest
import yaml
from tests.fleet import operators
from tests.fleet.bed.engine import Engine
from tests.fleet.bed.host import GpuHost, HostFactory, HostSpec
from tests.fleet.bed.voxyard_images import Images
from tests.fleet.operators import KEY, ROOT, Operator, current, fake_image, tiny_weights

Said = dict[str, str]


@pytest.fixture(scope="module")
def hosts(gpu_host: HostFactory) -> list[GpuHost]:
    """One host with two GPUs, whose toolkit brings the driver's library into containers, and one without GPUs."""
    return gpu_host.several(HostSpec("gpu-01", mount_driver=True), HostSpec("cpu-01", gpus=[], toolkit=False))


@pytest.fixture(scope="module")
def host(hosts: list[GpuHost]) -> GpuHost:
    """The one with GPUs."""
    return hosts[0]


@pytest.fixture(scope="module")
def operator(
    engine: Engine,
    base_image: str,
    hosts: list[GpuHost],
    images: Images,
    tmp_path_factory: pytest.TempPathFactory,
) -> Operator:
    """An operator of both, with weights that the image itself made: a tiny model of random numbers."""
    folder = tmp_path_factory.mktemp("operator")
    for role in ("exporter", "bark"):
        engine.docker("tag", images[role].id, f"voxyard-{role}:built")
    fake_image(engine, base_image, "trainer")
    gpu, cpu = hosts
    entries = {
        "gpu-01": operators.entry(gpu, roles=["trainer"], gpus=2),
        "cpu-01": operators.entry(cpu, roles=["bark"], gpus=0),
    }
    inventory = operators.write_fleet(folder, entries)
    document = yaml.safe_load(inventory.read_text())
    document["hosts"]["cpu-01"]["bark"]["weights"] = tiny_weights(engine, images["bark"].id, folder)
    inventory.write_text(yaml.safe_dump(document, sort_keys=False))
    return Operator(inventory, operators.environment(engine))


@pytest.fixture(scope="module")
def first(operator: Operator) -> Said:
    """Output of two deploys on hosts that had nothing."""
    return {"deploy": operator.good("deploy"), "again": operator.good("deploy")}


def told(host: GpuHost, command: str) -> str:
    return str(host.run(command).stdout)


def traces(host: GpuHost) -> tuple[str, ...]:
    """All that a deploy leaves on a host: files with their times and modes, the container and when it was started."""
    files = told(host, "find ~voxyard/.voxyard -printf '%p %T@ %m\\n'")
    return files, container(host)["Id"], container(host)["State"]["StartedAt"]


def container(host: GpuHost) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(told(host, "docker inspect voxyard-exporter-1"))[0]
    return found


def test_make_check_plan_deploy_status_do_the_same(first: Said, operator: Operator, hosts: list[GpuHost]) -> None:
    assert "unchanged" in first["again"]
    before = [traces(each) for each in hosts]
    command = ["make", "--no-print-directory", "check", "deploy", "status", f"ARGS=--inventory {operator.inventory}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=operator.environment)
    assert done.returncode == 0, done.stderr
    for words in ("limits (recommended)", "nothing to do", "running, healthy", *map(current, hosts)):
        assert words in done.stdout
    assert before == [traces(each) for each in hosts]


def test_the_exporter_is_scraped_over_the_network_and_tells_of_both_gpus(first: Said, operator: Operator) -> None:
    status = operator.json("status", "--host", "gpu-01")["hosts"][0]["services"][0]
    with urllib.request.urlopen(f"http://{status['address']}:{status['port']}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    assert "voxyard_exporter_collect_success 1.0" in text
    assert len(re.findall(r"^voxyard_gpu_up\{.*\} 1\.0$", text, re.MULTILINE)) == 2
    assert 'voxyard_workload_expected{role="model",workload="trainer"} 1.0' in text


def test_the_service_speaks_a_sentence_to_those_who_have_a_key(first: Said, operator: Operator) -> None:
    status = operator.json("status", "--host", "cpu-01")["hosts"][0]["services"][1]
    body = {"model": "bark", "input": "The old sailor opens the door.", "voice": "alloy", "response_format": "wav"}
    url = f"http://{status['address']}:{status['port']}/v1/audio/speech"
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310 - an address of the bed
        sound = answer.read()
    assert sound[:4] == b"RIFF"
    assert len(sound) > 24_000  # half a second at 24 kHz and 16 bits
    assert "not enforceable on CPU" in first["deploy"]


def test_the_containers_have_no_rights(first: Said, hosts: list[GpuHost]) -> None:
    found = container(hosts[0])
    assert found["HostConfig"]["ReadonlyRootfs"] is True
    assert found["HostConfig"]["CapDrop"] == ["ALL"]
    assert not found["HostConfig"]["Privileged"]
    assert found["Config"]["User"] == "65532:65532"
    assert found["HostConfig"]["DeviceRequests"][0]["Capabilities"] == [["utility"]]
    for each, name in ((hosts[0], "voxyard-exporter-1"), (hosts[1], "voxyard-bark-1")):
        status = told(each, f"docker exec {name} cat /proc/1/status")
        assert re.search(r"^Uid:\s+65532\s+65532", status, re.MULTILINE)
        assert re.search(r"CapEff:\s+0+$", status, re.MULTILINE)
        assert re.search(r"NoNewPrivs:\s+1$", status, re.MULTILINE)


def test_what_the_service_writes_belongs_to_its_own_user_and_its_memory_is_limited(
    first: Said, hosts: list[GpuHost]
) -> None:
    bark = json.loads(told(hosts[1], "docker inspect voxyard-bark-1"))[0]["HostConfig"]
    total = int(told(hosts[1], "sed -n 's/^MemTotal: *//p' /proc/meminfo").split()[0]) << 10
    assert total // 2 < bark["Memory"] < total
    assert (bark["ShmSize"], bark["IpcMode"]) == (1 << 30, "private")
    owners = told(hosts[1], "cd ~voxyard/.voxyard && stat -c '%u %a' data/bark data/bark/* secrets/*").splitlines()
    assert len(owners) > 3
    assert {owner.split()[0] for owner in owners} == {"65532"}
    assert owners[-1].split()[1] == "600"


def test_the_release_is_for_its_owner_alone_and_the_plan_is_in_the_container(first: Said, host: GpuHost) -> None:
    modes = told(host, "cd ~voxyard/.voxyard/current && stat -c '%n %a' . *").split("\n")
    assert {". 700", "voxyard.env 600", "exporter.yaml 600"} <= set(modes)
    plan = yaml.safe_load(told(host, "docker exec voxyard-exporter-1 cat /etc/voxyard/plan.yaml"))
    assert [each["role"] for each in plan["workloads"]] == ["data", "model"]
    assert plan["training"]["data_gpu_memory"] > 0


def test_the_exporter_knows_what_should_run(first: Said, host: GpuHost) -> None:
    expected = json.loads(told(host, "docker exec voxyard-exporter-1 cat /var/lib/voxyard/state/expected.json"))
    labels = container(host)["Config"]["Labels"]
    assert expected == {"release": current(host), "services": {"exporter": labels["voxyard.config"]}}
