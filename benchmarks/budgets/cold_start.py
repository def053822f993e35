"""From an empty process to the first answer: imports, opening, one run."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from benchmarks.bench import Bench
from benchmarks.budgets.float_latency import converted, prepared
from benchmarks.lines import Line, figure, ratio_line
from benchmarks.processes import Finished, in_turns

TITLE = "cold start"
IN_QUICK = True
MODELS = ("mobilenet_v2", "resnet_v2_50")
QUICK_MODELS = ("mobilenet_v2",)

BARE = """
import sys
import numpy as np
from ai_edge_litert.interpreter import Interpreter
interpreter = Interpreter(sys.argv[1], num_threads=1)
interpreter.allocate_tensors()
feed, = interpreter.get_input_details()
interpreter.set_tensor(feed["index"], np.zeros(feed["shape"], np.float32))
interpreter.invoke()
print(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).shape)
"""
SESSION = """
import sys
import numpy as np
import thinflow
session = thinflow.Session(sys.argv[1])
(name, spec), *_ = session.inputs.items()
y, = session.run([sys.argv[2]], {sys.argv[3]: np.zeros([n or 1 for n in spec.shape], np.float32)})
print(y.shape)
"""


def measure(bench: Bench) -> Iterator[Line]:
    for name in QUICK_MODELS if bench.quick else MODELS:
        path, feed, fetch, size = prepared(bench, name)
        tflite = str(converted(bench, name))
        commands = {
            "bare": [sys.executable, "-c", BARE, tflite],
            "file": [sys.executable, "-c", SESSION, tflite, fetch, feed],
            "graph": [sys.executable, "-c", SESSION, str(path), fetch, feed],
        }
        found = in_turns(commands, 10 if bench.quick else 30, warmup=2)
        bare = _seconds(found["bare"])
        yield ratio_line(
            f"{TITLE}, {name}.tflite: Session : bare LiteRT", _seconds(found["file"]), bare, 1.2, "s"
        )
        yield figure(f"{TITLE}, {name}.pb on LiteRT", f"{_median(_seconds(found['graph'])):.2f} s")
    for name in QUICK_MODELS if bench.quick else MODELS:
        path, feed, fetch, size = prepared(bench, name)
        commands = {
            "ours": [sys.executable, "-c", SESSION, str(path), fetch, feed],
            "theirs": bench.oracle("first_answer", path, feed, fetch, size, size),
        }
        found = in_turns(commands, 3 if bench.quick else 7)
        ours, theirs = _seconds(found["ours"]), _seconds(found["theirs"])
        yield ratio_line(f"{TITLE}, {name}.pb: Session : TensorFlow", ours, theirs, 1 / 5, "s")


def _seconds(runs: list[Finished]) -> list[float]:
    return [r.seconds for r in runs]


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
