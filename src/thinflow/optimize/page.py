"""The main job's page for people: what `report.md` holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from thinflow.bench.tables import pipes
from thinflow.optimize.report import table_of
from thinflow.plain_text import markdown, markdown_code

if TYPE_CHECKING:
    from thinflow.optimize.graph_job import GraphReport
    from thinflow.optimize.job_report import OptimizeReport
    from thinflow.rewrite.runner import Result


def markdown_of(report: OptimizeReport) -> str:
    """The page of a job that made both models."""
    ends = [
        ("graph input", report.inputs),
        ("graph output", report.outputs),
        ("LiteRT input", report.model_inputs),
        ("LiteRT output", report.model_outputs),
    ]
    parts = [
        *_head(report.files["fp32_pb"].stem.removesuffix("_fp32"), report.verdict),
        *_models(report),
        *_warnings(report.warnings),
        *_interface(ends),
        *_outside(report.outside),
        *_transforms(report.ledger),
        *_scheme(report),
    ]
    if report.latency is not None:
        parts += ["", "## Latency", "", report.latency.markdown(exact=False)]
    return "\n".join([*parts, *_end(report.next_steps[0])])


def graph_markdown_of(report: GraphReport) -> str:
    """The page of a job that made the graph smaller, and not both models."""
    parts = [
        *_head(report.files["fp32_pb"].stem.removesuffix("_fp32"), report.verdict),
        *((f"What helps: {markdown(report.obstacle.hint)}.", "") if report.obstacle.hint else ()),
        *(f"Samples: {markdown(report.samples)}.", ""),
        *_warnings(report.warnings),
        *_interface([("graph input", report.inputs), ("graph output", report.outputs)]),
        *_transforms(report.ledger),
    ]
    if report.latency is not None:
        parts += ["", "## Latency", "", report.latency.markdown()]
    return "\n".join([*parts, *_end(report.next_steps[0])])


def _head(name: str, verdict: str) -> list[str]:
    return [f"# {markdown(name)}", "", f"**{markdown(verdict)}**", ""]


def _end(command: str) -> list[str]:
    return ["", f"Next: {markdown_code(command)}", ""]


def _models(report: OptimizeReport) -> list[str]:
    """The comparison, and what it was made on."""
    header, *rows = table_of(report)
    return [
        pipes(header),
        "|" + "---|" * len(header),
        *map(pipes, rows),
        "",
        f"Samples: {markdown(report.samples)}. Judged on: {markdown(report.tested_on)}.",
        f"{'The part in ' if report.is_part else ''}LiteRT float beside the reference interpreter: "
        f"largest relative difference {report.float_difference:.3g}.",
        "",
    ]


def _warnings(warnings: Sequence[str]) -> list[str]:
    return ["## What to know", "", *(f"- {markdown(w)}" for w in warnings), ""] if warnings else []


def _interface(ends: Sequence[tuple[str, list[tuple[str, str]]]]) -> list[str]:
    """A table of inputs and outputs.

    Args:
        ends: role, and (name, type and shape) of each value that has it.
    """
    rows = [
        f"| {role} | {markdown_code(name)} | {markdown(str(spec))} |"
        for role, values in ends
        for name, spec in values
    ]
    return ["## Interface", "", "| role | name | type and shape |", "|---|---|---|", *rows]


def _outside(reasons: dict[str, str]) -> list[str]:
    """What the LiteRT models leave to the app, by reason."""
    if not reasons:
        return []
    counts = Counter(reasons.values()).most_common(10)
    return [
        "",
        "Not in the LiteRT models:",
        "",
        *(f"- {count} nodes: {markdown(why)}" for why, count in counts),
    ]


def _scheme(report: OptimizeReport) -> list[str]:
    """What was quantized, and why the rest was not."""
    quantized = report.int8.quantized
    floats = quantized.float_operators
    reasons = Counter(why for _, why in floats).most_common(10)
    return [
        *("", f"## Scheme {report.recipe.scheme}", ""),
        f"{len(quantized.decisions)} tensors quantized, {len(floats)} operators stay float.",
        *(f"- {count} × {markdown(why)}" for why, count in reasons),
    ]


def _transforms(ledger: Result) -> list[str]:
    """What each transform did, and what it left alone."""
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
            f"| {markdown_code(s.transform)} | {s.changes} | {len(s.trace.left)} "
            f"| {s.nodes[0]} → {s.nodes[1]} | {s.size_bytes[0]} → {s.size_bytes[1]} | {shown} |"
        )
    left = [
        f"- `{s.transform.split('(')[0]}`: {count} × {markdown(text)} (first {markdown_code(node)})"
        for s in ledger.steps
        for text, count, node in s.trace.reasons()[:5]
    ]
    return [*parts, "", "Left alone, and why:", "", *left] if left else parts
