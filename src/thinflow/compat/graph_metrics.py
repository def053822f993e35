"""The figures of TensorFlow's graph_metrics: operations and weights by its rules.

They count a multiply-add as two operations and some ops coarsely; `analysis.cost` counts exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from thinflow.api.files import stored_graph
from thinflow.errors import ParameterError, closest
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import TensorSpec
from thinflow.load.graphs import Source

if TYPE_CHECKING:
    from thinflow.ir.types import Shape


@brief_repr
@dataclass(frozen=True)
class Measured:
    """Result of `graph_metrics`.

    Attributes:
        graph: the graph.
        metrics: the counts.
        input: name and spec of the input they are for.
        constants: elements of all constants.
        constant_bytes: their size in the file.
        peak_bytes: of the activations of one run; None if the graph has a cycle.
    """

    graph: Graph
    metrics: Metrics
    input: str
    spec: TensorSpec
    constants: int
    constant_bytes: int
    peak_bytes: int | None


def graph_metrics(
    source: Source,
    input_layer: str | None = None,
    *,
    batch_size: int = 1,
    shape: Sequence[int] | None = None,
    statistics: Sequence[str] | None = None,
) -> Measured:
    """Operations and weights of a graph by TensorFlow's rules, for one size of its input.

    Args:
        source: path or Graph.
        input_layer: name of the input; default: the best guess.
        batch_size: put in the place of the first size of its shape.
        shape: of the input; default: what the graph says.
        statistics: "weight_parameters", "flops"; default both.

    Raises:
        GraphError: no such input.
        ParameterError: an unknown statistic, or a batch size below 1.
    """
    from thinflow.analysis.cost import parameters, peak_activations
    from thinflow.analysis.shapes import infer_shapes
    from thinflow.ir.order import runnable

    chosen = list(STATISTICS if statistics is None else statistics)
    for name in chosen:
        if name not in STATISTICS:
            hint = closest(name, STATISTICS) or f"there are {' and '.join(STATISTICS)}"
            raise ParameterError(f"'{name}' is no statistic", hint=hint)
    if batch_size < 1:
        raise ParameterError(f"the batch size is {batch_size}", hint="give at least 1")
    graph = stored_graph(source).clone()
    infer_shapes(graph)
    value = _input(graph, input_layer)
    spec = TensorSpec(value.dtype, _with_batch(value.shape if shape is None else tuple(shape), batch_size))
    # Again, for the size of batch that was asked for.
    infer_shapes(graph, {value: spec})
    sizes = parameters(graph)
    order = runnable(graph)
    peak = peak_activations(order, graph.outputs).size_bytes if len(order) == len(graph) else None
    return Measured(
        graph, count(graph, chosen), value.name, spec, sizes.count, sum(sizes.bytes_by_dtype.values()), peak
    )


def _input(graph: Graph, name: str | None) -> Value:
    """The value of that name, or the likeliest input.

    Raises:
        GraphError: there is no such value.
        ParameterError: no input can be guessed.
    """
    if name is not None:
        return graph.value(name)
    from thinflow.analysis.interface import guess_interface

    guessed = guess_interface(graph).chosen_inputs
    if not guessed:
        raise ParameterError("no input can be guessed", hint="name it: --input_layer=NAME")
    return guessed[0]


def _with_batch(shape: Shape, batch_size: int) -> Shape:
    return (batch_size, *shape[1:]) if shape else shape


# --- rules --------------------------------------------------------------------------------------------------


STATISTICS = ("weight_parameters", "flops")
UNKNOWN = "unknown"
"""Value of a statistic where a rule exists and sizes are missing."""

Count = int | str | None
"""None: no rule for this op."""

Sizes = Sequence[TensorSpec]
Rule = Callable[[Node, Sizes, TensorSpec], int]


@brief_repr
@dataclass
class Metrics:
    """Statistics of a graph.

    Attributes:
        totals: statistic -> sum over the nodes it is known of; None if there is none.
        by_node: node -> statistic -> count.
        unknown: nodes whose sizes are not known.
    """

    totals: dict[str, int | None] = field(default_factory=dict)
    by_node: dict[str, dict[str, Count]] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)


def count(graph: Graph, statistics: Sequence[str] = STATISTICS) -> Metrics:
    """Count over all nodes of the main graph; needs `infer_shapes` to have set the specs."""
    result = Metrics(dict.fromkeys(statistics))
    for node in graph:
        counts = {name: _count(_RULES[name], node) for name in statistics}
        result.by_node[node.name] = counts
        if UNKNOWN in counts.values():
            result.unknown.append(node.name)
        for name, count in counts.items():
            if isinstance(count, int):
                result.totals[name] = (result.totals[name] or 0) + count
    return result


def _count(rules: dict[str, Rule], node: Node) -> Count:
    rule = rules.get(node.op)
    if rule is None:
        return None
    inputs = [value.spec for value in node.inputs]
    output = node.output(0).spec
    if not inputs or not all(spec.is_static for spec in (*inputs, output)):
        return UNKNOWN
    try:
        return rule(node, inputs, output)
    except (IndexError, TypeError, ZeroDivisionError):  # inputs or attributes that do not fit the op
        return UNKNOWN


def _size(spec: TensorSpec) -> int:
    return math.prod(_dims(spec))


def _dims(spec: TensorSpec) -> tuple[int, ...]:
    return tuple(d or 0 for d in spec.shape or ())


def _sizes(node: Node, attr: str) -> list[int]:
    return [int(v) for v in node.get(attr)]


# --- operations ---------------------------------------------------------------------------------------------

_RULES: dict[str, dict[str, Rule]] = {name: {} for name in STATISTICS}
"""Statistic -> op -> its rule."""


def _counts(names: str, statistic: str = "flops") -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        _RULES[statistic].update(dict.fromkeys(names.split(), rule))
        return rule

    return register


@_counts("BiasAdd Reciprocal Square Log Neg Assign AssignSub AssignAdd Mean")
def _once(node: Node, inputs: Sizes, output: TensorSpec) -> int:
    return _size(inputs[0])


@_counts("Rsqrt")
def _twice(node: Node, inputs: Sizes, output: TensorSpec) -> int:
    return 2 * _size(inputs[0])


@_counts("L2Loss")
def _l2_loss(node: Node, inputs: Sizes, output: TensorSpec) -> int:
    # n squares, n - 1 additions, and n halvings: TensorFlow halves each square and not their sum.
    return 3 * _size(inputs[0]) - 1


@_counts("Softmax")
def _softmax(node: Node, inputs: Sizes, output: TensorSpec) -> int:
    # TensorFlow's estimate: 2n to take off the maximum, n exponentials, 2n to sum and divide.
    return 5 * _size(inputs[0])


@_counts("Add AddV2 Sub Mul RealDiv Maximum Minimum Pow Greater GreaterEqual Less LessEqual Equal NotEqual")
def _per_output(node: Node, inputs: Sizes, output: TensorSpec) -> int:
    return _size(output)


@_counts("SquaredDifference")
def _squared_difference(node: Node, inputs: Sizes, output: TensorSpec) -> int:
    return 2 * _size(output)


@_counts("RsqrtGrad")
def _rsqrt_gradient(node: Node, inputs: Sizes, output: TensorSpec) -> int:
    return 4 * _size(output)


@_counts("Conv2D Conv3D")
def _convolution(node: Node, inputs: Sizes, output: TensorSpec) -> int:
    # A kernel is HWIO: all axes but the last add up to one output value.
    return 2 * _size(output) * math.prod(_dims(inputs[1])[:-1])


@_counts("DepthwiseConv2dNative Dilation2D")
def _depthwise(node: Node, inputs: Sizes, output: TensorSpec) -> int:
    return 2 * _size(output) * math.prod(_dims(inputs[1])[:2])


@_counts("MatMul BatchMatMul BatchMatMulV2 BatchMatMulV3")
def _product(node: Node, inputs: Sizes, output: TensorSpec) -> int:
    is_transposed = bool(node.get("transpose_a") or node.get("adj_x"))
    return 2 * _size(output) * _dims(inputs[0])[-2 if is_transposed else -1]


@_counts("Sum ArgMax ArgMin BiasAddGrad")
def _reduction(node: Node, inputs: Sizes, output: TensorSpec) -> int:
    # n numbers are n - 1 additions, for each result.
    return _size(inputs[0]) - _size(output)


@_counts("AvgPool MaxPool")
def _pool(node: Node, inputs: Sizes, output: TensorSpec) -> int:
    return math.prod(_sizes(node, "ksize")) * _size(output)


@_counts("AvgPoolGrad")
def _average_pool_gradient(node: Node, inputs: Sizes, output: TensorSpec) -> int:
    return 2 * math.prod(_sizes(node, "ksize")) * _size(inputs[1])


@_counts("MaxPoolGrad")
def _max_pool_gradient(node: Node, inputs: Sizes, output: TensorSpec) -> int:
    return (math.prod(_sizes(node, "ksize")) + 1) * _size(inputs[1])


def _backpropagation(picture: TensorSpec, kernel: TensorSpec, node: Node) -> int:
    # A gradient multiplies as often as the convolution that it belongs to.
    # |picture| / channels / strides are the places of the kernel, at each of which all of it is multiplied.
    channels = _dims(picture)[1 if node.get("data_format", "NHWC") == "NCHW" else -1]
    return 2 * _size(picture) * _size(kernel) // (channels * math.prod(_sizes(node, "strides")))


@_counts("Conv2DBackpropInput")
def _to_input(node: Node, inputs: Sizes, output: TensorSpec) -> int:
    return _backpropagation(output, inputs[1], node)


@_counts("Conv2DBackpropFilter")
def _to_filter(node: Node, inputs: Sizes, output: TensorSpec) -> int:
    return _backpropagation(inputs[0], output, node)


@_counts("AddN")
def _sum_of_many(node: Node, inputs: Sizes, output: TensorSpec) -> int:
    return _size(inputs[0]) * (len(inputs) - 1)


# --- weights ------------------------------------------------------------------------------------------------


@_counts("Conv2D Conv3D DepthwiseConv2dNative Dilation2D", "weight_parameters")
@_counts("MatMul BatchMatMul BatchMatMulV2 BatchMatMulV3 BiasAdd", "weight_parameters")
def _weights(node: Node, inputs: Sizes, output: TensorSpec) -> int:
    return _size(inputs[1])
