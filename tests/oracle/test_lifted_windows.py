"""ONNX's pools, convolutions and resizing, lifted: a real TensorFlow runs the graphs, and agrees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.lift.onnx.configurations import COORDINATES, convolution, pool, resize
from tests.lift.onnx.single import Single
from thinflow.errors import UnsupportedOp

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")
tf: Any = pytest.importorskip("tensorflow")
# TensorFlow's own Conv3D errs in these: also called directly, by TensorFlow alone.
WRONG_THERE = frozenset({22, 44})


def check(case: Single, folder: Path, by: str = "runtime") -> None:
    """Assert that TensorFlow answers as ONNX Runtime does, or ONNX's definition."""
    expected = case.expected() if by == "runtime" else case.defined()
    try:
        made = case.lifted(folder)
    except UnsupportedOp as refusal:
        pytest.skip(refusal.problem)
    thinflow.save(made, folder / "lifted.pb")
    definition = tf.compat.v1.GraphDef()
    definition.ParseFromString((folder / "lifted.pb").read_bytes())
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(definition, name="")
    names = [v.name if ":" in v.name else f"{v.name}:0" for v in made.outputs]
    with tf.compat.v1.Session(graph=graph) as session:
        found = session.run(names, {f"{name}:0": x for name, x in case.feed.items()})
    for one, other in zip(expected, found, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("seed", range(24))
def test_pools(tmp_path: Path, op: str, seed: int) -> None:
    check(pool(op, seed), tmp_path)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("seed", [n for n in range(48) if n not in WRONG_THERE])
def test_convolutions(tmp_path: Path, seed: int, transposed: bool) -> None:
    check(convolution(seed, transposed=transposed), tmp_path)


@pytest.mark.parametrize("kind", [k for k in COORDINATES if k != "half_pixel_symmetric"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("seed", range(4))
def test_resizing(tmp_path: Path, seed: int, mode: str, kind: str) -> None:
    by = "definition" if kind == "tf_crop_and_resize" else "runtime"
    check(resize(seed, mode, kind), tmp_path, by)
