"""Eight-bit ops on LiteRT's and ONNX Runtime's kernels: every code within one of the reference's.

Random small graphs of one op each, with ranges that are frozen or measured, wide, and much narrower than what
goes in.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import thinflow
from tests.lower.eight_bit import WIDE, fed, narrowed, stored, three, two
from tests.lower.onnx import harness as onnx
from tests.lower.tflite import harness as tflite
from tests.lower.tflite.harness import Net
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import QINT8, QINT32, QUINT8, DType
from thinflow.lower.onnx import quantized_context

MANY = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
ENGINES = pytest.mark.parametrize("engine", ["litert", "onnxruntime"])
Codes = list[Value]

_LOWS = st.sampled_from([-5.3, -1.0, -0.31, 0.0])
_HIGHS = st.sampled_from([0.0625, 0.5, 1.0, 6.0])
_PARTS = st.sampled_from([0.012, 0.03, 0.1, 0.4, 1.0, 2.5])
"""Of the range that sums use, what the result keeps. TensorFlow's Requantize overflows below 1/128."""
_CLAMPS = st.sampled_from(["", "QuantizedRelu", "QuantizedRelu6"])
_SIZES = st.tuples(st.integers(1, 2), st.integers(2, 6), st.integers(2, 6), st.sampled_from([1, 3, 8]))


@pytest.fixture(autouse=True, scope="module")
def small_tensors_too():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantized_context, "FEWEST", 0)
        yield


def run(engine: str, net: Net, *outputs: Value) -> list[Any]:
    feeds = {v.name: array for v, array in net.feeds.items()}
    if engine == "litert":
        found = tflite.run_litert(tflite.lower_graph(net.graph, list(net.feeds), list(outputs)), feeds)
    else:
        program = onnx.lower_graph(net.graph, list(net.feeds), list(outputs), opset=20, extended=True)
        found = onnx.run_onnx(program, feeds)
    return [found[v.name] for v in outputs]


def deviation(engine: str, net: Net, result: Codes) -> int:
    """The most codes that an engine's result is off."""
    (found,), (wanted,) = run(engine, net, result[0]), net.reference(result[0])
    assert found.dtype == wanted.dtype
    return int(np.abs(found.astype(int) - wanted.astype(int)).max(initial=0))


def clamped(net: Net, wide: Codes, clamp: str) -> Codes:
    attrs = {"Tinput": QINT32, "out_type": QINT32}
    return three(net.op(clamp, *wide, name="clamp", **attrs).node) if clamp else wide


def clamp_rounding(net: Net, wide: Codes, result: Codes, clamp: str) -> int:
    """Steps of the result that a clamp may be off.

    TensorFlow finds the 32-bit value of 0 in float32, which may miss it by one. That shows where all sums are
    clamped, so that the result is left a range in which it has finer steps than the sums.
    """
    low, high, *ends = (float(v) for v in net.reference(*wide[1:], *result[1:]))
    return round((high - low) / 2**32 / ((ends[1] - ends[0]) / 255)) if clamp else 0


def frozen(net: Net, wide: Codes, part: float, T: DType = QUINT8) -> Codes:
    """A constant range that is a part of what sums use."""
    measuring = net.op("RequantizationRange", *wide, name="used", Tinput=QINT32).node
    low, high = (float(end) for end in net.reference(measuring.output(0), measuring.output(1)))
    return narrowed(net, wide, min(low, 0.0) * part, max(high * part, 0.01), T)


def floats(net: Net, shape: tuple[int, ...], low: float, high: float, T: DType, *, own: bool = True) -> Codes:
    """Reals quantized to a range that is found in every run: their own, or a narrower one that is fed."""
    values = np.random.default_rng(3).uniform(low, high, shape).astype(np.float32)
    x = net.feed(values, "reals")
    if own:
        flat = net.op("Reshape", x, np.int32([-1]))
        ends = [net.op(op, flat, np.int32([0]), name=op) for op in ("Min", "Max")]
    else:
        ends = [net.feed(np.float32(end * 0.7), name) for name, end in (("low", low), ("high", high))]
    return three(net.op("QuantizeV2", x, *ends, name="codes", T=T, mode="MIN_FIRST").node)


@ENGINES
@MANY
@given(op=st.sampled_from(["QuantizedAdd", "QuantizedBiasAdd", "QuantizedMul"]), low=_LOWS, high=_HIGHS,
       other=st.tuples(_LOWS, _HIGHS), part=_PARTS, clamp=_CLAMPS, T=st.sampled_from([QUINT8, QINT8]),
       constant=st.booleans(), size=_SIZES)  # fmt: skip
def test_two_operands_of_known_ranges(engine, op, low, high, other, part, clamp, T, constant, size):
    net = Net()
    codes = T if op == "QuantizedBiasAdd" else QUINT8
    x = fed(net, size, low, high, T=codes)
    make = stored if constant else fed
    y = make(net, size[3:] if op == "QuantizedBiasAdd" or constant else size, *other, "y", T=codes)
    types = {"T1": codes, "T2": codes, "out_type": QINT32} if op == "QuantizedBiasAdd" else WIDE
    wide = two(net, op, x, y, **types)
    result = frozen(net, clamped(net, wide, clamp), part, T)
    assert deviation(engine, net, result) <= 1 + clamp_rounding(net, wide, result, clamp)


@ENGINES
@MANY
@given(op=st.sampled_from(["QuantizedAdd", "QuantizedBiasAdd", "QuantizedMul"]), low=_LOWS, high=_HIGHS,
       other=st.tuples(_LOWS, _HIGHS), part=st.sampled_from([0.2, 0.6, 1.0, 2.5]), clamp=_CLAMPS,
       own=st.booleans(), constant=st.booleans())  # fmt: skip
def test_two_operands_of_which_one_is_measured(engine, op, low, high, other, part, clamp, own, constant):
    """The codes that are measured are taken for what they are: their own rounding is no deviation."""
    if engine == "onnxruntime" and op == "QuantizedAdd":
        op = "QuantizedBiasAdd"  # what the kernel of the other loses by rounding is left out
    net = Net()
    x = floats(net, (2, 5, 4, 8), low, high, QUINT8, own=own)
    y = (stored if constant else fed)(net, (8,), *other, "y")
    types = {"T1": QUINT8, "T2": QUINT8, "out_type": QINT32} if op == "QuantizedBiasAdd" else WIDE
    result = frozen(net, clamped(net, two(net, op, x, y, **types), clamp), part)
    assert deviation(engine, net, result) <= (1 if engine == "litert" else allowed(net, x, result, other, op))


@ENGINES
@pytest.mark.parametrize("own", [True, False])
def test_0_between_two_values_of_the_other_operand(engine, own):
    """In -1 ... 1 TensorFlow decodes by another zero point than it encodes: ten steps of this sum."""
    net = Net()
    x, y = floats(net, (2, 5, 4, 8), 0.0, 0.0625, QUINT8, own=own), stored(net, (8,), -1.0, 1.0, "y")
    wide = two(net, "QuantizedBiasAdd", x, y, T1=QUINT8, T2=QUINT8, out_type=QINT32)
    assert deviation(engine, net, frozen(net, clamped(net, wide, "QuantizedRelu"), 0.2)) <= 2


@ENGINES
def test_a_clamp_that_leaves_nothing(engine):
    net = Net()
    x, w = fed(net, (1, 2, 2, 1), -5.3, 0.0625), stored(net, (1, 1, 1, 5), 0.0, 6.0)
    wide = two(net, "QuantizedConv2D", x, w, strides=(1, 1, 1, 1), padding="SAME")
    result = frozen(net, clamped(net, wide, "QuantizedRelu"), 2.5)
    assert deviation(engine, net, result) == clamp_rounding(net, wide, result, "QuantizedRelu") == 12


def allowed(net: Net, x: Codes, result: Codes, other: tuple[float, float], op: str) -> int:
    """ONNX's own kernel rounds measured reals to a code beside; what that comes to in the result."""
    low, high, *ends = (float(v) for v in net.reference(*x[1:], *result[1:]))
    factor = max(abs(end) for end in other) if op == "QuantizedMul" else 1.0
    return 1 + int(np.ceil(factor * (high - low) / (ends[1] - ends[0])))


@ENGINES
@MANY
@given(low=_LOWS, high=_HIGHS, weights=st.tuples(_LOWS, _HIGHS), part=_PARTS, clamp=_CLAMPS,
       T=st.sampled_from([QUINT8, QINT8]), size=_SIZES, kernel=st.integers(1, 2),
       matrix=st.booleans())  # fmt: skip
def test_products(engine, low, high, weights, part, clamp, T, size, kernel, matrix):
    net = Net()
    if matrix:
        x, w = fed(net, size[1::2], low, high), stored(net, (size[3], 5), *weights)
        wide = two(net, "QuantizedMatMul", x, w, **WIDE)
    else:
        x, w = fed(net, size, low, high), stored(net, (kernel, kernel, size[3], 5), *weights)
        wide = two(net, "QuantizedConv2D", x, w, strides=(1, 1, 1, 1), padding="SAME")
    result = frozen(net, clamped(net, wide, clamp), part, T)
    assert deviation(engine, net, result) <= 1 + clamp_rounding(net, wide, result, clamp)


@MANY
@given(low=_LOWS, high=_HIGHS, weights=st.tuples(_LOWS, _HIGHS), part=_PARTS, own=st.booleans())
def test_products_of_measured_codes(low, high, weights, part, own):
    net = Net()
    x, w = floats(net, (1, 6, 6, 8), low, high, QUINT8, own=own), stored(net, (3, 3, 8, 4), *weights)
    wide = two(net, "QuantizedConv2D", x, w, strides=(1, 1, 1, 1), padding="SAME")
    assert deviation("litert", net, frozen(net, wide, part)) <= 1


@pytest.mark.parametrize("reach", np.linspace(5.0, 7.0, 12).tolist())
def test_a_measured_range_whose_kernel_adds_on_its_own_account(reach):
    """float32 cannot tell the middle code of QuantizedBiasAdd's sums, for some ranges and not for others."""
    net = Net()
    x, y = floats(net, (4, 6), -reach, 3.0, QINT8), stored(net, (6,), -1.0, 0.9, "y", QINT8)
    wide = two(net, "QuantizedBiasAdd", x, y, T1=QINT8, T2=QINT8, out_type=QINT32)
    assert deviation("litert", net, narrowed(net, wide, 0.0, 2.0)) <= 1


@pytest.mark.parametrize("op", ["QuantizedRelu", "QuantizedRelu6", "QuantizedMaxPool", "QuantizedAvgPool"])
def test_what_keeps_a_measured_range(op):
    net = Net()
    x = floats(net, (1, 6, 6, 8), -3.0, 9.0, QUINT8)
    window = {"ksize": (1, 2, 2, 1), "strides": (1, 2, 2, 1), "padding": "VALID"}
    y = three(net.op(op, *x, name="kept", **(window if "Pool" in op else {})).node)
    wide = two(net, "QuantizedMul", y, stored(net, (8,), -1.0, 1.0, "y"), **WIDE)
    assert deviation("litert", net, frozen(net, wide, 1.0)) <= 1


@ENGINES
@pytest.mark.parametrize("ends", [(0.5, 2.0), (-3.0, -1.0), (1.0, 1.0)])
def test_ranges_without_0_and_without_width(engine, ends):
    """Their codes are the reference's: they are computed by it, or as it does."""
    net = Net()
    x, y = fed(net, (2, 9, 8), *ends), stored(net, (8,), -1.0, 0.5, "y")
    wide = two(net, "QuantizedBiasAdd", x, y, T1=QUINT8, T2=QUINT8, out_type=QINT32)
    result = narrowed(net, wide, -2.0, 2.0)
    net.graph.inputs, net.graph.outputs = list(net.feeds), [result[0]]
    session = thinflow.Session(net.graph, engine=engine)
    (found,) = session.run([result[0].name], {v.name: a for v, a in net.feeds.items()})
    np.testing.assert_array_equal(found, net.reference(result[0])[0])
    if engine == "litert":
        with pytest.raises(UnsupportedOp):
            run(engine, net, result[0])
