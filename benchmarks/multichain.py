"""Models that fall apart: random ones against brute force, and public ones against published answers.

    python -m benchmarks.multichain random --count 10000 --out benchmarks/results/multichain_random.csv
    python -m benchmarks.multichain models FOLDER --out benchmarks/results/multichain_public.csv
    python -m benchmarks.multichain large --out benchmarks/results/multichain_large.csv

The first draws small models with traps, quotas of every run and of the mean over runs, caps, pairs, weights,
conditions, several starts or none, and compares every answer with `benchmarks.brute_force`; `verify` has to
accept it in rational arithmetic. The second reads models that Storm exported, by the names that they have
among its tests, those of MultiGain and in the literature. The third measures seconds of CPU.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from benchmarks.brute_force import best_gain
from benchmarks.table import table
from scipy.sparse import block_diag, csr_array, vstack

import fairmdp as fm
from fairmdp.certificate import reward_scale

CLOSE = 2e-6  # in reward spans: twice the tolerance


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["random", "models", "large"])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.what == "random":
        against_brute_force(options.first, options.count, options.out)
    elif options.what == "models":
        against_published(options.folder, options.out)
    else:
        large(options.out)


# Random models


def draw(seed):
    """A random problem of 4 to 12 states, most of which fall apart."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 8 if rng.random() < 0.7 else 13))
    counts = rng.integers(1, 4 if n < 8 else 3, n)
    reach = rng.choice([1, 2, 3], p=[0.45, 0.4, 0.15], size=counts.sum())
    s_of = np.repeat(np.arange(n), counts)
    P = np.zeros((s_of.size, n))
    blocks = rng.integers(0, int(rng.integers(1, 4)), n)
    for i, s in enumerate(s_of):
        near = np.flatnonzero(blocks == blocks[s]) if rng.random() < 0.8 else np.arange(n)
        to = rng.choice(near, size=min(reach[i], near.size), replace=False)
        P[i, to] = rng.integers(1, 5, to.size)
    P /= P.sum(axis=1, keepdims=True)
    kind = rng.integers(4)
    initial = [None, np.eye(n)[0], np.eye(n)[rng.integers(n)], rng.multinomial(3, np.ones(n) / n) / 3][kind]
    r = rng.integers(-3, 6, s_of.size).astype(float)
    mdp = fm.MDP(P, r, s_of, initial=initial)
    quotas = [quota(rng, mdp, k, kind > 0) for k in range(int(rng.integers(0, 4)))]
    return fm.Problem(mdp, [q for q in quotas if q is not None])


def quota(rng, mdp, k, may_be_mean):
    n, expected = mdp.n_states, bool(may_be_mean and rng.random() < 0.5)
    least = rng.random() < 0.5
    bound = {"at_least" if least else "at_most": round(float(rng.uniform(0.02, 0.3 if least else 0.95)), 3)}
    kind = rng.integers(4)
    try:
        if kind == 0:
            pairs = rng.choice(mdp.n_pairs, size=int(rng.integers(1, mdp.n_pairs)), replace=False)
            made = fm.Quota(f"q{k}", pairs=pairs, **bound, expected=expected)
        elif kind == 1:
            weights = rng.integers(-2, 5, n).astype(float)
            value = float(rng.uniform(weights.min(), weights.max()))
            made = fm.Quota(f"q{k}", weights=weights, **{next(iter(bound)): value}, expected=expected)
        elif kind == 2 and n > 4:
            of = rng.choice(n, size=int(rng.integers(2, n)), replace=False)
            made = fm.Quota(f"q{k}", states=of[: max(1, of.size // 2)], of=of, **bound, expected=expected)
        else:
            states = rng.choice(n, size=int(rng.integers(1, n)), replace=False)
            made = fm.Quota(f"q{k}", states=states, **bound, expected=expected)
        fm.Problem(mdp, [made])
    except fm.ProblemError:
        return None
    return made


MET = ("seeds", "models", "optimal", "feasible", "infeasible", "undecided", "refused", "mixtures", "wrong",
       "not_verified", "cpu_s")  # fmt: skip


def against_brute_force(first, count, out):
    """Compare answers with what enumeration says, a thousand at a time; print the seeds that differ."""
    with table("multichain", MET, out) as add:
        for begin in range(first, first + count, 1000):
            seeds = range(begin, min(begin + 1000, first + count))
            add({"seeds": f"{seeds.start}-{seeds.stop - 1}"} | compared(seeds))


def compared(seeds):
    """How often an answer differs from enumeration, or is not accepted by `verify` in rationals."""
    said = dict.fromkeys(MET[1:], 0)
    for seed in seeds:
        try:
            problem = draw(seed)
            value = best_gain(problem)
        except (OverflowError, fm.ProblemError):
            continue  # too much to enumerate
        said["models"] += 1
        began = time.process_time()
        try:
            solution = fm.solve(problem)
        except fm.ProblemError:  # a mean over runs of which nobody knows where they start
            said["refused"] += 1
            continue
        said["cpu_s"] += time.process_time() - began
        said[str(solution.status)] += 1
        said["mixtures"] += solution.ends is not None and solution.ends.weights is not None
        verdicts = [fm.verify(problem, solution, exact=exact) for exact in (False, True)]
        messages = [message for verdict in verdicts for message in verdict.messages]
        fault = differs(problem, solution, value)
        said["wrong"] += bool(fault)
        said["not_verified"] += not all(verdict.ok for verdict in verdicts)
        if fault or messages or solution.status in ("undecided", "feasible"):
            print(seed, solution.status, solution.method, fault, *messages, file=sys.stderr, flush=True)
    return said | {"cpu_s": round(said["cpu_s"], 1)}


def differs(problem, solution, value):
    """What is wrong with an answer."""
    span = reward_scale(problem)
    if solution.status == "infeasible":
        return f"infeasible, and {value} can be had" if value is not None else ""
    if solution.status in ("optimal", "feasible") and value is None:
        return f"gain {solution.gain}, and nothing is fair"
    if solution.status == "optimal" and abs(solution.gain - value) > CLOSE * span:
        return f"gain {solution.gain}, expected {value}"
    if value is not None and solution.upper < value - 1e-9 * span:
        return f"upper bound {solution.upper} below {value}"
    return ""


# Public models

A, B, C = "exact", "storm", "storm, 1e-4"
PUBLISHED = (
    ("simple_lra", "first", "max", ['R{"second"}>=7.272727272727273 [LRA]'], 5, A),
    ("simple_lra", "first", "max", ['R{"second"}>=16 [LRA]'], 0, A),
    ("simple_lra", "second", "max", ['R{"first"}<=0 [LRA]'], 16, A),
    ("simple_lra", "first", "min", ['R{"second"}<=0 [LRA]'], 0, A),
    ("simple_lra", "second", "max", ["LRA>=1 [x=1]"], 0, A),
    ("simple_lra", "second", "max", ["LRA>=0.5 [x=1]"], 8, A),
    ("simple_lra", "second", "max", [], 16, A),
    ("simple_lra", "second", "max", ["LRA>=0.3 [x=3]"], 11.2, C),
    ("simple_lra", "second", "max", ["x=3>=0.3"], 0, "every run"),
    *(("resource", "rew_gold", "max", quotas, value, A) for quotas, value in [
        ([], 27 / 241), (['R{"rew_gem"}>=0.07736389684813754 [LRA]'], 27 / 349),
        (['R{"attacks"}<=0.010752688172043012 [LRA]'], 3 / 31),
        (['R{"attacks"}<=0 [LRA]'], 1 / 12),
        (['R{"attacks"}<=0 [LRA]', 'R{"rew_gem"}>=0.05555555555555555 [LRA]'], 1 / 18),
    ]),
    ("resource", "rew_gem", "max", [], 1 / 10, A),
    ("resource", "rew_gem", "max", ['R{"rew_gold"}>=0.11203319502074689 [LRA]'], 0, A),
    *(("lra15", "reward", "max", [], value, A, str(s)) for s, value in
      [(0, 37 / 60), (3, 2 / 3), (6, 1 / 2), (12, 31 / 60), (14, 31 / 60)]),
    *(("lra15", "reward", "min", [], value, A, str(s)) for s, value in [(0, 0.1), (3, 0), (6, 1 / 3)]),
    ("lra3", "reward", "max", [], 1, A),
    *(("lra3", None, "share", [], value, A, f"{s}") for s, value in [(0, 0), (1, 1), (2, 1)]),
    ("unichain_reward", "unbalanced", "max", [], 2, A),
    ("unichain1", None, "feasible", ['LRA>=0.5 ["a"]', 'LRA>=0.5 ["b"]'], None, A),
    ("unichain1", None, "limit", ["a>=0.5", "b>=0.5"], None, A),
    ("figure1", None, "feasible", ['LRA>=0.75 ["a"]', 'LRA>=0.25 ["c"]'], None, A),
    ("figure1", None, "feasible", ["a>=0.75", "c>=0.25"], None, A),
    ("membound1", None, "feasible", ['LRA>=0.9 ["ss"]'], None, A),
    *(("gardentool_agent", "extinguish", "max", [f'LRA>={b} ["home"]'], value, C)
      for b, value in [(0.25, 0.65221), (0.3, 0.60976), (0.75, 0.21957)]),
    ("gardentool_app", "extinguish", "max", ['LRA>=0.25 ["home"]'], 0.5, A),
    ("gardentool_app", "extinguish", "max", ["home>=0.25"], 0.5, "every run"),
    *((name, "default", "max", ['LRA>=0.01 ["d"]', 'LRA<=0.5 ["d"]'], value, C) for name, value in
      [("grid4", 0.98492), ("grid8", 0.97823), ("griddet4", 0.98997), ("griddet8", 0.98997)]),
    ("mer.3", None, "max", [], 1.5, B),
    ("pacman.10", "default", "max", [], 0.780320, B),
    ("pacman.10", "default", "max", ['LRA<=0.5 ["crash"]'], 0.5, C),
    ("pacman.10", "default", "max", ['LRA>=0.1 ["crash"]'], 0.780320, C),
    ("pacman.10", "default", "max", ["crash<=0.5"], 0, "every run"),
    ("pacman.10", "default", "impossible", ["crash>=0.1"], None, "every run"),
    ("virus.3", "attacks", "max", [], 0, B),
)  # fmt: skip
"""Model, reward, what is asked, quotas, the answer and who gave it; the start where it is not the file's."""


ASKED = ("model", "start", "reward", "ask", "quotas", "status", "gain", "upper", "reference", "source",
         "agrees", "method", "cpu_s")  # fmt: skip


def against_published(folder, out):
    """Write a row for each query, with the answer and the reference."""
    with table("multichain", ASKED, out) as add:
        for name, reward, ask, quotas, value, source, *start in PUBLISHED:
            path = next((p for p in (folder / f"{name}.drn", folder / f"{name}.drn.gz") if p.exists()), None)
            if path is None:
                print(f"no {name}", file=sys.stderr)
                continue
            problem = asked(path, reward, ask, quotas, start)
            sign = -1.0 if ask == "min" else 1.0
            began = time.process_time()
            solution = fm.solve(problem)
            seconds = time.process_time() - began
            agrees = fm.verify(problem, solution).ok and expected(ask, solution, sign, value, source)
            ends = (solution.gain, solution.upper) if solution.has_policy else ("", "")
            add({
                "model": name, "start": "".join(start), "reward": reward or "", "ask": ask,
                "quotas": " ".join(quotas), "status": str(solution.status), "reference": value,
                "gain": ends[0] and sign * ends[0], "upper": ends[1] and sign * ends[1], "source": source,
                "agrees": agrees, "method": solution.method, "cpu_s": round(seconds, 3),
            })  # fmt: skip


def asked(path, reward, ask, quotas, start):
    """The problem of a query."""
    problem = loaded(path, reward)
    if start:
        problem = problem.with_mdp(problem.mdp.with_initial(start[0]))
    problem = problem.with_quotas(fm.parse_quotas(problem, quotas))
    mdp = problem.mdp
    if ask == "share":  # the largest share of one state, from the first one
        target = np.where(mdp.s_of == int(start[0]), 1.0, 0.0)
        return fm.Problem(fm.MDP(mdp.P, target, mdp.s_of, initial="0"))
    return problem.with_mdp(mdp._with(r=-mdp.r)) if ask == "min" else problem


def expected(ask, solution, sign, value, source):
    if ask == "limit":
        return solution.status == "undecided"
    if ask == "impossible":
        return solution.status == "infeasible"
    if ask == "feasible":
        return solution.status == "optimal"
    close = {"exact": 1e-7, "every run": 1e-5}.get(source, 2e-4)
    return solution.status == "optimal" and abs(sign * solution.gain - value) <= close * max(1.0, abs(value))


def loaded(path, reward):
    """A model file, unpacked where it has to be."""
    import gzip
    import tempfile

    if path.suffix != ".gz":
        return fm.load(path, reward=reward) if reward else fm.load(path)
    with tempfile.TemporaryDirectory() as there:
        plain = Path(there) / path.stem
        plain.write_bytes(gzip.decompress(path.read_bytes()))
        return fm.load(plain, reward=reward) if reward else fm.load(plain)


# Large models


def large(out):
    """Write seconds of CPU for models of many components."""
    with table("multichain", ["model", "asked", "status", "gain", "upper", "cpu_s"], out) as add:
        for blocks, size in ((90, 100), (900, 100), (4, 20_000)):
            problem = islands(blocks, size)
            for asked, quotas in (("every run", problem), ("mean", in_the_mean(problem.mdp))):
                began = time.process_time()
                found = fm.solve(quotas)
                seconds = time.process_time() - began
                assert fm.verify(quotas, found).ok
                add({"model": f"{blocks} x {size}", "asked": asked, "status": str(found.status),
                     "gain": found.gain, "upper": found.upper, "cpu_s": round(seconds, 2)})  # fmt: skip


def in_the_mean(mdp):
    """Five quotas of the mean over runs on random sets, all of which bind."""
    rng, n = np.random.default_rng(5), mdp.n_states
    sets = [np.flatnonzero(rng.random(n) < 0.3) for _ in range(5)]
    return fm.Problem(
        mdp, [fm.Quota(f"g{k}", g, at_least=0.36 + 0.01 * k, expected=True) for k, g in enumerate(sets)]
    )


def islands(blocks, size, seed=0):
    """Components of random models behind states that lead to a few of them, with five quotas of every run."""
    parts = [fm.scenarios.garnet(n_states=size, n_actions=3, seed=seed + b) for b in range(blocks)]
    rng = np.random.default_rng(seed)
    before = blocks
    inner = block_diag([part.mdp.P for part in parts], format="csr")
    S = blocks * size + before
    inner = csr_array((inner.data, inner.indices, inner.indptr), shape=(inner.shape[0], S))
    rows, cols = np.repeat(np.arange(3 * before), 3), rng.integers(0, blocks, 9 * before) * size
    after = np.repeat(np.arange(3 * before) // 3 + 1, 1)
    onward = csr_array((np.full(rows.size, 0.3), (rows, cols)), shape=(3 * before, S))
    last = np.where(after < before, blocks * size + after, 0)
    onward = onward + csr_array((np.full(3 * before, 0.1), (np.arange(3 * before), last)), shape=onward.shape)
    P = vstack([inner, onward], format="csr")
    s_of = np.concatenate([np.concatenate([part.mdp.s_of + b * size for b, part in enumerate(parts)]),
                           blocks * size + np.repeat(np.arange(before), 3)])  # fmt: skip
    r = np.concatenate([*(part.mdp.r + 0.1 * rng.random() for part in parts), np.zeros(3 * before)])
    mdp = fm.MDP(P, r, s_of, initial=np.eye(1, S, blocks * size)[0])
    groups = [np.flatnonzero((np.arange(S) % size) % 5 == k) for k in range(5)]
    return fm.Problem(
        mdp, [fm.Quota(f"g{k}", g[g < blocks * size], at_least=0.17) for k, g in enumerate(groups)]
    )


if __name__ == "__main__":
    main()
