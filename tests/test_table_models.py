"""Tables of transitions: from every kind of table the same model, and every mistake named by its line."""

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fairmdp as fm
from fairmdp import MDP, FormatError, Problem, ProblemError, Quota

COLUMNS = {
    "state": ["day", "day", "day", "night", "night"],
    "action": ["work", "work", "rest", "sleep", "sleep"],
    "next": ["day", "night", "night", "day", "night"],
    "probability": [0.75, 0.25, 1.0, 0.5, 0.5],
    "reward": [2.0, 4.0, 0.0, 1.0, 1.0],
    "energy": [3.0, 3.0, 1.0, 0.0, 0.5],
    "note": ["long", "", "", "", ""],
}
CSV = """state,action,next,probability,reward
day,work,day,0.75,2
day,work,night,0.25,4
day,rest,night,1,0
night,sleep,day,0.5,1
night,sleep,night,0.5,1
"""
P = [[0.75, 0.25], [0, 1], [0.5, 0.5]]


class Stream:
    """What offers Arrow's C stream and nothing else."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def written(folder, text, name="t.csv"):
    (folder / name).write_text(text)
    return folder / name


def in_csv(folder):
    pd.DataFrame(COLUMNS).to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


def in_parquet(folder):
    pq.write_table(pa.table(COLUMNS), folder / "t.parquet")
    return str(folder / "t.parquet")


@pytest.mark.parametrize("made", [
    lambda folder: COLUMNS,
    lambda folder: {name: np.array(column) for name, column in COLUMNS.items()},
    lambda folder: [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)],
    lambda folder: pd.DataFrame(COLUMNS),
    lambda folder: pd.DataFrame(COLUMNS).astype({"state": "category", "next": "string"}),
    lambda folder: pl.DataFrame(COLUMNS),
    lambda folder: pa.table(COLUMNS),
    lambda folder: Stream(pa.table(COLUMNS)),
    in_csv, in_parquet,
])  # fmt: skip
def test_every_kind_of_table_makes_the_same_model(made, tmp_path):
    mdp = MDP.from_table(made(tmp_path))
    assert mdp.states == ("day", "night") and mdp.actions == ("work", "rest", "sleep")
    assert np.array_equal(mdp.P.toarray(), P) and mdp.s_of.tolist() == [0, 0, 1]
    assert mdp.r.tolist() == [2.5, 0, 1]  # averaged
    assert {name: row.tolist() for name, row in mdp.rewards.items()} == {
        "reward": [2.5, 0, 1],
        "energy": [3, 1, 0.25],
    }


def test_rows_may_stand_in_any_order():
    order = [3, 1, 4, 2, 0]
    shuffled = MDP.from_table({name: [column[k] for k in order] for name, column in COLUMNS.items()})
    assert shuffled.states == ("night", "day") and shuffled.actions == ("sleep", "work", "rest")
    assert np.array_equal(shuffled.P.toarray(), [[0.5, 0.5], [0.25, 0.75], [1, 0]])
    assert shuffled.r.tolist() == [1, 2.5, 0]


def test_what_spreadsheets_write_is_read(tmp_path):
    """A byte order mark, semicolons, decimal commas, per cent, fractions, blank rows, quotes, spare cells."""
    text = (
        "\N{BYTE ORDER MARK}State ;Action;NEXT;Probability;reward;\n day ;work;day;75%;2,5;;\n\nday;work;night;1/4;2,5\n"
        ';;;;\n"day";rest;night;1;\N{MINUS SIGN}1;\nnight;sleep;day;0,5;1\nnight;sleep;night;,5;1\n'
    )
    mdp = MDP.from_table(written(tmp_path, text))
    assert np.array_equal(mdp.P.toarray(), P) and mdp.r.tolist() == [2.5, -1, 1]
    tabs = written(tmp_path, CSV.replace(",", "\t"), "t.tsv")
    assert np.array_equal(fm.load(tabs).mdp.P.toarray(), P)


def test_states_that_are_whole_numbers_are_in_their_order(tmp_path):
    numbers = CSV.replace("day", "1").replace("night", "0")
    mdp = MDP.from_table(written(tmp_path, numbers))
    assert mdp.states is None and np.array_equal(mdp.P.toarray(), [[0.5, 0.5], [0.25, 0.75], [1, 0]])
    assert Problem(mdp, [Quota("q", states=[1], at_least=0.1)]).quotas[0].states.tolist() == [1]
    tens = MDP.from_table(written(tmp_path, CSV.replace("day", "20").replace("night", "10")))
    assert tens.states == ("10", "20")
    with pytest.raises(ProblemError, match="is 10 the state called '10', or the one of number 10"):
        Problem(tens, [Quota("q", states=[10], at_least=0.1)])
    frame = pd.DataFrame(COLUMNS).replace({"day": 1.0, "night": 0.0})
    assert MDP.from_table(frame).states is None


def test_columns_may_have_other_names_and_actions_be_missing():
    chain = {"from": ["a", "a", "b"], "to": ["a", "b", "a"], "p": [0.5, 0.5, 1.0], "gain": [1, 1, 0]}
    columns = {"state": "from", "next": "to", "probability": "p", "reward": "gain", "action": None}
    mdp = MDP.from_table(chain, columns=columns)
    assert mdp.actions is None and np.array_equal(mdp.P.toarray(), [[0.5, 0.5], [1, 0]])
    with pytest.raises(
        ProblemError, match="no column 'action'; there are from, to, p, gain\n.*columns={'action': ...}"
    ):
        MDP.from_table(chain, columns={"state": "from"})


def test_a_duration_may_be_named():
    mdp = MDP.from_table({**COLUMNS, "Duration": [2, 2, 1, 8, 8]})
    assert mdp.durations.tolist() == [2, 1, 8] and "Duration" not in mdp.rewards
    by_name = MDP.from_table({**COLUMNS, "hours": [2, 4, 1, 8, 8]}, columns={"duration": "hours"})
    assert by_name.durations.tolist() == [2.5, 1, 8] and list(by_name.rewards) == ["reward", "energy"]
    problem = Problem(by_name, [Quota("energy", reward="energy", at_most=0.3)])  # per hour
    assert fm.solve(problem).occupancy @ (np.array([3, 1, 0.25]) / [2.5, 1, 8]) == pytest.approx(0.3)


def test_a_reward_of_the_table_is_a_quota():
    problem = Problem(MDP.from_table(COLUMNS), [Quota("energy", reward="energy", at_most=1.0)])
    solution = fm.solve(problem)
    assert fm.verify(problem, solution).ok and solution.quotas[0].share == pytest.approx(1.0)
    occupancy = solution.occupancy
    assert occupancy @ np.array([3, 1, 0.25]) == pytest.approx(1.0)
    assert fm.solve(problem.with_reward("energy").without_quotas()).gain == pytest.approx(2.0833333333)


GROUPS = {
    "state": ["day", "night", "night"],
    "group": ["North", "North", "dark"],
    "at_least": ["", "25%", 0.5],
}


def test_groups_come_from_a_table(tmp_path):
    quotas = fm.quotas_from_table(GROUPS)
    assert [(q.name, q.states, q.at_least) for q in quotas] == [
        ("North", ["day", "night"], 0.25), ("dark", ["night"], 0.5),
    ]  # fmt: skip
    pairs = {
        "state": ["day", "day"],
        "action": ["work", "rest"],
        "group": ["busy", None],
        "at_most": [0.5, None],
    }
    (busy,) = fm.quotas_from_table(pairs)
    assert (busy.pairs, busy.at_least, busy.at_most) == ([("day", "work")], None, 0.5)
    path = written(tmp_path, "ward;group\nday;North\nnight;\n")
    assert fm.quotas_from_table(path, columns={"state": "ward"})[0].states == ["day"]


def test_a_group_may_stand_beside_the_transitions(tmp_path):
    lines = CSV.splitlines()
    grouped = "\n".join(
        [lines[0] + ",group", *(f"{line},{'dark' if line.startswith('night') else ''}" for line in lines[1:])]
    )
    problem = fm.load(written(tmp_path, grouped))
    assert (
        problem.names == ("dark",)
        and problem.quotas[0].states.tolist() == [1]
        and problem.at_least.tolist() == [0]
    )
    wrong = written(
        tmp_path, grouped.replace("night,sleep,night,0.5,1,dark", "night,sleep,night,0.5,1,light")
    )
    with pytest.raises(
        ProblemError, match="line 6: state night is in group 'light', at line 5 it is in 'dark'"
    ):
        fm.load(wrong)


def test_the_command_line_reads_tables(run, tmp_path):
    written(
        tmp_path,
        "state,action,to,probability,pay,joy\nday,work,day,75%,2,0\nday,work,night,25%,4,0\n"
        "day,rest,night,1,0,2\nnight,sleep,day,50%,1,1\nnight,sleep,night,50%,1,1\n",
    )
    written(tmp_path, "state,group\nnight,North\n", "wards.csv")
    words = ("solve", "t.csv", "-p", "next=to", "--groups", "wards.csv", "--quota", "North>=40%", "--reward")
    code, out, err = run(*words, "pay")
    assert code == 0 and "North   0.4000   >= 0.4" in out, err
    renamed = Path("t.csv").read_text().replace("state,", "place,", 1)
    written(tmp_path, renamed, "places.csv")
    written(tmp_path, "place,group\nnight,North\n", "wards.csv")  # a column of the same name is meant
    words = ("solve", "places.csv", "-p", "state=place", *words[2:])
    assert run(*words, "pay")[1].splitlines()[1:] == out.splitlines()[1:]
    code, other, _ = run(*words, "joy")
    assert code == 0 and other.splitlines()[2] != out.splitlines()[2]
    code, out, err = run(
        "solve", "t.csv", "-p", "next=to", "--reward", "pay", "--quota", "joy>=1", "-o", "s.json"
    )
    assert code == 0 and "fairmdp verify t.csv --param=next=to --reward=pay" in out
    assert run("verify", "t.csv", "-p", "next=to", "--reward", "pay", "--quota", "joy>=1", "s.json")[0] == 0
    assert "no column 'next'" in run("solve", "t.csv")[2]
    assert "--param 'nxt=to': the file t.csv takes state, action" in run("solve", "t.csv", "-p", "nxt=to")[2]


def test_a_loaded_table_is_saved_with_its_rewards(tmp_path):
    problem = fm.load(in_csv(tmp_path))
    for name in ("t.npz", "t.toml"):
        fm.save(problem, tmp_path / name)
        again = fm.load(tmp_path / name)
        assert again.digest == problem.digest and again.mdp.rewards.keys() == {"reward", "energy"}
    assert fm.load(tmp_path / "t.npz", reward="energy").mdp.r.tolist() == [3, 1, 0.25]
    with pytest.raises(FormatError, match="t.csv: tables of transitions are read, and not written"):
        fm.save(problem, tmp_path / "t.csv")
    assert Path(tmp_path / "t.csv").stat().st_size > 0


def replaced(old, new):
    assert old in CSV
    return CSV.replace(old, new, 1)


@pytest.mark.parametrize(("text", "message"), [
    (replaced("0.75", "0.7"), "line 2: the probabilities of state day and action work sum to 0.95, expected 1\n  they are in line 2, line 3; 1 of 3 sums"),
    (replaced("0.75", ""), "line 2: probability is missing"),
    (replaced("0.75", "lots"), "line 2: probability is 'lots', expected a number"),
    (replaced("0.75", "75"), "line 2: probability is 75, expected a number from 0 to 1"),
    (replaced("0.75", "1/0"), "line 2: probability is '1/0'"),
    (replaced("0.75", "nan"), "line 2: probability is 'nan', expected a finite number"),
    (replaced("0.75,2", "0.75,"), "line 2: reward is missing"),
    (replaced("day,rest", ",rest"), "line 4: state is missing; 1 of 5 rows lack it"),
    (replaced("day,rest", "day,"), "line 4: action is missing"),
    (replaced("rest,night", "rest,nigth"), "line 4: it leads to 'nigth', and no row says what happens there\n  1 of 5 rows lead to such states\n  did you mean 'night'?"),
    (replaced("rest,night", "rest,closed"), "a state where nothing can be done needs one action"),
    (replaced("work,night", "work,day"), "line 3 and line 2 have the same state, action and next state\n  their probabilities are 0.75 and 0.25"),
    (replaced("1,0\n", "1,0,5\n"), "line 4 has 6 cells, the first line names 5 columns"),
    (replaced("1,0\n", "1\n"), "line 4 has 4 cells"),
    (replaced("reward", "pay"), "no column 'reward'; there are state, action, next, probability, pay"),
    (replaced("probability", "probabilty"), "no column 'probability'; did you mean 'probabilty'?"),
    (replaced("next", "state"), "two columns have the same name, 'state'\n  the first line is to name the columns; this one is state, action, state"),
    (replaced("next", " "), "column 3 has no name\n  the first line is to name the columns"),
    (CSV.splitlines()[0], "the table has no rows"),
    ("\n \n", "there is nothing in it"),
    (CSV.replace("\n", ",x\n").replace("reward,x", "reward,cost").replace("0.75,2,x", "0.75,2,3"), "line 3: cost is 'x', expected a number"),
])  # fmt: skip
def test_mistakes_are_named_by_line(text, message, tmp_path):
    path = written(tmp_path, text)
    with pytest.raises((ProblemError, FormatError)) as caught:
        fm.load(path)
    assert str(caught.value).startswith(f"{path}: ") and message in str(caught.value)


@pytest.mark.parametrize(("table", "message"), [
    (None, "a NoneType is not a table"),
    (np.ones((3, 5)), "a ndarray is not a table"),
    ({**COLUMNS, "reward": [1.0]}, "the columns have different lengths"),
    ({name: [] for name in COLUMNS}, "the table has no rows"),
    ({**COLUMNS, "state": ["day", None, "day", "night", "night"]}, r"row 1 \(from 0\): state is missing"),
    ({**COLUMNS, "probability": [0.75, None, 1, 0.5, 0.5]}, r"row 1 \(from 0\): probability is missing"),
    (pd.DataFrame(COLUMNS).assign(reward=[1, pd.NA, 1, 1, 1]), r"row 1 \(from 0\): reward is missing"),
    (pl.DataFrame(COLUMNS).with_columns(action=pl.lit(None)), r"row 0 \(from 0\): action is missing; 5 of 5"),
    ({**COLUMNS, "state": [["day"]] * 5}, "column state: unhashable type: 'list'"),
    ({**COLUMNS, "probability": [[1]] * 5}, r"probability is \[1\], expected a finite number"),
    ("missing.csv", "missing.csv: cannot be read"),
    ("t.xlsx", r"t.xlsx: a spreadsheet \(.xlsx\) is not read\n  save its sheet as CSV"),
])  # fmt: skip
def test_mistakes_in_frames_are_named_by_row(table, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ProblemError, FormatError), match=message):
        MDP.from_table(table)


@pytest.mark.parametrize(("changes", "message"), [
    ({"at_least": ["10%", "25%", ""]}, r"row 1 \(from 0\): at_least of group North is 0.25, at row 0 \(from 0\) 0.1"),
    ({"group": ["", None, " "]}, "column group names no group"),
    ({"state": ["day", "", "night"]}, "state is missing"),
    ({"at_least": ["a lot", "", ""]}, r"row 0 \(from 0\): at_least is 'a lot', expected a number"),
])  # fmt: skip
def test_mistakes_in_groups_are_named(changes, message):
    with pytest.raises(ProblemError, match=message):
        fm.quotas_from_table(GROUPS | changes)


def test_files_that_are_no_tables_are_refused(tmp_path):
    (tmp_path / "t.parquet").write_text("PAR1 or so")
    with pytest.raises(FormatError, match="t.parquet: not a Parquet file"):
        fm.load(tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_bytes("state,action\nd\xe9p\xf4t,go\n".encode("latin-1"))
    with pytest.raises(FormatError, match="t.csv: line 2 is not UTF-8 text\n  save the sheet as CSV UTF-8"):
        fm.load(tmp_path / "t.csv")
    fm.save(fm.scenarios.three_state(), tmp_path / "m.toml")
    with pytest.raises(FormatError, match="this is not a table"):
        fm.load(tmp_path / "m.toml", columns={"next": "to"})
    with pytest.raises(ProblemError, match="columns names 'nxt', expected state, action, next"):
        fm.load(written(tmp_path, CSV), columns={"nxt": "to"})
