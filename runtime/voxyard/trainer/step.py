"""Step: the compiled functions of a run, each on its device: features, update, evaluation."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from voxyard.trainer.config import TrainConfig
from voxyard.trainer.copies import to_device
from voxyard.trainer.devices.tensorflow_setup import Devices, executor_scope
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.packing import BatchLayout, Packed, pack_arrays, pack_tensors
from voxyard.trainer.sampler import Bucket
from voxyard.trainer.steps.average import EMA, MODEL, WeightAverage, has_average, weights_for_use, without_average
from voxyard.trainer.steps.lane import Lane
from voxyard.trainer.steps.updates import Means, Updater, updaters_of, with_totals
from voxyard.trainer.trainable import Batch, SeveralUpdates, Trainable

Arrays = Mapping[str, NDArray[Any]]

HOST = "/device:CPU:0"
BESIDE = "update beside"  # the function of the updates on the data device
STOP = "stop/"  # beside them over hosts, with the number of each host: above 0 where it was asked to stop


@dataclass(frozen=True)
class StepLosses:
    """Mean losses of one step and the learning rate that it took, on the model device: one tensor."""

    names: tuple[str, ...]
    values: tf.Tensor  # (names,) float32
    beside: Future[dict[str, float]] | None = None  # those of the updates on the data device

    def read(self) -> dict[str, float]:
        """The values by name. Waits for this step, and not for one that is handed over to the device afterwards.

        `EagerTensor.numpy()` would wait for both: `EagerCopyToDevice` (tensor_handle.cc) first waits for all that the
        compute stream was given. A copy inside a function is ordered behind what the stream was given when the copy
        was handed over (`GPUUtil::CopyGPUTensorToCPU`).
        """
        values = to_device({"values": self.values}, HOST)["values"].numpy()
        read = dict(zip(self.names, map(float, values), strict=True))
        return with_totals(read if self.beside is None else read | self.beside.result())


@dataclass(frozen=True)
class OnBoth:
    """A feature batch on the data device, for the updates there, and on the model device."""

    data: Packed
    model: Packed


class TrainStep:
    """A model, its optimizers, and the functions that train them on the devices of the run."""

    def __init__(
        self,
        trainable: Trainable | SeveralUpdates,
        devices: Devices,
        config: TrainConfig,
        *,
        most_traces: int | None,
    ) -> None:
        """Builds the model and its optimizers on the model device, or mirrored on all replicas.

        `config` is resolved for the devices (loop.resolve). `most_traces` is how often each function may be traced
        (the number of buckets); None is without bound.
        """
        xla = bool(config.training.xla)
        self.trainable, self.devices = trainable, devices
        self.traces: Counter[str] = Counter()
        self._accumulate, self._hop = config.training.grad_accum, config.model.hop_length
        self._most_traces = most_traces
        self._strategy = (
            tf.distribute.MirroredStrategy(list(devices.replicas)) if devices.strategy == "mirrored" else None
        )
        on_two = devices.strategy == "split" and devices.hosts is None
        beside = set(getattr(trainable, "beside", ())) if on_two else set()
        place = {"beside": devices.data} if beside else {}
        with self.scope():
            self.model = trainable.build(**place)
            reduced = self._strategy is not None
            self.updaters = updaters_of(trainable, self.model, config.training, reduced=reduced, **place)
        self._main = [one for one in self.updaters if one.name not in beside]
        self._beside = [one for one in self.updaters if one.name in beside]
        self.lane: Lane[Packed] | None = None
        # A CPU device computes one function at a time, a GPU has its own queue.
        self.turn_seconds = 0.0  # in which features waited for it
        self._data_turn = threading.Lock() if beside and devices.kind == "cpu" else nullcontext()
        self._made: dict[BatchLayout, BatchLayout] = {}  # layout of the features of each raw batch
        self._features = self._compiled("features", self._packed_features, xla)
        # Networks on two devices in one function: an executor of one thread would wait for itself.
        self._evaluate = self._compiled("evaluate", self._per_clip_losses, xla, threads=bool(beside))
        if beside:
            self.lane = Lane(self._train_beside)
            self._update_beside = self._compiled(BESIDE, lambda batch: self._update_in_turn(self._beside, batch), xla)
        if devices.hosts is not None:
            with tf.device(HOST):
                self._stop = tf.Variable(np.zeros(devices.hosts.group.count, np.float32), trainable=False)
            self._gradients_of = self._compiled_gradients(1, xla)
            self._apply = [
                tf.function(lambda *given, to=one: to.apply(given), jit_compile=xla or None, autograph=False)
                for one in self.updaters
            ]
            self._update = self._compiled_by_layout("update", self._update_over_hosts, xla=False)
        elif self._strategy is None:
            self._update = self._compiled("update", lambda batch: self._update_in_turn(self._main, batch), xla)
        else:
            # A function of its own for each replica: what it captures are that replica's variables.
            self._gradients_of = self._compiled_gradients(self.replicas, xla)
            self._update = self._compiled_by_layout("update", self._update_mirrored, xla=False)

    @property
    def replicas(self) -> int:
        """Devices that train on a part of the batch each."""
        return len(self.devices.replicas) if self._strategy else 1

    def scope(self) -> AbstractContextManager[Any]:
        """Scope in which variables are created, read and assigned."""
        scope: AbstractContextManager[Any] = self._strategy.scope() if self._strategy else tf.device(self.devices.model)
        return scope

    # -- a batch --------------------------------------------------------------------------------------------------

    @property
    def asynchronous(self) -> bool:
        """True where a function returns before its device has computed it: on GPUs."""
        return self.devices.kind == "gpu"

    def stage(self, arrays: Arrays) -> Any:
        """Data stage of a batch: features on the data device, the result onto the model device, each in one copy.

        Returns when the batch lies there. On GPUs the copies wait for the steps that the model device has been given,
        so that several threads stage a batch each; a CPU's need one. With one device both are the same: the features
        of a batch are computed there beside the training of another. Mirrored: a raw part for each replica.
        """
        if self._strategy is None:
            made = self.features_of(arrays)
            staged = self.transfer(made)
            return staged if self.lane is None else OnBoth(made, staged)
        parts = [
            pack_arrays({name: np.array_split(array, self.replicas)[replica] for name, array in arrays.items()})
            for replica in range(self.replicas)
        ]
        return [
            Packed(part.layout, to_device({"words": part.words}, device)["words"])
            for part, device in zip(parts, self.devices.replicas, strict=True)
        ]

    def features_of(self, arrays: Arrays, device: str | None = None) -> Packed:
        """First part of the data stage: the features of a raw batch, on the data device or another."""
        raw, device = pack_arrays(arrays), device or self.devices.data
        words = to_device({"words": raw.words}, device)["words"]
        return self._features_on(device, Packed(raw.layout, words))

    def transfer(self, made: Packed) -> Packed:
        """Second part of the data stage: the features onto the model device."""
        if self.devices.data == self.devices.model:
            return made
        return Packed(made.layout, to_device({"words": made.words}, self.devices.model)["words"])

    def train(self, staged: Any) -> StepLosses:
        """One update from a staged batch; its losses, still on the device."""
        if self._strategy is None:
            made, beside = (staged.model, self._submit(staged.data)) if isinstance(staged, OnBoth) else (staged, None)
            with tf.device(self.devices.model):
                values = self._update(made)
            return StepLosses(self._names, values, beside)
        parts = [self._features_on(device, part) for device, part in zip(self.devices.replicas, staged, strict=True)]
        words = self._strategy.experimental_distribute_values_from_function(
            lambda context: parts[context.replica_id_in_sync_group].words
        )
        with self.scope(), tf.device(self.devices.model):  # its result stays there
            values = self._update(Packed(parts[0].layout, words))
        return StepLosses(self._names, values)

    @property
    def _names(self) -> tuple[str, ...]:
        """Names of what an update on the model device gives: losses and rates, over hosts who asked to stop."""
        hosts = self.devices.hosts
        stops = () if hosts is None else (f"{STOP}{place}" for place in range(hosts.group.count))
        return (*(name for one in self._main for name in one.names), *stops)

    @property
    def beside_names(self) -> tuple[str, ...]:
        """Names of the updates on the data device."""
        return tuple(one.name for one in self._beside)

    def _submit(self, made: Packed) -> Future[dict[str, float]] | None:
        return None if self.lane is None else self.lane.submit(made)

    def _train_beside(self, made: Packed) -> tuple[dict[str, float], float | None]:
        """In the lane's thread: the updates on the data device; their losses, and seconds unless they were traced."""
        traces = self.traces[BESIDE]
        with self._data_turn:
            begin = time.perf_counter()
            with tf.device(self.devices.data):
                values = self._update_beside(made)
            names = tuple(name for one in self._beside for name in one.names)
            read = to_device({"values": values}, HOST)["values"].numpy()
            seconds = time.perf_counter() - begin
        return dict(zip(names, map(float, read), strict=True)), seconds if self.traces[BESIDE] == traces else None

    def ask_to_stop(self) -> None:
        """Over hosts: the next step tells all of them that this host was asked to stop."""
        if self.devices.hosts is not None:
            place = self.devices.hosts.group.index
            self._stop.assign(np.eye(self.devices.hosts.group.count, dtype=np.float32)[place])

    def evaluate(self, arrays: Arrays) -> dict[str, NDArray[np.float32]]:
        """Losses per clip (B,) of a raw batch, without training on it."""
        self.settle()
        with tf.device(self.devices.model):
            losses = self._evaluate(self._features_for_model(arrays))
        return {name: value.numpy() for name, value in losses.items()}

    def features_for_model(self, arrays: Arrays) -> Batch:
        """The feature batch of a raw batch, on the model device."""
        self.settle()
        with tf.device(self.devices.model):
            return self._features_for_model(arrays).unpack()

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Scope in which the model has its averaged weights (--ema), and is not trained; without --ema no change."""
        self.settle()
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def settle(self) -> None:
        """Waits for the updates beside the model device. Raises what one of them has raised."""
        if self.lane is not None:
            self.lane.drain()

    def close(self) -> None:
        """Ends the thread of the updates beside the model device."""
        if self.lane is not None:
            self.lane.close()

    def synchronise(self) -> None:
        """Waits until every device has computed all that it was given (`DeviceSync`: sync_ops.cc)."""
        self.settle()
        tf.test.experimental.sync_devices()

    def wait_for(self, made: Packed) -> None:
        """Waits until a batch is computed, and not for what its device was given afterwards."""
        with tf.device(made.words.device):
            first = made.words[:1]
        to_device({"first": first}, HOST)

    def seconds_alone(self, work: Callable[[], Any]) -> float:
        """Seconds of `work` on devices that have nothing else to do, from barrier to barrier."""
        self.synchronise()
        begin = time.perf_counter()
        made = work()
        self.synchronise()
        seconds = time.perf_counter() - begin
        del made
        return seconds

    def memory_of_limits(self) -> dict[str, float | None]:
        """Peak of what TensorFlow's allocator held ÷ its limit, by role; only GPUs with a limit."""
        by_role = {"data": self.devices.data, "model": self.devices.model}
        return {
            role: tf.config.experimental.get_memory_info(by_role[role].removeprefix("/device:"))["peak"]
            / (limit * 2**20)
            for role, limit in self.devices.limits.items()
            if limit is not None
        }

    def _features_on(self, device: str, raw: Packed) -> Packed:
        """The feature batch, computed on `device`; precomputed features pass through."""
        if "pcm" not in raw.layout.names:
            return raw
        begin = time.perf_counter()
        with self._data_turn:
            self.turn_seconds += time.perf_counter() - begin
            with tf.device(device):
                words = self._features(raw)
        return Packed(self._made[raw.layout], words)

    def _features_for_model(self, arrays: Arrays) -> Packed:
        return self.transfer(self.features_of(arrays))

    # -- graph code ------------------------------------------------------------------------------------------------

    def _packed_features(self, raw: Batch) -> tf.Tensor:
        packed = pack_tensors(self._checked_features(raw))
        self._made[BatchLayout.of(raw)] = packed.layout
        return packed.words

    def _checked_features(self, raw: Batch) -> Batch:
        """The trainable's features, checked against its own specification while they are traced."""
        made = self.trainable.features(raw)
        (rows, samples), tokens = raw["pcm"].shape, raw["tokens"].shape[1]
        spec = self.trainable.batch_spec(Bucket(samples // self._hop, tokens), rows)
        wrong = [
            f"{name}: {'missing' if name not in made else f'{made[name].dtype.name} {tuple(made[name].shape)}'}, "
            f"specified as {one.dtype.name} {tuple(one.shape)}"
            for name, one in spec.items()
            if name not in made or (made[name].dtype, made[name].shape) != (one.dtype, one.shape)
        ]
        if wrong:
            raise TrainerError(
                "the features are not what batch_spec says:\n" + "\n".join(f"  {line}" for line in wrong)
            )
        return made

    def _per_clip_losses(self, batch: Batch) -> Means:
        return self.trainable.losses(self.model, batch, training=False)

    def _update_in_turn(self, updaters: Sequence[Updater], batch: Batch) -> tf.Tensor:
        values = []
        for updater in updaters:
            gradients, means = self._gradients(updater, batch)
            values.append(updater.values(means))
            updater.apply(gradients)
        return tf.concat(values, 0)

    def _update_over_hosts(self, layout: BatchLayout, words: Any) -> tf.Tensor:
        """The updates from this host's part of a batch: the mean over the hosts lies between gradients and update."""
        hosts = self.devices.hosts
        if hosts is None:
            raise ValueError("these devices are not those of a run over hosts")
        values, stop = [], self._stop
        for number, updater in enumerate(self.updaters):
            gradients, means = self._gradients_of[number][0](Packed(layout, words))
            shaped = [tf.reshape(each, one.shape) for each, one in zip(gradients, updater.variables, strict=True)]
            asked = self._stop if updater is self.updaters[-1] else self._stop[:0]  # once a step
            *reduced, mean = hosts.mean([*shaped, tf.concat([updater.values(means), asked], 0)], of=number)
            value, stop = mean[: len(updater.names)], mean[len(updater.names) :]
            values.append(value)
            self._apply[number](*reduced)
        return tf.concat([*values, stop], 0)

    def _update_mirrored(self, layout: BatchLayout, words: Any) -> tf.Tensor:
        def of_replica(words: tf.Tensor) -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            replica = int(tf.get_static_value(context.replica_id_in_sync_group))
            values = []
            for number, updater in enumerate(self.updaters):
                gradients, means = self._gradients_of[number][replica](Packed(layout, words))
                own = [*gradients, updater.values(means)]
                *reduced, mean = context.all_reduce(tf.distribute.ReduceOp.MEAN, own)
                updater.apply(reduced)
                values.append(mean)
            return tf.concat(values, 0)

        strategy = tf.distribute.get_strategy()
        values: tf.Tensor = strategy.experimental_local_results(strategy.run(of_replica, args=(words,)))[0]
        return values

    def _gradients(self, updater: Updater, batch: Batch) -> tuple[list[tf.Tensor], Means]:
        """Mean gradients and losses over the micro-batches (rows 0…B/N − 1 first), accumulated inside the graph."""
        if self._accumulate == 1:
            return updater.gradients(batch)
        count = self._accumulate
        parts = {
            name: tf.reshape(value, [count, value.shape[0] // count, *value.shape[1:]]) for name, value in batch.items()
        }
        first_gradients, first_means = updater.gradients({name: part[0] for name, part in parts.items()})
        names = list(first_means)

        def add(i: tf.Tensor, *sums: tf.Tensor) -> list[tf.Tensor]:
            gradients, means = updater.gradients({name: part[i] for name, part in parts.items()})
            more = [*gradients, *(means[name] for name in names)]
            return [i + 1, *(total + value for total, value in zip(sums, more, strict=True))]

        start = [tf.constant(1), *first_gradients, *(first_means[name] for name in names)]
        _, *sums = tf.while_loop(
            lambda i, *_: i < count, add, start, parallel_iterations=1, maximum_iterations=count - 1
        )
        averaged = [total / count for total in sums]
        gradients = len(updater.variables)
        return averaged[:gradients], dict(zip(names, averaged[gradients:], strict=True))

    # -- state -----------------------------------------------------------------------------------------------------

    @property
    def variables(self) -> list[keras.Variable]:
        """Those of the model and of its optimizers."""
        return [variable for _, variable in self._named_variables()]

    def state(self) -> dict[str, NDArray[Any]]:
        """Every variable that the next step depends on, by name."""
        self.settle()
        return {name: np.asarray(variable.numpy()) for name, variable in self._named_variables()}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Takes back what `state` gave. Raises TrainerError where names or shapes do not fit this model.

        Averages begin with the weights where it has none, and are left out where this run has none.
        """
        named = self._named_variables()
        if not self._averages or not has_average(state):
            state = without_average(state)
            named = [(name, variable) for name, variable in named if not name.startswith(EMA)]
        wrong = mismatches({name: tuple(variable.shape) for name, variable in named}, state)
        if wrong:
            raise TrainerError("the checkpoint is of another model:\n" + "\n".join(f"  {line}" for line in wrong[:20]))
        self._assign(named, state)
        if not has_average(state):
            self._begin_averages()

    def restore_weights(self, state: Mapping[str, NDArray[Any]]) -> list[str]:
        """Takes the weights only, averaged ones where there are some, where they fit; a line for each that does not."""
        named = [(name, variable) for name, variable in self._named_variables() if name.startswith(MODEL)]
        weights = weights_for_use(state)
        wrong = mismatches({name: tuple(variable.shape) for name, variable in named}, weights)
        fitting = [
            (name, variable)
            for name, variable in named
            if name in weights and weights[name].shape == tuple(variable.shape)
        ]
        self._assign(fitting, weights)
        self._begin_averages()
        return wrong

    def _assign(self, named: list[tuple[str, keras.Variable]], state: Mapping[str, NDArray[Any]]) -> None:
        with self.scope():
            for name, variable in named:
                variable.assign(state[name])

    def _named_variables(self) -> list[tuple[str, keras.Variable]]:
        weights = named_weights(self.model)
        names = {id(variable): name for name, variable in weights.items()}
        averages = [
            named
            for one in self.updaters
            if one.average is not None
            for named in (
                (f"{EMA}updates/{one.name}".rstrip("/"), one.average.updates),
                *(
                    (EMA + names[id(variable)], average)
                    for variable, average in zip(one.average.variables, one.average.averages, strict=True)
                    if id(variable) in names
                ),
            )
        ]
        return [*weights.items(), *(named for one in self.updaters for named in one.state), *averages]

    @property
    def _averages(self) -> list[WeightAverage]:
        return [one.average for one in self.updaters if one.average is not None]

    def _begin_averages(self) -> None:
        with self.scope():
            for average in self._averages:
                average.begin()

    def _swap(self) -> None:
        with self.scope():
            for average in self._averages:
                average.swap()

    # -- construction ----------------------------------------------------------------------------------------------

    def _compiled_gradients(self, replicas: int, xla: bool) -> list[list[Callable[[Packed], Any]]]:
        """Functions that give the gradients of each update, one for each replica."""

        def of(updater: Updater) -> Callable[[Packed], Any]:
            return self._compiled("update", lambda batch: self._gradients(updater, batch), xla)

        return [[of(updater) for _ in range(replicas)] for updater in self.updaters]

    def _compiled(
        self, name: str, function: Callable[[Batch], Any], xla: bool, *, threads: bool = False
    ) -> Callable[[Packed], Any]:
        """The function of a batch, compiled once for each layout of a packed batch that it meets.

        With `threads` not in the scope of `executor_scope`.
        """

        def of_layout(layout: BatchLayout, words: tf.Tensor) -> Any:
            batch = layout.unpack(words)
            self._count_trace(name, batch)
            return function(batch)

        return self._compiled_by_layout(name, of_layout, xla, threads=threads)

    def _compiled_by_layout(
        self, name: str, function: Callable[[BatchLayout, Any], Any], xla: bool, *, threads: bool = False
    ) -> Callable[[Packed], Any]:
        by_layout: dict[BatchLayout, Callable[[Any], Any]] = {}
        tracing = threading.Lock()  # threads of the ring meet a new layout at the same time

        def made(layout: BatchLayout) -> Callable[[Any], Any]:
            def traced(words: Any) -> Any:
                return function(layout, words)

            traced.__name__ = name  # how TensorFlow's profiler calls it
            return tf.function(traced, jit_compile=xla or None, autograph=False)

        def call(packed: Packed) -> Any:
            with nullcontext() if threads else executor_scope(self.devices):
                if packed.layout in by_layout:
                    return by_layout[packed.layout](packed.words)
                with tracing:
                    compiled = by_layout.get(packed.layout) or made(packed.layout)
                    values = compiled(packed.words)
                    by_layout[packed.layout] = compiled
                    return values

        return call

    def _count_trace(self, name: str, batch: Batch) -> None:
        self.traces[name] += 1
        alone = self._strategy is None and self.devices.hosts is None
        functions = 1 if alone or name != "update" else self.replicas * len(self.updaters)
        most = None if self._most_traces is None else self._most_traces * functions
        if most is not None and self.traces[name] > most:
            shapes = {key: tuple(value.shape) for key, value in batch.items()}
            raise TrainerError(
                f"{name} was to be traced a {self.traces[name]}th time for {most} length buckets, by a batch of shapes "
                f"{shapes}: every batch must have the static shape of its bucket",
                exit_code=1,
            )


def named_weights(model: keras.Model) -> dict[str, keras.Variable]:
    """A model's variables by the names that checkpoints use.

    Keras numbers what has no name of its own through the whole process (dropout_7); here it is numbered within its
    place, so that a model has the same names in every process. Raises TrainerError for names that are not unique.
    """
    places: dict[tuple[str, str], list[str]] = {}
    named: dict[str, keras.Variable] = {}
    for variable in model.variables:
        name = "model"
        for part in variable.path.split("/"):
            stem = part.rstrip("0123456789").rstrip("_") or part
            alike = places.setdefault((name, stem), [])
            if part not in alike:
                alike.append(part)
            number = alike.index(part)
            name += f"/{stem}_{number}" if number else f"/{stem}"
        if name in named:
            raise TrainerError(
                f"the model has two variables of the name {variable.path!r}: a checkpoint needs one each"
            )
        named[name] = variable
    return named


def mismatches(expected: Mapping[str, tuple[int, ...]], found: Mapping[str, NDArray[Any]]) -> list[str]:
    """Differences between the variables of a model and those of a checkpoint, a line each."""
    lines = [f"missing: {name} {shape}" for name, shape in expected.items() if name not in found]
    lines += [f"unknown: {name} {value.shape}" for name, value in found.items() if name not in expected]
    lines += [
        f"shape of {name}: {found[name].shape} in the checkpoint, {shape} in the model"
        for name, shape in expected.items()
        if name in found and found[name].shape != shape
    ]
    return lines
