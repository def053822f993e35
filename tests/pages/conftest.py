"""Fixtures of tests that open pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import Messages, launched
from thinflow.pages.assets import FOLDER


# Not for the whole session: its driver has threads, and engines fork only where there are none.
@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium."""
    if not FOLDER.is_dir():
        pytest.skip("the scripts of the pages are not built: python scripts/build_pages.py says why")
    with launched() as found:
        yield found


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens a file; after the test, no page may have complained or asked the network for anything."""
    contexts, messages = [], []

    def opened(path: Path, *, fragment: str = "", **options: Any) -> Any:
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        messages.append(Messages(page))
        page.goto(path.resolve().as_uri() + fragment)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert [line for found in messages for line in found.found] == []
