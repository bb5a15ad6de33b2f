"""What comes before kernels: copies to a GPU, its own compiler, and GPUs that cannot be used."""

import ctypes
import shutil
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from tests.cuda_host import gpu

from fairmdp import DeviceError, ProblemError, scenarios, solve
from fairmdp.backends.cuda.launcher import Variant, _first_gpu, open_cuda, source
from fairmdp.backends.cuda.upload import PIECE, WORKERS, Uploader
from fairmdp.backends.memory import out_of_memory_is_a_message

# --- copies to the device ----------------------------------------------------------------------------------


def uneven_arrays():
    rng = np.random.default_rng(0)
    yield rng.uniform(size=5)
    yield rng.integers(0, 100, (WORKERS * PIECE + 12345) // 4 + 1).astype(np.int32)
    yield rng.uniform(size=(PIECE // 32, 9))[:, ::2]


@pytest.mark.gpu
def test_large_arrays_arrive_on_the_gpu():
    launcher = gpu()
    for array in uneven_arrays():
        np.testing.assert_array_equal(launcher.get(launcher.put(array)), array)


def test_pieces_cover_an_array():
    def copy(target, source, size, kind, stream):
        assert kind == "to device"
        ctypes.memmove(target, source, size)

    def empty(shape, dtype):
        array = np.full(shape, -1, dtype)
        return SimpleNamespace(data=SimpleNamespace(ptr=array.ctypes.data), array=array)

    stream = SimpleNamespace(synchronize=lambda: None, ptr=0)
    cuda = SimpleNamespace(
        runtime=SimpleNamespace(memcpyAsync=copy, memcpyHostToDevice="to device"),
        alloc_pinned_memory=bytearray,
        Stream=lambda non_blocking: stream,
        get_current_stream=lambda: stream,
    )
    upload = Uploader(SimpleNamespace(cuda=cuda, empty=empty, asarray=lambda a: SimpleNamespace(array=a)))
    for array in uneven_arrays():
        np.testing.assert_array_equal(upload(array).array, array)


# --- the sources for a GPU's own compiler ------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("variant", [Variant(), Variant(2, False, True), Variant(8, True, False)])
@pytest.mark.parametrize("name", ["sweeps", "proximal", "mirror"])
def test_nvcc_takes_the_sources(name, variant, tmp_path):
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc; g++ takes some things that it does not")
    (tmp_path / "kernels.cu").write_text(source(name))
    macros = [f"-D{key}={value}" for key, value in variant.macros.items()]
    command = ["nvcc", "--ptx", "-Xcicc", "-O0", "-arch=compute_75", "-std=c++17", *macros, "kernels.cu"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# --- what cannot be used ---------------------------------------------------------------------------------


class NoDeviceError(Exception):
    pass


def fake_cupy(count=1, free=10**9, total=80 * 10**9):
    """As much of CuPy as is asked before anything is computed."""

    def device_count():
        if isinstance(count, str):
            raise NoDeviceError(count)
        return count

    runtime = SimpleNamespace(
        getDeviceCount=device_count, memGetInfo=lambda: (free, total), CUDARuntimeError=NoDeviceError
    )
    device = SimpleNamespace(use=lambda: None, id=0, attributes={"MultiProcessorCount": 4})
    pool = SimpleNamespace(free_bytes=lambda: 0)
    cuda = SimpleNamespace(runtime=runtime, Device=lambda number: device)
    return SimpleNamespace(cuda=cuda, get_default_memory_pool=lambda: pool)


@pytest.mark.parametrize(
    ("cupy", "message"),
    [
        (None, "needs CuPy"),
        (fake_cupy(0), "no CUDA GPU can be used here: there is none"),
        (
            fake_cupy("cudaErrorInsufficientDriver"),
            "no CUDA GPU can be used here: cudaErrorInsufficientDriver",
        ),
        (
            fake_cupy(free=10**5),
            r"0.1 MB of 80.0 GB are free\n  .* up to about [\d,]+ states\n  80.0 GB are held",
        ),
    ],
)
@pytest.mark.parametrize("method", ["dual", "proximal"])
def test_a_gpu_that_cannot_be_used_is_a_message(monkeypatch, cupy, message, method):
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    for function in (_first_gpu, open_cuda):
        function.cache_clear()
    try:
        with pytest.raises(DeviceError, match=message) as caught:
            solve(scenarios.garnet(n_states=2000), method=method, device="cuda")
        assert 'device="cpu"' in str(caught.value)
    finally:
        for function in (_first_gpu, open_cuda):
            function.cache_clear()


def test_memory_that_others_take_meanwhile_is_a_message():
    kind = type("OutOfMemoryError", (MemoryError,), {"__module__": "cupy.cuda.memory"})
    with pytest.raises(DeviceError, match="ran out of memory in the middle"), out_of_memory_is_a_message():
        raise kind("2 GB more")
    with pytest.raises(MemoryError), out_of_memory_is_a_message():
        raise MemoryError  # the host's own


def test_methods_and_devices_that_there_are_not():
    problem = scenarios.three_state()
    with pytest.raises(ProblemError, match="method lp runs on the CPU only"):
        solve(problem, method="lp", device="cuda")
    with pytest.raises(ProblemError, match="there is no device 'tpu'; there are cpu and cuda"):
        solve(problem, device="tpu")
