"""What a model is, before it is solved."""

import json

import numpy as np
import pytest

import fairmdp as fm
from fairmdp import views
from fairmdp.views.format import shortened

P = [
    [0, 1, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0], [0, 0, 1, 0, 0, 0], [0, 0.5, 0, 0.5, 0, 0], [0, 1, 0, 0, 0, 0],
    [0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 1, 0],
]  # fmt: skip
S_OF = [0, 0, 1, 1, 2, 3, 4, 5]
NAMES = ["start", "left", "pause", "right", "ghost", "ghoul"]


def model(**more):
    return fm.MDP(P, np.arange(8.0), S_OF, states=NAMES, **more)


def text_of(problem):
    return " ".join(views.inspection_text("x", problem, fm.inspect(problem)).split())


def test_parts_of_a_model_are_told():
    seen = fm.inspect(model(initial="start"))
    assert seen.unreachable.tolist() == [4, 5] and seen.reachable.tolist() == [0, 1, 2, 3]
    assert seen.passed.tolist() == [0] and seen.n_components == 2
    (first, second) = seen.components
    assert (first.states.tolist(), first.n_pairs, first.for_good) == ([1, 2], 2, False)
    assert (second.states.tolist(), second.n_pairs, second.for_good) == ([3], 1, True)
    text = text_of(fm.Problem(model(initial="start")))
    assert "start start reachable 4 of 6 states; the others do not count: {ghost, ghoul}" in text
    assert (
        "2 end components; {start} only passed through {left, pause}: 2 states, 2 pairs, can be left" in text
    )
    assert "solved by split: component after component" in text and "rewards from 0 to 5 a step" in text


def test_without_a_start_everything_counts():
    seen = fm.inspect(model())
    assert seen.unreachable.size == 0 and seen.n_components == 3
    assert [part.states.tolist() for part in seen.components] == [[1, 2], [4, 5], [3]]
    assert "any state, none is stated (--start NAME): quotas of every run" in text_of(fm.Problem(model()))


def test_one_component_is_told_as_that():
    text = text_of(fm.scenarios.three_state())
    assert "one end component, all of these states" in text and "all runs alike" in text
    assert "solved by lp: HiGHS simplex" in text and "quotas of every run" not in text


def test_how_fast_it_mixes_is_measured():
    n = 30
    ring = fm.MDP(0.5 * np.eye(n) + 0.5 * np.roll(np.eye(n), 1, axis=1), np.zeros(n), np.arange(n))
    both = [
        fm.inspect(mdp).mixing for mdp in (ring, fm.MDP(np.full((n, n), 1 / n), np.zeros(n), np.arange(n)))
    ]
    assert both[0].left <= 1e-3 and both[1].left <= 1e-3
    # The second eigenvalue decides: 0.1 + 0.9 (1 + exp(2 pi i / n)) / 2, and 0.1.
    modulus = abs(0.1 + 0.45 * (1 + np.exp(2j * np.pi / n)))
    assert both[0].steps == pytest.approx(np.log(1e-3) / np.log(modulus), rel=0.3)
    assert both[1].steps == 3 or both[1].steps == 4
    stuck = np.array([[1 - 1e-9, 1e-9], [1e-9, 1 - 1e-9]])
    slow = fm.inspect(fm.MDP(stuck, [0.0, 1.0], [0, 1])).mixing
    assert slow.steps == 2000 and slow.left > 0.99
    assert fm.inspect(fm.MDP([[1.0]], [1.0], [0])).mixing is None


def test_durations_are_told_in_their_unit():
    mdp = fm.MDP(
        [[0, 1], [1, 0], [1, 0]], [80.0, -30.0, -4.0], [0, 1, 1], durations=[8, 1, 3], time_unit="hour"
    )
    problem = fm.Problem(mdp)
    data = views.inspection_data(problem, fm.inspect(problem))
    assert data["durations"] == [1.0, 8.0] and data["mixing"]["time"] == data["mixing"]["steps"] * mdp.step
    assert "take from 1 to 8 hours on average" in text_of(
        problem
    ) and "hours of the uniform policy" in text_of(problem)


@pytest.mark.parametrize("expected", [False, True])
@pytest.mark.parametrize("start", [None, "start", "right"])
def test_the_method_is_the_one_that_solves(start, expected):
    quota = fm.Quota(
        "left", states=["left"], at_least=0.1 if start == "start" else 0.0, at_most=0.9, expected=expected
    )
    problem = fm.Problem(model(initial=start), [quota])
    seen = fm.inspect(problem)
    if start is None and expected:
        assert seen.method == "" and "nothing says where they start" in seen.refusal
        assert "nobody, as it is: quota left" in text_of(problem)
        return
    assert fm.solve(problem).method == seen.method


def test_methods_for_larger_models_come_with_their_reason():
    problem = fm.scenarios.garnet(n_states=500)
    seen = fm.inspect(problem)
    solution = fm.solve(problem)
    assert (seen.method, seen.reason) == (solution.method, solution.reason) and seen.reason
    assert "chosen because" in text_of(problem)


def test_quotas_are_told_with_what_they_mean():
    quotas = [
        fm.Quota("left", states=["left"], at_least=0.1, expected=True),
        fm.Quota("right", states=["right"], at_most=0.5),
        fm.Quota("pauses", states=["pause"], of=["left", "pause"], at_least=0.2),
        fm.Quota("label", states=["start"], at_least=0.0),
    ]
    text = text_of(fm.Problem(model(initial="start"), quotas))
    for row in (
        "left >= 0.1 state left mean over runs",
        "right <= 0.5 state right every run",
        "pauses a part at least 0.2 of the time in 2 states every run",
        "label nothing yet state start every run",
    ):
        assert row in text


def test_long_names_and_many_components_are_cut():
    names = [f"a very long beginning that all states have in common, number {k}" for k in range(40)]
    mdp = fm.MDP(np.eye(40), np.zeros(40), np.arange(40), states=names)
    text = views.inspection_text("x", fm.Problem(mdp), fm.inspect(mdp))
    assert max(map(len, text.splitlines())) < 140 and "... and 35 more, no larger" in text
    assert "common, number 3}" in text
    assert shortened("x" * 50, 10) == "x...xxxxxx" and shortened("short") == "short"


def test_command(run):
    fm.save(fm.Problem(model(initial="start")), "m.toml")
    code, out, _ = run("inspect", "m.toml", "--start", "right")
    assert code == 0 and "reachable 1 of 6 states" in " ".join(out.split())
    code, out, _ = run("inspect", "m.toml", "--quota", "left>=0.1", "--json")
    data = json.loads(out)
    assert data["unreachable"] == {"states": ["ghost", "ghoul"], "of_states": 2}
    assert data["quotas"][0]["meaning"] == "every run" and data["of_components"] == 2
