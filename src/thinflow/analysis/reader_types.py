"""Element types of values whose op nobody knows, told by the ops that read them."""

from __future__ import annotations

from collections.abc import Sequence

from thinflow.ir.graph import Node, Value
from thinflow.ir.types import UNKNOWN, DType, TensorSpec
from thinflow.ops.traits import Trait, has


def unknown_specs(node: Node) -> tuple[TensorSpec, ...]:
    """Specs of the outputs that a node of an unknown op is seen to have: the types their readers ask for."""
    return tuple(TensorSpec(_asked_for(value)) for value in node.outputs)


def typed_inputs(node: Node, inputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    """Specs of a node's inputs, with the type it says they have where they come without one."""
    if all(spec.dtype is not None for spec in inputs):
        return inputs
    return [
        TensorSpec(_stated(node, i), spec.shape) if spec is UNKNOWN or spec.dtype is None else spec
        for i, spec in enumerate(inputs)
    ]


def _asked_for(value: Value) -> DType | None:
    found = {_stated(use.node, use.index) for use in value.uses} - {None}
    return found.pop() if len(found) == 1 else None


def _stated(node: Node, index: int) -> DType | None:
    """The type an op says its input has; None if it says none."""
    # Of some ops T is the type of the first input only.
    if not has(node.op, Trait.T_OF_ALL_INPUTS if index else Trait.T_OF_ALL_INPUTS | Trait.T_OF_FIRST_INPUT):
        return None
    element = node.attrs_view.get("T")
    return element if isinstance(element, DType) else None
