"""Panels show the values of the scenario: the fake driver library, and the output of the programs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import psutil
import pytest
from fast_clock import SCRAPE_SECONDS
from faulty_metrics import CHUNK_SECONDS, DISK_FREE, MEMORY_FREE, STEP_SECONDS, VARIATION, WAIT_SECONDS
from monitoring_queries import EVERYTHING, dashboard_queries, filled
from proof_run import BATCH_SIZE, BROKEN, CLAIMS, DATA, GPUS, HOST, LEARNING_RATE, LOST, MODEL, RUN, SICK, SLOTS, Proof
from scenario import MIB, GpuState

pytestmark = pytest.mark.timeout(1200)

Labels = dict[str, str]
Truth = Callable[[GpuState, Labels], float]
HERE = EVERYTHING | {"instance": HOST}
CLOCK_EVENTS = {0x80: 8, 0x40: 7, 0x4: 3}  # bit of NVML's mask → rank of the reason on the dashboard


def number(gpu: GpuState, field: str) -> float:
    """A field of the scenario that does not change with time."""
    return float(getattr(gpu, field))


def of(field: str, factor: float = 1) -> Truth:
    """A field of the scenario's GPU, in our unit."""
    return lambda gpu, _: number(gpu, field) * factor


def by(label: str, prefix: str, factor: float = 1) -> Truth:
    """The field that a label of the series names."""
    return lambda gpu, labels: number(gpu, prefix + labels[label]) * factor


def claimed(gpu: GpuState, key: str) -> float:
    """Value that the workload on a GPU claims."""
    (claim,) = [each for claims in CLAIMS.values() for each in claims if each["uuid"] == gpu.uuid]
    return float(claim[key])


TARGETS = {"data": 0.40, "model": 0.70, "bark": 0.50}
HELD: dict[str, Truth] = {
    "voxyard_gpu_utilization_ratio": of("utilization", 0.01),
    "voxyard:gpu_utilization:ratio": of("utilization", 0.01),
    "voxyard_gpu_memory_activity_ratio": of("memory_activity", 0.01),
    "voxyard_gpu_encoder_utilization_ratio": of("encoder", 0.01),
    "voxyard_gpu_decoder_utilization_ratio": of("decoder", 0.01),
    "voxyard_gpu_memory_size_bytes": of("memory_total"),
    "voxyard:gpu_memory_used:bytes": of("memory_used"),
    "voxyard:gpu_memory_used:ratio": lambda gpu, _: number(gpu, "memory_used") / number(gpu, "memory_total"),
    "voxyard_gpu_memory_reserved_bytes": of("memory_reserved"),
    "voxyard_gpu_memory_free_bytes": lambda gpu, _: (
        number(gpu, "memory_total") - number(gpu, "memory_used") - number(gpu, "memory_reserved")
    ),
    "voxyard:gpu_power:watts": of("power", 0.001),
    "voxyard_gpu_power_limit_watts": of("power_limit", 0.001),
    "voxyard_gpu_power_limit_default_watts": of("power_default_limit", 0.001),
    "voxyard:gpu_power:ratio": lambda gpu, _: number(gpu, "power") / number(gpu, "power_limit"),
    "voxyard:gpu_temperature:celsius": of("temperature"),
    "voxyard_gpu_memory_temperature_celsius": of("memory_temperature"),
    "voxyard_gpu_fan_speed_ratio": of("fan", 0.01),
    "voxyard_gpu_retired_pages": by("kind", "retired_"),
    "voxyard_gpu_processes": lambda gpu, _: float(len(gpu.processes)),
    "voxyard_gpu_recovery_action": lambda gpu, labels: float(
        ("none", "reset").index(labels["action"]) == number(gpu, "recovery_action")
    ),
    "voxyard_gpu_fabric_state": lambda _, labels: float(labels["state"] == "completed"),
    "voxyard_gpu_mig_enabled": of("mig"),
    "voxyard_gpu_mig_instances": lambda gpu, _: float(len(gpu.mig_instances)),
    "voxyard_gpu_mig_memory_used_bytes / voxyard_gpu_mig_memory_size_bytes": lambda gpu, labels: (
        gpu.mig_instances[int(labels["mig"])].used / gpu.mig_instances[int(labels["mig"])].total
    ),
    "voxyard_gpu_clock_hertz / voxyard_gpu_clock_max_hertz": lambda gpu, labels: (
        by("clock", "clock_")(gpu, labels) / by("clock", "clock_max_")(gpu, labels)
    ),
    "voxyard_gpu_clock_event_active": lambda gpu, _: float(
        next((rank for bit, rank in CLOCK_EVENTS.items() if int(number(gpu, "clock_events")) & bit), 0)
    ),
    "voxyard:gpu_pcie_link_width:lanes": of("pcie_width"),
    "voxyard_gpu_pcie_link_width_max": of("pcie_width_max"),
    "voxyard:gpu_pcie_link_width:ratio": lambda gpu, _: number(gpu, "pcie_width") / number(gpu, "pcie_width_max"),
    "voxyard_gpu_pcie_link_generation": of("pcie_generation"),
    "voxyard_gpu_pcie_link_generation_max": of("pcie_generation_max"),
    "voxyard:gpu_up:bool": lambda gpu, _: float(gpu.uuid != GPUS[LOST].uuid),
    "voxyard_gpu_info": lambda *_: 1.0,
    "voxyard_gpu_ecc_errors_total": by("kind", "ecc_"),
    "voxyard_gpu_remapped_rows": by("kind", "remapped_"),
    "voxyard_gpu_xid_errors_total": lambda *_: 1.0,
    "voxyard_gpu_process_memory_bytes": lambda gpu, _: float(gpu.processes[0].memory or 0),
    "voxyard_gpu_link_rank": lambda _, labels: {"SYS": 1.0, "NV18": 28.0}[labels["link"]],
    "voxyard_workload_gpu_utilization_target_ratio": lambda _, labels: TARGETS[labels["role"]],
    "voxyard_workload_gpu_memory_limit_bytes": lambda gpu, _: claimed(gpu, "limit_mib") * MIB,
    "voxyard_workload_gpu_assigned": lambda *_: 1.0,
}
"""What a query that reads this metric, or divides one by another, and keeps their labels, has to show of each GPU."""

GROWTH: dict[str, Truth] = {
    "voxyard_gpu_busy_seconds_total": of("utilization", 0.01),
    "voxyard_gpu_energy_joules_total": of("power", 0.001),
    "voxyard_gpu_pcie_bytes_total": lambda _, labels: {"transmit": 2e9, "receive": 3e9}[labels["direction"]],
    "voxyard_gpu_nvlink_bytes_total": lambda _, labels: {"transmit": 4e6, "receive": 5e6}[labels["direction"]] * 1024,
}
"""The same of rates, per second."""


def test_every_panel_about_gpus_shows_the_figures_of_the_scenario(proof: Proof) -> None:
    compared: Counter[str] = Counter()
    for query in dashboard_queries():
        metric = " / ".join(dict.fromkeys(re.findall(r"voxyard[:_][\w:]+", query.expr)))
        if query.kind not in ("range", "instant"):
            continue
        truth, tolerance, step = HELD.get(metric), 1e-6, SCRAPE_SECONDS
        if "rate(" in query.expr:  # over longer, as in a panel that shows hours: a busy machine makes passes late
            truth, tolerance, step = GROWTH.get(metric), 0.3, 20 * SCRAPE_SECONDS
        elif metric == "voxyard:gpu_utilization:ratio":
            tolerance = 0.05
        if truth is None or "increase(" in query.expr or "* 1000" in query.expr:
            continue
        for each in proof.server.query(filled(query.expr, step, HERE), proof.steady):
            labels, value = each["metric"], float(each["value"][1])
            if "gpu" in labels:
                wanted = truth(GPUS[int(labels["gpu"])], labels)
                assert value == pytest.approx(wanted, rel=tolerance, abs=tolerance / 10), (str(query), labels)
                compared[metric] += 1
    assert {*HELD, *GROWTH} - set(compared) == set()


def format_value(proof: Proof, dashboard: str, title: str) -> float:
    """The one number of the first panel of this title, for the host of the real programs."""
    query = next(each for each in dashboard_queries() if (each.dashboard, each.title) == (dashboard, title))
    (found,) = proof.server.query(filled(query.expr, SCRAPE_SECONDS, HERE), proof.steady)
    return float(found["value"][1])


def test_the_fleet_counts_what_is_there(proof: Proof) -> None:
    assert format_value(proof, "fleet", "GPUs lost") == 1
    assert format_value(proof, "fleet", "GPUs up") == len(GPUS) - 1
    assert format_value(proof, "fleet", "Targets that do not answer") == 0
    assert format_value(proof, "fleet", "Power") == pytest.approx(
        sum(number(gpu, "power") / 1000 for gpu in GPUS if gpu.uuid != GPUS[LOST].uuid)
    )
    held = [number(GPUS[each["index"]], "utilization") / 100 for claims in CLAIMS.values() for each in claims]
    assert format_value(proof, "fleet", "Utilization of GPUs with work") == pytest.approx(
        sum(held) / len(held), rel=0.05
    )


def test_training_and_bark_count_what_is_there(proof: Proof) -> None:
    assert format_value(proof, "training", "Runs that train") == 1
    assert format_value(proof, "training", "Clips") == pytest.approx(
        BATCH_SIZE * format_value(proof, "training", "Speed"), rel=0.01
    )
    assert 0 <= format_value(proof, "training", "Since the latest step") < 30
    assert format_value(proof, "training", "Epoch") >= proof.trainer["voxyard_train_epoch"]
    assert format_value(proof, "bark", "Workers") == 1
    assert format_value(proof, "bark", "Waiting chunks") == 0


def value(proof: Proof, expression: str) -> float:
    """The one value of an expression while everything ran."""
    (found,) = proof.server.query(expression, proof.steady)
    return float(found["value"][1])


def test_xid_errors_are_those_that_the_driver_reported(proof: Proof) -> None:
    found = proof.server.query(f'voxyard_gpu_xid_last_timestamp_seconds{{instance="{HOST}"}}', proof.steady)
    assert {(each["metric"]["gpu"], each["metric"]["xid"]) for each in found} == {
        (str(LOST), "79"),
        (str(BROKEN), "94"),
    }
    assert all(proof.start - 60 < float(each["value"][1]) <= proof.steady for each in found)
    ages = proof.server.query(f'voxyard:gpu_xid:age_seconds{{instance="{HOST}"}}', proof.steady)
    told = {(each["metric"]["gpu"], each["metric"]["xid"]): float(each["value"][1]) for each in found}
    assert len(ages) == 2
    for each in ages:  # both clocks are one here
        labels, age = each["metric"], float(each["value"][1])
        assert age == pytest.approx(proof.steady - told[labels["gpu"], labels["xid"]], abs=5)


def test_a_run_shows_what_the_trainer_said(proof: Proof) -> None:
    run = f'run="{RUN}"'
    assert value(proof, f"voxyard_train_active{{{run}}}") == 1
    assert value(proof, f"voxyard_train_ring_slots{{{run}}}") == SLOTS
    assert value(proof, f"voxyard_train_learning_rate{{{run}}}") == pytest.approx(LEARNING_RATE, rel=0.05)
    assert value(proof, f"voxyard_train_samples_total{{{run}}} / voxyard_train_steps_total{{{run}}}") == BATCH_SIZE
    assert value(proof, f"voxyard_train_steps_total{{{run}}}") >= proof.trainer["voxyard_train_steps_total"] > 0
    clips = value(proof, f"voxyard:train_samples:rate5m{{{run}}}")
    assert clips == pytest.approx(BATCH_SIZE * value(proof, f"voxyard:train_steps:rate5m{{{run}}}"), rel=0.01)
    waited = proof.trainer["voxyard_train_data_wait_seconds_sum"]
    share = waited / proof.trainer["voxyard_train_step_duration_seconds_sum"]  # since the run began
    assert value(proof, f"voxyard:train_data_stall:ratio{{{run}}}") == pytest.approx(share, abs=0.3)


def test_bark_shows_the_sound_that_was_sent(proof: Proof) -> None:
    here = f'instance="{HOST}"'
    chunks = value(proof, f'sum(voxyard_bark_chunks_total{{{here},outcome="spoken"}})')
    assert chunks == proof.bark["voxyard_bark_chunks_total"] >= len(proof.spoken_seconds)
    audio = value(proof, f"sum(voxyard_bark_audio_seconds_total{{{here}}})")
    assert audio == pytest.approx(proof.bark["voxyard_bark_audio_seconds_total"])
    assert audio >= sum(proof.spoken_seconds) * 0.9
    answered = f'voxyard_service_requests_total{{{here},route="/v1/audio/speech",status="200"}}'
    assert value(proof, answered) == len(proof.spoken_seconds)


def test_the_sick_host_shows_its_figures(proof: Proof) -> None:
    here = f'instance="{SICK}"'
    assert value(proof, f"voxyard:train_data_stall:ratio{{{here}}}") == pytest.approx(WAIT_SECONDS / STEP_SECONDS)
    assert value(proof, f"voxyard:train_steps:rate5m{{{here}}}") == pytest.approx(1 / STEP_SECONDS, rel=0.1)
    assert value(proof, f"voxyard_train_step_time_variation_ratio{{{here}}}") == VARIATION
    assert value(proof, f"voxyard:bark_real_time_factor:ratio5m{{{here}}}") == pytest.approx(CHUNK_SECONDS / 8)
    assert value(proof, f"voxyard:bark_audio_seconds:rate5m{{{here}}}") == pytest.approx(8, rel=0.1)
    assert value(proof, f"voxyard:host_disk_available:ratio{{{here}}}") == pytest.approx(DISK_FREE)
    assert value(proof, f"voxyard:host_memory_available:ratio{{{here}}}") == pytest.approx(MEMORY_FREE)


def test_this_machine_has_the_memory_that_it_has(proof: Proof) -> None:
    memory = psutil.virtual_memory()
    found = value(proof, f'voxyard:host_memory_available:ratio{{instance="{HOST}"}}')
    assert found == pytest.approx(memory.available / memory.total, abs=0.2)


def test_the_link_of_the_pair_is_the_scenarios(proof: Proof) -> None:
    pair = f'instance="{HOST}",gpu="{DATA}",peer="{GPUS[MODEL].uuid}",link="SYS"'
    assert value(proof, f"voxyard_gpu_link_rank{{{pair}}}") == 1
