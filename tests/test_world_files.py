"""Worlds and plans as files: what is kept, what a plan proves after reading, and what is refused."""

import dataclasses
import io as stdio
import zipfile
from contextlib import suppress

import numpy as np
import pytest
from fuzz import cuts, damaged, edits
from hypothesis import given
from hypothesis import strategies as st
from worlds import random_world

import fairmdp as fm
from fairmdp.io import toml_world

CLINIC = """
fairmdp_world = 1

[[components]]
name = "client"
rows = ["ann", "bob"]
states = ["0", "1"]
[components.model.0.wait]
reward = 0
to = { 0 = [0.4, 0.6], 1 = [0.6, 0.4] }
[components.model.1.wait]
reward = 0
to = { 1 = 1.0 }
[components.model.1.serve]
reward = [1.0, 2.0]
uses = { slots = 1 }
to = { 0 = 1.0 }

[[components]]
name = "guest"
count = 3
[components.model.here.rest]
reward = 0
to = { here = 1.0 }
[components.model.here.go]
reward = 0.1
uses = { slots = 0.5 }
to = { here = 1.0 }

[[resources]]
name = "slots"
capacity = 1

[[quotas]]
name = "idle"
states = ["0"]
at_least = [0.5, 0.2]
components = ["client"]

[[quotas]]
name = "busy"
weights = { client = { 1 = { serve = 2.0 } }, guest = { here = { go = 1.0 } } }
at_most = { client = 1.5, guest = 0.9 }

[[groups]]
name = "served"
weights = { client = { 1 = { serve = 1.0 } } }
at_least = 0.3
members = [0, 1]
"""


@pytest.fixture
def clinic(tmp_path):
    (tmp_path / "clinic.toml").write_text(CLINIC)
    return fm.load_world(tmp_path / "clinic.toml")


def assert_same(one, other):
    """The same arrays for kernels, the same names, the same capacity and group quotas."""
    for a, b in zip(one.blocks, other.blocks, strict=True):
        for name, array, twin in zip(a._fields, a, b, strict=True):
            np.testing.assert_array_equal(*np.broadcast_arrays(array, twin), err_msg=name)
    assert [of.name for of in one.components] == [of.name for of in other.components]
    assert [one.row_name(i) for i in range(one.n_rows)] == [other.row_name(i) for i in range(other.n_rows)]
    for a, b in zip(one.components, other.components, strict=True):
        assert [a.mdp.pair_name(i) for i in range(a.mdp.n_pairs)] == [
            b.mdp.pair_name(i) for i in range(b.mdp.n_pairs)
        ]
    assert [r.name for r in one.resources] == [r.name for r in other.resources]
    assert [q.name for q in (*one.quotas, *one.groups)] == [q.name for q in (*other.quotas, *other.groups)]
    assert np.array_equal(one.capacity, other.capacity)
    assert np.array_equal(one.group_owed, other.group_owed)
    assert one.sides == other.sides and one.group_sides == other.group_sides


def test_a_file_written_by_hand_says_what_it_says(clinic):
    assert clinic.n_rows == 3 and clinic.n_components == 5 and clinic.row_name(1) == "bob"
    rows, guest = clinic.blocks
    assert rows.P[:, 0].tolist() == [0.4, 0.6] and rows.r[:, 2].tolist() == [1, 2]
    assert rows.uses[0, :, 0].tolist() == [0, 0, 1] and guest.uses[0, :, 0].tolist() == [0, 0.5]
    assert rows.owed.tolist() == [[0.5, -1.5], [0.2, -1.5]] and guest.owed.tolist() == [[-np.inf, -0.9]]
    assert clinic.group_members[0].tolist() == [True, True, False]
    assert fm.solve_world(clinic).status == "optimal"


@pytest.mark.parametrize("ending", ["toml", "npz"])
def test_what_is_written_is_read_again(tmp_path, clinic, ending):
    names = fm.Components("c", clinic.components[1].mdp, names=["x"], count=2)
    bare = fm.World([names])
    worlds = [clinic, bare, fm.scenarios.job_server(5, memory=2), fm.scenarios.gpu_tenants(4, backlog=4)]
    worlds += [random_world(seed, quotas=2, caps=True) for seed in range(6)]
    for world in worlds:
        path = tmp_path / f"w.{ending}"
        fm.save(world, path)
        again = fm.load_world(path)
        assert_same(world, again)
        first = path.read_bytes()
        fm.save(again, path)
        assert path.read_bytes() == first


def test_sets_are_written_by_name(tmp_path):
    fm.save(fm.scenarios.job_server(2), tmp_path / "w.toml")
    assert 'name = "short queue"\nstates = ["0", "1", "2", "3"]\n' in (tmp_path / "w.toml").read_text()


def test_worlds_and_problems_are_told_apart(tmp_path, clinic):
    for ending in ("toml", "npz"):
        fm.save(clinic, tmp_path / f"w.{ending}")
        fm.save(fm.scenarios.three_state(), tmp_path / f"p.{ending}")
        with pytest.raises(fm.FormatError, match=rf"w\.{ending}: this file holds a world"):
            fm.load(tmp_path / f"w.{ending}")
        with pytest.raises(fm.FormatError, match=rf"p\.{ending}: .*fairmdp_world"):
            fm.load_world(tmp_path / f"p.{ending}")
    with pytest.raises(fm.FormatError, match=r"'.drn' is not a format of worlds, expected .toml or .npz"):
        fm.save(clinic, tmp_path / "w.drn")
    with pytest.raises(fm.FormatError, match="TOML is written up to 20,000\n  save it as .npz"):
        fm.save(fm.scenarios.job_server(300), tmp_path / "big.toml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("fairmdp_world = 1", "fairmdp_world = 2", "fairmdp_world: this is format 2, expected 1"),
        ("reward = [1.0, 2.0]", "reward = [1.0, 2.0, 3.0]", "there are 2 numbers for 3 rows"),
        ("reward = [1.0, 2.0]", 'reward = [1.0, "x"]', r'components\[0\].model.1.serve.reward\[1\]: expected a number, got "x"'),
        ("reward = [1.0, 2.0]", "reward = [1.0, nan]", "r.* is nan, expected a finite number"),
        ("to = { 0 = 1.0 }", "to = { 9 = 1.0 }", r'components\[0\].model.1.serve.to.9: client has no state called "9"'),
        ("to = { 0 = 1.0 }", "to = { 0 = 0.7 }", "chances of a pair sum to 0.7, expected 1"),
        ("to = { 0 = 1.0 }", "to = { }", r"components\[0\].model.1.serve.to: it leads nowhere"),
        ("uses = { slots = 1 }", "uses = { slot = 1 }", "there is no resource called \"slot\"; did you mean 'slots'"),
        ("uses = { slots = 1 }", "uses = { slots = -1 }", "uses -1.0, expected at least 0"),
        ('states = ["0", "1"]', 'states = ["0"]', r"components\[0\].model.1: this state is not listed in states"),
        ('states = ["0", "1"]', 'states = ["0", "1", "2"]', r"components\[0\].states\[2\]: there is no table \[components.model.2.<action>\]"),
        ("capacity = 1", "capacity = -1", "resource slots: capacity is -1"),
        ("capacity = 1", 'capacity = "1"', r'resources\[0\].capacity: expected a number, got "1"'),
        ('states = ["0"]\nat', 'states = ["7"]\nat', r'quotas\[0\].states\[0\]: client has no state called "7"'),
        ('components = ["client"]', 'components = ["clint"]', "there are no components called \"clint\"; did you mean 'client'"),
        ('components = ["client"]', "", r"quotas\[0\].at_least: there are 2 numbers for 1 row\b"),
        ("at_least = [0.5, 0.2]", "at_least = [0.5]", None),
        ("at_least = [0.5, 0.2]", "at_least = [0.5, 0.2, 0.1]", r"quotas\[0\].at_least: there are 3 numbers for 2 rows"),
        ("at_least = [0.5, 0.2]", "at_least = inf", "at_least is infinite"),
        ("{ here = { go = 1.0 } }", "{ here = { gone = 1.0 } }", 'state "here" has no action called "gone"; there are rest, go'),
        ("members = [0, 1]", "members = [0, 9]", "members are numbers of rows, 0 to 2"),
        ("members = [0, 1]", "members = [0.5]", r"groups\[0\].members\[0\]: expected a whole number, got 0.5"),
        ("members = [0, 1]", "mumbers = [0]", r"groups\[0\].mumbers: there is no such field"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_in_toml_is_named(tmp_path, old, new, message):
    assert CLINIC.count(old) == 1, "the edit is meant for one place"
    path = tmp_path / "w.toml"
    path.write_text(CLINIC.replace(old, new))
    if message is None:
        assert fm.load_world(path).blocks[0].owed[:, 0].tolist() == [0.5, 0.5]
        return
    with pytest.raises(fm.FairMDPError, match=message) as error:
        fm.load_world(path)
    assert str(error.value).startswith(str(path))


def test_a_short_file_cannot_ask_for_any_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(toml_world, "MAX_NUMBERS", 10)
    (tmp_path / "w.toml").write_text(CLINIC)
    with pytest.raises(fm.FormatError, match=r"components\[0\]: the rows have 38 numbers, 10 are read"):
        fm.load_world(tmp_path / "w.toml")


def changed_npz(path, **changes):
    """The file with some members changed, or left out for None."""
    with np.load(path) as npz:
        arrays = dict(npz)
    arrays |= changes
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(fairmdp_world=np.array([3])), "this is format 3, expected 1"),
        ({"r.0": None}, "the member 'r.0' is missing"),
        ({"s_of.2": np.zeros(2, int)}, "the member '[a-z_]+.2' is missing"),
        ({"P.0": np.ones(5)}, "P.0 has 5 entries, expected 2 x 4"),
        ({"P.0": np.full(8, np.nan)}, r"components client: P\[0, 0\] is nan, expected a probability"),
        ({"P.0": np.ones(8, np.float32)}, "P.0 holds <f4, expected <f8"),
        ({"s_of.0": np.array([0, 10**9, 1])}, "s_of.0 names state 1000000000, but there are only 3 pairs"),
        ({"s_of.0": np.array([-1, 0, 1])}, "s_of"),
        ({"cols.0": np.array([1, 0, 1, 0])}, "cols.0 does not rise within every pair of client"),
        ({"cols.0": np.array([0, 9, 1, 0])}, "client|indices|state"),
        ({"row_ptr.0": np.array([0, 9, 3, 4])}, "row_ptr.0 does not rise from 0 to 4"),
        ({"uses.0": np.ones(7)}, "uses.0 has 7 entries, expected 2 x 3 x 1"),
        ({"uses.0": np.array([0, 0, np.inf])}, "uses inf, expected at least 0"),
        ({"at_least.0": np.ones(3), "at_most.0": np.ones(3)}, "at_least.0 has 3 entries, expected 2 x 2"),
        ({"at_most.0": np.ones(3)}, "at_most.0 has 3 entries, expected 4 by at_least.0"),
        ({"capacity": np.array([np.nan])}, "resource slots: capacity is nan"),
        ({"capacity": np.ones(2)}, "resource_names has 1 names, expected 2"),
        ({"count.0": np.array([0, 1])}, r"count\[0\] is 0, expected at least 1"),
        ({"group_members": np.ones(2, bool)}, "group_members has 2 entries, expected 1 x 3"),
        ({"component_names": np.frombuffer(b"client\nclient", np.uint8)}, "two of component_names are the same"),
        ({"action_names.0": np.frombuffer(b"a", np.uint8)}, "action_names.0 has 1 names, expected 3"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_in_npz_is_named(tmp_path, clinic, changes, message):
    fm.save(clinic, tmp_path / "w.npz")
    with pytest.raises(fm.FairMDPError, match=message) as error:
        fm.load_world(changed_npz(tmp_path / "w.npz", **changes))
    assert str(error.value).startswith(str(tmp_path / "w.npz"))


@pytest.mark.parametrize("capacity", [None, 3])
def test_a_plan_is_verified_from_its_file(tmp_path, capacity):
    """What is read proves what was written: an optimum, and that there is too little."""
    world = fm.scenarios.job_server(40, capacity=capacity)
    plan = fm.solve_world(world)
    fm.save(world, tmp_path / "w.npz")
    plan.save(tmp_path / "p.npz")
    world, again = fm.load_world(tmp_path / "w.npz"), fm.WorldPlan.load(tmp_path / "p.npz")
    assert again.status == plan.status == ("infeasible" if capacity else "optimal")
    assert again.counters == plan.counters and again.stopped == plan.stopped
    for name, value in dataclasses.asdict(plan).items():
        np.testing.assert_equal(dataclasses.asdict(again)[name], value)
    assert fm.verify(world, again).ok
    with pytest.raises(fm.ProblemError, match="the plan is of another world"):
        fm.verify(fm.scenarios.job_server(41), again)


def test_a_plan_of_who_cannot_be_served_alone_is_kept(tmp_path):
    world = fm.scenarios.job_server(6, owed=1.0, limit=0, seed=5)
    plan = fm.solve_world(world)
    assert plan.alone is not None
    plan.save(tmp_path / "p.npz")
    again = fm.WorldPlan.load(tmp_path / "p.npz")
    assert again.alone.rows.tolist() == plan.alone.rows.tolist() and fm.verify(world, again).ok


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"words": np.frombuffer(b"best\nx\n", np.uint8)}, "words: 'best' is none of optimal"),
        ({"numbers": np.ones(2)}, "numbers has 2 entries, expected 3"),
        ({"size.0": np.array([-1, 1, 1, 1, 0, 1])}, "expected 6 sizes"),
        ({"size.0": np.array([2**62, 2**62, 1, 1, 0, 1])}, "witness.0 has 520 entries"),
        ({"alone_rows": np.array([1])}, "only 1 are there"),
        ({"shortage": np.ones(2)}, "it comes with shortage_prices|comes with"),
    ],
)  # fmt: skip
def test_a_hostile_plan_is_refused(tmp_path, changes, message):
    fm.solve_world(fm.scenarios.job_server(40)).save(tmp_path / "p.npz")
    with pytest.raises(fm.FormatError, match=message) as error:
        fm.WorldPlan.load(changed_npz(tmp_path / "p.npz", **changes))
    assert str(error.value).startswith(str(tmp_path / "p.npz"))


def test_a_forged_plan_is_not_confirmed(tmp_path):
    """Numbers that are none, and rows that there are not."""
    world = fm.scenarios.job_server(40)
    plan = fm.solve_world(world)
    outcomes = plan.blocks[0].outcomes.copy()
    outcomes[:, 1] = np.nan
    forged = dataclasses.replace(plan, blocks=(plan.blocks[0]._replace(outcomes=outcomes),))
    assert not fm.verify(world, forged).ok
    alone = fm.world.Alone(np.array([10**6]), np.array([0]), np.array([0.0]))
    with pytest.raises(fm.ProblemError, match="the plan is of another world"):
        fm.verify(world, dataclasses.replace(plan, status=fm.Status.INFEASIBLE, alone=alone))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "good.toml").write_text(CLINIC)
    world = fm.load_world(folder / "good.toml")
    fm.save(world, folder / "good.npz")
    fm.solve_world(world).save(folder / "plan.npz")
    return folder


@pytest.mark.fuzz
@given(st.sampled_from(["good.toml", "good.npz", "plan.npz"]), edits, cuts)
def test_fuzz_damaged_files(folder, name, changes, cut):
    """A reader gives a world or a plan, or a FairMDPError, and nothing else."""
    path = folder / f"f{name}"
    path.write_bytes(damaged((folder / name).read_bytes(), changes, cut))
    with suppress(fm.FairMDPError):
        fm.WorldPlan.load(path) if name == "plan.npz" else fm.load_world(path)


@pytest.mark.fuzz
@given(st.data())
def test_fuzz_arrays(folder, data):
    """Arrays with anything in them, in a sound zip; a plan that is read is judged without an accident."""
    name = data.draw(st.sampled_from(["good.npz", "plan.npz"]))
    with np.load(folder / name) as npz:
        arrays = dict(npz)
    for member in data.draw(st.lists(st.sampled_from(sorted(arrays)), min_size=1, max_size=3)):
        array = arrays[member].copy()
        array = np.resize(array, data.draw(st.sampled_from([array.size] * 4 + [0, 1, array.size + 1])))
        for at in (
            data.draw(st.lists(st.integers(0, max(array.size - 1, 0)), max_size=3)) if array.size else ()
        ):
            value = data.draw(st.sampled_from([0, 1, -1, 2, 127, np.nan, np.inf, 1e300, -1e-300]))
            whole = array.dtype.kind != "f"
            array[at] = int(np.nan_to_num(value, posinf=99)) % 100 if whole else value
        arrays[member] = array
    buffer = stdio.BytesIO()
    np.savez(buffer, **arrays)
    path = folder / "f.npz"
    path.write_bytes(buffer.getvalue())
    with suppress(fm.FairMDPError):
        if name == "good.npz":
            fm.load_world(path)
        else:
            fm.verify(fm.load_world(folder / "good.npz"), fm.WorldPlan.load(path))


def test_files_hold_nothing_that_runs(folder):
    for name in ("good.npz", "plan.npz"):
        with zipfile.ZipFile(folder / name) as archive:
            assert all(b"|O" not in archive.read(member)[:128] for member in archive.namelist())
