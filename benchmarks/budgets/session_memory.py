"""Peak memory of a process that opens ResNet-50 v2 and runs it once."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from benchmarks.bench import Bench
from benchmarks.budgets.cold_start import BARE, SESSION
from benchmarks.budgets.float_latency import converted, prepared
from benchmarks.lines import Line, figure, ratio_line
from benchmarks.processes import in_turns

TITLE = "running ResNet-50 v2: peak memory"
IN_QUICK = True
MODEL = "resnet_v2_50"


def measure(bench: Bench) -> Iterator[Line]:
    path, feed, fetch, size = prepared(bench, MODEL)
    tflite = str(converted(bench, MODEL))
    commands = {
        "bare": [sys.executable, "-c", BARE, tflite],
        ".tflite": [sys.executable, "-c", SESSION, tflite, fetch, feed],
        ".pb": [sys.executable, "-c", SESSION, str(path), fetch, feed],
    }
    found = in_turns(commands, 3 if bench.quick else 7, warmup=1)
    peaks = {name: [r.peak_bytes / 1e6 for r in runs] for name, runs in found.items()}
    for name in (".tflite", ".pb"):
        yield ratio_line(
            f"{TITLE}, {name}: Session : bare LiteRT, file mapped", peaks[name], peaks["bare"], 1.15, "MB"
        )
    theirs = in_turns({"theirs": bench.oracle("first_answer", path, feed, fetch, size, size)}, 1, warmup=0)
    yield figure(f"{TITLE}, .pb: TensorFlow", f"{theirs['theirs'][0].peak_bytes / 1e6:.0f} MB")
