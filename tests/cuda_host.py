"""Where CUDA kernels are tested: a GPU if there is one, and their sources compiled for the CPU by g++."""

import ctypes
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from fairmdp.backends.cuda.launcher import Launcher, open_cuda, source
from fairmdp.errors import DeviceError


def gpu():
    """Launcher of the dual solver on a GPU, or a test that is skipped."""
    try:
        return open_cuda("sweeps")
    except DeviceError as error:
        pytest.skip(f"no GPU: {error}".splitlines()[0])


def host_launcher(name, folder, *, threads=1, blocks=2):
    """Launcher of one kernel set over NumPy arrays; `threads` is 1, or a multiple of 32 real ones."""
    warp = 32 if threads > 1 else 1
    shim = Path(__file__).with_name("cuda_on_host.h")

    @cache
    def library(variant):
        stem = folder / f"{name}_{threads}_{'_'.join(map(str, variant))}"
        stem.with_suffix(".cpp").write_text(f'#include "{shim}"\n{source(name)}')
        macros = [f"-D{key}={value}" for key, value in {**variant.macros, "WARP": warp}.items()]
        command = ["g++", "-std=c++20", "-O1", "-shared", "-fPIC", "-pthread", *macros]
        subprocess.run([*command, "-o", stem.with_suffix(".so"), stem.with_suffix(".cpp")], check=True)
        return ctypes.CDLL(stem.with_suffix(".so"))

    def load(variant, kernel):
        compiled = library(variant)
        function = getattr(compiled, kernel)
        function.restype = None

        def run(grid, block, args):
            passed = [_passed(arg) for arg in args]
            compiled.begin(*grid, *block)

            def one(place):
                compiled.place(*place)
                function(*passed)

            with ThreadPoolExecutor(block[0]) as pool:
                for row in range(grid[1]):
                    for b in range(grid[0]):
                        places = [(b, row, t) for t in range(block[0])]
                        list(pool.map(one, places)) if block[0] > 1 else one(places[0])

        return run

    return Launcher(np, load, blocks, threads, warp)


def _passed(arg):
    if isinstance(arg, np.ndarray):
        assert arg.flags.c_contiguous
        return ctypes.c_void_p(arg.ctypes.data)
    return ctypes.c_double(arg) if isinstance(arg, float) else ctypes.c_longlong(int(arg))
