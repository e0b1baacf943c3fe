"""Reader of dashboard JSON, for lint, preview and tests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STEP = 15
"""Scrape interval in seconds, as in the provisioned data source."""

PLAIN_VALUES = {
    "cluster": ".*", "job": ".+", "instance": ".+", "gpu": ".+", "run": ".+",
    "price_kwh": "0", "price_gpu_hour": "0",
    "__rate_interval": "1m", "__interval": "15s", "__range": "3h",
}  # fmt: skip
"""Variable values of Grafana when everything is selected."""


@dataclass(frozen=True)
class Target:
    """Query of a panel."""

    letter: str
    expr: str
    legend: str
    instant: bool


@dataclass(frozen=True)
class Panel:
    """Panel with queries; `body` is its JSON."""

    title: str
    kind: str
    targets: tuple[Target, ...]
    body: Mapping[str, Any]

    @property
    def unit(self) -> str:
        """Grafana unit of its values."""
        return str(self.body.get("fieldConfig", {}).get("defaults", {}).get("unit", ""))


@dataclass(frozen=True)
class Document:
    """Dashboard; `body` is its JSON."""

    title: str
    body: Mapping[str, Any]

    @classmethod
    def read(cls, text: str) -> Document:
        """Parse the text of a file."""
        body = json.loads(text)
        return cls(body["title"], body)

    @property
    def panels(self) -> tuple[Panel, ...]:
        """All panels, including those of collapsed rows; without the rows themselves."""
        return tuple(_panel(body) for body in _bodies(self.body.get("panels", ())) if body["type"] != "row")

    @property
    def rows(self) -> tuple[tuple[str, tuple[Panel, ...]], ...]:
        """Row titles with their panels."""
        found: list[tuple[str, list[Panel]]] = []
        for body in _bodies(self.body.get("panels", ())):
            if body["type"] == "row":
                found.append((body["title"], []))
            else:
                found[-1][1].append(_panel(body))
        return tuple((title, tuple(panels)) for title, panels in found)

    @property
    def variables(self) -> tuple[Mapping[str, Any], ...]:
        """JSON of the variables."""
        return tuple(self.body.get("templating", {}).get("list", ()))

    @property
    def annotations(self) -> tuple[Mapping[str, Any], ...]:
        """JSON of the annotations."""
        return tuple(self.body.get("annotations", {}).get("list", ()))

    def queries(self) -> Iterator[tuple[str, str]]:
        """All PromQL of panels, annotations and variables, with its location."""
        for panel in self.panels:
            for target in panel.targets:
                yield f"{self.title}, panel {panel.title}, query {target.letter}", target.expr
        for annotation in self.annotations:
            yield f"{self.title}, annotation {annotation['name']}", annotation["expr"]
        for variable in self.variables:
            if variable["type"] == "query":
                yield f"{self.title}, variable {variable['name']}", label_values(query_of(variable))[0]


def documents(directory: Path) -> tuple[Document, ...]:
    """Dashboards of a directory."""
    return tuple(Document.read(path.read_text("utf-8")) for path in sorted(directory.glob("*.json")))


def query_of(variable: Mapping[str, Any]) -> str:
    """Query of a variable, `label_values(SELECTOR, LABEL)`."""
    query = variable.get("query", "")
    return str(query["query"] if isinstance(query, dict) else query)


def label_values(query: str) -> tuple[str, str]:
    """Selector and label of `label_values(SELECTOR, LABEL)`. Raises ValueError for anything else."""
    if not (query.startswith("label_values(") and query.endswith(")")):
        raise ValueError(f"expected label_values(SELECTOR, LABEL), found {query}")
    selector, _, label = query.removeprefix("label_values(")[:-1].rpartition(",")
    if not selector.strip() or not label.strip().isidentifier():
        raise ValueError(f"expected label_values(SELECTOR, LABEL), found {query}")
    return selector.strip(), label.strip()


def _bodies(panels: Any) -> Iterator[Mapping[str, Any]]:
    for body in panels:
        yield body
        yield from body.get("panels", ())


def _panel(body: Mapping[str, Any]) -> Panel:
    targets = tuple(
        Target(each["refId"], each.get("expr", ""), each.get("legendFormat", ""), bool(each.get("instant")))
        for each in body.get("targets", ())
    )
    return Panel(body.get("title", ""), body["type"], targets, body)
