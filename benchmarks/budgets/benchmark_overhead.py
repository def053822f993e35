"""What the loop of `thinflow benchmark` costs beside a bare loop around the same interpreter."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import thinflow
from benchmarks.bench import Bench
from benchmarks.lines import Line, judged, ratio_line
from thinflow.bench.loop import Case, Limits
from thinflow.bench.loop import measure as measure_cases
from thinflow.bench.subjects import LiteRTRunner, Runner
from thinflow.engines.litert import Model
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.types import FLOAT

TITLE = "`thinflow benchmark`: its loop : a bare loop"
IN_QUICK = True
LIMIT = 1.01
RUNS = 100
"""In a row; then the other loop has its turn."""
_BATCH, _WIDTH, _LAYERS = 64, 512, 12  # one to five milliseconds on today's machines


def measure(bench: Bench) -> Iterator[Line]:
    image = np.random.default_rng(0).standard_normal((_BATCH, _WIDTH)).astype(np.float32)
    model = Model(str(_network(bench)), threads=1)
    runner = LiteRTRunner(model, [image])
    gc.collect()
    gc.freeze()  # the loop collects garbage before it begins, once; that is not what is asked here
    ours, bare, told, seen = [], [], [], []
    try:
        alone = min(_our_loop(_Nothing())[0] for _ in range(20))
        for turn in range(2 + (20 if bench.quick else 60)):
            for is_ours in (True, False) if turn % 2 else (False, True):
                cpu, latency = _our_loop(runner) if is_ours else _bare_loop(model, image)
                if turn >= 2:
                    (ours if is_ours else bare).append(cpu)
                    (told if is_ours else seen).append(latency)
    finally:
        gc.unfreeze()
    latency = float(np.median(seen))
    what = f"`thinflow benchmark`: its loop without a model, beside a run of {latency:.2f} ms"
    share = alone / latency
    yield judged(what, f"≤ {LIMIT - 1:.0%}", f"{share:.2%} ({1000 * alone:.1f} µs)", share <= LIMIT - 1)
    yield ratio_line(f"{TITLE}, CPU time a run", ours, bare, LIMIT, "ms")
    yield ratio_line(f"{TITLE}, latency that is told", told, seen, LIMIT, "ms")


class _Nothing:
    """A model that takes no time."""

    note, eight_bit, feeds_apart = "", False, True

    def feed(self) -> None: ...

    def invoke(self) -> None: ...


def _our_loop(runner: Runner) -> tuple[float, float]:
    """Milliseconds of CPU time a run, and the median that a report would show."""
    case = Case("model", "litert", 1, runner)
    begin = time.process_time_ns()
    measure_cases([case], Limits(RUNS, seconds=3600.0, warmup=0))
    took = time.process_time_ns() - begin
    return took / RUNS / 1e6, float(np.median(case.times)) / 1e6


def _bare_loop(model: Model, image: np.ndarray) -> tuple[float, float]:
    """The same of a loop as short as it can be."""
    interpreter = model.interpreter
    index = interpreter.get_input_details()[0]["index"]
    times = []
    begin = time.process_time_ns()
    for _ in range(RUNS):
        interpreter.set_tensor(index, image)
        started = time.perf_counter_ns()
        interpreter.invoke()
        times.append(time.perf_counter_ns() - started)
    took = time.process_time_ns() - begin
    return took / RUNS / 1e6, float(np.median(times)) / 1e6


def _network(bench: Bench) -> Path:
    """A few matrix products in a row, as a .tflite."""
    path = bench.folder / "products.tflite"
    graph = thinflow.Graph()
    shape = ShapeAttr((_BATCH, _WIDTH))
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": shape}).output()
    random, y = np.random.default_rng(1), x
    for number in range(_LAYERS):
        weights = (random.standard_normal((_WIDTH, _WIDTH)) / _WIDTH**0.5).astype(np.float32)
        kernel = graph.constant(weights, f"w{number}")
        product = graph.add("MatMul", [y, kernel], f"product{number}", attrs={"T": FLOAT}).output()
        y = graph.add("Relu", [product], f"y{number}", attrs={"T": FLOAT}).output()
    graph.inputs, graph.outputs = [x], [y]
    thinflow.save(graph, path)
    return path
