"""The commands that fetch, make and check Bark's weights."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import click

from voxyard.cli.base import CHECK_FAILED, CONTEXT, JSON, PATH, LazyGroup, answering, progress_bar

_EXTRA = "bark"


@click.command(context_settings=CONTEXT)
@click.argument("directory", type=PATH)
@click.option("--seed", type=click.IntRange(min=0), default=0, metavar="N", help="Another seed, other weights.")
def tiny(directory: Path, seed: int) -> None:
    """Write a tiny Bark model with random weights: it speaks noise, all else can be tried on it."""
    with answering("weights tiny", extra=_EXTRA):
        from voxyard.bark.inspect import survey
        from voxyard.bark.weights import tiny as checkpoint

        checkpoint.write(directory, seed=seed)
        print(survey(directory).render())


@click.command(context_settings=CONTEXT)
@click.argument("directory", type=PATH)
@click.option("--checksums", is_flag=True, help="Read every file and compare it with SHA256SUMS beside it.")
@JSON
def check(directory: Path, checksums: bool, as_json: bool) -> None:
    """Say whether a directory is a usable Bark model, and what is missing; exit code 1 where it is not usable.

    With --json: {"usable", "directory", "problems", "size", "layers", "width", "parameters", "precision", "pickled",
    "random_weights", "tokens", "memory": [{"precision", "weights", "activations", "row", "need"}, …]}; memory is in
    MiB.
    """
    with answering("weights check", extra=_EXTRA):
        from voxyard.bark.inspect import survey
        from voxyard.bark.weights.checksums import problems
        from voxyard.bark.weights.hub import parts

        found = survey(directory)
        if checksums and directory.is_dir():
            with progress_bar("reading") as progress:
                differing = problems(directory, parts(directory), progress)
            found = dataclasses.replace(found, problems=(*found.problems, *differing))
    print(json.dumps(found.to_json(), indent=2) if as_json else found.render())
    if not found.usable:
        raise click.exceptions.Exit(CHECK_FAILED)


@click.command(context_settings=CONTEXT)
@click.argument("name", metavar="[NAME|DIR]", default="bark")
@click.option("--out", type=PATH, required=True, metavar="DIR", help="Where the model goes: a new directory.")
@click.option("--revision", metavar="REV", help="A branch, tag or commit of the hub.  [default: the newest]")
@click.option(
    "--checksums",
    type=PATH,
    metavar="FILE",
    help="What the files must be, as sha256sum writes it, beside what the hub says.",
)
def fetch(name: str, out: Path, revision: str | None, checksums: Path | None) -> None:
    """Get a Bark model from the hub, or from a directory; what arrives is verified, SHA256SUMS is written beside it.

    NAME is bark (the default), bark-small, or owner/name on the hub. A fetch that was interrupted goes on where it
    ended when the command is run again. HF_ENDPOINT names another address of the hub.
    """
    with answering("weights fetch", extra=_EXTRA):
        from voxyard.bark.inspect import survey
        from voxyard.bark.weights.fetch import fetch as get

        with progress_bar("fetching") as progress:
            fetched = get(name, out, revision=revision, expected=checksums, progress=progress)
        print(fetched.render())
        print(survey(out).render())


weights = LazyGroup(
    "weights",
    help="Fetch, make and check the weights that Bark speaks with.",
    context_settings=CONTEXT,
    entries={
        "fetch": ("Get a Bark model from the hub, or from a directory.", "voxyard.cli.weights:fetch"),
        "tiny": ("Write a tiny Bark model with random weights.", "voxyard.cli.weights:tiny"),
        "check": ("Say whether a directory is a usable Bark model.", "voxyard.cli.weights:check"),
    },
)
