"""Float latency of our .tflite, against TFLiteConverter's on the same LiteRT, and against TensorFlow."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.lines import Line, figure, guarded, interval_line, ratio_line
from benchmarks.processes import run
from thinflow.bench.latency import benchmark
from thinflow.bench.open_targets import open_subjects

TITLE = "float latency"
IN_QUICK = True
MODELS = ("resnet_v2_50", "mobilenet_v1", "mobilenet_v2", "inception_v3_2015")
QUICK_MODELS = ("mobilenet_v2",)
_WARMUP = 3
_INPUT_SIZES = {"inception_v3_2015": 299}
_INNER_INPUTS = {"inception_v3_2015": "Mul"}  # behind its JPEG decoder


def measure(bench: Bench) -> Iterator[Line]:
    for name in QUICK_MODELS if bench.quick else MODELS:
        yield from guarded(
            f"{TITLE}, {name}: ours : TFLiteConverter's, TensorFlow", partial(_one, name=name), bench
        )


def _one(bench: Bench, name: str) -> Iterator[Line]:
    seconds = 6.0 if bench.quick else 30.0
    model, feed, fetch, size = prepared(bench, name)
    ours = converted(bench, name)
    alone = benchmark({"ours": ours}, seconds=seconds / 3, memory=False)
    yield figure(f"{TITLE}, {name}, 1 thread", f"{alone.row('ours').latency.median:.2f} ms")
    theirs = bench.folder / f"{name}_tf.tflite"
    run(bench.oracle("convert", model, theirs, feed, fetch))
    report = benchmark({"theirs": theirs, "ours": ours}, seconds=seconds, memory=False)
    a, b = report.row("ours"), report.row("theirs")
    found = report.ratio(a, b)
    detail = f"{a.median_ms:.2f} : {b.median_ms:.2f} ms"
    yield interval_line(f"{TITLE}, {name}: ours : TFLiteConverter's, on LiteRT", found.interval, 1.0, detail)
    times = against_tensorflow(bench.oracle("serve", model, feed, fetch, size, size, 1), ours, seconds)
    yield ratio_line(f"{TITLE}, {name}: ours : TensorFlow", *times, 1.0, "ms")


def prepared(bench: Bench, name: str) -> tuple[Path, str, str, int]:
    """A model with its input, output and image size, cut so that it starts with a float image."""
    model, size = bench.model(name), _INPUT_SIZES.get(name, 224)
    feed, fetch = bench.interface(name)
    if name not in _INNER_INPUTS:
        return model, feed, fetch, size
    feed = _INNER_INPUTS[name]
    cut = bench.folder / f"{name}_cut.pb"
    if not cut.exists():
        strip = f'strip_unused_nodes(type=float, shape="1,{size},{size},3")'
        names = [f"--inputs={feed}", f"--outputs={fetch}"]
        run(
            [
                *bench.thinflow,
                "transform_graph",
                f"--in_graph={model}",
                f"--out_graph={cut}",
                *names,
                f"--transforms={strip}",
            ]
        )
    return cut, feed, fetch, size


def converted(bench: Bench, name: str) -> Path:
    """The model as our .tflite."""
    target = bench.folder / f"{name}.tflite"
    if not target.exists():
        model, feed, fetch, size = prepared(bench, name)
        names = ["--inputs", feed, "--outputs", fetch, "--shape", f"{feed}=1,{size},{size},3"]
        run([*bench.thinflow, "convert", str(model), str(target), "--no-verify", *names])
    return target


class Served:
    """TensorFlow in a process of its own; the pipe to it is not counted."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        if "ready" not in self._answer():
            raise RuntimeError("the TensorFlow process did not start")

    def run_ns(self) -> int:
        assert self._process.stdin is not None
        print("run", file=self._process.stdin, flush=True)
        return int(self._answer())

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def close(self) -> None:
        self._process.communicate(timeout=60)


def against_tensorflow(command: list[str], ours: Path, seconds: float) -> tuple[list[float], list[float]]:
    """Milliseconds a run of our model, and of TensorFlow, by turns, on one thread each.

    Both with the input copied in. As in `thinflow benchmark`, an untimed run comes before each timed one.
    """
    (subject,) = open_subjects({"ours": ours})
    runner = subject.prepare("litert", 1)
    served = Served(command)

    def run_ns() -> int:
        begin = time.perf_counter_ns()
        runner.feed()
        runner.invoke()
        return time.perf_counter_ns() - begin

    contestants = run_ns, served.run_ns
    times: dict[int, list[float]] = {0: [], 1: []}
    try:
        started, rounds = time.monotonic(), 0
        while time.monotonic() - started < seconds or rounds <= _WARMUP:
            for who in (0, 1) if rounds % 2 else (1, 0):
                contestants[who]()
                found = contestants[who]() / 1e6
                if rounds >= _WARMUP:
                    times[who].append(found)
            rounds += 1
    finally:
        served.close()
    return times[0], times[1]
