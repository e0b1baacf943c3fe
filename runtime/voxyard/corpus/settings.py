"""Settings that a corpus is read with: what the model takes, how its texts are read, and how much may be lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from voxyard.corpus.coverage import MAX_DROPPED_TEXT, corpus_advice
from voxyard.corpus.layouts.recognize import LayoutName
from voxyard.corpus.text import Normaliser, Tokenizer, Units


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusSettings:
    """What recordings are read with, and shards have to be made with; the defaults are the model's."""

    sample_rate: int = 22050
    hop_length: int = 256  # samples of a frame: a clip needs one for each token
    text_units: Units = "characters"
    language: str | None = "en-us"
    normaliser: Normaliser | None = None
    layout: LayoutName = "auto"  # of recordings; `auto` recognizes it
    max_bad_share: float = 0.01  # of the clips
    max_dropped_text: float = MAX_DROPPED_TEXT  # share of the texts' characters; of one text ONE_TEXT times as much
    feature_settings: Mapping[str, Any] | None = None  # of precomputed features; None takes any

    @property
    def tokenizer(self) -> Tokenizer:
        """Reader of the texts."""
        return Tokenizer(self.text_units, self.language, self.normaliser)

    @property
    def reading(self) -> int:
        """Version of the reading that an index of shards names; 0 for none."""
        return 0 if self.normaliser is None else self.normaliser.version

    @property
    def advice(self) -> str:
        """Advice to a user whose corpus loses its texts."""
        return corpus_advice(self.text_units, self.language)
