"""How often certificates hold: learn, certify from fresh samples, compare with the truth, many times.

    python -m benchmarks.certificate_coverage --out benchmarks/results/certificate_coverage.csv

One row per instance (those of `samples_to_target`) and kind of certificate, at delta = 0.05. ``missed`` is
the share of runs whose policy misses a quota of the true model, which learning promises for at most delta of
them; ``shares``, ``gain`` and ``upper`` are the shares of certificates whose intervals hold the true values,
or whose bound exceeds the best gain; ``joint`` is for all of that at once and due to be 0.95. Widths are
medians over the seeds: of the widest share interval relative to its quota, of the gain's interval, and of
what the bound is above the best gain.

Limitations: one MDP per family, one size per instance; a share of 200 runs has a standard error of 0.015.
"""

import argparse
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
from benchmarks.samples_to_target import INSTANCES
from benchmarks.table import table

from fairmdp import Chain, ProcessPool, certify, learn, solve_lp

FIELDS = ["instance", "kind", "samples", "runs", "missed", "shares", "gain", "upper", "joint", "vacuous",
          "share_width", "gain_width", "upper_over"]  # fmt: skip
SAMPLES = {"paper3": 3_000, "queue": 100_000, "garnet20": 100_000, "river20": 1_000_000}
DELTA = 0.05
TINY = 1e-12  # rounding


def one(name: str, seed: int) -> list[tuple[float, ...]]:
    """Learn once, certify both ways: missed quotas, what holds, whether it is vacuous, and widths."""
    problem = INSTANCES[name]()
    mdp, simulator, samples = problem.mdp, problem.mdp.simulator(), SAMPLES[name]
    learned = learn(simulator, problem.quotas, samples=samples, delta=DELTA, seed=seed)
    x = learned.policy * Chain.of(mdp, learned.policy).shares[mdp.s_of]
    shares, gain, best = problem.members @ x, float(mdp.r @ x), solve_lp(problem).gain
    rows = []
    for rigorous in (False, True):
        found = certify(
            simulator, learned.policy, problem.quotas, samples=samples, delta=DELTA, seed=seed,
            rigorous=rigorous, training=learned.counts, reward_range=(mdp.r.min(), mdp.r.max()),
        )  # fmt: skip
        row = (
            (shares < problem.at_least - 1e-9).any(),
            ((found.share_low <= shares + TINY) & (shares <= found.share_high + TINY)).all(),
            found.gain_low <= gain + TINY and gain <= found.gain_high + TINY,
            found.upper >= best - 1e-9,
            found.vacuous,
            ((found.share_high - found.share_low) / problem.at_least).max(),
            found.gain_high - found.gain_low,
            found.upper - best,
        )
        rows.append(tuple(map(float, row)))
    return rows


def summary(name: str, kind: str, runs: np.ndarray) -> dict[str, object]:
    """One row of the table."""
    missed, shares, gain, upper, vacuous, *widths = runs.T
    held = {"missed": missed, "shares": shares, "gain": gain, "upper": upper, "joint": shares * gain * upper}
    return {
        "instance": name,
        "kind": kind,
        "samples": SAMPLES[name],
        "runs": len(runs),
        **{key: round(float(value.mean()), 4) for key, value in held.items()},
        "vacuous": round(float(vacuous.mean()), 4),
        **{key: f"{np.median(width):.3g}" for key, width in zip(FIELDS[-3:], widths, strict=True)},
    }


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description="coverage of certificates")
    parser.add_argument("--out", type=Path, default=None, help="CSV to write (default: standard output)")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--instances", default=",".join(SAMPLES))
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    with table("certificate_coverage", FIELDS, args.out) as add, ProcessPool(args.workers) as engine:
        for name in args.instances.split(","):
            begin = time.perf_counter()
            runs = np.array(list(engine(partial(one, name), seeds)))  # (runs, kinds, columns)
            for k, kind in enumerate(("practical", "rigorous")):
                add(row := summary(name, kind, runs[:, k]))
                print(row, f"{time.perf_counter() - begin:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
