"""``fairmdp certify``: verdicts on kept policies from fresh samples, and where the work is done."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from test_cli_learn import SIMULATOR

from fairmdp.cli import cli
from fairmdp.cli.certify import progress

pytestmark = pytest.mark.slow


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("walks.py").write_text(SIMULATOR)
    return lambda *words: CliRunner().invoke(cli, words)


@pytest.fixture
def kept(run):
    """Policy that stays or leaves by the toss of a coin: half of the time in each place."""
    Path("coin.json").write_text(json.dumps({"policy": [0.5, 0.5, 0.5, 0.5]}))
    return "coin.json"


@pytest.mark.parametrize(
    "quota, verdict, code",
    [("1>=0.4", "fair", 0), ("1>=0.6", "not fair", 3), ("1>=0.499", "undecided", 4)],
)
def test_verdicts_and_exit_codes(run, kept, quota, verdict, code):
    ended = run("certify", "walks:walk", kept, "--quota", quota, "--samples", "20000")
    assert ended.exit_code == code, ended.output
    assert ended.stdout.startswith(f"walks:walk: {verdict}\n")
    assert ("more samples would decide" in ended.stdout) == (verdict == "undecided")
    answer = json.loads(
        run("certify", "walks:walk", kept, "--quota", quota, "--samples", "20000", "--json").stdout
    )
    assert answer["verdicts"] == [verdict] and answer["quota_names"] == ["1"]
    assert answer["share_low"][0] < 0.5 < answer["share_high"][0]
    assert answer["upper"] is None  # needs training, which is not looked at


def test_progress_is_shown_to_whoever_waits_at_a_terminal(monkeypatch, capsys):
    assert progress(False) is None  # nobody does
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert progress(True) is None
    clock = iter([0.0, 2.0, 8.0])
    show = progress(False, lambda: next(clock))
    show(250, 1000)
    show(1000, 1000)
    assert capsys.readouterr().err == (
        "\r  250 of 1,000 fresh samples, 6 s left   \r  1,000 of 1,000 fresh samples, 0 s left   "
    )


@pytest.mark.slow
def test_what_learn_and_solve_have_kept(run):
    quota = ("--quota", "1>=0.3")
    assert run("learn", "walks:walk", *quota, "--samples", "4000", "-o", "learned.json").exit_code == 0
    assert run("certify", "walks:walk", "learned.json", *quota, "--samples", "200000").exit_code == 0
    run("solve", "three-state", "-o", "solved.json")
    ended = run("certify", "three-state", "solved.json", "--samples", "20000", "--rigorous")
    assert ended.exit_code == 4 and "two-level empirical Bernstein bounds: undecided" in ended.stdout


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--rigorous",)])
def test_processes_change_nothing(run, kept, more):
    words = ("certify", "walks:walk", kept, "--quota", "1>=0.4", "--samples", "60000", "--json", *more)
    alone, pooled = run(*words), run(*words, "--workers", "2")
    assert alone.exit_code == 0 and pooled.stdout == alone.stdout


@pytest.mark.slow
def test_simulate_in_processes_changes_nothing(run):
    run("solve", "three-state", "-o", "solved.json")
    words = ("simulate", "three-state", "solved.json", "--steps", "50", "--runs", "60", "--json")
    assert run(*words, "--workers", "2").stdout == run(*words).stdout != ""


@pytest.mark.parametrize(
    "words, message",
    [
        (["walks.py"], "walks.py: line 2: expected STATE=ACTION, as PRISM's strategies have it"),
        (["empty.json"], "this is not a policy, nor a solution"),
        (["nowhere.json"], "cannot be read"),
        (["short.json"], "its policy is over 1 state-action pairs, the model has 4"),
        (["coin.json", "--address", "127.0.0.1:1"], "cannot reach the Ray cluster"),
    ],
)
def test_bad_files_and_places_are_named(run, kept, words, message):
    Path("empty.json").write_text("{}")
    Path("short.json").write_text('{"policy": [1.0]}')
    ended = run("certify", "walks:walk", *words)
    with pytest.raises(Exception, match=message):
        raise ended.exception


@pytest.mark.parametrize(
    "words, message",
    [
        (
            ["--engine", "processes", "--address", "here:1"],
            "--address is for --engine ray, not for processes",
        ),
        (["--engine", "serial", "--workers", "2"], "--engine serial has no workers"),
        (["--samples", "10"], "1000"),
    ],
)
def test_options_that_contradict_each_other(run, kept, words, message):
    ended = run("certify", "walks:walk", kept, *words)
    assert ended.exit_code == 2 and message in ended.output
