// Many runs of Algorithm 1 on one small model, a thread each: the twin of `dense_run` in kernels/mirror.py, which
// explains units, deep numbers and streams. Draw for draw the same run. Arrays of a run are columns: entry p
// of run k lies at p * runs + k.

const double DEEP = 1e-150, LOG_DEEP = -345.38776394910684;
#define NOTHING (-1e308 * 10)  // the logarithm of zero

// Column of one run.
struct Column {
    double* at;
    i64 runs;

    __device__ double& operator[](i64 p) const { return at[p * runs]; }
};

__device__ inline double linear(double v) { return v > 0 ? v : 0; }

__device__ inline double draw(u64 start, u64 gamma, i64 n) {
    u64 z = start + (u64)n * gamma;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    z = z ^ (z >> 31);
    return (z >> 11) * 1.1102230246251565e-16;
}

// v exp(-d) in the mixed scale of linear and deep numbers.
__device__ inline double shifted(double v, double d) {
    if (v > 0) {
        const double y = v * exp(-d);
        return y >= DEEP ? y : log(v) - d;
    }
    return v - d >= LOG_DEEP ? exp(v - d) : v - d;
}

struct Tables {
    const i64 *start, *unit, *row;
    const double* alias;
    const int *alias_i, *s_of;

    __device__ int next_state(i64 p, double u) const {
        const double v = u * (row[p + 1] - row[p]);
        const i64 k = (i64)v, e = row[p] + k;
        return v - k < alias[2 * e] ? alias_i[4 * e + 2] : alias_i[4 * e + 3];
    }
};

// w[p] *= exp(-d); returns the log of the unit's new sum over its old one.
__device__ inline double tilt_pair(const Tables& model, Column w, Column ws, i64 u, i64 p, double d) {
    const i64 a = model.start[u], b = model.start[u + 1];
    const double old = ws[u], before = linear(w[p]);
    w[p] = shifted(w[p], d);
    const double sum = old + linear(w[p]) - before;
    ws[u] = sum;
    if (0.5 * old < sum && sum < 16.0 * (b - a) && sum > 0.0625) return log(sum / old);
    double top = NOTHING, total = 0;
    for (i64 q = a; q < b; q++) top = fmax(top, w[q] > 0 ? log(w[q]) : w[q]);
    for (i64 q = a; q < b; q++) {
        if (w[q] != NOTHING) w[q] = shifted(w[q], top);
        total += linear(w[q]);
    }
    ws[u] = total;
    return top + log(total) - log(old);
}

// Position j ~ x: a unit by its mass, then a pair by its weight.
__device__ inline i64 pick(const Tables& model, i64 U, Column nu, Column w, Column ws, double u1, double u2) {
    double total = 0;
    i64 b = -1, j = -1;
    for (i64 u = 0; u < U && !(total > u1); u++) {
        if (nu[u] > 0) b = u;
        total += linear(nu[u]);
    }
    const double v = u2 * ws[b];
    total = 0;
    for (i64 p = model.start[b]; p < model.start[b + 1] && !(total > v); p++) {
        if (w[p] > 0) j = p;
        total += linear(w[p]);
    }
    return j;
}

// The c with sum max(c Y, rho) == 1; deep masses count as zero.
__device__ inline double water_fill(i64 U, Column Y, Column rho) {
    double sum = 0, pinned_before = 0;
    for (i64 u = 0; u < U; u++) sum += linear(Y[u]);
    double c = 1 / sum;
    bool any_short = false;
    for (i64 u = 0; u < U; u++) any_short |= Y[u] * c < rho[u];
    while (any_short) {
        double loose = 0, pinned = 0;
        for (i64 u = 0; u < U; u++) {
            const double y = linear(Y[u]);
            if (y * c < rho[u]) pinned += rho[u];
            else loose += y;
        }
        const double lower = loose > 0 ? fmax(1 - pinned, 0.0) / loose : 0;
        if (pinned <= pinned_before || lower >= c) break;
        c = lower;
        pinned_before = pinned;
    }
    return c;
}

extern "C" __global__ void mirror_steps(
    i64 runs, i64 steps, i64 L, i64 U, i64 S, const i64* start, const i64* unit, const i64* row,
    const double* alias, const int* alias_i, const int* s_of, const double* r, double* rhos, const double* eta_xs,
    const double* eta_lams, const double* lam_maxs, const u64* keys, i64 clock, double* ws_, double* sums_,
    double* masses, double* lams, double* x_sums, double* lam_sums
) {
    const Tables model = {start, unit, row, alias, alias_i, s_of};
    for (i64 k = thread(); k < runs; k += threads()) {
        const Column rho = {rhos + k, runs}, w = {ws_ + k, runs}, ws = {sums_ + k, runs}, nu = {masses + k, runs};
        const Column lam = {lams + k, runs}, x_sum = {x_sums + k, runs}, lam_sum = {lam_sums + k, runs};
        const double eta_x = eta_xs[k], eta_lam = eta_lams[k], lam_max = lam_maxs[k];
        const u64 first = keys[k], gamma = keys[runs + k];
        for (i64 n = clock; n < clock + 8 * steps; n += 8) {
            const i64 i = (i64)(draw(first, gamma, n) * L);
            const int s_next = model.next_state(i, draw(first, gamma, n + 1));
            const i64 j = pick(model, U, nu, w, ws, draw(first, gamma, n + 2), draw(first, gamma, n + 3));
            const int s_next2 = model.next_state(j, draw(first, gamma, n + 4));
            const double d = eta_x * L * (lam[s_next] - lam[s_of[i]] - r[i]);
            const i64 u = unit[i];
            nu[u] = shifted(nu[u], -tilt_pair(model, w, ws, u, i, d));
            if (s_of[j] != s_next2) {
                lam[s_of[j]] = fmax(lam[s_of[j]] - eta_lam, -lam_max);
                lam[s_next2] = fmin(lam[s_next2] + eta_lam, lam_max);
            }
            const double c = water_fill(U, nu, rho);
            for (i64 v = 0; v < U; v++) {
                const double mass = nu[v] > 0 || rho[v] > 0 ? fmax(c * nu[v], rho[v]) : shifted(nu[v], -log(c));
                nu[v] = mass;
                const double part = linear(mass) / ws[v];
                for (i64 p = start[v]; p < start[v + 1]; p++) x_sum[p] += part * linear(w[p]);
            }
            for (i64 s = 0; s < S; s++) lam_sum[s] += lam[s];
        }
    }
}
