"""Problems as npz, the format for large models: plain arrays in a zip, nothing that could run code.

============================  ==========  ==============  ====================================================
member                        type        size            content
============================  ==========  ==============  ====================================================
fairmdp                       int         1               version of the format
P_indptr, P_indices, P_data   int, float  SA + 1, n, n    transitions, CSR
r, s_of                       float, int  SA              reward and state of each pair
initial                       float       S               optional
durations                     float       SA              optional: mean time that each pair takes
time_unit                     uint8       any             optional; UTF-8
state_names, action_names     uint8       any             optional; UTF-8, one name per line
reward_rows                   float       R * SA          optional: rewards with names, one after the other
reward_names                  uint8       any             optional; UTF-8, one name per line
quota_indptr, quota_indices   int         K + 1, m        pairs of each quota, CSR
quota_weights                 float       m               optional: what each of these pairs counts; else 1
at_least, at_most             float       K               bounds, in the units of the weights
over_states                   bool        K               whether the quota is over states
expected                      bool        K               optional: whether it is one of the mean over runs
of_indptr, of_indices         int         K + 1, c        optional: pairs of each quota's condition, CSR
quota_names                   uint8       any             UTF-8, one name per line
============================  ==========  ==============  ====================================================

Integers have 4 or 8 bytes, floats 8. Everything that the headers say is checked before an array is
allocated, so a hostile file costs no more than a good one of its size.
"""

from __future__ import annotations

import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from fairmdp.errors import FormatError
from fairmdp.files import reading, replacing
from fairmdp.model.mdp import MDP
from fairmdp.model.problem import Problem

VERSION = 1

MAX_BYTES = 16 * 2**30
"""Largest total size of the arrays in a file that is read; half of the machine's memory is a limit too."""

_INT, _FLOAT, _TEXT, _BOOL = ("<i4", "<i8"), ("<f8",), ("|u1",), ("|b1",)


class _Member(NamedTuple):
    dtypes: tuple[str, ...]
    size: str  # members with the same letter have the same size ...
    extra: int = 0  # ... plus this
    optional: bool = False


_MEMBERS = {
    "fairmdp": _Member(_INT, "one"),
    "P_indptr": _Member(_INT, "SA", 1),
    "P_indices": _Member(_INT, "transitions"),
    "P_data": _Member(_FLOAT, "transitions"),
    "r": _Member(_FLOAT, "SA"),
    "s_of": _Member(_INT, "SA"),
    "initial": _Member(_FLOAT, "S", optional=True),
    "durations": _Member(_FLOAT, "SA", optional=True),
    "time_unit": _Member(_TEXT, "unit text", optional=True),
    "state_names": _Member(_TEXT, "state text", optional=True),
    "action_names": _Member(_TEXT, "action text", optional=True),
    "reward_rows": _Member(_FLOAT, "named rewards", optional=True),
    "reward_names": _Member(_TEXT, "reward text", optional=True),
    "quota_indptr": _Member(_INT, "K", 1),
    "quota_indices": _Member(_INT, "members"),
    "quota_weights": _Member(_FLOAT, "members", optional=True),
    "at_least": _Member(_FLOAT, "K"),
    "at_most": _Member(_FLOAT, "K"),
    "over_states": _Member(_BOOL, "K"),
    "expected": _Member(_BOOL, "K", optional=True),
    "of_indptr": _Member(_INT, "K", 1, optional=True),
    "of_indices": _Member(_INT, "conditions", optional=True),
    "quota_names": _Member(_TEXT, "quota text"),
}

# What numpy writes for a vector, and nothing else: no dtype is made from what a file says.
_HEADER = re.compile(
    rb"\{'descr': '([<>|=]\w{1,4})', 'fortran_order': False, 'shape': \((\d{1,18}),\), \} *\n"
)
_PREFIX = struct.Struct("<6s2BH")  # magic, version of npy, length of the header
_MAX_HEADER = 1024
_MAX_INFLATION = 1100  # deflate cannot do better than 1032 to 1
_CHUNK = 2**24
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, struct.error, OSError, EOFError, ValueError, OverflowError,
    NotImplementedError, RuntimeError, MemoryError,
)  # fmt: skip

Arrays = dict[str, NDArray[Any]]


def read(path: str, *, max_bytes: int = MAX_BYTES) -> Problem:
    """Read a problem."""
    with reading(path) as file, _damage_named():
        arrays = _read_arrays(file, max_bytes)
    return from_arrays(arrays)


def write(problem: Problem, path: str) -> None:
    """Write a problem; the same problem gives the same bytes."""
    with replacing(path) as file:
        np.savez(file, allow_pickle=False, **to_arrays(problem))


def to_arrays(problem: Problem) -> Arrays:
    """Members of the file of a problem."""
    mdp = problem.mdp
    arrays: Arrays = {
        "fairmdp": np.array([VERSION]),
        "P_indptr": mdp.P.indptr,
        "P_indices": mdp.P.indices,
        "P_data": mdp.P.data,
        "r": mdp.r,
        "s_of": mdp.s_of,
        "quota_indptr": problem.weights.indptr,
        "quota_indices": problem.weights.indices,
        "at_least": problem.lower,
        "at_most": problem.upper,
        "over_states": problem.over_states,
        "quota_names": _text(problem.names),
    }
    if problem.weighted.any():
        arrays["quota_weights"] = problem.weights.data
    if problem.conditions:
        arrays |= _conditional(problem)
    if problem.expected.any():
        arrays["expected"] = problem.expected
    if mdp.initial is not None:
        arrays["initial"] = mdp.initial
    if mdp.durations is not None:
        arrays["durations"] = mdp.durations
    if mdp.time_unit is not None:
        arrays["time_unit"] = _text((mdp.time_unit,))
    if mdp.states is not None:
        arrays["state_names"] = _text(mdp.states)
    if mdp.actions is not None:
        arrays["action_names"] = _text(mdp.actions)
    if mdp.reward_names:
        arrays["reward_rows"] = mdp.reward_rows.ravel()
        arrays["reward_names"] = _text(mdp.reward_names)
    # The byte order is part of the format, whatever the machine's is.
    return {name: array.astype(array.dtype.newbyteorder("<"), copy=False) for name, array in arrays.items()}


def _conditional(problem: Problem) -> Arrays:
    """Quotas as they were stated, with the sets of conditional ones in place of their weights."""
    lower, upper = problem.stated_bounds
    rows, empty = [problem.weights[[k]] for k in range(problem.n_quotas)], csr_array((1, problem.mdp.n_pairs))
    of = [empty] * problem.n_quotas
    for c in problem.conditions:
        rows[c.quota], of[c.quota] = _row(c.within, empty.shape), _row(c.of, empty.shape)
    sets, conditions = vstack(rows, format="csr"), vstack(of, format="csr")
    return {
        "quota_indptr": sets.indptr, "quota_indices": sets.indices, "quota_weights": sets.data,
        "at_least": lower, "at_most": upper,
        "of_indptr": conditions.indptr, "of_indices": conditions.indices,
    }  # fmt: skip


def _row(pairs: NDArray[np.int64], shape: tuple[int, int]) -> csr_array:
    """One row with a 1 for each pair."""
    return csr_array((np.ones(pairs.size), pairs, [0, pairs.size]), shape=shape)


@contextmanager
def _damage_named() -> Iterator[None]:
    """Turn whatever a zip with the wrong bytes raises into an error that says so."""
    try:
        yield
    except FormatError:
        raise
    except _DAMAGE as error:
        raise FormatError(f"not an .npz file, or damaged: {error or type(error).__name__}") from None


def _read_arrays(file: IO[bytes], max_bytes: int) -> Arrays:
    """Arrays of the file, once all headers have been checked against each other and the limits."""
    size = os.fstat(file.fileno()).st_size
    with zipfile.ZipFile(file) as archive:
        infos = _entries(archive, size, min(max_bytes, _half_of_memory()))
        _check_version(archive, infos)
        _check_members(infos)
        headers = {name: _header(archive, name, info) for name, info in infos.items()}
        _check_sizes({name: count for name, (_, count) in headers.items()})
        return {name: _array(archive, infos[name], *header) for name, header in headers.items()}


def _entries(archive: zipfile.ZipFile, size: int, limit: float) -> dict[str, zipfile.ZipInfo]:
    """Entries of the zip by member name, none of which claims more than it can hold."""
    infos: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        if name in infos:
            raise FormatError(f"the member {name!r:.60} is there twice")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise FormatError(f"the member {name!r:.60} is compressed in a way that .npz does not use")
        if info.compress_size > size or info.file_size > _MAX_INFLATION * info.compress_size:
            raise FormatError(f"the member {name!r:.60} cannot hold the {info.file_size:,} bytes it claims")
        infos[name] = info
    total = sum(info.file_size for info in infos.values())
    if total > limit:
        raise FormatError(f"the arrays take {total:,} bytes, the limit is {limit:,}")
    return infos


def _half_of_memory() -> float:
    """Bytes of arrays that fit in memory together with their copy."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, ValueError, OSError):
        return math.inf


def _check_version(archive: zipfile.ZipFile, infos: dict[str, zipfile.ZipInfo]) -> None:
    """Refuse another version first, since its members may be others."""
    info = infos.get("fairmdp")
    if info is None:
        raise FormatError("there is no member 'fairmdp': this is not a problem file")
    dtype, count = _header(archive, "fairmdp", info)
    if count != 1:
        raise FormatError(f"fairmdp has {count:,} entries, expected 1")
    version = int(_array(archive, info, dtype, count)[0])
    if version != VERSION:
        raise FormatError(f"this is format {version}, expected {VERSION}")


def _check_members(infos: dict[str, zipfile.ZipInfo]) -> None:
    for name in infos:
        if name not in _MEMBERS:
            raise FormatError(f"the member {name!r:.60} is unknown")
    for name, member in _MEMBERS.items():
        if name not in infos and not member.optional:
            raise FormatError(f"the member {name!r} is missing")


def _header(archive: zipfile.ZipFile, name: str, info: zipfile.ZipInfo) -> tuple[str, int]:
    """Type and number of entries of a member, which fill it exactly."""
    with archive.open(info) as stream:
        header = _header_text(stream)
    match = _HEADER.fullmatch(header)
    if match is None:
        raise FormatError(f"{name} is not a vector in npy format")
    dtype, count = match[1].decode(), int(match[2])
    wanted = _MEMBERS[name].dtypes
    if dtype not in wanted:
        raise FormatError(f"{name} holds {dtype}, expected {' or '.join(wanted)}")
    held = info.file_size - _PREFIX.size - len(header)
    if count * np.dtype(dtype).itemsize != held:
        raise FormatError(f"{name} claims {count:,} entries of {dtype}, but holds {held:,} bytes")
    return dtype, count


def _header_text(stream: IO[bytes]) -> bytes:
    """Header of an npy stream, which is left where its numbers begin; empty if it is none."""
    magic, major, _, length = _PREFIX.unpack(stream.read(_PREFIX.size))
    return stream.read(length) if magic == b"\x93NUMPY" and major == 1 and length <= _MAX_HEADER else b""


def _check_sizes(counts: dict[str, int]) -> None:
    """Refuse members whose sizes do not fit each other."""
    sizes: dict[str, tuple[int, str]] = {}
    for name, count in counts.items():
        member = _MEMBERS[name]
        size, first = sizes.setdefault(member.size, (count - member.extra, name))
        if count - member.extra != size:
            raise FormatError(f"{name} has {count:,} entries, expected {size + member.extra:,} by {first}")


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, dtype: str, count: int) -> NDArray[Any]:
    """Numbers of a member, whose header has been checked."""
    array = np.empty(count, dtype)
    target = array.view(np.uint8).data
    with archive.open(info) as stream:
        # Never seek here: zipfile would stop looking at the checksum.
        _header_text(stream)
        for start in range(0, target.nbytes, _CHUNK):
            part = target[start : start + _CHUNK]
            part[:] = stream.read(part.nbytes)  # a stream that ends too early does not fit
        stream.read(1)  # so that the checksum of an empty array is looked at too
    return array


def from_arrays(arrays: Arrays) -> Problem:
    """Problem of the members of a file."""
    s_of, n_pairs = arrays["s_of"], arrays["s_of"].size
    # Every state has a pair, so a larger number would only make the model allocate what it then refuses.
    n_states = int(s_of.max(initial=-1)) + 1
    if n_states > n_pairs:
        raise FormatError(f"s_of names state {n_states - 1}, but there are only {n_pairs} pairs")
    _check_pointers("P_indptr", arrays["P_indptr"], arrays["P_data"].size)
    P = csr_array((arrays["P_data"], arrays["P_indices"], arrays["P_indptr"]), shape=(n_pairs, n_states))
    actions = _names("action_names", arrays)
    if actions is not None and len(actions) != n_pairs:
        raise FormatError(f"action_names has {len(actions)} names, expected {n_pairs}: one per pair")
    states = _names("state_names", arrays)
    unit = _names("time_unit", arrays)
    mdp = MDP(
        P, arrays["r"], s_of, states=states, actions=actions, initial=arrays.get("initial"),
        durations=arrays.get("durations"), time_unit=None if unit is None else "\n".join(unit),
        rewards=_named_rewards(arrays, n_pairs),
    )  # fmt: skip
    return _with_quotas(mdp, arrays)


def _with_quotas(mdp: MDP, arrays: Arrays) -> Problem:
    indptr, indices = arrays["quota_indptr"], arrays["quota_indices"]
    _check_pointers("quota_indptr", indptr, indices.size)
    names = _names("quota_names", arrays) or []
    if len(names) != indptr.size - 1:
        raise FormatError(f"quota_names has {len(names)} names, expected {indptr.size - 1}")
    data = arrays.get("quota_weights", np.ones(indices.size))
    weights = csr_array((data, indices, indptr), shape=(len(names), mdp.n_pairs))
    of = None
    if "of_indptr" in arrays or "of_indices" in arrays:
        of = _conditions(arrays, mdp.n_pairs)
    return Problem.from_members(
        mdp, names, weights, arrays["at_least"], arrays["at_most"], arrays["over_states"], of,
        arrays.get("expected"),
    )  # fmt: skip


def _named_rewards(arrays: Arrays, n_pairs: int) -> dict[str, NDArray[Any]]:
    names = _names("reward_names", arrays) or []
    rows = arrays.get("reward_rows", np.empty(0))
    if rows.size != len(names) * n_pairs or len(set(names)) < len(names):
        raise FormatError(f"reward_rows has {rows.size} numbers, expected {n_pairs} for each of {len(names)}")
    return dict(zip(names, rows.reshape(-1, n_pairs), strict=True)) if names else {}


def _conditions(arrays: Arrays, n_pairs: int) -> csr_array:
    """Pairs of each quota's condition."""
    for name in ("of_indptr", "of_indices"):
        if name not in arrays:
            raise FormatError(f"the member {name!r} is missing")
    indptr, indices = arrays["of_indptr"], arrays["of_indices"]
    _check_pointers("of_indptr", indptr, indices.size)
    if ((indices < 0) | (indices >= n_pairs)).any():
        raise FormatError(f"of_indices names pairs that are not among the {n_pairs:,} of the model")
    return csr_array((np.ones(indices.size), indices, indptr), shape=(indptr.size - 1, n_pairs))


def _check_pointers(name: str, indptr: NDArray[Any], stop: int) -> None:
    # Compared, not subtracted: a difference of hostile integers could wrap around.
    if indptr[0] != 0 or indptr[-1] != stop or (indptr[1:] < indptr[:-1]).any():
        raise FormatError(f"{name} does not rise from 0 to {stop:,}")


def _text(names: tuple[str, ...]) -> NDArray[np.uint8]:
    """Names, which are printable and thus without line breaks, one per line."""
    return np.frombuffer("\n".join(names).encode(), np.uint8)


def _names(member: str, arrays: Arrays) -> list[str] | None:
    if member not in arrays:
        return None
    try:
        text = arrays[member].tobytes().decode()
    except UnicodeDecodeError:
        raise FormatError(f"{member} is not UTF-8 text") from None
    return text.split("\n") if text else []
