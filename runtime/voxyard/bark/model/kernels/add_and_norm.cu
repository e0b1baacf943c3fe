// Sum of a residual and the output of a layer, and its layer norm.
//
// Macros: BF16 1 or 0 (else float32), HIDDEN values of a row. A warp has a row: its sums need no barrier.

constexpr int WARP = 32, MOST = 16 / sizeof(T);
constexpr int VECTOR = HIDDEN % (WARP * MOST) == 0 ? MOST : 1;  // values of a load
constexpr int EACH = (HIDDEN + WARP * VECTOR - 1) / (WARP * VECTOR);
constexpr float EPSILON = 1e-5f;                                // torch's

struct alignas(VECTOR * sizeof(T)) Vector { T of[VECTOR]; };

__device__ inline Vector load(const T* from) { return *reinterpret_cast<const Vector*>(from); }

__device__ inline float sum_of_warp(float x) {
#pragma unroll
  for (int far = WARP / 2; far; far /= 2) x += __shfl_xor_sync(~0u, x, far);
  return x;
}

// Grid (rows), WARP threads.
extern "C" __global__ void __launch_bounds__(WARP) add_and_norm(
    const T* __restrict__ residual, const T* __restrict__ added,      // (rows, hidden)
    const T* __restrict__ weight, const T* __restrict__ bias,        // (hidden); bias may be null
    T* __restrict__ sum, T* __restrict__ normed) {                   // (rows, hidden)
  const long long row = (long long)blockIdx.x * HIDDEN;
  Vector x[EACH], y[EACH], w[EACH], b[EACH];
#pragma unroll
  for (int n = 0; n < EACH; ++n) {
    const int i = (n * WARP + threadIdx.x) * VECTOR;
    if (i >= HIDDEN) continue;
    x[n] = load(residual + row + i);
    y[n] = load(added + row + i);
    w[n] = load(weight + i);
    if (bias) b[n] = load(bias + i);
  }
  float total = 0, square = 0;
#pragma unroll
  for (int n = 0; n < EACH; ++n) {
    const int i = (n * WARP + threadIdx.x) * VECTOR;
    if (i >= HIDDEN) continue;
#pragma unroll
    for (int j = 0; j < VECTOR; ++j) {
      x[n].of[j] = narrow(wide(x[n].of[j]) + wide(y[n].of[j]));
      total += wide(x[n].of[j]);
    }
    *reinterpret_cast<Vector*>(sum + row + i) = x[n];
  }
  const float mean = sum_of_warp(total) / HIDDEN;
#pragma unroll
  for (int n = 0; n < EACH; ++n) {
    if ((n * WARP + threadIdx.x) * VECTOR >= HIDDEN) continue;
#pragma unroll
    for (int j = 0; j < VECTOR; ++j) square += (wide(x[n].of[j]) - mean) * (wide(x[n].of[j]) - mean);
  }
  const float scale = rsqrtf(sum_of_warp(square) / HIDDEN + EPSILON);
#pragma unroll
  for (int n = 0; n < EACH; ++n) {
    const int i = (n * WARP + threadIdx.x) * VECTOR;
    if (i >= HIDDEN) continue;
    Vector out;
#pragma unroll
    for (int j = 0; j < VECTOR; ++j) {
      out.of[j] = narrow((wide(x[n].of[j]) - mean) * scale * wide(w[n].of[j]) + (bias ? wide(b[n].of[j]) : 0.0f));
    }
    *reinterpret_cast<Vector*>(normed + row + i) = out;
  }
}
