"""No array of a problem or a result can be written, whoever it was that made it."""

import copy
import pickle
from functools import cached_property

import numpy as np
import pytest
from scipy.sparse import issparse

import fairmdp as fm
from fairmdp.frontiers import frontier, frontier_grid
from fairmdp.mirror.batch import mirror_sweep
from fairmdp.mirror.solve import solve_mirror
from fairmdp.mirror.steps import Steps

PROBLEM = fm.scenarios.three_state().with_quotas([fm.Quota("mean", weights=[1.0, 2.0, 0.0], at_least=0.5)])
SETS = fm.scenarios.three_state()
TIMED = fm.Problem(
    fm.MDP(
        SETS.mdp.P,
        SETS.mdp.r,
        SETS.mdp.s_of,
        durations=[1.0, 2.0, 1.0, 0.5, 3.0, 1.0],
        rewards={"energy": np.arange(6.0)},
    ),
    [fm.Quota("part", states=[0], of=[0, 1], at_least=0.2), fm.Quota("energy", reward="energy", at_most=4.0)],
)


def infeasible():
    return fm.solve(PROBLEM.with_bounds([0.1, 0.1, 0.8, 0.25]))


MAKERS = {
    "MDP": lambda: PROBLEM.mdp,
    "Quota": lambda: fm.Quota("q", pairs=np.array([True, False, True, False, False, False]), at_least=0.1),
    "Problem": lambda: PROBLEM,
    "Problem with bounds": lambda: PROBLEM.with_bounds(PROBLEM.at_least * 0.9),
    "Solution": lambda: fm.solve(PROBLEM),
    "infeasible Solution": infeasible,
    "Solution by dual": lambda: fm.solve(SETS, method="dual"),
    "Verdict": lambda: fm.verify(PROBLEM, fm.solve(PROBLEM)),
    "Readout": lambda: fm.readout(PROBLEM, fm.solve(PROBLEM).policy),
    "Frontier": lambda: frontier(SETS, "s2"),
    "FrontierGrid": lambda: frontier_grid(SETS, "s1", "s2", [0.1, 0.2], [0.1, 0.3]),
    "Estimate": lambda: fm.learn(SETS.mdp.simulator(), SETS.quotas, samples=6000, seed=0),
    "CertifiedPolicy": lambda: fm.certify(
        SETS.mdp.simulator(), fm.solve(SETS).policy, SETS.quotas, samples=6000, seed=0
    ),
    "Simulation": lambda: fm.simulate(
        SETS.mdp, fm.solve(SETS).policy, quotas=SETS.quotas, steps=50, runs=3, seed=0
    ),
    "Counts": lambda: fm.learn(SETS.mdp.simulator(), SETS.quotas, samples=600, seed=0).counts,
    "Chain": lambda: fm.Chain.of(SETS.mdp, fm.solve(SETS).policy),
    "Learned": lambda: solve_mirror(SETS, steps=1000),
    "Policy": lambda: fm.Policy.of(SETS.mdp, fm.solve(SETS).policy),
    "Evaluation": lambda: fm.evaluate(SETS, np.full(6, 0.5)),
    "Evaluation of a fair policy": lambda: fm.evaluate(SETS, fm.solve(SETS).policy),
    "Comparison": lambda: fm.compare(SETS, {"mine": np.full(6, 0.5)}),
    "WelfareSolution": lambda: fm.solve_welfare(SETS, fm.alpha_fair(1.0), over=["s0", "s1", "s2"]),
    "leximin": lambda: fm.solve_welfare(SETS, fm.leximin(), over=["s0", "s1", "s2"]),
    "max-min": lambda: fm.solve_max_min(SETS),
    "timed Problem": lambda: TIMED,
    "timed Solution": lambda: fm.solve(TIMED),
}


def arrays_of(value, place, seen):
    """Every array that is held by a value or by what it holds, with the way to it."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        yield place, value
    elif issparse(value):
        for part in ("data", "indices", "indptr"):
            yield f"{place}.{part}", getattr(value, part)
    elif isinstance(value, tuple | list):
        for k, item in enumerate(value):
            yield from arrays_of(item, f"{place}[{k}]", seen)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from arrays_of(item, f"{place}[{key!r}]", seen)
    elif type(value).__module__.startswith("fairmdp") and hasattr(value, "__dict__"):
        kept = [n for n in dir(type(value)) if isinstance(getattr(type(value), n), cached_property)]
        for name in {*vars(value), *kept}:
            item = None if name.startswith("_") else getattr(value, name)
            yield from arrays_of(item, f"{place}.{name}", seen)


@pytest.mark.parametrize("kind", MAKERS)
def test_no_array_can_be_written(kind):
    made = MAKERS[kind]()
    for value in (made, copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        arrays = dict(arrays_of(value, kind, set()))
        assert arrays and [place for place, array in arrays.items() if array.flags.writeable] == []
    with pytest.raises(ValueError, match="read-only"):
        next(iter(arrays.values()))[...] = 0


def test_averages_of_runs_cannot_be_written():
    sweep = mirror_sweep(SETS, Steps(0.05, 0.05, 5.0), runs=2, steps=100)
    assert not sweep.x.flags.writeable and not sweep.lam.flags.writeable
