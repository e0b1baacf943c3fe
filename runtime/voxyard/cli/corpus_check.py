"""Command `corpus check`: reads a whole corpus and lists its faults."""

from __future__ import annotations

import json
from pathlib import Path

import click

from voxyard.cli.base import CHECK_FAILED, CONFIG, CONTEXT, JSON, PATH, answering
from voxyard.cli.train import load_settings
from voxyard.settings import SettingsCommand, options
from voxyard.trainer.config import TrainConfig

CHECKED = (
    "model.text_units", "model.language", "model.read_words", "data.max_dropped_text", "data.corpus_layout",
)  # fmt: skip


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
        from voxyard.trainer.text.front_end import choose, tokenizer_of

        loaded = load_settings(flags, config).config
        text = tokenizer_of(choose(loaded.model, directory, layout=loaded.data.corpus_layout))
        found = check_corpus(
            directory,
            text_units=text.units,
            language=text.language,
            normaliser=text.normaliser,
            max_dropped_text=loaded.data.max_dropped_text,
            layout=loaded.data.corpus_layout,
        )
    print(json.dumps(found.to_json(), indent=2) if as_json else found.render())
    if not found.passes:
        raise click.exceptions.Exit(CHECK_FAILED)
