"""A host whose speech service shares its documents: settings, mounts and variables of its release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from fleet_doubles import IMAGE, facts, host
from tiny_model import write_model

from fleet.errors import FleetError
from fleet.inventory.hosts import Bark, Host
from fleet.release.environment import LoginInfo
from fleet.release.gpu_assignment import assign
from fleet.release.release import Release, read_inputs, render
from voxyard.service.config import ServiceSection

COMPOSE = Path(__file__).resolve().parents[4] / "deploy/compose"
LOGIN = LoginInfo("192.0.2.11", gpus=True, memory_mib=64 << 10)
STORE = "postgresql://voxyard@db.lab/voxyard"
IMAGES = {"exporter": IMAGE, "bark": IMAGE}
SECRETS = {"bark-api-keys": "alice: " + "a" * 64, "bark-session-secret": "s" * 32, "bark-store-password": "hush-hush"}


def speaker(folder: Path, shelf: str | None = "/mnt/voxyard", store: str | None = STORE, **more: str) -> Host:
    path = folder / "secrets.yaml"
    path.touch(mode=0o600)
    values = {**SECRETS, **{name.replace("_", "-"): value for name, value in more.items()}}
    path.write_text(yaml.safe_dump({name: value for name, value in values.items() if value}))
    bark = Bark(weights=write_model(folder / "weights"), store=store, shelf=shelf)
    return host(roles=("bark",), bark=bark, secrets=(path,))


def rendered(on: Host) -> Release:
    return render(on, assign(facts(), on), LOGIN, read_inputs(on, LOGIN, COMPOSE, IMAGES))


def parts(made: Release) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of the service, and its entry in the host's compose file."""
    files = dict(made.files)
    return yaml.safe_load(files["settings-bark.yaml"])["service"], yaml.safe_load(files["host.yaml"])["services"][
        "bark"
    ]


def test_a_directory_is_mounted_where_the_settings_name_it(tmp_path: Path) -> None:
    made = rendered(speaker(tmp_path))
    settings, entry = parts(made)
    assert (settings["store"], settings["shelf"]) == (STORE, "/var/lib/voxyard/shelf")
    assert settings["instance"] == "gpu-01"  # by which its claims are known
    assert {*settings} <= {*ServiceSection.model_fields}
    (mount,) = entry["volumes"]
    assert mount == {
        "type": "bind", "source": "/mnt/voxyard", "target": settings["shelf"], "bind": {"create_host_path": False},
    }  # fmt: skip
    assert entry["environment"] == {"PGPASSFILE": "/run/secrets/bark-store-password"}
    assert "bark-store-password" in entry["secrets"]
    assert "hush" not in str(made.files)
    assert next(value for name, value in made.secrets.items() if "store" in name) == b"*:*:*:*:hush-hush\n"


def test_a_bucket_is_mounted_nowhere(tmp_path: Path) -> None:
    keys = "[default]\naws_access_key_id = a\naws_secret_access_key = b\n"
    settings, entry = parts(rendered(speaker(tmp_path, "s3://voices/lab", bark_shelf_keys=keys)))
    assert settings["shelf"] == "s3://voices/lab"
    assert "volumes" not in entry
    assert entry["environment"]["AWS_CONFIG_FILE"] == "/run/secrets/bark-shelf-keys"


def test_documents_of_its_own_stay_the_default(tmp_path: Path) -> None:
    settings, entry = parts(rendered(speaker(tmp_path, None, None, bark_store_password="")))
    assert not {"store", "shelf"} & {*settings}
    assert not {"volumes", "environment"} & {*entry}


def test_another_store_or_password_restarts_the_speech_service_alone(tmp_path: Path) -> None:
    before = {each.name: each.config for each in rendered(speaker(tmp_path)).services}
    others: list[dict[str, str]] = [{"store": f"{STORE}2"}, {"shelf": "/srv/x"}, {"bark_store_password": "other"}]
    for other in others:
        after = {each.name: each.config for each in rendered(speaker(tmp_path, **other)).services}
        assert {name for name in before if before[name] != after[name]} == {"bark"}


def test_services_on_one_store_sign_sessions_with_one_secret(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match=r"gpu-01: on one store all speech services sign .* add bark-session-secret"):
        rendered(speaker(tmp_path, bark_session_secret=""))
