"""Problem files with anything in them: a reader gives a problem or a FairMDPError, and nothing else."""

import io as stdio

import numpy as np
import pytest
from fuzz import cuts, damaged, edits, numbers, read
from hypothesis import given
from hypothesis import strategies as st
from test_explicit import DRN, PRISM, written
from test_io import CLINIC, npy, odd_names, rezip

from fairmdp import FairMDPError, FormatError, load, save
from fairmdp.mirror.runs import Checkpoint
from fairmdp.model.mdp import MDP

pytestmark = pytest.mark.fuzz


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


# TOML


@given(edits, cuts)
def test_fuzz_damaged_toml(folder, changes, cut):
    read(load, folder / "f.toml", damaged(CLINIC.encode(), changes, cut))


words = st.sampled_from([
    "s0", "s9", "0.5", "1", "-1", "nan", "inf", "1e400", "true", '"s1"', "[", "]", "{", "}", "{ }", "[[1]]", "=", ".", "\n",
    "[model.s0]", "1e999", "0x10", "'", "07:32:00", "{ s0 = 1 }", "", "weights = { s0 = 1.0, s1 = { a0 = -2 } }",
    "weights = { s0 = 1e308, s1 = -1e308 }", 'pairs = [["s0", "a1"]]', 'states = ["s0", "s0"]', "at_most = -0.0",
])  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 100), words), min_size=1, max_size=3))
def test_fuzz_edited_toml(folder, changes):
    tokens = CLINIC.replace("\n", " \n ").split(" ")
    for place, word in changes:
        tokens[place % len(tokens)] = word
    read(load, folder / "f.toml", " ".join(tokens).encode())


# npz


@pytest.fixture(scope="module")
def arrays(folder):
    save(odd_names(), folder / "good.npz")
    with np.load(folder / "good.npz", allow_pickle=False) as npz:
        return dict(npz)


@given(edits, cuts)
def test_fuzz_damaged_npz(folder, arrays, changes, cut):
    read(load, folder / "f.npz", damaged((folder / "good.npz").read_bytes(), changes, cut))


values = st.one_of(
    st.sampled_from([0, 1, -1, 2**31 - 1, 2**31, -(2**63), 2**63 - 1, 2**40]),
    st.integers(-8, 8),
)


@given(st.data())
def test_fuzz_npz_arrays(folder, arrays, data):
    changed = dict(arrays)
    for name in data.draw(st.lists(st.sampled_from(sorted(arrays)[:-1]), min_size=1, max_size=3)):
        array = changed[name].copy()
        size = data.draw(st.sampled_from([array.size] * 4 + [0, 1, array.size + 1]))
        array = np.resize(array, size)
        for at in data.draw(st.lists(st.integers(0, max(size - 1, 0)), max_size=3)) if size else ():
            value = data.draw(numbers if array.dtype.kind == "f" else values)
            kept = array.dtype.kind == "f" or array.dtype.kind == "b"
            array[at] = value if kept else np.int64(value).astype(array.dtype)
        changed[name] = array
    buffer = stdio.BytesIO()
    np.savez(buffer, **changed)
    read(load, folder / "f.npz", buffer.getvalue())


@given(
    st.sampled_from(["'<f8'", "'<i8'", "'|O'", "'<U9'", "'|V8'", "''", "None", "[]", "'<f8', 'x': 1"]),
    st.text("0123456789,()-L ", max_size=24),
    st.binary(max_size=40),
    st.sampled_from(["r.npy", "P_indptr.npy", "fairmdp.npy", "quota_names.npy", "over_states.npy"]),
)
def test_fuzz_npz_headers(folder, arrays, descr, shape, data, name):
    path = rezip(folder / "h.npz", folder / "good.npz", name, npy(descr, f"({shape}", data))
    read(load, folder / "f.npz", path.read_bytes())


MODEL = MDP([[0, 1], [1, 0]], [1.0, 2.0], [0, 1])
KEPT = {"x": np.arange(4.0), "n": np.array([7])}


@pytest.fixture(scope="module")
def checkpoint(folder):
    Checkpoint(folder / "good.checkpoint", MODEL, 1).save(KEPT)
    return (folder / "good.checkpoint").read_bytes()


@given(edits, cuts)
def test_fuzz_checkpoints(folder, checkpoint, changes, cut):
    """A damaged checkpoint is refused, or what is taken up from it is what was kept."""
    path = folder / "f.checkpoint"
    path.write_bytes(damaged(checkpoint, changes, cut))
    try:
        found = Checkpoint(path, MODEL, 1).load()
    except FairMDPError as error:
        assert str(error).startswith(str(path))
    else:
        assert all(np.array_equal(found[name], array) for name, array in KEPT.items())


@pytest.mark.parametrize("flag", [0x1, 0x20], ids=["encrypted", "patched"])
def test_a_checkpoint_that_claims_to_be_no_plain_zip_is_refused(folder, checkpoint, flag):
    path = rezip(folder / "f.checkpoint", folder / "good.checkpoint", "n.npy", flag_bits=flag)
    with pytest.raises(FormatError, match="this is not a whole checkpoint"):
        Checkpoint(path, MODEL, 1).load()


def test_a_checkpoint_without_one_of_its_arrays_is_refused(folder, checkpoint):
    with np.load(folder / "good.checkpoint") as arrays:
        np.savez(folder / "f.npz", **{name: array for name, array in arrays.items() if name != "n"})
    with pytest.raises(FormatError, match="not a whole checkpoint: an array of it is lost"):
        Checkpoint(folder / "f.npz", MODEL, 1).load()


# PRISM and Storm

PIECES = [
    b"", b" ", b"\n", b"\r\n", b"0", b"-1", b"9" * 18, b"9" * 30, b"1e999", b"1e-300", b":", b"[", b"]", b'"', b"//", b"#", b"\xff",
    b"\x00", b"state 0", b"action", b"nan", b"1/3", b"1/0", b"@model\n", b"=", b",", b"$p", b"(0,1)", b'LRA<=1 ["home"]\n',
]  # fmt: skip


@pytest.mark.parametrize("ending", [*PRISM, "drn", "quotas"])
def test_fuzz_explicit_files(tmp_path, ending):
    files = {"drn": DRN} if ending == "drn" else {**PRISM, "quotas": 'LRA>=0.25 ["home"]\n'}
    model = written(tmp_path, files)
    good = files[ending].encode()
    places, lengths = st.integers(0, len(good)), st.integers(0, 30)

    @given(
        st.lists(
            st.tuples(places, lengths, st.sampled_from(PIECES) | st.binary(max_size=8)),
            min_size=1,
            max_size=4,
        )
    )
    def mutate(changes):
        data = good
        for at, removed, put in changes:
            data = data[:at] + put + data[at + removed :]
        read(lambda _: load(model, reward="pay"), tmp_path / f"m.{ending}", data)

    mutate()


@given(st.binary(max_size=200), st.sampled_from(["tra", "drn", "toml", "npz"]))
def test_fuzz_garbage(folder, data, ending):
    assert read(load, folder / f"garbage.{ending}", data) is None
