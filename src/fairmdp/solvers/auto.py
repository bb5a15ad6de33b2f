"""`solve`: picks a method, says why, and hands over to the next one where it stalls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fairmdp.chain import policy_matrix
from fairmdp.device_problem import DeviceProblem
from fairmdp.errors import ProblemError, SolverError
from fairmdp.mdp import MDP
from fairmdp.problem import Problem
from fairmdp.solution import Solution, Status
from fairmdp.solvers.deadline import INTERRUPTED, OUT_OF_TIME, Deadline
from fairmdp.solvers.flow_lp import Algorithm
from fairmdp.solvers.lp import solve_lp
from fairmdp.solvers.policy import uniform_policy
from fairmdp.solvers.repair import CONNECTED, fall_back
from fairmdp.validation import Bools, Floats

METHODS = ("lp", "ipm", "dual", "proximal", "colgen", "mirror")

Progress = Callable[[dict[str, float]], None]

_LP_PAIRS, _LP_TRANSITIONS = 1500, 50_000  # up to here a linear program is done before others are compiled
_LP_STUCK_PAIRS = 50_000  # and up to this it copes best with policies that stay where they began
_LP_RESCUE_PAIRS = 20_000  # and up to this it may be asked after another method has stalled
_FEW_QUOTAS, _SOME_QUOTAS = 100, 500
_SWEEPS = 50
_FAST = 1e-3  # what the sweeps must leave of a random function's span, at most
_PLANNING, _LONG = 200, 500  # value iterations, and sweeps of the policy they lead to
_STUCK = 1e-2  # what is left of a random function's span after these where a policy stays where it began

_NOTHING_OWED = "chosen because nothing is owed, so that one column is enough"
_FAST_AND_FEW = "chosen because the model mixes fast and its quotas are few"
_SLOW_AND_FEW = "chosen because the model mixes slowly and its quotas are few"


def solve(
    problem: Problem | DeviceProblem,
    *,
    method: str = "auto",
    tol: float = 1e-6,
    start: Solution | None = None,
    seconds: float | None = None,
    progress: Progress | None = None,
    device: str = "cpu",
) -> Solution:
    """Find the policy of largest gain among those that meet every quota.

    Parameters
    ----------
    problem
        Model and quotas.
    method
        ``"auto"``, or the name of a solver: ``"lp"`` (small models), ``"ipm"`` (the same program by interior
        points: many quotas on slow chains), ``"dual"`` (few quotas), ``"proximal"`` (a quota for every
        state), ``"colgen"`` (slow chains), ``"mirror"`` (Algorithm 1).
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
        ``"cpu"``, or ``"cuda"``: the first GPU, by ``"dual"``, ``"colgen"`` or ``"proximal"``. Where it
        cannot be used, a `DeviceError` says why.

    Returns
    -------
    Solution
        What was proved is in ``status``; quotas that cannot be met are an answer, not an exception.
        ``method`` says which solver answered and why it was chosen.

    Examples
    --------
    >>> from fairmdp import scenarios, solve
    >>> solve(scenarios.three_state(rho=[0.1, 0.1, 0.25]))
    Solution(optimal, gain=0.443421, upper=0.443421, worst_slack=0)
    """
    if device != "cpu" or isinstance(problem, DeviceProblem):
        return _solve_on_device(problem, method, tol, start, seconds, progress, device)
    if not isinstance(problem, Problem):
        raise ProblemError(
            f"solve takes a Problem, not {type(problem).__name__}\n  make one: Problem(mdp, quotas)"
        )
    deadline = Deadline(seconds)
    if method == "auto":
        solution = _choose_and_run(problem, tol, start, deadline, progress)
    else:
        solution = _run(method, problem, tol, start, deadline, progress)
    return fall_back(problem, solution) if _stopped(solution) else solution


def _choose_and_run(
    problem: Problem, tol: float, start: Solution | None, deadline: Deadline, progress: Progress | None
) -> Solution:
    """Let the method of choice answer, and another one where it stalls."""
    chosen, reason = choose(problem)
    try:
        first = _run(chosen, problem, tol, start, deadline, progress)
    except SolverError:
        if chosen not in ("lp", "ipm"):
            raise
        return _run("colgen", problem, tol, start, deadline, progress)
    first = replace(first, method=f"{first.method}; {reason}") if reason else first
    if first.status in (Status.OPTIMAL, Status.INFEASIBLE) or _stopped(first) or _connected(first):
        return first
    return _take_over(problem, chosen, first, tol, deadline, progress)


def _solve_on_device(
    problem: Problem | DeviceProblem,
    method: str,
    tol: float,
    start: Solution | None,
    seconds: float | None,
    progress: Progress | None,
    device: str,
) -> Solution:
    """Let one of the methods answer that a device has."""
    from fairmdp.solvers.colgen import solve_colgen
    from fairmdp.solvers.dual import solve_dual
    from fairmdp.solvers.proximal import solve_proximal

    deadline, reason = Deadline(seconds), ""
    if method == "auto":
        method, reason = _choose_on_device(problem, device)
    solvers = {"dual": solve_dual, "colgen": solve_colgen, "proximal": solve_proximal}
    if method not in solvers:
        raise ProblemError(
            f'method {method} runs on the CPU only\n  leave out device, or say "dual", "colgen" or "proximal"'
        )
    solution = solvers[method](
        problem, tol=tol, start=start, seconds=deadline.left, progress=progress, device=device
    )
    return replace(solution, method=f"{solution.method}; {reason}") if reason else solution


def _choose_on_device(problem: Problem | DeviceProblem, device: str) -> tuple[str, str]:
    """Pick a method that a device has, and the reason for it."""
    from fairmdp.kernels.bicgstab import scattered
    from fairmdp.solvers.on_device import check_device, kernels_for

    if problem.n_quotas > _FEW_QUOTAS:
        return "proximal", ""
    if not bounded(problem).any():
        return "colgen", _NOTHING_OWED
    kernels = kernels_for(problem, 0.0, 1.0, check_device(device))
    kernels.damping, kernels.most = 0.1, _SWEEPS
    f = scattered(kernels.full(0.0))
    enough = _FAST * float(f.max() - f.min())
    try:
        _, left = kernels.settle(kernels.follow(kernels.uniform()), kernels.full(0.0), f, enough)
    except MemoryError:  # the uniform policy's chain is as large as the model
        return "dual", "chosen because its quotas are few"
    return ("dual", _FAST_AND_FEW) if left <= enough else ("colgen", _SLOW_AND_FEW)


def choose(problem: Problem) -> tuple[str, str]:
    """Pick a method for a problem, and the reason for it."""
    mdp = problem.mdp
    if mdp.n_pairs <= _LP_PAIRS and mdp.P.nnz <= _LP_TRANSITIONS:
        return "lp", ""
    n_bounded = int(bounded(problem).sum())
    if n_bounded == 0:
        return "colgen", _NOTHING_OWED
    fast = mixes_fast(problem)
    if n_bounded <= _FEW_QUOTAS:
        if fast:
            return "dual", _FAST_AND_FEW
        if mdp.n_pairs <= _LP_STUCK_PAIRS and _stays_put(mdp):
            return "lp", "chosen because good policies stay where they began and the model is small"
        return "colgen", _SLOW_AND_FEW
    if fast and _disjoint_state_quotas(problem):
        return "proximal", "chosen because there are many disjoint quotas and the model mixes fast"
    if fast and n_bounded <= _SOME_QUOTAS:
        return "dual", "chosen because the model mixes fast and its quotas are not too many"
    if fast or _stays_put(mdp):
        return "lp", "chosen because no other method takes so many quotas on such a model"
    return "ipm", "chosen because the model mixes slowly and its quotas are many"


def bounded(problem: Problem | DeviceProblem) -> Bools:
    """Whether each quota asks for something, (K,); labels of a model are quotas that do not."""
    return (problem.at_least > 0) | (problem.at_most < 1)


def mixes_fast(problem: Problem) -> bool:
    """Whether a few sweeps of the uniform policy's chain wipe out a random function of the state."""
    return _remembered(problem.mdp, uniform_policy(problem.mdp), _SWEEPS) <= _FAST


def _stays_put(mdp: MDP) -> bool:
    """Whether the chain of a good policy, quotas aside, hardly forgets where it began."""
    h = np.zeros(mdp.n_states)
    for _ in range(_PLANNING):
        best = np.maximum.reduceat(mdp.r + mdp.P @ h, mdp.pair_ptr[:-1])
        h = 0.9 * (best - best[0]) + 0.1 * h
    values = mdp.r + mdp.P @ h
    greedy = np.zeros(mdp.n_pairs)
    greedy[np.lexsort((values, mdp.s_of))[mdp.pair_ptr[1:] - 1]] = 1.0  # the last of each state's run
    return _remembered(mdp, greedy, _LONG) > _STUCK


def _remembered(mdp: MDP, policy: Floats, sweeps: int) -> float:
    """What sweeps of a policy's chain leave of the span of a random function."""
    P = policy_matrix(mdp, policy)
    f = np.random.default_rng(0).standard_normal(mdp.n_states)
    span = float(np.ptp(f)) or 1.0
    for _ in range(sweeps):
        f = 0.9 * (P @ f) + 0.1 * f  # damped, so that periodic chains settle too
    return float(np.ptp(f)) / span


def _run(
    method: str,
    problem: Problem,
    tol: float,
    start: Solution | None,
    deadline: Deadline,
    progress: Progress | None,
) -> Solution:
    """Call a solver by name; those that need compiled kernels are imported only then."""
    seconds = deadline.left
    if method in ("lp", "ipm"):
        algorithm: Algorithm = "simplex" if method == "lp" else "ipm"
        return solve_lp(problem, tol=tol, algorithm=algorithm, seconds=seconds)
    if method == "dual":
        from fairmdp.solvers.dual import solve_dual

        return solve_dual(problem, tol=tol, start=start, seconds=seconds, progress=progress)
    if method == "proximal":
        from fairmdp.solvers.proximal import solve_proximal

        return solve_proximal(problem, tol=tol, start=start, seconds=seconds, progress=progress)
    if method == "colgen":
        from fairmdp.solvers.colgen import solve_colgen

        return solve_colgen(problem, tol=tol, start=start, seconds=seconds, progress=progress)
    if method == "mirror":
        from fairmdp.solvers.mirror import Options, solve_mirror

        return solve_mirror(problem, tol=tol, options=Options(seconds=seconds))
    raise ProblemError(f"there is no method {method!r}; there are auto, {', '.join(METHODS)}")


def _take_over(
    problem: Problem,
    stalled: str,
    first: Solution,
    tol: float,
    deadline: Deadline,
    progress: Progress | None,
) -> Solution:
    """Let the next method go on from what is known, and keep the better answer."""
    few = bounded(problem).sum() <= _FEW_QUOTAS
    if stalled == "lp" and few:
        following = "colgen"
    elif stalled != "lp" and problem.mdp.n_pairs <= _LP_RESCUE_PAIRS:
        following = "lp"
    else:
        return first
    second = _run(following, problem, tol, first, deadline, progress)
    better = second if _worth(second) > _worth(first) else first
    return replace(better, method=f"{better.method}; {stalled} stalled and {following} was asked too")


def _worth(solution: Solution) -> tuple[bool, bool, float]:
    settled = solution.status in (Status.OPTIMAL, Status.INFEASIBLE)
    return settled, solution.status is Status.FEASIBLE, -solution.gap if solution.has_policy else 0.0


def _stopped(solution: Solution) -> bool:
    return INTERRUPTED in solution.notes or OUT_OF_TIME in solution.notes


def _connected(solution: Solution) -> bool:
    """Whether a gap is left because classes had to be tied together, which no other method can help."""
    return solution.status is Status.FEASIBLE and any(CONNECTED in note for note in solution.notes)


def _disjoint_state_quotas(problem: Problem) -> bool:
    """Whether quotas ask for at_least only, over sets of states that do not overlap."""
    owed = problem.at_least > 0
    once = (problem.members.T @ owed.astype(float)).max(initial=0.0) <= 1
    sets = not problem.weighted.any()
    return bool(sets and (problem.at_most == 1).all() and problem.over_states[owed].all() and once)
