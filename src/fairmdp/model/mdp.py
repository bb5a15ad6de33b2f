"""A finite Markov decision process, checked once and read-only afterwards.

It is stored over its feasible state-action pairs, sorted by state, so that every state may have actions
of its own: row ``i`` of ``P`` and entry ``i`` of ``r`` belong to pair ``i``, an action of state ``s_of[i]``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, vstack

from fairmdp import model
from fairmdp.errors import ProblemError
from fairmdp.files import naming
from fairmdp.model.checks import (
    Floats,
    Ints,
    ReadOnly,
    counted,
    first,
    frozen,
    names_of,
    read_only,
    real_vector,
    there_are,
)
from fairmdp.model.labels import Labelled, pair_labels
from fairmdp.model.objects import Objects, kept, numbers_of, state_labels, variables_of
from fairmdp.model.time import checked_durations, jumps, uniform_rows, uniform_step, weighed
from fairmdp.model.transitions import (
    EXACT_SUM_TOL,
    ROW_SUM_TOL,
    as_csr,
    check_transitions,
    finite_rewards,
    state_of_pairs,
    sum_tol,
)

_MAX_FAIR_ACTION_ENTRIES = 2 * 10**8


@dataclass(frozen=True, init=False, eq=False, repr=False)
class MDP(Labelled, ReadOnly):
    """A finite MDP with ragged action sets and an average-reward objective.

    Parameters
    ----------
    P
        Transition probabilities, one row per state-action pair, (SA, S), dense or sparse. Rows must sum
        to 1 within 1e-9; one that is off by more than 1e-12 is rescaled. Repeated entries are added up.
    r
        Reward of each pair, (SA,): finite numbers, the largest in size from 1e-280 to 1e300 unless all are 0.
        Or of each transition, (SA, S), dense or sparse, whose mean is taken.
    s_of
        State of each pair, (SA,): integers in ascending order, every state at least once.
    states
        Names of the states, (S,), or any hashable objects that stand for them, such as tuples; rows of
        numbers, (S, d), will do too. Without them a state is called by its number.
    actions
        Names of the actions: one per pair, (SA,), or one list for all states, taken by position.
        Without them the k-th action of a state is called ``a{k}``.
    initial
        Where a run starts: a distribution of the first state, (S,), or the name of one state. What cannot be
        reached from there does not count, and where a run ends may depend on it. Without it quotas are owed
        from every state, and gains are those of a start in any state, all equally likely.
    rewards
        Other rewards by name, (SA,) each, which quotas may bound: ``Quota("energy", reward="energy", ...)``.
    durations
        Mean time that each pair takes, (SA,), where steps are not equally long: gains are then per unit of
        time, and shares are shares of time. A policy is what to do at each decision.
    time_unit
        Name of the unit of time, such as ``"hour"``, for reports.

    Attributes
    ----------
    state_objects : tuple, ndarray or None
        What stands for the states where that is not their names, in the same order. Files and copies for
        other processes keep the names alone.
    pair_ptr : ndarray
        The pairs of state ``s`` are ``pair_ptr[s]`` to ``pair_ptr[s + 1] - 1``, (S + 1,).

    Examples
    --------
    >>> mdp = MDP([[0, 1], [0.5, 0.5], [1, 0]], [1.0, 0.0, 2.0], [0, 0, 1], states=["day", "night"])
    >>> mdp
    MDP(2 states, 3 pairs, 4 transitions)
    >>> mdp.pair_name(1)
    'day/a1'
    """

    P: csr_array
    r: Floats
    s_of: Ints
    pair_ptr: Ints
    states: tuple[str, ...] | None
    actions: tuple[str, ...] | None
    initial: Floats | None
    state_objects: Objects | None
    reward_names: tuple[str, ...]
    reward_rows: Floats
    durations: Floats | None
    time_unit: str | None

    def __init__(
        self,
        P: Any,
        r: Any,
        s_of: ArrayLike | None = None,
        *,
        states: Iterable[Hashable] | None = None,
        actions: Iterable[str] | None = None,
        initial: ArrayLike | str | None = None,
        rewards: Mapping[str, ArrayLike] | None = None,
        durations: ArrayLike | None = None,
        time_unit: str | None = None,
    ) -> None:
        P = as_csr(P)
        n_pairs, n_states = P.shape
        if n_states == 0 or n_pairs == 0:
            raise ProblemError(f"P has shape {P.shape}: an MDP needs at least one state and one action")
        s_of = state_of_pairs(s_of, n_pairs, n_states)
        pair_ptr = np.searchsorted(s_of, np.arange(n_states + 1)).astype(np.int64)
        # Fields are set as soon as they are known, so that messages can name states and actions.
        fields = self.__dict__
        names, objects = state_labels(states, n_states)
        fields.update(P=P, s_of=s_of, pair_ptr=pair_ptr, states=names, state_objects=objects, actions=None)
        fields.update(actions=pair_labels(actions, self))
        check_transitions(P, self)
        fields.update(r=finite_rewards("r", r, P, self))
        other = {} if rewards is None else dict(rewards)
        rows = [finite_rewards(f"rewards[{name!r}]", row, P, self) for name, row in other.items()]
        fields.update(
            reward_names=names_of("rewards", other), reward_rows=np.array(rows).reshape(-1, n_pairs)
        )
        fields.update(initial=None if initial is None else self.first_state(initial))
        fields.update(durations=None if durations is None else checked_durations(durations, self))
        fields.update(time_unit=None if time_unit is None else (names_of("time_unit", [time_unit]) or ())[0])
        frozen(P.data, P.indices, P.indptr, self.r, self.reward_rows, s_of, pair_ptr)
        if self.durations is not None:
            frozen(self.durations)
            with np.errstate(over="ignore"):
                finite_rewards("r", self.r / self.durations, P, self)

    @classmethod
    def from_tensor(cls, P: ArrayLike, R: ArrayLike, **names: Any) -> MDP:
        """Build from ``P[s, a, s']`` and ``R[s, a]``; ``R = -inf`` marks an action that is not available.

        R may also be one number per state, (S,), or per transition, ``R[s, a, s']``. Takes ``states``,
        ``actions`` (one name per action) and what else the constructor takes by name.
        """
        return model.tensors.by_state(P, R, names)

    @classmethod
    def from_action_tensor(cls, P: Any, R: Any, **names: Any) -> MDP:
        """Build from one matrix per action, the order of mdptoolbox; else as `from_tensor`.

        ``P[a, s, s']`` is an array, (A, S, S), or a list of A matrices (S, S), dense or sparse. R is
        ``R[s, a]``, one number per state, or one per transition in the same form as P.
        """
        return model.tensors.by_action(P, R, names)

    @classmethod
    def from_table(
        cls,
        table: Any,
        *,
        columns: Mapping[str, str | None] | None = None,
        initial: ArrayLike | None = None,
    ) -> MDP:
        """Build from a table of transitions: columns state, action, next, probability and reward.

        Each row says that an action of a state leads to a next state with a probability. States are numbered
        as they appear, or ascending if all are whole numbers. Rewards are averaged over the rows of a pair.
        A column duration is the time that a pair takes, as in the constructor. Other columns that hold
        numbers are kept as `MDP.rewards`; those that hold text are notes.

        Parameters
        ----------
        table
            A data frame of pandas or polars, an Arrow table or anything with Arrow's C stream, a dictionary
            of columns, a list of dictionaries, or the path of a ``.csv`` or ``.parquet`` file.
        columns
            Which column is what, where the names differ: ``{"next": "to", "reward": "profit"}``.
            ``{"action": None}`` says that there is nothing to choose.
        initial
            As in the constructor.

        Examples
        --------
        >>> MDP.from_table({
        ...     "state": ["day", "day", "night"], "action": ["work", "work", "sleep"],
        ...     "next": ["day", "night", "day"], "probability": [0.5, 0.5, 1], "reward": [2, 2, 0],
        ... })
        MDP(2 states, 2 pairs, 3 transitions)
        """
        if isinstance(table, str | PathLike):
            with naming(table):
                return model.mdp_of(model.table_of(table), columns, initial)
        return model.mdp_of(model.table_of(table), columns, initial)

    @classmethod
    def from_rules(
        cls,
        start: Any,
        actions: model.rules.Actions,
        step: model.rules.Step,
        *,
        limit: int = 2_000_000,
        reward: str = "reward",
        progress: model.rules.Progress | None = None,
    ) -> MDP:
        """Build from rules: every state that can be reached from the start is explored, named and numbered.

        States and actions may be any hashable objects: text, numbers, tuples, named tuples, frozen
        dataclasses. Quotas choose states by name, by object or by ``where=``.

        Parameters
        ----------
        start
            The first state; a list of several, equally likely; or ``{state: probability}``.
        actions
            The actions of a state, ``actions(state)``, or one list for all states.
        step
            What ``step(state, action)`` can lead to: either ``({next: probability, ...}, reward)``, or an
            iterable of ``(probability, next, reward)``, whose rewards are averaged and of which several may
            lead to one state. It must depend on nothing else. A reward may have names,
            ``{name: number, ...}``, the same everywhere; all are kept as `MDP.rewards`.
        limit
            States after which the exploration gives up.
        reward
            Name of the reward that a policy is to earn, where they have names.
        progress
            Called about twice a second with ``states`` found, ``explored``, ``transitions``, ``seconds``.

        Examples
        --------
        >>> def step(waiting, action):  # up to three jobs; one more comes in a quarter of the hours
        ...     left = waiting - 1 if action == "serve" and waiting else waiting
        ...     return [(0.25, min(left + 1, 3), waiting - left), (0.75, left, waiting - left)]
        >>> MDP.from_rules(0, ["serve", "wait"], step)
        MDP(4 states, 8 pairs, 15 transitions)
        """
        return model.rules.explore(start, actions, step, limit=limit, reward=reward, progress=progress)

    @classmethod
    def from_array_rules(
        cls,
        start: ArrayLike,
        actions: Sequence[str],
        step: model.array_rules.ArrayStep,
        *,
        shape: Sequence[int],
        available: model.array_rules.Available | None = None,
        progress: model.rules.Progress | None = None,
    ) -> MDP:
        """Build from rules on arrays, for millions of states: as `from_rules`, but many states at once.

        A state is a row of d whole numbers from 0 to below ``shape``. What can be reached is kept, in the
        order of the rows; up to 100,000 states get names such as ``3,0``. ``where=`` of a quota is given all
        rows at once, (S, d), and returns a mask, (S,).

        Parameters
        ----------
        start
            The first state, (d,), or several that are equally likely, (n, d).
        actions
            Names of the actions.
        step
            ``step(states, action)`` with states (n, d) returns ``(probability, next, reward)``: probabilities
            (n, m) of the m outcomes of each state, the next states (n, m, d), and rewards (n,) or (n, m).
            Probabilities may be fewer, (m,), and the reward one number, where all states have the same. What
            has probability 0 does not happen, wherever it leads. Each state is asked about twice.
        shape
            How many values each variable has, (d,); all together at most 2**29 combinations.
        available
            ``available(states)`` says which actions the states have, a mask (n, A); by default all.
        progress
            As in `from_rules`.

        Examples
        --------
        >>> def step(states, action):  # the queue of `from_rules`
        ...     left = np.maximum(states - (action == "serve"), 0)
        ...     following = np.stack([np.minimum(left + 1, 3), left], axis=1)
        ...     return [0.25, 0.75], following, (states - left)[:, 0]
        >>> MDP.from_array_rules([0], ["serve", "wait"], step, shape=[4])
        MDP(4 states, 8 pairs, 15 transitions)
        """
        return model.array_rules.explore_arrays(
            start, actions, step, shape=shape, available=available, progress=progress
        )

    @classmethod
    def from_rates(
        cls,
        rates: Any,
        reward_rates: ArrayLike,
        s_of: ArrayLike,
        *,
        lumps: Any | None = None,
        **names: Any,
    ) -> MDP:
        """Build a continuous-time model, in which events come at exponential times.

        Parameters
        ----------
        rates
            Events per unit of time that lead from each pair to each state, (SA, S), dense or sparse. The
            diagonal may be that of a generator; else it counts events that leave the state as it is.
        reward_rates
            What a unit of time in each pair pays, (SA,).
        s_of
            State of each pair, (SA,).
        lumps
            What an event pays on top: one number per pair, (SA,), or per transition, (SA, S).
        names
            ``states``, ``actions``, ``initial`` and ``time_unit`` as the constructor takes them.

        Examples
        --------
        >>> mdp = MDP.from_rates([[0, 2.0], [0.5, 0]], [10.0, 0.0], [0, 1], states=["up", "down"])
        >>> mdp.durations, mdp.r
        (array([0.5, 2. ]), array([5., 0.]))
        """
        P, r, durations = jumps(rates, reward_rates, s_of, lumps)
        return cls(P, r, s_of, durations=durations, **names)

    @property
    def per(self) -> str | None:
        """What gains are per, in words: a unit of time, or None where that is a step."""
        return self.time_unit or (None if self.durations is None else "unit of time")

    @property
    def rates(self) -> Floats:
        """Reward per unit of time of each pair, (SA,); ``r`` itself where all steps are equally long."""
        return self.r if self.durations is None else self.uniform.r

    @cached_property
    def step(self) -> float:
        """Unit of time that takes the steps of `uniform`; 1 where all steps are equally long."""
        return 1.0 if self.durations is None else uniform_step(self.P, self.s_of, self.durations)

    @cached_property
    def uniform(self) -> MDP:
        """The model of equal steps with the same gains and shares of time: what solvers see."""
        if self.durations is None:
            return self
        rows = uniform_rows(self.P, self.s_of, self.durations, self.step)
        names: Any = {"states": self.states, "actions": self.actions, "initial": self.initial}
        return MDP(rows, self.r / self.durations, self.s_of, **names)

    def per_step(self, policy: Floats) -> Floats:
        """Probabilities per step of `uniform` of a policy, which has them per decision, (SA,)."""
        return policy if self.durations is None else weighed(policy, self.durations, self.pair_ptr, self.s_of)

    def per_decision(self, policy: Floats) -> Floats:
        """Return a policy from its probabilities per step of `uniform`, (SA,)."""
        return (
            policy
            if self.durations is None
            else weighed(policy, 1 / self.durations, self.pair_ptr, self.s_of)
        )

    def with_reward(self, name: str) -> MDP:
        """Return the model that earns another of its `rewards`, with all of them kept."""
        return self._with(r=self.reward_rows[self.reward_number(name)])

    def with_state_objects(self, objects: Objects | None) -> MDP:
        """Return the same model, with objects that stand for its states beside their names."""
        if objects is not None and len(objects) != self.n_states:
            raise ProblemError(f"there are {len(objects)} objects for {self.n_states} states")
        return self._with(state_objects=None if objects is None else read_only(kept(objects)))

    def rate_of(self, reward: str) -> Floats:
        """What a unit of time in each pair pays of a reward that has a name, (SA,)."""
        row = self.reward_rows[self.reward_number(reward)]
        return row if self.durations is None else row / self.durations

    def reward_number(self, name: str) -> int:
        """Place of a reward among the named ones."""
        if name not in self.reward_names:
            known = there_are(self.reward_names, name) or "; the model has but its own, r"
            raise ProblemError(f"there is no reward called {name!r}{known}")
        return self.reward_names.index(name)

    def within(self, states: Ints, pairs: Ints) -> MDP:
        """Return a part of the model: sorted states, and pairs of theirs that do not leave them."""
        rows = self.P[pairs]
        if not rows.data.all():
            rows.eliminate_zeros()
        inner = rows.data, np.searchsorted(states, rows.indices), rows.indptr
        P = csr_array(inner, shape=(pairs.size, states.size))
        return MDP(P, self.r[pairs], np.searchsorted(states, self.s_of[pairs]))

    @property
    def start(self) -> Floats:
        """Distribution of the first state, (S,): `initial`, or any state with the same probability."""
        return np.full(self.n_states, 1 / self.n_states) if self.initial is None else self.initial

    def first_state(self, initial: ArrayLike | str) -> Floats:
        """Where a run starts as a read-only distribution, (S,): of a distribution, or of a state's name."""
        if isinstance(initial, str):
            initial = np.eye(1, self.n_states, self.state_index(initial))[0]
        return self.distribution("initial", initial)

    def with_initial(self, initial: ArrayLike | str | None) -> MDP:
        """Return the same model that starts elsewhere."""
        return self._with(initial=None if initial is None else self.first_state(initial))

    def distribution(self, what: str, p: ArrayLike) -> Floats:
        """``p`` as a read-only probability distribution over the states."""
        p = real_vector(what, p, self.n_states)
        bad = ~(np.isfinite(p) & (p >= 0))
        if (s := first(bad)) is not None:
            raise ProblemError(f"{what} gives state {self.state_name(s)} probability {p[s]}")
        total = float(p.sum())
        if abs(total - 1) > sum_tol(p):
            raise ProblemError(f"{what} sums to {total:.12g}, expected 1 (within {ROW_SUM_TOL:g})")
        if abs(total - 1) > EXACT_SUM_TOL:
            p = p / total
        frozen(p)
        return p

    def with_fair_action(self, psi: ArrayLike | None = None, reward: float | None = None) -> MDP:
        """Add the paper's reset action ``a*`` to every state, as its last action.

        ``a*`` moves to a state drawn from ``psi`` (uniform by default). Its reward defaults to one reward
        span below the smallest reward. An optimal policy may use it even where the quotas can be met
        without it, so "a* is used" does not mean "infeasible".
        """
        if self.durations is not None:
            raise ProblemError("a* takes one step, and the steps of this model take time\n  use mdp.uniform")
        S = self.n_states
        psi = np.full(S, 1 / S) if psi is None else self.distribution("psi", psi)
        if reward is None:
            lowest = float(self.r.min())
            reward = lowest - (float(self.r.max()) - lowest or 1.0)
        targets = np.flatnonzero(psi)
        entries = S * targets.size
        if entries > _MAX_FAIR_ACTION_ENTRIES:
            raise ProblemError(
                f"a fair action with {targets.size} targets in each of {S} states takes {entries:.1e} "
                "transitions\n  give psi a small support"
            )
        resets = csr_array(
            (np.tile(psi[targets], S), np.tile(targets, S), np.arange(0, entries + 1, targets.size)),
            shape=(S, S),
        )
        order = self.appended_order
        labels = [self.action_name(i) for i in range(self.n_pairs)] + ["a*"] * S
        return MDP(
            vstack([self.P, resets], format="csr")[order],
            np.concatenate([self.r, np.full(S, float(reward))])[order],
            np.concatenate([self.s_of, np.arange(S)])[order],
            states=self.states,
            actions=[labels[i] for i in order],
            initial=self.initial,
            rewards={name: np.concatenate([row, np.zeros(S)])[order] for name, row in self.rewards.items()},
            time_unit=self.time_unit,
        ).with_state_objects(self.state_objects)

    def simulator(self) -> model.ModelSimulator:
        """Return this model as a simulator, for what learns from samples."""
        return model.ModelSimulator(self)

    @property
    def appended_order(self) -> Ints:
        """Order of pairs once every state gets one more, which was appended as row ``SA + s``."""
        return np.argsort(np.concatenate([self.s_of, np.arange(self.n_states)]), kind="stable")

    def __repr__(self) -> str:
        counts = {"state": self.n_states, "pair": self.n_pairs, "transition": self.P.nnz}
        return f"MDP({', '.join(counted(count, noun) for noun, count in counts.items())})"

    @property
    def rewards(self) -> dict[str, Floats]:
        """The rewards that have a name, (SA,) each."""
        return dict(zip(self.reward_names, self.reward_rows, strict=True))

    @cached_property
    def variables(self) -> Mapping[str, Any]:
        """Variables that the states consist of, (S,) each: fields of objects, or names as ``x=1 & y=0``."""
        return variables_of(self.state_objects, self.states)

    @cached_property
    def _object_numbers(self) -> dict[Hashable, int]:
        return {} if self.state_objects is None else numbers_of(self.state_objects)

    def __getstate__(self) -> dict[str, Any]:
        """Objects may be of classes that other processes do not know; names do for all that is sent there."""
        return {**super().__getstate__(), "state_objects": None}

    def _with(self, **changed: Any) -> MDP:
        """The same model with other fields; what was derived from the old ones is left behind."""
        other = object.__new__(MDP)
        other.__dict__.update({field: vars(self)[field] for field in self.__dataclass_fields__} | changed)
        return other
