"""Exports the monitoring files to a local directory, to be started by hand."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from fleet.errors import FleetError
from fleet.release import environment
from fleet.release.config_hash import variable
from fleet.release.environment import ENVIRONMENT_FILE
from fleet.release.service import RolePart, below

LOCAL = "local"
"""Name of the release, and its programs' configuration."""


def write(part: RolePart, images: Mapping[str, str], folder: Path) -> str:
    """Write the files below `folder`, replacing earlier ones; returns the command line that starts them.

    `images` are variables that name other images than the compose files do. The containers run as the user who
    writes the files. Secrets are not written. Raises FleetError where the files cannot be written.
    """
    names = [each.name for each in part.services]
    variables = {"VOXYARD_RELEASE": LOCAL, "VOXYARD_UID": str(os.getuid()), "VOXYARD_GID": str(os.getgid())}
    variables |= {variable(name, "CONFIG"): LOCAL for name in names} | dict(images) | dict(part.variables)
    release = {**part.compose, ENVIRONMENT_FILE: environment.to_bytes(variables)}
    try:
        _replace(folder / "releases" / LOCAL, release)
        for name in names:
            read = {path.removeprefix(f"{name}/"): content for path, content in below(part.files, name).items()}
            _replace(folder / "config" / name / "current", read)
            (folder / "data" / name).mkdir(parents=True, exist_ok=True)
        (folder / "secrets").mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise FleetError(f"{folder}: cannot be written: {error}; name another directory with --out") from None
    there = folder / "releases" / LOCAL
    files = " ".join(f"--file {there / name}" for name in part.compose)
    return f"docker compose --env-file {there / ENVIRONMENT_FILE} {files} up --detach"


def _replace(folder: Path, files: dict[str, bytes]) -> None:
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    for name, content in files.items():
        path = partial / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    if folder.exists():
        shutil.rmtree(folder)
    partial.replace(folder)
