"""The figures of TensorFlow's graph_metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from thinflow.api.files import stored_graph
from thinflow.errors import ParameterError, closest
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import TensorSpec
from thinflow.load.graphs import Source

if TYPE_CHECKING:
    from thinflow.analysis.graph_metrics import Metrics
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
    from thinflow.analysis.cost import parameters
    from thinflow.analysis.graph_metrics import STATISTICS
    from thinflow.analysis.graph_metrics import graph_metrics as count
    from thinflow.analysis.liveness import peak_activations
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
