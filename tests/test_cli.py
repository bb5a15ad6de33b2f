"""The command line as a user meets it: screens, exit codes, and never a traceback."""

import csv
import dataclasses
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fairmdp as fm
import fairmdp.cli
from fairmdp import Solution, load, scenarios, verify
from fairmdp.io import Source
from fairmdp.views import exports


def test_solve_shows_gain_proof_shares_prices_and_policy(run, tmp_path):
    code, out, err = run("solve", "three-state", "--rho", "0.1,0.1,0.25")
    assert code == 0 and err == ""
    assert "gain    0.443421   optimal: no fair policy exceeds 0.443421" in out
    assert "worst slack 0" in out
    assert "without quotas 0.526316; fairness costs 0.082895" in out
    assert "s2      0.2500   >= 0.25   0         0.5211   binding" in out
    assert "s1: a0 59.4%, a1 40.6%" in out
    assert list(tmp_path.iterdir()) == []  # nothing is left behind unasked


def test_infeasible_says_why_and_exits_with_3(run):
    code, out, _ = run("solve", "three-state", "--rho", "0.1,0.1,0.5")
    assert code == 3
    assert "infeasible: s2 is owed 0.5000, and no policy spends more than 0.4737 there" in out
    assert "0.9474 times as much" in out and "s2>=0.47368421" in out
    assert run("solve", "three-state", "--rho", "0.1,0.1,0.5", "--quota", "s2>=0.47368421")[0] == 0


def test_shares_that_sum_to_more_than_all_of_the_time_are_infeasible(run):
    code, out, _ = run("solve", "three-state", "--rho", "0.5,0.5,0.5")
    assert code == 3 and "together the quotas owe 1.5 of the time, more than there is" in out
    assert "nearest quotas that can be met: s0>=0.435406698, s1>=0.47368421" in out


def test_a_conflict_of_two_quotas_lists_both(run):
    code, out, _ = run("solve", "three-state", "--rho", "0,0,0", "--quota", "s2>=0.46", "--quota", "s1>=0.46")
    assert code == 3
    assert "these 2 quotas cannot hold together" in out
    assert "s1 is owed 0.4600" in out and "s2 is owed 0.4600" in out


def test_json_is_the_whole_solution(run):
    code, out, _ = run("solve", "three-state", "--rho", "0.1,0.1,0.25", "--json")
    answer = json.loads(out)
    assert code == 0 and answer["status"] == "optimal"
    assert answer["gain"] == pytest.approx(337 / 760) and answer["worst_slack"] == pytest.approx(0, abs=1e-12)
    assert answer["quotas"][2]["price"] == pytest.approx(99 / 190)
    code, out, _ = run("solve", "three-state", "--rho", "0.1,0.1,0.5", "--json")
    assert code == 3 and json.loads(out)["gain"] is None


def test_saved_solutions_are_rechecked(run):
    words = ("three-state", "--rho", "0.1,0.1,0.3", "--quota", "s0<=0.6")
    code, out, _ = run("solve", *words, "-o", "a.json")
    assert code == 0 and "fairmdp verify three-state --rho=0.1,0.1,0.3" in out
    recheck = out.split("recheck: fairmdp ")[1].split(")")[0].replace("'", "").split()
    assert run(*recheck)[0] == 0
    code, out, _ = run("verify", *words, "a.json", "--exact")
    assert code == 0 and "confirmed in rational arithmetic" in out and "worst proven slack" in out
    code, out, _ = run("verify", *words, "a.json", "--json")
    assert json.loads(out)["ok"] is True
    code, out, _ = run("verify", "three-state", "a.json")
    assert code == 1 and "a solution of another problem" in out
    assert "name the problem as you did when it was solved" in out
    edited = json.loads(Path("a.json").read_text())
    edited["gain"] += 0.01
    Path("b.json").write_text(json.dumps(edited))
    assert "gap: this is not what follows from the file's other fields" in run("verify", *words, "b.json")[2]
    del edited["gap"]
    Path("b.json").write_text(json.dumps(edited))
    code, out, _ = run("verify", *words, "b.json")
    assert code == 1 and "NOT CONFIRMED" in out and "is not the policy's" in out


def test_infeasible_solutions_are_rechecked(run):
    run("solve", "three-state", "--rho", "0.1,0.1,0.5", "-o", "a.json")
    code, out, _ = run("verify", "three-state", "--rho", "0.1,0.1,0.5", "a.json")
    assert code == 0 and "infeasible: no policy meets the quotas" in out


@pytest.mark.parametrize("ending", ["toml", "npz"])
def test_new_writes_a_file_that_solves(run, ending):
    code, out, _ = run("new", "garnet", "--n-states", "20", "--seed", "4", "-o", f"g.{ending}")
    assert code == 0 and "next: fairmdp solve" in out
    problem = load(f"g.{ending}")
    assert np.array_equal(problem.at_least, scenarios.garnet(20, seed=4).at_least)
    assert run("solve", f"g.{ending}", "-o", "s.json")[0] == 0
    assert verify(problem, Solution.load("s.json")).ok


def test_new_replaces_no_file_unasked(run):
    Path("mine.toml").write_text("an hour of work")
    code, _, err = run("new", "jobs", "-o", "mine.toml")
    assert code == 2 and "mine.toml is there already" in err and "--force" in err
    assert Path("mine.toml").read_text() == "an hour of work"
    assert run("new", "jobs", "-o", "mine.toml", "--force")[0] == 0 and load("mine.toml").n_quotas == 2


def test_every_file_that_was_written_is_named(run):
    _, out, _ = run(
        "solve", "three-state", "--strategy", "policy.txt", "--figure", "shares.png", "--policy", "policy.csv"
    )
    assert (
        "  saved   policy.txt\n" in out
        and "  saved   policy.csv\n" in out
        and "  saved   shares.png\n" in out
    )
    _, out, _ = run("frontier", "three-state", "s2", "--csv", "price.csv", "--figure", "price.pdf")
    assert "  saved   price.csv\n" in out and "  saved   price.pdf\n" in out
    _, out, _ = run("compare", "three-state", "--figure", "compare.png", "--json")
    json.loads(out)
    assert Path("compare.png").stat().st_size > 1000


def test_commands_are_listed_with_whole_sentences(run):
    listed = run("--help")[1].split("Commands:\n")[1].splitlines()
    assert {line.split()[0] for line in listed if line.endswith("...")} <= {"report"}
    first = [line.split()[0] for line in listed][:4]
    assert first == ["scenarios", "new", "inspect", "solve"]  # as they are met
    listed = run("new", "--help")[1].split("Commands:")[1]
    assert "..." not in listed and "Return" not in listed


def test_a_frontier_of_a_state_that_has_no_quota_yet(run):
    run("new", "three-state", "-o", "plain.toml")
    text = Path("plain.toml").read_text()
    Path("plain.toml").write_text(text[: text.index("[[quotas]]")])
    code, out, _ = run("frontier", "plain.toml", "s2")
    assert code == 0 and "0.333333   0.400000" in out


def test_binding_quotas_stand_in_a_column(run):
    _, out, _ = run("solve", "three-state", "--rho", "0.1,0.1,0.5", "--quota", "s2>=0.47368421")
    assert "s0: a0 below 0.1%, a1 above 99.9%" in out
    assert len({line.index("binding") for line in out.splitlines() if "binding" in line}) == 1


def test_a_long_policy_is_summed_up(run):
    _, out, _ = run("solve", "jobs")
    assert "random in 1 of 25 states, deterministic in the others (--policy FILE writes it)" in out


def test_scenarios_are_listed_with_their_parameters(run):
    code, out, _ = run("scenarios")
    assert code == 0 and "three-state" in out and "n_states=100" in out
    code, out, _ = run("scenarios", "--json")
    assert {row["name"] for row in json.loads(out)} == set(scenarios.SCENARIOS) | set(scenarios.WORLDS)


def test_quotas_on_states_pairs_and_percentages(run):
    _, out, _ = run("solve", "three-state", "--quota", "s1/a0>=20%", "--quota", "s2<=0.26", "--json")
    rows = {row["name"]: row for row in json.loads(out)["quotas"]}
    assert rows["s1/a0"]["at_least"] == 0.2 and rows["s1/a0"]["share"] >= 0.2 - 1e-9
    assert rows["s2"]["at_least"] == 0.25 and rows["s2"]["at_most"] == 0.26


def test_mirror_prints_rows_and_ends_with_the_certified_policy(run, tmp_path):
    words = ("solve", "three-state", "--method", "mirror", "--steps", "64000", "--seed", "2")
    code, out, _ = run(*words)
    rows = [line.split() for line in out.splitlines() if re.match(r" +[\d,]+ ", line)]
    assert code == 4 and len(rows) == 7 and rows[-1][0] == "128,600"
    assert out.splitlines()[0].split() == ["samples", "gain", "upper", "gap", "slack", "seconds"]
    assert float(rows[-1][2]) >= 0.4434 and "mirror: Algorithm 1, dense kernel" in out
    again = run(*words)[1]
    assert [row.split()[:5] for row in again.splitlines()[1:8]] == [row[:5] for row in rows]
    assert run(*words, "--checkpoint", "run.npz")[0] == 4 and (tmp_path / "run.npz").exists()
    code, out, err = run(*words[:-1], "3", "--checkpoint", "run.npz")
    assert code == 1 and "belongs to a run with another model, seed or options" in err


def test_out_of_time_is_exit_code_4(run):
    code, out, _ = run("solve", "three-state", "--method", "colgen", "--seconds", "1e-6", "--json")
    assert code == 4 and json.loads(out)["stopped"] == "out of time"


def test_mirror_takes_a_budget_of_time_and_gives_json(run):
    code, out, _ = run("solve", "three-state", "--method", "mirror", "--seconds", "0.5", "--json")
    answer = json.loads(out)
    assert (
        code == 4 and answer["counters"]["steps"] > 10_000 and answer["status"] in ("feasible", "undecided")
    )


@pytest.mark.parametrize(
    "words, code, message",
    [
        (["solve"], 2, "Missing argument 'SOURCE'"),
        (["solve", "nope"], 2, "no file and no ready-made problem called 'nope'; ready-made ones are three-state"),
        (["solve", "nope.toml"], 1, "nope.toml: cannot be read"),
        (["solve", "x.yaml"], 1, "expected .toml or .npz"),
        (["solve", "three-state", "--rho", "0.1,x,0.2"], 2, "--rho: 'x' is not a number"),
        (["solve", "three-state", "--rho", "0.1,0.2"], 2, "--rho has 2 shares, the model has 3 states"),
        (["solve", "three-state", "--rho", "nan,0,0"], 1, "at_least nan"),
        (["solve", "three-state", "--quota", "s9>=0.1"], 1, "there is no quota or state called 's9'; there are s0, s1, s2"),
        (["solve", "three-state", "--quota", "s0/zz>=0.1"], 1, "state s0 has no action called 'zz'; there are a0, a1"),
        (["solve", "three-state", "--quota", "s0=0.1"], 2, "expected NAME>=SHARE or NAME<=SHARE"),
        (["solve", "three-state", "--quota", "s0>=big"], 2, "'big' is not a number"),
        (["solve", "three-state", "--method", "magic"], 1, "there is no method 'magic'"),
        (["solve", "three-state", "--steps", "100"], 2, "--steps and --checkpoint go with --method mirror"),
        (["solve", "three-state", "--method", "mirror", "--steps", "0"], 2, "0 is not in the range x>=1"),
        (["solve", "three-state", "--method", "mirror", "--seconds", "0"], 2, "0.0 is not in the range x>0"),
        (["solve", "three-state", "--method", "mirror", "--quota", "s0<=0.5"], 1, "mirror descent takes at_least only"),
        (["solve", "three-state", "--tol", "-1"], 1, "tol is -1.0"),
        (["solve", "three-state", "-o", "no/where.json"], 2, "there is no such folder"),
        (["solve", "three-state", "--policy", "no/where.csv"], 2, "there is no such folder"),
        (["solve", "three-state", "--policy", "policy.txt"], 2, "expected a name that ends in .csv or .json"),
        (["solve", "garnet", "-p", "states=3"], 2, "garnet takes n_states"),
        (["solve", "garnet", "-p", "n_states=many"], 2, "'many' is not a whole number"),
        (["solve", "garnet", "-p", "n_states=1"], 1, "n_states is 1, expected a whole number of at least 2"),
        (["solve", "alpha-chain", "-p", "alpha=2"], 1, "alpha is 2.0, expected a probability"),
        (["new", "nope"], 2, "there is no ready-made problem 'nope'"),
        (["new", "three-state", "-o", "x.txt"], 1, "expected .toml or .npz"),
        (["solve", "walks:walk"], 2, "cannot import walks: No module named 'walks'"),
        (["solve", "three-stat"], 2, "called 'three-stat'; did you mean 'three-state'? ready-made ones are"),
        (["frontier", "three-state", "s9"], 1, "there is no quota or state called 's9'; there are s0, s1, s2"),
        (["frontier", "three-state", "s2", "--values", "0.2,30"], 1, "30 is no share, expected values from 0 to 1"),
        (["frontier", "three-state", "--rho", "0,0,0"], 1, "move one quota by its name"),
        (["new", "three-state", "-o", "no/where.toml"], 1, "no/where.toml: cannot be written: there is no such folder"),
        (["verify", "three-state", "nope.json"], 1, "nope.json: cannot be read"),
        (["frobnicate"], 2, "No such command 'frobnicate'"),
    ],
)  # fmt: skip
def test_mistakes_are_named(run, tmp_path, words, code, message):
    got, _, err = run(*words)
    assert got == code and message in err and "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_running_out_of_memory_and_interrupts_are_messages(run, monkeypatch):
    for error, code, words in (
        (MemoryError(), 1, "out of memory"),
        (KeyboardInterrupt(), 4, "stopped"),
        (ZeroDivisionError("boom"), 1, "a mistake of ours, not yours: ZeroDivisionError: boom"),
    ):

        def fail(*_, error=error, **__):
            raise error

        monkeypatch.setattr("fairmdp.solve", fail)
        got, _, err = run("solve", "three-state")
        assert got == code and words in err


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["solve", "three-state"], ["solve", "three-state", "--json"]]
)
def test_installed_command_runs_without_heavy_imports(words):
    """Start-up: neither numba nor matplotlib nor rich nor what learners need is touched by a small solve."""
    script = (
        "import sys; sys.argv = ['fairmdp', *sys.argv[1:]]; import fairmdp.cli\n"
        "try: fairmdp.cli.main()\n"
        "except SystemExit as end: code = end.code\n"
        "heavy = {'numba', 'matplotlib', 'rich', 'pydantic', 'scipy.special'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else code)"
    )
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_help_of_the_program_loads_no_command():
    script = (
        "import sys; sys.argv = ['fairmdp', '--help']; import fairmdp.cli\n"
        "try: fairmdp.cli.main()\n"
        "except SystemExit: pass\n"
        "sys.exit('numpy' in sys.modules or 'fairmdp.cli.solve' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True).returncode == 0


def test_one_problem_is_built_where_only_its_bounds_are_given(run, monkeypatch):
    built, whole = [], fairmdp.Problem.__init__

    def counted(self, mdp, quotas=(), **rest):
        built.append((quotas, rest))
        whole(self, mdp, quotas, **rest)

    monkeypatch.setattr(fairmdp.Problem, "__init__", counted)
    assert run("solve", "three-state", "--rho", "0.1,0.1,0.25")[0] == 0
    assert [bool(quotas or rest) for quotas, rest in built] == [True, False]  # and the model without quotas


def test_the_gain_without_quotas_starts_from_the_answer_and_takes_no_longer(run, monkeypatch):
    asked, whole = [], fairmdp.solve

    def watched(problem, **how):
        asked.append(how)
        found = whole(problem, **how)
        return found if problem.n_quotas else dataclasses.replace(found, status=fairmdp.Status.FEASIBLE)

    monkeypatch.setattr(fairmdp, "solve", watched)
    code, out = run("solve", "three-state", "--rho", "0.1,0.1,0.25")[:2]
    assert code == 0 and "  without quotas not settled" in out and "fairness costs" not in out
    assert asked[1]["start"].gain == pytest.approx(0.443421, abs=1e-6) and 1 <= asked[1]["seconds"] < 60


def test_quotas_of_one_line_are_added_together(monkeypatch):
    """Each where the scenario has it, with both of its bounds, and new ones behind."""
    built, whole = [], fairmdp.Problem.with_quotas
    monkeypatch.setattr(
        fairmdp.Problem, "with_quotas", lambda self, added: (built.append(1), whole(self, added))[1]
    )
    words = ("s0>=0.2", "s1<=0.5", "s0<=0.6", "s2/a1<=0.4")
    problem = Source("three-state", rho="0.1,0.1,0.2", quotas=words).problem()
    assert len(built) == 1 and problem.names == ("s0", "s1", "s2", "s2/a1")
    assert problem.at_least.tolist() == [0.2, 0.1, 0.2, 0.0]
    assert problem.at_most.tolist() == [0.6, 0.5, 1, 0.4]


@pytest.mark.parametrize("command", fairmdp.cli.cli.commands)
def test_examples_in_help_stand_on_lines_of_their_own(run, command):
    code, out, _ = run(command, "--help")
    assert code == 0 and "\\b" not in out
    examples = re.findall(r"^  fairmdp .*$", out, re.M)
    assert all(line.count("fairmdp ") == 1 for line in examples)
    if command in ("solve", "frontier", "learn", "simulate", "reproduce"):
        assert len(examples) >= 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize("words", [["solve", "three-state"], ["scenarios"], ["--help"]])
def test_output_that_cannot_be_written_is_no_mistake_of_ours(words):
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-c", "from fairmdp.cli import main; main()", *words]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 1
    assert ended.stderr == "error: the output cannot be written: No space left on device\n"


def test_names_in_tables_are_no_formulas():
    """An apostrophe before what a spreadsheet would compute, and before one, so that names can be had again."""
    names = ['=HYPERLINK("http://x")', "+1", "-1", "@a", "'b", "plain"]
    mdp = fm.MDP(np.eye(6)[[1, 2, 3, 4, 5, 0]], [1.0] * 6, range(6), states=names)
    problem = fm.Problem(mdp, [fm.Quota(name, [s], at_least=0.1) for s, name in enumerate(names)])
    solution = fm.solve(problem)
    for table, column in ((exports.policy_csv, 0), (exports.quotas_csv, 0)):
        cells = [row[column] for row in csv.reader(io.StringIO(table(problem, solution)))][1:]
        assert not any(cell.startswith(tuple("=+-@")) for cell in cells)
        assert [cell.removeprefix("'") for cell in cells] == names
    head = next(csv.reader(io.StringIO(fm.frontier(problem, names[0]).to_table().to_csv())))
    assert not any(cell.startswith(tuple("=+-@")) for cell in head)
    grid = fm.frontier_grid(problem, names[0], names[1], [0, 0.1], [0, 0.1]).to_table().to_csv()
    assert next(csv.reader(io.StringIO(grid)))[:2] == [f"owed_{name}" for name in names[:2]]
