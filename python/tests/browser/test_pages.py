"""Tests of the pages of the dashboard: the history, jobs, workers, events and settings, and services of any size."""

from __future__ import annotations

from pathlib import Path

import pytest
from admin_service import Service
from dashboard_page import Page
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from synthetic import SyntheticPort, large_status

#: The number of milliseconds for which a page may not react. A frozen page reacts after many seconds.
FREEZE_MS = 5000
#: The greatest number of rows that a table shows.
ROWS_MAX = 200


def test_the_last_hour_is_drawn_and_told(shown: Page) -> None:
    shown.expect("chart-workers", "Workers: 2 now")
    shown.expect("chart-rates", "Elements read per second: ", "in the last hour")
    shown.until(lambda page: page.run("return document.querySelectorAll('#chart-rates svg path[d^=M]').length") == 3)
    # Without lines, the same is a table.
    shown.run("document.querySelector('#chart-workers summary').click()")
    shown.until(lambda page: page.run("return document.querySelectorAll('#chart-workers tbody tr').length") >= 1)
    assert shown.errors() == []


def test_a_link_leads_to_the_job(shown: Page) -> None:
    job = shown.rows("jobs")[0][0]
    shown.browser.find_element(By.CSS_SELECTOR, "#jobs a").send_keys(Keys.ENTER)
    shown.expect("job-title", f"Job {job}")
    shown.until(lambda page: len(page.rows("job-trainers")[0]) > 1 and len(page.rows("job-tasks")) == 2)
    shown.until(lambda page: any("range" in row[0] for row in page.rows("job-stages")))
    shown.expect("job-events", "job created", "epoch begun")
    shown.expect("job-chart-rates", "Elements read per second: ")
    assert shown.rows("job-lost") == [["No split was lost or skipped."]]
    assert job in shown.browser.title
    assert shown.run("return document.activeElement.id") == "content"
    shown.turn("#/job/999999")
    shown.expect("job-note", "does not know this job")
    assert shown.errors() == []


def test_the_keyboard_turns_to_every_page(shown: Page) -> None:
    for name in ["workers", "events", "settings", "overview"]:
        shown.browser.find_element(By.CSS_SELECTOR, f"nav a[data-page={name}]").send_keys(Keys.ENTER)
        shown.until(lambda page, name=name: page.run(f"return !document.getElementById('page-{name}').hidden"))
        current = shown.run("return [...document.querySelectorAll('nav [aria-current=page]')].map(a => a.dataset.page)")
        visible = shown.run("return [...document.querySelectorAll('.page:not([hidden])')].map(page => page.id)")
        assert (current, visible) == ([name], [f"page-{name}"])
    assert shown.errors() == []


def test_workers_show_their_load(shown: Page, service: Service) -> None:
    shown.turn("#/workers")
    shown.until(lambda page: len(page.rows("all-workers")) == 2)
    shown.until(lambda page: all("MiB" in row[5] for row in page.rows("all-workers")))
    assert {row[0] for row in shown.rows("all-workers")} == set(service.workers)


def test_settings_name_their_values(shown: Page) -> None:
    shown.turn("#/settings")
    shown.expect("settings", "--admin", "127.0.0.1:0")
    rows = {row[0]: row[1:] for row in shown.rows("settings")}
    assert rows["--bind"] == ["127.0.0.1:0", "flag"]
    assert rows["--work-dir"] == ["not set", "default"]


def test_new_events_appear_by_themselves(page: Page, tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        page.open(f"{service.page}#/events")
        page.expect("events", "This dispatcher leads.")
        worker = service.add_worker()
        page.expect("events", f"Worker {worker} has registered")
        service.workers[worker].kill()
        page.expect("events", "worker given up", f"Worker {worker} with 0 tasks was given up")
        assert page.rows("events")[0][2] == "worker given up"
        assert page.errors() == []


@pytest.mark.parametrize("hash", ["#/", "#/workers", "#/job/1003"])
def test_ten_thousand_tasks_freeze_no_page(page: Page, hash: str) -> None:
    with SyntheticPort(large_status(workers=1000, tasks=10_000)) as port:
        page.open(port.page + hash)
        page.expect("connection", "Live.")
        script = """
            window.longest = 0;
            let before = performance.now();
            setInterval(() => {
                window.longest = Math.max(window.longest, performance.now() - before);
                before = performance.now();
            }, 20);
        """
        page.run(script)
        for _ in range(5):
            page.new_status()
        longest = page.run("return window.longest")
        print(f"{hash}: the longest time without a reaction is {longest:.0f} ms")
        assert longest < FREEZE_MS
        rows = page.run("return [...document.querySelectorAll('tbody')].map(body => body.rows.length)")
        assert max(rows) == ROWS_MAX
        assert page.errors() == []


def test_a_filter_finds_one_of_many(page: Page) -> None:
    with SyntheticPort(large_status(workers=1000, tasks=10_000)) as port:
        page.open(port.page)
        page.expect("more-tasks", "and 9,800 more")
        field = page.browser.find_element(By.ID, "filter-tasks")
        field.send_keys("10.0.1.7:5051 decode")
        page.until(lambda page: {row[0] for row in page.rows("tasks")} == {"10.0.1.7:5051"})
        page.new_status()
        # New statuses keep the filter and the focus.
        assert page.run("return document.activeElement.id") == "filter-tasks"
        assert len(page.rows("tasks")) == 10 and page.violations() == []
        webdriver.ActionChains(page.browser).send_keys(" nowhere").perform()
        page.until(lambda page: page.rows("tasks") == [["No row contains these words."]])
        page.expect("more-tasks", "10,000 rows do not contain these words")


def test_focus_stays_on_links_of_tables(shown: Page) -> None:
    shown.run("document.querySelector('#tasks a').focus()")
    for _ in range(2):
        shown.new_status()
    assert shown.run("return document.activeElement.closest('table')?.id") == "tasks"
