"""Monitoring objects, the same in every cluster: scrapes, alert rules and dashboards of the repository."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from fleet.errors import FleetError
from fleet.monitoring.render import with_runbook
from fleet.render.documents import KUSTOMIZATION, config_map, kustomization, labels, to_bytes

GROUP = "monitoring.coreos.com/v1"
PROMETHEUS, RULES, DASHBOARDS = "deploy/prometheus/prometheus.yml", "deploy/prometheus/rules", "grafana/dashboards"
DASHBOARD_LABEL = {"grafana_dashboard": "1"}  # by which the sidecar of Grafana's chart finds them
_ENDPOINTS = {"PodMonitor": "podMetricsEndpoints", "ServiceMonitor": "endpoints"}
_HEADING = "Written by fab render --to kubernetes; the same in every cluster. Needs the Prometheus Operator."


def base_files(root: Path, runbook_url: str | None = None) -> Mapping[str, bytes]:
    """Files of the kustomize base by name, from the repository `root`; alerts lead to `runbook_url`.

    Raises FleetError.
    """
    scraped = yaml.safe_load(_text(root / PROMETHEUS))["global"]
    times = {"interval": scraped["scrape_interval"], "scrapeTimeout": scraped["scrape_timeout"]}
    files = {
        "monitors.yaml": to_bytes(
            [
                _monitor("PodMonitor", "exporter", "metrics", times),
                _monitor("PodMonitor", "trainer", "metrics", times),
                _monitor("PodMonitor", "cluster-head", "metrics", times),
                _monitor("PodMonitor", "cluster-worker", "metrics", times),
                _monitor("ServiceMonitor", "bark", "http", times),
            ],
            _HEADING,
        ),
        "rules.yaml": to_bytes([_rule(path, runbook_url) for path in _files(root / RULES, "*.yaml")], _HEADING),
        "dashboards.yaml": to_bytes([_dashboard(path) for path in _files(root / DASHBOARDS, "*.json")], _HEADING),
    }
    return files | {KUSTOMIZATION: kustomization(f"{_HEADING} Apply an overlay.", resources=list(files))}


def _relabelings(job: str) -> list[dict[str, Any]]:
    """The labels of Prometheus' own targets: rules join a workload and the GPUs of its host by `instance`."""
    return [
        {"action": "replace", "targetLabel": "job", "replacement": job},
        {"action": "replace", "sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "instance"},
    ]


def _monitor(kind: str, component: str, port: str, times: Mapping[str, str]) -> dict[str, Any]:
    """PodMonitor or ServiceMonitor of a component."""
    endpoint = {"port": port, "path": "/metrics", **times, "relabelings": _relabelings(component)}
    return {
        "apiVersion": GROUP,
        "kind": kind,
        "metadata": {"name": f"voxyard-{component}", "labels": labels(component)},
        "spec": {"selector": {"matchLabels": labels(component)}, _ENDPOINTS[kind]: [endpoint]},
    }


def _rule(path: Path, runbook_url: str | None) -> dict[str, Any]:
    document = yaml.safe_load(with_runbook(_text(path).encode(), runbook_url))
    name = f"voxyard-{path.stem.replace('_', '-')}"
    return {
        "apiVersion": GROUP,
        "kind": "PrometheusRule",
        "metadata": {"name": name, "labels": labels("rules")},
        "spec": {"groups": document["groups"]},
    }


def _dashboard(path: Path) -> dict[str, Any]:
    return config_map(
        f"voxyard-dashboard-{path.stem}", {path.name: _text(path)}, labels("dashboards") | DASHBOARD_LABEL
    )


def _files(folder: Path, pattern: str) -> list[Path]:
    found = sorted(folder.glob(pattern))
    if not found:
        raise FleetError(f"{folder}: no {pattern}: check that the repository is complete")
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise FleetError(f"{path}: cannot be read: {error.strerror}") from None
