"""TensorFlow from a .pb to the first answer: first_answer.py MODEL.pb INPUT OUTPUT H W."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import tensorflow as tf  # noqa: TID251

tf1 = tf.compat.v1


def main() -> None:
    source, feed, fetch, height, width = sys.argv[1:]
    definition = tf1.GraphDef.FromString(Path(source).read_bytes())
    graph = tf.Graph()
    with graph.as_default():
        tf1.import_graph_def(definition, name="")
    config = tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    image = np.zeros((1, int(height), int(width), 3), np.float32)
    with tf1.Session(graph=graph, config=config) as session:
        print(session.run(f"{fetch}:0", {f"{feed}:0": image}).shape)


main()
