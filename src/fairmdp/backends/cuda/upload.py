"""Large arrays to a GPU in pieces, several of them on their way at a time, without a second copy on the host.

The driver reads page-locked memory only. Workers fill a small page-locked piece each and send it off; while
one is being sent the others are being filled.
"""

from __future__ import annotations

from concurrent import futures
from typing import Any, NamedTuple

import numpy as np

WORKERS = 4
PIECE = 1 << 24  # bytes


class _Lane(NamedTuple):
    """What one worker carries pieces with."""

    buffer: Any  # (PIECE,), page-locked
    stream: Any


class Uploader:
    """Copies arrays from host memory to the current device of CuPy."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._lanes: list[_Lane] = []

    def __call__(self, array: Any) -> Any:
        """Array on the device; one that is there already is returned as it is."""
        if not isinstance(array, np.ndarray) or array.nbytes <= PIECE:
            return self._cupy.asarray(array)
        if not self._lanes:
            self._lanes = [self._lane() for _ in range(WORKERS)]
        source = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        out = self._cupy.empty(array.shape, array.dtype)
        self._cupy.cuda.get_current_stream().synchronize()  # its memory may still be in use
        with futures.ThreadPoolExecutor(WORKERS) as pool:
            list(pool.map(lambda k: self._carry(self._lanes[k], source, out.data.ptr, k), range(WORKERS)))
        return out

    def _lane(self) -> _Lane:
        pinned = self._cupy.cuda.alloc_pinned_memory(PIECE)
        return _Lane(np.frombuffer(pinned, np.uint8, PIECE), self._cupy.cuda.Stream(non_blocking=True))

    def _carry(self, lane: _Lane, source: Any, target: int, first: int) -> None:
        """Every so many-th piece of a source, from the first on."""
        runtime = self._cupy.cuda.runtime
        for start in range(first * PIECE, source.size, WORKERS * PIECE):
            piece = source[start : start + PIECE]
            lane.stream.synchronize()  # the last piece has arrived
            lane.buffer[: piece.size] = piece
            runtime.memcpyAsync(
                target + start,
                lane.buffer.ctypes.data,
                piece.size,
                runtime.memcpyHostToDevice,
                lane.stream.ptr,
            )
        lane.stream.synchronize()
