"""Bounds in the words of model checkers: formulas of labels and variables, and means of rewards."""

from collections import namedtuple
from itertools import product

import numpy as np
import pytest

import fairmdp as fm
from fairmdp import MDP, FormatError, Problem, ProblemError, Quota, parse_quota
from fairmdp.io.explicit_model import quota_lines
from fairmdp.model.expression import states_where

X, Y = np.array([0, 1, 2, 0, 1, 2]), np.array([0, 0, 0, 1, 1, 1])
VARIABLES = {"x": X, "y": Y, "on": X > 0, "side": np.array(list("aabbcc"))}
LABELS = {"home": X == 2, "odd one": X == 1, "x": Y == 1}


@pytest.mark.parametrize(("text", "mask"), [
    ('"home"', X == 2),
    ("home", X == 2),
    ('!"home" & "odd one"', X == 1),
    ('"home" | "odd one" & y=0', (X == 2) | ((X == 1) & (Y == 0))),  # & binds before |
    ('("home" | "odd one") & y=0', ((X == 2) | (X == 1)) & (Y == 0)),
    ("!(x>=1)", X < 1),
    ("!!on", X > 0),
    ("x+y>=2 & x-1<1", (X + Y >= 2) & (X - 1 < 1)),
    ("-x<=-1", X >= 1),
    ("x!=y", X != Y),
    ("0.5<x", X > 0.5),
    ("on=true", X > 0),
    ("side=a | side!=b & y=1", np.array([1, 1, 0, 0, 1, 1], bool)),
    ('"x"', Y == 1),
    ("true & !false", X >= 0),
    ("on => x=1 => y=1", (X == 0) | (X != 1) | (Y == 1)),  # read from the right
    ("x=1 <=> y=1 => home", ((X == 1) != (Y == 1)) | (X == 2)),
    ("2*x-y*y>=3", 2 * X - Y >= 3),
    ("1=1", X >= 0),
])  # fmt: skip
def test_formulas_hold_where_numpy_says(text, mask):
    assert np.array_equal(states_where(text, 6, VARIABLES, LABELS.get), mask)


@pytest.mark.parametrize(("text", "message"), [
    ("x", "x is neither true nor false, compare it"),
    ("z>=1", "there is no label or variable called 'z'"),
    ('"hme"', "no label or variable called 'hme'"),
    ("hme", "no label or variable called 'hme'"),
    ("x>=1 &", "cannot be read at 'the end'"),
    ("(x>=1", "cannot be read at 'the end, . is missing'"),
    ("x>=1)", "cannot be read at '.'"),
    ("x>=1 y", "cannot be read at 'y'"),
    ("x>=", "cannot be read at 'the end'"),
    ("x @ 1", "cannot be read at '@ 1'"),
    ("F x=1", "no label or variable called 'F'\n  F, G, X and U are about runs"),
    ("z=up", "no label or variable called 'z'"),
    ("2*side=a", "adds or multiplies text"),
    ("side>=b", "compares text and numbers by >="),
    ("-side=a", "cannot be read at 'side'"),
    ("-on", "cannot be read at 'on'"),
    ("x+side=2", "adds or multiplies text"),
    ("(" * 3000, "nested too deeply"),
    ("!" * 1500 + "on", "nested too deeply"),
])  # fmt: skip
def test_what_cannot_be_read_is_named(text, message):
    with pytest.raises(ProblemError, match=message):
        states_where(text, 6, VARIABLES, LABELS.get)


State = namedtuple("State", "x y")


def grid():
    """Four states with variables, two labels, two rewards."""

    def step(state, action):
        x, y = state
        after = State(1 - x, y) if action == "across" else State(x, 1 - y)
        return [
            (0.75, after, {"reward": 1.0 + x, "energy": 2.0 * y}),
            (0.25, state, {"reward": 0.0, "energy": 2.0 * y}),
        ]

    mdp = MDP.from_rules(State(0, 0), ["across", "down"], step)
    labels = {"home": lambda s: s == (0, 0), "far": lambda s: s.x + s.y == 2}
    return Problem(mdp, [Quota(name, where=where, at_least=0.0) for name, where in labels.items()])


@pytest.mark.parametrize(("text", "name", "chosen"), [
    ('LRA>=0.25 ["home" | "far"]', "home | far", lambda s: s.x == s.y),
    ("S<=0.5 [x=1 & !(y=0)]", "x=1 & !(y=0)", lambda s: s == (1, 1)),
    ("x>=1>=0.25", "x>=1", lambda s: s.x == 1),
    ("x+y=1 & !home<=50%", "x+y=1 & !home", lambda s: s.x + s.y == 1),
    ("x=0 & y=1>=0.1", "x=0 & y=1", lambda s: s == (0, 1)),  # which is a state's own name
])  # fmt: skip
def test_formulas_are_quotas(text, name, chosen):
    problem = grid()
    quota = parse_quota(problem, text)
    assert quota.name == name
    members = problem.with_quotas([quota]).quotas[2].states.tolist()
    assert members == [s for s, state in enumerate(problem.mdp.state_objects) if chosen(state)]


def test_rewards_are_bounded_in_the_words_of_the_field():
    problem = grid()
    for text in ('R{"energy"}<=0.5 [LRA]', 'R { "energy" } <= 50% [ S ]', "energy<=0.5"):
        (quota,) = [parse_quota(problem, text)]
        assert (quota.name, quota.reward, quota.at_most) == ("energy", "energy", 0.5)
    strict = problem.with_quotas([parse_quota(problem, 'R{"energy"}<=0.5 [LRA]')])
    again = strict.with_quotas(fm.parse_quotas(strict, ['R{"energy"}>=0.25 [LRA]']))
    assert (again.lower[-1], again.upper[-1], again.names[-1]) == (0.25, 0.5, "energy")
    solution = fm.solve(strict)
    assert solution.occupancy @ strict.mdp.rewards["energy"] == pytest.approx(0.5)
    assert fm.verify(strict, solution, exact=True).ok
    earned = strict.with_quotas([parse_quota(strict, "R>=0.9 [LRA]")])
    assert earned.names[-1] == "R" and np.array_equal(earned.weights[[3]].toarray()[0], strict.mdp.r)


def test_a_reward_that_shares_its_name_with_a_label_is_told_apart():
    problem = grid()
    twin = Problem(problem.mdp, [Quota("energy", states=[0], at_least=0.0)])
    bounds = fm.parse_quotas(twin, ['LRA>=0.1 ["energy"]', 'R{"energy"}<=0.5 [LRA]'])
    assert [quota.name for quota in bounds] == ["energy", 'R{"energy"}']


@pytest.mark.parametrize(("text", "message"), [
    ('R{"enrgy"}<=1 [LRA]', "quota enrgy: there is no reward called 'enrgy'; did you mean 'energy'?"),
    ("LRA>=0.1 [x=3]", "no state satisfies 'x=3'"),
    ('LRA>=0.1 ["hom"]', "no quota or state called 'hom'; did you mean 'home'?"),
    ("LRA>=a [x=1]", "'a' is not a number"),
    ("LRA>=1/0 [x=1]", "'1/0' is not a number"),
    ("LRA>=0.1 [ ]", "no states are named between . and ]"),
    ('LRA>=0.1 ["deadlock"]', "no quota or state called 'deadlock'"),
])  # fmt: skip
def test_mistakes_are_named(text, message):
    problem = grid()
    with pytest.raises(ProblemError, match=message.replace("?", r"\?")):
        problem.with_quotas([parse_quota(problem, text)])


@pytest.mark.parametrize(("text", "said"), [
    ('R{"energy"}max=? [LRA]', "asks for a value"),
    ("LRA=? [x=1]", "asks for a value"),
    ('Pmax=? [F "home"]', "asks for a value"),
    ('P>=0.5 [G F "home"]', "bounds a probability"),
    ('T<=5 [F "home"]', "bounds a probability or a time"),
    ('R{"energy"}<=1 [F "home"]', "earned until some time"),
    ('R{"energy"}<=1 [C<=10]', "earned until some time"),
    ('R{"energy"}<=1 [I=10]', "earned until some time"),
    ('multi(R{"energy"}max=? [LRA], LRA>=0.5 ["home"])', "several objectives"),
    ('multi(R{"energy"}max=? [LRA], R{"reward"}max=? [LRA])', "several objectives"),
    ('R{"energy"}<=1 [LRA] & LRA>=0.5 [x=1]', "more than one bound"),
    ('filter(max, LRA>=0.5 [x=1], "init")', "filters states"),
    ('<<1>> R{"energy"}>=1 [LRA]', "several players"),
    ("LRA=0.1 [x=1]", "two quotas: LRA>=0.1 [x=1] and LRA<=0.1 [x=1]"),
    ("S>0.1 [x=1]", "a strict bound, which can be approached for ever\n  state S>=0.1 [x=1]"),
    ("!LRA>=0.1 [x=1]", "negates a bound\n  state the other one: LRA<=0.1 [x=1]"),
    ('R{"energy"}max<=1 [LRA]', 'state R{"energy"}<=1 [LRA]'),
    ("R{energy}<=1 [LRA]", 'without quotes\n  state R{"energy"}<=1 [LRA]'),
    ('"fair": LRA>=0.1 [x=1];', "state LRA>=0.1 [x=1] by itself"),
])  # fmt: skip
def test_queries_that_bound_no_long_run_mean_are_refused_as_what_they_are(text, said):
    with pytest.raises(ProblemError) as refused:
        parse_quota(grid(), text)
    assert said in str(refused.value) and text in str(refused.value)


def test_states_may_be_called_like_operators():
    problem = Problem(MDP(np.eye(4), np.zeros(4), range(4), states=["S[1]", "R{x}", "Pmax", "init"]))
    for s, name in enumerate(problem.mdp.states):
        assert parse_quota(problem, f"{name}>=0.5").states.tolist() == [s]
        assert parse_quota(problem, f'LRA>=0.5 ["{name}"]').states.tolist() == [s]


def test_words_of_model_checkers_that_every_model_knows():
    problem = grid()
    masks = [parse_quota(problem, f"LRA>=1/3 [{word}]") for word in ('"init"', "true", '!"init" & true')]
    assert [quota.at_least for quota in masks] == [1 / 3] * 3
    start = np.flatnonzero(problem.mdp.initial).tolist()
    chosen = [np.flatnonzero(quota.states).tolist() for quota in masks]
    assert chosen == [start, [0, 1, 2, 3], [s for s in range(4) if s not in start]]
    anywhere = problem.with_mdp(problem.mdp.with_initial(None))
    with pytest.raises(ProblemError, match="no label or variable called 'init'"):
        parse_quota(anywhere, 'LRA>=0.1 ["init"]')
    assert parse_quota(problem, "Every run: LRA>=0.1 [x=1]").expected is False


@pytest.mark.parametrize("ending", [".drn", ".tra"])
def test_files_of_prism_and_storm_keep_all_rewards(tmp_path, ending):
    problem = grid()
    bounds = ['R{"energy"}<=0.5 [LRA]', 'LRA>=0.2 ["home"]']
    problem = problem.with_quotas(fm.parse_quotas(problem, bounds))
    path = tmp_path / f"m{ending}"
    fm.save(problem, path)
    with pytest.raises(FormatError, match="there are 2 reward structures: reward, energy"):
        fm.load(path)
    again = fm.load(path, reward="reward")
    assert list(again.mdp.rewards) == ["reward", "energy"] and np.array_equal(again.mdp.r, problem.mdp.r)
    assert np.array_equal(again.mdp.rewards["energy"], problem.mdp.rewards["energy"])
    assert set(quota_lines(again)) == set(bounds) == set(quota_lines(problem))
    assert fm.solve(again).gain == pytest.approx(fm.solve(problem).gain)
    assert parse_quota(again, "LRA>=0.1 [x=1 & y<1]").name == "x=1 & y<1"
    assert fm.load(path, reward="energy").mdp.r.tolist() == problem.mdp.rewards["energy"].tolist()
    fm.save(Problem(MDP(problem.mdp.P, problem.mdp.r, problem.mdp.s_of)), path)  # older rewards are gone
    assert fm.load(path).mdp.reward_names == ()


def test_variables_of_a_prism_file_are_known(tmp_path):
    fm.save(grid().without_quotas().with_reward("reward"), tmp_path / "m.tra")
    names = {0: "(0,0)", 1: "(1,0)", 2: "(0,1)", 3: "(1,1)"}
    objects = grid().mdp.state_objects
    lines = [f"{s}:({state.x},{state.y})" for s, state in enumerate(objects)]
    (tmp_path / "m.sta").write_text("\n".join(["(up,left)", *lines]))
    problem = fm.load(tmp_path / "m.tra", reward="energy")
    assert problem.mdp.states == tuple(f"{s.x},{s.y}" for s in objects) and len(names) == problem.mdp.n_states
    assert problem.mdp.variables["left"].tolist() == [state.y for state in objects]
    quota = Quota("left", where=lambda state: state.left == 1, at_least=0.1)
    mine = problem.with_quotas([quota, parse_quota(problem, "LRA>=0.2 [up=1]")])
    assert mine.quotas[0].states.tolist() == [s for s, state in enumerate(objects) if state.y == 1]
    (tmp_path / "m.sta").write_text("\n".join(["(1up,left)", *lines]))
    assert fm.load(tmp_path / "m.tra", reward="energy").mdp.variables == {}


def test_all_small_formulas_are_what_python_says():
    """Every formula of two comparisons, against Python's own reading of it."""
    for negated, both, a, b in product(("", "!"), "&|", range(3), range(2)):
        text = f"{negated}(x>={a} {both} y={b})"
        python = text.replace("!", "not ").replace("&", "and").replace("|", "or").replace("y=", "y==")
        expected = [bool(eval(python, {"x": int(x), "y": int(y)})) for x, y in zip(X, Y, strict=True)]
        assert states_where(text, 6, VARIABLES, LABELS.get).tolist() == expected
