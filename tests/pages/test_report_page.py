"""The report's page in a browser: what is drawn, what opens, how it looks on other screens and on paper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.pages.documents import every_block, every_document
from thinflow.pages.shell import save_document

SHOTS = Path(__file__).parents[2] / "build" / "screenshots"
Open = Callable[..., Any]


@pytest.fixture
def shown(tmp_path: Path, open_page: Open) -> Callable[..., Any]:
    """The page with everything on it, its charts drawn."""

    def opened(**options: Any) -> Any:
        save_document(every_document(), tmp_path / "report.html")
        page = open_page(tmp_path / "report.html", **options)
        page.set_default_timeout(5000)
        page.locator("figure svg g").first.wait_for()
        return page

    return opened


def marks(page: Any, label: str, shape: str = "circle") -> int:
    """How many shapes a mark of the charts drew."""
    return int(page.locator(f"figure g.{label} {shape}").count())


def shot(page: Any, name: str) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"report-{name}.png", full_page=True)


def test_every_block_is_drawn(shown: Open) -> None:
    page = shown(viewport={"width": 1000, "height": 800})
    assert page.locator("section").count() == len(every_block())
    assert page.locator("nav a").count() == len(every_block())
    assert page.get_by_role("status").first.inner_text() == "interrupted"
    # The run that lies far out is told below, not drawn.
    assert marks(page, "runs") == 5
    assert "up to 30 ms" in page.locator("#s7").inner_text()
    assert marks(page, "intervals", "line") == 2
    assert marks(page, "values") == 2
    assert marks(page, "bars", ":is(rect, path)") == 3
    # In both pictures, but for the candidate whose time is not known.
    assert marks(page, "candidates") == 4 + 3
    assert marks(page, "budget", "line") == 3
    assert marks(page, "layers") == 2
    assert marks(page, "first", "line") == 1
    shot(page, "light")


def test_pictures_say_in_words_what_they_show(shown: Open) -> None:
    page = shown()
    pictures = page.locator("figure .picture [role=img]")
    assert pictures.count() == page.locator("figure").count()
    assert all("float32" in pictures.nth(n).get_attribute("aria-label") for n in (1, 3))
    table = page.locator("figure", has_text="trade-off").locator("details")
    assert not table.locator("td").first.is_visible()
    table.locator("summary").focus()
    page.keyboard.press("Enter")
    assert "over the budget" in table.locator("table").inner_text()


def test_tooltips(shown: Open) -> None:
    page = shown(viewport={"width": 1000, "height": 800})
    dot = page.locator("#s9 g.candidates circle").last
    dot.scroll_into_view_if_needed()
    dot.hover(force=True)
    page.locator("#s9 g[aria-label=tip] text", has_text="int8 fast").wait_for()


def test_the_other_axis(shown: Open) -> None:
    page = shown(viewport={"width": 1000, "height": 800})
    page.get_by_label("Upwards").select_option(label="SQNR")
    # The float model has none.
    assert marks(page, "candidates") == 3 + 2


def test_what_changed_nothing_is_folded_away(shown: Open) -> None:
    page = shown()
    ledger = page.locator(".ledger")
    assert ledger.get_by_text("fold_batch_norms").is_visible()
    assert not ledger.get_by_text("fold_constants").is_visible()
    ledger.get_by_text("2 transforms found nothing to change").click()
    assert ledger.get_by_text("fold_constants").is_visible()
    ledger.get_by_text("why 2 were left alone").click()
    assert ledger.get_by_text("two readers").is_visible()


def test_samples(shown: Open) -> None:
    page = shown()
    cards = page.locator(".cards li")
    assert cards.nth(0).locator("polygon").count() == 1
    assert cards.nth(0).get_by_label("wrong").count() == 1
    assert cards.nth(1).locator("img").evaluate("i => i.complete && i.naturalWidth") == 1


def test_boxes_are_drawn_where_they_are(shown: Open) -> None:
    card = shown().locator(".cards li").nth(2)
    picture = card.locator("img").bounding_box()
    frames = card.locator("rect")
    assert frames.count() == 2
    first, second = frames.nth(0).bounding_box(), frames.nth(1).bounding_box()
    assert picture is not None
    assert first is not None
    assert second is not None
    # Lines have a width, half of it outside.
    assert first["x"] == pytest.approx(picture["x"] + 0.2 * picture["width"], abs=2)
    assert first["height"] == pytest.approx(0.4 * picture["height"], abs=4)
    assert second["height"] == pytest.approx(0.5 * picture["height"], abs=4)
    assert frames.nth(1).locator("title").text_content() == "car 0.9"
    # Told apart without colour.
    dashes = [frames.nth(n).evaluate("r => getComputedStyle(r).strokeDasharray") for n in range(2)]
    assert dashes[0] != "none" == dashes[1]


def test_commands_are_copied(shown: Open) -> None:
    page = shown(permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy: thinflow run").click()
    page.get_by_text("copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == "thinflow run 'my model.tflite'"


def test_the_data_can_be_saved(shown: Open) -> None:
    page = shown()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the data").click()
    assert Path(download.value.path()).read_text() == '{\n  "n": 1\n}'


def test_a_narrow_screen(shown: Open) -> None:
    page = shown(viewport={"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    widths = page.locator("figure .picture svg").evaluate_all(
        "all => all.map(s => s.getBoundingClientRect().right)"
    )
    assert max(widths) <= 400
    shot(page, "400")


def test_charts_follow_the_window(shown: Open) -> None:
    page = shown(viewport={"width": 1000, "height": 800})
    wide = page.locator("#s6 .picture svg").bounding_box()["width"]
    page.set_viewport_size({"width": 500, "height": 800})
    page.wait_for_function(f"document.querySelector('#s6 .picture svg').clientWidth < {wide / 2}")


def test_in_the_dark(shown: Open) -> None:
    page = shown(color_scheme="dark")
    assert brightness(page, "body", "background-color") < 60
    label = "#s6 .picture svg text"
    assert brightness(page, f"{label}", "fill") > 150
    shot(page, "dark")


def test_on_paper(shown: Open) -> None:
    page = shown(color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert brightness(page, "body", "background-color") > 200
    assert not page.locator("nav").is_visible()
    assert not page.get_by_role("button", name="Save the data").is_visible()
    assert page.locator("figure").first.evaluate("f => getComputedStyle(f).breakInside") == "avoid"
    # Browsers print no backgrounds, of which the dots of a legend are made, unless they are told to.
    assert page.locator(".dot").first.evaluate("d => getComputedStyle(d).printColorAdjust") == "exact"
    assert page.pdf(format="A4").startswith(b"%PDF")
    shot(page, "print")


def test_deep_links(tmp_path: Path, open_page: Open) -> None:
    save_document(every_document(), tmp_path / "report.html")
    page = open_page(tmp_path / "report.html", fragment="#s11", viewport={"width": 800, "height": 500})
    page.wait_for_function("document.getElementById('s11').getBoundingClientRect().top < 500")


def brightness(page: Any, selector: str, prop: str) -> float:
    """Of a colour, from 0 to 255; mixed colours of light and dark are resolved on a canvas."""
    found = page.locator(selector).first.evaluate(
        """(e, prop) => {
          const c = document.createElement("canvas").getContext("2d");
          c.fillStyle = getComputedStyle(e).getPropertyValue(prop);
          c.fillRect(0, 0, 1, 1);
          return [...c.getImageData(0, 0, 1, 1).data.slice(0, 3)];
        }""",
        prop,
    )
    return float(sum(found)) / 3
