"""Packing: what comes out of a packed batch is what went in, bit for bit, on the host and in compiled functions."""

from __future__ import annotations

import logging
import weakref

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from voxyard.trainer import TrainerError
from voxyard.trainer.copies import to_device
from voxyard.trainer.packing import BatchLayout, Packed, pack_arrays, pack_tensors


def arrays() -> dict[str, np.ndarray]:
    """Arrays of every size of number, of odd lengths; bit patterns that are NaN and denormal as float32 among them."""
    draw = np.random.default_rng(0)
    return {
        "pcm": draw.integers(-(2**15), 2**15, (3, 7)).astype(np.int16),
        "tokens": np.array([[1, 2, -1], [0x7FA00001, -(2**31), 0x00000003]], np.int32),
        "mel": draw.normal(size=(2, 5, 3)).astype(np.float32),
        "long": draw.integers(-(2**62), 2**62, (3,)),
        "half": draw.normal(size=(5,)).astype(np.float16),
        "brain": draw.normal(size=(2, 3)).astype(ml_dtypes.bfloat16),
        "flags": draw.random((3, 3)) > 0.5,
        "bytes": draw.integers(0, 256, (6,)).astype(np.uint8),
        "one": np.array(2.5),
    }


def assert_same(found: dict[str, tf.Tensor], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        made = found[name].numpy()
        assert (made.dtype, made.shape) == (array.dtype, array.shape), name
        assert made.tobytes() == array.tobytes(), name


def test_arrays_go_through_a_buffer_unchanged():
    packed = pack_arrays(arrays())
    assert packed.words.dtype == np.float32
    assert packed.words.shape == (packed.layout.lines, 16)
    assert_same(Packed(packed.layout, tf.constant(packed.words)).unpack(), arrays())


def test_a_packed_batch_is_the_memory_of_its_tensor_and_is_never_copied_on_the_host():
    packed = pack_arrays(arrays())
    (tensor,) = to_device({"words": packed.words}, "/device:CPU:0").values()
    assert tensor.numpy().tobytes() == packed.words.tobytes()
    packed.words[0, 0] = 123.0
    assert float(tensor[0, 0]) == 123.0, "nobody changes it otherwise"
    kept = weakref.ref(packed.words.base)
    del packed
    assert kept() is not None
    assert float(tensor[0, 0]) == 123.0
    del tensor
    assert kept() is None, "it goes with the tensor"


@pytest.mark.parametrize("array", [np.arange(6), np.ones(33, np.float32)[1:], np.ones((32, 32), np.float32).T[1:]])
def test_other_arrays_are_tensors_on_the_device_too(array):
    (tensor,) = to_device({"one": array}, "/device:CPU:1").values()
    assert tensor.device.endswith("CPU:1")
    np.testing.assert_array_equal(tensor, array)


@pytest.mark.parametrize("value", [0, 0xFF])
def test_what_fills_up_a_line_is_zero_whatever_was_in_the_memory(value, monkeypatch):
    def used(size: int, dtype: type) -> np.ndarray:
        return np.full(size, value, dtype)

    monkeypatch.setattr("voxyard.trainer.packing.np.empty", used)
    words = pack_arrays({"few": np.array([1, 2, 3], np.uint8)}).words
    assert words.tobytes() == bytes([1, 2, 3]) + bytes(61)


@pytest.mark.parametrize("xla", [None, True])
def test_a_compiled_function_packs_and_unpacks_the_same_bits(xla):
    given = pack_arrays(arrays())
    layouts: list[BatchLayout] = []

    @tf.function(jit_compile=xla, autograph=False)
    def again(words: tf.Tensor) -> tf.Tensor:
        packed = pack_tensors(given.layout.unpack(words))
        layouts.append(packed.layout)
        return packed.words

    made = again(tf.constant(given.words))
    assert layouts == [given.layout]
    assert made.numpy().tobytes() == given.words.tobytes()


def test_a_batch_of_one_array_is_a_buffer_too():
    assert_same(pack_arrays({"bytes": arrays()["bytes"]}).unpack(), {"bytes": arrays()["bytes"]})


def test_what_has_no_fixed_size_is_refused_by_name():
    with pytest.raises(TrainerError, match="text of a batch is string"):
        pack_tensors({"text": tf.constant(["a"])})


def test_arrays_of_many_kinds_are_no_retracing(caplog):
    """TensorFlow warns in the middle of a run's output where its first calls trace."""
    with caplog.at_level(logging.WARNING):
        for kind in (np.float32, np.float64, np.int8, np.int16, np.int32, np.int64):
            for lengths in ([3], [3, 5], [3, 5, 7]):
                to_device({"words": np.zeros(lengths, kind)}, "/device:CPU:0")
    assert caplog.messages == []
