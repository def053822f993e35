"""Operators that few networks have answer in C as LiteRT's own kernels do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.lower.c.c_answers import differences
from tests.lower.c.c_networks import Layers
from tests.lower.c.many import Many, ints, number
from thinflow.engines._c_library import compiler
from thinflow.errors import UnsupportedOp
from thinflow.ir.types import dtype
from thinflow.lower.c.convert import network
from thinflow.lower.c.options import Options
from thinflow.tflite.model import Operator, Program, Quantization, Tensor
from thinflow.tflite.reader import read_program
from thinflow.tflite.writer import to_bytes

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")


class Cells(Layers):
    """A recurrent operator; constants of random reals, and variables."""

    def reals(self, *shape: int) -> Tensor:
        return self.constant(
            f"r{len(self.block.operators)}_{shape}_{self.rng.integers(1 << 30)}",
            (self.rng.standard_normal(shape) * 0.5).astype(np.float32),
        )

    def variable(self, *shape: int, kind: str = "float", scale: float | None = None) -> Tensor:
        q = None if scale is None else Quantization(np.float32([scale]), np.int64([0]))
        name = f"state_{self.rng.integers(1 << 30)}"
        return Tensor(name, shape, dtype(kind), None, q, is_variable=True)


@pytest.mark.parametrize("code", ["RNN", "UNIDIRECTIONAL_SEQUENCE_RNN"])
@pytest.mark.parametrize("activation", ["TANH", "RELU"])
def test_simple_cells(code: str, activation: str) -> None:
    steps = (5,) if code != "RNN" else ()
    net = Cells(2, *steps, 3, kind="float")
    read = [net.last, net.reals(4, 3), net.reals(4, 4), net.reals(4), net.variable(2, 4)]
    net.emit(code, read, net.tensor("y", (2, *steps, 4)), fused_activation_function=activation)
    assert differences(net.content()) == []


WITHOUT = {"peepholes": False, "projection": False, "norms": False, "coupled": False}


@pytest.mark.parametrize(
    "what",
    [
        {"peepholes": True},
        {"projection": True},
        {"norms": True},
        {"coupled": True, "peepholes": True},
        dict.fromkeys(WITHOUT, True),
    ],
    ids=lambda what: "_".join(what),
)
@pytest.mark.parametrize("is_time_major", [True, False])
def test_cells_with_more(what: dict[str, bool], is_time_major: bool) -> None:
    has = {**WITHOUT, **what}
    inputs, units, outputs = 3, 5, 4 if has["projection"] else 5
    net = Cells(*(6, 2) if is_time_major else (2, 6), inputs, kind="float")
    first = 1 if has["coupled"] else 0

    def each(*shape: int, there: bool = True) -> list[Tensor | None]:
        return [net.reals(*shape) if there and n >= first else None for n in range(4)]

    read: list[Tensor | None] = [net.last, *each(units, inputs), *each(units, outputs)]
    peepholes = each(units, there=has["peepholes"])
    read += [peepholes[0], peepholes[1], peepholes[3]]
    read += each(units)
    ends = has["projection"]
    read += [net.reals(outputs, units) if ends else None, net.reals(outputs) if ends else None]
    read += [net.variable(2, outputs), net.variable(2, units)]
    read += each(units, there=has["norms"])
    shape = (6, 2, outputs) if is_time_major else (2, 6, outputs)
    options: dict[str, Any] = {"fused_activation_function": "TANH", "time_major": is_time_major}
    net.emit(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", read, net.tensor("y", shape), cell_clip=0.7, proj_clip=0.4, **options
    )
    assert differences(net.content()) == []


@pytest.mark.parametrize("is_even", [True, False])
@pytest.mark.parametrize(
    "what",
    [
        {},
        {"peepholes": True},
        {"coupled": True},
        {"projection": True},
        {"norms": True},
        dict.fromkeys(WITHOUT, True),
    ],
    ids=lambda what: "_".join(what),
)
@pytest.mark.parametrize("rounding", ["litert", "xnnpack"])
def test_cells_with_weights_of_eight_bits(what: dict[str, bool], is_even: bool, rounding: str) -> None:
    net, first = Cells(2, 6, 3, kind="float"), 1 if "coupled" in what else 0
    outputs = 4 if "projection" in what else 5

    def each(*shape: int, kind: str = "int8", start: int = first) -> list[Tensor | None]:
        made: list[Tensor | None] = [None] * start
        for n in range(start, 4):
            if kind == "float":
                made.append(net.reals(*shape))
                continue
            name = f"w{n}_{net.rng.integers(1 << 30)}"
            numbers = net.rng.integers(-127, 128, shape).astype(np.int8)
            made.append(net.constant(name, numbers, net.rng.uniform(0.003, 0.01)))
        return made

    read: list[Tensor | None] = [net.last, *each(5, 3), *each(5, outputs)]
    peepholes = each(5) if "peepholes" in what else [None] * 4
    read += [peepholes[0], peepholes[1], peepholes[3]]
    read += each(5, kind="float")
    read += [*each(4, 5, start=0)[:1], net.reals(4)] if "projection" in what else [None, None]
    read += [net.variable(2, outputs), net.variable(2, 5)]
    read += each(5, kind="float") if "norms" in what else []
    options = {"asymmetric_quantize_inputs": not is_even, "fused_activation_function": "TANH"}
    y, limits = net.tensor("y", (2, 6, outputs)), {"cell_clip": 0.9, "proj_clip": 0.3}
    net.emit("UNIDIRECTIONAL_SEQUENCE_LSTM", read, y, **limits, **options)
    assert differences(net.content(), rounding, runs=5) == []


@pytest.mark.parametrize("is_merged", [True, False])
@pytest.mark.parametrize("has_second", [True, False])
@pytest.mark.parametrize("is_time_major", [True, False])
def test_simple_cells_both_ways(is_merged: bool, has_second: bool, is_time_major: bool) -> None:
    net = Cells(*(5, 2, 3) if is_time_major else (2, 5, 3), kind="float")
    read: list[Tensor | None] = [net.last]
    for units in (4, 6):
        read += [net.reals(units, 3), net.reals(units, units), net.reals(units), net.variable(2, units)]
    options = {"time_major": is_time_major}
    _both_ways(net, "BIDIRECTIONAL_SEQUENCE_RNN", read, (4, 6), is_merged, has_second, **options)


@pytest.mark.parametrize("is_merged", [True, False])
@pytest.mark.parametrize("is_time_major", [True, False])
def test_cells_both_ways(is_merged: bool, is_time_major: bool) -> None:
    # With several batches of merged outputs LiteRT reads states beyond their end where batches come first.
    batches = 2 if is_time_major or not is_merged else 1
    net = Cells(*(5, batches, 3) if is_time_major else (batches, 5, 3), kind="float")
    read: list[Tensor | None] = [net.last]
    for units in (5, 5):
        read += [net.reals(units, 3) for _ in range(4)] + [net.reals(units, units) for _ in range(4)]
        read += [None, None, None, *[net.reals(units) for _ in range(4)], None, None]
    read += [net.variable(batches, units) for units in (5, 5, 5, 5)]
    options = {"time_major": is_time_major, "cell_clip": 0.7}
    _both_ways(net, "BIDIRECTIONAL_SEQUENCE_LSTM", read, (5, 5), is_merged, is_time_major, **options)


def _both_ways(
    net: Cells,
    code: str,
    read: list[Tensor | None],
    units: tuple[int, int],
    is_merged: bool,
    has_second: bool,
    **options: Any,
) -> None:
    outer = tuple(net.sizes()[:2])
    if has_second:
        second = net.tensor("second", net.sizes())
        net.block.inputs.append(second)
        read.append(second)
    else:
        read.append(None)
    read += [None] * (8 if "LSTM" in code else 2)
    widths = (sum(units),) if is_merged else units
    made = [Tensor(f"y{n}", (*outer, n), dtype("float")) for n in widths]
    options |= {"fused_activation_function": "TANH", "merge_outputs": is_merged}
    net.block.operators.append(Operator(code, read, made, options))
    net.block.outputs[:] = made
    assert differences(to_bytes(Program([net.block])), runs=4) == []


def test_layers_of_low_rank() -> None:
    net = Cells(2, 3, kind="float")
    read = [net.last, net.reals(8, 3), net.reals(8, 6), net.reals(4), net.variable(2, 48)]
    net.emit("SVDF", read, net.tensor("y", (2, 4)), rank=2, fused_activation_function="RELU")
    assert differences(net.content(), runs=9) == []


def test_layers_of_low_rank_in_eight_bits() -> None:
    net = Cells(1, 9, kind="int8")
    read: list[Tensor | None] = [
        net.last,
        net.constant("features", net.rng.integers(-127, 128, (8, 9)).astype(np.int8), 0.01),
        net.constant("times", net.rng.integers(-3000, 3000, (8, 6)).astype(np.int16), 0.0004),
        net.constant("bias", net.rng.integers(-9000, 9000, 4).astype(np.int32), 0.0000002),
        net.variable(1, 48, kind="int16", scale=0.0005),
    ]
    y = net.tensor("y", (1, 4), 0.05, -128)
    net.emit("SVDF", read, y, rank=2, fused_activation_function="RELU")
    assert differences(net.content(), runs=30) == []


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_three_dimensions(padding: str) -> None:
    net = Cells(2, 5, 6, 7, 3, kind="float")
    steps = {"stride_d": 2, "stride_h": 1, "stride_w": 2}
    options = {**steps, "padding": padding, "fused_activation_function": "RELU"}
    out = (3, 6, 4) if padding == "SAME" else (2, 5, 3)
    x, w = net.last, net.reals(2, 2, 3, 3, 4)
    y = net.emit("CONV_3D", [x, w, net.reals(4)], net.tensor("y", (2, *out, 4)), **options)
    back = {**options, "fused_activation_function": "NONE"}
    sizes = net.constant("sizes", np.int32([2, 5, 6, 7, 3]))
    net.emit("CONV_3D_TRANSPOSE", [sizes, w, y], net.tensor("back", (2, 5, 6, 7, 3)), **back)
    assert differences(net.content()) == []


@pytest.mark.parametrize("depth", [1, 7, 300])
@pytest.mark.parametrize("scale", [0.0001, 0.0005, 0.002])
def test_softmax_of_16_bits(depth: int, scale: float) -> None:
    net = Cells(40, depth, kind="int16")
    assert net.last.quantization is not None
    net.last.quantization.scale[:] = scale
    net.last.quantization.zero_point[:] = 0
    net.emit("SOFTMAX", [net.last], net.tensor("y", (40, depth), 1 / 32768, 0), beta=1.0)
    assert differences(net.content()) == []


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16"])
def test_extremes_of_integers(kind: str) -> None:
    net = Many(2, 30, kind=kind)
    assert net.x.quantization is not None
    if kind == "int16":
        net.x.quantization.zero_point[:] = 0
    # LiteRT's kernel compares what is stored, whatever its scale.
    other = Tensor("other", (30,), dtype(kind), None, net.x.quantization)
    coarse = net.tensor("coarse", (30,), 0.2, 0 if kind == "int16" else 3)
    net.block.inputs += [other, coarse]
    for code in ("MAXIMUM", "MINIMUM"):
        net.add(code, [net.x, other], 2, 30)
        net.add(code, [net.x, coarse], 2, 30)
    assert differences(net.content()) == []
    assert differences(net.content(), "xnnpack") == []


def test_numbers_of_16_bits_are_joined_whatever_their_scales() -> None:
    net = Many(2, 30, kind="int16")
    assert net.x.quantization is not None
    net.x.quantization.zero_point[:] = 0
    coarse = net.tensor("coarse", (2, 5), 0.2, 0)
    net.block.inputs.append(coarse)
    net.add("CONCATENATION", [net.x, coarse], 2, 35, axis=1)
    assert differences(net.content()) == []
    assert coarse.quantization is not None
    coarse.quantization.zero_point[:] = 1
    with pytest.raises(UnsupportedOp, match="zero point, which LiteRT refuses"):
        network(read_program(net.content()), Options())


@pytest.mark.parametrize("sigma", [None, 0.0, 0.4])
def test_boxes_that_overlap(sigma: float | None) -> None:
    net = Many(40, 2)
    # Corners in any order, some boxes without a size; scores as they come.
    rng = np.random.default_rng(3)
    corners = rng.uniform(0, 1, (40, 2))
    boxes = np.concatenate([corners, corners + rng.uniform(-0.4, 0.4, (40, 2))], 1).astype(np.float32)
    boxes[7, 2:] = boxes[7, :2]
    scores = net.add("SLICE", [net.x, ints(0, 1), ints(40, 1)], 40, 1)
    flat = net.add("RESHAPE", [scores, ints(40)], 40)
    code = "NON_MAX_SUPPRESSION_V4" if sigma is None else "NON_MAX_SUPPRESSION_V5"
    read: list[Any] = [
        net.constant("boxes", boxes),
        flat,
        net.constant("most", number(12)),
        net.constant("overlap", np.array(0.3, np.float32)),
        net.constant("least", np.array(-0.5, np.float32)),
    ]
    read += [] if sigma is None else [net.constant("sigma", np.array(sigma, np.float32))]
    chosen, count = Tensor("chosen", (12,), dtype("int32")), Tensor("count", (), dtype("int32"))
    made = [chosen, count] if sigma is None else [chosen, Tensor("kept", (12,), dtype("float")), count]
    net.block.operators.append(Operator(code, read, made))
    net.made += made
    assert differences(net.content(), runs=8) == []
