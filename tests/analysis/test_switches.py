"""Training switches: known by use and by name, set for inference, and seen by whoever opens a model."""

from __future__ import annotations

import pytest

from tests.library import constant, graph_of, node
from tests.load.builders import shape
from thinflow.analysis.shapes import infer_shapes
from thinflow.analysis.summary import summarize
from thinflow.analysis.switches import inference_setting, training_switches
from thinflow.ir.graph import Graph
from thinflow.ir.types import BOOL, FLOAT, DType
from thinflow.synthetic import synthetic_feeds


def placeholder(name: str, element: DType = FLOAT, *sizes: int) -> str:
    """Without sizes: of unknown shape."""
    return node(name, "Placeholder", dtype=element, **({"shape": shape(*sizes)} if sizes else {}))


def off(name: str) -> str:
    return node(name, "Const", dtype=BOOL, value="tensor { dtype: 10 tensor_shape { } bool_val: false }")


@pytest.mark.parametrize(
    ("name", "element", "setting"),
    [
        ("is_training", BOOL, False),
        ("phase_train", BOOL, False),
        ("net/keep_prob", FLOAT, 1.0),
        ("dropout_rate", FLOAT, 0.0),
        ("flip", BOOL, None),
        ("training_images", FLOAT, None),
        ("phase", FLOAT, None),
    ],
)
def test_by_name(name: str, element: DType, setting: bool | float | None) -> None:
    graph = graph_of([placeholder(name, element)])
    assert repr(inference_setting(graph.node(name))) == repr(setting)  # False is no 0.0


def dropout(share: str) -> list[str]:
    """Dropout of TensorFlow 1.13 and later with keep_prob: random >= 1 - keep_prob."""
    return [
        constant("size", [2]), constant("one", 1.0), constant("low", 0.5),
        node("u", "RandomUniform", "size", T="type: 3", dtype=FLOAT), node("u2", "Mul", "u", "low", T=FLOAT),
        node("random", "Add", "u2", "low", T=FLOAT), node("rate", "Sub", "one", share, T=FLOAT),
        node("mask", "GreaterEqual", "random", "rate", T=FLOAT),
    ]  # fmt: skip


def test_by_use_whatever_the_name() -> None:
    graph = graph_of([placeholder("Placeholder_2"), *dropout("Placeholder_2")])
    assert inference_setting(graph.node("Placeholder_2")) == 1.0
    (feed,) = synthetic_feeds([graph.node("Placeholder_2").output()], 1)
    assert float(next(iter(feed.values()))) == 1.0


def test_a_comparison_with_data_is_no_dropout() -> None:
    nodes = [placeholder("x", FLOAT, 2), placeholder("t"), node("m", "GreaterEqual", "x", "t", T=FLOAT)]
    assert inference_setting(graph_of(nodes).node("t")) is None


def test_inputs_are_no_switches_to_set() -> None:
    graph = graph_of([placeholder("is_training", BOOL), node("n", "LogicalNot", "is_training")])
    assert [v.name for v, _ in training_switches(graph)] == ["is_training"]
    graph.inputs = [graph.node("is_training").output()]
    assert not list(training_switches(graph))


def branches(default: bool) -> Graph:
    """A batch norm that uses the batch where a switch is on, and stored statistics where it is off."""
    flag = (
        [off("off"), node("phase_train", "PlaceholderWithDefault", "off", dtype=BOOL, shape=shape())]
        if default
        else [placeholder("phase_train", BOOL)]
    )
    statistics = [constant(n, [1.0, 1.0]) for n in ("g", "b", "m", "v")]
    return graph_of([
        placeholder("x", FLOAT, 1, 2, 2, 2), *flag, *statistics,
        node("pred", "Identity", "phase_train", T=BOOL), node("s", "Switch", "x", "pred", T=FLOAT),
        node("on", "FusedBatchNorm", "s:1", "g", "b", "m", "v", T=FLOAT, is_training="b: true"),
        node("off_", "FusedBatchNorm", "s", "g", "b", "m", "v", T=FLOAT, is_training="b: false"),
        node("y", "Merge", "off_", "on", T=FLOAT, N=2),
    ])  # fmt: skip


@pytest.mark.parametrize("default", [False, True])
def test_norms_of_the_training_branch_do_not_alarm(default: bool) -> None:
    graph = branches(default)
    infer_shapes(graph)
    summary = summarize(graph)
    assert summary.training_norms == []
    assert summary.inference_norms == ["off_"]
