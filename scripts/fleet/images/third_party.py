"""Images of programs that others make: pulled by the hosts by their pinned digest, else local ones that are sent."""

from __future__ import annotations

import logging
from pathlib import Path

from fleet.errors import FleetError
from fleet.images import pins
from fleet.images.image import LocalImage, NoEngineError, find_image, repository_of
from fleet.images.registry import digest_of

log = logging.getLogger("fleet")

GATEWAY, NODE_EXPORTER = "gateway", "node-exporter"
MONITORING = ("prometheus", "alertmanager", "grafana")
"""Services of a host with the role monitoring."""
THIRD_PARTY = (NODE_EXPORTER, GATEWAY, *MONITORING)
"""Service names; also their entries in the image lock."""
_OTHERWISE = {
    NODE_EXPORTER: "set node_exporter: false for hosts that have their own",
    GATEWAY: "name one that is here: --image gateway=REFERENCE",
}


def _pulled(name: str, reference: str) -> LocalImage:
    """Image that the hosts pull by its digest."""
    return LocalImage(reference.rpartition("@")[2], (), 0, repository_of(name), reference)


def _pinned(name: str, root: Path) -> str:
    """Image by the lock, with its digest in the form of an engine after a pull, where it has one."""
    pin = pins.read(root / pins.LOCK).get(name) or pins.Pin(pins.sources(root)[name])
    return pin.image if pin.digest is None else f"{pin.image.rpartition(':')[0]}@{pin.digest}"


def find_third_party(name: str, root: Path, given: str | None = None) -> LocalImage:
    """Image of a program as the lock of the repository `root` has it, or the one `given`, by digest or a local one.

    A machine without an engine asks the program's registry for the digest. Of one with a digest only no layers are
    known. Raises FleetError where it is neither pinned nor local nor in its registry.
    """
    wanted = given or _pinned(name, root)
    if "@sha256:" in wanted:
        return _pulled(name, wanted)
    try:
        return find_image(wanted, name)
    except NoEngineError as error:
        log.info("%s: its digest is asked of its registry, for here is no engine that has it", wanted)
        try:
            return _pulled(name, digest_of(wanted))
        except FleetError as also:
            raise FleetError(f"{wanted}: {also}; or from this machine: {error}") from None
    except FleetError as error:
        if "no image" not in str(error):
            raise
        own = f"; or {_OTHERWISE[name]}" if name in _OTHERWISE else ""
        pinning = "pin it by digest (make images-lock)" if name in THIRD_PARTY else "name it by digest (NAME@sha256:…)"
        raise FleetError(
            f"no image {wanted} on this machine: docker pull it, then hosts get it over SSH; or {pinning}, then the "
            f"hosts pull it{own}"
        ) from None
