"""Configuration hash of a service: an unchanged hash means its container need not be recreated."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from fleet.release.artefact import Artefact
from fleet.release.compose import mounted_files, parse, parts_for, variables

LENGTH = 12


def config_hash(
    service: str,
    image_id: str,
    *,
    compose: Sequence[tuple[str, bytes]],
    environment: Mapping[str, str],
    files: Mapping[str, bytes],
    artefacts: Sequence[Artefact] = (),
) -> str:
    """Hash (12 hex digits) over everything that affects one service.

    From `compose` (name and content in merge order): its entry, and the networks, volumes, secrets and configurations
    it names; a secret's file has its version in its name. From `environment`: the variables it uses, except its image
    (`image_id` is hashed instead), the release and the hash itself. From `files`: those it mounts. Raises FleetError
    for an unreadable compose file.
    """
    parts = [parts_for(parse(content, name), service) for name, content in compose]
    own = {variable(service, "IMAGE"), variable(service, "CONFIG"), "VOXYARD_RELEASE"}
    content: dict[str, Any] = {
        "image": image_id,
        "compose": [part for part in parts if part],
        "variables": {name: environment.get(name) for name in sorted(variables(parts) - own)},
        "files": {name: hashlib.sha256(files[name]).hexdigest() for name in sorted(mounted_files(parts, list(files)))},
        "artefacts": sorted(each.name for each in artefacts),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:LENGTH]


def variable(service: str, what: str) -> str:
    """Variable of a service: its IMAGE, its CONFIG."""
    return f"VOXYARD_{service.upper().replace('-', '_')}_{what}"
