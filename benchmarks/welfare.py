"""Fair points: every objective on every scenario, large models, and two conic solvers beside ours.

    python -m benchmarks.welfare --suite scenarios --out benchmarks/results/welfare_scenarios.csv
    python -m benchmarks.welfare --suite sizes --out benchmarks/results/welfare_sizes.csv
    python -m benchmarks.welfare --suite public --out benchmarks/results/welfare_public.csv
    python -m benchmarks.welfare --suite reference --out benchmarks/results/welfare_reference.csv
    python -m benchmarks.welfare --suite fuzz --cases 10000 --out benchmarks/results/welfare_fuzz.csv

Gaps are what `verify` proves, in the unit of the welfare. CLARABEL and SCS solve the same problem as a conic
program (`solvers.conic`, from the dependency group ``bench``); what they say is not proved, so `apart` is
how far the interval between their primal and dual value lies from the one between our welfare and our
ceiling, in the same unit. In the fuzz suite a row sums up all cases of an objective.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from benchmarks.problems import PROBLEMS
from benchmarks.problems.vector_rewards import fair_taxi, fishwood, resource_gathering
from benchmarks.solvers import conic
from benchmarks.table import table
from tests.models import random_problem

import fairmdp as fm
from fairmdp import Problem, Utility, scenarios
from fairmdp.certificate.welfare import Asked
from fairmdp.model.objectives import Entropy, Gini, needs_nonnegative, objective_text

NASH, DELAY = fm.alpha_fair(1), fm.alpha_fair(2)
OBJECTIVES = {
    "alpha=0.5": fm.alpha_fair(0.5), "nash": NASH, "alpha=2": DELAY, "alpha=5": fm.alpha_fair(5),
    "atkinson=1": fm.atkinson(1), "atkinson=2": fm.atkinson(2), "gini": fm.gini(), "entropy": fm.entropy(),
    "max-min": fm.max_min(), "leximin": fm.leximin(),
}  # fmt: skip
SCENARIOS = {
    "three-state": scenarios.three_state, "bandit": scenarios.bandit, "jobs": scenarios.jobs,
    "hiring": scenarios.hiring, "taxi": scenarios.taxi, "postal": scenarios.postal,
    "garnet 1e3": lambda: scenarios.garnet(1000, 5, 5, n_quotas=5, seed=1),
}  # fmt: skip
# From an earlier trial; W has the weights 1/K.
REFERENCE = [
    ("three-state", fm.alpha_fair(0.5), 1.0, False, 1.62676759),
    ("three-state", NASH, 1.0, False, -0.67225173),
    ("three-state", DELAY, 1.0, False, -2.59515520),
    ("three-state", NASH, 1.0, True, -0.67266585),
    ("three-state", fm.gini([4 / 7, 2 / 7, 1 / 7]), 1.0, True, 0.74605263),
    ("jobs", NASH, 0.0, False, -0.98549171),
    ("jobs", DELAY, 0.0, False, -2.73029835),
    ("jobs", NASH, 1.0, True, -0.30317646),
    ("jobs", fm.gini([2 / 3, 1 / 3]), 1.0, True, 1.08109237),
    ("hiring", NASH, 0.0, False, -0.09321959),
]
RIVALS = {"clarabel": (conic.by_clarabel, 3_000), "scs": (conic.by_scs, 1_000)}  # most states
ONCE_EXACTLY = 20  # of so many fuzz cases one is verified in rational arithmetic
NEAR = 1e-6  # what a conic solver is trusted to, in the unit of the welfare


def unit(problem, fair):
    """What gaps of this welfare are measured in."""
    return Asked.of(problem, fair).unit(fair.welfare)


def ours(name, problem, objective, *, exact=False, quotas=False, tol=1e-6, **options):
    """Solve and verify: answer, verdict and the row of a table."""
    began = time.process_time()
    fair = fm.solve_welfare(problem, objective, tol=tol, **options)
    seconds = time.process_time() - began
    verdict = fm.verify(problem, fair, exact=exact)
    assert verdict.ok, verdict.messages
    gap = _level_gap(fair, verdict) if fair.levels else verdict.gap
    row = {
        "problem": name, "objective": objective_text(objective), "reward": fair.reward, "quotas": quotas,
        "solver": "ours", "status": verdict.status.value, "cpu_s": round(seconds, 3),
        "welfare": fair.welfare, "gap": f"{gap / unit(problem, fair):.1e}",
    }  # fmt: skip
    return fair, verdict, row


def by_scenarios(args):
    """Every objective on every scenario, with its quotas and without them, with the gain and without it."""
    fm.solve_welfare(scenarios.garnet(1000, 3, 4, n_quotas=12, seed=2), fm.gini())  # compiles
    for name, make in SCENARIOS.items():
        for word, objective in OBJECTIVES.items():
            for reward in (0.0,) if word == "leximin" else (0.0, 1.0):
                for owed in (False, True):
                    problem = make() if owed else make().with_sets_unbounded()
                    yield ours(name, problem, objective, reward=reward, quotas=owed, tol=1e-7)[2]


def _level_gap(fair, verdict):
    """By how much a level of leximin is missed at most."""
    left, gaps = set(fair.over), []
    u = dict(zip(fair.over, fair.utilities.tolist(), strict=True))
    for level, value in zip(fair.levels, verdict.levels, strict=True):
        gaps.append(value - min(u[name] for name in left))
        left -= set(level.groups)
    return max(gaps)


def by_sizes(args):
    """Large random models beside the quota solver, and as far as they can beside CLARABEL and SCS."""
    fm.solve_welfare(scenarios.garnet(1000, 3, 4, n_quotas=12, seed=2), fm.gini())  # compiles
    asked = [
        (states, groups, objective, reward)
        for states, groups in ((100, 5), (300, 5), (1_000, 5), (3_000, 5), (10_000, 5), (100_000, 5))
        for objective in (NASH, fm.gini())
        for reward in (1.0,)
    ]
    many = [(objective, reward) for objective in (NASH, fm.gini()) for reward in (1.0, 0.01, 0.0)]
    asked += [(10_000, 50, objective, reward) for objective, reward in many]
    for states, groups, objective, reward in asked:
        if states > args.largest:
            continue
        stated = PROBLEMS["garnet"](states, groups, seed=1)
        problem = stated.with_sets_unbounded()
        fair, verdict, row = ours(f"garnet {states}, {groups} groups", problem, objective, reward=reward)
        yield row
        for name, (solve, most) in RIVALS.items():
            if states <= most:
                yield _rival(name, solve, problem, fair, verdict, row)
        if reward == 1.0 and groups == 50 and objective is not NASH:
            yield ours(row["problem"], stated, objective, reward=reward, quotas=True)[2]
        if states >= 10_000 and objective is NASH and reward == 1.0:
            began = time.process_time()
            answer = fm.solve(stated)
            yield {
                "problem": row["problem"], "objective": "quotas only", "reward": 1.0, "quotas": True,
                "solver": answer.method, "status": answer.status.value,
                "cpu_s": round(time.process_time() - began, 3),
                "gap": f"{answer.gap / float(np.ptp(stated.mdp.r)):.1e}",
            }  # fmt: skip


def _rival(name, solve, problem, fair, verdict, row):
    """The row of a conic solver beside ours."""
    program = conic.conic_program(problem, fair.objective, fair.reward, fair.over)
    began = time.process_time()
    primal, dual, done, _ = solve(program)
    seconds = time.process_time() - began
    about = {key: row[key] for key in ("problem", "objective", "reward", "quotas")}
    return about | {
        "solver": name, "status": "done" if done else "not done", "cpu_s": round(seconds, 3),
        "welfare": primal, "apart": f"{apart(verdict, primal, dual) / unit(problem, fair):.1e}",
    }  # fmt: skip


def apart(verdict, primal, dual):
    """Distance between the conic solver's interval and ours."""
    low, high = min(primal, dual), max(primal, dual)
    return max(low - verdict.upper, verdict.welfare[0] - high, 0.0)


def by_public(args):
    """Environments that others have published, with a reward for each group."""
    for name, make, over in (
        ("fishwood", fishwood, ("fish", "wood")),
        ("fair taxi", fair_taxi, ("place 0", "place 1", "place 2")),
        ("resource gathering", resource_gathering, ("gold", "gem")),
    ):
        for word in ("nash", "alpha=2", "gini", "max-min", "leximin"):
            problem = make()
            fair, verdict, row = ours(name, problem, OBJECTIVES[word], over=over)
            yield row | {"utilities": " ".join(f"{u:.6g}" for u in fair.utilities)}
            if word != "leximin":
                yield _rival("clarabel", conic.by_clarabel, problem, fair, verdict, row)


def by_reference(args):
    """Numbers of an earlier trial, by a solver of its own."""
    for name, objective, reward, owed, welfare in REFERENCE:
        problem = SCENARIOS[name]() if owed else SCENARIOS[name]().with_sets_unbounded()
        fair, _, row = ours(name, problem, objective, reward=reward, quotas=owed, tol=1e-7, exact=True)
        yield row | {"apart": f"{abs(fair.welfare - welfare):.1e}"}


def drawn(seed):
    """A random problem with groups, one of them weighted now and then, and what is asked of it."""
    problem = random_problem(seed, 30)
    rng = np.random.default_rng([seed, 7])
    kinds = [
        fm.alpha_fair(float(rng.choice([0.0, 0.5, 1.0, 1.0, 2.0, 3.0]))),
        fm.atkinson(float(rng.choice([0.5, 1.0, 2.0]))), fm.gini(), fm.entropy(), fm.max_min(),
    ]  # fmt: skip
    objective = kinds[rng.integers(len(kinds))]
    if problem.n_quotas == 0:
        return None
    over = list(problem.names)
    rows = list(problem.quotas)
    if rng.random() < 0.3 and not isinstance(objective, Entropy):
        weights = rng.random(problem.mdp.n_pairs) * 10.0 ** rng.integers(-1, 2)
        if not needs_nonnegative(objective):
            weights = weights - weights.mean()
        rows.append(Utility("mean", weights=weights))
        over.append("mean")
    if isinstance(objective, Gini) and rng.random() < 0.5:
        objective = fm.gini(np.sort(rng.random(len(over)))[::-1])
    problem = Problem(problem.mdp, rows)
    if rng.random() < 0.5:
        problem = problem.with_sets_unbounded()
    size = float(np.ptp(problem.mdp.r))
    reward = float(rng.choice([0.0, 0.1, 1.0])) / size if size else 0.0
    return problem, objective, over, reward


def by_fuzz(args):
    """Random problems against CLARABEL; one row for each kind of welfare."""
    seen = {}
    for case in range(args.first, args.first + args.cases):
        seed, asked = case, drawn(case)
        while asked is None:
            seed += 1_000_000
            asked = drawn(seed)
        problem, objective, over, reward = asked
        began = time.process_time()
        fair = fm.solve_welfare(problem, objective, over=over, reward=reward, tol=1e-7)
        seconds = time.process_time() - began
        exact = case % ONCE_EXACTLY == 0
        verdict = fm.verify(problem, fair, exact=exact)
        began = time.process_time()
        primal, dual, done, _ = conic.by_clarabel(conic.conic_program(problem, objective, reward, over))
        theirs = time.process_time() - began
        size = unit(problem, fair)
        row = seen.setdefault(
            objective.kind,
            dict(cases=0, optimal=0, exact=0, refuted=0, rival_not_done=0, disagreements=0, largest_gap=0.0,
                 largest_apart=0.0, cpu_s=0.0, rival_cpu_s=0.0),
        )  # fmt: skip
        row["cases"] += 1
        row["optimal"] += verdict.status is fm.Status.OPTIMAL
        row["exact"] += exact and verdict.ok
        row["refuted"] += not verdict.ok
        row["rival_not_done"] += not done
        row["cpu_s"] += seconds
        row["rival_cpu_s"] += theirs
        row["largest_gap"] = max(row["largest_gap"], verdict.gap / size)
        off = apart(verdict, primal, dual) / size if done else 0.0
        row["largest_apart"] = max(row["largest_apart"], off)
        row["disagreements"] += off > NEAR
        if off > NEAR or not verdict.ok or verdict.status is not fm.Status.OPTIMAL:
            gap = verdict.gap / size
            print(f"seed {seed}: {objective}, {verdict.status.value}, gap {gap:.1e}, apart {off:.1e}, "
                  f"{verdict.messages}", file=sys.stderr)  # fmt: skip
    for kind, row in seen.items():
        rounded = {name: float(f"{value:.2g}") for name, value in row.items() if isinstance(value, float)}
        yield {"objective": kind, **row, **rounded}


FIELDS = ["problem", "objective", "reward", "quotas", "solver", "status", "cpu_s", "welfare", "gap", "apart"]
OF_FUZZ = [
    "objective", "cases", "optimal", "exact", "refuted", "rival_not_done", "disagreements", "largest_gap",
    "largest_apart", "cpu_s", "rival_cpu_s",
]  # fmt: skip
SUITES = {
    "scenarios": (by_scenarios, FIELDS[:-1]),
    "sizes": (by_sizes, FIELDS),
    "public": (by_public, [*FIELDS, "utilities"]),
    "reference": (by_reference, FIELDS),
    "fuzz": (by_fuzz, OF_FUZZ),
}


def main():
    """Measure and write a table."""
    parser = argparse.ArgumentParser(description="fair points, proved and compared")
    parser.add_argument("--suite", choices=SUITES, required=True)
    parser.add_argument("--out", type=Path, default=None, help="CSV to write (default: standard output)")
    parser.add_argument("--cases", type=int, default=10_000, help="of the fuzz suite")
    parser.add_argument("--first", type=int, default=0, help="its first seed")
    parser.add_argument("--largest", type=int, default=100_000, help="states, of the suite of sizes")
    args = parser.parse_args()
    rows, fields = SUITES[args.suite]
    with table("welfare", fields, args.out) as add:
        for row in rows(args):
            add(row)


if __name__ == "__main__":
    main()
