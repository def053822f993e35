"""Files of the small tools, read by TensorFlow; and its own tools beside ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import thinflow
from thinflow.cli.compat._saved_models import all_lines
from thinflow.compat.graph_scripts import strip_unused, write_events
from thinflow.compat.saved_models import meta_graphs
from thinflow.formats import graphdef, memmapped
from thinflow.formats.memmapped import write
from thinflow.zoo import digits


def test_event_files(tmp_path: Path) -> None:
    import tensorflow as tf

    graph = digits.build(0)
    path = write_events(graph, tmp_path)
    version, event = list(tf.compat.v1.train.summary_iterator(str(path)))
    assert version.file_version == "brain.Event:2"
    assert version.source_metadata.writer == "thinflow"
    read = tf.compat.v1.GraphDef.FromString(event.graph_def)
    assert [n.name for n in read.node] == [n.name for n in graph]


def test_event_files_of_tensorflow(tmp_path: Path) -> None:
    import tensorflow as tf

    with tf.Graph().as_default() as graph:
        tf.constant([1.0, 2.0], name="c")
        with tf.compat.v1.summary.FileWriter(str(tmp_path), graph):
            pass
    (path,) = tmp_path.glob("*tfevents*")
    assert thinflow.load(path).node("c").tensor.numpy().tolist() == [1, 2]  # type: ignore[union-attr]


def test_regions_hold_what_immutable_const_reads(tmp_path: Path) -> None:
    """TensorFlow's op can map any file: each region as a file of its own gives the same numbers."""
    import tensorflow as tf

    graph = digits.build(0)
    path = tmp_path / "x.mmpb"
    write(graph, path, min_bytes=64)
    found = memmapped.regions(memoryview(path.read_bytes()))
    message = tf.compat.v1.GraphDef.FromString(bytes(found[memmapped.MAIN_REGION].data))
    for number, (name, region) in enumerate(found.items()):
        (tmp_path / str(number)).write_bytes(region.data)
        for node in message.node:
            if node.op == "ImmutableConst" and node.attr["memory_region_name"].s == name.encode():
                node.attr["memory_region_name"].s = str(tmp_path / str(number)).encode()
    picture = np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 8, 8, 1)
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        tf.import_graph_def(message, name="")
        theirs = session.run(
            "logits/BiasAdd:0", {"image:0": picture, "dropout/random_uniform:0": np.ones((1, 64))}
        )
    feeds = {"image": picture, "dropout/random_uniform": np.ones((1, 64), np.float32)}
    (ours,) = thinflow.run(path, feeds, ["logits/BiasAdd"], engine="reference").values()
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_strip_unused_as_tensorflow_does() -> None:
    import tensorflow as tf
    from tensorflow.python.tools.strip_unused_lib import strip_unused as original

    graph = digits.build(0)
    message = tf.compat.v1.GraphDef.FromString(graphdef.to_bytes(graph))
    theirs = original(message, ["conv1/Relu"], ["logits/BiasAdd"], tf.float32.as_datatype_enum)
    ours = strip_unused(graph, ["conv1/Relu"], ["logits/BiasAdd"])
    assert {(n.name, n.op) for n in ours} == {(n.name, n.op) for n in theirs.node}


def test_optimized_graphs_load(tmp_path: Path) -> None:
    import tensorflow as tf
    from tensorflow.python.tools.optimize_for_inference_lib import optimize_for_inference as original

    from thinflow.compat.graph_scripts import optimize_for_inference

    graph = digits.build(0)
    message = tf.compat.v1.GraphDef.FromString(graphdef.to_bytes(graph))
    theirs = original(message, ["image"], ["probabilities"], tf.float32.as_datatype_enum)
    ours = optimize_for_inference(graph, ["image"], ["probabilities"]).graph
    named = {n.name for n in theirs.node if n.op not in {"Const", "Identity"}}
    named.remove("dropout/random_uniform/sub")  # of two constants: ours folds it
    assert named == {n.name for n in ours if n.op not in {"Const", "Identity"}}
    read = tf.compat.v1.GraphDef.FromString(graphdef.to_bytes(ours))
    with tf.Graph().as_default():
        tf.import_graph_def(read, name="")


@pytest.mark.parametrize("name", ["sm_tf1", "sm_tf2_module"])
def test_saved_model_cli(shared: Path, name: str) -> None:
    folder = shared / "formats" / name
    code = "import sys; from tensorflow.python.tools.saved_model_cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "show", "--dir", str(folder), "--all"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )

    def without_ops(lines: list[str]) -> list[str]:
        return [line.partition(" ops: ")[0] for line in lines]

    ours = all_lines(meta_graphs(folder))
    assert without_ops(ours) == without_ops(done.stdout.splitlines())
