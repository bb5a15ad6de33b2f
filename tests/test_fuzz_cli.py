"""Any words on the command line give an exit code and a message: never a traceback, never half a file."""

import json
from pathlib import Path

import pytest
from fuzz import mostly
from hypothesis import example, given
from hypothesis import strategies as st
from test_explicit import DRN, PRISM, written
from test_io import CLINIC, odd_names

from fairmdp import save, scenarios, solve

pytestmark = pytest.mark.fuzz

NUMBERS = ["0", "1", "2", "-1", "0.5", "1e-3", "1e-300", "nan", "inf", "-inf", "1e400", "9" * 30, "10%", "%", "", "x", "٣", "0.1,0.2", ","]  # fmt: skip
word = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), max_size=8)
number = st.sampled_from(NUMBERS) | st.floats(-1, 2).map(str)


def option(*names, of=number):
    """An option and its value, sometimes another one, or none."""
    return mostly(
        st.tuples(st.sampled_from(names), of), st.tuples(st.sampled_from(names), word) | flag(*names)
    )


def flag(*names):
    return st.sampled_from(names).map(lambda name: (name,))


FILES = ["cut.toml", "cut.npz", "cut.tra", "none.toml", "folder.toml", "solved.json", "names.npz"]  # fmt: skip
sources = mostly(
    st.sampled_from(["three-state", "alpha-chain", "bandit", *(f"in/good.{kind}" for kind in ("toml", "npz", "drn", "tra"))]),
    st.sampled_from([f"in/{name}" for name in FILES]) | word,
)  # fmt: skip
solutions = mostly(
    st.sampled_from(["in/solved.json", "in/infeasible.json"]),
    st.sampled_from(["in/cut.json", "in/none.json", "in/good.toml"]),
)
quotas = mostly(
    st.sampled_from(["s0>=0.2", "s2<=1e-3", "s0/a1>=10%", 'LRA>=0.25 ["home"]', "s2>=0.9", "home>=0.1", "0>=0.5", "s2>=1", "s2<=0"]),
    st.sampled_from(["s0>=nan", "s0<=-1", "ward>=0.1", "="]),
)  # fmt: skip
parameters = mostly(
    st.sampled_from(["reward=pay", "alpha=0.5", "rho=0.1,0.1,0.3"]), st.sampled_from(["reward=x", "alpha=nan", "rho=1,2", "x", "=", "seed=" + "9" * 30])
)  # fmt: skip
problem_options = mostly(
    option("--quota", of=quotas) | flag("--json"),
    st.one_of(
        option("--rho", of=st.sampled_from(["0.1,0.1,0.2", "0,0,0", "1,1,1", "nan,0,0", "0.1", "0.4,0.4,0.4", ""])),
        option("-p", "--param", of=parameters),
        flag("--help", "-h", "--"),
        word.map(lambda text: (text,)),
    ),
)  # fmt: skip
outputs = mostly(
    st.sampled_from(["out.json", "out.toml", "out.npz", "out.tra", "out.drn", "out.png"]),
    st.sampled_from(["no/out.json", ".", "in"]),
)


def calls(command, *options, arguments):
    """Command lines: the command, its arguments, then options of the problem and its own, in any order."""
    extra = st.lists(st.one_of(problem_options, *options), max_size=3)
    return st.builds(
        lambda named, more: [command, *named, *(part for words in more for part in words)], arguments, extra
    )


scenario_options = option("--n-states", "--n-actions", "--seed", "--rho", "--alpha", "--clients", "--quota", "--branching", of=st.sampled_from(NUMBERS))  # fmt: skip
lines = st.one_of(
    calls(
        "solve",
        option("--method", of=st.sampled_from(["lp", "dual", "proximal", "colgen", "mirror", "magic"])),
        option("--tol", "--seed"),
        option("--steps", of=st.sampled_from(["1", "100", "2000", "0", "-1", "x"])),
        option("-o", "--strategy", of=outputs),
        arguments=st.tuples(sources),
    ),
    calls("solve", option("--figure", of=outputs), option("--plot", of=st.sampled_from(["shares", "policy", "graph"])), arguments=st.tuples(sources)),
    calls("verify", flag("--exact"), arguments=st.tuples(sources, solutions)),
    calls(
        "frontier",
        option("--values", "--second-values", of=st.sampled_from(["0:0.4:3", "0.1,0.2", "0:1:" + "9" * 12, "1:0:2", "0:1:-1", "a:b:3", "2", "nan"])),
        option("--csv", of=outputs),
        arguments=st.tuples(sources) | st.tuples(sources, st.sampled_from(["s2", "s0", "*", "x", "home"])) | st.sampled_from([("three-state", "s0", "s2", "--values", "0,1", "--second-values", "0.1"), ("in/good.toml", "s2", "x", "--values", "0")]),
    ),
    calls("compare", arguments=st.tuples(sources)),
    calls(
        "learn",
        option("--samples", of=st.sampled_from(["1", "300", "2000", "0", "-1", "x"])),
        option("--delta", "--seed"),
        option("--certify", of=st.sampled_from(["1000", "999", "x"])),
        flag("--rigorous"),
        option("-o", of=outputs),
        arguments=st.tuples(sources | st.sampled_from(["json:loads", "math:pi", "os:getpid", "nosuch:x", ":x", "..a:b", "json:", "a.b.c:d", "in.bad:x"])),
    ),
    calls(
        "simulate",
        option("--steps", of=st.sampled_from(["1", "50", "0", "x"])),
        option("--runs", of=st.sampled_from(["2", "1", "5", "-1"])),
        option("--start", of=st.sampled_from(["s0", "s9", "0", "-1", ""])),
        option("--seed"),
        arguments=st.tuples(sources, solutions),
    ),
    calls("new", scenario_options, option("-o", of=outputs), arguments=st.tuples(st.sampled_from(sorted(scenarios.SCENARIOS)) | word)),
    calls("scenarios", arguments=st.just(())),
    calls("reproduce", option("--seed", "--out", "--variant"), arguments=st.just(("--variant", "neither"))),
    st.lists(st.one_of(word, st.sampled_from(["solve", "new", "three-state", "--json", "-p", "--version", "verify"])), max_size=6),
)  # fmt: skip


@pytest.fixture
def call(run, tmp_path):
    """Call the entry point in a folder that has good and damaged files of every kind in a folder of its own."""
    folder = tmp_path / "in"
    (folder / "folder.toml").mkdir(parents=True)
    (folder / "good.toml").write_text(CLINIC)
    (folder / "bad.py").write_text("def x(:")
    save(scenarios.three_state(), folder / "good.npz")
    save(odd_names(), folder / "names.npz")
    written(folder, PRISM, "good")
    written(folder, {"drn": DRN}, "good")
    solve(scenarios.three_state()).save(folder / "solved.json")
    solve(scenarios.three_state([0.1, 0.1, 0.6])).save(folder / "infeasible.json")
    for whole in ("good.toml", "good.npz", "good.tra", "solved.json"):
        data = (folder / whole).read_bytes()
        (folder / f"cut{Path(whole).suffix}").write_bytes(data[: len(data) * 2 // 3])
    for method in ("mirror", "dual", "proximal", "colgen"):  # compiling is no part of a case
        run("solve", "three-state", "--method", method, *(["--steps", "100"] if method == "mirror" else []))
    run("learn", "three-state", "--samples", "300")
    run("simulate", "three-state", "in/solved.json", "--steps", "50")
    return run


@pytest.mark.slow
@given(lines)
@example(["frontier", "three-state", "s2", "--values", "0:1:999999999999"])
@example(["learn", "json:loads", "--samples", "1"])
@example(["learn", ":x", "--samples", "1"])
@example(["learn", "..a:b", "--samples", "1"])
@example(["learn", "in.bad:x", "--samples", "1"])
@example(["learn", "os:getpid", "--samples", "1"])
def test_fuzz_command_line(call, tmp_path, words):
    code, out, err = call(*words)
    assert code in (0, 1, 2, 3, 4), code
    assert "Traceback" not in err and "mistake of ours" not in err, err
    assert err or out, "an exit code without a word"
    assert not list(tmp_path.rglob(".fairmdp-*"))
    if "--json" in words and code in (0, 3, 4) and not {"--help", "-h", "--version", "--"} & set(words):
        json.loads(out, parse_constant=pytest.fail)
