"""Names of the model: the engine's own, OpenAI's with any version, and an operator's."""

from __future__ import annotations

from pathlib import Path

import pytest

from voxyard.service.errors import NotFoundError, ServiceError
from voxyard.service.names import open_models
from voxyard.speech.engine import EngineSpec

ENGINE = EngineSpec("engines:tones")


def test_the_model_is_named_after_the_package_of_its_engine() -> None:
    assert open_models(EngineSpec("voxyard.bark.engine:bark"), None).own == "bark"
    assert open_models(ENGINE, None).own == "tones"


@pytest.mark.parametrize(
    "name", ["tones", "tts-1", "tts-1-hd", "tts-1-1106", "gpt-4o-mini-tts", "gpt-4o-mini-tts-2025-12-15"]
)  # fmt: skip
def test_every_version_of_openais_models_is_a_name(name: str) -> None:
    open_models(ENGINE, None).check(name)


@pytest.mark.parametrize("name", ["bark", "tts", "tts-2", "gpt-4o-mini", "whisper-1", "", "x" * 100_000])
def test_other_names_are_refused_and_the_message_lists_the_known_ones(name: str) -> None:
    with pytest.raises(NotFoundError, match=r"tones, also under the names gpt-4o-mini-tts, .*tts-1\*") as caught:
        open_models(ENGINE, None).check(name)
    assert (caught.value.code, caught.value.parameter) == ("model_not_found", "model")
    assert len(str(caught.value)) < 400


def test_an_operators_names_are_added(tmp_path: Path) -> None:
    table = tmp_path / "models.yaml"
    table.write_text("kokoro: tones\neleven_*: tones\n")
    models = open_models(ENGINE, table)
    for name in ("kokoro", "eleven_flash_v2", "tts-1-hd"):
        models.check(name)
    assert models.listed() == ("tones", "gpt-4o-mini-tts", "kokoro", "tts-1", "tts-1-hd")
    with pytest.raises(NotFoundError):
        models.check("kokoro-82m")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("kokoro: bark", "no model 'bark'; its model is tones"),
        ("ko*ro: tones", "at the end alone"),
        ("- kokoro", "a name and a model"),
        ("a: [", "not YAML: .*; expected a YAML file of model names"),
        (None, "no such file"),
    ],
)
def test_an_invalid_file_of_model_names_is_refused_at_the_start(tmp_path: Path, text: str | None, reason: str) -> None:
    table = tmp_path / "models.yaml"
    if text is not None:
        table.write_text(text)
    with pytest.raises(ServiceError, match=reason) as caught:
        open_models(ENGINE, table)
    assert str(table) in str(caught.value)
