"""A model and quotas: the problem that they make together."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from fairmdp.errors import ProblemError
from fairmdp.mdp import EXACT_SUM_TOL, MDP
from fairmdp.quota import Counted, Quota, checked_quotas, counted_by
from fairmdp.validation import (
    Bools,
    Floats,
    count_of,
    counted,
    first_repeat,
    frozen,
    names_of,
    number_within,
    real_vector,
    refuse,
    there_are,
)
from fairmdp.weights import Units, as_shares


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
        ``members[k, i] == 1`` where pair ``i`` counts for quota ``k``, (K, SA); the weights of a weighted
        quota are scaled to [0, 1].
    at_least, at_most : ndarray
        Bounds on ``members @ x``, (K,); 0 and 1 where a quota has none.
    over_states : ndarray
        Whether quota ``k`` was stated over states (else over pairs), (K,).
    weights : csr_array
        What each pair counts, as stated, (K, SA); for sets the same as ``members``.
    lower, upper : ndarray
        Bounds on ``weights @ x``, as stated, (K,); the extreme weights where a quota has none.
    weighted : ndarray
        Whether quota ``k`` has weights other than 0 and 1, (K,).
    units : Units
        Turns shares, slacks and prices into the numbers that were stated.

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
    weights: csr_array
    lower: Floats
    upper: Floats
    weighted: Bools
    units: Units

    def __init__(self, mdp: MDP, quotas: Iterable[Quota] = (), *, rho: ArrayLike | None = None) -> None:
        if not isinstance(mdp, MDP):
            raise ProblemError(f"mdp is a {type(mdp).__name__}, expected a fairmdp.MDP")
        quotas = checked_quotas(quotas)
        names = [q.name for q in quotas]
        rows = [counted_by(mdp, q) for q in quotas]
        at_least = [q.at_least for q in quotas]
        at_most = [q.at_most for q in quotas]
        over_states = [row.over_states for row in rows]
        lengths = [row.pairs.size for row in rows]
        if rho is not None:
            names += [mdp.state_name(s) for s in range(mdp.n_states)]
            rows.append(Counted(np.arange(mdp.n_pairs), np.ones(mdp.n_pairs), True))
            at_least += real_vector("rho", rho, mdp.n_states).tolist()
            at_most += [None] * mdp.n_states
            over_states += [True] * mdp.n_states
            lengths += mdp.n_actions.tolist()
        pairs = np.concatenate([np.empty(0, np.int64), *(row.pairs for row in rows)])
        data = np.concatenate([np.empty(0), *(row.weights for row in rows)])
        weights = csr_array((data, pairs, np.cumsum([0, *lengths])), shape=(len(names), mdp.n_pairs))
        self._count(mdp, names, weights, np.array(over_states, bool))
        least, most = (self.units.values(np.full(len(names), end)) for end in (0.0, 1.0))
        self._state_bounds(
            [least[k] if bound is None else bound for k, bound in enumerate(at_least)],
            [most[k] if bound is None else bound for k, bound in enumerate(at_most)],
        )
        self._refuse_twins()

    @classmethod
    def from_members(
        cls,
        mdp: MDP,
        names: Iterable[str],
        weights: csr_array,
        lower: ArrayLike,
        upper: ArrayLike,
        over_states: ArrayLike,
    ) -> Problem:
        """Build from the arrays that a problem holds; for very many quotas this is the quick way.

        Each row of ``weights`` must hold sorted, distinct pairs, and where ``over_states`` is True all pairs
        of a state, with one weight, or none.
        """
        over_states = np.array(over_states, bool)
        names = names_of("quotas", names, weights.shape[0]) or ()
        if weights.shape[1] != mdp.n_pairs or over_states.shape != (len(names),):
            raise ProblemError(
                f"weights has shape {weights.shape} and over_states {over_states.shape}, "
                f"expected ({len(names)}, {mdp.n_pairs}) and ({len(names)},)"
            )
        arrays = weights.data.astype(float), weights.indices.copy(), weights.indptr.copy()
        weights = csr_array(arrays, weights.shape)
        _check_sets(mdp, names, weights, over_states)
        problem = object.__new__(cls)
        problem._count(mdp, names, weights, over_states)
        problem._state_bounds(lower, upper)
        problem._refuse_twins()
        return problem

    def _count(self, mdp: MDP, names: Sequence[str], weights: csr_array, over_states: Bools) -> None:
        """Set everything but the bounds."""
        _check_names(names)
        weighted = np.zeros(len(names), bool)
        weighted[np.repeat(np.arange(len(names)), np.diff(weights.indptr))[weights.data != 1]] = True
        members, units = as_shares(tuple(names), weights, weighted)
        self.__dict__.update(
            mdp=mdp,
            names=tuple(names),
            members=members,
            over_states=over_states,
            weights=weights,
            weighted=weighted,
            units=units,
        )
        for array in (members, weights):
            frozen(array.data, array.indices, array.indptr)
        frozen(over_states, weighted)

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
        """Return the same problem with other bounds on the shares, (K,) each; what is not given stays."""
        other = self._without_bounds()
        low, high = self.at_least, self.at_most
        if at_least is not None:
            low = real_vector("at_least", at_least, self.n_quotas)
        if at_most is not None:
            high = real_vector("at_most", at_most, self.n_quotas)
        lower = np.where(low == self.at_least, self.lower, self.units.values(low))
        upper = np.where(high == self.at_most, self.upper, self.units.values(high))
        other._set_bounds(low, high, lower, upper)
        return other

    def with_stated_bounds(
        self, at_least: ArrayLike | None = None, at_most: ArrayLike | None = None
    ) -> Problem:
        """Return the same problem with other bounds, in the units of the quotas; what is not given stays.

        Where no quota has weights this is `with_bounds`.

        Examples
        --------
        >>> from fairmdp import scenarios
        >>> balance = Quota("balance", weights={"s0": -2.0, "s2": 6.0}, at_least=0.0)
        >>> moved = Problem(scenarios.three_state().mdp, [balance]).with_stated_bounds([0.4])
        >>> moved.lower, moved.at_least
        (array([0.4]), array([0.3]))
        """
        other = self._without_bounds()
        other._state_bounds(
            self.lower if at_least is None else at_least, self.upper if at_most is None else at_most
        )
        return other

    def with_quotas(self, quotas: Iterable[Quota]) -> Problem:
        """Return the same model with quotas added; one that has the name of an old one replaces it."""
        added = checked_quotas(quotas)
        replaced = {q.name for q in added}
        return Problem(self.mdp, [*(q for q in self.quotas if q.name not in replaced), *added])

    def with_mdp(self, mdp: MDP) -> Problem:
        """Return the same quotas on another model of the same states and actions, such as other rewards."""
        same = np.array_equal(mdp.s_of, self.mdp.s_of)
        if not same:
            raise ProblemError("the other model has other states or actions")
        other = object.__new__(Problem)
        other.__dict__.update({field.name: getattr(self, field.name) for field in fields(self)}, mdp=mdp)
        return other

    def without_quotas(self) -> Problem:
        """Return the same model with nothing owed."""
        return Problem(self.mdp)

    def with_fair_action(self, psi: ArrayLike | None = None, reward: float | None = None) -> Problem:
        """Add the reset action ``a*`` to the model; quotas over states count it, quotas over pairs do not."""
        new_place = np.argsort(self.mdp.appended_order)[: self.mdp.n_pairs]
        quotas = []
        for k, quota in enumerate(self.quotas):
            if quota.pairs is not None:
                quota = replace(quota, pairs=new_place[np.asarray(quota.pairs)])
            elif quota.weights is not None and not self.over_states[k]:
                weights = np.zeros(new_place.size + self.mdp.n_states)
                weights[new_place] = np.asarray(quota.weights)
                quota = replace(quota, weights=weights)
            quotas.append(quota)
        return Problem(self.mdp.with_fair_action(psi, reward), quotas)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything that a file of this problem holds: the numbers and the names."""
        mdp, sha = self.mdp, hashlib.sha256(b"fairmdp problem 1")
        for array, kind in (
            (mdp.P.indptr, "<i8"), (mdp.P.indices, "<i8"), (mdp.P.data, "<f8"), (mdp.r, "<f8"),
            (mdp.s_of, "<i8"), (() if mdp.initial is None else mdp.initial, "<f8"),
            (self.weights.indptr, "<i8"), (self.weights.indices, "<i8"),
            (self.lower, "<f8"), (self.upper, "<f8"), (self.over_states, "|b1"),
            *([(self.weights.data, "<f8")] if self.weighted.any() else []),
        ):  # fmt: skip
            flat = np.ascontiguousarray(array, dtype=kind)
            sha.update(flat.size.to_bytes(8, "little"))
            sha.update(flat.data)
        for names in (mdp.states, mdp.actions, self.names):
            sha.update(b"none" if names is None else len(names).to_bytes(8, "little"))
            sha.update("\0".join(names or ()).encode())
        return sha.hexdigest()

    def __repr__(self) -> str:
        return f"Problem({repr(self.mdp)[4:-1]}, {counted(self.n_quotas, 'quota')})"

    def _repr_html_(self) -> str:
        from fairmdp.notebook import problem_html

        return problem_html(self)

    def _without_bounds(self) -> Problem:
        """The same problem, whose bounds are still to be set."""
        other = object.__new__(Problem)
        shared = ("mdp", "names", "members", "over_states", "weights", "weighted", "units")
        other.__dict__.update({field: getattr(self, field) for field in shared})
        return other

    def _quota(self, k: int) -> Quota:
        counted = slice(self.weights.indptr[k], self.weights.indptr[k + 1])
        pairs = self.weights.indices[counted]
        at_most = float(self.upper[k]) if self.at_most[k] < 1 else None
        at_least = float(self.lower[k]) if self.at_least[k] > 0 or at_most is None else None
        name, mdp = self.names[k], self.mdp
        if self.weighted[k]:
            weights = np.zeros(mdp.n_pairs)
            weights[pairs] = self.weights.data[counted]
            weights = weights[mdp.pair_ptr[:-1]] if self.over_states[k] else weights
            frozen(weights)
            return Quota(name, None, None, at_least, at_most, weights)
        if self.over_states[k]:
            return Quota(name, np.unique(mdp.s_of[pairs]), None, at_least, at_most)
        return Quota(name, None, pairs, at_least, at_most)

    def _state_bounds(self, at_least: ArrayLike, at_most: ArrayLike) -> None:
        """Set bounds in the user's numbers; one that every mean of the weights meets asks for nothing."""
        lower = real_vector("at_least", at_least, self.n_quotas)
        upper = real_vector("at_most", at_most, self.n_quotas)
        least, most = (self.units.values(np.full(self.n_quotas, end)) for end in (0.0, 1.0))
        low, high = self.units.shares(lower), self.units.shares(upper)
        for what, bound, within in (("at_least", lower, low <= 1), ("at_most", upper, high >= 0)):
            bad = self.weighted & ~within
            if bad.any():
                k = int(np.argmax(bad))
                extreme = f"more than {most[k]:.12g}" if what == "at_least" else f"less than {least[k]:.12g}"
                refuse(
                    f"quota {self.names[k]} has {what} {float(bound[k])!r}, and no policy has {extreme}",
                    f"its weights go from {least[k]:.12g} to {most[k]:.12g}",
                    "a mean lies between the smallest and the largest",
                )
        idle_low, idle_high = self.weighted & (low <= 0), self.weighted & (high >= 1)
        low, lower = np.where(idle_low, 0.0, low), np.where(idle_low, least, lower)
        high, upper = np.where(idle_high, 1.0, high), np.where(idle_high, most, upper)
        self._set_bounds(low, high, lower, upper)

    def _set_bounds(self, low: Floats, high: Floats, lower: Floats, upper: Floats) -> None:
        """Set bounds on the shares, and the same as stated."""
        frozen(low, high, lower, upper)
        self.__dict__.update(at_least=low, at_most=high, lower=lower, upper=upper)
        for what, bound in (("at_least", low), ("at_most", high)):
            bad = ~((bound >= 0) & (bound <= 1))
            if bad.any():
                k = int(np.argmax(bad))
                refuse(
                    f"quota {self.names[k]} has {what} {float(bound[k])!r}, expected a share between 0 and 1",
                    f"{count_of(bad.sum(), bound.size, 'quotas')} out of range",
                    "write 25 % as 0.25",
                )
        bad = low > high
        if bad.any():
            k = int(np.argmax(bad))
            refuse(
                f"quota {self.names[k]} asks for at_least {lower[k]:.12g} and at_most {upper[k]:.12g}",
                f"{count_of(bad.sum(), bad.size, 'quotas')} impossible, whatever the model",
                "swap the two, or drop one",
            )
        owed = (low > 0) & ~self.weighted
        total = float(low[owed].sum())
        if total > 1 + EXACT_SUM_TOL and (self.members.T @ owed.astype(float)).max() <= 1:
            refuse(
                f"the quotas owe {total:.12g} of the time, more than there is",
                f"{owed.sum()} disjoint quotas, most for {self.names[int(np.argmax(low * owed))]}",
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
    useless = (members.data == 0) | ~np.isfinite(members.data)
    if useless.any():
        k = row[useless][0]
        raise ProblemError(f"quota {names[k]} has weight {members.data[useless][0]}, expected others than 0")
    key, count = np.unique(row * mdp.n_states + mdp.s_of[pairs], return_counts=True)
    quota, state = np.divmod(key, mdp.n_states)
    partial = over_states[quota] & (count != mdp.n_actions[state])
    uneven = over_states[row[1:]] & (np.diff(row * mdp.n_states + mdp.s_of[pairs]) == 0)
    uneven &= np.diff(members.data) != 0
    if uneven.any():
        raise ProblemError(
            f"quota {names[row[1:][uneven][0]]} is over states but weighs actions of one apart"
        )
    if partial.any():
        raise ProblemError(
            f"quota {names[quota[partial][0]]} is over states but counts only some actions of one"
        )


def _row_hashes(members: csr_array) -> NDArray[np.uint64]:
    """One 64-bit number per row that depends on its columns and their weights only."""
    keys = np.random.default_rng(0).integers(0, 2**64, members.shape[1], dtype=np.uint64)
    # Odd factors lose nothing modulo 2**64; the bit shifted out is the sign, which is always the same.
    weighed = keys[members.indices] * (members.data.view(np.uint64) * np.uint64(2) + np.uint64(1))
    prefix = np.concatenate([np.zeros(1, np.uint64), np.cumsum(weighed, dtype=np.uint64)])
    hashes: NDArray[np.uint64] = prefix[members.indptr[1:]] - prefix[members.indptr[:-1]]
    return hashes
