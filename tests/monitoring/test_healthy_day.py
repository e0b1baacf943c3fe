"""24 simulated hours of a healthy host with training, speech, idle time and maintenance: no alert fires."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from alert_rules import RULES, run
from needed_rules import groups_of, needed

STEP = 60  # seconds: half as many as of 30, and rules that hold for scrapes a minute apart
STEPS = 24 * 3600 // STEP
HOST = 'instance="gpu-01"'
DATA, MODEL, BARK = (f'gpu="{index}",uuid="GPU-{name}"' for index, name in enumerate(("data", "model", "bark")))
CARDS = (DATA, MODEL, BARK)

Value = float | None  # None: no sample


def hours(step: int) -> float:
    return step * STEP / 3600


def training(step: int) -> str | None:
    """Two runs: 1 h to 9 h, and 10 h to 21 h, each of which says at its end that it is over."""
    for run_name, begin, end in (("first", 1, 9), ("second", 10, 21)):
        if begin <= hours(step) < end:
            return run_name
    return None


def since_start(step: int) -> float:
    """Minutes since the run began."""
    return (hours(step) - (1 if training(step) == "first" else 10)) * 60


def speaking(step: int) -> bool:
    """Listeners from 7 h to 20 h, in bursts of 12 minutes every half hour."""
    return 7 <= hours(step) < 20 and hours(step) * 60 % 30 < 12


class Day:
    """The samples of each series, one a step."""

    def __init__(self) -> None:
        self.random = random.Random(6)
        self.samples: dict[str, list[Value]] = {}

    def gauge(self, series: str, value: Callable[[int], Value]) -> None:
        """A value a step."""
        self.samples[series] = [value(step) for step in range(STEPS)]

    def counter(
        self, series: str, rate: Callable[[int], Value], *, reborn: Callable[[int], bool] | None = None
    ) -> None:
        """The integral of a rate (per second); it begins anew where it was gone or is reborn."""
        total, found = 0.0, list[Value]()
        for step in range(STEPS):
            growth = rate(step)
            if growth is None or (reborn is not None and reborn(step)):
                total = 0.0
            if growth is not None:
                total += growth * STEP
            found.append(None if growth is None else total)
        self.samples[series] = found

    def noise(self, mean: float, width: float) -> float:
        """A value about a mean."""
        return mean + self.random.uniform(-width, width)

    def series(self) -> list[dict[str, str]]:
        """As promtool reads them; what ends is marked stale, as Prometheus does it after a scrape without it."""
        return [{"series": name, "values": _written(values)} for name, values in self.samples.items()]


def _written(values: list[Value]) -> str:
    words, before = [], None
    for value in values:
        words.append("_" if value is None and before is None else "stale" if value is None else f"{value:.6g}")
        before = value
    return " ".join(words)


def exporter_away(step: int) -> bool:
    """The exporter is updated at noon: two minutes without an answer, and its counters begin anew."""
    return 12 <= hours(step) < 12 + 2 / 60


def busy(day: Day, card: str, step: int) -> float:
    if card == BARK:
        return day.noise(0.8, 0.1) if speaking(step) else 0.0
    if training(step) is None:
        return 0.0
    if since_start(step) < 5:
        return 0.05  # loads and compiles
    if card == DATA:
        return day.noise(0.15, 0.05)  # its work is small
    return 0.1 if since_start(step) % 60 < 1.5 else day.noise(0.88, 0.06)  # a checkpoint and a validation an hour


def measured(value: Callable[[int], float]) -> Callable[[int], Value]:
    """Value while the exporter is there."""
    return lambda step: None if exporter_away(step) else value(step)


def cards(day: Day) -> None:
    """Metrics of the exporter."""
    job = f'job="exporter",{HOST}'
    day.gauge(f"up{{{job}}}", lambda step: float(not exporter_away(step)))
    day.gauge(f"voxyard_exporter_collect_success{{{job}}}", measured(lambda _: 1.0))
    day.gauge(f"voxyard_exporter_last_success_timestamp_seconds{{{job}}}", measured(lambda step: step * STEP))
    day.gauge(f"voxyard_gpus_expected{{{job}}}", measured(lambda _: float(len(CARDS))))
    for workload, role in (("trainer", "data"), ("trainer", "model"), ("bark", "bark")):
        day.gauge(f'voxyard_workload_expected{{{job},workload="{workload}",role="{role}"}}', measured(lambda _: 1.0))
    for card in CARDS:
        one_card(day, card, f"{job},{card}")
    day.gauge(f'voxyard_gpu_link_rank{{{job},{DATA},peer="GPU-model",link="PIX"}}', measured(lambda _: 5.0))
    day.gauge(f'voxyard_gpu_link_rank{{{job},{DATA},peer="GPU-bark",link="SYS"}}', measured(lambda _: 1.0))


def one_card(day: Day, card: str, labels: str) -> None:
    """Metrics of one GPU."""

    def works(step: int) -> bool:
        return speaking(step) if card == BARK else training(step) is not None

    def always(value: float) -> Callable[[int], Value]:
        return measured(lambda _: value)

    day.counter(f"voxyard_gpu_busy_seconds_total{{{labels}}}", measured(lambda step: busy(day, card, step)))
    day.gauge(f"voxyard_gpu_up{{{labels}}}", always(1))
    day.gauge(f"voxyard_gpu_memory_used_bytes{{{labels}}}", measured(lambda step: 16e9 if works(step) else 5e8))
    day.gauge(f"voxyard_gpu_memory_size_bytes{{{labels}}}", always(24e9))
    heat = measured(lambda step: day.noise(78, 6) if works(step) else day.noise(35, 3))
    day.gauge(f"voxyard_gpu_temperature_celsius{{{labels}}}", heat)
    for reason in ("sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake"):
        moments = measured(lambda step: float(step % 400 == 7))  # now and then
        day.gauge(f'voxyard_gpu_clock_event_active{{{labels},reason="{reason}"}}', moments)
    day.gauge(f"voxyard_gpu_pcie_link_width{{{labels}}}", always(16))
    day.gauge(f"voxyard_gpu_pcie_link_width_max{{{labels}}}", always(16))
    generation = measured(lambda step: 4.0 if works(step) and step % 3 else 1.0)  # it falls whenever there is a pause
    day.gauge(f"voxyard_gpu_pcie_link_generation{{{labels}}}", generation)
    day.gauge(f"voxyard_gpu_pcie_link_generation_max{{{labels}}}", always(4))
    corrected = measured(lambda step: step // 500)
    day.gauge(f'voxyard_gpu_ecc_errors_total{{{labels},kind="corrected_volatile"}}', corrected)
    day.gauge(f'voxyard_gpu_ecc_errors_total{{{labels},kind="uncorrected_volatile"}}', always(0))
    for kind in ("pending", "failure"):
        day.gauge(f'voxyard_gpu_remapped_rows{{{labels},kind="{kind}"}}', always(0))


def trainer(day: Day) -> None:
    """Metrics of the two runs. In the last minute of its port a run is over and holds nothing."""
    job = f'job="trainer",{HOST}'

    def ended(step: int) -> bool:
        return training(step) is not None and training(step + 2) is None

    def told(run_name: str | None, value: Callable[[int], float]) -> Callable[[int], Value]:
        return lambda step: value(step) if training(step) and run_name in (None, training(step)) else None

    day.gauge(f"up{{{job}}}", lambda step: float(training(step) is not None))
    for role, card in (("data", DATA), ("model", MODEL)):
        labels = f'{job},workload="trainer",role="{role}",{card}'
        target = told(None, (lambda _: 0.4) if role == "data" else (lambda _: 0.7))
        day.gauge(f"voxyard_workload_gpu_assigned{{{labels}}}", told(None, lambda step: float(not ended(step))))
        day.gauge(f"voxyard_workload_gpu_utilization_target_ratio{{{labels}}}", target)
        day.gauge(f"voxyard_workload_gpu_memory_limit_bytes{{{labels}}}", told(None, lambda _: 16e9))
    for name in ("first", "second"):
        labels = f'{job},run="{name}"'
        day.gauge(f"voxyard_train_active{{{labels}}}", told(name, lambda step: float(not ended(step))))
        day.counter(
            f"voxyard_train_steps_total{{{labels}}}", told(name, lambda step: 4.0 if since_start(step) > 4 else 0.0)
        )
        day.counter(f"voxyard_train_step_duration_seconds_sum{{{labels}}}", told(name, lambda _: 1.0))
        waits = told(name, lambda step: 0.95 if since_start(step) < 6 else day.noise(0.15, 0.1))
        day.counter(f"voxyard_train_data_wait_seconds_sum{{{labels}}}", waits)
        day.gauge(f"voxyard_train_step_time_variation_ratio{{{labels}}}", told(name, lambda _: day.noise(0.3, 0.12)))
        day.gauge(
            f'voxyard_train_loss{{{labels},component="total"}}',
            told(name, lambda step: 0.4 + 3 * math.exp(-since_start(step) / 60)),
        )


def bark(day: Day) -> None:
    """Metrics of the service: bursts that are worked off; a worker is replaced once, one chunk is given up."""
    job = f'job="bark",{HOST}'
    labels = f'{job},workload="bark",role="bark",{BARK}'
    lost = (12 * 60 + 5) * 60 // STEP  # at 12:05, while it speaks

    def waiting(step: int) -> float:
        minute = hours(step) * 60 % 30
        return max(0.0, 80 - 7 * minute) if speaking(step) else 0.0

    day.gauge(f"up{{{job}}}", lambda _: 1.0)
    day.gauge(f"voxyard_workload_gpu_assigned{{{labels}}}", lambda _: 1.0)
    day.gauge(f"voxyard_workload_gpu_utilization_target_ratio{{{labels}}}", lambda _: 0.5)
    day.gauge(f"voxyard_bark_queue_depth{{{job}}}", waiting)
    day.gauge(f"voxyard_bark_workers{{{job}}}", lambda step: 0.0 if not speaking(step) or step == lost else 1.0)
    day.gauge(f"voxyard_bark_workers_expected{{{job}}}", lambda _: 1.0)
    gpu = f'{job},gpu="cuda:2"'
    day.counter(f"voxyard_bark_audio_seconds_total{{{gpu}}}", lambda step: 2.2 if speaking(step) else 0.0)
    day.counter(f"voxyard_bark_synthesis_seconds_total{{{gpu}}}", lambda step: 0.9 if speaking(step) else 0.0)
    day.counter(f'voxyard_bark_chunks_total{{{gpu},outcome="spoken"}}', lambda step: 0.2 if speaking(step) else 0.0)
    failed = f'voxyard_bark_chunks_total{{{job},gpu="",outcome="failed"}}'
    day.gauge(failed, lambda step: 1.0 if hours(step) > 12.5 else None)


def gateway(day: Day) -> None:
    """Two services behind it; in the evening each of the three is deployed, two minutes each."""
    job, minutes = 'job="gateway",instance="gw-01"', 2 / 60

    def away(start: float) -> Callable[[int], bool]:
        return lambda step: start <= hours(step) < start + minutes

    one, other, itself = away(21.2), away(21.3), away(21.4)
    day.gauge(f"up{{{job}}}", lambda step: float(not itself(step)))
    ready = f'{job},proxy="ready"'
    for server, gone in (("gpu-01", one), ("gpu-02", other)):
        status = f'haproxy_server_status{{{ready},server="{server}",state="UP"}}'
        day.gauge(status, lambda step, gone=gone: None if itself(step) else float(not gone(step)))  # type: ignore[misc]
    count = f"haproxy_backend_active_servers{{{ready}}}"
    day.gauge(count, lambda step: None if itself(step) else 2.0 - one(step) - other(step))


def cells(day: Day) -> None:
    """Two services on one database, which restarts at noon; at 15:00 one dies, and the other takes over."""
    for host in ("gpu-01", "gpu-02"):
        job = f'job="bark",instance="{host}"'
        day.gauge(f"voxyard_service_store_up{{{job}}}", lambda step: float(not 12 <= hours(step) < 12 + 1 / 60))
        day.gauge(f"voxyard_service_shelf_up{{{job}}}", lambda step: float(not 13 <= hours(step) < 13 + 1 / 60))
        day.gauge(f"voxyard_service_audio_quota_bytes{{{job}}}", lambda _: 20e9)
        day.gauge(f"voxyard_service_audio_free_bytes{{{job}}}", lambda step: 15e9 - 2e8 * hours(step))
    for role in ("head", "worker"):  # the host restarts in the evening: three minutes
        job = f'job="cluster-{role}",instance="gpu-01"'
        away = 20 + 1 / 60 if role == "head" else 20 + 3 / 60
        day.gauge(f"up{{{job}}}", lambda step, away=away: float(not 20 <= hours(step) < away))  # type: ignore[misc]
        day.gauge(f'voxyard_cluster_node_up{{{job},role="{role}"}}', lambda _: 1.0)
    taken = 'voxyard_service_claims_ran_out_total{job="bark",instance="gpu-01",owner="gpu-02"}'
    day.gauge(taken, lambda step: 8.0 if hours(step) >= 15 else None)


def machine(day: Day) -> None:
    """Its disk fills with checkpoints, which are cleared away at night; its memory is used."""
    job = f'job="node",{HOST}'
    disk = f'{job},device="/dev/nvme0n1p2",fstype="ext4",mountpoint="/"'
    day.gauge(
        f"node_filesystem_avail_bytes{{{disk}}}",
        lambda step: 5e11 - 6e9 * hours(step) + (1e11 if hours(step) > 22 else 0),
    )
    day.gauge(f"node_filesystem_size_bytes{{{disk}}}", lambda _: 1e12)
    day.gauge(f"node_filesystem_readonly{{{disk}}}", lambda _: 0.0)
    for resource in ("cpu", "io", "memory"):  # at night something presses, and no run waits
        pressure = f"node_pressure_{resource}_waiting_seconds_total{{{job}}}"
        day.counter(pressure, lambda step: 0.9 if 3 <= hours(step) < 5 else 0.2)
    day.gauge(f"node_time_seconds{{{job}}}", lambda step: step * STEP + day.noise(1, 1))
    day.gauge(f"node_memory_MemTotal_bytes{{{job}}}", lambda _: 128e9)
    day.gauge(
        f"node_memory_MemAvailable_bytes{{{job}}}", lambda step: day.noise(40e9 if training(step) else 110e9, 5e9)
    )


@pytest.mark.timeout(1200)
def test_a_healthy_day_calls_nobody(promtool: str, tmp_path: Path) -> None:
    day = Day()
    for tell in (cards, trainer, bark, gateway, cells, machine):
        tell(day)
    fired = 'count by (alertname) (count_over_time(ALERTS{alertstate="firing"}[1d]))'
    asked = {
        fired: [{"labels": '{alertname="Watchdog"}', "value": 1}],
        # The day was looked at: the targets held while there was work, and only then.
        "count by (role) (count_over_time(voxyard:workload_gpu_target:ratio[1d]) > 500)": [
            {"labels": '{role="data"}', "value": 1},
            {"labels": '{role="model"}', "value": 1},
        ],
    }
    kept = needed([group for file in RULES for group in groups_of(file)], asked, day.samples)
    rules = tmp_path / "rules.yaml"
    rules.write_text(yaml.dump({"groups": kept}, Dumper=yaml.CSafeDumper), encoding="utf-8")
    order = sorted((group["name"] for group in kept), key=lambda name: ("alerts" in name, "average" in name))
    document = {
        "rule_files": [str(rules)],
        "evaluation_interval": f"{STEP}s",
        "group_eval_order": order,
        "tests": [
            {
                "interval": f"{STEP}s",
                "input_series": day.series(),
                "promql_expr_test": [
                    {"expr": expression, "eval_time": "24h", "exp_samples": samples}
                    for expression, samples in asked.items()
                ],
            }
        ],
    }
    file = tmp_path / "day.yaml"
    file.write_text(yaml.dump(document, Dumper=yaml.CSafeDumper, width=1 << 20), encoding="utf-8")
    done = run(promtool, "test", "rules", file)
    assert done.returncode == 0, done.stdout[-3000:]
