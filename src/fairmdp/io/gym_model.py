"""Tabular Gymnasium environments as models: FrozenLake, Taxi, CliffWalking, and others that publish ``P``.

An environment is read through its attributes, so this module imports gymnasium only to make one by its id.
Episodes end and averages do not, which is why the caller must say what happens after the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

from fairmdp.errors import ProblemError
from fairmdp.model.checks import Bools, Floats, Ints, real_vector, refuse
from fairmdp.model.mdp import MDP

OnTerminate = Literal["restart", "absorb"]

_REWRITERS = {"RewardWrapper": "rewards", "ActionWrapper": "actions", "ObservationWrapper": "states"}


def from_gymnasium(env: Any, *, on_terminate: OnTerminate | None = None, initial: Any = None) -> MDP:
    """Read a tabular environment, ``env.unwrapped.P[s][a] = [(prob, next, reward, terminated), ...]``.

    States and actions keep the numbers that they have in the environment. A state that is entered with
    ``terminated`` set is terminal: whatever ``P`` says of its actions, nothing is earned there and the next
    state is what ``on_terminate`` says. Wrappers are stripped; time limits are not part of a model. States
    that no episode reaches (Taxi has 96) are kept, and a quota that only they can meet is met by no episode.

    Parameters
    ----------
    env
        The environment, wrapped or not, or its id such as ``"FrozenLake-v1"``.
    on_terminate
        What follows a terminal state; there is no safe default, and none is needed where no episode ends.
        ``"restart"``: it is visited for one step,
        then a new episode begins, so that shares are those of many episodes in a row. ``"absorb"``: it is
        never left, and every long-run average is about terminal states alone.
    initial
        Distribution of the first state, (S,); by default what the environment publishes as
        ``initial_state_distrib``. A restart needs it.

    Examples
    --------
    >>> from_gymnasium("FrozenLake-v1", on_terminate="restart")
    MDP(16 states, 64 pairs, 148 transitions)
    """
    env = made(env)
    base = getattr(env, "unwrapped", env)
    _refuse_rewriters(env)
    table = _table(base)
    if on_terminate is not None or table.terminal.any():
        check_on_terminate(on_terminate)
    start = _initial(base, initial, table.n_states)
    if start is None and on_terminate == "restart":
        raise ProblemError(
            f"{_name(base)} does not say where episodes begin: it has no initial_state_distrib\n"
            f"  on_terminate='restart' needs it, and samples of reset() would only be a guess\n"
            f"  give initial, an array of {table.n_states} probabilities, one per state"
        )
    terminal = table.terminal
    _refuse_two_faced(table, terminal, start)
    return _model(table, terminal, start, on_terminate)


def made(env: Any, **settings: Any) -> Any:
    """The environment, made by its id and settings if that is what was given."""
    if not isinstance(env, str):
        return env
    try:
        import gymnasium
    except ImportError:
        refuse(
            f"cannot make the environment {env!r}: gymnasium is not installed",
            "an environment is given itself, or by its id in gymnasium's registry",
            "pip install fairmdp[gym]",
        )
    try:
        return gymnasium.make(env, **settings)
    except Exception as error:
        raise ProblemError(f"gymnasium.make({env!r}) failed, {type(error).__name__}: {error}") from error


def check_on_terminate(on_terminate: Any) -> None:
    """Raise unless it was said what follows the end of an episode."""
    if on_terminate not in ("restart", "absorb"):
        refuse(
            "on_terminate is missing" if on_terminate is None else f"on_terminate is {on_terminate!r}",
            "episodes end, long-run shares do not: what follows the end decides all of them",
            "choose 'restart' (one step in the terminal state, then a new episode) or 'absorb' (stay there)",
        )


class _Table(NamedTuple):
    """Entries of ``P`` in order of their pairs."""

    s_of: Ints  # (SA,)
    pair: Ints  # (E,)
    chance: Floats  # (E,)
    s_next: Ints  # (E,)
    reward: Floats  # (E,)
    ends: Bools  # (E,)
    n_states: int

    @property
    def entry_state(self) -> Ints:
        """State in which each entry starts, (E,)."""
        return self.s_of[self.pair]

    @property
    def terminal(self) -> Bools:
        """Whether a state is entered with ``terminated`` set, (S,)."""
        found = np.zeros(self.n_states, bool)
        found[self.s_next[self.ends & (self.chance > 0)]] = True
        return found


def _name(base: Any) -> str:
    return type(base).__name__


def _refuse_rewriters(env: Any) -> None:
    """Raise if a wrapper changes what ``P`` says; time limits and checks do not."""
    while env is not getattr(env, "unwrapped", env):
        for kind in type(env).__mro__:
            if kind.__name__ in _REWRITERS:
                raise ProblemError(
                    f"the wrapper {_name(env)} changes the {_REWRITERS[kind.__name__]}, and P knows nothing "
                    "of that\n  give env.unwrapped to leave the wrapper out, or an EnvironmentSimulator"
                )
        env = env.env


def _table(base: Any) -> _Table:
    P = getattr(base, "P", None)
    if P is None:
        raise ProblemError(
            f"{_name(base)} has no P, the table P[s][a] = [(prob, next, reward, terminated), ...]\n"
            "  only tabular environments publish one, such as FrozenLake, Taxi and CliffWalking\n"
            "  otherwise wrap its rules as a FunctionSimulator, or it as an EnvironmentSimulator, and learn"
        )
    if getattr(base, "fickle_passenger", False):
        raise ProblemError(
            "the fickle passenger of Taxi is decided outside of P, so P is not the whole truth\n"
            "  make the environment with fickle_passenger=False"
        )
    n_states = len(P)
    s_of, lengths, rows = [], [], []
    for s in range(n_states):
        for a, entries in _actions(P, s):
            s_of.append(s)
            lengths.append(len(entries))
            rows += [_entry(entry, s, a, n_states) for entry in entries]
    chance, s_next, reward, ends = zip(*rows, strict=True) if rows else ((), (), (), ())
    return _Table(
        np.array(s_of, np.int64),
        np.repeat(np.arange(len(lengths)), lengths),
        np.array(chance, float),
        np.array(s_next, np.int64),
        np.array(reward, float),
        np.array(ends, bool),
        n_states,
    )


def _actions(P: Any, s: int) -> Iterator[tuple[int, Any]]:
    """Actions of a state in order; both dictionaries and lists are met in practice."""
    try:
        yield from ((a, P[s][a]) for a in range(len(P[s])))
    except (KeyError, TypeError):
        raise ProblemError(
            f"P[{s}] cannot be read\n  expected states and actions that are numbered from 0, as P[s][a]"
        ) from None


def _entry(entry: Any, s: int, a: int, n_states: int) -> tuple[float, int, float, bool]:
    """One checked entry; probabilities are left to the model, which looks at whole rows."""
    where = f"P[{s}][{a}] holds {entry!r}"
    if not isinstance(entry, tuple | list) or len(entry) != 4:
        raise ProblemError(f"{where}, expected (prob, next, reward, terminated)")
    chance, s_next, reward, ends = entry
    if not isinstance(chance, Real) or not isinstance(reward, Real):
        raise ProblemError(f"{where}: its probability and its reward must be numbers")
    if not isinstance(s_next, int | np.integer) or not 0 <= s_next < n_states:
        raise ProblemError(f"{where}, expected a next state from 0 to {n_states - 1}")
    return float(chance), int(s_next), float(reward), bool(ends)


def _initial(base: Any, given: ArrayLike | None, n_states: int) -> Floats | None:
    published = getattr(base, "initial_state_distrib", None) if given is None else given
    return None if published is None else real_vector("the initial distribution", published, n_states)


def _refuse_two_faced(table: _Table, terminal: Bools, start: Floats | None) -> None:
    """Raise if a state that can come up ends an episode on one way in and not on another.

    Ways in from states that no episode reaches do not matter: Taxi's table has some.
    """
    goes_on = ~terminal[table.entry_state] & (table.chance > 0)
    first = np.ones(table.n_states, bool) if start is None else start > 0
    reached = _reached(table, goes_on, first)
    enters = reached[table.entry_state] & goes_on & ~table.ends & terminal[table.s_next]
    begins = terminal & (start is not None) & first
    if enters.any() or begins.any():
        s = int(table.s_next[np.argmax(enters)]) if enters.any() else int(np.argmax(begins))
        how = f"from state {table.entry_state[np.argmax(enters)]}" if enters.any() else "by a new episode"
        raise ProblemError(
            f"state {s} is entered with terminated=True and, {how}, without\n"
            "  a state of a Markov model is either terminal or not\n"
            "  give the environment two states there, one for the end"
        )


def _reached(table: _Table, goes_on: Bools, first: Bools) -> Bools:
    """States that some policy gets to from the first ones."""
    # Node S stands for the beginning of an episode.
    begins = np.flatnonzero(first)
    rows = np.concatenate([table.entry_state[goes_on], np.full(begins.size, table.n_states)])
    columns = np.concatenate([table.s_next[goes_on], begins])
    n = table.n_states + 1
    graph = csr_array((np.ones(rows.size), (rows, columns)), shape=(n, n))
    reached = np.zeros(n, bool)
    reached[breadth_first_order(graph, table.n_states, return_predecessors=False)] = True
    return reached[:-1]


def _model(table: _Table, terminal: Bools, start: Floats | None, on_terminate: Any) -> MDP:
    """The table, with rows of our own in terminal states."""
    n_pairs, goes_on, ended = table.s_of.size, ~terminal[table.entry_state], terminal[table.s_of]
    if on_terminate == "restart":
        assert start is not None
        targets = np.flatnonzero(start)
        rows = np.repeat(np.flatnonzero(ended), targets.size)
        columns, chances = np.tile(targets, ended.sum()), np.tile(start[targets], ended.sum())
    else:
        rows, columns, chances = np.flatnonzero(ended), table.s_of[ended], np.ones(ended.sum())
    rows = np.concatenate([table.pair[goes_on], rows])
    columns = np.concatenate([table.s_next[goes_on], columns])
    chances = np.concatenate([table.chance[goes_on], chances])
    # Repeated next states are left to the MDP, which adds them up once every entry is known to be good.
    order = np.argsort(rows, kind="stable")
    indptr = np.searchsorted(rows[order], np.arange(n_pairs + 1))
    P = csr_array((chances[order], columns[order], indptr), shape=(n_pairs, table.n_states))
    r = np.bincount(table.pair, weights=table.chance * table.reward, minlength=n_pairs)
    r[ended] = 0.0
    return MDP(P, r, table.s_of, initial=start)
