"""Front end of the texts: characters or phonemes, their language, and whether numbers are read as words."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from voxyard import __version__
from voxyard.corpus import CorpusError
from voxyard.corpus.espeak import voice_for
from voxyard.corpus.layouts.recognize import LayoutName, stated_language
from voxyard.corpus.shards import is_shards, read_index
from voxyard.corpus.text import Normaliser, Tokenizer, Units
from voxyard.speech.reading.reader import READING_VERSION, read_words
from voxyard.trainer import checkpoint as checkpoints
from voxyard.trainer.config import ModelConfig, TrainConfig, trained_config
from voxyard.trainer.hosts.addresses import host_group
from voxyard.trainer.hosts.meeting import meet

CHOSEN = ("text_units", "language", "read_words")

log = logging.getLogger("voxyard.trainer")

PHONEMES_WITHOUT_LANGUAGE = "en-us"  # --text-units phonemes, as ever
_READ_AS = {"cmn": "zh"}  # espeak-ng's voice → language of the speech room's reading


@dataclass(frozen=True)
class _Known:
    """Front end that something was made with."""

    what: str  # such as: the shards in DIR
    text_units: Units
    language: str | None
    read_words: bool


def with_text_front_end(config: TrainConfig) -> TrainConfig:
    """The settings with units, language and reading of the texts chosen, where they are not given; says them.

    A checkpoint that is resumed, shards, and the checkpoint of --init-from keep theirs, in this order. Else texts are
    read as phonemes where their language is known, and as characters where it is not, or espeak-ng has no voice for
    it. Raises CorpusError.
    """
    training, data = config.training, config.data
    if data.train_data is None:
        return config
    model = choose(
        config.model,
        data.train_data,
        layout=data.corpus_layout,
        resumed=training.checkpoint_dir if training.resume else None,
        base=training.init_from,
    )
    return config if model is config.model else config.model_copy(update={"model": model})


def choose(
    model: ModelConfig,
    corpus: Path | None,
    *,
    layout: LayoutName = "auto",
    resumed: Path | None = None,
    base: Path | None = None,
) -> ModelConfig:
    """The model's settings with those of its texts chosen for a corpus; see `with_text_front_end`."""
    needs_language = model.text_units == "phonemes" or model.read_words is not False
    if model.text_units != "auto" and model.read_words is not None and (model.language or not needs_language):
        return model  # all is given, or was chosen before
    fixed = _FixedFrontEnds.of(corpus, resumed, base)
    kept, language = fixed.first, model.language or fixed.language
    if language is None and corpus is not None and fixed.resumed is fixed.shards is None:
        language = stated_language(corpus, layout)
    if language is None and fixed.base is not None:
        language = fixed.base.language
    units, why, level = model.text_units, "--text-units", logging.INFO
    if units == "auto" and kept is not None:
        units, why = kept.text_units, f"as in {kept.what}"
    elif units == "auto":
        units, language, why = default_units(language)
        if units == "characters" and model.language is not None:
            level = logging.WARNING  # what was asked for cannot be had
    elif units == "phonemes" and language is None:
        language, why = PHONEMES_WITHOUT_LANGUAGE, "--text-units; no --language is given"
    reads = model.read_words
    if reads is None:
        reads = kept.read_words if kept is not None else language is not None
    chosen = model.model_copy(
        update={"text_units": units, "language": language, "read_words": reads and language is not None}
    )
    if reads and language is None:
        log.warning("--read-words has no effect: the language of the texts is not known (--language CODE)")
    log.log(level, "Text: %s (%s)", described(chosen), why)
    return chosen


def default_units(language: str | None) -> tuple[Units, str | None, str]:
    """Units where nothing asks for any, the language by its voice, and why these."""
    if language is None:
        return "characters", None, "the language of the texts is not known; --language CODE takes phonemes"
    try:
        return "phonemes", voice_for(language), "the language is known"
    except CorpusError as error:
        return "characters", language, f"no phonemes: {error}"


def described(model: ModelConfig) -> str:
    """The front end in words: phonemes of en-us, numbers read as words."""
    units = f"phonemes of {model.language} by espeak-ng" if model.text_units == "phonemes" else "characters"
    if model.text_units != "phonemes" and model.language is None:
        units += ", of a language that is not known"
    version = reading_version(model)
    numbers = f"read as words (reading {version})" if version else "as they are written"
    return f"{units}; numbers, dates and units {numbers}"


def reading_version(model: ModelConfig) -> int:
    """Version of the reading that the model's texts have; 0 for none."""
    return READING_VERSION if normaliser_of(model) is not None else 0


def normaliser_of(model: ModelConfig) -> Normaliser | None:
    """Normaliser of the model's texts: the speech room's reading; None where they are taken as they are written."""
    return READING if model.read_words and model.language is not None else None


def tokenizer_of(model: ModelConfig) -> Tokenizer:
    """Tokenizer of the model's texts. Settings that were not chosen for a corpus count as `default_units` says."""
    units, language = model.text_units, model.language
    if units == "auto":
        units, language, _ = default_units(language)
    return Tokenizer(units, language, normaliser_of(model))


def spoken_words(text: str, language: str) -> str:
    """The text in the words of its language; see voxyard.speech.reading.reader."""
    return read_words(text, _READ_AS.get(language.lower(), language))


READING = Normaliser(READING_VERSION, spoken_words)


@dataclass(frozen=True)
class _FixedFrontEnds:
    """Front ends that are fixed already: of the checkpoint to resume, the shards, and the checkpoint to begin with."""

    resumed: _Known | None
    shards: _Known | None
    base: _Known | None

    @classmethod
    def of(cls, corpus: Path | None, resumed: Path | None, base: Path | None) -> _FixedFrontEnds:
        return cls(
            None if resumed is None else _of_checkpoint(resumed),
            _of_shards(corpus) if corpus is not None and is_shards(corpus) else None,
            None if base is None else _of_checkpoint(base),
        )

    @property
    def first(self) -> _Known | None:
        """The one that counts."""
        return self.resumed or self.shards or self.base

    @property
    def language(self) -> str | None:
        """Language of the run that is resumed, or of the shards."""
        found = self.resumed or self.shards
        return None if found is None else found.language


def _of_shards(path: Path) -> _Known:
    index = read_index(path)
    return _Known(f"the shards in {path}", index["text_units"], index.get("language"), bool(index.get("reading")))


def _of_checkpoint(path: Path) -> _Known | None:
    meta = checkpoints.peek(path)
    if meta is None:
        return None
    model = trained_config(meta["config"]).model
    units: Units = "phonemes" if model.text_units == "phonemes" else "characters"
    return _Known(f"the checkpoint in {path}", units, model.language, bool(model.read_words))


def with_shared_text_front_end(config: TrainConfig) -> TrainConfig:
    """See `with_text_front_end`; over hosts what is not given on a host is as on the first one.

    What is given otherwise stays, and the hosts refuse each other where they compare their settings. Raises
    TrainerError or CorpusError.
    """
    group = host_group(config)
    if group is None:
        return with_text_front_end(config)
    tell = {}
    if group.is_first:
        config = with_text_front_end(config)
        tell = {name: getattr(config.model, name) for name in CHOSEN}
    told = meet(group, {"voxyard": __version__}, wait=config.training.hosts_wait, allow_mixed=True, tell=tell)
    missing = [name for name in CHOSEN if getattr(config.model, name) in (None, "auto")]
    config = config.changed({f"model.{name}": told[name] for name in missing})
    return config if group.is_first else with_text_front_end(config)
