"""YAML documents of Kubernetes: templates with values, deterministic text, long strings as blocks."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from fleet.errors import FleetError

KUSTOMIZATION = "kustomization.yaml"
Document = Mapping[str, Any]
_PLACE = re.compile(r"\$\{([a-z_]+)\}")
_OTHERWISE = r"(?:[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|0o[0-7]+|[ynYN])$"


class _Dumper(yaml.CSafeDumper):
    """YAML without anchors; strings of several lines are literal blocks."""

    def ignore_aliases(self, data: Any) -> bool:
        """No anchors: kustomize and people read each object alone."""
        return True

    def represent_text(self, data: str) -> yaml.Node:
        """A string; a block where it has several lines."""
        return self.represent_scalar("tag:yaml.org,2002:str", data, style="|" if "\n" in data else None)


_Dumper.add_representer(str, _Dumper.represent_text)
# What is no string for kubectl and kustomize is quoted: 1e5, 08, y, and a hash such as 12345678e123.
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(_OTHERWISE), list("-+.0123456789ynYN"))


def to_bytes(documents: Sequence[Document], heading: str) -> bytes:
    """Documents of one file; `heading` is its first comment."""
    comment = "".join(f"# {line}".rstrip() + "\n" for line in heading.splitlines())
    texts = (
        yaml.dump(dict(each), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120) for each in documents
    )
    return (comment + "---\n".join(texts)).encode()


def kustomization(heading: str, **keys: Any) -> bytes:
    """A kustomization; `keys` are its fields, without those that are empty."""
    given = {key: value for key, value in keys.items() if value}
    return to_bytes([{"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", **given}], heading)


def filled(template: Path, values: Mapping[str, Any]) -> list[Document]:
    """Documents of a template with the values in the place of ${name}.

    A key whose value is None is left out, a list in a list becomes a part of it. Raises FleetError.
    """
    return [_filled(each, values, template) for each in yaml.load_all(text_of(template), yaml.CSafeLoader)]


def _filled(node: Any, values: Mapping[str, Any], template: Path) -> Any:
    if isinstance(node, dict):
        made = {key: _filled(each, values, template) for key, each in node.items()}
        return {key: each for key, each in made.items() if each is not None}
    if isinstance(node, list):
        return list(_spliced(_filled(each, values, template) for each in node))
    if not isinstance(node, str):
        return node
    if missing := [name for name in _PLACE.findall(node) if name not in values]:
        raise FleetError(f"{template}: no value is known for {', '.join(missing)}: check that the repository is whole")
    whole = _PLACE.fullmatch(node)
    return values[whole[1]] if whole else _PLACE.sub(lambda found: str(values[found[1]]), node)


def _spliced(items: Iterator[Any]) -> Iterator[Any]:
    for each in items:
        if isinstance(each, list):
            yield from each
        elif each is not None:
            yield each


def config_map(name: str, data: Mapping[str, str], labelled: Mapping[str, str]) -> dict[str, Any]:
    """A ConfigMap."""
    metadata = {"name": name, "labels": dict(labelled)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}


def versioned_map(name: str, data: Mapping[str, str], component: str) -> dict[str, Any]:
    """A ConfigMap with a hash of its data in its name: other data start new pods, and no pod sees another's."""
    digest = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:10]
    return config_map(f"{name}-{digest}", data, labels(component)) | {"immutable": True}


def name_of(document: Document) -> str:
    """Name of an object."""
    return str(document["metadata"]["name"])


def labels(component: str) -> dict[str, str]:
    """Labels of a component, in Kubernetes' own terms."""
    return {"app.kubernetes.io/name": f"voxyard-{component}", "app.kubernetes.io/part-of": "voxyard"}


def text_of(path: Path) -> str:
    """Text of a file of the repository. Raises FleetError."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise FleetError(f"{path}: cannot be read: {error.strerror}") from None
