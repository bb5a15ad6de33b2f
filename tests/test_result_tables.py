"""Results as tables: what any program takes, and the same numbers as on the objects."""

import csv
import io

import numpy as np
import pytest

import fairmdp as fm
from fairmdp.tables import Table, unguarded

THREE = fm.scenarios.three_state()


def read(text):
    head, *rows = csv.reader(io.StringIO(text))
    return head, rows


def test_a_table_is_a_dict_of_columns():
    table = Table.of(("a", "b"), [(1, "x"), (2, "y")])
    assert type(table).__mro__[1] is dict and dict(table) == {"a": [1, 2], "b": ["x", "y"]}
    assert list(table.rows) == [(1, "x"), (2, "y")] and repr(table) == "Table(2 rows of a, b)"
    with pytest.raises(ValueError):
        Table.of(("a", "b"), [(1,)])


def test_csv_is_guarded_against_formulas_and_can_be_undone(tmp_path):
    names = ["=1+1", "'quoted", "plain", "-x", "a,b", 'say "so"']
    table = Table({"name": names})
    table.save(tmp_path / "t.csv")
    head, rows = read((tmp_path / "t.csv").read_text())
    assert head == ["name"] and [unguarded(cell) for (cell,) in rows] == names
    assert not any(cell.startswith(("=", "-")) for (cell,) in rows)


def test_solutions_and_comparisons():
    solution = fm.solve(THREE)
    table = solution.to_table()
    assert table["quota"] == ["s0", "s1", "s2"] and table["share"] == [row.share for row in solution.quotas]
    seen = fm.compare(THREE)
    table = seen.to_table()
    assert table["policy"] == list(seen.policies) and table["share_s2"][0] == pytest.approx(0.25)


def test_frontiers_have_a_row_for_each_value():
    curve = fm.frontier(THREE, "s2")
    table = curve.to_table()
    assert table["value"] == curve.values.tolist() and table["price"][-1] is None
    assert table["price"][0] == pytest.approx((curve.gains[0] - curve.gains[1]) / np.diff(curve.values)[0])
    head, rows = read(table.to_csv())
    assert head == list(table) and rows[-1][head.index("price")] == ""


def test_grids_have_a_row_for_each_combination():
    grid = fm.frontier_grid(THREE, "s1", "s2", [0.1, 0.2], [0.1, 0.2, 0.3])
    table = grid.to_table()
    k = 4  # second value of s1, second of s2
    assert (table["owed_s1"][k], table["owed_s2"][k]) == (0.2, 0.2) and len(table["gain"]) == 6
    assert table["gain"][k] == grid.gains[1, 1] and table["share_s0"][k] == grid.shares[1, 1, 0]


def test_what_is_learned_certified_and_simulated():
    simulator = THREE.mdp.simulator()
    found = fm.learn(simulator, THREE.quotas, samples=6000, seed=1)
    assert found.to_table()["share"] == found.shares.tolist()
    history = found.history_table()
    assert history["samples"] == [r.samples for r in found.history] and history["claim"][-1] == found.claim
    assert history["share_s1"][-1] == found.shares[1]
    proof = fm.certify(simulator, found.policy, THREE.quotas, samples=5000)
    assert proof.to_table()["verdict"] == list(proof.verdicts)
    seen = fm.simulate(THREE.mdp, found.policy, steps=100, runs=5, quotas=THREE.quotas)
    table = seen.to_table()
    assert table["met"] == seen.met.tolist() and table["after_steps_0.5"] == seen.quantiles([0.5])[0].tolist()


def test_a_console_shows_results_in_a_line():
    three = fm.scenarios.three_state()
    grid = fm.frontier_grid(three, "s1", "s2", [0.1], [0.1, 0.46])
    assert repr(grid) == "FrontierGrid(s1 by s2, 2 of 2 combinations can be met)"
    assert repr(fm.verify(three, fm.solve(three))).startswith(
        "Verdict(confirmed, optimal, gain in [0.443421, 0.443421]"
    )
    other = fm.verify(fm.scenarios.three_state([0.1, 0.1, 0.2]), fm.solve(three))
    assert repr(other).startswith("Verdict(NOT CONFIRMED, ")
    assert repr(fm.compare(three)).startswith("Comparison(fair: gain=0.443421, worst_slack=")
