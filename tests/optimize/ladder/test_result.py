"""The ladder's result as a table, sentences, data and a picture."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from tests.optimize.ladder.made_up import one
from thinflow.optimize.ladder.budget import Budget
from thinflow.optimize.ladder.choice import choose
from thinflow.optimize.ladder.measured import Measured
from thinflow.optimize.ladder.plot import svg
from thinflow.optimize.ladder.result import Ladder


@pytest.fixture
def measured() -> list[Measured]:
    return [
        one("float32", 400_000, db=float("inf"), ram=40_000),
        one("int8", 100_000, same=998, db=35.04, time=0.5),
        one("int4_weights (default)", 60_000, same=960, db=20, time=1.25, ram=40_000),
        Measured("dynamic", "dynamic", "none", failure="the engine ended"),
        Measured("int8 (fast)", "int8", "fast", same_as="int8"),
    ]


def ladder(measured: list[Measured], budget: Budget) -> Ladder:
    choice = choose(measured, budget)
    assert choice is not None
    return Ladder("LiteRT", budget, measured, choice, ["a note"])


def test_the_table_marks_what_is_shipped_what_is_on_the_front_and_what_is_over(
    measured: list[Measured],
) -> None:
    found = ladder(measured, Budget(0.5, size_bytes=200_000, latency_ms=11, ram_bytes=20_000))
    assert found.lines() == [
        "LiteRT candidates, within drop <= 0.5 points, size <= 200.0 kB, latency <= 11 ms, RAM <= 20.0 kB:"
        " int8",
        "  candidate                    size       RAM      time  x float  loss    dB",
        "* int4_weights (default)    60.0 kB  40.0 kB!  12.5 ms!     1.25  4.0!  20.0",
        "> int8                     100.0 kB  10 bytes      5 ms     0.50   0.2  35.0",
        "* float32                 400.0 kB!  40.0 kB!     10 ms     1.00   0.0     -",
        "marks: > shipped, * on the front of size, time and quality, ! over the budget",
        "loss in points of equal answers; RAM: activations and unpacked weights in one arena",
        "the same files: int8 (fast) is int8",
        "dynamic: the engine ended",
        "a note",
    ]


def test_outputs_without_answers_are_told_by_their_noise() -> None:
    found = ladder([one("float32", 400, same=None), one("int8", 100, same=None, db=12, time=None)], Budget())
    assert found.table()[1].split() == ["*", "int8", "100", "bytes", "10", "bytes", "-", "-", "-", "12.0!"]
    assert "no answers to count, so SQNR has to be 20 dB; RAM" in found.remarks()[1]
    untimed = ladder([one("float32", 400, time=None), one("int8", 100, time=None)], Budget())
    assert untimed.table()[0].split() == ["candidate", "size", "RAM", "loss", "dB"]


def test_many_files_that_are_the_same_are_not_all_listed(measured: list[Measured]) -> None:
    twins = [Measured(f"t{i}", "int8", "fast", same_as="int8") for i in range(5)]
    found = ladder([*measured, *twins], Budget())
    assert "the same files: int8 (fast) is int8, t0 is int8, t1 is int8, and 3 more" in found.remarks()


def test_data_is_plain_json(measured: list[Measured]) -> None:
    found = json.loads(json.dumps(ladder(measured, Budget(0.5, 50_000)).data(), allow_nan=False))
    assert (found["reached"], found["chosen"]) == (False, "int8")
    assert found["missed"].startswith("int8 has a size of 100.0 kB, not 50.0 kB, and even the smallest")
    by_name = {c["name"]: c for c in found["candidates"]}
    assert by_name["int4_weights (default)"]["misfits"] == ["size", "drop"]
    assert by_name["int8"]["latency"] == {"ms": 5.0, "ratio_to_float": 0.5, "interval": [0.5, 0.5]}
    assert by_name["dynamic"]["failure"] == "the engine ended"
    assert found["front"] == ["int4_weights (default)", "int8", "float32"]
    # `target` is the processor whose C a budget is judged by, `device` where time is taken; none is empty.
    none = {"latency_ms": None, "ram_bytes": None, "target": "", "device": ""}
    assert found["budget"] == {"drop": 0.5, "size_bytes": 50_000, **none}


@pytest.mark.parametrize("budget", [Budget(), Budget(0.5, 50_000), Budget(0.5, 5_000_000)])
def test_the_picture_has_all_candidates_within_its_edges(measured: list[Measured], budget: Budget) -> None:
    picture = ElementTree.fromstring(svg(ladder(measured, budget)))
    name = "{http://www.w3.org/2000/svg}"
    circles = picture.findall(f"{name}circle")
    assert [c.get("class") for c in circles][1:] == [
        "front best" if budget.size_bytes != 50_000 else "front misfit best",
        "front misfit",
    ]
    width, height = float(picture.get("width", 0)), float(picture.get("height", 0))
    assert all(0 < float(c.get("cx", 0)) < width and 0 < float(c.get("cy", 0)) < height for c in circles)
    assert [c[0].text for c in circles][
        1
    ] == "int8: 100.0 kB, 0.50x the time of float, loss 0.2 points, 35.0 dB"
    bounds = [line for line in picture.findall(f"{name}line") if line.get("class") == "bound"]
    assert len(bounds) == (budget.size_bytes is not None)


def test_names_cannot_break_the_picture() -> None:
    odd = one("int8 <&>", 100)
    ElementTree.fromstring(svg(ladder([one("float32", 400), odd], Budget())))
