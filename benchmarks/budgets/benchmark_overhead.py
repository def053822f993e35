"""What the loops of `thinflow benchmark` and `benchmark_model` cost beside bare loops around equal runs."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import thinflow
from benchmarks.bench import Bench
from benchmarks.lines import Line, interval_line, ratio_line
from thinflow.analysis.node_stats import Series
from thinflow.analysis.stats import Interval, median_interval
from thinflow.bench.machine import Bystanders
from thinflow.bench.timing_loop import Case, Limits
from thinflow.bench.timing_loop import measure as measure_cases
from thinflow.compat.benchmark_model.measure import Phases, timed_runs
from thinflow.engines.litert import Model
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.types import FLOAT

TITLE = "The loops of `thinflow benchmark` and `benchmark_model` : a bare loop"
IN_QUICK = True
LIMIT = 1.01
LONG, SHORT = 120, 12
"""Runs in a row, before the next loop has its turn: enough for all that is done now and then, or few, so that
the machine has no time to change."""
_BARE = "a bare loop"
_MS = 1_000_000
_BATCH, _WIDTH = 16, 512  # weights of 1 MB a layer: a run leaves nothing else in the caches
_clock = time.thread_time_ns
"""CPU time, which stands still while the system runs something else."""
Stamps = list[tuple[int, int, int]]
"""Nanoseconds by this clock: before feeding, before running, and after; of each run."""


def measure(bench: Bench) -> Iterator[Line]:
    turns, more = (15, 100) if bench.quick else (60, 500)
    model, image = _network_of_a_millisecond(bench)
    gc.collect()
    gc.freeze()  # a loop collects garbage before it begins, once; that is not what is asked here
    try:
        yield from _of_spins(_blocks(_Spin(), turns, LONG))
        products = _Products(model, image)
        yield from _between_runs(_blocks(products, turns, LONG))
        yield from _of_runs(_blocks(products, more, SHORT))
    finally:
        gc.unfreeze()


@dataclass
class _Timed:
    """A run that stamps itself, the same way whatever the loop around it."""

    note = ""
    eight_bit = False
    feeds_apart = True
    stamps: Stamps = field(default_factory=list)
    _fed: tuple[int, int] = (0, 0)

    def feed(self) -> None:
        begin = _clock()
        self.copy()
        self._fed = begin, _clock()

    def invoke(self) -> None:
        self.work()
        self.stamps.append((*self._fed, _clock()))

    def run(self) -> list[Any]:
        """Both, which is what a session does."""
        self.feed()
        self.invoke()
        return []

    def copy(self) -> None:
        """Bring the inputs to where they are read."""

    def work(self) -> None:
        """Compute."""


class _Spin(_Timed):
    """Takes a millisecond, to the microsecond."""

    def work(self) -> None:
        until = _clock() + _MS
        while _clock() < until:
            pass


class _Products(_Timed):
    """A model in LiteRT."""

    def __init__(self, model: Model, image: np.ndarray[Any, Any]) -> None:
        super().__init__()
        self.work = model.interpreter.invoke  # type: ignore[method-assign]
        self._set, self._image = model.interpreter.set_tensor, image
        self._index = model.interpreter.get_input_details()[0]["index"]

    def copy(self) -> None:
        self._set(self._index, self._image)


def _blocks(timed: _Timed, turns: int, runs: int) -> dict[str, list[_Block]]:
    """Loop -> what each of its turns took."""
    loops: dict[str, Callable[[_Timed, int], None]] = {
        _BARE: _bare_loop,
        "`thinflow benchmark`": _benchmark_loop,
        "`benchmark_model`": _classic_loop,
    }
    found: dict[str, list[_Block]] = {name: [] for name in loops}
    for turn in range(2 + turns):
        for place in range(len(loops)):
            name = list(loops)[(turn + place) % len(loops)]
            timed.stamps.clear()
            loops[name](timed, runs)
            if turn >= 2:
                found[name].append(_block(timed.stamps))
    return found


def _of_spins(blocks: dict[str, list[_Block]]) -> Iterator[Line]:
    """Runs that all take the same show the whole loop, from run to run."""
    bare = [b.period for b in blocks.pop(_BARE)]
    for name, ours in blocks.items():
        what = f"{name}: its loop : a bare loop, around a spin of 1 ms"
        yield ratio_line(what, [b.period for b in ours], bare, LIMIT, "ms")


def _between_runs(blocks: dict[str, list[_Block]]) -> Iterator[Line]:
    """A model's runs differ by more than a loop takes, so that is looked at by itself, while the caches are
    as the model leaves them. The clocks that look are in the bare loop, too."""
    bare = blocks.pop(_BARE)
    run_ms = _median(b.run for b in bare)
    for name, ours in blocks.items():
        shares = [1 + (a.between - b.between) / run_ms for a, b in zip(ours, bare, strict=True)]
        found = Interval(float(np.median(shares)), *median_interval(shares))
        micros = (1000 * _median(b.between for b in some) for some in (ours, bare))
        detail = "{:.1f} : {:.1f} µs between runs".format(*micros)
        yield interval_line(
            f"{name}: its loop : a bare loop, beside a run of {run_ms:.2f} ms", found, LIMIT, detail
        )


def _of_runs(blocks: dict[str, list[_Block]]) -> Iterator[Line]:
    """Whether a loop makes the runs themselves any slower."""
    bare = [b.run for b in blocks.pop(_BARE)]
    for name, ours in blocks.items():
        yield ratio_line(
            f"{name}: latency in its loop : in a bare loop", [b.run for b in ours], bare, LIMIT, "ms"
        )


def _median(numbers: Iterable[float]) -> float:
    return float(np.median(list(numbers)))


@dataclass(frozen=True)
class _Block:
    """Milliseconds of a turn.

    Attributes:
        period: from the end of a run to the end of the next, on average.
        between: of that, what is neither feeding nor running, on average.
        run: what a run takes that nothing else slows down: a quarter of them take less.
    """

    period: float
    between: float
    run: float


def _block(stamps: Stamps) -> _Block:
    begin, fed, end = np.array(stamps, float).T / _MS
    between = begin[1:] - end[:-1]
    return _Block(float(np.diff(end).mean()), float(between.mean()), float(np.quantile(end - fed, 0.25)))


def _bare_loop(timed: _Timed, runs: int) -> None:
    """As short as it can be."""
    times = []
    for _ in range(runs):
        timed.feed()
        begin = time.perf_counter_ns()
        timed.invoke()
        times.append(time.perf_counter_ns() - begin)


def _benchmark_loop(timed: _Timed, runs: int) -> None:
    case = Case("model", "litert", 1, timed)
    measure_cases([case], Limits(runs, seconds=3600.0, warmup=0), bystanders=Bystanders())


def _classic_loop(timed: _Timed, runs: int) -> None:
    timed_runs(timed.run, Phases(runs, 3600.0), Series())


def _network_of_a_millisecond(bench: Bench) -> tuple[Model, np.ndarray[Any, Any]]:
    """Matrix products in a row, as many as take a millisecond here, and what they are fed."""
    image = np.random.default_rng(0).standard_normal((_BATCH, _WIDTH)).astype(np.float32)
    layers = 8
    for _ in range(3):
        model = Model(str(_network(bench, layers)), threads=1)
        timed = _Products(model, image)
        _bare_loop(timed, LONG)
        took = _block(timed.stamps).run
        if 1 <= took < 1.3:
            break
        layers = min(400, max(1, round(layers * 1.1 / took)))
    return model, image


def _network(bench: Bench, layers: int) -> Path:
    """So many matrix products as a .tflite."""
    path = bench.folder / f"products{layers}.tflite"
    graph = thinflow.Graph()
    shape = ShapeAttr((_BATCH, _WIDTH))
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": shape}).output()
    random, y = np.random.default_rng(1), x
    for number in range(layers):
        weights = (random.standard_normal((_WIDTH, _WIDTH)) / _WIDTH**0.5).astype(np.float32)
        kernel = graph.constant(weights, f"w{number}")
        product = graph.add("MatMul", [y, kernel], f"product{number}", attrs={"T": FLOAT}).output()
        y = graph.add("Relu", [product], f"y{number}", attrs={"T": FLOAT}).output()
    graph.inputs, graph.outputs = [x], [y]
    thinflow.save(graph, path)
    return path
