"""Image archives: cached for all hosts, without layers that a host has, in both layouts of `docker save`."""

from __future__ import annotations

import io
import json
import os
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from release_doubles import image, packed, saved

from fleet.errors import FleetError
from fleet.images.archive import ImageCache, read, size_without_layers, without_layers
from fleet.images.image import LocalImage

IMAGE = image("bark")


def names(data: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return archive.getnames()


def written(folder: Path, data: bytes) -> Path:
    path = folder / "image.tar"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("oci", [False, True])
def test_the_lowest_layers_are_left_out_and_all_else_is_as_it_was(tmp_path: Path, oci: bool) -> None:
    whole = b"".join(saved(IMAGE, oci=oci))
    path = written(tmp_path, whole)
    data = b"".join(without_layers(path, 2))
    assert len(data) == size_without_layers(path, 2)
    left_out = set(names(whole)) - set(names(data))
    assert {name.split("/")[-1 if oci else 0] for name in left_out} == {"base-1", "base-2"}
    with tarfile.open(path) as before, tarfile.open(fileobj=io.BytesIO(data)) as after:
        for member in after:
            one, other = before.extractfile(member.name), after.extractfile(member)
            assert one is not None
            assert other is not None
            assert one.read() == other.read()
    assert b"".join(read(path)) == whole


def test_without_layers_to_leave_out_nothing_is_missing(tmp_path: Path) -> None:
    whole = b"".join(saved(IMAGE))
    assert names(b"".join(without_layers(written(tmp_path, whole), 0))) == names(whole)


def test_a_layer_that_a_higher_one_is_the_same_as_stays(tmp_path: Path) -> None:
    manifest = [
        {"Config": "c.json", "RepoTags": ["a:b"], "Layers": ["one/layer.tar", "two/layer.tar", "one/layer.tar"]}
    ]
    files = {
        "one/layer.tar": b"1",
        "two/layer.tar": b"2",
        "c.json": b"{}",
        "manifest.json": json.dumps(manifest).encode(),
    }
    path = written(tmp_path, packed(files))
    assert names(b"".join(without_layers(path, 2))) == ["one/layer.tar", "c.json", "manifest.json"]


def test_what_a_link_of_a_higher_layer_leads_to_stays(tmp_path: Path) -> None:
    manifest = [
        {"Config": "c.json", "RepoTags": ["a:b"], "Layers": ["one/layer.tar", "two/layer.tar", "three/layer.tar"]}
    ]
    files = {
        "one/layer.tar": b"1",
        "two/layer.tar": b"2",
        "c.json": b"{}",
        "manifest.json": json.dumps(manifest).encode(),
    }
    path = written(tmp_path, packed(files, {"three/layer.tar": "../one/layer.tar"}))
    assert names(b"".join(without_layers(path, 2))) == ["one/layer.tar", "c.json", "manifest.json", "three/layer.tar"]


def test_long_names_keep_their_headers(tmp_path: Path) -> None:
    long = "x" * 180 + "/layer.tar"
    manifest = [{"Config": "c.json", "RepoTags": ["a:b"], "Layers": ["one/layer.tar", long]}]
    files = {"one/layer.tar": b"1", long: b"2", "c.json": b"{}", "manifest.json": json.dumps(manifest).encode()}
    path = written(tmp_path, packed(files))
    assert names(b"".join(without_layers(path, 1))) == [long, "c.json", "manifest.json"]


@pytest.mark.parametrize("data", [b"no archive", packed({"a": b"b"}), packed({"manifest.json": b"[]"})])
def test_what_is_no_saved_image_is_reported(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(FleetError, match=r"image\.tar"):
        list(without_layers(written(tmp_path, data), 1))


def test_an_image_is_saved_once_and_whole(tmp_path: Path) -> None:
    calls: list[str] = []

    def save(wanted: LocalImage) -> Iterator[bytes]:
        calls.append(wanted.id)
        if len(calls) == 1:
            yield b"half"
            raise FleetError("docker save failed with exit code 1")
        yield from saved(wanted)

    cache = ImageCache(tmp_path / "cache", save)
    with pytest.raises(FleetError, match="docker save"):
        cache.archive(IMAGE)
    path = cache.archive(IMAGE)
    assert cache.archive(IMAGE) == path
    assert path.read_bytes() == b"".join(saved(IMAGE))
    assert calls == [IMAGE.id, IMAGE.id]
    assert [each.name for each in path.parent.iterdir() if each.suffix == ".part"] == []


def test_old_images_go_and_what_another_deploy_may_be_sending_stays(tmp_path: Path) -> None:
    cache = ImageCache(tmp_path, saved)
    paths = [cache.archive(image("bark", version)) for version in ("1", "2", "3")]
    hour_ago = time.time() - 3700
    for path in paths[:2]:
        os.utime(path, (hour_ago, hour_ago))
    cache.keep_only([image("bark", "2")])
    assert [path.exists() for path in paths] == [False, True, True]
