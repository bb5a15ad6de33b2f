"""Runs of a policy: right on average, with honest error bars, and the screen that shows them."""

import dataclasses
import json

import numpy as np
import pytest
from click.testing import CliRunner
from models import random_problem

from fairmdp import MDP, Chain, Problem, ProblemError, Quota, SimulatorError, scenarios, solve
from fairmdp.cli.simulate import simulate as command
from fairmdp.learning.simulate import Tuning, simulate
from fairmdp.learning.simulators import FunctionSimulator
from fairmdp.model.simulator import ModelSimulator

pytestmark = pytest.mark.slow

RING = MDP(np.roll(np.eye(3), 1, axis=1), [0.0, 1.0, 5.0], [0, 1, 2])
ONE = np.ones(3)


def uniform(mdp):
    return 1 / mdp.n_actions[mdp.s_of]


def exact(problem, policy):
    x = policy * Chain.of(problem.mdp, policy).shares[problem.mdp.s_of]
    return problem.members @ x, float(problem.mdp.r @ x)


@pytest.mark.parametrize("seed", range(8))
def test_runs_agree_with_the_exact_shares(seed):
    problem = random_problem(seed, n_max=20)
    policy = uniform(problem.mdp)
    shares, gain = exact(problem, policy)
    seen = simulate(problem.mdp, policy, steps=2000, runs=50, seed=seed, quotas=problem.quotas)
    assert (np.abs(seen.shares - shares) < 4 * seen.share_se + 1e-12).all()
    assert abs(seen.gain - gain) < 4 * seen.gain_se
    assert seen.finished and (seen.steps, seen.runs) == (2000, 50) and seen.notes == ()


def test_error_bars_are_neither_too_short_nor_too_long():
    problem = scenarios.three_state()
    policy = solve(problem).policy
    off = []
    for seed in range(60):
        seen = simulate(problem.mdp, policy, steps=400, runs=20, seed=seed, quotas=problem.quotas)
        off.append((seen.shares[2] - 0.25) / seen.share_se[2])
    # Student's t with 19 degrees of freedom has a standard deviation of 1.06.
    assert 0.8 < np.std(off) < 1.35 and abs(np.mean(off)) < 0.5


@pytest.mark.slow
def test_finite_runs_scatter_around_the_long_run():
    problem = scenarios.three_state()
    solution = solve(problem)
    short, long = (
        simulate(problem.mdp, solution.policy, steps=steps, runs=400, quotas=problem.quotas)
        for steps in (400, 10_000)
    )
    # s2 binds. A share of exactly 0.25 meets it, which helps short runs: their shares are coarse.
    for seen, most in ((short, 0.65), (long, 0.6)):
        assert 0.4 < seen.met[2] < most and seen.met_all == seen.met[2]
        assert (np.diff(seen.quantiles(), axis=0) >= 0).all()
    assert (short.met[:2] == 1).all()
    # Deviations shrink like one over the root of the steps, here by a factor of 5.
    ratio = short.deviations((0.9,), solution.shares) / long.deviations((0.9,), solution.shares)
    assert ((ratio > 4) & (ratio < 6.3)).all()


def test_a_deterministic_ring_by_hand():
    quotas = [
        Quota("two", states=[2], at_least=0.35),
        Quota("rest", states=[0, 1], at_most=0.7),
        Quota("zero", states=[0], at_most=0.3),
    ]
    seen = simulate(RING, ONE, steps=10, runs=4, starts=[0, 1, 2, 2], quotas=quotas)
    # From 0: 0 1 2 0 1 2 0 1 2 0, three times in 2; from 1 three, from 2 four times.
    assert np.array_equal(
        seen.run_shares, [[0.3, 0.7, 0.4], [0.3, 0.7, 0.3], [0.4, 0.6, 0.3], [0.4, 0.6, 0.3]]
    )
    assert np.array_equal(seen.run_gains, [1.8, 1.9, 2.3, 2.3])
    assert seen.starts.tolist() == [0, 1, 2, 2]
    assert seen.met.tolist() == [0.5, 1.0, 0.75] and seen.met_all == 0.5
    # The first tenth, one step, is left out of the means of the long run.
    assert seen.shares == pytest.approx([12 / 36, 24 / 36, 12 / 36])
    assert seen.gain == pytest.approx(72 / 36)


def test_seeds_starts_and_initial_distributions():
    problem = scenarios.three_state()
    policy = uniform(problem.mdp)
    one, two, three = (
        simulate(problem.mdp, policy, steps=50, seed=s, quotas=problem.quotas) for s in (1, 1, 2)
    )
    assert np.array_equal(one.run_shares, two.run_shares)
    assert not np.array_equal(one.run_shares, three.run_shares)
    assert (simulate(problem.mdp, policy, steps=1, starts="s1").starts == 1).all()
    assert (simulate(problem.mdp, policy, steps=1, starts=2).starts == 2).all()
    assert set(one.starts) == {0, 1, 2}
    begins = MDP(RING.P, RING.r, RING.s_of, initial=[0, 0, 1])
    assert (simulate(begins, ONE, steps=1).starts == 2).all()


def test_blocks_of_memory_do_not_change_the_result():
    problem = scenarios.three_state()
    policy = uniform(problem.mdp)
    whole = simulate(problem.mdp, policy, steps=333, runs=10, quotas=problem.quotas)
    few = Tuning(held=64)
    pieces = simulate(problem.mdp, policy, steps=333, runs=10, quotas=problem.quotas, tuning=few)
    assert np.array_equal(whole.run_shares, pieces.run_shares)
    assert np.array_equal(whole.shares, pieces.shares) and whole.gain == pytest.approx(pieces.gain)


def test_several_closed_classes_are_noted():
    apart = MDP(np.eye(2), [0.0, 1.0], [0, 1])
    seen = simulate(apart, [1.0, 1.0], steps=10, quotas=[Quota("one", states=[1], at_least=0.5)])
    assert "2 closed classes" in seen.notes[0]
    assert set(seen.run_shares.ravel()) == {0.0, 1.0} and seen.share_se[0] > 0.04


def test_a_simulator_is_run_as_well():
    walk = FunctionSimulator(lambda s, a, rng: ((s + 1 + (rng.random() < 0.5)) % 3, float(s)), 3, 1)
    seen = simulate(walk, np.ones(3), steps=300, runs=20, quotas=[Quota("zero", states=[0], at_least=0.3)])
    assert abs(seen.shares[0] - 1 / 3) < 4 * seen.share_se[0]
    assert abs(seen.gain - 1) < 4 * seen.gain_se
    broken = FunctionSimulator(lambda s, a, rng: (7, 0.0), 3, 1)
    with pytest.raises(SimulatorError, match="next state 7"):
        simulate(broken, np.ones(3), steps=5)


@pytest.mark.parametrize("calls, shares", [(3, [1 / 3] * 2), (20, [7 / 20] * 2)])
def test_an_interrupt_keeps_what_was_seen(calls, shares):
    class Tired:
        n_states, n_actions = 3, np.ones(3, int)
        left = calls

        def sample(self, states, actions, rng):
            if not self.left:
                raise KeyboardInterrupt
            self.left -= 1
            return (states + 1) % 3, states.astype(float)

    quota = Quota("zero", states=[0], at_least=0.0)
    seen = simulate(Tired(), np.ones(3), steps=50, runs=2, starts=0, quotas=[quota])
    assert not seen.finished and seen.steps == calls
    assert seen.run_shares[:, 0] == pytest.approx(shares)
    tired = Tired()
    tired.left = 0
    with pytest.raises(KeyboardInterrupt):
        simulate(tired, np.ones(3), steps=50)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"steps": 0}, "steps is 0"),
        ({"steps": 1.5}, "steps is 1.5"),
        ({"runs": 1}, "runs is 1, expected at least 2"),
        ({"starts": [0, 1]}, "starts has 2 states, expected 100"),
        ({"starts": 3}, "there is no state 3"),
        ({"policy": [1.0, 0.5, 1.0]}, "policy is no distribution over the actions of state 1"),
        ({"policy": [1.0]}, r"policy has shape \(1,\), expected \(3,\)"),
    ],
)
def test_mistakes_are_named(options, message):
    options = {"policy": ONE, "steps": 5, **options}
    with pytest.raises(ProblemError, match=message):
        simulate(RING, options.pop("policy"), **options)


def test_a_simulation_is_frozen():
    seen = simulate(RING, ONE, steps=5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        seen.gain = 1.0
    with pytest.raises(ValueError):
        seen.run_gains[0] = 1.0


# --- the command


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    solve(scenarios.three_state()).save("three.json")
    solve(scenarios.three_state(rho=[0, 0, 0.6])).save("none.json")
    return lambda *words: CliRunner().invoke(command, words)


def test_the_screen_shows_means_beside_exact_values(run):
    ended = run("three-state", "three.json", "--steps", "1000")
    assert ended.exit_code == 0, ended.output
    assert ended.stdout.startswith("three-state: 100 runs of 1,000 steps; ")
    assert "gain    0.44" in ended.stdout and "exact 0.443421" in ended.stdout
    row = next(line.split() for line in ended.stdout.splitlines() if line.startswith("  s2"))
    assert row[2] == "+-" and row[4:7] == ["0.2500", ">=", "0.25"]
    assert abs(float(row[1]) - 0.25) < 4 * float(row[3])
    assert float(row[7]) < 0.25 < float(row[9]) and 35 < int(row[10].rstrip("%")) < 65
    assert "all quotas are met after 1,000 steps in" in ended.stdout and "note" not in ended.stdout
    assert run("three-state", "three.json", "--steps", "1000").stdout == ended.stdout
    assert run("three-state", "three.json", "--steps", "1000", "--seed", "1").stdout != ended.stdout


def test_json_holds_the_same(run):
    record = json.loads(run("three-state", "three.json", "--runs", "30", "--json").stdout)
    assert record["runs"] == 30 and record["steps"] == 10_000 and record["notes"] == []
    s2 = record["quotas"][2]
    assert s2["name"] == "s2" and abs(s2["share"] - s2["exact_share"]) < 4 * s2["share_se"]
    assert s2["after_steps"]["5%"] < s2["after_steps"]["95%"] and 0 <= s2["met"] <= 1
    assert record["met_all"] == s2["met"]


def test_another_problem_and_a_surprise_are_noted(run):
    other = run("three-state", "three.json", "--rho", "0,0,0.2", "--steps", "200")
    assert other.exit_code == 0 and "the solution is of another model or other quotas" in other.stdout
    dataclasses.replace(solve(scenarios.three_state()), gain=0.9).save("wrong.json")
    wrong = run("three-state", "wrong.json", "--steps", "2000")
    assert "off, beyond its error bar: that is no accident" in wrong.output


def test_runs_that_are_too_short_say_so(run):
    ended = run("three-state", "three.json", "--steps", "1", "--start", "s0")
    assert "share of s0 1.0000 is 0.6 off, beyond its error bar: where runs begin and end" in ended.stdout


def test_an_interrupt_shows_what_was_seen_and_exits_with_4(run, monkeypatch):
    sample, calls = ModelSimulator.sample, []

    def tire(self, *asked):
        calls.append(1)
        if len(calls) > 500:
            raise KeyboardInterrupt
        return sample(self, *asked)

    monkeypatch.setattr(ModelSimulator, "sample", tire)
    ended = run("three-state", "three.json")
    assert ended.exit_code == 4 and "25 runs of 500 steps" in ended.stdout
    assert "note    stopped after 25 runs of 500 steps" in ended.stdout


@pytest.mark.parametrize(
    "words, message",
    [
        (
            ["three-state", "none.json"],
            "none.json: the quotas were found infeasible, there is no policy to run",
        ),
        (["jobs", "three.json"], "its policy is over 6 state-action pairs, the model has 111"),
        (["three-state", "three.json", "--start", "nowhere"], "there is no state called 'nowhere'"),
    ],
)
def test_what_cannot_be_run(run, words, message):
    ended = run(*words)
    assert isinstance(ended.exception, ProblemError) and message in str(ended.exception)


def test_a_problem_without_quotas(run):
    solve(Problem(scenarios.bandit().mdp)).save("free.json")
    ended = run("bandit", "free.json", "--steps", "50")
    assert ended.exit_code == 0 and "another model" in ended.stdout
