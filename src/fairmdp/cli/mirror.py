"""Algorithm 1 on the command line: rows while it runs, and what a budget of time buys."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from fairmdp import certificate, mirror

if TYPE_CHECKING:
    from fairmdp.model.problem import Problem
    from fairmdp.solution.solution import Solution

DEFAULT_STEPS = 200_000
_PROBE = 20_000  # steps that tell how quick this machine is
_MAX_ROW_STATES = 20_000  # above this, rows on the way would cost more than the run


def run_mirror(
    problem: Problem,
    *,
    tol: float,
    steps: int | None,
    seconds: float | None,
    seed: int,
    checkpoint: str | None,
    quiet: bool,
) -> Solution:
    """Run Algorithm 1 and print a row each time the number of samples has doubled."""
    if steps is None and seconds is not None:
        steps = _steps_within(problem, seconds)
    rows = None if quiet else _Rows(problem, tol)
    options = mirror.Options(seconds=seconds or math.inf, checkpoint=checkpoint, progress=rows)
    return mirror.solve_mirror(problem, steps=steps or DEFAULT_STEPS, seed=seed, options=options, tol=tol)


def _steps_within(problem: Problem, seconds: float) -> int:
    """Steps that fill nine tenths of the time at the speed of a short probe."""
    probe = max(_PROBE, 2 * problem.mdp.n_pairs)
    mirror.solve_mirror(problem, steps=probe)  # compiles
    begin = time.perf_counter()
    mirror.solve_mirror(problem, steps=probe)
    rate = probe / (time.perf_counter() - begin)
    return max(probe, int(0.9 * seconds * rate))


class _Rows:
    """Prints the table; on a terminal also how far the run is."""

    def __init__(self, problem: Problem, tol: float) -> None:
        self._problem, self._tol = problem, tol
        self._polytope = mirror.QuotaPolytope.of(problem)
        self._pieces, self._begun = 0, time.perf_counter()
        self._live = sys.stderr.isatty()
        if problem.mdp.n_states <= _MAX_ROW_STATES:
            click.echo(f"{'samples':>13} {'gain':>9} {'upper':>9} {'gap':>9} {'slack':>9} {'seconds':>9}")

    def __call__(self, done: int, of: int, learned: Callable[[], mirror.Learned]) -> None:
        self._pieces += 1
        last = done == of
        if self._live:
            spent = time.perf_counter() - self._begun
            left = spent * (of - done) / done
            bar = f"\r{done / of:4.0%}  {done / spent:,.0f} steps a second, {left:.0f} s left   "
            click.echo("\r" + " " * 60 + "\r" if last else bar, nl=False, err=True)
        doubled = self._pieces & (self._pieces - 1) == 0
        if (doubled or last) and self._problem.mdp.n_states <= _MAX_ROW_STATES:
            self._row(learned())

    def _row(self, learned: mirror.Learned) -> None:
        now = mirror.certified(self._problem, self._polytope, learned, tol=self._tol)
        slack = f"{now.worst_slack:+9.4f}" if math.isfinite(now.worst_slack) else f"{'-':>9}"
        short = "   quota not met" if now.worst_slack < -certificate.FAIR_TOL else ""
        click.echo(
            f"{learned.samples:13,d} {now.gain:9.4f} {now.upper:9.4f} {now.gap:9.1e} {slack} "
            f"{learned.seconds:9.2f}{short}"
        )
