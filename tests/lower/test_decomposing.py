"""Complex numbers by their parts, in both targets."""

from __future__ import annotations

import numpy as np
import pytest

from tests.library import constant, function, graph_of, node
from tests.lower.builders import floats
from tests.lower.control_flow import placeholder
from tests.lower.onnx.harness import Net as OnnxNet
from tests.lower.tflite.harness import Net as LiteRTNet
from thinflow.errors import UnsupportedOp
from thinflow.ir.types import BOOL, FLOAT, INT32, dtype
from thinflow.lower.onnx.convert import lower_graph as to_onnx
from thinflow.lower.tflite.convert import lower_graph as to_litert

C64 = dtype("complex64")
BOTH = pytest.mark.parametrize("kind", [LiteRTNet, OnnxNet])


def complex_input(net, real, imag):
    return net.op("Complex", net.feed(np.float32(real), "re"), net.feed(np.float32(imag), "im"), Tout=C64)


def check(net, y, **tolerance):
    parts = (net.op(op, y, name=op, T=C64, Tout=FLOAT) for op in ("Real", "Imag"))
    return net.check(*parts, **tolerance)


@BOTH
def test_sizes_of_infinities(kind):
    net = kind()
    x = complex_input(net, [np.inf, 1, -np.inf, 3], [1, -np.inf, np.inf, 4])
    net.check(net.op("ComplexAbs", x, T=C64, Tout=FLOAT))


@BOTH
def test_matrices(kind):
    net = kind()
    x = complex_input(net, floats(2, 3, 4), floats(2, 3, 4))
    y = net.op("BatchMatMulV2", x, x, T=C64, adj_y=True)
    check(net, net.op("ConjugateTranspose", y, np.int32([0, 2, 1]), T=C64))


@BOTH
@pytest.mark.parametrize("flag", ["transpose_a", "transpose_b"])
def test_transposed_matrices(kind, flag):
    net = kind()
    x = complex_input(net, floats(3, 3), floats(3, 3))
    check(net, net.op("MatMul", x, x, T=C64, **{flag: True}))


@BOTH
def test_linear_ops_run_for_each_part(kind):
    net = kind()
    x = complex_input(net, floats(2, 6), floats(2, 6))
    y = net.op("AddN", x, x, net.op("Roll", x, np.int32(1), np.int32(1), T=C64), N=3, T=C64)
    y = net.op("SelectV2", np.array([[True], [False]]), y, net.op("StopGradient", x, T=C64), T=C64)
    check(net, net.op("Mean", y, np.int32([0]), T=C64))


@BOTH
def test_a_vector_is_transformed(kind):
    net = kind()
    check(net, net.op("FFT", complex_input(net, floats(6), floats(6)), Tcomplex=C64), atol=1e-4)


@BOTH
def test_a_part_is_spread_over_the_other(kind):
    net = kind()
    check(net, complex_input(net, floats(2, 3), floats(3)))


def graph_with(call, *functions):
    parts = [placeholder("re"), placeholder("im"), node("z", "Complex", "re", "im", Tout=C64)]
    return graph_of([*parts, *call, node("size", "ComplexAbs", "y", T=C64, Tout=FLOAT)], functions)


SQUARE = function("square", {"x": C64}, [node("y", "Square", "x", T=C64)], {"r": "y:y:0"})
SAME = function("same", {"x": C64}, [], {"r": "x"})


@pytest.mark.parametrize("lower", [to_litert, to_onnx])
def test_functions_take_complex_numbers(lower):
    graph = graph_with([node("y", "PartitionedCall", "z", f="@square", Tout=(C64,))], SQUARE)
    program = lower(graph, [graph.value("re"), graph.value("im")], [graph.value("size")]).program
    assert program is not None


NO_TENSOR = "no tensor holds complex64 that was computed, as a loop or a branch needs"


def test_branches_of_litert_do_not():
    attrs = {"then_branch": "@square", "else_branch": "@same", "Tout": (C64,)}
    graph = graph_with([placeholder("p", BOOL, ""), node("y", "If", "p", "z", **attrs)], SQUARE, SAME)
    with pytest.raises(UnsupportedOp, match=NO_TENSOR):
        to_litert(graph, [graph.value(n) for n in ("re", "im", "p")], [graph.value("size")])


def test_loops_of_litert_do_not():
    arguments = {"i": INT32, "x": C64}
    less = [constant("n", 4), node("c", "Less", "i", "n:output:0", T=INT32)]
    add = [constant("one", 1), node("next", "AddV2", "i", "one:output:0", T=INT32)]
    twice = node("twice", "AddV2", "x", "x", T=C64)
    functions = [
        function("cond", arguments, less, {"r": "c:z:0"}),
        function("body", arguments, [*add, twice], {"r": "next:z:0", "x": "twice:z:0"}),
    ]
    attrs = {"cond": "@cond", "body": "@body", "T": (INT32, C64)}
    loop = [
        constant("zero", 0),
        node("w", "While", "zero", "z", **attrs),
        node("y", "Identity", "w:1", T=C64),
    ]
    graph = graph_with(loop, *functions)
    with pytest.raises(UnsupportedOp, match=NO_TENSOR):
        to_litert(graph, [graph.value("re"), graph.value("im")], [graph.value("size")])


@BOTH
def test_an_op_without_a_form(kind):
    net = kind()
    y = net.op("Sqrt", complex_input(net, floats(2), floats(2)), T=C64)
    with pytest.raises(UnsupportedOp, match="has no form of Sqrt of complex numbers"):
        net.lower(net.op("Real", y, T=C64, Tout=FLOAT))
