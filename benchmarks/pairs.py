"""Two files of one network, ours and a peer's, by turns in one runtime: a process for each, one thread."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.lines import Line, ratio_line
from benchmarks.peers import Contestant, Served, by_turns
from benchmarks.processes import run

ROUNDS = 9
FORMS = {".onnx": ("onnxruntime", "tf2onnx"), ".tflite": ("litert", "TFLiteConverter")}


def pair(bench: Bench, name: str, suffix: str, feeds: Path, *, title: str) -> Iterator[Line]:
    """The latency of NAME_ours against NAME_peer, of a suffix; ours is made of the SavedModel NAME here.

    Args:
        feeds: .npz with the input, whose first row is given where there are several.
    """
    engine, peer = FORMS[suffix]
    what = f"{title}, {name}, {suffix}"
    source, theirs = bench.folder / name, bench.folder / f"{name}_peer{suffix}"
    ours = bench.folder / f"{name}_ours{suffix}"
    if not theirs.exists():
        yield Line(what, "", f"{peer} cannot convert it", "skipped")
        return
    run([*bench.thinflow, "convert", str(source), str(ours), "--no-verify"])
    runner = sys.executable if engine == "litert" else bench.oracle_python
    served = {
        n: Served(runner, Contestant(n, engine, model), feeds, ["x", "y"], 1)
        for n, model in (("ours", ours), ("theirs", theirs))
    }
    try:
        served["ours"].wait()
        try:
            served["theirs"].wait()
        except RuntimeError:
            yield Line(what, "", f"what {peer} makes of it does not load", "skipped")
            return
        times = by_turns(served, ROUNDS)
    finally:
        for process in served.values():
            process.close()
    yield ratio_line(f"{what} : {peer}", times["ours"], times["theirs"], 1.0, "ms")
