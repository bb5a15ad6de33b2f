"""Gymnasium environments as models and as simulators, against the environments themselves."""

import re
import sys
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from checks import assert_optimal

from fairmdp import (
    Chain,
    Problem,
    ProblemError,
    Quota,
    Simulator,
    SimulatorError,
    inspect,
    learn_plugin,
    solve,
    verify,
)
from fairmdp.io.gym_model import from_gymnasium
from fairmdp.learning.simulate import simulate
from fairmdp.learning.simulators import EnvironmentSimulator, FunctionSimulator

pytestmark = pytest.mark.slow

LAKE_4, LAKE_8 = {"map_name": "4x4"}, {"map_name": "8x8"}
HOLES = [5, 7, 11, 12]
NORTH_WEST = [s for s in range(500) if s // 100 < 2 and s // 20 % 5 < 2]  # where Taxi's cab is


def made(name, **options):
    return gymnasium.make(name, **options)


def put(env, state):
    env.unwrapped.s = state


def toy(P, **more):
    """An environment of which only the table is known."""
    return SimpleNamespace(P=P, **more)


GOOD = {
    0: {0: [(0.5, 0, 1.0, False), (0.25, 1, 2.0, True), (0.25, 1, 4.0, True)]},
    1: {0: [(1.0, 1, 9.0, True)]},
}


# --- the table as a model


@pytest.mark.parametrize(
    "name, options, quota",
    [
        ("FrozenLake-v1", LAKE_4, Quota("falls", states=HOLES, at_most=0.003)),
        ("FrozenLake-v1", LAKE_8, Quota("start", states=range(8), at_least=0.3)),
        ("Taxi-v4", {}, Quota("row 0", states=range(100), at_least=0.4)),
        ("Taxi-v4", {"is_rainy": True}, Quota("row 0", states=range(100), at_least=0.4)),
        ("CliffWalking-v1", {"is_slippery": True}, Quota("top", states=range(12), at_least=0.5)),
    ],
)
def test_environments_are_solved_under_a_quota_and_runs_confirm_it(name, options, quota):
    mdp = from_gymnasium(made(name, **options), on_terminate="restart")
    problem = Problem(mdp, [quota])
    solution = solve(problem)
    assert_optimal(problem, solution, tol=1e-6, reached=inspect(mdp).reachable)
    assert verify(problem, solution).ok
    assert solution.gain < solve(problem.without_quotas()).gain  # the quota binds
    seen = simulate(mdp, solution.policy, steps=5000, runs=64, quotas=[quota], seed=2)
    assert abs(seen.shares[0] - solution.shares[0]) < 4 * seen.share_se[0]
    assert abs(seen.gain - solution.gain) < 4 * seen.gain_se


def test_gains_that_are_known_from_the_rules():
    # The way along the cliff takes 13 steps of -1, and one step in the goal earns nothing.
    cliff = from_gymnasium(made("CliffWalking-v1"), on_terminate="restart")
    assert solve(Problem(cliff)).gain == pytest.approx(-13 / 14, abs=1e-9)
    # Without slipping the lake is crossed in 6 steps, and the present is looked at in a seventh.
    lake = from_gymnasium(made("FrozenLake-v1", is_slippery=False), on_terminate="restart")
    assert solve(Problem(lake)).gain == pytest.approx(1 / 7, abs=1e-9)


def test_numbers_of_states_and_actions_are_those_of_the_environment():
    taxi = made("Taxi-v4")
    mdp = from_gymnasium(taxi, on_terminate="restart")
    assert mdp.states is None and mdp.actions is None
    assert (mdp.n_actions == 6).all() and mdp.n_states == 500
    assert np.array_equal(mdp.initial, taxi.unwrapped.initial_state_distrib)
    for s, a in ((3, 0), (120, 4), (417, 5), (499, 2)):
        ((chance, s_next, reward, _),) = taxi.unwrapped.P[s][a]
        assert mdp.P[6 * s + a, s_next] == chance == 1 and mdp.r[6 * s + a] == reward


def test_repeated_next_states_are_added_up_and_rewards_averaged():
    mdp = from_gymnasium(toy(GOOD, initial_state_distrib=[1, 0]), on_terminate="restart")
    assert np.array_equal(mdp.P.toarray(), [[0.5, 0.5], [1, 0]])
    assert mdp.P.nnz == 3
    assert np.array_equal(mdp.r, [0.5 + 0.5 + 1.0, 0.0])  # nothing is earned in a terminal state
    assert np.array_equal(mdp.initial, [1, 0])


def test_absorbing_states_are_never_left_and_earn_nothing():
    mdp = from_gymnasium(toy(GOOD), on_terminate="absorb")
    assert np.array_equal(mdp.P.toarray(), [[0.5, 0.5], [0, 1]])
    assert mdp.r[1] == 0 and mdp.initial is None
    lake = from_gymnasium(made("FrozenLake-v1"), on_terminate="absorb")
    uniform = np.full(64, 0.25)
    assert [c.tolist() for c in Chain.of(lake, uniform).closed_classes] == [[5], [7], [11], [12], [15]]


def test_the_initial_distribution_may_be_given():
    mdp = from_gymnasium(toy(GOOD), on_terminate="restart", initial=[1.0, 0.0])
    assert np.array_equal(mdp.P.toarray()[1], [1, 0])


def test_lists_and_ragged_actions_are_read_too():
    P = [[[(1.0, 1, 0.0, False)], [(1.0, 0, 1.0, False)]], [[(1.0, 0, 2.0, False)]]]
    mdp = from_gymnasium(toy(P), on_terminate="absorb")
    assert mdp.n_actions.tolist() == [2, 1] and mdp.r.tolist() == [0, 1, 2]


def frequencies(step, mdp, pair, n, rng):
    """Chi-square distance of n steps of one pair from its row, over its degrees of freedom."""
    row = mdp.P[[pair]].toarray()[0]
    seen = np.bincount([step(rng) for _ in range(n)], minlength=row.size)
    assert seen[row == 0].sum() == 0
    likely = row > 0
    return ((seen[likely] - n * row[likely]) ** 2 / (n * row[likely])).sum(), likely.sum() - 1


@pytest.mark.parametrize(
    "name, options, pairs",
    [
        ("FrozenLake-v1", LAKE_4, [(0, 0), (1, 1), (6, 2), (14, 2)]),
        ("FrozenLake-v1", LAKE_8, [(0, 3), (27, 1), (62, 2)]),
        ("Taxi-v4", {"is_rainy": True}, [(123, 0), (241, 3)]),
        ("CliffWalking-v1", {"is_slippery": True}, [(24, 1), (13, 2)]),
    ],
)
def test_rows_agree_with_steps_of_the_environment(name, options, pairs):
    env = made(name, **options).unwrapped
    mdp = from_gymnasium(env, on_terminate="restart")
    env.reset(seed=5)
    n_actions = env.action_space.n
    total, degrees = 0.0, 0
    for s, a in pairs:

        def step(_, s=s, a=a):
            put(env, s)
            return env.step(a)[0]

        chi, free = frequencies(step, mdp, s * n_actions + a, 2000, None)
        total, degrees = total + chi, degrees + free
    assert degrees > 0 and total < degrees + 4 * np.sqrt(2 * degrees)


def test_restarts_agree_with_resets_of_the_environment():
    taxi = made("Taxi-v4").unwrapped
    mdp = from_gymnasium(taxi, on_terminate="restart")
    taxi.reset(seed=3)
    put(taxi, taxi.encode(0, 0, 4, 0))
    s_end, _, terminated, *_ = taxi.step(5)
    assert terminated
    for action in range(6):
        chi, degrees = frequencies(lambda _: taxi.reset()[0], mdp, 6 * s_end + action, 4000, None)
        assert degrees == 299 and chi < degrees + 4 * np.sqrt(2 * degrees)


def test_environments_by_their_id():
    lake = from_gymnasium("FrozenLake-v1", on_terminate="restart")
    assert (lake.P != from_gymnasium(made("FrozenLake-v1"), on_terminate="restart").P).nnz == 0
    simulator = EnvironmentSimulator(
        "FrozenLake-v1", set_state=put, on_terminate="absorb", terminal=[*HOLES, 15]
    )
    assert simulator.n_states == 16
    with pytest.raises(
        ProblemError, match=r"gymnasium.make\('FrozenLke-v1'\) failed, NameNotFound: .*FrozenLake"
    ):
        from_gymnasium("FrozenLke-v1", on_terminate="restart")


def test_ids_without_gymnasium(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(ProblemError, match=r"gymnasium is not installed\n.*\n  pip install fairmdp\[gym\]"):
        from_gymnasium("FrozenLake-v1", on_terminate="restart")


def test_never_ending_environments_need_no_word_about_ends():
    ring = {s: {a: [(1.0, (s + a) % 3, float(s), False)] for a in range(2)} for s in range(3)}
    assert solve(Problem(from_gymnasium(toy(ring)))).gain == pytest.approx(2.0)
    with pytest.raises(ProblemError, match="on_terminate is 'x'"):
        from_gymnasium(toy(ring), on_terminate="x")


class Rooms(gymnasium.Env):
    """Two lamps that one may switch; it never ends, and its spaces are vectors."""

    observation_space = gymnasium.spaces.MultiDiscrete([2, 3])
    action_space = gymnasium.spaces.MultiDiscrete([2, 2])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.s = np.zeros(2, int)
        return self.s, {}

    def step(self, action):
        self.s = (self.s + action) % [2, 3]
        return self.s.copy(), float(self.s[1] == 2), False, False, {}


def test_vectors_of_states_and_actions_are_numbered_like_cells():
    simulator = EnvironmentSimulator(Rooms(), set_state=put)
    assert simulator.n_states == 6 and simulator.n_actions.tolist() == [4] * 6
    to, rewards = simulator.sample(np.array([0, 4, 5]), np.array([1, 3, 0]), np.random.default_rng(0))
    assert to.tolist() == [1, 2, 5] and rewards.tolist() == [0.0, 1.0, 1.0]
    found = learn_plugin(simulator, [Quota("lamp", states=[0, 1, 2], at_least=0.5)], samples=6000, seed=0)
    assert found.gain == pytest.approx(1.0) and found.guaranteed

    def elsewhere(env, state):
        env.unwrapped.s = np.array([1, 2])

    with pytest.raises(SimulatorError, match="was given state 0 and left the environment in state 5"):
        EnvironmentSimulator(Rooms(), set_state=elsewhere).sample([0], [0], np.random.default_rng(0))


# --- mistakes


@pytest.mark.parametrize("choice, said", [(None, "is missing"), ("reset", "is 'reset'"), (True, "is True")])
def test_what_follows_the_end_must_be_chosen(choice, said):
    with pytest.raises(ProblemError, match=f"on_terminate {said}\n  episodes end, .*\n  choose 'restart'"):
        from_gymnasium(made("FrozenLake-v1"), on_terminate=choice)
    with pytest.raises(ProblemError, match="on_terminate is missing"):
        from_gymnasium(made("FrozenLake-v1"))


@pytest.mark.parametrize(
    "env, message",
    [
        (SimpleNamespace(), "SimpleNamespace has no P, .*\n.*\n.*FunctionSimulator"),
        (toy(GOOD), r"no initial_state_distrib\n.*guess\n  give initial, an array of 2 probabilities"),
        (toy({0: {0: [(0.9, 0, 0, False)]}}, initial_state_distrib=[1]), r"P\[0\] is not a .*sums to 0.9"),
        (toy({0: {0: [(-0.1, 0, 0, False), (1.1, 0, 0, False)]}}, initial_state_distrib=[1]), "is -0.1"),
        (toy({0: {0: [(1.0, 1, 0, False)]}}), r"P\[0\]\[0\] holds .* expected a next state from 0 to 0"),
        (toy({0: {0: [(1.0, 0, 0)]}}), r"holds \(1.0, 0, 0\), expected \(prob, next, reward, terminated"),
        (toy({0: {0: [(1.0, 0, "x", False)]}}), "its probability and its reward must be numbers"),
        (toy({1: {0: [(1.0, 0, 0, False)]}}), r"P\[0\] cannot be read\n  .* numbered from 0"),
        (toy({0: {0: [(1.0, 0, np.inf, False)]}}, initial_state_distrib=[1]), "expected a finite number"),
        (toy(GOOD, initial_state_distrib=[1]), r"initial distribution has shape \(1,\), expected \(2,\)"),
        (toy(GOOD, initial_state_distrib=[0.5, 0]), "initial sums to 0.5|P.1. is not a probability row"),
        (toy(GOOD, initial_state_distrib=[0.5, 0.5]), "state 1 is entered .*, by a new episode, without"),
    ],
)  # fmt: skip
def test_tables_that_make_no_sense_are_named(env, message):
    with pytest.raises(ProblemError, match=message):
        from_gymnasium(env, on_terminate="restart")


def test_a_state_that_ends_an_episode_only_sometimes_is_refused():
    P = {0: {0: [(0.5, 1, 0, True), (0.5, 1, 0, False)]}, 1: {0: [(1.0, 0, 0, False)]}}
    with pytest.raises(
        ProblemError, match="state 1 is entered with terminated=True and, from state 0, without"
    ):
        from_gymnasium(toy(P, initial_state_distrib=[1, 0]), on_terminate="restart")
    with pytest.raises(ProblemError, match="state 1 is entered"):
        from_gymnasium(toy(P), on_terminate="absorb")


def test_wrappers_that_change_the_model_are_refused():
    doubled = gymnasium.wrappers.TransformReward(made("FrozenLake-v1"), lambda reward: 2 * reward)
    with pytest.raises(ProblemError, match="the wrapper TransformReward changes the rewards"):
        from_gymnasium(doubled, on_terminate="restart")
    assert from_gymnasium(doubled.unwrapped, on_terminate="restart").r.max() <= 1
    with pytest.raises(ProblemError, match="decided outside of P"):
        from_gymnasium(made("Taxi-v4", fickle_passenger=True), on_terminate="restart")
    with pytest.raises(ProblemError, match="BlackjackEnv has no P"):
        from_gymnasium(made("Blackjack-v1"), on_terminate="restart")


# --- simulators


def lake_simulator(**changes):
    lake = made("FrozenLake-v1")
    options = {
        "set_state": put,
        "on_terminate": "restart",
        "terminal": [*HOLES, 15],
        "initial": lake.unwrapped.initial_state_distrib,
    }
    return EnvironmentSimulator(lake, **{**options, **changes})


@pytest.mark.parametrize("on_terminate", ["restart", "absorb"])
def test_an_environment_samples_like_its_table(on_terminate):
    simulator = lake_simulator(on_terminate=on_terminate)
    assert isinstance(simulator, Simulator)
    mdp = from_gymnasium(made("FrozenLake-v1"), on_terminate=on_terminate)
    n = 300
    states, actions = (x.ravel() for x in np.meshgrid(np.repeat(np.arange(16), n), np.arange(4)))
    s_next, rewards = simulator.sample(states, actions, np.random.default_rng(4))
    seen = np.zeros((64, 16))
    np.add.at(seen, (4 * states + actions, s_next), 1)
    due = n * mdp.P.toarray()
    assert (seen[due == 0] == 0).all()
    free = (due > 0).sum() - 64
    chi = ((seen - due)[due > 0] ** 2 / due[due > 0]).sum()
    assert chi < free + 4 * np.sqrt(2 * free)
    means = np.bincount(4 * states + actions, weights=rewards, minlength=64) / n
    assert np.abs(means - mdp.r).max() < 4 * np.sqrt(0.25 / n)


def test_samples_follow_from_the_generator_alone():
    states, actions = np.arange(16).repeat(20), np.zeros(320, int)
    first, second = lake_simulator(), lake_simulator()
    second.sample(states, actions, np.random.default_rng(9))
    one = first.sample(states, actions, np.random.default_rng(1))
    two = second.sample(states, actions, np.random.default_rng(1))
    assert np.array_equal(one[0], two[0]) and np.array_equal(one[1], two[1])


@pytest.mark.parametrize("make", [lake_simulator, "table"])
def test_learning_agrees_with_the_exact_answer(make):
    mdp = from_gymnasium(made("FrozenLake-v1"), on_terminate="restart")
    quotas = [Quota("falls", states=HOLES, at_most=0.004)]
    exact = solve(Problem(mdp, quotas))
    simulator = mdp.simulator() if make == "table" else make()
    learned = learn_plugin(simulator, quotas, samples=150_000, seed=1)
    x = learned.policy * Chain.of(mdp, learned.policy).shares[mdp.s_of]
    falls, gain = float(x @ np.isin(mdp.s_of, HOLES)), float(mdp.r @ x)
    assert learned.guaranteed and falls <= 0.004
    assert abs(learned.shares[0] - falls) < 4 * learned.share_se[0]
    assert abs(learned.gain - gain) < 4 * learned.gain_se
    assert gain <= exact.gain <= gain + learned.gap


@pytest.mark.parametrize(
    "name, options, quota, samples",
    [
        ("FrozenLake-v1", LAKE_8, Quota("first row", states=range(8), at_least=0.3), 200_000),
        ("Taxi-v4", {}, Quota("north west", states=NORTH_WEST, at_least=0.2), 600_000),
    ],
)
def test_larger_environments_are_learned_and_runs_confirm_it(name, options, quota, samples):
    mdp = from_gymnasium(made(name, **options), on_terminate="restart")
    problem = Problem(mdp, [quota])
    learned = learn_plugin(mdp.simulator(), [quota], samples=samples, seed=1)
    x = learned.policy * Chain.of(mdp, learned.policy).shares[mdp.s_of]
    share, gain = float((problem.members @ x)[0]), float(mdp.r @ x)
    assert learned.guaranteed and share >= quota.at_least
    assert gain <= solve(problem).gain + 1e-9 <= gain + learned.gap
    seen = simulate(mdp, learned.policy, steps=4000, runs=100, quotas=[quota], seed=2)
    assert abs(seen.shares[0] - share) < 4 * seen.share_se[0]
    assert abs(seen.gain - gain) < 4 * seen.gain_se


def test_a_function_as_a_simulator():
    def step(state, action, rng):
        return (state + (1 if rng.random() < 0.9 else 2)) % 3, float(action)

    simulator = FunctionSimulator(step, 3, [1, 2, 1])
    assert isinstance(simulator, Simulator) and repr(simulator) == "FunctionSimulator(3 states, 4 pairs)"
    assert simulator.n_actions.tolist() == [1, 2, 1]
    s_next, rewards = simulator.sample(np.ones(4000, int), np.ones(4000, int), np.random.default_rng(0))
    assert abs((s_next == 2).mean() - 0.9) < 4 * np.sqrt(0.09 / 4000) and (rewards == 1).all()
    learned = learn_plugin(simulator, [Quota("zero", states=[0], at_least=0.2)], samples=2000)
    assert abs(learned.gain - 1 / 3) < 4 * learned.gain_se


def test_errors_of_a_function_name_the_pair_and_keep_the_original():
    def step(state, action, rng):
        return [0, {}["patience"]][action], 0.0

    with pytest.raises(
        SimulatorError, match="step failed in state 1, action 1: KeyError: 'patience'"
    ) as caught:
        FunctionSimulator(step, 2, 2).sample(np.array([1]), np.array([1]), np.random.default_rng(0))
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize("answer", [None, 3, (0,), (0, 1.0, 2), (0.5, 1.0), ("a", 1.0), (0, "much")])
def test_answers_of_a_function_that_cannot_be_read(answer):
    simulator = FunctionSimulator(lambda state, action, rng: answer, 2, 2)
    said = re.escape(f"step answered state 1, action 0 with {answer!r}, expected")
    with pytest.raises(SimulatorError, match=said):
        simulator.sample(np.array([1]), np.array([0]), np.random.default_rng(0))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((3, 2, 2), "step is a int, expected a function"),
        ((put, 0, 2), "n_states is 0"),
        ((put, 2, 0), "n_actions is 0, expected a whole number of at least 1, or 2 of them"),
        ((put, 2, [1, 2, 3]), r"n_actions is \[1, 2, 3\]"),
        ((put, 2, 1.5), "n_actions is 1.5"),
    ],
)
def test_functions_that_cannot_be_simulators(arguments, message):
    with pytest.raises(ProblemError, match=message):
        FunctionSimulator(*arguments)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"on_terminate": None}, "on_terminate is missing"),
        ({"initial": np.full(16, 0.1)}, "initial sums to 1.6, expected 1"),
        ({"initial": [1, 0]}, r"initial has shape \(2,\), expected \(16,\)"),
        ({"terminal": [16]}, r"terminal is \[16\], expected states from 0 to 15"),
        ({"set_state": 3}, "set_state is 3, expected a function"),
    ],
)
def test_environments_that_cannot_be_simulators(changes, message):
    with pytest.raises(ProblemError, match=message):
        lake_simulator(**changes)


def test_where_episodes_begin_is_taken_from_the_environment_where_it_says_so():
    ends = np.array([15]), np.array([0])
    assert lake_simulator(initial=None).sample(*ends, np.random.default_rng(0))[0] == 0
    lake = made("FrozenLake-v1")
    del lake.unwrapped.initial_state_distrib
    with pytest.raises(ProblemError, match="needs initial, the .*\n  give an array of 16 probabilities"):
        EnvironmentSimulator(lake, set_state=put, on_terminate="restart")


def test_spaces_and_wrappers_that_cannot_be_simulated():
    with pytest.raises(ProblemError, match=r"the observation_space is Tuple.*\n.*\n.*FunctionSimulator"):
        EnvironmentSimulator(made("Blackjack-v1"), set_state=put, on_terminate="absorb")
    with pytest.raises(ProblemError, match=r"is Box.*\n.*\n.*wrappers\.DiscretizeObservation those of a Box"):
        EnvironmentSimulator("CartPole-v1", set_state=put)
    late = SimpleNamespace(observation_space=gymnasium.spaces.Discrete(3, start=1))
    with pytest.raises(ProblemError, match=r"values from 0\n.*\n.*TransformObservation"):
        EnvironmentSimulator(late, set_state=put)
    again = gymnasium.wrappers.Autoreset(made("FrozenLake-v1"))
    with pytest.raises(ProblemError, match="Autoreset swallows the step after an end"):
        EnvironmentSimulator(again, set_state=put, on_terminate="absorb")


@pytest.mark.parametrize(
    "changes, state, message",
    [
        ({"terminal": HOLES}, 14, "ended an episode in state 15, which is not in terminal"),
        ({"terminal": [*HOLES, 10, 15]}, 14, "entered state 10 without an end, although it is in terminal"),
        (
            {"set_state": lambda env, s: env.reset(options={"state": s})},
            14,
            "given state 14 and left .* in state 0",
        ),
        ({"set_state": lambda env, s: None}, 14, "given state 14 and left the environment in state 0"),
        ({"set_state": lambda env, s: {}[s]}, 14, "FrozenLakeEnv failed in state 14, action 2: KeyError: 14"),
    ],
)
def test_environments_that_do_not_do_as_told(changes, state, message):
    simulator = lake_simulator(**changes)
    with pytest.raises(SimulatorError, match=message):
        simulator.sample(np.full(50, state), np.full(50, 2), np.random.default_rng(0))


def test_rewards_of_wrappers_count_for_a_simulator():
    lake = gymnasium.wrappers.TransformReward(made("FrozenLake-v1", is_slippery=False), lambda r: 5 * r)
    simulator = EnvironmentSimulator(lake, set_state=put, on_terminate="absorb", terminal=[*HOLES, 15])
    s_next, rewards = simulator.sample(np.array([14]), np.array([2]), np.random.default_rng(0))
    assert s_next.tolist() == [15] and rewards.tolist() == [5.0]
    assert repr(simulator) == "EnvironmentSimulator(FrozenLakeEnv, 16 states, absorbs)"
    assert repr(EnvironmentSimulator(lake, set_state=put)) == "EnvironmentSimulator(FrozenLakeEnv, 16 states)"
