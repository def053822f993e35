"""LiteRT's files as a target."""

from __future__ import annotations

from thinflow.formats.files import write_file
from thinflow.ir.graph import Graph
from thinflow.ir.interface import states_of
from thinflow.lower.targets import Target
from thinflow.typing import FilePath


def write(graph: Graph, path: FilePath) -> int:
    """A graph as a .tflite file, its states as variables."""
    # Imported only when a file is written: targets are listed without loading their rules.
    from thinflow.lower.tflite.convert import lower_graph
    from thinflow.lower.tflite.variables import with_variables
    from thinflow.tflite.described import described
    from thinflow.tflite.writer import write_program

    program = lower_graph(graph, graph.inputs, graph.outputs).program
    whole = with_variables(program, states_of(graph))
    return write_file(path, write_program(described(whole, graph.usage))[1])


TARGET = Target("tflite", (".tflite",), write, has_runtime=True)
