"""Latency of recurrent Keras networks in our .onnx and .tflite files against tf2onnx's and TFLiteConverter's.

Each pair runs by turns in the same runtime, a process for each, one thread.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial

from benchmarks.bench import Bench
from benchmarks.lines import Line, guarded, ratio_line
from benchmarks.peers import Contestant, Served, by_turns
from benchmarks.processes import run

TITLE = "recurrent"
IN_QUICK = False
ROUNDS = 9
FORMS = {".onnx": ("onnxruntime", "tf2onnx"), ".tflite": ("litert", "TFLiteConverter")}


def measure(bench: Bench) -> Iterator[Line]:
    names = run(bench.oracle("recurrent_pairs", bench.folder)).output.split()
    chosen = os.environ.get("THINFLOW_PEERS", "")  # part of a name: only those
    for name in (n for n in names if (bench.folder / n).is_dir() and chosen in n):
        for suffix in FORMS:
            what = f"{TITLE}, {name}, {suffix}"
            yield from guarded(what, partial(_pair, name=name, suffix=suffix), bench)


def _pair(bench: Bench, name: str, suffix: str) -> Iterator[Line]:
    """Ours against theirs, of one network in one form."""
    engine, peer = FORMS[suffix]
    source, theirs = bench.folder / name, bench.folder / f"{name}_peer{suffix}"
    ours = bench.folder / f"{name}_ours{suffix}"
    if not theirs.exists():
        yield Line(f"{TITLE}, {name}, {suffix}", "", f"{peer} cannot convert it", "skipped")
        return
    run([*bench.thinflow, "convert", str(source), str(ours), "--no-verify"])
    runner = sys.executable if engine == "litert" else bench.oracle_python
    feeds = bench.folder / "feeds.npz"
    served = {
        n: Served(runner, Contestant(n, engine, model), feeds, ["x", "y"], 1)
        for n, model in (("ours", ours), ("theirs", theirs))
    }
    try:
        for process in served.values():
            process.wait()
        times = by_turns(served, ROUNDS)
    finally:
        for process in served.values():
            process.close()
    yield ratio_line(f"{TITLE}, {name}, {suffix} : {peer}", times["ours"], times["theirs"], 1.0, "ms")
