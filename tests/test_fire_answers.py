"""Whatever a caller hands over becomes a problem or a clear refusal, and every answer to a problem holds."""

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from fairmdp import (
    MDP,
    FairMDPError,
    FunctionSimulator,
    Problem,
    ProblemError,
    Quota,
    Status,
    learn,
    solve,
    verify,
)

junk = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.floats(), st.text(max_size=3), st.binary(max_size=3),
    st.lists(st.floats(), max_size=4), st.just({}), st.just(np.array(["a"])), st.just(np.array([1j])), st.just(object()),
)  # fmt: skip
numbers = st.one_of(
    st.floats(), st.sampled_from([0.0, -0.0, 0.5, 1.0, 1e-300, 5e-324, 1e-17, 1e12, -1e12, 1e300, 1.7e308])
)


@st.composite
def arrays(draw):
    """Arrays that are nearly an MDP, of any dtype and layout that NumPy has."""
    S, SA = draw(st.integers(0, 4)), draw(st.integers(0, 7))
    rows = draw(st.lists(st.lists(numbers, min_size=S, max_size=S), min_size=SA, max_size=SA))
    P = np.array(rows, dtype=float).reshape(SA, S)
    with np.errstate(all="ignore"):
        if draw(st.booleans()):
            P = np.abs(P) / np.abs(P).sum(axis=1, keepdims=True)
        P = P.astype(draw(st.sampled_from([np.float64, np.float32, np.float16, np.longdouble, object])))
    if draw(st.booleans()) and P.dtype.kind == "f" and P.dtype.itemsize in (4, 8):
        P = csr_array(P)
    r = draw(st.one_of(st.lists(numbers, min_size=SA, max_size=SA), junk))
    s_of = draw(st.one_of(st.lists(st.integers(-1, 5), min_size=SA, max_size=SA).map(sorted), junk))
    return P, r, s_of


@given(arrays(), st.one_of(st.none(), st.lists(st.text(max_size=3), max_size=5), junk), junk)
def test_fire_constructors(model, names, initial):
    """Any arguments: a model whose rows are distributions, or a ProblemError."""
    for options in ({}, {"states": names}, {"actions": names}, {"initial": initial}):
        try:
            mdp = MDP(*model, **options)
        except ProblemError:
            continue
        assert np.abs(mdp.P.toarray().sum(axis=1) - 1).max() < 1e-12 and np.isfinite(mdp.r).all()


TWO = MDP([[0, 1], [0.5, 0.5], [1, 0]], [1.0, 0.0, 2.0], [0, 0, 1], states=["home", "away"])
sets = st.one_of(
    st.lists(st.one_of(st.integers(-1, 3), st.sampled_from(["home", "away", "x"])), max_size=3), junk
)
pairs = st.one_of(
    st.lists(st.one_of(st.integers(-1, 4), st.tuples(st.integers(0, 2), st.integers(0, 2))), max_size=3), junk
)
bounds = st.one_of(st.floats(0, 1), st.none(), junk)


@given(
    st.lists(
        st.tuples(st.one_of(st.text(max_size=3), junk), sets, st.none() | pairs, bounds, bounds), max_size=3
    ),
    st.one_of(st.none(), st.lists(st.floats(0, 1), min_size=2, max_size=2), junk),
)
def test_fire_quotas(quotas, rho):
    """Any quotas: a problem that can be solved and verified, or a ProblemError."""
    try:
        problem = Problem(TWO, [Quota(*quota) for quota in quotas], rho=rho)
    except ProblemError:
        return
    answers_hold(problem)


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


@given(models(), st.data())
def test_fire_answers(mdp, data):
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
    answers_hold(problem)


def answers_hold(problem):
    solution = solve(problem)
    for exact in (False, True):
        verdict = verify(problem, solution, exact=exact)
        assert verdict.ok, verdict.messages
    if solution.status in (Status.OPTIMAL, Status.FEASIBLE):
        assert solution.worst_slack >= -1e-9


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@given(st.one_of(junk, st.tuples(junk, junk), st.tuples(st.integers(-1, 3), st.floats())))
@example((1, float("nan")))
def test_fire_simulators(answer):
    """A simulator that answers with anything: an estimate, or an error that names the call."""
    try:
        simulator = FunctionSimulator(lambda state, action, rng: answer, 2, 1)
        learn(simulator, [Quota("home", states=[0], at_least=0.1)], samples=300)
    except FairMDPError as error:
        assert "state" in str(error)
