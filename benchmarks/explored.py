"""A page of ``fairmdp explore`` in a headless Chromium, for what measures or photographs it."""

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Page, sync_playwright

_COMMAND = "import sys; sys.argv[0] = 'fairmdp'; from fairmdp.cli import main; main()"
_FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking")


@contextmanager
def explored(*words: str, width: int = 1280, height: int = 900, scheme: str = "light") -> Iterator[Page]:
    """Open the page on a problem, given in the words of the command line, once its first answer is there."""
    command = [sys.executable, "-c", _COMMAND, "explore", *words, "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        address = re.search(r"http://\S+", server.stdout.readline())[0]
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=_FLAGS)
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            page.goto(address)
            page.locator("#gain").wait_for(timeout=120_000)
            yield page
            browser.close()
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate()
