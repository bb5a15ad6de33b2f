"""The entropy-smoothed MDP at some prices, which Newton's methods look at; `dual` has the formulas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairmdp.backends.base import Backend, Backup
from fairmdp.model.checks import Floats
from fairmdp.solvers.request import Request

_ROUGH = 1e-3  # error of a stationary distribution in temperatures: what is made of it is known as well
_EXACT = 1e-9
_FAR = 4.0  # entropy, in tolerances, with which a temperature is not the last one


class StallError(Exception):
    """Sweeps over the chain of a policy did not come to rest, or rounding leaves no step to take."""


@dataclass(frozen=True, eq=False)
class Point:
    """The smoothed MDP at some prices, and what it amounts to."""

    mu: Floats  # (K,)
    tau: float
    h: Any  # (S,)
    nu: Any  # (S,)
    backup: Backup
    chain: Any
    shares: Floats  # (K,)
    gain: float  # r @ x
    beta: float  # smoothed gain of the priced MDP
    error: float  # of nu, in L1

    @property
    def entropy(self) -> float:
        """Part of beta that is paid for entropy: how far the policy is from the best at these prices."""
        return self.beta - self.gain - float(self.mu @ self.shares)

    def entropy_at(self, tau: float) -> float:
        """The same at another temperature, roughly."""
        return self.entropy * (tau / self.tau) ** 2


class Smoothed:
    """Soft policy iteration on one backend; its chains are swept until somebody takes another way."""

    def __init__(self, backend: Backend, request: Request, improvements: int, unsettled: int) -> None:
        self.backend, self.request = backend, request
        self.improvements, self.may_be_unsettled = improvements, unsettled
        self.chains = backend.way("sweeps")
        self.unsettled = 0

    def evaluate(self, mu: Floats, h: Any, nu: Any, tau: float, entropy: float = 0.0) -> Point:
        """Soft policy iteration at fixed prices, from a guess of the relative values.

        Where about so much will be lost to entropy that no ceiling can close the gap, less will do.
        """
        backend, chains = self.backend, self.chains
        enough = 1e-2 * tau
        if entropy < _FAR * self.request.tol:
            enough = max(min(enough, 0.2 * self.request.tol), 1e-3 * tau)
        backup = backend.improve(h, mu, tau)
        chain = backend.follow(backup.pi)
        for _ in range(self.improvements):
            self.request.deadline.check()
            span = backup.high - backup.low
            if span <= enough:
                break
            h, left = chains.evaluate(chain, h, backup.e, 0.02 * span)
            require(left <= 0.5 * span)
            backup = backend.improve(h, mu, tau)
            chain = backend.follow(backup.pi)
        else:
            self.unsettled += 1
            require(self.unsettled <= self.may_be_unsettled)
        return self._point(mu, tau, h, nu, backup, chain, max(_ROUGH * tau, _EXACT))

    def settled(self, point: Point) -> Point:
        """The same point with a stationary distribution that claims may rest on."""
        exact = min(_EXACT, 1e-5 * point.tau)
        if point.error <= exact:
            return point
        return self._point(point.mu, point.tau, point.h, point.nu, point.backup, point.chain, exact)

    def _point(
        self, mu: Floats, tau: float, h: Any, nu: Any, backup: Backup, chain: Any, error: float
    ) -> Point:
        """What a policy amounts to, its stationary distribution known within an error in L1."""
        nu, left = self.chains.stationary(chain, nu, error)
        require(left <= 10 * error)
        return Point(mu, tau, h, nu, backup, chain, *self.backend.totals(backup.pi, nu, backup.e), left)


def require(converged: bool) -> None:
    """Raise where a step did not come to its end."""
    if not converged:
        raise StallError
