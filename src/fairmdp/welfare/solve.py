"""`solve_welfare`: the policy of largest welfare of long-run shares or means, with proof."""

from __future__ import annotations

import time
from collections.abc import Iterable

from fairmdp.deadline import STOPS, Stop, stop_of
from fairmdp.model.objectives import Leximin, Objective
from fairmdp.model.problem import Problem
from fairmdp.solution.solution import Status
from fairmdp.solution.welfare import WelfareSolution
from fairmdp.solvers.auto import solve
from fairmdp.solvers.columns import EXACT
from fairmdp.solvers.request import Progress, Request
from fairmdp.welfare.answer import Account, connected, infeasible, that_earns_most, unserved
from fairmdp.welfare.leximin import leximin_answer
from fairmdp.welfare.search import WelfareSearch
from fairmdp.welfare.setting import Setting, setting_of


def solve_welfare(
    problem: Problem,
    objective: Objective,
    *,
    over: Iterable[int | str] | None = None,
    reward: float = 0.0,
    tol: float = 1e-6,
    seconds: float | None = None,
    progress: Progress | None = None,
) -> WelfareSolution:
    """Find the policy of largest welfare of long-run shares or means, with proof.

    ::

        maximise    reward * gain + W(u),     u_k the share of group k, or its long-run mean of weights
        subject to  the quotas of the problem

    Parameters
    ----------
    problem
        Model, hard quotas, and the rows that are the groups; a `Utility` is a row that asks for nothing.
    objective
        W: `alpha_fair`, `atkinson`, `gini`, `entropy`, `max_min` or `leximin`.
    over
        Names of the groups; without them all rows that are sets.
    reward
        Weight of the gain beside W. At 0, and for leximin, which takes none, the gain decides between
        policies with the same utilities (up to 2,000 pairs).
    tol
        Certified gap up to which the answer is called optimal, relative to the welfare's own unit: the span
        of the utilities for what is measured in it, the sum of the weights for logarithms, the welfare's size
        for other powers; and the weighted span of the rewards on top.
    seconds
        Time after which the search ends with the best that was found.
    progress
        Called now and then with ``upper``, ``lower``, ``gap``, ``worst_slack`` and ``seconds``.

    Returns
    -------
    WelfareSolution
        Where quotas cannot be met, or no policy gives every group something that W needs, ``status`` says so
        and the witnesses prove it.

    Examples
    --------
    >>> from fairmdp import alpha_fair, scenarios
    >>> fair = solve_welfare(scenarios.jobs(), alpha_fair(1))
    >>> fair.status.value, round(fair.welfare, 6), fair.utilities.round(4)
    ('optimal', -0.985492, array([0.2882, 0.4834]))
    """
    request = Request.of(tol, None, seconds, progress)
    setting = setting_of(problem, objective, over, reward)
    return (leximin_answer if isinstance(objective, Leximin) else _answer)(setting, request)


def _answer(setting: Setting, request: Request) -> WelfareSolution:
    """The best mixture, its policy, and what is proved of both."""
    began, search, stopped = time.perf_counter(), WelfareSearch(setting, request), Stop.NOT
    account = Account(setting, request.tol, began)
    try:
        search.begin()
        if search.hopeless is not None:
            return unserved(account, search.hopeless)
        quick = search.descend()
        if quick is not None:
            account = account.after(quick.counters, stopped)
            found = account.claim(quick.policy, *quick.witness)
            if found.status is Status.OPTIMAL:
                return found if setting.reward else that_earns_most(account, found, quick.witness)
        search.run()
    except STOPS as stop:
        stopped = stop_of(stop)
    account = account.after(search.counters, stopped)
    if not stopped and search.broken > EXACT:
        asked = solve(setting.problem, tol=request.tol)
        if asked.status is Status.INFEASIBLE:
            return infeasible(account, asked)
    found = account.claim(search.policy(), *search.witness)
    if stopped:
        return found
    if found.status is not Status.OPTIMAL:
        found = connected(account, found, search)
    return found if setting.reward else that_earns_most(account, found, search.witness)
