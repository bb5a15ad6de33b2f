"""Agents that learn along one trajectory: whether quotas are met while they learn, and what that costs.

    python -m benchmarks.online --seeds 50 --out benchmarks/results/online.csv

A row per model, agent and start. Starts: ``log``, a safe start learned from a log of `PER_PAIR` records per
pair of the even policy, of which the agent knows the rest too; ``model``, half of the largest common slack,
on the true model; ``none``. Rivals (`online_rivals`) begin with the counts of the same log, or with none.
``restoring`` learns nothing: it follows the policy with the largest common slack on the true model all along,
so its debts are those that chance alone makes. Runs of ``log`` in which no start is claimed are not made;
``runs`` counts the others.

Everything is counted from the trajectory itself: ``regret`` is ``T v* - sum of rewards`` (mean and standard
error), ``short`` the largest debt to a quota in steps at the end (mean), ``ever`` at any time (mean and 95 %
quantile), ``met`` and ``met_late`` the shares of runs without debt at the end, and at all times from T/10 on.
``slack`` and ``true_slack`` are the means of what a start claims and has. ``drifts`` counts runs in which a
change of the world was reported, of which there is none. ``cpu`` is the median of seconds of a run, the
world's included, the start's not.
"""

import argparse
import sys
import time
from bisect import bisect_right
from pathlib import Path

import numpy as np
from benchmarks.online_rivals import RIVALS
from benchmarks.problems.online import rover, workshop
from benchmarks.table import table

from fairmdp import Chain, OnlineAgent, Problem, learn_start, record, scenarios, solve_lp
from fairmdp.chains.policy import ladder
from fairmdp.learning import Running
from fairmdp.model.checks import Floats
from fairmdp.online.bounds import Bounds
from fairmdp.online.planning import Planner
from fairmdp.solution.solution import slacks

FIELDS = [
    "model", "agent", "start", "steps", "seeds", "runs", "regret", "regret_se", "short", "ever", "ever_95",
    "met", "met_late", "drifts", "slack", "true_slack", "cpu",
]  # fmt: skip
PER_PAIR = 400
NEARLY_ALL = 1 - 1e-6  # of the largest slack: all of it leaves a linear program no room for rounding
STEPS = 20_000
MODELS = {
    "three-state": scenarios.three_state,
    "jobs": scenarios.jobs,
    "garnet20": lambda: scenarios.garnet(20, seed=1),
    "garnet20 b": lambda: scenarios.garnet(20, seed=2),
    "rover": rover,
    "workshop": workshop,
}
AGENTS = [("fairmdp", "log"), ("fairmdp", "model"), ("fairmdp", "none"), ("restoring", "model")] + [
    (name, start) for name in RIVALS for start in ("log", "none")
]
"""Settings were frozen before an agent was run on the last two models."""


class Restoring:
    """Oversteps all quotas by as much as can be, and learns nothing."""

    def __init__(self, problem: Problem, seed: int) -> None:
        mdp = problem.mdp
        policy = Planner(Bounds.of(problem), NEARLY_ALL).restore(mdp).policy
        self._rungs = [each.tolist() for each in np.split(ladder(mdp, policy) - mdp.s_of, mdp.pair_ptr[1:-1])]
        self._rng = np.random.default_rng([seed, 72])

    def act(self, state: int) -> int:
        """Draw an action of a state."""
        return bisect_right(self._rungs[state], self._rng.random())

    def observe(self, state: int, action: int, reward: float, following: int) -> None:
        """Take no notice."""


def logged(problem: Problem, seed: int):
    """The log that a run begins with."""
    return record(problem.mdp, steps=PER_PAIR * problem.mdp.n_pairs, seed=10**6 + seed)


def true_slack(problem: Problem, policy: Floats) -> float:
    """By how much a policy oversteps every bound, on the true model."""
    x = policy * Chain.of(problem.mdp, policy).shares[problem.mdp.s_of]
    return float(slacks(problem.members @ x, problem.at_least, problem.at_most).min())


def made(problem: Problem, agent: str, start: str, seed: int):
    """An agent, and the slack that its start claims and has; no agent where no start is claimed."""
    if agent == "restoring":
        return Restoring(problem, seed), (np.nan, np.nan)
    log = logged(problem, seed) if start == "log" else None
    if agent in RIVALS:
        counts = None
        if log is not None:
            counts = np.zeros((problem.mdp.n_pairs, problem.mdp.n_states))
            np.add.at(counts, (log.pairs, log.s_next), 1.0)
        return RIVALS[agent](problem, seed, counts), (np.nan, np.nan)
    if log is not None:
        learned = learn_start(log, problem.quotas, seed=seed)
        if not learned.guaranteed:
            return None, (np.nan, np.nan)
        return OnlineAgent(problem, start=learned, seed=seed), (
            learned.slack,
            true_slack(problem, learned.policy),
        )
    if start == "model":
        plan = Planner(Bounds.of(problem), 0.5).restore(problem.mdp)
        return OnlineAgent(problem, start=plan.policy, slack=plan.room, seed=seed), (plan.room, plan.room)
    return OnlineAgent(problem, seed=seed), (np.nan, np.nan)


def lived(problem: Problem, agent, seed: int, steps: int) -> tuple[Floats, float, float]:
    """Pairs of a run, the sum of its rewards, and its seconds."""
    world, first = Running(problem.mdp, 2 * 10**6 + seed), problem.mdp.pair_ptr.tolist()
    pairs, total, began = [], 0.0, time.process_time()
    for _ in range(steps):
        state = world.state
        action = agent.act(state)
        pair = first[state] + action
        following, reward = world.step(pair)
        agent.observe(state, action, reward, following)
        pairs.append(pair)
        total += reward
    return np.array(pairs), total, time.process_time() - began


def run(problem: Problem, agent: str, start: str, seed: int, steps: int):
    """What a row is made of, of one seed."""
    who, slack = made(problem, agent, start, seed)
    if who is None:
        return None
    pairs, total, seconds = lived(problem, who, seed, steps)
    low, high = problem.at_least > 0, problem.at_most < 1
    counts = problem.members.toarray()
    rows = np.vstack([counts[low] - problem.at_least[low, None], problem.at_most[high, None] - counts[high]])
    debt = -np.minimum(rows[:, pairs].cumsum(axis=1).min(axis=0), 0.0)
    debt[debt < 1e-6] = 0.0
    drifts = len(who.report().drifts) if agent == "fairmdp" else 0
    return {
        "regret": steps * solve_lp(problem).gain - total, "short": debt[-1], "ever": debt.max(),
        "met": debt[-1] == 0, "late": not debt[steps // 10 :].any(), "drifts": drifts, "slack": slack[0],
        "true_slack": slack[1], "cpu": seconds,
    }  # fmt: skip


def measure(name: str, agent: str, start: str, seeds: range, steps: int) -> dict[str, object]:
    """One row of the table."""
    problem = MODELS[name]()
    found = [run(problem, agent, start, seed, steps) for seed in seeds]
    seen = {key: np.array([one[key] for one in found if one]) for key in next(filter(None, found), {})}
    row = {
        "model": name, "agent": agent, "start": start, "steps": steps, "seeds": len(seeds),
        "runs": sum(one is not None for one in found),
    }  # fmt: skip
    if not seen:
        return row
    own = agent == "fairmdp"
    means = ("slack", "true_slack") if own and start != "none" else ()
    return row | {
        "regret": round(float(seen["regret"].mean()), 1),
        "regret_se": round(float(seen["regret"].std(ddof=1) / np.sqrt(seen["regret"].size)), 1),
        "short": round(float(seen["short"].mean()), 2),
        "ever": round(float(seen["ever"].mean()), 2),
        "ever_95": round(float(np.quantile(seen["ever"], 0.95)), 2),
        "met": round(float(seen["met"].mean()), 3),
        "met_late": round(float(seen["late"].mean()), 3),
        "drifts": int((seen["drifts"] > 0).sum()) if own else "",
        **{key: round(float(seen[key].mean()), 4) for key in means},
        "cpu": round(float(np.median(seen["cpu"])), 2),
    }


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description="agents along one trajectory")
    parser.add_argument("--out", type=Path, default=None, help="CSV to write (default: standard output)")
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--agents", default=",".join(dict.fromkeys(agent for agent, _ in AGENTS)))
    parser.add_argument("--starts", default="log,model,none")
    args = parser.parse_args()
    starts = args.starts.split(",")
    seeds, agents = range(args.first, args.first + args.seeds), args.agents.split(",")
    with table("online", FIELDS, args.out) as add:
        for name in args.models.split(","):
            for agent, start in AGENTS:
                if agent in agents and start in starts:
                    row = measure(name, agent, start, seeds, args.steps)
                    print(row, file=sys.stderr)
                    add(row)


if __name__ == "__main__":
    main()
