"""YAML documents of Kubernetes: deterministic text, long strings as blocks, kustomizations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

KUSTOMIZATION = "kustomization.yaml"
Document = Mapping[str, Any]


class _Dumper(yaml.SafeDumper):
    """YAML without anchors; strings of several lines are literal blocks."""

    def ignore_aliases(self, data: Any) -> bool:
        """No anchors: kustomize and people read each object alone."""
        return True

    def represent_text(self, data: str) -> yaml.Node:
        """A string; a block where it has several lines."""
        return self.represent_scalar("tag:yaml.org,2002:str", data, style="|" if "\n" in data else None)


_Dumper.add_representer(str, _Dumper.represent_text)


def to_bytes(documents: Sequence[Document], heading: str) -> bytes:
    """Documents of one file; `heading` is its first comment."""
    comment = "".join(f"# {line}".rstrip() + "\n" for line in heading.splitlines())
    texts = (
        yaml.dump(dict(each), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120) for each in documents
    )
    return (comment + "---\n".join(texts)).encode()


def kustomization(heading: str, **keys: Any) -> bytes:
    """A kustomization; `keys` are its fields."""
    return to_bytes([{"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", **keys}], heading)


def config_map(name: str, data: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, Any]:
    """A ConfigMap."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": dict(labels)},
        "data": dict(data),
    }


def labels(component: str, instance: str = "") -> dict[str, str]:
    """Labels of a component, in Kubernetes' own terms; `instance` is one of several."""
    return {
        "app.kubernetes.io/name": f"voxyard-{component}",
        "app.kubernetes.io/part-of": "voxyard",
        **({"app.kubernetes.io/instance": instance} if instance else {}),
    }
