"""The dashboard in a browser, for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from axe_core_python.selenium import Axe
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

#: The seconds for which a test waits for the page. A loaded machine detects a dead worker after half a minute.
DEADLINE_S = 120


class Page:
    """The dashboard in a browser."""

    def __init__(self, browser: webdriver.Chrome) -> None:
        self.browser = browser

    def open(self, address: str) -> None:
        # Reading the log forgets the messages of earlier pages.
        self.browser.get("about:blank")
        self.errors()
        self.browser.get(address)

    def turn(self, hash: str) -> None:
        """Turns to a page of the dashboard, as a link does."""
        self.run("location.hash = arguments[0]", hash)

    def until(self, condition: Callable[[Page], object]) -> None:
        """Waits until a condition holds."""
        WebDriverWait(self, DEADLINE_S).until(condition)

    def text(self, name: str) -> str:
        return self.browser.find_element(By.ID, name).text

    def expect(self, name: str, *texts: str) -> str:
        """Waits until an element shows all texts, and returns its text."""

        def found(_: object) -> str | None:
            shown = self.text(name)
            return shown if shown and all(text in shown for text in texts) else None

        try:
            return WebDriverWait(self.browser, DEADLINE_S).until(found)  # type: ignore[return-value]
        except Exception as error:
            raise AssertionError(f"#{name}: expected {texts}, found {self.text(name)!r}") from error

    def new_status(self) -> None:
        """Waits until the page shows the next status."""
        before = self.text("clock")
        WebDriverWait(self, DEADLINE_S).until(lambda page: page.text("clock") != before)

    def rows(self, table: str) -> list[list[str]]:
        """Returns the cells of a table. The page replaces rows at any time, so one script reads all."""
        script = "return [...document.querySelectorAll(`#${arguments[0]} tbody tr`)].map(row => [...row.cells].map(cell => cell.innerText))"
        return self.run(script, table)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.browser.execute_script(script, *arguments)

    def size(self, width: int, height: int = 900) -> None:
        """Sets the size of the page in CSS pixels, also below the smallest window of the browser."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def scheme(self, scheme: str) -> None:
        """Sets the colour scheme that the user prefers."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def errors(self) -> list[str]:
        """Returns the errors that the console has shown since the last call."""
        return [entry["message"] for entry in self.browser.get_log("browser") if entry["level"] == "SEVERE"]

    def violations(self) -> list[str]:
        """Returns the violations of accessibility that axe finds."""
        found = Axe().run(self.browser)["violations"]
        return [f"{one['id']}: {one['help']}: {node['html']}" for one in found for node in one["nodes"]]
