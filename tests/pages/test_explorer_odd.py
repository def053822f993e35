"""The explorer's page on narrow screens, in the dark, on paper, and with odd graphs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.pages import explorer_documents as documents
from tests.pages.explorer_page import explore

NARROW = {"viewport": {"width": 400, "height": 800}, "has_touch": True}
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "a\"b'&amp;c",
    "tab\there\nand\x00zero",
    "\u202eltr\u202c",
    "\ud800 half",
    "\u05e9\u05dc\u05d5\u05dd",
    "x" * 5000,
]


def test_narrow_screens_have_a_drawer(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    page = explore(open_page, tmp_path, documents.document(documents.small()), **NARROW)
    width = page.page.evaluate("document.documentElement.scrollWidth")
    assert width <= 400
    assert not page.panel.is_visible()
    page.box("net").locator(".title").tap()
    page.panel.wait_for()
    page.shot("explorer-narrow")
    page.page.get_by_role("button", name="Close the panel").click()
    page.panel.wait_for(state="hidden")
    page.page.get_by_role("button", name="Panel", exact=True).click()
    page.panel.wait_for()


def test_two_graphs_on_a_narrow_screen_stand_above_each_other(
    tmp_path: Path, open_page: Callable[..., Any]
) -> None:
    page = explore(open_page, tmp_path, documents.compared(), **NARROW)
    one, two = (page.page.locator(".pane").nth(i).bounding_box() for i in (0, 1))
    assert one["width"] == two["width"] == 400
    assert two["y"] >= one["y"] + one["height"]


def test_dark_by_the_system_and_by_choice(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    page = explore(open_page, tmp_path, documents.document(documents.small()), color_scheme="dark")
    colour = "getComputedStyle(document.body).backgroundColor"
    assert page.page.evaluate(colour) == "rgb(23, 25, 28)"
    page.page.get_by_role("button", name="Light or dark").click()
    assert page.page.evaluate(colour) == "rgb(253, 253, 252)"


def test_fits_on_paper(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    page = explore(open_page, tmp_path, documents.document(documents.large(600)))
    page.page.get_by_role("button", name="Open all scopes").click()
    page.page.locator(".frame").first.wait_for(state="attached")
    page.page.emulate_media(media="print")
    page.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert not page.panel.is_visible()
    # Far more boxes than the screen shows, all inside the drawing.
    canvas = page.page.locator("svg.canvas")
    inside = "a => a.map(e => e.getBoundingClientRect()).every(b => b.top >= 0 && b.bottom <= innerHeight)"
    assert page.page.locator(".box, .area").evaluate_all(inside)
    assert page.page.locator(".frame").count() == 71
    # The legend stands below it and takes none of its width.
    drawn, legend = canvas.bounding_box(), page.page.locator(".legend").bounding_box()
    assert drawn["width"] > 0.95 * page.page.viewport_size["width"]
    assert legend["y"] >= drawn["y"] + drawn["height"]
    page.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert canvas.get_attribute("viewBox") is None


def test_paper_is_light_and_turned_for_what_is_wide(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    g = documents.measured(documents.small())
    page = explore(
        open_page, tmp_path, documents.document(g), fragment="#overlay=time", color_scheme="dark"
    )  # fmt: skip
    fills = "a => a.map(e => e.style.getPropertyValue('--fill'))"
    dark = page.page.locator(".box.tinted").evaluate_all(fills)
    page.page.emulate_media(media="print")
    page.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(253, 253, 252)"
    assert page.page.locator(".box.tinted").evaluate_all(fills) != dark
    wide, tall = "document.body.classList.contains('wide')", "svg => svg.viewBox.baseVal"
    shape = page.page.locator("svg.canvas").evaluate(f"svg => (({tall})(svg).width > ({tall})(svg).height)")
    assert page.page.evaluate(wide) == shape
    page.page.emulate_media(media="screen")
    page.page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.page.wait_for_timeout(50)
    assert page.page.locator(".box.tinted").evaluate_all(fills) == dark
    assert not page.page.evaluate(wide)


def test_hostile_names(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    g = documents.GraphMaker(documents.Strings(), HOSTILE[0])
    last = g.node("Placeholder", "x", kind=documents.INPUT)
    for name in HOSTILE:
        last = g.node(name, name.replace("/", ""), [last], attributes={name: name}, shape=None)
    page = explore(open_page, tmp_path, documents.document(g, title=HOSTILE[0]))
    assert page.page.locator("img").count() == 0
    page.press("f")
    names = "\n".join(page.page.locator(".box").all_text_contents())
    assert "\u2409here" in names
    assert "\u2400zero" in names
    assert "\u202e" not in names
    for name in HOSTILE:
        page.search(f'"{name[:20]}"')
        page.press("Enter")
        page.page.locator(".selected").wait_for()
        address = page.page.url
        assert "#node=" in address
    page.shot("explorer-hostile")


def test_a_hostile_name_is_found_by_its_link(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    g = documents.GraphMaker(documents.Strings(), "g")
    g.node("Relu", "a b&c=%\ud800#\u05e9")
    page = explore(open_page, tmp_path, documents.document(g))
    page.box("Relu").locator(".title").click()
    page.wait_selected("Relu")
    fragment = page.page.url[page.page.url.index("#") :]
    again = explore(open_page, tmp_path, documents.document(g), fragment=fragment)
    again.wait_selected("Relu")


def empty() -> documents.GraphMaker:
    return documents.GraphMaker(documents.Strings(), "empty.pb")


def single() -> documents.GraphMaker:
    g = empty()
    g.node("Relu", "alone", shape="*")
    return g


def cyclic() -> documents.GraphMaker:
    g = empty()
    for name in ("loop/Merge", "loop/Add", "loop/NextIteration", "out"):
        g.node(name.rpartition("/")[2], name, shape=None)
    for a, b in (
        ("loop/Merge", "loop/Add"),
        ("loop/Add", "loop/NextIteration"),
        ("loop/NextIteration", "loop/Merge"),
        ("loop/Add", "out"),
        ("out", "out"),
    ):
        g.edge(a, b)
    return g


@pytest.mark.parametrize(
    ("maker", "seen"), [(single, ["Relu"]), (cyclic, ["Add", "Merge", "NextIteration", "loop", "out"])]
)
def test_odd_graphs(
    maker: Callable[[], documents.GraphMaker], seen: list[str], tmp_path: Path, open_page: Callable[..., Any]
) -> None:
    page = explore(open_page, tmp_path, documents.document(maker()))
    if maker is cyclic:
        page.open("loop")
        page.box("NextIteration").wait_for()
    assert sorted(page.titles()) == seen


def test_an_empty_graph_says_so(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    page = explore(open_page, tmp_path, documents.document(empty()))
    assert "no nodes to draw" in page.page.locator(".notice").inner_text()


BROKEN = {
    "worker": ('throw new Error("no room");', "the boxes could not be placed: Uncaught Error: no room"),
    "data": ("////", "This page could not be drawn"),
}


@pytest.mark.parametrize("part", BROKEN)
def test_what_fails_is_told_on_the_page(part: str, tmp_path: Path, browser: Any) -> None:
    path = documents.write(tmp_path, documents.document(documents.small()))
    content, said = BROKEN[part]
    html = re.sub(
        rf'(<script[^>]* id="{part}"[^>]*>).*?(</script>)', rf"\1{content}\2", path.read_text(), flags=re.S
    )
    path.write_text(html)
    context = browser.new_context()
    page = context.new_page()
    page.goto(path.as_uri())
    page.get_by_role("alert").wait_for()
    assert said in page.get_by_role("alert").inner_text()
    page.get_by_role("button", name="Close the message").click()
    assert not page.get_by_role("alert").is_visible()
    context.close()


def test_what_is_left_out_is_said_and_listed(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    page = explore(open_page, tmp_path, documents.document(documents.flat(100_000)))
    assert "600 boxes drawn, 99,400 left out" in page.page.locator(".notice").inner_text()
    page.page.get_by_role("button", name="List all").click()
    assert page.page.get_by_role("treeitem").count() == 300
    assert "99,700 more" in page.panel.inner_text()
    page.search("relu_1000")
    page.press("Enter")
    page.wait_selected("Relu")
    page.shot("explorer-flat")


def test_five_thousand_nodes_open_at_once(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    page = explore(open_page, tmp_path, documents.document(documents.large()))
    page.page.get_by_role("button", name="Open all scopes").click()
    page.page.locator(".frame").first.wait_for(state="attached")
    page.press("f")
    page.page.locator(".area").first.wait_for(state="attached")
    # Far out, boxes are one path for each colour; frames and titles of the scopes are left.
    assert page.page.locator("svg.canvas *").count() < 2500
    page.shot("explorer-large")
