"""Commands `voxyard keys`: create, list and revoke API keys of the speech service."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from voxyard.cli.base import CONTEXT, JSON, PATH, answering

_EXTRA = "service"
_FILE = click.option(
    "--file",
    "path",
    type=PATH,
    default=Path("voxyard-keys.yaml"),
    show_default=True,
    envvar="VOXYARD_SERVICE_KEYS",
    metavar="FILE",
    help="File of the key names and hashes.",
)


@click.group(context_settings=CONTEXT)
def keys() -> None:
    """Create, list and revoke API keys of `voxyard serve`.

    The file has the name and the SHA-256 of each key, never the key. A running service reloads it when it changes.
    """


@keys.command("new", context_settings=CONTEXT)
@click.argument("name")
@_FILE
def new(name: str, path: Path) -> None:
    """Create a key for NAME and print it, this once."""
    with answering("keys new", extra=_EXTRA):
        from voxyard.service.auth.api_keys import add_key, hash_line

        key = add_key(path, name)
        print(key)
        print(f"{hash_line(name, key)}\nwas added to {path}; the key itself is not stored.", file=sys.stderr)


@keys.command("list", context_settings=CONTEXT)
@_FILE
@JSON
def list_(path: Path, as_json: bool) -> None:
    """List the key names.

    With --json: {"keys": [{"name", "sha256"}, …]}.
    """
    with answering("keys list", extra=_EXTRA):
        import json

        from voxyard.service.auth.api_keys import read_keys

        found = sorted(read_keys(path).items())
        if as_json:
            print(json.dumps({"keys": [{"name": name, "sha256": known} for name, known in found]}, indent=2))
            return
        for name, _ in found:
            print(name)


@keys.command("revoke", context_settings=CONTEXT)
@click.argument("name")
@_FILE
def revoke(name: str, path: Path) -> None:
    """Revoke the key of NAME.

    A running service refuses it from the next request on.
    """
    with answering("keys revoke", extra=_EXTRA):
        from voxyard.service.auth.api_keys import revoke_key

        revoke_key(path, name)
        print(f"the key of {name} is revoked", file=sys.stderr)
