"""Shapes of what library functions give."""

from __future__ import annotations

from typing import Any

import pytest

from tests.library import constant, function, graph_of, node
from thinflow.analysis import function_shapes
from thinflow.analysis.function_shapes import RuleResults
from thinflow.analysis.shapes import infer_shapes
from thinflow.errors import ShapeError
from thinflow.ir.attrs import OpaqueAttr, ShapeAttr
from thinflow.ir.graph import Graph
from thinflow.ir.types import BOOL, FLOAT, INT32, VARIANT, TensorSpec
from thinflow.ops.registry import OpDef

TOP = function(
    "top",
    {"x": FLOAT, "k": INT32},
    [node("best", "TopKV2", "x", "k", T=FLOAT, Tidx=INT32)],
    {"v": "best:values:0", "i": "best:indices:0"},
)
JOIN = function(
    "join",
    {"x": FLOAT, "k": INT32},
    [constant("axis", 0), node("c", "ConcatV2", "x", "x", "axis:output:0", N=2, T=FLOAT)],
    {"v": "c:output:0", "i": "k"},
)
INPUT = node("x", "Placeholder", dtype=FLOAT, shape="shape { dim { size: -1 } dim { size: 5 } }")


def specs(graph: Graph, *names: str) -> list[str]:
    assert infer_shapes(graph) == {}
    return [str(graph.value(name).spec) for name in names]


def test_a_call_is_looked_into() -> None:
    nodes = [INPUT, constant("k", 2), node("y", "PartitionedCall", "x", "k", f="@top", Tout=(FLOAT, INT32))]
    assert specs(graph_of(nodes, [TOP]), "y", "y:1") == ["float[?,2]", "int32[?,2]"]
    by_name = [INPUT, constant("k", 3), node("y", "top", "x", "k"), node("z", "top", "y", "k")]
    assert specs(graph_of(by_name, [TOP]), "y", "z:1") == ["float[?,3]", "int32[?,3]"]


def test_branches_agree_on_what_they_share() -> None:
    same = function("same", {"x": FLOAT, "k": INT32}, [], {"v": "x", "i": "k"})
    nodes = [
        INPUT,
        constant("k", 2),
        node("p", "Placeholder", dtype=BOOL, shape="shape { }"),
        node("if", "If", "p", "x", "k", then_branch="@top", else_branch="@same", Tout=(FLOAT, INT32)),
        node("case", "Case", "k", "x", "k", branches=("@same", "@same"), Tout=(FLOAT, INT32)),
    ]
    graph = graph_of(nodes, [TOP, same])
    assert specs(graph, "if", "if:1", "case", "case:1") == ["float[?,?]", "int32?", "float[?,5]", "int32[]"]
    assert graph.value("case:1").spec.ints == (2,)


def test_a_loop_keeps_what_its_body_keeps() -> None:
    test = function("test", {"x": FLOAT, "k": INT32}, [constant("c", 1)], {"r": "c:output:0"})
    nodes = [
        INPUT,
        constant("k", 2),
        node("w", "While", "x", "k", cond="@test", body="@join", T=(FLOAT, INT32)),
    ]
    graph = graph_of(nodes, [test, JOIN])
    assert specs(graph, "w", "w:1") == ["float[?,5]", "int32[]"]
    fed = {graph.value("x"): TensorSpec(FLOAT, (2, 5))}
    infer_shapes(graph, fed)
    assert str(graph.value("w").spec) == "float[?,5]"


def test_types_are_known_without_the_function() -> None:
    nodes = [INPUT, node("y", "PartitionedCall", "x", f="@absent", Tout=(FLOAT, INT32))]
    assert specs(graph_of(nodes, [TOP]), "y", "y:1") == ["float?", "int32?"]


def test_a_function_that_calls_itself_gives_its_types() -> None:
    body = [node("c", "PartitionedCall", "x", f="@again", Tout=(FLOAT,))]
    again = function("again", {"x": FLOAT}, body, {"r": "c:output:0"})
    nodes = [INPUT, node("y", "PartitionedCall", "x", f="@again", Tout=(FLOAT,))]
    assert specs(graph_of(nodes, [again]), "y") == ["float?"]


def test_the_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function_shapes, "MAX_BODIES", 1)
    nodes = [INPUT, constant("k", 2), node("y", "top", "x", "k"), node("z", "top", "y", "k")]
    assert specs(graph_of(nodes, [TOP]), "y", "z") == ["float[?,2]", "??"]


def test_damaged_bodies_are_no_failure() -> None:
    broken = function("broken", {"x": FLOAT}, [node("y", "Relu", "gone:y:0")], {"r": "y:activations:0"})
    nodes = [INPUT, node("y", "PartitionedCall", "x", f="@broken", Tout=(FLOAT,))]
    assert specs(graph_of(nodes, [broken]), "y") == ["float?"]


def listing(count: str, item: str = "x", **attrs: str) -> Graph:
    """A loop that sets items of a list of that many."""
    variables = {"i": INT32, "v": VARIANT, "x": FLOAT}
    more = function(
        "more", variables, [constant("n", 4), node("y", "Less", "i", "n:output:0")], {"r": "y:z:0"}
    )
    body = [
        constant("one", 1),
        node("next", "AddV2", "i", "one:output:0"),
        node("both", "ConcatV2", "x", "x", "i", N=2),
        node("set", "TensorListSetItem", "v", "i", item, element_dtype=FLOAT, **attrs),
    ]
    push = function("push", variables, body, {"i": "next:z:0", "v": "set:output_handle:0", "x": "x"})
    loop = node(
        "w", "StatelessWhile", "zero", "list", "x", cond="@more", body="@push", T=(INT32, VARIANT, FLOAT)
    )
    nodes = [
        constant("zero", 0),
        constant("four", 4),
        constant("free", -1),
        node("x", "Placeholder", dtype=FLOAT, shape="shape { dim { size: 2 } dim { size: 3 } }"),
        node("open", "Placeholder", dtype=INT32, shape="shape { }"),
        node("list", "TensorListReserve", "free", count, element_dtype=FLOAT, shape_type=INT32),
        loop,
        node("y", "TensorListStack", "w:1", "free", element_dtype=FLOAT),
        node("item", "TensorListGetItem", "w:1", "zero", "free", element_dtype=FLOAT),
        node("length", "TensorListLength", "w:1"),
    ]
    graph = graph_of(nodes, [more, push])
    infer_shapes(graph)
    return graph


def test_a_list_keeps_what_its_loop_sets() -> None:
    graph = listing("four")
    assert specs(graph, "y", "item") == ["float[4,2,3]", "float[2,3]"]
    assert graph.value("length").spec.ints == (4,)
    assert specs(listing("open"), "y", "length") == ["float[?,2,3]", "int32[]"]


def test_a_list_that_grows_has_no_known_length() -> None:
    assert specs(listing("four", resize_if_index_out_of_bounds="b: true"), "y") == ["float[?,2,3]"]


def test_items_of_several_shapes() -> None:
    """The axis that items are joined along changes with the turn, so that no size is known."""
    assert specs(listing("four", item="both:output:0"), "y") == ["float[4,?,?]"]


# ---- Shape rules are asked once for nodes that are alike.


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
    monkeypatch.setattr(function_shapes, "MAX_RESULTS", 3)
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
