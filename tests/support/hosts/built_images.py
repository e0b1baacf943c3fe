"""Archives of `docker save`, as an engine writes them after a build."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

STEPS: list[dict[str, Any]] = [
    {"created_by": "/bin/sh -c #(nop) ADD base", "created": "2025-01-01T00:00:00Z"},
    {"created_by": "CMD sh", "created": "2025-01-01T00:00:00Z", "empty_layer": True},
    {"created_by": "RUN /bin/sh -c sh /tmp/python.sh # buildkit"},
    {"created_by": "COPY /opt/voxyard /opt/voxyard # buildkit"},
    {"created_by": "LABEL a=b", "empty_layer": True},
]


def layer(
    files: Sequence[tuple[str, bytes | None]], time: float, *, links: Mapping[str, str] | None = None, owner: str = ""
) -> bytes:
    """Layer as an engine writes it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, target in (links or {}).items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.mtime = tarfile.LNKTYPE, target, time
            archive.addfile(member)
        for name, body in files:
            member = tarfile.TarInfo(name)
            member.mtime, member.uname = time, owner
            member.type = tarfile.DIRTYPE if body is None else tarfile.REGTYPE
            member.size = len(body or b"")
            member.pax_headers = {"atime": str(time), "SCHILY.xattr.user.kind": "code"}
            archive.addfile(member, io.BytesIO(body or b""))
    return buffer.getvalue()


def saved(
    folder: Path,
    layers: Sequence[bytes],
    *,
    time: str = "2026-11-22T20:00:00.123Z",
    steps: Sequence[Mapping[str, Any]] = STEPS,
    packed: bool = False,
) -> Path:
    """Archive of `docker save`."""
    folder.mkdir()
    ours = [{"created": time, **each} for each in steps]
    config = {
        "architecture": "amd64",
        "os": "linux",
        "created": time,
        "moby.buildkit.cache.v0": "cmFuZG9t",
        "config": {"Env": ["A=1"], "Labels": {"title": "t"}, "OnBuild": None, "ArgsEscaped": True, "Cmd": ["x"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(each).hexdigest()}" for each in layers]},
        "history": ours,
    }
    names = [f"{number}/layer.tar" for number in range(len(layers))]
    manifest = [{"Config": "c.json", "RepoTags": ["x:1"], "Layers": names}]
    bodies = dict(zip(names, [gzip.compress(each) if packed else each for each in layers], strict=True))
    bodies |= {"c.json": json.dumps(config).encode(), "manifest.json": json.dumps(manifest).encode()}
    path = folder / "saved.tar"
    with tarfile.open(path, "w") as archive:
        for name, body in bodies.items():
            member = tarfile.TarInfo(name)
            member.size = len(body)
            archive.addfile(member, io.BytesIO(body))
    return path
