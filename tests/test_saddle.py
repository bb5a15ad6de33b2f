"""The saddle point of mirror descent: gap against brute force, at the optimum, and where it starts."""

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from fairmdp import MDP, Problem, ProblemError, Quota, scenarios, solve_lp
from fairmdp.mirror.polytope import QuotaPolytope, gap

KINDS = {
    "states": "disjoint",
    "groups": "disjoint",
    "pairs": "disjoint",
    "nothing owed": "disjoint",
    "laminar": "nested",
    "overlapping": "crossing",
}


def random_model(rng, n_states=7):
    """Ragged actions, full support."""
    s_of = np.repeat(np.arange(n_states), rng.integers(2, 5, n_states))
    return MDP(rng.dirichlet(np.ones(n_states), s_of.size), rng.normal(size=s_of.size), s_of)


def nested_sets(rng, mdp):
    """A group of states, two states in it, a pair in one of these, and a pair outside."""
    first, second, *others = rng.permutation(mdp.n_states)[:5].tolist()
    inside = rng.choice(np.flatnonzero(mdp.s_of == first))
    outside = rng.choice(np.flatnonzero(~np.isin(mdp.s_of, [first, second, *others])))
    return [
        {"states": sorted([first, second, *others])},
        {"states": [first]},
        {"states": [second]},
        {"pairs": [inside]},
        {"pairs": [outside]},
    ]


def random_sets(rng, mdp, kind):
    S, SA = mdp.n_states, mdp.n_pairs
    if kind == "states":
        return [{"states": [s]} for s in range(S)]
    if kind == "groups":
        return [{"states": g} for g in np.array_split(rng.permutation(S)[:-1], 2)]
    if kind == "pairs":
        return [{"pairs": [i]} for i in rng.permutation(SA)[: SA // 2]]
    if kind == "nothing owed":
        return []
    if kind == "laminar":
        return nested_sets(rng, mdp)
    return [{"states": [0, 1, 2]}, {"states": [2, 3]}, {"pairs": [0, SA - 1]}, {"states": [3, 4, 5]}]


def random_problem(seed, kind):
    """Quotas that a planted policy's occupancy meets, a few of them exactly."""
    rng = np.random.default_rng(seed)
    mdp = random_model(rng)
    policy = rng.random(mdp.n_pairs)
    policy /= np.bincount(mdp.s_of, policy)[mdp.s_of]
    P_pi = np.zeros((mdp.n_states, mdp.n_states))
    np.add.at(P_pi, mdp.s_of, policy[:, None] * mdp.P.toarray())
    x = policy * np.linalg.matrix_power(P_pi, 2**12)[0][mdp.s_of]
    quotas = []
    for k, chosen in enumerate(random_sets(rng, mdp, kind)):
        members = np.isin(mdp.s_of, chosen["states"]) if "states" in chosen else chosen["pairs"]
        quotas.append(Quota(f"q{k}", **chosen, at_least=x[members].sum() * rng.choice([0.3, 0.9, 0.999])))
    return Problem(mdp, quotas), rng


def random_point(problem, rng, M):
    """A point of the polytope: in the quota set, and in the box."""
    y = rng.lognormal(0, 2, problem.mdp.n_pairs)
    return QuotaPolytope.of(problem).project(y), rng.uniform(-2 * M, 2 * M, problem.mdp.n_states)


def brute_force_gap(problem, x, lam, M):
    """Both sides' best replies as linear programs over every variable."""
    mdp = problem.mdp
    flow = -mdp.P.toarray()  # (SA, S)
    flow[np.arange(mdp.n_pairs), mdp.s_of] += 1
    reply_x = linprog(
        -(mdp.r + flow @ lam),
        A_ub=-problem.members.toarray() if problem.n_quotas else None,
        b_ub=-problem.at_least if problem.n_quotas else None,
        A_eq=np.ones((1, mdp.n_pairs)),
        b_eq=[1.0],
    )
    reply_lam = linprog(x @ flow, bounds=(-2 * M, 2 * M))
    return -reply_x.fun - mdp.r @ x - reply_lam.fun


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", KINDS)
def test_gap_is_what_two_linear_programs_say(kind, seed):
    problem, rng = random_problem(seed, kind)
    polytope = QuotaPolytope.of(problem)
    assert polytope.kind == KINDS[kind]
    for M in (0.1, 3.0):
        x, lam = random_point(problem, rng, M)
        assert x.sum() == pytest.approx(1, abs=1e-12)
        assert (problem.members @ x - problem.at_least).min(initial=0) >= -1e-9
        value = gap(problem, x, lam, M)
        assert value == pytest.approx(brute_force_gap(problem, x, lam, M), abs=1e-8)
        assert value == gap(problem, x, lam, M, polytope=polytope)
        assert value >= 0


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", KINDS)
def test_gap_is_zero_at_the_optimum_and_there_alone(kind, seed):
    problem, rng = random_problem(seed, kind)
    sol = solve_lp(problem)
    lam = -sol.bias
    lam -= (lam.max() + lam.min()) / 2
    M = 1.01 * np.abs(lam).max() / 2
    assert gap(problem, sol.occupancy, lam, M) == pytest.approx(0, abs=1e-8)
    x, other = random_point(problem, rng, M)
    assert gap(problem, x, lam, M) > 1e-4 and gap(problem, sol.occupancy, other, M) > 1e-4


def test_a_box_that_is_too_small_hides_the_optimum():
    """Below |lam*| / 2 the optimum is no saddle point; the gap at it is then positive."""
    problem = scenarios.three_state()
    sol = solve_lp(problem)
    small = np.clip(-sol.bias + (sol.bias.max() + sol.bias.min()) / 2, -0.1, 0.1)
    assert gap(problem, sol.occupancy, small, M=0.05) > 0.01


def test_one_quota_inside_another_that_it_fills(capfd):
    """An inner quota as large as the outer one leaves nothing to spend there."""
    mdp = MDP(np.full((3, 3), 1 / 3), [1.0, 0.0, 5.0], [0, 1, 2])
    quotas = [Quota("in", states=[0], at_least=0.4), Quota("out", states=[0, 1], at_least=0.3)]
    polytope = QuotaPolytope.of(Problem(mdp, quotas))
    assert polytope.kind == "nested"
    assert polytope.support(mdp.r)[0] == pytest.approx(0.4 * 1 + 0.6 * 5)
    assert polytope.support(np.zeros(3))[0] == 0
    assert capfd.readouterr().out == ""  # the linear program is solved in silence


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", KINDS)
def test_start_has_the_most_entropy(kind, seed):
    problem, _ = random_problem(seed, kind)
    x = QuotaPolytope.of(problem).start
    slopes = np.log(x) + 1
    # Convex: the first-order condition over D is optimality, and the best direction is a linear program.
    assert slopes @ x <= -QuotaPolytope.of(problem).support(-slopes)[0] + 1e-8
    assert (x * np.log(x)).sum() >= -np.log(problem.mdp.n_pairs) - 1e-12


def test_start_against_a_general_solver():
    problem = scenarios.three_state(rho=[0.05, 0.05, 0.8])
    found = minimize(
        lambda x: (x * np.log(x)).sum(),
        np.full(6, 1 / 6),
        method="SLSQP",
        bounds=[(1e-9, 1)] * 6,
        constraints=[
            {"type": "eq", "fun": lambda x: x.sum() - 1},
            {"type": "ineq", "fun": lambda x: problem.members @ x - problem.at_least},
        ],
    )
    start = QuotaPolytope.of(problem).start
    assert start == pytest.approx(found.x, abs=1e-4)
    assert start == pytest.approx([0.05, 0.05, 0.05, 0.05, 0.4, 0.4])


def test_start_is_uniform_where_that_is_fair():
    assert QuotaPolytope.of(scenarios.three_state()).start == pytest.approx(np.full(6, 1 / 6), abs=1e-15)


def test_quotas_that_ask_for_nothing_do_not_nest_or_cross():
    mdp = MDP(np.full((3, 3), 1 / 3), np.zeros(3), np.arange(3))
    quotas = [Quota("idle", states=[0, 1], at_least=0.0), Quota("a", states=[0], at_least=0.5)]
    polytope = QuotaPolytope.of(Problem(mdp, quotas))
    assert polytope.kind == "disjoint" and polytope.owed.tolist() == [1] and polytope.rho.tolist() == [0.5]


def test_weights_are_sent_to_the_lp():
    problem = scenarios.three_state().with_quotas([Quota("mean", weights=[1.0, 2.0, 0.0], at_least=0.5)])
    with pytest.raises(
        ProblemError, match="quota mean has weights; mirror descent takes sets only\n  use method 'lp'"
    ):
        QuotaPolytope.of(problem)


def test_quotas_from_above_are_sent_to_the_lp():
    problem = scenarios.three_state().with_quotas([Quota("cap", states=["s0"], at_most=0.5)])
    with pytest.raises(
        ProblemError, match="quota cap is a cap; mirror descent takes at_least only\n  use method 'lp'"
    ):
        gap(problem, np.full(6, 1 / 6), np.zeros(3), 1.0)


def test_all_of_the_time_owed_among_crossing_sets_is_sent_to_the_lp():
    mdp = MDP(np.full((3, 3), 1 / 3), np.zeros(3), np.arange(3))
    quotas = [Quota("all", states=[0, 1], at_least=1.0), Quota("b", states=[1, 2], at_least=0.2)]
    with pytest.raises(ProblemError, match="quota all owes all of the time while others cross it"):
        QuotaPolytope.of(Problem(mdp, quotas))


@pytest.mark.parametrize(
    "sets",
    [
        pytest.param([([0, 1, 2], 0.3), ([0], 0.5), ([1], 0.4), ([3], 0.2)], id="laminar"),
        pytest.param([([0, 1], 0.8), ([1, 2], 0.1), ([3], 0.3)], id="overlapping"),
    ],
)
def test_quotas_that_no_distribution_meets(sets):
    mdp = MDP(np.full((4, 4), 0.25), np.zeros(4), np.arange(4))
    quotas = [Quota(f"q{k}", states=states, at_least=share) for k, (states, share) in enumerate(sets)]
    with pytest.raises(ProblemError, match=f"no distribution of time meets the {len(sets)} quotas"):
        _ = QuotaPolytope.of(Problem(mdp, quotas)).start


@pytest.mark.parametrize(
    "x, lam, M, message",
    [
        (np.zeros(5), np.zeros(3), 1.0, r"x has shape \(5,\), expected \(6,\)"),
        (np.zeros(6), np.zeros(2), 1.0, r"lam has shape \(2,\), expected \(3,\)"),
        (np.zeros(6), np.zeros(3), -1.0, "M is -1.0"),
        (np.zeros(6), np.zeros(3), np.nan, "M is nan"),
    ],
)
def test_bad_arguments(x, lam, M, message):
    with pytest.raises(ProblemError, match=message):
        gap(scenarios.three_state(), x, lam, M)
