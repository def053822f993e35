"""OpenVINO's files as a target."""

from __future__ import annotations

from thinflow.ir.graph import Graph
from thinflow.lower.targets import Target
from thinflow.typing import FilePath


def write(graph: Graph, path: FilePath) -> int:
    """A graph as an .xml and a .bin; the bytes written."""
    # Imported only when a file is written: targets are listed without loading their rules.
    from thinflow.errors import UnsupportedOp
    from thinflow.lower.onnx.convert import lower_graph, unsupported
    from thinflow.lower.openvino.limits import judge
    from thinflow.lower.openvino.runtime import OPSET, library
    from thinflow.lower.openvino.writing import model_of, write_ir

    library()  # before the work, which would be for nothing without it
    program = lower_graph(graph, graph.inputs, graph.outputs, opset=OPSET).program
    # It takes them, and computes something else: nobody would notice.
    objections = unsupported(graph, graph, specs={}, opset=OPSET, judge=judge(graph, graph.inputs))
    needed = {o.origin for o in program.operators}
    for node, why in objections.items():
        if node.name in needed:
            raise UnsupportedOp(why, node.where, hint="write an .onnx file, or cut it off: --outputs")
    return write_ir(model_of(program), path, notes={"description": program.description})


TARGET = Target("openvino", (".xml",), write, has_runtime=True, extra="openvino")
