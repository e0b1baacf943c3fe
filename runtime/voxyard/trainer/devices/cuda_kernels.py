"""CUDA kernels of a TensorFlow build against the GPUs of a host."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Capability = tuple[int, int]

CONTAINER = "voxyard's trainer image, which stands on NVIDIA's TensorFlow 25.02 (make images)"
_NO_JUST_IN_TIME = (12, 0), (2, 20)
"""Compute capability from which, and TensorFlow up to which, kernels compiled at run time fail with
CUDA_ERROR_INVALID_PTX: tensorflow/tensorflow issues 99592 and 101746 (RTX 50xx, TensorFlow 2.16 to 2.20)."""


@dataclass(frozen=True, slots=True)
class CudaKernels:
    """Kernels of a TensorFlow build: ready ones, and intermediate code (PTX), which a newer GPU's driver compiles."""

    version: str  # TensorFlow's
    binaries: tuple[Capability, ...] = ()
    intermediate: tuple[Capability, ...] = ()

    @classmethod
    def of_build(cls, version: str, build: Mapping[str, Any]) -> CudaKernels:
        """From `tf.sysconfig.get_build_info()`: sm_XY is a binary, compute_XY a binary with its intermediate code."""
        named = [re.fullmatch(r"(sm|compute)_(\d+)(\d)[a-z]?", str(each)) for each in build.get(_KEY, ())]
        found = [(each[1], (int(each[2]), int(each[3]))) for each in named if each is not None]
        return cls(
            version,
            binaries=tuple(capability for _, capability in found),
            intermediate=tuple(capability for kind, capability in found if kind == "compute"),
        )

    def fault(self, capability: Capability | None) -> str | None:
        """Reason why a GPU of this compute capability cannot run them; None where it can, or nothing is known."""
        if capability is None or not self.binaries or self._has_binary(capability):
            return None
        has = f"TensorFlow {self.version} has CUDA kernels for compute capability {_listed(self.binaries)}"
        needs = f"this GPU has {_listed([capability])}"
        if not any(each <= capability for each in self.intermediate):
            return f"{has}; {needs}: take {CONTAINER}"
        from_capability, up_to = _NO_JUST_IN_TIME
        if capability >= from_capability and _release(self.version) <= up_to:
            return f"{has}; {needs}, for which TensorFlow up to 2.20 cannot compile them: take {CONTAINER}"
        return None

    def compiled_at_start(self, capability: Capability | None) -> bool:
        """True where the driver has to compile them for this GPU, which takes minutes at the first start."""
        return capability is not None and bool(self.binaries) and not self._has_binary(capability)

    def _has_binary(self, capability: Capability) -> bool:
        """True where a binary runs: on GPUs of its major version with the same or a higher minor one.

        Intermediate code runs on every newer GPU (CUDA C++ Programming Guide, binary and PTX compatibility).
        """
        return any(major == capability[0] and minor <= capability[1] for major, minor in self.binaries)


UNKNOWN_KERNELS = CudaKernels("")
"""Of a build that names none: every GPU is tried."""

_KEY = "cuda_compute_capabilities"


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


def _listed(capabilities: Sequence[Capability]) -> str:
    return ", ".join(f"{major}.{minor}" for major, minor in capabilities)
