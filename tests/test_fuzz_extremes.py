"""Extremes by name: each is solved and proved, or refused in words."""

import numpy as np
import pytest
from fuzz import answers_hold
from scipy.sparse import csr_array

from fairmdp import MDP, Problem, ProblemError, Quota, Status, solve, verify

pytestmark = pytest.mark.fuzz

RING = [[0, 1, 0], [0, 0, 1], [1, 0, 0]]


def read_only(array):
    array = np.array(array)
    array.flags.writeable = False
    return array


def rows_with_duplicates():
    """State 0 moves to 1 in three pieces, one of them in front of another column."""
    data, columns = [0.25, 0.5, 0.25, 0.0, 1.0], [1, 0, 1, 1, 0]
    return csr_array((np.array(data), np.array(columns), np.array([0, 4, 5])), shape=(2, 2))


ring = MDP(RING, [1e12, -1e12, 3.0], [0, 1, 2])
PROBLEMS = {
    "one state, one action": Problem(MDP([[1]], [-7], [0]), rho=[1]),
    "one action everywhere, periodic": Problem(ring, rho=[1 / 3, 0, 0]),
    "periodic, and asked for more than it gives": Problem(ring, rho=[0.34, 0, 0]),
    "whole numbers": Problem(MDP(np.array(RING), np.array([3, -1, 2]), np.array([0, 1, 2], np.uint8))),
    "float32 rows that sum to 1 in float32 only": Problem(
        MDP(np.array([[0.1, 0.9], [0.7, 0.3]], np.float32), np.float32([1, 2]), [0, 1]), rho=[0.1, 0.1]
    ),
    "read-only arrays": Problem(
        MDP(read_only([[0.5, 0.5], [1.0, 0.0]]), read_only([1.0, 2.0]), read_only([0, 1]), initial=read_only([1.0, 0.0])),
        [Quota("a", states=read_only([0]), at_least=0.5), Quota("w", weights=read_only([1.0, -1.0]), at_most=0.5)],
    ),
    "duplicate transitions": Problem(MDP(rows_with_duplicates(), [1.0, 0.0], [0, 1]), rho=[0.5, 0.1]),
    "a probability of 1e-300": Problem(MDP([[1.0, 1e-300], [1.0, 0.0]], [1.0, 5.0], [0, 1])),
    "nearly two chains": Problem(
        MDP([[1 - 1e-13, 1e-13], [0.5, 0.5], [1e-13, 1 - 1e-13]], [1.0, 0.0, 2.0], [0, 0, 1]), rho=[0.2, 0.2]
    ),
    "all of the time, and none of it": Problem(
        MDP([[1, 0], [0, 1], [0, 1]], [0, 0, 1], [0, 0, 1]),
        [Quota("all", states=[0], at_least=1.0), Quota("none", states=[1], at_most=0.0)],
    ),
    "names in any script": Problem(
        MDP([[1.0]], [1.0], [0], states=["Zürich 日本 🙂"], actions=["ждать"]), [Quota("٣", pairs=[("Zürich 日本 🙂", "ждать")], at_least=1)]
    ),
}  # fmt: skip


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_extremes_are_answered(problem):
    answers_hold(problem)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Quota("q", states=[], at_least=0.5), "there are no states in it"),
        (lambda: Quota("q", pairs=np.zeros(3, bool), at_least=0.5), "there are no pairs in it"),
        (lambda: Quota("q", weights={}, at_least=0.5), "all weights are 0"),
    ],
)
def test_an_empty_support_is_refused(make, message):
    with pytest.raises(ProblemError, match=message):
        Problem(MDP(RING, [0, 0, 0], [0, 1, 2]), [make()])


def test_a_state_without_transitions_is_refused():
    with pytest.raises(ProblemError, match=r"P\[1\] is not a probability row: it sums to 0"):
        MDP(csr_array(([1.0], [0], [0, 1, 1]), shape=(2, 2)), [0, 0], [0, 1])


@pytest.mark.slow
def test_a_hundred_thousand_quotas():
    """Every set of seventeen states but the empty and the whole one owed a little."""
    S, rng = 17, np.random.default_rng(0)
    K = 2**S - 2
    mdp = MDP(rng.dirichlet(np.ones(S), 2 * S), rng.random(2 * S), np.repeat(np.arange(S), 2))
    states = (np.arange(1, K + 1)[:, None] >> np.arange(S)) & 1  # (K, S)
    members = csr_array(np.repeat(states, 2, axis=1).astype(float))
    owed = 0.01 * states.sum(axis=1)
    problem = Problem.from_members(mdp, map(str, range(K)), members, owed, np.ones(K), np.ones(K, bool))
    solution = solve(problem)
    assert solution.status is Status.OPTIMAL and verify(problem, solution).ok
