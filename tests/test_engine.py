"""Engines: the same results wherever chunks are drawn, whatever happens to workers, driver and files."""

import itertools
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from engine_simulators import (
    QUOTAS,
    AtChunk,
    Flaky,
    Once,
    OnceAtChunk,
    Plain,
    Unloadable,
    digest_of,
    slow_square,
)

from fairmdp import FairMDPError, ProblemError
from fairmdp.cli import cli
from fairmdp.learning.counts import CHUNK, sample_pairs, seed_stream
from fairmdp.learning.plugin import LEARNING, learn_plugin
from fairmdp.workers import EngineError, ProcessPool, RayCluster, serial

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("engine_driver.py")
SHARED = []  # the pool that tests have in common
COLUMNS = ("keys", "times", "mean", "spread")


NEEDS_RAY = [pytest.mark.ray, pytest.mark.skipif(not find_spec("ray"), reason="ray is not installed")]
KINDS = ["pool", pytest.param("ray", marks=NEEDS_RAY)]


@pytest.fixture(scope="module")
def cluster():
    """Address of one private cluster for all tests; its cores are taken when workers start, not now."""
    with pytest.MonkeyPatch.context() as patch:
        # Known to the drivers that tests start, so that they may join.
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", os.urandom(32).hex())
        patch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # loopback
        with RayCluster(12) as engine:
            yield engine._ray.get_runtime_context().gcs_address


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    if request.param == "ray":
        request.getfixturevalue("cluster")
    return request.param


def made(kind, workers, **options):
    return {"pool": ProcessPool, "ray": RayCluster}[kind](workers, **options)


@pytest.fixture(scope="module")
def two():
    with ProcessPool(2) as engine:
        SHARED.append(engine)
        yield engine


@pytest.fixture(scope="module")
def engine(kind, request):
    """Two workers of either kind."""
    if kind == "pool":
        yield request.getfixturevalue("two")
    else:
        with RayCluster(2) as cluster:
            yield cluster


@pytest.fixture(autouse=True)
def no_strays():
    """No test leaves a process behind, apart from those of the shared pool."""
    yield
    shared = {worker.process for engine in SHARED for worker in engine.pool.workers}
    ours = {child for child in multiprocessing.active_children() if child.name == "fairmdp-worker"}
    assert ours <= shared


PROBED = 3  # calls at the end of a run that ask whether answers can be repeated


def chunks_of(simulator, engine, chunks=5, seed=7):
    times = np.full(simulator.mdp.n_pairs, chunks * CHUNK // simulator.mdp.n_pairs)
    yield from sample_pairs(simulator, times, seed_stream(seed, LEARNING), engine)


def assert_same(found, expected):
    found, expected = list(found), list(expected)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert (one.n_pairs, one.n_states) == (other.n_pairs, other.n_states)
        for name in COLUMNS:
            mine, theirs = getattr(one, name), getattr(other, name)
            assert mine.dtype == theirs.dtype
            assert mine.tobytes() == theirs.tobytes()
            assert not mine.flags.writeable


def learned_with(engine, simulator=None, seed=5, chunks=8):
    return digest_of(
        learn_plugin(simulator or Plain(), QUOTAS, samples=chunks * CHUNK, seed=seed, engine=engine)
    )


def lines(log):
    return log.read_text().split() if log.exists() else []


def test_serial_draws_a_task_when_its_result_is_asked_for():
    asked = []
    results = serial(abs, (asked.append(k) or k for k in range(3)))
    assert asked == []
    assert next(results) == 0 and asked == [0]


def test_results_do_not_depend_on_the_workers(engine, kind):
    expected = learned_with(map)
    assert learned_with(serial) == expected
    assert learned_with(engine) == expected
    with made(kind, 1) as one:
        assert learned_with(one) == expected
    assert learned_with(engine, seed=6) != expected


def test_results_come_in_order_from_a_bounded_window(two):
    drawn = []

    def tasks():
        for number in range(40):
            drawn.append(number)
            yield 0.2 if number == 0 else 0.0, number

    results = two(slow_square, tasks())
    assert drawn == []
    assert next(results) == 0
    assert len(drawn) <= 14
    assert list(results) == [number**2 for number in range(1, 40)]
    assert drawn == list(range(40))


def test_the_function_is_sent_once_to_each_worker_that_is_used(two, monkeypatch):
    sizes = [[] for _ in two.pool.workers]
    for sent, worker in zip(sizes, two.pool.workers, strict=True):
        monkeypatch.setattr(
            worker.pipe,
            "send_bytes",
            lambda data, sent=sent, send=worker.pipe.send_bytes: sent.append(len(data)) or send(data),
        )
    simulator = Plain()
    simulator.ballast = bytes(10**6)
    for _ in range(2):
        assert len(list(chunks_of(simulator, two))) == 5
    assert [sum(size > 10**6 for size in sent) for sent in sizes] == [int(bool(sent)) for sent in sizes]
    assert sum(map(len, sizes)) == 10 + sum(map(bool, sizes))


def test_a_chunk_that_raises_once_is_drawn_again(engine, tmp_path):
    simulator = Once("raise", str(tmp_path / "marker"))
    assert_same(chunks_of(simulator, engine), chunks_of(Plain(), serial))
    assert (tmp_path / "marker").exists()


@pytest.mark.parametrize("how", ["kill", "hang"])
def test_a_worker_that_is_lost_is_replaced(how, kind, tmp_path):
    simulator = Once(how, str(tmp_path / "marker"))
    with made(kind, 1, timeout=2.0, attempts=2) as engine:
        assert_same(chunks_of(simulator, engine), chunks_of(Plain(), serial))
    assert (tmp_path / "marker").exists()


def test_chunks_that_a_lost_worker_had_ahead_are_not_lost(tmp_path):
    *_, seed = itertools.islice(seed_stream(7, LEARNING), 10)
    simulator = OnceAtChunk("kill", str(tmp_path / "marker"), seed)
    with ProcessPool(1, attempts=2) as engine:
        assert_same(chunks_of(simulator, engine, chunks=16), chunks_of(Plain(), serial, chunks=16))
    assert (tmp_path / "marker").exists()


@pytest.mark.parametrize(
    ("how", "attempts", "message"),
    [
        (
            "raise",
            2,
            "chunk 2 failed 2 times, the last time because it raised ValueError: the machine is out of paper",
        ),
        (
            "exit",
            2,
            {
                "pool": "chunk 2 failed 2 times, the last time because its process ended with code 3",
                "ray": "chunk 2 failed 2 times, the last time because its Ray worker was lost: "
                "The actor died unexpectedly before finishing this task.",
            },
        ),
        ("hang", 1, "chunk 2 failed once, because it took more than 2 seconds"),
    ],
)
def test_a_chunk_that_always_fails_stops_the_run(how, attempts, message, kind, tmp_path):
    _, _, seed = itertools.islice(seed_stream(7, LEARNING), 3)
    found = []
    with made(kind, 1, timeout=2.0, attempts=attempts, folder=tmp_path) as engine:
        with pytest.raises(EngineError) as caught:
            for chunk in chunks_of(AtChunk(how, seed), engine):
                found.append(chunk)
    assert str(caught.value) == (message if isinstance(message, str) else message[kind])
    assert caught.value.chunk == 2
    assert isinstance(caught.value, FairMDPError)
    if how == "raise":
        assert "in misbehave" in caught.value.__notes__[0]
    assert_same(found, list(chunks_of(Plain(), serial))[:2])
    kept = os.listdir(tmp_path)
    assert {"chunk-0-0.npz", "chunk-0-1.npz"} <= set(kept)
    assert "chunk-0-2.npz" not in kept


def test_chunks_before_one_that_fails_are_waited_for(two):
    results = two(slow_square, [(0.5, 3), (0.0, "x"), (0.0, 1)])
    assert next(results) == 9
    with pytest.raises(
        EngineError, match="chunk 1 failed 3 times, the last time because it raised TypeError"
    ):
        next(results)


def test_learn_plugin_keeps_what_was_learned_before_a_failure(two):
    _, _, seed = itertools.islice(seed_stream(7, LEARNING), 3)
    with pytest.raises(EngineError, match="chunk 2 failed 3 times") as caught:
        learn_plugin(AtChunk("raise", seed), QUOTAS, samples=8 * CHUNK, seed=7, engine=two)
    assert CHUNK < caught.value.partial.samples <= 2 * CHUNK
    assert not caught.value.partial.finished


def test_a_simulator_that_cannot_be_loaded_is_named(engine):
    with pytest.raises(EngineError, match="chunk 0 failed 3 times.*LookupError: no such licence"):
        list(chunks_of(Unloadable(), engine))
    assert_same(chunks_of(Plain(), engine), chunks_of(Plain(), serial))


def test_a_simulator_that_cannot_be_sent_is_refused(two):
    simulator = Plain()
    simulator.door = lambda: None
    with pytest.raises(ProblemError, match="the simulator cannot be sent to another process: .*lambda"):
        list(chunks_of(simulator, two))


def test_stopping_early_ends_busy_workers(engine):
    results = engine(slow_square, [(0.0, 3), (600.0, 4), (600.0, 5), (600.0, 6)])
    begin = time.monotonic()
    assert next(results) == 9
    results.close()
    ctrl_c = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    ctrl_c.start()
    with pytest.raises(KeyboardInterrupt):
        list(engine(slow_square, [(600.0, 4), (600.0, 5)]))
    ctrl_c.join()
    assert list(engine(slow_square, [(0.0, 2)])) == [4]
    assert time.monotonic() - begin < 300


def test_an_interrupt_stops_the_workers_and_keeps_what_is_done(tmp_path):
    def progress(done, planned, estimate):
        if done >= 3 * CHUNK:
            raise KeyboardInterrupt

    with ProcessPool(1, folder=tmp_path) as engine:
        with pytest.raises(KeyboardInterrupt):
            for number, _ in enumerate(chunks_of(Plain(), engine)):
                if number == 1:
                    raise KeyboardInterrupt
        stopped = learn_plugin(Plain(), QUOTAS, samples=8 * CHUNK, seed=7, engine=engine, progress=progress)
    assert not stopped.finished and 3 * CHUNK <= stopped.samples < 4 * CHUNK
    assert {f"chunk-0-{k}.npz" for k in range(3)} <= set(os.listdir(tmp_path))


def test_two_runs_of_one_engine_do_not_mix(two):
    first = two(slow_square, [(0.02, k) for k in range(20)])
    assert next(first) == 0
    assert list(two(slow_square, [(0.0, k) for k in range(7, 30)])) == [k**2 for k in range(7, 30)]
    third = two(slow_square, [(0.0, 1), (600.0, 2), (600.0, 3)])
    assert next(third) == 1
    third.close()
    assert list(first) == [k**2 for k in range(1, 20)]


def test_a_closed_engine_says_so():
    with ProcessPool(1) as engine:
        results = engine(slow_square, [(0.0, k) for k in range(20)])
        assert next(results) == 0
    with pytest.raises(EngineError, match="the engine is closed"):
        next(results)
    with pytest.raises(EngineError, match="the engine is closed"):
        list(engine(slow_square, [(0.0, 1)]))


def test_a_killed_run_goes_on_where_it_was(kind, request, tmp_path):
    folder, log, address = tmp_path / "chunks", tmp_path / "log", address_of(kind, request)
    killed = run(folder, log, 3, address)  # of ten chunks, six of which test the policies
    assert killed.returncode == -9, killed.stderr
    wait_for_end(set(lines(log)))
    before = len(lines(log))
    kept = len(list(folder.glob("chunk-*.npz")))
    assert 3 <= kept <= 10  # the last may be whole before the driver is killed
    resumed = run(folder, log, 0, address)
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stdout.strip() == learned_with(serial)
    assert 10 - kept <= len(lines(log)) - before - PROBED <= 11 - kept
    whole = {path.name: path.read_bytes() for path in folder.glob("chunk-*.npz")}
    assert len(whole) == 10
    with ProcessPool(1, folder=folder) as again:  # whoever wrote the files
        assert learned_with(again, Plain(str(log))) == resumed.stdout.strip()
        assert not again.pool.workers
    assert len(lines(log)) - before <= 11 - kept + 2 * PROBED
    assert {path.name: path.read_bytes() for path in folder.glob("chunk-*.npz")} == whole


def test_a_worker_that_hangs_ends_with_its_driver(kind, request, tmp_path):
    log, address = tmp_path / "log", address_of(kind, request)
    with subprocess.Popen(command(tmp_path / "chunks", log, -1, address)) as driver:
        end = time.monotonic() + 600
        while not lines(log) and time.monotonic() < end:
            time.sleep(0.05)
        pids = lines(log)
        driver.kill()
    assert pids
    wait_for_end(set(pids))


def address_of(kind, request):
    return request.getfixturevalue("cluster") if kind == "ray" else ""


def run(folder, log, killed_after, address=""):
    return subprocess.run(
        command(folder, log, killed_after, address), capture_output=True, text=True, timeout=600
    )


def command(folder, log, killed_after, address):
    return [sys.executable, str(SCRIPT), str(folder), str(log), "8", str(killed_after), address]


def wait_for_end(pids, seconds=300.0):
    """Workers end with their driver."""
    end = time.monotonic() + seconds
    while any(map(is_alive, pids)):
        assert time.monotonic() < end, "a worker outlives its driver"
        time.sleep(0.05)


def is_alive(pid):
    try:
        return Path("/proc", pid, "cmdline").read_bytes() != b""  # empty: a zombie
    except OSError:
        return False


def test_a_step_that_fails_once_in_10_000_calls_loses_nothing(engine, tmp_path):
    """The step is asked 16,384 times per chunk, so about every chunk meets failures; none is met twice."""
    log = tmp_path / "log"
    found = list(chunks_of(Flaky(str(log)), engine))
    assert len(lines(log)) >= 3
    assert_same(found, chunks_of(Flaky(None), serial))


def test_damaged_and_foreign_files_are_drawn_again(tmp_path):
    log, expected = tmp_path / "log", list(chunks_of(Plain(), serial))
    folder = tmp_path / "chunks"
    simulator = Plain(str(log))
    with ProcessPool(1, folder=folder) as engine:
        assert_same(chunks_of(simulator, engine), expected)
        files = [folder / f"chunk-0-{k}.npz" for k in range(5)]
        good = [file.read_bytes() for file in files]
        files[0].write_bytes(good[0][:-100])
        flipped = bytearray(good[1])
        flipped[len(flipped) // 2] ^= 1
        files[1].write_bytes(flipped)
        files[2].write_bytes(good[3])
        files[4].write_bytes(b"")
        before = len(lines(log))
        assert_same(chunks_of(simulator, engine), expected)
        assert len(lines(log)) - before == 4
        assert [file.read_bytes() for file in files] == good

        other_seed = list(chunks_of(simulator, engine, seed=8))
        assert_same(other_seed, chunks_of(Plain(), serial, seed=8))
        simulator.scale = 2.0  # same pairs and seeds, another simulator
        assert_same(chunks_of(simulator, engine, seed=8), chunks_of(Plain(scale=2.0), serial, seed=8))


def test_a_folder_keeps_chunks_of_samples_only(two, tmp_path):
    with ProcessPool(1, folder=tmp_path) as engine:
        assert list(engine(slow_square, [(0.0, 2), (0.0, 3)])) == [4, 9]
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, "workers is 0, expected a whole number of at least 1"),
        ({"workers": 1.5}, "workers is 1.5, expected a whole number"),
        ({"attempts": 0}, "attempts is 0, expected a whole number of at least 1"),
        ({"timeout": 0}, "timeout is 0, expected a positive number of seconds"),
        ({"timeout": -1.0}, "timeout is -1.0, expected a positive number of seconds"),
        ({"timeout": float("nan")}, "timeout is nan, expected a positive number of seconds"),
        ({"timeout": True}, "timeout is True, expected a positive number of seconds"),
        ({"folder": __file__}, "folder is '.*test_engine.py', which cannot be made: File exists"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ProblemError, match=message):
        ProcessPool(**options)


@pytest.mark.ray
@pytest.mark.skipif(not find_spec("ray"), reason="ray is not installed")
@pytest.mark.parametrize(
    ("address", "error", "message"),
    [
        (
            "127.0.0.1:1",
            EngineError,
            "cannot reach the Ray cluster '127.0.0.1:1': .*refused\\n  the address is",
        ),
        ("nowhere.invalid:6379", EngineError, "cannot reach the Ray cluster 'nowhere.invalid:6379'"),
        (
            "ray://127.0.0.1:1",
            ProblemError,
            "address is 'ray://127.0.0.1:1', expected host:port, auto or local",
        ),
        ("127.0.0.1", ProblemError, "address is '127.0.0.1', expected host:port"),
    ],
)
def test_a_cluster_that_cannot_be_reached_is_named(address, error, message):
    with pytest.raises(error, match=message):
        RayCluster(1, address=address)


@pytest.mark.parametrize("kind", KINDS[1:], indirect=True)
def test_the_command_line_runs_on_a_cluster(kind, cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["learn", "three-state", "--samples", "40000", "--certify", "20000", "--json"]
    alone, joined = (
        json.loads(CliRunner().invoke(cli, [*words, *more]).stdout)
        for more in ([], ["--engine", "ray", "--address", cluster, "--workers", "2", "--folder", "chunks"])
    )
    assert {**joined, "seconds": None} == {**alone, "seconds": None}
    assert len(os.listdir("chunks")) == 5


def test_ray_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(EngineError, match=r"Ray is not installed\n  install the extra: .*fairmdp\[ray\]"):
        RayCluster(1)


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads /proc")
@pytest.mark.parametrize("kind", KINDS[1:], indirect=True)
def test_a_private_cluster_listens_on_loopback_alone(kind, cluster):
    assert cluster.startswith("127.0.0.1:")
    ours = sockets_of(descendants(os.getpid()))
    listening = [socket for table in ("tcp", "tcp6") for socket in listeners(Path("/proc/net", table))]
    addresses = {address for address, inode in listening if inode in ours}
    assert addresses and addresses <= {"0100007F", "0000000000000000FFFF00000100007F"}


def descendants(pid):
    children = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found, due = set(), [pid]
    while due:
        found.add(pid := due.pop())
        due += children.get(pid, [])
    return found


def sockets_of(pids):
    inodes = set()
    for pid in pids:
        with suppress(OSError):
            for link in Path("/proc", str(pid), "fd").iterdir():
                with suppress(OSError):
                    inodes.add(os.readlink(link).removeprefix("socket:[").removesuffix("]"))
    return inodes


def listeners(table):
    rows = [line.split() for line in table.read_text().splitlines()[1:]]
    return [(row[1].partition(":")[0], row[9]) for row in rows if row[3] == "0A"]
