// Array functions under the per-state solver; `kernels/proximal.py` is their twin on the CPU and says what the
// arrays are. A group is a run of states, and its lanes share the states of a group; elsewhere they share the
// entries of a row.

// Last probability of the row from `begin` to `end`, in every lane of a group.
__device__ inline double last_of_row(i64 begin, i64 end, const Prob* val) {
#ifdef DERIVED
    double others = 0;
    for (i64 k = begin + lane(); k < end - 1; k += LANES) others += val[k];
    return 1 - lane_sum(others);
#else
    return val[end - 1];
#endif
}

// Probability of leaving s in row i, in every lane of a group.
__device__ inline double leaving(i64 i, i64 s, const Offset* row, const int* col, const Prob* val) {
    const i64 stop = row[i + 1];
    double sum = 0;
#ifdef DERIVED
    const bool stays = col[stop - 1] == s;  // then the others are left, else those that stay are not
    for (i64 k = row[i] + lane(); k < stop - 1; k += LANES)
        if ((col[k] == s) != stays) sum += val[k];
    return stays ? lane_sum(sum) : 1 - lane_sum(sum);
#else
    for (i64 k = row[i] + lane(); k < stop; k += LANES)
        if (col[k] != s) sum += val[k];
    return lane_sum(sum);
#endif
}

// q = r + P h.
extern "C" __global__ void pair_values(
    i64 n_pairs, const Offset* row, const int* col, const Prob* val, const double* r, const double* h, double* q
) {
    for (i64 i = group(); i < n_pairs; i += groups()) {
        const double sum = ahead(i, row, col, val, h);
        if (lane() == 0) q[i] = r[i] + sum;
    }
}

// q -= h_s.
extern "C" __global__ void less_own(i64 n, const i64* ptr, const double* h, double* q) {
    for (i64 s = thread(); s < n; s += threads())
        for (i64 i = ptr[s]; i < ptr[s + 1]; i++) q[i] -= h[s];
}

// --- the projection ----------------------------------------------------------------------------------------

// The search for the common threshold, by Newton's method. It stays on the device: a look at it costs as much as a
// round.
struct Search {
    double lam;
    double left;  // of the root, where to start over if nothing is above lam
    double over, done;
};

// z = v = centre + sigma (q + step u), the two largest of each state, and the search at its start. Numbers: sum w v,
// sum w.
extern "C" __global__ void lift(
    i64 n, const i64* ptr, const double* w, const double* centre, const double* q, const double* u, double step,
    double sigma, double lam, double* z, double* top, double* second, Search* search, double* board,
    double* numbers
) {
    double mass = 0, weight = 0;
    for (i64 s = thread(); s < n; s += threads()) {
        double best = -FAR, next = -FAR, sum = 0;
        for (i64 i = ptr[s]; i < ptr[s + 1]; i++) {
            const double v = centre[i] + sigma * (q[i] + step * u[i]);
            z[i] = v;
            sum += v;
            next = fmax(next, fmin(best, v));
            best = fmax(best, v);
        }
        top[s] = best;
        second[s] = next;
        mass += w[s] * sum;
        weight += w[s] * (ptr[s + 1] - ptr[s]);
    }
    leave(SUM, mass, 0, board);
    leave(SUM, weight, 1, board);
    if (finish(0, 0, 2, board, numbers) && threadIdx.x == 0) *search = {lam, (numbers[0] - 1) / numbers[1], 0, 0};
}

// theta[g] = root of sum w (v - t)+ = c over a group by Newton from the left; FAR where nothing is owed.
extern "C" __global__ void thresholds(
    i64 G, const i64* ptr, const i64* first, const double* w, const double* v, const double* top,
    const double* second, const double* c, i64 rounds, double* theta
) {
    for (i64 g = group(); g < G; g += groups()) {
        const i64 from = first[g], to = first[g + 1];
        double t = FAR;
        if (c[g] > 0) {
            t = -FAR;
            for (i64 s = from + lane(); s < to; s += LANES) t = fmax(t, top[s] - c[g] / w[s]);
            t = lane_max(t);
            double active = to > from + 1 || second[from] > t ? -1 : 0;
            for (i64 round = 0; round < rounds && active != 0; round++) {
                double mass = 0, weight = 0, count = 0;
                for (i64 s = from + lane(); s < to; s += LANES)
                    for (i64 i = ptr[s]; i < ptr[s + 1]; i++)
                        if (v[i] > t) mass += w[s] * v[i], weight += w[s], count++;
                count = lane_sum(count);
                if (count == active || count == 0) break;
                active = count;
                t = (lane_sum(mass) - c[g]) / lane_sum(weight);
            }
        }
        if (lane() == 0) theta[g] = t;
    }
}

// One round of the search. Numbers at its lam: sum w v and sum w of what is above it in loose groups, and what the
// tight ones are owed.
extern "C" __global__ void above(
    i64 G, const i64* ptr, const i64* first, const double* w, const double* v, const double* top,
    const double* second, const double* c, const double* theta, Search* search, double* board, double* numbers
) {
    if (search->done) return;
    const double lam = search->lam;
    double mass = 0, weight = 0, owed = 0;
    for (i64 g = group(); g < G; g += groups()) {
        if (theta[g] <= lam) {
            if (lane() == 0) owed += c[g];
            continue;
        }
        for (i64 s = first[g] + lane(); s < first[g + 1]; s += LANES) {
            if (second[s] <= lam) {  // the usual case: at most one pair is above
                if (top[s] > lam) mass += w[s] * top[s], weight += w[s];
                continue;
            }
            for (i64 i = ptr[s]; i < ptr[s + 1]; i++)
                if (v[i] > lam) mass += w[s] * v[i], weight += w[s];
        }
    }
    leave(SUM, mass, 0, board);
    leave(SUM, weight, 1, board);
    leave(SUM, owed, 2, board);
    if (!finish(0, 0, 3, board, numbers) || threadIdx.x != 0) return;
    if (numbers[1] == 0) {
        search->done = search->over;  // twice: every group is tight, and the quotas take all there is
        search->over = 1;
        if (!search->done) search->lam = search->left;
        return;
    }
    const double root = (numbers[0] - (1 - numbers[2])) / numbers[1];
    search->done = fabs(root - lam) <= 1e-14 * (1 + fabs(lam));
    if (!search->done) search->lam = root;
}

// theta = min(theta, lam) and z = (v - theta)+. Numbers: sum w z u.
extern "C" __global__ void lower(
    i64 G, const i64* ptr, const i64* first, const double* w, const double* u, const Search* search,
    double* z, double* theta, double* board, double* numbers
) {
    const double lam = search->lam;
    double slope = 0;
    for (i64 g = group(); g < G; g += groups()) {
        const double t = fmin(theta[g], lam);
        lane_sum(0);  // all lanes have read theta
        if (lane() == 0) theta[g] = t;
        for (i64 s = first[g] + lane(); s < first[g + 1]; s += LANES) {
            double along = 0;
            for (i64 i = ptr[s]; i < ptr[s + 1]; i++) {
                z[i] = fmax(z[i] - t, 0.0);
                along += z[i] * u[i];
            }
            slope += w[s] * along;
        }
    }
    leave(SUM, slope, 0, board);
    finish(0, 0, 1, board, numbers);
}

// --- flow --------------------------------------------------------------------------------------------------

// out = -sum_i w z_i over the pairs of a state.
extern "C" __global__ void outflow(i64 n, const i64* ptr, const double* w, const double* z, double* out) {
    for (i64 s = thread(); s < n; s += threads()) {
        double sum = 0;
        for (i64 i = ptr[s]; i < ptr[s + 1]; i++) sum += z[i];
        out[s] = -w[s] * sum;
    }
}

// out += sum_i w z_i P_i.
extern "C" __global__ void inflow(
    i64 n, const i64* ptr, const Offset* row, const int* col, const Prob* val, const double* w, const double* z,
    double* out
) {
    over_played(
        n, ptr, row, [&](i64 s, i64 i) { return w[s] * z[i]; }, [&](i64 s, i64 i) { return s; },
        [&](i64 begin, i64 end, double x, i64 s) {
            const double last = last_of_row(begin, end, val);
            for (i64 k = begin + lane(); k < end; k += LANES)
                atomicAdd(&out[col[k]], x * (k == end - 1 ? last : val[k]));
        }
    );
}

// Numbers: max |x / w|, sum x^2 / w.
extern "C" __global__ void norms(i64 n, const double* w, const double* x, double* board, double* numbers) {
    double worst = 0, square = 0;
    for (i64 s = thread(); s < n; s += threads()) {
        const double off = fabs(x[s]) / w[s];
        worst = fmax(worst, off);
        square += off * fabs(x[s]);
    }
    leave(LARGEST, worst, 0, board);
    leave(SUM, square, 1, board);
    finish(0, 1, 1, board, numbers);
}

// g += pull w (h - start). Numbers: sum g^2 / w.
extern "C" __global__ void resist(
    i64 n, const double* w, double pull, const double* start, const double* h, double* g, double* board,
    double* numbers
) {
    double square = 0;
    for (i64 s = thread(); s < n; s += threads()) {
        g[s] += pull * w[s] * (h[s] - start[s]);
        square += g[s] * g[s] / w[s];
    }
    leave(SUM, square, 0, board);
    finish(0, 0, 1, board, numbers);
}

// Numbers: max |d|, sum g d, sum pull w (h - start) d, sum pull w d^2.
extern "C" __global__ void along(
    i64 n, const double* w, double pull, const double* start, const double* h, const double* g, const double* d,
    double* board, double* numbers
) {
    double longest = 0, slope = 0, drift = 0, curvature = 0;
    for (i64 s = thread(); s < n; s += threads()) {
        const double held = pull * w[s] * d[s];
        longest = fmax(longest, fabs(d[s]));
        slope += g[s] * d[s];
        drift += held * (h[s] - start[s]);
        curvature += held * d[s];
    }
    leave(LARGEST, longest, 0, board);
    leave(SUM, slope, 1, board);
    leave(SUM, drift, 2, board);
    leave(SUM, curvature, 3, board);
    finish(0, 1, 3, board, numbers);
}

// h += step d, q += step u; `extra` grows where |d| exceeds the radius, and is halved elsewhere.
extern "C" __global__ void advance(
    i64 n, i64 n_pairs, double step, const double* d, const double* u, double common, double radius, double* h,
    double* q, double* extra
) {
    for (i64 i = thread(); i < n_pairs; i += threads()) {
        q[i] += step * u[i];
        if (i >= n) continue;
        h[i] += step * d[i];
        const double move = fabs(d[i]), excess = fmin(move / fmax(radius, 1e-300), 50.0);
        extra[i] = move > radius ? fmin(fmax(extra[i], common) * excess, 10.0) : extra[i] / 2;
    }
}

// --- Newton's direction ------------------------------------------------------------------------------------

// What a group adds to the curvature: nothing, where it is tight and has one pair with z > 0; its rows as they are,
// with weight w, where it is loose; the difference of two rows; or a block of several, less their mean.
enum Kind { FLAT, LOOSE, DIFFERENCE, BLOCK };

// Kind of each group, its first pair with z > 0, and the weight of a difference.
extern "C" __global__ void curvature_kinds(
    i64 G, const i64* ptr, const i64* first, const double* w, const double* z, const bool* loose, int* kind,
    i64* leader, double* scale
) {
    for (i64 g = group(); g < G; g += groups()) {
        double support = 0, resistance = 0, least = FAR;
        for (i64 s = first[g] + lane(); s < first[g + 1]; s += LANES)
            for (i64 i = ptr[s]; i < ptr[s + 1]; i++)
                if (z[i] > 0) support++, resistance += 1 / w[s], least = fmin(least, (double)i);
        support = lane_sum(support);
        resistance = lane_sum(resistance);
        least = -lane_max(-least);
        if (lane() != 0) continue;
        kind[g] = support == 0 ? FLAT : loose[g] ? LOOSE : support == 1 ? FLAT : support == 2 ? DIFFERENCE : BLOCK;
        leader[g] = support > 0 ? (i64)least : -1;
        scale[g] = 1 / resistance;
    }
}

// Rows and entries of the curvature that come from each state.
extern "C" __global__ void curvature_sizes(
    i64 n, const i64* ptr, const Offset* row, const int* group_of, const int* kind, const i64* leader,
    const double* z, i64* lines, i64* entries
) {
    for (i64 s = thread(); s < n; s += threads()) {
        const int g = group_of[s];
        i64 count = 0, size = 0;
        for (i64 i = ptr[s]; i < ptr[s + 1] && kind[g] != FLAT; i++) {
            if (!(z[i] > 0)) continue;
            count += kind[g] != DIFFERENCE || i == leader[g];
            size += row[i + 1] - row[i] + 1;
        }
        lines[s] = count;
        entries[s] = size;
    }
}

// The rows themselves: loose ones with weight w, those of blocks with weight -w. `mean` gets the sum of loose rows,
// `diagonal` that of squares. Numbers: weight of the loose rows.
extern "C" __global__ void curvature_rows(
    i64 n, const i64* ptr, const Offset* row, const int* col, const Prob* val, const int* group_of,
    const int* kind, const i64* leader, const double* scale, const double* w, const double* z,
    const i64* line_starts, const i64* entry_starts, i64* starts, int* to, float* value, double* weight,
    float* mean, float* diagonal, double* board, double* numbers
) {
    double total = 0;
    i64 state = -1, line = 0, free = 0;
    over_played(
        n, ptr, row,
        [&](i64 s, i64 i) {
            const int g = group_of[s];
            if (kind[g] == FLAT || !(z[i] > 0)) return 0.0;
            return kind[g] != DIFFERENCE ? w[s] : i == leader[g] ? scale[g] : -scale[g];
        },
        [&](i64 s, i64 i) {
            const int g = group_of[s];
            const bool second = kind[g] == DIFFERENCE && i != leader[g];
            if (s != state) line = line_starts[s], free = entry_starts[s];
            state = s;
            if (!second) {
                starts[line] = free;
                weight[line] = kind[g] == DIFFERENCE ? scale[g] : kind[g] == LOOSE ? w[s] : -w[s];
                line++;
            }
            to[free] = s;
            value[free] = second ? 1 : -1;
            atomicAdd(&diagonal[s], (float)(kind[g] == DIFFERENCE ? scale[g] : w[s]));
            if (kind[g] == LOOSE) {
                atomicAdd(&mean[s], -(float)w[s]);
                total += w[s];
            }
            const i64 at = free + 1;
            free = at + row[i + 1] - row[i];
            return kind[g] == LOOSE ? ~at : at;  // the rows of loose groups are told by the sign
        },
        [&](i64 begin, i64 end, double x, i64 place) {
            const i64 at = place < 0 ? ~place : place;
            const double last = last_of_row(begin, end, val);
            for (i64 k = begin + lane(); k < end; k += LANES) {
                const double p = k == end - 1 ? last : val[k];
                const int t = col[k];
                to[at + k - begin] = t;
                value[at + k - begin] = x > 0 ? p : -p;
                if (place < 0) atomicAdd(&mean[t], (float)(x * p));
                atomicAdd(&diagonal[t], (float)(fabs(x) * p * p));
            }
        }
    );
    leave(SUM, total, 0, board);
    finish(0, 0, 1, board, numbers);
}

// out += weight (a p) a over the single rows. Numbers: what they add to p H p.
extern "C" __global__ void hessian_rows(
    i64 rows, const i64* starts, const int* to, const float* value, const double* weight, const float* p,
    float* out, double* board, double* numbers
) {
    double curvature = 0;
    for (i64 line = group(); line < rows; line += groups()) {
        if (weight[line] < 0) continue;
        double along = 0;
        for (i64 k = starts[line] + lane(); k < starts[line + 1]; k += LANES) along += value[k] * p[to[k]];
        along = lane_sum(along);
        const double y = weight[line] * along;
        if (lane() == 0) curvature += y * along;
        for (i64 k = starts[line] + lane(); k < starts[line + 1]; k += LANES)
            atomicAdd(&out[to[k]], (float)(y * value[k]));
    }
    leave(SUM, curvature, 0, board);
    finish(0, 0, 1, board, numbers);
}

// The same over the blocks, less the mean of each; `blocks` are their groups, `seen` has room for a number a row.
extern "C" __global__ void hessian_blocks(
    i64 n_blocks, const i64* blocks, const i64* first, const i64* line_starts, const i64* starts, const int* to,
    const float* value, const double* weight, const float* p, double* seen, float* out, double* board,
    double* numbers
) {
    double curvature = 0;
    for (i64 b = thread(); b < n_blocks; b += threads()) {
        const i64 from = line_starts[first[blocks[b]]], stop = line_starts[first[blocks[b] + 1]];
        double mean = 0, mass = 0;
        for (i64 line = from; line < stop; line++) {
            double y = 0;
            for (i64 k = starts[line]; k < starts[line + 1]; k++) y += value[k] * p[to[k]];
            seen[line] = y;
            mean -= weight[line] * y;
            mass -= weight[line];
        }
        mean /= mass;
        for (i64 line = from; line < stop; line++) {
            const double y = -weight[line] * (seen[line] - mean);
            curvature += y * seen[line];
            for (i64 k = starts[line]; k < starts[line + 1]; k++) atomicAdd(&out[to[k]], (float)(y * value[k]));
        }
    }
    leave(SUM, curvature, 0, board);
    finish(0, 0, 1, board, numbers);
}

// Conjugate gradients keep their numbers on the device: now = {size, mean p}, curvature = the parts of p H p from the
// rest, the single rows and the blocks, next = {size, mean of left / diagonal}. The steps below are those of
// kernels/proximal.py, `direction`.

// left = -g, p = left / diagonal. Numbers: size, mean p.
extern "C" __global__ void cg_begin(
    i64 n, const double* g, const float* diagonal, const float* mean, double* left, float* p,
    double* board, double* numbers
) {
    double size = 0, common = 0;
    for (i64 s = thread(); s < n; s += threads()) {
        left[s] = -g[s];
        const double scaled = left[s] / diagonal[s];
        p[s] = scaled;
        size += left[s] * scaled;
        common += mean[s] * scaled;
    }
    leave(SUM, size, 0, board);
    leave(SUM, common, 1, board);
    finish(0, 0, 2, board, numbers);
}

// out = damping p - (mean p) mean / total, onto which the rows are added. Numbers: the rest of p H p.
extern "C" __global__ void cg_product(
    i64 n, const double* now, const double* total, const double* damping, const float* mean, const float* p,
    float* out, double* board, double* numbers
) {
    const double common = total[0] > 0 ? now[1] / total[0] : 0;
    double curvature = 0;
    for (i64 s = thread(); s < n; s += threads()) {
        const double rest = damping[s] * p[s] - common * mean[s];
        curvature += p[s] * rest;
        out[s] = rest;
    }
    leave(SUM, curvature, 0, board);
    finish(0, 0, 1, board, numbers);
}

// d += a p, left -= a out with a = size / curvature, or nothing where H is flat. Numbers: next.
extern "C" __global__ void cg_step(
    i64 n, const double* now, const double* curvature, const float* diagonal, const float* mean, const float* p,
    const float* out, double* d, double* left, double* board, double* numbers
) {
    const double along = curvature[0] + curvature[1] + curvature[2], a = along > 0 ? now[0] / along : 0;
    double size = 0, common = 0;
    for (i64 s = thread(); s < n; s += threads()) {
        d[s] += a * p[s];
        left[s] -= a * out[s];
        const double scaled = left[s] / diagonal[s];
        size += left[s] * scaled;
        common += mean[s] * scaled;
    }
    leave(SUM, size, 0, board);
    leave(SUM, common, 1, board);
    finish(0, 0, 2, board, numbers);
}

// p = left / diagonal + b p with b = next size / size; `then` is the new `now`. Then as in `cg_product`.
extern "C" __global__ void cg_turn(
    i64 n, const double* now, const double* next, const double* total, const double* damping,
    const float* diagonal, const float* mean, const double* left, float* p, float* out, double* then,
    double* board, double* numbers
) {
    const double b = now[0] > 0 ? next[0] / now[0] : 0, along = next[1] + b * now[1];
    const double common = total[0] > 0 ? along / total[0] : 0;
    double curvature = 0;
    for (i64 s = thread(); s < n; s += threads()) {
        const float turned = left[s] / diagonal[s] + b * p[s];
        const double rest = damping[s] * turned - common * mean[s];
        p[s] = turned;
        curvature += turned * rest;
        out[s] = rest;
    }
    if (thread() == 0) then[0] = next[0], then[1] = along;
    leave(SUM, curvature, 0, board);
    finish(0, 0, 1, board, numbers);
}

// --- ceilings and policies ---------------------------------------------------------------------------------

// Numbers: sum w (z - centre)^2.
extern "C" __global__ void distance(
    i64 n, const i64* ptr, const double* w, const double* z, const double* centre, double* board, double* numbers
) {
    double square = 0;
    for (i64 s = thread(); s < n; s += threads()) {
        double sum = 0;
        for (i64 i = ptr[s]; i < ptr[s + 1]; i++) sum += (z[i] - centre[i]) * (z[i] - centre[i]);
        square += w[s] * sum;
    }
    leave(SUM, square, 0, board);
    finish(0, 0, 1, board, numbers);
}

// out[g] = largest q of a group.
extern "C" __global__ void tops(i64 G, const i64* ptr, const i64* first, const double* q, double* out) {
    for (i64 g = group(); g < G; g += groups()) {
        double top = -FAR;
        for (i64 i = ptr[first[g]] + lane(); i < ptr[first[g + 1]]; i += LANES) top = fmax(top, q[i]);
        top = lane_max(top);
        if (lane() == 0) out[g] = top;
    }
}

// out = h, and the state's own value where its group has a level: max_a (r + P h) - out_s = level.
extern "C" __global__ void bellman_sweep(
    i64 n, const i64* ptr, const Offset* row, const int* col, const Prob* val, const double* r,
    const int* group_of, const double* level, const double* h, double* out
) {
    for (i64 s = group(); s < n; s += groups()) {
        const double goal = level[group_of[s]];
        double best = -FAR;
        for (i64 i = ptr[s]; i < ptr[s + 1] && goal == goal; i++) {
            const double sum = ahead(i, row, col, val, h);
            const double out_of = leaving(i, s, row, col, val);
            if (out_of > 1e-9) best = fmax(best, (r[i] - goal + sum - (1 - out_of) * h[s]) / out_of);
        }
        if (lane() == 0) out[s] = best > -FAR ? best : h[s];
    }
}

// pi = z over its sum in each state; the pair of largest q where there is none.
extern "C" __global__ void policy(i64 n, const i64* ptr, const double* z, const double* q, double* pi) {
    for (i64 s = thread(); s < n; s += threads()) {
        double mass = 0;
        i64 best = ptr[s];
        for (i64 i = ptr[s]; i < ptr[s + 1]; i++) {
            mass += z[i];
            if (q[i] > q[best]) best = i;
        }
        for (i64 i = ptr[s]; i < ptr[s + 1]; i++) pi[i] = mass > 1e-12 ? z[i] / mass : i == best;
    }
}

// out = nu P / total, a tenth of it the old one. Numbers: max |out - nu / total| / w, sum out.
extern "C" __global__ void relative_sweep(
    i64 n, const i64* starts, const int* cols, const double* vals, const double* w, const double* total,
    const double* nu, double* out, double* board, double* numbers
) {
    const double part = 1 / total[1];
    double change = 0, mass = 0;
    over_rows(n, starts, cols, vals, nu, [&](i64 s, double sum) {
        if (lane() != 0) return;
        sum = part * (0.9 * sum + 0.1 * nu[s]);
        out[s] = sum;
        change = fmax(change, fabs(sum - part * nu[s]) / w[s]);
        mass += sum;
    });
    leave(LARGEST, change, 0, board);
    leave(SUM, mass, 1, board);
    finish(0, 1, 1, board, numbers);
}

// out[s] = sum of x over the pairs of a state.
extern "C" __global__ void visits(i64 n, const i64* ptr, const double* x, double* out) {
    for (i64 s = thread(); s < n; s += threads()) {
        double sum = 0;
        for (i64 i = ptr[s]; i < ptr[s + 1]; i++) sum += x[i];
        out[s] = sum;
    }
}

// out[g] = sum of nu over the states of a group.
extern "C" __global__ void group_sums(i64 G, const i64* first, const double* nu, double* out) {
    for (i64 g = group(); g < G; g += groups()) {
        double sum = 0;
        for (i64 s = first[g] + lane(); s < first[g + 1]; s += LANES) sum += nu[s];
        sum = lane_sum(sum);
        if (lane() == 0) out[g] = sum;
    }
}
