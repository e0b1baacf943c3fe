"""GPU reading with utilization only."""

from __future__ import annotations

from voxyard.host.readings import Reading, Sample


def reading(samples: tuple[Sample, ...] | None, ratio: float | None = None) -> Reading:
    """The driver's samples, its latest window, and nothing else."""
    nothing = dict.fromkeys(
        (
            "memory_activity_ratio",
            "encoder_ratio",
            "decoder_ratio",
            "memory",
            "power_watts",
            "power_limit_watts",
            "temperature_celsius",
            "fan_ratio",
        )
    )
    maps: dict[str, dict[str, float]] = {
        name: {} for name in ("clocks_hertz", "clocks_max_hertz", "clock_events", "pcie_link", "totals")
    }
    return Reading(samples=samples, utilization_ratio=ratio, processes=(), **nothing, **maps)  # type: ignore[arg-type]
