"""The experiments of the paper's Section 6, and one that it does not show, on its three-state MDP.

`convergence` and `quotas` follow the authors' protocol draw by draw. Run k takes its uniforms from
``np.random.default_rng(seed + k).random((T, 4))``, starts at the uniform x and ``lam == 0``, and averages
the iterates after each step. Two variants of the step:

``definition``
    What Algorithm 1 says: KL step in x, ``eta`` in lam.
``published``
    What the authors' script does: the KL divergence the other way round, and half of ``eta`` in lam.

They differ by more than chance, mostly because of the halved step, so every number names its variant.

`bias_floor` runs the same algorithm for longer. Constant steps stop at a distance from the optimum that is
proportional to ``eta``, and no averaging removes it; our default, whose steps shrink with the horizon, does
not stop.

References
----------
.. [1] Ghalme, Nair, Patil and Zhou, "Long-Term Resource Allocation Fairness in Average Markov Decision
       Process (AMDP) Environment", AAMAS 2022, Section 6.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from fairmdp import scenarios
from fairmdp.backends.flow_lp import FlowLP
from fairmdp.chains.chain import Chain
from fairmdp.chains.policy import policy_of
from fairmdp.errors import ProblemError
from fairmdp.mirror import kernels, tables
from fairmdp.mirror.polytope import QuotaPolytope, gap
from fairmdp.mirror.primitives import stream
from fairmdp.mirror.runs import in_threads, tabulate
from fairmdp.mirror.solve import learn_model
from fairmdp.model.checks import Floats, Ints
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem

Variant = Literal["definition", "published"]
VARIANTS: tuple[Variant, ...] = get_args(Variant)

M = 100.0
"""Half of the bound on lam in the paper's experiments, and the weight of broken flow in its gap."""

ETA = 0.01
"""Step size of the paper's experiments, for x and lam."""

RHO = (0.1, 0.1, 0.25)
RHO2 = (0.1, 0.15, 0.2, 0.25, 0.3)

QUANTITIES = ("reward", "reward_avg", "nu0", "nu1", "nu2", "gap")
"""What is recorded: ``r @ x`` of the policy's own chain, ``r @ x_avg``, the policy's shares, and the gap."""

_CODES = {"definition": kernels.DEFINITION, "published": kernels.PUBLISHED}
_HALVINGS = 10  # `bias_floor` records T, T/2, ..., T/2**10
_SHORTEST = 32  # steps that leave the default something to learn its step sizes from

Tick = Callable[[], object]


@dataclass(frozen=True, eq=False)
class Curve:
    """What repeated runs showed at the recorded steps."""

    label: str  # variant, or schedule of steps
    rho: tuple[float, ...]  # (S,)
    optimum: float  # of the exact linear program
    t: Ints  # (R,) recorded steps
    eta: Floats  # (R,) step size in lam of the runs that gave each record
    samples: dict[str, Floats]  # quantity -> (runs, R)

    @property
    def runs(self) -> int:
        """Number of runs."""
        return len(self.samples["reward"])

    def mean(self, quantity: str) -> Floats:
        """Mean over the runs, (R,)."""
        return np.asarray(self.samples[quantity].mean(axis=0))

    def std(self, quantity: str) -> Floats:
        """Standard deviation over the runs (divided by their number), (R,)."""
        return np.asarray(self.samples[quantity].std(axis=0))

    def at(self, t: int, quantity: str) -> tuple[float, float]:
        """Mean and standard deviation at a recorded step."""
        k = int(np.flatnonzero(self.t == t)[0])
        return float(self.mean(quantity)[k]), float(self.std(quantity)[k])


def convergence(
    *,
    variant: Variant = "definition",
    runs: int = 100,
    steps: int = 20_000,
    seed: int = 0,
    workers: int | None = None,
    tick: Tick | None = None,
) -> Curve:
    """Reward, shares and gap against the number of steps, for quotas (0.1, 0.1, 0.25).

    Parameters
    ----------
    variant
        Whose step, see the module's description.
    runs, steps
        The paper has 100 runs of 20,000 steps.
    seed
        Runs use the seeds ``seed`` to ``seed + runs - 1``.
    workers
        Threads; results do not depend on it. By default one per core.
    tick
        Called after each run, from any thread.
    """
    return _protocol_curve(RHO, variant, runs, steps, seed, workers, tick)


def quotas(
    *,
    variant: Variant = "definition",
    runs: int = 10,
    steps: int = 10_000,
    seed: int = 0,
    workers: int | None = None,
    tick: Tick | None = None,
) -> list[Curve]:
    """As `convergence`, for what is owed to the third state in 0.1, 0.15, 0.2, 0.25 and 0.3.

    The paper has 10 runs of 10,000 steps.
    """
    return [_protocol_curve((0.1, 0.1, rho2), variant, runs, steps, seed, workers, tick) for rho2 in RHO2]


def bias_floor(
    *,
    runs: int = 20,
    steps: int = 1_000_000,
    seed: int = 0,
    workers: int | None = None,
    tick: Tick | None = None,
) -> list[Curve]:
    """Constant steps against our default, for quotas (0.1, 0.1, 0.25), at steps, steps/2, steps/4, ...

    Three schedules: ``constant`` is the paper's, ``eta == 0.01`` and the average of all iterates;
    ``constant-half`` averages the later half of the same runs, which forgets the start; ``default`` is what
    `solve_mirror` does unless told otherwise, a run of its own for each T: a pilot's radius, steps in
    proportion to ``1/sqrt(T)``, iterates weighted by time.
    """
    if steps < _SHORTEST << _HALVINGS:
        raise ProblemError(f"steps is {steps}, expected at least {_SHORTEST << _HALVINGS}")
    problem = scenarios.three_state(RHO)
    polytope = QuotaPolytope.of(problem)
    model = tabulate(problem.mdp, polytope, problem.mdp.r)
    marks = np.array([steps >> k for k in range(_HALVINGS + 1, -1, -1)])
    horizons = marks[1:]

    def run(own: np.random.SeedSequence) -> tuple[Floats, Floats]:
        first, *others = own.spawn(1 + horizons.size)
        sums = _dense_sums(model, polytope, first, marks)
        learned = [
            learn_model(problem, steps=int(T), seed=each)[0] for T, each in zip(horizons, others, strict=True)
        ]
        if tick is not None:
            tick()
        default = np.array([[*each.occupancy, *each.lam] for each in learned])
        averages = np.stack([sums[1:] / horizons[:, None], _later_half(sums, marks), default])
        return averages, np.array([each.settings.eta_lam for each in learned])

    results = in_threads(run, np.random.SeedSequence(seed).spawn(runs), workers)
    averages = np.stack([found for found, _ in results])
    best = optimum(problem)[0]
    constant, pilots = np.full(horizons.size, ETA), np.mean([eta for _, eta in results], axis=0)
    schedules = [("constant", constant), ("constant-half", constant), ("default", pilots)]
    return [
        Curve(label, RHO, best, horizons, eta, _measure(problem, averages[:, k]))
        for k, (label, eta) in enumerate(schedules)
    ]


def optimum(problem: Problem) -> tuple[float, Floats]:
    """Best gain, by the exact linear program, and the shares of the states under that policy, (S,)."""
    mdp = problem.mdp
    policy = policy_of(mdp, FlowLP(problem, mdp.r).find().x)
    shares = Chain.of(mdp, policy).shares
    return float(mdp.r @ (policy * shares[mdp.s_of])), shares


def recorded_steps(steps: int) -> Ints:
    """Where runs are looked at: in geometric progression to steps/20, then ever more sparsely."""
    if steps < 800 or steps % 80:
        raise ProblemError(f"steps is {steps}, expected a multiple of 80 that is at least 800")
    early = np.geomspace(10, steps // 20, 16)[:-1].round().astype(np.int64)
    middle = np.arange(steps // 20, steps // 4, steps // 80)
    late = np.arange(steps // 4, steps + 1, steps // 40)
    return np.concatenate([early, middle, late])


def curves_csv(curves: Sequence[Curve]) -> bytes:
    """Curves of `convergence` or `quotas` as CSV, one row per curve and recorded step."""
    return _csv(["variant", "rho2", "t"], curves, [[c.label, c.rho[2], t] for c in curves for t in c.t])


def floor_csv(curves: Sequence[Curve]) -> bytes:
    """Curves of `bias_floor` as CSV, one row per schedule and horizon."""
    rows = [[c.label, f"{eta:.12g}", t] for c in curves for eta, t in zip(c.eta, c.t, strict=True)]
    return _csv(["schedule", "eta", "t"], curves, rows)


def _csv(head: list[str], curves: Sequence[Curve], keys: list[list[Any]]) -> bytes:
    """Keys beside means and deviations, with twelve digits: the last bits belong to the machine."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*head, *(f"{q}_{what}" for q in QUANTITIES for what in ("mean", "std"))])
    numbers = [np.stack([f(q) for q in QUANTITIES for f in (c.mean, c.std)], axis=1) for c in curves]
    for key, row in zip(keys, np.concatenate(numbers), strict=True):
        writer.writerow([*key, *(f"{value:.12g}" for value in row)])
    return text.getvalue().encode()


def _protocol_curve(
    rho: tuple[float, ...],
    variant: Variant,
    runs: int,
    steps: int,
    seed: int,
    workers: int | None,
    tick: Tick | None,
) -> Curve:
    if variant not in VARIANTS:
        raise ProblemError(f"variant is {variant!r}, expected {' or '.join(VARIANTS)}")
    problem = scenarios.three_state(rho)
    marks = recorded_steps(steps)

    def run(k: int) -> Floats:
        sums = _protocol_sums(problem, marks, np.random.default_rng(k), variant)
        if tick is not None:
            tick()
        return sums / marks[:, None]

    averages = np.stack(in_threads(run, range(seed, seed + runs), workers))
    eta = np.full(marks.size, ETA)
    return Curve(variant, rho, optimum(problem)[0], marks, eta, _measure(problem, averages))


def _protocol_sums(problem: Problem, marks: Ints, rng: np.random.Generator, variant: Variant) -> Floats:
    """Sums of the iterates (x, lam) up to each mark, (R, SA + S)."""
    mdp = problem.mdp
    # Copies, since kernels compile anew for read-only or 32-bit arrays.
    indptr, indices, s_of = (np.array(v, np.int64) for v in (mdp.P.indptr, mdp.P.indices, mdp.s_of))
    data, r, rho = (np.array(v) for v in (mdp.P.data, mdp.r, problem.at_least))
    x, lam = np.full(mdp.n_pairs, 1 / mdp.n_pairs), np.zeros(mdp.n_states)
    x_sum, lam_sum = np.zeros_like(x), np.zeros_like(lam)
    uniforms = rng.random((marks[-1], 4))
    sums = np.empty((marks.size, mdp.n_pairs + mdp.n_states))
    for k, (begin, end) in enumerate(zip([0, *marks[:-1]], marks, strict=True)):
        kernels.run_protocol(
            uniforms[begin:end], indptr, indices, data, r, s_of, rho, ETA, 2 * M, _CODES[variant],
            x, lam, x_sum, lam_sum,
        )  # fmt: skip
        sums[k] = *x_sum, *lam_sum
    return sums


def _dense_sums(
    model: tables.Model, polytope: QuotaPolytope, seed: np.random.SeedSequence, marks: Ints
) -> Floats:
    """As `_protocol_sums`, by the fast kernel on a stream of its own."""
    L, S = model.r.size, polytope.n_units
    state = tables.start_dense(model, polytope.quotas, np.full(L, 1 / L), S, stream(seed))
    sums = np.empty((marks.size, L + S))
    for k, steps in enumerate(np.diff(marks, prepend=0)):
        kernels.dense_run(model, polytope.quotas, state, steps, ETA, ETA, 2 * M)
        sums[k, model.order] = state.x_sum
        sums[k, L:] = state.lam_sum
    return sums


def _later_half(sums: Floats, marks: Ints) -> Floats:
    """Averages between each mark and the next, which is twice as far."""
    return np.asarray(np.diff(sums, axis=0) / np.diff(marks)[:, None])


def _measure(problem: Problem, averages: Floats) -> dict[str, Floats]:
    """What is recorded of averaged iterates (x, lam), (runs, R, SA + S): each quantity (runs, R)."""
    mdp, polytope = problem.mdp, QuotaPolytope.of(problem)
    x, lam = np.split(averages.reshape(-1, mdp.n_pairs + mdp.n_states), [mdp.n_pairs], axis=1)
    pi = x / np.add.reduceat(x, mdp.pair_ptr[:-1], axis=1)[:, mdp.s_of]
    nu = _long_run_shares(mdp, pi)
    rows = {
        "reward": (pi * nu[:, mdp.s_of]) @ mdp.r,
        "reward_avg": x @ mdp.r,
        **{f"nu{s}": nu[:, s] for s in range(mdp.n_states)},
        "gap": np.array([gap(problem, *point, M, polytope=polytope) for point in zip(x, lam, strict=True)]),
    }
    return {quantity: values.reshape(averages.shape[:2]) for quantity, values in rows.items()}


def _long_run_shares(mdp: MDP, pi: Floats) -> Floats:
    """Shares of many policies (N, SA) at once, (N, S): ``nu (I - P_pi) == 0`` with one row for the mass.

    Every policy of this MDP is ergodic, so the system is regular; `Chain` is the careful way for others.
    """
    P_pi = np.add.reduceat(pi[:, :, None] * mdp.P.toarray(), mdp.pair_ptr[:-1], axis=1)
    A = np.eye(mdp.n_states) - P_pi.transpose(0, 2, 1)
    A[:, -1] = 1.0
    b = np.zeros((mdp.n_states, 1))
    b[-1] = 1.0
    return np.asarray(np.linalg.solve(A, b)[:, :, 0])
