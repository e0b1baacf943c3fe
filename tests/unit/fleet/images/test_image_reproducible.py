"""Rewritten images: equal for two builds of the same content, base untouched, labels and times in the configuration."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from built_images import STEPS, layer, saved

from fleet.errors import FleetError
from fleet.images.reproducible import LAYER_TIME, Recipe, rewritten

BASE = [("etc", None), ("etc/passwd", b"root")]
FILES = [("opt", None), ("opt/a", b"first"), ("opt/b", b"second"), ("opt/z/", None)]
RECIPE = Recipe("voxyard-bark:built", 1_700_000_000, {"voxyard.frameworks": "{}"})


def rewrite(path: Path, recipe: Recipe = RECIPE) -> dict[str, bytes]:
    """Members of the rewritten archive."""
    work = path.parent / "work"
    work.mkdir()
    whole = io.BytesIO(b"".join(rewritten(path, recipe, work)))
    assert list(work.iterdir()) == []
    with tarfile.open(fileobj=whole) as archive:
        found = {member.name: archive.extractfile(member) for member in archive}
        return {name: body.read() for name, body in found.items() if body is not None}


def configuration(members: Mapping[str, bytes]) -> tuple[dict[str, Any], list[str]]:
    """Configuration, and names of the layers."""
    (document,) = json.loads(members["manifest.json"])
    assert document["Config"] == f"{hashlib.sha256(members[document['Config']]).hexdigest()}.json"
    assert document["RepoTags"] == ["voxyard-bark:built"]
    return json.loads(members[document["Config"]]), document["Layers"]


def test_two_builds_of_the_same_content_are_one_image(tmp_path: Path) -> None:
    base, empty = layer(BASE, 1_600_000_000), layer((), 0)
    one = saved(tmp_path / "one", [base, empty, layer(FILES, 1_700_000_000.5, owner="root")])
    other = saved(
        tmp_path / "other", [base, empty, layer(FILES[::-1], 1_800_000_000)], time="2026-12-24T00:00:00Z", packed=True
    )
    assert rewrite(one) == rewrite(other)


@pytest.mark.parametrize("files", [[("opt/a", b"firsT")], [("opt/a", b"first"), ("opt/c", b"")]])
def test_another_content_is_another_image(tmp_path: Path, files: Any) -> None:
    base = layer(BASE, 1)
    one = configuration(rewrite(saved(tmp_path / "one", [base, layer((), 0), layer([("opt/a", b"first")], 1)])))
    other = configuration(rewrite(saved(tmp_path / "other", [base, layer((), 0), layer(files, 1)])))
    assert one[1][:2] == other[1][:2]
    assert one[1][2] != other[1][2]


def test_the_base_stays_as_it_is_and_is_loaded_only_where_it_has_to_be(tmp_path: Path) -> None:
    base = layer(BASE, 1_650_000_000, owner="somebody")
    path = saved(tmp_path / "one", [base, layer((), 0), layer(FILES, 5)])
    config, names = configuration(members := rewrite(path))
    assert config["rootfs"]["diff_ids"][0] == f"sha256:{hashlib.sha256(base).hexdigest()}"
    assert names[0] not in members
    (path.parent / "work").rmdir()
    whole = rewrite(path, Recipe(RECIPE.tag, RECIPE.created, RECIPE.labels, with_base=True))
    assert whole[names[0]] == base
    assert {name: whole[name] for name in members} == members


def test_layers_have_one_time_no_owner_names_and_links_after_files(tmp_path: Path) -> None:
    made = layer(FILES, 1_700_000_000.5, links={"opt/0": "opt/b"}, owner="root")
    members = rewrite(saved(tmp_path / "one", [layer(BASE, 1), layer((), 0), made]))
    _, names = configuration(members)
    with tarfile.open(fileobj=io.BytesIO(members[names[2]])) as archive:
        found = list(archive)
        body = archive.extractfile("opt/0")
        assert body is not None
        assert body.read() == b"second"
    assert [each.name for each in found] == ["opt", "opt/a", "opt/b", "opt/z", "opt/0"]
    assert {each.mtime for each in found} == {LAYER_TIME}
    assert {each.uname for each in found} == {""}
    assert found[1].pax_headers == {"SCHILY.xattr.user.kind": "code"}


def test_the_configuration_has_the_commits_time_and_the_labels(tmp_path: Path) -> None:
    layers = [layer(BASE, 1), layer((), 0), layer(FILES, 1)]
    config, _ = configuration(rewrite(saved(tmp_path / "one", layers)))
    assert config["created"] == "2023-11-14T22:13:20Z"
    assert [each["created"] for each in config["history"]] == ["2025-01-01T00:00:00Z"] * 2 + [config["created"]] * 3
    assert set(config) == {"architecture", "os", "created", "config", "rootfs", "history"}
    size = config["config"]["Labels"].pop("voxyard.unpacked-bytes")
    assert int(size) >= sum(map(len, layers)) - 3 * tarfile.RECORDSIZE
    assert config["config"] == {"Env": ["A=1"], "Cmd": ["x"], "Labels": {"title": "t", "voxyard.frameworks": "{}"}}


def test_an_image_of_another_dockerfile_or_with_a_broken_history_is_refused(tmp_path: Path) -> None:
    layers = [layer(BASE, 1), layer((), 0), layer(FILES, 1)]
    with pytest.raises(FleetError, match=r"has no step 'sh /tmp/python\.sh'"):
        rewrite(saved(tmp_path / "one", layers, steps=STEPS[:2]))
    with pytest.raises(FleetError, match="has 2 layers, the image 3"):
        rewrite(saved(tmp_path / "other", layers, steps=STEPS[:3]))


def test_what_is_no_archive_of_docker_save_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "saved.tar"
    path.write_bytes(b"x" * 2000)
    with pytest.raises(FleetError, match="not an archive of docker save"):
        rewrite(path)


def test_a_compression_that_cannot_be_undone_is_named(tmp_path: Path) -> None:
    path = saved(tmp_path / "one", [b"\x28\xb5\x2f\xfd zstd", layer((), 0), layer(FILES, 1)])
    with pytest.raises(FleetError, match="compressed with zstd"):
        rewrite(path)
