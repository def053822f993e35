"""`thinflow.view`: the page, its data, and what a notebook shows."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

import thinflow
from thinflow import zoo
from thinflow.pages.assets import FOLDER
from thinflow.pages.shell import data_of

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the scripts of the pages are not built")


def test_the_page_holds_the_graph(tmp_path: Path) -> None:
    graph = zoo.build("digits")
    made = thinflow.view(graph, output=tmp_path / "digits.html")
    assert Path(made.path).read_bytes() == made.page
    assert made.size_bytes == len(made.page)
    data = data_of(made.page)
    strings, nodes = data["strings"], data["graphs"][0]["nodes"]
    assert made.nodes == [len(nodes["name"])]
    assert {node.name for node in graph} < {strings[name] for name in nodes["name"]}


def test_a_notebook_shows_it_in_a_frame() -> None:
    made = thinflow.view(zoo.build("digits"))
    assert made.path == ""
    frame = made._repr_html_()
    inside = re.fullmatch(r'<iframe srcdoc="([^"]*)" [^<>]*></iframe>', frame)
    assert inside is not None
    assert html.unescape(inside[1]).encode() == made.page
