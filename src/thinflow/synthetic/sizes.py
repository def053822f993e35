"""Sizes for what a graph leaves open, with which made-up inputs go through it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from thinflow.analysis.shapes import declared_spec, infer_shapes
from thinflow.analysis.size_names import size_names
from thinflow.analysis.training_mode import inference_setting
from thinflow.ir.graph import Value, graph_of
from thinflow.ir.types import RESOURCE, Shape, TensorSpec
from thinflow.synthetic.files import DEFAULT_SIZE
from thinflow.synthetic.integers import is_splits, sound_shape

TRIED = (
    (DEFAULT_SIZE, 8),
    (224, 16),
    (256, 64),
    (320, 256),
    (512, 512),
    (128, 1024),
    (64, 4096),
    (96, 16000),
)
"""Sides of pictures, and numbers of steps or samples; those first that any model is fed, of any format."""
_SIDES = (28, 32, 299, 48, 100, 112, 160, 192, 227, 300, 416, 40, 80, 84, 150, 180, 200, 240, 384, 448, 640)
"""Sides that datasets and well-known models have: a product behind a picture takes just one."""
USUAL = (224, 16)
"""What a hint proposes where it fits."""
_MOST_NODES = 3000
"""Of a graph that is tried with more than the first of them: inferring shapes takes some 0.05 ms a node."""


def concrete_shape(spec: TensorSpec, side: int = DEFAULT_SIZE, count: int = 8) -> tuple[int, ...]:
    """A shape to run with: 1 for an unknown batch, `side` for unknown sizes of a picture, else `count`."""
    if spec.shape is None:
        return ()
    sides = picture_sides(spec.shape)
    # A scalar has no sizes; the batch in front is left over then, hence no strict zip.
    sizes = [1, *(side if axis in sides else count for axis in range(1, len(spec.shape)))]
    return tuple(known if known is not None else size for known, size in zip(spec.shape, sizes, strict=False))


def likely_shape(value: Value, spec: TensorSpec, side: int = DEFAULT_SIZE, count: int = 8) -> tuple[int, ...]:
    """As `concrete_shape`, and a second long where a sound may have any length; of a ragged input one row."""
    if spec.shape is not None and spec.shape[:1] == (None,):
        rows = (2,) if splits(value) else (_IN_ROWS,) if rows_of(value) else ()
        spec = TensorSpec(spec.dtype, (*rows, *spec.shape[len(rows) :]))
    shape = sound_shape(value, _sizes_by_name(value, spec.shape))
    return concrete_shape(TensorSpec(spec.dtype, shape), side, count)


_IN_ROWS = 8
"""Values of a ragged input of any length."""


def splits(value: Value) -> bool:
    """True for an input that parts another one into rows."""
    spec, graph = declared_spec(value), graph_of(value.node)
    is_list = spec.dtype is not None and spec.dtype.is_integer and len(spec.shape or ()) == 1
    # Behind the other one: what comes first has nothing to part.
    return is_list and graph is not None and value in graph.inputs[1:] and is_splits(value)


def rows_of(value: Value) -> list[Value]:
    """The inputs behind one that part it into rows, from the outside; TensorFlow puts them there."""
    graph = graph_of(value.node)
    inputs = [] if graph is None else graph.inputs
    if value not in inputs or splits(value):
        return []
    return list(itertools.takewhile(splits, inputs[inputs.index(value) + 1 :]))


def in_rows(value: Value) -> int:
    """How many there are of what an input parts into rows: values, or rows of them."""
    graph = graph_of(value.node)
    for other in [] if graph is None else graph.inputs:
        nest = rows_of(other)
        if value in nest:
            below = nest[nest.index(value) + 1 :]
            shape = likely_shape(below[0] if below else other, declared_spec(below[0] if below else other))
            return max(shape[0] - 1, 0) if below else shape[0] if shape else 1
    return 1


def _sizes_by_name(value: Value, shape: Shape) -> Shape:
    """A shape with those open sizes settled that the file has the same name for elsewhere: a batch is one
    wherever it stands, in front or not, and other sizes are those of the first input that has them.
    """
    graph = graph_of(value.node)
    if graph is None or shape is None or None not in shape:
        return shape
    sizes = list(shape)
    for places in size_names(graph.inputs).values():
        first, axis = places[0]
        for own in [n for v, n in places if v == value and n < len(sizes) and sizes[n] is None]:
            if any(n == 0 for _, n in places):
                sizes[own] = 1
            elif first != value:
                others = declared_spec(first)
                sizes[own] = concrete_shape(TensorSpec(others.dtype, sound_shape(first, others.shape)))[axis]
    return tuple(sizes)


def picture_sides(shape: Sequence[int | None]) -> tuple[int, ...]:
    """The axes of a picture's height and width: [n,h,w,c], but [n,c,h,w] if only the second size is known."""
    if len(shape) != 4:
        return ()
    return (2, 3) if shape[1] is not None and shape[3] is None else (1, 2)


def open_sizes(inputs: Sequence[Value]) -> dict[str, TensorSpec]:
    """The inputs of which more than the batch is left open: name -> what is known."""
    known = {v: declared_spec(v) for v in inputs if declared_spec(v).dtype is not RESOURCE}
    # A training switch has the value of inference, whatever its shape.
    known = {v: spec for v, spec in known.items() if inference_setting(v.node) is None}
    specs = {v.name: TensorSpec(s.dtype, _sizes_by_name(v, s.shape)) for v, s in known.items()}
    return {n: s for n, s in specs.items() if s.shape is None or None in s.shape[1:]}


def fitting_specs(
    inputs: Sequence[Value],
    specs: Mapping[Value, TensorSpec] | None = None,
    first: tuple[int, int] = TRIED[0],
) -> dict[Value, TensorSpec]:
    """Specs of inputs of TensorFlow's ops, with open sizes such that they fit each other; what is known where
    nothing is open, or nothing that is tried fits.

    Args:
        inputs: of one graph.
        specs: what is known of them beyond what they declare.
        first: sizes to try before all others: a picture's side, and steps.
    """
    known = {value: (specs or {}).get(value) or declared_spec(value) for value in inputs}
    graph = graph_of(inputs[0].node) if inputs else None
    is_open = any(
        s.shape is not None and None in s.shape[1:] and s.dtype is not RESOURCE for s in known.values()
    )
    if graph is None or graph.vocabulary or not is_open:
        return dict(specs or {})
    twin = graph.clone()
    twins = {value: twin.value(value.name) for value in inputs}
    # What does not fit whatever the sizes are is nobody's fault here.
    odd = infer_shapes(twin, {twins[value]: spec for value, spec in known.items()}).keys()
    for side, count in (first, *TRIED, *((side, first[1]) for side in _SIDES)):
        settled = {
            value: TensorSpec(spec.dtype, likely_shape(value, spec, side, count))
            if spec.shape is not None
            else spec
            for value, spec in known.items()
        }
        if infer_shapes(twin, {twins[value]: spec for value, spec in settled.items()}).keys() <= odd:
            return settled
        if len(twin) > _MOST_NODES:
            break
    return dict(specs or {})
