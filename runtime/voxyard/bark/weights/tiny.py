"""Tiny random Bark checkpoint in Hugging Face's layout: it speaks noise, for tests and demos."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from voxyard.bark.errors import BarkError
from voxyard.bark.weights.checkpoint import MARKER
from voxyard.bark.weights.tokenizer import UNKNOWN, word_pieces

SPECIAL = ("[PAD]", UNKNOWN, "[CLS]", "[SEP]", "[MASK]")
LATIN = "abcdefghijklmnopqrstuvwxyzàáâãäåæçèéêëìíîïñòóôõöøùúûüýÿßœąćęłńśźżğışș"
CYRILLIC = "абвгдеёжзийклмнопрстуфхцчшщъыьэюя"
MARKS = ".,;:!?'\"()-–—…«»“”‘’/&%$€£+=*#@_[]♪。，、！？।"
WORDS = ("the", "and", "of", "to", "in", "is", "it", "that", "was", "he", "she", "you", "with", "for", "on", "at")


@dataclass(frozen=True)
class TinyShape:
    """Sizes of a checkpoint. The code vocabularies are Bark's own by default, so that its voices fit."""

    layers: int = 2
    hidden: int = 64
    heads: int = 4
    block: int = 1024
    semantic_vocabulary: int = 10_000
    codebook: int = 1024
    codebooks: int = 8
    spare_coarse_outputs: int = 48  # rows of the coarse head that are no code, as in the published models
    end_after: int = 90  # semantic tokens after which the end becomes likely; 0: never
    fine_window: int = 1024  # frames; half of them are history
    codec_filters: int = 4
    codec_hidden: int = 16
    max_new_tokens: int = 768


def write(directory: Path, shape: TinyShape | None = None, *, seed: int = 0) -> None:
    """Write a checkpoint with random weights into an empty or new directory, marked as random.

    Raises:
        BarkError: the directory contains other files, or cannot be written.
    """
    from safetensors import SafetensorError

    try:
        _write(directory, shape or TinyShape(), seed)
    except (OSError, SafetensorError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise BarkError(
            f"{directory} cannot be written: {reason}; name a directory on a disk with 30 MB of space"
        ) from error


def _write(directory: Path, shape: TinyShape, seed: int) -> None:
    from safetensors.torch import save_file

    if directory.exists() and any(directory.iterdir()) and not (directory / MARKER).exists():
        raise BarkError(f"{directory} contains other files: name an empty or a new directory for the tiny checkpoint")
    directory.mkdir(parents=True, exist_ok=True)
    write_tokenizer(directory)
    (directory / "generation_config.json").write_text(json.dumps(generation(shape), indent=2) + "\n")
    model = random_model(shape, seed)
    state = {name: tensor.clone().contiguous() for name, tensor in model.state_dict().items()}
    save_file(state, directory / "model.safetensors", metadata={"format": "pt"})
    model.config.save_pretrained(directory)
    note = {"random_weights": True, "seed": seed, "shape": asdict(shape)}
    (directory / MARKER).write_text(json.dumps(note, indent=2) + "\n")


@dataclass(frozen=True)
class _TextIds:
    """Ids of text in the vocabulary of the semantic model."""

    offset: int
    pad: int
    infer: int


def _text_ids(shape: TinyShape, words: int) -> _TextIds:
    offset = shape.semantic_vocabulary + 48
    return _TextIds(offset=offset, pad=offset + words, infer=offset + words + 4)


def _vocabulary() -> list[str]:
    small = LATIN + CYRILLIC
    capital = [each.upper() for each in small if len(each.upper()) == 1]
    letters = list(dict.fromkeys([*small, *capital, *"0123456789", *MARKS]))
    return [*SPECIAL, *letters, *(f"##{each}" for each in letters), *WORDS]


def write_tokenizer(directory: Path) -> None:
    """Write a word-piece tokenizer like BERT's: words of a short list, else single letters. Needs no torch."""
    vocabulary = _vocabulary()
    tokenizer = word_pieces({word: at for at, word in enumerate(vocabulary)})
    tokenizer.save(str(directory / "tokenizer.json"))
    (directory / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    named = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": False, "model_max_length": 512, **named}
    (directory / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")


def random_model(shape: TinyShape, seed: int) -> Any:
    """A `BarkModel` of the given sizes with random weights; without generation settings."""
    import torch
    from transformers import BarkModel

    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        model = BarkModel(_configuration(shape, _text_ids(shape, len(_vocabulary()))))
        for codebook in model.codec_model.quantizer.layers:
            codebook.codebook.embed.normal_(std=1 / math.sqrt(shape.codebooks))
        if shape.end_after:
            _raise_end_probability(model.semantic, shape)
    model.train(False)
    return model


def generation(shape: TinyShape) -> dict[str, Any]:
    """Generation settings of the three stages, which `save_pretrained` cannot write."""
    ids = _text_ids(shape, len(_vocabulary()))
    coded = shape.semantic_vocabulary + 2 * shape.codebook
    return {
        "model_type": "bark",
        "sample_rate": 24_000,
        "codebook_size": shape.codebook,
        "semantic_config": {
            "eos_token_id": shape.semantic_vocabulary,
            "max_new_tokens": shape.max_new_tokens,
            "max_input_semantic_length": 256,
            "semantic_vocab_size": shape.semantic_vocabulary,
            "semantic_rate_hz": 49.9,
            "text_encoding_offset": ids.offset,
            "text_pad_token": ids.pad,
            "semantic_infer_token": ids.infer,
            "do_sample": True,
            "temperature": 0.7,
        },
        "coarse_acoustics_config": {
            "coarse_semantic_pad_token": coded,
            "coarse_infer_token": coded + 2,
            "coarse_rate_hz": 75,
            "n_coarse_codebooks": 2,
            "max_coarse_input_length": 256,
            "max_coarse_history": 630,
            "sliding_window_len": 60,
            "do_sample": True,
            "temperature": 0.7,
        },
        "fine_acoustics_config": {
            "temperature": 0.5,
            "max_fine_history_length": shape.fine_window // 2,
            "max_fine_input_length": shape.fine_window,
            "n_fine_codebooks": shape.codebooks,
        },
    }


def _configuration(shape: TinyShape, ids: _TextIds) -> Any:
    from transformers import BarkConfig, EncodecConfig

    sizes = {
        "num_layers": shape.layers,
        "num_heads": shape.heads,
        "hidden_size": shape.hidden,
        "block_size": shape.block,
        "dropout": 0.0,
        "bias": True,
    }
    coarse_outputs = shape.semantic_vocabulary + 2 * shape.codebook
    kilobits = shape.codebooks * 75 * math.ceil(math.log2(shape.codebook)) / 1000
    return BarkConfig(
        architectures=["BarkModel"],
        dtype="float32",
        semantic_config={
            **sizes,
            "input_vocab_size": ids.infer + 1,
            "output_vocab_size": shape.semantic_vocabulary + 48,
        },
        coarse_acoustics_config={
            **sizes,
            "input_vocab_size": coarse_outputs + 48,
            "output_vocab_size": coarse_outputs + shape.spare_coarse_outputs,
        },
        fine_acoustics_config={
            **sizes,
            "input_vocab_size": shape.codebook + 32,
            "output_vocab_size": shape.codebook + 32,
            "n_codes_total": shape.codebooks,
            "n_codes_given": 1,
        },
        codec_config=EncodecConfig(
            num_filters=shape.codec_filters,
            hidden_size=shape.codec_hidden,
            codebook_size=shape.codebook,
            target_bandwidths=[kilobits],
            num_lstm_layers=1,
        ),
    )


def _raise_end_probability(semantic: Any, shape: TinyShape) -> None:
    """Change the random weights so that the end token becomes likely around `end_after` tokens.

    A random model would decode every chunk up to the limit. One direction of the hidden space is given to the end:
    the position embeddings point along it from `end_after` on, and the row of the end token reads it.
    """
    import torch

    direction = torch.ones(shape.hidden) / math.sqrt(shape.hidden)
    direction[::2] *= -1  # a constant direction would be lost in the layer norm
    positions = torch.arange(shape.block) - (257 + shape.end_after)
    ramp = (positions / shape.end_after + 1).clamp(0, 4)
    semantic.position_embeds_layer.weight += ramp[:, None] * direction * 0.12
    semantic.lm_head.weight[shape.semantic_vocabulary] = direction * 1.1
