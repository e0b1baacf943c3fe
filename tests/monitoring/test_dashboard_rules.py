"""Dashboard lint: the dashboards follow Grafana's rules and ours; each rule detects its violation."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from boards.document import Document, documents
from boards.lint import EXCLUSIONS, RULES, findings, used_exclusions

BOARDS = documents(Path(__file__).parents[2] / "grafana/dashboards")
BY_UID = {str(board.body["uid"]): board for board in BOARDS}

each_board = pytest.mark.parametrize("board", BOARDS, ids=lambda board: str(board.title))


@each_board
def test_a_dashboard_keeps_every_rule(board: Document) -> None:
    assert [str(finding) for finding in findings(board)] == []


def _panel(body: dict[str, Any], kind: str = "timeseries") -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in body["panels"] if each["type"] == kind)
    return found


def _asks(expr: str) -> Callable[[dict[str, Any]], None]:
    def change(body: dict[str, Any]) -> None:
        _panel(body)["targets"][0]["expr"] = expr

    return change


def _variable(name: str, **changes: Any) -> Callable[[dict[str, Any]], None]:
    def change(body: dict[str, Any]) -> None:
        next(each for each in body["templating"]["list"] if each["name"] == name).update(changes)

    return change


def _of_panel(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda body: _panel(body).update(changes)


def _of_values(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda body: _panel(body)["fieldConfig"]["defaults"].update(changes)


def _without_variable(name: str) -> Callable[[dict[str, Any]], None]:
    def change(body: dict[str, Any]) -> None:
        body["templating"]["list"] = [each for each in body["templating"]["list"] if each["name"] != name]

    return change


HOST = 'cluster=~"$cluster",job=~"$job",instance=~"$instance"'
HARM: tuple[tuple[str, Callable[[dict[str, Any]], None]], ...] = (
    ("template-datasource-rule", _without_variable("datasource")),
    ("template-datasource-rule", _variable("datasource", label="Source")),
    ("template-datasource-rule", _variable("datasource", query="loki")),
    ("template-cluster-rule", _without_variable("cluster")),
    ("template-cluster-rule", _variable("cluster", allValue=".+")),  # a Prometheus of one's own has no such label
    ("template-job-rule", _without_variable("job")),
    ("template-job-rule", _variable("job", allValue=".*")),
    ("template-job-rule", _variable("job", datasource={"type": "prometheus", "uid": "fixed"})),
    ("template-instance-rule", _without_variable("instance")),
    ("template-instance-rule", _variable("instance", multi=False)),
    ("template-label-promql-rule", _variable("gpu", query="label_values(gpu)")),
    ("template-label-promql-rule", _variable("gpu", query="label_values(voxyard_gpu_up{gpu=, gpu)")),
    ("template-on-time-change-reload-rule", _variable("job", refresh=1)),
    ("template-used-rule", lambda body: body["templating"]["list"].append({"name": "rack", "type": "custom"})),
    ("template-used-rule", _asks(f"voxyard_gpu_up{{{HOST},rack=~'$rack'}}")),
    ("panel-datasource-rule", _of_panel(datasource={"type": "prometheus", "uid": "fixed"})),
    ("panel-title-description-rule", _of_panel(title="")),
    ("panel-title-description-rule", _of_panel(description="")),
    ("panel-units-rule", _of_values(unit="")),
    ("panel-units-rule", _of_values(unit="furlongs")),
    ("panel-no-targets-rule", _of_panel(targets=[])),
    ("panel-gaps-rule", _of_values(custom={"spanNulls": True})),
    ("panel-gaps-rule", _of_values(custom={"spanNulls": 3600})),
    ("panel-gaps-rule", _of_values(noValue="0")),
    ("panel-now-rule", lambda body: _panel(body, "stat")["targets"][0].update(instant=False, range=True)),
    ("target-promql-rule", _asks("sum(")),
    ("target-promql-rule", _asks("sum(voxyard_gpu_up")),
    ("target-promql-rule", _asks("voxyard_gpu_up{gpu='0'")),
    ("target-promql-rule", _asks("")),
    ("target-truth-rule", _asks(f"voxyard_gpu_up{{{HOST}}} or vector(0)")),
    ("target-truth-rule", _asks(f"voxyard_gpu_up{{{HOST}}} or on () vector (0)")),
    ("target-truth-rule", _asks(f"absent(voxyard_gpu_up{{{HOST}}})")),
    ("target-rate-interval-rule", _asks(f"rate(voxyard_gpu_busy_seconds_total{{{HOST}}}[5m])")),
    ("target-rate-interval-rule", _asks(f"sum(increase(voxyard_gpu_busy_seconds_total{{{HOST}}}[$__range]))")),
    ("target-cluster-rule", _asks('voxyard_gpu_up{job=~"$job",instance=~"$instance"}')),
    ("target-job-rule", _asks('voxyard_gpu_up{cluster=~"$cluster",instance=~"$instance"}')),
    ("target-job-rule", _asks('voxyard_gpu_up{cluster=~"$cluster",job="$job",instance=~"$instance"}')),
    ("target-instance-rule", _asks('voxyard_gpu_up{cluster=~"$cluster",job=~"$job"}')),
    (
        "target-instance-rule",
        _asks(f"voxyard_gpu_up{{{HOST}}} and on (instance) voxyard_gpu_info{{cluster=~'$cluster',job=~'$job'}}"),
    ),
    ("target-optional-matcher-rule", _asks('ALERTS{alertstate="firing"}')),
    ("target-counter-agg-rule", _asks(f"voxyard_gpu_busy_seconds_total{{{HOST}}}")),
    ("target-counter-agg-rule", _asks(f"avg_over_time(voxyard_gpu_busy_seconds_total{{{HOST}}}[$__rate_interval])")),
    ("target-histogram-rule", _asks(f"rate(voxyard_bark_batch_size_bucket{{{HOST}}}[$__rate_interval])")),
    ("uneditable-dashboard-rule", lambda body: body.update(editable=True)),
    ("identity-rule", lambda body: body.update(uid="")),
    ("identity-rule", lambda body: _panel(body).update(id=_panel(body, "stat")["id"])),
    ("identity-rule", lambda body: body["panels"].append({**body["panels"][-1], "id": 999})),
)  # fmt: skip


@pytest.mark.parametrize(("rule", "harm"), HARM, ids=[f"{rule} {at}" for at, (rule, _) in enumerate(HARM)])
def test_a_rule_finds_what_breaks_it(rule: str, harm: Callable[[dict[str, Any]], None]) -> None:
    body = deepcopy(dict(BY_UID["voxyard-fleet"].body))
    assert findings(Document(body["title"], body)) == ()

    harm(body)

    assert rule in {finding.rule for finding in findings(Document(body["title"], body))}


def test_every_rule_was_broken_once() -> None:
    assert {rule for rule, _ in HARM} == set(RULES)


def test_every_exclusion_is_needed_and_says_why() -> None:
    needed = set().union(*(used_exclusions(board) for board in BOARDS))

    assert {(each.rule, each.of) for each in EXCLUSIONS} == needed
    assert all(len(each.reason.split()) > 5 for each in EXCLUSIONS)
    assert len({(each.rule, each.of) for each in EXCLUSIONS}) == len(EXCLUSIONS)
