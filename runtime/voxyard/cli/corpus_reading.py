"""Commands `corpus prepare` and `corpus check`: they read a whole corpus with a training's settings."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import click

from voxyard.cli.base import CHECK_FAILED, CONFIG, CONTEXT, JSON, PATH, answering, progress_bar
from voxyard.cli.train import load_settings
from voxyard.settings import SettingsCommand, options
from voxyard.trainer.config import TrainConfig

log = logging.getLogger("voxyard.cli")

PREPARED = (
    "model", "data.max_bad_share", "data.max_dropped_text", "data.pre_emphasis", "data.corpus_layout",
    "data.data_gpu", "training.device",  # of --features
)  # fmt: skip
CHECKED = (
    "model.text_units", "model.language", "model.read_words", "data.max_dropped_text", "data.corpus_layout",
)  # fmt: skip


@click.command("prepare", cls=SettingsCommand, context_settings=CONTEXT)
@click.argument("source", type=PATH)
@click.argument("destination", type=PATH)
@click.option(
    "--features", is_flag=True, help="Store mel, pitch and energy too, as --data-gpu (else the first) makes them."
)
@CONFIG
@options(TrainConfig, only=PREPARED)
def prepare(flags: dict[str, object], source: Path, destination: Path, features: bool, config: Path | None) -> None:
    """Write a corpus as shards, the fast way to train from.

    SOURCE is a corpus in one of the layouts of --corpus-layout, DESTINATION a new directory for the shards.
    """
    with answering("corpus prepare"):
        from voxyard.corpus import prepare as write_shards
        from voxyard.trainer.api import prepare_features
        from voxyard.trainer.corpora import settings_for

        loaded = load_settings(flags, config).config
        with progress_bar("writing shards") as progress:
            made = write_shards(
                source,
                destination,
                settings_for(loaded, source),
                features=prepare_features(loaded) if features else None,
                progress=progress,
            )
    for clip in made.bad[:20]:
        log.warning("skipped %s", clip)
    print(made)


@click.command("check", cls=SettingsCommand, context_settings=CONTEXT)
@click.argument("directory", type=PATH)
@CONFIG
@JSON
@options(TrainConfig, only=CHECKED)
def check(flags: dict[str, object], directory: Path, config: Path | None, as_json: bool) -> None:
    """Read a whole corpus and list what is wrong with it; exit code 1 where anything is.

    DIRECTORY is a corpus in one of the layouts of --corpus-layout, or shards that `voxyard corpus prepare` wrote.
    Wrong are: no clips at all, clips that cannot be read, are silent or longer than a minute, and text that a model
    cannot read.
    """
    with answering("corpus check"):
        from voxyard.corpus import check as check_corpus
        from voxyard.trainer.corpora import settings_for

        found = check_corpus(directory, settings_for(load_settings(flags, config).config, directory))
    print(json.dumps(found.to_json(), indent=2) if as_json else found.render())
    if not found.passes:
        raise click.exceptions.Exit(CHECK_FAILED)
