"""CPU seconds of Storm's answer and of ours on the same files: random models, five quotas, one thread.

    python -m benchmarks.storm --out benchmarks/results/storm.csv
    python -m benchmarks.storm --apart FOLDER --out benchmarks/results/storm_apart.csv

The second takes models in which runs may end differently: those of the folder, which Storm exported, and
components of garnets behind states that lead to a few of them, under quotas of the mean over runs.

Needs the extra ``storm``. The models are those of `exact` (garnet), written once as DRN; Storm and we
read the same file, and reading is not counted. Storm is asked ``multi(R max=? [LRA], LRA>=q ["g0"], ...)`` at
its default precision, 1e-4 absolute for such queries, and with K = 0 ``R max=? [LRA]`` (value iteration,
1e-6). We solve to a certified relative gap of 1e-6. Every case runs in a process of its own, after a small
problem has compiled our kernels; one that uses more CPU time than the limit is killed and reported as
``more than``.

Storm returns the value of a query with thresholds but no scheduler, so there is nothing of it that our
certificate could check; ``error`` is how far its value lies outside our certified interval, relative to the
span of the rewards.
"""

import argparse
import gzip
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.multichain import in_the_mean, islands
from benchmarks.problems.garnet import garnet
from benchmarks.table import table

from fairmdp.certificate import reward_scale

FIELDS_APART = ["model", "quotas", "states", "solver", "cpu_s", "peak_mb", "value", "upper", "error", "ratio"]
FIELDS = ["states", "quotas", "solver", "cpu_s", "peak_mb", "value", "upper", "error", "ratio"]

CASES = [(100, 5), (1000, 1), (1000, 2), (1000, 5), (10_000, 0), (10_000, 1), (10_000, 2), (10_000, 5)]

APART = [
    ("mer.3", "grants", []), ("pacman.10", "default", []), ("pacman.10", "default", ['LRA<=0.5 ["crash"]']),
    ("pacman.10", "default", ['LRA>=0.1 ["crash"]']),
    ("gardentool_app", "extinguish", ['LRA>=0.25 ["home"]']),
]  # fmt: skip
"""Model, reward, bounds on the mean over runs."""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--limit", type=int, default=300, help="CPU seconds that Storm may use for a case")
    parser.add_argument("--apart", type=Path, metavar="FOLDER", help="models that Storm exported")
    parser.add_argument("--child", nargs=3, metavar=("WHO", "FILE", "REWARD"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        who, *what = options.child
        print(json.dumps({"ours": ours, "storm": storm}[who](*what)))
        return
    if options.apart is not None:
        with table("storm", FIELDS_APART, options.out) as add, tempfile.TemporaryDirectory() as folder:
            for name, reward, file, states in apart(options.apart, Path(folder)):
                quotas = Path(file).with_suffix(".quotas")
                asked = " ".join(quotas.read_text().splitlines()) if quotas.exists() else ""
                in_turn({"model": name, "quotas": asked, "states": states}, file, reward, options.limit, add)
        return
    with table("storm", FIELDS, options.out) as add:
        for n, n_quotas in CASES:
            compare(n, n_quotas, options.limit, add)


def compare(n, n_quotas, limit, add):
    """Make a model and have it solved twice."""
    from fairmdp import save

    problem = garnet(n, n_quotas) if n_quotas else garnet(n, 1).without_quotas()
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "model.drn")
        save(problem, file)
        in_turn({"states": n, "quotas": n_quotas}, file, "reward", limit, add)


def apart(given, folder):
    """Name, reward, file and states of each model, with its quotas beside it."""
    from fairmdp import save

    for k, (name, reward, quotas) in enumerate(APART):
        plain, packed = given / f"{name}.drn", given / f"{name}.drn.gz"
        data = plain.read_bytes() if plain.exists() else gzip.decompress(packed.read_bytes())
        file = folder / f"{k}.drn"
        file.write_bytes(data)
        if quotas:
            file.with_suffix(".quotas").write_text("\n".join(quotas))
        lines = data.splitlines()
        yield name, reward, str(file), int(lines[lines.index(b"@nr_states") + 1])
    for blocks, size in ((90, 100), (900, 100), (4, 20_000)):
        file, problem = str(folder / f"{blocks}x{size}.drn"), in_the_mean(islands(blocks, size).mdp)
        save(problem, file)
        yield f"{blocks} x {size}", "reward", file, problem.mdp.n_states


def in_turn(case, file, reward, limit, add):
    """Have a file solved twice."""
    mine = child("ours", file, reward, None)
    span = mine.pop("span")
    add({**case, "solver": "ours", **mine})
    theirs = child("storm", file, reward, limit)
    if theirs is None:
        add(
            {
                **case,
                "solver": "storm",
                "cpu_s": f"more than {limit}",
                "ratio": f"more than {limit / mine['cpu_s']:.0f}",
            }
        )
        return
    outside = max(theirs["value"] - mine["upper"], mine["value"] - theirs["value"], 0)
    theirs |= {"error": outside / span, "ratio": round(theirs["cpu_s"] / max(mine["cpu_s"], 1e-3), 1)}
    add({**case, "solver": "storm", **theirs})


def child(who, file, reward, limit):
    """What a process of its own measures; None where it used up its time."""
    command = [sys.executable, "-m", "benchmarks.storm", "--child", who, file, reward]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

    def bound():
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))

    done = subprocess.run(command, env=environment, capture_output=True, text=True, preexec_fn=bound)
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return None
    done.check_returncode()
    return json.loads(done.stdout.splitlines()[-1])


def ours(file, reward):
    """Solve with the method that `solve` picks, and have it verified."""
    from fairmdp import load, scenarios, solve, verify

    solve(scenarios.garnet(n_states=3000, seed=1))  # compiles
    solve(in_the_mean(islands(3, 2500).mdp))
    problem = load(file, reward=reward)
    start = time.process_time()
    solution = solve(problem)
    cpu = time.process_time() - start
    verdict = verify(problem, solution)
    assert verdict.ok, verdict.messages
    answer = {"value": verdict.gain[0], "upper": verdict.upper, "span": reward_scale(problem)}
    return {"cpu_s": round(cpu, 3), "peak_mb": peak(), **answer}


def storm(file, reward):
    """Ask Storm for the value."""
    import stormpy

    quotas = Path(file).with_suffix(".quotas")
    bounds = quotas.read_text().splitlines() if quotas.exists() else []
    best = f'R{{"{reward}"}}max=? [LRA]'
    query = f"multi({best}, {', '.join(bounds)})" if bounds else best
    model = stormpy.build_model_from_drn(file)
    (asked,) = stormpy.parse_properties(query)
    start = time.process_time()
    answer = stormpy.model_checking(model, asked, only_initial_states=True)
    cpu = time.process_time() - start
    return {"cpu_s": round(cpu, 3), "peak_mb": peak(), "value": answer.get_value(model.initial_states[0])}


def peak():
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


if __name__ == "__main__":
    main()
