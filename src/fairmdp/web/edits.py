"""Quotas as the page has them now: renamed, bounded otherwise, removed, or new ones on some states."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from fairmdp.errors import ProblemError
from fairmdp.io import Source
from fairmdp.model.checks import there_are
from fairmdp.model.problem import Problem
from fairmdp.model.quota import Quota
from fairmdp.web.request import Row, Rows

_LONG_COMMAND = 40  # words of a command line for quotas, and names in one of them; more belong into a file
_EXPORT = "   # {why}: export the problem first"


def edited(problem: Problem, rows: Rows) -> Problem:
    """Return the problem with these quotas instead of its own; what is wrong with one names it."""
    return Problem(problem.mdp, [_quota(problem, row) for row in rows])


def solve_command(source: Source, asked: Problem, problem: Problem, rows: Rows | None = None) -> str:
    """Return the command line that solves `problem`, which is `asked` with other bounds, or with these rows.

    What was removed asks for nothing there, and what was renamed has its old name.
    """
    return _command("solve", (), source, asked, problem, rows)


def welfare_command(
    principle: str, source: Source, asked: Problem, problem: Problem, rows: Rows | None = None
) -> str:
    """Return the command line that finds what a principle prefers in that problem."""
    more = [f"--by={principle}"]
    if rows is not None:  # what was removed is no group either
        sets = [row for row, weighted in zip(rows, problem.weighted, strict=True) if not weighted]
        more += [f"--over={row.was or row.name}" for row in sets]
    return _command("welfare", more, source, asked, problem, rows)


def _command(
    verb: str, more: Sequence[str], source: Source, asked: Problem, problem: Problem, rows: Rows | None
) -> str:
    export = shlex.join(["fairmdp", verb, "problem.npz", *(word for word in more if word.startswith("--by"))])
    added: Sequence[Row] = ()
    if rows is not None:
        added = [row for row in rows if row.was is None]
        if any(row.name in asked.names for row in added):
            return export + _EXPORT.format(why="a new quota is called as an old one was")
        problem = _as_named(asked, problem, rows)
    groups = [_group(asked, row) for row in added]
    bounds = [*_moved(asked, problem), *_new(problem, len(added))]
    if len(bounds) > _LONG_COMMAND:
        return export + _EXPORT.format(why="many quotas have moved")
    if None in groups:
        return export + _EXPORT.format(why="a new quota has too many states to be named")
    words = [*(f"--group={group}" for group in groups), *(f"--quota={bound}" for bound in bounds)]
    return shlex.join(["fairmdp", verb, *source.words, *words, *more])


def _quota(problem: Problem, row: Row) -> Quota:
    if row.was is None:
        states = np.array(row.states, dtype=np.int64)
        low = 0.0 if row.at_least is None and row.at_most is None else row.at_least
        return Quota(row.name, states=states, at_least=low, at_most=row.at_most)
    if row.was not in problem.names:
        raise ProblemError(f"there is no quota called {row.was!r}{there_are(problem.names, row.was)}")
    k = problem.quota_index(row.was)
    quota = problem.quotas[k]
    if quota.of is not None:  # its bound stands in the quota
        return replace(quota, name=row.name)
    nothing = float(problem.units.values(np.zeros(problem.n_quotas))[k])
    low = nothing if row.at_least is None and row.at_most is None else row.at_least
    return replace(quota, name=row.name, at_least=low, at_most=row.at_most)


def _as_named(asked: Problem, problem: Problem, rows: Rows) -> Problem:
    """The quotas as they were called and stood, with today's bounds, and the new ones after them."""
    today = {row.was: k for k, row in enumerate(rows) if row.was is not None}
    lower, upper = problem.stated_bounds
    ends = [asked.units.values(np.full(asked.n_quotas, end)).tolist() for end in (0.0, 1.0)]
    old = []
    for name, quota, low, high in zip(asked.names, asked.quotas, *ends, strict=True):
        if quota.of is None:
            low, high = (lower[today[name]], upper[today[name]]) if name in today else (low, high)
            quota = replace(quota, at_least=float(low), at_most=float(high))
        old.append(quota)
    return Problem(asked.mdp, [*old, *(problem.quotas[k] for k, row in enumerate(rows) if row.was is None)])


def _moved(asked: Problem, problem: Problem) -> Iterator[str]:
    """The bounds that are not those asked for."""
    K = asked.n_quotas
    changed = (problem.at_least[:K] != asked.at_least) | (problem.at_most[:K] != asked.at_most)
    for k in np.flatnonzero(changed).tolist():
        before, after = asked.quotas[k], problem.quotas[k]
        # What was asked for and is not any more has to be said too.
        low = (before.at_least, after.at_least) != (None, None)
        high = (before.at_most, after.at_most) != (None, None)
        yield from _bounds(problem, k, low=low, high=high)


def _new(problem: Problem, count: int) -> Iterator[str]:
    """The bounds of the last quotas, which are new."""
    for k in range(problem.n_quotas - count, problem.n_quotas):
        quota = problem.quotas[k]
        yield from _bounds(problem, k, low=quota.at_least is not None, high=quota.at_most is not None)


def _bounds(problem: Problem, k: int, *, low: bool, high: bool) -> Iterator[str]:
    name, (lower, upper) = problem.names[k], problem.stated_bounds
    if low:
        yield f"{name}>={float(lower[k])!r}"
    if high:
        yield f"{name}<={float(upper[k])!r}"


def _group(asked: Problem, row: Row) -> str | None:
    """A new quota as ``--group`` takes it, or None where it cannot be said so."""
    names = [asked.mdp.state_name(s) for s in row.states]
    if len(names) > _LONG_COMMAND or "=" in row.name or any(";" in name for name in names):
        return None
    commas = any("," in name for name in names)
    return f"{row.name}={';'.join([*names, '']) if commas else ','.join(names)}"
