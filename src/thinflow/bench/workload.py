"""The workload of a run of a model, and how much of that is in integers."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from thinflow.errors import ThinflowError
from thinflow.ir.brief import brief_repr
from thinflow.ir.types import INT8, QINT8, QUINT8, UINT8, TensorSpec, dtype

if TYPE_CHECKING:
    from thinflow.analysis.cost import GraphCost
    from thinflow.bench.targets import Subject
    from thinflow.ir.graph import Graph, Node, Value

_SMALL = frozenset({INT8, UINT8, QINT8, QUINT8, *map(dtype, ("int4", "uint4", "int2"))})
_PRODUCT = re.compile(r"conv|matmul|gemm|fully_?connected|einsum|lstm|gru|rnn|attention", re.IGNORECASE)
_ACTIVATIONS = frozenset({"onnx.Relu", "onnx.Clip"})


def _converts(op: str) -> bool:
    """True if an op leads between floats and eight bits.

    Those of ONNX do not: they are how its models say that the ops between them are eight-bit.
    """
    return op in ("QuantizeV2", "Dequantize", "tfl.QUANTIZE", "tfl.DEQUANTIZE")


@brief_repr
@dataclass(frozen=True)
class Workload:
    """Matrix products and convolutions of one run.

    Attributes:
        operations: of all of them; a multiplication and an addition are two.
        integer_operations: of those on eight-bit numbers.
        products: how many nodes that are.
        float_products: names of those that compute in float.
        conversions: nodes that convert between float and eight bits.
        uncounted: nodes whose work cannot be told, such as loops.
    """

    operations: int = 0
    integer_operations: int = 0
    products: int = 0
    float_products: tuple[str, ...] = ()
    conversions: int = 0
    uncounted: tuple[str, ...] = ()

    @property
    def is_eight_bit(self) -> bool:
        """True if most operations are on eight-bit numbers."""
        return 2 * self.integer_operations > self.operations

    @property
    def is_whole(self) -> bool:
        """True if nothing is left out of the count."""
        return self.products > 0 and not self.uncounted

    @property
    def has_eight_bit(self) -> bool:
        """True if some operations are on eight-bit numbers."""
        return self.integer_operations > 0

    def data(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "operations": self.operations,
            "integer_operations": self.integer_operations,
            "products": self.products,
            "float_products": len(self.float_products),
            "conversions": self.conversions,
            "uncounted": len(self.uncounted),
        }


def workload(subject: Subject) -> Workload | None:
    """The workload of a model with the sizes it is run with; None if its graph cannot be read."""
    try:
        found = workload_of(subject_graph(subject))
    except ThinflowError:
        return None
    # In TensorFlow's ops the cost of more nodes may be known.
    if not found.uncounted or found.has_eight_bit or not _is_file(subject):
        return found
    with suppress(ThinflowError):  # an op that TensorFlow's cannot say
        # Of equals the first: the file's own ops.
        found = min(found, workload_of(lifted_graph(subject)), key=lambda work: len(work.uncounted))
    return found


def workload_of(graph: Graph) -> Workload:
    """The workload of a graph whose shapes are inferred: of all that its outputs need."""
    from thinflow.analysis.cost import graph_cost
    from thinflow.interpreter.turns import turns_of
    from thinflow.ir.order import ancestors

    # What no output needs never runs.
    needed = ancestors([v.node for v in graph.outputs]) if graph.outputs else set(graph)
    cost = graph_cost(graph, [n for n in graph if n in needed], turns=turns_of)
    heavy = {n: cost.by_node[n.name].macs for n in needed if n.name in cost.by_node}
    # A multiplication and an addition.
    heavy = {n: 2 * macs for n, macs in heavy.items() if macs}
    integer = {n for n in heavy if _is_integer(n)}
    return Workload(
        sum(heavy.values()),
        sum(heavy[n] for n in integer),
        len(heavy),
        tuple(n.name for n in graph if n in heavy and n not in integer),
        sum(_converts(n.op) for n in needed),
        tuple(n.name for n in graph if n in needed and (_holds_functions(n) or _may_be_heavy(n, cost))),
    )


def subject_graph(subject: Subject) -> Graph:
    """The graph of a subject; that of a file is read, and given the sizes of the inputs.

    Raises:
        ThinflowError: it cannot be read.
    """
    from thinflow.analysis.shapes import infer_shapes
    from thinflow.bench.targets import GraphSubject
    from thinflow.formats import load

    if isinstance(subject, GraphSubject):
        return subject.graph
    graph = load(subject.path)
    infer_shapes(graph)
    return _sized(graph, subject)


def _is_file(subject: Subject) -> bool:
    from thinflow.bench.targets import GraphSubject

    return not isinstance(subject, GraphSubject)


def lifted_graph(subject: Subject) -> Graph:
    """A file's model in TensorFlow's ops, whose shapes follow from those of the inputs.

    Raises:
        ThinflowError: it has an op that cannot be said so.
    """
    from thinflow.bench.targets import lifted

    return _sized(lifted(subject)[0], subject)


def _sized(graph: Graph, subject: Subject) -> Graph:
    """The graph, with the sizes that its inputs are fed."""
    from thinflow.analysis.shapes import infer_shapes

    given = {**subject.assumed, **getattr(subject, "shapes", {})}
    fed = {}
    for value in graph.inputs:
        shape = given.get(value.name.removesuffix(":0"), value.spec.shape or ())
        fed[value] = TensorSpec(value.dtype, tuple(1 if n is None else n for n in shape))
    infer_shapes(graph, fed)
    return graph


def _may_be_heavy(node: Node, cost: GraphCost) -> bool:
    """True if a node whose cost is not known is a product, or may be one for all that is known."""
    why = cost.unknown.get(node.name, "")
    return why.startswith("unknown op") or bool(why and _PRODUCT.search(node.op))


def _holds_functions(node: Node) -> bool:
    """A loop, a branching or a call, whose work depends on what runs inside."""
    return any(name in node.attrs for name in ("body", "then_branch", "branches")) or node.op in (
        "PartitionedCall",
        "StatefulPartitionedCall",
        "Enter",
        "tfl.WHILE",
        "tfl.IF",
        "onnx.Loop",
        "onnx.If",
    )


def _is_integer(node: Node) -> bool:
    """True if a product multiplies eight-bit numbers."""
    vocabulary, _, op = node.op.rpartition(".")
    if op.startswith(("Quantized", "QLinear", "DynamicQuantize")) or op.endswith("Integer"):
        return True
    if vocabulary == "tfl":  # float activations are quantized inside where the weights are eight-bit
        # x and the weights are among the first three, in whatever order the op has them.
        return any(v.dtype in _SMALL for v in node.inputs[:3])
    if vocabulary != "onnx" or not all(map(_is_dequantized, node.inputs[:2])):
        return False
    # These two have integer kernels that give floats; the others need a QuantizeLinear behind them.
    return op in ("MatMul", "Gemm") or _is_quantized(node)


def _is_dequantized(value: Value) -> bool:
    source = value.node
    return source.op == "onnx.DequantizeLinear" and source.inputs[0].dtype in _SMALL


def _is_quantized(node: Node) -> bool:
    """True if all readers of a node want eight bits, an activation between allowed."""
    readers = [user for value in node.outputs for user in value.readers]
    # ONNX Runtime folds such an activation into the quantization behind it.
    while len(readers) == 1 and readers[0].op in _ACTIVATIONS:
        readers = [user for value in readers[0].outputs for user in value.readers]
    return bool(readers) and all(r.op == "onnx.QuantizeLinear" for r in readers)


def counted(work: Workload | None, *, has_dot_products: bool | None) -> list[str]:
    """Facts of an eight-bit model, and of the machine, that may make it slow; what they cost is not known.

    Args:
        work: of the model.
        has_dot_products: whether the CPU has instructions for eight-bit products; None if unknown.
    """
    found = []
    if has_dot_products is False:
        found.append("this CPU has no eight-bit dot products (VNNI, dotprod)")
    floats = len(work.float_products) if work is not None else 0
    # Less than 90 % of the work in eight bits: below that a stray float layer explains nothing.
    if work is not None and floats and 10 * work.integer_operations < 9 * work.operations:
        share = 100 * (1 - work.integer_operations / work.operations)
        found.append(
            f"{floats} of {work.products} products stayed float, {share:.0f} % of the operations, "
            f"first '{work.float_products[0]}'"
        )
    if work is not None and 2 * work.conversions > work.products > 0:
        found.append(
            f"it converts between float and eight bits {work.conversions} times for {work.products} products"
        )
    return found
