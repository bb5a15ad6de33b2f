"""Read-outs, max-min and leximin shares, and policies side by side."""

import json

import numpy as np
import pytest
from checks import long_run
from click.testing import CliRunner
from models import random_problem

from fairmdp import MDP, Problem, ProblemError, Quota, Status, save, scenarios, solve, verify
from fairmdp.certificate.readout import Readout, readout
from fairmdp.cli import cli
from fairmdp.solution.solution import Note, Remark
from fairmdp.welfare.maxmin import solve_max_min

THREE = scenarios.three_state()


def test_readout_is_that_of_the_policys_chain():
    problem = random_problem(3)
    policy = np.random.default_rng(0).random(problem.mdp.n_pairs)
    policy /= np.add.reduceat(policy, problem.mdp.pair_ptr[:-1])[problem.mdp.s_of]
    seen = readout(problem, policy)
    x = policy * long_run(problem, policy)[problem.mdp.s_of]
    assert seen.shares == pytest.approx(problem.members @ x) and seen.gain == pytest.approx(problem.mdp.r @ x)


def test_a_readout_is_proved():
    problem = random_problem(3)
    seen = readout(problem, solve(problem).policy)
    assert 0 < seen.share_error < 1e-9 and 0 < seen.gain_error < 1e-9 * np.ptp(problem.mdp.r)
    thread = MDP([[1.0, 1e-310], [1e-310, 1.0]], [0.0, 1.0], [0, 1])  # chances that underflow
    with pytest.raises(ProblemError, match="cannot be proved"):
        readout(Problem(thread, [Quota("a", states=[0], at_least=0)]), [1.0, 1.0])


def test_a_readout_of_runs_that_end_apart():
    """Half of the runs stay in each of two states; a policy is drawn that stays in the first, or goes on."""
    apart = MDP(np.eye(2), [0.0, 1.0], [0, 1])
    quotas = [Quota("a", states=[0], at_least=0.2), Quota("b", states=[1], at_least=0.2, expected=True)]
    seen = readout(Problem(apart, quotas), [1.0, 1.0])
    assert seen.gain == 0.5 and seen.by_group == {"a": 0.5, "b": 0.5} and seen.broken == ("a",)
    assert seen.slacks == pytest.approx([-0.2, 0.3], abs=1e-12) and 0 < seen.share_error < 1e-12
    left = MDP([[1, 0], [0, 1], [0, 1]], [0.0, 0.0, 1.0], [0, 0, 1], initial="0")
    seen = readout(Problem(left, quotas[1:]), [[1, 0, 1], [0, 1, 1]], weights=[0.25, 0.75])
    assert seen.gain == 0.75 and seen.shares == pytest.approx([0.75])
    with pytest.raises(ProblemError, match="^weights has shape"):
        readout(Problem(left, quotas[1:]), [[1, 0, 1], [0, 1, 1]], weights=[1.0])


@pytest.mark.parametrize(
    "shares, jain, gini, ratio, difference",
    [
        ([0.2, 0.2, 0.2], 1, 0, 1, 0),
        ([0.6, 0, 0], 1 / 3, 2 / 3, 0, 0.6),
        ([0.1, 0.3], 0.16 / (2 * 0.1), 0.25, 1 / 3, 0.2),
        ([0.0, 0.0], 1, 0, 1, 0),
    ],
)
def test_indices_against_their_definitions(shares, jain, gini, ratio, difference):
    shares = np.array(shares)
    seen = Readout(tuple("abc"[: shares.size]), shares, np.ones(shares.size), 0.0)
    assert [seen.jain, seen.gini, seen.ratio(), seen.difference()] == pytest.approx(
        [jain, gini, ratio, difference]
    )
    pairs = np.abs(shares[:, None] - shares).sum() / (2 * shares.size * max(shares.sum(), 1e-300))
    assert seen.gini == pytest.approx(pairs)
    assert seen.overall == pytest.approx(shares.mean())


def test_what_is_no_policy_is_refused():
    with pytest.raises(ProblemError, match="no distribution over the actions of state s0: it sums to 2"):
        readout(scenarios.three_state(), np.ones(6))


def test_broken_and_binding_quotas_are_told_apart():
    fair, free = (readout(THREE, solve(p).policy) for p in (THREE, THREE.without_quotas()))
    assert fair.binding == ("s2",) and fair.broken == ()
    assert free.binding == () and free.broken == ("s2",)
    assert fair.group_max()[0] == "s0" and fair.by_group["s2"] == pytest.approx(0.25)


def test_max_min_of_the_paper_is_a_third():
    even = solve_max_min(THREE)
    assert even.status is Status.OPTIMAL
    assert even.shares == pytest.approx([1 / 3] * 3, abs=1e-9) and even.gain == pytest.approx(0.4, abs=1e-9)
    assert even.notes == (Note(Remark.BEST_LEAST_SHARE, pytest.approx(1 / 3)),)
    assert verify(THREE.with_bounds(even.at_least), even).ok


@pytest.mark.parametrize("seed", range(15))
def test_nobody_can_raise_the_least_share(seed):
    """The level is attained, and a little more for every group is infeasible."""
    problem = random_problem(seed, n_max=10, caps=False)
    if problem.n_quotas < 2:
        pytest.skip("fewer than two groups")
    even = solve_max_min(problem)
    level = even.shares.min()
    asked = np.full(problem.n_quotas, level)
    assert solve(problem.with_bounds(asked - 1e-9)).status is Status.OPTIMAL
    try:
        more = problem.with_bounds(np.minimum(asked + 1e-6, 1))
    except ProblemError:  # the groups share out all of the time already
        return
    assert solve(more).status is Status.INFEASIBLE


def test_leximin_helps_the_next_ones_too():
    """Two groups that compete, and one that only depends on itself."""
    problem = Problem(
        scenarios.bandit((1.0, 0.0, 0.0, 0.0), (0, 0, 0, 0)).mdp,
        [
            Quota("a", pairs=[0], at_least=0),
            Quota("bc", pairs=[1, 2], at_least=0),
            Quota("b", pairs=[1], at_least=0),
        ],
    )
    plain, lexi = solve_max_min(problem), solve_max_min(problem, leximin=True)
    assert plain.shares.min() == pytest.approx(0.5, abs=1e-9) and lexi.shares == pytest.approx(
        [0.5, 0.5, 0.5], abs=1e-9
    )
    problem = Problem(
        scenarios.three_state().mdp,
        [Quota("s0", states=[0], at_least=0), Quota("s0 or s1", states=[0, 1], at_least=0)],
    )
    lexi = solve_max_min(problem, leximin=True)
    assert lexi.shares[0] == pytest.approx(9 / 19, abs=1e-8)  # as much as s0 can have
    both = solve(problem.with_bounds([9 / 19 - 1e-9, 0.0]))
    assert lexi.shares[1] >= both.shares[1] - 1e-6


def test_no_groups_is_a_mistake():
    with pytest.raises(ProblemError, match="there are no groups"):
        solve_max_min(THREE.without_quotas())


def test_compare_command():
    ended = CliRunner().invoke(cli, ["compare", "three-state"])
    assert ended.exit_code == 0, ended.output
    head, gain = (line.split() for line in ended.stdout.splitlines()[2:4])
    assert head == ["fair", "no", "quotas", "max-min", "uniform"]
    assert gain == ["gain", "0.443421", "0.526316", "0.400000", "0.250000"]
    assert "breaks" in ended.stdout.splitlines()[-1] and "s2" in ended.stdout.splitlines()[-1]
    answer = json.loads(CliRunner().invoke(cli, ["compare", "three-state", "--json"]).stdout)
    assert answer["max-min"]["jain"] == pytest.approx(1) and answer["no quotas"]["broken"] == ["s2"]
    assert answer["fair"]["share_error"] < 1e-9 and answer["no quotas"]["worst_slack"] < 0
    infeasible = CliRunner().invoke(cli, ["compare", "three-state", "--rho", "0,0,0.6"])
    assert infeasible.exit_code == 0 and "no policy was proved fair" in infeasible.stdout


def test_compare_leaves_out_what_cannot_be_proved(tmp_path, monkeypatch):
    """Two rooms with a door, and a policy that hardly ever takes it."""
    file, figure = str(tmp_path / "rooms.npz"), tmp_path / "c.png"
    rooms = MDP([[1, 1e-310], [0, 1], [0, 1], [1, 0]], [0.0, 0.0, 1.0, 0.0], [0, 0, 1, 1])
    save(Problem(rooms, [Quota("a", states=[0], at_least=0.1)]), file)
    monkeypatch.setattr("fairmdp.frontiers.comparison.uniform_policy", lambda mdp: np.array([1.0, 0, 1, 0]))
    ended = CliRunner().invoke(cli, ["compare", file])
    assert ended.exit_code == 0, ended.output
    assert "left out: uniform, because the policy's chain is so nearly reducible" in ended.stdout
    monkeypatch.undo()
    drawn = CliRunner().invoke(cli, ["compare", "jobs", "--figure", str(figure)])
    assert drawn.exit_code == 0 and figure.read_bytes().startswith(b"\x89PNG")
