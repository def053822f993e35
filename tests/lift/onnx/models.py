"""ONNX models of a few nodes, and what the interpreter makes of them beside another runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from thinflow import formats
from thinflow.analysis.shapes import infer_shapes
from thinflow.lift.graphs import lift

onnx = pytest.importorskip("onnx")
helper, numpy_helper = onnx.helper, onnx.numpy_helper

Arrays = Mapping[str, np.ndarray]


def info(name: str, array: np.ndarray, shape: Sequence[Any] | None = None) -> Any:
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, array.shape if shape is None else shape)


def save(
    path: Path,
    nodes: Sequence[Any],
    feed: Arrays,
    outputs: Sequence[str],
    constants: Arrays | None = None,
    *,
    opset: int = 20,
    functions: Sequence[Any] = (),
    domains: Sequence[str] = ("com.microsoft",),
    shapes: Mapping[str, Sequence[Any]] | None = None,
) -> Path:
    """A model file; inputs have the types and shapes of what is fed, or other shapes."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        [info(n, a, (shapes or {}).get(n)) for n, a in feed.items()],
        [helper.make_empty_tensor_value_info(o) for o in outputs],
        [numpy_helper.from_array(a, n) for n, a in (constants or {}).items()],
    )
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    made = helper.make_model(graph, opset_imports=imports, ir_version=10, functions=list(functions))
    path.write_bytes(made.SerializeToString())
    return path


def node(op: str, inputs: Sequence[str], outputs: Sequence[str], domain: str = "", **options: Any) -> Any:
    return helper.make_node(op, list(inputs), list(outputs), domain=domain, **options)


def reference(path: Path, feed: Arrays) -> list[np.ndarray]:
    """What ONNX's own reference implementation says."""
    from onnx.reference import ReferenceEvaluator

    results: list[np.ndarray] = ReferenceEvaluator(onnx.load(path)).run(None, dict(feed))
    return results


def runtime(path: Path, feed: Arrays) -> list[np.ndarray]:
    """What ONNX Runtime says."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    results: list[np.ndarray] = session.run(None, dict(feed))
    return results


def lifted(path: Path, feed: Arrays) -> list[np.ndarray]:
    """What the interpreter says, of TensorFlow's ops."""
    return list(thinflow.run(path, dict(feed), engine="reference").values())


def agree(expected: Sequence[np.ndarray], results: Sequence[np.ndarray], tolerance: float = 3e-5) -> None:
    assert len(expected) == len(results)
    for one, other in zip(expected, results, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        np.testing.assert_allclose(other, one, rtol=tolerance, atol=tolerance)


def graph_of(path: Path) -> thinflow.Graph:
    """The file in TensorFlow's ops."""
    source = formats.load(path)
    if not source.vocabulary:
        return source
    infer_shapes(source)
    graph = lift(source)
    infer_shapes(graph)
    return graph


TURN = [("i", onnx.TensorProto.INT64, []), ("c", onnx.TensorProto.BOOL, [])]
"""What the body of a Loop is given first."""
