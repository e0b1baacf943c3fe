"""A Ray cluster by `fab deploy` with the real image: head and service on one host, a worker on another."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import yaml
from tests.fleet import operators
from tests.fleet.bed.engine import Engine
from tests.fleet.bed.host import GpuHost, HostFactory, HostSpec
from tests.fleet.bed.programs import wait_until
from tests.fleet.bed.voxyard_images import Images
from tests.fleet.operators import KEY, Operator, containers, current, fake_image, tiny_weights

PRIVATE_PORTS = "6379,8076:8079,8176:8179,8276:8279,18000:18299"
"""As deploy/CLUSTER.md has them."""
TOKEN, SECONDS = "c0ffee" * 8, 240.0
DOCUMENT = {"seed": 7, "text": " ".join(f"This is sentence number {number} of a document." for number in range(20))}


@dataclass
class Cluster:
    """Operator, hosts, and what each task said on hosts that had nothing."""

    operator: Operator
    desk: GpuHost
    gpu: GpuHost
    said: dict[str, str]

    @property
    def head(self) -> str:
        return f"{self.desk.address}:6379"

    def client(self) -> httpx.Client:
        """Client of the cluster's speech service."""
        headers = {"Authorization": f"Bearer {KEY}"}
        return httpx.Client(base_url=f"http://{self.desk.address}:8080", headers=headers, timeout=60)


@pytest.fixture(scope="module")
def cluster(
    engine: Engine,
    base_image: str,
    gpu_host: HostFactory,
    images: Images,
    tmp_path_factory: pytest.TempPathFactory,
) -> Cluster:
    fake_image(engine, base_image, "exporter")
    engine.docker("tag", images["bark"].id, "voxyard-bark:built")
    desk, gpu = gpu_host.several(*(HostSpec(name, gpus=[], toolkit=False) for name in ("desk-01", "gpu-01")))
    for host in (desk, gpu):
        change_firewall(host, "--insert")
    folder = tmp_path_factory.mktemp("operator")
    weights = tiny_weights(engine, images["bark"].id, folder)
    more = {"gpus": 0, "bark": {"weights": weights, "stop_seconds": 20}, "secrets": "secrets.yaml"}
    entries = {
        "desk-01": operators.entry(desk, roles=["head", "bark"], **more),
        "gpu-01": operators.entry(gpu, roles=["worker"], **more),
    }
    inventory = operators.write_fleet(folder, entries, defaults={"ray": {"cluster": "lab"}})
    secrets = folder / "secrets.yaml"
    secrets.write_text(yaml.safe_dump({**yaml.safe_load(secrets.read_text()), "cluster-token": TOKEN}))
    operator = Operator(inventory, operators.environment(engine))
    said = {"check before": operator.good("check")}
    done = operator.fab("deploy")
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    said["deploy"] = f"{done.stdout}\n{done.stderr}"
    return Cluster(operator, desk, gpu, said)


def change_firewall(host: GpuHost, action: str) -> None:
    """`--insert` closes the cluster's ports to the operator's machine, the hosts' gateway; `--delete` opens them."""
    gateway = "$(ip route show default | cut -d ' ' -f 3)"
    closed = f"--protocol tcp --source {gateway} --match multiport --destination-ports {PRIVATE_PORTS} --jump DROP"
    host.run(f"iptables --wait {action} INPUT {closed}")


def found(cluster: Cluster, level: str) -> dict[str, str]:
    """Findings of `fab check` on the cluster, by host."""
    hosts = cluster.operator.json("check")["hosts"]
    every = {each["name"]: [f for f in each["findings"] if f["check"] == "ray"] for each in hosts}
    return {name: "; ".join(f["found"] for f in those if f["level"] == level) for name, those in every.items()}


def test_the_head_starts_first_and_the_last_host_completes_the_cluster(cluster: Cluster) -> None:
    said = cluster.said["deploy"]
    assert "FAIL" not in cluster.said["check before"]
    starts = re.findall(r"(desk-01|gpu-01): starting (head|bark|worker)", said)
    assert starts == [("desk-01", "head"), ("desk-01", "bark"), ("gpu-01", "worker")]
    assert "gpu-01: the cluster lab has gpu-01; the service of desk-01 is ready" in said
    status = cluster.operator.good("status")
    assert status.count("running, healthy") == 5
    assert sorted({**containers(cluster.desk), **containers(cluster.gpu)}) == ["bark", "exporter", "head", "worker"]


def test_a_second_deploy_changes_nothing(cluster: Cluster) -> None:
    before = [containers(each) for each in (cluster.desk, cluster.gpu)]
    assert cluster.operator.results("deploy") == {"desk-01": "unchanged", "gpu-01": "unchanged"}
    assert [containers(each) for each in (cluster.desk, cluster.gpu)] == before


def test_check_finds_ports_that_this_machine_reaches(cluster: Cluster) -> None:
    assert found(cluster, "FAIL") == {"desk-01": "", "gpu-01": ""}
    change_firewall(cluster.gpu, "--delete")
    try:
        wrong = found(cluster, "FAIL")
    finally:
        change_firewall(cluster.gpu, "--insert")
    assert wrong["desk-01"] == ""
    assert f"this machine reaches the cluster's ports 8076, 8077, 8078 of {cluster.gpu.address}" in wrong["gpu-01"]
    assert f"the host reaches the head of its cluster, {cluster.head}" in found(cluster, "INFO")["gpu-01"]


def test_the_head_refuses_who_has_no_token_or_another(cluster: Cluster) -> None:
    inside = "docker exec {} voxyard-worker-1 {}"
    other = f"sh -c 'umask 077; echo {'0' * 64} > /tmp/other; {{}} --cluster {cluster.head} --cluster-token {{}}'"
    ask = other.format("voxyard cluster status", "{}")
    good = cluster.gpu.run(inside.format("", ask.format("/run/secrets/cluster-token")))
    assert "gpu-01" in good.stdout
    bad = cluster.gpu.run(inside.format("", ask.format("/tmp/other")), check=False)
    assert bad.returncode == 2
    assert "the cluster's head takes another token" in bad.stderr
    join = f"timeout 120 ray start --block --temp-dir /tmp/stranger --address {cluster.head}"
    joined = cluster.gpu.run(inside.format("--env RAY_AUTH_MODE=disabled", join), check=False)
    assert joined.returncode == 1
    assert "Authentication token is missing or incorrect" in joined.stderr
    environment = cluster.desk.run("docker inspect voxyard-head-1 voxyard-bark-1; ps -ef").stdout
    assert TOKEN not in environment


def test_a_document_outlives_the_node_that_speaks_it_and_a_rollout_of_the_cluster(
    cluster: Cluster, engine: Engine
) -> None:
    with cluster.client() as client:
        whole = audio(client, wait_for_end(client, submit(client)))
        document = submit(client)
        wait_until_spoken(client, document)
        cluster.gpu.run("kill -9 $(docker inspect --format '{{.State.Pid}}' voxyard-worker-1)")
        assert audio(client, wait_for_end(client, document)) == whole
        wait_until(lambda: cluster.operator.fab("status").returncode == 0, "all is well again", seconds=SECONDS)
        (worker,) = (s for s in services(cluster, "gpu-01") if s["name"] == "worker")
        assert worker["restarts"] == 1

        engine.docker(
            "build",
            "--network",
            "none",
            "--tag",
            "voxyard-bark:next",
            "-",
            text_in="FROM voxyard-bark:built\nLABEL n=2\n",
        )
        before = [current(each) for each in (cluster.desk, cluster.gpu)]
        document = submit(client)
        wait_until_spoken(client, document)
        said = cluster.operator.results("deploy", "--image", "bark=voxyard-bark:next")
        assert said == {"desk-01": "deployed", "gpu-01": "deployed"}
        assert not {*before} & {current(each) for each in (cluster.desk, cluster.gpu)}
        assert audio(client, wait_for_end(client, document)) == whole


def services(cluster: Cluster, host: str) -> list[dict[str, Any]]:
    (status,) = cluster.operator.json("status", "--host", host)["hosts"]
    found: list[dict[str, Any]] = status["services"]
    return found


def submit(client: httpx.Client) -> str:
    return str(client.post("/v1/documents", json=DOCUMENT).raise_for_status().json()["id"])


def state(client: httpx.Client, document: str) -> dict[str, Any]:
    """State of a document; empty while the service is away."""
    try:
        answer = client.get(f"/v1/documents/{document}")
    except httpx.TransportError:
        return {"state": "", "progress": {"done": 0}}
    found: dict[str, Any] = answer.raise_for_status().json()
    return found


def wait_until_spoken(client: httpx.Client, document: str) -> None:
    """Wait until some of its chunks are spoken; others are not yet."""
    wait_until(lambda: state(client, document)["progress"]["done"] > 0, "a chunk is spoken", seconds=SECONDS)
    assert state(client, document)["state"] == "processing"


def wait_for_end(client: httpx.Client, document: str) -> str:
    wait_until(lambda: state(client, document)["state"] in ("completed", "failed"), "it ends", seconds=SECONDS)
    end = state(client, document)
    assert (end["state"], end["progress"]["failed"]) == ("completed", 0), end
    return document


def audio(client: httpx.Client, document: str) -> bytes:
    found = client.get(f"/v1/documents/{document}/audio?format=wav").raise_for_status().content
    assert len(found) > 100_000
    return found
