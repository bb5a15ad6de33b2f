"""A welfare problem as its search sees it: rows of their own for the utilities, and numbers of size one.

Every group has a row of its own beside the quotas, even where it has a quota too: then the price of a quota
and the worth of a utility are two numbers, as the certificate wants them. Utilities are divided by the
largest one possible, welfare by what it is worth then.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import vstack

from fairmdp.backends.base import bounded
from fairmdp.backends.cpu import CpuBackend
from fairmdp.errors import ProblemError
from fairmdp.model.checks import Floats, Ints, refuse
from fairmdp.model.objectives import (
    AlphaFair,
    Atkinson,
    Entropy,
    Leximin,
    Objective,
    group_weights,
    needs_nonnegative,
)
from fairmdp.model.problem import Problem
from fairmdp.welfare.master import Scaled
from fairmdp.welfare.shapes import Box


@dataclass(frozen=True, eq=False)
class Setting:
    """What is to be maximised over a problem, and how it is scaled."""

    problem: Problem
    objective: Objective
    rows: tuple[int, ...]  # of the problem: the groups
    reward: float

    @property
    def over(self) -> tuple[str, ...]:
        """Names of the groups."""
        return tuple(self.problem.names[k] for k in self.rows)

    @cached_property
    def owed(self) -> Ints:
        """Rows that ask for something."""
        return np.flatnonzero(bounded(self.problem))

    @cached_property
    def priced(self) -> Problem:
        """The same model with what is owed, and after it a row for each group that asks for nothing."""
        problem, rows = self.problem, [*self.owed.tolist(), *self.rows]
        least, most = (problem.units.values(np.full(problem.n_quotas, end)) for end in (0.0, 1.0))
        asked = Problem.from_members(
            problem.mdp.uniform,
            [f"row {k}" for k in range(len(rows))],
            vstack([problem.weights[[k]] for k in rows], format="csr"),
            least[rows],
            most[rows],
            problem.over_states[rows],
        )
        n_owed, idle = self.owed.size, np.zeros(len(self.rows))
        return (
            asked.with_bounds(
                np.append(problem.at_least[self.owed], idle), np.append(problem.at_most[self.owed], idle + 1)
            )
            if n_owed
            else asked
        )

    @cached_property
    def size(self) -> float:
        """Largest utility possible, to be one in the search."""
        offset, scale = self._units
        return float(np.maximum(np.abs(offset), np.abs(offset + scale)).max())

    @cached_property
    def worth(self) -> float:
        """Welfare that is one in the search."""
        if isinstance(self.objective, AlphaFair):
            return self.size ** (1 - self.objective.alpha)
        return 1.0 if isinstance(self.objective, Entropy) else self.size

    @cached_property
    def scaled(self) -> Scaled:
        """Where the utilities lie in units of the largest."""
        offset, scale = self._units
        rows = slice(self.owed.size, self.owed.size + len(self.rows))
        return Scaled(rows, offset / self._unit, scale / self._unit)

    @cached_property
    def box(self) -> Box:
        """What the scaled utilities can be, and the welfare be defined at."""
        low, high = self.scaled.offset, self.scaled.offset + self.scaled.scale
        return Box(np.maximum(low, 0.0) if needs_nonnegative(self.objective) else low, high)

    @cached_property
    def in_box(self) -> Objective:
        """The objective for scaled utilities, which count from its reference."""
        if isinstance(self.objective, AlphaFair):
            return AlphaFair(self.objective.alpha, self.objective.weights)
        return self.objective

    @cached_property
    def paid(self) -> Floats:
        """What the gain pays, in units of the search, (SA,)."""
        r = self.priced.mdp.r
        return self.reward / self.worth * (r - r.min())

    def backend(self, *, paid: bool = True) -> CpuBackend:
        """Where the arrays are, paying the gain in units of the search, or nothing."""
        return CpuBackend(self.priced, self.paid if paid else np.zeros(self.paid.size))

    def marginals(self, mu: Floats) -> Floats:
        """What one more unit of each utility is worth, by prices of the search, (K,)."""
        return self.worth / self._unit * mu[self.scaled.rows] / self.scaled.scale

    def prices(self, mu: Floats) -> Floats:
        """Prices of the problem's own rows, in welfare for a share."""
        prices = np.zeros(self.problem.n_quotas)
        prices[self.owed] = self.worth * mu[: self.owed.size]
        return prices

    def bias(self, h: Floats) -> Floats:
        """Relative values of the search in units of welfare and time, (S,)."""
        return self.worth * self.problem.mdp.step * h

    def stated(self, value: float) -> float:
        """A value of the search as the welfare that the user sees."""
        base = self.reward * float(self.priced.mdp.r.min())
        if isinstance(self.objective, AlphaFair) and self.objective.alpha == 1:
            base += float(group_weights(self.objective, len(self.rows)).sum()) * math.log(self.size)
        return base + self.worth * value

    @property
    def _unit(self) -> float:
        return 1.0 if isinstance(self.objective, Entropy) else self.size

    @cached_property
    def _units(self) -> tuple[Floats, Floats]:
        """Utilities over the reference, ``offset + scale s``."""
        units, rows = self.problem.units, list(self.rows)
        offset, scale = (np.broadcast_to(u, self.problem.n_quotas)[rows] for u in (units.offset, units.scale))
        return offset - getattr(self.objective, "reference", 0.0), scale


def setting_of(problem: Problem, objective: Objective, over: Iterable[Any] | None, reward: float) -> Setting:
    """The setting of a call, checked."""
    if not isinstance(problem, Problem):
        raise ProblemError(f"problem is a {type(problem).__name__}, expected a fairmdp.Problem")
    if not isinstance(objective, Objective):
        raise ProblemError(f"objective is {objective!r}, expected one such as fm.alpha_fair(1)")
    if isinstance(reward, bool) or not isinstance(reward, int | float) or not 0 <= reward < np.inf:
        raise ProblemError(f"reward is {reward!r}, expected the weight of the gain, 0 or more")
    if reward and isinstance(objective, Leximin):
        raise ProblemError("leximin takes no weight of the gain: the gain decides between what is left")
    setting = Setting(problem, objective, _groups(problem, over), float(reward))
    parts = {condition.quota for condition in problem.conditions} & set(setting.rows)
    if parts:
        raise ProblemError(
            f"quota {problem.names[min(parts)]} is on a part of some of the time, and that is no group\n"
            "  a welfare is of shares of all the time, or of means of weights"
        )
    group_weights(objective, len(setting.rows))
    _check_range(setting)
    return setting


def _groups(problem: Problem, over: Iterable[Any] | None) -> tuple[int, ...]:
    """Rows that are the groups: those named, or all that are sets."""
    if over is None:
        rows = tuple(np.flatnonzero(~problem.weighted).tolist())
        if not rows:
            raise ProblemError(
                "there are no groups: name them as quotas, with at_least=0 if nothing is owed\n"
                "  or name rows with weights in over="
            )
        return rows
    if isinstance(over, str):
        raise ProblemError(f"over is the single text {over!r}, expected a list of names")
    rows = tuple(problem.quota_index(name) for name in over)
    if not rows or len(set(rows)) < len(rows):
        raise ProblemError(
            f"over names {len(rows)} groups, {len(set(rows))} of them distinct\n  name each once"
        )
    return rows


def _check_range(setting: Setting) -> None:
    """Refuse a welfare that is defined nowhere: the logarithm of what can only be a loss."""
    objective = setting.objective
    offset, scale = setting._units
    name = setting.over[int(np.argmin(offset + scale))]
    if isinstance(objective, AlphaFair) and objective.alpha > 0 and float((offset + scale).min()) <= 0:
        refuse(
            f"{name} can have no more than {float((offset + scale).min()) + objective.reference:g}",
            f"{objective.kind} counts from the reference {objective.reference:g}, which no policy exceeds",
            "lower reference=",
        )
    if isinstance(objective, Atkinson) and objective.aversion > 0 and float((offset + scale).min()) <= 0:
        refuse(
            f"{name} can have nothing above 0", "Atkinson's welfare needs utilities above 0", "add a constant"
        )
    if isinstance(objective, Entropy) and setting.problem.weighted[list(setting.rows)].any():
        refuse(
            "entropy is of shares of time", f"{', '.join(setting.over)} have weights", "take another welfare"
        )
