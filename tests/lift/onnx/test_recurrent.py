"""ONNX's recurrent layers: random ones against ONNX Runtime, and what targets make of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.lift.onnx.models import agree, graph_of, helper, info, lifted, node, onnx, runtime, save
from tests.lift.onnx.single import Single
from thinflow import formats
from thinflow.errors import UnsupportedOp
from thinflow.lower.tflite.convert import lower_graph

pytest.importorskip("onnxruntime")
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
USUAL = {"LSTM": 3, "GRU": 2, "RNN": 1}
FUNCTIONS = ["Relu", "Tanh", "Sigmoid", "Softsign", "Softplus", "LeakyRelu", "ThresholdedRelu", "HardSigmoid",
             "Elu", "Affine", "ScaledTanh"]  # fmt: skip
ALPHA = {"LeakyRelu", "ThresholdedRelu", "HardSigmoid", "Elu", "Affine", "ScaledTanh"}
BETA = {"HardSigmoid", "Affine", "ScaledTanh"}


def layer(path: Path, op: str, seed: int, **fixed: Any) -> tuple[Path, dict[str, np.ndarray]]:
    """A random layer, and what it is fed."""
    rng = np.random.default_rng([seed, len(op)])
    steps, batch, inputs, units = (int(n) for n in rng.integers(1, 6, 4))
    word = fixed.get("direction", str(rng.choice(["forward", "reverse", "bidirectional"])))
    ways = 2 if word == "bidirectional" else 1
    count = GATES[op]

    def some(*shape: int) -> np.ndarray:
        return rng.uniform(-1, 1, shape).astype(np.float32)

    feed = {"x": some(steps, batch, inputs)}
    constants = {"w": some(ways, count * units, inputs), "r": some(ways, count * units, units)}
    operands = ["x", "w", "r"]
    optional: list[tuple[str, Callable[[], np.ndarray]]] = [
        ("b", lambda: some(ways, 2 * count * units)),
        ("lens", lambda: rng.integers(1, steps + 1, batch).astype(np.int32)),
        ("h", lambda: some(ways, batch, units)),
    ]
    if op == "LSTM":
        optional += [("c", lambda: some(ways, batch, units)), ("p", lambda: some(ways, 3 * units))]
    for name, make in optional:
        if fixed.get(name, rng.random() < 0.5):
            (feed if name in ("lens", "h", "c") else constants)[name] = make()
            operands.append(name)
        else:
            operands.append("")
    options: dict[str, Any] = {"hidden_size": units, "direction": word}
    if rng.random() < 0.4:
        options["clip"] = 0.4
    if op == "GRU":
        options["linear_before_reset"] = int(rng.integers(2))
    if op == "LSTM" and rng.random() < 0.3:
        options["input_forget"] = 1
    if fixed.get("functions", rng.random() < 0.5):
        names = [str(n) for n in rng.choice(FUNCTIONS, USUAL[op] * ways)]
        options["activations"] = names
        options["activation_alpha"] = [float(rng.uniform(0.1, 0.9)) for n in names if n in ALPHA]
        options["activation_beta"] = [float(rng.uniform(0.1, 0.9)) for n in names if n in BETA]
    options |= {k: v for k, v in fixed.items() if k == "layout"}
    outputs = ["y", "yh", "yc"][: 3 if op == "LSTM" else 2]
    options = {k: v for k, v in options.items() if v != []}
    made = node(op, operands, outputs, **options)
    return save(path, [made], feed, outputs, constants, opset=17), feed


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("seed", range(12))
def test_random_layers_give_what_onnxruntime_gives(op: str, seed: int, tmp_path: Path) -> None:
    path, feed = layer(tmp_path / "m.onnx", op, seed)
    agree(runtime(path, feed), lifted(path, feed))


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ["o.tflite", "o.onnx"])
def test_random_layers_in_the_files_of_the_targets(op: str, seed: int, name: str, tmp_path: Path) -> None:
    path, feed = layer(tmp_path / "m.onnx", op, seed + 100, functions=seed > 3)
    thinflow.save(graph_of(path), tmp_path / name)
    agree(runtime(path, feed), list(thinflow.run(tmp_path / name, feed).values()))


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("seed", range(4))
def test_layers_whose_batch_comes_first(op: str, seed: int, tmp_path: Path) -> None:
    """They are those of the other layout with their axes in another order; ONNX Runtime has only those."""
    path, feed = layer(tmp_path / "a.onnx", op, seed)
    expected = [np.moveaxis(y, 2, 0) if y.ndim == 4 else y.swapaxes(0, 1) for y in runtime(path, feed)]
    turned = {k: v.swapaxes(0, 1) if v.ndim == 3 else v for k, v in feed.items()}
    path = save_turned(path, tmp_path / "b.onnx", turned)
    agree(expected, lifted(path, turned))


def save_turned(path: Path, target: Path, feed: dict[str, np.ndarray]) -> Path:
    model = onnx.load(path)
    model.graph.node[0].attribute.append(helper.make_attribute("layout", 1))
    for given in model.graph.input:
        given.CopyFrom(info(given.name, feed[given.name]))
    onnx.save(model, target)
    return target


@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_a_sequence_of_no_steps_leaves_zeros(op: str, gates: int, tmp_path: Path) -> None:
    """Wherever it started, in ONNX Runtime."""
    rng = np.random.default_rng(gates)
    sizes = [(1, 4 * gates, 3), (1, 4 * gates, 4), (1, 8 * gates), None, *[(1, 2, 4)] * (1 + (gates == 4))]
    weights = [None if s is None else rng.normal(0, 0.5, s).astype(np.float32) for s in sizes]
    weights[3] = np.int32([2, 0])
    x = rng.normal(size=(3, 2, 3)).astype(np.float32)
    Single(op, [x], weights, {"hidden_size": 4}, 2 + (gates == 4), opset=14).check(tmp_path)


def test_open_sizes(tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((5, 3, 2)).astype(np.float32)
    rng = np.random.default_rng(2)
    weights = {n: rng.standard_normal((1, 16, k)).astype(np.float32) for n, k in (("w", 2), ("r", 4))}
    made = node("LSTM", ["x", "w", "r"], ["y", "h", "c"], hidden_size=4)
    path = save(
        tmp_path / "m.onnx", [made], {"x": x}, ["y", "h", "c"], weights, shapes={"x": ["s", "b", 2]}, opset=17
    )
    agree(runtime(path, {"x": x}), lifted(path, {"x": x}))


def bare(op: str, path: Path, **options: Any) -> Path:
    x, w = np.zeros((3, 1, 2), np.float32), np.zeros((1, 2 * GATES[op], 2), np.float32)
    made = node(op, ["x", "w", "w"], ["y"], **options)
    return save(path, [made], {"x": x}, ["y"], {"w": w}, opset=17)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"direction": "sideways"}, "its direction 'sideways' is not known here"),
        ({"hidden_size": 7}, "its weights do not have the sizes that it states"),
        ({"direction": "bidirectional"}, "its weights do not have the sizes that it states"),
        ({"activations": ["Tanh", "Tanh"]}, "it has 2 activations, 1 are needed"),
        ({"activations": ["Odd"]}, "its activation 'Odd' is not known here"),
        ({"activations": ["Affine"]}, "its activation Affine lacks its alpha"),
        ({"speed": 3}, "its option 'speed' is 3"),
    ],
)
def test_layers_that_are_refused(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    path = bare("RNN", tmp_path / "m.onnx", **options)
    with pytest.raises(UnsupportedOp, match=said):
        lifted(path, {"x": np.zeros((3, 1, 2), np.float32)})


def test_a_sequence_of_two_dimensions_is_refused(tmp_path: Path) -> None:
    x, w = np.zeros((3, 2), np.float32), np.zeros((1, 2, 2), np.float32)
    path = save(
        tmp_path / "m.onnx", [node("RNN", ["x", "w", "w"], ["y"])], {"x": x}, ["y"], {"w": w}, opset=17
    )
    with pytest.raises(UnsupportedOp, match="its sequence does not have three dimensions"):
        lifted(path, {"x": x})


def test_a_layer_behind_a_computed_reshape_is_a_layer_again(tmp_path: Path) -> None:
    x = np.random.default_rng(11).standard_normal((4, 2, 3)).astype(np.float32)
    rng = np.random.default_rng(12)
    constants = {n: rng.standard_normal((1, 16, k)).astype(np.float32) for n, k in (("w", 3), ("r", 4))}
    constants |= {"from": np.array([0]), "to": np.array([2]), "rest": np.array([-1])}
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Slice", ["s", "from", "to"], ["t"]),
        node("Concat", ["t", "rest"], ["u"], axis=0),
        node("Reshape", ["x", "u"], ["v"]),
        node("LSTM", ["v", "w", "r"], ["y"], hidden_size=4),
    ]
    shapes = {"x": ["s", "b", 3]}
    path = save(tmp_path / "m.onnx", nodes, {"x": x}, ["y"], constants, shapes=shapes, opset=17)
    thinflow.save(graph_of(path), tmp_path / "o.onnx")
    assert [n.op for n in formats.load(tmp_path / "o.onnx")].count("onnx.LSTM") == 1
    agree(runtime(path, {"x": x}), list(thinflow.run(tmp_path / "o.onnx", {"x": x}).values()))


@pytest.mark.parametrize("op", GATES)
def test_layers_are_layers_again_in_the_files_of_the_targets(op: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((6, 2, 3)).astype(np.float32)
    count = 8 * GATES[op]
    weights = {n: rng.standard_normal(s).astype(np.float32) * 0.5
               for n, s in (("w", (1, count, 3)), ("r", (1, count, 8)), ("b", (1, 2 * count)))}  # fmt: skip
    made = node(op, ["x", "w", "r", "b"], ["y", "h"], hidden_size=8)
    path = save(tmp_path / "m.onnx", [made], {"x": x}, ["y", "h"], weights, opset=17)
    graph = graph_of(path)
    thinflow.save(graph, tmp_path / "o.onnx")
    assert [n.op for n in formats.load(tmp_path / "o.onnx")].count(f"onnx.{op}") == 1
    agree(runtime(path, {"x": x}), list(thinflow.run(tmp_path / "o.onnx", {"x": x}).values()))


def test_an_lstm_is_the_fused_op_of_litert(tmp_path: Path) -> None:
    x = np.random.default_rng(6).standard_normal((6, 1, 3)).astype(np.float32)
    rng = np.random.default_rng(7)
    weights = {n: rng.standard_normal((1, 32, k)).astype(np.float32) * 0.5 for n, k in (("w", 3), ("r", 8))}
    made = node("LSTM", ["x", "w", "r"], ["y", "h", "c"], hidden_size=8)
    path = save(tmp_path / "m.onnx", [made], {"x": x}, ["y", "h", "c"], weights, opset=17)
    graph = graph_of(path)
    lowered = lower_graph(graph, graph.inputs, graph.outputs, recurrent="fused")
    assert "UNIDIRECTIONAL_SEQUENCE_LSTM" in [o.code for o in lowered.program.subgraphs[0].operators]
