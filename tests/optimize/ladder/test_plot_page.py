"""The trade-off of candidates as blocks of a page."""

from __future__ import annotations

from typing import Any

from thinflow.optimize.ladder.budget import Budget
from thinflow.optimize.ladder.choice import choose
from thinflow.optimize.ladder.measured import Latency, Measured
from thinflow.optimize.ladder.plot import candidate_blocks, interrupted_document, ladder_blocks
from thinflow.optimize.ladder.result import Ladder
from thinflow.optimize.quality import Quality
from thinflow.pages.report import Scatter, Table, document_data


def one(name: str, size: int, ms: float | None, correct: int, db: float, **more: Any) -> Measured:
    quality = Quality(100, 99, correct, 95, db, lost=max(95 - correct, 0), gained=max(correct - 95, 0))
    latency = None if ms is None else Latency(ms, 2.0, 0.9, 1.1)
    return Measured(
        name, more.pop("scheme", name), "none", size_bytes=size, quality=quality, latency=latency, **more
    )


MEASURED = [
    one("float32", 1000, 2.0, 95, 300.0),
    one("int8", 300, 1.0, 95, 40.0),
    one("dynamic", 310, 1.5, 94, 38.0),
    one("int4_weights", 150, 2.0, 60, 9.0),
    one("int16x8", 300, 1.0, 95, 40.0, same_as="int8"),
    Measured("float16", "float16", "none", failure="the engine ended"),
]


def test_every_candidate_is_where_it_belongs() -> None:
    budget = Budget(drop=1.5, size_bytes=500.0)
    choice = choose(MEASURED, budget)
    assert choice is not None
    text, scatter, table, remarks = ladder_blocks(Ladder("LiteRT", budget, MEASURED, choice))
    assert text.text == "within drop <= 1.5 points, size <= 500 bytes: int8."  # type: ignore[attr-defined]
    assert isinstance(scatter, Scatter)
    assert {p.label: p.state for p in scatter.points} == {
        "float32": "misfit",
        "int8": "chosen",
        "dynamic": "fits",
        "int4_weights": "misfit",
    }
    assert [(a.title, a.bound) for a in scatter.costs] == [
        ("size of the file", 500.0),
        ("time of a run", None),
    ]
    # One loses too much, so that the loss is what is looked at first.
    assert [a.unit for a in scatter.gains] == ["points", "dB"]
    chosen = scatter.points[1]
    assert (chosen.costs, chosen.gains) == ([300.0, 1.0], [0.0, 40.0])
    assert scatter.points[0].gains == [0.0, None]
    assert isinstance(table, Table)
    told = {str(row[0]): row[-1] for row in table.rows}
    assert told["int16x8"] == "the same file as int8"
    assert told["float16"] == "the engine ended"
    assert "shipped" in str(told["int8"])
    assert "over its bound on size" in str(told["float32"])
    assert any("float16: the engine ended" in item.text for item in remarks.items)  # type: ignore[attr-defined]


def test_where_nobody_loses_much_noise_comes_first() -> None:
    scatter, _ = candidate_blocks(MEASURED[:3], Budget(drop=2.0, ram_bytes=10.0))
    assert isinstance(scatter, Scatter)
    assert [a.unit for a in scatter.gains] == ["dB", "points"]
    assert [a.unit for a in scatter.costs] == ["bytes", "ms", "bytes"]


def test_without_a_clock() -> None:
    scatter, table = candidate_blocks([one("int8", 300, None, 95, 40.0)], Budget())
    assert isinstance(scatter, Scatter)
    assert isinstance(table, Table)
    assert scatter.points[0].costs == [300.0, None]


def test_what_was_interrupted() -> None:
    found = document_data(
        interrupted_document("a/net.pb", "2 of 6 are kept in x; go on", "LiteRT", MEASURED[:2], Budget())
    )
    assert (found["title"], found["verdict"]) == ("net.pb", "interrupted: 2 of 6 are kept in x")
    assert found["data"]["interrupted"] is True
    assert found["sections"][1]["blocks"][0]["text"] == "Go on."
