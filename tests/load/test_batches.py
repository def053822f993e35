"""LiteRT files with a batch written into them, opened with another one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from thinflow.ir.types import FLOAT, dtype
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor
from thinflow.tflite.writer import to_bytes

pytest.importorskip("ai_edge_litert")
RNG = np.random.default_rng(0)


def constant(name: str, data: np.ndarray) -> Tensor:
    return Tensor(name, data.shape, dtype(data.dtype), data)


def pooled(path: Path, wanted: tuple[int, ...], *, as_option: bool = False, after: bool = True) -> str:
    """relu(x) reshaped, and the softmax of that; the sizes that the file states are for a batch of one."""
    x, y = Tensor("x", (1, 4, 6, 3), FLOAT), Tensor("y", (1, 4, 6, 3), FLOAT)
    sizes = tuple(72 // max(-int(np.prod(wanted)), 1) if n == -1 else n for n in wanted)
    z, out = Tensor("z", sizes, FLOAT), Tensor("out", sizes, FLOAT)
    shape = constant("shape", np.array(wanted, np.int32))
    options = {"new_shape": wanted} if as_option else {}
    steps = [
        Operator("RELU", [x], [y]),
        Operator("RESHAPE", [y] if as_option else [y, shape], [z], options),
        Operator("SOFTMAX", [z], [out], {"beta": 1.0}),
    ]
    path.write_bytes(to_bytes(Program([Subgraph([x], [out if after else z], steps if after else steps[:2])])))
    return str(path)


def row_by_row(path: str, x: np.ndarray) -> np.ndarray:
    """What the file itself gives for each row."""
    session = thinflow.Session(path, "litert")
    return np.concatenate([session.run(None, {"x": row[None]})[0] for row in x])


@pytest.mark.parametrize("wanted", [(1, -1, 3), (1, 24, 3), (1, 72), (1, -1), (-1, 72), (1, 4, -1)])
@pytest.mark.parametrize("as_option", [False, True])
def test_reshapes_follow_the_batch(wanted: tuple[int, ...], as_option: bool, tmp_path: Path) -> None:
    path = pooled(tmp_path / "m.tflite", wanted, as_option=as_option)
    x = RNG.standard_normal((5, 4, 6, 3)).astype(np.float32)
    thinflow.convert(path, tmp_path / "five.tflite", shapes={"x": x.shape})
    (found,) = thinflow.Session(tmp_path / "five.tflite").run(None, {"x": x})
    np.testing.assert_allclose(found, row_by_row(path, x), rtol=1e-5, atol=1e-6)


def test_other_sizes_with_the_batch(tmp_path: Path) -> None:
    path = pooled(tmp_path / "m.tflite", (1, -1, 3))
    graph = thinflow.load(path, shapes={"x": (1, 8, 6, 3)})
    assert graph.outputs[0].shape == (1, 48, 3)


def test_states_follow_the_batch(tmp_path: Path) -> None:
    x, y = Tensor("x", (1, 3), FLOAT), Tensor("y", (1, 3), FLOAT)
    weights = [constant(f"w{n}", RNG.standard_normal((3, 3)).astype(np.float32)) for n in range(2)]
    bias = constant("bias", np.zeros(3, np.float32))
    held = Tensor("held", (1, 3), FLOAT, is_variable=True)
    step = Operator("RNN", [x, *weights, bias, held], [y], {"fused_activation_function": "TANH"})
    (tmp_path / "m.tflite").write_bytes(to_bytes(Program([Subgraph([x], [y], [step])])))
    graph = thinflow.load(tmp_path / "m.tflite", shapes={"x": (4, 3)}, state="keep")
    assert [s.start.shape for s in graph.states] == [(4, 3)]
    session = thinflow.Session(graph, "reference")
    rows = [thinflow.Session(tmp_path / "m.tflite", "litert") for _ in range(4)]
    for _ in range(3):
        x_now = RNG.standard_normal((4, 3)).astype(np.float32)
        expected = [r.run(None, {"x": x_now[n : n + 1]})[0][0] for n, r in enumerate(rows)]
        np.testing.assert_allclose(session.run(["y"], {"x": x_now})[0], expected, rtol=1e-5, atol=1e-6)
