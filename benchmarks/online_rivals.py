"""Posterior sampling and C-UCRL as their papers and github.com/danilprov/cmdp state them, written anew.

Both know which pairs count for which quota and the mean reward of every pair (there: the option
``known_rewards``), which the agent of this package does not. They share its loop: ``act`` and ``observe``.
Two places in which that code goes astray are not repeated. States without mass in a program's answer take an
action that leads to the others (there 0/0, which always plays the first action), and where a program has no
answer all actions are as likely (there each has probability 0.25, whatever their number).

References
----------
.. [1] Provodin, Kaptein and Pechenizkiy, *Efficient Exploration in Average-Reward Constrained Reinforcement
   Learning: Achieving Near-Optimal Regret With Posterior Sampling*, ICML 2024.
.. [2] Zheng and Ratliff, *Constrained Upper Confidence Reinforcement Learning*, L4DC 2020.
"""

from bisect import bisect_right

import numpy as np
from scipy.sparse import csr_array

from fairmdp import MDP, Problem
from fairmdp.backends.flow_lp import FlowLP
from fairmdp.chains.policy import ladder, policy_of, uniform_policy
from fairmdp.model.checks import Floats
from fairmdp.model.rows import PlainRows
from fairmdp.online.bounds import Bounds

_SMALLEST = 1e-9  # probability that means something to HiGHS
_PRIOR = 0.05  # least weight of a next state in posterior sampling
_LONGER = 3  # times its visits before, by which a pair ends an epoch of posterior sampling
_BONUS = 0.01  # of C-UCRL, over the root of the visits
_EXPLORE = 20  # steps of C-UCRL between two policies


class Rival:
    """Counts, a policy, and programs on a model; when there is a new policy is up to each."""

    def __init__(self, problem: Problem, seed: int, counts: Floats | None = None) -> None:
        mdp = problem.mdp
        self._mdp, self._bounds = mdp, Bounds.of(problem)
        self._rng = np.random.default_rng([seed, 71])
        self._first = mdp.pair_ptr[:-1].tolist()
        self.counts = np.zeros((mdp.n_pairs, mdp.n_states)) if counts is None else counts.copy()

    def act(self, state: int) -> int:
        """Draw an action of a state."""
        return bisect_right(self._rungs, state + self._rng.random()) - self._first[state]

    def _follow(self, policy: Floats) -> None:
        self._rungs = ladder(self._mdp, policy).tolist()

    def _best(self, P: Floats, r: Floats, penalty: Floats | float = 0.0) -> Floats:
        """The best fair policy on a model, each account lowered by a penalty on pairs."""
        bounds, sign = self._bounds, self._bounds.sign
        P = np.where(P < _SMALLEST, 0.0, P)
        mdp = MDP(csr_array(P / P.sum(axis=1, keepdims=True)), r, self._mdp.s_of)
        counts = bounds.counts - sign * np.broadcast_to(penalty, r.shape)[:, None]
        floor = sign > 0
        low, high = np.where(floor, bounds.bound, -np.inf), np.where(floor, np.inf, bounds.bound)
        answer = FlowLP(PlainRows(mdp, csr_array(counts.T), low, high), r).run()
        return uniform_policy(self._mdp) if answer is None else policy_of(mdp, answer.x)


class PosteriorSampling(Rival):
    """A model drawn for each epoch, whose best fair policy is played until the visits of a pair trebled."""

    def __init__(self, problem: Problem, seed: int, counts: Floats | None = None) -> None:
        super().__init__(problem, seed, counts)
        self._begin()

    def observe(self, state: int, action: int, reward: float, following: int) -> None:
        """Count, and begin an epoch where one ended."""
        i = self._first[state] + action
        self.counts[i, following] += 1
        self._left[i] -= 1
        if self._left[i] <= 0:
            self._begin()

    def _begin(self) -> None:
        drawn = self._rng.standard_gamma(np.maximum(self.counts, _PRIOR))
        self._follow(self._best(drawn / drawn.sum(axis=1, keepdims=True), self._mdp.r))
        self._left = (_LONGER * (self.counts.sum(axis=1) + 1)).tolist()


class Conservative(Rival):
    """C-UCRL: a few even steps, then longer and longer on the means, less what they may be wrong by."""

    def __init__(self, problem: Problem, seed: int, counts: Floats | None = None) -> None:
        super().__init__(problem, seed, counts)
        self._epoch, self._left = 0, 0
        self._begin()

    def observe(self, state: int, action: int, reward: float, following: int) -> None:
        """Count, and go over from even steps to a policy and back."""
        self.counts[self._first[state] + action, following] += 1
        self._left -= 1
        if self._left <= 0:
            self._begin()

    def _begin(self) -> None:
        self._exploring = not getattr(self, "_exploring", False) or self._epoch == 0
        if self._exploring:
            self._epoch, self._left = self._epoch + 1, _EXPLORE
            self._follow(uniform_policy(self._mdp))
            return
        self._left = max((self._epoch - 1) * _EXPLORE, 1)
        n = self.counts.sum(axis=1)
        stay = np.zeros_like(self.counts)
        stay[np.arange(n.size), self._mdp.s_of] = 1.0
        mean = np.where(n[:, None] > 0, self.counts / np.maximum(n, 1)[:, None], stay)
        bonus = np.where(n > 0, _BONUS / np.sqrt(np.maximum(n, 1)), 1.0)
        self._follow(self._best(mean, self._mdp.r + bonus, bonus))


RIVALS = {"posterior sampling": PosteriorSampling, "conservative": Conservative}
