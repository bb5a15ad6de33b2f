"""Solution files with anything in them: read or refused, and nothing that is wrong is ever confirmed."""

import json
from functools import cache

import numpy as np
import pytest
from checks import assert_optimal, long_run
from fuzz import cuts, damaged, edits, read
from hypothesis import example, given
from hypothesis import strategies as st

from fairmdp import MDP, Problem, Quota, Solution, Status, scenarios, solve, verify
from fairmdp.solution.file import solution_to_dict

pytestmark = pytest.mark.fuzz

PROBLEMS = {
    "optimal": scenarios.three_state([0.1, 0.1, 0.25]),
    "infeasible": scenarios.three_state([0.1, 0.1, 0.6]),
    "weighted": scenarios.three_state([0.1, 0.1, 0.1]).with_quotas(
        [Quota("balance", weights={"s0": 2.0, "s1": -1.0}, at_most=0.3)]
    ),
}
names = st.sampled_from(sorted(PROBLEMS))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "f.json"


@cache
def text(name):
    return json.dumps(solution_to_dict(solve(PROBLEMS[name])))


@given(names, edits, cuts)
def test_fuzz_damaged_solutions(path, name, changes, cut):
    judged(PROBLEMS[name], read(Solution.load, path, damaged(text(name).encode(), changes, cut)))


fields = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.floats(0, 1)
    | st.text(max_size=5)
    | st.sampled_from([status.value for status in Status]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
places = st.lists(st.integers(0, 40), min_size=1, max_size=3)


def edited(raw, place, value):
    """Put a value at a place that a few numbers lead to."""
    for step in place[:-1]:
        keys = list(raw) if isinstance(raw, dict) else list(range(len(raw)))
        if not keys or not isinstance(raw[keys[step % len(keys)]], dict | list):
            break
        raw = raw[keys[step % len(keys)]]
    keys = list(raw) if isinstance(raw, dict) else list(range(len(raw)))
    if keys:
        raw[keys[place[-1] % len(keys)]] = value


@given(names, st.lists(st.tuples(places, fields), min_size=1, max_size=2))
@example("infeasible", [([11, 2, 0], [])])
def test_fuzz_edited_solutions(path, name, changes):
    raw = json.loads(text(name))
    for place, value in changes:
        edited(raw, place, value)
    judged(PROBLEMS[name], read(Solution.load, path, json.dumps(raw).encode()))


arrays = ["policy", "occupancy", "visitation", "shares", "bias", "prices", "at_least", "at_most"]
witnesses = ["reach", "reach_bias", "factor_bias", "factor_prices"]
factors = st.sampled_from([None, 0.0, -1.0, 0.5, 2.0, 1 + 1e-6, 1e300])


@given(
    names,
    st.sets(st.sampled_from([*arrays, *witnesses, "gain", "upper", "tol", "common_factor"]), min_size=1),
    factors,
)
@example("optimal", {"at_least"}, 0.5)
@example("optimal", {"visitation", "occupancy"}, 0.0)
@example("infeasible", {"reach_bias"}, None)
@example("infeasible", {"factor_bias", "factor_prices"}, None)
@example("infeasible", {"factor_bias", "common_factor"}, 2.0)
def test_fuzz_scaled_solutions(path, name, scaled, factor):
    """Whole fields made larger, smaller or unknown, together."""
    raw = json.loads(text(name))
    for field in scaled:
        for part in (raw, raw["infeasibility"] or {}):
            if field in part:
                part[field] = times(factor, part[field])
    judged(PROBLEMS[name], read(Solution.load, path, json.dumps(raw).encode()))


def times(factor, value):
    if isinstance(value, list):
        return [times(factor, item) for item in value]
    return None if factor is None or value is None else min(factor * value, 1e308)


def judged(problem, solution):
    """Never an exception; and where both arithmetics confirm a solution, what it says is so."""
    if solution is None:
        return
    for exact in (False, True):
        if verify(problem, solution, exact=exact).ok:
            assert_true(problem, solution)


@cache
def best(name):
    """Largest gain of a fair policy, or None; proved without the package's certificate."""
    solution = solve(PROBLEMS[name])
    if solution.status is Status.INFEASIBLE:
        return None
    assert_optimal(PROBLEMS[name], solution)
    return solution.gain


def assert_true(problem, solution):
    limit = best(next(name for name, other in PROBLEMS.items() if other is problem))
    assert solution.quota_names == problem.names
    assert np.allclose(solution.at_least, problem.at_least, atol=1e-7)
    assert np.allclose(solution.at_most, problem.at_most, atol=1e-7)
    assert (solution.status is Status.INFEASIBLE) <= (limit is None)
    if solution.infeasibility is not None:
        assert_explained(problem, solution.infeasibility)
    if not solution.has_policy:
        return
    try:
        nu = long_run(problem, solution.policy)
    except AssertionError:  # it depends on the start: no claim is left
        assert solution.status is Status.UNDECIDED
        return
    x = solution.policy * nu[problem.mdp.s_of]
    assert np.allclose(solution.visitation, nu, atol=1e-6) and np.allclose(solution.occupancy, x, atol=1e-6)
    assert np.allclose(solution.shares, problem.members @ x, atol=1e-6)
    assert solution.gain == pytest.approx(problem.mdp.r @ x, abs=1e-6)
    if solution.status is not Status.UNDECIDED:
        assert (x @ problem.members.T >= problem.at_least - 1e-6).all()
        assert (x @ problem.members.T <= problem.at_most + 1e-6).all()
    if solution.status is Status.OPTIMAL:
        assert solution.gain >= limit - solution.tol * np.ptp(problem.mdp.r) - 1e-6
    assert limit is None or not solution.upper < limit - 1e-6


def assert_explained(problem, why):
    """The conflict is one, and no share or factor goes beyond what is said of it."""
    quotas = [problem.quotas[k] for k in why.conflict]
    assert solve(Problem(problem.mdp, quotas)).status is Status.INFEASIBLE
    for k, reach in zip(why.conflict, why.reach, strict=False):
        counted = problem.members[[k]].toarray()[0]
        most = solve(Problem(MDP(problem.mdp.P, counted, problem.mdp.s_of))).gain
        assert reach >= most - 1e-6
    if why.common_factor is not None and why.common_factor > 0:
        beyond = np.minimum(problem.at_least * (why.common_factor + 1e-3), 1)
        assert solve(problem.with_bounds(at_least=beyond)).status is Status.INFEASIBLE
