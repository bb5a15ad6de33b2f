"""The default learner: counts, allocation, margins, claims, and what happens when things go wrong."""

import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fairmdp import MDP, Chain, Problem, ProblemError, Quota, SimulatorError, scenarios, solve_lp
from fairmdp.learning.counts import CHUNK, Counts, Tally, sample_chunk, spread_evenly
from fairmdp.learning.evaluation import evaluate
from fairmdp.learning.plugin import learn_plugin
from fairmdp.model.objectives import alpha_fair
from fairmdp.model.simulator import shell_model

pytestmark = pytest.mark.slow

S2 = [Quota("s2", states=[2], at_least=0.25)]
BEST = 0.443421  # of the paper's instance, with all three quotas


@pytest.fixture(scope="module")
def paper():
    return scenarios.three_state()


@pytest.fixture(scope="module")
def simulator(paper):
    return paper.mdp.simulator()


class Noisy:
    """A model whose rewards are random and depend on the next state."""

    def __init__(self, mdp, offset=0.0):
        self.inner, self.offset = mdp.simulator(), offset
        self.n_states, self.n_actions = mdp.n_states, mdp.n_actions

    def sample(self, states, actions, rng):
        s_next, rewards = self.inner.sample(states, actions, rng)
        return s_next, rewards + self.offset + 0.2 * s_next + 0.1 * rng.standard_normal(states.size)


class Breaking:
    """A simulator that fails, or is interrupted, once so many samples were drawn."""

    def __init__(self, mdp, after, how):
        self.inner, self.left, self.how = mdp.simulator(), after, how
        self.n_states, self.n_actions = mdp.n_states, mdp.n_actions

    def sample(self, states, actions, rng):
        self.left -= states.size
        if self.left < 0:
            if self.how is KeyboardInterrupt:
                raise KeyboardInterrupt
            return np.full(states.size, 99), np.zeros(states.size)
        return self.inner.sample(states, actions, rng)


def true_values(problem, policy):
    x = policy * Chain.of(problem.mdp, policy).shares[problem.mdp.s_of]
    return float(problem.mdp.r @ x), problem.members @ x


# --- counts


def test_counts_agree_with_plain_numpy():
    rng = np.random.default_rng(0)
    pairs, s_next = rng.integers(0, 5, 400), rng.integers(0, 3, 400)
    rewards = 1e6 + rng.standard_normal(400)  # a large offset: sums of squares would cancel
    counts = Counts.of(pairs, s_next, rewards, 5, 3)
    h = np.array([0.3, -2.0, 5.0])
    for i in range(5):
        mine = pairs == i
        assert counts.per_pair[i] == mine.sum()
        assert counts.rewards[i] == pytest.approx(rewards[mine].mean(), rel=1e-14)
        assert counts.variances(h[:, None])[i, 0] == pytest.approx(h[s_next[mine]].var(ddof=1))
        expected = (rewards[mine] + h[s_next[mine]]).var(ddof=1)
        assert counts.reward_variances(h)[i] == pytest.approx(expected, rel=1e-8)


def test_merging_chunks_is_counting_at_once():
    rng = np.random.default_rng(1)
    pairs, s_next, rewards = rng.integers(0, 50, 9000), rng.integers(0, 40, 9000), rng.random(9000)
    whole = Counts.of(pairs, s_next, rewards, 50, 40)
    tally = Tally(50, 40)
    for part in np.array_split(np.arange(9000), 23):
        tally.add(Counts.of(pairs[part], s_next[part], rewards[part], 50, 40))
    merged = tally.counts
    assert tally.total == merged.total == 9000
    np.testing.assert_array_equal(merged.keys, whole.keys)
    np.testing.assert_array_equal(merged.times, whole.times)
    np.testing.assert_allclose(merged.mean, whole.mean, rtol=1e-13)
    np.testing.assert_allclose(merged.spread, whole.spread, atol=1e-12)


def test_counts_grow_with_distinct_transitions_only(simulator):
    few = learn_plugin(simulator, S2, samples=1000).counts
    many = learn_plugin(simulator, S2, samples=5 * CHUNK).counts
    assert few.keys.size == many.keys.size == 12  # all that the model has


def test_empirical_model_tends_to_the_model_and_unseen_pairs_stay(paper):
    simulator = paper.mdp.simulator()
    pairs = np.repeat(np.arange(5), 20_000)  # pair 5 is left out
    counts = sample_chunk(simulator, pairs, np.random.SeedSequence(3))
    model = counts.model(shell_model(simulator))
    np.testing.assert_allclose(model.P[:5].toarray(), paper.mdp.P[:5].toarray(), atol=0.01)
    np.testing.assert_allclose(model.r[:5], paper.mdp.r[:5])
    assert model.P[5, 2] == 1 and model.r[5] == pytest.approx(0.1)


def test_spread_evenly_is_exact_and_proportional():
    weights = np.array([0.0, 1.0, 1.0, 2.5])
    times = spread_evenly(100, weights)
    assert times.sum() == 100 and times[0] == 0
    assert np.abs(times - 100 * weights / weights.sum()).max() < 1


# --- errors


def test_standard_errors_match_the_spread_of_repeated_estimates():
    """First-order errors of shares and of a gain with random, next-state-dependent rewards."""
    problem = scenarios.garnet(n_states=8, n_actions=2, branching=3, n_quotas=2, seed=4)
    simulator = Noisy(problem.mdp, offset=100.0)
    shell = Problem(shell_model(simulator), problem.quotas)
    policy = np.random.default_rng(0).dirichlet(np.ones(2), 8).ravel()
    pairs = np.repeat(np.arange(16), 400)
    runs = []
    for seed in range(300):
        counts = sample_chunk(simulator, pairs, np.random.SeedSequence(seed))
        estimated = Problem(counts.model(shell.mdp), problem.quotas)
        errors = evaluate(estimated, counts, policy)
        runs.append([errors.gain, *errors.shares, errors.gain_se, *errors.share_se])
    gains_and_shares, se = np.split(np.array(runs), 2, axis=1)
    np.testing.assert_allclose(se.mean(axis=0), gains_and_shares.std(axis=0), rtol=0.12)  # 3 s.e. of 300


# --- the learner


@pytest.mark.parametrize(
    "name, budget, lost, runs", [("paper3", 2_000, 0.01, 40), ("garnet", 40_000, 0.04, 10)]
)
def test_policy_is_fair_and_nearly_best(name, budget, lost, runs):
    problem = scenarios.three_state() if name == "paper3" else scenarios.garnet(20, 4, 4, n_quotas=4, seed=3)
    best, simulator = solve_lp(problem).gain, problem.mdp.simulator()
    missed, losses = 0, []
    for seed in range(runs):
        learned = learn_plugin(simulator, problem.quotas, samples=budget, seed=seed)
        gain, shares = true_values(problem, learned.policy)
        missed += bool((shares < problem.at_least - 1e-9).any())
        losses.append(best - gain)
        assert learned.guaranteed and learned.samples == budget == learned.counts.total
        assert abs(learned.gain - gain) < 6 * learned.gain_se + 1e-12
    assert missed <= 4 if runs == 40 else missed <= 2  # 5 % and two standard errors
    assert np.quantile(losses, 0.95) <= lost


def test_a_stricter_level_takes_larger_margins(simulator):
    loose = learn_plugin(simulator, S2, samples=6000, delta=0.2)
    strict = learn_plugin(simulator, S2, samples=6000, delta=0.001)
    assert loose.guaranteed and strict.guaranteed
    assert (strict.margins > loose.margins).all() and strict.gain < loose.gain
    assert (
        strict.share_low >= 0.25
    ).all() and strict.shares - strict.share_low > 0.9 * 3.09 * strict.share_se


def test_quotas_of_all_kinds_are_met(paper, simulator):
    quotas = [
        Quota("both", states=[0], at_least=0.2, at_most=0.35),
        Quota("pairs", pairs=[(1, 0)], at_least=0.2),
    ]
    for seed in range(5):
        learned = learn_plugin(simulator, quotas, samples=20_000, seed=seed)
        _, shares = true_values(Problem(paper.mdp, quotas), learned.policy)
        assert learned.guaranteed
        assert 0.2 <= shares[0] <= 0.35 and shares[1] >= 0.2


def test_random_rewards_are_estimated(paper):
    noisy = Noisy(paper.mdp, offset=5.0)
    learned = learn_plugin(noisy, S2, samples=30_000)
    mean = MDP(paper.mdp.P, paper.mdp.r + 5 + 0.2 * paper.mdp.P @ np.arange(3.0), paper.mdp.s_of)
    problem = Problem(mdp=mean, quotas=S2)
    gain, shares = true_values(problem, learned.policy)
    assert abs(gain - learned.gain) < 5 * learned.gain_se
    assert solve_lp(problem).gain - gain < 0.01 and shares[0] >= 0.25


def test_samples_go_where_they_matter():
    """A pair that no policy of the ladder uses gets little more than its even part of a tenth."""
    learned = learn_plugin(scenarios.three_state().mdp.simulator(), S2, samples=12_000)
    assert learned.counts.per_pair.min() == 3600 / 4 / 6  # the even first quarter of what chooses, no more
    assert learned.min_samples == learned.counts.per_pair.min()


def test_accuracy_stops_by_itself_and_claims_the_gap(paper, simulator):
    learned = learn_plugin(simulator, paper.quotas, eps=0.02)
    gain, shares = true_values(paper, learned.policy)
    assert learned.finished and learned.guaranteed and learned.gap <= 0.02
    assert "within 0.02 of the best fair gain" in learned.claim
    assert BEST - gain <= 0.02 and (shares >= paper.at_least).all()
    assert learned.samples in [600 * 2**k for k in range(5)]


def test_without_quotas_only_an_accuracy_can_be_claimed(simulator):
    assert learn_plugin(simulator, [], samples=2000).claim.startswith("no claim: no quota is owed")
    learned = learn_plugin(simulator, [], eps=0.05)
    assert learned.guaranteed and learned.gain == pytest.approx(0.5263, abs=0.05)


# --- claims withheld


def test_a_claim_takes_fresh_samples_that_confirm_it(simulator):
    tight = [Quota("s2", states=[2], at_least=0.45)]  # the most that can be given is 0.4737
    learned = learn_plugin(simulator, tight, samples=60)
    assert not learned.guaranteed and learned.tested_samples == 18
    assert learned.claim.startswith("no claim: the lower bound on s2 is 0.")
    assert learn_plugin(simulator, tight, samples=20_000).guaranteed


def test_quota_that_leaves_no_room_is_not_claimed(simulator):
    edge = [Quota("s2", states=[2], at_least=0.4725)]  # the most that can be given is 0.4737
    learned = learn_plugin(simulator, edge, samples=2000, seed=1)
    assert learned.feasible and 0 < learned.margin_fraction < 1 and not learned.guaranteed
    assert "0.4725 is owed" in learned.claim
    assert learned.shares[0] == pytest.approx(0.4725 + learned.margins[0], abs=1e-6)


@pytest.mark.parametrize("goal", [{"samples": 3000}, {"eps": 0.01}])
def test_infeasible_quotas_are_an_answer(simulator, goal):
    learned = learn_plugin(simulator, [Quota("s2", states=[2], at_least=0.6)], **goal)
    assert not learned.feasible and not learned.guaranteed and learned.finished
    assert "no policy seems to meet the quotas" in learned.claim
    assert learned.shares[0] == pytest.approx(0.4737, abs=0.02)  # as near as it gets
    assert np.isnan(learned.prices).all() and learned.worst_slack < -0.1


def test_several_closed_classes_are_said():
    stay = MDP(np.eye(2), [0.0, 1.0], [0, 1])
    learned = learn_plugin(stay.simulator(), [Quota("0", states=[0], at_least=0.3)], samples=400)
    assert "several closed classes" in learned.claim and not learned.guaranteed
    assert any("end in different parts" in note for note in learned.notes)
    assert np.isnan([learned.gain, learned.gain_se, *learned.shares, learned.worst_slack]).all()
    assert learned.gap == np.inf and np.isnan(learned.history[-1].gain)
    free = [Quota("0", states=[0], at_least=0)]
    welfare = learn_plugin(stay.simulator(), free, samples=400, objective=alpha_fair(1)).welfare
    assert np.isnan(welfare.value) and np.isnan(welfare.utilities).all()


# --- reproducible, interruptible


def test_result_depends_on_the_seed_alone(paper):
    quotas = paper.quotas
    simulator = Noisy(paper.mdp)
    once = learn_plugin(simulator, quotas, samples=5 * CHUNK, seed=7)
    again = learn_plugin(simulator, quotas, samples=5 * CHUNK, seed=np.random.SeedSequence(7))
    with ThreadPoolExecutor(4) as pool:
        pooled = learn_plugin(simulator, quotas, samples=5 * CHUNK, seed=7, engine=pool.map)
    for other in (again, pooled):
        np.testing.assert_array_equal(once.policy, other.policy)
        assert once.gain == other.gain
    assert learn_plugin(simulator, quotas, samples=5 * CHUNK, seed=8).gain != once.gain


def test_progress_is_reported_and_can_be_read(simulator):
    seen = []
    learn_plugin(
        simulator, S2, samples=4 * CHUNK, progress=lambda done, of, now: seen.append((done, of, now()))
    )
    done = [done for done, *_ in seen]
    assert done == sorted(set(done)) and done[-1] == 4 * CHUNK
    assert seen[0][2].samples == done[0] and not seen[0][2].finished and not seen[0][2].guaranteed
    assert {of for _, of, _ in seen} == {4 * CHUNK}  # one goal, whatever the rounds


def test_interrupt_keeps_what_was_sampled(paper):
    learned = learn_plugin(Breaking(paper.mdp, 4 * CHUNK, KeyboardInterrupt), S2, samples=12 * CHUNK)
    assert not learned.finished and 3 * CHUNK < learned.samples <= 4 * CHUNK and not learned.guaranteed
    assert "stopped before the end" in learned.notes
    with pytest.raises(KeyboardInterrupt):
        learn_plugin(Breaking(paper.mdp, 0, KeyboardInterrupt), S2, samples=1000)


def test_pairs_that_were_never_sampled_prove_nothing_about_quotas():
    problem = scenarios.garnet(n_states=20)
    stopped = Breaking(problem.mdp, 4 * CHUNK, KeyboardInterrupt)  # states before the end of the first round
    learned = learn_plugin(stopped, problem.quotas, samples=80 * CHUNK)
    assert learned.min_samples == 0 and not learned.feasible
    assert learned.claim == "no claim: some pairs were never sampled, and without them the quotas are not met"


def test_broken_simulator_leaves_a_partial_estimate(paper):
    with pytest.raises(SimulatorError, match="next state 99") as caught:
        learn_plugin(Breaking(paper.mdp, 4 * CHUNK, None), S2, samples=12 * CHUNK)
    assert 3 * CHUNK < caught.value.partial.samples <= 4 * CHUNK and not caught.value.partial.finished
    with pytest.raises(SimulatorError) as caught:
        learn_plugin(Breaking(paper.mdp, 0, None), S2, samples=1000)
    assert caught.value.partial is None


@pytest.mark.parametrize(
    "how, message",
    [
        ({}, "neither of samples and eps given"),
        ({"samples": 1000, "eps": 0.1}, "both of samples and eps given"),
        ({"samples": 5}, "5 samples are too few for 6 state-action pairs"),
        ({"samples": 1e4}, "samples is 10000.0, expected a whole number"),
        ({"eps": -1}, "eps is -1, expected a positive accuracy"),
        ({"samples": 1000, "delta": 0}, "delta is 0, expected a probability of failure"),
        ({"samples": 1000, "delta": 1.5}, "delta is 1.5, expected a probability of failure"),
    ],
)
def test_bad_options_are_refused(simulator, how, message):
    with pytest.raises(ProblemError, match=message):
        learn_plugin(simulator, S2, **how)


def test_bad_quotas_and_simulators_are_refused(simulator):
    with pytest.raises(ProblemError, match="there is no state 7"):
        learn_plugin(simulator, [Quota("x", states=[7], at_least=0.1)], samples=1000)
    with pytest.raises(ProblemError, match="is not a simulator"):
        learn_plugin(object(), S2, samples=1000)


def test_memory_grows_with_the_distinct_transitions_not_with_the_samples(simulator):
    peaks = []
    for chunks in (8, 80):
        tracemalloc.start()
        learned = learn_plugin(simulator, S2, samples=chunks * CHUNK)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert learned.counts.keys.size == 12
    assert peaks[1] < 1.1 * peaks[0]
