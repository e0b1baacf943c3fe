"""Part of a release that the role gateway brings."""

from __future__ import annotations

from pathlib import Path

from fleet.errors import FleetError
from fleet.gateway.configuration import CERTIFICATE, STOP_SECONDS, configuration
from fleet.images.image import LocalImage
from fleet.images.third_party import GATEWAY
from fleet.inventory.hosts import Host
from fleet.inventory.secrets import GATEWAY_CERTIFICATE, GATEWAY_KEY, Secrets, read, versioned
from fleet.release import compose, environment
from fleet.release.environment import LoginInfo
from fleet.release.service import RolePart, Service

CONFIGURATION = "haproxy.cfg"
COMPOSE_FILE, SECRETS_FILE = "gateway.yaml", "gateway-secrets.yaml"


def gateway_part(host: Host, login_info: LoginInfo, folder: Path, image: LocalImage) -> RolePart:
    """The gateway of `host`; `folder` contains its compose file. Raises FleetError for missing or invalid inputs."""
    source = folder / COMPOSE_FILE
    if not source.is_file():
        raise FleetError(f"{source}: no such compose file, required for {host.name}")
    secrets = Secrets() if host.secrets is None else read(host.secrets)
    values = {name: secrets.values.get(name) for name in (GATEWAY_CERTIFICATE, GATEWAY_KEY)}
    if missing := [name for name, value in values.items() if value is None]:
        where = host.secrets or "a file named as secrets in the inventory"
        raise FleetError(
            f"{host.name}: the gateway has no certificate: add {' and '.join(missing)} to {where}; deploy/README.md "
            "says how to make one"
        )
    files = {name: (versioned(name, value), value) for name, value in values.items() if value is not None}
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
    )
    mounts = {GATEWAY_CERTIFICATE: CERTIFICATE, GATEWAY_KEY: f"{CERTIFICATE}.key"}
    secrets_file = {
        "services": {GATEWAY: {"secrets": [{"source": name, "target": target} for name, target in mounts.items()]}},
        "secrets": {name: {"file": f"../../secrets/{file}"} for name, (file, _) in files.items()},
    }
    return RolePart(
        services=(service,),
        compose={
            COMPOSE_FILE: source.read_bytes(),
            SECRETS_FILE: compose.to_bytes(secrets_file, "Certificate of the gateway"),
        },
        files={CONFIGURATION: configuration(host)},
        variables={
            "VOXYARD_GATEWAY_ADDRESS": host.gateway.address or login_info.address,
            "VOXYARD_GATEWAY_PORT": str(host.gateway.port),
            "VOXYARD_GATEWAY_METRICS_ADDRESS": address,
            "VOXYARD_GATEWAY_METRICS_PORT": str(host.gateway.metrics_port),
            "VOXYARD_GATEWAY_STOP_SECONDS": str(STOP_SECONDS),
        },
        secrets={GATEWAY: dict(files.values())},
    )
