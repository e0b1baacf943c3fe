"""Healthy weeks of a simulated host, as generators: what is normal, however it looks. Nobody is to be paged for it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from planted_faults import BARK, DATA, HOUR, MINUTE, MODEL, alerts_of, end_run, new_host, record, speak, train
from rule_replay import Fired, Recording, replay
from simulated_host import SimulatedHost

DAY = 24 * HOUR
INTERVAL = 60.0

Moment = Callable[[SimulatedHost, float], None]
"""Sets the host as it is so many seconds after midnight of the first day; called before every scrape."""


@dataclass(frozen=True)
class Week:
    """A kind of healthy week; `begin` draws what this one is like."""

    name: str
    begin: Callable[[SimulatedHost, random.Random], Moment]


def live(weeks: Sequence[Week], directory: Path, *, days: float, seed: int) -> list[list[Fired]]:
    """Alerts that fire in so many days of each, on a host of its own under the same rules."""
    hosts = [new_host(directory, place, seed=seed) for place, _ in enumerate(weeks, 1)]
    moments = [week.begin(host, random.Random(f"{week.name} {seed}")) for week, host in zip(weeks, hosts, strict=True)]
    recording = Recording(INTERVAL)
    record(recording, days * DAY, list(zip(hosts, moments, strict=True)))
    fired = replay(recording, directory)
    return [alerts_of(host, fired) for host in hosts]


def _trains(host: SimulatedHost, name: str, *, wanted: bool) -> None:
    """A run is there, or has ended well a while ago."""
    if wanted and host.run is None:
        train(host, name)
    elif not wanted and host.run is not None:
        if host.run.ending:
            end_run(host, well=True)
        else:
            host.run.metrics.finish()
            host.run.ending = True


def mixed(host: SimulatedHost, dice: random.Random) -> Moment:
    """A long run, speech by day, checkpoints each hour."""
    train(host, "long")

    def moment(host: SimulatedHost, seconds: float) -> None:
        saving = seconds % HOUR < MINUTE
        host.gpus[MODEL].utilization = 0.1 if saving else dice.uniform(0.8, 0.97)
        day = 8 <= seconds % DAY / HOUR < 20
        speak(host, dice.randint(5, 400) if day and seconds % (2 * HOUR) < 5400 else 0)

    return moment


def bursty_speech(host: SimulatedHost, dice: random.Random) -> Moment:
    """Books come in heaps that drain: no training."""
    heap = [0.0]

    def moment(host: SimulatedHost, _seconds: float) -> None:
        if dice.random() < INTERVAL / (3 * HOUR):
            heap[0] += dice.randint(100, 1500)
        speak(host, round(heap[0]))
        heap[0] = max(0.0, heap[0] - INTERVAL * dice.uniform(0.8, 1.2))

    return moment


def requests_in_bursts(host: SimulatedHost, dice: random.Random) -> Moment:
    """Requests for a part of every few minutes; the cards idle, and their clocks fall, in between."""
    busy, period = dice.uniform(0.3, 0.6), dice.uniform(6, 12) * MINUTE

    def moment(host: SimulatedHost, seconds: float) -> None:
        speak(host, 60 if seconds % period < busy * period else 0)

    return moment


def validations_without_the_card(host: SimulatedHost, dice: random.Random) -> Moment:
    """Validations of some minutes on the processors, up to two fifths of the time: the card idles."""
    train(host, "validated")
    share, period = dice.uniform(0.2, 0.4), dice.uniform(15, 40) * MINUTE

    def moment(host: SimulatedHost, seconds: float) -> None:
        assert host.run is not None
        validates = seconds % period < share * period
        host.run.interrupt("validate" if validates else None)
        host.gpus[MODEL].utilization = 0.02 if validates else 0.92
        speak(host, 0)

    return moment


def nightly_trainings(host: SimulatedHost, dice: random.Random) -> Moment:
    """A run from the evening to the morning, of another name each night; its first minutes fill caches."""
    lengths = [dice.uniform(6, 10) for _ in range(40)]

    def moment(host: SimulatedHost, seconds: float) -> None:
        night, hour = divmod((seconds - 20 * HOUR) / HOUR, 24)
        wanted = hour < lengths[int(night) % 40]
        _trains(host, f"night-{int(night)}", wanted=wanted)
        if host.run is not None and wanted:
            filling = hour < 0.12
            host.run.wait_seconds, host.run.step_seconds = (0.9, 1.4) if filling else (0.01, 0.5)
            host.gpus[MODEL].utilization = 0.3 if filling else 0.93
        speak(host, 0)

    return moment


def long_validations(host: SimulatedHost, dice: random.Random) -> Moment:
    """A validation of up to 25 minutes every two hours."""
    train(host, "validated")
    length = dice.uniform(10, 25) * MINUTE

    def moment(host: SimulatedHost, seconds: float) -> None:
        assert host.run is not None
        validates = seconds % (2 * HOUR) > 2 * HOUR - length
        host.run.interrupt("validate" if validates else None)
        host.gpus[MODEL].utilization = dice.uniform(0.2, 0.5) if validates else 0.92
        speak(host, 0)

    return moment


def slow_checkpoints(host: SimulatedHost, dice: random.Random) -> Moment:
    """Checkpoints of some minutes, up to a seventh of the time."""
    train(host, "saved")
    length, period = dice.uniform(2, 8) * MINUTE, dice.uniform(60, 120) * MINUTE

    def moment(host: SimulatedHost, seconds: float) -> None:
        assert host.run is not None
        saves = seconds % period > period - length
        host.run.interrupt("checkpoint" if saves else None)
        host.gpus[MODEL].utilization = 0.02 if saves else 0.93
        host.pressure["io"] = 0.7 if saves else 0.05
        speak(host, 0)

    return moment


def small_models(host: SimulatedHost, dice: random.Random) -> Moment:
    """A model that never fills its card, and never waits."""
    train(host, "small")
    use = dice.uniform(0.2, 0.6)

    def moment(host: SimulatedHost, _seconds: float) -> None:
        host.gpus[MODEL].utilization = use * dice.uniform(0.9, 1.1)
        speak(host, 0)

    return moment


def small_models_that_wait_a_little(host: SimulatedHost, dice: random.Random) -> Moment:
    """A model that would not fill its card without its few waits either."""
    train(host, "small")
    use, wait = dice.uniform(0.2, 0.6), dice.uniform(0.04, 0.12)
    assert host.run is not None
    host.run.wait_seconds = host.run.step_seconds * wait

    def moment(host: SimulatedHost, _seconds: float) -> None:
        host.gpus[MODEL].utilization = use * dice.uniform(0.9, 1.1)
        speak(host, 0)

    return moment


def short_looks(host: SimulatedHost, dice: random.Random) -> Moment:
    """Colleagues look at a card of a run for a minute or two; the afternoon's heat slows it down for moments."""
    train(host, "looked at")
    share, period = dice.uniform(0.05, 0.2), dice.uniform(10, 20) * MINUTE

    def moment(host: SimulatedHost, seconds: float) -> None:
        short = seconds % period < share * period
        card = host.gpus[MODEL]
        card.processes = 2 if short else None
        card.clock_events = {"sw_thermal_slowdown"} if short and 13 <= seconds % DAY / HOUR < 17 else set()
        card.sm_clock = 1.4e9 if card.clock_events else 1.755e9
        speak(host, 0)

    return moment


def other_batches(host: SimulatedHost, dice: random.Random) -> Moment:
    """A run that is resumed each day with another batch size, and whose mix of lengths changes by the hour."""
    sizes = [dice.choice([8, 16, 32, 48]) for _ in range(8)]
    lengths = {"200": 0.6, "512": 1.0, "900": 1.7}

    def moment(host: SimulatedHost, seconds: float) -> None:
        day, hour = divmod(seconds / HOUR, 24)
        _trains(host, "resumed", wanted=hour < 23)
        if host.run is not None:
            rows = sizes[int(day) % 8]
            host.run.step_seconds = 0.05 * rows
            host.run.wait_seconds = 0.02 * host.run.step_seconds
            often = [0.05 + abs((int(hour) + turn) % 3 - 1) for turn in range(3)]
            host.run.shapes = {
                f"{rows}x{frames}": (share, longer)
                for share, (frames, longer) in zip(often, lengths.items(), strict=True)
            }
        speak(host, 0)

    return moment


def length_buckets(host: SimulatedHost, dice: random.Random) -> Moment:
    """Clips of one to thirty seconds: steps differ by what is in them."""
    train(host, "buckets")

    def moment(host: SimulatedHost, _seconds: float) -> None:
        assert host.run is not None
        host.run.lengths, host.run.variation = dice.uniform(0.4, 0.8), dice.uniform(0.05, 0.2)
        host.gpus[MODEL].utilization = dice.uniform(0.75, 0.97)
        speak(host, 0)

    return moment


def maintenance(host: SimulatedHost, dice: random.Random) -> Moment:
    """Exporters are updated, services restarted, a run is stopped and resumed, by day."""
    train(host, "kept")
    hours = sorted(dice.uniform(8, 18) for _ in range(3))
    began = [-1.0, -1.0]  # the day of the latest

    def moment(host: SimulatedHost, seconds: float) -> None:
        hour = seconds % DAY / HOUR
        if updating := hours[0] <= hour < hours[0] + 0.04:
            host.restart("exporter")
        host.exporter_answers = not updating
        assert host.pool is not None
        rollouts = (hours[1], hours[1] + 0.04)  # a rollout that is put back starts the service twice
        for part, at in enumerate(rollouts):
            if at <= hour < at + INTERVAL / HOUR and began[part] != seconds // DAY:
                began[part] = seconds // DAY
                host.restart("bark")
        host.pool.running = 0 if hours[1] <= hour < hours[1] + 0.05 else len(BARK)
        _trains(host, "kept", wanted=not hours[2] <= hour < hours[2] + 0.25)
        speak(host, 60 if 8 <= hour < 18 and host.pool.running else 0)

    return moment


def reboots(host: SimulatedHost, dice: random.Random) -> Moment:
    """The idle host restarts within three minutes, once a day; its speech service comes back, its driver later."""
    hour = dice.uniform(1, 23)

    def moment(host: SimulatedHost, seconds: float) -> None:
        since = seconds % DAY - hour * HOUR
        host.answers = not 0 <= since < 3 * MINUTE
        host.driver_gone_since = host.now if 0 <= since < 7 * MINUTE else None
        if not host.answers:
            host.reboot()
        speak(host, 0)

    return moment


def missed_scrapes(host: SimulatedHost, dice: random.Random) -> Moment:
    """A network that loses a scrape now and then, beside work."""
    train(host, "steady")

    def moment(host: SimulatedHost, _seconds: float) -> None:
        host.answers = dice.random() > 0.03
        host.gpus[MODEL].utilization = 0.93
        speak(host, 150)

    return moment


def experiments(host: SimulatedHost, dice: random.Random) -> Moment:
    """Short runs by hand, one after the other, that end well; the host swaps and reads while nobody waits for it."""
    ends = [0.0]
    count = [0]

    def moment(host: SimulatedHost, seconds: float) -> None:
        day = 9 <= seconds % DAY / HOUR < 18
        if day and seconds > ends[0]:
            count[0] += 1
            ends[0] = seconds + dice.uniform(25, 70) * MINUTE
        _trains(host, f"try-{count[0]}", wanted=day and seconds < ends[0] - 6 * MINUTE)
        if host.run is not None and not host.run.ending:
            host.gpus[MODEL].utilization, host.gpus[DATA].utilization = dice.uniform(0.8, 0.95), 0.2
        host.pressure.update(cpu=dice.uniform(0, 0.7), io=dice.uniform(0, 0.7))
        speak(host, 0)

    return moment


def queue_of_short_runs(host: SimulatedHost, dice: random.Random) -> Moment:
    """Trials of some minutes under one name, by day: each ends in order, and the next begins."""
    length = dice.uniform(5, 18) * MINUTE

    def moment(host: SimulatedHost, seconds: float) -> None:
        day = 9 <= seconds % DAY / HOUR < 18
        _trains(host, "trial", wanted=day and seconds % length > 2 * INTERVAL)
        if host.run is not None and not host.run.ending:
            host.gpus[MODEL].utilization, host.gpus[DATA].utilization = dice.uniform(0.8, 0.95), 0.2
        speak(host, 0)

    return moment


def runs_that_learn_at_once(host: SimulatedHost, dice: random.Random) -> Moment:
    """A new run each morning whose loss falls within minutes, and then rests for hours."""
    half = dice.uniform(2, 10) * MINUTE

    def moment(host: SimulatedHost, seconds: float) -> None:
        age = seconds % DAY - 8 * HOUR
        _trains(host, "quick", wanted=0 <= age < 12 * HOUR)
        if host.run is not None:
            host.run.epoch = 0
            host.run.loss = 1.0 + 4 * 0.5 ** (max(age, 0) / half)
        speak(host, 0)

    return moment


def fine_tuning(host: SimulatedHost, dice: random.Random) -> Moment:
    """A run each day on the weights of another: its loss is low from the first step on, and hardly moves."""
    loss = dice.uniform(0.2, 2)

    def moment(host: SimulatedHost, seconds: float) -> None:
        _trains(host, "tuned", wanted=8 <= seconds % DAY / HOUR < 18)
        if host.run is not None:
            host.run.epoch, host.run.pretrained, host.run.loss = 0, True, loss
        speak(host, 0)

    return moment


def power_held(host: SimulatedHost, dice: random.Random) -> Moment:
    """Full load at the default power limit: the clocks are what power allows, and warm is not hot."""
    train(host, "hot")

    def moment(host: SimulatedHost, _seconds: float) -> None:
        for index in (MODEL, *BARK):
            card = host.gpus[index]
            card.clock_events, card.sm_clock = {"sw_power_cap"}, dice.uniform(1.1e9, 1.5e9)
            card.temperature = dice.uniform(74, 84)
        speak(host, 300)
        host.gpus[MODEL].utilization = 0.99

    return moment


def two_networks_on_a_split(host: SimulatedHost, dice: random.Random) -> Moment:
    """The data GPU trains the vocoder's discriminators, for which the model's GPU waits: the run's own work."""
    train(host, "voice")
    stall, second = dice.uniform(0.45, 0.58), dice.uniform(0.85, 1.0)
    features = dice.uniform(0.05, 0.4)
    assert host.run is not None
    host.run.step_seconds = 0.3 / (1 - stall)
    host.run.wait_seconds = stall * host.run.step_seconds
    host.run.reads.second_network, host.run.reads.features = second, features * host.run.step_seconds

    def moment(host: SimulatedHost, _seconds: float) -> None:
        host.gpus[DATA].utilization = dice.uniform(0.85, 0.97)
        host.gpus[MODEL].utilization = (1 - stall) * dice.uniform(0.9, 1.0)
        speak(host, 0)

    return moment


def restarts_with_work_in_the_queue(host: SimulatedHost, dice: random.Random) -> Moment:
    """The speech service is restarted once a day, with chunks in its queue; its workers load their models in turn."""
    hour, load, waiting = dice.uniform(1, 23) * HOUR, dice.uniform(120, 600), dice.randint(20, 200)
    apart = dice.uniform(1, 240)

    def moment(host: SimulatedHost, seconds: float) -> None:
        assert host.pool is not None
        since = seconds % DAY - hour
        if 0 <= since < INTERVAL:
            host.restart("bark")
        speak(host, waiting if -HOUR < since < HOUR else 0)
        host.pool.running = (
            min(len(BARK), 1 + int((since - load) // apart)) if since >= load else 0 if since >= 0 else len(BARK)
        )
        for index in BARK[host.pool.running :]:
            host.gpus[index].utilization = 0.0

    return moment


def one_late_listener(host: SimulatedHost, dice: random.Random) -> Moment:
    """A few listeners in a quarter of an hour, of whom one now and then waits: a first use, a cold cache."""
    period = dice.randint(6, 9)
    count = [0]

    def moment(host: SimulatedHost, seconds: float) -> None:
        assert host.pool is not None
        listens = seconds % (2 * MINUTE) < INTERVAL
        count[0] += listens
        late = listens and count[0] % (8 * period) == 1
        host.pool.first_sound_seconds = dice.uniform(12, 60) if late else dice.uniform(1, 4)
        speak(host, 1 if listens else 0)

    return moment


def slots_of_eight_lanes(host: SimulatedHost, dice: random.Random) -> Moment:
    """Cards in slots with fewer lanes than they have, of which the driver tells their own number."""
    train(host, "narrow")
    for card in host.gpus:
        card.pcie_width = dice.choice([4, 8])

    def moment(host: SimulatedHost, _seconds: float) -> None:
        host.gpus[MODEL].utilization = dice.uniform(0.8, 0.97)
        speak(host, 100)

    return moment


def a_sites_power_limit(host: SimulatedHost, dice: random.Random) -> Moment:
    """All cards have a limit under their default, and always had: the site's power is what it is."""
    train(host, "held")
    limit = dice.uniform(350, 600)
    for card in host.gpus:
        card.power_limit = limit

    def moment(host: SimulatedHost, _seconds: float) -> None:
        for index in (MODEL, *BARK):
            host.gpus[index].clock_events, host.gpus[index].sm_clock = {"sw_power_cap"}, dice.uniform(1.0e9, 1.4e9)
        host.gpus[MODEL].utilization = 0.98
        speak(host, 200)

    return moment


WEEKS: tuple[Week, ...] = tuple(
    Week(begin.__name__.replace("_", " "), begin)
    for begin in (
        mixed, bursty_speech, requests_in_bursts, nightly_trainings, long_validations, validations_without_the_card,
        slow_checkpoints, small_models, length_buckets, maintenance, reboots, missed_scrapes, experiments, power_held,
        other_batches,
        small_models_that_wait_a_little, short_looks, queue_of_short_runs, runs_that_learn_at_once, fine_tuning,
        two_networks_on_a_split, restarts_with_work_in_the_queue, one_late_listener, slots_of_eight_lanes,
        a_sites_power_limit,
    )
)  # fmt: skip
"""Every kind."""
