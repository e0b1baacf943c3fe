"""Kubernetes clusters of the inventory: `clusters`, below the same defaults as the hosts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import PlainValidator, TypeAdapter

from fleet.inventory.bark_settings import ServiceSettings, StopSeconds
from fleet.inventory.types import Between, LocalPath, LocalPaths, Matching, Registry, Seconds, expected, list_of
from fleet.inventory.validation import ErrorCollector, Values, keys_of
from voxyard.settings.yaml_reader import YamlValue

ClusterRole = Literal["bark", "head", "trainer", "worker"]
_LABEL_KEY = r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_OURS = tuple(f"app.kubernetes.io/{each}" for each in ("name", "part-of", "component", "instance"))
_LABEL_VALUE = r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?"


def _labels(value: object) -> dict[str, str]:
    """Labels: names and values as Kubernetes allows them."""
    if not isinstance(value, dict):
        raise expected("labels with values", value)
    for key, label in value.items():
        if key in _OURS:
            raise expected("labels by which a Prometheus selects; this one is of the rendered objects", key)
        if not re.fullmatch(_LABEL_KEY, key) or not isinstance(label, str) or not re.fullmatch(_LABEL_VALUE, label):
            raise expected(f"NAME: 'VALUE' as in Kubernetes for {key}", label)
    return value


Labels = Annotated[Mapping[str, str], PlainValidator(_labels)]
ObjectName = Annotated[str, Matching(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", "the name of an object, in lower case")]
Namespace = Annotated[str, Matching(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", "the name of a namespace")]
Quantity = Annotated[str, Matching(r"[1-9][0-9]*(Mi|Gi|Ti)", "a size such as 100Gi")]


GpuCount = Annotated[int, Between("a number of GPUs", 0, 16)]


@dataclass(frozen=True, slots=True)
class ClusterBark:
    """Speech service of a cluster: `replicas` pods, each with its own GPUs and its own volume."""

    replicas: Annotated[int, Between("a number of pods", 1, 100)] = 1
    gpus: GpuCount = 1  # per pod; 0: CPU. With workers the service has none
    memory: Quantity | None = None  # per pod, request and limit; None: none, and the node may end it first
    storage: Quantity = "100Gi"  # per pod: documents, and without workers weights and voices
    weights: LocalPath | None = None  # directory
    voices: LocalPath | None = None  # directory; None: Bark's own voices
    stop_seconds: StopSeconds = 60
    settings: ServiceSettings = field(default_factory=dict)  # of its file, by section


@dataclass(frozen=True, slots=True)
class ClusterWorker:
    """Workers of the speech service in a Ray cluster: `replicas` pods on one volume of weights and voices."""

    replicas: Annotated[int, Between("a number of pods", 1, 1000)] = 1
    gpus: GpuCount = 1  # per pod; 0: CPU
    memory: Quantity | None = None  # per pod, as of bark
    storage: Quantity = "50Gi"  # of all: weights and voices
    storage_class: ObjectName | None = None  # one whose volumes many nodes mount; None: that of the cluster


@dataclass(frozen=True, slots=True)
class ClusterTrainer:
    """Training runs of a cluster."""

    corpora: ObjectName = "corpora"  # existing PersistentVolumeClaim, mounted at /corpora
    memory: Quantity | None = None  # per run, request and limit; None: none, and the node may end it first
    storage: Quantity = "50Gi"  # per run: checkpoints, samples, report
    stop_seconds: Seconds = 120  # longer than writing a checkpoint


@dataclass(frozen=True, slots=True)
class Cluster:
    """One Kubernetes cluster."""

    name: str
    namespace: Namespace = "voxyard"
    roles: Annotated[tuple[ClusterRole, ...], list_of()] = ()
    memory_policy: Literal["recommended", "full"] = "recommended"
    registry: Registry | None = None  # None: wherever the images were pushed last
    gpu_memory: Annotated[int, Between("MiB", 1024, 1 << 20)] | None = None  # of one GPU, as nvidia-smi reports them
    gpu_nodes: Labels = field(default_factory=lambda: {"nvidia.com/gpu.present": "true"})  # of nodes with GPUs
    runtime_class: ObjectName = "nvidia"  # gives the exporter the driver's library, without a GPU of its own
    storage_class: ObjectName | None = None  # None: the cluster's default
    monitoring_labels: Labels = field(default_factory=dict)  # by which a Prometheus selects its objects
    bark: ClusterBark = field(default_factory=ClusterBark)
    worker: ClusterWorker = field(default_factory=ClusterWorker)
    trainer: ClusterTrainer = field(default_factory=ClusterTrainer)
    secrets: LocalPaths = ()  # files; their values are not rendered

    @property
    def has_workers(self) -> bool:
        """True where the speech service works on a Ray cluster."""
        return "worker" in self.roles


_CLUSTER = TypeAdapter(Cluster)
_KEYS = keys_of(Cluster, {"name"})
_DEFAULTS = keys_of(Cluster, {"name", "roles"})  # a host's roles are none of a cluster


def read_clusters(node: YamlValue | None, defaults: Values, problems: ErrorCollector) -> Iterable[Cluster]:
    """Clusters of the node; of the `defaults` those that a cluster has. Errors are added to `problems`."""
    known = ErrorCollector(problems.path).nested(YamlValue(0, dict(defaults)), "", _DEFAULTS)
    for name, entry in problems.mapping(node, "clusters").items():
        where = f"clusters.{name}"
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", name):
            problems.add(entry.line, where, "a cluster's name has lower-case letters, digits and dashes only")
        cluster = problems.validated(_CLUSTER, _KEYS, entry, where, defaults=known, name=name)
        if cluster is None:
            continue
        for key, said in _ray_problems(cluster):
            problems.add(entry.line, f"{where}.{key}", said)
        if "bark" in cluster.roles and not cluster.has_workers and cluster.bark.gpus and cluster.gpu_memory is None:
            advice = "missing: the MiB of one GPU, as nvidia-smi reports them: Bark's limit follows from it"
            problems.add(entry.line, f"{where}.gpu_memory", advice)
        if cluster.namespace == "default" or cluster.namespace.startswith("kube-"):
            advice = f"{cluster.namespace} has other pods, which would be restricted as voxyard's are: name another"
            problems.add(entry.line, f"{where}.namespace", advice)
        yield cluster


def _ray_problems(cluster: Cluster) -> Iterable[tuple[str, str]]:
    """Reasons why a cluster's Ray cluster cannot work: key, and a sentence."""
    if {"head", "worker"} & set(cluster.roles):
        for missing in sorted({"bark", "head", "worker"} - set(cluster.roles)):
            yield "roles", f"{missing} is missing: a Ray cluster has a head, workers, and the speech service of both"
        if cluster.bark.replicas > 1:
            yield "bark.replicas", f"found {cluster.bark.replicas}: with workers there is one speech service"
