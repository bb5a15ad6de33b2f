"""A taxi between zones, some of which it would rather not serve."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array, csr_array

from fairmdp.model.checks import Floats, Ints
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.model.transitions import EXACT_SUM_TOL
from fairmdp.scenarios.parameters import (
    AMOUNT,
    SHARE,
    Kind,
    check_entries,
    check_size,
    matrix,
    number,
    numbers,
    owed_each,
    whole,
    whole_number,
)

_TRAVEL = (1, 2, 3, 2, 1, 3, 3, 3, 1)
_DEMAND = (0.30, 0.25, 0.05, 0.30, 0.10, 0.05, 0.05, 0.02, 0.03)
_FARES = (2.0, 3.0, 4.0, 3.0, 2.0, 4.0, 4.0, 4.0, 2.0)


def taxi(
    zones: int = 3,
    *,
    travel: ArrayLike = _TRAVEL,
    demand: ArrayLike = _DEMAND,
    fares: ArrayLike = _FARES,
    cost: float = 0.2,
    quota: ArrayLike = (0.0, 0.0, 0.2),
) -> Problem:
    """Return one taxi that must be on offer in every zone for a share of the time.

    A taxi that is free in zone i waits there or drives empty to another zone. In a step of waiting a
    passenger to zone j shows up with probability ``demand[i, j]`` and pays ``fares[i, j]`` on entry; nobody
    shows up with what remains. A drive takes ``travel[i, j]`` steps, with a passenger or without, and an
    empty one costs ``cost`` per step. The outer zone has few passengers and is far away, so the best taxi
    drives back to the centre at once; the quota keeps it on offer there. The number of passengers that a
    zone sends off per step is its demand times the share of time that it is waited in.

    States are ``free in i`` and, for drives of more than one step, ``to j, k left``: as many of these as the
    longest drive to j has steps, less one. A free taxi has one action per zone, one on the way a single
    one. A policy that never waits may shuttle empty among some zones for good, so policies with several
    closed classes exist. Where passengers connect all zones, a policy that waits in every zone with
    positive probability has one closed class, which holds every zone and is aperiodic.

    Parameters
    ----------
    zones
        Number of zones.
    travel
        Steps from zone to zone, whole numbers of at least 1; row i is from zone i, and the diagonal is for
        trips within a zone. This and the next two are matrices, given as rows or as one long list.
    demand
        Probability per step of waiting that a passenger wants to go from i to j; rows sum to at most 1.
    fares
        Fare of a trip from i to j, at least 0.
    cost
        Cost of an empty step.
    quota
        Least share of time that the taxi is free and waits in each zone, quotas ``zone1``, ``zone2``, ...
        over state-action pairs.

    Examples
    --------
    >>> taxi()
    Problem(9 states, 15 pairs, 21 transitions, 3 quotas)
    """
    zones = whole_number("zones", zones, 1)
    what = f"a taxi between {zones} zones"
    check_size(what, zones, 2 * zones**2, "take fewer zones")
    steps = matrix("travel", travel, zones, "zone", whole(1))
    wanted = matrix("demand", demand, zones, "zone", Kind(lambda p: p >= 0, "a probability"))
    nobody = 1 - wanted.sum(axis=1)
    check_entries("demand row sums", 1 - nobody, nobody >= -EXACT_SUM_TOL, "at most 1")
    fare = matrix("fares", fares, zones, "zone", Kind(lambda fare: fare >= 0, "a fare of at least 0"))
    empty_step = number("cost", cost, AMOUNT)
    owed = numbers("quota", quota, zones, "zone", SHARE)
    # A drive within a zone happens only if somebody wants it.
    happens = (wanted > 0) | ~np.eye(zones, dtype=bool)
    longest = np.where(happens, steps, 1).max(axis=0)
    n_states = float(longest.sum())
    check_size(what, n_states, 2 * zones**2 + n_states, "measure time in longer steps")

    zone = np.arange(zones)
    between = longest.astype(np.int64) - 1  # states on the way to each zone
    P = _transitions(wanted, np.maximum(nobody, 0), steps.astype(np.int64), between)
    R = -empty_step * steps  # (Z, Z): action j of zone i is "go to j", and "wait" where j is i
    R[zone, zone] = (wanted * fare).sum(axis=1)
    names = [str(j + 1) for j in range(zones)]
    mdp = MDP(
        P,
        np.concatenate([R.ravel(), np.zeros(between.sum())]),
        np.concatenate([np.repeat(zone, zones), np.arange(zones, P.shape[1])]),
        states=[f"free in {name}" for name in names]
        + [f"to {names[j]}, {k + 1} left" for j in range(zones) for k in range(between[j])],
        actions=[f"go to {j}" if i != j else "wait" for i in names for j in names]
        + ["drive"] * between.sum(),
    )
    waits = [[i * (zones + 1)] for i in range(zones)]
    return Problem(mdp, owed_each("zone", owed, pairs=waits))


def _transitions(wanted: Floats, nobody: Floats, steps: Ints, between: Ints) -> csr_array:
    """Pairs (i, j) of free taxis, then the taxis on the way: to zone 1 with 1, 2, ... steps left, and on."""
    zones = nobody.size
    zone = np.arange(zones)
    first = zones + np.cumsum(between) - between  # state "to j, 1 left"
    enter = np.where(steps == 1, zone, first + steps - 2)  # (Z, Z): the state after the first step of a drive
    i, j = np.nonzero(~np.eye(zones, dtype=bool))
    origin, goal = np.nonzero(wanted)
    waits = zone * (zones + 1)
    on_way = zones + np.arange(between.sum())
    to = np.repeat(zone, between)
    entries = [
        (i * zones + j, enter[i, j], np.ones(i.size)),  # drives off empty
        (waits, zone, nobody),  # waits in vain
        (waits[origin], enter[origin, goal], wanted[origin, goal]),  # drives off with a passenger
        (on_way + zones**2 - zones, np.where(on_way == first[to], to, on_way - 1), np.ones(on_way.size)),
    ]
    rows, targets, chances = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    shape = (zones**2 + on_way.size, zones + on_way.size)
    return coo_array((chances, (rows, targets)), shape=shape).tocsr()
