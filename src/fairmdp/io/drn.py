"""Problems as Storm's explicit files, DRN (direct encoding), of MDPs, DTMCs, CTMCs and Markov automata.

::

    @type: MDP
    @parameters

    @reward_models
    reward
    @nr_states
    2
    @nr_choices
    3
    @model
    state 0 [0] init "ward a"
    //[name of the state]
        action share [1]
            0 : 0.2
            1 : 0.8

What a state pays, in brackets, is added to what each of its actions pays. A comment after a state, in which
Storm keeps its variables, is its name.

In continuous time a state has an exit rate after its number, ``state 0 !2.5``. A CTMC states rates instead
of probabilities; several actions in a state make it a CTMDP, which Storm has no name for. What a state pays
is then per unit of time, what an action pays is paid when it ends. A Markov automaton decides in states that
take no time (``!0``); a model here has no such states, so that one that has them is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.sparse import coo_array, csr_array

from fairmdp.errors import FormatError
from fairmdp.files import read_bytes
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
from fairmdp.model.checks import Bools, Floats, Ints, first
from fairmdp.model.problem import Problem
from fairmdp.model.time import jumps

_COMMENT = b"//"
_MODEL = re.compile(rb"^@model[ \t\r]*$", re.MULTILINE)
_NAME = re.compile(rb"^[ \t]*//\[(.*)\][ \t\r]*$", re.MULTILINE)
_LABEL = re.compile(r'"([^"]*)"|([^\s"]+)')
_BARE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_NO_LABEL = "__NOLABEL__"
_EXIT = re.compile(rb"^([ \t]*state[ \t]+[0-9]+[ \t]+)(!\S+)", re.MULTILINE)
_KINDS = ("mdp", "dtmc", "ctmc", "ma", "markov automaton")
_IN_TIME = _KINDS[2:]
_MAX_REWARDS = 100


def read(path: str, reward: str | None = None) -> Problem:
    """Read a problem."""
    data = read_bytes(path, MAX_BYTES)
    found = _MODEL.search(data)
    if found is None:
        raise FormatError("there is no line @model: this is not a DRN file")
    head = _Head(data[: found.start()])
    body = _Body(data[found.end() :], data.count(b"\n", 0, found.end()) + 1, head)
    names = body.reward_names()
    chosen = pick_reward(names, reward)
    explicit = body.explicit(names, chosen)
    return with_kept_quotas(explicit.problem(), path)


def write(problem: Problem, path: str) -> None:
    """Write a problem as an MDP, with the bounds of its quotas beside it."""
    write_model(problem, path, {path: _lines(problem, labels_of(problem))})


class _Head:
    """What stands above ``@model``."""

    def __init__(self, data: bytes) -> None:
        try:
            lines = [line.strip() for line in data.decode().splitlines()]
        except UnicodeDecodeError:
            raise FormatError("what stands above @model is not UTF-8 text") from None
        self.sections: dict[str, list[str]] = {}
        section = ""
        for line in lines:
            if line.startswith("@"):
                section, _, value = line.partition(":")
                self.sections[section] = [value.strip()] if value.strip() else []
            elif line and not line.startswith("//"):
                self.sections.setdefault(section, []).append(line)
        kind = " ".join(self.sections.get("@type", ["nothing"])).lower()
        if kind not in _KINDS:
            raise FormatError(
                f"@type is {kind[:40]!r}, expected MDP, DTMC, CTMC or MA; observations are not read"
            )
        self.kind = kind
        value_type = " ".join(self.sections.get("@value_type", ["double"])).lower()
        if self.sections.get("@parameters") or value_type not in ("double", "rational"):
            raise FormatError("its probabilities are not plain numbers (@parameters or @value_type)")
        self.n_states, self.n_choices = self._size("@nr_states"), self._size("@nr_choices")
        self.reward_names = " ".join(self.sections.get("@reward_models", [])).split()
        self.constants = dict(self._constants())

    def _size(self, section: str) -> int | None:
        """A size that the file claims; it is compared, never allocated."""
        lines = self.sections.get(section)
        if not lines:
            return None
        if len(lines) > 1 or not re.fullmatch(r"[0-9]{1,18}", lines[0]):
            raise FormatError(f"{section} is {lines[0][:40]!r}, expected a whole number")
        return int(lines[0])

    def _constants(self) -> Iterator[tuple[str, float]]:
        for line in self.sections.get("@placeholders", []):
            name, _, value = line.partition(":")
            try:
                yield name.strip(), float(value)
            except ValueError:
                raise FormatError(f"@placeholders: {value.strip()[:40]!r} is not a number") from None


class _Body:
    """The lines below ``@model``: states, their actions, where these lead."""

    def __init__(self, data: bytes, line: int, head: _Head) -> None:
        self._exits = _EXIT.findall(data) if head.kind in _IN_TIME else []
        if self._exits:  # a rate is no reward and no label, and lines stay where they are
            data = _EXIT.sub(lambda found: found[1] + b" " * len(found[2]), data)
        self._head, self._data = head, data
        self._tokens = tokens = Tokens(data, _COMMENT, line=line)
        is_state, is_action = tokens.is_word(tokens.first, b"state"), tokens.is_word(tokens.first, b"action")
        self._states, self._moves = np.flatnonzero(is_state), np.flatnonzero(~is_state & ~is_action)
        self._check_states(is_state | is_action)
        # A row begins at each action, and at a transition that follows its state with no action between.
        begins = is_action | (~is_state & np.roll(is_state, 1))
        self._row_of = np.cumsum(begins) - 1
        self._rows, self._is_action = np.flatnonzero(begins), is_action[begins]
        self.s_of = np.cumsum(is_state)[begins] - 1
        self._check_choices()
        self._brackets = _Brackets(tokens, np.flatnonzero(is_state | is_action), line)
        self._check_actions(np.flatnonzero(is_action & (tokens.count > 2)))

    def reward_names(self) -> list[str]:
        """Names of the reward structures: the declared ones, and Storm's own for others that are used."""
        declared, used = self._head.reward_names, int(self._brackets.count.max(initial=0))
        return [*declared, *(f"rew{k}" for k in range(len(declared), min(used, _MAX_REWARDS)))]

    def explicit(self, names: Sequence[str], reward: int | None) -> Explicit:
        """Return the model, which earns one of its reward structures."""
        P, durations = self._transitions(), None
        paid = [self._paid(k) for k in range(len(names))] or [(np.zeros(self.s_of.size),) * 2]
        if self._head.kind == "ctmc":
            made = [jumps(P, of_state, self.s_of, of_action) for of_state, of_action in paid]
            rows, (P, _, durations) = [r for _, r, _ in made], made[0]
        else:
            durations = 1 / self._exit_rates()[self.s_of] if self._head.kind in _IN_TIME else None
            rows = [
                of_state * (1 if durations is None else durations) + of_action for of_state, of_action in paid
            ]
        return Explicit(
            P, rows[reward or 0], self.s_of, self._labels(), self._state_names(), self._actions(), durations,
            dict(zip(names, rows, strict=True)) if len(names) > 1 else {},
        )  # fmt: skip

    def _paid(self, reward: int) -> tuple[Floats, Floats]:
        """What the state and what the action of each choice pays by one reward structure, (C,) each."""
        paid = np.zeros(self._tokens.first.size)
        lines, amounts = self._brackets.amounts(reward, self._head.constants)
        paid[lines] = amounts
        return of_choices(paid[self._states], self.s_of), np.where(self._is_action, paid[self._rows], 0.0)

    def _exit_rates(self) -> Floats:
        """Exit rate of each state, (S,)."""
        if len(self._exits) != self._states.size:
            raise FormatError(f"there are {len(self._exits)} exit rates, expected {self._states.size}")
        text = b" ".join(rate[1:] for _, rate in self._exits)
        tokens = Tokens(text, _COMMENT)
        rates = tokens.floats(np.arange(self._states.size), "an exit rate", self._head.constants)
        instant = ~(rates > 0)
        if (s := first(instant)) is not None:
            raise FormatError(
                f"state {s} has exit rate {rates[s]:g}; of {rates.size} states {instant.sum()} take no time\n"
                "  states that take no time are not read: decide when the state before them is left"
            )
        return rates

    def _check_states(self, named: Bools) -> None:
        tokens = self._tokens
        if not self._states.size:
            raise FormatError("there are no states in it")
        wrong = named & (tokens.count < 2)
        wrong[0] |= self._states[0] != 0
        tokens.check(wrong, tokens.first, "expected a state, such as state 0, or a named action")
        words = tokens.first[self._states] + 1
        numbers = tokens.integers(words, "the number of a state")
        wrong = numbers != np.arange(numbers.size)
        tokens.check(wrong, words, lambda k: f"this is state {numbers[k]}, expected {k}")
        if self._head.n_states not in (None, numbers.size):
            raise FormatError(f"@nr_states is {self._head.n_states:,}, there are {numbers.size:,}")

    def _check_choices(self) -> None:
        """States that are stuck may have been counted as having a choice."""
        said, found = self._head.n_choices, self._rows.size
        stuck = self._states.size - np.unique(self.s_of).size
        if said is not None and not found <= said <= found + stuck:
            raise FormatError(f"@nr_choices is {said:,}, there are {found:,}")

    def _check_actions(self, lines: Ints) -> None:
        """An action is one word, so that rewards behind a missing name are not taken for one."""
        words, wrong = self._tokens.first[lines], self._brackets.end_on(lines) == 0
        self._tokens.check(wrong, words, "expected rewards in brackets after the name of the action")

    def _transitions(self) -> csr_array:
        tokens, first, n_states = self._tokens, self._tokens.first[self._moves], self._states.size
        bad = tokens.count[self._moves] != 3
        bad[~bad] = ~tokens.is_word(first[~bad] + 1, b":")
        tokens.check(bad, first, "expected a transition, such as 3 : 0.5")
        target = tokens.integers(first, "a state")
        tokens.check(target >= n_states, first, lambda k: f"there is no state {target[k]}")
        p = tokens.floats(first + 2, "a probability", self._head.constants)
        entries = p, (self._row_of[self._moves], target)
        return csr_array(coo_array(entries, shape=(self._rows.size, n_states)))

    def _labels(self) -> dict[str, Ints]:
        """States of each label; many lines have the same ones, so every distinct ending is parsed once."""
        tokens, words = self._tokens, self._tokens.first[self._states] + 1
        begin = np.maximum(tokens.stop[words], self._brackets.end_on(self._states))
        endings: dict[str, list[int]] = {}
        places = zip(begin.tolist(), tokens.line_end(words).tolist(), strict=True)
        for s, (a, b) in enumerate(places):
            endings.setdefault(tokens.text(a, b), []).append(s)
        labels: dict[str, list[list[int]]] = {}
        for text, states in endings.items():
            if _LABEL.sub("", text).strip():
                line = tokens.line_of(int(words[states[0]]))
                what = "the labels cannot be read, expected words, or names in quotes"
                raise FormatError(f"line {line}: {what}")
            for quoted, bare in dict.fromkeys(_LABEL.findall(text)):
                labels.setdefault(quoted or bare, []).append(states)
        return {name: np.unique(np.concatenate(parts)) for name, parts in labels.items()}

    def _state_names(self) -> list[str] | None:
        """What comments say of the states, if they say something of each."""
        if self._data.count(b"//[") < self._states.size:
            return None
        found = list(_NAME.finditer(self._data))
        begins = self._tokens.start[self._tokens.first[self._states]]
        state = np.searchsorted(begins, [match.start() for match in found]) - 1
        if not np.array_equal(state, np.arange(begins.size)):
            return None
        try:
            return [" ".join(match[1].decode().split()) for match in found]
        except UnicodeDecodeError:
            return None

    def _actions(self) -> list[str] | None:
        """Name of each choice, empty where it has none; None where they are but numbered."""
        given = iter(self._tokens.words(self._tokens.first[self._rows[self._is_action]] + 1))
        names = [next(given) if named else "" for named in self._is_action.tolist()]
        names = ["" if name == _NO_LABEL else name for name in names]
        places = (np.arange(self.s_of.size) - np.searchsorted(self.s_of, self.s_of)).tolist()
        return None if all(not n or n == str(k) for n, k in zip(names, places, strict=True)) else names


class _Brackets:
    """Rewards in brackets, third on the lines of states and actions."""

    def __init__(self, tokens: Tokens, lines: Ints, line: int) -> None:
        lines = lines[tokens.count[lines] > 2]
        opened = tokens.start[tokens.first[lines] + 2]
        lines, opened = lines[has := tokens.raw[opened] == ord("[")], opened[has]
        closings = np.flatnonzero(tokens.raw == ord("]"))
        closed = np.append(closings, tokens.raw.size)[np.searchsorted(closings, opened)]
        words = tokens.first[lines]
        tokens.check(closed >= tokens.line_end(words), words, "] is missing")
        self._lines, self._opened, self._closed = lines, opened, closed
        inside = np.zeros(tokens.raw.size + 1, np.int8)
        inside[opened], inside[closed] = 1, -1
        inside = np.cumsum(inside[:-1], dtype=np.int8)
        raw = np.where((inside == 1) & (tokens.raw != ord("[")) & (tokens.raw != ord(",")), tokens.raw, 32)
        raw[tokens.raw == 10] = 10
        self._tokens = Tokens(raw.astype(np.uint8), _COMMENT, line=line)
        self._first = np.searchsorted(self._tokens.start, opened)
        self.count = np.searchsorted(self._tokens.start, closed) - self._first

    def amounts(self, reward: int, constants: dict[str, float]) -> tuple[Ints, Floats]:
        """Lines that have the reward of the given number, and what it is there."""
        has = self.count > reward
        return self._lines[has], self._tokens.floats(self._first[has] + reward, "a reward", constants)

    def end_on(self, lines: Ints) -> Ints:
        """Where the brackets of lines end; 0 where there are none."""
        ends = np.zeros(int(lines.max(initial=0)) + 1, np.int64)
        here = self._lines[self._lines < ends.size]
        ends[here] = self._closed[: here.size] + 1
        return ends[lines]


def _lines(problem: Problem, labels: dict[str, Ints]) -> Iterator[str]:
    mdp = problem.mdp
    rewards = rewards_of(mdp)
    yield from ("@type: MDP", "@parameters", "", "@reward_models", " ".join(rewards))
    yield from ("@nr_states", str(mdp.n_states), "@nr_choices", str(mdp.n_pairs), "@model")
    words: list[list[str]] = [[] for _ in range(mdp.n_states)]
    for name, states in labels.items():
        for s in states.tolist():
            words[s].append(name if _BARE.fullmatch(name) else f'"{name}"')
    paid = np.stack(list(rewards.values()), axis=1).tolist()
    for i, s, place, row in choices(mdp):
        if place == 0:
            yield " ".join([f"state {s} [{', '.join(['0'] * len(rewards))}]", *words[s]])
            if mdp.states is not None:
                yield f"//[{mdp.states[s]}]"
        name = "_".join(mdp.actions[i].split()) if mdp.actions else str(place)
        yield "\n".join(
            [
                f"\taction {name} [{', '.join(map(repr, paid[i]))}]",
                *(f"\t\t{target} : {p!r}" for target, p in row),
            ]
        )
