"""The facts about runs from the start in floating point, by the rules of `rounded`."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array, hstack

from fairmdp.certificate import rounded
from fairmdp.certificate.course import Course, Rest, first_gates, next_gates, rest_of, visits
from fairmdp.certificate.ends import (
    Labelled,
    labelled,
    largest,
    looked_up,
    of_every_run,
    of_the_mean,
)
from fairmdp.certificate.facts import chargeable
from fairmdp.certificate.law import Intervals, Law, drawn_from, law_of
from fairmdp.certificate.rounded import EPS, TINY
from fairmdp.model.checks import Floats, Ints
from fairmdp.model.problem import Problem
from fairmdp.solution.ends import Ends

_LEAST_MOVE = 2.0**-900  # chance to go on below which what underflows could be a part of it


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # witnesses may be anything
def ceiling(problem: Problem, r: Floats, bias: Floats, prices: Floats, ends: Ends) -> float:
    """Proven upper bound on the reward ``r`` per unit of time of runs from the start that meet the quotas."""
    mdp = problem.mdp
    found = labelled(mdp, ends.components)
    if found is None:
        return math.inf
    inside = found.label >= 0
    g, w = (largest(x[inside], found.label[inside], found.count) for x in (ends.values, ends.moves))
    middle = (float(g.max()) + float(g.min())) / 2
    prices = chargeable(problem, of_the_mean(problem, prices))
    within = _within_labels(problem, r, bias, prices, ends, found) - middle
    g = np.maximum(g - middle, np.where(within == -math.inf, within, within + EPS * np.abs(within)))
    start, total = mdp.start, math.fsum(mdp.start)
    top = middle + math.fsum(start * g[found.label]) / total
    around = 4 * EPS * (abs(middle) + math.fsum(start * np.abs(g[found.label]))) + TINY
    if found.moving.size:
        drift, least = _drift(problem, found, g, w)
        if not (least > 0 and w.min() >= 0):
            return math.inf
        added = drift * (math.fsum(start * w[found.label]) / total / least)
        top, around = top + added, around + 16 * EPS * added + TINY
    return rounded.less_dual_value(problem, top + around + EPS * abs(top), prices)


def _within_labels(
    problem: Problem, r: Floats, bias: Floats, prices: Floats, ends: Ends, found: Labelled
) -> Floats:
    """Bound on what a unit of time in each label earns, less what its own prices are worth, (labels,)."""
    stated, mdp, label = problem.mdp, problem.mdp.uniform, found.label
    r = r if stated.durations is None else r / stated.durations
    h, size_h = _centred(bias / stated.step, label, found.count)
    own, members = of_every_run(problem, ends), problem.members
    pairs, quota = members.indices, np.repeat(np.arange(problem.n_quotas), np.diff(members.indptr))
    charged = members.data * (prices[quota] + looked_up(own, quota, label[stated.s_of[pairs]]))
    raised = np.bincount(pairs, charged, mdp.n_pairs)
    size = np.bincount(pairs, np.abs(charged), mdp.n_pairs) + np.abs(r) + 2 * size_h[stated.s_of]
    values = r + raised + mdp.P @ h - h[stated.s_of]
    terms = np.diff(mdp.P.indptr) + 2 * np.bincount(pairs, minlength=mdp.n_pairs) + 8
    values += terms * EPS * size + 2 * size_h[stated.s_of] * rounded._model_defect(stated) + TINY
    top = largest(values[found.internal], label[stated.s_of[found.internal]], found.count)
    dual, slip = _dual_values(problem, own)
    bound = top - dual + slip + 2 * EPS * (np.abs(top) + np.abs(dual))
    return np.where(top == -math.inf, top, bound)  # nothing stays in a label without internal pairs


def _centred(h: Floats, label: Ints, count: int) -> tuple[Floats, Floats]:
    """Vector less the middle of each label, and its size in the label of each state, (S,) each."""
    place = np.maximum(label, 0)
    inside = label >= 0
    top, low = largest(h[inside], label[inside], count), -largest(-h[inside], label[inside], count)
    h = np.where(inside, h - ((top + low) / 2)[place], 0.0)
    return h, largest(np.abs(h), place, count)[place]


def _dual_values(problem: Problem, own: csr_array) -> tuple[Floats, Floats]:
    """What the prices of each label charge for the bounds, and what rounding makes of it, (labels,) each."""
    k = np.repeat(np.arange(problem.n_quotas), np.diff(own.indptr))
    owed = np.where(own.data > 0, problem.at_least[k], problem.at_most[k]) * own.data
    dual, size = (np.bincount(own.indices, x, own.shape[1]).astype(float) for x in (owed, np.abs(owed)))
    return dual, (np.bincount(own.indices, minlength=own.shape[1]) + 6) * EPS * size + TINY


def _drift(problem: Problem, found: Labelled, g: Floats, w: Floats) -> tuple[float, float]:
    """How much the other pairs add to g at most, and by how much they make w less at least."""
    mdp, moving = problem.mdp, found.moving
    P, own = mdp.P[moving], mdp.s_of[moving]
    g, w = (np.where(found.label >= 0, x[found.label], 0.0) for x in (g, w))
    off = (np.diff(P.indptr) + 4) * EPS + 2 * rounded._row_defect(P)
    up = P @ g - g[own] + off * (P @ np.abs(g) + np.abs(g[own]))
    down = w[own] - (P @ w) * (1 + off) - 2 * EPS * w[own] - TINY * float(w.max())
    return max(0.0, float(up.max())) + TINY, float(down.min())


class Part(NamedTuple):
    """What is proved of one policy, class by class."""

    chances: Floats  # (m,), of ending in each class
    astray: float  # what the chance of ending in any set of them may be off by
    gain: Floats  # (m,)
    radius: Floats  # (m,)
    shares: csr_array  # (K, m)
    relative: Floats  # (m,), what shares may be off by, as a part of them ...
    error: Floats  # (m,) ... and beside that
    spent: csr_array  # (SA, m), shares of the pairs
    flawed: bool


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def law(
    problem: Problem, policies: Floats, weights: Floats | None = None, guess: Floats | None = None
) -> Law:
    """Proven intervals for runs from the start of a policy, or of one that is drawn from several.

    Parameters
    ----------
    problem
        The model and the quotas.
    policies
        Probability of each pair given its state, (SA,) or (M, SA).
    weights
        With which probability each policy is drawn, (M,).
    guess
        Something near the shares of the states, (S,), from which large classes start; it is not trusted.
    """
    courses, weights = drawn_from(problem, policies, weights)
    drawn = (weights / math.fsum(weights)).tolist()
    parts = [_part(problem, course, guess) for course in courses]
    chances = np.concatenate([part.chances * weight for part, weight in zip(parts, drawn, strict=True)])
    astray = sum(weight * part.astray for part, weight in zip(parts, drawn, strict=True))
    astray += 0.0 if len(parts) == 1 else 4 * len(parts) * EPS
    gain, radius, relative, error = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("gain", "radius", "relative", "error")
    )
    shares = csr_array(hstack([part.shares for part in parts], format="csr"))
    gains, mean_error = np.column_stack([gain - radius, gain + radius]), float(chances @ error) + astray
    mean, slip = shares @ chances, float(relative.max()) + (chances.size + 4) * EPS
    around = mean * slip + mean_error + TINY
    found = Intervals(
        probabilities=np.column_stack([np.maximum(chances - astray, 0), np.minimum(chances + astray, 1)]),
        gains=gains,
        low=_moved(shares, 1 - relative, -error),
        high=_moved(shares, 1 + relative, error),
        gain=_mean_gain(gains, chances, astray),
        shares=np.column_stack([np.maximum(mean - around, 0), np.minimum(mean + around, 1)]),
        error=mean_error + slip,
    )
    spent = csr_array(hstack([part.spent for part in parts], format="csr"))
    return law_of(problem, courses, chances, spent, found, flawed=any(part.flawed for part in parts))


def _moved(shares: csr_array, factor: Floats, by: Floats) -> csr_array:
    """Shares within an error of each class, (m,); what has no entry has no share at all."""
    data = np.clip(shares.data * factor[shares.indices] + by[shares.indices], 0.0, 1.0)
    return csr_array((data, shares.indices, shares.indptr), shape=shares.shape)


def _mean_gain(gains: Floats, chances: Floats, astray: float) -> tuple[float, float]:
    """Ends of the mean gain, from those of the classes, (m, 2): all of them are above the least."""
    least = float(gains[:, 0].min())
    low, high = (_above(least, ends - least, chances, astray) for ends in gains.T)
    return least + low[0], least + high[1]


def _above(least: float, more: Floats, chances: Floats, astray: float) -> tuple[float, float]:
    mean, size = math.fsum(chances * more), float(more.max())
    around = astray * size + 8 * EPS * (mean + abs(least)) + TINY
    return mean - around, mean + around


def _part(problem: Problem, course: Course, guess: Floats | None) -> Part:
    """What is proved of one policy in each class, and of where it ends."""
    stated, mdp = problem.mdp, problem.mdp.uniform
    policy = stated.per_step(course.policy)
    rest, first = rest_of(course, guess), course.ptr[:-1]
    defect = rounded._row_defect(rounded._policy_rows(mdp.pair_ptr, policy))
    defect = defect + np.maximum.reduceat(rounded._model_defect(stated), mdp.pair_ptr[:-1])
    terms = ((mdp.n_actions + 4) * (1 if stated.durations is None else 2))[course.states]
    error, loss, proved = _errors(rest, first, terms * EPS + 2 * defect[course.states])
    pairs = course.pairs
    place = np.empty(mdp.n_states, np.int64)
    place[course.states] = np.arange(course.states.size)
    place = place[mdp.s_of[pairs]]  # (pairs,), of their states among those of the classes
    sums = np.add.reduceat(policy, mdp.pair_ptr[:-1])[mdp.s_of[pairs]]
    x, r, of = policy[pairs] / sums * rest.shares[place], mdp.r[pairs], course.class_of[place]
    ptr = np.searchsorted(of, np.arange(course.n_classes + 1))
    relative = (float(terms.max()) + 4) * EPS
    (gain, gain_error), (size_x, _) = rounded._sums(r * x, ptr), rounded._sums(np.abs(r) * x, ptr)
    top, low = np.maximum.reduceat(r, ptr[:-1]), np.minimum.reduceat(r, ptr[:-1])
    size = np.maximum(np.abs(top), np.abs(low))
    span = top - low + (0.0 if stated.durations is None else 2) * EPS * size
    radius = gain_error + 2 * relative * size_x + span * error + size * loss + TINY
    chances, astray, sure = _endings(course)
    spent = csr_array((x, (pairs, of)), shape=(mdp.n_pairs, course.n_classes))
    shares = csr_array(problem.members @ spent)
    flawed = not (course.stands and proved and sure and not rest.flawed)
    relative_share = relative + (np.diff(ptr) + 8) * EPS
    return Part(chances, astray, gain, radius, shares, relative_share, error + loss + TINY, spent, flawed)


def _errors(rest: Rest, first: Ints, relative: Floats) -> tuple[Floats, Floats, bool]:
    """What shares are off in each class, and their sum from one, (m,) each, and whether that is proved."""
    sizes = np.diff(first, append=rest.steps.size)
    residual = rounded.unbalanced(rest.Q, rest.shares, relative)
    margin = rounded.decline(rest.Q, rest.steps, relative)
    margin[rest.heads], residual[rest.heads] = np.inf, 0.0
    least = np.minimum.reduceat(margin, first)
    spread = np.add.reduceat(residual * rest.steps, first) / least * (1 + (sizes + 16) * EPS)
    total, lost = rounded._sums(rest.shares, np.append(first, rest.steps.size))
    return np.where(sizes == 1, 0.0, spread), np.abs(1 - total) + lost + EPS, bool((least > 0).all())


def _endings(course: Course) -> tuple[Floats, float, bool]:
    """Chances of ending in each class, (m,), what they are off by, and whether that is proved."""
    m = course.n_classes
    if m == 1:
        return np.ones(1), 0.0, True
    p, counts = first_gates(course)
    counts += 3
    if not course.forks.size:
        return p, float((counts * EPS * p).sum()), True
    N, moved, pairs, ptr, terms = next_gates(course)
    off = 2 * (terms + 6) * EPS
    off += 4 * np.maximum.reduceat(rounded._row_defect(course.mdp.P[pairs]), ptr[:-1])
    u = visits(p[m:], N[:, m:])
    into = p + N.T @ u
    counts += np.bincount(N.indices, minlength=p.size)
    residual = float(np.abs(into[m:] - u).sum() + EPS * u.sum())
    astray = residual + float((counts * EPS * into).sum()) + float(off @ u) + TINY
    return into[:m], astray * (1 + p.size * EPS), bool((moved > _LEAST_MOVE).all())
