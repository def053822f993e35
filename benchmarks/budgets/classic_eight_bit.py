"""Classic eight-bit graphs in ONNX Runtime and LiteRT: against float, and TensorFlow on the same file."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.bench import Bench
from benchmarks.budgets.float_latency import Served
from benchmarks.lines import Line, NeedsOracle, figure, guarded, interval_line
from benchmarks.processes import run
from thinflow import Session
from thinflow.analysis.stats import ratio_of_medians
from thinflow.bench.machine import this_machine

TITLE = "classic eight-bit"
IN_QUICK = True
MODELS = ("resnet_v2_50", "mobilenet_v1")
QUICK_MODELS = ("mobilenet_v1",)
SIZE = 224
IMAGES = 4
SPEEDUP, OVER_TENSORFLOW = 2.5, 6.0
_WARMUP = 2
_IN_LITERT = "frozen ranges, LiteRT"
RECIPE = (
    f'strip_unused_nodes(type=float, shape="1,{SIZE},{SIZE},3") fold_constants(ignore_errors=true) '
    "fold_batch_norms fold_old_batch_norms quantize_weights quantize_nodes strip_unused_nodes "
    "sort_by_execution_order"
)
LOGGING = (
    "insert_logging(op=RequantizationRange, op=QuantizeV2, show_name=true, summarize=1, "
    'message="__requant_min_max:")'
)

Times = Mapping[str, list[float]]


def measure(bench: Bench) -> Iterator[Line]:
    for name in QUICK_MODELS if bench.quick else MODELS:
        yield from guarded(f"{TITLE}, {name}", partial(_one, name=name), bench)


def _one(bench: Bench, name: str) -> Iterator[Line]:
    """Frozen and measured ranges by turns with the float model, and TensorFlow if there is one."""
    graphs = {"frozen ranges": frozen(bench, name), "measured ranges": measured(bench, name)}
    contestants = {
        "float, ONNX Runtime": _session(bench, name, bench.model(name), "onnxruntime"),
        "float, LiteRT": _session(bench, name, bench.model(name), "litert"),
        **{kind: _session(bench, name, path, "onnxruntime") for kind, path in graphs.items()},
        _IN_LITERT: _session(bench, name, graphs["frozen ranges"], "litert"),
    }
    seconds = 6.0 if bench.quick else 30.0
    served = _served(bench, name, graphs)
    try:
        contestants.update({f"{kind}, TensorFlow": process.run_ns for kind, process in served.items()})
        times = _by_turns(contestants, seconds)
    finally:
        for process in served.values():
            process.close()
    for kind in graphs:
        yield from _lines(f"{TITLE}, {name}, {kind}", kind, times)
    found = ratio_of_medians(times["float, LiteRT"], times[_IN_LITERT], paired=True)
    label = f"{TITLE}, {name}, {_IN_LITERT}: float, LiteRT : ours"
    detail = f"{np.median(times['float, LiteRT']):.1f} : {np.median(times[_IN_LITERT]):.1f} ms"
    if this_machine().multiplies_eight_bit:
        yield interval_line(label, found, SPEEDUP, detail, at_least=True)
    else:
        yield figure(label, f"{found}× ({detail})")


def _lines(what: str, kind: str, times: Times) -> Iterator[Line]:
    for other, limit in (
        ("float, ONNX Runtime", SPEEDUP),
        ("float, LiteRT", None),
        (f"{kind}, TensorFlow", OVER_TENSORFLOW),
    ):
        label = f"{what}: {other} : ours"
        if other not in times:
            yield Line(label, "", "`make oracle-venv`, or set THINFLOW_ORACLE_PYTHON", "needs the oracle")
            continue
        found = ratio_of_medians(times[other], times[kind], paired=True)
        detail = f"{np.median(times[other]):.1f} : {np.median(times[kind]):.1f} ms"
        if limit is None or not this_machine().multiplies_eight_bit:
            yield figure(label, f"{found}× ({detail})")
        else:
            yield interval_line(label, found, limit, detail, at_least=True)


def _by_turns(contestants: Mapping[str, Callable[[], int]], seconds: float) -> Times:
    """Milliseconds of each run; an untimed run comes before each timed one."""
    times: dict[str, list[float]] = {who: [] for who in contestants}
    started, rounds = time.monotonic(), 0
    while time.monotonic() - started < seconds or rounds < _WARMUP + 7:
        for who in contestants if rounds % 2 else reversed(contestants):
            contestants[who]()
            found = contestants[who]() / 1e6
            if rounds >= _WARMUP:
                times[who].append(found)
        rounds += 1
    return times


def _session(bench: Bench, name: str, path: Path, engine: str) -> Callable[[], int]:
    """Runs a graph once; the nanoseconds it took."""
    feed, fetch = bench.interface(name)
    session = Session(str(path), engine=engine)
    image = np.random.default_rng(0).uniform(-1, 1, (1, SIZE, SIZE, 3)).astype(np.float32)

    def run_ns() -> int:
        begin = time.perf_counter_ns()
        session.run([fetch], {feed: image})
        return time.perf_counter_ns() - begin

    return run_ns


def _served(bench: Bench, name: str, graphs: Mapping[str, Path]) -> dict[str, Served]:
    """TensorFlow with each graph; nothing where there is no TensorFlow."""
    feed, fetch = bench.interface(name)
    try:
        return {
            kind: Served(bench.oracle("serve", path, feed, fetch, SIZE, SIZE, 1))
            for kind, path in graphs.items()
        }
    except NeedsOracle:
        return {}


def measured(bench: Bench, name: str) -> Path:
    """A network of the zoo after the recipe; its ranges are measured in each run."""
    return _transformed(bench, name, bench.model(name), f"{name}_eight", RECIPE)


def frozen(bench: Bench, name: str) -> Path:
    """The same with ranges frozen from the log of a few pictures."""
    source = measured(bench, name)
    log = bench.folder / f"{name}_ranges.txt"
    if not log.exists():
        logged = _transformed(bench, name, source, f"{name}_logged", LOGGING)
        log.write_text("".join(_ranges(bench, logged, image, name) for image in _pictures(bench, name)))
    freezing = f"freeze_requantization_ranges(min_max_log_file={log})"
    return _transformed(bench, name, source, f"{name}_frozen", freezing)


def _pictures(bench: Bench, name: str) -> Iterator[Path]:
    """A few pictures, one a file."""
    with np.load(bench.images(name, IMAGES)) as images:
        batch = images[next(iter(images))]
    for number, picture in enumerate(batch):
        path = bench.folder / f"{name}_{number}.npy"
        np.save(path, picture[None])
        yield path


def _ranges(bench: Bench, logged: Path, picture: Path, name: str) -> str:
    """What a graph that logs its ranges says of one picture."""
    feed, fetch = bench.interface(name)
    options = ["--engine", "reference", "--outputs", fetch, "--feed", f"{feed}={picture}"]
    command = [*bench.thinflow, "run", str(logged), *options]
    return subprocess.run(command, capture_output=True, check=True, text=True).stderr


def _transformed(bench: Bench, name: str, source: Path, target: str, transforms: str) -> Path:
    path = bench.folder / f"{target}.pb"
    if not path.exists():
        feed, fetch = bench.interface(name)
        files = [f"--in_graph={source}", f"--out_graph={path}", f"--inputs={feed}", f"--outputs={fetch}"]
        run([*bench.thinflow, "transform_graph", *files, "--verify=false", f"--transforms={transforms}"])
    return path
