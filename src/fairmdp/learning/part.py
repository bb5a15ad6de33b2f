"""The part of a world that records know: pairs that were tried often enough, and states that they lead to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairmdp.learning.counts import Counts
from fairmdp.model.checks import Bools, Floats, Ints
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.model.transitions import staying


def well_tried(mdp: MDP, counts: Counts, fewest: int) -> Bools:
    """Pairs with so many records, closed under the successors that were seen, (SA,).

    A state without such a pair keeps its most recorded one; a state that is left with none, and every pair
    that was seen to lead to it, is not used.
    """
    kept = counts.per_pair >= fewest
    served = np.bincount(mdp.s_of[kept], minlength=mdp.n_states) > 0
    often = np.lexsort((counts.per_pair, mdp.s_of))[mdp.pair_ptr[1:] - 1]  # of each state
    kept[often[~served & (counts.per_pair[often] > 0)]] = True
    while True:
        lives = np.bincount(mdp.s_of[kept], minlength=mdp.n_states) > 0
        leaves = np.zeros(mdp.n_pairs, bool)
        leaves[counts.pairs[~lives[counts.s_next]]] = True
        if not (kept & leaves).any():
            return kept
        kept &= ~leaves


@dataclass(frozen=True, eq=False)
class Part:
    """Some pairs of a problem as a problem of their own."""

    whole: Problem
    kept: Bools  # (SA,)

    @cached_property
    def pairs(self) -> Ints:
        """Numbers of the kept pairs in the whole."""
        return np.flatnonzero(self.kept)

    @cached_property
    def states(self) -> Ints:
        """Numbers of the kept states in the whole."""
        return np.unique(self.whole.mdp.s_of[self.kept])

    @cached_property
    def owed(self) -> Problem:
        """The quotas on the kept pairs."""
        mdp = self.whole.mdp
        s_of = np.searchsorted(self.states, mdp.s_of[self.kept])
        shell = MDP(
            staying(s_of, self.states.size), np.zeros(s_of.size), s_of,
            states=[mdp.state_name(s) for s in self.states.tolist()],
            actions=[mdp.action_name(i) for i in self.pairs.tolist()],
        )  # fmt: skip
        return self.whole.on_part(shell, self.pairs)

    def counts(self, counts: Counts) -> Counts:
        """What was counted of the kept pairs, successors that are not kept left out."""
        inside = np.isin(counts.s_next, self.states)
        mine = np.flatnonzero(self.kept[counts.pairs] & inside)
        pairs = np.searchsorted(self.pairs, counts.pairs[mine])
        keys = pairs * self.states.size + np.searchsorted(self.states, counts.s_next[mine])
        times, mean, spread = counts.times[mine], counts.mean[mine], counts.spread[mine]
        return Counts(self.pairs.size, self.states.size, keys, times, mean, spread)

    def leaking(self, counts: Counts) -> Bools:
        """Kept pairs that were seen to lead elsewhere, by their number in the part."""
        out = self.kept[counts.pairs] & ~np.isin(counts.s_next, self.states)
        return np.isin(self.pairs, counts.pairs[out])

    def widened(self, policy: Floats, counts: Counts) -> Floats:
        """The policy over all pairs, (SA,): in a state that is not kept, what was done most often."""
        mdp = self.whole.mdp
        whole = np.zeros(mdp.n_pairs)
        whole[self.kept] = policy
        rest = np.setdiff1d(np.arange(mdp.n_states), self.states)
        often = np.lexsort((-np.arange(mdp.n_pairs), counts.per_pair, mdp.s_of))[mdp.pair_ptr[1:] - 1]
        whole[often[rest]] = 1.0
        return whole
