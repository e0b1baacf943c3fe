"""The word pieces that Bark reads: BERT's multilingual tokenizer, case kept, nothing added, nothing cut."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

UNKNOWN = "[UNK]"


def word_pieces(vocabulary: Mapping[str, int]) -> Any:
    """A `tokenizers.Tokenizer` over a vocabulary of word pieces, where `##` begins what continues a word."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    tokenizer = Tokenizer(models.WordPiece(dict(vocabulary), unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def read(directory: Path) -> Any:
    """The tokenizer of a model, from tokenizer.json or vocab.txt."""
    from tokenizers import Tokenizer

    whole = directory / "tokenizer.json"
    if not whole.is_file():
        lines = (directory / "vocab.txt").read_text(encoding="utf-8").splitlines()
        return word_pieces({piece: at for at, piece in enumerate(lines)})
    tokenizer = Tokenizer.from_file(str(whole))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
