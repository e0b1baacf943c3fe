"""Bark's front: what the parent process knows of a model without its weights."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from voxyard.bark import voices
from voxyard.bark.config import BarkConfig
from voxyard.bark.errors import BarkError
from voxyard.bark.frontend import frontend
from voxyard.bark.weights import tiny
from voxyard.bark.weights.checkpoint import MARKER
from voxyard.bark.weights.tokenizer import read
from voxyard.speech.frontend import open_frontend

STAGES = ("semantic", "coarse_acoustics", "fine_acoustics", "codec_model")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """All that the front reads of a model; its weights are one number a stage."""
    directory = tmp_path / "model"
    directory.mkdir()
    (directory / "config.json").write_text('{"model_type": "bark"}')
    (directory / "generation_config.json").write_text(json.dumps(tiny.generation(tiny.TinyShape())))
    save_file({f"{stage}.weight": np.zeros(1, np.float32) for stage in STAGES}, directory / "model.safetensors")
    tiny.write_tokenizer(directory)
    return directory


def test_a_setting_names_it_and_it_names_what_a_worker_loads(model: Path) -> None:
    front = open_frontend("voxyard.bark.frontend:frontend", {"model": str(model), "device": "cpu", "int8": True})

    settings = BarkConfig.model_validate(json.loads(json.dumps(front.engine.settings)))

    assert front.engine.factory == "voxyard.bark.engine:create"
    assert settings == BarkConfig(model=model, device="cpu", int8=True)
    assert (front.max_tokens, front.max_seconds) == (256, 13)


def test_the_model_is_found_from_any_working_directory(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(model.parent)

    front = frontend({"model": "model"})

    assert front.engine.settings["model"] == str(model)


def test_neither_torch_nor_transformers_is_imported(model: Path) -> None:
    program = (
        "import sys\n"
        "from voxyard.speech.frontend import open_frontend\n"
        "front = open_frontend('voxyard.bark.frontend:frontend', {'model': sys.argv[1]})\n"
        "front.count_tokens('Hello'), front.voices(), front.check_voice('announcer')\n"
        "print(sorted({'torch', 'transformers', 'tensorflow', 'bark'} & set(sys.modules)))\n"
    )

    ended = subprocess.run([sys.executable, "-c", program, model], capture_output=True, text=True, check=True)

    assert ended.stdout.strip() == "[]"


def test_tokens_are_counted_with_the_models_own_tokenizer(model: Path) -> None:
    front = frontend({"model": model})

    assert front.count_tokens("the the") == 2
    assert front.count_tokens("xyz, the") == 5  # three letters, a comma, a word of the list
    assert front.count_tokens("") == 0


def test_no_token_is_added_or_cut_whatever_the_tokenizer_file_says(model: Path) -> None:
    settings = json.loads((model / "tokenizer.json").read_text())
    settings["truncation"] = {"direction": "Right", "max_length": 8, "strategy": "LongestFirst", "stride": 0}
    settings["padding"] = {
        "strategy": {"Fixed": 16}, "direction": "Right", "pad_to_multiple_of": None,
        "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]",
    }  # fmt: skip
    (model / "tokenizer.json").write_text(json.dumps(settings))
    front = frontend({"model": model})

    assert front.count_tokens("the " * 300) == 300
    assert front.count_tokens("the") == 1


def test_threads_count_at_the_same_time(model: Path) -> None:
    front = frontend({"model": model})
    texts = ["the " * (1 + number % 50) + "x" * (number % 7) for number in range(400)]
    alone = [front.count_tokens(text) for text in texts]

    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(front.count_tokens, texts * 5))

    assert together == alone * 5


def test_half_a_surrogate_pair_is_refused_in_words(model: Path) -> None:
    with pytest.raises(BarkError, match="lone surrogate"):
        frontend({"model": model}).count_tokens("broken \ud83d")


def test_random_weights_are_noted(model: Path) -> None:
    assert frontend({"model": model}).notes == ()
    (model / MARKER).write_text('{"random_weights": true}')

    (note,) = frontend({"model": model}).notes

    assert "random" in note
    assert str(model) in note


def test_a_directory_without_weights_is_refused(model: Path) -> None:
    (model / "model.safetensors").unlink()

    with pytest.raises(BarkError, match=r"no usable Bark model: there are no weights .* Run `voxyard weights fetch`"):
        frontend({"model": model})


def test_a_directory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BarkError, match="there is no directory"):
        frontend({"model": tmp_path / "nowhere"})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"batch_size": 0}, r"batch_size\..*greater than or equal to 1"),
        ({"colour": "red"}, "colour: Extra inputs are not permitted"),
    ],
)
def test_wrong_settings_are_named(model: Path, settings: dict[str, object], said: str) -> None:
    with pytest.raises(BarkError, match=f"invalid settings of Bark: {said}"):
        frontend({"model": model, **settings})


@pytest.mark.parametrize("content", [b"{}", b"no JSON", b"\xff\xfe"])
def test_a_damaged_tokenizer_is_named(model: Path, content: bytes) -> None:
    (model / "tokenizer.json").write_bytes(content)

    with pytest.raises(BarkError, match=r"tokenizer\.json contains no tokenizer: .*download the model again"):
        frontend({"model": model})


def test_a_mark_that_cannot_be_read_is_named(model: Path) -> None:
    (model / MARKER).write_text("half of {")

    with pytest.raises(BarkError, match=f"{MARKER} is not JSON"):
        frontend({"model": model})


def test_a_list_of_word_pieces_counts_the_same(model: Path) -> None:
    before = read(model).encode("the Zürich xyz").ids
    (model / "tokenizer.json").unlink()

    assert read(model).encode("the Zürich xyz").ids == before


def test_a_word_piece_may_be_a_line_separator(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[UNK]\n\u2028\nthe\n", encoding="utf-8")

    assert read(tmp_path).encode("the").ids == [2]


def test_a_list_without_the_unknown_piece_is_refused(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("the\nof\n")

    with pytest.raises(BarkError, match=r"2 word pieces and no \[UNK\]"):
        read(tmp_path)


def test_its_voices_are_the_presets(model: Path) -> None:
    front = frontend({"model": model})

    assert tuple(front.voices()) == voices.names()
    for name in ("announcer", "v2/de_speaker_3"):
        front.check_voice(name)


def test_an_unknown_voice_gets_the_nearest_names(model: Path) -> None:
    with pytest.raises(BarkError, match="v2/en_speaker_6") as refusal:
        frontend({"model": model}).check_voice("v2/en_speeker_6")
    assert refusal.value.exit_code == 2


@pytest.mark.parametrize(
    ("voice", "language"),
    [
        ("v2/de_speaker_3", "de"),
        ("en_speaker_0", "en"),
        ("announcer", None),
        ("my/voice.npz", None),
        ("xx_speaker_1", None),
        (None, None),
    ],
)
def test_a_presets_name_says_its_language(model: Path, voice: str | None, language: str | None) -> None:
    assert frontend({"model": model}).language(voice) == language


def test_voices_of_the_settings_directory_can_be_asked_for(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "voices"
    folder.mkdir()
    frames = np.zeros((8, 150), np.int64)
    prompt = np.zeros(100, np.int64)
    np.savez(folder / "narrator.npz", semantic_prompt=prompt, coarse_prompt=frames[:2], fine_prompt=frames)

    front = frontend({"model": str(model), "voices": str(folder)})

    assert "narrator" in front.voices()
    front.check_voice("narrator")
    assert front.engine.settings["voices"] == str(folder)
    with pytest.raises(BarkError, match="cannot be read"):
        frontend({"model": str(model), "voices": str(tmp_path / "none")})
