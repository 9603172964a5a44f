"""A headless Chromium for the tests of the report: Debian's, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

EXECUTABLE = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@contextmanager
def chromium() -> Iterator[Any]:
    """Start the browser, or skip the test where there is none."""
    if EXECUTABLE is None:
        pytest.skip("there is no Chromium; scripts/install-browser installs it")
    driver = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed; it is in the extra dev")
    with driver.sync_playwright() as playwright:
        # In a container the sandbox has no rights to start; what is opened here is our own page, without a network.
        browser = playwright.chromium.launch(executable_path=EXECUTABLE, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


class Visit:
    """A page opened without a network, with all it says and asks for on record."""

    def __init__(self, browser: Any, path: Path, **settings: Any) -> None:
        self.context = browser.new_context(offline=True, **settings)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector(".timeline .main-svg", state="attached")

    def range(self) -> list[str]:
        """Give the two ends of the timeline in view."""
        return list(self.page.evaluate("document.querySelector('.timeline').layout.xaxis.range"))

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait a few seconds at most; Playwright's own way evaluates text, which the page's policy forbids."""
        for _ in range(100):
            if holds():
                return
            self.page.wait_for_timeout(50)
        raise AssertionError("it did not happen")

    def colour(self, selector: str, style: str) -> str:
        """Give a computed colour."""
        return str(self.page.evaluate(f"getComputedStyle(document.querySelector('{selector}')).{style}"))
