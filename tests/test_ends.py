"""Answers about runs from the start: worked out by hand, by brute force, and tampered with."""

import json
import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from endings import (
    bounds,
    components,
    deterministic,
    endings,
    falling_apart,
    is_fair,
    mean_gain,
    moves_of,
    random_policy,
)
from islands import BEST, CASES, DOOR, TOL, islands, rested
from scipy.sparse import csr_array

from fairmdp import MDP, FormatError, Problem, Quota, Solution, Status, solve, verify
from fairmdp.certificate import exact_ends, rounded_ends
from fairmdp.certificate.claim_ends import certify_ends
from fairmdp.certificate.law import IN_THE_MEAN
from fairmdp.certificate.restated import restated
from fairmdp.solution.ends import End, Ends

WAYS = pytest.mark.parametrize("way", [rounded_ends, exact_ends], ids=["floats", "rationals"])
BOTH = pytest.mark.parametrize("exact", [False, True], ids=["floats", "rationals"])
SOLVED = {name: case() for name, case in CASES.items()}


def bumped(array, index, by):
    array = array.copy()
    array[index] += by
    return array


def with_ends(solution, **change):
    return replace(solution, ends=replace(solution.ends, **change))


# --- worked out by hand -----------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("name", CASES)
def test_answers_by_hand_are_confirmed(name, exact):
    problem, solution = SOLVED[name]
    verdict = verify(problem, solution, exact=exact)
    assert verdict.ok, verdict.messages
    assert verdict.status is solution.status is (Status.INFEASIBLE if name == "hopeless" else Status.OPTIMAL)
    if BEST[name] is not None:
        best = float(BEST[name])
        assert solution.gain == pytest.approx(best, abs=1e-12)
        assert best - 1e-15 <= verdict.upper <= best + 1e-12
        assert verdict.gain[0] <= solution.gain + 1e-15 and verdict.gain[1] - verdict.gain[0] < 1e-12


def test_classes_are_told_with_what_they_earn():
    _, solution = SOLVED["rested"]
    left, right = solution.ends.classes
    assert (left.states.tolist(), right.states.tolist(), solution.ends.n_classes) == ([1, 2], [3, 4], 2)
    assert (left.probability, right.probability) == (0.5, 0.5)
    assert [left.gain, right.gain, *left.shares, *right.shares] == pytest.approx([0.4, 0.8, 0.3, 0.3])
    assert solution.prices == pytest.approx([3.0])  # half of 2 and half of 4
    assert solution.visitation == pytest.approx([0, 0.35, 0.15, 0.35, 0.15, 0])


def test_a_policy_is_drawn():
    problem, solution = SOLVED["drawn"]
    assert np.isnan(solution.policy).all() and solution.shares == pytest.approx([0.5])
    assert [end.policy for end in solution.ends.classes] == [0, 1]
    every_run = Problem(problem.mdp, [Quota("out", states=["out"], at_least=0.5)])
    law = rounded_ends.law(every_run, solution.ends.policies, solution.ends.weights)
    assert law.shares.tolist() == [[0.0, 0.0]] and law.worst.tolist() == [0]
    unequal = rounded_ends.law(problem, solution.ends.policies, np.array([0.25, 0.75]))
    assert unequal.shares[0] == pytest.approx([0.75, 0.75]) and unequal.gain == pytest.approx((0.25, 0.25))


@BOTH
def test_without_a_start_quotas_hold_from_every_state(exact):
    """Two states that are never left; the ceiling is that of a start in either with the same probability."""
    mdp = MDP(np.eye(2), [1.0, 3.0], [0, 1])
    ends = Ends(np.array([0, 1]), np.array([1.0, 3.0]), np.zeros(2), csr_array((1, 2)))
    for quota, status in ((0.5, Status.UNDECIDED), (0.0, Status.OPTIMAL)):
        problem = Problem(mdp, [Quota("first", states=[0], at_least=quota)])
        solution = certify_ends(problem, np.ones(2), None, np.zeros(2), np.zeros(1), ends, **TOL)
        assert solution.status is status and solution.gain == 2.0 and solution.upper == pytest.approx(2.0)
        assert verify(problem, solution, exact=exact).ok
    expected = Problem(mdp, [Quota("first", states=[0], at_least=0.5, expected=True)])
    solution = certify_ends(expected, np.ones(2), None, np.zeros(2), np.zeros(1), ends, **TOL)
    assert solution.status is Status.OPTIMAL and solution.shares == pytest.approx([0.5])


@WAYS
def test_every_class_counts_however_unlikely(way):
    """The door is left ajar by a subnormal probability: sooner or later every run is out."""
    problem = Problem(DOOR, [Quota("in", states=["in"], at_least=0.5)])
    assert way.law(problem, np.array([1.0, 5e-324, 1])).states[0].tolist() == [1]
    coin = MDP([[1e-300, 1.0], [1, 0], [0, 1]], [0.0, 0, 0], [0, 0, 1], initial="1")
    seen = way.law(Problem(coin, [Quota("0", states=[0], at_most=0.0)]), np.array([0.0, 1.0, 1.0]))
    assert seen.shares.tolist() == [[0.0, 0.0]]  # what cannot be reached does not count
    mdp = MDP([[0, 1e-320, 1], [0, 1, 0], [0, 0, 1]], [0.0, 1.0, 0.0], [0, 1, 2], initial="0")
    law = way.law(Problem(mdp, [Quota("1", states=[1], at_most=0.5)]), np.ones(3))
    assert [states.tolist() for states in law.states] == [[1], [2]] and law.shares[0].tolist() > [
        0.999,
        0.999,
    ]


@WAYS
def test_a_maze_before_a_fork_has_no_part_in_where_it_leads(way):
    """Thirty states that wander for very long before they reach the only way out."""
    n = 30
    P = np.zeros((n + 2, n + 2))
    for s in range(n):
        P[s, max(s - 1, 0)] += 0.75
        P[s, s + 1] += 0.25
    P[n - 1] = 0.0
    P[n - 1, [0, n, n + 1]] = 0.5, 0.125, 0.375
    P[n, n] = P[n + 1, n + 1] = 1.0
    mdp = MDP(P, np.arange(n + 2.0), np.arange(n + 2), initial="0")
    law = way.law(Problem(mdp), np.ones(n + 2))
    assert law.probabilities == pytest.approx(np.array([[0.25] * 2, [0.75] * 2]), abs=1e-12)
    assert np.diff(law.gain) < 1e-10 and law.gain[0] <= 0.25 * n + 0.75 * (n + 1) <= law.gain[1]


# --- by brute force ---------------------------------------------------------------------------------------------


def inside(ends, true, slip=Fraction(1, 2**52)):
    """Whether an interval has a number in it; the weights of quotas are scaled by rounded numbers."""
    return Fraction(float(ends[0])) - slip <= true <= Fraction(float(ends[1])) + slip


@WAYS
@pytest.mark.parametrize("seeds", [range(40 * k, 40 * k + 40) for k in range(3)], ids=str)
def test_intervals_contain_what_is_true(way, seeds):
    for seed in seeds:
        problem = falling_apart(seed, timed=seed % 3 == 0, expected=seed % 2 == 0)
        policy = random_policy(problem.mdp, seed)
        law, true = way.law(problem, policy), endings(problem, policy)
        assert law.flaw is None and [states.tolist() for states in law.states] == [end.states for end in true]
        assert inside(law.gain, mean_gain(true), 0)
        assert np.diff(law.gain) < 1e-9 * np.abs(problem.mdp.rates).max() and law.error < 1e-9
        for c, end in enumerate(true):
            assert inside(law.probabilities[c], end.chance, 0) and inside(law.gains[c], end.gain, 0)
            assert all(inside(law.share(k, c), share) for k, share in enumerate(end.shares))
            assert np.diff(law.gains[c]) < 1e-9 * np.abs(problem.mdp.rates).max()
        for k in range(problem.n_quotas):
            low, high = bounds(problem, k)
            mean = sum(end.chance * end.shares[k] for end in true)
            left = [min(end.shares[k] - low, high - end.shares[k]) for end in true]
            counts = int(law.worst[k])
            assert (counts == IN_THE_MEAN) == bool(problem.expected[k])
            if counts == IN_THE_MEAN:
                assert inside(law.shares[k], mean) and np.diff(law.shares[k]) < 1e-9
            else:
                assert inside(law.shares[k], true[counts].shares[k])
                assert left[counts] <= min(left) + Fraction(1, 10**10)
        x = sum(
            float(end.chance) * np.array([float(end.x.get(i, 0)) for i in range(problem.mdp.n_pairs)])
            for end in true
        )
        assert law.occupancy == pytest.approx(x, abs=1e-12)


@pytest.mark.parametrize("seeds", [range(30 * k, 30 * k + 30) for k in range(3)], ids=str)
def test_no_fair_policy_is_above_a_ceiling(seeds):
    """Whatever the witnesses are: by all deterministic policies, which are not all but prove no ceiling wrong."""
    finite = 0
    for seed in seeds:
        problem = falling_apart(seed, 5, timed=seed % 3 == 0, expected=seed % 2 == 0)
        fair = [ends for pi in deterministic(problem.mdp) if is_fair(problem, ends := endings(problem, pi))]
        best = max(map(mean_gain, fair), default=None)
        span = float(np.ptp(problem.mdp.rates)) + 1e-9
        for bias, prices, ends in random_witnesses(problem, span, seed):
            for way in (rounded_ends, exact_ends):
                upper = way.ceiling(problem, problem.mdp.r, bias, prices, ends)
                none = way.ceiling(problem, np.zeros(problem.mdp.n_pairs), bias, prices, ends)
                finite += np.isfinite(upper)
                assert best is None or (none >= 0 and (upper == np.inf or Fraction(upper) >= best))
    assert finite > 200


def random_witnesses(problem, span, seed):
    """Witnesses on the labels that there are, and on fewer."""
    rng, mdp = np.random.default_rng(seed), problem.mdp
    label = components(mdp)
    moves = moves_of(mdp, label)
    for trial in range(4):
        if trial == 3:
            label = np.where(label == label.max(), 0, label)
        C, K = int(label.max()) + 1, problem.n_quotas
        values = (rng.normal(size=C) * span * rng.choice([0, 1, 10]))[np.maximum(label, 0)]
        mu = rng.normal(size=(K, C)) * (rng.random((K, C)) < 0.5) * span
        mu[problem.expected] = 0.0
        yield (
            rng.normal(size=mdp.n_states) * span * rng.choice([0, 0.1, 1]),
            np.where(problem.expected, rng.normal(size=K) * span, 0.0),
            Ends(label, values, moves * rng.choice([1.0, 1e-3]), csr_array(mu)),
        )


# --- files, steps that take time --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_a_file_keeps_an_answer(name, tmp_path):
    problem, solution = SOLVED[name]
    solution.save(tmp_path / "a.json")
    read = Solution.load(tmp_path / "a.json")
    read.save(tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert (read.ends.component_prices != solution.ends.component_prices).nnz == 0
    assert verify(problem, read).ok and verify(problem, read, exact=True).ok


def test_prices_of_components_keep_their_place(tmp_path):
    """One quota's in the last component, the next one's in the first."""
    mdp = MDP([[0, 1, 0], [0, 0, 1], [0, 1, 0], [0, 0, 1]], [0, 0, 1, 2], [0, 0, 1, 2], initial=[1, 0, 0])
    quotas = [Quota("1", [1], at_least=0.3, expected=True), Quota("2", [2], at_least=0.2, expected=True)]
    solution = solve(Problem(mdp, quotas))
    shape = solution.ends.component_prices.shape
    prices = csr_array(([0.25, 0.5], ([0, 1], [shape[1] - 1, 0])), shape=shape)
    replace(solution, ends=replace(solution.ends, component_prices=prices)).save(tmp_path / "a.json")
    kept = Solution.load(tmp_path / "a.json").ends.component_prices
    assert kept.toarray().tolist() == prices.toarray().tolist()


def test_shares_of_an_end_are_one_for_each_quota(tmp_path):
    solution = next(found for _, found in SOLVED.values())
    solution.save(tmp_path / "a.json")
    raw = json.loads((tmp_path / "a.json").read_text())
    raw["ends"]["classes"][0]["shares"].append(0.5)
    (tmp_path / "a.json").write_text(json.dumps(raw))
    with pytest.raises(FormatError, match=r"ends.classes\[0\].shares: expected \d+ numbers"):
        Solution.load(tmp_path / "a.json")


def test_an_answer_for_equal_steps_is_restated():
    problem, solution = SOLVED["timed"]
    mdp = problem.mdp
    found = certify_ends(
        problem.uniform, mdp.per_step(solution.policy), None, solution.bias / mdp.step, np.zeros(1),
        solution.ends, **TOL,
    )  # fmt: skip
    assert found.status is Status.OPTIMAL and verify(problem.uniform, found).ok
    again = restated(problem, found)
    assert again.policy == pytest.approx(solution.policy) and again.gain == pytest.approx(0.15)
    assert (
        verify(problem, again).ok and again.status is Status.OPTIMAL and verify(problem, again, exact=True).ok
    )


# --- tampered with ----------------------------------------------------------------------------------------------


def told(solution, c, **change):
    """An answer that says something else of a class."""
    classes = list(solution.ends.classes)
    classes[c] = classes[c]._replace(**change)
    return with_ends(solution, classes=tuple(classes))


def rested_forgeries():
    _, said = SOLVED["rested"]
    ends = said.ends
    more = csr_array(np.array([[0.0, 2.1, 4.0]]))
    yield with_ends(said, values=bumped(ends.values, 0, 0.01)), "upper bound 0.6.* is not proved"
    yield (
        with_ends(said, values=bumped(ends.values, slice(3, 5), -1.0) * 1.1),
        "upper bound 0.6.* is not proved",
    )
    yield with_ends(said, moves=ends.moves * 0), "upper bound 0.6.* is not proved"
    yield with_ends(said, moves=ends.moves - 1.0), "upper bound 0.6.* is not proved"
    yield with_ends(said, component_prices=more), "upper bound 0.6.* is not proved"
    yield (
        with_ends(said, component_prices=more),
        "the price 3 of quota rest is not that of its components, 3.05",
    )
    yield with_ends(said, components=np.array([0, 1, 1, 2, -1, -1])), "upper bound 0.6.* is not proved"
    yield with_ends(said, components=np.array([0, 1, 2, 1, 2, -1])), "upper bound 0.6.* is not proved"
    yield with_ends(said, components=np.array([-1, 1, 1, 2, 2, -1])), "upper bound 0.6.* is not proved"
    yield with_ends(said, components=np.full(6, -1)), "components are not the numbers"
    yield with_ends(said, components=np.zeros(6)), "components are not the numbers"
    yield with_ends(said, values=ends.values[1:]), "values are not 6 numbers"
    yield with_ends(said, moves=ends.moves * np.nan), "moves are not 6 numbers"
    yield with_ends(said, component_prices=csr_array((1, 2))), "component_prices do not fit"
    yield with_ends(said, component_prices=more * np.inf), "component_prices do not fit"
    yield with_ends(said, n_classes=3), "2 closed classes, and it tells of 2 of 3"
    yield with_ends(said, classes=ends.classes[:1]), "2 closed classes, and it tells of 1 of 2"
    yield with_ends(said, classes=ends.classes[:1] * 2), "are not those of the policy"
    yield told(said, 0, states=np.array([1])), "are not those of the policy"
    yield told(said, 0, policy=1), "not told in numbers that fit"
    yield told(said, 0, shares=np.zeros(2)), "not told in numbers that fit"
    yield told(said, 0, gain=np.nan), "not told in numbers that fit"
    yield told(said, 1, probability=0.49), "of the class of state right is not so"
    yield told(said, 0, gain=0.41), "of the class of state left is not so"
    yield told(said, 0, shares=np.array([0.31])), "of the class of state left is not so"
    yield replace(said, prices=said.prices + 0.1), "price 3.1 of quota rest is not that of its components, 3"
    yield replace(said, shares=said.shares + 0.01), "share 0.31 of quota rest is not the policy's"
    yield replace(said, gain=said.gain + 1e-6), "gain 0.60.* is not the policy's"
    yield replace(said, upper=said.upper - 1e-6), "upper bound 0.59.* is not proved"
    yield replace(said, visitation=bumped(said.visitation, 1, 1e-6)), "are not the long-run shares of time"
    yield replace(said, occupancy=bumped(said.occupancy, 2, 1e-6)), "are not the long-run shares of time"
    yield replace(said, policy=bumped(bumped(said.policy, 0, 0.1), 1, -0.1)), "gain 0.6.* is not the policy's"
    yield replace(said, policy=bumped(said.policy, 0, 0.1)), "not a distribution at state shore"
    yield replace(said, policy=said.policy * np.nan), "policy holds numbers that are not finite"
    yield replace(said, ends=None), "status optimal is not proved"
    yield with_ends(said, weights=np.array([1.0])), "weights and policies go together"
    yield (
        with_ends(said, weights=np.array([1.0]), policies=said.policy[None]),
        "not those of several policies",
    )


def other_forgeries():
    _, said = SOLVED["drawn"]
    ends = said.ends
    yield "drawn", with_ends(said, weights=np.array([0.4, 0.6])), "gain 0.5 is not the policy's"
    yield "drawn", with_ends(said, weights=np.array([0.5, 0.6])), "no distribution: they sum to 1.1"
    yield "drawn", with_ends(said, weights=np.array([1.5, -0.5])), "are no distribution"
    yield "drawn", with_ends(said, policies=ends.policies[::-1]), "are not those of the policy"
    yield "drawn", with_ends(said, policies=ends.policies * 2), "not a distribution at state in"
    yield "drawn", with_ends(said, policies=ends.policies[:, 1:]), "not those of several policies"
    yield "drawn", with_ends(said, policies=ends.policies * np.nan), "not those of several policies"
    yield "drawn", with_ends(said, component_prices=csr_array([[0.0, 1.0]])), "or on a quota on the mean"
    yield "drawn", replace(said, policy=ends.policies[0]), "and yet there is one policy"
    yield "drawn", replace(said, prices=said.prices + 0.1), "upper bound 0.5.* is not proved"
    yield "drawn", replace(said, shares=np.array([0.0])), "share 0 of quota out is not the policy's"
    _, said = SOLVED["hopeless"]
    classes = (End(0, np.array([1]), 1.0, 0.0, np.zeros(1)),)
    yield (
        "hopeless",
        replace(said, prices=said.prices * 2),
        "price 20 of quota rest is not that of its components",
    )
    yield (
        "hopeless",
        with_ends(said, component_prices=said.ends.component_prices * 0.0),
        "status infeasible is not",
    )
    yield "hopeless", with_ends(said, values=said.ends.values + 2), "status infeasible is not proved"
    yield "hopeless", with_ends(said, classes=classes, n_classes=1), "there is none whose runs end somewhere"
    problem, said = SOLVED["condition"]
    (share,) = said.conditions
    for mass in (0.25, 0.5, 0.99):
        yield (
            "condition",
            replace(said, conditions=(share._replace(mass=mass),)),
            "condition of quota rest is not",
        )
    assert problem.conditions


@BOTH
def test_tampering_is_caught(exact):
    cases = [("rested", *forgery) for forgery in rested_forgeries()] + list(other_forgeries())
    for name, said, words in cases:
        verdict = verify(SOLVED[name][0], said, exact=exact)
        assert not verdict.ok and any(re.search(words, message) for message in verdict.messages), (
            words, verdict.messages,
        )  # fmt: skip


@BOTH
def test_labels_need_not_be_those_of_the_components(exact):
    """One label for all is the ceiling that holds for every start; here it is that of the better island."""
    problem, said = SOLVED["rested"]
    one = Ends(np.array([0, 0, 0, 0, 0, -1]), np.zeros(6), np.zeros(6), csr_array([[4.0]]))
    bias = np.array([-50.0, 0, 0, 0, 2, 0])
    again = certify_ends(problem, said.policy, None, bias, np.zeros(1), one, **TOL)
    assert again.status is Status.FEASIBLE and again.upper > 0.8 and again.prices == pytest.approx([4.0])
    verdict = verify(problem, again, exact=exact)
    assert verdict.ok and verdict.status is Status.FEASIBLE


@BOTH
def test_the_worst_class_may_be_any_that_is_as_bad(exact):
    """In one class the floor binds, in one the cap: the share of either may be told, and of no other."""
    P = np.zeros((5, 5))
    P[0, 1:4] = 0.25, 0.25, 0.5
    P[1:, 1:] = np.eye(4)
    problem = Problem(
        MDP(P, np.zeros(5), np.arange(5), initial="0"),
        [Quota("q", weights=[0, 0.25, 0.75, 0.5, 1], at_least=0.25, at_most=0.75)],
    )
    ends = Ends(np.array([0, 1, 2, 3, -1]), np.zeros(5), np.eye(1, 5)[0], csr_array((1, 4)))
    said = certify_ends(problem, np.ones(5), None, np.zeros(5), np.zeros(1), ends, **TOL)
    assert said.status is Status.OPTIMAL
    for share, ok in ((0.25, True), (0.75, True), (0.5, False), (0.25 + 1e-6, False), (0.0, False)):
        assert verify(problem, replace(said, shares=np.array([share])), exact=exact).ok is ok


def test_what_rests_on_the_shore_is_not_for_the_others():
    """A quota on what lies between the islands, and on a state that is never reached."""
    problem = islands(Quota("between", states=["shore", "wreck"], at_most=0.0))
    _, said = rested(0.3)
    law = rounded_ends.law(problem, said.policy)
    assert law.shares.tolist() == [[0.0, 0.0]]


@BOTH
def test_an_answer_without_quotas_is_checked(exact):
    ends = Ends(np.array([0, 1]), np.array([1.0, 0.0]), np.array([1.0, 0.0]), csr_array((0, 2)))
    said = certify_ends(Problem(DOOR), np.array([1.0, 0, 1]), None, np.zeros(2), np.zeros(0), ends, **TOL)
    verdict = verify(Problem(DOOR), said, exact=exact)
    assert verdict.ok and verdict.status is Status.OPTIMAL and verdict.shares.shape == (0, 2)


def test_of_what_states_with_one_label_say_the_largest_counts():
    """Whichever of them comes last; a label that no state has says nothing."""
    assert exact_ends._largest(np.array([2.0, 3.0, 1.0, -5.0]), [0, 0, 0, 2], 3) == [3, 0, -5]
