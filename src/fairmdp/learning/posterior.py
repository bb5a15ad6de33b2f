"""Does a policy meet its quotas? A test on fresh samples whose level does not rest on normal approximations.

Given the counts ``n_i`` of every pair ``i`` that the policy uses, all rows are drawn M times from
``Dirichlet(n_i)``, and the long-run shares of every draw are solved exactly: rare successors make them
skewed and slow mixing makes them curved, and neither is linearised. A successor that was never seen is
paid for by one pseudo-observation per bound, of weight ``Gamma(1)``, where it hurts most: in the row with
the largest ``x_i / n_i ((P H)_i - min H)``, at the state of least ``H``. The bound is the
``floor(delta (M + 1))``-th smallest share of the draws.

For one row with two successors this is the bound of Clopper and Pearson, for one row the one that Gaffke
conjectured; for several rows its level was measured (``benchmarks/claims.py``), not proved. One
factorisation per draw serves all bounds: with ``A = I - P + 1 q`` for any distribution ``q``, ``h = A^-1 f``
has ``q @ h == nu @ f``, and the pseudo-observation changes one row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from fairmdp.chains.chain import Chain
from fairmdp.learning.counts import Counts
from fairmdp.learning.evaluation import estimated, per_state
from fairmdp.model.checks import Floats, Ints
from fairmdp.model.problem import Problem

FEWEST = 2
"""Records of every used pair without which nothing is said."""


@dataclass(frozen=True)
class Tuning:
    """Sizes of the test."""

    draws: int = 2000  # at delta 0.05 the bound is the 100th smallest, its level right within 0.5 %
    in_tail: int = 20  # draws beyond the bound that a small delta asks for
    fewest_in_tail: int = 3  # draws beyond the bound below which chance decides, and nothing is said
    work: float = 8e9  # draws times the cube of the states: about a second per policy
    all_work: float = 4e10  # of all policies together, which limits how many of large models are tested
    fewest_tests: int = 4
    at_once: int = 2_000_000  # numbers of all draws that are solved together


TUNING = Tuning()


@dataclass(frozen=True, eq=False)
class Trial:
    """Bounds on the shares of one policy, each at the full level, and whether all quotas are met by them."""

    passed: bool
    low: Floats  # (K,)
    high: Floats  # (K,)
    shares: Floats  # (K,), on the fresh samples
    why_not: str = ""  # where no bounds could be given

    @classmethod
    def without_bounds(cls, n_quotas: int, why_not: str = "") -> Trial:
        """Return what is known where nothing was tested; without a reason there was nothing to test."""
        nothing = np.zeros(n_quotas), np.ones(n_quotas), np.full(n_quotas, np.nan)
        return cls(not why_not, *nothing, why_not)

    def worst(self, owed: Problem) -> tuple[int, bool]:
        """Return the quota that was missed by the most, and whether it was its lower bound."""
        below, above = owed.at_least - self.low, self.high - owed.at_most
        k = int(np.argmax(np.maximum(below, above)))
        return k, bool(below[k] >= above[k])

    def shown_short(self, owed: Problem, on: str) -> str:
        """Say which bound was not reached, ``on`` which samples."""
        k, lower = self.worst(owed)
        bound, asked = (self.low, owed.at_least) if lower else (self.high, owed.at_most)
        shown, stated = (float(owed.units.values(np.asarray(ends, float))[k]) for ends in (bound, asked))
        return (
            f"no claim: the {'lower' if lower else 'upper'} bound on {owed.names[k]} is {shown:.4g} "
            f"on {on}, {stated:.4g} is {'owed' if lower else 'allowed'}"
        )


def affordable_draws(n_states: int, delta: float) -> int:
    """Draws that a test of so many states can take; 0 where too few are affordable to say anything."""
    wanted = max(TUNING.draws, int(np.ceil(TUNING.in_tail / delta)))
    draws = min(wanted, int(TUNING.work / n_states**3))
    return draws if delta * (draws + 1) >= TUNING.fewest_in_tail or draws == wanted else 0


def affordable_tests(n_states: int, draws: int) -> int:
    """Policies that can be tested with so many draws each."""
    return max(int(TUNING.all_work / (draws * n_states**3)), TUNING.fewest_tests)


def trial(
    owed: Problem,
    fresh: Counts,
    policy: Floats,
    delta: float,
    draws: int,
    rng: np.random.Generator,
    tuning: Tuning = TUNING,
) -> Trial:
    """Test a policy on counts that had no part in choosing it.

    Examples
    --------
    A lazy walk over two states owes the second one 0.2; it is there a third of the time.

    >>> from fairmdp import MDP, Quota
    >>> owed = Problem(MDP([[0.8, 0.2], [0.4, 0.6]], [1.0, 0.0], [0, 1]), [Quota("1", [1], at_least=0.2)])
    >>> pairs, s_next = np.repeat([0, 0, 1, 1], [80, 20, 40, 60]), np.repeat([0, 1, 0, 1], [80, 20, 40, 60])
    >>> seen = Counts.of(pairs, s_next, np.zeros(200), 2, 2)
    >>> found = trial(owed, seen, np.ones(2), 0.05, 2000, np.random.default_rng(0))
    >>> found.passed, found.shares.round(3), found.low.round(2)
    (True, array([0.333]), array([0.25]))
    """
    K = owed.n_quotas
    found = _Judged.of(owed, fresh, policy)
    if isinstance(found, str):
        return Trial.without_bounds(K, found)
    bounds = [_Bound(k, 1.0) for k in np.flatnonzero(owed.at_least > 0).tolist()]
    bounds += [_Bound(k, -1.0) for k in np.flatnonzero(owed.at_most < 1).tolist()]
    worst = [found.worst(b.sign * found.H[:, b.k]) for b in bounds]
    drawn = np.empty((len(bounds), draws))
    at = 0
    for moved in found.draws(worst, draws, rng, tuning):
        m = moved.shape[1]
        for n, b in enumerate(bounds):
            drawn[n, at : at + m] = moved[n, :, b.k]
        at += m
    low, high = np.zeros(K), np.ones(K)
    tail = int(delta * (draws + 1))
    for b, values in zip(bounds, np.sort(drawn, axis=1), strict=True):
        if b.sign > 0:
            low[b.k] = values[tail - 1]
        else:
            high[b.k] = values[-tail]
    passed = bool((low >= owed.at_least).all() and (high <= owed.at_most).all())
    return Trial(passed, low, high, found.shares)


def floor(
    owed: Problem,
    fresh: Counts,
    policy: Floats,
    worth: tuple[float, Floats],
    value: Callable[[Floats, Floats], Floats],
    delta: float,
    draws: int,
    rng: np.random.Generator,
) -> float | str:
    """Lower bound on a function of a policy's shares and gain, as `trial` has one on each share.

    ``value(shares, gains)`` takes (m, K) and (m,). ``worth`` is what one more unit of the gain and of each
    share is about worth, which says where an unseen successor would hurt; rewards are drawn as normal around
    their means. Where nothing can be said, the reason is returned.
    """
    found = _Judged.of(owed, fresh, policy)
    if isinstance(found, str):
        return found
    reward, shares = worth
    H = found.H @ shares + (reward * found.gain_bias() if reward else 0.0)
    drawn = [
        value(moved[0, :, : owed.n_quotas], moved[0, :, -1])  # the last one is a gain where it counts
        for moved in found.draws([found.worst(H)], draws, rng, TUNING, paid=bool(reward))
    ]
    return float(np.sort(np.concatenate(drawn))[int(delta * (draws + 1)) - 1])


@dataclass(frozen=True, eq=False)
class _Judged:
    """A policy on fresh counts: its chain, and where an unseen successor would hurt."""

    owed: Problem
    fresh: Counts
    policy: Floats
    problem: Problem  # the model of the counts
    chain: Chain
    f: Floats  # (S, K), share of each quota per visit
    H: Floats  # (S, K), its relative values

    @classmethod
    def of(cls, owed: Problem, fresh: Counts, policy: Floats) -> _Judged | str:
        """Evaluate it, or say why nothing can be said."""
        if fresh.per_pair[policy > 0].min() < FEWEST:
            return f"a pair that the policy uses has fewer than {FEWEST} fresh samples"
        problem = estimated(owed, fresh)
        chain = Chain.of(problem.mdp, policy)
        if len(chain.closed_classes) > 1:
            return "the policy's estimated chain has several closed classes"
        f = per_state(problem.mdp, policy) @ owed.members.T.toarray()
        return cls(owed, fresh, policy, problem, chain, f, chain.fundamental_matrix @ f)

    @property
    def shares(self) -> Floats:
        """Of the quotas, on the counts, (K,)."""
        return self.chain.shares @ self.f

    def gain_bias(self) -> Floats:
        """Relative values of the gain, (S,)."""
        return self.chain.fundamental_matrix @ (per_state(self.problem.mdp, self.policy) @ self.problem.mdp.r)

    def worst(self, h: Floats) -> tuple[int, int]:
        """Row in which an unseen successor costs the most of h, among those used, and which one it is."""
        mdp = self.problem.mdp
        weights = self.policy * self.chain.shares[mdp.s_of] / np.maximum(self.fresh.per_pair, 1)
        to_lose = mdp.P @ h - h.min()
        return int(np.argmax(np.where(self.policy > 0, weights * to_lose, -np.inf))), int(np.argmin(h))

    def draws(
        self,
        unseen: Sequence[tuple[int, int]],
        draws: int,
        rng: np.random.Generator,
        tuning: Tuning,
        *,
        paid: bool = False,
    ) -> Iterator[Floats]:
        """Draw all rows so many times: shares, once for each unseen successor, (unseen, m, K).

        With ``paid`` the gain is one more column.
        """
        owed, fresh, policy, nu = self.owed, self.fresh, self.policy, self.chain.shares
        S, f = owed.mdp.n_states, self.f
        mine = np.flatnonzero((policy > 0)[fresh.pairs])
        pairs, s_next, times = fresh.pairs[mine], fresh.s_next[mine], fresh.times[mine].astype(float)
        first = np.flatnonzero(np.diff(pairs, prepend=-1))
        place = np.cumsum(np.diff(pairs, prepend=-1) != 0) - 1  # of each entry's pair among those used
        at = {int(pairs[start]): (n, slice(start, end)) for n, (start, end) in enumerate(
            zip(first, np.append(first[1:], pairs.size), strict=True))}  # fmt: skip
        cells = owed.mdp.s_of[pairs] * S + s_next
        into_cells = csr_array((policy[pairs], (cells, np.arange(pairs.size))), shape=(S * S, pairs.size))
        rows = np.column_stack([np.arange(S) == owed.mdp.s_of[i] for i, _ in unseen] or [np.zeros((S, 0))])
        known = np.column_stack([f, rows])  # (S, K + unseen)
        step = max(tuning.at_once // (S * S + pairs.size), 1)
        for begin in range(0, draws, step):
            m = min(step, draws - begin)
            gammas = rng.standard_gamma(times, size=(m, pairs.size))
            sums = np.add.reduceat(gammas, first, axis=1)
            p = gammas / sums[:, place]
            A = np.eye(S) - (into_cells @ p.T).T.reshape(m, S, S) + nu
            right = np.broadcast_to(known, (m, *known.shape))
            if paid:
                right = np.concatenate([right, self._paid(p, mine, rng)[:, :, None]], axis=2)
            X = np.linalg.solve(A, right)
            means = nu @ X  # shares of the quotas, then of the states of the chosen rows, then the gain
            columns = [*range(owed.n_quotas), *([means.shape[1] - 1] if paid else [])]
            moved = np.empty((len(unseen), m, len(columns)))
            for n, (i, j) in enumerate(unseen):
                where, part = at[i]
                extra = rng.standard_exponential(m)
                weight = policy[i] * extra / (sums[:, where] + extra)
                h, u = X[:, :, columns], X[:, :, owed.n_quotas + n]
                towards_h = h[:, j] - np.einsum("me,mek->mk", p[:, part], h[:, s_next[part]])
                towards_u = u[:, j] - (p[:, part] * u[:, s_next[part]]).sum(axis=1)
                nu_row = means[:, owed.n_quotas + n] / (1 - weight * towards_u)
                moved[n] = means[:, columns] + (nu_row * weight)[:, None] * towards_h
            yield moved

    def _paid(self, p: Floats, mine: Ints, rng: np.random.Generator) -> Floats:
        """Reward of a step from each state, (m, S): means that were seen, with normal errors, by draws p."""
        fresh, n = self.fresh, self.fresh.per_pair
        spread = np.bincount(fresh.pairs, weights=fresh.spread, minlength=fresh.n_pairs)
        error = np.sqrt(spread / np.maximum(n * (n - 1.0), 1.0))  # (SA,)
        of_state = csr_array(
            (self.policy[fresh.pairs[mine]], (self.owed.mdp.s_of[fresh.pairs[mine]], np.arange(mine.size))),
            shape=(self.owed.mdp.n_states, mine.size),
        )
        noise = rng.standard_normal((p.shape[0], fresh.n_pairs)) * error
        mixed = per_state(self.problem.mdp, self.policy) @ noise.T
        paid: Floats = (of_state @ (p * fresh.mean[mine]).T + mixed).T
        return paid


@dataclass(frozen=True)
class _Bound:
    """A lower bound (sign 1) or an upper one (sign -1) of quota k."""

    k: int
    sign: float
