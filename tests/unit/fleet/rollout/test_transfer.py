"""Transfer of a release to a host: nothing twice, nothing incomplete."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from release_doubles import artefact, image, saved
from shell_host import ShellHost

from fleet.errors import FleetError, HostFailedError
from fleet.images.archive import ImageCache
from fleet.rollout.change_plan import ImageTransfer
from fleet.rollout.transfer import Transfer


@pytest.fixture
def host(tmp_path: Path) -> Iterator[ShellHost]:
    """A host that has nothing yet."""
    found = ShellHost(tmp_path / "host")
    yield found
    found.close()


@pytest.fixture
def transfer(host: ShellHost, tmp_path: Path) -> Transfer:
    """To that host."""
    return Transfer("gpu-01", host, ImageCache(tmp_path / "cache", saved))


def test_the_second_image_comes_without_the_layers_of_the_first(host: ShellHost, transfer: Transfer) -> None:
    for role in ("exporter", "bark"):
        transfer.image(ImageTransfer(image(role), 0))
    first, second = host.engine.loaded_bytes
    assert second < first
    assert {name for each in host.engine.images.values() for name in each["tags"]} == {
        image("exporter").release_tag,
        image("bark").release_tag,
    }


def test_where_the_upper_layers_alone_are_refused_all_is_sent_and_that_is_reported(
    host: ShellHost, transfer: Transfer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "fleet")
    host.engine.knows_layers = False
    for role in ("exporter", "bark"):
        transfer.image(ImageTransfer(image(role), 0))
    assert len(host.engine.loaded_bytes) == 3
    assert (
        "loading only the upper layers failed (open base-1/layer.tar: no such file or directory): sending all"
        in caplog.text
    )


def test_an_image_is_pulled_by_its_digest_and_gets_a_name(host: ShellHost, transfer: Transfer) -> None:
    digest = f"registry.example:5000/voxyard-bark@sha256:{'a' * 64}"
    pulled = replace(image("bark"), digest=digest)
    host.engine.registry[digest] = {"id": pulled.id, "layers": list(pulled.layers)}
    transfer.image(ImageTransfer(pulled, 0))
    assert host.engine.images[pulled.id]["tags"] == [pulled.release_tag]
    assert host.engine.loaded_bytes == []
    with pytest.raises(HostFailedError, match=r"could not pull .* not found"):
        transfer.image(ImageTransfer(replace(pulled, digest=f"{digest[:-1]}b"), 0))


def test_an_image_that_is_another_one_than_here_is_refused(host: ShellHost, transfer: Transfer) -> None:
    digest = f"registry.example:5000/voxyard-bark@sha256:{'a' * 64}"
    host.engine.registry[digest] = {"id": "sha256:else", "layers": ["sha256:else"]}
    with pytest.raises(HostFailedError, match=r"the image .* differs from the local one"):
        transfer.image(ImageTransfer(replace(image("bark"), digest=digest), 0))


def test_what_a_cut_transfer_left_of_an_artefact_is_not_sent_again(
    host: ShellHost, transfer: Transfer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "fleet")
    weights = artefact(tmp_path)
    partial = host.folder / "artefacts" / f".{weights.name}.partial"
    partial.mkdir(parents=True)
    for name in ("config.json", "model.safetensors"):
        (partial / name).write_bytes((weights.source / name).read_bytes())
    (partial / "model.safetensors").write_bytes(b"half")
    (weights.source / "config.json").unlink()  # it would be missed if it were sent
    transfer.artefact(weights)
    assert "1 files present" in caplog.text
    there = host.folder / "artefacts" / weights.name
    assert (there / "model.safetensors").read_bytes() == b"weights" * 1000


def test_a_file_that_changed_since_it_was_looked_at_is_not_taken(
    host: ShellHost, transfer: Transfer, tmp_path: Path
) -> None:
    weights = artefact(tmp_path)
    (weights.source / "config.json").write_bytes(b"[]")
    with pytest.raises(HostFailedError, match=f"could not receive {weights.name}: config.json: FAILED"):
        transfer.artefact(weights)
    assert not (host.folder / "artefacts" / weights.name).exists()


def test_a_file_that_is_gone_is_named(transfer: Transfer, tmp_path: Path) -> None:
    weights = artefact(tmp_path)
    (weights.source / "config.json").unlink()
    with pytest.raises(FleetError, match=r"config\.json: cannot be read"):
        transfer.artefact(weights)
