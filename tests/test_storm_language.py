"""Models in the languages of PRISM and JANI: built by Storm where it is installed, an advice where it is not."""

import sys
from pathlib import Path

import numpy as np
import pytest
from pages import blocks
from umb_files import MDP, PROGRAM

import fairmdp as fm
from fairmdp import FormatError

OPEN = PROGRAM.replace("mdp\n", "mdp\nconst double p;\n").replace("0.9 :", "p :").replace("0.1 :", "1-p :")


@pytest.fixture
def program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.prism").write_text(OPEN)


def test_without_storm_the_way_around_is_named(program, monkeypatch, run):
    monkeypatch.setitem(sys.modules, "stormpy", None)
    with pytest.raises(
        FormatError, match="m.prism: models in the .* stormpy is not installed\n.*-exportmodel model.all"
    ):
        fm.load("m.prism", constants={"p": 0.9})
    with pytest.raises(FormatError, match="none.jani: cannot be read"):
        fm.load("none.jani")
    with pytest.raises(FormatError, match="m.jani: models in a language are read, and not written"):
        fm.save(fm.scenarios.three_state(), "m.jani")
    with pytest.raises(FormatError, match="this is not a model in a language, it has no constants"):
        fm.load("m.drn", constants={"p": 0.9})
    code, _, err = run("solve", "m.prism", "-p", "p=0.9", "--reward", "time")
    assert code == 1 and "stormpy is not installed" in err
    assert "--param 'p': expected CONSTANT=VALUE" in run("solve", "m.prism", "-p", "p")[2]


@pytest.mark.storm
def test_storm_builds_what_was_written(program, tmp_path, run):
    stormpy = pytest.importorskip("stormpy", reason="the extra storm is not installed")
    (tmp_path / "m.umb").write_bytes(MDP)  # which Storm built of the same program at another time
    problem, same = fm.load("m.prism", reward="time", constants={"p": 0.9}), fm.load("m.umb", reward="time")
    assert problem.digest == same.digest
    other = fm.load("m.prism", reward="energy", constants={"p": 0.25})
    assert 0.25 in other.mdp.P.data and np.array_equal(other.mdp.r, same.mdp.rewards["energy"])
    model, _ = stormpy.parse_prism_program("m.prism").to_jani([])
    stormpy.io.export_jani_to_file("m.jani", model)
    for file in ("m.prism", "m.jani"):
        words = ("-p", "p=0.9", "--reward", "time", "--quota", 'LRA>=0.3 ["home"]', "--quota", "energy<=2")
        code, out, err = run("solve", file, *words, "-o", "kept.json")
        assert code == 0 and "worst slack 0" in out, err
        assert run("verify", file, *words, "kept.json")[0] == 0


@pytest.mark.storm
@pytest.mark.parametrize(("text", "constants", "message"), [
    (OPEN, {}, "m.prism: constants without a value: p\n  give constants="),
    (OPEN, {"q": 1}, "Storm says: .*unknown undefined constant 'q'"),
    (OPEN, {"p": "x"}, "Storm says: .*constant 'p' by constant 'x"),
    (OPEN, {"p": 2}, "m.prism: "),
    ("no model", None, "Storm says: .*expecting <model type>"),
    ("smg\n" + OPEN[5:], {"p": 0.9}, "m.prism: "),
])  # fmt: skip
def test_what_storm_refuses_is_said(text, constants, message, program, tmp_path):
    pytest.importorskip("stormpy", reason="the extra storm is not installed")
    (tmp_path / "m.prism").write_text(text)
    with pytest.raises((FormatError, fm.ProblemError), match=message):
        fm.load("m.prism", reward="time", constants=constants)


@pytest.mark.storm
def test_the_story_is_what_storm_says(tmp_path, monkeypatch):
    stormpy = pytest.importorskip("stormpy", reason="the extra storm is not installed")
    monkeypatch.chdir(tmp_path)
    for block in blocks(Path(__file__).parent.parent / "docs" / "story-prism.md"):
        if block.file:
            Path(block.file).write_text(block.text)
    bounds = ['R{"energy"}<=1 [LRA]', 'LRA<=0.1 ["full"]']
    for file in ("link.prism", "link.drn"):
        problem = fm.load(file, reward="sent")
        gain = fm.solve(problem.with_quotas(fm.parse_quotas(problem, bounds))).gain
        assert gain == pytest.approx(0.586379, abs=1e-6)
    model = stormpy.build_model_from_drn("link.drn")
    (asked,) = stormpy.parse_properties(f'multi(R{{"sent"}}max=? [LRA], {", ".join(bounds)})')
    found = stormpy.model_checking(model, asked, only_initial_states=True).get_value(0)
    assert found == pytest.approx(0.586379, abs=1e-4)
