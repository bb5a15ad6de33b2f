"""Answers on small random problems, by every method, against linear programs in whole numbers.

    python -m benchmarks.reference --solves 20000 --out benchmarks/results/reference.csv
    python -m benchmarks.reference --frontiers 2000 --out benchmarks/results/reference_frontiers.csv

One row per shape and method (or per kind of frontier): answers by status, what was wrong with any, and the
slowest. Of an answer, its status, gain, ceiling, prices (they must prove the ceiling), shares and, where the
quotas cannot be met, the conflict, how far each quota can go, the common factor and the nearest quotas are
compared; of a frontier, its gain at each breakpoint and half way between, its last value, its limit, and that
its slope changes at each breakpoint: a concave curve that meets a line at three points is that line. What is
wrong is printed as it is found, with the seed that draws it again. An interrupt ends with a table of what was
examined, and its seeds: ``--first`` goes on from there.
"""

import argparse
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
from benchmarks.rational import NOTHING, Twin
from benchmarks.shapes import model, planted, rewards
from benchmarks.table import table

from fairmdp import MDP, Frontier, Problem, Quota, Solution, Status, frontier, solve
from fairmdp.backends.opening import open_backend
from fairmdp.solvers.registry import METHODS

EXACT_METHODS = (*(name for name in METHODS if name != "mirror"), "auto")
FIELDS = [
    "shape", "method", "answers", "optimal", "feasible", "infeasible", "undecided", "wrong", "slowest_cpu_s",
]  # fmt: skip
FRONTIER_FIELDS = ["bound", "curves", "refused", "breakpoints", "wrong", "slowest_cpu_s"]
CLOSE = Fraction(1, 10**8)  # of the span of the rewards, or of all of the time
FAIR = Fraction(11, 10**10)  # by which a quota may be missed and count as met
_NO_PROOF = "no certified solution"
LONGEST = 60  # CPU seconds after which an answer is called lost


# --- what is drawn: at most six states ----------------------------------------------------------------------


def ordinary(rng: np.random.Generator) -> Problem:
    """Ragged actions, overlapping quotas and caps around what a planted policy gives."""
    return planted(rng, model(rng, int(rng.integers(1, 7)), most_actions=3))


def sure(rng: np.random.Generator) -> Problem:
    """Deterministic moves; the first actions make a ring."""
    S = int(rng.integers(2, 7))
    s_of = np.repeat(np.arange(S), rng.integers(1, 4, S))
    P = np.eye(S)[rng.integers(0, S, s_of.size)]
    P[np.diff(s_of, prepend=-1) > 0] = np.eye(S)[(np.arange(S) + 1) % S]
    return planted(rng, MDP(P, rewards(rng, s_of.size), s_of))


def threads(rng: np.random.Generator) -> Problem:
    """Deterministic moves, but for a part of 1e-3 to 1e-9 that goes anywhere."""
    problem = sure(rng)
    mdp, thread = problem.mdp, 10.0 ** -rng.uniform(3, 9)
    P = (1 - thread) * mdp.P.toarray() + thread * rng.dirichlet(np.ones(mdp.n_states), mdp.n_pairs)
    return planted(rng, MDP(P / P.sum(axis=1, keepdims=True), mdp.r, mdp.s_of))


def tied(rng: np.random.Generator) -> Problem:
    """Every action twice, rewards of one or two values, probabilities in sixteenths."""
    S = int(rng.integers(2, 5))
    P = np.repeat(rng.multinomial(15, np.ones(S) / S, S), 2, axis=0).astype(float)
    P[np.arange(2 * S), (np.arange(2 * S) // 2 + 1) % S] += 1
    return planted(rng, MDP(P / 16, rng.choice(rng.normal(size=2), 2 * S), np.repeat(np.arange(S), 2)))


def pinned(rng: np.random.Generator) -> Problem:
    """A floor and a cap with nothing between them."""
    problem = planted(rng, model(rng, int(rng.integers(2, 6)), most_actions=3))
    middle = (problem.at_least + problem.at_most) / 2
    middle /= max(1.0, middle.sum())
    return problem.with_bounds(middle, middle)


def weighed(rng: np.random.Generator) -> Problem:
    """Means of weights of either sign, with floors and caps."""
    mdp = model(rng, int(rng.integers(3, 6)), most_actions=3)
    quotas = []
    for k in range(int(rng.integers(1, 4))):
        weights = rng.normal(size=mdp.n_pairs) * 10.0 ** rng.integers(-2, 4)
        low, high = np.sort(rng.uniform(weights.min(), weights.max(), 2)).tolist()
        bounds = [{"at_least": low}, {"at_most": high}, {"at_least": low, "at_most": high}]
        quotas.append(Quota(f"w{k}", weights=weights, **bounds[rng.integers(3)]))
    return Problem(mdp, quotas)


def beyond(rng: np.random.Generator) -> Problem:
    """A floor for every state, often too much together."""
    mdp = model(rng, int(rng.integers(2, 6)), most_actions=3)
    return Problem(mdp, rho=rng.dirichlet(np.ones(mdp.n_states)) * rng.uniform(0.3, 1))


SHAPES = (ordinary, sure, threads, tied, pinned, weighed, beyond)


def draw(seed: int) -> tuple[str, Problem]:
    """The problem of a seed and the name of its shape."""
    shape = SHAPES[seed % len(SHAPES)]
    return shape.__name__, shape(np.random.default_rng([seed, 15]))


# --- what is wrong with an answer ---------------------------------------------------------------------------


def flaws(twin: Twin, best: Fraction | None, found: Solution) -> Iterator[str]:
    """What an answer says that is not so; `best` is the best gain in truth, None where nothing is fair."""
    unit = CLOSE * twin.span + 64 * Fraction(2) ** -52 * max(map(abs, twin.r))
    if found.status is Status.INFEASIBLE:
        if best is not None:
            yield f"infeasible, and {float(best)} is possible"
        if twin.ceiling(found.bias, found.prices) - max(twin.r) >= 0:
            yield from () if _hopeless(twin, found) else ("the witness proves nothing",)
        if found.infeasibility is not None:
            yield from _false_reasons(twin, found)
        return
    if best is not None and not Fraction(found.upper) >= best - unit:
        yield f"a ceiling of {found.upper} below {float(best)}"
    proved = twin.ceiling(found.bias, found.prices)
    size = max(map(abs, map(Fraction, found.bias))) + sum(map(abs, map(Fraction, found.prices)))
    rounding = unit + Fraction(2) ** -46 * size
    if np.isfinite(found.upper) and not proved - unit <= Fraction(found.upper) <= proved + rounding:
        yield f"the prices prove {float(proved)}, not {found.upper}"
    x = twin.long_run(found.policy)
    if found.status is Status.UNDECIDED or x is None:
        if found.status is not Status.UNDECIDED:
            yield f"{found.status} with several closed classes"
        return
    gain, shares = sum(r * p for r, p in zip(twin.r, x, strict=True)), twin.shares(x)
    if abs(Fraction(found.gain) - gain) > unit:
        yield f"a gain of {found.gain}, {float(gain)} in truth"
    for k, (told, share) in enumerate(zip(found.shares, shares, strict=True)):
        if abs(Fraction(told) - share) > CLOSE:
            yield f"a share of {told} of quota {k}, {float(share)} in truth"
        if not twin.low[k] - FAIR <= share <= twin.high[k] + FAIR:
            yield f"quota {k} is missed: {float(share)}"
    if best is not None and gain > best + unit:
        low, high = twin.relaxed(FAIR)  # a quota may be missed by so much, which can be worth more than that
        most = twin.best(low=low, high=high)
        if most is None or gain > most + unit:
            yield f"a gain of {found.gain} above the best one, {float(best)}"
    if best is None or found.status is not Status.OPTIMAL:
        return
    if best - gain > Fraction(found.tol) * twin.span + unit:
        yield f"called optimal, and {float(best - gain)} short of it"


def _hopeless(twin: Twin, found: Solution) -> bool:
    """Whether the witness proves that nothing is fair: its ceiling of a reward of nothing is negative."""
    rewards, twin.r = twin.r, [Fraction(0)] * twin.n
    try:
        return twin.ceiling(found.bias, found.prices) < 0
    finally:
        twin.r = rewards


def _false_reasons(twin: Twin, found: Solution) -> Iterator[str]:
    why = found.infeasibility
    assert why is not None
    if twin.best(quotas=why.conflict) is not None:
        yield f"the quotas {why.conflict} do not conflict"
    for k, reach in zip(why.conflict, why.reach.tolist(), strict=False):
        sign = -1 if found.prices[k] < 0 else 1
        most = twin.best([sign * w for w in twin.counts[k]], quotas=())
        assert most is not None
        if abs(Fraction(reach) - sign * most) > 100 * CLOSE:
            yield f"quota {k} reaches {float(sign * most)}, not {reach}"
    factor = twin.largest_factor(FAIR) if any(low > 0 for low in twin.low) else None
    if why.common_factor is not None and (
        factor is None or abs(Fraction(why.common_factor) - factor) > 10_000 * CLOSE * max(factor, 1)
    ):
        yield f"a common factor of {why.common_factor}, {factor and float(factor)} in truth"
    low, high = ([Fraction(v) for v in ends] for ends in (why.nearest_at_least, why.nearest_at_most))
    low, high = [v - FAIR for v in low], [v + FAIR for v in high]
    asked = [float(v) for v in (*twin.low, *twin.high)]
    moved = not np.allclose([*why.nearest_at_least, *why.nearest_at_most], asked, rtol=0, atol=1e-12)
    if moved and twin.best(low=low, high=high) is None:
        yield "the nearest quotas cannot be met"


def frontier_flaws(problem: Problem, k: int, bound: str, curve: Frontier) -> Iterator[str]:
    """What a frontier of quota k says that is not so; every quota if k is negative."""
    twin = Twin(problem)
    unit = 10 * CLOSE * twin.span

    def truth(value: float, room: Fraction = NOTHING) -> Fraction | None:
        low, high = twin.relaxed(room)
        if k < 0:
            low = [Fraction(value) * v - room for v in twin.low]
        elif bound == "at_least":
            low[k] = twin.share(k, value) - room
        else:
            high[k] = twin.share(k, value) + room
        return twin.best(low=low, high=high)

    way = 1 if bound == "at_least" else -1
    slopes = np.diff(curve.uppers) / np.diff(curve.values)
    steep = float(np.abs(slopes).max(initial=0.0))
    points = list(zip(curve.values.tolist(), curve.uppers.tolist(), strict=True))
    points += [((a + b) / 2, (u + w) / 2) for (a, u), (b, w) in pairwise(points)]
    for n, (value, upper) in enumerate(points):
        # The last value may be beyond what floats can say of the largest one that can be met.
        at = value if n != curve.values.size - 1 else value - way * 1e-9 * max(1.0, abs(value))
        best = truth(at)
        if best is None:
            yield f"{value} cannot be met"
        else:
            near = unit + Fraction(2e-9 * max(1.0, abs(value)) * steep)
            most = truth(at, FAIR)  # where next to nothing more moves the whole chain, prices are 1e9
            if not best - near <= Fraction(upper) <= most + near:
                yield f"a gain of {upper} at {value}, {float(best)} to {float(most)} in truth"
    steeper = np.maximum(np.abs(slopes[1:]), np.abs(slopes[:-1]))
    if (way * np.diff(slopes) > -1e-9 * steeper).any():
        yield f"the slope does not change at each breakpoint: {slopes}"
    if curve.limit is not None and truth(curve.limit + way * 1e-6 * max(1.0, abs(curve.limit))) is not None:
        yield f"more than the limit {curve.limit} can be met"


# --- runs ---------------------------------------------------------------------------------------------------


@contextmanager
def watched() -> Iterator[list[float]]:
    """CPU time of what is inside; a `TimeoutError` where it does not return."""
    took: list[float] = []

    def lost(*_: object) -> None:
        raise TimeoutError(f"no answer after {LONGEST} CPU s")

    before, began = signal.signal(signal.SIGVTALRM, lost), time.process_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST)
    try:
        yield took
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        took.append(time.process_time() - began)


def examine(seed: int) -> Iterator[tuple[str, str, Status | None, list[str], float]]:
    """Every method on the problem of a seed: shape, method, status, what is wrong, CPU seconds."""
    shape, problem = draw(seed)
    twin = Twin(problem)
    best = twin.best()
    for method in EXACT_METHODS:
        if method != "auto" and METHODS[method].obstacle(open_backend(problem)) is not None:
            continue
        found, wrong = None, []
        with watched() as took:
            try:
                found = solve(problem, method=method)
            except Exception as error:  # whatever it is, it is news
                wrong = [f"{type(error).__name__}: {error}"]
        wrong += [] if found is None else flaws(twin, best, found)
        yield shape, method, found and found.status, wrong, took[0]


def examine_frontier(seed: int) -> tuple[str, int | None, list[str], float] | None:
    """A frontier of the problem of a seed: bound, breakpoints, what is wrong, CPU seconds.

    None where there is none, since the other quotas alone cannot be met; no breakpoints where it is refused,
    since no policy there can be proved: the best one has several closed classes, or nearly so.
    """
    _, problem = draw(seed)
    rng = np.random.default_rng([seed, 16])
    bound = "at_most" if rng.random() < 0.3 else "at_least"
    if problem.n_quotas == 0:
        return None
    k = int(rng.integers(problem.n_quotas))
    owed = problem.at_least > 0
    if bound == "at_least" and rng.random() < 0.2 and owed.any() and not (owed & problem.weighted).any():
        k = -1
    free = problem.at_least.copy(), problem.at_most.copy()
    if k < 0:
        free[0][:] = 0
    else:
        free[bound == "at_most"][k] = float(bound == "at_most")
    if Twin(problem.with_bounds(*free)).best() is None:
        return None  # the others alone cannot be met
    wrong: list[str] = []
    curve = None
    with watched() as took:
        try:
            curve = frontier(problem, *([] if k < 0 else [problem.names[k]]), bound=bound)
        except Exception as error:
            wrong = [] if _NO_PROOF in str(error) else [f"{type(error).__name__}: {error}"]
    if curve is not None:
        wrong = list(frontier_flaws(problem, k, bound, curve))
    return "factor" if k < 0 else bound, None if curve is None else curve.values.size - 1, wrong, took[0]


def solves(count: int, first: int, out: Path | None) -> int:
    """So many answers at least, from problems of all shapes; returns how many were wrong."""
    said: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    slowest: defaultdict[tuple[str, str], float] = defaultdict(float)
    total, seed = 0, first
    with suppress(KeyboardInterrupt):
        while total < count:
            for shape, method, status, wrong, seconds in list(examine(seed)):
                told(seed, method, wrong, seconds)
                said[shape, method].update(
                    ["wrong"] * bool(wrong) + ([] if status is None else [status.value])
                )
                slowest[shape, method] = max(slowest[shape, method], seconds)
                total += 1
            seed += 1
    with table("reference", FIELDS, out, f"seeds {first} to {seed - 1}") as add:
        for (shape, method), seen in sorted(said.items()):
            statuses = {status.value: seen[status.value] for status in Status}
            row = {"shape": shape, "method": method, "answers": sum(statuses.values()), **statuses}
            add({**row, "wrong": seen["wrong"], "slowest_cpu_s": round(slowest[shape, method], 3)})
    return sum(seen["wrong"] for seen in said.values())


def frontiers(count: int, first: int, out: Path | None) -> int:
    """So many frontiers; returns how many were wrong."""
    seen: defaultdict[str, Counter[str]] = defaultdict(Counter)
    slowest: defaultdict[str, float] = defaultdict(float)
    seed = first
    with suppress(KeyboardInterrupt):
        while sum(each["curves"] for each in seen.values()) < count:
            found = examine_frontier(seed)
            if found is not None:
                bound, breakpoints, wrong, seconds = found
                told(seed, f"frontier, {bound}", wrong, seconds)
                refused = breakpoints is None and not wrong
                seen[bound].update(curves=1, refused=refused, breakpoints=breakpoints or 0, wrong=bool(wrong))
                slowest[bound] = max(slowest[bound], seconds)
            seed += 1
    with table("reference", FRONTIER_FIELDS, out, f"seeds {first} to {seed - 1}") as add:
        for bound, each in sorted(seen.items()):
            add({"bound": bound, **each, "slowest_cpu_s": round(slowest[bound], 3)})
    return sum(each["wrong"] for each in seen.values())


def told(seed: int, what: str, wrong: list[str], seconds: float) -> None:
    """Print what is wrong, or slow."""
    for line in wrong:
        print(f"seed {seed}, {draw(seed)[0]}, {what}: {line}", file=sys.stderr, flush=True)
    if seconds > 2:
        print(f"seed {seed}, {draw(seed)[0]}, {what}: {seconds:.1f} CPU s", file=sys.stderr, flush=True)


def main() -> None:
    """Run, write the table, and end with 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--solves", type=int, default=0)
    parser.add_argument("--frontiers", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--out", type=Path, default=None, help="CSV to write (default: standard output)")
    args = parser.parse_args()
    wrong = solves(args.solves, args.first, args.out) if args.solves else 0
    wrong += frontiers(args.frontiers, args.first, args.out) if args.frontiers else 0
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
