"""What is said where a GPU runs out of memory in the middle of a solve."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fairmdp.errors import DeviceError

OFFER = 'to solve on the CPU, leave device out or say device="cpu"'


@contextmanager
def out_of_memory_is_a_message() -> Iterator[None]:
    """Turn CuPy's MemoryError, as when another process takes the memory meanwhile, into a `DeviceError`."""
    try:
        yield
    except MemoryError as error:
        if not type(error).__module__.startswith("cupy"):
            raise
        raise DeviceError(
            f"the GPU ran out of memory in the middle of a solve: {error}\n  {OFFER}"
        ) from error
