"""Which devices get a worker, by settings and by free memory."""

from __future__ import annotations

import os

import pytest

from voxyard.host import Gpu
from voxyard.settings import Section, load
from voxyard.speech.config import SpeechSection
from voxyard.speech.engine import EngineName
from voxyard.speech.errors import SpeechError
from voxyard.speech.limits import Limits
from voxyard.speech.placement import admission, cpu_devices, devices, gpu_devices
from voxyard.speech.pool import Pool
from voxyard.speech.process import Device
from voxyard.speech.requests import Request


class Everything(Section):
    speech: SpeechSection = SpeechSection()


def gpu(index: int, free: int | None = 80_000, problem: str | None = None) -> Gpu:
    return Gpu(index, f"GPU-{index}", "H200", f"00000000:0{index}:00.0", 140_000, free, (9, 0), problem=problem)


def test_there_are_as_many_workers_as_gpus_up_to_four() -> None:
    assert len(gpu_devices([gpu(0), gpu(1)], SpeechSection())) == 2
    assert len(gpu_devices([gpu(number) for number in range(8)], SpeechSection())) == 4


def test_more_workers_need_an_explicit_number() -> None:
    chosen = gpu_devices([gpu(number) for number in range(8)], SpeechSection(max_parallel_tts_workers=6))
    assert [device.visible for device in chosen] == [f"GPU-{number}" for number in range(6)]


def test_without_parallel_speech_there_is_one_worker_and_one_chunk_at_a_time() -> None:
    section = SpeechSection(enable_parallel_tts=False)
    assert len(gpu_devices([gpu(0), gpu(1)], section)) == len(cpu_devices(section)) == 1
    assert section.limits().batch == 1


def test_a_gpu_without_the_workers_memory_or_with_a_problem_is_left_out() -> None:
    chosen = gpu_devices([gpu(0, free=100), gpu(1, problem="fell off the bus"), gpu(2, free=None)], SpeechSection())
    assert [device.name for device in chosen] == ["2"]


def test_no_usable_gpu_is_an_error_that_says_why_for_each() -> None:
    with pytest.raises(SpeechError, match=r"GPU 0: 100 MiB are free, a worker needs 6144 MiB; GPU 1: fell off"):
        gpu_devices([gpu(0, free=100), gpu(1, problem="fell off the bus")], SpeechSection())


def test_the_settings_have_the_names_that_users_know() -> None:
    loaded = load(Everything, flags={"speech.max_parallel_tts_workers": 7}, environ={})
    assert (loaded.config.speech.max_parallel_tts_workers, loaded.config.speech.enable_parallel_tts) == (7, True)


def test_a_worker_starts_only_where_its_memory_is_free_at_that_moment() -> None:
    admit = admission(lambda: [gpu(0, free=100), gpu(1)], SpeechSection())
    with Pool(
        EngineName("engines:tones"),
        [Device("0", "GPU-0"), Device("1", "GPU-1")],
        limits=Limits(back_off=0),
        admit=admit,
    ) as pool:
        job = pool.submit([Request(number, "text") for number in range(12)])
        assert job.wait(60)
        assert {outcome.worker for outcome in job.outcomes()} == {"1"}


def test_a_gpu_that_has_gone_takes_no_worker() -> None:
    admit = admission(lambda: [gpu(1)], SpeechSection())
    assert admit(Device("0", "GPU-0")) == "GPU 0 is not there any more"
    assert admit(Device("cpu0")) is None


def test_auto_takes_the_gpus_of_a_host_that_has_any_and_cpu_never_asks_for_them() -> None:
    def none_asked() -> list[Gpu]:
        raise AssertionError("the GPUs were asked for")

    section = SpeechSection(max_parallel_tts_workers=3)

    assert [each.name for each in devices("auto", lambda: [gpu(0), gpu(1)], section)] == ["0", "1"]
    assert [each.name for each in devices("auto", list, section)] == ["cpu0", "cpu1", "cpu2"]
    assert [each.name for each in devices("cpu", none_asked, section)] == ["cpu0", "cpu1", "cpu2"]
    with pytest.raises(SpeechError, match="there is no GPU"):
        devices("cuda", list, section)


def test_cpus_get_more_workers_than_cores_only_where_the_user_says_so() -> None:
    unsaid = load(Everything, environ={}).config.speech
    said = load(Everything, flags={"speech.max_parallel_tts_workers": 64}, environ={}).config.speech

    assert len(devices("cpu", list, unsaid)) == min(4, os.cpu_count() or 1)
    assert len(devices("cpu", list, said)) == 64
