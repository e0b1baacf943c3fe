// Attention of one token a row to its cache, the decode step of a causal stage.
//
// Macros: BF16 1 or 0 (else float32), HEADS, WIDTH of a head, BLOCK positions of the cache.
//
// A row's sums are taken in one order, whatever stands in the other rows: chunks of CHUNK positions from 0 on, then
// the chunks from the first to the last. A row reads its own positions and no more, so an unused row costs nothing.

constexpr int CHUNK = 128, THREADS = 128, WARPS = THREADS / 32;
constexpr int HIDDEN = HEADS * WIDTH;
constexpr int VECTOR = 16 / sizeof(T);             // values of a load of 16 bytes
constexpr int LANES = WIDTH / VECTOR;              // threads that share a position
constexpr int GROUPS = THREADS / LANES;            // positions at a time
constexpr int EACH = CHUNK / GROUPS;               // positions of a thread
constexpr int CHUNKS = (BLOCK + CHUNK - 1) / CHUNK;
constexpr int PART = WIDTH + 2;                    // of a chunk: its largest score, its sum, its weighted values

struct alignas(16) Vector { T of[VECTOR]; };

__device__ inline Vector load(const T* from) { return *reinterpret_cast<const Vector*>(from); }

// Attention of a chunk of positions: grid (chunks to read, heads, rows). Writes the new key and value to the cache.
extern "C" __global__ void __launch_bounds__(THREADS) attend_chunks(
    const T* __restrict__ qkv,          // (rows, 3, heads, width)
    T* cache,                           // (rows, 2, heads, block, width)
    const long long* __restrict__ at,   // (rows): the new position; those before it are read
    float* __restrict__ parts) {        // (rows, heads, CHUNKS, PART)
  const int chunk = blockIdx.x, head = blockIdx.y, row = blockIdx.z;
  const int last = (int)at[row], begin = chunk * CHUNK;
  if (begin > last) return;
  const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES, warp = threadIdx.x / 32;
  const T* fresh = qkv + ((long long)row * 3 * HEADS + head) * WIDTH + lane * VECTOR;
  T* keys = cache + ((long long)row * 2 * HEADS + head) * BLOCK * WIDTH + lane * VECTOR;
  T* values = keys + (long long)HEADS * BLOCK * WIDTH;

  Vector k[EACH], v[EACH];
#pragma unroll
  for (int n = 0; n < EACH; ++n) {
    const int position = begin + n * GROUPS + group;
    if (position < last) {
      k[n] = load(keys + (long long)position * WIDTH);
      v[n] = load(values + (long long)position * WIDTH);
    } else if (position == last) {
      k[n] = load(fresh + HIDDEN);
      v[n] = load(fresh + 2 * HIDDEN);
      *reinterpret_cast<Vector*>(keys + (long long)position * WIDTH) = k[n];
      *reinterpret_cast<Vector*>(values + (long long)position * WIDTH) = v[n];
    }
  }
  const float scale = rsqrtf((float)WIDTH) * 1.4426950408889634f;  // scores in powers of 2
  const Vector asked = load(fresh);
  float q[VECTOR];
#pragma unroll
  for (int i = 0; i < VECTOR; ++i) q[i] = wide(asked.of[i]) * scale;

  float score[EACH], largest = MINUS_INFINITY;
#pragma unroll
  for (int n = 0; n < EACH; ++n) {
    const bool read = begin + n * GROUPS + group <= last;
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
#pragma unroll
  for (int far = LANES; far < 32; far *= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, far));
  __shared__ float warps[WARPS], sums[WARPS], weighted[WARPS][WIDTH];
  if (threadIdx.x % 32 == 0) warps[warp] = largest;
  __syncthreads();
#pragma unroll
  for (int w = 0; w < WARPS; ++w) largest = fmaxf(largest, warps[w]);

  float total = 0, y[VECTOR] = {};
#pragma unroll
  for (int n = 0; n < EACH; ++n) {
    if (begin + n * GROUPS + group > last) continue;
    const float weight = exp2f(score[n] - largest);
    total += weight;
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) y[i] += weight * wide(v[n].of[i]);
  }
#pragma unroll
  for (int far = LANES; far < 32; far *= 2) {
    total += __shfl_xor_sync(~0u, total, far);
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) y[i] += __shfl_xor_sync(~0u, y[i], far);
  }
  if (threadIdx.x % 32 < LANES) {
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) weighted[warp][lane * VECTOR + i] = y[i];
    if (lane == 0) sums[warp] = total;
  }
  __syncthreads();
  float* part = parts + (((long long)row * HEADS + head) * CHUNKS + chunk) * PART;
  for (int i = threadIdx.x; i < WIDTH; i += THREADS) {
    float sum = 0;
    for (int w = 0; w < WARPS; ++w) sum += weighted[w][i];
    part[2 + i] = sum;
  }
  if (threadIdx.x == 0) {
    float sum = 0;
    for (int w = 0; w < WARPS; ++w) sum += sums[w];
    part[0] = largest;
    part[1] = sum;
  }
}

// The chunks of each head together: grid (heads, rows), WIDTH threads.
extern "C" __global__ void __launch_bounds__(WIDTH) join_chunks(
    const float* __restrict__ parts, const long long* __restrict__ at, T* __restrict__ out) {  // out: (rows, hidden)
  const int head = blockIdx.x, row = blockIdx.y, count = (int)at[row] / CHUNK + 1;
  const float* part = parts + ((long long)row * HEADS + head) * CHUNKS * PART;
  float largest = MINUS_INFINITY, total = 0, y = 0;
  for (int n = 0; n < count; ++n) largest = fmaxf(largest, part[n * PART]);
  for (int n = 0; n < count; ++n) {
    const float weight = exp2f(part[n * PART] - largest);
    total += weight * part[n * PART + 1];
    y += weight * part[n * PART + 2 + threadIdx.x];
  }
  out[(long long)row * HIDDEN + head * WIDTH + threadIdx.x] = narrow(y / total);
}
