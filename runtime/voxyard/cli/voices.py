"""Command `voxyard voices`: names and languages of the voices of an engine."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import click

from voxyard.cli.base import CONTEXT, JSON, WRONG_USE, answering, refuse
from voxyard.cli.engines import engine_of
from voxyard.settings import load


@click.command(context_settings=CONTEXT)
@click.option(
    "--engine", type=click.Choice(["bark", "espeak"]), help="Engine that has them. [default: the one that speaks here]"
)
@click.option("--language", metavar="CODE", help="Only the voices of a language or region, such as en or pt-BR.")
@JSON
def voices(engine: str | None, language: str | None, as_json: bool) -> None:
    """List the voices of an engine; a voice file (.npz) of your own is named to Bark by its path.

    With --json: {"voices": [{"name", "language"}, …]}; the language is null where the name does not contain one.
    """
    if engine is None:
        engine = _speaking_here()
        print(f"voxyard voices: those of {engine}, which speaks here", file=sys.stderr)
    with answering("voices", extra=engine):
        if engine == "bark":
            from voxyard.bark import voices as presets

            listed = [(name, presets.language(name)) for name in presets.names()]
        else:
            from voxyard.espeak import voices as own

            listed = [(name, own.language(name)) for name in own.names()]
    chosen = _of_language(listed, language) if language else listed
    if not chosen:
        known = ", ".join(sorted({spoken for _, spoken in listed if spoken}))
        refuse("voices", f"{engine} has no voices for the language {language!r}, expected one of {known}", WRONG_USE)
    if as_json:
        print(json.dumps({"voices": [{"name": name, "language": spoken} for name, spoken in chosen]}, indent=2))
        return
    for name, spoken in chosen:
        print(f"{name:<20}  {spoken or '-'}")


def _speaking_here() -> str:
    """The engine that `speak` and `serve` choose here; Bark where that has no voices of its own to be listed."""
    from voxyard.cli.speak import SpeakConfig

    with answering("voices"):
        loaded = load(SpeakConfig, flags={}, file=None)
        found = engine_of(loaded.config.speech, loaded.config.bark, loaded.origins)
    return found if found == "espeak" else "bark"


def _of_language(listed: Sequence[tuple[str, str | None]], language: str) -> list[tuple[str, str | None]]:
    """Voices of a language or a region: `en-gb+f4` is of `en` and `en-GB`. All of `en` where none is of `en-AU`."""
    asked = language.strip().lower().replace("_", "-")
    regions = [(voice, voice[0].partition("+")[0]) for voice in listed]
    found = [voice for voice, region in regions if asked in (voice[1], region) or region.startswith(f"{asked}-")]
    return found or [voice for voice in listed if voice[1] == asked.partition("-")[0]]
