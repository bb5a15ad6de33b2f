"""The README is true: its commands, its Python, its file and its screens are run and compared."""

import re
import shlex
import sys
from pathlib import Path

import pytest

import fairmdp.cli
from fairmdp import io

README = (Path(__file__).parent.parent / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.S | re.M)


def following(language, nth=0):
    """The nth block of a language and the plain block after it."""
    places = [i for i, (kind, _) in enumerate(BLOCKS) if kind == language]
    i = places[nth]
    return BLOCKS[i][1], BLOCKS[i + 1][1] if i + 1 < len(BLOCKS) else ""


def same(shown, printed):
    """Equal but for the rounding noise of a gap."""
    noise = re.compile(r"gap \d\.\de-\d+")
    return noise.sub("gap", shown).strip() == noise.sub("gap", printed).strip()


def run(monkeypatch, capsys, words):
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as end:
        fairmdp.cli.main()
    return end.value.code or 0, capsys.readouterr().out


def test_first_command_prints_what_is_shown(monkeypatch, capsys):
    commands, _ = following("sh")
    first = commands.splitlines()[0].split("#")[0]
    assert first.startswith("pip install uv && uv run fairmdp ")
    code, out = run(monkeypatch, capsys, shlex.split(first.split("uv run ")[1]))
    shown = next(text for kind, text in BLOCKS if kind == "" and text.startswith("three-state:"))
    assert code == 0 and same(shown, out)


@pytest.mark.parametrize("nth", range(sum(kind == "python" for kind, _ in BLOCKS)))
def test_python_prints_what_is_shown(nth, capsys):
    code, shown = following("python", nth)
    exec(compile(code, f"README python {nth}", "exec"), {})
    assert same(shown, capsys.readouterr().out)


def test_file_and_its_commands(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    toml, _ = following("toml")
    Path("clinic.toml").write_text(toml)
    assert io.load("clinic.toml").names == ("ward_b",)
    commands, _ = following("sh", 1)
    for line in commands.splitlines():
        code, out = run(monkeypatch, capsys, shlex.split(line))
        assert code == 0, out


def test_infeasible_screen(monkeypatch, capsys):
    shown = next(text for kind, text in BLOCKS if text.startswith("$ fairmdp"))
    command, rest = shown.split("\n", 1)
    code, out = run(monkeypatch, capsys, shlex.split(command[2:], comments=True))
    assert code == 3 and same(rest, out.split("\n\n", 1)[1])


@pytest.mark.parametrize("nth", range(2, sum(kind == "sh" for kind, _ in BLOCKS)))
def test_other_commands_run(nth, monkeypatch, capsys, tmp_path):
    """Each ends as its kind should; reproduce, which takes half a minute, has tests of its own."""
    monkeypatch.chdir(tmp_path)
    commands, _ = following("sh", nth)
    ran = 0
    for line in commands.splitlines():
        words = shlex.split(line, comments=True)
        if words[1] == "reproduce":
            continue
        code, out = run(monkeypatch, capsys, words)
        assert code == (4 if "mirror" in words else 0), out
        ran += 1
    assert ran >= 2
