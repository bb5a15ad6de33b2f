"""Where runs end, in fractions and by brute force: shares no code with the package. Random models that fall apart."""

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from forger import solved

from fairmdp import MDP, Problem, Quota


@dataclass
class Ending:
    """A closed class: its states, how likely it is, what it earns, and the share of each quota."""

    states: list
    chance: Fraction
    gain: Fraction
    shares: list
    x: dict  # share of each pair


def rows_of(mdp):
    """Rows of P over their sums, in fractions."""
    rows = [{t: Fraction(p) for t, p in enumerate(row) if p} for row in mdp.P.toarray().tolist()]
    return [{t: p / sum(row.values()) for t, p in row.items()} for row in rows]


def endings(problem, policy):
    """Closed classes of a policy that are reached from the start."""
    mdp = problem.mdp
    rows, s_of, S = rows_of(mdp), mdp.s_of.tolist(), mdp.n_states
    tau = (
        [Fraction(1)] * mdp.n_pairs
        if mdp.durations is None
        else [Fraction(t) for t in mdp.durations.tolist()]
    )
    pi = [Fraction(p) for p in policy.tolist()]
    sums = [sum(p for p, s in zip(pi, s_of, strict=True) if s == t) for t in range(S)]
    pi = [p / sums[s] for p, s in zip(pi, s_of, strict=True)]
    Q = [[Fraction(0)] * S for _ in range(S)]
    for p, s, row in zip(pi, s_of, rows, strict=True):
        for t, q in row.items():
            Q[s][t] += p * q
    reach = [reached(Q, [s]) for s in range(S)]
    start = [Fraction(p) for p in mdp.start.tolist()]
    start = [p / sum(start) for p in start]
    found, seen = [], reached(Q, [s for s in range(S) if start[s]])
    closed = sorted({tuple(sorted(reach[s])) for s in seen if all(s in reach[t] for t in reach[s])})
    between = sorted(seen - {s for states in closed for s in states})
    for states in closed:
        A = [[(s == t) - Q[s][t] for s in states] for t in states[:-1]] + [[Fraction(1)] * len(states)]
        nu = dict(zip(states, solved(A, [Fraction(0)] * (len(states) - 1) + [Fraction(1)]), strict=True))
        into = [sum((Q[s][t] for t in states), Fraction(0)) for s in between]
        back = [[(s == t) - Q[s][t] for t in between] for s in between]
        a = dict(zip(between, solved(back, into), strict=True)) if between else {}
        chance = sum(start[s] for s in states) + sum((start[s] * a[s] for s in between), Fraction(0))
        x = {i: nu[s] * pi[i] * tau[i] for i, s in enumerate(s_of) if s in nu and pi[i]}
        total = sum(x.values())
        x = {i: part / total for i, part in x.items()}
        gain = sum(part * Fraction(mdp.r.tolist()[i]) / tau[i] for i, part in x.items())
        shares = [sum(part * weight(problem, k, i) for i, part in x.items()) for k in range(problem.n_quotas)]
        shares = [min(Fraction(share), Fraction(1)) for share in shares]  # the scale of weights was rounded
        found.append(Ending(list(states), chance, gain, shares, x))
    return found


def reached(Q, sources):
    seen, todo = set(sources), list(sources)
    while todo:
        s = todo.pop()
        ahead = {t for t, q in enumerate(Q[s]) if q} - seen
        seen |= ahead
        todo += ahead
    return seen


def weight(problem, k, i):
    """What a pair counts for a quota as a share, without rounding."""
    return as_share(problem, k, problem.weights[[k]].toarray()[0].tolist()[i])


def bounds(problem, k):
    """Bounds on a quota's share, without rounding; infinite where it has none."""
    low, high = (as_share(problem, k, float(ends[k])) for ends in (problem.lower, problem.upper))
    return low if problem.at_least[k] > 0 else -math.inf, high if problem.at_most[k] < 1 else math.inf


def as_share(problem, k, value):
    if not problem.weighted[k]:
        return Fraction(value)
    return (Fraction(value) - Fraction(problem.units.offset[k])) / Fraction(problem.units.scale[k])


def is_fair(problem, found, slip=0):
    """Whether each run, and the mean over runs where that is asked, meets the quotas."""
    for k in range(problem.n_quotas):
        low, high = bounds(problem, k)
        shares = [end.shares[k] for end in found]
        if problem.expected[k]:
            shares = [sum(end.chance * end.shares[k] for end in found)]
        if min(shares) < low - slip or max(shares) > high + slip:
            return False
    return True


def mean_gain(found):
    return sum(end.chance * end.gain for end in found)


def deterministic(mdp):
    """All deterministic policies."""
    for choice in itertools.product(*(range(n) for n in mdp.n_actions.tolist())):
        policy = np.zeros(mdp.n_pairs)
        policy[mdp.pair_ptr[:-1] + choice] = 1.0
        yield policy


def falling_apart(seed, most=6, *, timed=False, expected=False):
    """A random model with few successors, so that it falls apart, and quotas on it."""
    rng = np.random.default_rng(seed)
    S = int(rng.integers(2, most + 1))
    s_of = np.repeat(np.arange(S), rng.integers(1, 4, S))
    P = np.zeros((s_of.size, S))
    for i, s in enumerate(s_of.tolist()):
        to = rng.choice(S, int(rng.integers(1, 3)), replace=False)
        to = [s] if rng.random() < 0.2 else to
        P[i, to] = rng.random(len(to)) + 0.1
    P /= P.sum(axis=1, keepdims=True)
    initial = None
    if rng.random() < 0.7:
        initial = np.zeros(S)
        at = rng.choice(S, int(rng.integers(1, 3)), replace=False)
        initial[at] = rng.random(at.size) + 0.1
        initial /= initial.sum()
    durations = 10.0 ** rng.uniform(-1, 1, s_of.size) if timed else None
    mdp = MDP(
        P,
        rng.normal(size=s_of.size) * 10.0 ** rng.integers(-2, 3),
        s_of,
        initial=initial,
        durations=durations,
    )
    return Problem(mdp, list(random_quotas(rng, mdp, expected)))


def random_quotas(rng, mdp, expected):
    kinds = [("states", "weights"), ("pairs", "weights"), ("states",), ()]
    for name in kinds[rng.integers(len(kinds))][: 2 if mdp.n_pairs > 3 else 1]:
        size = mdp.n_states if name == "states" else mdp.n_pairs
        chosen = rng.random(size) < 0.5
        chosen[:2] = rng.permutation([True, False])
        a = rng.normal(size=size) if name == "weights" else np.array([0.0, 1.0])
        bound = float(a.min() + rng.choice([0.1, 0.3, 0.6]) * np.ptp(a))
        side = {"at_most": bound} if rng.random() < 0.4 else {"at_least": bound}
        given = {name: a if name == "weights" else np.flatnonzero(chosen)}
        yield Quota(name, **given, **side, expected=expected and bool(rng.random() < 0.6))


def components(mdp):
    """Labels of the states that can be reached, by maximal end components, -1 for the others."""
    rows, s_of = rows_of(mdp), mdp.s_of.tolist()
    pairs, S = set(range(mdp.n_pairs)), mdp.n_states
    while True:
        Q = [[0] * S for _ in range(S)]
        for i in pairs:
            for t in rows[i]:
                Q[s_of[i]][t] = 1
        reach = [reached(Q, [s]) for s in range(S)]
        alive = {s_of[i] for i in pairs}
        kept = {i for i in pairs if all(t in alive and s_of[i] in reach[t] for t in rows[i])}
        if kept == pairs:
            break
        pairs = kept
    Q = [[0] * S for _ in range(S)]
    for i, row in enumerate(rows):
        for t in row:
            Q[s_of[i]][t] = 1
    seen, label, known = reached(Q, np.flatnonzero(mdp.start).tolist()), np.full(S, -1), {}
    for s in sorted(seen):
        group = (
            frozenset(t for t in reach[s] if s in reach[t] and t in alive) if s in alive else frozenset([s])
        )
        label[s] = known.setdefault(group, len(known))
    return label


def moves_of(mdp, label, sweeps=500):
    """Most expected moves from each label, by value iteration, (S,)."""
    w = np.zeros(mdp.n_states)
    rows = [[t for t in row] for row in rows_of(mdp)]
    moving = [
        i
        for i, s in enumerate(mdp.s_of.tolist())
        if label[s] >= 0 and any(label[t] != label[s] for t in rows[i])
    ]
    P = mdp.P.toarray()
    for _ in range(sweeps):
        new = w.copy()
        for i in moving:
            of = label == label[mdp.s_of[i]]
            new[of] = np.maximum(new[of], 1 + P[i] @ w)
        w = new
    return w * 1.001


def random_policy(mdp, seed):
    """A policy that uses some actions of each state."""
    rng = np.random.default_rng(seed)
    policy = rng.random(mdp.n_pairs) * (rng.random(mdp.n_pairs) < 0.6)
    policy[mdp.pair_ptr[:-1]] += np.add.reduceat(policy, mdp.pair_ptr[:-1]) == 0
    return policy / np.add.reduceat(policy, mdp.pair_ptr[:-1])[mdp.s_of]
