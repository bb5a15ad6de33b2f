"""What the explicit files of PRISM and Storm have in common: from their tables to a problem, and back.

A label becomes a quota that asks for nothing (``at_least = 0``), so that its share is shown and a bound may
be put on it by name. ``init`` says where the model starts, uniformly where there are several such states. A
state without a choice stays where it is, as in both tools, and is counted by the label ``deadlock``. It must
not pay: PRISM would pay what it is worth in every step there, Storm nothing.

These files know no bounds. What is owed lies beside them in ``<model>.quotas``, one line per bound, in the
tools' own words, ``LRA>=0.25 ["home"]``, where the mean over runs is bounded, as they mean it. A line
``every run: LRA>=0.25 ["home"]`` is one for every run by itself.
"""

from __future__ import annotations

import os
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_array

from fairmdp.errors import FormatError, ProblemError
from fairmdp.files import naming, read_bytes, write_together
from fairmdp.model.checks import Floats, Ints, first, there_are
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.model.quota import Quota
from fairmdp.model.quota_text import EVERY_RUN, parse_quotas, reward_of
from fairmdp.model.transitions import ROW_SUM_TOL

REWARD = "reward"
"""What the reward structure is called in files that we write."""

INIT, DEADLOCK = "init", "deadlock"

DIGITS_TOL = 1e-7
"""How far a row may be from 1 because its file was written with few digits (Storm's has ten)."""

_MAX_QUOTA_BYTES = 2**25


@dataclass(frozen=True, eq=False)
class Explicit:
    """A model as its files state it; choices are sorted by state."""

    P: csr_array  # (C, S)
    r: Floats  # (C,)
    s_of: Ints  # (C,)
    labels: Mapping[str, Ints] = field(default_factory=dict)  # states of each label
    states: Sequence[str] | None = None
    actions: Sequence[str] | None = None  # (C,), empty where a choice has no name
    durations: Floats | None = None  # (C,)
    rewards: Mapping[str, Floats] = field(default_factory=dict)  # where there are several, (C,) each

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
        unpaid = np.zeros(stuck.size)
        durations = None
        if self.durations is not None:
            durations = np.concatenate([self.durations, np.ones(stuck.size)])[order]
        mdp = MDP(
            _with_loops(_rescaled(self.P), stuck, order),
            np.concatenate([self.r, unpaid])[order],
            s_of,
            states=self.states,
            actions=actions,
            initial=_uniform_over(labels.pop(INIT, None), n_states),
            rewards={name: np.concatenate([row, unpaid])[order] for name, row in self.rewards.items()},
            durations=durations,
        )
        return Problem(mdp, [Quota(name, states=states, at_least=0.0) for name, states in labels.items()])


def of_choices(by_state: Floats, s_of: Ints) -> Floats:
    """Rewards of states as rewards of their choices, (C,); a state without one has none."""
    stuck = np.bincount(s_of, minlength=by_state.size) == 0
    if (s := first(stuck & (by_state != 0))) is not None:
        raise FormatError(
            f"state {s} has no choice and the reward {by_state[s]:g}: PRISM would pay it, Storm would not\n"
            "  give it a choice that leads back to it, or no reward"
        )
    return by_state[s_of]


def pick_reward(names: Sequence[str], wanted: str | None) -> int | None:
    """Number of the reward structure to use; None where there is none."""
    if wanted is not None:
        if wanted not in names:
            there = there_are(names, wanted) or "; there is none at all"
            raise FormatError(f"there is no reward structure called {wanted!r}{there}")
        return names.index(wanted)
    if len(names) > 1:
        raise FormatError(
            f"there are {len(names)} reward structures: {', '.join(names)}\n"
            "  choose the one to earn with reward=, or --reward NAME on the command line"
        )
    return 0 if names else None


def quotas_path(path: str) -> str:
    """Where the bounds of a model are kept."""
    return f"{os.path.splitext(path)[0]}.quotas"


def with_kept_quotas(problem: Problem, path: str) -> Problem:
    """Put the bounds that lie beside a model on its labels, in the order in which they lie there."""
    file = quotas_path(path)
    if not os.path.exists(file):
        return problem
    text = read_bytes(file, _MAX_QUOTA_BYTES).decode(errors="replace")
    lines = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]

    def wrong(count: int) -> ProblemError | None:
        """What is wrong with so many of the lines."""
        try:
            problem.with_quotas(parse_quotas(problem, [line for _, line in lines[:count]]))
        except ProblemError as error:
            return error
        return None

    with naming(file):
        try:
            kept = parse_quotas(problem, [line for _, line in lines])
            bounded = {quota.name for quota in kept}
            return Problem(problem.mdp, [*(q for q in problem.quotas if q.name not in bounded), *kept])
        except ProblemError:
            good = bisect(range(1, len(lines)), 0, key=lambda count: wrong(count) is not None)
            raise FormatError(f"line {lines[good][0]}: {wrong(good + 1)}") from None


def write_model(
    problem: Problem, path: str, files: Mapping[str, Iterable[str]], obsolete: Iterable[str] = ()
) -> None:
    """Write the files of a model and the bounds of its quotas; obsolete ones that are not among them go."""
    if bounds := list(quota_lines(problem)):
        files = {quotas_path(path): bounds, **files}
    write_together(files, {quotas_path(path), *obsolete}.difference(files))


def choices(mdp: MDP) -> Iterator[tuple[int, int, int, Iterator[tuple[int, float]]]]:
    """Number, state and place within the state of each choice, and where it leads with what probability."""
    places = np.arange(mdp.n_pairs) - mdp.pair_ptr[mdp.s_of]
    starts, indices, data = mdp.P.indptr.tolist(), mdp.P.indices.tolist(), mdp.P.data.tolist()
    for i, (s, place) in enumerate(zip(mdp.s_of.tolist(), places.tolist(), strict=True)):
        row = slice(starts[i], starts[i + 1])
        yield i, s, place, zip(indices[row], data[row], strict=True)


def quota_lines(problem: Problem) -> Iterator[str]:
    """Bounds in the tools' own words."""
    for k, quota in enumerate(problem.quotas):
        reward = reward_of(problem, k)
        if reward is None:
            left, right = "LRA", f'["{quota.name}"]'
        else:
            left, right = f'R{{"{reward}"}}' if reward else "R", "[LRA]"
        left = left if quota.expected else f"{EVERY_RUN} {left}"
        if quota.at_least or (reward is not None and quota.at_least is not None):
            yield f"{left}>={quota.at_least!r} {right}"
        if quota.at_most is not None:
            yield f"{left}<={quota.at_most!r} {right}"


def labels_of(problem: Problem) -> dict[str, Ints]:
    """States of each label that a problem amounts to; refuses what labels cannot say."""
    mdp = problem.mdp
    if mdp.durations is not None:
        raise FormatError(
            "these files have no room for how long steps take\n  save the problem as .toml or .npz"
        )
    labels = {INIT: np.array([0]) if mdp.initial is None else np.flatnonzero(mdp.initial)}
    if mdp.initial is not None and np.ptp(mdp.initial[labels[INIT]]) > 0:
        raise FormatError("the initial states have different weights, the files only say which they are")
    for k, quota in enumerate(problem.quotas):
        if reward_of(problem, k) is not None:
            continue
        if quota.of is not None:
            raise FormatError(f"quota {quota.name} has a condition, and labels have none")
        if quota.states is None:
            raise FormatError(
                f"quota {quota.name} is not over a set of states, as labels are, nor over a reward"
            )
        if quota.name == INIT or '"' in quota.name:
            raise FormatError(f"quota {quota.name} cannot be a label: call it otherwise")
        labels[quota.name] = np.asarray(quota.states)
    return labels


def rewards_of(mdp: MDP) -> dict[str, Floats]:
    """Rewards to write: the one that a policy is to earn first, unless it is one of those that have names."""
    named = {"_".join(name.split()): row for name, row in mdp.rewards.items()}
    earned = any(np.array_equal(mdp.r, row) for row in named.values())
    return named if earned else {REWARD: mdp.r, **named}


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
