"""A dry run of the transforms: what each would change in a graph, and what it leaves, and why.

A finding that is read off a dry run is true by construction: the transform was made, and did it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from thinflow.analysis.shapes import port_count
from thinflow.formats.graphdef import serialized_size
from thinflow.ir.graph import Graph
from thinflow.ir.ledger import Entry
from thinflow.rewrite.runner import StepReport, run
from thinflow.transforms import resolve


@dataclass(frozen=True)
class DryRun:
    """The ledger of an order of transforms, and the graph that it would leave.

    Attributes:
        graph: afterwards; the one before is as it was.
        steps: the ledger, a line for each transform.
    """

    graph: Graph
    steps: Sequence[StepReport]

    def of(self, *names: str) -> Iterator[StepReport]:
        """The steps of transforms by their names."""
        return (step for step in self.steps if step.name in names)

    def changes(self, *names: str) -> list[Entry]:
        """The changes that transforms make."""
        return [entry for step in self.of(*names) for entry in step.trace.changes]

    def left(self, *names: str) -> list[Entry]:
        """The places that transforms leave, with the reasons."""
        return [entry for step in self.of(*names) for entry in step.trace.left]

    def saved_bytes(self, *names: str) -> int:
        """The bytes that transforms take off the file."""
        return max(0, sum(step.size_bytes[0] - step.size_bytes[1] for step in self.of(*names)))


def dry_run(graph: Graph, transforms: str) -> DryRun:
    """Try transforms on a graph, which is not changed. One that fails is undone, and changes nothing."""
    steps = [replace(step, ignore_errors=True) for step in resolve(transforms)]
    result = run(graph, steps, port_count=port_count, size_of=serialized_size)
    return DryRun(result.graph, result.steps)
