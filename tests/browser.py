"""A real browser for tests of pages: an installed Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

# Its own background traffic would be refused by machines without a network, again and again.
_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium() -> str | None:
    """Path of an installed Chromium or Chrome."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next(filter(None, map(shutil.which, names)), None)


@contextmanager
def launched() -> Iterator[Any]:
    """A headless browser; the test is skipped where there is none."""
    path = chromium()
    if path is None:
        pytest.skip("no Chromium is installed (Debian: apt-get install chromium)")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=_FLAGS)
        try:
            yield browser
        finally:
            browser.close()


class Messages:
    """Errors and warnings of a page's console, and exceptions nobody caught."""

    def __init__(self, page: Any) -> None:
        self.found: list[str] = []
        page.on("console", lambda m: self.found.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda e: self.found.append(str(e)))
        page.on("request", self._request)

    def _request(self, request: Any) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            self.found.append(f"asked the network for {request.url}")
