"""Every answer to a problem holds, whatever the sizes in it; simulators may answer with anything."""

import time

import numpy as np
import pytest
from fuzz import answers_hold, junk
from hypothesis import assume, example, given
from hypothesis import strategies as st

from fairmdp import MDP, FairMDPError, FunctionSimulator, Problem, ProblemError, Quota, learn

pytestmark = pytest.mark.fuzz


@st.composite
def models(draw):
    """Small models with probabilities and rewards of extreme sizes, periodic and split ones among them."""
    S = draw(st.integers(1, 5))
    counts = draw(st.lists(st.integers(1, 3), min_size=S, max_size=S))
    s_of = np.repeat(np.arange(S), counts)
    weight = st.sampled_from([0.0, 0.0, 0.0, 1.0, 1.0, 0.3, 1e-3, 1e-9, 1e-17, 1e-300])
    P = np.array(
        draw(st.lists(st.lists(weight, min_size=S, max_size=S), min_size=s_of.size, max_size=s_of.size))
    )
    assume((P.sum(axis=1) > 1e-200).all())
    reward = st.sampled_from([0.0, 1.0, -1.0, 0.5, 1e12, -1e12, 1e-12, 3.0])
    r = draw(st.lists(reward, min_size=s_of.size, max_size=s_of.size))
    return MDP(P / P.sum(axis=1, keepdims=True), r, s_of)


shares = st.sampled_from([0.0, 1.0, 0.5, 0.25, 1 / 3, 1e-9, 1 - 1e-9, 1e-300, 0.1, 0.2])


@pytest.mark.slow
@given(models(), st.data())
def test_fuzz_answers(mdp, data):
    """Every status of every answer is confirmed by the certificate, in rational arithmetic too."""
    quotas = []
    for k in range(data.draw(st.integers(0, 3))):
        states = data.draw(st.sets(st.integers(0, mdp.n_states - 1), min_size=1))
        low, high = sorted(data.draw(st.tuples(shares, shares)))
        quotas.append(Quota(f"q{k}", states=sorted(states), at_least=low, at_most=high))
    try:
        problem = Problem(mdp, quotas)
    except ProblemError:
        assume(False)
    answers_hold(problem)


def weighted(weights, r, s_of, *quotas):
    """A problem from rows that still have to be divided by their sums."""
    P = np.array(weights)
    return Problem(
        MDP(P / P.sum(axis=1, keepdims=True), r, s_of),
        [Quota(name, states, None, *bounds) for name, states, *bounds in quotas],
    )


REGRESSIONS = {
    "a cap that all of the time misses by the tolerance, and a share of 1 + 2e-16": weighted(
        [
            [0, 0, 0, 0, 1], [1, 0, 0, 0, 1e-9], [0, 0, 0, 0, 1], [0, 0, 0, 0, 1], [0, 0, 0, 0, 1], [1, 0, 1, 0, 0],
            [1e-9, 1, 0, 0, 1e-9], [0, 0, 0, 0, 1], [0, 0, 0, 0, 1], [0.3, 1e-3, 0, 0, 0], [0, 0, 1, 1, 0],
        ],
        [0.0, 0.0, 1.0, *[0.0] * 8], [0, 0, 0, 1, 1, 1, 2, 3, 3, 3, 4], ("q", [0, 1, 2, 3, 4], 0.0, 1 - 1e-9),
    ),
    "half a minute of policies that went round in a circle": weighted(
        [[1e-17, 0, 1], [0, 1, 1e-17], [0, 1e-17, 0.3], [0, 1e-17, 0.3], [0, 1e-300, 0.3]], [0.0, 0.0, 3.0, 3.0, -1.0], [0, 1, 2, 2, 2]
    ),
    "a move of 1e-300 after a move of 1e-300, whose product is 0": weighted(
        [[0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 1, 1e-300], [0, 1e-300, 1, 0]], [0.0] * 4, [0, 1, 2, 3]
    ),
    "no quotas, and a state that is left once in 1e17 steps on the way to one of two ends": weighted(
        [[0, 0, 0, 1], [0, 1, 0, 1e-17], [0, 0, 0, 1], [0, 0, 1, 0], [0, 0, 0, 1]], [0.0] * 5, [0, 1, 1, 2, 3]
    ),
    "one policy with two classes came back as a column four hundred times": weighted(
        [[1, 0], [1, 0], [1e-291, 1], [0, 1], [0, 1]], [0.0, 3.0, -1.0, -1.0, 0.0], [0, 0, 0, 1, 1]
    ),
    "met within the tolerance, and provably not met": weighted(
        [[1.0], [1.0], [1.0]], [-1.0, -1e12, 3.0], [0, 0, 0], ("q", [0], 0.1, 1 - 1e-9)
    ),
    "a witness proves more in rationals than with rounding added": weighted(
        [[0, 0, 1], [1, 0, 0], [1, 0, 0], [1e-300, 0.3, 1e-9], [1, 0, 0]], [1.0, 0.0, 1e-12, 0.0, 3.0], [0, 1, 1, 1, 2],
        ("q", [1], 0.25, 1 / 3),
    ),
    "no occupancy at all for HiGHS, which takes 1e-17 for 0": weighted(
        [
            [1e-17, 1e-300, 0.3, 0, 1e-17], [0, 1, 1e-17, 1e-9, 1e-9], [0, 0, 0, 0.3, 1], [0, 0, 1, 0, 0.3], [1, 0, 0, 1e-291, 1],
            [0, 1, 0, 1, 0.3], [1, 1e-300, 0, 1e-300, 1e-300], [0, 1e-3, 1e-3, 1e-300, 0.3], [1e-3, 1, 0, 0, 1e-300], [1e-9, 1e-300, 1e-3, 0, 1],
        ],
        [3.0, 1e12, 0.0, 0.5, -1.0, 1.0, -1.0, 1e-12, -1e12, 1.0], [0, 1, 2, 2, 2, 3, 3, 4, 4, 4],
        ("q0", [2, 3], None, 1e-9), ("q1", [3], 1 / 3, None),
    ),
}  # fmt: skip


@pytest.mark.parametrize("problem", REGRESSIONS.values(), ids=REGRESSIONS)
def test_answers_that_once_failed(problem):
    began = time.process_time()
    answers_hold(problem)
    assert time.process_time() - began < 10


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@given(st.one_of(junk, st.tuples(junk, junk), st.tuples(st.integers(-1, 3), st.floats())))
@example((1, float("nan")))
def test_fuzz_simulators(answer):
    """A simulator that answers with anything: an estimate, or an error that names the call."""
    try:
        simulator = FunctionSimulator(lambda state, action, rng: answer, 2, 1)
        learn(simulator, [Quota("home", states=[0], at_least=0.1)], samples=300)
    except FairMDPError as error:
        assert "state" in str(error)
