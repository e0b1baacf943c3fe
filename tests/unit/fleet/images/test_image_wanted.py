"""Images of a deploy: by commit from a registry, else the last built ones; clear refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.errors import FleetError
from fleet.images import wanted
from fleet.images.image import REVISION_LABEL, LocalImage
from fleet.images.registry import NoSuchImageError
from fleet.images.revision import Revision
from fleet.images.wanted import wanted_image

COMMIT = "c" * 40
ROOT = Path("/nowhere")
REGISTRY = "r:5000/site"


class Published:
    """Images of a registry, by name."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def __call__(self, name: str, role: str) -> LocalImage:
        if name not in self.names:
            raise NoSuchImageError(f"the registry r:5000 has no image {name}")
        return LocalImage("sha256:there", (), 1, f"voxyard-{role}", digest=f"{name}@sha256:1")


@pytest.fixture
def revision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources of a clean clone; no local image."""
    monkeypatch.setattr(wanted, "read_revision", lambda _: Revision(COMMIT, 1))
    monkeypatch.setattr(wanted, "find_image", absent)


def absent(*_: object, **__: object) -> LocalImage:
    raise FleetError("no image on this machine")


@pytest.mark.usefixtures("revision")
def test_hosts_with_a_registry_get_the_image_of_the_commit_without_a_local_one() -> None:
    name = f"{REGISTRY}/voxyard-bark:{COMMIT}"
    assert wanted_image("bark", REGISTRY, None, ROOT, Published(name)).digest == f"{name}@sha256:1"


@pytest.mark.usefixtures("revision")
def test_an_image_of_the_registry_can_be_named() -> None:
    name = f"{REGISTRY}/voxyard-bark:other"
    assert wanted_image("bark", REGISTRY, name, ROOT, Published(name)).digest == f"{name}@sha256:1"


@pytest.mark.usefixtures("revision")
def test_a_commit_that_was_not_pushed_says_who_has_to_push_it_and_how() -> None:
    with pytest.raises(FleetError, match=rf"(?s)no image .*commit cccccccccccc were not pushed.*--push {REGISTRY}"):
        wanted_image("bark", REGISTRY, None, ROOT, Published())


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (Revision(COMMIT, 1, ("runtime/x.py",)), r"uncommitted changes: runtime/x\.py: hosts with a registry"),
        (Revision(), "no git clone"),
    ],
)
def test_changed_sources_are_not_deployed_as_their_commit(
    now: Revision, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wanted, "read_revision", lambda _: now)
    with pytest.raises(FleetError, match=said):
        wanted_image("bark", REGISTRY, None, ROOT, Published(f"{REGISTRY}/voxyard-bark:{COMMIT}"))


def test_a_local_image_has_to_be_in_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wanted, "find_image", lambda *_, **__: LocalImage("sha256:1", (), 1))
    with pytest.raises(FleetError, match=f"voxyard-bark:mine was not pushed to the registry {REGISTRY}"):
        wanted_image("bark", REGISTRY, "voxyard-bark:mine", ROOT, Published())


@pytest.mark.parametrize(("built", "warned"), [(COMMIT, False), ("d" * 40, True), (f"{COMMIT}-changed", True)])
def test_a_last_built_image_of_other_sources_is_warned_of(
    built: str, warned: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    image = LocalImage("sha256:1", (), 1, labels=((REVISION_LABEL, built),))
    monkeypatch.setattr(wanted, "find_image", lambda *_, **__: image)
    monkeypatch.setattr(wanted, "read_revision", lambda _: Revision(COMMIT, 1))
    assert wanted_image("bark", None, None, ROOT) == image
    assert ("the sources are at cccccccccccc: make images" in caplog.text) == warned
