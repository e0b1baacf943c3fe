"""Files of a run: GPUs by UUID, limits, mounts, command line; and the request parsed from them."""

from __future__ import annotations

import base64
import io
import json
import tarfile
from dataclasses import replace
from typing import Any

import pytest
import yaml
from fleet_doubles import uuid
from run_requests import COMPOSE, CORPUS, PLAN, RELEASE, REQUEST

from fleet.errors import FleetError
from fleet.runs.config import RunSettings
from fleet.runs.corpus_sync import RunInput
from fleet.runs.files import (
    RunFiles,
    RunRequest,
    RunTls,
    parse_release,
    render,
    request_from_files,
    run_tls,
    trainer_gpus,
)


def wanted(settings: str = "", *flags: tuple[str, str], **other: Any) -> RunRequest:
    return replace(REQUEST, settings=RunSettings(settings.encode(), flags), **other)


def compose(files: RunFiles) -> Any:
    return yaml.safe_load(dict(files.files)["run.yaml"])["services"]["train"]


def environment(files: RunFiles) -> dict[str, str]:
    return dict(line.split("=", 1) for line in dict(files.files)["run.env"].decode().splitlines())


def devices(files: RunFiles) -> list[Any]:
    reserved = compose(files).get("deploy", {}).get("resources", {}).get("reservations", {}).get("devices", [])
    return [each["device_ids"] for each in reserved]


def test_the_plans_pair_is_reserved_by_uuid_and_its_limits_are_known() -> None:
    files = render(REQUEST, RELEASE)
    assert devices(files) == [[uuid(0), uuid(1)]]
    assert compose(files)["deploy"]["resources"]["reservations"]["devices"][0]["driver"] == "nvidia"
    assert files.limits == {uuid(1): 8192, uuid(0): 16384}
    assert dict(files.files)["plan.yaml"] == PLAN


def test_the_compose_file_gets_every_variable_that_it_asks_for() -> None:
    given = environment(render(REQUEST, RELEASE))
    asked = {part.partition(":?")[0] for part in COMPOSE.decode().split("${")[1:]}
    assert asked == set(given)
    assert given["VOXYARD_TRAINER_CORPUS"] == "../../corpora/demo/0123456789ab"
    assert (given["VOXYARD_UID"], given["VOXYARD_GID"]) == ("1000", "1001")


def test_the_memory_of_a_run_is_that_of_the_release_and_an_earlier_release_has_none() -> None:
    services = yaml.safe_load(dict(render(REQUEST, RELEASE).files)["run.yaml"])["services"]
    assert {name: each["mem_limit"] for name, each in services.items()} == {"prepare": "40960m", "train": "40960m"}
    earlier = yaml.safe_load(dict(render(REQUEST, replace(RELEASE, memory_mib=None)).files)["run.yaml"])["services"]
    assert "mem_limit" not in earlier["train"]


def test_recordings_are_prepared_and_shards_are_read_as_they_are() -> None:
    prepared, raw = replace(CORPUS, kind="shards"), render(REQUEST, RELEASE)
    assert raw.shards is not None
    assert environment(raw)["VOXYARD_TRAINER_DATA"] == f"/corpus/{raw.shards}"
    files = render(replace(REQUEST, inputs={"train": prepared}), RELEASE)
    assert files.shards is None
    assert environment(files)["VOXYARD_TRAINER_DATA"] == "/corpus/source"


def test_flags_are_on_the_command_line() -> None:
    files = render(wanted("", ("training.max_steps", "20"), ("training.xla", "false")), RELEASE)
    assert compose(files)["command"] == ["train", "--max-steps=20", "--no-xla"]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("training: {device: cpu}", []),
        ("training: {strategy: single}", [[uuid(0)]]),
        (f"data: {{data_gpu: {uuid(2)}, model_gpu: {uuid(1)}}}", [[uuid(1), uuid(2)]]),
        ("data: {data_gpu: 2, model_gpu: 1}", [[uuid(1), uuid(2)]]),
        ("training: {strategy: mirrored}", [[uuid(0), uuid(1)]]),
    ],
)
def test_the_settings_decide_which_gpus_are_reserved(settings: str, expected: list[list[str]]) -> None:
    assert devices(render(wanted(settings), RELEASE)) == expected


def test_indices_become_uuids_because_a_container_counts_anew() -> None:
    files = render(wanted("data: {data_gpu: 2, model_gpu: 1}"), RELEASE)
    assert compose(files)["command"][1:] == [f"--data-gpu={uuid(2)}", f"--model-gpu={uuid(1)}"]


@pytest.mark.parametrize("asked", ["3", "GPU-beef"])
def test_a_gpu_that_the_host_has_not_is_refused(asked: str) -> None:
    with pytest.raises(FleetError, match=f"{asked} is not a GPU of the host"):
        render(wanted(f"data: {{data_gpu: {asked}, model_gpu: 0}}"), RELEASE)


def test_a_host_with_one_gpu_reserves_that_one_with_its_limit() -> None:
    plan = yaml.safe_dump(
        {
            "workloads": [{"workload": "trainer", "role": "model", "gpu": uuid(0)}],
            "training": {"enable_memory_isolation": True, "model_gpu_memory": 9000},
        }
    ).encode()
    files = render(REQUEST, replace(RELEASE, plan=plan, gpus=(uuid(0),)))
    assert devices(files) == [[uuid(0)]]
    assert files.limits == {uuid(0): 9000}


def test_without_gpus_nothing_is_reserved() -> None:
    files = render(REQUEST, replace(RELEASE, plan=b"workloads: []\n", gpus=()))
    assert (devices(files), files.limits, files.gpus) == ([], {}, ())


def test_what_a_run_reads_besides_is_mounted_read_only() -> None:
    inputs = {
        "train": CORPUS,
        "validation": RunInput("held", "a" * 12, "shards"),
        "init": RunInput("old", "b" * 12, "checkpoint"),
    }
    made = compose(render(replace(REQUEST, inputs=inputs), RELEASE))
    assert made["environment"] == {"VOXYARD_TRAIN_VAL_DATA": "/validation", "VOXYARD_TRAIN_INIT_FROM": "/init"}
    assert [(each["target"], each["read_only"]) for each in made["volumes"]] == [("/validation", True), ("/init", True)]


def test_the_same_wishes_under_the_same_release_are_the_same_configuration() -> None:
    one, again = render(REQUEST, RELEASE), render(REQUEST, RELEASE)
    assert one.config == again.config
    others = [
        render(wanted("training: {seed: 7}"), RELEASE),
        render(REQUEST, replace(RELEASE, image="voxyard-trainer:b")),
    ]
    assert len({one.config, *(each.config for each in others)}) == 3


def test_a_run_is_made_again_from_its_files_on_the_host() -> None:
    site = replace(
        REQUEST,
        overrides=(("site-1-cpu.yaml", b"services: {}\n"),),
        settings=RunSettings(b"{}\n", (("model.size", "small"),)),
    )
    files = render(site, RELEASE)
    assert files.compose_files == ("trainer.yaml", "run.yaml", "site-1-cpu.yaml")
    again = request_from_files(dict(files.files))
    assert replace(again, inputs=site.inputs) == site
    assert {role: each.place for role, each in again.inputs.items()} == {"train": CORPUS.place}


def test_files_that_are_not_understood_are_reported() -> None:
    with pytest.raises(FleetError, match="cannot be parsed"):
        request_from_files({"run.json": b"{}", "train.yaml": b""})


def test_the_archive_is_for_its_owner_alone_but_for_what_the_container_reads() -> None:
    with tarfile.open(fileobj=io.BytesIO(render(REQUEST, RELEASE).archive())) as archive:
        modes = {member.name: member.mode for member in archive}
    readable = {name for name, mode in modes.items() if mode == 0o644}
    assert (readable, set(modes.values())) == ({"train.yaml", "plan.yaml"}, {0o600, 0o644})
    assert sorted(modes) == ["plan.yaml", "run.env", "run.json", "run.yaml", "train.yaml", "trainer.yaml"]


def answer(variables: dict[str, str], compose_file: bytes = COMPOSE) -> str:
    text = "".join(f"{name}={value}\n" for name, value in variables.items()).encode()
    return "\n".join(
        ["/home/x/.voxyard/releases/0123456789ab", *(base64.b64encode(b).decode() for b in (text, PLAN, compose_file))]
    )


VARIABLES = {
    "VOXYARD_TRAINER_IMAGE": RELEASE.image, "VOXYARD_UID": "1000", "VOXYARD_GID": "1001",
    "VOXYARD_TRAINER_METRICS_ADDRESS": "192.0.2.11", "VOXYARD_TRAINER_METRICS_PORT": "9411",
    "VOXYARD_TRAINER_STOP_SECONDS": "120", "VOXYARD_TRAINER_MEMORY": "40960",
}  # fmt: skip


def test_a_release_says_what_it_gives_to_runs() -> None:
    assert parse_release(answer(VARIABLES), RELEASE.gpus) == RELEASE
    earlier = {name: value for name, value in VARIABLES.items() if name != "VOXYARD_TRAINER_MEMORY"}
    assert parse_release(answer(earlier), RELEASE.gpus) == replace(RELEASE, memory_mib=None)
    for gone in ("VOXYARD_TRAINER_IMAGE", "VOXYARD_UID"):
        with pytest.raises(FleetError, match="role trainer" if "IMAGE" in gone else "cannot be parsed"):
            parse_release(answer({name: value for name, value in VARIABLES.items() if name != gone}), ())


TLS = RunTls("gpu-01", "host-certificate.0a", "host-key.0b", b"tls_server_config: {}\n", b"the roots\n")


def test_a_run_of_a_release_with_tls_has_its_certificate_and_is_asked_by_it() -> None:
    files = render(REQUEST, replace(RELEASE, tls=TLS))
    service, document = compose(files), yaml.safe_load(dict(files.files)["run.yaml"])
    assert service["environment"]["VOXYARD_TRAIN_METRICS_WEB_CONFIG"] == "/etc/voxyard/web.yaml"
    assert {each["target"] for each in service["volumes"]} >= {"/etc/voxyard/web.yaml"}
    assert [each["target"] for each in service["secrets"]] == [
        "/run/secrets/host-certificate", "/run/secrets/host-key",
    ]  # fmt: skip
    assert document["secrets"]["host-key"] == {"file": "../../secrets/host-key.0b"}
    with tarfile.open(fileobj=io.BytesIO(files.archive())) as archive:
        modes = {member.name: member.mode for member in archive}
    assert (modes["web.yaml"], modes["host-ca.pem"]) == (0o644, 0o600)
    assert files.metrics == "https://192.0.2.11:9411/metrics"
    manifest = json.loads(dict(files.files)["run.json"])
    assert manifest["tls"] == "gpu-01"
    asked = run_tls("demo-1", manifest["tls"])
    assert asked is not None
    assert (asked.name, asked.authorities) == ("gpu-01", "runs/demo-1/host-ca.pem")
    plain = render(REQUEST, RELEASE)
    assert plain.config != files.config
    assert "secrets" not in compose(plain)
    assert plain.metrics == "http://192.0.2.11:9411/metrics"


def test_a_release_says_how_its_runs_speak_tls() -> None:
    more = {"VOXYARD_HOST_CERTIFICATE": TLS.certificate, "VOXYARD_HOST_KEY": TLS.key, "VOXYARD_HOST_TLS_NAME": TLS.name}
    given = answer(VARIABLES | more) + "".join(
        f"\n{base64.b64encode(each).decode()}" for each in (TLS.web, TLS.authorities)
    )
    assert parse_release(given, RELEASE.gpus) == replace(RELEASE, tls=TLS)


def test_the_model_gpu_of_a_plan_comes_first() -> None:
    assert trainer_gpus(PLAN) == (uuid(0), uuid(1))
    assert trainer_gpus(b"") == ()


def test_the_manifest_names_image_and_gpus() -> None:
    found = json.loads(dict(render(REQUEST, RELEASE).files)["run.json"])
    assert (found["image"], found["gpus"], found["host"]) == (RELEASE.image, [uuid(0), uuid(1)], "gpu-01")
