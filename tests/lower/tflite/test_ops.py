"""Every lowering rule against the reference kernels, through LiteRT."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.builders import (
    BOXES,
    I32,
    SCORES,
    Constant,
    conv_attrs,
    converted,
    floats,
    integers,
    port_count,
    vector,
)
from tests.lower.tflite.cases import CASES, STRIDE_2
from tests.lower.tflite.harness import Net, compare, run_litert
from thinflow.errors import ThinflowError, UnsupportedOp
from thinflow.ir.types import FLOAT, dtype


def build(op, operands, attrs, unknown=""):
    net = Net()
    inputs = []
    for k, operand in enumerate(operands):
        if isinstance(operand, Constant):
            inputs.append(net.const(operand.array, f"c{k}"))
            continue
        sizes = operand.shape
        shape = {"batch": (None, *sizes[1:])[: len(sizes)], "sizes": (None,) * len(sizes), "rank": None}
        inputs.append(net.feed(operand, f"x{k}", shape=shape.get(unknown, sizes)))
    clean = {k: bool(v) if k in ("align_corners", "half_pixel_centers") else v for k, v in attrs.items()}
    node = net.graph.add(op, inputs, "y", attrs=clean)
    return net, node


NAMES = [f"{n}-{case[0]}" for n, case in enumerate(CASES)]


@pytest.mark.parametrize(("op", "operands", "attrs"), CASES, ids=NAMES)
def test_numerical(op, operands, attrs):
    net, node = build(op, operands, attrs)
    net.check(*(node.output(p) for p in range(port_count(node))))


@pytest.mark.parametrize("element", ["half", "double", "int32", "int64", "uint8", "bool"])
def test_other_types_are_right_or_refused(element):
    """What the tables in `kernels` let pass, LiteRT runs, with the reference's result."""
    wrong = []
    for name, (op, operands, attrs) in zip(NAMES, CASES, strict=True):
        net, node = build(op, [converted(o, dtype(element).numpy()) for o in operands], attrs)
        outputs = [node.output(p) for p in range(port_count(node))]
        try:
            with np.errstate(all="ignore"):
                net.reference(*outputs)
            net.lower(*outputs)
        except ThinflowError:
            continue
        try:
            net.check(
                *outputs, rtol=1e-2 if element == "half" else 1e-4, atol=1e-2 if element == "half" else 1e-5
            )
        except (AssertionError, RuntimeError, ValueError) as error:
            wrong.append(f"{name}: {error}")
    assert not wrong


@pytest.mark.parametrize("unknown", ["batch", "sizes", "rank"])
def test_unknown_sizes_are_right_or_refused(unknown):
    wrong, refused = [], []
    for name, (op, operands, attrs) in zip(NAMES, CASES, strict=True):
        net, node = build(op, operands, attrs, unknown)
        outputs = [node.output(p) for p in range(port_count(node))]
        try:
            net.lower(*outputs)
        except UnsupportedOp:
            refused.append(name)
            continue
        try:
            net.check(*outputs)
        except (AssertionError, RuntimeError, ValueError) as error:
            wrong.append(f"{name}: {error}")
    assert not wrong
    assert len(refused) <= {"batch": 2, "sizes": 10, "rank": 42}[unknown], refused


def test_complex_numbers():
    for op in ("Real", "Imag", "ComplexAbs"):
        net, node = build(op, [(floats(2, 3) + 1j * floats(3, 2).T).astype(np.complex64)], {})
        net.check(node.output())


@pytest.mark.parametrize("share", [1.0, 0.3])
@pytest.mark.parametrize("batch", [2, None])
def test_statistics_of_a_batch(share, batch):
    net = Net()
    x = net.feed(floats(2, 4, 5, 3) + 9, "x", shape=(batch, 4, 5, 3))
    norm = net.op(
        "FusedBatchNormV3",
        x,
        floats(3),
        floats(3),
        floats(3),
        floats(3, low=0.1),
        is_training=True,
        exponential_avg_factor=share,
    ).node
    net.check(*(norm.output(port) for port in range(5)))


def test_several_ports():
    net = Net()
    x, y = net.feed(floats(2, 3), "x", shape=(None, 3)), net.feed(floats(4), "y", shape=(None,))
    shapes = net.op("ShapeN", x, y)
    alias = net.op("IdentityN", x, y, name="alias", port=1)
    net.check(shapes, shapes.node.output(1), net.op("Neg", alias))


def test_random_numbers_have_the_shape_and_range():
    net = Net()
    draws = [
        net.op(op, np.int32([50, 40]), name=op, dtype=FLOAT)
        for op in ("RandomUniform", "RandomStandardNormal")
    ]
    x = net.feed(np.float32(0))
    results = run_litert(
        net.lower(*(net.op("AddV2", d, x, name=f"y{k}") for k, d in enumerate(draws))), {"x": np.float32(0)}
    )
    assert results["y0"].shape == (50, 40)
    assert 0 <= results["y0"].min() < 0.1 < 0.9 < results["y0"].max() <= 1
    assert results["y1"].min() < -1.5
    assert abs(results["y1"].mean()) < 0.2


@pytest.mark.parametrize("narrow", [False, True])
def test_fake_quantization(narrow):
    """Steps of a range that is moved so that 0 is one of them."""
    x = floats(4, 50, low=-3.0, high=9.0)
    for op, operands, attrs in (
        ("FakeQuantWithMinMaxArgs", [x], {"min": -1.0, "max": 5.0}),
        ("FakeQuantWithMinMaxVars", [x, Constant(np.float32(-1)), Constant(np.float32(5))], {}),
    ):
        net, node = build(op, operands, {**attrs, "num_bits": 4, "narrow_range": narrow})
        y = run_litert(net.lower(node.output()), {"x0": x})["y"]
        scale = 6 / (14 if narrow else 15)
        levels = y / scale
        np.testing.assert_allclose(levels, np.round(levels), atol=1e-4)
        inside = (x > -0.8) & (x < 4.8)
        assert np.abs(y - x)[inside].max() <= scale / 2 + 1e-4


def test_fused_matmul():
    net = Net()
    x, w, bias = net.feed(floats(2, 3)), floats(3, 4), floats(4)
    y = net.op("_FusedMatMul", x, w, bias, fused_ops=["BiasAdd", "Relu"])
    assert net.codes(y) == ["FULLY_CONNECTED"]
    lowered = net.lower(y)
    compare(run_litert(lowered, {"x": floats(2, 3)})[y.name], np.maximum(floats(2, 3) @ w + bias, 0))


@pytest.mark.parametrize("op", ["NonMaxSuppression", "NonMaxSuppressionV2"])
def test_older_non_max_suppression(op):
    net = Net()
    more = [np.float32(0.5)] if op.endswith("V2") else []
    attrs = {} if more else {"iou_threshold": 0.5}
    y = net.op(op, net.feed(BOXES, "boxes"), net.feed(SCORES, "scores"), np.int32(3), *more, **attrs)
    net.check(y)


def test_non_max_suppression_with_scores():
    net = Net()
    limits = [np.int32(3), np.float32(0.5), np.float32(0.1), np.float32(0.0)]
    y = net.op("NonMaxSuppressionV5", net.feed(BOXES, "boxes"), net.feed(SCORES, "scores"), *limits)
    net.check(*(y.node.output(p) for p in range(3)))


@pytest.mark.parametrize("op", ["Rsqrt", "Pow"])
def test_inverse_roots_of_zero_are_infinite(op):
    net = Net()
    x = net.feed(np.float32([0, 4, 1e-30]))
    more = [np.float32(-0.5)] if op == "Pow" else []
    assert net.check(net.op(op, x, *more, name="y")) == ["SQRT", "DIV"]
    # What a constant was added to is 0 where that was its opposite.
    moved = net.op("AddV2", net.feed(np.float32([-1, 3, 0, 8]), "below"), np.float32(1), name="moved")
    assert net.check(net.op(op, moved, *more, name="w")) == ["ADD", "SQRT", "DIV"]


@pytest.mark.parametrize("op", ["Rsqrt", "Pow"])
def test_inverse_roots_of_what_is_above_zero_are_one_operator(op):
    net = Net()
    x = net.feed(np.float32([[0, 4, 1e-30], [3, -2, 1]]))
    more = [np.float32(-0.5)] if op == "Pow" else []
    bounded = net.op("Maximum", x, np.float32(1e-3), name="bounded")
    assert net.check(net.op(op, bounded, *more, name="b")) == ["MAXIMUM", "RSQRT"]
    mean = net.op("Mean", x, np.int32([1]), keep_dims=True, name="mean")
    deviation = net.op("SquaredDifference", x, mean, name="deviation")
    variance = net.op("Mean", deviation, np.int32([1]), name="variance")
    raised = net.op("AddV2", np.float32(1e-3), variance, name="raised")
    assert net.check(net.op(op, raised, *more, name="v"))[-1] == "RSQRT"
    square = net.op("Mul", x, x, name="square")
    halved = net.op("RealDiv", net.op("AddV2", square, np.float32(0)), np.float32(2), name="halved")
    assert net.check(net.op(op, net.op("AddV2", halved, np.float32(1)), *more, name="h"))[-1] == "RSQRT"
    less = net.op("Sub", square, np.float32(1), name="less")
    assert net.check(net.op(op, net.op("AddV2", less, np.float32(1)), *more, name="l"))[-1] == "DIV"


def test_float_quotients_are_rounded_down():
    net = Net()
    x = net.feed(np.float32([7, 5.5, -5.5, 6, 1]))
    y = net.op("FloorDiv", x, np.float32([0.1, 2, 2, -3, 0]))
    assert net.check(y) == ["DIV", "FLOOR"]
    assert run_litert(net.lower(y), {"x": np.float32([7, 5.5, -5.5, 6, 1])})[y.name][0] == 70


@pytest.mark.parametrize("pad", [False, True])
def test_non_max_suppression(pad):
    net = Net()
    boxes, scores = net.feed(BOXES, "boxes"), net.feed(SCORES, "scores")
    limits = [np.int32(3), np.float32(0.5), np.float32(0.1)]
    v4 = [net.op("NonMaxSuppressionV4", boxes, scores, *limits, name="v4", pad_to_max_output_size=pad)]
    v4.append(v4[0].node.output(1))
    v3 = net.op("NonMaxSuppressionV3", boxes, scores, *limits, name="v3")
    net.check(*v4, v3)


def test_reshape_to_a_computed_shape():
    net = Net()
    x, shape = net.feed(floats(2, 6), "x"), net.feed(np.int32([3, 4]), "shape")
    y = net.op("Reshape", x, shape)
    assert net.check(y) == ["RESHAPE"]


@pytest.mark.parametrize(
    ("op", "operands", "attrs", "reason"),
    [
        ("Conv2D", [floats(1, 2, 4, 4), Constant(floats(1, 1, 2, 2))], conv_attrs(data_format="NCHW"),
        "data_format is NCHW"),
        ("MaxPool", [floats(1, 2, 4, 4)], {"ksize": [1, 1, 2, 2], "strides": [1, 1, 2, 2], "padding": "VALID",
                                      "data_format": "NCHW"}, "NHWC only"),
        ("Exp", [floats(2).astype(np.float64)], {}, "no EXP for double"),
        ("Sum", [integers(2, 2, element=np.uint8), vector(0)], {}, "no SUM for uint8"),
        ("Pad", [floats(1, 1, 1, 1, 1, 1), Constant(np.ones((6, 2), I32))], {}, "rank"),
        ("ConcatV2", [floats(2, 2), floats(2, 2), np.int32(0)], {}, "computed while the model runs"),
        ("ReverseV2", [floats(2, 2), Constant([5], I32)], {}, "does not fit rank 2"),
        ("NoSuchOp", [floats(2)], {}, "no form of NoSuchOp"),
        ("LeakyRelu", [floats(2)], {"alpha": [1, 2]}, "not well formed"),
        ("AvgPool", [floats(1, 4, 4, 1)], {"ksize": STRIDE_2, "strides": STRIDE_2, "padding": "x"},
        "cannot be x"),
        ("MatMul", [floats(2, 2)], {}, "1 inputs, 2 are needed"),
        ("AvgPool", [floats(1, 4, 4, 4)], {"ksize": [1, 1, 1, 2], "strides": [1, 1, 1, 2],
        "padding": "VALID"},
         "batch or channels"),
    ],
)  # fmt: skip
def test_refusals(op, operands, attrs, reason):
    net, node = build(op, operands, attrs)
    with pytest.raises(UnsupportedOp, match=reason) as caught:
        net.lower(node.output())
    assert "node 'y'" in str(caught.value)


def test_boxes_without_area_are_chosen_once():
    boxes = np.float32([[0, 0, 1, 1], [0.5, 0, 0.5, 1], [0, 0, 1, 0.9], [0.2, 0.3, 0.2, 0.3], [2, 2, 3, 3]])
    scores = np.float32([0.5, 0.9, 0.3, 0.8, 0.1])
    net = Net()
    net.check(net.op("NonMaxSuppression", net.feed(boxes, "boxes"), net.feed(scores, "scores"), np.int32(5)))


def test_what_wraps_around_or_has_signs():
    net = Net()
    x = net.feed(np.float32([-2.9, 300, -1, 70000]))
    net.check(*(net.op("Cast", x, name=str(t), DstT=dtype(t)) for t in ("uint8", "int8", "uint16", "uint32")))
    big = net.feed(np.array([2**31 - 1, -(2**31), 3], I32), "big")
    net.check(net.op("Pow", big, np.int32(3)))
    with pytest.raises(UnsupportedOp, match="a fixed exponent of 1 to 8"):
        net.lower(net.op("Pow", big, np.int32(-1)))


def test_functions_of_infinities_and_small_numbers():
    net = Net()
    x = net.feed(np.float32([np.inf, -np.inf, np.nan, 1e-5, -1e-5, 0, 5]))
    net.check(net.op("Erf", x))
    net.check(*(net.op(op, x) for op in ("Expm1", "Sinh")), rtol=1e-5, atol=0)


def test_shrinking_takes_no_notice_of_masks():
    net = Net()
    bounds = [np.int32([n]) for n in (-1, 0, 1)]
    x = net.feed(np.int32([5, 6, 7]))
    net.check(net.op("StridedSlice", x, *bounds, begin_mask=1, shrink_axis_mask=1))


def test_an_open_size_beside_a_size_of_0():
    """LiteRT would divide by 0 to find the open one."""
    net = Net()
    x = net.feed(np.zeros((3, 0), np.float32), shape=(None, 0))
    one = np.int32([1])
    size = net.op("StridedSlice", net.op("Shape", x), np.int32([0]), one, one, shrink_axis_mask=1)
    net.check(net.op("Reshape", x, net.op("Pack", size, np.int32(0), np.int32(2))))
