"""Rendered clusters: an inventory with some of them, images that were pushed, weights."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml
from invoke.exceptions import Exit
from rendered_clusters import INVENTORY, KEY_HASH, TOKEN, TRAIN, Render, image
from tiny_model import write_model

from fleet.errors import FleetError
from fleet.images.image import LocalImage
from fleet.images.push import write_record
from tasks import render as task


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("bark") / "weights")


def nowhere(role: str, registry: str, *_: object) -> LocalImage:
    """Registry without images."""
    raise FleetError(f"{registry} has no {role} of this commit")


def furnish(folder: Path, weights: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An inventory, its secrets, a record of images, and the settings of a run in `folder`."""
    folder.mkdir(exist_ok=True)
    (folder / "hosts.yaml").write_text(INVENTORY)
    (folder / "weights").symlink_to(weights)
    secrets = {
        "bark-api-keys": f"alice: {KEY_HASH}\n",
        "bark-webhook-secret": "sixteen-characters-and-more",
        "bark-session-secret": "thirty-two-characters-and-more-of-it",
        "bark-store-password": "hush",
        "bark-shelf-keys": "[default]\naws_access_key_id = a\naws_secret_access_key = b\n",
        "cluster-token": TOKEN,
    }
    (folder / "secrets.yaml").write_text(yaml.safe_dump(secrets))
    (folder / "secrets.yaml").chmod(0o600)
    (folder / "train.yaml").write_text(TRAIN)
    monkeypatch.setattr(task, "RECORD", folder / "images.json")
    monkeypatch.setattr(task, "CHECKSUMS", folder / "checksums.json")
    monkeypatch.setattr(task, "wanted_image", nowhere)
    write_record(folder / "images.json", {role: image(role) for role in ("exporter", "bark", "trainer")})
    return folder


@pytest.fixture
def place(tmp_path: Path, weights: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Directory of an operator."""
    return furnish(tmp_path / "place", weights, monkeypatch)


@pytest.fixture(scope="session")
def rendered(tmp_path_factory: pytest.TempPathFactory, weights: Path) -> Path:
    """Rendered files: every cluster, and a run."""
    folder = tmp_path_factory.mktemp("rendered") / "place"
    with pytest.MonkeyPatch.context() as monkeypatch:
        furnish(folder, weights, monkeypatch)
        options = {"inventory": str(folder / "hosts.yaml"), "config": str(folder / "train.yaml")}
        task.render.body(None, to="kubernetes", out=str(folder / "out"), **options)
    return folder / "out"


@pytest.fixture
def out(place: Path, rendered: Path) -> Path:
    """A copy of it, in `place`."""
    shutil.copytree(rendered, place / "out")
    return place / "out"


@pytest.fixture
def fab(place: Path, capsys: pytest.CaptureFixture[str]) -> Render:
    """`fab render` with these options, into `place`/out: exit code and messages."""

    def run(to: str = "kubernetes", **options: object) -> tuple[int, str]:
        capsys.readouterr()
        if to == "kubernetes":
            options = {"inventory": str(place / "hosts.yaml")} | options
        try:
            task.render.body(None, to=to, out=str(place / "out"), **options)
        except Exit as end:
            return end.code, end.message or ""
        return 0, capsys.readouterr().err

    return run
