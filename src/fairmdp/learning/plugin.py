"""The default learner: policies chosen on one part of the samples, tested on another.

The first part is counted, and Fair-LP is solved on the counts, with quotas made stricter by ``t``
first-order standard errors (`evaluation`) for a ladder of t. Samples go where these errors say that they
matter (Neyman allocation). The second part is fresh: it tests the policies from the most conservative down
(`ladder`, `posterior`), and the last that passes before the first failure is returned. So what chose a policy
never judges it.

With an objective the first part chooses the policy of most welfare on the counts instead, and the second part
gives it a floor: the quantile of the welfare of the same draws from which quotas are tested. Quotas then
take half of the level, and each policy that may be returned an equal part of the other half.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from fairmdp.errors import ProblemError, SimulatorError
from fairmdp.learning.aim import Welfare
from fairmdp.learning.counts import (
    Counts,
    Engine,
    Seed,
    Tally,
    root_seed,
    sample_pairs,
    seed_stream,
)
from fairmdp.learning.estimate import Estimate, LearnedWelfare, Progress, Round
from fairmdp.learning.evaluation import estimated, evaluate
from fairmdp.learning.fitting import GAIN, Fit, Level, allocation, fitted, gap_above, pooled_upper, targets
from fairmdp.learning.ladder import (
    FOR_WELFARE,
    Rung,
    climb,
    descend,
    fresh_times,
    steered_se,
    thinned,
    times_for_value,
    worth_testing,
)
from fairmdp.learning.posterior import TUNING, Trial, affordable_draws, affordable_tests, floor, trial
from fairmdp.learning.repeats import DEPENDENT, probe
from fairmdp.model.checks import Ints
from fairmdp.model.objectives import Leximin, Objective, objective_text
from fairmdp.model.problem import Problem
from fairmdp.model.quota import Quota
from fairmdp.model.simulator import CheckedSimulator, Simulator, shell_model

LEARNING = 0
"""Key of the stream of seeds that learning draws from; `certify` has one of its own."""

_TESTING = 2  # key of the stream of seeds of the draws that test a policy
_PROBING = 3  # key of the seeds with which a simulator is asked twice

_PER_ROUND = 100  # samples per pair of the first round of a run for an accuracy
_CHOOSING = 80  # samples per pair that choose the policies, within the parts of the budget below
_PARTS = (0.3, 0.7)
_MOST_SAMPLES = 10**9  # where a run for an accuracy gives up
POWER = 0.84  # normal quantile of the chance, 80 %, that the samples asked for in advice suffice
_WITHOUT_END = 1e12  # samples beyond which no advice is given


def learn_plugin(
    simulator: Simulator,
    quotas: Iterable[Quota],
    *,
    samples: int | None = None,
    eps: float | None = None,
    delta: float = 0.05,
    seed: Seed = 0,
    progress: Progress | None = None,
    engine: Engine = map,
    objective: Objective | None = None,
    over: Iterable[int | str] | None = None,
    reward: float = 0.0,
) -> Estimate:
    """Learn a fair policy from a simulator, tested on fresh samples at level ``delta``.

    Parameters are those of `learn`. A budget is split: 80 samples per pair, but 30 to 70 % of it, choose
    policies, the rest tests them. For an accuracy ``eps`` the samples are doubled, from 100 per pair on,
    until a policy passes and no fair policy seems to earn ``eps`` more; the new half of each round tests what
    the old half chose, and round k takes ``delta / (k (k + 1))`` of the level. Chunk ``k`` of the samples has
    the seed ``(seed, 0, k)``, and ``progress`` is called after every chunk.

    Returns
    -------
    Estimate
        With a claim, of the tested policy on the fresh samples. Without one, of the policy of all samples
        with a margin on every quota: ``guaranteed`` is False and ``claim`` says why. Quotas that cannot be
        met on the estimated model are an answer, not an exception.

    Examples
    --------
    >>> from fairmdp import Quota, scenarios
    >>> simulator = scenarios.three_state().mdp.simulator()
    >>> learned = learn_plugin(simulator, [Quota("s2", states=[2], at_least=0.25)], samples=6000, seed=1)
    >>> learned
    Estimate(gain=0.44 +- 0.002, worst_slack=0.0047, samples=6000, guaranteed)
    >>> learned.claim[:48]
    'confirmed on 4,200 fresh samples at level 0.05: '
    """
    started = time.perf_counter()
    _check_goal(samples, eps, delta)
    checked = CheckedSimulator(simulator)
    owed = Problem(shell_model(checked), quotas)
    aim = _aim(owed, objective, over, reward, eps)
    n_pairs = owed.mdp.n_pairs
    if samples is not None and samples < n_pairs:
        raise ProblemError(
            f"{samples} samples are too few for {n_pairs} state-action pairs\n  give at least one per pair"
        )
    run = _Run(owed, checked, delta, eps, root_seed(seed), progress, engine, aim)
    history: list[Round] = []
    try:
        for found in run.by_accuracy() if samples is None else run.by_budget(samples):
            history.append(found.round)
            found.round.log()
        found, finished = run.probed(found), eps is None or run.settled
    except KeyboardInterrupt:
        if run.tally.total == 0:
            raise
        found, finished = run.so_far(), False
    except SimulatorError as error:
        partial = run.so_far() if run.tally.total else None
        error.partial = partial and partial.ended(finished=False, started=started, history=history)
        raise
    return found.ended(finished=finished, started=started, history=history)


class _Run:
    """One run: its samples, and estimates after each round of them."""

    def __init__(
        self,
        owed: Problem,
        simulator: CheckedSimulator,
        delta: float,
        eps: float | None,
        seed: np.random.SeedSequence,
        progress: Progress | None,
        engine: Engine,
        aim: Welfare | None = None,
    ) -> None:
        self._aim = aim
        self.owed, self.eps, self.tally = owed, eps, Tally(owed.mdp.n_pairs, owed.mdp.n_states)
        self.settled, self._goal = False, 0  # samples that a budget allows, where there is one
        self._simulator, self._engine, self._progress = simulator, engine, progress
        self._delta, self._level = delta, Level.of(owed, delta, eps)
        self._seed, self._seeds = seed, seed_stream(seed, LEARNING)
        self._draw_seeds = seed_stream(seed, _TESTING)
        self._asked = bool((owed.at_least > 0).any() or (owed.at_most < 1).any())
        if aim is not None and self._asked:
            self._level = Level.of(owed, delta / 2, eps)
        self._draws = affordable_draws(owed.mdp.n_states, self._level.quota)

    def by_budget(self, samples: int) -> Iterator[Estimate]:
        """Choose policies and test them; without quotas, or with too many states for a test, all chooses."""
        for_choice = self._goal = samples
        if (self._asked or self._aim is not None) and self._draws:
            low, high = (int(part * samples) for part in _PARTS)
            for_choice = min(max(_CHOOSING * self.owed.mdp.n_pairs, low), high)
        fit = None
        for target in targets(for_choice, self.owed.mdp.n_pairs):
            fit = self._round(fit, target)
            if target < samples:
                yield self._unclaimed(
                    fit, "no claim yet: it takes fresh samples, which come last", early=True
                )
        assert fit is not None
        if for_choice == samples:
            yield self._unclaimed(fit, self._untestable())
        else:
            yield self._tested(fit, samples)

    def by_accuracy(self) -> Iterator[Estimate]:
        """Double the samples until the accuracy is reached: the new half tests what the old half chose."""
        n_pairs = self.owed.mdp.n_pairs
        target = _PER_ROUND * n_pairs
        fit, most, number = self._round(None, int(_PARTS[1] * target)), max(_MOST_SAMPLES, target), 1
        while target <= most:
            self._level = Level.of(self.owed, self._delta, self.eps, number)
            self._draws = affordable_draws(self.owed.mdp.n_states, self._level.quota)
            if self._asked and not self._draws:
                fit = self._round(fit, target)
                self.settled = fit.settles(self.eps)
                found = self._unclaimed(fit, self._untestable())
            else:
                found = self._tested(fit, target)
                fit = self._fitted()
                self.settled = fit.surely_short or (found.guaranteed and found.gap <= (self.eps or 0.0))
            yield found
            if self.settled:
                break
            target, number = 2 * target, number + 1

    def so_far(self) -> Estimate:
        """What the samples drawn until now say."""
        fit = self._fitted()
        now = self._unclaimed(fit, "no claim: the run was not at its end, where policies are tested")
        return replace(now, finished=False)

    def probed(self, found: Estimate) -> Estimate:
        """The estimate with what is to be said of the simulator's random numbers; it may cost the claim."""
        said = probe(self._simulator, self.tally.counts, seed_stream(self._seed, _PROBING))
        if said is None:
            return found
        found = replace(found, notes=(*found.notes, said))
        if said == DEPENDENT and found.guaranteed:
            return replace(found, guaranteed=False, claim=f"no claim: {said}")
        return found

    def _round(self, fit: Fit | None, target: int) -> Fit:
        """Draw up to so many samples where the last fit lacks them, and fit again."""
        times = allocation(self.owed, self.tally.counts, fit, target - self.tally.total, self.eps, self._aim)
        self._sample(times, target)
        return self._fitted()

    def _fitted(self) -> Fit:
        return fitted(self.owed, self.tally.counts, self._level, self._aim or GAIN)

    def _sample(self, times: Ints, target: int) -> Counts:
        """Draw samples, count them with all others, and return the counts of these alone."""
        fresh = Tally(self.owed.mdp.n_pairs, self.owed.mdp.n_states)
        for chunk in sample_pairs(self._simulator, times, self._seeds, self._engine):
            self.tally.add(chunk)
            fresh.add(chunk)
            if self._progress is not None:
                self._progress(self.tally.total, max(target, self._goal), self.so_far)
        return fresh.counts

    def _tested(self, fit: Fit, target: int) -> Estimate:
        """Draw fresh samples up to so many in all, and descend the ladder of the samples before them."""
        owed, level, new = self.owed, self._level, target - self.tally.total
        if fit.short > 0:
            return self._unclaimed(self._round(fit, target), "no claim: " + _SHORT_AT_FIRST)
        if self._aim is not None and not self._asked:
            return self._floored(Rung(fit.margins, fit.answer, fit.seen), target)
        rungs = climb(owed, self.tally.counts, fit.seen.share_se, *self._of_ladder)
        if not rungs:
            return self._unclaimed(self._round(fit, target), f"no claim: {_APART}")
        rungs = worth_testing(rungs, owed, partial(steered_se, new), level.z_quota)
        rungs = thinned(rungs, affordable_tests(owed.mdp.n_states, self._draws))
        fresh = self._sample(self._times(rungs, new), target)

        def tested(rung: Rung) -> Trial:
            rng = np.random.default_rng(next(self._draw_seeds))
            return trial(owed, fresh, rung.policy, level.quota, self._draws, rng)

        passed, failed = descend(rungs, tested)
        self._tests = len(rungs)
        if passed is not None:
            return self._claimed(*passed, fresh)
        assert failed is not None
        return replace(self._unclaimed(self._fitted(), self._failed(failed[1], new)), tested_samples=new)

    @property
    def _of_ladder(self) -> tuple[Any, ...]:
        return () if self._aim is None else (FOR_WELFARE, self._aim)

    def _times(self, rungs: list[Rung], new: int) -> Ints:
        """How often each pair is asked for the tests, and as often again for the floor of a welfare."""
        if self._aim is None:
            return fresh_times(rungs, self.owed, new, self._level.z_quota, self.eps)
        for_value = new // 2
        times = fresh_times(rungs, self.owed, new - for_value, self._level.z_quota, self.eps)
        return times + times_for_value(self._aim, rungs[-1], for_value)

    def _floored(self, rung: Rung, target: int) -> Estimate:
        """Draw fresh samples for the one policy that the samples before them chose, and give it a floor."""
        assert self._aim is not None
        if math.isinf(rung.seen.deviation):
            return self._unclaimed(self._round(None, target), f"no claim: {_APART}")
        fresh = self._sample(times_for_value(self._aim, rung, target - self.tally.total), target)
        self._tests = 1
        return self._claimed(rung, Trial.without_bounds(self.owed.n_quotas), fresh)

    def _with_floor(self, rung: Rung, found: Estimate, fresh: Counts) -> Estimate:
        """The estimate with what its welfare is at least, at the level that the quotas have left."""
        aim, owed = self._aim, self.owed
        assert aim is not None
        level = self._delta / (2 * self._tests if self._asked else 1)
        rng = np.random.default_rng(next(self._draw_seeds))
        draws = affordable_draws(owed.mdp.n_states, level)
        low: float | str = f"{owed.mdp.n_states} states are too many to test a policy here"
        if draws:
            low = floor(owed, fresh, rung.policy, aim.worth(rung.answer), aim.values, level, draws, rng)
        welfare = self._welfare(aim, found, rung, -math.inf if isinstance(low, str) else low)
        if math.isfinite(welfare.low):
            words = _FLOOR.format(objective_text(aim.objective), welfare.low, 100 * self._delta)
            alone = _ALONE.format(fresh.total, self._delta)
            claim = f"{found.claim if self._asked else alone}; {words}"
            return replace(found, welfare=welfare, claim=claim, guaranteed=True)
        why = low if isinstance(low, str) else "the lower bound on its welfare is minus infinity"
        if self._asked:
            return replace(found, welfare=welfare, claim=f"{found.claim}; nothing of its welfare: {why}")
        return replace(found, welfare=welfare, claim=f"no claim: {why}", guaranteed=False)

    def _welfare(self, aim: Welfare, found: Estimate, rung: Rung, low: float) -> LearnedWelfare:
        value = aim.value(found.shares, found.gain)
        upper = pooled_upper(self.owed, self.tally.counts, self._level.z_gap, aim)
        upper = upper if upper > -math.inf else math.inf  # what was not seen may serve everybody
        return LearnedWelfare(
            aim.objective, aim.reward, aim.over, value, low, upper, aim.utilities(found.shares)
        )

    def _claimed(self, rung: Rung, found: Trial, fresh: Counts) -> Estimate:
        """Estimate of a policy that passed, from the samples that did not choose it."""
        owed, level, gap = self.owed, self._level, math.inf
        seen = evaluate(estimated(owed, fresh), fresh, rung.policy)
        if self._aim is None:
            gap = gap_above(seen, pooled_upper(owed, self.tally.counts, level.z_gap), level)
        said = self._claim(gap, fresh.total) if self._asked or self._aim is None else ("", False)
        tested = self._estimate(
            Fit(seen, rung.answer, rung.margins, 1.0, gap), *said,
            share_low=found.low, share_high=found.high, tested_samples=fresh.total,
        )  # fmt: skip
        return tested if self._aim is None else self._with_floor(rung, tested, fresh)

    def _claim(self, gap: float, tested: int) -> tuple[str, bool]:
        """What the test has shown, and where it stands with the accuracy that was asked for."""
        close = ""
        if self.eps is not None and gap <= self.eps:
            close = f"is within {self.eps:g} of the best fair gain"
        if not self._asked:
            alone = f"the policy {close}, at level {self._delta:g} (approximate)"
            return (alone, True) if close else (_NOTHING, False)
        few = "" if self._draws >= TUNING.draws else f", from {self._draws} draws only"
        claim = (
            f"confirmed on {tested:,} fresh samples at level {self._delta:g}: a policy that misses a quota "
            f"would pass in at most {100 * self._delta:g} % of runs (approximate{few})"
        )
        return claim + (f"; it {close}" if close else ""), True

    def _failed(self, found: Trial, tested: int) -> str:
        """Why the most conservative policy did not pass, and about how many more samples would do."""
        if found.why_not:
            return f"no claim: {found.why_not}"
        owed, z, (k, lower) = self.owed, self._level.z_quota, found.worst(self.owed)
        bound, asked = (found.low[k], owed.at_least[k]) if lower else (found.high[k], owed.at_most[k])
        room = found.shares[k] - asked if lower else asked - found.shares[k]
        radius = abs(found.shares[k] - bound)
        words = found.shown_short(owed, f"{tested:,} fresh samples")
        more = math.inf if room <= 0 else self.tally.total * ((radius / room * (1 + POWER / z)) ** 2 - 1)
        if more > _WITHOUT_END:
            return f"{words}; no policy seems to have room to spare"
        return f"{words}; it takes about {float(f'{max(more, tested):.1g}'):,.0f} more samples"

    def _untestable(self) -> str:
        if not self._asked and self._aim is None:
            return _NOTHING
        states = self.owed.mdp.n_states
        return f"no claim: {states} states are too many to test a policy here; certify it instead"

    def _unclaimed(self, fit: Fit, why: str, *, early: bool = False) -> Estimate:
        if fit.short > 0:
            why = _short(self.tally.counts, fit)
        elif math.isinf(fit.seen.deviation) and not early:
            why = f"no claim: {_APART}"
        return self._estimate(fit, why, False)

    def _estimate(self, fit: Fit, claim: str, guaranteed: bool, **rest: Any) -> Estimate:
        aim, welfare = self._aim, None
        if aim is not None:
            unknown = math.nan if math.isinf(fit.seen.deviation) else 0.0
            value, utilities = aim.value(fit.seen.shares, fit.seen.gain), aim.utilities(fit.seen.shares)
            welfare = LearnedWelfare(
                aim.objective, aim.reward, aim.over, value + unknown, -math.inf, math.inf, utilities + unknown
            )
        return estimate_of(
            self.owed, self.tally.counts, fit,
            claim=claim, guaranteed=guaranteed, delta=self._delta, welfare=welfare, **rest,
        )  # fmt: skip


_FLOOR = "{} welfare is at least {:.6g}, which is too much in at most {:g} % of runs (approximate)"
_ALONE = "confirmed on {:,} fresh samples at level {:g}"
_NOTHING = "no claim: no quota is owed and no accuracy was asked for"
_APART = "the policy's estimated chain has several closed classes"
_SHORT_AT_FIRST = "the samples that choose policies show none that meets the quotas"


def estimate_of(owed: Problem, counts: Counts, fit: Fit, **rest: Any) -> Estimate:
    """Estimate of a policy that was fitted; ``rest`` is what is said of it, or otherwise."""
    unknown = 0.0 if fit.short == 0 else np.nan
    known = {
        "margins": fit.margins,
        "margin_fraction": fit.fraction,
        "gap": fit.gap,
        "prices": fit.answer.mu + unknown,
        "bias": fit.answer.h + unknown,
        "feasible": fit.short == 0,
    }
    return Estimate.of(owed, counts, fit.seen, **known | rest)


def _short(counts: Counts, fit: Fit) -> str:
    if counts.per_pair.min() == 0:
        return "no claim: some pairs were never sampled, and without them the quotas are not met"
    sure = "no policy seems to meet the quotas" if fit.surely_short else "the quotas are not met"
    return f"no claim: {sure}; on the estimated model at least {fit.short:.3g} of share is missing"


def _aim(
    owed: Problem, objective: Objective | None, over: Iterable[int | str] | None, reward: float, eps: Any
) -> Welfare | None:
    """What is maximised instead of the gain, if anything."""
    if objective is None:
        if over is not None or reward:
            raise ProblemError("over and reward say what an objective is of: give objective, too")
        return None
    if eps is not None:
        raise ProblemError("an objective takes a budget: give samples, not eps")
    if isinstance(objective, Leximin):
        raise ProblemError("leximin has a value for each level: learn max_min, or alpha_fair(8)")
    return Welfare.of(owed, objective, over, reward)


def _check_goal(samples: Any, eps: Any, delta: Any) -> None:
    if (samples is None) == (eps is None):
        both = "both" if samples is not None else "neither"
        raise ProblemError(f"{both} of samples and eps given\n  give a budget or an accuracy")
    if samples is not None and (isinstance(samples, bool) or not isinstance(samples, int | np.integer)):
        raise ProblemError(f"samples is {samples!r}, expected a whole number")
    if eps is not None and not (isinstance(eps, int | float) and 0 < eps < math.inf):
        raise ProblemError(f"eps is {eps!r}, expected a positive accuracy in units of reward")
    check_delta(delta)


def check_delta(delta: Any) -> None:
    """Raise unless delta is the probability of a failure."""
    if not (isinstance(delta, int | float) and 0 < delta < 1):
        raise ProblemError(f"delta is {delta!r}, expected a probability of failure between 0 and 1")
