"""A run's arrays in a file: written atomically, and taken up only by the very same run."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
import zlib
from os import PathLike
from typing import Any

import numpy as np

from fairmdp.errors import FormatError
from fairmdp.files import read_bytes, write_bytes
from fairmdp.model.mdp import MDP

_MAX_BYTES = 16 * 2**30
_DAMAGE = (zipfile.BadZipFile, zlib.error, OSError, EOFError, KeyError, ValueError, MemoryError, RuntimeError)
_WHAT = "what"  # entry that says which run a checkpoint belongs to
_WHOLE = "whole"  # entry that says whether all the others are there, under their names

Arrays = dict[str, np.ndarray[Any, Any]]


class Checkpoint:
    """The file of one run, which is known by its model and everything that decides its course."""

    def __init__(self, path: str | PathLike[str], mdp: MDP, *course: object) -> None:
        self._path = os.fsdecode(path)
        sha = hashlib.sha256(b"fairmdp checkpoint 1")
        for array in (mdp.P.indptr, mdp.P.indices, mdp.P.data, mdp.r, mdp.s_of):
            sha.update(np.ascontiguousarray(array).data)
        for part in course:
            sha.update(part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode())
        self._what = np.frombuffer(sha.digest(), np.uint8)

    def save(self, arrays: Arrays) -> None:
        """Write the arrays in one go."""
        buffer = io.BytesIO()
        entries: dict[str, Any] = {_WHAT: self._what, _WHOLE: _digest(arrays), **arrays}
        np.savez(buffer, **entries)
        write_bytes(self._path, buffer.getvalue())

    def load(self) -> Arrays | None:
        """Return the arrays of an earlier stop of this run, or None if there is no file."""
        if not os.path.exists(self._path):
            return None
        try:
            with np.load(io.BytesIO(read_bytes(self._path, _MAX_BYTES)), allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        except _DAMAGE as error:
            raise FormatError(f"{self._path}: this is not a whole checkpoint: {error}") from None
        if not np.array_equal(arrays.pop(_WHAT, None), self._what):
            raise FormatError(
                f"{self._path}: this checkpoint belongs to a run with another model, seed or options\n"
                "  name another file, or remove this one"
            )
        if not np.array_equal(arrays.pop(_WHOLE, None), _digest(arrays)):
            raise FormatError(f"{self._path}: this is not a whole checkpoint: an array of it is lost")
        return arrays


def _digest(arrays: Arrays) -> np.ndarray[Any, Any]:
    sha = hashlib.sha256()
    for name, array in arrays.items():
        sha.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        sha.update(np.ascontiguousarray(array).data)
    return np.frombuffer(sha.digest(), np.uint8)
