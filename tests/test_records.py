"""Logs from tables and trajectories, and what is learned from them."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from click.testing import CliRunner

from fairmdp import MDP, Chain, Log, Policy, Problem, ProblemError, Quota, learn, record, scenarios, solve
from fairmdp.cli import cli
from fairmdp.learning.counts import Counts
from fairmdp.learning.records import Part, well_tried

ROWS = {
    "state": ["day", "night", "day", "day"], "action": ["work", "sleep", "work", "rest"],
    "reward": [2.0, 0.0, 1.0, 0.5], "next": ["night", "day", "day", "night"],
}  # fmt: skip


def shares_of(problem, policy):
    """Long-run shares of a policy on the true model."""
    x = policy * Chain.of(problem.mdp, policy).shares[problem.mdp.s_of]
    return problem.members @ x


def on_its_model(log):
    """The counted model of a log with numpy alone: (SA, S) frequencies, mean rewards."""
    P, r = np.zeros((log.labels.n_pairs, log.labels.n_states)), np.zeros(log.labels.n_pairs)
    np.add.at(P, (log.pairs, log.s_next), 1)
    np.add.at(r, log.pairs, log.rewards)
    n = np.maximum(P.sum(axis=1), 1)
    return P / n[:, None], r / n


@pytest.mark.parametrize("kind", ["dict", "rows", "pandas", "polars", "arrow", "csv", "parquet"])
def test_tables_of_all_kinds_are_one_log(kind, tmp_path):
    table = {
        "dict": lambda: ROWS,
        "rows": lambda: [dict(zip(ROWS, row, strict=True)) for row in zip(*ROWS.values(), strict=True)],
        "pandas": lambda: pd.DataFrame(ROWS),
        "polars": lambda: pl.DataFrame(ROWS),
        "arrow": lambda: pa.table(ROWS),
        "csv": lambda: pd.DataFrame(ROWS).to_csv(tmp_path / "log.csv", index=False) or tmp_path / "log.csv",
        "parquet": lambda: pd.DataFrame(ROWS).to_parquet(tmp_path / "l.parquet") or tmp_path / "l.parquet",
    }[kind]()
    log = Log.from_table(table)
    assert log.labels.states == ("day", "night")
    assert [log.labels.pair_name(i) for i in range(3)] == ["day/work", "day/rest", "night/sleep"]
    assert log.pairs.tolist() == [0, 2, 0, 1] and log.s_next.tolist() == [1, 0, 0, 1]
    assert log.rewards.tolist() == ROWS["reward"]
    assert log.follows.tolist() == [False, True, True, True] and log.gaps == 0


def test_trajectories_time_and_gaps():
    rows = {
        "s": [1, 2, 1, 1, 2, 9], "a": ["x"] * 6, "r": [0] * 6, "to": [2, 1, 2, 2, 1, 1],
        "patient": ["B", "A", "B", "A", "A", "A"],
        "time": ["2026-11-02", "2026-11-02", "2026-11-01", "2026-11-01", "2026-11-04", "2026-11-03"],
    }  # fmt: skip
    columns = {"state": "s", "action": "a", "reward": "r", "next": "to", "trajectory": "patient"}
    log = Log.from_table(rows, columns=columns)
    # B: 1 to 2 on day 1, then 1 to 2 on day 2, which does not follow; A: 1, 2, then 9, which does not, then 2.
    assert log.labels.states == ("1", "2", "9")
    assert log.labels.s_of[log.pairs].tolist() == [0, 0, 0, 1, 2, 1]
    assert log.follows.tolist() == [False, False, False, True, False, False]
    assert log.gaps == 3 and log.n_trajectories == 2


def test_the_earlier_part_is_the_earlier_one_across_trajectories():
    rows = {"state": ["a"] * 4, "action": ["x"] * 4, "reward": [0] * 4, "next": ["a"] * 4}
    log = Log.from_table(rows | {"trajectory": ["p", "q", "p", "q"], "time": [1, 0, 5, 9]})
    assert log.times[log.earlier(0.5)].tolist() == [1, 0] and log.earlier(0.5).tolist() == [True, False] * 2


def test_actions_of_a_state_stand_as_they_appear():
    rows = {"state": ["a"] * 3, "action": ["z", "y", "x"], "reward": [0, 1, 2], "next": ["b", "a", "a"]}
    log = Log.from_table({**rows, "state": ["a", "c", "c"]})
    names = [log.labels.pair_name(i) for i in range(log.labels.n_pairs)]
    assert names == ["a/z", "c/y", "c/x", "b/not recorded"]
    turned = Log.from_table({name: [*column, *column[::-1]] for name, column in rows.items()})
    assert [turned.labels.action_name(i) for i in range(3)] == ["z", "y", "x"]


def test_late_records_do_not_follow():
    rows = {"state": ["a"] * 5, "action": ["x"] * 5, "reward": [0] * 5, "next": ["a"] * 5}
    log = Log.from_table(rows | {"time": [0, 1, 2, 5, 6]})
    assert log.follows.tolist() == [False, True, True, False, True] and log.gaps == 1


@pytest.mark.parametrize(
    ("times", "first", "gaps"),
    [
        (["1767225600", "1767229200", "1767232800", "1767236400"], 1767225600, 0),  # seconds, from a CSV file
        (
            ["2026-01-01T00:00+01:00", "2026-01-01T00:00Z", "2026-01-01T01:00Z", "2026-01-01T02:00Z"],
            1767222000,
            0,
        ),
        (["2026-01-01T00:00", "2026-01-01T01:00", "2026-01-01T09:00", "2026-01-01T10:00"], 1767225600, 1),
    ],
)
def test_times_are_numbers_or_dates(times, first, gaps):
    log = Log.from_table(ROWS | {"state": ["day"] * 4, "next": ["day"] * 4, "time": times})
    assert log.times[0] == first and log.gaps == gaps and np.diff(log.times).min() == 3600


def test_steps_of_trajectories_are_no_times():
    """The earlier half is that of the first trajectories, not the first steps of all."""
    rows = {"state": ["a"] * 4, "action": ["x"] * 4, "reward": [0, 1, 2, 3], "next": ["a"] * 4}
    log = Log.from_table(rows | {"trajectory": ["p", "p", "q", "q"], "time": ["0", "1", "0", "1"]})
    assert log.rewards[log.earlier(0.5)].tolist() == [0, 1] and log.gaps == 0
    dated = ["2026-01-01", "2026-01-02"] * 2
    log = Log.from_table(rows | {"trajectory": ["p", "p", "q", "q"], "time": dated})
    assert log.rewards[log.earlier(0.5)].tolist() == [0, 2]


def test_the_next_state_may_be_that_of_the_next_row():
    rows = {"state": ["a", "b", "a", "b"], "action": ["x", "y", "x", "y"], "reward": [1, 0, 1, 5]}
    log = Log.from_table(rows | {"trajectory": [1, 1, 1, 2]}, columns={"next": None})
    assert log.n_records == 2 and log.s_next.tolist() == [1, 0] and log.rewards.tolist() == [1, 0]


def test_weights_are_equal_records_in_no_order():
    log = Log.from_table(ROWS | {"weight": [3, 0, 2, 1]})
    assert log.n_records == 6 and not log.ordered and not log.follows.any()
    assert log.per_pair.tolist() == [5, 1, 0] or log.per_pair.sum() == 6
    with pytest.raises(ProblemError, match=r"row 1 .*weight is 0.5, expected a whole number"):
        Log.from_table(ROWS | {"weight": [1, 0.5, 1, 1]})


@pytest.mark.parametrize(
    ("rows", "columns", "words"),
    [
        ({k: v for k, v in ROWS.items() if k != "next"}, None, r"no column 'next'"),
        (ROWS | {"reward": [1, 2, "x", 4]}, None, r"row 2 .*reward is 'x', expected a number"),
        (ROWS | {"reward": [1, None, 3, None]}, None, r"row 1 .*reward is missing; 2 of 4 rows lack it"),
        (ROWS | {"reward": [1, 2, 1e200, 4]}, None, r"record 2 .*pays 1e\+200, expected at most 1e\+100"),
        (
            ROWS | {"time": ["1.1.2026"] * 4},
            None,
            r"row 0 .*time is '1.1.2026', .*\n  write dates as 2026-11-19",
        ),
        (
            ROWS | {"time": ["2026-01-01T00:00", *["2026-01-01T00:00Z"] * 3]},
            None,
            r"row 0 .*time is '2026-01-01T00:00' without a zone, and others have one",
        ),
        (ROWS | {"state": ["day", None, "day", "day"]}, None, r"row 1 .*state is missing"),
        (ROWS, {"to": "next"}, r"columns names 'to', expected state, action"),
        (ROWS, {"reward": None}, r"there is no reward, which a record must have"),
    ],
)
def test_bad_tables_are_refused(rows, columns, words):
    with pytest.raises(ProblemError, match=words):
        Log.from_table(rows, columns=columns)


def test_episodes_of_minari_and_of_a_loop():
    first = SimpleNamespace(
        observations=np.array([0, 1, 2]), actions=np.array([1, 0]), rewards=np.array([0.5, 1.0]),
        terminations=np.array([False, True]), truncations=np.array([False, False]),
    )  # fmt: skip
    second = {"observations": [0, 0], "actions": [1], "rewards": [0.0], "terminations": [False]}
    with pytest.raises(ProblemError, match="trajectory 0 ends by itself in state 2"):
        Log.from_trajectories([first, second])
    log = Log.from_trajectories([first, second], on_terminate="restart")
    names = [log.labels.pair_name(i) for i in log.pairs.tolist()]
    assert names == ["0/1", "1/0", "2/restart", "0/1"] and log.follows.tolist() == [False, True, True, True]
    absorbed = Log.from_trajectories([first, second], on_terminate="absorb")
    assert absorbed.labels.action_name(2) == "not recorded" and absorbed.n_trajectories == 2
    with pytest.raises(ProblemError, match="2 states, 2 actions and 1 rewards"):
        Log.from_trajectories([([0, 1], [0, 0], [1.0])])


def test_a_log_written_as_a_table_is_read_as_it_was(tmp_path):
    log = record(scenarios.jobs().mdp, steps=300, seed=1)
    log.to_table().save(tmp_path / "log.csv")
    again = Log.from_table(tmp_path / "log.csv")
    before, after = log.to_table(), again.to_table()
    assert {name: before[name] for name in before} == {name: after[name] for name in after}


def test_records_are_those_of_the_policy_and_the_model():
    mdp = scenarios.three_state().mdp
    pi = np.array([0.2, 0.8, 1.0, 0.0, 0.5, 0.5])
    log = record(mdp, pi, steps=20_000, seed=3)
    assert record(mdp, pi, steps=50).pairs.tolist() == record(mdp, pi, steps=50, seed=0).pairs.tolist()
    n = np.bincount(log.labels.s_of[log.pairs], minlength=3)
    assert np.abs(log.per_pair / n[mdp.s_of] - pi).max() < 0.02 and log.per_pair[3] == 0
    counted, _ = on_its_model(log)
    tried = log.per_pair > 0
    assert np.abs((counted - mdp.P.toarray())[tried]).max() < 0.02
    assert (log.rewards == mdp.r[log.pairs]).all() and (log.s_next[:-1] == mdp.s_of[log.pairs[1:]]).all()


def test_what_is_hardly_tried_is_not_used():
    # 0 and 1 are well known; 2 is entered once in a hundred steps by action 1, and left by one that is rare.
    P = [[0.5, 0.5, 0], [0.5, 0.49, 0.01], [0.3, 0.7, 0], [0.5, 0, 0.5], [0.2, 0.8, 0]]
    mdp = MDP(P, np.zeros(5), [0, 0, 1, 2, 2])
    seen = Counts.of(np.repeat([0, 1, 2, 3], [30, 25, 40, 3]), np.repeat([0, 2, 0, 0], [30, 25, 40, 3]),
                     np.zeros(98), 5, 3)  # fmt: skip
    assert well_tried(mdp, seen, 20).tolist() == [True, True, True, True, False]  # 2 keeps its most recorded
    no_way_back = Counts.of(np.repeat([0, 1, 2], [30, 25, 40]), np.repeat([0, 2, 0], [30, 25, 40]),
                            np.zeros(95), 5, 3)  # fmt: skip
    kept = well_tried(mdp, no_way_back, 20)
    assert kept.tolist() == [True, False, True, False, False]
    part = Part(Problem(mdp, [Quota("1", [1], at_least=0.2), Quota("2", [2], at_most=0.5)]), kept)
    assert part.states.tolist() == [0, 1] and part.owed.members.toarray().tolist() == [[0, 1], [0, 0]]
    later = Counts.of(np.array([0, 2, 2]), np.array([1, 2, 0]), np.ones(3), 5, 3)
    assert part.leaking(later).tolist() == [False, True] and part.counts(later).total == 2
    assert part.widened(np.array([1.0, 1.0]), seen).tolist() == [1, 0, 1, 1, 0]


def test_weighted_and_conditional_quotas_keep_their_units_on_a_part():
    mdp = scenarios.jobs().mdp
    quotas = [
        Quota("work", weights=np.arange(mdp.n_pairs) - 20.0, at_least=-3.0),
        Quota("of", states=[0, 3], of=[0, 1, 2, 3], at_least=0.4),
    ]
    whole = Problem(mdp, quotas)
    kept = np.ones(mdp.n_pairs, bool)
    kept[mdp.pair_ptr[5] : mdp.pair_ptr[6]] = False
    part = Part(whole, kept).owed
    x = np.random.default_rng(0).dirichlet(np.ones(mdp.n_pairs - (~kept).sum()))
    wide = np.zeros(mdp.n_pairs)
    wide[kept] = x
    assert part.members @ x == pytest.approx(whole.members @ wide)
    assert (part.at_least == whole.at_least).all() and (part.lower == whole.lower).all()
    assert part.conditions[0].mass(x) == pytest.approx(whole.conditions[0].mass(wide))


def test_a_claim_on_the_later_records():
    problem = scenarios.three_state()
    log = record(problem.mdp, steps=4000, seed=5)
    found = learn(log, problem.quotas)
    assert found.guaranteed and found.tested_samples == 2000 and found.samples == 4000
    assert (found.share_low[2] >= 0.25) and (
        shares_of(problem, found.policy) >= problem.at_least - 1e-9
    ).all()
    late = log.part(~log.earlier(0.5))
    P, r = on_its_model(late)
    seen = Problem(MDP(P, r, problem.mdp.s_of), problem.quotas)
    assert found.shares == pytest.approx(shares_of(seen, found.policy))  # on the later records alone
    x = found.policy * Chain.of(seen.mdp, found.policy).shares[problem.mdp.s_of]
    assert found.gain == pytest.approx(r @ x)
    assert np.array_equal(found.policy, learn(log, problem.quotas).policy)


def test_without_a_claim_the_answer_says_what_is_missing_and_that_helps():
    problem = scenarios.three_state(rho=[0.1, 0.1, 0.4])
    found = learn(record(problem.mdp, steps=240, seed=2), problem.quotas)
    assert not found.guaranteed and found.feasible
    assert found.claim.startswith("no claim: the lower bound on s2 is 0.")
    assert "more records of s" in found.claim and found.records.missing[0][1] > 0
    more = 240 + found.records.more_records
    assert 1000 < more < 3000 and learn(record(problem.mdp, steps=more, seed=2), problem.quotas).guaranteed


def test_pairs_that_were_not_tried_are_said_and_not_used():
    problem = scenarios.three_state()
    pi = np.array([1.0, 0.0, 0.6, 0.4, 0.5, 0.5])
    found = learn(record(problem.mdp, pi, steps=4000, seed=2), problem.quotas)
    assert found.records.used.tolist() == [True, False, True, True, True, True] and found.policy[1] == 0
    assert "s0/a1 (0)" in found.notes[0] and np.isinf(found.gap)
    only = Problem(problem.mdp, [Quota("s0/a1", pairs=[1], at_least=0.1)])
    none = learn(record(problem.mdp, pi, steps=4000, seed=2), only.quotas)
    assert not none.feasible and "at least 0.1 of share is missing" in none.claim
    assert none.claim.endswith("1 pairs are not used, more may be had with 40 records of each")
    assert none.records.missing == (("s0/a1", 40),)


def test_a_log_that_comes_to_an_end_is_refused():
    log = Log.from_trajectories([(["a", "b", "end"], [0, 0], [1, 1])] * 30)
    with pytest.raises(
        ProblemError, match="every state in the earlier half leads to one that was never left"
    ):
        learn(log, [Quota("a", states=["a"], at_least=0.1)])


def test_options_of_simulators_are_refused():
    log = Log.from_table(ROWS)
    for given in ({"samples": 100}, {"eps": 0.1}, {"method": "mirror"}):
        with pytest.raises(ProblemError, match="is for simulators"):
            learn(log, [], **given)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    problem = scenarios.three_state()
    record(problem.mdp, steps=3000, seed=1).to_table().save("log.csv")
    return lambda *words: CliRunner().invoke(cli, words)


def test_the_command_learns_from_a_table_of_records(run):
    ended = run("learn", "log.csv", "--quota", "s2>=0.25", "--policy", "p.csv", "-o", "kept.json")
    assert ended.exit_code == 0, ended.output
    assert "from 3,000 records" in ended.stdout and "claim   confirmed on 1,500 later records" in ended.stdout
    assert "certify" not in ended.stdout and "optimal" not in ended.stdout
    kept = json.loads(Path("kept.json").read_text())
    problem = scenarios.three_state(rho=[0, 0, 0.25])
    policy = Policy.of(problem, Policy.load("p.csv"))
    moved = Policy.of(Log.from_table("log.csv").shell, policy)
    assert moved.array.tolist() == pytest.approx(kept["policy"])
    assert (shares_of(problem, policy.array) >= problem.at_least - 1e-9).all()


def test_the_command_says_which_options_are_for_simulators(run):
    ended = run("learn", "log.csv", "--quota", "s2>=0.25", "--samples", "100")
    assert ended.exit_code == 2 and "--samples is for simulators" in ended.output


def test_columns_have_names_on_the_command_line(run):
    rows = Log.from_table("log.csv").to_table()
    pd.DataFrame(rows).rename(columns={"next": "to"}).to_csv("named.csv", index=False)
    assert "no column 'next'" in run("learn", "named.csv", "--quota", "s2>=0.25").exception.args[0]
    assert run("learn", "named.csv", "-p", "next=to", "--quota", "s2>=0.25").exit_code == 0


def test_the_best_gain_is_approached():
    problem = scenarios.three_state()
    found = learn(record(problem.mdp, steps=40_000, seed=9), problem.quotas)
    best = solve(problem).gain
    assert found.guaranteed and best - 0.01 < problem.mdp.r @ (
        found.policy * Chain.of(problem.mdp, found.policy).shares[problem.mdp.s_of]
    ) <= best + 1e-9  # fmt: skip
