"""PromQL builders of the panels: selectors filtered by the dashboard variables."""

from __future__ import annotations

CLUSTER = 'cluster=~"$cluster"'
"""Of a store of several Prometheis, which labels what each tells; without that label all are one cluster."""
HOST = f'{CLUSTER},job=~"$job",instance=~"$instance"'
GPU = f'{HOST},gpu=~"$gpu"'
RUN = f'{HOST},run=~"$run"'
ANY_GPU = f'{HOST},gpu=~"($gpu)?"'
"""Includes series without a GPU label: chunks that failed on several workers."""

_OURS = 'job=~"exporter|dcgm|trainer|bark|gateway|node.*|cluster-.+"'
CLUSTERS = f"label_values(up{{{_OURS}}}, cluster)"
JOBS = f"label_values(up{{{CLUSTER},{_OURS}}}, job)"
"""Of a Prometheus that others use, too, not all that it scrapes."""

ALERTS = 'ALERTS{alertstate="firing",cluster=~"$cluster",job=~"($job)?",instance=~"($instance)?"%s}'
"""Alerts of the selected hosts, and those without host or job."""


def host(metric: str, more: str = "") -> str:
    """Selector of a voxyard metric by job and instance; a recording rule (with a colon) keeps its name."""
    return _selector(metric, HOST, more)


def gpu(metric: str, more: str = "") -> str:
    """Selector by job, instance and GPU."""
    return _selector(metric, GPU, more)


def run(metric: str, more: str = "") -> str:
    """Selector by job, instance and training run."""
    return _selector(metric, RUN, more)


def chunks(metric: str, more: str = "") -> str:
    """Selector by job, instance and GPU, including series without GPU."""
    return _selector(metric, ANY_GPU, more)


def rate(selector: str) -> str:
    """Rate of a counter, per second."""
    return f"rate({selector}[$__rate_interval])"


def increase(selector: str) -> str:
    """Increase of a counter in each step of the panel."""
    return f"increase({selector}[$__rate_interval])"


def quantile(share: float, by: str, histogram: str, of: str = HOST) -> str:
    """Quantile of a histogram, by labels."""
    buckets = rate(_selector(f"{histogram}_bucket", of, ""))
    return f"histogram_quantile({share}, sum by (le, {by}) ({buckets}))"


def mean(by: str, histogram: str, of: str = HOST) -> str:
    """Mean of a histogram, by labels."""
    total, count = (rate(_selector(f"{histogram}_{part}", of, "")) for part in ("sum", "count"))
    return f"sum by ({by}) ({total}) / sum by ({by}) ({count})"


def assigned(value: str, more: str = "") -> str:
    """Value of each assigned GPU, with workload and role; unassigned GPUs are left out."""
    held = gpu("workload_gpu_assigned", more)
    return f"({held} == 1) * on (instance, uuid) group_left () max by (instance, uuid) ({value})"


def alerts(more: str = "") -> str:
    """Firing alerts."""
    return ALERTS % (f",{more}" if more else "")


def _selector(metric: str, labels: str, more: str) -> str:
    name = metric if ":" in metric or metric == "up" else f"voxyard_{metric}"
    return f"{name}{{{labels}{',' + more if more else ''}}}"
