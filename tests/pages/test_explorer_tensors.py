"""What inputs are for, what lines carry, all numbers of a constant, and numbers for nodes from a file."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.night import some
from tests.pages import explorer_documents as documents
from tests.pages.explorer_page import Explorer, explore

Opener = Callable[..., Any]


def with_roles() -> documents.GraphMaker:
    g = documents.small()
    g.nodes["roles"] = {g.text("Conv2D"): [g.text("input"), g.text("filter")]}
    g.nodes["rolesOfNode"] = {g.places["head/MatMul"]: [g.text("a"), g.text("b")]}
    return g


def values_of(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    return {"numbers": {"type": array.dtype.str, "data": base64.b64encode(array.tobytes()).decode()}}


def test_inputs_say_what_they_are_for(open_page: Opener, tmp_path: Path) -> None:
    page = explore(
        open_page, tmp_path, documents.document(with_roles()), fragment="#node=net/block1/a/Conv2D"
    )
    assert page.panel.locator(".role").all_text_contents() == ["input", "filter"]
    # The weight that it reads is shown beneath, by what it is for.
    assert page.panel.locator(".constant h3").text_content() == "filter \u00b7 weights"
    # On the box, too, in place of the name.
    rows = page.box("Conv2D").locator(".row").all_text_contents()
    assert rows == ["filter", "3\u00d73\u00d716\u00d716"]
    page.shot("explorer-roles")


def line(page: Explorer, first: str, second: str) -> tuple[float, float]:
    """A point halfway between two boxes that stand below each other."""
    above, below = page.box(first).bounding_box(), page.box(second).bounding_box()
    return above["x"] + above["width"] / 2, (above["y"] + above["height"] + below["y"]) / 2


def test_a_line_tells_what_it_carries(open_page: Opener, tmp_path: Path) -> None:
    page = explore(
        open_page, tmp_path, documents.document(with_roles()), fragment="#node=net/block1/a/Conv2D"
    )
    page.page.wait_for_timeout(300)
    page.page.mouse.click(*line(page, "Conv2D", "BiasAdd"))
    page.page.locator(".head.line").wait_for()
    assert page.page.locator(".link.chosen").count() == 1
    rows = dict(
        zip(
            page.panel.locator("dt").all_text_contents(),
            page.panel.locator("dd").all_text_contents(),
            strict=True,
        )
    )
    assert rows == {"shape": "1\u00d78\u00d78\u00d716", "dtype": "float32", "size": "4 KiB"}
    assert page.panel.locator(".jump").all_text_contents() == ["Conv2D", "BiasAdd"]
    page.shot("explorer-line")
    # Esc leaves the line, and nothing else.
    page.press("Escape")
    assert page.page.locator(".link.chosen").count() == 0
    assert page.selected() == "Conv2D"


def test_a_quantized_line_tells_its_scale(open_page: Opener, tmp_path: Path) -> None:
    page = explore(open_page, tmp_path, documents.document(with_roles()), fragment="#node=head/MatMul")
    page.page.wait_for_timeout(300)
    page.page.mouse.click(*line(page, "MatMul", "Softmax"))
    page.page.locator(".head.line").wait_for()
    assert "scale 0.0235, zero_point -128" in page.panel.text_content()


ARRAYS = [
    np.arange(-60, 60, dtype=np.float32).reshape(2, 3, 20) / 7,
    np.array([1.5, -65504, 6e-8, np.inf, np.nan], np.float16),
    np.array([-1, 1 << 62], np.int64),
    np.array([[True, False]]),
    np.float64(0.1),
    np.arange(250, dtype=np.uint8).reshape(250),
]


@pytest.mark.parametrize("array", some(ARRAYS, 3), ids=lambda a: f"{a.dtype}{list(a.shape)}")
def test_all_numbers_are_shown_and_saved(open_page: Opener, tmp_path: Path, array: Any) -> None:
    g = documents.GraphMaker(documents.Strings(), "values.pb")
    array = np.asarray(array)
    held = g.constant("weights", ",".join(map(str, array.shape)), **values_of(array), min=0, max=1)
    g.node("Conv2D", "conv", [g.node("Placeholder", "x", kind=documents.INPUT), held])
    page = explore(open_page, tmp_path, documents.document(g), fragment="#node=conv", accept_downloads=True)
    page.panel.locator(".all-values summary").click()
    cells = page.panel.locator(".number-grid span:not(.index)")
    cells.first.wait_for()
    shown = [float(t.replace("Infinity", "inf").replace("true", "1")) for t in cells.all_text_contents() if t]
    np.testing.assert_allclose(shown, array.reshape(-1)[:100].astype(np.float64), rtol=1e-5)
    with page.page.expect_download() as waiting:
        page.panel.get_by_role("button", name="Save as a file that numpy loads").click()
    assert waiting.value.suggested_filename == "weights.npy"
    saved = np.load(io.BytesIO(Path(waiting.value.path()).read_bytes()), allow_pickle=False)
    assert saved.dtype == array.dtype
    np.testing.assert_array_equal(saved, array)
    if array.size > 100:
        page.panel.get_by_role("button", name="Next numbers").click()
        assert float(cells.first.text_content()) == pytest.approx(float(array.reshape(-1)[100]), rel=1e-5)
        assert page.panel.locator(".number-grid .index").first.text_content() in ("[1, 2, 0]", "[100]")
        page.shot("explorer-values")


def test_where_numbers_are_not_in_the_page_it_says_so(open_page: Opener, tmp_path: Path) -> None:
    page = explore(
        open_page, tmp_path, documents.document(with_roles()), fragment="#node=net/block1/a/Conv2D"
    )
    assert "not all numbers are in this page" in page.panel.text_content()
    assert page.panel.locator(".all-values").count() == 0


def give(page: Explorer, name: str, data: Any) -> None:
    text = data if isinstance(data, str) else json.dumps(data)
    file = {"name": name, "mimeType": "application/json", "buffer": text.encode()}
    page.page.locator("input[type=file]").set_input_files(file)
    page.page.wait_for_timeout(100)


def test_data_of_nodes_become_colours(open_page: Opener, tmp_path: Path) -> None:
    page = explore(open_page, tmp_path, documents.document(with_roles()))
    results = {"net/pool": {"value": 3.5}, "head/Softmax:0": {"value": 1}, "nowhere": {"value": 2}}
    give(page, "latency.json", {"small.pb": {"name": "Latency on a phone", "results": results}})
    assert page.message == "2 nodes coloured by Latency on a phone; 1 name is not in this graph"
    assert page.page.locator("select.overlays option:checked").text_content() == "Colours: Latency on a phone"
    page.page.evaluate("location.hash = '#node=net/pool'")
    page.wait_selected("Mean")
    assert "3.5" in page.panel.locator("dd").first.text_content()
    # By hand, and words instead of numbers.
    give(page, "who.json", {"net/pool": "dsp", "head/MatMul": "cpu", "head/Softmax": "cpu"})
    assert page.message == "3 nodes coloured by who"
    assert "dsp" in page.page.locator(".legend").text_content()
    page.shot("explorer-node-data")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("{", "x.json: this is no JSON; open a file such as "),
        ([1, 2], "x.json: there is no value of any node in it; it should hold "),
        ({"results": {"a": {"value": None}}}, "x.json: there is no value of any node in it; it should hold "),
        ({"<b>a</b>": 1}, "x.json: none of its names is in this graph, as <b>a</b>; "),
    ],
)
def test_a_file_without_such_data_is_told(open_page: Opener, tmp_path: Path, data: Any, said: str) -> None:
    page = explore(open_page, tmp_path, documents.document(with_roles()))
    give(page, "x.json", data)
    assert page.message.startswith(said)
    assert page.page.locator("select.overlays").is_hidden()


def test_a_view_is_kept_for_the_next_time(open_page: Opener, tmp_path: Path) -> None:
    page = explore(open_page, tmp_path, documents.document(documents.measured(with_roles())))
    page.page.evaluate("location.hash = '#node=net/block2/a/Conv2D&overlay=time'")
    page.wait_selected("Conv2D")
    page.page.wait_for_timeout(300)
    page.press("+")
    page.page.wait_for_timeout(300)
    place = "document.querySelector('svg.canvas > g').getAttribute('transform')"
    seen = page.page.evaluate(place)
    page.page.locator(".options summary").click()
    page.page.get_by_role("button", name="Keep this view").click()
    page.page.evaluate("location.hash = '#node=head/Softmax&overlay=error'")
    page.wait_selected("Softmax")
    page.page.reload()
    page.page.wait_for_selector("html[data-ready]")
    page.wait_selected("Softmax")
    assert page.page.evaluate(place) != seen
    page.page.locator(".options summary").click()
    page.page.get_by_role("button", name="1: Conv2D", exact=True).click()
    page.wait_selected("Conv2D")
    page.page.wait_for_timeout(100)
    assert page.page.evaluate(place) == seen
    assert page.page.locator("select.overlays").input_value() == "time"
    page.page.get_by_role("button", name="Forget 1: Conv2D").click()
    assert page.page.locator(".bookmark").count() == 0


def test_views_that_do_not_fit_the_page_are_passed_over(open_page: Opener, tmp_path: Path) -> None:
    """Another version of the program, or a hand, may have written into what the browser keeps."""
    page = explore(open_page, tmp_path, documents.document(with_roles()))
    page.page.locator(".options summary").click()
    page.page.get_by_role("button", name="Keep this view").click()
    page.page.evaluate("""() => {
        const key = Object.keys(localStorage).find((key) => key.startsWith("thinflow "));
        const [good] = JSON.parse(localStorage.getItem(key));
        const other = (change) => ({ ...good, ...change });
        const inside = (change) => other({ places: [{ ...good.places[0], ...change }] });
        const bad = [null, 7, "x", {}, other({ graph: 5 }), other({ places: [] }), other({ name: 3 }),
            other({ view: { scale: 0, x: 0, y: 0 } }), other({ view: { scale: 1, x: null, y: 0 } }),
            inside({ expanded: [1e9] }), inside({ selected: -1 })];
        localStorage.setItem(key, JSON.stringify([...bad, good]));
    }""")
    page.page.reload()
    page.page.wait_for_selector("html[data-ready]")
    page.page.locator(".options summary").click()
    assert page.page.locator(".bookmark").count() == 1
    page.page.locator(".bookmark button").first.click()
    page.page.wait_for_selector("g.box")
