"""Quantizing a whole graph in every scheme, tuning it, and finding the layer that loses most."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from thinflow import zoo
from thinflow.api import quantize_to_file
from thinflow.engines.litert import Model
from thinflow.errors import ParameterError
from thinflow.optimize.float_graph import float_graph
from thinflow.optimize.litert import FloatModel, float_model
from thinflow.optimize.quality import LOUDEST
from thinflow.optimize.quantize_job import observer_named, recipe_from
from thinflow.optimize.samples import Samples, rebind, samples_for
from thinflow.optimize.sensitivity import sensitivity
from thinflow.optimize.sqnr import SqnrMeter, before_squashing
from thinflow.quantize.recipe import SCHEMES, Recipe, chosen_recipe
from thinflow.zoo import digits


@pytest.fixture(scope="module")
def model_and_samples() -> tuple[FloatModel, Samples]:
    graph = digits.build(0)
    samples = samples_for(graph, zoo.calibration("digits", 48, 0))
    optimised = float_graph(graph, samples=samples, verify=False).graph
    moved = rebind(samples, graph, optimised)
    return float_model(optimised, moved), moved


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("schemes") / "digits.pb"
    thinflow.save(digits.build(0), made)
    return made


@pytest.mark.parametrize(
    ("scheme", "smaller"),
    [
        ("int8", 3.2),
        ("int16x8", 3.2),
        ("dynamic", 3.2),
        ("float16", 1.9),
        ("int8_weights", 3.2),
        ("int4_weights", 5),
    ],
)
def test_schemes_on_a_trained_model(path: Path, scheme: str, smaller: float) -> None:
    assert scheme in SCHEMES
    report = quantize_to_file(
        path,
        path.with_name(f"{scheme}.tflite"),
        zoo.calibration("digits", 48, 0),
        test=zoo.test_set("digits"),
        scheme=scheme,
    )
    assert report["float_bytes"] / report["size_bytes"] > smaller
    assert report["quality"].startswith("accuracy 9")
    assert report["sqnr_db"] > 25
    # Both are rounded, to one digit and to two.
    assert abs(float(report["noise"].removesuffix(" dB")) - report["sqnr_db"]) < 0.06


@pytest.mark.parametrize("scheme", ["float16", "dynamic", "int8_weights"])
def test_no_samples_needed(path: Path, scheme: str) -> None:
    made = thinflow.quantize(path, scheme=scheme)
    assert not made.calibration.ranges
    picture = np.asarray(zoo.test_set("digits")["image"][:1], np.float32)
    (scores,) = Model(made.content).run([picture])
    assert scores.argmax() == zoo.test_set("digits")["labels"][0]


@pytest.mark.parametrize(("scheme", "kind"), [("int8", "int8"), ("int8", "uint8"), ("int16x8", "int16")])
def test_integer_borders(path: Path, scheme: str, kind: str) -> None:
    recipe = Recipe(scheme=scheme, input_type=kind, output_type=kind)
    samples = zoo.calibration("digits", 48, 0)
    made = thinflow.quantize(path, samples, recipe=recipe, effort="none")
    model = Model(made.content)
    assert [p.spec.dtype.name for p in (*model.input_ports, *model.output_ports)] == [kind, kind]
    # Scores in integers, as those of a model that gives integers are.
    plain = Recipe(scheme=scheme, float_parts=frozenset())
    with_floats = thinflow.quantize(path, samples, recipe=plain, effort="none")
    picture = np.asarray(samples["image"][:1], np.float32)
    (expected,), (found,) = (Model(c).run([picture]) for c in (with_floats.content, made.comparable))
    np.testing.assert_array_equal(expected, found)


def test_optimize_in_another_scheme(path: Path, tmp_path: Path) -> None:
    report = thinflow.optimize(
        path, tmp_path, scheme="float16", calibration=zoo.calibration("digits", 20, 0), measure=False
    )
    assert report.files["int8"].name == "digits_float16.tflite"
    assert report.verdict.startswith("float16 is ")
    assert report.data()["scheme"] == "float16"
    assert "| float16 | digits_float16.tflite |" in report.markdown()


def test_unknown_scheme() -> None:
    with pytest.raises(ParameterError, match="there is no quantization scheme 'float61'") as error:
        thinflow.quantize("nothing.pb", scheme="float61")
    assert error.value.hint == "did you mean 'float16'?"


def test_scheme_and_recipe_that_differ() -> None:
    with pytest.raises(ParameterError, match="scheme is 'int8' and the recipe's is 'dynamic'"):
        chosen_recipe("int8", Recipe(scheme="dynamic"))
    assert chosen_recipe(None, None).scheme == "int8"


@pytest.mark.parametrize(
    ("scheme", "kind", "hint"),
    [("dynamic", "int8", "float32"), ("int8", "int16", "float32, int8, uint8"), ("int16x8", "int8", "int16")],
)
def test_borders_that_a_scheme_cannot_have(scheme: str, kind: str, hint: str) -> None:
    with pytest.raises(ParameterError, match=f"scheme '{scheme}' cannot have {kind} inputs") as error:
        recipe_from(scheme=scheme, input_type=kind)
    assert hint in error.value.hint


def test_observers_as_text() -> None:
    assert observer_named("mse") == ("mse", {})
    assert observer_named(" percentile(percent=99.9) ") == ("percentile", {"percent": 99.9})
    assert observer_named("mse(levels=16)") == ("mse", {"levels": 16})
    for text in ("percentile(percent=99", "mse(16)", "mse(levels=many)"):
        with pytest.raises(ParameterError) as error:
            observer_named(text)
        assert error.value.hint == "write percentile(percent=99.99)"


# ------------------------------------------------------------------------------------------- sensitivity


def test_sensitivity_lists_the_worst_layer_first(model_and_samples: tuple[FloatModel, Samples]) -> None:
    model, samples = model_and_samples
    losses = sensitivity(model, samples, scheme="int8", count=8)
    assert [loss.worst_db for loss in losses] == sorted(loss.worst_db for loss in losses)
    by_name = {loss.name: loss for loss in losses}
    assert by_name["conv3/Conv2D"].weights_db is not None
    assert by_name["conv3/Conv2D"].output_db is not None
    assert by_name["image"].weights_db is None
    assert all(20 < loss.worst_db <= LOUDEST for loss in losses)


def test_sensitivity_of_four_bits_is_worse_than_of_eight(
    model_and_samples: tuple[FloatModel, Samples],
) -> None:
    model, samples = model_and_samples
    four, eight = (
        {loss.name: loss for loss in sensitivity(model, samples, scheme=s, count=8)}
        for s in ("int4_weights", "int8_weights")
    )
    assert set(four) == set(eight)
    worse = [eight[n].weights_db - four[n].weights_db for n in four]
    assert max(worse) > 10
    assert all(loss.output_db is None for loss in four.values())


def test_layers_kept_float_are_not_rounded(model_and_samples: tuple[FloatModel, Samples]) -> None:
    model, samples = model_and_samples
    recipe = Recipe(scheme="int8_weights", skip_nodes=("conv3/*",))
    assert "conv3/Conv2D" not in {loss.name for loss in sensitivity(model, samples, recipe=recipe, count=2)}


def test_judging_looks_before_the_softmax(model_and_samples: tuple[FloatModel, Samples]) -> None:
    model, samples = model_and_samples
    shorter = before_squashing(model.program)
    assert "SOFTMAX" not in [o.code for o in shorter.subgraphs[0].operators]
    assert [o.code for o in model.program.subgraphs[0].operators][-1] == "SOFTMAX"
    picture = next(iter(model.feeds(samples)))
    meter = SqnrMeter(shorter, [list(picture.values())])
    assert meter.sqnr(shorter) == LOUDEST
    # As if a candidate gave NaN, which no tuning may take for an answer without noise.
    answers = meter._outputs(shorter)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(meter, "_outputs", lambda program: [[x * np.nan for x in xs] for xs in answers])
        assert -LOUDEST < meter.sqnr(shorter) < -400
