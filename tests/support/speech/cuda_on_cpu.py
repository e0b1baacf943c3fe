"""Stand-in for a GPU: compiles a CUDA source of ours with g++ and runs each of its threads as one of the CPU.

Threads of a block run side by side and meet at barriers, blocks run one after the other. It knows what our kernels use:
shuffles within a warp, `__syncthreads`, shared memory, the bits of floats.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from voxyard.bark.model.cuda_kernels import Macros, text

SHIM = r"""
#include <barrier>
#include <cmath>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>
#include <vector>
#define __device__
#define __global__
#define __restrict__
#define __launch_bounds__(...)
#define __shared__ static
struct Index { int x, y, z; };
static thread_local Index threadIdx;
static Index blockIdx, gridDim;
static std::barrier<>* block_barrier;
static std::vector<std::barrier<>*> warp_barriers;
static float exchanged[1024];
inline void __syncthreads() { block_barrier->arrive_and_wait(); }
inline float __shfl_xor_sync(unsigned, float value, int mask) {
  auto* warp = warp_barriers[threadIdx.x / 32];
  exchanged[threadIdx.x] = value;
  warp->arrive_and_wait();
  float found = exchanged[threadIdx.x ^ mask];
  warp->arrive_and_wait();
  return found;
}
inline float __uint_as_float(unsigned bits) { float x; memcpy(&x, &bits, 4); return x; }
inline unsigned __float_as_uint(float x) { unsigned bits; memcpy(&bits, &x, 4); return bits; }
inline float __int_as_float(unsigned bits) { return __uint_as_float(bits); }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
static int min(int a, int b) { return a < b ? a : b; }
"""

RUN = r"""
static void run(int gx, int gy, int gz, int threads, const std::function<void()>& kernel) {
  gridDim = {gx, gy, gz};
  for (int z = 0; z < gz; ++z) for (int y = 0; y < gy; ++y) for (int x = 0; x < gx; ++x) {
    blockIdx = {x, y, z};
    std::barrier<> all(threads);
    block_barrier = &all;
    for (int w = 0; w * 32 < threads; ++w) warp_barriers.push_back(new std::barrier<>(std::min(32, threads - w * 32)));
    std::vector<std::thread> running;
    for (int t = 0; t < threads; ++t) running.emplace_back([&, t] {
      threadIdx = {t, 0, 0};
      kernel();
      block_barrier->arrive_and_drop();
      warp_barriers[t / 32]->arrive_and_drop();
    });
    for (auto& each : running) each.join();
    for (auto* each : warp_barriers) delete each;
    warp_barriers.clear();
  }
}
"""

CALL = r"""
template <class... P, std::size_t... N>
static void call_NAME(void (*kernel)(P...), void** pointers, std::index_sequence<N...>) {
  kernel((P)pointers[N]...);
}
template <class... P>
static void spread_NAME(void (*kernel)(P...), void** pointers) {
  call_NAME(kernel, pointers, std::index_sequence_for<P...>{});
}
extern "C" void run_NAME(int x, int y, int z, int threads, void** pointers) {
  run(x, y, z, threads, [=] { spread_NAME(NAME, pointers); });
}
"""


class Compiled:
    """Functions of a compiled source; each is launched like `cuda_kernels.Kernels`."""

    def __init__(self, folder: Path, source: str, macros: Macros, names: Sequence[str]) -> None:
        """Compile it in a folder. Raises ValueError with the words of g++ where it refuses the source."""
        calls = "".join(CALL.replace("NAME", name) for name in names)
        path, library = folder / f"{source}.cpp", folder / f"{source}.so"
        path.write_text(SHIM + text(source) + RUN + calls, encoding="utf-8")
        options = [f"-D{name}={value}" for name, value in macros]
        command = [
            "g++",
            "-std=c++20",
            "-O1",
            "-w",
            "-shared",
            "-fPIC",
            "-pthread",
            *options,
            "-o",
            str(library),
            str(path),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ValueError(done.stderr)
        self._library = ctypes.CDLL(str(library))

    def launch(self, name: str, grid: tuple[int, int, int], threads: int, tensors: Sequence[Any]) -> None:
        """Launch a function on tensors in main memory; None is a null pointer."""
        pointers = (ctypes.c_void_p * len(tensors))(*(None if each is None else each.data_ptr() for each in tensors))
        getattr(self._library, f"run_{name}")(*grid, threads, pointers)
