"""Collectives of a run over hosts: the mean of tensors, the first host's state, a common end.

MultiWorkerMirroredStrategy brings up the servers and shares state; it has no part in the variables, which stay plain,
nor in the mean. Its coordination service notices a host that is gone, frozen or cut off, and aborts what waits for it.
"""

from __future__ import annotations

import re
import signal
import statistics
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from voxyard.trainer.errors import HOST_LOST, TrainerError
from voxyard.trainer.hosts.addresses import HostGroup

LEAST, MOST_PACKS = 2**20, 32
LEAST_NCCL = 32 * 2**20  # a GPU's function is compiled by XLA and returns all gradients at once
_GROUP = 2**20  # beyond those that tf.distribute takes


class PackedMean:
    """The mean over `count` hosts in graph code, called with the same shapes in the same order on all of them.

    It goes in packs, each of them reduced as soon as its tensors are computed: one CollectiveReduceV2 operation each.
    TensorFlow runs operations on the same resource one after the other, in the order in which they were traced, and
    others as their inputs become ready. So packs with a token of their own are under way while the rest of the
    gradients is computed. Packs with one common token go one by one, in the same order on all hosts, which must be
    where a waiting pack would stop the others: NCCL, the executor of executor_scope.
    """

    def __init__(self, count: int, *, gpu: bool, ordered: bool) -> None:
        """With `gpu` the first GPU reduces (NCCL), else the CPU; `ordered` keeps packs in order there, too."""
        self._count, self._ring = count, "nccl" if gpu else "ring"
        self._least, self._device = LEAST_NCCL if gpu else LEAST, "/device:GPU:0" if gpu else "/device:CPU:0"
        with tf.device(self._device):
            tokens = 1 if gpu or ordered else MOST_PACKS + 1
            self._tokens = [tf.Variable(0.0, trainable=False) for _ in range(tokens)]
        self._keys: dict[tuple[int, ...], int] = {}  # first instance key of an update's packs of these sizes

    def __call__(self, tensors: Sequence[tf.Tensor], of: int = 0) -> list[tf.Tensor]:
        """The mean of each tensor, of a static shape; the last ones first, as backpropagation makes them.

        `of` numbers the update in its step: those of one step may be alike in size.
        """
        backwards = list(tensors)[::-1]
        sizes = [int(each.shape.num_elements()) for each in backwards]
        packs = packs_of([size * each.dtype.size for size, each in zip(sizes, backwards, strict=True)], self._least)
        lengths = tuple(sum(sizes[pack]) for pack in packs)
        first = self._keys.setdefault((of, *lengths), 1 + sum(len(key) - 1 for key in self._keys))
        means: list[tf.Tensor] = []
        for number, pack in enumerate(packs):
            reduced = self._reduced(backwards[pack], first + number, self._tokens[number % len(self._tokens)])
            parts = tf.split(reduced, sizes[pack])
            means += [tf.reshape(part, each.shape) for part, each in zip(parts, backwards[pack], strict=True)]
        return means[::-1]

    def _reduced(self, pack: Sequence[tf.Tensor], key: int, token: tf.Variable) -> tf.Tensor:
        with tf.device(self._device):
            total = tf.raw_ops.CollectiveReduceV2(
                input=tf.concat([tf.reshape(each, [-1]) for each in pack], 0),
                group_size=self._count,
                group_key=_GROUP,
                instance_key=key,
                ordering_token=[token.handle],
                merge_op="Add",
                final_op="Id",
                communication_hint=self._ring,
            )
            return total / self._count


def packs_of(sizes: Sequence[int], least: int) -> list[slice]:
    """Neighbours together in packs of at least so many bytes, but for the last one, and at most MOST_PACKS + 1."""
    full = max(least, -(-sum(sizes) // MOST_PACKS))
    packs, begin, held = [], 0, 0
    for end, size in enumerate(sizes, 1):
        held += size
        if held >= full or end == len(sizes):
            packs.append(slice(begin, end))
            begin, held = end, 0
    return packs


ALL_REDUCES = 3  # whose median is the network's bound
_CHUNK = 8 * 2**20  # words of state shared at once
_TASK = re.compile(r"/job:worker(?:/replica:0)?/task:(\d+)")

LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
    tf.errors.InternalError,
)
"""Errors of a step that mean a lost host: of the reduction itself, or of TensorFlow's coordination service."""


class Hosts:
    """The hosts of a run as one group. Every method but `lost` is called by all of them, in the same order."""

    def __init__(self, group: HostGroup, *, gpu: bool, split: bool) -> None:
        """Starts this host's server and connects it; before TensorFlow's runtime starts, when all hosts are there.

        With `gpu` the first logical GPU reduces (NCCL), else the CPU; `split`: as executor_scope has it.
        """
        self.group = group
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec({"worker": [str(one) for one in group.addresses]}),
            task_type="worker",
            task_id=group.index,
            num_accelerators={"GPU": 1} if gpu else {},
            rpc_layer="grpc",
        )
        communication = tf.distribute.experimental.CommunicationImplementation
        options = tf.distribute.experimental.CommunicationOptions(
            implementation=communication.NCCL if gpu else communication.RING
        )
        ends = (signal.SIGTERM, signal.SIGINT) if threading.current_thread() is threading.main_thread() else ()
        handlers = {number: signal.getsignal(number) for number in ends}
        self._strategy = tf.distribute.MultiWorkerMirroredStrategy(
            cluster_resolver=resolver, communication_options=options
        )
        for number, handler in handlers.items():  # TensorFlow takes SIGTERM to itself, and would not end on it
            signal.signal(number, handler)
        self._sum = tf.function(self._sum_words, autograph=False)
        self._mean = PackedMean(group.count, gpu=gpu, ordered=split)

    def mean(self, tensors: Sequence[tf.Tensor], of: int = 0) -> list[tf.Tensor]:
        """The mean over the hosts of each tensor, in graph code, in packs that go as soon as they are computed.

        `of` numbers the update in its step.
        """
        return self._mean(tensors, of)

    def from_first(self, state: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The first host's arrays, bit for bit, on every host."""
        from safetensors.numpy import load, save

        mine = save({name: np.asarray(each, order="C") for name, each in state.items()}) if self.group.is_first else b""
        size = int(self._share(np.array([len(mine), 0], np.int64).view(np.int32)).view(np.int64)[0])
        mine += bytes(-len(mine) % 4)
        words = np.frombuffer(mine, np.int32)
        parts = []
        for begin in range(0, -(-size // 4), _CHUNK):
            count = min(_CHUNK, -(-size // 4) - begin)
            parts.append(self._share(words[begin : begin + count] if len(words) else np.zeros(count, np.int32)))
        return dict(load(np.concatenate(parts).tobytes()[:size]))

    def merged(self, arrays: Mapping[str, NDArray[np.float64]]) -> dict[str, NDArray[np.float64]]:
        """The arrays of all hosts as one, bit for bit: each number is that of the one host where it is not zero."""
        words = np.concatenate([np.ascontiguousarray(each).view(np.int32) for each in arrays.values()])
        numbers = np.asarray(self._sum(tf.constant(words)).numpy()).view(np.float64)
        ends = np.cumsum([each.size for each in arrays.values()])[:-1]
        return dict(zip(arrays, np.split(numbers, ends), strict=True))

    def seconds_of_mean(self, like: Sequence[Any]) -> float:
        """Seconds of one `mean` of tensors of these shapes and types, while nothing else is computed."""
        tensors = [tf.zeros(each.shape, each.dtype) for each in like]
        reduce = tf.function(lambda *parts: self.mean(parts), autograph=False)
        seconds = []
        for _ in range(1 + ALL_REDUCES):
            self.meet()
            begin = time.perf_counter()
            reduced = reduce(*tensors)
            reduced[0].numpy()
            seconds.append(time.perf_counter() - begin)
        return statistics.median(seconds[1:])  # the first connects

    def meet(self) -> None:
        """Returns when all hosts are here."""
        self._share(np.zeros(1, np.int32))

    def lost(self, error: Exception) -> TrainerError:
        """The message for the user about an error of LOST."""
        named = sorted({int(number) for number in _TASK.findall(str(error))} - {self.group.index})
        gone = [self.group.name(index) for index in named if index < self.group.count]
        if not gone and self.group.count == 2:
            gone = [self.group.name(1 - self.group.index)]
        who = " and ".join(gone) or "a host"
        return TrainerError(
            f"{who} of this run is gone, frozen or cut off, and the run has ended. Start it again on all hosts: it "
            "continues from the newest checkpoint of the first",
            exit_code=HOST_LOST,
        )

    def _share(self, words: NDArray[np.int32]) -> NDArray[np.int32]:
        """The first host's words: the others add zeros."""
        mine = words if self.group.is_first else np.zeros_like(words)
        shared: NDArray[np.int32] = self._sum(tf.constant(mine)).numpy()
        return shared

    def _sum_words(self, words: tf.Tensor) -> tf.Tensor:
        def of_host(mine: tf.Tensor) -> tf.Tensor:
            # An argument has no device while it is traced, and the reduction asks for one.
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(mine))

        return self._strategy.run(of_host, args=(words,))
