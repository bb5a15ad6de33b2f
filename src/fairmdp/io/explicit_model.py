"""What the explicit files of PRISM and Storm have in common: from their tables to a problem, and back.

A label becomes a quota that asks for nothing (``at_least = 0``), so that its share is shown and a bound may
be put on it by name. ``init`` says where the model starts, uniformly where there are several such states. A
state without a choice stays where it is, as in both tools, and is counted by the label ``deadlock``.

These files know no bounds. What is owed lies beside them in ``<model>.quotas``, one line per bound, in the
tools' own words: ``LRA>=0.25 ["home"]``.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_array

from fairmdp.errors import FormatError, ProblemError
from fairmdp.io.atomic import read_bytes
from fairmdp.mdp import MDP, ROW_SUM_TOL
from fairmdp.problem import Problem
from fairmdp.quota import Quota
from fairmdp.quota_text import parse_quota
from fairmdp.validation import Floats, Ints

REWARD = "reward"
"""What the reward structure is called in files that we write."""

INIT, DEADLOCK = "init", "deadlock"

DIGITS_TOL = 1e-7
"""How far a row may be from 1 because its file was written with few digits (Storm's has ten)."""

_MAX_QUOTA_BYTES = 2**25


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Put the path before the message of an error."""
    try:
        yield
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None


@dataclass(frozen=True, eq=False)
class Explicit:
    """A model as its files state it; choices are sorted by state."""

    P: csr_array  # (C, S)
    r: Floats  # (C,)
    s_of: Ints  # (C,)
    labels: Mapping[str, Ints] = field(default_factory=dict)  # states of each label
    states: Sequence[str] | None = None
    actions: Sequence[str] | None = None  # (C,), empty where a choice has no name

    def problem(self) -> Problem:
        """Return the problem that the model and its labels make."""
        n_states = self.P.shape[1]
        stuck = np.flatnonzero(np.bincount(self.s_of, minlength=n_states) == 0)
        order = np.argsort(np.concatenate([self.s_of, stuck]), kind="stable")
        s_of = np.concatenate([self.s_of, stuck])[order]
        labels = {name: states for name, states in self.labels.items() if states.size}
        if stuck.size:
            labels[DEADLOCK] = np.union1d(labels.get(DEADLOCK, stuck), stuck)
        actions = None
        if self.actions is not None:
            given = [*self.actions, *[""] * stuck.size]
            actions = _distinct(s_of, [given[i] for i in order])
        mdp = MDP(
            _with_loops(_rescaled(self.P), stuck, order),
            np.concatenate([self.r, np.zeros(stuck.size)])[order],
            s_of,
            states=self.states,
            actions=actions,
            initial=_uniform_over(labels.pop(INIT, None), n_states),
        )
        return Problem(mdp, [Quota(name, states=states, at_least=0.0) for name, states in labels.items()])


def pick_reward(names: Sequence[str], wanted: str | None) -> int | None:
    """Number of the reward structure to use; None where there is none."""
    if wanted is not None:
        if wanted not in names:
            there = f"; there are {', '.join(names)}" if names else "; there is none at all"
            raise FormatError(f"there is no reward structure called {wanted!r}{there}")
        return names.index(wanted)
    if len(names) > 1:
        raise FormatError(
            f"there are {len(names)} reward structures: {', '.join(names)}\n"
            "  choose one with reward=, or --param reward=NAME on the command line"
        )
    return 0 if names else None


def quotas_path(path: str) -> str:
    """Where the bounds of a model are kept."""
    return f"{os.path.splitext(path)[0]}.quotas"


def with_kept_quotas(problem: Problem, path: str) -> Problem:
    """Put the bounds that lie beside a model on its labels."""
    file = quotas_path(path)
    if not os.path.exists(file):
        return problem
    text = read_bytes(file, _MAX_QUOTA_BYTES).decode(errors="replace")
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                problem = problem.with_quotas([parse_quota(problem, line)])
            except ProblemError as error:
                raise FormatError(f"{file}: line {number}: {error}") from None
    return problem


def quota_lines(problem: Problem) -> Iterator[str]:
    """Bounds in the tools' own words."""
    for quota in problem.quotas:
        if quota.at_least:
            yield f'LRA>={quota.at_least!r} ["{quota.name}"]'
        if quota.at_most is not None:
            yield f'LRA<={quota.at_most!r} ["{quota.name}"]'


def labels_of(problem: Problem) -> dict[str, Ints]:
    """States of each label that a problem amounts to; refuses what labels cannot say."""
    mdp = problem.mdp
    labels = {INIT: np.array([0]) if mdp.initial is None else np.flatnonzero(mdp.initial)}
    if mdp.initial is not None and np.ptp(mdp.initial[labels[INIT]]) > 0:
        raise FormatError("the initial states have different weights, the files only say which they are")
    for quota in problem.quotas:
        if quota.states is None:
            raise FormatError(f"quota {quota.name} is not over a set of states, and labels are")
        if quota.name == INIT or '"' in quota.name:
            raise FormatError(f"quota {quota.name} cannot be a label: call it otherwise")
        labels[quota.name] = np.asarray(quota.states)
    return labels


def _rescaled(P: csr_array) -> csr_array:
    """P with rows that sum to 1 where only digits are missing; the model refuses what is further off."""
    total = P @ np.ones(P.shape[1])
    short = (np.abs(total - 1) > ROW_SUM_TOL) & (np.abs(total - 1) <= DIGITS_TOL)
    if not short.any():
        return P
    scale = np.repeat(np.where(short, total, 1.0), np.diff(P.indptr))
    return csr_array((P.data / scale, P.indices, P.indptr), shape=P.shape)


def _with_loops(P: csr_array, stuck: Ints, order: Ints) -> csr_array:
    """P with a row for each state that is stuck, which leads to itself."""
    if not stuck.size:
        return P
    data, indices = np.concatenate([P.data, np.ones(stuck.size)]), np.concatenate([P.indices, stuck])
    indptr = np.concatenate([P.indptr, P.indptr[-1] + 1 + np.arange(stuck.size)])
    return csr_array((data, indices, indptr), shape=(indptr.size - 1, P.shape[1]))[order]


def _uniform_over(states: Ints | None, n_states: int) -> Floats | None:
    if states is None:
        return None
    initial = np.zeros(n_states)
    initial[states] = 1 / states.size
    return initial


def _distinct(s_of: Ints, labels: list[str]) -> list[str] | None:
    """Names that differ within each state: a nameless action gets its place, a repeated name has it added."""
    if not any(labels):
        return None
    places = (np.arange(s_of.size) - np.searchsorted(s_of, s_of)).tolist()
    uses = Counter(zip(s_of.tolist(), labels, strict=True))
    return [
        f"a{k}" if not label else f"{label}#{k}" if uses[s, label] > 1 else label
        for s, label, k in zip(s_of.tolist(), labels, places, strict=True)
    ]
