"""Opening a GPU, compiling the sources of this folder, and launching their kernels."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from fairmdp.backends.cuda.upload import Uploader
from fairmdp.backends.memory import OFFER
from fairmdp.errors import DeviceError

MOST_QUOTAS = 4096  # what the shared memory of a block has room for
_THREADS = 256  # of a block
_CHUNK = 256  # items that a block takes at a time, at most
_BLOCKS = 16  # for each multiprocessor

log = logging.getLogger("fairmdp")

Kernel = Callable[[tuple[int, int], tuple[int], tuple[Any, ...]], None]


class Variant(NamedTuple):
    """What the sources are compiled for."""

    lanes: int = 1  # threads that share an item
    wide: bool = False  # row starts of 64 bits
    single: bool = False  # probabilities of 32 bits, the last one of each row derived from the others

    @property
    def macros(self) -> dict[str, str]:
        """The macros that the prelude explains."""
        chosen = {
            "LANES": str(self.lanes),
            "Offset": "long long" if self.wide else "int",
            "Prob": "float" if self.single else "double",
            "MOST_QUOTAS": str(MOST_QUOTAS),
        }
        return chosen | ({"DERIVED": "1"} if self.single else {})


_PARTS = {
    "sweeps": ("prelude", "sweeps", "krylov"),
    "proximal": ("prelude", "sweeps", "proximal"),
    "mirror": ("prelude", "mirror"),
}


def source(name: str) -> str:
    """CUDA C++ of one kernel set, behind what it is built on."""
    folder = Path(__file__).parent
    return "\n".join((folder / f"{part}.cu").read_text() for part in _PARTS[name])


class Launcher:
    """Kernels of one source on one device, and the numbers that they reduce to.

    Parameters
    ----------
    xp
        The array module whose arrays the kernels take: CuPy.
    load
        From a variant and a kernel's name to the kernel.
    blocks, threads, warp
        Largest grid, size of a block, and threads that may share an item.
    upload
        Brings an array to the device.
    memory
        Bytes of it that are free and that there are; without it nobody asks.
    """

    def __init__(
        self,
        xp: Any,
        load: Callable[[Variant, str], Kernel],
        blocks: int,
        threads: int = _THREADS,
        warp: int = 32,
        upload: Callable[[Any], Any] | None = None,
        memory: Callable[[], tuple[int, int]] | None = None,
    ) -> None:
        self.xp, self._load, self._blocks, self._threads, self._warp = xp, load, blocks, threads, warp
        self._upload, self._memory = upload or xp.asarray, memory
        self._board: Any = None

    def lanes(self, parts: float) -> int:
        """Threads to share so many parts of an item: the next power of two, up to a warp."""
        lanes = 1
        while lanes < min(parts, self._warp):
            lanes *= 2
        return lanes

    def row_lanes(self, mean: float) -> int:
        """Threads to share a row where more is done for each row than reading it."""
        return self.lanes(mean / 2)

    def few_lanes(self, mean: float) -> int:
        """Threads to share a row of a chain or model where each has several entries on their way."""
        return self.lanes(mean / 4)

    def put(self, array: Any) -> Any:
        """Bring an array to the device, unless it is there."""
        return self.xp.ascontiguousarray(self._upload(array))

    def get(self, array: Any) -> Any:
        """Bring an array back."""
        return array.get() if hasattr(array, "get") else array

    def launch(self, variant: Variant, name: str, items: int, *args: Any, rows: int = 1) -> None:
        """Run a kernel over so many items; `rows` is the height of the grid."""
        grid = self._grid(items, variant)
        self._load(variant, name)((grid, rows), (self._threads,), args)

    def chunk(self, items: int, variant: Variant) -> int:
        """Items that a block of such a launch takes at a time, where it takes several."""
        return min(-(-items // self._grid(items, variant)), _CHUNK)

    def board(self, columns: int, items: int, variant: Variant) -> Any:
        """Where the blocks of a launch leave what they have in each column; good until the next launch."""
        size = 1 + columns * self._grid(items, variant)
        if self._board is None or self._board.size < size:
            self._board = self.xp.zeros(size)
        return self._board

    def fold(self, columns: int, items: int, variant: Variant, least: int = 0, largest: int = 0) -> Any:
        """Combine the columns that a launch has left on the board: the first ones by their least, the next by
        their largest number, the others by their sum. The result stays on the device.
        """  # noqa: D205
        numbers, blocks = self.xp.empty(columns), self._grid(items, variant)
        kernel = self._load(Variant(), "fold")
        kernel((columns, 1), (self._threads,), (blocks, least, largest, self._board, numbers))
        return numbers

    def reduce(
        self, variant: Variant, name: str, items: int, *args: Any, columns: int = 0, out: Any = None
    ) -> Any:
        """Run a kernel that finds some numbers, which stay on the device."""
        numbers = self.xp.empty(columns) if out is None else out
        self.launch(variant, name, items, *args, self.board(numbers.size, items, variant), numbers)
        return numbers

    def sums(self, variant: Variant, name: str, items: int, *args: Any, columns: int, rows: int = 1) -> Any:
        """Run a kernel that leaves parts of many sums, one in each column; the sums stay on the device."""
        self.launch(variant, name, items, *args, self.board(columns, items, variant), rows=rows)
        return self.fold(columns, items, variant)

    def require_memory(self, needed: int, n_states: int, what: str) -> None:
        """Log how much memory a solve takes and how much there is; a `DeviceError` if that is too little."""
        if self._memory is None:
            return
        free, total = self._memory()
        told = f"{what} takes {_size(needed)} of GPU memory; {_size(free)} of {_size(total)} are free"
        if needed > free:
            fits = int(n_states * free / needed)
            others = total - free
            held = f"\n  {_size(others)} are held by other processes or arrays" if others > total // 4 else ""
            fitting = f"a model like this one would fit with up to about {fits:,} states"
            raise DeviceError(f"{told}\n  {fitting}{held}\n  {OFFER}")
        log.info(told)

    def _grid(self, items: int, variant: Variant) -> int:
        return max(1, min(self._blocks, -(-items * variant.lanes // self._threads)))


@cache
def open_cuda(name: str) -> Launcher:
    """Launcher of one kernel set on the first GPU, or a `DeviceError` that says what is missing."""
    cupy, device = _first_gpu()
    code = source(name)

    @cache
    def module(variant: Variant) -> Any:
        options = ("-std=c++17", *(f"-D{key}={value}" for key, value in variant.macros.items()))
        return cupy.RawModule(code=code, options=options, backend="nvrtc")

    @cache
    def load(variant: Variant, kernel: str) -> Kernel:
        try:
            return module(variant).get_function(kernel)
        except Exception as error:  # CuPy's own, NVRTC's or the driver's: all mean that nothing can run
            raise DeviceError(f"the CUDA kernels could not be compiled: {error}\n  {OFFER}") from error

    blocks = _BLOCKS * device.attributes["MultiProcessorCount"]
    return Launcher(cupy, load, blocks, upload=Uploader(cupy), memory=_memory)


def _memory() -> tuple[int, int]:
    """Bytes of the first GPU that are free, and that there are."""
    cupy, _ = _first_gpu()
    free, total = cupy.cuda.runtime.memGetInfo()
    return free + cupy.get_default_memory_pool().free_bytes(), total  # ours, and not in use


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e8 else f"{n_bytes / 1e6:.1f} MB"


@cache
def _first_gpu() -> tuple[Any, Any]:
    """CuPy and the first GPU."""
    try:
        import cupy
    except ImportError as error:
        raise DeviceError(
            f'device="cuda" needs CuPy: {error}\n'
            f"  install the extra: pip install '.[gpu]' in a clone, else 'fairmdp[gpu]'; {OFFER}"
        ) from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
        if count:
            device = cupy.cuda.Device(0)
            device.use()
            cupy.cuda.runtime.memGetInfo()  # makes the context: fails here, not in the middle of a solve
            return cupy, device
        reason = "there is none"
    except cupy.cuda.runtime.CUDARuntimeError as error:
        reason = str(error)
    raise DeviceError(f"no CUDA GPU can be used here: {reason}\n  {OFFER}")
