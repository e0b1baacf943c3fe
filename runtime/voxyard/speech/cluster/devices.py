"""Devices of a cluster's hosts: how a host publishes them as labels of its node, and how the service reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from voxyard.speech.pool.worker_process import Device

_DEVICE = re.compile(r"voxyard-device-(\d+)")


@dataclass(frozen=True)
class ClusterDevice(Device):
    """Device of a host of the cluster: Ray's id of its node, and the resource that stands for it there."""

    node: str = ""
    resource: str = ""

    @property
    def host(self) -> str:
        """Name of its host."""
        return self.name.rpartition("/")[0]


def labels(devices: Sequence[Device]) -> dict[str, str]:
    """Labels of a node with these devices: of each its name, and what CUDA_VISIBLE_DEVICES is for its worker."""
    named = {f"voxyard-device-{place}": device.name for place, device in enumerate(devices)}
    return named | {f"voxyard-visible-{place}": each.visible for place, each in enumerate(devices) if each.visible}


def resources(devices: Sequence[Device]) -> dict[str, float]:
    """Resources of a node with these devices: one of each, so that two services do not share a device."""
    return {f"voxyard-device-{place}": 1.0 for place in range(len(devices))}


def cluster_devices(node: str, host: str, found: Mapping[str, str]) -> tuple[ClusterDevice, ...]:
    """Devices of a node by its labels; those of a host without any, such as the head, are none."""
    places = sorted(int(match[1]) for label in found if (match := _DEVICE.fullmatch(label)))
    return tuple(
        ClusterDevice(
            f"{host}/{found[f'voxyard-device-{place}']}",
            found.get(f"voxyard-visible-{place}", ""),
            node,
            f"voxyard-device-{place}",
        )
        for place in places
    )
