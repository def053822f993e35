"""Eight-bit latency, against TFLiteConverter's int8 model of the same data, and against our float model."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.budgets.float_latency import converted
from benchmarks.lines import Line, NeedsOracle, NotThereYet, figure, guarded, interval_line
from benchmarks.processes import run
from thinflow.bench.latency import benchmark
from thinflow.bench.machine import this_machine

TITLE = "int8 latency"
IN_QUICK = True
MODELS = ("resnet_v2_50", "mobilenet_v1", "mobilenet_v2")
QUICK_MODELS = ("mobilenet_v2",)
IMAGES = 16
SPEEDUP = 2.5


def measure(bench: Bench) -> Iterator[Line]:
    for name in QUICK_MODELS if bench.quick else MODELS:
        yield from guarded(f"{TITLE}, {name}", partial(_one, name=name), bench)


def _one(bench: Bench, name: str) -> Iterator[Line]:
    seconds = 6.0 if bench.quick else 30.0
    floats = converted(bench, name)
    ours = quantized(bench, name)
    report = benchmark({"float": floats, "ours": ours}, seconds=seconds, memory=False)
    found = report.ratio("float", "ours")
    has_dots = this_machine().multiplies_eight_bit
    what = f"{TITLE}, {name}: our float : our int8"
    detail = f"{report.row('float').median_ms:.2f} : {report.row('ours').median_ms:.2f} ms"
    if has_dots:
        yield interval_line(what, found.interval, SPEEDUP, detail, at_least=True)
    else:
        yield figure(what, f"{found.interval}× ({detail}); the budget is for CPUs with VNNI or dotprod")
    theirs = bench.folder / f"{name}_tf_int8.tflite"
    what = f"{TITLE}, {name}: ours : TFLiteConverter's int8"
    try:
        feed, fetch = bench.interface(name)
        run(bench.oracle("convert", bench.model(name), theirs, feed, fetch, bench.images(name, IMAGES)))
    except NeedsOracle:
        yield Line(what, "≤ 1×", "no TensorFlow", "needs the oracle")
        return
    report = benchmark({"theirs": theirs, "ours": ours}, seconds=seconds, memory=False)
    a, b = report.row("ours"), report.row("theirs")
    yield interval_line(what, report.ratio(a, b).interval, 1.0, f"{a.median_ms:.2f} : {b.median_ms:.2f} ms")


def quantized(bench: Bench, name: str) -> Path:
    """The model as our int8 .tflite, calibrated on a few pictures.

    Raises:
        NotThereYet: this thinflow cannot quantize.
    """
    target = bench.folder / f"{name}_int8.tflite"
    if not target.exists():
        if find_spec("thinflow.cli.quantize") is None:
            raise NotThereYet("thinflow quantize")
        images = ["--calibration", str(bench.images(name, IMAGES))]
        run([*bench.thinflow, "quantize", str(bench.model(name)), str(target), *images])
    return target
