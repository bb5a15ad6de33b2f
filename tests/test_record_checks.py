"""Checks of a log: quiet on logs of Markov models, loud on others; moments against permutations."""

from itertools import pairwise

import numpy as np
import pytest
from benchmarks.checks import made
from scipy.special import chdtrc

from fairmdp import MDP, Log, Quota, learn, record, scenarios
from fairmdp.records import directions, exchange

CHECKS = ["drift", "memory of the state before", "memory of the action before", "likeness to earlier records"]
OF_REWARDS = ["drift of rewards", "likeness of rewards", "memory of the state before in rewards"]


def alarms(log, **beside):
    return [finding.check for finding in log.check(**beside) if finding.alarm]


@pytest.mark.parametrize("statistic", ["table", "likeness 1", "likeness 8"])
def test_moments_are_those_of_permutations(monkeypatch, statistic):
    rng = np.random.default_rng(1)
    stratum, label = np.sort(rng.integers(0, 3, 120)), rng.choice(3, 120, p=[0.9, 0.06, 0.04])
    following = rng.choice(4, 120, p=[0.7, 0.2, 0.05, 0.05])
    told = []
    monkeypatch.setattr(exchange, "_above", lambda *moments: told.append(moments) or 0.5)
    for _ in range(1500):
        mixed = following[np.argsort(stratum + rng.random(120))]
        if statistic == "table":
            exchange.table(stratum, label, mixed)
        else:
            exchange.likeness(stratum, mixed, int(statistic[-1]))
    seen, (mean, variance) = np.array([t[0] for t in told]), told[0][1:3]
    assert seen.mean() == pytest.approx(mean, abs=4 * np.sqrt(variance / 1500))
    assert seen.var() == pytest.approx(variance, rel=0.15)


def test_levels_of_what_has_a_direction():
    rng = np.random.default_rng(2)
    stratum = rng.integers(0, 4, 300)
    against, lasting = [], []
    for _ in range(400):
        y = rng.random((300, 2)) ** 3
        against.append(exchange.against(stratum, y, rng.random((300, 2)) + stratum[:, None]).p)
        lasting.append(exchange.lasting(stratum, y + stratum[:, None], 8).p)
    for p in (against, lasting):
        assert np.mean(np.array(p) < 0.1) < 0.15 and np.mean(np.array(p) < 0.5) > 0.3


def test_deviations_against_labels_have_the_covariance_of_permutations():
    """``Cov(T) = sum over strata of (n - 1)^-1 (sum y y') x (sum z z')``, term by term."""
    rng = np.random.default_rng(3)
    stratum, y, z = rng.integers(0, 3, 40), rng.random((40, 2)), rng.random((40, 3))
    T, covariance = np.zeros(6), np.zeros((6, 6))
    for k in range(3):
        a, b = (part - part.mean(axis=0) for part in (y[stratum == k], z[stratum == k]))
        T += (a.T @ b).ravel()
        covariance += np.kron(a.T @ a, b.T @ b) / (len(a) - 1)
    p = chdtrc(6, T @ np.linalg.solve(covariance, T))
    assert exchange.against(stratum, y, z).p == pytest.approx(p)


@pytest.mark.parametrize("kind", ["markov", "adaptive"])
def test_logs_of_markov_models_raise_no_alarm(kind):
    for seed in range(3):
        for name in ("three-state", "jobs"):
            findings = made(name, kind, 3000, seed).check()
            assert [f.check for f in findings if f.p is not None] == CHECKS
            assert not any(f.alarm for f in findings)


def test_rewards_that_vary_are_looked_at_too():
    log = made("jobs", "markov", 3000, 1, noise=True)
    findings = log.check()
    assert [f.check for f in findings if f.p is not None] == CHECKS + OF_REWARDS
    assert not any(f.alarm for f in findings)
    some = Log(log.labels, log.pairs, log.s_next, log.rewards * (log.pairs < 30), log.times, log.follows)
    assert [f.check for f in some.check() if f.p is not None] == CHECKS + OF_REWARDS
    small = 1e-15 * np.arange(3000)  # as sums are rounded
    always = Log(log.labels, log.pairs, log.s_next, 1 + 0.1 * log.pairs + small, log.times, log.follows)
    assert [f.check for f in always.check() if f.p is not None] == CHECKS


@pytest.mark.parametrize("near", ["before", "time"])
def test_the_level_of_what_leads_the_same_way(near):
    """Permutations of a log have the same distribution as it, so p-values are uniform, or a little larger."""
    rng, p = np.random.default_rng(5), []
    for _ in range(80):
        stratum, label = rng.integers(0, 6, 250), rng.integers(0, 4, 250)
        cell = 5 * stratum + rng.choice(5, 250, p=[0.5, 0.3, 0.1, 0.07, 0.03])
        weights = directions.alike(label) if near == "before" else directions.within(8)
        p.append(directions.common(stratum, exchange.numbers(cell), weights).p)
    assert np.mean(np.array(p) < 0.1) < 0.16 and np.mean(np.array(p) < 0.5) > 0.25
    assert min(p) > 1e-4


def test_weak_likeness_of_many_pairs_is_found_together():
    """Forty pairs of 50 records, in each a little: the label moves next states the same way, up or down."""
    rng, p = np.random.default_rng(6), []
    stratum, label = np.repeat(np.arange(40), 50), rng.integers(0, 2, 2000)
    way = rng.choice([-1, 1], 40)[stratum]
    following = (rng.random(2000) < 0.5 + 0.08 * way * (2 * label - 1)).astype(int)
    p = directions.common(stratum, 2 * stratum + following, directions.alike(label)).p
    turned = rng.choice(
        [-1, 1], (40, 8)
    )  # with eight labels, of which each pair has its own halves: no direction
    label = rng.integers(0, 8, 2000)
    apart = (rng.random(2000) < 0.5 + 0.08 * turned[stratum, label]).astype(int)
    assert p < 1e-6 < directions.common(stratum, 2 * stratum + apart, directions.alike(label)).p


def test_nothing_is_said_where_every_pair_leads_to_one_state():
    stratum = np.repeat(np.arange(3), 4)
    assert directions.common(stratum, stratum, directions.within(2)) is None


@pytest.mark.parametrize(
    ("name", "kind", "check"),
    [
        ("jobs", "drift", "drift"),
        ("jobs", "before", "memory of the state before"),
        ("jobs", "hidden", "likeness to earlier records"),
        ("garnet", "lumped", "memory of the state before"),
        ("garnet", "before", "memory of the state before"),
        ("garnet", "paid before", "memory of the state before in rewards"),
        ("three-state", "paid hidden", "likeness of rewards"),
    ],
)
def test_logs_of_other_systems_do(name, kind, check):
    log = made(name, kind, 12_000, 1, noise=kind.startswith("paid"))
    assert check in alarms(log)


def test_memory_of_the_action_alone():
    rng = np.random.default_rng(3)
    action, state = rng.integers(0, 2, 4000), np.zeros(4001, int)
    for t in range(4000):  # the next state is what was done a step ago, mostly
        state[t + 1] = action[t - 1] if rng.random() < 0.7 else rng.integers(0, 2)
    rows = {"state": state[:-1], "action": action, "reward": np.zeros(4000), "next": state[1:]}
    assert "memory of the action before" in alarms(Log.from_table(rows))


def test_what_lasts_is_seen_within_trajectories():
    """Of every patient one of two things is true, and never recorded."""
    rng, rows = np.random.default_rng(4), []
    for patient in range(150):
        p = (0.3, 0.7)[patient % 2]
        states = (rng.random(21) < p).astype(int)
        rows += [
            {"state": s, "action": "wait", "reward": 0, "next": t, "trajectory": patient}
            for s, t in pairwise(states)
        ]
    assert "likeness to earlier records" in alarms(Log.from_table(rows))


def test_gaps_rare_pairs_and_impossible_transitions_are_said():
    mdp = scenarios.three_state().mdp
    log = record(mdp, steps=400, seed=1)
    rows = log.to_table()
    for column in rows.values():
        del column[7]
    rows["trajectory"] = [0] * 399
    sentences = {f.check: f.sentence for f in Log.from_table(rows).check(possible=mdp)}
    assert sentences["gaps"].startswith("1 of 399 records do not begin")
    assert sentences["impossible"] == "nothing happened that the model calls impossible"
    never = MDP([[1, 0, 0], *mdp.P.toarray()[1:]], mdp.r, mdp.s_of, states=mdp.states)
    found = [f for f in log.check(possible=never) if f.check == "impossible"]
    assert found[0].alarm and "s0/a0 to s1" in found[0].sentence
    few = record(mdp, steps=60, seed=1).check()[-1]
    assert few.check == "hardly tried" and "pairs have fewer than 20 records" in few.sentence


def test_an_alarm_costs_the_claim():
    log = made("three-state", "drift", 20_000, 1)
    found = learn(log, [Quota("2", states=[2], at_least=0.1)])
    assert not found.guaranteed and found.claim.startswith(
        "no claim: the records are not those of a Markov model"
    )
    assert "else confirmed on" in found.claim and any("change over time" in note for note in found.notes)
