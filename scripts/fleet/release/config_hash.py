"""Configuration hash of a service's container: the same hash means that it need not be recreated."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from fleet.inventory.secrets import fingerprint
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
    secrets: Mapping[str, bytes] | None = None,
) -> str:
    """12 hexadecimal digits over what concerns one service, and over nothing else.

    Of `compose`, name and content in the order in which they are merged, its own entry and the networks, volumes,
    secrets and configurations that this names; of `environment` the variables in those texts, without its image,
    for which `image_id` stands, and without the release and the hash itself; of `files` those that it mounts.
    Raises FleetError for a compose file that cannot be read.
    """
    parts = [parts_for(parse(content, name), service) for name, content in compose]
    own = {f"VOXYARD_{service.upper()}_IMAGE", f"VOXYARD_{service.upper()}_CONFIG", "VOXYARD_RELEASE"}
    content: dict[str, Any] = {
        "image": image_id,
        "compose": [part for part in parts if part],
        "variables": {name: environment.get(name) for name in sorted(variables(parts) - own)},
        "files": {name: hashlib.sha256(files[name]).hexdigest() for name in sorted(mounted_files(parts, list(files)))},
        "artefacts": sorted(each.name for each in artefacts),
        "secrets": {name: fingerprint(name, value) for name, value in sorted((secrets or {}).items())},
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:LENGTH]
