"""Images of a deploy: those that a registry has for the commit, or the last built ones of this machine."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from fleet.command_line import fab
from fleet.errors import FleetError
from fleet.images.image import REVISION_LABEL, LocalImage, built_tag, find_image
from fleet.images.registry import NoSuchImageError, find_published, published_name
from fleet.images.revision import UNKNOWN, read_revision

log = logging.getLogger("fleet")


def wanted_image(
    role: str,
    registry: str | None,
    reference: str | None,
    root: Path,
    find: Callable[[str, str], LocalImage] = find_published,
) -> LocalImage:
    """Image of a role for hosts with this registry, by the sources of the repository `root`.

    With a registry the one that was pushed for the commit, without one the last built one. `reference` names another:
    an image of the registry, or a local one, which must have been pushed there. Raises FleetError.
    """
    if registry is None:
        return find_image(reference, role) if reference else _built(role, root)
    if reference is None:
        return _of_commit(role, registry, root, find)
    if reference.startswith(f"{registry}/"):
        return find(reference, role)
    image = find_image(reference, role, registry=registry)
    if image.digest is None:
        raise FleetError(
            f"{reference} was not pushed to the registry {registry}: {fab()} images --push {registry}, or remove "
            "registry from the inventory"
        )
    return image


def _of_commit(role: str, registry: str, root: Path, find: Callable[[str, str], LocalImage]) -> LocalImage:
    revision = read_revision(root)
    if revision.commit is None or revision.fault is not None:
        raise FleetError(
            f"{revision.fault}: hosts with a registry get the images of a commit. Commit the sources and push their "
            f"images ({fab()} images --push {registry}), or name an image: --image {role}={registry}/…"
        )
    name = published_name(registry, role, revision.commit)
    try:
        return find(name, role)
    except NoSuchImageError as error:
        raise FleetError(
            f"{error}: the images of commit {revision.commit[:12]} were not pushed. On a machine with Docker and a "
            f"clean clone of this commit: {fab()} images --push {registry}. "
            f"Or name an image: --image {role}={registry}/…"
        ) from error


def _built(role: str, root: Path) -> LocalImage:
    tag = built_tag(role)
    image = find_image(tag, role)
    warn_of_other_sources(tag, image, root, "make images")
    return image


def warn_of_other_sources(name: str, image: LocalImage, root: Path, remedy: str) -> None:
    """Log a warning where the image was built from another commit than that of the repository `root`.

    Raises FleetError for a shallow clone that lacks the commit.
    """
    said = image.label(REVISION_LABEL)
    if said is None or said == UNKNOWN:
        return
    now = read_revision(root).text
    if now not in (said, UNKNOWN):
        log.warning("%s was built from %s, the sources are at %s: %s", name, _short(said), _short(now), remedy)


def _short(revision: str) -> str:
    commit, dash, rest = revision.partition("-")
    return f"{commit[:12]}{dash}{rest}"
