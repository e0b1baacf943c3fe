// Attention of one token a row to its cache, the decode step of a causal stage; and a prefill's keys and values to it.
//
// Macros: BF16, CACHE8, HEADS, WIDTH of a head, BLOCK positions of the cache, SPAN positions of a block of threads.
//
// A row's sums are taken in one order, whatever stands in the other rows: SPAN positions from 0 on by each block, then
// the blocks from the first to the last. A row reads its own positions and no more, so an unused row costs little. The
// new position is read as the cache holds it.

constexpr int THREADS = 128, WARPS = THREADS / 32;
constexpr int HIDDEN = HEADS * WIDTH;
constexpr int VALUES = HEADS * BLOCK;                        // positions of a row's keys, which its values follow
constexpr int VECTOR = 16 / sizeof(S);                       // values of the cache in 16 bytes
constexpr int LANES = WIDTH / VECTOR;                        // threads that share a position
constexpr int GROUPS = THREADS / LANES;                      // positions at a time
constexpr int DEEP = GROUPS < 32 ? 32 / GROUPS : 1;          // positions of a thread that are loaded together
constexpr int STAGES = DEEP > 2 ? 2 : 4;                     // tiles on their way or being summed: 16 or 32 KiB of them
constexpr int TILE = GROUPS * DEEP;
constexpr int PARTS = (BLOCK + SPAN - 1) / SPAN;
constexpr int PART = WIDTH + 2;                              // of a span: its largest score, its sum, its values

struct alignas(16) Vector { T of[VECTOR]; };

__device__ inline Vector load(const T* from) { return *reinterpret_cast<const Vector*>(from); }

typedef uint4 Stored;  // VECTOR values of the cache: a struct of small numbers would be loaded and stored one by one

__device__ inline unsigned word(const Stored& of, int i) { return i == 0 ? of.x : i == 1 ? of.y : i == 2 ? of.z : of.w; }

#if CACHE8
// A stored number without its scale: byte i, from 1 to 255, in the last bits of 2^23, less 2^23 + 128. Exact, and four
// times as fast on an H100 as a conversion.
__device__ inline float value(const Stored& of, int i) {
  return __uint_as_float(__byte_perm(word(of, i / 4) ^ 0x80808080u, 0x4b000000u, 0x7650u | (i & 3))) - 8388736.0f;
}

// The larger one; a number that is none stays.
__device__ inline float larger(float a, float b) { return a != a || a > b ? a : b; }

// A thread's values as the cache holds them, and the position's scale. Infinite values have none: it is no number.
__device__ inline Stored stored(const T* from, T* scale) {
  const Vector values = load(from);
  float largest = 1e-30f;  // of zeros
#pragma unroll
  for (int i = 0; i < VECTOR; ++i) largest = larger(fabsf(wide(values.of[i])), largest);
#pragma unroll
  for (int far = LANES / 2; far; far /= 2) largest = larger(__shfl_xor_sync(~0u, largest, far), largest);
  *scale = narrow(largest / 127 + (largest - largest));
  const float factor = 1 / wide(*scale);
  unsigned words[4] = {};
#pragma unroll
  for (int i = 0; i < VECTOR; ++i) {
    const int whole = __float2int_rn(fminf(fmaxf(wide(values.of[i]) * factor, -127.0f), 127.0f));
    words[i / 4] |= ((unsigned)whole & 0xffu) << 8 * (i % 4);
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}
#else
__device__ inline float value(const Stored& of, int i) {
#if BF16
  return wide((T)(word(of, i / 2) >> 16 * (i % 2)));
#else
  return __uint_as_float(word(of, i));
#endif
}

__device__ inline Stored stored(const T* from, T*) { return *reinterpret_cast<const Stored*>(from); }
#endif

// Copies of 16 bytes to shared memory that take no register and do not wait. A thread reads what it has copied itself,
// so no barrier is needed.
__device__ inline void copy(Stored* to, const S* from) {
#if __CUDA_ARCH__ >= 800
  const unsigned at = (unsigned)__cvta_generic_to_shared(to);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
#else
  *to = *reinterpret_cast<const Stored*>(from);
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
    S* cache,                           // (rows, 2, heads, block, width)
    T* scales,                          // (rows, 2, heads, block), with CACHE8
    const long long* __restrict__ at,   // (rows): the new position; those before it are read
    float* __restrict__ parts) {        // (rows, heads, PARTS, PART)
  const int span = blockIdx.x, head = blockIdx.y, row = blockIdx.z;
  const int last = (int)at[row], begin = span * SPAN;
  if (begin > last) return;
  const int end = min(last, begin + SPAN - 1);  // the last position of this span
  const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES, warp = threadIdx.x / 32;
  const T* fresh = qkv + ((long long)row * 3 * HEADS + head) * WIDTH + lane * VECTOR;
  const long long first = ((long long)row * 2 * HEADS + head) * BLOCK;  // the keys' first position
  S* keys = cache + first * WIDTH + lane * VECTOR;

  __shared__ Stored ring[STAGES][2][DEEP][THREADS], newest[2][LANES];
  auto fetch = [&](int tile, int stage) {
#pragma unroll
    for (int n = 0; n < DEEP; ++n) {
      const int position = tile + n * GROUPS + group;
      if (position > end || position == last) continue;
      const S* from = keys + position * WIDTH;
      copy(&ring[stage][0][n][threadIdx.x], from);
      copy(&ring[stage][1][n][threadIdx.x], from + VALUES * WIDTH);
    }
    end_of_tile();
  };
#if CACHE8
  alignas(16) __shared__ T scale_of[2][SPAN];
  constexpr int TOGETHER = 16 / sizeof(T);
  for (int i = threadIdx.x * TOGETHER; i < 2 * SPAN; i += THREADS * TOGETHER) {  // on their way with the first tile
    const int part = i / SPAN, position = begin + i % SPAN;
    const T* from = scales + first + part * VALUES + position;
    if (position <= end && position < last) copy(reinterpret_cast<Stored*>(&scale_of[part][i % SPAN]), reinterpret_cast<const S*>(from));
  }
#endif
#pragma unroll
  for (int stage = 0; stage < STAGES - 1; ++stage) fetch(begin + stage * TILE, stage);
  const float scale = rsqrtf((float)WIDTH) * 1.4426950408889634f;  // scores in powers of 2
  const Vector asked = load(fresh);
  float q[VECTOR], y[VECTOR] = {}, largest = MINUS_INFINITY, total = 0;
#pragma unroll
  for (int i = 0; i < VECTOR; ++i) q[i] = wide(asked.of[i]) * scale;

  T newest_scale[2];
  const int owner = (last - begin) % GROUPS;
  if (end == last && warp == owner * LANES / 32) {  // a whole warp takes part in the shuffles, one group has the position
    Stored made[2];
#pragma unroll
    for (int part = 0; part < 2; ++part) made[part] = stored(fresh + (1 + part) * HIDDEN, &newest_scale[part]);
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      if (group != owner) continue;
      newest[part][lane] = made[part];
      *reinterpret_cast<Stored*>(keys + (part * VALUES + last) * WIDTH) = made[part];
#if CACHE8
      if (lane == 0) scales[first + part * VALUES + last] = newest_scale[part];
#endif
    }
  }
  auto at_position = [&](int part, int position, const Stored& fetched) {
    return position == last ? newest[part][lane] : fetched;
  };
  auto scale_at = [&](int part, int position) {
#if CACHE8
    return wide(position == last ? newest_scale[part] : scale_of[part][position - begin]);
#else
    return 1.0f;
#endif
  };

  int stage = 0;
  for (int tile = begin; tile <= end; tile += TILE, stage = (stage + 1) % STAGES) {
    wait_for_tile();
#if CACHE8
    if (tile == begin) __syncthreads();  // for the scales, which others have copied
#endif
    fetch(tile + (STAGES - 1) * TILE, (stage + STAGES - 1) % STAGES);  // where the tile before this one was
    float score[DEEP], before = largest;
#pragma unroll
    for (int n = 0; n < DEEP; ++n) {
      const int position = tile + n * GROUPS + group;
      const bool read = position <= end;
      float sum = 0;
      if (read) {
        const Stored k = at_position(0, position, ring[stage][0][n][threadIdx.x]);
#pragma unroll
        for (int i = 0; i < VECTOR; ++i) sum += q[i] * value(k, i);
      }
#pragma unroll
      for (int far = LANES / 2; far; far /= 2) sum += __shfl_xor_sync(~0u, sum, far);
      score[n] = read ? sum * scale_at(0, position) : MINUS_INFINITY;
      largest = fmaxf(largest, score[n]);
    }
    if (tile + group <= end) {  // else this group has none in the tile
      const float kept = factor(before, total, largest);
      total *= kept;
#pragma unroll
      for (int i = 0; i < VECTOR; ++i) y[i] *= kept;
#pragma unroll
      for (int n = 0; n < DEEP; ++n) {
        const int position = tile + n * GROUPS + group;
        if (position > end) continue;
        const float weight = exp2f(score[n] - largest), share = weight * scale_at(1, position);
        const Stored v = at_position(1, position, ring[stage][1][n][threadIdx.x]);
        total += weight;
#pragma unroll
        for (int i = 0; i < VECTOR; ++i) y[i] += share * value(v, i);
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

// Keys and values of windows, from position 0 on: grid (positions, windows), 2 x HEADS x LANES threads.
extern "C" __global__ void __launch_bounds__(2 * HEADS * LANES) write_window(
    const T* __restrict__ qkv,           // (windows, positions, 3, heads, width)
    S* __restrict__ cache,               // (rows, 2, heads, block, width)
    T* __restrict__ scales,              // (rows, 2, heads, block), with CACHE8
    const long long* __restrict__ rows)  // (windows): the row of the cache that each fills
{
  if (blockIdx.y && rows[blockIdx.y] == rows[blockIdx.y - 1]) return;  // a window that is repeated
  const int position = blockIdx.x, lane = threadIdx.x % LANES, part = threadIdx.x / LANES;  // part: key or value, head
  const T* from = qkv + (((long long)blockIdx.y * gridDim.x + position) * 3 * HEADS + HEADS + part) * WIDTH;
  const long long to = (rows[blockIdx.y] * 2 * HEADS + part) * BLOCK + position;
  T scale;
  *reinterpret_cast<Stored*>(cache + to * WIDTH + lane * VECTOR) = stored(from + lane * VECTOR, &scale);
#if CACHE8
  if (lane == 0) scales[to] = scale;
#endif
}
