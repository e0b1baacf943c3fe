"""NVIDIA's two libraries as a test wants them: compiled from the C files beside this one, found by their names."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from scenario import MIB, GpuState, Scenario

HERE = Path(__file__).parent
RUNTIME = HERE.parents[1] / "runtime"
NVML_SOURCES = (
    *("call.c", "device.c", "events.c", "gpm.c", "links.c", "lists.c", "scenario.c", "series.c", "system.c"),
)
LIBRARIES = {"libnvidia-ml.so.1": NVML_SOURCES, "libcuda.so.1": ("cuda_stub.c",)}


class FakeDriver:
    """Builds the libraries once; `environment_of` gives a process a host with the GPUs of a scenario."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._numbers = itertools.count()
        for library, sources in LIBRARIES.items():
            flags = ["-std=gnu11", "-O2", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", f"-Wl,-soname,{library}"]
            hidden = [] if library == "libcuda.so.1" else ["-fvisibility=hidden"]
            files = [str(HERE / source) for source in sources]
            subprocess.run(
                ["gcc", *flags, *hidden, "-o", str(directory / library), *files, "-lm", "-lpthread"], check=True
            )

    @staticmethod
    def gpu(
        bus: str,
        *,
        name: str = "NVIDIA GeForce RTX 4090",
        total: str = "24564",
        free: str = "24000",
        capability: str = "8.9",
        uuid: str = "",
    ) -> GpuState:
        """A consumer's GPU on the PCI bus `bus`, memory in MiB; '-' is what it does not support, uuid '!' is lost."""
        size = None if total == "-" else int(total) * MIB
        return GpuState.consumer(
            uuid="" if uuid == "!" else uuid,
            pci_bus_id=f"00000000:{bus}",
            name=name,
            memory_total=size,
            memory_used=None if size is None else size - int(free) * MIB,
            memory_reserved=None,
            compute_capability=None if capability == "-" else capability,
            lost=uuid == "!",
        )

    def environment_of(self, scenario: Scenario, *, path: Path | None = None, **more: str) -> dict[str, str]:
        """Variables for a process on this host. The scenario is at `path`, NVML_FAKE: write another there later."""
        path = path or self.directory / f"scenario-{next(self._numbers)}"
        scenario.write(path)
        ours = ("CUDA_", "VOXYARD_", "NVML_")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        return clean | {
            "LD_LIBRARY_PATH": str(self.directory),
            "NVML_FAKE": str(path),
            "CUDA_STUB_BUS_IDS": ",".join(gpu.pci_bus_id.removeprefix("0000") for gpu in scenario.gpus),
            "PYTHONPATH": str(RUNTIME),
            "TF_CPP_MIN_LOG_LEVEL": "2",
            **more,
        }

    def environment(
        self,
        gpus: Sequence[GpuState],
        *,
        cuda: Sequence[str] | None = None,
        nvml_init: int = 0,
        **more: str,
    ) -> dict[str, str]:
        """Variables for a process on a host of these GPUs; `cuda` are the CUDA driver's bus ids, mostly the same.

        GPU n is (40 + 10 n) % busy and takes 100 (n + 1) W, if it reports its memory: else it reports neither.
        """
        numbered = []
        for index, gpu in enumerate(gpus):
            busy, power = (None, None) if gpu.memory_total is None else (40 + 10 * index, 100_000 * (index + 1))
            uuid = gpu.uuid or GpuState.consumer(index).uuid
            numbered.append(replace(gpu, uuid=uuid, utilization=busy, power=power))
        if cuda is not None:
            more = {"CUDA_STUB_BUS_IDS": ",".join(f"0000:{bus}" for bus in cuda)} | more
        return self.environment_of(Scenario(numbered, init=nvml_init), path=None, **more)
