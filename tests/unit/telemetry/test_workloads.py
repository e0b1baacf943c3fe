"""The trainer's metrics, scraped over loopback and read with Prometheus' own parser."""

from __future__ import annotations

import math
import time
import urllib.request
from collections.abc import Iterator
from functools import partial

import pytest
from eventually import PATIENCE
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.parser import text_string_to_metric_families

from voxyard.host.nvml import Gpu
from voxyard.telemetry import TelemetryError, input_metrics
from voxyard.telemetry.server import MetricsServer, serve
from voxyard.telemetry.workloads import STEP_BUCKETS, TrainMetrics

# The table of the specification: name → type and labels beside `run`.
TRAIN = {
    "train_active": ("gauge", set()),
    "train_step_time_variation_ratio": ("gauge", set()),
    "train_step_time_variation_within_buckets_ratio": ("gauge", set()),
    "train_read_seconds": ("counter", set()),
    "train_read_cpu_seconds": ("counter", set()),
    "train_read_wait_seconds": ("counter", set()),
    "train_read_queue_seconds": ("counter", set()),
    "train_reads_in_flight": ("gauge", set()),
    "train_read_oldest_seconds": ("gauge", set()),
    "train_second_network_seconds": ("counter", set()),
    "train_lock_looks": ("counter", set()),
    "train_lock_held": ("counter", set()),
    "train_read_threads": ("gauge", set()),
    "train_cores": ("gauge", set()),
    "train_start_timestamp_seconds": ("gauge", set()),
    "train_ended_in_order": ("gauge", set()),
    "train_pretrained": ("gauge", set()),
    "train_data_stage_seconds": ("counter", {"part"}),
    "train_data_stage_batches": ("counter", {"part"}),
    "train_phase": ("gauge", {"phase"}),
    "train_phase_seconds": ("counter", {"phase"}),
    "train_progress": ("counter", set()),
    "train_steps": ("counter", set()),
    "train_phase_age_seconds": ("gauge", {"phase"}),
    "train_phase_last_seconds": ("gauge", {"phase"}),
    "train_validation_read_seconds": ("counter", set()),
    "train_validation_read_cpu_seconds": ("counter", set()),
    "train_traced_steps": ("counter", set()),
    "train_shape_steps": ("counter", {"shape"}),
    "train_shape_seconds": ("counter", {"shape"}),
    "train_samples": ("counter", set()),
    "train_step_duration_seconds": ("histogram", set()),
    "train_data_wait_seconds": ("histogram", set()),
    "train_ring_depth": ("gauge", set()),
    "train_ring_slots": ("gauge", set()),
    "train_loss": ("gauge", {"component"}),
    "train_validation_loss": ("gauge", {"component"}),
    "train_learning_rate": ("gauge", set()),
    "train_epoch": ("gauge", set()),
    "train_host_index": ("gauge", set()),
    "train_hosts": ("gauge", set()),
    "train_last_step_timestamp_seconds": ("gauge", set()),
    "train_checkpoint_duration_seconds": ("histogram", set()),
}
QUOTA = {"train_cpu_periods", "train_cpu_throttled_periods"}  # with values where a quota of cores holds
WORKLOAD = {
    "workload_gpu_assigned",
    "workload_gpu_utilization_target_ratio",
    "workload_gpu_memory_limit_bytes",
}


PAIR = [
    ("data", Gpu(2, "GPU-two", "A10", "00000000:17:00.0", 23028, 23000, (8, 6))),
    ("model", Gpu(3, "GPU-three", "A10", "00000000:65:00.0", 23028, 23000, (8, 6))),
]


@pytest.fixture
def metrics() -> TrainMetrics:
    """A run on two GPUs, with a value in everything."""
    made = TrainMetrics("r1", cards=PAIR, limits={"data": 8192, "model": None}, ring_slots=3)
    made.start()
    made.step(0.12, 0.03, 16, 2)
    made.step(0.2, 0.0, 16, 3)
    made.computed("16x512", 0.2, traced=False)
    with made.during("validate"), made.input.reading_held_out():
        pass
    made.variation(0.25, 0.05)
    made.input.sizes(threads=4, cores=lambda: 16)
    made.input.read(0.5, 0.25, 0.0625)
    made.input.trained_beside(0.375)
    made.input.looked(True)
    made.input.looked(False)
    made.input.waited(0.125)
    made.input.staged("transfer", 0.002)
    made.pretrained(False)
    made.losses({"total": 2.5, "mel": math.nan})
    made.validation({"total": 3.5})
    made.learning_rate(1e-3)
    made.epoch(4)
    made.hosts(1, 3)
    made.checkpoint(0.7)
    return made


@pytest.fixture
def served(metrics: TrainMetrics) -> Iterator[MetricsServer]:
    with serve(metrics.registry, "127.0.0.1", 0) as server:
        yield server


def scrape(server: MetricsServer) -> dict[str, Metric]:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=PATIENCE) as answer:
        text = answer.read().decode()
    return {family.name.removeprefix("voxyard_"): family for family in text_string_to_metric_families(text)}


def value(families: dict[str, Metric], name: str, **labels: str) -> float:
    found = [
        sample.value
        for family in families.values()
        for sample in family.samples
        if sample.name == f"voxyard_{name}" and labels.items() <= sample.labels.items()
    ]
    assert len(found) == 1, f"{name}{labels}: {found}"
    return float(found[0])


def test_names_types_and_labels_are_those_of_the_specification(served: MetricsServer) -> None:
    """Exactly the table, nothing beside it."""
    families = scrape(served)
    assert set(families) == set(TRAIN) | WORKLOAD | QUOTA
    for name, (kind, more) in TRAIN.items():
        family = families[name]
        assert family.type == kind, name
        assert family.samples, name
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == {"run"} | more
            assert sample.labels["run"] == "r1"
    for name in WORKLOAD:
        assert families[name].type == "gauge"
        assert all(set(sample.labels) == {"workload", "role", "gpu", "uuid"} for sample in families[name].samples)


def test_steps_are_counted_and_timed(served: MetricsServer) -> None:
    families = scrape(served)
    assert value(families, "train_active") == 1
    assert value(families, "train_steps_total") == 2
    assert value(families, "train_samples_total") == 32
    assert value(families, "train_step_duration_seconds_sum") == pytest.approx(0.32)
    assert value(families, "train_step_duration_seconds_bucket", le="0.15") == 1
    assert value(families, "train_data_wait_seconds_sum") == pytest.approx(0.03)
    assert value(families, "train_ring_depth") == 3
    assert value(families, "train_ring_slots") == 3
    assert value(families, "train_last_step_timestamp_seconds") == pytest.approx(time.time(), abs=60)


def test_losses_keep_their_components_and_their_nan(served: MetricsServer) -> None:
    """TrainingLossNotFinite looks for exactly this."""
    families = scrape(served)
    assert value(families, "train_loss", component="total") == 2.5
    assert math.isnan(value(families, "train_loss", component="mel"))
    assert value(families, "train_validation_loss", component="total") == 3.5
    assert value(families, "train_learning_rate") == 1e-3
    assert value(families, "train_epoch") == 4
    assert value(families, "train_step_time_variation_ratio") == 0.25
    assert value(families, "train_step_time_variation_within_buckets_ratio") == 0.05
    assert value(families, "train_checkpoint_duration_seconds_count") == 1


def test_gpus_carry_their_role_target_and_limit(served: MetricsServer) -> None:
    """A limit only where there is one."""
    families = scrape(served)
    data = {"workload": "trainer", "role": "data", "gpu": "2", "uuid": "GPU-two"}
    model = {"workload": "trainer", "role": "model", "gpu": "3", "uuid": "GPU-three"}
    assert value(families, "workload_gpu_assigned", **data) == 1
    assert value(families, "workload_gpu_utilization_target_ratio", **data) == 0.4
    assert value(families, "workload_gpu_utilization_target_ratio", **model) == 0.7
    assert value(families, "workload_gpu_memory_limit_bytes", **data) == 8192 * 2**20
    assert len(families["workload_gpu_memory_limit_bytes"].samples) == 1


def test_a_run_has_a_target_of_its_own_for_its_model_gpu() -> None:
    with serve(TrainMetrics("own", cards=PAIR, utilization_target=0.25).registry, "127.0.0.1", 0) as server:
        families = scrape(server)
    assert value(families, "workload_gpu_utilization_target_ratio", role="model") == 0.25
    assert value(families, "workload_gpu_utilization_target_ratio", role="data") == 0.4


def test_nothing_is_expected_of_the_parts_of_a_card() -> None:
    """NVML tells the use of a card, not of a role on it."""
    card = PAIR[0][1]
    with serve(TrainMetrics("parts", cards=[("data", card), ("model", card)]).registry, "127.0.0.1", 0) as s:
        families = scrape(s)
    assert {one.labels["role"] for one in families["workload_gpu_assigned"].samples} == {"data", "model"}
    assert not families["workload_gpu_utilization_target_ratio"].samples


def test_the_input_tells_its_seconds(served: MetricsServer) -> None:
    families = scrape(served)
    assert value(families, "train_read_seconds_total") == 0.5
    assert value(families, "train_read_cpu_seconds_total") == 0.25
    assert value(families, "train_read_queue_seconds_total") == 0.0625
    assert value(families, "train_second_network_seconds_total") == 0.375
    assert value(families, "train_read_wait_seconds_total") == 0.125
    assert (value(families, "train_lock_looks_total"), value(families, "train_lock_held_total")) == (2, 1)
    assert value(families, "train_data_stage_seconds_total", part="transfer") == 0.002
    assert value(families, "train_data_stage_batches_total", part="transfer") == 1
    assert (value(families, "train_read_threads"), value(families, "train_cores")) == (4, 16)


def test_cores_are_those_of_now_and_a_read_that_does_not_end_is_seen() -> None:
    now, cores = [10.0], [16.0]
    made = TrainMetrics("r1", clock=lambda: now[0])
    made.input.sizes(threads=2, cores=lambda: cores[0])

    def told() -> tuple[float | None, ...]:
        names = ("cores", "reads_in_flight", "read_oldest_seconds", "read_seconds_total")
        return tuple(made.registry.get_sample_value(f"voxyard_train_{name}", {"run": "r1"}) for name in names)

    assert told() == (16, 0, 0, None)
    with made.input.reading():
        now[0], cores[0] = 190.0, 2.0
        assert told() == (2, 1, 180, None)
        with made.input.reading():
            now[0] = 200.0
            assert told() == (2, 2, 190, None)
    assert told() == (2, 0, 0, 200)


def test_a_read_that_fails_is_no_read() -> None:
    made = TrainMetrics("r1")
    made.input.sizes(threads=1)
    with pytest.raises(OSError, match="gone"), made.input.reading():
        raise OSError("gone")
    assert made.registry.get_sample_value("voxyard_train_reads_in_flight", {"run": "r1"}) == 0
    assert made.registry.get_sample_value("voxyard_train_read_seconds_total", {"run": "r1"}) is None


@pytest.mark.parametrize("found", [None, (200, 80)])
def test_a_quota_of_cores_tells_its_periods(monkeypatch: pytest.MonkeyPatch, found: tuple[int, int] | None) -> None:
    monkeypatch.setattr(input_metrics, "quota_periods", lambda: found)
    made, names = TrainMetrics("r1"), ("periods", "throttled_periods")
    told = tuple(made.registry.get_sample_value(f"voxyard_train_cpu_{each}_total", {"run": "r1"}) for each in names)
    assert told == (found or (None, None))


def test_a_run_without_gpus_has_no_gpu_series() -> None:
    """Absent on a CPU, never zero."""
    with serve(TrainMetrics("cpu").registry, "127.0.0.1", 0) as server:
        families = scrape(server)
    assert not any(families[name].samples for name in WORKLOAD)


def test_what_was_not_measured_yet_has_no_series() -> None:
    """A learning rate of 0 or a last step in 1970 would be lies."""
    with serve(TrainMetrics("fresh").registry, "127.0.0.1", 0) as server:
        families = scrape(server)
    for name in (
        "train_loss",
        "train_learning_rate",
        "train_last_step_timestamp_seconds",
        "train_ring_slots",
    ):
        assert not families[name].samples
    assert value(families, "train_steps_total") == 0


def test_a_finished_run_is_no_longer_active(metrics: TrainMetrics, served: MetricsServer) -> None:
    """TrainingStalled must not fire on it."""
    metrics.finish()
    families = scrape(served)
    assert value(families, "train_active") == 0
    assert value(families, "workload_gpu_assigned", role="model") == 0
    assert value(families, "train_steps_total") == 2


def test_when_a_counter_was_made_is_not_told(served: MetricsServer) -> None:
    """The client's `_created` series: three times as many lines of a histogram, which nobody reads."""
    families = scrape(served)
    assert families["train_step_duration_seconds"].samples
    assert [name for name in families if name.endswith("_created")] == []


def test_two_runs_in_one_process_do_not_meet() -> None:
    """No global registry."""
    one, other = TrainMetrics("one"), TrainMetrics("other")
    one.step(0.1, 0.0, 8, 1)
    with serve(other.registry, "127.0.0.1", 0) as server:
        assert value(scrape(server), "train_steps_total") == 0


def test_step_buckets_span_five_milliseconds_to_a_minute() -> None:
    assert (STEP_BUCKETS[0], STEP_BUCKETS[-1]) == (0.005, 60)
    assert list(STEP_BUCKETS) == sorted(set(STEP_BUCKETS))


def test_a_step_costs_little_beside_writing_the_same_numbers_down() -> None:
    """Telemetry costs under 1% of a step: here as a ratio, so that no clock speed matters."""
    metrics, plain = TrainMetrics("r"), dict.fromkeys(range(6), 0.0)

    def tell() -> None:
        for _ in range(2000):
            metrics.step(0.1, 0.01, 8, 3)

    def write() -> None:
        for _ in range(2000):
            for key in plain:
                plain[key] += 0.1

    assert best(tell) < 100 * best(write)


def best(call: object) -> float:
    assert callable(call)
    times = []
    for _ in range(5):
        begin = time.process_time()
        call()
        times.append(time.process_time() - begin)
    return min(times)


# -- the server ----------------------------------------------------------------------------------------------


def test_an_unknown_host_is_a_clear_error() -> None:
    with pytest.raises(TelemetryError, match=r"choose another --metrics-port \(0 is off\), or another --metrics-host"):
        serve(CollectorRegistry(), "nowhere.invalid", 0)


@pytest.mark.parametrize("in_order", [True, False])
def test_a_run_says_whether_it_ended_in_order_and_what_it_began_with(in_order: bool) -> None:
    """A queue of short runs is no crash loop, and fine-tuning may rest."""
    metrics = TrainMetrics("r")
    metrics.pretrained(True)
    metrics.start()
    told = partial(metrics.registry.get_sample_value, labels={"run": "r"})
    assert told("voxyard_train_ended_in_order") == 0
    metrics.finish(in_order=in_order)
    assert told("voxyard_train_ended_in_order") == in_order
    assert told("voxyard_train_active") == 0
    assert told("voxyard_train_pretrained") == 1


def test_steps_are_told_by_their_shape_and_those_that_compile_apart() -> None:
    """A shape begins with a step that compiles: its seconds are none of the shape's. Later ones are: they recur."""
    metrics = TrainMetrics("r")
    for shape, seconds, traced in (
        ("16x512", 30.0, True),
        ("16x512", 0.5, False),
        ("16x512", 2.5, True),
        ("16x200", 0.25, False),
    ):
        metrics.computed(shape, seconds, traced=traced)

    def told(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"voxyard_train_{name}", {"run": "r", **labels})

    assert told("traced_steps_total") == 2
    assert [told("shape_steps_total", shape=shape) for shape in ("16x512", "16x200")] == [2, 1]
    assert [told("shape_seconds_total", shape=shape) for shape in ("16x512", "16x200")] == [3.0, 0.25]
