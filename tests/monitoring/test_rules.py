"""Rules, rule tests and runbook are consistent: every alert is tested and documented."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import yaml
from alert_rules import (
    DCGM,
    PROMETHEUS,
    RULE_TESTS,
    RULES,
    RUNBOOK,
    alert_expectations,
    alerts,
    apart,
    groups,
    rules,
    run,
)

from fleet.runs.config import flags_of
from voxyard.cli import voxyard
from voxyard.host.xid_catalog import CATALOG, Severity, numbers

SEVERITIES = {"critical", "warning", "info", "none"}
ASKED_FOR = """GpuUtilizationLow GpuWorkSmall DataGpuUtilizationLow WorkloadDown Watchdog
TrainingStalled TrainingInputBound
TrainingStepTimeUnstable TrainingLossNotFinite BarkQueueGrowing BarkChunksFailing BarkWorkersDown
BarkChunksRetried BarkWorkerWaits
BarkSlowerThanRealTime GpuLost GpuXidCritical GpuXidWarning GpuEccUncorrectable GpuRowRemapFailure GpuRowRemapPending
GpuThermalSlowdown GpuPowerBrake GpuTemperatureHigh GpuMemoryNearLimit PcieLinkDowngraded TrainingPairLinkSlow
HostDiskFilling HostMemoryLow ExporterDown NodeExporterDown ExporterCollectFailing ExporterCollectStale
ConfigurationDrift ClockSkew GpuMissing PcieLinkSlow HostPressure
GpuNvlinkErrors GpuRetiredPages GpuRecoveryNeeded PcieReplays NvmlErrors
GatewayDown GatewayNoServiceReady GatewayServiceDown GatewayUneven
StoreUnreachable StoreSlow ClaimsRunOut ShelfUnreachable ShelfFull ClusterHeadDown ClusterHostMissing
GpuPowerCapped GpuClocksLow GpuStranger TrainingCheckpointsLong TrainingValidationLong TrainingCrashLoop
TrainingLossDiverging TrainingLossFlat HostGone ServiceRestarting HostRebooting GpuFlapping
GpuBusyInPart TrainingSlowerThanBefore BarkSlowerThanBefore GpuNvlinksDown
TrainingPhaseSlow BarkSpeechFaulty GpuMemoryTemperatureHigh GpuEccCorrectedStorm GpuMigSwitchedOn
GpuFabricFailed HostMaintenance GpuOutOfWork
FirstSoundBudgetBurns FirstSoundBudgetErodes StreamsBudgetBurns
StreamsBudgetErodes DocumentsBudgetBurns DocumentsBudgetErodes"""
PARTS = ("Means", "Confirm", "Do", "Escalate")


def anchor(heading: str) -> str:
    """The anchor that a heading gets where Markdown is shown."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def sections() -> dict[str, str]:
    """The runbook's sections by heading."""
    parts = re.split(r"^## (.+)$", RUNBOOK.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {heading: body.split("\n# ")[0] for heading, body in zip(parts[1::2], parts[2::2], strict=True)}


def commands(section: str, part: str) -> list[str]:
    """The indented lines after a part's bold word."""
    body = re.split(r"^\*\*\w+:\*\*", section.partition(f"**{part}:**")[2], maxsplit=1, flags=re.MULTILINE)[0]
    return [line.strip() for line in body.splitlines() if line.startswith("    ")]


@pytest.mark.parametrize("file", [*RULES, DCGM], ids=lambda path: path.name)
def test_promtool_finds_no_fault_in_the_rules(promtool: str, file: Path) -> None:
    done = run(promtool, "check", "rules", "--lint=all", "--lint-fatal", file)
    assert done.returncode == 0, done.stdout


def test_promtool_finds_no_fault_in_the_configuration(promtool: str, tmp_path: Path) -> None:
    shutil.copytree(PROMETHEUS, tmp_path / "prometheus")
    shutil.copytree(PROMETHEUS / "rules", tmp_path / "prometheus/site")
    shutil.copy(DCGM, tmp_path / "prometheus/site/dcgm.yaml")
    for job in ("exporter", "trainer", "bark", "gateway", "node", "cluster-head", "cluster-worker", "custom", "dcgm"):
        target = tmp_path / f"prometheus/targets/{job}.yaml"
        target.parent.mkdir(exist_ok=True)
        target.write_text("- {targets: ['192.0.2.1:9410'], labels: {host: gpu-01}}\n")
    done = run(promtool, "check", "config", "--lint=all", "--lint-fatal", tmp_path / "prometheus/prometheus.yml")
    assert done.returncode == 0, done.stdout
    assert "WARNING" not in done.stdout


@pytest.mark.timeout(1200)  # minutes where the machine does much else
@pytest.mark.parametrize("file", RULE_TESTS, ids=lambda path: path.stem)
def test_the_rules_do_what_their_tests_say(promtool: str, file: Path, tmp_path: Path) -> None:
    done = run(promtool, "test", "rules", *apart(file, tmp_path))
    assert done.returncode == 0, done.stdout


def test_every_alert_that_is_asked_for_is_there() -> None:
    assert set(alerts()) == set(ASKED_FOR.split())


def test_every_alert_fires_in_one_test_and_does_not_in_another() -> None:
    fired = {each.alert for each in alert_expectations() if each.expected}
    quiet = {each.alert for each in alert_expectations() if not each.expected}
    assert fired == set(alerts())
    assert quiet == set(alerts()) - {"Watchdog"}  # which always fires
    assert next(rule["expr"] for rule in rules() if rule.get("alert") == "Watchdog") == "vector(1)"


def test_every_rule_test_evaluates_all_groups_in_a_fixed_order() -> None:
    """promtool takes groups that are not named in an order of its own, and what stands on them is a step behind."""
    for file in RULE_TESTS:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
        used = [(file.parent / name).resolve() for name in document["rule_files"]]
        assert sorted(document["group_eval_order"]) == sorted(groups(*used)), file
        assert set(RULES) <= set(used), file


@pytest.mark.parametrize("name", sorted(alerts()))
def test_an_alert_says_how_bad_what_with_its_value_and_where_to_read_on(name: str) -> None:
    alert = alerts()[name]
    notes = alert["annotations"]
    assert alert["labels"]["severity"] in SEVERITIES
    assert alert["labels"]["family"]
    assert notes["summary"].strip()
    assert not notes["summary"].endswith(".")
    assert re.search(r"\{\{ \$value\b", notes["description"])
    path, _, anchor_named = notes["runbook_url"].partition("#")
    assert path == "deploy/prometheus/runbook.md"
    assert anchor_named in {anchor(heading) for heading in sections()}


def test_the_runbook_has_a_section_for_each_alert_and_for_nothing_else() -> None:
    assert sorted(sections()) == sorted(alerts())


@pytest.mark.parametrize("name", sorted(alerts()))
def test_a_section_says_what_it_means_how_to_confirm_what_to_do_and_when_to_escalate(name: str) -> None:
    section = sections()[name]
    places = [section.find(f"**{part}:**") for part in PARTS]
    assert -1 < places[0] < places[1] < places[2] < places[3]
    assert commands(section, "Confirm")
    assert commands(section, "Do")


def test_the_runbooks_queries_are_promql(promtool: str, tmp_path: Path) -> None:
    queries = re.findall(r"promtool query instant \S+ '([^']+)'", RUNBOOK.read_text(encoding="utf-8"))
    assert len(queries) > 5
    document = {"groups": [{"name": "asked", "rules": [{"record": f"q{n}", "expr": q} for n, q in enumerate(queries)]}]}
    (tmp_path / "queries.yaml").write_text(yaml.safe_dump(document))
    done = run(promtool, "check", "rules", tmp_path / "queries.yaml")
    assert done.returncode == 0, done.stdout


def test_the_runbook_confirms_alerts_of_cards_by_series_that_dcgm_exporter_gives_too() -> None:
    """Those that it does not raise alone are confirmed by our exporter's."""
    own = {name for name in alerts() if "voxyard_gpu_" in " ".join(commands(sections()[name], "Confirm"))}
    assert own == {"GpuMissing", "GpuStranger", "TrainingStepTimeUnstable"}


def test_the_runbooks_links_lead_somewhere() -> None:
    text = RUNBOOK.read_text(encoding="utf-8")
    assert set(re.findall(r"\]\(#([\w-]+)\)", text)) <= {anchor(heading) for heading in sections()}


def test_the_runbooks_commands_are_those_of_a_deployed_host() -> None:
    """voxyard is in containers there; `fab train` takes each setting, and each command of voxyard is one."""
    text = RUNBOOK.read_text(encoding="utf-8")
    lines = [line.strip() for line in text.splitlines() if line.startswith("    ")]
    assert [line for line in lines if re.match(r"ssh (-t )?HOST ['\"]?voxyard ", line)] == []
    assigned = re.findall(r"--set (\S+?=\S*)", " ".join(lines))
    assert len(flags_of(assigned, {})) == len({each.partition("=")[0] for each in assigned}) > 8
    named = re.findall(r"(?:voxyard-exporter-1 |^)voxyard ([a-z]+)", "\n".join(lines), re.MULTILINE)
    assert {"monitor", "limits", "topology"} <= set(named) <= set(voxyard.entries)


def test_recording_rules_are_named_level_metric_operations() -> None:
    names = [rule["record"] for rule in rules(*RULES, DCGM) if "record" in rule]
    assert [name for name in names if not re.fullmatch(r"voxyard:[a-z][a-z0-9_]*:[a-z][a-z0-9_]*", name)] == []


def test_with_dcgm_exporter_one_file_more_gives_every_gpu_series_that_alerts_read() -> None:
    """What an alert of family gpu-… reads of a card is in the layer, and dcgm.yaml makes it too."""
    made = {rule["record"] for rule in rules(DCGM)}
    shipped = {rule["record"] for rule in rules() if "record" in rule}
    gpu_alerts = [rule for rule in alerts().values() if rule["labels"]["family"].startswith("gpu-")]
    read = {name for rule in gpu_alerts for name in re.findall(r"voxyard:gpu_\w+:\w+", rule["expr"])}
    assert read <= shipped
    means = {  # of the layer's
        "voxyard:gpu_utilization:ratio10m",
        "voxyard:gpu_pcie_link_slow:ratio10m",
        "voxyard:gpu_pcie_link_width:ratio",
        "voxyard:gpu_thermal_slowdown:ratio10m",
        "voxyard:gpu_power_brake:ratio10m",
    }
    assert read - means <= made
    own = {name for rule in gpu_alerts for name in re.findall(r"voxyard_gpu_\w+", rule["expr"])}
    # Which dcgm-exporter does not tell.
    assert own == {"voxyard_gpu_link_rank", "voxyard_gpu_out_of_work", "voxyard_gpu_recovery_action"}


@pytest.mark.parametrize(("alert", "severity"), [("GpuXidCritical", "critical"), ("GpuXidWarning", "warning")])
def test_the_xids_of_alerts_and_runbook_are_those_of_the_catalogue(alert: str, severity: Severity) -> None:
    expected = [CATALOG[number] for number in numbers(severity)]
    (listed,) = re.findall(r'xid=~"([\d|]+)"', alerts()[alert]["expr"])
    assert listed.split("|") == [str(each.number) for each in expected]
    rows = re.findall(r"^\| (\d+) \| (.+) \| (.+) \|$", sections()[alert], flags=re.MULTILINE)
    assert rows == [(str(each.number), each.meaning, each.action) for each in expected]
    assert alerts()[alert]["labels"]["severity"] == severity


def test_the_catalogue_knows_the_xids_that_matter() -> None:
    """Those that reset a GPU or a host in NVIDIA's catalogue are critical; a program's own faults wake nobody."""
    assert {46, 48, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 155, 158} <= set(numbers("critical"))
    assert {94, 144, 145, 146, 147, 148, 149, 150, 154} <= set(numbers("warning"))
    assert {8, 13, 31, 43, 45, 63, 69} <= set(numbers("info"))
    assert all(each.meaning and each.action and "|" not in each.meaning + each.action for each in CATALOG.values())


@pytest.mark.parametrize(
    ("test", "broken", "by"),
    [
        (
            "a wave of 90, 5, 90, 5 percent fires and stays",
            "avg_over_time(voxyard:gpu_utilization:ratio[10m])",
            "voxyard:gpu_utilization:ratio",
        ),
        (
            "a run that starts again begins anew",
            "unless on (job, instance) resets(voxyard_train_steps_total[15m]) > 0",
            "",
        ),
        (
            "a run that just started pages nobody",
            "and last_over_time(voxyard_train_steps_total[2m] offset 12m) > 0\n                or min_over_time",
            "or min_over_time",
        ),
        (
            "a Bark service that just started pages nobody",
            "and last_over_time(voxyard_workload_gpu_assigned[2m] offset 15m) == 1",
            "",
        ),
        (
            "an exporter that is paused for four minutes pages nobody",
            "> on (job, instance) group_left () 0.9 * max by (job, instance) (count_over_time(up[5m]))",
            "> 0",
        ),
        (
            "an idle host whose plan knows the trainer pages nobody",
            "and on (instance) last_over_time(voxyard:train_active:sum_last5m[1d]) > 0",
            "",
        ),
        (
            "a validation of half an hour that goes on is not stalled",
            "increase(voxyard_train_progress_total[10m])",
            "0 * up",
        ),
        ("a checkpoint of a quarter of an hour is not stalled", "warm_up|checkpoint|sample", "warm_up"),
        (
            "a validation of half an hour on an idle GPU pages nobody",
            "* on (job, instance) group_left () max by (job, instance) (voxyard:train_steps_time:ratio10m)",
            "",
        ),
        (
            "a GPU that was busier earlier in its run is named though nothing waits for data",
            "> 0.7 * max_over_time(voxyard:train_gpu_utilization:ratio10m[6h])",
            "",
        ),
        (
            "a gap of ten minutes pages nobody",
            "1200 - 30 * count_over_time((max by (job, instance) (time() - timestamp(up) < 120))[20m:30s]) > 120",
            "up > 2",
        ),
        (
            "a gap of half an hour pages nobody",
            "1200 - 30 * count_over_time((max by (job, instance) (time() - timestamp(up) < 120))[20m:30s]) > 120",
            "up > 2",
        ),
        (
            "a Bark GPU without a queue pages nobody",
            "or min_over_time(voxyard_bark_queue_depth[15m]) > 0",
            "or voxyard_bark_queue_depth >= 0",
        ),
        (
            "a GPU that is not there after a restart is missed and one that is lost is not missed twice",
            """              or
            0 * max by (instance) (voxyard_gpus_expected)
""",
            "",
        ),
        (
            "a PCIe link that is slow under load is named and that of an idle GPU is not",
            "voxyard:gpu_utilization:least10m > 0.3\n                or\n",
            "voxyard:gpu_utilization:least10m >= 0\n                or\n",
        ),
        (
            "slow workers are no hanging ones",
            "(increase(voxyard_bark_chunks_total[10m])) == 0",
            "(increase(voxyard_bark_chunks_total[10m])) >= 0",
        ),
        ("a slow disk is told without pressure counters", "node_procs_running > bool", "node_procs_running > bool 0 *"),
        (
            "a run that waits for its data from its start is told by that alone",
            "unless on (job, instance) voxyard:train_waiting:ratio10m\n            unless",
            "unless",
        ),
        ("cards whose NVLinks repeat single packets page nobody", 'kind=~"crc|effective"} > 900', 'kind="crc"} > 0'),
        (
            "calls that the driver refuses again and again are named",
            "unless on (job, instance) voxyard:gpu_up:bool == 0",
            "",
        ),
        (
            "a host that is short of something while its run waits is named",
            "voxyard:train_data_stall:ratio10m > 0.3\n                and on (job, instance, run)",
            "voxyard:train_data_stall:ratio10m > 0\n                and on (job, instance, run)",
        ),
        (
            "a program that starts again and again is named and a rollout or a reboot is not",
            "- on (instance) group_left () max by (instance) (resets(voxyard:host_uptime:seconds[1h]))",
            "+ 0",
        ),
        (
            "a host that reboots again and again is named and one that is updated is not",
            "resets(voxyard:host_uptime:seconds[6h])",
            "changes(node_boot_time_seconds[6h])",
        ),
        (
            "a gpu that comes and goes is named and one that is reset twice is not",
            "gpu_up:bool[1h]) >= 5",
            "gpu_up:bool[1h]) >= 4",
        ),
        (
            "a gateway without a service that is ready is named",
            'and on (instance) haproxy_backend_active_servers{job="gateway",proxy="ready"} > 0,',
            ",",
        ),
    ],
)
def test_the_rule_tests_see_what_is_broken(promtool: str, tmp_path: Path, test: str, broken: str, by: str) -> None:
    shutil.copytree(PROMETHEUS, tmp_path / "p")
    found = 0
    for file in (tmp_path / "p/rules").glob("*.yaml"):
        text = file.read_text(encoding="utf-8")
        found += text.count(broken)
        file.write_text(text.replace(broken, by), encoding="utf-8")
    assert found == 1
    (only,) = (file for file in (tmp_path / "p/tests").glob("*.yaml") if f"name: {test}\n" in file.read_text("utf-8"))
    document = yaml.safe_load(only.read_text(encoding="utf-8"))
    document["tests"] = [each for each in document["tests"] if each["name"] == test]
    assert len(document["tests"]) == 1
    only.write_text(yaml.safe_dump(document), encoding="utf-8")
    done = run(promtool, "test", "rules", *apart(only, tmp_path))
    assert done.returncode == 1, done.stdout
    assert "FAILED" in done.stdout
