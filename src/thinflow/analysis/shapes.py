"""Static shapes: types, sizes and small integer contents of every value, as far as they can be known."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from thinflow.analysis import foreign
from thinflow.analysis.function_shapes import CallShapes, RuleResults, completed
from thinflow.analysis.neighbor_specs import asked_shape, queued_specs, typed_inputs, unknown_specs
from thinflow.errors import ShapeError, ThinflowError
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import MERGES, NEXT_ITERATIONS, runnable
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import BOOL, UNKNOWN, DType, TensorSpec
from thinflow.ops import registry
from thinflow.ops._failures import in_words
from thinflow.ops.traits import Trait, has
from thinflow.progress import counted

logger = logging.getLogger(__name__)

# Said once: `|` of flags costs more than the look that it is for, at every node.
_DEQUEUES = Trait.DEQUEUE | Trait.DEQUEUE_MANY | Trait.DEQUEUE_UP_TO

MAX_ELEMENTS = 64
"""Integer constants up to this size take part in shape arithmetic element by element."""
MAX_PORTS = 1 << 16
"""A node that claims more outputs is damaged; each of them would cost memory."""


def infer_shapes(
    graph: Graph,
    fed: Mapping[Value, TensorSpec] | None = None,
    *,
    use_annotations: bool = False,
    order: Sequence[Node] | None = None,
) -> dict[str, str]:
    """Set `spec` on every value of the graph; what cannot be known stays unknown. O(nodes + edges).

    Args:
        graph: in which to set the specs.
        fed: what is known of inputs from elsewhere (a shape the user gave); wins over the placeholder's own.
        use_annotations: trust `_output_shapes` attributes where inference finds nothing.
        order: what `runnable` gives for the graph, where that is known already.

    Returns:
        Node name -> why its shape rule failed, for nodes whose inputs do not fit or that are not well formed.
        Not an error here: the graph may be meant for other input sizes.
    """
    return _infer(graph, fed or {}, use_annotations, CallShapes(_infer_body), order)


def _infer_body(graph: Graph, fed: Mapping[Value, TensorSpec], calls: CallShapes) -> None:
    _infer(graph, fed, False, calls)


def _infer(
    graph: Graph,
    given: Mapping[Value, TensorSpec],
    use_annotations: bool,
    calls: CallShapes,
    order: Sequence[Node] | None = None,
) -> dict[str, str]:
    failures: dict[str, str] = {}
    # Of a broken graph the sound part; the rest stays unknown.
    order = runnable(graph) if order is None else order
    for node in counted(order, len(order), "inferring shapes"):
        try:
            specs = _node_specs(node, [v.spec for v in node.inputs], calls)
        except ThinflowError as error:
            failures[node.name] = error.message
            specs = ()
        # A placeholder without a rank may be read by an op that asks for one.
        if has(node.op, Trait.FED) and specs:
            specs = (specs[0].with_shape(asked_shape(node.output(), specs[0].shape)),)
        if len(specs) == 1 and not use_annotations and len(node.outputs) < 2:  # nearly all nodes
            value = node.output()
            value.spec = given.get(value, specs[0]) if given else specs[0]
            continue
        annotated = _annotations(node) if use_annotations else ()
        for port in range(max(len(specs), len(node.outputs), 1)):
            value = node.output(port)
            spec = specs[port] if port < len(specs) else UNKNOWN
            if spec.shape is None and port < len(annotated):
                spec = TensorSpec(spec.dtype, annotated[port])
            value.spec = given.get(value, spec)
    return failures


def infer_node(
    node: Node, inputs: Sequence[TensorSpec], calls: CallShapes | None = None
) -> tuple[TensorSpec, ...]:
    """Specs of a node's outputs from those of its inputs; () for an op without a rule.

    Args:
        node: may call library functions, which are looked into.
        inputs: one for each of its inputs.
        calls: remembers what functions give, when many nodes are asked for.

    Raises:
        ShapeError: the inputs do not fit; placed at the node.
    """
    try:
        return _node_specs(node, inputs, CallShapes(_infer_body) if calls is None else calls)
    except _MalformedNode:
        return tuple(UNKNOWN for _ in node.outputs)


class _MalformedNode(ShapeError):
    """A shape rule met a node it was not written for: too few inputs, an attribute of another kind."""


def _node_specs(node: Node, inputs: Sequence[TensorSpec], calls: CallShapes) -> tuple[TensorSpec, ...]:
    """As `infer_node`, but a node that is not well formed is an error."""
    tensor = node.tensor
    if tensor is not None:
        return (constant_spec(tensor),)
    if foreign.is_foreign(node.op):
        return foreign.infer(node, inputs)
    # What the body tells goes first: rules of calls know types alone.
    called = calls.results(node, inputs)
    declared = _declared_results(node, inputs, calls.rules)
    if has(node.op, _DEQUEUES):
        return queued_specs(node, inputs, declared)
    return declared if called is None else completed(called, declared)


def _declared_results(node: Node, inputs: Sequence[TensorSpec], rules: RuleResults) -> tuple[TensorSpec, ...]:
    """Specs by the op's own rule."""
    definition = registry.find(node.op)
    if definition is None:
        return unknown_specs(node)
    inputs = typed_inputs(node, inputs)
    attrs = node.attrs_view
    count = None if isinstance(definition.num_outputs, int) else attrs.get(definition.num_outputs)
    # Before the rule, which would make a spec for each.
    if isinstance(count, int) and not 0 <= count <= MAX_PORTS:
        raise ShapeError(
            f"{count} outputs are more than any op can have",
            node.where,
            hint="the file is damaged; export it again",
        )
    try:
        return rules.of(definition, inputs, attrs)
    except ThinflowError as error:
        raise error.at(node.where) from error
    except registry.RULE_ERRORS as error:
        logger.debug("shape rule of %s failed", node.where, exc_info=True)
        raise _MalformedNode(f"the node is not well formed ({in_words(error)})", node.where) from error


def constant_spec(tensor: Tensor) -> TensorSpec:
    """The spec of a constant, with its elements if it is a small integer or bool tensor."""
    elements: tuple[int, ...] | None = None
    if tensor.size <= MAX_ELEMENTS and (tensor.dtype.is_integer or tensor.dtype is BOOL):
        elements = tuple(int(v) for v in tensor.numpy().ravel().tolist())
    return TensorSpec(tensor.dtype, tensor.shape, elements)


def port_count(node: Node) -> int | None:
    """Number of a node's outputs by its op definition; None for unknown ops."""
    if foreign.is_foreign(node.op):
        return len(foreign.stated(node)) or None
    definition = registry.find(node.op)
    if definition is None:
        return None
    count = definition.num_outputs
    if isinstance(count, int):
        return count
    value = node.attrs_view.get(count)
    if isinstance(value, tuple):
        return len(value)
    return value if isinstance(value, int) and 0 <= value <= MAX_PORTS else None


def _annotations(node: Node) -> tuple[tuple[int | None, ...] | None, ...]:
    shapes = node.attrs_view.get("_output_shapes")
    return tuple(s.dims for s in shapes if isinstance(s, ShapeAttr)) if isinstance(shapes, tuple) else ()


class HasSpec(Protocol):
    """A value of a graph, or a port of a runtime."""

    @property
    def spec(self) -> TensorSpec: ...


def declared_spec(port: HasSpec) -> TensorSpec:
    """Type and shape of an input: what is known of it, else what its placeholder declares."""
    if port.spec.dtype is not None or not isinstance(port, Value):
        return port.spec
    return placeholder_spec(port.node) if port.node.op.startswith("Placeholder") else TensorSpec()


def placeholder_spec(node: Node) -> TensorSpec:
    """Type and shape a placeholder declares."""
    element, shape = node.attrs_view.get("dtype"), node.attrs_view.get("shape")
    return TensorSpec(
        element if isinstance(element, DType) else None, shape.dims if isinstance(shape, ShapeAttr) else None
    )


def assumed_specs(inputs: Iterable[Value]) -> dict[Value, TensorSpec]:
    """What is known of inputs beyond what placeholders declare: shapes that whoever opened the graph gave."""
    found = {}
    for value in inputs:
        declared, known = placeholder_spec(value.node).shape, value.spec.shape
        if not value.node.op.startswith("Placeholder") or known is None:
            continue
        # Sizes that were declared since then hold.
        if declared is None or (
            len(declared) == len(known) and all(a in (None, b) for a, b in zip(declared, known, strict=True))
        ):
            found[value] = value.spec
    return found


# --- TF1 loops, where a variable's shape depends on what the loop hands back --------------------------------


_MAX_PASSES = 12  # beyond that the variables stay unknown, which is always right


def infer_with_loops(graph: Graph, fed: Mapping[Value, TensorSpec] | None = None) -> dict[str, str]:
    """As `infer_shapes`; a loop variable has the shape it enters with, as far as each iteration keeps it.

    O(nodes + edges) for every level of nesting and for every time a shape has to be given up.
    """
    known = dict(fed or {})
    failures = infer_shapes(graph, known)
    variables = {n: following for n in graph if (following := _following(n)) is not None}
    if not variables:
        return failures
    guesses: dict[Value, TensorSpec] = {}
    for _ in range(_MAX_PASSES):
        # New guesses before wider ones: an inner loop's is only known when the outer one's is.
        better = _entered(variables, guesses) or _widened(variables, guesses)
        if not better:
            return failures
        guesses.update(better)
        failures = infer_shapes(graph, known | guesses)
    # Unsettled guesses may be wrong; without them the variables are unknown.
    return infer_shapes(graph, known)


def _following(node: Node) -> Value | None:
    """The value of a loop variable in the next iteration; None for other nodes."""
    # A loop variable merges what enters with what comes back; other merges join branches.
    if node.op not in MERGES or len(node.inputs) != 2:
        return None
    return next((v for v in node.inputs if v.node.op in NEXT_ITERATIONS), None)


def _entered(variables: Mapping[Node, Value], guesses: Mapping[Value, TensorSpec]) -> dict[Value, TensorSpec]:
    """First guesses: what enters. Inner loops get theirs once the outer ones have some."""
    entered = {}
    for node, following in variables.items():
        first = next(v for v in node.inputs if v is not following).spec
        if node.output() not in guesses and first.shape is not None:
            entered[node.output()] = first.with_shape(first.shape)
    return entered


def _widened(variables: Mapping[Node, Value], guesses: Mapping[Value, TensorSpec]) -> dict[Value, TensorSpec]:
    """Guesses that do not hold of what enters or of what comes back, made wide enough."""
    wider = {}
    for node in variables:
        guess = guesses.get(node.output())
        if guess is None or guess.shape is None:
            continue
        shape: tuple[int | None, ...] | None = guess.shape
        for value in node.inputs:
            other = value.spec.shape
            if shape is None or other is None or len(other) != len(shape):
                shape = None
            else:
                # Sizes only ever get wider, from a number to unknown to no
                # rank, so that this comes to an end.
                shape = tuple(a if a == b else None for a, b in zip(shape, other, strict=True))
        if shape != guess.shape:
            wider[node.output()] = guess.with_shape(shape)
    return wider
