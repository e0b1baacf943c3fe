"""Every query of every panel, variable, annotation and rule returns data of real programs."""

from __future__ import annotations

import math

import pytest
from fast_clock import FACTOR, SCRAPE_SECONDS
from monitoring_programs import Result
from monitoring_queries import Query, dashboard_queries, filled, label_values, rules
from proof_run import Proof

pytestmark = pytest.mark.timeout(1200)


def finite(result: Result) -> list[float]:
    """All finite values of an answer."""
    pairs = [pair for each in result for pair in (each["values"] if "values" in each else [each["value"]])]
    return [float(value) for _, value in pairs if math.isfinite(float(value))]


@pytest.mark.parametrize("query", dashboard_queries(), ids=str)
def test_a_query_of_a_dashboard_returns_data(proof: Proof, query: Query) -> None:
    expression = filled(query.expr, SCRAPE_SECONDS)
    if query.kind == "variable":
        selector, label = label_values(expression)
        series = proof.server.ask("series", **{"match[]": selector, "start": proof.start, "end": proof.end})
        assert series
        # A Prometheus by itself has no label of its cluster: all that it has is one.
        assert label == "cluster" or [each[label] for each in series if each.get(label)]
    elif query.kind == "instant":
        assert finite(proof.server.query(expression, proof.steady))
    else:
        assert finite(proof.server.query_range(expression, proof.start, proof.end))


def test_every_rule_is_evaluated_without_an_error(proof: Proof) -> None:
    found = [rule for group in proof.server.ask("rules")["groups"] for rule in group["rules"]]
    assert sorted({rule["name"] for rule in found}) == sorted({*rules("alert"), *rules("record")})
    assert [(rule["name"], rule.get("lastError")) for rule in found if rule["health"] != "ok"] == []


NOT_HERE = {
    "voxyard:bark_cause:rank",
    "voxyard:bark_worker_real_time_factor:best",
    "voxyard:bark_worker_real_time_factor:median1d",
    "voxyard:bark_worker_real_time_factor:ratio10m",
    "voxyard:bark_worker_slower:ratio30m",
    "voxyard:gateway_load:ratio",
    "voxyard:gateway_ready:ratio30m",
    "voxyard:gateway_requests:increase30m",
    "voxyard:gateway_cards:count",
    "voxyard:gpu_power_limit_policy:ratio",
    "voxyard:host_cpu_clock:ratio",
    "voxyard:host_cpu_clock:ratio10m",
    "voxyard:host_maintenance:end_seconds",
    "voxyard:probed:bool",
    "voxyard:run_second_cause:rank",
    "voxyard:scrape_gap:seconds20m",
    "voxyard:store_slow:seconds",
    "voxyard:train_cpu_throttled:ratio5m",
    "voxyard:train_first_loss:p95_30m",
    "voxyard:train_gpu_busy:ratio10m",
    "voxyard:train_gpu_in_part:ratio10m",
    "voxyard:phase_cause:rank",
    "voxyard:train_phase_slow:ratio",
    "voxyard:train_phase_usual:seconds",
    "voxyard:train_saving:ratio1h",
    "voxyard:slower_cause:rank",
    "voxyard:train_shape_step:best",
    "voxyard:train_shape_step:median1d",
    "voxyard:train_slower:ratio30m",
    "voxyard:train_slowness:ratio10m",
    "voxyard:train_staging_late:ratio5m",
    "voxyard:train_staging_next:ratio10m",
    "voxyard:train_validating:ratio6h",
}
"""Recorded only where Prometheus is away, the data stage late, speech short of cores, a site saves power, a quota of
cores holds, a GPU is full, a gateway busy, a host has clocks of cores, is being worked on or is asked by probes, a
database is slow, or later."""


@pytest.mark.parametrize("name", sorted({*rules("record")} - NOT_HERE))
def test_every_recorded_series_has_data(proof: Proof, name: str) -> None:
    assert finite(proof.server.query_range(name, proof.start, proof.end))


def test_the_clock_of_the_rules_is_the_only_thing_that_is_faster(proof: Proof) -> None:
    groups = {each["name"]: each["interval"] * FACTOR for each in proof.server.ask("rules")["groups"]}
    slower = {"voxyard-layer-budgets", "voxyard-layer-cost"}  # which look back for weeks
    assert {name: seconds for name, seconds in groups.items() if seconds != 15} == dict.fromkeys(slower, 120)
    assert SCRAPE_SECONDS * FACTOR == 15
