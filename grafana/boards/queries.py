"""PromQL as the panels write it: every selector is filtered by what the dashboard's variables hold."""

from __future__ import annotations

HOST = 'job=~"$job",instance=~"$instance"'
GPU = f'{HOST},gpu=~"$gpu"'
RUN = f'{HOST},run=~"$run"'
ANY_GPU = f'{HOST},gpu=~"($gpu)?"'
"""Also what names no GPU: a chunk that failed on every worker it was given to is no one GPU's."""

ALERTS = 'ALERTS{alertstate="firing",job=~"($job)?",instance=~"($instance)?"%s}'
"""Alerts of the hosts that are chosen, and those that are about no one host or job."""


def host(metric: str, more: str = "") -> str:
    """A metric of ours by job and instance; a recording rule (with a colon) keeps its name."""
    return _selector(metric, HOST, more)


def gpu(metric: str, more: str = "") -> str:
    """The same, of the GPUs that are chosen."""
    return _selector(metric, GPU, more)


def run(metric: str, more: str = "") -> str:
    """The same, of the training runs that are chosen."""
    return _selector(metric, RUN, more)


def chunks(metric: str, more: str = "") -> str:
    """The same, of the GPUs that are chosen and of no GPU."""
    return _selector(metric, ANY_GPU, more)


def rate(selector: str) -> str:
    """Rate of a counter, per second."""
    return f"rate({selector}[$__rate_interval])"


def increase(selector: str) -> str:
    """Increase of a counter in each step of the panel."""
    return f"increase({selector}[$__rate_interval])"


def quantile(share: float, by: str, histogram: str, of: str = HOST) -> str:
    """A quantile of a histogram's observations, by labels."""
    buckets = rate(_selector(f"{histogram}_bucket", of, ""))
    return f"histogram_quantile({share}, sum by (le, {by}) ({buckets}))"


def mean(by: str, histogram: str, of: str = HOST) -> str:
    """The mean of a histogram's observations, by labels."""
    total, count = (rate(_selector(f"{histogram}_{part}", of, "")) for part in ("sum", "count"))
    return f"sum by ({by}) ({total}) / sum by ({by}) ({count})"


def assigned(value: str, more: str = "") -> str:
    """A value of each GPU that a workload holds, with the workload and its role; a GPU that nobody holds has none."""
    held = gpu("workload_gpu_assigned", more)
    return f"({held} == 1) * on (instance, uuid) group_left () max by (instance, uuid) ({value})"


def alerts(more: str = "") -> str:
    """Alerts that fire."""
    return ALERTS % (f",{more}" if more else "")


def _selector(metric: str, labels: str, more: str) -> str:
    name = metric if ":" in metric or metric == "up" else f"voxyard_{metric}"
    return f"{name}{{{labels}{',' + more if more else ''}}}"
