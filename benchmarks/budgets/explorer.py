"""The explorer's page of 5,000 nodes in a headless Chromium: its size, first paint, opening a scope.

Beside each time stands that of the processor in the page's own tasks, which a busy machine lengthens less.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import thinflow
from benchmarks.bench import Bench
from benchmarks.lines import Line, NotThereYet, judged
from benchmarks.processes import run
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.types import FLOAT

TITLE = "explorer of 5,000 nodes"
IN_QUICK = True
NODES = 5000
MEGABYTES = 5.0
FIRST_PAINT = 1500.0
EXPAND = 150.0
_PER_BLOCK, _BLOCKS_PER_STAGE = 25, 20

_OPEN = """name => {
  const title = [...document.querySelectorAll(".box .title")].find(t => t.textContent === name);
  const canvas = title.closest("svg");
  const {x, y, width, height} = title.getBoundingClientRect();
  const at = {clientX: x + width / 2, clientY: y + height / 2, bubbles: true, pointerId: 1, button: 0};
  for (const kind of ["pointerdown", "pointerup", "pointerdown", "pointerup"]) {
    canvas.dispatchEvent(new PointerEvent(kind, at));
  }
}"""
_MEASURED = "name => performance.getEntriesByName(name).map(entry => entry.duration)"


def measure(bench: Bench) -> Iterator[Line]:
    model = bench.folder / "explored.pb"
    thinflow.save(stages(), model)
    page = bench.folder / "explored.html"
    run([*bench.thinflow, "view", str(model), "-o", str(page)])
    size = page.stat().st_size / 1e6
    yield judged(f"{TITLE}: size of the page", f"<= {MEGABYTES:g} MB", f"{size:.2f} MB", size <= MEGABYTES)
    first, opened = in_browser(page, 3 if bench.quick else 9)
    yield _line("first paint", first, FIRST_PAINT)
    yield _line(f"opening a scope of {_BLOCKS_PER_STAGE}", opened["stage1"], EXPAND)
    yield _line("opening a block of ops inside it", opened["block21"], EXPAND)


@dataclass
class Times:
    """Milliseconds of some runs: until what was drawn is on the screen, and of work for it.

    Attributes:
        wall: on the clock.
        scripts, tasks: of the page's main thread in JavaScript, and in all that it did, layout included.
    """

    wall: list[float] = field(default_factory=list)
    scripts: list[float] = field(default_factory=list)
    tasks: list[float] = field(default_factory=list)


def _line(what: str, times: Times, limit: float) -> Line:
    middle = statistics.median(times.wall)
    said = f"{middle:.0f} ms ({min(times.wall):.0f} to {max(times.wall):.0f})"
    said += f"; at work {min(times.tasks):.0f}, {min(times.scripts):.0f} of it in scripts"
    return judged(f"{TITLE}: {what}", f"<= {limit:g} ms", said, middle <= limit)


def stages() -> thinflow.Graph:
    """Stages of blocks of two branches, with a constant for each op."""
    graph = thinflow.Graph()
    shape = ShapeAttr((1, 56, 56, 16))
    last = graph.add("Placeholder", name="image", attrs={"dtype": FLOAT, "shape": shape}).output()
    graph.inputs = [last]
    weights = np.linspace(-1, 1, 16, dtype=np.float32)
    for block in range(NODES // _PER_BLOCK):
        scope = f"stage{block // _BLOCKS_PER_STAGE}/block{block}"
        ends = []
        for branch in "ab":
            here = last
            for number in range(_PER_BLOCK // 4):
                name = f"{scope}/{branch}_{number}"
                stored = graph.constant(weights, f"{name}/weights")
                here = graph.add(("Mul", "Add", "Maximum")[number % 3], [here, stored], name).output()
            ends.append(here)
        last = graph.add("Add", ends, f"{scope}/join").output()
    graph.outputs = [last]
    return graph


def in_browser(page: Path, repeats: int) -> tuple[Times, dict[str, Times]]:
    """Milliseconds until what was drawn is on the screen, from the request and from a double click."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    chromium = next(filter(None, map(shutil.which, names)), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as e:
        raise NotThereYet("install playwright to measure pages") from e
    if chromium is None:
        raise NotThereYet("install Chromium to measure pages")
    first, opened = Times(), {"stage1": Times(), "block21": Times()}
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for run in range(repeats + 1):
            # The first page finds no cache of the browser: it is warm-up.
            kept, found = (first, opened) if run else (Times(), {name: Times() for name in opened})
            tab = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
            worked = _Work(tab)
            tab.goto(page.as_uri())
            kept.wall += _wait(tab, "explorer-first-paint", 1)
            worked.note(kept)
            for number, name in enumerate(opened, 1):
                tab.evaluate(_OPEN, name)
                found[name].wall.append(_wait(tab, "explorer-toggle", number)[-1])
                worked.note(found[name])
            tab.context.close()
        browser.close()
    return first, opened


class _Work:
    """How long the main thread of a page has been at work since it was last asked."""

    def __init__(self, tab: Any) -> None:
        self._session = tab.context.new_cdp_session(tab)
        # By the processor's clock: others that run meanwhile do not count.
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})
        self._before = self._seconds()

    def _seconds(self) -> dict[str, float]:
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        return {metric["name"]: float(metric["value"]) for metric in metrics}

    def note(self, times: Times) -> None:
        now = self._seconds()
        for kept, name in ((times.scripts, "ScriptDuration"), (times.tasks, "TaskDuration")):
            kept.append(1e3 * max(0.0, now[name] - self._before.get(name, 0.0)))
        self._before = now


def _wait(tab: Any, name: str, count: int) -> list[float]:
    # The page forbids code made of text, so Playwright cannot wait by itself.
    for _ in range(1000):
        found: list[float] = tab.evaluate(_MEASURED, name)
        if len(found) >= count:
            return found
        tab.wait_for_timeout(20)
    raise TimeoutError(f"the page did not report {name}")
