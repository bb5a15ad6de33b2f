"""The gap of the saddle point that mirror descent looks for.

::

    max over x in Delta_rho, min over |lam| <= 2 M      f(x, lam) = r @ x + lam @ (nu - P.T @ x)

The price of flow ``lam`` (the paper's lambda, ``-h``) is bounded; the quotas are not priced but kept in the
polytope of ``x``.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from fairmdp.errors import ProblemError
from fairmdp.mirror.polytope import QuotaPolytope
from fairmdp.model.checks import real_vector
from fairmdp.model.problem import Problem


def gap(
    problem: Problem, x: ArrayLike, lam: ArrayLike, M: float, *, polytope: QuotaPolytope | None = None
) -> float:
    """What the two sides could still win: ``max_x' f(x', lam) - min_lam' f(x, lam')``.

    ::

        max over x' of q @ x'  -  r @ x  +  2 M |nu - P.T @ x|_1,      q = r + lam[s_of] - P @ lam

    It is never negative for ``x`` in the polytope and ``|lam| <= 2 M``, and zero exactly at saddle points.
    The last term charges 2 M for a unit of broken flow: with a large M the gap says little but that.

    Parameters
    ----------
    problem
        Quotas with ``at_least`` only; their sets may lie as they like.
    x, lam
        Shares of pairs, (SA,), and prices of flow, (S,).
    M
        Half of the bound on ``lam``.
    polytope
        ``QuotaPolytope.of(problem)``, to save finding it again.

    Examples
    --------
    >>> from fairmdp import scenarios, solve_lp
    >>> problem = scenarios.three_state()
    >>> sol = solve_lp(problem)
    >>> abs(gap(problem, sol.occupancy, -sol.bias, M=1.0)) < 1e-12
    True
    >>> round(gap(problem, QuotaPolytope.of(problem).start, [0, 0, 0], M=1.0), 12)      # 0.685 - 0.25
    0.435

    References
    ----------
    .. [1] Ghalme, Nair, Patil and Zhou, AAMAS 2022, Section 5.
    """
    mdp = problem.mdp
    x, lam = real_vector("x", x, mdp.n_pairs), real_vector("lam", lam, mdp.n_states)
    if not 0 <= M < math.inf:
        raise ProblemError(f"M is {M}, expected a finite number that is not negative")
    polytope = QuotaPolytope.of(problem) if polytope is None else polytope
    broken_flow = np.bincount(mdp.s_of, weights=x, minlength=mdp.n_states) - x @ mdp.P  # (S,)
    best, _ = polytope.support(mdp.r + lam[mdp.s_of] - mdp.P @ lam)
    return best - float(mdp.r @ x) + 2 * M * float(np.abs(broken_flow).sum())
