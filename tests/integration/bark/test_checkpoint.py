"""Reading a model: what is there, what is missing, what is random."""

from __future__ import annotations

import io
import json
import pickle
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from voxyard.bark.errors import BarkError
from voxyard.bark.weights import tiny, tokenizer
from voxyard.bark.weights.checkpoint import MARKER, check, is_random, load


@pytest.fixture
def copy(tiny_model: Path, tmp_path: Path) -> Path:
    """A model to damage."""
    return Path(shutil.copytree(tiny_model, tmp_path / "model"))


def test_transformers_reads_the_tiny_checkpoint_whole(tiny_model: Path) -> None:
    from transformers import AutoTokenizer, BarkModel

    model, report = BarkModel.from_pretrained(tiny_model, output_loading_info=True)
    reader: Any = AutoTokenizer.from_pretrained(tiny_model)

    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert model.generation_config.semantic_config["eos_token_id"] == 10_000
    text = "Hello the sailor, 42!"
    ours = load(tiny_model).tokenizer.encode(text, add_special_tokens=False).ids
    assert reader(text, add_special_tokens=False)["input_ids"] == ours


def test_a_tokenizer_without_its_file_is_made_of_the_vocabulary(copy: Path, tiny_model: Path) -> None:
    (copy / "tokenizer.json").unlink()

    texts = ("Hello — the sailor’s 42 doors!", "Größe, ça va? Привет")
    for text in texts:
        one, other = (load(each).tokenizer.encode(text, add_special_tokens=False).ids for each in (copy, tiny_model))
        assert one == other


def test_every_letter_is_a_token_of_the_tiny_model_small_and_capital(tiny_model: Path) -> None:
    encoded = tokenizer.read(tiny_model).encode("Größe? ÇA VA! Привет ŁÓDŹ 42", add_special_tokens=False)

    assert tokenizer.UNKNOWN not in encoded.tokens


def test_a_seed_gives_the_same_weights_and_another_gives_others(tmp_path: Path) -> None:
    shape = tiny.TinyShape(layers=1, semantic_vocabulary=100, codebook=64)
    for name, seed in (("one", 3), ("same", 3), ("other", 4)):
        tiny.write(tmp_path / name, shape, seed=seed)

    one, same, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "same", "other"))

    assert one == same
    assert one != other


def test_random_weights_are_marked(copy: Path) -> None:
    assert load(copy).random

    (copy / MARKER).unlink()

    assert not is_random(copy)


def test_a_directory_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")

    with pytest.raises(BarkError, match="contains other files"):
        tiny.write(tmp_path)

    assert [each.name for each in tmp_path.iterdir()] == ["letter.txt"]


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BarkError, match="file/model cannot be written: Not a directory"):
        tiny.write(tmp_path / "file/model")

    def full(*_: object, **__: object) -> None:
        raise SafetensorError("No space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", full)
    with pytest.raises(BarkError, match="model cannot be written: No space left on device; name a directory on"):
        tiny.write(tmp_path / "model", tiny.TinyShape(layers=1, semantic_vocabulary=100, codebook=64))


def test_bfloat16_leaves_the_codec_in_float32(tiny_model: Path) -> None:
    model = load(tiny_model, precision="bfloat16").model

    assert model.semantic.lm_head.weight.dtype == torch.bfloat16
    assert {each.dtype for each in model.codec_model.parameters()} == {torch.float32}


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("config.json", "config.json is missing"),
        ("generation_config.json", "generation_config.json is missing"),
        ("model.safetensors", "there are no weights"),
    ],
)
def test_a_missing_file_is_named(copy: Path, file: str, says: str) -> None:
    (copy / file).unlink()

    assert any(says in problem for problem in check(copy))
    with pytest.raises(BarkError, match=says):
        load(copy)


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:1f\nsize 4487372549\n"
PAGE = b"<!DOCTYPE html><html><title>Sign in</title></html>"
PARTS = ("semantic", "coarse_acoustics", "fine_acoustics", "codec_model")


def archive(name: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as opened:
        opened.writestr(name, b"anything")
    return file.getvalue()


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.safetensors"])
@pytest.mark.parametrize(
    ("content", "says"),
    [
        (POINTER, "is a pointer of Git LFS"),  # Comfy-Org/ComfyUI#13669
        (PAGE, "is a web page"),  # suno-ai/bark#124, coqui-ai/TTS#3567
        (b'{"error": "no access"}', "is a web page"),
        (b"", "is empty"),
        (b"PK\x03\x04 and no end", "is damaged"),  # suno-ai/bark#559
        (pickle.dumps({"weights": 1}), "is damaged"),
    ],
)
def test_what_lies_in_place_of_the_weights_is_named(copy: Path, name: str, content: bytes, says: str) -> None:
    (copy / "model.safetensors").unlink()
    (copy / name).write_bytes(content)

    (problem,) = check(copy)
    assert problem.startswith(f"{name} {says}")


def test_a_shard_and_a_setting_are_looked_at_too(copy: Path) -> None:
    (copy / "model.safetensors").unlink()
    (copy / "pytorch_model.bin.index.json").write_text('{"weight_map": {"semantic.a": "pytorch_model-1.bin"}}')
    (copy / "pytorch_model-1.bin").write_bytes(POINTER)
    (copy / "config.json").write_bytes(PAGE)

    assert [each.partition(":")[0] for each in check(copy)] == [
        "config.json is a web page, not the file",
        "pytorch_model-1.bin is a pointer of Git LFS, not the file",
    ]


def test_an_archive_around_the_weights_is_to_be_unpacked(copy: Path) -> None:
    (copy / "model.safetensors").unlink()
    (copy / "pytorch_model.bin").write_bytes(archive("pytorch_model.bin"))

    assert check(copy) == (
        "pytorch_model.bin is an archive of pytorch_model.bin, expected tensors that PyTorch saved: unpack it",
    )


def test_a_link_to_nothing_is_named(copy: Path) -> None:
    for name in ("model.safetensors", "config.json"):
        (copy / name).unlink()
        (copy / name).symlink_to("../blobs/1f")

    assert check(copy) == (
        "config.json is a link to ../blobs/1f, which is not there",
        "model.safetensors is a link to ../blobs/1f, which is not there",
    )


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("models--suno--bark", "there is no config.json, but one in {root}/models--suno--bark/snapshots/1f: give that"),
        ("", "there is no config.json, but one in {root}/models--suno--bark/snapshots/1f: give that"),
        ("models--suno--bark/snapshots", "there is no config.json, but one in {root}/models--suno--bark/snapshots/1f"),
        ("models--suno--bark/snapshots/1f/config.json", "config.json is a file, expected the directory of a model's"),
        ("suno", "text_2.pt, fine.pt are weights in Suno's first layout, expected Hugging Face's"),  # suno-ai/bark#656
        ("nowhere", "there is no directory"),
    ],
)
def test_a_path_beside_the_model_is_told_where_it_is(tiny_model: Path, tmp_path: Path, given: str, says: str) -> None:
    shutil.copytree(tiny_model, tmp_path / "models--suno--bark/snapshots/1f")
    (tmp_path / "suno").mkdir()
    for name in ("text_2.pt", "fine.pt"):
        (tmp_path / "suno" / name).write_bytes(b"PK")

    (problem,) = check(tmp_path / given)
    assert says.format(root=tmp_path) in problem


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod."])
def test_tensors_of_other_names_are_named(copy: Path, prefix: str) -> None:
    state = {f"{prefix}{name}": each for name, each in load_file(copy / "model.safetensors").items()}
    save_file(state, copy / "model.safetensors")
    part = prefix.removesuffix(".")
    assert check(copy) == (f"the weights have no part {', '.join(PARTS)}; they have {part}",)

    (copy / "model.safetensors").unlink()
    torch.save(state, copy / "pytorch_model.bin")
    assert check(copy) == (f"the weights have no part {', '.join(PARTS)}; they have {part}",)


def test_a_tensor_of_another_name_in_its_part_is_named(copy: Path) -> None:
    state = load_file(copy / "model.safetensors")
    state["semantic.head.weight"] = state.pop("semantic.lm_head.weight")
    save_file(state, copy / "model.safetensors")
    with pytest.raises(BarkError, match=r"lacks 1 tensors .* and has 1 of other names, semantic\.head\.weight"):
        load(copy)


def test_tensors_of_another_size_than_the_settings_are_named(copy: Path) -> None:
    """A small model's weights beside a large one's config.json."""
    config = json.loads((copy / "config.json").read_text())
    config["semantic_config"]["block_size"] = 512
    (copy / "config.json").write_text(json.dumps(config))

    with pytest.raises(
        BarkError, match=r"semantic\.position_embeds_layer\.weight has the shape \(1024, 64\), .* expects \(512, 64\)"
    ):
        load(copy)


def test_a_model_of_another_kind_is_refused(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "model_type": "gpt2"}))

    assert check(copy) == ("config.json describes the model type 'gpt2', expected 'bark'",)


def test_missing_tensors_are_named(copy: Path) -> None:
    file = copy / "model.safetensors"
    weights = load_file(file)
    save_file({name: each for name, each in weights.items() if name != "semantic.lm_head.weight"}, file)

    with pytest.raises(BarkError, match=r"lacks 1 tensors of its model, semantic\.lm_head\.weight"):
        load(copy)


def test_a_part_without_weights_is_named(copy: Path) -> None:
    file = copy / "model.safetensors"
    weights = load_file(file)
    save_file({name: each for name, each in weights.items() if not name.startswith("codec_model")}, file)

    assert check(copy) == ("the weights have no part codec_model",)

    torch.save(load_file(file), copy / "pytorch_model.bin")
    file.unlink()
    assert check(copy) == ("the weights have no part codec_model",)


def test_damaged_weights_are_refused(copy: Path) -> None:
    (copy / "model.safetensors").write_bytes(b"\x08")

    assert "is damaged" in check(copy)[0]


def test_a_pickle_that_runs_code_is_refused(copy: Path, tmp_path: Path) -> None:
    class Touch:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "was-run",)

    (copy / "model.safetensors").unlink()
    torch.save({"semantic.lm_head.weight": Touch()}, copy / "pytorch_model.bin")

    with pytest.raises(BarkError, match="could run code"):
        load(copy)

    assert not (tmp_path / "was-run").exists()


def test_weights_in_torch_files_are_read(copy: Path) -> None:
    state = load_file(copy / "model.safetensors")
    (copy / "model.safetensors").unlink()
    torch.save(state, copy / "pytorch_model.bin")

    assert check(copy) == ()
    assert torch.equal(load(copy).model.semantic.lm_head.weight, state["semantic.lm_head.weight"])


def test_settings_that_the_loops_cannot_run_are_refused(copy: Path) -> None:
    file = copy / "generation_config.json"
    settings = json.loads(file.read_text())
    settings["semantic_config"]["eos_token_id"] = 9_999
    file.write_text(json.dumps(settings))

    with pytest.raises(BarkError, match="the end of speech is token 9999"):
        load(copy)
