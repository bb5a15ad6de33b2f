"""A model from rules in Python: what can be reached is explored, breadth first, named and numbered."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from operator import mul
from typing import Any, NamedTuple, NoReturn

import numpy as np
from scipy.sparse import csr_array

from fairmdp.errors import ProblemError
from fairmdp.model.checks import Floats, Ints, check_count, line_of, refuse
from fairmdp.model.mdp import MDP
from fairmdp.model.objects import text_of
from fairmdp.model.transitions import ROW_SUM_TOL, SINGLE_SUM_TOL

Actions = Callable[[Any], Iterable[Hashable]] | Collection[Hashable]
Step = Callable[[Any, Any], Any]
Progress = Callable[[dict[str, float]], None]

SHOW_EVERY = 0.5
"""Seconds between two reports of progress."""

_LOOK_EVERY = 512  # states between two looks at the clock

_CONTRACT = "return ({next: probability, ...}, reward), or a list of (probability, next, reward)"
_MOST_SHOWN = 200  # letters of a value in a message


def explore(
    start: Any, actions: Actions, step: Step, *, limit: int, reward: str, progress: Progress | None
) -> MDP:
    """Build the model that rules make; `MDP.from_rules` says how."""
    check_count("limit", limit)
    if not callable(step):
        raise ProblemError(f"step is {step!r}, expected a function of a state and an action")
    if not callable(actions) and (isinstance(actions, str) or not isinstance(actions, Collection)):
        raise ProblemError(
            f"actions is {actions!r}, expected a function of a state, or a list for all of them"
        )
    explorer = _Explorer(actions, step, limit)
    initial = {explorer.number(state, "the start"): p for state, p in _starts(start).items()}
    explorer.run(progress)
    return explorer.model(initial, reward)


class _Explorer:
    """States and transitions found so far, in the order in which they were."""

    def __init__(self, actions: Actions, step: Step, limit: int) -> None:
        self._step, self._limit = step, limit
        self._actions: Callable[[Any], Any] = actions if callable(actions) else lambda state: actions
        self._states: list[Hashable] = []
        self._numbers: dict[Hashable, int] = {}
        self._chances, self._targets = array("d"), array("q")
        self._row_ends, self._n_actions = array("q", [0]), array("q")
        self._paid: dict[Any, array[float]] = {}  # under None where there is one reward, without a name
        self._taken: list[str] = []  # name of the action of each pair
        self._texts: dict[Hashable, str] = {}

    def run(self, progress: Progress | None) -> None:
        """Try everything until nothing new turns up."""
        begun = shown = time.monotonic()
        for s, state in enumerate(self._states):  # which grow on the way
            self._n_actions.append(self._try_all(state))
            if progress is not None and s % _LOOK_EVERY == 0 and time.monotonic() - shown > SHOW_EVERY:
                shown = time.monotonic()
                sizes = {"states": len(self._states), "explored": s + 1, "transitions": len(self._targets)}
                progress({**sizes, "seconds": shown - begun})

    def number(self, state: Hashable, where: str) -> int:
        """Number of a state, a new one where it is new."""
        try:
            found = self._numbers.setdefault(state, len(self._states))
        except TypeError as error:
            refuse(
                f"{where} gives the state {state!r}, which cannot be kept in a dictionary: {error}",
                "states are told apart by being hashable: text, numbers, tuples, frozen dataclasses",
                "write a tuple instead of a list or an array, and @dataclass(frozen=True)",
            )
        if found == len(self._states):
            if found == self._limit:
                refuse(
                    f"there are more than {self._limit:,} states",
                    f"{where} led to {state!r}; {found - len(self._n_actions):,} states are yet to be tried",
                    "bound what may grow without end, such as a counter, or give a larger limit=",
                )
            self._states.append(state)
        return found

    def model(self, initial: Mapping[int, float], reward: str) -> MDP:
        """The model that has been explored; states that are whole numbers are put in their order."""
        s_of = np.repeat(np.arange(len(self._states)), np.array(self._n_actions))
        P = csr_array(
            (np.array(self._chances), np.array(self._targets), np.array(self._row_ends)),
            shape=(s_of.size, len(self._states)),
        )
        order = self._order()
        place = np.argsort(order)
        pairs = np.argsort(place[s_of], kind="stable")
        P = P[pairs]
        start = np.zeros(order.size)
        start[place[list(initial)]] = list(initial.values())
        rewards = {name: np.array(paid)[pairs] for name, paid in self._paid.items()}
        return MDP(
            csr_array((P.data, place[P.indices], P.indptr), shape=P.shape),
            rewards.pop(None) if None in rewards else _objective(rewards, reward),
            place[s_of][pairs],
            states=[self._states[s] for s in order],
            actions=[self._taken[i] for i in pairs],
            initial=start,
            rewards=rewards,
        )

    def _try_all(self, state: Hashable) -> int:
        """Try every action of a state; returns how many it has."""
        available = called("actions", self._actions, state)
        if isinstance(available, str) or not isinstance(available, Iterable):
            raise ProblemError(f"actions({state!r}) returned {available!r}, expected a list of actions")
        before = len(self._taken)
        for action in available:
            self._try(state, action)
            self._taken.append(self._text(state, action))
        names = self._taken[before:]
        if not names:
            refuse(
                f"state {state!r} has no action",
                f"actions({state!r}) returned nothing",
                "a state where nothing can be done needs one action that says what happens next",
            )
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ProblemError(f"state {state!r} has two actions called {twice!r}")
        return len(names)

    def _try(self, state: Hashable, action: Hashable) -> None:
        """Take down where one action leads."""
        found = outcomes(self._step, state, action)
        chances, targets = found.chances, found.targets
        if 0 in chances:
            possible = [k for k, p in enumerate(chances) if p]
            chances, targets = [chances[k] for k in possible], [targets[k] for k in possible]
        try:
            reached = [self._numbers[target] for target in targets]
        except (KeyError, TypeError):
            where = f"state {state!r}, action {action!r}"
            reached = [self.number(target, where) for target in targets]
        self._targets.extend(reached)
        self._chances.extend(chances)
        self._row_ends.append(len(self._targets))
        self._pay(found.reward, state, action)

    def _pay(self, reward: Any, state: Hashable, action: Hashable) -> None:
        """Take down a reward, or those that have names: the same ones everywhere."""
        named = reward if type(reward) is not float and isinstance(reward, Mapping) else {None: reward}
        if not self._paid:
            self._paid = {name: array("d") for name in named}
        if named.keys() != self._paid.keys():
            due = "a number" if None in self._paid else f"those called {', '.join(self._paid)}"
            mistake(state, action, f"has the reward {reward!r}, expected {due}")
        for name, paid in self._paid.items():
            try:
                paid.append(named[name])
            except TypeError:
                mistake(state, action, f"has the reward {named[name]!r}, expected a number")

    def _order(self) -> Ints:
        """Order of the states: as they were found, but ascending where all are whole numbers."""
        if all(type(state) is int for state in self._states):
            return np.argsort(np.array(self._states), kind="stable")
        return np.arange(len(self._states))

    def _text(self, state: Hashable, action: Hashable) -> str:
        try:
            return self._texts[action]
        except KeyError:
            return self._texts.setdefault(action, text_of(action))
        except TypeError:
            raise ProblemError(
                f"state {state!r} has the action {action!r}, which is not hashable\n  write a tuple"
            ) from None


def _starts(start: Any) -> dict[Any, float]:
    """States to begin with, and how probable each is: one state, several in a list, or their distribution."""
    states = list(start) if isinstance(start, list | set | Iterator | Mapping) else [start]
    if not states:
        raise ProblemError("start is empty, expected a state to begin with")
    if isinstance(start, Mapping):
        return dict(start)
    try:
        states = list(dict.fromkeys(states))
    except TypeError as error:
        raise ProblemError(f"start is {start!r}, which cannot be a state: {error}\n  write a tuple") from None
    return dict.fromkeys(states, 1 / len(states))


def _objective(rewards: Mapping[str, Floats], wanted: str) -> Floats:
    """The reward to earn, among those that have names."""
    if wanted not in rewards:
        raise ProblemError(
            f"there is no reward called {wanted!r} among {', '.join(rewards)}\n"
            "  say by reward= which of them a policy is to earn"
        )
    return rewards[wanted]


class Outcomes(NamedTuple):
    """Where one action of a state can lead, and what it pays on average: a number, or one for each name."""

    chances: Sequence[float]
    targets: Sequence[Hashable]
    reward: Any


def outcomes(step: Callable[[Any, Any], Any], state: Hashable, action: Hashable) -> Outcomes:
    """Ask a rule and check the answer; an error names the state and the action."""
    answer = called("step", step, state, action)
    if isinstance(answer, tuple | list) and len(answer) == 2 and _is_mapping(answer[0]):
        found = Outcomes(list(answer[0].values()), list(answer[0]), answer[1])
    else:
        found = _of_triples(answer, state, action)
    if not found.chances:
        mistake(state, action, "leads nowhere: step returned no outcome")
    if not (abs(_sum(found.chances) - 1) <= ROW_SUM_TOL and min(found.chances) >= 0):
        _refuse_chances(found, state, action)
    return found


def _is_mapping(value: Any) -> bool:
    """Whether a value is a mapping; that a dict is one is seen at once, of others Python asks around."""
    return type(value) is dict or isinstance(value, Mapping)


def called(name: str, function: Callable[..., Any], *arguments: Any, call: str = "") -> Any:
    """What a function of the user's returns; what it raises is named by the call, in other words if given."""
    try:
        return function(*arguments)
    except Exception as error:
        call = call or f"{name}({', '.join(map(repr, arguments))})"
        raised = f"{type(error).__name__}: {error}{line_of(error)}"
        raise ProblemError(f"{call} raised {raised}") from error


def mistake(state: Hashable, action: Hashable, what: str) -> NoReturn:
    """Raise: what is wrong with the answer, and how it should look."""
    raise ProblemError(f"state {state!r}, action {action!r} {what}\n  {_CONTRACT}")


def _of_triples(answer: Any, state: Hashable, action: Hashable) -> Outcomes:
    if isinstance(answer, Mapping):
        mistake(state, action, f"has no reward: step returned {_short(answer)} alone")
    triples = list(answer) if isinstance(answer, Iterable) else [answer]
    try:
        chances, targets, paid = zip(*triples, strict=True) if triples else ((), (), ())
    except (TypeError, ValueError):
        mistake(state, action, f"cannot be read: step returned {_short(answer)}")
    if paid and isinstance(paid[0], Mapping):
        if any(not isinstance(each, Mapping) or each.keys() != paid[0].keys() for each in paid):
            mistake(state, action, "has outcomes whose rewards have different names")
        mean: Any = {name: _mean(chances, [each[name] for each in paid], state, action) for name in paid[0]}
    else:
        mean = _mean(chances, paid, state, action)
    return Outcomes(chances, targets, mean)


def _mean(chances: Sequence[float], paid: Sequence[Any], state: Hashable, action: Hashable) -> Any:
    """Average of the rewards of outcomes, exact where all are the same."""
    if paid.count(paid[0]) == len(paid) if paid else True:
        return paid[0] if paid else 0.0
    try:
        return sum(map(mul, chances, paid))
    except TypeError:
        mistake(state, action, f"has the rewards {_short(paid)}, expected numbers")


def _sum(chances: Sequence[Any]) -> float:
    """Sum of probabilities; not a number where one is none."""
    try:
        total = float(sum(chances))
    except (TypeError, ValueError):
        return float("nan")
    if abs(total - 1) <= ROW_SUM_TOL:
        return total
    single = abs(total - 1) <= SINGLE_SUM_TOL and any(isinstance(p, np.float32) for p in chances)
    return 1.0 if single else total  # the model rescales what float32 cannot say more exactly


def _refuse_chances(found: Outcomes, state: Hashable, action: Hashable) -> NoReturn:
    """Name what is wrong with some probabilities."""
    for p, target in zip(found.chances, found.targets, strict=True):
        try:
            good = 0 <= p < float("inf")
        except TypeError:
            good = False
        if not good:
            what = f"leads to {target!r} with probability {p!r}, expected a number from 0 to 1"
            mistake(state, action, what)
    refuse(
        f"state {state!r}, action {action!r}: the probabilities sum to "
        f"{_sum(found.chances):.12g}, expected 1",
        f"its outcomes are {_short(list(zip(found.chances, found.targets, strict=True)))}",
        "an outcome is missing or counted twice; in a dictionary two that lead to one state are only one: "
        "then return triples",
    )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
