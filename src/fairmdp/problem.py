"""Quotas on where a policy's time goes, and the problem that they make together with a model."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from fairmdp.errors import ProblemError
from fairmdp.mdp import EXACT_SUM_TOL, MDP
from fairmdp.validation import (
    Bools,
    Floats,
    Ints,
    count_of,
    first_repeat,
    frozen,
    names_of,
    number_within,
    real_vector,
    refuse,
    there_are,
)


@dataclass(frozen=True, eq=False)
class Quota:
    """A bound on the long-run share of time in a set of states or of state-action pairs.

    Parameters
    ----------
    name
        What messages and tables call it.
    states
        The set: state numbers or names, or a boolean mask over all states.
    pairs
        Instead of states: pair numbers, ``(state, action)`` tuples, or a boolean mask over all pairs.
    at_least, at_most
        Bounds on the share, in [0, 1]; at least one of them.

    Examples
    --------
    >>> Quota("night shift", states=["night"], at_least=0.25)
    Quota('night shift', at_least=0.25)
    """

    name: str
    states: Sequence[int | str] | NDArray[Any] | None = None
    pairs: Sequence[int | tuple[int | str, int | str]] | NDArray[Any] | None = None
    at_least: float | None = None
    at_most: float | None = None

    def __post_init__(self) -> None:
        names_of("quota", [self.name])
        if (self.states is None) == (self.pairs is None):
            raise ProblemError(f"quota {self.name}: give either states or pairs")
        if self.at_least is None and self.at_most is None:
            raise ProblemError(f"quota {self.name}: give at_least, at_most or both")
        for what, bound in (("at_least", self.at_least), ("at_most", self.at_most)):
            if bound is not None and (isinstance(bound, bool) or not isinstance(bound, Real)):
                raise ProblemError(f"quota {self.name}: {what} is {bound!r}, expected a number")

    def __repr__(self) -> str:
        bounds = [f"{b}={getattr(self, b)}" for b in ("at_least", "at_most") if getattr(self, b) is not None]
        return f"Quota({self.name!r}, {', '.join(bounds)})"


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Problem:
    """An MDP and the quotas that a fair policy must meet.

    Parameters
    ----------
    mdp
        The model.
    quotas
        Any quotas; their sets may overlap.
    rho
        Shorthand for one ``at_least`` per state, (S,); such a quota has the name of its state.

    Attributes
    ----------
    names : tuple of str
        Names of the quotas, (K,).
    members : csr_array
        ``members[k, i] == 1`` where pair ``i`` counts for quota ``k``, (K, SA).
    at_least, at_most : ndarray
        Bounds, (K,); 0 and 1 where a quota has none.
    over_states : ndarray
        Whether quota ``k`` was stated over states (else over pairs), (K,).

    Examples
    --------
    >>> mdp = MDP([[0, 1], [0.5, 0.5], [1, 0]], [1.0, 0.0, 2.0], [0, 0, 1])
    >>> Problem(mdp, [Quota("rest", states=[0], at_least=0.6)])
    Problem(2 states, 3 pairs, 4 transitions, 1 quota)
    """

    mdp: MDP
    names: tuple[str, ...]
    members: csr_array
    at_least: Floats
    at_most: Floats
    over_states: Bools

    def __init__(self, mdp: MDP, quotas: Iterable[Quota] = (), *, rho: ArrayLike | None = None) -> None:
        if not isinstance(mdp, MDP):
            raise ProblemError(f"mdp is a {type(mdp).__name__}, expected a fairmdp.MDP")
        quotas = tuple(quotas)
        for quota in quotas:
            if not isinstance(quota, Quota):
                raise ProblemError(f"quotas holds a {type(quota).__name__}, expected fairmdp.Quota")
        names = [q.name for q in quotas]
        sets = [_member_pairs(mdp, q) for q in quotas]
        at_least = [0.0 if q.at_least is None else q.at_least for q in quotas]
        at_most = [1.0 if q.at_most is None else q.at_most for q in quotas]
        over_states = [q.states is not None for q in quotas]
        lengths = [pairs.size for pairs in sets]
        if rho is not None:
            names += [mdp.state_name(s) for s in range(mdp.n_states)]
            sets.append(np.arange(mdp.n_pairs))
            at_least += real_vector("rho", rho, mdp.n_states).tolist()
            at_most += [1.0] * mdp.n_states
            over_states += [True] * mdp.n_states
            lengths += mdp.n_actions.tolist()
        indices = np.concatenate([np.empty(0, np.int64), *sets])
        members = csr_array(
            (np.ones(indices.size), indices, np.cumsum([0, *lengths])), shape=(len(names), mdp.n_pairs)
        )
        self._fill(mdp, names, members, at_least, at_most, np.array(over_states, bool))

    @classmethod
    def from_members(
        cls,
        mdp: MDP,
        names: Iterable[str],
        members: csr_array,
        at_least: ArrayLike,
        at_most: ArrayLike,
        over_states: ArrayLike,
    ) -> Problem:
        """Build from the arrays that a problem holds; for very many quotas this is the quick way.

        Each row of ``members`` must hold sorted, distinct pairs, and all pairs of a state or none where
        ``over_states`` is True.
        """
        over_states = np.array(over_states, bool)
        names = names_of("quotas", names, members.shape[0]) or ()
        if members.shape[1] != mdp.n_pairs or over_states.shape != (len(names),):
            raise ProblemError(
                f"members has shape {members.shape} and over_states {over_states.shape}, "
                f"expected ({len(names)}, {mdp.n_pairs}) and ({len(names)},)"
            )
        ones = csr_array((np.ones(members.nnz), members.indices.copy(), members.indptr.copy()), members.shape)
        _check_sets(mdp, names, ones, over_states)
        problem = object.__new__(cls)
        problem._fill(mdp, names, ones, at_least, at_most, over_states)
        return problem

    def _fill(
        self,
        mdp: MDP,
        names: Sequence[str],
        members: csr_array,
        at_least: ArrayLike,
        at_most: ArrayLike,
        over_states: Bools,
    ) -> None:
        _check_names(names)
        self.__dict__.update(mdp=mdp, names=tuple(names), members=members, over_states=over_states)
        frozen(members.data, members.indices, members.indptr, over_states)
        self._set_bounds(at_least, at_most)
        self._refuse_twins()

    @property
    def n_quotas(self) -> int:
        """Number of quotas, K."""
        return len(self.names)

    @cached_property
    def quotas(self) -> tuple[Quota, ...]:
        """The quotas as stated, with their sets as numbers."""
        return tuple(self._quota(k) for k in range(self.n_quotas))

    def quota_index(self, quota: int | str) -> int:
        """Index of a quota given by number or name."""
        if not isinstance(quota, str):
            return number_within("quota", quota, self.n_quotas)
        if quota not in self.names:
            raise ProblemError(f"there is no quota called {quota!r}{there_are(self.names)}")
        return self.names.index(quota)

    def with_bounds(self, at_least: ArrayLike | None = None, at_most: ArrayLike | None = None) -> Problem:
        """Return the same problem with other bounds, (K,) each; what is not given stays."""
        other = object.__new__(Problem)
        shared = ("mdp", "names", "members", "over_states")
        other.__dict__.update({field: getattr(self, field) for field in shared})
        other._set_bounds(
            self.at_least if at_least is None else at_least, self.at_most if at_most is None else at_most
        )
        return other

    def with_quotas(self, quotas: Iterable[Quota]) -> Problem:
        """Return the same model with quotas added; one that has the name of an old one replaces it."""
        added = tuple(quotas)
        replaced = {q.name for q in added}
        return Problem(self.mdp, [*(q for q in self.quotas if q.name not in replaced), *added])

    def with_mdp(self, mdp: MDP) -> Problem:
        """Return the same quotas on another model of the same states and actions, such as other rewards."""
        same = np.array_equal(mdp.s_of, self.mdp.s_of)
        if not same:
            raise ProblemError("the other model has other states or actions")
        other = object.__new__(Problem)
        other.__dict__.update(
            {
                field: getattr(self, field)
                for field in ("names", "members", "over_states", "at_least", "at_most")
            },
            mdp=mdp,
        )
        return other

    def without_quotas(self) -> Problem:
        """Return the same model with nothing owed."""
        return Problem(self.mdp)

    def with_fair_action(self, psi: ArrayLike | None = None, reward: float | None = None) -> Problem:
        """Add the reset action ``a*`` to the model; quotas over states count it, quotas over pairs do not."""
        new_place = np.argsort(self.mdp.appended_order)
        quotas = [
            q if over_states else Quota(q.name, None, new_place[np.asarray(q.pairs)], q.at_least, q.at_most)
            for q, over_states in zip(self.quotas, self.over_states, strict=True)
        ]
        return Problem(self.mdp.with_fair_action(psi, reward), quotas)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything that a file of this problem holds: the numbers and the names."""
        mdp, sha = self.mdp, hashlib.sha256(b"fairmdp problem 1")
        for array, kind in (
            (mdp.P.indptr, "<i8"), (mdp.P.indices, "<i8"), (mdp.P.data, "<f8"), (mdp.r, "<f8"),
            (mdp.s_of, "<i8"), (() if mdp.initial is None else mdp.initial, "<f8"),
            (self.members.indptr, "<i8"), (self.members.indices, "<i8"),
            (self.at_least, "<f8"), (self.at_most, "<f8"), (self.over_states, "|b1"),
        ):  # fmt: skip
            flat = np.ascontiguousarray(array, dtype=kind)
            sha.update(flat.size.to_bytes(8, "little"))
            sha.update(flat.data)
        for names in (mdp.states, mdp.actions, self.names):
            sha.update(b"none" if names is None else len(names).to_bytes(8, "little"))
            sha.update("\0".join(names or ()).encode())
        return sha.hexdigest()

    def __repr__(self) -> str:
        quotas = f"{self.n_quotas} quota{'' if self.n_quotas == 1 else 's'}"
        return f"Problem({repr(self.mdp)[4:-1]}, {quotas})"

    def _repr_html_(self) -> str:
        from fairmdp.notebook import problem_html

        return problem_html(self)

    def _quota(self, k: int) -> Quota:
        pairs = self.members.indices[self.members.indptr[k] : self.members.indptr[k + 1]]
        at_most = float(self.at_most[k]) if self.at_most[k] < 1 else None
        at_least = float(self.at_least[k]) if self.at_least[k] > 0 or at_most is None else None
        if self.over_states[k]:
            return Quota(self.names[k], np.unique(self.mdp.s_of[pairs]), None, at_least, at_most)
        return Quota(self.names[k], None, pairs, at_least, at_most)

    def _set_bounds(self, at_least: ArrayLike, at_most: ArrayLike) -> None:
        lower = real_vector("at_least", at_least, self.n_quotas)
        upper = real_vector("at_most", at_most, self.n_quotas)
        frozen(lower, upper)
        self.__dict__.update(at_least=lower, at_most=upper)
        for what, bound in (("at_least", lower), ("at_most", upper)):
            bad = ~((bound >= 0) & (bound <= 1))
            if bad.any():
                k = int(np.argmax(bad))
                refuse(
                    f"quota {self.names[k]} has {what} {float(bound[k])!r}, expected a share between 0 and 1",
                    f"{count_of(bad.sum(), bound.size, 'quotas')} out of range",
                    "write 25 % as 0.25",
                )
        bad = lower > upper
        if bad.any():
            k = int(np.argmax(bad))
            refuse(
                f"quota {self.names[k]} asks for at_least {lower[k]:.12g} and at_most {upper[k]:.12g}",
                f"{count_of(bad.sum(), bad.size, 'quotas')} impossible in itself",
                "swap the two, or drop one",
            )
        owed = lower > 0
        total = float(lower.sum())
        if total > 1 + EXACT_SUM_TOL and (self.members.T @ owed.astype(float)).max() <= 1:
            refuse(
                f"the quotas owe {total:.12g} of the time, more than there is",
                f"{owed.sum()} disjoint quotas, the largest is {self.names[int(np.argmax(lower))]}",
                "lower them until they sum to at most 1",
            )

    def _refuse_twins(self) -> None:
        """Raise if two quotas bound the same set on the same side."""
        hashes = _row_hashes(self.members)
        for bounded in (np.flatnonzero(self.at_least > 0), np.flatnonzero(self.at_most < 1)):
            again = first_repeat(hashes[bounded])
            if again is not None:
                later = bounded[again]
                earlier = bounded[np.argmax(hashes[bounded] == hashes[later])]
                refuse(
                    f"quotas {self.names[earlier]} and {self.names[later]} bound one set on one side twice",
                    f"both hold {np.diff(self.members.indptr)[later]} pairs",
                    "keep the stricter one",
                )


def _check_names(names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ProblemError(f"two quotas are called {name!r}\n  give every quota a name of its own")
        seen.add(name)


def _check_sets(mdp: MDP, names: Sequence[str], members: csr_array, over_states: Bools) -> None:
    """Raise unless every row holds sorted, distinct pairs of the model, and whole states where it says so."""
    pairs = members.indices
    row = np.repeat(np.arange(len(names)), np.diff(members.indptr))
    stray = (pairs < 0) | (pairs >= mdp.n_pairs)
    if stray.any():
        raise ProblemError(
            f"quota {names[row[stray][0]]} counts pair {pairs[stray][0]}, which does not exist"
        )
    empty = np.diff(members.indptr) == 0
    if empty.any():
        raise ProblemError(
            f"quota {names[int(np.argmax(empty))]} counts nothing; {empty.sum()} quotas are empty"
        )
    unsorted = (np.diff(row) == 0) & (np.diff(pairs) <= 0)
    if unsorted.any():
        raise ProblemError(f"quota {names[row[1:][unsorted][0]]}: its pairs are not sorted, or not distinct")
    key, count = np.unique(row * mdp.n_states + mdp.s_of[pairs], return_counts=True)
    quota, state = np.divmod(key, mdp.n_states)
    partial = over_states[quota] & (count != mdp.n_actions[state])
    if partial.any():
        raise ProblemError(
            f"quota {names[quota[partial][0]]} is over states but counts only some actions of one"
        )


def _member_pairs(mdp: MDP, quota: Quota) -> Ints:
    """Sorted pair numbers of a quota's set."""
    try:
        if quota.states is None:
            return _chosen("pairs", quota.pairs, mdp.n_pairs, lambda pair: _pair_number(mdp, pair))
        states = _chosen("states", quota.states, mdp.n_states, mdp.state_index)
    except ProblemError as error:
        raise ProblemError(f"quota {quota.name}: {error}") from None
    counts = mdp.pair_ptr[states + 1] - mdp.pair_ptr[states]
    before = np.cumsum(counts) - counts
    return np.repeat(mdp.pair_ptr[states] - before, counts) + np.arange(counts.sum())


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


def _row_hashes(members: csr_array) -> NDArray[np.uint64]:
    """One 64-bit number per row that depends on its set of columns only."""
    keys = np.random.default_rng(0).integers(0, 2**64, members.shape[1], dtype=np.uint64)
    prefix = np.concatenate([np.zeros(1, np.uint64), np.cumsum(keys[members.indices], dtype=np.uint64)])
    hashes: NDArray[np.uint64] = prefix[members.indptr[1:]] - prefix[members.indptr[:-1]]
    return hashes
