"""A mail carrier who walks between districts whose mail piles up."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, diags_array

from fairmdp.model.checks import Ints
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.scenarios.grid import grid, joint, slim, strides
from fairmdp.scenarios.parameters import (
    CHANCE,
    SHARE,
    check_size,
    limits_below,
    numbers,
    owed_each,
    payments,
    probability,
    whole_number,
    whole_numbers,
)


def postal(
    districts: int = 3,
    *,
    backlog: ArrayLike = (3,),
    arrivals: ArrayLike = (0.9, 0.6, 0.5),
    load: int = 2,
    load_after_walk: int = 1,
    pay: ArrayLike = (1.0, 0.6, 0.4),
    relief: float = 0.02,
    limit: ArrayLike = (1,),
    quota: ArrayLike = (0.0, 0.0, 0.4),
) -> Problem:
    """Return a mail carrier who owes every district a short backlog for a share of the time.

    In every step the carrier chooses the district to deliver in: up to ``load`` bags where she is already,
    up to ``load_after_walk`` in one that she has to walk to. Then each district gets a new bag with its own
    probability; one that finds the backlog full is sent by van, at no gain to her. With probability
    ``relief`` a step ends in a relief day instead: all backlogs are cleared and she starts anew in
    district 1. Town mail pays best, so left alone the village waits; its quota limits that.

    The state ``in d: b1,b2,...`` holds where the carrier is and the bags that wait, ``districts *
    prod(backlog + 1)`` states with one action per district. With ``relief > 0`` the state ``in 1: 0,0,...``
    follows every other with that probability under every policy, so every policy has one closed class,
    which is aperiodic. With ``relief = 0`` a carrier may stay in any district for good: several.

    Parameters
    ----------
    districts
        Number of districts. The parameters per district take that many numbers, or one meant for all.
    backlog
        Bags that fit into each district's depot.
    arrivals
        Probability of a new bag in each district per step, above 0.
    load, load_after_walk
        Bags that are delivered per step, at most, without and with a walk.
    pay
        Reward for a bag of each district.
    relief
        Probability of a relief day, from 0 to below 1.
    limit, quota
        District d is owed a share ``quota[d]`` of the time with at most ``limit[d]`` bags waiting, quota
        ``district{d}``, counted from 1.

    Examples
    --------
    >>> postal()
    Problem(192 states, 576 pairs, 4097 transitions, 3 quotas)
    """
    districts = whole_number("districts", districts, 1)
    fewest = districts * 2.0 ** min(districts, 999)
    check_size(f"mail for {districts} districts", fewest, fewest, "take fewer districts")
    room = whole_numbers("backlog", backlog, districts, "district", 1)
    chances = numbers("arrivals", arrivals, districts, "district", CHANCE)
    loads = whole_number("load", load, 1), whole_number("load_after_walk", load_after_walk, 0)
    value = payments("pay", pay, districts, "district")
    relief = probability("relief", relief, certain=False)
    levels = limits_below(limit, room, "district")
    owed = numbers("quota", quota, districts, "district", SHARE)
    n_backlogs = math.prod((room + 1).tolist())
    n_states = districts * n_backlogs
    check_size(
        f"mail for {districts} districts with backlogs of {', '.join(map(str, room))}",
        n_states,
        n_states * districts * (2.0**districts + 1),
        "take fewer districts or shorter backlogs",
    )

    waiting = grid(room)  # (D, n_backlogs)
    at, b, to = np.indices((districts, n_backlogs, districts)).reshape(3, -1)  # (SA,) each
    delivered = np.minimum(waiting[to, b], np.where(at == to, *loads))
    grown = joint(_growth(int(n), p) for n, p in zip(room, chances, strict=True))
    mdp = MDP(
        _with_relief(_moved(grown[b - delivered * strides(room)[to]], to), relief),
        value[to] * delivered,
        at * n_backlogs + b,
        states=[
            f"in {d + 1}: {','.join(map(str, bags))}" for d in range(districts) for bags in waiting.T.tolist()
        ],
        actions=[f"deliver in {d + 1}" for d in range(districts)],
    )
    near = np.tile(waiting <= levels[:, None], districts)  # (D, S)
    return Problem(mdp, owed_each("district", owed, states=near))


def _growth(room: int, chance: float) -> csr_array:
    """Distribution of a backlog after the mail came: one more with the given chance, unless full."""
    same = np.append(np.full(room, 1 - chance), 1.0)
    return diags_array([same, np.full(room, chance)], offsets=[0, 1], format="csr")


def _moved(grown: csr_array, to: Ints) -> csr_array:
    """Distributions of backlogs, one row per pair, as those of states: in the district that was chosen."""
    n_pairs, n_backlogs = grown.shape
    place = np.repeat(to, np.diff(grown.indptr)) * n_backlogs + grown.indices
    return slim(csr_array((grown.data, place, grown.indptr), shape=(n_pairs, (to.max() + 1) * n_backlogs)))


def _with_relief(P: csr_array, relief: float) -> csr_array:
    """Add a move to the first state, in district 1 with nothing waiting."""
    n_pairs = P.shape[0]
    fresh = csr_array(
        (np.full(n_pairs, relief), np.zeros(n_pairs, int), np.arange(n_pairs + 1)), shape=P.shape
    )
    return (1 - relief) * P + slim(fresh)
