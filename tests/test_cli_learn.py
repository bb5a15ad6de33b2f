"""``fairmdp learn`` on ready-made problems and on a user's own simulator."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from fairmdp import FormatError, Solution, learn, scenarios
from fairmdp.cli import cli, main
from fairmdp.cli.learn import _progress

pytestmark = pytest.mark.slow

SIMULATOR = '''
import numpy as np

class Walk:
    """Two places; staying pays 1 in the first."""
    n_states, n_actions = 2, np.array([2, 2])

    def sample(self, states, actions, rng):
        stay = rng.random(states.size) < np.where(actions == 0, 0.9, 0.1)
        return np.where(stay, states, 1 - states), (states == 0).astype(float)

class Tired(Walk):
    """Is interrupted after a while."""
    calls = 0

    def sample(self, states, actions, rng):
        self.calls += 1
        if self.calls == 8:
            raise KeyboardInterrupt
        return super().sample(states, actions, rng)

def make():
    return Walk()

walk = Walk()
broken = 3
'''


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("walks.py").write_text(SIMULATOR)
    return lambda *words: CliRunner().invoke(cli, ["learn", *words])


def test_a_ready_made_problem_is_only_sampled_from(run):
    ended = run("three-state", "--samples", "6000", "--certify", "100000")
    assert ended.exit_code == 0, ended.output
    assert "plug-in from 6,000 samples" in ended.stdout
    assert "claim   confirmed on 4,200 fresh samples at level 0.05" in ended.stdout
    assert "fresh samples" in ended.stdout and "share of s2 in [0.2" in ended.stdout
    assert "optimal" not in ended.stdout


@pytest.mark.parametrize("name", ["walks:walk", "walks:make", "walks:Walk"])
def test_a_simulator_of_ones_own(run, name):
    ended = run(name, "--quota", "1>=0.3", "--samples", "4000", "--json", "-o", "kept.json")
    assert ended.exit_code == 0, ended.output
    answer = json.loads(ended.stdout)
    assert answer["guaranteed"] and answer["shares"][0] >= 0.3 and len(answer["policy"]) == 4
    del answer["seconds"]  # time is no part of the result that is kept
    assert json.loads(Path("kept.json").read_text()) == answer
    again = json.loads(run(name, "--quota", "1>=0.3", "--samples", "4000", "--json").stdout)
    assert again["policy"] == answer["policy"] and again["gain"] == answer["gain"]


@pytest.mark.slow
@pytest.mark.parametrize("source, quota", [("walks:walk", "1>=0.3"), ("three-state", "s2>=0.25")])
def test_what_was_learned_can_be_run(run, source, quota):
    assert run(source, "--quota", quota, "--samples", "6000", "-o", "kept.json").exit_code == 0
    ended = CliRunner().invoke(cli, ["simulate", source, "kept.json", "--quota", quota, "--steps", "500"])
    assert ended.exit_code == 0, ended.output
    name = quota.split(">")[0]
    assert (
        "exact" in ended.stdout and f"\n  {name} " in ended.stdout and "100 runs of 500 steps" in ended.stdout
    )
    record = json.loads(
        CliRunner().invoke(cli, ["simulate", source, "kept.json", "--quota", quota, "--json"]).stdout
    )
    learned = json.loads(Path("kept.json").read_text())
    share = record["quotas"][-1 if source == "three-state" else 0]
    assert record["exact_gain"] is None and share["name"] == name
    assert share["share"] == pytest.approx(learned["shares"][-1], abs=0.02)


def test_processes_and_a_folder_change_nothing(run):
    words = ("three-state", "--samples", "6000", "--json")
    alone = json.loads(run(*words).stdout)
    pooled = json.loads(run(*words, "--workers", "2", "--folder", "chunks").stdout)
    assert pooled["policy"] == alone["policy"] and list(Path("chunks").glob("chunk-*.npz"))


def test_accuracy_instead_of_a_budget(run):
    answer = json.loads(run("walks:walk", "--quota", "1>=0.3", "--eps", "0.05", "--json").stdout)
    assert answer["finished"] and answer["gap"] <= 0.05


def test_too_few_samples_withhold_the_claim(run):
    ended = run("three-state", "--samples", "60")
    assert ended.exit_code == 4
    assert "confirmed on" not in ended.stdout and "claim   no claim" in ended.stdout


def test_quotas_that_cannot_be_met(run):
    ended = run("walks:walk", "--quota", "1>=0.99", "--samples", "4000")
    assert ended.exit_code == 3, ended.output


@pytest.mark.parametrize(
    "words, message",
    [
        (
            ["three-state"],
            "give a budget, such as --samples 10000 (hundreds per pair), or an accuracy",
        ),
        (["three-state", "--samples", "10", "--eps", "0.1"], "give --samples or --eps, not both"),
        (["three-state", "--method", "mirror", "--eps", "0.1"], "mirror descent takes a budget"),
        (["three-state", "--method", "mirror", "--samples", "100", "--workers", "2"], "it takes no engine"),
        (
            ["three-state", "--method", "magic", "--samples", "100"],
            "'magic' is not one of 'plugin', 'mirror'",
        ),
        (["walks.py:walk", "--samples", "10"], "a module is named without .py: write walks:walk"),
        (["nowhere:sim", "--samples", "10"], "cannot import nowhere"),
        (["walks:nothing", "--samples", "10"], "module walks has no nothing"),
        (
            ["walks:walk", "-p", "x=1", "--samples", "10"],
            "--param is for functions with parameters, and walks:walk is none",
        ),
        (["three-state", "--samples", "1000", "-o", "no/where.json"], "there is no such folder"),
    ],
)
def test_mistakes_are_named(run, words, message):
    ended = run(*words)
    assert ended.exit_code == 2 and message in ended.output


def test_what_is_no_simulator_is_named(run):
    ended = run("walks:broken", "--samples", "100")
    assert "int is not a simulator: it has no n_states" in str(ended.exception)


def test_what_was_learned_is_kept_and_certified_but_is_no_solution(run):
    out = run("walks:walk", "--quota", "1>=0.3", "--samples", "4000", "-o", "kept.json").stdout
    assert "saved   kept.json   (prove it: fairmdp certify walks:walk '--quota=1>=0.3' kept.json)" in out
    with pytest.raises(FormatError, match="kept.json: this is what learn has kept, not a solution"):
        Solution.load("kept.json")


def test_unknown_states_of_a_simulator_are_named_by_their_range(run):
    ended = run("walks:walk", "--quota", "9>=0.3", "--samples", "4000")
    assert "there is no quota or state called '9'; states are called 0 to 1" in str(ended.exception)


def test_no_quotas_are_no_empty_table(run):
    ended = run("walks:walk", "--samples", "4000")
    assert ended.exit_code == 4 and "  no quotas\n" in ended.stdout and "margin" not in ended.stdout


def test_a_run_that_was_stopped_is_not_called_infeasible(run):
    ended = run("walks:Tired", "--quota", "1>=0.99", "--samples", "400000")
    assert ended.exit_code == 4, ended.output
    assert "the quotas are not met" in ended.stdout or "no policy seems to meet" in ended.stdout
    assert "note    stopped before the end" in ended.stdout


def test_mirror_descent_is_a_method_like_the_other(run):
    words = ("three-state", "--method", "mirror", "--samples", "20000", "--seed", "3")
    answer = json.loads(run(*words, "--json").stdout)
    three = scenarios.three_state()
    known = learn(three.mdp.simulator(), three.quotas, samples=20_000, seed=3, method="mirror")
    assert answer["policy"] == known.policy.tolist() and answer["method"] == "mirror"
    assert answer["gain"] == known.gain and answer["gap"] is None and answer["prices"] == [None] * 3
    ended = run(*words)
    assert ended.exit_code == 4 and "no claim: mirror descent makes none" in ended.stdout
    assert "mirror descent from 19,992 samples" in ended.stdout
    assert "inf" not in ended.stdout and "nan" not in ended.stdout


def test_quotas_out_of_reach(run):
    ended = run("three-state", "--quota", "s2>=0.6", "--samples", "6000")
    assert ended.exit_code == 3
    assert "no policy seems to meet the quotas" in ended.stdout
    assert "inf" not in ended.stdout and "nan" not in ended.stdout


def test_progress_shows_samples_time_left_and_bounds_now_and_then(capsys):
    clock = iter([0.0, 1.0, 4.0, 4.5, 6.0, 8.0, 8.0])  # looking costs half a second, so not again at 6 or 8
    asked = []

    def estimate():
        asked.append(1)
        return SimpleNamespace(gain=0.44, gain_se=0.002, worst_slack=0.001)

    show = _progress(lambda: next(clock))
    for done in (100, 200, 300, 400):
        show(done, 400, estimate)
    lines = capsys.readouterr().err.split("\r")[1:]
    assert lines[0].strip() == "100 of 400 samples, 3 s left"
    assert lines[1].strip() == "200 of 400 samples, 4 s left; gain 0.4400 +- 0.0020, worst slack +0.0010"
    assert "300 of 400 samples, 2 s left; gain 0.4400" in lines[2]
    assert lines[3].endswith("\n") and asked == [1]


class Endless:
    n_states, n_actions = 2, np.array([2**62, 2])

    def sample(self, states, actions, rng):
        return np.zeros(states.size, int), np.ones(states.size)


class Broken(Endless):
    n_actions = np.array([1, 1])

    def sample(self, states, actions, rng):
        raise RuntimeError("broken pump")


class Leaving(Broken):
    def sample(self, states, actions, rng):
        raise SystemExit(0)


class Closing(Broken):
    def sample(self, states, actions, rng):
        raise GeneratorExit("closed")


class Silent(Broken):
    @property
    def n_actions(self):
        raise SystemExit(0)


class Unmade(Broken):
    def __init__(self):
        raise SystemExit(0)


@pytest.mark.parametrize("workers", [[], ["--workers", "1"]])
@pytest.mark.parametrize(
    "simulator, said",
    [(Endless, "state 0 has 4611686018427387904 actions"), (Broken, "the simulator raised RuntimeError: broken pump"), (Leaving, "the simulator raised SystemExit: 0"), (Closing, "the simulator raised GeneratorExit: closed"), (Silent, "the simulator raised SystemExit: 0"), (Unmade, "made nothing, it raised SystemExit: 0")],
)  # fmt: skip
def test_what_a_simulator_does_wrong_is_its_own_fault(simulator, said, workers, monkeypatch, capsys):
    """A message and code 1, whatever it raises: nothing that looks like success, or like a mistake of ours."""
    words = ["fairmdp", "learn", f"{__name__}:{simulator.__name__}", "--samples", "2000", "--quota", "0>=0.1"]
    monkeypatch.setattr(sys, "argv", [*words, *workers])
    with pytest.raises(SystemExit) as ended:
        main()
    text = capsys.readouterr().err
    assert ended.value.code == 1 and said in text and "mistake of ours" not in text


def test_a_result_that_is_kept_has_the_same_bytes_after_a_resume(tmp_path):
    """Whatever the time: chunks of the first run are taken from the folder by the second one."""
    kept = [tmp_path / "one.json", tmp_path / "two.json"]
    for file in kept:
        words = [
            "learn",
            "three-state",
            "--samples",
            "3000",
            "--workers",
            "1",
            "--folder",
            str(tmp_path / "x"),
        ]
        assert CliRunner().invoke(cli, [*words, "-o", str(file)]).exit_code in (0, 4)
    assert kept[0].read_bytes() == kept[1].read_bytes() and b'"seconds"' not in kept[0].read_bytes()


LABELLED = (
    SIMULATOR
    + """
class Named(Walk):
    labels = {"home": [0], "both": np.array([True, True])}

class Wrong(Walk):
    labels = ["home"]
"""
)


def test_groups_of_states_are_named_on_the_command_line_or_by_the_simulator(run):
    Path("walks.py").write_text(LABELLED)
    sys.modules.pop("walks", None)
    words = ("--samples", "4e3", "--json")
    own = json.loads(run("walks:walk", "--group", "away=1", "--quota", "away>=0.3", *words).stdout)
    assert own["quota_names"] == ["away"] and own["shares"][0] >= 0.3
    named = json.loads(run("walks:Named", "--quota", "home<=0.6", *words).stdout)
    assert named["quota_names"] == ["home", "both"] and named["shares"][1] == pytest.approx(1)
    assert named["asked"][0] == [None, 0.6] and named["shares"][0] <= 0.6
    assert "labels ['home'], expected {name: states}" in str(run("walks:Wrong", *words).exception)


@pytest.mark.parametrize(("group", "words"), [
    ("short", "expected NAME=STATE,STATE"),
    ("short=", "expected NAME=STATE,STATE"),
    ("=1", "expected NAME=STATE,STATE"),
    ("short=7", "quota short: there is no state called '7'"),
])  # fmt: skip
def test_mistakes_in_groups_are_named(run, group, words):
    ended = run("walks:walk", "--group", group, "--samples", "4000")
    assert ended.exit_code in (1, 2) and words in ended.output + str(ended.exception)


def test_groups_name_states_of_models_too():
    words = ["--group", "short=0,0;0,1", "--quota", "short<=0.9", "--json"]
    ended = CliRunner().invoke(cli, ["solve", "jobs", *words])
    assert ended.exit_code == 0 and "short" in ended.stdout
