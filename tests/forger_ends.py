"""The forger's work on answers about runs from the start, where models fall apart.

    python tests/forger_ends.py 100000 [SEED]
    python tests/forger_ends.py every [DRAWS]

What is true of them was worked out by hand (`islands`), and of any policy is found in fractions (`endings`).
"""

import sys
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from endings import bounds, endings
from forger import CLOSE, Case, assert_bounded, assert_stated, main, near, units
from islands import BEST, CASES

from fairmdp import Status


def problems():
    """One case for each of the answers by hand."""
    return [StartCase(*CASES[name](), best_of_all=best) for name, best in BEST.items()]


@dataclass
class StartCase(Case):
    """A case whose best gain is known."""

    best_of_all: Fraction | None

    def assert_true(self, said, verdict):
        if said.ends is None:  # of every start
            assert said.status is Status.UNDECIDED
            return
        assert_stated(self, said)
        span, unit = units(self.stated[1])
        assert_bounded(self, said, verdict, unit)
        if said.status is not Status.INFEASIBLE:
            assert_runs(self, said, verdict, span, unit)

    @property
    def best(self):
        return self.best_of_all

    def classes(self, said):
        """Closed classes of each policy, with the probability that it is drawn and the class is ended in."""
        several = said.ends.policies is not None
        weights = [Fraction(w) for w in said.ends.weights.tolist()] if several else [Fraction(1)]
        found = []
        for j, policy in enumerate(said.ends.policies if several else [said.policy]):
            key = policy.tobytes()
            if key not in self.known:
                self.known[key] = endings(self.problem, policy)
            found += [(j, end.chance * weights[j] / sum(weights), end) for end in self.known[key]]
        return found


def assert_runs(case, said, verdict, span, unit):
    """Every claim about runs is so."""
    problem, mdp, found = case.problem, case.problem.mdp, case.classes(said)
    if verdict.estimates:
        assert said.status is Status.UNDECIDED
        return
    x = [sum(chance * end.x.get(i, 0) for _, chance, end in found) for i in range(mdp.n_pairs)]
    nu = [
        sum(part for part, s in zip(x, mdp.s_of.tolist(), strict=True) if s == t) for t in range(mdp.n_states)
    ]
    gain = sum(chance * end.gain for _, chance, end in found)
    assert abs(Fraction(said.gain) - gain) <= unit and near(said.visitation, nu) and near(said.occupancy, x)
    fair = [assert_share(case, said, k, found) for k in range(problem.n_quotas)]
    assert said.ends.n_classes == len(found) and len(said.ends.classes) == min(len(found), 5)
    for told in said.ends.classes:
        chance, end = next(
            (z, end) for j, z, end in found if (j, end.states) == (told.policy, told.states.tolist())
        )
        assert (
            abs(Fraction(told.probability) - chance) <= CLOSE and abs(Fraction(told.gain) - end.gain) <= unit
        )
        assert near(told.shares, end.shares)
    assert len({(told.policy, tuple(told.states)) for told in said.ends.classes}) == len(said.ends.classes)
    assert said.status is Status.UNDECIDED or all(fair)
    if said.status is Status.OPTIMAL:
        assert case.best - gain <= Fraction(said.tol) * span + unit


def assert_share(case, said, k, found):
    """The share of a quota, and its condition's, are those of a class that is as bad as any; whether it is met."""
    problem, (low, high) = case.problem, bounds(case.problem, k)
    share = Fraction(float(said.shares[k]))
    mean = sum(chance * end.shares[k] for _, chance, end in found)
    if problem.expected[k]:
        assert abs(share - mean) <= CLOSE
        counted, left = [None], min(mean - low, high - mean)
    else:
        slack = [min(end.shares[k] - low, high - end.shares[k]) for _, _, end in found]
        left = min(slack)
        counted = [end for own, (_, _, end) in zip(slack, found, strict=True) if own <= left + 4 * CLOSE]
        assert any(abs(share - end.shares[k]) <= 2 * CLOSE for end in counted)
        own = said.ends.component_prices[[k]].toarray()[0]
        price = sum(float(chance) * own[said.ends.components[end.states[0]]] for _, chance, end in found)
        assert abs(said.prices[k] - price) <= 1e-6 * (1 + np.abs(own).max(initial=0))
    for condition, told in zip(problem.conditions, said.conditions, strict=True):
        if condition.quota == k:
            of = [sum(end.x.get(i, 0) for i in condition.of.tolist()) for end in counted]
            assert any(abs(Fraction(told.mass) - mass) <= 2 * CLOSE for mass in of)
    return left >= -Fraction(11, 10**10)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0, problems())
