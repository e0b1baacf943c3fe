"""Step: the compiled functions of a run, each on its device: features, update, evaluation."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from voxyard.trainer.config import TrainConfig, VocoderOn
from voxyard.trainer.copies import HOST, to_device
from voxyard.trainer.devices.tensorflow_setup import Devices
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.packing import BatchLayout, Packed, pack_arrays, pack_tensors
from voxyard.trainer.sampler import BatchPlan, Bucket
from voxyard.trainer.steps.beside import ONCE, UpdatesBeside, name_of, one_by_one
from voxyard.trainer.steps.compiled import Compiler
from voxyard.trainer.steps.gradients import UPDATE, in_turn, in_turns, whole
from voxyard.trainer.steps.losses import StepLosses
from voxyard.trainer.steps.mirrored import UpdateMirrored
from voxyard.trainer.steps.over_hosts import UpdateOverHosts
from voxyard.trainer.steps.stage_timer import StageTimer
from voxyard.trainer.steps.state import StepState
from voxyard.trainer.steps.update_thread import UpdateThread
from voxyard.trainer.steps.updates import Means, Updater, updaters_of
from voxyard.trainer.trainable import Batch, SeveralUpdates, Trainable, Turns, UpdatesInTurns

Arrays = Mapping[str, NDArray[Any]]


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
        self.trainable, self.devices = trainable, devices
        self._compiler = Compiler(devices, xla=bool(config.training.xla), most_traces=most_traces)
        self.traces = self._compiler.traces
        self.timer = StageTimer(self.traces, asynchronous=self.asynchronous)
        self._static_shapes, self._hop = config.data.static_shapes, config.model.hop_length
        self._strategy = (
            tf.distribute.MirroredStrategy(list(devices.replicas)) if devices.strategy == "mirrored" else None
        )
        self.beside_on = _place_beside(trainable, devices, config.training.vocoder_on)
        on_data = self.beside_on == "data"
        place = {"beside": devices.data} if on_data else {}
        with self.scope():
            self.model = trainable.build(**place)
            reduced = self._strategy is not None
            self.updaters = updaters_of(trainable, self.model, config.training, reduced=reduced, **place)
        self._state = StepState(self.model, self.updaters, self.scope)
        self._main = [one for one in self.updaters if one.name not in _beside_of(trainable)]
        self._beside = [one for one in self.updaters if one.name in _beside_of(trainable)]
        self.update_thread = UpdateThread(self._train_beside) if on_data else None
        self._trained_beside: set[tuple[BatchLayout, Turns]] = set()  # by that thread: compiled
        # A CPU device computes one function at a time, a GPU has its own queue.
        self._data_turn = threading.Lock() if on_data and devices.kind == "cpu" else nullcontext()
        self._made: dict[BatchLayout, BatchLayout] = {}  # layout of the features of each raw batch
        self._features = self._compiler.of_batch("features", self._packed_features)
        # Networks on two devices in one function: an executor of one thread would wait for itself.
        # XLA compiles for one device, and refuses variables of another.
        self._evaluate_of = [  # a function for each replica: what it captures are that replica's variables
            self._compiler.of_batch(
                "evaluate",
                self._per_clip_losses,
                threads=on_data,
                alike=self.replicas,
                xla=False if on_data else None,
            )
            for _ in range(self.replicas)
        ]
        self._evaluate_on_replicas = self._compiler.of_layout("evaluate", self._losses_of_replicas, xla=False)
        self.over_hosts: UpdateOverHosts | None = None
        self._in_turns = trainable if isinstance(trainable, UpdatesInTurns) else None
        self._compile_updates(config.training.grad_accum)

    def _compile_updates(self, count: int) -> None:
        """The update on the model device, and those `beside` it, accumulated over `count` parts of a batch."""
        compiler, devices = self._compiler, self.devices
        part = whole if self._in_turns is None else self._in_turns.of_turn
        self._update: Callable[..., Any]
        over_devices: Callable[..., Any] | None = None  # makes an update whose gradients are reduced between devices
        if devices.hosts is not None:
            over = partial(UpdateOverHosts, compiler, hosts=devices.hosts, accumulate=count)
            self._update = self.over_hosts = over(self._main)
            over_devices = partial(over, part=part, after=len(self._main))
        elif self._strategy is not None:
            mirrored = partial(UpdateMirrored, compiler, replicas=self.replicas, accumulate=count)
            self._update, over_devices = mirrored(self._main), partial(mirrored, part=part)
        else:
            self._update = compiler.of_batch(UPDATE, lambda batch: in_turn(self._main, batch, count))

        def beside_in(updaters: Sequence[Updater], turns: Turns) -> Callable[[Packed], Any]:
            name = name_of(turns)
            if over_devices is not None:
                return one_by_one(over_devices(updaters, name=name), turns)
            return compiler.of_batch(name, lambda batch: in_turns(updaters, batch, count, turns.count, part))

        self._update_beside = UpdatesBeside(self._beside, beside_in)

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
            return staged if self.update_thread is None else OnBoth(made, staged)
        return self._on_each(
            {name: np.array_split(array, self.replicas)[replica] for name, array in arrays.items()}
            for replica in range(self.replicas)
        )

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

    def train(self, staged: Any, step: int = 0) -> StepLosses:
        """The updates of step `step`, from 0, from a staged batch; its losses, still on the device.

        Of updates that are made in turns the losses are those of the last turn.
        """
        turns = ONCE if self._in_turns is None else self._in_turns.turns(step)
        if isinstance(staged, OnBoth):
            beside = self.submit_beside(staged.data, turns)
            with tf.device(self.devices.model):
                values = self._update(staged.model)
            if beside is not None and (staged.data.layout, turns) not in self._trained_beside:
                wait([beside])  # compiling is of this step, and the next ones are timed without it
                self._trained_beside.add((staged.data.layout, turns))
            return StepLosses(self._names, values, beside)
        made = staged if self._strategy is None else self._on_replicas(staged, self._strategy)
        with nullcontext() if self._strategy is None else self.scope(), tf.device(self.devices.model):
            values = self._update(made)  # its result stays there
            if not self._beside or self.beside_on == "data":  # a batch of the model device alone
                return StepLosses(self._names, values)
            return StepLosses(self._names, values, of_beside=self._train_in_turn(made, turns))

    def _on_each(self, batches: Iterable[Arrays]) -> list[Packed]:
        """A raw batch on each replica."""
        return [
            Packed(raw.layout, to_device({"words": raw.words}, device)["words"])
            for raw, device in zip(map(pack_arrays, batches), self.devices.replicas, strict=True)
        ]

    def submit_beside(self, made: Packed, turns: Turns) -> Future[dict[str, float]] | None:
        """Hands the updates on the data device, in these turns, over to their thread; None where there is none."""
        return None if self.update_thread is None else self.update_thread.submit((made, turns))

    def _on_replicas(self, staged: Sequence[Packed], strategy: tf.distribute.Strategy) -> Packed:
        """The features of each replica's part of a batch, as one distributed value."""
        parts = [self._features_on(device, part) for device, part in zip(self.devices.replicas, staged, strict=True)]
        words = strategy.experimental_distribute_values_from_function(
            lambda context: parts[context.replica_id_in_sync_group].words
        )
        return Packed(parts[0].layout, words)

    def shape_of(self, plan: BatchPlan, rows: int) -> str:
        """What the time of a step depends on, in a few words: clips x frames, and the kind of its turns.

        Clips alone where each batch has a length of its own: a day would have thousands of them.
        """
        length = f"x{plan.bucket.frames}" if self._static_shapes else ""
        kind = "" if self._in_turns is None else f" {self._in_turns.turns(plan.step).kind}"
        return f"{rows}{length}{kind}"

    @property
    def _names(self) -> tuple[str, ...]:
        """Names of what an update on the model device gives: losses and rates, over hosts who asked to stop."""
        stops = () if self.over_hosts is None else self.over_hosts.more_names
        return (*(name for one in self._main for name in one.names), *stops)

    @property
    def beside_names(self) -> tuple[str, ...]:
        """Names of the updates that a split may make on the data device, timed apart; none where they are not timed.

        These are mirrored devices and hosts. One device times them, so that its run tells what a split would gain.
        """
        alone = self.devices.strategy == "single" and self.devices.hosts is None
        return tuple(one.name for one in self._beside) if self.beside_on or alone else ()

    def _train_in_turn(self, made: Packed, turns: Turns) -> tuple[tuple[str, ...], tf.Tensor]:
        """The updates `beside` on the model device, after the others; names and values of their losses.

        With --vocoder-on model, and on one device, they are timed where the timer says so: on GPUs after a barrier.
        """
        if not (self.timer.beside_next and self.beside_names):
            return self._update_beside(made, turns)
        if self.asynchronous:
            self.synchronise()
        with self.timer.of_beside(name_of(turns)):
            names, values = self._update_beside(made, turns)
            if self.asynchronous:
                to_device({"values": values}, HOST)  # once they are computed, whatever the data device does meanwhile
        return names, values

    def _train_beside(self, asked: tuple[Packed, Turns]) -> dict[str, float]:
        """In the update thread: the updates on the data device from a batch, in these turns; their losses."""
        with self._data_turn, self.timer.of_beside(name_of(asked[1])):
            with tf.device(self.devices.data):
                names, values = self._update_beside(*asked)
            read = to_device({"values": values}, HOST)["values"].numpy()
        return dict(zip(names, map(float, read), strict=True))

    def ask_to_stop(self) -> None:
        """Over hosts: the next step tells all of them that this host was asked to stop."""
        if self.over_hosts is not None:
            self.over_hosts.ask_to_stop()

    def evaluate(self, arrays: Arrays) -> dict[str, NDArray[np.float32]]:
        """Losses per clip (B,) of a raw batch, without training on it."""
        return self.evaluate_each([arrays])[0]

    def evaluate_each(self, batches: Sequence[Arrays]) -> list[dict[str, NDArray[np.float32]]]:
        """Losses per clip of raw batches of one layout, at most one for each replica: at once, each on its own."""
        self.settle()
        if self._strategy is None:
            with tf.device(self.devices.model):
                losses = [self._evaluate_of[0](self._features_for_model(arrays)) for arrays in batches]
        else:
            idle = [batches[-1]] * (self.replicas - len(batches))
            made = self._on_replicas(self._on_each([*batches, *idle]), self._strategy)
            with self.scope(), tf.device(self.devices.model):
                losses = self._evaluate_on_replicas(made)[: len(batches)]
        return [{name: value.numpy() for name, value in of_one.items()} for of_one in losses]

    def features_for_model(self, arrays: Arrays) -> Batch:
        """The feature batch of a raw batch, on the model device."""
        self.settle()
        with tf.device(self.devices.model):
            return self._features_for_model(arrays).unpack()

    def settle(self) -> None:
        """Waits for the updates beside the model device. Raises what one of them has raised."""
        if self.update_thread is not None:
            self.update_thread.drain()

    def close(self) -> None:
        """Ends the thread of the updates beside the model device."""
        if self.update_thread is not None:
            self.update_thread.close()

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

    def data_stage_alone(self, arrays: Arrays) -> dict[str, float]:
        """Seconds of the data stage of a batch alone, by part: where it has two, each between barriers of its own."""
        if self.devices.strategy == "mirrored":
            return {"both": self.seconds_alone(lambda: self.stage(arrays))}
        made: list[Packed] = []
        features = self.seconds_alone(lambda: made.append(self.features_of(arrays)))
        return {"features": features, "transfer": self.seconds_alone(lambda: self.transfer(made[0]))}

    def memory_of_limits(self) -> dict[str, float | None]:
        """Peak of what TensorFlow's allocator held ÷ its limit, by role; only GPUs with a limit."""
        by_role = {"data": self.devices.data, "model": self.devices.model}
        return {
            role: tf.config.experimental.get_memory_info(by_role[role].removeprefix("/device:"))["peak"]
            / (limit * 2**20)
            for role, limit in self.devices.limits.items()
            if limit is not None
        }

    def memory_taken(self) -> dict[str, float]:
        """The most bytes that TensorFlow's allocator held, by device; without devices that do not count them."""
        devices = {self.devices.data, *self.devices.replicas}
        return {one: peak for one in devices if (peak := _most_taken(one))}

    def memory_by_role(self) -> dict[str, float]:
        """The same of GPUs by role; of mirrored ones, which share a role, with the device behind it."""
        if self.devices.kind != "gpu":
            return {}
        taken, of = self.memory_taken(), self.devices
        roles = {"data": of.data, "model": of.model} if of.data != of.model else {"model": of.model}
        if of.strategy == "mirrored":
            roles = {f"model ({device.removeprefix('/device:')})": device for device in of.replicas}
        return {role: taken[device] for role, device in roles.items() if device in taken}

    def _features_on(self, device: str, raw: Packed) -> Packed:
        """The feature batch, computed on `device`; precomputed features pass through."""
        if "pcm" not in raw.layout.names:
            return raw
        with self.timer.turn(self._data_turn), tf.device(device):
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

    def _losses_of_replicas(self, layout: BatchLayout, words: Any) -> Any:
        """Losses per clip of each replica's own batch."""

        def of_replica(words: tf.Tensor) -> Means:
            replica = int(tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group))
            losses: Means = self._evaluate_of[replica](Packed(layout, words))
            return losses

        strategy = tf.distribute.get_strategy()
        return strategy.experimental_local_results(strategy.run(of_replica, args=(words,)))

    def _per_clip_losses(self, batch: Batch) -> Means:
        return self.trainable.losses(self.model, batch, training=False)

    # -- state -----------------------------------------------------------------------------------------------------

    @property
    def variables(self) -> list[keras.Variable]:
        """Those of the model and of its optimizers."""
        return [variable for _, variable in self._state.named()]

    def state(self) -> dict[str, NDArray[Any]]:
        """Every variable that the next step depends on, by name."""
        self.settle()
        return self._state.read()

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Takes back what `state` gave; see StepState.restore."""
        self._state.restore(state)

    def restore_weights(self, state: Mapping[str, NDArray[Any]]) -> list[str]:
        """Takes the weights only; see StepState.restore_weights."""
        return self._state.restore_weights(state)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Scope in which the model has its averaged weights (--ema), and is not trained; without --ema no change."""
        self.settle()
        self._state.swap_averages()
        try:
            yield
        finally:
            self._state.swap_averages()


def _beside_of(trainable: object) -> frozenset[str]:
    """Names of the updates that a split may make on the data device."""
    return frozenset(getattr(trainable, "beside", ()))


def _place_beside(trainable: object, devices: Devices, asked: VocoderOn | None) -> VocoderOn | None:
    """Where those updates are made in a split; None without. Raises TrainerError where a place is `asked` for none."""
    if _beside_of(trainable) and devices.strategy == "split" and devices.hosts is None:
        return asked or "data"
    if asked is not None:
        raise TrainerError(f"--vocoder-on {asked} has no effect: this model names no updates in `beside`")
    return None


def _most_taken(device: str) -> float | None:
    """The most bytes that TensorFlow's allocator held; None where it does not count: a CPU's without oneDNN's."""
    try:
        return float(tf.config.experimental.get_memory_info(device.removeprefix("/device:"))["peak"])
    except ValueError:
        return None
