"""Models in which the start decides where runs end: public queries, brute force, and what a user sees."""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.brute_force import best_gain
from benchmarks.multichain import draw
from scipy.sparse import csr_array

from fairmdp import MDP, Problem, ProblemError, Quota, Status, parse_quotas, scenarios, solve, verify
from fairmdp.backends.flow_lp import FlowLP
from fairmdp.certificate import reward_scale
from fairmdp.chains.chain import Chain
from fairmdp.chains.components import components_of
from fairmdp.chains.policy import best_pairs, uniform_policy
from fairmdp.chains.side_by_side import side_by_side
from fairmdp.solution.solution import Note, Remark
from fairmdp.solvers import parts
from fairmdp.solvers.multichain_lp import Tuning, solve_multichain_lp
from fairmdp.solvers.quotient import Quotient


def model(text, start, **rewards):
    """A model from lines ``state action: probability next, ...``; rewards are by state or by state/action."""
    lines = [line.split(":") for line in text.strip().splitlines()]
    pairs = [head.split() for head, _ in lines]
    states = list(dict.fromkeys(state for state, _ in pairs))
    P = np.zeros((len(pairs), len(states)))
    for row, (_, ways) in zip(P, lines, strict=True):
        for way in ways.split(","):
            p, state = way.split()
            row[states.index(state)] += float(p)
    found = {
        name: [float(by.get(f"{s}/{a}", by.get(s, 0))) for s, a in pairs] for name, by in rewards.items()
    }
    first = next(iter(found.values()), [0.0] * len(pairs))
    return MDP(
        P, first, [states.index(s) for s, _ in pairs], states=states, actions=[a for _, a in pairs],
        initial=start, rewards=found,
    )  # fmt: skip


def proved(problem, **options):
    """The answer, once it is verified in floats and in rationals, from a file as well."""
    found = solve(problem, **options)
    for exact in (False, True):
        verdict = verify(problem, found, exact=exact)
        assert verdict.ok, verdict.messages
    return found


SIMPLE = model(
    """
    x=0 a: 0.5 x=0, 0.5 x=1
    x=0 a': 0.2 x=0, 0.8 x=3
    x=1 b: 1 x=1
    x=1 d: 1 x=2
    x=3 stay: 1 x=3
    x=2 c: 1 x=2
    x=2 d: 0.1 x=1, 0.9 x=2
    """,
    "x=0",
    first={"x=0": 1, "x=1": 5, "x=2/d": 5},
    second={"x=0": 1, "x=2/c": 16, "x=2/d": 8},
)
FALLS = model("s a: 0.5 l, 0.5 r\nl a: 1 l\nr a: 0.9 r, 0.1 f\nr b: 1 l\nf a: 1 r", "s", f={"f": 1})
CHAINS = """
    0 a: 1 1
    1 a: 1 0
    1 b: 1 2
    1 c: 0.7 4, 0.3 6
    2 a: 1 0
    3 a: 1 4
    3 b: 0.8 5, 0.2 9
    4 a: 1 3
    4 b: 1 5
    5 a: 1 3
    6 a: 1 7
    7 a: 1 6
    7 b: 1 8
    8 a: 1 6
    9 a: 1 10
    10 a: 1 9
    10 b: 1 11
    11 a: 1 9
    12 a: 0.4 5, 0.3 8, 0.3 11
    13 a: 0.7 7, 0.3 12
    14 a: 0.1 12, 0.9 13
    14 b: 1 12
    """
EARNING = dict.fromkeys(("1", "4", "5", "7", "11", "13", "14"), 1)
CORNERS = """
    0 right: 1 a
    0 down: 1 b
    0 left: 1 0
    0 up: 1 0
    a right: 1 a
    a down: 1 d
    a left: 1 0
    a up: 1 a
    b right: 1 d
    b down: 1 b
    b left: 1 b
    b up: 1 0
    d right: 1 d
    d down: 1 d
    d left: 1 b
    d up: 1 a
    """
FORK = """
    4 a: 1 0
    4 b: 1 4
    4 c: 1 5
    0 a: 1 1
    0 b: 1 2
    0 c: 1 0
    5 a: 1 5
    5 b: 1 6
    5 c: 1 4
    1 a: 1 0
    1 b: 1 3
    1 c: 1 1
    2 a: 1 3
    2 b: 1 2
    2 c: 1 0
    6 a: 1 6
    6 b: 1 4
    6 c: 1 5
    3 a: 1 2
    3 b: 1 1
    3 c: 1 3
    """


def ask(mdp, *quotas, earn=None, least=False):
    """A problem from bounds in words."""
    mdp = mdp if earn is None else mdp.with_reward(earn)
    if least:
        mdp = MDP(mdp.P, -mdp.r, mdp.s_of, states=mdp.states, initial=mdp.initial, rewards=mdp.rewards)
    problem = Problem(mdp)
    return problem.with_quotas(parse_quotas(problem, quotas))


# Public queries: those of Storm's tests (simple_lra, LraMdp), of MultiGain 2 and of Velasquez (figure 1)


@pytest.mark.parametrize(
    ("earn", "quotas", "least", "gain"),
    [
        ("first", ['R{"second"}>=7.2727272727272725 [LRA]'], False, 5),
        ("first", ['R{"second"}>=16 [LRA]'], False, 0),
        ("second", ['R{"first"}<=0 [LRA]'], False, 16),
        ("first", ['R{"second"}<=0 [LRA]'], True, 0),
        ("second", ["LRA>=1 [x=1]"], False, 0),
        ("second", ["LRA>=0.5 [x=1]"], False, 8),
        ("second", ["LRA>=0.3 [x=3]"], False, 11.2),
        ("second", ["x=3>=0.3"], False, 0),
        ("second", [], False, 16),
    ],
)
def test_storms_queries_on_several_objectives(earn, quotas, least, gain):
    found = proved(ask(SIMPLE, *quotas, earn=earn, least=least))
    assert found.status is Status.OPTIMAL and abs(found.gain) == pytest.approx(gain, abs=1e-7)


@pytest.mark.parametrize(
    ("start", "gain", "least"),
    [("0", 37 / 60, 0.1), ("3", 2 / 3, 0), ("6", 1 / 2, 1 / 3), ("12", 31 / 60, None), ("14", 31 / 60, None)],
)
def test_storms_queries_on_reachable_parts(start, gain, least):
    mdp = model(CHAINS, start, reward=EARNING)
    assert proved(ask(mdp)).gain == pytest.approx(gain, abs=1e-9)
    if least is not None:
        assert -proved(ask(mdp, least=True)).gain == pytest.approx(least, abs=1e-9)


@pytest.mark.parametrize(("target", "gain"), [("0", 0), ("1", 1), ("2", 1)])
def test_storms_queries_on_a_chain_of_traps(target, gain):
    mdp = model("0 a: 1 1\n1 a: 1 1\n1 b: 1 2\n2 a: 1 2", "0", reward={target: 1})
    assert proved(ask(mdp)).gain == pytest.approx(gain, abs=1e-9)


def test_quotas_that_are_met_only_in_the_limit_are_met_in_the_mean():
    """Two corners half of the time each: no run has both, as its way between them takes time."""
    mdp = model(CORNERS, "0")
    every = proved(ask(mdp, "a>=0.5", "b>=0.5"))
    assert every.status is Status.UNDECIDED
    assert Remark.ONLY_IN_THE_LIMIT in {note.remark for note in every.notes}
    mean = proved(ask(mdp, 'LRA>=0.5 ["a"]', 'LRA>=0.5 ["b"]'))
    assert mean.status is Status.OPTIMAL
    assert mean.ends.weights == pytest.approx([0.5, 0.5]) and mean.shares == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("expected", [False, True])
def test_a_cycle_that_meets_both_quotas(expected):
    mdp = model(FORK, "4")
    quotas = [
        Quota("a", ["0", "1", "2"], at_least=0.75, expected=expected),
        Quota("c", ["3"], at_least=0.25, expected=expected),
    ]
    assert proved(Problem(mdp, quotas)).status is Status.OPTIMAL


# Random models against brute force, which knows neither components nor multipliers


@pytest.mark.parametrize("seed", range(60))
def test_answers_are_those_of_brute_force(seed):
    problem = draw(seed)
    try:
        value = best_gain(problem, most=500)
    except OverflowError:
        pytest.skip("too much to enumerate")
    found = proved(problem)
    if value is None:
        assert found.status is Status.INFEASIBLE
    else:
        assert found.status is Status.OPTIMAL
        assert found.gain == pytest.approx(value, abs=2e-6 * reward_scale(problem))


def test_what_rounding_takes_from_runs_is_left_as_room():
    """A rare passage in one of two components: what is proved of it alone is not quite proved from the start."""
    problem = draw(150).with_stated_bounds([-0.8])
    found = proved(problem)
    assert found.status is Status.OPTIMAL and any(note.remark is Remark.CONNECTED for note in found.notes)
    assert found.gain == pytest.approx(best_gain(problem), abs=2e-6 * reward_scale(problem))


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_columns_for_large_models_are_those_of_brute_force(seed):
    """Quotas of the mean over runs by columns of components, which small models do not need."""
    problem = draw(seed)
    mdp = problem.mdp if problem.mdp.initial is not None else problem.mdp.with_initial("0")
    quotas = [replace(quota, expected=True) for quota in problem.quotas]
    problem = Problem(mdp, quotas)
    found = solve_multichain_lp(problem, components_of(mdp), 1e-6, tuning=Tuning(program_pairs=0))
    for exact in (False, True):
        verdict = verify(problem, found, exact=exact)
        assert verdict.ok, verdict.messages
    value = best_gain(problem)
    if value is None:
        assert found.status is Status.INFEASIBLE
    else:
        assert found.status is Status.OPTIMAL and "columns" in found.counters
        assert found.gain == pytest.approx(value, abs=2e-6 * reward_scale(problem))


# What can be reached, and where runs end


def test_what_cannot_be_reached_does_not_count():
    """The start of this chain never sees the other half, where all the reward is."""
    mdp = model("a x: 1 b\nb x: 1 a\nb y: 1 b\nc x: 1 c\nc y: 1 a", "a", reward={"c": 9, "b/y": 1})
    found = proved(ask(mdp, "b<=0.75"))
    assert found.gain == pytest.approx(0.5, abs=1e-6) and found.visitation[2] == 0
    assert Note(Remark.UNREACHABLE, 1) in found.notes
    assert found.policy[mdp.s_of == 2].sum() == 1  # results are for all states that were stated
    assert proved(ask(mdp.with_initial("c"), "b<=0.75")).gain == 9


def test_an_answer_says_where_runs_end():
    found = proved(ask(FALLS, "f<=0.05"))
    assert found.gain == 0
    left = proved(ask(FALLS, 'LRA<=0.03 ["f"]'))
    assert left.gain == pytest.approx(0.03) and left.shares == pytest.approx([0.03])
    assert sum(end.probability for end in left.ends.classes) == pytest.approx(1)
    alone = proved(ask(FALLS))
    assert [(end.probability, end.gain) for end in alone.ends.classes] == [
        (0.5, 0.0),
        (0.5, pytest.approx(1 / 11)),
    ]


def test_without_a_start_every_start_has_to_be_fair():
    mdp = model("s a: 1 l\ns b: 1 r\nl a: 1 l\nr a: 1 r", None, reward={"r": 1})
    assert proved(ask(mdp, "r>=0.5")).status is Status.INFEASIBLE
    assert proved(ask(mdp.with_initial("s"), "r>=0.5")).gain == 1
    assert proved(ask(mdp)).gain == pytest.approx(2 / 3)
    with pytest.raises(ProblemError, match="say where it starts"):
        solve(ask(mdp, 'LRA>=0.5 ["r"]'))


def test_a_mean_may_be_met_by_crashing_for_good():
    """Half of the time crashed: every run drives on, or half of the runs crash and stay so."""
    mdp = model("go fast: 1 crash\ngo slow: 1 go\ncrash a: 1 crash", "go", reward={"crash": 10, "go/slow": 1})
    every, mean = proved(ask(mdp, "crash<=0.5")), proved(ask(mdp, 'LRA<=0.5 ["crash"]'))
    assert (every.gain, mean.gain) == (pytest.approx(1), pytest.approx(5.5))
    assert every.ends.weights is None and mean.ends.weights == pytest.approx([0.5, 0.5])
    assert np.isnan(mean.policy).all()


@pytest.mark.parametrize("asked", ["crash<=0.5", 'LRA<=0.5 ["crash"]'])
def test_rewards_that_no_run_earns_for_ever_are_no_measure_of_a_gap(asked):
    """Neither out of reach nor on the way: the gap is judged by what can be earned again and again."""
    mdp = model("go fast: 1 crash\ngo slow: 1 go\ncrash a: 1 crash\nmoon a: 1 go", "go",
                reward={"crash": 10, "go/slow": 1, "go/fast": -1e9, "moon": 1e12})  # fmt: skip
    problem = ask(mdp, asked)
    found = proved(problem)
    assert found.gain == pytest.approx(1 if asked.startswith("crash") else 5.5) and found.gap < 1e-9
    assert reward_scale(problem) == 9


def test_one_set_may_be_owed_a_little_in_every_run_and_more_in_the_mean():
    """Driving on for good gives 1 of the time, by turns with a rest in every run a half."""
    mdp = model("go on: 1 road\ngo turns: 1 mixed\nroad a: 1 road\nmixed a: 1 rest\nrest a: 1 mixed", "go",
                reward={"mixed": 2})  # fmt: skip

    def drives(**bound):
        return Quota(f"drives {len(bound)}", states=["road", "mixed"], **bound)

    problem = Problem(mdp, [drives(at_least=0.25), drives(at_least=0.75, expected=True)])
    found = proved(problem)
    assert found.gain == pytest.approx(0.5) and found.ends.weights == pytest.approx([0.5, 0.5])
    with pytest.raises(ProblemError, match="bound one set on one side twice"):
        Problem(mdp, [drives(at_least=0.25), replace(drives(at_least=0.75), name="other")])


def test_a_program_that_has_a_point_for_certain_is_not_said_to_have_none(monkeypatch):
    """HiGHS finds no verdict on the program that gives way, and interior points call it infeasible: once."""
    sets = {"a": ([0, 1, 2, 4, 5], False), "b": ([0, 1, 4], True), "c": ([0, 2], False)}
    quotas = [
        Quota(name, states=states, at_least=0.8637282421907825, expected=mean)
        for name, (states, mean) in sets.items()
    ]
    quotas.append(Quota("w", weights=[3.0, 3, 0, 0, -2, 3, -2], at_most=2.5911847227357585))
    problem = Problem(draw(319).mdp, quotas)
    assert proved(problem).status is Status.INFEASIBLE
    monkeypatch.setattr("fairmdp.solvers.multichain_lp.EndsLP.run", lambda program: None)
    undecided = solve(problem)
    assert undecided.status is Status.UNDECIDED and verify(problem, undecided).ok


def test_components_and_moves_between_them():
    found = components_of(SIMPLE)
    assert found.count == 2 and sorted(found.sizes.tolist()) == [1, 2]
    assert found.labels[0] == 2 and found.internal.tolist() == [False, False, True, True, True, True, True]
    quotient = Quotient.of(SIMPLE, found)
    stay = np.where(np.arange(3) == found.labels[2], 3.0, 7.0)
    values, choice = quotient.best(np.append(stay[:2], -np.inf))
    assert values[2] == 7 and quotient.pairs[choice[2]] == 0
    values, _ = quotient.best(np.where(np.arange(3) == found.labels[2], -np.inf, values))
    assert values[found.labels[2]] == -np.inf  # it cannot be stayed in, and nothing leads out of it
    assert components_of(SIMPLE) is found  # a model falls into its components once


def test_a_search_that_begins_with_other_choices_ends_with_the_same_values():
    rng, problem = np.random.default_rng(2), many_islands()
    found = components_of(problem.mdp)
    quotient, nowhere = Quotient.of(problem.mdp, found), np.full(found.n_nodes - found.count, -np.inf)
    choice = None
    for _ in range(20):
        stay = np.append(rng.random(found.count), nowhere)
        values, choice = quotient.best(stay, begin=choice)
        assert values == pytest.approx(quotient.best(stay)[0], abs=1e-12)


def test_a_policy_that_is_good_without_quotas_is_near_the_best_with_them():
    """The simplex method begins with its basis, and is at the same optimum in a quarter of the steps."""
    problem = scenarios.garnet(n_states=100, n_actions=3, seed=1, n_quotas=4)
    mdp, free = problem.mdp, solve(problem.without_quotas())
    problem = problem.with_bounds(1.2 * problem.members @ free.occupancy)
    cold, warm = FlowLP(problem, mdp.r), FlowLP(problem, mdp.r)
    warm.start_from_policy(best_pairs(mdp, mdp.r + mdp.P @ free.bias))
    expected, answer = cold.find(), warm.find()
    assert answer.objective == pytest.approx(expected.objective, abs=1e-9)
    assert answer.iterations < 0.3 * expected.iterations
    assert free.gain > expected.objective + 1e-3


def many_islands(count=12, seed=3):
    """Small random components that a first state leads to, with two quotas of every run."""
    rng = np.random.default_rng(seed)
    S = 5 * count + 1
    P, s_of = (
        np.zeros((15 * count + count, S)),
        np.append(np.repeat(np.arange(S - 1), 3), np.full(count, S - 1)),
    )
    for i, s in enumerate(s_of[: 15 * count]):
        to = 5 * (s // 5) + rng.choice(5, 3, replace=False)
        P[i, to] = rng.dirichlet(np.ones(3))
    for c in range(count):
        P[15 * count + c, 5 * c] = P[15 * count + c, 5 * ((c + 1) % count)] = 0.5
    mdp = MDP(P, rng.random(s_of.size), s_of, initial=np.eye(S)[-1])
    return Problem(mdp, [Quota(f"q{k}", np.arange(k, S - 1, 5), at_least=0.15) for k in range(2)])


def test_many_components_at_once():
    problem = many_islands()
    found = proved(problem)
    assert found.status is Status.OPTIMAL and found.counters["components"] > 2
    one_program = solve_multichain_lp(problem, components_of(problem.mdp), 1e-6)
    assert found.gain == pytest.approx(one_program.gain, abs=1e-6)


def test_what_programs_say_of_components_is_not_believed(monkeypatch):
    """Policies that are not what the program promised are noticed by the certificate, and made afresh."""
    read, said = parts.policy_of, []

    def misread(mdp, x):
        said.append(mdp)
        return uniform_policy(mdp) if len(said) <= lies else read(mdp, x)

    monkeypatch.setattr(parts, "policy_of", misread)
    gains, asked = [], []
    for lies in (0, 3):  # noqa: B007  `misread` reads it
        said.clear()
        gains.append(proved(many_islands()).gain)
        asked.append(len(said))
    assert asked[1] > asked[0] and gains[1] == pytest.approx(gains[0], abs=1e-6)


def test_chains_side_by_side():
    problem = many_islands()
    chain = Chain.of(problem.mdp, uniform_policy(problem.mdp))
    P, ptr = chain.P[:60, :60], np.arange(0, 61, 5)
    found = side_by_side(P, ptr)
    assert found.close.all() and found.pins.size == 12
    for c, nu in enumerate(chain.stationary):
        inside = slice(5 * c, 5 * c + 5)
        assert found.shares[inside] == pytest.approx(nu[inside], abs=1e-14)
        alone = Chain(P[inside, inside])
        assert found.steps[inside] == pytest.approx(alone.hitting_times(found.pins[c] - 5 * c), rel=1e-9)
    hardly = csr_array(np.array([[1 - 1e-13, 1e-13], [1e-13, 1 - 1e-13]]))
    assert not side_by_side(hardly, np.array([0, 2])).close[0]


def test_a_long_walk_with_a_leak():
    """Whatever leads to what leaks is dropped at once, and not round after round."""
    n = 20_000
    s = np.arange(n)
    P = csr_array(
        (
            np.append(np.full(2 * n, 0.5), 1.0),
            (np.concatenate([s, s, [n]]), np.concatenate([np.minimum(s + 1, n), np.maximum(s - 1, 0), [n]])),
        ),
        shape=(n + 1, n + 1),
    )
    found = components_of(MDP(P, np.zeros(n + 1), np.arange(n + 1)))
    assert found.count == 1 and found.n_nodes == n + 1 and found.internal.sum() == 1
