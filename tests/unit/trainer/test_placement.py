"""Device placement of a run: decided from a host's description alone, without TensorFlow."""

from __future__ import annotations

from typing import Any

import pytest
from command_line import Command

from voxyard.host.nvml import Gpu
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.devices.device_ids import HostDevices
from voxyard.trainer.devices.placement import DevicePlan, choose
from voxyard.trainer.errors import TrainerError

BUSES = ("17:00.0", "65:00.0", "B1:00.0", "CA:00.0")


def card(index: int, total: int | None = 24564, free: int | None = 24000) -> Gpu:
    return Gpu(index, f"GPU-{index}aaa", "NVIDIA GeForce RTX 4090", f"00000000:{BUSES[index]}", total, free, (8, 9))


def host_of(*cards: Gpu, cuda: tuple[int, ...] | None = None, visible: str | None = None, **more: Any) -> HostDevices:
    order = range(len(cards)) if cuda is None else cuda
    buses = tuple(f"0000:{BUSES[i].lower()}" for i in order)
    facts: dict[str, Any] = {
        "gpus": cards,
        "cuda_bus_ids": buses,
        "cuda_build": True,
        "cores": 16,
        "cuda_visible_devices": visible,
    }
    return HostDevices(**facts | more)


FOUR = host_of(*(card(i) for i in range(4)))
TWO = host_of(card(0), card(1))
NONE = host_of()


def plan(host: HostDevices, *, data: dict[str, Any] | None = None, **training: Any) -> DevicePlan:
    return choose(TrainConfig.model_validate({"data": data or {}, "training": training}), host)


def refusal(host: HostDevices, *, data: dict[str, Any] | None = None, **training: Any) -> str:
    with pytest.raises(TrainerError) as refused:
        plan(host, data=data, **training)
    assert refused.value.exit_code == 2
    return str(refused.value)


def pair(data: object, model: object) -> dict[str, Any]:
    return {"data_gpu": data, "model_gpu": model}


# -- ids -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("data", "model"), [(0, 1), (2, 3), (3, 1)])
def test_both_ids_make_a_split_on_just_these_gpus(data: int, model: int) -> None:
    """Any indices; TensorFlow renumbers the visible ones in the order of their old numbers."""
    made = plan(FOUR, data=pair(data, model))
    assert (made.kind, made.strategy) == ("gpu", "split")
    assert (made.of("data").physical, made.of("model").physical) == (data, model)
    assert made.of("data").logical == (0 if data < model else 1)
    assert made.of("model").logical == (1 if data < model else 0)


def test_ids_may_be_uuids_and_digits_in_text() -> None:
    """`--data-gpu 3` on a command line may arrive as text."""
    made = plan(FOUR, data=pair("GPU-2AAA", "3"))
    assert [one.physical for one in made.assigned] == [2, 3]


@pytest.mark.parametrize(
    ("ids", "says"),
    [
        ({"data_gpu": 0}, "--data-gpu was given without --model-gpu"),
        ({"model_gpu": 1}, "--model-gpu was given without --data-gpu"),
        (pair(1, 1), "--data-gpu 1 and --model-gpu 1 are one device"),
        (pair(1, "GPU-1aaa"), "are one device"),
        (pair(0, 7), "--model-gpu 7 is not a device here"),
        (pair(-1, 1), "--data-gpu -1 is not a device here"),
        (pair("GPU-nonsense", 1), "--data-gpu GPU-nonsense is not a device here"),
    ],
)
def test_ids_that_make_no_pair_are_refused_with_what_there_is(ids: dict[str, Any], says: str) -> None:
    """Never a silent fall-back; the GPUs of the host and the single-GPU command are in the message."""
    message = refusal(FOUR, data=ids | {"train_data": "/corpus"})
    assert message.startswith("Insufficient GPUs for Multi-GPU Mode: ")
    assert says in message
    for index in range(4):
        assert f"  {index}: NVIDIA GeForce RTX 4090, 24564 MiB, GPU-{index}aaa" in message
    assert "On a single GPU instead: voxyard train --train-data /corpus" in message


def test_one_gpu_is_too_few_for_a_split() -> None:
    """The message is the documented one."""
    message = refusal(host_of(card(0)), data=pair(0, 1))
    assert "Insufficient GPUs for Multi-GPU Mode" in message
    assert "Multi-GPU requires at least 2 GPUs, found 1" in message


@pytest.mark.parametrize("device", ["auto", "gpu"])
def test_ids_without_any_gpu_name_the_way_on_a_cpu(device: str) -> None:
    """`auto` does not turn a wanted pair of GPUs into CPU devices."""
    message = refusal(NONE, data=pair(0, 1), device=device)
    assert "Multi-GPU requires at least 2 GPUs, found 0" in message
    assert "--device cpu --data-gpu 0 --model-gpu 1" in message


def test_the_command_to_use_instead_keeps_the_users_settings() -> None:
    data = pair(0, 1) | {"train_data": "/my corpus", "num_workers": 3}
    message = refusal(NONE, data=data, device="gpu", checkpoint_dir="runs/a", max_steps=50, resume=False)
    kept = "voxyard train --train-data '/my corpus' --num-workers 3 --max-steps 50"
    single, split = (line for line in message.splitlines() if "instead: " in line or "logical CPU" in line)
    for line in (single, split):
        assert kept in line
        assert "--checkpoint-dir runs/a" in line
        assert "--no-resume" in line
    assert single.endswith(" --device cpu")
    assert split.endswith(" --device cpu --data-gpu 0 --model-gpu 1")
    assert "--device gpu" not in message


def test_mirrored_stays_mirrored_on_logical_cpu_devices() -> None:
    message = refusal(NONE, device="gpu", strategy="mirrored")
    assert "The same on logical CPU devices: voxyard train --train-data DIR --device cpu --strategy mirrored" in message


# -- CPU devices ---------------------------------------------------------------------------------------------


def test_cpu_ids_name_logical_devices() -> None:
    """On a machine without a GPU."""
    made = plan(NONE, data=pair(2, 3), device="cpu", cpu_devices=4)
    assert (made.kind, made.cpu_devices) == ("cpu", 4)
    assert [(one.role, one.logical) for one in made.assigned] == [("data", 2), ("model", 3)]


@pytest.mark.parametrize("ids", [pair(0, 2), pair("GPU-0aaa", 1), pair(1, 1), {"data_gpu": 0}])
def test_cpu_ids_that_make_no_pair_are_refused(ids: dict[str, Any]) -> None:
    """With the CPU's words, GPUs in the host or not."""
    message = refusal(TWO, data=ids, device="cpu")
    assert "found 2 logical CPU devices (0 to 1): for more, raise --cpu-devices" in message
    assert "On a single device instead: voxyard train --train-data DIR --device cpu" in message


def test_one_cpu_device_is_too_few() -> None:
    assert "at least 2 logical CPU devices, found 1" in refusal(NONE, data=pair(0, 1), device="cpu", cpu_devices=1)
    assert "found 1" in refusal(NONE, device="cpu", cpu_devices=1, strategy="mirrored")


@pytest.mark.parametrize(
    ("cores", "devices", "asked", "intra_op"),
    [(16, 2, None, 8), (2, 2, None, 1), (1, 2, None, 1), (16, 4, 3, 3)],
)
def test_threads_of_an_operation_are_a_devices_share_of_the_cores(
    cores: int, devices: int, asked: int | None, intra_op: int
) -> None:
    """--device-threads, or cores ÷ devices in use."""
    made = plan(host_of(cores=cores), device="cpu", cpu_devices=devices, strategy="mirrored", device_threads=asked)
    assert made.threads is not None
    assert made.threads.intra_op == intra_op


def test_the_cpu_is_taken_where_there_is_no_gpu_and_the_log_reports_it() -> None:
    made = plan(NONE)
    assert (made.kind, made.batch_size) == ("cpu", 8)
    assert any("no NVIDIA GPU found" in note for note in made.notes)
    assert not plan(NONE, device="cpu").notes


def test_a_tensorflow_without_cuda_is_distinguished_from_a_host_without_gpus() -> None:
    """`auto` says why the GPUs stay idle; `gpu` and ids are refused with what to install."""
    plain = host_of(card(0), card(1), cuda_build=False)
    made = plan(plain)
    assert made.kind == "cpu"
    assert any("built without CUDA" in note for note in made.notes)
    for message in (refusal(plain, device="gpu"), refusal(plain, data=pair(0, 1))):
        assert "tensorflow[and-cuda]" in message


def test_gpu_without_a_gpu_is_refused() -> None:
    assert "no NVIDIA GPU was found" in refusal(NONE, device="gpu")


# -- strategies ----------------------------------------------------------------------------------------------


HOSTS: dict[str, Any] = {"hosts": "10.0.0.1:2222,10.0.0.2:2222", "host_index": 1, "batch_size": 8}


@pytest.mark.parametrize(
    ("data", "inside"), [({}, "single"), (pair(0, 1), "split"), (pair(1, 0), "split")], ids=["single", "0+1", "1+0"]
)
def test_a_host_among_several_has_one_model_device_alone_or_beside_a_data_device(
    data: dict[str, Any], inside: str
) -> None:
    """Each host splits its pair; the batch counts the clips of all hosts."""
    made = plan(NONE, data=data, device="cpu", strategy="multiworker", **HOSTS)
    assert (made.strategy, made.batch_size) == (inside, 8)
    assert made.hosts is not None
    assert (made.hosts.index, made.hosts.count) == (1, 2)
    assert plan(NONE, data=data, device="cpu", **HOSTS) == made  # --hosts says it


def test_over_hosts_the_model_gpu_is_the_first_of_tensorflows() -> None:
    """The one on which it reduces; voxyard orders CUDA's GPUs so, which is not seen as a mistake."""
    ordered = host_of(card(0), card(1), cuda=(1, 0), ordered=True)
    made = plan(ordered, data=pair(0, 1), **HOSTS)
    assert (made.of("data").physical, made.of("model").physical, made.of("model").logical) == (1, 0, 0)
    assert "put the model GPU first in it" in refusal(TWO, data=pair(0, 1), **HOSTS)


def test_over_hosts_the_model_has_the_first_of_tensorflows_cpu_devices() -> None:
    """On which it reduces, too; as a host's plan names the devices, the first step would never end."""
    made = plan(NONE, data=pair(0, 1), device="cpu", **HOSTS)
    assert [(one.role, one.physical, one.logical) for one in made.assigned] == [("data", 0, 1), ("model", 1, 0)]
    same = plan(NONE, data=pair(1, 0), device="cpu", **HOSTS)
    assert [(one.role, one.physical, one.logical) for one in same.assigned] == [("data", 1, 1), ("model", 0, 0)]


def test_over_hosts_the_batch_size_is_given_and_dealt_evenly() -> None:
    """It is part of the run, which is the same on any number of hosts."""
    assert "must be given: 16 would be 8 on each" in refusal(NONE, device="cpu", **HOSTS | {"batch_size": None})
    assert "give 6 or 8" in refusal(NONE, device="cpu", **HOSTS | {"batch_size": 7})


def test_a_place_for_the_vocoder_that_would_be_ignored_is_refused() -> None:
    """Nothing is passed over in silence: no vocoder, no split, several hosts."""

    def said(networks: str, strategy: str | None, **training: Any) -> str:
        config = TrainConfig.model_validate(
            {
                "model": {"networks": networks},
                "data": pair(0, 1) if strategy in (None, "split") else {},
                "training": {"device": "cpu", "strategy": strategy, "vocoder_on": "model"} | training,
            }
        )
        with pytest.raises(TrainerError) as refused:
            choose(config, NONE)
        assert refused.value.exit_code == 2
        return str(refused.value)

    assert "this run trains no vocoder: add --networks acoustic,vocoder" in said("acoustic", "split")
    for strategy in ("single", "mirrored"):
        assert f"has no effect with --strategy {strategy}" in said("acoustic,vocoder", strategy)
    assert "has no effect over hosts" in said("acoustic,vocoder", None, **HOSTS)


def test_devices_are_planned_only_where_strategy_auto_is_decided() -> None:
    """A program that prepares devices itself must not pass it over."""
    assert "voxyard.trainer.autotune.tuner.choose_strategy(config)" in refusal(TWO, strategy="auto")


def test_devices_are_planned_only_where_auto_is_carried_out() -> None:
    """With `--auto`: a program that prepares devices itself must not pass it over."""
    assert "voxyard.trainer.devices.auto_settings.apply_auto_settings(config)" in refusal(TWO, auto=True)


def test_without_ids_one_gpu_trains() -> None:
    """The default."""
    made = plan(FOUR)
    assert (made.strategy, [one.physical for one in made.assigned]) == ("single", [0])


def test_single_may_name_its_gpu() -> None:
    """`--strategy single --model-gpu 2`; the data GPU would be ignored and is refused."""
    assert plan(FOUR, data={"model_gpu": 2}, strategy="single").of("model").physical == 2
    assert "--data-gpu 0 has no effect" in refusal(FOUR, data=pair(0, 1), strategy="single")


def test_mirrored_takes_every_visible_gpu_and_no_ids() -> None:
    assert [one.physical for one in plan(FOUR, strategy="mirrored").assigned] == [0, 1, 2, 3]
    assert "--model-gpu 1 has no effect" in refusal(FOUR, data={"model_gpu": 1}, strategy="mirrored")
    assert "found 1" in refusal(host_of(card(0)), strategy="mirrored")


def test_split_without_ids_names_the_flags() -> None:
    assert "--data-gpu ID --model-gpu ID" in refusal(TWO, strategy="split")


# -- the order of the devices --------------------------------------------------------------------------------


def test_another_order_in_cuda_is_an_error_that_shows_both() -> None:
    """An index must mean nvidia-smi's GPU."""
    swapped = host_of(card(0), card(1), cuda=(1, 0))
    for message in (refusal(swapped, data=pair(0, 1)), refusal(swapped)):
        assert "nvidia-smi (NVML): 0 = 00000000:17:00.0, 1 = 00000000:65:00.0" in message
        assert "CUDA:              0 = 0000:65:00.0, 1 = 0000:17:00.0" in message
        assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in message


def test_ids_and_a_renumbering_cuda_visible_devices_do_not_mix() -> None:
    """With CUDA_VISIBLE_DEVICES=2,3 an index 0 would be nvidia-smi's 2."""
    renumbered = host_of(*(card(i) for i in range(4)), cuda=(2, 3), visible="2,3")
    assert "unset it" in refusal(renumbered, data=pair(0, 1))


def test_cuda_visible_devices_chooses_gpus_where_no_ids_are_given() -> None:
    renumbered = host_of(*(card(i) for i in range(4)), cuda=(2, 3), visible="2,3")
    made = plan(renumbered, strategy="mirrored")
    assert [(one.physical, one.gpu.index) for one in made.assigned if one.gpu] == [(0, 2), (1, 3)]


def test_a_gpu_that_is_hidden_cannot_be_named() -> None:
    hidden = host_of(*(card(i) for i in range(4)), cuda=(0, 1), visible="0,1")
    message = refusal(hidden, data=pair(0, 3))
    assert "--model-gpu 3 is not a device here" in message
    assert "CUDA_VISIBLE_DEVICES=0,1 hides some" in message
    assert "CUDA sees no GPU" in refusal(host_of(card(0), cuda=(), visible=""))


def test_a_gpu_unknown_to_nvml_is_an_error() -> None:
    stranger = host_of(card(0), card(1), cuda_bus_ids=("0000:17:00.0", "0000:65:00.0", "0000:ff:00.0"))
    assert "number the GPUs differently" in refusal(stranger, data=pair(0, 1))


# -- memory --------------------------------------------------------------------------------------------------


def test_limits_go_to_their_roles() -> None:
    made = plan(TWO, data=pair(1, 0), enable_memory_isolation=True, data_gpu_memory=6000, model_gpu_memory=20000)
    assert (made.of("data").limit_mib, made.of("model").limit_mib) == (6000, 20000)
    assert made.isolation


def test_without_isolation_there_is_no_limit() -> None:
    """Growth instead."""
    assert [one.limit_mib for one in plan(TWO, data=pair(0, 1)).assigned] == [None, None]


def test_a_limit_above_the_card_is_refused_with_the_numbers() -> None:
    message = refusal(TWO, data=pair(0, 1), enable_memory_isolation=True, model_gpu_memory=30000)
    assert "--model-gpu-memory 30000 MiB cannot be applied: GPU 1" in message
    assert "has 24564 MiB" in message


# -- parts of a card -----------------------------------------------------------------------------------------

ONE = host_of(card(0))


def limits(made: DevicePlan) -> list[int | None]:
    return [one.limit_mib for one in made.assigned]


def test_parts_share_what_is_free_beside_context_and_libraries() -> None:
    made = plan(ONE, data=pair(0, 1), gpu_parts=2)
    assert limits(made) == [(24000 - 2048) // 2] * 2
    assert [(one.physical, one.part) for one in made.assigned] == [(0, 0), (0, 1)]


def test_a_part_without_a_limit_gets_what_the_other_leaves() -> None:
    made = plan(ONE, data=pair(0, 1), gpu_parts=2, enable_memory_isolation=True, data_gpu_memory=4000)
    assert limits(made) == [4000, 24000 - 2048 - 4000]


def test_limits_of_parts_that_are_more_than_the_card_are_refused_with_their_sum() -> None:
    """Each of them alone would fit."""
    more = {"enable_memory_isolation": True, "data_gpu_memory": 10000, "model_gpu_memory": 15000}
    message = refusal(ONE, data=pair(0, 1), gpu_parts=2, **more)
    assert "--data-gpu-memory 10000 and --model-gpu-memory 15000 MiB are 25000 MiB on one card" in message
    assert "has 24564 MiB" in message
    assert limits(plan(TWO, data=pair(0, 1), **more)) == [10000, 15000]


def test_parts_of_a_busy_card_are_refused() -> None:
    assert "only 2000 MiB free, too little for 2 parts" in refusal(
        host_of(card(0, free=2000)), data=pair(0, 1), gpu_parts=2
    )


def test_mirrored_takes_all_parts_of_all_cards() -> None:
    """More logical GPUs than cards: TensorFlow then takes RING, and never NCCL, which takes a card once."""
    made = plan(TWO, strategy="mirrored", gpu_parts=2)
    assert [(one.physical, one.part) for one in made.assigned] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_parts_over_hosts_are_refused() -> None:
    hosts: dict[str, Any] = {"hosts": "10.0.0.1:1,10.0.0.2:1", "host_index": 0, "batch_size": 8}
    assert "--gpu-parts 2 with --hosts" in refusal(ONE, gpu_parts=2, strategy="multiworker", **hosts)


def test_parts_on_a_cpu_are_refused() -> None:
    assert "--gpu-parts 2 has no effect on CPU devices" in refusal(ONE, gpu_parts=2, device="cpu")


def test_a_limit_above_what_is_free_is_refused_with_the_numbers() -> None:
    """A limit is never above what is free."""
    busy = host_of(card(0, free=3000), card(1))
    message = refusal(busy, data=pair(0, 1), enable_memory_isolation=True, data_gpu_memory=4000)
    assert "--data-gpu-memory 4000 MiB" in message
    assert "free at present only 3000 MiB" in message


def test_isolation_without_limits_takes_the_recommended_ones_and_reports_it() -> None:
    """Policy `recommended` is the default."""
    made = plan(host_of(card(0, 12288, 12000), card(1)), data=pair(0, 1), enable_memory_isolation=True)
    assert [one.limit_mib for one in made.assigned] == [4096, 16384]
    assert len(made.notes) == 2
    assert "--data-gpu-memory is not given: 4096 MiB" in made.notes[0]


def test_a_full_card_has_no_recommended_limit() -> None:
    message = refusal(host_of(card(0, free=900)), enable_memory_isolation=True)
    assert "only 900 of 24564 MiB free" in message


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_limits_without_isolation_are_refused(device: str) -> None:
    """A setting without effect is none."""
    message = refusal(TWO, data=pair(0, 1), device=device, data_gpu_memory=1000, model_gpu_memory=1000)
    assert "--data-gpu-memory and --model-gpu-memory without --enable-memory-isolation has no effect" in message


@pytest.mark.parametrize("strategy", ["single", "mirrored"])
def test_a_data_limit_without_a_data_gpu_is_refused(strategy: str) -> None:
    message = refusal(TWO, strategy=strategy, enable_memory_isolation=True, data_gpu_memory=1000)
    assert "--data-gpu-memory has no effect" in message


def test_a_mirrored_limit_holds_on_every_replica() -> None:
    """Each GPU computes the whole model on its part of the batch."""
    made = plan(TWO, strategy="mirrored", enable_memory_isolation=True, model_gpu_memory=9000)
    assert [one.limit_mib for one in made.assigned] == [9000, 9000]


def test_limits_on_a_cpu_are_reported_to_be_unenforceable() -> None:
    made = plan(NONE, data=pair(0, 1), device="cpu", enable_memory_isolation=True, data_gpu_memory=100)
    assert [one.limit_mib for one in made.assigned] == [None, None]
    assert any("not enforceable" in note for note in made.notes)


def test_the_batch_follows_the_model_gpu_unless_it_is_set() -> None:
    """The recommended training.batch_size is that of the memory of the GPU that has the model."""
    mixed = host_of(card(0), card(1, 12288, 12000))
    assert plan(mixed, data=pair(0, 1)).batch_size == 8
    assert plan(mixed, data=pair(1, 0)).batch_size == 16
    assert plan(mixed, data=pair(1, 0), batch_size=5).batch_size == 5
    assert plan(mixed, strategy="mirrored").batch_size == 8


def test_memory_that_is_not_reported_asks_for_the_numbers() -> None:
    silent = host_of(card(0, None, None))
    assert "give --batch-size" in refusal(silent)
    assert "give --model-gpu-memory MIB" in refusal(silent, batch_size=4, enable_memory_isolation=True)
    assert plan(silent, batch_size=4).batch_size == 4


# -- the command to use instead ------------------------------------------------------------------------------


def test_a_refused_profile_names_a_profile_and_not_a_training(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pasted, the command must do what was asked for; a flag that it does not take is left out."""

    def refused(config: TrainConfig, **_: Any) -> None:
        choose(config, NONE)

    monkeypatch.setattr("voxyard.diagnose.profile.run.profile", refused)
    voxyard = Command(capsys, monkeypatch)
    monkeypatch.setenv("VOXYARD_TRAIN_LEARNING_RATE", "0.002")
    typed = ["--train-data", "/corpus", "--device", "gpu", "--num-steps", "7", "--batch-size", "4", "--json"]
    ended = voxyard("profile", *typed)
    assert ended.code == 2
    message = ended.err
    wanted = "voxyard profile --train-data /corpus --batch-size 4 --num-steps 7 --json --device cpu"
    assert f"On the CPU instead: {wanted}" in message
    assert "voxyard train " not in message
