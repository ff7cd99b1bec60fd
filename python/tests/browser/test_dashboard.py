"""Tests of the dashboard in Chromium: what an operator sees, with which devices, and how the page reports trouble."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from admin_service import Service
from dashboard_page import DEADLINE_S, Page
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait
from synthetic import SyntheticPort, large_status

TABLES = ["trainers", "jobs", "workers", "tasks"]
TOKEN = "planted-token-0123456789"
#: The ratio of contrast that WCAG 2.1 AA requires of text.
CONTRAST_MIN = 4.5


def test_tables_show_the_service(shown: Page, service: Service) -> None:
    assert shown.expect("sentence", "trainer").endswith(".")
    assert shown.text("connection") == "Live."
    assert {row[0] for row in shown.rows("workers")} == set(service.workers)
    assert {row[0] for row in shown.rows("tasks")} == set(service.workers)
    assert [row[1] for row in shown.rows("workers")] == ["alive", "alive"]
    [trainer], [job] = shown.rows("trainers"), shown.rows("jobs")
    assert trainer[1] == job[0] and job[3] == "running" and " of " in job[4]
    shown.expect("trainers", "2 shm")
    assert shown.text("figures").split("\n")[:2] == ["Workers", "2"]
    assert shown.errors() == []


def test_live_statuses_arrive_compressed(shown: Page) -> None:
    for _ in range(2):
        shown.new_status()
    script = """
        const answer = await fetch("/api/v1/live");
        await answer.body.cancel();
        return answer.headers.get("content-encoding");
    """
    assert shown.run(script) == "gzip"


def test_live_regions_change_only_with_their_text(shown: Page) -> None:
    script = "window.changes = 0; new MutationObserver(() => window.changes++).observe(document.getElementById('connection'), {childList: true})"
    shown.run(script)
    for _ in range(2):
        shown.new_status()
    assert shown.run("return window.changes") == 0


def test_verdict_names_a_dead_worker(page: Page, tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        page.open(service.page)
        page.expect("sentence", "No trainer reads.")
        for table in TABLES:
            [[empty]] = page.rows(table)
            assert empty.startswith("No ")
        killed, other = service.add_worker(), service.add_worker()
        page.expect("sentence", "2 workers are ready")
        service.add_trainer()
        page.expect("sentence", "The trainers")
        service.workers[killed].kill()
        page.expect("sentence", f"Worker {killed} is dead")
        page.expect("workers", "dead: ")
        assert page.run("return document.getElementById('verdict').dataset.level") == "warning"
        assert page.text("advice")
        assert {row[0]: row[1][:5] for row in page.rows("workers")} == {killed: "dead:", other: "alive"}
        assert page.errors() == []


@pytest.mark.parametrize("width", [360, 1280, 3840])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_of_all_widths_are_accessible(shown: Page, width: int, scheme: str) -> None:
    shown.size(width)
    shown.scheme(scheme)
    job = shown.rows("jobs")[0][0]
    for hash in ["#/", f"#/job/{job}", "#/workers", "#/events", "#/settings"]:
        shown.turn(hash)
        shown.new_status()
        # A vertical bar takes a part of the width.
        script = "const page = document.documentElement; return [page.scrollWidth, page.clientWidth, innerWidth]"
        needs, has, whole = shown.run(script)
        assert needs <= has and whole == width, hash
        assert shown.violations() == [], hash
    shown.turn("#/")
    # Text of the body and of tables has the size that the user has set, or at least four fifths of it.
    script = (
        "return arguments[0].map(selector => parseFloat(getComputedStyle(document.querySelector(selector)).fontSize))"
    )
    assert min(shown.run(script, ["body", "#sentence", "td", "th", "#figures dt", "figcaption", ".axis"])) >= 12.8
    assert shown.errors() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_colours_have_contrast(shown: Page, scheme: str) -> None:
    shown.scheme(scheme)
    script = "const style = getComputedStyle(document.documentElement); return arguments[0].map(name => style.getPropertyValue(`--${name}`).trim())"
    back, card, *texts = shown.run(script, ["back", "card", "text", "soft", "good", "warning", "fault", "link"])
    assert (luminance(back) < 0.5) == (scheme == "dark")
    assert (
        shown.run("return getComputedStyle(document.body).backgroundColor")
        == f"rgb({', '.join(map(str, channels(back)))})"
    )
    ratios = {(text, ground): contrast(text, ground) for text in texts for ground in (back, card)}
    assert {pair: ratio for pair, ratio in ratios.items() if ratio < CONTRAST_MIN} == {}


def test_keyboard_reaches_every_table(shown: Page) -> None:
    script = "const e = document.activeElement; return [e.className, e.getAttribute('aria-labelledby'), e.getBoundingClientRect().left]"
    reached = []
    # Between the tables lie the links to the pages and jobs, and the tables of the charts.
    for _ in range(30):
        webdriver.ActionChains(shown.browser).send_keys(Keys.TAB).perform()
        reached.append(shown.run(script))
    assert reached[0][0] == "skip" and reached[0][2] >= 0
    labels = [label for _, label, _ in reached if label]
    assert labels[: len(TABLES)] == [f"{table}-title" for table in TABLES]
    outline = shown.run(
        "document.querySelector('.scroll').focus({focusVisible: true}); return getComputedStyle(document.activeElement).outlineStyle"
    )
    assert outline != "none"


def test_skip_link_leads_to_the_content(shown: Page) -> None:
    webdriver.ActionChains(shown.browser).send_keys(Keys.TAB, Keys.ENTER).perform()
    assert shown.run("return document.activeElement.id") == "content"


def test_wide_tables_scroll_by_keyboard(shown: Page) -> None:
    shown.size(360)
    region = shown.browser.find_element(By.CSS_SELECTOR, "#workers-title ~ .scroll")
    shown.run("arguments[0].focus()", region)
    webdriver.ActionChains(shown.browser).send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT).perform()
    WebDriverWait(shown, DEADLINE_S).until(lambda page: page.run("return arguments[0].scrollLeft", region) > 0)
    # New rows do not move the region back.
    shown.new_status()
    assert shown.run("return arguments[0].scrollLeft", region) > 0


def test_only_the_right_token_shows_the_service(page: Page, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    with Service(tmp_path, "--admin-token-file", str(tmp_path / "token")) as service:
        page.open(service.page)
        page.expect("connection", "The port needs a token.")
        field = page.browser.find_element(By.ID, "token")
        assert field.is_displayed() and page.violations() == []
        field.send_keys("wrong-token-0123456789", Keys.ENTER)
        page.expect("connection", "The token is wrong.")
        assert page.text("sentence") == "The status is not known yet."
        field.clear()
        field.send_keys(TOKEN, Keys.ENTER)
        page.expect("sentence", "No trainer reads.")
        assert not field.is_displayed()
        assert all("401" in error for error in page.errors())
        # The tab keeps the token, and the address does not contain it.
        page.browser.refresh()
        page.expect("sentence", "No trainer reads.")
        assert TOKEN not in page.browser.current_url


def test_page_reports_a_silent_dispatcher(page: Page, tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        page.open(service.page)
        page.expect("sentence", "No trainer reads.")
        service.dispatcher.send_signal(signal.SIGSTOP)
        try:
            page.expect("sentence", "The dispatcher does not answer.")
        finally:
            service.dispatcher.send_signal(signal.SIGCONT)
        page.expect("sentence", "No trainer reads.")
        service.dispatcher.kill()
        page.expect("sentence", "The dispatcher does not answer.")


def test_the_loss_of_leadership_is_named(page: Page) -> None:
    with SyntheticPort({"leading": False}) as port:
        page.open(port.page)
        assert page.expect("sentence", "does not lead") == "This dispatcher does not lead."
        assert "/readyz" in page.text("advice")
        port.status = large_status(workers=2, tasks=10)
        page.expect("sentence", "No trainer waits for data.")
        port.status = {"leading": False}
        page.expect("sentence", "does not lead", "It led until ", "the tables show the service at that time")
        # Other pages show that time too, and their documents stay.
        page.turn("#/workers")
        assert len(page.rows("all-workers")) == 2 and page.text("connection") == "Live."
        port.status = large_status(workers=3, tasks=10)
        page.expect("sentence", "No trainer waits for data.")
        page.until(lambda page: len(page.rows("all-workers")) == 3)
        assert port.followed == 1 and page.errors() == []


def test_a_page_follows_the_status_once(page: Page) -> None:
    with SyntheticPort({"leading": False}, TOKEN) as port:
        page.open(port.page)
        page.expect("connection", "The port needs a token.")
        submit = "const form = document.getElementById('login'); form.requestSubmit(); form.requestSubmit(); form.requestSubmit()"
        page.browser.find_element(By.ID, "token").send_keys(TOKEN)
        page.run(submit)
        page.expect("sentence", "does not lead")
        for _ in range(2):
            page.new_status()
        assert port.followed == 1


def channels(colour: str) -> tuple[int, int, int]:
    """Returns the red, green and blue of a colour like ``#1b1f24``."""
    red, green, blue = bytes.fromhex(colour.removeprefix("#"))
    return red, green, blue


def luminance(colour: str) -> float:
    """Returns the relative luminance of WCAG 2.1."""
    shares = [channel / 255 for channel in channels(colour)]
    red, green, blue = (share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Returns the ratio of contrast of WCAG 2.1."""
    dark, bright = sorted([luminance(one), luminance(other)])
    return (bright + 0.05) / (dark + 0.05)
