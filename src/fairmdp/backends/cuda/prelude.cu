// Shared by the other sources of this folder, which are compiled behind it.
//
// Work is handed out in strides over the grid: to single threads, or to groups of LANES neighbouring ones
// where an item is a row of entries that its lanes read side by side. Scalars are `i64` and `double`, as
// Python's int and float arrive. Offset is the type of a model's row starts and Prob that of its
// probabilities; with DERIVED the last probability of a row is not read but is one less the others, so that
// rows of floats add up to one in double precision.

typedef long long i64;
typedef unsigned long long u64;

#ifndef WARP
#define WARP 32
#endif

const double FAR = 1.7976931348623157e308;
const int MOST_THREADS = 256;  // of a block
const double EPS = 2.220446049250313e-16;

__device__ inline i64 thread() { return (i64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ inline i64 threads() { return (i64)gridDim.x * blockDim.x; }
__device__ inline i64 group() { return thread() / LANES; }
__device__ inline i64 groups() { return threads() / LANES; }
__device__ inline int lane() { return threadIdx.x % LANES; }

// The lanes of this thread's group. Groups of one warp may be in different places.
__device__ inline unsigned mates() {
    const unsigned whole = LANES == 32 ? 0xffffffffu : (1u << (LANES % 32)) - 1u;
    return whole << (threadIdx.x % WARP / LANES * LANES);
}

// The sum over the lanes of a group, in every lane.
__device__ inline double lane_sum(double x) {
    for (int step = LANES / 2; step > 0; step /= 2) x += __shfl_xor_sync(mates(), x, step);
    return x;
}

__device__ inline double lane_max(double x) {
    for (int step = LANES / 2; step > 0; step /= 2) x = fmax(x, __shfl_xor_sync(mates(), x, step));
    return x;
}

// What lane k of the group has.
template <class T>
__device__ inline T of_lane(T x, int k) {
    return LANES == 1 ? x : __shfl_sync(mates(), x, k, LANES);
}

// The sum over the threads of a warp before this one; x becomes the sum over all of them.
__device__ inline double warp_scan(double& x) {
    double before = 0;
    for (int step = 1; step < WARP; step *= 2) {
        const double other = __shfl_xor_sync(0xffffffffu, x, step);
        if (threadIdx.x & step) before += other;
        x += other;
    }
    return before;
}

// --- numbers that a whole grid agrees on: a partial of each block, then the last block combines them ----------

enum Op { LEAST, LARGEST, SUM };

__device__ inline double combine(Op op, double a, double b) {
    return op == LEAST ? fmin(a, b) : op == LARGEST ? fmax(a, b) : a + b;
}

__device__ inline double neutral(Op op) { return op == LEAST ? FAR : op == LARGEST ? -FAR : 0.0; }

// What the threads of a block have, combined; right in the first thread.
__device__ inline double of_block(Op op, double x) {
    __shared__ double slots[32];
    for (int step = WARP / 2; step > 0; step /= 2) x = combine(op, x, __shfl_xor_sync(0xffffffffu, x, step));
    __syncthreads();  // the slots may still be read for the last number
    if (threadIdx.x % WARP == 0) slots[threadIdx.x / WARP] = x;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int warp = 1; warp < blockDim.x / WARP; warp++) x = combine(op, x, slots[warp]);
    return x;
}

// Column `column` of the partials gets what this block has. The first place of a board is not a partial.
__device__ inline void leave(Op op, double x, i64 column, double* board) {
    x = of_block(op, x);
    if (threadIdx.x == 0) board[1 + column * gridDim.x + blockIdx.x] = x;
}

// What all blocks have left in a column; right in the first thread.
__device__ inline double of_column(Op op, i64 column, i64 blocks, const volatile double* board) {
    double x = neutral(op);
    for (i64 b = threadIdx.x; b < blocks; b += blockDim.x) x = combine(op, x, board[1 + column * blocks + b]);
    return of_block(op, x);
}

// The last step of a kernel: numbers = columns of the board, first the least ones, then the largest, then sums. True
// in the block that finds them, once the others are done. The first place of the board counts blocks, and is 0
// between kernels.
__device__ inline bool finish(int least, int largest, int sums, double* board, double* numbers) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicAdd((u64*)board, 1ull) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return false;
    for (int column = 0; column < least + largest + sums; column++) {
        const Op op = column < least ? LEAST : column < least + largest ? LARGEST : SUM;
        const double x = of_column(op, column, gridDim.x, board);
        if (threadIdx.x == 0) numbers[column] = x;
    }
    if (threadIdx.x == 0) *(u64*)board = 0;
    return true;
}

// The same for many columns, a block each, in a kernel of its own.
extern "C" __global__ void fold(i64 blocks, i64 least, i64 largest, const double* board, double* numbers) {
    const i64 column = blockIdx.x;
    const Op op = column < least ? LEAST : column < least + largest ? LARGEST : SUM;
    const double x = of_column(op, column, blocks, board);
    if (threadIdx.x == 0) numbers[column] = x;
}

// --- rows of a model ---------------------------------------------------------------------------------------

// sum_k p_k h[col_k] over row i, in every lane of a group.
__device__ inline double ahead(i64 i, const Offset* row, const int* col, const Prob* val, const double* h) {
    const i64 stop = row[i + 1];
    double sum = 0;
#ifdef DERIVED
    const double last = h[col[stop - 1]];
    for (i64 k = row[i] + lane(); k < stop - 1; k += LANES) sum += val[k] * (h[col[k]] - last);
    return last + lane_sum(sum);
#else
    for (i64 k = row[i] + lane(); k < stop; k += LANES) sum += val[k] * h[col[k]];
    return lane_sum(sum);
#endif
}

// How far row i is from adding up to one, at most, in every lane of a group.
__device__ inline double row_defect(i64 i, const Offset* row, const Prob* val) {
#ifdef DERIVED
    return 2 * (row[i + 1] - row[i]) * EPS;
#else
    double sum = 0;
    for (i64 k = row[i] + lane(); k < row[i + 1]; k += LANES) sum += val[k];
    sum = lane_sum(sum);
    return fabs(sum - 1) + (row[i + 1] - row[i]) * EPS * sum;
#endif
}

// Copies the row from `first` to `stop`, times `weight`, to `cols` and `vals`, in all lanes of a group.
__device__ inline void copy_row(
    i64 first, i64 stop, const int* col, const Prob* val, double weight, int* cols, double* vals
) {
    const i64 size = stop - first;
    for (i64 k = lane(); k < size; k += LANES) {
        cols[k] = __ldg(&col[first + k]);
        vals[k] = weight * __ldg(&val[first + k]);
    }
#ifdef DERIVED
    double others = 0;
    for (i64 k = lane(); k < size - 1; k += LANES) others += val[first + k];
    others = lane_sum(others);
    if (lane() == (size - 1) % LANES) vals[size - 1] = weight * (1 - others);
#endif
}
