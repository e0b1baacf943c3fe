"""`--strategy auto`: times each strategy the host allows in a process of its own, and takes the fastest."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from voxyard.corpus import CorpusError
from voxyard.host import Gpu
from voxyard.host.plan import Links, read_links
from voxyard.trainer import checkpoint
from voxyard.trainer.autotune import cache
from voxyard.trainer.autotune.candidates import (
    Candidate,
    Candidates,
    comparable,
    contenders,
    find_candidates,
    from_features,
    gains,
    has_discriminators,
    hosts_verdict,
    table,
    told_bounds,
    trial,
    way_of_config,
)
from voxyard.trainer.config import TrainConfig, trained_config
from voxyard.trainer.corpora import open_corpora
from voxyard.trainer.devices.placement import CPU_BATCH_SIZE, Kind, kind_of, refuse_vocoder_on, requested_strategy
from voxyard.trainer.devices.tensorflow_setup import inspect_host
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.hosts.addresses import HostGroup, host_group, refuse_uneven, without_hosts
from voxyard.trainer.reporting.bounds import MIRRORED, ON_DATA, ON_MODEL, SINGLE, SPLIT, StepStages

log = logging.getLogger("voxyard.trainer")

FEATURES_DIRECTORY = "features"  # below the run's directory
TRIAL_SECONDS = 1800  # a candidate that takes longer counts as failed
FEWEST_TRIALS, MOST_TRIALS = 3, 5  # of a candidate: more than the fewest where the fastest is not clear
_LARGEST_BATCH = 48  # clips, that any host is recommended


class _FailedTrialError(Exception):
    """A candidate that could not be timed; the message is the reason."""


@dataclass(frozen=True, slots=True)
class _Timed:
    """Timing of a trial."""

    clips_per_second: float
    note: str
    of_disk: bool  # what was read came from where training reads, and not from the page cache
    stages: StepStages | None = None


@dataclass(frozen=True, slots=True)
class ChosenStrategy:
    """A configuration whose strategy is chosen, and what was timed for that (`Report.trials`); empty: nothing."""

    config: TrainConfig
    trials: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)


def choose_strategy(config: TrainConfig) -> TrainConfig:
    """`config` with `--strategy auto` resolved; see `timed_strategy`."""
    return timed_strategy(config).config


def timed_strategy(config: TrainConfig) -> ChosenStrategy:
    """`config` with `--strategy auto` resolved; `config` itself with any other strategy.

    Over hosts see `_over_hosts`. A resumed run keeps its strategy; else the cached one of this host and model is taken,
    else every strategy that the host allows is timed on the run's own corpus. Of two networks a split has two
    placements, each timed as a strategy of its own. Raises TrainerError where nothing can be timed.
    """
    if config.training.strategy != "auto":
        return ChosenStrategy(config)
    group = host_group(config)
    refuse_vocoder_on(config, None, over_hosts=group is not None)
    if group is not None:
        return ChosenStrategy(_over_hosts(config, group))
    if (kept := _of_checkpoint(config)) is not None:
        return ChosenStrategy(kept)
    corpus = open_corpora(_uncached(config)).training
    has_features = bool(corpus.feature_names)
    host = inspect_host(config)
    kind = kind_of(config, host)
    found = find_candidates(config, host, kind, _links(host.gpus, kind), has_features=has_features)
    judged = _has_discriminators(config, len(corpus), kind)
    name = cache.key(config, host, kind, has_features=has_features, discriminators=judged)
    cached = None if config.training.retime else cache.load(name)
    if cached is not None and any(each.name == cached.name for each in found.runnable):
        log.info("--strategy auto: %s, as timed %s on this host (--retime times again)", cached.name, cached.age())
    else:
        cached, clear = _time_all(config, found, discriminators=judged)
        if clear:
            cache.save(name, cached)
    for line in told_bounds(cached, found.devices, kind):
        log.info("--strategy auto: %s", line)
    winner = next(each for each in found.runnable if each.name == cached.name)
    chosen = _with_features(winner) if winner.precomputed else winner.config
    return ChosenStrategy(chosen, gains(cached, found.devices))


def _has_discriminators(config: TrainConfig, clips: int, kind: Kind) -> bool:
    """True where the trials of a vocoder have its discriminators, as most steps of the run will."""
    rows = config.training.batch_size or (CPU_BATCH_SIZE if kind == "cpu" else _LARGEST_BATCH)
    judged = has_discriminators(config, clips, rows)
    if config.model.networks != "acoustic":
        log.info(
            "--strategy auto: the vocoder is timed %s discriminators, as most steps of this run are",
            "with its" if judged else "without",
        )
    return judged


def _over_hosts(config: TrainConfig, group: HostGroup) -> TrainConfig:
    """`config` over its hosts, split or not within this one, whichever this host alone is faster with.

    Both are timed here on this host's part of a batch, and what is faster on all hosts together, which is printed
    beside it and beside the network's bound. Nothing is cached: all hosts have to time at the same time.
    """
    if config.training.batch_size is not None:
        refuse_uneven(group, config.training.batch_size)
    part = config.training.batch_size and config.training.batch_size // group.count
    alone = without_hosts(
        config.model_copy(update={"training": config.training.model_copy(update={"batch_size": part})})
    )
    host = inspect_host(alone)
    kind = kind_of(alone, host)
    found = find_candidates(alone, host, kind, _links(host.gpus, kind), has_features=True)
    # Over hosts a split trains both networks on the model device.
    inner = Candidates(tuple(each for each in found.runnable if each.name not in (MIRRORED, ON_DATA)), {})
    corpus = open_corpora(_uncached(config)).training
    judged = _has_discriminators(alone, len(corpus) // group.count, kind)
    timed, _ = _time_all(alone, inner, discriminators=judged)
    ids = next(each.config.data for each in inner.runnable if each.name == timed.name)
    training = config.training.model_copy(update={"strategy": "multiworker"})
    chosen = config.model_copy(update={"training": training, "data": ids})
    log.info("--strategy auto: timing %d steps on all %d hosts", config.training.strategy_steps, group.count)
    with tempfile.TemporaryDirectory(prefix="voxyard-trial-") as folder, _ended_by_sigterm():
        try:
            steps = config.training.strategy_steps
            report = _ask({"config": trial(chosen, folder, steps, discriminators=judged).model_dump(mode="json")})
        except _FailedTrialError as error:
            raise TrainerError(f"--strategy auto could not time the hosts: {error}", exit_code=1) from error
    for line in hosts_verdict(report, group.count, timed.rates[timed.name]):
        log.info("--strategy auto: %s", line)
    return chosen


def _time_all(config: TrainConfig, found: Candidates, *, discriminators: bool) -> tuple[cache.CachedStrategy, bool]:
    """Times every candidate and logs the table; the fastest by the medians, and True where that is clear.

    The trials are interleaved, so that what changes on the host meets all candidates; where the fastest is not clear,
    those that may be it are timed again, a few times at most.
    """
    steps = config.training.strategy_steps
    log.info("--strategy auto: timing %d steps of each of %d strategies, in turn", steps, len(found.runnable))
    trials: dict[str, list[_Timed]] = {}
    failed: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="voxyard-trial-") as folder, _ended_by_sigterm():
        again: Collection[str] = [each.name for each in found.runnable]
        for turn in range(MOST_TRIALS):
            for each in found.runnable:
                if each.name not in again or each.name in failed:
                    continue
                log.info("  timing %s (%d)", each.name, turn + 1)
                try:
                    trials.setdefault(each.name, []).append(
                        _time(each, Path(folder), turn, steps, discriminators=discriminators)
                    )
                except _FailedTrialError as error:
                    failed[each.name] = str(error)
                    trials.pop(each.name, None)
            close = _close(trials)
            if len(trials) < 2 or (turn + 1 >= FEWEST_TRIALS and len(close) == 1):
                break
            again = close if turn + 1 >= FEWEST_TRIALS else trials
    return _judge(trials, failed, found.left_out), len(_close(trials)) == 1


def _close(trials: Mapping[str, Sequence[_Timed]]) -> tuple[str, ...]:
    """Those of the comparable ones that may be the fastest, the fastest first; none where there are no trials."""
    compared, _ = comparable(trials, _of_disk(trials))
    return contenders({name: _rates(trials[name]) for name in trials if name in compared}) if compared else ()


def _judge(
    trials: Mapping[str, Sequence[_Timed]], failed: Mapping[str, str], left_out: Mapping[str, str]
) -> cache.CachedStrategy:
    """Logs the table and the fastest. Raises TrainerError where nothing was timed."""
    rates = {name: median(_rates(timed)) for name, timed in trials.items()}
    rows: list[tuple[str, float | None, str]] = [(name, rates[name], _said(timed)) for name, timed in trials.items()]
    rows += [(name, None, f"failed: {why}") for name, why in failed.items()]
    rows += [(name, None, f"not here: {why}") for name, why in left_out.items()]
    for line in table(rows):
        log.info("  %s", line)
    if not trials:
        why = next((note for _, _, note in rows), "no strategy is possible")
        raise TrainerError(f"--strategy auto could time no strategy: {why}", exit_code=1)
    _, passed_over = comparable(trials, _of_disk(trials))
    if passed_over:
        log.info("--strategy auto: not compared, because their clips came from memory: %s", ", ".join(passed_over))
    best, *close = _close(trials)
    if close:
        log.info("--strategy auto: %s is hardly faster than %s: not remembered", best, " and ".join(close))
    else:
        log.info("--strategy auto: %s is the fastest here", best)
    return cache.CachedStrategy(best, rates, time.time(), _stages(trials))


def _stages(trials: Mapping[str, Sequence[_Timed]]) -> dict[str, Any]:
    """Median times of a step's stages, of the candidate that tells them best: one with each on a device of its own."""
    for name in (ON_DATA, ON_MODEL, SPLIT, SINGLE):
        known = [asdict(each.stages) for each in trials.get(name, ()) if each.stages is not None]
        if known:
            first = known[0]
            parts = {part: median(each[part] for each in known) for part in first if isinstance(first[part], float)}
            return first | parts
    return {}


def _of_disk(trials: Mapping[str, Sequence[_Timed]]) -> set[str]:
    return {name for name, timed in trials.items() if all(each.of_disk for each in timed)}


def _rates(timed: Sequence[_Timed]) -> list[float]:
    return [each.clips_per_second for each in timed]


def _said(timed: Sequence[_Timed]) -> str:
    rates = _rates(timed)
    return f"{len(rates)} trials, {min(rates):.3g} to {max(rates):.3g}; {timed[-1].note}"


def _time(each: Candidate, folder: Path, turn: int, steps: int, *, discriminators: bool) -> _Timed:
    """One trial of a candidate in a directory of its own below `folder`. Raises _FailedTrialError."""
    config = each.config
    if each.precomputed:
        clips = (config.training.batch_size or _LARGEST_BATCH) * config.training.grad_accum * (steps + 10)
        shards = folder / "features"
        if not shards.exists():
            _ask({"config": config.model_dump(mode="json"), "features": str(shards), "clips": clips})
        config = from_features(config, str(shards))
    directory = str(folder / f"{each.name}-{turn}".replace(",", "").replace(" ", "-"))
    timed = trial(config, directory, steps, discriminators=discriminators)
    report = _ask({"config": timed.model_dump(mode="json")})
    if not report["steps_per_second"]:
        raise _FailedTrialError(f"all of its {steps} steps were spent on tracing: give more --strategy-steps")
    rate = report["steps_per_second"] * report["batch_rows"]
    return _Timed(rate, _note(report), report["reads"]["of_disk"], StepStages.of_report(report))


def _note(report: Mapping[str, Any]) -> str:
    waits = f"waits {report['data_wait_share']:.0%} of the time for data"
    return f"{waits}; an update sees {report['batch_rows']} clips; reads: {report['reads']['said']}"


def _with_features(winner: Candidate) -> TrainConfig:
    """The winner's configuration, its features written, once a run."""
    folder = winner.config.training.checkpoint_dir / FEATURES_DIRECTORY
    wanted = open_corpora(_uncached(winner.config)).training.fingerprint
    config = from_features(winner.config, str(folder))
    if folder.exists() and _is_of(config, wanted):
        log.info("--strategy auto: the features in %s are those of this corpus", folder)
        return config
    log.info("--strategy auto: writing the features of the whole corpus to %s", folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with _ended_by_sigterm():
            document = winner.config.model_dump(mode="json")
            made = _ask({"config": document, "features": str(folder), "clips": None}, seconds=None)
    except _FailedTrialError as error:
        raise TrainerError(f"the features were not written: {error}", exit_code=1) from error
    log.info("--strategy auto: %d clips, %.0f MiB", made["clips"], made["bytes"] / 2**20)
    return config


def _is_of(config: TrainConfig, wanted: str) -> bool:
    """True where the features that `config` names were made of the wanted corpus, with its settings."""
    try:
        return open_corpora(config).training.fingerprint == wanted
    except CorpusError as error:
        log.info("--strategy auto: the features are made again: %s", error)
        return False


def _of_checkpoint(config: TrainConfig) -> TrainConfig | None:
    """Configuration of a resumed run: with another strategy it would not be the same run."""
    if not config.training.resume:
        return None
    found = checkpoint.newest_good(config.training.checkpoint_dir)
    if found is None:
        return None
    was = trained_config(found.meta["config"])
    strategy = requested_strategy(was)
    place = config.training.vocoder_on or was.training.vocoder_on if strategy == "split" else None
    kept = was.model_copy(update={"training": was.training.model_copy(update={"vocoder_on": place})})
    log.info("--strategy auto: the resumed run keeps its strategy %s", way_of_config(kept))
    features = was.data.train_data is not None and was.data.train_data.name == FEATURES_DIRECTORY
    keys: dict[str, Any] = {"data_gpu": was.data.data_gpu, "model_gpu": was.data.model_gpu}
    if features:
        keys["train_data"] = was.data.train_data
    return config.model_copy(
        update={
            "data": config.data.model_copy(update=keys),
            "training": config.training.model_copy(update={"strategy": strategy, "vocoder_on": place}),
        }
    )


def _ask(request: Mapping[str, Any], seconds: float | None = TRIAL_SECONDS) -> dict[str, Any]:
    """Answer of a process of trial.py. Raises _FailedTrialError with the end of its output."""
    command = [sys.executable, "-m", "voxyard.trainer.autotune.trial"]
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True)
        try:
            out, _ = _talk(process, json.dumps(request), seconds)
        finally:
            process.kill()
            process.wait()
        if process.returncode == 0:
            answer: dict[str, Any] = json.loads(out.splitlines()[-1])
            return answer
        said.seek(0)
        lines = [line.strip() for line in said.read().splitlines() if line.strip()]
    raise _FailedTrialError(lines[-1][:300] if lines else f"it ended with exit code {process.returncode}")


def _talk(process: subprocess.Popen[str], request: str, seconds: float | None) -> tuple[str, int]:
    """The answer; standard input stays open until then, since its end ends the other process."""
    if process.stdin is None or process.stdout is None:
        raise _FailedTrialError("it has no pipes")
    process.stdin.write(request + "\n")
    process.stdin.flush()
    timer = threading.Timer(seconds, process.kill) if seconds is not None else None
    try:
        if timer is not None:
            timer.start()
        return process.stdout.read(), process.wait()
    finally:
        if timer is not None:
            timer.cancel()
        process.stdin.close()


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Ends the trials and the program on SIGTERM, with exit code 0: nothing was trained yet."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _frame: object) -> None:
        log.info("%s: ended before the training began", signal.Signals(number).name)
        raise SystemExit(0)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _links(gpus: tuple[Gpu, ...], kind: Kind) -> Links:
    return read_links() if kind == "gpu" and len(gpus) > 1 else Links()


def _uncached(config: TrainConfig) -> TrainConfig:
    """Without a cache, which is not needed to read the metadata of a corpus."""
    return config.model_copy(
        update={"data": config.data.model_copy(update={"cache_dataset": False, "cache_file": None})}
    )
