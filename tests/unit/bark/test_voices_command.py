"""`voxyard voices`: the presets as lines or JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from voxyard.bark import voices as presets
from voxyard.cli.voices import voices

BARK = ["--engine", "bark"]


def test_every_preset_is_a_line_with_its_language() -> None:
    ended = CliRunner().invoke(voices, BARK)

    lines = dict(line.split() for line in ended.stdout.splitlines())
    assert tuple(lines) == presets.names()
    assert (lines["v2/de_speaker_3"], lines["announcer"]) == ("de", "-")


@pytest.mark.parametrize("code", ["hi", "HI"])
def test_one_language_is_chosen(code: str) -> None:
    ended = CliRunner().invoke(voices, [*BARK, "--language", code, "--json"])

    found = json.loads(ended.stdout)["voices"]
    assert len(found) == 20
    assert {each["language"] for each in found} == {"hi"}


def test_a_language_that_bark_does_not_speak_is_refused() -> None:
    ended = CliRunner().invoke(voices, [*BARK, "--language", "xx"])

    assert ended.exit_code == 2
    assert "bark has no voices for the language 'xx', expected one of de, en" in ended.stderr
    assert ended.stdout == ""


def test_a_missing_package_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presets, "PACKAGE", "no-such-package-of-voices")

    ended = CliRunner().invoke(voices, BARK)

    assert ended.exit_code == 2
    assert "is not installed: run `pip install" in ended.stderr


def test_the_voices_of_another_engine_are_listed() -> None:
    ended = CliRunner().invoke(voices, ["--engine", "espeak", "--language", "de", "--json"])
    assert json.loads(ended.stdout)["voices"] == [
        {"name": "de", "language": "de"},
        {"name": "de+f4", "language": "de"},
    ]


@pytest.mark.parametrize(("weights", "engine"), [(False, "espeak"), (True, "bark")])
def test_the_voices_of_the_engine_that_speaks_here_are_listed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, weights: bool, engine: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if weights:
        (tmp_path / "bark").mkdir()
    ended = CliRunner().invoke(voices, ["--language", "de"])
    assert f"those of {engine}, which speaks here" in ended.stderr
    assert ("de+f4" in ended.stdout, "de_speaker_0" in ended.stdout) == (not weights, weights)
