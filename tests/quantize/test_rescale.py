"""Networks with channels of very unequal size do not collapse in eight bits, without being asked to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from benchmarks.ptq.data import CALIBRATION, TEST, digits, drawn_for
from tests.quantize.cells import INPUTS, cell
from tests.quantize.programs import Builder, run, sqnr
from thinflow.engines.litert import Model
from thinflow.ir.types import FLOAT
from thinflow.optimize.climb import Goal, climb
from thinflow.optimize.float_graph import float_graph
from thinflow.optimize.litert import float_model
from thinflow.optimize.rungs import Best
from thinflow.optimize.rungs.channels import inputs, inputs_of_cells, outputs
from thinflow.optimize.samples import rebind, samples_for
from thinflow.quantize.fit import Fit
from thinflow.quantize.placement import SCALES
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.rescale import UNEQUAL, ScaledEnds, rescale
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor

MODELS = Path(__file__).parents[2] / "benchmarks" / "ptq" / "models"


@pytest.mark.parametrize("scheme", ["int8", "int16x8", "dynamic", "int8_weights"])
def test_a_badly_scaled_network_answers_as_the_plain_one(scheme: str) -> None:
    calibration, test = digits(60, CALIBRATION), digits(200, TEST)
    right = {}
    for name in ("plain", "plain_scaled"):
        made = thinflow.quantize(MODELS / f"{name}.keras", {"image": calibration.x}, scheme=scheme)
        model = Model(made.content)
        found = np.concatenate([model.run([x[None]])[0] for x in test.x])
        right[name] = (found.argmax(1) == test.y).mean()
        told = [text for text in made.warnings if "were rescaled" in text]
        assert len(told) == (name == "plain_scaled")
    assert right["plain_scaled"] >= right["plain"] - 0.005
    assert "which changes no answer in float" in told[0]


@pytest.mark.parametrize("name", ["plain", "depthwise", "residual", "inverted", "gated"])
def test_ordinary_networks_are_far_from_unequal(name: str) -> None:
    """What `UNEQUAL` stands on: channels of trained networks differ by a few times."""
    graph = thinflow.load(MODELS / f"{name}.keras")
    (x,) = graph.inputs
    given = samples_for(graph, {x.name: drawn_for(name, 32, CALIBRATION).x})
    plain = float_graph(graph, samples=given, verify=False).graph
    model = float_model(plain, rebind(given, graph, plain))
    found = rescale(model.program, Recipe(rescale="all"), list(model.feeds(rebind(given, graph, plain))))
    assert found.groups
    assert found.ratio < 4 < UNEQUAL


def features(count: int, columns: int = 8) -> list[np.ndarray]:
    """Rows of which each column is up to 500 times the size of another."""
    rng, sizes = np.random.default_rng(0), np.geomspace(0.1, 50, columns)
    return [(rng.uniform(-1, 1, (1, columns)) * sizes).astype(np.float32) for _ in range(count)]


def test_inputs_of_unlike_columns_are_scaled_in_the_model() -> None:
    b = Builder(1)
    w = b.const(b.rng.standard_normal((24, 8)) / np.geomspace(0.1, 50, 8))
    h = b.op("FULLY_CONNECTED", b.input(1, 8), w, b.normal(24), fused_activation_function="RELU")
    program = b.program(b.op("FULLY_CONNECTED", h, b.normal(4, 24), b.normal(4)))
    feeds = [{"in0": x} for x in features(32)]
    found: dict[str, float] = {}
    for name, recipe in (("plain", Recipe()), ("scaled", Recipe(scale_inputs=True))):
        fit = Fit(program, feeds, feeds)
        made = fit.quantized(recipe)
        answers = [np.concatenate([run(p, x["in0"])[0] for x in feeds]) for p in (program, made.program)]
        found[name] = sqnr(*answers)
    assert found["scaled"] > found["plain"] + 10
    first = made.program.subgraphs[0].operators[0]
    assert (first.code, made.float_operators[0]) == ("MUL", (first, SCALES))
    (candidate,) = inputs(Best(Recipe(), Recipe(), fit))
    assert not [*inputs_of_cells(Best(Recipe(), Recipe(), fit))]
    assert candidate.recipe == recipe
    assert not [*inputs(Best(recipe, recipe, fit))]
    assert not [*inputs(Best(*[Recipe(input_type="int8", output_type="int8")] * 2, fit))]


def test_columns_of_a_sequence_are_scaled_for_the_loop_that_reads_it() -> None:
    program = cell()
    feeds = [{"x": x} for x in features(8, INPUTS)]
    made = rescale(program, Recipe(scale_inputs=True), feeds)
    assert made.scaled_inputs == ("x",)
    before, after = program.subgraphs[2], made.program.subgraphs[2]
    ratio = after.operators[2].inputs[1].array() / before.operators[2].inputs[1].array()
    assert (ratio[:, INPUTS:] == 1).all()
    assert np.ptp(np.log10(ratio[0, :INPUTS])) > 1
    for feed in feeds:
        np.testing.assert_allclose(run(made.program, feed["x"])[0], run(program, feed["x"])[0], atol=1e-5)
    (once_more,) = inputs_of_cells(Best(Recipe(), Recipe(), Fit(program, feeds, feeds)))
    assert once_more.recipe.scale_inputs
    # What a loop changes, and what its condition reads, keeps its numbers.
    changed, judged = cell(), cell()
    body = changed.subgraphs[2]
    body.outputs[1] = Tensor("x_again", (1, INPUTS), FLOAT)
    body.operators.append(Operator("TANH", [body.inputs[1]], [body.outputs[1]]))
    judged.subgraphs[1].outputs.append(judged.subgraphs[1].inputs[1])
    for other in (changed, judged):
        assert rescale(other, Recipe(scale_inputs=True), feeds).scaled_inputs == ()


def test_features_that_an_op_of_somebody_else_makes_are_scaled_behind_it() -> None:
    b = Builder(1)
    made = b.op("CUSTOM", b.input(1, 8))
    b.operators[-1].custom_code = "Theirs"
    y = b.op("FULLY_CONNECTED", made, b.normal(4, 8), b.normal(4))
    # No runtime has it, and tells its sizes.
    made.shape, y.shape = (1, 8), (1, 4)
    program = Program([Subgraph([b.operators[0].inputs[0]], [y], b.operators)])
    ends = ScaledEnds(program, Recipe(scale_inputs=True))
    (product,) = ends.first
    assert product.inputs[0] is made
    operators = ends.program.subgraphs[0].operators
    assert [o.code for o in operators] == ["CUSTOM", "MUL", "FULLY_CONNECTED"]
    assert operators[2].inputs[0] is product.outputs[0]
    assert not ends.last


def test_outputs_of_unlike_columns_are_scaled_in_float() -> None:
    b = Builder(2)
    h = b.op("FULLY_CONNECTED", b.input(1, 8), b.normal(24, 8), b.normal(24))
    sizes = np.array([[3000.0], [100.0], [1.0], [0.02]])
    w, bias = b.const(b.rng.standard_normal((4, 24)) * sizes), b.const(b.rng.standard_normal(4) * sizes[:, 0])
    program = b.program(b.op("FULLY_CONNECTED", h, w, bias))
    feeds = [{"in0": np.random.default_rng(i).standard_normal((1, 8)).astype(np.float32)} for i in range(32)]
    # The judge of a climb hears the small columns, too.
    way = climb(Goal(program, {}), feeds, Recipe(), "fast")
    assert way.recipe == Recipe(scale_outputs=True)
    assert way.trials[0].sqnr_db < 10 < 30 < way.trials[-1].sqnr_db
    made = Fit(program, feeds, feeds).quantized(way.recipe)
    wanted, found = (np.concatenate([run(p, x["in0"])[0] for x in feeds]) for p in (program, made.program))
    assert all(sqnr(wanted[:, n], found[:, n]) > 30 for n in range(4))
    last = made.program.subgraphs[0].operators[-1]
    assert (last.code, last.outputs[0].name) == ("MUL", program.subgraphs[0].outputs[0].name)
    asked = Recipe(input_type="int8", output_type="int8")
    assert not [*outputs(Best(asked, asked, Fit(program, feeds, feeds)))]
