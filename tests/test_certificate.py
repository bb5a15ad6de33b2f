"""The checker believes nothing: every kind of tampering is caught, and its intervals contain the truth."""

import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from checks import long_run
from models import random_problem

from fairmdp import MDP, Chain, Problem, ProblemError, Status, scenarios, solve, verify
from fairmdp.certificate import exact, rounded
from fairmdp.solvers.policy import uniform_policy

PROBLEM = scenarios.three_state(rho=[0.1, 0.1, 0.25])
SOLUTION = solve(PROBLEM)


def bumped(array, index, by):
    array = array.copy()
    array[index] += by
    return array


def other_policy():
    policy = SOLUTION.policy.copy()
    policy[2:4] = 0.5, 0.5
    return policy


@pytest.mark.parametrize("in_rationals", [False, True])
@pytest.mark.parametrize(
    "change, words",
    [
        ({"policy": other_policy()}, "gain 0.44342.* is not the policy's"),
        ({"policy": bumped(SOLUTION.policy, 0, -0.1)}, "not a distribution at state s0: it sums to 0.9"),
        ({"policy": bumped(bumped(SOLUTION.policy, 0, 0.1), 1, -0.1)}, "not a distribution at state s0"),
        ({"policy": SOLUTION.policy * 0}, "not a distribution at state s0: it sums to 0"),
        ({"bias": SOLUTION.bias + np.array([1e308, -1e308, 0])}, "upper bound 0.44342.* is not proved"),
        ({"policy": SOLUTION.policy[:-1]}, r"policy has shape \(5,\), expected \(6,\)"),
        ({"policy": SOLUTION.policy * np.nan}, "policy holds numbers that are not finite"),
        ({"prices": bumped(SOLUTION.prices, 2, -0.1)}, "upper bound 0.44342.* is not proved"),
        ({"prices": bumped(SOLUTION.prices, 2, 0.1)}, "upper bound 0.44342.* is not proved"),
        ({"prices": SOLUTION.prices + np.inf}, "prices is not a vector of 3 finite numbers"),
        ({"bias": bumped(SOLUTION.bias, 1, 0.05)}, "upper bound 0.44342.* is not proved"),
        ({"shares": bumped(SOLUTION.shares, 2, 0.01)}, "share 0.26 of quota s2 is not the policy's"),
        ({"gain": SOLUTION.gain + 1e-6}, "gain 0.44342.* is not the policy's"),
        ({"upper": SOLUTION.upper - 1e-6}, "upper bound 0.44342.* is not proved"),
        ({"visitation": bumped(SOLUTION.visitation, 0, 1e-5)}, "visitation and occupancy are not the long-run law"),
        ({"occupancy": bumped(SOLUTION.occupancy, 0, 1e-5)}, "visitation and occupancy are not the long-run law"),
        ({"status": Status.INFEASIBLE}, "status infeasible is not proved: the witnesses show"),
        ({"provenance": {"problem": "0" * 64}}, "a solution of another problem"),
        ({"provenance": {}}, "a solution of another problem"),
        ({"tol": float("nan")}, "tol is nan"),
    ],
)  # fmt: skip
def test_tampering_is_caught(change, words, in_rationals):
    verdict = verify(PROBLEM, replace(SOLUTION, **change), exact=in_rationals)
    assert not verdict.ok
    assert any(re.search(words, message) for message in verdict.messages), verdict.messages


def test_the_untouched_solution_is_confirmed():
    for in_rationals in (False, True):
        verdict = verify(PROBLEM, SOLUTION, exact=in_rationals)
        assert verdict.ok and verdict.status is Status.OPTIMAL and verdict.messages == ()


def test_a_solution_of_other_quotas_is_refused():
    other = scenarios.three_state(rho=[0.1, 0.1, 0.3])
    assert not verify(other, SOLUTION).ok


def test_optimal_cannot_be_claimed_of_a_worse_policy():
    """A fair but poor policy, with honest numbers, is feasible and not optimal."""
    poor = np.full(6, 0.5)
    nu = long_run(PROBLEM, poor)
    x = poor * nu[PROBLEM.mdp.s_of]
    honest = replace(
        SOLUTION,
        policy=poor,
        visitation=nu,
        occupancy=x,
        shares=PROBLEM.members @ x,
        gain=float(PROBLEM.mdp.r @ x),
    )
    verdict = verify(PROBLEM, honest)
    assert verdict.status is Status.FEASIBLE
    assert verdict.messages == ("the status optimal is not proved: the witnesses show feasible",)
    assert verify(PROBLEM, replace(honest, status=Status.FEASIBLE)).ok


def test_an_unfair_policy_is_not_called_fair():
    """The unconstrained optimum with honest numbers: a gain above the optimum is a broken quota."""
    free = solve(PROBLEM.without_quotas())
    greedy = replace(
        SOLUTION, policy=free.policy, visitation=free.visitation, occupancy=free.occupancy,
        shares=PROBLEM.members @ free.occupancy, gain=free.gain,
    )  # fmt: skip
    verdict = verify(PROBLEM, greedy)
    assert verdict.gain[0] > verdict.upper
    assert not verdict.ok and verdict.status is Status.UNDECIDED


def test_a_multichain_policy_proves_nothing():
    mdp = MDP([[1, 0], [0, 1], [0, 1], [1, 0]], [1.0, 0.0, 1.0, 0.0], [0, 0, 1, 1])
    problem = Problem(mdp, rho=[0.3, 0.3])
    stay = np.array([1.0, 0.0, 1.0, 0.0])
    nu = np.array([0.5, 0.5])
    claimed = replace(
        solve(problem), policy=stay, visitation=nu, occupancy=stay * nu[mdp.s_of], shares=nu, gain=1.0,
        status=Status.OPTIMAL,
    )  # fmt: skip
    for in_rationals in (False, True):
        verdict = verify(problem, claimed, exact=in_rationals)
        assert not verdict.ok
        assert any("2 closed classes" in message for message in verdict.messages)


@pytest.fixture(scope="module")
def infeasible():
    problem = scenarios.three_state(rho=[0.1, 0.1, 0.5])
    return problem, solve(problem)


@pytest.mark.parametrize("in_rationals", [False, True])
def test_tampered_infeasibility_is_caught(infeasible, in_rationals):
    problem, solution = infeasible
    why = solution.infeasibility
    for change, words in (
        ({"infeasibility": replace(why, reach=why.reach - 0.01)}, "best share"),
        ({"infeasibility": replace(why, common_factor=0.9)}, "largest common factor"),
        ({"infeasibility": replace(why, conflict=(1,))}, "charges quotas outside"),
        ({"prices": np.zeros(3)}, "status infeasible is not proved"),
        ({"bias": solution.bias * 0}, "status infeasible is not proved"),
    ):
        verdict = verify(problem, replace(solution, **change), exact=in_rationals)
        assert any(words in message for message in verdict.messages), (words, verdict.messages)
    feasible = scenarios.three_state(rho=[0.1, 0.1, 0.4])
    forged = replace(solution, provenance={"problem": feasible.digest}, infeasibility=None)
    assert verify(feasible, forged, exact=in_rationals).status is not Status.INFEASIBLE


@pytest.mark.parametrize("seed", range(25))
def test_rounded_bounds_enclose_exact_ones(seed):
    """Outward rounding: the floating-point ceiling is above the rational one, its intervals wider."""
    problem = random_problem(seed, n_max=8)
    rng = np.random.default_rng(seed)
    mdp = problem.mdp
    size = 10.0 ** rng.integers(-3, 6)
    bias, prices = rng.normal(size=mdp.n_states) * size, rng.normal(size=problem.n_quotas) * size
    in_floats, in_rationals = (a.ceiling(problem, mdp.r, bias, prices) for a in (rounded, exact))
    assert in_rationals <= in_floats <= in_rationals + 1e-12 * (size + np.abs(mdp.r).max())
    policy = rng.random(mdp.n_pairs)
    policy /= np.add.reduceat(policy, mdp.pair_ptr[:-1])[mdp.s_of]
    floats, rationals = rounded.law(problem, policy), exact.law(problem, policy)
    assert floats.gain[0] <= rationals.gain[0] <= rationals.gain[1] <= floats.gain[1]
    assert (floats.shares[:, 0] <= rationals.shares[:, 0]).all()
    assert (rationals.shares[:, 1] <= floats.shares[:, 1]).all()
    assert floats.error < 1e-11


@pytest.mark.parametrize("seed", range(10))
def test_exact_intervals_contain_the_rational_law(seed):
    """Against Gaussian elimination in fractions, on the chain the certificate speaks of."""
    problem = random_problem(seed, n_max=5)
    mdp = problem.mdp
    policy = np.random.default_rng(seed).random(mdp.n_pairs)
    policy /= np.add.reduceat(policy, mdp.pair_ptr[:-1])[mdp.s_of]
    x = rational_occupancy(mdp, policy)
    gain = sum(Fraction(r) * share for r, share in zip(mdp.r.tolist(), x, strict=True))
    law = exact.law(problem, policy)
    assert Fraction(law.gain[0]) <= gain <= Fraction(law.gain[1])
    for k, (low, high) in enumerate(law.shares.tolist()):
        share = sum(x[i] for i in problem.members[[k]].indices.tolist())
        assert Fraction(low) <= share <= Fraction(high)


def rational_occupancy(mdp, policy):
    S = mdp.n_states
    pi = [Fraction(p) for p in policy.tolist()]
    sums = [sum(pi[mdp.pair_ptr[s] : mdp.pair_ptr[s + 1]]) for s in range(S)]
    Q = [[Fraction(0)] * S for _ in range(S)]
    for i, s in enumerate(mdp.s_of.tolist()):
        row = [Fraction(p) for p in mdp.P.toarray()[i].tolist()]
        for t in range(S):
            Q[s][t] += pi[i] / sums[s] * row[t] / sum(row)
    # nu (I - Q) = 0 with the last equation replaced by sum nu = 1
    A = [[(s == t) - Q[s][t] for s in range(S)] + [Fraction(0)] for t in range(S - 1)] + [
        [Fraction(1)] * (S + 1)
    ]
    for c in range(S):
        p = next(r for r in range(c, S) if A[r][c])
        A[c], A[p] = A[p], A[c]
        A[c] = [v / A[c][c] for v in A[c]]
        for r in range(S):
            if r != c and A[r][c]:
                A[r] = [a - A[r][c] * b for a, b in zip(A[r], A[c], strict=True)]
    return [A[s][S] * pi[i] / sums[s] for i, s in enumerate(mdp.s_of.tolist())]


def test_nearly_reducible_chains_widen_the_interval():
    """At 1e-12 the shares are still proved; at 1e-17 in the floats, nothing is claimed."""
    for eps, provable in ((1e-12, True), (1e-17, False)):
        mdp = MDP([[1 - eps, eps], [eps, 1 - eps]], [1.0, 0.0], [0, 1])
        law = rounded.law(Problem(mdp, rho=[0.5, 0.0]), np.ones(2))
        assert bool(law.reason) == (not provable)
        if provable:
            assert law.shares[0, 0] <= 0.5 <= law.shares[0, 1]


def test_exact_refuses_large_problems(monkeypatch):
    monkeypatch.setattr(exact, "MAX_TRANSITIONS", 5)
    with pytest.raises(ProblemError, match="exact verification takes up to 5 transitions, not 12"):
        verify(PROBLEM, SOLUTION, exact=True)


@pytest.mark.parametrize("seed", range(5))
def test_rounding_is_counted_where_everything_cancels(seed):
    """Rewards that undo the relative values: floats say 0, the truth is a few 1e-10 above it."""
    rng = np.random.default_rng(seed)
    n = 40
    P = rng.dirichlet(np.ones(n), 2 * n)
    bias = rng.normal(size=n) * 1e6
    h = bias - (bias.max() + bias.min()) / 2
    s_of = np.repeat(np.arange(n), 2)
    shape = MDP(P, np.zeros(2 * n), s_of)
    problem = Problem(MDP(shape.P, -(shape.P @ h - h[s_of]), s_of))
    in_floats, in_rationals = (a.ceiling(problem, problem.mdp.r, bias, np.zeros(0)) for a in (rounded, exact))
    assert 0 < in_rationals <= in_floats < 1e-5


@pytest.mark.parametrize("wrong", [0.0, -1.0, 1e9])
@pytest.mark.parametrize("arithmetic", [rounded, exact])
def test_wrong_hitting_times_prove_nothing(arithmetic, wrong, monkeypatch):
    """A witness that breaks w >= 1 + Q w must be refused: too small everywhere, negative, or too large once."""
    chain_type = rounded.Chain
    true = chain_type.hitting_times

    def hitting_times(self, s0):
        steps = true(self, s0)
        if wrong > 0:
            steps[(s0 + 1) % 3] = wrong
            return steps
        return np.where(np.arange(3) == s0, 0.0, wrong)

    monkeypatch.setattr(chain_type, "hitting_times", hitting_times)
    assert "cannot be proved" in arithmetic.law(PROBLEM, SOLUTION.policy).reason


@pytest.mark.parametrize("arithmetic", [rounded, exact])
def test_the_error_does_not_depend_on_the_scale_of_the_witness(arithmetic, monkeypatch):
    chain_type = rounded.Chain
    true = chain_type.hitting_times
    before = arithmetic.law(PROBLEM, SOLUTION.policy).error
    for scale in (0.25, 8.0):
        monkeypatch.setattr(chain_type, "hitting_times", lambda self, s0, k=scale: k * true(self, s0))
        assert arithmetic.law(PROBLEM, SOLUTION.policy).error == pytest.approx(before, rel=1e-6, abs=0)


def test_small_shares_are_proved_in_proportion():
    """With a quota for every state one bound for all shares would be a large part of each."""
    mdp = scenarios.garnet(3000, 3, 4, n_quotas=0, seed=1).mdp
    policy = uniform_policy(mdp)
    chain = Chain.of(mdp, policy)
    nu = rounded_law_of(chain)
    law = rounded.law(Problem(mdp, rho=0.3 * nu), policy, chain)
    assert (law.shares[:, 0] < nu).all() and (nu < law.shares[:, 1]).all()
    assert (np.diff(law.shares, axis=1)[:, 0] / nu).max() < 1e-3 * law.error / nu.min()
    rng = np.random.default_rng(0)
    for n in range(2, 7):  # it bounds what is really off, and by not much more
        P = rng.dirichlet(np.ones(n), n)
        nu = np.linalg.matrix_power(P, 2**12)[0]
        wrong = nu * (1 + 1e-6 * rng.standard_normal(n))
        wrong /= wrong.sum()
        error = rounded.relative_error(P.T.dot, np.full(n, n), wrong, int(nu.argmax()), 1e-15)
        off = np.abs(nu / wrong - 1)
        assert (off <= error).all() and error.max() <= 50 * n * off.max()
    two = np.array([0.5, 0.5])
    assert rounded.relative_error(np.eye(2).dot, np.ones(2), two, 0, 0.0) is None  # two classes


def rounded_law_of(chain):
    """Law of a chain by many plain sweeps."""
    nu, turned = np.full(chain.n_states, 1 / chain.n_states), chain.P.T.tocsr()
    for _ in range(300):
        nu = turned @ nu
        nu /= nu.sum()
    return nu
