"""The paper's hiring world: a firm whose staff is to be diverse for a share of the time."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array, csr_array, vstack

from fairmdp.errors import ProblemError
from fairmdp.model.checks import Floats, Ints
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.model.quota import Quota
from fairmdp.scenarios.grid import binomial, slim
from fairmdp.scenarios.parameters import check_size, payments, probability, whole_number

_ACTIONS = ("accept none", "accept A", "accept B", "accept both")
_TAKES = np.array([(0, 0), (1, 0), (0, 1), (1, 1)])  # whether an action accepts group A, group B


def hiring(
    staff: int = 6,
    *,
    leave: float = 0.05,
    group_a: float = 0.7,
    accept: float = 0.8,
    outside: float = 0.05,
    worth: ArrayLike = (1.0, 0.9),
    diversity: float = 0.3,
    quota: float = 0.6,
) -> Problem:
    """Return a firm that hires from two groups and is to be diverse for a share of the time.

    A firm has room for ``staff`` people from groups A and B. In every step each of them leaves with
    probability ``leave``; then one applicant shows up, of group A with probability ``group_a``. If there
    is a vacancy and the firm's standing decision accepts the group, an offer is made; if it does not, one
    is made all the same with probability ``outside`` (a hire by somebody else). Offers are accepted with
    probability ``accept``. Group A is worth slightly more and applies more often, so left alone the
    firm fills up with it.

    The state ``aAbB`` counts both groups: ``(staff + 1) (staff + 2) / 2`` states with four actions each.
    With ``leave``, ``outside``, ``group_a`` and ``accept`` strictly between 0 and 1 every policy reaches
    every state and none is periodic, because the firm may empty in one step.

    Parameters
    ----------
    staff
        Number of posts, at least 2.
    leave, group_a, accept, outside
        Probabilities of the story.
    worth
        Value of an employee of group A and of group B per step. The reward is scaled to at most 1:
        ``(worth_A a + worth_B b) / (staff max(worth))``.
    diversity
        A staff is diverse if its smaller group is at least this part of it: above 0, at most 0.5.
    quota
        Least share of time with a diverse staff, quota ``diverse``.

    Examples
    --------
    >>> hiring()
    Problem(28 states, 112 pairs, 1456 transitions, 1 quota)
    """
    staff = whole_number("staff", staff, 2)
    leave = probability("leave", leave)
    group_a = probability("group_a", group_a)
    accept = probability("accept", accept)
    outside = probability("outside", outside)
    owed = probability("quota", quota)
    value = payments("worth", worth, 2, "group")
    least = probability("diversity", diversity, positive=True)
    if least > 0.5:
        raise ProblemError(f"diversity is {diversity!r}, expected at most 0.5: a smaller group is no larger")
    n_states = (staff + 1) * (staff + 2) // 2
    check_size(f"hiring for {staff} posts", n_states, _transitions(staff), "take fewer posts")

    a, b = _staffs(staff)
    number = np.full((staff + 2, staff + 2), -1)
    number[a, b] = np.arange(n_states)
    stay = _departures(staff, leave, a, b, number)
    joins = np.array([group_a, 1 - group_a]) * accept * np.where(_TAKES, 1.0, outside)  # (4, 2)
    by_action = vstack([stay @ _hires(a, b, number, chances) for chances in joins], format="csr")
    pairs = np.arange(4 * n_states).reshape(4, n_states).T.ravel()  # from by action to by state
    r = (value[0] * a + value[1] * b) / (staff * value.max())
    mdp = MDP(
        by_action[pairs],
        np.repeat(r, 4),
        np.repeat(np.arange(n_states), 4),
        states=[f"{i}A{j}B" for i, j in zip(a.tolist(), b.tolist(), strict=True)],
        actions=_ACTIONS,
    )
    people = a + b
    diverse = (people > 0) & (np.minimum(a, b) / np.maximum(people, 1) >= least)
    return Problem(mdp, [Quota("diverse", states=diverse, at_least=owed)])


def _transitions(staff: int) -> int:
    """Transitions when nothing is certain: i <= a + 1 and j <= b + 1, not both grown, no hire if full."""
    # Sum over a + b <= staff of (a + 1)(b + 1) + (a + 1) + (b + 1), less 2 in each of staff + 1 full states.
    return 4 * (math.comb(staff + 4, 4) + 2 * math.comb(staff + 3, 3) - 2 * (staff + 1))


def _staffs(staff: int) -> tuple[Ints, Ints]:
    """Numbers of both groups in every state, a first, (S,) each."""
    a, b = np.indices((staff + 1, staff + 1)).reshape(2, -1)
    fits = a + b <= staff
    return a[fits], b[fits]


def _departures(staff: int, leave: float, a: Ints, b: Ints, number: Ints) -> csr_array:
    """Distribution of who stays, ``Binomial(a, 1 - leave) x Binomial(b, 1 - leave)``, (S, S)."""
    leaves = binomial(staff, leave, staff)  # (staff + 1, staff + 1)
    lengths = (a + 1) * (b + 1)
    first = np.cumsum(lengths) - lengths
    row = np.repeat(np.arange(a.size), lengths)
    i, j = np.divmod(np.arange(row.size) - first[row], b[row] + 1)
    probabilities = leaves[a[row], a[row] - i] * leaves[b[row], b[row] - j]
    return slim(csr_array((probabilities, number[i, j], np.append(first, row.size)), shape=(a.size, a.size)))


def _hires(a: Ints, b: Ints, number: Ints, chances: Floats) -> csr_array:
    """Distribution of the staff after one applicant, hired into a vacancy with the chances given, (S, S)."""
    s = np.arange(a.size)
    vacant = np.maximum(number[a + 1, b], number[a, b + 1]) >= 0
    posts = s[vacant]
    rows = np.concatenate([s, posts, posts])
    targets = np.concatenate([s, number[a[posts] + 1, b[posts]], number[a[posts], b[posts] + 1]])
    same = np.where(vacant, 1 - chances.sum(), 1.0)
    probabilities = np.concatenate([same, *(np.full(posts.size, p) for p in chances)])
    return slim(coo_array((probabilities, (rows, targets)), shape=(a.size, a.size)).tocsr())
