// Sum of a residual and the output of a layer, and its layer norm.
//
// Macros: BF16 1 or 0 (else float32), HIDDEN values of a row.

constexpr int THREADS = 256, WARPS = THREADS / 32, EACH = (HIDDEN + THREADS - 1) / THREADS;

__device__ inline float sum_of_block(float x, float* shared) {
  for (int far = 16; far; far /= 2) x += __shfl_xor_sync(~0u, x, far);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  float sum = 0;
  for (int w = 0; w < WARPS; ++w) sum += shared[w];
  return sum;
}

// Grid (rows), THREADS threads.
extern "C" __global__ void __launch_bounds__(THREADS) add_and_norm(
    const T* __restrict__ residual, const T* __restrict__ added,      // (rows, hidden)
    const T* __restrict__ weight, const T* __restrict__ bias,        // (hidden); bias may be null
    T* __restrict__ sum, T* __restrict__ normed) {                   // (rows, hidden)
  __shared__ float shared[WARPS];
  const long long row = (long long)blockIdx.x * HIDDEN;
  float x[EACH], mean = 0, square = 0;
#pragma unroll
  for (int n = 0; n < EACH; ++n) {
    const int i = n * THREADS + threadIdx.x;
    x[n] = 0;
    if (i < HIDDEN) {
      const T rounded = narrow(wide(residual[row + i]) + wide(added[row + i]));
      sum[row + i] = rounded;
      x[n] = wide(rounded);
    }
    mean += x[n];
  }
  mean = sum_of_block(mean, shared) / HIDDEN;
#pragma unroll
  for (int n = 0; n < EACH; ++n) {
    if (n * THREADS + threadIdx.x < HIDDEN) square += (x[n] - mean) * (x[n] - mean);
  }
  const float scale = rsqrtf(sum_of_block(square, shared) / HIDDEN + 1e-5f);
#pragma unroll
  for (int n = 0; n < EACH; ++n) {
    const int i = n * THREADS + threadIdx.x;
    if (i < HIDDEN) normed[row + i] = narrow((x[n] - mean) * scale * wide(weight[i]) + (bias ? wide(bias[i]) : 0.0f));
  }
}
