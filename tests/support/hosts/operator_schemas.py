"""JSON schemas of custom resources, strict: the fields of their definitions that rendered objects may use.

From the CustomResourceDefinitions of the Prometheus Operator, example/prometheus-operator-crd in
prometheus-operator/prometheus-operator (PrometheusRule as of v0.82, PodMonitor as of v0.91), of KEDA,
config/crd/bases/keda.sh_scaledobjects.yaml in kedacore/keda and its scaler of Prometheus, as of v2.16, and of KubeRay,
from the Go types of its definition, ray-operator/apis/ray/v1/raycluster_types.go in ray-project/kuberay, v1.6: its
pods are for the schemas of Kubernetes itself. No package on PyPI carries the definitions as schemas.
"""

from __future__ import annotations

from typing import Any

_DURATION = {
    "type": "string",
    "pattern": r"^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$",
}
_TEXT = {"type": "string"}
_TEXTS = {"type": "object", "additionalProperties": _TEXT}


def _object(required: tuple[str, ...], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": properties, "additionalProperties": False}


def _list(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _resource(kind: str, spec: Any, group: str = "monitoring.coreos.com/v1") -> dict[str, Any]:
    metadata = _object(("name",), name=_TEXT, namespace=_TEXT, labels=_TEXTS, annotations=_TEXTS)
    return _object(
        ("apiVersion", "kind", "metadata", "spec"),
        apiVersion={"const": group},
        kind={"const": kind},
        metadata=metadata,
        spec=spec,
    )


_RELABELING = _object(
    (),
    action={
        "enum": [
            "replace", "keep", "drop", "hashmod", "labelmap", "labeldrop", "labelkeep", "lowercase", "uppercase",
            "keepequal", "dropequal",
        ]
    },
    modulus={"type": "integer"},
    regex=_TEXT,
    replacement=_TEXT,
    separator=_TEXT,
    sourceLabels=_list({"type": "string", "pattern": r"^[a-zA-Z_][a-zA-Z0-9_]*$"}),
    targetLabel=_TEXT,
)  # fmt: skip
_ENDPOINT = {
    "port": _TEXT,
    "path": _TEXT,
    "scheme": {"enum": ["http", "https"]},
    "interval": _DURATION,
    "scrapeTimeout": _DURATION,
    "honorLabels": {"type": "boolean"},
    "relabelings": _list(_RELABELING),
    "metricRelabelings": _list(_RELABELING),
}
_SELECTOR = _object((), matchLabels=_TEXTS)
_RULE = _object(
    ("expr",),
    alert=_TEXT,
    annotations=_TEXTS,
    expr={"type": ["string", "integer"]},
    **{"for": _DURATION},
    keep_firing_for=_DURATION | {"minLength": 1},
    labels=_TEXTS,
    record=_TEXT,
)
_GROUP = _object(
    ("name",),
    name={"type": "string", "minLength": 1},
    interval=_DURATION,
    labels=_TEXTS,
    limit={"type": "integer"},
    query_offset=_DURATION,
    rules=_list(_RULE),
)
_COUNT = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
_POD_TEMPLATE = _object(
    ("metadata", "spec"), metadata=_object((), labels=_TEXTS, annotations=_TEXTS), spec={"type": "object"}
)
_RAY_CLUSTER = _object(
    ("headGroupSpec",),
    upgradeStrategy=_object((), type={"enum": ["Recreate", "None"]}),
    enableInTreeAutoscaling={"type": "boolean"},
    suspend={"type": "boolean"},
    rayVersion=_TEXT,
    headGroupSpec=_object(
        ("template", "rayStartParams"),  # optional since v1.4
        serviceType={"enum": ["ClusterIP", "NodePort", "LoadBalancer"]},
        enableIngress={"type": "boolean"},
        rayStartParams=_TEXTS,
        template=_POD_TEMPLATE,
    ),
    workerGroupSpecs=_list(
        _object(
            ("groupName", "minReplicas", "maxReplicas", "template", "rayStartParams"),
            groupName=_TEXT,
            replicas=_COUNT,
            minReplicas=_COUNT,
            maxReplicas=_COUNT,
            numOfHosts=_COUNT,
            rayStartParams=_TEXTS,
            template=_POD_TEMPLATE,
        )
    ),
)
_SCALING = _object(
    (),
    stabilizationWindowSeconds=_COUNT,
    selectPolicy={"enum": ["Max", "Min", "Disabled"]},
    policies=_list(
        _object(
            ("type", "value", "periodSeconds"), type={"enum": ["Pods", "Percent"]}, value=_COUNT, periodSeconds=_COUNT
        )
    ),
)
_SCALED_OBJECT = _object(
    ("scaleTargetRef", "triggers"),
    scaleTargetRef=_object(("name",), apiVersion=_TEXT, kind=_TEXT, name=_TEXT, envSourceContainerName=_TEXT),
    pollingInterval=_COUNT,
    cooldownPeriod=_COUNT,
    idleReplicaCount=_COUNT,
    minReplicaCount=_COUNT,
    maxReplicaCount=_COUNT,
    advanced=_object(
        (),
        horizontalPodAutoscalerConfig=_object(
            (), name=_TEXT, behavior=_object((), scaleDown=_SCALING, scaleUp=_SCALING)
        ),
        restoreToOriginalReplicaCount={"type": "boolean"},
    ),
    triggers=_list(
        _object(
            ("type", "metadata"),
            type={"const": "prometheus"},
            name=_TEXT,
            metricType={"enum": ["AverageValue", "Value", "Utilization"]},
            metadata=_object(
                ("serverAddress", "query", "threshold"), serverAddress=_TEXT, query=_TEXT, threshold=_TEXT,
                activationThreshold=_TEXT, namespace=_TEXT, ignoreNullValues=_TEXT,
            ),
        )
    ),
)  # fmt: skip
SCHEMAS = {
    "RayCluster": _resource("RayCluster", _RAY_CLUSTER, "ray.io/v1"),
    "PodMonitor": _resource(
        "PodMonitor", _object(("selector",), selector=_SELECTOR, podMetricsEndpoints=_list(_object((), **_ENDPOINT)))
    ),
    "ScaledObject": _resource("ScaledObject", _SCALED_OBJECT, "keda.sh/v1alpha1"),
    "PrometheusRule": _resource("PrometheusRule", _object((), groups=_list(_GROUP))),
}
