"""Measures the trainer's own parts: each stage of a run alone, and the pipeline overlapped. Loads TensorFlow."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from voxyard.corpus.cold import ColdRead, ColdSource
from voxyard.diagnose.errors import DiagnoseError
from voxyard.diagnose.profile.cost_model import threads_needed
from voxyard.diagnose.profile.stages import Stage
from voxyard.diagnose.profile.timeline import Recorded, Span, StepSpan
from voxyard.host.cores import queued_seconds, whole_cores
from voxyard.host.interpreter_lock import LockWatch
from voxyard.host.memory import available_bytes
from voxyard.host.page_cache import Pages
from voxyard.trainer.input import MEMORY_SHARE, HostBatch, batch_bytes, buffer_that_fits, pad
from voxyard.trainer.prefetch import Prefetch
from voxyard.trainer.reporting.clocks import CpuClock, StepClock
from voxyard.trainer.steps.in_flight import EndedStep, StepsInFlight

if TYPE_CHECKING:
    from voxyard.trainer.loop import Run
    from voxyard.trainer.sampler import BatchPlan, Bucket

MOST_WAITING = 32  # reading threads to advise
MOST_SHAPES = 32  # batches held at once where every batch has a shape of its own


@dataclass(frozen=True)
class Read:
    """One batch made by a reading thread: when, and how much of the time the thread computed instead of waiting."""

    begin: float
    end: float
    cpu: float
    queued: float | None = None  # seconds in which no core was free for it; None where the kernel does not tell

    @property
    def seconds(self) -> float:
        """From begin to end."""
        return self.end - self.begin


@dataclass(frozen=True)
class LoadTiming:
    """Timing of the load stage alone: the trainer's reading threads, and a consumer that takes every ready batch."""

    workers: int
    reads: tuple[Read, ...]
    wall: float  # seconds for all batches
    pages: Pages  # that the clips lie on
    lock_held: float = 0.0  # share of the looks at which a thread held the interpreter's lock

    @property
    def concurrency(self) -> float:
        """Reads at once, as reached."""
        return sum(read.seconds for read in self.reads) / self.wall

    @property
    def seconds(self) -> tuple[float, ...]:
        """Seconds of the stage per batch: its time in a thread ÷ the concurrency reached. Their mean is wall ÷ n."""
        return tuple(read.seconds / self.concurrency for read in self.reads)

    @property
    def per_batch(self) -> float:
        """Seconds a batch of the whole stage."""
        return self.wall / len(self.reads)

    @property
    def in_thread(self) -> float:
        """Mean seconds of a batch in its thread."""
        return sum(read.seconds for read in self.reads) / len(self.reads)

    @property
    def cpu(self) -> float:
        """Of it, mean seconds in which the thread computed."""
        return sum(read.cpu for read in self.reads) / len(self.reads)

    @property
    def queued(self) -> float | None:
        """Of it, mean seconds in which the thread could compute and no core was free; None where one is not known."""
        known = [read.queued for read in self.reads if read.queued is not None]
        return sum(known) / len(known) if len(known) == len(self.reads) else None


@dataclass(frozen=True)
class OverlappedRun:
    """The overlapped run as it was recorded."""

    recorded: Recorded
    skipped: int  # steps at the beginning, in which the buffers settle
    clock: StepClock  # the trainer's own, of the steps that count
    cpu_use: float  # share of the cores
    buffer: tuple[int, int]  # host batches ready at the end, and the most there can be
    epochs: int
    pages: Pages  # that the clips lie on


class StageBenchmark:
    """Stage benchmark of a run: the cost of each stage, on batches of the run itself."""

    def __init__(self, run: Run, steps: int, source: ColdSource) -> None:
        """`steps` batches make each measurement, of clips of the run's `source`. Raises CorpusError."""
        self.run, self.steps, self.source = run, steps, source
        self.cached = False
        self._unread = 0  # the first batch that no measurement has read
        self._batches: dict[Bucket, HostBatch] = {}
        self.left_out_seconds = 0.0
        self.computing: dict[Stage, float] = {}  # of each device stage, cores that it took in its time, at most 1
        config = run.config
        mels = config.model.mels if run.corpora.training.feature_names else None
        largest = max(batch_bytes(bucket, run.rows, config.model.hop_length, mels) for bucket in run.buckets)
        self.buffer = buffer_that_fits(config.data.pipeline_buffer_size, largest, available_bytes())
        self.settling = min(steps, config.data.num_workers, self.buffer) + config.data.prefetch_buffer_size
        self._plans = list(islice(run.sampler.batches(0, None), steps))
        self.bytes = largest

    def fill_cache(self) -> bool:
        """Fills the dataset cache with the clips of the coming batches; False where there is none."""
        data = self.run.config.data
        if not (data.cache_dataset or data.cache_file):
            return False
        begin, batches = time.perf_counter(), max(self.settling + self.steps, 2 * MOST_WAITING)
        self._read(self.run.sampler.batches(0, batches), data.num_workers, [])
        self.left_out_seconds += time.perf_counter() - begin
        self.cached = True
        return True

    def _next(self, batches: int) -> int:
        """First of so many batches that no measurement has read yet; with a dataset cache always the first of all."""
        first = 0 if self.cached else self._unread
        self._unread = first + batches
        return first

    def _cold_read(self, first: int, batches: int) -> AbstractContextManager[ColdRead]:
        """Scope in which the clips of these batches come from the disk."""
        plans = self.run.sampler.batches(first, first + batches)
        return self.source.cold_read(clip for plan in plans for clip in plan.clips)

    # -- load --------------------------------------------------------------------------------------------------

    def load(self, workers: int | None = None, *, batches: int | None = None, first: int | None = None) -> LoadTiming:
        """The load stage alone, with the run's own number of threads or another one, on batches not read yet.

        With `first` on batches that other measurements may have read.
        """
        buffer = self.buffer if workers is None else max(workers, self.buffer)
        workers = min(self.run.config.data.num_workers if workers is None else workers, buffer)
        batches = -(-(self.steps if batches is None else batches) // workers) * workers  # no thread idles at the end
        first = self._next(batches) if first is None else first
        if first == 0:
            self.run.assemble(self._plans[-1])  # what is loaded and opened once only
        reads: list[Read] = []
        with self._cold_read(first, batches) as cold, LockWatch() as lock:
            begin = time.perf_counter()
            self._read(self.run.sampler.batches(first, first + batches), workers, reads)
            return LoadTiming(workers, tuple(reads), time.perf_counter() - begin, cold.pages, lock.share)

    def _read(self, plans: Iterator[BatchPlan], workers: int, reads: list[Read]) -> None:
        """Takes the batches from the trainer's reading threads as soon as they are ready; keeps one of each shape."""
        loader = Prefetch(
            plans, timed_assembly(self.run.assemble, reads), threads=workers, most=max(workers, self.buffer)
        )
        try:
            while (batch := loader.get()) is not None:
                if len(self._batches) < MOST_SHAPES:
                    self._batches.setdefault(batch.plan.bucket, batch)
        finally:
            loader.close()

    def from_memory(self, batches: int = 5) -> float:
        """Seconds that a thread takes for a batch whose clips lie decoded in memory: what no cache can save."""
        source, hop = self.run.corpora.training, self.run.config.model.hop_length
        plan = next(plan for plan in self._plans if plan.bucket in self._batches)
        examples = [source.read(clip) for clip in plan.clips if clip not in self.run.assemble.bad]
        if not examples:
            raise DiagnoseError("not one clip of a batch can be read: `voxyard corpus check` names them", exit_code=1)
        for example in examples:
            example.pcm.sum()  # a mapped file is read now
        taken = []
        for _ in range(batches):
            begin = time.perf_counter()
            pad(examples, plan.bucket, hop)
            taken.append(time.perf_counter() - begin)
        return min(taken) * len(plan.clips) / len(examples)

    def threads_that_could_help(self, loading: LoadTiming, *, goal: float) -> int:
        """Threads that would bring a batch every `goal` seconds: up to 32 that mostly wait, or one a core.

        More threads than cores help only while they wait for a disk or a network.
        """
        waits = loading.cpu < 0.5 * loading.in_thread
        most = MOST_WAITING if waits else whole_cores()
        fitting = max(1, int(MEMORY_SHARE * available_bytes()) // self.bytes)
        return threads_needed(loading.in_thread, goal, now=loading.workers, most=min(most, fitting))

    # -- the devices' stages -----------------------------------------------------------------------------------

    def warm_up(self) -> None:
        """Traces and compiles every function for every shape, which is not timed.

        Where every batch has a shape of its own, tracing has no end, and the overlapped run has to live with it.
        """
        import tensorflow as tf

        logger, begin = tf.get_logger(), time.perf_counter()
        level = logger.level
        logger.setLevel("ERROR")  # it would warn of tracing too often
        most = self.settling + self.steps if self.run.config.data.static_shapes else 0
        for plan in islice(self.run.sampler.batches(0, None), most):
            if plan.bucket not in self._batches and len(self._batches) < MOST_SHAPES:
                self._batches[plan.bucket] = self.run.assemble(plan)
        for batch in self._batches.values():
            for _ in range(2):  # the first call compiles, the second finds its memory and its kernels
                self.run.step.train(self.run.step.stage(batch.arrays)).read()
        logger.setLevel(level)
        self.left_out_seconds += time.perf_counter() - begin

    def stages(self) -> dict[Stage, tuple[float, ...]]:
        """Features, transfer and training step, each alone on batches that lie where the stage begins.

        Mirrored, every replica computes the features of its own part inside the training step.
        """
        step = self.run.step
        ways: dict[Stage, Callable[[], tuple[float, ...]]] = {
            "features": lambda: self._each(lambda batch: batch.arrays, step.features_of),
            "transfer": lambda: self._each(lambda batch: step.features_of(batch.arrays), step.transfer),
            "train": self._train,
        }
        if self.run.devices.strategy == "mirrored":
            del ways["features"]
            ways["transfer"] = lambda: self._each(lambda batch: batch.arrays, step.stage)
        return {stage: self._watched(stage, way) for stage, way in ways.items()}

    def _watched(self, stage: Stage, way: Callable[[], tuple[float, ...]]) -> tuple[float, ...]:
        """The stage's seconds, with how much of its time it computed: only that is slowed down by others."""
        begin, cpu = time.perf_counter(), time.process_time()
        seconds = way()
        self.computing[stage] = min(1.0, (time.process_time() - cpu) / (time.perf_counter() - begin))
        return seconds

    def _sequence(self) -> list[Bucket]:
        return [plan.bucket for plan in self._plans if plan.bucket in self._batches] or list(self._batches)

    def _each(self, prepare: Callable[[HostBatch], Any], work: Callable[[Any], Any]) -> tuple[float, ...]:
        """Seconds of `work` for each planned batch, from barrier to barrier: nothing else is on the devices."""
        prepared = {bucket: prepare(batch) for bucket, batch in self._batches.items()}
        work(next(iter(prepared.values())))
        return tuple(
            self.run.step.seconds_alone(lambda item=prepared[bucket]: work(item))  # type: ignore[misc]
            for bucket in self._sequence()
        )

    def _train(self) -> tuple[float, ...]:
        """Seconds of each step as the loop drives them: the next is handed over while one is computed."""
        step = self.run.step
        staged = {bucket: step.stage(batch.arrays) for bucket, batch in self._batches.items()}
        sequence = [plan for plan in self._plans if plan.bucket in staged]
        step.train(staged[sequence[0].bucket])
        step.synchronise()
        ended: list[EndedStep] = []
        with StepsInFlight(asynchronous=step.asynchronous) as steps:
            for plan in sequence:
                now = time.perf_counter()
                steps.launched(plan, step.train(staged[plan.bucket]), asked=now, got=now, traced=False)
                ended += steps.ended()
            ended += steps.drain()
        return tuple(each.duration for each in ended)

    # -- overlapped --------------------------------------------------------------------------------------------

    def overlapped(self) -> OverlappedRun:
        """The pipeline as the trainer runs it, on batches that were not read yet, its buffers empty at the beginning.

        No start delay: steps that live on what was read before the first one would hide a slow reader. And no end of
        the batches: readers that are done would leave their cores to the last steps.
        """
        run, total = self.run, self.settling + self.steps
        ahead = self.buffer + run.config.data.prefetch_buffer_size + run.config.data.num_workers
        first = self._next(total + ahead)
        reads: list[Read] = []
        data: list[Span] = []
        with (
            self._cold_read(first, total + ahead) as cold,
            recorded(run, reads, data),
            run.pipeline(first, None) as pipeline,
            StepsInFlight(asynchronous=run.step.asynchronous) as in_flight,
        ):
            pipeline.ring.first_ready.wait()
            cpu, ended = CpuClock(), list[EndedStep]()
            in_flight.restart()
            for number in range(total):
                if number == self.settling:
                    cpu = CpuClock()
                if run.launch(in_flight, pipeline) is None:
                    raise DiagnoseError("the pipeline ended before the profile did: this is a bug", exit_code=1)
                for each in in_flight.ended():
                    if each.step % run.config.telemetry.log_every == 0:
                        each.losses.read()
                    ended.append(each)
            ended += in_flight.drain()
            use, buffer, slots = cpu.use(), pipeline.buffer, pipeline.ring.most
        clock = StepClock()
        for each in ended[self.settling :]:
            clock.step(each.duration, each.wait, each.plan.bucket, traced=each.traced)
        steps = [StepSpan(each.free, max(each.free, each.got), each.done, traced=each.traced) for each in ended]
        epochs = {each.plan.epoch for each in ended}
        spans = [(read.begin, read.end) for read in reads]
        return OverlappedRun(
            Recorded(spans, data, steps, slots), self.settling, clock, use, buffer, len(epochs), cold.pages
        )


def timed_assembly(assemble: Callable[[BatchPlan], HostBatch], reads: list[Read]) -> Callable[[BatchPlan], HostBatch]:
    """The assembler, with the times of each batch appended to `reads`."""
    lock = threading.Lock()

    def made(plan: BatchPlan) -> HostBatch:
        begin, cpu, before = time.perf_counter(), time.thread_time(), queued_seconds()
        batch = assemble(plan)
        after = queued_seconds()
        queued = None if before is None or after is None else after - before
        read = Read(begin, time.perf_counter(), time.thread_time() - cpu, queued)
        with lock:
            reads.append(read)
        return batch

    return made


@contextmanager
def recorded(run: Run, reads: list[Read], data: list[Span]) -> Iterator[None]:
    """Records the times of the run's reading threads and of its data stage within the block.

    On asynchronous devices (GPUs) a batch's span ends when its features are computed, and begins at the end of the one
    before where it was handed over earlier; its copy, which waits for the training step, lies outside.
    """
    step, assemble = run.step, run.assemble
    stage, features_of, lock = step.stage, step.features_of, threading.Lock()

    def staged(arrays: Mapping[str, Any]) -> Any:
        begin = time.perf_counter()
        made = stage(arrays)
        data.append((begin, time.perf_counter()))
        return made

    def computed(arrays: Mapping[str, Any], device: str | None = None) -> Any:
        begin = time.perf_counter()
        made = features_of(arrays, device)
        with lock:
            step.wait_for(made)
            data.append((max(begin, data[-1][1]) if data else begin, time.perf_counter()))
        return made

    if step.asynchronous and run.devices.strategy != "mirrored":
        step.features_of = computed  # type: ignore[method-assign]
    else:
        step.stage = staged  # type: ignore[method-assign]
    run.assemble = timed_assembly(assemble, reads)  # type: ignore[assignment]
    try:
        yield
    finally:
        step.stage, step.features_of = stage, features_of  # type: ignore[method-assign]
        run.assemble = assemble
