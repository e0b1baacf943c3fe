"""Commands `voxyard cluster`: run the head of a cluster, join this host's GPUs to one, show who is in it."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from voxyard.cli.base import CHECK_FAILED, CONTEXT, INTERRUPTED, JSON, PATH, LazyGroup, answering
from voxyard.host.signal_handlers import handling

if TYPE_CHECKING:
    from voxyard.speech.cluster.node import NodeSpec

_log = logging.getLogger(__name__)

_EXTRA = "cluster"
TOKEN = click.option(
    "--cluster-token",
    "token",
    type=PATH,
    envvar="VOXYARD_CLUSTER_TOKEN",
    metavar="FILE",
    help="Token of the cluster, readable by its owner only; needed beyond loopback.",
)
CLUSTER = click.option(
    "--cluster",
    "address",
    envvar="VOXYARD_CLUSTER",
    metavar="HOST:PORT",
    required=True,
    help="Head of the cluster, such as 10.0.0.1:6379.",
)
NAME = click.option("--name", metavar="NAME", help="Name of this host in the cluster.  [default: its host name]")


@click.command(context_settings=CONTEXT)
@click.option(
    "--address", required=True, metavar="HOST[:PORT]", help="Private address of this host that the others reach."
)
@TOKEN
@NAME
@click.option(
    "--redis", metavar="HOST:PORT", help="Redis that keeps the cluster's state, so that it outlives the head."
)
def head(address: str, token: Path | None, name: str | None, redis: str | None) -> int:
    """Run the head of a cluster until Ctrl-C: it knows the hosts, and has no workers itself.

    Without a Redis, hosts and services begin anew when the head has ended. Let the Redis listen on the head's loopback
    only: who writes there runs code on all hosts.
    """
    with answering("cluster head", extra=_EXTRA):
        from voxyard.speech.cluster.access import open_access, open_redis
        from voxyard.speech.cluster.cluster_pool import require_ray
        from voxyard.speech.cluster.node import head_spec

        require_ray()
        access = open_access(address, token)
        spec = head_spec(access, f"{name or socket.gethostname()}-head", open_redis(redis))
        return _run(spec, f"cluster {access.address}")


@click.command(context_settings=CONTEXT)
@CLUSTER
@TOKEN
@click.option("--address", "own", metavar="HOST", help="Address of this host.  [default: the one the head sees]")
@NAME
@click.option("--gpus", metavar="GPUS", help="GPUs to offer, with commas between.  [default: all]")
@click.option("--workers", type=click.IntRange(min=1), metavar="N", help="Most workers on this host.  [default: 4]")
@click.option(
    "--device", type=click.Choice(("auto", "cuda", "cpu")), default="auto", show_default=True,
    help="Devices to offer: auto takes the GPUs of a host that has any.",
)  # fmt: skip
def join(
    address: str,
    token: Path | None,
    own: str | None,
    name: str | None,
    gpus: str | None,
    workers: int | None,
    device: str,
) -> int:
    """Offer this host's GPUs to a cluster until Ctrl-C, a worker on each that can take one.

    A host that loses its head tries again until it is back. The model's directory must be the same, and in the same
    place, on all hosts.
    """
    with answering("cluster join", extra=_EXTRA):
        from voxyard.host.gpu_choice import VISIBLE
        from voxyard.host.nvml import every_device
        from voxyard.speech.cluster.access import open_access, private_address
        from voxyard.speech.cluster.cluster_pool import require_ray
        from voxyard.speech.cluster.devices import labels, resources
        from voxyard.speech.cluster.host_names import addresses_by_name, taken_name
        from voxyard.speech.cluster.node import NodeSpec
        from voxyard.speech.config import SpeechSection
        from voxyard.speech.errors import SpeechError
        from voxyard.speech.placement import choose_devices

        require_ray()
        access = open_access(address, token)
        chosen: dict[str, Any] = {"gpus": gpus} | ({} if workers is None else {"max_parallel_tts_workers": workers})
        devices = choose_devices(device, every_device, SpeechSection(**chosen), os.environ.get(VISIBLE))
        spec = NodeSpec(
            "worker",
            access,
            access.own_address() if own is None else private_address(own),
            name or socket.gethostname(),
            labels(devices),
            resources(devices),
        )
        try:
            taken = taken_name(spec, partial(addresses_by_name, access))
        except SpeechError as error:
            _log.warning("%s; this host tries again until it does", error)
        else:
            if taken is not None:
                raise SpeechError(taken)
        return _run(spec, f"{spec.name} with {', '.join(each.name for each in devices)} in cluster {access.address}")


@click.command(context_settings=CONTEXT)
@CLUSTER
@TOKEN
@click.option(
    "--expect", metavar="NAMES", default="", help="Hosts that must be there, with commas between; else exit code 1."
)
@JSON
def status(address: str, token: Path | None, expect: str, as_json: bool) -> int:
    """Show the hosts of a cluster and their devices; exit code 1 where one is missing.

    With --json: {"cluster", "hosts": [{"name", "address", "head", "devices"}, …], "missing": [names]}. Hosts that have
    gone are not shown; name those that must be there with --expect.
    """
    with answering("cluster status", extra=_EXTRA):
        from voxyard.speech.cluster.access import open_access
        from voxyard.speech.cluster.cluster_pool import require_ray

        require_ray()
        access = open_access(address, token)
        os.environ |= access.environment()
        from voxyard.speech.cluster.ray_transport import read_hosts

        living = (each for each in read_hosts(access) if each.alive)
        hosts = sorted(living, key=lambda each: (not each.head, each.name, each.address))
    there = {each.name for each in hosts if each.devices}
    missing = [name for name in expect.split(",") if name and name not in there]
    if as_json:
        shown = [
            {"name": each.name, "address": each.address, "head": each.head, "devices": list(each.devices)}
            for each in hosts
        ]
        print(json.dumps({"cluster": access.address, "hosts": shown, "missing": missing}, indent=2))
    else:
        for each in hosts:
            what = "head" if each.head else ", ".join(each.devices) or "no devices (a service)"
            print(f"{each.name}  {each.address}  {what}")
        for name in missing:
            print(f"{name}  missing: `voxyard cluster join` does not run there, or its network is cut")
    return CHECK_FAILED if missing else 0


@click.group(
    cls=LazyGroup,
    context_settings=CONTEXT,
    entries={
        "head": ("Run the head of a cluster.", "voxyard.cli.cluster:head"),
        "join": ("Offer this host's GPUs to a cluster.", "voxyard.cli.cluster:join"),
        "status": ("Show the hosts of a cluster.", "voxyard.cli.cluster:status"),
    },
)
def cluster() -> None:
    """Share the GPUs of several hosts: one service speaks on all of them."""


def _run(spec: NodeSpec, what: str) -> int:
    """Run a node until SIGTERM or Ctrl-C."""
    from voxyard.speech.cluster.node import Node
    from voxyard.speech.cluster.node_metrics import serve_metrics

    stop, code = threading.Event(), [0]

    def end(number: int, _frame: object) -> None:
        code[0] = INTERRUPTED if number == signal.SIGINT else 0
        stop.set()

    with handling(end), Node(spec) as node:
        node.start()
        with serve_metrics(node):
            _log.info("%s: started, until Ctrl-C", what)
            stop.wait()
        _log.info("%s: stopping", what)
    return code[0]
