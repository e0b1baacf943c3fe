"""Kubernetes clusters of the inventory: `clusters`, below the same defaults as the hosts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from fleet.inventory import bark_settings, validators
from fleet.inventory.validators import ErrorCollector, InvalidValueError, Reader, Readers, list_of, merged
from fleet.inventory.yaml_lines import YamlValue

ClusterRole = Literal["bark", "trainer"]
CLUSTER_ROLES: tuple[ClusterRole, ...] = ("bark", "trainer")
_LABEL_KEY = r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_LABEL_VALUE = r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?"


@dataclass(frozen=True, slots=True)
class ClusterBark:
    """Speech service of a cluster: `replicas` pods, each with its own GPUs and its own volume."""

    replicas: int = 1
    gpus: int = 1  # per pod; 0: CPU
    storage: str = "100Gi"  # per pod: weights, voices, documents
    weights: Path | None = None  # local directory
    voices: Path | None = None  # local directory; None: Bark's own voices
    stop_seconds: int = 60
    settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)  # of its file, by section


@dataclass(frozen=True, slots=True)
class ClusterTrainer:
    """Training runs of a cluster."""

    corpora: str = "corpora"  # existing PersistentVolumeClaim, mounted at /corpora
    storage: str = "50Gi"  # per run: checkpoints, samples, report
    stop_seconds: int = 120  # longer than writing a checkpoint


@dataclass(frozen=True, slots=True)
class Cluster:
    """One Kubernetes cluster."""

    name: str
    namespace: str = "voxyard"
    roles: tuple[ClusterRole, ...] = ()
    memory_policy: Literal["recommended", "full"] = "recommended"
    registry: str | None = None  # None: wherever the images were pushed last
    gpu_memory: int | None = None  # MiB of one GPU, as nvidia-smi reports them
    gpu_nodes: Mapping[str, str] = field(default_factory=lambda: {"nvidia.com/gpu.present": "true"})  # their labels
    runtime_class: str = "nvidia"  # gives the exporter the driver's library, without a GPU of its own
    storage_class: str | None = None  # None: the cluster's default
    monitoring_labels: Mapping[str, str] = field(default_factory=dict)  # by which a Prometheus selects its objects
    bark: ClusterBark = field(default_factory=ClusterBark)
    trainer: ClusterTrainer = field(default_factory=ClusterTrainer)
    secrets: Path | None = None  # local file; its values are not rendered


def read_clusters(
    node: YamlValue | None,
    defaults: Mapping[str, object],
    problems: ErrorCollector,
    resolve: Callable[[object, Path], object],
) -> Iterable[Cluster]:
    """Clusters of the node; of the `defaults` those that a cluster has. Errors are added to `problems`."""
    known = _only(defaults, _READERS)
    for name, entry in problems.mapping(node, "clusters").items():
        where = f"clusters.{name}"
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", name):
            problems.add(entry.line, where, "a cluster's name has lower-case letters, digits and dashes only")
        before = len(problems.found)
        given = merged(known, problems.values(entry, where, _READERS))
        if len(problems.found) > before:
            continue
        values: dict[str, Any] = {key: resolve(value, problems.path) for key, value in given.items()}
        kinds = (("bark", ClusterBark), ("trainer", ClusterTrainer))
        values |= {key: kind(**values[key]) for key, kind in kinds if key in values}
        cluster = Cluster(name=name, **values)
        if "bark" in cluster.roles and cluster.bark.gpus and cluster.gpu_memory is None:
            advice = "missing: the MiB of one GPU, as nvidia-smi reports them: Bark's limit follows from it"
            problems.add(entry.line, f"{where}.gpu_memory", advice)
        yield cluster


def _only(given: Mapping[str, object], readers: Readers) -> dict[str, object]:
    """Values that the readers know; a host's roles are none of a cluster."""
    found: dict[str, object] = {}
    for key, value in given.items():
        below = readers.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping) and key != "settings":
            found[key] = _only(value, below)
        elif below is not None and key != "roles":
            found[key] = value
    return found


def _labels(node: YamlValue) -> dict[str, str]:
    """Labels: names and values as Kubernetes allows them."""
    if not isinstance(node.value, Mapping):
        raise InvalidValueError(f"expected labels with values, found {node.describe()}")
    found = {}
    for key, value in node.value.items():
        text = value.value
        if not re.fullmatch(_LABEL_KEY, key) or not isinstance(text, str) or not re.fullmatch(_LABEL_VALUE, text):
            raise InvalidValueError(f"expected NAME: 'VALUE' as in Kubernetes, found {key}: {value.describe()}")
        found[key] = text
    return found


def _matching(pattern: str, what: str) -> Reader:
    def reader(node: YamlValue) -> str:
        if not isinstance(node.value, str) or not re.fullmatch(pattern, node.value):
            raise InvalidValueError(f"expected {what}, found {node.describe()}")
        return node.value

    return reader


_name = _matching(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", "the name of an object, in lower case")
_quantity = _matching(r"[1-9][0-9]*(Mi|Gi|Ti)", "a size such as 100Gi")
_stop_seconds = validators.integer("seconds", 1, 3600)
_READERS: Readers = {
    "namespace": _matching(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", "the name of a namespace"),
    "roles": lambda node: list_of(node, validators.one_of(CLUSTER_ROLES)),
    "memory_policy": validators.one_of(("recommended", "full")),
    "registry": validators.registry,
    "gpu_memory": validators.integer("MiB", 1024, 1 << 20),
    "gpu_nodes": _labels,
    "runtime_class": _name,
    "storage_class": _name,
    "monitoring_labels": _labels,
    "bark": {
        "replicas": validators.integer("a number of pods", 1, 100),
        "gpus": validators.integer("a number of GPUs", 0, 16),
        "storage": _quantity,
        "weights": validators.path,
        "voices": validators.path,
        "stop_seconds": _stop_seconds,
        "settings": bark_settings.readers(),
    },
    "trainer": {"corpora": _name, "storage": _quantity, "stop_seconds": _stop_seconds},
    "secrets": validators.path,
}
