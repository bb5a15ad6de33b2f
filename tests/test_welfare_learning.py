"""Learning for a welfare: the claim, its level, where samples go, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks.claims import WORLDS, Noisy
from benchmarks.welfare_claims import run as claimed
from click.testing import CliRunner
from scipy.stats import beta

import fairmdp as fm
from fairmdp import MDP, Chain, Problem, ProblemError, Quota, Utility, scenarios
from fairmdp.cli import cli
from fairmdp.learning.aim import Welfare
from fairmdp.learning.counts import Counts, sample_chunk
from fairmdp.learning.posterior import floor
from fairmdp.model.objectives import value_at

THREE = scenarios.three_state()
SIMULATOR = THREE.mdp.simulator()
STATES = [Utility(f"s{k}", states=[k]) for k in range(3)]


def truth(problem, policy, objective, reward=0.0):
    x = policy * Chain.of(problem.mdp, policy).shares[problem.mdp.s_of]
    return value_at(objective, problem.members @ x) + reward * float(problem.mdp.r @ x)


@pytest.mark.parametrize(
    ("objective", "reward"),
    [(fm.alpha_fair(1), 0.0), (fm.alpha_fair(2), 1.0), (fm.gini(), 1.0), (fm.entropy(), 0.5)],
)
def test_the_learned_policy_is_nearly_the_fair_point(objective, reward):
    found = fm.learn(SIMULATOR, STATES, samples=12_000, objective=objective, reward=reward, seed=3)
    best = fm.solve_welfare(Problem(THREE.mdp, STATES), objective, reward=reward)
    welfare = found.welfare
    true = truth(Problem(THREE.mdp, STATES), found.policy, objective, reward)
    assert found.guaranteed and welfare.low <= true <= best.welfare_upper <= welfare.upper + 0.01 * abs(true)
    assert best.welfare - true < 0.01 * (1 + abs(true)) and true - welfare.low < 0.02 * (1 + abs(true))
    assert f"welfare is at least {welfare.low:.6g}" in found.claim and found.tested_samples == 8400
    np.testing.assert_allclose(welfare.utilities, best.utilities, atol=0.05)


def test_quotas_are_tested_at_half_of_the_level():
    found = fm.learn(SIMULATOR, THREE.quotas, samples=12_000, objective=fm.alpha_fair(1), reward=1.0, seed=1)
    x = found.policy * Chain.of(THREE.mdp, found.policy).shares[THREE.mdp.s_of]
    assert found.guaranteed and (THREE.members @ x >= THREE.at_least).all()
    assert (found.share_low >= THREE.at_least).all()
    assert found.welfare.low <= truth(THREE, found.policy, fm.alpha_fair(1), 1.0)
    assert "misses a quota" in found.claim and "nash welfare is at least" in found.claim


def test_the_floor_of_one_row_is_that_of_clopper_and_pearson():
    """Two states, one choice that is random: the welfare is a function of one probability."""
    rows = [Utility("0", states=[0]), Utility("1", states=[1])]
    owed = Problem(MDP([[0.5, 0.5], [1, 0]], [0.0, 0.0], [0, 1]), rows)
    pairs, s_next = np.repeat([0, 0, 1], [37, 13, 10**6]), np.repeat([0, 1, 0], [37, 13, 10**6])
    counts = Counts.of(pairs, s_next, np.zeros(pairs.size), 2, 2)
    aim = Welfare.of(owed, fm.alpha_fair(1), None, 0.0)
    low = floor(
        owed,
        counts,
        np.ones(2),
        (0.0, np.array([0.6, 2.5])),
        aim.values,
        0.05,
        20_000,
        np.random.default_rng(0),
    )
    p = beta.ppf(0.05, 13, 37 + 1)  # the share of 1 rises with p, and the welfare too below one half
    u = p / (1 + p)
    assert low == pytest.approx(0.5 * np.log(u) + 0.5 * np.log(1 - u), abs=0.02)


def test_rewards_are_drawn_with_their_errors():
    """One state, one pair: the floor of its gain is that of a mean of normal numbers."""
    rewards = np.random.default_rng(1).normal(2.0, 1.0, 400)
    owed = Problem(MDP([[1.0]], [0.0], [0]), [Utility("all", states=[0])])
    counts = Counts.of(np.zeros(400, int), np.zeros(400, int), rewards, 1, 1)
    aim = Welfare.of(owed, fm.max_min(), None, 1.0)
    low = floor(
        owed, counts, np.ones(1), (1.0, np.ones(1)), aim.values, 0.05, 20_000, np.random.default_rng(0)
    )
    error = rewards.std(ddof=1) / 20
    assert low == pytest.approx(1 + rewards.mean() - 1.645 * error, abs=0.05 * error)


def test_floors_are_quantiles_of_chains_that_are_solved_one_by_one():
    problem = scenarios.garnet(n_states=6, n_actions=2, branching=3, n_quotas=2, seed=4)
    policy = np.random.default_rng(0).dirichlet(np.ones(2), 6).ravel()
    counts = sample_chunk(problem.mdp.simulator(), np.repeat(np.arange(12), 30), np.random.SeedSequence(3))
    aim, worth = Welfare.of(problem, fm.alpha_fair(1), None, 0.0), np.array([1.0, 3.0])
    low = floor(problem, counts, policy, (0.0, worth), aim.values, 0.2, 9, np.random.default_rng(5))
    shell, rng, found = problem.mdp, np.random.default_rng(5), []
    seen = Chain.of(counts.model(shell), policy)
    h = seen.fundamental_matrix @ (
        np.add.reduceat(policy[:, None] * problem.members.T.toarray(), shell.pair_ptr[:-1]) @ worth
    )
    i = int(
        np.argmax(policy * seen.shares[shell.s_of] / counts.per_pair * (counts.frequencies @ h - h.min()))
    )
    gammas = rng.standard_gamma(counts.times.astype(float), size=(9, counts.keys.size))
    for gamma, extra in zip(gammas, rng.standard_exponential(9), strict=True):
        P = np.zeros((12, 6))
        P[counts.pairs, counts.s_next] = gamma
        P[i, np.argmin(h)] += extra
        drawn = Problem(MDP(P / P.sum(axis=1, keepdims=True), np.zeros(12), shell.s_of), problem.quotas)
        found.append(truth(drawn, policy, fm.alpha_fair(1)))
    assert low == pytest.approx(np.sort(found)[1], rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("world", ["near ties", "rare state", "slow mixing"])
def test_claims_are_seldom_false(world):
    found = [claimed(world, "nash", 100, seed, False, 0.05) for seed in range(900, 908)]
    assert sum(guaranteed for guaranteed, *_ in found) >= 4 and sum(false for _, false, *_ in found) <= 2


def test_a_group_that_was_never_seen_costs_the_claim():
    """The samples show no way into c, and no logarithm of its share."""
    mdp = MDP([[0.5, 0.5, 0], [0.3, 0.7, 0], [0.1, 0.9, 0], [0.5, 0.5, 0]], [1.0, 2, 3, 1], [0, 0, 1, 2])
    groups = [Utility(name, states=[s]) for s, name in enumerate("abc")]
    found = fm.learn(mdp.simulator(), groups, samples=1000, objective=fm.alpha_fair(1))
    assert not found.guaranteed and "minus infinity" in found.claim and found.welfare.low == -np.inf
    assert fm.learn(mdp.simulator(), groups, samples=1000, objective=fm.gini()).guaranteed


def test_where_an_interrupt_leaves_it():
    problem, noise = WORLDS["near ties"][0](0), WORLDS["near ties"][1]

    class Breaking(Noisy):
        left = 4

        def sample(self, states, actions, rng):
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
            return super().sample(states, actions, rng)

    groups = [Utility(f"{s}", states=[s]) for s in range(5)]
    found = fm.learn(Breaking(problem.mdp, noise), groups, samples=3000, objective=fm.gini())
    assert not found.finished and not found.guaranteed and found.welfare.low == -np.inf


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"eps": 0.1, "objective": fm.gini()}, "an objective takes a budget"),
        ({"samples": 100, "over": ["s0"]}, "give objective, too"),
        ({"samples": 100, "objective": fm.leximin()}, "leximin has a value for each level"),
        ({"samples": 100, "objective": fm.gini(), "over": ["north"]}, "no quota called 'north'"),
        ({"samples": 100, "objective": fm.gini(), "method": "mirror"}, "mirror descent maximises the gain"),
        ({"samples": 100, "objective": "nash"}, "objective is 'nash', expected one such as"),
    ],
)
def test_what_cannot_be_learned_is_refused(options, words):
    with pytest.raises(ProblemError, match=words):
        fm.learn(SIMULATOR, STATES, **options)


def test_logs_take_no_objective():
    log = fm.record(THREE.mdp, steps=100)
    with pytest.raises(ProblemError, match="objective is for simulators"):
        fm.learn(log, [Quota("s2", states=["s2"], at_least=0.1)], objective=fm.gini())


def test_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ended = CliRunner().invoke(
        cli,
        [
            "learn",
            "three-state",
            "--names-only",
            "--by",
            "nash",
            "--gain",
            "1",
            "--samples",
            "6000",
            "-o",
            "kept.json",
        ],
    )
    assert ended.exit_code == 0, ended.output
    assert "(estimate) of nash + 1 gain; no policy seems to have more than -0.6" in ended.stdout
    assert "nash welfare is at least -0.6" in ended.stdout and "groups  s0 0.3" in ended.stdout
    kept = json.loads(Path("kept.json").read_text())["welfare"]
    assert (
        kept["principle"] == "nash"
        and kept["low"] <= kept["value"]
        and set(kept["utilities"]) == {"s0", "s1", "s2"}
    )
    for words, complaint in (
        (["--over", "s0", "--samples", "100"], "say what --by is of"),
        (["--by", "gini", "--eps", "0.1"], "--by takes a budget"),
        (["--by", "gini", "--samples", "100", "--method", "mirror"], "mirror descent maximises the gain"),
    ):
        ended = CliRunner().invoke(cli, ["learn", "three-state", *words])
        assert ended.exit_code == 2 and complaint in ended.output
