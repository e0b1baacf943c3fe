// Types of the kernels: T is what a model computes in, BF16 says which (a macro, 1 or 0).

#define MINUS_INFINITY __int_as_float(0xff800000)

#if BF16
typedef unsigned short T;
__device__ inline float wide(T x) { return __uint_as_float((unsigned)x << 16); }
__device__ inline T narrow(float x) {  // to the nearest, ties to even, as torch rounds
  unsigned bits = __float_as_uint(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fc0;  // not a number
  return (T)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
#else
typedef float T;
__device__ inline float wide(T x) { return x; }
__device__ inline T narrow(float x) { return x; }
#endif

// S is what the cache holds: values of T, or with CACHE8 (a macro, 1 or 0) whole numbers from -127 to 127, each times
// the scale of its position and head.
#if CACHE8
typedef signed char S;
#else
typedef T S;
#endif
