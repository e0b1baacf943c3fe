"""Our model as a Trainable: from recordings to a voice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from voices import SMALL, Raw, raw_batch

from voxyard.corpus.espeak import speak
from voxyard.corpus.text import Tokenizer
from voxyard.trainer import checkpoint
from voxyard.trainer import synthesis as trained
from voxyard.trainer.config import ModelConfig, TrainConfig, TrainingConfig
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.model.sizes import Shape
from voxyard.trainer.model.trainable_tts import TextToSpeech
from voxyard.trainer.sampler import Bucket
from voxyard.trainer.steps.state import named_weights
from voxyard.trainer.trainable import Trainable


def configured(**training: Any) -> TrainConfig:
    return TrainConfig(model=ModelConfig(), training=TrainingConfig(**training))


def test_the_features_match_the_batch_specification() -> None:
    """Our model keeps to the protocol, which its checkpoints and other models rely on."""
    ours = TextToSpeech(configured(), ("a", "b"), shape=SMALL)
    assert isinstance(ours, Trainable)
    made = ours.features(raw_batch([(20, 5), (12, 7)], 24, 8))
    spec = ours.batch_spec(Bucket(frames=24, tokens=8), 2)
    assert made.keys() == spec.keys()
    for name, expected in spec.items():
        assert expected.is_compatible_with(made[name]), name


@pytest.mark.slow
def test_four_clips_are_learned_to_almost_no_error() -> None:
    """Real speech sounds of espeak-ng, a small model and a minute; padded to one bucket."""
    texts = ["Yes.", "No way.", "Go home.", "A cat."]
    shape = Shape(
        width=96, heads=2, encoder_blocks=1, encoder_hidden=192, decoder_blocks=1, decoder_hidden=192,
        predictor_width=32, aligner_width=48, postnet_width=48,
    )  # fmt: skip
    config = configured(learning_rate=4e-3, warmup_steps=20, weight_decay=0.0)
    keras.utils.set_random_seed(1)
    ours = TextToSpeech(config, ("espeak",), shape=shape)
    batch = ours.features(spoken(texts))
    model, optimizer = ours.build(), ours.optimizer()
    weights = model.trainable_variables
    optimizer.build(weights)

    @tf.function(autograph=False)
    def step() -> dict[str, tf.Tensor]:
        with tf.GradientTape() as tape:
            losses = {name: tf.reduce_mean(value) for name, value in ours.losses(model, batch, training=False).items()}
        gradients = tape.gradient(losses["total"], [weight.value for weight in weights])
        optimizer.apply(gradients, weights)
        return losses

    first = float(step()["refined_mel"])
    for _ in range(400):
        step()
    found = {name: float(value) for name, value in step().items()}
    assert first > 1.5
    assert found["refined_mel"] < 0.1, found
    assert found["duration"] < 0.05, found
    mel = ours.mel(model, texts[1])
    assert abs(len(mel) - int(batch["mel_length"][1])) <= 4


def spoken(texts: list[str]) -> Raw:
    hop, tokens = 256, [Tokenizer().encode(text) for text in texts]
    sounds = []
    for text in texts:
        sound, rate = speak(text)
        assert rate == 22050
        sounds.append(np.trim_zeros(sound))
    frames = max(len(sound) for sound in sounds) // hop + 1
    longest = max(len(ids) for ids in tokens)
    pad = [np.pad(sound, (0, frames * hop - len(sound))) for sound in sounds]
    return {
        "pcm": tf.constant(np.stack(pad)),
        "pcm_length": tf.constant([len(sound) for sound in sounds]),
        "tokens": tf.constant(np.stack([np.pad(ids, (0, longest - len(ids))) for ids in tokens])),
        "token_length": tf.constant([len(ids) for ids in tokens]),
        "speaker": tf.zeros([len(texts)], tf.int32),
        "clip_seed": tf.zeros([len(texts), 2], tf.int32),
    }


def test_an_untrained_model_speaks_within_range() -> None:
    """Whatever the weights are, the sound is finite, as long as its mel, and the same every time."""
    ours = TextToSpeech(configured(), ("a",), shape=SMALL)
    model = ours.build()
    sound, mel = ours.speak(model, "Hello, world!"), ours.mel(model, "Hello, world!")
    assert ours.sample_rate == 22050
    assert sound.shape == (len(mel) * 256,)
    assert np.isfinite(sound).all()
    assert np.abs(sound).max() <= 1
    np.testing.assert_array_equal(sound, ours.speak(model, "Hello, world!"))


def test_a_text_without_a_known_sign_is_refused_in_words() -> None:
    """No traceback for a user's error."""
    ours = TextToSpeech(configured(), ("a",), shape=SMALL)
    model = ours.build()
    for text in ("", ",,,", "!?", "…"):
        with pytest.raises(TrainerError, match="nothing to say: no letter or digit in the text") as refused:
            ours.speak(model, text)
        assert refused.value.exit_code == 2
    with pytest.raises(TrainerError, match="2 of 2 characters"):
        ours.speak(model, "☃☃")


@pytest.mark.parametrize(
    ("text", "said"),
    [("Привет, мир.", "9 of 11 characters"), ("你好，世界。", "5 of 6 characters"), ("R&D!", "1 of 4 .*AMPERSAND")],
)
def test_a_sentence_that_loses_a_tenth_is_refused_with_what_was_lost(text: str, said: str) -> None:
    """The characters "," and "." are not what was asked for."""
    ours = TextToSpeech(configured(), ("a",), shape=SMALL)
    with pytest.raises(TrainerError, match=f"{said}.*expected at most 10%"):
        ours.mel(ours.build(), text)


def test_what_a_spoken_sentence_loses_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """`voxyard synthesize`, in the log and in its answer; what is refused writes nothing."""
    ours = TextToSpeech(configured(), ("a",), shape=SMALL)
    state = {name: value.numpy() for name, value in named_weights(ours.build()).items()}
    meta = {"config": configured().model_dump(mode="json"), "speakers": ["a"]}
    checkpoint.save(tmp_path / "run", 1, state, meta, keep=1)
    monkeypatch.setattr(trained, "load_trainable", lambda _config, _speakers: ours)
    said = trained.synthesize(tmp_path / "run", "Schöne Tür, good morning 😀", tmp_path / "x.wav", None)
    assert said.texts is not None
    assert (said.texts.dropped, said.texts.folded) == ({"😀": 1}, {"ö": 1, "ü": 1})
    assert "1 of 22 characters (4.55%) are dropped" in caplog.text
    assert "2 characters are folded" in caplog.text
    with pytest.raises(TrainerError, match="cannot read 6 of 7 characters of 'Привет!'"):
        trained.synthesize(tmp_path / "run", "Привет!", tmp_path / "y.wav", None)
    assert not (tmp_path / "y.wav").exists()


def test_pictures_show_the_mels_and_the_path() -> None:
    """For TensorBoard."""
    ours = TextToSpeech(configured(), ("a", "b"), shape=SMALL)
    pictures = ours.pictures(ours.build(), ours.features(raw_batch([(20, 5), (12, 7)], 24, 8)))
    assert pictures["mel_recorded_above_predicted"].shape == (2 * 160, 40, 3)
    assert pictures["alignment"].shape == (2 * 7, 40, 3)


def test_synthesize_speaks_with_the_weights_of_the_best_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a run's directory the best, not the newest; and its weights, not those that the model was made with."""
    ours = TextToSpeech(configured(), ("a",), shape=SMALL)
    meta = {"config": configured().model_dump(mode="json"), "speakers": ["a"]}
    mels = {}
    for step in (1, 2):
        keras.utils.set_random_seed(step)
        model = ours.build()
        mels[step] = ours.mel(model, "Good morning")
        state = {name: value.numpy() for name, value in named_weights(model).items()}
        path = checkpoint.save(tmp_path / "run", step, state, meta, keep=2)
        if step == 1:
            checkpoint.mark_best(tmp_path / "run", path)
    monkeypatch.setattr(trained, "load_trainable", lambda _config, _speakers: ours)
    said = trained.synthesize(tmp_path / "run", "Good morning", tmp_path / "x.wav", tmp_path / "x.npy")
    assert said.step == 1
    np.testing.assert_allclose(np.load(tmp_path / "x.npy"), mels[1], rtol=1e-5, atol=1e-5)
    assert mels[1].shape != mels[2].shape or not np.allclose(mels[1], mels[2], atol=1e-3)


def test_the_alignment_is_computed_in_blocks_on_gpus_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU the blocks are only more arithmetic."""
    found = tf.config.list_logical_devices
    assert not TextToSpeech(configured(), ("a",), shape=SMALL).build().align_in_blocks
    monkeypatch.setattr(
        tf.config, "list_logical_devices", lambda kind=None: ["a GPU"] if kind == "GPU" else found(kind)
    )
    assert TextToSpeech(configured(), ("a",), shape=SMALL).build().align_in_blocks
