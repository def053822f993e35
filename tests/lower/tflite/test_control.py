"""Loops, branches, calls and lists: what they become, and that LiteRT computes the same."""

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
from tests.lower.tflite.harness import Net, compare, run_litert
from thinflow.errors import UnsupportedOp
from thinflow.interpreter import Plan
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.types import BOOL, FLOAT, INT32, VARIANT
from thinflow.lower.tflite.convert import lower_graph, unsupported_unit
from thinflow.quantize.calibrate import calibrate
from thinflow.quantize.int8 import quantize_int8
from thinflow.tflite.writer import to_bytes


def agree(graph, feeds, *outputs):
    """LiteRT and the reference agree; the codes of each subgraph's operators."""
    values = {graph.value(name): np.asarray(array) for name, array in feeds.items()}
    wanted = [graph.value(name) for name in outputs]
    lowered = lower_graph(graph, list(values), wanted)
    results = run_litert(lowered, {v.name: a for v, a in values.items()})
    for value, expected in zip(wanted, Plan(graph, wanted, list(values)).run(values), strict=True):
        compare(results[value.name], expected)
    return [[o.code for o in s.operators] for s in lowered.program.subgraphs]


# --- TF2 ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["PartitionedCall", "StatefulPartitionedCall"])
def test_a_call_leaves_nothing_but_its_body(op):
    calls = [node("y", op, "x", f="@double", Tout=(FLOAT,)), node("z", "double", "y")]
    assert agree(graph_of([placeholder("x"), *calls], [DOUBLE]), {"x": THREE}, "z") == [["ADD", "ADD"]]


def test_a_function_that_calls_itself():
    again = function("again", {"x": FLOAT}, [node("y", "again", "x")], {"r": "y:r:0"})
    graph = graph_of([placeholder("x"), node("y", "again", "x")], [again])
    with pytest.raises(UnsupportedOp, match="50 calls inside each other"):
        lower_graph(graph, [graph.value("x")], [graph.value("y")])


def test_a_function_that_is_missing():
    graph = graph_of(
        [placeholder("x"), node("y", "PartitionedCall", "x", f="@gone", Tout=(FLOAT,))], [DOUBLE]
    )
    with pytest.raises(UnsupportedOp, match="there is no function 'gone'"):
        lower_graph(graph, [graph.value("x")], [graph.value("y")])


@pytest.mark.parametrize("decision", [True, False])
def test_if(decision):
    graph = branches("double", "negate")
    assert agree(graph, {"p": np.array(decision), "x": THREE}, "y") == [["IF"], ["ADD"], ["NEG"]]
    agree(branches("same", "negate"), {"p": np.array(decision), "x": THREE}, "y")


@pytest.mark.parametrize("decision", [True, False])
def test_sizes_leave_a_branch_as_copies(decision):
    """LiteRT computes them ahead and keeps them, but frees them where they leave a subgraph: it crashed."""
    computed = [node("s", "Shape", "x", T=FLOAT), node("y", "Mul", "x", "x", T=FLOAT)]
    fixed = [constant("s", np.int32([7])), node("y", "Neg", "x", T=FLOAT)]
    bodies = [
        function(name, {"x": FLOAT}, body, {"s": "s:output:0", "r": f"y:{out}:0"})
        for name, body, out in (("sizes", computed, "z"), ("fixed", fixed, "y"))
    ]
    attrs = {"then_branch": "@sizes", "else_branch": "@fixed", "Tout": (INT32, FLOAT)}
    choice = node("y", "StatelessIf", "p", "x", **attrs)
    last = [node("s", "Identity", "y", T=INT32), node("r", "Identity", "y:1", T=FLOAT)]
    open_size = placeholder("x", FLOAT, "dim { size: -1 }")
    graph = graph_of([placeholder("p", BOOL, ""), open_size, choice, *last], bodies)
    _, sizes, _ = agree(graph, {"p": np.array(decision), "x": THREE}, "s", "r")
    assert sizes == ["SHAPE", "MUL", "MAXIMUM"]


def test_a_branch_that_is_known_is_taken_now():
    graph = branches("double", "negate")
    p = graph.constant(np.array(False), "no")
    graph.node("y").set_input(0, p)
    assert agree(graph, {"x": THREE}, "y") == [["NEG"]]


@pytest.mark.parametrize("index", [-1, 0, 1, 2, 9])
def test_case_takes_the_last_branch_for_other_numbers(index):
    listed = node("y", "StatelessCase", "i", "x", branches=("@double", "@negate", "@same"), Tout=(FLOAT,))
    graph = graph_of([placeholder("i", INT32, ""), placeholder("x"), listed], [DOUBLE, NEGATE, SAME])
    codes = agree(graph, {"i": np.int32(index), "x": THREE}, "y")
    assert sorted(c for s in codes for c in s if c == "IF") == ["IF", "IF"]


def test_variables_that_swap_places():
    """LiteRT copies results into the next turn's inputs one by one, so these must be copies."""
    functions, attrs = loop(
        {"i": INT32, "a": FLOAT, "b": FLOAT}, [], {"r": "next:z:0", "s": "b", "t": "a"}, (INT32, FLOAT, FLOAT)
    )
    graph = graph_of(
        [
            constant("zero", 1),
            placeholder("x"),
            placeholder("y"),
            node("w", "While", "zero", "x", "y", **attrs),
        ],
        functions,
    )
    feeds = {"x": THREE, "y": THREE * 10}
    codes = agree(graph, feeds, "w:1", "w:2")
    assert [sorted(s) for s in codes] == [["WHILE"], ["LESS"], ["ADD", "RESHAPE", "RESHAPE"]]


def test_what_never_changes_goes_through_and_constants_go_inside():
    functions, attrs = loop(
        {"i": INT32, "a": FLOAT, "k": FLOAT, "h": FLOAT, "unused": FLOAT},
        [node("m", "Mul", "a", "k", T=FLOAT), node("s", "AddV2", "m:z:0", "h", T=FLOAT)],
        {"r": "next:z:0", "s": "s:z:0", "k": "k", "h": "h", "u": "unused"},
        (INT32, FLOAT, FLOAT, FLOAT, FLOAT),
    )
    nodes = [constant("zero", 0), constant("half", [0.5, 0.5, 0.5]), placeholder("x"), placeholder("k")]
    graph = graph_of([*nodes, node("w", "StatelessWhile", "zero", "x", "k", "half", "x", **attrs)], functions)
    agree(graph, {"x": THREE, "k": THREE}, "w:1")
    lowered = lower_graph(graph, [graph.value("x"), graph.value("k")], [graph.value("w:1")])
    (operator,) = lowered.program.subgraphs[0].operators
    assert len(operator.inputs) == 3  # i, a, k
    body = lowered.program.subgraphs[operator.options["body_subgraph_index"]]
    assert body.outputs[2] is body.inputs[2]


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


def test_lists_become_tensors():
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    codes = agree(list_loop(), {"x": x}, "y")
    assert codes[0] == ["WHILE"]
    assert {"GATHER", "DYNAMIC_UPDATE_SLICE"} <= {c for s in codes for c in s}


def open_list_loop():
    """y[i] = 2 x[i] for as many rows as there are, as recurrent nets with open time do it."""
    variables = {"i": INT32, "out": VARIANT, "rows": VARIANT, "n": INT32}
    more = function("cond", variables, [node("c", "Less", "i", "n", T=INT32)], {"r": "c:z:0"})
    turn = function(
        "body",
        variables,
        [
            constant("one", 1),
            constant("any", [3]),
            node("next", "AddV2", "i", "one:output:0", T=INT32),
            node("row", "TensorListGetItem", "rows", "i", "any:output:0", element_dtype=FLOAT),
            node("d", "AddV2", "row:item:0", "row:item:0", T=FLOAT),
            node("set", "TensorListSetItem", "out", "i", "d:z:0", element_dtype=FLOAT),
        ],
        {"r": "next:z:0", "o": "set:output_handle:0", "l": "rows", "m": "n"},
    )
    kinds = (INT32, VARIANT, VARIANT, INT32)
    nodes = [
        constant("zero", 0),
        constant("free", -1),
        constant("shape", [3]),
        placeholder("x", shape="dim { size: -1 } dim { size: 3 }"),
        node("sizes", "Shape", "x", T=FLOAT),
        constant("first", [0]),
        constant("second", [1]),
        node("n", "StridedSlice", "sizes", "first", "second", "second", shrink_axis_mask=1),
        node("made", "TensorListReserve", "free", "n", element_dtype=FLOAT, shape_type=INT32),
        node("rows", "TensorListFromTensor", "x", "shape", element_dtype=FLOAT, shape_type=INT32),
        node("w", "While", "zero", "made", "rows", "n", cond="@cond", body="@body", T=kinds),
        node("y", "TensorListStack", "w:1", "free", element_dtype=FLOAT),
        node("l", "TensorListLength", "w:1"),
    ]
    return graph_of(nodes, [more, turn])


@pytest.mark.parametrize("rows", [1, 4, 7])
def test_lists_of_open_size(rows):
    x = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
    assert agree(open_list_loop(), {"x": x}, "y", "l")[0].count("WHILE") == 1


def test_items_nobody_set_are_zero():
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    agree(list_loop(6), {"x": x}, "y", "l")


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


# --- TF1 ----------------------------------------------------------------------------------------------------


def test_a_loop_with_a_value_from_outside():
    net = Net()
    x, k = net.feed(THREE), net.feed(THREE / 2, "k")
    factor = entered(net.graph, "loop", k)
    y = counted_loop(net, "loop", x, lambda v, i: net.op("Mul", v, factor))
    net.check(net.op("Relu", y))
    subgraphs = net.lower(y).program.subgraphs
    assert sorted(o.code for s in subgraphs for o in s.operators) == ["ADD", "LESS", "MUL", "WHILE"]


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
            lambda u: [net.op("AddV2", u[0], one), net.op("AddV2", u[1], u[1])],
        )[1]

    y = counted_loop(net, "out", x, outer)
    net.check(y)
    (result,) = net.reference(y)
    np.testing.assert_allclose(result, THREE * 64)


def test_an_unused_loop_leaves_no_subgraph():
    net = Net()
    x = net.feed(THREE)
    counted_loop(net, "loop", x, lambda v, i: net.op("Neg", v))
    assert len(net.lower(net.op("Exp", x)).program.subgraphs) == 1


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
    y = net.op("TensorArrayGatherV3", made, np.arange(4, dtype=np.int32), flow, dtype=FLOAT)
    net.check(y)


@pytest.mark.parametrize("size", [0, 2])
def test_an_array_that_grows(size):
    net = Net()
    x = net.feed(np.arange(12, dtype=np.float32).reshape(4, 3))
    handle, flow = tensor_arrays(net, x, size, dynamic=True)
    net.check(net.op("TensorArrayGatherV3", handle, np.int32([0, 3, 1]), flow, dtype=FLOAT))


@pytest.mark.parametrize("inner", [2, None])
def test_some_items_of_an_array_whose_size_is_computed(inner):
    net = Net()
    made = net.op("TensorArrayV3", net.feed(np.int32(4), "size"), dtype=FLOAT)
    x = net.feed(np.arange(4, dtype=np.float32).reshape(2, 2), "x", shape=(2, inner))
    flow = net.op("TensorArrayScatterV3", made, np.int32([3, 1]), x, made.node.output(1), T=FLOAT)
    net.check(net.op("TensorArrayGatherV3", made, np.int32([1, 3]), flow, dtype=FLOAT))


@pytest.mark.parametrize("size", [4, 6])
def test_an_array_whose_size_is_computed(size):
    net = Net()
    count = net.feed(np.int32(size), "size")
    made = net.op("TensorArrayV3", count, dtype=FLOAT, element_shape=ShapeAttr((3,)))
    row = net.feed(np.float32([1, 2, 3]))
    flow = net.op("TensorArrayWriteV3", made, np.int32(1), row, made.node.output(1), T=FLOAT)
    some = net.op("TensorArrayGatherV3", made, np.int32([2, 1]), flow, dtype=FLOAT)
    net.check(some, net.op("TensorArraySizeV3", made, flow))


@pytest.mark.parametrize("decision", [True, False])
def test_switch_and_merge(decision):
    net = Net()
    p, x = net.feed(np.array(decision), "p"), net.feed(THREE)
    y = condition(net, p, x, lambda v: net.op("Neg", v), lambda v: net.op("AddV2", v, v))
    assert net.check(net.op("Relu", y)) == ["IF", "RELU"]


@pytest.mark.parametrize("decision", [True, False])
def test_a_constant_on_a_branch_waits_for_its_pivot(decision):
    net = Net()
    p, x = net.feed(np.array(decision), "p"), net.feed(THREE)
    pivot = net.op("Identity", net.op("Switch", p, p, name="pivots").node.output(1), name="pivot")
    fixed = net.const(np.float32([7, 8, 9]), "fixed")
    fixed.node.add_control_input(pivot.node)
    y = condition(net, p, x, lambda v: fixed, lambda v: net.op("Neg", v))
    net.check(y)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("second", [True, False])
def test_conditions_in_a_row_and_inside_each_other(first, second):
    net = Net()
    p, q, x = net.feed(np.array(first), "p"), net.feed(np.array(second), "q"), net.feed(THREE)

    def then(v):
        inner = net.op("Switch", q, p, name="q/Switch").node.output(1)
        return condition(net, inner, v, lambda u: net.op("Neg", u), lambda u: net.op("Abs", u), "inner")

    y = condition(net, p, x, then, lambda v: net.op("AddV2", v, v), "outer")
    z = condition(net, p, y, lambda v: net.op("Exp", v), lambda v: net.op("Square", v), "after")
    net.check(z)


def test_a_known_condition_leaves_one_branch():
    net = Net()
    x = net.feed(THREE)
    y = condition(net, net.const(np.array(True)), x, lambda v: net.op("Neg", v), lambda v: net.op("Exp", v))
    assert net.check(y) == ["NEG"]


def test_a_branch_read_outside_is_refused():
    net = Net()
    p, x = net.feed(np.array(True), "p"), net.feed(THREE)
    seen = []
    y = condition(net, p, x, lambda v: seen.append(net.op("Neg", v)) or seen[0], lambda v: v)
    outside = net.op("Exp", seen[0], name="outside")
    with pytest.raises(UnsupportedOp, match="it is there on one branch only"):
        net.lower(y, outside)


def test_a_damaged_loop_is_refused():
    net = Net()
    x = net.feed(THREE)
    y = counted_loop(net, "loop", x, lambda v, i: net.op("Neg", v))
    for enter in [n for n in net.graph if n.op == "Enter"][:1]:
        enter.attrs["frame_name"] = b"elsewhere"
    with pytest.raises(UnsupportedOp):
        net.lower(y)


# --- units and eight bits -----------------------------------------------------------------------------------


def test_a_loop_is_tried_as_a_whole():
    net = Net()
    x = net.feed(THREE)
    good = counted_loop(net, "good", x, lambda v, i: net.op("Neg", v))
    bad = counted_loop(net, "bad", x, lambda v, i: net.op("Mystery", v))
    net.lower(good)
    assert unsupported_unit(net.graph, [x], [good], specs={}) == ""
    assert "no form of Mystery" in unsupported_unit(net.graph, [x], [bad], specs={})


def test_int8_leaves_loops_float():
    net = Net()
    rng = np.random.default_rng(0)
    x = net.feed(rng.normal(size=(2, 8)).astype(np.float32))
    w = rng.normal(size=(8, 8)).astype(np.float32)
    y = net.op("MatMul", counted_loop(net, "loop", net.op("MatMul", x, w), lambda v, i: net.op("Tanh", v)), w)
    program = net.lower(y).program
    batches = [{"x": a} for a in net.feeds.values()]
    quantized = quantize_int8(program, calibrate(program, batches).ranges).program
    codes = [o.code for o in quantized.subgraphs[0].operators]
    assert codes.count("WHILE") == 1
    assert codes.count("QUANTIZE") == 2
    assert all(t.dtype.name != "int8" for s in quantized.subgraphs[1:] for t in s.tensors())
    module = pytest.importorskip("ai_edge_litert.interpreter")
    runner = module.Interpreter(model_content=to_bytes(quantized)).get_signature_runner("serving_default")
    (expected,) = net.reference(y)
    assert np.abs(runner(x=next(iter(net.feeds.values())))[y.name] - expected).max() < 0.2


def test_the_only_item_is_the_list():
    net = Net()
    i, x = net.feed(np.int32(0), "i"), net.feed(THREE)
    made = net.op("TensorArrayV3", np.int32(1), dtype=FLOAT)
    flow = net.op("TensorArrayWriteV3", made, i, net.op("Neg", x), made.node.output(1), T=FLOAT)
    y = net.op("TensorArrayGatherV3", made, np.int32([0]), flow, dtype=FLOAT)
    assert net.check(net.op("Exp", y)) == ["NEG", "RESHAPE", "EXP"]


def two_counters(starts, limits):
    """A loop with two counters, each with a limit, whose body reads the second one."""
    kinds = {"i": INT32, "j": INT32, "a": INT32}
    ends = [constant(f"n{k}", limit) for k, limit in enumerate(limits)]
    less = [node(f"c{k}", "Less", v, f"n{k}:output:0", T=INT32) for k, v in enumerate("ij")]
    both = node("both", "LogicalAnd", "c0:z:0", "c1:z:0")
    steps = [constant("one", 1)] + [node(f"{v}1", "AddV2", v, "one:output:0", T=INT32) for v in "ij"]
    total = node("t", "AddV2", "a", "j", T=INT32)
    functions = [
        function("cond", kinds, [*ends, *less, both], {"r": "both:z:0"}),
        function("body", kinds, [*steps, total], {"r": "i1:z:0", "s": "j1:z:0", "t": "t:z:0"}),
    ]
    attrs = {"cond": "@cond", "body": "@body", "T": (INT32, INT32, INT32)}
    nodes = [constant("i", starts[0]), constant("j", starts[1]), placeholder("x", INT32)]
    return graph_of([*nodes, node("w", "While", "i", "j", "x", **attrs)], functions)


@pytest.mark.parametrize(
    ("starts", "limits", "operators"),
    [((0, 0), (4, 4), 3), ((0, 0), (5, 3), 5), ((0, 1), (4, 4), 6), ((2, 2), (1, 1), 3)],
)
def test_counters_that_are_alike_are_one(starts, limits, operators):
    graph = two_counters(starts, limits)
    codes = agree(graph, {"x": np.int32([1, 2, 3])}, "w:0", "w:1", "w:2")
    assert sum(len(s) for s in codes[1:]) == operators
