"""LiteRT models said again in TensorFlow's ops: the interpreter and LiteRT agree."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.errors import UnsupportedOp
from thinflow.formats import tflite
from thinflow.interpreter import Plan
from thinflow.ir.types import FLOAT, INT32, dtype
from thinflow.lift.graphs import lift
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor
from thinflow.tflite.writer import to_bytes

pytest.importorskip("ai_edge_litert")
RNG = np.random.default_rng(3)


def constant(name: str, data) -> Tensor:
    data = np.asarray(data)
    return Tensor(name, data.shape, dtype(data.dtype), data)


def randoms(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def shaped(*sizes: int) -> np.ndarray:
    return np.array(sizes, np.int32)


SAME = {"padding": "SAME", "stride_w": 1, "stride_h": 1}
X = (1, 6, 6, 4)
CASES: dict[str, tuple[str, list, dict, tuple[int, ...]]] = {
    "conv": (
        "CONV_2D",
        [randoms(3, 3, 3, 4), randoms(3)],
        {**SAME, "fused_activation_function": "RELU6"},
        (1, 6, 6, 3),
    ),
    "strided": (
        "CONV_2D",
        [randoms(3, 3, 3, 4), randoms(3)],
        {**SAME, "stride_w": 2, "stride_h": 3},
        (1, 2, 3, 3),
    ),
    "dilated": (
        "CONV_2D",
        [randoms(3, 3, 3, 4), randoms(3)],
        {**SAME, "padding": "VALID", "dilation_w_factor": 2, "dilation_h_factor": 2},
        (1, 2, 2, 3),
    ),
    "depthwise": (
        "DEPTHWISE_CONV_2D",
        [randoms(1, 3, 3, 8), randoms(8)],
        {**SAME, "depth_multiplier": 2, "fused_activation_function": "RELU_N1_TO_1"},
        (1, 6, 6, 8),
    ),
    "depthwise by its sizes": ("DEPTHWISE_CONV_2D", [randoms(1, 3, 3, 8), randoms(8)], SAME, (1, 6, 6, 8)),
    "pool": ("AVERAGE_POOL_2D", [], {**SAME, "filter_width": 3, "filter_height": 2}, X),
    "fully connected": (
        "FULLY_CONNECTED",
        [randoms(5, 4), randoms(5)],
        {"keep_num_dims": True},
        (1, 6, 6, 5),
    ),
    "flattened": ("FULLY_CONNECTED", [randoms(5, 4), None], {"fused_activation_function": "RELU"}, (36, 5)),
    "softmax": ("SOFTMAX", [], {"beta": 2.0}, X),
    "mean": ("MEAN", [shaped(1, 2)], {"keep_dims": True}, (1, 1, 1, 4)),
    "prelu": ("PRELU", [randoms(1, 1, 4)], {}, X),
    "hard swish": ("HARD_SWISH", [], {}, X),
    "leaky": ("LEAKY_RELU", [], {"alpha": 0.3}, X),
    "l2": ("L2_NORMALIZATION", [], {}, X),
    "gelu": ("GELU", [], {"approximate": True}, X),
    "resize": ("RESIZE_BILINEAR", [shaped(9, 5)], {"half_pixel_centers": True}, (1, 9, 5, 4)),
    "slice": (
        "STRIDED_SLICE",
        [shaped(0, 1, 0, 0), shaped(1, 6, 4, 4), shaped(1, 2, 1, 2)],
        {"begin_mask": 1},
        (1, 3, 4, 2),
    ),
    "gather": ("GATHER", [shaped(2, 0)], {"axis": 3}, (1, 6, 6, 2)),
    "pad": ("MIRROR_PAD", [np.int32([[0, 0], [1, 2], [2, 1], [0, 0]])], {"mode": "REFLECT"}, (1, 9, 9, 4)),
    "depth to space": ("DEPTH_TO_SPACE", [], {"block_size": 2}, (1, 12, 12, 1)),
    "transpose": ("TRANSPOSE", [shaped(0, 3, 1, 2)], {}, (1, 4, 6, 6)),
    "add": ("ADD", [randoms(4)], {"fused_activation_function": "RELU"}, X),
}


def model(code: str, others: list, options: dict, shape: tuple[int, ...]) -> bytes:
    x, y = Tensor("x", X, FLOAT), Tensor("y", shape, FLOAT)
    operands = [x, *(None if o is None else constant(f"c{i}", o) for i, o in enumerate(others))]
    return to_bytes(Program([Subgraph([x], [y], [Operator(code, operands, [y], options)])]))


@pytest.mark.parametrize("case", CASES)
def test_the_interpreter_and_litert_agree(case: str, tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(model(*CASES[case]))
    x = randoms(*X)
    (expected,) = thinflow.Session(tmp_path / "m.tflite").run(["y"], {"x": x})
    (found,) = thinflow.Session(tmp_path / "m.tflite", "reference").run(["y"], {"x": x})
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


def test_names_and_several_outputs() -> None:
    x = Tensor("x", (4,), FLOAT)
    parts = [Tensor(f"part:{i}" if i else "part", (2,), FLOAT) for i in range(2)]
    y = Tensor("y", (2,), FLOAT)
    steps = [
        Operator("SPLIT", [constant("axis", np.int32(0)), x], parts, {"num_splits": 2}),
        Operator("SUB", [parts[1], parts[0]], [y]),
    ]
    graph = lift(tflite.from_bytes(to_bytes(Program([Subgraph([x], [y, parts[1]], steps)]))))
    assert [v.name for v in graph.outputs] == ["y", "part:1"]
    assert graph.node("y").op == "Sub"
    found = Plan(graph, graph.outputs, graph.inputs).run({graph.inputs[0]: np.float32([1, 2, 5, 7])})
    assert [f.tolist() for f in found] == [[4, 5], [5, 7]]


def test_a_model_that_passes_its_input_on() -> None:
    x, y = Tensor("x", (2, 2), FLOAT), Tensor("y", (2, 2), FLOAT)
    half = Tensor("h", (2, 2), dtype("half"), np.ones((2, 2), np.float16))
    wide = Tensor("w", (2, 2), FLOAT)
    steps = [Operator("DEQUANTIZE", [half], [wide]), Operator("MUL", [x, wide], [y])]
    graph = lift(tflite.from_bytes(to_bytes(Program([Subgraph([x], [y, x], steps)]))))
    given = np.float32([[1, 2], [3, 4]])
    found = Plan(graph, graph.outputs, graph.inputs).run({graph.inputs[0]: given})
    assert [f.tolist() for f in found] == [given.tolist()] * 2


def refused(*steps: Operator, ins: Tensor, out: Tensor) -> str:
    graph = tflite.from_bytes(to_bytes(Program([Subgraph([ins], [out], list(steps))])))
    with pytest.raises(UnsupportedOp) as caught:
        lift(graph)
    # What an extension's op needs, the runtime lacks as well.
    lacking = steps[-1].code == "CUSTOM"
    assert ("CONTRIBUTING.md" if lacking else "engine='litert'") in caught.value.hint
    return caught.value.message


def test_what_cannot_be_said() -> None:
    x, y = Tensor("x", (2,), FLOAT), Tensor("y", (2,), FLOAT)
    custom = Operator("CUSTOM", [x], [y], custom_code="MyOp")
    assert "node 'y' (tfl.custom.MyOp)" in refused(custom, ins=x, out=y)
    signed = Operator("ADD", [x, x], [y], {"fused_activation_function": "SIGN_BIT"})
    assert "the activation SIGN_BIT has no counterpart" in refused(signed, ins=x, out=y)
    wrong = Operator("ADD", [x], [y])
    assert "its operand 1 is absent" in refused(wrong, ins=x, out=y)


def test_integers_that_are_not_quantized_are_fine() -> None:
    x, y = Tensor("x", (2,), INT32), Tensor("y", (2,), INT32)
    graph = tflite.from_bytes(to_bytes(Program([Subgraph([x], [y], [Operator("NEG", [x], [y])])])))
    lifted = lift(graph)
    found = Plan(lifted, lifted.outputs, lifted.inputs).run({lifted.inputs[0]: np.int32([1, -2])})
    assert found[0].tolist() == [-1, 2]


def test_a_converted_network_comes_back(tmp_path: Path) -> None:
    text = """
x = Placeholder() {dtype=float, shape=shape[1,4]}
w = Const() {dtype=float, value=float[4,2]{1,2,3,4,5,6,7,8}}
y = MatMul(x, w) {T=float}
z = Softmax(y) {T=float}
inputs: x
outputs: z
"""
    source = parse_graph(text)
    thinflow.save(source, tmp_path / "m.tflite")
    lifted = lift(thinflow.load(tmp_path / "m.tflite", lift=False))
    assert thinflow.verify(source, lifted).ok
