"""Graphs lifted from ONNX are graphs of a real TensorFlow: it imports them, and gives the right answers."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.night import ALL_NETWORKS
from thinflow.analysis.shapes import infer_shapes
from thinflow.errors import ThinflowError
from thinflow.lift.graphs import lift

tf = pytest.importorskip("tensorflow")
pytest.importorskip("onnx")
onnx_suite = pytest.importorskip("benchmarks.onnx_suite")

STEP = 1 if ALL_NETWORKS else 3
"""Every so many cases are imported; all of them take a minute."""


def answers(path: Path, fed: Any) -> list[Any]:
    """What TensorFlow says of the lifted graph in a .pb file.

    Raises:
        ThinflowError: it is not lifted.
    """
    graph = thinflow.load(path)
    made = lift(graph) if graph.vocabulary else graph
    infer_shapes(made)
    thinflow.save(made, path.with_suffix(".pb"))
    message = tf.compat.v1.GraphDef.FromString(path.with_suffix(".pb").read_bytes())
    with tf.Graph().as_default() as imported, tf.compat.v1.Session() as session:
        tf.import_graph_def(message, name="")
        feed = {f"{v.node.name}:0": x for v, x in zip(made.inputs, fed, strict=True)}
        wanted = [imported.get_tensor_by_name(f"{v.node.name}:{v.port}") for v in made.outputs]
        return [np.asarray(x) for x in session.run(wanted, feed)]


def judged(case: Any, folder: Path) -> str:
    """What is wrong; nothing of a case that TensorFlow runs to the right answer, or that is not lifted."""
    baked = onnx_suite.baked(case)
    path = folder / "model.onnx"
    path.write_bytes(baked.model.SerializeToString())
    try:
        results = answers(path, baked.inputs)
    except ThinflowError:
        return ""
    except tf.errors.UnimplementedError:
        # TensorFlow has the op, and no kernel of it for these types, as for most floats of eight bits.
        return ""
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]
    state, why = onnx_suite._compared(results, baked)
    return "" if state == "right" else f"{state}: {why}"


def is_known(name: str) -> bool:
    """True of cases that TensorFlow cannot run, or not as Python, after which the op is made."""
    # Exponents alone are a type that it lacks. Behind the last cut at white space it leaves an empty part.
    return "_e8m0_" in name or name == "test_string_split_maxsplit"


@pytest.mark.slow
def test_tensorflow_imports_what_is_lifted(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = [c for c in onnx_suite.cases("test_*") if c.kind == "node" and not is_known(c.name)]
        found = {case.name: judged(case, tmp_path) for case in cases[::STEP]}
    problems = {name: why for name, why in found.items() if why}
    assert len(cases) > 1_800
    assert problems == {}
