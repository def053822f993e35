"""Products of joined inputs taken apart in the bodies of loops: the same sums, less lost in eight bits."""

from __future__ import annotations

import numpy as np
import pytest

from tests.quantize.cells import INPUTS, STEPS, UNITS, cell
from tests.quantize.programs import Builder, codes, run, sqnr
from thinflow.quantize.calibrate import calibrate
from thinflow.quantize.macs import recurrent_multiplications
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.schemes import quantize_program
from thinflow.quantize.split_products import with_split_products
from thinflow.tflite.model import Program


def joined(b: Builder, *, axis: int = -1, act: str = "NONE", bias: bool = True) -> Program:
    x, h = b.input(2, INPUTS), b.input(2, UNITS)
    both = b.op("CONCATENATION", x, h, axis=axis, fused_activation_function="NONE")
    w = b.normal(UNITS, INPUTS + UNITS, scale=0.1)
    more = [b.normal(UNITS)] if bias else []
    return b.program(b.op("FULLY_CONNECTED", both, w, *more, fused_activation_function=act))


@pytest.mark.parametrize("bias", [True, False])
def test_a_sum_of_products_is_the_product(bias: bool) -> None:
    program = joined(Builder(), bias=bias)
    split = Program([with_split_products(program.subgraphs[0], 1)])
    assert codes(split) == ["FULLY_CONNECTED", "FULLY_CONNECTED", "ADD"]
    rng = np.random.default_rng(1)
    feeds = [rng.standard_normal((2, n)).astype(np.float32) for n in (INPUTS, UNITS)]
    np.testing.assert_allclose(run(split, *feeds)[0], run(program, *feeds)[0], atol=1e-4)
    # Layers that share their weights share the parts.
    assert len(split.subgraphs[0].constants()) == 2 + bias


def test_three_parts_are_added_one_after_the_other() -> None:
    b = Builder()
    parts = [b.input(1, n) for n in (8, 16, 24)]
    both = b.op("CONCATENATION", *parts, axis=1, fused_activation_function="NONE")
    program = b.program(b.op("FULLY_CONNECTED", both, b.normal(10, 48), b.normal(10)))
    split = Program([with_split_products(program.subgraphs[0], 1)])
    assert codes(split).count("ADD") == 2
    feeds = [np.random.default_rng(n).standard_normal((1, n)).astype(np.float32) for n in (8, 16, 24)]
    np.testing.assert_allclose(run(split, *feeds)[0], run(program, *feeds)[0], atol=1e-4)


def test_what_somebody_else_reads_stays() -> None:
    program = joined(Builder())
    main = program.subgraphs[0]
    main.outputs.append(main.operators[0].outputs[0])
    assert next(o.code for o in with_split_products(main, 1).operators) == "CONCATENATION"


@pytest.mark.parametrize(("axis", "act", "fewest"), [(0, "NONE", 1), (-1, "RELU", 1), (-1, "NONE", 10**6)])
def test_what_stays_whole(axis: int, act: str, fewest: int) -> None:
    b = Builder()
    if axis == 0:
        both = b.op("CONCATENATION", b.input(2, 64), b.input(2, 64), axis=0, fused_activation_function="NONE")
        program = b.program(b.op("FULLY_CONNECTED", both, b.normal(64, 64), None))
    else:
        program = joined(b, axis=axis, act=act)
    assert with_split_products(program.subgraphs[0], fewest) is program.subgraphs[0]


@pytest.mark.parametrize("scheme", ["dynamic", "int8", "int16x8"])
def test_a_state_beside_louder_inputs_keeps_its_bits(scheme: str) -> None:
    program, recipe = cell(), Recipe(scheme=scheme)
    x = (30 * np.random.default_rng(2).standard_normal((1, INPUTS))).astype(np.float32)
    ranges = calibrate(program, [{"x": x}], recipe).ranges if recipe.needs_samples else None
    result = quantize_program(program, recipe, ranges)
    body = result.program.subgraphs[2]
    products = [o for o in body.operators if o.code == "FULLY_CONNECTED"]
    assert [str(o.inputs[1].dtype) for o in products] == ["int8"] * 2 if scheme == "dynamic" else products
    assert "CONCATENATION" not in {o.code for o in body.operators}
    assert sqnr(run(program, x)[0], run(result.program, x)[0]) > 30  # 11 with one range for both


def test_products_of_all_turns_count() -> None:
    assert recurrent_multiplications(cell()) == STEPS * UNITS * (INPUTS + UNITS)
