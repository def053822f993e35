"""Takes the pictures of docs/pictures from the real pages, in a headless Chromium.

    python docs/_make_pictures.py            # all of them
    python docs/_make_pictures.py NAME ...

Needs playwright, an installed Chromium, Pillow, and the scripts of the pages (`make pages`).
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import thinflow
from thinflow import zoo

PICTURES = Path(__file__).parent / "pictures"
_FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
_COLOURS = 160
"""In a picture's palette; text and lines need no more."""


@dataclass(frozen=True)
class Picture:
    """What is photographed.

    Attributes:
        page: file that `make_pages` writes, with the fragment that selects a node.
        scheme: "light" or "dark".
        size: of the window, in pixels.
        waits_for: what is drawn last.
    """

    page: str
    scheme: str = "light"
    size: tuple[int, int] = (1100, 660)
    waits_for: str = ".box"


ALL = {
    "explorer": Picture("digits.html#node=conv3/Conv2D"),
    "comparison": Picture("both.html#node=conv3/Conv2D", "dark"),
    "report": Picture("report.html", size=(900, 1150), waits_for="canvas, svg"),
    "benchmark": Picture("benchmark.html", size=(900, 1000), waits_for="canvas, svg"),
}


def make_pages(folder: Path) -> None:
    """Write the pages that are photographed."""
    model, small = folder / "digits.pb", folder / "digits_int8.tflite"
    zoo.write("digits", model)
    small.write_bytes(thinflow.quantize(model, zoo.calibration("digits"), effort="none").content)
    (folder / "digits.html").write_bytes(thinflow.view(model).page)
    (folder / "both.html").write_bytes(thinflow.view(model, small).page)
    out = folder / "out"
    samples, test = zoo.calibration("digits"), zoo.test_set("digits")
    thinflow.optimize(model, out, calibration=samples, test=test, max_drop=0.5, seconds=2)
    (out / "report.html").replace(folder / "report.html")
    report = thinflow.benchmark([model, small], seconds=4)
    report.save_html(folder / "benchmark.html")


@contextmanager
def browser() -> Iterator[Any]:
    """An installed Chromium without a window."""
    from playwright.sync_api import sync_playwright

    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        raise SystemExit("no Chromium is installed")
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=path, args=_FLAGS)
        try:
            yield opened
        finally:
            opened.close()


def taken(opened: Any, picture: Picture, folder: Path) -> bytes:
    """A PNG of what the page shows when it has settled."""
    width, height = picture.size
    context = opened.new_context(
        viewport={"width": width, "height": height}, color_scheme=picture.scheme, reduced_motion="reduce"
    )
    page = context.new_page()
    file, _, fragment = picture.page.partition("#")
    page.goto(f"{(folder / file).as_uri()}#{fragment}")
    page.locator(picture.waits_for).first.wait_for()
    page.wait_for_timeout(1000)
    content: bytes = page.screenshot()
    context.close()
    return content


def small_png(content: bytes) -> bytes:
    """The picture with a palette."""
    from PIL import Image

    image = Image.open(io.BytesIO(content)).convert("RGB")
    out = io.BytesIO()
    image.quantize(_COLOURS, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    return out.getvalue()


def main(names: list[str]) -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="thinflow-pictures-") as made, browser() as opened:
        folder = Path(made)
        make_pages(folder)
        for name in names or ALL:
            content = small_png(taken(opened, ALL[name], folder))
            (PICTURES / f"{name}.png").write_bytes(content)
            print(f"took {name}.png: {len(content) / 1000:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
