"""A fair policy from records: chosen on the earlier ones, claimed on the later ones.

No pair can be asked for, so only those are used that were tried often enough, and that lead to states of
which the same holds (`Part`). The rest is as for a simulator: a ladder of policies on the first part, the
test of `posterior` on the second. Given how often each pair was tried, its records are not independent
draws, since what was seen decided where the system went next; but the likelihood of the transitions is the
same, and with it the distribution from which the test draws. Its level was measured on logs
(``benchmarks/records.py``), not proved.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fairmdp.learning.counts import Counts, Seed, seed_stream
from fairmdp.learning.estimate import Estimate, FromRecords
from fairmdp.learning.evaluation import Evaluation, estimated, evaluate
from fairmdp.learning.fitting import Fit, Level, fitted, gap_above, pooled_upper
from fairmdp.learning.ladder import Rung, climb, descend, thinned, worth_testing
from fairmdp.learning.plugin import POWER, check_delta, estimate_of
from fairmdp.learning.posterior import FEWEST, Trial, affordable_draws, affordable_tests, trial
from fairmdp.model.checks import Bools, Floats, Ints, counted, refuse
from fairmdp.model.labels import Labelled
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem
from fairmdp.model.quota import Quota
from fairmdp.model.transitions import staying
from fairmdp.records.log import Log

_NO_ROOM = 1e-5  # of the width of a bound: what is left of a quota, below which no advice is given
_CAUTION = 0.5  # errors by which a quota may have less room than the later records show
_TESTING = 4  # key of the stream of seeds of the draws that test a policy


@dataclass(frozen=True)
class Tuning:
    """How records are used."""

    choosing: float = 0.5  # share of the records, the earlier ones, that choose the policies
    fewest: int = 20  # of these for a pair to be used; fewer miss successors that matter
    rare: int = 10  # records of a pair with which the later half has the two that a test takes, nearly surely
    named: int = 4  # pairs that a sentence names


TUNING = Tuning()


class Wanted(NamedTuple):
    """How many more records of a pair a claim takes."""

    pair: str
    records: float


def counts_of(log: Log) -> Counts:
    """What the records say of each pair."""
    return Counts.of(log.pairs, log.s_next, log.rewards, log.labels.n_pairs, log.labels.n_states)


def learn_records(
    log: Log, quotas: Iterable[Quota], *, delta: float = 0.05, seed: Seed = 0, tuning: Tuning = TUNING
) -> Estimate:
    """Learn a fair policy from a log; `learn` says how.

    Returns
    -------
    Estimate
        ``records`` says what was not used and what is missing. The claim, and all shares and gains, are those
        of runs that begin in a state that is used.

    Examples
    --------
    >>> from fairmdp import Quota, record, scenarios
    >>> log = record(scenarios.three_state().mdp, steps=4000, seed=1)
    >>> found = learn_records(log, [Quota("s2", states=["s2"], at_least=0.25)])
    >>> found.claim[:47]
    'confirmed on 2,000 later records at level 0.05:'
    """
    started = time.perf_counter()
    check_delta(delta)
    found = _checked(log, _Search(log, log.problem(quotas), delta, seed, tuning).estimate())
    return found.ended(finished=True, started=started, history=[found.round])


def _checked(log: Log, found: Estimate) -> Estimate:
    """The estimate with what the checks of the log have shown; an alarm costs the claim."""
    assert found.records is not None
    findings = log.check()
    found = replace(found, records=replace(found.records, findings=findings))
    alarms = tuple(finding.sentence for finding in findings if finding.alarm)
    if not alarms:
        return found
    found = replace(found, notes=(*found.notes, *alarms))
    if found.guaranteed:
        claim = f"no claim: the records are not those of a Markov model ({alarms[0]}); else {found.claim}"
        found = replace(found, guaranteed=False, claim=claim)
    return found


class _Search:
    """One log, cut in two, and what it says of policies on the pairs that were tried often enough."""

    def __init__(self, log: Log, whole: Problem, delta: float, seed: Seed, tuning: Tuning) -> None:
        first = log.earlier(tuning.choosing)
        early, late = counts_of(log.part(first)), counts_of(log.part(~first))
        self.all, self._late, self._delta, self._tuning = Counts.merged([early, late]), late, delta, tuning
        self._kept = kept_pairs(whole, early, tuning.fewest)
        self.part = Part(whole, self._kept)
        self.owed = self.part.owed
        self._early, self._test = self.part.counts(early), self.part.counts(late)
        self._level = Level.of(self.owed, delta, None)
        self._draws = affordable_draws(self.owed.mdp.n_states, self._level.quota)
        self._seeds = seed_stream(seed, _TESTING)

    def estimate(self) -> Estimate:
        """The last policy that passes its test, or why there is none."""
        owed, level = self.owed, self._level
        if not ((owed.at_least > 0).any() or (owed.at_most < 1).any()):
            return self._unclaimed("no claim: no quota is owed")
        if not self._draws:
            return self._unclaimed(f"no claim: {owed.mdp.n_states} states are too many to test a policy here")
        fit = fitted(owed, self._early, level)
        if fit.short > 0:
            return self._unclaimed("no claim: the earlier records show no policy that meets the quotas")
        rungs = climb(owed, self._early, fit.seen.share_se)
        if not rungs:
            return self._unclaimed("no claim: on the earlier records every policy's chain falls apart")
        rungs = worth_testing(rungs, owed, self._expected_se, level.z_quota)
        passed, failed = descend(
            thinned(rungs, affordable_tests(owed.mdp.n_states, self._draws)), self._tested
        )
        if passed is not None:
            return self._claimed(*passed)
        assert failed is not None
        return self._failed(*failed)

    def _tested(self, rung: Rung) -> Trial:
        rng = np.random.default_rng(next(self._seeds))
        return tested(self.part, self._late, rung.policy, self._level.quota, self._draws, rng)

    def _expected_se(self, rung: Rung) -> Floats:
        """Standard errors of the shares if the later records are made as the earlier ones were, (K,)."""
        per_pair = self._early.per_pair * (1 / self._tuning.choosing - 1)
        return np.sqrt(rung.seen.x**2 / np.maximum(per_pair, 1) @ rung.seen.share_variance)

    def _claimed(self, rung: Rung, found: Trial) -> Estimate:
        """Estimate of a policy that passed, from the records that did not choose it."""
        owed, level, test = self.owed, self._level, self._test
        seen = evaluate(estimated(owed, test), test, rung.policy)
        upper = pooled_upper(owed, self.part.counts(self.all), level.z_gap)
        fit = Fit(seen, rung.answer, rung.margins, 1.0, gap_above(seen, upper, level))
        few = "" if self._draws >= 2000 else f", from {self._draws} draws only"
        claim = (
            f"confirmed on {test.total:,} later records at level {self._delta:g}: a policy that misses a "
            f"quota would pass in at most {100 * self._delta:g} % of such logs (approximate{few})"
        )
        tests: dict[str, Any] = {"share_low": found.low, "share_high": found.high}
        return self._estimate(fit, claim, guaranteed=True, tested_samples=test.total, **tests)

    def _failed(self, rung: Rung, found: Trial) -> Estimate:
        """Estimate without a claim: which bound was not reached, and how many more records would do."""
        owed = self.owed
        if found.why_not:
            return self._asking(f"no claim: {found.why_not}", *self._scarce(rung), how="at least")
        k, lower = found.worst(owed)
        why = found.shown_short(owed, f"{self._test.total:,} later records")
        wanted, more = self._missing(rung, found, k, lower=lower)
        if not wanted:
            why += "; no policy seems to have room to spare"
        return self._asking(why, wanted, more)

    def _asking(self, why: str, wanted: list[Wanted], more: float, how: str = "about") -> Estimate:
        """Estimate without a claim that says of what more records are wanted."""
        if not wanted:
            return self._unclaimed(why)
        most = [f"{round_up(n):,} more records of {pair}" for pair, n in wanted[: self._tuning.named]]
        found = self._unclaimed(
            f"{why}; it takes {how} {', '.join(most)}, or {round_up(more):,} more like all of these"
        )
        missing = tuple((pair, round_up(n)) for pair, n in wanted)
        return replace(found, records=FromRecords(self._kept, missing, round_up(more)))

    def _scarce(self, rung: Rung) -> tuple[list[Wanted], float]:
        """Records that are missing of pairs that the policy uses and the later half hardly has."""
        have = self.part.counts(self.all).per_pair
        few = np.flatnonzero((rung.policy > 0) & (self._test.per_pair < FEWEST))
        enough = self._tuning.rare
        wanted = [Wanted(self.owed.mdp.pair_name(i), max(enough - have[i], 1.0)) for i in few.tolist()]
        most = max((n / max(have[i], 1) for i, (_, n) in zip(few, wanted, strict=True)), default=0.0)
        return wanted, most * self.all.total

    def _missing(self, rung: Rung, found: Trial, k: int, *, lower: bool) -> tuple[list[Wanted], float]:
        """Records that are missing of each pair, and of all if they are made as until now."""
        owed, seen, z = self.owed, self._pooled(rung), self._level.z_quota
        test = evaluate(estimated(owed, self._test), self._test, rung.policy)
        room = float(test.shares[k] - owed.at_least[k] if lower else owed.at_most[k] - test.shares[k])
        room -= _CAUTION * float(test.share_se[k])
        radius = abs(float(test.shares[k] - (found.low if lower else found.high)[k]))
        error = max(float(test.share_se[k]), float(seen.share_se[k]))
        if room <= _NO_ROOM * radius or error == 0:
            return [], np.inf
        wider = max(radius / (z * error), 1.0)  # than the normal one
        aim, later = (room / (wider * (z + POWER))) ** 2, 1 - self._tuning.choosing
        have, used = self.part.counts(self.all).per_pair, seen.x > 0
        deviation = seen.x * np.sqrt(seen.share_variance[:, k])
        due = np.where(used, deviation * deviation.sum() / aim / later, 0.0)
        lacking = np.maximum(due - have, 0.0)
        order = np.argsort(-lacking)[: int((lacking > 0).sum())]
        wanted = [Wanted(owed.mdp.pair_name(int(i)), float(lacking[i])) for i in order]
        more = float(seen.share_se[k] ** 2 / aim / later - 1) * self.all.total
        return (wanted, max(more, 0.0)) if wanted and more > 0 else ([], np.inf)

    def _pooled(self, rung: Rung) -> Evaluation:
        both = self.part.counts(self.all)
        return evaluate(estimated(self.owed, both), both, rung.policy)

    def _unclaimed(self, why: str) -> Estimate:
        """The policy of all records with a margin on every quota."""
        fit = fitted(self.owed, self.part.counts(self.all), self._level)
        if fit.short == 0:
            return self._estimate(fit, why, guaranteed=False)
        why = f"no claim: with what was tried often enough, at least {fit.short:.3g} of share is missing"
        enough = round_up(self._tuning.fewest / self._tuning.choosing)
        mdp, left_out = self.part.whole.mdp, np.flatnonzero(~self._kept).tolist()
        if left_out:
            why += f"; {len(left_out)} pairs are not used, more may be had with {enough} records of each"
        found = self._estimate(fit, why, guaranteed=False)
        lacking = tuple((mdp.pair_name(i), max(enough - int(self.all.per_pair[i]), 1)) for i in left_out)
        return replace(found, records=FromRecords(self._kept, lacking))

    def _estimate(self, fit: Fit, claim: str, *, guaranteed: bool, **rest: Any) -> Estimate:
        bias = np.full(self.part.whole.mdp.n_states, np.nan)
        bias[self.part.states] = fit.answer.h if fit.short == 0 else np.nan
        return estimate_of(
            self.owed,
            self.all,
            fit,
            policy=self.part.widened(fit.seen.policy, self.all),
            gap=fit.gap if self._kept.all() else np.inf,  # nobody knows what the others earn
            bias=bias,
            guaranteed=guaranteed,
            claim=claim,
            delta=self._delta,
            method="records",
            min_samples=int(self.all.per_pair[self._kept].min()),
            notes=unused(self.part.whole.mdp, self._kept, self.all, self._tuning),
            records=FromRecords(self._kept),
            **rest,
        )


def kept_pairs(whole: Problem, early: Counts, fewest: int) -> Bools:
    """Pairs that are used, (SA,); where few records leave nothing, all that come back."""
    for least in (fewest, 1):
        kept = well_tried(whole.mdp, early, least)
        if kept.any():
            return kept
    refuse(
        "the records come to no end: every state in the earlier half leads to one that was never left",
        f"there are {early.total:,} earlier records of {counted(int((early.per_pair > 0).sum()), 'pair')}",
        "say how it goes on after the end of an episode: Log.from_trajectories(..., on_terminate='restart'), "
        "or a row from the last state of each to the first of the next, with an action such as restart",
    )


def tested(
    part: Part, late: Counts, policy: Floats, delta: float, draws: int, rng: np.random.Generator
) -> Trial:
    """Test a policy of a part on records that had no part in choosing it."""
    owed, test = part.owed, part.counts(late)
    unknown = "led to a state in the later records that is hardly known from the earlier ones"
    for bad, why in (
        (part.leaking(late), unknown),
        (test.per_pair < FEWEST, f"has fewer than {FEWEST} later records, and the policy uses it"),
    ):
        if (used := bad & (policy > 0)).any():
            return Trial.without_bounds(owed.n_quotas, f"{owed.mdp.pair_name(int(used.argmax()))} {why}")
    return trial(owed, test, policy, delta, draws, rng)


def unused(labels: Labelled, kept: Bools, counts: Counts, tuning: Tuning = TUNING) -> tuple[str, ...]:
    """Say which pairs and states are not used."""
    notes = []
    left_out = np.flatnonzero(~kept)
    if left_out.size:
        few = [f"{labels.pair_name(i)} ({counts.per_pair[i]:,})" for i in left_out[: tuning.named].tolist()]
        rest = f" and {left_out.size - len(few)} more" if left_out.size > len(few) else ""
        notes.append(f"not used, for too few records there or where they lead: {', '.join(few)}{rest}")
    states = np.setdiff1d(np.arange(labels.n_states), labels.s_of[kept])
    if states.size:
        names = [labels.state_name(s) for s in states[: tuning.named].tolist()]
        rest = f" and {states.size - len(names)} more" if states.size > len(names) else ""
        notes.append(f"too little is known of {', '.join(names)}{rest}: nothing is said of runs there")
    return tuple(notes)


def round_up(number: float) -> int:
    """A number with two digits, rounded up: 1,234 is 1,300."""
    scale = 10 ** max(len(str(int(number))) - 2, 0)
    return int(np.ceil(number / scale)) * scale


def well_tried(mdp: MDP, counts: Counts, fewest: int) -> Bools:
    """Pairs with so many records, closed under the successors that were seen, (SA,).

    A state without such a pair keeps its most recorded one; a state that is left with none, and every pair
    that was seen to lead to it, is not used.
    """
    kept = counts.per_pair >= fewest
    served = np.bincount(mdp.s_of[kept], minlength=mdp.n_states) > 0
    often = np.lexsort((counts.per_pair, mdp.s_of))[mdp.pair_ptr[1:] - 1]  # of each state
    kept[often[~served & (counts.per_pair[often] > 0)]] = True
    while True:
        lives = np.bincount(mdp.s_of[kept], minlength=mdp.n_states) > 0
        leaves = np.zeros(mdp.n_pairs, bool)
        leaves[counts.pairs[~lives[counts.s_next]]] = True
        if not (kept & leaves).any():
            return kept
        kept &= ~leaves


@dataclass(frozen=True, eq=False)
class Part:
    """Some pairs of a problem as a problem of their own."""

    whole: Problem
    kept: Bools  # (SA,)

    @cached_property
    def pairs(self) -> Ints:
        """Numbers of the kept pairs in the whole."""
        return np.flatnonzero(self.kept)

    @cached_property
    def states(self) -> Ints:
        """Numbers of the kept states in the whole."""
        return np.unique(self.whole.mdp.s_of[self.kept])

    @cached_property
    def owed(self) -> Problem:
        """The quotas on the kept pairs."""
        mdp = self.whole.mdp
        s_of = np.searchsorted(self.states, mdp.s_of[self.kept])
        shell = MDP(
            staying(s_of, self.states.size), np.zeros(s_of.size), s_of,
            states=[mdp.state_name(s) for s in self.states.tolist()],
            actions=[mdp.action_name(i) for i in self.pairs.tolist()],
        )  # fmt: skip
        return self.whole.on_part(shell, self.pairs)

    def counts(self, counts: Counts) -> Counts:
        """What was counted of the kept pairs, successors that are not kept left out."""
        inside = np.isin(counts.s_next, self.states)
        mine = np.flatnonzero(self.kept[counts.pairs] & inside)
        pairs = np.searchsorted(self.pairs, counts.pairs[mine])
        keys = pairs * self.states.size + np.searchsorted(self.states, counts.s_next[mine])
        times, mean, spread = counts.times[mine], counts.mean[mine], counts.spread[mine]
        return Counts(self.pairs.size, self.states.size, keys, times, mean, spread)

    def leaking(self, counts: Counts) -> Bools:
        """Kept pairs that were seen to lead elsewhere, by their number in the part."""
        out = self.kept[counts.pairs] & ~np.isin(counts.s_next, self.states)
        return np.isin(self.pairs, counts.pairs[out])

    def widened(self, policy: Floats, counts: Counts) -> Floats:
        """The policy over all pairs, (SA,): in a state that is not kept, what was done most often."""
        mdp = self.whole.mdp
        whole = np.zeros(mdp.n_pairs)
        whole[self.kept] = policy
        rest = np.setdiff1d(np.arange(mdp.n_states), self.states)
        often = np.lexsort((-np.arange(mdp.n_pairs), counts.per_pair, mdp.s_of))[mdp.pair_ptr[1:] - 1]
        whole[often[rest]] = 1.0
        return whole
