"""Sizes for a graph of a file's own ops: those that it leaves open, chosen so that they fit each other, and
those of its inner values, as they follow from its inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from thinflow import formats
from thinflow.analysis.shapes import declared_spec, infer_shapes
from thinflow.analysis.size_names import is_settled, size_names
from thinflow.errors import ThinflowError, UnsupportedOp
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import RESOURCE, Shape, TensorSpec
from thinflow.load.lifted import give_sizes, in_tensorflow
from thinflow.synthetic.sizes import TRIED, fitting_specs, picture_sides

Shapes = dict[str, tuple[int | None, ...]]

_MOST_NODES = 3000
"""Of a graph that is tried with more than the first of them; lifting one takes some 0.1 ms a node."""


def fitting_sizes(graph: Graph) -> Shapes:
    """Sizes with which a model can be lifted: name of a size, or of an input -> as `load` takes them.

    Args:
        graph: of a file's own ops, shapes inferred; not changed.

    Returns:
        Nothing where no more than the batch is open, and where none of those that are tried fit.
    """
    if not usual_sizes(graph):
        return {}
    tried = (_chosen(graph, *sizes) for sizes in TRIED[: 1 if len(graph) > _MOST_NODES else None])
    return next((shapes for shapes in tried if _fits(graph, shapes)), {})


def usual_sizes(graph: Graph) -> Shapes:
    """As `fitting_sizes`, the first that are tried, whether or not they fit."""
    is_open = any(_is_unsettled(declared_spec(v).shape, v) for v in graph.inputs)
    return _chosen(graph, *TRIED[0]) if is_open else {}


def sizes_to_try(graph: Graph) -> Iterator[Shapes]:
    """Sizes for all that a graph leaves open, the likeliest first, whether or not they fit.

    Args:
        graph: shapes inferred.
    """
    tried = (_chosen(graph, *sizes) for sizes in TRIED)
    yield from (shapes for shapes in tried if shapes)
    found = {v.name: spec.shape for v, spec in fitting_specs(graph.inputs).items() if spec.shape is not None}
    if found:
        yield found


def sizes_to_feed(
    path: str, shapes: Mapping[str, Sequence[int | None]], signature: str | None = None
) -> list[Shape]:
    """The shape of each input of a file, in its order, with open sizes settled so that they fit each other.

    Args:
        path: of a file in its own ops.
        shapes: those that are given, by the names of inputs or sizes.
        signature: of a .tflite file.

    Raises:
        GraphError: a shape for something that is no input.
        FeedError: several numbers for one size, or one that is none, or a shape of another rank.
    """
    graph = formats.load(path, signature=signature)
    infer_shapes(graph)
    give_sizes(graph, shapes)
    give_sizes(graph, fitting_sizes(graph))
    return [declared_spec(v).shape for v in graph.inputs]


def sizes_of_file(path: str, signature: str | None = None) -> Shapes:
    """The shapes of a file's inputs, by their names, with open sizes settled as `fitting_sizes` does.

    Raises:
        ThinflowError: the file cannot be opened any more.
    """
    graph = formats.load(path, signature=signature)
    infer_shapes(graph)
    give_sizes(graph, fitting_sizes(graph))
    shapes = {v.name: declared_spec(v).shape for v in graph.inputs}
    return {name: shape for name, shape in shapes.items() if shape is not None}


def _is_unsettled(shape: Shape, value: Value) -> bool:
    return value.dtype is not RESOURCE and shape is not None and None in shape[1:]


def _chosen(graph: Graph, side: int, count: int) -> Shapes:
    """Sizes for all that is open: by their names where the file has some, else by inputs."""
    named = {n: places for n, places in size_names(graph.inputs).items() if not is_settled(places)}
    found: Shapes = {}
    for name, places in named.items():
        # A batch is one wherever it is, in front or not: the first place of a state counts its layers.
        is_batch = any(axis == 0 for _, axis in places)
        value, axis = places[0]
        found[name] = (1 if is_batch else _usual(declared_spec(value).shape or (), axis, side, count),)
    settled = {(value, axis) for places in named.values() for value, axis in places}
    for value in graph.inputs:
        shape = declared_spec(value).shape
        if not _is_unsettled(shape, value) or shape is None:
            continue
        if any(size is None and (value, axis) not in settled for axis, size in enumerate(shape)):
            found[value.name] = tuple(
                _usual(shape, axis, side, count) if size is None else size for axis, size in enumerate(shape)
            )
    return found


def _usual(shape: Sequence[int | None], axis: int, side: int, count: int) -> int:
    if not axis:
        return 1
    return side if axis in picture_sides(shape) else count


def _fits(graph: Graph, shapes: Shapes) -> bool:
    """True if the model can be put into TensorFlow's ops with those sizes, and all its own fit each other."""
    try:
        lifted = in_tensorflow(graph.clone(), shapes=shapes)
    except ThinflowError:
        return False
    return not infer_shapes(lifted)


def naming_sizes(error: UnsupportedOp, graph: Graph) -> UnsupportedOp:
    """The error with sizes in its hint, where the model can be lifted once those that are open are given.

    Args:
        error: of the lifting.
        graph: which it left: of the file's own ops, inputs and outputs chosen.
    """
    flags = (f"--shape {n}={','.join(map(str, sizes))}" for n, sizes in fitting_sizes(graph).items())
    if not (text := " ".join(flags)):
        return error
    return UnsupportedOp(
        f"{error.problem}; that depends on sizes which the file leaves open",
        error.where,
        hint=f"say what sizes it has, for example {text}",
    )


def settle_sizes(graph: Graph, shapes: Mapping[str, Sequence[int | None]]) -> dict[str, str]:
    """Give inputs of a graph sizes, and inner values those that follow, as TensorFlow's ops tell them.

    Args:
        graph: of a file's own ops; edited.
        shapes: as for `load`.

    Returns:
        Node -> why its sizes do not fit.

    Raises:
        GraphError: a shape for something that is no input.
        FeedError: one of another rank.
    """
    infer_shapes(graph)
    whole = graph.clone()
    give_sizes(graph, shapes)
    try:
        lifted = in_tensorflow(whole, shapes=shapes)
    except ThinflowError as error:
        # What cannot be lifted at all has the sizes that its file's own ops tell.
        return {error.where.partition("'")[2].partition("'")[0]: error.problem} if error.where else {}
    failures = infer_shapes(lifted)
    for node in graph:
        known = [_spec_of(lifted, value) for value in node.outputs if node.tensor is None]
        types = [spec.dtype for spec in known if spec.dtype is not None]
        if known and len(types) == len(known) and not node.op.startswith("Placeholder"):
            node.attrs["_output_shapes"] = tuple(ShapeAttr(spec.shape) for spec in known)
            node.attrs["_output_types"] = tuple(types)
    return failures


def _spec_of(lifted: Graph, value: Value) -> TensorSpec:
    """What the lifted graph knows of a value, which has its name there."""
    name = lifted.aliases.get(value.name, value.name)
    found = lifted.find(name.partition(":")[0])
    if found is None:
        return value.spec
    spec = lifted.value(name).spec
    # A type that the file does not state follows, too: behind ops of a runtime's own nothing else tells it.
    return TensorSpec(value.dtype or spec.dtype, _joined(spec.shape, value.shape))


def _joined(found: Shape, stated: Shape) -> Shape:
    """The sizes that were found, and where those are open what the file states."""
    if found is None or stated is None or len(found) != len(stated):
        return stated if found is None else found
    return tuple(b if a is None else a for a, b in zip(found, stated, strict=True))
