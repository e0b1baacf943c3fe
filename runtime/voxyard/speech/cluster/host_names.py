"""Names of a cluster's hosts: a host does not join under the name of another one that is there."""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping

from voxyard.speech.cluster.access import ClusterAccess
from voxyard.speech.cluster.node import NodeSpec
from voxyard.speech.cluster.ports import node_ports
from voxyard.speech.errors import SpeechError

_log = logging.getLogger(__name__)

DROPPED_SECONDS = 120.0  # in which a head drops a host that does not answer; about half of it as a rule
_ANSWER_SECONDS, _POLL_SECONDS = 3.0, 2.0


def addresses_by_name(access: ClusterAccess) -> dict[str, list[str]]:
    """Addresses of the living hosts of each name, from `voxyard cluster status`: a process that joins imports no Ray.

    Raises:
        SpeechError: the head does not answer, or does not take this token.
    """
    token = [] if access.token is None else ["--cluster-token", str(access.token)]
    command = [
        sys.executable,
        "-P",
        "-m",
        "voxyard",
        "cluster",
        "status",
        "--cluster",
        access.address,
        *token,
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SpeechError(done.stderr.strip() or f"voxyard cluster status: exit code {done.returncode}")
    found: dict[str, list[str]] = {}
    for host in json.loads(done.stdout)["hosts"]:
        found.setdefault(host["name"], []).append(host["address"])
    return found


def taken_name(
    spec: NodeSpec,
    hosts: Callable[[], Mapping[str, list[str]]],
    answers: Callable[[str], bool] | None = None,
    seconds: float = DROPPED_SECONDS,
) -> str | None:
    """Message where another host of the cluster has this one's name; None where none has.

    An entry of this host's own address is its own from before a crash: its ports are free, so nothing runs there. One
    of another address whose node does not answer may be the same host's from before it was moved: the head drops it
    within a minute or two, which is waited for. Raises SpeechError where `hosts` does.
    """
    answers = answers or _answers
    deadline, said = time.monotonic() + seconds, False
    while True:
        others = [address for address in hosts().get(spec.name, ()) if address != spec.address]
        if not others:
            return None
        there = [address for address in others if answers(address)]
        if there or time.monotonic() >= deadline:
            return (
                f"{spec.name} is in cluster {spec.access.address} already, at {(there or others)[0]}, and this host is "
                f"{spec.address}: expected one host of a name; give this one another with --name, or end the other's "
                "`voxyard cluster join`"
            )
        if not said:
            _log.warning("%s at %s does not answer: waiting until the cluster drops it", spec.name, others[0])
            said = True
        time.sleep(_POLL_SECONDS)


def _answers(address: str) -> bool:
    """True where a node of a host that has joined listens at this address."""
    try:
        socket.create_connection((address, node_ports("worker").node_manager), timeout=_ANSWER_SECONDS).close()
    except OSError:
        return False
    return True
