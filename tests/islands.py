"""Small models that fall apart, with answers worked out by hand and the witnesses that prove them."""

from fractions import Fraction

import numpy as np
from scipy.sparse import csr_array

from fairmdp import MDP, Problem, Quota
from fairmdp.certificate.claim import certify_infeasible
from fairmdp.certificate.claim_ends import certify_ends
from fairmdp.solution.ends import Ends

TOL = {"tol": 1e-6, "method": "lp"}

# Two islands, reached from a shore by a coin or, if one wants, only the left one; nobody comes from the wreck.
# On each island one may linger, which pays 1 left and 2 right, or go to rest, which does not.
STATES = ("shore", "left", "left rest", "right", "right rest", "wreck")
S_OF = np.array([0, 0, 1, 1, 2, 3, 3, 4, 5])
ROWS = ({1: 1}, {1: 0.5, 3: 0.5}, {1: 1}, {2: 1}, {1: 1}, {3: 1}, {4: 1}, {3: 1}, {0: 1})
P = np.array([[row.get(t, 0.0) for t in range(6)] for row in ROWS])
R = np.array([7.0, -7.0, 1, 0, 0, 2, 0, 0, 5.0])


def islands(*quotas, **model):
    """The model of the islands with some quotas."""
    return Problem(MDP(P, R, S_OF, states=STATES, initial="shore", **model), quotas)


def labels(values):
    """Labels and moves of the islands, with what each label is worth."""
    label = np.array([0, 1, 1, 2, 2, -1])
    values = np.append(values, 0.0)[label]
    return {"components": label, "values": values, "moves": np.array([1.0, 0, 0, 0, 0, 0])}


def rested(share, durations=None):
    """Best answer where of every run a share is rest: 1 - 2 share on the left, twice that on the right."""
    problem = islands(Quota("rest", states=["left rest", "right rest"], at_least=share))
    go = share / (1 - share)
    policy = np.array([0, 1, 1 - go, go, 1, 1 - go, go, 1, 1])
    prices = csr_array(np.array([[0.0, 2.0, 4.0]]))
    ends = Ends(
        **labels([1.5 * (1 - 2 * share), 1 - 2 * share, 2 * (1 - 2 * share)]), component_prices=prices
    )
    return problem, certify_ends(
        problem, policy, None, np.array([0, 0, 1.0, 0, 2, 0]), np.zeros(1), ends, **TOL
    )


def timed():
    """The same where lingering takes 1 hour, going to rest 2, rest 1, and the way over 3."""
    tau = np.array([3.0, 3, 1, 2, 1, 1, 2, 1, 1])
    model = MDP(P, R, S_OF, states=STATES, initial="shore", durations=tau, time_unit="hour")
    problem = Problem(model, [Quota("rest", states=["left rest", "right rest"], at_least=0.3)])
    policy = np.array([0, 1, 0.25, 0.75, 1, 0.25, 0.75, 1, 1])  # 0.1 of the time lingering, 0.6 on the way
    ends = Ends(**labels([0.15, 0.1, 0.2]), component_prices=csr_array(np.array([[0.0, 3.0, 6.0]])))
    return problem, certify_ends(
        problem, policy, None, np.array([0, 0, 2.0, 0, 4, 0]), np.zeros(1), ends, **TOL
    )


def rested_of_condition():
    """Of every run's time on the right a tenth is rest; on the left nothing is owed."""
    problem = islands(Quota("rest", states=["right rest"], of=["right", "right rest"], at_least=0.1))
    policy = np.array([0, 1, 1, 0, 1, 8 / 9, 1 / 9, 1, 1])
    ends = Ends(**labels([1.3, 1.0, 1.6]), component_prices=csr_array(np.array([[0.0, 0, 4.0]])))
    return problem, certify_ends(
        problem, policy, None, np.array([0, 0, 0, 0, 2.0, 0]), np.zeros(1), ends, **TOL
    )


def hopeless():
    """Every run is to rest on the right, and nobody can be sure to get there."""
    problem = islands(Quota("rest", states=["right rest"], at_least=0.2))
    prices = csr_array(np.array([[0.0, 10.0, 0.0]]))
    ends = Ends(**labels([-1.0, -2.0, 0.0]), component_prices=prices)
    return problem, certify_infeasible(problem, np.zeros(6), np.zeros(1), None, ends=ends, **TOL)


# Stay, which pays, or go for good.
DOOR = MDP([[1, 0], [0, 1], [0, 1]], [1.0, 0.0, 0.0], [0, 0, 1], states=["in", "out"], initial="in")


def door(prices, component_prices, values):
    return (
        np.zeros(2),
        np.array(prices, float),
        Ends(
            np.array([0, 1]),
            np.array(values),
            np.array([1.0, 0.0]),
            csr_array(np.array(component_prices, float)),
        ),
    )


def out():
    """Half of every run is to be out: go."""
    problem = Problem(DOOR, [Quota("out", states=["out"], at_least=0.5)])
    return problem, certify_ends(
        problem, np.array([0, 1.0, 1]), None, *door([0], [[4, 0]], [0.0, 0.0]), **TOL
    )


def drawn():
    """Half of the time is to be out in the mean over runs: draw at the start whether to go."""
    problem = Problem(DOOR, [Quota("out", states=["out"], at_least=0.5, expected=True)])
    policies, weights = np.array([[1.0, 0, 1], [0, 1, 1]]), np.array([0.5, 0.5])
    return problem, certify_ends(problem, policies, weights, *door([1], [[0, 0]], [1.0, 1.0]), **TOL)


BEST = {
    "rested": Fraction(3, 5), "timed": Fraction(3, 20), "condition": Fraction(13, 10), "hopeless": None,
    "out": Fraction(0), "drawn": Fraction(1, 2),
}  # fmt: skip

CASES = {"rested": lambda: rested(0.3), "timed": timed, "condition": rested_of_condition, "hopeless": hopeless,
         "out": out, "drawn": drawn}  # fmt: skip
