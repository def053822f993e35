"""Trained networks with samples as they should be, about which nothing is said, and with spoilt ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import thinflow
from benchmarks.ptq import data
from benchmarks.ptq.cases import MODELS
from tests.night import AT_NIGHT
from thinflow.ir.graph import Graph
from thinflow.load.graphs import load_for_inference
from thinflow.optimize.examination import examined
from thinflow.optimize.float_graph import float_graph
from thinflow.optimize.litert import float_model
from thinflow.optimize.samples import rebind, samples_for
from thinflow.quantize.doctor.findings import Finding
from thinflow.quantize.recipe import Recipe

NETWORKS = sorted(path.stem for path in MODELS.glob("*.keras"))
Array = np.ndarray[Any, Any]


@cache
def network(name: str) -> Graph:
    return load_for_inference(thinflow.load(MODELS / f"{name}.keras"))[0]


def found(name: str, x: Array, test: Array | None = None, labels: Array | None = None) -> list[Finding]:
    """What warns of samples for a trained network."""
    graph = network(name).clone()
    key = graph.inputs[0].name
    given = {key: x.astype(np.float32)} | ({} if labels is None else {"labels": labels})
    samples = samples_for(graph, given)
    prepared = float_graph(graph, samples=samples, runtime="litert").graph
    bound = rebind(samples, graph, prepared)
    judges = bound if test is None else rebind(samples_for(graph, {key: test}), graph, prepared)
    model = float_model(prepared, bound)
    # What cannot be run is an error here: taken for nothing to say, it would be a riddle under load.
    return [f for f in examined(model, graph, (samples, bound), judges, Recipe()) if f.warns]


@pytest.mark.parametrize("name", NETWORKS)
def test_good_samples_are_let_alone(name: str) -> None:
    given, test = (data.drawn_for(name, 100, seed) for seed in (data.CALIBRATION, data.TEST))
    assert found(name, given.x, test.x) == []


def _noise(x: Array) -> Array:
    return np.random.default_rng(0).uniform(x.min(), x.max(), x.shape)


def _flat(x: Array) -> Array:
    return np.broadcast_to(x.mean(tuple(range(1, x.ndim)), keepdims=True), x.shape)


def _outlier(x: Array) -> Array:
    return np.concatenate([x[:3], x[3:4] * 50, x[4:]])


SPOILT: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "never scaled": ("scale", lambda x: x * 255),
    "divided twice": ("scale", lambda x: x / 255),
    "scaled twice": ("scale", lambda x: (x - 127.5) / 127.5),
    "noise": ("noise", _noise),
    "flat": ("constant", _flat),
    "the same": ("duplicates", lambda x: np.repeat(x[:1], len(x), 0)),
    "few different": ("duplicates", lambda x: np.repeat(x[: len(x) // 4], 4, 0)),
    "one is loud": ("outliers", _outlier),
}


# By day each network meets a third of them, and each of them a third of the networks.
@pytest.mark.parametrize(
    ("name", "how"),
    [(n, h) for i, n in enumerate(NETWORKS) for j, h in enumerate(SPOILT) if AT_NIGHT or (i + j) % 6 == 0],
)
def test_spoilt_samples_are_told(name: str, how: str) -> None:
    check, spoil = SPOILT[how]
    given = found(name, spoil(data.drawn_for(name, 64, data.CALIBRATION).x))
    # Where the last layer is taken for scores, "answers" that never change are as much of a warning.
    also = {"one_class"} if check == "scale" else set()
    assert {check, *also}.intersection(finding.check for finding in given), given


@pytest.mark.parametrize("name", ["plain", "lstm", "mobile"])
def test_pixels_where_small_numbers_are_expected(name: str) -> None:
    said = found(name, (data.drawn_for(name, 64, data.CALIBRATION).x + 1) * 127.5)[0]
    assert "the samples seem to be not scaled" in said.sentence
    assert "scale them as x / 127.5 - 1" in said.mend or "divide them by 255" in said.mend


def test_samples_of_one_class_by_answers_and_by_labels() -> None:
    drawn = data.drawn_for("mobile", 400, 5)
    same = drawn.x[drawn.y == 2][:40]
    (said,) = found("mobile", same)
    assert said.check == "one_class"
    assert "are answered with class 2" in said.sentence
    assert "--samples N" in said.mend
    (said,) = found("mobile", same, labels=np.full(len(same), 2))
    assert said.sentence == "all samples are labelled '2'"


def test_a_loud_sample_is_named_with_its_tensor_and_cost() -> None:
    x = data.drawn_for("mobile", 100, data.CALIBRATION).x
    (said,) = [f for f in found("mobile", _outlier(x)) if f.check == "outliers"]
    assert said.sentence.startswith("sample 3 sets the range of 'image' alone: 50")
    assert said.measured
    assert said.cost_db is not None
    assert said.cost_db > 10
    assert "dB (measured): take it out" in said.text


def test_judges_that_reach_farther_than_the_ranges() -> None:
    given, test = (data.drawn_for("residual", 64, seed).x for seed in (data.CALIBRATION, data.TEST))
    (said,) = [f for f in found("residual", given * 0.2 - 0.1, test * 1.5) if f.check == "clipping"]
    assert "samples to judge on reach" in said.sentence
    assert said.measured


@pytest.mark.parametrize("name", ["mobile", "residual", "points", "plain"])
def test_numbers_of_half_the_span(name: str) -> None:
    """0 to 1 where a network was trained on -1 to 1, and the other way round: no size gives that away."""
    x = data.drawn_for(name, 64, data.CALIBRATION).x
    other, mend = ((x + 1) / 2, "2 x - 1") if x.min() < 0 else (x * 2 - 1, "(x + 1) / 2")
    (said,) = found(name, other)
    assert said.check == "scale"
    assert mend in said.mend
    assert said.measured


def test_colours_normalised_as_for_another_network() -> None:
    x = (data.drawn_for("gated", 64, data.CALIBRATION).x + 1) / 2
    normalised = (x - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    (said,) = found("gated", normalised)
    assert "normalised as those of ImageNet where -1 to 1 is expected" in said.sentence
    assert "the first batch norm sees" in said.sentence


def test_samples_that_are_all_nearly_one() -> None:
    x = data.drawn_for("points", 64, data.CALIBRATION).x
    nearly = x[:1] + 1e-4 * np.random.default_rng(0).normal(size=x.shape)
    assert [said.check for said in found("points", nearly)] == ["duplicates"]
