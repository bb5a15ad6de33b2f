"""Column generation for a welfare: the search of `solvers.columns` behind a master of tangents.

Where W is minus infinity at the first policy, a search for the largest least utility comes first: it ends as
soon as every group has something, or proves that no policy gives all of them any.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fairmdp.certificate.welfare import SERVED, Asked
from fairmdp.model.checks import Floats
from fairmdp.model.objectives import MaxMin, needs_everybody
from fairmdp.solvers.auto import mixes_fast
from fairmdp.solvers.columns import EXACT, PENALTIES, Search
from fairmdp.solvers.prices import price_box, tightened
from fairmdp.solvers.request import Request
from fairmdp.welfare.descent import PriceDescent
from fairmdp.welfare.master import WelfareMaster
from fairmdp.welfare.setting import Setting
from fairmdp.welfare.shapes import Least, Ordered, Shape, shape_of

MARGIN = 1e-10
"""Share by which quotas are tightened: mixtures are as exact as that, and steep prices leave no more room."""

_ENOUGH = 0.5  # of the best least utility, at which every group has something to begin with
_LITTLE = 1e-4  # utility, of the largest, below which a first policy is no good place to begin
_MANY_GROUPS = 12  # whose order a program takes long to find ...
_MANY_STATES = 1_000  # ... and that share so many states that small changes of prices move little
_MORE_STATES = 3_000  # so many that this holds of few groups too, where no quotas have prices of their own
_TIGHTER = 0.02  # part of the gap to reach, up to which tangents are added
_TIGHTEST = 1e-10  # what its programs are exact to
_STEEP = (1e7, 1e9)  # further penalties: high powers of little utilities outbid the usual ones
_AIMS = (0.5, 0.15, 0.05)  # parts of the gap to aim at, whose unit is known only once the welfare is


class WelfareSearch:
    """A search for the best mixture, and what it has come to."""

    def __init__(self, setting: Setting, request: Request) -> None:
        self._setting, self._request, self.broken = setting, request, math.inf
        self._shape = shape_of(setting.in_box, setting.box)
        self._master = master_of(setting, self._shape)
        self._search = begun(setting, request, self._master)
        self._descent: PriceDescent | None = None
        self.hopeless: Search | None = None  # the search that proved that some group can have nothing

    def descend(self) -> PriceDescent | None:
        """Prices by Newton's method, where a program is slow to find them; None if these stay apart."""
        setting, shape = self._setting, self._shape
        backend, ordered = self._search.backend, isinstance(shape, Ordered | Least)
        many = len(setting.rows) >= _MANY_GROUPS and backend.n_states >= _MANY_STATES
        large = backend.n_states >= _MORE_STATES and not setting.owed.size
        if not (ordered and (many or large) and mixes_fast(backend)):
            return None
        self._descent = PriceDescent(setting, self._request, self._master, shape, self._tol(0.0))
        return self._descent if self._descent.run() else None

    @property
    def witness(self) -> tuple[Any, Floats]:
        """Relative values and prices of the best ceiling, in units of the search."""
        return self._search.witness if self._quick is None else self._quick.witness

    @property
    def counters(self) -> Mapping[str, float]:
        """What was done so far."""
        return self._search.counters

    def begin(self) -> None:
        """Find columns whose mixture has a welfare, or a proof that there are none."""
        setting, search = self._setting, self._search
        first = setting.scaled.of(add_uniform(search))
        if not needs_everybody(setting.objective) or float(first.min()) > _LITTLE:
            return
        least = master_of(setting, shape_of(MaxMin(), setting.box))
        phase = begun(setting, self._request, least, paid=False)
        add_uniform(phase)
        phase.master.penalty = PENALTIES[1]
        broken = phase.run(phase.master.solve()[1], 0.1 * SERVED, _enough)
        for column in phase.columns[1:]:
            gain = search.backend.totals(search.backend.play(column.choice), column.mass, column.mass)[1]
            search.add(replace(column, gain=gain))
        if broken <= EXACT and phase.upper <= SERVED:
            self.hopeless = phase

    def run(self) -> None:
        """Add columns until the gap is closed, at penalties that rise until no quota is broken."""
        search = self._search
        met = EXACT + 2 * MARGIN * self._setting.owed.size  # all of the time leaves no room
        value, mu, search.weights, self.broken = search.master.solve()
        for penalty in (*PENALTIES, *_STEEP):
            search.master.penalty = penalty
            for aim in _AIMS:
                tol = aim * self._tol(value)
                self._master.accuracy = max(_TIGHTER * tol, _TIGHTEST)
                self.broken = search.run(mu, tol, _never, self._reporter(), eager=penalty < _STEEP[-1])
                if self.broken <= met:  # a gap that rough columns have closed may be open
                    self.broken = search.sharpen()
                value, mu = search.value, search.witness[1]
                if self.broken > met or search.upper - value <= 0.8 * self._tol(value):
                    break
            if self.broken <= met:
                return
        self.broken = search.sharpen()

    def policy(self) -> Any:
        """Stationary policy of the mixture, or of the descent where that is all there is."""
        return self._search.policy() if self._quick is None else self._quick.policy

    @property
    def _quick(self) -> PriceDescent | None:
        """What was stopped before there was a mixture."""
        descent = self._descent
        return None if descent is None or descent.policy is None or self._search.weights.any() else descent

    def occupancy(self, room: float) -> Any | None:
        """Occupancy of the best mixture that meets the quotas with so much room; None where none does."""
        search = self._search
        search.master.tighten(*tightened(*price_box(self._setting.priced), room))
        search.value, _, search.weights, broken = search.master.solve()
        return None if broken > EXACT else clean_occupancy(search)

    def _tol(self, value: float) -> float:
        """Gap to reach, in units of the search, where the welfare is about this."""
        setting = self._setting
        asked = Asked(setting.problem, setting.objective, setting.rows, setting.reward)
        return self._request.tol * asked.unit(setting.worth * value) / setting.worth

    def _reporter(self) -> Callable[[Search, float], None] | None:
        """Adapter from a search to the user's callback."""
        progress, setting = self._request.progress, self._setting
        if progress is None:
            return None

        def report(search: Search, broken: float) -> None:
            upper = setting.stated(search.upper)
            lower = setting.stated(search.value) if broken <= EXACT else -math.inf
            seconds = time.perf_counter() - search.began
            progress(dict(upper=upper, lower=lower, gap=upper - lower, worst_slack=-broken, seconds=seconds))

        return report


def master_of(setting: Setting, shape: Shape) -> WelfareMaster:
    """A master for quotas that are tightened so that they hold in spite of small errors."""
    return WelfareMaster(*tightened(*price_box(setting.priced), MARGIN), setting.scaled, shape)


def begun(setting: Setting, request: Request, master: WelfareMaster, *, paid: bool = True) -> Search:
    """A search without columns."""
    return Search(setting.backend(paid=paid), master, request.deadline)


def add_uniform(search: Search) -> Floats:
    """Make the uniform policy a column; returns its shares."""
    uniform = search.backend.uniform()
    search.add_policy(uniform, search.stationary(uniform, EXACT)[0])
    return search.columns[-1].shares


def clean_occupancy(search: Search) -> Any:
    """Occupancy of a mixture with nothing in states that its policies leave: little flows are to be seen."""
    backend, x = search.backend, 0.0
    for weight, column in zip(search.weights.tolist(), search.columns, strict=True):
        if weight > 0 and column.choice is not None:
            pi = backend.play(column.choice)
            nu, error = backend.stationary(pi)
            x = x + weight * backend.occupancy(pi, nu if error <= EXACT else column.mass)
        elif weight > 0:
            x = x + weight * column.mass
    return x / np.sum(x)


def _enough(search: Search) -> bool:
    """Whether every group has something; rough columns have a little in states that are left for good."""
    if not _has_enough(search):
        return False
    search.sharpen()
    return _has_enough(search)


def _has_enough(search: Search) -> bool:
    return search.value > SERVED and search.value >= _ENOUGH * search.upper


def _never(search: Search) -> bool:
    return False
