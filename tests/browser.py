"""A headless Chromium for the tests of pages, where there is one."""

import shutil
from urllib.parse import urlsplit

import pytest

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


def chromium():
    """Path of the browser, or skip."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("there is no Chromium on this machine (Debian: apt-get install chromium)")
    return found


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = chromium()
    api.expect.set_options(timeout=300_000)  # ms; a busy machine may take its time
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


class Watch:
    """What a page asks for and complains about."""

    def __init__(self, page):
        self.requests, self.complaints = [], []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda said: said.type == "error" and self.complaints.append(said.text))
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))

    def strangers(self, address):
        """Requests that went elsewhere than to a page's own address."""
        origin = "{0.scheme}://{0.netloc}/".format(urlsplit(address))
        own = (address, f"blob:{origin}", "data:")
        return [url for url in self.requests if not url.startswith(own)]


def assert_accessible(page):
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


_SHAPES = """(section) => Array.from(document.querySelectorAll(`#${section} .figure svg [class]`), (node) => {
    const { x, y, width, height } = node.getBBox();
    const [left, top] = ["x", "y"].map((name) => Number(node.getAttribute(name)));
    const [kind, more] = node.classList;
    const about = node.closest(".mark")?.getAttribute("aria-label");
    const place = node.tagName === "text" ? { x: left, y: top } : { x: x + width / 2, y: y + height / 2, end: x + width };
    return { kind, more, about, text: node.textContent, strength: node.getAttribute("fill-opacity"), ...place };
})"""


class Figure:
    """What a figure shows, read off its axes as a person would."""

    def __init__(self, page, section):
        self._shapes = page.evaluate(_SHAPES, section)

    def all(self, kind):
        return [shape for shape in self._shapes if shape["kind"] == kind]

    def x(self, kind, where="x"):
        """Where shapes stand, or end, by the ticks right below them."""
        return [self._value("x", shape[where], self._below(shape)) for shape in self.all(kind)]

    def y(self, kind):
        return [self._value("y", shape["y"], self.all("y-tick")) for shape in self.all(kind)]

    def _below(self, shape):
        rows = {tick["y"] for tick in self.all("x-tick")}
        row = min(y for y in rows if y > shape["y"])
        return [tick for tick in self.all("x-tick") if tick["y"] == row]

    @staticmethod
    def _value(way, at, ticks):
        first, last = ticks[0], ticks[-1]
        low, high = (_number(tick["text"]) for tick in (first, last))
        return low + (at - first[way]) / (last[way] - first[way]) * (high - low)


def _number(text):
    text = text.replace("\u2212", "-")
    return float(text[:-2]) / 100 if text.endswith("\u202f%") else float(text)
