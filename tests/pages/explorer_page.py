"""The explorer's page as a reader sees it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.pages import explorer_documents as documents

SCREENSHOTS = Path(__file__).resolve().parents[2] / "build" / "screenshots"
"""Kept by a run for people to look at; not in the repository."""


class Explorer:
    """One page, opened and drawn."""

    def __init__(self, page: Any) -> None:
        self.page = page

    def titles(self, pane: int = 0) -> list[str]:
        """Titles of the boxes that are drawn, of open scopes too."""
        found = self._pane(pane).locator(".box .title").all_text_contents()
        return [title.removeprefix("\u25be ") for title in found]

    def box(self, title: str, pane: int = 0) -> Any:
        """The first box with this title."""
        words = re.compile(rf"^(\u25be )?{re.escape(title)}$")
        titles = self._pane(pane).locator(".box .title").filter(has_text=words)
        return titles.locator("xpath=..").first

    def open(self, title: str, pane: int = 0) -> None:
        """Double-clicks a box."""
        self.box(title, pane).locator(".title").dblclick()
        self.page.wait_for_timeout(30)

    def selected(self, pane: int = 0) -> str:
        """Title of the selected box."""
        found: str = self._pane(pane).locator(".box.selected > .title").text_content()
        return found.removeprefix("\u25be ")

    def wait_selected(self, title: str, pane: int = 0) -> None:
        words = re.compile(rf"^(\u25be )?{re.escape(title)}$")
        self._pane(pane).locator(".box.selected > .title").filter(has_text=words).wait_for()

    @property
    def panel(self) -> Any:
        return self.page.locator(".panel-body")

    @property
    def message(self) -> str:
        found: str = self.page.locator(".message").text_content()
        return found

    def search(self, text: str) -> str:
        """Types into the search field; what stands beside it."""
        field = self.page.get_by_role("searchbox")
        field.fill(text)
        self.page.wait_for_timeout(160)
        found: str = self.page.locator(".search .count").text_content()
        return found

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
            self.page.wait_for_timeout(40)

    def shot(self, name: str) -> None:
        """Keeps a picture of the page."""
        self.page.wait_for_timeout(150)
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        part = SCREENSHOTS / f".{os.getpid()}.{name}.png"
        self.page.screenshot(path=str(part))
        os.replace(part, SCREENSHOTS / f"{name}.png")

    def _pane(self, number: int) -> Any:
        return self.page.locator(".pane:not([hidden])").nth(number)


def explore(
    open_page: Callable[..., Any], folder: Path, data: dict[str, Any], *, fragment: str = "", **options: Any
) -> Explorer:
    """Opens the page of a document."""
    page = open_page(documents.write(folder, data), fragment=fragment, **options)
    page.set_default_timeout(10_000)
    page.wait_for_selector("html[data-ready]")
    return Explorer(page)
