"""Loops, branches, calls and lists: what they become, and that ONNX Runtime computes the same."""

from __future__ import annotations

import numpy as np
import pytest

from tests.library import constant, function, graph_of, node
from tests.loops import entered, while_loop
from tests.lower.control_flow import (
    DOUBLE,
    NEGATE,
    SAME,
    THREE,
    branches,
    condition,
    counted_loop,
    list_loop,
    loop,
    placeholder,
    tensor_arrays,
)
from tests.lower.onnx.harness import Net, run_onnx
from tests.lower.tflite.harness import compare
from thinflow.errors import UnsupportedOp
from thinflow.interpreter import Plan
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.types import BOOL, FLOAT, INT32, VARIANT
from thinflow.lower.onnx.convert import lower_graph, unsupported, unsupported_unit


def codes_of(program):
    return [[o.code for o in part.operators] for part in program.programs()]


def agree(graph, feeds, *outputs):
    """ONNX Runtime and the reference agree; the codes of each program's operators."""
    values = {graph.value(name): np.asarray(array) for name, array in feeds.items()}
    wanted = [graph.value(name) for name in outputs]
    lowered = lower_graph(graph, list(values), wanted)
    results = run_onnx(lowered, {v.name: a for v, a in values.items()})
    for value, expected in zip(wanted, Plan(graph, wanted, list(values)).run(values), strict=True):
        compare(results[value.name], expected)
    return codes_of(lowered.program)


def checked(net, *outputs, **kwargs):
    net.check(*outputs, **kwargs)
    return codes_of(net.lower(*outputs).program)


# --- TF2 ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["PartitionedCall", "StatefulPartitionedCall"])
def test_a_call_leaves_nothing_but_its_body(op):
    calls = [node("y", op, "x", f="@double", Tout=(FLOAT,)), node("z", "double", "y")]
    assert agree(graph_of([placeholder("x"), *calls], [DOUBLE]), {"x": THREE}, "z") == [["Add", "Add"]]


def test_functions_that_have_no_form():
    again = function("again", {"x": FLOAT}, [node("y", "again", "x")], {"r": "y:r:0"})
    graph = graph_of([placeholder("x"), node("y", "again", "x")], [again])
    with pytest.raises(UnsupportedOp, match="50 calls inside each other"):
        lower_graph(graph, [graph.value("x")], [graph.value("y")])
    gone = node("y", "PartitionedCall", "x", f="@gone", Tout=(FLOAT,))
    graph = graph_of([placeholder("x"), gone], [DOUBLE])
    with pytest.raises(UnsupportedOp, match="there is no function 'gone'"):
        lower_graph(graph, [graph.value("x")], [graph.value("y")])


@pytest.mark.parametrize("decision", [True, False])
def test_if(decision):
    graph = branches("double", "negate")
    assert agree(graph, {"p": np.array(decision), "x": THREE}, "y") == [["If"], ["Add"], ["Neg"]]
    found = agree(branches("same", "negate"), {"p": np.array(decision), "x": THREE}, "y")
    assert found == [["If"], ["Identity"], ["Neg"]]


def test_a_branch_that_is_known_is_taken_now():
    graph = branches("double", "negate")
    graph.node("y").set_input(0, graph.constant(np.array(False), "no"))
    assert agree(graph, {"x": THREE}, "y") == [["Neg"]]


@pytest.mark.parametrize("index", [-1, 0, 1, 2, 9])
def test_case_takes_the_last_branch_for_other_numbers(index):
    listed = node("y", "StatelessCase", "i", "x", branches=("@double", "@negate", "@same"), Tout=(FLOAT,))
    graph = graph_of([placeholder("i", INT32, ""), placeholder("x"), listed], [DOUBLE, NEGATE, SAME])
    codes = agree(graph, {"i": np.int32(index), "x": THREE}, "y")
    assert [c for s in codes for c in s].count("If") == 2


def test_variables_that_swap_places():
    functions, attrs = loop(
        {"i": INT32, "a": FLOAT, "b": FLOAT}, [], {"r": "next:z:0", "s": "b", "t": "a"}, (INT32, FLOAT, FLOAT)
    )
    nodes = [constant("zero", 1), placeholder("x"), placeholder("y")]
    graph = graph_of([*nodes, node("w", "While", "zero", "x", "y", **attrs)], functions)
    agree(graph, {"x": THREE, "y": THREE * 10}, "w:1", "w:2")


def test_what_never_changes_is_read_from_outside():
    functions, attrs = loop(
        {"i": INT32, "a": FLOAT, "k": FLOAT, "h": FLOAT, "unused": FLOAT},
        [node("m", "Mul", "a", "k", T=FLOAT), node("s", "AddV2", "m:z:0", "h", T=FLOAT)],
        {"r": "next:z:0", "s": "s:z:0", "k": "k", "h": "h", "u": "unused"},
        (INT32, FLOAT, FLOAT, FLOAT, FLOAT),
    )
    nodes = [constant("zero", 0), constant("half", [0.5, 0.5, 0.5]), placeholder("x"), placeholder("k")]
    graph = graph_of([*nodes, node("w", "StatelessWhile", "zero", "x", "k", "half", "x", **attrs)], functions)
    agree(graph, {"x": THREE, "k": THREE}, "w:1", "w:2")
    lowered = lower_graph(graph, [graph.value("x"), graph.value("k")], [graph.value("w:1")])
    operator = next(o for o in lowered.program.operators if o.code == "Loop")
    assert operator.captured == 1
    assert operator.inputs[-1].name == "k"
    assert len(operator.outputs) == 2  # the counter and a


def test_a_loop_that_never_turns():
    functions, attrs = loop({"i": INT32, "a": FLOAT}, [], {"r": "next:z:0", "s": "a"}, (INT32, FLOAT))
    graph = graph_of([constant("n0", 9), placeholder("x"), node("w", "While", "n0", "x", **attrs)], functions)
    assert agree(graph, {"x": THREE}, "w:1") == [["Identity"]]
    fed = graph_of(
        [placeholder("n0", INT32, ""), placeholder("x"), node("w", "While", "n0", "x", **attrs)], functions
    )
    for start in (9, 1):
        agree(fed, {"n0": np.int32(start), "x": THREE}, "w:1", "w:0")


def test_a_variable_that_grows():
    functions, attrs = loop(
        {"i": INT32, "a": FLOAT, "x": FLOAT},
        [constant("axis", 0), node("j", "ConcatV2", "a", "x", "axis:output:0", N=2, T=FLOAT, Tidx=INT32)],
        {"r": "next:z:0", "s": "j:output:0", "x": "x"},
        (INT32, FLOAT, FLOAT),
    )
    graph = graph_of(
        [constant("zero", 2), placeholder("x"), node("w", "While", "zero", "x", "x", **attrs)], functions
    )
    agree(graph, {"x": THREE}, "w:1")


def test_a_body_that_cannot_be_lowered_says_why():
    functions, attrs = loop(
        {"i": INT32, "a": FLOAT},
        [node("odd", "NoSuchOp", "a", T=FLOAT)],
        {"r": "next:z:0", "s": "odd:y:0"},
        (INT32, FLOAT),
    )
    graph = graph_of(
        [constant("zero", 2), placeholder("x"), node("w", "While", "zero", "x", **attrs)], functions
    )
    with pytest.raises(UnsupportedOp, match="no form of NoSuchOp"):
        lower_graph(graph, [graph.value("x")], [graph.value("w:1")])
    found = unsupported(graph, [graph.node("w")])
    assert "no form of NoSuchOp" in found[graph.node("w")]


@pytest.mark.parametrize("count", [4, 6])
def test_a_list_filled_in_order_is_what_the_loop_gathers(count):
    """No turn copies the list: what it adds leaves by an output of its own. Items nobody set are zero."""
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    codes = agree(list_loop(count), {"x": x}, "y", "l")
    (body,) = [c for c in codes if "Gather" in c]
    assert "ScatterND" not in body


def grown(x, item_nodes, op="TensorListPushBack", first="EmptyTensorList"):
    """A list to which each of four turns adds an item."""
    functions, attrs = loop(
        {"i": INT32, "out": VARIANT, "x": FLOAT},
        [*item_nodes, node("set", op, "out", "item:y:0", element_dtype=FLOAT)],
        {"r": "next:z:0", "o": "set:output_handle:0", "x": "x"},
        (INT32, VARIANT, FLOAT),
    )
    return graph_of(
        [
            constant("zero", 0),
            constant("free", -1),
            placeholder("x", shape=x),
            node("made", first, "free", "free", element_dtype=FLOAT, shape_type=INT32),
            node("w", "While", "zero", "made", "x", **attrs),
            node("y", "TensorListStack", "w:1", "free", element_dtype=FLOAT),
            node("l", "TensorListLength", "w:1"),
            node("pop", "TensorListPopBack", "w:1", "free", element_dtype=FLOAT),
            node("rest", "TensorListLength", "pop"),
        ],
        functions,
    )


@pytest.mark.parametrize("shape", ["dim { size: 3 }", "dim { size: -1 }"])
def test_lists_that_grow(shape):
    graph = grown(shape, [node("item", "Exp", "x", T=FLOAT)])
    agree(graph, {"x": THREE}, "y", "l", "pop:1", "rest")


@pytest.mark.parametrize("count", [0, 2, 6])
def test_a_list_that_grows_by_index(count):
    graph = list_loop(count, resize_if_index_out_of_bounds="b: true")
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    agree(graph, {"x": x}, "y", "l")


def test_places_that_a_growing_list_left_out_are_zero():
    net = Net()
    x = net.feed(np.arange(3, dtype=np.float32))
    values = net.op("TensorListReserve", np.int32([3]), np.int32(1), element_dtype=FLOAT, shape_type=INT32)
    more = {"element_dtype": FLOAT, "resize_if_index_out_of_bounds": True}
    for place in (2, 0, 4, net.feed(np.int32(6), "place"), 1):
        at = np.int32(place) if isinstance(place, int) else place
        values = net.op("TensorListSetItem", values, at, x, **more)
    net.check(net.op("TensorListStack", values, np.int32(-1), element_dtype=FLOAT))


def test_a_list_is_no_output():
    graph = list_loop()
    with pytest.raises(UnsupportedOp, match="a list cannot be an output"):
        lower_graph(graph, [graph.value("x")], [graph.value("w:1")])


@pytest.mark.parametrize("size", [6, 3])
def test_lists_change_their_length(size):
    net = Net()
    x = net.feed(np.arange(12, dtype=np.float32).reshape(4, 3), shape=(None, 3))
    made = net.op("TensorListFromTensor", x, np.int32([3]), element_dtype=FLOAT)
    longer = net.op("TensorListResize", made, np.int32(size))
    y = net.op("TensorListStack", longer, np.int32([3]), name="y", element_dtype=FLOAT)
    shape = net.op("TensorListElementShape", longer, name="s", shape_type=INT32)
    net.check(y, shape, net.op("TensorListLength", longer, name="n"))


def test_lists_scattered_and_joined():
    net = Net()
    x = net.feed(np.arange(6, dtype=np.float32).reshape(2, 3))
    places = np.int32([3, 1])
    made = net.op("TensorListScatterV2", x, places, np.int32([3]), np.int32(-1), element_dtype=FLOAT)
    some = net.op("TensorListGather", made, np.int32([1, 3]), np.int32([3]), name="some", element_dtype=FLOAT)
    every = net.op("TensorListConcatV2", made, np.int32([3]), np.int64([]), name="every", element_dtype=FLOAT)
    net.check(some, every, every.node.output(1))


# --- TF1 ----------------------------------------------------------------------------------------------------


def test_a_loop_with_a_value_from_outside():
    net = Net()
    x, k = net.feed(THREE), net.feed(THREE / 2, "k")
    factor = entered(net.graph, "loop", k)
    y = counted_loop(net, "loop", x, lambda v, i: net.op("Mul", v, factor))
    main, body = checked(net, net.op("Relu", y))
    assert main == ["Loop", "Relu"]
    assert sorted(body) == ["Add", "Less", "Mul"]


def test_loops_nest():
    net = Net()
    x = net.feed(THREE)

    def outer(v, i):
        n, one = (entered(net.graph, "in", entered(net.graph, "out", net.const(np.int32(c)))) for c in (2, 1))
        start = net.op("Mul", i, entered(net.graph, "out", net.const(np.int32(0))))
        return while_loop(
            net.graph,
            "in",
            [start, v],
            lambda m: net.op("Less", m[0], n),
            lambda u: [net.op("AddV2", u[0], one), net.op("AddV2", net.op("AddV2", u[1], u[1]), x_inside)],
        )[1]

    x_inside = entered(net.graph, "in", entered(net.graph, "out", x))
    codes = checked(net, counted_loop(net, "out", x, outer))
    assert sum(c.count("Loop") for c in codes) == 2


def test_an_unused_loop_leaves_nothing():
    net = Net()
    x = net.feed(THREE)
    counted_loop(net, "loop", x, lambda v, i: net.op("Neg", v))
    assert checked(net, net.op("Exp", x)) == [["Exp"]]


def test_large_constants_of_a_body_are_in_the_file_once():
    """They belong to the main graph, where they are streamed; the bodies read them from there."""
    net = Net()
    x = net.feed(np.ones((2, 20), np.float32))
    w = entered(net.graph, "loop", net.const(np.eye(20, dtype=np.float32) / 2, "w"))
    y = counted_loop(net, "loop", x, lambda v, i: net.op("MatMul", v, w))
    program = net.lower(net.op("AddV2", y, net.op("MatMul", x, net.graph.value("w")))).program
    homes = program.homes()
    (large,) = [t for t in homes if t.is_streamed]
    assert homes[large] is program
    net.check(y)


@pytest.mark.parametrize("size", [4, 6])
def test_tensor_arrays(size):
    net = Net()
    x = net.feed(np.arange(12, dtype=np.float32).reshape(4, 3))
    handle, flow = tensor_arrays(net, x, size)
    count = net.op("TensorArraySizeV3", handle, flow)
    places = net.op("Range", np.int32(0), count, np.int32(1))
    y = net.op("TensorArrayGatherV3", handle, places, flow, dtype=FLOAT, element_shape=ShapeAttr((3,)))
    some = net.op("TensorArrayGatherV3", handle, np.int32([2, 0]), flow, dtype=FLOAT, name="some")
    net.check(y, net.op("Relu", some))


def test_rows_of_open_sizes():
    """Neither the number of rows nor their size is known before the model runs."""
    net = Net()
    array = np.arange(12, dtype=np.float32).reshape(4, 3)
    x = net.feed(array, shape=(None, None))
    count = net.op(
        "StridedSlice", net.op("Shape", x), np.int32([0]), np.int32([1]), np.int32([1]), shrink_axis_mask=1
    )
    made = [net.op("TensorArrayV3", count, name=n, dtype=FLOAT) for n in ("source", "target")]
    every = net.op("Range", np.int32(0), count, np.int32(1))
    filled = net.op("TensorArrayScatterV3", made[0], every, x, made[0].node.output(1), T=FLOAT)
    inside = [entered(net.graph, "loop", v) for v in (made[0], filled, made[1], count)]
    one = entered(net.graph, "loop", net.const(np.int32(1)))

    def body(v):
        row = net.op("TensorArrayReadV3", inside[0], v[0], inside[1], dtype=FLOAT)
        return [
            net.op("AddV2", v[0], one),
            net.op("TensorArrayWriteV3", inside[2], v[0], net.op("Exp", row), v[1], T=FLOAT),
        ]

    initial = [net.const(np.int32(0)), made[1].node.output(1)]
    flow = while_loop(net.graph, "loop", initial, lambda m: net.op("Less", m[0], inside[3]), body)[1]
    y = net.op("TensorArrayGatherV3", made[1], every, flow, name="y", dtype=FLOAT)
    net.check(y)
    lowered = net.lower(y)
    other = np.float32([[1, 2], [3, 4], [5, 6], [7, 8], [9, 0]])
    compare(run_onnx(lowered, {"x": other})["y"], np.exp(other))


def test_tensor_arrays_joined_and_cut():
    net = Net()
    x = net.feed(np.arange(12, dtype=np.float32).reshape(4, 3))
    made = net.op("TensorArrayV3", np.int32(2), dtype=FLOAT)
    flow = net.op("TensorArraySplitV3", made, x, np.int64([2, 2]), made.node.output(1), T=FLOAT)
    y = net.op("TensorArrayConcatV3", made, flow, dtype=FLOAT)
    net.check(y, y.node.output(1))


def test_some_items_are_scattered():
    net = Net()
    x = net.feed(np.arange(6, dtype=np.float32).reshape(2, 3))
    made = net.op("TensorArrayV3", np.int32(4), dtype=FLOAT)
    flow = net.op("TensorArrayScatterV3", made, np.int32([3, 1]), x, made.node.output(1), T=FLOAT)
    net.check(net.op("TensorArrayGatherV3", made, np.arange(4, dtype=np.int32), flow, dtype=FLOAT))


@pytest.mark.parametrize("size", [0, 2])
def test_an_array_that_grows(size):
    net = Net()
    x = net.feed(np.arange(12, dtype=np.float32).reshape(4, 3))
    handle, flow = tensor_arrays(net, x, size, dynamic=True)
    net.check(net.op("TensorArrayGatherV3", handle, np.int32([0, 3, 1]), flow, dtype=FLOAT))


@pytest.mark.parametrize("decision", [True, False])
def test_switch_and_merge(decision):
    net = Net()
    p, x = net.feed(np.array(decision), "p"), net.feed(THREE)
    y = condition(net, p, x, lambda v: net.op("Neg", v), lambda v: net.op("AddV2", v, v))
    assert net.check(net.op("Relu", y)) == ["If", "Relu"]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("second", [True, False])
def test_conditions_in_a_row_and_inside_each_other(first, second):
    net = Net()
    p, q, x = net.feed(np.array(first), "p"), net.feed(np.array(second), "q"), net.feed(THREE)

    def then(v):
        inner = net.op("Switch", q, p, name="q/Switch").node.output(1)
        return condition(net, inner, v, lambda u: net.op("Neg", u), lambda u: net.op("Abs", u), "inner")

    y = condition(net, p, x, then, lambda v: net.op("AddV2", v, v), "outer")
    net.check(condition(net, p, y, lambda v: net.op("Exp", v), lambda v: net.op("Square", v), "after"))


@pytest.mark.parametrize("decision", [True, False])
def test_branches_of_different_shapes(decision):
    net = Net()
    p, x = net.feed(np.array(decision), "p"), net.feed(THREE)
    net.check(condition(net, p, x, lambda v: net.op("Neg", v), lambda v: net.op("Tile", v, np.int32([2]))))


def test_a_branch_read_outside_is_refused():
    net = Net()
    p, x = net.feed(np.array(True), "p"), net.feed(THREE)
    seen = []
    y = condition(net, p, x, lambda v: seen.append(net.op("Neg", v)) or seen[0], lambda v: v)
    outside = net.op("Exp", seen[0], name="outside")
    with pytest.raises(UnsupportedOp, match="it is there on one branch only"):
        net.lower(y, outside)


def test_a_loop_is_tried_as_a_whole():
    net = Net()
    x = net.feed(THREE)
    good = counted_loop(net, "good", x, lambda v, i: net.op("Neg", v))
    bad = counted_loop(net, "bad", x, lambda v, i: net.op("Mystery", v))
    net.lower(good)
    assert unsupported_unit(net.graph, [x], [good], specs={}) == ""
    assert "no form of Mystery" in unsupported_unit(net.graph, [x], [bad], specs={})


def test_transposes_cancel_inside_of_a_body():
    net = Net()
    x = net.feed(np.ones((1, 5, 5, 2), np.float32))
    w = net.const(np.ones((3, 3, 2, 2), np.float32) / 20, "w")
    weights = entered(net.graph, "loop", w)

    def body(v, i):
        attrs = {"strides": [1, 1, 1, 1], "padding": "SAME"}
        return net.op("Conv2D", net.op("Relu", net.op("Conv2D", v, weights, **attrs)), weights, **attrs)

    _, turn = checked(net, counted_loop(net, "loop", x, body))
    assert turn.count("Transpose") == 2


@pytest.mark.parametrize("decides", [BOOL, INT32])
def test_what_decides_may_be_a_number(decides):
    element = np.bool_ if decides is BOOL else np.int32
    for value in (0, 1):
        graph = branches("double", "negate")
        p = graph.add("Placeholder", name="q", attrs={"dtype": decides, "shape": ShapeAttr(())}).output()
        graph.node("y").set_input(0, p)
        agree(graph, {"q": element(value), "x": THREE}, "y")
