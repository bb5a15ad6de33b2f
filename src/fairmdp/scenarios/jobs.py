"""The paper's job scheduling: servers shared by clients who pay differently and do not like to wait."""

from __future__ import annotations

import math
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array, csr_array

from fairmdp.model.checks import Ints, real_vector
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.scenarios.grid import binomial, grid, joint, strides
from fairmdp.scenarios.parameters import (
    RATE,
    SHARE,
    check_size,
    limits_below,
    numbers,
    owed_each,
    payments,
    probability,
    whole_number,
    whole_numbers,
)


def jobs(
    clients: int = 2,
    *,
    queue: ArrayLike = (4,),
    capacity: int = 2,
    arrivals: ArrayLike = (1.5, 1.0),
    withdraw: float = 0.05,
    pay: ArrayLike = (1.0, 0.3),
    limit: ArrayLike = (1,),
    quota: ArrayLike = (0.0, 0.3),
    max_arrivals: int | None = None,
    max_withdrawals: int | None = None,
) -> Problem:
    """Return job scheduling for clients who pay differently; each is owed a short queue.

    A computing centre serves up to ``capacity`` jobs per step, picked from the queues of its clients. The
    first client pays well, so left alone the centre lets the second one's queue run full. Per step: the
    chosen jobs are served; each job left behind is withdrawn with probability ``withdraw``; new jobs
    arrive, Poisson for each client, and those that find the queue full are dropped. Dropped jobs do not
    show in the length of a queue: `job_flows` reports them.

    The state ``n1,n2,...`` holds the queue lengths, ``prod(queue + 1)`` states; the actions of a state are
    all ``serve m1,m2,...`` with ``m <= n`` and at most ``capacity`` jobs in all, idling included. With
    ``withdraw > 0`` all queues may empty from any state under any policy, so every policy has one closed
    class, which is aperiodic; without the two caps below, every transition has positive probability. With
    ``withdraw = 0`` some policies have several closed classes.

    Parameters
    ----------
    clients
        Number of clients. The parameters per client take that many numbers, or one that is meant for all.
    queue
        Longest queue of each client.
    capacity
        Jobs that are served per step, at most.
    arrivals
        Mean number of new jobs of each client per step, above 0.
    withdraw
        Probability that a waiting job is withdrawn in a step, from 0 to below 1.
    pay
        What each client pays for a job. The reward is scaled to at most 1:
        ``pay @ m / (capacity max(pay))``.
    limit, quota
        Client c is owed a share ``quota[c]`` of the time with at most ``limit[c]`` jobs waiting, quota
        ``client{c}``, counted from 1. Without a quota, 0, its share is still reported.
    max_arrivals, max_withdrawals
        Caps on the new and on the withdrawn jobs of one client in one step; the probability of more is
        put on the cap itself. Uncapped, a row has as many transitions as there are states, so large
        models need them: with both at 1 a row has at most ``3 ** clients``. ``max_arrivals=1`` makes the
        arrivals Bernoulli, with probability ``1 - exp(-arrivals)``.

    Examples
    --------
    >>> jobs()
    Problem(25 states, 111 pairs, 2775 transitions, 2 quotas)
    >>> jobs(queue=99, max_arrivals=1, max_withdrawals=1)
    Problem(10000 states, 59201 pairs, 527464 transitions, 2 quotas)

    References
    ----------
    .. [1] Ghalme, Nair, Patil and Zhou, "Long-Term Resource Allocation Fairness in Average MDP",
       AAMAS 2022, introduction; the order of events and the distributions are ours.
    """
    centre = _Centre(clients, queue, capacity, arrivals, withdraw, max_arrivals, max_withdrawals)
    clients = centre.queue.size
    prices = payments("pay", pay, clients, "client")
    levels = limits_below(limit, centre.queue, "client")
    owed = numbers("quota", quota, clients, "client", SHARE)
    centre.check_size()

    waiting = grid(centre.queue)
    served, s_of, choice = centre.decisions(waiting)
    left = s_of - (served @ strides(centre.queue))[choice]
    labels = ["serve " + ",".join(map(str, m)) for m in served.tolist()]
    mdp = MDP(
        joint(centre.transitions())[left],
        (served @ prices / (centre.capacity * prices.max()))[choice],
        s_of,
        states=[",".join(map(str, n)) for n in waiting.T.tolist()],
        actions=[labels[k] for k in choice.tolist()],
    )
    return Problem(mdp, owed_each("client", owed, states=waiting <= levels[:, None]))


class JobFlow(NamedTuple):
    """What becomes of one client's jobs, per step: ``offered == served + withdrawn + dropped``."""

    client: str
    offered: float
    served: float
    withdrawn: float
    dropped: float
    waiting: float
    """Mean length of the queue before service."""


def job_flows(
    occupancy: ArrayLike,
    clients: int = 2,
    *,
    queue: ArrayLike = (4,),
    capacity: int = 2,
    arrivals: ArrayLike = (1.5, 1.0),
    withdraw: float = 0.05,
    max_arrivals: int | None = None,
    max_withdrawals: int | None = None,
) -> tuple[JobFlow, ...]:
    """Return what becomes of each client's jobs under a policy of `jobs`, given by its occupancy.

    Takes the parameters that move jobs, with the values that `jobs` was given; pay and quotas do not matter.

    Examples
    --------
    >>> from fairmdp import solve
    >>> for flow in job_flows(solve(jobs()).occupancy):
    ...     print(f"{flow.client}: {flow.served:.4f} of {flow.offered} served, {flow.dropped:.4f} dropped")
    client1: 1.3396 of 1.5 served, 0.1157 dropped
    client2: 0.5997 of 1.0 served, 0.3046 dropped
    """
    centre = _Centre(clients, queue, capacity, arrivals, withdraw, max_arrivals, max_withdrawals)
    centre.check_size()
    waiting = grid(centre.queue)
    served, s_of, choice = centre.decisions(waiting)
    x = real_vector("occupancy", occupancy, s_of.size)
    flows = []
    for c, room in enumerate(centre.queue.tolist()):
        left = waiting[c, s_of] - served[choice, c]
        of_left = np.bincount(left, weights=x, minlength=room + 1)  # (room + 1,)
        of_stay = of_left @ centre.stays(c)
        levels = np.arange(room + 1)
        offered = centre.offered(c)
        admitted = _mean_capped(centre.arrivals[c], centre.arrival_cap(room - levels))
        flows.append(
            JobFlow(
                client=f"client{c + 1}",
                offered=offered,
                served=float(x @ served[choice, c]),
                withdrawn=float((of_left - of_stay) @ levels),
                dropped=float(of_stay @ (offered - admitted)),
                waiting=float(x @ waiting[c, s_of]),
            )
        )
    return tuple(flows)


class _Centre:
    """The checked parameters that move jobs."""

    def __init__(
        self,
        clients: int,
        queue: ArrayLike,
        capacity: int,
        arrivals: ArrayLike,
        withdraw: float,
        max_arrivals: int | None,
        max_withdrawals: int | None,
    ) -> None:
        clients = whole_number("clients", clients, 1)
        fewest = 2.0 ** min(clients, 999)
        check_size(f"job scheduling for {clients} clients", fewest, fewest, "take fewer clients")
        self.queue = whole_numbers("queue", queue, clients, "client", 1)
        self.capacity = whole_number("capacity", capacity, 1)
        self.arrivals = numbers("arrivals", arrivals, clients, "client", RATE)
        self.withdraw = probability("withdraw", withdraw, certain=False)
        self.max_arrivals, self.max_withdrawals = max_arrivals, max_withdrawals
        if max_arrivals is not None:
            self.max_arrivals = whole_number("max_arrivals", max_arrivals, 1)
        if max_withdrawals is not None:
            self.max_withdrawals = whole_number("max_withdrawals", max_withdrawals, 0)

    def check_size(self) -> None:
        """Raise if the model is too large, and say what the caps would do for it."""
        what = f"job scheduling with queues of {', '.join(map(str, self.queue))}"
        states = math.prod((self.queue + 1).tolist())
        check_size(what, states, states, "take fewer clients or shorter queues")
        capped = copy(self)
        capped.max_arrivals = capped.max_withdrawals = 1
        check_size(
            what,
            states,
            self._transitions(),
            f"max_arrivals=1 and max_withdrawals=1 bring it to {capped._transitions():.3g} transitions; "
            "fewer clients, shorter queues and less capacity help as well",
        )

    def _transitions(self) -> float:
        """Number of transitions: sum over pairs of the product of each client's possible lengths."""
        by_total = np.ones(1)  # by_total[k]: the sum over decisions that serve k jobs
        for room in self.queue.tolist():
            left = np.arange(room + 1)
            lowest = np.maximum(left - self.withdrawal_cap(room), 0)
            highest = np.minimum(left + self.arrival_cap(room), room)
            # Serving m jobs leaves 0 to room - m of them.
            by_served = np.cumsum((highest - lowest + 1).astype(float))[::-1][: self.capacity + 1]
            by_total = np.convolve(by_total, by_served)[: self.capacity + 1]
        return float(by_total.sum())

    def arrival_cap(self, room: Any) -> Any:
        """How many of the new jobs matter where there is room for so many."""
        return room if self.max_arrivals is None else np.minimum(room, self.max_arrivals)

    def withdrawal_cap(self, room: int) -> int:
        """How many of the jobs in a queue may be withdrawn in one step."""
        if self.withdraw == 0:
            return 0
        return room if self.max_withdrawals is None else min(room, self.max_withdrawals)

    def decisions(self, waiting: Ints) -> tuple[Ints, Ints, Ints]:
        """All decisions, (D, C), and state and decision of every pair, (SA,) each."""
        served = grid(np.minimum(self.queue, self.capacity)).T
        served = served[served.sum(axis=1) <= self.capacity]
        possible = np.ones((waiting.shape[1], len(served)), bool)
        for n, m in zip(waiting, served.T, strict=True):
            possible &= n[:, None] >= m
        return served, *np.nonzero(possible)

    def transitions(self) -> list[csr_array]:
        """For each client, the distribution of the jobs waiting next given the jobs left after service."""
        return [self.stays(c) @ self._arrives(c) for c in range(self.queue.size)]

    def stays(self, c: int) -> csr_array:
        """Distribution of the jobs that stay, ``n - min(Binomial(n, withdraw), cap)``, square."""
        room = int(self.queue[c])
        withdrawn = binomial(room, self.withdraw, self.withdrawal_cap(room))
        before, k = np.nonzero(withdrawn)
        return coo_array((withdrawn[before, k], (before, before - k)), shape=(room + 1, room + 1)).tocsr()

    def _arrives(self, c: int) -> csr_array:
        """Distribution of the jobs waiting next given those that stay, ``min(queue, n + A)``, square."""
        from scipy.special import gammainc, gammaln, xlogy  # 40 ms, for those who build this model

        room, rate = int(self.queue[c]), self.arrivals[c]
        cap = int(self.arrival_cap(room))
        new = np.arange(cap + 1)
        arrived = np.exp(xlogy(new, rate) - rate - gammaln(new + 1))
        arrived[cap] = gammainc(cap, rate)  # the chance of cap or more
        n, k = np.indices((room + 1, cap + 1)).reshape(2, -1)
        full = np.minimum(n + k, room)
        return coo_array((arrived[k], (n, full)), shape=(room + 1, room + 1)).tocsr()

    def offered(self, c: int) -> float:
        """Mean number of new jobs per step, dropped ones included."""
        rate = float(self.arrivals[c])
        return rate if self.max_arrivals is None else float(_mean_capped(rate, self.max_arrivals))


def _mean_capped(rate: float, cap: Any) -> Any:
    """Mean of ``min(A, cap)`` for a Poisson A: ``rate P(A <= cap - 2) + cap P(A >= cap)``, 0 at cap 0."""
    from scipy.special import gammainc, gammaincc

    k = np.maximum(cap, 1)
    return np.where(np.equal(cap, 0), 0.0, rate * gammaincc(k - 1, rate) + k * gammainc(k, rate))
