"""Times of the nodes of a graph that runs in parts: those of an engine by its own profiler, the
interpreter's by the clock, in one table.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from thinflow.analysis.node_stats import NodeRow, NodeStats, Series
from thinflow.bench.profile_model import Profile, collect, observed
from thinflow.bench.targets import GraphSubject
from thinflow.engines import find
from thinflow.errors import EngineUnavailable
from thinflow.interpreter import Plan
from thinflow.ir.graph import Graph
from thinflow.typing import Array

INTERPRETER = "reference"


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

    graph, arrays = subject.graph, subject.arrays()
    compiled: Any = find(engine).compile(graph, graph.inputs, graph.outputs, threads=threads)
    for _ in range(max(warmup, 1)):  # what an engine refuses when it runs goes to the interpreter now
        compiled.run(arrays)
    values: dict[Any, Any] = dict(zip(graph.inputs, arrays, strict=True))
    total, where = NodeStats(), []
    kernels: dict[str, str] = {}
    with blas().limited(threads):
        for piece in compiled.pieces:
            fed = [values[v] for v in piece.region.inputs]
            # The part runs once by itself, so that those behind it get what they would in a whole run.
            values.update(zip(piece.region.outputs, piece.run(fed), strict=True))
            found = _profiled(piece, graph, engine, fed, threads, runs, warmup)
            where.append((engine if piece.runs_on_engine else INTERPRETER, len(piece.region.nodes)))
            names = add_part(total, found.stats, len(where))
            kernels |= {new: found.kernels.get(old, found.engine) for old, new in names.items()}
        # Apart from the parts' own runs: profilers slow down what they watch.
        whole = [_clocked(compiled, arrays) for _ in range(runs)]
    return Profile(total, engine, threads, _method(where), kernels, whole)


def _method(where: Sequence[tuple[str, int]]) -> str:
    parts = ", ".join(f"{name} ({count} node{'s' if count != 1 else ''})" for name, count in where)
    engines = {name for name, _ in where} - {INTERPRETER}
    by = [f"{name} by its own profiler" for name in sorted(engines)] + ["the interpreter by the clock"]
    return f"in {len(where)} part{'s' if len(where) != 1 else ''}, {parts}: {', '.join(by)}"


def _profiled(
    piece: Any, graph: Graph, engine: str, fed: Sequence[Any], threads: int, runs: int, warmup: int
) -> Profile:
    """One part: by the engine's profiler if it runs there, else the interpreter's kernels by the clock."""
    region = piece.region
    if not piece.runs_on_engine:
        plan = Plan(graph, region.outputs, region.inputs, within=frozenset(region.nodes))
        feeds = dict(zip(region.inputs, fed, strict=True))
        recorded = [observed(plan, feeds) for _ in range(warmup + runs)][warmup:]
        stats = collect(steps for steps, _ in recorded)
        return Profile(stats, INTERPRETER, threads, "", whole_micros=[micros for _, micros in recorded])
    try:
        return _in_engine(region, graph, engine, fed, threads, runs, warmup)
    except EngineUnavailable:  # no profiler for what it is fed: the part as one row
        times = [_clocked(piece, fed) for _ in range(warmup + runs)][warmup:]
        name, op = region.nodes[-1].name, f"{len(region.nodes)} nodes"
        return Profile(collect([(name, op, t, 0)] for t in times), engine, threads, "", whole_micros=times)


def _in_engine(
    region: Any, graph: Graph, engine: str, fed: Sequence[Array], threads: int, runs: int, warmup: int
) -> Profile:
    """A part lowered to a model of its own, as the engine runs it."""
    if engine == "litert":
        from thinflow.bench.profile_litert import profile_file
        from thinflow.lower.tflite.convert import lower_graph
        from thinflow.tflite.runtime import multiplies_matrices
        from thinflow.tflite.writer import to_bytes

        unit = multiplies_matrices()
        lowered = lower_graph(graph, region.inputs, region.outputs, specs={}, matrix_unit=unit)
        by_name = dict(zip((v.name for v in region.inputs), fed, strict=True))
        arrays = [by_name[name] for name in lowered.inputs]
        return profile_file(to_bytes(lowered.program), arrays, lowered.origin, threads, runs, warmup)
    from thinflow.bench import profile_onnx
    from thinflow.engines.onnxruntime import lower_whole
    from thinflow.onnx.writer import to_bytes as onnx_bytes

    made = lower_whole(graph, region.inputs, region.outputs)
    named = dict(zip((v.name for v in region.inputs), fed, strict=True))
    feeds = {name: named[name] for name in made.inputs}
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
            name, row.op, order + row.order, start + row.start, row.micros, row.memory, row.calls
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
