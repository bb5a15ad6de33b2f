"""Is a log the log of a Markov model? Checks before anything is believed, each a sentence."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairmdp.model.checks import Floats, Ints
from fairmdp.model.mdp import MDP
from fairmdp.records import exchange
from fairmdp.records.log import Log

LEVEL = 0.01
"""Corrected p-value below which a check raises an alarm: of so many Markov logs at most, one does."""

FEWEST = 20
"""Records below which a pair counts as hardly tried."""

WINDOWS = (1, 8, 64)
"""Records back for which likeness to earlier ones is looked at."""

_NAMED = 3
_MOST_LABELS = 50  # states before that are told apart along the slow directions
_MOST_STATES = 1000  # whose eigenvectors are computed


class Finding(NamedTuple):
    """What one check has shown."""

    check: str
    sentence: str
    p: float | None
    """How often a Markov log looks so or worse, times the number of tests; None where nothing was tested."""
    alarm: bool


def check_log(log: Log, *, possible: MDP | None = None) -> tuple[Finding, ...]:
    """Tests and counts of a log; `Log.check` says which."""
    y = _deviations(log)
    tests = [_drift(log, y), _state_before(log, y), _action_before(log), _likeness(log, y)]
    made = [test for test in tests if test is not None]
    found = [_judged(test, len(made)) for test in made]
    return (*found, *_gaps(log), *_hardly_tried(log), *_impossible(log, possible))


class _Test(NamedTuple):
    check: str
    what: str  # what follows ... , where it is so
    p: float
    z: Floats  # of each stratum, where they were told apart
    strata: list[str]


def _judged(test: _Test, looks: int) -> Finding:
    """The finding of a test, its p-value corrected for the number of tests."""
    p = min(looks * test.p, 1.0)
    if p > LEVEL:
        return Finding(test.check, f"what follows does not seem to {test.what} (p = {p:.2g})", p, alarm=False)
    told_apart = test.z.size == len(test.strata)
    worst = np.argsort(-test.z)[:_NAMED].tolist() if told_apart else []
    where = ", ".join(test.strata[k] for k in worst if test.z[k] > 2)
    at = f", most of all after {where}" if where else ""
    return Finding(test.check, f"what follows seems to {test.what}{at} ({_p_text(p)})", p, alarm=True)


def _p_text(p: float) -> str:
    return "p below 1e-9" if p < 1e-9 else f"p = {p:.1g}"


def _drift(log: Log, y: Floats) -> _Test | None:
    """Next states of each pair in the earlier half of the records against the later half."""
    if not log.ordered:
        return None
    late = ~log.earlier(0.5)
    found = exchange.table(_numbers(log.pairs), late.astype(np.int64), log.s_next)
    along = exchange.against(_numbers(log.pairs), y, late[:, None].astype(float))
    return _either("drift", "change over time", (found, _pairs(log, log.pairs)), (along, []))


def _state_before(log: Log, y: Floats) -> _Test | None:
    """Next states of each pair against the state before."""
    n = np.flatnonzero(log.follows)
    if not n.size:
        return None
    before, strata = log.labels.s_of[log.pairs[n - 1]], log.pairs[n]
    found = exchange.table(_numbers(strata), before, log.s_next[n])
    labels = [_directions(log)[before]]
    if log.labels.n_states <= _MOST_LABELS:
        labels.append((before[:, None] == np.arange(log.labels.n_states)).astype(float))
    along = [(exchange.against(_numbers(strata), y[n], label), list[str]()) for label in labels]
    words = "depend on the state before"
    return _either("memory of the state before", words, (found, _pairs(log, strata)), *along)


def _action_before(log: Log) -> _Test | None:
    """Next states of each pair and state before, against the action before."""
    n = np.flatnonzero(log.follows)
    if not n.size:
        return None
    before = log.pairs[n - 1]
    strata = log.pairs[n] * log.labels.n_states + log.labels.s_of[before]
    found = exchange.table(_numbers(strata), before, log.s_next[n])
    names = _pairs(log, np.unique(strata) // log.labels.n_states, once=False)
    return _either("memory of the action before", "depend on the action before", (found, names))


def _likeness(log: Log, y: Floats) -> _Test | None:
    """Whether what follows is more alike at records near each other: what lasts is not in the state."""
    if not log.ordered:
        return None
    order = np.argsort(log.pairs, kind="stable")
    stratum, following = _numbers(log.pairs)[order], log.s_next[order]
    names = _pairs(log, log.pairs)
    visits = [(exchange.likeness(stratum, following, window), names) for window in WINDOWS]
    near = [(exchange.lasting(_numbers(log.pairs), y, window), list[str]()) for window in WINDOWS]
    words = "be alike at records near each other, as if the state lacked something that lasts"
    return _either("likeness to earlier records", words, *visits, *near)


def _either(check: str, words: str, *found: tuple[exchange.Outcome | None, list[str]]) -> _Test | None:
    """The clearest of several outcomes, its p-value corrected for their number."""
    there = [(outcome, names) for outcome, names in found if outcome is not None]
    if not there:
        return None
    best, names = min(there, key=lambda each: each[0].p)
    return _Test(check, words, min(len(there) * best.p, 1.0), best.z, names)


def _numbers(values: Ints) -> Ints:
    """Values as numbers from 0, in their order."""
    return np.asarray(np.unique(values, return_inverse=True)[1])


def _pairs(log: Log, pairs: Ints, *, once: bool = True) -> list[str]:
    """Names of the pairs, ascending."""
    return [log.labels.pair_name(i) for i in (np.unique(pairs) if once else pairs).tolist()]


def _deviations(log: Log) -> Floats:
    """Where each record led along the slow directions, (N, d)."""
    phi = _directions(log)
    return np.asarray(phi[log.s_next] / np.maximum(phi[log.s_next].std(axis=0), 1e-12))


def _directions(log: Log) -> Floats:
    """The slowest directions of the chain that was recorded, (S, d); none where it has too many states."""
    S = log.labels.n_states
    if S > _MOST_STATES:
        return np.zeros((S, 0))
    seen = np.zeros((S, S))
    np.add.at(seen, (log.labels.s_of[log.pairs], log.s_next), 1.0)
    seen[np.arange(S), np.arange(S)] += seen.sum(axis=1) == 0
    return exchange.slow_directions(seen / seen.sum(axis=1, keepdims=True))


def _gaps(log: Log) -> list[Finding]:
    if not log.gaps:
        return []
    words = f"{log.gaps:,} of {log.n_records:,} records do not begin where and when the one before them ended"
    return [Finding("gaps", words, None, alarm=False)]


def _hardly_tried(log: Log) -> list[Finding]:
    few = np.flatnonzero(log.per_pair < FEWEST)
    if not few.size:
        return []
    names = [f"{log.labels.pair_name(i)} ({log.per_pair[i]})" for i in few[:_NAMED].tolist()]
    rest = f" and {few.size - len(names)} more" if few.size > len(names) else ""
    words = f"{few.size} of {log.labels.n_pairs} pairs have fewer than {FEWEST} records: "
    return [Finding("hardly tried", words + ", ".join(names) + rest, None, alarm=False)]


def _impossible(log: Log, possible: MDP | None) -> list[Finding]:
    if possible is None:
        return []
    labels = log.labels
    state = np.array([possible.state_index(labels.state_name(s)) for s in range(labels.n_states)])
    seen, times = np.unique(np.stack([log.pairs, log.s_next]), axis=1, return_counts=True)
    bad = []
    for (i, t), count in zip(seen.T.tolist(), times.tolist(), strict=True):
        pair = possible.pair_index(int(state[labels.s_of[i]]), labels.action_name(i))
        if possible.P[[pair], [int(state[t])]][0] == 0:
            bad.append((f"{labels.pair_name(i)} to {labels.state_name(t)}", count))
    if not bad:
        return [Finding("impossible", "nothing happened that the model calls impossible", None, alarm=False)]
    total, names = sum(n for _, n in bad), [f"{name} ({n})" for name, n in bad[:_NAMED]]
    rest = f" and {len(bad) - len(names)} more" if len(bad) > len(names) else ""
    words = f"{total:,} records lead where the model says that nothing leads: {', '.join(names)}{rest}"
    return [Finding("impossible", words, None, alarm=True)]
