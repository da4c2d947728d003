"""The page's files as they are served: their types, what they forbid, and that they need no key."""

import asyncio

import pytest
from serving import client_of, replying, served

from leadout.server.options import ServerOptions
from leadout.server.page_routes import PAGE_FILES


def get(*paths, **options):
    async def ask():
        async with client_of(served(replying("hi")), options=ServerOptions(**options)) as client:
            return [await client.get(path) for path in paths]

    return asyncio.run(ask())


def test_the_page_is_whole():
    names = {file.name for file in PAGE_FILES.values()}
    assert {"index.html", "page.css", "main.js", "icon.svg"} <= names
    for response, file in zip(get(*PAGE_FILES), PAGE_FILES.values(), strict=True):
        assert response.status_code == 200
        assert response.content == file.read_bytes()


def test_files_have_their_types_and_a_policy():
    index, script, style = get("/", "/page/main.js", "/page/page.css")
    assert index.headers["content-type"] == "text/html; charset=utf-8"
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert style.headers["content-type"] == "text/css; charset=utf-8"
    for response in (index, script, style):
        policy = response.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert response.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("word", ["http://", "https://", "innerHTML", "eval(", "style="])
def test_no_file_reaches_elsewhere_or_makes_markup_of_text(word):
    for path, file in PAGE_FILES.items():
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert word not in text, path


def test_the_page_needs_no_key_and_nothing_else_is_open():
    page, script, models, other = get("/", "/page/main.js", "/v1/models", "/page/other.js", api_keys=("key",))
    assert (page.status_code, script.status_code) == (200, 200)
    assert (models.status_code, other.status_code) == (401, 401)
