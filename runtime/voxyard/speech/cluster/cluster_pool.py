"""Opens a pool over the hosts of a cluster: this process's own node, the connection, and the hosts that come and go."""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from voxyard.speech.cluster.access import ClusterAccess, open_access
from voxyard.speech.cluster.node import Node, NodeSpec
from voxyard.speech.config import SpeechSection
from voxyard.speech.engine import EngineSpec
from voxyard.speech.errors import SpeechError
from voxyard.speech.pool.limits import PoolLimits
from voxyard.speech.pool.observer import PoolObserver
from voxyard.speech.pool.pool import Pool

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.5


def check_settings(section: SpeechSection) -> ClusterAccess:
    """Access to the cluster of these settings.

    Raises:
        SpeechError: a setting is missing, wrong, or one of a local pool; or Ray is not installed.
    """
    access = open_access(section.cluster, section.cluster_token)
    if section.gpus is not None:
        raise SpeechError(
            f"--gpus {section.gpus} and --pool ray exclude each other: name the GPUs where their host joins, "
            "`voxyard cluster join --gpus`"
        )
    if not section.enable_parallel_tts:
        raise SpeechError("--no-parallel and --pool ray exclude each other: one worker needs no cluster")
    require_ray()
    return access


def require_ray() -> None:
    """Check that Ray is installed. Raises SpeechError."""
    if importlib.util.find_spec("ray") is None:
        raise SpeechError("a cluster needs Ray, which is not installed: pip install 'voxyard[cluster]'")


@contextmanager
def cluster_pool(
    engine: EngineSpec, section: SpeechSection, limits: PoolLimits, observer: PoolObserver
) -> Iterator[Pool]:
    """The pool over all hosts of the cluster; its workers end with the block.

    Raises:
        SpeechError: a setting is wrong, or the head does not answer within `cluster_wait`.
    """
    access = check_settings(section)
    name = f"service-{socket.gethostname()}-{os.getpid()}"
    with ExitStack() as stack:
        node = stack.enter_context(Node(NodeSpec("service", access, access.own_address(), name), _lost))
        node.start()
        os.environ |= access.environment()
        from voxyard.speech.cluster import ray_transport as transport

        _await_node(access, node, name, section.cluster_wait)
        transport.connect(access, str(node.directory))
        node.in_use = True
        stack.callback(transport.disconnect)
        pool = Pool(
            engine,
            (),
            limits=limits,
            observer=observer,
            launch=partial(transport.RayWorker, section=section),
            no_device=f"the cluster {access.address} has no GPU host: start `voxyard cluster join` on one",
        )
        stack.callback(pool.close)
        watcher = transport.HostWatcher(pool.add, pool.remove)
        stack.callback(watcher.close)
        yield pool


def _lost(reason: str) -> None:
    """End this process in order, as SIGTERM does: Ray cannot connect one again whose own node has ended."""
    _log.error(
        "the cluster is lost to this process, which ends (start it again): its own node has ended with %s. A head that "
        "is started with --redis comes back to the same cluster",
        reason,
    )
    os.kill(os.getpid(), signal.SIGTERM)


def _await_node(access: ClusterAccess, node: Node, name: str, seconds: float) -> None:
    """Wait until the head knows this process's own node."""
    from voxyard.speech.cluster.ray_transport import read_hosts

    deadline = time.monotonic() + seconds
    while True:
        try:
            if any(host.name == name and host.alive for host in read_hosts(access)):
                return
            reason = f"its head {access.address} does not list this host yet"
        except SpeechError as error:
            reason = str(error)
        if time.monotonic() >= deadline:
            ended = f"; its node has ended: {node.last_end}" if node.last_end else ""
            raise SpeechError(f"the cluster could not be joined within {seconds:.0f} s: {reason}{ended}")
        time.sleep(_POLL_SECONDS)
