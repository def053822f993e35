"""The explorer's page: colours by measurement, and two graphs side by side."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.pages import explorer_documents as documents
from tests.pages.explorer_page import explore


def measured() -> dict[str, Any]:
    return documents.document(documents.measured(documents.small()), title="small.pb")


def test_amounts_that_add(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    page = explore(open_page, tmp_path, measured())
    page.page.get_by_label("Colours").select_option("time")
    values = measured()["graphs"][0]["overlays"][0]["values"]
    legend = page.page.locator(".legend")
    assert "Time" in legend.inner_text()
    listed = page.panel.locator(".overlay-list li")
    assert listed.count() == 10
    assert f"{max(v for v in values if v is not None):.3g} ms" in listed.first.inner_text()
    total = sum(v for v in values if v is not None)
    assert f"{total:.3g} ms in all" in page.panel.inner_text()
    # The scope shows the sum of what is in it, and is darker than a cheap node.
    assert page.box("net").locator(".value-text").text_content() != ""
    page.shot("explorer-time")
    listed.first.locator(".jump").click()
    page.page.locator(".selected").wait_for()
    assert "Measured" in page.panel.inner_text() or "MEASURED" in page.panel.inner_text()


def test_the_worst_of_a_scope(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    page = explore(open_page, tmp_path, measured(), fragment="#overlay=error&node=head")
    values = [v for v in measured()["graphs"][0]["overlays"][1]["values"] if v is not None]
    assert page.box("head").locator(".value-text").text_content() == f"{min(values) + 1:g} dB"
    assert f"worst: {min(values) + 1:g} dB" in page.panel.inner_text()


def test_categories_and_reasons(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    page = explore(open_page, tmp_path, measured(), fragment="#overlay=placement", color_scheme="dark")
    assert "reference (1)" in page.page.locator(".legend").inner_text()
    page.panel.get_by_role("button", name=re.compile("pool")).click()
    page.wait_selected("Mean")
    assert "LiteRT has no Mean of this rank" in page.panel.inner_text()
    page.shot("explorer-placement-dark")


def test_a_click_shows_the_twin(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    page = explore(open_page, tmp_path, documents.compared())
    page.open("net")
    page.box("block2", pane=1).wait_for()
    page.box("block2").locator(".title").click()
    page.wait_selected("block2")
    page.wait_selected("block2", pane=1)
    assert "changed" in page.box("block2").get_attribute("class")
    assert "same" in page.box("block1").get_attribute("class")
    page.box("block1", pane=1).locator(".title").click()
    page.wait_selected("block1")


def test_differences_one_after_another(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    page = explore(open_page, tmp_path, documents.compared())
    assert page.panel.locator(".difference").count() == 4
    page.page.get_by_role("button", name="\u2193 next").click()
    page.wait_selected("Conv2D")
    page.wait_selected("Conv2D", pane=1)
    assert "VALID in the second" in page.panel.inner_text()
    assert page.message == "Difference 1 of 4"
    page.shot("explorer-compare")
    page.press("n", "n")
    page.wait_selected("Relu")
    assert "only here" in page.panel.inner_text()
    assert (
        "only" in page.box("Relu").get_attribute("class") or page.page.locator(".only.selected").count() == 1
    )
    page.press("p", "p", "p")
    assert page.message == "Difference 4 of 4"


def test_forms_of_a_model_are_tabs(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    strings = documents.Strings()
    forms = [documents.small(strings, label) for label in ("before", "int8")]
    page = explore(open_page, tmp_path, documents.document(*forms), fragment="#graph=int8&node=head")
    page.wait_selected("head")
    assert page.page.get_by_role("tab", name="int8").get_attribute("aria-selected") == "true"
    page.page.get_by_role("tab", name="before").click()
    page.page.locator(".selected").wait_for(state="hidden")
    assert page.page.locator(".pane:visible").count() == 1


def test_colours_of_sums_go_by_what_is_drawn(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    page = explore(open_page, tmp_path, measured(), fragment="#overlay=time")
    largest = page.page.locator(".legend .axis span").last.text_content()
    assert largest == page.box("net").locator(".value-text").text_content()
    page.page.get_by_role("button", name="Open all scopes").click()
    page.box("Conv2D").wait_for()
    page.page.wait_for_timeout(50)
    values = measured()["graphs"][0]["overlays"][0]["values"]
    largest = page.page.locator(".legend .axis span").last.text_content()
    assert largest == f"{max(v for v in values if v is not None):.3g} ms"


def test_keys_faster_than_places_are_found(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    page = explore(open_page, tmp_path, documents.compared())
    press = "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'n', bubbles: true}))"
    page.page.evaluate(f"for (let i = 0; i < 7; i++) {press}")
    page.page.locator(".message").filter(has_text="Difference 3 of 4").wait_for()
    page.wait_selected("Relu")


def test_the_first_picture_is_coloured_by_what_was_asked_for(
    tmp_path: Path, open_page: Callable[..., Any]
) -> None:
    page = explore(open_page, tmp_path, {**measured(), "overlay": "error"})
    assert page.page.locator("select.overlays").input_value() == "error"
    assert page.page.locator(".box.tinted").count() > 0
    page = explore(open_page, tmp_path, {**measured(), "overlay": "error"}, fragment="#overlay=time")
    assert page.page.locator("select.overlays").input_value() == "time"
