"""`solve`: picks a method, says why, and hands over to the next one where it stalls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fairmdp import solvers
from fairmdp.backends.base import Backend, bounded
from fairmdp.backends.memory import out_of_memory_is_a_message
from fairmdp.backends.opening import open_backend
from fairmdp.certificate.restated import by_uniform_steps
from fairmdp.chains.policy import best_pairs
from fairmdp.deadline import Stop
from fairmdp.errors import ProblemError, SolverError
from fairmdp.model.checks import there_are
from fairmdp.model.problem import Problem
from fairmdp.solution.solution import Remark, Solution, Status
from fairmdp.solvers import registry
from fairmdp.solvers.apart import asks_for_the_mean, falls_apart
from fairmdp.solvers.registry import METHODS, Method
from fairmdp.solvers.request import Progress, Request

if TYPE_CHECKING:
    from fairmdp.backends.cuda.device_problem import DeviceProblem

_EARLY = (Stop.INTERRUPTED, Stop.OUT_OF_TIME)
_DEAR = (registry.STUCK, registry.MANY, registry.SLOW_AND_MANY)  # what is worth a policy iteration first
_CLOSE = 100.0  # gap in units of the tolerance that is not worth another method, which would hardly do better
_WIPED_OUT = 1e-3  # what sweeps may leave of a random function's span where a model mixes fast
_SETTLED = (Status.OPTIMAL, Status.INFEASIBLE)


@dataclass(frozen=True)
class Tuning:
    """Which method is the best for which problem, by `benchmarks/solvers`."""

    lp_pairs: int = 1500  # up to here a linear program is done before others are compiled
    lp_transitions: int = 50_000
    lp_stuck_pairs: int = 50_000  # and up to this for policies that stay near their start, and sure moves
    lp_rescue_pairs: int = 20_000  # and up to this it may be asked after another method has stalled
    sure: float = 1.8  # transitions of a pair up to which a model is nearly deterministic
    few_quotas: int = 100
    some_quotas: int = 5000
    sweeps: int = 20  # in which a model that mixes fast forgets where it began: there prices are best ...
    soon: int = 50  # ... and in which it may where many quotas leave no better method
    planning: int = 50  # value iterations that lead to a good policy
    long: int = 2000  # sweeps of that policy
    stuck: float = 1e-2  # what these leave of a random function's span where it is slow to leave its start


USUAL = Tuning()


@by_uniform_steps
def solve(
    problem: Problem | DeviceProblem,
    *,
    method: str = "auto",
    tol: float = 1e-6,
    start: Solution | None = None,
    seconds: float | None = None,
    progress: Progress | None = None,
    device: str = "cpu",
    patience: float | None = None,
) -> Solution:
    """Find the policy of largest gain among those that meet every quota.

    Parameters
    ----------
    problem
        Model and quotas; a `DeviceProblem` is solved on the GPU that it is on.
    method
        ``"auto"``, or the name of a solver: ``"lp"`` (small models), ``"ipm"`` (the same program by interior
        points), ``"interior"`` (queues, grids and the like with many quotas), ``"dual"`` (few quotas),
        ``"proximal"`` (a quota for every state), ``"colgen"`` (slow chains), ``"mirror"`` (Algorithm 1).
    tol
        Certified gap, relative to the span of the rewards, up to which the answer is called optimal.
    start
        An earlier solution of the same states and actions, with other quotas or rewards, to start from;
        methods that cannot use it do without.
    seconds
        Time after which the search ends with the best that was found; checking it comes on top.
    progress
        Called now and then with ``upper``, ``lower``, ``gap``, ``worst_slack`` and ``seconds``.
    device
        ``"cpu"``, or ``"cuda"``: the first GPU, by ``"dual"``, ``"colgen"`` or ``"proximal"``; what is found
        there is certified there and, for a `Problem`, once more on the CPU. Where it cannot be used, a
        `DeviceError` says why.
    patience
        Where the best shares are those of parts that never meet, the policy has to pass between them now and
        then: as often as half of `tol` allows, or at least once in so many steps (units of time), whatever
        that costs. A note says how rare the rarest passage is.

    Returns
    -------
    Solution
        What was proved is in ``status``; quotas that cannot be met are an answer, not an exception.
        ``method`` names the solver that answered, ``reason`` and ``tried`` how it came to that.

    Examples
    --------
    >>> from fairmdp import scenarios, solve
    >>> solve(scenarios.three_state(rho=[0.1, 0.1, 0.25]))
    Solution(optimal, gain=0.443421, upper=0.443421, worst_slack=0)
    """
    request = Request.of(tol, start, seconds, progress, patience)
    if not isinstance(problem, Problem) or method == "mirror":
        return solve_on(open_backend(problem, device), request, method)
    found = falls_apart(problem)
    if found is not None:

        def solve_part(part: Problem) -> Solution:
            return solve_on(open_backend(part, device), request._replace(start=None), method)

        return solvers.multichain.solve_apart(problem, found, request, solve_part)
    solution = solve_on(open_backend(problem, device), request, method)
    if solution.status is Status.UNDECIDED or asks_for_the_mean(problem):
        return solvers.multichain.mean_over_runs(problem, solution, request.tol, request.deadline, _worth)
    return solution


@out_of_memory_is_a_message()
def solve_on(
    backend: Backend,
    request: Request,
    method: str = "auto",
    *,
    methods: Mapping[str, Method] = METHODS,
    tuning: Tuning = USUAL,
) -> Solution:
    """`solve` where a problem is already."""
    if method == "auto":
        solution = _choose_and_run(backend, request, methods, tuning)
    else:
        solution = _named(method, backend, methods).run(backend, request)
    return solvers.connect.fall_back(backend, solution) if solution.stopped in _EARLY else solution


def _named(method: str, backend: Backend, methods: Mapping[str, Method]) -> Method:
    """A method that was asked for."""
    if method not in methods:
        raise ProblemError(f"there is no method {method!r}{there_are(['auto', *methods], method)}")
    found = methods[method]
    if backend.device not in found.devices:
        *others, last = (f'"{name}"' for name, other in methods.items() if backend.device in other.devices)
        raise ProblemError(
            f"method {method} runs on the CPU only\n  leave out device, or say {', '.join(others)} or {last}"
        )
    return found


def _choose_and_run(
    backend: Backend, request: Request, methods: Mapping[str, Method], tuning: Tuning
) -> Solution:
    """Let the method of choice answer, and another one where it stalls."""
    chosen, reason = choose(backend, tuning)
    if request.patience is not None and reason == registry.NEAR_AND_FEW:  # linear programs make passages
        chosen, reason = "lp", registry.STUCK
    if reason in _DEAR:
        unbound = solvers.colgen.run_unbound(backend, request)
        if unbound is not None:
            return replace(unbound, reason=registry.UNBOUND)
    try:
        first = replace(methods[chosen].run(backend, request), reason=reason)
    except SolverError:
        if chosen not in ("lp", "ipm"):
            raise
        return replace(methods["colgen"].run(backend, request), tried=(chosen,), reason=reason)
    if first.status in _SETTLED or first.stopped in _EARLY or _connected(first):
        return first
    close = first.gap <= _CLOSE * request.tol * backend.scale
    if chosen == "interior" and first.status is Status.FEASIBLE and close:
        return first  # any closer, the classes of a model fall apart
    following = _next(chosen, backend, tuning)
    if following is None:
        return first
    second = methods[following].run(backend, request._replace(start=first))
    stalled = (*first.tried, first.method)
    if _worth(second) > _worth(first):
        return replace(second, tried=stalled, reason=reason)
    return replace(first, tried=(*stalled, following))


def choose(backend: Backend, tuning: Tuning = USUAL) -> tuple[str, str]:
    """Pick a method for a problem, and the reason for it."""
    lp = (
        backend.device in METHODS["lp"].devices
    )  # elsewhere what it takes to bring a model back is not worth it
    if lp and _small(backend, tuning.lp_pairs, tuning.lp_transitions):
        return "lp", ""
    n_bounded = int(bounded(backend).sum())
    if n_bounded == 0:
        return "colgen", registry.NOTHING_OWED
    if not lp and n_bounded > tuning.few_quotas:
        return "proximal", ""
    sure = backend.n_transitions <= tuning.sure * backend.n_pairs
    if lp and sure and n_bounded <= tuning.few_quotas and backend.n_pairs <= tuning.lp_stuck_pairs:
        return "lp", registry.SURE
    try:
        soon = mixes_fast(backend, tuning.soon)
        fast = soon and (not lp or mixes_fast(backend, tuning.sweeps))  # on a GPU columns take longer
    except MemoryError:  # the uniform policy's chain is as large as the model
        return "dual", registry.FEW
    if n_bounded <= tuning.few_quotas:
        if fast:
            return "dual", registry.FAST_AND_FEW
        if lp and backend.n_pairs <= tuning.lp_stuck_pairs and _slow_to_leave(backend, tuning):
            near = METHODS["interior"].obstacle(backend) is None
            return ("interior", registry.NEAR_AND_FEW) if near else ("lp", registry.STUCK)
        return "colgen", registry.SLOW_AND_FEW
    if not fast and METHODS["interior"].obstacle(backend) is None:
        return "interior", registry.NEAR_AND_MANY
    if soon and METHODS["proximal"].obstacle(backend) is None:
        return "proximal", registry.DISJOINT
    if soon and n_bounded <= tuning.some_quotas:
        return "dual", registry.FAST_AND_SOME
    if soon or _slow_to_leave(backend, tuning):
        return "lp", registry.MANY
    return "ipm", registry.SLOW_AND_MANY


def mixes_fast(backend: Backend, sweeps: int = USUAL.soon) -> bool:
    """Whether a few sweeps of the uniform policy's chain wipe out a random function of the state."""
    return backend.remembered(backend.uniform(), sweeps, _WIPED_OUT) <= _WIPED_OUT


def _slow_to_leave(backend: Backend, tuning: Tuning) -> bool:
    """Whether the chain of a good policy, quotas aside, hardly forgets where it began."""
    assert backend.host is not None
    mdp = backend.host.mdp
    h = np.zeros(mdp.n_states)
    for _ in range(tuning.planning):
        best = np.maximum.reduceat(mdp.r + mdp.P @ h, mdp.pair_ptr[:-1])
        h = 0.9 * (best - best[0]) + 0.1 * h
    greedy = best_pairs(mdp, mdp.r + mdp.P @ h)
    return backend.remembered(backend.play(greedy), tuning.long, tuning.stuck) > tuning.stuck


def _small(backend: Backend, pairs: int, transitions: int) -> bool:
    host = backend.host
    return host is not None and host.mdp.n_pairs <= pairs and host.mdp.P.nnz <= transitions


def _next(stalled: str, backend: Backend, tuning: Tuning) -> str | None:
    """Who goes on from what a method knows that has stalled, if anybody."""
    if stalled == "interior":
        return "lp" if bounded(backend).sum() <= tuning.few_quotas else "ipm"
    if stalled == "lp":
        return "colgen" if bounded(backend).sum() <= tuning.few_quotas else None
    small = backend.n_pairs <= tuning.lp_rescue_pairs
    return "lp" if small and METHODS["lp"].obstacle(backend) is None else None


def _worth(solution: Solution) -> tuple[bool, bool, float]:
    settled = solution.status in _SETTLED
    return settled, solution.status is Status.FEASIBLE, -solution.gap if solution.has_policy else 0.0


def _connected(solution: Solution) -> bool:
    """Whether a gap is left because classes had to be tied together, which no other method can help."""
    remarks = (note.remark for note in solution.notes)
    return solution.status is Status.FEASIBLE and Remark.CONNECTED in remarks
