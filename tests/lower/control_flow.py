"""Loops, branches and the functions in them, to be lowered."""

from __future__ import annotations

import numpy as np

from tests.library import constant, function, graph_of, node
from tests.loops import entered, while_loop
from thinflow.ir.types import BOOL, FLOAT, INT32, VARIANT

THREE = np.float32([1, -2, 3])


def placeholder(name, element=FLOAT, shape="dim { size: 3 }"):
    return node(name, "Placeholder", dtype=element, shape=f"shape {{ {shape} }}")


DOUBLE = function("double", {"x": FLOAT}, [node("y", "AddV2", "x", "x", T=FLOAT)], {"r": "y:z:0"})
NEGATE = function("negate", {"x": FLOAT}, [node("y", "Neg", "x", T=FLOAT)], {"r": "y:y:0"})
SAME = function("same", {"x": FLOAT}, [], {"r": "x"})


def branches(then, otherwise):
    attrs = {"then_branch": f"@{then}", "else_branch": f"@{otherwise}", "Tout": (FLOAT,)}
    return graph_of(
        [placeholder("p", BOOL, ""), placeholder("x"), node("y", "StatelessIf", "p", "x", **attrs)],
        [DOUBLE, NEGATE, SAME],
    )


def loop(body, body_nodes, results, kinds):
    """A TF2 loop of four turns over (i, ...)."""
    more = [constant("n", 4), constant("one", 1)]
    condition = function(
        "cond", body, [more[0], node("c", "Less", "i", "n:output:0", T=INT32)], {"r": "c:z:0"}
    )
    steps = function(
        "body", body, [more[1], node("next", "AddV2", "i", "one:output:0", T=INT32), *body_nodes], results
    )
    return [condition, steps], {"cond": "@cond", "body": "@body", "T": kinds}


def list_loop(count=4, **reserve):
    """y[i] = 2 x[i], from one list to another."""
    functions, attrs = loop(
        {"i": INT32, "out": VARIANT, "rows": VARIANT},
        [
            constant("any", [3]),
            node("row", "TensorListGetItem", "rows", "i", "any:output:0", element_dtype=FLOAT),
            node("d", "AddV2", "row:item:0", "row:item:0", T=FLOAT),
            node("set", "TensorListSetItem", "out", "i", "d:z:0", element_dtype=FLOAT, **reserve),
        ],
        {"r": "next:z:0", "o": "set:output_handle:0", "l": "rows"},
        (INT32, VARIANT, VARIANT),
    )
    return graph_of(
        [
            constant("zero", 0),
            constant("free", -1),
            constant("shape", [3]),
            constant("n", count),
            placeholder("x", shape="dim { size: 4 } dim { size: 3 }"),
            node("made", "TensorListReserve", "free", "n", element_dtype=FLOAT, shape_type=INT32),
            node("rows", "TensorListFromTensor", "x", "shape", element_dtype=FLOAT, shape_type=INT32),
            node("w", "While", "zero", "made", "rows", **attrs),
            node("y", "TensorListStack", "w:1", "free", element_dtype=FLOAT),
            node("l", "TensorListLength", "w:1"),
        ],
        functions,
    )


def counted_loop(net, name, x, body, turns=3):
    """x after some turns of body(inside, i)."""
    n = entered(net.graph, name, net.const(np.int32(turns), f"{name}/n"))
    one = entered(net.graph, name, net.const(np.int32(1), f"{name}/one"))
    initial = [net.const(np.int32(0), f"{name}/i"), x]
    return while_loop(
        net.graph,
        name,
        initial,
        lambda m: net.op("Less", m[0], n),
        lambda v: [net.op("AddV2", v[0], one), body(v[1], v[0])],
    )[1]


def tensor_arrays(net, x, size, turns=4, dynamic=False):
    """Row by row: y[i] = 2 x[i]."""
    kinds = {"dtype": FLOAT, "dynamic_size": dynamic}
    source = net.op("TensorArrayV3", np.int32(4), name="source", **kinds)
    target = net.op("TensorArrayV3", np.int32(size), name="target", **kinds)
    filled = net.op(
        "TensorArrayScatterV3", source, np.arange(4, dtype=np.int32), x, source.node.output(1), T=FLOAT
    )
    inside = [entered(net.graph, "loop", v) for v in (source, filled, target)]
    n = entered(net.graph, "loop", net.const(np.int32(turns)))
    one = entered(net.graph, "loop", net.const(np.int32(1)))

    def body(v):
        row = net.op("TensorArrayReadV3", inside[0], v[0], inside[1], dtype=FLOAT)
        doubled = net.op("AddV2", row, row)
        return [
            net.op("AddV2", v[0], one),
            net.op("TensorArrayWriteV3", inside[2], v[0], doubled, v[1], T=FLOAT),
        ]

    initial = [net.const(np.int32(0)), target.node.output(1)]
    flow = while_loop(net.graph, "loop", initial, lambda m: net.op("Less", m[0], n), body)[1]
    return target, flow


def condition(net, p, x, then, otherwise, name="cond"):
    """What TensorFlow 1 makes of a condition."""
    switch = net.op("Switch", x, p, name=f"{name}/Switch").node
    merged = net.op("Merge", otherwise(switch.output(0)), then(switch.output(1)), name=f"{name}/Merge")
    return merged
