"""UMB files: those of Storm are read as it meant them, all that the format allows is read, damage is named."""

import gzip
import lzma

import numpy as np
import pytest
from fuzz import cuts, damaged, edits, read
from hypothesis import given
from umb_files import CTMC, FILES, MDP, system, tar_of

import fairmdp as fm
from fairmdp import FormatError
from fairmdp.io.umb import state_names


def loaded(folder, data, reward=None):
    (folder / "m.umb").write_bytes(data)
    return fm.load(folder / "m.umb", reward=reward)


def test_an_mdp_that_storm_wrote(tmp_path):
    problem = loaded(tmp_path, MDP, "time")
    mdp = problem.mdp
    x, y = mdp.variables["x"], mdp.variables["y"]
    assert sorted(zip(x.tolist(), y.tolist(), strict=True)) == [(a, b) for a in range(3) for b in range(2)]
    assert mdp.initial[mdp.state_index("x=0 & y=0")] == 1 and mdp.n_pairs == 12
    where = {
        name: np.isin(np.arange(6), quota.states)
        for name, quota in zip(problem.names, problem.quotas, strict=True)
    }
    assert np.array_equal(where["home"], x == 2) and np.array_equal(where["odd"], (x % 2 == 1) | (y == 1))
    for i in range(12):
        s, action, row = mdp.s_of[i], mdp.action_name(i), mdp.P[[i]].toarray()[0]
        assert mdp.rewards["time"][i] == 2 * (x[s] == 1) + 1.5 * (action == "go")
        assert mdp.rewards["energy"][i] == 1 + 3 * (action == "stay")
        if action == "go":
            after = {(x[s] + 1, y[s]): 0.9, (0, y[s]): 0.1}
            assert {(x[t], y[t]): row[t] for t in np.flatnonzero(row)} == pytest.approx(after)
    with pytest.raises(FormatError, match="there are 2 reward structures: energy, time"):
        fm.load(tmp_path / "m.umb")
    bounded = problem.with_quotas(
        fm.parse_quotas(problem, ['LRA>=0.3 ["home" & y=1]', 'R{"energy"}<=2 [LRA]'])
    )
    assert fm.verify(bounded, fm.solve(bounded), exact=True).ok


def test_a_model_in_continuous_time_that_storm_wrote(tmp_path):
    mdp = loaded(tmp_path, CTMC).mdp
    n, up = mdp.variables["n"], mdp.variables["up"]
    assert sorted(set(n.tolist())) == [-1, 0, 1, 2] and up.dtype == bool
    rates = 1.5 * ((n < 2) & up) + 2.0 * (n > -1) + np.where(up, 0.25, 4.0)
    assert np.allclose(1 / mdp.durations, rates) and np.allclose(mdp.rates, n + 1)
    generator = (mdp.P.toarray() - np.eye(8)) * rates[:, None]
    shares = np.linalg.lstsq(np.vstack([generator.T, np.ones(8)]), np.eye(9)[8], rcond=None)[0]
    assert fm.solve(fm.Problem(mdp)).gain == pytest.approx(shares @ (n + 1))


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
def test_a_file_by_hand(tmp_path, pack):
    problem = loaded(tmp_path, pack(tar_of(system(), FILES)))
    mdp = problem.mdp
    assert mdp.P.toarray().tolist() == [[0.25, 0.75], [0, 1], [1, 0]] and mdp.s_of.tolist() == [0, 0, 1]
    assert mdp.r.tolist() == [1.0, 1.0, 2.0] and mdp.actions == ("stay", "go", "stay")
    assert mdp.initial.tolist() == [0, 1] and problem.names == ("at home",)
    with pytest.raises(FormatError, match="UMB files are read, and not written"):
        fm.save(problem, tmp_path / "n.umb")


def test_a_last_state_that_nothing_leads_to(tmp_path):
    nowhere = {
        "branch-to-target": np.array([0, 0, 0, 0], np.uint64),
        "branch-to-probability": np.array([0.25, 0.75, 1, 1]),
    }
    mdp = loaded(tmp_path, tar_of(system(), FILES | nowhere)).mdp
    assert mdp.P.toarray().tolist() == [[1, 0], [1, 0], [1, 0]]


def test_rationals_and_files_that_may_be_absent(tmp_path):
    pairs = np.array([[1, 3], [2, 3], [7, 7], [1, 1]], np.int64)
    kept = {k: v for k, v in FILES.items() if not k.startswith(("actions", "annotations", "state-is"))}
    index = system(**{"branch-probability-type": {"type": "rational"}, "#choice-actions": 0})
    index["annotations"] = {}
    mdp = loaded(tmp_path, tar_of(index, kept | {"branch-to-probability": pairs})).mdp
    assert mdp.P.toarray().tolist() == [[1 / 3, 2 / 3], [0, 1], [1, 0]] and not mdp.r.any()
    assert mdp.initial is None and mdp.actions is None
    wide = np.zeros((4, 4), np.int64)  # 256 bits: 128 for each half
    wide[:, 0::2] = pairs
    index["transition-system"]["branch-probability-type"] = {"type": "rational", "size": 256}
    assert (
        loaded(tmp_path, tar_of(index, kept | {"branch-to-probability": wide})).mdp.P.toarray()[0, 0] == 1 / 3
    )
    chain = system(**{"#choices": 2, "#branches": 2, "#players": 0, "#choice-actions": 0})
    chain["annotations"] = {}
    turn = {"branch-to-target": np.array([1, 0], np.uint64), "branch-to-probability": np.ones(2)}
    assert loaded(tmp_path, tar_of(chain, turn)).mdp.P.toarray().tolist() == [[0, 1], [1, 0]]


class Valuations:
    """The two examples of the specification."""

    def __init__(self, variables, states, strings=b"", mapping=()):
        self._variables, self._states, self._strings, self._mapping = (
            variables,
            states,
            strings,
            list(mapping),
        )

    def part(self, *keys):
        return {
            "unique": True,
            "#strings": len(self._mapping) - 1,
            "classes": [{"variables": self._variables}],
        }

    def has(self, name):
        return name.endswith("valuations")

    def raw(self, name, n_bytes):
        assert len(self._states) == n_bytes
        return self._states

    def strings(self, folder, count):
        ends = self._mapping
        return [self._strings[ends[k] : ends[k + 1]].decode() for k in range(count)]


def test_variables_are_unpacked_as_the_specification_shows():
    first = [
        {"name": "v0", "type": {"type": "bool", "size": 2}},
        {"name": "v1", "type": {"type": "uint", "size": 6}, "is-optional": True},
        {"padding": 5},
        {"name": "v2", "type": {"type": "string", "size": 64}},
        {"name": "v3", "type": {"type": "bool", "size": 3}},
        {"padding": 7},
    ]
    # Example 1, with the bit of an option before its value, as the text and its authors' library have it; the
    # picture beside the text has it behind.
    number = 0b01 | 1 << 2 | 27 << 3 | 1 << (9 + 5) | 1 << (9 + 5 + 64)
    files = Valuations(first, number.to_bytes(11, "little"), b"xyzabc", [0, 3, 5, 6])
    assert state_names(files, 1) == ["v0=true & v1=27 & v2=ab & v3=true"]
    without = Valuations(first, (number & ~(1 << 2)).to_bytes(11, "little"), b"xyzabc", [0, 3, 5, 6])
    assert state_names(without, 1) == ["v0=true & v1=none & v2=ab & v3=true"]
    second = [
        {"name": "sv0", "type": {"type": "uint", "size": 8}, "offset": -128},
        {"name": "sv1", "type": {"type": "int", "size": 16}},
    ]
    assert state_names(Valuations(second, bytes([0b10111000, 0b11111111, 0b10111101])), 1) == [
        "sv0=56 & sv1=-16897"
    ]


@pytest.mark.parametrize("number", [0, 1, -1, 2**62, -(2**63), 2**63 - 1])
def test_whole_numbers_of_64_bits(number):
    variables = [{"name": "n", "type": {"type": "int"}}]
    assert state_names(Valuations(variables, number.to_bytes(8, "little", signed=True)), 1) == [f"n={number}"]
    variables = [{"name": "n", "type": {"type": "uint"}}]
    assert state_names(Valuations(variables, (number % 2**64).to_bytes(8, "little")), 1) == [
        f"n={number % 2**64}"
    ]
    variables = [{"name": "d", "type": {"type": "double"}}, {"name": "q", "type": {"type": "rational"}}]
    packed = np.float64(0.5).tobytes() + np.array([-1, 3], np.int64).tobytes()
    assert state_names(Valuations(variables, packed), 1) == ["d=0.5 & q=-1/3"]


@pytest.mark.parametrize(("changes", "files", "message"), [
    ({"#players": 2}, {}, "it has 2 players, and games are not read"),
    ({"#observations": 3}, {}, "it has observations, and a policy here sees the state"),
    ({"branch-probability-type": {"type": "double-interval"}}, {}, "holds 'double-interval', expected double or rational; ranges"),
    ({"time": "urgent-stochastic", "exit-rate-type": {"type": "double"}}, {}, "state 0 has the exit rate 0\n.*take no time are not read"),
    ({"time": "dense"}, {}, "time is 'dense', expected discrete"),
    ({"#states": "2"}, {}, "#states is '2', expected a whole number"),
    ({"#branches": 10**9}, {}, "#branches is 1000000000, more than the file can hold"),
    ({"#choices": 4}, {}, "state-to-choices.bin does not lead from 0 to 4 in ascending steps"),
    ({}, {"choice-to-branches": np.array([0, 3, 2, 4], np.uint64)}, "choice-to-branches.bin does not lead"),
    ({}, {"branch-to-target": np.array([0, 1, 2, 0], np.uint64)}, "branch-to-target.bin: branch 2 leads to state 2 of 2"),
    ({}, {"branch-to-probability": np.ones(3)}, "branch-to-probability.bin has 24 bytes, expected 32"),
    ({}, {"branch-to-probability": np.ones(4)}, r"P\[0\] is not a probability row: it sums to 2"),
    ({}, {"actions/choices/values": np.array([0, 2, 0], np.uint32)}, "choice 1 has action 2 of 2"),
    ({}, {"actions/choices/strings": b"go\xff\xffay"}, "actions/choices/strings.bin is not UTF-8 text"),
    ({"branch-probability-type": {"type": "rational"}}, {"branch-to-probability": np.zeros((4, 2), np.int64)}, "has the denominator 0 at place 0"),
])  # fmt: skip
def test_what_cannot_be_read_is_named(changes, files, message, tmp_path):
    with pytest.raises((FormatError, fm.ProblemError), match=message) as caught:
        loaded(tmp_path, tar_of(system(**changes), FILES | files))
    assert str(caught.value).startswith(str(tmp_path / "m.umb"))


@pytest.mark.parametrize(("data", "message"), [
    (b"", "not a UMB file, which is a tar archive"),
    (b"@type: MDP", "not a UMB file"),
    (gzip.compress(b"no tar", mtime=0)[:-9], "not a UMB file"),
    (tar_of({"format-version": 2}, {}), "format-version is 2, expected 1"),
    (tar_of([], {}), "format-version is None"),
    (tar_of(system(), {}), "state-to-choices.bin does not lead from 0 to 3 in ascending steps .the file is absent"),
], ids=["nothing", "text", "half", "version", "list", "empty"])  # fmt: skip
def test_files_that_are_no_models_are_refused(data, message, tmp_path):
    with pytest.raises(FormatError, match=message):
        loaded(tmp_path, data)


@pytest.mark.fuzz
@given(edits, cuts)
def test_fuzz_damaged_umb(tmp_path_factory, changes, cut):
    data = gzip.decompress(MDP)
    read(fm.load, tmp_path_factory.getbasetemp() / "f.umb", damaged(data, changes, cut))
