"""Somebody who wants a false answer confirmed: forgeries by hand, and altered files by the thousand."""

import copy
import json
import math
from dataclasses import replace

import forger
import forger_ends
import numpy as np
import pytest

from fairmdp import (
    MDP,
    FormatError,
    Problem,
    ProblemError,
    Quota,
    Solution,
    Status,
    io,
    scenarios,
    solve,
    verify,
)
from fairmdp.certificate.claim import certify_infeasible, certify_policy
from fairmdp.solution import file

pytestmark = pytest.mark.slow

FAIR = scenarios.three_state(rho=[0.1, 0.1, 0.25])
SOLVED = solve(FAIR)
HOPELESS = solve(scenarios.three_state(rho=[0.1, 0.1, 0.5]))

BOTH = pytest.mark.parametrize("exact", [False, True], ids=["floats", "rationals"])


def impossible(problem, bias, prices):
    """An answer that says that no policy meets the quotas, with a witness of one's own."""
    return certify_infeasible(problem, np.array(bias), np.array(prices, float), None, tol=1e-6, method="lp")


@BOTH
def test_products_that_underflow_prove_nothing(exact):
    """Nine equal moves whose ninths of 6 subnormals are rounded up to 1: the sum is -7 instead of -4.67."""
    problem = Problem(MDP(np.full((9, 9), 1 / 9), np.arange(9.0), np.arange(9)), rho=np.full(9, 0.05))
    least = 5e-324
    for bias in ([-6 * least] * 8 + [6 * least], [6 * least] * 8 + [-6 * least]):
        verdict = verify(problem, impossible(problem, bias, np.zeros(9)), exact=exact)
        assert verdict.status is Status.UNDECIDED and not verdict.ok


@BOTH
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_bound_that_nobody_stated_is_not_charged(exact, sign):
    """The largest weight is above offset + scale, by rounding: a price on that cap must prove nothing."""
    weights = sign * np.array([-0.9010318234663117, 7.441653586900505])
    bound = {"at_least": -0.5} if sign > 0 else {"at_most": 0.5}
    problem = Problem(MDP([[0, 1], [0, 1]], [0.0, 1.0], [0, 1]), [Quota("mean", weights=weights, **bound)])
    forged = impossible(problem, [2.0, 0.0], [-sign])
    verdict = verify(problem, forged, exact=exact)
    assert verdict.status is Status.UNDECIDED and not verdict.ok


@BOTH
@pytest.mark.parametrize("tol", [1e300, 1.0, 0.5, 0.02, 0.0, -1.0, math.nan])
def test_a_solution_does_not_choose_what_is_optimal(exact, tol):
    """A gain of 0.3842 where 0.4434 is possible, and a file that calls any gap small."""
    poor = certify_policy(FAIR, np.full(6, 0.5), SOLVED.bias, SOLVED.prices, tol=1e-6, method="lp")
    verdict = verify(FAIR, replace(poor, status=Status.OPTIMAL, tol=tol), exact=exact)
    assert not verdict.ok and verdict.messages[0].startswith(f"tol is {tol:g}, expected a relative gap")
    verdict = verify(FAIR, poor, exact=exact)
    assert verdict.ok and verdict.status is Status.FEASIBLE
    assert verdict.gap == pytest.approx(SOLVED.gain - poor.gain, abs=1e-9)
    assert verify(FAIR, replace(SOLVED, tol=0.02), exact=exact, tol=0.02).ok  # who asks for it gets it
    with pytest.raises(ProblemError, match="tol is 1.0, expected a relative gap"):
        verify(FAIR, SOLVED, exact=exact, tol=1.0)


@BOTH
@pytest.mark.parametrize(
    "change",
    [{"upper": end} for end in (math.nan, math.inf, -math.inf)]
    + [{"upper": 0.45}, {"upper": 1e300}, {"gain": math.nan}, {"infeasibility": HOPELESS.infeasibility}],
    ids=str,
)
def test_numbers_beside_optimal_are_those_that_are_proved(exact, change):
    assert not verify(FAIR, replace(SOLVED, **change), exact=exact).ok


@BOTH
def test_no_ceiling_is_claimed_where_none_is_proved(exact):
    """Relative values so large that no ceiling follows from them in floats; in rationals one of 1e308 does."""
    poor = certify_policy(FAIR, np.full(6, 0.5), SOLVED.bias, SOLVED.prices, tol=1e-6, method="lp")
    poor = replace(poor, bias=np.array([1.7e308, -1.7e308, 0.0]))
    for upper, ok in ((math.inf, True), (math.nan, True), (-math.inf, False), (0.5, False)):
        verdict = verify(FAIR, replace(poor, upper=upper), exact=exact)
        assert verdict.ok is (ok and verdict.upper == math.inf)


def test_rationals_may_prove_a_ceiling_where_floats_prove_none():
    """A price so large that floats overflow; who claims no ceiling says nothing false in either arithmetic."""
    poor = certify_policy(FAIR, np.full(6, 0.5), SOLVED.bias, SOLVED.prices, tol=1e-6, method="lp")
    poor = replace(poor, prices=np.array([0.0, 0.0, 1.7e308]), upper=math.nan)
    uppers = []
    for exact in (False, True):
        verdict = verify(FAIR, poor, exact=exact)
        assert verdict.ok
        forger.assert_true(forger.Case(FAIR, SOLVED), poor, verdict)
        uppers.append(verdict.upper)
    assert uppers[0] == math.inf and 1e308 < uppers[1] < math.inf


@BOTH
def test_prices_are_on_bounds_that_ask_for_something(exact):
    problem = Problem(
        FAIR.mdp, [Quota("all", states=[0, 1, 2], at_least=0.5), Quota("s2", states=[2], at_least=0.25)]
    )
    solution = solve(problem)
    assert verify(problem, solution, exact=exact).ok
    assert not verify(problem, replace(solution, prices=solution.prices - [1.0, 0.0]), exact=exact).ok


@BOTH
@pytest.mark.parametrize("name", ["gain", "upper", "policy", "shares", "visitation", "occupancy"])
def test_the_impossible_has_no_numbers_of_a_policy(exact, name):
    problem = scenarios.three_state(rho=[0.1, 0.1, 0.5])
    assert verify(problem, HOPELESS, exact=exact).ok
    forged = replace(HOPELESS, **{name: getattr(SOLVED, name)})
    assert not verify(problem, forged, exact=exact).ok


def nearly_split(eps, rewards=(1.0, 0.0)):
    """Two states that are hardly ever left; half of the time is spent in each."""
    return Problem(MDP([[1 - eps, eps], [eps, 1 - eps]], rewards, [0, 1]))


@BOTH
@pytest.mark.parametrize("eps", [1e-6, 1e-9, 1e-11])
def test_where_the_time_goes_is_proved_and_not_only_balanced(exact, eps):
    problem = nearly_split(eps)
    solution = solve(problem)
    assert verify(problem, solution, exact=exact).ok
    for off in (0.45, 1e-6):
        nu = np.array([0.5 + off, 0.5 - off])
        for change in ({"visitation": nu, "occupancy": nu}, {"gain": 0.5 + off}, {"gain": 0.5 - off}):
            assert not verify(problem, replace(solution, **change), exact=exact).ok


@BOTH
def test_numbers_of_an_undecided_answer_are_checked_or_estimates(exact):
    """A policy whose shares depend on the start: its numbers fit together, and are called what they are."""
    split = Problem(MDP(np.eye(2), [1.0, 0.0], [0, 1]), [Quota("q", states=[0], at_least=0.6)])
    honest = certify_policy(split, np.ones(2), np.zeros(2), np.zeros(1), tol=1e-6, method="lp")
    assert honest.status is Status.UNDECIDED
    verdict = verify(split, honest, exact=exact)
    assert verdict.ok and verdict.estimates[0].startswith(
        "gain, shares and where the time goes are estimates"
    )
    assert not verify(FAIR, SOLVED, exact=exact).estimates
    half = np.array([0.5, 0.5])
    for change in (
        {"gain": 0.7}, {"shares": half[:1] + 0.1}, {"occupancy": half * 2}, {"visitation": half + 0.1},
        {"visitation": np.array([1.5, -0.5]), "occupancy": np.array([1.5, -0.5]), "gain": 1.5, "shares": half[:1] + 1},
    ):  # fmt: skip
        assert not verify(split, replace(honest, **change), exact=exact).ok
    undecided = replace(SOLVED, status=Status.UNDECIDED)
    assert verify(FAIR, undecided, exact=exact).ok
    for change in ({"gain": 0.5}, {"shares": SOLVED.shares + 0.1}, {"upper": 0.3}, {"upper": math.nan}):
        assert not verify(FAIR, replace(undecided, **change), exact=exact).ok


@BOTH
def test_claims_may_be_off_by_the_spacing_of_floats(exact):
    """Rewards of 1e9 that differ by 0.7: a gain has no more digits than floats of that size."""
    rng = np.random.default_rng(1)
    for seed in range(20):
        P, r = rng.dirichlet(np.ones(6), 12), 1e9 + 0.7 * rng.random(12)
        problem = Problem(MDP(P, r, np.repeat(np.arange(6), 2)), rho=np.full(6, 0.05))
        verdict = verify(problem, solve(problem), exact=exact)
        assert verdict.ok, (seed, verdict.messages)


@pytest.mark.parametrize(
    "field, change",
    [
        ("gap", lambda gap: gap + 1e-9),
        ("worst_slack", lambda slack: -0.1),
        ("quotas", lambda rows: [rows[0] | {"price": 0.5}, *rows[1:]]),
        ("quotas", lambda rows: [rows[0] | {"share": 0.9, "slack": 0.8}, *rows[1:]]),
        ("quotas", lambda rows: rows[:2]),
        ("quotas", lambda rows: [rows[1], rows[0], rows[2]]),
        ("gap", lambda gap: None),
    ],
)
def test_what_follows_from_a_file_must_follow(tmp_path, field, change):
    path = tmp_path / "f.json"
    SOLVED.save(path)
    raw = json.loads(path.read_text())
    path.write_text(json.dumps(raw | {field: change(raw[field])}))
    with pytest.raises(FormatError, match=f"{field}: this is not what follows from the file's other fields"):
        Solution.load(path)


def test_what_cannot_be_read_is_named_by_its_place():
    """Every leaf of every file as something that it cannot be; what follows from others is named by its field."""
    seen = 0
    for case in forger.problems() + forger_ends.problems():
        for path in forger.leaves(case.raw):
            if path[0] == "provenance" or path == ("counters",):
                continue  # objects of anything
            place = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)[1:]
            for value in ({"x": 1}, "\x07"):
                raw = copy.deepcopy(case.raw)
                forger.put(raw, path, value)
                with pytest.raises(FormatError) as caught:
                    file.solution_of(raw)
                named = str(caught.value).partition(":")[0]
                assert place.startswith(named) or named == f"{place}.x", (place, value, str(caught.value))
                seen += named == place
    assert seen > 1000


@pytest.mark.parametrize(
    "rewards", [[1e308, -1e308], [1.7e308, 0.0], [0.0, 1e-318], [-5e-324, 0.0], [1e-290, 2e-290]]
)
def test_rewards_that_floats_cannot_compare_are_refused(rewards):
    with pytest.raises(
        ProblemError, match=r"the largest reward is .*too (large|small) .*\n.*pair . is .*\n.*unit"
    ):
        MDP(np.full((2, 2), 0.5), rewards, [0, 1])


@BOTH
@pytest.mark.parametrize("size", [1e299, 1e-279, 0.0])
def test_rewards_of_any_other_size_are_proved(exact, size):
    for sign in (1.0, -1.0):
        mdp = MDP(FAIR.mdp.P, sign * size * (FAIR.mdp.r - 0.5), FAIR.mdp.s_of)
        problem = FAIR.with_mdp(mdp)
        solution = solve(problem)
        verdict = verify(problem, solution, exact=exact)
        assert verdict.ok and solution.status is Status.OPTIMAL, verdict.messages


def weighed(weights, **bounds):
    return Problem(MDP(np.full((2, 2), 0.5), [1.0, 0.0], [0, 1]), [Quota("w", weights=weights, **bounds)])


@pytest.mark.parametrize(
    "weights", [[1e16, 1e16 + 2], [1.0, 1 + 2.0**-52], [-1e16, 2 - 1e16], [0.0, 5e-324], [1e-300, 2e-300]]
)
def test_weights_between_which_no_bound_can_be_stated_are_refused(weights):
    with pytest.raises(ProblemError, match="quota w: weights from .* are too near each other"):
        weighed(weights, at_least=weights[0])


def test_other_bounds_make_another_digest(tmp_path):
    """Shares that differ where the stated numbers, by rounding, do not."""
    base = weighed([1e5, 1e5 + 1], at_least=1e5 + 0.25)
    others = [base.with_bounds([0.25 + off]) for off in (0.0, 1e-13, 2e-13, 1e-12)]
    others += [base.with_bounds([1e-300]), base.with_bounds([0.0]), base.with_bounds(None, [0.75])]
    assert others[0].lower == others[1].lower and others[0].at_least != others[1].at_least
    digests = {other.digest for other in others}
    assert len(digests) == len(others) and base.digest in digests
    for k, stated in enumerate((base, base.with_stated_bounds(None, [1e5 + 0.75]))):
        io.save(stated, tmp_path / f"{k}.npz")
        again = io.load(tmp_path / f"{k}.npz")
        assert again.digest == stated.digest
        assert again.at_least == stated.at_least and again.at_most == stated.at_most


def test_nothing_false_is_confirmed():
    """Altered answers to small problems, in files and in memory; ``python tests/forger.py 100000`` does more."""
    cases = forger.problems()
    outcome = forger.run(cases, forger.drawn(cases, 1000, seed=0))
    assert sum(outcome.values()) == 1000 and min(outcome.values()) > 100


@pytest.mark.parametrize(
    "change", [{"gain": 0.4435}, {"shares": SOLVED.shares + 1e-6}, {"upper": 0.443}, {"tol": 0.5}]
)
def test_the_judge_knows_what_is_false(change):
    case = forger.Case(FAIR, SOLVED)
    verdict = verify(FAIR, SOLVED)
    forger.assert_true(case, SOLVED, verdict)
    with pytest.raises(AssertionError):
        forger.assert_true(case, replace(SOLVED, **change), verdict)


def test_forgeries_about_runs_from_the_start_are_found_out():
    """The same where models fall apart; ``python tests/forger_ends.py 100000`` does more."""
    outcome = forger.run(cases := forger_ends.problems(), forger.drawn(cases, 300, seed=0))
    assert sum(outcome.values()) == 300 and min(outcome.values()) > 30


@pytest.mark.parametrize(
    "change",
    [
        {"gain": 0.61},
        {"shares": np.array([0.31])},
        {"upper": 0.59},
        {"prices": np.array([2.0])},
        {"ends": None},
    ],
    ids=lambda change: next(iter(change)),
)
def test_the_judge_of_runs_from_the_start_knows_what_is_false(change):
    case = forger_ends.problems()[0]
    verdict = verify(case.problem, case.honest)
    case.assert_true(case.honest, verdict)
    with pytest.raises(AssertionError):
        case.assert_true(replace(case.honest, **change), verdict)
