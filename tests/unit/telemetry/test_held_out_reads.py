"""Reads of a validation: their seconds, what of them was computed, and one that hangs."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from voxyard.telemetry.input_metrics import InputMetrics


def test_a_read_of_a_validation_is_counted_and_seen_while_it_hangs() -> None:
    registry, now = CollectorRegistry(), [100.0]
    metrics = InputMetrics(registry, "r1", lambda: now[0])
    metrics.sizes(threads=1, cores=lambda: 4)

    def told(name: str) -> float | None:
        return registry.get_sample_value(f"voxyard_train_{name}", {"run": "r1"})

    with metrics.reading_held_out():
        now[0] += 300
        assert (told("read_oldest_seconds"), told("reads_in_flight")) == (300, 1)
    assert (told("read_oldest_seconds"), told("validation_read_seconds_total")) == (0, 300)
    assert told("read_seconds_total") in (None, 0)  # those are of the reading threads
    computed = told("validation_read_cpu_seconds_total")
    assert computed is not None
    assert computed < 300
