"""The network: what may and what may not change what it says."""

from __future__ import annotations

import dataclasses
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from forked import run_forked
from runs import environment
from voices import SMALL, SYMBOLS, Raw, features_of, raw_batch, small_model

from voxyard.trainer.model.losses import clip_losses
from voxyard.trainer.model.sizes import SIZES
from voxyard.trainer.model.text_to_mel import TextToMel, TextToMelOutput

LENGTHS = [(40, 12), (31, 9), (17, 14)]
PER_CLIP = ("mel", "refined", "log_duration", "pitch", "energy", "durations", "token_pitch", "token_energy")


@pytest.fixture(scope="module")
def model() -> TextToMel:
    return small_model()


def rows_of(batch: Raw, order: list[int]) -> Raw:
    return {name: tf.gather(value, order) for name, value in batch.items()}


def same(one: TextToMelOutput, other: TextToMelOutput, rows: list[tuple[int, int]], tolerance: float = 2e-4) -> None:
    """Row i of one is row j of the other, over the frames and tokens of the clips in LENGTHS."""
    for i, j in rows:
        frames, tokens = LENGTHS[j][0], LENGTHS[j][1] + 2
        for name in PER_CLIP:
            kept = frames if name in ("mel", "refined") else tokens
            left, right = getattr(one, name)[i, :kept], getattr(other, name)[j, :kept]
            np.testing.assert_allclose(left, right, atol=tolerance, err_msg=f"{name} of clip {j}")


def test_a_batch_in_another_order_gives_the_same_in_that_order(model: TextToMel, batch: Raw) -> None:
    """Also in training, since the dropout of a clip follows from its own seed."""
    order = [2, 0, 1]
    for training in (False, True):
        straight, shuffled = model(batch, training=training), model(rows_of(batch, order), training=training)
        same(shuffled, straight, list(enumerate(order)))


def test_padding_with_longer_clips_changes_nothing(model: TextToMel, batch: Raw) -> None:
    """The same clips in a bucket for longer ones."""
    longer = features_of(raw_batch(LENGTHS, 64, 24))
    same(model(longer), model(batch), [(i, i) for i in range(3)])


def test_what_stands_in_the_padding_changes_nothing(model: TextToMel, batch: Raw) -> None:
    """Other values in padded frames and tokens, far from zero; a mask of the wrong sign would show."""
    changed = dict(batch)
    frames = ~tf.sequence_mask(batch["mel_length"], 40)
    tokens = ~tf.sequence_mask(batch["token_length"], 16)
    changed["mel"] = tf.where(frames[:, :, None], 3.0, batch["mel"])
    changed["pitch"] = tf.where(frames, 5.5, batch["pitch"])
    changed["energy"] = tf.where(frames, -1.0, batch["energy"])
    changed["tokens"] = tf.where(tokens, 7, batch["tokens"])
    same(model(changed), model(batch), [(i, i) for i in range(3)])


def test_the_features_of_the_clip_change_the_output(model: TextToMel, batch: Raw) -> None:
    """The counterpart; a model that ignored its input would pass all tests above."""
    for name, value in (("tokens", batch["tokens"] % (SYMBOLS - 1) + 1), ("speaker", 1 - batch["speaker"])):
        said = model(dict(batch) | {name: value})
        assert np.abs(said.mel - model(batch).mel)[0].max() > 1e-2, name


def test_dropout_follows_from_the_clip_seed_alone(model: TextToMel, batch: Raw) -> None:
    """A resumed run draws what the undisturbed one drew, without any state; other seeds draw something else."""
    first, again = model(batch, training=True), model(batch, training=True)
    np.testing.assert_array_equal(first.refined, again.refined)
    other = model(dict(batch) | {"clip_seed": batch["clip_seed"] + 1}, training=True)
    assert np.abs(other.refined - first.refined).max() > 1e-2
    assert np.abs(model(batch, training=False).refined - first.refined).max() > 1e-2
    assert model.non_trainable_variables == []


@pytest.mark.long
def test_recomputing_activations_changes_no_gradient(batch: Raw) -> None:
    """--recompute and --xla: the same losses and gradients to float tolerance, dropout included."""
    plain = gradient_function(small_model())(batch)
    for xla in (False, True):
        recomputed = gradient_function(small_model(recompute=True), xla=xla)(batch)
        for expected, found in zip(tf.nest.flatten(plain), tf.nest.flatten(recomputed), strict=True):
            np.testing.assert_allclose(found, expected, atol=2e-5, rtol=1e-3, err_msg=f"XLA: {xla}")


@pytest.mark.slow
def test_recomputing_runs_the_blocks_once_more_in_the_backward_pass(batch: Raw) -> None:
    """--recompute: the knob does something."""
    counts = []
    for recompute in (False, True):
        graph = gradient_function(small_model(recompute=recompute)).get_concrete_function(batch).graph
        counts.append(sum(node.op == "Softmax" for node in graph.as_graph_def().node))
    assert counts == [3, 6]


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision_keeps_weights_losses_and_alignment_in_float32(policy: str, batch: Raw) -> None:
    """--precision: the blocks compute in the narrow format, and the result stays near."""
    mixed, plain = small_model(policy=keras.DTypePolicy(policy)), small_model()
    narrow, wide = mixed(batch), plain(batch)
    assert mixed.encoder.blocks[0].compute_dtype == policy.removeprefix("mixed_")
    assert {variable.dtype for variable in mixed.variables} == {"float32"}
    assert {value.dtype for value in tf.nest.flatten(narrow) if value.dtype != tf.bool} == {tf.float32}
    assert {value.dtype for value in clip_losses(narrow, batch).values()} == {tf.float32}
    np.testing.assert_allclose(narrow.refined, wide.refined, atol=0.5)
    assert np.abs(narrow.refined - wide.refined).mean() < 0.05
    losses, gradients = gradient_function(mixed)(batch)
    assert all(np.isfinite(value).all() for value in [losses, *gradients])


def test_speaking_with_known_durations_is_what_training_decodes(batch: Raw) -> None:
    """The two ways through the decoder are one; only pitch and energy are the predicted ones."""
    model = small_model()
    model.prosody.kernel.assign(tf.zeros_like(model.prosody.kernel))
    trained = model(batch)
    text = (batch["tokens"], batch["token_length"], batch["speaker"])
    spoken = model.mel_of(*text, trained.durations, 40)
    for row, (frames, _) in enumerate(LENGTHS):
        np.testing.assert_allclose(spoken[row, :frames], trained.refined[row, :frames], atol=1e-4)
    durations = model.durations_of(*text).numpy()
    for row, (_, tokens) in enumerate(LENGTHS):
        assert (durations[row, : tokens + 2] >= 1).all()
        assert not durations[row, tokens + 2 :].any()


@pytest.mark.slow
def test_each_size_has_its_number_of_parameters_and_speaks() -> None:
    """--model-size: all four are built and traced; the table counts from the shapes what was built.

    The smallest with all its blocks, the others with one of each kind: the more there are, the longer a trace takes.
    In a process of its own: TensorFlow keeps the memory of the largest until its process ends.
    """
    ended = run_forked(source=_BUILD_EACH_SIZE, environment=environment())
    assert ended.returncode == 0, ended.stderr
    built = json.loads(ended.stdout)
    bounds = {"tiny": (5e6, 8e6), "small": (25e6, 35e6), "normal": (90e6, 110e6), "big": (270e6, 330e6)}
    assert built.keys() == bounds.keys() == SIZES.keys()
    for size, (counted, blocks, shape) in built.items():
        row = dataclasses.replace(SIZES[size], **blocks)
        assert counted == row.parameters(symbols=7, speakers=3, mels=80)
        assert bounds[size][0] <= SIZES[size].parameters(symbols=7, speakers=3, mels=80) <= bounds[size][1]
        assert shape == [1, 5, 80]


# In a graph there are no values: those of the largest alone take 1.2 GB.
_BUILD_EACH_SIZE = """
import dataclasses
import json

import keras
import tensorflow as tf

from voxyard.trainer.model.sizes import SIZES
from voxyard.trainer.model.text_to_mel import TextToMel

built = {}
for size in SIZES:
    blocks = {} if size == "tiny" else {"encoder_blocks": 1, "decoder_blocks": 1}
    with tf.Graph().as_default(), keras.StatelessScope():
        model = TextToMel(dataclasses.replace(SIZES[size], **blocks), symbols=7, speakers=3, mels=80)
        model.build()
        text = tf.constant([[3, 1, 4]]), tf.constant([3]), tf.constant([1])
        spoken = model.mel_of(*text, tf.ones([1, 5]), 5)
    built[size] = model.count_params(), blocks, spoken.shape.as_list()
print(json.dumps(built))
"""


def test_variables_have_names_of_their_own(model: TextToMel) -> None:
    """Checkpoints hold variables by name."""
    names = [variable.path for variable in model.variables]
    assert len(set(names)) == len(names)
    again = [variable.path for variable in small_model().variables]
    assert again == names


def test_one_speaker_needs_no_speaker_table() -> None:
    """The speaker embedding is optional."""
    model = TextToMel(dataclasses.replace(SMALL, decoder_blocks=2), symbols=SYMBOLS, speakers=1, mels=80)
    model.build()
    assert not any("speaker" in variable.path for variable in model.variables)


def gradient_function(model: TextToMel, *, xla: bool = False) -> tf.types.experimental.GenericFunction:
    @tf.function(autograph=False, jit_compile=xla or None)
    def gradients(batch: Raw) -> tuple[tf.Tensor, list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            losses = clip_losses(model(batch, training=True), batch)["total"]
        found = tape.gradient(losses, [variable.value for variable in model.trainable_variables])
        return losses, [tf.convert_to_tensor(gradient) for gradient in found]

    return gradients
