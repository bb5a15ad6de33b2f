"""Models from rules: the same as written out by hand, on any hashable states, and mistakes named by state and action."""

import pickle
from collections import namedtuple
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import comb, exp, factorial

import numpy as np
import pytest
from models import jobs

import fairmdp as fm
from fairmdp import MDP, Problem, ProblemError, Quota

Cab = namedtuple("Cab", "taxi queue")


@dataclass(frozen=True)
class Place:
    town: str
    full: bool = False


def queue(waiting, action):
    left = waiting - 1 if action == "serve" and waiting else waiting
    return [(0.25, min(left + 1, 3), waiting - left), (0.75, left, waiting - left)]


def cab(state, action):
    moved = state._replace(taxi=action)
    fewer = moved._replace(queue=max(state.queue - 1, 0))
    return [(0.5, fewer, 2.0), (0.5, moved._replace(queue=min(moved.queue + 1, 2)), 1.0)]


def cabs():
    return MDP.from_rules(Cab("north", 0), ["north", "south"], cab)


def test_the_queue_is_the_one_written_out_by_hand():
    mdp = MDP.from_rules(0, ["serve", "wait"], queue)
    waiting = np.repeat(np.arange(4), 2)
    left = np.maximum(waiting - np.tile([1, 0], 4), 0)
    P = np.zeros((8, 4))
    np.add.at(P, (np.arange(8), np.minimum(left + 1, 3)), 0.25)
    np.add.at(P, (np.arange(8), left), 0.75)
    assert np.array_equal(mdp.P.toarray(), P) and np.array_equal(mdp.r, waiting - left)
    assert mdp.s_of.tolist() == waiting.tolist() and mdp.actions == ("serve", "wait") * 4
    assert mdp.states is None and mdp.initial.tolist() == [1, 0, 0, 0]


def test_job_scheduling_as_rules_is_the_scenario():
    """The paper's world in ten lines, against the one that tests build by loops over arrays."""
    room, servers, arrivals, withdraw, pay = (2, 2), 2, (0.4, 0.7), 0.1, (1.0, 0.5)

    def after_service(left, arrival):
        chances = [0.0] * 3
        for stay, new in product(range(left + 1), range(30)):
            p = comb(left, stay) * (1 - withdraw) ** stay * withdraw ** (left - stay)
            chances[min(2, stay + new)] += p * exp(-arrival) * arrival**new / factorial(new)
        return chances

    def actions(state):
        return [m for m in product(*(range(n + 1) for n in state)) if sum(m) <= servers]

    def step(state, served):
        each = [after_service(n - m, arrival) for n, m, arrival in zip(state, served, arrivals, strict=True)]
        after = {target: each[0][target[0]] * each[1][target[1]] for target in product(range(3), range(3))}
        return after, sum(np.multiply(pay, served)) / servers

    mdp = MDP.from_rules((0, 0), actions, step)
    mine = Problem(mdp, [Quota("client0", where=lambda s: s[0] <= 1, at_least=0.7)])
    theirs = jobs(room, servers, arrivals, withdraw, pay, [(0, 1, 0.7)])
    assert (mdp.n_states, mdp.n_pairs) == (theirs.mdp.n_states, theirs.mdp.n_pairs)
    assert fm.solve(mine).gain == pytest.approx(fm.solve(theirs).gain, abs=1e-9)
    assert mdp.states[0] == "0,0" and mdp.action_name(0) == "0,0"


def test_states_may_be_named_tuples_and_quotas_ask_them():
    mdp = cabs()
    assert mdp.states[0] == "taxi=north & queue=0" and mdp.state_objects[0] == Cab("north", 0)
    by_rule = Problem(mdp, [Quota("north", where=lambda s: s.taxi == "north", at_least=0.2)])
    by_hand = [s for s, state in enumerate(mdp.state_objects) if state.taxi == "north"]
    assert by_rule.digest == Problem(mdp, [Quota("north", states=by_hand, at_least=0.2)]).digest
    by_object = Quota("full", states=[Cab("north", 2), Cab("south", 2)], at_most=0.5)
    by_name = Quota("full", states=["taxi=north & queue=2", "taxi=south & queue=2"], at_most=0.5)
    assert Problem(mdp, [by_object]).digest == Problem(mdp, [by_name]).digest
    assert mdp.pair_index(Cab("south", 1), "north") == mdp.pair_index("taxi=south & queue=1", "north")
    assert mdp.variables["queue"].tolist() == [state.queue for state in mdp.state_objects]


def test_states_may_be_frozen_dataclasses_and_actions_anything():
    def step(place, move):
        return {Place(move[0], full=True): Fraction(1, 3), Place(move[0]): Fraction(2, 3)}, place.full

    mdp = MDP.from_rules(Place("a"), [("a", 1), ("b", 2)], step)
    assert set(mdp.states) == {f"town={t} & full={f}" for t in "ab" for f in ("true", "false")}
    assert mdp.actions[:2] == ("a,1", "b,2") and mdp.pair_index(Place("b"), ("b", 2)) % 2 == 1
    assert mdp.P.toarray().max() == 2 / 3


def test_a_start_may_be_one_state_several_or_a_distribution():
    def stay(state, action):
        return {state: 1.0}, 0.0

    for start, initial in (("a", [1]), (["a", "b", "a"], [0.5, 0.5]), ({"a": 0.25, "b": 0.75}, [0.25, 0.75])):
        assert MDP.from_rules(start, ["stay"], stay).initial.tolist() == initial
    with pytest.raises(ProblemError, match="initial sums to 0.5"):
        MDP.from_rules({"a": 0.5}, ["stay"], stay)


def test_rewards_with_names_are_kept():
    def step(n, action):
        return [(0.5, (n + 1) % 3, {"reward": 1, "energy": n}), (0.5, n, {"reward": 3, "energy": n})]

    mdp = MDP.from_rules(0, ["go"], step)
    assert mdp.r.tolist() == [2, 2, 2] and mdp.rewards["energy"].tolist() == [0, 1, 2]
    assert MDP.from_rules(0, ["go"], step, reward="energy").r.tolist() == [0, 1, 2]
    with pytest.raises(ProblemError, match="no reward called 'gain' among reward, energy\n.*reward="):
        MDP.from_rules(0, ["go"], step, reward="gain")


def test_whole_numbers_are_states_in_their_order():
    def down(n, action):
        return {(n - 10) or 50: 1.0}, 0.0

    mdp = MDP.from_rules(50, ["down"], down)
    assert mdp.states == ("10", "20", "30", "40", "50") and mdp.initial.tolist() == [0, 0, 0, 0, 1]
    assert mdp.state_index("30") == 2
    with pytest.raises(ProblemError, match="is 3 the state called '3', or the one of number 3.*\n.*\n.*'3'"):
        mdp.state_index(3)


def test_progress_is_reported(monkeypatch):
    monkeypatch.setattr(fm.model.rules, "SHOW_EVERY", -1)
    rows = []
    MDP.from_rules(0, ["on"], lambda n, a: ({(n + 1) % 2000: 1.0}, 0.0), progress=rows.append)
    assert [row["explored"] for row in rows] == [1, 513, 1025, 1537]
    assert all(row["states"] >= row["explored"] for row in rows)


def test_a_copy_for_another_process_keeps_names_alone():
    problem = Problem(cabs(), [Quota("north", where=lambda s: s.taxi == "north", at_least=0.2)])
    there = pickle.loads(pickle.dumps(problem))
    assert there.digest == problem.digest and there.mdp.state_objects is None
    assert there.mdp.variables["queue"].tolist() == problem.mdp.variables["queue"].tolist()


def go(result):
    return lambda state, action: result


@pytest.mark.parametrize(("changes", "message"), [
    ({"step": go(({"a": 0.5, "b": 0.4}, 0.0))}, "state 'a', action 'go': the probabilities sum to 0.9, expected 1"),
    ({"step": go(({"a": 1.5, "b": -0.5}, 0.0))}, "state 'a', action 'go' leads to 'b' with probability -0.5"),
    ({"step": go(({"a": "half"}, 0.0))}, "leads to 'a' with probability 'half', expected a number"),
    ({"step": go(({"a": float("nan")}, 0.0))}, "leads to 'a' with probability nan"),
    ({"step": go(({}, 0.0))}, "state 'a', action 'go' leads nowhere"),
    ({"step": go([])}, "state 'a', action 'go' leads nowhere"),
    ({"step": go(None)}, r"cannot be read: step returned None\n  return \({next: probability"),
    ({"step": go({"a": 1.0})}, "has no reward: step returned {'a': 1.0} alone"),
    ({"step": go(("a", 1.0))}, r"cannot be read: step returned \('a', 1.0\)"),
    ({"step": go((1.0, "a", 0.0))}, "cannot be read"),
    ({"step": go([(1.0, "a")])}, "cannot be read"),
    ({"step": go(({"a": 1.0}, None))}, "has the reward None, expected a number"),
    ({"step": go(({"a": 1.0}, {"x": 1}))}, "no reward called 'reward' among x"),
    ({"step": go([(0.5, "a", "x"), (0.5, "a", 1.0)])}, r"has the rewards \('x', 1.0\), expected numbers"),
    ({"step": go([(1.0, ["a"], 0.0)])}, r"action 'go' gives the state \['a'\], which cannot be kept in a dictionary: unhashable type: 'list'"),
    ({"step": lambda state: None}, r"step\('a', 'go'\) raised TypeError"),
    ({"step": lambda state, action: 1 / 0}, "raised ZeroDivisionError: division by zero"),
    ({"step": "a"}, "step is 'a', expected a function"),
    ({"step": lambda s, a: ({s + "a": 1.0}, 0.0), "limit": 3}, "more than 3 states\n.*action 'go' led to 'aaaa'; 1 states are yet"),
    ({"step": lambda s, a: ({"b": 1.0}, float("inf"))}, r"r\[0\] is inf.*\n.*pair 0 is state a, action go"),
    ({"step": lambda s, a: ({"b": 1.0}, 1.0 if s == "a" else {"x": 1.0})}, "'b', action 'go' has the reward {'x': 1.0}, expected a number"),
    ({"limit": 0}, "limit is 0, expected a whole number"),
    ({"start": []}, "start is empty"),
    ({"start": [["a"]]}, r"start is \[\['a'\]\], which cannot be a state"),
    ({"actions": "go"}, "actions is 'go', expected a function of a state, or a list"),
    ({"actions": []}, "state 'a' has no action"),
    ({"actions": lambda state: None}, r"actions\('a'\) returned None, expected a list"),
    ({"actions": lambda state: "go"}, r"actions\('a'\) returned 'go', expected a list"),
    ({"actions": ["go", "go"]}, "state 'a' has two actions called 'go'"),
    ({"actions": [["go"]], }, r"has the action \['go'\], which is not hashable"),
    ({"step": lambda s, a: ({1: 0.5, "1": 0.5}, 0.0)}, r"two states are called '1'\n  they are state 1, 1, and state 2, '1'"),
])  # fmt: skip
def test_mistakes_are_named(changes, message):
    good = {"start": "a", "actions": ["go"], "step": go(({"a": 1.0}, 0.0))}
    with pytest.raises(ProblemError, match=message):
        MDP.from_rules(**(good | changes))


@pytest.mark.parametrize(("where", "message"), [
    (lambda s: s.cab == "north", "quota q: where raised AttributeError for state taxi=north & queue=0"),
    (lambda s: None, "quota q: where said None of state taxi=north & queue=0, expected True or False"),
    (lambda s: False, "quota q: where holds for no state"),
    ("north", "quota q: where is 'north', expected a function"),
])  # fmt: skip
def test_mistakes_in_predicates_are_named(where, message):
    with pytest.raises(ProblemError, match=message):
        Problem(cabs(), [Quota("q", where=where, at_least=0.1)])


def test_an_unknown_object_is_named():
    with pytest.raises(
        ProblemError, match=r"no state Cab\(taxi='nort', queue=0\); did you mean 'taxi=north & queue=0'\?"
    ):
        Problem(cabs(), [Quota("q", states=[Cab("nort", 0)], at_least=0.1)])
    with pytest.raises(ProblemError, match="not hashable"):
        Problem(cabs(), [Quota("q", states=[["north", 0]], at_least=0.1)])


# Rules on arrays: the same model as from rules on single states.

SHAPE = (4, 3, 2)


def lane(state, action):
    """One lane of each variable, with an action that is not always there."""
    i, j, k = state
    forward = ((i + 1) % 4, j, k)
    if action == "turn":
        return [(0.25, forward, 1.0 + i), (0.75, (i, (j + 1) % 3, 1 - k), 2.0)]
    return [(0.5, forward, float(k)), (0.5, (i, 0, k), float(k))]


def lanes(states, action):
    i, j, k = states.T
    forward = np.stack([(i + 1) % 4, j, k], axis=1)
    if action == "turn":
        aside = np.stack([i, (j + 1) % 3, 1 - k], axis=1)
        return (
            [0.25, 0.75],
            np.stack([forward, aside], axis=1),
            np.stack([1.0 + i, np.full(i.size, 2.0)], axis=1),
        )
    return 0.5, np.stack([forward, np.stack([i, 0 * j, k], axis=1)], axis=1), k.astype(float)


def test_rules_on_arrays_make_the_same_model(monkeypatch):
    monkeypatch.setattr(fm.model.array_rules, "_PORTION", 5)
    one = MDP.from_rules((1, 0, 0), lambda s: ["turn", "go"] if s[0] else ["go"], lane)
    available = lambda states: np.stack([states[:, 0] > 0, np.ones(len(states), bool)], axis=1)  # noqa: E731
    many = MDP.from_array_rules([1, 0, 0], ["turn", "go"], lanes, shape=SHAPE, available=available)
    assert many.n_states == one.n_states > 10 and many.states[0] == "0,0,0"
    order = [one.state_index(tuple(row)) for row in many.state_objects.tolist()]
    pairs = np.concatenate([np.arange(one.pair_ptr[s], one.pair_ptr[s + 1]) for s in order])
    assert np.array_equal(many.P.toarray(), one.P.toarray()[np.ix_(pairs, order)])
    assert np.array_equal(many.r, one.r[pairs]) and np.array_equal(many.initial, one.initial[order])
    assert many.actions == tuple(one.actions[i] for i in pairs)
    assert many.state_index((1, 0, 0)) == order.index(0)


def test_a_predicate_on_rows_is_asked_once():
    mdp = MDP.from_array_rules([1, 0, 0], ["turn", "go"], lanes, shape=SHAPE)
    problem = Problem(mdp, [Quota("k", where=lambda rows: rows[:, 2] == 1, at_least=0.1)])
    assert problem.quotas[0].states.tolist() == [s for s, row in enumerate(mdp.state_objects) if row[2]]
    with pytest.raises(ProblemError, match=r"where returned int64 of shape \(24,\), expected a mask"):
        Problem(mdp, [Quota("k", where=lambda rows: rows[:, 2], at_least=0.1)])
    assert mdp.variables["x2"].tolist() == mdp.state_objects[:, 2].tolist()


def answer(p=0.5, following=None, reward=0.0):
    return lambda states, action: (
        p, np.stack([states, states], axis=1) if following is None else following(states), reward
    )  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), [
    ({"start": [0]}, "start is .*expected a row of 3 whole numbers"),
    ({"start": [0, 0, 2]}, r"the start, row 0, leads to \(0, 0, 2\), outside of shape \(4, 3, 2\)"),
    ({"start": [0.0, 0, 0]}, "expected a row of 3 whole numbers"),
    ({"shape": (4, 3, 0)}, "a size in shape is 0"),
    ({"shape": (2**20, 2**20, 2)}, "the box of shape .* has 2.2e.12 places"),
    ({"actions": []}, "actions is empty"),
    ({"step": answer([0.5, 0.4])}, r"state \(0, 0, 0\), action 'turn': the probabilities \[0.5, 0.4\] sum to 0.9"),
    ({"step": answer([1.5, -0.5])}, "expected numbers from 0 to 1"),
    ({"step": answer([0.2, 0.3, 0.5])}, r"returned probability as float64 of shape \(3,\), expected numbers of shape \(1, 2\)"),
    ({"step": answer(reward="x")}, "returned reward as <U1 of shape"),
    ({"step": answer(following=lambda s: s)}, r"returned next as int64 of shape \(1, 3\), expected whole numbers of shape \(1, outcomes, 3\)"),
    ({"step": answer(following=lambda s: np.stack([s, s + 5], axis=1))}, r"state \(0, 0, 0\), action 'turn', leads to \(5, 5, 5\), outside of shape"),
    ({"step": lambda states, action: None}, "returned NoneType, expected .probability, next, reward"),
    ({"step": lambda states, action: 1 / 0}, "for 1 states and action 'turn', raised ZeroDivisionError"),
    ({"available": lambda states: np.zeros((len(states), 2), bool)}, r"state \(0, 0, 0\) has no action"),
    ({"available": lambda states: np.ones(2)}, "available returned float64 of shape"),
])  # fmt: skip
def test_mistakes_in_rules_on_arrays_are_named(changes, message):
    good = {"start": [0, 0, 0], "actions": ["turn", "go"], "step": lanes, "shape": SHAPE}
    with pytest.raises(ProblemError, match=message):
        MDP.from_array_rules(**(good | changes))


def test_what_has_no_probability_may_lead_anywhere():
    mdp = MDP.from_array_rules(
        [0], ["on"], lambda s, a: ([1.0, 0.0], np.stack([1 - s, s + 9], axis=1), 0.0), shape=[2]
    )
    assert np.array_equal(mdp.P.toarray(), [[0, 1], [1, 0]])
    assert MDP.from_rules("a", ["on"], lambda s, a: ({"a": 1.0, "never": 0.0}, 0.0)).n_states == 1
