"""Fleet dashboard: hosts, GPUs, workloads, and their faults."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard as models

from boards import layout
from boards.panels import (
    AMBER,
    GREEN,
    RED,
    Column,
    Level,
    Panel,
    Query,
    Row,
    stat_panel,
    states,
    table_panel,
    time_series,
)
from boards.queries import JOBS, alerts, assigned, gpu, host, rate, run
from voxyard.telemetry.causes import CAUSES, rank

HINTS = {"small_work", "validation", "small_kernels", "memory_bound"}  # by the nature of the run: nothing is broken
_GPU_NAME = "{{instance}} GPU {{gpu}}"
_TO_GPU = (
    f"/d/{layout.GPU}?${{datasource:queryparam}}&var-instance=${{__data.fields.Host}}&var-gpu=${{__data.fields.GPU}}"
    "&${__url_time_range}"
)
_BAD_FROM_1 = (Level(1, RED),)
_PRICES = {"price_kwh": "Price of a kWh", "price_gpu_hour": "Price of a GPU hour"}
UP = {0: ("down", RED), 1: ("up", GREEN)}
WHY = {0: ("not known: run voxyard profile", RED)} | {
    rank(cause): (cause.title, "blue" if cause.name in HINTS else RED) for cause in CAUSES
}
"""Causes by rank: the first that holds for a GPU is shown."""


def fleet() -> models.Dashboard:
    """Overview of all hosts; GPU rows link to GPU detail."""
    return layout.build_dashboard(
        layout.FLEET,
        "Every host, GPU and workload of the fleet: state, utilization, faults.",
        [_overview(), _gpus(), _load(), _workloads(), _cost(), _hosts(), _measuring()],
        {
            "job": JOBS,
            "instance": 'label_values(up{cluster=~"$cluster",job=~"$job"}, instance)',
            "gpu": f"label_values({host('voxyard:gpu_up:bool')}, gpu)",
            "run": f"label_values({host('train_active')}, run)",
        },
        _PRICES,
    )


def _overview() -> Row:
    gpus = gpu("voxyard:gpu_up:bool")
    return Row("At a glance", (
        stat_panel(
            "Alerts that fire",
            "Alerts of these hosts without the Watchdog. It is subtracted and not filtered out: without a Watchdog "
            "alerting does not work, and the panel shows no data rather than 0.",
            "none",
            Query(f"count({alerts()}) - count({alerts(_WATCHDOG)})"),
            *_BAD_FROM_1,
        ),
        stat_panel(
            "Targets that do not answer",
            "Scrape targets that are down. Trainers are left out: between runs nothing listens on their port; "
            "WorkloadDown takes that into account.",
            "none",
            Query(f"count({_ALWAYS_UP}) - sum({_ALWAYS_UP})"),
            *_BAD_FROM_1,
        ),
        stat_panel(
            "GPUs lost",
            "GPUs that an exporter has seen and for which the driver does not answer.",
            "none",
            Query(f"count({gpus}) - sum({gpus})"),
            *_BAD_FROM_1,
        ),
        stat_panel("GPUs up", "GPUs that answer.", "none", Query(f"sum({gpus})")),
        stat_panel(
            "Utilization of GPUs with work",
            "Mean over the GPUs assigned to a workload; unassigned GPUs are left out.",
            "percentunit",
            Query(f"avg({assigned(gpu('voxyard:gpu_utilization:ratio'))})"),
            Level(float("-inf"), RED), Level(0.4, AMBER), Level(0.7, GREEN),
            decimals=0,
        ),
        stat_panel(
            "Power",
            "Power draw of all GPUs.",
            "watt",
            Query(f"sum({gpu('voxyard:gpu_power:watts')})"),
        ),
        table_panel(
            "Firing alerts",
            "Firing alerts of the selected hosts, critical ones first, without the Watchdog; why, where the alert's "
            "name does not say it. The runbook describes the response.",
            "none",
            [Query(_BY_SEVERITY, "severity")],
            {
                "severity": Column("Severity", states=_SEVERITIES),
                "alertname": Column("Alert"),
                "instance": Column("Host"),
                "gpu": Column("GPU"),
                "run": Column("Run"),
                "title": Column("Why"),
                "job": Column("Job"),
            },
            height=6,
            sort="Severity",
        ),
    ))  # fmt: skip


def _gpus() -> Row:
    by = "max by (instance, gpu, uuid)"
    info = gpu("gpu_info")
    held = f"{gpu('workload_gpu_assigned')} == 1"
    return Row("GPUs", (
        table_panel(
            "GPUs now",
            "One row per GPU. A lost GPU keeps its row without measurements. Why: the first cause that holds for a GPU "
            "that waits or is slow. Lacks: how much of the utilization that its workload expects is missing, or of its "
            "highest clock where power, heat or a lock holds it down, all where it is lost; the worst first. A data "
            "GPU beside a model GPU that is busy enough lacks nothing. The host's name links to GPU detail.",
            "short",
            [
                Query(f"group by (instance, gpu, uuid, name, driver_version, cuda_version) ({info})"),
                Query(f"{by} ({gpu('voxyard:gpu_up:bool')})", "up"),
                Query(f"group by (instance, gpu, uuid, workload, role) ({held})"),
                Query(f"{by} ({gpu('voxyard:gpu_utilization:ratio')})", "utilization"),
                Query(_LACKS, "lacks"),
                Query(_WHY, "why"),
                Query(f"{by} ({gpu('voxyard:gpu_memory_used:ratio')})", "memory"),
                Query(f"{by} ({gpu('voxyard:gpu_power:ratio')})", "power"),
                Query(
                    f"{by} ({gpu('gpu_power_limit_watts')}) / {by} ({gpu('gpu_power_limit_default_watts')})", "limit"
                ),
                Query(f"{by} ({gpu('voxyard:gpu_temperature:celsius')})", "temperature"),
                Query(f"{by} ({gpu('voxyard:gpu_pcie_link_width:ratio')})", "link"),
            ],
            {
                "instance": Column("Host", link=_TO_GPU),
                "gpu": Column("GPU"),
                "name": Column("Model"),
                "up": Column("State", states=UP),
                "workload": Column("Workload"),
                "role": Column("Role"),
                "utilization": Column("Utilization", "percentunit"),
                "lacks": Column("Lacks", "percentunit", _LACKS_LEVELS),
                "why": Column("Why", states=WHY),
                "memory": Column("Memory", "percentunit"),
                "power": Column("Power ÷ limit", "percentunit"),
                "limit": Column("Limit ÷ default", "percentunit", (Level(float("-inf"), AMBER), Level(0.9, GREEN))),
                "temperature": Column("Temperature", "celsius", (Level(75, AMBER), Level(85, RED))),
                "link": Column("PCIe lanes ÷ possible", "percentunit", (Level(float("-inf"), AMBER), Level(1, GREEN))),
                "driver_version": Column("Driver"),
                "cuda_version": Column("CUDA"),
            },
            height=10,
            sort="Lacks",
        ),
        states(
            "GPUs up and lost",
            "Whether the driver answers for each GPU. A gap: the exporter itself did not answer.",
            "none",
            Query(f"{by} ({gpu('voxyard:gpu_up:bool')})", _GPU_NAME),
            UP,
            width=24,
            height=7,
        ),
    ))  # fmt: skip


def _load() -> Row:
    return Row("Load", (
        time_series(
            "Utilization by host",
            "Mean over the host's GPUs of the share of time in which a kernel ran, over 5 minutes.",
            "percentunit",
            Query(f"avg by (instance) ({gpu('voxyard:gpu_utilization:ratio')})", "{{instance}}"),
            top=1,
        ),
        time_series(
            "Utilization of GPUs with work",
            "Each assigned GPU, by workload and role.",
            "percentunit",
            Query(
                assigned(gpu("voxyard:gpu_utilization:ratio")),
                "{{instance}} GPU {{gpu}} · {{workload}} {{role}}",
            ),
            top=1,
        ),
        time_series(
            "Fullest GPU memory by host",
            "Device memory that processes hold ÷ memory of the card, of the host's fullest GPU.",
            "percentunit",
            Query(f"max by (instance) ({gpu('voxyard:gpu_memory_used:ratio')})", "{{instance}}"),
            top=1,
        ),
        time_series(
            "Hottest GPU by host",
            "Temperature of the host's hottest GPU. GpuTemperatureHigh fires above 85 °C.",
            "celsius",
            Query(f"max by (instance) ({gpu('voxyard:gpu_temperature:celsius')})", "{{instance}}"),
        ),
        time_series(
            "Power by host",
            "Power draw of the host's GPUs.",
            "watt",
            Query(f"sum by (instance) ({gpu('voxyard:gpu_power:watts')})", "{{instance}}"),
        ),
        time_series(
            "Power ÷ limit",
            "The host's GPU that is nearest to its power limit.",
            "percentunit",
            Query(f"max by (instance) ({gpu('voxyard:gpu_power:ratio')})", "{{instance}}"),
        ),
    ))  # fmt: skip


def _price_panel(title: str, description: str, amount: str, price: str) -> Panel:
    """Stat panel of an amount at a price; without one (0 ÷ 0 is no number) it says where to type it in."""
    query = Query(f"{amount} * ${price} / (${price} > bool 0)")
    return stat_panel(title, description, "none", query, decimals=2, nan=f"type in: {_PRICES[price]}")


def _cost() -> Row:
    kwh, paid, idle = map(_of_hosts, ("gpu_energy:kwh7d", "gpu_paid:hours7d", "gpu_idle:hours7d"))
    role = "{{instance}} {{role}}"
    return Row("What it costs", (
        stat_panel(
            "Energy in a week", "Of all GPUs that have a counter of their energy.", "kwatth", Query(f"sum({kwh})"),
            decimals=1,
        ),
        stat_panel("GPU hours in a week", "Of all GPUs, at work or not.", "h", Query(f"sum({paid})"), decimals=0),
        stat_panel(
            "Idle GPU hours in a week", "Hours in which no kernel ran, in parts of GPUs; those of lost GPUs too.", "h",
            Query(f"sum({idle})"), decimals=0,
        ),
        _price_panel("Cost of energy", "Of a week, at the price above.", f"sum({kwh})", "price_kwh"),
        _price_panel("Cost of GPUs", "Of a week, at the price above.", f"sum({paid})", "price_gpu_hour"),
        _price_panel(
            "Cost of idle GPUs", "Of a week, at the price above: a part of the cost of GPUs.", f"sum({idle})",
            "price_gpu_hour",
        ),
        time_series("Energy by role", "Of the week before, by host and role of the GPUs.", "kwatth", Query(kwh, role)),
        time_series("Idle GPU hours by role", "Of the week before; role none: no workload had them.", "h",
              Query(idle, role)),
        time_series(
            "Energy for a second of sound", "Of the GPUs of a speech pool, over an hour, waiting included.", "joule",
            Query(host("voxyard:bark_audio_joules:ratio1h"), "{{instance}}"),
        ),
        time_series(
            "GPU seconds for a second of sound", "Time of a pool's workers, over an hour.", "s",
            Query(host("voxyard:bark_audio_gpu_seconds:ratio1h"), "{{instance}}"),
        ),
    ))  # fmt: skip


def _of_hosts(rule: str) -> str:
    return f'voxyard:{rule}{{cluster=~"$cluster",instance=~"$instance"}}'


def _workloads() -> Row:
    return Row("Workloads", (
        states(
            "Expected workloads",
            "Workloads that a host's plan expects, and whether they answer. A trainer answers only while it trains: "
            "no answer between runs is no fault; WorkloadDown takes that into account.",
            "none",
            Query(_ANSWERED, _WORKLOAD),
            {0: ("silent", AMBER), 1: ("answers", GREEN)},
        ),
        states(
            "Configuration",
            "Whether a workload runs with the configuration that was deployed. A run has its own settings and is not "
            "in it; neither is a host to which nothing was deployed.",
            "none",
            Query(
                f"max by (instance, workload) ({_DRIFT})", "{{instance}} {{workload}}"
            ),
            {0: ("as deployed", GREEN), 1: ("differs", RED)},
        ),
        states(
            "Training runs",
            "1 while a run trains, 0 when it has ended; the series of a killed run ends.",
            "none",
            Query(f"max by (instance, run) ({run('train_active')})", "{{instance}} {{run}}"),
            {0: ("ended", "blue"), 1: ("trains", GREEN)},
        ),
        time_series(
            "Training speed",
            "Optimizer updates per second of each run, over 5 minutes.",
            "ops",
            Query(run("voxyard:train_steps:rate5m"), "{{instance}} {{run}}"),
        ),
        time_series(
            "Speech made by Bark",
            "Seconds of sound made per second, by host, over 5 minutes.",
            "short",
            Query(f"sum by (instance) ({host('voxyard:bark_audio_seconds:rate5m')})", "{{instance}}"),
        ),
    ))  # fmt: skip


def _hosts() -> Row:
    return Row("Hosts", (
        time_series(
            "Disk space available",
            "Share of each file system that is free, from node_exporter.",
            "percentunit",
            Query(host("voxyard:host_disk_available:ratio"), "{{instance}} {{mountpoint}}"),
            top=1,
        ),
        time_series(
            "Memory available",
            "Share of the host's memory that processes could still get, from node_exporter.",
            "percentunit",
            Query(host("voxyard:host_memory_available:ratio"), "{{instance}}"),
            top=1,
        ),
        time_series(
            "Pressure",
            "Share of 10 minutes in which something waited for processors, disks or memory of the host, from "
            "node_exporter. HostPressure fires above 50% where a run waits for its data.",
            "percentunit",
            Query(host("voxyard:host_pressure:ratio10m"), "{{instance}} {{resource}}"),
            top=1,
        ),
        time_series(
            "Clock ahead of Prometheus",
            "Clock of each host minus that of Prometheus, from node_exporter; below 0 it is behind. ClockSkew fires "
            "above 10 s and below -10 s.",
            "s",
            Query(host("voxyard:host_clock_skew:seconds"), "{{instance}}"),
        ),
    ))  # fmt: skip


def _measuring() -> Row:
    return Row("Exporter health", (
        states(
            "Exporters that reach the driver",
            "1 while the NVIDIA driver answers and the exporter collects. A gap: the exporter is down.",
            "none",
            Query(host("exporter_collect_success"), "{{instance}}"),
            {0: ("driver does not answer", RED), 1: ("good", GREEN)},
        ),
        time_series(
            "Age of the latest successful collection",
            "Time since the exporter last read all GPUs without an error: a sawtooth at the exporter's interval.",
            "s",
            Query(host("voxyard:exporter_news:age_seconds"), "{{instance}}"),
        ),
        time_series(
            "Collection duration",
            "Duration of the exporter's latest collection from all GPUs.",
            "s",
            Query(host("exporter_collect_duration_seconds"), "{{instance}}"),
        ),
        time_series(
            "NVML errors",
            "By function and return code. A call that a card does not support keeps returning an error.",
            "cps",
            Query(rate(host("exporter_nvml_errors_total")), "{{instance}} {{function}} {{code}}"),
        ),
    ))  # fmt: skip


_CAUSE = 'voxyard:cause:rank{cluster=~"$cluster",instance=~"$instance",gpu=~"$gpu"}'
_MODEL, _DATA, _NO_DATA = 'role="model"', 'role="data"', 'role!="data"'
_UNEXPLAINED = gpu("voxyard:workload_gpu_under_target:ratio", _NO_DATA)
_WHY = f"min by (instance, gpu, uuid) ({_CAUSE}) or 0 * max by (instance, gpu, uuid) ({_UNEXPLAINED})"
# A data GPU may idle: it matters only where the model's GPU lacks work too.
_TARGET = (
    f"({gpu('voxyard:workload_gpu_target:ratio', _NO_DATA)} or {gpu('voxyard:workload_gpu_target:ratio', _DATA)} "
    f"and on (job, instance, workload) {host('voxyard:workload_gpu_under_target:ratio', _MODEL)})"
)
_OF_TARGET = (
    f"max by (instance, gpu, uuid) ({gpu('voxyard:gpu_utilization:ratio10m')}) "
    f"/ on (instance, gpu, uuid) group_right () {_TARGET}"
)
_CLOCK_CAUSES = 'cause=~"thermal|power_brake|power_cap|clocks_locked"'
_HELD_DOWN = f'voxyard:cause:rank{{cluster=~"$cluster",instance=~"$instance",gpu=~"$gpu",{_CLOCK_CAUSES}}}'
_OF_CLOCK = (
    f"max by (instance, gpu, uuid) ({gpu('voxyard:gpu_clock:ratio10m')}) and on (instance, gpu, uuid) {_HELD_DOWN}"
)
_LOST_WITH_WORK = (
    f"max by (instance, gpu, uuid) ({gpu('workload_gpu_assigned')} == 1) "
    f"and max by (instance, gpu, uuid) ({gpu('voxyard:gpu_up:bool')}) == 0"
)
# `of` keeps the two apart, of which the worse is shown.
_LACKS = (
    f'max by (instance, gpu, uuid) (label_replace(clamp_min(1 - ({_OF_TARGET}), 0), "of", "target", "", "") '
    f'or label_replace(clamp_min(1 - ({_OF_CLOCK}), 0), "of", "clock", "", "")) or {_LOST_WITH_WORK}'
)
_LACKS_LEVELS = (Level(float("-inf"), GREEN), Level(0.001, AMBER), Level(0.25, RED))
_WATCHDOG = 'alertname="Watchdog"'
_NO_WATCHDOG = 'alertname!="Watchdog"'
_ALWAYS_UP = host("up", 'job!="trainer"')
_SEVERITIES = {3: ("critical", RED), 2: ("warning", AMBER), 1: ("info", "blue")}
_ALERT = "alertname, job, instance, gpu, run, title"
_BY_SEVERITY = " or ".join(
    f"max by ({_ALERT}) ({place} * " + alerts(f'{_NO_WATCHDOG},severity="{name}"') + ")"
    for place, (name, _) in _SEVERITIES.items()
)
_WORKLOAD = "{{instance}} {{workload}} {{role}}"
_EXPECTED = host("workload_expected")
_DRIFT = 'voxyard:configuration_drift:bool{cluster=~"$cluster",instance=~"$instance"}'
_ANSWERING = 'voxyard:workload_answering:count{cluster=~"$cluster",instance=~"$instance"}'
# Both 1 and 0 are products: otherwise there would be two series, with and without a metric name.
_ANSWERED = (
    f"max by (instance, workload, role) (1 * {_EXPECTED} and on (instance, workload) {_ANSWERING} or 0 * {_EXPECTED})"
)
