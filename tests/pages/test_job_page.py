"""The main job's page, as it lies beside its report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import thinflow
from thinflow import zoo
from thinflow.optimize.report import OptimizeReport
from thinflow.pages.shell import data_of
from thinflow.zoo import digits

SHOTS = Path(__file__).parents[2] / "build" / "screenshots"


@pytest.fixture
def report(tmp_path: Path, open_page: Callable[..., Any]) -> OptimizeReport:
    """After the browser: without one nothing is made."""
    thinflow.save(digits.build(0), tmp_path / "digits.pb")
    found = thinflow.optimize(
        tmp_path / "digits.pb",
        tmp_path / "out",
        calibration=zoo.calibration("digits", 20, 0),
        test=zoo.test_set("digits"),
        effort="none",
        threads=[1],
        seconds=0.3,
    )
    assert isinstance(found, OptimizeReport)
    return found


def test_it_opens_on_any_screen(report: OptimizeReport, open_page: Callable[..., Any]) -> None:
    path = report.files["html"]
    assert data_of(path.read_bytes())["verdict"] == report.verdict
    assert path.stat().st_size < 700_000
    page = open_page(path, viewport={"width": 1100, "height": 900})
    page.set_default_timeout(5000)
    page.locator("figure svg g").first.wait_for()
    assert page.locator("header p").first.inner_text() == report.verdict
    assert page.locator("figure .picture > *").count() == page.locator("figure").count()
    assert page.locator("#latency g.runs circle").count() > 20
    rows = page.locator(".ledger > .scrolling tbody tr:not(.why)")
    assert rows.count() == len([s for s in report.ledger.steps if s.changes])
    assert page.evaluate("document.documentElement.scrollWidth") == 1100
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / "report-optimize.png", full_page=True)
    page.set_viewport_size({"width": 400, "height": 800})
    page.wait_for_function("document.querySelector('figure svg').clientWidth < 400")
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    page.screenshot(path=SHOTS / "report-optimize-400.png", full_page=True)
