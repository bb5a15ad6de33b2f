"""Certificates from fresh samples: coverage, verdicts, independence of training, and refusals."""

import numpy as np
import pytest

from fairmdp import MDP, Chain, Problem, ProblemError, Quota, scenarios, solve_lp
from fairmdp.chains.policy import ladder
from fairmdp.learning.certify import CERTIFYING, certify
from fairmdp.learning.counts import Counts, seed_stream
from fairmdp.learning.estimate import Inquiry
from fairmdp.learning.plugin import learn_plugin
from fairmdp.learning.rollouts import run_policy

pytestmark = pytest.mark.slow

UNIFORM = np.full(6, 0.5)  # on the paper's instance: every share is 1/3, the gain 0.25


@pytest.fixture(scope="module")
def mdp():
    return scenarios.three_state().mdp


@pytest.fixture(scope="module")
def simulator(mdp):
    return mdp.simulator()


def owing(least, **bounds):
    return [Quota("s2", states=[2], at_least=least, **bounds)]


def true_values(problem, policy):
    x = policy * Chain.of(problem.mdp, policy).shares[problem.mdp.s_of]
    return float(problem.mdp.r @ x), problem.members @ x


def covers(found, gain, shares):
    inside = (found.share_low <= shares + 1e-12) & (shares <= found.share_high + 1e-12)
    return bool(inside.all() and found.gain_low <= gain + 1e-12 and gain <= found.gain_high + 1e-12)


class Rewarded:
    """A model with random rewards far from 0."""

    def __init__(self, mdp, offset):
        self.inner, self.offset = mdp.simulator(), offset
        self.n_states, self.n_actions = mdp.n_states, mdp.n_actions

    def sample(self, states, actions, rng):
        s_next, rewards = self.inner.sample(states, actions, rng)
        return s_next, rewards + self.offset + rng.choice([-0.5, 0.5], states.size)


# --- intervals


@pytest.mark.slow
@pytest.mark.parametrize("rigorous", [False, True])
@pytest.mark.parametrize("name, samples, runs", [("paper3", 3000, 30), ("garnet", 20_000, 12)])
def test_intervals_hold_together(name, samples, runs, rigorous):
    """Learn, certify from fresh samples, compare with the true chain and the true optimum."""
    problem = scenarios.three_state() if name == "paper3" else scenarios.garnet(12, 3, 4, n_quotas=3, seed=1)
    best, simulator = solve_lp(problem).gain, problem.mdp.simulator()
    held = []
    for seed in range(runs // 3 if rigorous else runs):
        learned = learn_plugin(simulator, problem.quotas, samples=samples, seed=seed)
        found = certify(
            simulator, learned.policy, problem.quotas, samples=samples, seed=seed, training=learned.counts,
            rigorous=rigorous,
        )  # fmt: skip
        held.append(covers(found, *true_values(problem, learned.policy)) and found.upper >= best - 1e-9)
        assert found.samples <= samples
        assert found.upper < best + 0.5
    if rigorous:
        assert all(held)
    else:
        assert np.sum(held) >= 0.95 * runs - 2 * np.sqrt(0.05 * 0.95 * runs)


@pytest.mark.slow
def test_intervals_have_the_width_of_their_level(mdp, simulator):
    """Half of the runs must fail where half may: an interval that is too wide is no interval."""
    problem = Problem(mdp, owing(0.3))
    values = true_values(problem, UNIFORM)
    held = [
        covers(certify(simulator, UNIFORM, owing(0.3), samples=3000, seed=s, delta=0.8), *values)
        for s in range(50)
    ]
    assert 0.2 < np.mean(held) < 0.75  # nominally 0.2, more because two intervals overlap in what they know


def test_rewards_far_from_zero_keep_their_error(mdp):
    found = certify(Rewarded(mdp, 1e7), UNIFORM, owing(0.3), samples=20_000)
    assert found.gain_low < 1e7 + 0.25 < found.gain_high
    assert 0.005 < found.gain_high - found.gain_low < 0.05


@pytest.mark.slow
def test_slow_chain_is_covered_without_bias():
    """Cycles at the heavy state are mostly of length 1, a few of hundreds: cutting those off would bias."""
    slow = MDP([[0.99, 0.01], [0.01, 0.99], [0.5, 0.5]], [0.0, 1.0, 0.0], [0, 1, 1])
    problem = Problem(slow, [Quota("1", states=[1], at_least=0.4)])
    policy = np.array([1.0, 1.0, 0.0])
    runs = [certify(slow.simulator(), policy, problem.quotas, samples=10_000, seed=s) for s in range(25)]
    assert sum(covers(found, 0.5, np.array([0.5])) for found in runs) >= 22
    cut = [int(note.split()[4]) for found in runs for note in found.notes if "cut off" in note]
    assert sum(cut) <= 25  # one of twelve rollouts at most, in the mean
    means = [found.shares[0] for found in runs]
    assert abs(np.mean(means) - 0.5) < 3 * np.std(means) / 5


@pytest.mark.slow
def test_batch_means_where_no_state_returns_often():
    n = 3000
    ring = MDP(np.roll(np.eye(n), 1, axis=1) * 0.5 + 0.5 / n, np.arange(n) / n, np.arange(n))
    quotas = [Quota("first half", states=np.arange(n // 2), at_least=0.4)]
    found = certify(ring.simulator(), np.ones(n), quotas, samples=30_000)
    assert found.method == "means of 32 rollouts" and found.cycles == 0
    assert any("batch means" in note for note in found.notes)
    assert found.share_low[0] < 0.5 < found.share_high[0] and found.share_high[0] - found.share_low[0] < 0.2


def test_actions_are_drawn_from_the_policy():
    model = MDP(np.full((5, 2), 0.5), np.zeros(5), [0, 0, 0, 1, 1])
    pi = np.array([0.0, 1.0, 0.0, 0.25, 0.75])
    states = np.repeat([0, 1], 40_000)
    rng = np.random.default_rng(0)
    pairs = np.searchsorted(ladder(model, pi), states + rng.random(states.size), side="right")
    shares = np.bincount(pairs, minlength=5) / 40_000
    np.testing.assert_allclose(shares, pi, atol=0.01)
    assert shares[0] == shares[2] == 0


def test_half_of_the_level_is_held_back_for_the_approximation(mdp, simulator):
    """Where all of it was spent, 92 % of the certificates of a slow chain held, not 95 %."""
    found = certify(simulator, UNIFORM, owing(0.3), samples=5000, delta=0.05, seed=3)
    seeds = seed_stream(3, CERTIFYING)
    problem = Problem(mdp, owing(0.3))
    spent = run_policy(Inquiry(simulator, problem, UNIFORM, 5000, 0.025, seeds, None, None, map))
    assert (found.gain_low, found.gain_high) == (spent.low[-1], spent.high[-1])


# --- verdicts


def test_verdicts(simulator):
    assert certify(simulator, UNIFORM, owing(0.30), samples=20_000).verdict == "fair"
    assert certify(simulator, UNIFORM, owing(0.36), samples=20_000).verdict == "not fair"
    assert certify(simulator, UNIFORM, owing(0.1, at_most=0.3), samples=20_000).verdict == "not fair"
    both = [*owing(0.30), Quota("s1", states=[1], at_least=0.333)]
    found = certify(simulator, UNIFORM, both, samples=20_000)
    assert found.verdicts == ("fair", "undecided") and found.verdict == "undecided"


@pytest.mark.slow
def test_more_samples_decide(simulator):
    found = certify(simulator, UNIFORM, owing(0.327), samples=5000)
    assert found.verdict == "undecided" and 1000 < found.more_samples < 10**7
    # Three times what is asked for, as the estimate of the room is a random one itself.
    assert certify(simulator, UNIFORM, owing(0.327), samples=3 * found.more_samples, seed=1).verdict == "fair"


def test_rigorous_is_wider_than_practical_and_says_when_it_is_vacuous(simulator):
    quick = certify(simulator, UNIFORM, owing(0.3), samples=100_000)
    sure = certify(simulator, UNIFORM, owing(0.3), samples=100_000, rigorous=True)
    ratio = (sure.share_high - sure.share_low) / (quick.share_high - quick.share_low)
    assert 1 < ratio < 6 and sure.verdict == "fair" and not sure.vacuous
    assert "rewards stay within 0.1 and 1" in sure.notes[0]
    slow = MDP([[0.999, 0.001], [0.001, 0.999]], [0.0, 1.0], [0, 1])
    vain = certify(
        slow.simulator(), np.ones(2), [Quota("0", states=[0], at_least=0.1)], samples=1000, rigorous=True
    )
    assert vain.vacuous and vain.verdict == "undecided" and vain.more_samples is None
    assert vain.share_low[0] == 0 and vain.share_high[0] == 1
    assert any(note.startswith("vacuous: ") for note in vain.notes)


def test_upper_needs_training_and_exceeds_the_best(simulator):
    learned = learn_plugin(simulator, owing(0.25), samples=20_000)
    alone = certify(simulator, learned.policy, owing(0.25), samples=20_000)
    assert alone.upper == np.inf and alone.gap == np.inf
    for rigorous in (False, True):
        found = certify(
            simulator, learned.policy, owing(0.25), samples=20_000, rigorous=rigorous, training=learned.counts
        )
        assert 0.4434 <= found.upper < 0.48 and 0 < found.gap < 0.1


# --- fresh samples


def test_same_seed_still_means_fresh_samples(mdp):
    """Whoever trains and certifies with one seed must not see the training's samples again."""
    asked = []

    class Listening:
        n_states, n_actions = mdp.n_states, mdp.n_actions

        def sample(self, states, actions, rng):
            asked.append(str(rng.bit_generator.state["state"]["state"]))
            return mdp.simulator().sample(states, actions, rng)

    learned = learn_plugin(Listening(), owing(0.25), samples=3000, seed=5)
    trained = set(asked)
    for rigorous in (False, True):
        asked.clear()
        certify(Listening(), learned.policy, owing(0.25), samples=3000, seed=5, rigorous=rigorous)
        assert asked and not trained & set(asked)


def test_training_does_not_move_the_intervals(simulator):
    """Misleading training data changes nothing but the bound on the best gain."""
    honest = learn_plugin(simulator, owing(0.25), samples=3000).counts
    turned = turned_counts(honest)
    one, other = (
        certify(simulator, UNIFORM, owing(0.3), samples=5000, training=counts) for counts in (honest, turned)
    )
    np.testing.assert_array_equal(one.share_low, other.share_low)
    assert one.gain_low == other.gain_low and one.upper != other.upper
    rigorous = certify(simulator, UNIFORM, owing(0.3), samples=100_000, training=turned, rigorous=True)
    assert rigorous.vacuous or rigorous.share_low[0] <= 1 / 3 <= rigorous.share_high[0]


def turned_counts(counts):
    """Counts in which every successor is the next state on the circle."""
    pairs, s_next = np.repeat(counts.pairs, counts.times), np.repeat((counts.s_next + 1) % 3, counts.times)
    return Counts.of(pairs, s_next, np.repeat(counts.mean, counts.times), 6, 3)


def test_same_seed_same_certificate(simulator):
    for rigorous in (False, True):
        one, two = (
            certify(simulator, UNIFORM, owing(0.3), samples=3000, rigorous=rigorous) for _ in range(2)
        )
        np.testing.assert_array_equal(one.share_low, two.share_low)
        other = certify(simulator, UNIFORM, owing(0.3), samples=3000, rigorous=rigorous, seed=1)
        assert one.gain_low != other.gain_low


# --- refusals


@pytest.mark.parametrize(
    "policy, how, message",
    [
        (
            np.full(6, 0.4),
            {},
            "policy is no distribution over the actions of state 0: it sums to 0.8\n  3 of 3 states",
        ),
        (np.array([1.5, -0.5, 1, 0, 1, 0]), {}, "policy gives state 0, action a1 probability -0.5"),
        (np.ones(4), {}, r"policy has shape \(4,\), expected \(6,\)"),
        (UNIFORM, {"samples": 10}, "samples is 10, expected a whole number of at least 1000"),
        (UNIFORM, {"delta": 1.0}, "delta is 1.0, expected a probability of failure"),
        (UNIFORM, {"training": "counts"}, "training is a str, expected Counts"),
        (
            UNIFORM,
            {"rigorous": True, "reward_range": (0, 0.5)},
            "gave a reward of 1.0, outside of reward_range",
        ),
        (UNIFORM, {"rigorous": True, "reward_range": (1, 0)}, r"reward_range is \(1, 0\), expected"),
    ],
)
def test_bad_input_is_refused(simulator, policy, how, message):
    with pytest.raises(ProblemError, match=message):
        certify(simulator, policy, owing(0.25), **{"samples": 2000, **how})


def test_training_of_another_model_is_refused(simulator):
    other = learn_plugin(scenarios.garnet(5, 2, 2, n_quotas=0).mdp.simulator(), [], samples=500).counts
    with pytest.raises(
        ProblemError, match="training counts 10 pairs and 5 states, the simulator has 6 and 3"
    ):
        certify(simulator, UNIFORM, owing(0.25), samples=2000, training=other)


def test_one_of_several_classes_proves_nothing_fair():
    """Two states that never leave: rollouts end in either, and what is met in one is not met in the other."""
    mdp = MDP(np.eye(2), [1.0, 0.0], [0, 1])
    proof = certify(mdp.simulator(), [1.0, 1.0], [Quota("all", states=[0, 1], at_least=0.5)], samples=20_000)
    assert proof.verdict == "undecided" and proof.more_samples is None
    assert any("several closed classes" in note for note in proof.notes)
    for s in (0, 1):  # the class that was looked at has all of one state and nothing of the other
        quota = [Quota("this", states=[s], at_least=0.5)]
        assert certify(mdp.simulator(), [1.0, 1.0], quota, samples=20_000).verdict in (
            "undecided",
            "not fair",
        )


@pytest.mark.parametrize("rigorous", [False, True])
def test_progress_tells_of_every_sample(rigorous, caplog):
    problem, seen = scenarios.three_state(), []
    policy = solve_lp(problem).policy
    with caplog.at_level("INFO", logger="fairmdp"):
        proof = certify(
            problem.mdp.simulator(), policy, problem.quotas, samples=200_000, rigorous=rigorous,
            progress=lambda done, planned: seen.append((done, planned)),
        )  # fmt: skip
    done = [row[0] for row in seen]
    assert len(seen) > 1 and done == sorted(done) and done[-1] == proof.samples
    assert {row[1] for row in seen} == {200_000}
    assert caplog.messages[-1] == f"{proof.samples} of 200000 samples of the certificate"


def test_rounds_of_learning_are_logged(caplog):
    problem = scenarios.three_state()
    with caplog.at_level("INFO", logger="fairmdp"):
        found = learn_plugin(problem.mdp.simulator(), problem.quotas, samples=6000, seed=1)
    assert [int(line.split()[0]) for line in caplog.messages] == [r.samples for r in found.history]
    assert found.claim in caplog.messages[-1]
