"""The main job's report: the verdict in one sentence, a page for people, and data for machines."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from thinflow.analysis.summary import short_number
from thinflow.optimizing.quality import Quality, decibels

if TYPE_CHECKING:
    from thinflow.lower.tflite.program import Operator
    from thinflow.optimizing.graph_job import GraphReport
    from thinflow.optimizing.job import OptimizeReport
    from thinflow.rewrite.runner import Result

POOR_SQNR_DB = 20.0
"""Below this the noise of eight bits is more than a tenth of the signal: doubtful where the numbers
themselves count.
"""
SAME_SIZE = 0.05
WORTH_SMALLER = 1.1
"""A file that shrinks less than this is as large as before."""
_SHOWN_WARNINGS = 5
SAME_SPEED = 0.03
"""Ratios this near to 1 are told as equal."""
SMALL_MS = 2.0
"""Milliseconds of a float run from which what happens at the ends of a model no longer matters."""
MOST_TAPS = 25
"""Of a depthwise window, for XNNPACK's eight-bit kernels; it takes general convolutions for more."""


def verdict(report: OptimizeReport) -> str:
    """One sentence: how much faster and smaller, how good, and which file to ship."""
    smaller = _times_smaller(report)
    quality = report.int8_quality.sentence()
    speed = _speed_ratio(report)
    name = report.recipe.scheme
    size = f"{smaller:.1f}x smaller" if smaller >= 1 else f"{1 / smaller:.1f}x LARGER"
    if abs(smaller - 1) < SAME_SIZE:
        size = "of the same size"
    if report.synthetic:
        quality = "how good its answers are only real samples can tell"
        until = "it is calibrated" if report.recipe.needs_samples else "real samples have been tried"
        ship = f"ship {report.files['fp32'].name} until {until}"
    elif is_good_enough(report):
        ship = f"ship {report.files['int8'].name}"
    else:
        ship = f"ship {report.files['fp32'].name}: {why_not(report)}"
    if speed is None:
        return f"{name} is {size}; {quality}: {ship}"
    if abs(speed - 1) < SAME_SPEED:
        return f"{name} is as fast as float and {size}; {quality}: {ship}"
    if speed < 1:
        slower = f"{1 / speed:.1f}x SLOWER here because {why_slower(report)}"
        return f"{name} is {slower}, and {size}; {quality}: {ship}"
    return f"{name} is {speed:.1f}x faster and {size}; {quality}: {ship}"


def _times_smaller(report: OptimizeReport) -> float:
    return report.sizes["fp32"] / max(report.sizes["int8"], 1)


def is_good_enough(report: OptimizeReport) -> bool:
    """Whether fewer bits cost no more than allowed, and bring something."""
    speed = _speed_ratio(report)
    return not why_not(report) and (speed is None or speed >= 1 - SAME_SPEED)


def why_not(report: OptimizeReport) -> str:
    """What speaks against the quantized model; empty if nothing does."""
    name = report.recipe.scheme
    quality, drop = report.int8_quality, report.int8_quality.drop
    if drop is not None and drop > report.max_drop:
        what = "accuracy" if quality.accuracy is not None else "answers"
        return f"{name} loses {drop:.1f} points of {what}, more than {report.max_drop:g}"
    if drop is None and quality.sqnr_db < POOR_SQNR_DB:
        return f"the {name} output is poor (SQNR {decibels(quality.sqnr_db)})"
    speed = _speed_ratio(report)
    if speed is not None and speed < 1 - SAME_SPEED:
        return "float is faster here"
    if speed is not None and speed < 1 + SAME_SPEED and _times_smaller(report) < WORTH_SMALLER:
        return f"{name} brings nothing here, the work is in operators that stay float"
    return ""


def why_slower(report: OptimizeReport) -> str:
    """The likeliest reason for a slow quantized model, from what was counted."""
    program = report.int8.quantized.program
    counts = Counter(o.code for o in program.subgraphs[0].operators)
    borders = counts["QUANTIZE"] + counts["DEQUANTIZE"]
    floats = len(report.int8.quantized.float_operators)
    if not report.recipe.needs_samples:
        return "rounding or unpacking costs more than it saves"
    if floats > 2:
        return f"{floats} of {sum(counts.values())} operators stay float, with {borders} conversions between"
    if report.latency is not None and report.latency.machine.multiplies_eight_bit is False:
        return "this CPU has no eight-bit dot product (VNNI or dotprod)"
    if wide := sum(map(_is_wide, program.subgraphs[0].operators)):
        return f"{wide} depthwise windows are wider than 5x5, for which there is no fast eight-bit kernel"
    timing = report.latency.timing(report.files["fp32"]) if report.latency is not None else None
    if timing is not None and timing.median_ms >= SMALL_MS:
        return "its eight-bit kernels take longer than the float ones on this CPU"
    return "the model is so small that quantizing input and output costs more than it saves"


def _is_wide(operator: Operator) -> bool:
    """Whether it is a depthwise convolution with more taps than XNNPACK's eight-bit kernels are made for."""
    filters = operator.inputs[1] if operator.code == "DEPTHWISE_CONV_2D" else None
    shape = filters.shape if filters is not None else None
    return shape is not None and all(shape[1:3]) and math.prod(n or 0 for n in shape[1:3]) > MOST_TAPS


def _speed_ratio(report: OptimizeReport) -> float | None:
    """Float time over the quantized model's time at the first thread count; None if not measured."""
    if report.latency is None:
        return None
    value = report.latency.ratio(report.files["fp32"], report.files["int8"]).value
    return value if math.isfinite(value) else None


def data(report: OptimizeReport) -> dict[str, Any]:
    """The whole report as plain data."""
    from thinflow import __version__

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
        "files": {key: str(path) for key, path in report.files.items()},
        "size_bytes": report.sizes,
        "samples": report.samples,
        "tested_on": report.tested_on,
        "synthetic": report.synthetic,
        "scheme": report.recipe.scheme,
        "float_difference": report.float_difference,
        "quality": {
            "float" if key == "fp32" else key: _quality(found) for key, found in _qualities(report).items()
        },
        "latency": report.latency.data() if report.latency is not None else None,
        "speedup": _speed_ratio(report),
        "transforms": transform_data(report.ledger),
        "int8": {
            "decisions": [
                {
                    "tensor": d.tensor,
                    "scale": [float(s) for s in d.scale[:1]]
                    if len(d.scale) == 1
                    else f"{len(d.scale)} channels",
                    "zero_point": int(d.zero_point),
                    "range": [float(d.range[0]), float(d.range[1])],
                    "observer": d.observer,
                    "reason": d.reason,
                }
                for d in report.int8.quantized.decisions
            ],
            "float_operators": [[o.code, o.origin, why] for o, why in report.int8.quantized.float_operators],
        },
        "warnings": report.warnings,
        "next": report.next_steps,
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
        "same_answer": quality.same_answer,
        "accuracy": quality.accuracy,
        "accuracy_before": quality.accuracy_before,
        "sqnr_db": None if math.isinf(quality.sqnr_db) else round(quality.sqnr_db, 2),
        "largest_difference": quality.largest,
        "changed_samples": quality.worst_samples,
    }


def json_text(report: OptimizeReport) -> str:
    """`report.json`."""
    return json.dumps(data(report), indent=2, default=str) + "\n"


def lines(report: OptimizeReport) -> list[str]:
    """What the command prints: the verdict first, the next command last."""
    result = [report.verdict, "", *model_lines(report)]
    if report.outside:
        kinds = Counter(report.outside.values()).most_common(2)
        names = ", ".join(f"{n} {s}" for n, s in report.model_inputs)
        result.append(
            f"cut        the .tflite begins at {names}; "
            f"{len(report.outside)} nodes run in the app: {kinds[0][0]}"
        )
    result += transform_lines(report.ledger, f"LiteRT float {report.float_difference:.2g}")
    result.append(f"samples    {report.samples}")
    result += _table_lines(report)
    result += closing_lines(report)
    result += ["", f"next: {report.next_steps[0]}"]
    return result


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


def _table(report: OptimizeReport) -> list[list[str]]:
    """Rows of the comparison: a header, then float and quantized."""
    rows = [["", "file", "size", "quality", *_latency_headers(report), "peak memory"]]
    for key, quality in _qualities(report).items():
        kilobytes = f"{report.sizes[key] / 1000:,.1f} kB"
        shown = report.recipe.scheme if key.endswith("int8") else "fp32"
        what = [shown, report.files[key].name, kilobytes, quality.sentence(detailed=True)]
        rows.append([*what, *_latency_cells(report, key), _memory_cell(report, key)])
    return rows


def _qualities(report: OptimizeReport) -> dict[str, Quality]:
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
        cells.append("-" if timing is None else duration(timing.median_ms, timing.spread_ms))
    return cells


def duration(median_ms: float, spread_ms: float) -> str:
    """`12.3 ± 0.2 ms`, in microseconds below one millisecond; as many digits as the spread is worth."""
    unit, factor = ("µs", 1000.0) if median_ms < 1 else ("ms", 1.0)
    digits = 1 if spread_ms * factor >= 0.1 else 2 if spread_ms * factor >= 0.01 else 3
    return f"{median_ms * factor:.{digits}f} ± {spread_ms * factor:.{digits}f} {unit}"


def _memory_cell(report: OptimizeReport, key: str) -> str:
    peak = report.latency.peak_bytes(report.files[key]) if report.latency is not None else None
    return "-" if peak is None else f"{peak / 1e6:.1f} MB"


def _table_lines(report: OptimizeReport) -> list[str]:
    rows = _table(report)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def markdown(report: OptimizeReport) -> str:
    """`report.md`."""
    rows = _table(report)
    table = ["| " + " | ".join(rows[0]) + " |", "|" + "---|" * len(rows[0])]
    table += ["| " + " | ".join(row) + " |" for row in rows[1:]]
    parts = [
        f"# {report.files['fp32'].name.removesuffix('_fp32.tflite')}",
        "",
        f"**{report.verdict}**",
        "",
        *table,
        "",
        f"Samples: {report.samples}. Judged on: {report.tested_on}.",
        "LiteRT float beside the reference interpreter: "
        f"largest relative difference {report.float_difference:.3g}.",
        "",
    ]
    if report.warnings:
        parts += ["## What to know", "", *(f"- {w}" for w in report.warnings), ""]
    parts += ["## Interface", "", "| role | name | type and shape |", "|---|---|---|"]
    for role, values in (
        ("graph input", report.inputs),
        ("graph output", report.outputs),
        ("LiteRT input", report.model_inputs),
        ("LiteRT output", report.model_outputs),
    ):
        parts += [f"| {role} | `{name}` | {spec} |" for name, spec in values]
    if report.outside:
        parts += ["", "Not in the LiteRT models:", ""]
        parts += [
            f"- {count} nodes: {why}" for why, count in Counter(report.outside.values()).most_common(10)
        ]
    parts += transform_pages(report.ledger)
    floats = report.int8.quantized.float_operators
    parts += ["", f"## Scheme {report.recipe.scheme}", ""]
    parts.append(
        f"{len(report.int8.quantized.decisions)} tensors quantized, {len(floats)} operators stay float."
    )
    parts += [f"- {count} × {why}" for why, count in Counter(why for _, why in floats).most_common(10)]
    if report.latency is not None:
        parts += ["", "## Latency", "", report.latency.markdown(exact=False)]
    parts += ["", "Next: `" + report.next_steps[0] + "`", ""]
    return "\n".join(parts)


def transform_pages(ledger: Result) -> list[str]:
    """The part of `report.md` about the transforms."""
    parts = [
        "",
        "## Transforms",
        "",
        "| transform | changed | left | nodes | bytes | difference |",
        "|---|---|---|---|---|---|",
    ]
    for s in ledger.steps:
        shown = "" if s.difference is None else f"{s.difference:.2g}"
        parts.append(
            f"| `{s.transform}` | {s.changes} | {len(s.trace.left)} | {s.nodes[0]} → {s.nodes[1]} "
            f"| {s.size_bytes[0]} → {s.size_bytes[1]} | {shown} |"
        )
    left = [
        f"- `{s.transform.split('(')[0]}`: {count} × {text} (first `{node}`)"
        for s in ledger.steps
        for text, count, node in s.trace.reasons()[:5]
    ]
    return [*parts, "", "Left alone, and why:", "", *left] if left else parts
