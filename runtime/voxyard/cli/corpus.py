"""Commands `corpus demo`, `corpus prepare` and `corpus check`."""

from __future__ import annotations

from pathlib import Path

import click

from voxyard.cli.base import CONTEXT, PATH, LazyGroup, answering, progress_bar


@click.command(context_settings=CONTEXT)
@click.argument("directory", type=PATH)
@click.option("--clips", type=click.IntRange(min=1), metavar="N", help="Number of clips.  [default: all sentences]")
@click.option("--seed", type=int, default=0, metavar="N", help="Seed of the first sentence and the voice's pitch.")
def demo(directory: Path, clips: int | None, seed: int) -> None:
    """Make a small corpus with espeak-ng's voices; nothing is downloaded."""
    with answering("corpus demo"), progress_bar("speaking") as progress:
        from voxyard.corpus import make_demo

        made = make_demo(directory, clips=clips, seed=seed, progress=progress)
    print(made)


corpus = LazyGroup(
    "corpus",
    help="Make, prepare and check corpora of recorded speech.",
    context_settings=CONTEXT,
    entries={
        "demo": ("Make a small corpus with espeak-ng's voices; nothing is downloaded.", "voxyard.cli.corpus:demo"),
        "prepare": ("Write a corpus as shards, the fast way to train from.", "voxyard.cli.corpus_reading:prepare"),
        "check": ("Read a whole corpus and list what is wrong with it.", "voxyard.cli.corpus_reading:check"),
    },
)
