"""Another batch for a graph of a file's own ops, whose reshapes and states have that of the file written in.

RESHAPE(x [1,8,8,16], [1,-1,16])     ->     RESHAPE(x [n,8,8,16], [-1,64,16])
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import TensorSpec

_RESHAPE, _STATE = "tfl.RESHAPE", "tfl.variable"


def rebatch(graph: Graph, specs: Mapping[Value, TensorSpec]) -> None:
    """Let shapes that are written into a .tflite graph follow a batch that its inputs are given.

    Where all inputs that get other sizes had one batch and get one other, a reshape that keeps the batch of
    what it is given keeps the new one, and so does a state that has the batch in front.

    Args:
        graph: with the sizes that the file states; edited.
        specs: what the inputs are given.
    """
    batches = {(_first(v.spec), _first(spec)) for v, spec in specs.items()}
    changed = {(old, new) for old, new in batches if old is not None and old != new}
    if len(changed) != 1:
        return
    ((old, new),) = changed
    for node in graph:
        if node.op == _RESHAPE:
            _free(graph, node, old, is_batch_only=_only_batch(specs))
        elif node.op == _STATE and new is not None:
            _enlarge(node, old, new)


def _first(spec: TensorSpec) -> int | None:
    return spec.shape[0] if spec.shape else None


def _only_batch(specs: Mapping[Value, TensorSpec]) -> bool:
    """True if no other size of an input changes."""
    return all(
        v.spec.shape is None or s.shape is None or v.spec.shape[1:] == s.shape[1:] for v, s in specs.items()
    )


def _free(graph: Graph, node: Node, old: int, *, is_batch_only: bool) -> None:
    """Let a reshape find the batch by itself."""
    given, result = node.inputs[0].spec.shape, node.output().spec.shape
    if not given or not result or given[0] != old or result[0] != old or None in result:
        return
    wanted = _wanted(node)
    # What the file computes follows the batch already; nothing but a constant has it written in.
    if wanted is None or wanted[:1] != (old,):
        return
    # Other sizes are those that the file states, unless they change as well; then only one can be found.
    rest = result[1:] if is_batch_only else wanted[1:]
    if -1 in rest:
        return
    shape = np.array((-1, *(n or 0 for n in rest)), np.int32)
    if len(node.inputs) > 1:
        fresh = graph.constant(shape, graph.unique_name(f"{node.name}/shape"), before=node)
        node.set_input(1, fresh)
    else:
        node.attrs["new_shape"] = tuple(shape.tolist())


def _wanted(node: Node) -> tuple[int, ...] | None:
    if len(node.inputs) > 1:
        tensor = node.inputs[1].node.tensor
        return tuple(tensor.numpy().ravel().tolist()) if tensor is not None else None
    stored = node.attrs.get("new_shape")
    return tuple(n for n in stored if isinstance(n, int)) if isinstance(stored, tuple) else None


def _enlarge(node: Node, old: int, new: int) -> None:
    """Give a state the batch."""
    shape = node.output().spec.shape
    if shape and shape[0] == old:
        node.output().spec = TensorSpec(node.output().dtype, (new, *shape[1:]))
        node.attrs["_output_shapes"] = (ShapeAttr((new, *shape[1:])),)
