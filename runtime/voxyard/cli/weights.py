"""Commands `voxyard weights`: download Bark's weights, make tiny random ones, check a model directory."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import click

from voxyard.cli.base import CHECK_FAILED, CONTEXT, JSON, PATH, LazyGroup, answering, progress_bar

_EXTRA = "bark"


@click.command(context_settings=CONTEXT)
@click.argument("directory", type=PATH)
@click.option("--seed", type=click.IntRange(min=0), default=0, metavar="N", help="Seed of the random weights.")
def tiny(directory: Path, seed: int) -> None:
    """Write a tiny Bark model with random weights; it speaks noise, for trying out everything else."""
    with answering("weights tiny", extra=_EXTRA):
        from voxyard.bark.inspect import inspect_model
        from voxyard.bark.weights import tiny as checkpoint

        checkpoint.write(directory, seed=seed)
        print(inspect_model(directory).render())


@click.command(context_settings=CONTEXT)
@click.argument("directory", type=PATH)
@click.option("--checksums", is_flag=True, help="Read every file and compare it with SHA256SUMS beside it.")
@JSON
def check(directory: Path, checksums: bool, as_json: bool) -> None:
    """Check if a directory is a usable Bark model, and list what is missing; exit code 1 if it is not usable.

    With --json: {"usable", "directory", "problems", "size", "layers", "width", "parameters", "precision", "pickled",
    "random_weights", "tokens", "memory": [{"precision", "weights", "activations", "row", "need"}, …]}; memory is in
    MiB.
    """
    with answering("weights check", extra=_EXTRA):
        from voxyard.bark.inspect import inspect_model
        from voxyard.bark.weights.checksums import problems
        from voxyard.bark.weights.hub import parts

        found = inspect_model(directory)
        if checksums and directory.is_dir():
            with progress_bar("reading") as progress:
                differing = problems(directory, parts(directory), progress)
            found = dataclasses.replace(found, problems=(*found.problems, *differing))
    print(json.dumps(found.to_json(), indent=2) if as_json else found.render())
    if not found.usable:
        raise click.exceptions.Exit(CHECK_FAILED)


@click.command(context_settings=CONTEXT)
@click.argument("name", metavar="[NAME|DIR]", default="bark")
@click.option("--out", type=PATH, required=True, metavar="DIR", help="Directory for the model: a new one.")
@click.option("--revision", metavar="REV", help="A branch, tag or commit of the hub.  [default: the newest]")
@click.option(
    "--checksums",
    type=PATH,
    metavar="FILE",
    help="Expected checksums in sha256sum's format, in addition to the hub's.",
)
def fetch(name: str, out: Path, revision: str | None, checksums: Path | None) -> None:
    """Download a Bark model from the hub, or copy a directory; verifies the files and writes SHA256SUMS.

    NAME is bark (the default), bark-small, or owner/name on the hub. Run the command again to resume an interrupted
    download. HF_ENDPOINT sets another address of the hub.
    """
    with answering("weights fetch", extra=_EXTRA):
        from voxyard.bark.inspect import inspect_model
        from voxyard.bark.weights.fetch import fetch as get

        with progress_bar("fetching") as progress:
            fetched = get(name, out, revision=revision, expected=checksums, progress=progress)
        print(fetched.render())
        print(inspect_model(out).render())


weights = LazyGroup(
    "weights",
    help="Download, make and check Bark's weights.",
    context_settings=CONTEXT,
    entries={
        "fetch": ("Download a Bark model from the hub, or copy a directory.", "voxyard.cli.weights:fetch"),
        "tiny": ("Write a tiny Bark model with random weights.", "voxyard.cli.weights:tiny"),
        "check": ("Check if a directory is a usable Bark model.", "voxyard.cli.weights:check"),
    },
)
