"""Plain arrays in a zip, nothing that could run code: the strict reader and the writer of all npz files.

A kind of file is a table of members. Everything that the headers say is checked before an array is
allocated, so a hostile file costs no more than a good one of its size.
"""

from __future__ import annotations

import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairmdp.errors import FormatError
from fairmdp.files import reading, replacing

MAX_BYTES = 16 * 2**30
"""Largest total size of the arrays in a file that is read; half of the machine's memory is a limit too."""

INT, FLOAT, TEXT, BOOL, SHORT = ("<i4", "<i8"), ("<f8",), ("|u1",), ("|b1",), ("<i2",)


class Member(NamedTuple):
    """What one array of a file may be."""

    dtypes: tuple[str, ...]
    size: str  # members with the same word have the same size ...
    extra: int = 0  # ... plus this
    optional: bool = False


class Kind(NamedTuple):
    """A kind of file."""

    called: str  # what messages call it
    version_member: str  # holds the version of the format
    version: int
    members: Callable[[Collection[str]], Mapping[str, Member]]  # the table, which may go by the names found


def with_blocks(
    own: Mapping[str, Member], of_block: Mapping[str, Member], first: str, word: str
) -> Callable[[Collection[str]], dict[str, Member]]:
    """Tables of files that hold blocks besides members of their own: a block's end in ``.0``, ``.1``, ...

    There are as many blocks as members that begin with `first`; sizes are the same within a block.
    """

    def members(found: Collection[str]) -> dict[str, Member]:
        blocks = 1
        while f"{first}.{blocks}" in found:
            blocks += 1
        return dict(own) | {
            f"{name}.{b}": member._replace(size=f"{member.size} of {word} {b}")
            for b in range(blocks) for name, member in of_block.items()
        }  # fmt: skip

    return members


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


def read_arrays(path: str, kind: Kind, *, max_bytes: int = MAX_BYTES) -> Arrays:
    """Arrays of a file, once all headers have been checked against each other and the limits."""
    with reading(path) as file, _damage_named():
        size = os.fstat(file.fileno()).st_size
        with zipfile.ZipFile(file) as archive:
            infos = _entries(archive, size, min(max_bytes, _half_of_memory()))
            _check_version(archive, infos, kind)
            members = kind.members(infos)
            _check_members(infos, members)
            headers = {name: _header(archive, name, info, members[name]) for name, info in infos.items()}
            _check_sizes({name: count for name, (_, count) in headers.items()}, members)
            return {name: _array(archive, infos[name], *header) for name, header in headers.items()}


def member_in(path: str, members: Collection[str]) -> str | None:
    """Which of some members is in a file, if any: it tells kinds of files apart."""
    with reading(path) as file, _damage_named(), zipfile.ZipFile(file) as archive:
        found = {info.filename.removesuffix(".npy") for info in archive.infolist()}
    return next((member for member in members if member in found), None)


def write_arrays(path: str, arrays: Arrays) -> None:
    """Write arrays, flat; the same arrays give the same bytes."""
    flat = {name: array.ravel() for name, array in little(arrays).items()}
    with replacing(path) as file:
        np.savez(file, allow_pickle=False, **flat)


def little(arrays: Arrays) -> Arrays:
    """Arrays in the byte order that is part of the formats, whatever the machine's is."""
    return {name: array.astype(array.dtype.newbyteorder("<"), copy=False) for name, array in arrays.items()}


@contextmanager
def _damage_named() -> Iterator[None]:
    """Turn whatever a zip with the wrong bytes raises into an error that says so."""
    try:
        yield
    except FormatError:
        raise
    except _DAMAGE as error:
        raise FormatError(f"not an .npz file, or damaged: {error or type(error).__name__}") from None


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


def _check_version(archive: zipfile.ZipFile, infos: dict[str, zipfile.ZipInfo], kind: Kind) -> None:
    """Refuse another version first, since its members may be others."""
    name = kind.version_member
    info = infos.get(name)
    if info is None:
        raise FormatError(f"there is no member {name!r}: this is not a {kind.called} file")
    dtype, count = _header(archive, name, info, Member(INT, "one"))
    if count != 1:
        raise FormatError(f"{name} has {count:,} entries, expected 1")
    version = int(_array(archive, info, dtype, count)[0])
    if version != kind.version:
        raise FormatError(f"this is format {version}, expected {kind.version}")


def _check_members(infos: Collection[str], members: Mapping[str, Member]) -> None:
    for name in infos:
        if name not in members:
            raise FormatError(f"the member {name!r:.60} is unknown")
    for name, member in members.items():
        if name not in infos and not member.optional:
            raise FormatError(f"the member {name!r} is missing")


def _header(archive: zipfile.ZipFile, name: str, info: zipfile.ZipInfo, member: Member) -> tuple[str, int]:
    """Type and number of entries of a member, which fill it exactly."""
    with archive.open(info) as stream:
        header = _header_text(stream)
    match = _HEADER.fullmatch(header)
    if match is None:
        raise FormatError(f"{name} is not a vector in npy format")
    dtype, count = match[1].decode(), int(match[2])
    if dtype not in member.dtypes:
        raise FormatError(f"{name} holds {dtype}, expected {' or '.join(member.dtypes)}")
    held = info.file_size - _PREFIX.size - len(header)
    if count * np.dtype(dtype).itemsize != held:
        raise FormatError(f"{name} claims {count:,} entries of {dtype}, but holds {held:,} bytes")
    return dtype, count


def _header_text(stream: IO[bytes]) -> bytes:
    """Header of an npy stream, which is left where its numbers begin; empty if it is none."""
    magic, major, _, length = _PREFIX.unpack(stream.read(_PREFIX.size))
    return stream.read(length) if magic == b"\x93NUMPY" and major == 1 and length <= _MAX_HEADER else b""


def _check_sizes(counts: Mapping[str, int], members: Mapping[str, Member]) -> None:
    """Refuse members whose sizes do not fit each other."""
    sizes: dict[str, tuple[int, str]] = {}
    for name, count in counts.items():
        member = members[name]
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


def check_pointers(name: str, indptr: NDArray[Any], stop: int) -> None:
    """Refuse pointers that do not rise from 0 to what they point into."""
    # Compared, not subtracted: a difference of hostile integers could wrap around.
    if indptr[0] != 0 or indptr[-1] != stop or (indptr[1:] < indptr[:-1]).any():
        raise FormatError(f"{name} does not rise from 0 to {stop:,}")


def text_of(names: Sequence[str]) -> NDArray[np.uint8]:
    """Names, which are printable and thus without line breaks, one per line."""
    return np.frombuffer("\n".join(names).encode(), np.uint8)


def names_in(member: str, arrays: Arrays) -> list[str] | None:
    """Names in a member; None without it."""
    if member not in arrays:
        return None
    try:
        text = arrays[member].tobytes().decode()
    except UnicodeDecodeError:
        raise FormatError(f"{member} is not UTF-8 text") from None
    return text.split("\n") if text else []


def shaped(name: str, array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """A vector in a shape that it fills."""
    if array.size != math.prod(shape):
        raise FormatError(f"{name} has {array.size:,} entries, expected {' x '.join(map(str, shape))}")
    return array.reshape(shape)
