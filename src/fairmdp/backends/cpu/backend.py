"""The array functions that solvers ask for, on one CPU thread."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import Any

import numpy as np

from fairmdp import chains
from fairmdp.backends import cpu
from fairmdp.backends.base import ROUNDING, Backup, ChainTuning, Way, rare
from fairmdp.backends.by_quota import KernelSet, Layout, Place, layout, place
from fairmdp.chains.chain import Chain
from fairmdp.chains.policy import policy_matrix, policy_of, uniform_policy
from fairmdp.model.checks import Floats, Ints
from fairmdp.model.problem import Problem

_PATIENT_SWEEPS = 3000  # where factors would fill up


class CpuBackend:
    """A `Backend` over NumPy arrays.

    ``rewards`` (SA,) stand in for the problem's own, scaled to reach from 0 to 1.
    """

    device = "cpu"
    residuals = None

    def __init__(
        self, problem: Problem, rewards: Floats | None = None, *, tuning: ChainTuning | None = None
    ) -> None:
        mdp = problem.mdp
        self.host = self.stated = problem
        self.tuning = tuning or ChainTuning()
        self.n_states, self.n_pairs, self.n_quotas = mdp.n_states, mdp.n_pairs, problem.n_quotas
        self.n_transitions = mdp.P.nnz
        self.names, self.at_least, self.at_most = problem.names, problem.at_least, problem.at_most
        self.base, self.scale = float(mdp.r.min()), float(np.ptp(mdp.r)) or 1.0
        self.margin = ROUNDING * self.n_states
        self.each_state = False
        self.sweeps = 0
        self._rewards = rewards

    @cached_property
    def _model(self) -> Any:
        """The arrays that the kernels loop over."""
        mdp, P, sets = self.host.mdp, self.host.mdp.P, self.host.members.T.tocsr()
        return mdp.pair_ptr, P.indptr, P.indices, P.data, sets.indptr, sets.indices, sets.data, self._r

    @cached_property
    def _r(self) -> Floats:
        return (self.host.mdp.r - self.base) / self.scale if self._rewards is None else self._rewards

    @cached_property
    def aggregates(self) -> chains.Aggregates:
        """States in groups, by the uniform policy's chain: once for the chains of all policies."""
        return chains.aggregated(self.follow(self.uniform()))

    def require_memory(self, columns: int) -> None:
        """Nothing is known that would be worth saying."""

    def put(self, vector: Any) -> Any:
        """Vector that the kernels take."""
        return np.require(vector, requirements=["C", "W"])

    def get(self, vector: Any) -> Any:
        """Vector as it is."""
        return vector

    def full(self, value: float) -> Floats:
        """Vector over the states with one value."""
        return np.full(self.n_states, value)

    def improve(self, h: Floats, mu: Floats, tau: float) -> Backup:
        """Softmax policy of r + G.T mu at relative values h."""
        pi, e = np.empty(self.n_pairs), np.empty(self.n_states)
        return Backup(pi, e, *cpu.kernels.soft_backup(self._model, mu, h, tau, rare(tau), pi, e))

    def greedy(self, h: Floats, mu: Floats, choice: Any, tie: float) -> tuple[Any, Backup]:
        """Best pair of every state at h, the old one where it is within tie of it."""
        choice, e = choice.copy(), np.empty(self.n_states)
        low, high = cpu.kernels.greedy_backup(self._model, mu, h, tie, choice, e)
        return choice, Backup(self.play(choice), e, low, high, high)

    def first_pairs(self) -> Any:
        """First pair of every state."""
        return self.host.mdp.pair_ptr[:-1].astype(np.int32)

    def play(self, choice: Ints) -> Floats:
        """Policy of one pair in every state."""
        pi = np.zeros(self.n_pairs)
        pi[choice] = 1.0
        return pi

    def uniform(self) -> Floats:
        """Every action of a state with the same probability."""
        return uniform_policy(self.host.mdp)

    def read_policy(self, x: Floats, towards: Any) -> Floats:
        """Policy of an occupancy; states without mass get an action towards the rest, by shortest paths."""
        return policy_of(self.host.mdp, x)

    def follow(self, pi: Floats) -> Any:
        """Chain of a policy."""
        return cpu.kernels.chain(self._model, pi)

    def way(self, name: str, **how: Any) -> Way:
        """One of the ways to solve chains."""
        if name == "sweeps":
            return cpu.ways.Sweeping(self, **how)
        if name in ("multigrid", "krylov"):
            return cpu.ways.Slowly(self, alone=name == "multigrid")
        return cpu.ways.Factoring(self, **how)

    def patient(self) -> Way:
        """One way for chains on which sweeps stop short: factors, or many damped sweeps."""
        if 1 < self.n_states <= self.tuning.patient and not self.tuning.fill_up(self):
            return self.way("factors")
        return self.way("sweeps", damping=0.1, most=_PATIENT_SWEEPS)

    def stationary(self, pi: Floats, start: Floats | None = None) -> tuple[Floats, float]:
        """Stationary distribution of a policy and its error, infinite where there are several."""
        chain = Chain.of(self.host.mdp, pi)
        if len(chain.closed_classes) > 1:
            return self.full(np.nan), np.inf
        return chain.shares, 0.0

    def remembered(self, pi: Floats, sweeps: int, enough: float) -> float:
        """What sweeps of a policy's chain leave of the span of a random function, until that is enough."""
        P = policy_matrix(self.host.mdp, pi)
        f = np.random.default_rng(0).standard_normal(self.n_states)
        span = float(np.ptp(f)) or 1.0
        for _ in range(sweeps):
            if np.ptp(f) <= enough * span:
                break
            f = 0.9 * (P @ f) + 0.1 * f  # damped, so that periodic chains settle too
        return float(np.ptp(f)) / span

    def totals(self, pi: Floats, nu: Floats, e: Floats) -> tuple[Floats, float, float]:
        """Share of each quota, reward, and mean of e under a policy and its stationary distribution."""
        shares = np.empty(self.n_quotas)
        gain, mean = cpu.kernels.totals(self._model, pi, nu, e, shares)
        return shares, gain, mean

    def occupancy(self, pi: Floats, nu: Floats) -> Floats:
        """Share of time of each pair."""
        return pi * nu[self.host.mdp.s_of]

    def among(self, quotas: Ints) -> CpuBackend:
        """The same arrays with some of the quotas only."""
        part = copy(self)
        sets = self.host.members[quotas].T.tocsr()
        part.n_quotas = quotas.size
        part.__dict__["_model"] = (*self._model[:4], sets.indptr, sets.indices, sets.data, self._r)
        return part

    def quota_block(self, pi: Floats, shares: Floats) -> Any:
        """What each quota counts in each state under a policy, less its share, (S, K)."""
        F = np.empty((self.n_states, self.n_quotas), np.float32)
        cpu.kernels.quota_block(self._model, pi, shares, F)
        return F

    def curvature(self, pi: Floats, nu: Floats, H: Any) -> Floats:
        """Mean covariance of the quotas' pair values under the policy, (K, K)."""
        C = np.empty((self.n_quotas, self.n_quotas))
        cpu.kernels.curvature(self._model, pi, nu, H, C)
        return C

    def shift(self, h: Floats, H: Any, d: Floats) -> Floats:
        """Return h + H d."""
        out = np.empty_like(h)
        cpu.kernels.shift(h, H, d, out)
        return out

    def by_quota(self) -> tuple[Layout | None, Place, KernelSet]:
        """The problem with states and pairs ordered by quota, and the functions of the per-state solver."""
        order = layout(self.host)
        kernels: KernelSet = cpu.proximal
        return order, place(self.host, order, self._r, kernels), kernels
