"""Every method against every other on random problems of all shapes, until time is up or two disagree.

    python -m benchmarks.crosscheck --minutes 10
    python -m benchmarks.crosscheck --replay disagreement.npz

Methods disagree if one proves what another disproves: a gain above another's ceiling, a fair policy where
another says there is none, a claim that `verify` (or, on small problems, rational arithmetic) does not
confirm; or if one raises. The first disagreement is kept as a file, with the command that shows it again.
Answers that leave the matter open (`feasible`, `undecided`) agree with everything inside their bounds; how
many there were is printed, by shape.
"""

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from benchmarks.shapes import SHAPES, draw

from fairmdp import FairMDPError, ProblemError, Status, load, save, solve, verify
from fairmdp.backends.opening import open_backend
from fairmdp.certificate import reward_scale
from fairmdp.solvers.registry import METHODS

SAMPLED = ("mirror",)  # what is not exact
RATIONAL = 2_000  # transitions up to which claims are checked in rational arithmetic too
ROUNDING = 2e-8  # by how much two proven numbers may miss each other, in reward spans
SLOW = 60.0  # seconds of one answer that are worth a line


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--first", type=int, default=0, help="seed to begin with")
    parser.add_argument("--replay", type=Path, help="look at one problem file instead")
    parser.add_argument("--keep", type=Path, default=Path("disagreement.npz"), help="where to keep the first")
    options = parser.parse_args()
    if options.replay:
        quarrels, answers = examine(load(options.replay))
        for method, answer in answers.items():
            print(f"{method:9} {answer}")
        sys.exit(shown(quarrels))
    sys.exit(search(options.first, options.minutes, options.keep))


def search(first, minutes, keep):
    """Draw and examine problems; returns the exit code."""
    until = time.monotonic() + 60 * minutes
    statuses = {shape.__name__: Counter() for shape in SHAPES}
    seed = first
    while time.monotonic() < until:
        shape, problem = draw(seed)
        quarrels, answers = examine(problem)
        if quarrels:
            save(problem, keep)
            print(f"seed {seed}, {shape}: {problem}")
            print(f"python -m benchmarks.crosscheck --replay {keep}")
            return shown(quarrels)
        statuses[shape].update(answer.status.value for answer in answers.values())
        seed += 1
    print(f"{seed - first} problems, seeds {first} to {seed - 1}, no disagreement")
    for shape, counts in statuses.items():
        print(f"  {shape:12} " + ", ".join(f"{count} {status}" for status, count in counts.most_common()))
    return 0


def shown(quarrels):
    """Print what is wrong; returns the exit code."""
    print("\n".join(quarrels) or "no disagreement")
    return 1 if quarrels else 0


def examine(problem):
    """What is wrong with the answers to a problem, one sentence each, and the answers by method."""
    quarrels, answers = [], {}
    exact = [name for name in METHODS if name not in SAMPLED]
    for method in (*exact, "auto"):
        if method != "auto" and METHODS[method].obstacle(open_backend(problem)) is not None:
            continue
        began = time.perf_counter()
        try:
            answers[method] = solve(problem, method=method)
        except ProblemError as refusal:
            quarrels.append(f"{method} refuses: {refusal}")
        except Exception as error:  # whatever it is, it is news
            kind = "raises" if isinstance(error, FairMDPError) else "breaks with"
            quarrels.append(f"{method} {kind} {type(error).__name__}: {error}")
        seconds = time.perf_counter() - began
        if seconds > SLOW:
            print(f"  slow: {method} took {seconds:.0f} s on {problem}", flush=True)
    for method, answer in answers.items():
        quarrels += [f"{method}: {claim}" for claim in unproved(problem, answer)]
    quarrels += contradictions(problem, answers)
    return quarrels, answers


def unproved(problem, answer):
    """Claims of an answer that the certificate does not confirm."""
    yield from verify(problem, answer).messages
    if problem.mdp.P.nnz <= RATIONAL:
        yield from (f"in rationals, {message}" for message in verify(problem, answer, exact=True).messages)


def contradictions(problem, answers):
    """Pairs of answers that cannot both be true."""
    slip = ROUNDING * reward_scale(problem)
    fair = {m: a for m, a in answers.items() if a.status in (Status.OPTIMAL, Status.FEASIBLE)}
    for method, answer in answers.items():
        for other, policy in fair.items():
            if answer.status is Status.INFEASIBLE:
                yield f"{method} proves that no policy is fair, {other} has one"
            elif policy.gain > answer.upper + slip:
                yield f"{other} earns {policy.gain!r}, above the ceiling {answer.upper!r} of {method}"


if __name__ == "__main__":
    main()
