"""A seeded forger of solution files, and a judge of what they say that shares no code with the package.

    python tests/forger.py 100000 [SEED]      so many drawn at random
    python tests/forger.py every [DRAWS]      every leaf of every file in every way, and every pair of leaves

alters solutions of small problems, has each read and verified in floats and in rationals, and stops at the
first that is confirmed and not true. What is true is found by enumeration in fractions. A table of how many were
refused, not confirmed, or confirmed and true is printed at the end (`benchmarks/results/forgeries.csv`).
"""

import copy
import itertools
import json
import math
import sys
import warnings
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path

import numpy as np

from fairmdp import MDP, FairMDPError, Problem, Quota, Solution, Status, scenarios, solve, verify
from fairmdp.certificate.claim import certify_policy
from fairmdp.solution import file

CLOSE = Fraction(2, 10**8)  # a claim may be off by 1e-8 of its unit, and by what an interval leaves
ALL = slice(None)


def problems():
    """Small problems, an answer to each, and how each kind of answer comes about."""
    rng = np.random.default_rng(5)
    three = scenarios.three_state(rho=[0.1, 0.1, 0.25])
    poor = certify_policy(
        three, np.full(6, 0.5), solve(three).bias, solve(three).prices, tol=1e-6, method="lp"
    )
    slow = MDP([[1 - 1e-7, 1e-7], [0.5, 0.5], [1e-7, 1 - 1e-7]], [1.0, 0.0, 2.0], [0, 0, 1])
    nearly = Problem(slow, [Quota("first", states=[0], at_least=0.25)])
    split = Problem(MDP(np.eye(2), [1.0, 0.0], [0, 1]), [Quota("q", states=[0], at_least=0.6)])
    undecided = certify_policy(split, np.ones(2), np.zeros(2), np.zeros(1), tol=1e-6, method="lp")
    P, s_of = rng.dirichlet(np.ones(3), 6), np.repeat(np.arange(3), 2)
    capped = Problem(
        MDP(P, 1e9 + rng.random(6), s_of),
        [Quota("cap", pairs=[0, 3], at_most=0.2), Quota("mean", weights=[3.0, -1.0, 0.5], at_least=0.4)],
    )
    hopeless = scenarios.three_state(rho=[0.1, 0.1, 0.6])
    caps = Problem(
        three.mdp, [Quota("cap", states=[0, 2], at_most=0.53), Quota("floor", states=[2], at_least=0.45)]
    )
    free = Problem(MDP(P, rng.normal(size=6), s_of))
    slowed = MDP(P, rng.normal(size=6), s_of, durations=[0.5, 2.0, 1.0, 3.0, 0.25, 1.0], time_unit="hour")
    timed = Problem(
        slowed, [Quota("first", states=[0], at_least=0.4), Quota("part", pairs=[2], of=[0, 1], at_least=0.3)]
    )
    cases = [(p, solve(p)) for p in (three, nearly, capped, hopeless, caps, free, timed)]
    return [Case(*case) for case in (*cases, (three, poor), (split, undecided))]


@dataclass
class Case:
    """A problem, an honest answer to it, and what is true of the problem."""

    problem: Problem
    honest: Solution

    def assert_true(self, said, verdict):
        assert_true(self, said, verdict)

    @cached_property
    def raw(self):
        return json.loads(json.dumps(file.solution_to_dict(self.honest)))

    @cached_property
    def stated(self):
        """Rows of P, rewards per unit of time, shares that quotas count, and their bounds, in fractions."""
        mdp, problem = self.problem.mdp, self.problem
        rows = [[Fraction(p) for p in row] for row in mdp.P.toarray().tolist()]
        rows = [[p / sum(row) for p in row] for row in rows]
        counts, low, high = [], [], []
        for k, weights in enumerate(problem.weights.toarray().tolist()):
            a = [Fraction(w) for w in weights]
            least, most = (min(a), max(a)) if problem.weighted[k] else (Fraction(0), Fraction(1))
            counts.append([(w - least) / (most - least) for w in a])
            low.append((Fraction(problem.lower[k]) - least) / (most - least))
            high.append((Fraction(problem.upper[k]) - least) / (most - least))
        r = [Fraction(r) / tau for r, tau in zip(mdp.r.tolist(), self.durations, strict=True)]
        return rows, r, counts, low, high

    @cached_property
    def durations(self):
        """Time that each pair takes, in fractions."""
        tau = self.problem.mdp.durations
        return [Fraction(1)] * self.problem.mdp.n_pairs if tau is None else list(map(Fraction, tau.tolist()))

    @cached_property
    def best(self):
        """Largest gain of a fair policy, None where there is none."""
        return self.largest(self.stated[1], range(self.problem.n_quotas))

    def largest(self, value, quotas, stretched=False):
        """Largest mean of a value over shares that meet some quotas; of a factor on all floors if `stretched`."""
        key = (tuple(value or ()), tuple(quotas), stretched)
        if key not in self.known:
            self.known[key] = self._largest(*key)
        return self.known[key]

    def _largest(self, value, quotas, stretched):
        rows, _, counts, low, high = self.stated
        s_of, n = self.problem.mdp.s_of.tolist(), len(rows)
        tau = self.durations  # the unknowns are shares of time
        A = [
            [((s_of[i] == t) - rows[i][t]) / tau[i] for i in range(n)]
            for t in range(self.problem.mdp.n_states - 1)
        ]
        A, b = [*A, [Fraction(1)] * n], [Fraction(0)] * len(A) + [Fraction(1)]
        slack = []
        for k in quotas:
            if low[k] > 0:
                A, b, slack = (
                    [*A, counts[k]],
                    [*b, Fraction(0) if stretched else low[k]],
                    [*slack, (-1, low[k])],
                )
            if high[k] < 1:
                A, b, slack = [*A, counts[k]], [*b, high[k]], [*slack, (1, Fraction(0))]
        first = len(A) - len(slack)
        for row, line in enumerate(A):
            own = [sign if row - first == j else 0 for j, (sign, _) in enumerate(slack)]
            factor = [-slack[row - first][1] if row >= first else 0] if stretched else []
            A[row] = [Fraction(a) for a in (*line, *own, *factor)]
        c = [*([0] * n if stretched else value), *[0] * len(slack), *([1] if stretched else [])]
        values = [
            sum(c[j] * x for j, x in zip(basis, found, strict=True))
            for basis in itertools.combinations(range(len(c)), len(A))
            if (found := solved([[row[j] for j in basis] for row in A], b)) and min(found) >= 0
        ]
        return max(values, default=None)

    def long_run(self, policy):
        """Share of each pair under a policy, None where there are several closed classes."""
        key = policy.tobytes()
        if key not in self.known:
            self.known[key] = self._long_run([Fraction(p) for p in policy.tolist()])
        return self.known[key]

    @cached_property
    def known(self):
        return {}

    def _long_run(self, policy):
        rows, s_of, S = self.stated[0], self.problem.mdp.s_of.tolist(), self.problem.mdp.n_states
        sums = [sum(p for p, s in zip(policy, s_of, strict=True) if s == t) for t in range(S)]
        pi = [p / sums[s] for p, s in zip(policy, s_of, strict=True)]
        Q = [[Fraction(0)] * S for _ in range(S)]
        for p, s, row in zip(pi, s_of, rows, strict=True):
            Q[s] = [q + p * move for q, move in zip(Q[s], row, strict=True)]
        A = [[(s == t) - Q[s][t] for s in range(S)] for t in range(S - 1)] + [[Fraction(1)] * S]
        nu = solved(A, [Fraction(0)] * (S - 1) + [Fraction(1)])
        if nu is None:
            return None
        time = [nu[s] * p * tau for p, s, tau in zip(pi, s_of, self.durations, strict=True)]
        return [spent / sum(time) for spent in time]


def solved(A, b):
    """Solution of a square system in fractions, None where there is none or more than one."""
    n = len(A)
    A = [[*row, right] for row, right in zip(A, b, strict=True)]
    for c in range(n):
        p = next((r for r in range(c, n) if A[r][c]), None)
        if p is None:
            return None
        A[c], A[p] = A[p], A[c]
        A[c] = [v / A[c][c] if v else v for v in A[c]]
        for r in range(n):
            if r != c and A[r][c]:
                factor = A[r][c]
                A[r] = [a - factor * v if v else a for a, v in zip(A[r], A[c], strict=True)]
    return [row[n] for row in A]


# --- what a confirmed answer says, against what is true -------------------------------------------------------


def assert_true(case, said, verdict):
    """Every claim of a solution that was confirmed is so."""
    problem, mdp = case.problem, case.problem.mdp
    _, r, counts, low, high = case.stated
    K, (span, unit) = problem.n_quotas, units(r)
    assert_stated(case, said)
    for k, price in enumerate(said.prices.tolist()):
        idle = low[k] <= 0 if price > 0 else high[k] >= 1
        assert not idle or abs(price) <= 1e-7 * max(1.0, float(np.abs(said.prices).max()), float(span))
    if said.infeasibility is not None:
        assert said.status is Status.INFEASIBLE and verdict.estimates
        assert_explained(case, said)
    assert_bounded(case, said, verdict, unit)
    if said.status is Status.INFEASIBLE:
        return
    x = case.long_run(said.policy)
    if x is None:
        assert said.status is Status.UNDECIDED and "are estimates" in verdict.estimates[0]
        return
    gain = sum(value * share for value, share in zip(r, x, strict=True))
    shares = [sum(w * share for w, share in zip(counts[k], x, strict=True)) for k in range(K)]
    nu = [
        sum(share for share, s in zip(x, mdp.s_of.tolist(), strict=True) if s == t)
        for t in range(mdp.n_states)
    ]
    if verdict.estimates:  # nothing is proved of the long run
        assert said.status is Status.UNDECIDED
        return
    assert abs(Fraction(said.gain) - gain) <= unit
    assert near(said.shares, shares) and near(said.visitation, nu) and near(said.occupancy, x)
    for condition, told in zip(problem.conditions, said.conditions, strict=True):
        spent = sum(x[i] for i in condition.of.tolist())
        assert near(np.array([told.mass]), [spent])
        assert (told.quota, told.bound, told.least) == (condition.quota, condition.bound, condition.least)
    if said.status is Status.UNDECIDED:
        return
    room = Fraction(11, 10**10)
    assert all(share >= bound - room for share, bound in zip(shares, low, strict=True))
    assert all(share <= bound + room for share, bound in zip(shares, high, strict=True))
    if said.status is Status.OPTIMAL:
        assert case.best - gain <= Fraction(said.tol) * span + unit


def units(r):
    """Span of the rewards, and how far a number in their unit may be off."""
    span = max(r) - min(r) or max(map(abs, r)) or Fraction(1)
    return span, CLOSE * span + 64 * Fraction(2) ** -52 * max(map(abs, r))


def assert_stated(case, said):
    """A solution is of this problem."""
    problem, (_, _, _, low, high) = case.problem, case.stated
    assert said.provenance["problem"] == problem.digest and said.quota_names == problem.names
    assert near(said.at_least, low) and near(said.at_most, high) and said.units == problem.units
    assert 0 < said.tol <= 0.01


def assert_bounded(case, said, verdict, unit):
    """What is said of the policies that there are."""
    if said.status is Status.INFEASIBLE:
        assert case.best is None and math.isnan(said.gain) and not math.isfinite(said.upper)
    elif math.isfinite(said.upper):
        assert case.best is None or Fraction(said.upper) >= case.best - unit
    else:  # no ceiling is claimed: floats prove none, of prices near 1e308 rationals may prove one
        assert said.upper != -math.inf and said.status is not Status.OPTIMAL
        assert verdict.upper == math.inf or verdict.exact


def assert_explained(case, said):
    why = said.infeasibility
    assert case.largest(case.stated[1], why.conflict) is None
    for k, reach in zip(why.conflict, why.reach.tolist(), strict=False):
        if said.prices[k] < 0:
            assert Fraction(reach) <= -case.largest([-w for w in case.stated[2][k]], ()) + CLOSE
        else:
            assert Fraction(reach) >= case.largest(case.stated[2][k], ()) - CLOSE
    most = case.largest(None, range(case.problem.n_quotas), stretched=True)
    assert why.common_factor is None or most is None or Fraction(why.common_factor) >= most - CLOSE


def near(claimed, true):
    return all(abs(Fraction(a) - b) <= CLOSE for a, b in zip(claimed.tolist(), true, strict=True))


# --- what a forger does ----------------------------------------------------------------------------------------


def leaves(value, path=()):
    """Paths of everything that is no list or object, and of lists and objects that are empty."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [leaf for key, item in inside for leaf in leaves(item, (*path, key))]
    return found or [path]


def at(raw, path, default=None):
    for key in path:
        try:
            raw = raw[key]
        except (KeyError, IndexError, TypeError):
            return default
    return raw


def put(raw, path, value):
    at(raw, path[:-1])[path[-1]] = value


EXTREMES = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    5e-324,
    -5e-324,
    1e-310,
    2.0**-1022,
    1e-300,
    1e16,
    1e300,
    -1e300,
    1.7e308,
    -1.7e308,
]
WORDS = [status.value for status in Status] + ["lp", "cuda", "", "s0", "s1", "q"]


def other_value(rng, value, path, cases):
    """What a forger writes in the place of a value."""
    kind = rng.integers(0, 10)
    if kind == 0:
        return None
    if kind == 1:  # what another answer has there
        return copy.deepcopy(at(cases[rng.integers(len(cases))].raw, path, value))
    if isinstance(value, str):
        return WORDS[rng.integers(len(WORDS))]
    if type(value) is int:
        return int(value + rng.integers(-2, 3))
    if not isinstance(value, float) or kind == 2:
        return EXTREMES[rng.integers(len(EXTREMES))]
    if kind == 3:
        return -value
    if kind < 6:
        for _ in range(int(rng.integers(1, 5))):
            value = math.nextafter(value, rng.choice([-math.inf, math.inf]))
        return value
    by = float(rng.choice([-1.0, 1.0]) * 10.0 ** rng.integers(-13, 1))
    return value * (1 + by) if kind < 8 else value + by


TOGETHER = (
    ("visitation", "occupancy"), ("visitation", "occupancy", "shares", "gain"), ("policy", "occupancy"),
    ("gain", "upper"), ("status", "tol"), ("bias", "upper"), ("prices", "upper"), ("status", "gain", "upper"),
)  # fmt: skip


def forged(rng, cases, case):
    """An altered file of a case: one leaf, two, mass moved within an array, or whole fields of another answer."""
    raw, way = copy.deepcopy(case.raw), rng.integers(0, 8)
    if way < 6:
        # Fields are as likely as each other, however long they are, in half of the cases.
        paths = leaves(raw)
        if rng.random() < 0.5:
            name = str(rng.choice(sorted({path[0] for path in paths})))
            paths = [path for path in paths if path[0] == name]
        chosen = [paths[rng.integers(len(paths))]]
        if way >= 3:
            every = leaves(raw)
            chosen.append(every[rng.integers(len(every))])
        for path in chosen:
            put(raw, path, other_value(rng, at(raw, path), path, cases))
    elif way == 6:
        by = float(10.0 ** rng.integers(-12, 0))
        for name in TOGETHER[rng.integers(3)]:
            numbers = raw[name]
            if isinstance(numbers, list) and len(numbers) > 1 and numbers[0] is not None:
                i, j = rng.permutation(len(numbers))[:2]
                numbers[i], numbers[j] = numbers[i] + by, numbers[j] - by
    else:
        other = cases[rng.integers(len(cases))].raw
        for name in TOGETHER[rng.integers(len(TOGETHER))]:
            raw[name] = copy.deepcopy(other[name])
    if rng.random() < 0.7:  # what follows from the rest is no help to who forges the rest
        for name in ("gap", "worst_slack", "quotas"):
            raw.pop(name, None)
    return raw


def forged_object(rng, cases, case):
    """A solution altered in memory, where numbers that no file holds get in too."""
    names = [
        "gain",
        "upper",
        "tol",
        "policy",
        "occupancy",
        "visitation",
        "shares",
        "bias",
        "prices",
        "at_least",
        "at_most",
    ]
    said, why = case.honest, case.honest.infeasibility
    for name in rng.choice(names, int(rng.integers(1, 3))):
        said = replace(said, **{str(name): spoilt(rng, getattr(said, name))})
    if said.ends is not None and rng.random() < 0.5:
        names = [
            "components",
            "values",
            "moves",
            *([] if said.ends.weights is None else ["weights", "policies"]),
        ]
        name = str(rng.choice(names))
        said = replace(said, ends=replace(said.ends, **{name: spoilt(rng, getattr(said.ends, name))}))
    if why is not None and rng.random() < 0.5:
        name = str(
            rng.choice(
                ["reach", "reach_bias", "common_factor", "factor_bias", "factor_prices", "nearest_at_least"]
            )
        )
        said = replace(said, infeasibility=replace(why, **{name: spoilt(rng, getattr(why, name))}))
    return said


def spoilt(rng, value):
    choices = [math.nan, math.inf, -math.inf, 5e-324, 1.7e308, -1.7e308, 0.0]
    number = choices[rng.integers(len(choices))]
    if isinstance(value, np.ndarray) and value.dtype.kind == "i":
        number = int(rng.integers(-2, 4))
    if not isinstance(value, np.ndarray):
        return number
    value = value.copy()
    if value.size:
        value[ALL if rng.random() < 0.3 else np.unravel_index(rng.integers(value.size), value.shape)] = number
    return value


def said_of(raw):
    """What the reader makes of a file, None where it refuses it; its table must follow from its numbers."""
    try:
        said = file.solution_of(file.parsed(json.dumps(raw).encode()))
    except FairMDPError:
        return None
    if "gap" in raw:
        gap = said.upper - said.gain
        assert raw["gap"] == (gap if math.isfinite(gap) else None)
    for k, row in enumerate(raw.get("quotas", ())):
        if any(condition.quota == k for condition in said.conditions):
            continue  # stated in parts of a condition
        offset, scale = (
            np.broadcast_to(u, said.shares.shape)[k] for u in (said.units.offset, said.units.scale)
        )
        for name, array in (("share", said.shares), ("at_least", said.at_least), ("at_most", said.at_most)):
            assert row[name] is None or abs(row[name] - (offset + scale * array[k])) <= 1e-9 * (
                1 + abs(row[name])
            )
        assert row["name"] == said.quota_names[k]
        assert row["price"] is None or row["price"] == said.prices[k] / scale
    return said


def drawn(cases, count, seed):
    """So many forgeries at random: what to put in a file, or a solution in memory, with its case."""
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        case = cases[rng.integers(len(cases))]
        make = forged_object if rng.random() < 0.2 else forged
        yield case, make(rng, cases, case)


DERIVED = ("gap", "worst_slack", "quotas")
STRANGE = [math.nan, math.inf, -math.inf, True, 10**400, 3, "0.5", [], {}, [0.5], {"value": 0.5}]


def every_way(cases, value, path):
    """All that a forger may write in the place of a value."""
    ways = [None, *EXTREMES, *STRANGE, *WORDS]
    ways += [other for case in cases if (other := at(case.raw, path)) is not None]
    if type(value) in (int, float):
        ways += [-value, math.nextafter(value, math.inf), math.nextafter(value, -math.inf)]
        for by in 10.0 ** np.arange(-13, 1):
            ways += [value * (1 + by), value * (1 - by), value + by, value - by]
    return [way for way in ways if way is None or json.dumps(way) != json.dumps(value)]


def altered(raw, changes):
    """A file with other leaves; what follows from the rest is no help to who forges the rest."""
    raw = copy.deepcopy(raw)
    for path, value in changes:
        put(raw, path, value)
    touched = {path[0] for path, _ in changes}
    return {name: value for name, value in raw.items() if name in touched or name not in DERIVED}


def every(cases, draws):
    """Every leaf in every way, and every pair of leaves in so many ways."""
    rng = np.random.default_rng(draws)
    for case in cases:
        paths = leaves(case.raw)
        ways = [every_way(cases, at(case.raw, path), path) for path in paths]
        for path, values in zip(paths, ways, strict=True):
            yield from ((case, altered(case.raw, [(path, value)])) for value in values)
        for i, j in itertools.combinations(range(len(paths)), 2):
            for _ in range(draws):
                pair = [(paths[k], ways[k][rng.integers(len(ways[k]))]) for k in (i, j)]
                yield case, altered(case.raw, pair)


def run(cases, forgeries, told=None):
    """Count what was refused on reading, what `verify` did not confirm, and what it confirmed and is true."""
    outcome = {"refused": 0, "not confirmed": 0, "true": 0}
    for case in cases:
        for exact in (False, True):
            verdict = verify(case.problem, case.honest, exact=exact)
            assert verdict.ok, verdict.messages
            case.assert_true(case.honest, verdict)
    for number, (case, forgery) in enumerate(forgeries):
        said = said_of(forgery) if isinstance(forgery, dict) else forgery
        outcome["refused" if said is None else judged(case, said, number, forgery)] += 1
        if told is not None and (number + 1) % 10_000 == 0:
            told(f"{number + 1:,}: {outcome}")
    return outcome


def judged(case, said, number, forgery):
    """Whether `verify` confirms an answer in either arithmetic; if so it must be true."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            verdicts = [verify(case.problem, said, exact=exact) for exact in (False, True)]
            for verdict in verdicts:
                if verdict.ok:
                    case.assert_true(said, verdict)
        except Exception as error:
            raise AssertionError(f"forgery {number}: {said!r} {forgery}") from error
    return "true" if any(verdict.ok for verdict in verdicts) else "not confirmed"


def main(how, number, cases):
    forgeries = every(cases, number or 5) if how == "every" else drawn(cases, int(how), number)
    outcome = run(cases, forgeries, lambda line: print(line, file=sys.stderr, flush=True))
    print(f"# python tests/{Path(sys.argv[0]).name} {' '.join(sys.argv[1:])}")
    print(*("forgeries", *outcome), sep=",")
    print(*(sum(outcome.values()), *outcome.values()), sep=",")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0, problems())
