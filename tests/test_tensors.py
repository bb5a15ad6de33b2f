"""Models from every shape of arrays that people have: all say the same, and mistakes name the right constructor."""

import numpy as np
import pytest
import scipy.sparse as sp

from fairmdp import MDP, Problem, ProblemError, Quota

S, A = 4, 3
RNG = np.random.default_rng(5)
P = RNG.random((S, A, S)) * (RNG.random((S, A, S)) < 0.6) + 0.01 * np.eye(S)[:, None]
P /= P.sum(axis=2, keepdims=True)  # P[s, a, s']
R = np.round(RNG.normal(size=(S, A, S)), 2)  # R[s, a, s']
CLOSED = [(0, 1), (2, 2)]  # actions that some tests take away
FORMATS = ["csr", "csc", "coo", "dok", "lil", "dia", "bsr"]


def by_action(array):
    return np.moveaxis(array, 1, 0)


def expected(closed=()):
    """Rows of P and mean rewards, pair by pair, as a loop over the definition gives them."""
    pairs = [(s, a) for s in range(S) for a in range(A) if (s, a) not in closed]
    mean = [sum(P[s, a, t] * R[s, a, t] for t in range(S)) for s, a in pairs]
    return np.array([P[pair] for pair in pairs]), np.array(mean), [s for s, _ in pairs]


def agree(mdp, closed=(), tol=1e-15):
    rows, r, s_of = expected(closed)
    assert np.abs(mdp.P.toarray() - rows).max() <= tol and mdp.s_of.tolist() == s_of
    assert np.abs(mdp.r - r).max() <= 10 * tol


@pytest.mark.parametrize("kind", [f"{form}_{shape}" for form in FORMATS for shape in ("array", "matrix")])
def test_matrices_of_actions_in_all_formats_of_scipy(kind):
    make = getattr(sp, kind)
    sparse = [make(matrix) for matrix in by_action(P)]
    agree(MDP.from_action_tensor(sparse, [make(matrix) for matrix in by_action(R)]))
    boxed = np.empty(A, object)
    boxed[:] = sparse
    agree(MDP.from_action_tensor(boxed, by_action(R)))
    rows = make(P.reshape(-1, S))
    agree(MDP(rows, make(R.reshape(-1, S)), np.repeat(np.arange(S), A)))
    single = MDP(rows.astype(np.float32), R.reshape(-1, S).astype(np.float32), np.repeat(np.arange(S), A))
    agree(single, tol=1e-6)


def test_rewards_of_transitions_are_averaged():
    agree(MDP.from_tensor(P, R))
    agree(MDP.from_action_tensor(by_action(P), by_action(R)))
    agree(MDP.from_action_tensor(list(by_action(P)), [sp.csr_array(part) for part in by_action(R)]))
    agree(MDP(P.reshape(-1, S), R.reshape(-1, S).tolist(), np.repeat(np.arange(S), A)))
    rewards = {"energy": R.reshape(-1, S)}
    mdp = MDP(P.reshape(-1, S), np.zeros(S * A), np.repeat(np.arange(S), A), rewards=rewards)
    assert np.abs(mdp.rewards["energy"] - expected()[1]).max() < 1e-14


def test_actions_that_are_not_available():
    closed = R.copy()
    for pair in CLOSED:
        closed[pair] = -np.inf
    names = {"actions": ["x", "y", "z"]}
    for mdp in (
        MDP.from_tensor(P, closed, **names),
        MDP.from_action_tensor([sp.csc_array(part) for part in by_action(P)], by_action(closed), **names),
        MDP.from_action_tensor(
            list(by_action(P)), [sp.csr_array(part) for part in by_action(closed)], **names
        ),
        MDP.from_tensor(np.where(np.isneginf(closed), 0, P), closed, **names),  # rows of zeros
    ):
        agree(mdp, CLOSED)
        assert mdp.actions == tuple("xzxyzxyxyz")
    half = R.copy()
    half[1, 2, np.flatnonzero(P[1, 2])[0]] = -np.inf
    with pytest.raises(ProblemError, match=r"r\[5\] is -inf.*\n  pair 5 is state 1, action a2"):
        MDP.from_tensor(P, half)
    beside = R.copy()
    beside[P == 0] = -np.inf  # where nothing leads nothing is paid
    agree(MDP.from_tensor(P, beside))


def test_one_reward_for_all_actions_of_a_state():
    r = np.arange(S)
    for mdp in (MDP.from_tensor(P, r), MDP.from_action_tensor([sp.lil_matrix(p) for p in by_action(P)], r)):
        assert mdp.r.tolist() == np.repeat(r, A).tolist()


def test_states_may_be_numbers_and_tuples():
    cells = [(s // 2, s % 2) for s in range(S)]
    problem = Problem(
        MDP.from_tensor(P, R, states=cells), [Quota("q", states=[(0, 1), (1, 1)], at_least=0.1)]
    )
    assert problem.quotas[0].states.tolist() == [1, 3] and problem.mdp.states[1] == "0,1"
    tens = MDP.from_tensor(P, R, states=[10, 20, 30, 40])
    assert tens.state_index("20") == 1
    assert MDP.from_tensor(P, R, states=np.arange(S)).states is None


ROWS = P.reshape(-1, S)
SPARSE = [sp.csr_array(part) for part in by_action(P)]
S_OF = np.repeat(np.arange(S), A)


@pytest.mark.parametrize(("build", "message"), [
    (lambda: MDP(P, R[:, :, 0]), r"P has shape \(4, 3, 4\), .*\n.*\(S, A, S\) use MDP.from_tensor$"),
    (lambda: MDP(by_action(P), R), r"P has shape \(3, 4, 4\), .*\n.*\(A, S, S\) use MDP.from_action_tensor$"),
    (lambda: MDP(np.ones((2, 2, 2)), R), "use MDP.from_tensor, of shape .A, S, S. MDP.from_action_tensor$"),
    (lambda: MDP(np.ones((2, 3, 4)), R), "for P of shape .S, A, S. use MDP.from_tensor$"),
    (lambda: MDP(SPARSE, R, S_OF), "P is a list of 3 matrices, .*\n  for one matrix per action use MDP.from_action_tensor"),
    (lambda: MDP({0: {0: [(1.0, 0, 0.0, False)]}}, [0.0], [0]), "P is a dict, .*\n.*from_gymnasium, .*MDP.from_table, .*MDP.from_rules"),
    (lambda: MDP(ROWS, np.zeros(12)), "s_of is missing: which state each row of P is an action of\n  P has 12 rows"),
    (lambda: MDP(ROWS, R[:, :, 0], S_OF), r"r has shape \(4, 3\), expected \(12,\), .* or \(12, 4\), one per transition\n.*use MDP.from_tensor"),
    (lambda: MDP(ROWS, np.zeros((11, 4)), S_OF), r"r has shape \(11, 4\), expected \(12,\), [^\n]*$"),
    (lambda: MDP(ROWS, [[1.0], [2.0, 3.0]], S_OF), "r is ragged"),
    (lambda: MDP(ROWS, sp.csr_array(ROWS[:5]), S_OF), r"r has shape \(5, 4\)"),
    (lambda: MDP.from_tensor(SPARSE, R), "from_tensor needs P of shape .S, A, S., got sparse matrices\n.*from_action_tensor"),
    (lambda: MDP.from_tensor(sp.csr_array(ROWS), R), "got sparse matrices\n(.*\n).*MDP.P, r, s_of."),
    (lambda: MDP.from_tensor(ROWS, R), r"from_tensor needs P of shape \(S, A, S\), got \(12, 4\)$"),
    (lambda: MDP.from_tensor(by_action(P), R), "use from_action_tensor"),
    (lambda: MDP.from_tensor(P, by_action(R)), r"R has shape \(3, 4, 4\), expected that of P, \(4, 3, 4\), or \(4, 3\)"),
    (lambda: MDP.from_tensor(P, R[:, :, 0].T), r"R has shape \(3, 4\), expected \(4, 3\) .*\n  give R.T"),
    (lambda: MDP.from_tensor(P, np.zeros(3)), r"R has shape \(3,\), expected \(4, 3\)"),
    (lambda: MDP.from_tensor(P, [sp.csr_array(part) for part in by_action(R)]), "R is a list of matrices, one per action\n  give P so too"),
    (lambda: MDP.from_action_tensor(P, R), r"got \(4, 3, 4\)\n  for P of shape \(S, A, S\) use from_tensor"),
    (lambda: MDP.from_action_tensor(sp.csr_array(ROWS), R), r"got \(12, 4\)\n  one matrix with a row per .* MDP\(P, r, s_of\)"),
    (lambda: MDP.from_action_tensor([SPARSE[0], SPARSE[1][:2]], R), r"P\[1\] has shape \(2, 4\), expected \(4, 4\)"),
    (lambda: MDP.from_action_tensor([SPARSE[0], SPARSE[1] * 1j], R), r"P\[1\] holds complex128, expected real"),
    (lambda: MDP.from_action_tensor(SPARSE, SPARSE[:2]), "R is for 2 actions of 4 states, P for 3 of 4"),
    (lambda: MDP.from_action_tensor(SPARSE, np.zeros((3, 4))), r"R has shape \(3, 4\), .*\n  give R.T"),
    (lambda: MDP.from_action_tensor([2 * SPARSE[0], *SPARSE[1:]], R[:, :, 0]), r"P\[0\] is not a probability row: it sums to 2, .*\n  row 0 is state 0, action a0; 4 of 12 rows"),
    (lambda: MDP.from_tensor(P, R, actions=["a", "b"]), "actions has 2 names, expected 3"),
])  # fmt: skip
def test_mistakes_name_the_constructor_to_take(build, message):
    with pytest.raises(ProblemError, match=message):
        build()
