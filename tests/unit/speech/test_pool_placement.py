"""Devices that get a worker, by settings and by free memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from eventually import PATIENCE, eventually
from prometheus_client import CollectorRegistry

from voxyard.host.errors import HostError
from voxyard.host.nvml import Gpu
from voxyard.host.readings import Process
from voxyard.settings import Section, SettingsError, load
from voxyard.speech.config import SpeechSection
from voxyard.speech.engine import EngineSpec
from voxyard.speech.errors import SpeechError
from voxyard.speech.open_pool import open_pool
from voxyard.speech.placement import Admission, Refusal, choose_devices, cpu_devices, gpu_devices
from voxyard.speech.pool.limits import PoolLimits
from voxyard.speech.pool.metrics import PoolMetrics
from voxyard.speech.pool.pool import Pool
from voxyard.speech.pool.worker_process import Device
from voxyard.speech.requests import Request

TONES = EngineSpec("engines:tones")


class Everything(Section):
    speech: SpeechSection = SpeechSection()


def gpu(index: int, free: int | None = 80_000, problem: str | None = None) -> Gpu:
    return Gpu(index, f"GPU-{index}", "H200", f"00000000:0{index}:00.0", 140_000, free, (9, 0), problem=problem)


def nobody(_: Gpu) -> list[Process]:
    return []


def test_there_are_as_many_workers_as_gpus_up_to_four() -> None:
    assert len(gpu_devices([gpu(0), gpu(1)], SpeechSection())) == 2
    assert len(gpu_devices([gpu(number) for number in range(8)], SpeechSection())) == 4


def test_more_workers_need_an_explicit_number() -> None:
    chosen = gpu_devices([gpu(number) for number in range(8)], SpeechSection(max_parallel_tts_workers=6))
    assert [device.visible for device in chosen] == [f"GPU-{number}" for number in range(6)]


def test_without_parallel_speech_there_is_one_worker_and_one_chunk_at_a_time() -> None:
    section = SpeechSection(enable_parallel_tts=False)
    assert len(gpu_devices([gpu(0), gpu(1)], section)) == len(cpu_devices(section)) == 1
    assert section.limits().max_chunks == 1


def test_a_gpu_with_a_problem_is_left_out_and_one_whose_memory_is_held_comes_last() -> None:
    found = [gpu(0, free=100), gpu(1, problem="fell off the bus"), gpu(2, free=None), gpu(3)]

    assert [device.name for device in gpu_devices(found, SpeechSection())] == ["2", "3", "0"]
    assert [device.name for device in gpu_devices(found, SpeechSection(max_parallel_tts_workers=2))] == ["2", "3"]


def test_no_usable_gpu_is_an_error_that_says_why_for_each() -> None:
    small = replace(gpu(0, free=100), memory_total_mib=4096)
    with pytest.raises(SpeechError, match=r"GPU 0: it has 4096 MiB in all, a worker needs 6144 MiB; GPU 1: fell off"):
        gpu_devices([small, gpu(1, problem="fell off the bus")], SpeechSection())
    with pytest.raises(SpeechError, match=r"fell off the bus; repair or name others, or take --device cpu"):
        gpu_devices([gpu(1, problem="fell off the bus")], SpeechSection())


def test_gpus_of_different_kinds_are_named_as_they_give_no_one_sound(caplog: pytest.LogCaptureFixture) -> None:
    other = replace(gpu(0), name="L4", memory_total_mib=24_000)

    gpu_devices([gpu(1), gpu(2)], SpeechSection())
    gpu_devices([other, gpu(1)], SpeechSection(max_parallel_tts_workers=1))
    assert not caplog.messages

    gpu_devices([other, gpu(1), gpu(2)], SpeechSection())
    assert caplog.messages == [
        "the workers' GPUs differ (0: L4, 24000 MiB; 1: H200, 140000 MiB; 2: H200, 140000 MiB): the batch size auto "
        "and the last digits of a chunk's audio depend on the GPU that speaks it; with --gpus 1,2 the same seed gives "
        "the same audio"
    ]


def test_the_settings_have_the_names_that_users_know() -> None:
    loaded = load(Everything, flags={"speech.max_parallel_tts_workers": 7}, environ={})
    assert (loaded.config.speech.max_parallel_tts_workers, loaded.config.speech.enable_parallel_tts) == (7, True)


def test_a_worker_starts_only_where_its_memory_is_free_at_that_moment() -> None:
    admit = Admission(lambda: [gpu(0, free=100), gpu(1)], SpeechSection(), nobody)
    with Pool(
        EngineSpec("engines:tones"),
        [Device("0", "GPU-0"), Device("1", "GPU-1")],
        limits=PoolLimits(backoff=0.01),
        admit=admit,
    ) as pool:
        job = pool.submit([Request(number, "text") for number in range(12)])
        assert job.wait(PATIENCE)
        assert {outcome.worker for outcome in job.outcomes()} == {"1"}


def test_a_gpu_that_has_gone_takes_no_worker() -> None:
    admit = Admission(lambda: [gpu(1)], SpeechSection())
    assert admit(Device("0", "GPU-0")) == Refusal("missing", "GPU 0 is not there any more")
    assert admit(Device("cpu0")) is None


def test_a_refusal_names_the_gpu_what_it_has_what_is_needed_and_who_holds_it() -> None:
    held = {0: [Process(4711, "python3", 130_000 << 20)]}
    admit = Admission(lambda: [gpu(0, free=100), gpu(1)], SpeechSection(), lambda gpu: held[gpu.index])

    assert admit(Device("1", "GPU-1")) is None
    assert admit(Device("0", "GPU-0")) == Refusal(
        "memory",
        "GPU 0: 100 MiB are free, a worker needs 6144 MiB; held by python3 (process 4711) 130000 MiB",
    )


def test_a_driver_that_does_not_answer_is_waited_for_and_ends_no_pool() -> None:
    def broken() -> list[Gpu]:
        raise HostError("the NVIDIA driver does not answer")

    admit = Admission(broken, SpeechSection())

    assert admit(Device("0", "GPU-0")) == Refusal("driver", "GPU 0: the NVIDIA driver does not answer")


def test_a_gpu_that_is_not_free_at_the_start_speaks_once_it_is() -> None:
    cards, registry = [gpu(0, free=100)], CollectorRegistry()
    admit = Admission(lambda: cards, SpeechSection(), nobody)
    metrics, why = PoolMetrics(registry), {"gpu": "0", "reason": "memory"}
    only = Device("0", "GPU-0")
    with Pool(TONES, [only], limits=PoolLimits(backoff=0.01, max_backoff=0.01), observer=metrics, admit=admit) as pool:
        job = pool.submit([Request(number, "text") for number in range(3)])
        eventually(lambda: pool.workers()[0].processes > 2 * PoolLimits().max_failed_starts)

        assert not job.finished
        assert pool.waiting == pool.workers()[0].reason == "GPU 0: 100 MiB are free, a worker needs 6144 MiB"
        assert pool.workers()[0].state == "waiting"
        assert registry.get_sample_value("voxyard_bark_worker_waiting", why) == 1
        eventually(lambda: registry.get_sample_value("voxyard_bark_workers_expected") == 0)

        cards[0] = gpu(0)
        assert job.wait(PATIENCE)
        assert [outcome.failure for outcome in job.outcomes()] == [None] * 3
        assert not pool.waiting


def test_a_gpu_is_claimed_in_the_metrics_when_its_worker_takes_it() -> None:
    cards, registry = [gpu(0, free=100), gpu(1)], CollectorRegistry()
    quick = SpeechSection(worker_memory_mib=6144)

    def claimed(index: int) -> float | None:
        labels = {"workload": "bark", "role": "bark", "gpu": str(index), "uuid": f"GPU-{index}"}
        return registry.get_sample_value("voxyard_workload_gpu_assigned", labels)

    with open_pool(TONES, quick, "auto", workload="bark", registry=registry, warm=2, gpus=lambda: cards) as pool:
        eventually(lambda: {worker.state for worker in pool.workers()} == {"ready", "waiting"})
        assert (claimed(0), claimed(1)) == (None, 1)

        cards[0] = gpu(0)
        eventually(lambda: [worker.state for worker in pool.workers()] == ["ready", "ready"])
        assert (claimed(0), claimed(1)) == (1, 1)


def test_auto_takes_the_gpus_of_a_host_that_has_any_and_cpu_never_asks_for_them() -> None:
    def none_asked() -> list[Gpu]:
        raise AssertionError("the GPUs were asked for")

    section = SpeechSection(max_parallel_tts_workers=3)

    assert [each.name for each in choose_devices("auto", lambda: [gpu(0), gpu(1)], section)] == ["0", "1"]
    assert [each.name for each in choose_devices("auto", list, section, cores=4)] == ["cpu0", "cpu1", "cpu2"]
    assert [each.name for each in choose_devices("cpu", none_asked, section, cores=4)] == ["cpu0", "cpu1", "cpu2"]
    with pytest.raises(SpeechError, match=r"there is no GPU; take --device cpu$"):
        choose_devices("cuda", list, section)


def named(gpus: str, **settings: Any) -> SpeechSection:
    return SpeechSection(gpus=gpus, **settings)


def test_workers_go_to_the_gpus_that_are_named_and_to_no_others() -> None:
    host = [gpu(number) for number in range(8)]

    def workers(section: SpeechSection, visible: str | None = None) -> list[str]:
        return [each.visible for each in choose_devices("auto", lambda: host, section, visible)]

    assert workers(SpeechSection(), "1") == ["GPU-1"]
    assert workers(SpeechSection(), "5,GPU-3") == ["GPU-5", "GPU-3"]
    assert workers(named("0,2")) == ["GPU-0", "GPU-2"]
    assert workers(named("6,2"), "0,2,6") == ["GPU-6", "GPU-2"]
    assert len(workers(named("0,1,2,3,4,5"))) == 6  # each that is named, without --workers
    assert workers(named("0,1,2,3,4,5", max_parallel_tts_workers=2)) == ["GPU-0", "GPU-1"]
    assert workers(named("4,5", enable_parallel_tts=False)) == ["GPU-4"]


def test_gpus_are_named_in_a_settings_file_too(tmp_path: Path) -> None:
    for text, meant in (("0", [0]), ("0,2", [0, 2]), ("[0, 2]", None), ("GPU-2", [2])):
        (tmp_path / "serve.yaml").write_text(f"speech:\n  gpus: {text}\n")
        if meant is None:
            with pytest.raises(SettingsError, match=r"speech.gpus: found a list, expected text or a whole number"):
                load(Everything, file=tmp_path / "serve.yaml", environ={})
            continue
        section = load(Everything, file=tmp_path / "serve.yaml", environ={}).config.speech
        chosen = choose_devices("auto", lambda: [gpu(number) for number in range(3)], section)
        assert [each.name for each in chosen] == [str(number) for number in meant]


def test_a_variable_that_hides_every_gpu_leaves_the_cpu_or_is_an_error() -> None:
    section = SpeechSection(max_parallel_tts_workers=1)
    assert [each.name for each in choose_devices("auto", lambda: [gpu(0)], section, "-1")] == ["cpu0"]
    with pytest.raises(SpeechError, match="CUDA_VISIBLE_DEVICES=-1 hides every GPU of this host; unset it"):
        choose_devices("cuda", lambda: [gpu(0)], section, "-1")
    assert [each.name for each in choose_devices("auto", list, section, "0")] == ["cpu0"]  # a host without GPUs


def test_named_gpus_are_never_replaced_by_the_cpu() -> None:
    with pytest.raises(HostError, match="this host has no GPU 0; it has none"):
        choose_devices("auto", list, named("0"))
    with pytest.raises(SpeechError, match="--gpus 0 names GPUs and --device cpu takes none: leave one of them out"):
        choose_devices("cpu", lambda: [gpu(0)], named("0"))


def test_a_mig_instance_has_a_worker_of_its_own_and_its_gpu_none() -> None:
    instances = [
        replace(gpu(0), uuid=f"MIG-{n}", mig_instance=n, mig_gpu="GPU-0", memory_free_mib=9000) for n in (0, 3)
    ]
    full = replace(gpu(1), problem="MIG is on and there is no instance")

    chosen = choose_devices("cuda", lambda: [*instances, full, gpu(2)], SpeechSection())

    assert chosen == (Device("0:0", "MIG-0"), Device("0:3", "MIG-3"), Device("2", "GPU-2"))


def test_the_memory_of_a_mig_instance_admits_its_worker() -> None:
    one, other = (replace(gpu(0), uuid=f"MIG-{n}", mig_instance=n, memory_free_mib=5000 * n) for n in (1, 2))
    asked: list[Gpu] = []

    def holders(of: Gpu) -> list[Process]:
        asked.append(of)
        return []

    admit = Admission(lambda: [one, other], SpeechSection(), holders)

    assert admit(Device("0:2", "MIG-2")) is None
    assert admit(Device("0:1", "MIG-1")) == Refusal("memory", "GPU 0:1: 5000 MiB are free, a worker needs 6144 MiB")
    assert asked == [one]


def test_the_variable_of_the_process_decides_about_its_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    host = [gpu(0), gpu(1), gpu(2)]
    with open_pool(TONES, SpeechSection(), "auto", workload="bark", warm="all", gpus=lambda: host) as pool:
        eventually(lambda: pool.workers()[0].ready)
        (worker,) = pool.workers()
        assert worker.ready is not None
        assert (worker.device, worker.ready.facts["gpus"]) == ("1", "GPU-1")


def test_cpus_get_no_more_workers_than_cores(caplog: pytest.LogCaptureFixture) -> None:
    unsaid = load(Everything, environ={}).config.speech
    said = load(Everything, flags={"speech.max_parallel_tts_workers": 64}, environ={}).config.speech

    assert [len(choose_devices("cpu", list, unsaid, cores=cores)) for cores in (1, 2, 8)] == [1, 2, 4]
    assert len(choose_devices("cpu", list, said, cores=64)) == 64
    assert caplog.messages == []
    assert len(choose_devices("cpu", list, said, cores=3)) == 3
    assert caplog.messages == ["64 workers are asked for, and this host has 3 CPU cores: 3 workers start"]
