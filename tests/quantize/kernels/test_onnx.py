"""Every op that is said to run on codes does: ONNX Runtime leaves no pair around it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.quantize.onnx_programs import Net, optimized_codes, run
from thinflow.ir.types import INT64
from thinflow.onnx.program import Tensor
from thinflow.quantize.kernels.onnx import INT8_KERNELS
from thinflow.quantize.recipe import QdqOptions

SHAPE = (1, 4, 6, 6)
I64 = np.int64


def ints(*values: int) -> np.ndarray:
    return np.array(values, I64)


def halves(net: Net, x: Tensor) -> Tensor:
    first, second = net.op("Split", x, ints(2, 2), shape=(1, 2, 6, 6), count=2, axis=1)
    return net.op("Concat", first, second, shape=SHAPE, axis=1)


CASES: dict[str, tuple[Callable[[Net, Tensor], Tensor], str]] = {
    "Conv": (lambda n, x: n.conv(x), "QLinearConv"),
    "Add": (lambda n, x: n.op("Add", x, n.conv(x)), "QLinearAdd"),
    "Mul": (lambda n, x: n.op("Mul", x, np.full((4, 1, 1), 0.3, np.float32)), "QLinearMul"),
    "AveragePool": (
        lambda n, x: n.op("AveragePool", x, shape=(1, 4, 5, 5), kernel_shape=(2, 2)),
        "QLinearAveragePool",
    ),
    "GlobalAveragePool": (
        lambda n, x: n.op("GlobalAveragePool", x, shape=(1, 4, 1, 1)),
        "QLinearGlobalAveragePool",
    ),
    "LeakyRelu": (lambda n, x: n.op("LeakyRelu", x, alpha=0.1), "QLinearLeakyRelu"),
    "Sigmoid": (lambda n, x: n.op("Sigmoid", x), "QLinearSigmoid"),
    "Softmax": (lambda n, x: n.op("Softmax", x, axis=1), "QLinearSoftmax"),
    "Relu": (lambda n, x: n.op("Relu", x), ""),
    "Clip": (lambda n, x: n.op("Clip", x, np.float32(0), np.float32(6)), ""),
    "Concat": (lambda n, x: n.op("Concat", x, n.conv(x), shape=(1, 8, 6, 6), axis=1), "QLinearConcat"),
    "Pad": (
        lambda n, x: n.op("Pad", x, ints(0, 0, 1, 1, 0, 0, 1, 1), shape=(1, 4, 8, 8), mode="constant"),
        "Pad",
    ),
    "MaxPool": (lambda n, x: n.op("MaxPool", x, shape=(1, 4, 5, 5), kernel_shape=(2, 2)), "MaxPool"),
    "ReduceMax": (lambda n, x: n.op("ReduceMax", x, shape=(1, 4, 1, 1), axes=(2, 3)), "ReduceMax"),
    "ReduceMin": (lambda n, x: n.op("ReduceMin", x, shape=(1, 4, 1, 1), axes=(2, 3)), "ReduceMin"),
    "Reshape": (lambda n, x: n.op("Reshape", x, ints(1, 4, 4, 9), shape=(1, 4, 4, 9)), "Reshape"),
    "Transpose": (lambda n, x: n.op("Transpose", x, shape=(1, 6, 6, 4), perm=(0, 3, 2, 1)), "Transpose"),
    "Squeeze": (
        lambda n, x: n.op("Unsqueeze", n.op("Squeeze", x, ints(0), shape=(4, 6, 6)), ints(0), shape=SHAPE),
        "",
    ),
    "Unsqueeze": (
        lambda n, x: n.op(
            "MaxPool",
            n.op("Squeeze", n.op("Unsqueeze", x, ints(2), shape=(1, 4, 1, 6, 6)), ints(2), shape=SHAPE),
            shape=(1, 4, 5, 5),
            kernel_shape=(2, 2),
        ),
        "MaxPool",
    ),
    "Flatten": (
        lambda n, x: n.op("Reshape", n.op("Flatten", x, shape=(1, 144)), ints(*SHAPE), shape=SHAPE),
        "",
    ),
    "Slice": (lambda n, x: n.op("Slice", x, ints(1), ints(3), ints(1), shape=(1, 2, 6, 6)), "Slice"),
    "Split": (halves, "Split"),
    "Gather": (lambda n, x: n.op("Gather", x, ints(2, 0), shape=(1, 2, 6, 6), axis=1), "Gather"),
    "Tile": (lambda n, x: n.op("Tile", x, ints(1, 1, 2, 1), shape=(1, 4, 12, 6)), "Tile"),
    "Expand": (lambda n, x: n.op("Expand", x, ints(2, 1, 1, 1), shape=(2, 4, 6, 6)), "Expand"),
    "DepthToSpace": (
        lambda n, x: n.op("DepthToSpace", x, shape=(1, 1, 12, 12), blocksize=2),
        "DepthToSpace",
    ),
    "Resize": (
        lambda n, x: n.op(
            "Resize", x, None, np.array([1, 1, 2, 2], np.float32), shape=(1, 4, 12, 12), mode="nearest"
        ),
        "Resize",
    ),
}


def around(make: Callable[[Net, Tensor], Tensor], opset: int) -> tuple[Net, Tensor]:
    """conv -> op -> conv."""
    net = Net(*SHAPE, opset=opset)
    return net, net.conv(make(net, net.conv(net.x)))


@pytest.mark.parametrize("code", CASES)
def test_nothing_but_integer_kernels_is_left(code: str, tmp_path: Path) -> None:
    make, kernel = CASES[code]
    net, y = around(make, 17)
    result = net.quantize(y)
    assert not result.float_operators
    feed = net.samples()[0]
    left = optimized_codes(result.program, feed, tmp_path)
    assert (left["QuantizeLinear"], left["DequantizeLinear"]) == (1, 1)
    assert left["QLinearConv"] >= 2
    assert not left["Conv"]
    assert not kernel or any(name.endswith(kernel) for name in left)
    (expected,), (found,) = run(net.program, feed), run(result.program, feed)
    assert np.abs(found - expected).max() < 0.06 * np.abs(expected).max()


@pytest.mark.parametrize("opset", [17, 18, 19, 20, 21])
@pytest.mark.parametrize("activations", ["uint8", "int8"])
def test_the_codes_mean_the_same_in_every_form(opset: int, activations: str) -> None:
    net, y = around(CASES["Add"][0], opset)
    result = net.quantize(y, options=QdqOptions(activations))
    feed = net.samples()[1]
    (expected,) = run(net.quantize(y).program, feed, optimized=False)
    (found,) = run(result.program, feed)
    (output,) = [d for d in result.decisions if d.tensor.startswith(y.name)]
    assert np.abs(found - expected).max() <= 1.01 * output.scale[0]


def test_products_give_floats_or_codes(tmp_path: Path) -> None:
    net = Net(3, 8)
    w = net.rng.standard_normal((8, 8)).astype(np.float32)
    hidden = net.op("Gemm", net.x, w, w[0], shape=(3, 8))
    product = net.op("MatMul", hidden, w.T.copy(), shape=(3, 8))
    result = net.quantize(net.op("Softmax", product, axis=-1), float_parts=frozenset())
    assert [(o.code, why) for o, why in result.float_operators] == [
        ("Softmax", "its results are wanted in float only")
    ]
    left = optimized_codes(result.program, net.samples()[0], tmp_path)
    assert left == {"QuantizeLinear": 1, "QGemm": 1, "MatMulIntegerToFloat": 1, "Softmax": 1}


def test_the_bias_of_many_matrices_is_added_to_floats(tmp_path: Path) -> None:
    # With one open size at most it is a Gemm of all rows instead.
    net = Net(None, None, 8)
    w = net.rng.standard_normal((8, 8)).astype(np.float32)
    first = net.op("Add", net.op("MatMul", net.x, w), w[0])
    second = net.op("MatMul", first, w)
    result = net.quantize(second)
    assert dict((o.code, why) for o, why in result.float_operators) == {
        "Add": "it is added to the sums of the product"
    }
    left = optimized_codes(result.program, net.samples()[0], tmp_path)
    assert left["MatMulIntegerToFloat"] == 2
    assert not {"MatMul", "Gemm", "DequantizeLinear"} & set(left)


def test_both_operands_of_a_product_may_be_computed(tmp_path: Path) -> None:
    net = Net(2, 4, 8)
    turned = net.op("Transpose", net.x, shape=(2, 8, 4), perm=(0, 2, 1))
    scores = net.op("Softmax", net.op("MatMul", net.x, turned, shape=(2, 4, 4)), axis=-1)
    result = net.quantize(net.op("MatMul", scores, net.x, shape=(2, 4, 8)), float_parts=frozenset())
    assert not result.float_operators
    left = optimized_codes(result.program, net.samples()[0], tmp_path)
    assert left["QLinearMatMul"] == 1
    assert left["QLinearSoftmax"] == 1
    assert not left["MatMul"]


def test_the_softmax_of_attention_is_faster_in_float(tmp_path: Path) -> None:
    net = Net(4, 32, 64)
    w = net.rng.standard_normal((64, 64)).astype(np.float32)
    first = net.op("MatMul", net.x, w)
    turned = net.op("Transpose", first, shape=(4, 64, 32), perm=(0, 2, 1))
    scores = net.op("Softmax", net.op("MatMul", first, turned, shape=(4, 32, 32)), axis=-1)
    result = net.quantize(net.op("MatMul", net.op("MatMul", scores, first, shape=(4, 32, 64)), w))
    why = dict((o.code, why) for o, why in result.float_operators)
    assert why["Softmax"] == "ONNX Runtime's int8 kernel for it is 8.3 times slower than float"
    left = optimized_codes(result.program, net.samples()[0], tmp_path)
    assert (left["Softmax"], left["QLinearSoftmax"]) == (1, 0)


def test_arg_max_reads_codes(tmp_path: Path) -> None:
    net = Net(*SHAPE)
    best = net.op("ArgMax", net.conv(net.x), shape=(1, 1, 6, 6), element=INT64, axis=1, keepdims=1)
    result = net.quantize(best)
    left = optimized_codes(result.program, net.samples()[0], tmp_path)
    assert not left["DequantizeLinear"]
    assert left["ArgMax"] == 1


def test_all_kernels_are_tested() -> None:
    assert set(INT8_KERNELS.table) == {*CASES, "Gemm", "MatMul", "ArgMax"}


def test_what_has_no_kernel_says_so() -> None:
    assert INT8_KERNELS.why_not("Exp") == "its results span more orders of magnitude than 8 bits hold"
    assert INT8_KERNELS.why_not("Loop") == "ONNX Runtime has no 8-bit kernel for Loop"
