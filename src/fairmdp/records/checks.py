"""Is a log the log of a Markov model? Checks before anything is believed, each a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fairmdp.model.checks import Floats, Ints
from fairmdp.model.mdp import MDP
from fairmdp.records import exchange
from fairmdp.records.directions import Near, alike, common, within
from fairmdp.records.exchange import numbers
from fairmdp.records.log import Log

LEVEL = 0.01
"""Corrected p-value below which a check raises an alarm: of so many Markov logs at most, one does."""

FEWEST = 20
"""Records below which a pair counts as hardly tried."""

WINDOWS = (1, 8, 64)
"""Records back for which likeness to earlier ones is looked at."""

BLOCKS = 16
"""Stretches of the log whose records are compared."""

MOST = 40_000
"""Records among which common directions are looked for; with more it would take too long."""

_NAMED = 3
_CLEAR = 1e-6  # p-value with which nothing else needs to be looked at
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
    phi = _directions(log)
    tests = [_drift(log, phi), _state_before(log, phi), _action_before(log), _likeness(log, phi)]
    tests += _of_rewards(log, phi)
    made = [test for test in tests if test is not None]
    found = [_judged(test, len(made)) for test in made]
    return (*found, *_gaps(log), *_hardly_tried(log), *_impossible(log, possible))


class _Test(NamedTuple):
    check: str
    what: str  # "what follows"
    does: str  # where it is so
    p: float
    z: Floats  # of each stratum, where they were told apart
    strata: list[str]


def _judged(test: _Test, looks: int) -> Finding:
    """The finding of a test, its p-value corrected for the number of tests."""
    p = min(looks * test.p, 1.0)
    if p > LEVEL:
        words = f"{test.what} does not seem to {test.does} (p = {p:.2g})"
        return Finding(test.check, words, p, alarm=False)
    told_apart = test.z.size == len(test.strata)
    worst = np.argsort(-test.z)[:_NAMED].tolist() if told_apart else []
    where = ", ".join(test.strata[k] for k in worst if test.z[k] > 2)
    at = f", most of all after {where}" if where else ""
    return Finding(test.check, f"{test.what} seems to {test.does}{at} ({_p_text(p)})", p, alarm=True)


def _p_text(p: float) -> str:
    return "p below 1e-9" if p < 1e-9 else f"p = {p:.1g}"


_FOLLOWS, _PAID = "what follows", "what is paid"
_CHANGES, _STATE_BEFORE, _ACTION_BEFORE, _ALIKE = (
    "change over time",
    "depend on the state before",
    "depend on the action before",
    "be alike at records near each other, as if the state lacked something that lasts",
)


def _drift(log: Log, phi: Floats) -> _Test | None:
    """Next states of each pair in the earlier half of the records against the later half, and in blocks."""
    if not log.ordered:
        return None
    pairs, late = numbers(log.pairs), _late(log)
    found = exchange.table(pairs, late, log.s_next)
    along = _against(log, np.arange(log.n_records), late, phi, [np.arange(2.0)[:, None]])
    some = _spread(np.argsort(log.times, kind="stable"))
    block = np.arange(some.size) * BLOCKS // some.size
    return _either(
        "drift", _FOLLOWS, _CHANGES, (found, _pairs(log, log.pairs)), *along,
        beside=lambda: _common(log, log.pairs[some], some, alike(block)),
    )  # fmt: skip


def _state_before(log: Log, phi: Floats) -> _Test | None:
    """Next states of each pair against the state before."""
    n = np.flatnonzero(log.follows)
    if not n.size:
        return None
    strata, before, some = log.pairs[n], log.labels.s_of[log.pairs[n - 1]], _spread(n)
    found = exchange.table(numbers(strata), before, log.s_next[n])
    along = _against(log, n, before, phi, _told(log, phi))
    return _either(
        "memory of the state before", _FOLLOWS, _STATE_BEFORE, (found, _pairs(log, strata)), *along,
        beside=lambda: _common(log, _spread(strata), some, alike(numbers(_spread(before)))),
    )  # fmt: skip


def _action_before(log: Log) -> _Test | None:
    """Next states of each pair and state before, against the action before."""
    n = np.flatnonzero(log.follows)
    if not n.size:
        return None
    before, some = log.pairs[n - 1], _spread(n)
    strata = log.pairs[n] * log.labels.n_states + log.labels.s_of[before]
    found = exchange.table(numbers(strata), before, log.s_next[n])
    names = _pairs(log, np.unique(strata) // log.labels.n_states, once=False)
    return _either(
        "memory of the action before", _FOLLOWS, _ACTION_BEFORE, (found, names),
        beside=lambda: _common(log, _spread(strata), some, alike(numbers(_spread(before)))),
    )  # fmt: skip


def _likeness(log: Log, phi: Floats) -> _Test | None:
    """Whether what follows is more alike at records near each other: what lasts is not in the state."""
    if not log.ordered:
        return None
    pairs, order = numbers(log.pairs), np.argsort(log.pairs, kind="stable")
    names, last = _pairs(log, log.pairs), np.arange(log.n_records)[-MOST:]
    visits = [(exchange.likeness(pairs[order], log.s_next[order], window), names) for window in WINDOWS]
    near = [
        (exchange.lasting(pairs, along[:, None], window), list[str]())
        for window in WINDOWS
        for along in phi[log.s_next].T
    ]
    return _either(
        "likeness to earlier records", _FOLLOWS, _ALIKE, *visits, *near,
        beside=lambda: _common(log, log.pairs[last], last, within(WINDOWS[-1])),
    )  # fmt: skip


def _of_rewards(log: Log, phi: Floats) -> list[_Test | None]:
    """Drift, memory of the state before and likeness of what pairs and next states pay, where that varies."""
    of = numbers(log.pairs * log.labels.n_states + log.s_next)
    ranks, varies = exchange.ranked(of, log.rewards)
    if not varies.any():
        return []

    def along(n: Ints, label: Floats) -> tuple[exchange.Outcome | None, list[str]]:
        return exchange.against(numbers(of[n]), ranks[n, None], label), []

    every, after = np.flatnonzero(varies), np.flatnonzero(varies & log.follows)
    tests: list[_Test | None] = []
    if log.ordered:
        late = _late(log)[every, None].astype(float)
        lasting = [
            (exchange.lasting(numbers(of[every]), ranks[every, None], window), list[str]())
            for window in WINDOWS
        ]
        tests += [
            _either("drift of rewards", _PAID, _CHANGES, along(every, late)),
            _either("likeness of rewards", _PAID, _ALIKE, *lasting),
        ]
    if after.size:
        before = log.labels.s_of[log.pairs[after - 1]]
        told = [along(after, label[before]) for label in _told(log, phi)]
        tests.append(_either("memory of the state before in rewards", _PAID, _STATE_BEFORE, *told))
    return tests


def _either(
    check: str,
    what: str,
    does: str,
    *found: tuple[exchange.Outcome | None, list[str]],
    beside: Callable[[], exchange.Outcome | None] | None = None,
) -> _Test | None:
    """The clearest of several outcomes, its p-value corrected for their number.

    ``beside`` takes longer than the others, and is looked at where they are not clear.
    """
    there = [(outcome, names) for outcome, names in found if outcome is not None]
    if not there:
        return None
    looks = len(there) + (beside is not None)
    if beside is not None and min(outcome.p for outcome, _ in there) > _CLEAR:
        other = beside()
        there += [] if other is None else [(other, [])]
    best, names = min(there, key=lambda each: each[0].p)
    return _Test(check, what, does, min(looks * best.p, 1.0), best.z, names)


def _common(log: Log, strata: Ints, n: Ints, near: Near) -> exchange.Outcome | None:
    """Whether records n, of such strata, lead the same way where they are near each other."""
    return common(numbers(strata), numbers(log.pairs[n] * log.labels.n_states + log.s_next[n]), near)


def _spread(n: Ints) -> Ints:
    """Not too many of the records, spread evenly."""
    return n[:: -(-n.size // MOST)]


def _late(log: Log) -> Ints:
    return (~log.earlier(0.5)).astype(np.int64)


def _told(log: Log, phi: Floats) -> list[Floats]:
    """States as numbers, (S, m): along the slow directions, and each for itself where they are few."""
    S = log.labels.n_states
    return [phi, np.eye(S)] if S <= _MOST_LABELS else [phi]


def _against(
    log: Log, n: Ints, label: Ints, phi: Floats, told: list[Floats]
) -> list[tuple[exchange.Outcome | None, list[str]]]:
    """Where records n led along the slow directions, against labels as numbers; equal records count once."""
    S, n_labels = log.labels.n_states, told[0].shape[0]
    kind = (log.pairs[n] * n_labels + label) * S + log.s_next[n]
    number = numbers(kind)
    times = np.bincount(number)
    each = np.empty(times.size, np.int64)
    each[number] = kind
    pairs, y = numbers(each // (S * n_labels)), phi[each % S]
    label = each // S % n_labels
    return [(exchange.against(pairs, y, numbers_of[label], times), []) for numbers_of in told]


def _pairs(log: Log, pairs: Ints, *, once: bool = True) -> list[str]:
    """Names of the pairs, ascending."""
    return [log.labels.pair_name(i) for i in (np.unique(pairs) if once else pairs).tolist()]


def _directions(log: Log) -> Floats:
    """The slowest directions of the chain that was recorded, (S, d); none where it has too many states."""
    S = log.labels.n_states
    if S > _MOST_STATES:
        return np.zeros((S, 0))
    seen = np.zeros((S, S))
    np.add.at(seen, (log.labels.s_of[log.pairs], log.s_next), 1.0)
    seen[np.arange(S), np.arange(S)] += seen.sum(axis=1) == 0
    phi = exchange.slow_directions(seen / seen.sum(axis=1, keepdims=True))
    return np.asarray(phi / np.maximum(phi[log.s_next].std(axis=0), 1e-12))


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
