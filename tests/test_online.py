"""The agent that learns while it runs: its accounts, its plans, what it refuses, and its file."""

from itertools import pairwise

import numpy as np
import pytest

from fairmdp import (
    MDP,
    Log,
    OnlineAgent,
    Policy,
    Problem,
    ProblemError,
    Quota,
    learn,
    learn_start,
    record,
    scenarios,
    solve,
)
from fairmdp.errors import FormatError
from fairmdp.learning import Running
from fairmdp.model.labels import Labels
from fairmdp.online.belief import Belief, Seen
from fairmdp.online.bounds import Bounds
from fairmdp.online.drift import _rewards
from fairmdp.online.planning import Planner, cushion

WORLD = scenarios.three_state()
STRICTER = WORLD.with_bounds([0.12, 0.12, 0.29])


def run(agent, mdp, steps, seed=0, world=None):
    """Let an agent act on a known model; the pairs, next states and rewards that there were."""
    world = world or Running(mdp, seed)
    seen = []
    for _ in range(steps):
        state = world.state
        action = agent.act(state)
        i = int(mdp.pair_ptr[state]) + action
        following, reward = world.step(i)
        agent.observe(state, action, reward, following)
        seen.append((i, following, reward))
    return seen


def worst_short(problem, pairs):
    """Lowest account over time and from T/10 on, by numpy alone, floors only."""
    counts = problem.members.toarray()[:, pairs] - problem.at_least[:, None]
    balance = counts.cumsum(axis=1).min(axis=0)
    return balance.min(), balance[len(pairs) // 10 :].min()


def test_what_is_realised_is_exact():
    agent = OnlineAgent(WORLD, seed=3)
    seen = run(agent, WORLD.mdp, 777)
    pairs, rewards = [i for i, _, _ in seen], [r for _, _, r in seen]
    said = agent.report()
    share = np.array([np.isin(pairs, row.indices).mean() for row in (WORLD.members[[k]] for k in range(3))])
    assert said.steps == 777
    assert said.gain == pytest.approx(np.mean(rewards))
    assert np.allclose(said.shares, share, atol=1e-12)
    assert np.allclose(said.accounts, 777 * (share - WORLD.at_least), atol=1e-9)
    assert (said.met == (share >= WORLD.at_least - 1e-12)).all()
    assert said.to_table()["quota"] == list(WORLD.names)
    assert 0 < said.restoring < 1


def test_records_are_all_counted_whenever_an_epoch_ends():
    agent = OnlineAgent(WORLD, seed=5)
    seen = run(agent, WORLD.mdp, 400)
    counts = np.zeros((6, 3))
    np.add.at(counts, ([i for i, _, _ in seen], [t for _, t, _ in seen]), 1)
    agent._begin_epoch()
    assert (agent._belief.now.counts == counts).all()


def test_one_seed_is_one_run():
    runs = [run(OnlineAgent(WORLD, seed=seed), WORLD.mdp, 300, seed=9) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize("safe", [False, True])
def test_a_saved_agent_goes_on_to_the_same_bits(tmp_path, safe):
    start = solve(STRICTER) if safe else None
    agents = [OnlineAgent(WORLD, start=start, seed=4) for _ in range(2)]
    worlds = [Running(WORLD.mdp, 8) for _ in range(2)]
    whole = run(agents[0], WORLD.mdp, 1500, world=worlds[0])
    parts = []
    for steps in (1, 136, 500, 863):  # in the middle of epochs
        parts += run(agents[1], WORLD.mdp, steps, world=worlds[1])
        agents[1].save(tmp_path / "agent.npz")
        agents[1] = OnlineAgent.load(tmp_path / "agent.npz")
    assert whole == parts
    for agent in agents:
        agent.save(tmp_path / f"{agents.index(agent)}.npz")
    assert (tmp_path / "0.npz").read_bytes() == (tmp_path / "1.npz").read_bytes()
    assert repr(agents[0].report()) == repr(agents[1].report())


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x05\x06" + bytes(18)])
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "agent.npz").write_bytes(content)
    with pytest.raises(FormatError, match=r"agent.npz: this is not the file of an agent"):
        OnlineAgent.load(tmp_path / "agent.npz")


def test_a_safe_start_keeps_what_is_owed():
    for seed in range(3):
        agent = OnlineAgent(WORLD, start=solve(STRICTER), seed=seed)
        pairs = [i for i, _, _ in run(agent, WORLD.mdp, 4000, seed)]
        ever, late = worst_short(WORLD, pairs)
        assert ever > -5 and late >= -1e-9
        gain = agent.report().gain
        assert gain > solve(STRICTER).gain  # most of the time it earns more than its start does


def test_posterior_sampling_alone_breaks_what_the_accounts_keep():
    """Earning on drawn models breaks quotas; the agent ends with what is owed, from the same knowledge."""
    pairs = [i for i, _, _ in run(OnlineAgent(WORLD, seed=1), WORLD.mdp, 4000, 1)]
    free = OnlineAgent(WORLD, seed=1)
    free._decide = lambda: setattr(free, "_due", free._t + 1)
    free._enter("earn")
    broken = [i for i, _, _ in run(free, WORLD.mdp, 4000, 1)]
    assert worst_short(WORLD, pairs)[1] >= -1e-9
    assert worst_short(WORLD, broken)[1] < -1


def test_caps_and_weights_have_accounts_too():
    mdp = WORLD.mdp
    quotas = [
        Quota("not too often", states=["s0"], at_most=0.4),
        Quota("balance", weights={"s2": 3.0, "s0": -1.0}, at_least=0.1),
        Quota("between", states=["s1"], at_least=0.1, at_most=0.6),
    ]
    problem = Problem(mdp, quotas)
    bounds = Bounds.of(problem)
    assert bounds.size == 4
    agent = OnlineAgent(mdp, quotas, seed=2)
    pairs = np.array([i for i, _, _ in run(agent, mdp, 3000)])
    said = agent.report()
    share = np.array([(mdp.s_of[pairs] == s).mean() for s in range(3)])
    assert said.accounts[0] == pytest.approx(3000 * (0.4 - share[0]))
    assert said.accounts[1] == pytest.approx(3000 * (3 * share[2] - share[0] - 0.1) / 4)
    assert said.accounts[2] == pytest.approx(3000 * min(share[1] - 0.1, 0.6 - share[1]))
    assert said.to_table()["share"][1] == pytest.approx(3 * share[2] - share[0])
    assert said.met.all()


def test_quotas_that_no_policy_meets_are_missed_by_the_least_and_that_is_said():
    problem = WORLD.with_bounds([0.0, 0.0, 0.9])
    agent = OnlineAgent(problem, seed=1)
    pairs = [i for i, _, _ in run(agent, problem.mdp, 3000)]
    mdp = problem.mdp
    most = solve(Problem(MDP(mdp.P, (mdp.s_of == 2) * 1.0, mdp.s_of))).gain
    share = (mdp.s_of[pairs] == 2).mean()
    assert most < 0.9 and share > most - 0.03
    assert "cannot be restored" in agent.report().notes[0]
    assert f"{0.9 - most:.1f}" in agent.report().notes[0]


def test_without_quotas_it_learns_to_earn():
    agent = OnlineAgent(WORLD.mdp, seed=1)
    run(agent, WORLD.mdp, 3000)
    best = solve(Problem(WORLD.mdp)).gain
    assert agent.report().gain > best - 0.05
    assert agent.report().worst_account == np.inf


def test_names_lead_to_names_and_numbers_to_numbers():
    agent = OnlineAgent(WORLD, seed=1)
    assert agent.act("s1") in ("a0", "a1") and agent.act(1) in (0, 1) and agent.act(np.int64(1)) in (0, 1)
    agent.observe("s1", "a1", 0.5, "s2")
    agent.observe(2, 0, 0.5, "s0")
    assert agent.steps == 2


def test_sizes_alone_are_enough():
    agent = OnlineAgent((3, 2), [Quota("often", states=[2], at_least=0.2)], seed=0)
    assert agent.problem.mdp.n_pairs == 6 and agent.act(2) in (0, 1)
    with pytest.raises(ProblemError, match="does not say which states"):
        OnlineAgent("three-state")


def test_what_cannot_be_is_refused():
    agent = OnlineAgent(WORLD, seed=1)
    agent.observe("s1", "a1", 0.5, "s2")
    with pytest.raises(ProblemError, match=r"begins in state s0, the last one ended in s2"):
        agent.observe("s0", "a0", 0.5, "s1")
    with pytest.raises(ProblemError, match="pays|reward"):
        agent.observe("s2", "a0", float("nan"), "s1")
    with pytest.raises(ProblemError, match="no state called 's9'"):
        agent.observe("s2", "a0", 0.5, "s9")
    with pytest.raises(ProblemError, match="not hashable"):
        agent.act([1])
    assert agent.steps == 1
    agent.moved()
    agent.observe("s0", "a0", 0.5, "s1")
    assert agent.steps == 2


def test_starts_must_have_slack():
    with pytest.raises(ProblemError, match="leaves no slack"):
        OnlineAgent(WORLD, start=solve(WORLD))
    with pytest.raises(ProblemError, match="has no slack"):
        OnlineAgent(WORLD, start=Policy.of(WORLD, solve(STRICTER)))
    with pytest.raises(ProblemError, match="without a start"):
        OnlineAgent(WORLD, slack=0.1)
    with pytest.raises(ProblemError, match=r"slack is 0.5, but"):
        OnlineAgent(WORLD, start=solve(STRICTER), slack=0.5)
    with pytest.raises(ProblemError, match="learned without a claim"):
        OnlineAgent(WORLD, start=learn(WORLD.mdp.simulator(), WORLD.quotas, samples=20))
    agent = OnlineAgent(WORLD, start=Policy.of(WORLD, solve(STRICTER)), slack=0.02, seed=1)
    assert agent.report().start == "a given policy, on the word of the caller"


def test_a_claim_is_a_start():
    learned = learn(WORLD.mdp.simulator(), STRICTER.quotas, samples=6000, seed=1)
    assert learned.guaranteed
    agent = OnlineAgent(WORLD, start=learned, seed=1)
    assert agent._start.slack == pytest.approx((learned.share_low - WORLD.at_least).min())
    assert "learned with a claim" in agent.report().start


@pytest.mark.parametrize(
    ("quota", "match"), [(Quota("x", states=["s0"], at_least=0.1, expected=True), "mean over many runs")]
)
def test_quotas_of_many_runs_are_refused(quota, match):
    with pytest.raises(ProblemError, match=match):
        OnlineAgent(WORLD.mdp, [quota])


def test_drawn_models_are_around_the_mean():
    mdp = WORLD.mdp
    belief = Belief(mdp, (0.0, 1.0))
    world, seen = Running(mdp, 1), []
    for _ in range(500):
        i = int(mdp.pair_ptr[world.state])
        seen.append((i, *world.step(i)))
    belief.add(*(np.array(column) for column in zip(*seen, strict=True)))
    rng = np.random.default_rng(0)
    drawn = [belief.sample(rng) for _ in range(400)]
    mean = np.mean([each.P.toarray() for each in drawn], axis=0)
    assert np.allclose(mean, belief.mean(), atol=0.05)
    tried = belief.now.per_pair > 50
    assert np.allclose(np.mean([each.r for each in drawn], axis=0)[tried], mdp.r[tried], atol=0.02)
    never = belief.now.per_pair == 0
    assert np.std([each.r[never] for each in drawn]) == pytest.approx(12**-0.5, abs=0.03)
    assert np.allclose(belief.mean().sum(axis=1), 1)


def test_the_cushion_knows_the_variance_of_a_walk():
    """Two states, left with chances p and q: the asymptotic variance of the time in one of them is known."""
    p, q = 0.3, 0.1
    mdp = MDP([[1 - p, p], [q, 1 - q]], [0.0, 0.0], [0, 1])
    bounds = Bounds.of(Problem(mdp, [Quota("1", [1], at_least=0.5)]))
    found = cushion(mdp, np.zeros(2), np.ones(2), bounds, 0.1, 0.05)
    assert found.variance == pytest.approx([p * q * (2 - p - q) / (p + q) ** 3])
    assert found.span == pytest.approx([1 / (p + q)])
    assert found(90) == pytest.approx(2 * found.span + found.variance / 0.2 * np.log(100 / 0.05))


def test_the_cushion_believes_more_slack_than_was_claimed_once_records_confirm_it():
    """The share of state 1 is p / (p + q); its error is known from the derivatives in p and q."""
    p, q = 0.3, 0.1
    mdp = MDP([[1 - p, p], [q, 1 - q]], [0.0, 0.0], [0, 1])
    bounds = Bounds.of(Problem(mdp, [Quota("1", [1], at_least=0.5)]))

    def slack(records, claimed=0.1):
        return cushion(mdp, np.array(records), np.ones(2), bounds, claimed, 0.05).slack

    n, m = 1000.0, 3000.0
    se = np.sqrt((q * p * (1 - p) * q / (n + 1)) + p * q * (1 - q) * p / (m + 1)) / (p + q) ** 2
    assert slack([n, m]) == pytest.approx([0.25 - 1.6449 * se], rel=1e-3)
    assert slack([10.0, 10.0]) == [0.1] and slack([n, m], 0.3) == [0.3]
    assert slack([n, m], -0.1) == [-0.1]  # what cannot be restored is not restored


def test_plans_keep_what_they_say():
    bounds = Bounds.of(WORLD)
    planner = Planner(bounds, 0.5)
    for _ in range(2):  # the second time with a basis to begin with
        plan = planner.restore(WORLD.mdp)
        shares = Problem(WORLD.mdp, WORLD.quotas).members @ (
            plan.policy * stationary(WORLD.mdp, plan.policy)[WORLD.mdp.s_of]
        )
        assert (shares - WORLD.at_least).min() == pytest.approx(plan.room, abs=1e-7)
        assert solve(WORLD.with_bounds(WORLD.at_least + 2 * plan.room - 1e-6)).status == "optimal"
        assert solve(WORLD.with_bounds(WORLD.at_least + 2 * plan.room + 1e-4)).status == "infeasible"
    earn = planner.earn(WORLD.mdp)
    assert WORLD.mdp.r @ (earn.policy * stationary(WORLD.mdp, earn.policy)[WORLD.mdp.s_of]) == pytest.approx(
        solve(WORLD).gain
    )


def stationary(mdp, policy):
    """By a linear system, apart from the house's chains."""
    P = np.zeros((mdp.n_states, mdp.n_states))
    np.add.at(P, mdp.s_of, policy[:, None] * mdp.P.toarray())
    A = np.vstack([(np.eye(mdp.n_states) - P).T, np.ones(mdp.n_states)])
    return np.linalg.lstsq(A, np.append(np.zeros(mdp.n_states), 1), rcond=None)[0]


def test_epochs_end_when_counts_double_or_the_run_is_half_as_long_again():
    agent, ends = OnlineAgent(WORLD, seed=1), []
    world = Running(WORLD.mdp, 0)
    for _ in range(2000):
        before = agent._epochs
        run(agent, WORLD.mdp, 1, world=world)
        if agent._epochs > before:
            ends.append(agent.steps)
    assert all(b - a <= max(a // 2, 1) for a, b in pairwise(ends))
    assert 15 < len(ends) < 80


def test_labels_of_a_log_are_a_skeleton():
    agent = OnlineAgent(Labels.of(WORLD.mdp), WORLD.quotas)
    assert agent.problem.mdp.states == WORLD.mdp.states


LOG = record(WORLD.mdp, steps=3000, seed=5)


def test_a_start_is_learned_from_a_log_and_its_slack_is_there():
    for seed in range(4):
        start = learn_start(record(WORLD.mdp, steps=3000, seed=seed), WORLD.quotas)
        assert start.guaranteed and start.slack == pytest.approx((start.share_low - WORLD.at_least).min())
        shares = WORLD.members @ (start.policy * stationary(WORLD.mdp, start.policy)[WORLD.mdp.s_of])
        assert (shares - WORLD.at_least).min() >= start.slack > 0.02
    agent = OnlineAgent(WORLD, start=start, seed=1)
    assert agent._belief.now.records == 3000
    assert (agent._start.policy == start.policy).all() and agent._start.slack == start.slack


def test_a_start_from_a_simulator_asks_as_often_as_it_says():
    start = learn_start(WORLD.mdp.simulator(), WORLD.quotas, samples=3000, seed=1)
    assert start.guaranteed and start.counts.total == 3000 and (start.counts.per_pair == 500).all()
    with pytest.raises(ProblemError, match="samples"):
        learn_start(WORLD.mdp.simulator(), WORLD.quotas)
    with pytest.raises(ProblemError, match="samples are for simulators"):
        learn_start(LOG, WORLD.quotas, samples=10)
    with pytest.raises(ProblemError, match="nothing is owed"):
        learn_start(LOG, [])


def test_no_claim_is_no_start():
    few = learn_start(record(WORLD.mdp, steps=60, seed=1), WORLD.quotas)
    assert not few.guaranteed and few.slack == 0 and few.claim.startswith("no claim")
    never = learn_start(LOG, [Quota("s2", ["s2"], at_least=0.95)])
    assert "no policy oversteps" in never.claim
    with pytest.raises(ProblemError, match=r"without a claim[\s\S]*no policy oversteps"):
        OnlineAgent(LOG, [Quota("s2", ["s2"], at_least=0.95)], start=never)


def test_an_alarm_of_the_log_costs_the_claim():
    other = MDP(WORLD.mdp.P[[1, 0, 3, 2, 5, 4]], WORLD.mdp.r, WORLD.mdp.s_of, states=WORLD.mdp.states)
    rows = [record(mdp, steps=3000, seed=1).to_table() for mdp in (WORLD.mdp, other)]
    log = Log.from_table(
        {name: rows[0][name] + rows[1][name] for name in ("state", "action", "reward", "next")}
    )
    start = learn_start(log, WORLD.quotas)
    assert not start.guaranteed and "change over time" in start.claim


def test_what_a_log_knows_is_found_by_name():
    """The agent has the states in another order, and one more."""
    mdp = WORLD.mdp
    turned = MDP(
        np.eye(4)[np.zeros(8, int)],
        np.zeros(8),
        np.repeat(range(4), 2),
        states=["new", "s2", "s1", "s0"],
        actions=["a1", "a0"],
    )
    agent = OnlineAgent(turned, [Quota("s2", ["s2"], at_least=0.25)], records=LOG, seed=1)
    seen = agent._belief.now
    assert seen.records == 3000 and seen.per_pair[:2].sum() == 0
    i, j = turned.pair_index("s1", "a1"), mdp.pair_index("s1", "a1")
    assert seen.per_pair[i] == LOG.per_pair[j]
    there = (LOG.pairs == j) & (LOG.s_next == mdp.state_index("s0"))
    assert seen.counts[i, 3] == there.sum()
    assert seen.paid[i] == pytest.approx(LOG.rewards[LOG.pairs == j].sum())


@pytest.mark.parametrize("what", ["rows", "rewards"])
def test_a_change_of_the_world_is_found_and_what_was_before_is_forgotten(what):
    mdp = WORLD.mdp
    other = (
        MDP(mdp.P[[1, 0, 3, 2, 5, 4]], mdp.r, mdp.s_of)
        if what == "rows"
        else MDP(mdp.P, mdp.r + 0.2, mdp.s_of)
    )
    agent = OnlineAgent(WORLD, start=learn_start(LOG, WORLD.quotas), seed=1)
    world = Running(mdp, 3)
    run(agent, mdp, 3000, world=world)
    assert agent.report().drifts == ()
    changed = Running(other, 4, start=world.state)
    run(agent, other, 4000, world=changed)
    said = agent.report()
    assert 3000 < said.drifts[0].steps < 5000 and said.drifts[0].p < 0.001
    assert ("paid" in said.drifts[0].sentence) == (what == "rewards")
    assert "not used any more" in said.notes[0] and "nothing is promised" in said.start
    agent._begin_epoch()
    known = agent._belief.now
    assert known.records < 7000 - 2700
    tried = known.per_pair > 200
    pays = (known.paid / np.maximum(known.per_pair, 1))[tried]
    assert (
        np.abs(pays - other.r[tried]).max() < 0.12
    )  # a little of the old world may be in the block that told


def test_rewards_are_compared_where_there_are_enough_and_noise_is_no_change():
    rng = np.random.default_rng(1)
    levels = []
    for _ in range(300):
        old, new = (seen_of(rng.normal(size=(4, n)) * [[0.0], [1.0], [3.0], [1.0]]) for n in (200, 30))
        levels.append(_rewards(old, new))
    assert np.mean(np.array(levels) < 0.1) == pytest.approx(0.1, abs=0.05)
    nothing, moved = seen_of(np.zeros((4, 50))), seen_of(np.outer([0, 0, 0, 1e-6], np.ones(50)))
    assert _rewards(nothing, nothing) > 0.9 and _rewards(nothing, moved) < 1e-9


def seen_of(rewards):
    """Records of pairs that lead to the only state, one row of rewards each."""
    pairs = np.repeat(np.arange(len(rewards)), rewards.shape[1])
    none = Seen(np.zeros((len(rewards), 1)), np.zeros(len(rewards)), np.zeros(len(rewards)))
    return none.and_records(pairs, np.zeros(pairs.size, int), rewards.ravel())


def test_a_log_of_another_world_is_found_out():
    mdp = WORLD.mdp
    other = MDP(mdp.P[[1, 0, 3, 2, 5, 4]], mdp.r, mdp.s_of)
    agent = OnlineAgent(WORLD, start=learn_start(LOG, WORLD.quotas), seed=1)
    run(agent, other, 2000)
    assert agent.report().drifts[0].steps < 1000


def test_drifts_are_kept_in_the_file(tmp_path):
    agent = OnlineAgent(WORLD, start=learn_start(LOG, WORLD.quotas), seed=1)
    other = MDP(WORLD.mdp.P[[1, 0, 3, 2, 5, 4]], WORLD.mdp.r, WORLD.mdp.s_of)
    world = Running(other, 2)
    run(agent, other, 1500, world=world)
    agent.save(tmp_path / "agent.npz")
    again = OnlineAgent.load(tmp_path / "agent.npz")
    assert again.report().drifts == agent.report().drifts != ()
    assert run(again, other, 500, world=Running(other, 2)) == run(agent, other, 500, world=Running(other, 2))


def test_what_is_called_by_numbers_is_meant_by_them():
    """A log of an environment has tried actions 1 and 3 in state 7, and 0 in state 2."""
    rows = {"state": [7, 7, 2] * 9, "action": [1, 3, 0] * 9, "reward": [1.0] * 27, "next": [7, 2, 7] * 9}
    agent = OnlineAgent(Log.from_table(rows), seed=1)
    assert {agent.act(7) for _ in range(5)} <= {1, 3} and agent.act(2) == 0
    assert agent.act("7") in ("1", "3")
    agent.observe(7, 3, 1.0, 2)
    agent.observe("2", "0", 1.0, "7")
    assert agent._visits.sum() + len(agent._pairs) >= 2
