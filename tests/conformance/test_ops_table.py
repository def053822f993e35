"""The table of ops in the documentation says what is so."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.conformance import op_cases
from tests.night import AT_NIGHT
from tests.ops.cases import cases
from tests.scripts import script
from thinflow.ops import registry

_make = script("_make_ops_table")
RENEW = "run `python docs/_make_ops_table.py` (--new if only cases were added)"
EVERY = 8
"""Of the ops, in the quick test."""


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    data: dict[str, Any] = _make.stored()
    return data


def test_the_page_is_what_the_last_run_found(found: dict[str, Any]) -> None:
    assert _make.PAGE.read_text("utf-8") == _make.page(found), RENEW


def test_what_differs_has_a_reason(found: dict[str, Any]) -> None:
    differing = {
        (engine, op)
        for part in found.values()
        for op, counts in part.items()
        for engine in _make.TARGETS
        if counts.get(engine, {}).get(op_cases.OTHER)
    }
    told = {(engine, op) for engine, reasons in _make.REASONS.items() for op in reasons}
    told_by_chance = {("litert", "TFLite_Detection_PostProcess")}  # memory may hold zeros as well
    assert differing <= told, "lower these exactly, or not at all; what cannot be helped has a note"
    assert told - differing <= told_by_chance, "these differ no more"
    assert {note for reasons in _make.REASONS.values() for note in reasons.values()} == set(_make.NOTES)


def test_every_op_was_tried(found: dict[str, Any]) -> None:
    assert set(found["own"]) == set(_make.known_ops()), RENEW
    pytest.importorskip("ai_edge_litert")
    pytest.importorskip("onnxruntime")
    stale = [op for op in cases() if not _make.is_complete(op, found["own"][op])]
    assert not stale, f"other cases than when the table was made; {RENEW}: {', '.join(stale)}"


def test_no_kernel_no_run(found: dict[str, Any]) -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", _make.PAGE.read_text("utf-8"), re.MULTILINE)
    assert len(rows) == len(_make.known_ops())
    for op, words in rows:
        definition = registry.find(op)
        has_kernel = definition is not None and definition.kernel is not None
        assert not (has_kernel and words == "-"), op
        assert has_kernel or words != "runs", op


def _runs_there(counts: dict[str, int]) -> int:
    return sum(n for status, n in counts.items() if status != op_cases.FALLBACK)


def _check(found: dict[str, Any], engine: str, ops: list[str]) -> None:
    """As many cases run on the engine as when the table was made; how exactly depends on the machine."""
    pytest.importorskip("ai_edge_litert" if engine == "litert" else "onnxruntime")
    changed = [
        f"{op}: {dict(now)}, not {then}"
        for op in ops
        if _runs_there(now := op_cases.outcomes(op, engine))
        != _runs_there(then := found["own"].get(op, {}).get(engine, {}))
    ]
    assert not changed, f"{RENEW}: " + "; ".join(changed)


@pytest.mark.usefixtures("every_region_pays")
@pytest.mark.parametrize("engine", ["litert", "onnxruntime"])
def test_some_ops_run_where_the_table_says(found: dict[str, Any], engine: str) -> None:
    _check(found, engine, sorted(cases())[::EVERY])


@pytest.mark.skipif(not AT_NIGHT, reason="takes minutes; some ops are tried above, all at night")
@pytest.mark.slow
@pytest.mark.usefixtures("every_region_pays")
@pytest.mark.parametrize("engine", ["litert", "onnxruntime"])
def test_all_ops_run_where_the_table_says(found: dict[str, Any], engine: str) -> None:
    _check(found, engine, sorted(cases()))
