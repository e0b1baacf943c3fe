"""Configuration that `--auto` makes on a host: decided from the host's description alone."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from cards import card

from voxyard.host.errors import HostError
from voxyard.host.nvml import Gpu
from voxyard.host.plan import Links
from voxyard.host.topology import parse
from voxyard.settings import load
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.devices import auto_settings
from voxyard.trainer.devices.auto_settings import AutoSettings, apply_auto_settings, take_recommended
from voxyard.trainer.devices.device_ids import HostDevices
from voxyard.trainer.devices.placement import DevicePlan, choose
from voxyard.trainer.errors import TrainerError

LINKS = Links(parse("\tGPU0\tGPU1\tGPU2\nGPU0\tX\tSYS\tPIX\nGPU1\tSYS\tX\tSYS\nGPU2\tPIX\tSYS\tX\n"))


THREE = (card(0), card(1), card(2))
TWO = (card(0), card(1))


def settled(
    gpus: tuple[Gpu, ...], *, links: Links = LINKS, data: dict[str, Any] | None = None, **training: Any
) -> AutoSettings:
    config = TrainConfig.model_validate({"data": data or {}, "training": {"auto": True} | training})
    return take_recommended(config, gpus, links)


def placed(config: TrainConfig, gpus: tuple[Gpu, ...]) -> DevicePlan:
    buses = tuple(gpu.pci_bus_id for gpu in gpus)
    return choose(config, HostDevices(gpus=gpus, cuda_bus_ids=buses, cuda_build=True, cores=8))


def test_the_pair_its_limits_batch_and_buffers_are_taken() -> None:
    """What is settled needs no more `--auto`."""
    gpus = (card(0, 12288), card(1), card(2))
    config = settled(gpus).config
    assert (config.data.data_gpu, config.data.model_gpu, config.training.device) == (0, 2, "gpu")
    assert (config.training.data_gpu_memory, config.training.model_gpu_memory) == (4096, 16384)
    assert (config.training.batch_size, config.training.auto) == (16, False)
    assert (config.data.prefetch_buffer_size, config.data.pipeline_buffer_size) == (3, 50)
    plan = placed(config, gpus)
    assert (plan.strategy, plan.isolation, plan.batch_size) == ("split", True, 16)
    assert [(one.role, one.physical, one.limit_mib) for one in plan.assigned] == [
        ("data", 0, 4096),
        ("model", 2, 16384),
    ]


def test_each_value_taken_is_a_line_with_its_reason() -> None:
    lines = settled(THREE).lines
    assert lines[0].startswith("GPU0 and GPU2 have the best link of 3 pairs, PIX")
    assert lines[1:] == (
        "--device gpu (this host has GPUs)",
        "--data-gpu 0 (NVIDIA A10)",
        "--model-gpu 2 (NVIDIA A10)",
        "--batch-size 16 clips (by the 24564 MiB of GPU 2)",
        "--prefetch-buffer-size 3 slots (by the 24564 MiB of GPU 2)",
        "--buffer-size 50 batches (by the 24564 MiB of GPU 2)",
        "--enable-memory-isolation (puts the limits in force)",
        "--data-gpu-memory 8192 MiB (24000 of 24564 MiB are free on GPU 0)",
        "--model-gpu-memory 16384 MiB (24000 of 24564 MiB are free on GPU 2)",
    )


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [
        ("training", "batch_size", 5),
        ("training", "data_gpu_memory", 3000),
        ("training", "model_gpu_memory", 9000),
        ("data", "prefetch_buffer_size", 3),  # set, though it is the default
        ("data", "pipeline_buffer_size", 7),
        ("data", "model_gpu", 1),
        ("data", "data_gpu", "GPU-1"),
    ],
)
def test_what_is_set_stays(section: str, name: str, value: object) -> None:
    """`--auto` decides only what nobody set."""
    gpus = tuple(card(index, 16376) for index in range(3))
    given: dict[str, Any] = {name: value}
    found = settled(gpus, data=given) if section == "data" else settled(gpus, **given)
    assert getattr(getattr(found.config, section), name) == value
    flag = "--buffer-size" if name == "pipeline_buffer_size" else "--" + name.replace("_", "-")
    assert not any(line.startswith(f"{flag} ") for line in found.lines)
    assert found.config.training.enable_memory_isolation
    placed(found.config, gpus)


def test_a_gpu_that_is_set_is_paired_with_the_best_other() -> None:
    config = settled(THREE, data={"model_gpu": 0}).config
    assert (config.data.data_gpu, config.data.model_gpu) == (2, 0)


def test_flags_variables_files_and_the_hosts_plan_win(tmp_path: Path) -> None:
    """`--auto` fills in what would have its default."""
    (tmp_path / "plan.yaml").write_text("training:\n  data_gpu_memory: 2000\n")
    (tmp_path / "train.yaml").write_text("data:\n  pipeline_buffer_size: 25\n")
    loaded = load(
        TrainConfig,
        flags={"training.auto": True, "training.batch_size": 4},
        file=tmp_path / "train.yaml",
        environ={"VOXYARD_TRAIN_PREFETCH_BUFFER_SIZE": "2"},
        host_plan=tmp_path / "plan.yaml",
    )
    config = take_recommended(loaded.config, THREE, LINKS).config
    assert (config.training.batch_size, config.data.prefetch_buffer_size, config.data.pipeline_buffer_size) == (
        4,
        2,
        25,
    )
    assert (config.training.data_gpu_memory, config.training.model_gpu_memory) == (2000, 16384)


def test_without_isolation_there_are_no_limits() -> None:
    """`--no-enable-memory-isolation` is set by the user, so growth stays."""
    found = settled(THREE, enable_memory_isolation=False)
    assert found.config.training.model_gpu_memory is found.config.training.data_gpu_memory is None
    assert not found.config.training.enable_memory_isolation
    assert not any("memory" in line.split(" ")[0] for line in found.lines[1:])
    assert placed(found.config, THREE).batch_size == 16


def test_one_gpu_trains_alone_with_its_limit() -> None:
    gpus = (card(0, 12288),)
    config = settled(gpus, links=Links()).config
    plan = placed(config, gpus)
    assert (plan.strategy, plan.batch_size, plan.of("model").limit_mib) == ("single", 8, 8192)
    assert (config.data.prefetch_buffer_size, config.data.data_gpu, config.data.model_gpu) == (6, None, None)


def test_where_only_one_of_two_can_train_it_does_and_the_log_reports_why() -> None:
    gpus = (card(0, mig=True), card(1))
    found = settled(gpus, links=Links())
    assert "GPU0 (MIG is on" in found.lines[0]
    assert "--strategy single (no pair of GPUs)" in found.lines
    assert placed(found.config, gpus).of("model").physical == 1


def test_a_strategy_that_is_set_is_kept() -> None:
    single = settled(THREE, strategy="single")
    assert (placed(single.config, THREE).strategy, single.config.data.data_gpu) == ("single", None)
    mixed = (card(0, 12288), card(1), card(2))
    mirrored = settled(mixed, strategy="mirrored").config
    plan = placed(mirrored, mixed)
    assert [one.limit_mib for one in plan.assigned] == [8192, 8192, 8192]
    assert (plan.batch_size, mirrored.data.prefetch_buffer_size) == (8, 6)
    split = settled(THREE, strategy="split").config
    assert placed(split, THREE).strategy == "split"


def test_a_split_that_is_asked_for_never_becomes_single_mode() -> None:
    with pytest.raises(TrainerError, match=r"Insufficient GPUs for Multi-GPU Mode: .*a pair needs two GPUs") as caught:
        settled((card(0),), links=Links(), strategy="split")
    assert caught.value.exit_code == 2
    assert "GPUs of this host:\n  0: NVIDIA A10" in str(caught.value)


def test_with_strategy_auto_the_pair_is_taken_for_the_split_among_them() -> None:
    config = settled(THREE, strategy="auto").config
    assert (config.data.data_gpu, config.data.model_gpu, config.training.strategy) == (0, 2, "auto")


def test_a_host_without_a_gpu_has_nothing_to_take() -> None:
    with pytest.raises(TrainerError, match=r"no NVIDIA GPU was found .* leave it out to train on the CPU") as caught:
        settled((), links=Links())
    assert caught.value.exit_code == 2
    with pytest.raises(TrainerError, match=r"--auto .* no effect with --device cpu"):
        settled(THREE, device="cpu")


def test_an_id_that_is_not_there_is_refused() -> None:
    with pytest.raises(HostError, match="GPU 9 is not on this host"):
        settled(THREE, data={"model_gpu": 9})


def test_a_tensorflow_without_cuda_is_refused_and_not_trained_on_the_cpu() -> None:
    config = settled((card(0),), links=Links()).config
    with pytest.raises(TrainerError, match="built without CUDA"):
        choose(config, HostDevices(gpus=(card(0),), cuda_bus_ids=(), cuda_build=False, cores=8))


def test_a_poor_link_is_a_warning() -> None:
    found = settled(TWO, links=Links(LINKS.topology, notes=("peer access is not known",)))
    assert found.warnings[0] == "peer access is not known"
    assert "worse than PHB: GPU0 and GPU2 are a better pair" in found.warnings[1]


def test_settling_reads_the_host_and_logs_each_value(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(auto_settings, "every_gpu", lambda: TWO)
    monkeypatch.setattr(auto_settings, "read_links", lambda: Links(LINKS.topology))
    config = TrainConfig.model_validate({"training": {"auto": True}})
    with caplog.at_level(logging.INFO, logger="voxyard.trainer"):
        assert apply_auto_settings(config).training.batch_size == 16
    assert "--auto: --batch-size 16 clips (by the 24564 MiB of GPU 1)" in caplog.messages
    assert [record.levelname for record in caplog.records].count("WARNING") == 1


def test_without_auto_nothing_is_read_and_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_settings, "every_gpu", lambda: pytest.fail("asked for GPUs"))
    config = TrainConfig()
    assert apply_auto_settings(config) is config
    cpu = TrainConfig.model_validate({"training": {"auto": True, "device": "cpu"}})
    with pytest.raises(TrainerError, match="no effect with --device cpu"):
        apply_auto_settings(cpu)


def test_over_hosts_the_batch_and_the_strategy_are_not_taken_from_one_of_them() -> None:
    """The batch counts the clips of all hosts."""
    over: dict[str, Any] = {"hosts": "10.0.0.1:2222,10.0.0.2:2222", "host_index": 0}
    found = settled(THREE, **over).config
    assert (found.training.batch_size, found.training.strategy) == (None, None)
    assert settled(THREE).config.training.batch_size is not None
    assert settled((card(0), card(1)), links=Links(), **over).config.training.strategy is None
