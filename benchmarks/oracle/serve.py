"""TensorFlow on one thread, asked run by run: serve.py MODEL.pb INPUT OUTPUT H W THREADS.

For each line on stdin it runs once and answers with the nanoseconds that took.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import tensorflow as tf  # noqa: TID251

tf1 = tf.compat.v1


def main() -> None:
    source, feed, fetch, height, width, threads = sys.argv[1:]
    definition = tf1.GraphDef.FromString(Path(source).read_bytes())
    graph = tf.Graph()
    with graph.as_default():
        tf1.import_graph_def(definition, name="")
    config = tf1.ConfigProto(intra_op_parallelism_threads=int(threads), inter_op_parallelism_threads=1)
    session = tf1.Session(graph=graph, config=config)
    image = np.random.default_rng(0).uniform(-1, 1, (1, int(height), int(width), 3)).astype(np.float32)
    run = session.make_callable(f"{fetch}:0", [f"{feed}:0"])
    print("ready", flush=True)
    for _ in sys.stdin:
        begin = time.perf_counter_ns()
        run(image)
        print(time.perf_counter_ns() - begin, flush=True)


main()
