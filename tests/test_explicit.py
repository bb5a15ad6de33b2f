"""PRISM's and Storm's files: what is written comes back, what others wrote is read, nonsense is refused."""

import json
import os
import sys

import numpy as np
import pytest
from models import random_problem

import fairmdp as fm
import fairmdp.cli
from fairmdp import MDP, FormatError, Problem, ProblemError, Quota, scenarios
from fairmdp import files as atomic
from fairmdp.backends.opening import open_backend
from fairmdp.io import load, save
from fairmdp.solvers.auto import choose

ENDINGS = ("tra", "drn")

TRA = """\
3 4 7
0 0 1 0.9 work
0 0 2 0.1 work
0 1 1 0.1 walk
0 1 2 0.9 walk
1 0 2 1 walk
2 0 0 0.5
2 0 1 .5
"""
LAB = '0="init" 1="deadlock" 2="home" 3="not at home"\n0: 0 3\n1: 2\n2: 3\n'
SREW = '# Reward structure "pay"\n# State rewards\n3 2\n0 0.5\n2 -1\n'
TREW = "3 4 3\n0 0 1 1.0\n0 0 2 3.0\n1 0 2 2\n"
STA = "(x,y)\n0:(0,1)\n1:(1,0)\n2:(1,1)\n"
PRISM = {"tra": TRA, "lab": LAB, "srew": SREW, "trew": TREW, "sta": STA}

DRN = """\
// Exported by storm
// Original model type: MDP
@type: MDP
@value_type: double
@parameters

@placeholders
$p : 0.9
@reward_models
energy pay
@nr_states
3
@nr_choices
4
@model
state 0 [9, 0.5] init "not at home"
//[x=0\t& y=1]
\taction work [0, 1.2]
\t\t1 : $p
\t\t2 : 1/10
\taction walk [0, 0]
\t\t1 : 0.1
\t\t2 : 0.9

state 1 [9, 0] home
//[x=1\t& y=0]
\taction walk [0, 2]
\t\t2 : 1
state 2 [9, -1] "not at home"
//[x=1\t& y=1]
\taction __NOLABEL__ [0, 0]
\t\t0 : 0.5
\t\t1 : 0.5
"""


def written(folder, files, name="m"):
    for ending, text in files.items():
        (folder / f"{name}.{ending}").write_text(text, newline="")
    return folder / f"{name}.{next(iter(files))}"


def same_model(a, b):
    assert np.array_equal(a.mdp.P.toarray(), b.mdp.P.toarray()) and np.array_equal(a.mdp.r, b.mdp.r)
    assert np.array_equal(a.mdp.s_of, b.mdp.s_of) and a.mdp.states == b.mdp.states
    assert a.names == b.names and np.array_equal(a.members.toarray(), b.members.toarray())
    assert np.array_equal(a.at_least, b.at_least) and np.array_equal(a.at_most, b.at_most)


# Files of others


def check_commuter(problem):
    mdp = problem.mdp
    P = [[0, 0.9, 0.1], [0, 0.1, 0.9], [0, 0, 1], [0.5, 0.5, 0]]
    assert np.allclose(mdp.P.toarray(), P, atol=1e-15) and mdp.s_of.tolist() == [0, 0, 1, 2]
    assert mdp.r == pytest.approx([0.5 + 1.2, 0.5, 2, -1])
    assert mdp.actions == ("work", "walk", "walk", "a0") and mdp.initial.tolist() == [1, 0, 0]
    groups = {quota.name: np.asarray(quota.states).tolist() for quota in problem.quotas}
    assert groups == {"home": [1], "not at home": [0, 2]}
    assert problem.at_least.tolist() == [0, 0] and problem.at_most.tolist() == [1, 1]


def test_prism_files_are_read_together(tmp_path):
    problem = load(written(tmp_path, PRISM))
    check_commuter(problem)
    assert problem.mdp.states == ("0,1", "1,0", "1,1")


def test_drn_as_storm_writes_it(tmp_path):
    problem = load(written(tmp_path, {"drn": DRN}), reward="pay")
    check_commuter(problem)
    assert problem.mdp.states == ("x=0 & y=1", "x=1 & y=0", "x=1 & y=1")
    assert load(tmp_path / "m.drn", reward="energy").mdp.r.tolist() == [9, 9, 9, 9]


def test_windows_line_ends_blank_lines_and_any_order(tmp_path):
    first, *lines = TRA.splitlines()
    shuffled = "\r\n".join([first, "", *reversed(lines), ""])
    check_commuter(load(written(tmp_path, {**PRISM, "tra": shuffled, "lab": LAB.replace("\n", "\r\n")})))
    check_commuter(load(written(tmp_path, {"drn": DRN.replace("\n", "\r\n")}), reward="pay"))


def test_a_chain_has_one_action_per_state(tmp_path):
    tra = "2 3\n0 0 0.5\n0 1 0.5\n1 0 1\n"
    problem = load(written(tmp_path, {"tra": tra, "trew": "2 2\n0 1 4\n1 0 1\n", "lab": '0="home"\n1: 0\n'}))
    assert problem.mdp.r.tolist() == [2, 1] and problem.mdp.initial is None
    assert fm.solve(problem).shares == pytest.approx([1 / 3])
    text = "@type: DTMC\n@nr_states\n2\n@nr_choices\n2\n@model\nstate 0 [2]\n0 : 0.5\n1 : 0.5\nstate 1 [1] home\n\taction 0\n\t0 : 1\n"
    same_model(load(written(tmp_path, {"drn": text})), problem)


def test_states_without_a_choice_stay_and_are_counted(tmp_path):
    tra = "3 2 3\n0 0 1 0.5 go\n0 0 2 0.5 go\n2 0 2 1 go\n"
    problem = load(written(tmp_path, {"tra": tra, "lab": '0="deadlock" 1="empty"\n2: 0\n'}))
    assert problem.mdp.P.toarray()[1].tolist() == [0, 1, 0] and problem.mdp.actions == ("go", "a0", "go")
    assert problem.names == ("deadlock",) and problem.quotas[0].states.tolist() == [1, 2]
    text = "@type: MDP\n@nr_states\n2\n@nr_choices\n2\n@model\nstate 0\naction 0\n1 : 1\nstate 1\n"
    stuck = load(written(tmp_path, {"drn": text}))
    assert stuck.mdp.P.toarray().tolist() == [[0, 1], [0, 1]] and stuck.names == ("deadlock",)


def test_states_without_a_choice_must_not_pay(tmp_path):
    """PRISM and Storm do not agree on what they earn."""
    text = "@type: MDP\n@reward_models\npay\n@model\nstate 0 [1]\naction 0 [2]\n1 : 1\nstate 1 [{}]\n"
    assert load(written(tmp_path, {"drn": text.format("0")})).mdp.r.tolist() == [3, 0]
    with pytest.raises(FormatError, match="state 1 has no choice and the reward 5: PRISM would pay it"):
        load(written(tmp_path, {"drn": text.format("5")}))
    tra = {"tra": "3 2 3\n0 0 1 0.5\n0 0 2 0.5\n2 0 2 1\n", "srew": "3 2\n0 1\n1 -2\n"}
    with pytest.raises(FormatError, match="m.srew: state 1 has no choice and the reward -2"):
        load(written(tmp_path, tra))


def test_several_initial_states_are_equally_likely(tmp_path):
    problem = load(written(tmp_path, {"tra": TRA, "lab": '0="init"\n0: 0\n2: 0\n'}))
    assert problem.mdp.initial.tolist() == [0.5, 0, 0.5] and problem.n_quotas == 0


def test_repeated_action_names_are_told_apart(tmp_path):
    problem = load(written(tmp_path, {"tra": TRA.replace("work", "walk")}))
    assert problem.mdp.actions == ("walk#0", "walk#1", "walk", "a0")


def test_reward_structures_are_chosen_by_name(tmp_path):
    path = written(tmp_path, {"tra": TRA})
    (tmp_path / "m1.srew").write_text(SREW)
    (tmp_path / "m2.trew").write_text(TREW)
    with pytest.raises(FormatError, match="there are 2 reward structures: pay, 2\n"):
        load(path)
    assert load(path, reward="pay").mdp.r.tolist() == [0.5, 0.5, 0, -1]
    assert load(path, reward="2").mdp.r == pytest.approx([1.2, 0, 2, 0])
    with pytest.raises(FormatError, match="no reward structure called 'time'; there are pay, 2"):
        load(path, reward="time")
    (tmp_path / "m1.tra").write_text(TRA)  # now the numbered files belong to another model
    assert not load(path).mdp.r.any()


def test_a_name_of_a_reward_structure_that_is_no_text_is_read_all_the_same(tmp_path):
    path = written(tmp_path, {"tra": TRA})
    (tmp_path / "m1.srew").write_bytes(SREW.encode().replace(b"pay", b"p\xffy"))
    (tmp_path / "m2.srew").write_text(SREW.replace("pay", "cost"))
    with pytest.raises(FormatError, match="there are 2 reward structures: p\ufffdy, cost\n"):
        load(path)


def test_probabilities_with_few_digits_are_rescaled(tmp_path):
    targets = "".join(f"0 0 {t} 0.0333333333\n" for t in range(30))
    loops = "".join(f"{s} 0 0 1\n" for s in range(1, 30))
    problem = load(written(tmp_path, {"tra": f"30 30 59\n{targets}{loops}"}))
    assert problem.mdp.P[0].sum() == pytest.approx(1, abs=1e-15)


# Round trips


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("seed", range(12))
def test_what_is_written_comes_back(tmp_path, seed, ending):
    problem = random_problem(seed, n_max=15, pairs=False)
    save(problem, tmp_path / f"m.{ending}")
    again = load(tmp_path / f"m.{ending}")
    same_model(again, problem)
    assert again.mdp.initial.tolist() == [1.0] + [0.0] * (problem.mdp.n_states - 1)


@pytest.mark.parametrize("ending", ENDINGS)
def test_names_come_back(tmp_path, ending):
    mdp = MDP(
        [[0.25, 0.75], [1, 0], [1, 0]], [1 / 3, -0.5, 1e22], [0, 0, 1],
        states=["Zürich (alt)", "a, b"], actions=["to_work", "日本", "#1"], initial=[0.5, 0.5],
    )  # fmt: skip
    problem = Problem(mdp, [Quota("so wie, so", states=[1], at_least=0.1, at_most=0.9)])
    save(problem, tmp_path / f"m.{ending}")
    assert load(tmp_path / f"m.{ending}").digest == problem.digest


def test_saving_again_leaves_nothing_of_the_old_model(tmp_path):
    path = written(tmp_path, PRISM)
    (tmp_path / "m.quotas").write_text('S>=0.3 ["home"]\n')
    assert load(path).at_least.max() == 0.3
    problem = Problem(MDP([[0, 1], [1, 0]], [0.0, 1.0], [0, 1]))
    save(problem, path)
    assert load(path).mdp.r.tolist() == [0, 1] and load(path).n_quotas == 0
    assert sorted(os.listdir(tmp_path)) == ["m.lab", "m.tra", "m.trew"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_failed_save_changes_nothing(tmp_path, monkeypatch, ending):
    path = tmp_path / f"m.{ending}"
    save(scenarios.three_state(), path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    calls = []

    def full(handle):
        calls.append(handle)
        if len(calls) == (2 if ending == "drn" else 4):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic.os, "fsync", full)
    with pytest.raises(FormatError, match="cannot be written: No space left"):
        save(scenarios.three_state(rho=[0.3, 0.1, 0.1]), path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    "problem, message",
    [
        (
            Problem(MDP([[1.0]], [0.0], [0]), [Quota("q", pairs=[0], at_least=0.1)]),
            "q is not over a set of states",
        ),
        (
            Problem(MDP([[1.0]], [0.0], [0]), [Quota("init", states=[0], at_least=0.1)]),
            "init cannot be a label",
        ),
        (Problem(MDP([[1.0]], [0.0], [0]), [Quota('a"b', states=[0], at_least=0.1)]), "cannot be a label"),
        (
            Problem(MDP(np.eye(2), [0, 0], [0, 1], initial=[0.1, 0.9])),
            "initial states have different weights",
        ),
    ],
)
@pytest.mark.parametrize("ending", ENDINGS)
def test_what_the_files_cannot_say_is_refused(tmp_path, problem, message, ending):
    with pytest.raises(FormatError, match=message):
        save(problem, tmp_path / f"m.{ending}")
    assert not any(tmp_path.iterdir())


# Wrong files


@pytest.mark.parametrize(
    "ending, old, new, message",
    [
        ("tra", "3 4 7", "3 4 8", "first line says 8 lines follow, there are 7"),
        ("tra", "3 4 7", "3 5 7", "first line says 5 choices, there are 4"),
        ("tra", "3 4 7", "4 4 7", "state 3 has no transition"),
        ("tra", "3 4 7", "900000000000000000 4 7", "900,000,000,000,000,000 states, too many for 7 transitions"),
        ("tra", "3 4 7", "3 4 7 2", "first line has 4 words, expected 2 numbers"),
        ("tra", "3 4 7", "mdp", "first line has 1 words"),
        ("tra", "0 0 2 0.1", "0 0 3 0.1", "line 3: a state 3, expected 0 to 2"),
        ("tra", "0 0 2 0.1", "0 0 -2 0.1", "line 3: '-2' is wrong here, expected a state"),
        ("tra", "0 0 2 0.1", "0 0 2 -0.1", "is -0.1, expected a probability"),
        ("tra", "0 0 2 0.1", "0 0 2 nan", "line 3: 'nan' is wrong here, expected a probability, a number"),
        ("tra", "0 0 2 0.1", "0 0 2 1e400", "line 3: '1e400' is wrong here, expected a probability, a finite"),
        ("tra", "0 0 2 0.1", "0 0 2 0.2", r"P\[0\] is not a probability row: it sums to 1.1"),
        ("tra", "0 0 2 0.1", "0 0.1:2", "line 3: it has 3 words, expected 4"),
        ("tra", TRA, "", "there is nothing in it"),
        ("tra", TRA, "2 2\n0 1 3\n1 0 4\n", "state 0 sum to 3, expected 1\n  if these are rates"),
        ("lab", '0="init"', "0=init", "m.lab: line 1: expected labels"),
        ("lab", '3="not', '2="not', "m.lab: line 1: a label is declared twice"),
        ("lab", "2: 3", "2: 4", "m.lab: line 4: line 1 declares no such label"),
        ("lab", "2: 3", "7: 3", "m.lab: line 4: a state 7, expected 0 to 2"),
        ("srew", "3 2", "4 2", "m.srew: the first line says 4 states, the model has 3"),
        ("srew", "2 -1", "2 x", "m.srew: line 5: 'x' is wrong here"),
        ("trew", "1 0 2 2", "1 0 0 2", "m.trew: line 4: this transition, which has a reward, is not in the .tra"),
        ("trew", "1 0 2 2", "1 7 2 2", "m.trew: line 4: this transition"),
        ("trew", "3 4 3", "3 4 4", "m.trew: the first line says 4 lines follow"),
        ("sta", "2:(1,1)", "3:(1,1)", "m.sta: it names 3 states, expected each of 0 to 2 once"),
        ("sta", "2:(1,1)", "2 (1,1)", "m.sta: line 4: expected a state, such as"),
        ("sta", "2:(1,1)", "2:(1,0)", "two states are called '1,0'"),
    ],
)  # fmt: skip
def test_wrong_prism_files_are_named(tmp_path, ending, old, new, message):
    assert old in PRISM[ending]
    with pytest.raises((FormatError, ProblemError), match=message):
        load(written(tmp_path, {**PRISM, ending: PRISM[ending].replace(old, new)}))


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("@type: MDP", "@type: SMG", "@type is 'smg', expected MDP, DTMC, CTMC or MA"),
        ("@type: MDP", "@type: Markov Automaton", "there are 0 exit rates, expected 3"),
        ("@type: MDP", "@type: POMDP", "@type is 'pomdp'"),
        ("@type: MDP", "", "@type is 'nothing'"),
        ("@parameters\n", "@parameters\nq", "not plain numbers"),
        ("value_type: double", "value_type: double-interval", "not plain numbers"),
        ("@nr_states\n3", "@nr_states\n999999999999999999", "@nr_states is 999,999,999,999,999,999, there are 3"),
        ("@nr_choices\n4", "@nr_choices\n5", "@nr_choices is 5, there are 4"),
        ("@nr_choices\n4", "@nr_choices\nx", "@nr_choices is 'x', expected a whole number"),
        ("@model", "@modell", "no line @model"),
        ("$p : 0.9", "$p : 1-q", "@placeholders: '1-q' is not a number"),
        ("1 : $p", "1 : $q", r"line 19: '\$q' is wrong here, expected a probability"),
        ("2 : 1/10", "2 : 1/0", "line 20: '1/0' is wrong here"),
        ("2 : 1/10", "7 : 1/10", "line 20: there is no state 7"),
        ("2 : 1/10", "2 1/10", "line 20: expected a transition"),
        ("state 1", "state 2", "line 25: this is state 2, expected 1"),
        ("state 0", "action 0", "line 16: expected a state"),
        ("action work", "action", "line 18: expected rewards in brackets"),
        ("[0, 1.2]", "[0, 1.2", "line 18: ] is missing"),
        ("[0, 1.2]", "[0, 1.2x]", "line 18: '1.2x' is wrong here, expected a reward"),
        ('init "not at home"', 'init "not at home', "line 16: the labels cannot be read"),
    ],
)  # fmt: skip
def test_wrong_drn_files_are_named(tmp_path, old, new, message):
    assert old in DRN
    with pytest.raises((FormatError, ProblemError), match=message):
        load(written(tmp_path, {"drn": DRN.replace(old, new, 1)}), reward="pay")


def test_wrong_quota_files_are_named(tmp_path):
    path = written(tmp_path, {**PRISM, "quotas": 'LRA>=0.25 ["home"]\n\nLRA>=0.1 ["hme"]\n'})
    with pytest.raises(
        FormatError,
        match=r"m.quotas: line 3: there is no quota or state called 'hme'; did you mean 'home'\? there are not at home, home",
    ):
        load(path)


def test_quota_lines_that_do_not_fit_together_are_named(tmp_path):
    lines = ['LRA>=0.25 ["home"]', 'LRA<=0.9 ["home"]', "", 'LRA<=0.2 ["home"]', 'LRA>=0.1 ["0,1"]']
    path = written(tmp_path, {**PRISM, "quotas": "\n".join(lines)})
    with pytest.raises(
        FormatError, match="m.quotas: line 4: quota home asks for at_least 0.25 and at_most 0.2"
    ):
        load(path)
    written(tmp_path, {"quotas": "LRA=0.1 [home]"})
    with pytest.raises(FormatError, match="m.quotas: line 1: quota 'LRA=0.1 .home.' is met exactly by"):
        load(path)


def test_other_formats_have_one_reward(tmp_path):
    save(scenarios.three_state(), tmp_path / "m.npz")
    with pytest.raises(FormatError, match="nothing to choose"):
        load(tmp_path / "m.npz", reward="pay")


# Quotas as text


@pytest.mark.parametrize(
    "text, at_least, at_most",
    [
        ("home>=0.25", 0.25, None),
        (" home <= 10% ", 0.0, 0.1),
        ('LRA>=0.25 ["home"]', 0.25, None),
        ('LRA <= 0.25 [ "home" ]', 0.0, 0.25),
        ('S>=0.25["home"]', 0.25, None),
        ('S<=1e-2 ["home"]', 0.0, 0.01),
    ],
)
def test_quotas_in_everybodys_words(tmp_path, text, at_least, at_most):
    problem = load(written(tmp_path, PRISM))
    quota = fm.parse_quota(problem, text)
    assert (quota.name, quota.at_least, quota.at_most) == ("home", at_least, at_most)
    assert problem.with_quotas([quota]).n_quotas == 2


@pytest.mark.parametrize(
    "text, message",
    [
        ('LRA>0.25 ["home"]', "is a strict bound"),
        ('LRA>=x ["home"]', "'x' is not a number"),
        ('LRA>=0.25 ["work"]', "no quota or state called 'work'; there are home, not at home, 0,1"),
        ("home", "expected NAME>=SHARE"),
        (7, "expected text"),
    ],
)
def test_what_is_no_quota_is_refused(tmp_path, text, message):
    with pytest.raises(ProblemError, match=message):
        fm.parse_quota(load(written(tmp_path, PRISM)), text)


def test_labels_do_not_change_which_method_is_picked():
    problem = scenarios.garnet(n_states=1000, n_actions=5, seed=0)
    labels = [Quota(f"label {k}", states=[k, k + 1], at_least=0.0) for k in range(200)]
    for labelled, plain in (
        (problem.with_quotas(labels), problem),
        (Problem(problem.mdp, labels), Problem(problem.mdp)),
    ):
        assert choose(open_backend(labelled)) == choose(open_backend(plain))


# Policies


def test_strategy_files(tmp_path):
    problem = scenarios.three_state(rho=[0.1, 0.1, 0.25])
    solution = fm.solve(problem)
    fm.save_strategy(problem, solution, tmp_path / "s.txt")
    first, second, third = (tmp_path / "s.txt").read_text().splitlines()
    assert (first, third) == ("(s0)=a0", "(s2)=a0")
    state, _, mix = second.partition("=")
    shares = {name: float(share) for share, name in (part.split(":") for part in mix.split("+"))}
    assert state == "(s1)" and shares == {"a0": solution.policy[2], "a1": solution.policy[3]}
    fm.save_strategy(problem, solution, tmp_path / "s.json")
    rows = json.loads((tmp_path / "s.json").read_text())
    policy = np.zeros(6)
    for row in rows:
        for choice in row["c"]:
            policy[choice["index"]] = choice["prob"]
    assert np.array_equal(policy, solution.policy) and rows[1]["s"] == {"state": "s1"}
    nameless = Problem(MDP([[0, 1], [0.5, 0.5], [1, 0]], [1.0, 0.0, 2.0], [0, 0, 1]))
    fm.save_strategy(nameless, fm.solve(nameless), tmp_path / "n.txt")
    assert (tmp_path / "n.txt").read_text() == "0=a0\n1=a0\n"


def test_no_policy_no_strategy(tmp_path):
    problem = scenarios.three_state(rho=[0.1, 0.1, 0.5])
    with pytest.raises(ProblemError, match="no policy to write: no policy meets the quotas"):
        fm.save_strategy(problem, fm.solve(problem), tmp_path / "s.txt")
    with pytest.raises(ProblemError, match="the solution has 6 state-action pairs, the problem 1"):
        other = Problem(MDP([[1.0]], [0.0], [0]))
        fm.save_strategy(other, fm.solve(scenarios.three_state()), tmp_path / "s.txt")
    assert not any(tmp_path.iterdir())


# The command line


def run(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["fairmdp", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        fairmdp.cli.main()
    shown = capsys.readouterr()
    return end.value.code or 0, shown.out + shown.err


def test_solve_takes_labels_rewards_and_strategies(tmp_path, monkeypatch, capsys):
    path = written(tmp_path, {"drn": DRN})
    code, shown = run(monkeypatch, capsys, "solve", path, "--quota", "home>=0.3")
    assert code == 1 and "2 reward structures: energy, pay" in shown and "--reward NAME" in shown
    words = [
        "solve",
        path,
        "-p",
        "reward=pay",
        "--quota",
        'S<=0.3 ["home"]',
        "--exportstrat",
        tmp_path / "s.txt",
    ]
    code, shown = run(monkeypatch, capsys, *words)
    assert (
        code == 0 and "home          0.3000   <= 0.3   0" in shown and "not at home   0.7000   >= 0" in shown
    )
    lines = (tmp_path / "s.txt").read_text().splitlines()
    assert len(lines) == 3 and lines[0].startswith("(x=0 & y=1)=0.") and lines[2] == "(x=1 & y=1)=a0"
    code, shown = run(monkeypatch, capsys, "solve", path, "-p", "n=3")
    assert code == 2 and "takes reward, as reward=NAME" in shown
    code, shown = run(monkeypatch, capsys, "solve", path, "--strategy", tmp_path / "no" / "s.txt")
    assert code == 2 and "--strategy" in shown and "there is no such folder" in shown


def test_an_infeasible_problem_has_no_strategy(tmp_path, monkeypatch, capsys):
    words = ["solve", "three-state", "--rho", "0.1,0.1,0.5", "--strategy", tmp_path / "s.txt"]
    assert run(monkeypatch, capsys, *words)[0] == 3 and not any(tmp_path.iterdir())
