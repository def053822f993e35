"""Core ML's packages as a target."""

from __future__ import annotations

from thinflow.ir.graph import Graph
from thinflow.lower.targets import Target
from thinflow.typing import FilePath


def write(graph: Graph, path: FilePath) -> int:
    """A graph as a .mlpackage; the bytes written."""
    # Imported only when a file is written: targets are listed without loading their rules.
    from thinflow.lower.coreml.options import Options
    from thinflow.lower.coreml.program import mil_program
    from thinflow.lower.coreml.writing import package_of, write_package
    from thinflow.lower.onnx.convert import lower_graph

    options = Options()
    program = lower_graph(graph, graph.inputs, graph.outputs).program
    return write_package(package_of(mil_program(program, options, graph.usage), options), path)


TARGET = Target("coreml", (".mlpackage",), write, extra="coreml")
