"""A benchmark as a document."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.bench.rows import full, report, row
from thinflow.analysis.node_stats import NodeStats
from thinflow.bench.profile_model import Profile
from thinflow.bench.profile_text import RowProfile
from thinflow.pages.report import document_data


def blocks(found: Any) -> dict[str, dict[str, Any]]:
    """By kind and title."""
    return {f"{b['kind']} {b.get('title', '')}".strip(): b for s in found["sections"] for b in s["blocks"]}


def test_runs_and_ratios() -> None:
    found = document_data(report(full("slow"), row("fast", 5.0)).document())
    assert found["verdict"].startswith("fast ran 2.0")
    assert found["tone"] == "good"
    times = blocks(found)["distribution Time of a run"]
    assert times["series"] == ["slow", "fast"]
    assert [(r["label"], r["series"], r["count"]) for r in times["rows"]] == [
        ("slow · 1 thread", 0, 50),
        ("fast · 1 thread", 1, 50),
    ]
    first = times["rows"][0]
    assert first["values"] == sorted(first["values"])
    assert first["values"][0] <= first["low"] <= first["median"] <= first["high"] <= first["values"][-1]
    (ratio,) = blocks(found)["intervals How many times as fast as the other"]["rows"]
    assert ratio["label"] == "fast beside slow, 1 thread"
    assert ratio["value"] == pytest.approx(2, rel=0.01)
    assert ratio["low"] < ratio["value"] < ratio["high"]


def test_many_runs_are_thinned_out_and_keep_their_ends() -> None:
    many = replace(row("m", 2.0), samples_ns=tuple(range(1_000_000, 3_000_000, 1000)))
    values = blocks(document_data(report(many).document()))["distribution Time of a run"]["rows"][0]["values"]
    assert len(values) == 160
    assert (values[0], values[-1]) == (1.0, pytest.approx(2.999))


def test_the_data_is_that_for_machines() -> None:
    found = report(full("a"), row("b", 5.0))
    assert document_data(found.document())["data"] == json.loads(json.dumps(found.data()))


def test_operators_side_by_side() -> None:
    found = report(full("float"), row("eight", 5.0, eight_bit=True))
    profiles = [
        RowProfile(found.rows[0], made(("conv", "CONV_2D", 900, 8), ("pool", "MAX", 100, 8))),
        RowProfile(found.rows[1], made(("conv", "CONV_2D", 400, 2), ("q", "QUANTIZE", 30, 2))),
    ]
    document = document_data(found.document(profiles, ["thinflow run m"]))
    bars = blocks(document)["bars Time of a run by op"]
    assert bars["series"] == ["float", "eight"]
    assert [(b["label"], b["values"]) for b in bars["rows"]] == [
        ("CONV_2D", [0.9, 0.4]),
        ("MAX", [0.1, None]),
        ("QUANTIZE", [None, 0.03]),
    ]
    assert blocks(document)["table Nodes of float on 1 thread"]["folded"]
    assert [p["subject"] for p in document["data"]["profiles"]] == ["float", "eight"]
    assert blocks(document)["commands"]["items"][0]["text"] == "thinflow run m"


def test_why_there_are_no_times_of_operators() -> None:
    found = report(full("a"))
    document = document_data(found.document([RowProfile(found.rows[0], None, "no such engine")]))
    (operators,) = [s for s in document["sections"] if s["id"] == "operators"]
    assert "no such engine" in operators["blocks"][0]["items"][0]["text"]


def test_an_interrupted_one_says_so() -> None:
    found = document_data(report(full("a"), interrupted=True).document())
    assert found["unfinished"] == "Interrupted: these are the runs up to then."


def made(*steps: tuple[str, str, int, int]) -> Profile:
    stats = NodeStats()
    stats.add_run(steps)
    return Profile(stats, "litert", 1, "by the clock")
