"""The main job's page: what is on it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import thinflow
from tests.page_scripts import BUILT
from thinflow import zoo
from thinflow.optimize.report import OptimizeReport
from thinflow.pages.report import document_data
from thinflow.zoo import digits


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> OptimizeReport:
    folder = tmp_path_factory.mktemp("page")
    thinflow.save(digits.build(0), folder / "digits.pb")
    found = thinflow.optimize(
        folder / "digits.pb",
        folder / "out",
        calibration=zoo.calibration("digits", 40, 0),
        test=zoo.test_set("digits"),
        effort="none",
        threads=[1],
        seconds=0.4,
        max_drop=5,
    )
    assert isinstance(found, OptimizeReport)
    return found


def blocks(report: OptimizeReport) -> dict[str, dict[str, Any]]:
    """By kind and title, of both sections of layers and the like the last one."""
    found = document_data(report.document())
    return {f"{b['kind']} {b.get('title', '')}".strip(): b for s in found["sections"] for b in s["blocks"]}


def test_sections_in_order(report: OptimizeReport) -> None:
    found = document_data(report.document())
    ids = [section["id"] for section in found["sections"]]
    rest = [name for name in ids if name != "what-to-know"]
    assert rest == [
        *("result", "candidates-for-litert", "size-and-memory", "latency", "operators", "quality"),
        *("samples", "layers", "coverage", "transforms", "how-to-ship"),
    ]
    assert found["title"] == "digits.pb"
    assert found["verdict"] == report.verdict


def test_the_data_is_that_for_machines(report: OptimizeReport) -> None:
    text = json.loads(report.json_text())
    assert document_data(report.document())["data"] == text
    assert [p["subject"] for p in text["profiles"]] == [p.row.subject for p in report.profiles]


def test_both_models_side_by_side(report: OptimizeReport) -> None:
    found, scheme = blocks(report), report.recipe.scheme
    assert found["distribution Time of a run"]["series"] == ["float32", scheme]
    assert found["bars Time of a run by op"]["series"] == ["float32", scheme]
    sizes = found["bars Size of the file"]["rows"]
    assert [(row["label"], row["values"][0]) for row in sizes] == [
        ("float32", report.sizes["fp32"]),
        (scheme, report.sizes["int8"]),
    ]
    right = found["intervals Right answers"]["rows"]
    assert [row["value"] for row in right] == [
        report.int8_quality.accuracy_before,
        report.int8_quality.accuracy,
    ]


def test_what_was_chosen_from(report: OptimizeReport) -> None:
    assert report.ladder is not None
    points = blocks(report)["scatter Size, time and quality of all candidates"]["points"]
    assert len(points) == len([m for m in report.ladder.measured if m.is_own])
    assert [p["label"] for p in points if p["state"] == "chosen"] == [report.ladder.choice.best.name]


def test_the_samples_that_it_got_wrong_come_first(report: OptimizeReport) -> None:
    cards = blocks(report)["samples"]
    assert cards["models"] == ["float", report.recipe.scheme]
    wrong = [item for item in cards["items"] if item["answers"][1]["tone"] == "bad"]
    assert wrong == cards["items"][: len(wrong)]
    assert len(wrong) == min(report.int8_quality.samples - (report.int8_quality.correct or 0), 24)
    assert cards["items"][0]["picture"].startswith("data:image/png;base64,")


def test_transforms_with_what_they_changed(report: OptimizeReport) -> None:
    steps = blocks(report)["ledger"]["steps"]
    assert [s["name"] for s in steps] == [s.transform for s in report.ledger.steps]
    assert sum(s["changes"] for s in steps) == report.ledger.changes


def test_how_to_ship(report: OptimizeReport) -> None:
    items = blocks(report)["commands"]["items"]
    commands = [item["text"] for item in items]
    assert commands[2:] == report.next_steps
    # Which of the small ones is quickest goes by the machine, and by the moment.
    ships = re.search(r"ship (digits_\w+\.tflite)", report.verdict)
    assert ships is not None
    assert any(ships[1] in line for line in items[1]["lines"])
    assert commands[0].startswith("thinflow run ")


@BUILT
def test_in_python(report: OptimizeReport, tmp_path: Path) -> None:
    assert report.save_html(tmp_path / "r.html") == (tmp_path / "r.html").stat().st_size
    assert (tmp_path / "r.html").read_bytes() == report.files["html"].read_bytes()
