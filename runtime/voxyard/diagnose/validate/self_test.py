"""Short self-test of one GPU: half of its free memory holds what is written there, and products of it are exact."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from voxyard.diagnose.errors import DiagnoseError

SIZE = 2048  # rows and columns: sums of 2048 products up to 49 are whole numbers that float32 and TF32 hold
PRODUCTS = 50
BLOCK_MIB = 256
PATTERNS = (0x55555555, -0x55555556)  # each bit is once 0 and once 1


@dataclass(frozen=True)
class Card:
    """What the test does on a card, by PyTorch or by TensorFlow."""

    multiply: Callable[[np.ndarray[Any, Any], np.ndarray[Any, Any]], Callable[[], np.ndarray[Any, Any]]]
    fill: Callable[[int, int], Callable[[], bool]]  # (words, pattern) → whether all words hold it


def check_card(card: Card, memory_mib: int) -> str:
    """Tests a card with so much of its memory; what was tested. Raises DiagnoseError with the fault."""
    blocks = max(1, memory_mib // BLOCK_MIB)
    for pattern in PATTERNS:
        held = [card.fill(BLOCK_MIB << 18, pattern) for _ in range(blocks)]  # all written before one is read
        if bad := sum(not intact() for intact in held):
            raise DiagnoseError(f"{bad} of {blocks} blocks of memory do not hold what was written", exit_code=1)
    draw = np.random.default_rng(38)
    one, other = (draw.integers(0, 8, (SIZE, SIZE)).astype(np.float32) for _ in range(2))
    expected, product = one @ other, card.multiply(one, other)
    for number in range(PRODUCTS):
        if wrong := int((product() != expected).sum()):
            raise DiagnoseError(f"product {number + 1} of {PRODUCTS} has {wrong} wrong sums", exit_code=1)
    return f"{blocks * BLOCK_MIB} MiB of memory hold what was written, {PRODUCTS} products are exact"


def check_gpu(uuid: str, memory_free_mib: int | None) -> str:
    """Tests the GPU with this UUID in this process, which must not have used CUDA; what was tested.

    Raises DiagnoseError where the GPU cannot be used, or does wrong.
    """
    os.environ["CUDA_VISIBLE_DEVICES"] = uuid
    make = next((made for name, made in _BY.items() if importlib.util.find_spec(name)), None)
    if make is None:
        raise DiagnoseError("the self-test needs PyTorch or TensorFlow: pip install 'voxyard[bark]' or '[trainer,gpu]'")
    try:
        return check_card(make(), (memory_free_mib or 2 * BLOCK_MIB) // 2)
    except DiagnoseError:
        raise
    except Exception as error:  # whatever CUDA says is why the GPU did not pass
        first = f"{type(error).__name__}: {error}".splitlines()[0]
        raise DiagnoseError(first, exit_code=1) from error


def torch_card(device: str = "cuda:0") -> Card:
    """The card by PyTorch."""
    import torch

    def multiply(one: Any, other: Any) -> Callable[[], Any]:
        here, there = torch.from_numpy(one).to(device), torch.from_numpy(other).to(device)
        return lambda: (here @ there).cpu().numpy()

    def fill(words: int, pattern: int) -> Callable[[], bool]:
        block = torch.full((words,), pattern, dtype=torch.int32, device=device)
        return lambda: bool((block == pattern).all())

    return Card(multiply, fill)


def tensorflow_card(device: str = "/GPU:0") -> Card:
    """The card by TensorFlow, which must not compute elsewhere."""
    import tensorflow as tf

    tf.config.set_soft_device_placement(False)
    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)

    def multiply(one: Any, other: Any) -> Callable[[], Any]:
        with tf.device(device):
            here, there = tf.constant(one), tf.constant(other)

        def product() -> Any:
            with tf.device(device):
                return tf.matmul(here, there).numpy()

        return product

    def fill(words: int, pattern: int) -> Callable[[], bool]:
        with tf.device(device):
            block = tf.fill((words,), pattern)

        def intact() -> bool:
            with tf.device(device):
                return bool(tf.reduce_all(tf.equal(block, pattern)))

        return intact

    return Card(multiply, fill)


_BY: dict[str, Callable[[], Card]] = {"torch": torch_card, "tensorflow": tensorflow_card}
