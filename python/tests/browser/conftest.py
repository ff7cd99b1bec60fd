"""The browser and the services of the tests of the dashboard."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from admin_service import COMMAND, Service
from dashboard_page import DEADLINE_S, Page
from selenium import webdriver
from selenium.webdriver.chrome.service import Service as Driver

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
CHROMEDRIVER = shutil.which("chromedriver")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips the tests of this folder on a machine without a browser or the command."""
    here = Path(__file__).parent
    missing = []
    if not COMMAND:
        missing.append("there is no command millstream: python/check --browser builds it")
    if not (CHROMIUM and CHROMEDRIVER):
        missing.append("Chromium or its driver is not installed: on Debian, install the packages chromium and chromium-driver")
    for item in items:
        if missing and here in item.path.parents:
            item.add_marker(pytest.mark.skip(reason="; ".join(missing)))


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    # Containers often run tests as root and with a small /dev/shm, which the sandbox and the renderer of Chromium refuse.
    for flag in ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--no-proxy-server"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Driver(str(CHROMEDRIVER)))
    driver.set_script_timeout(DEADLINE_S)
    yield driver
    driver.quit()


@pytest.fixture
def page(browser: webdriver.Chrome) -> Page:
    page = Page(browser)
    page.size(1280)
    page.scheme("light")
    return page


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, key: Path) -> Iterator[Service]:
    """Yields a service with two workers and a trainer, which tests do not change."""
    with Service(tmp_path_factory.mktemp("service")) as service:
        for _ in range(2):
            service.add_worker()
        service.add_trainer()
        yield service


@pytest.fixture
def shown(page: Page, service: Service) -> Page:
    """Returns the page of the running service, after all tables have their rows."""
    page.open(service.page)
    page.until(lambda page: len(page.rows("tasks")) == 2 and len(page.rows("trainers")[0]) > 1)
    return page
