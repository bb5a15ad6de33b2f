"""Problems named in words, as on a command line: a file or a ready-made problem, and quotas to change it."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairmdp import io, model, records, scenarios
from fairmdp import world as worlds
from fairmdp.errors import FairMDPError, ProblemError, SourceError
from fairmdp.files import naming
from fairmdp.model.checks import closest, counted, line_of, there_are
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.model.quota import Quota
from fairmdp.scenarios import SCENARIOS

if TYPE_CHECKING:
    from fairmdp.model.simulator import Simulator
    from fairmdp.records import Log
    from fairmdp.world import World

_ENVIRONMENT = re.compile(r"([\w-]+/)?[\w.-]+-v\d+")
_TAKE_WORLDS = "this is for problems: solve, verify and frontier take worlds"


@dataclass(frozen=True)
class Source:
    """A problem in the words of the command line.

    Attributes
    ----------
    target : str
        A file, the name of a ready-made problem, ``module:name`` of a model, a problem, a function that
        makes one, a simulator or an environment of Gymnasium, or an environment's id.
    params : tuple of str
        Parameters of a ready-made problem or a function, ``key=value``; of a file ``reward=NAME``, and of a
        table which column is what; of a model in a language its constants.
    rho : str or None
        One least share per state, with commas between them.
    quotas : tuple of str
        Bounds as `parse_quotas` takes them; a later one of the same name adds to the earlier, or
        takes its place where both bound the same side.
    shown : str
        What its user calls a file that was sent.
    reward : str or None
        Name of the reward that a policy is to earn, where there are several.
    groups : str or None
        File of a table of groups, which become quotas.
    members : tuple of str
        Groups by name, ``name=state,state``, which become quotas that ask for nothing yet.
    start : str or None
        Name of the state in which runs start.
    """

    target: str
    params: tuple[str, ...] = ()
    rho: str | None = None
    quotas: tuple[str, ...] = ()
    shown: str = ""
    reward: str | None = None
    groups: str | None = None
    members: tuple[str, ...] = ()
    start: str | None = None

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.shown or self.target

    @property
    def words(self) -> list[str]:
        """The words that name it again."""
        words = [self.name, *(f"--param={p}" for p in self.params)]
        words += [f"--reward={self.reward}"] if self.reward is not None else []
        words += [f"--groups={self.groups}"] if self.groups is not None else []
        words += [f"--group={group}" for group in self.members]
        words += [f"--start={self.start}"] if self.start is not None else []
        words += [f"--rho={self.rho}"] if self.rho is not None else []
        return words + [f"--quota={q}" for q in self.quotas]

    @property
    def is_module(self) -> bool:
        """Whether the target is ``module:name`` of something in Python."""
        return ":" in self.target and not Path(self.target).exists()

    def problem(self) -> Problem:
        """Return the problem that is named, or raise `SourceError` where the words make no sense."""
        if self.is_module:
            problem = self._from_module()
        elif self.target in SCENARIOS:
            problem = built(SCENARIOS[self.target], self.target, self.params)
        elif self.target in scenarios.WORLDS or io.is_world(self.target):
            raise SourceError(f"{self.name!r} is a world, and {_TAKE_WORLDS}")
        else:
            return self.quotas_on(self._loaded())
        return self.quotas_on(problem if self.reward is None else problem.with_reward(self.reward))

    def simulator(self) -> tuple[Simulator, Problem]:
        """Return a simulator and the quotas on it; a problem's model is only sampled from."""
        found = self._made() if self.is_module else None
        if found is None or isinstance(found, MDP | Problem):
            problem = self.problem()
            return problem.mdp.simulator(), problem
        labels = getattr(found, "labels", None) or {}
        if not isinstance(labels, Mapping):
            raise ProblemError(f"{self.target} has labels {labels!r}, expected {{name: states}}")
        groups = [Quota(name, states=states, at_least=0.0) for name, states in labels.items()]
        return found, self.quotas_on(Problem(model.shell_model(model.CheckedSimulator(found)), groups))

    def environment(self) -> Any:
        """Return the environment of Gymnasium that an id names or a module makes; None of all else."""
        if _ENVIRONMENT.fullmatch(self.target) and not Path(self.target).exists():
            return io.made(self.target, **dict(self._settings()))
        found = self._made() if self.is_module else None
        return found if hasattr(found, "step") and hasattr(found, "reset") else None

    def world(self) -> World | None:
        """Return the world that is named, with its quotas changed; None where a problem is."""
        if self.is_module:
            found = self._made()
        elif self.target in SCENARIOS:
            return None
        elif self.target in scenarios.WORLDS:
            found = built(scenarios.WORLDS[self.target], self.target, self.params)
        elif Path(self.target).exists() and io.is_world(self.target):
            if self.params:
                raise SourceError(f"--param is for ready-made worlds, and {self.target!r} is a file")
            found = io.load_world(self.target)
        else:
            return None
        return self._with_common_quotas(found) if isinstance(found, worlds.World) else None

    def _with_common_quotas(self, world: World) -> World:
        """The world with a quota's bound the same for all who are owed something, or other capacities."""
        words = (self.rho, self.reward, self.groups, self.members, self.start)
        if any(words):
            raise SourceError(
                f"{self.name!r} is a world: of the options that say what is owed, it takes --quota alone"
            )
        for text in self.quotas:
            sign = ">=" if ">=" in text else "<="
            name, found, bound = text.rpartition(sign)
            if not found:
                raise SourceError(
                    f"--quota {text!r}: of a world expected QUOTA>=BOUND or RESOURCE<=CAPACITY, such as "
                    "'short>=0.3' or 'slots<=50'"
                )
            change = world.with_common_quota if sign == ">=" else world.with_capacity
            try:
                world = change(name.strip(), number(bound.strip(), "--quota"))
            except ProblemError as error:
                raise SourceError(f"--quota {text!r}: {error}") from None
        return world

    def log(self) -> tuple[Log, Problem] | None:
        """Return the records of a table and the quotas on them; None of all else, as a table of transitions.

        A table of transitions is one with a column probability.
        """
        if not self._is_table or any(text.startswith("probability=") for text in self.params):
            return None
        with naming(self.target):
            table = model.table_of(self.target)
            if table.named("probability") is not None:
                return None
            stated = {role: name or None for role, name in self._columns(records.LOG_ROLES)}
            log = records.log_of(table, stated)
            groups = model.groups_of_states(table)
        return log, self.quotas_on(log.problem(groups))

    def _loaded(self) -> Problem:
        """The problem of a file."""
        if not Path(self.target).suffix and not Path(self.target).exists():
            if self.params:
                raise SourceError(f"--param is for ready-made problems, and {self.target!r} is none of them")
            near = closest(self.target, [*SCENARIOS, *scenarios.WORLDS])
            raise SourceError(
                f"there is no file and no ready-made problem called {self.target!r}; "
                f"{'' if near is None else f'did you mean {near!r}? '}"
                f"ready-made ones are {', '.join((*SCENARIOS, *scenarios.WORLDS))}"
            )
        if Path(self.target).suffix.lower() in io.LANGUAGES:
            return io.load(self.target, reward=self.reward, constants=dict(self._constants()))
        columns = dict(self._columns((*model.ROLES, model.DURATION) if self._is_table else ("reward",)))
        reward = columns.pop("reward", self.reward)
        return io.load(self.target, reward=reward, columns=columns or None)

    @property
    def _is_table(self) -> bool:
        return not self.is_module and Path(self.target).suffix.lower() in io.TABLES

    def _constants(self) -> Iterator[tuple[str, str]]:
        """Values that the parameters give to constants of a model in a language."""
        for text in self.params:
            name, equals, value = (part.strip() for part in text.partition("="))
            if not equals or not value or not name.isidentifier():
                raise SourceError(f"--param {text!r}: expected CONSTANT=VALUE of the model {self.target}")
            yield name, value

    def _settings(self) -> Iterator[tuple[str, Any]]:
        """What the parameters give to an environment: yes or no, numbers, or text."""
        for text in self.params:
            name, equals, value = (part.strip() for part in text.partition("="))
            if not equals or not name.isidentifier():
                raise SourceError(f"--param {text!r}: expected NAME=VALUE of the environment {self.target}")
            yield name, _setting(value)

    def _columns(self, known: Sequence[str]) -> Iterator[tuple[str, str]]:
        """What the parameters say of a file: which reward is meant and, of a table, which column is what."""
        for text in self.params:
            role, equals, name = text.partition("=")
            if role not in known or not equals:
                near = closest(role, known)
                meant = "" if near is None or near == role else f"; did you mean {near!r}?"
                taken = f"takes {', '.join(known)}, as {known[0]}=NAME"
                raise SourceError(f"--param {text!r}: the file {self.target} {taken}{meant}")
            yield role, name

    def _grouped(self, path: str) -> list[Quota]:
        """Quotas of a table of groups, whose columns may have the names of those of the transitions."""
        with naming(path):
            table = model.table_of(path)
            known = (*model.ROLES, model.DURATION, *records.LOG_ROLES)
            said = dict(self._columns(known)) if self._is_table else {}
            same = {
                role: said[role]
                for role in ("state", "action")
                if table.named(role) is None and table.named(said.get(role, "")) is not None
            }
            return model.groups_of(table, same or None)

    def _from_module(self) -> Problem:
        """The problem that a module of the user's defines, or that a function in it makes."""
        found = self._made()
        if isinstance(found, MDP):
            return Problem(found)
        if isinstance(found, Problem):
            return found
        if isinstance(found, worlds.World):
            raise SourceError(f"{self.target!r} is a world, and {_TAKE_WORLDS}")
        if hasattr(found, "sample"):
            raise SourceError(
                f"{self.target!r} names a simulator: these are for `fairmdp learn` and `certify`"
            )
        raise SourceError(
            f"{self.target} is of the type {type(found).__name__}, expected a fairmdp.MDP, "
            "a fairmdp.Problem, or a function that makes one"
        )

    def _made(self) -> Any:
        """What ``module:name`` is or, if it is a function or a class, what it makes of the parameters."""
        module, _, name = self.target.partition(":")
        if module.endswith(".py"):
            raise SourceError(f"a module is named without .py: write {module.removesuffix('.py')}:{name}")
        if not module or not name:
            raise SourceError(f"{self.target!r}: expected module:name of something in Python")
        found = _imported(module, name)
        if isinstance(found, type) or (not hasattr(found, "sample") and callable(found)):
            return built(found, f"{module}:{name}", self.params)
        if self.params:
            raise SourceError(f"--param is for functions with parameters, and {self.target} is none")
        return found

    def quotas_on(self, problem: Problem) -> Problem:
        """Return a problem with the start and the quotas of the words added or changed, all at once."""
        if self.start is not None:
            problem = problem.with_mdp(problem.mdp.with_initial(self.start))
        if self.groups is not None:
            problem = problem.with_quotas(self._grouped(self.groups))
        if self.members:
            problem = problem.with_quotas([_group(text) for text in self.members])
        shares = None if self.rho is None else [number(text, "--rho") for text in self.rho.split(",")]
        for text in self.quotas:
            try:
                model.split_quota(text)
            except ProblemError as error:
                raise SourceError(f"--quota {error}") from None
        if shares is not None and not self.quotas and _has_states_as_quotas(problem):
            return problem.with_bounds(_one_each(problem, shares), np.ones(len(shares)))
        owed = [] if shares is None else _quotas_of_states(problem, shares)
        if not self.quotas and not owed:
            return problem
        return problem.with_quotas(model.parse_quotas(problem, self.quotas, owed))


def built(make: Callable[..., Any], name: str, params: tuple[str, ...]) -> Any:
    """What a function makes of parameters given as text."""
    known = inspect.signature(make).parameters
    values: dict[str, Any] = {}
    for text in params:
        key, equals, value = text.partition("=")
        if not equals or key not in known:
            near = closest(key, list(known))
            meant = "" if near is None or near == key else f"; did you mean {near!r}?"
            taken = ", ".join(known) or "none"
            raise SourceError(f"--param {text!r}: {name} takes {taken}, as key=value{meant}")
        values[key] = parse_like(known[key].default, value, f"--param {key}")
    if lacking := [key for key, each in known.items() if _is_due(each) and key not in values]:
        raise SourceError(f"{name} needs {', '.join(lacking)}: give it as -p {lacking[0]}=...")
    try:
        return make(**values)
    except (FairMDPError, MemoryError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raised = f"{type(error).__name__}: {error}{line_of(error)}"
        raise ProblemError(f"{name} made nothing, it raised {raised}") from error


def _is_due(parameter: inspect.Parameter) -> bool:
    """Whether a function cannot be called without this parameter."""
    variable = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and not variable


def parse_like(default: Any, text: str, where: str) -> Any:
    """Text as a value of the kind that a parameter's default has."""
    if isinstance(default, tuple):
        return [number(part, where) for part in text.split(",")]
    if isinstance(default, int):
        try:
            return whole(text)
        except ValueError:
            raise SourceError(f"{where}: {text!r} is not a whole number") from None
    return number(text, where)


def whole(text: str) -> int:
    """A whole number as people write it, ``20000``, ``2e4`` or ``20_000``; else a ValueError."""
    try:
        value = int(text)
    except ValueError:
        exact = float(text)
        if not exact.is_integer() or abs(exact) > 2**53:
            raise
        value = int(exact)
    if abs(value) >= 2**63:
        raise ValueError(text)
    return value


def _setting(text: str) -> Any:
    """Text as what it looks like."""
    if text.casefold() in ("true", "false"):
        return text.casefold() == "true"
    for kind in (whole, float):
        with suppress(ValueError):
            return kind(text)
    return text


def number(text: str, where: str) -> float:
    """A share as a decimal or a percentage."""
    scale = 100 if text.endswith("%") else 1
    try:
        return float(text.rstrip("%")) / scale
    except ValueError:
        raise SourceError(f"{where}: {text!r} is not a number") from None


def _one_each(problem: Problem, shares: list[float]) -> list[float]:
    if len(shares) != problem.mdp.n_states:
        states = counted(problem.mdp.n_states, "state")
        raise SourceError(f"--rho has {counted(len(shares), 'share')}, the model has {states}")
    return shares


def _group(text: str) -> Quota:
    """A group that asks for nothing yet, from ``name=state,state``; semicolons, where names have commas."""
    name, equals, states = text.partition("=")
    listed = [state.strip() for state in states.split(";" if ";" in states else ",") if state.strip()]
    if not equals or not name.strip() or not listed:
        raise SourceError(f"--group {text!r}: expected NAME=STATE,STATE,..., such as 'short=0,1,4'")
    return Quota(name.strip(), states=listed, at_least=0.0)


def _has_states_as_quotas(problem: Problem) -> bool:
    """Whether the quotas are the states, by name, so that only their bounds are to be moved."""
    mdp = problem.mdp
    sets = (problem.members.indices, np.arange(mdp.n_pairs)), (problem.members.indptr, mdp.pair_ptr)
    named = problem.names == tuple(map(mdp.state_name, range(mdp.n_states)))
    return named and all(np.array_equal(*each) for each in sets) and not problem.weighted.any()


def _quotas_of_states(problem: Problem, shares: list[float]) -> list[Quota]:
    """One least share per state."""
    owed = enumerate(_one_each(problem, shares))
    return [Quota(problem.mdp.state_name(s), states=np.array([s]), at_least=share) for s, share in owed]


def _imported(module: str, name: str) -> Any:
    """Return what a module of the working folder, or an installed one, calls by a name."""
    if os.getcwd() not in sys.path:  # spelled out, so that other processes find it too
        sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), name)
    except ImportError as error:
        raise SourceError(f"cannot import {module}: {error}") from None
    except AttributeError:
        known = [each for each in vars(sys.modules[module]) if not each.startswith("_")]
        raise SourceError(f"module {module} has no {name}{there_are(known, name)}") from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever happens while a module of the user's runs
        raise SourceError(f"cannot import {module}: {type(error).__name__}: {error}") from None
    return found
