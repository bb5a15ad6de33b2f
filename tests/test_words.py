"""Words on the command line: counts as people write them, what the shell completes, and other ways to call it."""

import subprocess
import sys

import click
import pytest
from click.shell_completion import ShellComplete

from fairmdp.cli import cli
from fairmdp.cli.flags import Count
from fairmdp.io import whole


@pytest.mark.parametrize(
    ("text", "number"), [("20000", 20000), ("1e6", 10**6), ("2.5E3", 2500), ("200_000", 200_000), ("-3", -3)]
)
def test_counts_are_read_as_people_write_them(text, number):
    assert whole(text) == number and isinstance(whole(text), int)


@pytest.mark.parametrize("text", ["2.5", "1,5", "many", "", "nan", "inf", "1e400", "1e-3", "0x10"])
def test_what_is_no_count_is_refused(text):
    with pytest.raises(ValueError):
        whole(text)
    with pytest.raises(click.BadParameter, match="is not a whole number, such as 20000 or 2e4"):
        Count(1).convert(text, None, None)


def test_counts_keep_their_range(run):
    assert Count(1).convert("1e3", None, None) == 1000 == Count(1).convert(1000, None, None)
    code, _, err = run("simulate", "three-state", "s.json", "--runs", "1e0")
    assert code == 2 and "1 is not in the range x>=2" in err
    assert run("solve", "garnet", "-p", "n_states=2e1", "--json")[0] == 0


def completed(*words, at):
    items = ShellComplete(cli, {}, "fairmdp", "_FAIRMDP_COMPLETE").get_completions(list(words), at)
    return [item.type if item.type == "file" else item.value for item in items]


def test_the_shell_completes_scenarios_files_and_options():
    assert completed("solve", at="thr") == ["file", "three-state"]
    assert completed("solve", at="clinic") == ["file"]
    assert {"jobs", "garnet", "file"} < set(completed("frontier", at=""))
    assert completed("verify", "three-state", at="so") == ["file"]
    assert completed("solve", "three-state", at="--meth") == ["--method"]
    assert completed(at="so") == ["solve"]


def test_python_m_is_the_command():
    call = [sys.executable, "-m", "fairmdp"]
    ended = subprocess.run([*call, "solve", "three-state", "--json"], capture_output=True, text=True)
    assert ended.returncode == 0 and '"optimal"' in ended.stdout
    wrong = subprocess.run([*call, "solv"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "Did you mean 'solve'?" in wrong.stderr
