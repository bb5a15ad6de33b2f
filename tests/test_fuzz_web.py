"""Whatever is sent to the page's server, it answers in JSON, keeps living, and says nothing that is not so."""

import base64
import json
import socket
from itertools import pairwise

import pytest
from fuzz import cuts, damaged, edits, mostly
from hypothesis import given
from hypothesis import strategies as st
from test_explicit import DRN
from test_fuzz_cli import NUMBERS
from test_io import CLINIC
from web_server import served

from fairmdp import FairMDPError, load, save, scenarios, solve
from fairmdp.views.exports import EXPORTS
from fairmdp.web.tasks import TASKS

pytestmark = pytest.mark.fuzz

GIVEN = scenarios.three_state()


@pytest.fixture(scope="module")
def server():
    with served("three-state") as server:
        yield server


def sound(message):
    """The answer in a message, or None for a refusal in words."""
    ((kind, content),) = message.items()
    assert kind in ("answer", "error")
    if kind == "answer":
        return content
    assert content and not any(word in content for word in ("Traceback", "mistake of ours", "process ended"))
    return None


# What is not HTTP as the page speaks it

junk = st.text(st.characters(max_codepoint=0xFF), max_size=12)
paths = st.lists(
    mostly(
        st.sampled_from(["", "api", "start", "ask", "upload", "upload?name=a.toml", "static", "app.js"]),
        st.sampled_from(["..", "%2e%2e", "//", "%00", "%zz"]) | junk,
    ),
    max_size=4,
)
FRAMING = "Content-Length", "Transfer-Encoding", "Connection"
headers = st.lists(
    st.tuples(
        mostly(
            st.sampled_from(["Origin", "Content-Type", "Sec-Fetch-Site", "Expect", "Range", "X"]),
            st.sampled_from(["Host", *FRAMING]),
        ),
        mostly(
            st.sampled_from(["127.0.0.1:{port}", "http://127.0.0.1:{port}", "evil.example", "application/json", "application/octet-stream", "0", "5", "chunked", "100-continue", "same-origin", "keep-alive"]),
            st.sampled_from(["", "-1", "²", "9" * 30]) | junk,
        ),
    ),
    max_size=2,
)  # fmt: skip


@given(
    mostly(st.sampled_from(["GET", "POST", "HEAD", "PUT", "OPTIONS"]), st.sampled_from(["ask", ""])),
    mostly(st.just("{path}"), st.sampled_from(["/", "/x/", ""])),
    paths,
    mostly(st.just("HTTP/1.1"), st.sampled_from(["HTTP/1.0", "HTTP/9", ""])),
    headers,
    st.binary(max_size=60),
    mostly(st.just(True), st.just(False)),
)
def test_fuzz_requests(server, method, start, rest, version, extra, body, plain):
    """Any bytes: an answer that is no breakdown, and a server that lives on."""
    lines = [f"{method} {start}{'/'.join(rest)} {version}", *(f"{name}: {value}" for name, value in extra)]
    if plain:  # else whoever sends it forgets what every request has
        lines += ["Host: 127.0.0.1:{port}", f"Content-Length: {len(body)}", "Connection: close"]
    head = "\r\n".join(lines).replace("{port}", str(server.port)).replace("{path}", server.path)
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(head.encode("latin-1") + b"\r\n\r\n" + body)
        if not plain or any(name in FRAMING for name, _ in extra):  # or the server waits for the rest
            connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(2**16), b""))
    for status in statuses(answer):
        assert status < 500 or status == 501, answer
    assert server.process.poll() is None


def statuses(answer):
    """Statuses of all answers on a connection; there may be several, or none for a request cut short."""
    return [int(line[9:12]) for line in answer.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]


# Questions

bounds = mostly(
    st.none()
    | st.lists(st.sampled_from([0, 1, 0.5, 0.1, 0.25, 1 / 3, 0.45, 1e-9, 1e-300, 1 - 1e-9]) | st.floats(0, 1), min_size=3, max_size=3)
    | st.lists(st.floats(0, 0.4), min_size=3, max_size=3),
    st.lists(st.floats(), max_size=4),
)  # fmt: skip
params = st.dictionaries(
    st.sampled_from(["n_states", "seed", "alpha", "rho", "clients", "queue", "n_quotas", "x"]),
    st.sampled_from(NUMBERS) | st.text(max_size=4),
    max_size=2,
)
names = mostly(
    st.sampled_from(["three-state", "alpha-chain", "bandit"]), st.sampled_from(["/etc/passwd", ""])
)
kinds = mostly(st.just("scenario"), st.sampled_from(["file", "x"]))
sources = st.just({"kind": "given"}) | st.fixed_dictionaries(
    {"kind": kinds, "name": names}, optional={"params": params}
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
formulas = st.sampled_from(["", "s", "S1", '"s0" | !s1', "((", "x>=2", "s0&", "\u0130"]) | st.text(max_size=6)
rows = st.none() | st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["a", "b", "s0", ""])},
        optional={"was": st.sampled_from(["s0", "s1", "x"]), "states": st.lists(st.integers(-1, 4), max_size=3),
                  "at_least": st.floats(), "at_most": st.floats(0, 1)},
    ),
    max_size=3,
)  # fmt: skip
questions = st.fixed_dictionaries(
    {"page": st.just("a page of a test"), "task": st.sampled_from(TASKS), "source": sources},
    optional={
        "at_least": bounds, "at_most": bounds, "rows": rows, "policy": st.text(max_size=4), "text": formulas, "quota": st.sampled_from(["s0", "s1", "s2", "x", ""]), "kind": st.sampled_from(EXPORTS),
    },
)  # fmt: skip
fields = st.sampled_from(["page", "task", "source", "at_least", "quota", "kind", "x"])


@given(questions, mostly(st.none(), st.tuples(fields, anything)))
def test_fuzz_questions(server, question, change):
    """Any question: an answer that the package gives as well, or a refusal."""
    question = question | (dict([change]) if change else {})
    status, _, body = server.post(json.dumps(question).encode())
    assert status in (200, 400), body
    if status == 400:
        assert json.loads(body)["error"]
        return
    answer = sound(json.loads(body.splitlines()[-1], parse_constant=pytest.fail))
    if answer is not None and question["source"]["kind"] == "given" and question.get("rows") is None:
        SAYS[question["task"]](question, answer)


def asked(question):
    return GIVEN.with_bounds(question.get("at_least"), question.get("at_most"))


def says_solve(question, answer):
    try:
        solution = solve(asked(question))
    except FairMDPError:  # more than all of the time is owed, which is an answer on the page
        assert answer["status"] == "infeasible"
        return
    assert answer["status"] == solution.status.value
    if solution.has_policy:
        assert answer["gain"] == pytest.approx(solution.gain, abs=1e-6)
        assert answer["worst_slack"] is None or answer["worst_slack"] >= -1e-9


def says_proof(question, answer):
    assert answer["ok"], answer


def says_frontier(question, answer):
    if answer["curve"] is None:
        assert answer["message"]
        return
    assert all(slack is None or slack >= -1e-9 for slack in answer["curve"]["worst_slacks"])
    gains = [gain for gain in answer["curve"]["gains"] if gain is not None]
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(gains))


def says_ranges(question, answer):
    for row in answer["ranges"]:
        assert all(row[side] is None or -1e-9 <= row[side] <= 1 + 1e-9 for side in ("most", "least"))


def says_export(question, answer):
    assert answer["name"] == question["kind"] and base64.b64decode(answer["content"])


SAYS = {
    "open": lambda question, answer: None, "solve": says_solve, "proof": says_proof, "frontier": says_frontier,
    "ranges": says_ranges, "export": says_export, "states": lambda question, answer: None,
}  # fmt: skip


# Files


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    save(GIVEN, folder / "f.npz")
    return {"toml": CLINIC.encode(), "npz": (folder / "f.npz").read_bytes(), "drn": DRN.encode()}


@given(st.sampled_from(["toml", "npz", "drn"]), edits, cuts, st.sampled_from(["open", "solve", "export"]))
def test_fuzz_files(server, files, tmp_path_factory, ending, changes, cut, task):
    """A damaged file that is sent: what the page makes of it is what a reader makes of it."""
    content = damaged(files[ending], changes, cut)
    kind = {"content-type": "application/octet-stream"}
    status, _, body = server.request(f"api/upload?name=f.{ending}", method="POST", body=content, headers=kind)
    assert status == 200
    source = {"kind": "file", "name": json.loads(body)["handle"]}
    answer = sound(server.ask(task, source, kind="solution.json"))
    path = tmp_path_factory.getbasetemp() / f"f.{ending}"
    path.write_bytes(content)
    try:
        problem = load(path)
    except FairMDPError:
        assert answer is None
        return
    if answer is not None and task == "open":
        assert answer["problem"]["digest"] == problem.digest
    if answer is not None and task == "solve":
        assert answer["status"] == solve(problem).status.value
