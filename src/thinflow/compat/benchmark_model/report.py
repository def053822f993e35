"""Results of benchmark_model: lines, tables and files, and the operations that its count goes by."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from thinflow.bench.memory import peak_resident_bytes
from thinflow.bench.open_targets import open_subjects
from thinflow.bench.workload import workload
from thinflow.compat.benchmark_model.measure import Log, Measured
from thinflow.errors.plain_text import one_line
from thinflow.formats import benchmark_entries, load
from thinflow.formats.benchmark_entries import Entry
from thinflow.formats.files import write_file
from thinflow.ir.graph import Graph, Node
from thinflow.ir.order import ancestors
from thinflow.ir.types import TensorSpec, dtype
from thinflow.typing import Array


@dataclass(frozen=True)
class Tables:
    """Choice of tables to print, and rows of each; 0: all."""

    order: int | None
    time: int | None
    memory: int | None
    types: bool
    summary: bool
    style: str = "tf2"
    csv: bool = False


def timing_lines(measured: Measured) -> list[str]:
    """Means of the phases."""

    def mean(total: int, count: int) -> int:
        # Whole microseconds, as C++ divides integers.
        return total // count if count else 0

    warm, plain, whole = measured.warmup, measured.plain, measured.observed_whole
    return [
        f"Average inference timings in us: Warmup: {mean(warm.total, warm.count)}, "
        f"no stats: {mean(plain.total, plain.count)}, with stats: {mean(whole.total, whole.count)}",
        f"Inference timings in us: Init: {measured.init}, First inference: {warm.first or plain.first}, "
        f"Warmup (avg): {warm.mean:.6g}, Inference (avg): {plain.mean:.6g}",
        f"no stats: {plain}",
        f"times of nodes: {measured.method}",
        "",
    ]


def table_lines(measured: Measured, tables: Tables, defined: int | None) -> list[str]:
    """The tables that were asked for, with a blank line behind each and behind the summary."""
    stats, style = measured.stats, tables.style
    if tables.csv:
        return [stats.node_csv(style), stats.type_csv()]
    parts = []
    if tables.order is not None:
        parts.append(stats.by_order(limit=tables.order or None, style=style))
    if tables.time is not None:
        parts.append(stats.by_time(limit=tables.time or None, style=style))
    if tables.memory is not None:
        parts.append(stats.by_memory(limit=tables.memory or None, style=style))
    if tables.types:
        parts.append(stats.by_type(style))
    if tables.summary:
        parts.append(stats.short_summary(defined) + "\n")
    return "".join(parts).splitlines()


def write_csv(path: str, measured: Measured, tables: Tables) -> str:
    """Write both tables as comma-separated values; the path.

    Raises:
        WriteError: the file cannot be written.
    """
    text = f"{measured.stats.node_csv(tables.style)}\n{measured.stats.type_csv()}"
    write_file(path, [text.encode()])
    return path


def memory_lines() -> list[str]:
    """The largest memory that the process took."""
    peak = peak_resident_bytes()
    shown = "not known on this system" if peak is None else f"{peak / 2**20:.6g}"
    return [f"Overall peak memory footprint (MB): {shown}"]


def size_lines(model: Graph | str, measured: Measured, fetches: Sequence[str]) -> list[str]:
    """Types and sizes of what each node that was seen computes, in running order, and of what was fetched.

    An operator of an engine stands for the node whose name it has.
    """
    lines = ["============ Node output tensor sizes in run order ========"]
    known = measured.node_outputs | _outputs(model)
    for name, array in measured.outputs.items():
        node, _, port = name.partition(":")
        # What was fetched is known exactly, whatever is inferred.
        own = known.setdefault(node, [TensorSpec()])
        if not int(port or 0):
            own[0] = TensorSpec(own[0].dtype or dtype(array.dtype), array.shape)
    order = sorted(measured.stats.rows.values(), key=lambda row: row.order)
    names = dict.fromkeys([*(row.name for row in order), *(n.partition(":")[0] for n in fetches)])
    told = ((name, known[name]) for name in names if known.get(name))
    return [*lines, *(f"{one_line(name)}\t{len(specs)}{''.join(map(_sizes, specs))}" for name, specs in told)]


def _outputs(model: Graph | str) -> dict[str, list[TensorSpec]]:
    """Node -> what is known of its outputs. An .onnx file says little of that, but ONNX Runtime tells."""
    graph = model if isinstance(model, Graph) else load(model)
    specs = {node.name: [output.spec for output in node.outputs] for node in graph}
    return {n: found for n, found in specs.items() if any(spec.shape is not None for spec in found)}


def _sizes(spec: TensorSpec) -> str:
    """Type, rank and sizes behind tabs; `?` for what is not known."""
    if spec.shape is None:
        return f"\t{spec.dtype or '?'}\t?"
    sizes = "".join(f"\t{'?' if size is None else size}" for size in spec.shape)
    return f"\t{spec.dtype or '?'}\t{len(spec.shape)}{sizes}"


def flops_lines(model: Graph | str, measured: Measured, feeds: Mapping[str, Array]) -> list[str]:
    """The number of operations, and how many a second that makes."""
    count, unknown = estimate(model) if isinstance(model, Graph) else _converted(model, feeds)
    seconds = measured.plain.mean / 1e6
    lines = [f"FLOPs estimate: {human(count)}"]
    if seconds:
        lines.append(f"FLOPs/second: {human(count / seconds)}")
    if unknown:
        lines.append(f"not counted: {len(unknown)} nodes of unknown size, first {unknown[0]}")
    return lines


def _converted(path: str, feeds: Mapping[str, Array]) -> tuple[int, list[str]]:
    """Operations of a .tflite or .onnx model, and the nodes that could not be counted."""
    (subject,) = open_subjects(path, shapes={name: array.shape for name, array in feeds.items()})
    work = workload(subject)
    return (0, []) if work is None else (work.operations, list(work.uncounted))


def result_files(
    prefix: str, name: str, measured: Measured, feeds: Mapping[str, Array], log: Log
) -> list[str]:
    """The files benchmark_model writes; see `thinflow.formats.benchmark_entries`."""
    plain, warm = measured.plain, measured.warmup
    seconds = plain.total / 1e6
    first = next(iter(feeds.values()), None)
    # TensorFlow's throughput counts the bytes of the first input alone.
    size = first.nbytes if first is not None else 0
    init, warmup = measured.init / 1e6, warm.total / 1e6
    entries = [
        Entry(name, plain.count, seconds, size * plain.count / seconds / 2**20 if seconds else 0.0),
        Entry(f"{name}_meta-init", 1, init),
        # All runs of the warm-up, as in the original, which has one by default.
        Entry(f"{name}_meta-first-inference", warm.count, warmup),
        Entry(
            f"{name}_meta-init-plus-first-inference", 1, init + (warmup / warm.count if warm.count else 0.0)
        ),
    ]
    runs = measured.stats.micros.count
    for op, _ in measured.stats.type_micros():
        log(f"Outputting: [{op}]")
    entries += [
        Entry(f"{name}_{op}", runs, micros * runs / 1e6) for op, micros in measured.stats.type_micros()
    ]
    return [str(benchmark_entries.write(prefix, entry)) for entry in entries]


_SUMMED = {"Conv2D": 3, "QuantizedConv2D": 3, "DepthwiseConv2dNative": 2, "MatMul": 0, "QuantizedMatMul": 0}
"""Op -> how many of the filter's first sizes an output element is summed over; 0 of a matrix product."""


def estimate(graph: Graph) -> tuple[int, list[str]]:
    """Operations of one run, and the nodes whose sizes are not known, which count for nothing.

    Args:
        graph: with its shapes inferred.
    """
    total, unknown = 0, []
    for node in ancestors([v.node for v in graph.outputs]):
        if node.op in _SUMMED:
            count = _operations(node)
            if count is None:
                unknown.append(node.name)
            else:
                total += count
    return total, sorted(unknown)


def _operations(node: Node) -> int | None:
    output = node.output().spec.shape
    summed = _SUMMED[node.op]
    source = node.inputs[1 if summed else 0].spec.shape
    if output is None or source is None or None in (*output, *source):
        return None
    outputs = math.prod(size or 0 for size in output)
    # A multiplication and an addition each, by the rules of the original.
    if not summed:
        return 2 * outputs * (source[0 if node.get("transpose_a", False) else 1] or 0)
    # A filter is [h, w, cin, cout]: an output element sums over the first
    # three, depthwise over the first two.
    return 2 * outputs * math.prod(size or 0 for size in source[:summed])


_SUFFIXES: Sequence[str] = ("", "k", "M", "B", "T")


def human(number: float) -> str:
    """`1.23M`, as TensorFlow writes it: two decimals and a letter from a thousand on."""
    if number < 1000:
        return f"{number:g}"
    if number >= 1e15:
        return f"{number:.3G}"
    step = 0
    while True:
        number /= 1000
        step += 1
        if number < 1_000_000 / 1000 or step == len(_SUFFIXES) - 1:
            return f"{number:.2f}{_SUFFIXES[step]}"
