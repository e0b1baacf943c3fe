"""Release: rendered files, and the content hash."""

from __future__ import annotations

import io
import json
import re
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from fleet_doubles import IMAGE, facts, gpu, host, uuid

from fleet.errors import FleetError
from fleet.facts.host import HostFacts
from fleet.images.image import LocalImage
from fleet.inventory.hosts import WARNINGS, Bark, Host
from fleet.inventory.secrets import Secrets, versioned
from fleet.release import manifest
from fleet.release.artefact import Artefact
from fleet.release.compose import parse, parts_for
from fleet.release.environment import LoginInfo
from fleet.release.gpu_assignment import Assignment, assign
from fleet.release.inputs import ReleaseInputs
from fleet.release.plan import STATES, plan_document
from fleet.release.release import Release, read_inputs, render, wanted_images
from voxyard.service.config import ServiceSection
from voxyard.settings import load
from voxyard.telemetry.configuration import expected_gpus, expected_workloads
from voxyard.trainer.config import TrainConfig

COMPOSE = Path(__file__).resolve().parents[4] / "deploy/compose"
LOGIN = LoginInfo("192.0.2.11", gpus=True, memory_mib=64 << 10)
CPU = replace(LOGIN, gpus=False)
BARK_IMAGE = LocalImage("sha256:" + "ba" * 32, ("sha256:33",), 9_000_000_000, "voxyard-bark")
TRAINER_IMAGE = LocalImage("sha256:" + "7a" * 32, ("sha256:44",), 9_000_000_000, "voxyard-trainer")
IMAGES = {"exporter": IMAGE, "bark": BARK_IMAGE, "trainer": TRAINER_IMAGE}
WEIGHTS = Artefact("weights", "0123456789ab", Path("/w"), {"config.json": "aa"}, 1)
VOICES = Artefact("voices", "ba9876543210", Path("/v"), {"mine.npz": "bb", "voices.yaml": "cc"}, 1)
KEYS = Secrets({"bark-api-keys": b"alice: " + b"a" * 64 + b"\n"})
KEYS_FILE = versioned("bark-api-keys", KEYS.values["bark-api-keys"])
TRAINER_FILE = b"services: {trainer: {image: x}}\n"


def speaker(**other: Any) -> Host:
    """A host that speaks."""
    return host(roles=("bark",), **other)


def inputs(on: Host, *, gpus: bool = True, **other: Any) -> ReleaseInputs:
    names = ["exporter.yaml", *(["bark.yaml"] if "bark" in on.roles else []), *([] if gpus else ["cpu.yaml"])]
    given: dict[str, Any] = {
        "images": {role: IMAGES[role] for role in wanted_images(on)},
        "compose": {name: (COMPOSE / name).read_bytes() for name in names},
        "trainer": {"trainer.yaml": TRAINER_FILE} if "trainer" in on.roles else {},
        "artefacts": {"weights": WEIGHTS} if "bark" in on.roles else {},
        "secrets": KEYS if "bark" in on.roles else Secrets(),
    }
    return ReleaseInputs(**given | other)


def release(
    on: Host | None = None, *, login_info: LoginInfo = LOGIN, known: HostFacts | None = None, **other: Any
) -> Release:
    on = on or host()
    known = known or facts(**({} if login_info.gpus else {"gpus": ()}))
    return render(on, assign(known, on), login_info, inputs(on, gpus=login_info.gpus, **other))


def files_of(made: Release) -> dict[str, bytes]:
    return dict(made.files)


def settings_of(made: Release) -> Any:
    return yaml.safe_load(files_of(made)["settings-bark.yaml"])


def variables_of(made: Release) -> dict[str, str]:
    lines = files_of(made)["voxyard.env"].decode().splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def test_a_trainers_release_has_compose_files_environment_plan_and_manifest() -> None:
    made = release()
    files = files_of(made)
    assert list(files) == ["exporter.yaml", "plan.yaml", "trainer.yaml", "voxyard.env", "release.json"]
    assert made.compose_files == ("exporter.yaml",)
    assert len(made.services[0].config) == 12
    assert files["exporter.yaml"] == (COMPOSE / "exporter.yaml").read_bytes()
    assert variables_of(made) == {
        "VOXYARD_RELEASE": made.id,
        "VOXYARD_EXPORTER_IMAGE": "voxyard-exporter:abababababab",
        "VOXYARD_TRAINER_IMAGE": "voxyard-trainer:7a7a7a7a7a7a",
        "VOXYARD_UID": "65532",
        "VOXYARD_GID": "65532",
        "VOXYARD_TRAINER_MEMORY": str(60 << 10),
        "VOXYARD_EXPORTER_ADDRESS": "192.0.2.11",
        "VOXYARD_EXPORTER_PUBLISHED_PORT": "9410",
        "VOXYARD_TRAINER_METRICS_ADDRESS": "192.0.2.11",
        "VOXYARD_TRAINER_METRICS_PORT": "9411",
        "VOXYARD_TRAINER_STOP_SECONDS": "120",
        "VOXYARD_TRAIN_DATA_GPU": uuid(0),
        "VOXYARD_TRAIN_DATA_GPU_MEMORY": "8192",
        "VOXYARD_TRAIN_MODEL_GPU": uuid(1),
        "VOXYARD_TRAIN_MODEL_GPU_MEMORY": "16384",
        "VOXYARD_EXPORTER_CONFIG": made.services[0].config,
    }
    assert yaml.safe_load(files["plan.yaml"]) == {
        "gpus": 2,
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


def test_bark_gets_its_gpus_its_limits_and_its_secrets() -> None:
    made = release(speaker())
    assert made.compose_files == ("exporter.yaml", "bark.yaml", "host.yaml")
    own = yaml.safe_load(files_of(made)["host.yaml"])
    (devices,) = own["services"]["bark"]["deploy"]["resources"]["reservations"]["devices"]
    assert devices["device_ids"] == [uuid(0), uuid(1)]
    assert own["services"]["bark"]["secrets"] == ["bark-api-keys"]
    assert own["services"]["bark"]["mem_limit"] == "61440m"
    assert own["secrets"] == {"bark-api-keys": {"file": f"../../secrets/{KEYS_FILE}"}}
    assert settings_of(made) == {
        "service": {
            "data_dir": "/var/lib/voxyard/bark",
            "stop_seconds": 45,
            "drain_seconds": 45,
            "instance": "gpu-01",
            "keys": "/run/secrets/bark-api-keys",
        },
        "speech": {"max_parallel_tts_workers": 2, "worker_memory_mib": 6144},
        "bark": {
            "model": "/var/lib/voxyard/weights",
            "device": "cuda",
            "gpu_memory": f"{uuid(0)}=16384,{uuid(1)}=16384",
        },
    }
    bark = made.service("bark")
    assert bark is not None
    assert bark.gpu_limits == {uuid(0): 16384, uuid(1): 16384}
    assert (bark.address, bark.port, bark.ready, bark.stop_seconds) == ("192.0.2.11", 8080, "/readyz", 60)
    assert bark.healthy_seconds > 900
    assert variables_of(made)["VOXYARD_BARK_WEIGHTS_ARTEFACT"] == "weights-0123456789ab"
    assert variables_of(made)["VOXYARD_BARK_GPU_MEMORY"] == f"{uuid(0)}=16384,{uuid(1)}=16384"
    assert made.secrets == {KEYS_FILE: KEYS.values["bark-api-keys"]}
    assert manifest.manifest_of(made).secrets == (KEYS_FILE,)
    assert made.images == (IMAGE, BARK_IMAGE)
    assert made.artefacts == (WEIGHTS,)


def test_a_worker_never_waits_for_more_memory_than_it_may_take() -> None:
    made = release(speaker(), known=facts(gpus=(gpu(0, memory_total_mib=8188),)))
    limit = 2 * (8188 // 3)
    assert settings_of(made)["bark"]["gpu_memory"] == f"{uuid(0)}={limit}"
    assert settings_of(made)["speech"]["worker_memory_mib"] == limit < 6144


def test_voices_are_mounted_and_named_where_there_are_any() -> None:
    made = release(speaker(), artefacts={"weights": WEIGHTS, "voices": VOICES})
    (mount,) = yaml.safe_load(files_of(made)["host.yaml"])["services"]["bark"]["volumes"]
    assert (mount["source"], mount["target"], mount["read_only"]) == (
        "../../artefacts/voices-ba9876543210",
        "/var/lib/voxyard/voices",
        True,
    )
    assert settings_of(made)["bark"]["voices"] == "/var/lib/voxyard/voices"
    assert settings_of(made)["service"]["voices"] == "/var/lib/voxyard/voices/voices.yaml"


def test_bark_without_gpus_runs_on_the_cpu_with_nothing_reserved() -> None:
    made = release(speaker(), login_info=CPU, secrets=Secrets())
    assert made.compose_files == ("exporter.yaml", "bark.yaml", "cpu.yaml", "host.yaml")
    assert yaml.safe_load(files_of(made)["host.yaml"]) == {"services": {"bark": {"mem_limit": "61440m"}}}
    assert settings_of(made)["bark"] == {"model": "/var/lib/voxyard/weights", "device": "cpu"}
    assert [each.gpu_limits for each in made.services] == [{}, {}]


def test_what_the_inventory_says_of_the_service_is_in_its_file() -> None:
    wanted: dict[str, dict[str, object]] = {
        "service": {"retention_hours": 24, "rate_limit": None},
        "speech": {"max_parallel_tts_workers": 1},
    }
    settings = settings_of(release(speaker(bark=Bark(settings=wanted))))
    assert settings["service"]["retention_hours"] == 24
    assert "rate_limit" not in settings["service"]
    assert settings["speech"]["max_parallel_tts_workers"] == 1


def test_a_secret_is_in_no_file_of_the_release_and_in_no_representation() -> None:
    made = release(speaker())
    hidden = b"a" * 64
    assert all(hidden not in content for content in files_of(made).values())
    assert hidden not in made.archive()
    assert hidden.decode() not in repr(made) + repr(KEYS)


def test_a_host_with_gpus_of_which_none_is_left_for_bark_is_refused() -> None:
    with pytest.raises(FleetError, match="gpu-01: no GPU for the speech service: no GPU of this host can speak"):
        release(speaker(), known=facts(gpus=(gpu(0, mig=True),)))


def test_the_plan_is_read_by_exporter_and_trainer(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_bytes(files_of(release())["plan.yaml"])
    assert expected_workloads(plan) == (("trainer", "data"), ("trainer", "model"))
    assert expected_gpus(plan) == 2
    loaded = load(TrainConfig, environ={}, host_plan=plan)
    assert loaded.config.data.model_gpu == uuid(1)
    assert loaded.config.training.model_gpu_memory == 16384
    assert loaded.config.training.batch_size == 16


def test_one_gpu_gets_no_pair_and_one_limit_in_its_plan() -> None:
    plan = plan_document(assign(facts(gpus=(gpu(0),)), host()))
    assert plan["training"] == {"batch_size": 16, "enable_memory_isolation": True, "model_gpu_memory": 16384}
    assert plan["data"] == {"prefetch_buffer_size": 3, "pipeline_buffer_size": 50}


def test_a_host_without_roles_has_an_empty_plan() -> None:
    assert plan_document(Assignment()) == {"workloads": []}


def test_the_manifest_says_all_that_a_way_back_needs() -> None:
    made = release(speaker())
    read = manifest.manifest_of(made)
    assert read.id == made.id
    assert [each.name for each in read.services] == ["exporter", "bark"]
    bark = read.service("bark")
    wanted = made.service("bark")
    assert bark is not None
    assert wanted is not None
    assert (bark.config, bark.image, bark.port) == (wanted.config, "voxyard-bark:babababababa", 8080)
    assert dict(bark.gpu_limits) == dict(wanted.gpu_limits)
    assert (bark.stop_seconds, bark.healthy_seconds) == (wanted.stop_seconds, wanted.healthy_seconds)
    assert read.artefacts == ("weights-0123456789ab",)
    assert read.images == ("voxyard-exporter:abababababab", "voxyard-bark:babababababa")
    assert read.compose_files == made.compose_files
    assert json.loads(files_of(made)["release.json"])["services"]["bark"]["image_id"] == BARK_IMAGE.id


def test_the_same_content_has_the_same_id() -> None:
    assert release().id == release().id
    assert len(release().id) == 12


def test_the_id_changes_with_everything_that_a_host_gets() -> None:
    on = speaker()
    others = [
        release(on, images={"exporter": replace(IMAGE, id="sha256:" + "cd" * 32), "bark": BARK_IMAGE}),
        release(on, login_info=replace(LOGIN, address="192.0.2.12")),
        release(on, login_info=replace(LOGIN, memory_mib=32 << 10)),
        release(speaker(exporter_port=9411)),
        release(speaker(memory_policy="full")),
        release(host(roles=("trainer", "bark"))),
        release(speaker(bark=Bark(settings={"bark": {"batch_size": 2}}))),
        release(on, artefacts={"weights": replace(WEIGHTS, id="111111111111")}),
        release(on, artefacts={"weights": WEIGHTS, "voices": VOICES}),
        release(on, secrets=Secrets({"bark-api-keys": b"bob: " + b"1" * 64})),
        release(on, compose={**inputs(on).compose, "site-1-site.yaml": b"services: {}\n"}),
        release(on, login_info=CPU),
        release(),
    ]
    assert len({each.id for each in [release(on), *others]}) == len(others) + 1


def test_the_id_does_not_change_with_what_only_the_operator_sees() -> None:
    seen = speaker(acknowledged=frozenset({"clock"}), port=2222, canary=True, secrets=(Path("/s"),))
    assert release(seen).id == release(speaker()).id


def test_warnings_that_are_accepted_are_in_the_plan_where_an_alert_would_tell_them_again() -> None:
    """Their ids are those of the preflight, and rules read each."""
    plan = plan_document(Assignment(), {"clock", "throttling", "pcie_width"})
    assert plan == {"workloads": [], "acknowledged": ["pcie_width", "throttling"]}
    assert set(STATES) <= set(WARNINGS)
    rules = "".join(file.read_text() for file in (Path(__file__).parents[4] / "deploy/prometheus/rules").glob("*.yaml"))
    assert set(re.findall(r'voxyard_finding_acknowledged\{check="(\w+)"\}', rules)) == set(STATES)


def test_the_archive_is_for_its_owner_alone_and_what_containers_read_for_their_user() -> None:
    made = release(speaker())
    with tarfile.open(fileobj=io.BytesIO(made.archive())) as archive:
        modes = {member.name: oct(member.mode) for member in archive}
        contents = {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]
    assert {name for name, mode in modes.items() if mode != "0o600"} == {"plan.yaml", "settings-bark.yaml"}
    assert modes["plan.yaml"] == modes["settings-bark.yaml"] == "0o644"
    assert contents == files_of(made)


# -- what is read here ---------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Our compose files, with one for training runs."""
    folder = tmp_path / "compose"
    folder.mkdir()
    for path in COMPOSE.glob("*.yaml"):
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "trainer.yaml").write_bytes(TRAINER_FILE)
    return folder


def test_a_host_without_gpus_takes_back_the_reservation(folder: Path) -> None:
    assert list(read_inputs(host(), CPU, folder, IMAGES).compose) == ["exporter.yaml", "cpu.yaml"]
    assert list(read_inputs(host(), LOGIN, folder, IMAGES).compose) == ["exporter.yaml"]


def test_only_the_images_of_its_roles_are_for_a_host(folder: Path) -> None:
    assert list(read_inputs(host(), LOGIN, folder, IMAGES).images) == ["exporter", "trainer"]
    assert list(read_inputs(host(roles=("monitoring",)), LOGIN, folder, IMAGES).images) == ["exporter"]


def test_an_operators_own_compose_file_comes_last_and_must_be_there(folder: Path, tmp_path: Path) -> None:
    override = tmp_path / "exporter.yaml"
    on = host(compose_overrides=(override,))
    with pytest.raises(FleetError, match=r"no such compose file, required for gpu-01"):
        read_inputs(on, LOGIN, folder, IMAGES)
    override.write_text("services: {}\n")
    made = render(on, assign(facts(), on), LOGIN, read_inputs(on, LOGIN, folder, IMAGES))
    assert made.compose_files == ("exporter.yaml", "site-1-exporter.yaml")


@pytest.mark.parametrize(
    ("services", "said"),
    [
        ("{exporter: {mem_limit: 1g}}", ""),
        ("{sidecar: {image: x}, bark: !reset null}", ""),
        ("!override {exporter: {mem_limit: 1g}}", ""),
        (
            "{bark-api: {mem_limit: 1g}}",
            "own-1.yaml: services.bark-api: gpu-01 has no such service, and the entry no image",
        ),
        ("{Exporter:}", "own-1.yaml: services.Exporter: gpu-01 has no such service"),
    ],
)
def test_an_operators_entry_is_of_a_service_or_brings_an_image(
    folder: Path, tmp_path: Path, services: str, said: str
) -> None:
    override = tmp_path / "own-1.yaml"
    override.write_text(f"version: '3.9'\nservices: {services}\n")
    on = host(compose_overrides=(override,))
    if said:
        with pytest.raises(FleetError, match=rf"^{said}.*exporter"):
            render(on, assign(facts(), on), LOGIN, read_inputs(on, LOGIN, folder, IMAGES))
    else:
        assert render(on, assign(facts(), on), LOGIN, read_inputs(on, LOGIN, folder, IMAGES)).compose_files


def test_a_speech_service_that_others_reach_needs_keys(folder: Path) -> None:
    with pytest.raises(FleetError, match=r"gpu-01: the speech service would listen on 192\.0\.2\.11.*bark-api-keys"):
        read_inputs(speaker(), LOGIN, folder, IMAGES)


def test_on_loopback_the_speech_service_may_do_without_keys(folder: Path, model: Path) -> None:
    on = speaker(bark=Bark(address="127.0.0.1", weights=model))
    found = read_inputs(on, LOGIN, folder, IMAGES)
    assert list(found.compose) == ["exporter.yaml", "bark.yaml", "bark-host-network.yaml"]


def test_with_keys_the_speech_service_listens_where_it_is_asked_to(folder: Path, model: Path, tmp_path: Path) -> None:
    secrets = tmp_path / "secrets.yaml"
    secrets.write_text(f"bark-api-keys: |\n  alice: {'a' * 64}\n")
    secrets.chmod(0o600)
    found = read_inputs(speaker(bark=Bark(weights=model), secrets=(secrets,)), LOGIN, folder, IMAGES)
    assert list(found.compose) == ["exporter.yaml", "bark.yaml"]
    assert list(found.secrets.values) == ["bark-api-keys"]
    assert found.artefacts["weights"].source == model


def test_a_speech_service_without_weights_is_refused(folder: Path) -> None:
    with pytest.raises(FleetError, match=r"gpu-01: the role bark needs weights: set bark\.weights"):
        read_inputs(speaker(bark=Bark(address="127.0.0.1")), LOGIN, folder, IMAGES)


@pytest.mark.parametrize("stop_seconds", [2, 3, 15, 16, 29, 30, 60, 3600])
def test_the_service_ends_by_itself_before_its_container_is_killed(stop_seconds: int) -> None:
    made = release(speaker(bark=replace(speaker().bark, stop_seconds=stop_seconds)))
    bark, own = made.service("bark"), settings_of(made)["service"]
    assert bark is not None
    assert variables_of(made)["VOXYARD_BARK_STOP_SECONDS"] == str(bark.stop_seconds) == str(stop_seconds)
    assert 1 <= own["stop_seconds"] == own["drain_seconds"] < stop_seconds
    assert own["drain_seconds"] == max(stop_seconds - 15, stop_seconds // 2)


def test_the_services_file_is_one_that_the_service_reads(tmp_path: Path) -> None:
    from fleet.inventory.bark_settings import BarkFile

    path = tmp_path / "bark.yaml"
    path.write_bytes(
        files_of(release(speaker(), artefacts={"weights": WEIGHTS, "voices": VOICES}))["settings-bark.yaml"]
    )
    loaded = load(BarkFile, file=path, environ={}).config
    assert loaded.service.data_dir == Path("/var/lib/voxyard/bark")
    assert loaded.service.host == ServiceSection().host  # its compose file says where it listens


def test_a_compose_file_that_is_no_yaml_is_named_with_its_line() -> None:
    with pytest.raises(FleetError, match=r"^site\.yaml:2: not YAML: "):
        parse(b"services:\n  a: ]\n", "site.yaml")


def test_the_parts_of_a_service_are_its_entry_and_the_default_network() -> None:
    services = {"a": {"image": "x"}}
    assert parts_for({"services": services}, "a") == {"service": {"image": "x"}}
    assert parts_for({"services": services}, "b") == {}
    with_network = {"services": services, "networks": {"default": {"name": "lab"}}}
    assert parts_for(with_network, "b") == {"default": {"name": "lab"}}
    assert parts_for(with_network, "a") == {"service": {"image": "x"}, "default": {"name": "lab"}}


def test_a_service_that_the_preflight_blocks_stays_in_the_files_and_is_neither_started_nor_sent() -> None:
    on = speaker(gpus=2)
    whole, half = (render(on, assign(facts(), on), LOGIN, inputs(on), withheld=kept) for kept in ((), ("bark",)))
    assert [each.name for each in half.services] == ["exporter"]
    assert (half.images, half.artefacts, half.secrets) == ((IMAGE,), (), {})
    assert half.compose_files == whole.compose_files
    assert manifest.manifest_of(half).withheld == ("bark",)
    assert manifest.manifest_of(whole).withheld == ()
    assert half.id != whole.id
    assert half.services[0].config == whole.services[0].config, "the exporter is not started anew"
    exporter = render(on, assign(facts(), on), LOGIN, inputs(on), withheld=("exporter",))
    assert [each.name for each in exporter.services] == ["bark"]


def test_a_blocked_speech_service_needs_no_gpu() -> None:
    on, sick = speaker(), facts(gpus=(gpu(0, mig=True),))
    with pytest.raises(FleetError, match="no GPU for the speech service"):
        render(on, assign(sick, on), LOGIN, inputs(on))
    assert render(on, assign(sick, on), LOGIN, inputs(on), withheld=("bark", "trainer")).services[0].name == "exporter"
