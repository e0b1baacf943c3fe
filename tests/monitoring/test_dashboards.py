"""Grafana dashboards: equal to the code, follow the lint rules, show every exported metric."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from eventually import PATIENCE
from grafana_foundation_sdk.models.dashboard import Dashboard
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from series import serving

import build
from boards.document import PLAIN_VALUES, STEP, Document, documents
from boards.every import all_dashboards
from boards.layout import TITLES
from boards.lint import UNUSED
from boards.promql import Selector, expanded, selectors, variables
from voxyard.host.out_of_work import OutOfWork
from voxyard.service.documents.claims import SharedDocuments
from voxyard.service.http.metrics import DiskUsage, ServiceMetrics
from voxyard.speech.cluster.node_metrics import NodeMetrics
from voxyard.speech.pool.metrics import PoolMetrics
from voxyard.telemetry.configuration import (
    HASH_VARIABLE,
    ExpectedConfigurations,
    HostPlan,
    Maintenance,
    export_configuration,
)
from voxyard.telemetry.gpu_collector import GpuCollector
from voxyard.telemetry.sampler import Snapshot
from voxyard.telemetry.sick_gpus import SickGpus, SickPolicy
from voxyard.telemetry.workloads import TrainMetrics

ROOT = Path(__file__).parents[2]
GRAFANA = ROOT / "grafana"
BOARDS = documents(GRAFANA / "dashboards")
BY_UID = {str(board.body["uid"]): board for board in BOARDS}
RULE_FILES = sorted((ROOT / "deploy/prometheus/rules").glob("*.yaml"))
EXPORTING = {
    "service/http/metrics.py", "speech/cluster/node_metrics.py", "speech/pool/metrics.py", "telemetry/configuration.py",
    "telemetry/gpu_collector.py", "telemetry/input_metrics.py", "telemetry/sick_gpus.py", "telemetry/workloads.py",
}  # fmt: skip
"""The modules whose metrics `_exported` collects."""

each_board = pytest.mark.parametrize("board", BOARDS, ids=lambda board: str(board.title))


@pytest.fixture(scope="module")
def prometheus(prometheus_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real Prometheus that scrapes nothing."""
    with serving(prometheus_program, tmp_path_factory.mktemp("prometheus")) as address:
        yield address


def test_the_committed_dashboards_are_what_the_code_makes() -> None:
    assert build.main(["--check"]) == 0


@pytest.mark.parametrize("harm", ["changed", "missing", "left over"])
def test_the_check_fails_for_files_that_the_code_does_not_make(
    harm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build.main(["--to", str(tmp_path)])
    assert build.main(["--to", str(tmp_path), "--check"]) == 0

    if harm == "changed":
        (tmp_path / "fleet.json").write_text((tmp_path / "fleet.json").read_text().replace("Power", "Strength", 1))
    elif harm == "missing":
        (tmp_path / "fleet.json").unlink()
    else:
        (tmp_path / "old.json").write_text("{}")

    assert build.main(["--to", str(tmp_path), "--check"]) == 1
    assert ("old.json" if harm == "left over" else "fleet.json") in capsys.readouterr().err
    build.main(["--to", str(tmp_path)])
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == all_dashboards()


def test_there_are_the_four_dashboards() -> None:
    assert set(BY_UID) == set(TITLES)
    assert {board.title for board in BOARDS} == {f"voxyard / {title}" for title in TITLES.values()}


@each_board
def test_the_schema_of_grafanas_sdk_holds_everything_that_is_written(board: Document) -> None:
    read = Dashboard.from_json(deepcopy(dict(board.body)))

    assert (read.uid, read.title, read.editable) == (board.body["uid"], board.title, False)
    assert len(read.panels or ()) == len(board.panels) + len(board.rows)


@each_board
def test_prometheus_reads_every_query(board: Document, prometheus: str) -> None:
    refused = []
    for where, expr in board.queries():
        if (why := _refused(prometheus, expanded(expr, PLAIN_VALUES))) is not None:
            refused.append(f"{where}: {why}")

    assert refused == []
    assert _refused(prometheus, "sum by (") is not None


def _refused(address: str, expr: str) -> str | None:
    """Reason why a Prometheus refuses a query: it is parsed, and run on nothing."""
    body = urllib.parse.urlencode({"query": expr}).encode()
    try:
        for what in ("format_query", "query"):
            with urllib.request.urlopen(f"{address}/api/v1/{what}", body, timeout=PATIENCE) as answer:  # noqa: S310
                assert json.load(answer)["status"] == "success"
    except urllib.error.HTTPError as error:
        return f"{expr}: {error.read().decode()}"
    return None


@pytest.mark.parametrize("several", ["(gpu-01|gpu-02)", "gpu-01"])
def test_queries_stay_readable_whatever_is_chosen(several: str, prometheus: str) -> None:
    values = {**PLAIN_VALUES, "instance": several, "gpu": "(0|1)", "__rate_interval": "1m15s", "__interval": "864s"}

    refused = [_refused(prometheus, expanded(expr, values)) for board in BOARDS for _, expr in board.queries()]

    assert [each for each in refused if each] == []


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("up", [Selector("up")]),
        ('sum by (le) (rate(a_bucket{x="}",y!~"b|c"}[$__rate_interval]))', [
            Selector("a_bucket", (("x", "=", "}"), ("y", "!~", "b|c")), "$__rate_interval", ("rate", "sum")),
        ]),
        ("sum(a) by (me) / on (gpu) group_left (role) b offset 5m", [Selector("a", calls=("sum",)), Selector("b")]),
        ('{__name__="x"} > bool 0.9 * c:d:e', [Selector("", (("__name__", "=", "x"),)), Selector("c:d:e")]),
        ("a[5m:1m] # b", [Selector("a", range="5m:1m")]),
        ("quantile(0.5, a) == Inf unless 1h", [Selector("a", calls=("quantile",))]),
    ],
)  # fmt: skip
def test_the_selectors_of_an_expression_are_found(expression: str, expected: list[Selector]) -> None:
    assert list(selectors(expression)) == expected


@pytest.mark.parametrize("broken", ["sum(a", "a)", "a{b}", 'a{b="c"', "a[5m", "a{b='c", "a ; b"])
def test_an_expression_that_cannot_be_read_is_an_error(broken: str) -> None:
    with pytest.raises(ValueError, match=r"missing|too many|expected|syntax error at"):
        selectors(broken)


def test_a_variable_without_a_value_is_an_error() -> None:
    assert expanded("a{b=~'${job}|$job'}[$__interval]", PLAIN_VALUES) == "a{b=~'.+|.+'}[15s]"
    with pytest.raises(ValueError, match=r"\$rack has no value"):
        expanded("a{b=~'$rack'}", PLAIN_VALUES)


class _NoDriver:
    """A sampler that has read a host without GPUs."""

    snapshot = Snapshot(1.0, 1.0, True, 1.0, 0.1, (), {}, None, None, {})

    def age(self) -> float:
        return 0.0

    def stale_after(self) -> float:
        return 1.0


def _shared() -> SharedDocuments:
    return SharedDocuments(True, 0, {"gpu-02": 1})


def _exported(tmp_path: Path) -> dict[str, str]:
    """Name and type of every metric that voxyard exports, as its own collectors name them."""
    plan = tmp_path / "plan.yaml"
    plan.write_text("workloads: []\n")
    pool, service = CollectorRegistry(), CollectorRegistry()
    PoolMetrics(pool)
    ServiceMetrics(
        service, documents=dict, ended=dict, disk=lambda: DiskUsage(0, 0, 0), shelf=lambda: True, shared=_shared
    )
    service.register(NodeMetrics(SimpleNamespace(spec=SimpleNamespace(role="head"), joined=True)))  # type: ignore[arg-type]
    export_configuration(service, "bark", {HASH_VARIABLE: "0123456789ab"})
    collected: list[Metric] = [
        *GpuCollector(_NoDriver()).collect(),  # type: ignore[arg-type]
        *HostPlan(plan).collect(),
        *ExpectedConfigurations(tmp_path).collect(),
        *Maintenance(tmp_path).collect(),
        *SickGpus(OutOfWork(tmp_path / "out_of_work.json"), SickPolicy()).collect(),
        *TrainMetrics("run").registry.collect(),
        *pool.collect(),
        *service.collect(),
    ]
    return {f"{each.name}_total" if each.type == "counter" else each.name: each.type for each in collected}


def _read(name: str, types: dict[str, str]) -> str:
    """The metric to which a series belongs: a histogram's three kinds of series are one."""
    whole = re.sub(r"_(bucket|sum|count)$", "", name)
    return whole if types.get(whole) == "histogram" else name


def _rules() -> list[dict[str, Any]]:
    return [
        rule for path in RULE_FILES for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]
    ]


def _names(expr: str) -> set[str]:
    return {selector.metric for selector in selectors(expr)}


def test_every_metric_is_shown_or_watched_or_listed_as_unused(tmp_path: Path) -> None:
    types = _exported(tmp_path)
    recorded: dict[str, set[str]] = {}
    for rule in _rules():
        if "record" in rule:
            recorded.setdefault(rule["record"], set()).update(_names(rule["expr"]))
    reached = set().union(*(_names(rule["expr"]) for rule in _rules() if "alert" in rule))
    for board in BOARDS:
        reached |= set().union(*(_names(expr) for _, expr in board.queries()))
    while more := set().union(*(recorded.get(name, set()) for name in reached)) - reached:
        reached |= more  # a recording rule hands on what it reads only where somebody reads the rule

    used = {_read(name, types) for name in reached}

    assert len(types) > 60
    assert set(types) - used == set(UNUSED)
    assert all(len(reason.split()) > 3 for reason in UNUSED.values())


def test_dashboards_read_only_metrics_that_exist(tmp_path: Path) -> None:
    types = _exported(tmp_path)
    known = {*types, *(rule["record"] for rule in _rules() if "record" in rule), "up", "ALERTS"}

    unknown = {
        f"{where}: {name}"
        for board in BOARDS
        for where, expr in board.queries()
        for name in _names(expr)
        if _read(name, types) not in known
    }

    assert unknown == set()


def test_no_module_exports_metrics_without_being_known_here() -> None:
    runtime = ROOT / "runtime/voxyard"
    imported = re.compile(r"from prometheus_client[\w.]* import (\([^)]+\)|.+)")
    makes = re.compile(r"\b(Counter|Gauge|Histogram|Summary|Info|\w+MetricFamily)\b")
    found = set()
    for path in runtime.rglob("*.py"):
        text = path.read_text("utf-8")
        names = makes.findall(" ".join(imported.findall(text)))
        if any(re.search(rf"\b{name}\(", text) for name in names):
            found.add(path.relative_to(runtime).as_posix())

    assert found == EXPORTING


def test_each_dashboard_has_the_variables_it_needs() -> None:
    names = {uid: {each["name"] for each in board.variables} for uid, board in BY_UID.items()}
    common = {"datasource", "cluster", "job", "instance", "gpu"}

    assert names["voxyard-bark"] == common  # Bark has no training run
    assert {uid: found for uid, found in names.items() if uid != "voxyard-bark"} == {
        uid: {*common, "run"} | ({"price_kwh", "price_gpu_hour"} if uid == "voxyard-fleet" else set())
        for uid in TITLES
        if uid != "voxyard-bark"
    }


@each_board
def test_links_lead_to_all_other_dashboards_with_the_same_hosts_and_time(board: Document) -> None:
    links = board.body["links"]

    assert {link["url"].split("?")[0] for link in links} == {f"/d/{uid}" for uid in TITLES} - {
        f"/d/{board.body['uid']}"
    }
    for link in links:
        assert link["keepTime"], link
        assert {"datasource", "instance"} <= variables(link["url"]) <= {each["name"] for each in board.variables}
        assert "${instance:queryparam}" in link["url"]
        assert "placement" not in link  # or Grafana hides them in a menu


def test_the_row_of_a_gpu_leads_to_that_gpu() -> None:
    table = next(panel for panel in BY_UID["voxyard-fleet"].panels if panel.title == "GPUs now")
    (link,) = (
        each["value"][0]["url"]
        for override in table.body["fieldConfig"]["overrides"]
        for each in override["properties"]
        if each["id"] == "links"
    )

    assert link.startswith("/d/voxyard-gpu?")
    format_value = table.body["transformations"][-1]["options"]["renameByName"].values()
    assert set(re.findall(r"__data\.fields\.(\w+)", link)) == {"Host", "GPU"} <= set(format_value)


@each_board
def test_runs_and_alerts_are_annotated(board: Document) -> None:
    read = {each["name"]: _names(each["expr"]) for each in board.annotations}

    assert read == {
        "Runs started": {"voxyard_train_active"},
        "Runs ended": {"voxyard_train_active"},
        "Alerts": {"ALERTS"},
    }
    assert all(each["enable"] and each["datasource"]["uid"] == "$datasource" for each in board.annotations)


def test_panels_are_fed_by_dcgm_exporter_alone_or_say_that_they_are_not() -> None:
    """What a rule makes from dcgm-exporter's metrics has a colon; workloads tell of themselves with either exporter."""
    for board in BOARDS:
        for panel in board.panels:
            own = [
                any(name.startswith(("voxyard_gpu_", "voxyard_exporter_")) for name in _names(each.expr))
                for each in panel.targets
            ]
            assert all(own) == ("Only voxyard's exporter tells it" in panel.body["description"]), panel.title


def test_tables_show_only_columns_that_their_queries_have() -> None:
    for board in BOARDS:
        for panel in board.panels:
            if panel.kind != "table":
                continue
            renamed = panel.body["transformations"][-1]["options"]["renameByName"]
            grouped = set().union(
                *(re.split(r", *", labels) for target in panel.targets
                  for labels in re.findall(r"\bby \(([^)]*)\)", target.expr))
            )  # fmt: skip
            values = {"Value", *(f"Value #{target.letter}" for target in panel.targets)}
            assert set(renamed) <= grouped | values, f"{board.title}, {panel.title}"


def test_grafana_is_provisioned_with_the_data_source_and_these_dashboards() -> None:
    (source,) = yaml.safe_load((GRAFANA / "provisioning/datasources/prometheus.yaml").read_text())["datasources"]
    (provider,) = yaml.safe_load((GRAFANA / "provisioning/dashboards/voxyard.yaml").read_text())["providers"]
    scraped = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())["global"]["scrape_interval"]

    assert (source["type"], source["isDefault"], source["access"]) == ("prometheus", True, "proxy")
    assert source["jsonData"]["timeInterval"] == scraped == f"{STEP}s"
    assert "secureJsonData" not in source
    assert (provider["type"], provider["allowUiUpdates"]) == ("file", False)
    assert provider["options"]["path"] == "/etc/voxyard/config/current/dashboards"
