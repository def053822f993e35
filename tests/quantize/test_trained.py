"""Ranges that FAKE_QUANT operators state, and what follows from them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.quantize.programs import Builder
from thinflow.quantize.int8 import quantize_int8
from thinflow.quantize.ranges import Range
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.trained import spread, without_fake_quants
from thinflow.tflite.model import Program, Tensor


def fake(b: Builder, x: Tensor, low: float, high: float) -> Tensor:
    return b.op("FAKE_QUANT", x, min=low, max=high, num_bits=8)


def codes(program: Program) -> list[str]:
    return [o.code for o in program.subgraphs[0].operators]


def test_a_program_without_any_is_left_alone() -> None:
    b = Builder()
    program = b.program(b.op("ADD", b.input(1, 4), b.const(np.float32(1))))
    assert without_fake_quants(program) == (program, {})


def test_what_was_simulated_has_the_range() -> None:
    b = Builder()
    x = b.input(1, 4)
    y = b.op("ADD", fake(b, x, -1, 1), b.const(np.float32(1)))
    z = b.op("MUL", fake(b, y, 0, 2), b.const(np.float32(2)))
    program = b.program(z)
    made, trained = without_fake_quants(program)
    assert codes(made) == ["ADD", "MUL"]
    assert codes(program) == ["FAKE_QUANT", "ADD", "FAKE_QUANT", "MUL"]  # the given one stays as it is
    assert {t: r[:2] for t, r in trained.items()} == {x: (-1, 1), y: (0, 2)}
    assert made.subgraphs[0].operators[1].inputs[0] is y
    made.validate()


def test_an_output_keeps_its_tensor() -> None:
    b = Builder()
    y = fake(b, b.op("ADD", b.input(1, 4), b.const(np.float32(1))), 0, 2)
    made, trained = without_fake_quants(b.program(y))
    assert codes(made) == ["ADD"]
    assert made.subgraphs[0].outputs == [y] == made.subgraphs[0].operators[0].outputs
    assert trained[y][:2] == (0, 2)
    made.validate()


def test_an_input_that_goes_straight_out_stays() -> None:
    b = Builder()
    x = b.input(1, 4)
    y = fake(b, x, 0, 2)
    made, trained = without_fake_quants(b.program(y))
    assert codes(made) == ["FAKE_QUANT"]
    assert trained[x] == trained[y]


def test_two_ranges_of_one_tensor() -> None:
    b = Builder()
    x = b.input(1, 4)
    # Apart by less than their steps.
    made, trained = without_fake_quants(b.program(b.op("ADD", fake(b, x, -1, 3), fake(b, x, -1.005, 2.99))))
    assert codes(made) == ["ADD"]
    assert trained[x][:2] == (-1.005, 3)


def test_a_range_that_cuts_off_what_another_reader_has_stays() -> None:
    """In a quantized file that may be all there is of a Relu."""
    b = Builder()
    x = b.input(1, 4)
    y = fake(b, x, 0, 3)
    z = b.op("ADD", y, fake(b, x, -1, 3))
    made, trained = without_fake_quants(b.program(z))
    assert codes(made) == ["FAKE_QUANT", "ADD"]
    assert {t: r[:2] for t, r in trained.items()} == {x: (-1, 3), y: (0, 3)}
    quantized = quantize_int8(made, trained | {z: Range(-1, 6)}, Recipe()).program
    assert codes(quantized) == ["QUANTIZE", "QUANTIZE", "ADD", "DEQUANTIZE"]


def test_so_does_one_behind_another() -> None:
    b = Builder()
    x = b.input(1, 4)
    wide = fake(b, x, -1, 3)
    y = b.op("ABS", fake(b, wide, 0, 3))
    z = b.op("MUL", y, fake(b, wide, -4, 4))  # which cuts off nothing that is left
    made, trained = without_fake_quants(b.program(z))
    assert codes(made) == ["FAKE_QUANT", "ABS", "MUL"]
    assert trained[x][:2] == (-1, 3)


def test_what_moves_numbers_around_shares_the_range() -> None:
    b = Builder()
    x = b.input(1, 4)
    y = b.op("RESHAPE", x, b.const(np.array([2, 2], np.int32)))
    z = b.op("TRANSPOSE", y, b.const(np.array([1, 0], np.int32)))
    found = spread(b.program(z), {y: Range(-1, 3)})
    assert {t: r[:2] for t, r in found.items()} == {x: (-1, 3), y: (-1, 3), z: (-1, 3)}


@pytest.mark.parametrize(
    ("code", "expected"),
    [("RELU", (0, 3)), ("RELU6", (0, 3)), ("RELU_N1_TO_1", (-1, 1)), ("MEAN", (-2, 3)), ("ABS", None)],
)
def test_what_bounds_its_result(code: str, expected: tuple[float, float] | None) -> None:
    b = Builder()
    x = b.input(1, 4)
    more = [b.const(np.array([1], np.int32))] if code == "MEAN" else []
    y = b.op(code, x, *more)
    found = spread(b.program(y), {x: Range(-2, 3)})
    assert (found[y][:2] if y in found else None) == expected
    assert found[x][:2] == (-2, 3)


def test_parts_with_ranges_of_their_own_leave_the_whole_without() -> None:
    """On the grid of one of them the other's numbers would be rounded twice."""
    b = Builder()
    x = b.input(2, 4)
    low, high = (b.op("RESHAPE", x, b.const(np.array(n, np.int32))) for n in ([8], [4, 2]))
    program = b.program(low, high)
    assert x not in spread(program, {low: Range(-1, 3), high: Range(-1, 2)})
    assert spread(program, {low: Range(-1, 3), high: Range(-1, 3)})[x] == Range(-1, 3)


def test_what_the_kernel_fixes() -> None:
    b = Builder()
    y = b.op("SOFTMAX", b.input(1, 4), beta=1.0)
    assert spread(b.program(y), {})[y][:2] == (0, 255 / 256)
