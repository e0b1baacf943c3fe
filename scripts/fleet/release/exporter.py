"""Part of every release: the exporter, and the host's node_exporter."""

from __future__ import annotations

from fleet.images.third_party import NODE_EXPORTER
from fleet.inventory.hosts import Host
from fleet.inventory.types import bracketed
from fleet.release import tls
from fleet.release.environment import LoginInfo, exporter_address
from fleet.release.inputs import ReleaseInputs
from fleet.release.service import RolePart, Service

EXPORTER = "exporter"


def compose_files(host: Host) -> tuple[str, ...]:
    """Names of its compose files, in merge order."""
    return ("exporter.yaml", *(["node-exporter.yaml"] if host.node_exporter else []))


def exporter_part(host: Host, login_info: LoginInfo, inputs: ReleaseInputs) -> RolePart:
    """The exporters of `host`."""
    address = exporter_address(host, login_info)
    services = [
        Service(
            name=EXPORTER,
            config="",
            image=inputs.images[EXPORTER],
            address=address,
            port=host.exporter_port,
            ready="/readyz" if login_info.gpus else "/healthz",  # without a driver it is never ready
        )
    ]
    variables = {
        "VOXYARD_EXPORTER_ADDRESS": address,
        "VOXYARD_EXPORTER_PUBLISHED_PORT": str(host.exporter_port),
    }
    if host.node_exporter:
        node_exporter = Service(
            name=NODE_EXPORTER,
            config="",
            image=inputs.images[NODE_EXPORTER],
            address=address,
            port=host.node_exporter_port,
            ready="/",
            metrics="node_",
        )
        services.append(node_exporter)
        variables["VOXYARD_NODE_EXPORTER_LISTEN"] = f"{bracketed(address)}:{host.node_exporter_port}"
    own = inputs.tls  # its files are those of all services but node_exporter, and always there
    secrets = {} if own is None else {each.name: tls.secrets(own, each.name) for each in services}
    return RolePart(tuple(services), {}, variables=variables, secrets=secrets)
