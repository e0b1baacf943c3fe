"""TLS of a host's services as parts of its release: mounted certificate and key, settings, files, variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from fleet.images.third_party import NODE_EXPORTER
from fleet.inventory.host_tls import HostTls
from fleet.inventory.secrets import HOST_CERTIFICATE, HOST_KEY, versioned
from fleet.release import compose

WEB_FILE, CA_FILE, COMPOSE_FILE = "web.yaml", "host-ca.pem", "tls.yaml"
CERTIFICATE, KEY = f"/run/secrets/{HOST_CERTIFICATE}", f"/run/secrets/{HOST_KEY}"
"""Paths in the containers."""
WEB_CONFIG = "/etc/voxyard/web.yaml"
NODE_EXPORTER_ID = 65531
"""User of node_exporter where it has a key: neither that of other daemons (nobody) nor that of our other containers,
whose files it would find in the host's processes."""
OF_NODE_EXPORTER = f".{NODE_EXPORTER}."
"""In the file names of the secrets that belong to that user."""
CERTIFICATE_VARIABLE, KEY_VARIABLE, NAME_VARIABLE = (
    f"VOXYARD_HOST_{what}" for what in ("CERTIFICATE", "KEY", "TLS_NAME")
)


def files(tls: HostTls) -> dict[str, bytes]:
    """Files of the release: the exporters' web configuration, and the roots of the fleet's certificates."""
    web = {"tls_server_config": {"cert_file": CERTIFICATE, "key_file": KEY}}
    return {WEB_FILE: yaml.safe_dump(web, sort_keys=False).encode(), CA_FILE: tls.authorities}


def secrets(tls: HostTls, service: str = "") -> dict[str, bytes]:
    """Certificate and key by file name on the host; node_exporter has copies of its own."""
    found = {versioned(name, value): value for name, value in _values(tls)}
    if service != NODE_EXPORTER:
        return found
    return {name.replace(".", OF_NODE_EXPORTER): value for name, value in found.items()}


def variables(tls: HostTls) -> dict[str, str]:
    """Variables of the release: what training runs mount, and by which name the host's services are verified."""
    names = [versioned(name, value) for name, value in _values(tls)]
    found = dict(zip((CERTIFICATE_VARIABLE, KEY_VARIABLE), names, strict=True)) | {NAME_VARIABLE: tls.name}
    return found | {
        "VOXYARD_NODE_EXPORTER_UID": str(NODE_EXPORTER_ID),
        "VOXYARD_NODE_EXPORTER_GID": str(NODE_EXPORTER_ID),
    }


def places(names: Mapping[str, str]) -> dict[str, Any]:
    """Secrets of a compose file, from their names and file names on the host."""
    return {name: {"file": f"../../secrets/{file}"} for name, file in names.items()}


def web_config() -> dict[str, Any]:
    """Mount of the web configuration."""
    return {
        "type": "bind",
        "source": f"./{WEB_FILE}",
        "target": WEB_CONFIG,
        "read_only": True,
        "bind": {"create_host_path": False},
    }


def compose_file(tls: HostTls, services: Iterable[str], given: Mapping[str, bytes]) -> bytes:
    """Compose file that makes these services speak TLS only, after the files `given`."""
    both = {HOST_CERTIFICATE: CERTIFICATE, HOST_KEY: KEY}
    entries: dict[str, Any] = {}
    names: dict[str, str] = {}
    for service in services:
        own = dict(zip(both, secrets(tls, service), strict=True))
        prefix = f"{NODE_EXPORTER}-" if service == NODE_EXPORTER else ""
        mounts = [{"source": f"{prefix}{name}", "target": target} for name, target in both.items()]
        names |= {f"{prefix}{name}": file for name, file in own.items()}
        entries[service] = _entry(service, given) | {"secrets": mounts}
    return compose.to_bytes({"services": entries, "secrets": places(names)}, "TLS of the host's services")


def _entry(service: str, given: Mapping[str, bytes]) -> dict[str, Any]:
    if service == "exporter":
        return {"environment": {"VOXYARD_EXPORTER_WEB_CONFIG": WEB_CONFIG}, "volumes": [web_config()]}
    if service != NODE_EXPORTER:
        return {}
    document = compose.parse(given["node-exporter.yaml"], "node-exporter.yaml")
    command = [*document["services"][NODE_EXPORTER]["command"], f"--web.config.file={WEB_CONFIG}"]
    # Its image has BusyBox, whose wget may be without TLS: the answer to plain HTTP is that TLS is expected.
    asked = "wget -q -O /dev/null http://${VOXYARD_NODE_EXPORTER_LISTEN}/ 2>&1 | grep -q ' 400'"
    return {
        "user": f"{NODE_EXPORTER_ID}:{NODE_EXPORTER_ID}",
        "command": command,
        "volumes": [web_config()],
        "healthcheck": {"test": ["CMD-SHELL", asked]},
    }


def _values(tls: HostTls) -> tuple[tuple[str, bytes], ...]:
    return (HOST_CERTIFICATE, tls.certificate), (HOST_KEY, tls.key)
