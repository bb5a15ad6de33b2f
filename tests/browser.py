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


def figure(page, section):
    """The traces that a figure shows."""
    return page.evaluate(f"document.querySelector('#{section} .figure').data")
