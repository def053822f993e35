"""What of a program is computed in integers, counted in multiplications."""

from __future__ import annotations

import numpy as np
import pytest

from tests.quantize.programs import Builder
from thinflow import zoo
from thinflow.ir.types import FLOAT
from thinflow.optimize.float_graph import float_graph
from thinflow.optimize.litert import LiteRTMaker
from thinflow.optimize.onnx import OnnxMaker
from thinflow.optimize.samples import rebind, samples_for
from thinflow.program.model import Operator, Tensor
from thinflow.quantize.kernels.litert import INT8_KERNELS
from thinflow.quantize.kernels.onnx import INT8_KERNELS as ONNX_KERNELS
from thinflow.quantize.macs import multiplied
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.shares import Shares, reading_matrices, shares
from thinflow.zoo import digits

# conv1 3x3x1x16 at 8x8, conv2 depthwise 3x3x16 and pointwise 16x32, conv3 3x3x32x32 at 4x4, two dense layers.
STORED = "of 232.06k multiplications with weights stored so; all computed in float"
CONV1, LOGITS = 9 * 16 * 64, 64 * 10


def made_by(maker: LiteRTMaker | OnnxMaker, recipe: Recipe) -> Shares:
    graph = digits.build(0)
    samples = samples_for(graph, zoo.calibration("digits", 16, 0))
    plain = float_graph(graph, samples=samples, verify=False, runtime=maker.order).graph
    moved = rebind(samples, graph, plain)
    model = maker.open_or_fixed(plain, moved)
    return maker.quantize(model, moved, recipe).shares


@pytest.mark.parametrize("maker", [LiteRTMaker("none"), OnnxMaker(effort="none")])
def test_layers_left_float_are_counted(maker: LiteRTMaker | OnnxMaker) -> None:
    whole = made_by(maker, Recipe())
    assert whole.computed == {"int8": whole.total}
    assert whole.sentence.lower() == "int8 100.0% of 232.06k multiplications; in float: softmax"
    part = made_by(maker, Recipe(skip_nodes=("conv1/*", "logits/*")))
    assert part.total == whole.total
    assert part.computed["float32"] == CONV1 + LOGITS
    assert sum(part.in_float.values()) == CONV1 + LOGITS
    assert part.sentence.startswith("int8 95.8% of 232.06k multiplications; in float: ")


@pytest.mark.parametrize(
    ("scheme", "begins"),
    [
        ("int16x8", "int16 100.0% of"),
        ("dynamic", "int8, rounded in each run, 77.7% of"),
        (
            "int8_weights",
            f"int8 77.7% {STORED}",
        ),
        (
            "float16",
            f"float16 100.0% {STORED}",
        ),
    ],
)
def test_schemes_that_store_weights_compute_in_float(scheme: str, begins: str) -> None:
    assert made_by(LiteRTMaker("none"), Recipe(scheme=scheme)).sentence.startswith(begins)


@pytest.mark.parametrize("block", [0, 16])
def test_what_a_session_unpacks_is_seen_as_it_is_stored(block: int) -> None:
    maker = OnnxMaker(effort="none", opset=21)
    told = made_by(maker, Recipe(scheme="int4_weights", block_size=block)).sentence
    assert told == f"float32 22.3%, int4 77.7% {STORED}".replace("float32 22.3%, ", "")


def test_layers_whose_weights_alone_are_stored_compute_in_float() -> None:
    maker = OnnxMaker(effort="none")
    told = made_by(maker, Recipe(weights_only=("conv3/*",)))
    assert told.in_float["Conv"] == told.computed["float32"] == 9 * 32 * 32 * 16
    assert told.stored == {"int8": told.total}


def test_matrices_are_found_however_they_are_stored() -> None:
    b = Builder(1)
    wide = b.op("DEQUANTIZE", b.const(np.ones((3, 4), np.float16)))
    program = b.program(b.op("RELU", b.op("FULLY_CONNECTED", b.input(1, 4), wide, None)))
    assert {o.code for o in reading_matrices(program)} == {"DEQUANTIZE", "FULLY_CONNECTED"}


def test_a_program_without_products() -> None:
    b = Builder(1)
    x = b.input(1, 4)
    assert shares(b.program(b.op("RELU", x))).sentence == "no matrices are multiplied"


def test_products_of_two_computed_matrices() -> None:
    a, b = (Tensor(n, (2, 4, 8, 3), FLOAT) for n in "ab")
    y = Tensor("y", (2, 4, 8, 8), FLOAT)
    product = Operator("BATCH_MATMUL", [a, b], [y], {"adj_y": True})
    assert multiplied(product, INT8_KERNELS) == 2 * 4 * 8 * 8 * 3
    turned = Operator("Gemm", [Tensor("t", (3, 8), FLOAT), b], [Tensor("y", (8, 5), FLOAT)], {"transA": 1})
    assert multiplied(turned, ONNX_KERNELS) == 8 * 5 * 3


def test_gates_count_for_each_step() -> None:
    x, y = Tensor("x", (40, 1, 6), FLOAT), Tensor("y", (40, 1, 1, 24), FLOAT)
    w, r = (Tensor(n, (1, 96, k), FLOAT, np.zeros((1, 96, k), np.float32)) for n, k in (("w", 6), ("r", 24)))
    assert multiplied(Operator("LSTM", [x, w, r], [y]), ONNX_KERNELS) == 40 * 96 * 30


def test_an_lstm_of_one_operator_counts_its_gates() -> None:
    x, y = Tensor("x", (1, 40, 6), FLOAT), Tensor("y", (1, 40, 24), FLOAT)
    matrices = [
        Tensor(f"m{n}", (24, n), FLOAT, np.zeros((24, n), np.float32)) for n in (6, 24) for _ in "ifgo"
    ]
    assert (
        multiplied(Operator("UNIDIRECTIONAL_SEQUENCE_LSTM", [x, *matrices], [y]), INT8_KERNELS)
        == 40 * 96 * 30
    )
