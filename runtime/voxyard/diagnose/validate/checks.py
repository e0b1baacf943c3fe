"""The five checks of `voxyard validate`: host, devices, model, transfer, pipeline. Uses TensorFlow."""

from __future__ import annotations

import hashlib
import math
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from voxyard.diagnose.dry_run import build_dry_run, rows_of, with_corpus
from voxyard.diagnose.gpu_figures import NO_GPU
from voxyard.diagnose.host_facts import driver_fault, driver_version
from voxyard.diagnose.validate.gpu_memory import MIB, GpuMemoryUse, Used, measure, misplaced, used_on_every_gpu
from voxyard.diagnose.validate.result import CheckError, Found
from voxyard.host.pairing import link_warning
from voxyard.host.plan import Links, read_links
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.errors import TrainerError

if TYPE_CHECKING:
    from voxyard.trainer.devices.placement import DevicePlan
    from voxyard.trainer.devices.tensorflow_setup import Devices
    from voxyard.trainer.loop import Run

BATCHES = 3
SIZES = (1, 4097, 16 * MIB)
"""Bytes of the tensors that are copied: a single one, an odd number, and about what a batch has."""
BANDWIDTH_BYTES, BANDWIDTH_SECONDS = 64 * MIB, 0.5
BEYOND_MIB = 256
"""Excess over its limit that a device is asked for."""

Copy = Callable[[Mapping[str, Any], str], Mapping[str, Any]]


class ValidationChecks:
    """The checks, to be called in order; each stores what the later ones need."""

    def __init__(self, config: TrainConfig, directory: Path) -> None:
        """A generated corpus is written into `directory`."""
        self.config, self.directory = config, directory
        self.links = Links()
        self.used_before: Used = {}
        self.devices: Devices
        self.run: Run

    # -- 1 ---------------------------------------------------------------------------------------------------------

    def prerequisites(self) -> Found:
        """Packages, driver, GPUs, and the plan that the trainer makes of them."""
        from voxyard.trainer.autotune.tuner import choose_strategy
        from voxyard.trainer.devices.auto_settings import apply_auto_settings
        from voxyard.trainer.devices.placement import choose
        from voxyard.trainer.devices.tensorflow_import import import_tensorflow
        from voxyard.trainer.devices.tensorflow_setup import inspect_host

        if self.config.training.strategy == "auto" and self.config.data.train_data is None:
            raise TrainerError("--strategy auto is decided on your own corpus: give --train-data DIR")
        tensorflow = import_tensorflow()
        build = tensorflow.sysconfig.get_build_info()
        self.used_before = {} if self.config.training.device == "cpu" else used_on_every_gpu()
        self.config = choose_strategy(apply_auto_settings(self.config))
        host = inspect_host(self.config)
        plan = choose(self.config, host)
        driver = driver_version() if host.gpus else None
        figures = [_packages(tensorflow, build), f"{host.cores} cores, {len(host.gpus)} GPUs"]
        measured = {
            "tensorflow": tensorflow.__version__, "cuda_build": host.cuda_build, "cuda": build.get("cuda_version"),
            "driver": driver, "cores": host.cores, "gpus": [str(gpu) for gpu in host.gpus],
            "kind": plan.kind, "strategy": plan.strategy, "batch_size": plan.batch_size,
        }  # fmt: skip
        if plan.kind == "gpu":
            figures += self._cards(plan, driver)
            fault = driver_fault(driver, build.get("cuda_version"))
            if fault is not None:
                raise CheckError(fault, advice="install a newer NVIDIA driver", found=Found(tuple(figures), measured))
        else:
            figures += [f"on CPU devices; driver, GPU memory, links: {NO_GPU}", *plan.notes]
        return Found(tuple(figures), measured)

    def _cards(self, plan: DevicePlan, driver: str | None) -> list[str]:
        lines = [f"driver {driver or 'unknown'}"]
        for one in plan.assigned:
            if one.gpu is not None:
                free, total = one.gpu.memory_free_mib, one.gpu.memory_total_mib
                limit = "memory growth" if one.limit_mib is None else f"limit {one.limit_mib} MiB"
                lines.append(f"{one.role}: GPU {one.gpu.index} ({one.gpu.name}), {free} of {total} MiB free, {limit}")
        indices = {one.role: one.gpu.index for one in plan.assigned if one.gpu is not None}
        if plan.strategy == "split":
            self.links = read_links()
            lines += self._link(indices["data"], indices["model"])
        return lines

    def _link(self, data: int, model: int) -> list[str]:
        topology = self.links.topology
        if topology is None or not {data, model} <= set(topology.indices):
            return list(self.links.notes)
        warning = link_warning(topology, data, model)
        return [f"link {topology.link(data, model)}", *self.links.notes, *((warning,) if warning else ())]

    # -- 2 ---------------------------------------------------------------------------------------------------------

    def placement(self) -> Found:
        """TensorFlow set up as for training; a product computed on each device, and where its memory then is."""
        import tensorflow as tf

        from voxyard.trainer.devices.tensorflow_setup import prepare_devices

        self.devices = devices = prepare_devices(self.config)
        figures, milliseconds = list(devices.description), {}
        for role, device in self._by_role().items():
            draw = np.random.default_rng(0).normal(size=(2, 512, 512)).astype(np.float32)
            begin = time.perf_counter()
            with tf.device(device):
                product = tf.linalg.matmul(tf.constant(draw[0]), tf.constant(draw[1]))
            value, milliseconds[role] = product.numpy(), (time.perf_counter() - begin) * 1e3
            self._expect_on(device, product.device, f"a product computed on the {role} device")
            worst = float(np.abs(value - draw[0] @ draw[1]).max())
            if not worst < 1.0:  # TF32 keeps 10 bits; an entry sums 512 products, its standard deviation is 23
                raise CheckError(f"{device} computes wrongly: a product of matrices is off by {worst:g}")
            figures.append(f"{role}: computes on {_short(device)}, largest error {worst:.1e}")
        if devices.kind == "gpu":
            now = used_on_every_gpu()
            fault = misplaced(devices.cards, self.used_before, now)
            if fault is not None:
                raise CheckError(fault, advice="compare CUDA's order with nvidia-smi's: unset CUDA_VISIBLE_DEVICES")
            figures += [str(each) for each in measure(devices.cards, self.used_before, now, devices.limits)]
        else:
            figures.append(f"memory on the cards: {NO_GPU}")
        return Found(tuple(figures), {"devices": self._by_role(), "first_product_ms": milliseconds})

    def _by_role(self) -> dict[str, str]:
        if self.devices.strategy == "mirrored":
            return {f"replica {number}": device for number, device in enumerate(self.devices.replicas)}
        roles = {"data": self.devices.data, "model": self.devices.model}
        return roles if self.devices.strategy == "split" else {"model": self.devices.model}

    def _expect_on(self, wanted: str, device: str, what: str) -> None:
        if not device.endswith(wanted):
            raise CheckError(f"{what} lies on {device or 'no device'}, expected {wanted}")

    # -- 3 ---------------------------------------------------------------------------------------------------------

    def model(self) -> Found:
        """The model built where it will train, and its losses on a batch of the corpus, without training."""
        self.config = with_corpus(self.config, rows_of(self.config, self.devices), self.directory)
        self.run = run = build_dry_run(self.config, self.directory, devices=self.devices)
        step = run.step
        for variable in step.variables:
            for part, device in zip(_parts(variable), self.devices.replicas, strict=True):
                self._expect_on(device, part.device, f"the weight {variable.path}")
        plan = next(iter(run.sampler.batches(0, 1)))
        arrays = {name: array[: run.rows // step.replicas] for name, array in run.assemble(plan).arrays.items()}
        begin = time.perf_counter()
        step.evaluate(arrays)
        first, begin = time.perf_counter() - begin, time.perf_counter()
        losses = step.evaluate(arrays)
        again = time.perf_counter() - begin
        total = losses["total"]
        if not np.isfinite(total).all():
            raise CheckError(
                f"the forward pass gives losses that are not finite: {np.count_nonzero(~np.isfinite(total))} "
                f"of {total.size} clips",
                advice="try --precision float32",
            )
        parameters, rows = step.model.count_params(), len(total)
        corpus = "generated" if run.config.data.train_data == self.directory / "corpus" else run.config.data.train_data
        return Found(
            (
                f"{parameters / 1e6:.2f} M parameters on {_short(self.devices.model)}, {run.config.training.precision}",
                f"corpus: {corpus}, {len(run.corpora.training)} clips",
                f"forward pass of {rows} clips: {again * 1e3:.3g} ms (the first, traced, {first:.3g} s), "
                f"mean loss {float(total.mean()):.4g}",
            ),
            {"parameters": parameters, "clips": rows, "first_seconds": first, "seconds": again,
             "loss": float(total.mean())},
        )  # fmt: skip

    # -- 4 ---------------------------------------------------------------------------------------------------------

    def transfer(self) -> Found:
        """Bytes copied as the trainer copies a batch, compared by checksum; and how fast."""
        from voxyard.trainer.copies import to_device

        split = self.devices.strategy == "split"
        source = self.devices.data if split else "/device:CPU:0"
        figures, rates = [], {}
        for target in dict.fromkeys(self.devices.replicas):
            way = f"{_short(source) if split else 'host'} → {_short(target)}"
            figures.append(f"{way}: {self.copied_whole(source, target, to_device)}")
            if self.devices.kind == "gpu":
                rates[way] = _bandwidth(source, target, to_device)
                figures.append(f"{way}: {rates[way] / 1e9:.3g} GB/s over copies of {BANDWIDTH_BYTES // MIB} MiB")
            else:
                figures.append(f"{way}: bandwidth {NO_GPU}")
        return Found(tuple(figures), {"bytes_per_second": rates, "sizes": SIZES})

    def copied_whole(self, source: str, target: str, copy: Copy) -> str:
        """A line about copies that arrived; raises CheckError where a checksum differs or a copy lies elsewhere."""
        import tensorflow as tf

        draw, sums = np.random.default_rng(1), []
        for size in SIZES:
            sent = draw.integers(0, 256, size, dtype=np.uint8)
            with tf.device(source):
                there = tf.identity(tf.constant(sent))
            arrived = copy({"bytes": there}, target)["bytes"]
            self._expect_on(target, arrived.device, f"a copy of {size} bytes")
            expected, found = (hashlib.sha256(array.tobytes()).hexdigest() for array in (sent, arrived.numpy()))
            if found != expected:
                wrong = int(np.count_nonzero(sent != arrived.numpy())) if arrived.shape == sent.shape else size
                raise CheckError(
                    f"{wrong} of {size} bytes arrived wrong from {source} on {target} (SHA-256 {found[:12]}…, "
                    f"expected {expected[:12]}…)",
                    advice="peer-to-peer copies between these GPUs are broken: see nvidia-smi topo -p2p r and the "
                    "IOMMU (ACS) settings of the host, or take another pair",
                )
            sums.append(expected[:12])
        return f"{', '.join(str(size) for size in SIZES)} bytes arrived whole (SHA-256 {', '.join(sums)}…)"

    # -- 5 ---------------------------------------------------------------------------------------------------------

    def pipeline(self) -> Found:
        """Trains on batches from the corpus; then measures the memory that is held."""
        run = self.run
        losses: list[float] = []
        shapes: list[str] = []
        waits: list[float] = []
        begin = time.perf_counter()
        with run.pipeline(0, BATCHES) as pipeline:
            for _ in range(BATCHES):
                staged, wait = pipeline.get()
                if staged is None:
                    raise CheckError(f"the pipeline ended after {len(losses)} of {BATCHES} batches")
                self._expect_staged(staged.batch)
                losses.append(run.step.train(staged.batch).read()["total"])
                shapes.append(f"{staged.plan.bucket.frames}×{staged.plan.bucket.tokens}")
                waits.append(wait)
        seconds = time.perf_counter() - begin
        if not all(map(math.isfinite, losses)):
            raise CheckError(
                f"the loss is not finite: {losses}", advice="lower --learning-rate, or --precision float32"
            )
        figures = [
            f"{BATCHES} steps of {run.rows} clips in {seconds:.3g} s with tracing, buckets {', '.join(shapes)}",
            f"losses {', '.join(f'{loss:.4g}' for loss in losses)}; clips that could not be read: "
            f"{len(run.assemble.bad)}",
        ]
        measured: dict[str, Any] = {"losses": losses, "seconds": seconds, "waits": waits}
        if self.devices.kind != "gpu":
            figures.append(f"memory held against the limit: {NO_GPU}")
            return Found(tuple(figures), measured)
        memory = self._memory()
        figures += [str(each) for each in memory]
        measured["memory"] = [each.document() for each in memory]
        faults = [fault for each in memory if (fault := each.fault) is not None]
        if faults:
            raise CheckError(
                "\n".join(faults),
                advice="limits are reported ineffective with some versions of TensorFlow: compare another version, and "
                "leave room on the card meanwhile",
                found=Found(tuple(figures), measured),
            )
        return Found(tuple(figures), measured)

    def _expect_staged(self, staged: Any) -> None:
        parts = staged if isinstance(staged, list) else [staged]
        for part, device in zip(parts, self.devices.replicas, strict=True):
            self._expect_on(device, part.words.device, "the buffer of a staged batch")

    def _memory(self) -> tuple[GpuMemoryUse, ...]:
        """Memory that the cards hold now; then each limited device is asked for more than its limit."""
        import tensorflow as tf

        now, roles = used_on_every_gpu(), {"data": self.devices.data, "model": self.devices.model}
        limited = {role: limit for role, limit in self.devices.limits.items() if limit is not None}
        peak: dict[str, int] = {
            role: tf.config.experimental.get_memory_info(_short(roles[role]))["peak"] // MIB
            for role, _ in self.devices.cards
        }
        refused = {role: refuses(roles[role], limit + BEYOND_MIB) for role, limit in limited.items()}
        return measure(
            self.devices.cards, self.used_before, now, self.devices.limits, allocator_mib=peak, beyond_refused=refused
        )


def refuses(device: str, mib: int) -> bool:
    """True where TensorFlow refuses to give out so much memory of a device."""
    import tensorflow as tf

    kept = []
    try:
        with tf.device(device):
            for _ in range(0, mib, BEYOND_MIB):
                kept.append(tf.zeros([BEYOND_MIB * MIB], tf.uint8))
                kept[-1][0].numpy()
    except tf.errors.ResourceExhaustedError:
        return True
    return False


def _bandwidth(source: str, target: str, copy: Copy) -> float:
    """Bytes a second from one device to the other, the best of three series."""
    import tensorflow as tf

    with tf.device(source):
        there = tf.zeros([BANDWIDTH_BYTES], tf.uint8)
    copy({"bytes": there}, target)
    best = 0.0
    for _ in range(3):
        tf.test.experimental.sync_devices()
        begin, copies = time.perf_counter(), 0
        while copies < 2 or time.perf_counter() - begin < BANDWIDTH_SECONDS / 3:
            copy({"bytes": there}, target)
            tf.test.experimental.sync_devices()
            copies += 1
        best = max(best, copies * BANDWIDTH_BYTES / (time.perf_counter() - begin))
    return best


def _packages(tensorflow: Any, build: Mapping[str, Any]) -> str:
    import keras

    cuda = f"built for CUDA {build['cuda_version']}" if build.get("cuda_version") else "built without CUDA"
    versions = f"Python {platform.python_version()}, TensorFlow {tensorflow.__version__} ({cuda})"
    return f"{versions}, Keras {keras.__version__}"


def _parts(variable: Any) -> tuple[Any, ...]:
    """A variable's tensor on each device that trains."""
    value = variable.value
    return tuple(getattr(value, "values", None) or (value,))


def _short(device: str) -> str:
    return device.removeprefix("/device:")
