"""Latency of recurrent Keras networks in our files against tf2onnx's .onnx and TFLiteConverter's .tflite."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial

from benchmarks.bench import Bench
from benchmarks.lines import Line, guarded
from benchmarks.pairs import FORMS, pair
from benchmarks.processes import run

TITLE = "recurrent"
IN_QUICK = False


def measure(bench: Bench) -> Iterator[Line]:
    names = run(bench.oracle("recurrent_pairs", bench.folder)).output.split()
    chosen = os.environ.get("THINFLOW_PEERS", "")  # part of a name: only those
    feeds = bench.folder / "feeds.npz"
    for name in (n for n in names if (bench.folder / n).is_dir() and chosen in n):
        for suffix in FORMS:
            compare = partial(pair, name=name, suffix=suffix, feeds=feeds, title=TITLE)
            yield from guarded(f"{TITLE}, {name}, {suffix}", compare, bench)
