"""Networks with channels first, as PyTorch exports them: cost of conversion, transposes that are left, and
latency beside the same network with channels last.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.channels_first import NETS, SHUFFLES, write_graphdef, write_onnx
from benchmarks.lines import Line, figure, guarded, interval_line, judged
from benchmarks.processes import in_turns, run

TITLE = "channels first, from .onnx"
IN_QUICK = True
MODEL = "ResNet-50"
SECONDS, MEMORY, SLOWER = 1.5, 300e6, 1.02
INPUTS = 1
"""Transposes that a picture needs to get into another layout."""


def measure(bench: Bench) -> Iterator[Line]:
    yield from guarded(f"{TITLE}: cost", _cost, bench)
    yield from guarded("fingerprints of transposed weights", _fingerprints, bench)
    for name in [MODEL, "ShuffleNet v2"] if bench.quick else NETS:
        yield from guarded(f"{TITLE}, {name}", partial(_one, name=name), bench)


def _cost(bench: Bench) -> Iterator[Line]:
    model, output = bench.folder / "resnet50.onnx", bench.folder / "resnet50.tflite"
    write_onnx(MODEL, model)
    command = [*bench.thinflow, "convert", str(model), str(output), "--no-verify"]
    runs = in_turns({"it": command}, 3 if bench.quick else 7)["it"]
    cpu = sorted(r.cpu_seconds for r in runs)[len(runs) // 2]
    peak = max(r.peak_bytes for r in runs)
    what = f"{MODEL} of {model.stat().st_size / 1e6:.0f} MB to .tflite, whole process"
    yield judged(f"{what}: CPU time", f"≤ {SECONDS} s", f"{cpu:.2f} s", cpu <= SECONDS)
    yield judged(f"{what}: peak memory", f"≤ {MEMORY / 1e6:.0f} MB", f"{peak / 1e6:.0f} MB", peak <= MEMORY)


def _fingerprints(bench: Bench) -> Iterator[Line]:
    """Weights that were transposed lie in another order; telling them apart must not depend on that."""
    import numpy as np

    from thinflow.ir.tensor import Tensor

    array = np.random.default_rng(0).standard_normal((512, 512, 3, 3), np.float32)
    times = []
    for view in (array, array.transpose(2, 3, 1, 0)):
        start = time.process_time()
        for _ in range(5):
            Tensor.from_array(view).fingerprint()
        times.append((time.process_time() - start) / 5 * 1e3)
    yield figure(
        "fingerprint of 9.4 MB of weights, as they lie : transposed", f"{times[0]:.1f} : {times[1]:.1f} ms"
    )


def _one(bench: Bench, name: str) -> Iterator[Line]:
    from thinflow.bench.latency import benchmark

    slug = name.replace(" ", "_")
    paths = {kind: bench.folder / f"{slug}.{kind}" for kind in ("onnx", "pb")}
    write_onnx(name, paths["onnx"])
    write_graphdef(name, paths["pb"])
    files: dict[str, Path] = {}
    for kind, source in paths.items():
        files[kind] = bench.folder / f"{slug}_{kind}.tflite"
        run([*bench.thinflow, "convert", str(source), str(files[kind])])
    left, allowed = operators(files["onnx"])["TRANSPOSE"], INPUTS + SHUFFLES.get(name, 0)
    budget = f"≤ {allowed}" + (f", {SHUFFLES[name]} of them its shuffles" if name in SHUFFLES else "")
    yield judged(f"{name}: transposes left", budget, str(left), left <= allowed)
    report = benchmark(files, seconds=6.0 if bench.quick else 20.0, memory=False)
    ours, theirs = report.row("onnx"), report.row("pb")
    detail = f"{ours.median_ms:.2f} : {theirs.median_ms:.2f} ms"
    ratio = report.ratio(ours, theirs).interval
    yield interval_line(f"{name}: latency : the same with channels last, on LiteRT", ratio, SLOWER, detail)


def operators(path: Path) -> Counter[str]:
    """The operators of a .tflite file."""
    import thinflow

    return Counter(node.op.removeprefix("tfl.") for node in thinflow.load(path, lift=False))
