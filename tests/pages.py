"""Markdown pages as tests: their code is run in order, in a folder of its own, and what they show is compared.

What a fenced block says after its backticks decides what happens to it.

``python``
    Run; blocks of one page share their names. A plain block right after it shows what was printed.
``console``
    Lines after ``$`` are commands, what follows them their output. ``# exit code 3`` behind a command says that
    it ends so, else it ends with 0.
``sh``
    One command per line, run like those; a plain block right after it shows what they printed.
``toml``, or ``python`` with a file's name as its first comment
    Written to that file, for the commands that follow.
``text`` with a file's name behind it
    Written to that file, too.
``text``
    For the eye only, as are directives of the documentation, ``{...}``.

In shown output ``...`` stands for anything, as in doctests.
"""

import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import fairmdp.cli

NOT_RUN = (
    "fairmdp reproduce",
    "fairmdp explore",
    "pytest",
    "ruff",
    "mypy",
    "sphinx-build",
    "git clone",
    "cd ",
    "pip install ",
)
"""What takes long, does not end by itself, needs a network, or would run these tests again; each has tests of its own or needs none."""

_NOISE = [(r"gap -?\d\.\de-\d+", "gap"), (r"\d+\.\d s\b", "s")]  # rounding and time
_FENCE = re.compile(r"^```(\S*) ?([^\n]*)\n(.*?)^```$", re.S | re.M)
_FILE = re.compile(r"# (\w+\.(?:py|toml))\n")


class Block(NamedTuple):
    kind: str
    text: str
    line: int
    adjacent: str | None  # the plain block that follows, which shows its output
    file: str  # what it is called behind the backticks


def blocks(page):
    """The fenced blocks of a page; a plain one belongs to the block before it."""
    text = page.read_text()
    found = [(m[1], m[3], text[: m.start()].count("\n") + 1, m[2]) for m in _FENCE.finditer(text)]
    for before, this in zip([("", "", 0, ""), *found], found, strict=False):
        assert this[0] or before[0] in ("python", "sh"), f"{page.name}, line {this[2]}: output of nothing"
    pairs = zip(found, [*found, ("end", "", 0, "")][1:], strict=True)
    return [
        Block(kind, shown, line, after[1] if after[0] == "" else None, name)
        for (kind, shown, line, name), after in pairs
        if kind
    ]


def run_page(page, capsys, monkeypatch):
    """Do what a reader of a page does, in the working folder."""
    names = {"__name__": "__page__"}
    monkeypatch.syspath_prepend("")
    for block in blocks(page):
        where = f"{page.name}, line {block.line}"
        name = _FILE.match(block.text)
        if block.kind in ("python", "toml") and name:
            Path(name[1]).write_text(block.text)
            monkeypatch.delitem(sys.modules, Path(name[1]).stem, raising=False)
        elif block.kind == "text" and block.file:
            Path(block.file).write_text(block.text)
        elif block.kind == "python":
            exec(compile("\n" * block.line + block.text, page.name, "exec"), names)
            compare(block.adjacent, capsys.readouterr().out, where)
        elif block.kind == "console":
            for command, shown in _dialogue(block.text):
                compare(shown, command_output(command, capsys, monkeypatch, where), where)
        elif block.kind == "sh":
            lines = block.text.splitlines()
            compare(
                block.adjacent, "".join(command_output(c, capsys, monkeypatch, where) for c in lines), where
            )
        else:
            assert block.kind == "text" or block.kind.startswith("{"), f"{where}: a block of {block.kind!r}"


def compare(shown, printed, where):
    """Fail unless the page shows what was printed; nothing shown claims nothing."""
    if shown is None:
        return
    for noise, mark in _NOISE:
        shown, printed = re.sub(noise, mark, shown), re.sub(noise, mark, printed)
    same = doctest.OutputChecker().check_output(
        shown.strip() + "\n", printed.strip() + "\n", doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    )
    assert same, f"{where} shows\n{shown}\nbut it is\n{printed}"


def command_output(line, capsys, monkeypatch, where):
    """What a command prints, which must end with the exit code that the line names; errors where it is 1 or 2."""
    due = re.search(r"# .*exit code (\d)", line)
    line = re.sub(r"^(pip install uv && )?uv run (--\S+ \S+ )?", "", line)
    if line.startswith(NOT_RUN):
        return ""
    words = shlex.split(line, comments=True)
    if words[0] == "cat":
        return Path(words[1]).read_text()
    if words[0] == "python":
        ended = subprocess.run([sys.executable, *words[1:]], capture_output=True, text=True, timeout=600)
        code, out, err = ended.returncode, ended.stdout, ended.stderr
    else:
        assert words[0] == "fairmdp", f"{where}: {line!r} cannot be run here"
        monkeypatch.setattr(sys, "argv", words)
        try:
            code = fairmdp.cli.main()
        except SystemExit as end:
            code = end.code or 0
        out, err = capsys.readouterr()
    assert code == (int(due[1]) if due else 0), f"{where}: {line!r} ended with {code}\n{out}{err}"
    return out + err if code in (1, 2) else out


def _dialogue(text):
    """Commands of a console block, each with what is shown below it."""
    before, *parts = re.split(r"^\$ ", text, flags=re.M)
    assert not before, f"a console block begins with {before!r}, expected a command"
    return [part.split("\n", 1) for part in parts]
