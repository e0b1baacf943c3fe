"""A Ray cluster on Kubernetes: what KubeRay would inject is ours, its ports are closed, service and workers agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from kustomized import Objects, build, pod_of
from rendered_clusters import Render

from voxyard.speech.cluster.ports import HEAD_PORT, ROLES, node_ports


@pytest.fixture
def objects(out: Path) -> Objects:
    return build(out / "overlays/pool")


def one(objects: Objects, kind: str, name: str) -> dict[str, Any]:
    (found,) = [each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def templates(objects: Objects) -> dict[str, dict[str, Any]]:
    """Pod templates of head and worker."""
    spec = one(objects, "RayCluster", "voxyard")["spec"]
    (group,) = spec["workerGroupSpecs"]
    return {"head": spec["headGroupSpec"]["template"], "worker": group["template"]}


def container(objects: Objects, role: str) -> dict[str, Any]:
    (found,) = templates(objects)[role]["spec"]["containers"]
    return dict(found)


def settings(objects: Objects) -> dict[str, Any]:
    (data,) = [each["data"] for each in objects if each["kind"] == "ConfigMap" and "bark.yaml" in each["data"]]
    return dict(yaml.safe_load(data["bark.yaml"]))


def test_head_and_workers_run_voxyards_commands_and_not_those_of_the_operator(objects: Objects) -> None:
    cluster = one(objects, "RayCluster", "voxyard")
    assert cluster["metadata"]["annotations"]["ray.io/overwrite-container-cmd"] == "true"
    assert cluster["spec"]["enableInTreeAutoscaling"] is False
    assert cluster["spec"]["upgradeStrategy"] == {"type": "Recreate"}
    (group,) = cluster["spec"]["workerGroupSpecs"]
    assert group["replicas"] == group["minReplicas"] == group["maxReplicas"] == 3
    token = ["--cluster-token", "/run/secrets/cluster-token"]
    assert container(objects, "head")["args"] == [
        "cluster", "head", "--address", "$(POD_IP)", "--name", "$(POD_NAME)", *token
    ]  # fmt: skip
    assert container(objects, "worker")["args"] == [
        "cluster", "join", "--cluster", "voxyard-head:6379", "--address", "$(POD_IP)", *token, "--name", "$(POD_NAME)",
        "--device", "cuda", "--gpus", "0,1", "--workers", "2",
    ]  # fmt: skip
    assert container(objects, "worker")["resources"]["limits"] == {"memory": "64Gi", "nvidia.com/gpu": 2}


def test_nothing_is_left_for_the_operator_to_inject(objects: Objects) -> None:
    for role in ("head", "worker"):
        pod = container(objects, role)
        assert {"livenessProbe", "readinessProbe"} <= set(pod)
        assert {mount["mountPath"] for mount in pod["volumeMounts"]} >= {"/dev/shm", "/tmp"}
        ports = {port["name"]: port["containerPort"] for port in pod["ports"]}
        assert ports["metrics"] == {"head": 8184, "worker": 8084}[role]
        assert set(ports) <= {"metrics", "gcs-server"}  # else a dashboard's and a client's would get a Service
        known = {each["name"]: each.get("value") for each in pod["env"]}
        assert (known["RAY_AUTH_MODE"], known["RAY_AUTH_TOKEN_PATH"]) == ("token", "/run/secrets/cluster-token")
        assert "RAY_AUTH_TOKEN" not in known


def test_head_and_workers_get_the_token_and_no_other_secret(objects: Objects) -> None:
    for template in templates(objects).values():
        (secret,) = [volume["secret"] for volume in template["spec"]["volumes"] if "secret" in volume]
        assert secret["secretName"] == "voxyard-bark"
        assert [item["key"] for item in secret["items"]] == ["cluster-token"]


def test_the_service_speaks_through_the_head_and_has_no_gpu(objects: Objects) -> None:
    service = one(objects, "StatefulSet", "voxyard-bark")
    assert "nvidia.com/gpu" not in yaml.safe_dump(service)
    assert settings(objects)["speech"] == {
        "pool": "ray", "cluster": "voxyard-head:6379", "cluster_token": "/run/secrets/cluster-token"
    }  # fmt: skip
    address = one(objects, "Service", "voxyard-head")["spec"]
    assert address["selector"] == templates(objects)["head"]["metadata"]["labels"]
    assert address["publishNotReadyAddresses"] is True
    assert [port["port"] for port in address["ports"]] == [HEAD_PORT]
    assert "clusterIP" not in address  # an address that outlives the head's pod
    pod = pod_of(service)
    assert pod is not None
    assert pod["containers"][0]["startupProbe"]["httpGet"]["path"] == "/healthz"


def test_service_and_workers_read_weights_and_voices_from_one_volume(fab: Render, place: Path) -> None:
    (place / "voices").mkdir()
    (place / "voices/ann.npz").write_bytes(b"a voice")
    file = place / "hosts.yaml"
    file.write_text(file.read_text().replace("weights: weights", "weights: weights, voices: voices"))
    code, said = fab(cluster=["pool"])
    assert code == 0, said
    objects = build(place / "out/overlays/pool")
    claim = one(objects, "PersistentVolumeClaim", "voxyard-weights")["spec"]
    assert (claim["accessModes"], claim["storageClassName"]) == (["ReadWriteMany"], "shared")
    service = one(objects, "StatefulSet", "voxyard-bark")
    (own,) = service["spec"]["volumeClaimTemplates"]
    assert (own["metadata"]["name"], own["spec"]["storageClassName"]) == ("data", "fast")
    for pod in (service["spec"]["template"]["spec"], templates(objects)["worker"]["spec"]):
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        assert volumes["weights"]["persistentVolumeClaim"] == {"claimName": "voxyard-weights"}
        (speaks,), (waiting,) = pod["containers"], pod["initContainers"]
        mount = {"name": "weights", "mountPath": "/var/lib/voxyard/artefacts"}
        assert mount in waiting["volumeMounts"]
        assert mount | {"readOnly": True} in speaks["volumeMounts"]
    places = [settings(objects)["bark"][each].rpartition("/")[0] for each in ("model", "voices")]
    assert places == ["/var/lib/voxyard/artefacts"] * 2


def allowed(objects: Objects, component: str) -> list[tuple[bool, list[Any]]]:
    """For pods of a component: whether from the cluster's own only, and the ports."""
    found = []
    for each in objects:
        if each["kind"] != "NetworkPolicy":
            continue
        selector, (rule,) = each["spec"]["podSelector"], each["spec"]["ingress"]
        names = [selector.get("matchLabels", {}).get("app.kubernetes.io/name")]
        names += [name for term in selector.get("matchExpressions", ()) for name in term["values"]]
        if f"voxyard-{component}" in names:
            assert each["spec"]["policyTypes"] == ["Ingress"]
            if "from" in rule:
                assert rule["from"] == [{"podSelector": selector}]
            found.append(("from" in rule, rule["ports"]))
    return found


def test_strangers_reach_metrics_and_the_service_and_no_port_of_ray(objects: Objects) -> None:
    for component, port in (("cluster-head", "metrics"), ("cluster-worker", "metrics"), ("bark", "http")):
        opened, closed = sorted(allowed(objects, component), key=lambda each: each[0])
        assert opened == (False, [{"protocol": "TCP", "port": port}])
        assert closed[0] is True
        ranges = [(each["port"], each.get("endPort", each["port"])) for each in closed[1]]
        for role in ROLES:
            ports = node_ports(role)
            for number in (ports.object_manager, ports.node_manager, ports.first_worker, ports.last_worker, HEAD_PORT):
                assert any(first <= number <= last for first, last in ranges), (role, number)
        assert not any(first <= number <= last for first, last in ranges for number in (8080, 8082, 8083, 8265, 10001))


def test_metrics_of_head_and_workers_are_scraped_as_the_rules_name_them(objects: Objects) -> None:
    for role, template in templates(objects).items():
        monitor = one(objects, "PodMonitor", f"voxyard-cluster-{role}")["spec"]
        assert monitor["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
        (endpoint,) = monitor["podMetricsEndpoints"]
        assert endpoint["port"] in {port["name"] for port in container(objects, role)["ports"]}
        assert {"action": "replace", "targetLabel": "job", "replacement": f"cluster-{role}"} in endpoint["relabelings"]


def test_workers_without_gpus_speak_on_the_processor(fab: Render, place: Path) -> None:
    file = place / "hosts.yaml"
    file.write_text(file.read_text().replace("replicas: 3, gpus: 2", "replicas: 3, gpus: 0"))
    assert fab(cluster=["pool"])[0] == 0
    objects = build(place / "out/overlays/pool")
    assert container(objects, "worker")["args"][-2:] == ["--device", "cpu"]
    assert "nvidia.com/gpu" not in yaml.safe_dump(one(objects, "RayCluster", "voxyard"))


def test_a_redis_keeps_the_state_of_the_head(fab: Render, place: Path) -> None:
    file = place / "hosts.yaml"
    file.write_text(file.read_text().replace("  pool:\n", "  pool:\n    redis: redis.speech:6379\n"))
    assert fab(cluster=["pool"])[0] == 0
    args = container(build(place / "out/overlays/pool"), "head")["args"]
    assert args[-4:] == ["--cluster-token", "/run/secrets/cluster-token", "--redis", "redis.speech:6379"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[head, worker, bark]", "[head, bark]", "clusters.pool.roles: worker is missing: a Ray cluster has a head"),
        ("[head, worker, bark]", "[worker, bark]", "clusters.pool.roles: head is missing"),
        ("[head, worker, bark]", "[head, worker]", "clusters.pool.roles: bark is missing"),
        ("    worker:", "    bark: {replicas: 2}\n    worker:", "clusters.pool.bark.replicas: found 2: with workers"),
        ("replicas: 3", "replicas: 0", "clusters.pool.worker.replicas: expected a number of pods"),
    ],
)
def test_a_ray_cluster_that_cannot_work_is_refused(fab: Render, place: Path, old: str, new: str, said: str) -> None:
    file = place / "hosts.yaml"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    code, message = fab()
    assert (code, said in message) == (2, True), message


def test_a_ray_cluster_without_a_token_is_refused(fab: Render, place: Path) -> None:
    file = place / "secrets.yaml"
    found = yaml.safe_load(file.read_text())
    del found["cluster-token"]
    file.write_text(yaml.safe_dump(found))
    code, message = fab(cluster=["pool"])
    assert code == 2
    assert "the cluster pool has no token" in message
    assert fab(cluster=["lab", "east"])[0] == 0
