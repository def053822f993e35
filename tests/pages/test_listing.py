"""Tables of a page that are sorted and filtered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from thinflow.pages import report as r
from thinflow.pages.shell import save_document

ROWS = [
    r.Listed(
        [f"model-{number}.pb", "GraphDef" if number % 2 else "Keras", float(number % 7)], [f"{number} nodes"]
    )
    for number in range(400)
]


@pytest.fixture
def page(open_page: Callable[..., Any], tmp_path: Path) -> Any:
    columns = [r.Column("model", code=True), r.Column("what"), r.Column("size", "bytes")]
    document = r.ReportDocument(
        "models", "400 models", [r.section("Models", r.Listing(columns, [1], ROWS))], {}
    )
    save_document(document, tmp_path / "x.html")
    found = open_page(tmp_path / "x.html", viewport={"width": 900, "height": 800})
    found.set_default_timeout(5000)
    return found


def names(page: Any) -> list[str]:
    found: list[str] = page.locator(".listing tbody tr:not(.why) td:first-child").all_inner_texts()
    return found


def test_sort_filter_and_open(page: Any) -> None:
    rows = page.locator(".listing tbody tr:not(.why)")
    rows.first.wait_for()
    assert rows.count() == 300
    page.get_by_role("button", name="Show 100 more").click()
    assert rows.count() == 400
    page.get_by_role("button", name="size").click()
    assert names(page)[0] == "model-6.pb", "the largest first, and the first of these"
    assert page.locator("th", has_text="size").get_attribute("aria-sort") == "descending"
    page.get_by_role("button", name="model", exact=True).click()
    assert names(page)[:3] == ["model-0.pb", "model-1.pb", "model-2.pb"]
    page.get_by_label("Filter rows by words").fill("model-39 nodes")
    assert names(page) == ["model-39.pb", *(f"model-39{digit}.pb" for digit in range(10))]
    page.get_by_label("what").select_option("what: Keras")
    assert names(page) == [f"model-39{digit}.pb" for digit in (0, 2, 4, 6, 8)]
    assert page.get_by_role("status").inner_text() == "5 of 400"
    opener = page.get_by_role("button", name="model-390.pb")
    opener.click()
    assert page.locator("tr.why li").all_inner_texts() == ["390 nodes"]
    assert opener.get_attribute("aria-expanded") == "true"
    opener.click()
    assert page.locator("tr.why").count() == 0


def test_it_fits_a_phone(page: Any) -> None:
    page.set_viewport_size({"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == 400
