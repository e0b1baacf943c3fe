"""Hosts of a training run over several hosts: their order, their addresses, and reasons to refuse them."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleet.command_line import fab
from fleet.errors import FleetError, HostFailedError
from fleet.facts.fact import Unknown
from fleet.facts.machine import PORTS
from fleet.inventory.hosts import Host
from fleet.runs.config import HOST_SETTINGS, RunSettings, validate
from fleet.ssh.connection_pool import Session
from voxyard.settings import Loaded
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.hosts.addresses import HostAddress, resolve

PORT = 2222  # of TensorFlow's server on each host


@dataclass(frozen=True, slots=True)
class RunHosts:
    """Hosts of a run in their order, the first of which saves, and the place of one of them."""

    names: tuple[str, ...]  # in the inventory
    addresses: tuple[str, ...]  # ADDRESS:PORT, as the trainer takes them
    index: int

    @property
    def flags(self) -> tuple[tuple[str, str], ...]:
        """Settings of the trainer on this host, by canonical key."""
        return (("training.host_index", str(self.index)), ("training.hosts", ",".join(self.addresses)))

    def to_json(self) -> dict[str, Any]:
        """Entry of the run's manifest."""
        return {"names": list(self.names), "addresses": list(self.addresses), "index": self.index}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> RunHosts:
        """Parses the output of `to_json`."""
        return cls(tuple(map(str, found["names"])), tuple(map(str, found["addresses"])), int(found["index"]))


def places(hosts: Sequence[Host]) -> tuple[RunHosts, ...]:
    """Place of each host in a run over all of them, in their order.

    Raises FleetError for a single host, one without the role trainer, and an address that is not private, that is
    loopback, or that two of them share.
    """
    if len(hosts) < 2:
        raise FleetError(f"--hosts {hosts[0].name} names one host: name at least two, or use --host")
    for host in hosts:
        if "trainer" not in host.roles:
            raise FleetError(
                f"{host.name} is no trainer: add the role trainer to it in the inventory, then {fab()} deploy"
            )
    found: dict[str, Host] = {}
    for host in hosts:
        address = _private(host)
        other = found.setdefault(address, host)
        if other is not host:
            raise FleetError(f"{host.name} and {other.name} have the same address {address}: each needs its own")
    names, addresses = tuple(host.name for host in hosts), tuple(f"{address}:{PORT}" for address in found)
    return tuple(RunHosts(names, addresses, index) for index in range(len(hosts)))


def refuse_named_hosts(loaded: Loaded[TrainConfig]) -> None:
    """Raises FleetError where the settings of a run name its hosts."""
    for key in HOST_SETTINGS:
        if loaded.origins[key] != "default":
            raise FleetError(
                f"{key} ({loaded.origins[key]}): fab tells each host its place itself: leave it out, and name the "
                "hosts with --hosts gpu-01,gpu-02"
            )


def refuse_misfit(config: TrainConfig, count: int) -> None:
    """Raises FleetError for settings that do not fit a run over `count` hosts; over 1: on a host alone."""
    training = config.training
    if count == 1:
        if training.strategy == "multiworker":
            raise FleetError("training.strategy multiworker is for several hosts: name them with --hosts gpu-01,gpu-02")
        return
    if training.batch_size is None or training.batch_size % count:
        given = "missing" if training.batch_size is None else training.batch_size
        raise FleetError(
            f"training.batch_size is {given}: over {count} hosts it counts the clips of all together, and must be "
            f"given and divide by {count}"
        )


def refuse_unlike(images: Mapping[str, str]) -> None:
    """Raises HostFailedError where the trainer images of the hosts differ; `images` has them by host.

    The ids of their releases always do: a release has the GPUs and addresses of its host.
    """
    if len(set(images.values())) > 1:
        said = "; ".join(f"{host}: {image}" for host, image in images.items())
        raise HostFailedError(
            f"the hosts of a run need one trainer image, and differ ({said}): "
            f"{fab()} deploy {' '.join(f'--host {host}' for host in images)}"
        )


def refuse_taken_port(session: Session, host: str) -> None:
    """Raises HostFailedError where a program of the host uses the port of TensorFlow's server."""
    ports = PORTS.among(session.run([PORTS.command]))
    if not isinstance(ports, Unknown) and PORT in ports:
        raise HostFailedError(
            f"{host}: port {PORT} is in use by another program (sudo ss -ltnp 'sport = :{PORT}' shows it): stop that; "
            "a run over hosts needs it on each of them"
        )


def _private(host: Host) -> str:
    try:
        address = resolve(HostAddress(host.address, PORT))
    except TrainerError as error:
        raise FleetError(
            f"{host.name}: {str(error).removeprefix('--hosts: ')}; a run over hosts uses `address` of the inventory"
        ) from None
    if ipaddress.ip_address(address).is_loopback:
        raise FleetError(f"{host.name}: the other hosts of a run cannot reach {address}: name its private address")
    return address


def validated(settings: RunSettings, name: str, *, several: bool, resumed: bool) -> Loaded[TrainConfig]:
    """Settings as given, without the hosts. Raises FleetError with all errors, and where they name hosts themselves."""
    # Those of a run over hosts are checked as a whole when its files are rendered; a strategy is not checked further.
    loaded = validate(settings.with_flags([("training.strategy", "multiworker")]), name=name)
    refuse_named_hosts(loaded)
    if several:
        return loaded
    loaded = validate(settings, name=name)
    if not resumed:
        refuse_misfit(loaded.config, 1)
    return loaded
