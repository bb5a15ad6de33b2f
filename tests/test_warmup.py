"""After `fairmdp warmup` nothing that a user may ask for is left to compile."""

import pytest
from click.testing import CliRunner
from models import lattice_queue

from fairmdp import Problem, scenarios, solve, solve_colgen, solve_dual, solve_mirror, solve_proximal
from fairmdp.cli.warmup import _kernels, warmup

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def said():
    first = CliRunner().invoke(warmup)
    assert first.exit_code == 0, first.output
    return first.output


def signatures():
    return {(k.__module__, k.__name__, str(s)) for k in _kernels() for s in k.signatures}


def test_says_what_it_did(said):
    lines = said.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == [
        "interior", "dual", "proximal", "colgen", "mirror", "multigrid", "learn", "reproduce",
    ]  # fmt: skip
    count = sum(int(line.split("   ")[-1].split()[0]) for line in lines[:-1])
    kept = lines[-1].startswith(f"{count} kernels compiled, kept in ")
    assert kept if count else lines[-1] == "nothing was left to do"


def test_nothing_is_left_to_compile(said):
    before = signatures()
    if not before:
        pytest.skip("numba is told not to compile")
    problem = scenarios.garnet(n_states=700, n_quotas=7)
    tight = problem.with_bounds(problem.at_least * 1.05)
    for use in (
        lambda: solve_dual(tight),
        lambda: solve_proximal(Problem(problem.mdp, rho=[0.3 / 700] * 700)),
        lambda: solve_colgen(tight),
        lambda: solve_colgen(Problem(lattice_queue(11))),
        lambda: solve(scenarios.postal(), method="interior"),
        lambda: solve(scenarios.jobs(queue=12), method="interior"),
        lambda: solve(scenarios.taxi(quota=(0.0, 0.0, 0.9)), method="dual"),
        lambda: solve_mirror(tight, steps=20_000),
        lambda: solve_mirror(scenarios.postal(), steps=3000),
    ):
        use()
        assert signatures() - before == set()
