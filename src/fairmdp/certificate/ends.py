"""Pairs that stay within a label, and prices that are charged in one: what a ceiling from the start is of.

Let ``C`` be any labels of the states that can be reached, ``g`` and ``w >= 0`` constant on labels, and let a
pair be internal if all its successors have the label of its state. With ``w_s - (P w)_i >= 1`` for all other
pairs, none of them is used for ever: of a run no more than ``initial @ w`` are expected. With relative values
``h``, prices ``mu`` of quotas on the mean over runs and ``mu_C`` of quotas that every run must meet, and ::

    g_C   >= max over internal i in C of [ r_i + (G.T mu)_i + (G.T mu_C)_i + (P h)_i - h_{s(i)} ] - b @ mu_C
    drift >= max over other pairs of (P g)_i - g_{s(i)},  drift >= 0

no policy that meets the quotas earns more than ::

    initial @ g + drift * (initial @ w) - b @ mu

A run ends in one label and meets its quotas there, so that those of every run hold of the time ``x_C`` spent
in each label: ``r @ x <= sum_C g_C x(C) - b @ mu``. And ``sum_C g_C x(C)`` is what ``g`` is in the end,
which is ``initial @ g`` and what other pairs add to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from fairmdp.model.checks import Bools, Floats, Ints
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.solution.ends import Ends


@dataclass(frozen=True, eq=False)
class Labelled:
    """Labels of states that were checked: nothing leads from what has one to what has none."""

    label: Ints  # (S,)
    count: int
    internal: Bools  # (SA,)
    moving: Ints  # numbers of the pairs of labelled states that are not internal


def labelled(mdp: MDP, label: Ints) -> Labelled | None:
    """Tell pairs apart by labels; None if some state that can be reached has none."""
    P = positive(mdp.P)
    ahead, own = label[P.indices], label[mdp.s_of]
    least, most = (end.reduceat(ahead, P.indptr[:-1]) for end in (np.minimum, np.maximum))
    inside = own >= 0
    if (least[inside] < 0).any() or (label[mdp.start > 0] < 0).any():
        return None
    internal = inside & (least == own) & (most == own)
    return Labelled(label, int(label.max()) + 1, internal, np.flatnonzero(inside & ~internal))


def largest(values: Floats, at: Ints, count: int) -> Floats:
    """Largest value of each label, minus infinity where it has none, (count,)."""
    found = np.full(count, -np.inf)
    np.maximum.at(found, at, values)
    return found


def of_every_run(problem: Problem, ends: Ends) -> csr_array:
    """Prices for each label of quotas that every run must meet, on bounds that ask for something."""
    prices = csr_array(ends.component_prices, dtype=float)  # (K, C)
    prices.sum_duplicates()
    k = np.repeat(np.arange(problem.n_quotas), np.diff(prices.indptr))
    idle = np.where(prices.data > 0, problem.at_least[k] <= 0, problem.at_most[k] >= 1)
    data = np.where(idle | problem.expected[k], 0.0, prices.data)
    return csr_array((data, prices.indices, prices.indptr), shape=prices.shape)


def of_the_mean(problem: Problem, prices: Floats) -> Floats:
    """Prices of quotas on the mean over runs, (K,), and 0 for the others."""
    return np.where(problem.expected, prices, 0.0)


def shown_prices(problem: Problem, prices: Floats, ends: Ends, chances: Floats | None = None) -> Floats:
    """Prices of quotas, (K,): on what every run must meet those of the labels, weighed with chances.

    Where there is no policy that could end anywhere they are the sum over the labels.
    """
    own = of_every_run(problem, ends)
    weight = np.ones(own.shape[1]) if chances is None else chances
    return np.where(problem.expected, prices, own @ weight)


def looked_up(prices: csr_array, k: Ints, c: Ints) -> Floats:
    """Entries of a matrix with sorted rows, 0 where there is none or the column is negative."""
    if not prices.nnz:
        return np.zeros(k.size)
    width = prices.shape[1]
    stored = np.repeat(np.arange(prices.shape[0]), np.diff(prices.indptr)) * width + prices.indices
    place = np.minimum(np.searchsorted(stored, k * width + c), stored.size - 1)
    return np.where((c >= 0) & (stored[place] == k * width + c), prices.data[place], 0.0)


def positive(P: csr_array) -> csr_array:
    """A matrix without the entries that are stored as zero."""
    if P.data.all():
        return P
    P = P.copy()
    P.eliminate_zeros()
    return P
