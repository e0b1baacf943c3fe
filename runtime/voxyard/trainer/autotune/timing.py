"""Timing of the strategies that a host allows: trial after trial, told as it goes on, kept where it is cut off."""

from __future__ import annotations

import logging
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from voxyard.host.signal_handlers import handling
from voxyard.trainer.autotune import cache, trial_process
from voxyard.trainer.autotune.candidates import Candidate, Candidates, from_features, table, trial
from voxyard.trainer.autotune.trial_process import TRIAL_SECONDS, FailedTrialError
from voxyard.trainer.autotune.trials import FEWEST_TRIALS, MOST_TRIALS, REPEATED, Timed, Trials
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.devices.placement import Kind
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.out_of_memory import DOES_NOT_FIT, OutOfMemoryError
from voxyard.trainer.reporting.bounds import STEPS_NEEDED, StepStages
from voxyard.trainer.reporting.figures import counted

log = logging.getLogger("voxyard.trainer")

LARGEST_BATCH = 48  # clips, that any host is recommended


def time_all(config: TrainConfig, found: Candidates, kind: Kind, *, discriminators: bool, key: str | None) -> Trials:
    """Times the candidates and logs the table; trials with at least one result.

    The trials are interleaved, so that what changes on the host meets all candidates (`Trials.next`). With a `key` of
    the cache each trial is kept there at once: a choice that is cut off, by a signal or by --strategy-minutes, goes on
    from them, and one that is clear is not timed again. Raises TrainerError where nothing could be timed.
    """
    steps, minutes = config.training.strategy_steps, config.training.strategy_minutes
    trials = Trials(tuple(each.name for each in found.runnable), found.devices, kind)
    kept = None if key is None or config.training.retime else cache.load(key, steps)
    if kept is not None and kept.decided and {*kept.timed} <= {*trials.ways}:
        trials.timed, trials.failed = dict(kept.timed), dict(kept.failed)
        fastest = trials.close()[0]
        log.info("--strategy auto: %s, as timed %s on this host (--retime times again)", fastest, kept.age())
        return trials
    _announce(trials, steps, minutes)
    if kept is not None and not kept.decided:
        _go_on(trials, kept)

    def keep(*, decided: bool = False) -> None:
        if key is not None:
            cache.save(key, steps, trials, decided=decided)

    with tempfile.TemporaryDirectory(prefix="voxyard-trial-") as folder, told_where_ended(lambda: _told(trials, key)):
        timer = partial(time_one, folder=Path(folder), steps=steps, discriminators=discriminators)
        late = _time_in_turn(found, trials, timer, keep, limit=60 * minutes)
    if not late and len(trials.close()) == 1:
        keep(decided=True)
    elif not late and key is not None:
        cache.drop(key)
    _judge(trials, found.left_out, late=late, minutes=minutes)
    return trials


def _time_in_turn(
    found: Candidates, trials: Trials, timer: Callable[..., Timed], keep: Callable[[], None], *, limit: float
) -> bool:
    """Trial after trial until the choice is clear, each told and kept; True where the limit (s) came before that."""
    runnable = {each.name: each for each in found.runnable}
    end, told = time.monotonic() + limit, set[str]()
    while (name := trials.next()) is not None:
        told = _tell_skipped(trials, told)
        left = end - time.monotonic()
        if trials.timed and left < trials.expected_seconds(name):
            return True
        count = len(trials.timed.get(name, ())) + 1
        log.info("  timing %s (trial %d of it)", name, count)
        try:
            one = timer(
                runnable[name], count=count, seconds=min(TRIAL_SECONDS, left) if trials.timed else TRIAL_SECONDS
            )
        except FailedTrialError as error:
            if trials.timed and time.monotonic() >= end:
                return True
            log.info("    failed: %s", error)
            trials.fail(name, str(error))
            continue
        trials.add(name, one)
        keep()
        rate, took = one.clips_per_second, _duration(one.seconds)
        log.info("    %.3g clips/s, in %s%s", rate, took, _left(trials, end - time.monotonic()))
    _tell_skipped(trials, told)
    return False


def time_one(
    each: Candidate, *, folder: Path, count: int, steps: int, discriminators: bool, seconds: float | None
) -> Timed:
    """One trial of a candidate in a directory of its own below `folder`; in `seconds`, else it has failed.

    Raises FailedTrialError.
    """
    begin, config = time.monotonic(), each.config
    if each.precomputed:
        clips = (config.training.batch_size or LARGEST_BATCH) * config.training.grad_accum * (steps + 10)
        shards = folder / "features"
        if not shards.exists():
            request = {"config": config.model_dump(mode="json"), "features": str(shards), "clips": clips}
            trial_process.ask(request, seconds)
        config = from_features(config, str(shards))
    directory = str(folder / f"{each.name}-{count}".replace(",", "").replace(" ", "-"))
    timed = trial(config, directory, steps, discriminators=discriminators)
    report = trial_process.ask({"config": timed.model_dump(mode="json")}, seconds)
    if not report["steps_per_second"]:
        raise FailedTrialError(f"all of its {steps} steps were spent on tracing: give more --strategy-steps")
    rate = report["steps_per_second"] * report["batch_rows"]
    return Timed(
        rate,
        _note(report),
        report["reads"]["of_disk"],
        StepStages.of_report(report),
        rows=report["batch_rows"],
        seconds=time.monotonic() - begin,
        steps=report["steps_timed"],
    )


@contextmanager
def told_where_ended(tell: Callable[[], None]) -> Iterator[None]:
    """Ends the trials and the program on SIGTERM, with exit code 0, and on Ctrl-C, with 130: nothing was trained yet.

    `tell` says before that what was measured.
    """

    def end(number: int, _frame: object) -> None:
        log.info("%s: ended before the training began", signal.Signals(number).name)
        tell()
        raise SystemExit(130 if number == signal.SIGINT else 0)

    with handling(end):
        yield


def _announce(trials: Trials, steps: int, minutes: float) -> None:
    ways = trials.ways
    several = f"{REPEATED} trials of each that can win, {FEWEST_TRIALS} to {MOST_TRIALS} of the fastest"
    log.info(
        "--strategy auto: timing %d steps of %s: %s; %s, at most %s "
        "(--strategy-minutes). The first trial tells how long it takes",
        steps,
        "one strategy" if len(ways) == 1 else f"each of {len(ways)} strategies, in turn",
        "; ".join(ways),
        "one trial" if len(ways) == 1 else several,
        counted(minutes, "minute"),
    )


def _go_on(trials: Trials, kept: cache.KeptTrials) -> None:
    """Takes the trials of a choice that was cut off."""
    trials.timed = {name: timed for name, timed in kept.timed.items() if name in trials.ways}
    log.info("--strategy auto: going on with the trials of %s (--retime times all again):", kept.age())
    for line in _rows(trials):
        log.info("  %s", line)


def _told(trials: Trials, key: str | None) -> None:
    """Logs what was measured by a choice that is cut off."""
    if not trials.timed:
        log.info("--strategy auto: nothing was measured yet")
        return
    log.info("--strategy auto: measured so far:")
    for line in _rows(trials):
        log.info("  %s", line)
    if key is not None:
        log.info("--strategy auto: kept in %s: the same command goes on with what is left", cache.path())


def _tell_skipped(trials: Trials, told: set[str]) -> set[str]:
    """Logs the ways that turned out to need no trial; the names of all such."""
    skipped, best = trials.skipped(), trials.best()
    for name, most in skipped.items():
        if name not in told and best is not None:
            log.info("  %s is skipped: %s", name, _why_skipped(most, *best))
    return set(skipped)


def _why_skipped(most: float, best: str, rate: float) -> str:
    return f"by the times of a step's stages it makes at most {most:.3g} clips/s, {best} was timed at {rate:.3g}"


def _left(trials: Trials, limit: float) -> str:
    """Estimated time that is left, within `limit` seconds; empty at the end."""
    if trials.next() is None:
        return ""
    return f"; about {_duration(max(0.0, min(trials.seconds_left(), limit)))} left"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} minutes"


def _rows(trials: Trials) -> Iterator[str]:
    return table([(name, median(trials.rates(name)), _said(trials, name)) for name in trials.timed])


def _judge(trials: Trials, left_out: Mapping[str, str], *, late: bool, minutes: float) -> None:
    """Logs the table and the fastest. Raises TrainerError where nothing was timed."""
    best, skipped = trials.best(), trials.skipped()
    rates = {name: median(trials.rates(name)) for name in trials.timed}
    rows: list[tuple[str, float | None, str]] = [(name, rate, _said(trials, name)) for name, rate in rates.items()]
    rows += [
        (name, None, f"skipped: {_why_skipped(most, *best)}") for name, most in skipped.items() if best is not None
    ]
    rows += [(name, None, f"failed: {why}") for name, why in trials.failed.items()]
    untimed = [name for name in trials.ways if name not in {*rates, *skipped, *trials.failed}]
    rows += [
        (name, None, f"not timed within {counted(minutes, 'minute')} (--strategy-minutes)") for name in untimed if late
    ]
    rows += [(name, None, f"not here: {why}") for name, why in left_out.items()]
    for line in table(rows):
        log.info("  %s", line)
    if best is None:
        why = next((note for _, _, note in rows), "no strategy is possible")
        if trials.failed and all(each.startswith(DOES_NOT_FIT) for each in trials.failed.values()):
            what = f"--strategy auto could time no strategy, because none fits: {why}"
            raise OutOfMemoryError(what, f"{what}\nA smaller --batch-size takes less, or --recompute")
        raise TrainerError(f"--strategy auto could time no strategy: {why}", exit_code=1)
    if passed_over := sorted({*trials.timed} - {*trials.compared()}):
        log.info("--strategy auto: not compared, because their clips came from memory: %s", ", ".join(passed_over))
    name, *close = trials.close()
    if late:
        log.info(
            "--strategy auto: %s is the fastest of what was timed within %s (--strategy-minutes); the "
            "trials are kept, and the next choice goes on from them",
            name,
            counted(minutes, "minute"),
        )
    elif close:
        log.info("--strategy auto: %s is hardly faster than %s: not remembered", name, " and ".join(close))
    else:
        log.info("--strategy auto: %s is the fastest here", name)


def _said(trials: Trials, name: str) -> str:
    rates = trials.rates(name)
    said = "1 trial" if len(rates) == 1 else f"{len(rates)} trials, {min(rates):.3g} to {max(rates):.3g}"
    return f"{said}; {trials.timed[name][-1].note}"


def _note(report: Mapping[str, Any]) -> str:
    waits = f"waits {report['data_wait_share']:.0%} of the time for data"
    few = f"{counted(report['steps_timed'], 'timed step')}; " if report["steps_timed"] < STEPS_NEEDED else ""
    return f"{few}{waits}; an update sees {report['batch_rows']} clips; reads: {report['reads']['said']}"
