"""Small releases, images and artefacts for rollout tests."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fleet.images.image import LocalImage
from fleet.inventory.secrets import versioned
from fleet.release.artefact import Artefact
from fleet.release.release import Release
from fleet.release.service import ConfigFiles, Service, digest_of

BASE_LAYERS = ("sha256:base-1", "sha256:base-2")


def image(role: str, version: str = "1") -> LocalImage:
    """Image of three layers; the lower two are shared by all images."""
    digest = hashlib.sha256(f"{role} {version}".encode()).hexdigest()
    layers = (*BASE_LAYERS, f"sha256:{role}-{version}")
    return LocalImage(f"sha256:{digest}", layers, 3_000_000, f"voxyard-{role}")


def saved(wanted: LocalImage, *, oci: bool = False) -> Iterator[bytes]:
    """The image as `docker save` writes it: as up to Docker 24, or as newer engines do."""
    names = [_layer_name(layer, oci=oci) for layer in wanted.layers]
    config = wanted.id.removeprefix("sha256:") + ".json"
    document = [{"Config": config, "RepoTags": [wanted.release_tag], "Layers": names}]
    files = {
        config: json.dumps({"rootfs": {"diff_ids": list(wanted.layers)}}).encode(),
        **{name: f"content of {name}".encode() * 100 for name in names},
        "manifest.json": json.dumps(document).encode(),
    }
    yield packed(files)


def packed(files: Mapping[str, bytes], links: Mapping[str, str] | None = None) -> bytes:
    """A tar archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, body in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(body)
            archive.addfile(member, io.BytesIO(body))
        for name, target in (links or {}).items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            archive.addfile(member)
    return buffer.getvalue()


def artefact(folder: Path, kind: str = "weights", content: str = "weights") -> Artefact:
    """Two files in a directory."""
    source = folder / kind
    source.mkdir(parents=True, exist_ok=True)
    bodies = {"config.json": b"{}", "model.safetensors": content.encode() * 1000}
    for name, body in bodies.items():
        (source / name).write_bytes(body)
    sums = {name: hashlib.sha256(body).hexdigest() for name, body in bodies.items()}
    name = hashlib.sha256(repr(sums).encode()).hexdigest()[:12]
    return Artefact(kind, name, source, sums, sum(map(len, bodies.values())))


def release(
    port: int,
    *,
    configs: Mapping[str, str] | None = None,
    images: Mapping[str, LocalImage] | None = None,
    artefacts: Sequence[Artefact] = (),
    secrets: Mapping[str, bytes] | None = None,
    gpu_limits: Mapping[str, int] | None = None,
    healthy_seconds: int = 2,
    more: str = "",
    rules: str = "",
) -> Release:
    """Release of the services in `configs`, which answer on the local `port`; `more` is added to its files.

    `rules` is the content of a file that the exporter reads anew, and shows at /rules.
    """
    wanted = {"exporter": "e-1", "bark": "b-1"} if configs is None else configs
    have = {role: image(role) for role in wanted} | dict(images or {})
    watched = {"exporter/rules/a.yaml": rules.encode()} if rules else {}
    config_files = ConfigFiles(digest_of(watched), "/-/reload", ("promtool", "check"), {"/rules": (rules,)})
    services = tuple(
        Service(
            name,
            config,
            have[name],
            "127.0.0.1",
            port,
            stop_seconds=5 if name == "exporter" else 7,
            healthy_seconds=healthy_seconds,
            gpu_limits={} if name == "exporter" else dict(gpu_limits or {}),
            files=config_files if rules and name == "exporter" else None,
        )
        for name, config in wanted.items()
    )
    variables = {
        key: value
        for each in services
        for key, value in (
            (f"VOXYARD_{each.name.upper()}_IMAGE", each.image.reference),
            (f"VOXYARD_{each.name.upper()}_CONFIG", each.config),
        )
    }
    values = {versioned(key, value): value for key, value in (secrets or {}).items()}
    owner = {"VOXYARD_UID": "65532", "VOXYARD_GID": "65532"}
    content = f"{variables}{more}{rules}{[each.name for each in artefacts]}{gpu_limits}{list(values)}"
    name = hashlib.sha256(content.encode()).hexdigest()[:12]
    files = watched | {
        "services.yaml": f"services: {sorted(wanted)}\n{more}\n".encode(),
        "voxyard.env": "".join(
            f"{k}={v}\n" for k, v in {"VOXYARD_RELEASE": name, **owner, **variables}.items()
        ).encode(),
        "release.json": json.dumps(_manifest(name, services, tuple(have.values()), artefacts, values)).encode(),
    }
    return Release(
        name, tuple(files.items()), ("services.yaml",), services, tuple(have.values()), tuple(artefacts), values
    )


def _manifest(
    name: str,
    services: Sequence[Service],
    images: Sequence[LocalImage],
    artefacts: Sequence[Artefact],
    secrets: Iterable[str],
) -> dict[str, Any]:
    return {
        "id": name,
        "services": {
            each.name: {
                "config": each.config,
                "image": each.image.reference,
                "image_id": each.image.id,
                "address": each.address,
                "port": each.port,
                "ready": each.ready,
                "metrics": each.metrics,
                "stop_seconds": each.stop_seconds,
                "healthy_seconds": each.healthy_seconds,
                "gpu_limits": dict(each.gpu_limits),
                "files": each.files and asdict(each.files),
            }
            for each in services
        },
        "images": [{"image": each.reference, "image_id": each.id} for each in images],
        "artefacts": [{"kind": each.kind, "id": each.id, "name": each.name} for each in artefacts],
        "secrets": sorted(secrets),
        "compose_files": ["services.yaml"],
    }


def _layer_name(layer: str, *, oci: bool) -> str:
    return f"blobs/sha256/{layer.removeprefix('sha256:')}" if oci else f"{layer.removeprefix('sha256:')}/layer.tar"
