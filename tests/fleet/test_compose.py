"""Compose files of all combinations of roles, GPUs, keys and voices: accepted by docker compose without warnings."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from fleet_doubles import IMAGE, facts, gpu, host, uuid
from tests.fleet.bed.host import GpuHost, HostFactory

from fleet.images.image import LocalImage
from fleet.inventory.hosts import Bark, Host
from fleet.inventory.ray_clusters import RayNode
from fleet.inventory.secrets import Secrets, versioned
from fleet.release.artefact import Artefact
from fleet.release.compose import sources
from fleet.release.environment import LoginInfo
from fleet.release.gpu_assignment import assign
from fleet.release.inputs import ReleaseInputs
from fleet.release.ray_nodes import ray_part
from fleet.release.release import Release, render, source_names, wanted_images
from fleet.runs.config import RunSettings
from fleet.runs.corpus_sync import RunInput
from fleet.runs.files import DeployedRelease, RunRequest
from fleet.runs.files import render as render_run

COMPOSE = Path(__file__).resolve().parents[2] / "deploy/compose"
OVERRIDE = b"services:\n  bark:\n    ulimits: !reset {}\n    mem_limit: 64g\n"
ROLES: tuple[tuple[Any, ...], ...] = ((), ("monitoring",), ("trainer",), ("bark",), ("trainer", "bark"))
KEYS = Secrets({"bark-api-keys": b"alice: " + b"a" * 64, "bark-webhook-secret": b"0123456789abcdef"})
Document = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """One host as an inventory may want it."""

    roles: tuple[Any, ...]
    gpus: int
    keys: bool = True
    voices: bool = False
    override: bool = False
    measured: bool = False  # by a node_exporter of the release

    @property
    def name(self) -> str:
        """Its directory."""
        words = [*self.roles, f"{self.gpus}gpus", "keys" * self.keys, "voices" * self.voices, "own" * self.override]
        words.append("node" * self.measured)
        return "-".join(word for word in words if word)

    @property
    def login_info(self) -> LoginInfo:
        return LoginInfo("192.0.2.11" if self.keys else "127.0.0.1", gpus=self.gpus > 0, memory_mib=64 << 10)

    @property
    def in_cluster(self) -> bool:
        return bool({"head", "worker"} & set(self.roles))

    def release(self, secrets: Path | None = None) -> Release:
        """Its release; `secrets` is the file with the token of a cluster."""
        on: Host = host(roles=self.roles, bark=Bark(), node_exporter=self.measured)
        if self.in_cluster:
            assert secrets is not None
            on = replace(on, ray=RayNode("lab", "10.0.0.2"), ray_head="10.0.0.1", secrets=(secrets,))
        roles = (*wanted_images(on), *(["node-exporter"] if self.measured else []))
        keys = KEYS if self.keys else Secrets()
        compose = sources(COMPOSE, on, source_names(on, self.login_info, keys))
        bodies = {name: path.read_bytes() for name, path in compose.items()}
        kinds = ("weights", "voices") if self.voices else ("weights",)
        inputs = ReleaseInputs(
            images={role: LocalImage(IMAGE.id, (), 1, f"voxyard-{role}") for role in roles},
            compose=bodies | ({"site-1-own.yaml": OVERRIDE} if self.override else {}),
            trainer={"trainer.yaml": (COMPOSE / "trainer.yaml").read_bytes()} if "trainer" in on.roles else {},
            artefacts={kind: artefact(kind) for kind in kinds if {"bark", "worker"} & set(self.roles)},
            secrets=keys,
        )
        known = facts(gpus=tuple(gpu(index) for index in range(self.gpus)))
        assignment = assign(known, on)
        if self.in_cluster:
            part = ray_part(on, self.login_info, COMPOSE, inputs.images["bark"], assignment, inputs.artefacts)
            inputs = replace(inputs, parts=(part,))
        return render(on, assignment, self.login_info, inputs)


def artefact(kind: str) -> Artefact:
    return Artefact(kind, "0" * 12, Path("/"), {}, 1)


CASES = (
    *(Case(roles, gpus) for roles, gpus in product(ROLES, (0, 1, 2))),
    *(Case(("bark",), gpus, keys=keys, voices=True) for gpus, keys in product((0, 2), (True, False))),
    *(Case(("trainer", "bark"), gpus, keys=False) for gpus in (0, 1, 2)),
    Case(("bark",), 2, override=True),
    Case(("trainer",), 2, measured=True),
    *(Case(("head", "worker", "bark"), gpus, voices=gpus > 0) for gpus in (0, 2)),
    *(Case((role,), 2) for role in ("head", "worker")),
)


@dataclass(frozen=True)
class Read:
    """Files of a case as Compose has read them."""

    code: int
    said: str
    document: Document


@pytest.fixture(scope="module")
def machine(gpu_host: HostFactory) -> GpuHost:
    """A host with a Compose."""
    return gpu_host("gpu-01")


@pytest.fixture(scope="module")
def read(machine: GpuHost, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Read]:
    """Every case through `docker compose config`, all in one go; training runs as NAME-run."""
    folders: dict[str, dict[str, bytes]] = {}
    secrets = tmp_path_factory.mktemp("secrets") / "secrets.yaml"
    secrets.touch(mode=0o600)
    secrets.write_text(f"cluster-token: {'c0ffee' * 8}\n")
    for case in CASES:
        made = case.release(secrets)
        folders[case.name] = dict(made.files) | {"arguments": arguments("voxyard.env", made.compose_files)}
        if "trainer" in case.roles:
            folders[f"{case.name}-run"] = run_of(case, made)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for folder, files in folders.items():
            for name, content in files.items():
                member = tarfile.TarInfo(f"{folder}/{name}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    back = over_ssh(
        machine,
        "umask 077; mkdir -p try/releases && cd try/releases && tar -xf - && for folder in */; do (cd $folder && "
        "docker compose $(cat arguments) config --format json >out 2>err; echo $? >code); done; tar -cf - */out */err "
        "*/code",
        archive.getvalue(),
    )
    with tarfile.open(fileobj=io.BytesIO(back)) as tar:
        texts = {each.name: tar.extractfile(each).read().decode() for each in tar}  # type: ignore[union-attr]
    return {
        folder: Read(int(texts[f"{folder}/code"]), texts[f"{folder}/err"], json.loads(texts[f"{folder}/out"] or "{}"))
        for folder in folders
    }


def arguments(environment: str, files: tuple[str, ...]) -> bytes:
    return " ".join(["--env-file", environment, *(word for name in files for word in ("--file", name))]).encode()


def run_of(case: Case, made: Release) -> dict[str, bytes]:
    """A training run under a release."""
    files = dict(made.files)
    deployed = DeployedRelease(
        made.id, "voxyard-trainer:x", 1000, 1000, "127.0.0.1", 9411, 120, files["plan.yaml"], files["trainer.yaml"],
        tuple(uuid(index) for index in range(case.gpus)),
    )  # fmt: skip
    settings = RunSettings(b"", (("training.device", "cpu"),) if not case.gpus else ())
    run = render_run(
        RunRequest("r1", "gpu-01", settings, {"train": RunInput("c", "0" * 12, "recordings")}, (), "me"), deployed
    )
    return dict(run.files) | {"arguments": arguments("run.env", run.compose_files)}


def over_ssh(machine: GpuHost, command: str, data: bytes) -> bytes:
    words = [*machine.ssh_words(), f"sh -c {shlex.quote(command)}"]
    return subprocess.run(words, input=data, capture_output=True, check=True, timeout=600).stdout


def reserved(document: Document, service: str) -> list[str]:
    devices = (
        document["services"][service].get("deploy", {}).get("resources", {}).get("reservations", {}).get("devices", [])
    )
    return [uuid for each in devices for uuid in each.get("device_ids", ["all"])]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_compose_accepts_it(read: dict[str, Read], case: Case) -> None:
    for name in (case.name, *([f"{case.name}-run"] if "trainer" in case.roles else [])):
        assert (read[name].code, read[name].said) == (0, ""), name


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_only_a_host_with_gpus_reserves_any_and_bark_by_uuid(read: dict[str, Read], case: Case) -> None:
    document = read[case.name].document
    also = {"node-exporter"} if case.measured else set()
    assert set(document["services"]) == {"exporter", *({"bark", "head", "worker"} & set(case.roles)), *also}
    assert reserved(document, "exporter") == (["all"] if case.gpus else [])
    if case.in_cluster:
        found = {name: reserved(document, name) for name in document["services"] if name != "exporter"}
        assert found == {name: list(map(uuid, range(case.gpus))) if name == "worker" else [] for name in found}
        return
    if "bark" not in case.roles:
        return
    wanted = (
        [] if not case.gpus else [uuid(case.gpus - 1)] if "trainer" in case.roles else list(map(uuid, range(case.gpus)))
    )
    assert reserved(document, "bark") == wanted


@pytest.mark.parametrize("case", [each for each in CASES if "trainer" in each.roles], ids=lambda case: case.name)
def test_a_run_reserves_the_gpus_of_the_plan(read: dict[str, Read], case: Case) -> None:
    expected = {0: 0, 1: 1, 2: 1 if "bark" in case.roles else 2}[case.gpus]
    assert len(reserved(read[f"{case.name}-run"].document, "train")) == expected


WRITABLE = {"bark": ("bark", "gpus"), "worker": ("gpus",), "exporter": ("gpus",)}
"""Directories of each service; `gpus` has the marks of sick GPUs, which one that tests itself well takes away."""


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_every_container_is_confined_and_changes_nothing_but_its_data(read: dict[str, Read], case: Case) -> None:
    for name, service in read[case.name].document["services"].items():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["init"] is True
        assert service["user"].split(":")[0] not in ("", "0", "root")
        assert not service.get("privileged")
        assert service["logging"]["options"] == {"max-size": "10m", "max-file": "3"}
        writable = [each["target"] for each in service.get("volumes", []) if not each.get("read_only")]
        assert writable == [f"/var/lib/voxyard/{each}" for each in WRITABLE.get(name, ())]


def test_bark_gets_secrets_weights_and_voices_as_files(read: dict[str, Read]) -> None:
    document = read[Case(("bark",), 2, voices=True).name].document
    bark = document["services"]["bark"]
    assert {each["source"] for each in bark["secrets"]} == {"bark-api-keys", "bark-webhook-secret"}
    files = {Path(each["file"]).name for each in document["secrets"].values()}
    assert files == {versioned(name, value) for name, value in KEYS.values.items()}
    sources_of = {each["target"]: each["source"] for each in bark["volumes"]}
    home = sources_of["/etc/voxyard/bark.yaml"].partition("/releases/")[0]
    assert sources_of["/var/lib/voxyard/weights"].startswith(home.rpartition("/")[0])
    assert Path(sources_of["/var/lib/voxyard/weights"]).parts[-2:] == ("artefacts", "weights-000000000000")
    assert Path(sources_of["/var/lib/voxyard/voices"]).parts[-2:] == ("artefacts", "voices-000000000000")
    assert bark["ulimits"] == {"memlock": -1, "stack": 67108864}
    assert bark["stop_grace_period"] == "1m0s"


def test_the_nodes_of_a_cluster_get_its_token_and_a_worker_its_weights_and_voices(read: dict[str, Read]) -> None:
    document = read[Case(("head", "worker", "bark"), 2, voices=True).name].document
    for name in ("head", "worker", "bark"):
        service = document["services"][name]
        assert "cluster-token" in {each["source"] for each in service["secrets"]}
        assert service["network_mode"] == "host"
        assert not service.get("ports")
    worker = document["services"]["worker"]
    targets = {each["target"]: Path(each["source"]).parts[-2:] for each in worker["volumes"]}
    assert targets == {
        "/var/lib/voxyard/weights": ("artefacts", "weights-000000000000"),
        "/var/lib/voxyard/voices": ("artefacts", "voices-000000000000"),
        "/var/lib/voxyard/gpus": ("data", "exporter"),
    }
    assert worker["command"][-6:] == ["--device", "cuda", "--gpus", f"{uuid(0)},{uuid(1)}", "--workers", "2"]
    assert worker["command"][:2] == ["cluster", "join"]


def test_a_container_knows_its_release_and_its_configuration(read: dict[str, Read]) -> None:
    case = Case(("bark",), 2)
    made = case.release()
    for service in made.services:
        entry = read[case.name].document["services"][service.name]
        assert entry["environment"]["VOXYARD_CONFIG_HASH"] == entry["labels"]["voxyard.config"] == service.config
        assert entry["environment"]["VOXYARD_RELEASE"] == entry["labels"]["voxyard.release"] == made.id
        assert entry["labels"]["voxyard.role"] == service.name
        assert entry["labels"]["voxyard.port"] == str(service.port)


def test_an_operators_own_file_wins(read: dict[str, Read]) -> None:
    bark = read[Case(("bark",), 2, override=True).name].document["services"]["bark"]
    assert not bark.get("ulimits")
    assert bark["mem_limit"] == str(64 << 30)
