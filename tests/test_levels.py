"""The share that all groups can have where runs may end differently, against brute force over all policies."""

import numpy as np
import pytest
from benchmarks.brute_force import best_gain
from benchmarks.multichain import draw

from fairmdp import MDP, Problem, ProblemError, Quota, Status, frontiers, solve_max_min, verify
from fairmdp.solution.solution import Remark
from fairmdp.solvers.apart import falls_apart

SLIP = 1e-6


def groups(seed, mean=None):
    """Groups of a random model that falls apart, in every run or in the mean over runs."""
    rng, mdp = np.random.default_rng(seed + 10**6), draw(seed).mdp
    mdp = mdp.with_initial("0") if mean and mdp.initial is None else mdp
    quotas = []
    for k in range(int(rng.integers(1, 4))):
        states = rng.choice(mdp.n_states, size=int(rng.integers(1, mdp.n_states)), replace=False)
        drawn = bool(mdp.initial is not None and rng.random() < 0.5)
        expected = drawn if mean is None else mean
        quotas.append(Quota(f"g{k}", states=states, at_least=0.0, expected=expected))
    problem = Problem(mdp, quotas)
    return problem if falls_apart(problem) else None


def can_have(problem, low):
    return best_gain(problem.with_bounds(np.clip(low, 0, 1))) is not None


@pytest.mark.parametrize("seed", [6, 8, 14, 15, 22, 35, 53])
def test_the_common_level_is_that_of_brute_force(seed):
    problem = groups(seed)
    found = solve_max_min(problem)
    assert found.status is Status.OPTIMAL
    assert verify(problem.with_bounds(found.at_least), found, exact=True).ok
    level = found.at_least.min()
    (limit,) = [note.value for note in found.notes if note.remark is Remark.BEST_LEAST_SHARE]
    assert level <= limit + 1e-12 and limit - level < SLIP
    assert can_have(problem, np.full(problem.n_quotas, level - SLIP))
    assert limit > 1 - SLIP or not can_have(problem, np.full(problem.n_quotas, limit + SLIP))


@pytest.mark.parametrize("seed", [6, 15, 19, 22, 55])
def test_levels_of_the_mean_leave_nobody_behind(seed):
    """Nobody can have more but at the cost of somebody who has no more."""
    problem = groups(seed, mean=True)
    has = solve_max_min(problem, leximin=True).at_least
    assert can_have(problem, has - SLIP)
    for k in np.flatnonzero(has < 1 - SLIP):
        low = np.where(has <= has[k] + SLIP, has - SLIP, 0.0)
        low[k] = has[k] + 20 * SLIP
        assert not can_have(problem, low)


def fork(*, expected):
    """Left for good, where both are served a little, or right, where only one is."""
    mdp = MDP(
        [[0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0], [0, 0.5, 0.5, 0], [0, 0, 0, 1]], [0, 0, 1, 1, 9],
        [0, 0, 1, 2, 3], states=["start", "left", "pause", "right"], initial="start",
    )  # fmt: skip
    sets = {"a": ["left", "right"], "b": ["pause"]}
    return Problem(mdp, [Quota(k, states=s, at_least=0.0, expected=expected) for k, s in sets.items()])


@pytest.mark.parametrize("expected", [False, True])
def test_the_worst_off_are_served_from_the_start(expected):
    problem = fork(expected=expected)
    found = solve_max_min(problem)
    shares, gain = ([0.5, 0.5], 3) if expected else ([1 / 3, 2 / 3], 1)  # in the mean a quarter ends right
    assert found.shares == pytest.approx(shares) and found.gain == pytest.approx(gain)
    beside = frontiers.compare(problem).policies
    assert beside["max-min"].gain == pytest.approx(gain) and beside["no quotas"].gain == pytest.approx(9)


def test_levels_of_every_run_are_refused():
    with pytest.raises(ProblemError, match="no levels where runs may end differently"):
        solve_max_min(fork(expected=False), leximin=True)
    even = solve_max_min(fork(expected=True), leximin=True)
    assert even.at_least == pytest.approx([0.5, 0.5], abs=1e-6)
