"""Training loop: sets a run up, moves batches through input, features, ring and step, and reports."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import islice
from types import MappingProxyType

import keras
import numpy as np

from voxyard.corpus import CorpusError
from voxyard.telemetry.gpu_watch import GpuWatch
from voxyard.telemetry.workloads import TrainMetrics
from voxyard.trainer import checkpoint
from voxyard.trainer.config import DEFAULT_EPOCHS, TrainConfig
from voxyard.trainer.corpora import Corpora
from voxyard.trainer.devices.tensorflow_setup import Devices, SickCards, resolve_precision, resolve_xla
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.input import BatchAssembler, batch_bytes
from voxyard.trainer.judging.judges import require_judges
from voxyard.trainer.judging.run_validation import RunValidation
from voxyard.trainer.load_trainable import load_trainable
from voxyard.trainer.model.trainable_voice import SpeechWithVocoder
from voxyard.trainer.observer import Observer
from voxyard.trainer.out_of_memory import Doing, told_out_of_memory
from voxyard.trainer.pipeline import Pipeline
from voxyard.trainer.report import RunReport, write_report
from voxyard.trainer.reporting.bounds import STEPS_NEEDED
from voxyard.trainer.reporting.clocks import CpuClock, MemoryGrowth, StepClock
from voxyard.trainer.reporting.mlflow_run import open_mlflow
from voxyard.trainer.reporting.run_report import devices_described, measured
from voxyard.trainer.reporting.split_bounds import SplitBounds
from voxyard.trainer.sampler import BatchSampler, plan_buckets
from voxyard.trainer.saving.run_checkpoints import RunCheckpoints
from voxyard.trainer.saving.run_state import RunState
from voxyard.trainer.saving.saver import Rescue, RunSaver
from voxyard.trainer.step import TrainStep
from voxyard.trainer.steps.ahead import compile_ahead
from voxyard.trainer.steps.in_flight import EndedStep, StepsInFlight
from voxyard.trainer.steps.losses import STOP
from voxyard.trainer.steps.stopping import Stopping
from voxyard.trainer.steps.updates import RATE
from voxyard.trainer.text.front_end import described
from voxyard.trainer.validation import HeldOutValidation

log = logging.getLogger("voxyard.trainer")


class Run:
    """One training run on devices that are set up, from the first batch to the report."""

    def __init__(
        self,
        config: TrainConfig,
        devices: Devices,
        corpora: Corpora,
        *,
        trials: Mapping[str, Mapping[str, float | None]] = MappingProxyType({}),
    ) -> None:
        """Builds the model and restores its newest checkpoint; `trials` is for the report. Raises TrainerError."""
        self.config, self._trials = resolve(config, devices), trials
        training = self.config.training
        if config.telemetry.judge:
            require_judges(config.telemetry)
        self.devices, self.corpora, self.hosts = devices, corpora, devices.hosts
        self.clock, self._watch = StepClock(), GpuWatch(devices.cards, of_steps=True)
        group = None if self.hosts is None else self.hosts.group
        self._stopping = Stopping(training.max_minutes, group, SickCards(devices.cards).why)
        self._losses: dict[str, float] = {}
        self._all_reduce: float | None = None  # over hosts
        keras.utils.set_random_seed(training.seed)
        self._plan_batches()
        self.step = self._build_step()
        self.metrics = self._open_metrics()
        state = RunState(self.config, corpora, self.rows)
        self.first_step, best = self._restore(state)
        self.end_step = self._end_step()
        self.metrics.pretrained(self.first_step > 0 or training.init_from is not None)
        self.validation = RunValidation(self.config, self.step, corpora.validation, self.metrics, self.hosts)
        self._prepare_saving(state, best)
        if isinstance(self.step.trainable, SpeechWithVocoder):
            log.info("%s", self.step.trainable.phases(self.first_step, self.end_step))
        self._bounds = SplitBounds(
            self.config,
            self.step,
            self.clock,
            first=self.first_step,
            end=self.end_step,
            has_features=bool(corpora.training.feature_names),
        )

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
        """Clips of a batch, this host's share of them, and the batches of an epoch in their length buckets."""
        config, source, devices = self.config, self.corpora.training, self.devices
        replicas = len(devices.replicas) if devices.strategy == "mirrored" else 1
        self.rows = devices.batch_size * config.training.grad_accum * replicas
        self._own = slice(0, self.rows) if self.hosts is None else self.hosts.group.share(self.rows)
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

    def _build_step(self) -> TrainStep:
        log.info("Creating model on device: %s", ", ".join(self.devices.replicas))
        training = self.config.training
        step = TrainStep(
            load_trainable(self.config, self.corpora.speakers),
            self.devices,
            self.config,
            most_traces=len(self.buckets) if self.config.data.static_shapes else None,
        )
        if step.beside_on:
            log.info("Training %s on the %s device (--vocoder-on)", " + ".join(step.beside_names), step.beside_on)
        log.info("Model: %.1f M parameters, %s", step.model.count_params() / 1e6, training.precision)
        if training.ema is not None:
            log.info("Averaging the weights (--ema %g): validation, samples and synthesis use them", training.ema)
        return step

    def _open_metrics(self) -> TrainMetrics:
        metrics = TrainMetrics(
            self.name,
            cards=self.devices.cards,
            limits=self.devices.limits,
            ring_slots=self.config.data.prefetch_buffer_size,
            utilization_target=self.config.telemetry.utilization_target,
        )
        if self.step.beside_on == "data":
            self.step.timer.beside.told = metrics.input.trained_beside
        if self.hosts is not None:
            metrics.hosts(self.hosts.group.index, self.hosts.group.count)
        return metrics

    def _restore(self, state: RunState) -> tuple[int, float]:
        """Takes the newest checkpoint, over hosts the first one's; the first step, and the best loss."""
        with self._lost_hosts():
            return state.restore(self.step) if self.hosts is None else state.of_first(self.hosts, self.step)

    def _prepare_saving(self, state: RunState, best: float) -> None:
        training = self.config.training
        self.checkpoints = RunCheckpoints(
            training.checkpoint_dir,
            keep=training.keep_checkpoints,
            first=self.first_step,
            best=best,
            written=self.metrics.checkpoint,
        )
        self._saver = RunSaver(
            self.config,
            self.step,
            state,
            self.checkpoints,
            self.metrics,
            loss_at=self.validation.loss_at,
            is_first=self._is_first,
        )
        self._rescue = Rescue(self.step, self._saver, training.checkpoint_dir)

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
            batch_bytes=largest, metrics=self.metrics.input,
        )  # fmt: skip

    # -- the run ---------------------------------------------------------------------------------------------------

    def execute(self) -> RunReport:
        """Trains to the end, or to a signal; saves; reports. Raises TrainerError or CorpusError."""
        if self.first_step >= self.end_step:
            log.info("Nothing to do: the checkpoint is at step %d of %d", self.first_step, self.end_step)
            return self._report(self.first_step, "nothing to do: the checkpoint is at the end", "")
        log.info("Starting training...")
        with ExitStack() as stack:
            mlflow = stack.enter_context(open_mlflow(self.config, self.name, here=self._is_first))
            stack.enter_context(self._lost_hosts())
            stack.enter_context(self._stopping.signals())
            stack.callback(self.step.close)
            stack.enter_context(self.checkpoints)
            self._time_network()
            self.open_validation()
            if self._is_first:
                self.validation.open_judges(stack)
            pipeline = stack.enter_context(self.pipeline(self.first_step, self.end_step))
            self._compile()
            warm_up = pipeline.warm_up(self._stopping.asked)
            stack.enter_context(self._watch)
            observer = stack.enter_context(
                Observer(
                    self.config.telemetry,
                    self.metrics,
                    self.config.training.checkpoint_dir,
                    first=self.first_step,
                    end=self.end_step,
                    mlflow=mlflow,
                )
            )
            stack.enter_context(told_out_of_memory(self.config, self.devices, self._doing, self._rescue.saved))
            try:
                return self._train(pipeline, observer, warm_up)
            except CorpusError as error:  # the corpus went away under the run, say
                if not self._rescue.step:  # it could not begin
                    raise
                raise CorpusError(f"{error}\n{self._rescue.saved()}", exit_code=1) from error

    def _compile(self) -> None:
        """Where XLA compiles: all length buckets before the first step, from batches of one clip of each."""
        if not (self.config.training.xla and self.config.data.static_shapes) or self.hosts is not None:
            log.info("The first step in each length bucket is slow: its functions are traced and compiled")
            return
        plans = {
            plan.bucket: replace(plan, clips=plan.clips[:1] * len(plan.clips))
            for plan in islice(self.sampler.batches(self.first_step, self.end_step), self.sampler.steps_per_epoch)
        }
        with told_out_of_memory(self.config, self.devices, self._doing, self._rescue.saved):
            compile_ahead(
                self.step,
                [self.assemble(plan).arrays for plan in plans.values()],
                number=self.first_step,
                validates=self.validation.held_out is not None and self.step.replicas == 1,
                interrupted=self._stopping.asked,
            )

    def _time_network(self) -> None:
        """Over hosts: the time in which gradients are averaged, below which no step can be."""
        if self.hosts is None:
            return
        variables = self.step.model.trainable_variables
        self._all_reduce = seconds = self.hosts.seconds_of_mean(variables)
        mib = self._gradient_bytes / 2**20
        log.info("The network averages %.1f MiB of gradients in %.3g s (%.3g MiB/s)", mib, seconds, mib / seconds)

    @property
    def _gradient_bytes(self) -> int:
        variables = self.step.model.trainable_variables
        return sum(math.prod(each.shape) * np.dtype(each.dtype).itemsize for each in variables)

    def _train(self, pipeline: Pipeline, observer: Observer, warm_up: str) -> RunReport:
        """Trains step by step to the end of the run."""
        every, training, validation = self.config.telemetry, self.config.training, self.validation
        cpu, self._memory = CpuClock(), MemoryGrowth(self.first_step, self.end_step, self.step.memory_by_role)
        step, timer = self.first_step, self.step.timer
        ended: EndedStep | None = None
        with StepsInFlight(asynchronous=self.step.asynchronous) as steps:
            while not self._stopping.ends_after(step, self.step):
                launched = self.launch(steps, pipeline, self._stopping.asked if self.hosts is None else lambda: False)
                if launched is None:
                    break
                step = launched
                self.checkpoints.collect()
                validation.collect_judged(observer)
                at_end = step == self.end_step
                validates = validation.held_out is not None and (step % training.validate_every == 0 or at_end)
                shows = step % every.image_every == 0 or at_end
                saves = step % training.checkpoint_every == 0
                calibrates = timer.due()
                alone = validates or shows or saves or calibrates or at_end or self._bounds.begins_phase(step)
                for ended in steps.drain() if alone else steps.ended():
                    self._account(ended, observer, pipeline)
                if validates:
                    validation.run(step, observer, last=at_end)
                if shows:
                    validation.show(step, observer)
                if not at_end and (saves or self._saver.is_best(step)):
                    self._save(step, speaks=saves)
                if calibrates:
                    timer.calibrate(self.step.data_stage_alone, pipeline.ring.paused())
                    timer.beside_next = True
                if alone:
                    self._bounds.begin_phase(step)
                    steps.restart()
            for ended in steps.drain():
                self._account(ended, observer, pipeline)
        self._saver.settle()
        if ended is not None and step > self.checkpoints.saved:
            self._fetch_losses(ended, observer)
            self._save(step, must=True)
        validation.collect_judged(observer, last=True)
        if self.hosts is not None:
            self.hosts.meet()  # none goes before the first has saved
        why = self._stopping.why or ("the end is reached" if step == self.end_step else "the corpus ended early")
        report = self._report(step, why, warm_up, cpu_use=cpu.use(), memory=self._memory)
        observer.ended(write_report(report, training.checkpoint_dir), killed=self._stopping.killed)
        return report

    def _save(self, step: int, *, must: bool = False, speaks: bool = True) -> None:
        """Saves a checkpoint; `speaks`: a sample is written beside it, unless the run was asked to stop."""
        self._saver.save(step, must=must)
        if speaks and self._stopping.why is None:
            self._saver.speak(step)

    def launch(
        self, steps: StepsInFlight, pipeline: Pipeline, interrupted: Callable[[], bool] = lambda: False
    ) -> int | None:
        """Hands the next step over to the model device; its number from 1, None where there is no batch for it."""
        asked = time.perf_counter()
        staged, _ = pipeline.get(interrupted)
        if staged is None:
            return None
        got, traces = time.perf_counter(), self.step.traces.total()
        with self._rescue.during(staged.plan):
            losses = self.step.train(staged.batch, staged.plan.step)
        self._rescue.made(staged.plan, losses)
        steps.launched(staged.plan, losses, asked=asked, got=got, traced=self.step.traces.total() != traces)
        return staged.plan.step + 1

    def _doing(self) -> Doing:
        """What the run was doing when an error ended it."""
        plan, taken = self._rescue.training, self.step.memory_taken()
        if plan is not None:
            return Doing(f"in step {plan.step + 1}", plan.bucket, taken)
        return Doing(f"after step {self._rescue.step}, beside the updates of the model", None, taken)

    def _account(self, ended: EndedStep, observer: Observer, pipeline: Pipeline) -> None:
        """Times, metrics and progress of a step that the device has computed."""
        every, step = self.config.telemetry, ended.step
        self._stopping.agree(ended, asynchronous=self.step.asynchronous)
        self.clock.step(ended.duration, ended.wait, ended.plan.bucket, traced=ended.traced)
        if not ended.traced:
            self._watch.trained(ended.free, ended.done)
        self.metrics.computed(
            self.step.shape_of(ended.plan, self.rows), ended.duration - ended.wait, traced=ended.traced
        )
        observer.step(
            step,
            ended.duration,
            ended.wait,
            samples=self._own_rows,
            ring_depth=pipeline.ring.ready,
            buffer=pipeline.buffer,
            traced=ended.traced,
        )
        training = self.config.training
        may_save = step % training.checkpoint_every == 0 or step % training.validate_every == 0
        if step % every.log_every == 0 or step == self.end_step or may_save:  # what is saved was looked at
            self._fetch_losses(ended, observer)
            self.metrics.variation(self.clock.variation, self.clock.variation_within_buckets)
            self.metrics.epoch(ended.plan.epoch)
            self._memory.sample(step)
            self._bounds.look(step)

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
        """The validation of the clips that are held out; None where there are none."""
        return self.validation.open(self.buckets, self._own_rows // self.step.replicas)

    def _report(
        self, step: int, ended: str, warm_up: str, *, cpu_use: float | None = None, memory: MemoryGrowth | None = None
    ) -> RunReport:
        newest, spoken = checkpoint.newest(self.config.training.checkpoint_dir), self.validation.spoken
        energy, clips = self._watch.energy_joules(), (step - self.first_step) * self._own_rows
        steady = self.clock.steps >= STEPS_NEEDED  # most of a shorter run is tracing
        return RunReport(
            run=self.name,
            devices=devices_described(self.devices, self._own_rows, self.rows),
            first_step=self.first_step,
            last_step=step,
            batch_rows=self.rows,
            ended=ended,
            warm_up=warm_up,
            losses=self._losses,
            validation=self.validation.losses,
            ema=self.config.training.ema,
            judged={} if spoken is None else spoken.scores,
            cpu_use=cpu_use if steady else None,
            resident_memory_growth=memory.growth if steady and memory is not None else None,
            device_memory_growth=memory.of_devices if steady and memory is not None else {},
            buckets=len(self.buckets),
            all_reduce_seconds=self._all_reduce,
            gradient_bytes=None if self.hosts is None else self._gradient_bytes,
            bad_clips=len(self.assemble.bad),
            texts=self.corpora.coverage,
            text_front_end=described(self.config.model),
            phase_seconds=self.metrics.phase_seconds(),
            checkpoints_written=self.checkpoints.count,
            checkpoint_write_seconds=self.checkpoints.mean_seconds,
            checkpoint=str(newest) if newest else None,
            trials=dict(self._trials),
            energy_joules=energy,
            energy_per_clip_joules=energy / clips if energy is not None and clips else None,
            **measured(self.clock, self.step, self._watch),
        )

    @property
    def _is_first(self) -> bool:
        return self.hosts is None or self.hosts.group.is_first


def resolve(config: TrainConfig, devices: Devices) -> TrainConfig:
    """The configuration with what follows from the devices filled in: batch size, precision, XLA."""
    return config.changed(
        {
            "training.batch_size": devices.batch_size,
            "training.precision": resolve_precision(config, devices),
            "training.xla": resolve_xla(config, devices),
        }
    )
