// Enough of CUDA C++ for g++: the kernels' own source runs on the CPU, block after block, each CUDA thread a
// thread of its own (or WARP = 1 and a single one). The test calls `place` in every thread and then the kernel.
#include <math.h>
#include <pthread.h>

struct Place { unsigned x, y; };
static thread_local Place blockIdx, threadIdx;
static Place blockDim, gridDim;
static pthread_barrier_t all, lanes_of[1024];
static double exchange[1024];
static float exchange_float[1024];
static int exchange_int[1024];
static long long exchange_long[1024];

#define __device__
#define __global__
#define __shared__ static

extern "C" void begin(unsigned blocks, unsigned rows, unsigned threads) {
    gridDim = {blocks, rows};
    blockDim = {threads, 1};
    pthread_barrier_init(&all, 0, threads);
    for (unsigned t = 0; t < threads; t += LANES) pthread_barrier_init(&lanes_of[t], 0, LANES);
}

extern "C" void place(unsigned block, unsigned row, unsigned thread) {
    blockIdx = {block, row};
    threadIdx = {thread, 0};
}

template <class T> static inline T __ldg(const T* at) { return *at; }

static inline void __threadfence() {}

static inline void __syncthreads() { pthread_barrier_wait(&all); }

// Lanes meet in their group; where a whole warp meets, the whole block is there.
static inline double __shfl_xor_sync(unsigned mask, double x, int step) {
    const bool few = LANES < WARP && __builtin_popcount(mask) == LANES;
    pthread_barrier_t* meet = few ? &lanes_of[threadIdx.x / LANES * LANES] : &all;
    exchange[threadIdx.x] = x;
    pthread_barrier_wait(meet);
    const double other = exchange[threadIdx.x ^ step];
    pthread_barrier_wait(meet);
    return other;
}

static inline double* table(double) { return exchange; }
static inline float* table(float) { return exchange_float; }
static inline int* table(int) { return exchange_int; }
static inline long long* table(long long) { return exchange_long; }

template <class T> static inline T __shfl_sync(unsigned mask, T x, int lane, int width) {
    pthread_barrier_t* meet = &lanes_of[threadIdx.x / LANES * LANES];
    table(x)[threadIdx.x] = x;
    pthread_barrier_wait(meet);
    const T other = table(x)[threadIdx.x / width * width + lane];
    pthread_barrier_wait(meet);
    return other;
}

template <class T> static inline T atomicAdd(T* at, T add) {
    T old = *at, sum;
    do sum = old + add;
    while (!__atomic_compare_exchange(at, &old, &sum, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    return old;
}
