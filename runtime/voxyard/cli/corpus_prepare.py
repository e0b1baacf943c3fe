"""Command `corpus prepare`: writes a corpus as shards."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from voxyard.cli.base import CONFIG, CONTEXT, PATH, answering, progress_bar
from voxyard.cli.train import load_settings
from voxyard.settings import SettingsCommand, options
from voxyard.trainer.config import TrainConfig

log = logging.getLogger("voxyard.cli")

PREPARED = (
    "model", "data.max_bad_share", "data.max_dropped_text", "data.pre_emphasis", "data.corpus_layout",
    "data.data_gpu", "training.device",  # of --features
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
        from voxyard.trainer.corpora import feature_settings
        from voxyard.trainer.text.front_end import choose, tokenizer_of

        loaded = load_settings(flags, config).config
        text = tokenizer_of(choose(loaded.model, source, layout=loaded.data.corpus_layout))
        with progress_bar("writing shards") as progress:
            made = write_shards(
                source,
                destination,
                sample_rate=loaded.model.sample_rate,
                text_units=text.units,
                language=text.language,
                normaliser=text.normaliser,
                max_bad_share=loaded.data.max_bad_share,
                max_dropped_text=loaded.data.max_dropped_text,
                layout=loaded.data.corpus_layout,
                hop_length=loaded.model.hop_length,
                features=prepare_features(loaded) if features else None,
                feature_settings=feature_settings(loaded),
                progress=progress,
            )
    for clip in made.bad[:20]:
        log.warning("skipped %s", clip)
    print(made)
