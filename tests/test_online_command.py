"""``fairmdp online``: what is shown is what the run did, whatever it begins with."""

import csv
import json
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose

import fairmdp
from fairmdp import Log, OnlineAgent, Policy, Quota, record, run_online, scenarios, solve, views
from fairmdp.cli import cli

WORLD = scenarios.three_state()
STRICTER = solve(WORLD.with_bounds([0.12, 0.12, 0.29]))


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    record(WORLD.mdp, steps=2400, seed=1).to_table().save("log.csv")
    STRICTER.save("stricter.json")
    Policy.of(WORLD, STRICTER).save("policy.csv")
    return lambda *words: CliRunner().invoke(cli, ["online", *words])


def test_the_command_shows_the_run_that_a_script_would_make(run):
    ended = run(
        "three-state", "--steps", "3000", "--seed", "4", "--csv", "curve.csv", "--figure", "curve.svg"
    )
    assert ended.exit_code == 0, ended.output
    same = run_online(WORLD, OnlineAgent(WORLD, seed=4), 3000, seed=4)
    said = same.report
    assert f"gain    {said.gain:.4f} so far, worst slack {said.worst_account / 3000:+.4f}" in ended.stdout
    assert f"no fair policy exceeds {solve(WORLD).gain:.4f}" in ended.stdout
    assert "3,000 steps, every quota was given its due" in ended.stdout
    assert "start   none: nothing is promised" in ended.stdout
    account = f"s2      {said.shares[2]:.4f}   >= 0.25   {said.accounts[2]:+,.1f}"
    assert account in ended.stdout
    with open("curve.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["steps"]) for row in rows] == same.steps.tolist()
    assert_allclose([float(row["account s2"]) for row in rows], same.accounts[:, 2])
    assert Path("curve.svg").read_text().count("restoring") == 1


def test_json_is_all_of_it_and_strict(run):
    data = json.loads(run("three-state", "--steps", "2000", "--quota", "s0<=0.4", "--json").stdout)
    problem = WORLD.with_quotas([Quota("s0", states=["s0"], at_least=0.1, at_most=0.4)])
    same = run_online(problem, OnlineAgent(problem), 2000)
    assert data["quotas"][0]["asked"] == [0.1, 0.4] and data["finished"]
    assert data["worst_account"] == same.report.worst_account == data["worst_slack"] * 2000
    assert data["course"]["steps"] == same.steps.tolist()
    assert np.array_equal(data["course"]["shares"], same.shares)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["log.csv"], "a policy learned with a claim: all quotas are overstepped by at least 0.0"),
        (["stricter.json"], "a solved model"),
        (["policy.csv", "--slack", "0.02"], "a given policy, on the word of the caller"),
    ],
)
def test_safe_starts_are_read_from_files(run, words, said):
    ended = run("three-state", "--steps", "1500", "--safe-start", *words)
    assert ended.exit_code == 0, ended.output
    assert f"  start   {said}" in ended.stdout and "SHORT" not in ended.stdout


def test_a_start_without_slack_is_refused(run):
    ended = run("three-state", "--safe-start", "policy.csv")
    assert "the start has no slack" in str(ended.exception)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["log.csv"], "log.csv holds records, in which nothing can run"),
        (["three-state", "--slack", "0.1"], "--slack is that of a --safe-start"),
        (["three-state", "--checkpoint", "nowhere/run.npz"], "there is no such folder"),
        (["job-server"], "is a world"),
    ],
)
def test_mistakes_in_the_words_are_named(run, words, message):
    ended = run(*words)
    assert ended.exit_code == 2 and message in ended.output


def test_a_checkpoint_goes_on(run):
    run("three-state", "--steps", "700", "--checkpoint", "run.npz", "--json")
    whole = run("three-state", "--steps", "1500", "--json").stdout
    assert run("three-state", "--steps", "1500", "--checkpoint", "run.npz", "--json").stdout == whole


def test_a_run_that_was_stopped_says_so_and_ends_with_4(run, monkeypatch):
    stopped = run_online(WORLD, OnlineAgent(WORLD), 300)
    object.__setattr__(stopped, "finished", False)
    monkeypatch.setattr(fairmdp, "run_online", lambda *words, **named: stopped)
    ended = run("three-state")
    assert ended.exit_code == 4 and "300 steps, stopped, every quota" in ended.stdout


def test_a_simulator_has_no_ceiling_and_nothing_owed_is_said(run, tmp_path, monkeypatch):
    (tmp_path / "own_world.py").write_text(
        "from fairmdp import scenarios\nworld = scenarios.three_state().mdp.simulator()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    ended = run("own_world:world", "--steps", "500", "--quota", "2>=0.25")
    assert ended.exit_code == 0, ended.output
    assert "no fair policy exceeds" not in ended.stdout and "worst slack" in ended.stdout
    ended = run("three-state", "--rho", "0,0,0", "--steps", "500", "--figure", "free.png")
    assert "nothing is owed" in ended.stdout and ended.exit_code == 0


def test_a_debt_is_said(run):
    """Quotas that no policy meets are short whatever the agent does, and there is no ceiling."""
    ended = run("three-state", "--rho", "0.1,0.1,0.5", "--steps", "2000")
    assert "1 of 3 quotas are short of their due" in ended.stdout and "SHORT" in ended.stdout
    assert "no fair policy exceeds" not in ended.stdout and "note    on the model" in ended.stdout


def test_an_environment_is_run_by_its_id(run):
    words = ["FrozenLake-v1", "-p", "is_slippery=false", "--on-terminate", "restart"]
    ended = run(*words, "--quota", "0<=0.4", "--steps", "200", "--seed", "2", "--json")
    assert ended.exit_code == 0, ended.output
    lake = gymnasium.make("FrozenLake-v1", is_slippery=False)
    agent = OnlineAgent(lake, [Quota("0", states=["0"], at_most=0.4)], seed=2)
    same = run_online(lake, agent, 200, seed=2, on_terminate="restart").report
    data = json.loads(ended.stdout)
    assert data["gain"] == same.gain and data["worst_account"] == same.worst_account
    assert data["upper"] is None and len(agent.problem.mdp.states) == 16


def test_an_environment_begins_with_what_its_records_show(run):
    """A log of episodes knows what leads from the end of one to the next, and its states by number."""
    lake, rng, episodes = gymnasium.make("FrozenLake-v1"), np.random.default_rng(0), []
    for seed in range(400):
        states, actions, rewards = [lake.reset(seed=seed)[0]], [], []
        ended = cut = False
        while not (ended or cut):
            actions.append(int(rng.integers(4)))
            state, reward, ended, cut, _ = lake.step(actions[-1])
            states.append(state)
            rewards.append(reward)
        ends = np.arange(len(actions)) == len(actions) - 1
        episode = {"observations": states, "actions": actions, "rewards": rewards}
        episodes.append(episode | {"terminations": ends & ended})
    Log.from_trajectories(episodes, on_terminate="restart").to_table().save("lake.csv")
    words = ["--on-terminate", "restart", "--quota", "0<=0.7", "--steps", "1500", "--safe-start", "lake.csv"]
    ended = run("FrozenLake-v1", *words)
    assert ended.exit_code == 0, ended.output
    assert "a policy learned with a claim" in ended.stdout and "SHORT" not in ended.stdout


def test_what_cannot_be_run_is_said(run, tmp_path, monkeypatch):
    made = "import gymnasium\n\ndef cart():\n    return gymnasium.make('CartPole-v1')\n"
    (tmp_path / "my_envs.py").write_text(made)
    monkeypatch.syspath_prepend(tmp_path)
    for words, message in (
        (["FrozenLake-v1", "--steps", "400"], "or --on-terminate restart"),
        (["FrozenLke-v1"], "gymnasium.make('FrozenLke-v1') failed, NameNotFound"),
        (["my_envs:cart"], "expected Discrete(n)"),
        (["FrozenLake-v1", "-p", "8x8"], "expected NAME=VALUE of the environment"),
        (["three-state", "--on-terminate", "restart"], "--on-terminate is for environments"),
    ):
        ended = run(*words)
        assert ended.exit_code and message in ended.output + str(ended.exception)


def test_no_step_is_no_figure():
    none = run_online(WORLD, OnlineAgent(WORLD), 300)
    object.__setattr__(none, "steps", none.steps[:0])
    with pytest.raises(Exception, match="nothing to draw"):
        views.plots.plot_online(none)
