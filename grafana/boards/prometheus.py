"""HTTP client of the Prometheus query API."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class PrometheusError(Exception):
    """Prometheus does not answer, or rejected a query."""


@dataclass(frozen=True)
class Series:
    """Series: labels and (Unix time, value) in order."""

    labels: Mapping[str, str]
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Prometheus:
    """Prometheus server at `address`, such as http://127.0.0.1:9090."""

    address: str

    def instant(self, expression: str, moment: float) -> tuple[Series, ...]:
        """Instant query. Raises PrometheusError."""
        found = self._ask("query", {"query": expression, "time": f"{moment:.3f}"})
        if found["resultType"] == "scalar":
            return (Series({}, (_point(found["result"]),)),)
        return tuple(Series(each["metric"], (_point(each["value"]),)) for each in found["result"])

    def between(self, expression: str, start: float, end: float, step: float) -> tuple[Series, ...]:
        """Range query with a step in seconds. Raises PrometheusError."""
        asked = {"query": expression, "start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:g}"}
        found = self._ask("query_range", asked)
        return tuple(
            Series(each["metric"], tuple(_point(point) for point in each["values"])) for each in found["result"]
        )

    def _ask(self, what: str, fields: Mapping[str, str]) -> Any:
        body = urllib.parse.urlencode(fields).encode()
        request = urllib.request.Request(f"{self.address.rstrip('/')}/api/v1/{what}", body)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            raise PrometheusError(f"{fields['query']}: {_reason(text)}") from error
        except (OSError, ValueError, KeyError) as error:
            raise PrometheusError(
                f"{self.address} does not answer as Prometheus: {error}: check --prometheus"
            ) from error


def _point(found: Any) -> tuple[float, float]:
    return float(found[0]), float(found[1])


def _reason(text: str) -> str:
    try:
        return str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        return text[:200]
