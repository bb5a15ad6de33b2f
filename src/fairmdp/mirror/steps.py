"""Step sizes, radius and length of a run of Algorithm 1: from a pilot, as published, or from the theorem."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.sparse import csr_array

from fairmdp.backends.flow_lp import FlowLP
from fairmdp.chains.chain import Chain
from fairmdp.chains.mixing import mixing_time
from fairmdp.errors import ProblemError
from fairmdp.mirror.polytope import QuotaPolytope
from fairmdp.model.checks import Floats
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.model.simulator import CheckedSimulator

_PILOT_SAMPLES = 100  # per pair
_PILOT_PAIRS = 5000  # largest model whose pilot program is solved
_MAX_EXPONENT = 300.0  # a single factor exp(300) is the most that the kernels take
_QUICK = 1e7  # steps a second of the quickest kernel, to judge what is out of reach


@dataclass(frozen=True)
class Steps:
    """Step sizes of ``x`` and ``lam``, and the radius M of the box ``|lam| <= 2 M``; rewards in [0, 1]."""

    eta_x: float
    eta_lam: float
    radius: float

    def for_batch(self, batch: int) -> Steps:
        """Steps along the mean of so many samples that make the same progress per sample."""
        return Steps(self.eta_x * batch, self.eta_lam * batch, self.radius)

    def check(self, n_pairs: int) -> None:
        """Raise unless the numbers make sense together."""
        for name in ("eta_x", "eta_lam", "radius"):
            value = getattr(self, name)
            if not (isinstance(value, float | int) and 0 < value < math.inf):
                raise ProblemError(f"{name} is {value!r}, expected a positive number")
        largest = self.eta_x * n_pairs * (4 * self.radius + 1)
        if largest > _MAX_EXPONENT:
            raise ProblemError(
                f"a step could change a weight by exp({largest:.3g}), the limit is exp({_MAX_EXPONENT:g})\n"
                "  lower eta_x or the radius"
            )


PUBLISHED = Steps(eta_x=0.01, eta_lam=0.01, radius=100.0)
"""What the paper's experiment uses; its bias does not vanish however long the run."""


def pilot_steps(
    checked: CheckedSimulator,
    shell: MDP,
    polytope: QuotaPolytope,
    samples: int,
    rng: np.random.Generator,
) -> tuple[Steps, float, float]:
    """Find steps for a budget from a small empirical model; also the lowest reward and the span seen.

    The multipliers of the pilot's Fair-LP tell how large ``lam`` gets. Too small a radius breaks quotas
    silently and too large a one only costs samples, so twice the pilot's half span is taken.
    """
    if shell.n_pairs > _PILOT_PAIRS:
        raise ProblemError(
            f"the pilot takes models of up to {_PILOT_PAIRS} pairs, this one has {shell.n_pairs}\n"
            "  give settings=Steps(eta_x, eta_lam, radius)"
        )
    per_pair = min(_PILOT_SAMPLES, samples // (4 * shell.n_pairs))
    if per_pair < 1:
        raise ProblemError(
            f"{samples} samples are too few to find step sizes\n"
            f"  give at least {4 * shell.n_pairs}, or settings=Steps(eta_x, eta_lam, radius)"
        )
    P, r = _empirical_model(checked, shell, per_pair, rng)
    low, span = float(r.min()), float(np.ptp(r)) or 1.0
    h = _pilot_bias(shell, polytope, P, (r - low) / span)
    half_span = max(float(np.ptp(h)) / 2, 0.05)
    centred = h - (h.max() + h.min()) / 2
    steps = max((samples - checked.samples) / 2, 1.0)
    L = shell.n_pairs
    return (
        Steps(
            eta_x=math.sqrt(max(math.log(L), 1.0) / (L * (1 + 2 * half_span**2)) / steps),
            eta_lam=max(float(np.linalg.norm(centred)), 0.05) / math.sqrt(2 * steps),
            radius=2 * half_span,
        ),
        low,
        span,
    )


def _empirical_model(
    checked: CheckedSimulator, shell: MDP, per_pair: int, rng: np.random.Generator
) -> tuple[csr_array, Floats]:
    pairs = np.repeat(np.arange(shell.n_pairs), per_pair)
    states = shell.s_of[pairs]
    s_next, rewards = checked.sample(states, pairs - shell.pair_ptr[states], rng)
    P = csr_array((np.full(pairs.size, 1 / per_pair), (pairs, s_next)), shape=shell.P.shape)
    P.sum_duplicates()
    return P, np.bincount(pairs, weights=rewards) / per_pair


def _pilot_bias(shell: MDP, polytope: QuotaPolytope, P: csr_array, r: Floats) -> Floats:
    """Multipliers of flow in the pilot's Fair-LP, with the quotas eased until it has a solution."""
    model = MDP(P, r, shell.s_of)
    for ease in (1.0, 0.9, 0.5, 0.0):
        answer = FlowLP(_owing(model, polytope, polytope.rho * ease), r).run()
        if answer is not None:
            return answer.h
    raise AssertionError("a model without quotas always has a policy")


@dataclass(frozen=True)
class Theory:
    """What the theorem asks for, with corrected constants and as printed in the paper.

    ``radius``, ``eta_x``, ``eta_lam`` and ``steps`` guarantee, in expectation, a gain within ``3 eps`` of the
    best (in rewards rescaled to [0, 1]) and quotas within ``shortfall``: an absolute share, or a fraction of
    each quota for the multiplicative guarantee. ``paper_*`` are the printed formulas; they ask for more and
    guarantee less. ``seconds`` is what ``steps`` take at ten million a second.
    """

    eps: float
    guarantee: str
    t_mix: float
    d: float
    radius: float
    eta_x: float
    eta_lam: float
    steps: float
    shortfall: float
    paper_radius: float
    paper_steps: float

    @property
    def seconds(self) -> float:
        """Time for so many steps at ten million a second."""
        return self.steps / _QUICK

    @property
    def settings(self) -> Steps:
        """The step sizes, for `solve_mirror` and `learn_mirror`."""
        return Steps(self.eta_x, self.eta_lam, self.radius)

    def __str__(self) -> str:
        years = self.seconds / 3.156e7
        span = f"{years:.1g} years" if years > 1 else f"{self.seconds / 3600:.1g} hours"
        verdict = f"out of reach: {span} at 1e7 steps a second" if self.seconds > 3600 else "within reach"
        return (
            f"eps {self.eps:g}, {self.guarantee}: M = {self.radius:.4g}, {self.steps:.3g} steps, {verdict} "
            f"(as printed in the paper: M = {self.paper_radius:.4g}, {self.paper_steps:.3g} steps)"
        )


def theory(
    problem: Problem,
    eps: float,
    *,
    t_mix: float | None = None,
    policy: Floats | None = None,
    guarantee: Literal["additive", "multiplicative"] = "additive",
) -> Theory:
    """Compute the radius, steps and length that guarantee an accuracy, and say whether they are in reach.

    Parameters
    ----------
    problem
        Model and quotas; quotas over disjoint or any other sets.
    eps
        Accuracy, in rewards rescaled to [0, 1]; above 1/3 it promises nothing.
    t_mix
        Mixing time of the model; computed or bounded if not given.
    policy
        A policy that meets every quota with room to spare; the most generous one is found if not given.
    guarantee
        ``"additive"``: shares fall short by at most eps / (2 (1 + d)); ``"multiplicative"``: by at most
        eps times the quota, at the price of a radius of 1 / rho.

    Notes
    -----
    The paper's M = 2 t_mix (1 + max n / (1 - n rho)) holds only if a policy with equal shares exists, is
    twice what is needed (a shift of lam is free), and its bound on T has the number of pairs where the
    number of states belongs. Ours: ``d = max (1 - v_f) / (nu_f - rho)`` over the quotas for a strictly fair
    policy f with gain v_f, and ``M = t_mix (1 + d)``.
    """
    if not 0 < eps < 1:
        raise ProblemError(f"eps is {eps}, expected an accuracy between 0 and 1")
    mdp = problem.mdp
    polytope = QuotaPolytope.of(problem)
    t_mix = float(mixing_time(mdp).steps if t_mix is None else t_mix)
    if not 1 <= t_mix < math.inf:
        raise ProblemError(f"t_mix is {t_mix}: give a finite mixing time of at least 1")
    d = _multiplier_bound(problem, polytope, policy)
    L, S = mdp.n_pairs, mdp.n_states
    radius = t_mix * (1 + d)
    if guarantee == "multiplicative":
        radius = t_mix * max(1 + d, float((1 / polytope.rho).max(initial=0.0)))
    elif guarantee != "additive":
        raise ProblemError(f"there is no guarantee {guarantee!r}; there are additive and multiplicative")
    eta_lam = eps / 16
    eta_x = eps / (8 * L * (4 * radius + 1) ** 2)
    steps = max(8 * math.log(L) / (eta_x * eps), 32 * radius**2 * S / (eta_lam * eps))
    printed = [S / (1 - S * rho) for rho in polytope.rho if rho * S < 1]
    paper_radius = 2 * t_mix * (1 + max(printed, default=0.0))
    paper_eta_x = eps / (8 * L * (24 * paper_radius**2 + 1))
    paper_steps = max(8 * math.log(L) / (paper_eta_x * eps), 32 * paper_radius**2 * S / (eta_lam * eps))
    shortfall = eps if guarantee == "multiplicative" else t_mix * eps / radius
    return Theory(
        eps, guarantee, t_mix, d, radius, eta_x, eta_lam, steps, shortfall, paper_radius, paper_steps
    )


def _multiplier_bound(problem: Problem, polytope: QuotaPolytope, policy: Floats | None) -> float:
    """``max (1 - v_f) / (nu_f - rho)`` for a strictly fair policy f; 0 where nothing is owed."""
    mdp = problem.mdp
    if polytope.rho.size == 0:
        return 0.0
    if policy is None:
        x = _most_generous(problem, polytope)
    else:
        x = policy * Chain.of(mdp, policy).shares[mdp.s_of]
    slack = polytope.members @ x - polytope.rho
    if slack.min() <= 1e-12:
        whose = "the given policy does not meet" if policy is not None else "no policy meets"
        raise ProblemError(
            f"{whose} the quotas with room to spare\n"
            "  the guarantee of mirror descent needs some; lower the quotas or use method 'lp'"
        )
    low, span = float(mdp.r.min()), float(np.ptp(mdp.r)) or 1.0
    gain = float((mdp.r - low) @ x) / span
    return float(((1 - gain) / slack).max())


def _most_generous(problem: Problem, polytope: QuotaPolytope) -> Floats:
    """Occupancy with the largest worst slack."""
    narrowed = _owing(problem.mdp, polytope, polytope.rho)
    raised = csr_array(-np.ones((1, polytope.rho.size)))
    answer = FlowLP(narrowed, np.zeros(problem.mdp.n_pairs), extra=raised, c_extra=np.ones(1)).run()
    if answer is None:
        raise ProblemError("no policy meets these quotas; see solve() for the reason and the nearest ones")
    return answer.x


def _owing(mdp: MDP, polytope: QuotaPolytope, rho: Floats) -> Problem:
    """What asks for something in a polytope, with other shares, as a problem."""
    K = rho.size
    names = [f"q{k}" for k in range(K)]
    return Problem.from_members(mdp, names, polytope.members, rho, np.ones(K), np.zeros(K, bool))
