"""Latency of networks whose speed rests on ops that the runtimes have, against the peers' files.

Suppression of boxes, simulated quantization, experts, ConvNeXt, an LSTM of an open batch: our .onnx and
.tflite files against tf2onnx's and TFLiteConverter's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial

from benchmarks.bench import Bench
from benchmarks.lines import Line, guarded
from benchmarks.pairs import FORMS, pair
from benchmarks.processes import run

TITLE = "runtime ops"
IN_QUICK = False


def measure(bench: Bench) -> Iterator[Line]:
    chosen = os.environ.get("THINFLOW_PEERS", "")  # part of a name: only those
    names = run(bench.oracle("runtime_pairs", bench.folder, chosen)).output.split()
    for name in (n for n in names if (bench.folder / n).is_dir()):
        feeds = bench.folder / f"{name}.npz"
        for suffix in FORMS:
            compare = partial(pair, name=name, suffix=suffix, feeds=feeds, title=TITLE)
            yield from guarded(f"{TITLE}, {name}, {suffix}", compare, bench)
