"""What was done so far: the shares and the gain of the policy that left a log, beside the best fair one.

If the system goes on as it did, its state is a Markov chain whose rows are those of pairs mixed with what was
done. Given the records, the cells (action, next state) of each state are drawn from ``Dirichlet(counts)``,
which draws the row of every pair and what is done in the state at once; the stationary distribution of every
draw is solved exactly. Intervals are quantiles of the draws, and a quota is broken, or met, where at most a
part ``delta / K`` of them says otherwise. That such intervals hold as often as they say was measured
(``benchmarks/records.py``), not proved.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.sparse import csr_array

from fairmdp.chains.chain import Chain
from fairmdp.errors import ProblemError
from fairmdp.learning import counts_of, learn_records
from fairmdp.learning.counts import Counts, Seed, seed_stream
from fairmdp.learning.estimate import Estimate
from fairmdp.learning.plugin import check_delta
from fairmdp.learning.posterior import affordable_draws
from fairmdp.learning.records import Part, well_tried
from fairmdp.model.checks import Floats, ReadOnly
from fairmdp.model.quota import Quota
from fairmdp.policy.policy import Policy
from fairmdp.records.log import Log
from fairmdp.solution.solution import slacks
from fairmdp.tables import Table

Verdict = Literal["fair", "not fair", "undecided"]

_AUDITING = 5  # key of the stream of seeds
_AT_ONCE = 2_000_000  # numbers of all draws that are solved together


@dataclass(frozen=True, eq=False, repr=False)
class LogAudit(ReadOnly):
    """What a log says of the policy that left it.

    Attributes
    ----------
    policy : Policy
        What was done in each state, as often as it was done.
    recorded : ndarray
        Share of each quota in the records, (K,); exact.
    shares, share_low, share_high : ndarray
        Its long-run share if the system goes on like this, with an interval at level ``delta`` each, (K,).
    gain, gain_low, gain_high : float
        Long-run average reward, likewise.
    doubt : ndarray
        How much speaks against the verdict on each quota, (K,): the part of the draws that say otherwise,
        times the number of quotas.
    verdicts : tuple of str
        ``"fair"`` or ``"not fair"`` where ``doubt`` is at most ``delta``, else ``"undecided"``, (K,).
    best : Estimate
        The best fair policy that can be learned from the same records, with its claim and the findings of
        `Log.check`.
    delta : float
        Level of each interval, and of all verdicts together.
    notes : tuple of str
        What a careful reader should know.

    Examples
    --------
    >>> from fairmdp import record, scenarios
    >>> problem = scenarios.three_state()
    >>> log = record(problem.mdp, [0.9, 0.1, 0.1, 0.9, 0.9, 0.1], steps=3000, seed=1)
    >>> seen = audit_log(log, problem.quotas)
    >>> seen
    LogAudit(not fair, gain in [0.4581, 0.4738], breaks s2)
    >>> seen.recorded.round(3), seen.share_low.round(3), seen.share_high.round(3)
    (array([0.446, 0.403, 0.151]), array([0.44 , 0.395, 0.141]), array([0.452, 0.411, 0.162]))
    """

    policy: Policy
    quota_names: tuple[str, ...]
    at_least: Floats
    at_most: Floats
    recorded: Floats
    shares: Floats
    share_low: Floats
    share_high: Floats
    gain: float
    gain_low: float
    gain_high: float
    doubt: Floats
    verdicts: tuple[Verdict, ...]
    best: Estimate
    delta: float
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """``"not fair"`` if a quota is broken, else ``"fair"`` if all are met, else ``"undecided"``."""
        if "not fair" in self.verdicts:
            return "not fair"
        return "undecided" if "undecided" in self.verdicts else "fair"

    @property
    def broken(self) -> tuple[str, ...]:
        """Quotas that are broken."""
        named = zip(self.quota_names, self.verdicts, strict=True)
        return tuple(name for name, verdict in named if verdict == "not fair")

    @property
    def worst_slack(self) -> float:
        """Smallest distance of an estimated share from its nearer bound; negative where a quota is broken."""
        return float(slacks(self.shares, self.at_least, self.at_most).min(initial=np.inf))

    def to_table(self) -> Table:
        """Return one row per quota, as shares, with that of the best fair policy."""
        names = ("recorded", "shares", "share_low", "share_high", "at_least", "at_most", "doubt")
        columns = {name.removesuffix("s"): getattr(self, name).tolist() for name in names}
        verdicts, best = list(self.verdicts), self.best.shares.tolist()
        return Table({"quota": list(self.quota_names), **columns, "verdict": verdicts, "best": best})

    def __repr__(self) -> str:
        broken = f", breaks {', '.join(self.broken)}" if self.broken else ""
        return f"LogAudit({self.verdict}, gain in [{self.gain_low:.4g}, {self.gain_high:.4g}]{broken})"


def audit_log(log: Log, quotas: Iterable[Quota], *, delta: float = 0.05, seed: Seed = 0) -> LogAudit:
    """Judge what was done: its shares and gain in the long run, the quotas that it breaks, and how surely.

    Parameters
    ----------
    log
        The records.
    quotas
        What is owed, by the names of states and actions in the log.
    delta
        Level of each interval, of all verdicts together, and of the claim on the best fair policy.
    seed
        Everything random follows from it.
    """
    check_delta(delta)
    whole = log.problem(quotas)
    all_records = counts_of(log)
    if log.n_records < 2:
        raise ProblemError("there is 1 record, of which nothing can be said")
    part = Part(whole, well_tried(whole.mdp, all_records, 1))
    K, members = whole.n_quotas, whole.members
    recorded = np.asarray(members[:, log.pairs].sum(axis=1) / log.n_records).ravel()
    done = (
        all_records.per_pair
        / np.maximum(np.bincount(whole.mdp.s_of, all_records.per_pair), 1)[whole.mdp.s_of]
    )
    notes: tuple[str, ...] = ()
    if not part.kept.any():
        drawn, notes = (
            np.zeros((0, K + 1)),
            ("the records come to no end that goes on: nothing is said of it",),
        )
    else:
        drawn, notes = _drawn(
            part, all_records, delta, np.random.default_rng(next(seed_stream(seed, _AUDITING)))
        )
    low, high, middle = _quantiles(drawn, delta)
    doubt, verdicts = _judged(drawn[:, :K], whole.at_least, whole.at_most, delta)
    return LogAudit(
        policy=Policy.of(whole, part.widened(done[part.kept], all_records)),
        quota_names=whole.names, at_least=whole.at_least, at_most=whole.at_most,
        recorded=recorded, shares=middle[:K], share_low=low[:K], share_high=high[:K],
        gain=float(middle[K]), gain_low=float(low[K]), gain_high=float(high[K]),
        doubt=doubt, verdicts=verdicts,
        best=learn_records(log, whole.quotas, delta=delta, seed=seed), delta=delta, notes=notes,
    )  # fmt: skip


def _drawn(
    part: Part, records: Counts, delta: float, rng: np.random.Generator
) -> tuple[Floats, tuple[str, ...]]:
    """Long-run shares and gain in each draw, (draws, K + 1); none where they cannot be given."""
    owed, counts = part.owed, part.counts(records)
    S, s_of = owed.mdp.n_states, owed.mdp.s_of
    draws = affordable_draws(S, delta / max(owed.n_quotas, 1))
    state = s_of[counts.pairs]
    into = csr_array(
        (np.ones(state.size), (state * S + counts.s_next, np.arange(state.size))), (S * S, state.size)
    )
    n = np.bincount(state, counts.times, minlength=S)
    mean = (into @ (counts.times / n[state])).reshape(S, S)
    if not draws:
        return np.zeros((0, owed.n_quotas + 1)), (f"{S} states are too many for intervals here",)
    if len(Chain(csr_array(mean)).closed_classes) > 1:
        why = "what was done leads to parts that do not meet again: shares depend on where it begins"
        return np.zeros((0, owed.n_quotas + 1)), (why,)
    counted = owed.members.T.toarray()[counts.pairs]  # (D, K)
    deviation = np.sqrt(counts.spread / np.maximum(counts.times - 1, 1) / counts.times)
    per_state = csr_array((np.ones(state.size), (state, np.arange(state.size))), shape=(S, state.size))
    q = np.full(S, 1 / S)
    found: list[Floats] = []
    step = max(_AT_ONCE // (S * S), 1)
    for begin in range(0, draws, step):
        m = min(step, draws - begin)
        gammas = rng.standard_gamma(counts.times.astype(float), size=(m, state.size))
        p = gammas / (per_state @ gammas.T).T[:, state]
        paid = counts.mean + deviation * rng.standard_normal(p.shape)
        P = (into @ p.T).T.reshape(m, S, S)
        each = [(per_state @ (p * values).T).T for values in (*counted.T, paid)]  # (m, S)
        nu = np.linalg.solve((np.eye(S) - P + q).transpose(0, 2, 1), np.broadcast_to(q[:, None], (m, S, 1)))
        found.append(np.array([(nu[:, :, 0] * values).sum(axis=1) for values in each]).T)
    return np.concatenate(found), ()


def _quantiles(drawn: Floats, delta: float) -> tuple[Floats, Floats, Floats]:
    """Ends and middle of the interval of each column; NaN where nothing was drawn."""
    if not drawn.size:
        unknown = np.full(drawn.shape[1], np.nan)
        return unknown, unknown, unknown
    low, high = np.quantile(drawn, [delta / 2, 1 - delta / 2], axis=0)
    return low, high, drawn.mean(axis=0)


def _judged(
    drawn: Floats, at_least: Floats, at_most: Floats, delta: float
) -> tuple[Floats, tuple[Verdict, ...]]:
    """Doubt and verdict of each quota."""
    K, M = at_least.size, drawn.shape[0]
    met = (drawn >= at_least) & (drawn <= at_most)
    against_broken, against_met = (met.sum(axis=0) + 1) / (M + 1), ((~met).sum(axis=0) + 1) / (M + 1)
    doubt = np.minimum(K * np.minimum(against_broken, against_met), 1.0)
    idle = (at_least <= 0) & (at_most >= 1)
    doubt[idle] = 0.0
    sides = np.where(against_met <= against_broken, "fair", "not fair")
    words = ["fair" if idle[k] else str(sides[k]) if doubt[k] <= delta else "undecided" for k in range(K)]
    return doubt, tuple(words)  # type: ignore[arg-type]
