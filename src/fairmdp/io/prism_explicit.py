"""Problems as PRISM's explicit files: ``.tra`` and, where they lie beside it, its labels, rewards and names.

==========================  ================================  ================================================
file                        first line                        other lines
==========================  ================================  ================================================
``.tra``, an MDP            states, choices, transitions      state, choice, target, probability, action
``.tra``, a DTMC            states, transitions               state, target, probability
``.lab``                    ``0="init" 1="home"``             ``state: label label``
``.srew``                   states, rewards                   state, reward
``.trew``                   as of the ``.tra``, rewards       as in the ``.tra``, reward
``.sta``                    ``(x,y)``                         ``state:(0,1)``, which is the state's name
==========================  ================================  ================================================

Lines that begin with ``#`` are comments, but for ``# Reward structure "name"``. With several reward
structures PRISM numbers their files: ``model1.srew``, ``model2.srew``. Rewards of transitions are averaged
over where the choice leads.
"""

from __future__ import annotations

import os
import re
from collections import namedtuple
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import partial
from typing import TypeVar

import numpy as np
from scipy.sparse import coo_array, csr_array

from fairmdp.errors import FormatError
from fairmdp.files import naming, read_bytes, reading
from fairmdp.io.explicit_model import (
    Explicit,
    choices,
    labels_of,
    of_choices,
    pick_reward,
    rewards_of,
    with_kept_quotas,
    write_model,
)
from fairmdp.io.tokens import MAX_BYTES, Tokens
from fairmdp.model.checks import Floats, Ints, first
from fairmdp.model.mdp import MDP
from fairmdp.model.objects import number_or_text
from fairmdp.model.problem import Problem

T = TypeVar("T")

_COMMENT = b"#"
_STATE_REWARDS, _TRANSITION_REWARDS = (".srew", ".rews"), (".trew", ".rewt")  # today's endings and older ones
_REWARD_NAME = re.compile(rb'# Reward structure "([^"\n]*)"')
_LABEL = re.compile(r'(\d{1,9})="([^"]*)"')
_STATE_NAME = re.compile(r"(\d{1,18}):\((.*)\)")
_MAX_HEAD = 4096
_RATES = 1e-6  # how far the probabilities of a chain may be from 1 before they look like rates


def read(path: str, reward: str | None = None) -> Problem:
    """Read a problem and the files beside it; the message of an error begins with the path of its file."""
    stem = os.path.splitext(path)[0]
    model = _parsed(path, _Transitions)
    structures = _reward_files(path)
    chosen = pick_reward(list(structures), reward)
    rewards = {name: model.paid(files) for name, files in structures.items()}
    r = np.zeros(model.s_of.size) if chosen is None else list(rewards.values())[chosen]
    labels: dict[str, Ints] = {}
    states = variables = None
    if os.path.exists(file := f"{stem}.lab"):
        labels = _parsed(file, partial(_labels, n_states=model.n_states))
    if os.path.exists(file := f"{stem}.sta"):
        states = _parsed(file, partial(_state_names, n_states=model.n_states))
        variables = _parsed(file, _variables)
    several = rewards if len(rewards) > 1 else {}
    explicit = Explicit(model.P, r, model.s_of, labels, states, model.actions, rewards=several)
    problem = explicit.problem()
    if states is not None and variables is not None:
        problem = problem.with_mdp(problem.mdp.with_state_objects(list(map(variables, states))))
    return with_kept_quotas(problem, path)


def write(problem: Problem, path: str) -> None:
    """Write a problem as an MDP, with labels, rewards, names and quotas in files beside it."""
    stem = os.path.splitext(path)[0]
    files: dict[str, Iterable[str]] = {
        f"{stem}.lab": _label_lines(labels_of(problem), problem.mdp.n_states),
    }
    rewards = rewards_of(problem.mdp)
    for k, (name, r) in enumerate(rewards.items(), start=1):
        files[f"{stem}{k if len(rewards) > 1 else ''}.trew"] = _reward_lines(problem.mdp, name, r)
    if problem.mdp.states is not None:
        files[f"{stem}.sta"] = _state_lines(problem.mdp.states)
    files[path] = _transition_lines(problem)
    old = [f"{stem}{ending}" for ending in (".sta", *_STATE_REWARDS, *_TRANSITION_REWARDS)]
    write_model(
        problem, path, files, [*old, *(file for several in _reward_files(path).values() for file in several)]
    )


def _parsed(path: str, parse: Callable[[bytes], T]) -> T:
    """What is found in a file, whose path stands before the message of an error."""
    with naming(path):
        return parse(read_bytes(path, MAX_BYTES))


class _Transitions:
    """The ``.tra`` file, which says how the rewards' files are to be read."""

    def __init__(self, data: bytes) -> None:
        tokens = Tokens(data, _COMMENT)
        if not tokens.first.size:
            raise FormatError(
                "there is nothing in it, expected a line with the numbers of states and transitions"
            )
        fields = int(tokens.count[0])
        tokens.check(
            ~np.isin(tokens.count[:1], (2, 3)),
            tokens.first,
            f"the first line has {fields} words, expected 2 numbers (a DTMC) or 3 (an MDP); "
            "other kinds of models are not read",
        )
        self._chain = fields == 2
        sizes = tokens.integers(tokens.first[0] + np.arange(fields), "a size").tolist()
        self.n_states = sizes[0]
        state, choice, target, first = self._columns(tokens, sizes[-1])
        p = tokens.floats(first, "a probability")
        self._check_states(state, target)
        key = state << 32 | choice
        self._keys, row = np.unique(key, return_inverse=True)
        if not self._chain and self._keys.size != sizes[1]:
            raise FormatError(f"the first line says {sizes[1]:,} choices, there are {self._keys.size:,}")
        self.s_of = self._keys >> 32
        shape = (self._keys.size, self.n_states)
        self.P = csr_array(coo_array((p, (row, target)), shape=shape))
        self._check_rates()
        self.actions = None if self._chain else self._action_names(tokens, first, row)

    def paid(self, files: Iterable[str]) -> Floats:
        """One reward structure, from its files, (C,)."""
        r = np.zeros(self.s_of.size)
        for file in files:
            r += _parsed(file, self.state_rewards if file.endswith(_STATE_REWARDS) else self.rewards)
        return r

    def state_rewards(self, data: bytes) -> Floats:
        """Rewards of a ``.srew`` file, one per choice."""
        tokens = Tokens(data, _COMMENT)
        first = _body(tokens, 2, 2, self.n_states)
        state = tokens.below(self.n_states, first, "a state")
        by_state = np.zeros(self.n_states)
        by_state[state] = tokens.floats(first + 1, "a reward")
        return of_choices(by_state, self.s_of)

    def rewards(self, data: bytes) -> Floats:
        """Rewards of a ``.trew`` file, averaged over where each choice leads."""
        tokens = Tokens(data, _COMMENT)
        state, choice, target, last = self._columns(tokens, None)
        wide = self.n_states
        row = np.searchsorted(self._keys, state << 32 | choice)
        row = np.minimum(row, self._keys.size - 1)
        P = self.P
        known = np.repeat(np.arange(P.shape[0]), np.diff(P.indptr)) * wide + P.indices
        place = np.minimum(np.searchsorted(known, row * wide + target), known.size - 1)
        stray = (self._keys[row] != state << 32 | choice) | (known[place] != row * wide + target)
        tokens.check(stray, last, "this transition, which has a reward, is not in the .tra file")
        reward = np.zeros(P.nnz)
        reward[place] = tokens.floats(last, "a reward")
        ptr = P.indptr[:-1]
        low, high = np.minimum.reduceat(reward, ptr), np.maximum.reduceat(reward, ptr)
        return np.where(low == high, low, np.add.reduceat(P.data * reward, ptr))

    def _columns(self, tokens: Tokens, transitions: int | None) -> tuple[Ints, Ints, Ints, Ints]:
        """States, choices and targets of all lines, and the word that follows on each."""
        shift = 0 if self._chain else 1
        first = _body(tokens, 2 + shift, 3 + shift, self.n_states, labelled=transitions is not None)
        if self._chain:
            choice = np.zeros(first.size, np.int64)
        else:
            choice = tokens.below(2**31, first + 1, "a choice")
        state = tokens.below(self.n_states, first, "a state")
        target = tokens.below(self.n_states, first + 1 + shift, "a state")
        return state, choice, target, first + 2 + shift

    def _check_states(self, state: Ints, target: Ints) -> None:
        """Every state must occur, so that the first line alone makes nothing large."""
        if self.n_states > 2 * state.size:
            raise FormatError(
                f"the first line says {self.n_states:,} states, too many for {state.size:,} transitions"
            )
        seen = np.zeros(self.n_states, bool)
        seen[state] = seen[target] = True
        if not seen.all():
            raise FormatError(f"state {int(np.argmin(seen))} has no transition, and none leads to it")

    def _check_rates(self) -> None:
        total = self.P @ np.ones(self.n_states)
        off = np.abs(total - 1) > _RATES
        if self._chain and (k := first(off)) is not None:
            raise FormatError(
                f"the numbers of state {self.s_of[k]} sum to {total[k]:.12g}, expected 1\n"
                "  if these are rates (a CTMC): continuous time is not read, make it discrete first"
            )

    def _action_names(self, tokens: Tokens, first: Ints, row: Ints) -> list[str] | None:
        """What follows the probability on the lines of each choice; empty where nothing does."""
        begin, end = tokens.stop[first].astype(np.int64), tokens.line_end(first)
        if not (tokens.count[1:] > 4).any():
            return None
        _, of_choice = np.unique(row, return_index=True)
        return [tokens.text(a, b).strip() for a, b in zip(begin[of_choice], end[of_choice], strict=True)]


def _body(tokens: Tokens, head: int, width: int, n_states: int, *, labelled: bool = False) -> Ints:
    """First words of the lines after the first, which says how many there are and agrees with the model."""
    if not tokens.first.size or tokens.count[0] != head:
        raise FormatError(f"the first line that is no comment must hold {head} numbers")
    said = tokens.integers(tokens.first[0] + np.arange(head), "a size")
    if said[0] != n_states:
        raise FormatError(f"the first line says {said[0]:,} states, the model has {n_states:,}")
    first, count = tokens.first[1:], tokens.count[1:]
    bad = (count < width) if labelled else (count != width)
    tokens.check(bad, first, lambda k: f"it has {count[k]} words, expected {width}")
    if said[-1] != first.size:
        raise FormatError(f"the first line says {said[-1]:,} lines follow, there are {first.size:,}")
    return first


def _reward_files(path: str) -> dict[str, list[str]]:
    """Files of each reward structure, by its name or else its number."""
    stem = os.path.splitext(path)[0]
    structures: dict[str, list[str]] = {}
    number = 0
    while True:
        base = stem if number == 0 else f"{stem}{number}"
        files = [
            f for ending in (*_STATE_REWARDS, *_TRANSITION_REWARDS) if os.path.exists(f := base + ending)
        ]
        # model1.srew belongs to model1.tra, if there is one, and counts only where model.srew is missing.
        if number > 0 and (not files or os.path.exists(f"{base}.tra")):
            return structures
        if files:
            structures[_reward_name(files[0]) or str(number or 1)] = files
        if number == 0 and files:
            return structures
        number += 1


def _reward_name(path: str) -> str:
    with reading(path) as file:
        match = _REWARD_NAME.match(file.read(_MAX_HEAD))
    return match[1].decode(errors="replace") if match else ""


def _labels(data: bytes, n_states: int) -> dict[str, Ints]:
    """States of each label of a ``.lab`` file."""
    head, _, body = data.partition(b"\n")
    try:
        text = head.decode().strip()
    except UnicodeDecodeError:
        raise FormatError("line 1 is not UTF-8 text") from None
    declared = _LABEL.findall(text)
    if not declared or _LABEL.sub("", text).strip():
        raise FormatError('line 1: expected labels, such as 0="init" 1="home"')
    numbers = np.array([int(number) for number, _ in declared])
    if np.unique(numbers).size < numbers.size or len({name for _, name in declared}) < numbers.size:
        raise FormatError("line 1: a label is declared twice")
    tokens = Tokens(body.replace(b":", b" "), _COMMENT, line=2)
    state = np.repeat(tokens.below(n_states, tokens.first, "a state"), tokens.count - 1)
    words = np.delete(np.arange(tokens.start.size), tokens.first)
    label = tokens.integers(words, "a label")
    tokens.check(~np.isin(label, numbers), words, "line 1 declares no such label")
    order = np.argsort(label, kind="stable")
    label, state = label[order], state[order]
    begin, end = np.searchsorted(label, numbers), np.searchsorted(label, numbers, side="right")
    return {name: np.unique(state[a:b]) for (_, name), a, b in zip(declared, begin, end, strict=True)}


def _state_names(data: bytes, n_states: int) -> list[str] | None:
    """Names of the states of a ``.sta`` file; None where they are only numbers."""
    try:
        lines = data.decode().splitlines()[1:]
    except UnicodeDecodeError:
        raise FormatError("it is not UTF-8 text") from None
    names: dict[int, str] = {}
    for k, line in enumerate(lines, start=2):
        if line.strip():
            match = _STATE_NAME.fullmatch(line.strip())
            if match is None:
                raise FormatError(f"line {k}: expected a state, such as 0:(1,0)")
            names[int(match[1])] = match[2]
    if sorted(names) != list(range(n_states)):
        raise FormatError(f"it names {len(names):,} states, expected each of 0 to {n_states - 1} once")
    return None if all(name == str(s) for s, name in names.items()) else [names[s] for s in range(n_states)]


def _variables(data: bytes) -> Callable[[str], Hashable] | None:
    """How a state's name is read as values of the variables that the first line of a ``.sta`` file names."""
    names = (
        data.partition(b"\n")[0]
        .decode(errors="replace")
        .strip()
        .removeprefix("(")
        .removesuffix(")")
        .split(",")
    )
    try:
        kind = namedtuple("State", [name.strip() for name in names])  # type: ignore[misc]
    except ValueError:  # no names for Python
        return None
    if names == ["x0"]:  # written by us, around a whole name
        return None

    def of(state: str) -> Hashable:
        values = [number_or_text(value.strip()) for value in state.split(",")]
        return kind(*values) if len(values) == len(names) else state

    return of


def _transition_lines(problem: Problem) -> Iterator[str]:
    mdp = problem.mdp
    yield f"{mdp.n_states} {mdp.n_pairs} {mdp.P.nnz}"
    for i, s, choice, row in choices(mdp):
        label = f" {mdp.actions[i]}" if mdp.actions else ""
        yield "\n".join(f"{s} {choice} {target} {p!r}{label}" for target, p in row)


def _reward_lines(mdp: MDP, name: str, r: Floats) -> Iterator[str]:
    """The reward of a choice stands at each of its transitions."""
    count = int(np.diff(mdp.P.indptr)[r != 0].sum())
    yield f'# Reward structure "{name}"'
    yield "# Transition rewards"
    yield f"{mdp.n_states} {mdp.n_pairs} {count}"
    for i, s, choice, row in choices(mdp):
        if reward := float(r[i]):
            yield "\n".join(f"{s} {choice} {target} {reward!r}" for target, _ in row)


def _label_lines(labels: dict[str, Ints], n_states: int) -> Iterator[str]:
    yield " ".join(f'{k}="{name}"' for k, name in enumerate(labels))
    states = np.concatenate(list(labels.values()))
    label = np.repeat(np.arange(len(labels)), [of.size for of in labels.values()])
    order = np.argsort(states, kind="stable")
    ends = np.searchsorted(states[order], np.arange(n_states + 1)).tolist()
    label = label[order].tolist()
    for s in range(n_states):
        if ends[s] < ends[s + 1]:
            yield f"{s}: {' '.join(map(str, label[ends[s] : ends[s + 1]]))}"


def _state_lines(names: tuple[str, ...]) -> Iterator[str]:
    commas = {name.count(",") for name in names}
    variables = commas.pop() + 1 if len(commas) == 1 else 1
    yield f"({','.join(f'x{k}' for k in range(variables))})"
    for s, name in enumerate(names):
        yield f"{s}:({name})"
