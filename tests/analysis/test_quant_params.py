"""Known ranges of quantized values, against what the kernels report when they run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lower.tflite.harness import Net
from thinflow.analysis.quant_params import QuantParams, infer_quant_params, operands, params_of_range
from thinflow.ir.graph import Value
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import FLOAT, QINT8, QINT32, QUINT8, DType
from thinflow.ops._quantized import decode

RNG = np.random.default_rng(5)
Three = tuple[Value, Value, Value]
_CONV = {"Tinput": QUINT8, "Tfilter": QUINT8, "strides": (1, 1, 1, 1), "padding": "SAME"}


def three(node) -> Three:
    return tuple(node.output(p) for p in range(3))


def coded(net: Net, shape, low: float, high: float, name: str = "x", T: DType = QUINT8) -> Three:
    """A float input coded over a constant range."""
    x = net.feed(RNG.uniform(low, high, shape).astype(np.float32), name)
    ends = np.float32(low), np.float32(high)
    return three(net.op("QuantizeV2", x, *ends, name=f"{name}_codes", T=T, mode="MIN_FIRST").node)


def stored(net: Net, shape, low: float, high: float, name: str = "w", T: DType = QUINT8) -> Three:
    """Codes in the graph, and the ends of their range."""
    limits = np.iinfo(T.numpy())
    codes = RNG.integers(limits.min, limits.max, shape, T.numpy(), endpoint=True)
    value = net.graph.constant(Tensor.from_array(codes, T), name)
    return value, net.const(np.float32(low), f"{name}_low"), net.const(np.float32(high), f"{name}_high")


def two(net: Net, op: str, x: Three, y: Three, **attrs) -> Three:
    return three(net.op(op, x[0], y[0], *x[1:], *y[1:], name=op, **attrs).node)


def narrowed(net: Net, x: Three, low=-2.0, high=3.0, T: DType = QUINT8) -> Three:
    wanted = np.float32(low), np.float32(high)
    return three(net.op("Requantize", *x, *wanted, name="narrow", Tinput=QINT32, out_type=T).node)


def measured(net: Net, x: Three) -> Three:
    found = net.op("RequantizationRange", *x, name="range", Tinput=QINT32).node
    ends = found.output(0), found.output(1)
    return three(net.op("Requantize", *x, *ends, name="dynamic", Tinput=QINT32, out_type=QUINT8).node)


def check(net: Net, result: Three, T: DType) -> QuantParams:
    """The grid of a result is what the kernels say of its range."""
    found = infer_quant_params(net.graph)[result[0]]
    low, high = net.reference(result[1], result[2])
    assert (found.low, found.high, found.dtype) == (float(low), float(high), T)
    return found


WIDE = {"Toutput": QINT32, "T1": QUINT8, "T2": QUINT8}
IMAGE = (1, 5, 5, 3)
RESULTS = {
    "QuantizedConv2D": (
        lambda n: two(
            n, "QuantizedConv2D", coded(n, IMAGE, -1, 4), stored(n, (3, 3, 3, 2), -1, 0.7), **_CONV
        ),
        QINT32,
    ),
    "signed filter": (
        lambda n: two(
            n, "QuantizedConv2D", coded(n, IMAGE, 0, 4), stored(n, (3, 3, 3, 2), -1, 1, T=QINT8), **_CONV
        ),
        QINT32,
    ),
    "QuantizedDepthwiseConv2D": (
        lambda n: two(
            n,
            "QuantizedDepthwiseConv2D",
            coded(n, IMAGE, 0, 4),
            stored(n, (3, 3, 3, 2), -1, 1, T=QINT8),
            **_CONV,
        ),
        QINT32,
    ),
    "QuantizedMatMul": (
        lambda n: two(n, "QuantizedMatMul", coded(n, (2, 6), -1, 4), stored(n, (6, 5), -1, 0.7), **WIDE),
        QINT32,
    ),
    "QuantizedBiasAdd": (
        lambda n: two(
            n,
            "QuantizedBiasAdd",
            coded(n, IMAGE, -1, 4, T=QINT8),
            stored(n, (3,), -1, 0.7, T=QINT8),
            T1=QINT8,
            T2=QINT8,
            out_type=QINT32,
        ),
        QINT32,
    ),
    "QuantizedAdd": (
        lambda n: two(n, "QuantizedAdd", coded(n, IMAGE, -1, 4), stored(n, (3,), -1, 0.7), **WIDE),
        QINT32,
    ),
    "QuantizedMul": (
        lambda n: two(n, "QuantizedMul", coded(n, IMAGE, -1, 4), stored(n, (3,), -1, 0.7), **WIDE),
        QINT32,
    ),
    "Requantize": (
        lambda n: narrowed(n, two(n, "QuantizedAdd", coded(n, IMAGE, -1, 4), stored(n, (3,), -1, 1))),
        QUINT8,
    ),
    "to signed codes": (
        lambda n: narrowed(
            n, two(n, "QuantizedAdd", coded(n, IMAGE, -1, 4), stored(n, (3,), -1, 1)), T=QINT8
        ),
        QINT8,
    ),
    "QuantizedRelu": (
        lambda n: three(n.op("QuantizedRelu", *coded(n, IMAGE, -1, 4), Tinput=QUINT8).node),
        QUINT8,
    ),
    "QuantizedMaxPool": (
        lambda n: three(
            n.op(
                "QuantizedMaxPool",
                *coded(n, IMAGE, -1, 4),
                T=QUINT8,
                ksize=(1, 2, 2, 1),
                strides=(1, 2, 2, 1),
                padding="VALID",
            ).node
        ),
        QUINT8,
    ),
    "QuantizedReshape": (
        lambda n: three(
            n.op(
                "QuantizedReshape", (x := coded(n, IMAGE, -1, 4))[0], np.int32([1, -1]), *x[1:], T=QUINT8
            ).node
        ),
        QUINT8,
    ),
    "QuantizedInstanceNorm": (
        lambda n: three(
            n.op(
                "QuantizedInstanceNorm",
                *coded(n, IMAGE, -1, 4),
                T=QUINT8,
                output_range_given=True,
                given_y_min=-2.0,
                given_y_max=3.0,
            ).node
        ),
        QUINT8,
    ),
    "QuantizeV2": (lambda n: coded(n, IMAGE, 1, 4), QUINT8),
}


@pytest.mark.parametrize("name", RESULTS)
def test_result_has_the_range_that_the_kernel_reports(name):
    net = Net()
    build, T = RESULTS[name]
    check(net, build(net), T)


def test_concat_spans_all_ranges():
    net = Net()
    x, y = coded(net, IMAGE, -1, 4, "x"), coded(net, IMAGE, -3, 2, "y")
    joined = net.op("QuantizedConcat", np.int32(3), x[0], y[0], x[1], y[1], x[2], y[2], T=QUINT8, N=2)
    found = check(net, three(joined.node), QUINT8)
    assert (found.low, found.high) == (-3, 4)
    assert [c.values for c in operands(joined.node)] == [1, 2]


@given(
    low=st.floats(-50, 0, width=32),
    width=st.floats(0.015625, 100, width=32),
    T=st.sampled_from([QUINT8, QINT8]),
)
@settings(max_examples=60, deadline=None)
def test_grid_decodes_as_the_kernels_do(low, width, T):
    least, most = np.float32(low), np.float32(low + width)
    found = params_of_range(low, float(most), T)
    assert found is not None
    limits = np.iinfo(T.numpy())
    codes = np.arange(limits.min, limits.max + 1).astype(T.numpy())
    reals = (codes.astype(np.float64) - found.zero_point) * found.scale
    np.testing.assert_allclose(reals, decode(codes, least, most), rtol=1e-5, atol=found.scale * 1e-3)


@pytest.mark.parametrize(("low", "high"), [(1, 1), (2, 1), (0, 1e-44), (0, np.inf), (np.nan, 1)])
def test_no_grid_without_steps(low, high):
    assert params_of_range(low, high, QUINT8) is None


def test_range_beside_zero_has_a_grid_that_does_not_hold_it():
    found = params_of_range(1.0, 2.0, QUINT8)
    assert found is not None
    assert not found.holds_zero
    assert found.zero_point == -255
    found = params_of_range(-1.0, 2.0, QUINT8)
    assert found is not None
    assert found.holds_zero
    assert found.zero_point == 85


def test_measured_ranges_are_not_known_nor_what_follows():
    net = Net()
    total = two(net, "QuantizedAdd", coded(net, IMAGE, -1, 4), stored(net, (3,), -1, 1), **WIDE)
    dynamic = measured(net, total)
    clamped = three(net.op("QuantizedRelu", *dynamic, Tinput=QUINT8).node)
    known = infer_quant_params(net.graph)
    assert total[0] in known
    assert dynamic[0] not in known
    assert clamped[0] not in known


def test_frozen_range_behind_a_measured_one_is_known():
    net = Net()
    first = measured(
        net, two(net, "QuantizedAdd", coded(net, IMAGE, -1, 4), stored(net, (3,), -1, 1), **WIDE)
    )
    second = two(net, "QuantizedMul", first, stored(net, (3,), -1, 1, "v"), **WIDE)
    result = narrowed(net, second)[0]
    known = infer_quant_params(net.graph)
    assert second[0] not in known
    assert (known[result].low, known[result].high) == (-2, 3)


def test_end_of_a_range_through_maximum():
    net = Net()
    x = net.feed(np.zeros(IMAGE, np.float32))
    high = net.op("Maximum", np.float32(1e-30), net.const(np.float32(2), "most"), name="high")
    codes = net.op("QuantizeV2", x, np.float32(-1), high, T=QUINT8, mode="MIN_FIRST")
    check(net, three(codes.node), QUINT8)


@pytest.mark.parametrize(("op", "operands"), [("RealDiv", (4.0, 2.0)), ("Sqrt", (4.0,)), ("Expm1", (1.0,))])
def test_end_of_a_range_through_any_elementwise_op(op, operands):
    net = Net()
    x = net.feed(np.zeros(IMAGE, np.float32))
    constants = [net.const(np.float32(v), f"c{i}") for i, v in enumerate(operands)]
    high = net.op("ExpandDims", net.op(op, *constants, T=FLOAT), np.int32(0), T=FLOAT)
    codes = net.op("QuantizeV2", x, np.float32(-1), high, T=QUINT8, mode="MIN_FIRST")
    check(net, three(codes.node), QUINT8)


def test_stored_and_fed_codes_have_their_readers_range():
    net = Net()
    fed = net.feed(np.zeros((4,), np.uint8), "fed")
    fed.node.attrs["dtype"] = QUINT8
    ends = np.float32(-1), np.float32(3)
    net.op("Dequantize", fed, *ends, T=QUINT8, mode="MIN_FIRST")
    weights = stored(net, (2, 2), -1, 1)
    net.op("QuantizedRelu", *weights, Tinput=QUINT8)
    known = infer_quant_params(net.graph)
    assert (known[fed].low, known[fed].high) == (-1, 3)
    assert (known[weights[0]].low, known[weights[0]].high) == (-1, 1)


def test_readers_that_disagree_leave_no_grid():
    net = Net()
    weights = stored(net, (2, 2), -1, 1)
    net.op("QuantizedRelu", *weights, Tinput=QUINT8)
    net.op("QuantizedRelu", *weights[:2], np.float32(2), name="other", Tinput=QUINT8)
    assert weights[0] not in infer_quant_params(net.graph)


@pytest.mark.parametrize("mode", ["MIN_COMBINED", "SCALED"])
def test_other_modes_have_other_grids(mode):
    net = Net()
    x = net.feed(np.zeros(IMAGE, np.float32))
    codes = net.op("QuantizeV2", x, np.float32(-1), np.float32(1), T=QUINT8, mode=mode)
    assert codes not in infer_quant_params(net.graph)


def test_nodes_that_cannot_run_are_left_out():
    net = Net()
    x = coded(net, IMAGE, -1, 4)
    net.op("QuantizedMul", x[0], name="short", T1=QUINT8)
    empty = two(net, "QuantizedMul", stored(net, (2,), 1, 1, "e"), stored(net, (2,), -1, 1, "f"), **WIDE)
    known = infer_quant_params(net.graph)
    assert x[0] in known
    assert empty[0] not in known
