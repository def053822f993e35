"""Graphs of LiteRT's and ONNX's ops on their way to graphs of TensorFlow's: cut, given sizes, and lifted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from thinflow.analysis.foreign import is_foreign, stated
from thinflow.analysis.foreign_quant_params import params_of
from thinflow.analysis.shapes import infer_shapes
from thinflow.analysis.size_names import size_names
from thinflow.errors import FeedError, GraphError, UnsupportedOp, closest
from thinflow.formats.foreign import file_name, is_as_read
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.function import Function
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import ancestors
from thinflow.ir.source_file import SourceFile
from thinflow.ir.types import Shape, TensorSpec, shape_text
from thinflow.ir.vocabulary import ONNX, Vocabulary, vocabulary_named
from thinflow.lift.graphs import lift
from thinflow.lift.specs import Disputed, are_apart
from thinflow.load.batches import rebatch
from thinflow.synthetic import override_shapes
from thinflow.tflite.blockwise import LOSS

Names = Sequence[str] | str
Shapes = Mapping[str, Sequence[int | None]]

_SHOWN = 6
_SHOWN_TEXT = 60
"""Characters of a producer's name in the line about a file."""


def in_tensorflow(
    graph: Graph,
    inputs: Names | None = None,
    outputs: Names | None = None,
    shapes: Shapes | None = None,
    *,
    keep_grids: bool = True,
) -> Graph:
    """A graph of a file's own ops in TensorFlow's; names of nodes and tensors are kept.

    What the outputs do not need is left out before anything is lifted, so that an op that has no counterpart
    is in nobody's way there.

    Args:
        graph: as it was read from its file; edited.
        inputs, outputs: names of tensors of the file to feed and to compute, inner ones too.
        shapes: input name -> shape to assume. Lifting rules read sizes, so it is known to them.
        keep_grids: as for `lift`.

    Raises:
        UnsupportedOp: an op has no counterpart; names the node and what to do.
        GraphError: a name does not exist; the closest is offered.
        FeedError: a shape for something that is no input.
    """
    vocabulary = vocabulary_named(graph.vocabulary)
    assert vocabulary is not None, "it speaks TensorFlow's already"
    # A graph that somebody changed is no longer what its file computes.
    source = source_of(graph, vocabulary) if graph.path and is_as_read(graph) else None
    infer_shapes(graph)
    if outputs is not None:
        graph.outputs = _named(graph, outputs, "output")
    if inputs is not None:
        fed = _named(graph, inputs, "input")
        _learn_sizes(graph, fed)
        _feed(graph, fed)
    if inputs is not None or outputs is not None:
        _leave_out_unneeded(graph)
    if shapes:
        give_sizes(graph, shapes)
    operators = sum(is_foreign(n.op) for n in graph)
    lifted, assumed = _lifted(graph, keep_grids)
    infer_shapes(lifted)
    lifted.facts, lifted.usage = dict(graph.facts), graph.usage
    if source is not None:
        nodes = sum(n.tensor is None and not n.op.startswith("Placeholder") for n in lifted)
        lifted.source = replace(source, operators=operators, nodes=nodes, assumed=assumed)
    return lifted


def source_of(graph: Graph, vocabulary: Vocabulary) -> SourceFile:
    """The record of the file that a graph was read from."""
    facts = graph.facts
    # With weights in blocks LiteRT rounds what they are multiplied with, though nothing in the file says so.
    has_codes = any(params_of(v) is not None for node in graph for v in node.outputs) or LOSS in facts.get(
        "left out", ""
    )
    words = [vocabulary.label]
    if "opset" in facts:
        words.append(f"opset {facts['opset']}")
    if "producer" in facts:
        words.append(f"from {facts['producer'][:_SHOWN_TEXT]}")
    return SourceFile(
        graph.path,
        " ".join(words),
        vocabulary.runtime,
        vocabulary.engine,
        facts.get("signature"),
        has_codes=has_codes,
    )


def default_signature(graph: Graph) -> str | None:
    """The signature to open instead of a .tflite file's first graph, where none was named; None if there is
    nothing to choose.

    Raises:
        GraphError: the file has several, and none is the default.
    """
    if "," not in graph.facts.get("signatures", "") or "signature" in graph.facts:
        return None
    # Imported late: most files have one.
    from thinflow.formats import tflite
    from thinflow.formats.packed_bytes import bytes_of

    try:
        return tflite.default_signature(bytes_of(graph.path))
    except GraphError as error:
        raise GraphError(error.problem, graph.path, error.hint) from error


def _lifted(graph: Graph, keep_grids: bool) -> tuple[Graph, tuple[str, ...]]:
    """The graph lifted, and what was assumed for it: that what follows goes before what the file states of
    it, and a batch of one, where rules need to know it.
    """
    disputed: Disputed | None = {} if graph.vocabulary == ONNX.name else None
    first = None
    try:
        lifted = lift(graph, keep_grids=keep_grids, disputed=disputed)
    except UnsupportedOp as error:
        first = error
    notes: tuple[str, ...] = ()
    if disputed:
        graph, told = _without_disputed(graph, disputed)
        try:
            return lift(graph, keep_grids=keep_grids), told
        except UnsupportedOp as error:
            # A batch inside may be needed, if not true.
            if told:
                first, notes = error, told
    if first is None:
        return lifted, ()
    batches = _open_batches(graph)
    if not batches:
        raise first
    assume(graph, batches)
    infer_shapes(graph)
    try:
        return lift(graph, keep_grids=keep_grids), (*notes, "batch assumed 1")
    except UnsupportedOp as error:
        # What the second try says is of no use where the batch made no difference.
        raise (error if (error.problem, error.where) != (first.problem, first.where) else first) from None


def _without_disputed(graph: Graph, disputed: Disputed) -> tuple[Graph, tuple[str, ...]]:
    """A copy of the graph without the sizes of which some cannot be, and what to tell of it; nothing if it is
    a batch alone that is stated inside though it is open.
    """
    copy = graph.clone()
    apart = [(v, *specs) for v, specs in disputed.items() if are_apart(specs[0].shape, specs[1].shape)]
    if not apart:
        _forget_sizes(copy, _without_batch)
        infer_shapes(copy)
        return copy, ()
    _forget_sizes(copy)
    copy.functions = {name: _without_sizes(f) for name, f in copy.functions.items()}
    infer_shapes(copy)
    # What is behind the first may be right for what the file states of that.
    value, made, other = apart[0]
    shapes = f"{shape_text(made.shape)}, though the file states {shape_text(other.shape)}"
    return copy, (f"'{file_name(value)}' is computed as {shapes}",)


def _open_batches(graph: Graph) -> dict[str, tuple[int | None, ...]]:
    """The shapes of all inputs with a batch of one; none if no batch is open."""
    found: dict[str, tuple[int | None, ...]] = {}
    for value in graph.inputs:
        shape = value.spec.shape
        if shape and shape[0] is None:
            found[value.name] = (1, *shape[1:])
    return found


def _named(graph: Graph, names: Names, role: str) -> list[Value]:
    """Values by the names that the file gives them.

    Raises:
        GraphError: there is none of such a name, or it is given twice.
    """
    found: list[Value] = []
    for text in names.split(",") if isinstance(names, str) else names:
        if not (name := text.strip()):
            continue
        value = graph.value(_own_name(graph, name, role))
        if value in found:
            raise GraphError(f"the {role} '{name}' is given twice", hint="give each once")
        found.append(value)
    return found


def _own_name(graph: Graph, name: str, role: str = "input") -> str:
    """The name in the graph of what the file, or the graph, calls so.

    Raises:
        GraphError: nothing is called so.
    """
    plain = name.strip().removesuffix(":0")
    # A node that is there is meant by its name. The file's names may have letters that ours cannot have.
    own = plain if plain in graph else graph.aliases.get(plain, plain)
    try:
        value = graph.value(own)
    except GraphError as error:
        near = closest(plain, [*(n.name for n in graph), *graph.aliases])
        ends = graph.outputs if role == "output" else graph.inputs
        names = [v.name for v in ends] + (list(size_names(ends)) if role == "size" else [])
        role = "input" if role == "size" else role
        listed = f"its {role}s are {', '.join(names[:_SHOWN])}" if names else error.hint
        raise GraphError(f"there is no {role} '{name}' in the graph", graph.path, near or listed) from error
    if value.port and value not in value.node.outputs:
        raise GraphError(f"there is no {role} '{name}' in the graph", graph.path, f"see '{value.node.name}'")
    return value.name


def _learn_sizes(graph: Graph, values: Sequence[Value]) -> None:
    """Find the sizes of inner values that the file does not state, from what leads to them."""
    unknown = [v for v in values if v.spec.shape is None or v.dtype is None]
    if not unknown:
        return
    part = graph.clone()
    part.outputs = [part.value(v.name) for v in unknown]
    _leave_out_unneeded(part)
    try:
        lifted = _lifted(part, keep_grids=True)[0]
    except UnsupportedOp:  # what leads there has no counterpart: nothing more is known
        return
    infer_shapes(lifted)
    for value, found in zip(unknown, lifted.outputs, strict=True):
        value.spec = found.spec


def _feed(graph: Graph, values: Sequence[Value]) -> None:
    """Let values be fed, whatever computes them."""
    fed: list[Value] = []
    for value in values:
        if not value.node.op.startswith("Placeholder"):
            value = _place_for(graph, value)
        fed.append(value)
    graph.inputs = fed


def _place_for(graph: Graph, value: Value) -> Value:
    """An input in the place of an inner value, under its name."""
    spec, node, name = value.spec, value.node, value.name
    attrs = {k: v for k, v in node.attrs.items() if k.startswith("quantization_")} if not value.port else {}
    attrs |= {"shape": ShapeAttr(spec.shape)} | ({"dtype": spec.dtype} if spec.dtype is not None else {})
    plain = node.name if not value.port else graph.unique_name(name.replace(":", "_"))
    if not value.port:
        graph.rename(node, graph.unique_name(f"{plain}/computed"))
    place = graph.add("Placeholder", [], plain, attrs=attrs, before=node).output()
    place.spec = spec
    value.replace_uses(place)
    graph.outputs = [place if v is value else v for v in graph.outputs]
    for other, own in list(graph.aliases.items()):
        if own == name:
            graph.aliases[other] = place.name
    if value.port:
        graph.aliases[name] = place.name
    return place


def _writes_of(needed: Collection[Node], writers: Iterable[Node]) -> list[Node]:
    """Those of some writes that are not needed yet, of a variable that is."""
    # Files may have a handle for each use: it is the name that makes them one variable.
    held = {_variable(n) for n in needed}
    return [n for n in writers if n not in needed and _variable(n.inputs[0].node) in held]


def _variable(handle: Node) -> object:
    """What is the same for all handles of a variable."""
    if handle.op != "tfl.VAR_HANDLE":
        return handle
    return handle.get("container", ""), handle.get("shared_name", "")


def _leave_out_unneeded(graph: Graph) -> None:
    """Take out what the outputs do not need; writes to variables that they read are needed."""
    needed = ancestors([v.node for v in graph.outputs])
    writers = [n for n in graph if is_foreign(n.op) and n.inputs and not stated(n)]
    while late := _writes_of(needed, writers):
        needed |= ancestors(late)
    if any(n in needed for n in graph if n.op == "tfl.VAR_HANDLE"):
        needed |= {n for n in graph if n.op == "tfl.CALL_ONCE"}
    going = [n for n in graph if n not in needed]
    graph.inputs = [v for v in graph.inputs if v.node in needed]
    graph.remove(*going)
    known = {n.name for n in graph}
    graph.aliases = {o: name for o, name in graph.aliases.items() if name.partition(":")[0] in known}


def give_sizes(graph: Graph, shapes: Shapes) -> None:
    """As `assume`, by the names that the file gives to its inputs, or to sizes.

    Raises:
        GraphError: nothing is called so.
    """
    sizes = size_names(graph.inputs)
    assume(graph, {n if n in sizes else _own_name(graph, n, "size"): s for n, s in shapes.items()})


def assume(graph: Graph, shapes: Shapes) -> None:
    """Give inputs sizes; what the file says of values behind them holds no more where it says other sizes.

    Raises:
        FeedError: a shape for something that is no input, or one of another rank.
    """
    specs = override_shapes(graph.inputs, shapes)
    for value, spec in specs.items():
        _require_rank(value, spec)
    contradicts = any(_contradicts(value.spec, spec) for value, spec in specs.items())
    for value, spec in specs.items():
        value.node.attrs["shape"] = ShapeAttr(spec.shape)
    if contradicts:
        rebatch(graph, specs)
        _forget_sizes(graph)
        graph.functions = {name: _without_sizes(f) for name, f in graph.functions.items()}
    infer_shapes(graph, specs)


def _require_rank(value: Value, given: TensorSpec) -> None:
    """Refuse a shape of more or fewer sizes than the file states of an input.

    Raises:
        FeedError: it is.
    """
    declared = value.spec.shape
    if declared is not None and given.shape is not None and len(declared) != len(given.shape):
        raise FeedError(
            f"'{value.name}' is given {len(given.shape)} sizes, {shape_text(given.shape)}, and has "
            f"{len(declared)}, {shape_text(declared)}",
            hint=f"give {len(declared)}",
        )


def _contradicts(declared: TensorSpec, given: TensorSpec) -> bool:
    if declared.shape is None or given.shape is None:
        return False
    return any(None not in (a, b) and a != b for a, b in zip(declared.shape, given.shape, strict=True))


def _forget_sizes(graph: Graph, left: Callable[[Shape], Shape] = lambda shape: None) -> None:
    """Leave of what the file states of results their types, and of their shapes what a function says."""
    for node in graph:
        known = node.attrs_view.get("_output_shapes")
        # A state has the sizes that it is stored with: nothing else tells them.
        if isinstance(known, tuple) and node.op != "tfl.variable":
            node.attrs["_output_shapes"] = tuple(
                ShapeAttr(left(s.dims)) if isinstance(s, ShapeAttr) else ShapeAttr(None) for s in known
            )
            for value in node.outputs:
                value.spec = TensorSpec(value.spec.dtype, None)


def _without_batch(shape: Shape) -> Shape:
    return (None, *shape[1:]) if shape else shape


def _without_sizes(function: Function) -> Function:
    """A function that states no sizes; a copy, as others may hold the same library."""
    body = function.graph.clone()
    _forget_sizes(body)
    ends = ([body.value(v.name) for v in side] for side in (function.inputs, function.outputs))
    return replace(function, graph=body, inputs=next(ends), outputs=next(ends))


def has_rules(graph: Graph) -> bool:
    """True if there is a rule for every op of a graph in another vocabulary; rules may refuse still."""
    from thinflow.lift.rules import rule_for

    return all(rule_for(node.op) is not None for node in graph if is_foreign(node.op))
