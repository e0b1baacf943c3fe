"""Voice engine: the speech room's engine protocol on a voice that `voxyard export` wrote."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from voxyard.corpus import CorpusError
from voxyard.corpus.coverage import coverage_of
from voxyard.speech.engine import Answer, ChunkSource, Ready
from voxyard.speech.pool.worker_process import given_gpu
from voxyard.speech.requests import SAMPLE_RATE, Request, Result, Unspeakable
from voxyard.trainer.devices.tensorflow_import import import_tensorflow
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.load_trainable import load_trainable
from voxyard.trainer.text.reader import TextReader
from voxyard.trainer.voice.directory import VoiceDirectory, read, read_weights

if TYPE_CHECKING:
    import keras

    from voxyard.trainer.trainable import TrainableModel

log = logging.getLogger("voxyard.trainer")

CHUNK_PAUSE = 120.0  # seconds that a chunk may take: TensorFlow and NumPy report no progress within it


class VoiceEngine:
    """The pool's engine protocol: one chunk at a time, so that its sound depends on nothing else that is spoken.

    The model predicts all frames at once; a batch would make it no faster on a CPU.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """`model` is the voice's directory, `device` cpu, cuda or auto, `threads` of an operation on the CPU."""
        self._path, self._device = Path(settings["model"]), settings.get("device", "auto")
        self._threads = settings.get("threads")
        self._voice: VoiceDirectory | None = None
        self._loaded: tuple[TrainableModel, keras.Model] | None = None

    def prepare(self) -> Ready:
        """Load the voice.

        Raises:
            TrainerError: the directory holds no voice, or there is no such device.
        """
        voice = read(self._path)
        tf = import_tensorflow()
        if self._threads is not None:
            tf.config.threading.set_intra_op_parallelism_threads(self._threads)
            tf.config.threading.set_inter_op_parallelism_threads(1)
        device = self._choose_device(tf)
        weights = read_weights(voice)
        from voxyard.trainer.steps.state import mismatches, named_weights

        trainable = load_trainable(voice.config, voice.speakers)
        model = trainable.build()
        variables = {
            name: variable
            for name, variable in named_weights(model).items()
            if not name.startswith("model/discriminators/")
        }
        wrong = mismatches({name: tuple(each.shape) for name, each in variables.items()}, weights)
        if wrong:
            raise TrainerError(f"{self._path} does not fit its model: {wrong[0]}; export the voice with this voxyard")
        for name, variable in variables.items():
            variable.assign(weights[name])
        self._voice, self._loaded = voice, (trainable, model)
        facts = {"device": device, "batch_size": 1, "sample_rate": SAMPLE_RATE, "weights": voice.identity}
        return Ready(1, SAMPLE_RATE, facts, 1)

    def speak(self, source: ChunkSource) -> Iterator[Answer]:
        """Speak the chunks of the source one by one. A text that the model cannot read is unspeakable.

        Raises:
            TrainerError: the engine has no model.
        """
        while requests := source.take(1, wait=True):
            for request in requests:
                source.progress(CHUNK_PAUSE)
                yield request, self._answer(request)
                source.progress()

    def shrink(self, rows: int) -> None:
        """Nothing to do: a batch is one chunk already."""
        raise MemoryError(f"a batch of {rows}: one chunk alone does not fit into the memory of the device")

    def close(self) -> None:
        """Free the model."""
        self._loaded = self._voice = None

    def _answer(self, request: Request) -> Result | Unspeakable:
        if self._loaded is None or self._voice is None:
            raise TrainerError("the engine has no model: prepare it first")
        if not any(map(str.isalnum, request.text)):
            return Result(request.chunk, np.zeros(SAMPLE_RATE // 10, np.float32))  # a line of asterisks is a pause
        if request.voice_file is not None:  # of a document that was submitted to another engine
            return Unspeakable(
                "the voice is an uploaded file, this engine has only the speakers it was trained on", refused=True
            )
        voices = self._voice.voices
        if request.voice is not None and request.voice not in voices:
            return Unspeakable(
                f"the voice in {self._path} has no speaker {request.voice!r}: it has {', '.join(voices[:20])}",
                refused=True,
            )
        trainable, model = self._loaded
        chosen: dict[str, Any] = {"speaker": voices.index(request.voice)} if request.voice is not None else {}
        if self._voice.vocoder != "griffin-lim":
            chosen["vocoder"] = self._voice.vocoder
        reader = TextReader(self._voice.config)
        try:
            if (language := reader.spoken_language(request.language)) is not None:
                chosen["language"] = language
            text = reader.without_signs(request.text)
            coverage = coverage_of(reader.read(text, language))
            if coverage.dropped:
                log.warning("%r: %s", text, coverage.sentences()[0])
            sound = trainable.speak(model, text, **chosen)
        except (TrainerError, CorpusError) as error:
            return Unspeakable(str(error), refused=True)
        import soxr

        if trainable.sample_rate != SAMPLE_RATE:
            sound = soxr.resample(sound, trainable.sample_rate, SAMPLE_RATE, quality="HQ")
        audio = np.clip(np.asarray(sound, np.float32), -1, 1)
        if not np.isfinite(audio).all():
            return Unspeakable(f"the voice in {self._path} made samples that are no numbers: train it again")
        return Result(request.chunk, audio)

    def _choose_device(self, tf: Any) -> str:
        gpus = [] if self._device == "cpu" else tf.config.list_physical_devices("GPU")
        if not gpus and (self._device == "cuda" or (self._device != "cpu" and given_gpu())):
            raise TrainerError(
                "TensorFlow sees no GPU, but one was given or asked for: install voxyard[trainer,gpu] and check "
                "nvidia-smi, or set --device cpu"
            )
        tf.config.set_visible_devices(gpus[:1], "GPU")
        for gpu in gpus[:1]:
            tf.config.experimental.set_memory_growth(gpu, enable=True)
        return "cuda" if gpus else "cpu"


def create(settings: Mapping[str, Any]) -> VoiceEngine:
    """Engine factory `voxyard.trainer.voice.engine:create`."""
    return VoiceEngine(settings)
