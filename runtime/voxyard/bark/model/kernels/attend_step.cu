// Attention of one token a row to its cache, the decode step of a causal stage.
//
// Macros: BF16 1 or 0 (else float32), HEADS, WIDTH of a head, BLOCK positions of the cache, SPAN positions of a block
// of threads.
//
// A row's sums are taken in one order, whatever stands in the other rows: SPAN positions from 0 on by each block, then
// the blocks from the first to the last. A row reads its own positions and no more, so an unused row costs little.

constexpr int THREADS = 128, WARPS = THREADS / 32;
constexpr int HIDDEN = HEADS * WIDTH;
constexpr int VECTOR = 16 / sizeof(T);                       // values of a load of 16 bytes
constexpr int LANES = WIDTH / VECTOR;                        // threads that share a position
constexpr int GROUPS = THREADS / LANES;                      // positions at a time
constexpr int DEEP = GROUPS < 32 ? 32 / GROUPS : 1;          // positions of a thread that are loaded together
constexpr int STAGES = DEEP > 2 ? 2 : 4;                     // tiles on their way or being summed: 32 KiB of them
constexpr int TILE = GROUPS * DEEP;
constexpr int PARTS = (BLOCK + SPAN - 1) / SPAN;
constexpr int PART = WIDTH + 2;                              // of a span: its largest score, its sum, its values

struct alignas(16) Vector { T of[VECTOR]; };

__device__ inline Vector load(const T* from) { return *reinterpret_cast<const Vector*>(from); }

// Copies of 16 bytes to shared memory that take no register and do not wait. A thread reads what it has copied itself,
// so no barrier is needed.
__device__ inline void copy(Vector* to, const T* from) {
#if __CUDA_ARCH__ >= 800
  const unsigned at = (unsigned)__cvta_generic_to_shared(to);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
#else
  *to = load(from);
#endif
}

__device__ inline void end_of_tile() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until no more than the last STAGES - 2 tiles are on their way.
__device__ inline void wait_for_tile() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
#endif
}

__device__ inline float largest_of(const float* of) {
  float largest = of[0];
  for (int w = 1; w < WARPS; ++w) largest = fmaxf(largest, of[w]);
  return largest;
}

// Factor of a sum whose largest score was `own`, among others up to `largest`; a sum of nothing has none.
__device__ inline float factor(float own, float total, float largest) {
  return total == 0 ? 0 : exp2f(own - largest);
}

// Attention of a span of positions: grid (spans to read, heads, rows). Writes the new key and value to the cache.
extern "C" __global__ void __launch_bounds__(THREADS, 6) attend_spans(
    const T* __restrict__ qkv,          // (rows, 3, heads, width)
    T* cache,                           // (rows, 2, heads, block, width)
    const long long* __restrict__ at,   // (rows): the new position; those before it are read
    float* __restrict__ parts) {        // (rows, heads, PARTS, PART)
  const int span = blockIdx.x, head = blockIdx.y, row = blockIdx.z;
  const int last = (int)at[row], begin = span * SPAN;
  if (begin > last) return;
  const int end = min(last, begin + SPAN - 1);  // the last position of this span
  const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES, warp = threadIdx.x / 32;
  const T* fresh = qkv + ((long long)row * 3 * HEADS + head) * WIDTH + lane * VECTOR;
  T* keys = cache + ((long long)row * 2 * HEADS + head) * BLOCK * WIDTH + lane * VECTOR;

  if (end == last && group == (last - begin) % GROUPS) {
    T* at_position = keys + last * WIDTH;
    *reinterpret_cast<Vector*>(at_position) = load(fresh + HIDDEN);
    *reinterpret_cast<Vector*>(at_position + HEADS * BLOCK * WIDTH) = load(fresh + 2 * HIDDEN);
  }
  __shared__ Vector ring[STAGES][2][DEEP][THREADS];
  auto fetch = [&](int tile, int stage) {
#pragma unroll
    for (int n = 0; n < DEEP; ++n) {
      const int position = tile + n * GROUPS + group;
      if (position > end) continue;
      const T* from = keys + position * WIDTH;
      copy(&ring[stage][0][n][threadIdx.x], position == last ? fresh + HIDDEN : from);
      copy(&ring[stage][1][n][threadIdx.x], position == last ? fresh + 2 * HIDDEN : from + HEADS * BLOCK * WIDTH);
    }
    end_of_tile();
  };
#pragma unroll
  for (int stage = 0; stage < STAGES - 1; ++stage) fetch(begin + stage * TILE, stage);
  const float scale = rsqrtf((float)WIDTH) * 1.4426950408889634f;  // scores in powers of 2
  const Vector asked = load(fresh);
  float q[VECTOR], y[VECTOR] = {}, largest = MINUS_INFINITY, total = 0;
#pragma unroll
  for (int i = 0; i < VECTOR; ++i) q[i] = wide(asked.of[i]) * scale;

  int stage = 0;
  for (int tile = begin; tile <= end; tile += TILE, stage = (stage + 1) % STAGES) {
    wait_for_tile();
    fetch(tile + (STAGES - 1) * TILE, (stage + STAGES - 1) % STAGES);  // where the tile before this one was
    float score[DEEP], before = largest;
#pragma unroll
    for (int n = 0; n < DEEP; ++n) {
      const bool read = tile + n * GROUPS + group <= end;
      float sum = 0;
      if (read) {
        const Vector k = ring[stage][0][n][threadIdx.x];
#pragma unroll
        for (int i = 0; i < VECTOR; ++i) sum += q[i] * wide(k.of[i]);
      }
#pragma unroll
      for (int far = LANES / 2; far; far /= 2) sum += __shfl_xor_sync(~0u, sum, far);
      score[n] = read ? sum : MINUS_INFINITY;
      largest = fmaxf(largest, score[n]);
    }
    if (tile + group <= end) {  // else this group has none in the tile
      const float kept = factor(before, total, largest);
      total *= kept;
#pragma unroll
      for (int i = 0; i < VECTOR; ++i) y[i] *= kept;
#pragma unroll
      for (int n = 0; n < DEEP; ++n) {
        if (tile + n * GROUPS + group > end) continue;
        const float weight = exp2f(score[n] - largest);
        const Vector v = ring[stage][1][n][threadIdx.x];
        total += weight;
#pragma unroll
        for (int i = 0; i < VECTOR; ++i) y[i] += weight * wide(v.of[i]);
      }
    }
  }

  float of_warp = largest;
#pragma unroll
  for (int far = LANES; far < 32; far *= 2) of_warp = fmaxf(of_warp, __shfl_xor_sync(~0u, of_warp, far));
  __shared__ float scores[WARPS], sums[WARPS], weighted[WARPS][WIDTH];
  if (threadIdx.x % 32 == 0) scores[warp] = of_warp;
  __syncthreads();
  const float of_all = largest_of(scores), kept = factor(largest, total, of_all);
  total *= kept;
#pragma unroll
  for (int far = LANES; far < 32; far *= 2) total += __shfl_xor_sync(~0u, total, far);
#pragma unroll
  for (int i = 0; i < VECTOR; ++i) {
    y[i] *= kept;
#pragma unroll
    for (int far = LANES; far < 32; far *= 2) y[i] += __shfl_xor_sync(~0u, y[i], far);
  }
  if (threadIdx.x % 32 < LANES) {
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) weighted[warp][lane * VECTOR + i] = y[i];
    if (lane == 0) sums[warp] = total;
  }
  __syncthreads();
  float* part = parts + (((long long)row * HEADS + head) * PARTS + span) * PART;
  for (int i = threadIdx.x; i < WIDTH; i += THREADS) {
    float sum = 0;
    for (int w = 0; w < WARPS; ++w) sum += weighted[w][i];
    part[2 + i] = sum;
  }
  if (threadIdx.x == 0) {
    float sum = 0;
    for (int w = 0; w < WARPS; ++w) sum += sums[w];
    part[0] = of_all;
    part[1] = sum;
  }
}

// The spans of each head together: grid (heads, rows), WIDTH threads.
extern "C" __global__ void __launch_bounds__(WIDTH) join_spans(
    const float* __restrict__ parts, const long long* __restrict__ at, T* __restrict__ out) {  // out: (rows, hidden)
  const int head = blockIdx.x, row = blockIdx.y, spans = (int)at[row] / SPAN + 1;
  const float* part = parts + ((long long)row * HEADS + head) * PARTS * PART;
  float score[PARTS], sum[PARTS], value[PARTS];
#pragma unroll
  for (int n = 0; n < PARTS; ++n) {  // also those that were not written: the loads do not wait for the position
    score[n] = part[n * PART];
    sum[n] = part[n * PART + 1];
    value[n] = part[n * PART + 2 + threadIdx.x];
  }
  float largest = MINUS_INFINITY, total = 0, y = 0;
#pragma unroll
  for (int n = 0; n < PARTS; ++n) largest = n < spans ? fmaxf(largest, score[n]) : largest;
#pragma unroll
  for (int n = 0; n < PARTS; ++n) {
    if (n >= spans) continue;
    const float weight = exp2f(score[n] - largest);
    total += weight * sum[n];
    y += weight * value[n];
  }
  out[(long long)row * HIDDEN + head * WIDTH + threadIdx.x] = narrow(y / total);
}
