"""Mirror-descent kernels: golden numbers of the protocol, projections, replay of the lazy kernel."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from replay import replay

from fairmdp.mirror import kernels as mirror
from fairmdp.mirror import lazy, tables
from fairmdp.mirror.kernels import project
from fairmdp.mirror.lazy_start import start_lazy
from fairmdp.mirror.polytope import atoms, laminar_tree, units_of_groups
from fairmdp.mirror.primitives import DRAWS_PER_STEP, next_state, stream, uniform
from fairmdp.mirror.tables import CROSSING, DISJOINT, NESTED, Quotas

NO_DRAWS = np.zeros((0, 4), dtype=np.int64)


def three_state():
    indices, data = [], []
    for s in range(3):
        for forward in (0.9, 0.1):
            row = sorted([((s + 1) % 3, forward), ((s - 1) % 3, 1 - forward)])
            indices += [j for j, _ in row]
            data += [p for _, p in row]
    r = np.full(6, 0.1)
    r[0] = 1.0
    return np.arange(0, 13, 2), np.array(indices), np.array(data), r, np.repeat(np.arange(3), 2)


def random_mdp(rng, n, m, k):
    """n states, m actions, k successors: indptr, indices, data, r, s_of."""
    L = n * m
    indices = np.concatenate([np.sort(rng.permutation(n)[:k]) for _ in range(L)])
    data = rng.dirichlet(np.ones(k), L).ravel()
    return np.arange(0, L * k + 1, k), indices, data, rng.random(L), np.repeat(np.arange(n), m)


def spread(rng, n, total, half_zero=False):
    rho = rng.dirichlet(np.ones(n))
    if half_zero:
        rho[rng.random(n) < 0.5] = 0.0
    return rho * (total / rho.sum()) if rho.sum() > 0 else rho


def read(model, state):
    L, S = model.r.size, state.lam.shape[0]
    x, x_sum, lam, lam_sum = np.zeros(L), np.zeros(L), np.zeros(S), np.zeros(S)
    lazy.lazy_read(state, model.order, x, x_sum, lam, lam_sum)
    return x, x_sum, lam, lam_sum


def disjoint(y, unit_of, rho):
    return project(y, unit_of, Quotas(DISJOINT, rho))


def units_of(mdp, unit_of, rho):
    return tables.build_model(*mdp, unit_of, rho.size)


def dense_x(model, state):
    """Current x in pair order."""
    x = np.empty(model.r.size)
    share = np.maximum(state.nu, 0.0) / state.ws
    x[model.order] = np.repeat(share, np.diff(model.start)) * np.maximum(state.w, 0.0)
    return x


def replayed(mdp, unit_of, rho, x0, draws, eta_x, eta_lam, lam_max):
    r, s_of = mdp[3], mdp[4]
    with np.errstate(divide="ignore"):
        logx = np.log(disjoint(x0, unit_of, rho))
    lam, x_sum, lam_sum = np.zeros(s_of[-1] + 1), np.zeros(r.size), np.zeros(s_of[-1] + 1)
    replay(draws, r, s_of, unit_of, rho, eta_x, eta_lam, lam_max, logx, lam, x_sum, lam_sum)
    return logx, x_sum, lam, lam_sum


def assert_lazy_is_dense(
    mdp, unit_of, rho, x0, steps, eta_x, eta_lam, lam_max, seed=0, epoch=0, chunks=1, tol=1e-12
):
    """Record a lazy run, replay its draws in the log domain, compare; returns log x and the state."""
    model = units_of(mdp, unit_of, rho)
    state = start_lazy(model, rho, x0, mdp[4][-1] + 1, stream(seed), epoch=epoch)
    draws = np.zeros((steps, 4), dtype=np.int64)
    for part in np.array_split(np.arange(steps), chunks):
        lazy.lazy_run(state, part.size, eta_x, eta_lam, lam_max, draws[part[0] : part[0] + part.size])
    x, x_sum, lam, lam_sum = read(model, state)
    draws[:, [0, 2]] = model.order[draws[:, [0, 2]]]
    logx, x_ref, lam_ref, lam_sum_ref = replayed(mdp, unit_of, rho, x0, draws, eta_x, eta_lam, lam_max)
    assert np.abs(x - np.exp(logx)).max() < tol
    assert np.abs(x_sum - x_ref).max() / steps < tol
    assert np.array_equal(lam, lam_ref)
    assert np.abs(lam_sum - lam_sum_ref).max() / steps < 1e-11 * max(1.0, lam_max / 10)
    return logx, state


# --- the paper's protocol ---------------------------------------------------------------------------

GOLDEN = {
    mirror.PUBLISHED: (
        [0.3772844977, 0.0019341603, 0.2156315280, 0.1444609510, 0.2578358726, 0.0028529906],
        [-0.1670475, 0.30542875, -0.13838125],
    ),
    mirror.DEFINITION: (
        [0.3713016997, 0.0020218460, 0.2253589277, 0.1358805731, 0.2628317145, 0.0026052389],
        [-0.1709735, 0.3050625, -0.134089],
    ),
}


@pytest.mark.parametrize("variant", [mirror.DEFINITION, mirror.PUBLISHED], ids=["P", "A"])
def test_protocol_seed_0(variant):
    indptr, indices, data, r, s_of = three_state()
    rho = np.array([0.1, 0.1, 0.25])
    x, lam, x_sum, lam_sum = np.full(6, 1 / 6), np.zeros(3), np.zeros(6), np.zeros(3)
    uniforms = np.random.default_rng(0).random((20_000, 4))
    for chunk in np.array_split(uniforms, 3):
        mirror.run_protocol(
            chunk, indptr, indices, data, r, s_of, rho, 0.01, 200.0, variant, x, lam, x_sum, lam_sum
        )
    x_avg, lam_avg = GOLDEN[variant]
    assert np.abs(x_sum / 20_000 - x_avg).max() < 1e-9
    assert np.abs(lam_sum / 20_000 - lam_avg).max() < 1e-9


# --- projections ------------------------------------------------------------------------------------


def sorted_water_fill(Y, rho):
    """Form 1 of docs/paper.md by sorting."""
    order = np.argsort(-rho / Y)
    for k in range(Y.size + 1):
        c = (1 - rho[order[:k]].sum()) / Y[order[k:]].sum()
        if k == Y.size or c >= rho[order[k]] / Y[order[k]]:
            return np.maximum(c, rho / Y)


@pytest.mark.parametrize("seed", range(20))
def test_block_projection_is_the_sorted_one(seed):
    rng = np.random.default_rng(seed)
    unit_of = rng.permutation(np.arange(60) % 17)
    y = rng.lognormal(0, 3, 60)
    rho = spread(rng, 17, rng.choice([0.0, 0.5, 0.99]), half_zero=True)
    Y = np.bincount(unit_of, weights=y)
    x = disjoint(y, unit_of, rho)
    assert np.allclose(x, y * sorted_water_fill(Y, rho)[unit_of], rtol=1e-12)
    assert abs(x.sum() - 1) < 1e-13
    assert np.allclose(x, disjoint(1e-6 * y, unit_of, rho), rtol=1e-12)


def assert_kkt(y, x, sets, rho, tol):
    """Feasible, and log(x/y) is a constant plus the prices of the binding sets; returns the prices."""
    served = np.array([x[g].sum() for g in sets])
    assert abs(x.sum() - 1) < tol and (served >= rho - tol).all()
    columns = np.zeros((y.size, len(sets)))
    for k, g in enumerate(sets):
        columns[g, k] = served[k] <= rho[k] + 10 * tol
    design = np.column_stack([columns, np.ones(y.size)])
    price = np.linalg.lstsq(design, np.log(x / y), rcond=None)[0]
    assert np.abs(design @ price - np.log(x / y)).max() < 1e-6
    return price[:-1]


@pytest.mark.parametrize("seed", range(12))
def test_laminar_projection(seed):
    rng = np.random.default_rng(seed)
    y = rng.lognormal(0, 2, 40)
    groups = [np.arange(0, 20), np.arange(20, 34)]
    states = [np.arange(k, k + 5) for k in range(0, 30, 5)]
    sets = [np.array([3]), *groups, *states, np.array([21]), np.arange(0, 3)]
    rho = np.array([0.05, 0.4, 0.2, *rng.random(6) * 0.09, 0.08, 0.06])
    home, rho_post, shape = laminar_tree(sets, rho, 40)
    quotas = Quotas(NESTED, rho_post, shape)
    x = project(y, home, quotas)
    assert_kkt(y, x, sets, rho, 1e-12)
    assert np.allclose(x, project(1e-6 * y, home, quotas), rtol=1e-12)
    atom_of, shape = atoms(sets, 40)
    assert np.allclose(x, project(y, atom_of, Quotas(CROSSING, rho, shape)), atol=1e-11)


def test_crossing_sets_are_not_laminar():
    assert laminar_tree([np.arange(0, 4), np.arange(2, 5)], np.array([0.1, 0.1]), 6) is None


@pytest.mark.parametrize("seed", range(12))
def test_overlapping_projection(seed):
    rng = np.random.default_rng(seed)
    y = rng.lognormal(0, 2, 30)
    sets = [np.flatnonzero(rng.random(30) < 0.5) for _ in range(4)]
    p = rng.dirichlet(np.ones(30))
    rho = 0.95 * np.array([p[g].sum() for g in sets])  # feasible by construction
    atom_of, shape = atoms(sets, 30)
    quotas = Quotas(CROSSING, rho, shape)
    x = project(y, atom_of, quotas)
    assert np.allclose(x, project(1e-6 * y, atom_of, quotas), rtol=1e-9)
    price = assert_kkt(y, x, sets, rho, 1e-11)
    assert price.min() > -1e-9


def test_units_of_groups_share_what_is_free_by_state():
    unit_of, rho = units_of_groups(
        np.array([0, -1, 1, -1, -1, 0]), np.array([0.3, 0.4]), np.array([0, 0, 1, 1, 1, 2])
    )
    assert unit_of.tolist() == [0, 2, 1, 3, 3, 0] and rho.tolist() == [0.3, 0.4, 0.0, 0.0]


def test_masses_that_are_logarithms_count_as_zero():
    Y = np.array([0.5, -700.0, 0.25, 0.0])
    assert mirror.positive_sum(Y) == 0.75
    assert mirror.water_fill(Y, np.array([0.0, 0.2, 0.0, 0.1])) == pytest.approx(0.7 / 0.75, abs=1e-15)
    assert mirror.water_fill(Y, np.array([0.0, 0.2, 0.5, 0.1])) == pytest.approx(0.2 / 0.5, abs=1e-15)


def test_a_quota_is_short_below_its_share_only():
    Y = np.array([1.0, 2.0, 3.0])
    assert not mirror.any_short(Y, np.array([0.5, 1.0, 1.5]), 0.5)
    for u in range(3):
        assert mirror.any_short(Y, np.array([0.5, 1.0, 1.5]) + 1e-9 * (np.arange(3) == u), 0.5)


def test_quotas_may_sum_to_one_beyond_rounding():
    """All are pinned, and nothing is left to share out: each unit gets its quota."""
    rho = np.array([0.7, 0.3]) + 2e-16
    assert mirror.water_fill(np.array([0.7, 0.3]), rho) == 0.0
    x = disjoint(np.array([0.35, 0.3, 0.35]), np.array([0, 1, 0]), rho)
    assert x == pytest.approx([0.35, 0.3, 0.35], abs=1e-15)


def test_laminar_tree_in_postorder():
    sets = [np.array([5]), np.arange(4), np.array([1, 2]), np.array([4, 5]), np.array([2])]
    home, rho, (parent, first) = laminar_tree(sets, np.array([0.1, 0.2, 0.3, 0.4, 0.5]), 7)
    assert rho.tolist() == [0.1, 0.4, 0.5, 0.3, 0.2, 1.0]
    assert parent.tolist() == [1, 5, 3, 4, 5, -1] and first.tolist() == [0, 0, 2, 2, 2, 0]
    assert home.tolist() == [4, 3, 2, 4, 1, 0, 5]


def test_inner_quotas_that_fill_an_outer_one_leave_it_nothing():
    """The outer set is owed what its parts are owed: the rest of it is scaled like everything outside."""
    sets, rho = [np.array([0]), np.array([1]), np.arange(3)], np.array([0.3, 0.3, 0.6])
    home, rho_post, shape = laminar_tree(sets, rho, 5)
    x = project(np.array([0.1, 0.1, 2.0, 1.0, 5.0]), home, Quotas(NESTED, rho_post, shape))
    assert x == pytest.approx([0.3, 0.3, 0.1, 0.05, 0.25], abs=1e-15)


@pytest.mark.parametrize(
    "rho, x",
    [
        ([0.0, 0.0], [0.1, 0.2, 0.3, 0.4]),
        ([0.2, 0.4], [0.1, 0.2, 0.3, 0.4]),  # met as it is
        ([0.6, 0.0], [0.2, 0.4, 0.4 * 3 / 7, 0.4 * 4 / 7]),
        ([0.2, 0.75], [0.25 * 0.2, 0.75 * 0.4, 0.75 * 0.6, 0.25 * 0.8]),
    ],
)
def test_overlapping_groups_in_closed_form(rho, x):
    atom_of, shape = atoms([np.array([0, 1]), np.array([1, 2])], 4)
    y, mult = np.array([1.0, 2.0, 3.0, 4.0]), np.empty(4)
    Y = np.empty(4)
    Y[atom_of] = y
    found = mirror.fill_overlapping(Y, np.array(rho), *shape, np.empty((3, 4)), mult)
    got = y * mult[atom_of]
    assert 0.0 <= found <= 1e-13 and got == pytest.approx(x, abs=1e-13)


def test_quotas_that_cannot_be_met_leave_a_residual():
    """Two disjoint groups of 0.6 each: by turns one is met, and the other one 0.2 short."""
    atom_of, shape = atoms([np.array([0]), np.array([1])], 2)
    mult = np.empty(2)
    found = mirror.fill_overlapping(np.ones(2), np.array([0.6, 0.6]), *shape, np.empty((3, 2)), mult)
    assert atom_of.tolist() == [1, 0] and found == pytest.approx(0.2)


def test_a_group_of_everything_costs_nothing():
    atom_of, shape = atoms([np.arange(3), np.array([0])], 3)
    x = project(np.array([1.0, 1.0, 2.0]), atom_of, Quotas(CROSSING, np.array([0.9, 0.5]), shape))
    assert x == pytest.approx([0.5, 0.5 / 3, 1 / 3], abs=1e-13)


# --- the reference and the dense run ----------------------------------------------------------------


def test_replay_is_the_definition():
    rng = np.random.default_rng(0)
    mdp = random_mdp(rng, 5, 3, 3)
    r, s_of = mdp[3], mdp[4]
    rho = spread(rng, 5, 0.8)
    x0 = np.full(15, 1 / 15)
    draws = np.column_stack([rng.integers(0, k, 300) for k in (15, 5, 15, 5)])
    logx, x_sum, lam, lam_sum = replayed(mdp, s_of, rho, x0, draws, 0.01, 0.1, 2.0)
    x, v, total, v_total = disjoint(x0, s_of, rho), np.zeros(5), np.zeros(15), np.zeros(5)
    for j, s2, i, s1 in draws:
        y = x.copy()
        y[i] *= np.exp(-0.01 * 15 * (v[s1] - v[s_of[i]] - r[i]))
        step = np.eye(5)[s_of[j]] - np.eye(5)[s2]
        x, v = disjoint(y, s_of, rho), np.clip(v - 0.1 * step, -2.0, 2.0)
        total, v_total = total + x, v_total + v
    assert np.allclose(np.exp(logx), x, atol=1e-14) and np.allclose(x_sum, total, atol=1e-11)
    assert np.allclose(lam, v, atol=1e-14) and np.allclose(lam_sum, v_total, atol=1e-11)


@pytest.mark.parametrize("eta_x", [0.01, 0.3], ids=["gentle", "violent"])
def test_dense_run_replays(eta_x):
    rng = np.random.default_rng(3)
    mdp = random_mdp(rng, 6, 3, 4)
    unit_of, rho = rng.permutation(np.arange(18) % 5), spread(rng, 5, 0.7, half_zero=True)
    model = units_of(mdp, unit_of, rho)
    x0 = disjoint(np.full(18, 1 / 18), unit_of, rho)
    quotas = Quotas(DISJOINT, rho)
    state = tables.start_dense(model, quotas, x0, 6, stream(5))
    draws = np.zeros((2000, 4), dtype=np.int64)
    for t in range(2000):  # the draws of each step, from the stream and the current x
        u = [uniform(state.key, 8 * t + k) for k in range(5)]
        i = int(u[0] * 18)
        unit = np.searchsorted(np.cumsum(np.maximum(state.nu, 0)), u[2], side="right")
        a, b = model.start[unit], model.start[unit + 1]
        j = a + np.searchsorted(np.cumsum(np.maximum(state.w[a:b], 0)), u[3] * state.ws[unit], side="right")
        s1, s2 = (next_state(model.row, model.alias, model.alias_i, p, v) for p, v in ((i, u[1]), (j, u[4])))
        draws[t] = model.order[j], s2, model.order[i], s1
        mirror.dense_run(model, quotas, state, 1, eta_x, 0.1, 5.0)
    logx, x_sum, lam, lam_sum = replayed(mdp, unit_of, rho, x0, draws, eta_x, 0.1, 5.0)
    assert np.abs(dense_x(model, state) - np.exp(logx)).max() < 1e-12
    got = np.zeros(18)
    got[model.order] = state.x_sum
    assert np.abs(got - x_sum).max() / 2000 < 1e-12
    assert np.allclose(state.lam, lam, atol=1e-13) and np.allclose(state.lam_sum, lam_sum, atol=1e-9)


def test_dense_runs_of_other_quota_forms_agree_on_disjoint_groups():
    rng = np.random.default_rng(4)
    mdp = random_mdp(rng, 6, 2, 3)
    sets = [np.arange(0, 4), np.arange(4, 8)]
    rho = np.array([0.3, 0.4])
    x0 = np.full(12, 1 / 12)
    home, tree_rho, tree = laminar_tree(sets, rho, 12)
    atom_of, groups = atoms(sets, 12)
    block_of = np.repeat([0, 1, 2], 4)
    forms = (
        (block_of, Quotas(DISJOINT, np.append(rho, 0.0))),
        (home, Quotas(NESTED, tree_rho, tree)),
        (atom_of, Quotas(CROSSING, rho, groups)),
    )
    results = []
    for unit_of, quotas in forms:
        # the same unit order where the labels agree, so that the same uniforms pick the same pairs
        labels = unit_of[[0, 4, 8]]
        assert np.array_equal(np.sort(labels), [0, 1, 2])
        model = tables.build_model(*mdp, unit_of, 3)
        start = tables.start_dense(model, quotas, x0, 6, stream(1))
        run = mirror.dense_run if quotas.kind == DISJOINT else mirror.dense_run_any
        run(model, quotas, start, 3000, 0.02, 0.05, 5.0)
        x = dense_x(model, start)
        assert abs(x.sum() - 1) < 1e-12 and x[:4].sum() > 0.3 - 1e-12 and x[4:8].sum() > 0.4 - 1e-12
        results.append((tuple(labels), x, start))
    same = [x for order, x, _ in results if order == results[0][0]]
    assert all(np.allclose(x, same[0], atol=1e-10) for x in same)


def test_a_dense_run_under_any_quotas_takes_disjoint_ones():
    rng = np.random.default_rng(4)
    mdp = random_mdp(rng, 6, 2, 3)
    quotas, unit_of = Quotas(DISJOINT, np.array([0.3, 0.4, 0.0])), np.repeat([0, 1, 2], 4)
    model = tables.build_model(*mdp, unit_of, 3)
    plain, other = (tables.start_dense(model, quotas, np.full(12, 1 / 12), 6, stream(1)) for _ in range(2))
    mirror.dense_run(model, quotas, plain, 3000, 0.02, 0.05, 5.0)
    mirror.dense_run_any(model, quotas, other, 3000, 0.02, 0.05, 5.0)
    assert np.allclose(dense_x(model, plain), dense_x(model, other), atol=1e-10)
    assert np.array_equal(plain.lam, other.lam)


def test_dense_chunks_and_underflow():
    mdp, rho = three_state(), np.array([0.1, 0.1, 0.25])
    model = units_of(mdp, mdp[4], rho)
    quotas = Quotas(DISJOINT, rho)
    whole, cut = (tables.start_dense(model, quotas, np.full(6, 1 / 6), 3, stream(2)) for _ in range(2))
    mirror.dense_run(model, quotas, whole, 300_000, 0.01, 0.01, 200.0)
    for n in (1, 99_999, 200_000):
        mirror.dense_run(model, quotas, cut, n, 0.01, 0.01, 200.0)
    assert all(np.array_equal(getattr(whole, f), getattr(cut, f)) for f in tables.DENSE_STATE)
    assert whole.w.min() < -700  # x of a bad action is far below the smallest double
    assert abs(whole.x_sum.sum() / 300_000 - 1) < 1e-12
    assert abs(whole.x_sum @ mdp[3] / 300_000 - 0.4335) < 0.004  # docs/paper.md, bias floor of eta = .01


# --- the lazy run -----------------------------------------------------------------------------------


@pytest.mark.parametrize("half_zero", [False, True])
@pytest.mark.parametrize("total", [0.0, 0.5, 0.9, 1 - 1e-7, 1.0])
def test_lazy_is_dense(total, half_zero):
    rng = np.random.default_rng(7)
    mdp = random_mdp(rng, 30, 4, 5)
    rho = spread(rng, 30, total, half_zero)
    assert_lazy_is_dense(mdp, mdp[4], rho, np.full(120, 1 / 120), 20_000, 0.1 / 120, 0.02, 20.0)


def test_lazy_is_dense_for_1e5_tight_violent_steps():
    rng = np.random.default_rng(8)
    mdp = random_mdp(rng, 40, 3, 6)
    rho = np.full(40, 0.9 / 40)
    nu = np.where(np.arange(40) < 28, rho, (1 - rho[:28].sum()) / 12)
    logx, state = assert_lazy_is_dense(
        mdp, mdp[4], rho, np.repeat(nu, 3) / 3, 100_000, 0.5 / 120, 0.5, 30.0, tol=1e-11
    )
    assert logx.min() < -1000  # weights far below the smallest double took part
    assert state.cnt[lazy.FILLS] > 1000


@pytest.mark.parametrize("kind", ["pairs", "groups", "one large group"])
def test_lazy_is_dense_for_other_units(kind):
    rng = np.random.default_rng(9)
    mdp = random_mdp(rng, 100, 4, 5)
    s_of = mdp[4]
    if kind == "pairs":
        unit_of, rho = np.arange(400), spread(rng, 400, 0.8, half_zero=True)
    elif kind == "groups":
        group = np.where(s_of % 5 < 3, s_of % 5, -1)
        unit_of, rho = units_of_groups(group, np.array([0.1, 0.5, 0.2]), s_of)
    else:  # 300 pairs in one unit: sampled through a tree of its own
        unit_of, rho = units_of_groups(np.where(s_of < 75, 0, -1), np.array([0.9]), s_of)
    logx, _ = assert_lazy_is_dense(mdp, unit_of, rho, np.full(400, 1 / 400), 20_000, 0.5 / 400, 0.1, 20.0)
    assert logx.min() < -30


@pytest.mark.parametrize("seed", range(120))
def test_lazy_is_dense_fuzz(seed):
    rng = np.random.default_rng(seed)
    n, m = rng.integers(1, 50), rng.integers(1, 9)
    L = n * m
    mdp = random_mdp(rng, n, m, rng.integers(1, n + 1))
    labels = [mdp[4], np.arange(L), rng.integers(0, rng.integers(1, L + 1), L), np.arange(L) % min(2, L)]
    unit_of = np.unique(labels[rng.integers(4)], return_inverse=True)[1]
    rho = spread(rng, unit_of.max() + 1, rng.choice([0, 1e-6, 0.3, 0.9, 0.999, 1 - 1e-7]), rng.random() < 0.4)
    x0 = np.maximum(rng.dirichlet(np.full(L, 0.3)), 1e-300)
    assert_lazy_is_dense(
        mdp, unit_of, rho, x0 / x0.sum(), 2000,
        rng.choice([0.001, 0.02, 0.3, 3]) / L, rng.choice([0.01, 0.2, 3.0]), rng.choice([5.0, 40.0]),
        seed=seed, epoch=rng.choice([0, 7, 50]), chunks=rng.choice([1, 3]),
    )  # fmt: skip


def test_a_quota_block_may_sink_below_every_double_in_one_step():
    rng = np.random.default_rng(14)
    mdp = random_mdp(rng, 12, 3, 4)
    rho = np.where(np.arange(12) % 2, 1e-90, 0.1)
    assert_lazy_is_dense(mdp, mdp[4], rho, np.full(36, 1 / 36), 5000, 3.5 / 36, 3.0, 40.0)


def test_a_dominant_free_block_may_collapse():
    """The free mass loses many digits at once: sums by subtraction alone would be garbage."""
    rng = np.random.default_rng(15)
    for seed in range(20):
        mdp = random_mdp(rng, 8, 2, 3)
        rho = np.append(np.full(7, (1 - 10.0 ** -rng.integers(1, 7)) / 7), 0.0)
        x0 = np.full(16, 1e-12)
        x0[14:] = 0.5
        assert_lazy_is_dense(mdp, mdp[4], rho, x0 / x0.sum(), 3000, 2.0 / 16, 2.0, 20.0, seed=seed)


def small_run(seed=0, **options):
    rng = np.random.default_rng(10)
    mdp = random_mdp(rng, 30, 4, 5)
    rho = spread(rng, 30, 0.9)
    model = units_of(mdp, mdp[4], rho)
    return model, start_lazy(model, rho, np.full(120, 1 / 120), 30, stream(seed), **options)


def bytes_of(state):
    """All that a run changes, but for scratch space and the unused ends of heap, stack and list of spares."""
    used = {"heap_key": lazy.NHEAP, "heap_id": lazy.NHEAP, "stack": lazy.DEPTH, "spare": lazy.NSPARE}
    return [getattr(state, f)[: state.cnt[used[f]] if f in used else None].tobytes() for f in lazy.LAZY_STATE]


def test_lazy_chunks_reads_and_checkpoints_change_nothing():
    args = (1e-3, 0.02, 20.0, NO_DRAWS)
    model, whole = small_run()
    lazy.lazy_run(whole, 30_000, *args)
    _, cut = small_run()
    for n in (0, 1, 2, 9_997, 10_000):
        lazy.lazy_run(cut, n, *args)
        read(model, cut)
    saved = {f: getattr(cut, f).copy() for f in lazy.LAZY_STATE}
    _, resumed = small_run(seed=99)
    for f, value in saved.items():
        getattr(resumed, f)[...] = value
    lazy.lazy_run(resumed, 10_000, *args)
    assert bytes_of(resumed) == bytes_of(whole)


def test_threads_change_nothing():
    def run(seed):
        model, state = small_run(seed)
        lazy.lazy_run(state, 20_000, 1e-3, 0.02, 20.0, NO_DRAWS)
        return read(model, state)[1]

    alone = [run(seed) for seed in range(4)]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(run, range(4)))
    assert all(np.array_equal(a, b) for a, b in zip(alone, together, strict=True))
    assert not np.array_equal(alone[0], alone[1])


def test_lazy_draws_have_the_right_distribution():
    """Given the past, j_t ~ x_t: sums of [j_t = k] - x_t[k] are martingales; the rest is multinomial."""
    rng = np.random.default_rng(11)
    mdp = random_mdp(rng, 8, 3, 4)
    indptr, indices, data, _, s_of = mdp
    rho = np.full(8, 0.9 / 8)
    model = units_of(mdp, s_of, rho)
    state = start_lazy(model, rho, np.full(24, 1 / 24), 8, stream(3))
    steps = 40_000
    draws = np.zeros((steps, 4), dtype=np.int64)
    before, excess, variance = read(model, state)[0], np.zeros(24), np.zeros(24)
    x_sum = np.zeros(24)
    for t in range(steps):
        lazy.lazy_run(state, 1, 0.2 / 24, 0.05, 20.0, draws[t : t + 1])
        variance += before * (1 - before)
        excess[draws[t, 0]] += 1
        x_sum += before
        before = read(model, state)[0]
    seen = variance > 20
    assert np.abs((excess - x_sum)[seen] / np.sqrt(variance[seen])).max() < 4
    uniform = np.bincount(draws[:, 2], minlength=24)
    assert np.abs(uniform - steps / 24).max() < 4.5 * np.sqrt(steps / 24)
    for pair, s_next in ((draws[:, 2], draws[:, 3]), (draws[:, 0], draws[:, 1])):
        expected, got = np.zeros(8), np.bincount(s_next, minlength=8)
        np.add.at(expected, indices, np.repeat(np.bincount(pair, minlength=24), np.diff(indptr)) * data)
        assert np.abs(got - expected).max() < 4.5 * np.sqrt(expected.max())


def test_sampling_across_pools():
    """From one state with pools of different keys, many first draws j follow x."""
    rng = np.random.default_rng(16)
    mdp = random_mdp(rng, 12, 2, 4)
    rho = np.full(12, 0.7 / 12)
    model = units_of(mdp, mdp[4], rho)
    state = start_lazy(model, rho, np.full(24, 1 / 24), 12, stream(0), epoch=20_001)
    for _ in range(20_000):
        lazy.lazy_run(state, 1, 0.3 / 24, 0.3, 20.0, NO_DRAWS)
        pools = state.pool[state.stack[: state.cnt[lazy.DEPTH]]]
        keys, rho = pools[:, lazy.KEY], pools[:, lazy.R]
        if keys.size > 1 and min(rho[0], rho[keys < 0.8 * keys[0]].sum()) > 0.15:
            break
    else:
        pytest.fail("no state with two distant pools: the scenario needs another seed")
    saved = {f: getattr(state, f).copy() for f in lazy.LAZY_STATE}
    x, counts, n, draw = read(model, state)[0], np.zeros(24), 20_000, np.zeros((1, 4), dtype=np.int64)
    for k in range(n):
        for f, value in saved.items():
            getattr(state, f)[...] = value
        state.cnt[lazy.CLOCK] += DRAWS_PER_STEP * k
        lazy.lazy_run(state, 1, 0.0, 0.0, 20.0, draw)
        counts[draw[0, 0]] += 1
    seen = n * x > 20
    assert np.abs((counts - n * x) / np.sqrt(n * x * (1 - x) + 1e-9))[seen].max() < 4


def test_lazy_does_not_drift():
    mdp, rho = three_state(), np.array([0.1, 0.1, 0.25])
    model = units_of(mdp, mdp[4], rho)
    state = start_lazy(model, rho, np.full(6, 1 / 6), 3, stream(0))
    lazy.lazy_run(state, 2_000_000, 0.01, 0.01, 200.0, NO_DRAWS)
    x, x_sum, lam, _ = read(model, state)
    assert abs(x_sum.sum() / 2e6 - 1) < 1e-11 and abs(x.sum() - 1) < 1e-13 and abs(lam.sum()) < 1e-9
    assert (np.bincount(mdp[4], weights=x) - rho).min() > -1e-15
    assert abs(x_sum @ mdp[3] / 2e6 - 0.4337) < 0.001  # the floor of eta = .01 (docs/paper.md)


# --- minibatches ------------------------------------------------------------------------------------


def test_propose_is_stratified_and_unbiased():
    x = np.array([0.0, 0.3, 0.0, 0.5, 0.2, 0.0])
    key, clock = stream(0), np.zeros(1, dtype=np.int64)
    pairs, x_pairs = np.zeros((2, 10), dtype=np.int64)
    counts = np.zeros((2, 6))
    for _ in range(2000):
        mirror.propose(x, key, clock, pairs, x_pairs)
        counts += [np.bincount(pairs, minlength=6), np.bincount(x_pairs, minlength=6)]
        assert np.array_equal(np.bincount(x_pairs, minlength=6), [0, 3, 0, 5, 2, 0])  # strata fit
    assert clock[0] == 2000 * 20
    assert np.abs(counts[0] / 20_000 - 1 / 6).max() < 0.005


def test_minibatch_step_is_the_mean_gradient():
    rng = np.random.default_rng(12)
    s_of, rho = np.repeat(np.arange(4), 3), np.array([0.3, 0.0, 0.2, 0.1])
    x = disjoint(rng.dirichlet(np.ones(12)), s_of, rho)
    lam = rng.normal(size=4)
    pairs, x_pairs = rng.integers(0, 12, (2, 50))
    s_next, s_next2, reward = rng.integers(0, 4, 50), rng.integers(0, 4, 50), rng.random(50)
    g, step = np.zeros(12), np.zeros(4)
    np.add.at(g, pairs, 12 / 50 * (lam[s_next] - lam[s_of[pairs]] - reward))
    np.add.at(step, s_of[x_pairs], 1 / 50)
    np.add.at(step, s_next2, -1 / 50)
    x_ref = disjoint(x * np.exp(-0.7 * g), s_of, rho)
    lam_ref = np.clip(lam - 0.5 * step, -1.0, 1.0)
    quotas = Quotas(DISJOINT, rho)
    b = tables.start_batch(quotas, x, 4, 4, 50, stream(0))
    b.lam[:], b.uniform_pairs[:], b.x_pairs[:] = lam, pairs, x_pairs
    b.s_next[:], b.s_next2[:], b.reward[:] = s_next, s_next2, reward
    mirror.tilt(b, s_of, s_of, 0.7, 0.5, 1.0)
    mirror.multipliers(quotas, b.scratch)
    mirror.scale(b, s_of)
    assert np.allclose(b.x, x_ref, rtol=1e-12) and np.allclose(np.exp(b.logx), x_ref, rtol=1e-12)
    assert np.allclose(b.lam, lam_ref) and np.array_equal(b.x_sum, b.x) and np.array_equal(b.lam_sum, b.lam)
