"""Commands `voxyard keys`: create, list, limit and revoke API keys of the speech service, and give them lexicons."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import click

from voxyard.cli.base import CONTEXT, JSON, PATH, NumberRange, answering, clock, require_kept

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
@click.option("--admin", is_flag=True, help="It sees the usage of all keys.")
def new(name: str, path: Path, take_over: bool, admin: bool) -> None:
    """Create a key for NAME and print it, this once."""
    with answering("keys new", extra=_EXTRA):
        from voxyard.service.auth.api_keys import add_key, hash_line

        key = add_key(path, name, take_over=take_over, admin=admin)
        print(key)
        print(f"{hash_line(name, key)}\nwas added to {path}; the key itself is not stored.", file=sys.stderr)


@keys.command("list", context_settings=CONTEXT)
@_FILE
@JSON
def list_(path: Path, as_json: bool) -> None:
    """List the key names with their limits and lexicons.

    With --json: {"keys": [{"name", "sha256", "limits", "lexicon", "admin"}, …]}.
    """
    with answering("keys list", extra=_EXTRA):
        import json

        from voxyard.service.auth.api_keys import read_keys

        found = sorted((name, known) for name, known in read_keys(path).items() if not known.revoked)
        if as_json:
            listed = [
                {
                    "name": name,
                    "sha256": known.sha256,
                    "limits": known.limits.changed(),
                    "lexicon": known.lexicon,
                    "admin": known.admin,
                }
                for name, known in found
            ]
            print(json.dumps({"keys": listed}, indent=2))
            return
        for name, known in found:
            told = (name, "admin" * known.admin, known.limits.describe(), _lexicon_words(known.lexicon))
            print("  ".join(filter(None, told)))


@keys.command("limit", context_settings=CONTEXT)
@click.argument("name")
@_FILE
@click.option("--requests-per-minute", type=click.IntRange(1), metavar="N", help="Requests a minute.")
@click.option("--speech-requests", type=click.IntRange(1), metavar="N", help="Concurrent speech requests.")
@click.option("--documents", type=click.IntRange(1), metavar="N", help="Pending documents.")
@click.option("--characters", type=click.IntRange(1), metavar="N", help="Characters of one text.")
@click.option("--share", type=NumberRange(0.01, 100), metavar="SHARE", help="Share of the workers, 1 where not given.")
def limit(name: str, path: Path, **limits: float | None) -> None:
    """Set the limits of NAME's key.

    They replace those before; without an option it has none. A running service keeps to them from the next request on.
    The service's own limits count for every key.
    """
    with answering("keys limit", extra=_EXTRA):
        from voxyard.service.auth.api_keys import limit_key
        from voxyard.service.fairness import read_limits

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

        require_kept({"--file": path})
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


@keys.command("usage", context_settings=CONTEXT)
@click.option(
    "--base-url", "url", default="http://127.0.0.1:8080/v1", show_default=True, metavar="URL", help="Its API."
)
@click.option("--api-key-file", "key_file", metavar="FILE", help="File with a key; else the variable OPENAI_API_KEY.")
@click.option("--days", type=click.IntRange(1, 400), default=30, show_default=True, metavar="N", help="The last days.")
@JSON
def usage(url: str, key_file: str | None, days: int, as_json: bool) -> None:
    """Show what keys had spoken, by day.

    A running service tells it: of the own key, or of all to an admin key.

    With --json: {"usage": [{"day", "key", "characters", "audio_seconds", "gpu_seconds"}, …]}.
    """
    with answering("keys usage"):
        import json

        from voxyard.speech.remote.client import SpeechServer, read_key, read_urls

        (place,) = read_urls(url)[:1] or ("",)
        found = SpeechServer(place, 30.0, read_key(key_file)).usage(days)
        if as_json:
            print(json.dumps({"usage": found}, indent=2))
            return
        for each in found:
            audio, gpu = (clock(each[name]) for name in ("audio_seconds", "gpu_seconds"))
            key = each["key"] or "(no key)"
            print(f"{each['day']}  {key}: {each['characters']:,} characters, {audio} of audio, {gpu} of workers")


def _lexicon_words(lexicon: str | Mapping[str, str] | None) -> str:
    """A key's lexicon in a few words; "" for none."""
    if isinstance(lexicon, Mapping):
        return f"lexicon of {len(lexicon)} words"
    return "" if lexicon is None else f"lexicon {lexicon}"
