"""Part of a release that the role gateway brings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fleet.errors import FleetError
from fleet.gateway.configuration import (
    AUTHORITIES,
    CERTIFICATE,
    HEALTH_PORT,
    HOST_CERTIFICATE,
    STOP_SECONDS,
    configuration,
)
from fleet.images.image import LocalImage
from fleet.images.third_party import GATEWAY
from fleet.inventory import secrets as names
from fleet.inventory.host_tls import HostTls, host_tls, with_tls
from fleet.inventory.hosts import Host
from fleet.inventory.secrets import GATEWAY_CERTIFICATE, GATEWAY_KEY, place, read_all, versioned
from fleet.release import compose, environment, tls
from fleet.release.environment import LoginInfo
from fleet.release.service import RolePart, Service

CONFIGURATION, LUA = "haproxy.cfg", "frozen.lua"
COMPOSE_FILE, SECRETS_FILE = "gateway.yaml", "gateway-secrets.yaml"


def gateway_part(host: Host, login_info: LoginInfo, folder: Path, image: LocalImage) -> RolePart:
    """The gateway of `host`; `folder` has its compose file and its Lua.

    Raises FleetError for missing or invalid inputs.
    """
    source = compose.required(folder / COMPOSE_FILE, host)
    secrets = read_all(host.secrets)
    own = host_tls(host.name, host.secrets, secrets)
    values = {name: secrets.values.get(name) for name in (GATEWAY_CERTIFICATE, GATEWAY_KEY)}
    if missing := [name for name, value in values.items() if value is None]:
        raise FleetError(
            f"{host.name}: the gateway has no certificate: add {' and '.join(missing)} to {place(host.secrets)}; "
            "deploy/README.md says how to make one"
        )
    files = {name: (versioned(name, value), value) for name, value in values.items() if value is not None}
    mounts = {GATEWAY_CERTIFICATE: CERTIFICATE, GATEWAY_KEY: f"{CERTIFICATE}.key"}
    if own is not None:
        both = zip((names.HOST_CERTIFICATE, names.HOST_KEY), tls.secrets(own).items(), strict=True)
        files |= dict(both)
        mounts |= {names.HOST_CERTIFICATE: HOST_CERTIFICATE, names.HOST_KEY: f"{HOST_CERTIFICATE}.key"}
    address = environment.exporter_address(host, login_info)
    service = Service(
        name=GATEWAY,
        config="",
        image=image,
        address=address,
        port=host.gateway.metrics_port,
        ready="/healthz",
        stop_seconds=STOP_SECONDS,
        metrics="haproxy_",
        tls="" if own is None else own.name,
    )
    entry: dict[str, Any] = {"secrets": [{"source": name, "target": target} for name, target in mounts.items()]}
    if own is not None:
        entry |= _with_tls()
    secrets_file = {
        "services": {GATEWAY: entry},
        "secrets": tls.places({name: file for name, (file, _) in files.items()}),
    }
    text = configuration(host, _encrypted(host, own), metrics_tls=own is not None)
    return RolePart(
        services=(service,),
        compose={
            COMPOSE_FILE: source.read_bytes(),
            SECRETS_FILE: compose.to_bytes(secrets_file, "Certificate of the gateway"),
        },
        files={CONFIGURATION: text, LUA: compose.required(folder / LUA, host).read_bytes()},
        variables={
            "VOXYARD_GATEWAY_ADDRESS": host.gateway.address or login_info.address,
            "VOXYARD_GATEWAY_PORT": str(host.gateway.port),
            "VOXYARD_GATEWAY_METRICS_ADDRESS": address,
            "VOXYARD_GATEWAY_METRICS_PORT": str(host.gateway.metrics_port),
            "VOXYARD_GATEWAY_STOP_SECONDS": str(STOP_SECONDS),
        },
        secrets={GATEWAY: dict(files.values())},
    )


def _encrypted(host: Host, own: HostTls | None) -> frozenset[str]:
    """Hosts whose speech services speak TLS. Raises FleetError where the gateway could not verify them."""
    found = with_tls((each.name, each.secrets) for each in host.upstreams)
    if found and own is None:
        raise FleetError(
            f"{host.name}: {', '.join(sorted(found))} speak TLS, and the gateway has no {names.HOST_CA} to verify "
            f"them: add {names.HOST_CERTIFICATE}, {names.HOST_KEY} and {names.HOST_CA} to {place(host.secrets)}"
        )
    return found


def _with_tls() -> dict[str, Any]:
    """Compose entry: the roots for services, and a health check where no TLS is spoken, inside the container."""
    roots = {"type": "bind", "source": f"./{tls.CA_FILE}", "target": AUTHORITIES, "read_only": True}
    asked = f"http://127.0.0.1:{HEALTH_PORT}/healthz"
    return {
        "volumes": [{**roots, "bind": {"create_host_path": False}}],
        "healthcheck": {"test": ["CMD", "wget", "-q", "-O", "/dev/null", asked]},
    }
