"""Leximin: the largest least utility; then, keeping it, the largest least one of the others; and so on.

The best utilities are unique, as the set of all is convex, and a group with a positive weight in the proof
of a level has no more than that level in any best policy. So every level closes at least one group. What
remains open is the policy: the gain decides.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from fairmdp.deadline import STOPS, Stop, stop_of
from fairmdp.model.checks import Floats
from fairmdp.model.problem import Problem
from fairmdp.solution.solution import Status
from fairmdp.solution.welfare import Level, WelfareSolution
from fairmdp.solvers.auto import solve
from fairmdp.solvers.columns import EXACT, PENALTIES
from fairmdp.solvers.prices import price_box, tightened
from fairmdp.solvers.request import Request
from fairmdp.welfare.answer import Account, connected, infeasible, that_earns_most
from fairmdp.welfare.master import WelfareMaster
from fairmdp.welfare.search import MARGIN, add_uniform, begun, clean_occupancy, master_of
from fairmdp.welfare.setting import Setting
from fairmdp.welfare.shapes import Least

_FINER = (1e-8, 1e-10, 1e-11)  # gaps of a level: later ones move by many times what earlier ones are off
_KEPT = 1e-9  # share by which a level is lowered once it is kept, so that rounding leaves a mixture
_HOLDING = 1e-4  # a group with a smaller part of the largest weight may not hold the level down


def leximin_answer(setting: Setting, request: Request) -> WelfareSolution:
    """Close one level after the other; what is proved of the policy that is left."""
    account, stopped = Account(setting, request.tol, time.perf_counter()), Stop.NOT
    ladder = _Ladder(setting, request)
    try:
        while ladder.is_open.any() and ladder.broken <= EXACT:
            ladder.climb()
    except STOPS as stop:
        stopped = stop_of(stop)
    search = ladder.search
    account = account.after(search.counters, stopped)
    if not stopped and ladder.broken > EXACT:
        asked = solve(setting.problem, tol=request.tol)
        if asked.status is Status.INFEASIBLE:
            return infeasible(account, asked)
    levels = tuple(ladder.levels)
    found = account.claim(search.policy(), *search.witness, levels=levels)
    if stopped:
        return found
    if found.status is not Status.OPTIMAL:
        found = connected(account, found, ladder)
    return that_earns_most(account, found, ladder.search.witness)


class _Ladder:
    """Levels so far, and one search that keeps its columns and ceilings from level to level."""

    def __init__(self, setting: Setting, request: Request) -> None:
        K = len(setting.rows)
        self._setting, self._request = setting, request
        self.is_open, self.floors = np.ones(K, bool), np.zeros(K)  # floors in shares
        self.levels: list[Level] = []
        self.broken = 0.0
        self.search = begun(setting, request, master_of(setting, Least(setting.box)), paid=False)
        self.search.ceilings = []
        add_uniform(self.search)

    @property
    def witness(self) -> tuple[Any, Floats]:
        """Relative values and prices of the last level."""
        return self.search.witness

    def climb(self) -> None:
        """Raise all open groups together, and close those that hold the others down."""
        setting, search = self._setting, self.search
        asked = self._asked()
        low, high = price_box(asked)
        owed = slice(0, setting.owed.size)  # what closed groups keep has its margin already
        low[owed], high[owed] = tightened(low[owed], high[owed], MARGIN)
        master = WelfareMaster(low, high, setting.scaled, Least(setting.box, self.is_open))
        search.turn_to(asked, master)
        master.penalty = PENALTIES[1]
        mu = search.witness[1]
        for tol in _FINER:  # columns are evaluated exactly only once a gap is reached
            self.broken = search.run(mu, tol, lambda _: False)
            mu = search.witness[1]
        self.broken = search.sharpen()
        self._close()

    def occupancy(self, room: float) -> Any | None:
        """Occupancy of the last mixture; levels leave no room."""
        return clean_occupancy(self.search)

    def _asked(self) -> Problem:
        """What is owed, and what closed groups keep."""
        priced, rows = self._setting.priced, self._setting.scaled.rows
        at_least = priced.at_least.copy()
        at_least[rows] = np.where(self.is_open, 0.0, np.maximum(self.floors - _KEPT, 0.0))
        return priced.with_bounds(at_least)

    def _close(self) -> None:
        setting, (h, mu) = self._setting, self.search.witness
        of_groups = mu[setting.scaled.rows]
        q = np.where(self.is_open, of_groups / setting.scaled.scale, 0.0)
        holding = q > _HOLDING * q.max()
        prices = setting.prices(mu)
        prices[list(setting.rows)] += np.where(self.is_open, 0.0, setting.worth * of_groups)
        names = tuple(name for name, held in zip(setting.over, holding, strict=True) if held)
        self.levels.append(Level(math.nan, names, q, prices, setting.bias(h)))
        level = (self.search.value - setting.scaled.offset) / setting.scaled.scale  # in shares
        self.floors = np.where(holding, level, self.floors)
        self.is_open = self.is_open & ~holding
