"""Files: what is written comes back, and what is wrong with a file is said in its terms."""

import json
import os
import stat
import subprocess
import sys
import zipfile
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from fairmdp import MDP, FairMDPError, FormatError, Problem, ProblemError, Quota, Solution, scenarios, solve
from fairmdp import files as atomic
from fairmdp.deadline import Stop
from fairmdp.io import load, npz_problem, save, toml_problem
from fairmdp.solution import file as json_solution
from fairmdp.solution.solution import Check, Note, Remark

CLINIC = """\
fairmdp = 1
states = ["s0", "s1", "s2"]
initial = { s0 = 1.0 }

[model.s0.a0]
reward = 1.0
to = { s1 = 0.9, s2 = 0.1 }
[model.s0.a1]
reward = 0.1
to = { s2 = 0.9, s1 = 0.1 }
[model.s1.a0]
reward = 0
to = { s2 = 1 }
[model.s2.a0]
reward = 0.5
to = { s0 = 0.5, s1 = 0.5 }

[[quotas]]
name = "s2"
states = ["s2"]
at_least = 0.25
[[quotas]]
name = "first choice"
pairs = [["s0", "a0"]]
at_most = 0.5
"""


def ragged(**names):
    P = [[0.25, 0.75, 0], [0, 1 / 3, 2 / 3], [1, 0, 0], [0.1, 0.2, 0.7]]
    return MDP(P, [1 / 3, -0.0, 1e-300, 1e22], [0, 1, 1, 2], **names)


def odd_names():
    states = ['a.b "c"', "Zürich\\Nord", "日本 = {x}"]
    mdp = ragged(states=states, actions=["#1", "'", '"""', "[s]"], initial=[0, 1 / 3, 2 / 3])
    return Problem(
        mdp,
        [
            Quota('"ü".x', states=[states[0], states[2]], at_least=0.1, at_most=0.9),
            Quota("cap", pairs=[(states[1], "'"), 3], at_most=1 / 3),
            Quota("free", states=[1], at_least=0.0),
        ],
    )


NAMED = {
    "three_state": scenarios.three_state,
    "odd_names": odd_names,
    "no_quotas": lambda: Problem(ragged(states=list("xyz"), actions=list("abcd"))),
}
NAMELESS = {
    "garnet": lambda: scenarios.garnet(n_states=30, n_actions=4, seed=1),
    "ragged": lambda: Problem(ragged(), [Quota("q", pairs=[0, 3], at_most=0.7)], rho=[0.1, 0, 0.2]),
    "alpha_chain": scenarios.alpha_chain,
    "initial": lambda: Problem(ragged(initial=[0.2, 0.3, 0.5])),
    "expected": lambda: Problem(
        ragged(initial="1"), [Quota("q", [2], at_most=0.8, expected=True)], rho=[0, 0.1, 0]
    ),
}


def same_numbers(a, b):
    assert np.array_equal(a.mdp.P.toarray(), b.mdp.P.toarray())
    assert a.mdp.r.tobytes() == b.mdp.r.tobytes() and np.array_equal(a.mdp.s_of, b.mdp.s_of)
    assert (a.mdp.initial is None) == (b.mdp.initial is None)
    assert a.mdp.initial is None or np.array_equal(a.mdp.initial, b.mdp.initial)
    assert a.names == b.names and np.array_equal(a.members.toarray(), b.members.toarray())
    assert np.array_equal(a.at_least, b.at_least) and np.array_equal(a.at_most, b.at_most)
    assert np.array_equal(a.over_states, b.over_states) and np.array_equal(a.expected, b.expected)


def same_solution(a, b):
    for field in fields(a):
        x, y = getattr(a, field.name), getattr(b, field.name)
        if field.name == "infeasibility" and x is not None:
            for part in fields(x):
                assert np.array_equal(getattr(x, part.name), getattr(y, part.name)), part.name
        elif isinstance(x, np.ndarray | float):
            assert np.array_equal(x, y, equal_nan=True), field.name
        else:
            assert x == y, field.name


# Round trips


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("ending", [".toml", ".npz", ".NPZ"])
def test_named_problems_come_back_the_same(tmp_path, name, ending):
    problem = NAMED[name]()
    save(problem, tmp_path / f"p{ending}")
    assert load(tmp_path / f"p{ending}").digest == problem.digest


def test_a_start_may_be_one_state_by_name(tmp_path):
    here = load(text_file(tmp_path, CLINIC.replace("{ s0 = 1.0 }", '"s1"')))
    assert here.mdp.initial.tolist() == [0, 1, 0]
    assert here.mdp.with_initial("s0").initial.tolist() == [1, 0, 0]
    save(here, tmp_path / "again.toml")
    assert 'initial = "s1"\n' in (tmp_path / "again.toml").read_text()


def test_what_mean_over_runs_is_kept_and_is_another_problem(tmp_path):
    plain = load(text_file(tmp_path, CLINIC))
    mean = load(text_file(tmp_path, CLINIC.replace("at_most = 0.5", "at_most = 0.5\nexpected = true")))
    assert plain.expected.tolist() == [False, False] and mean.expected.tolist() == [False, True]
    assert plain.digest != mean.digest == mean.with_bounds(mean.at_least).digest
    assert mean.with_quotas([]).expected.tolist() == mean.uniform.expected.tolist() == [False, True]
    assert [q.expected for q in mean.quotas] == [False, True]


@pytest.mark.parametrize("name", NAMELESS)
def test_npz_needs_no_names(tmp_path, name):
    problem = NAMELESS[name]()
    save(problem, tmp_path / "p.npz")
    assert load(tmp_path / "p.npz").digest == problem.digest


@pytest.mark.parametrize("name", NAMELESS)
def test_toml_gives_names(tmp_path, name):
    problem = NAMELESS[name]()
    save(problem, tmp_path / "p.toml")
    again = load(tmp_path / "p.toml")
    same_numbers(problem, again)
    assert [again.mdp.pair_name(i) for i in range(again.mdp.n_pairs)] == [
        problem.mdp.pair_name(i) for i in range(problem.mdp.n_pairs)
    ]


def test_compressed_npz_is_read(tmp_path):
    problem = odd_names()
    save(problem, tmp_path / "p.npz")
    with np.load(tmp_path / "p.npz", allow_pickle=False) as arrays:
        np.savez_compressed(tmp_path / "q.npz", **arrays)
    assert load(tmp_path / "q.npz").digest == problem.digest


def test_npz_has_the_same_bytes_every_time(tmp_path):
    for name in "ab":
        save(odd_names(), tmp_path / f"{name}.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_a_million_transitions_load_fast(tmp_path):
    n = 10**5
    columns = (np.arange(n)[:, None] + np.arange(10)).ravel() % n
    P = csr_array((np.full(10 * n, 0.1), columns, np.arange(0, 10 * n + 1, 10)), shape=(n, n))
    problem = Problem(MDP(P, np.zeros(n), np.arange(n)))
    save(problem, tmp_path / "p.npz")
    start = os.times().user
    assert load(tmp_path / "p.npz").digest == problem.digest
    assert os.times().user - start < 2


def test_hand_written_toml(tmp_path):
    problem = load(text_file(tmp_path, CLINIC))
    assert problem.mdp.states == ("s0", "s1", "s2")
    assert problem.mdp.actions == ("a0", "a1", "a0", "a0")
    assert problem.mdp.r.tolist() == [1, 0.1, 0, 0.5]
    assert problem.mdp.P.toarray().tolist()[1] == [0, 0.1, 0.9]
    assert problem.mdp.initial.tolist() == [1, 0, 0]
    assert problem.names == ("s2", "first choice")
    assert problem.members.toarray().tolist() == [[0, 0, 0, 1], [1, 0, 0, 0]]
    assert problem.at_least.tolist() == [0.25, 0] and problem.at_most.tolist() == [1, 0.5]


def test_toml_order_of_states(tmp_path):
    listed = CLINIC.replace('["s0", "s1", "s2"]', '["s2", "s0", "s1"]')
    assert load(text_file(tmp_path, listed)).mdp.states == ("s2", "s0", "s1")
    free = CLINIC.replace('states = ["s0", "s1", "s2"]\n', "")
    assert load(text_file(tmp_path, free)).mdp.states == ("s0", "s1", "s2")


def test_toml_from_windows(tmp_path):
    path = tmp_path / "p.toml"
    path.write_bytes(b"\xef\xbb\xbf" + CLINIC.replace("\n", "\r\n").encode())
    assert load(path).digest == load(text_file(tmp_path, CLINIC)).digest


def test_written_toml_has_the_documented_layout(tmp_path):
    save(load(text_file(tmp_path, CLINIC)), tmp_path / "q.toml")
    text = (tmp_path / "q.toml").read_text()
    assert "\n[model.s0.a0]\nreward = 1.0\nto = { s1 = 0.9, s2 = 0.1 }\n" in text
    assert '\n[[quotas]]\nname = "first choice"\npairs = [["s0", "a0"]]\nat_most = 0.5\n' in text


@pytest.mark.parametrize("rho_2", [0.25, 0.6], ids=["optimal", "infeasible"])
def test_solutions_come_back_the_same(tmp_path, rho_2):
    solution = solve(scenarios.three_state([0.1, 0.1, rho_2]))
    solution = replace(
        solution, provenance={"a": ["ü\nsecond line", {"b": None}]}, tried=("dual", "lp"), reason="few",
        stopped=Stop.OUT_OF_TIME, check=Check.BOTH, device="cuda",
        notes=(Note(Remark.CONNECTED, 1e-4), Note(Remark.AT_THE_EDGE)),
    )  # fmt: skip
    solution.save(tmp_path / "s.json")
    same_solution(solution, Solution.load(tmp_path / "s.json"))


@pytest.mark.parametrize(
    "sentence, name",
    [
        ("lp: HiGHS simplex over all state-action pairs", "lp"),
        ("dual, which stalled, then colgen: column generation; chosen because: so", "colgen"),
        ("max-min: lp: HiGHS simplex over all state-action pairs", "max-min"),
        ("a solver of one's own", "own"),
        ("", ""),
    ],
)
def test_solutions_of_version_0_1_are_read(tmp_path, sentence, name):
    """There the method was a sentence, notes were sentences, and no field said how the search had ended."""
    solution = solve(scenarios.three_state())
    raw = json_solution.solution_to_dict(solution)
    for field in ("tried", "reason", "stopped", "check", "device"):
        del raw[field]
    raw.update(fairmdp_solution=1, method=sentence, notes=["out of time: this is the best"])
    again = read_solution(tmp_path, raw)
    same_solution(replace(solution, method=name), again)
    assert (again.notes, again.stopped, again.check) == ((), Stop.NOT, Check.CPU)


def test_solution_json_is_strict(tmp_path):
    solution = replace(solve(scenarios.three_state()), upper=np.inf, counters={"x": np.nan, "n": np.int64(3)})
    solution.save(tmp_path / "s.json")
    raw = json.loads((tmp_path / "s.json").read_text(), parse_constant=pytest.fail)
    assert raw == json.loads(json.dumps(json_solution.solution_to_dict(solution), allow_nan=False))
    assert raw["upper"] is None and raw["counters"] == {"x": None, "n": 3} and raw["gap"] is None
    assert raw["quotas"][2]["name"] == "s2" and raw["quotas"][2]["at_least"] == 0.25
    again = Solution.load(tmp_path / "s.json")
    assert np.isnan(again.upper) and np.isnan(again.counters["x"])


def test_derived_fields_may_be_missing_but_not_wrong(tmp_path):
    raw = solution_dict()
    worst = raw["worst_slack"]
    for name, wrong in (("worst_slack", 99), ("gap", "none"), ("quotas", [])):
        with pytest.raises(FormatError, match=f"{name}: this is not what follows from the file's other"):
            read_solution(tmp_path, raw | {name: wrong})
        del raw[name]
        assert read_solution(tmp_path, raw).worst_slack == worst


def test_importing_io_is_cheap():
    code = "import sys, fairmdp.io; print({'pydantic', 'tomllib', 'tomli_w'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "set()\n"


# Messages about TOML


def text_file(tmp_path, text):
    path = tmp_path / "clinic.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("old, new, message", [
    ("reward = 1.0", 'reward = "one"', 'model.s0.a0.reward: expected a number, got "one"'),
    ("reward = 1.0", "reward = true", "model.s0.a0.reward: expected a number, got true"),
    ("reward = 1.0", "reward = 1979-05-27", "model.s0.a0.reward: expected a number, got 1979-05-27"),
    ("reward = 1.0", f"reward = 1{'0' * 400}", "model.s0.a0.reward: expected a number, got 1000"),
    ("reward = 1.0\n", "", "model.s0.a0.reward: this field is missing"),
    ("reward = 1.0", "rewards = 1.0\nreward = 1.0", "model.s0.a0.rewards: expected a table, got 1.0"),
    ("s1 = 0.9, s2", "s1 = false, s2", "model.s0.a0.to.s1: expected a number, got false"),
    ("s1 = 0.9, s2", "s1 = 0.9, s9",
     'model.s0.a0.to.s9: there is no state called "s9"; there are s0, s1, s2'),
    ("s1 = 0.9, s2", 's1 = 0.9, "s 9"', 'model.s0.a0.to."s 9": there is no state called "s 9"'),
    ("to = { s1 = 0.9, s2 = 0.1 }", "to = [1]", "model.s0.a0.to: expected a table, got a list"),
    ("[model.s0.a0]\nreward = 1.0\nto = { s1 = 0.9, s2 = 0.1 }", "[model]\ns0.a0 = 3",
     "model.s0.a0: expected a table, got 3"),
    ("{ s0 = 1.0 }", "{ s8 = 1.0 }", 'initial.s8: there is no state called "s8"'),
    ("{ s0 = 1.0 }", '{ "\\u001b[31m" = 1.0 }',
     r'initial."\u001b[31m": there is no state called "\u001b[31m"'),
    ("{ s0 = 1.0 }", '{ "\\u009b" = 1.0 }', r'initial."\u009B": there is no state called "\u009B"'),
    ("{ s0 = 1.0 }", '"s8"', 'initial: there is no state called "s8"'),
    ("{ s0 = 1.0 }", "3", "initial: expected a state or a table of probabilities, got 3"),
    ("{ s0 = 1.0 }", '{ s0 = "1" }', 'initial.s0: expected a number, got "1"'),
    ("at_least = 0.25", "at_least = 0.25\nexpected = 1", "quotas[0].expected: expected true or false, got 1"),
    ('["s0", "s1", "s2"]', '["s0", "s1", "s3"]', "states[2]: there is no table [model.s3.<action>]"),
    ('["s0", "s1", "s2"]', '["s0", "s1", "s1"]', 'states[2]: "s1" is listed twice'),
    ('["s0", "s1", "s2"]', '["s0", "s1"]', "model.s2: this state is not listed in states"),
    ('["s0", "s1", "s2"]', '"s0"', 'states: expected a list, got "s0"'),
    ('["s0", "s1", "s2"]', '["s0", 1, "s2"]', "states[1]: expected text, got 1"),
    ('states = ["s2"]', 'states = ["s7"]', 'quotas[0].states[0]: there is no state called "s7"'),
    ('[["s0", "a0"]]', '[["s6", "a0"]]', 'quotas[1].pairs[0]: there is no state called "s6"'),
    ('[["s0", "a0"]]', '[["s0", "a9"]]',
     'quotas[1].pairs[0]: state "s0" has no action called "a9"; there are a0, a1'),
    ('[["s0", "a0"]]', '[["s0"]]', "quotas[1].pairs[0]: expected [state, action], got a list"),
    ('[["s0", "a0"]]', '[["s0", "a0", "a1"]]', "quotas[1].pairs[0]: expected [state, action], got a list"),
    ("at_least = 0.25", 'at_least = "a lot"', 'quotas[0].at_least: expected a number, got "a lot"'),
    ("at_least = 0.25", 'at_leats = 0.25', "quotas[0].at_leats: there is no such field"),
    ('name = "s2"\n', "", "quotas[0].name: this field is missing"),
    ("fairmdp = 1\n", "", "fairmdp: this field is missing; a problem file begins with fairmdp = 1"),
    ("fairmdp = 1", "fairmdp = 2", "fairmdp: this is format 2, expected 1"),
    ("fairmdp = 1", "fairmdp = true", "fairmdp: this is format true, expected 1"),
    ("fairmdp = 1", "fairmdp = 1\ncolour = 3", "colour: there is no such field"),
    ("reward = 1.0", "reward = ", "not valid TOML: Invalid value (at line 6, column 10)"),
    ("reward = 1.0", "reward = 1.0\nreward = 2.0",
     "not valid TOML: Cannot overwrite a value (at line 7, column 13)"),
    ("[model.s1.a0]", "[model.s3]\n[model.s1.a0]", "model.s3: this state has no action"),
])  # fmt: skip
def test_toml_form(tmp_path, old, new, message):
    path = text_file(tmp_path, CLINIC.replace(old, new, 1))
    with pytest.raises(FormatError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: {message}")


@pytest.mark.parametrize("old, new, message", [
    ("s1 = 0.9, s2 = 0.1", "s1 = 0.9", "P[0] is not a probability row: it sums to 0.9, expected 1"),
    ("reward = 1.0", "reward = inf", "r[0] is inf, expected a finite number"),
    ("at_least = 0.25", "at_least = 25", "quota s2 has at_least 25"),
    ("at_least = 0.25", "at_least = nan", "quota s2 has at_least nan"),
    ("at_least = 0.25", "", "quota s2: give at_least, at_most or both"),
    ('states = ["s2"]', "", "quota s2: give one of states, pairs"),
    ('states = ["s2"]', "states = []", "quota s2: there are no states in it"),
    ("{ s0 = 1.0 }", "{ s0 = 0.5 }", "initial sums to 0.5, expected 1"),
    ('"first choice"', '"s2"', "two quotas are called 's2'"),
    ("[model.s0.a1]", '[model.s0." a1"]', "actions has the name ' a1', expected printable text"),
])  # fmt: skip
def test_toml_content(tmp_path, old, new, message):
    path = text_file(tmp_path, CLINIC.replace(old, new, 1))
    with pytest.raises(ProblemError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: {message}")


def test_toml_counts_further_errors(tmp_path):
    path = text_file(tmp_path, CLINIC.replace("reward =", "reword ="))
    with pytest.raises(
        FormatError,
        match=r"reword: there is no such field; did you mean 'reward'\?\n  7 more of the fields are wrong$",
    ):
        load(path)


@pytest.mark.parametrize("data, message", [
    (b"fairmdp = 1\n# \xff", "line 2 is not UTF-8 text"),
    (b"fairmdp = 1\nx = " + b"[" * 100_000, "it is nested too deeply"),
    (b"fairmdp = 1\nx = " + b"1" * 5000, "not valid TOML: Exceeds the limit"),
    (b"", "fairmdp: this field is missing"),
    (b"fairmdp = 1", "model: this field is missing"),
    (b"fairmdp = 1\nmodel = {}", "model: there are no states in it"),
])  # fmt: skip
def test_toml_bytes(tmp_path, data, message):
    path = tmp_path / "p.toml"
    path.write_bytes(data)
    with pytest.raises(FormatError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: {message}")


def test_toml_is_not_for_large_models(tmp_path):
    with pytest.raises(FormatError, match=r"the model has 12 transitions, .* up to 11\n  save it as .npz"):
        toml_problem.write(scenarios.three_state(), tmp_path / "p.toml", max_transitions=11)
    with pytest.raises(FormatError, match=r"p.toml: the model has 59,9\d\d transitions, .* up to 20,000\n"):
        save(scenarios.garnet(2000, 5, 5), tmp_path / "p.toml")
    assert list(tmp_path.iterdir()) == []


def test_toml_size_limit(tmp_path):
    with pytest.raises(FormatError, match=r"clinic.toml: the file has \d+ bytes, the limit is 10"):
        toml_problem.read(text_file(tmp_path, CLINIC), max_bytes=10)


# Messages about paths


def test_unknown_ending(tmp_path):
    for action in (load, lambda path: save(scenarios.three_state(), path)):
        with pytest.raises(
            FormatError, match=r"p.yaml: the ending '.yaml' is not a format .*\.toml or \.npz"
        ):
            action(tmp_path / "p.yaml")
        with pytest.raises(FormatError, match="the name has no ending, expected"):
            action(str(tmp_path / "p"))


@pytest.mark.parametrize("ending", [".toml", ".npz"])
def test_paths_that_cannot_be_read(tmp_path, ending):
    (tmp_path / f"folder{ending}").mkdir()
    os.mkfifo(tmp_path / f"pipe{ending}")
    for name, message in (
        ("no", "cannot be read: there is no such file"),
        ("folder", "this is a folder, expected a file"),
        ("pipe", "this is a device or a pipe"),
        ("a\0b", "this is not a path: embedded null"),
    ):
        with pytest.raises(FormatError, match=message):
            load(tmp_path / f"{name}{ending}")


def test_reading_without_permission(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    path = text_file(tmp_path, CLINIC)
    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(FormatError, match=r"clinic.toml: cannot be read: Permission denied"):
        load(path)


def test_save_takes_a_problem(tmp_path):
    with pytest.raises(ProblemError, match=r"problem is a MDP, expected a fairmdp.Problem"):
        save(ragged(), tmp_path / "p.toml")


# Messages about npz


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


@pytest.fixture(scope="module")
def arrays(folder):
    save(odd_names(), folder / "good.npz")
    with np.load(folder / "good.npz", allow_pickle=False) as npz:
        return dict(npz)


def refusal(path, arrays, **changes):
    """Message about a file with some arrays changed, or removed where they are None."""
    changed = {name: array for name, array in {**arrays, **changes}.items() if array is not None}
    np.savez(path, **changed)
    with pytest.raises(FairMDPError) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


def entry(arrays, name, at, value):
    array = arrays[name].copy()
    array[at] = value
    return {name: array}


def test_npz_form(tmp_path, arrays):
    def said(**changes):
        return refusal(tmp_path / "p.npz", arrays, **changes)

    big = 2**62
    assert said(fairmdp=None) == "there is no member 'fairmdp': this is not a problem file"
    assert said(fairmdp=np.array([2])) == "this is format 2, expected 1"
    assert said(fairmdp=np.array([1, 1])) == "fairmdp has 2 entries, expected 1"
    assert said(r=None) == "the member 'r' is missing"
    assert said(extra=np.zeros(3)) == "the member 'extra' is unknown"
    assert said(r=arrays["r"].astype("f4")) == "r holds <f4, expected <f8"
    assert said(r=arrays["r"].astype(">f8")) == "r holds >f8, expected <f8"
    assert said(s_of=arrays["s_of"].astype(float)) == "s_of holds <f8, expected <i4 or <i8"
    assert said(r=arrays["r"][:, None]) == "r is not a vector in npy format"
    assert said(r=np.array([{}] * 4)) == "r holds |O, expected <f8"
    assert said(quota_names=np.array(["a"])) == "quota_names holds <U1, expected |u1"
    assert said(r=np.zeros(7)) == "r has 7 entries, expected 4 by P_indptr"
    assert said(P_data=np.zeros(2)) == "P_data has 2 entries, expected 8 by P_indices"
    assert said(at_most=np.zeros(9)) == "at_most has 9 entries, expected 3 by quota_indptr"
    assert said(**entry(arrays, "P_indptr", 0, 1)) == "P_indptr does not rise from 0 to 8"
    assert said(**entry(arrays, "P_indptr", -1, 6)) == "P_indptr does not rise from 0 to 8"
    assert said(P_indptr=np.array([0, big, -big, 5, 8])) == "P_indptr does not rise from 0 to 8"
    assert said(**entry(arrays, "quota_indptr", 1, 99)) == "quota_indptr does not rise from 0 to 6"
    assert said(**entry(arrays, "quota_indices", 0, -1)).endswith("counts pair -1, which does not exist")
    assert said(**entry(arrays, "quota_indices", 0, 1)).endswith("counts only some actions of one")
    assert said(**entry(arrays, "quota_indices", 0, 3)).endswith("not sorted, or not distinct")
    assert said(s_of=np.array([0, 1, 1, big])) == f"s_of names state {big}, but there are only 4 pairs"
    assert said(state_names=np.array([255], "u1")) == "state_names is not UTF-8 text"
    assert said(action_names=arrays["state_names"]) == "action_names has 3 names, expected 4: one per pair"
    assert said(quota_names=arrays["action_names"]) == "quota_names has 4 names, expected 3"


def test_npz_content(tmp_path, arrays):
    def said(**changes):
        return refusal(tmp_path / "p.npz", arrays, **changes)

    assert said(**entry(arrays, "P_data", 0, 0.5)).startswith(
        "P[0] is not a probability row: it sums to 1.25"
    )
    assert said(**entry(arrays, "P_indices", 0, 9)).startswith("P moves to state 9, expected 0 to 2")
    assert said(**entry(arrays, "r", 0, np.nan)).startswith("r[0] is nan, expected a finite number")
    assert said(**entry(arrays, "s_of", 0, -1)).startswith("s_of[0] is -1, expected a state from 0 to 2")
    assert said(**entry(arrays, "at_least", 0, 2)).startswith('quota "ü".x has at_least 2')
    assert said(state_names=np.frombuffer(b"a\n\x1b\nc", "u1")).startswith(r"states has the name '\x1b'")
    assert said(initial=np.ones(2) / 2) == "initial has shape (2,), expected (3,)"
    empty = {name: arrays[name][:0] for name in ("r", "s_of", "P_indices", "P_data")}
    assert said(**empty, P_indptr=np.array([0]), action_names=None).startswith("P has shape (0, 0)")


def rezip(path, source, name, data=None, **info):
    """Copy a zip with one entry's content or central record changed."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w") as new:
        for item in old.infolist():
            new.writestr(
                item.filename, data if item.filename == name and data is not None else old.read(item)
            )
        for item in new.infolist():
            if item.filename == name:
                for key, value in info.items():
                    setattr(item, key, value)
    return path


def npy(descr="'<f8'", shape="(4,)", data=bytes(32), fortran="False"):
    header = f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


@pytest.mark.parametrize("data, message", [
    (npy(shape="(999999999999999999,)"),
     "r claims 999,999,999,999,999,999 entries of <f8, but holds 32 bytes"),
    (npy(shape="(5,)"), "r claims 5 entries of <f8, but holds 32 bytes"),
    (npy(data=bytes(33)), "r claims 4 entries of <f8, but holds 33 bytes"),
    (npy(shape="(-4,)"), "r is not a vector in npy format"),
    (npy(shape="()", data=bytes(8)), "r is not a vector in npy format"),
    (npy(shape="(4L,)"), "r is not a vector in npy format"),
    (npy(descr="'|O'"), "r holds |O, expected <f8"),
    (npy(descr="[('a', '<f8')]"), "r is not a vector in npy format"),
    (npy(descr="(" * 300), "r is not a vector in npy format"),
    (npy(fortran="True"), "r is not a vector in npy format"),
    (b"\x93NUMPY\x03" + npy()[7:], "r is not a vector in npy format"),
    (b"", "not an .npz file, or damaged: unpack requires a buffer of 10 bytes"),
    (b"\x80\x04pickle......", "r is not a vector in npy format"),
])  # fmt: skip
def test_npz_headers(folder, arrays, data, message):
    path = rezip(folder / "p.npz", folder / "good.npz", "r.npy", data)
    with pytest.raises(FormatError) as caught:
        load(path)
    assert str(caught.value) == f"{path}: {message}"


def test_npz_zip_bombs(folder, arrays):
    path = rezip(folder / "p.npz", folder / "good.npz", "r.npy", file_size=2**45)
    with pytest.raises(
        FormatError, match="the member 'r' cannot hold the 35,184,372,088,832 bytes it claims"
    ):
        load(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("fairmdp.npy", bytes(10**7))
    with pytest.raises(FormatError, match="the arrays take 10,000,000 bytes, the limit is 1,000,000"):
        npz_problem.read(path, max_bytes=10**6)


def test_npz_limit_is_below_the_memory(folder, arrays, monkeypatch):
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 1, "SC_PAGE_SIZE": 4096}.__getitem__)
    with pytest.raises(FormatError, match=r"the arrays take [2-9],\d\d\d bytes, the limit is 2,048$"):
        load(folder / "good.npz")
    monkeypatch.delattr(os, "sysconf")
    assert load(folder / "good.npz").digest == odd_names().digest


def test_npz_zip_oddities(folder, arrays):
    path = folder / "p.npz"
    good = (folder / "good.npz").read_bytes()
    path.write_bytes(b"not a zip")
    with pytest.raises(FormatError, match=r"p.npz: not an .npz file, or damaged: File is not a zip file"):
        load(path)
    at = good.index(arrays["r"].tobytes())
    path.write_bytes(good[:at] + b"\xff" + good[at + 1 :])
    with pytest.raises(FormatError, match=r"damaged: Bad CRC-32 for file 'r.npy'"):
        load(path)
    with pytest.raises(FormatError, match=r"the member 'r' is compressed in a way that .npz does not use"):
        load(rezip(path, folder / "good.npz", "r.npy", compress_type=zipfile.ZIP_LZMA))
    with pytest.raises(FormatError, match=r"damaged: File .*'r.npy'.* is encrypted"):
        load(rezip(path, folder / "good.npz", "r.npy", flag_bits=1))
    with zipfile.ZipFile(rezip(path, folder / "good.npz", ""), "a") as archive:
        archive.writestr("r", npy())
    with pytest.raises(FormatError, match="the member 'r' is there twice"):
        load(path)


# Messages about solutions


def solution_dict(rho_2=0.25):
    return json_solution.solution_to_dict(solve(scenarios.three_state([0.1, 0.1, rho_2])))


def read_solution(tmp_path, raw):
    path = tmp_path / "s.json"
    path.write_text(raw if isinstance(raw, str) else json.dumps(raw))
    return Solution.load(path)


@pytest.mark.parametrize("field, value, message", [
    ("fairmdp_solution", 3, "fairmdp_solution: this is format 3, expected 2"),
    ("fairmdp_solution", True, "fairmdp_solution: this is format true, expected 2"),
    ("colour", 1, "colour: there is no such field"),
    ("status", "great", 'status: expected optimal, feasible, infeasible, undecided, got "great"'),
    ("status", [], "status: expected optimal, feasible, infeasible, undecided, got a list"),
    ("gain", "1", 'gain: expected a number, got "1"'),
    ("gain", True, "gain: expected a number, got true"),
    ("gain", 10**400, "gain: the number is too large"),
    ("tol", [1], "tol: expected a number, got a list"),
    ("policy", {}, "policy: expected a list of numbers, got an object"),
    ("policy", [1, "2"], 'policy[1]: expected a number, got "2"'),
    ("policy", [1, [2]], "policy[1]: expected a number, got a list"),
    ("policy", [1, False], "policy[1]: expected a number, got false"),
    ("policy", [1.0], "occupancy: expected 1 numbers, got 6"),
    ("bias", [1.0], "bias: expected 3 numbers, got 1"),
    ("shares", [1.0], "shares: expected 3 numbers, got 1"),
    ("prices", [], "prices: expected 3 numbers, got 0"),
    ("at_least", [0, None, 0], "at_least[1]: expected a number, got null"),
    ("at_most", [1, 1, None], "at_most[2]: expected a number, got null"),
    ("quota_names", ["a", 1, "b"], "quota_names[1]: expected text, got 1"),
    ("quota_names", "abc", 'quota_names: expected a list, got "abc"'),
    ("method", None, "method: expected text, got null"),
    ("method", "\x1b[31m", r'method: expected printable text, got "\u001b[31m"'),
    ("tried", ["\ud800"], r'tried[0]: expected printable text, got "\ud800"'),
    ("tried", [1], "tried[0]: expected text, got 1"),
    ("stopped", "late", 'stopped: expected interrupted, out of time, out of steps, got "late"'),
    ("check", None, "check: expected cpu, cuda, cuda, then cpu, got null"),
    ("notes", [1], "notes[0]: expected an object, got 1"),
    ("notes", [{"remark": "x"}], "notes[0].value: this field is missing"),
    ("notes", [{"remark": "raised", "value": "x"}], 'notes[0].value: expected a number, got "x"'),
    ("counters", [], "counters: expected an object, got a list"),
    ("counters", {"n": "x"}, 'counters.n: expected a number, got "x"'),
    ("provenance", 3, "provenance: expected an object, got 3"),
    ("provenance", {"a": [{"b": "\x07"}]}, r'provenance: expected printable text, got "\u0007"'),
    ("infeasibility", 3, "infeasibility: expected an object, got 3"),
    ("infeasibility", {}, "infeasibility.conflict: this field is missing"),
])  # fmt: skip
def test_solution_fields(tmp_path, field, value, message):
    with pytest.raises(FormatError) as caught:
        read_solution(tmp_path, {**solution_dict(), field: value})
    assert str(caught.value) == f"{tmp_path / 's.json'}: {message}"


@pytest.mark.parametrize("field, value, message", [
    ("conflict", [7], "conflict[0]: expected the number of a quota, 0 to 2, got 7"),
    ("conflict", [True], "conflict[0]: expected the number of a quota, 0 to 2, got true"),
    ("conflict", [], "reach_bias: expected 0 rows at most, got 1"),
    ("reach", [1, 2], "reach: expected 1 numbers, got 2"),
    ("reach_bias", [[1]], "reach_bias[0]: expected 3 numbers, got 1"),
    ("reach_bias", [1], "reach_bias[0]: expected a list of numbers, got 1"),
    ("common_factor", "x", 'common_factor: expected a number, got "x"'),
    ("factor_bias", [], "factor_bias: expected 3 numbers, got 0"),
    ("factor_prices", [], "factor_prices: expected 3 numbers, got 0"),
    ("nearest_at_least", None, "nearest_at_least: expected a list of numbers, got null"),
    ("nearest_at_most", [1], "nearest_at_most: expected 3 numbers, got 1"),
    ("mood", 1, "mood: there is no such field"),
])  # fmt: skip
def test_infeasibility_fields(tmp_path, field, value, message):
    raw = solution_dict(0.6)
    raw["infeasibility"][field] = value
    with pytest.raises(FormatError) as caught:
        read_solution(tmp_path, raw)
    assert str(caught.value) == f"{tmp_path / 's.json'}: infeasibility.{message}"


@pytest.mark.parametrize("text, message", [
    ("[]", "there is no field fairmdp_solution: this is not a solution file"),
    ("{}", "there is no field fairmdp_solution: this is not a solution file"),
    ('{"fairmdp_solution": 2,\n"sta', "not valid JSON: Unterminated string starting at: line 2 column 1"),
    ('{"fairmdp_solution": 2}', "status: this field is missing"),
    ('{"a": 1, "b": {"c": 1, "c": 1}}', 'the field "c" is there twice'),
    ('{"a": NaN}', "not valid JSON: NaN is no number; what is not finite is written as null"),
    ("[" * 100_000, "it is nested too deeply"),
    ("1" * 5000, "not valid JSON: Exceeds the limit"),
    ("", "not valid JSON: Expecting value: line 1 column 1"),
])  # fmt: skip
def test_solution_text(tmp_path, text, message):
    with pytest.raises(FormatError) as caught:
        read_solution(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 's.json'}: {message}")


def test_infinite_number_in_json(tmp_path):
    text = json.dumps(solution_dict()).replace('"policy": [', '"policy": [1e999, ')
    with pytest.raises(FormatError, match=r"policy\[0\]: the number is too large"):
        read_solution(tmp_path, text)


def test_solution_bytes_and_limit(tmp_path, monkeypatch):
    path = tmp_path / "s.json"
    path.write_bytes(b'{\n"\xff": 1}')
    with pytest.raises(FormatError, match=r"s.json: line 2 is not UTF-8 text"):
        Solution.load(path)
    monkeypatch.setattr(json_solution, "MAX_BYTES", 5)
    with pytest.raises(FormatError, match=r"s.json: the file has 9 bytes, the limit is 5"):
        Solution.load(path)


def test_solution_that_is_not_json(tmp_path):
    solution = replace(solve(scenarios.three_state()), provenance={"x": object()})
    with pytest.raises(FormatError, match=r"s.json: this cannot be written as JSON: Object of type object"):
        solution.save(tmp_path / "s.json")
    assert list(tmp_path.iterdir()) == []


# Atomic writing


def test_replaced_file_keeps_its_permissions(tmp_path):
    path = tmp_path / "f"
    old = os.umask(0o027)
    try:
        atomic.write_bytes(path, b"1")
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o604)
        atomic.write_bytes(path, b"2")
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o604
    assert path.read_bytes() == b"2" and list(tmp_path.iterdir()) == [path]


def test_links_are_followed(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for data in (b"1", b"2"):
        atomic.write_bytes(tmp_path / "link", data)
        assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_bytes() == data


@pytest.mark.parametrize("step", ["fsync", "replace", "chmod"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_failed_write_leaves_the_old_file(tmp_path, monkeypatch, step, error):
    def fail(*_):
        raise error

    path = tmp_path / "p.npz"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, step, fail)
    with pytest.raises(FormatError if isinstance(error, OSError) else KeyboardInterrupt) as caught:
        save(scenarios.three_state(), path)
    if isinstance(error, OSError):
        assert str(caught.value) == f"{path}: cannot be written: No space left on device"
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_error_while_writing(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), atomic.replacing(path) as file:
        file.write(b"half")
        1 / 0  # noqa: B018
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_devices_are_not_replaced():
    with pytest.raises(FormatError, match="/dev/full: this is a device or a pipe, expected a file"):
        atomic.write_bytes("/dev/full", b"")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_paths_that_cannot_be_written(tmp_path):
    for path, message in (
        (tmp_path, "this is a folder, expected a file"),
        (tmp_path / "no" / "f", "cannot be written: there is no such folder"),
        (tmp_path / ("x" * 300), "cannot be written: File name too long"),
    ):
        with pytest.raises(FormatError) as caught:
            atomic.write_bytes(path, b"")
        assert str(caught.value) == f"{path}: {message}"
    with pytest.raises(FormatError, match=r"'a\\x00b': this is not a path: embedded null"):
        atomic.write_bytes("a\0b", b"")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_read_only_folder(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(FormatError, match="cannot be written: Permission denied"):
        atomic.write_bytes(tmp_path / "f", b"")


def test_longest_name(tmp_path):
    atomic.write_bytes(tmp_path / ("x" * 255), b"1")
    assert [path.name for path in tmp_path.iterdir()] == ["x" * 255]
