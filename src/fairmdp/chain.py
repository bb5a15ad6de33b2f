"""The Markov chain of one policy: closed classes, long-run shares, bias, mixing.

A chain with one closed class has one long-run law, ``nu @ P == nu``. Each closed class is solved by
itself: by the subtraction-free elimination of Grassmann, Taksar and Heyman where it is small (every share
comes out with small *relative* error), by power sweeps where they converge, and where they do not by a
sparse factorisation pinned at the heaviest state, or by GMRES where that would fill up. No eigenvector is
ever picked by its position.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, eye_array
from scipy.sparse.csgraph import breadth_first_order, connected_components
from scipy.sparse.linalg import splu

from fairmdp.errors import ProblemError
from fairmdp.mdp import MDP
from fairmdp.validation import Floats, Ints, real_vector

NEARLY_REDUCIBLE = 1e3
"""Norm of the deviation matrix above which small errors in the model move the shares a lot."""

_DENSE = 400  # states up to which dense O(n^3) work is immediate
_FACTORED = 20_000  # states up to which a chain that hardly mixes is factored without asking GMRES first
_SWEEPS = 2000  # power sweeps before a factorisation is tried
_DAMPING = 0.1  # share of the old vector kept by a sweep, so that periodic chains converge too
_MAX_POLICIES = 4096  # deterministic policies that are enumerated for an exact mixing time


def policy_matrix(mdp: MDP, policy: ArrayLike) -> csr_array:
    """Transition matrix of a policy's chain, ``P_pi[s, t] = sum_a pi(a|s) P(s, a; t)``, (S, S)."""
    weights = real_vector("policy", policy, mdp.n_pairs)
    played = np.flatnonzero(weights)
    rows = np.searchsorted(played, mdp.pair_ptr)
    return csr_array((weights[played], played, rows), shape=(mdp.n_states, mdp.n_pairs)) @ mdp.P


@dataclass(frozen=True, eq=False)
class Chain:
    """A finite Markov chain.

    Examples
    --------
    >>> chain = Chain(csr_array([[0.9, 0.1], [0.3, 0.7]]))
    >>> chain.shares
    array([0.75, 0.25])
    >>> round(chain.gain([1.0, 0.0]), 12), chain.mixing_time
    (0.75, 3)
    """

    P: csr_array

    @classmethod
    def of(cls, mdp: MDP, policy: ArrayLike) -> Chain:
        """Return the chain of a policy."""
        return cls(policy_matrix(mdp, policy))

    @property
    def n_states(self) -> int:
        """Number of states."""
        return int(self.P.shape[0])

    @cached_property
    def closed_classes(self) -> tuple[Ints, ...]:
        """Sets of states that are never left and within which every state is reached, in state order."""
        P = self._positive
        n_classes, label = connected_components(P, directed=True, connection="strong")
        rows = np.repeat(label, np.diff(P.indptr))
        closed = np.ones(n_classes, bool)
        closed[rows[rows != label[P.indices]]] = False
        members = np.flatnonzero(closed[label])
        order = members[np.argsort(label[members], kind="stable")]
        groups = np.split(order, np.flatnonzero(np.diff(label[order])) + 1)
        return tuple(sorted(groups, key=lambda group: int(group[0])))

    @cached_property
    def laws(self) -> tuple[Floats, ...]:
        """Long-run law of each closed class, (S,) each."""
        laws = []
        for states in self.closed_classes:
            nu = np.zeros(self.n_states)
            whole = states.size == self.n_states
            nu[states] = (self if whole else Chain(_restricted(self._positive, states)))._stationary()
            laws.append(nu)
        return tuple(laws)

    @property
    def shares(self) -> Floats:
        """Long-run share of time in each state, (S,); only a chain with one closed class has one answer."""
        if len(self.closed_classes) > 1:
            raise ProblemError(
                f"this chain has {len(self.closed_classes)} closed classes, so its long-run shares depend on "
                "where it starts\n  use `laws`, one per class, or `shares_from` a first state's distribution"
            )
        return self.laws[0]

    def shares_from(self, initial: ArrayLike) -> Floats:
        """Expected long-run share of time in each state from a distribution of the first state, (S,)."""
        start = real_vector("initial", initial, self.n_states)
        transient = np.setdiff1d(np.arange(self.n_states), np.concatenate(self.closed_classes))
        weights = np.array([start[states].sum() for states in self.closed_classes])
        if start[transient].any():
            entering = self.P[transient].T @ self._visits(transient, start[transient])
            entered = np.array([entering[states].sum() for states in self.closed_classes])
            weights += entered * (start[transient].sum() / entered.sum())
        mixture: Floats = weights @ np.array(self.laws)
        return mixture

    def _visits(self, transient: Ints, start: Floats) -> Floats:
        """Expected steps in each of the transient states."""
        identity = eye_array(transient.size, format="csc")
        stay = (identity - _restricted(self.P, transient)).T.tocsc()
        try:
            return splu(stay).solve(start)
        except RuntimeError:  # singular: a state is left so rarely that 1 - p is 0, so all are left a little
            return splu((stay + np.finfo(float).eps * identity).tocsc()).solve(start)

    @cached_property
    def periods(self) -> tuple[int, ...]:
        """Period of each closed class: 1 where the chain forgets the time."""
        return tuple(_period(_restricted(self._positive, states)) for states in self.closed_classes)

    def gain(self, f: ArrayLike) -> float:
        """Long-run average of a function of the state."""
        return float(self.shares @ real_vector("f", f, self.n_states))

    def bias(self, f: ArrayLike) -> Floats:
        """Relative values ``h`` of a function, ``h == f - gain + P @ h`` with ``shares @ h == 0``, (S,)."""
        f = real_vector("f", f, self.n_states)
        nu = self.shares
        return _bias(self.P, nu, f - nu @ f)

    def hitting_times(self, s0: int) -> Floats:
        """Expected steps to reach state s0, 0 from itself, (S,); infinite where it may be missed."""
        rest = np.delete(np.arange(self.n_states), s0)
        steps = np.zeros(self.n_states)
        if self.n_states > _DENSE and self.shares[s0] > 0 and s0 not in self._factors:
            # The bias h of the indicator of s0 gives them: (I - P)(h[s0] - h) / nu[s0] = 1 off s0.
            target = -self.shares[s0] * np.ones(self.n_states)
            target[s0] += 1
            h, converged = _bias_sweeps(self.P, target)
            if not converged and self.n_states > _FACTORED:
                h, converged = _bias_gmres(self.P, s0, target, 1e-3 * self.shares[s0])
            if converged:
                return (h[s0] - h) / self.shares[s0]
        try:
            steps[rest] = self._factored(s0).solve(np.ones(rest.size)) if rest.size else 0.0
        except RuntimeError:  # exactly singular: s0 is not reached from everywhere
            steps[rest] = np.inf
        return steps

    @cached_property
    def deviation_norm(self) -> float:
        """Infinity norm of the deviation matrix: how far an error in P moves the shares (small chains)."""
        self._require_small("the deviation matrix")
        nu = self.shares
        Z = np.linalg.inv(np.eye(self.n_states) - self.P.toarray() + nu)
        return float(np.abs(Z - nu).sum(axis=1).max())

    @cached_property
    def mixing_time(self) -> int:
        """Least t >= 1 with ``max_s |P^t(s, .) - nu|_1 <= 1/2`` (small aperiodic chains)."""
        self._require_small("an exact mixing time")
        nu = self.shares
        if self.periods[0] > 1:
            raise ProblemError(f"the chain has period {self.periods[0]}: it never mixes")

        def far(M: Floats) -> bool:
            return bool(np.abs(M - nu).sum(axis=1).max() > 0.5)

        powers = [self.P.toarray()]
        while far(powers[-1]):
            powers.append(powers[-1] @ powers[-1])
            if len(powers) > 60:
                raise ProblemError("the chain is so nearly reducible that its mixing time exceeds 2^60")
        if len(powers) == 1:
            return 1
        t, M = 2 ** (len(powers) - 2), powers[-2]  # the last power of two that is still too early
        for k in range(len(powers) - 3, -1, -1):
            trial = M @ powers[k]
            if far(trial):
                t, M = t + 2**k, trial
        return t + 1

    def _stationary(self) -> Floats:
        """Law of an irreducible chain."""
        P = self._positive
        if self.n_states <= _DENSE:
            return _gth(P.toarray())
        nu, converged = _power(P)
        if converged:
            return nu
        s0 = int(np.argmax(nu))
        if self.n_states > _FACTORED:
            from fairmdp.kernels.krylov import Pinned  # compiled, for chains that are large and slow only

            nu, error = Pinned(P, s0).law(np.full(self.n_states, 1 / self.n_states), 1e-15)
            if error <= 1e-11:
                return nu
        rest = np.delete(np.arange(self.n_states), s0)
        nu = np.ones(self.n_states)
        nu[rest] = np.maximum(self._factored(s0).solve(P[[s0]].toarray()[0, rest], trans="T"), 0.0)
        return nu / nu.sum()

    def _factored(self, s0: int) -> Any:
        """Sparse factors of ``I - P`` without state s0, which give the law as well as hitting times."""
        if s0 not in self._factors:
            self._factors[s0] = _factor(self._positive, np.delete(np.arange(self.n_states), s0))
        return self._factors[s0]

    @cached_property
    def _factors(self) -> dict[int, Any]:
        return {}

    @cached_property
    def _positive(self) -> csr_array:
        """P without the entries that are stored as zero, which are no edges."""
        if self.P.data.all():
            return self.P
        P = self.P.copy()
        P.eliminate_zeros()
        return P

    def _require_small(self, what: str) -> None:
        if self.n_states > 5 * _DENSE:
            raise ProblemError(f"{what} takes a dense matrix: {self.n_states} states are above {5 * _DENSE}")


@dataclass(frozen=True)
class MixingTime:
    """The slowest mixing time over the policies of an MDP.

    ``exact`` says how ``steps`` was found: by enumeration of the deterministic policies, or as the
    upper bound that Dobrushin's coefficient gives for every policy.
    """

    steps: float
    exact: bool


def mixing_time(mdp: MDP) -> MixingTime:
    """Mixing time of an MDP: exact over its deterministic policies when these are few, else an upper bound.

    Examples
    --------
    >>> from fairmdp import scenarios
    >>> mixing_time(scenarios.three_state().mdp)
    MixingTime(steps=8, exact=True)
    """
    counts = mdp.n_actions
    if math.prod(counts.tolist()) <= _MAX_POLICIES and mdp.n_states <= 50:
        steps = 0
        for choice in itertools.product(*(range(c) for c in counts)):
            policy = np.zeros(mdp.n_pairs)
            policy[mdp.pair_ptr[:-1] + choice] = 1
            steps = max(steps, Chain.of(mdp, policy).mixing_time)
        return MixingTime(steps, exact=True)
    tau = dobrushin(mdp)
    return MixingTime(math.inf if tau >= 1 else math.ceil(math.log(4) / -math.log(tau)) if tau else 1, False)


def dobrushin(mdp: MDP) -> float:
    """Largest distance between two rows of different states, ``max |P_i - P_j|_1 / 2``; below 1 all mix."""
    if mdp.n_pairs > 5 * _DENSE:
        raise ProblemError(f"comparing all rows is quadratic: {mdp.n_pairs} pairs are above {5 * _DENSE}")
    P = mdp.P.toarray()
    tau = 0.0
    for s in range(mdp.n_states - 1):
        later = P[mdp.pair_ptr[s + 1] :]
        for row in P[mdp.pair_ptr[s] : mdp.pair_ptr[s + 1]]:
            tau = max(tau, float(np.abs(later - row).sum(axis=1).max()) / 2)
    return min(tau, 1.0)


def _restricted(P: csr_array, states: Ints) -> csr_array:
    return P if states.size == P.shape[0] else P[states][:, states]


def _gth(A: Floats) -> Floats:
    """Law of an irreducible chain by elimination without subtractions (Grassmann, Taksar, Heyman 1985)."""
    n = A.shape[0]
    for k in range(n - 1, 0, -1):
        leaving = max(float(A[k, :k].sum()), 5e-324)  # a product of rare moves may be 0
        with np.errstate(over="ignore"):
            A[:k, k] = np.minimum(A[:k, k] / leaving, 1e290)
        A[:k, :k] += np.outer(A[:k, k], A[k, :k])
    nu = np.zeros(n)
    nu[0] = 1.0
    for k in range(1, n):
        nu[k] = nu[:k] @ A[:k, k]
        if nu[k] > 1e10:  # rare states may be 1e-300 as heavy as common ones
            nu[: k + 1] /= nu[k]
    return nu / nu.sum()


def _power(P: csr_array) -> tuple[Floats, bool]:
    """Damped power sweeps from the uniform law, and whether they came to rest."""
    n = P.shape[0]
    PT = P.T.tocsr()
    nu = np.full(n, 1 / n)
    last = math.inf
    for sweep in range(1, _SWEEPS + 1):
        pushed = PT @ nu
        if sweep % 25 == 0:
            change = float(np.abs(pushed - nu).sum())
            if change < 1e-14 and change > last / 2:  # rounding is all that is left
                return nu, True
            hopeless = change > last * 1e-14 ** (25 / _SWEEPS) and change > 1e-13
            if hopeless and sweep >= 200:
                return nu, False
            last = change
        nu = pushed + _DAMPING * (nu - pushed)
        nu /= nu.sum()
    return nu, False


def _factor(P: csr_array, rest: Ints) -> Any:
    """Sparse factors of ``I - P`` on all states but one: an M-matrix, so no pivoting is needed."""
    A = (eye_array(rest.size, format="csr") - P[rest][:, rest]).tocsc()
    return splu(A, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})


def _bias(P: csr_array, nu: Floats, centred: Floats) -> Floats:
    """Solve ``h - P @ h = centred`` with ``nu @ h = 0``, where ``nu @ centred = 0``."""
    n = P.shape[0]
    if n <= _DENSE:
        # I - P + 1 nu is regular for one closed class, and leaves h with nu @ h = nu @ centred = 0.
        h = np.linalg.solve(np.eye(n) - P.toarray() + nu, centred)
        return h - nu @ h
    h, converged = _bias_sweeps(P, centred)
    s0 = int(np.argmax(nu))
    if not converged and n > _FACTORED:
        h, converged = _bias_gmres(P, s0, centred, 1e-12 * float(np.ptp(centred)))
    if not converged:
        rest = np.delete(np.arange(n), s0)
        h = np.zeros(n)
        h[rest] = _factor(P, rest).solve(centred[rest])
    return h - nu @ h


def _bias_sweeps(P: csr_array, centred: Floats) -> tuple[Floats, bool]:
    """Damped sweeps ``h <- centred + P @ h``, and whether they came to rest."""
    h = centred.copy()
    last = math.inf
    for sweep in range(1, _SWEEPS + 1):
        residual = centred + P @ h - h
        if sweep % 25 == 0:
            span = float(np.ptp(residual))
            if span == 0 or (span <= 1e-14 * float(np.ptp(h)) and span > last / 2):
                return h, True
            if sweep >= 200 and span > last * 1e-14 ** (25 / _SWEEPS) and span > 1e-13 * float(np.ptp(h)):
                return h, False
            last = span
        h += (1 - _DAMPING) * residual
        h -= h[0]
    return h, False


def _bias_gmres(P: csr_array, s0: int, centred: Floats, tol: float) -> tuple[Floats, bool]:
    """Bias that is zero at s0, and whether what is left of its equations has a span within tol."""
    from fairmdp.kernels.krylov import Pinned

    h, _, left = Pinned(P, s0).bias(centred, tol)
    return h, left <= tol


def _period(P: csr_array) -> int:
    """Greatest common divisor of the cycle lengths of an irreducible chain."""
    order, before = breadth_first_order(P, 0, directed=True)
    level = np.zeros(P.shape[0], np.int64)
    for s in order[1:]:
        level[s] = level[before[s]] + 1
    rows = np.repeat(np.arange(P.shape[0]), np.diff(P.indptr))
    return int(np.gcd.reduce(level[rows] + 1 - level[P.indices]))
