"""The page's server over plain HTTP: what it answers, what it refuses, and that it lives on."""

import asyncio
import json
import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import pytest
import uvicorn
from starlette.responses import Response
from web_server import served

import fairmdp as fm
from fairmdp.web.api import BadRequestError, RequestHandler
from fairmdp.web.security import Guard, Tuning, impatient_protocol
from fairmdp.web.server import static_files
from fairmdp.web.tasks import OpenProblems, Request, Source
from fairmdp.workers import worker

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("server")]

SLOW = {"kind": "scenario", "name": "garnet", "params": {"n_states": "150000"}}


@pytest.fixture(scope="module")
def server():
    with served("three-state") as server:
        yield server


@pytest.fixture(scope="module")
def hasty():
    with served("three-state", "--time-limit", "2") as server:
        yield server


@pytest.fixture(scope="module")
def unlucky():
    """A server whose workers get killed."""
    with served("three-state") as server:
        yield server


def error_of(body):
    return json.loads(body)["error"]


@pytest.mark.slow
def test_page_comes_with_a_strict_policy_and_names_no_other_place(server):
    status, headers, body = server.request()
    assert status == 200 and b"<title>fairmdp</title>" in body
    policy = headers["content-security-policy"]
    assert policy.startswith(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    )
    assert "unsafe" not in policy and "http" not in policy
    assert headers["referrer-policy"] == "no-referrer" and headers["x-content-type-options"] == "nosniff"
    for name, content in static_files().items():
        served_status, _, served_content = server.request(f"static/{name}")
        assert served_status == 200 and served_content == content
        assert b"://" not in content.replace(b"http://www.w3.org/2000/svg", b""), name


def test_answers_are_those_of_the_public_functions(server):
    answer = server.ask("solve", at_least=[0.1, 0.1, 0.3], at_most=[1, 1, 1])["answer"]
    problem = fm.scenarios.three_state(rho=[0.1, 0.1, 0.3])
    solution = fm.solve(problem)
    # Not to the last digit: the page starts from its last answer.
    assert (answer["gain"], answer["upper"]) == pytest.approx((solution.gain, solution.upper), abs=1e-12)
    assert [q["share"] for q in answer["quotas"]] == pytest.approx(solution.shares.tolist(), abs=1e-12)
    assert [q["price"] for q in answer["quotas"]] == pytest.approx(solution.prices.tolist(), abs=1e-12)
    assert answer["free_gain"] == fm.solve(problem.without_quotas()).gain
    curve = server.ask("frontier", at_least=[0.1, 0.1, 0.3], quota="s2")["answer"]["curve"]
    assert curve["exact"] and curve["gains"] == fm.frontier(problem, "s2").gains.tolist()


def test_only_the_token_opens_it(server):
    for whole in ("/", "/api/start", "/wrong/", f"/{server.path[1:-1]}x/api/start", "/wrong/static/app.js"):
        status, headers, body = server.request(whole=whole)
        assert status == 403 and "no valid token" in error_of(body)
        assert "content-security-policy" in headers
    assert server.request(whole=server.path[:-1])[0] == 307  # the slash at the end makes addresses relative
    assert server.request("api/start")[0] == 200


@pytest.mark.parametrize("host", ["evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "10.0.0.7:{port}", ""])
def test_foreign_hosts_are_refused(server, host):
    status, _, body = server.request(headers={"Host": host.format(port=server.port)})
    assert status == 421 and "that name" in error_of(body)


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}"])
def test_own_hosts_are_welcome(server, host):
    own = host.format(port=server.port)
    assert server.request("api/start", headers={"Host": own, "Origin": f"http://{own}"})[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "https://127.0.0.1:{port}"},
        {"Origin": "http://127.0.0.1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_posts_from_other_sites_are_refused(server, headers):
    question = {"page": "12345678", "task": "solve", "source": {"kind": "given"}}
    status, _, body = server.post(question, **{k: v.format(port=server.port) for k, v in headers.items()})
    assert status == 403 and "other sites" in error_of(body)


@pytest.mark.slow
def test_code_is_named_only_where_nobody_else_can_reach_it():
    question = {"page": "a page of a test", "task": "open"}
    handler = {on: RequestHandler(None, workers=1, seconds=1, modules=on) for on in (True, False)}

    def read(name, on):
        source = {"kind": "module", "name": name}
        return handler[on]._read(json.dumps(question | {"source": source}).encode())[1].source

    assert read("shop.rules:model", True).target == "shop.rules:model"
    for name, on in (("shop:model", False), ("/etc/passwd", True), ("shop", True), ("a:b c", True)):
        with pytest.raises(BadRequestError, match="not here any more"):
            read(name, on)


def test_bodies_are_limited_whether_they_say_their_length_or_not(server):
    status, _, body = server.post(b" " * (2**20 + 1))
    assert status == 413 and "the limit is 1 MiB" in error_of(body)
    chunks = (b" " * 2**16 for _ in range(40))
    status, _, body = server.request(
        "api/ask", method="POST", body=chunks, headers={"content-type": "application/json"}
    )
    assert status == 413 and "the limit is 1 MiB" in error_of(body)
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as raw:
        head = f"POST {server.path}api/upload?name=a.toml HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        raw.sendall(
            f"{head}Content-Type: application/octet-stream\r\nContent-Length: {2**25 + 1}\r\n\r\n".encode()
        )
        assert raw.recv(12) == b"HTTP/1.1 413"
    assert server.request("api/start")[0] == 200


@pytest.mark.parametrize(
    "body, said",
    [
        (b"", "JSON"),
        (b"[1]", "body"),
        (b"\xff\xfe", "JSON"),
        (b"[" * 100_000, "JSON"),
        ({"task": "solve"}, "page: Field required"),
        ({"page": "12345678", "task": "solve", "source": {"kind": "given"}, "more": 1}, "more: Extra"),
        ({"page": "12345678", "task": "dance", "source": {"kind": "given"}}, "task: there is no 'dance'"),
        ({"page": "12345678", "task": "export", "kind": "/etc/passwd", "source": {"kind": "given"}}, "kind:"),
        ({"page": "12345678", "task": "solve", "source": {"kind": "given"}, "at_least": [True]}, "at_least.0"),
        ({"page": "12345678", "task": "solve", "source": {"kind": "given"}, "at_least": ["1"]}, "at_least.0"),
        (b'{"page":"12345678","task":"solve","source":{"kind":"given"},"at_least":[NaN]}', "at_least"),
        ({"page": "12345678", "task": "frontier", "source": {"kind": "given"}, "bound": "above"}, "bound: "),
        ({"page": "12345678", "task": "solve", "source": {"kind": "file", "name": "../x"}}, "not here any more"),
        ({"page": "12345678", "task": "solve", "source": {"kind": "scenario", "name": "/etc"}}, "not here"),
    ],
)  # fmt: skip
def test_malformed_questions_are_named(server, body, said):
    status, _, answer = server.post(body)
    assert status == 400 and said in error_of(answer)


def test_wrong_kinds_of_requests_are_refused(server):
    assert server.post({}, **{"content-type": "text/plain"})[0] == 415
    assert server.request("api/ask")[0] == 405
    assert server.request("api/start", method="DELETE")[0] == 405
    assert server.request("elsewhere")[0] == 404


@pytest.mark.parametrize("whole", ["api", "*", "x/api/start"])
def test_an_address_without_its_first_slash_is_refused(server, whole):
    status, headers, body = server.request(whole=whole)
    assert status == 400 and "does not begin with a slash" in error_of(body)
    assert "content-security-policy" in headers


@pytest.mark.parametrize(
    "rest",
    [
        "static/../server.py", "static/%2e%2e/server.py", "static/vendor/../../api.py", "static//etc/passwd",
        "static/..%2fserver.py", "static/..\\server.py", "../../../etc/passwd", "static/", "static/vendor",
    ],
)  # fmt: skip
def test_only_the_pages_own_files_are_served(server, rest):
    status, _, body = server.request(rest)
    assert status == 404 and b"import" not in body and b"root:" not in body


def upload(server, name, content):
    kind = {"content-type": "application/octet-stream"}
    status, _, body = server.request(f"api/upload?name={name}", method="POST", body=content, headers=kind)
    return status, json.loads(body)


def test_files_keep_their_own_name_and_no_other_path(server, tmp_path):
    fm.save(fm.scenarios.three_state(), tmp_path / "mine.toml")
    content = (tmp_path / "mine.toml").read_bytes()
    status, answer = upload(server, "..%2F..%2F%5Cmine.toml", content)
    assert status == 200
    source = {"kind": "file", "name": answer["handle"]}
    assert server.ask("solve", source)["answer"]["command"] == "fairmdp solve mine.toml"
    for name in ("", "..", ".hidden.toml", "%0A.toml", "a" * 300):
        assert upload(server, name, content)[0] == 400


def test_broken_files_say_what_is_wrong_and_where(server):
    for name, content, said in (
        ("a.toml", b"fairmdp = 1\n[model.a.go]\nreward = 'much'", "a.toml: model.a.go.reward"),
        ("a.npz", b"PK\x03\x04 not really", "a.npz: not an .npz file"),
        ("a.exe", b"MZ", "the ending '.exe' is not a format"),
    ):
        _, answer = upload(server, name, content)
        message = server.ask("open", {"kind": "file", "name": answer["handle"]})["error"]
        assert said in message and "/" not in message


def test_bad_parameters_are_the_users_to_mend(server):
    for params, said in (
        ({"n_states": "many"}, "not a whole number"),
        ({"size": "3"}, "garnet takes n_states"),
    ):
        source = {"kind": "scenario", "name": "garnet", "params": params}
        assert said in server.ask("open", source)["error"]
    assert "3 quotas" in server.ask("solve", at_least=[0.1])["error"]
    assert "its scale is 0 to 1" in server.ask("solve", at_least=[0.5, 0, 2])["error"]
    refused = server.ask("solve", at_least=[0.5, 0, 0], at_most=[0.2, 1, 1])["error"]
    assert "quota s0 asks for at least 0.5 and at most 0.2" in refused


def test_two_hundred_requests_at_once_are_answered_or_asked_to_come_back(server):
    def one(k):
        question = {"page": f"page number {k}", "task": "solve", "source": {"kind": "given"}}
        status, _, body = server.post(question)
        return status, json.loads(body.splitlines()[-1])

    with ThreadPoolExecutor(200) as pool:
        answers = list(pool.map(one, range(200)))
    assert {status for status, _ in answers} <= {200, 503}
    for status, answer in answers:
        assert (
            answer["answer"]["gain"] == pytest.approx(337 / 760)
            if status == 200
            else "try again" in answer["error"]
        )
    assert server.ask("solve")["answer"]["status"] == "optimal"


@pytest.mark.slow
def test_a_solve_past_its_limit_is_stopped_and_the_server_lives_on(hasty):
    message = hasty.ask("solve", SLOW)["error"]
    assert message.startswith("stopped after 2 s\n") and "--time-limit" in message
    assert hasty.ask("solve")["answer"]["status"] == "optimal"


def test_a_newer_question_of_the_same_page_ends_the_older_one(server):
    with ThreadPoolExecutor(1) as pool:
        older = pool.submit(server.ask, "solve", SLOW, page="one page")
        with pytest.raises(TimeoutError):
            older.result(timeout=0.7)
        newer = server.ask("solve", page="one page")
        assert newer["answer"]["status"] == "optimal" and older.result(timeout=300) == {"stale": None}


MEDIUM = {"kind": "scenario", "name": "garnet", "params": {"n_states": "30000"}}


def assert_right(problem, answer, at_least):
    """An answer is that of a solve that knows nothing of earlier ones."""
    solution = fm.solve(problem.with_bounds(at_least))
    assert answer["status"] == solution.status.value == "optimal"
    assert (
        answer["gain"] == pytest.approx(solution.gain, abs=2e-6) and answer["gain"] <= solution.upper + 1e-9
    )
    assert answer["upper"] >= solution.gain - 1e-9
    shares = [row["share"] for row in answer["quotas"]]
    assert all(share >= owed - 1e-9 for share, owed in zip(shares, at_least, strict=True))


@pytest.mark.slow
def test_pages_that_move_quickly_get_the_answer_to_their_last_question(unlucky):
    """Solves take longer than a worker that is told to stop may go on, so that workers are killed on the way."""
    problem = fm.scenarios.garnet(30000)
    for page in ("waits for the workers", "to be ready"):
        assert unlucky.ask("solve", MEDIUM, page=page)["answer"]["status"] == "optimal"
    before = workers(unlucky.process.pid) if Path("/proc/self/task").exists() else set()

    def move(page):
        asked = [(problem.at_least * (1 + 0.02 * turn * page)).tolist() for turn in range(4)]
        with ThreadPoolExecutor(len(asked)) as pool:
            jobs = []
            for at_least in asked:
                jobs.append(
                    pool.submit(unlucky.ask, "solve", MEDIUM, page=f"a quick page, {page}", at_least=at_least)
                )
                time.sleep(0.1)
            said = [job.result(timeout=300) for job in jobs]
        return asked[-1], said

    with ThreadPoolExecutor(2) as pool:
        ended = list(pool.map(move, (1, -1)))
    for at_least, said in ended:
        assert {"stale": None} in said[:-1]
        assert_right(problem, said[-1]["answer"], at_least)
        for turn, message in enumerate(said[:-1]):  # what was done in time is right as well
            assert message == {"stale": None} or message["answer"]["status"] == "optimal", turn
    assert not before or before - workers(unlucky.process.pid)  # somebody was replaced
    assert_right(problem, unlucky.ask("solve", MEDIUM, at_least=ended[0][0])["answer"], ended[0][0])


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to see the workers")
def test_workers_that_died_are_replaced_and_answer_right(unlucky):
    problem, at_least = fm.scenarios.three_state(), [0.1, 0.1, 0.3]
    assert_right(problem, unlucky.ask("solve", at_least=at_least)["answer"], at_least)
    for pid in workers(unlucky.process.pid):
        os.kill(int(pid), signal.SIGKILL)
    time.sleep(0.2)
    said = [unlucky.ask("solve", at_least=[0.1, 0.1, 0.2 + 0.01 * k]) for k in range(5)]
    assert all("process ended" in message["error"] for message in said if "error" in message)
    assert_right(problem, said[-1]["answer"], [0.1, 0.1, 0.24])


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to see the workers")
def test_workers_that_die_before_they_are_ready_are_replaced_too():
    with served("three-state") as server:
        pid, deadline = server.process.pid, time.monotonic() + 300
        while len(starting := workers(pid)) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        for worker in starting:
            os.kill(int(worker), signal.SIGKILL)
        said = [server.ask("solve") for _ in range(3)]
        assert all("process ended" in message["error"] for message in said if "error" in message)
        assert said[-1]["answer"]["status"] == "optimal"


@contextmanager
def leaving(server, question):
    """Ask, and go before the answer comes."""
    body = json.dumps(question).encode()
    head = f"POST {server.path}api/ask HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as raw:
        raw.sendall(
            f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        )
        assert raw.recv(12) == b"HTTP/1.1 200"
        yield raw


def children(pid):
    """Processes that any thread of a process has started."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return [child for thread in threads for child in (thread / "children").read_text().split()]


def test_whoever_leaves_keeps_nobody_waiting(server):
    """With both workers busy for people who have left, the next one is answered."""
    busy = SLOW | {"params": {"n_states": "60000"}}
    with ExitStack() as both:
        for k in range(2):
            question = {"page": f"left {k} left", "task": "solve", "source": busy}
            raw = both.enter_context(leaving(server, question))
            while b"progress" not in (said := raw.recv(4096)):  # until a worker is at it
                assert said
    assert server.ask("solve", at_least=[0.1, 0.1, 0.25])["answer"]["status"] == "optimal"


def workers(pid):
    """Those of its children that run as workers: not Python's resource tracker, nor a fork that is neither yet."""
    return {child for child in children(pid) if b"spawn_main" in command_line(child)}


def command_line(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def test_a_port_in_use_is_said(server):
    with pytest.raises(RuntimeError, match="cannot listen on 127.0.0.1 port"):
        with served("three-state", "--port", str(server.port)):
            pass


def test_progress_that_is_not_finite_can_be_sent():
    class Slow(OpenProblems):
        def answer(self, request, progress):
            time.sleep(0.25)
            progress({"lower": float("-inf"), "upper": 1.0})
            return {"gain": 1.0}

    told = []
    worker.tell_pool(told.append)
    try:
        last = Slow()(Request("solve", Source("three-state")))
    finally:
        worker.tell_pool(None)
    assert [(kind, json.loads(text)) for kind, text in told] == [
        ("progress", {"progress": {"lower": None, "upper": 1.0}})
    ]
    assert json.loads(last) == {"answer": {"gain": 1.0}}


@pytest.mark.parametrize(
    "bound, host, status",
    [
        ("127.0.0.1", "10.0.0.7:8000", 421),
        ("::1", "[::1]:8000", 200),
        ("0.0.0.0", "10.0.0.7:8000", 200),
        ("0.0.0.0", f"{socket.gethostname()}:8000", 200),
        ("0.0.0.0", "evil.example:8000", 421),
        ("10.0.0.7", "evil.example:8000", 421),
    ],
)
def test_who_listens_to_others_goes_by_addresses_and_its_own_name(bound, host, status):
    async def app(scope, receive, send):
        await Response("in")(scope, receive, send)

    sent = []

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/t/",
        "server": ("", 8000),
        "headers": [(b"host", host.encode())],
    }
    asyncio.run(Guard(app, token="t", host=bound)(scope, None, send))
    assert sent[0]["status"] == status


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to see the workers")
def test_workers_end_with_a_server_that_is_killed():
    with served("three-state") as server:
        assert server.ask("solve")["answer"]["status"] == "optimal"
        slower = SLOW | {"params": {"n_states": "300000"}}
        with leaving(server, {"page": "12345678", "task": "frontier", "quota": "g0", "source": slower}):
            time.sleep(0.5)
            started = workers(server.process.pid)
            server.process.kill()
            server.process.wait()
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in started) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(started) >= 2 and not any(Path(f"/proc/{pid}").exists() for pid in started)


def test_connections_that_ask_nothing_do_not_shut_the_owner_out(server):
    """Six hundred that send no head of a request, or half of one: the page is there, and they are ended."""
    with ExitStack() as stack:
        strangers = []
        for k in range(600):
            raw = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=30))
            with suppress(OSError):
                raw.sendall(b"" if k % 2 else b"GET / HTTP/1.1\r\nHost: ")
            strangers.append(raw)
        for _ in range(5):
            assert server.request()[0] == 200
        for raw in strangers:
            with suppress(ConnectionResetError):
                assert raw.recv(1) == b""  # each, after the deadline at the latest


def test_a_head_that_comes_by_drops_ends_at_the_deadline():
    """Bytes now and then do not buy time, and neither does a first request that was answered."""
    answered = []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    async def run():
        protocol = impatient_protocol(Tuning(seconds=0.3))
        config = uvicorn.Config(app, port=0, http=protocol, log_level="critical", lifespan="off")
        with socket.create_server(("127.0.0.1", 0)) as listener:
            server = uvicorn.Server(config)
            task = asyncio.create_task(server.serve(sockets=[listener]))
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            answered.append(await reader.readuntil(b"\r\n\r\n"))
            with suppress(ConnectionError):
                async with asyncio.timeout(20):
                    while not reader.at_eof():
                        writer.write(b"G")
                        await writer.drain()
                        await asyncio.sleep(0.05)
            assert not protocol.waiting
            writer.close()
            server.should_exit = True
            await task

    asyncio.run(run())
    assert answered[0].startswith(b"HTTP/1.1 204")


def test_a_long_name_of_letters_of_several_bytes_is_refused(server):
    name = quote(150 * "\u4e2d" + ".toml")
    headers = {"content-type": "application/octet-stream"}
    status, _, body = server.request(f"api/upload?name={name}", method="POST", body=b"x", headers=headers)
    assert status == 400 and "is not the name of a file" in json.loads(body)["error"]
