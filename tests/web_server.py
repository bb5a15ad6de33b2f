"""`fairmdp explore` as a process of its own, and a client that can say anything to it."""

import http.client
import json
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

_SCRIPT = "import sys; sys.argv[0] = 'fairmdp'; from fairmdp.cli import main; main()"


@dataclass
class Server:
    process: subprocess.Popen
    address: str

    @property
    def port(self):
        return urlsplit(self.address).port

    @property
    def path(self):
        return urlsplit(self.address).path

    def request(self, path="", *, method="GET", body=None, headers=None, whole=None):
        """Status, headers and body of one request; `whole` is a path that is sent as it is."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        try:
            connection.request(method, whole or self.path + path, body, headers or {})
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read()
        finally:
            connection.close()

    def post(self, question, **headers):
        body = question if isinstance(question, bytes) else json.dumps(question).encode()
        kind = {"content-type": "application/json"}
        return self.request("api/ask", method="POST", body=body, headers=kind | headers)

    def ask(self, task, source=None, page="a page of a test", **rest):
        """The last message about a question."""
        question = {"page": page, "task": task, "source": source or {"kind": "given"}, **rest}
        status, _, body = self.post(question)
        assert status == 200, body
        return json.loads(body.splitlines()[-1])


@contextmanager
def served(*words, workers=2):
    """Run `fairmdp explore`; it must end cleanly when it is interrupted."""
    process = subprocess.Popen(
        [sys.executable, "-c", _SCRIPT, "explore", *words, "--no-browser", "--workers", str(workers)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        bufsize=1,
    )
    said = process.stdout.readline()
    found = re.search(r"http://\S+", said)
    if not found:
        raise RuntimeError(said + process.communicate()[0])
    assert process.stdout.readline() == "  Ctrl-C ends it\n"
    try:
        yield Server(process, found[0])
    finally:
        killed = process.poll() is not None
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=300)
        assert killed or (process.returncode == 0 and rest == ""), (process.returncode, rest)
