"""The vocoder: what it is trained on, its inverse transform, its losses, and that it learns."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from voices import HOP, SMALL, Raw, raw_batch

from voxyard.trainer.config import DataConfig, ModelConfig, TrainConfig, TrainingConfig
from voxyard.trainer.model.discriminators import Discriminators
from voxyard.trainer.model.features import FeatureExtractor
from voxyard.trainer.model.mel import FLOOR
from voxyard.trainer.model.sizes import VOCODER_SIZES, VocoderShape
from voxyard.trainer.model.trainable_tts import TextToSpeech
from voxyard.trainer.model.trainable_voice import ALONE, JUDGED, SEGMENT, TURNS, SpeechWithVocoder, Voice
from voxyard.trainer.model.vocoder import Vocoder
from voxyard.trainer.sampler import Bucket
from voxyard.trainer.trainable import Batch, SeveralUpdates, Update, UpdatesInTurns

SHAPE = VocoderShape(48, 2, 96, (4, 8), 4)


def made(seed: int = 3, after: int = 0, **data: Any) -> tuple[SpeechWithVocoder, Voice]:
    keras.utils.set_random_seed(seed)
    config = TrainConfig(
        model=ModelConfig(networks="acoustic,vocoder"),
        data=DataConfig(**data),
        training=TrainingConfig(discriminators_after=after),
    )
    ours = SpeechWithVocoder(config, ("a", "b"), shape=SMALL, vocoder=SHAPE)
    return ours, ours.build()


def losses_of(ours: SpeechWithVocoder, update: Update, batch: Raw) -> Batch:
    """Those of the first step, of the first turn in it; none where the update takes no part."""
    losses = update.losses_in(ours.turns(0).kind)
    part = batch if update.name == "acoustic" else ours.of_turn(batch, 0)
    return {} if losses is None else losses(part)


def of_clip(batch: Raw, row: int) -> dict[str, np.ndarray]:
    return {name: batch[name][row].numpy() for name in ("segment", "segment_mel")}


def test_the_features_match_the_batch_specification() -> None:
    """Also where the bucket is shorter than a segment."""
    ours, _ = made()
    assert isinstance(ours, SeveralUpdates)
    assert isinstance(ours, UpdatesInTurns)
    for frames in (24, 64):
        found = ours.features(raw_batch([(20, 5), (12, 7)], frames, 8))
        spec = ours.batch_spec(Bucket(frames=frames, tokens=8), 2)
        assert found.keys() == spec.keys()
        for name, expected in spec.items():
            assert expected.is_compatible_with(found[name]), name


def test_a_segment_is_a_part_of_its_clip_and_its_mel_of_the_same_place() -> None:
    raw = raw_batch([(90, 5), (70, 7), (12, 3)], 96, 8)
    features = FeatureExtractor(ModelConfig(), DataConfig())
    found = features(raw, segments=3, length=SEGMENT)
    places = []
    for row in range(3):
        clip = raw["pcm"][row].numpy() / np.float32(32768)
        frames = int(raw["pcm_length"][row]) // HOP
        for segment, mel in zip(found["segment"][row].numpy(), found["segment_mel"][row].numpy(), strict=True):
            starts = range(max(frames - SEGMENT, 0) + 1)
            first = [at for at in starts if np.array_equal(clip[at * HOP :][:HOP], segment[:HOP])]
            assert len(first) == 1
            places += first
            np.testing.assert_array_equal(found["mel"][row, first[0] : first[0] + SEGMENT], mel)
    assert len(set(places[:3])) == 3, "each has a place of its own"
    assert places[6:] == [0, 0, 0]
    assert not found["segment"][2, :, 12 * HOP :].numpy().any()
    np.testing.assert_allclose(found["segment_mel"][2, :, 12:], math.log(FLOOR), rtol=1e-6)


def test_a_segment_depends_on_its_clip_and_seed_alone() -> None:
    """Neither on padding, nor on the other clips of the batch."""
    features = FeatureExtractor(ModelConfig(), DataConfig())
    together = features(raw_batch([(90, 5), (70, 7)], 96, 8), segments=3, length=SEGMENT)
    padded = features(raw_batch([(90, 5)], 128, 8), segments=3, length=SEGMENT)
    for name, value in of_clip(together, 0).items():
        np.testing.assert_array_equal(value, padded[name][0], err_msg=name)
    raw = raw_batch([(90, 5)], 96, 8)
    raw["clip_seed"] += 1
    assert not np.array_equal(features(raw, segments=3, length=SEGMENT)["segment"][0], together["segment"][0])


def test_pre_emphasis_is_in_the_mel_and_not_in_the_samples() -> None:
    raw = raw_batch([(40, 5)], 40, 8)
    plain = FeatureExtractor(ModelConfig(), DataConfig())(raw, segments=3, length=SEGMENT)
    sharp = FeatureExtractor(ModelConfig(), DataConfig(pre_emphasis=0.9))(raw, segments=3, length=SEGMENT)
    np.testing.assert_array_equal(plain["segment"], sharp["segment"])
    assert np.abs(plain["segment_mel"] - sharp["segment_mel"]).max() > 0.1


@pytest.mark.parametrize("model", [ModelConfig(), ModelConfig(fft_size=1200, hop_length=300)], ids=["default", "other"])
def test_the_inverse_transform_gives_back_what_was_transformed(model: ModelConfig) -> None:
    """Of the spectrum of a sound: the sound, its edges too."""
    sound = np.random.default_rng(1).normal(size=(2, 20 * model.hop_length)).astype(np.float32)
    vocoder = Vocoder(SHAPE, model, keras.DTypePolicy("float32"))
    left = (model.fft_size - model.hop_length) // 2
    right = model.fft_size - model.hop_length - left
    padded = np.pad(sound, [(0, 0), (left, right)], mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, model.fft_size, 1)[:, :: model.hop_length]
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(model.fft_size) / model.fft_size)
    spectrum = np.fft.rfft(frames * window).astype(np.complex64)
    np.testing.assert_allclose(vocoder._samples(tf.constant(spectrum)), sound, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("after", [0, 9], ids=["with discriminators", "without"])
def test_losses_are_those_of_each_clip(after: int) -> None:
    """Of each clip by itself, in every update."""
    ours, model = made(after=after)
    both = ours.features(raw_batch([(90, 5), (70, 7)], 96, 8))
    alone = ours.features(raw_batch([(90, 5)], 96, 8))
    for update in ours.updates(model):
        together, single = (losses_of(ours, update, batch) for batch in (both, alone))
        assert bool(together) == (after == 0 or update.name != "discriminators")
        assert all(value.shape == (2,) for value in together.values()), update.name
        for name, value in single.items():
            np.testing.assert_allclose(together[name][0], value[0], rtol=1e-4, err_msg=f"{update.name}/{name}")
    validated = ours.losses(model, both, training=False)
    assert validated["vocoder_mel"].shape == (2,)
    acoustic = TextToSpeech.losses(ours, model.acoustic, both, training=False)["total"]
    np.testing.assert_allclose(validated["total"], acoustic + validated["vocoder_mel"], rtol=1e-6)


@pytest.mark.slow
def test_the_discriminators_learn_nothing_from_the_vocoders_update_and_it_nothing_from_theirs() -> None:
    ours, model = made()
    batch = ours.features(raw_batch([(40, 5)], 40, 8))
    own = {update.name: {id(each) for each in update.variables} for update in ours.updates(model)}
    assert set.union(*own.values()) == {id(each) for each in model.trainable_variables}
    (judges,) = [update for update in ours.updates(model) if update.name == "discriminators"]
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(losses_of(ours, judges, batch)["total"])
    assert all(each is None for each in tape.gradient(total, [one.value for one in model.vocoder.trainable_variables]))


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_discriminators_judge_in_half_precision_as_in_single(policy: str) -> None:
    samples = tf.random.stateless_normal([2, 4096], (1, 2))
    found = []
    for precision in ("float32", policy):
        keras.utils.set_random_seed(3)
        judges = Discriminators(SHAPE, keras.DTypePolicy(precision))
        found.append([opinion.numpy() for opinion in judges(samples)[0]])
    for single, half in zip(*found, strict=True):
        assert half.dtype == np.float32
        np.testing.assert_allclose(half, single, atol=0.05)


@pytest.mark.long
def test_two_clips_are_learned() -> None:
    """The mel distance falls to less than half in 64 updates without discriminators and 64 with."""
    ours, model = made()
    features = ours.features(raw_batch([(40, 5), (36, 7)], 40, 8))
    updates = [each for each in ours.updates(model) if each.name != "acoustic"]
    optimizers = [each.optimizer() for each in updates]
    for each, optimizer in zip(updates, optimizers, strict=True):
        optimizer.build(list(each.variables))

    @partial(tf.function, autograph=False)
    def step(kind: str) -> dict[str, tf.Tensor]:
        batch = ours.of_turn(features, 0)
        found: dict[str, tf.Tensor] = {}
        for each, optimizer in zip(updates, optimizers, strict=True):
            losses_of_clips = each.losses_in(kind)
            if losses_of_clips is None:
                continue
            with tf.GradientTape() as tape:
                losses = {name: tf.reduce_mean(value) for name, value in losses_of_clips(batch).items()}
            gradients = tape.gradient(losses["total"], [one.value for one in each.variables])
            optimizer.apply(gradients, each.variables)
            found |= {f"{each.name}/{name}": value for name, value in losses.items()}
        return found

    def trained(kind: str) -> list[dict[str, float]]:
        return [{name: float(value) for name, value in step(kind).items()} for _ in range(64)]

    alone, judged = trained(ALONE.kind), trained(JUDGED.kind)
    assert all(one.keys() == {"vocoder/total", "vocoder/mel"} for one in alone)
    assert all(one["discriminators/total"] > 0 and one["vocoder/features"] > 0 for one in judged)
    assert alone[0]["vocoder/mel"] > 1.0
    assert judged[-1]["vocoder/mel"] < 0.5 * alone[0]["vocoder/mel"], judged[-1]
    assert judged[-1]["discriminators/total"] < 0.99 * judged[0]["discriminators/total"], judged[-1]


@pytest.mark.slow
def test_a_step_without_discriminators_makes_several_updates_each_on_segments_of_its_own() -> None:
    ours, _ = made(after=5)
    assert [ours.turns(step) for step in (0, 4, 5, 9)] == [ALONE, ALONE, JUDGED, JUDGED]
    assert (ALONE.count, JUDGED.count) == (TURNS, 1)
    batch = ours.features(raw_batch([(90, 5), (70, 7)], 96, 8))
    seen = [ours.of_turn(batch, tf.constant(turn, tf.int64)) for turn in range(TURNS)]
    for name in ("segment", "segment_mel"):
        assert seen[0][name].shape == (2, *batch[name].shape[2:])
        assert len({one[name][0].numpy().tobytes() for one in seen}) == TURNS, name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "end", "said"),
    [
        (0, 5, "8 updates a step by its mel distances alone; its discriminators begin after step 5 (--discriminators"),
        (0, 6, "8 updates a step by its mel distances alone up to step 5 (--discriminators-after), then one with"),
        (5, 9, "one update a step, with discriminators"),
    ],
)
def test_the_phases_of_a_run_are_told(first: int, end: int, said: str) -> None:
    assert made(after=5)[0].phases(first, end).startswith(f"Vocoder: {said}")


@pytest.mark.slow
def test_the_vocoders_rate_is_held_and_then_falls() -> None:
    ours, model = made()
    rate = ours.updates(model)[2].optimizer()._learning_rate
    found = [float(rate(step)) for step in (0, 199, 19_999, 79_999, 10**7)]
    np.testing.assert_allclose(found, [5e-6, 1e-3, 1e-3, 5e-4, 1e-3 * math.sqrt(0.002)], rtol=1e-3)


@pytest.mark.parametrize(
    ("precision", "tolerance"), [("float32", 1e-5), pytest.param("mixed_bfloat16", 1e-2, marks=pytest.mark.slow)]
)
def test_shifted_frames_are_the_depthwise_convolution_with_the_same_weights(precision: str, tolerance: float) -> None:
    """Values and gradients as XLA computes them; of frames of a length that is not known, too."""
    policy = keras.DTypePolicy(precision)
    plain, shifted = (Vocoder(SHAPE, ModelConfig(), policy, xla=xla)._blocks[0]._along for xla in (False, True))
    for each in (plain, shifted):
        each.build((None, None, SHAPE.width))
    draw = np.random.default_rng(3)
    weights = [draw.normal(size=each.shape).astype(np.float32) for each in plain.variables]
    x = tf.constant(draw.normal(size=(2, 20, SHAPE.width)), plain.compute_dtype)
    way = tf.constant(draw.normal(size=x.shape), tf.float32)
    found = []
    for each in (plain, shifted):
        each.set_weights(weights)

        @partial(tf.function, jit_compile=True, autograph=False)
        def computed(layer: keras.layers.Layer = each) -> list[tf.Tensor]:
            with tf.GradientTape() as tape:
                tape.watch(x)
                values = tf.cast(layer(x), tf.float32)
                total = tf.reduce_sum(values * way)
            return [values, *tape.gradient(total, [x, layer.kernel.value, layer.bias.value])]

        found.append([np.asarray(value, np.float32) for value in computed()])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(other, one, atol=tolerance * float(np.abs(one).max()))
    loose = tf.function(shifted, input_signature=[tf.TensorSpec((None, None, SHAPE.width), x.dtype)])
    np.testing.assert_array_equal(np.asarray(loose(x), np.float32), np.asarray(shifted(x), np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("xla", [False, True])
def test_xla_gets_no_depthwise_convolutions(xla: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """cuDNN is slow in them, and refuses some."""
    monkeypatch.setattr(TextToSpeech, "build", lambda _: keras.Sequential())
    config = TrainConfig(model=ModelConfig(networks="acoustic,vocoder"), training=TrainingConfig(xla=xla))
    vocoder = SpeechWithVocoder(config, ("",), shape=SMALL, vocoder=SHAPE).build().vocoder
    graph = tf.function(vocoder).get_concrete_function(tf.TensorSpec((1, 8, 80), tf.float32)).graph
    assert any("Depthwise" in each.type for each in graph.get_operations()) != xla
    assert any(each.path.endswith("block_0/along/kernel") for each in vocoder.variables)


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "row"), [("auto", "small"), ("tiny", "tiny")])
def test_a_vocoder_is_as_large_as_the_model_or_as_asked(asked: Any, row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TextToSpeech, "build", lambda _: keras.Sequential())
    model = ModelConfig(networks="acoustic,vocoder", size="small", vocoder_size=asked)
    vocoder = SpeechWithVocoder(TrainConfig(model=model), ("",)).build().vocoder
    assert vocoder.count_params() == VOCODER_SIZES[row].parameters(fft=model.fft_size, mels=model.mels)


@pytest.mark.slow
@pytest.mark.parametrize("size", ["tiny", "small", "normal"])
def test_the_table_counts_the_variables_of_vocoder_and_discriminators(size: str) -> None:
    shape, model, policy = VOCODER_SIZES[size], ModelConfig(), keras.DTypePolicy("float32")
    vocoder, discriminators = Vocoder(shape, model, policy), Discriminators(shape, policy)
    discriminators(vocoder(tf.zeros((1, 32, model.mels))))
    assert vocoder.count_params() == shape.parameters(fft=model.fft_size, mels=model.mels)
    assert discriminators.count_params() == shape.discriminator_parameters()
    assert len(discriminators.trainable_variables) == 2 * (5 * (len(shape.period_channels) + 2) + 3 * 6)
