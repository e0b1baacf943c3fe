"""Stand-in for a GPU: compiles a CUDA source of ours with g++ and runs it in one thread of the CPU.

Threads of a block are contexts that take turns and meet at barriers, blocks run one after the other: as threads of the
CPU they would keep every core from whatever runs beside the tests. It knows what our kernels use: shuffles within a
warp, `__syncthreads`, shared memory, the bits of floats.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from voxyard.bark.model.cuda_kernels import Macros, text

SHIM = r"""
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <ucontext.h>
#include <utility>
#include <vector>
#define __device__
#define __global__
#define __restrict__
#define __launch_bounds__(...)
#define __shared__ static
struct Index { int x, y, z; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static Index threadIdx, blockIdx, gridDim;
static float exchanged[1024];

constexpr int STACK = 64 << 10;
struct Thread { ucontext_t context; std::unique_ptr<char[]> stack; bool ended; };
static Thread of_block[1024];
static ucontext_t host;
static int threads, running;
static std::function<void()> kernel_of_all;
inline void next() {  // the turn of the next thread that has not ended, else the host's
  const int from = threadIdx.x;
  if (!running) return (void)setcontext(&host);
  do threadIdx.x = (threadIdx.x + 1) % threads; while (of_block[threadIdx.x].ended);
  if (threadIdx.x != from) swapcontext(&of_block[from].context, &of_block[threadIdx.x].context);
}
struct Barrier {
  int expected, arrived;
  long passed;
  void release() { arrived = 0, ++passed; }
  void meet() {
    const long before = passed;
    if (++arrived == expected) release();
    while (passed == before) next();
  }
  void leave() { if (--expected && arrived == expected) release(); }
};
static Barrier block_barrier, warp_barriers[32];
inline void __syncthreads() { block_barrier.meet(); }
inline float __shfl_xor_sync(unsigned, float value, int mask) {
  const int thread = threadIdx.x;
  exchanged[thread] = value;
  warp_barriers[thread / 32].meet();
  const float found = exchanged[thread ^ mask];
  warp_barriers[thread / 32].meet();
  return found;
}
inline float __uint_as_float(unsigned bits) { float x; memcpy(&x, &bits, 4); return x; }
inline unsigned __float_as_uint(float x) { unsigned bits; memcpy(&bits, &x, 4); return bits; }
inline float __int_as_float(unsigned bits) { return __uint_as_float(bits); }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline int __float2int_rn(float x) { return (int)std::nearbyint(x); }
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  unsigned long long bytes = (unsigned long long)b << 32 | a;
  unsigned made = 0;
  for (int i = 0; i < 4; ++i) made |= (unsigned)(bytes >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
  return made;
}
static int min(int a, int b) { return a < b ? a : b; }
"""

RUN = r"""
static void begin() {
  kernel_of_all();
  block_barrier.leave();
  warp_barriers[threadIdx.x / 32].leave();
  of_block[threadIdx.x].ended = true;
  --running;
  next();
}
static void run(int gx, int gy, int gz, int count, const std::function<void()>& kernel) {
  gridDim = {gx, gy, gz};
  kernel_of_all = kernel;
  for (int z = 0; z < gz; ++z) for (int y = 0; y < gy; ++y) for (int x = 0; x < gx; ++x) {
    blockIdx = {x, y, z};
    threads = running = count;
    block_barrier = {count};
    for (int t = 0; t < count; ++t) {
      warp_barriers[t / 32] = {std::min(32, count - t / 32 * 32)};
      Thread& each = of_block[t];
      if (!each.stack) each.stack.reset(new char[STACK]);
      each.ended = false;
      getcontext(&each.context);
      each.context.uc_stack = {each.stack.get(), 0, STACK};
      makecontext(&each.context, begin, 0);
    }
    threadIdx = {0, 0, 0};
    swapcontext(&host, &of_block[0].context);
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
