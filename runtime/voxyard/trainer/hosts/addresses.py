"""Addresses of the hosts of a run, this host's place among them, and its share of each batch. No TensorFlow."""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass

from voxyard.trainer.config import TrainConfig
from voxyard.trainer.errors import TrainerError

PRIVATE = tuple(
    map(
        ipaddress.ip_network,
        (
            "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16",  # RFC 1918
            "100.64.0.0/10",  # RFC 6598, carrier-grade NAT: many VPNs use it
            "127.0.0.0/8", "169.254.0.0/16",  # loopback, link-local
        ),
    )
)  # fmt: skip
_ADDRESS = re.compile(r"([A-Za-z0-9._-]+):([0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class HostAddress:
    """Name or IPv4 address of a host, and the port of its TensorFlow server."""

    name: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}:{self.port}"


@dataclass(frozen=True, slots=True)
class HostGroup:
    """All hosts of a run in their order, and the place of this one among them."""

    addresses: tuple[HostAddress, ...]
    index: int

    @property
    def count(self) -> int:
        """Number of hosts."""
        return len(self.addresses)

    @property
    def is_first(self) -> bool:
        """True for the host that saves, validates and writes samples."""
        return self.index == 0

    def name(self, index: int) -> str:
        """Name of a host in messages, such as `host 1 (10.0.0.2:2222)`."""
        return f"host {index} ({self.addresses[index]})"

    def share(self, rows: int) -> slice:
        """Rows of a batch of `rows` that this host assembles."""
        each = rows // self.count
        return slice(self.index * each, (self.index + 1) * each)


def host_group(config: TrainConfig) -> HostGroup | None:
    """The hosts that the settings name, None for a run on this host alone.

    Raises TrainerError for a list, an index or a strategy that makes no group. Looks no name up.
    """
    training = config.training
    if training.hosts is None:
        given = "--strategy multiworker" if training.strategy == "multiworker" else ""
        given = given or ("--host-index" if training.host_index is not None else "")
        given = given or ("--allow-mixed" if training.allow_mixed else "")
        given = given or ("--restarts" if training.restarts else "")
        if given:
            raise TrainerError(
                f"{given} without --hosts has no effect: name all hosts of the run in one order, the same on each, "
                "as in --hosts 10.0.0.1:2222,10.0.0.2:2222 --host-index 0"
            )
        return None
    if training.strategy not in (None, "auto", "multiworker"):
        raise TrainerError(
            f"--strategy {training.strategy} cannot be used with --hosts, where each host trains on one "
            "device: give --strategy multiworker, and --data-gpu ID --model-gpu ID for a split in each host"
        )
    addresses = tuple(_address(text.strip()) for text in training.hosts.split(","))
    if len(addresses) < 2:
        raise TrainerError(f"--hosts {training.hosts} names one host, expected at least two: leave --hosts out")
    for position, one in enumerate(addresses):
        if one in addresses[:position]:
            raise TrainerError(f"--hosts names {one} twice: each host (or process of a host) has an address of its own")
    index = training.host_index
    if index is None:
        raise TrainerError(f"--hosts without --host-index: say which of the {len(addresses)} this host is, from 0")
    if index >= len(addresses):
        raise TrainerError(
            f"--host-index {index} is out of range: --hosts names {len(addresses)} hosts, 0 to {len(addresses) - 1}"
        )
    return HostGroup(addresses, index)


def without_hosts(config: TrainConfig) -> TrainConfig:
    """`config` for a run on this host alone."""
    alone = {"training.hosts": None, "training.host_index": None, "training.allow_mixed": False, "training.restarts": 0}
    return config.changed(alone)


def for_this_host(config: TrainConfig) -> TrainConfig:
    """`config` with the part of this host: all but the first write no checkpoints, no samples and no TensorBoard.

    Their report lies in `host-N` of the run's directory, which hosts may share. Raises TrainerError.
    """
    group = host_group(config)
    if group is None or group.is_first:
        return config
    directory = config.training.checkpoint_dir
    return config.changed(
        {
            "training.checkpoint_dir": directory / f"host-{group.index}",
            "training.init_from": None,
            "telemetry.run": config.telemetry.run or directory.resolve().name,
            "telemetry.tensorboard": False,
            "telemetry.sample_text": "",
        }
    )


def refuse_uneven(group: HostGroup, batch_size: int) -> None:
    """Raises TrainerError where a micro-batch of `batch_size` clips cannot be dealt to the hosts evenly."""
    if batch_size % group.count:
        below = batch_size // group.count * group.count
        sizes = f"{below} or {below + group.count}" if below else str(group.count)
        raise TrainerError(
            f"--batch-size {batch_size} cannot be dealt evenly to {group.count} hosts; it counts the clips of all of "
            f"them together: give {sizes}"
        )


def resolve(address: HostAddress) -> str:
    """IPv4 address of a host. Raises TrainerError where there is none, or one that is not private."""
    try:
        found = socket.getaddrinfo(address.name, address.port, socket.AF_INET, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        said = getattr(error, "strerror", None) or error
        raise TrainerError(f"--hosts: {address.name} has no IPv4 address that is known here: {said}") from error
    every = sorted({str(each[4][0]) for each in found})
    for one in every:
        if not any(ipaddress.ip_address(one) in network for network in PRIVATE):
            raise TrainerError(
                f"--hosts: {address.name} is {one}, a public address. TensorFlow's server runs what anybody sends it "
                "and asks for no password: train over a private network or a VPN (10.0.0.0/8, 172.16.0.0/12, "
                "192.168.0.0/16, 100.64.0.0/10)"
            )
    return every[0]


def _address(text: str) -> HostAddress:
    found = _ADDRESS.fullmatch(text)
    if found is None or not 1 <= int(found[2]) <= 65535:
        raise TrainerError(f"--hosts: found {text!r}, expected NAME:PORT, such as 10.0.0.1:2222")
    return HostAddress(found[1], int(found[2]))
