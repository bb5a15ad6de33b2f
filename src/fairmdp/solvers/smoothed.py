"""The entropy-smoothed MDP at some prices, which Newton's methods look at; `dual` has the formulas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairmdp.backends.base import Backend, Backup
from fairmdp.model.checks import Floats
from fairmdp.solvers.request import Request

_ROUGH = 1e-2  # error of a stationary distribution in temperatures: what is made of it is known as well
_EXACT = 1e-9
_MOST_LEFT, _LEAST_LEFT = 0.2, 0.01  # of what a policy's values are off by, after they were swept
_FAR = 4.0  # loss to entropy, in tolerances, at which a temperature is not the last one


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

    def evaluate(self, mu: Floats, h: Any, nu: Any, tau: float, entropy: float | None = None) -> Point:
        """Soft policy iteration at fixed prices, from a guess of the relative values.

        Where more is expected to be lost to entropy than a ceiling can make good, less exact values will do.
        """
        backend, chains = self.backend, self.chains
        last = (tau * tau if entropy is None else entropy) < _FAR * self.request.tol
        enough = min(1e-2 * tau, 0.2 * self.request.tol) if last else 1e-2 * tau
        backup = backend.improve(h, mu, tau)
        chain = backend.follow(backup.pi)
        before = 0.0
        for _ in range(self.improvements):
            self.request.deadline.check()
            span = backup.high - backup.low
            if span <= enough:
                break
            # What the next policy will be off by itself is not worth sweeping below.
            part = min(max(_MOST_LEFT * span / before, _LEAST_LEFT), _MOST_LEFT) if before else _MOST_LEFT
            h, left = chains.evaluate(chain, h, backup.e, max(part * span, 0.3 * enough))
            before = span
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
