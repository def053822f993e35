"""A model in fewer bits as a graph of TensorFlow's ops: FakeQuants round where the eight-bit model does.

It takes the place of the core in the whole graph, so that a GraphDef also holds what runs before and after.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from thinflow.errors import ParameterError, UnsupportedOp
from thinflow.formats import load as load_file
from thinflow.formats import save as save_file
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import ancestors, execution_order
from thinflow.load.graphs import load
from thinflow.ops.traits import Trait, has
from thinflow.optimize.core import Core
from thinflow.optimize.source_proof import note_proof
from thinflow.quantize.recipe import Recipe

SUFFIXES = (".pb", ".pbtxt")
"""Of files that hold such a graph."""


def save_quantized_graph(core: Core, recipe: Recipe, content: bytes, path: str | os.PathLike[str]) -> int:
    """Write the graph with its core as a model has it; the bytes written.

    The graph is proven beside the model in LiteRT, layer by layer, before it is written.

    Args:
        core: of the graph.
        recipe: of the model.
        content: of its file; states are inputs and outputs.

    Raises:
        ParameterError: the model takes or gives codes, which a graph of real numbers does not.
        VerificationError: it does not compute what the model does; nothing is written.
        WriteError: it cannot be written.
    """
    if (recipe.input_type, recipe.output_type) != ("float32", "float32"):
        raise ParameterError(
            "a GraphDef with FakeQuant takes and gives float32",
            os.fspath(path),
            hint="leave the input and output types out, or write a .tflite or .onnx",
        )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "quantized.tflite"
        file.write_bytes(content)
        rounded = load(file)
        note_proof(rounded)
        # Inside the block: weights may be views of the file.
        size = save_file(with_core(core, rounded), path)
    # Read back at once: a file that does not load is found here and not by the user.
    load_file(path)
    return size


def with_core(core: Core, other: Graph) -> Graph:
    """A copy of a core's graph in which another graph computes what the core does.

    Args:
        core: cut out of the graph.
        other: takes the core's inputs and gives its outputs, in their order.

    Raises:
        UnsupportedOp: both have functions of one name, or other ends.
    """
    graph = core.graph.clone()
    shared = set(graph.functions) & set(other.functions)
    ends = (len(core.inputs), len(core.outputs)) == (len(other.inputs), len(other.outputs))
    if shared or not ends:
        problem = f"two functions are called '{min(shared)}'" if shared else "one value is given twice"
        raise UnsupportedOp(f"the smaller model cannot stand in the graph: {problem}", hint="write a .tflite")
    graph.functions = {**graph.functions, **other.functions}
    twins = dict(zip(other.inputs, (_twin(graph, v) for v in core.inputs), strict=True))
    _graft(graph, other, twins)
    old = [_twin(graph, v) for v in core.outputs]
    new = dict(zip(old, (twins[v] for v in other.outputs), strict=True))
    inside = {graph.node(n.name) for n in core.nodes}
    for value, made in new.items():
        value.replace_uses(made, keep=inside)
    graph.outputs = [new.get(v, v) for v in graph.outputs]
    _sweep(graph)
    _rename(graph, new.items())
    return graph


def _graft(graph: Graph, other: Graph, twins: dict[Value, Value]) -> None:
    """Copy what a graph's outputs need; `twins`, which has its inputs, gets their values in the copy."""
    needed = ancestors(v.node for v in other.outputs)
    fed = {v.node for v in other.inputs}
    for node in execution_order(other):
        if node not in needed or node in fed:
            continue
        twin = graph.graft(node, node.name)
        for value in node.outputs:
            twins[value] = twin.output(value.port)
            twins[value].spec = value.spec
        twin.set_inputs([twins[v] for v in node.inputs])


def _sweep(graph: Graph) -> None:
    """Take out what no output needs any more; the graph's inputs stay."""
    needed = ancestors(v.node for v in graph.outputs) | {v.node for v in graph.inputs}
    needed |= {node for node in graph if has(node.op, Trait.PLACEHOLDER)}
    graph.remove(*(node for node in graph if node not in needed))


def _rename(graph: Graph, pairs: Iterable[tuple[Value, Value]]) -> None:
    """Give what stands in the place of a value that is gone its name."""
    renamed: set[Node] = set()
    for old, new in pairs:
        if old.node.graph is None and not old.port and new.node not in renamed and old.node.name not in graph:
            graph.rename(new.node, old.node.name)
            renamed.add(new.node)


def _twin(graph: Graph, value: Value) -> Value:
    return graph.node(value.node.name).output(value.port)
