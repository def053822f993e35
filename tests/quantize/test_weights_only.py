"""Layers whose arithmetic stays float while their weights are stored as int8."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.quantize import onnx_programs
from tests.quantize.programs import Builder, codes, quantize, run, samples, sqnr
from thinflow.errors import ParameterError
from thinflow.ir.types import FLOAT, INT8
from thinflow.quantize.calibrate import calibrate
from thinflow.quantize.fit import Fit
from thinflow.quantize.int8 import quantize_int8
from thinflow.quantize.recipe import Recipe, check_recipe
from thinflow.quantize.rounding import Grid, Rounding
from thinflow.tflite.model import Program


def network() -> Program:
    b = Builder(5)
    x = b.conv(b.input(1, 8, 8, 4), 32)
    pooled = b.op("MEAN", b.conv(x, 32), b.const(np.array([1, 2])), keep_dims=False)
    return b.program(b.op("FULLY_CONNECTED", pooled, b.normal(40, 32), b.normal(40)))


def test_weights_are_unpacked_in_front_of_a_float_layer() -> None:
    program = network()
    result = quantize(program, weights_only=("node3",))
    assert codes(result.program)[-3:] == ["DEQUANTIZE", "DEQUANTIZE", "FULLY_CONNECTED"]
    dense = result.program.subgraphs[0].operators[-1]
    writer = {o.outputs[0]: o for o in result.program.subgraphs[0].operators}
    (stored,) = writer[dense.inputs[1]].inputs
    assert (stored.dtype, dense.outputs[0].dtype) == (INT8, FLOAT)
    assert result.float_operators == [(dense, "weights_only has 'node3'")]
    assert result.made[program.subgraphs[0].operators[-1]] is dense
    assert stored.name in {d.tensor for d in result.decisions}


@pytest.mark.parametrize("plain", [False, True], ids=["xnnpack", "builtin"])
def test_answers_are_nearer_than_those_of_integers(plain: bool) -> None:
    program = network()
    fresh = samples(program, 20, seed=7)

    def answers(of: Program) -> np.ndarray:
        return np.concatenate([run(of, f["in0"], plain=plain)[0] for f in fresh])

    wanted = answers(program)
    whole, only, kept = (
        sqnr(wanted, answers(quantize(program, **{field: ("node3",)} if field else {}).program))
        for field in ("", "weights_only", "skip_nodes")
    )
    assert whole < only <= kept + 0.1


def test_layers_of_few_weights_keep_them() -> None:
    b = Builder(5)
    program = b.program(b.conv(b.conv(b.input(1, 8, 8, 4), 4), 4))
    result = quantize(program, weights_only=("node1",))
    assert all(t.dtype is FLOAT for t in result.program.subgraphs[0].operators[-1].reads())
    assert [why for _, why in result.float_operators] == ["weights_only has 'node1'"]


def test_skipping_wins() -> None:
    result = quantize(network(), weights_only=("node*",), skip_nodes=("node3",))
    dense = result.program.subgraphs[0].operators[-1]
    assert dense.inputs[1].is_constant
    assert [why for _, why in result.float_operators][-1] == "skip_nodes has 'node3'"


def test_rounding_and_biases_go_with_the_stored_weights() -> None:
    class Downward(Rounding):
        def codes(self, w: np.ndarray, grid: Grid) -> np.ndarray:
            return np.floor(w / grid.along(w.ndim)).clip(-127, 127).astype(np.int8)

        def bias(self, w: np.ndarray, grid: Grid, bias: np.ndarray) -> np.ndarray:
            return bias + 1

    program = network()
    recipe = Recipe(weights_only=("node3",))
    ranges = calibrate(program, samples(program), recipe).ranges
    plain, other = (
        quantize_int8(program, ranges, recipe, **chosen).program.subgraphs[0].operators
        for chosen in ({}, {"rounding": Downward()})
    )
    assert plain[-1].inputs[2].array().dtype == other[-1].inputs[2].array().dtype == np.float32
    np.testing.assert_allclose(other[-1].inputs[2].array(), plain[-1].inputs[2].array() + 1)
    near, below = (
        next(t.array() for o in ops for t in o.reads() if t.dtype is INT8 and t.shape == (40, 32))
        for ops in (plain, other)
    )
    assert set(np.unique(near - below)) == {0, 1}


def test_of_a_part_only_its_own_patterns_are_left() -> None:
    recipe = Recipe(weights_only=("node3", "node0"), skip_nodes=("node1",))
    assert recipe.for_names(["node0", "node1"]) == Recipe(weights_only=("node0",), skip_nodes=("node1",))


def test_every_rounding_is_learnt_of_such_layers() -> None:
    program = network()
    feeds = samples(program)
    recipe = Recipe(weights_only=("node3",), rounding="gptq", correct_bias=True)
    made = Fit(program, feeds, feeds).quantized(recipe)
    plain = Fit(program, feeds, feeds).quantized(Recipe(weights_only=("node3",)))
    biases = [one.program.subgraphs[0].operators[-1].inputs[2].array() for one in (made, plain)]
    assert np.abs(biases[0] - biases[1]).max() > 0


def test_a_name_that_nothing_has() -> None:
    program = network()
    with pytest.raises(ParameterError, match="no operator of the LiteRT model is called 'node33'") as error:
        Fit(program, samples(program), []).quantized(Recipe(weights_only=("node33",)))
    assert error.value.hint.startswith("did you mean 'node3'")


@pytest.mark.parametrize("scheme", ["int8", "int16x8"])
def test_layers_with_ranges_of_each_run(scheme: str) -> None:
    program = network()
    result = quantize(program, scheme=scheme, dynamic_nodes=("node3",))
    dense = result.program.subgraphs[0].operators[-1]
    x, weights, bias = dense.inputs
    assert (x.dtype, weights.dtype, bias.dtype, dense.outputs[0].dtype) == (FLOAT, INT8, FLOAT, FLOAT)
    assert dense.options["asymmetric_quantize_inputs"]
    assert result.float_operators == [(dense, "dynamic_nodes has 'node3'")]
    assert weights.name in {d.tensor for d in result.decisions}
    assert result.made[program.subgraphs[0].operators[-1]] is dense
    x = samples(program)[0]["in0"]
    assert sqnr(run(program, x)[0], run(result.program, x)[0]) > 25


def test_what_both_fields_name_has_its_weights_unpacked() -> None:
    result = quantize(network(), dynamic_nodes=("node*",), weights_only=("node3",))
    assert codes(result.program)[-2:] == ["DEQUANTIZE", "FULLY_CONNECTED"]


def test_onnx_has_no_layers_with_ranges_of_each_run() -> None:
    with pytest.raises(ParameterError, match="dynamic_nodes names layers of LiteRT") as error:
        check_recipe(Recipe(dynamic_nodes=("node3",)))
    assert error.value.hint == "for .onnx use weights_only"


@pytest.mark.parametrize("field", ["weights_only", "dynamic_nodes"])
@pytest.mark.parametrize("scheme", ["float16", "int8_weights", "dynamic"])
def test_schemes_without_integer_activations_have_no_use_for_it(scheme: str, field: str) -> None:
    with pytest.raises(ParameterError, match=f"{field} says which layers stay float") as error:
        Recipe(scheme=scheme, **{field: ("node3",)})
    assert error.value.hint == "leave it out, or choose int16x8 or int8"


def test_a_string_is_no_collection() -> None:
    with pytest.raises(ParameterError, match="weights_only is a string"):
        Recipe(weights_only="abc")  # type: ignore[arg-type]


def test_the_same_in_onnx() -> None:
    net = onnx_programs.Net(1, 4, 6, 6)
    y = net.conv(net.conv(net.x))
    last = net.program.operators[-1]
    result = net.quantize(y, weights_only=("node1",))
    assert [(o.origin, why) for o, why in result.float_operators] == [("node1", "weights_only has 'node1'")]
    conv = result.made[last]
    writer = {o.outputs[0]: o for o in result.program.operators}
    # Cast and Mul, which ONNX Runtime runs once.
    scaling = writer[conv.inputs[1]]
    assert scaling.code == "Mul"
    assert writer[scaling.inputs[0]].code == "Cast"
    assert writer[scaling.inputs[0]].inputs[0].array().dtype == np.int8
    assert conv.inputs[2].dtype is FLOAT
    assert y not in {o.inputs[0] for o in result.program.operators if o.code == "QuantizeLinear"}
    wanted, found, whole = (
        onnx_programs.run(p, net.samples()[0])[0]
        for p in (net.program, result.program, net.quantize(y).program)
    )
    assert sqnr(wanted, found) > sqnr(wanted, whole)


def test_onnx_runtime_unpacks_weights_when_it_loads_a_model(tmp_path: Path) -> None:
    net = onnx_programs.Net(1, 4, 6, 6)
    y = net.conv(net.conv(net.x))
    program = net.quantize(y, weights_only=("node1",)).program
    found = onnx_programs.optimized_codes(program, net.samples()[0], tmp_path)
    assert not found["Cast"]
    assert not found["Mul"]
