"""Quantized files as graphs to work on: one FakeQuant for each value, and codes at the ends alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import thinflow
from thinflow import formats
from thinflow.analysis.shapes import infer_shapes
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT, dtype
from thinflow.lift.graphs import lift
from thinflow.lift.grids import Grid, grid_of
from thinflow.transforms.quantized.grids import kept_grids, make_ends_float

onnx = pytest.importorskip("onnx")
helper, numpy_helper = onnx.helper, onnx.numpy_helper
SHAPE = (1, 6)


def file(path: Path, kind: str, scale: float, zero: int, op: str = "Relu") -> Path:
    """codes -> DequantizeLinear -> op -> QuantizeLinear, with other scales on both sides."""
    element = np.dtype(kind)
    inits = {
        "s0": np.float32(scale), "z0": np.array(zero, element),
        "s1": np.float32(scale * 0.7), "z1": np.array(max(zero, 0), element),
    }  # fmt: skip
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s0", "z0"], ["real"]),
        helper.make_node(op, ["real"], ["done"]),
        helper.make_node("QuantizeLinear", ["done", "s1", "z1"], ["codes"]),
        helper.make_node("DequantizeLinear", ["codes", "s1", "z1"], ["back"]),
        helper.make_node("Neg", ["back"], ["turned"]),
        helper.make_node("QuantizeLinear", ["turned", "s0", "z0"], ["y"]),
    ]
    tensor = helper.np_dtype_to_tensor_dtype(element)
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", tensor, SHAPE)],
        [helper.make_tensor_value_info("y", tensor, SHAPE)],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in inits.items()],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path.write_bytes(made.SerializeToString())
    return path


def lifted(path: Path, *, keep: bool) -> Graph:
    graph = formats.load(path)
    infer_shapes(graph)
    made = lift(graph, keep_grids=keep)
    infer_shapes(made)
    return made


KINDS = [("int8", 0.031, 5), ("int8", 3.7e-4, -128), ("uint8", 0.11, 131), ("int16", 0.0017, 0)]


@pytest.mark.parametrize(("kind", "scale", "zero"), KINDS)
def test_codes_are_at_the_ends_alone(kind: str, scale: float, zero: int, tmp_path: Path) -> None:
    path = file(tmp_path / "m.onnx", kind, scale, zero)
    kept, exact = lifted(path, keep=True), lifted(path, keep=False)
    ops = Counter(n.op for n in kept)
    assert ops["FakeQuantWithMinMaxArgs"] == 3
    assert ops["Cast"] == 2  # one for each end
    assert {"real", "codes", "back", "y"} <= {n.name for n in kept} | set(kept.aliases)
    info = np.iinfo(kind)
    x = np.random.default_rng(1).integers(info.min, info.max + 1, SHAPE).astype(kind)
    x.flat[:2] = info.min, info.max
    (one,) = thinflow.run(kept, {"x": x}, engine="reference").values()
    (other,) = thinflow.run(exact, {"x": x}, engine="reference").values()
    assert one.dtype == other.dtype == x.dtype
    assert np.abs(one.astype(int) - other).max() <= 1


@pytest.mark.parametrize(("kind", "scale", "zero"), KINDS)
def test_grids_come_back_as_they_were(kind: str, scale: float, zero: int, tmp_path: Path) -> None:
    kept = lifted(file(tmp_path / "m.onnx", kind, scale, zero), keep=True)
    thinflow.save(kept, tmp_path / "m.pb")
    wanted = Grid(float(np.float32(scale)), zero, dtype(kind))
    assert wanted in kept_grids(kept).values()
    # A .pb holds the ends of ranges in float32.
    written = kept_grids(thinflow.load(tmp_path / "m.pb", inputs=["x"], outputs=["y"])).values()
    near = [g for g in written if g.zero_point == zero and g.kind is dtype(kind)]
    assert any(abs(g.scale / wanted.scale - 1) < 3e-7 for g in near)


def test_random_grids_are_told_by_their_ends() -> None:
    rng = np.random.default_rng(2)
    for _ in range(300):
        kind = dtype(str(rng.choice(["int8", "uint8", "int16", "int4"])))
        low, high = Grid(1.0, 0, kind).limits
        scale = float(np.float32(10 ** rng.uniform(-5, 3)))
        grid = Grid(scale, int(rng.integers(low, high + 1)), kind)
        graph = thinflow.Graph()
        x = graph.add("Placeholder", name="x").output()
        ends = dict(zip(("min", "max"), grid.ends, strict=True))
        fake = graph.add("FakeQuantWithMinMaxArgs", [x], attrs={**ends, "_grid": kind.name.encode()})
        assert grid_of(fake) == grid


def test_ties_of_a_file_go_to_even() -> None:
    graph = thinflow.Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((4,))}).output()
    grid = Grid(0.5, 3, dtype("int8"))
    ends = dict(zip(("min", "max"), grid.ends, strict=True))
    for name, mark in (("file", {"_grid": b"int8"}), ("trained", {})):
        graph.add("FakeQuantWithMinMaxArgs", [x], name, attrs={**ends, **mark})
    graph.inputs, graph.outputs = [x], [graph.value("file"), graph.value("trained")]
    feed = {"x": np.array([0.25, 0.75, -0.25, 99], np.float32)}
    one, other = thinflow.run(graph, feed, engine="reference").values()
    assert one.tolist() == [0, 1, 0, 62]
    assert other.tolist() == [0.5, 1, 0, 62]


def test_ends_become_real_numbers(tmp_path: Path) -> None:
    kept = lifted(file(tmp_path / "m.onnx", "uint8", 0.05, 100), keep=True)
    ends = make_ends_float(kept)
    assert ends.inputs == {"x": "uint8"}
    assert ends.outputs == {"y": "uint8"}
    assert [v.dtype.name for v in (*kept.inputs, *kept.outputs) if v.dtype] == ["float", "float"]
    assert not any(n.op in {"Cast", "Round"} for n in kept)
    (y,) = thinflow.run(kept, {"x": np.full(SHAPE, 3.02, np.float32)}, engine="reference").values()
    np.testing.assert_allclose(y, -3.0, atol=0.026)


def test_a_model_without_quantization_again(tmp_path: Path) -> None:
    kept = lifted(file(tmp_path / "m.onnx", "int8", 0.5, 0, "Tanh"), keep=True)
    free = thinflow.transform(kept, "drop_quantization")
    x = np.linspace(-0.2, 0.2, 6, dtype=np.float32).reshape(SHAPE)
    (y,) = thinflow.run(free, {"x": x}, engine="reference").values()
    np.testing.assert_allclose(y, -np.tanh(x), atol=1e-6)
