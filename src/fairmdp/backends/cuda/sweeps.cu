// Sweeps over an MDP and over the chain of one policy; `kernels/bellman.py` is their twin on the CPU and says
// what the arrays are. The sets of quotas, gptr, gcol, gval, are given for each pair, or for each state where
// every set is made of whole states.

struct Sets {
    const i64* ptr;
    const int* col;
    const double* val;
    i64 by_state;

    __device__ double price(i64 at, const double* mu) const {
        double sum = 0;
        for (i64 j = ptr[at]; j < ptr[at + 1]; j++) sum += val[j] * mu[col[j]];
        return sum;
    }

    // q += prices of the pairs of state s, which are `first` and those after it.
    __device__ void raise(i64 s, i64 first, i64 size, const double* mu, double* q) const {
        const double common = by_state ? price(s, mu) : 0;
        for (i64 i = 0; i < size; i++) q[i] += by_state ? common : price(first + i, mu);
    }

    __device__ double member(i64 s, i64 i, i64 k) const {
        const i64 at = by_state ? s : i;
        double sum = 0;
        for (i64 j = ptr[at]; j < ptr[at + 1]; j++)
            if (col[j] == k) sum += val[j];
        return sum;
    }
};

// --- backups -----------------------------------------------------------------------------------------------

const i64 STAGED = 2048;  // pairs that a block keeps in shared memory

// Blocks take `chunk` states at a time, whose pairs lie side by side: groups find the value of each pair, then
// threads what a state makes of its own, from value q[0] on. `room` has a place for every pair: values that do
// not fit into shared memory are there, and with `keep` all of them in the end. Where `some` is given, pairs
// that have 0 there are left out, and get the value -FAR, unless there are too many pairs.
template <class Value, class State>
__device__ inline void over_chunks(
    i64 n, i64 chunk, const i64* ptr, const unsigned char* some, double* room, bool keep, Value value, State state
) {
    __shared__ double staged[STAGED];
    __shared__ unsigned short listed[STAGED];
    __shared__ unsigned count;
    for (i64 first = blockIdx.x * chunk; first < n; first += gridDim.x * chunk) {
        const i64 last = first + chunk < n ? first + chunk : n, from = ptr[first], size = ptr[last] - from;
        const bool fits = size <= STAGED, listing = some && fits;
        double* q = fits ? staged : room + from;
        if (listing) {
            if (threadIdx.x == 0) count = 0;
            __syncthreads();
            for (i64 i = threadIdx.x; i < size; i += blockDim.x) {
                if (some[from + i]) listed[atomicAdd(&count, 1u)] = i;
                else q[i] = -FAR;
            }
            __syncthreads();
        }
        const i64 items = listing ? count : size;
        for (i64 k = threadIdx.x / LANES; k < items; k += blockDim.x / LANES) {
            const i64 i = listing ? listed[k] : k;
            const double x = value(from + i);
            if (lane() == 0) q[i] = x;
        }
        __syncthreads();
        for (i64 s = first + threadIdx.x; s < last; s += blockDim.x) state(s, q + (ptr[s] - from));
        __syncthreads();
        if (!fits || !keep) continue;
        for (i64 i = threadIdx.x; i < size; i += blockDim.x) room[from + i] = staged[i];
        __syncthreads();
    }
}

// With q = (r - base) / scale + G mu + P h: pi = softmax of q / tau, e = soft maximum of q - h. Numbers: min e,
// max e, max q - h. Of pairs that are not near only those count that are; with reach > 0 those are near from now
// on that are within it of their state's best.
extern "C" __global__ void soft_states(
    i64 n, i64 chunk, const i64* ptr, const Offset* row, const int* col, const Prob* val, const double* r,
    double base, double scale, const i64* gptr, const int* gcol, const double* gval, i64 by_state,
    const double* mu, double tau, double rare, const double* h, i64 known, unsigned char* near, double reach,
    double* pi, double* e, double* board, double* numbers
) {
    const Sets sets = {gptr, gcol, gval, by_state};
    const double cold = 1 / tau, least = log(rare);
    double low = FAR, high = -FAR, top = -FAR;
    over_chunks(
        n, chunk, ptr, known ? near : 0, pi, true,
        [&](i64 i) { return (r[i] - base) / scale + ahead(i, row, col, val, h); },
        [&](i64 s, double* q) {
            const i64 size = ptr[s + 1] - ptr[s];
            sets.raise(s, ptr[s], size, mu, q);
            double best = -FAR, total = 0;
            for (i64 i = 0; i < size; i++) best = fmax(best, q[i]);
            for (i64 i = 0; reach > 0 && i < size; i++) near[ptr[s] + i] = q[i] >= best - reach;
            for (i64 i = 0; i < size; i++) {
                const double depth = (q[i] - best) * cold;
                q[i] = depth < least ? 0 : exp(depth);
                total += q[i];
            }
            const double part = 1 / total;
            for (i64 i = 0; i < size; i++) q[i] *= part;
            const double off = best + tau * log(total) - h[s];
            e[s] = off;
            low = fmin(low, off);
            high = fmax(high, off);
            top = fmax(top, best - h[s]);
        }
    );
    leave(LEAST, low, 0, board);
    leave(LARGEST, high, 1, board);
    leave(LARGEST, top, 2, board);
    finish(1, 2, 0, board, numbers);
}

// With the same q: choice = argmax q, the old one where it is within tie of it; pi = that choice; e = max q - h.
// Numbers: min e, max e.
extern "C" __global__ void greedy_states(
    i64 n, i64 chunk, const i64* ptr, const Offset* row, const int* col, const Prob* val, const double* r,
    double base, double scale, const i64* gptr, const int* gcol, const double* gval, i64 by_state,
    const double* mu, double tie, const double* h, i64* choice, double* pi, double* e, double* board, double* numbers
) {
    const Sets sets = {gptr, gcol, gval, by_state};
    double low = FAR, high = -FAR;
    over_chunks(
        n, chunk, ptr, 0, pi, true,
        [&](i64 i) { return (r[i] - base) / scale + ahead(i, row, col, val, h); },
        [&](i64 s, double* q) {
            const i64 size = ptr[s + 1] - ptr[s], old = choice[s] - ptr[s];
            sets.raise(s, ptr[s], size, mu, q);
            i64 best = 0;
            for (i64 i = 1; i < size; i++)
                if (q[i] > q[best]) best = i;
            const double off = q[best] - h[s];
            const i64 kept = old >= 0 && old < size && q[old] >= q[best] - tie ? old : best;
            for (i64 i = 0; i < size; i++) q[i] = i == kept;
            choice[s] = ptr[s] + kept;
            e[s] = off;
            low = fmin(low, off);
            high = fmax(high, off);
        }
    );
    leave(LEAST, low, 0, board);
    leave(LARGEST, high, 1, board);
    finish(1, 1, 0, board, numbers);
}

// --- the chain of a policy, and its transpose --------------------------------------------------------------

// sizes[s] = entries of row s of the policy's chain: the rows of the actions played, end to end.
extern "C" __global__ void chain_sizes(i64 n, const i64* ptr, const Offset* row, const double* pi, i64* sizes) {
    for (i64 s = thread(); s < n; s += threads()) {
        i64 size = 0;
        for (i64 i = ptr[s]; i < ptr[s + 1]; i++)
            if (pi[i] > 0) size += row[i + 1] - row[i];
        sizes[s] = size;
    }
}

const int LISTED = 1024;  // rows that a block keeps in shared memory

// Rows of the model that a block has found to be played, by a factor x, and where they belong.
struct Listed {
    Offset begin[LISTED], end[LISTED];
    double x[LISTED];
    i64 at[LISTED];
    unsigned count;
};

// Threads go through the pairs of a state each and list the rows of those with a factor x = played(s, i) other than
// 0, at = place(s, i), in their order; then groups share the rows: use(begin, end, x, at).
template <class Played, class Place, class Use>
__device__ inline void over_played(i64 n, const i64* ptr, const Offset* row, Played played, Place place, Use use) {
    __shared__ Listed list;
    for (i64 first = (i64)blockIdx.x * blockDim.x; first < n; first += threads()) {
        const i64 s = first + threadIdx.x, stop = s < n ? ptr[s + 1] : 0;
        i64 i = s < n ? ptr[s] : 0;
        bool full = true;
        while (full) {  // once, unless the list has no room for all
            __syncthreads();
            if (threadIdx.x == 0) list.count = 0;
            __syncthreads();
            for (; i < stop; i++) {
                const double x = played(s, i);
                if (x == 0) continue;
                const unsigned k = atomicAdd(&list.count, 1u);
                if (k >= LISTED) break;
                list.begin[k] = row[i];
                list.end[k] = row[i + 1];
                list.x[k] = x;
                list.at[k] = place(s, i);
            }
            __syncthreads();
            full = list.count > LISTED;
            const unsigned count = full ? LISTED : list.count;
#pragma unroll 4
            for (unsigned k = threadIdx.x / LANES; k < count; k += blockDim.x / LANES)
                use(list.begin[k], list.end[k], list.x[k], list.at[k]);
        }
    }
}

extern "C" __global__ void chain_rows(
    i64 n, const i64* ptr, const Offset* row, const int* col, const Prob* val, const double* pi,
    const i64* starts, int* cols, double* vals
) {
    i64 state = -1, free = 0;
    over_played(
        n, ptr, row, [&](i64 s, i64 i) { return pi[i]; },
        [&](i64 s, i64 i) {
            const i64 at = s == state ? free : starts[s];
            state = s;
            free = at + row[i + 1] - row[i];
            return at;
        },
        [&](i64 begin, i64 end, double weight, i64 at) {
            copy_row(begin, end, col, val, weight, cols + at, vals + at);
        }
    );
}

// A transpose is written where its rows are, all over memory. So entries first go into buckets of COLUMNS columns
// each: a block then has all that it needs for the rows of one, and writes them side by side.

const int COLUMNS = 512;

struct alignas(16) Entry {
    int from, to;
    double value;
};

// sizes[b] = entries in bucket b, added to zeros.
extern "C" __global__ void bucket_sizes(i64 entries, const int* cols, u64* sizes) {
    for (i64 k = thread(); k < entries; k += threads()) atomicAdd(&sizes[cols[k] / COLUMNS], 1ull);
}

// Entries of the buckets from `low` to `high` to the next free places there; `next` comes as the buckets' starts, and
// `entries` begin with those of `low`.
extern "C" __global__ void fill_buckets(
    i64 n, const i64* starts, const int* cols, const double* vals, i64 low, i64 high, i64 origin, u64* next,
    Entry* entries
) {
    for (i64 s = group(); s < n; s += groups())
        for (i64 k = starts[s] + lane(); k < starts[s + 1]; k += LANES) {
            const int to = cols[k], b = to / COLUMNS;
            if (b >= low && b < high) entries[atomicAdd(&next[b], 1ull) - origin] = {(int)s, to, vals[k]};
        }
}

// Rows of the transpose, a block for each of these buckets.
extern "C" __global__ void turn(
    i64 n, i64 low, i64 high, i64 origin, const i64* bucket_starts, const Entry* entries, i64* starts, int* cols,
    double* vals
) {
    __shared__ unsigned counts[COLUMNS], next[COLUMNS];
    for (i64 b = low + blockIdx.x; b < high; b += gridDim.x) {
        const i64 first = bucket_starts[b], stop = bucket_starts[b + 1], from = b * COLUMNS;
        for (int t = threadIdx.x; t < COLUMNS; t += blockDim.x) counts[t] = 0;
        __syncthreads();
        for (i64 k = first + threadIdx.x; k < stop; k += blockDim.x)
            atomicAdd(&counts[entries[k - origin].to - from], 1u);
        __syncthreads();
        double before = 0;
        for (int t = threadIdx.x % WARP; t < COLUMNS; t += WARP) {  // every warp, and one of them writes
            double count = counts[t];
            const double place = before + warp_scan(count);
            before += count;
            if (threadIdx.x >= WARP) continue;
            next[t] = place;
            if (from + t < n) starts[from + t] = first + (i64)place;
        }
        __syncthreads();
        for (i64 k = first + threadIdx.x; k < stop; k += blockDim.x) {
            const Entry entry = entries[k - origin];
            const i64 at = first + atomicAdd(&next[entry.to - from], 1u);
            cols[at] = entry.from;
            vals[at] = entry.value;
        }
        __syncthreads();
    }
}

// --- sweeps over a chain -----------------------------------------------------------------------------------

// A group's rows of a chain, one after the other, with the entries of the next row on their way while those of a
// row are used: memory that is read at random answers late. `HELD` entries of a row wait in each lane, from
// `begin` on; the rest of a longer row is fetched when it is its turn.
template <int HELD>
struct Rows {
    i64 n;
    const i64* starts;
    const int* cols;
    const double* vals;
    i64 begin, end, next_begin, next_end;
    int to[HELD];
    double weight[HELD];

    __device__ Rows(i64 n, const i64* starts, const int* cols, const double* vals)
        : n(n), starts(starts), cols(cols), vals(vals) {
        look(group());
        step(group());
    }

    __device__ void look(i64 s) {
        next_begin = s < n ? starts[s] : 0;
        next_end = s < n ? starts[s + 1] : 0;
    }

    // From the row before s to s, whose ends are known.
    __device__ void step(i64 s) {
        begin = next_begin;
        end = next_end;
        for (int m = 0; m < HELD; m++) {
            const i64 k = begin + m * LANES + lane();
            to[m] = k < end ? __ldg(&cols[k]) : 0;
            weight[m] = k < end ? __ldg(&vals[k]) : 0;
        }
        look(s + groups());
    }
};

const int DEEP = 4;  // entries of a row that wait in each lane

// Calls each(s, sum_k p_k x[col_k]) for the rows of a chain, in every lane of a group.
template <class Real, class Each>
__device__ inline void over_rows(
    i64 n, const i64* starts, const int* cols, const double* vals, const Real* x, Each each
) {
    Rows<DEEP> rows(n, starts, cols, vals);
    for (i64 s = group(); s < n; s += groups()) {
        double weight[DEEP];
        Real found[DEEP];
        for (int m = 0; m < DEEP; m++) {
            weight[m] = rows.weight[m];
            found[m] = x[rows.to[m]];
        }
        const i64 rest = rows.begin + DEEP * LANES + lane(), end = rows.end;
        rows.step(s + groups());
        double sum = 0;
        for (int m = 0; m < DEEP; m++) sum += weight[m] * found[m];
        for (i64 k = rest; k < end; k += LANES) sum += vals[k] * x[cols[k]];
        each(s, lane_sum(sum));
    }
}

// e less the middle of its ends, to out and, damped, to h.
extern "C" __global__ void value_start(
    i64 n, double damping, const double* ends, const double* e, float* out, double* h
) {
    const double middle = (ends[0] + ends[1]) / 2;
    for (i64 s = thread(); s < n; s += threads()) {
        const double off = e[s] - middle;
        out[s] = off;
        h[s] += (1 - damping) * off;
    }
}

// out = P e less the middle of e, which lies between last[0] and last[1]; h += out. Numbers: min, max of out.
// Each sweep centres what the one before has left, so h moves by a constant that does not matter, and floats are
// exact enough.
extern "C" __global__ void value_sweep(
    i64 n, const i64* starts, const int* cols, const double* vals, double damping, const double* last,
    const float* e, float* out, double* h, double* board, double* numbers
) {
    const double middle = (last[0] + last[1]) / 2;
    double low = FAR, high = -FAR;
    over_rows(n, starts, cols, vals, e, [&](i64 s, double sum) {
        if (lane() != 0) return;
        sum += damping * (e[s] - sum) - middle;
        out[s] = sum;
        h[s] += (1 - damping) * sum;
        low = fmin(low, sum);
        high = fmax(high, sum);
    });
    leave(LEAST, low, 0, board);
    leave(LARGEST, high, 1, board);
    finish(1, 1, 0, board, numbers);
}

// out = nu P / total with the rows of the transpose. Numbers: sum |out - nu / total|, sum out.
extern "C" __global__ void stationary_sweep(
    i64 n, const i64* starts, const int* cols, const double* vals, double damping, const double* total,
    const double* nu, double* out, double* board, double* numbers
) {
    const double part = 1 / total[1];
    double change = 0, mass = 0;
    over_rows(n, starts, cols, vals, nu, [&](i64 s, double sum) {
        if (lane() != 0) return;
        const double old = nu[s] * part;
        sum = sum * part + damping * (old - sum * part);
        out[s] = sum;
        change += fabs(sum - old);
        mass += sum;
    });
    leave(SUM, change, 0, board);
    leave(SUM, mass, 1, board);
    finish(0, 0, 2, board, numbers);
}

// F[s, k] = sum_a pi(a|s) G_k(s, a) - shares[k]; rows of `width` floats.
extern "C" __global__ void quota_block(
    i64 n, i64 K, i64 width, const i64* ptr, const i64* gptr, const int* gcol, const double* gval, i64 by_state,
    const double* pi, const double* shares, float* F
) {
    for (i64 s = thread(); s < n; s += threads()) {
        float* row = F + s * width;
        for (i64 k = 0; k < width; k++) row[k] = k < K ? -shares[k] : 0;
        for (i64 i = ptr[s]; i < ptr[s + 1]; i++) {
            if (!(pi[i] > 0)) continue;
            const i64 at = by_state ? s : i;
            for (i64 j = gptr[at]; j < gptr[at + 1]; j++) row[gcol[j]] += pi[i] * gval[j];
        }
    }
}

// out = F + P H for the columns from `first` on, a lane each. Numbers: min of the residual for every column,
// then max. The lanes fetch the entries of a row side by side and hand them round.
template <class Real>
__device__ inline void sweep_block(
    i64 n, i64 K, i64 width, i64 first, const i64* starts, const int* cols, const double* vals, double damping,
    const Real* F, const Real* H, Real* out, double* board
) {
    __shared__ double lows[MOST_THREADS], highs[MOST_THREADS];
    const i64 c = first + lane();
    double low = FAR, high = -FAR;
    Rows<1> rows(n, starts, cols, vals);
    for (i64 s = group(); s < n; s += groups()) {
        const int size = rows.end - rows.begin < LANES ? rows.end - rows.begin : LANES;
        const Real weight = rows.weight[0];
        Real found[LANES];
#pragma unroll
        for (int k = 0; k < LANES; k++) {
            const i64 to = of_lane(rows.to[0], k);
            found[k] = k < size ? H[to * width + c] : 0;
        }
        const Real own = H[s * width + c];
        double sum = F[s * width + c];
        const i64 rest = rows.begin + LANES, end = rows.end;
        rows.step(s + groups());
#pragma unroll
        for (int k = 0; k < LANES; k++) sum += (double)of_lane(weight, k) * found[k];
        for (i64 from = rest; from < end; from += LANES) {
            const bool mine = from + lane() < end;
            const int to = mine ? cols[from + lane()] : 0;
            const double more = mine ? vals[from + lane()] : 0;
            for (int k = 0; k < LANES && from + k < end; k++) sum += of_lane(more, k) * H[of_lane(to, k) * width + c];
        }
        const double off = sum - own;
        out[s * width + c] = sum - damping * off;
        low = fmin(low, off);
        high = fmax(high, off);
    }
    lows[threadIdx.x] = low;
    highs[threadIdx.x] = high;
    __syncthreads();
    if (threadIdx.x < LANES && c < K) {
        for (int t = threadIdx.x + LANES; t < blockDim.x; t += LANES) {
            low = fmin(low, lows[t]);
            high = fmax(high, highs[t]);
        }
        board[1 + c * gridDim.x + blockIdx.x] = low;
        board[1 + (K + c) * gridDim.x + blockIdx.x] = high;
    }
}

extern "C" __global__ void block_sweep(
    i64 n, i64 K, i64 width, i64 first, const i64* starts, const int* cols, const double* vals, double damping,
    const float* F, const float* H, float* out, double* board
) {
    sweep_block(n, K, width, first, starts, cols, vals, damping, F, H, out, board);
}

extern "C" __global__ void wide_block_sweep(
    i64 n, i64 K, i64 width, i64 first, const i64* starts, const int* cols, const double* vals, double damping,
    const double* F, const double* H, double* out, double* board
) {
    sweep_block(n, K, width, first, starts, cols, vals, damping, F, H, out, board);
}

// --- what a policy amounts to ------------------------------------------------------------------------------

// Numbers: share of each quota, sum (r - base) / scale x, sum nu e; x = pi nu.
extern "C" __global__ void totals(
    i64 n, i64 K, const i64* ptr, const i64* gptr, const int* gcol, const double* gval, i64 by_state,
    const double* r, double base, double scale, const double* pi, const double* nu, const double* e,
    double* board
) {
    __shared__ double shares[MOST_QUOTAS];
    for (i64 k = threadIdx.x; k < K; k += blockDim.x) shares[k] = 0;
    __syncthreads();
    double gain = 0, mean = 0;
    for (i64 s = thread(); s < n; s += threads()) {
        mean += nu[s] * e[s];
        for (i64 i = ptr[s]; i < ptr[s + 1]; i++) {
            if (!(pi[i] > 0)) continue;
            const double x = pi[i] * nu[s];
            gain += (r[i] - base) / scale * x;
            const i64 at = by_state ? s : i;
            for (i64 j = gptr[at]; j < gptr[at + 1]; j++) atomicAdd(&shares[gcol[j]], gval[j] * x);
        }
    }
    __syncthreads();
    for (i64 k = threadIdx.x; k < K; k += blockDim.x) board[1 + k * gridDim.x + blockIdx.x] = shares[k];
    leave(SUM, gain, K, board);
    leave(SUM, mean, K + 1, board);
}

// x = pi nu.
extern "C" __global__ void occupancy(i64 n, const i64* ptr, const double* pi, const double* nu, double* x) {
    for (i64 s = thread(); s < n; s += threads())
        for (i64 i = ptr[s]; i < ptr[s + 1]; i++) x[i] = pi[i] * nu[s];
}

// played[s] = number of actions of s with pi > 0 if there are several, else 0.
extern "C" __global__ void mixed_states(i64 n, const i64* ptr, const double* pi, i64* played) {
    for (i64 s = thread(); s < n; s += threads()) {
        i64 count = 0;
        for (i64 i = ptr[s]; i < ptr[s + 1]; i++) count += pi[i] > 0;
        played[s] = count > 1 ? count : 0;
    }
}

// sum_k p_k H[col_k, c] over a row, with c the lane's own; the lanes fetch entries side by side and hand them round.
__device__ inline double row_of_block(
    i64 begin, i64 end, const int* col, const Prob* val, const float* H, i64 width, i64 c
) {
#ifdef DERIVED
    const double last = H[col[--end] * width + c];
#else
    const double last = 0;
#endif
    double sum = last;
    for (i64 from = begin; from < end; from += LANES) {
        const bool mine = from + lane() < end;
        const int to = mine ? col[from + lane()] : 0;
        const double p = mine ? val[from + lane()] : 0;
#pragma unroll
        for (int k = 0; k < LANES; k++) {
            const i64 at = of_lane(to, k) * width + c;
            sum += of_lane(p, k) * (from + k < end ? H[at] - last : 0);
        }
    }
    return sum;
}

// D[c, rows[m] ..] = sqrt(nu pi) (q_c - mean q_c) for the actions played in state states[m], with
// q_c = G_c + P H_c; D has `total` columns. A lane for each quota.
extern "C" __global__ void deviations(
    i64 mixed, i64 K, i64 width, i64 total, const i64* states, const i64* rows, const i64* ptr, const Offset* row,
    const int* col, const Prob* val, const i64* gptr, const int* gcol, const double* gval, i64 by_state,
    const double* pi, const double* nu, const float* H, double* D
) {
    const Sets sets = {gptr, gcol, gval, by_state};
    for (i64 m = group(); m < mixed; m += groups()) {
        const i64 s = states[m];
        for (i64 from = 0; from < K; from += LANES) {
            const i64 c = from + lane();
            double* to = c < K ? D + c * total + rows[m] : 0;
            double base = 0, mean = 0;
            i64 count = 0;
            for (i64 i = ptr[s]; i < ptr[s + 1]; i++) {
                if (!(pi[i] > 0)) continue;
                const double q = sets.member(s, i, c) + row_of_block(row[i], row[i + 1], col, val, H, width, c);
                if (count == 0) base = q;  // deviations from the first action keep the digits of a small spread
                if (to) to[count] = q - base;
                count++;
                mean += pi[i] * (q - base);
            }
            count = 0;
            for (i64 i = ptr[s]; to && i < ptr[s + 1]; i++) {
                if (!(pi[i] > 0)) continue;
                to[count] = sqrt(nu[s] * pi[i]) * (to[count] - mean);
                count++;
            }
        }
    }
}

// Numbers: for each pair k >= l of rows of D, numbered row by row and one to each blockIdx.y, their product.
extern "C" __global__ void gram(i64 total, const double* D, double* board) {
    i64 k = 0;
    while ((k + 1) * (k + 2) / 2 <= blockIdx.y) k++;
    const double *a = D + k * total, *b = D + (blockIdx.y - k * (k + 1) / 2) * total;
    double sum = 0;
    for (i64 m = thread(); m < total; m += threads()) sum += a[m] * b[m];
    leave(SUM, sum, blockIdx.y, board);
}

// Numbers: min, max of a - b, as far as can be where that is no number.
extern "C" __global__ void apart(i64 n, const double* a, const double* b, double* board, double* numbers) {
    double low = FAR, high = -FAR;
    for (i64 s = thread(); s < n; s += threads()) {
        const double off = a[s] - b[s];
        const bool sound = fabs(off) < FAR;
        low = fmin(low, sound ? off : -FAR);
        high = fmax(high, sound ? off : FAR);
    }
    leave(LEAST, low, 0, board);
    leave(LARGEST, high, 1, board);
    finish(1, 1, 0, board, numbers);
}

extern "C" __global__ void shift(
    i64 n, i64 K, i64 width, const double* h, const float* H, const double* d, double* out
) {
    for (i64 s = thread(); s < n; s += threads()) {
        double sum = h[s];
        for (i64 k = 0; k < K; k++) sum += H[s * width + k] * d[k];
        out[s] = sum;
    }
}

// --- the certificate: bounds with rounding errors added outward, as in certificate/rounded.py ------------------

// Numbers: max over pairs of pay * r + G mu + P h - h_s, where |h| <= size.
extern "C" __global__ void ceiling_states(
    i64 n, i64 chunk, const i64* ptr, const Offset* row, const int* col, const Prob* val, const double* r,
    double pay, const i64* gptr, const int* gcol, const double* gval, i64 by_state, const double* mu,
    const double* h, double size, double* room, double* board, double* numbers
) {
    double top = -FAR;
    over_chunks(
        n, chunk, ptr, 0, room, false,
        [&](i64 i) { return ahead(i, row, col, val, h) + 2 * size * row_defect(i, row, val); },
        [&](i64 s, double* next) {
            for (i64 i = ptr[s]; i < ptr[s + 1]; i++) {
                const i64 at = by_state ? s : i;
                double raised = 0, size_raised = 0;
                for (i64 j = gptr[at]; j < gptr[at + 1]; j++) {
                    raised += gval[j] * mu[gcol[j]];
                    size_raised += gval[j] * fabs(mu[gcol[j]]);
                }
                const double terms = row[i + 1] - row[i] + gptr[at + 1] - gptr[at] + 7;
                const double error = terms * EPS * (fabs(pay * r[i]) + size_raised + 4 * size);
                top = fmax(top, pay * r[i] + raised + next[i - ptr[s]] - h[s] + error);
            }
        }
    );
    leave(LARGEST, top, 0, board);
    finish(0, 1, 0, board, numbers);
}

// e = f + P_pi h - h for the membership f of quota k, or for the rewards where k < 0; |h| <= size and
// |f| <= size_f. Every stationary distribution of the policy gives f a mean between the numbers: min e, max e.
extern "C" __global__ void mean_bounds(
    i64 n, const i64* ptr, const Offset* row, const int* col, const Prob* val, const double* r, const i64* gptr,
    const int* gcol, const double* gval, i64 by_state, i64 k, const double* pi, const double* h, double size_f,
    double size, double* e, double* board, double* numbers
) {
    const Sets sets = {gptr, gcol, gval, by_state};
    double low = FAR, high = -FAR;
    for (i64 s = group(); s < n; s += groups()) {
        double sum = 0, mass = 0, defect = 0, terms = 8;
        for (i64 i = ptr[s]; i < ptr[s + 1]; i++) {
            if (!(pi[i] > 0)) continue;
            const i64 at = by_state ? s : i;
            const double f = k < 0 ? r[i] : sets.member(s, i, k);
            sum += pi[i] * (f + (size > 0 ? ahead(i, row, col, val, h) : 0));
            mass += pi[i];
            if (size > 0) defect = fmax(defect, row_defect(i, row, val));
            terms += row[i + 1] - row[i] + gptr[at + 1] - gptr[at] + 4;
        }
        const double off = sum / mass - h[s];
        const double error = terms * EPS * (size_f + 4 * size) + 2 * size * defect;
        if (lane() == 0) e[s] = off;
        low = fmin(low, off - error);
        high = fmax(high, off + error);
    }
    leave(LEAST, low, 0, board);
    leave(LARGEST, high, 1, board);
    finish(1, 1, 0, board, numbers);
}

// Numbers: how far a row of the model and a row of the policy are from adding up to one, at most.
extern "C" __global__ void defects(
    i64 n, const i64* ptr, const Offset* row, const Prob* val, const double* pi, double* board, double* numbers
) {
    double of_model = 0, of_policy = 0;
    for (i64 s = group(); s < n; s += groups()) {
        double mass = 0;
        for (i64 i = ptr[s]; i < ptr[s + 1]; i++) {
            mass += pi[i];
            of_model = fmax(of_model, row_defect(i, row, val));
        }
        of_policy = fmax(of_policy, fabs(mass - 1) + (ptr[s + 1] - ptr[s]) * EPS * mass);
    }
    leave(LARGEST, of_model, 0, board);
    leave(LARGEST, of_policy, 1, board);
    finish(0, 2, 0, board, numbers);
}
