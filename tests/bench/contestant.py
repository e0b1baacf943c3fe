"""One contestant of the trainer's benchmark, in a process of its own: runs so many steps when it is told to.

Reads lines of JSON from standard input, answers each with one on standard output. A contestant that is not asked does
nothing, so that several can take turns on the same machine.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

WARM_STEPS = 8  # of each turn, not timed: buffers settle

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"  # contestants share the GPUs


def configuration(kind: str, args: argparse.Namespace) -> Any:
    """The settings of a contestant; all sides of a comparison share them."""
    from voxyard.trainer import DataConfig, ModelConfig, TelemetryConfig, TrainConfig, TrainingConfig

    split: dict[str, Any] = {"data_gpu": 0, "model_gpu": 1} if kind == "split" else {}
    on_cpu: dict[str, Any] = {"device_threads": args.threads} if args.device == "cpu" else {}
    parts: dict[str, Any] = {"gpu_parts": args.gpu_parts} if kind in ("split", "mirrored") else {}
    own = args.shape == "balanced"
    return TrainConfig(
        model=ModelConfig(
            size="tiny" if own else args.shape, module="workload:balanced" if own else None, fft_size=args.fft_size,
            networks=args.networks,
        ),
        data=DataConfig(
            train_data=args.corpus, validation_share=0, buckets=1, num_workers=1,
            pipeline_buffer_size=args.buffer, prefetch_buffer_size=args.ring, adapt=False, **split,
        ),
        training=TrainingConfig(
            device=args.device,
            discriminators_after=10**9 if args.first_phase else 0,
            strategy="mirrored" if kind == "mirrored" else None,
            batch_size=args.rows,
            checkpoint_dir=Path(tempfile.mkdtemp()),
            seed=1,
            **on_cpu,
            **parts,
        ),
        telemetry=TelemetryConfig(tensorboard=False),
    )  # fmt: skip


class Voxyard:
    """The trainer: its stages alone, one after the other on one device, and overlapped."""

    def __init__(self, config: Any) -> None:
        from voxyard.trainer.api import open_run

        self.run = open_run(config)
        plans = list(self.run.sampler.batches(0, self.run.sampler.steps_per_epoch))
        self.arrays = [self.run.assemble(plan).arrays for plan in plans[:32]]
        self.next = 0
        for bucket in {plan.bucket for plan in plans}:  # every shape is traced before anything is timed
            plan = next(plan for plan in plans if plan.bucket == bucket)
            staged = self.run.step.stage(self.run.assemble(plan).arrays)
            self.run.step.train(staged)

    def features(self, steps: int) -> float:
        """The data stage alone: features on the data device and the copy."""
        return self._timed(steps, self.run.step.stage)

    def update(self, steps: int) -> float:
        """The training stage alone, on batches that lie on its device."""
        staged = [self.run.step.stage(arrays) for arrays in self.arrays]
        return self._timed(steps, self.run.step.train, staged)

    def main_update(self, steps: int) -> float:
        """Of two networks the one on the model device alone."""
        staged = [self.run.step.stage(arrays).model for arrays in self.arrays[:8]]
        return self._timed(steps, self.run.step.train, staged)

    def beside_update(self, steps: int) -> float:
        """Of two networks the one on the data device alone."""
        staged = [self.run.step.stage(arrays).data for arrays in self.arrays[:8]]
        return self._timed(steps, self._train_beside, staged)

    def _train_beside(self, made: Any) -> None:
        step: Any = self.run.step
        future = step.submit_beside(made, step.trainable.turns(0))
        assert future is not None
        future.result()

    def serial(self, steps: int) -> float:
        """One device: features and update one after the other."""
        step = self.run.step

        def both(arrays: Any) -> None:
            step.train(step.features_of(arrays, step.devices.model))

        return self._timed(steps, both)

    def in_turn(self, steps: int) -> float:
        """Two networks on one core: features, and the update of each, one after the other."""
        step = self.run.step

        def all_of(arrays: Any) -> None:
            made = step.stage(arrays)
            step.train(made.model)
            self._train_beside(made.data)

        return self._timed(steps, all_of)

    def overlapped(self, steps: int, observed: bool = False) -> dict[str, float]:
        """The pipeline as it trains; with `observed`, metrics, losses and progress too."""
        from voxyard.trainer.steps.in_flight import StepsInFlight

        with contextlib.ExitStack() as stack:
            end = self.next + WARM_STEPS + steps + 200
            pipeline = stack.enter_context(self.run.pipeline(self.next, end))
            pipeline.warm_up()
            tell = self._observer(stack, end) if observed else None
            in_flight = stack.enter_context(StepsInFlight(asynchronous=self.run.step.asynchronous))
            waited, depth, begin = 0.0, 0, time.perf_counter()
            beside: dict[int, float] = {}  # when the data device had trained on the batch of a step
            for number in range(WARM_STEPS + steps):
                if number == WARM_STEPS:
                    begin, waited, depth = time.perf_counter(), 0.0, pipeline.ring.ready
                if self.run.launch(in_flight, pipeline) is None:
                    raise SystemExit("the pipeline ended before the turn")
                for ended in in_flight.ended():
                    waited += ended.wait
                    if (future := getattr(ended.losses, "beside", None)) is not None:
                        future.add_done_callback(lambda _, of=number: beside.setdefault(of, time.perf_counter()))
                    if tell is not None:
                        tell(ended, pipeline)
            self.run.step.synchronise()
            seconds = time.perf_counter() - begin
            # Batches that passed the whole pipeline: those taken, corrected by half of what the ring gained or lost.
            batches = steps + (pipeline.ring.ready - depth) / 2
            if beside:  # between two ends of the later network, so that neither its head start nor its rest counts
                seconds, batches = beside[WARM_STEPS + steps - 1] - beside[WARM_STEPS - 1], steps
        self.next += WARM_STEPS + steps
        return {"seconds": seconds / batches, "wait": waited / seconds, "clips": self.run.rows * batches / seconds}

    def _observer(self, stack: contextlib.ExitStack, end: int) -> Callable[..., None]:
        from voxyard.telemetry.workloads import TrainMetrics
        from voxyard.trainer.config import TelemetryConfig
        from voxyard.trainer.observer import Observer
        from voxyard.trainer.steps.updates import RATE

        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        settings = TelemetryConfig(metrics_port=_free_port())
        observer = stack.enter_context(
            Observer(settings, TrainMetrics("bench", cards=self.run.devices.cards), directory, first=0, end=end)
        )

        def tell(ended: Any, pipeline: Any) -> None:
            observer.step(
                ended.step, ended.duration, ended.wait,
                samples=self.run.rows, ring_depth=pipeline.ring.ready, buffer=pipeline.buffer,
            )  # fmt: skip
            if ended.step % settings.log_every == 0:
                values = dict(ended.losses.read())
                observer.losses(ended.step, values, values.pop(RATE))

        return tell

    def _timed(self, steps: int, work: Callable[[Any], Any], items: list[Any] | None = None) -> float:
        items = self.arrays if items is None else items
        for number in range(2):
            work(items[number % len(items)])
        self.run.step.synchronise()
        begin = time.perf_counter()
        for number in range(steps):
            work(items[number % len(items)])
        self.run.step.synchronise()
        return (time.perf_counter() - begin) / steps

    def answer(self, request: dict[str, Any]) -> Any:
        """One turn."""
        name, steps = request["do"], request["steps"]
        if name == "memory":
            return self._memory(steps)
        if name in ("overlapped", "observed"):
            return self.overlapped(steps, observed=name == "observed")
        return {"seconds": getattr(self, name)(steps)}

    def _memory(self, steps: int) -> dict[str, float]:
        from voxyard.trainer.reporting.clocks import resident_bytes

        early = 0
        with self.run.pipeline(self.next, self.next + steps) as pipeline:
            for number in range(steps):
                staged, _ = _next(pipeline)
                self.run.step.train(staged.batch)
                if number == steps // 10:
                    early = resident_bytes()
            late = resident_bytes()
        self.next += steps
        return {"growth": late / early - 1}


class KerasFit:
    """Baseline that a user would write instead: `keras.Model.fit` over a tf.data pipeline with AUTOTUNE."""

    def __init__(self, config: Any, threads: int) -> None:
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(threads)
        self._config = config
        self._go, self._done = threading.Semaphore(0), threading.Semaphore(0)
        self._left = self._skip = 0
        self._begin = 0.0
        threading.Thread(target=self._fit_or_end, daemon=True).start()
        self._done.acquire()  # compiled, every shape traced

    def answer(self, request: dict[str, Any]) -> dict[str, float]:
        """One turn: so many steps of the one fit that never ends."""
        self._skip, self._left = WARM_STEPS, request["steps"]
        self._go.release()
        self._done.acquire()
        return {"seconds": (time.perf_counter() - self._begin) / request["steps"]}

    def _fit_or_end(self) -> None:
        try:
            self._fit()
        finally:  # it never ends well: the fit has no end
            traceback.print_exc()
            os._exit(1)  # whoever waits for a turn must not wait for ever

    def _fit(self) -> None:
        import keras

        from voxyard.trainer.corpora import open_corpora
        from voxyard.trainer.input import BatchAssembler
        from voxyard.trainer.load_trainable import load_trainable
        from voxyard.trainer.sampler import BatchSampler, plan_buckets
        from voxyard.trainer.trainable import Trainable

        config, outer = self._config, self
        source = open_corpora(config).training
        frames, tokens, rows = (
            source.samples // config.model.hop_length,
            source.token_lengths,
            config.training.batch_size,
        )
        buckets = plan_buckets(frames, tokens, rows=rows, most=config.data.buckets)
        sampler = BatchSampler(frames, tokens, buckets=buckets, rows=rows, seed=1, window=160)
        assemble = BatchAssembler(source, sampler, hop_length=config.model.hop_length, seed=1, max_bad_share=0)
        plans = list(sampler.batches(0, sampler.steps_per_epoch))
        keras.utils.set_random_seed(1)
        trainable = load_trainable(config, source.speakers)
        if not isinstance(trainable, Trainable):
            raise TypeError("Model.fit has one optimizer, this trainable several")
        model = _fit_model(trainable)
        optimizer = trainable.optimizer()
        optimizer.global_clipnorm = config.training.clip_norm
        model.compile(optimizer=optimizer, jit_compile=False)

        class Turns(keras.callbacks.Callback):
            """Holds the fit between turns."""

            def __init__(self) -> None:
                super().__init__()
                self.seen = 0

            def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
                self.seen += 1
                if self.seen < WARM_STEPS:
                    return
                if outer._skip:
                    outer._skip -= 1
                    if not outer._skip:
                        outer._begin = time.perf_counter()
                    return
                outer._left -= 1
                if outer._left <= 0:
                    outer._done.release()
                    outer._go.acquire()

        dataset = _dataset([assemble(plan).arrays for plan in plans], trainable)
        model.fit(dataset, epochs=1, steps_per_epoch=10**9, shuffle=False, verbose=0, callbacks=[Turns()])


def _fit_model(trainable: Any) -> Any:
    import keras
    import tensorflow as tf

    class FitModel(keras.Model):
        """The same model and losses behind Keras' own training step."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = trainable.build()

        def call(self, batch: Any, training: bool = False) -> Any:
            return trainable.losses(self.inner, batch, training=training)["total"]

        def compute_loss(self, x: Any, y: Any, y_pred: Any, *_: Any, **__: Any) -> Any:
            return tf.reduce_mean(y_pred)

    return FitModel()


def _dataset(batches: list[Any], trainable: Any) -> Any:
    """The batches' PCM lies in memory already: reading costs this contestant nothing."""
    import numpy as np
    import tensorflow as tf

    stacked = {name: np.stack([arrays[name] for arrays in batches]) for name in batches[0]}
    dataset = tf.data.Dataset.from_tensor_slices(stacked).shuffle(len(batches), seed=1).repeat()
    return dataset.map(trainable.features, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def _next(pipeline: Any) -> tuple[Any, float]:
    staged, wait = pipeline.get()
    if staged is None:
        raise SystemExit("the pipeline ended before the turn")
    return staged, wait


def _free_port() -> int:
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def requests() -> Iterator[dict[str, Any]]:
    """The lines of standard input."""
    for line in sys.stdin:
        yield json.loads(line)


def main() -> None:
    """Becomes the contestant that the arguments describe."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["split", "single", "mirrored", "keras"])
    parser.add_argument("--shape", required=True, help="balanced (workload.py), or a row of the table of model sizes")
    parser.add_argument("--rows", type=int, required=True, help="clips in a batch on one device")
    parser.add_argument("--fft-size", type=int, required=True)
    parser.add_argument("--networks", default="acoustic")
    parser.add_argument("--first-phase", action="store_true", help="train the vocoder without discriminators")
    parser.add_argument("--device", choices=["cpu", "gpu"], required=True)
    parser.add_argument("--gpu-parts", type=int, default=1, help="logical GPUs of a card, where two devices train")
    parser.add_argument("--buffer", type=int, default=10, help="batches of host-side prefetch")
    parser.add_argument("--ring", type=int, default=3, help="slots of the ring")
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--threads", type=int, required=True, help="of an operation on a CPU device")
    args = parser.parse_args()
    answers, sys.stdout = sys.stdout, sys.stderr
    sys.path.insert(0, str(Path(__file__).parent))
    config = configuration(args.kind, args)
    contestant = KerasFit(config, args.threads) if args.kind == "keras" else Voxyard(config)
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for request in requests():
        print(json.dumps(contestant.answer(request)), file=answers, flush=True)


if __name__ == "__main__":
    main()
