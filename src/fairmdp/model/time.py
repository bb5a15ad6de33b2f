"""Steps that take time: semi-Markov and continuous-time models as models of equal steps.

A decision in pair ``i`` takes ``tau_i`` on average, whatever the distribution of that time: long-run averages
do not depend on more. For every ``eta > 0`` with ``(1 - P_ii) eta < tau_i`` the model of equal steps ::

    P'_i = e_s + (eta / tau_i) (P_i - e_s),    r'_i = r_i / tau_i,    s the state of pair i

has the gain per unit of time as its gain and the shares of time as its shares [1]_. It stays in a state for
as many steps as that takes units ``eta`` of time, so a policy's probability per step is in proportion to
``pi_i tau_i``, and one per decision to ``pi'_i / tau_i``. With ``eta h' = h`` its relative values are ::

    r'_i + P'_i h' - h'_s <= g    if and only if    r_i + P_i h - h_s <= g tau_i

References
----------
.. [1] Puterman, *Markov Decision Processes*, Wiley 1994, Section 11.4: the data transformation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, diags_array, issparse

from fairmdp.errors import ProblemError
from fairmdp.model.checks import Floats, Ints, count_of, first, numeric, real_vector, refuse
from fairmdp.model.labels import Labelled

SHORTEST, LONGEST = 1e-15, 1e15
"""Durations lie between these: what underflows beside them is less than the certificate allows for."""

MOST_LEFT = 0.9
"""Chance to leave a state in one of the equal steps, at most: none is periodic, and few are idle."""

_BALANCED = 1e-9  # how far the diagonal of a generator may be from what leaves, relatively


def spanned(unit: str) -> str:
    """What more than one unit of time is called."""
    return "units of time" if unit == "unit of time" else f"{unit}s"


def checked_durations(durations: ArrayLike, of: Labelled) -> Floats:
    """Durations of the pairs, (SA,), as a new vector."""
    tau = real_vector("durations", durations, of.n_pairs)
    bad = ~((tau >= SHORTEST) & (tau <= LONGEST))
    if (i := first(bad)) is not None:
        refuse(
            f"durations[{i}] is {tau[i]}, expected a time from {SHORTEST:g} to {LONGEST:g}",
            f"pair {i} is {of.pair_text(i)}; {count_of(bad.sum(), tau.size, 'durations')} out of range",
            "give the mean time that a decision takes; what takes no time belongs to the decision before it",
        )
    return tau


def uniform_step(P: csr_array, s_of: Ints, durations: Floats) -> float:
    """Length ``eta`` of equal steps: a power of two, so that scaling by it rounds nothing."""
    leaving = _moves(P, s_of) @ np.ones(P.shape[1])  # (SA,)
    moving = leaving > 0
    longest = float((durations[moving] / leaving[moving]).min()) if moving.any() else float(durations.min())
    return 2.0 ** np.floor(np.log2(MOST_LEFT * longest))


def uniform_rows(P: csr_array, s_of: Ints, durations: Floats, step: float) -> csr_array:
    """Transitions of the model of equal steps, (SA, S)."""
    moves = (diags_array(step / durations) @ _moves(P, s_of)).tocsr()
    left = moves @ np.ones(P.shape[1])
    stay = csr_array((1.0 - left, s_of, np.arange(s_of.size + 1)), shape=P.shape)
    return csr_array(moves + stay)


def weighed(policy: Floats, weights: Floats, pair_ptr: Ints, s_of: Ints) -> Floats:
    """Policy in proportion to its probabilities times weights, (SA,)."""
    tilted = policy * weights
    return np.asarray(tilted / np.add.reduceat(tilted, pair_ptr[:-1])[s_of])


def jumps(
    rates: Any, reward_rates: ArrayLike, s_of: ArrayLike, lumps: Any | None
) -> tuple[csr_array, Floats, Floats]:
    """Transitions, rewards and durations of a continuous-time model's decisions.

    A pair is left after an exponential time, so that ``tau = 1 / sum(rates)`` and ``P = tau rates``. One that
    nothing ends is looked at again after one unit of time.
    """
    rates = _event_rates(rates, np.asarray(s_of))
    n_pairs = rates.shape[0]
    total = rates @ np.ones(rates.shape[1])
    ends = total > 0
    durations = np.divide(1.0, total, out=np.ones(n_pairs), where=ends)
    P = csr_array(diags_array(durations) @ rates)
    stay = csr_array(((~ends).astype(float), s_of, np.arange(n_pairs + 1)), shape=P.shape)
    r = real_vector("reward_rates", reward_rates, n_pairs) * durations
    if lumps is not None:
        r = r + np.where(ends, _mean_lumps(P, lumps), 0.0)
    return csr_array(P + stay), r, durations


def _event_rates(rates: Any, s_of: Any) -> csr_array:
    """Rates of events, (SA, S), without the diagonal of a generator."""
    rates = csr_array(rates, dtype=float) if issparse(rates) else csr_array(numeric("rates", rates))
    if rates.ndim != 2 or s_of.shape != (rates.shape[0],):
        raise ProblemError(
            f"rates has shape {rates.shape} and s_of {s_of.shape}, expected (SA, S) and (SA,): a row per pair"
        )
    rates.sum_duplicates()
    row = np.repeat(np.arange(rates.shape[0]), np.diff(rates.indptr))
    diagonal = (rates.indices == s_of[row]) & (rates.data < 0)
    away = np.bincount(row, np.where(diagonal, 0.0, rates.data), rates.shape[0])
    balanced = diagonal & (np.abs(rates.data + away[row]) <= _BALANCED * np.abs(rates.data))
    rates.data = np.where(balanced, 0.0, rates.data)
    bad = ~(np.isfinite(rates.data) & (rates.data >= 0))
    if (k := first(bad)) is not None:
        refuse(
            f"rates[{row[k]}, {rates.indices[k]}] is {rates.data[k]}, expected a rate of at least 0",
            f"{count_of(bad.sum(), bad.size, 'rates')} negative or not finite",
            "rates are events per unit of time; the diagonal of a generator must balance its row",
        )
    rates.eliminate_zeros()
    return rates


def _mean_lumps(P: csr_array, lumps: Any) -> Floats:
    """Mean of what is paid when a pair ends, (SA,)."""
    if not issparse(lumps) and np.ndim(lumps) == 1:
        return real_vector("lumps", lumps, P.shape[0])
    lumps = csr_array(lumps, dtype=float) if issparse(lumps) else numeric("lumps", lumps)
    if lumps.shape != P.shape:
        raise ProblemError(
            f"lumps has shape {lumps.shape}, expected ({P.shape[0]},), one per pair, "
            f"or {P.shape}, one per transition"
        )
    return np.asarray(csr_array(P.multiply(lumps)) @ np.ones(P.shape[1]))


def _moves(P: csr_array, s_of: Ints) -> csr_array:
    """P without the chances to stay where one is."""
    own = P.indices == np.repeat(s_of, np.diff(P.indptr))
    return csr_array((np.where(own, 0.0, P.data), P.indices, P.indptr), shape=P.shape)
