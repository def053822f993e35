"""The explorer's page: what one sees first, opening scopes, keys, back and forward."""

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


def test_starts_with_scopes_closed_and_facts_of_the_model(small: Explorer) -> None:
    assert sorted(small.titles()) == ["NoOp", "head", "image", "net", "probabilities"]
    assert "GraphDef" in small.panel.inner_text()
    assert "Conv2D" in small.panel.inner_text()
    small.shot("explorer-start")


def test_a_double_click_opens_and_enter_closes(small: Explorer) -> None:
    small.open("head")
    small.box("Softmax").wait_for()
    assert small.selected() == "head"
    small.press("Enter")
    small.page.locator(".frame").wait_for(state="detached")
    assert "Softmax" not in small.titles()


def test_what_is_drawn_can_be_chosen(small: Explorer) -> None:
    small.open("head")
    small.box("MatMul").wait_for()
    assert "16\u00d710" in small.box("MatMul").text_content()
    small.page.get_by_text("Show").click()
    small.page.get_by_label("Constants as boxes").check()
    small.box("weights").wait_for()
    assert "16\u00d710" not in small.box("MatMul").text_content()
    # What is stored is a box now; what only awaits another is joined to it, if asked.
    assert small.page.locator(".link.control").count() == 0
    small.page.get_by_label("Control edges").check()
    small.page.locator(".link.control").first.wait_for(state="attached")


def test_levels(small: Explorer) -> None:
    small.page.get_by_role("button", name="Open scopes down to level 1").click()
    small.box("block1").wait_for()
    assert "Conv2D" not in small.titles()
    small.page.get_by_role("button", name="Open all scopes").click()
    small.press("f")
    small.box("Conv2D").wait_for()
    small.shot("explorer-all")
    small.page.get_by_role("button", name="Close all scopes").click()
    small.box("net").wait_for()
    assert len(small.titles()) == 5


def test_a_single_scope_is_open_at_the_start(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    g = documents.GraphMaker(documents.Strings(), "one.pb")
    x = g.node("Placeholder", "x", kind=documents.INPUT)
    for i in range(3):
        x = g.node("Relu", f"model/inner/relu{i}", [x])
    page = explore(open_page, tmp_path, documents.document(g))
    assert page.titles() == ["model", "inner", "x", "Relu", "Relu", "Relu"]


def test_scopes_of_the_first_picture_are_open(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    data = documents.document(documents.small())
    names = [data["strings"][name] for name in data["graphs"][0]["scopes"]["name"]]
    data["graphs"][0]["start"] = [names.index("head")]
    page = explore(open_page, tmp_path, data)
    assert sorted(page.titles()) == [
        *("MatMul", "NoOp", "Softmax", "head", "image", "net", "probabilities"),
    ]


def test_keys_follow_edges(small: Explorer) -> None:
    small.page.locator("svg.canvas").focus()
    small.press("ArrowDown")
    small.wait_selected("image")
    small.press("ArrowDown")
    small.wait_selected("net")
    small.press("Enter")
    small.box("block1").wait_for()
    small.press("ArrowUp")
    small.wait_selected("image")
    small.press("ArrowDown")
    small.wait_selected("block1")
    small.press("Escape")
    small.wait_selected("net")
    small.press("Escape")
    small.page.locator(".selected").first.wait_for(state="detached")
    assert small.page.locator("svg.canvas").get_attribute("aria-label").startswith("Graph small.pb")


def test_zoom_fit_pan_and_minimap(small: Explorer) -> None:
    def moved() -> str:
        # Until it rests: a busy machine draws the steps of a move late.
        found, before = "", None
        while found != before:
            before = found
            small.page.wait_for_timeout(280)
            found = small.page.locator("svg.canvas > g").get_attribute("transform")
        return found

    start = moved()
    small.press("+")
    larger = moved()
    small.press("-")
    assert larger != start
    small.page.mouse.move(300, 400)
    small.page.mouse.wheel(0, -400)
    assert moved() != larger
    small.page.mouse.move(60, 120)
    small.page.mouse.down()
    small.page.mouse.move(160, 220, steps=4)
    small.page.mouse.up()
    dragged = moved()
    assert dragged not in (start, larger)
    small.press("f")
    assert moved() == start
    small.page.get_by_role("button", name="Open all scopes").click()
    small.press("+", "+", "+", "+")
    small.page.locator(".minimap").wait_for()
    before = small.page.locator("svg.canvas > g").get_attribute("transform")
    area = small.page.locator(".minimap svg").bounding_box()
    small.page.mouse.click(area["x"] + area["width"] / 2, area["y"] + area["height"] - 4)
    small.page.wait_for_timeout(50)
    assert small.page.locator("svg.canvas > g").get_attribute("transform") != before


def test_back_and_forward(small: Explorer) -> None:
    small.open("head")
    small.box("MatMul").locator(".title").click()
    small.wait_selected("MatMul")
    small.page.go_back()
    small.wait_selected("head")
    small.page.get_by_role("button", name="Back (Alt+Left)").click()
    small.page.get_by_role("button", name="Back (Alt+Left)").click()
    small.page.locator(".frame").wait_for(state="detached")
    for _ in range(3):
        small.press("Alt+ArrowRight")
    small.wait_selected("MatMul")


def test_help_and_outline(small: Explorer) -> None:
    small.page.locator("svg.canvas").focus()
    small.press("?")
    assert small.page.get_by_role("dialog").is_visible()
    small.press("Escape")
    small.page.get_by_role("tab", name="Outline").click()
    tree = small.page.get_by_role("tree")
    assert tree.get_by_role("treeitem").count() == 5
    tree.get_by_role("treeitem", name="head").focus()
    small.press("ArrowRight")
    small.box("MatMul").wait_for()
    assert tree.get_by_role("treeitem", name="MatMul").get_attribute("aria-level") == "2"
    small.press("ArrowDown", "Enter")
    small.wait_selected("MatMul")


def tall(length: int = 40) -> documents.GraphMaker:
    g = documents.GraphMaker(documents.Strings(), "tall.pb")
    last = first = g.node("Placeholder", "image", kind=documents.INPUT)
    for i in range(length):
        last = g.node("Conv2D", f"layer{i}", [last])
    g.node("Add", "sum", [last, first])
    return g


def test_a_tall_chain_is_wrapped_to_the_window(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    page = explore(open_page, tmp_path, documents.document(tall()))
    titles = page.page.locator(".box .title")
    # All of it is seen at the start, and every title can be read.
    assert titles.count() == 42
    places = [titles.nth(i).bounding_box() for i in range(42)]
    assert min(place["height"] for place in places) > 7
    canvas = page.page.locator("svg.canvas").bounding_box()
    assert all(p["y"] > canvas["y"] and p["y"] + p["height"] < canvas["y"] + canvas["height"] for p in places)
    assert len({round(p["x"] / 40) for p in places}) > 3
    page.shot("explorer-wrapped")
    # Arrow keys go on in the next column.
    page.box("image").click()
    for _ in range(42):
        page.press("ArrowDown")
    assert page.selected() == "Add"


def test_on_a_phone_a_tall_chain_stays_one_column(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    data = documents.document(tall())
    page = explore(open_page, tmp_path, data, viewport={"width": 400, "height": 800})
    places = page.page.locator(".box .title").evaluate_all(
        "titles => titles.map(t => t.getBoundingClientRect()).map(r => Math.round((r.x + r.width / 2) / 20))"
    )
    assert max(places) - min(places) <= 2


def test_a_box_tells_what_is_fused_into_it_and_the_numbers_it_reads(
    tmp_path: Path, open_page: Callable[..., Any]
) -> None:
    g = documents.GraphMaker(documents.Strings(), "fused.tflite")
    x = g.node("Placeholder", "image", kind=documents.INPUT)
    weights = g.constant("filter", "8,3,3,3", values="1,2,3,...")
    x = g.node("CONV_2D", "conv", [x, weights], attributes={"fused_activation_function": '"RELU6"'})
    x = g.node("ADD", "add", [x], attributes={"fused_activation_function": '"NONE"'})
    x = g.node("_FusedMatMul", "dense", [x], attributes={"fused_ops": '["BiasAdd", "Tanh"]'})
    half = g.constant("half", "", values="0.5")
    g.node("MUL", "scaled", [x, half, g.constant("axes", "2", values="1,-2")])
    page = explore(open_page, tmp_path, documents.document(g))
    assert page.box("CONV_2D").locator(".fused-text").all_text_contents() == ["RELU6"]
    assert page.box("CONV_2D").locator(".fused.cat-activation").count() == 1
    assert page.box("CONV_2D").locator(".row").all_text_contents() == ["filter", "8\u00d73\u00d73\u00d73"]
    assert page.box("ADD").locator(".fused").count() == 0
    assert page.box("_FusedMatMul").locator(".fused-text").all_text_contents() == ["BiasAdd", "Tanh"]
    assert page.box("MUL").locator(".row").all_text_contents() == ["half", "= 0.5", "axes", "= 1,-2"]
    card, foot = page.box("CONV_2D").locator(".card"), page.box("CONV_2D").locator(".fused")
    whole, part = card.bounding_box(), foot.bounding_box()
    assert part["y"] > whole["y"]
    assert part["y"] + part["height"] <= whole["y"] + whole["height"] + 1
    page.shot("explorer-fused")
