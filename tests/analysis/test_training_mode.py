"""Training switches: known by use and by name, set for inference, and seen by whoever opens a model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.library import constant, graph_of, node
from tests.load.builders import shape
from thinflow.analysis.shapes import infer_shapes
from thinflow.analysis.summary import summarize
from thinflow.analysis.training_mode import inference_setting, is_sample_norm, training_switches
from thinflow.cli import main
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import BOOL, FLOAT, INT32, DType
from thinflow.rewrite.rule import Refuse
from thinflow.synthetic import synthetic_feeds
from thinflow.transforms.fold.batch_norms import save_statistics
from thinflow.transforms.fold.frozen_statistics import measure_batch_norms
from thinflow.transforms.fold.steps import read_norm


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


# ---- Norms of each sample by itself are told from batch norms, and no advice would freeze them.


STEPS, WIDTH = 5, 6


def numbers(graph: Graph, *content: float) -> Value:
    return graph.constant(np.array(content, np.float32), graph.unique_name("c"))


def sizes(graph: Graph, *content: int) -> Value:
    return graph.constant(np.array(content, np.int32), graph.unique_name("sizes"))


def norm(graph: Graph, x: Value, scale: Value, offset: Value, layout: str) -> Value:
    empty = graph.constant(np.zeros(0, np.float32), "empty")
    attrs = {"T": FLOAT, "U": FLOAT, "epsilon": 1e-3, "is_training": True, "data_format": layout}
    return graph.add("FusedBatchNormV3", [x, scale, offset, empty, empty], "norm", attrs=attrs).output()


def layer_norm(batch: int | None) -> Graph:
    """As Keras writes LayerNormalization of x [n, t, c]: [1, n * t, c, 1], with a scale of ones."""
    graph = Graph()
    shape = ShapeAttr((batch, STEPS, WIDTH))
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": shape}).output()
    if batch is None:
        whole = graph.add("Shape", [x], "shape", attrs={"T": FLOAT, "out_type": INT32}).output()
        places = graph.add(
            "GatherV2",
            [whole, graph.constant(np.int32([0]), "first"), graph.constant(np.int32(0), "axis")],
            attrs={"Tparams": INT32, "Tindices": INT32, "Taxis": INT32},
        ).output()
        rows = graph.add("Mul", [places, sizes(graph, STEPS)], "rows", attrs={"T": INT32}).output()
        parts = [sizes(graph, 1), rows, sizes(graph, WIDTH, 1), graph.constant(np.int32(0), "along")]
        target = graph.add("ConcatV2", parts, attrs={"T": INT32, "N": 3, "Tidx": INT32}).output()
        one, zero = graph.constant(np.float32(1), "one"), graph.constant(np.float32(0), "zero")
        attrs = {"T": FLOAT, "index_type": INT32}
        scale, offset = (graph.add("Fill", [rows, v], attrs=attrs).output() for v in (one, zero))
    else:
        target = sizes(graph, 1, batch * STEPS, WIDTH, 1)
        scale, offset = (numbers(graph, *[v] * (batch * STEPS)) for v in (1.0, 0.0))
    flat = graph.add("Reshape", [x, target], "flat", attrs={"T": FLOAT, "Tshape": INT32}).output()
    y = norm(graph, flat, scale, offset, "NCHW")
    back = graph.add("Reshape", [y, sizes(graph, -1, STEPS, WIDTH)], "y", attrs={"T": FLOAT, "Tshape": INT32})
    graph.inputs, graph.outputs = [x], [back.output()]
    infer_shapes(graph)
    return graph


def batch_norm(layout: str = "NHWC", *, reshaped: bool = False, scale: float = 1.0) -> Graph:
    """A batch norm in training mode, perhaps behind a reshape that keeps the batch."""
    graph = Graph()
    shape = (None, 3 * 4 * 4) if reshaped else (None, 4, 4, 3) if layout == "NHWC" else (None, 3, 4, 4)
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr(shape)}).output()
    inner = x
    if reshaped:
        target = sizes(graph, -1, *((4, 4, 3) if layout == "NHWC" else (3, 4, 4)))
        inner = graph.add("Reshape", [x, target], attrs={"T": FLOAT, "Tshape": INT32}).output()
    y = norm(graph, inner, numbers(graph, *[scale] * 3), numbers(graph, 0, 0, 0), layout)
    graph.inputs, graph.outputs = [x], [y]
    infer_shapes(graph)
    return graph


def group_norm(layout: str) -> Graph:
    """Of one sample [1, 4, 4, 6] in two groups of three channels, the groups in the place of channels."""
    graph = Graph()
    shape = (1, 4, 4, 6) if layout == "NHWC" else (1, 6, 4, 4)
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr(shape)}).output()
    attrs = {"T": FLOAT, "Tshape": INT32}
    target = sizes(graph, *((1, 16, 3, 2) if layout == "NHWC" else (1, 2, 3, 16)))
    grouped = graph.add("Reshape", [x, target], attrs=attrs).output()
    y = norm(graph, grouped, numbers(graph, 1, 1), numbers(graph, 0, 0), layout)
    back = graph.add("Reshape", [y, sizes(graph, *shape)], attrs=attrs).output()
    gains = np.arange(6, dtype=np.float32).reshape((6,) if layout == "NHWC" else (6, 1, 1))
    scaled = graph.add("Mul", [back, graph.constant(gains, "gains")], "y", attrs={"T": FLOAT})
    graph.inputs, graph.outputs = [x], [scaled.output()]
    infer_shapes(graph)
    return graph


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_a_group_norm_is_no_batch_norm(layout: str) -> None:
    graph = group_norm(layout)
    summary = thinflow.summarize(graph)
    assert (summary.training_norms, summary.sample_norms) == ([], ["norm"])
    assert measure_batch_norms(graph, [{graph.inputs[0]: np.ones(graph.inputs[0].shape, np.float32)}]) == {}


@pytest.mark.parametrize("batch", [None, 1, 2])
def test_a_layer_norm_is_no_batch_norm(
    batch: int | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = layer_norm(batch)
    assert is_sample_norm(graph.node("norm"))
    summary = thinflow.summarize(graph)
    assert (summary.training_norms, summary.sample_norms) == ([], ["norm"])
    thinflow.save(graph, tmp_path / "m.pb")
    assert main(["inspect", str(tmp_path / "m.pb")]) == 0
    told = capsys.readouterr().out
    assert "norms of each sample: 1 (first 'norm')" in told
    assert "freeze" not in told


def test_it_is_never_frozen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = layer_norm(None)
    feed = {graph.inputs[0]: np.ones((2, STEPS, WIDTH), np.float32)}
    assert measure_batch_norms(graph, [feed]) == {}
    path = tmp_path / "statistics.npz"
    flat = np.zeros(STEPS, np.float32)
    save_statistics(path, {"norm": (flat, flat + 1)})
    thinflow.save(graph, tmp_path / "m.pb")
    frozen = f"freeze_batch_norms(statistics={path})"
    assert main(["transform", str(tmp_path / "m.pb"), str(tmp_path / "n.pb"), "-t", frozen]) == 0
    told = capsys.readouterr().out
    assert "left 'norm': it normalises each sample by itself: there are no statistics of the batch" in told
    with pytest.raises(Refuse, match="it normalises each sample by itself, with no stored statistics"):
        read_norm(graph.node("norm"))


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("reshaped", [False, True])
def test_a_batch_norm_stays_one(layout: str, reshaped: bool) -> None:
    graph = batch_norm(layout, reshaped=reshaped)
    assert not is_sample_norm(graph.node("norm"))
    assert thinflow.summarize(graph).training_norms == ["norm"]


def test_the_advice_says_that_answers_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    thinflow.save(batch_norm(), tmp_path / "m.pb")
    assert main(["inspect", str(tmp_path / "m.pb")]) == 0
    assert (
        "freeze_batch_norms can freeze them on your data, which changes the answers"
        in capsys.readouterr().out
    )
