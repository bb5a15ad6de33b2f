"""Problems as UMB files, the unified Markov binary format of Storm, PRISM and others; read, not written.

A tar archive, perhaps in gzip or xz, of one ``index.json`` and files of little-endian numbers [1]_:

=============================  =============================================================
``state-to-choices``           first choice of each state, and the end, uint64
``choice-to-branches``         first branch of each choice, and the end, uint64
``branch-to-target``           state that each branch leads to, uint64
``branch-to-probability``      doubles, or rationals as numerator and denominator
``state-is-initial``           a bit for each state
``state-to-exit-rate``         in continuous time
``actions/choices/...``        number of the action of each choice, and their names
``annotations/aps/...``        bits of states: labels
``annotations/rewards/...``    rewards of states, choices and branches, which are added up
``valuations/states/...``      variables of the states, packed into bits, which make their names
=============================  =============================================================

A file that is absent stands for zeros or, where it says what comes first of each, for one of each. What a
state pays is per unit of time in continuous time, as in files of Storm.

References
----------
.. [1] Specification of the UMB format, format version 1, https://pmc-tools.github.io/umb/spec
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import tarfile
import zlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fairmdp.errors import FormatError
from fairmdp.files import read_bytes
from fairmdp.io.explicit_model import Explicit, pick_reward, with_kept_quotas
from fairmdp.io.tokens import MAX_BYTES
from fairmdp.model.checks import Bools, Floats, Ints, first
from fairmdp.model.objects import MOST_NAMED_ROWS
from fairmdp.model.problem import Problem

_VERSION = 1
_INDEX = "index.json"
_GZIP, _XZ = b"\x1f\x8b\x08", b"\xfd7zXZ\x00"
_NO_LABEL = "__NOLABEL__"  # what Storm calls the action of a choice without one

_FOLDER = "valuations/states"
_SIZES = {"bool": 1, "int": 64, "uint": 64, "double": 64, "string": 64, "rational": 128}

Bits = NDArray[np.uint8]
"""Bits of all states, the least significant first, (S, bits)."""


def read(path: str, reward: str | None = None) -> Problem:
    """Read a problem."""
    archive = Archive(_unpacked(read_bytes(path, MAX_BYTES)))
    system = archive.part("transition-system")
    _refuse_others(system)
    n_states, n_choices = archive.size("#states"), archive.size("#choices")
    s_of = _owners(archive.starts("state-to-choices", n_states, n_choices))
    P = _transitions(archive, n_states, n_choices)
    durations = _durations(archive, system, n_states, s_of)
    rewards = {
        name: _paid(archive, group, P, s_of, durations) for name, group in archive.annotations("rewards")
    }
    chosen = pick_reward(list(rewards), reward)
    labels = {name: archive.states_of(group) for name, group in archive.annotations("aps")}
    labels["init"] = np.flatnonzero(archive.bits("state-is-initial", n_states))
    explicit = Explicit(
        P,
        np.zeros(n_choices) if chosen is None else list(rewards.values())[chosen],
        s_of,
        {name: states for name, states in labels.items() if states.size},
        state_names(archive, n_states),
        _actions(archive, n_choices),
        durations,
        rewards if len(rewards) > 1 else {},
    )
    return with_kept_quotas(explicit.problem(), path)


class Archive:
    """The files of a model by name, each checked against the sizes that its index states."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        if _INDEX not in files:
            raise FormatError(f"there is no {_INDEX} in it: this is not a UMB file")
        try:
            index = json.loads(files[_INDEX])
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{_INDEX}: this is not JSON: {error}") from None
        self._files, self._index = files, index
        self._most = 8 * sum(map(len, files.values()))  # things, each of a bit at least
        version = index.get("format-version") if isinstance(index, dict) else None
        if version != _VERSION:
            raise FormatError(f"{_INDEX}: format-version is {version!r}, expected {_VERSION}")

    def part(self, *keys: str) -> Mapping[str, Any]:
        """A part of the index, empty where it is missing."""
        found: Any = self._index
        for key in keys:
            found = found.get(key, {})
            if not isinstance(found, dict):
                raise FormatError(f"{_INDEX}: {'/'.join(keys)} is {str(found)[:40]!r}, expected an object")
        return found

    def size(self, key: str) -> int:
        """A number of states, choices or branches; no file may then have fewer."""
        size = self.part("transition-system").get(key)
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= MAX_BYTES:
            raise FormatError(f"{_INDEX}: {key} is {size!r}, expected a whole number up to {MAX_BYTES:,}")
        if size > self._most:
            raise FormatError(f"{_INDEX}: {key} is {size}, more than the file can hold")
        return size

    def annotations(self, kind: str) -> list[tuple[str, str]]:
        """Name and folder of the annotations of a kind."""
        return [
            (str(said.get("alias") or key) if isinstance(said, dict) else key, f"annotations/{kind}/{key}")
            for key, said in self.part("annotations", kind).items()
        ]

    def has(self, name: str) -> bool:
        """Whether a file is there."""
        return f"{name}.bin" in self._files

    def raw(self, name: str, n_bytes: int) -> bytes:
        """Content of a file that has to have a size."""
        data = self._files[f"{name}.bin"]
        if len(data) != n_bytes:
            raise FormatError(f"{name}.bin has {len(data):,} bytes, expected {n_bytes:,}")
        return data

    def integers(self, name: str, count: int, kind: str = "<u8") -> Ints:
        """Whole numbers, zeros where the file is absent."""
        if not self.has(name):
            return np.zeros(count, np.int64)
        return np.frombuffer(self.raw(name, count * np.dtype(kind).itemsize), kind).astype(np.int64)

    def starts(self, name: str, count: int, total: int) -> Ints:
        """Where each of `count` things begins among `total` others, and the end, (count + 1,)."""
        starts = self.integers(name, count + 1) if self.has(name) else np.arange(count + 1)
        if starts[0] != 0 or starts[-1] != total or (np.diff(starts) < 0).any():
            absent = "" if self.has(name) else " (the file is absent: one of each)"
            raise FormatError(f"{name}.bin does not lead from 0 to {total:,} in ascending steps{absent}")
        return starts

    def bits(self, name: str, count: int) -> Bools:
        """One truth value each, false where the file is absent."""
        if not self.has(name):
            return np.zeros(count, bool)
        data = np.frombuffer(self.raw(name, 8 * ceil(count / 64)), np.uint8)
        return np.unpackbits(data, bitorder="little")[:count].astype(bool)

    def reals(self, name: str, count: int, kind: Any) -> Floats:
        """Real numbers of the type that the index states, zeros where the file is absent."""
        said = kind if isinstance(kind, dict) else {}
        form, bits = said.get("type"), said.get("size", 128 if said.get("type") == "rational" else 64)
        if form == "double" and bits == 64:
            return self._doubles(name, count)
        if form != "rational" or not isinstance(bits, int) or bits <= 0 or bits % 128:
            raise FormatError(f"{name}.bin holds {form!r}, expected double or rational; ranges are not read")
        if not self.has(name):
            return np.zeros(count)
        width = bits // 16  # bytes of the numerator, and of the denominator
        data = self.raw(name, 2 * width * count)
        halves = [data[at : at + width] for at in range(0, len(data), width)]
        above = [int.from_bytes(half, "little", signed=True) for half in halves[::2]]
        below = [int.from_bytes(half, "little") for half in halves[1::2]]
        if not all(below):
            raise FormatError(f"{name}.bin has the denominator 0 at place {below.index(0)}")
        return np.array([a / b for a, b in zip(above, below, strict=True)])

    def strings(self, folder: str, count: int) -> list[str] | None:
        """Texts of a folder, if it has some."""
        if not self.has(f"{folder}/string-mapping"):
            return None
        data = self._files.get(f"{folder}/strings.bin", b"")
        ends = self.starts(f"{folder}/string-mapping", count, len(data)).tolist()
        try:
            return [data[a:b].decode() for a, b in pairwise(ends)]
        except UnicodeDecodeError:
            raise FormatError(f"{folder}/strings.bin is not UTF-8 text") from None

    def states_of(self, folder: str) -> Ints:
        """States of a label."""
        return np.flatnonzero(self.bits(f"{folder}/states/values", self.size("#states")))

    def _doubles(self, name: str, count: int) -> Floats:
        if not self.has(name):
            return np.zeros(count)
        return np.frombuffer(self.raw(name, 8 * count), "<f8").astype(np.float64)


def _unpacked(data: bytes) -> dict[str, bytes]:
    """Files of an archive by name."""
    try:
        if data.startswith(_GZIP):
            data = _within(gzip.GzipFile(fileobj=io.BytesIO(data)))
        elif data.startswith(_XZ):
            data = _within(lzma.LZMAFile(io.BytesIO(data)))
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            members = [(member.name, archive.extractfile(member)) for member in archive if _is_plain(member)]
            return {name.removeprefix("./").lstrip("/"): file.read() for name, file in members if file}
    except (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, OSError) as error:
        raise FormatError(f"not a UMB file, which is a tar archive, perhaps in gzip or xz: {error}") from None


def _is_plain(member: tarfile.TarInfo) -> bool:
    return member.isreg() and not member.issparse()  # which may claim any size


def _within(file: Any) -> bytes:
    """What is packed in a file, up to a limit."""
    with file:
        data: bytes = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise FormatError(f"unpacked it has more than {MAX_BYTES:,} bytes")
    return data


def _refuse_others(system: Mapping[str, Any]) -> None:
    """Raise for models that are no MDP, Markov chain, or one of these in continuous time."""
    if system.get("#players", 1) not in (0, 1):
        raise FormatError(f"{_INDEX}: it has {system['#players']!r} players, and games are not read")
    if system.get("#observations", 0) != 0:
        raise FormatError(f"{_INDEX}: it has observations, and a policy here sees the state")
    if "branch-probability-type" not in system:
        raise FormatError(f"{_INDEX}: there is no branch-probability-type: it has no probabilities")


def _owners(starts: Ints) -> Ints:
    """Which thing each of those that belong to them belongs to."""
    return np.repeat(np.arange(starts.size - 1), np.diff(starts))


def _transitions(archive: Archive, n_states: int, n_choices: int) -> csr_array:
    n_branches = archive.size("#branches")
    starts = archive.starts("choice-to-branches", n_choices, n_branches)
    targets = archive.integers("branch-to-target", n_branches)
    if (k := first((targets < 0) | (targets >= n_states))) is not None:
        raise FormatError(f"branch-to-target.bin: branch {k} leads to state {targets[k]} of {n_states}")
    kind = archive.part("transition-system")["branch-probability-type"]
    return csr_array(
        (archive.reals("branch-to-probability", n_branches, kind), targets, starts),
        shape=(n_choices, n_states),
    )


def _durations(archive: Archive, system: Mapping[str, Any], n_states: int, s_of: Ints) -> Floats | None:
    """Mean time that each choice takes, (C,), in continuous time."""
    time = system.get("time")
    if time == "discrete":
        return None
    if time not in ("stochastic", "urgent-stochastic"):
        raise FormatError(f"{_INDEX}: time is {time!r}, expected discrete, stochastic or urgent-stochastic")
    rates = archive.reals("state-to-exit-rate", n_states, system.get("exit-rate-type"))
    if time == "urgent-stochastic":
        rates = np.where(archive.bits("state-is-markovian", n_states), rates, 0.0)
    if (s := first(~(rates > 0))) is not None:
        raise FormatError(
            f"state {s} has the exit rate {rates[s]:g}\n"
            "  states that take no time are not read: decide when the state before them is left"
        )
    return 1 / rates[s_of]


def _paid(archive: Archive, folder: str, P: csr_array, s_of: Ints, durations: Floats | None) -> Floats:
    """What each choice pays by one reward structure, (C,)."""
    kind = archive.part(*folder.split("/")).get("type")
    n_choices, n_states = P.shape

    def values(of: str, count: int) -> Floats:
        return archive.reals(f"{folder}/{of}/values", count, kind)

    of_state = values("states", n_states)[s_of] * (1.0 if durations is None else durations)
    of_branch = csr_array((P.data * values("branches", P.nnz), P.indices, P.indptr), shape=P.shape)
    return of_state + values("choices", n_choices) + of_branch @ np.ones(n_states)


def _actions(archive: Archive, n_choices: int) -> Sequence[str] | None:
    """Name of the action of each choice, empty where it has none."""
    count = archive.size("#choice-actions")
    names = archive.strings("actions/choices", count) if count else None
    if names is None:
        return None
    taken = archive.integers("actions/choices/values", n_choices, "<u4")
    if (k := first(taken >= count)) is not None:
        raise FormatError(f"actions/choices/values.bin: choice {k} has action {taken[k]} of {count}")
    shown = [name if name.isprintable() and name != _NO_LABEL else "" for name in names]
    return ["_".join(shown[a].split()) for a in taken.tolist()]


def state_names(archive: Archive, n_states: int) -> Sequence[str] | None:
    """Names of the states, (S,), where all have the same variables and differ in them; else None."""
    said = archive.part("valuations", "states")
    classes = said.get("classes")
    known = archive.has(f"{_FOLDER}/valuations") and not archive.has(f"{_FOLDER}/valuation-to-class")
    if not known or n_states > MOST_NAMED_ROWS or not isinstance(classes, list) or not classes:
        return None
    try:
        variables = [_Variable(entry) for entry in classes[0]["variables"]]
    except (KeyError, TypeError, ValueError):
        raise FormatError("index.json: the variables of the states cannot be read") from None
    size = sum(variable.optional + variable.size for variable in variables)
    if size % 8:
        raise FormatError(f"index.json: the variables of a state take {size} bits, expected whole bytes")
    data = np.frombuffer(archive.raw(f"{_FOLDER}/valuations", n_states * size // 8), np.uint8)
    bits = np.unpackbits(data.reshape(n_states, -1), axis=1, bitorder="little")
    texts = archive.strings(_FOLDER, int(said.get("#strings", 0)))
    parts, at = [], 0
    for variable in variables:
        end = at + variable.optional + variable.size
        if variable.name:
            parts.append([f"{variable.name}={value}" for value in variable.values(bits[:, at:end], texts)])
        at = end
    names = [" & ".join(row) for row in zip(*parts, strict=True)]
    return names if len(set(names)) == n_states and all(map(str.isprintable, names)) else None


class _Variable:
    """One variable, or padding, which has no name."""

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self.name, self.kind, self.offset, self.optional = "", "padding", 0, False
        if "padding" in entry:
            self.size = int(entry["padding"])
            return
        kind = entry["type"]
        self.name, self.kind = "_".join(str(entry["name"]).split()), kind["type"]
        self.size, self.offset = int(kind.get("size", _SIZES.get(self.kind, 0))), int(entry.get("offset", 0))
        self.optional = entry.get("is-optional") is True
        if self.kind not in _SIZES or self.size < 1:
            raise FormatError(f"index.json: variable {self.name} is of the type {self.kind!r}")

    def values(self, bits: Bits, texts: Sequence[str] | None) -> list[str]:
        """Value of each state as text; ``none`` where an optional one is missing."""
        if not self.optional:
            return self._shown(bits, texts)
        there = bits[:, 0].tolist()
        shown = self._shown(bits[:, 1:] * bits[:, :1], texts)
        return [value if here else "none" for value, here in zip(shown, there, strict=True)]

    def _shown(self, bits: Bits, texts: Sequence[str] | None) -> list[str]:
        if self.kind == "bool":
            return ["true" if on else "false" for on in (bits.max(axis=1) > 0).tolist()]
        if self.kind == "double":
            packed = np.packbits(bits, axis=1, bitorder="little")
            return [f"{value:g}" for value in packed.view("<f8").ravel().tolist()]
        if self.kind == "rational":
            half = self.size // 2
            pairs = zip(self._whole(bits[:, :half], True), self._whole(bits[:, half:], False), strict=True)
            return [f"{a}/{b}" for a, b in pairs]
        numbers = self._whole(bits, self.kind == "int")
        if self.kind != "string":
            return [str(number + self.offset) for number in numbers]
        if texts is None or max(numbers, default=0) >= len(texts):
            raise FormatError(f"{_FOLDER}/strings.bin lacks values of variable {self.name}")
        return [texts[number] for number in numbers]

    def _whole(self, bits: Bits, signed: bool) -> list[int]:
        """Whole numbers of up to 64 bits, in two's complement where they are signed."""
        width = bits.shape[1]
        if width > 64:
            raise FormatError(f"index.json: variable {self.name} has {width} bits, expected up to 64")
        low = bits[:, :63].astype(np.int64) @ (np.int64(1) << np.arange(min(width, 63)))
        sign = -1 if signed else 1
        top = {64: sign * 2**63}.get(width, -(2**width) if signed else 0)  # of the last bit, beyond `low`
        return [number + top * last for number, last in zip(low.tolist(), bits[:, -1].tolist(), strict=True)]
