"""Types of options and values: those that a file may state, that TensorFlow wants, and that follow."""

from __future__ import annotations

from collections.abc import Sequence
from types import UnionType
from typing import Any

from thinflow.analysis.shapes import infer_node
from thinflow.errors import ThinflowError, UnsupportedOp
from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Node, Value
from thinflow.ir.types import Shape, TensorSpec
from thinflow.ops._operand_types import operand_types
from thinflow.ops.traits import Trait, has


def types_of(op: str, inputs: Sequence[Value]) -> dict[str, Attr]:
    """Attributes of an op that repeat the types of its inputs, as far as those are known."""
    types = operand_types(op, [v.dtype for v in inputs])
    if types is not None:
        return types
    # An op of ours, such as one that TensorFlow has no more.
    return {"T": inputs[0].dtype} if inputs and inputs[0].dtype is not None else {}


def inferred(node: Node) -> tuple[TensorSpec, ...]:
    """Specs of the results by the op's shape rule; none where it has no rule, or its operands do not fit."""
    # Their functions are lifted later; the file says what they give.
    if has(node.op, Trait.IF | Trait.WHILE | Trait.CALL):
        return ()
    try:
        return infer_node(node, [v.spec for v in node.inputs])
    except ThinflowError:  # the run will say so, if it is so
        return ()


_KINDS: tuple[tuple[type | UnionType, type | UnionType, str], ...] = (
    (int, int, "whole number"),
    (float, int | float, "number"),
    (str | bytes, str | bytes, "text"),
    (tuple, tuple, "list"),
)


def of_kind(option: str, given: Any, default: Any) -> Any:
    """An option's value, which has to be of the kind of its default.

    Raises:
        UnsupportedOp: it is not.
    """
    for kind, accepted, name in _KINDS:
        if isinstance(default, kind) and not isinstance(given, accepted):
            raise UnsupportedOp(f"its option '{option}' is {str(given)[:40]!r}, which is no {name}")
    return given


Disputed = dict[Value, tuple[TensorSpec, TensorSpec]]
"""Values of a file -> the spec that follows for them, and the one that the file states, which cannot be."""


def are_apart(made: Shape, stated: Shape) -> bool:
    """True if a shape that follows from an op is none of those that a file states."""
    if made is None or stated is None:
        return False
    pairs = zip(made, stated, strict=False)
    return len(made) != len(stated) or any(None not in (m, n) and m != n for m, n in pairs)


def has_old_batch(made: Shape, stated: Shape) -> bool:
    """True if a file states a batch where it leaves that open at its inputs.

    Whoever opens the batch of a file that was exported for one picture seldom changes what is stated inside.
    """
    if not made or not stated or len(made) != len(stated):
        return False
    return made[0] is None and stated[0] is not None


def both(made: TensorSpec, stated: TensorSpec) -> TensorSpec:
    """The spec that the file states for a value, filled up by what follows from its op."""
    # The file's word goes first: rules infer less from operands whose sizes are open.
    kind = stated.dtype or made.dtype
    if stated.shape is None:
        return TensorSpec(kind, made.shape, made.elements)
    if made.shape is None or len(stated.shape) != len(made.shape):
        return TensorSpec(kind, stated.shape)
    shape = tuple(m if n is None else n for m, n in zip(made.shape, stated.shape, strict=True))
    # Elements were inferred for the inferred shape and mean nothing for another.
    return TensorSpec(kind, shape, made.elements if shape == made.shape else None)
