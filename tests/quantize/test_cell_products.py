"""Weights of recurrent layers, rounded by what they read of a sequence and of their own state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.quantize import fused_lstm, onnx_programs
from tests.quantize.cells import cell
from tests.quantize.programs import run, sqnr
from tests.quantize.related_inputs import related
from thinflow.quantize.cell_products import cell_products
from thinflow.quantize.fit import Fit
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.rescale import rescale

Feed = dict[str, np.ndarray]
INPUTS, UNITS = 24, 48


def onnx_cell(code: str, *, is_turned: bool = False, layout: int = 0) -> Any:
    """A recurrent op of two directions, and what its last step gives."""
    gates = {"LSTM": 4, "GRU": 3}[code]
    net = onnx_programs.Net(6, 1, INPUTS)
    w, r = (
        (net.rng.standard_normal((2, gates * UNITS, n)) * 0.2).astype(np.float32) for n in (INPUTS, UNITS)
    )
    x = net.op("Identity", net.x, shape=net.x.shape) if is_turned else net.x
    y = net.op(code, x, w, r, shape=(6, 2, 1, UNITS), hidden_size=UNITS, direction="bidirectional")
    if layout:
        net.program.operators[-1].options["layout"] = layout
    net.program.outputs = [y]
    return net.program


def onnx_answer(program: Any, feed: Feed) -> np.ndarray:
    return np.asarray(onnx_programs.run(program, feed)[0])


def litert_answer(program: Any, feed: Feed) -> np.ndarray:
    return run(program, *feed.values())[0]


@pytest.mark.parametrize(
    ("make", "answer", "scheme"),
    [
        pytest.param(cell, litert_answer, "int8", id="loop"),
        pytest.param(cell, litert_answer, "int8_weights", id="loop, stored whole"),
        pytest.param(lambda: fused_lstm.network(units=32), litert_answer, "int8", id="operator"),
        pytest.param(lambda: onnx_cell("LSTM"), onnx_answer, "int8", id="LSTM"),
        pytest.param(lambda: onnx_cell("GRU"), onnx_answer, "int8", id="GRU"),
    ],
)
def test_weights_of_cells_make_up_for_one_another(
    make: Callable[[], Any], answer: Callable[[Any, Feed], np.ndarray], scheme: str
) -> None:
    program = make()
    if answer is onnx_answer:
        pytest.importorskip("onnxruntime")
    feeds = related(program, 40)
    fit = Fit(program, feeds[:32], feeds[:32], threads=1)
    found = {}
    for rounding in ("nearest", "gptq"):
        made = fit.quantized(Recipe(scheme=scheme, rounding=rounding)).program
        pairs = [(answer(program, feed), answer(made, feed)) for feed in feeds[32:]]
        found[rounding] = sqnr(*(np.concatenate(side) for side in zip(*pairs, strict=True)))
    assert found["gptq"] > found["nearest"] + 1.0, found


def test_a_sequence_of_unlike_columns_is_scaled_for_the_operator_that_reads_it() -> None:
    program = onnx_cell("GRU", is_turned=True)
    sizes = np.geomspace(0.1, 50, INPUTS).astype(np.float32)
    feeds = [{"x": feed["x"] * sizes} for feed in related(program, 4)]
    made = rescale(program, Recipe(scale_inputs=True), feeds)
    assert made.scaled_inputs == ("x",)
    for feed in feeds:
        np.testing.assert_allclose(onnx_answer(made.program, feed), onnx_answer(program, feed), atol=1e-4)


def test_batches_in_front_are_left_alone() -> None:
    assert len([*cell_products(onnx_cell("LSTM"), Recipe())]) == 2
    assert not [*cell_products(onnx_cell("LSTM", layout=1), Recipe())]
