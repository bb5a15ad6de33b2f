"""The Markov chain of one policy: closed classes, long-run shares, bias, hitting times, mixing.

A chain with one closed class has one stationary distribution, ``nu @ P == nu``. Each closed class is solved
by itself: by the subtraction-free elimination of Grassmann, Taksar and Heyman where it is small (every share
comes out with small *relative* error), by damped sweeps where they converge, and where they do not by sparse
factors without the heaviest state, or by multigrid where those would fill up. No eigenvector is ever picked
by its position.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, eye_array
from scipy.sparse.linalg import splu

from fairmdp import chains
from fairmdp.chains import dense, iterative, structure
from fairmdp.chains.factors import Factors
from fairmdp.chains.policy import policy_matrix
from fairmdp.errors import ProblemError
from fairmdp.model.checks import Floats, Ints, ReadOnly, numeric, real_vector
from fairmdp.model.mdp import MDP

NEARLY_REDUCIBLE = 1e3
"""Norm of the deviation matrix above which small errors in the model move the shares a lot."""

_LEFT = 1e-12  # of the equations of a bias, relative to the span of its function


@dataclass(frozen=True)
class Tuning:
    """Sizes at which a chain is solved another way."""

    dense: int = 400  # states up to which dense O(n^3) work is immediate
    sweeps: int = 2000  # before a factorisation is tried
    factored: int = 5_000  # states up to which a chain that hardly mixes is factored, not put to multigrid
    largest_dense: int = 2000  # states up to which dense matrices are formed where there is no other way


@dataclass(frozen=True, eq=False)
class Chain(ReadOnly):
    """A finite Markov chain.

    Attributes
    ----------
    P
        Transition matrix, (S, S).
    guess
        A stationary distribution from elsewhere, or something near it, (S,), from which large chains start;
        it is not trusted.
    tuning
        Sizes at which the chain is solved another way.

    Examples
    --------
    >>> chain = Chain(csr_array([[0.9, 0.1], [0.3, 0.7]]))
    >>> chain.shares
    array([0.75, 0.25])
    >>> round(chain.gain([1.0, 0.0]), 12), chain.mixing_time
    (0.75, 3)
    """

    P: csr_array
    guess: Floats | None = None
    tuning: Tuning = Tuning()

    @classmethod
    def of(cls, mdp: MDP, policy: ArrayLike, guess: Floats | None = None) -> Chain:
        """Return the chain of a policy; where steps take time, its shares are shares of time."""
        if mdp.durations is None:
            return cls(policy_matrix(mdp, policy), guess)
        per_step = mdp.per_step(real_vector("policy", policy, mdp.n_pairs))
        return cls(policy_matrix(mdp.uniform, per_step), guess)

    @property
    def n_states(self) -> int:
        """Number of states."""
        return int(self.P.shape[0])

    @cached_property
    def closed_classes(self) -> tuple[Ints, ...]:
        """Sets of states that are never left and within which every state is reached, in state order."""
        return structure.closed_classes(self._positive)

    @cached_property
    def periods(self) -> tuple[int, ...]:
        """Period of each closed class: 1 where the chain forgets the time."""
        return tuple(structure.period(_restricted(self._positive, c)) for c in self.closed_classes)

    @cached_property
    def stationary(self) -> tuple[Floats, ...]:
        """Stationary distribution of each closed class, (S,) each."""
        found = []
        for states in self.closed_classes:
            nu, whole = np.zeros(self.n_states), states.size == self.n_states
            nu[states] = (self if whole else self._within(states))._stationary()
            found.append(nu)
        return tuple(found)

    @property
    def shares(self) -> Floats:
        """Long-run share of time in each state, (S,); only a chain with one closed class has one answer."""
        if len(self.closed_classes) > 1:
            raise ProblemError(
                f"this chain has {len(self.closed_classes)} closed classes, so its long-run shares depend on "
                "where it starts\n"
                "  use `stationary`, one per class, or `shares_from` a first state's distribution"
            )
        return self.stationary[0]

    def shares_from(self, initial: ArrayLike) -> Floats:
        """Expected long-run share of time in each state from a distribution of the first state, (S,)."""
        start = real_vector("initial", initial, self.n_states)
        transient = np.setdiff1d(np.arange(self.n_states), np.concatenate(self.closed_classes))
        weights = np.array([start[states].sum() for states in self.closed_classes])
        if start[transient].any():
            entering = self.P[transient].T @ self._visits(transient, start[transient])
            entered = np.array([entering[states].sum() for states in self.closed_classes])
            weights += entered * (start[transient].sum() / entered.sum())
        mixture: Floats = weights @ np.array(self.stationary)
        return mixture

    def gain(self, f: ArrayLike) -> float:
        """Long-run average of a function of the state."""
        return float(self.shares @ real_vector("f", f, self.n_states))

    def bias(self, f: ArrayLike) -> Floats:
        """Relative values ``h`` of a function, ``h == f - gain + P @ h`` with ``shares @ h == 0``, (S,).

        Several functions are the columns of a matrix, (S, K), and so are their relative values then.
        """
        f = numeric("f", f)
        if f.ndim != 2 or f.shape[0] != self.n_states:
            f = real_vector("f", f, self.n_states)
        nu = self.shares
        centred: Floats = f - nu @ f
        if self.n_states <= self.tuning.dense:
            h = np.linalg.solve(dense.pinned_down(self.P.toarray(), nu), centred)
        else:
            pin = int(np.argmax(nu))
            goal = _LEFT * np.ptp(centred, axis=0)
            swept = None if pin in self._factored else self._swept(centred, pin, goal)
            h = self._factors(pin).bias(centred) if swept is None else swept
        return np.asarray(h - nu @ h)

    def hitting_times(self, s0: int, tol: float = 1e-10) -> Floats:
        """Expected steps to reach state s0, 0 from itself, (S,); infinite where it may be missed.

        The steps of large chains solve their equations, which have 1 on their right-hand side, within tol.
        """
        if self.n_states > self.tuning.dense and len(self.closed_classes) == 1 and self.shares[s0] > 0:
            # The bias h of the indicator of s0 gives them: (I - P)(h[s0] - h) / nu[s0] = 1 off s0.
            share = float(self.shares[s0])
            target = np.full(self.n_states, -share)
            target[s0] += 1
            h = None if s0 in self._factored else self._swept(target, s0, tol * share)
            if h is not None:
                steps: Floats = (h[s0] - h) / share
                return steps
        try:
            return self._factors(s0).hitting_times.copy()
        except RuntimeError:  # exactly singular: s0 is not reached from everywhere
            steps = np.full(self.n_states, np.inf)
            steps[s0] = 0.0
            return steps

    @cached_property
    def deviation(self) -> Floats:
        """Deviation matrix D, (S, S): the bias of f is ``D @ f`` (small chains)."""
        return np.asarray(self.fundamental_matrix - self.shares)

    @cached_property
    def fundamental_matrix(self) -> Floats:
        """``Z = (I - P + 1 nu)^-1``, (S, S): the bias of f is ``Z @ f`` up to a constant (small chains)."""
        self._require_small("the deviation matrix")
        return np.asarray(np.linalg.inv(dense.pinned_down(self.P.toarray(), self.shares)))

    @cached_property
    def deviation_norm(self) -> float:
        """Infinity norm of the deviation matrix: how far an error in P moves the shares (small chains)."""
        return float(np.abs(self.deviation).sum(axis=1).max())

    @cached_property
    def mixing_time(self) -> int:
        """Least t >= 1 with ``max_s |P^t(s, .) - nu|_1 <= 1/2`` (small aperiodic chains)."""
        self._require_small("an exact mixing time")
        nu = self.shares
        if self.periods[0] > 1:
            raise ProblemError(f"the chain has period {self.periods[0]}: it never mixes")
        return dense.mixing_steps(self.P.toarray(), nu)

    def _within(self, states: Ints) -> Chain:
        guess = None if self.guess is None else self.guess[states]
        return Chain(_restricted(self._positive, states), guess, self.tuning)

    def _stationary(self) -> Floats:
        """Stationary distribution of an irreducible chain."""
        P, n = self._positive, self.n_states
        if n <= self.tuning.dense:
            return dense.eliminated(P.toarray())
        start = np.full(n, 1 / n) if self.guess is None else _distribution(self.guess)
        nu, settled = iterative.stationary(P, start, self.tuning.sweeps)
        if settled:
            return nu
        pin = int(np.argmax(nu))
        if n > self.tuning.factored:
            nu, error = self._slow(pin).stationary(nu, 1e-15)
            if error <= 1e-11:
                return nu
        return self._factors(pin).stationary()

    def _swept(self, f: Floats, pin: int, tol: Any) -> Floats | None:
        """Solution of ``h - P @ h == f`` up to a constant, or None if only factors have it.

        The span of what is left is within tol, a number or one for each column.
        """
        h = iterative.values(self.P, f, tol, self.tuning.sweeps)
        if h is not None or self.n_states <= self.tuning.factored:
            return h
        slow, columns = self._slow(pin), f.reshape(self.n_states, -1).T
        goals = np.broadcast_to(tol, len(columns))
        solved = [slow.bias(column, float(goal)) for column, goal in zip(columns, goals, strict=True)]
        settled = all(left <= goal for (_, left), goal in zip(solved, goals, strict=True))
        return np.column_stack([h for h, _ in solved]).reshape(f.shape) if settled else None

    def _slow(self, pin: int) -> chains.SlowChain:
        # It is compiled, so it is loaded for chains that are large and slow only.
        if pin not in self._slowly:
            self._slowly[pin] = chains.SlowChain.of(self._positive, pin)
        return self._slowly[pin]

    @cached_property
    def _slowly(self) -> dict[int, chains.SlowChain]:
        return {}

    def _visits(self, transient: Ints, start: Floats) -> Floats:
        """Expected steps in each of the transient states."""
        identity = eye_array(transient.size, format="csc")
        stay = (identity - _restricted(self.P, transient)).T.tocsc()
        try:
            return splu(stay).solve(start)
        except RuntimeError:  # singular: a state is left so rarely that 1 - p is 0, so all are left a little
            return splu((stay + np.finfo(float).eps * identity).tocsc()).solve(start)

    def _factors(self, pin: int) -> Factors:
        if pin not in self._factored:
            self._factored[pin] = Factors(self._positive, pin)
        return self._factored[pin]

    @cached_property
    def _factored(self) -> dict[int, Factors]:
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
        most = self.tuning.largest_dense
        if self.n_states > most:
            raise ProblemError(f"{what} takes a dense matrix: {self.n_states} states are above {most}")


def _restricted(P: csr_array, states: Ints) -> csr_array:
    return P if states.size == P.shape[0] else P[states][:, states]


def _distribution(guess: Floats) -> Floats:
    """What can be made of a guess: a distribution."""
    guess = np.clip(np.nan_to_num(guess, posinf=0.0), 0.0, 1e300 / guess.size)
    guess = guess if guess.any() else np.ones(guess.size)
    return guess / guess.sum()
