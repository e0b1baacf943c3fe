"""`voxyard weights`: what it prints, and how it ends."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result
from safetensors.torch import load_file

from voxyard.bark.config import BarkConfig
from voxyard.bark.inspect import inspect_model
from voxyard.bark.stages import footprint
from voxyard.bark.weights import tiny
from voxyard.bark.weights.checkpoint import BarkCheckpoint, check, load
from voxyard.cli.weights import weights

MIB = 2**20


def run(*arguments: object) -> Result:
    return CliRunner().invoke(weights, [str(each) for each in arguments])


@pytest.fixture
def copied(tiny_model: Path, tmp_path: Path) -> Path:
    """The tiny model as `weights fetch` brings it from a directory."""
    ended = run("fetch", tiny_model, "--out", tmp_path / "copied")
    assert ended.exit_code == 0, ended.output
    return tmp_path / "copied"


def test_tiny_writes_a_model_and_says_that_it_is_random(tmp_path: Path) -> None:
    ended = run("tiny", tmp_path / "tiny", "--seed", 3)

    assert ended.exit_code == 0
    assert "the weights are random" in ended.stdout
    assert check(tmp_path / "tiny") == ()
    assert json.loads((tmp_path / "tiny" / "voxyard.json").read_text())["seed"] == 3


def test_check_tells_what_there_is(tiny_model: Path, checkpoint: BarkCheckpoint) -> None:
    ended = run("check", tiny_model, "--json")
    said = json.loads(ended.stdout)

    parameters = sum(each.numel() for each in checkpoint.model.parameters())
    assert ended.exit_code == 0
    assert said["parameters"] == parameters
    assert (said["usable"], said["size"], said["precision"], said["random_weights"]) == (True, "other", "float32", True)
    assert said["tokens"] == checkpoint.tokenizer.get_vocab_size()


@pytest.mark.parametrize("precision", ["bfloat16", "float32"])
def test_the_memory_is_what_the_engine_will_count(tiny_model: Path, precision: str) -> None:
    loaded = load(tiny_model, precision=precision)  # type: ignore[arg-type]
    counted = footprint(loaded, BarkConfig(model=tiny_model, batch_size=1))

    (said,) = (each for each in inspect_model(tiny_model).memory if each.precision == precision)

    bytes_ = counted.weights, counted.activations, counted.row
    assert (said.weights, said.activations, said.row) == tuple(-(-each // MIB) for each in bytes_)


def test_pickled_weights_count_as_many_parameters(tiny_model: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(tiny_model, tmp_path / "copy"))
    torch.save(load_file(copy / "model.safetensors"), copy / "pytorch_model.bin")
    (copy / "model.safetensors").unlink()

    found, before = inspect_model(copy), inspect_model(tiny_model)

    assert found.pickled
    assert (found.parameters, found.precision) == (before.parameters, before.precision)


@pytest.mark.parametrize(
    ("shape", "size"), [((24, 1024), "large"), ((12, 768), "small"), ((12, 1024), "other"), ((24, 768), "other")]
)
def test_the_published_sizes_are_known(tiny_model: Path, tmp_path: Path, shape: tuple[int, int], size: str) -> None:
    copy = Path(shutil.copytree(tiny_model, tmp_path / "copy"))
    config = json.loads((copy / "config.json").read_text())
    config["semantic_config"] |= dict(zip(("num_layers", "hidden_size"), shape, strict=True))
    (copy / "config.json").write_text(json.dumps(config))

    assert inspect_model(copy).size == size


def test_a_model_of_one_layer_is_usable(tmp_path: Path) -> None:
    tiny.write(tmp_path, tiny.TinyShape(layers=1, semantic_vocabulary=100, codebook=64))

    found = inspect_model(tmp_path)

    assert (found.problems, found.layers) == ((), 1)


@pytest.mark.parametrize("stage", ["semantic_config", "coarse_acoustics_config"])
@pytest.mark.parametrize("size", [0, "many"])
def test_a_size_that_is_none_is_named_with_its_stage(
    tiny_model: Path, tmp_path: Path, stage: str, size: int | str
) -> None:
    copy = Path(shutil.copytree(tiny_model, tmp_path / "copy"))
    config = json.loads((copy / "config.json").read_text())
    config[stage]["num_layers"] = size
    (copy / "config.json").write_text(json.dumps(config))

    said = f"config.json: num_layers of {stage} is {size!r}, expected a number above 0"
    assert inspect_model(copy).problems == (said,)


def test_check_names_all_that_is_missing_and_ends_with_1(tiny_model: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(tiny_model, tmp_path / "copy"))
    for name in ("config.json", "model.safetensors", "vocab.txt", "tokenizer.json"):
        (copy / name).unlink()

    ended, as_json = run("check", copy), run("check", copy, "--json")

    assert (ended.exit_code, as_json.exit_code) == (1, 1)
    for said in ("config.json is missing", "there are no weights", "there is no tokenizer"):
        assert said in ended.stdout
    assert len(json.loads(as_json.stdout)["problems"]) == 3


@pytest.mark.parametrize("content", [b"no pickle", b"", b"PK\x03\x04"])
def test_pickles_that_are_damaged_are_named(tiny_model: Path, tmp_path: Path, content: bytes) -> None:
    copy = Path(shutil.copytree(tiny_model, tmp_path / "copy"))
    (copy / "model.safetensors").unlink()
    (copy / "pytorch_model.bin").write_bytes(content)

    ended = run("check", copy)

    assert ended.exit_code == 1
    assert "pytorch_model.bin" in ended.stdout


def test_a_pickle_with_code_is_named_and_not_run(tiny_model: Path, tmp_path: Path) -> None:
    class Touch:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "was-run",)

    copy = Path(shutil.copytree(tiny_model, tmp_path / "copy"))
    (copy / "model.safetensors").unlink()
    torch.save({"semantic.lm_head.weight": Touch()}, copy / "pytorch_model.bin")

    ended = run("check", copy)

    assert ended.exit_code == 1
    assert "could run code" in ended.stdout
    assert not (tmp_path / "was-run").exists()


def test_a_damaged_tokenizer_is_a_reason(tiny_model: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(tiny_model, tmp_path / "copy"))
    (copy / "tokenizer.json").write_text("{}")

    ended = run("check", copy)

    assert ended.exit_code == 1
    assert "contains no tokenizer" in ended.stdout


def test_a_changed_byte_is_found_by_its_checksum(copied: Path) -> None:
    assert run("check", copied, "--checksums").exit_code == 0
    content = bytearray((copied / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (copied / "model.safetensors").write_bytes(content)

    unseen, seen = run("check", copied), run("check", copied, "--checksums")

    assert (unseen.exit_code, seen.exit_code) == (0, 1)
    assert "model.safetensors has the SHA-256" in seen.stdout


def test_a_file_that_the_checksums_do_not_know_is_named(copied: Path) -> None:
    sums = (copied / "SHA256SUMS").read_text().splitlines(keepends=True)
    (copied / "SHA256SUMS").write_text("".join(line for line in sums if "config.json" not in line) + sums[0])
    (copied / "tokenizer_config.json").unlink()

    ended = run("check", copied, "--checksums")

    assert ended.exit_code == 1
    assert "generation_config.json is not listed in SHA256SUMS" in ended.stdout


def test_without_checksums_there_is_nothing_to_verify(tiny_model: Path) -> None:
    ended = run("check", tiny_model, "--checksums")

    assert ended.exit_code == 2
    assert "has no SHA256SUMS to verify" in ended.stderr


def test_a_list_that_is_none_is_named_by_its_line(copied: Path) -> None:
    (copied / "SHA256SUMS").write_text("# of ours\n\nnot a checksum\n")

    ended = run("check", copied, "--checksums")

    assert ended.exit_code == 2
    assert "SHA256SUMS:3: found 'not a checksum', expected 64 hexadecimal digits" in ended.stderr


def test_a_refused_fetch_is_a_sentence_and_ends_with_2(tmp_path: Path) -> None:
    ended = run("fetch", "no such model", "--out", tmp_path / "out")

    assert ended.exit_code == 2
    assert ended.stderr.startswith("voxyard weights fetch: there is no directory 'no such model'")
