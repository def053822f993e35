"""Cases of rules: graphs as text, and what the rule says of them. One file for each rule, `<CODE>.txt`.

    ## name of the case
    > synthetic
    x = Placeholder() {dtype=float, shape=shape[1,4]}
    y = Relu(x) {T=float}
    inputs: x
    outputs: y
    =>
    the message of a finding
      at the nodes, with commas
      cost 12 bytes, 3 flops
      fix the transforms

Nothing behind `=>` says that the rule has nothing to say. The lines below a message are those that apply.
`> synthetic` lets rules run the model. Of the first case, the documentation shows the graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import thinflow
from tests.transforms.golden import parse_graph

FOLDER = Path(__file__).parent / "rules"


@dataclass
class LintCase:
    """One case; see the module's docstring."""

    code: str
    name: str
    options: list[str] = field(default_factory=list)
    before: str = ""
    said: str = ""

    def report(self) -> thinflow.LintReport:
        """What the rule says of the graph."""
        graph = parse_graph(self.before)
        return thinflow.lint(graph, select=[self.code], synthetic="synthetic" in self.options)

    def __str__(self) -> str:
        return f"{self.code}-{self.name.replace(' ', '_')}"


def said(report: thinflow.LintReport) -> str:
    """Findings as the cases have them."""
    return "".join(f"{line}\n" for finding in report.findings for line in _lines(finding))


def _lines(finding: thinflow.LintFinding) -> Iterator[str]:
    yield finding.message
    if finding.nodes:
        yield f"  at {', '.join(finding.nodes)}"
    costs = [f"{finding.size_bytes} bytes"] * bool(finding.size_bytes)
    costs += [f"{finding.flops} flops"] * bool(finding.flops)
    if costs:
        yield f"  cost {', '.join(costs)}"
    if finding.fix:
        yield f"  fix {finding.fix}"


def cases() -> list[LintCase]:
    """The cases of all files."""
    return [case for path in sorted(FOLDER.glob("*.txt")) for case in _read(path)]


def _read(path: Path) -> Iterator[LintCase]:
    for part in path.read_text("utf-8").split("## ")[1:]:
        head, _, body = part.partition("\n")
        graph, arrow, after = body.partition("=>\n")
        assert arrow, f"{path.name}: {head} has no =>"
        options = [line[2:] for line in graph.splitlines() if line.startswith("> ")]
        text = "".join(f"{line}\n" for line in graph.splitlines() if line and not line.startswith("> "))
        yield LintCase(path.stem, head.strip(), options, text, after.rstrip() + "\n" if after.strip() else "")
