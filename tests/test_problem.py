import copy
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix

from fairmdp import MDP, Problem, ProblemError, Quota, parse_quota
from fairmdp.io.source import Source
from fairmdp.model.quota_text import parse_quotas

P = np.array([[0.5, 0.5], [0.0, 1.0], [1.0, 0.0]])
R = [1.0, 2.0, 3.0]
S_OF = [0, 0, 1]


def mdp(**changes):
    parts = {"P": P, "r": R, "s_of": S_OF, "states": ["day", "night"], "actions": ["rest", "work", "rest"]}
    parts |= changes
    return MDP(parts.pop("P"), parts.pop("r"), parts.pop("s_of"), **parts)


def changed(array, index, value):
    array = np.array(array, dtype=float)
    array[index] = value
    return array


@pytest.mark.parametrize(
    "changes, words",
    [
        (
            {"P": changed(P, (0, 1), 0.4)},
            r"P\[0\] is not a probability row: it sums to 0\.9, expected 1 \(within 1e-09\)",
        ),
        ({"P": changed(P, (0, 1), 0.4)}, r"row 0 is state day, action rest; 1 of 3 rows is off"),
        ({"P": changed(P, (0, 1), 0.4)}, "explicit restart state"),
        ({"P": changed(P, (1, 1), 1.5)}, r"sums to 1\.5.*\n.*action work.*\n.*divide the row"),
        ({"P": changed(P, (1, 0), -0.1)}, r"P\[1, 0\] is -0\.1, expected a probability"),
        (
            {"P": changed(P, (1, 0), np.nan)},
            r"P\[1, 0\] is nan.*\n.*to state day; 1 of 5 transitions is negative",
        ),
        (
            {"r": [1.0, np.nan, 3.0]},
            r"r\[1\] is nan.*\n.*state day, action work; 1 of 3 rewards is not finite",
        ),
        ({"r": [1.0, 2.0, np.inf]}, r"r\[2\] is inf"),
        ({"r": [1.0, 2.0]}, r"r has shape \(2,\), expected \(3,\)"),
        ({"r": ["a", "b", "c"]}, "r holds <U1, expected real numbers"),
        ({"r": [1j, 2, 3]}, "r holds complex128, expected real numbers"),
        ({"s_of": [0, 0, 0]}, "state 1 has no action; 1 of 2 states is without one"),
        ({"s_of": [0, 0, 2]}, r"s_of\[2\] is 2, expected a state from 0 to 1"),
        ({"s_of": [0, -1, 1]}, r"s_of\[1\] is -1"),
        ({"s_of": [0, 1, 0]}, "s_of is not sorted: pair 2 belongs to state 0, after state 1"),
        ({"s_of": [0.0, 0.0, 1.0]}, "s_of holds float64, expected integers"),
        ({"s_of": [0, 1]}, r"s_of has shape \(2,\), expected \(3,\)"),
        ({"P": P[0]}, r"P has shape \(2,\), expected \(SA, S\)"),
        ({"P": [[1, 0], [1]]}, "P is ragged"),
        ({"P": P.astype(object)}, "P holds object"),
        ({"P": np.zeros((0, 2))}, "at least one state and one action"),
        ({"states": ["day", "day"]}, "two states are called 'day'"),
        ({"states": ["day"]}, "states has 1 name, expected 2"),
        ({"states": "ab"}, "states is the single string 'ab'"),
        ({"states": ["day", "a\nb"]}, "printable text"),
        ({"states": ["day", " 3"]}, "has the name ' 3'"),
        ({"states": ["3", 3]}, "two states are called '3'"),
        ({"actions": ["rest", "rest", "rest"]}, "state day has two actions called 'rest'"),
        ({"actions": ["rest"]}, r"actions has 1 names, expected 3 \(one per pair\) or 2"),
        ({"initial": [0.5, 0.4]}, r"initial sums to 0\.9"),
        ({"initial": [1.5, -0.5]}, "initial gives state night probability -0.5"),
        ({"initial": [1.0]}, r"initial has shape \(1,\), expected \(2,\)"),
    ],
)
def test_bad_models_are_named(changes, words):
    with pytest.raises(ProblemError, match=words):
        mdp(**changes)


def test_stray_transitions_are_named():
    stray = csr_array(P)
    stray.indices[1] = 7
    with pytest.raises(
        ProblemError, match=r"moves to state 7, expected 0 to 1\n  this is state day, action rest; 1 of 4"
    ):
        mdp(P=stray)


def quota(**changes):
    return Quota(**({"name": "q", "states": ["night"], "at_least": 0.2} | changes))


@pytest.mark.parametrize(
    "quotas, words",
    [
        ([{"at_least": 1.5}], r"quota q has at_least 1\.5, expected a share between 0 and 1.*\n.*\n.*25 % as 0\.25"),
        ([{"at_least": -0.1}], r"at_least -0\.1"),
        ([{"at_least": float("nan")}], "at_least nan"),
        ([{"at_most": 2.0}], "at_most 2"),
        ([{"at_least": 0.5, "at_most": 0.4}], r"asks for at_least 0\.5 and at_most 0\.4"),
        ([{"at_least": "0.5"}], "at_least is '0.5', expected a number"),
        ([{"at_least": None}], "give at_least, at_most or both"),
        ([{"states": []}], "quota q: there are no states in it"),
        ([{"states": None}], "give one of states, pairs"),
        ([{"pairs": [0]}], "give one of states, pairs"),
        ([{"states": ["noon"]}], "quota q: there is no state called 'noon'; there are day, night"),
        ([{"states": [5]}], "there is no state 5, expected 0 to 1"),
        ([{"states": np.array([5])}], "there is no state 5, expected 0 to 1"),
        ([{"states": [True]}], "there is no state True; there are day, night"),
        ([{"states": "night"}], "states is 'night', expected a list"),
        ([{"states": 1}], "states is 1, expected a list"),
        ([{"states": np.array([True])}], r"the mask has shape \(1,\), expected \(2,\)"),
        ([{"states": None, "pairs": [("day", "nap")]}], "state day has no action called 'nap'; there are rest, work"),
        ([{"states": None, "pairs": [9]}], "there is no pair 9, expected 0 to 2"),
        ([{"name": ""}], "has the name ''"),
        ([{}, {}], "two quotas are called 'q'"),
        ([{}, {"name": "p", "at_least": 0.1}], "quotas q and p bound one set on one side twice"),
    ],
)  # fmt: skip
def test_bad_quotas_are_named(quotas, words):
    with pytest.raises(ProblemError, match=words):
        Problem(mdp(), [quota(**changes) for changes in quotas])


def test_overlapping_quotas_may_sum_above_one():
    both = Quota("all", states=["day", "night"], at_least=0.9)
    assert Problem(mdp(), [quota(), both]).at_least.sum() > 1


def test_same_set_on_two_sides_is_fine():
    Problem(mdp(), [quota(), quota(name="cap", at_least=None, at_most=0.9)])


def test_rho_is_one_quota_per_state():
    problem = Problem(mdp(), rho=[0.25, 0.5])
    assert problem.names == ("day", "night")
    assert problem.at_least.tolist() == [0.25, 0.5] and problem.at_most.tolist() == [1, 1]
    assert problem.members.toarray().tolist() == [[1, 1, 0], [0, 0, 1]]
    more = Problem(mdp(), [quota(at_most=0.9)], rho=[0.25, 0.0])
    assert more.names == ("q", "day", "night") and more.over_states.all()
    assert more.at_least.tolist() == [0.2, 0.25, 0.0] and more.at_most.tolist() == [0.9, 1, 1]
    assert more.members.toarray().tolist() == [[0, 0, 1], [1, 1, 0], [0, 0, 1]]
    with pytest.raises(ProblemError, match=r"rho has shape \(3,\), expected \(2,\)"):
        Problem(mdp(), rho=[0.1, 0.1, 0.1])


def test_quotas_by_name_number_mask_and_pair_agree():
    model = mdp()
    by = [
        Quota("q", states=["day"], at_least=0.1),
        Quota("q", states=[0], at_least=0.1),
        Quota("q", states=np.array([True, False]), at_least=0.1),
    ]
    assert len({Problem(model, [q]).digest for q in by}) == 1
    pairs = Problem(model, [Quota("q", pairs=[("day", "work"), ("night", 0)], at_least=0.1)])
    assert pairs.members.toarray().tolist() == [[0, 1, 1]]


def test_tensor_orders_are_named_not_guessed():
    tensor = np.array([[[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.2, 0.8]]])  # (S, A, S)
    rewards = np.array([[1.0, 2.0], [3.0, -np.inf]])
    model = MDP.from_tensor(tensor, rewards, states=["day", "night"], actions=["rest", "work"])
    assert model.s_of.tolist() == [0, 0, 1] and model.actions == ("rest", "work", "rest")
    assert np.array_equal(model.P.toarray(), P)
    other = MDP.from_action_tensor(tensor.transpose(1, 0, 2), rewards)
    assert np.array_equal(other.P.toarray(), P) and other.pair_name(2) == "1/a0"
    three = np.full((3, 2, 3), 1 / 3)
    with pytest.raises(ProblemError, match=r"got \(2, 3, 3\).*\n.*use from_action_tensor"):
        MDP.from_tensor(three.transpose(1, 0, 2), np.zeros((3, 2)))
    with pytest.raises(ProblemError, match=r"got \(3, 2, 3\)\n.*use from_tensor"):
        MDP.from_action_tensor(three, np.zeros((3, 2)))


@pytest.mark.parametrize("kind", [csr_array, csr_matrix, np.asarray, lambda a: a.astype(np.float32).tolist()])
def test_any_matrix_will_do_and_is_copied(kind):
    given_P = kind(P)
    model = MDP(given_P, np.array([1, 2, 3], dtype=np.int8), np.array(S_OF, dtype=np.int32))
    assert np.array_equal(model.P.toarray(), P) and model.r.dtype == np.float64
    if hasattr(given_P, "data") and not isinstance(given_P, np.ndarray):
        given_P.data[:] = 0
        assert np.array_equal(model.P.toarray(), P)


def test_models_and_problems_are_read_only():
    problem = Problem(mdp(), [quota()])
    for array in (
        problem.mdp.r,
        problem.mdp.P.data,
        problem.mdp.s_of,
        problem.at_least,
        problem.members.data,
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(AttributeError):
        problem.mdp.r = np.zeros(3)
    with pytest.raises(AttributeError):
        problem.at_least = np.zeros(1)


def test_repeated_transitions_are_added_and_zeros_dropped():
    repeated = csr_array(
        (np.array([0.25, 0.25, 0.5, 0.0, 1.0, 1.0]), np.array([0, 0, 1, 0, 1, 0]), np.array([0, 3, 5, 6]))
    )
    model = mdp(P=repeated)
    assert np.array_equal(model.P.toarray(), P) and model.P.nnz == 4


def test_rows_are_rescaled_only_beyond_rounding():
    model = mdp(P=changed(P, (0, 0), 0.5 + 5e-10))
    assert abs(model.P.toarray()[0].sum() - 1) < 1e-15
    again = MDP(model.P, model.r, model.s_of, states=model.states, actions=model.actions)
    assert np.array_equal(again.P.data, model.P.data)
    thirds = MDP([[1 / 3] * 3] * 3, [0, 0, 0], [0, 1, 2])
    assert (thirds.P.data == 1 / 3).all()


def test_digest_tells_problems_apart():
    base = Problem(mdp(), [quota()])
    others = [
        Problem(mdp(r=[1.0, 2.0, 3.5]), [quota()]),
        Problem(mdp(P=changed(changed(P, (0, 0), 0.4), (0, 1), 0.6)), [quota()]),
        Problem(mdp(states=["day", "nite"]), [quota(states=[1])]),
        Problem(mdp(), [quota(at_least=0.3)]),
        Problem(mdp(), [quota(at_least=None, at_most=0.2)]),
        Problem(mdp(), [quota(states=["day"])]),
        Problem(mdp(), [quota(states=None, pairs=[2])]),
        Problem(mdp(initial=[1.0, 0.0]), [quota()]),
        Problem(mdp(actions=None), [quota()]),
    ]
    assert len({p.digest for p in [base, *others]}) == 1 + len(others)
    assert Problem(mdp(), [quota()]).digest == base.digest
    assert base.with_bounds(at_least=[0.2]).digest == base.digest


def test_with_quotas_replaces_by_name():
    problem = Problem(mdp(), [quota()]).with_quotas(
        [quota(at_least=0.3), Quota("d", states=[0], at_most=0.9)]
    )
    assert problem.names == ("q", "d") and problem.at_least.tolist() == [0.3, 0.0]
    assert problem.without_quotas().n_quotas == 0


def test_fair_action_is_the_last_action_of_every_state():
    problem = Problem(mdp(), [quota(), quota(name="p", states=None, pairs=[1])])
    more = problem.with_fair_action()
    assert more.mdp.actions == ("rest", "work", "a*", "rest", "a*")
    assert more.mdp.r.tolist() == [1, 2, -1, 3, -1]  # one span below the smallest
    assert more.mdp.P.toarray()[[2, 4]].tolist() == [[0.5, 0.5]] * 2
    assert more.members.toarray().tolist() == [
        [0, 0, 0, 1, 1],
        [0, 1, 0, 0, 0],
    ]  # states count it, pairs do not
    skewed = problem.mdp.with_fair_action(psi=[0.0, 1.0], reward=0.5)
    assert skewed.P.toarray()[2].tolist() == [0, 1] and skewed.r[2] == 0.5
    with pytest.raises(ProblemError, match="psi sums to 0.5"):
        problem.mdp.with_fair_action(psi=[0.5, 0.0])


def test_messages_of_unknown_names_list_what_exists():
    with pytest.raises(ProblemError, match=re.escape("there is no quota called 'x'; there are q")):
        Problem(mdp(), [quota()]).quota_index("x")
    many = MDP(np.eye(12), np.zeros(12), np.arange(12), states=[f"z{i}" for i in range(12)])
    with pytest.raises(ProblemError, match="z7 and 4 more"):
        many.state_index("y")


@pytest.mark.parametrize(
    "bounds, shown",
    [
        ({"at_most": 0.5}, "Quota('q', at_most=0.5)"),
        ({"at_least": 0.25, "at_most": 0.5}, "Quota('q', at_least=0.25, at_most=0.5)"),
    ],
)
def test_quotas_and_problems_show_themselves(bounds, shown):
    q = Quota("q", states=[0], **bounds)
    assert repr(q) == shown
    assert repr(Problem(mdp(), [q])) == "Problem(2 states, 3 pairs, 4 transitions, 1 quota)"
    assert repr(Problem(mdp())) == "Problem(2 states, 3 pairs, 4 transitions, 0 quotas)"


def test_quotas_are_given_back_as_stated():
    stated = [
        Quota("floor", states=["night"], at_least=0.2),
        Quota("cap", states=np.array([0]), at_most=0.9),
        Quota("both", pairs=[2, 1], at_least=0.1, at_most=0.8),
        Quota("idle", pairs=[2], at_least=0.0),
        Quota("mean", weights=[1.0, -2.0, 0.0], at_most=0.5),
        Quota("by state", weights=[3.0, 1.0], at_least=1.5),
    ]
    problem = Problem(mdp(), stated)
    assert [(q.name, q.at_least, q.at_most) for q in problem.quotas] == [
        (q.name, q.at_least, q.at_most) for q in stated
    ]
    sets = [next(x for x in (q.states, q.pairs, q.weights) if x is not None).tolist() for q in problem.quotas]
    assert sets == [[1], [0], [1, 2], [2], [1.0, -2.0, 0.0], [3.0, 1.0]]
    assert [q.states is not None for q in problem.quotas] == [True, True, False, False, False, False]
    assert problem.over_states.tolist() == [True, True, False, False, False, True]
    assert Problem(mdp(), rho=[0.1, 0.1]).over_states.all()
    assert Problem(mdp(), problem.quotas).digest == problem.digest
    with pytest.raises(ValueError, match="read-only"):
        problem.quotas[4].weights[0] = 1


def test_quotas_by_number_and_name():
    problem = Problem(mdp(), [quota(), quota(name="p", states=["day"])])
    assert [problem.quota_index(q) for q in (0, 1, "q", "p")] == [0, 1, 0, 1]
    with pytest.raises(ProblemError, match="there is no quota 2, expected 0 to 1"):
        problem.quota_index(2)


def test_other_bounds_and_other_models_keep_the_rest():
    problem = Problem(mdp(), [quota(), Quota("mean", weights=[1.0, -2.0, 0.5], at_least=-1.0)])
    other = problem.with_bounds(at_most=[0.7, 0.5])
    assert other.at_least.tolist() == problem.at_least.tolist() and other.at_most.tolist() == [0.7, 0.5]
    assert other.lower.tolist() == [0.2, -1.0] and other.upper.tolist() == [0.7, -0.5]
    assert problem.with_bounds(at_least=[0.1, 0.5]).lower.tolist() == [0.1, -0.5]
    for side in ("at_least", "at_most"):
        with pytest.raises(ProblemError, match=rf"^{side} has shape \(3,\), expected \(2,\)"):
            problem.with_bounds(**{side: [0.1, 0.2, 0.3]})
    richer = problem.with_mdp(mdp(r=[5.0, 6.0, 7.0]))
    assert richer.mdp.r.tolist() == [5, 6, 7] and richer.names == problem.names
    assert richer.lower.tolist() == problem.lower.tolist()
    with pytest.raises(ProblemError, match="the other model has other states or actions"):
        problem.with_mdp(MDP(np.eye(2), [0.0, 0.0], [0, 1]))


def from_members(rows, over_states=(False, False), lower=(0.1, 0.1), upper=(1.0, 1.0)):
    """Two quotas called p and q, from lists of pairs (or of pairs and weights)."""
    pairs = np.concatenate([np.array([p for p, _ in row], dtype=int) for row in rows])
    data = np.concatenate([np.array([w for _, w in row], dtype=float) for row in rows])
    weights = csr_array((data, pairs, np.cumsum([0, *map(len, rows)])), shape=(2, 3))
    return Problem.from_members(mdp(), ["p", "q"], weights, lower, upper, over_states)


ONE = [(0, 1), (1, 1)]


@pytest.mark.parametrize(
    "rows, over_states, words",
    [
        ([ONE, [(3, 1)]], (False, False), "quota q counts pair 3, which does not exist"),
        ([ONE, [(-1, 1)]], (False, False), "quota q counts pair -1, which does not exist"),
        ([ONE, []], (False, False), "quota q counts nothing; 1 quotas are empty"),
        ([ONE, [(2, 1), (1, 1)]], (False, False), "quota q: its pairs are not sorted, or not distinct"),
        ([ONE, [(2, 1), (2, 1)]], (False, False), "quota q: its pairs are not sorted, or not distinct"),
        ([ONE, [(1, 1), (2, 0)]], (False, False), "quota q has weight 0.0, expected others than 0"),
        ([ONE, [(1, 1), (2, np.inf)]], (False, False), "quota q has weight inf, expected others than 0"),
        ([ONE, [(1, 1), (2, 1)]], (True, True), "quota q is over states but counts only some actions of one"),
        ([ONE, [(0, 1), (1, 2)]], (True, True), "quota q is over states but weighs actions of one apart"),
        ([ONE, [(2, 1)]], (True,), r"weights has shape \(2, 3\) and over_states \(1,\), expected \(2, 3\) and \(2,\)"),
    ],
)  # fmt: skip
def test_bad_arrays_of_quotas_are_named(rows, over_states, words):
    with pytest.raises(ProblemError, match=f"^{words}$"):
        from_members(rows, over_states)


def test_arrays_of_quotas_are_the_quotas():
    stated = Problem(
        mdp(), [Quota("p", states=[0], at_least=0.1), Quota("q", weights=[2.0, 1.0, 2.0], at_least=1.5)]
    )
    rows = [ONE, [(0, 2), (1, 1), (2, 2)]]
    made = from_members(rows, (True, False), lower=(0.1, 1.5), upper=(1.0, 2.0))
    assert made.digest == stated.digest
    apart = from_members([ONE, [(0, 2), (1, 2), (2, 1)]], (True, True), lower=(0.0, 1.5), upper=(1.0, 2.0))
    assert apart.quotas[1].weights.tolist() == [2.0, 1.0]


@pytest.mark.parametrize(
    "quotas, words",
    [
        (
            [{}, {"name": "p", "states": ["day"], "at_most": 1.5}],
            "quota p has at_most 1.5, expected a share between 0 and 1\n  1 of 2 quotas is out of range\n  write 25 % as 0.25",
        ),
        (
            [{}, {"name": "p", "states": ["day"], "at_least": 0.5, "at_most": 0.4}],
            "quota p asks for at_least 0.5 and at_most 0.4\n  1 of 2 quotas is impossible, whatever the model\n  swap the two, or drop one",
        ),
        (
            [{"name": "d", "states": ["day"]}, {}, {"name": "p", "at_least": 0.1}],
            "quotas q and p bound one set on one side twice\n  both hold 1 pairs\n  keep the stricter one",
        ),
        (
            [{"at_most": 0.9, "at_least": None}, {"name": "p", "at_most": 0.8, "at_least": None}],
            "quotas q and p bound one set on one side twice\n  both hold 1 pairs\n  keep the stricter one",
        ),
        ([{"at_most": "1"}], "quota q: at_most is '1', expected a number"),
        ([{"at_least": True}], "quota q: at_least is True, expected a number"),
        (
            [{"states": None, "pairs": []}],
            "quota q: there are no pairs in it\n  name at least one, or drop the quota",
        ),
        ([{"states": np.zeros(2, bool)}], "quota q: there are no states in it\n  name at least one, or drop the quota"),
        ([{"states": None, "pairs": 1}], "quota q: pairs is 1, expected a list"),
        ([{"states": None, "pairs": np.array([0, 3])}], "quota q: there is no pair 3, expected 0 to 2"),
        ([{"states": np.array([0, -1])}], "quota q: there is no state -1, expected 0 to 1"),
        (
            [{"states": None, "weights": [1.0, 2.0], "at_least": 2.5}],
            "quota q has at_least 2.5, and no policy has more than 2\n  its weights go from 1 to 2\n"
            "  a mean lies between the smallest and the largest",
        ),
    ],
)  # fmt: skip
def test_messages_name_the_offender_and_what_to_do(quotas, words):
    with pytest.raises(ProblemError, match=f"^{re.escape(words)}$"):
        Problem(mdp(), [quota(**changes) for changes in quotas])
    with pytest.raises(ProblemError, match="^quotas holds a str, expected fairmdp.Quota\n  write Quota"):
        Problem(mdp(), ["night"])
    with pytest.raises(ProblemError, match="^mdp is a list, expected a fairmdp.MDP$"):
        Problem([])


def test_shares_may_sum_to_one_and_ends_may_be_asked_for():
    Problem(mdp(), [quota(at_least=0.4), quota(name="p", states=["day"], at_least=0.6)])
    Problem(mdp(), [quota(at_least=0.0, at_most=1.0)])
    assert Problem(mdp(), [quota(at_least=0.4, at_most=0.4)]).at_most.tolist() == [0.4]


def test_pairs_in_any_order_count_once():
    orders = ([2, 0, 2], np.array([2, 0, 2]), np.array([2, 0], np.uint8), [("night", "rest"), ("day", 0)])
    for pairs in orders:
        problem = Problem(mdp(), [Quota("q", pairs=pairs, at_least=0.1)])
        assert problem.members.indices.tolist() == [0, 2]


def test_nothing_of_a_problem_can_be_written():
    problem = Problem(mdp(), [quota(at_least=0.4), Quota("w", weights=[1.0, 2.0], at_most=1.5)])
    for part in (problem, problem.with_bounds(np.array([0.3, 0.1]), np.array([0.9, 1.0]))):
        for again in (part, copy.deepcopy(part), pickle.loads(pickle.dumps(part))):
            arrays = [
                getattr(again, name) for name in ("at_least", "at_most", "lower", "upper", "over_states")
            ]
            sparse = (again.members, again.weights, again.mdp.P)
            arrays += [a for rows in sparse for a in (rows.data, rows.indices, rows.indptr)]
            arrays += [again.weighted, again.units.offset, again.mdp.r, again.mdp.s_of, again.mdp.pair_ptr]
            assert not any(array.flags.writeable for array in arrays)


def test_what_was_handed_over_stays_writable():
    weights, mask = np.array([1.0, 2.0]), np.array([True, False])
    stated = [Quota("w", weights=weights, at_most=1.5), Quota("m", states=mask, at_least=0.1)]
    problem = Problem(mdp(), stated)
    assert not stated[0].weights.flags.writeable and not stated[1].states.flags.writeable
    weights[0], mask[0] = 7.0, False
    assert problem.quotas[0].weights.tolist() == [1.0, 2.0] and problem.quotas[1].states.tolist() == [0]


def test_a_set_is_held_once():
    problem = Problem(mdp(), [quota(at_least=0.4)])
    assert problem.members is problem.weights and problem.at_least is problem.lower


def test_shares_asked_of_weights_hold_to_the_last_bit():
    base = Problem(mdp(), [Quota("w", weights=[1.0, 2.0], at_least=1.5)])
    tiny = base.with_bounds([1e-300])  # no number that could be stated
    assert tiny.at_least.tolist() == [1e-300] and tiny.lower.tolist() == [1.0]
    assert tiny.with_mdp(mdp(r=[0.0, 0.0, 1.0])).at_least.tolist() == [1e-300]


def test_a_problem_is_built_without_numba():
    code = (
        "import sys, fairmdp as fm; mdp = fm.MDP([[1.0]], [0.0], [0]); "
        "problem = fm.Problem(mdp, rho=[0.5]); mdp.simulator(); print('numba' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "False\n"


@pytest.mark.parametrize("seed", range(30))
def test_bounds_read_together_are_those_read_one_by_one(seed):
    rng = np.random.default_rng(seed)
    mean, both = (
        Quota("mean", weights=[1.0, -2.0, 0.5], at_least=-1.0),
        Quota("both", pairs=[1, 2], at_most=0.9),
    )
    base = Problem(mdp(), [quota(at_most=0.9), mean, both])
    texts = []
    for name in rng.choice(["q", "both", "mean", "day", "day/rest", "day/work"], 8):
        texts.append(
            f"{name}>={rng.choice([0, 0.1, 0.2])}" if rng.integers(2) else f"{name}<={rng.choice([0.6, 1])}"
        )
    rho = [Quota("day", states=[0], at_least=0.2)] * int(rng.integers(2))
    try:
        one_by_one = base.with_quotas(rho)
        for text in texts:
            one_by_one = one_by_one.with_quotas([parse_quota(one_by_one, text)])
    except ProblemError:  # perhaps for a bound that a later one replaces
        pytest.skip("the bounds contradict each other")
    together = base.with_quotas(parse_quotas(base, texts, rho))
    assert together.digest == one_by_one.digest and together.names == one_by_one.names


def test_a_quota_that_is_replaced_keeps_its_place():
    base = Problem(mdp(), [Quota("day", states=[0], at_least=0), Quota("rest", pairs=[2], at_least=0)])
    changed = base.with_quotas([Quota("new", pairs=[1], at_least=0), Quota("day", states=[0], at_least=0.2)])
    assert changed.names == ("day", "rest", "new") and changed.at_least.tolist() == [0.2, 0, 0]
    with pytest.raises(ProblemError, match="^two quotas are called 'day'"):
        base.with_quotas([Quota("day", states=[0], at_least=0.1)] * 2)


def test_bounds_read_together_build_one_problem(monkeypatch):
    built = []
    build = Problem.__init__
    monkeypatch.setattr(Problem, "__init__", lambda *args, **rest: built.append(build(*args, **rest)))
    texts = ("s0<=0.9", "s1<=0.8", "s0/a1>=0.1")
    Source("three-state", rho="0.1,0.1,0.1", quotas=texts).problem()
    assert len(built) == 2  # as the scenario has it, and with all bounds


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"names": ["a"]}, "quotas has 1 name, expected 2"),
        ({"lower": [0.1]}, "at_least has shape (1,), expected (2,)"),
        ({"upper": [1.0]}, "at_most has shape (1,), expected (2,)"),
    ],
)
def test_rows_that_do_not_fit_are_refused(changes, words):
    rows = {"names": ["a", "b"], "weights": csr_array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])}
    rows |= {"lower": [0.1, 0.1], "upper": [1.0, 1.0], "over_states": [True, True]}
    assert Problem.from_members(mdp(), **rows).n_quotas == 2
    with pytest.raises(ProblemError, match=f"^{re.escape(words)}"):
        Problem.from_members(mdp(), **(rows | changes))


def test_another_model_has_the_same_states_and_actions():
    with pytest.raises(ProblemError, match="^the other model has other states or actions$"):
        Problem(mdp()).with_mdp(MDP(np.ones((1, 1)), [0.0], [0]))


def test_the_reset_action_goes_where_it_is_told():
    """Pairs move up by the resets of the states before them."""
    problem = Problem(mdp(), [Quota("rest", pairs=[2], at_least=0.1)]).with_fair_action([0.25, 0.75], -7.0)
    resets = np.flatnonzero(problem.mdp.r == -7.0)
    assert problem.mdp.P.toarray()[resets].tolist() == [[0.25, 0.75]] * 2
    (pair,) = problem.members.indices
    assert problem.mdp.pair_text(int(pair)) == mdp().pair_text(2) and problem.mdp.s_of[pair] == 1
