"""Kubernetes: valid objects under several versions, restricted pods, images by digest, no secrets."""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema_rs
import kubernetes_validate.utils as validator
import pytest
import yaml
from kustomized import Objects, build, builders, containers, identity, pod_of, pods_of
from operator_schemas import SCHEMAS
from rendered_clusters import KEY_HASH, REGISTRY, STORE, TOKEN, TRAINER, Render, image

from fleet.errors import FleetError
from fleet.images import wanted
from fleet.images.image import REVISION_LABEL, LocalImage
from fleet.images.push import write_record
from fleet.images.revision import Revision
from fleet.inventory.bark_settings import BarkFile
from fleet.inventory.hosts import load
from tasks import render as task
from voxyard.settings.load import load as load_settings

ROOT = Path(__file__).resolve().parents[4]
VERSIONS = ("1.30", *list(dict.fromkeys(validator.all_versions()))[-3:])
COMMIT = "c" * 40
_IDLE = "has no effect with the role worker: remove it"
OVERLAYS = ("overlays/lab", "overlays/east", "overlays/pool", "overlays/wide", "runs/lab/train")


@pytest.fixture(autouse=True)
def schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Schemas are read from their files once."""
    monkeypatch.setattr(validator, "schema_contents", _schema_contents)


_schema_contents = functools.cache(validator.schema_contents)


def check(each: dict[str, Any], version: str) -> None:
    """Raises ValidationError for an object that Kubernetes, or the operator, would not take as it is."""
    if each["kind"] in SCHEMAS:
        jsonschema_rs.validate(SCHEMAS[each["kind"]], each)
        for pod in pods_of(each):
            validator.validate({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": pod}, version, strict=True)
    else:
        validator.validate(each, version, strict=True)


def speech(objects: Objects) -> dict[str, Any]:
    """Pod of the speech service."""
    pod = pod_of(of(objects, "StatefulSet", "voxyard-bark"))
    assert pod is not None
    return pod


def data_of(objects: Objects, name: str) -> dict[str, str]:
    """Data of the ConfigMap whose name is this with a hash."""
    named = re.compile(rf"{name}-[0-9a-f]{{10}}")
    (found,) = [each for each in objects if each["kind"] == "ConfigMap" and named.fullmatch(identity(each)[1])]
    return dict(found["data"])


def settings_of(objects: Objects) -> dict[str, Any]:
    """Settings file of the speech service."""
    return dict(yaml.safe_load(data_of(objects, "voxyard-bark")["bark.yaml"]))


def variables_of(container: dict[str, Any]) -> dict[str, Any]:
    """Variables of a container; of those that are not given by value, where they come from."""
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container["env"]}


def of(objects: Objects, kind: str, name: str = "") -> dict[str, Any]:
    found = [each for each in objects if each["kind"] == kind and (not name or each["metadata"]["name"] == name)]
    assert len(found) == 1, [identity(each) for each in objects]
    return found[0]


@pytest.mark.parametrize(
    "version",
    [*(pytest.param(each, marks=pytest.mark.slow) for each in VERSIONS[:-1]), VERSIONS[-1]],
)
@pytest.mark.parametrize("builder", builders())
def test_every_object_is_valid_under_each_version(out: Path, version: str, builder: str) -> None:
    for overlay in OVERLAYS:
        objects = builders()[builder](out / overlay)
        assert len(objects) > 2
        for each in objects:
            if version == VERSIONS[0] and "resourceClaimTemplateName" in str(each):
                continue  # claims of GPUs are of Kubernetes 1.34
            check(each, version)


def renamed(document: Any, key: str, typo: str) -> bool:
    """True where a key was found in the document, and misspelt."""
    if isinstance(document, dict):
        if key in document:
            document[typo] = document.pop(key)
            return True
        return any(renamed(each, key, typo) for each in document.values())
    return isinstance(document, list) and any(renamed(each, key, typo) for each in document)


@pytest.mark.parametrize(
    ("overlay", "kind", "key", "typo"),
    [
        ("overlays/lab", "StatefulSet", "terminationGracePeriodSeconds", "terminationGracePeriodSecond"),
        ("overlays/lab", "StatefulSet", "volumeClaimTemplates", "volumeClaimTemplate"),
        ("overlays/lab", "DaemonSet", "livenessProbe", "livenesProbe"),
        ("overlays/pool", "PersistentVolumeClaim", "storageClassName", "storageClass"),
        ("overlays/lab", "PodDisruptionBudget", "maxUnavailable", "maxUnavailables"),
        ("overlays/lab", "Service", "targetPort", "targetport"),
        ("overlays/lab", "PodMonitor", "podMetricsEndpoints", "podMetricEndpoints"),
        ("overlays/lab", "PodMonitor", "scrapeTimeout", "scrapeTimeOut"),
        ("overlays/wide", "ScaledObject", "threshold", "treshold"),
        ("overlays/lab", "PrometheusRule", "expr", "exprs"),
        ("overlays/pool", "RayCluster", "upgradeStrategy", "updateStrategy"),
        ("overlays/pool", "RayCluster", "rayStartParams", "rayStartParam"),
        ("overlays/pool", "RayCluster", "groupName", "name"),
        ("overlays/pool", "RayCluster", "readinessProbe", "readynessProbe"),
        ("overlays/pool", "RayCluster", "persistentVolumeClaim", "persistentVolumesClaim"),
        ("overlays/pool", "NetworkPolicy", "endPort", "lastPort"),
        ("overlays/pool", "NetworkPolicy", "ingress", "ingres"),
        ("runs/lab/train", "Job", "backoffLimit", "backOffLimit"),
    ],
)
def test_a_misspelt_key_is_caught(out: Path, overlay: str, kind: str, key: str, typo: str) -> None:
    for each in (each for each in build(out / overlay) if each["kind"] == kind):
        check(each, VERSIONS[-1])
        if renamed(each, key, typo):
            break
    with pytest.raises((validator.ValidationError, jsonschema_rs.ValidationError)):
        check(each, VERSIONS[-1])


def test_a_misspelt_key_of_a_kustomization_is_caught(out: Path) -> None:
    file = out / "overlays/lab/kustomization.yaml"
    file.write_text(file.read_text().replace("\nimages:", "\nimage:"))
    with pytest.raises(AssertionError, match="unknown keys"):
        build(out / "overlays/lab")


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_pod_is_restricted(out: Path, overlay: str) -> None:
    objects = build(out / overlay)
    pods = [pod for each in objects for pod in pods_of(each)]
    assert pods
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["fsGroup"]) == (65532, 65532)
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        assert not {"hostIPC", "hostNetwork"} & set(pod)
        assert pod.get("hostPID", False) is (overlay == "overlays/wide" and pod["containers"][0]["name"] == "exporter")
        assert not [volume for volume in pod["volumes"] if "hostPath" in volume]
    for each in objects:
        for container in containers(each):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert not [port for port in container.get("ports", ()) if "hostPort" in port]


def test_images_are_named_by_their_digests(out: Path) -> None:
    found = {
        container["image"] for overlay in OVERLAYS for each in build(out / overlay) for container in containers(each)
    }
    assert found == {image(role).reference for role in ("exporter", "bark", "trainer")}
    assert all(name.startswith(f"{REGISTRY}/voxyard-") and "@sha256:" in name for name in found)


def test_secrets_are_referenced_and_never_rendered(out: Path) -> None:
    text = "\n".join(path.read_text() for path in out.rglob("*") if path.is_file())
    assert KEY_HASH not in text
    assert TOKEN not in text
    assert "sixteen-characters" not in text
    objects = build(out / "overlays/lab")
    assert "Secret" not in {each["kind"] for each in objects}
    secret = next(volume["secret"] for volume in speech(objects)["volumes"] if volume["name"] == "secrets")
    assert secret == {"secretName": "voxyard-bark", "defaultMode": 0o440}
    assert "create secret generic voxyard-bark --from-file=bark-api-keys=FILE" in text
    assert "the file of bark-store-password has the password alone, without a line break" in text


def mounts_are_there(each: dict[str, Any], pod: dict[str, Any], names: set[tuple[str, str]]) -> None:
    for volume in pod["volumes"]:
        if "configMap" in volume:
            assert ("ConfigMap", volume["configMap"]["name"]) in names
        if "persistentVolumeClaim" in volume:
            assert ("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]) in names
    inside = [*pod.get("initContainers", ()), *pod["containers"]]
    mounts = [mount for container in inside for mount in container["volumeMounts"]]
    claims = {claim["metadata"]["name"] for claim in each["spec"].get("volumeClaimTemplates", ())}
    assert {mount["name"] for mount in mounts} == {volume["name"] for volume in pod["volumes"]} | claims
    assert not [mount for mount in mounts if "subPath" in mount]  # what is mounted so is never updated


def test_what_a_pod_mounts_is_there(out: Path) -> None:
    for overlay in OVERLAYS:
        objects = build(out / overlay)
        names = {identity(each) for each in objects} | {
            ("PersistentVolumeClaim", name) for name in ("corpora", "audio")
        }
        for each in objects:
            for pod in pods_of(each):
                mounts_are_there(each, pod, names)


def test_each_pod_of_the_speech_service_has_gpus_a_name_and_volumes_of_its_own(out: Path) -> None:
    objects = build(out / "overlays/lab")
    service = of(objects, "StatefulSet")["spec"]
    assert (service["replicas"], service["updateStrategy"]) == (2, {"type": "RollingUpdate"})
    assert [claim["metadata"]["name"] for claim in service["volumeClaimTemplates"]] == ["data", "weights"]
    assert {claim["spec"]["storageClassName"] for claim in service["volumeClaimTemplates"]} == {"fast"}
    pod = speech(objects)
    (bark,) = pod["containers"]
    assert bark["resources"]["limits"]["nvidia.com/gpu"] == 2
    assert variables_of(bark)["VOXYARD_SERVICE_INSTANCE"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    assert pod["terminationGracePeriodSeconds"] == 90 + 10
    assert bark["lifecycle"]["preStop"] == {"exec": {"command": ["sleep", "10"]}}
    assert bark["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert bark["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert bark["startupProbe"]["failureThreshold"] * bark["startupProbe"]["periodSeconds"] >= 600
    settings = settings_of(objects)
    weights = settings["bark"].pop("model")
    assert re.fullmatch(r"/var/lib/voxyard/artefacts/weights-[0-9a-f]+", weights)
    assert weights.rpartition("/")[2] in data_of(objects, "voxyard-artefacts")
    assert settings["bark"] == {"device": "cuda", "gpu_memory": "16384", "batch_size": 4}
    assert settings["speech"]["max_parallel_tts_workers"] == 2
    assert settings["service"]["stop_seconds"] == 75


def test_a_pods_name_counts_more_than_the_instance_of_the_settings(out: Path, tmp_path: Path) -> None:
    file = tmp_path / "bark.yaml"
    file.write_text(data_of(build(out / "overlays/lab"), "voxyard-bark")["bark.yaml"])
    loaded = load_settings(BarkFile, file=file, environ={"VOXYARD_SERVICE_INSTANCE": "voxyard-bark-1"})
    assert loaded.config.service.instance == "voxyard-bark-1"


def test_pods_share_their_documents_in_a_database_and_a_bucket(out: Path) -> None:
    objects = build(out / "overlays/lab")
    service = settings_of(objects)["service"]
    assert (service["store"], service["shelf"]) == (STORE, "s3://voices/lab")
    found = variables_of(speech(objects)["containers"][0])
    # libpq ignores a file that a group may read, and those of a pod are its group's
    assert found["PGPASSWORD"] == {"secretKeyRef": {"name": "voxyard-bark", "key": "bark-store-password"}}
    assert "PGPASSFILE" not in found
    assert found["AWS_CONFIG_FILE"] == found["AWS_SHARED_CREDENTIALS_FILE"] == "/run/secrets/bark-shelf-keys"
    assert not [each for each in objects if each.get("spec", {}).get("sessionAffinity")]


def test_a_store_under_defaults_is_that_of_a_cluster_too(fab: Render, place: Path) -> None:
    shared = "bark: {store: 'postgresql://voxyard@db.example/all', shelf: s3://voices/all, port: 8090,"
    inventory_with("bark: {port: 8080,", shared)(place)
    code, said = fab(cluster=["east"])
    assert code == 0, said
    objects = build(place / "out/overlays/east")
    service = settings_of(objects)["service"]
    assert (service["store"], service["shelf"]) == ("postgresql://voxyard@db.example/all", "s3://voices/all")
    assert [port["port"] for port in of(objects, "Service", "voxyard-bark")["spec"]["ports"]] == [8090]


def test_their_audio_lies_on_a_claim_that_all_mount(out: Path) -> None:
    objects = build(out / "overlays/wide")
    assert settings_of(objects)["service"]["shelf"] == "/var/lib/voxyard/shelf"
    pod = speech(objects)
    assert {"name": "shelf", "persistentVolumeClaim": {"claimName": "audio"}} in pod["volumes"]
    assert {"name": "shelf", "mountPath": "/var/lib/voxyard/shelf"} in pod["containers"][0]["volumeMounts"]


def test_pods_are_as_many_as_the_queue_needs_where_the_inventory_says_so(out: Path) -> None:
    objects = build(out / "overlays/wide")
    scaled = of(objects, "ScaledObject")["spec"]
    service = of(objects, "StatefulSet")
    target = {key: service[key] for key in ("apiVersion", "kind")} | {"name": identity(service)[1]}
    assert scaled["scaleTargetRef"] == target
    assert (scaled["minReplicaCount"], scaled["maxReplicaCount"]) == (2, 6)
    (trigger,) = scaled["triggers"]
    assert trigger["metadata"]["query"] == 'sum(voxyard_bark_queue_depth{namespace="voxyard"})'
    assert trigger["metadata"]["threshold"] == "30"
    assert "replicas" not in service["spec"]  # an apply would undo what KEDA has set
    claim = of(objects, "PersistentVolumeClaim", "voxyard-weights")["spec"]
    assert (claim["accessModes"], claim["storageClassName"]) == (["ReadWriteMany"], "nfs")
    assert [each["metadata"]["name"] for each in service["spec"]["volumeClaimTemplates"]] == ["data"]


def test_no_container_is_without_requests(out: Path) -> None:
    """The node ends such pods first, and a quota refuses them."""
    for overlay in OVERLAYS:
        for each in build(out / overlay):
            for container in containers(each):
                assert {"cpu", "memory"} <= set(container["resources"]["requests"]), (overlay, container["name"])


def test_what_a_cluster_asks_of_its_pods_is_in_them(out: Path) -> None:
    objects = build(out / "overlays/wide")
    (run,) = [each for each in build(out / "runs/wide/train") if each["kind"] == "Job"]
    for each in (*objects, run):
        for pod in pods_of(each):
            assert pod["imagePullSecrets"] == [{"name": "login"}]
    for pod in (speech(objects), *pods_of(run)):
        assert pod["runtimeClassName"] == "nvidia-cdi"
        assert pod["resourceClaims"] == [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
        assert pod["containers"][0]["resources"]["claims"] == [{"name": "gpu"}]
        assert "nvidia.com/gpu" not in pod["containers"][0]["resources"]["limits"]
    assert speech(objects)["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-L4"}
    assert run["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "speech"
    assert of(objects, "Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"


def test_voices_are_awaited_beside_the_weights_and_mounted(fab: Render, place: Path) -> None:
    (place / "voices").mkdir()
    (place / "voices/ann.npz").write_bytes(b"a voice")
    inventory_with("weights: weights", "weights: weights, voices: voices")(place)
    code, said = fab(cluster=["lab"])
    assert code == 0, said
    objects = build(place / "out/overlays/lab")
    names = sorted(set(data_of(objects, "voxyard-artefacts")) - {"artefacts.sh"})
    assert [name.partition("-")[0] for name in names] == ["voices", "weights"]
    bark = settings_of(objects)["bark"]
    assert [bark["voices"], bark["model"]] == [f"/var/lib/voxyard/artefacts/{name}" for name in names]
    for each in objects:
        check(each, VERSIONS[-1])


def test_a_cluster_without_gpus_reserves_none(out: Path) -> None:
    objects = build(out / "overlays/east")
    service = of(objects, "StatefulSet")
    assert "nvidia.com/gpu" not in yaml.safe_dump(service)
    assert settings_of(objects)["bark"]["device"] == "cpu"
    assert service["metadata"]["namespace"] == "speech"


def test_rules_and_dashboards_are_the_repositorys_own(out: Path) -> None:
    objects = build(out / "overlays/lab")
    rules = {each["metadata"]["name"]: each["spec"] for each in objects if each["kind"] == "PrometheusRule"}
    files = sorted((ROOT / "deploy/prometheus/rules").glob("*.yaml"))
    expected = {f"voxyard-{path.stem.replace('_', '-')}": yaml.safe_load(path.read_text()) for path in files}
    assert rules == expected
    boards = {
        name: text
        for each in objects
        if each["metadata"].get("labels", {}).get("grafana_dashboard")
        for name, text in each["data"].items()
    }
    assert boards == {path.name: path.read_text() for path in (ROOT / "grafana/dashboards").glob("*.json")}
    assert {each["metadata"]["labels"]["release"] for each in objects if each["kind"].endswith("Monitor")} == {
        "prometheus"
    }


def test_series_have_the_job_and_instance_that_the_rules_join_by(out: Path) -> None:
    for each in build(out / "overlays/lab"):
        if each["kind"].endswith("Monitor"):
            (endpoint,) = each["spec"]["podMetricsEndpoints"]
            targets = {rule["targetLabel"]: rule for rule in endpoint["relabelings"]}
            assert each["metadata"]["name"] == f"voxyard-{targets['job']['replacement']}"
            assert targets["instance"]["sourceLabels"] == ["__meta_kubernetes_pod_node_name"]
            assert (endpoint["interval"], endpoint["scrapeTimeout"]) == ("15s", "10s")


def test_the_shipped_values_give_a_clusters_own_exporters_their_nodes_name_too() -> None:
    values = yaml.safe_load((ROOT / "deploy/prometheus/kube-prometheus-stack.yaml").read_text())
    parts = values["prometheus-node-exporter"]["prometheus"]["monitor"], values["dcgm-exporter"]["serviceMonitor"]
    for part in parts:
        targets = {rule["targetLabel"]: rule for rule in part["relabelings"]}
        assert targets["instance"]["sourceLabels"] == ["__meta_kubernetes_pod_node_name"]


def test_the_same_inputs_make_the_same_bytes_and_other_settings_start_new_pods(
    out: Path, fab: Render, place: Path
) -> None:
    def config() -> str:
        template = of(build(out / "overlays/lab"), "StatefulSet")["spec"]["template"]
        return str(template["metadata"]["annotations"]["voxyard/config"])

    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert fab(config=str(place / "train.yaml"))[0] == 0
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    was = config()
    (place / "hosts.yaml").write_text((place / "hosts.yaml").read_text().replace("batch_size: 4", "batch_size: 8"))
    assert fab()[0] == 0
    assert config() != was
    assert (out / "runs/lab/train/run.yaml").is_file()


def test_another_release_restarts_only_what_it_changes(out: Path, fab: Render, place: Path) -> None:
    def templates() -> dict[str, Any]:
        kinds = ("DaemonSet", "StatefulSet")
        return {
            identity(each)[1]: each["spec"]["template"] for each in build(out / "overlays/lab") if each["kind"] in kinds
        }

    def release() -> str:
        return str(of(build(out / "overlays/lab"), "DaemonSet")["metadata"]["annotations"]["voxyard/release"])

    before, was = templates(), release()
    (place / "images.json").unlink()
    other = replace(image("trainer"), digest=f"{REGISTRY}/voxyard-trainer@sha256:{'7' * 64}")
    write_record(place / "images.json", {"exporter": image("exporter"), "bark": image("bark"), "trainer": other})
    assert fab()[0] == 0
    assert release() != was
    assert templates() == before


def test_memory_is_reserved_where_the_inventory_names_it(out: Path, fab: Render, place: Path) -> None:
    inventory_with("replicas: 2, gpus: 2,", "replicas: 2, memory: 48Gi, gpus: 2,")(place)
    assert fab()[0] == 0
    for overlay, request, limit in (("lab", "48Gi", "48Gi"), ("east", "8Gi", None)):
        resources = speech(build(out / "overlays" / overlay))["containers"][0]["resources"]
        assert resources["limits"].get("memory") == limit
        assert resources["requests"]["memory"] == request


def test_files_of_somebody_else_are_neither_replaced_nor_removed(out: Path, fab: Render, place: Path) -> None:
    (place / "victim").write_text("mine")
    listed = out / "overlays/lab/.rendered"
    listed.write_text(listed.read_text().replace("bark.yaml\n", "") + "../../../victim\n")
    kept = (out / "overlays/lab/bark.yaml").read_bytes()
    assert fab()[0] == 0
    assert (place / "victim").read_text() == "mine"

    listed.write_text(listed.read_text().replace("bark.yaml\n", ""))
    (out / "overlays/lab/bark.yaml").write_bytes(kept + b"# mine\n")
    code, said = fab()
    assert code == 2
    assert "overlays/lab/bark.yaml: exists, and fab render did not write it" in said
    assert (out / "overlays/lab/bark.yaml").read_bytes() == kept + b"# mine\n"


def test_an_overlay_of_a_cluster_that_is_gone_is_named(out: Path, fab: Render, place: Path) -> None:
    inventory_with("  east:", "  west:")(place)
    code, said = fab()
    assert code == 0
    assert f"{out}/overlays/east: no cluster of the inventory any more" in said


def test_a_role_that_was_taken_away_leaves_no_file(out: Path, fab: Render, place: Path) -> None:
    (place / "hosts.yaml").write_text((place / "hosts.yaml").read_text().replace("[bark, trainer]", "[trainer]"))
    assert fab(cluster=["lab"])[0] == 0
    assert not (out / "overlays/lab/bark.yaml").exists()
    assert (out / "overlays/east/bark.yaml").exists()
    assert "StatefulSet" not in {each["kind"] for each in build(out / "overlays/lab")}


def test_a_run_is_a_job_that_starts_again_after_a_disruption(out: Path) -> None:
    objects = build(out / "runs/lab/train")
    job = of(objects, "Job")
    rules = job["spec"]["podFailurePolicy"]["rules"]
    assert {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]} in rules
    assert rules[1]["onExitCodes"] == {"containerName": "train", "operator": "In", "values": [75]}
    pod = pod_of(job)
    assert pod is not None
    (train,) = pod["containers"]
    variables = variables_of(train)
    assert variables["VOXYARD_TRAIN_DATA"] == "/corpora/LJ"
    assert variables["VOXYARD_TRAIN_RESUME"] == "true"
    assert train["resources"]["limits"]["nvidia.com/gpu"] == 2
    assert pod["terminationGracePeriodSeconds"] == 120 + 10
    assert train["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "metrics"}
    assert train["startupProbe"]["failureThreshold"] > train["livenessProbe"]["failureThreshold"]


def script_of(out: Path, folder: Path) -> list[str]:
    """Command line of the Job's script, beside a `voxyard` that stops as the trainer does, or ends with a code."""
    (folder / "voxyard").write_text(TRAINER)
    (folder / "voxyard").chmod(0o755)
    data = data_of(build(out / "runs/lab/train"), "run-train")
    (folder / "train.sh").write_text(data["train.sh"])
    return ["bash", str(folder / "train.sh")]


def test_a_pod_that_is_stopped_before_the_end_exits_with_75(out: Path, tmp_path: Path) -> None:
    command = script_of(out, tmp_path)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "trains\n"
    process.terminate()
    assert process.stdout.readline() == "saved\n"
    assert process.wait(100) == 75
    for code in (0, 1, 2):
        assert subprocess.run([*command, "--exit", str(code)], env=environment).returncode == code


def test_weights_are_awaited_and_verified_once(out: Path, tmp_path: Path, weights: Path) -> None:
    objects = build(out / "overlays/lab")
    lists, volume = tmp_path / "lists", tmp_path / "volume"
    lists.mkdir()
    volume.mkdir()
    data = data_of(objects, "voxyard-artefacts")
    for listed, text in data.items():
        (lists / listed).write_text(text)
    (name,) = set(data) - {"artefacts.sh"}
    there = "/var/lib/voxyard/artefacts"
    script = data["artefacts.sh"].replace(f"{there} ||", f"{volume} ||").replace("/etc/voxyard/artefacts/", f"{lists}/")
    process = subprocess.Popen(
        ["bash", "-c", script.replace("sleep 10", "sleep 0.1")],
        env={"PATH": "/usr/bin:/bin", "NAMESPACE": "speech", "HOSTNAME": "bark-1-x"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    said = (
        f"waiting for {name}: kubectl --namespace speech cp --container artefacts DIRECTORY/. bark-1-x:{volume}/{name}"
    )
    assert said in process.stdout.readline()
    for file in weights.iterdir():
        (volume / name / file.name).write_bytes(file.read_bytes())
    assert process.wait(100) == 0
    again = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=100)
    assert (again.returncode, again.stdout) == (0, "")


@pytest.mark.parametrize(("cluster", "source"), [("lab", None), ("wide", "suno/bark")])
def test_pods_fetch_their_weights_where_the_inventory_says_from_where(
    out: Path, cluster: str, source: str | None
) -> None:
    (bark,) = (each for each in build(out / "overlays" / cluster) if each["kind"] == "StatefulSet")
    (artefacts,) = bark["spec"]["template"]["spec"]["initContainers"]
    variables = {each["name"]: each.get("value") for each in artefacts["env"]}
    assert variables.get("WEIGHTS_FROM") == source
    assert {"name": "tmp", "mountPath": "/tmp"} in artefacts["volumeMounts"]


Change = Callable[[Path], None]


def record_of(**images: str | None) -> Change:
    def change(place: Path) -> None:
        (place / "images.json").unlink()
        write_record(place / "images.json", {role: image(role, where) for role, where in images.items()})

    return change


def inventory_with(old: str, new: str) -> Change:
    def change(place: Path) -> None:
        file = place / "hosts.yaml"
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))

    return change


@pytest.mark.parametrize(
    "change",
    [
        lambda place: (place / "images.json").unlink(),
        record_of(exporter="other.example", bark=None),
    ],
)
def test_images_that_another_machine_has_pushed_are_those_of_the_registry(
    change: Change, fab: Render, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def published(role: str, registry: str, reference: object, root: object) -> LocalImage:
        asked.append(role)
        return image(role, registry)

    monkeypatch.setattr(task, "wanted_image", published)
    assert fab("kubernetes", cluster=["east"])[0] == 0
    before = {path.name: path.read_bytes() for path in (place / "out/overlays/east").iterdir()}
    assert asked == []
    change(place)
    assert fab("kubernetes", cluster=["east"])[0] == 0
    assert {path.name: path.read_bytes() for path in (place / "out/overlays/east").iterdir()} == before
    assert asked == ["exporter", "bark"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (record_of(exporter=REGISTRY, trainer=REGISTRY), "lab: the image bark was never built: make images"),
        (record_of(exporter=REGISTRY, trainer=REGISTRY, bark=None), "the image bark was never pushed to a registry"),
        (record_of(exporter="other.example", trainer=REGISTRY, bark=REGISTRY), "voxyard-exporter@sha256:"),
        (lambda place: (place / "images.json").unlink(), "the image exporter was never built"),
        (inventory_with("secrets: secrets.yaml", "port: 22"), "without API keys"),
        (inventory_with("gpu_memory: 24564", "gpu_nodes: {a: b}"), "clusters.lab.gpu_memory: missing"),
        (inventory_with("gpus: 2", "gpu: 2"), "clusters.lab.bark.gpu: unknown key: is gpus meant?"),
        (inventory_with("{release: prometheus}", "{release: 2}"), "expected NAME: 'VALUE'"),
        (
            inventory_with("namespace: speech", "namespace: kube-system"),
            "clusters.east.namespace: kube-system has other",
        ),
        (inventory_with("namespace: speech", "namespace: default"), "clusters.east.namespace: default has other"),
        (inventory_with("{release: prometheus}", "{app.kubernetes.io/name: x}"), "this one is of the rendered objects"),
        (inventory_with("namespace: speech", "namespace: Speech"), "clusters.east.namespace: expected the name"),
        (inventory_with("  east:", "  East:"), "clusters.East: a cluster's name has lower-case letters"),
        (inventory_with("weights: weights", "stop_seconds: 60"), "the role bark needs weights"),
        (inventory_with(", shelf: s3://voices/lab", ""), "clusters.lab.bark.store: there is no bark.shelf"),
        (
            inventory_with(f'store: "{STORE}", shelf: s3://voices/lab', "cpus: 3"),
            "clusters.lab.bark.replicas: found 2 without a store",
        ),
        (
            inventory_with("shelf: audio", "shelf: /mnt/voxyard/audio"),
            "clusters.wide.bark.shelf: expected s3://BUCKET/PREFIX, or the name of a PersistentVolumeClaim",
        ),
        (inventory_with("      weights_class: nfs\n", ""), "clusters.wide.bark.scaling: a new pod needs"),
        (inventory_with("most: 6", "most: 1"), "clusters.wide.bark.scaling.most: found 1, fewer than bark.replicas"),
        *(
            (
                inventory_with("    worker: {replicas: 3", f"    {given}\n    worker: {{replicas: 3"),
                f"pool.{key}: {_IDLE}",
            )
            for key, given in {
                "bark.gpus": "bark: {gpus: 1}",
                "bark.weights_class": "bark: {weights_class: nfs}",
                "gpu_memory": "gpu_memory: 24564",
            }.items()
        ),
        *(
            (
                inventory_with("    namespace: speech", f"    {given}"),
                f"east.{key}: has no effect without the role worker",
            )
            for key, given in {"redis": "redis: 10.0.0.1:6379", "worker": "worker: {gpus: 2}"}.items()
        ),
    ],
)
def test_what_cannot_be_rendered_is_said(fab: Render, place: Path, change: Change, said: str) -> None:
    change(place)
    code, message = fab()
    assert code == 2
    assert said in message
    assert not (place / "out").exists()


@pytest.mark.parametrize(
    ("built", "names", "warned"),
    [
        (COMMIT, ["lab"], []),
        ("d" * 40, ["lab"], ["bark", "exporter", "trainer"]),
        ("d" * 40, ["east"], ["bark", "exporter"]),
    ],
)
def test_images_of_another_commit_are_warned_of(
    fab: Render, place: Path, monkeypatch: pytest.MonkeyPatch, built: str, names: list[str], warned: list[str]
) -> None:
    monkeypatch.setattr(wanted, "read_revision", lambda _: Revision(COMMIT, 1))
    labels = ((REVISION_LABEL, built),)
    images = {role: replace(image(role), labels=labels) for role in ("exporter", "bark", "trainer")}
    write_record(place / "images.json", images)
    code, said = fab(cluster=names)
    assert code == 0
    assert (
        re.findall(r"the image (\w+) of the last push was built from dddddddddddd, the sources are at c+: make", said)
        == warned
    )


def test_a_shallow_clone_is_rendered_with_a_warning(fab: Render, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def shallow(_: Path) -> Revision:
        raise FleetError("this is a shallow clone")

    monkeypatch.setattr(wanted, "read_revision", shallow)
    write_record(place / "images.json", {"exporter": replace(image("exporter"), labels=((REVISION_LABEL, COMMIT),))})
    code, said = fab(cluster=["east"])
    assert code == 0
    assert said.count("whether the images are of these sources is not known: this is a shallow clone") == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cluster": ["west"]}, "no cluster west in"),
        ({"to": "nomad"}, "expected a target of kubernetes, slurm"),
        ({"voxyard": "/opt/voxyard"}, "--voxyard has no effect with kubernetes"),
        ({"run": "x", "gpus": "2"}, "--run, --gpus have no effect with a rendering without --config"),
        ({"config": "{place}/train.yaml", "cluster": ["east"]}, "east: no cluster with the role trainer"),
        ({"config": "{place}/train.yaml", "set": ["training.checkpoint_dir=/x"]}, "set by the deployment"),
        ({"config": "{place}/train.yaml", "gpus": "1"}, "a cluster numbers the 1 that a run reserves from 0"),
    ],
)
def test_wrong_use_is_said(fab: Render, place: Path, options: dict[str, Any], said: str) -> None:
    given = {key: value.format(place=place) if isinstance(value, str) else value for key, value in options.items()}
    code, message = fab(**given)
    assert code == 2
    assert said in message


def test_words_of_a_run_are_not_expanded_by_kubernetes(fab: Render, place: Path) -> None:
    """`$(NAME)` in a command or a variable is a reference there, and `$$` one dollar."""
    (place / "train.yaml").write_text("data: {train_data: /corpora/L$(HOME)J}\n")
    code, said = fab(config=str(place / "train.yaml"), set=["telemetry.sample_text=$(id)"])
    assert code == 0, said
    run = (place / "out/runs/lab/train/run.yaml").read_text()
    assert "/corpora/L$$(HOME)J" in run
    assert "$$(id)" in run


def test_a_corpus_outside_of_the_claim_is_refused(fab: Render, place: Path) -> None:
    (place / "train.yaml").write_text("data: {train_data: /home/ann/LJ}\n")
    code, message = fab(config=str(place / "train.yaml"))
    assert code == 2
    assert "/home/ann/LJ: expected a path below /corpora" in message


def test_an_inventory_of_clusters_alone_has_no_hosts(place: Path) -> None:
    with pytest.raises(FleetError, match="has clusters only"):
        load(place / "hosts.yaml").select([])


def test_the_clusters_of_the_example_are_right(place: Path) -> None:
    text = (ROOT / "deploy/hosts.example.yaml").read_text()
    (found,) = re.findall(r"^# clusters:\n(?:#  .*\n)+", text, re.MULTILINE)
    (place / "hosts.yaml").write_text(re.sub("^# ", "", found, flags=re.MULTILINE))
    lab, pool = load(place / "hosts.yaml").clusters
    assert (lab.bark.scaling.most, lab.trainer.queue, pool.worker.storage_class) == (6, "training", "nfs")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("most: 6", "most: 7"),
        ("chunks: 30", "chunks: 31"),
        ("replicas: 2, gpus: 2", "replicas: 2, memory: 9Gi, gpus: 2"),
    ],
)
def test_what_is_applied_and_is_another_has_another_release(fab: Render, place: Path, old: str, new: str) -> None:
    def releases() -> set[str]:
        assert fab()[0] == 0
        texts = [path.read_text() for path in (place / "out/overlays").glob("*/exporter.yaml")]
        return {found for text in texts for found in re.findall("voxyard/release: (?:')?([0-9a-f]{12})", text)}

    before = releases()
    assert before == releases()
    assert len(before) == 4
    inventory_with(old, new)(place)
    assert len(before & releases()) == 3


def test_a_cluster_without_a_store_is_asked_for_no_password_of_one(fab: Render, place: Path) -> None:
    assert fab()[0] == 0
    heads = {path.parent.name: path.read_text() for path in (place / "out/overlays").glob("*/kustomization.yaml")}
    assert {name: "bark-store-password" in head for name, head in heads.items()} == {
        "lab": True, "wide": True, "east": False, "pool": False
    }  # fmt: skip


def test_a_head_says_what_comes_first_and_what_the_cluster_needs(fab: Render, place: Path) -> None:
    assert fab(config=str(place / "train.yaml"), cluster=["wide"])[0] == 0
    head = (place / "out/overlays/wide/kustomization.yaml").read_text()
    order = ["namespace.yaml", "create secret", "the Secret login", "Claim audio", "Claim corpora", "one-gpu", "KEDA"]
    places = [head.index(each) for each in [*order, "--field-manager=keda", "--kustomize THIS-DIRECTORY"]]
    assert places == sorted(places)
    assert "Kueue" in head
    run = (place / "out/runs/wide/train/kustomization.yaml").read_text()
    assert "kubectl --namespace voxyard delete job run-train" in run
