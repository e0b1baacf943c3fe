"""CUDA kernels of our own, compiled by NVRTC and launched by the driver, through NVIDIA's cuda-bindings.

torch's CUDA builds bring cuda-bindings and NVRTC, so that a host needs neither a compiler nor CUDA's headers.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

Tensor = Any
Macros = tuple[tuple[str, int], ...]
_SOURCES = Path(__file__).with_name("kernels")


class Kernels:
    """Functions of a compiled source on one GPU."""

    def __init__(self, cubin: bytes, names: Sequence[str]) -> None:
        """Load them into the current context. Raises RuntimeError where the driver refuses."""
        from cuda.bindings import driver

        self._driver = driver
        self._module = _found(driver.cuModuleLoadData(cubin))
        self._functions = {name: _found(driver.cuModuleGetFunction(self._module, name.encode())) for name in names}

    def launch(self, name: str, grid: tuple[int, int, int], threads: int, tensors: Sequence[Tensor | None]) -> None:
        """Launch a function of pointers on the current stream; None is a null pointer. Raises RuntimeError."""
        pointers = tuple(0 if each is None else each.data_ptr() for each in tensors)
        stream = self._driver.CUstream(torch.cuda.current_stream().cuda_stream)
        _found(
            self._driver.cuLaunchKernel(
                self._functions[name],
                *grid,
                *(threads, 1, 1),
                0,
                stream,
                (pointers, (ctypes.c_void_p,) * len(pointers)),
                0,
            )
        )


@functools.cache
def compiled(source: str, macros: Macros, names: tuple[str, ...], device: int) -> Kernels:
    """Kernels of a source of `kernels/` on a GPU, compiled once in a process.

    Raises:
        ImportError: cuda-bindings is not installed.
        RuntimeError: NVRTC is missing or refuses, or the driver does.
    """
    torch.cuda.current_stream(device)  # the context is torch's
    major, minor = torch.cuda.get_device_capability(device)
    return Kernels(cubin(source, macros, f"sm_{major}{minor}"), names)


def text(source: str) -> str:
    """Text of a source, after the types that all share."""
    return "".join((_SOURCES / f"{each}.cu").read_text(encoding="utf-8") for each in ("types", source))


def cubin(source: str, macros: Macros, architecture: str) -> bytes:
    """Binary of a source for an architecture such as sm_90. Raises as `compiled` does."""
    from cuda.bindings import nvrtc

    program = _found(nvrtc.nvrtcCreateProgram(text(source).encode(), f"{source}.cu".encode(), 0, [], []))
    try:
        options = [f"--gpu-architecture={architecture}", *(f"-D{name}={value}" for name, value in macros)]
        (code,) = nvrtc.nvrtcCompileProgram(program, len(options), [each.encode() for each in options])
        if code != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            log = b" " * _found(nvrtc.nvrtcGetProgramLogSize(program))
            nvrtc.nvrtcGetProgramLog(program, log)
            raise RuntimeError(f"NVRTC cannot compile {source}.cu for {architecture}: {log.decode(errors='replace')}")
        made: bytes = b" " * _found(nvrtc.nvrtcGetCUBINSize(program))
        _found(nvrtc.nvrtcGetCUBIN(program, made))
        return made
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _found(answer: tuple[Any, ...]) -> Any:
    """Value of an answer of cuda-bindings, (code, value) or (code,). Raises RuntimeError where the code is not 0."""
    code, *values = answer
    if int(code) != 0:
        raise RuntimeError(f"CUDA answers {code.name} ({int(code)})")
    return values[0] if values else None
