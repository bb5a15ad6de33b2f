"""Tests import each other's helpers by name; fuzz tests draw a few cases, or ten thousand when told to.

pytest --hypothesis-profile=fire -k fire
"""

import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import fairmdp.cli

sys.path.insert(0, str(Path(__file__).parent))
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore Ctrl-C

_UNHURRIED = dict(suppress_health_check=list(HealthCheck))
settings.register_profile("quick", max_examples=120, derandomize=True, deadline=None, **_UNHURRIED)
settings.register_profile("fire", max_examples=10_000, print_blob=True, deadline=10_000, **_UNHURRIED)
settings.load_profile("quick")


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
