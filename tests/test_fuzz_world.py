"""A hostile world: whatever happens while a file is written, the old file stays or the new one is whole."""

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from fairmdp import MDP, FormatError, Problem, Solution, load, save, scenarios, solve, verify
from fairmdp import files as atomic

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and signals as Linux has them")


def chain(n):
    """A ring of n states, to make files of any size."""
    from scipy.sparse import csr_array

    P = csr_array((np.ones(n), (np.arange(n) + 1) % n, np.arange(n + 1)), shape=(n, n))
    return Problem(MDP(P, np.arange(n) / n, np.arange(n)))


def started(script, *words, **options):
    """Another process that runs a script of ours."""
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def command(*words, limits=(), **options):
    """Exit code and errors of the command line under limits."""

    def restrict():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        for kind, size in limits:
            resource.setrlimit(kind, (size, size))

    process = started(
        "import fairmdp.cli; fairmdp.cli.main()", *words, preexec_fn=restrict if limits else None, **options
    )
    err = process.communicate(timeout=600)[1]
    return process.returncode, err


@pytest.mark.parametrize("name", ["m.toml", "m.npz", "m.tra", "m.drn"])
def test_a_full_disk_leaves_the_old_file(tmp_path, name):
    path = tmp_path / name
    save(scenarios.three_state(), path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    code, err = command(
        "new", "garnet", "--n-states", "60", "--force", "-o", path, limits=[(resource.RLIMIT_FSIZE, 4096)]
    )
    assert code == 1 and "cannot be written: File too large" in err and "Traceback" not in err
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_full_disk_while_solving(tmp_path):
    words = ["solve", "garnet", "-p", "n_states=60", "-o", "s.json"]
    code, err = command(*words, cwd=tmp_path, limits=[(resource.RLIMIT_FSIZE, 4096)])
    assert code == 1 and "s.json: cannot be written: File too large" in err and not any(tmp_path.iterdir())


def test_a_folder_that_may_not_be_written(tmp_path):
    """Not even root may make a file in a folder of the kernel's."""
    for path in (Path("/proc/self/m.npz"), Path("/proc/self/m.tra")):
        with pytest.raises(FormatError, match=r"/proc/self/m\.\w+: cannot be written: "):
            save(scenarios.three_state(), path)
    code, err = command("solve", "three-state", "-o", "/proc/self/s.json")
    assert code == 1 and "/proc/self/s.json: cannot be written" in err and "Traceback" not in err


WRITER = """
import sys
from fairmdp import load, save
problem = load(sys.argv[1])
print("ready", flush=True)
while True:
    save(problem, sys.argv[2])
"""


@pytest.mark.parametrize("name", ["m.npz", "m.drn"])
def test_a_writer_that_is_killed_leaves_a_whole_file(tmp_path, name):
    problem, path = chain(3000), tmp_path / name
    save(problem, tmp_path / "source.npz")
    save(problem, path)
    digest = load(path).digest
    for delay in (0.0, 0.003, 0.01):
        writer = started(WRITER, tmp_path / "source.npz", path)
        writer.stdout.readline()
        time.sleep(delay)
        writer.kill()
        writer.communicate()
        assert load(path).digest == digest


def test_two_writers_of_one_file(tmp_path):
    """A reader sees one of the two problems, whole, at any time."""
    path, problems = tmp_path / "m.npz", [chain(2000), chain(3000)]
    digests = {problem.digest for problem in problems}
    writers = []
    try:
        for problem in problems:
            source = tmp_path / f"{problem.mdp.n_states}.npz"
            save(problem, source)
            writers.append(started(WRITER, source, path))
        for writer in writers:
            writer.stdout.readline()
        while not path.exists():
            time.sleep(0.001)
        assert {load(path).digest for _ in range(60)} <= digests
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()
    assert load(path).digest in digests


def test_an_interrupt_while_writing_leaves_nothing(tmp_path):
    """Ctrl-C, not SIGKILL: the unfinished file goes as well."""
    script = (
        "import sys, time\nfrom fairmdp import files as atomic\n"
        "with atomic.replacing(sys.argv[1]) as file:\n"
        "    file.write(b'half'); file.flush(); print('ready', flush=True); time.sleep(60)\n"
    )
    writer = started(script, tmp_path / "f")
    writer.stdout.readline()
    assert len(list(tmp_path.iterdir())) == 1
    writer.send_signal(signal.SIGINT)
    writer.communicate(timeout=600)
    assert not any(tmp_path.iterdir())


def test_a_clock_that_goes_back_changes_nothing(tmp_path, monkeypatch):
    problem = scenarios.three_state()
    expected = solve(problem)
    save(problem, tmp_path / "a.npz")
    ticks = iter(range(10**9, 0, -1000))
    monkeypatch.setattr(time, "time", lambda: float(next(ticks)))
    monkeypatch.setattr(time, "time_ns", lambda: next(ticks) * 10**9)
    answer = solve(problem)
    assert np.array_equal(answer.policy, expected.policy) and verify(problem, answer).ok
    save(problem, tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    answer.save(tmp_path / "s.json")
    os.utime(tmp_path / "s.json", (0, 0))
    assert Solution.load(tmp_path / "s.json").gain == expected.gain
    atomic.write_bytes(tmp_path / "s.json", b"{}")


MEMORY = 700 * 2**20
"""Enough to start, not enough for the models below."""


@pytest.mark.parametrize(
    "words",
    [
        ["new", "garnet", "--n-states", "3000000", "-o", "m.npz"],
        ["solve", "garnet", "-p", "n_states=3000000", "-o", "s.json"],
    ],
)
def test_too_little_memory_is_said_in_a_sentence(tmp_path, words):
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    code, err = command(*words, cwd=tmp_path, limits=[(resource.RLIMIT_AS, MEMORY)], env=environment)
    assert code == 1 and err.count("\n") == 1 and "out of memory: this problem is too large" in err, err
    assert not any(tmp_path.iterdir())
