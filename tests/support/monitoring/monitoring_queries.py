"""All queries of dashboards and rules, in the form that Prometheus receives."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

ROOT = Path(__file__).resolve().parents[3]
DASHBOARDS = ROOT / "grafana" / "dashboards"
RULES = ROOT / "deploy" / "prometheus" / "rules"
PRICES = {"price_kwh": "0.25", "price_gpu_hour": "2"}  # typed in by a reader
EVERYTHING = PRICES | {
    "cluster": ".*",
    "job": ".+",
    "instance": ".+",
    "gpu": ".+",
    "run": ".+",
}  # what `All` stands for
_LABEL_VALUES = re.compile(r"label_values\((.+), *(\w+)\)")

Kind = Literal["range", "instant", "variable", "annotation"]


@dataclass(frozen=True)
class Query:
    """A query and where it stands."""

    dashboard: str
    title: str
    expr: str
    kind: Kind

    def __str__(self) -> str:
        return f"{self.dashboard}: {self.title}: {self.expr[:60]}"


def dashboard_queries() -> list[Query]:
    """Those of panels, variables and annotations. Raises AssertionError where there are no dashboards."""
    found: list[Query] = []
    for file in sorted(DASHBOARDS.glob("*.json")):
        board = json.loads(file.read_text(encoding="utf-8"))
        found += [
            Query(file.stem, f"${each['name']}", str(each["query"]["query"]), "variable")
            for each in board["templating"]["list"]
            if each["type"] == "query"
        ]
        found += [Query(file.stem, each["name"], each["expr"], "annotation") for each in board["annotations"]["list"]]
        for panel in _panels(board["panels"]):
            found += [
                Query(file.stem, panel["title"], each["expr"], "range" if each.get("range") else "instant")
                for each in panel.get("targets", [])
            ]
    assert found, f"{DASHBOARDS} holds no dashboards: make them with grafana/build.py"
    return found


def rules(kind: Literal["alert", "record"]) -> list[str]:
    """Names of all alerts, or of all recorded series, sorted; a name that two rules make is there once."""
    documents = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in sorted(RULES.glob("*.yaml"))]
    every = [rule for document in documents for group in document["groups"] for rule in group["rules"]]
    return sorted({rule[kind] for rule in every if kind in rule})


def filled(expression: str, scrape_seconds: float, values: Mapping[str, str] = EVERYTHING) -> str:
    """With Grafana's variables put in; a rate's interval is four scrapes, as Grafana makes it."""
    step = f"{round(scrape_seconds * 1000)}ms"
    every = {**values, "__rate_interval": f"{round(scrape_seconds * 4000)}ms", "__interval": step}
    text = re.sub(r"\$\{?(\w+)\}?", lambda found: every[found[1]], expression)
    assert "$" not in text, text
    return text


def label_values(query: str) -> tuple[str, str]:
    """Selector and label of `label_values(SELECTOR, LABEL)`."""
    found = _LABEL_VALUES.fullmatch(query)
    assert found is not None, f"not label_values(SELECTOR, LABEL): {query}"
    return found[1], found[2]


def _panels(panels: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for panel in panels:
        yield panel
        yield from _panels(panel.get("panels") or [])
