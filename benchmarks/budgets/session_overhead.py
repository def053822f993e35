"""What `Session.run` costs beside the bare engine, and whether it copies what is large."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import thinflow
from benchmarks.bench import Bench
from benchmarks.lines import Line, figure, judged
from thinflow.analysis.stats import Distribution, describe
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.types import FLOAT

TITLE = "Session.run"
IN_QUICK = True
LIMIT_MICROS = 20
LARGE = 4 << 20
"""Elements: 16 MB in, and as much out."""
_WARMUP = 50


def measure(bench: Bench) -> Iterator[Line]:
    runs = 1000 if bench.quick else 5000
    for name, size in (("a small model", 64), ("16 MB in and out", LARGE)):
        path, tflite = _model(bench, size)
        count = runs if size < LARGE else runs // 25
        image = np.random.default_rng(0).standard_normal((1, size)).astype(np.float32)
        contestants = {
            "bare": _bare(tflite, image),
            "graph": _session(path, image),
            ".tflite": _session(tflite, image),
        }
        times = _by_turns(contestants, count)
        bare = sorted(times["bare"])[count // 2]
        for kind in ("graph", ".tflite"):
            found = _difference(times[kind], times["bare"])
            what = f"{TITLE} of a {kind}, {name}"
            half = (found.high - found.low) / 2
            detail = f"{found.median:.1f} ± {half:.1f} µs (bare: {bare:.0f} µs)"
            if size < LARGE:
                passed = found.median <= LIMIT_MICROS
                yield judged(f"{what}: time beyond bare LiteRT's", f"≤ {LIMIT_MICROS} µs", detail, passed)
                continue
            # Where a model's memory happens to lie makes more difference than the session.
            yield figure(f"{what}: time beyond bare LiteRT's", detail)
            copied = _copied_bytes(contestants[kind])
            yield judged(
                f"{what}: copied beyond what LiteRT copies (one in, one out)",
                "≤ 1 MB",
                f"{copied / 1e6:.3f} MB",
                copied <= 1e6,
            )


def _model(bench: Bench, size: int) -> tuple[Path, Path]:
    """y = -x as a graph and as a .tflite."""
    path, tflite = bench.folder / f"neg_{size}.pb", bench.folder / f"neg_{size}.tflite"
    graph = thinflow.Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, size))}).output()
    graph.inputs, graph.outputs = [x], [graph.add("Neg", [x], "y", attrs={"T": FLOAT}).output()]
    thinflow.save(graph, path)
    thinflow.save(graph, tflite)
    return path, tflite


def _bare(path: Path, image: np.ndarray) -> Callable[[], object]:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(path), num_threads=1)
    interpreter.allocate_tensors()
    feed = interpreter.get_input_details()[0]["index"]
    fetch = interpreter.get_output_details()[0]["index"]

    def run() -> object:
        interpreter.set_tensor(feed, image)
        interpreter.invoke()
        return interpreter.get_tensor(fetch)

    return run


def _session(path: Path, image: np.ndarray) -> Callable[[], object]:
    session = thinflow.Session(path, "litert")
    return lambda: session.run(["y"], {"x": image})


def _by_turns(contestants: dict[str, Callable[[], object]], count: int) -> dict[str, list[float]]:
    """Microseconds a run, round by round."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    gc.collect()
    gc.disable()
    try:
        for turn in range(_WARMUP + count):
            for name in list(contestants)[:: 1 if turn % 2 else -1]:
                begin = time.perf_counter_ns()
                contestants[name]()
                took = time.perf_counter_ns() - begin
                if turn >= _WARMUP:
                    times[name].append(took / 1e3)
    finally:
        gc.enable()
    return times


def _difference(ours: list[float], bare: list[float]) -> Distribution:
    return describe([a - b for a, b in zip(ours, bare, strict=True)])


def _copied_bytes(run: Callable[[], object]) -> int:
    """Memory that Python and numpy take during a run; LiteRT's own is not among it."""
    run()
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
