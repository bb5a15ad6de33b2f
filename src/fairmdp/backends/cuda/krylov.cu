// The vector work of `kernels/bicgstab.py`, a kernel for each of its functions, and the policy of an occupancy.
// Numbers come as they were left on the device: dots are w A x and |A x|^2, ends are min r, max r, shadow r, |r|^2.

const double TINY = 1e-300;  // half a step may leave nothing

// out = x - P x + lift x[pin]. Numbers: dots.
extern "C" __global__ void krylov_times(
    i64 n, const i64* starts, const int* cols, const double* vals, double lift, i64 pin, const double* x,
    const double* w, double* out, double* board, double* numbers
) {
    const double lifted = lift * x[pin];
    double along = 0, square = 0;
    over_rows(n, starts, cols, vals, x, [&](i64 s, double sum) {
        if (lane() != 0) return;
        const double y = x[s] - sum + lifted;
        out[s] = y;
        along += w[s] * y;
        square += y * y;
    });
    leave(SUM, along, 0, board);
    leave(SUM, square, 1, board);
    finish(0, 0, 2, board, numbers);
}

struct Ends {
    double low = FAR, high = -FAR, along = 0, square = 0;

    __device__ void take(double r, double shadow) {
        low = fmin(low, r);
        high = fmax(high, r);
        along += shadow * r;
        square += r * r;
    }

    __device__ void tell(double* board, double* numbers) const {
        leave(LEAST, low, 0, board);
        leave(LARGEST, high, 1, board);
        leave(SUM, along, 2, board);
        leave(SUM, square, 3, board);
        finish(1, 1, 2, board, numbers);
    }
};

// Numbers: ends of r.
extern "C" __global__ void krylov_ends(i64 n, const double* r, const double* shadow, double* board, double* numbers) {
    Ends ends;
    for (i64 s = thread(); s < n; s += threads()) ends.take(r[s], shadow[s]);
    ends.tell(board, numbers);
}

// out = r - alpha v.
extern "C" __global__ void krylov_half(
    i64 n, const double* r, const double* v, const double* ends, const double* first, double* out
) {
    const double alpha = ends[2] / first[0];
    for (i64 s = thread(); s < n; s += threads()) out[s] = r[s] - alpha * v[s];
}

// x += alpha p + omega midway; r = midway - omega t. Numbers: ends of r.
extern "C" __global__ void krylov_step(
    i64 n, const double* p, const double* midway, const double* t, const double* shadow, const double* ends,
    const double* first, const double* second, double* x, double* r, double* board, double* numbers
) {
    const double alpha = ends[2] / first[0], omega = second[0] / (second[1] + TINY);
    Ends now;
    for (i64 s = thread(); s < n; s += threads()) {
        x[s] += alpha * p[s] + omega * midway[s];
        r[s] = midway[s] - omega * t[s];
        now.take(r[s], shadow[s]);
    }
    now.tell(board, numbers);
}

// out = r + beta (p - omega v).
extern "C" __global__ void krylov_turn(
    i64 n, const double* p, const double* r, const double* v, const double* first, const double* second,
    const double* ends, double* out
) {
    const double omega = second[0] / (second[1] + TINY), beta = ends[2] / first[0] / omega;
    for (i64 s = thread(); s < n; s += threads()) out[s] = r[s] + beta * (p[s] - omega * v[s]);
}

// pi = x divided by its sum over the actions; the pair `choice` where that sum is not above `least`.
extern "C" __global__ void policy_states(
    i64 n, const i64* ptr, const double* x, const i64* choice, double least, double* pi
) {
    for (i64 s = thread(); s < n; s += threads()) {
        double mass = 0;
        for (i64 i = ptr[s]; i < ptr[s + 1]; i++) mass += x[i];
        for (i64 i = ptr[s]; i < ptr[s + 1]; i++) pi[i] = mass > least ? x[i] / mass : i == choice[s];
    }
}
