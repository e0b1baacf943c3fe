"""Kinds of faults, as generators: each draws how bad it is, how often and on which GPU."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from planted_faults import BARK, DATA, HOUR, IDLE, MINUTE, MODEL, STEP_SECONDS, Change, Kind, Planted, end_run, train
from simulated_host import GIB, LIMIT_MIB, SimulatedHost

from voxyard.service.documents.claims import SharedDocuments
from voxyard.service.http.metrics import ServiceMetrics
from voxyard.telemetry.causes import CAUSES
from voxyard.telemetry.sampler import Xid

# -- what starves a run ----------------------------------------------------------------------------------------------


def _starve(host: SimulatedHost, stall: float, **reads: float | None) -> None:
    """The model waits for its data for this share of its steps."""
    assert host.run is not None
    host.run.step_seconds = STEP_SECONDS / (1 - stall)
    host.run.wait_seconds = host.run.step_seconds * stall
    for name, value in reads.items():
        setattr(host.run.reads, name, value)
    host.gpus[MODEL].utilization = 0.95 * (1 - stall)
    host.gpus[DATA].utilization = 0.15 * (1 - stall)


def _slow_stage(host: SimulatedHost, stall: float, *, features: float, transfer: float = 0.01) -> None:
    """The model waits, and not for reading threads; the data stage takes these shares of a step as long as that."""
    step = STEP_SECONDS / (1 - stall)
    _starve(host, stall, waiting=0.03, features=step * features, transfer=step * transfer)


def slow_disk(host: SimulatedHost, dice: random.Random) -> Planted:
    """A local disk gives a part of what the run could learn from."""
    stall, pressure = dice.uniform(0.5, 0.9), dice.uniform(0.5, 0.95)
    _starve(host, stall, reading=0.95, computing=dice.uniform(0.03, 0.3), waiting=stall)
    host.pressure["io"] = pressure
    return Planted({"stall": stall, "pressure": pressure})


def slow_network_share(host: SimulatedHost, dice: random.Random) -> Planted:
    """A network share is slow; the kernel counts it as disk."""
    stall = dice.uniform(0.5, 0.95)
    _starve(host, stall, reading=0.98, computing=dice.uniform(0.02, 0.08), waiting=stall)
    host.pressure["io"] = dice.uniform(0.3, 0.7)
    return Planted({"stall": stall})


def disk_slow_in_bursts(host: SimulatedHost, dice: random.Random) -> Planted:
    """The disk is slow for some minutes of every few, as with another host's backup."""
    slow, good, stall = dice.uniform(120, 300), dice.uniform(30, 60), dice.uniform(0.75, 0.95)

    def during(host: SimulatedHost, seconds: float) -> None:
        now_slow = seconds % (slow + good) < slow
        share = stall if now_slow else 0.02
        _starve(host, share, reading=0.9 if now_slow else 0.3, computing=0.1 if now_slow else 0.9, waiting=share)
        host.pressure["io"] = 0.8 if now_slow else 0.05

    return Planted({"slow": slow, "good": good, "stall": stall}, during)


def somewhat_slow_disk(host: SimulatedHost, dice: random.Random) -> Planted:
    """Less than half of the steps wait, and the model's GPU misses its target for it."""
    stall = dice.uniform(0.36, 0.48)
    _starve(host, stall, reading=0.95, computing=dice.uniform(0.05, 0.3), waiting=stall)
    host.pressure["io"] = dice.uniform(0.4, 0.8)
    return Planted({"stall": stall})


def disk_stops_now_and_then(host: SimulatedHost, dice: random.Random) -> Planted:
    """For about a quarter of the time the disk gives nothing."""
    share, period = dice.uniform(0.27, 0.32), dice.uniform(1, 6) * MINUTE

    def during(host: SimulatedHost, seconds: float) -> None:
        stopped = seconds % period < share * period
        stall = 0.97 if stopped else 0.01
        _starve(host, stall, reading=0.95 if stopped else 0.3, computing=0.05 if stopped else 0.9, waiting=stall)
        host.pressure["io"] = 0.9 if stopped else 0.02

    return Planted({"share": share, "period": period}, during)


def share_that_hangs(host: SimulatedHost, _dice: random.Random) -> Planted:
    """A network share hangs for good: nothing is read any more, and what waits is not counted before it has ended."""
    assert host.run is not None
    host.run.stuck = True
    host.pressure["io"] = 1.0
    host.gpus[DATA].utilization = host.gpus[MODEL].utilization = 0.0
    return Planted({})


def share_that_hangs_for_minutes(host: SimulatedHost, dice: random.Random) -> Planted:
    """A network share hangs for some minutes again and again."""
    hangs, works = dice.uniform(2, 7) * MINUTE, dice.uniform(1, 3) * MINUTE

    def during(host: SimulatedHost, seconds: float) -> None:
        assert host.run is not None
        host.run.stuck = seconds % (hangs + works) < hangs
        host.pressure["io"] = 1.0 if host.run.stuck else 0.02
        host.gpus[DATA].utilization = 0.0 if host.run.stuck else 0.15
        host.gpus[MODEL].utilization = 0.0 if host.run.stuck else 0.92

    return Planted({"hangs": hangs, "works": works}, during)


def share_that_hangs_and_takes_node_exporter_with_it(host: SimulatedHost, dice: random.Random) -> Planted:
    """A network share hangs for some minutes again and again, and so does what else reads it, node_exporter."""
    hangs, works = dice.uniform(4, 7) * MINUTE, dice.uniform(1, 3) * MINUTE

    def during(host: SimulatedHost, seconds: float) -> None:
        assert host.run is not None
        hanging = seconds % (hangs + works) < hangs
        if hanging and not host.run.stuck:
            host.run.hang()
        elif host.run.stuck and not hanging:
            host.run.go_on()
        host.run.stuck, host.node_answers = hanging, not hanging
        host.gpus[DATA].utilization = 0.0 if hanging else 0.15
        host.gpus[MODEL].utilization = 0.0 if hanging else 0.92

    return Planted({"hangs": hangs, "works": works}, during)


def slow_decoder(host: SimulatedHost, dice: random.Random) -> Planted:
    """Recordings are decoded and resampled on all cores, and these are too few."""
    cores, stall = dice.choice([4, 8, 16]), dice.uniform(0.5, 0.85)
    threads = cores * dice.choice([1, 2])
    computing = 0.93 * cores / threads
    _starve(host, stall, reading=0.97, computing=computing, waiting=stall, threads=threads, cores=cores)
    host.run.reads.queued = 0.97 - computing if threads > cores else 0.02  # type: ignore[union-attr] # as below
    host.pressure["cpu"] = dice.uniform(0.3, 0.9)
    return Planted({"cores": cores, "threads": threads, "stall": stall})


def container_of_one_core(host: SimulatedHost, dice: random.Random) -> Planted:
    """The container may use one core, whatever the host has."""
    threads, stall = dice.choice([4, 8, 16]), dice.uniform(0.5, 0.9)
    computing = 0.97 / threads
    _starve(host, stall, reading=0.98, computing=computing, waiting=stall, threads=threads, cores=1)
    host.run.reads.queued = 0.97 - computing  # type: ignore[union-attr] # as below
    return Planted({"threads": threads, "stall": stall})


def readers_take_turns(host: SimulatedHost, dice: random.Random) -> Planted:
    """Reading holds Python's lock: many threads are as fast as one."""
    threads, stall = dice.choice([4, 8, 16]), dice.uniform(0.5, 0.9)
    computing = dice.uniform(0.85, 1.1) / threads
    _starve(host, stall, reading=0.98, computing=computing, waiting=stall, threads=threads, cores=dice.choice([8, 32]))
    host.run.reads.lock_held = dice.uniform(0.8, 1.0)  # type: ignore[union-attr] # _starve has seen it
    return Planted({"threads": threads, "stall": stall})


def object_storage(host: SimulatedHost, dice: random.Random) -> Planted:
    """Many threads wait for a network, which the kernel counts as no pressure, and compute as much as one core."""
    threads, stall = dice.choice([16, 24, 32, 48]), dice.uniform(0.5, 0.9)
    computing = dice.uniform(0.75, 1.25) / threads
    _starve(host, stall, reading=0.98, computing=computing, waiting=stall, threads=threads)
    return Planted({"threads": threads, "computing": computing, "stall": stall})


def somewhat_crowded_cores(host: SimulatedHost, dice: random.Random) -> Planted:
    """Somebody else's job takes the cores for less than half of the time, and the reading threads wait for theirs."""
    stall, pressure = dice.uniform(0.5, 0.8), dice.uniform(0.35, 0.5)
    computing = dice.uniform(0.4, 0.7)
    _starve(host, stall, reading=0.98, computing=computing, waiting=stall, queued=0.97 - computing)
    host.pressure.update(cpu=pressure, io=0.05)
    return Planted({"stall": stall, "pressure": pressure})


def too_few_readers(host: SimulatedHost, dice: random.Random) -> Planted:
    """One or two threads read, and the other cores idle."""
    threads, stall = dice.choice([1, 2]), dice.uniform(0.5, 0.85)
    _starve(host, stall, reading=0.98, computing=dice.uniform(0.85, 0.97), waiting=stall, threads=threads, cores=32)
    return Planted({"threads": threads, "stall": stall})


def strangers_on_the_cores(host: SimulatedHost, dice: random.Random) -> Planted:
    """Somebody else's job takes the host's cores."""
    stall, pressure = dice.uniform(0.5, 0.8), dice.uniform(0.6, 0.95)
    computing = dice.uniform(0.3, 0.6)
    _starve(host, stall, reading=0.95, computing=computing, waiting=stall, queued=0.95 - computing)
    host.pressure["cpu"] = pressure
    return Planted({"stall": stall, "pressure": pressure})


def neighbours_on_the_runs_own_cores(host: SimulatedHost, dice: random.Random) -> Planted:
    """Somebody shares the cores that the run is bound to; the host's others idle, and nothing may tell of the host."""
    stall, computing = dice.uniform(0.5, 0.85), dice.uniform(0.05, 0.45)
    _starve(host, stall, reading=0.98, computing=computing, waiting=stall, cores=8, queued=0.96 - computing)
    host.pressure["cpu"], host.node_answers = dice.uniform(0.05, 0.3), dice.random() < 0.5
    return Planted({"stall": stall, "computing": computing, "node": host.node_answers})


def quota_that_is_lowered(host: SimulatedHost, dice: random.Random) -> Planted:
    """Somebody gives the run's container fewer cores while it runs, and it uses them up, often or always."""
    cores, stall = dice.choice([1, 2, 4]), dice.uniform(0.5, 0.9)
    computing, throttled = cores * dice.uniform(0.85, 0.97) / 8, dice.uniform(0.2, 1.0)
    _starve(host, stall, reading=0.98, computing=computing, waiting=stall, cores=cores, queued=0.96 - computing)
    began = host.now

    def during(host: SimulatedHost, _seconds: float) -> None:
        periods = round((host.now - began) * 10)
        host.quota = periods, round(throttled * periods)

    return Planted({"cores": cores, "stall": stall, "throttled": throttled}, during)


def readers_that_hang(host: SimulatedHost, dice: random.Random) -> Planted:
    """Some threads read from a mount that is dead: what they do never ends, and is in no mean."""
    assert host.run is not None
    hanging, stall = dice.randint(2, 6), dice.uniform(0.5, 0.9)
    _starve(host, stall, reading=0.98 * (8 - hanging) / 8, waiting=dice.uniform(0.0, 1.0) * stall)
    for _ in range(hanging):
        host.run.hang()
    host.pressure["io"] = dice.uniform(0.0, 1.0)
    return Planted({"hanging": hanging, "stall": stall})


def slow_disk_of_an_unseen_host(host: SimulatedHost, dice: random.Random) -> Planted:
    """Nothing tells of the host's cores and memory: threads that wait for a disk, and those that swap, look alike."""
    stall, told = dice.uniform(0.5, 0.9), dice.random() < 0.5
    _starve(host, stall, reading=0.95, computing=dice.uniform(0.03, 0.4), waiting=stall, queued=0.0 if told else None)
    host.node_answers = False
    return Planted({"stall": stall, "told": told})


def two_networks_and_a_slow_disk(host: SimulatedHost, dice: random.Random) -> Planted:
    """A second network takes most of a step on the data GPU, and yet the disk is what the run waits for."""
    stall, pressure = dice.uniform(0.5, 0.9), dice.uniform(0.5, 0.95)
    _starve(host, stall, reading=0.95, computing=dice.uniform(0.03, 0.3), waiting=stall)
    host.run.reads.second_network = dice.uniform(0.3, 0.9)  # type: ignore[union-attr] # _starve has seen it
    host.pressure["io"] = pressure
    return Planted({"stall": stall, "pressure": pressure})


def _reading_threads_lack(host: SimulatedHost, dice: random.Random, cores: float, disk: float) -> Planted:
    """Reading threads wait for these shares of their time for a core and for a disk, whatever the host is short of."""
    stall, pressure = dice.uniform(0.5, 0.85), {name: dice.uniform(0.3, 0.95) for name in ("cpu", "io")}
    _starve(host, stall, reading=0.98, computing=1 - cores - disk, waiting=stall, queued=cores)
    host.pressure.update(pressure)
    return Planted({"stall": stall, "cores": cores, "disk": disk} | pressure)


def slow_disk_on_crowded_cores(host: SimulatedHost, dice: random.Random) -> Planted:
    """Two at once: the disk is slow, and somebody takes cores as well."""
    cores = dice.uniform(0.24, 0.35)
    return _reading_threads_lack(host, dice, cores, cores + dice.uniform(0.05, 0.2))


def crowded_cores_and_a_slow_disk(host: SimulatedHost, dice: random.Random) -> Planted:
    """Two at once: somebody takes the cores, and the disk is slow as well."""
    disk = dice.uniform(0.28, 0.35)
    return _reading_threads_lack(host, dice, disk + dice.uniform(0.05, 0.2), disk)


def slow_disk_beside_a_busy_neighbour(host: SimulatedHost, dice: random.Random) -> Planted:
    """The host is short of cores, and the run has all of its own: the disk is what it waits for."""
    return _reading_threads_lack(host, dice, dice.uniform(0.0, 0.15), dice.uniform(0.55, 0.8))


def slow_disk_and_slow_features(host: SimulatedHost, dice: random.Random) -> Planted:
    """Two at once: reading threads hold the data stage up, and the data stage alone would hold up the model."""
    stall = dice.uniform(0.65, 0.85)
    _starve(host, stall, reading=0.95, computing=dice.uniform(0.03, 0.3), waiting=stall * dice.uniform(0.4, 0.5))
    assert host.run is not None
    features = dice.uniform(max(0.35, 1.5 * (1 - stall)), 0.6)  # of a step
    host.run.reads.features = features * host.run.step_seconds
    host.pressure["io"] = dice.uniform(0.5, 0.95)
    return Planted({"stall": stall, "features": features})


def slow_cores(host: SimulatedHost, dice: random.Random) -> Planted:
    """A governor, a power profile or heat holds the clocks of the cores down: decoding takes several times as long."""
    stall, computing = dice.uniform(0.5, 0.85), dice.uniform(0.8, 0.95)
    threads, cores = dice.choice([(2, 32), (8, 32), (16, 16), (32, 16)])
    running = min(computing, 0.95 * cores / threads)
    _starve(host, stall, reading=0.98, computing=running, waiting=stall, threads=threads, cores=cores)
    host.run.reads.queued = 0.97 - running if threads > cores else 0.02  # type: ignore[union-attr] # _starve has seen it
    host.cpu_clock = dice.uniform(0.2, 0.5)
    host.pressure["cpu"] = dice.uniform(0.3, 0.9) if threads >= cores else 0.05
    return Planted({"stall": stall, "threads": threads, "cores": cores, "clock": host.cpu_clock})


def slow_cores_and_a_slow_disk(host: SimulatedHost, dice: random.Random) -> Planted:
    """Two at once: reading threads compute for half of their time, on slow cores, and wait for a disk for the other."""
    stall, computing = dice.uniform(0.5, 0.8), dice.uniform(0.52, 0.65)
    _starve(host, stall, reading=0.98, computing=computing, waiting=stall, queued=0.02)
    host.cpu_clock = dice.uniform(0.2, 0.5)
    host.pressure.update(cpu=0.05, io=dice.uniform(0.5, 0.9))
    return Planted({"stall": stall, "computing": computing, "clock": host.cpu_clock})


def swapping_host(host: SimulatedHost, dice: random.Random) -> Planted:
    """The host's memory is short: pages come and go."""
    stall, pressure = dice.uniform(0.5, 0.9), dice.uniform(0.35, 0.9)
    _starve(host, stall, reading=0.95, computing=dice.uniform(0.05, 0.3), waiting=stall)
    host.pressure.update(memory=pressure, io=dice.uniform(0.4, 0.9))
    host.memory_free = 0.08
    return Planted({"stall": stall, "pressure": pressure})


def slow_features(host: SimulatedHost, dice: random.Random) -> Planted:
    """The data GPU computes features for longer than the model trains."""
    stall = dice.uniform(0.5, 0.8)
    _slow_stage(host, stall, features=0.9, transfer=dice.uniform(0.01, 0.2))
    host.gpus[DATA].utilization = 0.95
    return Planted({"stall": stall})


def waiting_for_nothing_that_is_measured(host: SimulatedHost, dice: random.Random) -> Planted:
    """The model waits; threads and data stage are on time (another host of its run is late, a lock is held)."""
    stall = dice.uniform(0.5, 0.8)
    _slow_stage(host, stall, features=dice.uniform(0.02, 0.3))
    return Planted({"stall": stall})


def disk_slow_once(host: SimulatedHost, dice: random.Random) -> Planted:
    """The disk is slow for some minutes, once: what was measured of it fades as slowly as what it did."""
    slow, stall = dice.uniform(9, 20) * MINUTE, dice.uniform(0.75, 0.95)

    def during(host: SimulatedHost, seconds: float) -> None:
        now_slow = seconds < slow
        share = stall if now_slow else 0.02
        _starve(host, share, reading=0.95 if now_slow else 0.3, computing=0.1 if now_slow else 0.9, waiting=share)
        host.pressure["io"] = 0.8 if now_slow else 0.05

    return Planted({"slow": slow, "stall": stall}, during)


def slow_copy(host: SimulatedHost, dice: random.Random) -> Planted:
    """The way between the two GPUs is slow, and their links are what they can be."""
    stall = dice.uniform(0.5, 0.8)
    _slow_stage(host, stall, features=0.2, transfer=dice.uniform(0.5, 0.9))
    return Planted({"stall": stall})


# -- runs ------------------------------------------------------------------------------------------------------------


def stalled_run(host: SimulatedHost, dice: random.Random) -> Planted:
    """The process lives and serves its metrics; no step ends any more, and the GPU may spin."""
    assert host.run is not None
    host.run.learning = False
    busy = dice.choice([0.0, 1.0])
    host.gpus[DATA].utilization, host.gpus[MODEL].utilization = 0.0, busy
    return Planted({"busy": busy})


def dead_run(host: SimulatedHost, _dice: random.Random) -> Planted:
    """The kernel kills the process: it says nothing more."""
    end_run(host, well=False)
    return Planted({})


def nan_loss(host: SimulatedHost, dice: random.Random) -> Planted:
    """One scrape sees it; then the trainer has ended, as it does with such a loss."""
    value = dice.choice([float("nan"), float("inf")])

    def during(host: SimulatedHost, seconds: float) -> None:
        if host.run is not None and seconds == 0:
            host.run.metrics.losses({"total": value})
        elif host.run is not None:
            end_run(host, well=False)

    return Planted({"value": str(value)}, during)


def unseen_nan_loss(host: SimulatedHost, _dice: random.Random) -> Planted:
    """The trainer has ended before anyone scraped the loss: all that can be told is that a run is gone."""
    end_run(host, well=False)
    return Planted({})


def crash_loop(host: SimulatedHost, dice: random.Random) -> Planted:
    """The run ends every some minutes, and something starts it again."""
    period = dice.uniform(5, 14) * MINUTE
    lives = [0]

    def during(host: SimulatedHost, seconds: float) -> None:
        if seconds // period > lives[0]:
            lives[0] += 1
            end_run(host, well=False)
            train(host, "steady")

    return Planted({"period": period}, during)


def run_that_fails_again_and_again(host: SimulatedHost, dice: random.Random) -> Planted:
    """An error of the trainer's own ends it, in words, and something starts it again."""
    period = dice.uniform(3, 14) * MINUTE
    lives = [0]

    def during(host: SimulatedHost, seconds: float) -> None:
        assert host.run is not None
        if host.run.ending:
            end_run(host, well=False)
            train(host, "steady")
        elif seconds // period > lives[0]:
            lives[0] += 1
            host.run.metrics.finish(in_order=False)
            host.run.ending = True

    return Planted({"period": period}, during)


def diverging_loss(host: SimulatedHost, dice: random.Random) -> Planted:
    """The loss grows again, slowly."""
    doubling = dice.uniform(1, 3) * HOUR

    def during(host: SimulatedHost, seconds: float) -> None:
        assert host.run is not None
        host.run.loss = 2.0 * 2 ** (seconds / doubling)

    return Planted({"doubling": doubling}, during)


def flat_loss(host: SimulatedHost, dice: random.Random) -> Planted:
    """A run that begins from nothing learns nothing: a learning rate of 0, texts of other recordings."""
    train(host, "steady")
    assert host.run is not None
    host.run.loss, host.run.epoch = dice.uniform(0.7, 9), 0
    return Planted({"loss": host.run.loss})


def _phases(share: float, period: float, phase: str) -> Change:
    def during(host: SimulatedHost, seconds: float) -> None:
        assert host.run is not None
        away = seconds % period < share * period
        host.run.interrupt(phase if away else None)  # type: ignore[arg-type] # drawn below from its names
        host.gpus[MODEL].utilization = 0.03 if away else 0.92

    return during


def long_checkpoints(host: SimulatedHost, dice: random.Random) -> Planted:
    """Saving takes a third of the time, or more."""
    share, period = dice.uniform(0.32, 0.6), dice.uniform(4, 12) * MINUTE
    return Planted({"share": share, "period": period}, _phases(share, period, "checkpoint"))


def mostly_validating(host: SimulatedHost, dice: random.Random) -> Planted:
    """Validations take more time than training."""
    share, period = dice.uniform(0.6, 0.8), dice.uniform(20, 60) * MINUTE
    return Planted({"share": share, "period": period}, _phases(share, period, "validate"))


def _phase_of(phase: str, period: float, usual: float, slow: float) -> tuple[Change, Change]:
    """What goes on before and after the fault: a phase each `period` that takes `usual` seconds, then `slow`."""

    def during(length: float) -> Change:
        def change(host: SimulatedHost, seconds: float) -> None:
            assert host.run is not None
            away = seconds % max(period, length + 600) < length
            host.run.interrupt(phase if away else None)  # type: ignore[arg-type] # drawn below from its names
            host.gpus[MODEL].utilization = 0.03 if away else 0.92

        return change

    return during(usual), during(slow)


def slow_share_in_a_validation(host: SimulatedHost, dice: random.Random) -> Planted:
    """The share with the held-out clips is slow: a validation of minutes takes an hour or two."""
    usual = dice.uniform(3, 9) * MINUTE
    healthy, slow = _phase_of("validate", dice.uniform(25, 40) * MINUTE, usual, dice.uniform(8, 15) * usual)
    ill = 3 * HOUR
    host.run.held_out = (0.2, 0.15)  # type: ignore[union-attr] # it trains

    def during(host: SimulatedHost, seconds: float) -> None:
        if seconds < ill:
            healthy(host, seconds)
        else:
            slow(host, seconds - ill)
            host.run.held_out = (0.95, 0.05)  # type: ignore[union-attr] # it trains

    return Planted({"usual": usual}, during)


def slow_disk_under_a_checkpoint(host: SimulatedHost, dice: random.Random) -> Planted:
    """The disk of the checkpoints is slow: one of a minute takes a quarter of an hour."""
    usual = dice.uniform(0.8, 2) * MINUTE
    healthy, slow = _phase_of("checkpoint", dice.uniform(20, 30) * MINUTE, usual, dice.uniform(10, 18) * MINUTE)
    ill = 3 * HOUR

    def during(host: SimulatedHost, seconds: float) -> None:
        if seconds < ill:
            healthy(host, seconds)
        else:
            slow(host, seconds - ill)
            host.pressure["io"] = 0.85

    return Planted({"usual": usual}, during)


def unsteady_steps(host: SimulatedHost, dice: random.Random) -> Planted:
    """Steps of one length differ widely."""
    assert host.run is not None
    host.run.variation = dice.uniform(0.45, 1.2)
    return Planted({"variation": host.run.variation})


def unexplained_idling(host: SimulatedHost, dice: random.Random) -> Planted:
    """The GPU of a run that was busy idles between its kernels, and nothing that is measured says why."""
    host.gpus[MODEL].utilization = dice.uniform(0.1, 0.6)
    return Planted({"utilization": host.gpus[MODEL].utilization})


def idling_while_scrapes_are_lost(host: SimulatedHost, dice: random.Random) -> Planted:
    """The GPU of a run that was busy idles between its kernels, and one scrape in some is lost."""
    host.gpus[MODEL].utilization, lost = dice.uniform(0.1, 0.6), dice.uniform(0.05, 0.15)

    def during(host: SimulatedHost, _seconds: float) -> None:
        host.answers = dice.random() > lost

    return Planted({"utilization": host.gpus[MODEL].utilization, "lost": lost}, during)


def _slower(host: SimulatedHost, times: float) -> None:
    """A step takes so many times as long, and the card computes all the time."""
    assert host.run is not None
    host.run.step_seconds = host.run.wait_seconds + times * (host.run.step_seconds - host.run.wait_seconds)
    host.gpus[MODEL].utilization = 0.97


def _resumed(host: SimulatedHost) -> None:
    """The run is stopped and goes on."""
    end_run(host, well=True)
    train(host, "steady")


def slow_after_compiling_again_and_again(host: SimulatedHost, dice: random.Random) -> Planted:
    """Something in a step changes with each batch, and it is compiled anew."""
    times, traced = dice.uniform(1.5, 4), dice.uniform(0.1, 0.9)
    _slower(host, times)
    host.run.traced = traced  # type: ignore[union-attr] # _slower has seen it
    return Planted({"times": times, "traced": traced})


def slow_after_a_new_driver(host: SimulatedHost, dice: random.Random) -> Planted:
    """The driver is updated, the run resumed, and its kernels are slower."""
    times = dice.uniform(1.4, 3)
    host.driver_version = "585.10.01"
    _resumed(host)
    _slower(host, times)
    return Planted({"times": times})


def slow_after_a_new_release(host: SimulatedHost, dice: random.Random) -> Planted:
    """The run is resumed with another image, in which something is slower."""
    times = dice.uniform(1.4, 3)
    host.release = "release-2"
    _resumed(host)
    _slower(host, times)
    return Planted({"times": times})


def slow_memory_clocks(host: SimulatedHost, dice: random.Random) -> Planted:
    """The card's memory runs at a part of its clock, and nothing says why."""
    share = dice.uniform(0.3, 0.75)
    _slower(host, dice.uniform(1.4, 1 / share + 0.2))
    host.gpus[MODEL].memory_clock *= share
    return Planted({"share": share})


def slow_for_no_reason_that_is_measured(host: SimulatedHost, dice: random.Random) -> Planted:
    """XLA has fallen back, once: a step takes longer from then on, and the card is at 100%."""
    times = dice.uniform(1.45, 4)
    host.run.shapes = {"16x200": (0.3, 0.6), "16x512": (0.5, 1.0), "16x900": (0.2, 1.7)}  # type: ignore[union-attr]
    slow_from = dice.uniform(60, 80) * MINUTE
    begun = [False]

    def during(host: SimulatedHost, seconds: float) -> None:
        if seconds >= slow_from and not begun[0]:
            begun[0] = True
            _slower(host, times)

    return Planted({"times": times, "from": slow_from}, during)


def half_of_the_nvlinks(host: SimulatedHost, dice: random.Random) -> Planted:
    """Some NVLinks of a card go down, for good or again and again: the reduction of gradients takes longer."""
    index, left = dice.choice([DATA, MODEL]), dice.choice([6, 9, 12])
    share, period = dice.choice([1.0, dice.uniform(0.4, 0.8)]), dice.uniform(5, 10) * MINUTE
    _slower(host, dice.uniform(1.1, 2))

    def during(host: SimulatedHost, seconds: float) -> None:
        host.gpus[index].nvlinks_active = left if seconds % period < share * period else 18

    return Planted({"gpu": index, "left": left, "share": share, "period": period}, during)


def worker_that_speaks_slower(host: SimulatedHost, dice: random.Random) -> Planted:
    """A chunk takes longer than it did, and is still faster than real time."""
    assert host.pool is not None
    host.pool.chunk_seconds = dice.uniform(6.4, 7.2)
    return Planted({"seconds": host.pool.chunk_seconds})


def _acts(host: SimulatedHost, **parts: float) -> None:
    """The model's GPU is busy, and its parts do so much."""
    host.gpus[MODEL].utilization = 0.97
    host.gpus[MODEL].activity = parts


def small_kernels(host: SimulatedHost, dice: random.Random) -> Planted:
    """A kernel runs always, and fills a part of the card: tiny batches, no XLA."""
    sm = dice.uniform(0.03, 0.3)
    _acts(host, sm=sm, occupancy=sm / 2, tensor=dice.uniform(0, 0.5) * sm, dram=dice.uniform(0.02, 0.3))
    return Planted({"sm": sm})


def memory_bound_kernels(host: SimulatedHost, dice: random.Random) -> Planted:
    """The bandwidth of the card's memory is used up."""
    dram = dice.uniform(0.66, 0.95)
    _acts(host, sm=dice.uniform(0.6, 0.98), occupancy=0.6, tensor=dice.uniform(0, 0.35), dram=dram)
    return Planted({"dram": dram})


def waiting_in_collectives(host: SimulatedHost, dice: random.Random) -> Planted:
    """One of several hosts of a run has become slow: the GPU here spins in its all-reduce, and steps take longer."""
    assert host.run is not None
    host.run.metrics.hosts(0, dice.choice([2, 4, 8]))
    before, sm = dice.uniform(0.6, 0.9), dice.uniform(0.05, 0.25)
    fast, step = dice.uniform(30, 60) * MINUTE, STEP_SECONDS * dice.uniform(1.5, 3)

    def during(host: SimulatedHost, seconds: float) -> None:
        assert host.run is not None
        if seconds < fast:
            _acts(host, sm=before, occupancy=0.5, tensor=0.4, dram=0.5)
        else:
            _acts(host, sm=sm, occupancy=0.1, tensor=0.03, dram=0.1)
            host.run.step_seconds = step

    return Planted({"before": before, "sm": sm, "fast": fast}, during)


# -- GPUs ------------------------------------------------------------------------------------------------------------


def hot_memory(host: SimulatedHost, dice: random.Random) -> Planted:
    """The memory of a card is hot, and the GPU is not."""
    index = dice.choice([MODEL, *BARK])
    host.gpus[index].memory_temperature = dice.uniform(104, 110)
    return Planted({"gpu": index, "temperature": host.gpus[index].memory_temperature})


def corrected_errors_all_the_time(host: SimulatedHost, dice: random.Random) -> Planted:
    """A part of the memory is going: it is corrected, and no Xid tells of it."""
    index, a_minute = dice.choice([MODEL, *BARK]), dice.uniform(8, 500)

    def during(host: SimulatedHost, seconds: float) -> None:
        host.gpus[index].ecc_corrected = round(a_minute * seconds / MINUTE)

    return Planted({"gpu": index, "a minute": a_minute}, during)


def failed_fabric(host: SimulatedHost, dice: random.Random) -> Planted:
    """The fabric manager of the switches has died, or a switch lacks bandwidth."""
    state = dice.choice(["failed", "degraded"])
    for gpu in host.gpus if state == "failed" else [dice.choice(host.gpus)]:
        gpu.fabric_state = state
    return Planted({"state": state})


def mig_switched_on(host: SimulatedHost, dice: random.Random) -> Planted:
    """Somebody divides a card that a run had: the run is gone, and cannot start again."""
    card = host.gpus[dice.choice([DATA, MODEL])]
    end_run(host, well=dice.random() < 0.5)
    card.mig = True
    return Planted({"gpu": card.gpu.index})


def power_cap_under_an_exporter_that_restarts(host: SimulatedHost, dice: random.Random) -> Planted:
    """A power limit is lowered, and the exporter, whose memory is short, ends every few minutes."""
    capped = power_cap(host, dice)
    restarts = _restarting("exporter", dice.uniform(2.5, 12) * MINUTE, dice.uniform(15, 40))
    return Planted(capped.drawn | restarts.drawn, restarts.during)


def heat_and_a_slow_disk(host: SimulatedHost, dice: random.Random) -> Planted:
    """Two at once: the disk is slow, and a card is hot."""
    return Planted(slow_disk(host, dice).drawn | thermal_slowdown(host, dice).drawn)


def power_cap_and_crowded_cores(host: SimulatedHost, dice: random.Random) -> Planted:
    """Two at once: a lowered power limit, and somebody else's job on the cores."""
    return Planted(strangers_on_the_cores(host, dice).drawn | power_cap(host, dice).drawn)


def lost_gpu(host: SimulatedHost, dice: random.Random) -> Planted:
    """A GPU falls off the bus, without an Xid."""
    index = dice.choice([IDLE, *BARK])
    host.gpus[index].up = False
    return Planted({"gpu": index})


def flapping_gpu(host: SimulatedHost, dice: random.Random) -> Planted:
    """A GPU falls off the bus and comes back, again and again: a cable or a seat that is loose."""
    index, away, period = dice.choice([IDLE, *BARK]), dice.uniform(15, 90), dice.uniform(2, 10) * MINUTE

    def during(host: SimulatedHost, seconds: float) -> None:
        host.gpus[index].up = seconds % period >= away

    return Planted({"gpu": index, "away": away, "period": period}, during)


def missing_gpu(host: SimulatedHost, _dice: random.Random) -> Planted:
    """The host was restarted and an idle GPU did not come back: nothing tells of it any more."""
    del host.gpus[IDLE]
    return Planted({})


def critical_xid(host: SimulatedHost, dice: random.Random) -> Planted:
    """An error after which nothing that the GPU computes can be trusted."""
    number, index = dice.choice([48, 62, 64, 74, 79, 95, 119, 120]), dice.choice([MODEL, *BARK])
    host.gpus[index].xids[number] = Xid(1, host.now, host.now)
    return Planted({"xid": number, "gpu": index})


def contained_xid(host: SimulatedHost, dice: random.Random) -> Planted:
    """A memory error that ended one process."""
    index = dice.choice(BARK)
    host.gpus[index].xids[94] = Xid(1, host.now, host.now)
    return Planted({"gpu": index})


def uncorrectable_memory(host: SimulatedHost, dice: random.Random) -> Planted:
    """Uncorrectable ECC errors."""
    index = dice.choice([MODEL, *BARK])
    host.gpus[index].ecc_uncorrected = dice.randint(1, 5)
    return Planted({"gpu": index})


def thermal_slowdown(host: SimulatedHost, dice: random.Random) -> Planted:
    """The cooling fails: the clocks fall, the utilization does not."""
    card = host.gpus[dice.choice([MODEL, *BARK])]
    card.temperature, card.sm_clock = dice.uniform(80, 85), dice.uniform(0.6e9, 1.4e9)
    card.clock_events.add(dice.choice(["hw_thermal_slowdown", "sw_thermal_slowdown"]))
    return Planted({"temperature": card.temperature})


def heat_in_bursts(host: SimulatedHost, dice: random.Random) -> Planted:
    """Heat slows a card down for a part of every few minutes."""
    index, share, period = dice.choice([MODEL, *BARK]), dice.uniform(0.38, 0.6), dice.uniform(1, 8) * MINUTE

    def during(host: SimulatedHost, seconds: float) -> None:
        card, hot = host.gpus[index], seconds % period < share * period
        card.temperature, card.sm_clock = 84.0, 0.9e9 if hot else 1.755e9
        card.clock_events = {"sw_thermal_slowdown"} if hot else set()

    return Planted({"share": share, "period": period, "gpu": index}, during)


def hot_gpu(host: SimulatedHost, dice: random.Random) -> Planted:
    """Hotter than it should be, and not slowed down yet."""
    card = host.gpus[dice.choice([MODEL, *BARK])]
    card.temperature = dice.uniform(86.5, 95)
    return Planted({"temperature": card.temperature})


def power_brake(host: SimulatedHost, dice: random.Random) -> Planted:
    """A power supply of the host failed."""
    card = host.gpus[dice.choice([MODEL, *BARK])]
    card.sm_clock = dice.uniform(0.4e9, 1.2e9)
    card.clock_events.add("hw_power_brake")
    return Planted({"clock": card.sm_clock})


def power_cap(host: SimulatedHost, dice: random.Random) -> Planted:
    """Somebody has lowered a power limit."""
    index = dice.choice([MODEL, *BARK])
    card = host.gpus[index]
    card.power_limit, card.sm_clock = dice.uniform(250, 590), dice.uniform(0.7e9, 1.6e9)
    card.clock_events.add("sw_power_cap")
    return Planted({"limit": card.power_limit, "gpu": index})


def locked_clocks(host: SimulatedHost, dice: random.Random) -> Planted:
    """Somebody has locked the clocks, for a measurement, and forgotten it."""
    index = dice.choice([MODEL, *BARK])
    host.gpus[index].sm_clock = dice.uniform(0.3e9, 1.42e9)
    return Planted({"clock": host.gpus[index].sm_clock, "gpu": index})


def locked_clocks_of_a_card_with_little_work(host: SimulatedHost, dice: random.Random) -> Planted:
    """The card works in bursts, and idles in between."""
    card = host.gpus[BARK[-1]]
    card.sm_clock = dice.uniform(0.3e9, 1.42e9)
    busy, period = dice.uniform(0.3, 0.6), dice.uniform(2, 8) * MINUTE

    def during(host: SimulatedHost, seconds: float) -> None:
        host.gpus[BARK[-1]].utilization = 0.9 if seconds % period < busy * period else 0.0

    return Planted({"clock": card.sm_clock, "busy": busy, "period": period}, during)


def disk_slow_and_the_card_idles(host: SimulatedHost, dice: random.Random) -> Planted:
    """While the disk is slow the model's GPU does nothing, and its clocks fall: that is no lock."""
    slow, good = dice.uniform(150, 240), dice.uniform(60, 120)

    def during(host: SimulatedHost, seconds: float) -> None:
        now_slow = seconds % (slow + good) < slow
        share = 0.96 if now_slow else 0.02
        _starve(host, share, reading=0.95 if now_slow else 0.3, computing=0.1 if now_slow else 0.9, waiting=share)
        host.pressure["io"] = 0.8 if now_slow else 0.02

    return Planted({"slow": slow, "good": good}, during)


def throttled_data_gpu(host: SimulatedHost, dice: random.Random) -> Planted:
    """Heat slows the data GPU down: its features are late for that."""
    _slow_stage(host, dice.uniform(0.5, 0.7), features=0.9)
    card = host.gpus[DATA]
    card.utilization, card.temperature, card.sm_clock = 0.97, 84, dice.uniform(0.6e9, 1.2e9)
    card.clock_events.add("hw_thermal_slowdown")
    return Planted({"clock": card.sm_clock})


def lost_lanes(host: SimulatedHost, dice: random.Random) -> Planted:
    """A link is trained down to fewer lanes; the run waits for its copies."""
    index = dice.choice([DATA, MODEL])
    host.gpus[index].pcie_width = dice.choice([1, 4, 8])
    if dice.random() < 0.5:
        _slow_stage(host, dice.uniform(0.5, 0.8), features=0.2, transfer=0.8)
    return Planted({"width": host.gpus[index].pcie_width, "gpu": index})


def slow_link(host: SimulatedHost, dice: random.Random) -> Planted:
    """A link is trained down to a lower generation, under load too."""
    index = dice.choice([MODEL, *BARK])
    host.gpus[index].pcie_generation = dice.choice([1, 2, 3, 4])
    if index == MODEL and dice.random() < 0.5:
        _slow_stage(host, dice.uniform(0.5, 0.6), features=0.2, transfer=0.8)
    return Planted({"generation": host.gpus[index].pcie_generation, "gpu": index})


def stranger_computes(host: SimulatedHost, dice: random.Random) -> Planted:
    """Another process computes on a GPU that a workload holds."""
    index = dice.choice([DATA, MODEL, *BARK])
    host.gpus[index].processes = dice.randint(2, 4)
    return Planted({"processes": host.gpus[index].processes, "gpu": index})


def stranger_comes_and_goes(host: SimulatedHost, dice: random.Random) -> Planted:
    """Another process computes on a GPU for most of every few minutes: the run gets a part of the card."""
    index, share, period = dice.choice([DATA, MODEL, *BARK]), dice.uniform(0.55, 0.9), dice.uniform(3, 8) * MINUTE

    def during(host: SimulatedHost, seconds: float) -> None:
        host.gpus[index].processes = 2 if seconds % period < share * period else None

    return Planted({"share": share, "period": period, "gpu": index}, during)


def stranger_of_some_minutes(host: SimulatedHost, dice: random.Random) -> Planted:
    """Another process computes on the card for a minute of every three."""
    index, share, period = dice.choice([MODEL, *BARK]), dice.uniform(0.3, 0.34), dice.uniform(2.5, 3.4) * MINUTE

    def during(host: SimulatedHost, seconds: float) -> None:
        host.gpus[index].processes = 2 if seconds % period < share * period else None

    return Planted({"gpu": index, "share": share, "period": period}, during)


def stranger_holds_memory(host: SimulatedHost, dice: random.Random) -> Planted:
    """Something holds memory on the model's GPU beside the run, and computes nothing now."""
    host.gpus[MODEL].memory_used = (LIMIT_MIB << 20) + dice.randint(4, 12) * GIB
    return Planted({"bytes": host.gpus[MODEL].memory_used})


def driver_gone(host: SimulatedHost, _dice: random.Random) -> Planted:
    """The driver was unloaded, or hangs as a whole."""
    host.driver_gone_since = host.now
    return Planted({})


def distant_pair(host: SimulatedHost, _dice: random.Random) -> Planted:
    """A run starts on two GPUs of different sockets."""
    train(host, "far")
    return Planted({})


# -- speech ----------------------------------------------------------------------------------------------------------


def dead_workers(host: SimulatedHost, dice: random.Random) -> Planted:
    """Some of four do not come back; the others go on with the queue."""
    assert host.pool is not None
    gone = dice.randint(1, 4)
    host.pool.running = len(BARK) - gone
    for index in BARK[-gone:]:
        host.gpus[index].utilization = 0.0
    return Planted({"workers": gone})


def speech_on_a_crowded_host(host: SimulatedHost, dice: random.Random) -> Planted:
    """The workers of the pool wait for cores or for memory, and their GPUs idle in between."""
    assert host.pool is not None
    resource = dice.choice(["cpu", "memory"])
    host.pressure[resource] = dice.uniform(0.6, 0.95)
    host.pool.chunk_seconds = dice.uniform(5, 7)
    for index in BARK:
        host.gpus[index].utilization = dice.uniform(0.1, 0.4)
    return Planted({"resource": resource, "pressure": host.pressure[resource]})


def growing_queue(host: SimulatedHost, dice: random.Random) -> Planted:
    """More comes than is spoken, for good: after an hour it is more than a quarter of an hour's work (900 chunks)."""
    a_minute = dice.uniform(12, 40)

    def during(host: SimulatedHost, seconds: float) -> None:
        assert host.pool is not None
        host.pool.waiting = 200 + round(a_minute * seconds / MINUTE)

    return Planted({"a minute": a_minute}, during)


def failing_chunks(host: SimulatedHost, dice: random.Random) -> Planted:
    """Some texts end a worker, on every one of them."""
    each = dice.randint(2, 8)

    def during(host: SimulatedHost, _seconds: float) -> None:
        assert host.pool is not None
        for _ in range(each):
            host.pool.metrics.chunk_failed("timeout", silence=False)

    return Planted({"a scrape": each}, during)


def worker_that_dies_again_and_again(host: SimulatedHost, dice: random.Random) -> Planted:
    """One worker ends every minute or two and is started again; what it had is spoken by the others."""
    index, period = dice.choice(BARK), dice.uniform(45, 120)
    deaths = [0]

    def during(host: SimulatedHost, seconds: float) -> None:
        assert host.pool is not None
        if seconds // period > deaths[0]:
            deaths[0] += 1
            host.pool.metrics.failure(str(index), "died")
        alive = seconds % period > dice.uniform(20, 40)
        host.pool.running = len(BARK) if alive else len(BARK) - 1

    return Planted({"gpu": index, "period": period}, during)


def worker_that_dies_now_and_then(host: SimulatedHost, dice: random.Random) -> Planted:
    """A worker ends every some minutes, is there again before anyone looks, and speaks a lot in between."""
    index, period = dice.choice(BARK), dice.uniform(4, 9) * MINUTE
    deaths = [0]

    def during(host: SimulatedHost, seconds: float) -> None:
        assert host.pool is not None
        if seconds // period > deaths[0]:
            deaths[0] += 1
            host.pool.metrics.failure(str(index), "died")

    return Planted({"gpu": index, "period": period}, during)


def chunks_that_are_each_tried_again(host: SimulatedHost, dice: random.Random) -> Planted:
    """Each chunk of a worker is spoken at the second or third try."""
    index, tries, cause = dice.choice(BARK), dice.randint(1, 2), dice.choice(["late", "raised", "hung"])

    def during(host: SimulatedHost, _seconds: float) -> None:
        assert host.pool is not None
        for _ in range(tries * 3):  # a scrape has about four chunks of it
            host.pool.metrics.failure(str(index), cause)

    return Planted({"gpu": index, "tries": tries, "cause": cause}, during)


def gpu_that_somebody_took(host: SimulatedHost, dice: random.Random) -> Planted:
    """A notebook holds the memory of a card, and the worker that should have it waits: the pool expects one less."""
    assert host.pool is not None
    index = dice.choice(BARK[1:])
    host.pool.metrics.device_waits(str(index), dice.choice(["memory", "driver", "fault"]))
    host.pool.gpus = tuple(gpu for gpu in host.pool.gpus if gpu != str(index))
    host.pool.running = len(BARK) - 1
    host.gpus[index].utilization, host.gpus[index].memory_used = 0.0, 70 * GIB
    return Planted({"gpu": index})


def slow_database(host: SimulatedHost, dice: random.Random) -> Planted:
    """Each step of a document waits for the shared database, and so do the cards in between."""
    assert host.pool is not None
    seconds, waiting = dice.uniform(0.3, 8), dice.uniform(0.4, 4.0)
    host.pool.waiting, host.pool.first_sound_seconds = 0, 3.0
    for index in BARK:
        host.gpus[index].utilization = dice.uniform(0.0, 0.4)
    began = host.now

    def shared() -> SharedDocuments:
        waited = waiting * (host.now - began)
        return SharedDocuments(True, 2, {}, round(waited / seconds), waited)

    ServiceMetrics(host.registries["bark"], shared=shared)
    return Planted({"seconds": seconds, "waiting": waiting})


def slow_speech(host: SimulatedHost, dice: random.Random) -> Planted:
    """A chunk of 8 s takes longer than it lasts."""
    assert host.pool is not None
    host.pool.chunk_seconds = dice.uniform(9, 30)
    return Planted({"seconds": host.pool.chunk_seconds})


def speech_that_is_silence_or_noise(host: SimulatedHost, dice: random.Random) -> Planted:
    """A worker speaks at its usual speed, and what it says is nothing (a broken card, broken weights)."""
    assert host.pool is not None
    share, fault = dice.uniform(0.4, 1.0), dice.choice(["silent", "wrong words", "too long", "no end", "clipped"])
    gpus = host.pool.gpus if dice.random() < 0.5 else (dice.choice(host.pool.gpus),)
    host.pool.faulty = dict.fromkeys(gpus, (share, fault))
    return Planted({"share": share, "fault": fault, "gpus": gpus})


def late_first_sound(host: SimulatedHost, dice: random.Random) -> Planted:
    """Listeners wait for their first sound."""
    assert host.pool is not None
    host.pool.first_sound_seconds = dice.uniform(12, 120)
    return Planted({"seconds": host.pool.first_sound_seconds})


def outrun_streams(host: SimulatedHost, dice: random.Random) -> Planted:
    """Listeners hear the first sound, and then wait for more."""
    assert host.pool is not None
    service, seconds = ServiceMetrics(host.registries["bark"]), dice.uniform(2, 60)
    host.pool.heard = lambda: service.stream_heard(seconds)
    return Planted({"seconds": seconds})


def failing_documents(host: SimulatedHost, dice: random.Random) -> Planted:
    """Documents fail, as when the directory of their audio loses files."""
    began, share = host.now, dice.uniform(0.1, 0.9)

    def ended() -> dict[str, int]:
        documents = round((host.now - began) / 20)
        return {"failed": round(share * documents), "completed": documents - round(share * documents)}

    ServiceMetrics(host.registries["bark"], ended=ended)
    return Planted({"share": share})


def dead_service(host: SimulatedHost, _dice: random.Random) -> Planted:
    """The speech service is gone, and nothing starts it again."""
    host.registries.pop("bark")
    host.pool = None
    for index in BARK:
        host.gpus[index].utilization = 0.0
    return Planted({})


# -- hosts -----------------------------------------------------------------------------------------------------------


def exporter_down(host: SimulatedHost, _dice: random.Random) -> Planted:
    """Its container is gone; the workloads go on."""
    host.exporter_answers = False
    return Planted({})


def restarting_exporter(host: SimulatedHost, dice: random.Random) -> Planted:
    """The exporter ends some minutes after each start (its memory is short); Docker starts it again."""
    return _restarting("exporter", dice.uniform(1, 12) * MINUTE, dice.uniform(0, 40))


def restarting_speech(host: SimulatedHost, dice: random.Random) -> Planted:
    """The speech service ends some minutes after each start, and loads its models again."""
    return _restarting("bark", dice.uniform(2, 12) * MINUTE, dice.uniform(15, 60))


def _restarting(job: str, period: float, away: float) -> Planted:
    lives = [0]

    def during(host: SimulatedHost, seconds: float) -> None:
        if seconds // period > lives[0]:
            lives[0] += 1
            host.restart(job)
        starts = seconds >= period and seconds % period < away
        if job == "exporter":
            host.exporter_answers = not starts
        elif host.pool is not None:
            host.pool.running = 0 if starts else len(BARK)

    return Planted({"period": period, "away": away}, during)


def rebooting_host(host: SimulatedHost, dice: random.Random) -> Planted:
    """The host starts anew every some minutes (a power supply, a watchdog); its run is resumed."""
    period, away = dice.uniform(8, 25) * MINUTE, dice.uniform(1.5, 3.5) * MINUTE
    lives = [0]

    def during(host: SimulatedHost, seconds: float) -> None:
        if seconds // period > lives[0]:
            lives[0] += 1
            host.reboot()
            end_run(host, well=False)
            train(host, "steady")
        host.answers = seconds < period or seconds % period >= away

    return Planted({"period": period, "away": away}, during)


def gone_host(host: SimulatedHost, _dice: random.Random) -> Planted:
    """The whole host is gone."""
    host.answers = False
    return Planted({})


def filling_disk(host: SimulatedHost, dice: random.Random) -> Planted:
    """Something writes the disk full."""
    hours = dice.uniform(0.2, 3)

    def during(host: SimulatedHost, seconds: float) -> None:
        host.disk_free = max(0.001, 0.2 * (1 - seconds / (hours * HOUR)))

    return Planted({"hours": hours}, during)


def short_memory(host: SimulatedHost, dice: random.Random) -> Planted:
    """Little memory is left."""
    host.memory_free = dice.uniform(0.005, 0.045)
    return Planted({"free": host.memory_free})


def wrong_clock(host: SimulatedHost, dice: random.Random) -> Planted:
    """The host's clock is off."""
    host.clock_skew = dice.choice([-1, 1]) * dice.uniform(15, 4000)
    return Planted({"seconds": host.clock_skew})


def _kind(plant: Callable[[SimulatedHost, random.Random], Planted], *told_by: str, **more: Any) -> Kind:
    return Kind(plant.__name__.replace("_", " "), frozenset(told_by), plant, **more)


ELSEWHERE = frozenset({"features", "transfer", "input_workers", "unknown", "GpuUtilizationLow"})
"""What a slow disk is not."""

SLOWER = frozenset(cause.name for cause in CAUSES if cause.alert == "TrainingSlowerThanBefore")
"""Every cause of a run that is slower than before."""

IN_PART = frozenset(cause.name for cause in CAUSES if cause.alert == "GpuBusyInPart")
"""Every cause of a busy GPU that does little."""

INPUTS = frozenset(cause.name for cause in CAUSES if cause.alert == "TrainingInputBound")
"""Every cause of a late input."""

KINDS: tuple[Kind, ...] = (
    _kind(slow_disk, "input_storage"),
    _kind(slow_network_share, "input_storage"),
    _kind(disk_slow_in_bursts, "input_storage", not_told_by=ELSEWHERE),
    _kind(disk_slow_once, "input_storage", not_told_by=ELSEWHERE),
    _kind(somewhat_slow_disk, "input_storage"),
    _kind(slow_decoder, "input_decode"),
    _kind(container_of_one_core, "input_one_core"),
    _kind(readers_take_turns, "input_one_core"),
    _kind(object_storage, "input_storage", not_told_by=frozenset({"input_one_core"})),
    _kind(too_few_readers, "input_workers"),
    _kind(somewhat_crowded_cores, "cpu_pressure", not_told_by=frozenset({"input_workers", "input_storage"})),
    _kind(strangers_on_the_cores, "cpu_pressure"),
    _kind(neighbours_on_the_runs_own_cores, "cpu_pressure", not_told_by=frozenset({"input_workers", "input_storage"})),
    _kind(
        quota_that_is_lowered, "cpu_quota", not_told_by=frozenset({"input_workers", "input_storage", "cpu_pressure"})
    ),
    _kind(readers_that_hang, "input_storage", not_told_by=ELSEWHERE),
    _kind(slow_disk_of_an_unseen_host, "unknown", not_told_by=INPUTS),
    _kind(two_networks_and_a_slow_disk, "input_storage", not_told_by=ELSEWHERE),
    _kind(
        slow_disk_on_crowded_cores,
        "input_storage",
        also="cpu_pressure, too",
        not_told_by=INPUTS - {"input_storage"},
    ),
    _kind(
        crowded_cores_and_a_slow_disk, "cpu_pressure", also="input_storage, too", not_told_by=INPUTS - {"cpu_pressure"}
    ),
    _kind(slow_disk_and_slow_features, "input_storage", also="features, too", not_told_by=INPUTS - {"input_storage"}),
    _kind(
        slow_disk_beside_a_busy_neighbour,
        "input_storage",
        not_told_by=INPUTS - {"input_storage"} | {"cpu_pressure, too"},
    ),
    _kind(slow_cores, "cpu_frequency", not_told_by=INPUTS - {"cpu_frequency"}),
    _kind(
        slow_cores_and_a_slow_disk,
        "cpu_frequency",
        also="input_storage, too",
        not_told_by=INPUTS - {"cpu_frequency"},
    ),
    _kind(swapping_host, "memory_pressure"),
    _kind(slow_features, "features", not_told_by=frozenset({"unknown"})),
    _kind(slow_copy, "transfer", not_told_by=frozenset({"unknown"})),
    _kind(waiting_for_nothing_that_is_measured, "unknown"),
    _kind(disk_stops_now_and_then, "input_storage", not_told_by=ELSEWHERE),
    _kind(share_that_hangs, "TrainingStalled", not_told_by=ELSEWHERE | {"input_storage"}),
    _kind(share_that_hangs_for_minutes, "input_storage", not_told_by=ELSEWHERE),
    _kind(share_that_hangs_and_takes_node_exporter_with_it, "input_storage", not_told_by=ELSEWHERE),
    _kind(stalled_run, "TrainingStalled", not_told_by=frozenset({"GpuUtilizationLow"})),
    _kind(dead_run, "WorkloadDown"),
    _kind(nan_loss, "TrainingLossNotFinite"),
    _kind(unseen_nan_loss, "WorkloadDown"),
    _kind(crash_loop, "TrainingCrashLoop", after=HOUR),
    _kind(run_that_fails_again_and_again, "TrainingCrashLoop", after=HOUR),
    _kind(diverging_loss, "TrainingLossDiverging", before=2 * HOUR, after=8 * HOUR, interval=60.0),
    _kind(flat_loss, "TrainingLossFlat", training=False, after=5 * HOUR, interval=60.0),
    _kind(long_checkpoints, "TrainingCheckpointsLong", after=100 * MINUTE, interval=30.0),
    _kind(mostly_validating, "TrainingValidationLong", after=7 * HOUR, interval=60.0),
    _kind(unsteady_steps, "TrainingStepTimeUnstable"),
    _kind(unexplained_idling, "GpuUtilizationLow"),
    _kind(idling_while_scrapes_are_lost, "GpuUtilizationLow", not_told_by=INPUTS),
    _kind(slow_share_in_a_validation, "phase_storage", after=5 * HOUR, interval=30.0),
    _kind(slow_disk_under_a_checkpoint, "phase_storage", after=5 * HOUR, interval=30.0),
    *(
        _kind(plant, told, before=90 * MINUTE, after=after, interval=30.0, not_told_by=SLOWER - {told})
        for plant, told, after in (
            (slow_after_compiling_again_and_again, "slower_traces", 75 * MINUTE),
            (slow_after_a_new_driver, "slower_driver", 75 * MINUTE),
            (slow_after_a_new_release, "slower_code", 75 * MINUTE),
            (slow_memory_clocks, "slower_clocks", 75 * MINUTE),
            (slow_for_no_reason_that_is_measured, "unknown", 150 * MINUTE),
            (half_of_the_nvlinks, "GpuNvlinksDown", 75 * MINUTE),
            (worker_that_speaks_slower, "BarkSlowerThanBefore", 75 * MINUTE),
        )
    ),
    _kind(small_kernels, "small_kernels", not_told_by=IN_PART - {"small_kernels"}),
    _kind(memory_bound_kernels, "memory_bound", not_told_by=IN_PART - {"memory_bound"}),
    _kind(
        waiting_in_collectives,
        "collectives",
        after=2 * HOUR,
        not_told_by=IN_PART - {"collectives"} | SLOWER | {"unknown"},
    ),
    _kind(hot_memory, "GpuMemoryTemperatureHigh"),
    _kind(corrected_errors_all_the_time, "GpuEccCorrectedStorm", after=75 * MINUTE),
    _kind(failed_fabric, "GpuFabricFailed"),
    _kind(mig_switched_on, "GpuMigSwitchedOn"),
    _kind(power_cap_under_an_exporter_that_restarts, "GpuPowerCapped", after=75 * MINUTE),
    _kind(heat_and_a_slow_disk, "GpuThermalSlowdown", also="input_storage"),
    _kind(power_cap_and_crowded_cores, "GpuPowerCapped", also="cpu_pressure"),
    _kind(lost_gpu, "GpuLost"),
    _kind(flapping_gpu, "GpuFlapping"),
    _kind(missing_gpu, "GpuMissing"),
    _kind(critical_xid, "GpuXidCritical"),
    _kind(contained_xid, "GpuXidWarning"),
    _kind(uncorrectable_memory, "GpuEccUncorrectable"),
    _kind(thermal_slowdown, "GpuThermalSlowdown"),
    _kind(heat_in_bursts, "GpuThermalSlowdown"),
    _kind(hot_gpu, "GpuTemperatureHigh"),
    _kind(power_brake, "GpuPowerBrake"),
    _kind(power_cap, "GpuPowerCapped"),
    _kind(locked_clocks, "GpuClocksLow"),
    _kind(locked_clocks_of_a_card_with_little_work, "GpuClocksLow"),
    _kind(disk_slow_and_the_card_idles, "input_storage", not_told_by=frozenset({"GpuClocksLow"})),
    _kind(throttled_data_gpu, "GpuThermalSlowdown", not_told_by=frozenset({"features", "unknown"})),
    _kind(lost_lanes, "PcieLinkDowngraded"),
    _kind(slow_link, "PcieLinkSlow"),
    _kind(stranger_computes, "GpuStranger"),
    _kind(stranger_comes_and_goes, "GpuStranger"),
    _kind(stranger_of_some_minutes, "GpuStranger", after=75 * MINUTE, interval=30.0),
    _kind(stranger_holds_memory, "GpuMemoryNearLimit"),
    _kind(driver_gone, "ExporterCollectFailing"),
    _kind(distant_pair, "TrainingPairLinkSlow", training=False, link="SYS"),
    _kind(dead_workers, "BarkWorkersDown"),
    _kind(
        speech_on_a_crowded_host,
        *("cpu_pressure", "memory_pressure"),
        not_told_by=frozenset({"GpuUtilizationLow"}),
    ),
    _kind(growing_queue, "BarkQueueGrowing", after=90 * MINUTE),
    _kind(failing_chunks, "BarkChunksFailing"),
    _kind(worker_that_dies_again_and_again, "BarkChunksRetried"),
    _kind(worker_that_dies_now_and_then, "BarkChunksRetried", after=75 * MINUTE, interval=30.0),
    _kind(chunks_that_are_each_tried_again, "BarkChunksRetried"),
    _kind(gpu_that_somebody_took, "BarkWorkerWaits"),
    _kind(slow_database, "StoreSlow", not_told_by=frozenset({"GpuUtilizationLow"})),
    _kind(slow_speech, "BarkSlowerThanRealTime"),
    _kind(speech_that_is_silence_or_noise, "BarkSpeechFaulty"),
    _kind(late_first_sound, "FirstSoundBudgetBurns"),
    _kind(outrun_streams, "StreamsBudgetBurns"),
    _kind(failing_documents, "DocumentsBudgetBurns"),
    _kind(dead_service, "WorkloadDown"),
    _kind(exporter_down, "ExporterDown"),
    _kind(restarting_exporter, "ServiceRestarting"),
    _kind(restarting_speech, "ServiceRestarting"),
    _kind(rebooting_host, "HostRebooting", after=100 * MINUTE, not_told_by=frozenset({"ServiceRestarting"})),
    _kind(gone_host, "host_gone"),
    _kind(filling_disk, "HostDiskFilling"),
    _kind(short_memory, "HostMemoryLow"),
    _kind(wrong_clock, "ClockSkew"),
)
"""Every kind, with what is to tell it."""
