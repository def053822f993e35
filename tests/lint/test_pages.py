"""The pages on the rules of the linter say what the rules do."""

from __future__ import annotations

import pytest

from tests.scripts import script

_make_lint = script("_make_lint")
PAGES = _make_lint.pages()


@pytest.mark.parametrize("name", sorted(PAGES))
def test_pages_are_current(name: str) -> None:
    written = _make_lint.FOLDER / name
    assert written.is_file(), "run `python docs/_make_lint.py`"
    assert written.read_text("utf-8") == PAGES[name], "run `python docs/_make_lint.py`"


def test_there_is_no_page_without_a_rule() -> None:
    assert {page.name for page in _make_lint.FOLDER.glob("*.md")} == set(PAGES)
