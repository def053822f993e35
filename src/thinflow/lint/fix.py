"""Mends what transforms can mend, each step proven."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from thinflow.analysis.foreign import UNREAD, is_foreign
from thinflow.analysis.shapes import infer_shapes, port_count
from thinflow.compare.output_comparer import OutputComparer
from thinflow.formats.graphdef import serialized_size
from thinflow.ir.graph import Graph
from thinflow.lint.finding import LintFinding
from thinflow.lint.report import LintReport
from thinflow.program.amounts import bytes_text
from thinflow.rewrite.runner import Step, run
from thinflow.transforms import resolve
from thinflow.typing import Progress


@dataclass(frozen=True)
class Fixed:
    """A graph with findings mended.

    Attributes:
        notes: sentences on steps that were undone.
        smaller: what became smaller, in words.
        proven: how far the outputs are from those before, in words.
        kept, undone: names of transforms whose changes stayed, and of those whose did not.
    """

    graph: Graph
    notes: list[str]
    smaller: str
    proven: str
    kept: frozenset[str]
    undone: frozenset[str]


_PREPARES = ("remove_nodes", "fold_constants")
"""What a transform further down in the order "float" may need to see what it mends: rates of dropout, factors
and orders of axes are often computed, and stand behind Identities. Neither changes a number."""


def fixing_steps(report: LintReport, without: Collection[str] = ()) -> list[Step]:
    """The transforms that mend findings: those of the order "float" as it has them, behind others."""
    wanted = {str(s.transform): s for f in report.fixable for s in resolve(f.fix)}
    order = resolve("float")
    names = {str(step.transform) for step in order}
    last = max((place for place, step in enumerate(order) if str(step.transform) in wanted), default=-1)
    known = [
        step
        for place, step in enumerate(order)
        if str(step.transform) in wanted or (place < last and step.transform.name in _PREPARES)
    ]
    others = [step for text, step in wanted.items() if text not in names]
    # What is not proven is undone, and its finding stays.
    steps = [replace(step, ignore_errors=True) for step in [*others, *known]]
    return [step for step in steps if str(step.transform) not in without]


def fixed_graph(
    graph: Graph, report: LintReport, *, seed: int = 0, progress: Progress | None = None
) -> Fixed:
    """A graph with findings mended; the one given stays. What changes the outputs is undone, and so is what
    could not be compared.
    """
    undone: dict[str, str] = {}
    while True:
        comparer = OutputComparer(None, seed=seed)
        result = run(
            graph,
            fixing_steps(report, undone),
            comparer=comparer,
            port_count=port_count,
            size_of=serialized_size,
            progress=progress,
        )
        unproven = {s.transform for s in result.steps if s.changes and s.difference is None}
        if not unproven:
            break
        # Each time fewer steps are left.
        undone |= dict.fromkeys(unproven, f"not compared: {comparer.skipped or 'nothing could run it'}")
    infer_shapes(result.graph)
    undone |= {s.transform: s.error for s in result.steps if s.error}
    notes = [f"{name} was undone: {why}" for name, why in undone.items()]
    worst = max((s.difference for s in result.steps if s.changes and s.difference is not None), default=0.0)
    kept = frozenset(s.name for s in result.steps if s.changes and not s.error)
    gone = frozenset(s.transform.name for s in fixing_steps(report) if str(s.transform) in undone)
    return Fixed(result.graph, notes, _smaller(graph, result.graph), _proven(worst), kept, gone)


def operators(graph: Graph) -> int:
    """The operators of a file's graph, its functions included."""
    graphs = [graph, *(f.graph for f in graph.functions.values())]
    return sum(is_foreign(n.op) and n.op not in UNREAD for g in graphs for n in g)


def _smaller(before: Graph, after: Graph) -> str:
    nodes = f"{len(before):,} nodes became {len(after):,}"
    # The graph of another file's ops is not what that file takes.
    if before.source is not None:
        return nodes
    return f"{nodes}, {sizes_text(serialized_size(before), serialized_size(after))}"


def sizes_text(before: int, after: int) -> str:
    """What so many bytes became."""
    return f"{bytes_text(before)} became {bytes_text(after)}"


def _proven(worst: float) -> str:
    if not worst:
        return "no output moved by a bit"
    return f"compared after each step, no output moved by more than {worst:.1g} of its largest number"


def steps_of(findings: Iterable[LintFinding]) -> set[str]:
    """Names of the transforms that mend findings."""
    return {step.transform.name for finding in findings for step in resolve(finding.fix)}


def mended_codes(
    before: LintReport, after: LintReport, undone: Collection[str] = ()
) -> tuple[list[str], list[str]]:
    """Codes of findings that are gone, and of those that are left at fewer nodes than before.

    What a step was to mend that was undone is not mended, though a file that is written anew may not show it.
    """
    codes = dict.fromkeys(f.code for f in before.fixable if not (undone and steps_of([f]) <= set(undone)))
    nodes = [Counter[str](), Counter[str]()]
    for counted, report in zip(nodes, (before, after), strict=True):
        for finding in report.findings:
            counted[finding.code] += len(finding.nodes)
    left = {finding.code for finding in after.findings}
    partly = [code for code in codes if code in left and nodes[1][code] < nodes[0][code]]
    # A rule that was not asked, or broke, has no findings either.
    looked = set(after.rules) - set(after.broken)
    return [code for code in codes if code in looked - left], partly
