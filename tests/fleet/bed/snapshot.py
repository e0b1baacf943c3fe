"""Snapshot of voxyard's parts on a host, to compare before and after."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from tests.fleet.bed.host import GpuHost

_PROGRAM = r"""
import hashlib, os, stat, sys
top = sys.argv[1]
for folder, names, files in os.walk(top):
    for name in sorted(names + files + ([""] if folder == top else [])):
        path = os.path.join(folder, name).rstrip("/")
        try:
            found = os.lstat(path)
            if stat.S_ISLNK(found.st_mode):
                what = "-> " + os.readlink(path)
            elif stat.S_ISREG(found.st_mode):
                with open(path, "rb") as file:
                    what = hashlib.file_digest(file, "sha256").hexdigest()
            else:
                what = "directory" if stat.S_ISDIR(found.st_mode) else "other"
        except FileNotFoundError:
            continue
        mode = stat.S_IMODE(found.st_mode)
        print(os.path.relpath(path, top), f"{mode:04o} {found.st_uid} {found.st_mtime_ns} {what}", sep="\0", end="\0\0")
"""
_LISTINGS = (
    "docker ps --all --quiet --no-trunc | xargs --no-run-if-empty docker inspect",
    "docker image ls --all --no-trunc --format '{{.Repository}}:{{.Tag}}@{{.Digest}} {{.ID}}'",
    "docker volume ls --format '{{.Name}} {{.Driver}}'",
    "docker network ls --no-trunc --format '{{.Name}} {{.ID}}'",
)


@dataclass(frozen=True)
class Snapshot:
    """Files by their path below ~/.voxyard, containers by name, images and volumes; a line of text for each."""

    files: Mapping[str, str]  # mode, owner, time of the last change in ns, checksum or target
    containers: Mapping[str, str]  # id, image, state, when it was started, how often again
    images: Mapping[str, str]  # id by name, or by itself
    volumes: Mapping[str, str]
    networks: Mapping[str, str]


def snapshot(host: GpuHost, folder: str = "/home/voxyard/.voxyard") -> Snapshot:
    """The host as it is now. Raises BedError."""
    # One command for all: to begin one in a host costs more than most of these do.
    listing = shlex.join(["python3", "-c", _PROGRAM, folder])
    files, containers, *others = host.run(" && printf '\\036' && ".join((listing, *_LISTINGS))).stdout.split("\036")
    pairs = (each.split("\0") for each in files.split("\0\0") if each)
    images, volumes, networks = map(_lines, others)
    return Snapshot(
        dict(sorted((path, said) for path, said in pairs)), _containers(containers), images, volumes, networks
    )


def differences(before: Snapshot, after: Snapshot) -> list[str]:
    """Differences between two snapshots, a line each; empty where all is as it was."""
    lines = []
    for each in fields(Snapshot):
        old, new = getattr(before, each.name), getattr(after, each.name)
        lines += [
            f"{each.name}: {name}: {old.get(name, 'not there')} → {new.get(name, 'not there')}"
            for name in sorted(old.keys() | new.keys())
            if old.get(name) != new.get(name)
        ]
    return lines


def _containers(inspected: str) -> dict[str, str]:
    found: list[dict[str, Any]] = json.loads(inspected or "[]")
    return {
        each["Name"].removeprefix("/"): " ".join(
            [
                *(each["Id"][:12], each["Image"], each["State"]["Status"], each["State"]["StartedAt"]),
                str(each["RestartCount"]),
            ]
        )
        for each in sorted(found, key=lambda each: str(each["Name"]))
    }


def _lines(listed: str) -> dict[str, str]:
    pairs = (line.rpartition(" ") for line in listed.splitlines())
    return {name: said for name, _, said in sorted(pairs)}
