"""The facts about runs from the start in rational arithmetic, by the rules of `exact`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array, hstack

from fairmdp.certificate import exact
from fairmdp.certificate.course import Course, first_gates, next_gates, pairs_of, rest_of, visits
from fairmdp.certificate.elementary import down, up
from fairmdp.certificate.ends import Labelled, labelled, of_every_run, of_the_mean
from fairmdp.certificate.facts import chargeable
from fairmdp.certificate.law import Intervals, Law, drawn_from, law_of
from fairmdp.model.checks import Floats
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.solution.ends import Ends

Fractions = list[Fraction]
Interval = tuple[Fraction, Fraction]  # of an interval


def ceiling(problem: Problem, r: Floats, bias: Floats, prices: Floats, ends: Ends) -> float:
    """Exact upper bound on the reward ``r`` per unit of time of runs from the start that meet the quotas."""
    mdp = problem.mdp
    found = labelled(mdp, ends.components)
    if found is None:
        return math.inf
    label = found.label.tolist()
    g, w = (_largest(values, label, found.count) for values in (ends.values, ends.moves))
    mu = _fractions(chargeable(problem, of_the_mean(problem, prices)))
    for c, value in _within_labels(problem, r, bias, mu, ends, found).items():
        g[c] = max(g[c], value)
    start = _start(mdp)
    top = sum(p * g[label[s]] for s, p in start)
    if found.moving.size:
        rows, s_of = exact._stated_rows(mdp), mdp.s_of.tolist()
        moving = [(rows[i], label[s_of[i]]) for i in found.moving.tolist()]
        drift = max(0, max(sum(p * g[label[t]] for t, p in row) - g[c] for row, c in moving))
        least = min(w[c] - sum(p * w[label[t]] for t, p in row) for row, c in moving)
        if least <= 0 or min(w) < 0:
            return math.inf
        top += drift * sum(p * w[label[s]] for s, p in start) / least
    return up(top - sum(price * _bound(problem, k, price) for k, price in enumerate(mu) if price))


def _largest(values: Floats, label: Sequence[int], count: int) -> Fractions:
    """Largest value of each label that there is; numbers that no state has count as 0."""
    found: dict[int, Fraction] = {}
    for c, value in zip(label, _fractions(values), strict=True):
        found[c] = max(found.get(c, value), value)
    return [found.get(c, Fraction(0)) for c in range(count)]


def _within_labels(
    problem: Problem, r: Floats, bias: Floats, mu: Fractions, ends: Ends, found: Labelled
) -> dict[int, Fraction]:
    """What a unit of time in each label earns at most, less what its own prices are worth."""
    mdp, own = problem.mdp, of_every_run(problem, ends)
    h = [value / Fraction(mdp.step) for value in _fractions(bias)]
    of = found.label[mdp.s_of].tolist()
    prices = [
        dict(zip(own.indices[start:stop].tolist(), _fractions(own.data[start:stop]), strict=True))
        for start, stop in zip(own.indptr[:-1].tolist(), own.indptr[1:].tolist(), strict=True)
    ]
    raised = exact._per_time(mdp, r)
    for k in range(problem.n_quotas):
        for i, weight in exact._weights(problem, k):
            raised[i] += weight * (mu[k] + prices[k].get(of[i], Fraction(0)))
    rows, s_of = exact._rows(mdp), mdp.s_of.tolist()
    top: dict[int, Fraction] = {}
    for i in np.flatnonzero(found.internal).tolist():
        value = raised[i] + sum(p * h[t] for t, p in rows[i]) - h[s_of[i]]
        top[of[i]] = max(top.get(of[i], value), value)
    for k, charged in enumerate(prices):
        for c, price in charged.items():
            if c in top and price:
                top[c] -= price * _bound(problem, k, price)
    return top


def _bound(problem: Problem, k: int, price: Fraction) -> Fraction:
    """The bound of a quota that a price is on, as a share."""
    return exact._share(problem, k, float((problem.lower if price > 0 else problem.upper)[k]))


def _start(mdp: MDP) -> list[tuple[int, Fraction]]:
    """States in which a run may start, and how likely."""
    states = np.flatnonzero(mdp.start)
    return list(zip(states.tolist(), _distribution(mdp.start[states]), strict=True))


class Ended(NamedTuple):
    """What is proved of the runs that end in one class."""

    chance: Fraction
    gain: Interval
    shares: list[Interval]  # of each quota
    error: Fraction


class Part(NamedTuple):
    """What is proved of one policy."""

    classes: list[Ended]
    astray: Fraction  # what the chance of ending in any set of classes may be off by
    spent: csr_array  # (SA, m)
    flawed: bool


def law(
    problem: Problem, policies: Floats, weights: Floats | None = None, guess: Floats | None = None
) -> Law:
    """Intervals for runs from the start of a policy, or of one that is drawn, as `rounded_ends.law`."""
    courses, weights = drawn_from(problem, policies, weights)
    drawn = _distribution(weights)
    parts = [_part(problem, course, guess) for course in courses]
    classes = [
        ended._replace(chance=weight * ended.chance)
        for part, weight in zip(parts, drawn, strict=True)
        for ended in part.classes
    ]
    chances, K = [ended.chance for ended in classes], problem.n_quotas
    astray = sum((weight * part.astray for part, weight in zip(parts, drawn, strict=True)), Fraction(0))
    means = [_mean([ended.shares[k] for ended in classes], chances, astray) for k in range(K)]
    low, high = (
        np.array([[end(ended.shares[k][e]) for ended in classes] for k in range(K)]).reshape(K, len(classes))
        for e, end in enumerate((down, up))
    )
    found = Intervals(
        probabilities=np.array([[max(down(z - astray), 0.0), min(up(z + astray), 1.0)] for z in chances]),
        gains=np.array([[down(ended.gain[0]), up(ended.gain[1])] for ended in classes]),
        low=csr_array(np.maximum(low, 0.0)),
        high=csr_array(np.minimum(high, 1.0)),
        gain=_mean([ended.gain for ended in classes], chances, astray),
        shares=np.clip(np.array(means).reshape(-1, 2), 0.0, 1.0),
        error=up(sum(ended.chance * ended.error for ended in classes) + astray),
    )
    z = np.array([float(chance) for chance in chances])
    spent = csr_array(hstack([part.spent for part in parts], format="csr"))
    return law_of(problem, courses, z, spent, found, flawed=any(part.flawed for part in parts))


def _mean(ends: list[Interval], chances: Fractions, astray: Fraction) -> tuple[float, float]:
    """Ends of the mean over classes of what is proved of each; all of it is above the least."""
    least = min(low for low, _ in ends)
    low, high = (sum(z * (end[e] - least) for z, end in zip(chances, ends, strict=True)) for e in (0, 1))
    off = astray * (max(high for _, high in ends) - least)
    return down(least + low - off), up(least + high + off)


def _part(problem: Problem, course: Course, guess: Floats | None) -> Part:
    """What is proved of one policy in each class, and of where it ends."""
    mdp, rest = problem.mdp, rest_of(course, guess)
    pi = exact._policy(mdp, course.policy)
    Q, s_of = exact._chain(mdp, pi), mdp.s_of.tolist()
    counted = [dict(exact._weights(problem, k)) for k in range(problem.n_quotas)]
    rewards, (chances, astray) = exact._per_time(mdp, mdp.r), _endings(course)
    classes, spent, flawed = [], [], rest.flawed or not course.stands
    for c, chance in enumerate(chances):
        inside, head = slice(course.ptr[c], course.ptr[c + 1]), int(rest.heads[c] - course.ptr[c])
        states = course.states[inside]
        v, error = _balance(Q, states.tolist(), rest.shares[inside], rest.steps[inside], head)
        flawed |= error is None
        error = Fraction(1) if error is None else error
        x = {i: pi[i] * v[s_of[i]] for i in pairs_of(mdp, states, course.policy).tolist()}
        means = [_average(values, x, error) for values in counted]
        gain = _average(dict(enumerate(rewards)), x, error)
        classes.append(Ended(chance, gain, means, error))
        spent += [(i, c, float(part)) for i, part in x.items()]
    i, of, parts = zip(*spent, strict=True)
    matrix = csr_array((parts, (i, of)), shape=(mdp.n_pairs, course.n_classes))
    return Part(classes, astray, matrix, flawed)


def _average(values: dict[int, Fraction], x: dict[int, Fraction], error: Fraction) -> Interval:
    """Ends of the mean of values of the pairs, where the shares of sets of them may be off by an error."""
    paid = [values.get(i, Fraction(0)) for i in x]
    mean = sum((value * part for value, part in zip(paid, x.values(), strict=True)), Fraction(0))
    around = error * (max(paid) - min(paid))
    return mean - around, mean + around


def _balance(
    Q: list[exact.Row], states: list[int], shares: Floats, steps: Floats, head: int
) -> tuple[dict[int, Fraction], Fraction | None]:
    """Shares of the states of a class, and what those of a set may be off by, if that is proved."""
    v = dict(zip(states, _fractions(shares), strict=True))
    total = sum(v.values())
    v = {s: share / total for s, share in v.items()}
    w = dict(zip(states, _fractions(steps), strict=True))
    others = [s for s in states if s != states[head]]
    margin = min((w[s] - sum(q * w[t] for t, q in Q[s]) for s in others), default=Fraction(1))
    if margin <= 0:
        return v, None
    pushed = dict.fromkeys(states, Fraction(0))
    for s in states:
        for t, q in Q[s]:
            pushed[t] += v[s] * q
    return v, sum((abs(v[t] - pushed[t]) * w[t] for t in others), Fraction(0)) / margin


def _endings(course: Course) -> tuple[Fractions, Fraction]:
    """Chances of ending in each class, and what they are off by."""
    mdp, m, gate = course.mdp, course.n_classes, course.gate.tolist()
    into = [Fraction(0)] * (m + course.forks.size)
    for s, p in _start(mdp):
        into[gate[s]] += p
    if not course.forks.size:
        return into, Fraction(0)
    u = _fractions(visits(first_gates(course)[0][m:], next_gates(course).N[:, m:]))
    rows, ptr = exact._stated_rows(mdp), mdp.pair_ptr.tolist()
    pi = _fractions(course.policy)
    for fork, (s, visited) in enumerate(zip(course.forks.tolist(), u, strict=True)):
        ahead: dict[int, Fraction] = {}
        for i in range(ptr[s], ptr[s + 1]):
            for t, p in rows[i] if pi[i] else ():
                ahead[gate[t]] = ahead.get(gate[t], Fraction(0)) + pi[i] * p
        ahead.pop(m + fork, None)
        moved = sum(ahead.values())
        for to, p in ahead.items():
            into[to] += visited * p / moved
    return into[:m], sum((abs(a - b) for a, b in zip(into[m:], u, strict=True)), Fraction(0))


def _distribution(values: Floats) -> Fractions:
    """Numbers over their exact sum."""
    parts = _fractions(values)
    total = sum(parts)
    return [part / total for part in parts]


def _fractions(values: Floats) -> Fractions:
    return [Fraction(value) for value in values.tolist()]
