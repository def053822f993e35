"""The main job's report: what the command prints, and data for machines."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from thinflow.analysis.summary import short_number
from thinflow.optimize.quality import Quality
from thinflow.optimize.verdict import ratio_of, speed_data

if TYPE_CHECKING:
    from thinflow.bench.report import Row
    from thinflow.optimize.graph_job import GraphReport
    from thinflow.optimize.job_report import OptimizeReport
    from thinflow.quantize.result import Quantized
    from thinflow.rewrite.runner import Result

_SHOWN_WARNINGS = 5


def data(report: OptimizeReport) -> dict[str, Any]:
    """The whole report as plain data."""
    from thinflow._version import __version__

    ratio = ratio_of(report)
    return {
        "thinflow": __version__,
        "verdict": report.verdict,
        "source": report.source,
        "inputs": [list(i) for i in report.inputs],
        "outputs": [list(o) for o in report.outputs],
        "model": {
            "inputs": [list(i) for i in report.model_inputs],
            "outputs": [list(o) for o in report.model_outputs],
            "outside": report.outside,
        },
        "partial": report.is_part,
        "coverage": {"litert" if c.runtime == "LiteRT" else "onnx": c.data() for c in report.coverages},
        "files": {key: str(path) for key, path in report.files.items()},
        "size_bytes": report.sizes,
        "samples": report.samples,
        "tested_on": report.tested_on,
        "synthetic": report.synthetic,
        "scheme": report.recipe.scheme,
        "float_difference": report.float_difference,
        "quality": {
            "float" if key == "fp32" else key: _quality(found) for key, found in qualities_of(report).items()
        },
        "latency": report.latency.data() if report.latency is not None else None,
        "speedup": None if ratio is None else ratio.value,
        "speed": speed_data(report),
        "transforms": transform_data(report.ledger),
        "int8": _quantized_data(report.int8.quantized),
        "warnings": report.warnings,
        "next": report.next_steps,
    }


def _quantized_data(quantized: Quantized) -> dict[str, Any]:
    """How each tensor was quantized, and which operators were not."""
    return {
        "decisions": [
            {
                "tensor": d.tensor,
                "scale": [float(s) for s in d.scale[:1]] if len(d.scale) == 1 else f"{len(d.scale)} channels",
                "zero_point": int(d.zero_point),
                "range": [float(d.range[0]), float(d.range[1])],
                "observer": d.observer,
                "reason": d.reason,
            }
            for d in quantized.decisions
        ],
        "float_operators": [[o.code, o.origin, why] for o, why in quantized.float_operators],
    }


def transform_data(ledger: Result) -> list[dict[str, Any]]:
    """What each transform did, as plain data."""
    return [
        {
            "transform": s.transform,
            "changes": s.changes,
            "left": [[text, count, example] for text, count, example in s.trace.reasons()],
            "nodes": list(s.nodes),
            "size_bytes": list(s.size_bytes),
            "difference": s.difference,
        }
        for s in ledger.steps
    ]


def _quality(quality: Quality) -> dict[str, Any]:
    return {
        "samples": quality.samples,
        "outputs": list(quality.outputs),
        "of": quality.part or "the file",
        "same_answer": None if quality.part else quality.same_answer,
        "accuracy": quality.accuracy,
        "accuracy_before": quality.accuracy_before,
        "sqnr_db": None if math.isinf(quality.sqnr_db) else round(quality.sqnr_db, 2),
        "largest_difference": quality.largest,
        "changed_samples": quality.worst_samples,
        "lost": quality.lost,
        "gained": quality.gained,
        "may_be_chance": quality.may_be_chance,
    }


def json_text(report: OptimizeReport) -> str:
    """`report.json`."""
    return json.dumps(data(report), indent=2, default=str) + "\n"


def lines(report: OptimizeReport) -> list[str]:
    """What the command prints: the verdict first, the next command last."""
    result = [report.verdict, "", *model_lines(report)]
    result += _cut_lines(report)
    what = "the part in LiteRT" if report.is_part else "LiteRT"
    result += transform_lines(report.ledger, f"{what} float {report.float_difference:.2g}")
    result.append(f"samples    {report.samples}")
    result += _table_lines(report)
    result += closing_lines(report)
    result += ["", f"next: {report.next_steps[0]}"]
    return result


def _cut_lines(report: OptimizeReport) -> list[str]:
    """Where the .tflite begins and ends if the graph does elsewhere."""
    if not report.outside:
        return []
    kinds = Counter(report.outside.values()).most_common(2)
    names = ", ".join(f"{n} {s}" for n, s in report.model_inputs)
    ends = ", ".join(f"{n} {s}" for n, s in report.model_outputs)
    end = f" and ends at {ends}" if report.is_part else ""
    count = len(report.outside)
    nodes, are, run = ("node", "is", "runs") if count == 1 else ("nodes", "are", "run")
    left = f"{count} {nodes} {are} not in it" if report.is_part else f"{count} {nodes} {run} in the app"
    return [f"cut        the .tflite begins at {names}{end}; {left}: {kinds[0][0]}"]


def model_lines(report: OptimizeReport | GraphReport) -> list[str]:
    """What was opened, and what goes in and out."""
    summary = report.summary
    flops = summary.cost.total.flops
    return [
        f"model      {report.source or 'graph'}: {len(summary.graph)} nodes, "
        f"{short_number(summary.parameters.count)} constants"
        + (f", {short_number(flops)} operations a run" if flops else ""),
        *(f"input      {name}  {spec}" for name, spec in report.inputs),
        *(f"output     {name}  {spec}" for name, spec in report.outputs),
    ]


def transform_lines(ledger: Result, compared_with: str = "") -> list[str]:
    """What the transforms did together, and what proves it.

    Args:
        compared_with: another comparison, and what came of it.
    """
    steps = ledger.steps
    changed = ", ".join(f"{s.transform.split('(')[0]} {s.changes}" for s in steps if s.changes)
    result = [f"transforms {steps[0].nodes[0]} -> {steps[-1].nodes[1]} nodes ({changed or 'no changes'})"]
    compared = [s.difference for s in steps if s.difference is not None]
    if compared:
        also = f"; {compared_with}" if compared_with else ""
        result.append(f"proof      every step verified, worst difference {max(compared):.2g}{also}")
    return result


def closing_lines(report: OptimizeReport | GraphReport) -> list[str]:
    """What the reader must know, and what was written where."""
    result = [f"warning    {w}" for w in report.warnings[:_SHOWN_WARNINGS]]
    if len(report.warnings) > _SHOWN_WARNINGS:
        result.append(f"warning    ... and {len(report.warnings) - _SHOWN_WARNINGS} more in report.md")
    names = ", ".join(path.name for path in report.files.values())
    return [*result, f"written    {names} in {report.files['json'].parent}"]


def table_of(report: OptimizeReport) -> list[list[str]]:
    """Rows of the comparison: a header, then float and quantized."""
    rows = [["", "file", "size", "quality", *_latency_headers(report), "peak memory"]]
    for key, quality in qualities_of(report).items():
        kilobytes = f"{report.sizes[key] / 1000:,.1f} kB"
        shown = report.recipe.scheme if key.endswith("int8") else "fp32"
        what = [shown, report.files[key].name, kilobytes, quality.sentence(detailed=True)]
        rows.append([*what, *_latency_cells(report, key), _memory_cell(report, key)])
    return rows


def qualities_of(report: OptimizeReport) -> dict[str, Quality]:
    """By the key of the model's file."""
    found = {"fp32": report.float_quality, "int8": report.int8_quality}
    return found if report.onnx is None else found | report.onnx.qualities


def _latency_headers(report: OptimizeReport) -> list[str]:
    if report.latency is None:
        return []
    return [f"{n} thread{'s' if n > 1 else ''}" for n in report.latency.thread_counts]


def _latency_cells(report: OptimizeReport, key: str) -> list[str]:
    if report.latency is None:
        return []
    cells = []
    for threads in report.latency.thread_counts:
        timing = report.latency.timing(report.files[key], threads=threads)
        cells.append("-" if timing is None else duration(timing))
    return cells


def duration(row: Row) -> str:
    """`12.3 ± 0.2 ms`, in microseconds below one millisecond; as many digits as the spread is worth."""
    unit, factor = ("µs", 1000.0) if row.median_ms < 1 else ("ms", 1.0)
    if not row.latency.has_interval:
        return f"{row.median_ms * factor:.3g} ± ? {unit}"
    spread = row.spread_ms * factor
    digits = 1 if spread >= 0.1 else 2 if spread >= 0.01 else 3
    return f"{row.median_ms * factor:.{digits}f} ± {spread:.{digits}f} {unit}"


def _memory_cell(report: OptimizeReport, key: str) -> str:
    peak = report.latency.peak_bytes(report.files[key]) if report.latency is not None else None
    return "-" if peak is None else f"{peak / 1e6:.1f} MB"


def _table_lines(report: OptimizeReport) -> list[str]:
    rows = table_of(report)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
