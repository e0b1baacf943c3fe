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
constexpr int DEEP = GROUPS < 64 ? 64 / GROUPS : 1;          // positions of a thread that are loaded together
constexpr int TILE = GROUPS * DEEP;
constexpr int PARTS = (BLOCK + SPAN - 1) / SPAN;
constexpr int PART = WIDTH + 2;                              // of a span: its largest score, its sum, its values

struct alignas(16) Vector { T of[VECTOR]; };

__device__ inline Vector load(const T* from) { return *reinterpret_cast<const Vector*>(from); }

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
extern "C" __global__ void __launch_bounds__(THREADS, 4) attend_spans(
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

  Vector k[DEEP], v[DEEP], next_k[DEEP], next_v[DEEP];
  auto fetch = [&](int from, Vector* key, Vector* value) {
#pragma unroll
    for (int n = 0; n < DEEP; ++n) {
      const int position = from + n * GROUPS + group;
      if (position > end) continue;
      T* at_position = keys + position * WIDTH;
      if (position == last) {
        key[n] = load(fresh + HIDDEN);
        value[n] = load(fresh + 2 * HIDDEN);
        *reinterpret_cast<Vector*>(at_position) = key[n];
        *reinterpret_cast<Vector*>(at_position + HEADS * BLOCK * WIDTH) = value[n];
      } else {
        key[n] = load(at_position);
        value[n] = load(at_position + HEADS * BLOCK * WIDTH);
      }
    }
  };
  fetch(begin, k, v);
  const float scale = rsqrtf((float)WIDTH) * 1.4426950408889634f;  // scores in powers of 2
  const Vector asked = load(fresh);
  float q[VECTOR], y[VECTOR] = {}, largest = MINUS_INFINITY, total = 0;
#pragma unroll
  for (int i = 0; i < VECTOR; ++i) q[i] = wide(asked.of[i]) * scale;

  for (int tile = begin; tile <= end; tile += TILE) {
    fetch(tile + TILE, next_k, next_v);  // on its way while this tile is summed
    float score[DEEP], before = largest;
#pragma unroll
    for (int n = 0; n < DEEP; ++n) {
      const bool read = tile + n * GROUPS + group <= end;
      float sum = 0;
      if (read) {
#pragma unroll
        for (int i = 0; i < VECTOR; ++i) sum += q[i] * wide(k[n].of[i]);
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
        total += weight;
#pragma unroll
        for (int i = 0; i < VECTOR; ++i) y[i] += weight * wide(v[n].of[i]);
      }
    }
#pragma unroll
    for (int n = 0; n < DEEP; ++n) k[n] = next_k[n], v[n] = next_v[n];
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
