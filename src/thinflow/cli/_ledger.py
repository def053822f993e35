"""The ledger of a transform run, as text and as data for machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thinflow.cli._console import human_bytes

_SHOWN_REASONS = 6
_FIGURES = 83
"""Columns of a row beside the name of its transform."""


def ledger_lines(result: Any, *, verified: bool, width: int | None = None) -> list[str]:
    """The verdict, one line per transform, and below each why nodes were left alone.

    Args:
        result: of a run.
        verified: whether outputs were compared.
        width: of the terminal; where a row does not fit, a transform has two lines. None: it always fits.
    """
    lines = [verdict(result, verified=verified)]
    longest = max((len(s.transform) for s in result.steps), default=9)
    longest = max(longest, len("transform"))
    narrow = width is not None and longest + _FIGURES > width
    if not narrow:
        lines.append(
            f"  {'transform':{longest}}  matched  changed   left  {'nodes':>15}  {'size':>21}  difference"
        )
    for step in result.steps:
        lines += _stacked(step, verified) if narrow else [_row(step, verified, longest)]
        if step.nothing and (not result.changes or len(result.steps) == 1):
            lines.append(f"      nothing matched: {step.nothing}")
        if step.error:
            lines.append(f"      undone: {step.error}")
        lines += [f"      warning: {w}" for w in step.trace.warnings]
        lines += [f"      note: {n}" for n in step.trace.notes]
        lines += [f"      {line}" for line in reason_lines(step.trace.reasons())]
    return lines + [f"note: {line}" for line in about_graph(result.graph)]


def _row(step: Any, verified: bool, width: int) -> str:
    nodes, size = _sizes(step)
    matched = step.changes + len(step.trace.left)
    return (
        f"  {step.transform:{width}}  {matched:7}  {step.changes:7}  {matched - step.changes:5}"
        f"  {nodes:>15}  {size:>21}  {_difference(step, verified)}"
    )


def _stacked(step: Any, verified: bool) -> list[str]:
    """The same under the name; nothing of what did nothing."""
    if not step.changes and not step.trace.left:
        return [f"  {step.transform}  matched nothing"]
    nodes, size = _sizes(step)
    told = [f"{step.changes} changed", f"{len(step.trace.left)} left", f"nodes {nodes}", size]
    difference = _difference(step, verified)
    told += [f"difference {difference}"] if difference not in ("", "-") else []
    return [f"  {step.transform}", f"      {', '.join(told)}"]


def _sizes(step: Any) -> tuple[str, str]:
    """Nodes and bytes before and after."""
    nodes = f"{step.nodes[0]} -> {step.nodes[1]}"
    return nodes, f"{human_bytes(step.size_bytes[0])} -> {human_bytes(step.size_bytes[1])}"


def reason_lines(reasons: Sequence[tuple[str, int, str]]) -> list[str]:
    """Why nodes were left alone: a line for each of the most frequent reasons."""
    lines = []
    for text, count, example in reasons[:_SHOWN_REASONS]:
        who = f"'{example}'" if count == 1 else f"{count} nodes (first '{example}')"
        lines.append(f"left {who}: {text}")
    if len(reasons) > _SHOWN_REASONS:
        lines.append(f"... and {len(reasons) - _SHOWN_REASONS} other reasons (--json has all)")
    return lines


def about_graph(graph: Any) -> list[str]:
    """What is worth saying of where a graph came from, and of one that was never frozen."""
    from thinflow.analysis.training import variables
    from thinflow.api import source_notes

    left = [node.name for node in variables(graph)]
    notes = source_notes(graph)
    if not left:
        return notes
    what = f"{len(left)} variable{'s' if len(left) > 1 else ''} left, first '{left[0]}'"
    why = "transforms see no weights that are in a checkpoint; freeze first, see thinflow freeze_graph --help"
    return [*notes, f"{what}: {why}"]


def verdict(result: Any, *, verified: bool) -> str:
    """One line: what changed and whether the outputs still agree."""
    if not result.steps:
        return "no transforms: the graph is unchanged"
    first, last = result.steps[0], result.steps[-1]
    if not result.changes:
        size = human_bytes(last.size_bytes[1])
        return f"nothing changed: {last.nodes[1]} nodes, {size}; the reasons are below"
    proof = _proof(result) if verified else "not verified (--no-verify)"
    return (
        f"{result.changes} changes: {first.nodes[0]} -> {last.nodes[1]} nodes, "
        f"{human_bytes(first.size_bytes[0])} -> {human_bytes(last.size_bytes[1])}; {proof}"
    )


def _proof(result: Any) -> str:
    """How far the outputs moved, and whether they were meant to."""
    exact = [s.difference for s in result.steps if s.difference is not None and s.exact]
    meant = [
        (s.difference, s.transform.split("(")[0])
        for s in result.steps
        if s.difference is not None and not s.exact
    ]
    parts = []
    if result.note:
        parts.append(result.note)
    elif exact:
        parts.append(f"outputs verified, worst difference {max(exact):.2g} of the largest value")
    if meant:
        # The largest difference first in the pair, so that max finds it.
        worst, name = max(meant)
        parts.append(f"{name} changed the outputs on purpose, by up to {worst:.2g} of the largest value")
    return "; ".join(parts) or "not compared"


def _difference(step: Any, verified: bool) -> str:
    if step.difference is not None:
        return f"{step.difference:.2g}"
    return "-" if step.changes and verified else ""


def ledger_data(result: Any) -> dict[str, Any]:
    """The same for `--json`."""
    return {
        "changes": result.changes,
        "note": result.note,
        "notes": about_graph(result.graph),
        "steps": [
            {
                "transform": s.transform,
                "changes": [vars(e) for e in s.trace.changes],
                "left": [vars(e) for e in s.trace.left],
                "warnings": s.trace.warnings,
                "notes": s.trace.notes,
                "nodes": list(s.nodes),
                "size_bytes": list(s.size_bytes),
                "difference": s.difference,
                "error": s.error,
                "nothing": s.nothing,
                "seconds": round(s.seconds, 4),
            }
            for s in result.steps
        ],
    }
