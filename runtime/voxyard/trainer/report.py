"""Report of a run: its measurements against its targets. No TensorFlow."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from voxyard.corpus import Coverage
from voxyard.host.durable_files import write_file
from voxyard.telemetry.gpu_watch import CardPower
from voxyard.trainer.reporting.bounds import MIRRORED, SINGLE, SPLIT, StepStages, listed, too_few_to_be_sure
from voxyard.trainer.reporting.figures import NOT_MEASURED, share

HIGH_POWER: Final = 0.60
"""Share of the power limit in force from which on a GPU's power is high."""
STABLE: Final = 0.05
"""Growth of memory under which it counts as stable."""

log = logging.getLogger("voxyard.trainer")

REPORT = "report"  # .json and .txt, in a run's --checkpoint-dir
NOT_APART = "mirrored devices time no stage apart; --strategy auto times each way"
NO_DATA_DEVICE = {
    SINGLE: "one device: there is no data device",
    MIRRORED: "mirrored devices: none of them is a data device",
}
STAGES = "data time ÷ compute time"
RATE = "learning_rate"
"""Losses of a vocoder's discriminators and against them: hinges that cannot all be 0 once these are trained."""
MS, TIMES, SHARE = "{:.1f} ms", "{:.2f}×", "{:.0%}"
Row = tuple[str, str, str]  # name, figure, note
Rows = Iterator[Row]
NEAR = 0.9  # of its ceiling: a device that is nearly as busy as its work allows


@dataclass(frozen=True)
class Target:
    """A figure and its bounds for minimum, good and excellent, in that order."""

    name: str
    value: float | None
    bounds: tuple[float, float, float]
    higher_is_better: bool = True
    note: str = ""
    ceiling: float | None = None  # the most that can be reached; a value near it misses nothing

    @property
    def verdict(self) -> str:
        """excellent, good, minimum, at its ceiling, missed, or not measured."""
        if self.value is None or math.isnan(self.value):
            return "not measured"
        verdict = "missed"
        for name, bound in zip(("minimum", "good", "excellent"), self.bounds, strict=True):
            if self.value > bound if self.higher_is_better else self.value < bound:
                verdict = name
        if verdict == "missed" and self.ceiling is not None and self.value >= NEAR * self.ceiling:
            return "at its ceiling"
        return verdict


@dataclass(frozen=True)
class RunReport:
    """Result of a run, for people (`render`) and for programs (`to_json`)."""

    run: str
    strategy: str
    devices: tuple[str, ...]
    first_step: int
    last_step: int
    batch_rows: int
    ended: str
    warm_up: str
    steps_per_second: float | None  # as all figures of time None where too few steps were timed: `too_few`
    losses: Mapping[str, float]
    validation: Mapping[str, float]
    data_stage_seconds: float | None
    train_stage_seconds: float | None
    data_wait_share: float | None
    step_time_variation: float | None
    step_time_variation_within_buckets: float | None
    cpu_use: float | None
    resident_memory_growth: float | None
    traces: Mapping[str, int]
    buckets: int
    bad_clips: int
    checkpoint: str | None
    too_few: Mapping[str, str] = field(default_factory=dict)  # stages D, M, V that were timed too seldom → the reason
    device_use: Mapping[str, float | None] = field(default_factory=dict)  # role → 0…1
    device_use_source: str = ""
    device_use_missing: str = ""  # why a role has none
    card_use: Mapping[str, float | None] = field(default_factory=dict)  # card → 0…1, of all its parts together
    memory_of_limit: Mapping[str, float | None] = field(default_factory=dict)
    device_memory_growth: Mapping[str, float] = field(default_factory=dict)  # of GPUs' allocators, by role
    power_watts: float | None = None  # of all GPUs together
    powers: tuple[CardPower, ...] = ()
    energy_joules: float | None = None  # of this host's GPUs, from the first step to the end
    energy_per_clip_joules: float | None = None  # of that, by the clips that they trained on
    text_front_end: str = ""  # in words
    texts: Coverage | None = None  # what became of the training texts' characters
    data_stage_source: str = "every batch of this run"
    all_reduce_seconds: float | None = None  # over hosts: of the gradients alone, at the start
    gradient_bytes: int | None = None
    beside_stage_seconds: float | None = None  # mean of the updates of a second network (V)
    beside_names: tuple[str, ...] = ()
    beside_on: str | None = None  # data; model or, on one device, None: then they are a part of M
    two_networks: bool = False  # the model has updates that a split may make on the data device
    trials: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    """Of --strategy auto: clips_per_second of each way, its bound and what it reached over one device."""
    reached: float | None = None  # gain over one device that makes all stages in turn, by this run's rate and times
    phase_seconds: Mapping[str, float] = field(default_factory=dict)  # warm_up, train, validate, checkpoint, sample
    judged: Mapping[str, float] = field(default_factory=dict)  # of --judge: wer, dnsmos, step; recorded_… of recordings
    ema: float | None = None  # decay of the averaged weights, which validation and samples are of
    checkpoints_written: int = 0
    checkpoint_write_seconds: float | None = None  # mean, from the step to the disk; most of it beside the training

    @property
    def data_device_ceiling(self) -> float | None:
        """The most that the data device can be busy: its stages' time over that of the device with more to do."""
        return None if self.stages is None else self.stages.on_data / self.stages.longer

    @property
    def split_bound(self) -> float | None:
        """Upper bound of a split's gain over one device: (D + M) ÷ max(D, M), at most 2.

        D is all that the data device does: the data stage, and the updates beside the model device (V).
        """
        return None if self.stages is None else self.stages.in_turn / self.stages.longer

    @property
    def bounds(self) -> dict[str, float]:
        """The most that each way of training can gain over one device, by its name; empty where D or M is unknown."""
        return {} if self.stages is None else self.stages.bounds()

    @property
    def stages(self) -> StepStages | None:
        """Times of the stages; None where one is not known."""
        return StepStages.of_report(vars(self))

    @property
    def exit_code(self) -> int:
        """0, or 130 where Ctrl-C ended the run."""
        return 130 if self.ended.startswith("SIGINT") else 0

    def targets(self) -> list[Target]:
        """The figures that have a target, with their verdicts."""
        ceiling = self.data_device_ceiling
        beside = f"{ceiling:.0%} is the most possible here (data stage ÷ longer stage)" if ceiling is not None else ""
        of_model = self.device_use_source
        if self.device_use.get("data") is None:
            beside = NO_DATA_DEVICE.get(self.strategy, self.device_use_missing or beside)
        if self.device_use.get("model") is None:
            of_model = self.device_use_missing or of_model
        return [
            Target("data device use", self.device_use.get("data"), (0.40, 0.50, 0.60), note=beside, ceiling=ceiling),
            Target("model device use", self.device_use.get("model"), (0.70, 0.80, 0.90), note=of_model),
            Target(
                "step-time variation",
                self.step_time_variation,
                (0.40, 0.30, 0.20),
                higher_is_better=False,
                note=""
                if self.step_time_variation_within_buckets is None
                else f"{self.step_time_variation_within_buckets:.0%} among steps of one length bucket",
            ),
            *self._stages_target(),
        ]

    def _stages_target(self) -> list[Target]:
        """How the stages stand to each other; none for a split, which gains from a large data stage (`split_bound`)."""
        d, m = self.data_stage_seconds, self.train_stage_seconds
        if self.strategy == SPLIT:
            return []
        share = d / m if d and m else None
        return [Target(STAGES, share, (0.5, 0.5, 0.5), higher_is_better=False)]

    def render(self) -> str:
        """The report as text."""
        return _table(
            [
                *self._run_rows(),
                *self._stage_rows(),
                *self._pause_rows(),
                *self._gain_rows(),
                *map(self._target_row, self.targets()),
                *self._use_rows(),
                *self._power_rows(),
                *self._corpus_rows(),
                ("checkpoint", self.checkpoint or "none", ""),
            ]
        )

    def _run_rows(self) -> Rows:
        rate = self.steps_per_second
        clips = "" if rate is None else f"{rate * self.batch_rows:.3g} clips/s"
        yield "run", self.run, self.strategy
        yield from (("device", "", device) for device in self.devices)
        yield "steps", f"{self.first_step} → {self.last_step}", self.ended
        yield "rate", self._or_why(rate, "{:.3g} steps/s", "M"), clips
        yield "warm-up", "", self.warm_up
        yield from _loss_rows("loss", self.losses)
        yield from _loss_rows("validation", self.validation)
        yield from self._judged_rows()
        if self.ema is not None:
            yield "weights", "averaged", f"in validation, samples and synthesis (--ema {self.ema:g})"

    def _stage_rows(self) -> Rows:
        of_data = f"features and copy, for one batch: {self.data_stage_source}"
        of_train = "one step without its wait, in this run"
        if self.beside_names and self.beside_on != "data":
            of_train += ", V included"
        yield self._apart("data stage (D)", _ms(self.data_stage_seconds), MS, of_data, "D")
        yield "training stage (M)", self._or_why(_ms(self.train_stage_seconds), MS, "M"), of_train
        if self.beside_names:
            place = "the one device" if self.beside_on is None else f"the {self.beside_on} device"
            seconds = self._or_why(_ms(self.beside_stage_seconds), MS, "V")
            yield f"{' + '.join(self.beside_names)} (V)", seconds, f"one step of them on {place}, in this run"
        if self.all_reduce_seconds is not None:
            yield "all-reduce", MS.format(1e3 * self.all_reduce_seconds), "of the gradients alone: no step is faster"

    def _pause_rows(self) -> Rows:
        """What stopped the steps, with its share of the run, and what went on beside them."""
        total = sum(self.phase_seconds.values())
        names = {"validate": "validating", "checkpoint": "waiting for checkpoints", "sample": "making samples"}
        for phase, said in names.items():
            if seconds := self.phase_seconds.get(phase, 0.0):
                yield said, f"{seconds:.1f} s", f"{seconds / total:.1%} of the run"
        if self.checkpoint_write_seconds is not None:
            note = f"each of {self.checkpoints_written}, from its step to the disk, beside the training"
            yield "writing checkpoints", f"{self.checkpoint_write_seconds:.1f} s", note
        yield "waiting for data", self._or_why(self.data_wait_share, "{:.1%}", "M"), "of the steps' time"

    def _gain_rows(self) -> Rows:
        """What this split gains over one device, the bound of each way, and what evens a split out."""
        d = "D+V" if self.beside_on == "data" else "D"
        bound = f"({d}+M)/max({d},M); 1.5–2× is the target, 2–3× is out of reach for two devices"
        reached = "over one device with all stages in turn: this rate × the times of the stages"
        yield self._apart("bound of a split", self.split_bound, TIMES, bound)
        yield self._apart("reached", self.reached, TIMES, reached)
        if self.stages is not None:
            yield "bounds", "", f"of two devices over one: {listed(self.bounds)}"
            if (advice := self.stages.advice()) is not None:
                yield "balance", "", advice
        elif self.strategy == MIRRORED:
            yield "bounds", NOT_MEASURED, NOT_APART
        for name, trial in self.trials.items():
            yield "in trials", _times(trial["reached"]), f"{name}; its bound: {_times(trial['bound'])}{_caveat(trial)}"

    def _use_rows(self) -> Rows:
        for card, use in self.card_use.items():
            yield f"{card} use", share(use), "its parts together, of no role"
        for role, value in self.memory_of_limit.items():
            yield f"{role} memory", share(value), "of the applied limit; target 80–95%"
        yield "CPU use", self._or_why(self.cpu_use, SHARE, "M"), "of the cores; target 40–60% on a host with GPUs"
        growth, since = self.resident_memory_growth, "from step 200 (or the middle) to the end"
        standing = f"; {memory_standing(growth)}" if memory_standing(growth) else ""
        yield "resident memory", self._or_why(growth, "{:+.1%}", "M"), since + standing
        for role, growth in self.device_memory_growth.items():
            note = f"of the allocator's most, by the same: {memory_standing(growth)}"
            yield f"{role} memory growth", f"{growth:+.1%}", note

    def _corpus_rows(self) -> Rows:
        traces = ", ".join(f"{name} {count}" for name, count in self.traces.items())
        yield "traces", traces, f"{self.buckets} length buckets"
        if self.text_front_end:
            yield "text", "", self.text_front_end
        yield from (("texts", "", said) for said in (self.texts.sentences() if self.texts else ()))
        yield "clips replaced", str(self.bad_clips), "could not be read while training"

    def _power_rows(self) -> Rows:
        """The mean power of each GPU, against its limit in force; of the data GPU as far as its work goes."""
        if not self.powers:
            yield "power", NOT_MEASURED, "no GPU"
        if self.energy_joules is not None:
            clip = "" if self.energy_per_clip_joules is None else f"{self.energy_per_clip_joules:.3g} J a clip; "
            yield "energy", f"{self.energy_joules / 3.6e6:.3g} kWh", f"{clip}of the GPUs, by their own counters"
        for card in self.powers:
            note = ""
            if card.share is not None:
                standing = power_standing(card, self.data_device_ceiling if card.role == "data" else None)
                note = f"{card.share:.0%} of the limit in force: {standing}; high is {HIGH_POWER:.0%}"
            yield f"{card.role} GPU {card.index} power", str(card), note

    def _judged_rows(self) -> Rows:
        """What judges said of the model's speech, beside what they said of recordings."""
        at = f"at step {self.judged['step']:.0f}" if "step" in self.judged else ""
        for name, said in {"wer": "word error rate", "dnsmos": "DNSMOS P.808"}.items():
            if name in self.judged:
                recorded = self.judged.get(f"recorded_{name}", math.nan)
                yield said, f"{self.judged[name]:.2f}", f"{at}; {recorded:.2f} of recordings"

    def _or_why(self, value: float | None, form: str, *stages: str) -> str:
        """The figure, or why there is none: the first of these stages that was timed too seldom."""
        if value is not None:
            return form.format(value)
        return next((self.too_few[stage] for stage in stages if stage in self.too_few), NOT_MEASURED)

    def _apart(self, name: str, value: float | None, form: str, note: str, stages: str = "DMV") -> Row:
        """Row of a figure from stages that are timed apart, which mirrored devices do not do."""
        if value is None and self.strategy == MIRRORED:
            return name, NOT_MEASURED, NOT_APART
        return name, self._or_why(value, form, *stages), note

    def _target_row(self, target: Target) -> Row:
        if target.value is None and target.note in (*NO_DATA_DEVICE.values(), self.device_use_missing or None):
            return target.name, NOT_MEASURED, target.note
        if target.name == STAGES:
            return self._apart(target.name, target.value, SHARE, _judged(target), "MD")
        return target.name, self._or_why(target.value, SHARE, "M", "D"), _judged(target)

    def to_json(self) -> dict[str, Any]:
        """Everything as plain data, verdicts included."""
        return {
            **asdict(self),
            "texts": self.texts.to_json() if self.texts else None,
            "data_device_ceiling": self.data_device_ceiling,
            "split_bound": self.split_bound,
            "bounds": self.bounds,
            "targets": {target.name: {"value": target.value, "verdict": target.verdict} for target in self.targets()},
        }


def write_report(report: RunReport, directory: Path) -> Path:
    """Writes DIRECTORY/report.json and report.txt, each whole or not at all; a failure is an error in the log.

    Returns the path of the JSON.
    """
    texts = {".json": json.dumps(report.to_json(), indent=1, default=str) + "\n", ".txt": report.render() + "\n"}
    for suffix, text in texts.items():
        path = directory / f"{REPORT}{suffix}"
        try:
            write_file(path, text)
        except OSError as error:
            log.error("The report was not written: %s", error)
    return directory / f"{REPORT}.json"


def _loss_rows(name: str, losses: Mapping[str, float]) -> list[Row]:
    if not losses:
        return []
    parts = ", ".join(f"{part} {value:.4g}" for part, value in _with_one_rate(losses).items() if part != "total")
    return [(name, f"{losses.get('total', math.nan):.4g}", parts)]


def _with_one_rate(losses: Mapping[str, float]) -> dict[str, float]:
    """Losses, and the learning rates of the updates, as one where they are equal."""
    rates = [value for name, value in losses.items() if name.endswith(f"/{RATE}")]
    if len(rates) < 2 or len(set(rates)) > 1:
        return dict(losses)
    return {name: value for name, value in losses.items() if not name.endswith(f"/{RATE}")} | {RATE: rates[0]}


def _judged(target: Target) -> str:
    """Verdict and note; the note alone where the figure itself says that it was not measured."""
    return "; ".join(part for part in (target.verdict if target.value is not None else "", target.note) if part)


def _caveat(trial: Mapping[str, float | None]) -> str:
    return "" if trial["reached"] is None else too_few_to_be_sure(trial.get("timed_steps"))


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3


def _times(value: float | None) -> str:
    return NOT_MEASURED if value is None else f"{value:.2f}×"


def _table(rows: Sequence[Row]) -> str:
    first = max(len(row[0]) for row in rows)
    second = max(len(row[1]) for row in rows if len(row[1]) <= 30)
    return "\n".join(f"{name:<{first}}  {value:<{second}}  {note}".rstrip() for name, value, note in rows)


def power_standing(card: CardPower, ceiling: float | None = None) -> str:
    """high, low, or what its work allows: `ceiling` is the most of the time that this GPU can be busy."""
    if card.share is None:
        return ""
    if card.share >= HIGH_POWER:
        return "high"
    if ceiling is not None and card.share >= HIGH_POWER * ceiling:
        return f"as high as its work allows, which is {ceiling:.0%} of the time at most"
    return "low"


def memory_standing(growth: float | None) -> str:
    """stable, not stable, or nothing where it was not measured."""
    return "" if growth is None else "stable" if abs(growth) < STABLE else "not stable"
