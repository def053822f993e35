"""What the runtimes of phones have no place for in a graph: asked of those who write their files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from thinflow.analysis.shapes import declared_spec, infer_with_loops
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Graph
from thinflow.lint.dry_run import dry_run
from thinflow.lower.onnx.convert import unsupported as not_in_onnx
from thinflow.lower.onnx.convert import unsupported_unit as no_unit_in_onnx
from thinflow.lower.tflite.convert import lower_graph
from thinflow.optimize.core import BESIDE, Core, find_core
from thinflow.optimize.samples import one_sample

_FIND: dict[str, tuple[str, Callable[[Graph], Core]]] = {
    "LiteRT": ("litert", partial(find_core, texts=True)),
    "ONNX": (
        "onnx",
        partial(
            find_core,
            unsupported=not_in_onnx,
            runtime="ONNX",
            unsupported_unit=partial(no_unit_in_onnx, specs={}),
            texts=True,
        ),
    ),
}
"""Runtime -> its name among the orders of transforms, and the search for what its files can hold."""


@dataclass(frozen=True)
class Objection:
    """A node that a runtime has no place for.

    Attributes:
        is_alone: whether nothing of the graph is left for the runtime.
    """

    node: str
    op: str
    why: str
    is_alone: bool = False


def suited(graph: Graph, runtime: str) -> Graph:
    """A graph after the transforms that suit it to a runtime, as they are made before it is converted.

    Args:
        graph: with inputs and outputs set; not changed.
        runtime: "LiteRT" or "ONNX".
    """
    return dry_run(graph, f"for_runtime(runtime={_FIND[runtime][0]})").graph


def objections(graph: Graph, runtime: str) -> list[Objection]:
    """The nodes that a runtime has no place for; those that merely stand beside such a one are left out.

    Args:
        graph: suited to the runtime.
        runtime: "LiteRT" or "ONNX".
    """
    try:
        core = _FIND[runtime][1](graph)
    except UnsupportedOp as error:
        return [*_whole(graph, error)]
    refused = [(n, why) for n, why in core.outside.items() if not why.startswith(BESIDE)]
    return [Objection(n.name, n.op, why) for n, why in refused]


def written_operators(graph: Graph) -> Counter[str]:
    """The operators of the .tflite file that a graph becomes for one sample, counted; none if no file holds
    all of it.

    Args:
        graph: suited to LiteRT; the specs of its values become those of one sample.
    """
    infer_with_loops(graph, {v: one_sample(declared_spec(v)) for v in graph.inputs})
    try:
        program = lower_graph(graph, graph.inputs, graph.outputs, specs={}).program
    except UnsupportedOp:
        return Counter()
    return Counter(operator.code for part in program.subgraphs for operator in part.operators)


def _whole(graph: Graph, error: UnsupportedOp) -> Iterator[Objection]:
    """The objection to all of a graph: of the node that the error names, if it names one."""
    node = next((n for n in graph if n.where == error.where), None)
    if node is not None:
        yield Objection(node.name, node.op, error.problem, is_alone=True)
