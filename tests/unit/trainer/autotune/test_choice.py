"""Candidates of `--strategy auto` on a host, found from its description alone, and the cache of timed ones."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cards import card
from tones import Corpus, as_shards

from voxyard.host.plan import Links
from voxyard.host.topology import parse
from voxyard.trainer.autotune import cache, candidates, timing, trial_process, tuner
from voxyard.trainer.autotune.cache import KeptTrials
from voxyard.trainer.autotune.candidates import (
    LOOK_AHEAD,
    Candidate,
    Candidates,
    find_candidates,
    from_features,
    has_discriminators,
    table,
    trial,
    way_of_config,
)
from voxyard.trainer.autotune.trials import Timed, Trials
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.corpora import feature_settings
from voxyard.trainer.devices.device_ids import HostDevices
from voxyard.trainer.devices.placement import Kind, choose
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.reporting.bounds import FEATURES, ON_DATA, ON_MODEL, StepStages

LINKS = Links(parse("\tGPU0\tGPU1\tGPU2\nGPU0\tX\tSYS\tPIX\nGPU1\tSYS\tX\tSYS\nGPU2\tPIX\tSYS\tX\n"))


def host_of(count: int) -> HostDevices:
    cards = tuple(card(index) for index in range(count))
    return HostDevices(gpus=cards, cuda_bus_ids=tuple(gpu.pci_bus_id for gpu in cards), cuda_build=True, cores=8)


def config(*, data: dict[str, Any] | None = None, model: dict[str, Any] | None = None, **training: Any) -> TrainConfig:
    given = {"data": data or {}, "model": model or {}, "training": {"strategy": "auto"} | training}
    return TrainConfig.model_validate(given)


def found(host: HostDevices, kind: Kind = "gpu", *, has_features: bool = False, **more: Any) -> Candidates:
    return find_candidates(
        config(**more), host, kind, LINKS if len(host.gpus) == 3 else Links(), has_features=has_features
    )


def names(result: Candidates) -> list[str]:
    return [each.name for each in result.runnable]


def test_on_several_gpus_everything_is_timed_and_the_split_takes_the_best_pair() -> None:
    result = found(host_of(3))
    assert names(result) == ["single", FEATURES, "split", "mirrored"]
    split = result.runnable[2].config
    assert (split.data.data_gpu, split.data.model_gpu, split.training.strategy) == (0, 2, "split")
    assert result.left_out == {}


def test_every_contestant_is_a_run_that_the_host_can_place() -> None:
    host = host_of(3)
    for each in found(host, data_gpu_memory=4096, model_gpu_memory=8192, enable_memory_isolation=True).runnable:
        assert choose(each.config, host).strategy == each.config.training.strategy


def test_the_pair_that_was_given_is_the_splits() -> None:
    result = found(host_of(3), data={"data_gpu": 1, "model_gpu": 0})
    by_name = {each.name: each.config for each in result.runnable}
    assert (by_name["split"].data.data_gpu, by_name["split"].data.model_gpu) == (1, 0)
    assert (by_name["single"].data.data_gpu, by_name["single"].data.model_gpu) == (None, 0)
    assert by_name["mirrored"].data.model_gpu is None


TWO_NETWORKS = {"networks": "acoustic,vocoder"}


def test_of_two_networks_both_placements_of_the_vocoder_are_timed() -> None:
    result = found(host_of(3), model=TWO_NETWORKS)
    assert names(result) == ["single", ON_DATA, ON_MODEL, "mirrored"]
    placed = {each.name: (each.config.training.strategy, each.config.training.vocoder_on) for each in result.runnable}
    assert placed == {
        "single": ("single", None), ON_DATA: ("split", "data"), ON_MODEL: ("split", "model"),
        "mirrored": ("mirrored", None),
    }  # fmt: skip
    assert "a vocoder learns from samples" in result.left_out[FEATURES]
    for each in result.runnable:
        assert choose(each.config, host_of(3)).strategy == each.config.training.strategy
        assert way_of_config(each.config) == each.name


def test_a_placement_that_was_given_is_the_only_split() -> None:
    result = found(host_of(2), model=TWO_NETWORKS, vocoder_on="model")
    assert names(result) == ["single", ON_MODEL, "mirrored"]
    assert result.left_out[ON_DATA] == "--vocoder-on model was given"
    assert result.runnable[0].config.training.vocoder_on is None


def test_two_networks_on_one_device_are_trained_in_turn() -> None:
    result = found(host_of(1), model=TWO_NETWORKS)
    assert names(result) == ["single"]
    assert {name for name, why in result.left_out.items() if "two are needed" in why} == {ON_DATA, ON_MODEL, "mirrored"}


def test_a_placement_without_a_vocoder_is_refused_before_anything_is_timed() -> None:
    with pytest.raises(TrainerError, match="this run trains no vocoder"):
        tuner.choose_strategy(config(vocoder_on="data"))
    hosts: dict[str, Any] = {"hosts": "10.0.0.1:1,10.0.0.2:1", "host_index": 0, "batch_size": 8}
    with pytest.raises(TrainerError, match="has no effect over hosts"):
        tuner.choose_strategy(config(model=TWO_NETWORKS, vocoder_on="data", **hosts))


@pytest.mark.parametrize(
    ("training", "most"),
    [
        ({}, True),  # 100 epochs of 100 steps
        ({"epochs": 50}, False),
        ({"max_steps": 6000}, False),
        ({"max_steps": 6001}, True),
        ({"max_steps": 100_000, "epochs": 50}, False),
        ({"max_steps": 100, "discriminators_after": 0}, True),
        ({"max_steps": 10, "grad_accum": 4, "discriminators_after": 4}, True),
    ],
)
def test_trials_have_discriminators_where_most_of_the_run_has_them(training: dict[str, Any], most: bool) -> None:
    """A step with them takes about thirteen times as long as one without."""
    run = config(model=TWO_NETWORKS, **training)
    assert has_discriminators(run, clips=800, rows=8) is most
    timed = trial(run, "/tmp/trial", 30, discriminators=most).training
    assert timed.discriminators_after == (0 if most else 30)
    assert timed.max_steps == 30


def test_one_gpu_has_one_device_only() -> None:
    result = found(host_of(1))
    assert names(result) == ["single", FEATURES]
    assert result.left_out == {"split": "1 GPU, two are needed", "mirrored": "1 GPU, two are needed"}


def test_the_parts_of_one_gpu_are_timed_as_devices() -> None:
    result = found(host_of(1), gpu_parts=2)
    assert names(result) == ["single", FEATURES, "split", "mirrored"]
    assert result.devices == 2
    split = result.runnable[2].config
    assert (split.data.data_gpu, split.data.model_gpu, split.training.gpu_parts) == (0, 1, 2)
    assert [(one.role, one.part) for one in choose(split, host_of(1)).assigned] == [("data", 0), ("model", 1)]
    assert cache.key(config(gpu_parts=2), host_of(1), "gpu", has_features=False) != cache.key(
        config(), host_of(1), "gpu", has_features=False
    )


def test_cpu_devices_are_timed_alike() -> None:
    result = found(host_of(0), "cpu", device="cpu", cpu_devices=2)
    assert names(result) == ["single", FEATURES, "split", "mirrored"]
    assert names(found(host_of(0), "cpu", device="cpu", cpu_devices=1)) == ["single", FEATURES]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"has_features": True}, "has its features already"),
        ({"model": {"module": "toy:make"}}, "--model-module"),
        ({"data": {"gain_augment_db": 3.0}}, "changes the sound in every step"),
    ],
)
def test_features_that_cannot_be_precomputed_are_left_out_with_the_reason(more: dict[str, Any], why: str) -> None:
    result = found(host_of(1), **more)
    assert FEATURES not in names(result)
    assert why in result.left_out[FEATURES]


def test_a_trial_is_short_leaves_nothing_and_hides_no_slow_reader() -> None:
    short = trial(config(epochs=5, max_minutes=3.0), "/tmp/trial", 30)
    training, data = short.training, short.data
    assert (training.max_steps, training.epochs, training.max_minutes) == (30, None, None)
    assert (training.resume, training.checkpoint_dir) == (False, Path("/tmp/trial"))
    assert training.checkpoint_every > 30
    assert (data.pipeline_buffer_size, data.model_start_delay) == (LOOK_AHEAD, 0.0)
    assert (short.telemetry.metrics_port, short.telemetry.tensorboard) == (0, False)


def test_features_replace_the_corpus_and_its_cache() -> None:
    data = from_features(config(data={"train_data": "/corpus", "cache_dataset": True}), "/features").data
    assert (data.train_data, data.cache_dataset) == (Path("/features"), False)


def test_the_table_has_the_fastest_first_and_reports_why_one_is_missing() -> None:
    lines = list(table([("single", 10.0, "waits 3%"), ("mirrored", None, "failed: no room"), ("split", 20.0, "")]))
    assert [line.split()[0] for line in lines] == ["split", "single", "mirrored"]
    assert "100%" in lines[0]
    assert "50%" in lines[1]
    assert lines[2].endswith("failed: no room")


# -- cache -----------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _cache_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def timed(*of_disk: str, devices: int = 2, kind: Kind = "gpu", **rates: list[float]) -> Trials:
    """Trials of these rates; of the ways in `of_disk` from there, where one is given."""
    made = Trials(tuple(rates), devices, kind)
    for name, each in rates.items():
        for rate in each:
            made.add(name, Timed(rate, "", of_disk=not of_disk or name in of_disk))
    return made


def test_an_entry_is_cached_beside_others() -> None:
    one, other = timed(split=[2.0, 3.0]), timed(single=[1.0])
    one.add("split", Timed(2.5, "", of_disk=True, stages=StepStages(0.1, 0.2)))
    one.fail("mirrored", "no room")
    cache.save("a", 30, one, decided=True)
    cache.save("b", 30, other, decided=True)
    for name, saved in (("a", one), ("b", other)):
        kept = cache.load(name, 10)
        assert kept is not None
        assert (kept.timed, kept.failed) == (saved.timed, saved.failed)
    assert cache.load("c", 30) is None


@pytest.mark.parametrize("content", ["", "[]", '{"a": 3}', '{"a": {"timed": {}}}', "\x00"])
def test_a_file_that_is_damaged_is_reported_and_timed_anew(content: str, caplog: pytest.LogCaptureFixture) -> None:
    cache.path().parent.mkdir(parents=True)
    cache.path().write_text(content)
    with caplog.at_level(logging.WARNING):
        assert cache.load("a", 30) is None
    assert "timed again" in caplog.text
    cache.save("a", 30, timed(split=[1.0]), decided=True)
    assert cache.load("a", 30) is not None


def test_a_cache_that_cannot_be_written_is_reported_and_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with caplog.at_level(logging.WARNING):
        cache.save("a", 30, timed(split=[1.0]), decided=True)
    assert "are not cached" in caplog.text


def test_host_model_and_numbers_make_the_key_and_the_run_does_not() -> None:
    def named(
        host: HostDevices, kind: Kind = "gpu", *, has_features: bool = False, discriminators: bool = True, **more: Any
    ) -> str:
        return cache.key(config(**more), host, kind, has_features=has_features, discriminators=discriminators)

    base = named(host_of(2))
    assert base == named(host_of(2), checkpoint_dir="/elsewhere", epochs=3, learning_rate=0.1)
    others = [
        named(host_of(3)),
        named(host_of(2), batch_size=4),
        named(host_of(2), model={"size": "big"}),
        named(host_of(2), has_features=True),
        named(host_of(2), "cpu"),
        named(host_of(2), model=TWO_NETWORKS),
        named(host_of(2), model=TWO_NETWORKS, vocoder_on="data"),
        named(host_of(2), model=TWO_NETWORKS, discriminators=False),
    ]
    assert len({base, *others}) == 9


def test_the_age_of_an_entry_is_given_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voxyard.trainer.autotune.cache.time.time", lambda: 10 * 86400.0)
    assert KeptTrials({}, {}, 9.5 * 86400, decided=True).age() == "12 hours ago"
    assert KeptTrials({}, {}, 10 * 86400 - 3600, decided=True).age() == "60 minutes ago"
    assert KeptTrials({}, {}, 10 * 86400 - 60, decided=False).age() == "1 minute ago"
    assert KeptTrials({}, {}, 86400.0, decided=True).age() == "9 days ago"


@pytest.mark.parametrize(
    ("of_disk", "compared"),
    [
        (("single", "split"), ("single", "split")),
        (("single", "split", "precomputed"), ("single", "split", "precomputed")),
        (("nothing",), ("single", "split", "precomputed")),
    ],
)
def test_a_candidate_that_read_from_memory_is_not_compared_with_one_that_read_from_the_disk(
    of_disk: tuple[str, ...], compared: tuple[str, ...]
) -> None:
    """Features that were just written, to a place in memory."""
    trials = timed(*of_disk, single=[1.0], split=[2.0], precomputed=[9.0])
    assert trials.compared() == compared
    assert trials.close() == (compared[-1],)


def test_the_fastest_is_clear_where_its_slowest_trial_beats_all_others() -> None:
    assert timed(single=[9.0, 9.5, 9.9], split=[10.0, 11.0, 30.0]).close() == ("split",)
    assert timed(single=[9.0, 10.1, 9.5], split=[10.0, 11.0, 12.0]).close() == ("split", "single")


class NoFeatures:
    """A corpus of 800 clips."""

    feature_names = ()

    def __len__(self) -> int:
        return 800


class Host:
    """A host on which each strategy has these rates, trial by trial."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **rates: list[float]) -> None:
        self.rates, self.timed = rates, list[str]()
        monkeypatch.setattr(timing, "time_one", self._time)
        monkeypatch.setattr(tuner, "open_corpora", lambda _: SimpleNamespace(training=NoFeatures()))
        monkeypatch.setattr(tuner, "inspect_host", lambda _: host_of(0))
        runnable = tuple(candidates.Candidate(name, config(checkpoint_dir=name)) for name in rates)
        monkeypatch.setattr(tuner, "find_candidates", lambda *_, **__: Candidates(runnable, {}))

    def _time(self, each: candidates.Candidate, *, count: int, **_: Any) -> Timed:
        self.timed.append(each.name)
        return Timed(self.rates[each.name][count - 1], "", of_disk=True, seconds=60)

    def chosen(self, tmp_path: Path) -> str:
        run = config(device="cpu", checkpoint_dir=str(tmp_path / "run"))
        return tuner.choose_strategy(run).training.checkpoint_dir.name


def test_trials_are_interleaved_and_one_lucky_trial_does_not_decide(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first trials alone would say single."""
    host = Host(monkeypatch, single=[30.0, 10.0, 10.0, 10.0, 10.0], split=[20.0] * 5)
    assert host.chosen(tmp_path) == "split"
    assert host.timed == ["split", "single"] * 5


def test_a_clear_result_is_remembered_after_three_trials_of_the_fastest(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    host = Host(monkeypatch, single=[10.0, 11.0, 9.0], split=[20.0, 19.0, 21.0])
    assert [host.chosen(tmp_path), host.chosen(tmp_path)] == ["split", "split"]
    assert host.timed == ["split", "single"] * 2 + ["split"]


def test_a_close_result_is_timed_again_without_the_slow_ones_and_not_remembered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    close = {"single": [20.0, 19.0, 21.0, 20.0, 20.0], "split": [20.0, 22.0, 20.0, 21.0, 22.0], "mirrored": [5.0] * 3}
    host = Host(monkeypatch, **close)
    with caplog.at_level(logging.INFO):
        assert host.chosen(tmp_path) == "split"
    assert host.timed == ["split", "single", "mirrored"] * 2 + ["split", "single"] * 3
    assert "split is hardly faster than single: not remembered" in caplog.text
    assert json.loads(cache.path().read_text()) == {}, "nor its trials"


class Reports:
    """Processes that time candidates of two networks: D 10 ms, M 200 ms, V 180 ms with discriminators, else 15 ms."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[TrainConfig] = []
        self.steps_timed: dict[str, int] = {}  # by way; 26 of the others
        monkeypatch.setattr(trial_process, "ask", self._report)
        monkeypatch.setattr(tuner, "open_corpora", lambda _: SimpleNamespace(training=NoFeatures()))
        monkeypatch.setattr(tuner, "inspect_host", lambda _: host_of(0))

    def _report(self, request: dict[str, Any], seconds: float | None = None) -> dict[str, Any]:
        run = TrainConfig.model_validate(request["config"])
        self.asked.append(run)
        v = 0.18 if run.training.discriminators_after == 0 else 0.015
        d, m, noise = 0.01, 0.2, 1 + 0.01 * (len(self.asked) % 3)
        way = way_of_config(run)
        step, train, beside, on = {
            "single": (d + m + v, m + v, None, None),
            "mirrored": (1.1 * (d + m + v) / 2, 1.1 * (d + m + v), None, None),
            ON_DATA: (max(d + v, m) * 1.05, m, v, "data"),
            ON_MODEL: (max(d, m + v) * 1.01, m + v, v, "model"),
        }[way]
        return {
            "steps_per_second": noise / step, "batch_rows": 1, "data_wait_share": 0.0,
            "steps_timed": self.steps_timed.get(way, 26), "reads": {"of_disk": True, "said": ""},
            "data_stage_seconds": None if way == "mirrored" else d,
            "train_stage_seconds": train, "beside_stage_seconds": beside, "beside_on": on,
            "beside_names": ["vocoder"] if on else [], "two_networks": True,
        }  # fmt: skip

    def chosen(self, tmp_path: Path, **training: Any) -> tuner.ChosenStrategy:
        self.asked.clear()
        run = config(device="cpu", model=TWO_NETWORKS, checkpoint_dir=str(tmp_path / "run"), **training)
        return tuner.timed_strategy(run)


def test_the_placement_is_chosen_told_with_its_bound_and_remembered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """By measured rates; the bounds follow from the measured stages."""
    reports = Reports(monkeypatch)
    with caplog.at_level(logging.INFO):
        first = reports.chosen(tmp_path)
    ways = [way_of_config(run) for run in reports.asked]
    assert ways == [ON_DATA, "single", "mirrored"] * 2 + [ON_DATA] * 1
    assert {run.training.discriminators_after for run in reports.asked} == {0}
    assert (first.config.training.strategy, first.config.training.vocoder_on) == ("split", "data")
    assert (first.config.data.data_gpu, first.config.data.model_gpu) == (0, 1)
    said = [
        "the vocoder is timed with its discriminators",
        "a step takes D 10 ms, M 200 ms, V 180 ms; most that can be gained over one device, and what was:",
        "split, vocoder on data   bound 1.95×, reached 1.8",
        "split, vocoder on model  bound 1.03×, not timed: it could not win",
        "mirrored                 bound 2.00×, reached 1.7",
    ]
    for words in said:
        assert words in caplog.text
    assert first.trials[ON_DATA]["bound"] == pytest.approx(0.39 / 0.2)
    assert first.trials[ON_DATA]["reached"] == pytest.approx(0.39 / 0.21, rel=0.03)
    assert first.trials["single"]["bound"] == 1.0
    assert [first.trials[way]["timed_steps"] for way in (ON_DATA, ON_MODEL, "single")] == [26, None, 26]
    caplog.clear()
    with caplog.at_level(logging.INFO):
        again = reports.chosen(tmp_path)
    assert reports.asked == [], "nothing is timed again"
    assert again == first
    for words in said:
        assert words in caplog.text


def test_a_trial_of_one_timed_step_is_told_as_such_beside_the_gain(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reports = Reports(monkeypatch)
    reports.steps_timed = {"single": 12, ON_DATA: 1, "mirrored": 12}
    with caplog.at_level(logging.INFO):
        first = reports.chosen(tmp_path, strategy_minutes=1)
    assert any("; 1 timed step; waits" in line for line in caplog.messages)
    assert re.search(
        r"split, vocoder on data +bound 1.95×, reached .*×; too few steps to be sure \(1 of 10\)", caplog.text
    )
    assert re.search(r"mirrored +bound 2.00×, reached [\d.]+×$", caplog.text, re.MULTILINE)
    assert {way: trial["timed_steps"] for way, trial in first.trials.items() if trial["reached"]} == reports.steps_timed
    assert "at most 1 minute (--strategy-minutes)" in caplog.text


@pytest.mark.parametrize(("place", "bound"), [("data", 0.7 / 0.4), ("model", 0.7 / 0.6)])
def test_the_split_of_a_model_with_two_networks_of_its_own_has_the_bound_of_its_placement(
    place: str, bound: float
) -> None:
    def told(kind: Kind) -> list[str]:
        return list(measured(kind).told_bounds())

    def measured(kind: Kind) -> Trials:
        trials = timed(kind=kind, split=[3.0], single=[2.0], mirrored=[2.5])
        trials.add("split", Timed(3.0, "", of_disk=True, stages=stages))
        return trials

    stages = StepStages(0.1, 0.4, 0.2, two_networks=True, beside_on=place)
    found = measured("gpu").gains()
    assert {name: gain["bound"] for name, gain in found.items()} == pytest.approx(
        {"split": bound, "single": 1.0, "mirrored": 2.0}
    )
    assert found["split"]["reached"] == 1.5
    assert list(timed(single=[2.0]).told_bounds()) == [], "not known"
    (more,) = [line for line in told("cpu") if line not in told("gpu")]
    assert "a logical CPU device that is alone has the cores of all" in more


def test_a_short_run_is_timed_without_discriminators_and_remembered_apart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The faster placement is another one than with them."""
    reports = Reports(monkeypatch)
    assert way_of_config(reports.chosen(tmp_path).config) == ON_DATA
    short = reports.chosen(tmp_path, max_steps=100)
    assert {run.training.discriminators_after for run in reports.asked} == {30}
    assert way_of_config(short.config) == "mirrored"
    assert short.trials[ON_DATA]["bound"] == pytest.approx(0.225 / 0.2)


def test_over_hosts_a_split_is_timed_as_the_hosts_train_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each trains both networks on its model device."""
    reports = Reports(monkeypatch)
    monkeypatch.setattr(tuner, "hosts_verdict", lambda *_: ())
    chosen = reports.chosen(tmp_path, hosts="10.0.0.1:1,10.0.0.2:1", host_index=0, batch_size=8).config
    assert {way_of_config(run) for run in reports.asked[:-1]} == {"single", ON_MODEL}
    assert chosen.training.strategy == "multiworker"
    assert chosen.training.vocoder_on is None


@pytest.mark.parametrize(
    ("was", "asked", "kept"),
    [
        ({"strategy": "split", "vocoder_on": "model"}, None, ON_MODEL),
        ({"strategy": "split"}, None, ON_DATA),
        ({"strategy": "split", "vocoder_on": "data"}, "model", ON_MODEL),
        ({"strategy": "mirrored"}, "data", "mirrored"),
    ],
)
def test_a_resumed_run_keeps_its_placement_unless_another_one_is_given(
    was: dict[str, Any],
    asked: str | None,
    kept: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With `--strategy auto`; a checkpoint from before there was a choice has its vocoder beside the features."""
    ids = {"data_gpu": 0, "model_gpu": 1} if was["strategy"] == "split" else {}
    meta = config(model=TWO_NETWORKS, data=ids, **was).model_dump(mode="json")
    monkeypatch.setattr("voxyard.trainer.checkpoint.newest_good", lambda _: SimpleNamespace(meta={"config": meta}))
    with caplog.at_level(logging.INFO):
        resumed = tuner.choose_strategy(config(device="cpu", model=TWO_NETWORKS, vocoder_on=asked))
    assert way_of_config(resumed) == kept
    assert f"keeps its strategy {kept}" in caplog.text
    assert choose(resumed, host_of(0)).strategy == was["strategy"]


def test_features_of_an_older_version_in_the_runs_directory_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Those that fit are taken as they are."""
    tones = Corpus(tmp_path / "tones").add("a").add("b").directory
    run = config(data={"train_data": str(tones), "validation_share": 0.0}, checkpoint_dir=str(tmp_path / "run"))
    folder, asked = tmp_path / "run" / tuner.FEATURES_DIRECTORY, list[str]()

    def write(settings: dict[str, Any]) -> None:
        as_shards(
            tones, folder, feature_settings=settings,
            features=lambda example: {"mel": np.zeros((len(example.pcm) // 256, 80), np.float32)},
        )  # fmt: skip

    def ask(request: dict[str, Any], seconds: float | None = None) -> dict[str, Any]:
        asked.append(request["features"])
        write(feature_settings(run))
        return {"clips": 2, "bytes": 1}

    monkeypatch.setattr(trial_process, "ask", ask)
    folder.parent.mkdir()
    write({name: value for name, value in feature_settings(run).items() if name != "mel_edges"})
    with caplog.at_level(logging.INFO):
        taken = tuner._with_features(Candidate(FEATURES, run, precomputed=True))
    assert asked == [str(folder)]
    assert "made again" in caplog.text
    assert tuner._with_features(Candidate(FEATURES, run, precomputed=True)) == taken
    assert asked == [str(folder)]


def test_the_verdict_on_hosts_has_the_networks_bound_and_whether_they_pay() -> None:
    """381 MiB over 1 Gbit/s."""
    report = {
        "steps_per_second": 0.25, "batch_rows": 64, "gradient_bytes": 381 * 2**20, "all_reduce_seconds": 3.2,
    }  # fmt: skip
    network, verdict = candidates.hosts_verdict(report, 2, 20.0)
    assert "averages 381.0 MiB of gradients in 3.2 s (119 MiB/s): no step can be faster, one here takes 4 s" in network
    assert verdict.startswith("2 hosts 16 clips/s, this one alone 20: they do not pay")
    assert list(candidates.hosts_verdict(report, 2, 10.0))[1] == "2 hosts 16 clips/s, this one alone 10"
