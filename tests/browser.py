"""Headless Chromium for the report's tests, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

EXECUTABLE = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

PATIENCE = 300_000.0
"""Milliseconds that something has to happen; a machine with other work to do may take minutes over it."""


@contextmanager
def chromium() -> Iterator[Any]:
    """Start the browser, or skip the test if there is none."""
    if EXECUTABLE is None:
        pytest.skip("Chromium is not installed; scripts/install-browser installs it")
    driver = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed; it is in the extra dev")
    with driver.sync_playwright() as playwright:
        # The sandbox cannot start inside a container; only our own page is opened, offline.
        browser = playwright.chromium.launch(executable_path=EXECUTABLE, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


class Visit:
    """A page opened offline, with its console messages and requests."""

    def __init__(self, browser: Any, path: Path, **settings: Any) -> None:
        self.context = browser.new_context(offline=True, **settings)
        self.context.set_default_timeout(PATIENCE)
        self.page = self.context.new_page()
        self.messages: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector(".timeline .main-svg", state="attached")

    @contextmanager
    def unfolded(self, number: int) -> Iterator[None]:
        """Unfold a card, and fold it again."""
        title = self.page.locator(".card > summary").nth(number)
        title.click()
        yield
        title.click()

    def range(self) -> list[str]:
        """Return the two ends of the timeline's current view."""
        return list(self.page.evaluate("document.querySelector('.timeline').layout.xaxis.range"))

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait, long where need be; Playwright's own wait evaluates strings, which the page's policy forbids."""
        for _ in range(6000):
            if condition():
                return
            self.page.wait_for_timeout(50)
        raise AssertionError("the condition did not become true")

    def colour(self, selector: str, style: str) -> str:
        """Return a computed colour."""
        return str(self.page.evaluate(f"getComputedStyle(document.querySelector('{selector}')).{style}"))
