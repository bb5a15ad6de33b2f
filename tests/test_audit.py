"""A policy judged: against plain linear algebra, closed forms, and another linear program for the least change."""

import json

import numpy as np
import pytest
from checks import assert_policy_is_fair, long_run
from models import random_problem
from scipy.optimize import linprog

import fairmdp as fm
from fairmdp.io import read_policy

THREE = fm.scenarios.three_state()
TODAY = fm.Policy.of(THREE, {"s0": "a0", "s1": "a1", "s2": "a0"})


def least_move(problem, x0):
    """Least half of |x - x0| over the fair occupancies, by a program of another form: x - x0 = up - down."""
    mdp = problem.mdp
    n = mdp.n_pairs
    flow = np.zeros((mdp.n_states, n))
    flow[mdp.s_of, np.arange(n)] += 1
    flow -= mdp.P.toarray().T
    eye, nothing = np.eye(n), np.zeros((mdp.n_states + 1, n))
    A_eq = np.block([[np.vstack([flow, np.ones(n)]), nothing, nothing], [eye, -eye, eye]])
    b_eq = np.concatenate([np.zeros(mdp.n_states), [1.0], x0])
    G = problem.members.toarray()
    none = np.zeros((2 * len(G), 2 * n))
    A_ub = np.hstack([np.vstack([-G, G]), none])
    b_ub = np.concatenate([-problem.at_least, problem.at_most])
    c = np.concatenate([np.zeros(n), np.full(2 * n, 0.5)])
    return linprog(c, A_ub, b_ub, A_eq, b_eq, bounds=(0, None)).fun


@pytest.mark.parametrize("seed", range(6))
def test_what_is_proved_is_what_linear_algebra_says(seed):
    problem = random_problem(seed)
    rng = np.random.default_rng(seed)
    pi = rng.random(problem.mdp.n_pairs) + 0.01
    pi /= np.add.reduceat(pi, problem.mdp.pair_ptr[:-1])[problem.mdp.s_of]
    seen = fm.evaluate(problem, pi)
    x = pi * long_run(problem, pi)[problem.mdp.s_of]
    shares, gain = problem.members @ x, problem.mdp.r @ x
    assert seen.gain[0] - 1e-12 <= gain <= seen.gain[1] + 1e-12
    assert seen.gain[1] - seen.gain[0] < 1e-9 * max(1, np.abs(problem.mdp.r).max())
    slack = np.minimum(
        np.where(problem.at_least > 0, shares - problem.at_least, np.inf),
        np.where(problem.at_most < 1, problem.at_most - shares, np.inf),
    )
    assert seen.broken == tuple(np.array(problem.names)[slack < -1e-9])
    assert seen.worst_slack == pytest.approx(slack.min(initial=np.inf), abs=1e-9)
    for k, row in enumerate(seen.findings):
        ends = problem.units.shares(np.array([row.low, row.high])) if problem.units.are_shares else None
        if ends is not None:
            assert ends[0] - 1e-12 <= shares[k] <= ends[1] + 1e-12
            assert row.short == pytest.approx(max(-slack[k], 0) if slack[k] < -1e-9 else 0, abs=1e-9)
    if seen.mended is not None:
        assert_policy_is_fair(problem, seen.mended.solution.policy, tol=2e-9)
        least = least_move(problem, x)
        assert least - 1e-6 <= seen.mended.moved <= least + 1e-4


def test_the_least_change_of_the_unconstrained_optimum():
    seen = fm.evaluate(THREE, TODAY)
    assert (seen.verdict, seen.broken) == ("not fair", ("s2",))
    assert seen.gain == pytest.approx((10 / 19, 10 / 19)) and seen.findings[2].short == pytest.approx(
        0.25 - 1 / 11
    )
    x0 = TODAY.array * long_run(THREE, TODAY.array)[THREE.mdp.s_of]
    assert seen.mended.moved == pytest.approx(least_move(THREE, x0), abs=1e-7)
    assert fm.verify(THREE, seen.mended.solution, exact=True).ok
    assert {change.state for change in seen.mended.changes} == {"s1"}  # of equals the one that earns the most
    assert seen.behind == pytest.approx((0.443421 - 10 / 19,) * 2, abs=1e-6)


def test_a_fair_policy_needs_no_mending():
    best = fm.solve(THREE)
    seen = fm.evaluate(THREE, best)
    assert (seen.verdict, seen.mended, seen.broken) == ("fair", None, ())
    assert seen.behind == pytest.approx((0, 0), abs=1e-9)
    assert fm.evaluate(THREE, [0.5] * 6).behind[0] == pytest.approx(best.gain - 0.25, abs=1e-9)


def test_what_was_done_stays_where_no_time_is_spent():
    P = [[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 1, 0]]
    mdp = fm.MDP(P, [1.0, 0, 0, 0, 0, 0], np.repeat(range(3), 2), states=["day", "night", "never"])
    problem = fm.Problem(mdp, [fm.Quota("night", states=["night"], at_least=0.25)])
    seen = fm.evaluate(problem, {"day": "a0", "night": "a0", "never": "a1"})
    assert seen.mended.solution.policy[4:].tolist() == [0, 1]
    assert seen.mended.moved == pytest.approx(0.25, abs=1e-6)


def split(at_least):
    """A run may stay in left or right for good; right pays nothing."""
    mdp = fm.MDP(
        [[1, 0, 0], [0, 1, 0], [0.25, 0.75, 0], [0, 0.5, 0.5]], [2.0, 0.0, 0.0, 0.0], [0, 1, 2, 2],
        states=["left", "right", "start"], actions=["stay", "stay", "toss", "lean"], initial=[0, 0, 1],
    )  # fmt: skip
    return fm.Problem(mdp, [fm.Quota("left", states=["left"], at_least=at_least)])


def test_each_end_of_a_run_is_judged_by_itself():
    problem = split(0.5)
    seen = fm.evaluate(problem, {"left": "stay", "right": "stay", "start": "toss"})
    ends = {problem.mdp.states[o.states[0]]: o for o in seen.outcomes}
    assert {name: round(o.chance, 12) for name, o in ends.items()} == {"left": 0.25, "right": 0.75}
    assert ends["left"].gain == pytest.approx((2, 2)) and ends["right"].gain == pytest.approx((0, 0))
    assert ends["left"].shares[0].tolist() == pytest.approx([1, 1])
    assert ends["right"].shares[0].tolist() == [0, 0]
    assert (seen.verdict, seen.worst_slack, seen.gain[1]) == ("not fair", -0.5, pytest.approx(2))
    assert any("2 ends" in note for note in seen.notes)
    assert fm.evaluate(split(0), {"left": "stay", "right": "stay", "start": "lean"}).verdict == "fair"


def test_a_mixture_has_an_end_for_each_of_its_policies():
    mixed = fm.Policy.mixture([TODAY, fm.Policy.of(THREE, fm.solve(THREE))], [0.25, 0.75])
    seen = fm.evaluate(THREE, mixed)
    assert [(o.part, o.chance) for o in seen.outcomes] == [(1, 0.75), (0, 0.25)]
    assert seen.verdict == "not fair" and seen.findings[2].low == pytest.approx(1 / 11)
    assert seen.findings[2].high == pytest.approx(0.25) and seen.mended.solution.status == "optimal"


def test_where_no_policy_is_fair_there_is_nothing_to_mend(run):
    problem = fm.scenarios.three_state([0.1, 0.1, 0.6])
    seen = fm.evaluate(problem, TODAY)
    assert seen.best.status == "infeasible" and seen.mended is None and seen.behind is None
    TODAY.save("today.csv")
    code, out, _ = run("audit", "three-state", "today.csv", "--rho", "0.1,0.1,0.6")
    assert code == 3 and "no policy meets the quotas" in out


def test_weighted_quotas_are_judged_in_their_units():
    cost = fm.Quota("cost", weights={"s0": 80.0, "s1": 30.0, "s2": 50.0}, at_most=52.0)
    problem = fm.Problem(THREE.mdp, [cost])
    seen = fm.evaluate(problem, TODAY)
    nu = long_run(problem, TODAY.array)
    mean = float(nu @ [80, 30, 50])
    row = seen.findings[0]
    assert row.low == pytest.approx(mean) and row.short == pytest.approx(mean - 52) and row.at_most == 52


def test_steps_that_take_time():
    shop = fm.MDP(
        [[0, 1], [1, 0], [1, 0]], [80.0, -30.0, -4.0], [0, 1, 1], states=["up", "down"],
        actions=["run", "quick", "slow"], durations=[8.0, 1.0, 3.0],
    )  # fmt: skip
    problem = fm.Problem(shop, [fm.Quota("up", states=["up"], at_least=0.8)])
    seen = fm.evaluate(problem, {"up": "run", "down": "slow"})
    assert seen.gain == pytest.approx((76 / 11, 76 / 11)) and seen.findings[0].high == pytest.approx(8 / 11)
    # 8 / (8 + 1 q + 3 (1 - q)) = 0.8 for q = 1/2: of the time, 0.8, 0.05 and 0.15, where it was 8/11, 0, 3/11
    assert seen.mended.solution.policy == pytest.approx([1, 0.5, 0.5], abs=1e-6)
    assert seen.mended.moved == pytest.approx(3 / 11 - 0.15, abs=1e-6)
    still = fm.MDP(
        [[1, 0, 0], [0, 1, 0], [0.5, 0.5, 0]], [4.0, 6.0, 0], [0, 1, 2], durations=[2.0, 3.0, 1.0],
        initial=[0, 0, 1],
    )  # fmt: skip
    both = fm.evaluate(fm.Problem(still), [1.0, 1, 1]).outcomes
    assert [o.gain for o in both] == [pytest.approx((2, 2))] * 2 and [o.chance for o in both] == [0.5, 0.5]


def test_conditional_quotas_are_judged_by_their_part():
    part = fm.Quota("a1 in s1", pairs=[("s1", "a1")], of=["s1"], at_most=0.3)
    problem = fm.Problem(THREE.mdp, [part])
    seen = fm.evaluate(problem, {"s0": "a0", "s1": {"a0": 0.25, "a1": 0.75}, "s2": "a0"})
    row = seen.findings[0]
    assert (row.low, row.high) == pytest.approx((0.75, 0.75)) and row.at_most == 0.3
    assert row.short == pytest.approx(0.45) and row.verdict == "not fair"
    assert seen.mended.solution.policy[3] == pytest.approx(0.3, abs=1e-6)
    never = fm.Problem(
        split(0).mdp, [fm.Quota("toss", pairs=[("start", "toss")], of=["start"], at_least=0.5)]
    )
    void = fm.evaluate(never, {"left": "stay", "right": "stay", "start": "lean"})
    assert np.isnan(void.findings[0].low) and void.verdict == "fair"


@pytest.mark.parametrize("name", ["p.csv", "p.json", "s.json", "storm.json", "prism.txt"])
def test_any_file_of_a_policy_is_read(tmp_path, name):
    problem, path = fm.scenarios.three_state([0.1, 0.1, 0.25]), tmp_path / name
    solution = fm.solve(problem)
    if name.startswith("p."):
        fm.Policy.of(problem, solution).save(path)
    elif name == "s.json":
        solution.save(path)
    else:
        fm.save_strategy(problem, solution, path)
    assert read_policy(problem, path).array.tolist() == solution.policy.tolist()
    assert fm.evaluate(problem, path).verdict == "fair"


def test_what_learn_keeps_is_read(run, tmp_path):
    assert run("learn", "three-state", "--samples", "6000", "--seed", "1", "-o", "three.json")[0] == 0
    kept = json.loads((tmp_path / "three.json").read_text())["policy"]
    assert read_policy(THREE, tmp_path / "three.json").array.tolist() == kept


def test_schedulers_as_storm_writes_them(tmp_path):
    mdp = fm.MDP(THREE.mdp.P, THREE.mdp.r, THREE.mdp.s_of)  # without names, as from a model with variables
    rows = [
        {"s": 0, "c": [{"origin": {"action-label": "a0"}, "prob": 1.0}]},
        {"s": {"x": 1}, "c": [{"index": 2, "prob": 0.25}, {"index": 3, "prob": 0.75}]},
        {"s": 2, "c": [{"labels": ["a1"], "prob": 1}]},
    ]
    (tmp_path / "s.json").write_text(json.dumps(rows))
    problem = fm.Problem(mdp)
    assert read_policy(problem, tmp_path / "s.json").array.tolist() == [1, 0, 0.25, 0.75, 0, 1]
    for row, complaint in (
        ({"s": 0, "c": [{"index": 5, "prob": 1}]}, "choice 5 is none of state 0, expected 0 to 1"),
        ({"s": 0}, r"\[0\]: expected a state and its choices"),
    ):
        (tmp_path / "bad.json").write_text(json.dumps([row]))
        with pytest.raises((fm.FormatError, fm.ProblemError), match=complaint):
            read_policy(problem, tmp_path / "bad.json")


def test_states_with_variables_in_strategies_of_storm_and_prism(tmp_path):
    """Names such as ``q=0``, which have the sign of PRISM's lines in them, and truth values of Storm."""
    states = ["q=0 & !up", "q=0 & up", "q=1 & up"]
    mdp = fm.MDP(THREE.mdp.P, THREE.mdp.r, THREE.mdp.s_of, states=states, actions=["a0", "a1"])
    problem = fm.Problem(mdp, [fm.Quota("third", states=[2], at_least=0.25)])
    assert mdp.variables["up"].tolist() == [False, True, True] and mdp.variables["q"].tolist() == [0, 0, 1]
    assert fm.parse_quota(problem, "LRA>=0.1 [up & q=0]").states.tolist() == [False, True, False]
    solution = fm.solve(problem)
    for name in ("s.txt", "s.json"):
        fm.save_strategy(problem, solution, tmp_path / name)
        assert np.allclose(read_policy(problem, tmp_path / name).array, solution.policy)
    rows = [
        {"s": {"up": up, "q": q}, "c": [{"labels": ["a0"], "prob": 1}]} for q, up in ((0, 0), (0, 1), (1, 1))
    ]
    rows = [{**row, "s": {**row["s"], "up": bool(row["s"]["up"])}} for row in rows]
    (tmp_path / "s.json").write_text(json.dumps(rows))
    assert read_policy(problem, tmp_path / "s.json").array.tolist() == [1, 0, 1, 0, 1, 0]
    (tmp_path / "s.json").write_text(json.dumps([{"s": {"q": 2, "up": True}, "c": []}]))
    with pytest.raises(fm.ProblemError, match="no state called '2,True'"):
        read_policy(problem, tmp_path / "s.json")


def test_names_of_states_that_end_as_prism_ends_them(tmp_path):
    """``)=`` may be a part of a name: the state is the first that there is."""
    mdp = fm.MDP(
        THREE.mdp.P, THREE.mdp.r, THREE.mdp.s_of, states=["f(x)=1", "f(x)=2", "g"], actions=["a0", "a1"]
    )
    path = tmp_path / "s.tra"
    path.write_text("(f(x)=1)=a0\n(f(x)=2)=a1\n(g)=a0\n")
    assert read_policy(fm.Problem(mdp), path).array.tolist() == [1, 0, 0, 1, 1, 0]


def test_strategies_as_prism_writes_them(tmp_path):
    path = tmp_path / "s.tra"
    path.write_text("(s0)=a0\n\n(s1)=0.25:a0+0.75:a1\n(s2)=1e-1:a0+0.9:a1\n")
    assert read_policy(THREE, path).array.tolist() == [1, 0, 0.25, 0.75, 0.1, 0.9]
    for text, complaint in (
        ("s0\n", "line 1: expected STATE=ACTION"),
        ("(s0)=a0\n(s0)=a1\n", "line 2: state s0 is there twice"),
        ("(s0)=b\n", "state s0 has no action called 'b'"),
        ("(s0)=a0\n", "does not say what to do in state s1\n  2 of 3 states are missing"),
    ):
        path.write_text(text)
        with pytest.raises((fm.FormatError, fm.ProblemError), match=complaint):
            read_policy(THREE, path)


def test_the_command(run, tmp_path):
    TODAY.save("today.csv")
    code, out, _ = run(
        "audit", "three-state", "today.csv", "--mended", "m.csv", "-o", "m.json", "--csv", "t.csv"
    )
    assert code == 3 and out.startswith("three-state: today.csv is not fair, it breaks s2\n")
    assert (
        "gain    0.526316   worst slack -0.1591; the best fair policy earns 0.443421 with worst slack 0, 0.082895 less"
        in out
    )
    assert "s2      0.0909   >= 0.25   0.1591   NOT MET" in out and "s1: a1 from 100% to 40.6%" in out
    assert (tmp_path / "t.csv").read_text().startswith("quota,low,high,at_least,at_most,short,verdict\n")
    assert run("verify", "three-state", "m.json")[0] == 0
    code, out, _ = run("audit", "three-state", "m.csv")
    assert code == 0 and "m.csv is fair" in out and "as much" in out and "mended" not in out
    answer = json.loads(run("audit", "three-state", "today.csv", "--json")[1])
    assert answer["quotas"][2]["verdict"] == "not fair" and answer["mended"]["status"] == "optimal"
    assert run("audit", "three-state", "today.csv", "--mended", "m.txt")[0] == 2


def test_a_policy_of_ones_own_beside_the_others(run):
    TODAY.save("today.csv")
    seen = fm.compare(THREE, {"today": TODAY})
    assert seen.policies["today"].broken == ("s2",) and list(seen.policies)[-1] == "today"
    code, out, _ = run("compare", "three-state", "--policy", "today=today.csv")
    assert code == 0 and "today" in out.splitlines()[2]
    assert run("compare", "three-state", "--policy", "today.csv")[0] == 2
    with pytest.raises(fm.ProblemError, match="'fair' is a policy of ours"):
        fm.compare(THREE, {"fair": TODAY})
