"""Device placement: chooses a run's devices and their limits from facts, before anything is touched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NoReturn

from voxyard.host.limits import HEADROOM_MIB, recommend
from voxyard.host.nvml import Gpu, same_bus
from voxyard.host.plan import listing
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.devices.cuda_kernels import CudaKernels
from voxyard.trainer.devices.device_ids import (
    INSUFFICIENT,
    AvailableDevice,
    HostDevices,
    Placement,
    Role,
    command,
    cpu_refusal,
    gpu_refusal,
    select_devices,
)
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.hosts.addresses import HostGroup, host_group, refuse_uneven

if TYPE_CHECKING:
    from voxyard.trainer.devices.batch_size import FittingBatch
    from voxyard.trainer.sampler import Bucket

Kind = Literal["gpu", "cpu"]

CPU_BATCH_SIZE = 8


@dataclass(frozen=True, slots=True)
class Assigned:
    """One device in one role. `physical` is its number before, `logical` the one within TensorFlow's run."""

    role: Role
    physical: int
    logical: int
    gpu: Gpu | None = None
    limit_mib: int | None = None
    part: int = 0  # of a card that is cut into logical GPUs
    parts: int = 1  # of it


@dataclass(frozen=True, slots=True)
class Threads:
    """Sizes of TensorFlow's two thread pools: of one operation, and of operations side by side."""

    intra_op: int
    inter_op: int


@dataclass(frozen=True, slots=True)
class DevicePlan:
    """Complete plan of what `devices.apply` sets in TensorFlow."""

    kind: Kind
    strategy: Placement
    assigned: tuple[Assigned, ...]  # split: data, model; single: model; mirrored: a model for each replica
    batch_size: int
    isolation: bool = False
    cpu_devices: int = 1
    threads: Threads | None = None
    notes: tuple[str, ...] = ()  # for the log
    hosts: HostGroup | None = None  # of a run over hosts

    def of(self, role: Role) -> Assigned:
        """The (first) device of a role; where the data stage has none of its own, the model's."""
        return next((one for one in self.assigned if one.role == role), self.assigned[0])


def choose(config: TrainConfig, host: HostDevices, longest: Bucket | None = None) -> DevicePlan:
    """The plan for this configuration on this host; `longest` is the longest bucket, where the corpus is known.

    Raises TrainerError; never falls back to another mode.
    """
    refuse_settings_without_effect(config)
    group = host_group(config)
    if kind_of(config, host) == "cpu":
        plan = _on_cpu(config, host)
    else:
        check_device_order(config, host)
        plan = _on_gpus(config, host, longest)
    return plan if group is None else _over_hosts(config, plan, group)


def requested_strategy(config: TrainConfig) -> Placement:
    """The strategy that was asked for, or that follows from the ids; over hosts that within each of them."""
    asked = config.training.strategy
    if asked == "auto":
        raise TrainerError(
            "training.strategy auto is not resolved yet: train() resolves it, and a program that prepares devices "
            "itself calls voxyard.trainer.autotune.tuner.choose_strategy(config) first"
        )
    if asked is None or asked == "multiworker":
        return "single" if config.data.data_gpu is None and config.data.model_gpu is None else "split"
    return asked


def refuse_settings_without_effect(config: TrainConfig) -> None:
    """Raises TrainerError for settings that would be ignored silently."""
    training, data = config.training, config.data
    if training.auto:
        raise TrainerError(
            "training.auto is not resolved yet: train() resolves it, and a program that prepares devices itself "
            "calls voxyard.trainer.devices.auto_settings.apply_auto_settings(config) first"
        )
    group = host_group(config)
    strategy = requested_strategy(config)
    refuse_vocoder_on(config, strategy, over_hosts=group is not None)
    if strategy != "split" and data.data_gpu is not None:
        raise TrainerError(
            f"--data-gpu {data.data_gpu} has no effect with --strategy {strategy}: leave it out, "
            "or use --strategy split"
        )
    if strategy == "mirrored" and data.model_gpu is not None:
        raise TrainerError(
            f"--model-gpu {data.model_gpu} has no effect with --strategy mirrored, which trains on all "
            "devices: leave it out (CUDA_VISIBLE_DEVICES chooses among GPUs, --cpu-devices counts CPU devices)"
        )
    if strategy != "split" and training.data_gpu_memory is not None:
        raise TrainerError(
            f"--data-gpu-memory has no effect with strategy {strategy}, which has no data GPU: use --model-gpu-memory"
        )
    if group is not None and training.gpu_parts > 1:
        raise TrainerError(
            f"--gpu-parts {training.gpu_parts} with --hosts: parts of a card are for one host, where NCCL, which takes "
            "a card once, has no part in it: leave one of them out"
        )
    limits = {"--data-gpu-memory": training.data_gpu_memory, "--model-gpu-memory": training.model_gpu_memory}
    given = " and ".join(flag for flag, value in limits.items() if value is not None)
    if given and not training.enable_memory_isolation:
        raise TrainerError(f"{given} without --enable-memory-isolation has no effect: add it")


def refuse_vocoder_on(config: TrainConfig, strategy: Placement | None, *, over_hosts: bool) -> None:
    """Raises TrainerError where --vocoder-on would be ignored silently; `strategy` is None while it is to be chosen."""
    asked, model = config.training.vocoder_on, config.model
    if asked is None:
        return
    if model.module is None and model.networks == "acoustic":
        raise TrainerError(
            f"--vocoder-on {asked} has no effect, this run trains no vocoder: add --networks acoustic,vocoder, or "
            "leave it out"
        )
    if over_hosts:
        raise TrainerError(
            f"--vocoder-on {asked} has no effect over hosts, where the model device of each trains all networks in "
            "turn: leave it out"
        )
    if strategy is not None and strategy != "split":
        raise TrainerError(
            f"--vocoder-on {asked} has no effect with --strategy {strategy}, where every device that trains has all "
            "networks: leave it out, or use --strategy split"
        )


def check_device_order(config: TrainConfig, host: HostDevices) -> None:
    """Raises TrainerError where CUDA does not number the GPUs as nvidia-smi does.

    Without ids, a CUDA_VISIBLE_DEVICES of the user's is a choice of GPUs like any other. With ids it would
    give them another meaning than nvidia-smi's, so both orders must then agree.
    """
    if host.ordered:
        return
    pairs = zip(host.gpus, host.cuda_bus_ids, strict=False)
    differs = any(not same_bus(gpu.pci_bus_id, bus) for gpu, bus in pairs)
    unknown = any(_by_bus(host.gpus, bus) is None for bus in host.cuda_bus_ids)
    visible = host.cuda_visible_devices
    without_ids = config.data.data_gpu is None and config.data.model_gpu is None
    if not unknown and (not differs or (visible is not None and without_ids)):
        return
    remedy = (
        f"CUDA_VISIBLE_DEVICES={visible} renumbers the GPUs: unset it, and name GPUs by nvidia-smi's indices"
        if visible is not None
        else "CUDA was loaded in this process before CUDA_DEVICE_ORDER=PCI_BUS_ID was set: start a new "
        "process with it in its environment"
    )
    raise TrainerError(
        "CUDA and nvidia-smi number the GPUs differently, so an index could mean the wrong card.\n"
        f"  nvidia-smi (NVML): {_order(gpu.pci_bus_id for gpu in host.gpus)}\n"
        f"  CUDA:              {_order(host.cuda_bus_ids)}\n"
        f"{remedy}"
    )


def _over_hosts(config: TrainConfig, plan: DevicePlan, group: HostGroup) -> DevicePlan:
    """The plan of one of several hosts. Raises TrainerError where it cannot be."""
    if config.training.batch_size is None:
        raise TrainerError(
            f"over {group.count} hosts --batch-size counts the clips of all of them together, and must be given: "
            f"{plan.batch_size * group.count} would be {plan.batch_size} on each, as on this host alone"
        )
    refuse_uneven(group, config.training.batch_size)
    if plan.kind == "cpu":  # one is like the other, and the first step never ends where the model is on another
        first = plan.of("model").logical
        numbers = {first: 0, 0: first}
        assigned = tuple(replace(one, logical=numbers.get(one.logical, one.logical)) for one in plan.assigned)
        plan = replace(plan, assigned=assigned)
    elif plan.of("model").logical != 0:  # the device on which TensorFlow reduces
        raise TrainerError(
            "over hosts the model GPU must be the first that CUDA sees in this process: unset CUDA_VISIBLE_DEVICES "
            "(voxyard sets it itself), or put the model GPU first in it"
        )
    return replace(plan, hosts=group)


# -- what kind -----------------------------------------------------------------------------------------------


def kind_of(config: TrainConfig, host: HostDevices) -> Kind:
    """Kind of devices, GPU or CPU, for this run. Raises TrainerError where GPUs are asked for and cannot be used."""
    asked = config.training.device
    usable = bool(host.gpus) and host.cuda_build
    if asked == "cpu":
        return "cpu"
    if usable:
        return "gpu"
    if asked == "gpu" or config.data.data_gpu is not None or config.data.model_gpu is not None:
        _refuse_without_gpus(config, host)
    return "cpu"


def _refuse_without_gpus(config: TrainConfig, host: HostDevices) -> NoReturn:
    what = (
        "the installed TensorFlow is built without CUDA and cannot use this host's GPUs: install "
        "tensorflow[and-cuda] of the same version in place of tensorflow-cpu"
        if host.gpus
        else "no NVIDIA GPU was found (is the driver installed and, in a container, passed through?)"
    )
    strategy = requested_strategy(config)
    if strategy == "single":
        raise TrainerError(f"{what}\n{listing(host.gpus)}\nOn the CPU instead: {command(config, '--device cpu')}")
    both = "--strategy mirrored" if strategy == "mirrored" else "--data-gpu 0 --model-gpu 1"
    raise TrainerError(
        f"{INSUFFICIENT}: Multi-GPU requires at least 2 GPUs, found {len(host.gpus)}; {what}\n"
        f"{listing(host.gpus)}\n"
        f"On a single device instead: {command(config, '--device cpu')}\n"
        f"The same on logical CPU devices: {command(config, f'--device cpu {both}')}"
    )


# -- on CPU devices ------------------------------------------------------------------------------------------


def _on_cpu(config: TrainConfig, host: HostDevices) -> DevicePlan:
    training, strategy = config.training, requested_strategy(config)
    if training.gpu_parts > 1:
        raise TrainerError(
            f"--gpu-parts {training.gpu_parts} has no effect on CPU devices, of which --cpu-devices makes more: "
            "leave it out"
        )
    candidates = [AvailableDevice(number, number) for number in range(training.cpu_devices)]
    taken = select_devices(config, strategy, candidates, cpu_refusal(config, training.cpu_devices))
    return DevicePlan(
        kind="cpu",
        strategy=strategy,
        assigned=tuple(Assigned(role, one.number, one.number) for role, one in taken),
        batch_size=training.batch_size or CPU_BATCH_SIZE,
        cpu_devices=training.cpu_devices,
        threads=cpu_threads(training.device_threads, host.cores, len(taken)),
        notes=tuple(_cpu_notes(config, host)),
    )


def _cpu_notes(config: TrainConfig, host: HostDevices) -> Iterable[str]:
    if config.training.device == "auto" and host.gpus:
        yield (
            "Training on the CPU, the GPUs of this host stay idle: TensorFlow here is built without CUDA "
            "(install tensorflow[and-cuda] to use them)"
        )
    elif config.training.device == "auto":
        yield "Training on the CPU: no NVIDIA GPU found"
    if config.training.enable_memory_isolation:
        yield "Memory limits are not enforceable on a CPU device (TensorFlow refuses them there): none is set"


def cpu_threads(asked: int | None, cores: int, in_use: int) -> Threads:
    """Thread pools for `in_use` CPU devices: the operations of each keep to its share of the cores.

    The inter-op pool carries whole functions, several a device: loops inside them take one more each.
    """
    return Threads(intra_op=asked or max(1, cores // in_use), inter_op=max(2 * in_use, cores // in_use))


# -- on GPUs -------------------------------------------------------------------------------------------------


def _on_gpus(config: TrainConfig, host: HostDevices, longest: Bucket | None) -> DevicePlan:
    strategy = requested_strategy(config)
    visible = [(ordinal, _by_bus(host.gpus, bus)) for ordinal, bus in enumerate(host.cuda_bus_ids)]
    parts = config.training.gpu_parts  # an id counts them through the cards
    candidates = [
        AvailableDevice(ordinal * parts + part, gpu.index * parts + part, gpu)
        for ordinal, gpu in visible
        if gpu is not None
        for part in range(parts)
    ]
    if not candidates:
        raise TrainerError(
            f"CUDA sees no GPU of this host (CUDA_VISIBLE_DEVICES={host.cuda_visible_devices!r}): unset it\n"
            f"{listing(host.gpus)}\nOn the CPU instead: {command(config, '--device cpu')}"
        )
    taken = select_devices(config, strategy, candidates, gpu_refusal(config, host, len(candidates)))
    # TensorFlow numbers the visible GPUs anew, in the order of their old numbers.
    logical = {number: rank for rank, number in enumerate(sorted(one.number for _, one in taken))}
    assigned = tuple(
        Assigned(role, one.number // parts, logical[one.number], one.gpu, part=one.number % parts, parts=parts)
        for role, one in taken
    )
    notes = _check_kernels(host.kernels, assigned)
    if config.training.enable_memory_isolation or parts > 1:  # TensorFlow wants a limit for each part of a card
        assigned, reduced = _limited(config, assigned)
        notes += reduced
    if parts > 1:
        notes += (f"--gpu-parts {parts}: logical GPUs share a card, a figure of theirs is not that of {parts} cards",)
    threads, rows = config.training.device_threads, config.training.batch_size
    if rows is None:
        batch = _recommended_batch(config, assigned, longest)
        rows, notes = batch.clips, (*notes, *([batch.reduced] if batch.reduced else []))
    return DevicePlan(
        kind="gpu",
        strategy=strategy,
        assigned=assigned,
        batch_size=rows,
        isolation=config.training.enable_memory_isolation or parts > 1,
        threads=None if threads is None else Threads(intra_op=threads, inter_op=0),
        notes=notes,
    )


def _check_kernels(kernels: CudaKernels, assigned: Sequence[Assigned]) -> tuple[str, ...]:
    """Notes on GPUs whose kernels are compiled at the start. Raises TrainerError for a GPU that cannot run any."""
    notes = []
    for gpu in {one.physical: _card(one) for one in assigned}.values():
        if (fault := kernels.fault(gpu.compute_capability)) is not None:
            raise TrainerError(f"GPU {gpu.index} ({gpu.name}) cannot train with this TensorFlow: {fault}")
        if kernels.compiled_at_start(gpu.compute_capability):
            notes.append(
                f"GPU {gpu.index}: the driver compiles TensorFlow's kernels for it, which takes minutes at the first "
                "start (CUDA_CACHE_PATH keeps them)"
            )
    return tuple(notes)


def _recommended_batch(config: TrainConfig, assigned: Sequence[Assigned], longest: Bucket | None) -> FittingBatch:
    """The least that is recommended for one of the GPUs that train."""
    from voxyard.trainer.devices.batch_size import fitting_batch  # brings NumPy

    found = []
    for one in assigned:
        gpu = _card(one)
        if one.role == "model" and gpu.memory_total_mib is not None:
            free = gpu.memory_total_mib if gpu.memory_free_mib is None else gpu.memory_free_mib
            found.append(
                fitting_batch(
                    config,
                    recommend(gpu.memory_total_mib).batch_size,
                    free - HEADROOM_MIB if one.limit_mib is None else one.limit_mib,
                    capability=gpu.compute_capability,
                    longest=longest,
                )
            )
    if not found:
        raise TrainerError("the driver does not report the GPU's memory, so no batch size follows: give --batch-size")
    return min(found, key=lambda batch: batch.clips)


def _limited(config: TrainConfig, assigned: Sequence[Assigned]) -> tuple[tuple[Assigned, ...], tuple[str, ...]]:
    asked = {"data": config.training.data_gpu_memory, "model": config.training.model_gpu_memory}
    limited, notes = [], []
    for one in assigned:
        limit = asked[one.role]
        if limit is None:
            on_card = [asked[each.role] for each in assigned if each.physical == one.physical]
            limit = _recommended_limit(one) if one.parts == 1 else _equal_part(one, on_card)
            how = f"as recommended for {_card(one).name}" if one.parts == 1 else f"a part of GPU {_card(one).index}"
            notes.append(f"{_flag(one)} is not given: {limit} MiB, {how}")
        else:
            _refuse_impossible(limit, one)
        limited.append(replace(one, limit_mib=limit))
    _refuse_too_many_parts(limited)
    return tuple(limited), tuple(dict.fromkeys(notes))


def _equal_part(one: Assigned, on_card: Sequence[int | None]) -> int:
    """MiB of one of the equal parts of a card's free memory, less what TensorFlow and its libraries need beside it.

    `on_card` has what was asked for on it, None for each part that shares the rest.
    """
    gpu, given = _card(one), [limit for limit in on_card if limit is not None]
    if gpu.memory_free_mib is None:
        raise TrainerError(f"the driver does not report the memory of GPU {gpu.index}: give {_flag(one)} MIB")
    share = max(one.parts - len(given), 1)
    limit = (gpu.memory_free_mib - 2 * HEADROOM_MIB - sum(given)) // share
    if limit < 1:
        raise TrainerError(
            f"GPU {gpu.index} ({gpu.name}) has only {gpu.memory_free_mib} MiB free, too little for {one.parts} parts "
            f"beside {2 * HEADROOM_MIB} MiB for CUDA's context and libraries and {sum(given)} MiB that were given: "
            "free the card, or give less"
        )
    return limit


def _refuse_too_many_parts(limited: Sequence[Assigned]) -> None:
    """Raises TrainerError where the limits of the parts of a card are more than it has, each of them being less."""
    for card in {one.physical for one in limited if one.parts > 1}:
        parts = [one for one in limited if one.physical == card]
        gpu, total = _card(parts[0]), sum(one.limit_mib or 0 for one in parts)
        for what, has in (("has", gpu.memory_total_mib), ("has free at present only", gpu.memory_free_mib)):
            if has is not None and total > has:
                asked = " and ".join(f"{_flag(one)} {one.limit_mib}" for one in parts)
                raise TrainerError(
                    f"{asked} MiB are {total} MiB on one card, and GPU {gpu.index} ({gpu.name}) {what} {has} MiB, of "
                    "which CUDA's context and libraries take some too: give less, or free the card"
                )


def _refuse_impossible(limit: int, one: Assigned) -> None:
    gpu = _card(one)
    for what, has in (("has", gpu.memory_total_mib), ("has free at present only", gpu.memory_free_mib)):
        if has is not None and limit > has:
            raise TrainerError(
                f"{_flag(one)} {limit} MiB cannot be applied: GPU {gpu.index} ({gpu.name}) {what} {has} MiB; "
                "give less, or free the card"
            )


def _recommended_limit(one: Assigned) -> int:
    gpu = _card(one)
    total, free = gpu.memory_total_mib, gpu.memory_free_mib
    if total is None:
        raise TrainerError(
            f"the driver does not report the memory of GPU {gpu.index} ({gpu.name}): give {_flag(one)} MIB"
        )
    limit = recommend(total).limit_mib(one.role)
    if free is not None:
        limit = min(limit, free - HEADROOM_MIB)
    if limit < 1:
        raise TrainerError(
            f"GPU {gpu.index} ({gpu.name}) has only {free} of {total} MiB free, too little to train: "
            f"free the card, or give {_flag(one)} MIB"
        )
    return limit


def _flag(one: Assigned) -> str:
    return f"--{one.role}-gpu-memory"


def _card(one: Assigned) -> Gpu:
    if one.gpu is None:
        raise ValueError(f"device {one.physical} is not a GPU")
    return one.gpu


def _by_bus(gpus: Sequence[Gpu], bus_id: str) -> Gpu | None:
    return next((gpu for gpu in gpus if same_bus(gpu.pci_bus_id, bus_id)), None)


def _order(bus_ids: Iterable[str]) -> str:
    return ", ".join(f"{i} = {bus}" for i, bus in enumerate(bus_ids)) or "none"
