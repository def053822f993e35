"""Times of the nodes of a graph that runs in parts: those of an engine by its own profiler, the
interpreter's by the clock, in one table that says of each node which part it is in.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from thinflow.analysis.node_stats import NodeRow, NodeStats, Series
from thinflow.bench.profile_model import Part, Profile, collect, observed
from thinflow.bench.targets import GraphSubject
from thinflow.engines import find
from thinflow.errors import EngineUnavailable
from thinflow.interpreter import Plan
from thinflow.ir.graph import Graph
from thinflow.typing import Array

INTERPRETER = "reference"
_MOST_SAMPLES = 8
"""What goes from part to part is kept for each of them."""


def profile_in_parts(subject: GraphSubject, engine: str, threads: int, runs: int, warmup: int) -> Profile:
    """The parts as the engine's own partition makes them, each profiled on what really reaches it.

    Args:
        subject: a graph, with inputs and outputs.
        engine: "litert" or "onnxruntime"; what it leaves runs in the interpreter.
        threads, runs, warmup: as for `profile`.

    Raises:
        ThinflowError: the graph does not run at all.
    """
    from thinflow.engines._threads import blas

    graph, samples = subject.graph, subject.samples()[:_MOST_SAMPLES]
    compiled: Any = find(engine).compile(graph, graph.inputs, graph.outputs, threads=threads)
    for _ in range(max(warmup, 1)):  # what an engine refuses when it runs goes to the interpreter now
        compiled.run(samples[0])
    values: list[dict[Any, Any]] = [dict(zip(graph.inputs, arrays, strict=True)) for arrays in samples]
    total = NodeStats()
    parts: list[Part] = []
    kernels: dict[str, str] = {}
    part_of: dict[str, str] = {}
    with blas().limited(threads):
        for number, piece in enumerate(compiled.pieces, 1):
            fed = [[known[v] for v in piece.region.inputs] for known in values]
            # The part runs once by itself, so that those behind it get what they would in a whole run.
            for known, arrays in zip(values, fed, strict=True):
                known.update(zip(piece.region.outputs, piece.run(arrays), strict=True))
            found = _profiled(piece, graph, engine, fed, threads, runs, warmup)
            where = engine if piece.runs_on_engine else INTERPRETER
            part = Part(
                f"{number} {where}", where, len(piece.region.nodes), sum(found.stats.medians().values())
            )
            parts.append(part)
            names = add_part(total, found.stats, number)
            kernels |= {new: found.kernels.get(old, found.engine) for old, new in names.items()}
            part_of |= dict.fromkeys(names.values(), part.name)
        # Apart from the parts' own runs: profilers slow down what they watch.
        whole = [_clocked(compiled, samples[turn % len(samples)]) for turn in range(runs)]
    method = _method(parts, len(samples))
    return Profile(total, engine, threads, method, kernels, whole, parts=parts, part_of=part_of)


def _method(parts: Sequence[Part], samples: int) -> str:
    told = ", ".join(f"{part.engine} ({part.nodes} node{'s' if part.nodes != 1 else ''})" for part in parts)
    engines = {part.engine for part in parts} - {INTERPRETER}
    by = [f"{name} by its own profiler" for name in sorted(engines)] + ["the interpreter by the clock"]
    by += [f"{samples} samples in turns"] if samples > 1 else []
    return f"in {len(parts)} part{'s' if len(parts) != 1 else ''}, {told}: {', '.join(by)}"


def _profiled(
    piece: Any,
    graph: Graph,
    engine: str,
    fed: Sequence[Sequence[Any]],
    threads: int,
    runs: int,
    warmup: int,
) -> Profile:
    """One part: by the engine's profiler if it runs there, else the interpreter's kernels by the clock.

    Args:
        fed: what reaches it, of each sample.
    """
    region = piece.region
    if not piece.runs_on_engine:
        plan = Plan(graph, region.outputs, region.inputs, within=frozenset(region.nodes))
        series = [dict(zip(region.inputs, arrays, strict=True)) for arrays in fed]
        recorded = [observed(plan, series[turn % len(series)]) for turn in range(-warmup, runs)][warmup:]
        stats = collect(steps for steps, _ in recorded)
        return Profile(stats, INTERPRETER, threads, "", whole_micros=[micros for _, micros in recorded])
    try:
        return _in_engine(region, graph, engine, _of_one_size(fed), threads, runs, warmup)
    except EngineUnavailable:  # no profiler for what it is fed: the part as one row
        times = [_clocked(piece, fed[turn % len(fed)]) for turn in range(-warmup, runs)][warmup:]
        name, op = region.nodes[-1].name, f"{len(region.nodes)} nodes"
        return Profile(collect([(name, op, t, 0)] for t in times), engine, threads, "", whole_micros=times)


def _of_one_size(fed: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
    """What is as large as the first: engines' profilers run a model with one size, and what a part gives may
    be larger for one sample than for another."""
    sizes = [np.shape(array) for array in fed[0]]
    return [arrays for arrays in fed if [np.shape(array) for array in arrays] == sizes]


def _in_engine(
    region: Any,
    graph: Graph,
    engine: str,
    fed: Sequence[Sequence[Array]],
    threads: int,
    runs: int,
    warmup: int,
) -> Profile:
    """A part lowered to a model of its own, as the engine runs it."""
    if engine == "litert":
        from thinflow.bench.profile_litert import profile_file
        from thinflow.lower.tflite.convert import lower_graph
        from thinflow.tflite.runtime import multiplies_matrices
        from thinflow.tflite.writer import to_bytes

        unit = multiplies_matrices()
        lowered = lower_graph(graph, region.inputs, region.outputs, specs={}, matrix_unit=unit)
        named = [dict(zip((v.name for v in region.inputs), arrays, strict=True)) for arrays in fed]
        samples = [[by_name[name] for name in lowered.inputs] for by_name in named]
        return profile_file(to_bytes(lowered.program), samples, lowered.origin, threads, runs, warmup)
    from thinflow.bench import profile_onnx
    from thinflow.engines.onnxruntime import lower_whole
    from thinflow.onnx.writer import to_bytes as onnx_bytes

    made = lower_whole(graph, region.inputs, region.outputs)
    named = [dict(zip((v.name for v in region.inputs), arrays, strict=True)) for arrays in fed]
    feeds = [{name: by_name[name] for name in made.inputs} for by_name in named]
    names = [n.name for n in region.nodes]
    return profile_onnx.profile_file(onnx_bytes(made.program), feeds, threads, runs, warmup, names)


def _clocked(part: Any, arrays: Sequence[Any]) -> int:
    begin = time.perf_counter_ns()
    part.run(arrays)
    return (time.perf_counter_ns() - begin) // 1000


def add_part(total: NodeStats, part: NodeStats, number: int) -> dict[str, str]:
    """Add what ran after everything in `total`, in the same runs. Least and most of a run become bounds.

    Args:
        number: of the part, for names that an engine gives in several.

    Returns:
        Name in the part -> name in the total.
    """
    order, start = len(total.rows), int(total.micros.mean)
    # A node cut in two would otherwise lose the time of one half.
    names = {n: f"{n} (part {number})" if n in total.rows else n for n in part.rows}
    for row in part.rows.values():
        name = names[row.name]
        total.rows[name] = NodeRow(
            name, row.op, order + row.order, start + row.start, row.micros, row.memory, row.calls, row.times
        )
    total.micros = _sum(total.micros, part.micros)
    total.memory = _sum(total.memory, part.memory)
    return names


def _sum(a: Series, b: Series) -> Series:
    """Statistics of the sums, run by run; how they spread is known within bounds only."""
    if not a.count:
        return b
    count = max(a.count, b.count)
    total = a.total + b.total
    # As if all runs took the same: how much two parts vary together is not recorded.
    squares = round(total * total / count)
    ends = a.first + b.first, a.last + b.last, a.least + b.least, a.most + b.most
    return Series(count, *ends, total, squares)
