"""Quotas on where a policy's time goes: what each counts in a model, and rows of them as they are given."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from fairmdp.errors import ProblemError
from fairmdp.model.checks import (
    Bools,
    Floats,
    Ints,
    ReadOnly,
    first,
    first_repeat,
    names_of,
    number_within,
    refuse,
)
from fairmdp.model.conditional import Condition, within_condition
from fairmdp.model.mdp import MDP
from fairmdp.model.weights import stated_weights, weight_range


@dataclass(frozen=True, eq=False)
class Quota(ReadOnly):
    """A bound on the long-run share of time in a set, or on the long-run mean of weights.

    Parameters
    ----------
    name
        What messages and tables call it.
    states
        The set: state numbers, names or objects, or a boolean mask over all states. An array of whole
        numbers always holds state numbers.
    pairs
        Instead of states: pair numbers, ``(state, action)`` tuples, or a boolean mask over all pairs.
    at_least, at_most
        Bounds on the share, in [0, 1], or on the mean of the weights; at least one of them.
    weights
        Instead of a set: what a step counts, any numbers. One per pair, (SA,), or per state, (S,), or a
        mapping from states and ``(state, action)`` tuples, where what is not named counts 0.
    of
        With a set: states, as for ``states``. The bound is then on the part of the time in these states that
        is in the set, and there is one bound.
    where
        Instead of listing states: a function that says of each whether it belongs to the set. It is given
        what stands for the state (`MDP.state_objects`), else its name, else its number. Where the states
        are rows of numbers it is given all of them at once, (S, d), and returns a mask, (S,).
    reward
        Instead of a set: the name of one of the model's `MDP.rewards`, whose long-run mean is bounded, per
        unit of time where steps are not equally long.
    expected
        Whether the mean over runs is to meet the bounds, as model checkers mean them. Otherwise every run is
        to meet them by itself, with probability 1. Where runs cannot end differently that is the same.

    Notes
    -----
    Weights state any linear constraint ``b <= a @ x <= c`` on the shares ``x`` of the pairs. The ``quotas``
    of a solution are in the numbers that were stated. Arrays over all quotas (``shares``, ``prices``,
    ``at_least`` and so on) count a weighted one as a share, 0 at its smallest weight and 1 at its largest;
    ``problem.units`` leads back.

    Examples
    --------
    >>> Quota("night shift", states=["night"], at_least=0.25)
    Quota('night shift', at_least=0.25)
    >>> Quota("no more nights than days", weights={"day": 1.0, "night": -1.0}, at_least=0.0)
    Quota('no more nights than days', at_least=0.0)
    >>> Quota("answered at night", states=["night, free"], of=["night, free", "night, full"], at_least=0.9)
    Quota('answered at night', at_least=0.9)
    """

    name: str
    states: Iterable[Hashable] | NDArray[Any] | None = None
    pairs: Iterable[int | tuple[Hashable, Hashable]] | NDArray[Any] | None = None
    at_least: float | None = None
    at_most: float | None = None
    weights: ArrayLike | Mapping[Any, float] | None = None
    of: Iterable[Hashable] | NDArray[Any] | None = None
    where: Callable[[Any], Any] | None = None
    reward: str | None = None
    expected: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        names_of("quota", [self.name])
        sets = (self.states, self.pairs, self.weights, self.where, self.reward)
        if sum(given is not None for given in sets) != 1:
            raise ProblemError(f"quota {self.name}: give one of states, pairs, where, weights and reward")
        if self.where is not None and not callable(self.where):
            raise ProblemError(f"quota {self.name}: where is {self.where!r}, expected a function of a state")
        if self.at_least is None and self.at_most is None:
            raise ProblemError(
                f"quota {self.name}: give at_least, at_most or both\n"
                "  at_least=0 asks for nothing, and its share is reported"
            )
        for what, bound in (("at_least", self.at_least), ("at_most", self.at_most)):
            if bound is not None and (isinstance(bound, bool) or not isinstance(bound, Real)):
                advice = "\n  write 25 % as 0.25" if isinstance(bound, str) and "%" in bound else ""
                raise ProblemError(f"quota {self.name}: {what} is {bound!r}, expected a number{advice}")
        if not isinstance(self.expected, bool):
            raise ProblemError(f"quota {self.name}: expected is {self.expected!r}, expected True or False")
        if self.of is not None and (self.weights is not None or None not in (self.at_least, self.at_most)):
            raise ProblemError(
                f"quota {self.name}: with of, give states or pairs, and one bound\n"
                "  state two quotas for a part of the time between two bounds"
            )

    def __repr__(self) -> str:
        bounds = [f"{b}={getattr(self, b)}" for b in ("at_least", "at_most") if getattr(self, b) is not None]
        bounds += ["expected=True"] if self.expected else []
        return f"Quota({self.name!r}, {', '.join(bounds)})"


def checked_quotas(quotas: Iterable[Quota]) -> tuple[Quota, ...]:
    """Quotas, if that is what they are."""
    advice = (
        "\n  write Quota(name, states=[...], at_least=0.25), or have fairmdp.parse_quotas read 'name>=25%'"
    )
    if not isinstance(quotas, Iterable) or isinstance(quotas, str | Mapping):
        raise ProblemError(f"quotas is a {type(quotas).__name__}, expected a list of fairmdp.Quota{advice}")
    quotas = tuple(quotas)
    for quota in quotas:
        if not isinstance(quota, Quota):
            raise ProblemError(f"quotas holds a {type(quota).__name__}, expected fairmdp.Quota{advice}")
    return quotas


class Counted(NamedTuple):
    """Sorted pairs that count for a quota, and what each of them counts."""

    pairs: Ints
    weights: Floats
    over_states: bool
    condition: Condition | None = None


def counted_by(mdp: MDP, quota: Quota, number: int = 0) -> Counted:
    """What a quota counts in a model, or an error that names the quota."""
    try:
        if quota.weights is not None:
            return _weighted(*stated_weights(mdp, quota.weights))
        if quota.reward is not None:
            row = mdp.rate_of(quota.reward)
            weight_range(row)
            return _weighted(row, False)
        pairs = _member_pairs(mdp, quota)
        if quota.of is not None:
            return _conditional(mdp, quota, number, pairs)
    except ProblemError as error:
        raise ProblemError(f"quota {quota.name}: {error}") from error.__cause__
    return Counted(pairs, np.ones(pairs.size), quota.pairs is None)


def _weighted(a: Floats, over_states: bool) -> Counted:
    return Counted(np.flatnonzero(a), a[a != 0], over_states)


def _member_pairs(mdp: MDP, quota: Quota) -> Ints:
    """Sorted pair numbers of a quota's set."""
    if quota.pairs is not None:
        return _chosen("pairs", quota.pairs, mdp.n_pairs, lambda pair: _pair_number(mdp, pair))
    given = quota.states if quota.where is None else _satisfying(mdp, quota.where)
    return _pairs_of_states(mdp, "states", given)


def _conditional(mdp: MDP, quota: Quota, number: int, members: Ints) -> Counted:
    """What a conditional quota counts, beside a bound of 0."""
    least = quota.at_least is not None
    bound = quota.at_least if quota.at_least is not None else quota.at_most
    assert bound is not None
    of = _pairs_of_states(mdp, "of", quota.of)
    within = within_condition(members, of, float(bound), least=least)
    condition = Condition(number, of, within, float(bound), least)
    weights = condition.weights()
    used = weights != 0
    return Counted(of[used], weights[used], quota.pairs is None, condition)


def _pairs_of_states(mdp: MDP, what: str, given: Any) -> Ints:
    states = _chosen(what, given, mdp.n_states, mdp.state_index)
    counts = mdp.pair_ptr[states + 1] - mdp.pair_ptr[states]
    before = np.cumsum(counts) - counts
    return np.repeat(mdp.pair_ptr[states] - before, counts) + np.arange(counts.sum())


def _satisfying(mdp: MDP, where: Callable[[Any], Any]) -> Bools:
    """Mask of the states of which a function says yes, (S,)."""
    objects = mdp.state_objects
    if isinstance(objects, np.ndarray):
        mask = np.asarray(_answer(where, objects, "all states at once"))
        if mask.dtype != bool or mask.shape != (mdp.n_states,):
            raise ProblemError(
                f"where returned {mask.dtype} of shape {mask.shape}, "
                f"expected a mask of shape ({mdp.n_states},)"
            )
    else:
        asked = objects or mdp.states or range(mdp.n_states)
        answers = [_answer(where, state, f"state {mdp.state_name(s)}") for s, state in enumerate(asked)]
        s = next((s for s, answer in enumerate(answers) if not isinstance(answer, bool | np.bool_)), None)
        if s is not None:
            raise ProblemError(
                f"where said {answers[s]!r} of state {mdp.state_name(s)}, expected True or False"
            )
        mask = np.array(answers)
    if not mask.any():
        raise ProblemError("where holds for no state\n  change it, or drop the quota")
    return mask


def _answer(where: Callable[[Any], Any], asked: Any, what: str) -> Any:
    try:
        return where(asked)
    except Exception as error:
        raise ProblemError(f"where raised {type(error).__name__} for {what}: {error}") from error


def _pair_number(mdp: MDP, pair: Any) -> int:
    if isinstance(pair, tuple | list) and len(pair) == 2:
        return mdp.pair_index(*pair)
    return number_within("pair", pair, mdp.n_pairs)


def _chosen(what: str, given: Any, count: int, number: Callable[[Any], int]) -> Ints:
    """Sorted numbers of the states or pairs that a list, an integer array or a mask chooses."""
    if isinstance(given, np.ndarray) and given.dtype == bool:
        if given.shape != (count,):
            raise ProblemError(f"the mask has shape {given.shape}, expected ({count},)")
        chosen = np.flatnonzero(given)
    elif isinstance(given, np.ndarray) and given.dtype.kind in "iu" and given.ndim == 1:
        outside = (given < 0) | (given >= count)
        if outside.any():
            number(given[outside][0])
        chosen = np.unique(given.astype(np.int64))
    elif isinstance(given, str) or not isinstance(given, Iterable):
        raise ProblemError(f"{what} is {given!r}, expected a list")
    else:
        chosen = np.unique(np.array([number(item) for item in given], dtype=np.int64))
    if chosen.size == 0:
        raise ProblemError(f"there are no {what} in it\n  name at least one, or drop the quota")
    return chosen


def Utility(
    name: str,
    states: Sequence[int | str] | NDArray[Any] | None = None,
    pairs: Sequence[int | tuple[int | str, int | str]] | NDArray[Any] | None = None,
    weights: ArrayLike | Mapping[Any, float] | None = None,
) -> Quota:
    """Return a quota that asks for nothing: a share of time, or a long-run mean of weights, to be looked at.

    Parameters are those of `Quota`. Weights may be the rewards of a group.

    Examples
    --------
    >>> Utility("north", weights={"a1": 3.0, "b0": -1.0})
    Quota('north', at_least=-inf)
    """
    return Quota(name, states, pairs, at_least=-math.inf, weights=weights)


def check_names(names: Sequence[str]) -> None:
    """Raise if two quotas have one name."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ProblemError(f"two quotas are called {name!r}\n  give every quota a name of its own")
        seen.add(name)


def check_sets(mdp: MDP, names: Sequence[str], weights: csr_array, over_states: Bools) -> None:
    """Raise unless every row holds sorted, distinct pairs of the model, and whole states where it says so."""
    pairs, data, lengths = weights.indices, weights.data, np.diff(weights.indptr)
    quota = np.repeat(np.arange(len(names)), lengths)

    def refuse_first(bad: Bools, quotas: Ints, what: Callable[[int], str]) -> None:
        if (k := first(bad)) is not None:
            raise ProblemError(f"quota {names[quotas[k]]}{what(k)}")

    stray = (pairs < 0) | (pairs >= mdp.n_pairs)
    refuse_first(stray, quota, lambda k: f" counts pair {pairs[k]}, which does not exist")
    empty = lengths == 0
    refuse_first(empty, np.arange(empty.size), lambda _: f" counts nothing; {empty.sum()} quotas are empty")
    unsorted = (np.diff(quota) == 0) & (np.diff(pairs) <= 0)
    refuse_first(unsorted, quota[1:], lambda _: ": its pairs are not sorted, or not distinct")
    useless = (data == 0) | ~np.isfinite(data)
    refuse_first(useless, quota, lambda k: f" has weight {data[k]}, expected others than 0")
    place = quota * mdp.n_states + mdp.s_of[pairs]
    uneven = over_states[quota[1:]] & (np.diff(place) == 0) & (np.diff(data) != 0)
    refuse_first(uneven, quota[1:], lambda _: " is over states but weighs actions of one apart")
    found, count = np.unique(place, return_counts=True)
    of, state = np.divmod(found, mdp.n_states)
    partial = over_states[of] & (count != mdp.n_actions[state])
    refuse_first(partial, of, lambda _: " is over states but counts only some actions of one")


def refuse_twins(
    names: Sequence[str], members: csr_array, at_least: Floats, at_most: Floats, expected: Bools
) -> None:
    """Raise if two quotas bound the same set on the same side, both in every run or both in the mean."""
    hashes = _row_hashes(members) ^ expected
    for bounded in (np.flatnonzero(at_least > 0), np.flatnonzero(at_most < 1)):
        again = first_repeat(hashes[bounded])
        if again is not None:
            later = bounded[again]
            earlier = bounded[np.argmax(hashes[bounded] == hashes[later])]
            refuse(
                f"quotas {names[earlier]} and {names[later]} bound one set on one side twice",
                f"both hold {np.diff(members.indptr)[later]} pairs",
                "keep the stricter one",
            )


def _row_hashes(members: csr_array) -> NDArray[np.uint64]:
    """One 64-bit number per row that depends on its columns and their weights only."""
    keys = np.random.default_rng(0).integers(0, 2**64, members.shape[1], dtype=np.uint64)
    # Odd factors lose nothing modulo 2**64; the bit shifted out is the sign, which is always the same.
    weighed = keys[members.indices] * (members.data.view(np.uint64) * np.uint64(2) + np.uint64(1))
    prefix = np.concatenate([np.zeros(1, np.uint64), np.cumsum(weighed, dtype=np.uint64)])
    hashes: NDArray[np.uint64] = prefix[members.indptr[1:]] - prefix[members.indptr[:-1]]
    return hashes
