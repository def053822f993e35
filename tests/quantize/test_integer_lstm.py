"""LSTMs in integers, made of float ones: LiteRT runs them, and thinflow to the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.quantize.fused_lstm import BATCH, INPUTS, STEPS, UNITS, network
from tests.quantize.programs import Builder, run, sqnr
from thinflow.ir.types import FLOAT, INT8
from thinflow.quantize.calibrate import calibrate
from thinflow.quantize.integer_lstm import CODE, float_matrices
from thinflow.quantize.recipe import Quantized, Recipe
from thinflow.quantize.schemes import quantize_program
from thinflow.tflite.model import Operator, Program, Tensor
from thinflow.tflite.writer import to_bytes

INTEGERS = Recipe(float_parts=frozenset())


def feeds(program: Program, count: int = 12) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(5)
    inputs = program.subgraphs[0].inputs
    return [
        {t.name: rng.standard_normal(t.shape or ()).astype(np.float32) for t in inputs} for _ in range(count)
    ]


def quantized(program: Program, recipe: Recipe = INTEGERS) -> Quantized[Program]:
    return quantize_program(program, recipe, calibrate(program, feeds(program), recipe).ranges)


def the_lstm(program: Program) -> Operator:
    return next(o for o in program.subgraphs[0].operators if o.code == CODE)


@pytest.mark.parametrize(
    "form",
    [{}, {"time_major": False}, {"start": 0.4}, {"fed": True}, {"clip": 1.0}],
    ids=["plain", "batch_major", "start", "fed", "clip"],
)
def test_it_is_near_the_float_one(form: dict[str, Any]) -> None:
    program = network(**form)
    made = quantized(program)
    assert not [o for o, _ in made.float_operators if o.code == CODE]
    kinds = {t.dtype.name for t in the_lstm(made.program).reads()}
    assert kinds == {"int8", "int16", "int32"}
    for feed in feeds(program, 3):
        wanted, found = (run(p, *feed.values())[0] for p in (program, made.program))
        assert sqnr(wanted, found) > 28
    # A second run starts where the first did.
    np.testing.assert_array_equal(found, run(made.program, *feed.values())[0])


@pytest.mark.parametrize(
    "form", [{}, {"time_major": False}, {"clip": 1.0}], ids=["plain", "batch_major", "clip"]
)
def test_thinflow_computes_the_same_bits(form: dict[str, Any], tmp_path: Path) -> None:
    program = network(**form)
    made = quantized(program).program
    (tmp_path / "lstm.tflite").write_bytes(to_bytes(made))
    graph = thinflow.load(tmp_path / "lstm.tflite")
    feed = feeds(program)[0]
    session = thinflow.Session(graph, engine="reference")
    (found,) = session.run(None, dict(zip([v.name for v in graph.inputs], feed.values(), strict=True)))
    np.testing.assert_array_equal(found, run(made, *feed.values())[0])


def test_the_cell_has_room_for_every_step() -> None:
    made = the_lstm(quantized(network()).program)
    # 12 steps: up to 12, so 4 bits in front of the point.
    assert float(made.inputs[19].quantization.scale[0]) == 2.0 ** (4 - 15)
    clipped = the_lstm(quantized(network(clip=1.0)).program)
    assert float(clipped.inputs[19].quantization.scale[0]) == 2.0**-15
    begun = the_lstm(quantized(network(start=5.0)).program)
    assert float(begun.inputs[19].quantization.scale[0]) == 2.0 ** (5 - 15)


def test_state_and_output_have_one_grid() -> None:
    made = the_lstm(quantized(network()).program)
    h, y, hidden = made.inputs[18], made.outputs[0], made.intermediates[-1]
    assert h.dtype is y.dtype is hidden.dtype is INT8
    grids = {(float(t.quantization.scale[0]), int(t.quantization.zero_point[0])) for t in (h, y, hidden)}
    assert len(grids) == 1


@pytest.mark.parametrize(
    ("recipe", "why"),
    [
        (Recipe(), "its state would have eight bits, which every step rounds again"),
        (Recipe(scheme="int16x8", float_parts=frozenset()), "LiteRT's integer LSTM has inputs of eight bits"),
        (Recipe(skip_ops={CODE}, float_parts=frozenset()), f"skip_ops names {CODE}"),
    ],
)
def test_who_chooses_otherwise(recipe: Recipe, why: str) -> None:
    program = network()
    made = quantized(program, recipe)
    assert why in [reason for o, reason in made.float_operators if o.code == CODE]
    assert the_lstm(made.program).inputs[0].dtype is FLOAT
    x = feeds(program)[0]
    assert sqnr(*(run(p, *x.values())[0] for p in (program, made.program))) > 60


def test_models_of_integers_have_it_in_integers() -> None:
    made = quantized(network(), Recipe(input_type="int8", output_type="int8"))
    assert {t.dtype.name for t in the_lstm(made.program).reads()} == {"int8", "int16", "int32"}
    assert not made.float_operators


@pytest.mark.parametrize("place", ["i9", "i20"])
def test_what_is_inside_unmeasured_stays_float(place: str) -> None:
    program = network()
    lstm, b = the_lstm(program), Builder(1)
    first = int(place[1:])
    for number in range(first, first + (3 if first == 9 else 4)):
        lstm.inputs[number] = b.normal(UNITS)
    made = quantized(program)
    reasons = [why for o, why in made.float_operators if o.code == CODE]
    assert reasons == ["its peepholes, projection or norms have ranges inside that are not measured"]


def test_a_state_that_others_read_stays_float() -> None:
    program = network()
    main = program.subgraphs[0]
    cell = the_lstm(program).inputs[19]
    last = Tensor("last", cell.shape, FLOAT)
    main.operators.append(Operator("ABS", [cell], [last]))
    main.outputs.append(last)
    made = quantized(program)
    assert [why for o, why in made.float_operators if o.code == CODE] == ["others read its state"]


def test_inputs_that_are_always_zero() -> None:
    program = network()
    zeros = {"in0": np.zeros((STEPS, BATCH, INPUTS), np.float32)}
    made = quantize_program(program, INTEGERS, calibrate(program, [zeros], INTEGERS).ranges).program
    assert the_lstm(made).outputs[0].dtype is INT8
    assert sqnr(*(run(p, zeros["in0"])[0] for p in (program, made))) > 28


@pytest.mark.parametrize(
    "places", [{}, {"i9": "normal", "i10": "normal", "i11": "normal"}], ids=["", "peepholes"]
)
@pytest.mark.parametrize(
    ("scheme", "kind"), [("dynamic", "int8"), ("int8_weights", "float"), ("int8", "float")]
)
def test_between_floats_its_matrices_are_stored_as_int8(
    scheme: str, kind: str, places: dict[str, str], tmp_path: Path
) -> None:
    program = network(units=16, **places)
    made = quantized(program, Recipe(scheme=scheme)).program
    assert {t.dtype.name for t in the_lstm(made).inputs[1:9] if t is not None} == {kind}
    stored = [t for t in made.subgraphs[0].constants() if t.dtype is INT8]
    assert len(stored) == 8 + (len(places) if scheme == "dynamic" else 0)
    for feed in feeds(program, 3):
        wanted, found = (run(p, *feed.values())[0] for p in (program, made))
        assert sqnr(wanted, found) > (36 if scheme == "dynamic" else 42)
    assert len(to_bytes(made)) < len(to_bytes(program)) - 1000
    # thinflow reads its own file.
    (tmp_path / "lstm.tflite").write_bytes(to_bytes(made))
    (again,) = thinflow.run(tmp_path / "lstm.tflite", feed).values()
    np.testing.assert_array_equal(again, found)


def test_matrices_that_are_computed_or_not_finite_stay_float() -> None:
    program = network(units=16)
    given = the_lstm(program).inputs
    assert list(float_matrices(the_lstm(program))) == [*range(1, 9)]
    given[3].data = np.full_like(given[3].array(), np.nan)
    assert not float_matrices(the_lstm(program))
    assert not quantized(program, Recipe(scheme="dynamic")).made
