"""Opens a pool over the hosts of a cluster, whose devices come and go."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager

from voxyard.speech.cluster.access import ClusterAccess, open_access
from voxyard.speech.cluster.link import ClusterLink
from voxyard.speech.config import SpeechSection
from voxyard.speech.engine import EngineSpec
from voxyard.speech.errors import SpeechError
from voxyard.speech.pool.limits import PoolLimits
from voxyard.speech.pool.metrics import PoolMetrics
from voxyard.speech.pool.pool import Pool


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
    engine: EngineSpec, section: SpeechSection, limits: PoolLimits, observer: PoolMetrics
) -> Iterator[Pool]:
    """The pool over all hosts of the cluster; its workers end with the block.

    Raises:
        SpeechError: a setting is wrong, or the head does not answer within `cluster_wait`.
    """
    access = check_settings(section)
    link = ClusterLink(access, section)
    pool = Pool(
        engine,
        (),
        limits=limits,
        observer=observer,
        launch=link.launch,
        no_device=f"the cluster {access.address} has no GPU host: start `voxyard cluster join` on one",
        trouble=lambda: link.trouble,
    )
    try:
        link.open(pool.add, pool.remove)
        yield pool
    finally:
        pool.close()
        link.close()
