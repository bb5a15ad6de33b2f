"""What a solution says where the start decides where a run ends, and the witnesses that prove it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from scipy.sparse import csr_array

from fairmdp.model.checks import Floats, Ints, ReadOnly

MOST_SHOWN = 5
"""Closed classes of a policy that a solution speaks of, at most."""


class End(NamedTuple):
    """One closed class in which a run may end."""

    policy: int  # row of `Ends.policies`; 0 where there is one policy
    states: Ints  # (n,), ascending
    probability: float  # of ending there, from the start
    gain: float
    shares: Floats  # (K,), of the runs that end there


@dataclass(frozen=True, eq=False)
class Ends(ReadOnly):
    """Witnesses for claims about runs from the start, where several components may be ended in.

    The start is `MDP.initial`, or where that is None any state with the same probability. A pair is internal
    if all its successors have the label of its state; a run uses other pairs finitely often.

    Attributes
    ----------
    components
        Label of each state, (S,): 0, 1, ... for those that can be reached, -1 for all others.
    values
        What a run is worth from each state, (S,): equal where labels are.
    moves
        Bound on how often other than internal pairs are used from each state, in any unit, (S,): equal
        where labels are.
    component_prices
        Prices of the quotas that every run must meet, for each label, (K, labels).
    weights, policies
        Probabilities, (M,), with which one of the policies, (M, SA), is drawn at the start and kept; None
        where there is one policy, that of the solution.
    classes
        Where runs end, the most probable first; `MOST_SHOWN` of them.
    n_classes
        How many there are.
    """

    components: Ints
    values: Floats
    moves: Floats
    component_prices: csr_array
    weights: Floats | None = None
    policies: Floats | None = None
    classes: tuple[End, ...] = ()
    n_classes: int = 0
