"""A real browser, where there is one: ``apt-get install chromium``, and
``pip install playwright``.
"""

import os
import shutil
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "server"))  # its servers and toy models

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SHOTS = "LEADOUT_SCREENSHOTS"


@pytest.fixture(scope="session")
def browser():
    """Chromium from this system; nothing is downloaded."""
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here: apt-get install chromium")
    with playwright.sync_playwright() as running:
        chromium = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser):
    """Opens the page of a server, in a context of its own; its complaints fail the test."""
    contexts, complaints = [], []

    def open_at(url, path="/", **options):
        context = browser.new_context(viewport={"width": 1180, "height": 760}, **options)
        contexts.append(context)
        context.set_default_timeout(60_000)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text) if is_complaint(said) else None)
        page.on("request", lambda asked: complaints.append(asked.url) if is_foreign(asked.url, url) else None)
        page.goto(url + path)
        return page

    yield open_at
    for context in contexts:
        context.close()
    assert complaints == []


def is_complaint(said):
    """What the network did is told in the console too: statuses that are meant, a server that has ended."""
    return said.type in ("error", "warning") and not said.text.startswith("Failed to load resource")


def is_foreign(asked, url):
    return not asked.startswith((url, "blob:"))


@pytest.fixture(scope="session")
def shots(tmp_path_factory):
    """Where pictures go: the folder that LEADOUT_SCREENSHOTS names, or one that is thrown away."""
    folder = Path(os.environ.get(SHOTS) or tmp_path_factory.mktemp("shots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
