"""Cost model: whether moving values across the border between two engines pays.

A region that an engine runs costs a call of the engine, and a copy of every value that goes in or out. What
it saves is the interpreter's time for its nodes. Both are estimated, from the sizes of the values and the
arithmetic of the nodes; the rates are rounded measurements of LiteRT and numpy on one x86 core, and it is
only their ratios that matter: six small element-wise nodes pay, four do not, and one convolution of a picture
does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from thinflow.engines.partition import Region
from thinflow.errors import ThinflowError
from thinflow.ir.function import mentioned
from thinflow.ir.graph import Graph, Node, Value, library_of
from thinflow.ir.order import NEXT_ITERATIONS
from thinflow.ir.types import TensorSpec
from thinflow.lower.tflite.quantized_context import READERS
from thinflow.ops import registry
from thinflow.ops.traits import Trait

CALL_SECONDS = 10e-6
"""Of calling the engine once."""
VALUE_SECONDS = 1e-6
"""Of handing over one value, whatever its size."""
COPIED_BYTES_PER_SECOND = 5e9
NODE_SECONDS = 2.5e-6
"""Of one node in the interpreter, whatever its size."""
TOUCHED_BYTES_PER_SECOND = 4e9
"""Read and written by the interpreter."""
FLOPS_PER_SECOND = 5e9
"""Of the interpreter; those of an engine are left out, being many times faster."""

EXACT_FLOPS = 1e5
"""Eight-bit arithmetic, in the whole graph, that takes the interpreter less than a tenth of a millisecond."""


def too_small(region: Region) -> str:
    """Why the interpreter had better run a region; "" if the engine pays."""
    if any(_turns_or_calls(n) for n in region.nodes):
        return ""  # how much it does is not known, but seldom little
    moved = [*region.inputs, *region.outputs]
    copied = sum(map(_bytes, moved))
    border = CALL_SECONDS + VALUE_SECONDS * len(moved) + copied / COPIED_BYTES_PER_SECOND
    if sum(map(_seconds, region.nodes)) > border:
        return ""
    count = len(region.nodes)
    nodes = "this cheap node" if count == 1 else f"these {count} cheap nodes"
    return f"moving {len(moved)} values to the engine and back ({copied} bytes) costs more than {nodes}"


def _turns_or_calls(node: Node) -> bool:
    """True if a node is part of a loop, or runs a function."""
    functions = library_of(node)
    calls = bool(functions) and any(name in functions for name in mentioned(node))
    return calls or node.op in NEXT_ITERATIONS


def _seconds(node: Node) -> float:
    """The interpreter's time for a node; one that only passes its input on takes none."""
    definition = registry.find(node.op)
    if definition is None or definition.has(Trait.PASSES_THROUGH):
        return 0.0
    touched = sum(map(_bytes, (*node.inputs, *node.outputs))) / TOUCHED_BYTES_PER_SECOND
    return NODE_SECONDS + touched + flops(node, definition) / FLOPS_PER_SECOND


def flops(node: Node, definition: type[registry.OpDef]) -> float:
    """Arithmetic of a node, open sizes taken for 1; endless where not even the rank is known."""
    if definition.cost is None:
        return 0.0
    inputs, outputs = list(_settled(node.inputs)), list(_settled(node.outputs))
    # Taken for heavy: an engine that gets too much loses microseconds, the interpreter might lose seconds.
    if not all(s.is_static for s in (*inputs, *outputs[:1])):
        return float("inf")
    try:
        return float(registry.call_cost(definition, outputs, inputs, node.attrs).flops)
    except (ThinflowError, *registry.RULE_ERRORS):
        return 0.0


def _settled(values: Iterable[Value]) -> Iterable[TensorSpec]:
    for value in values:
        shape = value.spec.shape
        # 1 for an open size makes an estimate a lower bound of what the interpreter would take.
        yield value.spec if shape is None else replace(value.spec, shape=tuple(d or 1 for d in shape))


def _bytes(value: Value) -> int:
    """Size of a value in memory, open sizes taken for 1; 0 where nothing is known."""
    (spec,) = _settled([value])
    return spec.size_bytes or 0


def better_exact(graph: Graph) -> dict[Node, str]:
    """The eight-bit ops of a graph that does little arithmetic with them, with the reason; else nothing.

    LiteRT's kernels round some results to a neighbour of TensorFlow's. The interpreter does not, and is fast
    enough where there is little to compute. Shapes have to be inferred. O(nodes).
    """
    nodes = [node for node in graph if node.op in READERS]
    total = 0.0
    for node in nodes:
        total += flops(node, registry.get(node.op))
        if total > EXACT_FLOPS:
            return {}
    why = (
        "with so little eight-bit arithmetic the interpreter does, and its codes are TensorFlow's to the last"
    )
    return dict.fromkeys(nodes, why)
