"""Runs that TensorFlow recorded, in the tables of its own StatSummarizer and of ours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import thinflow

original = pytest.importorskip("tensorflow.python.util._pywrap_stat_summarizer")

v1 = tf.compat.v1


def graph_def() -> v1.GraphDef:
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [1, 8, 8, 3], name="x")
        conv = tf.nn.conv2d(x, np.ones((3, 3, 3, 4), np.float32), 1, "SAME", name="conv")
        y = tf.nn.relu(conv, name="relu")
        tf.linalg.matmul(tf.reshape(y, [1, 256], name="flat"), np.ones((256, 5), np.float32), name="product")
        return graph.as_graph_def()


def recorded(definition: v1.GraphDef) -> list[bytes]:
    """StepStats messages of three runs."""
    runs = []
    with tf.Graph().as_default():
        tf.import_graph_def(definition, name="")
        with v1.Session() as session:
            for _ in range(3):
                metadata = v1.RunMetadata()
                options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
                feed = {"x:0": np.ones((1, 8, 8, 3), np.float32)}
                session.run("product:0", feed, options=options, run_metadata=metadata)
                runs.append(metadata.step_stats.SerializeToString())
    return runs


def rows(text: str) -> list[list[str]]:
    """The tables with their rows sorted, as ties come in any order there; without sums of what is above."""
    tables = [[line.split("\t") for line in table.splitlines()] for table in text.split("\n\n")]
    return [sorted("|".join(c for i, c in enumerate(row) if i != 5) for row in table) for table in tables]


def test_the_same_tables(tmp_path: Path) -> None:
    definition = graph_def()
    (tmp_path / "model.pb").write_bytes(definition.SerializeToString())
    theirs = original.StatSummarizer(definition.SerializeToString())
    options = thinflow.StatSummarizerOptions(time_limit=0, memory_limit=0)
    ours = thinflow.StatSummarizer(tmp_path / "model.pb", options)
    for run in recorded(definition):
        theirs.ProcessStepStatsStr(run)
        ours.process_step_stats(run)
    wanted, found = theirs.GetOutputString(), ours.output_string()
    order = slice(0, wanted.index("Top by Computation Time"))
    assert found[order] == wanted[order]  # byte by byte
    assert rows(wanted)[3] == rows(found)[3]  # by type
    assert [line for line in found.splitlines() if line.startswith(("Timings", "Memory"))] == [
        line for line in wanted.splitlines() if line.startswith(("Timings", "Memory"))
    ]
