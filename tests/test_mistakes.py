"""Mistakes that people make, each with what it is told: on the command line, in files, in Python, on the page.

A message says what is wrong, where, and what to write instead; this is the table of them. Whoever changes one
should read it here as its reader does.
"""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from pages import command_output

import fairmdp as fm
from fairmdp.web.edits import Row, edited

SHEET = """\
state,action,next,probability,profit,km,group
north,stay,north,80%,520,60,North
north,stay,yard,20%,520,60,North
north,cross,south,100%,310,140,North
south,stay,south,75%,240,80,South
south,stay,yard,25%,240,80,South
south,cross,north,100%,300,150,South
yard,repair,north,60%,-150,0,
yard,repair,south,40%,-150,0,
"""

MODULE = """\
import fairmdp as fm

model, number = fm.scenarios.three_state(), 3

def crowded(n):
    return model

def unlucky():
    raise RuntimeError("no luck")

def leaky():
    return fm.MDP.from_rules("a", ["x"], lambda state, action: ({"a": 0.5}, 1.0))
"""


def changed(old, new):
    assert old in SHEET
    return SHEET.replace(old, new, 1)


FILES = {
    "sheet.csv": SHEET,
    "to.csv": changed(",next,", ",to,"),
    "word.csv": changed("80%", "high"),
    "blank.csv": changed("80%", ""),
    "minus.csv": changed("80%", "-0.8"),
    "over.csv": changed("80%", "180%"),
    "twice.csv": SHEET + "north,stay,yard,20%,520,60,North\n",
    "nowhere.csv": changed("north,stay,yard", "north,stay,yrad"),
    "sum.csv": changed("north,stay,yard,20%,520,60,North\n", ""),
    "short.csv": SHEET + "north,stay\n",
    "empty.csv": SHEET.split("\n")[0] + "\n",
    "void.csv": "",
    "groups.csv": changed("60,North", "60,South"),
    "latin.csv": SHEET.replace("south", "süd").encode("latin-1"),
    "sheet.xlsx": b"PK",
    "bare": "1",
    "records.csv": "state,action,reward,next\na,x,1,b\nb,x,0,a\n",
    "today.csv": "state,action\nnorth,stay\nsouth,cross\nyard,repair\n",
    "action.csv": "state,action\nnorth,stay\nsouth,crss\nyard,repair\n",
    "state.csv": "state,action\nnorth,stay\nsuoth,cross\nyard,repair\n",
    "less.csv": "state,action\nnorth,stay\nyard,repair\n",
    "half.csv": "state,action,probability\nnorth,stay,50%\nsouth,cross,1\nyard,repair,1\n",
    "no.json": "not json",
    "other.json": "{}",
    "key.toml": 'fairmdp = 1\n[model.a.x]\nrewrd = 1.0\nto = { a = 1.0 }\n',
    "row.toml": 'fairmdp = 1\n[model.a.x]\nreward = 1.0\nto = { a = 0.9 }\n',
    "to.toml": 'fairmdp = 1\n[model.home.x]\nreward = 1.0\nto = { hmoe = 1.0 }\n',
    "nine.toml": 'fairmdp = 9\n[model.a.x]\nreward = 1.0\nto = { a = 1.0 }\n',
    "syntax.toml": "fairmdp = \n",
    "word.drn": "@type: MDP\n@parameters\n\n@nr_states\n1\n@nr_choices\n1\n@model\nstate 0\n\taction 0\n\t\t0 : many\n",
    "head.tra": "1 1 2\n0 0 0 1\n",
    "u.umb": "abc",
    "z.npz": "abc",
    "user.py": MODULE,
    "broken.py": "def f(:\n",
}  # fmt: skip

COMMANDS = [
    # what is meant
    ("slove three-state", 2, "Did you mean 'solve'?"),
    ("solve", 2, "Missing argument 'SOURCE'"),
    ("solve tree-state", 2, "did you mean 'three-state'? ready-made ones are three-state,"),
    ("solve sheat.csv", 1, "sheat.csv: cannot be read: there is no such file; did you mean 'sheet.csv'?"),
    ("solve sheet.xlsx", 1, "save the sheet as CSV (UTF-8)"),
    ("solve bare", 1, "bare: the name has no ending, expected .toml or"),
    ("solve three-state --metod lp", 2, "'--method'"),
    ("solve three-state --method lpp", 1, "there is no method 'lpp'; did you mean 'lp'?"),
    ("solve three-state --device gpu", 2, "'gpu' is not one of 'cpu', 'cuda'"),
    ("solve three-state --tol 0", 1, "tol is 0.0, expected a relative gap between 0 and 1, such as 1e-6"),
    ("solve three-state --seconds soon", 2, "'soon' is not a valid float range"),
    ("solve jobs -p client=3", 2, "did you mean 'clients'?"),
    ("solve jobs -p clients=three", 2, "--param clients: 'three' is not a whole number"),
    ("solve jobs -p clients=-1", 1, "clients is -1, expected a whole number of at least 1"),
    ("new three-stat -o x.toml", 2, "did you mean 'three-state'?"),
    ("new three-state -o x.yml", 1, "the ending '.yml' is not a format of problems, expected .toml or .npz or .tra or .drn\n"),
    ("welfare three-state --by nsh", 1, "there is no principle 'nsh'; did you mean 'nash'?"),
    ("welfare three-state --by alpha=x", 1, "'alpha=x': 'x' are no numbers, expected some with commas between them"),
    # what is to be written
    ("solve three-state -o plan.csv", 2, "--out plan.csv: expected a name that ends in .json"),
    ("solve three-state -o /no/such/x.json", 2, "--out /no/such/x.json: there is no such folder"),
    ("solve three-state --policy plan.txt", 2, "--policy plan.txt: expected a name that ends in .csv or .json"),
    ("solve three-state --figure x.bmp", 2, "--figure x.bmp: expected a name that ends in .png, .pdf or .svg"),
    ("report three-state no.json -o x.pdf", 2, "--out x.pdf: expected a name that ends in .html or .htm"),
    # quotas
    ("solve sheet.csv --reward profit --quota Norht>=20%", 1, "there is no quota or state called 'Norht'; did you mean 'North'?"),
    ("solve sheet.csv --reward profit --quota North>=20", 1, "quota North has at_least 20.0, expected a share between 0 and 1\n  1 of 2 quotas is out of range\n  write 20 % as 0.2"),
    ("solve sheet.csv --reward profit --quota North=20%", 2, "did you mean 'North>=20%'?"),
    ("solve sheet.csv --reward profit --quota 'North =< 20%'", 2, "did you mean 'North<=20%'?"),
    ("solve sheet.csv --reward profit --quota North>=20%,South>=30%", 2, "there are several\n  state each by itself: 'North>=20%', 'South>=30%'"),
    ("solve sheet.csv --reward profit --quota North>=0,2", 2, "'0,2' is not a number; write 0.2"),
    ("solve sheet.csv --reward profit --quota North>=a", 2, "'a' is not a number"),
    ("solve sheet.csv --reward profit --quota North>=0.5 --quota North<=0.3", 1, "quota North asks for at_least 0.5 and at_most 0.3"),
    ("solve sheet.csv --reward profit --quota 'R{\"kms\"}<=5 [LRA]'", 1, "there is no reward called 'kms'; did you mean 'km'?"),
    ("solve sheet.csv --reward profit --quota 'LRA>=0.2 [\"South\" & ]'", 1, "cannot be read at 'the end'"),
    ("solve three-state --rho 0.1,0.1", 2, "--rho has 2 shares, the model has 3 states"),
    ("solve three-state --rho a,b,c", 2, "--rho: 'a' is not a number"),
    ("frontier three-state s9", 1, "there is no quota or state called 's9'; there are s0, s1, s2"),
    ("frontier three-state s2 --values 0,30", 1, "30 is no share, expected values from 0 to 1\n  write 30 % as 0.3"),
    # tables
    ("solve to.csv --reward profit", 1, "to.csv: there is no column 'next'; there are state, action, to,"),
    ("solve to.csv --reward profit -p next=too", 1, "there is no column 'too'; did you mean 'to'?"),
    ("solve to.csv --reward profit -p nxt=to", 2, "did you mean 'next'?"),
    ("solve sheet.csv", 1, "there is no column 'reward'; there are state, action, next, probability, profit, km, group\n  say which column it is: columns={'reward': ...}, or --reward NAME"),
    ("solve sheet.csv --reward proft", 1, "there is no column 'proft'; did you mean 'profit'?"),
    ("solve records.csv", 1, "without probabilities these may be records of what was done: fairmdp learn"),
    ("solve word.csv --reward profit", 1, "word.csv: line 2: probability is 'high', expected a number"),
    ("solve blank.csv --reward profit", 1, "blank.csv: line 2: probability is missing"),
    ("solve minus.csv --reward profit", 1, "line 2: probability is -0.8, expected a number from 0 to 1"),
    ("solve over.csv --reward profit", 1, "line 2: probability is 1.8, expected a number from 0 to 1"),
    ("solve twice.csv --reward profit", 1, "line 10 and line 3 have the same state, action and next state"),
    ("solve nowhere.csv --reward profit", 1, "line 3: it leads to 'yrad', and no row says what happens there\n  1 of 8 rows lead to such states\n  did you mean 'yard'?"),
    ("solve sum.csv --reward profit", 1, "line 2: the probabilities of state north and action stay sum to 0.8, expected 1"),
    ("solve short.csv --reward profit", 1, "line 10 has 2 cells, the first line names 7 columns"),
    ("solve empty.csv --reward profit", 1, "empty.csv: the table has no rows"),
    ("solve void.csv --reward profit", 1, "there is nothing in it, expected a line with the names of the columns"),
    ("solve groups.csv --reward profit", 1, "state north is in group 'North', at line 2 it is in 'South'"),
    ("solve latin.csv --reward profit", 1, "line 4 is not UTF-8 text\n  save the sheet as CSV UTF-8"),
    ("solve sheet.csv --reward profit --groups today.csv", 1, "today.csv: there is no column 'group'; there are state, action"),
    # other files
    ("solve key.toml", 1, "model.a.x.rewrd: there is no such field; did you mean 'reward'?"),
    ("solve row.toml", 1, "P[0] is not a probability row: it sums to 0.9"),
    ("solve to.toml", 1, "model.home.x.to.hmoe: there is no state called \"hmoe\"; did you mean 'home'?"),
    ("solve nine.toml", 1, "fairmdp: this is format 9, expected 1"),
    ("solve syntax.toml", 1, "not valid TOML: Invalid value (at line 1, column 11)"),
    ("solve word.drn", 1, "line 11: 'many' is wrong here, expected a probability, a number"),
    ("solve head.tra", 1, "the first line says 2 lines follow, there are 1"),
    ("solve u.umb", 1, "not a UMB file, which is a tar archive"),
    ("solve z.npz", 1, "not an .npz file, or damaged"),
    ("verify three-state no.json", 1, "no.json: not valid JSON"),
    ("verify three-state other.json", 1, "there is no field fairmdp_solution: this is not a solution file"),
    # policies
    ("audit sheet.csv --reward profit action.csv", 1, "state south has no action called 'crss'; did you mean 'cross'?"),
    ("audit sheet.csv --reward profit state.csv", 1, "there is no state called 'suoth'; did you mean 'south'?"),
    ("audit sheet.csv --reward profit less.csv", 1, "the policy does not say what to do in state south"),
    ("audit sheet.csv --reward profit half.csv", 1, "no distribution over the actions of state north: it sums to 0.5"),
    ("audit sheet.csv --reward profit sheet.csv", 1, "this is a table of transitions or of records, it has a column 'next'"),
    ("audit sheet.csv --reward profit row.toml", 1, "a file .toml holds no policy"),
    ("audit sheet.csv --reward profit", 2, "name the POLICY to judge on sheet.csv, or a table of records as SOURCE"),
    ("compare three-state --policy today", 2, "--policy 'today': expected NAME=FILE"),
    ("simulate three-state today.csv", 1, "there is no state called 'north'; there are s0, s1, s2"),
    ("simulate three-state other.json --steps x", 2, "'x' is not a whole number, such as 20000 or 2e4"),
    # Python and simulators
    ("solve user.py:model", 2, "a module is named without .py: write user:model"),
    ("solve user:", 2, "'user:': expected module:name of something in Python"),
    ("solve usr:model", 2, "cannot import usr: No module named 'usr'"),
    ("solve user:modle", 2, "module user has no modle; did you mean 'model'?"),
    ("solve user:number", 2, "user:number is of the type int, expected a fairmdp.MDP, a fairmdp.Problem, or"),
    ("solve user:crowded", 2, "user:crowded needs n: give it as -p n=..."),
    ("solve user:unlucky", 1, "user:unlucky made nothing, it raised RuntimeError: no luck (user.py, line 9)"),
    ("solve user:leaky", 1, "state 'a', action 'x': the probabilities sum to 0.5, expected 1"),
    ("solve broken:f", 2, "cannot import broken: SyntaxError: invalid syntax (broken.py, line 1)"),
    ("learn three-state", 2, "give a budget, such as --samples 10000 (hundreds per pair), or an accuracy, --eps 0.01"),
    ("learn three-state --samples 1e3x", 2, "'1e3x' is not a whole number, such as 20000 or 2e4"),
    ("learn three-state --samples 1000 --group short", 2, "expected NAME=STATE,STATE,..., such as 'short=0,1,4'"),
    ("learn three-state --samples 1000 --delta 2", 1, "delta is 2.0, expected a probability of failure between 0 and 1"),
    ("learn user:number --samples 1000", 1, "int is not a simulator: it has no n_states"),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mistakes")
    for name, content in FILES.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


@pytest.mark.parametrize(("words", "code", "told"), COMMANDS, ids=[words for words, _, _ in COMMANDS])
def test_a_mistake_on_the_command_line(words, code, told, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend("")
    said = command_output(f"fairmdp {words}  # exit code {code}", capsys, monkeypatch, words)
    assert told in said and "mistake of ours" not in said and "Traceback" not in said


THREE = fm.scenarios.three_state([0.1, 0.1, 0.25])
MDP, MOVES, PAYS = THREE.mdp, [[0.5, 0.5], [1, 0]], [1, 0]
TENSOR, TABLE = np.full((2, 3, 2), 0.5), np.zeros((2, 3))


def rules(step, start="a", actions=("x",)):
    return fm.MDP.from_rules(start, actions, step)


def table(**columns):
    base = {"state": ["a"], "action": ["x"], "next": ["a"], "probability": [1], "reward": [1]}
    return fm.MDP.from_table({name: values for name, values in (base | columns).items() if values})


def quota(**given):
    return fm.Problem(MDP, [fm.Quota("q", **({"at_least": 0.1} | given))])


CALLS = [
    # arrays
    (lambda: fm.MDP([[0.5, 0.4], [1, 0]], PAYS, [0, 1]), "P[0] is not a probability row: it sums to 0.9"),
    (lambda: fm.MDP(MOVES, PAYS, [0, 2]), "s_of[1] is 2, expected a state from 0 to 1"),
    (lambda: fm.MDP(MOVES, PAYS, [1, 0]), "s_of is not sorted: pair 1 belongs to state 0, after state 1"),
    (lambda: fm.MDP(MOVES, [1, 0, 2], [0, 1]), "r has shape (3,), expected (2,)"),
    (lambda: fm.MDP(MOVES, [1, np.nan], [0, 1]), "r[1] is nan, expected a finite number"),
    (lambda: fm.MDP(MOVES, ["x", 0], [0, 1]), "r holds <U21, expected real numbers"),
    (lambda: fm.MDP(MOVES, PAYS, [0, 1], states=["a"]), "states has 1 name, expected 2"),
    (lambda: fm.MDP(MOVES, PAYS, [0, 1], states=["a", "a"]), "two states are called 'a'"),
    (lambda: fm.MDP(TENSOR, TABLE), "for P of shape (S, A, S) use MDP.from_tensor"),
    (lambda: fm.MDP.from_action_tensor(TENSOR, TABLE), "for P of shape (S, A, S) use from_tensor"),
    (lambda: fm.MDP.from_tensor(TENSOR, TABLE.T), "give R.T"),
    # rules
    (lambda: rules(lambda state: 1), "step('a', 'x') raised TypeError"),
    (lambda: rules(lambda state, action: state.taxi), "has no attribute 'taxi' (test_mistakes.py, line "),
    (lambda: rules(lambda state, action: None), "state 'a', action 'x' cannot be read: step returned None"),
    (lambda: rules(lambda state, action: {"a": 1.0}), "has no reward: step returned {'a': 1.0} alone"),
    (lambda: rules(lambda state, action: ({}, 1.0)), "leads nowhere: step returned no outcome"),
    (lambda: rules(lambda state, action: [(1.0, ["b"], 1.0)]), "write a tuple instead of a list"),
    (lambda: rules(lambda state, action: ({"a": 1}, 1.0), actions=()), "state 'a' has no action"),
    (lambda: rules(lambda state, action: ({"a": 1}, 1.0), actions="stay"), "actions is 'stay', expected a function of a state, or a list"),
    (lambda: rules(lambda state, action: ({"a": 1}, 1.0), start={}), "start is empty, expected a state to begin with"),
    # tables
    (lambda: table(probability=None, prob=[1]), "there is no column 'probability'; did you mean 'prob'?"),
    (lambda: table(probability=[0.5]), "the probabilities of state a and action x sum to 0.5"),
    (lambda: table(state=["a", "b"]), "the columns have different lengths: {'state': 2,"),
    (lambda: fm.MDP.from_table([[1, 2]]), "a list is not a table"),
    # quotas
    (lambda: quota(states=["S1"]), "there is no state called 'S1'; did you mean 's1'?"),
    (lambda: quota(states="s1"), "quota q: states is 's1', expected a list"),
    (lambda: quota(states=[]), "quota q: there are no states in it"),
    (lambda: quota(), "quota q: give one of states, pairs, where, weights and reward"),
    (lambda: quota(states=["s1"], at_least=None), "quota q: give at_least, at_most or both"),
    (lambda: quota(states=["s1"], at_least="25%"), "at_least is '25%', expected a number\n  write 25 % as 0.25"),
    (lambda: quota(states=["s1"], at_least=25), "write 25 % as 0.25"),
    (lambda: quota(pairs=[("s1", "a7")]), "state s1 has no action called 'a7'; there are a0, a1"),
    (lambda: quota(where=lambda state: False), "quota q: where holds for no state"),
    (lambda: quota(reward="energy"), "there is no reward called 'energy'"),
    (lambda: fm.Problem(MDP, {"s1": 0.2}), "quotas is a dict, expected a list of fairmdp.Quota\n  write Quota(name"),
    (lambda: fm.Problem(MDP, rho=[0.1]), "rho has shape (1,), expected (3,)"),
    (lambda: fm.parse_quotas(THREE, "s1>=0.2"), "quotas is the single text 's1>=0.2', expected a list"),
    (lambda: fm.parse_quota(THREE, "s1>0.2"), "did you mean 's1>=0.2'?"),
    # calls
    (lambda: fm.solve(MDP), "solve takes a Problem, not MDP\n  make one: Problem(mdp, quotas)"),
    (lambda: fm.solve("three-state"), "read a file with fairmdp.load; ready-made problems are functions of"),
    (lambda: fm.solve(THREE, method="simplex"), "there is no method 'simplex'; there are auto, lp,"),
    (lambda: fm.solve(THREE, device="gpu"), "there is no device 'gpu'; there are cpu and cuda"),
    (lambda: fm.verify(THREE, None), "solution is NoneType, expected Solution"),
    (lambda: fm.learn(THREE, [], samples=1000), "Problem is not a simulator: it has no n_states\n  its model makes one: problem.mdp.simulator()"),
    (lambda: fm.load("three"), "three: the name has no ending"),
    (lambda: fm.frontier_grid(THREE, "s1", "s1"), "a grid takes two different quotas by name"),
    # policies
    (lambda: fm.Policy.of(THREE, [1, 0]), "expected (6,), one number for each state-action pair"),
    (lambda: fm.Policy.of(THREE, {"s0": "a0"}), "the policy does not say what to do in state s1\n  2 of 3 states are missing"),
    (lambda: fm.Policy.of(THREE, lambda state: None), "the policy, asked for state s0, returned None"),
    (lambda: fm.Policy.of(THREE, {"s0": "a0", "s1": "a0", "s2": "a0"}).act("s1", 0), "rng is 0, expected a generator"),
    (lambda: fm.Policy.load("plan.txt"), "plan.txt: cannot be read: there is no such file"),
    (lambda: fm.certify(MDP.simulator(), [1, 0], [], samples=1000), "policy has shape (2,), expected (6,)"),
    # simulators
    (lambda: fm.learn(SimpleNamespace(n_states=1, n_actions=[1]), [], samples=1000), "SimpleNamespace is not a simulator: it has no sample"),
    # the page, whose quotas come as rows
    (lambda: edited(THREE, (Row("s1", was="S1", at_least=0.2),)), "there is no quota called 'S1'; did you mean 's1'?"),
    (lambda: edited(THREE, (Row("new", states=(), at_least=0.2),)), "quota new: there are no states in it"),
    (lambda: edited(THREE, (Row("new", states=(7,), at_least=0.2),)), "quota new: there is no state 7, expected 0 to 2"),
    (lambda: edited(THREE, (Row("", states=(1,), at_least=0.2),)), "quota has the name '', expected printable text"),
    (lambda: edited(THREE, (Row("a", states=(1,), at_least=0.2), Row("a", states=(2,)))), "two quotas are called 'a'"),
    (lambda: edited(THREE, (Row("a", states=(1,), at_least=40.0),)), "write 40 % as 0.4"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "told"), CALLS, ids=[told[:60] for _, told in CALLS])
def test_a_mistake_in_python(call, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(fm.FairMDPError, match=re.escape(told)):
        call()


def test_what_looks_like_a_mistake_and_is_none(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    for bound in ("North>=20%", "North >= 20 %", "North≥0.2", "LRA>=0.2 [North]"):
        said = command_output(
            f"fairmdp solve sheet.csv --reward profit --quota '{bound}'", capsys, monkeypatch, bound
        )
        assert ">= 0.2" in said
