"""Command `voxyard voices`: names and languages of Bark's presets."""

from __future__ import annotations

import json

import click

from voxyard.cli.base import CONTEXT, JSON, WRONG_USE, answering, refuse


@click.command(context_settings=CONTEXT)
@click.option("--language", metavar="CODE", help="Only the voices of one language, such as en or de.")
@JSON
def voices(language: str | None, as_json: bool) -> None:
    """List Bark's voice presets; a voice file (.npz) of your own is named by its path.

    With --json: {"voices": [{"name", "language"}, …]}; the language is null where the name does not contain one.
    """
    with answering("voices", extra="bark"):
        from voxyard.bark import voices as presets

        code = language and language.strip().lower()
        if code and code not in presets.LANGUAGES:
            known = ", ".join(presets.LANGUAGES)
            refuse("voices", f"Bark has no voices for the language {language!r}, expected one of {known}", WRONG_USE)
        listed = [(name, presets.language(name)) for name in presets.names()]
    chosen = [(name, spoken) for name, spoken in listed if not code or spoken == code]
    if as_json:
        print(json.dumps({"voices": [{"name": name, "language": spoken} for name, spoken in chosen]}, indent=2))
        return
    for name, spoken in chosen:
        print(f"{name:<20}  {spoken or '-'}")
