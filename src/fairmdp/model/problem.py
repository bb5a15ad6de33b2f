"""A model and quotas: the problem that they make together."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csc_array, csr_array

from fairmdp.errors import ProblemError
from fairmdp.model.checks import (
    Bools,
    Floats,
    Ints,
    ReadOnly,
    as_share,
    count_of,
    counted,
    first,
    frozen,
    names_of,
    number_within,
    numeric,
    read_only,
    real_vector,
    refuse,
    there_are,
)
from fairmdp.model.conditional import Condition, ConditionalShare
from fairmdp.model.mdp import MDP
from fairmdp.model.quota import (
    Counted,
    Quota,
    check_names,
    check_sets,
    checked_quotas,
    counted_by,
    refuse_twins,
)
from fairmdp.model.weights import Units, as_shares

_ROWS = ("mdp", "names", "weights", "over_states", "expected", "conditions", "weighted", "_scaled")
_BOUNDS = ("lower", "upper", "at_least", "at_most")
_NOTHING = (None, -np.inf)  # what asks for nothing: no least share, or that of a `Utility`


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Problem(ReadOnly):
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
    weights : csr_array
        What each pair counts for each quota, as stated, (K, SA); 1 in a set.
    over_states : ndarray
        Whether a quota was stated over states (else over pairs), (K,).
    expected : ndarray
        Whether the mean over runs is to meet a quota, and not every run by itself, (K,).
    conditions : tuple of Condition
        What the conditional quotas among them ask; their weights come from it, and their bounds are 0.
    lower, upper : ndarray
        Bounds on ``weights @ x``, as stated, (K,); the extreme weights where a quota has none.

    Examples
    --------
    >>> mdp = MDP([[0, 1], [0.5, 0.5], [1, 0]], [1.0, 0.0, 2.0], [0, 0, 1])
    >>> Problem(mdp, [Quota("rest", states=[0], at_least=0.6)])
    Problem(2 states, 3 pairs, 4 transitions, 1 quota)
    """

    mdp: MDP
    names: tuple[str, ...]
    weights: csr_array
    over_states: Bools
    expected: Bools
    conditions: tuple[Condition, ...]
    lower: Floats
    upper: Floats

    def __init__(self, mdp: MDP, quotas: Iterable[Quota] = (), *, rho: ArrayLike | None = None) -> None:
        if not isinstance(mdp, MDP):
            raise ProblemError(f"mdp is a {type(mdp).__name__}, expected a fairmdp.MDP")
        quotas = checked_quotas(quotas)
        names = [q.name for q in quotas]
        rows = [counted_by(mdp, q, k) for k, q in enumerate(quotas)]
        conditions = tuple(row.condition for row in rows if row.condition is not None)
        over_states = [row.over_states for row in rows]
        lengths = [row.pairs.size for row in rows]
        owed = np.empty(0)
        if rho is not None:
            owed = real_vector("rho", rho, mdp.n_states)
            names += map(mdp.state_name, range(mdp.n_states))
            rows.append(Counted(np.arange(mdp.n_pairs), np.ones(mdp.n_pairs), True))
            over_states += [True] * mdp.n_states
            lengths += mdp.n_actions.tolist()
        pairs = np.concatenate([np.empty(0, np.int64), *(row.pairs for row in rows)])
        data = np.concatenate([np.empty(0), *(row.weights for row in rows)])
        weights = csr_array((data, pairs, np.cumsum([0, *lengths])), shape=(len(names), mdp.n_pairs))
        expected = np.array([q.expected for q in quotas] + [False] * (len(names) - len(quotas)), bool)
        self._set_rows(mdp, names, weights, np.array(over_states, bool), expected, conditions)
        least, most = self._extremes
        low = [end if q.at_least in _NOTHING else q.at_least for q, end in zip(quotas, least, strict=False)]
        high = [end if q.at_most is None else q.at_most for q, end in zip(quotas, most, strict=False)]
        for condition in conditions:  # their bound is in the weights
            (low if condition.least else high)[condition.quota] = 0.0
        lower, upper = (numeric(what, ends) for what, ends in (("at_least", low), ("at_most", high)))
        self._state_bounds(np.append(lower, owed), np.append(upper, most[len(quotas) :]))
        refuse_twins(self.names, self.members, self.at_least, self.at_most, self.expected)

    @classmethod
    def from_members(
        cls,
        mdp: MDP,
        names: Iterable[str],
        weights: csr_array,
        lower: ArrayLike,
        upper: ArrayLike,
        over_states: ArrayLike,
        of: csr_array | None = None,
        expected: ArrayLike | None = None,
    ) -> Problem:
        """Build from the arrays that a problem holds; for very many quotas this is the quick way.

        Each row of ``weights`` must hold sorted, distinct pairs, and where ``over_states`` is True all pairs
        of a state, with one weight, or none. Where a row of ``of`` has pairs, those of whole states, they are
        the condition of a conditional quota, whose set and bounds are then those of the user.
        """
        if of is not None and of.nnz:
            return cls._with_conditions(mdp, names, weights, lower, upper, over_states, of, expected)
        over_states = np.array(over_states, bool)
        names = names_of("quotas", names, weights.shape[0]) or ()
        in_mean = np.zeros(len(names), bool) if expected is None else np.array(expected, bool)
        if in_mean.shape != (len(names),):
            raise ProblemError(f"expected has shape {in_mean.shape}, expected ({len(names)},)")
        if weights.shape[1] != mdp.n_pairs or over_states.shape != (len(names),):
            raise ProblemError(
                f"weights has shape {weights.shape} and over_states {over_states.shape}, "
                f"expected ({len(names)}, {mdp.n_pairs}) and ({len(names)},)"
            )
        arrays = weights.data.astype(float), weights.indices.copy(), weights.indptr.copy()
        weights = csr_array(arrays, weights.shape)
        check_sets(mdp, names, weights, over_states)
        problem = object.__new__(cls)
        problem._set_rows(mdp, names, weights, over_states, in_mean)
        problem._state_bounds(lower, upper)
        refuse_twins(problem.names, problem.members, problem.at_least, problem.at_most, problem.expected)
        return problem

    @classmethod
    def _with_conditions(
        cls,
        mdp: MDP,
        names: Iterable[str],
        sets: csr_array,
        lower: ArrayLike,
        upper: ArrayLike,
        over_states: ArrayLike,
        of: csr_array,
        expected: ArrayLike | None,
    ) -> Problem:
        low, high = np.array(lower, float), np.array(upper, float)
        rows = np.flatnonzero(np.diff(of.indptr))
        if of.shape != sets.shape or low.shape != high.shape or low.shape != (sets.shape[0],):
            raise ProblemError(f"of has shape {of.shape}, expected that of the sets, {sets.shape}")
        none, all_ = low.copy(), high.copy()
        none[rows], all_[rows] = 0.0, 1.0
        plain = cls.from_members(mdp, names, sets, none, all_, over_states, expected=expected)
        quotas = list(plain.quotas)
        for k in rows.tolist():
            states = np.unique(mdp.s_of[of.indices[of.indptr[k] : of.indptr[k + 1]]])
            least, most = (float(low[k]), None) if high[k] >= 1 else (None, float(high[k]))
            quotas[k] = replace(quotas[k], of=states, at_least=least, at_most=most)
        return cls(mdp, quotas)

    def _set_rows(
        self,
        mdp: MDP,
        names: Sequence[str],
        weights: csr_array,
        over_states: Bools,
        expected: Bools,
        conditions: tuple[Condition, ...] = (),
    ) -> None:
        """Set everything but the bounds."""
        check_names(names)
        self.__dict__.update(
            mdp=mdp, names=tuple(names), weights=read_only(weights), over_states=read_only(over_states),
            expected=read_only(expected), conditions=conditions,
        )  # fmt: skip

    @cached_property
    def weighted(self) -> Bools:
        """Whether quota ``k`` has weights other than 0 and 1, or a condition, (K,)."""
        weighted = np.zeros(self.n_quotas, bool)
        weighted[[condition.quota for condition in self.conditions]] = True
        odd = self.weights.data != 1
        if odd.any():
            weighted[np.repeat(np.arange(self.n_quotas), np.diff(self.weights.indptr))[odd]] = True
        return weighted

    @cached_property
    def _scaled(self) -> tuple[csr_array, Units]:
        members, units = as_shares(self.names, self.weights, self.weighted)
        return read_only(members), units

    @property
    def members(self) -> csr_array:
        """What each pair counts as a share, (K, SA): 1 in a set, else its weight scaled to [0, 1]."""
        return self._scaled[0]

    @property
    def units(self) -> Units:
        """Turns shares, slacks and prices into the numbers that were stated."""
        return self._scaled[1]

    @cached_property
    def at_least(self) -> Floats:
        """Least share ``members @ x`` of each quota, (K,); 0 where it asks for none."""
        return self.lower if self.units.are_shares else self.units.shares(self.lower)

    @cached_property
    def at_most(self) -> Floats:
        """Largest share ``members @ x`` of each quota, (K,); 1 where it asks for none."""
        if self.units.are_shares:
            return self.upper
        idle = self.weighted & (self.upper >= self._extremes[1])  # to be exactly 1, despite rounding
        return np.where(idle, 1.0, self.units.shares(self.upper))

    @property
    def _extremes(self) -> tuple[Floats, Floats]:
        """Smallest and largest mean that each quota's weights allow, (K,) each."""
        nothing = np.zeros(self.n_quotas)
        return self.units.values(nothing), self.units.values(nothing + 1)

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
            raise ProblemError(f"there is no quota called {quota!r}{there_are(self.names, quota)}")
        return self.names.index(quota)

    def with_bounds(self, at_least: ArrayLike | None = None, at_most: ArrayLike | None = None) -> Problem:
        """Return the same problem with other bounds on the shares, (K,) each; what is not given stays."""
        other = self._sharing(*_ROWS)
        low, high = self.at_least, self.at_most
        if at_least is not None:
            low = real_vector("at_least", at_least, self.n_quotas)
        if at_most is not None:
            high = real_vector("at_most", at_most, self.n_quotas)
        lower = np.where(low == self.at_least, self.lower, self.units.values(low))
        upper = np.where(high == self.at_most, self.upper, self.units.values(high))
        # The shares that were asked for hold to the last bit, not only what rounding leaves of them.
        other.__dict__.update(at_least=read_only(low), at_most=read_only(high))
        other._set_bounds(lower, upper)
        return other

    def with_sets_unbounded(self) -> Problem:
        """Return the same problem whose quotas on sets only name them; those with weights stay."""
        idle = ~self.weighted
        return self.with_bounds(np.where(idle, 0.0, self.at_least), np.where(idle, 1.0, self.at_most))

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
        other = self._sharing(*_ROWS)
        other._state_bounds(
            self.lower if at_least is None else at_least, self.upper if at_most is None else at_most
        )
        return other

    def with_quotas(self, quotas: Iterable[Quota]) -> Problem:
        """Return the same model with quotas added; one that has the name of an old one takes its place."""
        stated = {q.name: [q] for q in self.quotas}
        added: dict[str, list[Quota]] = {}
        for quota in checked_quotas(quotas):
            added.setdefault(quota.name, []).append(quota)
        return Problem(self.mdp, chain.from_iterable((stated | added).values()))

    def with_meaning(self, *, expected: bool) -> Problem:
        """Return the same quotas on the mean over runs, or else on every run: all that ask for something."""
        other = self._sharing(*_ROWS, *_BOUNDS)
        asks = (self.at_least > 0) | (self.at_most < 1)
        other.__dict__["expected"] = read_only(np.where(asks, expected, self.expected))
        return other

    @property
    def uniform(self) -> Problem:
        """The same quotas on a model of equal steps, with the same gains and shares: what solvers see."""
        return self._uniform or self

    @cached_property
    def _uniform(self) -> Problem | None:
        return None if self.mdp.durations is None else self.with_mdp(self.mdp.uniform)

    def with_mdp(self, mdp: MDP) -> Problem:
        """Return the same quotas on another model of the same states and actions, such as other rewards."""
        same = np.array_equal(mdp.s_of, self.mdp.s_of)
        if not same:
            raise ProblemError("the other model has other states or actions")
        other = self._sharing(*_ROWS, *_BOUNDS)
        other.__dict__["mdp"] = mdp
        return other

    def on_part(self, mdp: MDP, pairs: Ints) -> Problem:
        """Return the same quotas, in the same units, on a model of some of the pairs, given by number."""
        other = self._sharing("names", "over_states", "lower", "upper")
        conditions = tuple(
            replace(
                c, of=np.flatnonzero(np.isin(pairs, c.of)), within=np.flatnonzero(np.isin(pairs, c.within))
            )
            for c in self.conditions
        )
        scaled = self.members[:, pairs], self.units
        other.__dict__.update(mdp=mdp, weights=self.weights[:, pairs], conditions=conditions)
        other.__dict__.update(
            weighted=self.weighted, _scaled=read_only(scaled), at_least=self.at_least, at_most=self.at_most
        )
        return other

    def with_reward(self, name: str) -> Problem:
        """Return the same quotas on the model that earns another of its `MDP.rewards`."""
        return self.with_mdp(self.mdp.with_reward(name))

    @cached_property
    def _by_pair(self) -> tuple[csc_array, csc_array]:
        """The weights and the members, pair by pair."""
        return self.weights.tocsc(), self.members.tocsc()

    def counted(self, pairs: Ints) -> csr_array:
        """What each quota counts in some of the pairs, (K, pairs)."""
        return self._by_pair[1][:, pairs].tocsr()

    def within(self, states: Ints, pairs: Ints, quotas: Ints) -> Problem:
        """Return some of the quotas on a part of the model, whose pairs do not leave its states.

        Shares are of the time in the part. Weights keep the scale that they have in the whole model.
        """
        mdp, other = self.mdp.within(states, pairs), object.__new__(Problem)
        names = (*_BOUNDS, "over_states", "expected")
        rows = {name: read_only(getattr(self, name)[quotas]) for name in names}
        weights, members = (read_only(csr_array(each[:, pairs][quotas].tocsr())) for each in self._by_pair)
        other.__dict__.update(
            mdp=mdp, names=tuple(self.names[k] for k in quotas), weights=weights, conditions=(),
            weighted=read_only(self.weighted[quotas]), _scaled=(members, self.units.of(quotas)), **rows,
        )  # fmt: skip
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
            *([] if self._follow_from_stated() else [(self.at_least, "<f8"), (self.at_most, "<f8")]),
            *([] if mdp.durations is None else [(mdp.durations, "<f8")]),
            *([(self.expected, "|b1")] if self.expected.any() else []),
            *(
                (array, kind)
                for c in self.conditions
                for array, kind in ((c.of, "<i8"), (c.within, "<i8"), ([c.quota, c.bound, c.least], "<f8"))
            ),
        ):  # fmt: skip
            flat = np.ascontiguousarray(array, dtype=kind)
            sha.update(flat.size.to_bytes(8, "little"))
            sha.update(flat.data)
        if mdp.reward_names:
            sha.update(np.ascontiguousarray(mdp.reward_rows, dtype="<f8").data)
        more = [names for names in (mdp.reward_names, mdp.time_unit and (mdp.time_unit,)) if names]
        for names in (mdp.states, mdp.actions, self.names, *more):
            sha.update(b"none" if names is None else len(names).to_bytes(8, "little"))
            sha.update("\0".join(names or ()).encode())
        return sha.hexdigest()

    def __repr__(self) -> str:
        return f"Problem({repr(self.mdp)[4:-1]}, {counted(self.n_quotas, 'quota')})"

    def _follow_from_stated(self) -> bool:
        """Whether the bounds on shares are what the stated ones make them, to the last bit."""
        if self.units.are_shares:
            return True
        stated = self._sharing(*_ROWS, "lower", "upper")
        return bool((stated.at_least == self.at_least).all() and (stated.at_most == self.at_most).all())

    def __getstate__(self) -> dict[str, Any]:
        """Shares that were asked for go along, as they hold to the last bit."""
        return {**super().__getstate__(), "at_least": self.at_least, "at_most": self.at_most}

    def _sharing(self, *names: str) -> Problem:
        """Another problem, with some of what this one states and has derived from it."""
        other = object.__new__(Problem)
        other.__dict__.update({name: self.__dict__[name] for name in names if name in self.__dict__})
        return other

    def _quota(self, k: int) -> Quota:
        counted = slice(self.weights.indptr[k], self.weights.indptr[k + 1])
        pairs = self.weights.indices[counted]
        at_most = float(self.upper[k]) if self.at_most[k] < 1 else None
        at_least = float(self.lower[k]) if self.at_least[k] > 0 or at_most is None else None
        name, mdp, expected = self.names[k], self.mdp, bool(self.expected[k])
        for condition in self.conditions:
            if condition.quota == k and (self.lower[k] if condition.least else self.upper[k]) == 0:
                return self._conditional(condition)
        if self.weighted[k]:
            weights = np.zeros(mdp.n_pairs)
            weights[pairs] = self.weights.data[counted]
            weights = weights[mdp.pair_ptr[:-1]] if self.over_states[k] else weights
            frozen(weights)
            return Quota(name, None, None, at_least, at_most, weights, expected=expected)
        if self.over_states[k]:
            return Quota(name, np.unique(mdp.s_of[pairs]), None, at_least, at_most, expected=expected)
        return Quota(name, None, pairs, at_least, at_most, expected=expected)

    def _conditional(self, condition: Condition) -> Quota:
        k, s_of = condition.quota, self.mdp.s_of
        bounds: dict[str, Any] = {"at_least" if condition.least else "at_most": condition.bound}
        bounds |= {"of": np.unique(s_of[condition.of]), "expected": bool(self.expected[k])}
        if self.over_states[k]:
            return Quota(self.names[k], states=np.unique(s_of[condition.within]), **bounds)
        return Quota(self.names[k], pairs=condition.within, **bounds)

    @property
    def stated_bounds(self) -> tuple[Floats, Floats]:
        """Bounds as the quotas state them, (K,) each: of a conditional one, on the part of its condition."""
        lower, upper = self.lower.copy(), self.upper.copy()
        for c in self.conditions:
            lower[c.quota], upper[c.quota] = (c.bound, 1.0) if c.least else (0.0, c.bound)
        return lower, upper

    def conditional_shares(self, x: Floats) -> tuple[ConditionalShare, ...]:
        """How much time each condition has where the pairs have these shares of it."""
        return tuple(ConditionalShare(c.quota, c.bound, c.least, c.mass(x)) for c in self.conditions)

    def stated_shares(self, x: Floats) -> Floats:
        """What each quota was stated in, (K,), at shares of the pairs: a share, a mean, or a part."""
        values = self.units.values(self.members @ x)
        for share in self.conditional_shares(x):
            values[share.quota] = share.part(float(values[share.quota]))
        return values

    def _state_bounds(self, at_least: ArrayLike, at_most: ArrayLike) -> None:
        """Set bounds in the user's numbers; one that every mean of the weights meets asks for nothing."""
        lower = real_vector("at_least", at_least, self.n_quotas)
        upper = real_vector("at_most", at_most, self.n_quotas)
        if self.weighted.any():
            low, high = self.units.shares(lower), self.units.shares(upper)
            least, most = self._extremes
            for what, bound, within in (("at_least", lower, low <= 1), ("at_most", upper, high >= 0)):
                k = first(self.weighted & ~within)
                if k is not None:
                    end = f"more than {most[k]:.12g}" if what == "at_least" else f"less than {least[k]:.12g}"
                    refuse(
                        f"quota {self.names[k]} has {what} {float(bound[k])!r}, and no policy has {end}",
                        f"its weights go from {least[k]:.12g} to {most[k]:.12g}",
                        "a mean lies between the smallest and the largest",
                    )
            lower = np.where(self.weighted & (low <= 0), least, lower)
            upper = np.where(self.weighted & (high >= 1), most, upper)
        self._set_bounds(lower, upper)

    def _set_bounds(self, lower: Floats, upper: Floats) -> None:
        """Set bounds as stated, unless they cannot be met whatever the model."""
        frozen(lower, upper)
        self.__dict__.update(lower=lower, upper=upper)
        low, high = self.at_least, self.at_most
        for what, bound in (("at_least", low), ("at_most", high)):
            bad = ~((bound >= 0) & (bound <= 1))
            if (k := first(bad)) is not None:
                refuse(
                    f"quota {self.names[k]} has {what} {float(bound[k])!r}, expected a share between 0 and 1",
                    f"{count_of(bad.sum(), bound.size, 'quotas')} out of range",
                    as_share(float(bound[k])),
                )
        bad = low > high
        if (k := first(bad)) is not None:
            refuse(
                f"quota {self.names[k]} asks for at_least {lower[k]:.12g} and at_most {upper[k]:.12g}",
                f"{count_of(bad.sum(), bad.size, 'quotas')} impossible, whatever the model",
                "swap the two, or drop one",
            )
