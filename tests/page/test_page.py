"""The page in a real browser, served by toy models whose answers are known."""

import json
import re
import time

import httpx
import pytest
from live import HeldModel, live, until
from serving import constant_chat, replying, served

from leadout.receipts import Receipt
from leadout.server.options import ServerOptions
from leadout.testing import ScriptedDrafter

pytestmark = pytest.mark.browser
MARKUP = (
    "# Title\n\nSome **strong** and `code<b>`, <img src=x onerror=alert(1)> and [a link](https://example.org/).\n\n"
    "- one\n- two\n\n```python\nprint('<script>')\n```\n\n[bad](javascript:alert(1))"
)


def ask(page, text="hello"):
    page.fill("#prompt", text)
    page.keyboard.press("Enter")


def answered(page, n=1):
    """The answers, once the last of `n` is over."""
    until(lambda: page.locator(".message .tools").count() == n)
    return page.locator(".answer")


def test_an_answer_streams_and_its_markup_is_text(open_page):
    with live(served(replying(MARKUP))) as server:
        page = open_page(server.url)
        ask(page)
        answer = answered(page)
        assert answer.locator("h3").inner_text() == "Title"
        assert answer.locator("strong").inner_text() == "strong"
        assert answer.locator("p code").inner_text() == "code<b>"
        assert answer.locator("li").all_inner_texts() == ["one", "two"]
        assert answer.locator("pre code").inner_text() == "print('<script>')"
        assert answer.locator("a").evaluate_all("links => links.map(each => each.href)") == [
            "https://example.org/"
        ]
        assert answer.locator("img, script").count() == 0
        assert "<img src=x onerror=alert(1)>" in answer.inner_text()
        assert page.evaluate("document.activeElement.id") == "prompt"


def test_every_token_shows_where_it_came_from(open_page):
    model = constant_chat([0.5, 0.3, 0.2])
    with live(served(model, ScriptedDrafter.always(ord("a")))) as server:
        page = open_page(server.url)
        page.evaluate(
            'localStorage.setItem(\'leadout.settings\', \'{"max_tokens": 60, "seed": 5, "temperature": 1}\')'
        )
        ask(page)
        answer = answered(page)
        counts = {
            each: int(page.locator(f"#legend [data-origin={each}]").inner_text())
            for each in ("accepted", "corrected", "bonus", "plain")
        }
        assert sum(counts.values()) == 60
        assert min(counts.values()) > 0
        for origin, count in counts.items():
            assert answer.locator(f".t.{origin}").count() == count  # a byte is a token here
        styles = {
            each: answer.locator(f".t.{each}").first.evaluate("it => getComputedStyle(it).borderBottom")
            for each in ("accepted", "corrected", "bonus")
        }
        kinds = {style.split()[1] for style in styles.values()}
        assert kinds == {"solid", "dashed", "dotted"}  # not by colour alone
        page.uncheck("#tint")
        assert page.locator("#log.tinted").count() == 0
        assert re.fullmatch(r"\d+ %", page.locator("#g-kept").inner_text())
        assert page.locator("#g-draft svg rect").count() > 0


def test_escape_stops_and_the_server_lets_go(open_page):
    held = HeldModel.like(replying("x" * 4000))
    with live(served(held)) as server:
        page = open_page(server.url)
        held.let_through(8)
        ask(page)
        until(lambda: page.locator(".answer").inner_text().startswith("xx"))
        page.keyboard.press("Escape")
        answered(page)
        held.let_all_through()
        assert "stopped" in page.locator(".message .tools").inner_text()
        assert page.locator("#send").is_visible()
        until(lambda: 'leadout_requests_running{model="toy"} 0.0' in httpx.get(f"{server.url}/metrics").text)


def test_retry_asks_the_same_again_and_a_new_conversation_forgets(open_page):
    def reply(asked):
        return f"asked {asked.count('<|im_start|>user')} times"

    with live(served(replying(reply))) as server:
        page = open_page(server.url)
        ask(page)
        answered(page)
        ask(page, "more")
        assert answered(page, 2).nth(1).inner_text() == "asked 2 times"
        page.click("[data-retry]")
        assert answered(page, 2).nth(1).inner_text() == "asked 2 times"
        page.click("#clear")
        ask(page)
        assert answered(page).inner_text() == "asked 1 times"


def test_settings_reach_the_model_and_stay(open_page):
    def reply(asked):
        return "brief" if "Be brief" in asked else "long"

    with live(served(replying(reply))) as server:
        page = open_page(server.url)
        page.click("#open-settings")
        page.fill("[name=system]", "Be brief.")
        page.fill("[name=max_tokens]", "3")
        page.keyboard.press("Escape")
        page.reload()
        ask(page)
        assert answered(page).inner_text() == "bri"
        assert "cut at the length limit" in page.locator(".message .tools").inner_text()


def test_a_receipt_can_be_kept(open_page, tmp_path):
    with live(served(constant_chat([0.5, 0.5]))) as server:
        page = open_page(server.url)
        page.click("#open-settings")
        page.check("[name=receipt]")
        page.fill("[name=max_tokens]", "6")
        page.click("#settings .main")
        ask(page)
        answered(page)
        with page.expect_download() as download:
            page.click("text=Receipt >> visible=true")
        download.value.save_as(tmp_path / "receipt.json")
    receipt = Receipt.from_json(json.loads((tmp_path / "receipt.json").read_text()))
    assert len(receipt.answers[0].ids) == 6


def test_refusals_are_told_in_the_servers_words(open_page):
    with live(served(replying("hi", template=None))) as server:
        page = open_page(server.url)
        ask(page)
        answered(page)
        assert "has no chat template" in page.locator(".message [role=alert]").inner_text()


def test_a_key_is_asked_for_and_kept_for_the_tab_alone(open_page):
    options = ServerOptions(port=0, api_keys=("the-key",))
    with live(served(replying("hi")), options=options) as server:
        page = open_page(server.url)
        page.fill("#key-value", "wrong")
        page.keyboard.press("Enter")
        until(lambda: "not known" in page.inner_text("#key-h"))
        page.fill("#key-value", "the-key")
        page.keyboard.press("Enter")
        page.wait_for_selector("#model option", state="attached")
        ask(page)
        assert answered(page).inner_text() == "hi"
        assert page.evaluate("sessionStorage.getItem('leadout.key')") == "the-key"
        assert "the-key" not in page.evaluate("JSON.stringify(localStorage)")


def test_compare_shows_that_the_text_is_identical(open_page):
    model = constant_chat([0.5, 0.3, 0.2])
    with live(served(model, ScriptedDrafter.always(ord("a")))) as server:
        page = open_page(server.url, "/#compare")
        page.wait_for_selector("#model option", state="attached")
        page.fill("#c-tokens", "40")
        page.click("#c-go")
        page.wait_for_selector(".verdict.same")
        assert "Identical: 41 bytes, 40 tokens" in page.inner_text("#verdict")
        assert page.inner_text("#c-auto") == page.inner_text("#c-off")
        assert "tokens a pass" in page.inner_text("#c-auto-note")
        assert "tok/s" in page.inner_text("#c-off-speed")


def test_compare_shows_where_texts_differ(open_page):
    asked = []

    def reply(prompt):
        asked.append(prompt)
        return "the same, then other" if server_saw_two() else "the same, then this"

    def server_saw_two():
        return "differ" in asked[-1]

    with live(served(replying(reply))) as server:
        page = open_page(server.url, "/#compare")
        page.wait_for_selector("#model option", state="attached")

        def meddle(route):
            body = route.request.post_data_json
            if body["speculation"] == "off":
                body["messages"][0]["content"] = "differ"
            route.continue_(post_data=json.dumps(body))

        page.route("**/v1/chat/completions", meddle)
        page.click("#c-go")
        page.wait_for_selector(".verdict.differs")
        said = page.inner_text("#verdict")
        assert "They differ from byte 16 on" in said
        assert "then this” with drafts" in said


def test_load_shows_slots_and_places(open_page):
    held = HeldModel.like(constant_chat([0.9, 0.1]))
    with live(served(held, ScriptedDrafter.always(ord("a")))) as server:
        page = open_page(server.url, "/#load")
        held.let_through(6)
        body = {
            "model": "toy",
            "messages": [{"role": "user", "content": "a"}],
            "stream": True,
            "max_tokens": 500,
        }
        with httpx.stream("POST", f"{server.url}/v1/chat/completions", json=body, timeout=60) as response:
            lines = response.iter_lines()  # kept, as the connection is closed with it
            next(lines)
            page.wait_for_selector("#places meter")
            until(lambda: "Slots at work1 of 1" in page.locator("#cards").text_content())
        held.let_all_through()


def test_tabs_and_theme_work_from_the_keyboard(open_page):
    with live(served(replying("hi"))) as server:
        page = open_page(server.url, color_scheme="dark")
        page.focus("#tab-chat")
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.id") == "tab-compare"
        assert page.is_visible("#view-compare")
        before = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.focus("#theme")
        page.keyboard.press("Enter")
        after = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (before, after) == ("rgb(21, 23, 26)", "rgb(251, 250, 248)")
        page.reload()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == after


def test_nothing_moves_where_that_is_not_wanted(open_page):
    held = HeldModel.like(replying("hi"))
    with live(served(held)) as server:
        page = open_page(server.url, reduced_motion="reduce")
        ask(page)
        page.wait_for_selector(".waiting")
        name = page.evaluate("getComputedStyle(document.querySelector('.waiting'), '::after').animationName")
        held.let_all_through()
        answered(page)
        assert name == "none"


def test_a_phone_needs_no_scrolling_sideways(open_page):
    with live(served(replying(MARKUP))) as server:
        page = open_page(server.url, is_mobile=True, has_touch=True)
        page.set_viewport_size({"width": 360, "height": 740})
        ask(page)
        answered(page)
        for view in ("chat", "compare", "load"):
            page.click(f"#tab-{view}")
            time.sleep(0.2)
            assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(open_page, scheme):
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python"
    )
    model = constant_chat([0.5, 0.3, 0.2])
    with live(served(model, ScriptedDrafter.always(ord("a")))) as server:
        page = open_page(server.url, color_scheme=scheme, bypass_csp=True)
        page.evaluate("localStorage.setItem('leadout.settings', '{\"max_tokens\": 60, \"seed\": 5}')")
        ask(page)
        answered(page)
        for view in ("chat", "compare", "load"):
            page.click(f"#tab-{view}")
            if view == "load":
                page.wait_for_selector("#places meter")
            found = axe.Axe().run(page)
            assert found.violations_count == 0, found.generate_report()
        page.click("#open-settings")
        found = axe.Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
