"""Whatever a caller hands over becomes a problem that can be solved and verified, or a clear refusal."""

import numpy as np
import pytest
from fuzz import answers_hold, junk, numbers
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from fairmdp import MDP, Problem, ProblemError, Quota, parse_quota, scenarios

pytestmark = pytest.mark.fuzz


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


@pytest.mark.slow
@given(arrays(), st.one_of(st.none(), st.lists(st.text(max_size=3), max_size=5), junk), junk)
@example((np.ones((1, 1)), [0.0], [0]), False, None)
def test_fuzz_constructors(model, names, initial):
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
def test_fuzz_quotas(quotas, rho):
    """Any quotas: a problem that can be solved and verified, or a ProblemError."""
    try:
        problem = Problem(TWO, [Quota(*quota) for quota in quotas], rho=rho)
    except ProblemError:
        return
    answers_hold(problem)


@given(st.one_of(junk, st.lists(junk, max_size=2)))
@example(5)
def test_fuzz_lists_of_quotas(quotas):
    for make in (Problem(TWO).with_quotas, lambda given: Problem(TWO, given), lambda given: Problem(given)):
        try:
            assert isinstance(make(quotas), Problem)
        except ProblemError:
            pass


weights = st.one_of(
    st.lists(numbers, min_size=2, max_size=3),
    st.dictionaries(
        st.one_of(
            st.sampled_from(["home", "away", 0, 1, (0, 0), ("home", 1), (1, 0), (7, 7)]), st.text(max_size=2)
        ),
        st.one_of(numbers, junk),
        max_size=3,
    ),
    junk,
)


@given(
    st.lists(
        st.tuples(weights, st.one_of(numbers, bounds), st.one_of(numbers, bounds)), min_size=1, max_size=2
    )
)
@example([([1020429127764.0, -1.0204291277634988e-288], 0.0, 0.0)])
@example([([0.0, 5e-211], 0.0, 9e97)])
@example([([0.0, 5e-211], 9e97, None)])
@example([([-1.7e308, 1e12], -1e308, 1.7e308)])
def test_fuzz_weights(rows):
    """Any weights: a problem that can be solved and verified, or a ProblemError."""
    try:
        quotas = [Quota(f"q{k}", None, None, low, high, a) for k, (a, low, high) in enumerate(rows)]
        problem = Problem(TWO, quotas)
    except ProblemError:
        return
    answers_hold(problem)


PAIRS = scenarios.three_state().with_quotas([Quota("both", states=["s0", "s1"], at_least=0.1)])
bound_texts = st.one_of(
    st.text(max_size=40),
    st.from_regex(r'(LRA|S)[<>=]{1,2}[0-9.%e]{1,5} ?\["?s[0-3]"?\]', fullmatch=True),
    st.from_regex(
        r"(both|s[0-3]|s[0-3]/a[0-2]) ?[<>=]{1,2} ?-?[0-9.]{1,4}(e-?[0-9]{1,3})?%?", fullmatch=True
    ),
    st.from_regex(
        r"(LRA|S|both|s0) ?[<>]= ?(nan|inf|-inf|1_0|٣|0x1|1e400|%)( \[ ?\"s0\" ?\])?", fullmatch=True
    ),
    junk,
)


@given(bound_texts)
def test_fuzz_quota_strings(text):
    """Any text: a bound within [0, 1] on something that the problem has, or a ProblemError."""
    try:
        problem = PAIRS.with_quotas([parse_quota(PAIRS, text)])
    except ProblemError:
        return
    assert problem.n_quotas in (PAIRS.n_quotas, PAIRS.n_quotas + 1)
    assert (problem.at_least >= 0).all() and (problem.at_most <= 1).all()
