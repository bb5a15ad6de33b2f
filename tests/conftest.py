"""Tests import each other's helpers by name; fuzz tests draw a few cases, or ten thousand when told to.

pytest --hypothesis-profile=fuzz -m fuzz
"""

import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import fairmdp.cli

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]  # helpers, benchmarks
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore Ctrl-C

_UNHURRIED = dict(suppress_health_check=list(HealthCheck))
settings.register_profile("quick", max_examples=80, derandomize=True, deadline=None, **_UNHURRIED)
settings.register_profile("fuzz", max_examples=10_000, print_blob=True, deadline=10_000, **_UNHURRIED)
settings.load_profile("quick")


# Tests run side by side on all cores: threads of linear algebra would wait for each other. NumPy is not loaded yet.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Processes that tests start would compile all of fairmdp's sources again where no bytecode is kept.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_configure(config):
    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        from plain_kernels import install

        install()
        config.addinivalue_line("filterwarnings", "ignore:overflow encountered:RuntimeWarning")  # hashes wrap


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """Call the entry point in an empty folder; returns exit code, output and errors."""
    monkeypatch.chdir(tmp_path)

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["fairmdp", *words])
        with pytest.raises(SystemExit) as end:
            fairmdp.cli.main()
        out, err = capsys.readouterr()
        return end.value.code or 0, out, err

    return call


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items):
    """Tests of a file share fixtures and loaded kernels, those of Ray a cluster: one worker runs them all.

    Slow ones are handed out last and one by one, so that workers end together, unless their file says that
    they share a fixture that is dear.
    """
    for item in items:
        if item.get_closest_marker("ray"):
            item.add_marker(pytest.mark.xdist_group("ray"))
        elif item.get_closest_marker("browser") or not item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
