"""What was done, judged from records: intervals, verdicts, and the best fair policy beside it."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from fairmdp import Chain, Log, Policy, Quota, audit_log, record, scenarios
from fairmdp.cli import cli

UNFAIR = np.array([0.9, 0.1, 0.1, 0.9, 0.9, 0.1])


def truth(problem, policy):
    """Long-run shares of the quotas, then the gain."""
    x = policy * Chain.of(problem.mdp, policy).shares[problem.mdp.s_of]
    return np.append(problem.members @ x, problem.mdp.r @ x)


@pytest.mark.parametrize("seed", range(3))
def test_intervals_hold_and_what_is_broken_is_named(seed):
    problem = scenarios.three_state()
    log = record(problem.mdp, UNFAIR, steps=4000, seed=seed)
    seen, true = audit_log(log, problem.quotas, delta=0.01), truth(problem, UNFAIR)
    assert (seen.share_low <= true[:3]).all() and (true[:3] <= seen.share_high).all()
    assert seen.gain_low <= true[3] <= seen.gain_high
    assert (seen.share_high - seen.share_low < 0.05).all() and seen.gain_high - seen.gain_low < 0.05
    assert seen.broken == ("s2",) and seen.verdict == "not fair" and seen.worst_slack < 0
    assert seen.recorded.tolist() == [np.mean(problem.mdp.s_of[log.pairs] == s) for s in range(3)]
    assert np.abs(seen.policy.array - UNFAIR).max() < 0.03
    assert seen.best.guaranteed and truth(problem, seen.best.policy)[2] >= 0.249


def test_few_records_leave_it_undecided():
    problem = scenarios.three_state()
    true = truth(problem, UNFAIR)
    quotas = [Quota("s1", states=["s1"], at_least=float(true[1])), Quota("all", states=[0, 1], at_least=0.01)]
    seen = audit_log(record(problem.mdp, UNFAIR, steps=300, seed=1), quotas)
    assert seen.verdicts == ("undecided", "fair") and seen.verdict == "undecided"
    assert seen.doubt[0] > 0.05 >= seen.doubt[1] > 0


def test_quotas_on_pairs_and_weights_and_noisy_rewards():
    problem = scenarios.three_state()
    quiet = record(problem.mdp, steps=5000, seed=2)
    noise = np.random.default_rng(0).standard_normal(5000)
    log = Log(quiet.labels, quiet.pairs, quiet.s_next, quiet.rewards + noise, quiet.times, quiet.follows)
    quotas = [
        Quota("s0/a1", pairs=[("s0", "a1")], at_most=0.2),
        Quota("weights", weights={"s1": -1.0, "s2": 3.0}, at_least=0.5),
    ]
    seen = audit_log(log, quotas)
    owed = log.problem(quotas)
    even = np.full(6, 0.5)
    x = even * Chain.of(problem.mdp, even).shares[problem.mdp.s_of]
    true = owed.members @ x
    assert (seen.share_low <= true).all() and (true <= seen.share_high).all()
    width = seen.gain_high - seen.gain_low
    assert 0.8 * 2 * 1.96 / np.sqrt(5000) < width < 1.5 * 2 * 1.96 / np.sqrt(5000)  # of the noise, mostly
    again = audit_log(log, quotas)
    assert again.gain_low == seen.gain_low and again.doubt.tolist() == seen.doubt.tolist()


def test_parts_that_do_not_meet_again_get_no_interval():
    rows = {"state": ["a", "b"] * 20, "action": ["stay"] * 40, "reward": [0] * 40, "next": ["a", "b"] * 20}
    seen = audit_log(Log.from_table(rows), [Quota("a", states=["a"], at_least=0.1)])
    assert np.isnan(seen.share_low[0]) and seen.verdict == "undecided"
    assert "parts that do not meet again" in seen.notes[0] and seen.recorded[0] == 0.5


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    record(scenarios.three_state().mdp, UNFAIR, steps=3000, seed=1).to_table().save("log.csv")
    return lambda *words: CliRunner().invoke(cli, ["audit", *words])


def test_what_is_not_known_is_no_number(run, tmp_path):
    lines = ["state,action,reward,next"] + ["a,stay,0,a", "b,stay,1,b"] * 20
    (tmp_path / "apart.csv").write_text("\n".join(lines))
    shown = run("apart.csv", "--quota", "a>=0.1").stdout
    assert "done    of the long run nothing is known" in shown and "nan" not in shown


def test_the_command_judges_records(run):
    ended = run("log.csv", "--quota", "s2>=0.25", "--mended", "fair.csv", "--csv", "table.csv")
    assert ended.exit_code == 3, ended.output
    assert "what was done is not fair, it breaks s2" in ended.stdout
    assert "check   what follows does not seem to change over time" in ended.stdout
    assert "NOT MET" in ended.stdout and "confirmed on 1,500 later records" in ended.stdout
    policy = Policy.of(scenarios.three_state().mdp, Policy.load("fair.csv"))
    assert truth(scenarios.three_state(), policy.array)[2] >= 0.25
    data = json.loads(run("log.csv", "--quota", "s2>=0.25", "--json").stdout)
    row = data["quotas"][0]
    assert data["verdict"] == "not fair" and row["share_low"] < row["recorded"] < row["share_high"] < 0.25
    assert run("log.csv", "--quota", "s2>=0.02").exit_code == 0


def test_a_model_alone_cannot_be_judged(run):
    ended = run("three-state")
    assert ended.exit_code == 2 and "name the POLICY to judge on three-state" in ended.output
    assert run("log.csv", "--quota", "s2>=0.25", "--seconds", "3").exit_code == 2
