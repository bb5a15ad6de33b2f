// Sweeps over an MDP and over the chain of one policy; `kernels/bellman.py` is their twin on the CPU and says
// what the arrays are. The sets of quotas, gptr, gcol, gval, are given for each pair, or for each state where
// every set is made of whole states.

struct Sets {
    const i64* ptr;
    const int* col;
    const double* val;
    i64 by_state;

    __device__ double price(i64 s, i64 i, const double* mu) const {
        const i64 at = by_state ? s : i;
        double sum = 0;
        for (i64 j = ptr[at]; j < ptr[at + 1]; j++) sum += val[j] * mu[col[j]];
        return sum;
    }

    __device__ double member(i64 s, i64 i, i64 k) const {
        const i64 at = by_state ? s : i;
        double sum = 0;
        for (i64 j = ptr[at]; j < ptr[at + 1]; j++)
            if (col[j] == k) sum += val[j];
        return sum;
    }
};

const i64 STAGED = 2048;  // pairs that a block keeps in shared memory

// --- backups -----------------------------------------------------------------------------------------------

// q = (r - base) / scale + P h.
extern "C" __global__ void pair_values(
    i64 n_pairs, const Offset* row, const int* col, const Prob* val, const double* r, double base, double scale,
    const double* h, double* q
) {
    for (i64 i = group(); i < n_pairs; i += groups()) {
        const double sum = ahead(i, row, col, val, h);
        if (lane() == 0) q[i] = (r[i] - base) / scale + sum;
    }
}

// pi comes as q without prices and becomes the softmax policy; e = soft maximum of q - h. Partials: min e,
// max e, max q - h.
extern "C" __global__ void soft_states(
    i64 n, const i64* ptr, const i64* gptr, const int* gcol, const double* gval, i64 by_state, const double* mu,
    double tau, double rare, const double* h, double* pi, double* e, double* partials
) {
    const Sets sets = {gptr, gcol, gval, by_state};
    __shared__ double staged[STAGED];
    double low = FAR, high = -FAR, top = -FAR;
    for (i64 first = (i64)blockIdx.x * blockDim.x; first < n; first += threads()) {
        // The pairs of a block's states lie side by side: they are fetched and put back together if they fit.
        const i64 last = first + blockDim.x < n ? first + blockDim.x : n, from = ptr[first], size = ptr[last] - from;
        const bool fits = size <= STAGED;
        double* q = fits ? staged : pi + from;
        if (fits)
            for (i64 i = threadIdx.x; i < size; i += blockDim.x) staged[i] = pi[from + i];
        __syncthreads();
        const i64 s = first + threadIdx.x;
        if (s < n) {
            const i64 begin = ptr[s] - from, end = ptr[s + 1] - from;
            double best = -FAR, total = 0;
            for (i64 i = begin; i < end; i++) {
                q[i] += sets.price(s, from + i, mu);
                best = fmax(best, q[i]);
            }
            for (i64 i = begin; i < end; i++) {
                const double weight = exp((q[i] - best) / tau);
                q[i] = weight < rare ? 0 : weight;
                total += q[i];
            }
            for (i64 i = begin; i < end; i++) q[i] /= total;
            const double off = best + tau * log(total) - h[s];
            e[s] = off;
            low = fmin(low, off);
            high = fmax(high, off);
            top = fmax(top, best - h[s]);
        }
        __syncthreads();
        if (fits)
            for (i64 i = threadIdx.x; i < size; i += blockDim.x) pi[from + i] = staged[i];
    }
    leave(LEAST, low, 0, partials);
    leave(LARGEST, high, 1, partials);
    leave(LARGEST, top, 2, partials);
}

// choice = argmax q, the old one where it is within tie of it; pi = that choice, in place of q without prices;
// e = max q - h. Partials: min e, max e.
extern "C" __global__ void greedy_states(
    i64 n, const i64* ptr, const i64* gptr, const int* gcol, const double* gval, i64 by_state, const double* mu,
    double tie, const double* h, i64* choice, double* pi, double* e, double* partials
) {
    const Sets sets = {gptr, gcol, gval, by_state};
    double low = FAR, high = -FAR;
    for (i64 s = thread(); s < n; s += threads()) {
        double best = -FAR, kept = -FAR;
        i64 arg = ptr[s];
        for (i64 i = ptr[s]; i < ptr[s + 1]; i++) {
            const double q = pi[i] + sets.price(s, i, mu);
            if (q > best) best = q, arg = i;
            if (i == choice[s]) kept = q;
            pi[i] = 0;
        }
        if (kept < best - tie) choice[s] = arg;
        pi[choice[s]] = 1;
        e[s] = best - h[s];
        low = fmin(low, e[s]);
        high = fmax(high, e[s]);
    }
    leave(LEAST, low, 0, partials);
    leave(LARGEST, high, 1, partials);
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

extern "C" __global__ void chain_rows(
    i64 n, const i64* ptr, const Offset* row, const int* col, const Prob* val, const double* pi,
    const i64* starts, int* cols, double* vals
) {
    for (i64 s = group(); s < n; s += groups()) {
        i64 at = starts[s];
        for (i64 i = ptr[s]; i < ptr[s + 1]; i++)
            if (pi[i] > 0) at += copy_row(i, row, col, val, pi[i], cols + at, vals + at);
    }
}

// sizes[t] = entries in column t, added to zeros.
extern "C" __global__ void column_sizes(i64 entries, const int* cols, u64* sizes) {
    for (i64 k = thread(); k < entries; k += threads()) atomicAdd(&sizes[cols[k]], 1ull);
}

// Entry by entry to the next free place of its column; `next` comes as the row starts of the transpose.
extern "C" __global__ void turn(
    i64 n, const i64* starts, const int* cols, const double* vals, u64* next, int* cols_t, double* vals_t
) {
    for (i64 s = group(); s < n; s += groups())
        for (i64 k = starts[s] + lane(); k < starts[s + 1]; k += LANES) {
            const u64 at = atomicAdd(&next[cols[k]], 1ull);
            cols_t[at] = s;
            vals_t[at] = vals[k];
        }
}

// --- sweeps over a chain -----------------------------------------------------------------------------------

// out = P e less the middle of e, which lies between last[0] and last[1]; h += out. Partials: min, max of out.
// Each sweep centres what the one before has left, so h moves by a constant that does not matter.
extern "C" __global__ void value_sweep(
    i64 n, const i64* starts, const int* cols, const double* vals, double damping, const double* last,
    const double* e, double* out, double* h, double* partials
) {
    const double middle = (last[0] + last[1]) / 2;
    double low = FAR, high = -FAR;
    for (i64 s = group(); s < n; s += groups()) {
        double sum = 0;
        for (i64 k = starts[s] + lane(); k < starts[s + 1]; k += LANES) sum += vals[k] * e[cols[k]];
        sum = lane_sum(sum);
        if (lane() == 0) {
            sum += damping * (e[s] - sum) - middle;
            out[s] = sum;
            h[s] += (1 - damping) * sum;
            low = fmin(low, sum);
            high = fmax(high, sum);
        }
    }
    leave(LEAST, low, 0, partials);
    leave(LARGEST, high, 1, partials);
}

// out = nu P / total with the rows of the transpose. Partials: sum |out - nu / total|, sum out.
extern "C" __global__ void law_sweep(
    i64 n, const i64* starts, const int* cols, const double* vals, double damping, const double* total,
    const double* nu, double* out, double* partials
) {
    const double part = 1 / total[1];
    double change = 0, mass = 0;
    for (i64 s = group(); s < n; s += groups()) {
        double sum = 0;
        for (i64 k = starts[s] + lane(); k < starts[s + 1]; k += LANES) sum += vals[k] * nu[cols[k]];
        sum = lane_sum(sum) * part;
        if (lane() == 0) {
            const double old = nu[s] * part;
            sum += damping * (old - sum);
            out[s] = sum;
            change += fabs(sum - old);
            mass += sum;
        }
    }
    leave(SUM, change, 0, partials);
    leave(SUM, mass, 1, partials);
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

// out = F + P H for the columns from `first` on, a lane each. Partials: min of the residual for every column,
// then max. The lanes fetch the entries of a row side by side and hand them round.
template <class Real>
__device__ inline void sweep_block(
    i64 n, i64 K, i64 width, i64 first, const i64* starts, const int* cols, const double* vals, double damping,
    const Real* F, const Real* H, Real* out, double* partials
) {
    __shared__ double lows[MOST_THREADS], highs[MOST_THREADS];
    const i64 c = first + lane();
    double low = FAR, high = -FAR;
    for (i64 s = group(); s < n; s += groups()) {
        double sum = F[s * width + c];
        for (i64 from = starts[s]; from < starts[s + 1]; from += LANES) {
            const bool mine = from + lane() < starts[s + 1];
            const int to = mine ? cols[from + lane()] : 0;
            const double weight = mine ? vals[from + lane()] : 0;
#pragma unroll
            for (int k = 0; k < LANES; k++) sum += of_lane(weight, k) * H[of_lane(to, k) * width + c];
        }
        const double off = sum - H[s * width + c];
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
        partials[c * (i64)gridDim.x + blockIdx.x] = low;
        partials[(K + c) * (i64)gridDim.x + blockIdx.x] = high;
    }
}

extern "C" __global__ void block_sweep(
    i64 n, i64 K, i64 width, i64 first, const i64* starts, const int* cols, const double* vals, double damping,
    const float* F, const float* H, float* out, double* partials
) {
    sweep_block(n, K, width, first, starts, cols, vals, damping, F, H, out, partials);
}

extern "C" __global__ void wide_block_sweep(
    i64 n, i64 K, i64 width, i64 first, const i64* starts, const int* cols, const double* vals, double damping,
    const double* F, const double* H, double* out, double* partials
) {
    sweep_block(n, K, width, first, starts, cols, vals, damping, F, H, out, partials);
}

// --- what a policy amounts to ------------------------------------------------------------------------------

// Partials: share of each quota, sum r x with r as in `pair_values`, sum nu e; x = pi nu.
extern "C" __global__ void totals(
    i64 n, i64 K, const i64* ptr, const i64* gptr, const int* gcol, const double* gval, i64 by_state,
    const double* r, double base, double scale, const double* pi, const double* nu, const double* e,
    double* partials
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
    for (i64 k = threadIdx.x; k < K; k += blockDim.x) partials[k * (i64)gridDim.x + blockIdx.x] = shares[k];
    leave(SUM, gain, K, partials);
    leave(SUM, mean, K + 1, partials);
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
        for (i64 c = lane(); c < K; c += LANES) {
            double* to = D + c * total + rows[m];
            double base = 0, mean = 0;
            i64 count = 0;
            for (i64 i = ptr[s]; i < ptr[s + 1]; i++) {
                if (!(pi[i] > 0)) continue;
                double q = sets.member(s, i, c);
                const i64 stop = row[i + 1];
#ifdef DERIVED
                const double last = H[col[stop - 1] * width + c];
                q += last;
                for (i64 k = row[i]; k < stop - 1; k++) q += val[k] * (H[col[k] * width + c] - last);
#else
                for (i64 k = row[i]; k < stop; k++) q += val[k] * H[col[k] * width + c];
#endif
                if (count == 0) base = q;  // deviations from the first action keep the digits of a small spread
                to[count++] = q - base;
                mean += pi[i] * (q - base);
            }
            count = 0;
            for (i64 i = ptr[s]; i < ptr[s + 1]; i++) {
                if (!(pi[i] > 0)) continue;
                to[count] = sqrt(nu[s] * pi[i]) * (to[count] - mean);
                count++;
            }
        }
    }
}

// Partials: for each pair k >= l of rows of D, numbered row by row and one to each blockIdx.y, their product.
extern "C" __global__ void gram(i64 total, const double* D, double* partials) {
    i64 k = 0;
    while ((k + 1) * (k + 2) / 2 <= blockIdx.y) k++;
    const double *a = D + k * total, *b = D + (blockIdx.y - k * (k + 1) / 2) * total;
    double sum = 0;
    for (i64 m = thread(); m < total; m += threads()) sum += a[m] * b[m];
    leave(SUM, sum, blockIdx.y, partials);
}

extern "C" __global__ void shift(i64 n, i64 K, i64 width, const double* h, const float* H, const double* d, double* out) {
    for (i64 s = thread(); s < n; s += threads()) {
        double sum = h[s];
        for (i64 k = 0; k < K; k++) sum += H[s * width + k] * d[k];
        out[s] = sum;
    }
}

// --- the certificate: bounds with rounding errors added outward, as in certificate/rounded.py ------------------

// Partials: max over pairs of pay * r + G mu + P h - h_s, where |h| <= size.
extern "C" __global__ void ceiling_states(
    i64 n, const i64* ptr, const Offset* row, const int* col, const Prob* val, const double* r, double pay,
    const i64* gptr, const int* gcol, const double* gval, i64 by_state, const double* mu, const double* h,
    double size, double* partials
) {
    double top = -FAR;
    for (i64 s = group(); s < n; s += groups())
        for (i64 i = ptr[s]; i < ptr[s + 1]; i++) {
            const double next = ahead(i, row, col, val, h), defect = row_defect(i, row, val);
            const i64 at = by_state ? s : i;
            double raised = 0, size_raised = 0;
            for (i64 j = gptr[at]; j < gptr[at + 1]; j++) {
                raised += gval[j] * mu[gcol[j]];
                size_raised += gval[j] * fabs(mu[gcol[j]]);
            }
            const double terms = row[i + 1] - row[i] + gptr[at + 1] - gptr[at] + 6;
            const double error = terms * EPS * (fabs(pay * r[i]) + size_raised + 4 * size) + 2 * size * defect;
            top = fmax(top, pay * r[i] + raised + next - h[s] + error);
        }
    leave(LARGEST, top, 0, partials);
}

// e = f + P_pi h - h for the membership f of quota k, or for the rewards where k < 0; |h| <= size and
// |f| <= size_f. Every long-run law of the policy gives f a mean between the partials: min e, max e.
extern "C" __global__ void mean_bounds(
    i64 n, const i64* ptr, const Offset* row, const int* col, const Prob* val, const double* r, const i64* gptr,
    const int* gcol, const double* gval, i64 by_state, i64 k, const double* pi, const double* h, double size_f,
    double size, double* e, double* partials
) {
    const Sets sets = {gptr, gcol, gval, by_state};
    double low = FAR, high = -FAR;
    for (i64 s = group(); s < n; s += groups()) {
        double sum = 0, mass = 0, defect = 0, terms = 8;
        for (i64 i = ptr[s]; i < ptr[s + 1]; i++) {
            if (!(pi[i] > 0)) continue;
            const i64 at = by_state ? s : i;
            const double f = k < 0 ? r[i] : sets.member(s, i, k);
            sum += pi[i] * (f + ahead(i, row, col, val, h));
            mass += pi[i];
            defect = fmax(defect, row_defect(i, row, val));
            terms += row[i + 1] - row[i] + gptr[at + 1] - gptr[at] + 4;
        }
        const double off = sum / mass - h[s];
        const double error = terms * EPS * (size_f + 4 * size) + 2 * size * defect;
        if (lane() == 0) e[s] = off;
        low = fmin(low, off - error);
        high = fmax(high, off + error);
    }
    leave(LEAST, low, 0, partials);
    leave(LARGEST, high, 1, partials);
}

// Partials: how far a row of the model and a row of the policy are from adding up to one, at most.
extern "C" __global__ void defects(
    i64 n, const i64* ptr, const Offset* row, const Prob* val, const double* pi, double* partials
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
    leave(LARGEST, of_model, 0, partials);
    leave(LARGEST, of_policy, 1, partials);
}
