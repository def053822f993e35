"""Everything `inspect` tells of a graph, as data; and the report of TensorFlow's summarize_graph, line by
line.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from thinflow.analysis import foreign
from thinflow.analysis.call_costs import Turns
from thinflow.analysis.cost import GraphCost, Parameters, Peak, graph_cost, parameters, peak_activations
from thinflow.analysis.interface import Candidate, Interface, guess_interface
from thinflow.analysis.precision import precision
from thinflow.analysis.shapes import infer_shapes, port_count
from thinflow.analysis.size_names import shapes_of_inputs
from thinflow.analysis.training_mode import in_training_branch, is_sample_norm, uses_batch_statistics
from thinflow.errors import FeedError, closest
from thinflow.errors.plain_text import one_line
from thinflow.ir.brief import brief_repr, short_number
from thinflow.ir.check import find_problems
from thinflow.ir.graph import Graph, Node, Problem, Value, paused_gc
from thinflow.ir.notebook import text_html
from thinflow.ir.order import ancestors, match_order, runnable
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import DType, TensorSpec
from thinflow.ops import registry
from thinflow.ops.traits import Trait, has

_NOT_OUTPUTS = frozenset({"Const", "Assign", "NoOp", "Placeholder"})


@brief_repr
@dataclass
class Summary:
    """Facts about a graph. `str()` of it is the report of TensorFlow's summarize_graph.

    Attributes:
        graph: the graph.
        interface: ranked inputs and outputs.
        ops: op name -> count, most frequent first, ties alphabetical; library functions included.
        parameters: constants.
        control_edges: number of control inputs.
        devices: device -> number of nodes.
        problems: broken rules; empty for a valid graph.
        cost: operations per run.
        peak: worst moment of the activations; None if the graph cannot be sorted.
        training_norms: batch norms that use the statistics of the batch at hand.
        sample_norms: norms of each sample by itself that are written as batch norms in training mode.
        inference_norms: batch norms with stored statistics.
        unknown_ops: op -> count of ops without a definition here.
        shape_failures: node -> why its shape rule failed.
        precision: for a .tflite or .onnx model, the numbers it computes in.
        file_bytes: size of the file, 0 if the graph has none.
    """

    graph: Graph
    interface: Interface
    ops: dict[str, int]
    parameters: Parameters
    control_edges: int
    devices: dict[str, int]
    problems: list[Problem]
    cost: GraphCost
    peak: Peak | None
    training_norms: list[str] = field(default_factory=list)
    inference_norms: list[str] = field(default_factory=list)
    sample_norms: list[str] = field(default_factory=list)
    unknown_ops: dict[str, int] = field(default_factory=dict)
    shape_failures: dict[str, str] = field(default_factory=dict)
    precision: str = ""
    file_bytes: int = 0

    @property
    def has_variables(self) -> bool:
        """True if the graph was never frozen."""
        return any(has(op, Trait.VARIABLE) for op in self.ops)

    def _repr_html_(self) -> str:
        count = f"{len(self.graph)} nodes, {self.parameters.count} parameters"
        return text_html(f"{self.graph.path or 'graph'}: {count}\n{self}")

    def __str__(self) -> str:
        return "\n".join(map(one_line, summarize_lines(self)))


def summarize(
    graph: Graph,
    shapes: Mapping[str, Sequence[int | None]] | None = None,
    turns: Turns | None = None,
) -> Summary:
    """Look at a graph from all sides, without running it and without reading its weights. O(nodes + edges).

    Args:
        graph: the graph.
        shapes: input name -> shape to assume. An unknown leading size counts as 1 in cost and memory.
        turns: as for `graph_cost`.
    """
    with paused_gc():
        return _summarize(graph, shapes or {}, turns)


def _summarize(graph: Graph, shapes: Mapping[str, Sequence[int | None]], turns: Turns | None) -> Summary:
    sound = runnable(graph)
    failures = infer_shapes(graph, order=sound)
    interface = guess_interface(graph)
    assumed = _assumed(interface, graph.inputs, shapes)
    if assumed:
        # Again, with a batch of one and the shapes that the user gave.
        failures = infer_shapes(graph, assumed, order=sound)
    ops: Counter[str] = Counter(n.op for n in graph)
    suggested = [c.value for c in interface.outputs if c.score > 0]
    needed = ancestors([v.node for v in suggested]) if suggested else set(graph)
    # A graph that cannot be sorted as a whole has no peak that means anything.
    order = [n for n in sound if n in needed] if len(sound) == len(graph) else []
    training, inference, of_samples = _norms(graph)
    return Summary(
        graph=graph,
        interface=interface,
        ops=dict(sorted(ops.items(), key=lambda item: (-item[1], item[0]))),
        parameters=parameters(graph),
        control_edges=sum(len(n.control_inputs) for n in graph),
        devices=dict(sorted(Counter(n.device for n in graph if n.device).items())),
        problems=find_problems(graph, port_count, acyclic=len(sound) == len(graph)),
        cost=graph_cost(graph, [n for n in graph if n in needed], turns=turns),
        peak=peak_activations(order, suggested) if order else None,
        training_norms=training,
        inference_norms=inference,
        sample_norms=of_samples,
        unknown_ops={o: c for o, c in sorted(ops.items()) if _is_unknown(o, graph)},
        shape_failures=failures,
        precision=precision(graph) if graph.vocabulary else "",
        file_bytes=_stored_bytes(graph.path),
    )


def _is_unknown(op: str, graph: Graph) -> bool:
    if foreign.is_foreign(op):
        return not foreign.is_known(op) and op not in graph.functions
    return registry.find(op) is None


def _stored_bytes(path: str) -> int:
    """Bytes of a file, or of all files in a folder; 0 if there is neither."""
    if not path or not os.path.isdir(path):
        return os.path.getsize(path) if path and os.path.exists(path) else 0
    files = (os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
    return sum(os.path.getsize(file) for file in files if os.path.isfile(file))


def _assumed(
    interface: Interface, declared: Sequence[Value], shapes: Mapping[str, Sequence[int | None]]
) -> dict[Value, TensorSpec]:
    """Specs of the inputs with the shapes the user gave; batch 1 where only that is unknown.

    Those that were found count, and those that were declared or named.
    """
    assumed: dict[Value, TensorSpec] = {}
    values = [c.value for c in interface.inputs] + (
        [interface.cut.value] if interface.cut is not None else []
    )
    values += [v for v in declared if v not in values]
    overrides = shapes_of_inputs(values, shapes)
    unknown = next((n for n in overrides if n not in {v.name for v in values}), None)
    if unknown is not None:
        names = [v.name for v in values]
        raise FeedError(
            f"'{unknown}' is not an input",
            hint=closest(unknown, names) or f"the inputs are {', '.join(names)}",
        )
    for value in values:
        shape = overrides.get(value.name, value.shape)
        if shape and shape[0] is None and None not in shape[1:]:
            # Costs and memory are for one sample where only the batch is open.
            shape = (1, *shape[1:])
        if shape != value.shape:
            assumed[value] = TensorSpec(value.dtype, shape)
    return assumed


def _norms(graph: Graph) -> tuple[list[str], list[str], list[str]]:
    """Batch norms in training mode and with stored statistics, and norms of each sample by itself."""
    training: list[str] = []
    inference: list[str] = []
    of_samples: list[str] = []
    for node in graph:
        if has(node.op, Trait.BATCH_NORM) and not in_training_branch(node):
            kind = training if uses_batch_statistics(node) else inference
            (of_samples if is_sample_norm(node) else kind).append(node.name)
    return training, inference, of_samples


# --- the drop-in report -------------------------------------------------------------------------------------


def summarize_lines(summary: Summary, *, benchmark_hint: bool = True) -> list[str]:
    """The lines of summarize_graph: same words, same order, trailing blanks included."""
    graph = summary.graph
    placeholders = [n for n in graph if n.op == "Placeholder"]
    variables = [n for n in graph if has(n.op, Trait.TF1_VARIABLE)]
    # By TensorFlow's rule, not by ours above: an output is what no node names at all.
    referred = {v.node for n in graph for v in n.inputs} | {c for n in graph for c in n.control_inputs}
    outputs = [n for n in graph if n not in referred and n.op not in _NOT_OUTPUTS]
    lines = [
        _found(placeholders, "inputs", _input_text),
        _found(variables, "variables", _input_text, possible=False),
        _found(outputs, "outputs", lambda n: f"(name={n.name}, op={n.op}) "),
        f"Found {summary.parameters.count} ({short_number(summary.parameters.count)}) const parameters, "
        f"0 (0) variable parameters, and {summary.control_edges} control_edges",
    ]
    lines += [f"{count} nodes assigned to device '{device}'" for device, count in summary.devices.items()]
    broken = [p for p in summary.problems if p.kind == "missing input"]
    lines += [f"Invalid input {p.text.split(chr(39))[1]} for node {p.node}" for p in broken]
    lines.append("Op types used: " + ", ".join(f"{count} {op}" for op, count in summary.ops.items()))
    if benchmark_hint:
        lines += _benchmark_lines(graph, [*placeholders, *variables], outputs)
    return lines


def _found(nodes: Sequence[Node], what: str, text: Any, *, possible: bool = True) -> str:
    if not nodes:
        return f"No {what} spotted."
    return f"Found {len(nodes)} {'possible ' if possible else ''}{what}: " + "".join(text(n) for n in nodes)


def _input_text(node: Node) -> str:
    element = node.get("dtype")
    name, number = (element.name, element.number) if isinstance(element, DType) else ("INVALID", 0)
    return f"(name={node.name}, type={name}({number}), shape={_shape_text(node)}) "


def _shape_text(node: Node) -> str:
    if "shape" not in node.attrs:
        return "None"
    shape = node.get("shape")
    if not isinstance(shape, tuple):
        return "<unknown>"
    return "[" + ",".join("?" if d is None else str(d) for d in shape) + "]"


def _benchmark_lines(graph: Graph, inputs: Sequence[Node], outputs: Sequence[Node]) -> list[str]:
    names = ",".join(n.name for n in inputs)
    types = ",".join(t.name if isinstance(t := n.get("dtype"), DType) else "INVALID" for n in inputs)
    shapes = ":".join(
        ",".join(str(-1 if d is None else d) for d in s) if isinstance(s := n.get("shape"), tuple) else ""
        for n in inputs
    )
    return [
        "To use with tensorflow/tools/benchmark:benchmark_model try these arguments:",
        "bazel run tensorflow/tools/benchmark:benchmark_model -- "
        f"--graph={graph.path} --show_flops --input_layer={names} --input_layer_type={types} "
        f"--input_layer_shape={shapes} --output_layer={','.join(n.name for n in outputs)}",
    ]


def structure_lines(graph: Graph) -> list[str]:
    """The nodes in execution order, one per line, as `--print_structure` prints them."""
    lines = []
    for node in match_order(graph):
        inputs = ", ".join([v.name for v in node.inputs] + [f"^{n.name}" for n in node.control_inputs])
        tensor = node.tensor
        value = f", value={tensor_text(tensor)}" if tensor is not None else ""
        lines.append(f"{node.name} ({node.op}): [{inputs}]{value}")
    return lines


def tensor_text(tensor: Tensor) -> str:
    """`Tensor<type: float shape: [2,2] values: [1 2][3...]...>`, with the first three values."""
    shape = "[" + ",".join(map(str, tensor.shape)) + "]"
    return f"Tensor<type: {tensor.dtype.name} shape: {shape} values: {_values_text(tensor, 3)}>"


def _values_text(tensor: Tensor, limit: int) -> str:
    flat = [v.item() if hasattr(v, "item") else v for v in tensor.numpy().flat[:limit]]
    texts = [_value_text(v) for v in flat]
    if not tensor.shape:
        return texts[0]
    if len(tensor.shape) == 1:
        return " ".join(texts) + ("..." if tensor.size > limit else "")
    # Brackets as TensorFlow prints them: opened row by row until the values that are shown have run out.
    waiting = deque(texts)

    def block(axis: int) -> str:
        """The text between one pair of brackets; nothing is opened once the values have run out."""
        text, size = "", tensor.shape[axis]
        for index in range(size):
            if not waiting:
                return text + ("..." if axis == len(tensor.shape) - 1 else "")
            if axis == len(tensor.shape) - 1:
                text += (" " if index else "") + waiting.popleft()
            else:
                text += f"[{block(axis + 1)}]"
        return text

    return block(0) + ("..." if tensor.size > limit else "") if tensor.size else ""


def _value_text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, bool):
        return "1" if value else "0"
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def describe(candidates: Sequence[Candidate]) -> list[str]:
    """One line per candidate, those not suggested marked."""
    return [f"{'' if c.score > 0 else '(not suggested) '}{c}" for c in candidates]
