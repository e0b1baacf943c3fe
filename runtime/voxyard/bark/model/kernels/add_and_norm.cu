// Sum of a residual and the output of a layer, and its layer norm.
//
// Macros: BF16 1 or 0 (else float32), HIDDEN values of a row.

constexpr int THREADS = 128, WARPS = THREADS / 32, MOST = 16 / sizeof(T);
constexpr int VECTOR = HIDDEN % MOST == 0 ? MOST : 1;  // values of a load
constexpr int EACH = (HIDDEN + THREADS * VECTOR - 1) / (THREADS * VECTOR);
constexpr float EPSILON = 1e-5f;                       // torch's

struct alignas(VECTOR * sizeof(T)) Vector { T of[VECTOR]; };

__device__ inline Vector load(const T* from) { return *reinterpret_cast<const Vector*>(from); }

// Sum over the block; `of_warps` is used once.
__device__ inline float sum_of_block(float x, float* of_warps) {
#pragma unroll
  for (int far = 16; far; far /= 2) x += __shfl_xor_sync(~0u, x, far);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = x;
  __syncthreads();
  float sum = 0;
#pragma unroll
  for (int w = 0; w < WARPS; ++w) sum += of_warps[w];
  return sum;
}

// Grid (rows), THREADS threads.
extern "C" __global__ void __launch_bounds__(THREADS) add_and_norm(
    const T* __restrict__ residual, const T* __restrict__ added,      // (rows, hidden)
    const T* __restrict__ weight, const T* __restrict__ bias,        // (hidden); bias may be null
    T* __restrict__ sum, T* __restrict__ normed) {                   // (rows, hidden)
  __shared__ float totals[WARPS], squares[WARPS];
  const long long row = (long long)blockIdx.x * HIDDEN;
  Vector x[EACH], y[EACH], w[EACH], b[EACH];
#pragma unroll
  for (int n = 0; n < EACH; ++n) {  // all that is read, before the first of it is used
    const int i = (n * THREADS + threadIdx.x) * VECTOR;
    if (i >= HIDDEN) continue;
    x[n] = load(residual + row + i);
    y[n] = load(added + row + i);
    w[n] = load(weight + i);
    if (bias) b[n] = load(bias + i);
  }
  float total = 0, square = 0;
#pragma unroll
  for (int n = 0; n < EACH; ++n) {
    const int i = (n * THREADS + threadIdx.x) * VECTOR;
    if (i >= HIDDEN) continue;
#pragma unroll
    for (int j = 0; j < VECTOR; ++j) {
      x[n].of[j] = narrow(wide(x[n].of[j]) + wide(y[n].of[j]));
      total += wide(x[n].of[j]);
    }
    *reinterpret_cast<Vector*>(sum + row + i) = x[n];
  }
  const float mean = sum_of_block(total, totals) / HIDDEN;
#pragma unroll
  for (int n = 0; n < EACH; ++n) {
    if ((n * THREADS + threadIdx.x) * VECTOR >= HIDDEN) continue;
#pragma unroll
    for (int j = 0; j < VECTOR; ++j) square += (wide(x[n].of[j]) - mean) * (wide(x[n].of[j]) - mean);
  }
  const float scale = rsqrtf(sum_of_block(square, squares) / HIDDEN + EPSILON);
#pragma unroll
  for (int n = 0; n < EACH; ++n) {
    const int i = (n * THREADS + threadIdx.x) * VECTOR;
    if (i >= HIDDEN) continue;
    Vector out;
#pragma unroll
    for (int j = 0; j < VECTOR; ++j) {
      out.of[j] = narrow((wide(x[n].of[j]) - mean) * scale * wide(w[n].of[j]) + (bias ? wide(b[n].of[j]) : 0.0f));
    }
    *reinterpret_cast<Vector*>(normed + row + i) = out;
  }
}
