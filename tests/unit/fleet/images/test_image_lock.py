"""Image lock: resolves, keeps, writes and rejects digests."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.errors import FleetError
from fleet.images.pins import Pin, base_of, read, resolve_all, sources, text

ROOT = Path(__file__).resolve().parents[4]
DIGEST, OTHER = "sha256:" + "1" * 64, "sha256:" + "2" * 64


def unreachable(_: str) -> str:
    raise FleetError("no such host")


def test_bases_and_monitorings_images_belong_into_the_lock() -> None:
    found = sources(ROOT)
    assert list(found)[:3] == ["exporter", "bark", "trainer"]
    assert {"prometheus", "alertmanager", "grafana", "node-exporter"} <= set(found)
    assert all(":" in image and "$" not in image for image in found.values())


def test_a_dockerfile_without_a_base_is_reported(tmp_path: Path) -> None:
    (tmp_path / "images/exporter").mkdir(parents=True)
    (tmp_path / "images/exporter/Dockerfile").write_text("FROM scratch\n")
    with pytest.raises(FleetError, match="exporter/Dockerfile: no line ARG BASE="):
        sources(tmp_path)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    pins = {"bark": Pin("cuda:1", DIGEST), "grafana": Pin("grafana:2")}
    (tmp_path / "lock").write_text(text(pins))
    assert read(tmp_path / "lock") == pins
    assert "digest: unresolved" in text(pins)


def test_no_file_is_no_pins(tmp_path: Path) -> None:
    assert read(tmp_path / "lock") == {}


@pytest.mark.parametrize(
    "content",
    ["[1]", "a: b", "a: {image: x}", "a: {image: x, digest: latest}", "a: {image: x, digest: 5}", "a: [", "text"],
)
def test_a_file_that_is_no_lock_is_reported(tmp_path: Path, content: str) -> None:
    (tmp_path / "lock").write_text(content)
    with pytest.raises(FleetError, match="not an image lock"):
        read(tmp_path / "lock")


def test_every_image_is_asked_for_and_a_failure_says_why() -> None:
    def resolve(image: str) -> str:
        return DIGEST if image == "a:1" else unreachable(image)

    result = resolve_all({"x": "a:1", "y": "b:1"}, {}, resolve)

    assert result.pins == {"x": Pin("a:1", DIGEST), "y": Pin("b:1")}
    assert result.failures == {"y": "no such host"}


def test_a_digest_is_kept_for_its_own_tag_alone_where_nobody_can_be_asked() -> None:
    before = {"x": Pin("a:1", DIGEST), "y": Pin("b:1", OTHER), "gone": Pin("c:1", DIGEST)}
    result = resolve_all({"x": "a:1", "y": "b:2"}, before, unreachable)
    assert result.pins == {"x": Pin("a:1", DIGEST), "y": Pin("b:2")}


def test_a_base_is_named_by_its_digest() -> None:
    assert base_of("bark", {"bark": Pin("cuda:1", DIGEST)}, None, unpinned=False) == f"cuda:1@{DIGEST}"
    given = f"mirror/cuda@{OTHER}"
    assert base_of("bark", {"bark": Pin("cuda:1", DIGEST)}, given, unpinned=False) == given


@pytest.mark.parametrize("given", [None, "mirror/cuda:1"])
def test_a_base_without_a_digest_is_for_development_alone(given: str | None) -> None:
    pins = {"bark": Pin("cuda:1")}
    with pytest.raises(FleetError, match=r"cuda:1, has no digest.*make images-lock.*--unpinned"):
        base_of("bark", pins, given, unpinned=False)
    assert base_of("bark", pins, given, unpinned=True) == given or "cuda:1"


def test_a_role_that_the_lock_does_not_know_is_reported() -> None:
    with pytest.raises(FleetError, match="no base for bark"):
        base_of("bark", {}, None, unpinned=True)
