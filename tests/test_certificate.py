"""The checker believes nothing: every kind of tampering is caught, and its intervals contain the truth."""

import math
import re
import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from checks import long_run
from models import random_problem
from scipy.sparse import csr_array

from fairmdp import MDP, Chain, Problem, ProblemError, Quota, Status, learn_plugin, scenarios, solve, verify
from fairmdp.certificate import FAIR_TOL, checker, exact, facts, proved_status, reward_scale, rounded
from fairmdp.certificate.checker import _strays
from fairmdp.certificate.facts import UNPROVED, LongRun, find_witness, unknown, worst_slack
from fairmdp.certificate.limits import factor_limit, reach_limit
from fairmdp.chains.policy import uniform_policy

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
        ({"prices": SOLUTION.prices + np.inf}, "prices holds numbers that are not finite"),
        ({"bias": bumped(SOLUTION.bias, 1, 0.05)}, "upper bound 0.44342.* is not proved"),
        ({"shares": bumped(SOLUTION.shares, 2, 0.01)}, "share 0.26 of quota s2 is not the policy's"),
        ({"gain": SOLUTION.gain + 1e-6}, "gain 0.44342.* is not the policy's"),
        ({"upper": SOLUTION.upper - 1e-6}, "upper bound 0.44342.* is not proved"),
        ({"visitation": bumped(SOLUTION.visitation, 0, 1e-5)}, "visitation and occupancy are not the long-run shares"),
        ({"occupancy": bumped(SOLUTION.occupancy, 0, 1e-5)}, "visitation and occupancy are not the long-run shares"),
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
    floats, rationals = rounded.long_run(problem, policy), exact.long_run(problem, policy)
    assert floats.gain[0] <= rationals.gain[0] <= rationals.gain[1] <= floats.gain[1]
    assert (floats.shares[:, 0] <= rationals.shares[:, 0]).all()
    assert (rationals.shares[:, 1] <= floats.shares[:, 1]).all()
    assert floats.error < 1e-11


@pytest.mark.parametrize("seed", range(10))
def test_exact_intervals_contain_the_rational_shares(seed):
    """Against Gaussian elimination in fractions, on the chain the certificate speaks of."""
    problem = random_problem(seed, n_max=5)
    mdp = problem.mdp
    policy = np.random.default_rng(seed).random(mdp.n_pairs)
    policy /= np.add.reduceat(policy, mdp.pair_ptr[:-1])[mdp.s_of]
    x = rational_occupancy(mdp, policy)
    gain = sum(Fraction(r) * share for r, share in zip(mdp.r.tolist(), x, strict=True))
    run = exact.long_run(problem, policy)
    assert Fraction(run.gain[0]) <= gain <= Fraction(run.gain[1])
    for k, (low, high) in enumerate(run.shares.tolist()):
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
        run = rounded.long_run(Problem(mdp, rho=[0.5, 0.0]), np.ones(2))
        assert bool(run.reason) == (not provable)
        if provable:
            assert run.shares[0, 0] <= 0.5 <= run.shares[0, 1]


def test_exact_refuses_large_problems(monkeypatch):
    monkeypatch.setattr(exact, "MAX_TRANSITIONS", 5)
    with pytest.raises(ProblemError) as refused:
        verify(PROBLEM, SOLUTION, exact=True)
    assert str(refused.value) == (
        "exact verification takes up to 5 transitions, not 12\n"
        "  verify without exact=True: its intervals are rigorous too"
    )
    monkeypatch.setattr(exact, "MAX_TRANSITIONS", 12)
    assert verify(PROBLEM, SOLUTION, exact=True).ok


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

    def hitting_times(self, s0, tol):
        steps = true(self, s0, tol)
        if wrong > 0:
            steps[(s0 + 1) % 3] = wrong
            return steps
        return np.where(np.arange(3) == s0, 0.0, wrong)

    monkeypatch.setattr(chain_type, "hitting_times", hitting_times)
    assert "cannot be proved" in arithmetic.long_run(PROBLEM, SOLUTION.policy).reason
    if wrong < 0:
        assert find_witness(chain_type.of(PROBLEM.mdp, SOLUTION.policy)) == UNPROVED


@pytest.mark.parametrize("arithmetic", [rounded, exact])
def test_the_error_does_not_depend_on_the_scale_of_the_witness(arithmetic, monkeypatch):
    chain_type = rounded.Chain
    true = chain_type.hitting_times
    before = arithmetic.long_run(PROBLEM, SOLUTION.policy).error
    for scale in (0.25, 8.0):
        monkeypatch.setattr(chain_type, "hitting_times", lambda self, *at, k=scale: k * true(self, *at))
        assert arithmetic.long_run(PROBLEM, SOLUTION.policy).error == pytest.approx(before, rel=1e-6, abs=0)


def test_small_shares_are_proved_in_proportion():
    """With a quota for every state one bound for all shares would be a large part of each."""
    mdp = scenarios.garnet(3000, 3, 4, n_quotas=0, seed=1).mdp
    policy = uniform_policy(mdp)
    chain = Chain.of(mdp, policy)
    nu = swept_shares(chain)
    run = rounded.long_run(Problem(mdp, rho=0.3 * nu), policy, chain)
    assert (run.shares[:, 0] < nu).all() and (nu < run.shares[:, 1]).all()
    assert (np.diff(run.shares, axis=1)[:, 0] / nu).max() < 1e-3 * run.error / nu.min()
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


def test_a_guess_is_polished_and_believed_in_nothing():
    """What a solver found, and what nobody ever found: the same intervals."""
    mdp = scenarios.garnet(600, 3, 4, n_quotas=0, seed=1).mdp
    problem, policy = Problem(mdp, [Quota("q", states=range(200), at_least=0.1)]), uniform_policy(mdp)
    usual, nu = rounded.long_run(problem, policy), swept_shares(Chain.of(mdp, policy))
    for guess in (nu, nu + 1e-6, np.eye(600)[7], np.full(600, np.nan)):
        found = rounded.long_run(problem, policy, Chain.of(mdp, policy, guess))
        assert found.shares == pytest.approx(usual.shares, abs=1e-13)
        assert found.error == pytest.approx(usual.error, rel=0.01)


def test_rough_hitting_times_cost_a_thousandth():
    """The witness is scaled until it holds, by no more than its own error."""
    mdp = scenarios.garnet(600, 3, 4, n_quotas=0, seed=1).mdp
    problem, policy = Problem(mdp), uniform_policy(mdp)
    witness = find_witness(Chain.of(mdp, policy))
    fine = witness.chain.hitting_times(witness.s0)
    assert 0 < np.abs(witness.steps / np.where(fine > 0, fine, 1) - (fine > 0)).max() < 2e-3
    w = rounded._proven_hitting_times(witness.chain.P, witness.steps, witness.s0, np.zeros(600))
    assert w == pytest.approx(fine, rel=3e-3) and (w >= fine).all()
    assert rounded.long_run(problem, policy).flaw is None


@pytest.mark.parametrize(
    "shares, worst",
    [([[0.3, 0.35], [0.6, 0.7]], 0.05), ([[0.3, 0.45], [0.6, 0.7]], -0.05), ([[0.2, 0.3], [0.6, 0.9]], -0.1)],
)
def test_the_worst_slack_is_that_of_the_worse_end(shares, worst):
    mdp = MDP(np.eye(2)[[1, 0]], [3.0, -1.0], [0, 1])
    quotas = [Quota("q", states=[0], at_least=0.25, at_most=0.4), Quota("met", states=[1], at_most=0.8)]
    assert worst_slack(Problem(mdp, quotas), np.array(shares)) == pytest.approx(worst)
    assert worst_slack(Problem(mdp), np.zeros((0, 2))) == math.inf


def swept_shares(chain):
    """Stationary distribution of a chain by many plain sweeps."""
    nu, turned = np.full(chain.n_states, 1 / chain.n_states), chain.P.T.tocsr()
    for _ in range(300):
        nu = turned @ nu
        nu /= nu.sum()
    return nu


# --- what the numbers of a verdict mean, to the last digit --------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_the_exact_ceiling_is_the_least_float_above_the_rational_one(seed):
    problem = random_problem(seed, n_max=5)
    mdp, G, rng = problem.mdp, problem.members.toarray(), np.random.default_rng(seed)
    bias, prices = (rng.normal(size=size).tolist() for size in (mdp.n_states, problem.n_quotas))
    owed = np.where(np.array(prices) > 0, problem.at_least, 1 - problem.at_most) > 0  # no price on the others
    mu = [Fraction(price) if real else Fraction(0) for price, real in zip(prices, owed, strict=True)]
    values = []
    for i, s in enumerate(mdp.s_of.tolist()):
        row = [Fraction(p) for p in mdp.P.toarray()[i].tolist()]
        ahead = sum(p * Fraction(h) for p, h in zip(row, bias, strict=True)) / sum(row)
        raised = sum(price for price, inside in zip(mu, G[:, i], strict=True) if inside)
        values.append(Fraction(mdp.r[i]) + raised + ahead - Fraction(bias[s]))
    bounds = [(problem.at_least if price > 0 else problem.at_most)[k] for k, price in enumerate(mu)]
    truth = max(values) - sum(price * Fraction(bound) for price, bound in zip(mu, bounds, strict=True))
    found = exact.ceiling(problem, mdp.r, np.array(bias), np.array(prices))
    assert Fraction(math.nextafter(found, -math.inf)) < truth <= Fraction(found)


def test_exact_intervals_are_rounded_outward():
    """One state and three actions alike: the share of each is a third, which is no float."""
    mdp = MDP(np.ones((3, 1)), [1.0, 0.0, 0.0], [0, 0, 0])
    problem = Problem(mdp, [Quota("first", pairs=[0], at_least=0.1)])
    policy = np.full(3, 1 / 3)
    run = exact.long_run(problem, policy)
    assert run.error == 0
    for low, high in (run.gain, run.shares[0].tolist()):
        assert Fraction(low) < Fraction(1, 3) < Fraction(high) and high == math.nextafter(low, 1)
    assert rounded.long_run(problem, policy).gain == pytest.approx(run.gain, abs=1e-14)
    assert exact._up(Fraction(1, 2)) == exact._down(Fraction(1, 2)) == 0.5
    beyond = Fraction(10) ** 400
    assert (exact._up(beyond), exact._down(-beyond)) == (math.inf, -math.inf)
    assert (exact._up(-beyond), exact._down(beyond)) == (-sys.float_info.max, sys.float_info.max)


def test_the_exact_error_is_rounded_up(monkeypatch):
    """A candidate (0.7, 0.3) for a chain that goes back to its first state within two steps on average."""
    problem = Problem(MDP([[0.75, 0.25], [0.5, 0.5]], [1.0, 0.0], [0, 1]))
    monkeypatch.setattr(rounded.Chain, "shares", np.array([0.7, 0.3]))
    found = exact.long_run(problem, np.ones(2)).error
    v = [Fraction(share) / (Fraction(0.7) + Fraction(0.3)) for share in (0.7, 0.3)]
    truth = 2 * abs(v[1] - v[0] / 4 - v[1] / 2)
    assert Fraction(math.nextafter(found, 0)) < truth < Fraction(found)


def test_a_claim_may_lie_between_what_two_arithmetics_prove(monkeypatch):
    assert not any(_strays(claimed, [0.75, 0.5]) for claimed in (0.5 - 0.9e-8, 0.6, 0.75 + 0.9e-8))
    assert all(_strays(claimed, [0.75, 0.5]) for claimed in (0.5 - 1.1e-8, 0.75 + 1.1e-8, math.nan))
    monkeypatch.setattr(checker, "CLAIM_TOL", 0.125)
    assert not any(_strays(claimed, [0.75, 0.5]) for claimed in (0.375, 0.875))


def test_nothing_is_known_without_a_proof():
    run = unknown(PROBLEM, UNPROVED)
    assert (run.gain, run.error, run.flaw) == ((-math.inf, math.inf), 1.0, UNPROVED)
    assert run.shares.tolist() == [[0.0, 1.0]] * 3
    missing = replace(SOLUTION, provenance={"problem": "0" * 64})
    verdict = verify(PROBLEM, missing)
    assert verdict.status is Status.UNDECIDED and verdict.upper == math.inf and not verdict.exact
    assert verdict.gain == run.gain and verdict.shares.tolist() == run.shares.tolist()
    digest = PROBLEM.digest[:12]
    assert verdict.messages == (
        f"this is a solution of another problem (000000000000, this one is {digest})",
    )


@pytest.mark.parametrize(
    "change, words",
    [
        ({"occupancy": np.zeros(5)}, r"occupancy has shape \(5,\), expected \(6,\)"),
        ({"visitation": np.zeros(6)}, r"visitation has shape \(6,\), expected \(3,\)"),
        ({"shares": np.full(3, np.inf)}, "shares holds numbers that are not finite"),
        ({"bias": np.zeros(2)}, r"bias has shape \(2,\), expected \(3,\)"),
        ({"bias": np.array([0.0, np.nan, 0.0])}, "bias holds numbers that are not finite"),
        ({"at_least": np.zeros(4)}, r"at_least has shape \(4,\), expected \(3,\)"),
        ({"at_most": np.full(3, np.inf)}, "at_most holds numbers that are not finite"),
        ({"at_least": bumped(PROBLEM.at_least, 1, 2e-8)}, "at_least is not what the problem asks for"),
        ({"at_most": bumped(PROBLEM.at_most, 1, -2e-8)}, "at_most is not what the problem asks for"),
        ({"quota_names": ("s0", "s1", "s3")}, "the names of its quotas are not the problem's"),
        (
            {"units": Problem(PROBLEM.mdp, [Quota("w", weights=[0, 1, 2], at_least=1)]).units},
            "units are not those of the problem's weights",
        ),
        ({"tol": 0.0}, r"tol is 0, expected a relative gap above 0 and at most 0\.01"),
        ({"tol": float("inf")}, r"tol is inf, expected a relative gap above 0 and at most 0\.01"),
    ],
)
def test_what_does_not_fit_is_the_only_complaint(change, words):
    (message,) = verify(PROBLEM, replace(SOLUTION, **change)).messages
    assert re.fullmatch(words, message)


@pytest.mark.parametrize(
    "share, gap, status",
    [
        ((0.25 - 0.9 * FAIR_TOL, 0.4 + 0.9 * FAIR_TOL), 0.0, Status.OPTIMAL),
        ((0.25 - 1.1 * FAIR_TOL, 0.3), 0.0, Status.UNDECIDED),
        ((0.3, 0.4 + 1.1 * FAIR_TOL), 0.0, Status.UNDECIDED),
        ((0.25, 0.4), 4 * 2**-10, Status.OPTIMAL),  # the gap allowed, to the bit: 2**-10 of a span of 4
        ((0.25, 0.4), 4 * 2**-10 + 2**-40, Status.FEASIBLE),
    ],
)
def test_statuses_at_their_edges(share, gap, status):
    mdp = MDP(np.eye(2)[[1, 0]], [3.0, -1.0], [0, 1])
    quotas = [Quota("q", states=[0], at_least=0.25, at_most=0.4), Quota("met", states=[1], at_most=0.8)]
    problem = Problem(mdp, quotas)
    run = LongRun((0.5, 0.75), np.array([share, (0.6, 0.7)]), 0.0)
    assert proved_status(problem, run, 0.5 + gap, 2**-10) is status
    assert proved_status(problem, replace(run, flaw=UNPROVED), 0.5, 1.0) is Status.UNDECIDED


@pytest.mark.parametrize("rewards, scale", [([3.0, -1.0], 4), ([-5.0, -5.0], 5), ([0.0, 0.0], 1)])
def test_unit_of_gaps(rewards, scale):
    assert reward_scale(Problem(MDP(np.eye(2)[[1, 0]], rewards, [0, 1]))) == scale


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_claims_may_be_off_by_rounding_in_their_own_unit(scale):
    """1e-8 of the span of the rewards (0.9 here) or of a share, in the sum over all pairs for the occupancy."""
    mdp = PROBLEM.mdp
    problem = PROBLEM.with_mdp(MDP(mdp.P, mdp.r * scale, mdp.s_of))
    solution, unit = solve(problem), 0.9e-8 * scale
    for sign in (-1, 1):
        for field, size in (("gain", unit), ("shares", 1e-8)):
            for part, ok in ((0.9, True), (1.2, False)):
                claimed = replace(solution, **{field: getattr(solution, field) + sign * part * size})
                assert verify(problem, claimed).ok is ok, (field, sign, part)
    proved = verify(problem, solution).upper
    for part, ok in ((0.9, True), (1.2, False)):
        assert verify(problem, replace(solution, upper=proved - part * unit)).ok is ok
        moved = bumped(bumped(solution.occupancy, 0, -part * 0.5e-8), 1, part * 0.5e-8)
        messages = verify(problem, replace(solution, occupancy=moved)).messages
        assert messages == (
            () if ok else ("visitation and occupancy are not the long-run shares of time of the policy",)
        )
    for off, ok in ((0.9e-9, True), (1.5e-9, False)):
        messages = verify(problem, replace(solution, policy=bumped(solution.policy, 0, off))).messages
        assert any("not a distribution" in message for message in messages) is not ok


UNMEETABLE = {
    "floor": scenarios.three_state(rho=[0.1, 0.1, 0.5]),
    "cap": Problem(PROBLEM.mdp, [Quota("cap", states=[2], at_most=0.01)]),
    "both": Problem(
        PROBLEM.mdp,
        [Quota("cap", states=[0, 2], at_most=0.53), Quota("floor", states=[2], at_least=0.45)],
    ),
}


@pytest.mark.parametrize("problem", UNMEETABLE.values(), ids=UNMEETABLE.keys())
def test_explanations_of_infeasibility_are_confirmed_to_eight_digits(problem):
    solution = solve(problem)
    why, mdp = solution.infeasibility, problem.mdp
    for k, reach in zip(why.conflict, why.reach, strict=True):
        sign = -1.0 if solution.prices[k] < 0 else 1.0
        counted = MDP(mdp.P, sign * problem.members.toarray()[k], mdp.s_of)
        assert reach == pytest.approx(sign * solve(Problem(counted)).gain, abs=1e-7)
    assert (why.common_factor is None) is (problem is UNMEETABLE["cap"])  # caps alone are too much
    if why.common_factor is not None:
        lowered = problem.at_least * why.common_factor
        assert solve(problem.with_bounds(lowered * (1 - 1e-6))).status is Status.OPTIMAL
        assert solve(problem.with_bounds(lowered * (1 + 1e-6))).status is Status.INFEASIBLE
        thrice = factor_limit(problem, 3 * why.factor_bias, 3 * why.factor_prices)
        assert thrice == pytest.approx(why.common_factor, abs=1e-12)  # the scale of a witness is its own
        assert factor_limit(problem, why.factor_bias, np.zeros(problem.n_quotas)) == math.inf
    for in_rationals in (False, True):
        verdict = verify(problem, solution, exact=in_rationals)
        assert verdict.ok and verdict.status is Status.INFEASIBLE and verdict.exact is in_rationals
        for off, ok in ((0.8e-8, True), (-0.8e-8, True), (2e-8, False), (-2e-8, False)):
            moved = [replace(why, reach=bumped(why.reach, 0, off))]
            if why.common_factor is not None:
                moved.append(replace(why, common_factor=why.common_factor + off))
            for claim in moved:
                assert verify(problem, replace(solution, infeasibility=claim), exact=in_rationals).ok is ok


# --- rounding is added outward ------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_a_ceiling_allows_for_every_term_of_its_sums(seed, monkeypatch):
    """In a coarse arithmetic: m terms are off by m eps of their sizes, and no more than three times that."""
    problem = random_problem(seed)
    mdp, G, rng = problem.mdp, problem.members.toarray(), np.random.default_rng(seed)
    bias = rng.normal(size=mdp.n_states)
    prices = facts.chargeable(problem, rng.normal(size=problem.n_quotas))
    eps = 1e-6
    fine = rounded.ceiling(problem, mdp.r, bias, prices)
    monkeypatch.setattr(rounded, "EPS", eps)
    allowed = (rounded.ceiling(problem, mdp.r, bias, prices) - fine) / eps
    values = mdp.r + G.T @ prices + mdp.P @ bias - bias[mdp.s_of]
    i = int(np.argmax(values))
    terms = np.diff(mdp.P.indptr)[i] + G[:, i].sum() + 2
    sizes = abs(mdp.r[i]) + G[:, i] @ np.abs(prices) + np.ptp(bias)
    owed = np.abs(np.where(prices > 0, problem.at_least, problem.at_most) * prices).sum()
    needed = terms * sizes + np.diff(mdp.P.indptr)[i] * np.ptp(bias) + 4 * owed + abs(values[i])
    assert needed <= allowed <= 3 * needed


def test_a_shift_of_the_relative_values_costs_nothing():
    bias = np.array([0.25, -0.5, 0.125])
    here, far = (rounded.ceiling(PROBLEM, PROBLEM.mdp.r, bias + by, np.zeros(3)) for by in (0.0, 2.0**30))
    assert far == pytest.approx(here, abs=1e-14)


@pytest.mark.parametrize("eps, relative", [(0.0, 0.01), (1e-3, 0.0), (1e-3, 0.01)])
@pytest.mark.parametrize("n", [2, 6])
def test_hitting_times_are_scaled_until_they_hold_for_every_chain_nearby(n, eps, relative, monkeypatch):
    rng = np.random.default_rng(n)
    Q = rng.dirichlet(np.ones(n), n)
    steps = np.zeros(n)
    steps[1:] = np.linalg.solve(np.eye(n - 1) - Q[1:, 1:], np.ones(n - 1)) * 0.3
    monkeypatch.setattr(rounded, "EPS", eps)
    w = rounded._proven_hitting_times(csr_array(Q), steps, 0, np.full(n, relative))
    ahead = Q[:, 1:] @ w[1:]
    worst = (w - eps * w - ahead * (1 + relative + n * eps))[1:]
    assert worst.min() >= 1
    assert (w - ahead)[1:].min() <= 1 + 3 * (relative + n * eps) * w.max()
    assert rounded._proven_hitting_times(csr_array(Q), -steps, 0, np.full(n, relative)) is None


@pytest.mark.parametrize("scale", [1e-3, 1e3])
@pytest.mark.parametrize("push", ["shorter", "aside"])
@pytest.mark.parametrize("arithmetic", [rounded, exact])
def test_a_wrong_candidate_costs_what_it_is_off(arithmetic, push, scale, monkeypatch):
    """Shares that lose a thousandth, or are moved by it: intervals hold the truth, no wider than proved."""
    mdp = MDP(PROBLEM.mdp.P, (PROBLEM.mdp.r - 0.5) * scale, PROBLEM.mdp.s_of)
    problem, policy = PROBLEM.with_mdp(mdp), np.full(6, 0.5)
    nu = long_run(problem, policy)
    v = nu * (1 - 1e-3) if push == "shorter" else nu + np.array([-1e-3, 1e-3, 0.0])
    monkeypatch.setattr(rounded.Chain, "shares", v)
    monkeypatch.setattr(arithmetic, "wide", lambda *_: False)
    found = arithmetic.long_run(problem, policy)
    w = rounded.Chain.of(mdp, policy).hitting_times(int(np.argmax(v)))
    Q = 0.5 * (mdp.P.toarray()[::2] + mdp.P.toarray()[1::2])
    loss = 1 - v.sum() if arithmetic is rounded else 0.0
    spread = (np.abs(v - v @ Q) * w).sum() if push == "aside" else 0.0
    assert found.error == pytest.approx(spread + loss, abs=1e-13)
    gain, r = mdp.r @ (policy * nu[mdp.s_of]), mdp.r
    radius = np.ptp(r) * spread + np.abs(r).max() * loss
    assert found.gain[0] - 1e-14 * scale <= gain <= found.gain[1] + 1e-14 * scale
    assert found.gain[1] - found.gain[0] == pytest.approx(2 * radius, abs=1e-12 * scale)
    assert (found.shares[:, 0] <= nu + 1e-15).all() and (nu <= found.shares[:, 1] + 1e-15).all()
    assert np.ptp(found.shares, axis=1) == pytest.approx(2 * (spread + loss), abs=1e-12)


def test_intervals_allow_for_every_term_of_their_sums(monkeypatch):
    """In a coarse arithmetic: entries of the chain, its sums by column, and shares are off by eps a term."""
    mdp, policy, eps = PROBLEM.mdp, np.full(6, 0.5), 1e-6
    nu = long_run(PROBLEM, policy)
    s0 = int(np.argmax(nu))
    w = rounded.Chain.of(mdp, policy).hitting_times(s0)
    monkeypatch.setattr(rounded, "EPS", eps)
    monkeypatch.setattr(rounded, "wide", lambda *_: False)
    found = rounded.long_run(PROBLEM, policy)
    entry = 2 + 4 + 2 * (2 + 2)  # two actions, and rows of policy and model that sum to one but for rounding
    needed = (2 * 2 + 2 * entry) * (nu * w).sum() + 1  # two entries in a column; one for the mass
    assert needed <= found.error / eps <= 3 * needed
    x = policy * nu[mdp.s_of]
    width, (low, high) = np.ptp(found.shares, axis=1), found.gain
    assert (width / 2 - found.error >= eps * (2 + 8) * nu).all()
    around = np.ptp(mdp.r) * (found.error - eps) + np.abs(mdp.r).max() * eps
    assert eps * (2 + 8) * (np.abs(mdp.r) @ x) <= (high - low) / 2 - around <= 3 * eps * (2 + 8)
    assert (width <= 2 * found.error + 2 * eps * 20 * nu).all()


def test_what_is_no_solution_is_refused():
    problem = scenarios.three_state()
    learned = learn_plugin(problem.mdp.simulator(), problem.quotas, samples=2000)
    with pytest.raises(ProblemError, match="solution is Estimate, expected Solution\n.* proved by certify"):
        verify(problem, learned)
    with pytest.raises(ProblemError, match="problem is MDP, expected Problem"):
        verify(problem.mdp, solve(problem))


# --- worked by hand, in an arithmetic so coarse that every error term shows --------------------------------

COARSE, WIDE = 2.0**-20, 2.0**-30


@pytest.fixture
def coarse(monkeypatch):
    monkeypatch.setattr(rounded, "EPS", COARSE)
    monkeypatch.setattr(rounded, "_WIDE_EPS", WIDE)
    monkeypatch.setattr(rounded, "wide", lambda *_: False)  # relative values say nothing of these terms


def by_hand():
    """Two states, three pairs, and quotas on the first state, on the second, and on the second pair."""
    mdp = MDP([[1, 0], [0.5, 0.5], [0.5, 0.5]], [1.0, -3.0, 2.0], [0, 0, 1])
    quotas = [
        Quota("first", states=[0], at_least=0.5),
        Quota("second", states=[1], at_least=0.125, at_most=0.5),
    ]
    return Problem(mdp, [*quotas, Quota("pair", pairs=[1], at_least=0.125, at_most=0.75)])


def test_a_ceiling_by_hand(coarse):
    """The second pair is the best, 9 + 4 + 1 + 0 - 2: two moves, two quotas and six more terms."""
    found = rounded.ceiling(
        by_hand(), np.array([1.0, 9.0, 2.0]), np.array([5.0, 1.0]), np.array([4.0, -2.0, 1.0])
    )
    top = 12 + COARSE * ((2 + 2 + 6) * (9 + 5 + 2 * 2) + 2 * 2 * 2)
    paid = (0.5 * 4 - 0.5 * 2 + 0.125) - 4 * COARSE * (0.5 * 4 + 0.5 * 2 + 0.125)
    assert found == top - paid + 2 * COARSE * (top + paid)


def coarse_run(monkeypatch, v=(0.5, 0.375), steps=(0.0, 2.0)):
    """The long run of half and half in the first state, from a candidate that is a bit off; its error terms."""
    monkeypatch.setattr(rounded.Chain, "shares", np.array(v))
    monkeypatch.setattr(rounded.Chain, "hitting_times", lambda chain, s, tol: np.array(steps))
    found = rounded.long_run(by_hand(), np.array([0.5, 0.5, 1.0]))
    first, second = 2 + 4 + 2 * (2 + 2), 1 + 4 + 2 * (1 + 2)  # of an entry: actions, then rows of pi and of P
    hit = 2 * (1 + 4 * COARSE) / (1 - COARSE * (2 + 2 + 2 * second + 2 * 2))
    inflow, outflow = 0.25 * 0.5, 0.5 * 0.375
    entries = 2 * (first * inflow + second * outflow)
    residual = outflow - inflow + COARSE * ((2 + 2) * (inflow + outflow) + entries)
    return found, residual * hit * (1 + 8 * COARSE), 1 - 0.875 + COARSE


def test_a_long_run_by_hand(coarse, monkeypatch):
    found, spread, loss = coarse_run(monkeypatch)
    assert found.error == pytest.approx(spread + loss, abs=1e-13)
    size = 0.25 + 3 * 0.25 + 2 * 0.375
    radius = COARSE * 0.25 + 2 * 3 * WIDE * size + (2 + 8) * COARSE * size + 5 * spread + 3 * loss
    assert found.gain == pytest.approx((0.25 - radius, 0.25 + radius), abs=1e-13)
    for k, (share, pairs) in enumerate(((0.5, 2), (0.375, 1), (0.25, 1))):
        around = COARSE * share + 2 * pairs * WIDE * share + (2 + 8 + 4) * COARSE * share + found.error
        assert found.shares[k] == pytest.approx((max(share - around, 0), share + around), abs=1e-13)


def test_small_shares_by_hand(coarse, monkeypatch):
    """Relative errors of 1/64 and 1/32 are closer than the error of all of it."""
    asked = []

    def relative_error(push, sizes, v, s0, rounding):
        asked.append((push(np.array([1.0, 2.0])).tolist(), sizes.tolist(), v.tolist(), s0, rounding / COARSE))
        return np.array([1 / 64, 1 / 32])

    monkeypatch.setattr(rounded, "relative_error", relative_error)
    coarse_run(monkeypatch)
    assert not asked  # three quotas are few
    monkeypatch.setattr(rounded, "MANY", 2)
    found, _, _ = coarse_run(monkeypatch)
    assert asked == [([0.75 + 1.0, 0.25 + 1.0], [2, 2], [0.5, 0.375], 0, 14)]
    for k, (share, pairs, off) in enumerate(((0.5, 2, 1 / 64), (0.375, 1, 1 / 32), (0.25, 1, 1 / 64))):
        around = (
            COARSE * share + 2 * pairs * WIDE * share + (2 + 8 + 4 + 1) * COARSE * share + 2 * off * share
        )
        assert found.shares[k] == pytest.approx((share - around, share + around), abs=1e-13)
    monkeypatch.setattr(rounded, "MANY", 3)
    coarse_run(monkeypatch)
    assert len(asked) == 1


def test_relative_errors_by_hand(coarse):
    """Either state is next with half a chance; the candidate is (0.46875, 0.5) and lacks 1/32."""
    v, rounding = np.array([0.46875, 0.5]), 2.0**-10
    found = rounded.relative_error(np.full((2, 2), 0.5).dot, np.array([1, 3]), v, 0, rounding)
    first, second = (1 + 6) * COARSE + 2 * rounding, (3 + 6) * COARSE + 2 * rounding
    pushed = 0.5 * 0.96875
    rough = max(pushed / 0.46875 - 1 + first * pushed / 0.46875, 1 - pushed / 0.5 + second * pushed / 0.5)
    off = rough / (1 - 0.5 * (1 + second) - 4 * COARSE)
    mean = 0.5 * off * (1 + 1e-9)
    expected = np.array([mean, off + mean]) / (1 - mean) + 8 * (1 / 32 + 1e-13)
    assert found == pytest.approx(expected, rel=1e-11)
    assert rounded.relative_error(np.eye(2).dot, np.ones(2), np.array([0.0, 1.0]), 1, 0.0) is None
    assert (
        rounded.relative_error(np.full((2, 2), 0.5).dot, np.ones(2), np.array([0.25, 0.75]), 1, 0.0) is None
    )


def test_relative_errors_are_as_small_as_hitting_times_of_the_chain_run_backwards_allow():
    n, rng = 6, np.random.default_rng(3)
    Q = rng.dirichlet(np.ones(n), n)
    v = np.linalg.matrix_power(Q, 300)[0] * (1 + 1e-4 * rng.standard_normal(n))
    v /= v.sum()
    s0 = int(np.argmax(v))
    others = np.delete(np.arange(n), s0)
    back = (Q * v[:, None]).T / v[:, None]
    steps = np.zeros(n)
    steps[others] = np.linalg.solve(np.eye(n - 1) - back[np.ix_(others, others)], np.ones(n - 1))
    off = np.abs(v @ Q / v - 1).max() * steps
    found = rounded.relative_error(Q.T.dot, np.full(n, n), v, s0, 0.0)
    assert found == pytest.approx((off + v @ off) / (1 - v @ off), rel=2e-3)


def test_times_that_leave_no_margin_at_all_prove_nothing(monkeypatch):
    monkeypatch.setattr(rounded, "EPS", 0.0)
    assert rounded.relative_error(np.eye(2).dot, np.ones(2), np.array([0.5, 0.5]), 0, 0.0) is None
    assert rounded._proven_hitting_times(csr_array(np.eye(2)), np.array([0.0, 1.0]), 0, np.zeros(2)) is None


def test_claims_at_their_edges(monkeypatch):
    """Shares known to 1/8 and claims to 2**-10: what is proved and that are allowed, and not a bit more."""
    monkeypatch.setattr(checker, "CLAIM_TOL", 2.0**-10)
    tol, bit, half = 2.0**-10, 2.0**-40, np.array([0.5, 0.5])
    quotas = [Quota("first", states=[0], at_least=0.25), Quota("second", states=[1], at_least=0.25)]
    problem = Problem(MDP(np.full((2, 2), 0.5), [3.0, -1.0], [0, 1]), quotas)
    run = LongRun((0.5, 1.5), np.array([[0.25, 0.5], [0.375, 0.75]]), 0.125, visitation=half)
    honest = replace(
        solve(problem), policy=np.ones(2), visitation=half, occupancy=half, gain=1.0, shares=half
    )

    def said(**change):
        return list(checker._policy_messages(problem, replace(honest, **change), run))

    assert said() == []
    for edge, beyond in ((0.5 - 4 * tol, -bit), (1.5 + 4 * tol, bit)):
        assert said(gain=edge) == []
        (message,) = said(gain=edge + beyond)
        assert message == f"the gain {edge + beyond:.12g} is not the policy's: it lies in [0.5, 1.5]"
    for edge, beyond in ((0.375 - tol, -bit), (0.75 + tol, bit)):
        assert said(shares=np.array([0.5, edge])) == []
        (message,) = said(shares=np.array([0.5, edge + beyond]))
        assert message == (
            f"the share {edge + beyond:.12g} of quota second is not the policy's: it lies in [0.375, 0.75]"
        )
    assert said(occupancy=np.array([0.5 + tol, 0.5])) == []
    assert said(occupancy=np.array([0.5 + tol, 0.5 + bit])) == [
        "visitation and occupancy are not the long-run shares of time of the policy"
    ]


def test_what_an_explanation_claims_is_asked_of_both_arithmetics(infeasible):
    problem, solution = infeasible
    why = solution.infeasibility

    class Finer:
        """An arithmetic that proves a quarter more."""

        ceiling = staticmethod(lambda *witness: rounded.ceiling(*witness) - 0.25)

    def said(arithmetic=rounded, prices=solution.prices, **change):
        claimed = replace(solution, prices=prices)
        return list(checker._infeasibility_messages(problem, claimed, replace(why, **change), arithmetic))

    assert said() == said(conflict=(*why.conflict, 0)) == []  # reach may stop short of a long conflict
    assert said(prices=solution.prices * 1e-3) == said(prices=solution.prices * 0) == []
    assert said(conflict=(), reach=np.zeros(0), reach_bias=np.zeros((0, 3))) == [
        "the conflict is not proved: the proof also charges quotas outside of it"
    ]
    reach, factor = float(why.reach[0]), why.common_factor
    unit = float(problem.at_least @ np.maximum(why.factor_prices, 0))
    assert said(Finer, reach=np.array([reach - 0.2]), common_factor=factor - 0.2 / unit) == []
    assert said(Finer, reach=np.array([reach - 0.3]), common_factor=factor - 0.3 / unit) == [
        f"the best share {reach - 0.3:.12g} of quota s2 is not proved: its witness gives {reach - 0.25:.12g}",
        f"the largest common factor {factor - 0.3 / unit:.12g} is not proved: "
        f"its witness gives {factor - 0.25 / unit:.12g}",
    ]


def test_how_far_a_quota_can_go_by_hand():
    """With 4 less in the first state, its pairs gain 0 and 2 by their moves; each counts 1, or -1 if capped."""
    problem, bias = by_hand(), np.array([-4.0, 0.0])
    for arithmetic in (rounded, exact):
        assert reach_limit(problem, 0, bias, capped=False, arithmetic=arithmetic) == pytest.approx(3)
        assert reach_limit(problem, 0, bias, capped=True, arithmetic=arithmetic) == pytest.approx(-1)


def test_bounds_are_the_problems_up_to_rounding(monkeypatch):
    monkeypatch.setattr(checker, "CLAIM_TOL", 2.0**-10)
    assert not verify(
        PROBLEM, replace(SOLUTION, at_least=bumped(PROBLEM.at_least, 2, 2.0**-10 + 2.0**-40))
    ).ok
    assert verify(PROBLEM, replace(SOLUTION, at_least=bumped(PROBLEM.at_least, 2, 2.0**-10))).ok


@pytest.mark.parametrize(
    "claimed, weaker",
    [
        (Status.UNDECIDED, []),
        (Status.FEASIBLE, [Status.UNDECIDED, Status.INFEASIBLE]),
        (Status.OPTIMAL, [Status.UNDECIDED, Status.FEASIBLE, Status.INFEASIBLE]),
        (Status.INFEASIBLE, [Status.UNDECIDED, Status.FEASIBLE, Status.OPTIMAL]),
    ],
)
def test_a_status_may_claim_less_than_is_proved(claimed, weaker):
    for proved in Status:
        said = list(checker._status_messages(replace(SOLUTION, status=claimed), proved))
        refusal = f"the status {claimed.value} is not proved: the witnesses show {proved.value}"
        assert said == ([refusal] if proved in weaker else [])


@pytest.mark.parametrize("price, ceiling", [(8.0, 8 - 8 * 0.25), (-8.0, 8 * 0.75), (0.0, 0)])
def test_weights_by_hand(price, ceiling):
    """Weights of -1, 1 and 3 between 0 and 2: as shares 0, 1/2 and 1 between 1/4 and 3/4."""
    weighted = Problem(by_hand().mdp, [Quota("w", weights=[-1.0, 1.0, 3.0], at_least=0.0, at_most=2.0)])
    witness = np.zeros(3), np.zeros(2), np.array([price])
    assert exact.ceiling(weighted, *witness) == ceiling
    assert rounded.ceiling(weighted, *witness) == pytest.approx(ceiling, abs=1e-13)
    for arithmetic in (exact, rounded):
        ((low, high),) = arithmetic.long_run(
            weighted, np.array([0.5, 0.5, 1.0])
        ).shares  # a third of the time each
        assert low <= 0.5 <= high and high - low < 1e-13


@pytest.mark.parametrize("in_rationals", [False, True])
@pytest.mark.parametrize("problem", [PROBLEM, PROBLEM.without_quotas()], ids=["quotas", "none"])
@pytest.mark.parametrize("policy", [SOLUTION.policy, np.full(6, 2.0)], ids=["a policy", "no policy"])
def test_infeasible_without_a_proof_is_undecided(problem, policy, in_rationals):
    """Whatever else is in it: relative values and prices of 0 prove that nothing is below 0."""
    forged = replace(
        solve(problem), status=Status.INFEASIBLE, policy=policy, upper=math.inf, bias=np.zeros(3), prices=np.zeros(problem.n_quotas),
    )  # fmt: skip
    verdict = verify(problem, forged, exact=in_rationals)
    assert verdict.ok is False and verdict.status is Status.UNDECIDED
    assert verdict.messages[0] == "the status infeasible is not proved: the witnesses show undecided"


def test_a_verdict_says_what_was_proved_and_how():
    for in_rationals in (False, True):
        verdict = verify(PROBLEM, SOLUTION, exact=in_rationals)
        assert verdict.ok is True and verdict.exact is in_rationals
        low, high = verdict.shares.T
        assert verdict.worst_slack == pytest.approx(SOLUTION.worst_slack, abs=1e-12)
        assert (low <= SOLUTION.shares + 1e-12).all() and (SOLUTION.shares - 1e-12 <= high).all()
        refused = verify(PROBLEM, replace(SOLUTION, tol=0.0), exact=in_rationals)
        assert refused.ok is False and refused.exact is in_rationals


def test_a_share_may_miss_its_bounds_by_the_tolerance_to_the_bit(monkeypatch):
    monkeypatch.setattr(facts, "FAIR_TOL", 2.0**-10)
    problem = Problem(
        MDP(np.eye(2)[[1, 0]], [1.0, 0.0], [0, 1]), [Quota("q", states=[0], at_least=0.25, at_most=0.5)]
    )
    for low, high, fair in (
        (0.25 - 2.0**-10, 0.5 + 2.0**-10, True),
        (0.25 - 2.0**-9, 0.5, False),
        (0.25, 0.5 + 2.0**-9, False),
    ):
        run = LongRun((1.0, 1.0), np.array([[low, high]]), 0.0)
        assert (proved_status(problem, run, 1.0, 1e-9) is Status.OPTIMAL) is fair


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="a long double is a double here")
def test_sums_are_taken_in_long_doubles():
    sums, errors = rounded._sums(np.array([1.0, 2.0**-60, -1.0, 0.5]), np.array([0, 3, 4]))
    assert sums.tolist() == [2.0**-60, 0.5] and sums.dtype == errors.dtype == float
    assert 2.0**-64 <= errors[0] <= 2.0**-59


def test_a_chain_at_hand_is_the_one_that_is_proved():
    split = Chain.of(MDP(np.eye(3), np.zeros(3), np.arange(3)), np.ones(3))
    assert "3 closed classes" in rounded.long_run(PROBLEM, SOLUTION.policy, split).reason
    assert rounded.long_run(PROBLEM, SOLUTION.policy, Chain.of(PROBLEM.mdp, SOLUTION.policy)).reason == ""


def test_rows_that_are_off_by_rounding_are_divided_by_their_exact_sums():
    mdp = MDP([[0.5, 0.5 + 2.0**-42], [0.1, 0.9]], [1.0, 0.0], [0, 1])
    assert float(mdp.P[[0]].sum()) > 1  # kept as it was given
    assert [sum(p for _, p in row) for row in exact._rows(mdp)] == [1, 1]
    one = MDP(np.ones((2, 1)), [1.0, 0.0], [0, 0])
    assert exact._policy(one, np.array([0.25, 0.25])) == [Fraction(1, 2)] * 2
    problem, off = Problem(one, [Quota("first", pairs=[0], at_least=0.1)]), 1 + 2.0**-31
    for arithmetic in (rounded, exact):
        assert arithmetic.long_run(problem, np.full(2, 0.5 * off)).shares.mean() == pytest.approx(
            0.5, abs=1e-12
        )


@pytest.mark.parametrize("arithmetic", [rounded, exact])
def test_states_that_are_left_for_good_and_sets_of_everything(arithmetic):
    """Nothing leads to the last state; the second has all of the time, and is where hitting times end."""
    mdp = MDP([[0, 1, 0], [0, 1, 0], [0, 1, 0]], [0.0, 3.0, 1.0], [0, 1, 2])
    problem = Problem(
        mdp, [Quota("all", states=[0, 1, 2], at_least=0.5), Quota("last", states=[2], at_most=0.5)]
    )
    assert find_witness(Chain.of(mdp, np.ones(3))).s0 == 1
    run = arithmetic.long_run(problem, np.ones(3))
    assert run.shares == pytest.approx(np.array([[1, 1], [0, 0]]), abs=1e-13)
    assert run.shares.min() == 0 and run.shares.max() == 1 and run.gain == pytest.approx((3, 3))


@pytest.mark.parametrize("state, pair", [("s1", 2), ("s2", 4)])
def test_a_policy_that_is_none_is_named_by_its_state(state, pair):
    shifted = bumped(bumped(SOLUTION.policy, pair, 1.5), pair + 1, -1.5)
    messages = verify(PROBLEM, replace(SOLUTION, policy=shifted)).messages
    assert f"the policy is not a distribution at state {state}: it sums to 1" in messages


@pytest.mark.parametrize(
    "change, said",
    [
        ({"conflict": (3,)}, "the conflict is not among the 3 quotas, or has fewer of them than reach"),
        ({"conflict": (-1,)}, "the conflict is not among the 3 quotas, or has fewer of them than reach"),
        ({"conflict": ()}, "the conflict is not among the 3 quotas, or has fewer of them than reach"),
        ({"reach": np.array([np.nan])}, "reach holds numbers that are not finite"),
        ({"reach_bias": np.zeros((2, 3))}, "reach_bias has shape (2, 3), expected (1, 3)"),
        ({"factor_bias": np.zeros(2)}, "factor_bias has shape (2,), expected (3,)"),
        (
            {"factor_prices": np.full(3, np.inf)},
            "factor_prices holds numbers that are not finite",
        ),
        (
            {"nearest_at_least": np.zeros(4)},
            "nearest_at_least has shape (4,), expected (3,)",
        ),
        ({"nearest_at_most": np.zeros(2)}, "nearest_at_most has shape (2,), expected (3,)"),
    ],
)
def test_explanations_that_do_not_fit_the_problem(infeasible, change, said):
    problem, solution = infeasible
    why = replace(solution.infeasibility, **change)
    assert verify(problem, replace(solution, infeasibility=why)).messages == (said,)
