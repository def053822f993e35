"""The model as it came, frozen and transformed: all three imported and run by one TensorFlow 2 process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import thinflow

tf = pytest.importorskip("tensorflow")


EXPORT = """
import sys
import numpy as np
import tensorflow as tf

w = tf.Variable(np.arange(12, dtype=np.float32).reshape(4, 3) / 10)

def one():
    return tf.constant(0.25) + tf.constant(0.75)

@tf.function(autograph=False)
def inner(x):
    doubled = tf.identity(tf.matmul(x, w) * (tf.constant(1.0) + tf.constant(1.0)))
    return tf.cond(tf.reduce_sum(doubled) > 0, lambda: doubled + one(), lambda: tf.identity(doubled) - one())

@tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32)])
def serve(x):
    return {"y": inner(x) + inner(-x)}

module = tf.Module()
module.w, module.serve = w, serve
tf.saved_model.save(module, sys.argv[1], signatures=serve)
"""


def exported(folder: Path) -> str:
    """A function that is called twice, with a condition in it; by a process that keeps what it defined."""
    target = str(folder / "saved")
    subprocess.run([sys.executable, "-c", EXPORT, target], check=True, capture_output=True)
    return target


def imported(path: Path) -> Callable[[np.ndarray], np.ndarray]:
    """A GraphDef imported into this process; its functions stay there as long as what is returned lives."""
    definition = tf.compat.v1.GraphDef.FromString(path.read_bytes())
    graph = thinflow.load(path)
    (source,), (result,) = graph.inputs, graph.outputs

    def build():  # type: ignore[no-untyped-def]
        tf.compat.v1.import_graph_def(definition, name="")

    wrapped = tf.compat.v1.wrap_function(build, [])
    pruned = wrapped.prune(f"{source.node.name}:{source.port}", f"{result.node.name}:{result.port}")
    return lambda x: np.asarray(pruned(tf.constant(x)))


def test_original_frozen_and_transformed(tmp_path: Path) -> None:
    folder = exported(tmp_path)
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    loaded = tf.saved_model.load(folder)
    expected = np.asarray(loaded.serve(tf.constant(x))["y"])
    frozen = thinflow.freeze(folder)
    thinflow.save(frozen, tmp_path / "frozen.pb")
    for name, transforms in (
        ("folded.pb", "fold_constants(functions=true)"),
        ("plain.pb", "remove_nodes(op=Identity, functions=true)"),
        ("lowered.pb", "inline_partitionedcall"),
    ):
        thinflow.save(thinflow.transform(frozen, transforms), tmp_path / name)
    names = ("frozen.pb", "folded.pb", "plain.pb", "lowered.pb", "folded.pb")
    for run in [imported(tmp_path / name) for name in names]:
        np.testing.assert_allclose(run(x), expected, rtol=1e-5)
    assert any("__edited_" in name for name in thinflow.load(tmp_path / "folded.pb").functions)
