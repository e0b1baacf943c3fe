"""NVIDIA's two libraries as a test wants them: compiled from the C files beside this one, loaded by path."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
RUNTIME = HERE.parents[1] / "runtime"


@dataclass(frozen=True)
class FakeGpu:
    """A GPU as the stubs answer it; '-' is what the card does not support."""

    bus: str
    name: str = "NVIDIA GeForce RTX 4090"
    total: str = "24564"
    free: str = "24000"
    capability: str = "8.9"
    uuid: str = ""

    def line(self, index: int) -> str:
        uuid = self.uuid or f"GPU-0000000{index}-aaaa-bbbb-cccc-000000000000"
        return f"{uuid}|00000000:{self.bus}|{self.name}|{self.total}|{self.free}|{self.capability}"


class FakeDriver:
    """Builds the libraries once; `environment` gives a subprocess a host of these GPUs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for source, library in (("nvml_stub.c", "libnvidia-ml.so.1"), ("cuda_stub.c", "libcuda.so.1")):
            flags = ["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", str(directory / library)]
            subprocess.run(["gcc", *flags, str(HERE / source)], check=True)

    @staticmethod
    def gpu(bus: str, **more: str) -> FakeGpu:
        """A GPU on the PCI bus `bus`, an RTX 4090 unless told otherwise."""
        return FakeGpu(bus=bus, **more)

    def environment(
        self,
        gpus: Sequence[FakeGpu],
        *,
        cuda: Sequence[str] | None = None,
        nvml_init: int = 0,
        **more: str,
    ) -> dict[str, str]:
        """Variables for a process on such a host; `cuda` are the CUDA driver's bus ids, mostly the same."""
        scenario = self.directory / f"scenario-{abs(hash((tuple(gpus), nvml_init)))}"
        lines = [str(nvml_init), *(gpu.line(index) for index, gpu in enumerate(gpus))]
        scenario.write_text("\n".join(lines) + "\n")
        buses = [gpu.bus for gpu in gpus] if cuda is None else cuda
        ours = ("CUDA_", "VOXYARD_")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        return clean | {
            "LD_LIBRARY_PATH": str(self.directory),
            "NVML_STUB": str(scenario),
            "CUDA_STUB_BUS_IDS": ",".join(f"0000:{bus}" for bus in buses),
            "PYTHONPATH": str(RUNTIME),
            "TF_CPP_MIN_LOG_LEVEL": "2",
            **more,
        }
