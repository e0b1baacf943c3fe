"""Bark's tokenizer: BERT's multilingual word pieces, cased, without special tokens or truncation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from voxyard.bark.errors import BarkError

UNKNOWN = "[UNK]"


def word_pieces(vocabulary: Mapping[str, int]) -> Any:
    """A `tokenizers.Tokenizer` over a vocabulary of word pieces; `##` marks the continuation of a word."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    tokenizer = Tokenizer(models.WordPiece(dict(vocabulary), unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def read(directory: Path) -> Any:
    """Tokenizer of a model, from tokenizer.json or vocab.txt; read-only, so threads may share it.

    Raises:
        BarkError: the file cannot be read, or contains no tokenizer.
    """
    from tokenizers import Tokenizer

    whole, list_ = directory / "tokenizer.json", directory / "vocab.txt"
    if not whole.is_file():
        return word_pieces(_vocabulary(list_))
    try:
        tokenizer = Tokenizer.from_file(str(whole))
    except Exception as problem:  # tokenizers raises nothing narrower
        raise BarkError(f"{whole} contains no tokenizer: {problem}; download the model again") from problem
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _vocabulary(file: Path) -> dict[str, int]:
    """Ids by word piece: one piece a line, from 0."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise BarkError(
            f"{file} cannot be read as a list of word pieces: {problem}; download the model again"
        ) from problem
    lines = text.removesuffix("\n").split("\n")  # splitlines would end a line at U+2028, which is a piece
    pieces = {piece: at for at, piece in enumerate(lines)}
    if UNKNOWN not in pieces:
        raise BarkError(
            f"{file} lists {len(lines)} word pieces and no {UNKNOWN}: expected Bark's vocab.txt; download it again"
        )
    return pieces
