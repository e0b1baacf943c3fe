"""Kustomize base, the same in every cluster: scrapes, network policies, the repository's rules and dashboards."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from fleet.errors import FleetError
from fleet.monitoring.render import with_runbook
from fleet.render.documents import KUSTOMIZATION, config_map, labels, text_of, to_bytes

BASE, RULES, DASHBOARDS = "deploy/kubernetes/base", "deploy/prometheus/rules", "grafana/dashboards"
DASHBOARD_LABEL = {"grafana_dashboard": "1"}  # by which the sidecar of Grafana's chart finds them
_HEADING = "Written by fab render --to kubernetes; the same in every cluster. Needs the Prometheus Operator."


def base_files(root: Path, runbook_url: str | None = None) -> Mapping[str, bytes]:
    """Files of the kustomize base by name, from the repository `root`; alerts lead to `runbook_url`.

    Raises FleetError.
    """
    shipped = {name: text_of(root / BASE / name).encode() for name in ("monitors.yaml", "network.yaml", KUSTOMIZATION)}
    return shipped | {
        "rules.yaml": to_bytes([_rule(path, runbook_url) for path in _files(root / RULES, "*.yaml")], _HEADING),
        "dashboards.yaml": to_bytes([_dashboard(path) for path in _files(root / DASHBOARDS, "*.json")], _HEADING),
    }


def _rule(path: Path, runbook_url: str | None) -> dict[str, Any]:
    document = yaml.load(with_runbook(text_of(path).encode(), runbook_url), yaml.CSafeLoader)
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": f"voxyard-{path.stem.replace('_', '-')}", "labels": labels("rules")},
        "spec": {"groups": document["groups"]},
    }


def _dashboard(path: Path) -> dict[str, Any]:
    name, labelled = f"voxyard-dashboard-{path.stem}", labels("dashboards") | DASHBOARD_LABEL
    return config_map(name, {path.name: text_of(path)}, labelled)


def _files(folder: Path, pattern: str) -> list[Path]:
    found = sorted(folder.glob(pattern))
    if not found:
        raise FleetError(f"{folder}: no {pattern}: check that the repository is complete")
    return found
