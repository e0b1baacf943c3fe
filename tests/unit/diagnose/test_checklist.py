"""The checklist before a training: each question answered yes, no, and where it does not apply."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cards import card
from runs import write_tones

from voxyard.diagnose.validate.checklist import (
    Checklist,
    Item,
    batch_item,
    bottleneck_item,
    dataset_item,
    limits_item,
    profiled_item,
    visible_item,
    workers_item,
)
from voxyard.trainer import DataConfig, TrainConfig
from voxyard.trainer.devices.device_ids import HostDevices
from voxyard.trainer.devices.placement import Assigned, DevicePlan


def split(data_limit: int | None, model_limit: int | None, **memory: Any) -> DevicePlan:
    return DevicePlan(
        kind="gpu",
        strategy="split",
        assigned=(
            Assigned("data", 0, 0, card(0, **memory), data_limit),
            Assigned("model", 1, 1, card(1, **memory), model_limit),
        ),
        batch_size=16,
        isolation=data_limit is not None,
    )


ON_CPU = DevicePlan(kind="cpu", strategy="single", assigned=(Assigned("model", 0, 0),), batch_size=8)


def profile(*, bottleneck: str | None = None, withheld: str = "", missing: str | None = "not measured: no GPU") -> Any:
    """As much of a profile as the checklist looks at."""
    gpus = () if missing else (SimpleNamespace(role="model", index=1, memory_used=9 * 2**30, memory_size=24 * 2**30),)
    advice = SimpleNamespace(title="prepare the corpus as shards", flags=("--train-data", "shards"))
    sentence = "no bottleneck; bound by train" if bottleneck is None else f"bottleneck: {bottleneck}"
    return SimpleNamespace(
        overlapped=SimpleNamespace(steps=SimpleNamespace(count=20), seconds_per_step=0.05),
        verdict=SimpleNamespace(
            bottleneck=bottleneck, sentence=sentence, data_wait_share=0.4 if bottleneck else 0.01, withheld=withheld
        ),
        recommendations=(advice,),
        gpus=SimpleNamespace(gpus=gpus, missing=missing),
    )


def test_a_profile_that_ran_is_a_yes() -> None:
    assert profiled_item(profile()) == Item("profiler run", True, "20 steps of 50 ms, overlapped")
    assert profiled_item("no corpus").answer is False


def test_a_model_that_waits_is_a_bottleneck_with_advice() -> None:
    assert bottleneck_item(profile()).answer is True
    found = bottleneck_item(profile(bottleneck="load"))
    assert found.answer is False
    assert "waits for data 40.0%" in found.found
    assert found.advice == "prepare the corpus as shards: --train-data shards"
    assert bottleneck_item("it broke").answer is False
    assert bottleneck_item(profile(withheld="other programs took 1.8 of 2 cores")).answer is None


@pytest.mark.parametrize(
    ("plan", "answer", "said"),
    [
        (split(8192, 16384), True, "limit 16384 MiB (16384 recommended)"),
        (split(8192, 23500), False, "limit 23500 MiB: more than the 22976 MiB left"),
        (split(2048, 16384), False, "limit 2048 MiB: less than half of the 8192 recommended"),
        (split(8192, 16384, free=10000), False, "more than the 8976 MiB left"),
        (split(None, None), None, "no limit (memory growth); 16384 MiB is recommended"),
        (split(8192, 16384, total=None), False, "the driver does not report the card's memory"),
        (ON_CPU, None, "not measured: no GPU"),
        (None, None, "the devices are not there"),
    ],
)
def test_limits_are_held_against_the_cards(plan: DevicePlan | None, answer: bool | None, said: str) -> None:
    found = limits_item(plan)
    assert found.answer is answer
    assert said in found.found


def test_gpus_that_are_not_there_are_a_no() -> None:
    host = HostDevices((card(0), card(1)), ("0000:01:00.0", "0000:02:00.0"), cuda_build=True, cores=8)
    seen = visible_item(split(None, None), host, "")
    assert seen.answer is True
    assert "2 of 2 GPUs" in seen.found
    refused = visible_item(None, host, "Multi-GPU requires at least 2 GPUs, found 1")
    assert (refused.answer, refused.found) == (False, "Multi-GPU requires at least 2 GPUs, found 1")
    assert visible_item(ON_CPU, replace(host, gpus=()), "").answer is None


def test_a_corpus_that_can_be_read_is_right(tmp_path: Path) -> None:
    corpus = write_tones(tmp_path / "corpus", 12)
    config = TrainConfig(data=DataConfig(train_data=corpus, validation_share=0))
    assert dataset_item(config).answer is True
    assert "12 clips" in dataset_item(config).found


def test_a_corpus_that_cannot_be_read_is_wrong(tmp_path: Path) -> None:
    corpus = write_tones(tmp_path / "corpus", 12)
    (corpus / "wavs/tone-003.wav").write_bytes(b"no sound")
    for path in (corpus, tmp_path / "nowhere", None):
        found = dataset_item(TrainConfig(data=DataConfig(train_data=path)))
        assert found.answer is False
        assert found.found


def test_a_batch_that_ran_fits_and_its_memory_is_reported() -> None:
    on_gpu = batch_item(profile(missing=None), split(None, None))
    assert on_gpu.answer is True
    assert "model GPU 1: at most 9216 of 24576 MiB in use" in on_gpu.found
    on_cpu = batch_item(profile(), ON_CPU)
    assert on_cpu.answer is True
    assert "GPU memory not measured: no GPU" in on_cpu.found


def test_the_memory_of_the_host_is_in_gib(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = SimpleNamespace(ru_maxrss=3 << 20)  # KiB
    monkeypatch.setattr("resource.getrusage", lambda _: taken)
    monkeypatch.setattr("voxyard.diagnose.validate.checklist.available_bytes", lambda: 5 << 30)
    found = batch_item(profile(), ON_CPU).found
    assert "host memory: at most 3.0 GiB taken, 5.0 GiB still available" in found


def test_a_batch_that_ran_out_of_memory_does_not_fit() -> None:
    found = batch_item("ResourceExhaustedError: OOM when allocating tensor", split(None, None))
    assert found.answer is False
    assert "--batch-size" in found.advice
    assert "not known" in batch_item("it broke otherwise", None).found


@pytest.mark.parametrize(
    ("workers", "cores", "answer"),
    [
        (16, 64, True), (32, 64, True), (15, 64, False), (33, 64, False), (16, 16, True), (8, 16, False),
        (2, 2, True), (1, 2, False), (16, 2, True), (17, 2, False), (8, 8, True), (16, 8, True), (4, 8, False),
    ],
)  # fmt: skip
def test_reading_threads_are_judged_by_the_cores(workers: int, cores: int, answer: bool) -> None:
    """16 to 32 on a big host; on a small one no fewer than it has cores."""
    found = workers_item(workers, cores)
    assert found.answer is answer
    assert found.advice.startswith("" if answer else "--num-workers ")
    assert f"{cores} cores" in found.found


def test_one_no_is_exit_code_1_and_what_does_not_apply_is_none() -> None:
    yes, no, none = Item("a", True, "fine"), Item("b", False, "bad\nindeed", "do it"), Item("c", None, "no GPU")
    good = Checklist((yes, none))
    assert (good.passed, good.exit_code) == (True, 0)
    assert good.text().splitlines() == [
        "1. ✅ a", "     fine", "2. – c", "     no GPU", "", "1 yes, 0 no, 1 do not apply here",
    ]  # fmt: skip
    bad = Checklist((yes, no, none))
    assert bad.exit_code == 1
    assert "2. ❌ b\n     bad\n     indeed\n     → do it\n" in bad.text()
    assert json.loads(json.dumps(bad.document()))["items"][1]["answer"] is False
