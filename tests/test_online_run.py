"""Runs of the agent: in models, simulators and environments, killed and taken up again; intervals at any time."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from itertools import pairwise

import gymnasium
import numpy as np
import pytest

from fairmdp import (
    MDP,
    FormatError,
    Log,
    OnlineAgent,
    Problem,
    ProblemError,
    Quota,
    run_online,
    scenarios,
    solve,
)
from fairmdp.chains.policy import ladder
from fairmdp.learning import Running
from fairmdp.model.labels import Labels
from fairmdp.online.intervals import Cycles, half_width
from fairmdp.online.systems import system_of

WORLD = scenarios.three_state()
START = solve(WORLD.with_bounds([0.12, 0.12, 0.29]))


def agent(seed=1, **rest):
    return OnlineAgent(WORLD, start=START, seed=seed, **rest)


def same(one, other):
    """Whether two runs are one, to the last bit."""
    arrays = ("steps", "gains", "shares", "accounts", "cushions", "restoring")
    equal = all(np.array_equal(getattr(one, name), getattr(other, name)) for name in arrays)
    return (
        equal and repr(one.report) == repr(other.report) and (one.report.shares == other.report.shares).all()
    )


def test_the_course_is_what_there_was():
    mine = agent()
    run = run_online(WORLD, mine, 3000, seed=5)
    assert run.finished and mine.steps == 3000 and run.report.steps == 3000
    assert 256 <= run.steps.size < 512 and (np.diff(run.steps) == np.diff(run.steps)[0]).all()
    assert np.allclose(run.accounts, run.steps[:, None] * (run.shares - WORLD.at_least), atol=1e-9)
    assert run.restoring[0] and not run.restoring.all()
    table = run.to_table()
    assert table["steps"][-1] == run.steps[-1] and len(table["share s2"]) == run.steps.size
    assert run.report.lowest.max() <= 0 and (run.report.lowest <= run.accounts.min(axis=0) + 1e-9).all()


def test_what_the_world_does_follows_from_its_seed_alone():
    world = Running(WORLD.mdp, 3)
    system = system_of(WORLD, Labels.of(WORLD.mdp), 3, None)
    first = [system.step(0)[1] for _ in range(200)]
    again = system_of(WORLD.mdp, Labels.of(WORLD.mdp), 3, None)
    assert first == [again.step(0)[1] for _ in range(200)]
    assert world.state in range(3)


def test_an_agent_with_other_numbers_acts_by_name():
    mdp = WORLD.mdp
    turned = Labels(mdp.states[::-1], mdp.actions, mdp.pair_ptr)
    other = OnlineAgent(turned, [Quota("s2", ["s2"], at_least=0.25)], seed=1)
    run = run_online(WORLD, other, 500, seed=2)
    other._count()
    assert run.report.shares[0] == other._visits[:2].sum() / 500  # s2 comes first there


def test_a_simulator_is_a_world_too():
    runs = [run_online(WORLD.mdp.simulator(), agent(), 400, seed=s) for s in (1, 1, 2)]
    assert same(runs[0], runs[1]) and not same(runs[0], runs[2])
    with pytest.raises(ProblemError, match="cannot act in a str"):
        run_online("three-state", agent(), 10)


@pytest.mark.parametrize("world", [WORLD, WORLD.mdp.simulator()], ids=["model", "simulator"])
def test_a_run_goes_on_from_its_checkpoint(tmp_path, world):
    whole = run_online(world, agent(), 2000, seed=3)
    for steps in (700, 701, 2000):
        mine = agent()
        run = run_online(world, mine, steps, seed=3, checkpoint=tmp_path / "run.npz")
        assert mine.steps == run.report.steps == steps
    assert same(run, whole)
    assert mine.act(0) in (0, 1)


def test_checkpoints_of_other_runs_are_refused(tmp_path):
    file = tmp_path / "run.npz"
    run_online(WORLD, agent(), 300, seed=3, checkpoint=file)
    for other, seed in ((agent(seed=2), 3), (agent(), 4)):
        with pytest.raises(ProblemError, match=r"run.npz: this checkpoint is of another run"):
            run_online(WORLD, other, 400, seed=seed, checkpoint=file)
    agent().save(file)
    with pytest.raises(FormatError, match="not a checkpoint"):
        run_online(WORLD, agent(), 400, seed=3, checkpoint=file)
    file.write_bytes(b"half a file")
    with pytest.raises(FormatError, match=r"run\.npz"):
        run_online(WORLD, agent(), 400, seed=3, checkpoint=file)


SCRIPT = """
    import os, signal, sys
    from fairmdp import OnlineAgent, run_online, scenarios, solve

    world = scenarios.three_state()
    agent = OnlineAgent(world, start=solve(world.with_bounds([0.12, 0.12, 0.29])), seed=1)

    def die(done, steps, report):
        if sys.argv[2] == "die" and done > 900:
            os.kill(os.getpid(), signal.SIGKILL)

    run_online(world, agent, 2000, seed=3, checkpoint=sys.argv[1], every=0.0, progress=die, tell=0.0)
"""


@pytest.mark.slow
def test_a_run_that_was_killed_is_the_same_run(tmp_path):
    (tmp_path / "script.py").write_text(textwrap.dedent(SCRIPT))

    def ended(*words):
        return subprocess.run(
            [sys.executable, tmp_path / "script.py", *words], timeout=120, check=False
        ).returncode

    assert ended(str(tmp_path / "a.npz"), "die") == -signal.SIGKILL
    kept = tmp_path / "a.npz"
    assert json.loads(np.load(kept)["agent.facts"].tobytes())["_t"] == 768
    assert ended(str(kept), "live") == 0
    run_online(WORLD, agent(), 2000, seed=3, checkpoint=tmp_path / "b.npz")
    assert kept.read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_ctrl_c_ends_a_run_between_two_steps(tmp_path):
    def interrupt(done, steps, report):
        if done < 1000:
            os.kill(os.getpid(), signal.SIGINT)

    run = run_online(
        WORLD, agent(), 10**6, seed=3, checkpoint=tmp_path / "run.npz", progress=interrupt, tell=0.0
    )
    assert not run.finished and 0 < run.report.steps < 10**4
    whole = run_online(WORLD, agent(), 3000, seed=3)
    assert same(run_online(WORLD, agent(), 3000, seed=3, checkpoint=tmp_path / "run.npz"), whole)


class Corridor(gymnasium.Env):
    """Five places; 1 leads ahead, mostly, and the last one ends an episode."""

    observation_space, action_space = gymnasium.spaces.Discrete(5), gymnasium.spaces.Discrete(2)

    def __init__(self, ends=True, longest=None):
        self.ends, self.longest, self.resets = ends, longest, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.age, self.resets = 0, 0, self.resets + 1
        return self.place, {}

    def step(self, action):
        ahead = self.np_random.random() < (0.9 if action == 1 else 0.1)
        self.place = min(self.place + 1, 4) if ahead else max(self.place - 1, 0)
        self.age += 1
        return self.place, float(self.place == 4), self.ends and self.place == 4, self.age == self.longest, {}


HALF_WAY = [Quota("half way", [1, 2, 3], at_least=0.4)]


def test_an_environment_ends_its_episodes_by_a_step_of_their_own():
    env = Corridor()
    mine = OnlineAgent((5, 2), HALF_WAY, seed=1)
    run = run_online(env, mine, 2000, on_terminate="restart")
    assert run.report.met.all() and env.resets > 20
    mine._begin_epoch()
    led = mine._belief.now.counts
    assert led[8:, 0].sum() == led[8:].sum() == env.resets - 1  # from the last place to the first
    assert mine._belief.now.paid[8:].sum() == 0
    with pytest.raises(ProblemError, match=r"the episode ended in state 4[\s\S]*on_terminate='restart'"):
        run_online(Corridor(), OnlineAgent((5, 2), HALF_WAY, seed=1), 2000)
    with pytest.raises(ProblemError, match="on_terminate is 'absorb'"):
        run_online(Corridor(), OnlineAgent((5, 2), HALF_WAY, seed=1), 20, on_terminate="absorb")


def test_what_is_cut_off_is_not_a_step():
    env = Corridor(ends=False, longest=10)
    mine = OnlineAgent((5, 2), HALF_WAY, seed=1)
    run_online(env, mine, 1000)
    mine._begin_epoch()
    assert env.resets == 101
    assert mine._belief.now.counts[6:, 0].sum() == 0  # nothing leads back from afar


def test_an_environment_is_kept_by_what_was_done_in_it(tmp_path):
    def run(steps, env=None, **rest):
        return run_online(
            env or Corridor(), OnlineAgent((5, 2), HALF_WAY, seed=1), steps, on_terminate="restart", **rest
        )

    whole = run(900)
    run(400, checkpoint=tmp_path / "run.npz")
    assert same(run(900, checkpoint=tmp_path / "run.npz"), whole)

    class Forgetful(Corridor):
        def reset(self, *, seed=None, options=None):
            return super().reset(seed=None if seed is None else os.getpid())

    (tmp_path / "run.npz").unlink()
    run(400, checkpoint=tmp_path / "run.npz")
    with pytest.raises(FormatError, match="does not repeat itself"):
        run(900, Forgetful(), checkpoint=tmp_path / "run.npz")


def test_a_log_of_an_environment_is_enough_to_begin_with():
    env, rng, episodes = Corridor(), np.random.default_rng(1), []
    for n in range(60):
        states, actions, rewards, over = [env.reset(seed=n)[0]], [], [], False
        while not over:
            actions.append(int(rng.integers(2)))
            state, reward, over, _, _ = env.step(actions[-1])
            states.append(state)
            rewards.append(reward)
        ends = [False] * (len(actions) - 1) + [True]
        episodes.append(
            {"observations": states, "actions": actions, "rewards": rewards, "terminations": ends}
        )
    log = Log.from_trajectories(episodes, on_terminate="restart")
    mine = OnlineAgent(log, [Quota("half way", ["1", "2", "3"], at_least=0.4)], records=log, seed=1)
    run = run_online(Corridor(), mine, 1500, on_terminate="restart")
    assert run.report.met.all() and run.report.drifts == ()


def chain_run(mdp, policy, steps, seed):
    """States of a chain, (steps,), by numpy alone."""
    rng, rungs = np.random.default_rng(seed), ladder(mdp, policy)
    P, pairs, s = mdp.P.toarray().cumsum(axis=1), [], 0
    for u, v in rng.random((steps, 2)):
        pairs.append(int(np.searchsorted(rungs, s + u, side="right")))
        s = int(np.searchsorted(P[pairs[-1]], v))
    return np.array(pairs)


def test_cycles_are_those_between_visits_however_they_are_counted():
    mdp = WORLD.mdp
    pairs = chain_run(mdp, START.policy, 3000, 1)
    counts = WORLD.members.toarray().T
    cycles = Cycles(counts, mdp.s_of == 1)
    for part in np.split(pairs, [0, 1, 2, 7, 7, 500, 501, 2000]):
        cycles.add(part)
    at = np.flatnonzero(mdp.s_of[pairs] == 1)
    Y = np.array([counts[pairs[a:b]].sum(axis=0) for a, b in pairwise(at)])
    L = np.diff(at)
    assert cycles.n == L.size
    assert np.allclose(cycles.sums[:, 0], Y.sum(axis=0)) and (cycles.sums[:, 1] == L.sum()).all()
    said = cycles.intervals(0.05)
    ratio = Y.sum(axis=0) / L.sum()
    s = (Y - ratio * L[:, None]).std(axis=0, ddof=1)
    assert np.allclose(said.shares, ratio)
    assert np.allclose(said.high - said.shares, s / L.mean() * half_width(L.size, 0.05 / 3))
    assert said.steps == L.sum() < 3000


def test_intervals_hold_whenever_one_looks():
    """Twenty runs, looked at after every fifty cycles: the normal interval fails in half of such runs."""
    truth, wrong = START.shares, 0
    for seed in range(20):
        pairs = chain_run(WORLD.mdp, START.policy, 2500, 100 + seed)
        cycles, ever = Cycles(WORLD.members.toarray().T, WORLD.mdp.s_of == 1), False
        for part in np.array_split(pairs, 50):
            cycles.add(part)
            said = cycles.intervals(0.05)
            ever |= bool(((said.low > truth + 1e-9) | (said.high < truth - 1e-9)).any())
        wrong += ever
        assert (said.high - said.low < 0.2).all()
    assert wrong <= 3


def test_half_widths_fall_like_a_root_and_pay_for_looking():
    normal = 1.96 / np.sqrt(500)
    assert normal < half_width(500, 0.05) < 2 * normal
    assert half_width(50, 0.05) > half_width(500, 0.05) > half_width(5000, 0.05)
    assert half_width(500, 0.01) > half_width(500, 0.05)


def test_intervals_begin_anew_with_a_new_policy():
    mine = agent()
    run_online(WORLD, mine, 60, seed=1)
    assert mine.report().long_run.cycles == 0 or mine.report().long_run.steps <= 60
    earning = run_online(WORLD, mine, 20_000, seed=1).report
    said = earning.long_run
    assert said.steps < 20_000 - 60
    if said.cycles >= 200:
        x = mine._policy
        P = np.zeros((3, 3))
        np.add.at(P, WORLD.mdp.s_of, x[:, None] * WORLD.mdp.P.toarray())
        nu = np.linalg.matrix_power(P, 4096)[0]
        truth = WORLD.members @ (x * nu[WORLD.mdp.s_of])
        assert (said.low <= truth).all() and (truth <= said.high).all()


def test_what_others_do_is_not_the_policys():
    mine = OnlineAgent(
        Problem(
            MDP([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]], [0, 1, 0], [0, 0, 1]), [Quota("x", [0], at_least=0.1)]
        ),
        seed=1,
    )
    s = 0
    rng = np.random.default_rng(1)
    for _ in range(500):
        mine.act(s)
        t = int(rng.integers(2))
        mine.observe(s, 0 if s else int(rng.integers(2)), 0.0, t)
        s = t
    assert mine.report().long_run.steps < 250
