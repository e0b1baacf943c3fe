"""Commands `voxyard keys`: create, list, limit and revoke API keys of the speech service, and give them lexicons."""

from __future__ import annotations

import sys
from collections.abc import Mapping
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
    """Create, list, limit and revoke API keys of `voxyard serve`.

    The file has the name and the SHA-256 of each key, never the key. A running service reloads it when it changes.
    """


@keys.command("new", context_settings=CONTEXT)
@click.argument("name")
@_FILE
@click.option("--take-over", is_flag=True, help="Also where NAME's key was revoked: with its documents and voices.")
def new(name: str, path: Path, take_over: bool) -> None:
    """Create a key for NAME and print it, this once."""
    with answering("keys new", extra=_EXTRA):
        from voxyard.service.auth.api_keys import add_key, hash_line

        key = add_key(path, name, take_over=take_over)
        print(key)
        print(f"{hash_line(name, key)}\nwas added to {path}; the key itself is not stored.", file=sys.stderr)


@keys.command("list", context_settings=CONTEXT)
@_FILE
@JSON
def list_(path: Path, as_json: bool) -> None:
    """List the key names with their limits and lexicons.

    With --json: {"keys": [{"name", "sha256", "limits", "lexicon"}, …]}.
    """
    with answering("keys list", extra=_EXTRA):
        import json

        from voxyard.service.auth.api_keys import read_keys

        found = sorted((name, known) for name, known in read_keys(path).items() if not known.revoked)
        if as_json:
            listed = [
                {"name": name, "sha256": known.sha256, "limits": known.limits.changed(), "lexicon": known.lexicon}
                for name, known in found
            ]
            print(json.dumps({"keys": listed}, indent=2))
            return
        for name, known in found:
            print("  ".join(filter(None, (name, known.limits.describe(), _lexicon_words(known.lexicon)))))


@keys.command("limit", context_settings=CONTEXT)
@click.argument("name")
@_FILE
@click.option("--requests-per-minute", type=click.IntRange(1), metavar="N", help="Requests a minute.")
@click.option("--speech-requests", type=click.IntRange(1), metavar="N", help="Concurrent speech requests.")
@click.option("--documents", type=click.IntRange(1), metavar="N", help="Pending documents.")
@click.option("--characters", type=click.IntRange(1), metavar="N", help="Characters of one text.")
@click.option(
    "--share", type=click.FloatRange(0.01, 100), metavar="SHARE", help="Share of the workers, 1 where not given."
)
def limit(name: str, path: Path, **limits: float | None) -> None:
    """Set the limits of NAME's key.

    They replace those before; without an option it has none. A running service keeps to them from the next request on.
    The service's own limits count for every key.
    """
    with answering("keys limit", extra=_EXTRA):
        from voxyard.service.auth.api_keys import limit_key
        from voxyard.service.auth.key_limits import read_limits

        given = {field: value for field, value in limits.items() if value is not None}
        changed = read_limits(given)
        limit_key(path, name, changed)
        print(f"limits of {name}: {changed.describe() or 'none'}", file=sys.stderr)


@keys.command("lexicon", context_settings=CONTEXT)
@click.argument("name")
@click.argument("lexicon", type=PATH, required=False, metavar="[LEXICON]")
@_FILE
def lexicon_(name: str, lexicon: Path | None, path: Path) -> None:
    """Set the pronunciation lexicon of NAME's key, a YAML file.

    Without LEXICON the key has none. Its words go before those of the host's --lexicon, and after a request's own. A
    running service reads the file again when it changes.
    """
    with answering("keys lexicon", extra=_EXTRA):
        from voxyard.service.auth.api_keys import give_lexicon

        give_lexicon(path, name, None if lexicon is None else str(lexicon.absolute()))
        print(f"lexicon of {name}: {lexicon or 'none'}", file=sys.stderr)


@keys.command("revoke", context_settings=CONTEXT)
@click.argument("name")
@_FILE
def revoke(name: str, path: Path) -> None:
    """Revoke the key of NAME.

    A running service refuses it from the next request on, and ends its streams.
    """
    with answering("keys revoke", extra=_EXTRA):
        from voxyard.service.auth.api_keys import revoke_key

        revoke_key(path, name)
        print(f"the key of {name} is revoked", file=sys.stderr)


def _lexicon_words(lexicon: str | Mapping[str, str] | None) -> str:
    """A key's lexicon in a few words; "" for none."""
    if isinstance(lexicon, Mapping):
        return f"lexicon of {len(lexicon)} words"
    return "" if lexicon is None else f"lexicon {lexicon}"
