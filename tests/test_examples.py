"""Every example runs from any folder, says what its comments promise, and stays short."""

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import notebooks
import pytest

FOLDER = Path(__file__).parent.parent / "examples"
SCRIPTS = sorted(FOLDER.glob("*.py"))

KEY_LINES = {
    "01_three_state": [
        "gain 0.443421, and no fair policy exceeds 0.443421",
        "s2: owed 0.25, gets 0.2500, price 0.5211",
        "0.01 more for s2 costs 0.005211, its price says 0.005211",
        "verified: True, optimal",
    ],
    "02_own_arrays": [
        "Problem(3 states, 6 pairs, 13 transitions, 3 quotas)",
        "optimal: gain 0.6420",
        "pause: share 0.1300 in [0, 0.13], price -9.2000",
    ],
    "03_jobs": [
        "owed [0.0, 0.3]: optimal",
        "client1: of 1.5 jobs per step 1.340 are served, 0.045 withdrawn, 0.116 dropped; 2.23 wait",
        "gain 0.7533; share of time with a short queue: client1 0.3500, client2 0.3000",
    ],
    "04_price_of_fairness": [
        "0.3267      0.7697   1.2797",
        "at 0.2 the best gain is 0.832224; solving there gives 0.832224",
    ],
    "05_simulator": ["confirmed on 70,000 fresh samples at level 0.05", "fresh samples: fair"],
    "06_gymnasium": [
        "presents per step: 0.017555 without a cap, 0.014000 with at most 0.003 falls per step",
        "verified: True",
    ],
    "07_infeasible": [
        "status: infeasible (no policy meets the quotas)",
        "s2 is owed 0.46; alone it could have up to 0.4737",
        "verified: True",
        "optimal, gain 0.1526",
    ],
    "08_compare": [
        "unconstrained   0.9310",
        "max-min         0.7725   0.2451   0.2451   0.2451   1.0000   -",
    ],
    "09_linear_constraints": [
        "gain 0.7598: client1 loses 0.0772 of its jobs, client2 0.3046",
        "more lost by client2: 0.1000, at most 0.1000, price -0.2293",
        "some fair policy: optimal, verified: True",
    ],
    "10_taxi_fleet": [
        "reward per step: 0.5636 without quotas, 0.5216 with them",
        "fresh samples at level 0.05: a policy that misses a quota would pass in at most 5 % of runs",
        "north west: 0.178 if left alone; owed 0.2, seen 0.2",
    ],
    "11_taxi_on_ray": [
        "the same policy as in one process, byte by byte: True",
        "fresh samples: fair",
    ],
    "12_sweep": ["0.25         0.4401 +- 0.0023             0.2514"],
    "13_runs_that_end": [
        "Inspection(2 of 2 states reachable, 2 end components, solved by split)",
        "gain 2.0, jobs 1.0 of the time, verified: True",
        "  100% of runs end open: gain 2.0, jobs 1.0",
        "  50% of runs end folded: gain 5.0, jobs 0.0",
        "jobs 0.54 on average, and half of the time or more in 54% of the runs",
    ],
    "14_a_million_clients": [
        "no joint policy gains more than 1,014.28 a step (proved: True)",
        "slots used at most: 652 of 652",
    ],
}


ARGUMENTS = {"14_a_million_clients": ["2000"]}

# Workers import the script that started them, so it must be one; and the module that they need.
WITH_WORKERS = {"11_taxi_on_ray": "ray", "12_sweep": "multiprocessing"}


def _marks(script):
    return [pytest.mark.ray] if "with fm.RayCluster(" in script.read_text() else []


@pytest.mark.slow
@pytest.mark.parametrize("script", [pytest.param(p, id=p.stem, marks=_marks(p)) for p in SCRIPTS])
def test_example(script, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if script.stem in WITH_WORKERS:
        pytest.importorskip(WITH_WORKERS[script.stem], reason="an extra of this example is not installed")
        ended = subprocess.run(
            [sys.executable, "-W", "error", script], capture_output=True, text=True, timeout=900
        )
        out = ended.stdout
        assert ended.returncode == 0, ended.stderr
    else:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        monkeypatch.setattr(sys, "argv", [str(script), *ARGUMENTS.get(script.stem, [])])
        runpy.run_path(str(script), run_name="__main__")
        out = capsys.readouterr().out
    for line in KEY_LINES[script.stem]:
        assert line in out, out
    if script.stem.startswith("04"):
        figure = Path(re.search("figure: (.*)", out)[1])
        assert figure.is_relative_to(tmp_path) and figure.read_bytes().startswith(b"\x89PNG")
    else:
        assert list(tmp_path.iterdir()) == []  # nothing is left behind


def test_every_example_is_listed_and_short():
    assert {path.stem for path in SCRIPTS} == set(KEY_LINES)
    for path in SCRIPTS:
        assert len(path.read_text().splitlines()) < 60, path


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_shows_what_it_holds(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for k, (now, before) in enumerate(zip(notebooks.run(path), notebooks.kept(path), strict=True), start=1):
        assert now == notebooks.shown(before), f"cell {k} of {path.name}: python tests/notebooks.py {path}"


def test_a_changed_notebook_is_noticed(tmp_path):
    path = tmp_path / "one.ipynb"
    cell = {"cell_type": "code", "source": ["print(1)\n", "[2]"], "outputs": [], "execution_count": None}
    path.write_text(json.dumps({"cells": [cell]}))
    notebooks.keep(path)
    assert notebooks.run(path) == [notebooks.shown(outputs) for outputs in notebooks.kept(path)]
    assert "2" in path.read_text() and "stdout" in path.read_text()
    path.write_text(path.read_text().replace("[2]", "[3]", 1))
    assert notebooks.run(path) != [notebooks.shown(outputs) for outputs in notebooks.kept(path)]
