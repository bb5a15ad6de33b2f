"""Problems on the command line: a file or a ready-made problem, and quotas that change it."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from fairmdp.problem import Problem
    from fairmdp.simulator import Simulator

F = TypeVar("F", bound=Callable[..., Any])


def problem_options(command: F) -> F:
    """Add the argument and the options that say which problem is meant."""
    for option in (
        click.option(
            "--quota", "quotas", multiple=True, metavar="NAME>=SHARE",
            help="Bound a quota, a label, a state or a state/action, e.g. 'ward_b>=0.25' or 'idle<=10%'; "
            "also as 'LRA>=0.25 [\"ward_b\"]'. Repeatable.",
        ),
        click.option("--rho", metavar="SHARES", help="One least share per state, e.g. 0.1,0.1,0.25."),
        click.option(
            "--param", "-p", "params", multiple=True, metavar="KEY=VALUE",
            help="Parameter of a ready-made problem, e.g. n_states=50, or reward=NAME to choose among the "
            "reward structures of a .tra or .drn file. Repeatable.",
        ),
        click.argument("source"),
    ):  # fmt: skip
        command = option(command)
    return command


def read_problem(source: str, params: tuple[str, ...], rho: str | None, quotas: tuple[str, ...]) -> Problem:
    """Return the problem that a command line names."""
    from fairmdp import io
    from fairmdp.scenarios import SCENARIOS

    if source in SCENARIOS:
        problem = build(source, params)
    elif ":" in source and not Path(source).exists():
        raise click.UsageError(f"{source!r} names a simulator: these are for `fairmdp learn` and `certify`")
    elif Path(source).suffix or Path(source).exists():
        problem = io.load(source, reward=_chosen_reward(source, params))
    elif params:
        raise click.UsageError(f"--param is for ready-made problems, and {source!r} is none of them")
    else:
        raise click.UsageError(
            f"there is no file and no ready-made problem called {source!r}; "
            f"ready-made ones are {', '.join(SCENARIOS)}"
        )
    return apply_quotas(problem, rho, quotas)


def is_simulator(source: str) -> bool:
    """Whether a source is ``module:name`` of a simulator, not a problem."""
    return ":" in source and not Path(source).exists()


def read_simulator(
    source: str, params: tuple[str, ...], rho: str | None, quotas: tuple[str, ...]
) -> tuple[Simulator, Problem]:
    """Return a simulator and the quotas on it; a problem's model is only sampled from."""
    from fairmdp.learning.counts import shell_model
    from fairmdp.problem import Problem
    from fairmdp.simulator import CheckedSimulator

    if not is_simulator(source):
        problem = read_problem(source, params, rho, quotas)
        return problem.mdp.simulator(), problem
    module, _, name = source.partition(":")
    if params:
        raise click.UsageError("--param is for ready-made problems, not for a simulator of your own")
    if module.endswith(".py"):
        raise click.UsageError(
            f"a simulator is named by its module: write {module.removesuffix('.py')}:{name}"
        )
    simulator = _imported(module, name)
    shell = Problem(shell_model(CheckedSimulator(simulator)))
    return simulator, apply_quotas(shell, rho, quotas)


def read_kept(path: str) -> dict[str, Any]:
    """What a file of `solve` or `learn` holds; its policy is there for certain."""
    from fairmdp.errors import FormatError, ProblemError
    from fairmdp.io.atomic import read_bytes
    from fairmdp.io.json_solution import MAX_BYTES

    try:
        kept = json.loads(read_bytes(path, MAX_BYTES))
    except (ValueError, RecursionError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{path}: this is not JSON: {error}") from None
    if isinstance(kept, dict) and kept.get("status") == "infeasible":
        raise ProblemError(f"{path}: the quotas were found infeasible, there is no policy to run")
    policy = kept.get("policy") if isinstance(kept, dict) else None
    if not isinstance(policy, list) or not all(isinstance(share, int | float) for share in policy):
        raise FormatError(f"{path}: there is no policy in it\n  give a file that solve or learn has kept")
    return dict(kept)


def _chosen_reward(source: str, params: tuple[str, ...]) -> str | None:
    """The only parameter that a file may take."""
    for text in params:
        if len(params) > 1 or not text.startswith("reward="):
            raise click.UsageError(
                f"--param is for ready-made problems, the file {source} takes reward=NAME only"
            )
    return params[0].removeprefix("reward=") if params else None


def apply_quotas(problem: Problem, rho: str | None, quotas: tuple[str, ...]) -> Problem:
    """Return a problem with the quotas of a command line added or changed."""
    from fairmdp.errors import ProblemError
    from fairmdp.quota import Quota
    from fairmdp.quota_text import parse_quota, split_quota

    if rho is not None:
        shares = [number(text, "--rho") for text in rho.split(",")]
        if len(shares) != problem.mdp.n_states:
            raise click.UsageError(
                f"--rho has {len(shares)} shares, the model has {problem.mdp.n_states} states"
            )
        names = map(problem.mdp.state_name, range(problem.mdp.n_states))
        owed = zip(names, shares, strict=True)
        problem = problem.with_quotas(
            Quota(name, states=[s], at_least=share) for s, (name, share) in enumerate(owed)
        )
    for text in quotas:
        try:
            split_quota(text)
        except ProblemError as error:
            raise click.UsageError(f"--quota {error}") from None
        problem = problem.with_quotas([parse_quota(problem, text)])
    return problem


def build(name: str, params: tuple[str, ...]) -> Problem:
    """Return a ready-made problem, with parameters given as text."""
    from fairmdp.scenarios import SCENARIOS

    function = SCENARIOS[name]
    known = inspect.signature(function).parameters
    values: dict[str, Any] = {}
    for text in params:
        key, equals, value = text.partition("=")
        if not equals or key not in known:
            raise click.UsageError(f"--param {text!r}: {name} takes {', '.join(known)}, as key=value")
        values[key] = parse_like(known[key].default, value, f"--param {key}")
    return function(**values)


def number(text: str, where: str) -> float:
    """A share as a decimal or a percentage."""
    scale = 100 if text.endswith("%") else 1
    try:
        return float(text.rstrip("%")) / scale
    except ValueError:
        raise click.UsageError(f"{where}: {text!r} is not a number") from None


def _imported(module: str, name: str) -> Any:
    """Return the simulator that a module of the working folder (or an installed one) defines."""
    from fairmdp.errors import SimulatorError

    if os.getcwd() not in sys.path:  # spelled out, so that other processes find it too
        sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), name)
    except ImportError as error:
        raise click.UsageError(f"cannot import {module}: {error}") from None
    except AttributeError:
        raise click.UsageError(f"module {module} has no {name}") from None
    except Exception as error:  # whatever happens while a module of the user's runs
        raise click.UsageError(f"cannot import {module}: {type(error).__name__}: {error}") from None
    if isinstance(found, type) or (not hasattr(found, "sample") and callable(found)):
        try:
            found = found()
        except Exception as error:
            raise SimulatorError(
                f"{module}:{name}() made no simulator, it raised {type(error).__name__}: {error}"
            ) from error
    return found


def parse_like(default: Any, text: str, where: str) -> Any:
    """Text as a value of the kind that a parameter's default has."""
    if isinstance(default, tuple):
        return [number(part, where) for part in text.split(",")]
    if isinstance(default, int):
        try:
            return int(text)
        except ValueError:
            raise click.UsageError(f"{where}: {text!r} is not a whole number") from None
    return number(text, where)


def repeat(source: str, params: tuple[str, ...], rho: str | None, quotas: tuple[str, ...]) -> str:
    """The words that name this problem again."""
    words = [source, *(f"--param={p}" for p in params)]
    words += [f"--rho={rho}"] if rho is not None else []
    words += [f"--quota={q}" for q in quotas]
    return shlex.join(words)
