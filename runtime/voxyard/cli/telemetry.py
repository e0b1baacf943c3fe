"""Commands `exporter` and `monitor`: GPU metrics for Prometheus and in the terminal."""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from pathlib import Path

import click

from voxyard.cli.base import CONTEXT, PATH, NumberRange, answering, config_option, log_notes, require_kept
from voxyard.settings import SettingsCommand, load, options
from voxyard.telemetry.config import ExporterConfig

_EXTRA = "exporter"


@click.command("exporter", cls=SettingsCommand, context_settings=CONTEXT)
@config_option("section exporter")
@click.option(
    "--plan",
    type=PATH,
    envvar="VOXYARD_HOST_PLAN",
    metavar="FILE",
    help="Host plan, whose workloads and number of GPUs are exported as what should be there.",
)
@click.option("--probe", "only_probe", is_flag=True, help="Check the health of the exporter on this host.")
@options(ExporterConfig)
def exporter(flags: dict[str, object], config: Path | None, plan: Path | None, only_probe: bool) -> None:
    """Export GPU metrics to Prometheus.

    /metrics has the latest pass over the GPUs; /healthz fails while the driver hangs and no pass finishes, /readyz
    also while the driver reports an error. Without a driver the exporter stays up and reports it in
    voxyard_exporter_collect_success.
    """
    with answering("exporter", extra=_EXTRA):
        from voxyard.telemetry.exporter import Config, exec_exporter
        from voxyard.telemetry.healthcheck import probe

        loaded = load(ExporterConfig, flags=flags, file=config, host_plan=plan, environ=os.environ)
        log_notes(loaded.notes)
        seconds = loaded.origins["exporter.record_seconds"]
        if loaded.config.exporter.record is None and seconds != "default":
            raise click.UsageError(f"{seconds} has no effect without --record: add --record FILE, or leave it out")
        require_kept({"--record": loaded.config.exporter.record}, loaded.config)
        settings = Config(**loaded.config.exporter.model_dump(), plan=plan)
        if only_probe:
            print(probe(settings.host, settings.port))
        else:
            exec_exporter(settings)


@click.command(context_settings=CONTEXT)
@click.option(
    "--interval",
    type=NumberRange(0.1, 10),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two passes over the GPUs.",
)
@click.option(
    "--duration",
    type=NumberRange(min=0, min_open=True),
    metavar="SECONDS",
    help="How long to watch.  [default: until Ctrl-C]",
)
@click.option("--log-file", type=PATH, metavar="FILE", help="Also write every reading to this CSV file.")
def monitor(interval: float, duration: float | None, log_file: Path | None) -> None:
    """Watch the GPUs live in the terminal."""
    with answering("monitor", extra=_EXTRA):
        from rich.console import Console
        from rich.live import Live

        from voxyard.telemetry.monitor import csv_log, lines, snapshots, table

        console = Console()
        with ExitStack() as stack, suppress(KeyboardInterrupt):
            log = stack.enter_context(csv_log(log_file)) if log_file else None
            passes = snapshots(interval, duration)
            live = stack.enter_context(Live(console=console, auto_refresh=False)) if console.is_terminal else None
            for snapshot in passes:
                if log is not None:
                    log.write(snapshot)
                if live is not None:
                    live.update(table(snapshot, console.width), refresh=True)
                else:
                    print(lines(snapshot), flush=True)
