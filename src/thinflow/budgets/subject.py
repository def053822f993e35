"""A model as budgets see it: opened once, and only when one asks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from thinflow.ir.graph import Graph, Node
from thinflow.load.graphs import Source
from thinflow.settings.project import Project
from thinflow.typing import Progress, Shapes

if TYPE_CHECKING:
    from thinflow.analysis.summary import Summary
    from thinflow.budgets.baseline import Baselines
    from thinflow.tflite.model import Program


class Operation(NamedTuple):
    """A node that computes something.

    Attributes:
        name: of the node.
        op: as its file calls it: "CONV_2D", "Conv", "Conv2D".
    """

    name: str
    op: str


@dataclass(eq=False)
class Subject:
    """A model under check.

    Attributes:
        source: path or Graph.
        baselines: times that were stored.
        project: the settings that its budgets come from.
        shapes: input name -> shape to assume.
        opening: how to open it.
        progress: called with (done, total, label).
    """

    source: Source
    baselines: Baselines
    project: Project = field(default_factory=Project)
    shapes: Shapes | None = None
    opening: dict[str, Any] = field(default_factory=dict)
    progress: Progress | None = None

    @property
    def path(self) -> str:
        """Of its file or folder; "" for a graph in memory, which need not be as it was in its file."""
        if isinstance(self.source, Graph):
            return self.source.path if self.source.vocabulary else ""
        return os.fspath(self.source)

    @cached_property
    def summary(self) -> Summary:
        """What it is, as `thinflow inspect` tells.

        Raises:
            FormatError: it is no model.
        """
        from thinflow.load.sources import open_model, options_for
        from thinflow.load.summaries import summary_of

        if isinstance(self.source, Graph):
            return summary_of(self.source.clone(), self.shapes)
        return summary_of(open_model(self.source, **options_for(self.source, self.opening)), self.shapes)

    @property
    def graph(self) -> Graph:
        """In the ops of its file, with shapes."""
        return self.summary.graph

    @property
    def kind(self) -> str:
        """Whose ops its file has: "tflite", "onnx" or, for TensorFlow's, ""."""
        return self.graph.vocabulary

    @cached_property
    def program(self) -> Program | None:
        """A .tflite file operator by operator; None for another model."""
        if self.kind != "tflite" or not self.path:
            return None
        from thinflow.formats.files import map_file
        from thinflow.tflite.reader import read_program

        # What cannot be written back, such as elements of sparse weights, is nothing that budgets look at.
        return read_program(map_file(self.path), losses=[])

    @cached_property
    def operations(self) -> list[Operation]:
        """What it computes, in its order: nodes without constants and inputs, also those of functions."""
        return [Operation(node.name, self._op(node)) for node in self._nodes()]

    def _nodes(self) -> Iterator[Node]:
        from thinflow.ir.function import ARGUMENT

        # A loop in a file of a runtime is a function of its graph, and so are the functions of TensorFlow.
        bodies = [function.graph for function in self.graph.functions.values()]
        for graph in (self.graph, *bodies):
            yield from (
                n for n in graph if n.tensor is None and not n.op.startswith(("Placeholder", ARGUMENT))
            )

    def _op(self, node: Node) -> str:
        """As its file calls it."""
        # The vocabulary in front is ours: `tfl.CONV_2D`.
        prefix = f"{node.op.partition('.')[0]}." if self.kind else ""
        return node.op.removeprefix(prefix)
