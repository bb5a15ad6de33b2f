"""CPU seconds to the largest common factor of the quotas, and to a proof that more cannot be met.

    python -m benchmarks.limits --out benchmarks/results/limits.csv

Garnets with five quotas. ``proof`` ends once prices and bias refute quotas beyond the factor; ``answer`` is
all of `solve`, which also says which quotas conflict, how far each could go, and the nearest ones that can
be met.
"""

import argparse
import time
from pathlib import Path

from benchmarks.problems import garnet
from benchmarks.table import table

from fairmdp import Status, solve, verify
from fairmdp.backends.opening import open_backend
from fairmdp.solvers import dual
from fairmdp.solvers.conflict import largest_factor
from fairmdp.solvers.request import Request


def timed(what, *arguments):
    """CPU seconds of a call, and what it returned."""
    begin = time.process_time()
    value = what(*arguments)
    return time.process_time() - begin, value


def refute(problem):
    """Look for a proof as `solve` does on models that mix fast."""
    search = dual._Search(open_backend(problem), Request(), dual.USUAL)
    search.run()
    assert search.upper < 0
    return search


def main():
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--states", type=float, nargs="+", default=[1e4, 1e5])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    small = garnet(510, 3)
    solve(small)  # compiles
    largest_factor(small)
    with table("limits", ("states", "what", "seconds", "value"), options.out) as add:
        for states in map(int, options.states):
            problem = garnet(states, 5)
            seconds, factor = timed(largest_factor, problem)
            bracket = f"{factor.lower:.6f} to {factor.upper:.6f}"
            add({"states": states, "what": "largest factor", "seconds": f"{seconds:.2f}", "value": bracket})
            for excess in (1.1, 1.01):
                beyond = problem.with_bounds(at_least=excess * factor.upper * problem.at_least)
                percent = f"{excess - 1:.0%} beyond"
                seconds, _ = timed(refute, beyond)
                add({"states": states, "what": "proof", "seconds": f"{seconds:.2f}", "value": percent})
                seconds, answer = timed(solve, beyond)
                assert answer.status is Status.INFEASIBLE and verify(beyond, answer).ok
                add({"states": states, "what": "answer", "seconds": f"{seconds:.2f}", "value": percent})


if __name__ == "__main__":
    main()
