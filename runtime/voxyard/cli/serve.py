"""Command `voxyard serve`: runs the speech service."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import click
from pydantic import Field

from voxyard.bark.config import BarkConfig
from voxyard.cli.base import CONTEXT, answering, config_option, log_notes, require_folder
from voxyard.cli.engines import EngineChoice, choose_engine
from voxyard.service.config import ServiceSection
from voxyard.settings import Section, SettingsCommand, load, options
from voxyard.speech.config import SpeechSection
from voxyard.speech.errors import SpeechError


class ServeConfig(Section):
    """All settings of `voxyard serve`, in the sections of its YAML file."""

    service: ServiceSection = Field(default_factory=ServiceSection)
    speech: SpeechSection = Field(default_factory=SpeechSection)
    bark: BarkConfig = Field(default_factory=BarkConfig)


@click.command("serve", cls=SettingsCommand, context_settings=CONTEXT)
@config_option("sections service, speech, bark")
@options(ServeConfig)
@click.pass_context
def serve(context: click.Context, flags: dict[str, object], config: Path | None) -> int:
    """Run the speech service: OpenAI-compatible API, durable documents, web page.

    The page is at /, the API reference at /docs, metrics at /metrics. SIGTERM or Ctrl-C shuts down gracefully: chunks
    in progress are finished, and documents resume at the next start. A second signal stops at once.
    """
    with answering("serve", extra="service"):
        loaded = load(ServeConfig, flags=flags, file=config)
        log_notes(loaded.notes)
        require_folder(data_dir=loaded.config.service.data_dir)
        engine = choose_engine(loaded.config.speech, loaded.config.bark, loaded.origins)
    with answering("serve", extra=f"{engine.extra},service", needs=engine.package):
        root = context.find_root().params
        return _serve(loaded.config, engine, verbose=bool(root.get("verbose")))


def _serve(settings: ServeConfig, engine: EngineChoice, *, verbose: bool) -> int:
    from prometheus_client import CollectorRegistry, ProcessCollector

    from voxyard.host.nvml import every_gpu
    from voxyard.service.app import create_app
    from voxyard.service.http.observability import configure_json_logging
    from voxyard.service.http.tls import open_certificate
    from voxyard.service.server import listen
    from voxyard.service.server import serve as run
    from voxyard.service.state import AppState
    from voxyard.speech.frontend import open_frontend
    from voxyard.speech.open_pool import open_pool

    section, pauses, reading = settings.service, settings.speech.pauses(), settings.speech.reading()
    if section.keep_warm and section.idle_release is None:
        raise SpeechError(f"--keep-warm {section.keep_warm} has no effect: add --idle-release SECONDS, or leave it out")
    open_certificate(section)  # before a model is loaded
    with listen(section) as listener:
        frontend = open_frontend(engine.frontend, engine.settings)
        for note in frontend.notes:
            print(f"voxyard serve: {note}", file=sys.stderr)
        configure_json_logging(verbose=verbose)
        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        with (
            open_pool(
                frontend.engine,
                settings.speech,
                engine.device,
                workload="bark",
                registry=registry,
                warm="all",
                parks=True,
                idle_release=section.idle_release,
                keep_warm=section.keep_warm,
            ) as pool,
            AppState(
                section, pauses, frontend, pool, registry, every_gpu, reading, settings.speech.code_blocks
            ) as state,
        ):
            return run(
                create_app(state),
                section,
                listener=listener,
                announce=_announce,
                graceful_shutdown=state.graceful_shutdown,
            )


def _announce(address: str) -> None:
    logging.getLogger("voxyard.service").info("listening on %s", address)
    print(f"{address}  (web page; API reference: {address}/docs)", flush=True)
