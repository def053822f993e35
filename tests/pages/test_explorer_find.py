"""The explorer's page: search, deep links, the panel."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.pages import explorer_documents as documents
from tests.pages.explorer_page import Explorer, explore


@pytest.fixture
def small(tmp_path: Path, open_page: Callable[..., Any]) -> Explorer:
    made = documents.measured(documents.small())
    return explore(open_page, tmp_path, documents.document(made, title="small.pb"))


def test_search_by_everything(small: Explorer) -> None:
    hits = {
        "Conv2D": "6",
        "op:relu": "6",
        "op:/^conv/": "6",
        "name:block2": "18",
        r"/block[13]\/b\/Conv/": "2",
        "shape:1,10": "3",
        "shape:1x10": "3",
        "dtype:int8": "1",
        "attr:padding=SAME": "6",
        "attr:padding=VALID": "0",
        "Conv2D block1": "2",
        "nothing at all": "0",
        "/(/": "not a pattern",
        "": "",
    }
    assert {text: small.search(text) for text in hits} == hits


def test_enter_goes_from_hit_to_hit_and_opens_scopes(small: Explorer) -> None:
    small.search("op:Conv2D")
    small.press("Enter")
    small.wait_selected("Conv2D")
    assert small.page.locator(".search .count").text_content() == "1 / 6"
    assert "net/block1/a/Conv2D" in small.panel.inner_text()
    small.shot("explorer-search")
    small.press("Enter", "Enter", "Shift+Enter", "Shift+Enter", "Shift+Enter")
    assert small.page.locator(".search .count").text_content() == "6 / 6"
    small.page.wait_for_timeout(100)
    assert "net/block3/b/Conv2D" in small.panel.inner_text()


def test_the_panel_of_a_node(small: Explorer) -> None:
    small.search("net/block2/a/Conv2D")
    small.press("Enter", "Escape", "Escape")
    small.wait_selected("Conv2D")
    text = small.panel.inner_text()
    for part in (
        "padding",
        "SAME",
        "float32 3\u00d73\u00d716\u00d716",
        "2 values not finite",
        "12.5 %",
        "8.1 ms",
    ):
        assert part in text
    link = small.panel.get_by_role("link", name=re.compile("What Conv2D does"))
    assert link.get_attribute("href").startswith("https://www.tensorflow.org/")
    assert small.panel.locator(".histogram rect").count() == 10
    pixels = "c => [...c.getContext('2d').getImageData(0, 0, 2, 1).data]"
    assert small.panel.locator("canvas.filters").evaluate(pixels) == [0, 0, 0, 255, 7, 7, 7, 255]
    small.panel.get_by_role("button", name=re.compile("^BiasAdd")).first.click()
    small.wait_selected("BiasAdd")
    small.panel.get_by_role("button", name="block2", exact=True).click()
    small.wait_selected("block2")
    assert "4,640" in small.panel.inner_text()


def test_quantization_and_remarks(small: Explorer) -> None:
    small.search("head/MatMul")
    small.press("Enter")
    small.wait_selected("MatMul")
    assert "scale 0.0235, zero_point -128" in small.panel.inner_text()
    assert "not folded: its weights are shared" in small.panel.inner_text()
    assert small.box("MatMul").locator(".chip-text").text_content() == "int8"


def test_the_name_is_copied(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    data = documents.document(documents.small())
    page = explore(open_page, tmp_path, data, fragment="#node=head/MatMul")
    page.page.get_by_role("button", name="Copy the name").click()
    page.page.get_by_text("copied").wait_for()
    field = page.page.get_by_role("searchbox")
    field.focus()
    page.press("Control+v")
    assert field.input_value() == "head/MatMul"


def test_a_deep_link_opens_a_node(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    first, *others = ("net/block2/a/Conv2D", "net/block2/a/Conv2D:0", "net%2Fblock2%2Fa%2FConv2D")
    page = explore(open_page, tmp_path, documents.document(documents.small()), fragment=f"#node={first}")
    for name in others:
        page.wait_selected("Conv2D")
        assert "net/block2/a/Conv2D" in page.panel.inner_text()
        page.page.evaluate("location.hash = 'node=net/pool'")
        page.wait_selected("Mean")
        page.page.evaluate("name => { location.hash = `node=${name}` }", name)
    page.wait_selected("Conv2D")


def test_links_follow_the_reader(small: Explorer) -> None:
    small.open("head")
    small.box("Softmax").locator(".title").click()
    small.wait_selected("Softmax")
    small.page.get_by_label("Colours").select_option("time")
    assert small.page.url.endswith("#node=head/Softmax&overlay=time")
    small.page.evaluate("location.hash = 'node=net/pool'")
    small.wait_selected("Mean")


def test_bad_links_are_said(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    data = documents.document(documents.small())
    page = explore(open_page, tmp_path, data, fragment="#node=gone/away")
    assert "names a node that is not here: gone/away" in page.message
    said = {
        "graph=7": "names a graph that is not here: 7",
        "overlay=%E0%A4": "names an overlay that is not here: %E0%A4",
    }
    for fragment, words in said.items():
        page.page.evaluate("fragment => { location.hash = fragment }", fragment)
        page.page.get_by_text(words).wait_for()
