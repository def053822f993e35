"""Lines of the explorer's drawing, and the drawing as a file."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.pages import explorer_documents as documents
from tests.pages.explorer_page import explore

_ENDS = """() => [...document.querySelectorAll(".links g > path:not(.head)")].flatMap(path => {
  const points = [path.getPointAtLength(0), path.getPointAtLength(path.getTotalLength())];
  return points.map(({x, y}) => [x, y]);
})"""
_BOXES = """() => [...document.querySelectorAll(".box")].map(box => {
  const {e: x, f: y} = box.transform.baseVal.consolidate().matrix;
  const card = box.querySelector(".card:not(.behind)");
  const [width, height] = ["width", "height"].map(name => Number(card.getAttribute(name)));
  return [x, y, width, height, box.classList.contains("frame")];
})"""


def handed_out_and_back() -> documents.GraphMaker:
    """A scope whose values run through nodes beside it and come back, as an exporter puts transposes in."""
    g = documents.GraphMaker(documents.Strings(), "back.onnx")
    last = g.node("Placeholder", "x", kind=documents.INPUT)
    for number in range(3):
        last = g.node("Conv", f"net/conv{number}", [last])
        last = g.node("Transpose", f"Transpose__{number}", [last])
    last = g.node("Relu", "net/last", [last])
    g.node("Identity", "y", [last], kind=documents.OUTPUT)
    return g


def test_values_that_leave_a_scope_and_come_back(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    page = explore(open_page, tmp_path, documents.document(handed_out_and_back()))
    page.open("net")
    page.page.wait_for_timeout(300)
    boxes, ends = page.page.evaluate(_BOXES), page.page.evaluate(_ENDS)
    leaves = [box for box in boxes if not box[4]]
    for i, (x, y, width, height, _) in enumerate(leaves):
        for left, top, wide, high, _ in leaves[:i]:
            assert x >= left + wide or left >= x + width or y >= top + high or top >= y + height
    (frame,) = (box for box in boxes if box[4])
    for border in (frame[1], frame[1] + frame[3]):
        crossing = sorted(round(x) for x, y in ends if abs(y - border) < 0.2)
        # A line that ends at a border goes on from there on its other side.
        assert crossing
        assert crossing[::2] == crossing[1::2]
    page.shot("explorer-back")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_drawing_as_a_file(tmp_path: Path, open_page: Callable[..., Any], scheme: str) -> None:
    page = explore(open_page, tmp_path, documents.document(documents.small()), color_scheme=scheme)
    for kind in ("SVG", "PNG"):
        page.page.locator(".options summary").click()
        with page.page.expect_download() as saved:
            page.page.get_by_role("button", name=f"Save as {kind}").click()
        assert saved.value.suggested_filename == f"small.pb.{kind.lower()}"
        saved.value.save_as(tmp_path / f"drawing.{kind.lower()}")
    text = (tmp_path / "drawing.svg").read_text()
    drawing = ElementTree.fromstring(text)
    words = {element.text for element in drawing.iter() if element.text}
    assert {"net", "head", "image", "probabilities"} <= {word.removeprefix("\u25be ") for word in words}
    # What only a browser with the page's style sheet knows is not in it.
    assert not re.search(r"var\(|color-mix|light-dark|class=|visibility", text)
    paper = drawing[0].get("fill")
    assert paper == ("rgb(253, 253, 252)" if scheme == "light" else "rgb(23, 25, 28)")
    assert (tmp_path / "drawing.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_no_box_is_blank_on_a_phone(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    g = documents.GraphMaker(documents.Strings(), "long.pb")
    last = g.node("Placeholder", "a_placeholder_with_quite_a_name", kind=documents.INPUT)
    for number in range(24):
        last = g.node("DepthwiseConv2dNative", f"depthwise_{number}", [last])
    phone = {"viewport": {"width": 400, "height": 800}}
    page = explore(open_page, tmp_path, documents.document(g), **phone)
    said = page.page.locator(".box").evaluate_all("boxes => boxes.map(box => box.textContent)")
    assert len(said) == 25
    assert all(said)
