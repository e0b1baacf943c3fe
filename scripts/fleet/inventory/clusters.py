"""Kubernetes clusters of the inventory: `clusters`, below the same defaults as the hosts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import PlainValidator, TypeAdapter

from fleet.inventory.bark_settings import ServiceSettings, StopSeconds
from fleet.inventory.ray_clusters import RedisAddress
from fleet.inventory.shared_documents import ClusterShelf, Store, store_problems
from fleet.inventory.types import (
    Between,
    LocalPath,
    LocalPaths,
    Matching,
    Port,
    Registry,
    Seconds,
    Switch,
    expected,
    list_of,
)
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
HubName = Annotated[
    str, Matching(r"bark|bark-small|[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+", "a name on the hub such as suno/bark")
]
GpuCount = Annotated[int, Between("a number of GPUs", 0, 16)]
Processors = Annotated[int, Between("a number of processors", 1, 512)]
HttpAddress = Annotated[str, Matching(r"https?://[A-Za-z0-9.:/_-]+", "an address such as http://prometheus:9090")]


@dataclass(frozen=True, slots=True)
class Scaling:
    """Pods of the speech service by the depth of their queues, for KEDA: from `replicas` to `most`."""

    most: Annotated[int, Between("a number of pods", 1, 100)] | None = None  # None: there are always `replicas`
    chunks: Annotated[int, Between("chunks", 1, 100_000)] = 50  # that may wait for each pod
    prometheus: HttpAddress = "http://prometheus-operated.monitoring.svc:9090"  # where KEDA asks


@dataclass(frozen=True, slots=True)
class ClusterBark:
    """Speech service of a cluster: `replicas` pods, each with its own GPUs; more than one share a store."""

    replicas: Annotated[int, Between("a number of pods", 1, 100)] = 1  # more than one share a store
    port: Port = 8080  # of its Service
    gpus: GpuCount = 1  # per pod; 0: CPU. With workers the service has none
    cpus: Processors = 2  # per pod, request
    memory: Quantity | None = None  # per pod, request and limit; None: a request of 8Gi, no limit
    nodes: Labels = field(default_factory=dict)  # of nodes that may run it
    storage: Quantity = "100Gi"  # per pod: documents
    weights_storage: Quantity = "50Gi"  # weights and voices, where no workers have them
    weights_class: ObjectName | None = None  # storage class whose volumes many nodes mount; None: a volume per pod
    scaling: Scaling = field(default_factory=Scaling)
    weights: LocalPath | None = None  # directory
    weights_from: HubName | None = None  # where pods fetch what the directory has; None: they wait until it is copied
    voices: LocalPath | None = None  # directory; None: Bark's own voices
    stop_seconds: StopSeconds = 60
    settings: ServiceSettings = field(default_factory=dict)  # of its file, by section
    store: Store | None = None  # database of documents that its pods share; None: they are its own
    shelf: ClusterShelf | None = None  # place of their audio: an existing PersistentVolumeClaim, or a bucket

    @property
    def address(self) -> None:
        """Listen address: every one of the pod."""


@dataclass(frozen=True, slots=True)
class ClusterWorker:
    """Workers of the speech service in a Ray cluster: `replicas` pods on one volume of weights and voices."""

    replicas: Annotated[int, Between("a number of pods", 1, 1000)] = 1
    gpus: GpuCount = 1  # per pod; 0: CPU
    cpus: Processors = 2  # per pod, request
    memory: Quantity | None = None  # per pod, as of bark
    nodes: Labels = field(default_factory=dict)  # of nodes that may run it
    storage: Quantity = "50Gi"  # of all: weights and voices
    storage_class: ObjectName | None = None  # one whose volumes many nodes mount; None: that of the cluster


@dataclass(frozen=True, slots=True)
class ClusterTrainer:
    """Training runs of a cluster."""

    corpora: ObjectName = "corpora"  # existing PersistentVolumeClaim, mounted at /corpora
    cpus: Processors = 4  # per run, request
    memory: Quantity | None = None  # per run, as of bark
    nodes: Labels = field(default_factory=dict)  # of nodes that may run it
    queue: ObjectName | None = None  # LocalQueue of Kueue; None: runs start at once
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
    gpu_runtime_class: ObjectName | None = None  # of pods with GPUs; None: the cluster's default
    gpu_claim: ObjectName | None = None  # ResourceClaimTemplate of a pod's GPUs; None: the device plugin's
    pull_secret: ObjectName | None = None  # Secret with the login of the registry
    host_pid: Switch = False  # the exporter sees the nodes' processes; the namespace is not "restricted" then
    redis: RedisAddress | None = None  # keeps the state of the Ray cluster; None: it ends with its head
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


_ONLY_WITH_WORKERS = ("redis", "worker")
_ONLY_WITHOUT_WORKERS = ("bark.gpus", "bark.weights_storage", "bark.weights_class", "gpu_memory")
_CLUSTER = TypeAdapter(Cluster)
_KEYS = keys_of(Cluster, {"name"})
_DEFAULTS = keys_of(Cluster, {"name", "roles"})  # a host's roles are none of a cluster


def read_clusters(node: YamlValue | None, defaults: Values, problems: ErrorCollector) -> Iterable[Cluster]:
    """Clusters of the node; of the `defaults` those that a cluster has. Errors are added to `problems`."""
    known = ErrorCollector(problems.path).nested(YamlValue(0, dict(defaults)), "", _DEFAULTS)
    entries, found = problems.mapping(node, "clusters"), []
    for name, entry in entries.items():
        where = f"clusters.{name}"
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", name):
            problems.add(entry.line, where, "a cluster's name has lower-case letters, digits and dashes only")
        cluster = problems.validated(_CLUSTER, _KEYS, entry, where, defaults=known, name=name)
        if cluster is None:
            continue
        for key, said in (*_ray_problems(cluster), *_pod_problems(cluster), *_idle_keys(cluster, entry)):
            problems.add(entry.line, f"{where}.{key}", said)
        if "bark" in cluster.roles and not cluster.has_workers and cluster.bark.gpus and cluster.gpu_memory is None:
            advice = "missing: the MiB of one GPU, as nvidia-smi reports them: Bark's limit follows from it"
            problems.add(entry.line, f"{where}.gpu_memory", advice)
        if cluster.namespace == "default" or cluster.namespace.startswith("kube-"):
            advice = f"{cluster.namespace} has other pods, which would be restricted as voxyard's are: name another"
            problems.add(entry.line, f"{where}.namespace", advice)
        found.append(cluster)
    for where, said in store_problems(found, "clusters"):
        problems.add(entries[where.split(".")[1]].line, where, said)
    return found


def _idle_keys(cluster: Cluster, entry: YamlValue) -> Iterable[tuple[str, str]]:
    """Keys of the cluster's own entry that nothing reads: key, and a sentence."""
    for key in _ONLY_WITHOUT_WORKERS if cluster.has_workers else _ONLY_WITH_WORKERS:
        node: object = entry
        for part in key.split("."):
            node = node.value.get(part) if isinstance(node, YamlValue) and isinstance(node.value, dict) else None
        if node is not None:
            with_or_without = "with" if cluster.has_workers else "without"
            yield key, f"has no effect {with_or_without} the role worker: remove it"


def _pod_problems(cluster: Cluster) -> Iterable[tuple[str, str]]:
    """Reasons why several pods of the speech service cannot work together: key, and a sentence."""
    if "bark" in cluster.roles and cluster.bark.replicas > 1 and cluster.bark.store is None and not cluster.has_workers:
        yield (
            "bark.replicas",
            (
                f"found {cluster.bark.replicas} without a store: a pod would have documents of its own, which requests "
                "to another pod do not find: set bark.store and bark.shelf (deploy/CLUSTER.md), or have one pod"
            ),
        )
    scaling = cluster.bark.scaling
    if scaling.most is None:
        return
    if cluster.has_workers:
        yield "bark.scaling", "with workers there is one speech service: remove it"
    elif cluster.bark.store is None or cluster.bark.weights_class is None:
        yield (
            "bark.scaling",
            ("a new pod needs documents and weights that are there: set bark.store, bark.shelf and bark.weights_class"),
        )
    elif scaling.most < cluster.bark.replicas:
        yield "bark.scaling.most", f"found {scaling.most}, fewer than bark.replicas, {cluster.bark.replicas}"


def _ray_problems(cluster: Cluster) -> Iterable[tuple[str, str]]:
    """Reasons why a cluster's Ray cluster cannot work: key, and a sentence."""
    if {"head", "worker"} & set(cluster.roles):
        for missing in sorted({"bark", "head", "worker"} - set(cluster.roles)):
            yield "roles", f"{missing} is missing: a Ray cluster has a head, workers, and the speech service of both"
        if cluster.bark.replicas > 1:
            yield "bark.replicas", f"found {cluster.bark.replicas}: with workers there is one speech service"
