"""Devices: sets TensorFlow's runtime up for a run, before anything else of TensorFlow is touched."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from voxyard.host.cores import whole_cores
from voxyard.host.cuda import cuda_bus_ids
from voxyard.host.errors import HostError
from voxyard.host.nvml import Gpu, gpus
from voxyard.host.out_of_work import OutOfWork, SickDevices
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.devices.compilation_cache import (
    CompilationCache,
    leave_trials_out,
    use_compilation_cache,
    user_cache,
)  # fmt: skip
from voxyard.trainer.devices.cuda_kernels import CudaKernels
from voxyard.trainer.devices.device_ids import AvailableDevice, HostDevices, Placement, Role
from voxyard.trainer.devices.placement import (
    Assigned,
    DevicePlan,
    Kind,
    Threads,
    choose,
    refuse_settings_without_effect,
    requested_strategy,
)
from voxyard.trainer.devices.tensorflow_import import import_tensorflow
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.hosts.addresses import HostGroup, without_hosts
from voxyard.trainer.hosts.facts import facts_of
from voxyard.trainer.hosts.meeting import meet
from voxyard.trainer.sampler import Bucket

if TYPE_CHECKING:
    from types import ModuleType

    from voxyard.trainer.hosts.collectives import Hosts

log = logging.getLogger("voxyard.trainer")

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Devices:
    """Devices of a run under TensorFlow's names, with the limits and threads in force."""

    kind: Kind
    strategy: Placement
    data: str  # e.g. /device:GPU:0; in single and mirrored mode the model's
    model: str
    replicas: tuple[str, ...]  # mirrored: all; else the model device
    batch_size: int  # clips in a micro-batch on one device: as set, or as recommended
    description: tuple[str, ...]  # a line a device, for people
    limits: Mapping[str, int | None]  # by role, MiB that the allocator may take; None is growth (GPU) or no limit (CPU)
    threads: Threads | None
    cards: tuple[tuple[Role, Gpu], ...] = ()  # real GPUs only
    compute_capability: tuple[int, int] | None = None  # the least of the GPUs that train
    hosts: Hosts | None = None  # of a run over hosts
    cache: CompilationCache | None = None  # of compiled code, on disk


def prepare_devices(config: TrainConfig, *, corpus: str = "", longest: Bucket | None = None) -> Devices:
    """Chooses the devices and configures TensorFlow for them, with the user's cache of compiled code.

    A batch size that is not set follows from the memory and the `longest` bucket of the corpus, where that is known.
    Over hosts it waits for the others, which must have the same `corpus` (a fingerprint), and connects them. Must run
    before TensorFlow's runtime starts: device order, visibility, logical devices, limits and growth can only be set
    then. Raises TrainerError for what the host cannot give.
    """
    refuse_settings_without_effect(config)
    host = inspect_host(config)
    plan = choose(config, host, longest)
    tensorflow = import_tensorflow()
    devices = describe(plan)
    if (why := SickCards(devices.cards).why(test=True)) is not None:
        raise TrainerError(f"{why}; or name other GPUs: --data-gpu, --model-gpu")
    cache = _compilation_cache(config, plan, tensorflow) if resolve_xla(config, devices) else None
    if plan.hosts is not None:
        facts = facts_of(
            config,
            gpu=plan.of("model").gpu,
            precision=resolve_precision(config, devices),
            xla=resolve_xla(config, devices),
            tensorflow=tensorflow.__version__,
            corpus=corpus,
        )
        meet(plan.hosts, facts, wait=config.training.hosts_wait, allow_mixed=config.training.allow_mixed)
    hosts = apply(plan, tensorflow)
    _announce(plan)
    return replace(devices, hosts=hosts, cache=cache)


class SickCards:
    """Whether a GPU of a run is out of work, by the host's file of sick GPUs."""

    def __init__(self, cards: Sequence[tuple[Role, Gpu]]) -> None:
        self._gpus = [gpu for _, gpu in cards]
        file = OutOfWork.of_host() if self._gpus else None
        self._sick = None if file is None else SickDevices(file)

    def why(self, *, test: bool = False) -> str | None:
        """Which one, and why; None where all may work. With `test` one that was reset is tested first."""
        if self._sick is None:
            return None
        return next((why for gpu in self._gpus if (why := self._sick.why(gpu, test=test, wait=test))), None)


def _compilation_cache(config: TrainConfig, plan: DevicePlan, tensorflow: ModuleType) -> CompilationCache | None:
    """The cache of compiled code that TensorFlow is told of: of CPU devices where a folder was given for it."""
    global _cache
    asked = config.training.xla_cache
    if _runtime_started():
        return _cache
    if asked is None and plan.kind == "cpu":
        return None
    library = Path(tensorflow.sysconfig.get_lib()) / "libtensorflow_cc.so.2"
    _cache = use_compilation_cache(
        plan, asked or user_cache(os.environ), os.environ, library=library, version=tensorflow.__version__
    )
    return _cache


def prepare_one_device(config: TrainConfig) -> None:
    """Configures TensorFlow for work on one device: the data GPU, else the model GPU, else the first. Its memory grows.

    Where TensorFlow's runtime runs already, its devices stay as they are. Raises TrainerError.
    """
    data = config.data
    alone = {"data.data_gpu": None, "data.model_gpu": data.model_gpu if data.data_gpu is None else data.data_gpu}
    alone |= {"training.strategy": "single", "training.auto": False, "training.batch_size": 1}
    alone |= {"training.vocoder_on": None, "training.enable_memory_isolation": False}
    alone |= {"training.data_gpu_memory": None, "training.model_gpu_memory": None}
    config = without_hosts(config).changed(alone)
    host, tensorflow = inspect_host(config), import_tensorflow()
    if not _runtime_started():
        apply(choose(config, host), tensorflow)


def inspect_host(config: TrainConfig) -> HostDevices:
    """Devices that a run can be placed on here. TensorFlow is imported for that, and its runtime is not started.

    Raises TrainerError where the host's GPUs cannot be asked for.
    """
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    if config.model.module is None:
        leave_trials_out(os.environ)
    found = () if config.training.device == "cpu" else _ask_host(gpus)
    ordered = _model_gpu_first(config, found)
    tensorflow = import_tensorflow()
    cuda_build = bool(tensorflow.test.is_built_with_cuda())
    return HostDevices(
        gpus=found,
        cuda_bus_ids=_ask_host(cuda_bus_ids) if found and cuda_build else (),
        cuda_build=cuda_build,
        cores=whole_cores(),
        cuda_visible_devices=os.environ.get("CUDA_VISIBLE_DEVICES"),
        kernels=CudaKernels.of_build(tensorflow.__version__, tensorflow.sysconfig.get_build_info()),
        ordered=ordered,
    )


def _model_gpu_first(config: TrainConfig, found: Sequence[Gpu]) -> bool:
    """Makes the model GPU of a split over hosts CUDA's first, on which TensorFlow reduces; True where it did.

    CUDA must not have been asked in this process. A CUDA_VISIBLE_DEVICES of the user's is kept.
    """
    if config.training.hosts is None or requested_strategy(config) != "split" or "CUDA_VISIBLE_DEVICES" in os.environ:
        return False
    asked = (config.data.model_gpu, config.data.data_gpu)
    pair = [gpu for each in asked for gpu in found if AvailableDevice(gpu.index, gpu.index, gpu).matches(str(each))]
    if len(pair) == 2:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpu.uuid for gpu in pair)
    return len(pair) == 2


def resolve_precision(config: TrainConfig, devices: Devices) -> str:
    """float32, bfloat16 or float16, as set; `auto` takes what the GPU has fast units for.

    bfloat16 from compute capability 8.0 (Ampere), float16 from 7.0 (Volta), float32 below and on a CPU
    (CUDA C++ Programming Guide, table of arithmetic throughput by compute capability).
    """
    if config.training.precision != "auto":
        return config.training.precision
    capability = devices.compute_capability
    if devices.kind == "cpu" or capability is None or capability < (7, 0):
        return "float32"
    return "bfloat16" if capability >= (8, 0) else "float16"


def resolve_xla(config: TrainConfig, devices: Devices) -> bool:
    """True where each device's function is compiled with XLA: as set, otherwise on GPUs only."""
    return devices.kind == "gpu" if config.training.xla is None else config.training.xla


def executor_scope(devices: Devices) -> AbstractContextManager[None]:
    """Executor scope for every call of a compiled function, the first one (which traces it) included.

    In a split over CPU devices it runs the operations of a function one after the other in the calling thread.
    TensorFlow would spread them over all cores otherwise: each device alone would seem faster, and two at once would
    get in each other's way (overlapped ÷ ideal rate on 2 cores: 0.76 without it, 1.0 with it). Elsewhere it does
    nothing: a GPU has its own queue, and a device that is alone may have all cores.
    """
    if devices.kind == "cpu" and devices.strategy == "split":
        import tensorflow as tf

        scope: AbstractContextManager[None] = tf.experimental.function_executor_type("SINGLE_THREADED_EXECUTOR")
        return scope
    return nullcontext()


# -- acting --------------------------------------------------------------------------------------------------

_applied: DevicePlan | None = None
_cache: CompilationCache | None = None  # that TensorFlow was told of before its runtime started


def apply(plan: DevicePlan, tensorflow: ModuleType) -> Hosts | None:
    """Configures TensorFlow, starts its runtime, and verifies the result; over hosts it returns their group.

    Raises TrainerError where the runtime already runs otherwise: a process has one device configuration.
    """
    global _applied
    if _runtime_started():
        if _applied is None or plan.hosts is not None or _setup(_applied) != _setup(plan):
            raise TrainerError(
                "TensorFlow's runtime has already started in this process with other devices, and cannot be set "
                "up anew: call prepare() or train() before anything else of TensorFlow, or start a new process"
            )
        return None
    try:
        if plan.threads is not None:
            tensorflow.config.threading.set_intra_op_parallelism_threads(plan.threads.intra_op)
            tensorflow.config.threading.set_inter_op_parallelism_threads(plan.threads.inter_op)
        if plan.kind == "cpu":
            _apply_cpu(plan, tensorflow)
        else:
            _apply_gpus(plan, tensorflow)
    except (ValueError, RuntimeError) as error:
        raise TrainerError(f"TensorFlow refuses this device configuration: {error}") from error
    hosts = None if plan.hosts is None else _connect(plan, plan.hosts)
    _start(plan, tensorflow)
    _applied = plan
    return hosts


def _connect(plan: DevicePlan, group: HostGroup) -> Hosts:
    from voxyard.trainer.hosts.collectives import LOST, Hosts

    try:
        return Hosts(group, gpu=plan.kind == "gpu", split=plan.strategy == "split")
    except LOST as error:
        raise TrainerError(f"TensorFlow could not connect the hosts: {error}", exit_code=75) from error


def _apply_cpu(plan: DevicePlan, tensorflow: ModuleType) -> None:
    config = tensorflow.config
    if len(plan.assigned) > 1 and plan.threads is not None and plan.threads.intra_op > 1:
        # Else all CPU devices share one pool of intra-op threads (tensorflow/core/common_runtime/local_device.cc).
        os.environ["TF_OVERRIDE_GLOBAL_THREADPOOL"] = "1"
    # The graph optimizer turns sums of three and more large tensors into variables, to which each is added as it comes:
    # the last digits would differ from run to run, and the single-threaded executor of executor_scope refuses them.
    config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    config.set_visible_devices([], "GPU")
    (cpu,) = config.list_physical_devices("CPU")
    config.set_logical_device_configuration(cpu, [config.LogicalDeviceConfiguration() for _ in range(plan.cpu_devices)])


def _apply_gpus(plan: DevicePlan, tensorflow: ModuleType) -> None:
    config = tensorflow.config
    physical = config.list_physical_devices("GPU")
    most = max(one.physical for one in plan.assigned)
    if len(physical) <= most:
        raise TrainerError(
            f"TensorFlow sees {len(physical)} GPUs where the driver has at least {most + 1}: its CUDA libraries "
            "do not fit (the lines that it logged above name what is missing); or train with --device cpu"
        )
    config.set_visible_devices([physical[number] for number in sorted(_by_card(plan))], "GPU")
    for number, parts in _by_card(plan).items():
        if parts[0].limit_mib is not None:
            limits = [config.LogicalDeviceConfiguration(memory_limit=one.limit_mib) for one in parts]
            config.set_logical_device_configuration(physical[number], limits)
        else:
            config.experimental.set_memory_growth(physical[number], True)


def _by_card(plan: DevicePlan) -> dict[int, list[Assigned]]:
    """The devices of each card, those of one card in the order in which TensorFlow numbers them."""
    found: dict[int, list[Assigned]] = {}
    for one in plan.assigned:
        found.setdefault(one.physical, []).append(one)
    return {number: sorted(parts, key=lambda each: each.logical) for number, parts in found.items()}


def _start(plan: DevicePlan, tensorflow: ModuleType) -> None:
    kind = plan.kind.upper()
    try:
        started = tensorflow.config.list_logical_devices(kind)
    except (RuntimeError, tensorflow.errors.OpError) as error:
        raise TrainerError(f"TensorFlow could not start on these devices: {error}", exit_code=1) from error
    if plan.hosts is not None:  # those of the other hosts are listed, too
        started = [one for one in started if f"/task:{plan.hosts.index}/" in one.name]
    expected = plan.cpu_devices if plan.kind == "cpu" else len(plan.assigned)
    if len(started) != expected:
        raise TrainerError(
            f"TensorFlow started {len(started)} {kind} devices where {expected} were configured", exit_code=1
        )
    if plan.kind == "gpu" and plan.isolation:
        _read_back(plan, tensorflow)


def _read_back(plan: DevicePlan, tensorflow: ModuleType) -> None:
    physical = tensorflow.config.list_physical_devices("GPU")
    for number, parts in _by_card(plan).items():
        held = tensorflow.config.get_logical_device_configuration(physical[number])
        limits = [configuration.memory_limit for configuration in held or ()]
        if limits != [one.limit_mib for one in parts]:
            wanted = " and ".join(f"{one.limit_mib} MiB on {_name(one)}" for one in parts)
            raise TrainerError(f"the limit of {wanted} is not in force: TensorFlow has {limits}")


def _setup(plan: DevicePlan) -> tuple[object, ...]:
    """Part of a plan that is fixed once the runtime has started."""
    on_gpu = sorted((one.physical, one.part, one.limit_mib or 0) for one in plan.assigned) if plan.kind == "gpu" else []
    return plan.kind, plan.cpu_devices, plan.threads, plan.isolation, on_gpu


def _runtime_started() -> bool:
    from tensorflow.python.eager import context  # there is no public way to ask

    return bool(context.context()._initialized)  # noqa: SLF001


def _ask_host(question: Callable[[], tuple[Answer, ...]]) -> tuple[Answer, ...]:
    try:
        return question()
    except HostError as error:
        raise TrainerError(f"{error} (--device cpu trains without GPUs)") from error


# -- telling -------------------------------------------------------------------------------------------------


def describe(plan: DevicePlan) -> Devices:
    """The devices of a plan under TensorFlow's names."""
    models = [one for one in plan.assigned if one.role == "model"]
    capabilities = [one.gpu.compute_capability for one in models if one.gpu is not None]
    known = [capability for capability in capabilities if capability is not None]
    return Devices(
        kind=plan.kind,
        strategy=plan.strategy,
        data=_device(plan, plan.of("data")),
        model=_device(plan, models[0]),
        replicas=tuple(_device(plan, one) for one in models),
        batch_size=plan.batch_size,
        description=tuple(f"{one.role}: {_name(one)} as {_device(plan, one)}" for one in plan.assigned),
        limits={one.role: one.limit_mib for one in plan.assigned},
        threads=plan.threads,
        cards=tuple((one.role, one.gpu) for one in plan.assigned if one.gpu is not None),
        compute_capability=min(known) if len(known) == len(models) else None,
    )


def _device(plan: DevicePlan, one: Assigned) -> str:
    return f"/device:{plan.kind.upper()}:{one.logical}"


def _name(one: Assigned) -> str:
    if one.gpu is None:
        return f"logical CPU device {one.physical}"
    part = f", part {one.part + 1} of {one.parts}" if one.parts > 1 else ""
    return f"GPU {one.gpu.index} ({one.gpu.name}, {one.gpu.uuid}{part})"


def _announce(plan: DevicePlan) -> None:
    for note in plan.notes:
        log.info("%s", note)
    count = len(plan.assigned)
    if plan.kind == "gpu":  # the words that guides tell users to look for
        mode = "Single-GPU Buffered Mode" if plan.strategy == "single" else "Multi-GPU Mode"
        log.info("Configuring %s...", mode)
        log.info("Intelligent GPU Pipeline: %s (strategy %s)", mode, plan.strategy)
        titles = {"data": "Data Processing GPU", "model": "Model Training GPU"}
    else:
        devices = "1 logical CPU device" if count == 1 else f"{count} logical CPU devices"
        log.info("Devices: no GPU, %s (strategy %s)", devices, plan.strategy)
        titles = {"data": "Data device", "model": "Model device"}
    for one in plan.assigned:
        log.info("%s: %s, %s%s", titles[one.role], _name(one), _device(plan, one), _mapping(one))
        if one.gpu is not None:
            log.info("  %s", f"memory limit {one.limit_mib} MiB" if one.limit_mib else "memory growth, no limit")
    if plan.threads is not None and plan.kind == "cpu":
        log.info(
            "Threads: %d in one operation, %d operations side by side",
            plan.threads.intra_op,
            plan.threads.inter_op,
        )
    if plan.kind == "gpu" and plan.strategy != "single":
        log.info("Device policy: every copy between GPUs is explicit, none is silent")
        log.info("Multi-GPU configuration completed successfully")


def _mapping(one: Assigned) -> str:
    if one.gpu is None or one.gpu.index == one.logical or one.parts > 1:
        return ""
    return f" (Original GPU {one.gpu.index} is now mapped to GPU:{one.logical})"
