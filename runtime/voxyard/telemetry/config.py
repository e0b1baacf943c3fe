"""The exporter's settings: listen address, interval, exported metrics."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from voxyard.settings import Section, setting


class ExporterSection(Section):
    """Exporter: listen address, interval between GPU readings, and the metrics it exports."""

    group = "EXPORTER"

    port: int = setting(9410, "Port of the metrics; 0 takes any free one.", ge=0, le=65535)
    host: str = setting(
        "0.0.0.0",  # noqa: S104 - an exporter is there to be scraped from elsewhere
        "Address that it listens on; 127.0.0.1 for this machine alone.",
    )
    interval: float = setting(
        1.0,
        "Time between two passes over the GPUs; the driver keeps samples of about 20 s.",
        unit="seconds",
        ge=0.1,
        le=10,
    )
    web_config: Path | None = setting(
        None,
        "TLS and passwords: a web configuration file as Prometheus's exporters read it.",
        flag="--web-config",
    )
    record: Path | None = setting(
        None,
        "Write the driver's answers to this new file for `record_seconds`, then end: a card for tests; no secrets.",
        default_text="nothing is recorded",
    )
    record_seconds: float = setting(60.0, "Length of the recording.", unit="seconds", gt=0)
    processes: bool = setting(False, "Also export the device memory of each process, as one time series per process.")
    state: Path | None = setting(
        None,
        "Directory in which a deployment leaves what should run here (expected.json), and a drain its end.",
    )


class ExporterConfig(Section):
    """All settings of `voxyard exporter`, in the one section of its YAML file."""

    exporter: ExporterSection = Field(default_factory=ExporterSection)
