"""Single clips through a model: speech from a checkpoint, and the features of one recording."""

from __future__ import annotations

import difflib
import inspect
import io
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from voxyard.corpus import Coverage, Example
from voxyard.corpus.coverage import coverage_of, total
from voxyard.host.durable_files import whole_file
from voxyard.speech.audio.joining import Joiner
from voxyard.speech.errors import SpeechError
from voxyard.speech.requests import Result
from voxyard.speech.text.chunks import TextChunk, split
from voxyard.speech.text.sentences import language_code
from voxyard.trainer import checkpoint as checkpoints
from voxyard.trainer.config import TrainConfig, trained_config
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.input import pad
from voxyard.trainer.load_trainable import load_trainable
from voxyard.trainer.model.griffin_lim import wav_of
from voxyard.trainer.sampler import Bucket
from voxyard.trainer.steps.average import has_average, weights_for_use
from voxyard.trainer.steps.state import mismatches, named_weights
from voxyard.trainer.voice.frontend import CHUNK_CHARACTERS, CHUNK_SECONDS
from voxyard.trainer.voice.vocoder_choice import AUTO, GRIFFIN_LIM, chosen_vocoder

if TYPE_CHECKING:
    import keras

    from voxyard.trainer.trainable import TrainableModel

log = logging.getLogger("voxyard.trainer")

CLIP_FRAMES = 64  # lengths are rounded up to this, so that few shapes are traced


@dataclass(frozen=True)
class SynthesizedFile:
    """Synthesised speech, written to a file."""

    path: Path
    seconds: float
    sample_rate: int
    step: int
    mel: Path | None
    texts: Coverage | None = None  # dropped and folded characters of the text, where the model reports them
    speaker: str = ""
    chunks: int = 1  # parts of the text that were spoken one by one
    averaged: bool = False  # with the averaged weights of the checkpoint (--ema)
    vocoder: str | None = GRIFFIN_LIM  # None where a model of the user's own has its way


def synthesize(
    checkpoint: Path,
    text: str,
    out: Path,
    mel: Path | None = None,
    *,
    speaker: str | None = None,
    language: str | None = None,
    vocoder: str = AUTO,
) -> SynthesizedFile:
    """Speaks `text` into `out` (WAV, 16 bit), and the mel spectrogram (frames, mels) into `mel` (.npy) if asked.

    A long text is split at its sentences, and joined with the pauses of `voxyard speak`; the mel has no pauses. The
    speaker is the first, and the language the model's own, where none is named. The vocoder is `griffin-lim`, the
    `neural` one that the model was trained with, or `auto` (see chosen_vocoder). On the CPU: one sentence needs no GPU,
    and a running training keeps its memory. Raises TrainerError, CorpusError or SpeechError.
    """
    tf.config.set_visible_devices([], "GPU")
    found = checkpoints.open_any(checkpoint)
    config, speakers = trained_config(found.meta["config"]), tuple(found.meta["speakers"])
    trainable = load_trainable(config, speakers)
    voice: dict[str, Any] = {} if speaker is None else {"speaker": _speaker_id(speakers, speaker, found.path)}
    if language is not None:
        voice["language"] = language
    _check_choice(trainable.speak, voice)
    chunks = _chunks(text, config, language)
    coverage = _read(trainable, chunks, {"language": language} if language is not None else {})
    if language not in (None, config.model.language):
        log.warning("The model has learned the sounds of %s: it speaks %s with them", config.model.language, language)
    if speaker is None and len(speakers) > 1:
        log.info("Speaker %s, the first of %d (--speaker NAME)", speakers[0], len(speakers))
    has_own = "vocoder" in inspect.signature(trainable.speak).parameters
    # After the text was read: what is chosen is told.
    taken = chosen_vocoder(vocoder, found.state, found.meta, found.path, has_own=has_own)
    if taken != GRIFFIN_LIM:
        voice["vocoder"] = taken
    model = trainable.build()
    assign_weights(model, found)
    if mel is not None:
        _write_mel(mel, trainable, model, chunks, {name: value for name, value in voice.items() if name != "vocoder"})
    sound = _joined((trainable.speak(model, chunk.text, **voice) for chunk in chunks), chunks, trainable.sample_rate)
    with _written(out) as file:
        file.write(wav_of(sound, trainable.sample_rate))
    return SynthesizedFile(
        out,
        len(sound) / trainable.sample_rate,
        trainable.sample_rate,
        found.step,
        mel,
        coverage,
        speakers[voice.get("speaker", 0)] if speakers else "",
        len(chunks),
        has_average(found.state),
        taken if config.model.module is None else voice.get("vocoder"),
    )


def _speaker_id(speakers: Sequence[str], name: str, path: Path) -> int:
    if name in speakers:
        return speakers.index(name)
    if len(speakers) < 2:
        raise TrainerError(f"--speaker {name}: the model in {path} has one voice; leave --speaker out")
    near = difflib.get_close_matches(name, speakers, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise TrainerError(f"--speaker {name}: the model in {path} has these speakers: {', '.join(speakers)}{hint}")


def _check_choice(speak: Callable[..., Any], voice: Mapping[str, Any]) -> None:
    """Raises TrainerError where a model of the user's own gives no choice of what was chosen."""
    parameters = inspect.signature(speak).parameters
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()):
        return
    for name in voice.keys() - parameters.keys():
        raise TrainerError(
            f"--{name}: this model gives no choice of it, as its `speak` has no parameter {name!r} "
            f"(see voxyard.trainer.Trainable); leave --{name} out, or add the parameter"
        )


def _chunks(text: str, config: TrainConfig, language: str | None) -> list[TextChunk]:
    """Parts of a text about as long as a corpus' clips. Raises TrainerError where there is nothing to say."""
    longest = min(CHUNK_SECONDS, config.data.max_clip_seconds)
    spoken = _sentence_language(language or config.model.language)
    # into a file, to which nobody listens meanwhile: no opening chunk
    chunks = split(text, len, max_tokens=CHUNK_CHARACTERS, max_seconds=longest, language=spoken, opening=False)
    lettered = [chunk for chunk in chunks if any(map(str.isalnum, chunk.text))]
    if not lettered:
        raise TrainerError(f"nothing to say: no letter or digit in the text {text[:40]!r}")
    for chunk in chunks:
        if chunk not in lettered:
            log.warning("%r is left out: no letter or digit", chunk.text)
    return lettered


def _sentence_language(voice: str | None) -> str | None:
    """The language whose rules end sentences; None, by the script, for a voice that is not named by a language."""
    try:
        return language_code(voice)
    except SpeechError:
        return None


def _read(trainable: TrainableModel, chunks: Sequence[TextChunk], language: Mapping[str, str]) -> Coverage | None:
    """Coverage of the whole text, where the model reports it; raises before a part that it cannot read is reached."""
    read = getattr(trainable, "read_text", None)
    if read is None:
        return None
    coverage = total(coverage_of(read(chunk.text, **language)) for chunk in chunks)
    for sentence in coverage.sentences():
        log.warning("%s", sentence)
    return coverage


def assign_weights(model: keras.Model, found: checkpoints.Checkpoint) -> None:
    """Gives the model the checkpoint's weights, averaged ones where it has some. Raises TrainerError for others."""
    variables = named_weights(model)
    weights = weights_for_use(found.state)
    wrong = mismatches({name: tuple(variable.shape) for name, variable in variables.items()}, weights)
    if wrong:
        raise TrainerError(f"{found.path} does not fit its model:\n" + "\n".join(f"  {line}" for line in wrong[:20]))
    for name, variable in variables.items():
        variable.assign(weights[name])


def _write_mel(
    path: Path, trainable: TrainableModel, model: keras.Model, chunks: Sequence[TextChunk], voice: Mapping[str, Any]
) -> None:
    predict = getattr(trainable, "mel", None)
    if predict is None:
        raise TrainerError("--mel: this model makes no mel spectrogram (its trainable has no `mel`)")
    _check_choice(predict, voice)
    mels = [predict(model, chunk.text, **voice) for chunk in chunks]
    content = io.BytesIO()  # of a full disk NumPy says how many numbers it took
    np.save(content, np.concatenate(mels), allow_pickle=False)
    with _written(path) as file:
        file.write(content.getbuffer())


def _joined(
    sounds: Iterable[NDArray[np.float32]], chunks: Sequence[TextChunk], sample_rate: int
) -> NDArray[np.float32]:
    """All chunks with the pauses between them."""
    joiner = Joiner(sample_rate=sample_rate)
    return np.concatenate(
        [
            joiner.add(Result(chunk.index, np.asarray(sound, np.float32), sample_rate), chunk.ending).audio
            for sound, chunk in zip(sounds, chunks, strict=True)
        ]
    )


@contextmanager
def _written(path: Path) -> Iterator[BinaryIO]:
    """A file that is whole or not there, and its folder; a device or a pipe as it is. Raises TrainerError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") if path.exists() and not path.is_file() else whole_file(path) as file:
            yield file
    except OSError as error:
        raise TrainerError(f"{path} cannot be written: {error.strerror}", exit_code=1) from error


def features_of_clip(config: TrainConfig) -> Callable[[Example], Mapping[str, NDArray[np.float32]]]:
    """A function from an example to its mel (frames, mels), pitch and energy (frames,)."""
    features = tf.function(load_trainable(config, ()).features, autograph=False)
    hop = config.model.hop_length

    def of_clip(example: Example) -> Mapping[str, NDArray[np.float32]]:
        frames = len(example.pcm) // hop
        padded = -(-max(frames, 1) // CLIP_FRAMES) * CLIP_FRAMES
        arrays: dict[str, Any] = pad([example], Bucket(padded, max(1, len(example.tokens))), hop)
        # The text does not touch the features: one length of it, so that it makes no new shapes.
        arrays |= {"tokens": np.zeros((1, 1), np.int32), "token_length": np.ones(1, np.int32)}
        arrays["clip_seed"] = np.zeros((1, 2), np.int32)
        made = features({name: tf.constant(value) for name, value in arrays.items()})
        return {name: made[name].numpy()[0, :frames] for name in ("mel", "pitch", "energy")}

    return of_clip
