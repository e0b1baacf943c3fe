"""Training loop: sets a run up, moves batches through input, features, ring and step, and reports."""

from __future__ import annotations

import logging
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from voxyard.telemetry.gpu_watch import GpuWatch
from voxyard.telemetry.workloads import TrainMetrics
from voxyard.trainer import checkpoint
from voxyard.trainer.config import ModelConfig, TrainConfig, trained_config
from voxyard.trainer.corpora import Corpora
from voxyard.trainer.devices.tensorflow_setup import Devices, resolve_precision, resolve_xla
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.input import BatchAssembler, batch_bytes
from voxyard.trainer.judging.judges import require_judges
from voxyard.trainer.judging.spoken_validation import SpokenValidation
from voxyard.trainer.load_trainable import load_trainable
from voxyard.trainer.model.mel import EDGES
from voxyard.trainer.observer import Observer
from voxyard.trainer.pipeline import Pipeline
from voxyard.trainer.report import (
    CpuClock,
    MemoryGrowth,
    Report,
    StepClock,
    little_gain,
    split_bound,
    write_report,
)
from voxyard.trainer.sampler import BatchSampler, plan_buckets
from voxyard.trainer.samples import write_sample
from voxyard.trainer.saving.run_checkpoints import RunCheckpoints
from voxyard.trainer.step import STOP, TrainStep
from voxyard.trainer.steps.average import has_average
from voxyard.trainer.steps.in_flight import AHEAD, Calibration, EndedStep, StepsInFlight
from voxyard.trainer.steps.updates import RATE
from voxyard.trainer.text.front_end import described, reading_version
from voxyard.trainer.validation import HeldOutValidation

if TYPE_CHECKING:
    from voxyard.trainer.hosts.collectives import Hosts

log = logging.getLogger("voxyard.trainer")

FRONT_END = ("text_units", "read_words", "sample_rate", "fft_size", "hop_length", "mels", "mel_low_hz", "mel_high_hz")
"""Settings of the model that give its weights their meaning: a resumed run keeps them."""

DEFAULT_EPOCHS = 100
STEPS_TO_JUDGE = 20  # a split by, beside those that were traced
_STEP, _BEST = "run/step", "run/best"  # beside the state that hosts share


class Run:
    """One training run on devices that are set up, from the first batch to the report."""

    def __init__(self, config: TrainConfig, devices: Devices, corpora: Corpora) -> None:
        """Builds the model and restores its newest checkpoint. Raises TrainerError."""
        self.config = resolve(config, devices)
        if config.telemetry.judge:
            require_judges(config.telemetry)
        self.devices, self.corpora = devices, corpora
        self.clock = StepClock()
        self._stop: str | None = None
        self._begin = time.perf_counter()
        self._watch = GpuWatch(devices.cards)
        self._losses: dict[str, float] = {}
        self._validation: dict[str, float] = {}
        self._spoken: SpokenValidation | None = None
        self._validated: int | None = None  # the step whose weights these losses are of
        training = self.config.training
        keras.utils.set_random_seed(training.seed)
        replicas = len(devices.replicas) if devices.strategy == "mirrored" else 1
        self.rows = devices.batch_size * training.grad_accum * replicas
        self.hosts = devices.hosts
        self._own = slice(0, self.rows) if self.hosts is None else self.hosts.group.share(self.rows)
        self._all_reduce: float | None = None  # seconds, over hosts
        self._split_judged = False
        self._last: int | None = None  # over hosts: the step after which all of them end, once they know
        self._plan_batches()
        log.info("Creating model on device: %s", ", ".join(devices.replicas))
        self.step = TrainStep(
            load_trainable(self.config, corpora.speakers),
            devices,
            self.config,
            most_traces=self._most_traces(),
        )
        log.info("Model: %.1f M parameters, %s", self.step.model.count_params() / 1e6, training.precision)
        if training.ema is not None:
            log.info("Averaging the weights (--ema %g): validation, samples and synthesis use them", training.ema)
        self.metrics = TrainMetrics(
            self.name,
            devices=devices,
            ring_slots=self.config.data.prefetch_buffer_size,
            utilization_target=self.config.telemetry.utilization_target,
        )
        if self.hosts is not None:
            self.metrics.hosts(self.hosts.group.index, self.hosts.group.count)
        with self._lost_hosts():
            self.first_step, best = self._restore() if self.hosts is None else self._of_first(self.hosts)
        self.checkpoints = RunCheckpoints(
            training.checkpoint_dir,
            keep=training.keep_checkpoints,
            first=self.first_step,
            best=best,
            written=self.metrics.checkpoint,
        )
        self.metrics.pretrained(self.first_step > 0 or config.training.init_from is not None)
        self.end_step = self._end_step()

    @property
    def name(self) -> str:
        """The run's name in metrics and report."""
        return self.config.telemetry.run or self.config.training.checkpoint_dir.resolve().name

    @property
    def _own_rows(self) -> int:
        """Clips of a batch that this host trains on."""
        return self._own.stop - self._own.start

    # -- set-up ----------------------------------------------------------------------------------------------------

    def _plan_batches(self) -> None:
        config, source = self.config, self.corpora.training
        frames, tokens = source.samples // config.model.hop_length, source.token_lengths
        self.buckets = plan_buckets(frames, tokens, rows=self.rows, most=config.data.buckets)
        self.sampler = BatchSampler(
            frames,
            tokens,
            buckets=self.buckets if config.data.static_shapes else None,
            rows=self.rows,
            seed=config.training.seed,
            window=config.data.shuffle_buffer_multiplier * self.rows,
        )
        shapes = ", ".join(f"{bucket.frames}×{bucket.tokens}" for bucket in self.buckets)
        log.info(
            "%d clips make %d batches of %d an epoch; length buckets (frames × tokens): %s",
            len(source), self.sampler.steps_per_epoch, self.rows, shapes if config.data.static_shapes else "off",
        )  # fmt: skip
        self.assemble = BatchAssembler(
            source,
            self.sampler,
            hop_length=config.model.hop_length,
            seed=config.training.seed,
            max_bad_share=config.data.max_bad_share,
            part=self._own,
        )

    def _most_traces(self) -> int | None:
        return len(self.buckets) if self.config.data.static_shapes else None

    def _restore(self) -> tuple[int, float]:
        """The first step, and the best validation loss so far."""
        training = self.config.training
        if not training.resume:
            aside = checkpoint.set_aside(training.checkpoint_dir)
            if aside is not None:
                log.info("--no-resume: the earlier checkpoints are now in %s", aside)
        found = checkpoint.newest_good(training.checkpoint_dir) if training.resume else None
        if found is not None:
            self._refuse_other_front_end(found)
            self.step.restore(found.state)
            for name, mine in self._identity().items():
                if (was := found.meta.get(name)) != mine:
                    log.warning("The resumed run differs from the run before: %s was %s and is now %s", name, was, mine)
            log.info("Resuming from %s at step %d", found.path, found.step)
            best = found.meta.get("best")
            return found.step, math.inf if best is None else float(best)
        if training.init_from is not None:
            base = checkpoint.open_any(training.init_from)
            wrong = self._front_end_differences(base.meta) + self.step.restore_weights(base.state)
            of = "averaged weights of step" if has_average(base.state) else "step"
            log.info("Fine-tuning from %s (%s %d); did not match: %d", base.path, of, base.step, len(wrong))
            for line in wrong:
                log.warning("  %s", line)
        return 0, math.inf

    def _refuse_other_front_end(self, found: checkpoint.Checkpoint) -> None:
        """Raises TrainerError where a resumed run would give its weights another meaning."""
        mine = self.config.model
        was = trained_config(found.meta["config"]).model
        names = [*FRONT_END, *(["language"] if _needs_language(mine) and _needs_language(was) else [])]
        changed = [name for name in names if getattr(was, name) != getattr(mine, name)]
        if not changed:
            return
        differences = ", ".join(f"{name} was {getattr(was, name)} and is now {getattr(mine, name)}" for name in changed)
        flags = " ".join(_flag(name, getattr(was, name)) for name in changed)
        raise TrainerError(
            f"{found.path} cannot be resumed, its weights know another text or sound: {differences}; give {flags}, or "
            "start anew with --no-resume, or from its weights in another --checkpoint-dir with --init-from"
        )

    def _front_end_differences(self, meta: Mapping[str, Any]) -> list[str]:
        """Settings and speakers that give weights another meaning than in their checkpoint, a line each."""
        was = trained_config(meta["config"])
        pairs = {
            f"model.{name}": (getattr(was.model, name), mine)
            for name, mine in self.config.model
            if name not in ("size", "module")  # the variables tell these
        }
        if was.model.read_words and self.config.model.read_words:
            pairs["reading of numbers"] = (meta.get("reading", 0), reading_version(self.config.model))
        pairs["data.pre_emphasis"] = (was.data.pre_emphasis, self.config.data.pre_emphasis)
        pairs["speakers"] = (list(meta["speakers"]), list(self.corpora.speakers))
        return [
            f"{name}: {theirs} in the checkpoint, {mine} here"
            for name, (theirs, mine) in pairs.items()
            if theirs != mine
        ]

    def _of_first(self, hosts: Hosts) -> tuple[int, float]:
        """Result of `_restore`, and the state, of the first host, on every one."""
        step, best, state = 0, math.inf, {}
        if hosts.group.is_first:
            step, best = self._restore()
            state = self.step.state() | {_STEP: np.array(step, np.int64), _BEST: np.array(best, np.float64)}
        shared = hosts.from_first(state)
        step, best = int(shared.pop(_STEP)), float(shared.pop(_BEST))
        if not hosts.group.is_first:
            self.step.restore(shared)
            log.info("Starting at step %d with the state of %s", step, hosts.group.name(0))
        return step, best

    @contextmanager
    def _lost_hosts(self) -> Iterator[None]:
        """Scope in which the loss of another host is an error in words."""
        if self.hosts is None:
            yield
            return
        from voxyard.trainer.hosts.collectives import LOST

        try:
            yield
        except LOST as error:
            log.debug("%s", error)
            raise self.hosts.lost(error) from error

    def _identity(self) -> dict[str, Any]:
        """Settings that a resumed run must share with the one before to be exactly its continuation."""
        training = self.config.training
        return {
            "corpus": self.corpora.training.fingerprint,
            "rows": self.rows,
            "seed": training.seed,
            "ema": training.ema,
            "mel_edges": EDGES,
        }

    def _end_step(self) -> int:
        training = self.config.training
        ends = [] if training.max_steps is None else [training.max_steps]
        if training.epochs is not None or not ends:
            ends.append((training.epochs or DEFAULT_EPOCHS) * self.sampler.steps_per_epoch)
        return min(ends)

    def pipeline(self, first: int, end: int | None) -> Pipeline:
        """Pipeline of the batches of steps `first` to `end` − 1 to the model device."""
        mels = self.config.model.mels if self.corpora.training.feature_names else None
        hop = self.config.model.hop_length
        largest = max(batch_bytes(bucket, self._own_rows, hop, mels) for bucket in self.buckets)
        plans = self.sampler.batches(first, end)
        return Pipeline(
            self.step, self.assemble, plans, self.config.data,
            batch_bytes=largest, clock=self.clock, metrics=self.metrics.input,
        )  # fmt: skip

    # -- the run ---------------------------------------------------------------------------------------------------

    def execute(self) -> Report:
        """Trains to the end, or to a signal; saves; reports. Raises TrainerError or CorpusError."""
        if self.first_step >= self.end_step:
            log.info("Nothing to do: the checkpoint is at step %d of %d", self.first_step, self.end_step)
            return self._report(self.first_step, "nothing to do: the checkpoint is at the end", "")
        with ExitStack() as stack:
            stack.enter_context(self._lost_hosts())
            stack.enter_context(self._signals())
            stack.callback(self.step.close)
            stack.enter_context(self.checkpoints)
            self._time_network()
            held_out = self.open_validation()
            self._spoken = self._open_judges(stack)
            pipeline = stack.enter_context(self.pipeline(self.first_step, self.end_step))
            warm_up = pipeline.warm_up(self._stopped)
            self._watch = stack.enter_context(GpuWatch(self.devices.cards))
            observer = stack.enter_context(
                Observer(
                    self.config.telemetry,
                    self.metrics,
                    self.config.training.checkpoint_dir,
                    first=self.first_step,
                    end=self.end_step,
                )
            )
            return self._train(pipeline, held_out, observer, warm_up)

    def _time_network(self) -> None:
        """Over hosts: the time in which gradients are averaged, below which no step can be."""
        if self.hosts is None:
            return
        variables = self.step.model.trainable_variables
        self._all_reduce = self.hosts.seconds_of_mean(variables)
        mib = self._gradient_bytes / 2**20
        rate = mib / self._all_reduce
        log.info("The network averages %.1f MiB of gradients in %.3g s (%.3g MiB/s)", mib, self._all_reduce, rate)

    @property
    def _gradient_bytes(self) -> int:
        variables = self.step.model.trainable_variables
        return sum(math.prod(each.shape) * np.dtype(each.dtype).itemsize for each in variables)

    def _train(
        self, pipeline: Pipeline, held_out: HeldOutValidation | None, observer: Observer, warm_up: str
    ) -> Report:
        """Trains step by step to the end of the run."""
        every, training = self.config.telemetry, self.config.training
        log.info("The first step in each length bucket is slow: its functions are traced and compiled")
        cpu, self._memory = CpuClock(), MemoryGrowth(self.first_step, self.end_step)
        step, calibration = self.first_step, Calibration()
        ended: EndedStep | None = None
        with StepsInFlight(asynchronous=self.step.asynchronous) as steps:
            while not self._ends_after(step):
                launched = self.launch(steps, pipeline, self._stopped if self.hosts is None else lambda: False)
                if launched is None:
                    break
                step = launched
                self.checkpoints.collect()
                self._collect_judged(observer)
                at_end = step == self.end_step
                validates = held_out is not None and (step % training.validate_every == 0 or at_end)
                shows = step % every.image_every == 0 or at_end
                saves = step % training.checkpoint_every == 0
                calibrates = self.step.asynchronous and calibration.due()
                alone = validates or shows or saves or calibrates or at_end
                for ended in steps.drain() if alone else steps.ended():
                    self._account(ended, observer, pipeline)
                if held_out is not None and validates:
                    self._validate(step, held_out, observer)
                if shows:
                    self._show(step, held_out, observer)
                if not at_end and (saves or self._is_best(step)):
                    self._save(step, speaks=saves)
                if calibrates:
                    with calibration.paid():
                        pipeline.time_data_stage()
                if alone:
                    steps.restart()
            for ended in steps.drain():
                self._account(ended, observer, pipeline)
        self._settle_checkpoints()
        if ended is not None and step > self.checkpoints.saved:
            self._fetch_losses(ended, observer)
            self._save(step, must=True)
        self._collect_judged(observer, last=True)
        if self.hosts is not None:
            self.hosts.meet()  # none goes before the first has saved
        why = self._stop or ("the end is reached" if step == self.end_step else "the corpus ended early")
        report = self._report(step, why, warm_up, cpu_use=cpu.use(), memory_growth=self._memory.growth)
        write_report(report, training.checkpoint_dir)
        return report

    def launch(
        self, steps: StepsInFlight, pipeline: Pipeline, interrupted: Callable[[], bool] = lambda: False
    ) -> int | None:
        """Hands the next step over to the model device; its number from 1, None where there is no batch for it."""
        asked = time.perf_counter()
        staged, _ = pipeline.get(interrupted)
        if staged is None:
            return None
        got, traces = time.perf_counter(), self.step.traces.total()
        losses = self.step.train(staged.batch)
        steps.launched(staged.plan, losses, asked=asked, got=got, traced=self.step.traces.total() != traces)
        return staged.plan.step + 1

    def _account(self, ended: EndedStep, observer: Observer, pipeline: Pipeline) -> None:
        """Times, metrics and progress of a step that the device has computed."""
        every, step = self.config.telemetry, ended.step
        if self.hosts is not None:
            self._agree(ended, self.hosts)
        self.clock.step(ended.duration, ended.wait, ended.plan.bucket, traced=ended.traced)
        observer.step(
            step,
            ended.duration,
            ended.wait,
            samples=self._own_rows,
            ring_depth=pipeline.ring.depth,
            buffer=pipeline.buffer,
        )
        training = self.config.training
        may_save = step % training.checkpoint_every == 0 or step % training.validate_every == 0
        if step % every.log_every == 0 or step == self.end_step or may_save:  # what is saved was looked at
            self._fetch_losses(ended, observer)
            self.metrics.variation(self.clock.variation, self.clock.variation_within_buckets)
            self.metrics.epoch(ended.plan.epoch)
            self._memory.sample(step)
            self._judge_split()

    def _judge_split(self) -> None:
        """Says once, after the first steps, where a split cannot gain much."""
        if self._split_judged or self.devices.strategy != "split" or self.clock.steps < STEPS_TO_JUDGE:
            return
        self._split_judged, model = True, self.config.model
        bound = split_bound(self.clock.stage_mean("data"), self._beside_mean, self._train_mean())
        could = model.module is None and model.networks == "acoustic" and not self.corpora.training.feature_names
        if bound is not None and (said := little_gain(bound, second_network=could)) is not None:
            log.warning("%s", said)

    def _agree(self, ended: EndedStep, hosts: Hosts) -> None:
        """Notes which step is the last one, where a host was asked to stop: all learn it from the same step.

        Another one may have been handed over to the devices by then, on every host.
        """
        asked = [place for place in range(hosts.group.count) if ended.losses.read()[f"{STOP}{place}"] > 0]
        if asked and self._last is None:
            self._last = ended.step + (AHEAD if self.step.asynchronous else 0)
            self._stop = self._stop or f"{hosts.group.name(asked[0])} was asked to stop: saved and stopped"

    def _fetch_losses(self, ended: EndedStep, observer: Observer) -> None:
        values = dict(ended.losses.read())
        rate = values.pop(RATE)
        values = {name: value for name, value in values.items() if not name.startswith(STOP)}
        self._losses = values
        observer.losses(ended.step, values, rate)
        if not math.isfinite(values["total"]):
            parts = ", ".join(f"{name} {value:g}" for name, value in values.items())
            raise TrainerError(
                f"the loss is not finite at step {ended.step} ({parts}): lower --learning-rate, or try "
                f"--precision float32; the checkpoints in {self.config.training.checkpoint_dir} are from before",
                exit_code=1,
            )

    def open_validation(self) -> HeldOutValidation | None:
        """The validation of the clips that are held out; None where there are none, or another host does it."""
        source, config = self.corpora.validation, self.config
        if source is None or not self._is_first:
            return None
        return HeldOutValidation(
            source,
            self.buckets,
            rows=self._own_rows // self.step.replicas,
            hop_length=config.model.hop_length,
            max_bad_share=config.data.max_bad_share,
        )

    def _open_judges(self, stack: ExitStack) -> SpokenValidation | None:
        """Judges of --judge, on the first host; None where nothing is asked of them, or nothing is held out."""
        source = self.corpora.validation
        if not self.config.telemetry.judge or not self._is_first:
            return None
        if source is None:
            log.warning("--judge has no effect: no clips are held out (--val-data, --validation-share)")
            return None
        return stack.enter_context(SpokenValidation(self.config, source))

    def _collect_judged(self, observer: Observer, *, last: bool = False) -> None:
        """Passes on what was judged since; with `last` waits for it."""
        if self._spoken is not None:
            with self.metrics.during("validate") if last else nullcontext():
                self._spoken.collect(observer, last=last)

    def _validate(self, step: int, held_out: HeldOutValidation, observer: Observer) -> None:
        with self.metrics.during("validate"), self.step.averaged():
            self._validation, self._validated = held_out.run(self.step, self.metrics.progress), step
        if self._validation:
            observer.validation(step, self._validation)
        if self._spoken is not None:
            with self.metrics.during("sample"), self.step.averaged(), self.step.scope():
                self._spoken.judge(step, self.step)

    def _loss_at(self, step: int) -> float:
        """Validation loss of the weights after this step; infinite where these were not validated."""
        return self._validation.get("total", math.inf) if self._validated == step else math.inf

    def _show(self, step: int, held_out: HeldOutValidation | None, observer: Observer) -> None:
        """Pictures for TensorBoard, where the trainable draws some."""
        draw = getattr(self.step.trainable, "pictures", None)
        if draw is None or held_out is None or not self.config.telemetry.tensorboard:
            return
        with self.metrics.during("sample"), self.step.averaged():
            arrays = held_out.first()
            if arrays is not None:
                observer.pictures(step, draw(self.step.model, self.step.features_for_model(arrays)))

    def _is_best(self, step: int) -> bool:
        """True where the weights after this step were validated, and are better than those of all checkpoints."""
        if not self._loss_at(step) < self.checkpoints.best:
            return False
        self._settle_checkpoints()  # the one that is being written may be better
        return self._loss_at(step) < self.checkpoints.best

    def _save(self, step: int, *, must: bool = False, speaks: bool = True) -> None:
        """Saves a checkpoint beside the training: a failure is an error in the log. Over hosts the first one saves.

        With `must` waits until it is written, and raises CheckpointError. `speaks`: a sample is written beside it.
        """
        if not self._is_first:
            return
        with self.metrics.during("checkpoint"):
            self.checkpoints.begin(step, self.step.state, self._meta(), loss=self._loss_at(step))
            if must:
                self.checkpoints.settle(must=True)
        if speaks:
            self._speak(step)

    def _settle_checkpoints(self) -> None:
        """Waits for the checkpoint that is being written."""
        if self.checkpoints.writing:
            with self.metrics.during("checkpoint"):
                self.checkpoints.settle()

    def _meta(self) -> dict[str, Any]:
        """Metadata of a checkpoint."""
        return {
            "config": self.config.model_dump(mode="json"),
            "speakers": list(self.corpora.speakers),
            "reading": reading_version(self.config.model),
            **self._identity(),
        }

    def _speak(self, step: int) -> None:
        """Writes a sample beside the checkpoint; none where the run was asked to stop."""
        training, text = self.config.training, self.config.telemetry.sample_text
        if text and self._stop is None:
            with self.metrics.during("sample"), self.step.averaged(), self.step.scope():
                write_sample(
                    training.checkpoint_dir,
                    step,
                    self.step.trainable,
                    self.step.model,
                    text,
                    keep=training.keep_checkpoints,
                )

    @property
    def _is_first(self) -> bool:
        return self.hosts is None or self.hosts.group.is_first

    def _ends_after(self, step: int) -> bool:
        """True where `step` is the last one; over hosts all of them agree on that first."""
        if self.hosts is None:
            return self._stopped()
        if self._stopped():
            self.step.ask_to_stop()
        return self._last is not None and step >= self._last

    def _stopped(self) -> bool:
        """True where a signal came, or the time is up."""
        limit = self.config.training.max_minutes
        if self._stop is None and limit is not None and time.perf_counter() - self._begin > 60 * limit:
            self._stop = f"the time is up (--max-minutes {limit:g}): saved and stopped"
        return self._stop is not None

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT end the run after the step in progress, with a checkpoint."""

        def stop(number: int, _frame: Any) -> None:
            self._stop = f"{signal.Signals(number).name}: saved and stopped"

        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _device_use(self) -> dict[str, Any]:
        """Utilisation of the devices: of a CPU device the share of the time in which its function ran."""
        if self.devices.kind == "gpu":
            return {
                "device_use": self._watch.utilization(),
                "device_use_source": "mean of NVML's utilization, a reading a second",
                "power_watts": self._watch.power_watts(),
                "memory_of_limit": self.step.memory_of_limits(),
            }
        clock, seconds = self.clock, self.clock.duration / max(1, self.clock.steps)
        if not seconds:
            return {}
        data = clock.stage_mean("data") if self.devices.strategy == "split" else None
        if data is not None:
            data += self._beside_mean or 0.0
        return {
            "device_use": {"data": None if data is None else min(1.0, data / seconds), "model": 1 - clock.wait_share},
            "device_use_source": "share of the time in which the CPU device's function ran",
        }

    @property
    def _beside_mean(self) -> float | None:
        """Mean seconds of the updates on the data device."""
        return None if self.step.lane is None else self.step.lane.mean_seconds

    def _train_mean(self) -> float | None:
        """Mean seconds of the training stage, without its waits: for data, and for the networks beside it."""
        mean, lane = self.clock.train_mean, self.step.lane
        return mean if mean is None or lane is None else mean - lane.blocked_seconds / self.clock.steps

    def _hosts_line(self) -> tuple[str, ...]:
        if self.hosts is None:
            return ()
        group = self.hosts.group
        return (f"{group.name(group.index)} of {group.count}, {self._own_rows} of {self.rows} clips of each batch",)

    def _data_stage_source(self) -> str:
        count = self.clock.stage_count("data")
        return f"{count} batches, alone between barriers" if self.step.asynchronous else f"{count} batches of this run"

    def _report(
        self,
        step: int,
        ended: str,
        warm_up: str,
        *,
        cpu_use: float | None = None,
        memory_growth: float | None = None,
    ) -> Report:
        clock, newest = self.clock, checkpoint.newest(self.config.training.checkpoint_dir)
        return Report(
            run=self.name,
            strategy=self.devices.strategy,
            devices=(*self.devices.description, *self._hosts_line()),
            first_step=self.first_step,
            last_step=step,
            batch_rows=self.rows,
            ended=ended,
            warm_up=warm_up,
            steps_per_second=clock.rate,
            losses=self._losses,
            validation=self._validation,
            ema=self.config.training.ema,
            judged={} if self._spoken is None else self._spoken.scores,
            data_stage_seconds=clock.stage_mean("data") if self.devices.strategy != "mirrored" else None,
            data_stage_source=self._data_stage_source(),
            train_stage_seconds=self._train_mean(),
            beside_stage_seconds=self._beside_mean,
            beside_names=self.step.beside_names,
            data_wait_share=clock.wait_share,
            step_time_variation=clock.variation,
            step_time_variation_within_buckets=clock.variation_within_buckets,
            cpu_use=cpu_use,
            resident_memory_growth=memory_growth,
            traces=dict(self.step.traces),
            buckets=len(self.buckets),
            all_reduce_seconds=self._all_reduce,
            gradient_bytes=None if self.hosts is None else self._gradient_bytes,
            bad_clips=len(self.assemble.bad),
            texts=self.corpora.coverage,
            text_front_end=described(self.config.model),
            phase_seconds=self.metrics.phase_seconds(),
            checkpoints_written=self.checkpoints.count,
            checkpoint_write_seconds=self.checkpoints.mean_seconds,
            **self._device_use(),
            checkpoint=str(newest) if newest else None,
        )


def resolve(config: TrainConfig, devices: Devices) -> TrainConfig:
    """The configuration with what follows from the devices filled in: batch size, precision, XLA."""
    training = config.training.model_copy(
        update={
            "batch_size": devices.batch_size,
            "precision": resolve_precision(config, devices),
            "xla": resolve_xla(config, devices),
        }
    )
    return config.model_copy(update={"training": training})


def _needs_language(model: ModelConfig) -> bool:
    """True where tokens depend on the language."""
    return model.text_units == "phonemes" or bool(model.read_words)


def _flag(name: str, value: object) -> str:
    """The flag that gives a setting of the model this value."""
    flag = name.replace("_", "-")
    return f"--{'' if value else 'no-'}{flag}" if isinstance(value, bool) else f"--{flag} {value}"
