"""Shape rules are asked once for nodes that are alike."""

from __future__ import annotations

from typing import Any

import pytest

from thinflow.analysis import rule_results
from thinflow.analysis.rule_results import RuleResults
from thinflow.analysis.shapes import infer_shapes
from thinflow.errors import ShapeError
from thinflow.ir.attrs import OpaqueAttr, ShapeAttr
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT, INT32, TensorSpec
from thinflow.ops.registry import OpDef


class Counted(OpDef):
    asked = 0

    @classmethod
    def infer(cls, x: TensorSpec, *, keep: Any = 0) -> TensorSpec:
        cls.asked += 1
        if keep == "bad":
            raise ShapeError("no")
        return TensorSpec(x.dtype, (keep,) if isinstance(keep, int) else x.shape)


@pytest.fixture(autouse=True)
def start_anew() -> None:
    Counted.asked = 0


def test_the_same_is_asked_once() -> None:
    rules, x = RuleResults(), TensorSpec(FLOAT, (1, 2))
    first = rules.of(Counted, [x], {"keep": 3, "unread": 1})
    assert rules.of(Counted, [x], {"keep": 3, "unread": 2}) is first
    assert first == (TensorSpec(FLOAT, (3,)),)
    assert Counted.asked == 1


def test_what_the_rule_reads_makes_a_difference() -> None:
    rules, x, y = RuleResults(), TensorSpec(FLOAT, (1,)), TensorSpec(INT32, (1,))
    results = [rules.of(Counted, [s], {"keep": k}) for s in (x, y) for k in (3, 4)]
    assert [(r.dtype, r.shape) for (r,) in results] == [
        *((FLOAT, (3,)), (FLOAT, (4,))),
        *((INT32, (3,)), (INT32, (4,))),
    ]


def test_equal_results_are_one_object() -> None:
    """So a long row of alike nodes is asked about twice, not once for each."""
    rules, spec = RuleResults(), TensorSpec(FLOAT, (3,))
    for _ in range(100):
        (spec,) = rules.of(Counted, [spec], {"keep": 3})
    assert Counted.asked <= 2


def test_inputs_live_as_long_as_their_results() -> None:
    """Else another spec could get the identity of a forgotten one."""
    rules = RuleResults()
    for size in range(200):
        (found,) = rules.of(Counted, [TensorSpec(FLOAT, (size,))], {"keep": None})
        assert found.shape == (size,)


def test_failures_are_not_remembered() -> None:
    rules, x = RuleResults(), TensorSpec(FLOAT, (1,))
    for _ in range(2):
        with pytest.raises(ShapeError, match="no"):
            rules.of(Counted, [x], {"keep": "bad"})
    assert Counted.asked == 2


def test_attributes_without_a_hash_are_asked_about_each_time() -> None:
    rules, x = RuleResults(), TensorSpec(FLOAT, (1,))
    for _ in range(2):
        assert rules.of(Counted, [x], {"keep": [1]}) == (TensorSpec(FLOAT, (1,)),)
    assert Counted.asked == 2


def test_room_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_results, "MAX_RESULTS", 3)
    rules, x = RuleResults(), TensorSpec(FLOAT, (1,))
    for _ in range(2):
        for keep in range(5):
            assert rules.of(Counted, [x], {"keep": keep})[0].shape == (keep,)
    assert Counted.asked == 3 + 2 + 2


def test_a_shape_of_another_kind_is_a_failure() -> None:
    graph = Graph()
    graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": OpaqueAttr(b"")})
    graph.add("Placeholder", name="y", attrs={"dtype": FLOAT, "shape": ShapeAttr((1,))})
    failures = infer_shapes(graph)
    assert "of another kind" in failures["x"]
    assert "y" not in failures
    assert str(graph.node("x").output().spec) == "??"
