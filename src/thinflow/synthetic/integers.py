"""Made-up numbers that mean something to the ops that read them.

Indices lie within the tables they look into, divisors are not 0, segments are in order. What says how
much there is of something, a rate, a size, a shape or a count, is such as the op takes: zeros and numbers
drawn from anywhere are refused, or make results without elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from thinflow.analysis.tables import Content, content_of
from thinflow.ir.graph import Node, Use, Value
from thinflow.ir.order import uses_through
from thinflow.ir.types import Shape
from thinflow.ir.vocabulary import TFL_CUSTOM
from thinflow.ops import registry
from thinflow.ops.traits import Role, Trait, has
from thinflow.synthetic.files import DEFAULT_SIZE
from thinflow.typing import Array

_FIRST = (
    Trait.PASSES_THROUGH | Trait.RESHAPE | Trait.REARRANGES | Trait.CAST | Trait.PAD
    | Trait.RECTIFIER | Trait.HAS_DIVISOR | Trait.PLACEHOLDER
)  # fmt: skip
"""Ops that hand the integers of input 0 on, from 0 on none larger than those that came in."""
_ANY = Trait.CONCAT | Trait.STACK | Trait.SELECT | Trait.SPLIT | Trait.EXTREME
"""Ops that do so with several inputs."""


def index_limit(value: Value) -> int | None:
    """The size of the smallest table that the numbers of a value are looked up in; None if in none."""
    sizes = [s for use in uses_of(value) if (s := _table_size(use)) is not None]
    return min(sizes, default=None)


def known_keys(value: Value) -> list[int]:
    """The numbers that a table holds in which those of a value are looked up; none if in none."""
    for use in uses_of(value):
        content = content_of(use.node) if use.index == 1 and has(use.node.op, Trait.TABLE_FIND) else ""
        if isinstance(content, Content) and content.key.is_integer:
            return list(content.items)
    return []


def is_divisor(value: Value) -> bool:
    """True if something is divided by these numbers."""
    return any(use.index == 1 and has(use.node.op, Trait.HAS_DIVISOR) for use in uses_of(value))


def is_segmentation(value: Value) -> bool:
    """True if the numbers say which rows belong together, which must be in order."""
    return any(use.index == 1 and has(use.node.op, Trait.SEGMENT) for use in uses_of(value))


def name_places_once(value: Value) -> bool:
    """True if something is put at these places, of which none may be named twice."""
    return any(use.index == 1 and use.node.attrs_view.get("_is_unique") for use in uses_of(value))


def is_splits(value: Value) -> bool:
    """True if the numbers say where rows of another input begin, and where the last one ends."""
    sides: dict[Node, set[int]] = {}
    for use in uses_of(value):
        if role_of(use) is Role.SPLITS:
            return True
        # How long rows are: each number without the one before it.
        if use.node.op == "Sub":
            sides.setdefault(use.node, set()).add(use.index)
    return any(len(both) == 2 for both in sides.values())


def row_ends(rows: int, count: int) -> Array:
    """Where so many rows of about the same length begin, and where the last of them ends."""
    return np.arange(rows + 1) * count // max(rows, 1)


def uses_of(value: Value) -> Iterator[Use]:
    """The readers of a value, itself or behind nodes that hand it on."""
    return uses_through(value, _handed_on)


def _handed_on(use: Use) -> Sequence[Value]:
    """The outputs of a reader whose numbers are among those that went in, or smaller."""
    op = use.node.op
    is_within = has(op, _ANY) or (use.index == 0 and (op == "Abs" or has(op, _FIRST)))
    return use.node.outputs if is_within else ()


def _table_size(use: Use) -> int | None:
    """Rows of the table that a gather looks into with these indices; None for any other reader."""
    node = use.node
    if use.index == 1 and (node.op == "ResourceGather" or has(node.op, Trait.GATHER)):
        return _size_at(node.inputs[0], _axis(node))
    if node.op in ("GatherNd", "TensorScatterUpdate") and use.index == 1:
        shape = _shape(node.inputs[0])
        depth = (_shape(node.inputs[1]) or (None,))[-1]
        # One number of each index goes to each of the first axes, so all must fit the smallest.
        known = [n for n in (shape or ())[:depth] if n is not None]
        return min(known, default=None)
    return None


def _axis(node: Node) -> int | None:
    """The axis along which a gather looks; None if that is computed."""
    if node.op != "GatherV2" or len(node.inputs) < 3:
        return 0
    axis = node.inputs[2].node.tensor
    return int(axis.numpy()) if axis is not None else None


def _size_at(table: Value, axis: int | None) -> int | None:
    shape = _shape(table)
    if shape is None or axis is None or not -len(shape) <= axis < len(shape):
        return None
    return shape[axis]


def _shape(value: Value) -> Shape:
    """The shape that inference found, or that of a constant."""
    if value.spec.shape is not None:
        return value.spec.shape
    return value.node.tensor.shape if value.node.tensor is not None else None


# --- how much there is of something -------------------------------------------------------------------------

RATE = 16000
"""Samples a second that speech models are made for, and how long a sound of open length is made."""
"""In front of ops that a .tflite file has by TensorFlow's own names."""
_FOREIGN: Mapping[str, tuple[Role | None, ...]] = {
    **dict.fromkeys(("tfl.RESIZE_BILINEAR", "tfl.RESIZE_NEAREST_NEIGHBOR"), (None, Role.SIDES)),
    "AudioSummaryV2": (None, None, Role.RATE),
    **dict.fromkeys(("tfl.RESHAPE", "onnx.Reshape"), (None, Role.SHAPE)),
    **dict.fromkeys(("tfl.FILL", "onnx.ConstantOfShape"), (Role.COUNT,)),
    **dict.fromkeys(("tfl.TILE", "onnx.Tile", "tfl.TOPK_V2", "onnx.TopK", "tfl.ONE_HOT"), (None, Role.COUNT)),
}
"""Op without a definition here -> what the numbers of its inputs are, as `OpDef.roles` says of others."""
_MOST = 3
"""Of what is counted: few, as sizes multiply, and one of k largest may be of few."""


def amounts_for(value: Value, shape: tuple[int, ...], rng: np.random.Generator) -> Array | None:
    """Numbers for an input that says how much there is of something; None if it does not."""
    for use in uses_of(value):
        match role_of(use):
            case Role.RATE:
                return np.full(shape, RATE)
            case Role.SIDES:
                return np.full(shape, DEFAULT_SIZE)
            case Role.SHAPE if len(shape) == 1:
                # [-1, 1, 1, ...] takes any number of elements.
                return np.where(np.arange(shape[0]) == 0, -1, 1)
            case Role.COUNT:
                return rng.integers(1, _MOST, shape, endpoint=True)
    return None


def role_of(use: Use) -> Role | None:
    """The meaning of the numbers of an input; None if any will do."""
    op = use.node.op.removeprefix(TFL_CUSTOM)
    definition = registry.find(op)
    roles = _FOREIGN.get(op, ()) if definition is None else definition.roles
    return roles[use.index] if use.index < len(roles) else None


def sound_shape(value: Value, shape: Shape) -> Shape:
    """The shape with an open length settled where a value is a sound [samples, channels]: one of a second."""
    if shape is None or len(shape) != 2 or shape[0] is not None:
        return shape
    return (RATE, shape[1]) if any(role_of(use) is Role.SOUND for use in uses_of(value)) else shape
