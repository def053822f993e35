"""Ways of looking at a graph: from left to right, traced, a scope with all in it, attributes on its boxes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.pages import explorer_documents as documents
from tests.pages.explorer_page import Explorer, explore


@pytest.fixture
def small(tmp_path: Path, open_page: Callable[..., Any]) -> Explorer:
    return explore(open_page, tmp_path, documents.document(documents.small(), title="small.pb"))


def middle(page: Explorer, title: str) -> tuple[float, float]:
    place = page.box(title).bounding_box()
    return place["x"] + place["width"] / 2, place["y"] + place["height"] / 2


def test_from_left_to_right_and_back(small: Explorer) -> None:
    small.open("head")
    small.box("MatMul").wait_for()
    small.press("d", "f")
    small.page.wait_for_timeout(300)
    chain = [middle(small, title) for title in ("image", "net", "MatMul", "Softmax", "probabilities")]
    assert [x for x, _ in chain] == sorted(x for x, _ in chain)
    assert max(y for _, y in chain) - min(y for _, y in chain) < 60
    # Boxes stay upright, and the title of a scope stays above what is in it.
    box = small.box("MatMul").bounding_box()
    assert box["width"] > box["height"]
    assert small.box("head").locator(".title").bounding_box()["y"] < box["y"]
    small.shot("explorer-left-to-right")
    # Arrow keys go where they point.
    small.box("image").click()
    small.press("ArrowRight")
    small.wait_selected("net")
    small.press("ArrowLeft")
    small.wait_selected("image")
    small.page.get_by_text("Show").click()
    small.page.get_by_label("From left to right").uncheck()
    small.page.wait_for_timeout(300)
    assert middle(small, "net")[1] > middle(small, "image")[1] + 40


def test_a_line_from_left_to_right_is_where_it_is_clicked(small: Explorer) -> None:
    small.press("d", "f")
    small.page.wait_for_timeout(300)
    begin, end = small.box("image").bounding_box(), small.box("net").bounding_box()
    between = (begin["x"] + begin["width"] + end["x"]) / 2
    small.page.mouse.click(between, begin["y"] + begin["height"] / 2)
    small.panel.get_by_text("on this line").wait_for()
    assert "1\u00d732\u00d732\u00d73" in small.panel.inner_text()


def test_what_is_long_is_wrapped_into_rows(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    g = documents.GraphMaker(documents.Strings(), "long.pb")
    last = g.node("Placeholder", "image", kind=documents.INPUT)
    for i in range(40):
        last = g.node("Conv2D", f"layer{i}", [last])
    page = explore(open_page, tmp_path, documents.document(g))
    page.press("d")
    page.page.wait_for_timeout(300)
    titles = page.page.locator(".box .title")
    places = [titles.nth(i).bounding_box() for i in range(41)]
    assert min(place["height"] for place in places) > 7
    assert 3 < len({round(place["y"] / 20) for place in places}) < 20


def test_a_trace_dims_what_has_no_part_in_it(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    g = documents.GraphMaker(documents.Strings(), "forked.pb")
    g.node("Placeholder", "image", kind=documents.INPUT)
    g.node("Conv2D", "stem", ["image"])
    for name, op in (("left", "Relu"), ("right", "Tanh")):
        g.node(op, name, ["stem"])
        g.node("Identity", f"{name}_end", [name], kind=documents.OUTPUT)
    page = explore(open_page, tmp_path, documents.document(g))
    page.box("Relu").click()
    page.press("t")
    page.page.locator(".aside").first.wait_for()
    aside = page.page.locator(".box.aside .title").all_text_contents()
    assert sorted(aside) == ["Tanh", "right_end"]
    # The way from the input is green through all of it, not only the last line.
    assert page.page.locator(".link.into").count() == 2
    assert page.page.locator(".link.out-of").count() == 1
    said = page.panel.inner_text()
    assert "2 nodes" in said
    assert "1 node" in said
    page.shot("explorer-trace")
    page.box("Tanh").click()
    page.page.locator(".box.aside .title").filter(has_text="Relu").wait_for()
    page.page.get_by_role("button", name="Trace").click()
    page.page.locator(".aside").first.wait_for(state="detached")


def test_a_trace_leads_into_open_scopes(small: Explorer) -> None:
    small.open("net")
    small.open("block2")
    small.box("Add").wait_for()
    small.box("block1").click()
    small.press("t")
    small.page.wait_for_timeout(100)
    # Of net all follows from its first block; what initialises runs beside.
    assert small.page.locator(".box.aside .title").all_text_contents() == ["NoOp"]
    assert small.page.locator(".link.out-of").count() > 5


def test_a_scope_opens_with_all_in_it(small: Explorer) -> None:
    small.box("net").click()
    small.panel.get_by_role("button", name="Expand all in it").click()
    small.box("Conv2D").wait_for()
    assert small.titles().count("Conv2D") == 6
    assert "MatMul" not in small.titles()
    small.press("Alt+ArrowLeft")
    small.page.locator(".frame").first.wait_for(state="detached")
    small.press("Shift+Enter")
    small.box("Conv2D").wait_for()


def test_attributes_stand_on_boxes(small: Explorer) -> None:
    small.search("op:Conv2D")
    small.press("Enter")
    small.wait_selected("Conv2D")
    small.page.get_by_text("Show").click()
    field = small.page.get_by_label("Attributes on boxes")
    field.fill("^pad|stri")
    field.press("Enter")
    small.page.wait_for_timeout(300)
    words = small.box("Conv2D").text_content()
    assert "paddingSAME" in words
    assert "strides[1, 1, 1, 1]" in words
    assert "data_format" not in words
    field.fill("(")
    field.press("Enter")
    assert field.evaluate("input => input.validity.customError")


def test_copies_of_a_layer_are_told(small: Explorer) -> None:
    small.open("net")
    small.box("block3").click()
    part = small.panel.locator("section").filter(has_text="with the same ops")
    part.get_by_role("button").click()
    small.wait_selected("block2")


def test_hits_say_what_matched(small: Explorer) -> None:
    small.search("attr:padding=SAME")
    assert "padding=SAME" in small.page.locator(".hit-row small").first.text_content()
    small.search("op:Conv2D")
    assert small.page.locator(".hit-row small").first.text_content() == "Conv2D"
