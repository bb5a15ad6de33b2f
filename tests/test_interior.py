"""Interior points whose linear algebra knows the model, and the factors that they stand on."""

import numpy as np
import pytest
from checks import assert_optimal
from models import lattice_queue, random_problem
from scipy.sparse import csr_array, random_array

from fairmdp import MDP, Problem, ProblemError, Quota, Status, scenarios, solve, verify
from fairmdp.backends.cpu.dissection import dissect
from fairmdp.backends.cpu.fronts import Fronts
from fairmdp.chains.chain import Chain
from fairmdp.deadline import Stop
from fairmdp.solvers.interior import Tuning, solve_interior
from fairmdp.solvers.lp import solve_lp
from fairmdp.solvers.normal import Aim, Equations


def lattice(side, reach=1):
    """Adjacency of the cells of a square, with themselves."""
    y, x = np.divmod(np.arange(side * side), side)
    near = (np.abs(y[:, None] - y) <= reach) & (np.abs(x[:, None] - x) <= reach)
    return csr_array(near.astype(np.int32))


@pytest.mark.parametrize("pattern", [lattice(18), lattice(1), csr_array(np.ones((30, 30), np.int32))])
def test_blocks_are_an_order_and_separate(pattern):
    """Every node once, parents after children, and no tie from one part past its separators."""
    blocks = dissect(pattern, 12)
    assert sorted(np.concatenate([block.nodes for block in blocks]).tolist()) == list(range(pattern.shape[0]))
    assert all(j < block.parent for j, block in enumerate(blocks) if block.parent >= 0)
    block_of = np.empty(pattern.shape[0], int)
    for j, block in enumerate(blocks):
        block_of[block.nodes] = j
    above = [set() for _ in blocks]
    for j in reversed(range(len(blocks))):
        if blocks[j].parent >= 0:
            above[j] = {blocks[j].parent} | above[blocks[j].parent]
    for a, b in zip(*pattern.nonzero(), strict=True):
        i, j = sorted((block_of[a], block_of[b]))
        assert i == j or j in above[i]


def test_separators_of_a_square_are_short():
    blocks = dissect(lattice(40), 40)
    assert blocks[-1].nodes.size <= 60
    assert max(block.nodes.size for block in blocks) <= 60


@pytest.mark.parametrize("seed", range(4))
def test_factors_solve(seed):
    rng = np.random.default_rng(seed)
    n = 90
    sets = [np.unique(rng.integers(0, n, 4) % (30 if seed == 3 else n)) for _ in range(150)]
    sets += [np.array([v]) for v in range(n)]
    starts = np.concatenate([[0], np.cumsum([s.size for s in sets])])
    full, values = np.zeros((n, n)), []
    for s in sets:
        root = rng.standard_normal((s.size, s.size))
        full[np.ix_(s, s)] += root @ root.T
        values.append((root @ root.T).ravel())
    fronts = Fronts(dissect(csr_array((full != 0).astype(np.int32)), 8), starts, np.concatenate(sets))
    full[7, 7] += 3.0
    assert fronts.factor(np.concatenate(values), (7, 3.0)) == 0
    B = rng.standard_normal((n, 3))
    expected = np.linalg.solve(full, B)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(fronts.solve_columns(B), expected, atol=1e-8 * scale)
    np.testing.assert_allclose(fronts.solve(B[:, 1]), expected[:, 1], atol=1e-8 * scale)


def test_a_pivot_of_zero_makes_its_unknown_zero():
    starts, nodes = np.array([0, 2, 3]), np.array([0, 1, 2])
    fronts = Fronts(dissect(csr_array(np.eye(3, dtype=np.int32)), 8), starts, nodes)
    assert fronts.factor(np.array([1.0, 0, 0, 0, 2.0]), (2, 0.0)) == 1
    np.testing.assert_allclose(fronts.solve(np.array([3.0, 5.0, 4.0])), [3.0, 0.0, 2.0], atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_step_solves_its_equations(weighted):
    """Own quotas of states, wide ones, and one with a single value, against the rows themselves."""
    mdp = scenarios.garnet(30, n_quotas=0).mdp
    rng = np.random.default_rng(1)
    own = csr_array(np.eye(30)[:20][:, mdp.s_of] * (rng.random(mdp.n_pairs) if weighted else 1.0))
    wide = random_array((3, mdp.n_pairs), density=0.5, rng=rng)
    G = csr_array(np.vstack([own.toarray(), own.toarray()[:1], wide.toarray()]))
    equations = Equations(mdp, G)
    assert equations.n_wide == 4
    d, slack = rng.random(mdp.n_pairs) * 10.0 ** rng.integers(-4, 4, mdp.n_pairs), rng.random(24)
    slack[22] = 0.0
    assert equations.factor(d, slack)
    flow = rng.standard_normal(30)
    aim = Aim(rng.standard_normal(mdp.n_pairs), flow - flow.mean(), 0.7, rng.standard_normal(24))
    x, h, g, mu = equations.solve(aim)
    np.testing.assert_allclose(x / d + equations.ahead(h) + g - G.T @ mu, aim.w, atol=1e-7)
    np.testing.assert_allclose(equations.flow(x), aim.flow, atol=1e-9)
    assert x.sum() == pytest.approx(aim.mass, abs=1e-9)
    np.testing.assert_allclose(G @ x + slack * mu, aim.quota, atol=1e-8)


@pytest.mark.parametrize("seed", range(12))
def test_random_problems(seed):
    problem = random_problem(seed, n_max=25)
    assert_optimal(problem, solve_interior(problem), tol=2e-6)


def test_a_quota_for_every_state_of_a_queue():
    mdp = lattice_queue(5)
    uniform = solve(Problem(mdp, [Quota("all", states=range(mdp.n_states), at_least=1.0)]), method="lp")
    problem = Problem(mdp, rho=0.3 * uniform.visitation)
    solution, exact = solve_interior(problem), solve_lp(problem)
    assert solution.status is Status.OPTIMAL and verify(problem, solution).ok
    assert solution.gain == pytest.approx(exact.gain, abs=1e-6)
    assert solution.worst_slack >= 0


def far_goals(side):
    """A grid whose steps slip, with a goal in each corner and one in the middle: it hardly hangs together."""
    n = side * side
    y, x = np.divmod(np.arange(n), side)
    steps = ((-1, 0), (1, 0), (0, -1), (0, 1))
    to = [np.clip(y + dy, 0, side - 1) * side + np.clip(x + dx, 0, side - 1) for dy, dx in steps]
    P = np.zeros((4 * n, n))
    for a in range(4):
        for b in range(4):
            np.add.at(P, (np.arange(n) * 4 + a, to[b]), 0.8 * (a == b) + 0.05)
    r = 0.5 + 0.25 * np.sin(2 * np.pi * x / side) + 0.25 * np.cos(3 * np.pi * y / side)
    block = side // 5
    goals = [
        np.flatnonzero((x // block == i) & (y // block == j))
        for i, j in ((0, 0), (4, 0), (2, 2), (0, 4), (4, 4))
    ]
    quotas = [Quota(f"goal {k}", states=goal, at_least=0.12) for k, goal in enumerate(goals)]
    return Problem(MDP(P, np.repeat(r, 4), np.repeat(np.arange(n), 4)), quotas)


def test_a_grid_that_hardly_hangs_together():
    """Its chain passes between the goals once in millions of steps, and it is proved fair and optimal."""
    problem = far_goals(25)
    solution = solve_interior(problem)
    assert solution.status is Status.OPTIMAL and verify(problem, solution).ok
    assert Chain.of(problem.mdp, solution.policy).hitting_times(int(solution.visitation.argmax())).max() > 1e6


def test_bounds_that_are_one_and_caps():
    mdp = scenarios.garnet(40, n_quotas=0).mdp
    problem = Problem(
        mdp,
        [
            Quota("just", states=range(4), at_least=0.12, at_most=0.12),
            Quota("between", states=range(4, 12), at_least=0.15, at_most=0.151),
            Quota("below", pairs=range(100, 110), at_most=0.02),
        ],
    )
    solution = solve_interior(problem)
    assert solution.status is Status.OPTIMAL and verify(problem, solution).ok
    assert solution.gain == pytest.approx(solve_lp(problem).gain, abs=1e-6 * np.ptp(mdp.r))


def test_prices_stay_finite_in_units_of_huge_rewards():
    """A quota of all of the time: multipliers run off, and overflowed where they were scaled back to rewards."""
    P = [[0.35777444622402116, 0.6422255537759789], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]]
    mdp = MDP(P, [-1e297, -9.008941018814002e299, 2.187792527535722e299, -8.00141665035305e299], [0, 0, 0, 1])
    quotas = [
        Quota("all", [0, 1], at_least=1.0), Quota("1", [1], at_least=0.5010118512129597),
        Quota("pairs", pairs=[(0, 0), (1, 0)], at_least=0.5081262633990665),
    ]  # fmt: skip
    problem = Problem(mdp, quotas)
    found = solve_interior(problem)
    assert np.isfinite(found.prices).all() and verify(problem, found).ok


def test_quotas_that_cannot_be_met():
    problem = scenarios.three_state(rho=[0.5, 0.5, 0.5])
    solution = solve_interior(problem)
    assert solution.status is Status.INFEASIBLE and verify(problem, solution).ok


def test_a_search_that_is_stopped_says_so():
    problem = scenarios.garnet(60, n_quotas=3)
    stopped = solve_interior(problem, seconds=1e-9)
    assert stopped.stopped is Stop.OUT_OF_TIME and stopped.status is not Status.OPTIMAL

    def interrupt(row):
        raise KeyboardInterrupt

    assert solve_interior(problem, progress=interrupt).stopped is Stop.INTERRUPTED
    rows = []
    assert solve_interior(problem, progress=rows.append).status is Status.OPTIMAL
    assert set(rows[-1]) == {"upper", "lower", "gap", "worst_slack", "seconds"}


def test_what_would_fill_up_is_refused():
    mdp = MDP(np.full((60, 30), 1 / 30), np.zeros(60), np.repeat(np.arange(30), 2))
    assert solve_interior(Problem(mdp)).status is Status.OPTIMAL
    for tuning in (Tuning(largest=1e3), Tuning(fill=1.0)):
        with pytest.raises(ProblemError, match="would fill up"):
            solve_interior(Problem(mdp), tuning=tuning)
    many = Problem(mdp, [Quota(f"q{s}", states=[s, s + 1], at_least=0.01) for s in range(20)])
    with pytest.raises(ProblemError, match="more than 10 quotas are of several states"):
        solve_interior(many, tuning=Tuning(most_wide=10))
